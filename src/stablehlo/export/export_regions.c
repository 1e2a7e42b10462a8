/* SPDX-License-Identifier: Apache-2.0 */
/* export_regions.c: operations with regions: folds, sorting, scattering, control flow. See export_writers.h. */
#include "stablehlo/export/export_writers.h"

#include <math.h>

static flx_ints ints(const export_node *n, const char *name)
{
    return *flxi_attr_ints(n->op, n->attrs, name);
}

static void put(export_node *n, const char *text)
{
    flxi_add_text(&n->w->out, text);
}

static void put_array(export_node *n, const char *name, flx_ints list)
{
    flxi_export_array(n->w, name, list.v, list.n);
}

/* ---- Folds ---- */

static double lowest(int32_t dtype)
{
    return flxi_is_float(dtype) ? -INFINITY : flxi_is_signed(dtype) ? -ldexp(1.0, flxi_int_bits(dtype) - 1) : 0.0;
}

/* The value that a fold starts from, as a scalar constant. */
static export_val identity_of(exporter *w, const char *word, const flx_type *scalar)
{
    export_val v = {.type = scalar};
    int32_t dtype = scalar->dtype;
    int magnitude = flxi_int_bits(dtype) - (flxi_is_signed(dtype) ? 1 : 0);
    uint64_t highest = magnitude > 0 ? UINT64_MAX >> (64 - magnitude) : 0;
    bool is_bool = dtype == FLX_BOOL;
    if (strcmp(word, "min") == 0 && flxi_is_int(dtype))
        flxi_export_constant(w, scalar, &highest, true, &v); /* a double would round it */
    else if (strcmp(word, "min") == 0)
        flxi_export_splat(w, scalar, is_bool ? 1.0 : INFINITY, &v);
    else if (strcmp(word, "max") == 0)
        flxi_export_splat(w, scalar, is_bool ? 0.0 : lowest(dtype), &v);
    else
        flxi_export_splat(w, scalar, strcmp(word, "mul") == 0 ? 1.0 : 0.0, &v);
    return v;
}

/* The row's name is how elements are combined. */
void flxi_export_write_reduction(export_node *n)
{
    int32_t dtype = n->in[0].type->dtype;
    flx_type scalar = flx_type_make((flx_dtype)dtype, 0, NULL);
    export_val in[2] = {n->in[0], identity_of(n->w, n->name, &scalar)};
    flxi_export_generic(n->w, "stablehlo.reduce", in, 2, n->out, 1);
    put(n, " <{");
    put_array(n, "dimensions", ints(n, "axes"));
    put(n, "}> (");
    flxi_export_word_region(n->w, n->name, dtype);
    put(n, ")");
    flxi_export_signature(n->w, in, 2, n->out, 1);
}

void flxi_export_write_reduce(export_node *n)
{
    flxi_export_generic(n->w, n->name, n->in, n->nin, n->out, n->nout);
    put(n, " <{");
    put_array(n, "dimensions", ints(n, "axes"));
    put(n, "}> (");
    flxi_export_region(n->w, flxi_attr_graph(n->op, n->attrs, "body"), NULL, NULL);
    put(n, ")");
    flxi_export_signature(n->w, n->in, n->nin, n->out, n->nout);
}

/* ---- Regions that are a word or a graph ---- */

static void write_combine(export_node *n, const char *attr, int32_t dtype)
{
    const flxi_attr *row = flxi_find_attr(n->op, attr);
    const flxi_combine *c = flxi_attr_combine(n->op, n->attrs, attr);
    char word[16] = "";
    size_t length = 0;
    if (c && c->graph) {
        flxi_export_region(n->w, c->graph, NULL, NULL);
        return;
    }
    const char *text = row && c ? flxi_word_at(row->words, c->word, &length) : NULL;
    if (text && length < sizeof word)
        memcpy(word, text, length);
    flxi_export_word_region(n->w, word, dtype);
}

static void put_padding(export_node *n)
{
    flx_ints low = ints(n, "pad_low");
    flx_ints high = ints(n, "pad_high");
    put(n, low.n ? "padding = dense<[" : "padding = dense<");
    for (size_t i = 0; i < low.n; i++)
        flxi_addf(&n->w->out, "%s[%lld, %lld]", i ? ", " : "", (long long)low.v[i], (long long)high.v[i]);
    flxi_addf(&n->w->out, "%s> : tensor<%llux2xi64>, ", low.n ? "]" : "", (unsigned long long)low.n);
}

void flxi_export_write_reduce_window(export_node *n)
{
    flxi_export_generic(n->w, n->name, n->in, n->nin, n->out, n->nout);
    put(n, " <{");
    put_array(n, "base_dilations", ints(n, "base_dilation"));
    put(n, ", ");
    put_padding(n);
    put_array(n, "window_dilations", ints(n, "window_dilation"));
    put(n, ", ");
    put_array(n, "window_dimensions", ints(n, "window"));
    put(n, ", ");
    put_array(n, "window_strides", ints(n, "strides"));
    put(n, "}> (");
    write_combine(n, "combine", n->in[0].type->dtype);
    put(n, ")");
    flxi_export_signature(n->w, n->in, n->nin, n->out, n->nout);
}

void flxi_export_write_select_and_scatter(export_node *n)
{
    int32_t dtype = n->in[0].type->dtype;
    flxi_export_generic(n->w, n->name, n->in, 3, n->out, 1);
    put(n, " <{");
    put_padding(n);
    put_array(n, "window_dimensions", ints(n, "window"));
    put(n, ", ");
    put_array(n, "window_strides", ints(n, "strides"));
    put(n, "}> (");
    write_combine(n, "select", dtype);
    put(n, ", ");
    write_combine(n, "combine", dtype);
    put(n, ")");
    flxi_export_signature(n->w, n->in, 3, n->out, 1);
}

void flxi_export_write_scatter_nd(export_node *n)
{
    static const char *const lists[][2] = {{"update_window_dims", "offset_axes"},
                                           {"inserted_window_dims", "collapsed_axes"},
                                           {"input_batching_dims", "operand_batching_axes"},
                                           {"scatter_indices_batching_dims", "indices_batching_axes"},
                                           {"scatter_dims_to_operand_dims", "start_index_map"}};
    flxi_export_generic(n->w, n->name, n->in, 3, n->out, 1);
    put(n, " <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<");
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        flxi_addf(&n->w->out, "%s = ", lists[i][0]);
        flxi_export_list(n->w, ints(n, lists[i][1]).v, ints(n, lists[i][1]).n);
        put(n, ", ");
    }
    flxi_addf(&n->w->out, "index_vector_dim = %lld>, unique_indices = %s}> (",
              (long long)export_int(n->op, n->attrs, "index_vector_axis"),
              export_int(n->op, n->attrs, "unique") ? "true" : "false");
    write_combine(n, "combine", n->in[0].type->dtype);
    put(n, ")");
    flxi_export_signature(n->w, n->in, 3, n->out, 1);
}

void flxi_export_write_sort(export_node *n)
{
    flxi_export_generic(n->w, n->name, n->in, n->nin, n->out, n->nout);
    flxi_addf(&n->w->out, " <{dimension = %lld : i64, is_stable = %s}> (",
              (long long)export_int(n->op, n->attrs, "axis"), export_int(n->op, n->attrs, "stable") ? "true" : "false");
    flxi_export_region(n->w, flxi_attr_graph(n->op, n->attrs, "compare"), NULL, NULL);
    put(n, ")");
    flxi_export_signature(n->w, n->in, n->nin, n->out, n->nout);
}

/* ---- Control flow ---- */

/* Branches take no arguments: they read the values outside. */
static void write_branches(export_node *n, const flx_graph *const *branches, size_t count)
{
    uint32_t *bound = flxi_new(&n->w->scratch, uint32_t, n->nin);
    if (!bound) {
        flxi_export_fail(n->w, FLX_E_OOM, NULL, "out of memory: exporting");
        return;
    }
    for (uint32_t i = 1; i < n->nin; i++)
        bound[i - 1] = n->in[i].number;
    flxi_export_generic(n->w, n->name, n->in, 1, n->out, n->nout);
    put(n, " (");
    for (size_t i = 0; i < count; i++) {
        put(n, i ? ", " : "");
        flxi_export_region(n->w, branches[i], bound, NULL);
    }
    put(n, ")");
    flxi_export_signature(n->w, n->in, 1, n->out, n->nout);
}

void flxi_export_write_if(export_node *n)
{
    const flx_graph *branches[2] = {flxi_attr_graph(n->op, n->attrs, "then"), flxi_attr_graph(n->op, n->attrs, "else")};
    write_branches(n, branches, 2);
}

void flxi_export_write_case(export_node *n)
{
    const flx_graphs *list = flxi_attr_graphs(n->op, n->attrs, "branches");
    write_branches(n, list->v, list->n);
}

/* A carry that the body returns unchanged is not a carry of the text: cond and body read it from outside. */
static uint32_t find_carries(export_node *n, const flx_graph *body, uint32_t *bound, bool *dropped, export_val *in,
                             export_val *out)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < n->nin; i++) {
        dropped[i] = body->outputs.at[i].val == body->leaves.at[i];
        bound[i] = dropped[i] ? n->in[i].number : EXPORT_UNBOUND;
        if (dropped[i]) {
            n->out[i].number = n->in[i].number;
        } else {
            in[count] = n->in[i];
            out[count++] = n->out[i];
        }
    }
    return count;
}

void flxi_export_write_while(export_node *n)
{
    flxi_arena *scratch = &n->w->scratch;
    uint32_t *bound = flxi_new(scratch, uint32_t, n->nin);
    bool *dropped = flxi_new(scratch, bool, n->nin);
    export_val *in = flxi_new(scratch, export_val, n->nin);
    export_val *out = flxi_new(scratch, export_val, n->nin);
    const flx_graph *body = flxi_attr_graph(n->op, n->attrs, "body");
    if (!bound || !dropped || !in || !out) {
        flxi_export_fail(n->w, FLX_E_OOM, NULL, "out of memory: exporting");
        return;
    }
    uint32_t count = find_carries(n, body, bound, dropped, in, out);
    flxi_export_generic(n->w, n->name, in, count, out, count);
    for (uint32_t i = 0, at = 0; i < n->nin; i++)
        if (!dropped[i])
            n->out[i].number = out[at++].number;
    put(n, " (");
    flxi_export_region(n->w, flxi_attr_graph(n->op, n->attrs, "cond"), bound, NULL);
    put(n, ", ");
    flxi_export_region(n->w, body, bound, dropped);
    put(n, ")");
    flxi_export_signature(n->w, in, count, out, count);
}
