/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_export_control.c: If, Loop and Scan. A body there is a graph of its own that sees the names around it: operands
   that do not change are those names, and only what changes from step to step is an input. */
#include "onnx/export/onnx_writer.h"

#include "graph/type/type.h"
#include "onnx/syntax/onnx_elements.h"

enum { MOST = 64 }; /* operands and results of a node with bodies */

static bool fits(const onnx_source *n)
{
    if (n->nin <= MOST && n->nout <= MOST)
        return true;
    flxi_onnx_refuse(n, "this many operands or results");
    return false;
}

static void put_identity(onnx_writer *w, onnx_label from, onnx_label *to)
{
    *to = flxi_onnx_fresh(w);
    flxi_onnx_put1(w, "Identity", &from, 1, to);
}

/* The value as a bool, which conditions are. */
static onnx_label as_bool(onnx_writer *w, onnx_label x, const flx_type *type)
{
    if (type->dtype == FLX_BOOL)
        return x;
    onnx_label truth = flxi_onnx_fresh(w);
    flxi_onnx_put(w, "Cast", &x, 1, &truth, 1, &ONNX_INT("to", ONNX_BOOL), 1);
    return truth;
}

/* Results of a graph have names of their own: a body may return what it is given. */
static void put_results(onnx_writer *w, flxi_strbuf *border, const flx_graph *body, const onnx_label *values,
                        size_t first, size_t end)
{
    for (size_t i = first; i < end; i++) {
        onnx_label name;
        put_identity(w, values[i], &name);
        flxi_onnx_put_info(border, true, body, name, flx_val_type(body, flx_graph_output(body, i)));
    }
}

static void put_node(const onnx_source *n, const onnx_label *in, size_t nin, const onnx_setting *settings, size_t count)
{
    onnx_label out[MOST];
    for (uint32_t i = 0; i < n->nout; i++)
        out[i] = flxi_onnx_out(n, i);
    flxi_onnx_put(n->w, n->to, in, nin, out, n->nout, settings, count);
}

/* ---- If ---- */

static flxi_strbuf branch(const onnx_source *n, const char *key, const onnx_label *operands)
{
    const flx_graph *body = flxi_onnx_node_body(n, key);
    onnx_writer w = flxi_onnx_graph_begin(n->w);
    flxi_strbuf border = flxi_onnx_graph_border(&w);
    onnx_label results[MOST];
    if (body) {
        flxi_onnx_put_body(&w, body, operands, results);
        put_results(&w, &border, body, results, 0, n->nout);
    }
    return flxi_onnx_graph_end(&w, &border);
}

void flxi_onnx_write_if(const onnx_source *n)
{
    onnx_label operands[MOST];
    if (!fits(n))
        return;
    for (uint32_t i = 0; i < n->nin; i++)
        operands[i] = flxi_onnx_in(n, i);
    onnx_label condition = as_bool(n->w, operands[0], flxi_onnx_in_type(n, 0));
    flxi_strbuf then = branch(n, "then", operands + 1), other = branch(n, "else", operands + 1);
    const onnx_setting settings[] = {ONNX_GRAPH("then_branch", &then), ONNX_GRAPH("else_branch", &other)};
    put_node(n, &condition, 1, settings, 2);
    flxi_strbuf_free(&then);
    flxi_strbuf_free(&other);
}

/* ---- Loop ---- */

/* The condition for these carries. */
static onnx_label put_condition(onnx_writer *w, const flx_graph *cond, const onnx_label *carries)
{
    onnx_label result;
    flxi_onnx_put_body(w, cond, carries, &result);
    return as_bool(w, result, flx_val_type(cond, flx_graph_output(cond, 0)));
}

/* Inputs: the number of the step, the condition, carries. Outputs: the next condition, the next carries. */
static flxi_strbuf loop_body(const onnx_source *n, const flx_graph *cond, const flx_graph *body)
{
    onnx_writer w = flxi_onnx_graph_begin(n->w);
    flxi_strbuf border = flxi_onnx_graph_border(&w);
    const flx_type count = flx_type_make(FLX_I64, 0, NULL), truth = flx_type_make(FLX_BOOL, 0, NULL);
    onnx_label carries[MOST], next[MOST], again;
    flxi_onnx_put_info(&border, false, body, flxi_onnx_fresh(&w), &count);
    flxi_onnx_put_info(&border, false, body, flxi_onnx_fresh(&w), &truth);
    for (uint32_t i = 0; i < n->nin; i++) {
        carries[i] = flxi_onnx_fresh(&w);
        flxi_onnx_put_info(&border, false, body, carries[i], flx_val_type(body, flx_graph_input(body, i)));
    }
    flxi_onnx_put_body(&w, body, carries, next);
    put_identity(&w, put_condition(&w, cond, next), &again);
    flxi_onnx_put_info(&border, true, body, again, &truth);
    put_results(&w, &border, body, next, 0, n->nout);
    return flxi_onnx_graph_end(&w, &border);
}

void flxi_onnx_write_while(const onnx_source *n)
{
    const flx_graph *cond = flxi_onnx_node_body(n, "cond"), *body = flxi_onnx_node_body(n, "body");
    onnx_label in[MOST + 2] = {{{0}}};
    int64_t most = flxi_onnx_integer(n, "max_iterations", -1);
    if (!cond || !body || !fits(n))
        return;
    for (uint32_t i = 0; i < n->nin; i++)
        in[i + 2] = flxi_onnx_in(n, i);
    if (most >= 0)
        in[0] = flxi_onnx_put_scalar(n->w, FLX_I64, (double)most);
    in[1] = put_condition(n->w, cond, in + 2);
    flxi_strbuf graph = loop_body(n, cond, body);
    put_node(n, in, n->nin + 2, &ONNX_GRAPH("body", &graph), 1);
    flxi_strbuf_free(&graph);
}

/* ---- Scan ---- */

typedef struct {
    size_t carries, fixed, sequences; /* operands, in this order */
} scan_parts;

/* Inputs: carries, an item of each sequence. Outputs: the next carries, items of results. */
static flxi_strbuf scan_body(const onnx_source *n, const flx_graph *body, const scan_parts *p)
{
    onnx_writer w = flxi_onnx_graph_begin(n->w);
    flxi_strbuf border = flxi_onnx_graph_border(&w);
    onnx_label leaves[MOST], results[MOST];
    for (size_t i = 0; i < n->nin; i++) {
        bool is_fixed = i >= p->carries && i < p->carries + p->fixed;
        leaves[i] = is_fixed ? flxi_onnx_in(n, (uint32_t)i) : flxi_onnx_fresh(&w);
        if (!is_fixed)
            flxi_onnx_put_info(&border, false, body, leaves[i], flx_val_type(body, flx_graph_input(body, i)));
    }
    if (!p->sequences) { /* there must be one, which counts the steps */
        const flx_type item = flx_type_make(FLX_F32, 0, NULL);
        flxi_onnx_put_info(&border, false, body, flxi_onnx_fresh(&w), &item);
    }
    flxi_onnx_put_body(&w, body, leaves, results);
    put_results(&w, &border, body, results, 0, n->nout);
    return flxi_onnx_graph_end(&w, &border);
}

static onnx_label counting_sequence(const onnx_source *n)
{
    int64_t length = flxi_onnx_integer(n, "length", 0);
    onnx_label shape = flxi_onnx_put_ints(n->w, (flx_ints){&length, 1}), zeros = flxi_onnx_fresh(n->w);
    if (!flx_dim_is_static(length))
        flxi_onnx_refuse(n, "symbolic extents");
    flxi_onnx_put1(n->w, "ConstantOfShape", &shape, 1, &zeros);
    return zeros;
}

void flxi_onnx_write_scan(const onnx_source *n)
{
    const flx_graph *body = flxi_onnx_node_body(n, "body");
    onnx_label in[MOST + 1];
    int64_t back[MOST];
    size_t count = 0;
    scan_parts p = {.carries = (size_t)flxi_onnx_integer(n, "num_carry", 1),
                    .fixed = (size_t)flxi_onnx_integer(n, "num_bcast", 0)};
    if (!body || !fits(n))
        return;
    p.sequences = n->nin - p.carries - p.fixed;
    if (flxi_onnx_integer(n, "save_trajectory", 0)) {
        flxi_onnx_refuse(n, "carries of all steps as results");
        return;
    }
    for (size_t i = 0; i < n->nin; i++)
        if (i < p.carries || i >= p.carries + p.fixed)
            in[count++] = flxi_onnx_in(n, (uint32_t)i);
    if (!p.sequences)
        in[count++] = counting_sequence(n);
    for (size_t i = 0; i < MOST; i++)
        back[i] = flxi_onnx_integer(n, "reverse", 0);
    size_t read = p.sequences ? p.sequences : 1;
    flxi_strbuf graph = scan_body(n, body, &p);
    const onnx_setting settings[] = {
        ONNX_GRAPH("body", &graph), ONNX_INT("num_scan_inputs", (int64_t)read),
        ONNX_INTS("scan_input_directions", ((flx_ints){back, read})),
        ONNX_INTS("scan_output_directions", ((flx_ints){back, n->nout > p.carries ? n->nout - p.carries : 0}))};
    put_node(n, in, count, settings, n->nout > p.carries ? 4 : 3);
    flxi_strbuf_free(&graph);
}
