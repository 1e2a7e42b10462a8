/* SPDX-License-Identifier: Apache-2.0 */
/* import_region_scatter.c: scatter and select_and_scatter.

   scatter_nd takes one array and a body of two scalars. Several arrays at once are scattered one after the other where
   their results do not depend on each other; where they do, or where the body needs scalars that only a run knows, a
   loop over the updates reads, combines and writes one element of each array at a time. */
#include "stablehlo/import/rule/import_region.h"

#include "graph/op/site.h"

#include <string.h>

/* ---- scatter ---- */

static flx_scatter_nd_attrs geometry_of(hlo_site *s)
{
    static const char numbers[] = "scatter_dimension_numbers";
    flx_scatter_nd_attrs a = FLX_SCATTER_ND_ATTRS;
    a.start_index_map = flxi_hlo_member_ints(s, numbers, "scatter_dims_to_operand_dims");
    a.offset_axes = flxi_hlo_member_ints(s, numbers, "update_window_dims");
    a.collapsed_axes = flxi_hlo_member_ints(s, numbers, "inserted_window_dims");
    a.operand_batching_axes = flxi_hlo_member_ints(s, numbers, "input_batching_dims");
    a.indices_batching_axes = flxi_hlo_member_ints(s, numbers, "scatter_indices_batching_dims");
    a.index_vector_axis = flxi_hlo_member_int(s, numbers, "index_vector_dim", 0);
    a.unique = flxi_hlo_flag(s, "unique_indices", false);
    a.oob = "zero";
    return a;
}

/* Whether result k is made from input k and update k alone; marks what it is made from on the way. */
static bool depends_on_own(const flx_graph *body, size_t n, size_t k, bool *reached)
{
    memset(reached, 0, (body->value_count + 1) * sizeof *reached);
    reached[body->outputs.at[k].val] = true;
    for (uint32_t i = body->node_count; i-- > 0;) {
        const flxi_node *node = flxi_node_at(body, i);
        bool is_needed = false;
        for (uint32_t r = 0; r < node->nout; r++)
            is_needed = is_needed || reached[node->first + r];
        for (uint32_t j = 0; is_needed && j < node->nin; j++)
            reached[node->in[j]] = true;
    }
    for (size_t i = 0; i < body->leaves.n; i++)
        if (reached[body->leaves.at[i]] && i != k && i != n + k)
            return false;
    return true;
}

/* Result k alone as a graph of input k and update k. NULL where it is made from others too, and after an error. */
static const flx_graph *own_body(hlo_site *s, const hlo_element_body *b, size_t n, size_t k)
{
    const flx_graph *body = b->graph;
    if (n == 1)
        return b->num_outer ? NULL : body;
    bool *reached = flxi_hlo_new(s, bool, body->value_count + 1);
    uint32_t *map = flxi_hlo_new(s, uint32_t, body->value_count + 1);
    if (!reached || !map || !depends_on_own(body, n, k, reached))
        return NULL;
    flx_graph *g = flxi_hlo_new_body(s);
    flx_error err = {0};
    flx_code code = g ? FLX_OK : FLX_E_OOM;
    for (size_t i = 0; g && i < 2; i++) {
        uint32_t leaf = body->leaves.at[i * n + k];
        map[leaf] = flxi_hlo_body_input(g, i, flxi_type_at(body, leaf)).id;
    }
    for (uint32_t i = 0; code == FLX_OK && i < body->node_count; i++) {
        const flxi_node *node = flxi_node_at(body, i);
        bool is_needed = false;
        for (uint32_t r = 0; r < node->nout; r++)
            is_needed = is_needed || reached[node->first + r];
        if (is_needed && !(flxi_ops[node->op].traits & TRAIT_DECLARED))
            code = flxi_graft(g, body, i, map, &err);
    }
    if (code != FLX_OK) {
        flxi_graph_fail(s->g, &err);
        return NULL;
    }
    flx_output(g, (flx_val){map[body->outputs.at[k].val], g->serial}, NULL);
    return flxi_hlo_finished(s, g);
}

/* The update alone is the word set; the element alone means that nothing changes. */
static flx_val scatter_one(hlo_site *s, flx_scatter_nd_attrs a, const flx_graph *body, flx_val x, flx_val indices,
                           flx_val update)
{
    const hlo_element_body own = {.graph = body, .num_args = 2};
    const hlo_combine_name *name = flxi_hlo_combine_name(&own);
    hlo_combination c;
    bool is_argument = flxi_hlo_combination(body, 0, &c) && !c.op;
    if (is_argument && c.a == 0)
        return x;
    if (name && name->neutral == HLO_ZERO && flxi_hlo_rounds(name, flxi_hlo_dtype(s, x)))
        name = NULL; /* the word would round once, the body does so at each step, as all other words do */
    a.combine.word = name ? name->word : is_argument ? "set" : NULL;
    a.combine.graph = a.combine.word ? NULL : body;
    return flx_scatter_nd_with(s->g, x, indices, update, &a);
}

/* ---- The loop over updates ---- */

static flx_val flattened(hlo_site *s, flx_val x)
{
    return flx_reshape(s->g, x, (flx_ints){(int64_t[]){-1}, 1});
}

static bool is_static(hlo_site *s, flx_val x)
{
    const flx_type *t = flxi_hlo_typeof(s, x);
    for (int k = 0; k < t->rank; k++)
        if (!flx_dim_is_static(t->dims[k])) {
            flxi_hlo_unsupported(s, "this region with an array whose extents only a run knows");
            return false;
        }
    return true;
}

/* The positions of x's elements in the flattened array, `first` at the beginning, in the shape of x. */
static flx_val numbered(hlo_site *s, flx_val x, double first)
{
    const flx_type *t = flxi_hlo_typeof(s, x);
    flx_type numbers = {.dtype = FLX_I64, .rank = 1, .dims = {1}};
    for (int k = 0; k < t->rank; k++)
        numbers.dims[0] *= t->dims[k];
    flx_val number = flx_add(s->g, flx_iota(s->g, &numbers, 0), flx_scalar(s->g, FLX_I64, first));
    return flx_reshape(s->g, number, flxi_hlo_dims(t));
}

/* Extents of the window of updates along the axes of x. */
static void window_sizes(const flx_scatter_nd_attrs *a, const flx_type *x, const flx_type *update, int64_t *sizes)
{
    size_t next = 0;
    for (int k = 0; k < x->rank; k++) {
        bool is_dropped = next >= a->offset_axes.n;
        for (size_t i = 0; i < a->collapsed_axes.n; i++)
            is_dropped = is_dropped || a->collapsed_axes.v[i] == k;
        for (size_t i = 0; i < a->operand_batching_axes.n; i++)
            is_dropped = is_dropped || a->operand_batching_axes.v[i] == k;
        int64_t axis = is_dropped ? -1 : a->offset_axes.v[next++];
        sizes[k] = axis >= 0 && axis < update->rank ? update->dims[axis] : 1;
    }
}

/* For each update the position of its element in the flattened array, −1 where there is none: positions plus 1 are
   gathered as the updates are scattered, and those outside are 0. */
static flx_val update_positions(hlo_site *s, const flx_scatter_nd_attrs *a, flx_val x, flx_val indices, flx_val update)
{
    int64_t sizes[FLX_MAX_RANK];
    window_sizes(a, flxi_hlo_typeof(s, x), flxi_hlo_typeof(s, update), sizes);
    flx_gather_nd_attrs g = {
        .struct_size = sizeof g,
        .slice_sizes = {sizes, (size_t)flxi_hlo_typeof(s, x)->rank},
        .start_index_map = a->start_index_map,
        .offset_axes = a->offset_axes,
        .collapsed_axes = a->collapsed_axes,
        .operand_batching_axes = a->operand_batching_axes,
        .indices_batching_axes = a->indices_batching_axes,
        .index_vector_axis = a->index_vector_axis,
        .oob = "zero",
    };
    flx_val position = flx_gather_nd_with(s->g, numbered(s, x, 1), indices, &g);
    return flx_sub(s->g, position, flx_scalar(s->g, FLX_I64, 1));
}

/* One update: inputs are the flattened arrays x, the outer scalars, a position and the updates; results the arrays. */
static const flx_graph *update_step(hlo_site *s, const hlo_element_body *b, const flx_val *x, size_t n)
{
    flx_graph *g = flxi_hlo_new_body(s);
    flx_val *in = flxi_hlo_new(s, flx_val, b->graph->leaves.n);
    flx_val *arrays = flxi_hlo_new(s, flx_val, n);
    flx_val *out = flxi_hlo_new(s, flx_val, b->graph->outputs.n);
    const flx_type index = {.dtype = FLX_I64};
    const flx_ints one = {(int64_t[]){1}, 1};
    size_t inputs = 0;
    if (!g || !in || !arrays || !out)
        return NULL;
    for (size_t i = 0; i < n; i++)
        arrays[i] = flxi_hlo_body_input(g, inputs++, flxi_hlo_typeof(s, x[i]));
    for (size_t i = 0; i < b->num_outer; i++)
        in[b->num_args + i] = flxi_hlo_body_input(g, inputs++, flxi_hlo_typeof(s, b->outer[i]));
    flx_val position = flxi_hlo_body_input(g, inputs++, &index);
    flx_val zero = flx_scalar(g, FLX_I64, 0);
    flx_val at = flx_max(g, position, zero);
    for (size_t i = 0; i < n; i++) {
        in[i] =
            flx_squeeze(g, flx_dynamic_slice(g, ((flx_val[]){arrays[i], at}), 2, one), (flx_ints){(int64_t[]){0}, 1});
        in[n + i] = flxi_hlo_body_input(g, inputs++, flxi_type_at(b->graph, b->graph->leaves.at[n + i]));
    }
    flxi_inline(g, b->graph, in, out);
    for (size_t i = 0; i < n; i++) {
        flx_val element = flx_where(g, flx_ge(g, position, zero), out[i], in[i]);
        flx_output(g, flx_dynamic_update_slice(g, (flx_val[]){arrays[i], flx_reshape(g, element, one), at}, 3), NULL);
    }
    return flxi_hlo_finished(s, g);
}

/* Combines the updates into the arrays x, each at its position, in row-major order. */
static void update_each(hlo_site *s, const hlo_element_body *b, const flx_val *x, size_t n, flx_val position,
                        const flx_val *updates, flx_val *y)
{
    flx_val *in = flxi_hlo_new(s, flx_val, 2 * n + 1 + b->num_outer);
    if (!in || !is_static(s, x[0]) || !is_static(s, updates[0]))
        return;
    for (size_t i = 0; i < n; i++) {
        in[i] = flattened(s, x[i]);
        in[n + b->num_outer + 1 + i] = flattened(s, updates[i]);
    }
    for (size_t i = 0; i < b->num_outer; i++)
        in[n + i] = b->outer[i];
    in[n + b->num_outer] = flattened(s, position);
    flx_scan_attrs a = FLX_SCAN_ATTRS;
    a.body = update_step(s, b, in, n);
    a.num_carry = (int64_t)n;
    a.num_bcast = (int64_t)b->num_outer;
    if (!a.body)
        return;
    flx_scan_with(s->g, in, 2 * n + 1 + b->num_outer, y, n, &a);
    for (size_t i = 0; i < n; i++) {
        const flx_type *t = flxi_hlo_typeof(s, x[i]);
        y[i] = flx_reshape(s->g, y[i], flxi_hlo_dims(t));
    }
}

/* ---- The rule of scatter ---- */

void flxi_hlo_import_scatter(hlo_site *s)
{
    size_t n = s->nx / 2;
    hlo_element_body body;
    const hlo_region *r = &s->op->regions[0];
    if (s->nx % 2 == 0 || n == 0 || s->ny != n) {
        flxi_hlo_fail(s, FLX_E_ARITY, NULL,
                      "it has %zu operands and %zu results, but takes arrays, indices and as many "
                      "updates, and returns the arrays",
                      s->nx, s->ny);
        return;
    }
    flx_scatter_nd_attrs a = geometry_of(s);
    const flx_val *x = flxi_hlo_promoted(s, r, 0, s->x, n);
    const flx_val *updates = flxi_hlo_promoted(s, r, n, s->x + n + 1, n);
    if (!x || !updates || !flxi_hlo_element_body(s, r, 2 * n, &body) || flxi_hlo_failed(s))
        return;
    size_t done = 0;
    for (; done < n; done++) {
        const flx_graph *own = own_body(s, &body, n, done);
        if (!own)
            break;
        s->y[done] = scatter_one(s, a, own, x[done], s->x[n], updates[done]);
    }
    if (done < n && !flxi_hlo_failed(s) && is_static(s, x[0]) && is_static(s, updates[0]))
        update_each(s, &body, x, n, update_positions(s, &a, x[0], s->x[n], updates[0]), updates, s->y);
}

/* ---- select_and_scatter ---- */

/* The word for a comparison that keeps (a, b) → a; NULL for other bodies. */
static const char *selection_word(const hlo_element_body *b)
{
    static const char *const words[][2] = {{"ge", "le"}, {"gt", "lt"}, {"le", "ge"}, {"lt", "gt"}};
    hlo_combination c;
    if (!flxi_hlo_combination(b->graph, 0, &c) || !c.op || c.a + c.b != 1)
        return NULL;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(c.op->name, words[i][0]) == 0)
            return words[i][c.a]; /* for swapped operands the mirrored one */
    return NULL;
}

/* A fold to the selected element and its position (−1 before the first): inputs are value, position and outer values so
   far, then value and position of an element, and what is next to the outer values. */
static const flx_graph *selection_fold(hlo_site *s, const hlo_element_body *b)
{
    size_t m = b->num_outer;
    flx_graph *g = flxi_hlo_new_body(s);
    flx_val *x = flxi_hlo_new(s, flx_val, 2 * (2 + m));
    flx_val *in = flxi_hlo_new(s, flx_val, 2 + m);
    const flx_type index = {.dtype = FLX_I64};
    if (!g || !x || !in)
        return NULL;
    for (size_t i = 0; i < 2 * (2 + m); i++) {
        size_t k = i % (2 + m);
        const flx_type *own = flxi_type_at(b->graph, b->graph->leaves.at[k]);
        x[i] = flxi_hlo_body_input(g, i, k == 1 ? &index : own);
    }
    in[0] = x[0];
    in[1] = x[2 + m];
    for (size_t i = 0; i < m; i++)
        in[2 + i] = x[2 + i];
    flx_val stays;
    flx_val zero = flx_scalar(g, FLX_I64, 0);
    flxi_inline(g, b->graph, in, &stays);
    flx_val is_padding = flx_lt(g, x[3 + m], zero);
    stays = flx_and(g, flx_ge(g, x[1], zero), flx_or(g, is_padding, stays));
    flx_output(g, flx_where(g, stays, x[0], x[2 + m]), NULL);
    flx_output(g, flx_where(g, stays, x[1], x[3 + m]), NULL);
    for (size_t i = 0; i < m; i++)
        flx_output(g, x[2 + i], NULL);
    return flxi_hlo_finished(s, g);
}

/* For bodies that need values of a run: positions by a fold over the windows, then the loop over updates. */
static flx_val select_by_loop(hlo_site *s, const flx_select_and_scatter_attrs *a, const hlo_element_body *select,
                              const hlo_element_body *combine, const flx_val *x)
{
    size_t m = select->num_outer;
    flx_val *in = flxi_hlo_new(s, flx_val, 2 * (2 + m));
    flx_val *out = flxi_hlo_new(s, flx_val, 2 + m);
    flx_reduce_window_attrs w = {.struct_size = sizeof w,
                                 .window = a->window,
                                 .strides = a->strides,
                                 .pad_low = a->pad_low,
                                 .pad_high = a->pad_high};
    w.combine.graph = selection_fold(s, select);
    flx_val y = FLX_NONE;
    if (!in || !out || !w.combine.graph || !is_static(s, x[0]))
        return y;
    in[0] = x[0];
    in[1] = numbered(s, x[0], 0);
    in[2 + m] = flxi_hlo_number(s, x[0], 0); /* never looked at */
    in[3 + m] = flx_scalar(s->g, FLX_I64, -1);
    for (size_t i = 0; i < m; i++) {
        in[2 + i] = flxi_hlo_like(s, select->outer[i], x[0]);
        in[4 + m + i] = select->outer[i];
    }
    flx_reduce_window_with(s->g, in, 2 * (2 + m), out, 2 + m, &w);
    flx_val start = flxi_hlo_like(s, x[2], x[0]);
    update_each(s, combine, &start, 1, out[1], &x[1], &y);
    return y;
}

void flxi_hlo_import_select_and_scatter(hlo_site *s)
{
    hlo_element_body select;
    hlo_element_body combine;
    size_t rank = (size_t)flxi_hlo_typeof(s, s->x[0])->rank;
    flx_select_and_scatter_attrs a = FLX_SELECT_AND_SCATTER_ATTRS;
    if (!flxi_hlo_element_body(s, &s->op->regions[0], 2, &select) ||
        !flxi_hlo_element_body(s, &s->op->regions[1], 2, &combine))
        return;
    a.window = flxi_hlo_ints_of(s, "window_dimensions", rank, 1);
    a.strides = flxi_hlo_ints_of(s, "window_strides", rank, 1);
    const flx_val *x = flxi_hlo_promoted(s, &s->op->regions[0], 0, s->x, 1);
    const flx_val *rest = flxi_hlo_promoted(s, &s->op->regions[1], 0, s->x + 1, 2);
    if (!flxi_hlo_padding(s, rank, &a.pad_low, &a.pad_high) || !x || !rest)
        return;
    if (select.num_outer || combine.num_outer || flxi_hlo_dtype(s, x[0]) != flxi_hlo_dtype(s, rest[0])) {
        s->y[0] = select_by_loop(s, &a, &select, &combine, (flx_val[]){x[0], rest[0], rest[1]});
        return;
    }
    const hlo_combine_name *name = flxi_hlo_combine_name(&combine);
    if (name && flxi_hlo_rounds(name, flxi_hlo_dtype(s, x[0])))
        name = NULL; /* as the body says, rounding at each step */
    a.select.word = selection_word(&select);
    a.select.graph = a.select.word ? NULL : select.graph;
    a.combine.word = name ? name->word : NULL;
    a.combine.graph = name ? NULL : combine.graph;
    s->y[0] = flx_select_and_scatter_with(s->g, x[0], rest[0], rest[1], &a);
}
