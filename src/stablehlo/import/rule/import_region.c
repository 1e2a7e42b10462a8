/* SPDX-License-Identifier: Apache-2.0 */
/* import_region.c: see import_region.h. */
#include "stablehlo/import/rule/import_region.h"

#include "graph/op/eval.h"
#include "graph/op/site.h"
#include "graph/type/type.h"

#include <stdio.h>
#include <string.h>

/* ---- Bodies ---- */

flx_val flxi_hlo_body_input(flx_graph *g, size_t i, const flx_type *type)
{
    char name[32];
    snprintf(name, sizeof name, "x%zu", i);
    return flx_input(g, name, type);
}

flx_graph *flxi_hlo_new_body(hlo_site *s)
{
    flx_graph *g = flx_graph_new(s->g->ctx, "body");
    if (!g)
        flxi_hlo_fail(s, FLX_E_OOM, NULL, "no memory for a body");
    return g && flxi_hlo_keep(s, g) ? g : NULL;
}

const flx_graph *flxi_hlo_finished(hlo_site *s, const flx_graph *g)
{
    flx_error err = {0};
    if (flx_graph_error(g, &err) == FLX_OK)
        return g;
    flxi_graph_fail(s->g, &err);
    return NULL;
}

static const flx_type *leaf_type(const flx_graph *body, size_t i)
{
    return flxi_type_at(body, body->leaves.at[i]);
}

/* Appends the body's nodes to g and makes its results outputs. */
static void give_results(hlo_site *s, flx_graph *g, const flx_graph *body, const flx_val *in)
{
    flx_val *out = flxi_hlo_new(s, flx_val, body->outputs.n);
    if (!out)
        return;
    flxi_inline(g, body, in, out);
    for (size_t i = 0; i < body->outputs.n; i++)
        flx_output(g, out[i], NULL);
}

/* What represents capture v in the new body: a constant, or an input, with which v is added to the outer values. */
static flx_val settled(hlo_site *s, flx_graph *g, flx_val v, hlo_element_body *out, flx_val *outer)
{
    const flx_type *type = flxi_hlo_typeof(s, v);
    flx_tensor *known = flxi_hlo_known(s, v);
    flx_val result = FLX_NONE;
    if (known)
        result = flx_const(g, type, known);
    else if (type->rank == 0) {
        result = flxi_hlo_body_input(g, out->num_args + out->num_outer, type);
        outer[out->num_outer++] = v;
    } else
        flxi_hlo_unsupported(s, "its region uses a tensor from outside whose value only a run knows");
    flx_tensor_release(known);
    return result;
}

static bool settle_captures(hlo_site *s, const flx_graph *body, const hlo_captures *captures, hlo_element_body *out)
{
    flx_graph *g = flxi_hlo_new_body(s);
    flx_val *in = flxi_hlo_new(s, flx_val, body->leaves.n);
    flx_val *outer = flxi_hlo_new(s, flx_val, captures->num_vals);
    if (!g || !in || !outer)
        return false;
    for (size_t i = 0; i < out->num_args; i++)
        in[i] = flxi_hlo_body_input(g, i, leaf_type(body, i));
    for (size_t i = 0; i < captures->num_vals && !flxi_hlo_failed(s); i++)
        in[out->num_args + i] = settled(s, g, captures->vals[i], out, outer);
    if (flxi_hlo_failed(s))
        return false;
    give_results(s, g, body, in);
    out->outer = outer;
    out->graph = flxi_hlo_finished(s, g);
    return out->graph != NULL;
}

bool flxi_hlo_element_body(hlo_site *s, const hlo_region *r, size_t num_args, hlo_element_body *out)
{
    hlo_captures captures;
    *out = (hlo_element_body){.num_args = num_args};
    if (r->num_args != num_args) {
        flxi_hlo_fail(s, FLX_E_ARITY, NULL, "its region has %zu arguments, but needs %zu", r->num_args, num_args);
        return false;
    }
    if (!flxi_hlo_captures(s, r, 1, &captures))
        return false;
    const flx_graph *body = flxi_hlo_body(s, r, NULL, &captures);
    out->graph = body;
    return body && (captures.num_vals == 0 || settle_captures(s, body, &captures, out));
}

/* A graph with n inputs, input i of the type of the body's input like[i], on which the body runs; its input i is input
   feeds[i]. The first num_kept outer values are results too. */
static flx_graph *rearranged(hlo_site *s, const hlo_element_body *b, const size_t *like, size_t n, const size_t *feeds,
                             size_t num_kept)
{
    size_t leaves = b->num_args + b->num_outer;
    flx_graph *g = flxi_hlo_new_body(s);
    flx_val *own = flxi_hlo_new(s, flx_val, n);
    flx_val *in = flxi_hlo_new(s, flx_val, leaves);
    if (!g || !own || !in)
        return NULL;
    for (size_t i = 0; i < n; i++)
        own[i] = flxi_hlo_body_input(g, i, leaf_type(b->graph, like[i]));
    for (size_t i = 0; i < leaves; i++)
        in[i] = own[feeds[i]];
    give_results(s, g, b->graph, in);
    for (size_t i = 0; i < num_kept; i++)
        flx_output(g, in[b->num_args + i], NULL);
    return flxi_hlo_finished(s, g) ? g : NULL;
}

const flx_graph *flxi_hlo_fold_graph(hlo_site *s, const hlo_element_body *b)
{
    size_t n = b->num_args / 2;
    size_t m = b->num_outer;
    size_t *like = flxi_hlo_new(s, size_t, 2 * (n + m));
    size_t *feeds = flxi_hlo_new(s, size_t, 2 * n + m);
    if (m == 0 || !like || !feeds)
        return like && feeds ? b->graph : NULL;
    for (size_t half = 0; half < 2; half++) {
        for (size_t i = 0; i < n; i++) {
            like[half * (n + m) + i] = half * n + i;
            feeds[half * n + i] = half * (n + m) + i;
        }
        for (size_t i = 0; i < m; i++)
            like[half * (n + m) + n + i] = 2 * n + i;
    }
    for (size_t i = 0; i < m; i++)
        feeds[2 * n + i] = n + i;
    return rearranged(s, b, like, 2 * (n + m), feeds, m);
}

const flx_graph *flxi_hlo_compare_graph(hlo_site *s, const hlo_element_body *b)
{
    size_t m = b->num_outer;
    size_t *like = flxi_hlo_new(s, size_t, b->num_args + 2 * m);
    size_t *feeds = flxi_hlo_new(s, size_t, b->num_args + m);
    if (m == 0 || !like || !feeds)
        return like && feeds ? b->graph : NULL;
    for (size_t i = 0; i < b->num_args; i++)
        like[i] = feeds[i] = i;
    for (size_t i = 0; i < m; i++) {
        feeds[b->num_args + i] = b->num_args + 2 * i;
        like[b->num_args + 2 * i] = like[b->num_args + 2 * i + 1] = b->num_args + i;
    }
    return rearranged(s, b, like, b->num_args + 2 * m, feeds, 0);
}

/* ---- Combinations with a name ---- */

static bool leaf_position(const flx_graph *body, uint32_t id, size_t *at)
{
    *at = flxi_leaf_at(body, id);
    return *at < body->leaves.n;
}

bool flxi_hlo_combination(const flx_graph *body, size_t output, hlo_combination *out)
{
    if (output >= body->outputs.n)
        return false;
    uint32_t id = body->outputs.at[output].val;
    *out = (hlo_combination){0};
    if (leaf_position(body, id, &out->a))
        return true;
    const flxi_node *n = flxi_node_of(body, id);
    out->op = &flxi_ops[n->op];
    return n->nin == 2 && n->nout == 1 && !n->attrs && leaf_position(body, n->in[0], &out->a) &&
           leaf_position(body, n->in[1], &out->b);
}

static const hlo_combine_name combine_names[] = {
    {"add", HLO_ZERO, "add", "reduce_sum", "cumsum"},   {"mul", HLO_ONE, "mul", "reduce_prod", "cumprod"},
    {"max", HLO_LOWEST, "max", "reduce_max", "cummax"}, {"min", HLO_HIGHEST, "min", "reduce_min", "cummin"},
    {"or", HLO_ZERO, "max", "reduce_any", "cummax"},    {"and", HLO_ONE, "min", "reduce_all", "cummin"},
};

const hlo_combine_name *flxi_hlo_combine_name(const hlo_element_body *b)
{
    hlo_combination c;
    if (b->num_args != 2 || !flxi_hlo_combination(b->graph, 0, &c) || !c.op || c.a + c.b != 1)
        return NULL;
    for (size_t i = 0; i < sizeof combine_names / sizeof *combine_names; i++)
        if (strcmp(c.op->name, combine_names[i].op) == 0)
            return &combine_names[i];
    return NULL;
}

bool flxi_hlo_rounds(const hlo_combine_name *name, flx_dtype dtype)
{
    bool is_chosen = name->neutral == HLO_LOWEST || name->neutral == HLO_HIGHEST; /* not computed */
    return !is_chosen && (flxi_is_float((int32_t)dtype) || flxi_is_complex((int32_t)dtype));
}

bool flxi_hlo_is_neutral(hlo_site *s, const hlo_combine_name *name, flx_val v)
{
    flx_tensor *known = flxi_hlo_known(s, v);
    if (!known)
        return false;
    const flxi_arith *t = flxi_arith_of(flx_tensor_type(known)->dtype);
    const flxi_num neutral[] = {
        [HLO_ZERO] = t->zero, [HLO_ONE] = t->one, [HLO_LOWEST] = t->lowest, [HLO_HIGHEST] = t->highest};
    bool is_neutral =
        flx_tensor_count(known) == 1 && t->equal(t->load(flx_tensor_const_data(known), 0), neutral[name->neutral]);
    flx_tensor_release(known);
    return is_neutral;
}

/* ---- Operands ---- */

/* Whether elements may be converted implicitly: to a type of the same kind that is no narrower. */
static bool is_promotable(int32_t from, int32_t to)
{
    bool same_kind = flxi_is_float(from) == flxi_is_float(to) && flxi_is_complex(from) == flxi_is_complex(to) &&
                     flxi_is_int(from) == flxi_is_int(to) && flxi_is_signed(from) == flxi_is_signed(to);
    return same_kind && flx_dtype_size(from) <= flx_dtype_size(to);
}

flx_val *flxi_hlo_promoted(hlo_site *s, const hlo_region *r, size_t first, const flx_val *x, size_t n)
{
    flx_val *y = flxi_hlo_new(s, flx_val, n);
    for (size_t i = 0; y && i < n; i++) {
        const hlo_type *wanted = first + i < r->num_args ? r->args[first + i]->type : NULL;
        int32_t from = (int32_t)flxi_hlo_dtype(s, x[i]);
        int32_t to = wanted && wanted->kind == HLO_TENSOR ? (int32_t)flxi_hlo_carrier(wanted) : from;
        if (!is_promotable(from, to)) {
            flxi_hlo_fail(s, FLX_E_DTYPE, NULL, "its region takes elements of type %s, which %s cannot become",
                          flx_dtype_name(to), flx_dtype_name(from));
            return NULL;
        }
        y[i] = from == to ? x[i] : flx_cast(s->g, x[i], (flx_dtype)to);
    }
    return y;
}

bool flxi_hlo_padding(hlo_site *s, size_t rank, flx_ints *low, flx_ints *high)
{
    flx_ints pairs = flxi_hlo_ints_of(s, "padding", 2 * rank, 0);
    int64_t *v = flxi_hlo_new(s, int64_t, 2 * rank);
    for (size_t i = 0; v && pairs.n && i < 2 * rank; i++)
        v[i % 2 * rank + i / 2] = pairs.v[i];
    *low = (flx_ints){v, rank};
    *high = (flx_ints){v ? v + rank : NULL, rank};
    return v && !flxi_hlo_failed(s);
}

flx_val flxi_hlo_like(hlo_site *s, flx_val v, flx_val like)
{
    return flxi_hlo_fill(s, v, flxi_hlo_typeof(s, like));
}
