/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_export.c: flx_onnx_encode: a graph as the bytes of an ONNX model. What has no row in the table is decomposed
   first; what then has none is UNSUPPORTED. */
#include "onnx/export/onnx_writer.h"

#include "base/context.h"
#include "base/distinct.h"
#include "base/host/stop.h"
#include "format/endian.h"
#include "graph/op/eval.h"
#include "graph/type/type.h"
#include "onnx/syntax/onnx_elements.h"
#include "passes/lower_composites.h"

#include <fluxion/onnx.h>
#include <stdio.h>

/* Our reader takes no more either. */
static const uint32_t max_visits = 300000;

/* ---- The wire form ---- */

static void put_varint(flxi_strbuf *b, uint64_t v)
{
    for (; v >= 128; v >>= 7)
        flxi_add_char(b, (char)(unsigned char)((v & 127) | 128));
    flxi_add_char(b, (char)(unsigned char)v);
}

static void put_int(flxi_strbuf *b, uint32_t field, int64_t v)
{
    put_varint(b, (uint64_t)field << 3);
    put_varint(b, (uint64_t)v);
}

static void put_bytes(flxi_strbuf *b, uint32_t field, const void *data, size_t n)
{
    put_varint(b, (uint64_t)field << 3 | 2);
    put_varint(b, n);
    flxi_add_bytes(b, data, n);
}

static void put_text(flxi_strbuf *b, uint32_t field, const char *s)
{
    put_bytes(b, field, s, strlen(s));
}

static void put_float(flxi_strbuf *b, uint32_t field, double x)
{
    float f = (float)x;
    uint32_t bits;
    unsigned char bytes[4];
    memcpy(&bits, &f, sizeof bits);
    flxi_put32(bytes, bits);
    put_varint(b, (uint64_t)field << 3 | 5);
    flxi_add_bytes(b, bytes, 4);
}

/* Adds `part` as a field and frees it. */
static void put_part(flxi_strbuf *b, uint32_t field, flxi_strbuf *part)
{
    b->failed |= part->failed;
    put_bytes(b, field, part->at ? part->at : "", part->n);
    flxi_strbuf_free(part);
}

static flxi_strbuf new_part(const flxi_strbuf *like)
{
    flxi_strbuf b;
    flxi_strbuf_init(&b, like->mem);
    return b;
}

/* ---- Names and attributes ---- */

/* A leaf has its own name; a leaf of a body has the name of the value that the body is given for it. */
onnx_label flxi_onnx_value_label(const onnx_writer *w, flx_val v)
{
    onnx_label l;
    const flxi_node *n = flxi_node_of(w->g, v.id);
    bool is_leaf = flxi_is_input(n) || flxi_is_param(n);
    const char *name = is_leaf ? flx_val_name(w->g, v) : NULL;
    for (size_t i = 0; is_leaf && w->leaves && i < flx_graph_input_count(w->g); i++)
        if (flx_graph_input(w->g, i).id == v.id)
            return w->leaves[i];
    if (name)
        snprintf(l.text, sizeof l.text, "%s", name);
    else if (w->body)
        snprintf(l.text, sizeof l.text, "%%%u.%u", w->body, v.id);
    else
        snprintf(l.text, sizeof l.text, "%%%u", v.id);
    return l;
}

onnx_label flxi_onnx_in(const onnx_source *n, uint32_t i)
{
    return n->carried ? n->carried->in[i] : flxi_onnx_value_label(n->w, flx_node_input(n->w->g, n->index, i));
}

onnx_label flxi_onnx_out(const onnx_source *n, uint32_t i)
{
    return n->carried ? n->carried->out[i] : flxi_onnx_value_label(n->w, flx_node_result(n->w->g, n->index, i));
}

onnx_label flxi_onnx_fresh(onnx_writer *w)
{
    onnx_label l;
    snprintf(l.text, sizeof l.text, "%%t%u", (*w->fresh)++);
    return l;
}

bool flxi_onnx_list(const onnx_source *n, const char *key, flx_ints *out)
{
    flx_node_attr_view a;
    if (flx_node_attr_find(n->w->g, n->index, key, &a) != FLX_OK ||
        (a.value.kind != FLX_ATTR_INTS && a.value.kind != FLX_ATTR_PAIRS))
        return false;
    *out = a.value.as.ints;
    return out->v != NULL;
}

bool flxi_onnx_numbers(const onnx_source *n, const char *key, flx_reals *out)
{
    flx_node_attr_view a;
    if (flx_node_attr_find(n->w->g, n->index, key, &a) != FLX_OK || a.value.kind != FLX_ATTR_REALS)
        return false;
    *out = a.value.as.reals;
    return out->v != NULL;
}

int64_t flxi_onnx_integer(const onnx_source *n, const char *key, int64_t absent)
{
    flx_node_attr_view a;
    if (flx_node_attr_find(n->w->g, n->index, key, &a) != FLX_OK)
        return absent;
    if (a.value.kind == FLX_ATTR_WORD)
        return strcmp(a.value.as.s, "true") == 0;
    return a.value.kind == FLX_ATTR_INT ? a.value.as.i : absent;
}

double flxi_onnx_number_of(const onnx_source *n, const char *key, double absent)
{
    flx_node_attr_view a;
    if (flx_node_attr_find(n->w->g, n->index, key, &a) != FLX_OK)
        return absent;
    return a.value.kind == FLX_ATTR_REAL ? a.value.as.r : a.value.kind == FLX_ATTR_INT ? (double)a.value.as.i : absent;
}

const char *flxi_onnx_word_of(const onnx_source *n, const char *key, onnx_label *buffer)
{
    flx_node_attr_view a;
    buffer->text[0] = 0;
    if (flx_node_attr_find(n->w->g, n->index, key, &a) == FLX_OK &&
        (a.value.kind == FLX_ATTR_WORD || a.value.kind == FLX_ATTR_STRING))
        snprintf(buffer->text, sizeof buffer->text, "%s", a.word[0] ? a.word : a.value.as.s);
    return buffer->text;
}

const flx_type *flxi_onnx_in_type(const onnx_source *n, uint32_t i)
{
    return n->carried ? &n->carried->in_types[i] : flx_val_type(n->w->g, flx_node_input(n->w->g, n->index, i));
}

const flx_type *flxi_onnx_out_type(const onnx_source *n, uint32_t i)
{
    return n->carried ? &n->carried->out_types[i] : flx_val_type(n->w->g, flx_node_result(n->w->g, n->index, i));
}

static void refuse(onnx_writer *w, const char *why)
{
    if (w->err->code != FLX_OK)
        return;
    *w->refused = w->op;
    flxi_fail(w->err, FLX_E_UNSUPPORTED, "unsupported: %.40s as an operation of ONNX: %s", flxi_ops[w->op].name, why);
}

void flxi_onnx_refuse(const onnx_source *n, const char *why)
{
    refuse(n->w, why);
}

/* ---- Nodes and tensors ---- */

static void put_setting(flxi_strbuf *node, const onnx_setting *s)
{
    static const int types[] = {
        [ONNX_W_REAL] = 1, [ONNX_W_INT] = 2, [ONNX_W_TEXT] = 3, [ONNX_W_GRAPH] = 5, [ONNX_W_INTS] = 7};
    flxi_strbuf a = new_part(node);
    put_text(&a, 1, s->name);
    if (s->kind == ONNX_W_REAL)
        put_float(&a, 2, s->r);
    if (s->kind == ONNX_W_INT)
        put_int(&a, 3, s->i);
    if (s->kind == ONNX_W_TEXT)
        put_text(&a, 4, s->s);
    for (size_t i = 0; s->kind == ONNX_W_INTS && i < s->ints.n; i++)
        put_int(&a, 8, s->ints.v[i]);
    if (s->kind == ONNX_W_GRAPH) {
        a.failed |= s->graph->failed;
        put_bytes(&a, 6, s->graph->at ? s->graph->at : "", s->graph->n);
    }
    put_int(&a, 20, types[s->kind]);
    put_part(node, 5, &a);
}

void flxi_onnx_put(onnx_writer *w, const char *operation, const onnx_label *in, size_t nin, const onnx_label *out,
                   size_t nout, const onnx_setting *settings, size_t num_settings)
{
    flxi_strbuf node = new_part(&w->nodes);
    for (size_t i = 0; i < num_settings; i++)
        for (size_t k = 0; settings[i].kind == ONNX_W_INTS && k < settings[i].ints.n; k++)
            if (!flx_dim_is_static(settings[i].ints.v[k]))
                refuse(w, "symbolic extents");
    for (size_t i = 0; i < nin; i++)
        put_text(&node, 1, in[i].text);
    for (size_t i = 0; i < nout; i++)
        put_text(&node, 2, out[i].text);
    put_text(&node, 4, operation);
    for (size_t i = 0; i < num_settings; i++)
        put_setting(&node, &settings[i]);
    put_part(&w->nodes, 1, &node);
}

void flxi_onnx_put1(onnx_writer *w, const char *operation, const onnx_label *in, size_t nin, const onnx_label *out)
{
    flxi_onnx_put(w, operation, in, nin, out, 1, NULL, 0);
}

/* Elements lowest byte first. */
static void put_elements(flxi_strbuf *b, const flx_tensor *t)
{
    int32_t dtype = flx_tensor_type(t)->dtype;
    size_t size = flx_dtype_size(flxi_part_dtype(dtype)), n = flx_tensor_nbytes(t);
    const unsigned char *from = flx_tensor_const_data(t);
    put_varint(b, 9u << 3 | 2);
    put_varint(b, n);
    static const uint16_t probe = 1;
    if (*(const unsigned char *)&probe == 1) {
        flxi_add_bytes(b, from, n);
        return;
    }
    for (size_t i = 0; i < n; i++)
        flxi_add_char(b, (char)from[i / size * size + (size - 1 - i % size)]);
}

static flxi_strbuf tensor_bytes(const onnx_writer *w, const char *name, const flx_tensor *t)
{
    const flx_type *type = flx_tensor_type(t);
    flxi_strbuf b = new_part(&w->tensors);
    for (int i = 0; i < type->rank; i++)
        put_int(&b, 1, type->dims[i]);
    put_int(&b, 2, flxi_onnx_element_of(type->dtype));
    put_text(&b, 8, name);
    put_elements(&b, t);
    return b;
}

static void put_initialiser(onnx_writer *w, const char *name, const flx_tensor *t)
{
    flxi_strbuf b = tensor_bytes(w, name, t);
    put_part(&w->tensors, 5, &b);
}

/* As a node: initialisers of floats are parameters for readers, this one among them. */
static void put_constant_node(onnx_writer *w, const char *name, const flx_tensor *t)
{
    enum { TENSOR = 4 };
    flxi_strbuf node = new_part(&w->nodes), a = new_part(&w->nodes), value = tensor_bytes(w, name, t);
    put_text(&a, 1, "value");
    put_part(&a, 5, &value);
    put_int(&a, 20, TENSOR);
    put_text(&node, 2, name);
    put_text(&node, 4, "Constant");
    put_part(&node, 5, &a);
    put_part(&w->nodes, 1, &node);
}

void flxi_onnx_put_tensor(onnx_writer *w, const char *name, const flx_tensor *t)
{
    const flx_type *type = flx_tensor_type(t);
    if (type->rank > 0 && flxi_is_float(type->dtype))
        put_constant_node(w, name, t);
    else
        put_initialiser(w, name, t);
}

static onnx_label put_literal(onnx_writer *w, const flx_type *type, const void *data)
{
    onnx_label l = flxi_onnx_fresh(w);
    flx_tensor *t = flx_tensor_new(flx_graph_context(w->g), type, data, w->err->code == FLX_OK ? w->err : NULL);
    if (t)
        flxi_onnx_put_tensor(w, l.text, t);
    flx_tensor_release(t);
    return l;
}

onnx_label flxi_onnx_put_ints(onnx_writer *w, flx_ints v)
{
    for (size_t i = 0; i < v.n; i++)
        if (!flx_dim_is_static(v.v[i]))
            refuse(w, "symbolic extents");
    flx_type type = flx_type_make(FLX_I64, 1, &(flx_dim){(flx_dim)v.n});
    return put_literal(w, &type, v.v);
}

onnx_label flxi_onnx_put_scalar(onnx_writer *w, flx_dtype dtype, double x)
{
    flx_type type = flx_type_make(dtype, 0, NULL);
    unsigned char element[16] = {0};
    flxi_store_double((int32_t)dtype, element, 0, x);
    return put_literal(w, &type, element);
}

onnx_label flxi_onnx_put_numbers(onnx_writer *w, flx_dtype dtype, flx_reals v, bool is_scalar)
{
    onnx_label l = flxi_onnx_fresh(w);
    flx_type type = flx_type_make(dtype, is_scalar ? 0 : 1, &(flx_dim){(flx_dim)v.n});
    flx_tensor *t = flx_tensor_new(flx_graph_context(w->g), &type, NULL, w->err->code == FLX_OK ? w->err : NULL);
    for (int64_t i = 0; t && i < flx_tensor_count(t); i++)
        flxi_store_double((int32_t)dtype, flx_tensor_data(t), i, v.v[i]);
    if (t)
        flxi_onnx_put_tensor(w, l.text, t);
    flx_tensor_release(t);
    return l;
}

/* ---- Graphs ---- */

static bool may_go_on(onnx_writer *w)
{
    if (flxi_stop_check(w->err) != FLX_OK)
        return false;
    if (++*w->visits > max_visits)
        flxi_fail_hint(w->err, FLX_E_SIZE, "ONNX has no functions of bodies: each use writes the body again",
                       "the model has more than %u nodes once bodies in bodies are expanded", max_visits);
    return *w->visits <= max_visits;
}

static void write_node(onnx_writer *w, size_t i)
{
    flx_node_view v;
    onnx_source n = {.w = w, .index = i};
    if (!may_go_on(w) || flx_graph_node(w->g, i, &v) != FLX_OK)
        return;
    n.op = v.op;
    n.nin = v.num_inputs;
    n.nout = v.num_results;
    const flxi_node *node = flxi_node_at(w->g, (uint32_t)i);
    if (flxi_is_input(node) || flxi_is_param(node))
        return;
    if (flxi_is_const(node)) {
        flx_node_attr_view a;
        if (flx_node_attr_find(w->g, i, "data", &a) == FLX_OK && a.value.as.tensor)
            flxi_onnx_put_tensor(w, flxi_onnx_out(&n, 0).text, a.value.as.tensor);
        return;
    }
    const onnx_export_row *row = flxi_onnx_row_of(v.op);
    w->op = node->op;
    if (row)
        flxi_onnx_write_by(row, &n);
    else
        flxi_onnx_refuse(&n, "there is none");
}

static void put_info(flxi_strbuf *graph, uint32_t field, const flx_graph *g, const char *name, const flx_type *t)
{
    flxi_strbuf shape = new_part(graph), tensor = new_part(graph), type = new_part(graph), info = new_part(graph);
    for (int i = 0; i < t->rank; i++) {
        flxi_strbuf dim = new_part(graph);
        char text[100];
        if (flx_dim_is_static(t->dims[i])) {
            put_int(&dim, 1, t->dims[i]);
        } else {
            flx_dim_print(flx_graph_context(g), t->dims[i], text, sizeof text);
            put_text(&dim, 2, text);
        }
        put_part(&shape, 1, &dim);
    }
    put_int(&tensor, 1, flxi_onnx_element_of(t->dtype));
    put_part(&tensor, 2, &shape);
    put_part(&type, 1, &tensor);
    put_text(&info, 1, name);
    put_part(&info, 2, &type);
    put_part(graph, field, &info);
}

static const flx_tensor *value_of(const flx_feed *params, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(params[i].name, name) == 0)
            return params[i].value;
    return NULL;
}

/* Leaves with a value are initialisers, the others inputs. Outputs get their names by Identity. */
static void write_border(onnx_writer *w, flxi_strbuf *graph, const flx_feed *params, size_t num_params)
{
    const flx_graph *g = w->g;
    for (size_t i = 0; i < flx_graph_input_count(g); i++) {
        flx_val v = flx_graph_input(g, i);
        const flx_tensor *t = value_of(params, num_params, flx_val_name(g, v));
        if (t)
            put_initialiser(w, flx_val_name(g, v), t);
        else
            put_info(graph, 11, g, flx_val_name(g, v), flx_val_type(g, v));
    }
    for (size_t i = 0; i < flx_graph_output_count(g); i++) {
        onnx_label from = flxi_onnx_value_label(w, flx_graph_output(g, i)), to;
        snprintf(to.text, sizeof to.text, "%s", flx_graph_output_name(g, i));
        if (strcmp(from.text, to.text) != 0)
            flxi_onnx_put1(w, "Identity", &from, 1, &to);
        put_info(graph, 12, g, to.text, flx_val_type(g, flx_graph_output(g, i)));
    }
}

/* ---- Bodies ---- */

const flx_graph *flxi_onnx_node_body(const onnx_source *n, const char *key)
{
    flx_node_attr_view a;
    return flx_node_attr_find(n->w->g, n->index, key, &a) == FLX_OK && a.value.kind == FLX_ATTR_GRAPH ? a.value.as.graph
                                                                                                      : NULL;
}

void flxi_onnx_put_body(onnx_writer *w, const flx_graph *body, const onnx_label *leaves, onnx_label *outputs)
{
    const flx_graph *g = w->g;
    const onnx_label *outer = w->leaves;
    uint32_t number = w->body, op = w->op;
    w->g = body;
    w->leaves = leaves;
    w->body = ++*w->fresh;
    for (size_t i = 0; i < flx_graph_node_count(body) && w->err->code == FLX_OK; i++)
        write_node(w, i);
    for (size_t i = 0; i < flx_graph_output_count(body); i++)
        outputs[i] = flxi_onnx_value_label(w, flx_graph_output(body, i));
    w->g = g;
    w->leaves = outer;
    w->body = number;
    w->op = op;
}

onnx_writer flxi_onnx_graph_begin(onnx_writer *outer)
{
    onnx_writer w = *outer;
    w.nodes = new_part(&outer->nodes);
    w.tensors = new_part(&outer->nodes);
    return w;
}

flxi_strbuf flxi_onnx_graph_border(const onnx_writer *w)
{
    return new_part(&w->nodes);
}

void flxi_onnx_put_info(flxi_strbuf *border, bool is_output, const flx_graph *g, onnx_label name, const flx_type *type)
{
    put_info(border, is_output ? 12 : 11, g, name.text, type);
}

static void put_graph(flxi_strbuf *graph, const onnx_writer *w, const flxi_strbuf *border, const char *name)
{
    graph->failed |= w->nodes.failed || w->tensors.failed || border->failed;
    flxi_add_bytes(graph, w->nodes.at ? w->nodes.at : "", w->nodes.n);
    put_text(graph, 2, name);
    flxi_add_bytes(graph, w->tensors.at ? w->tensors.at : "", w->tensors.n);
    flxi_add_bytes(graph, border->at ? border->at : "", border->n);
}

flxi_strbuf flxi_onnx_graph_end(onnx_writer *w, flxi_strbuf *border)
{
    flxi_strbuf graph = new_part(&w->nodes);
    put_graph(&graph, w, border, "body");
    flxi_strbuf_free(border);
    flxi_strbuf_free(&w->nodes);
    flxi_strbuf_free(&w->tensors);
    return graph;
}

/* ---- Models ---- */

static void write_model(onnx_writer *w, flxi_strbuf *out, const flx_feed *params, size_t num_params)
{
    flxi_strbuf graph = new_part(out), border = new_part(out), opset = new_part(out);
    for (size_t i = 0; i < flx_graph_node_count(w->g) && w->err->code == FLX_OK; i++)
        write_node(w, i);
    write_border(w, &border, params, num_params);
    put_graph(&graph, w, &border, flx_graph_name(w->g));
    flxi_strbuf_free(&border);
    put_text(&opset, 1, "");
    put_int(&opset, 2, ONNX_EXPORT_VERSION);
    put_int(out, 1, 10); /* version of the format */
    put_text(out, 2, "fluxion");
    put_text(out, 3, FLX_VERSION);
    put_part(out, 7, &graph);
    put_part(out, 8, &opset);
}

enum { MAX_REFUSED = 64 };

/* What of the ops has to be decomposed: those without a row, and those that a writer refused. */
typedef struct {
    uint32_t refused[MAX_REFUSED];
    size_t n;
} export_choice;

static bool is_refused(const export_choice *c, uint32_t op)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->refused[i] == op)
            return true;
    return false;
}

static flxi_expansion choose_expansion(const flx_graph *g, uint32_t i, const void *user)
{
    uint32_t op = flxi_node_at(g, i)->op;
    bool is_written = flxi_onnx_row_of(flxi_ops[op].name) && !is_refused(user, op);
    return is_written ? NULL : flxi_ops[op].rules->decompose;
}

static flx_code encode(const flx_graph *g, const flx_feed *params, size_t num_params, flx_buffer *out,
                       uint32_t *refused, flx_error *err)
{
    flx_context *ctx = flx_graph_context(g);
    uint32_t fresh = 0, visits = 0;
    onnx_writer w = {.g = g, .fresh = &fresh, .visits = &visits, .refused = refused, .err = err};
    flxi_strbuf bytes;
    flxi_strbuf_init(&bytes, &ctx->mem);
    flxi_strbuf_init(&w.nodes, &ctx->mem);
    flxi_strbuf_init(&w.tensors, &ctx->mem);
    write_model(&w, &bytes, params, num_params);
    flxi_strbuf_free(&w.nodes);
    flxi_strbuf_free(&w.tensors);
    if (err->code == FLX_OK)
        flxi_buffer_finish(&bytes, ctx, out, err);
    else
        flxi_strbuf_free(&bytes);
    return (flx_code)err->code;
}

/* Each round decomposes one more op. */
static flx_code encode_expanded(const flx_graph *g, const flx_feed *params, size_t num_params, flx_buffer *out,
                                flx_error *err)
{
    export_choice choice = {.n = 0};
    for (;;) {
        flx_graph *expanded = NULL;
        uint32_t op = 0;
        *err = (flx_error){0};
        FLXI_TRY(flxi_lower_by(g, choose_expansion, &choice, &expanded, err));
        flx_code code = encode(expanded, params, num_params, out, &op, err);
        flx_graph_release(expanded);
        if (code != FLX_E_UNSUPPORTED || is_refused(&choice, op) || !flxi_ops[op].rules->decompose ||
            choice.n == MAX_REFUSED)
            return code;
        choice.refused[choice.n++] = op;
    }
}

/* A value of nothing would be left out in silence. */
static flx_code check_params(const flx_graph *g, const flx_feed *params, size_t num_params, flx_error *err)
{
    size_t leaf;
    char shown[64];
    for (size_t i = 0; i < num_params; i++) {
        if (!params[i].name || !params[i].value)
            return flxi_fail(err, FLX_E_USAGE, "flx_onnx_encode: parameter %zu has no name or value", i);
        if (!flxi_find_leaf(g, params[i].name, &leaf))
            return flxi_fail(err, FLX_E_NAME, "flx_onnx_encode: '%.60s' has no input or parameter '%s'", g->name,
                             flxi_printable(shown, sizeof shown, params[i].name, strlen(params[i].name)));
    }
    return flxi_check_distinct(&g->ctx->mem, "flx_onnx_encode: two values for", params, num_params, sizeof *params,
                               err);
}

flx_code flx_onnx_encode(const flx_graph *g, const flx_feed *params, size_t num_params, flx_buffer *out, flx_error *err)
{
    if (!g || !out || (num_params && !params))
        return flxi_fail(err, FLX_E_USAGE, "flx_onnx_encode: graph, parameters and buffer must be given");
    FLXI_TRY(flxi_graph_check(g, err));
    if (!flx_graph_output_count(g))
        return flxi_fail(err, FLX_E_UNSUPPORTED, "'%.60s' has no outputs; an ONNX model has at least one", g->name);
    FLXI_TRY(check_params(g, params, num_params, err));
    *out = (flx_buffer){0};
    flx_error local = {0};
    flx_code code = encode_expanded(g, params, num_params, out, &local);
    if (code != FLX_OK && err)
        *err = local;
    return code;
}
