/* SPDX-License-Identifier: Apache-2.0 */
/* binary.c: graphs as bytes (.flxb).

   Layout, all numbers little-endian:
     "FLXB"  u32 version  u64 payload size  u64 FNV-1a of the payload  payload
   Payload: u32 number of graphs, then each graph, bodies before users, the main one last:
     text name, u32 leaves, then per leaf: u8 is-param, text name, type
     u32 nodes (leaves not counted), then per node:
       text op, u32 operands, u32 each: its flxi_value_number, u8 number of attributes, then per
       attribute: text key, value by the schema's kind
       u32 results, per result: u8 flags (1 named, 2 pinned), text name if named
     u32 outputs, per output: u32 value number, text name
   Text is u32 length and bytes. A dimension is u8 0 and i64, or u8 1 and its text form. Reading builds every node
   through flxi_add_node, so what comes back is inferred and checked like any other graph; counts are checked against
   the bytes that are left before anything is allocated. Only attributes that differ from their default are written, so
   a later version that adds one still reads old files. */
#include "graph/module.h"
#include "graph/op/eval.h"
#include "graph/op/opcode.h"
#include "graph/text/parse.h"

#include <fluxion/text.h>

static const char magic[4] = {'F', 'L', 'X', 'B'};
enum { FORMAT_VERSION = 1, HEADER_SIZE = 24 };

/* ---- Writing ---- */

typedef struct {
    flxi_strbuf out;
    const flxi_graph_list *list;
    const char **names; /* by position in list */
    const flx_graph *g;
} writer;

static void put(writer *w, uint64_t v, int nbytes)
{
    unsigned char bytes[8];
    for (int i = 0; i < nbytes; i++)
        bytes[i] = (unsigned char)(v >> (8 * i));
    flxi_add_bytes(&w->out, bytes, (size_t)nbytes);
}

static void put_text(writer *w, const char *s)
{
    put(w, strlen(s), 4);
    flxi_add_text(&w->out, s);
}

static void put_real(writer *w, double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    put(w, bits, 8);
}

static void put_dim(writer *w, flx_dim d)
{
    put(w, !flxi_dim_is_number(d), 1);
    if (flxi_dim_is_number(d)) {
        put(w, (uint64_t)d, 8);
        return;
    }
    flxi_strbuf text;
    flxi_strbuf_init(&text, w->out.mem);
    flxi_dim_write(w->g->ctx, d, &text);
    w->out.failed |= text.failed;
    put_text(w, text.at ? text.at : "");
    flxi_strbuf_free(&text);
}

static void put_type(writer *w, const flx_type *t)
{
    put(w, (uint64_t)t->dtype, 1);
    put(w, (uint64_t)t->rank, 1);
    for (int i = 0; i < t->rank; i++)
        put_dim(w, t->dims[i]);
}

static void put_graph(writer *w, const flx_graph *g)
{
    put(w, (uint64_t)flxi_graph_position(w->list, g), 4);
}

static void put_tensor(writer *w, const flx_tensor *t)
{
    put_type(w, &t->type);
    put(w, t->nbytes, 8);
    flxi_add_bytes(&w->out, t->data, t->nbytes);
}

static void put_list(writer *w, const flxi_attr *a, const void *field)
{
    switch (a->kind) {
    case ATTR_REALS: {
        const flx_reals *list = field;
        put(w, list->n, 4);
        for (size_t i = 0; i < list->n; i++)
            put_real(w, list->v[i]);
        break;
    }
    case ATTR_TYPES: {
        const flx_types *list = field;
        put(w, list->n, 4);
        for (size_t i = 0; i < list->n; i++)
            put_type(w, &list->v[i]);
        break;
    }
    case ATTR_GRAPHS: {
        const flx_graphs *list = field;
        put(w, list->n, 4);
        for (size_t i = 0; i < list->n; i++)
            put_graph(w, list->v[i]);
        break;
    }
    default: {
        const flx_ints *list = field;
        put(w, list->n, 4);
        for (size_t i = 0; i < list->n; i++)
            put_dim(w, list->v[i]);
        break;
    }
    }
}

static void put_attr(writer *w, const flxi_attr *a, const void *field)
{
    put_text(w, a->name);
    switch (a->kind) {
    case ATTR_INT:
    case ATTR_BOOL:
    case ATTR_DIM:
        put_dim(w, *(const flx_dim *)field);
        break;
    case ATTR_REAL:
        put_real(w, *(const double *)field);
        break;
    case ATTR_WORD: {
        size_t n = 0;
        const char *s = flxi_word_at(a->words, *(const int64_t *)field, &n);
        put(w, n, 4);
        flxi_add_bytes(&w->out, s, n);
        break;
    }
    case ATTR_DTYPE:
        put_text(w, flx_dtype_name((int32_t) * (const int64_t *)field));
        break;
    case ATTR_STRING:
        put_text(w, *(const char *const *)field);
        break;
    case ATTR_TYPE:
        put_type(w, *(const flx_type *const *)field);
        break;
    case ATTR_GRAPH:
        put_graph(w, *(const flx_graph *const *)field);
        break;
    case ATTR_COMBINE: {
        const flxi_combine *c = field;
        size_t n = 0;
        const char *s = c->graph ? "" : flxi_word_at(a->words, c->word, &n);
        put(w, n, 4);
        flxi_add_bytes(&w->out, s, n);
        if (c->graph)
            put_graph(w, c->graph);
        break;
    }
    case ATTR_DATA:
    case ATTR_VALUE:
        put_tensor(w, *(const flx_tensor *const *)field);
        break;
    default:
        put_list(w, a, field);
        break;
    }
}

static void put_attrs(writer *w, const flxi_node *n)
{
    const flxi_attr *schema = flxi_ops[n->op].rules->schema;
    uint32_t count = 0;
    for (const flxi_attr *a = schema; a && a->name; a++)
        count += !flxi_attr_is_default(a, (const char *)n->attrs + a->offset);
    put(w, count, 1);
    for (const flxi_attr *a = schema; a && a->name; a++) {
        const void *field = (const char *)n->attrs + a->offset;
        if (!flxi_attr_is_default(a, field))
            put_attr(w, a, field);
    }
}

static bool is_declared(const flxi_node *n)
{
    return (flxi_ops[n->op].traits & TRAIT_DECLARED) != 0;
}

static void put_node(writer *w, const flxi_node *n)
{
    put_text(w, flxi_ops[n->op].name);
    put(w, n->nin, 4);
    for (uint32_t k = 0; k < n->nin; k++)
        put(w, flxi_value_number(w->g, n->in[k]), 4);
    put_attrs(w, n);
    put(w, n->nout, 4);
    for (uint32_t k = 0; k < n->nout; k++) {
        const flxi_value *v = flxi_value_at(w->g, n->first + k);
        put(w, (v->name ? 1u : 0u) | (v->pinned ? 2u : 0u), 1);
        if (v->name)
            put_text(w, v->name);
    }
}

static void put_whole_graph(writer *w, const char *name)
{
    const flx_graph *g = w->g;
    put_text(w, name);
    put(w, g->leaves.n, 4);
    for (size_t i = 0; i < g->leaves.n; i++) {
        const flxi_value *v = flxi_value_at(g, g->leaves.at[i]);
        put(w, (uint64_t)flx_graph_input_is_param(g, i) | (v->pinned ? 2u : 0u), 1);
        put_text(w, v->name);
        put_type(w, v->type);
    }
    put(w, g->node_count - g->leaves.n, 4);
    for (uint32_t i = 0; i < g->node_count && !w->out.failed; i++)
        if (!is_declared(flxi_node_at(g, i)))
            put_node(w, flxi_node_at(g, i));
    put(w, g->outputs.n, 4);
    for (size_t i = 0; i < g->outputs.n; i++) {
        put(w, flxi_value_number(g, g->outputs.at[i].val), 4);
        put_text(w, g->outputs.at[i].name);
    }
}

static void put_payload(writer *w)
{
    put(w, w->list->graphs.n, 4);
    for (size_t i = 0; i < w->list->graphs.n && !w->out.failed; i++) {
        w->g = w->list->graphs.at[i];
        put_whole_graph(w, w->names[i]);
    }
}

static void write_header(writer *w)
{
    char *bytes = w->out.at;
    size_t size = w->out.n - HEADER_SIZE;
    uint64_t sum = flxi_hash_bytes(FLXI_HASH_SEED, bytes + HEADER_SIZE, size);
    size_t end = w->out.n;
    w->out.n = 0;
    flxi_add_bytes(&w->out, magic, sizeof magic);
    put(w, FORMAT_VERSION, 4);
    put(w, size, 8);
    put(w, sum, 8);
    /* The additions above ended the text with a zero byte, which lies on the payload's first byte. */
    w->out.n = end;
}

/* Header and payload in w->out; OOM when they are not whole. */
static flx_code write_list(writer *w, const flx_graph *main_graph, flxi_arena *scratch)
{
    char blank[HEADER_SIZE] = {0};
    w->names = flxi_new(scratch, const char *, w->list->graphs.n);
    if (!w->names)
        return FLX_E_OOM;
    FLXI_TRY(flxi_name_graphs(w->list, main_graph, scratch, w->names));
    flxi_add_bytes(&w->out, blank, sizeof blank);
    put_payload(w);
    if (w->out.failed)
        return FLX_E_OOM;
    char first = w->out.at[HEADER_SIZE];
    write_header(w);
    w->out.at[HEADER_SIZE] = first;
    return FLX_OK;
}

flx_code flx_graph_encode(const flx_graph *g, flx_buffer *out, flx_error *err)
{
    flxi_graph_list list = {0};
    flxi_arena scratch;
    writer w = {.list = &list};
    flx_code code = flx_graph_error(g, err);
    if (code != FLX_OK)
        return code;
    if (!out)
        return flxi_fail(err, FLX_E_USAGE, "flx_graph_encode: the buffer must be given");
    const flxi_allocator *mem = &g->ctx->mem;
    *out = (flx_buffer){0};
    flxi_strbuf_init(&w.out, mem);
    flxi_arena_init(&scratch, mem);
    code = flxi_collect_graphs(mem, g, &list);
    if (code == FLX_OK)
        code = write_list(&w, g, &scratch);
    flxi_graph_list_free(mem, &list);
    flxi_arena_free(&scratch);
    if (code == FLX_OK)
        return flxi_buffer_finish(&w.out, g->ctx, out, err);
    flxi_strbuf_free(&w.out);
    return flxi_oom(err, "encoding");
}

/* ---- Reading ---- */

typedef struct {
    flx_context *ctx;
    const unsigned char *at, *end;
    flxi_arena scratch;           /* of one node */
    FLXI_VEC(flx_graph *) graphs; /* held */
    flx_graph *g;
    FLXI_VEC(uint32_t) ids; /* by number in the file, minus 1 */
    flx_error *err;
} decoder;

static flx_code damaged(decoder *d, const char *what)
{
    return flxi_fail(d->err, FLX_E_SYNTAX, "the file is damaged: %s", what);
}

static flx_code get(decoder *d, int nbytes, uint64_t *out)
{
    *out = 0;
    if (d->end - d->at < nbytes)
        return damaged(d, "it ends early");
    for (int i = 0; i < nbytes; i++)
        *out |= (uint64_t)d->at[i] << (8 * i);
    d->at += nbytes;
    return FLX_OK;
}

/* A count of things that take at least `least` bytes each. */
static flx_code get_count(decoder *d, size_t least, uint32_t *out)
{
    uint64_t n;
    FLXI_TRY(get(d, 4, &n));
    if (n > (uint64_t)(d->end - d->at) / least)
        return damaged(d, "a count is larger than the file");
    *out = (uint32_t)n;
    return FLX_OK;
}

static flx_code get_text(decoder *d, flxi_arena *arena, const char **out)
{
    uint32_t n;
    FLXI_TRY(get_count(d, 1, &n));
    if (n && memchr(d->at, 0, n))
        return damaged(d, "a text holds a zero byte");
    *out = flxi_arena_text(arena, (const char *)d->at, n);
    d->at += n;
    return *out ? FLX_OK : flxi_oom(d->err, "decoding");
}

static flx_code get_real(decoder *d, double *out)
{
    uint64_t bits;
    FLXI_TRY(get(d, 8, &bits));
    memcpy(out, &bits, sizeof bits);
    return FLX_OK;
}

static flx_code get_dim(decoder *d, flx_dim *out)
{
    uint64_t symbolic;
    uint64_t v;
    FLXI_TRY(get(d, 1, &symbolic));
    if (!symbolic) {
        FLXI_TRY(get(d, 8, &v));
        *out = (flx_dim)v;
        return flxi_dim_is_number(*out) ? FLX_OK : damaged(d, "a dimension is out of range");
    }
    const char *text;
    FLXI_TRY(get_text(d, &d->scratch, &text));
    return flxi_dim_read(d->g, text, out, d->err);
}

static flx_code get_type(decoder *d, flx_type *out)
{
    uint64_t dtype;
    uint64_t rank;
    FLXI_TRY(get(d, 1, &dtype));
    FLXI_TRY(get(d, 1, &rank));
    if (rank > FLX_MAX_RANK)
        return damaged(d, "a rank is too large");
    *out = (flx_type){.dtype = (int32_t)dtype, .rank = (int32_t)rank};
    for (uint64_t i = 0; i < rank; i++)
        FLXI_TRY(get_dim(d, &out->dims[i]));
    return flxi_type_check(d->ctx, out, d->err);
}

static flx_code get_graph(decoder *d, const flx_graph **out)
{
    uint64_t i;
    FLXI_TRY(get(d, 4, &i));
    if (i >= d->graphs.n)
        return damaged(d, "a graph refers to one that does not come before it");
    *out = d->graphs.at[i];
    return FLX_OK;
}

static flx_code get_tensor(decoder *d, flx_attr *out)
{
    flx_type type;
    uint64_t nbytes;
    size_t wanted;
    FLXI_TRY(get_type(d, &type));
    FLXI_TRY(get(d, 8, &nbytes));
    if (!flxi_type_is_static(&type) || !flxi_static_bytes(&type, &wanted) || wanted != nbytes ||
        nbytes > (uint64_t)(d->end - d->at))
        return damaged(d, "a constant's size does not fit its type");
    for (size_t i = 0; type.dtype == FLX_BOOL && i < wanted; i++)
        if (d->at[i] > 1)
            return damaged(d, "a bool is neither 0 nor 1");
    flx_tensor *t = flx_tensor_new(d->ctx, &type, d->at, d->err);
    if (!t)
        return (flx_code)d->err->code;
    d->at += nbytes;
    *out = (flx_attr){.kind = FLX_ATTR_TENSOR, .as.tensor = t};
    return FLX_OK;
}

static flx_code get_ints(decoder *d, bool pairs, flx_attr *out)
{
    uint32_t n;
    FLXI_TRY(get_count(d, 5, &n));
    int64_t *v = flxi_new(&d->scratch, int64_t, n);
    if (!v)
        return flxi_oom(d->err, "decoding");
    for (uint32_t i = 0; i < n; i++)
        FLXI_TRY(get_dim(d, &v[i]));
    *out = (flx_attr){.kind = pairs ? FLX_ATTR_PAIRS : FLX_ATTR_INTS, .as.ints = {v, n}};
    return FLX_OK;
}

static flx_code get_list(decoder *d, const flxi_attr *a, flx_attr *out)
{
    uint32_t n;
    if (a->kind == ATTR_REALS) {
        FLXI_TRY(get_count(d, 8, &n));
        double *v = flxi_new(&d->scratch, double, n);
        for (uint32_t i = 0; v && i < n; i++)
            FLXI_TRY(get_real(d, &v[i]));
        *out = (flx_attr){.kind = FLX_ATTR_REALS, .as.reals = {v, n}};
        return v ? FLX_OK : flxi_oom(d->err, "decoding");
    }
    if (a->kind == ATTR_TYPES) {
        FLXI_TRY(get_count(d, 2, &n));
        flx_type *v = flxi_new(&d->scratch, flx_type, n);
        for (uint32_t i = 0; v && i < n; i++)
            FLXI_TRY(get_type(d, &v[i]));
        *out = (flx_attr){.kind = FLX_ATTR_TYPES, .as.types = {v, n}};
        return v ? FLX_OK : flxi_oom(d->err, "decoding");
    }
    if (a->kind == ATTR_GRAPHS) {
        FLXI_TRY(get_count(d, 4, &n));
        const flx_graph **v = flxi_new(&d->scratch, const flx_graph *, n);
        for (uint32_t i = 0; v && i < n; i++)
            FLXI_TRY(get_graph(d, &v[i]));
        *out = (flx_attr){.kind = FLX_ATTR_GRAPHS, .as.graphs = {v, n}};
        return v ? FLX_OK : flxi_oom(d->err, "decoding");
    }
    return get_ints(d, a->kind == ATTR_PAIRS, out);
}

static flx_code get_attr_value(decoder *d, const flxi_attr *a, flx_attr *out)
{
    switch (a->kind) {
    case ATTR_INT:
    case ATTR_BOOL:
    case ATTR_DIM:
        *out = (flx_attr){.kind = FLX_ATTR_INT};
        return get_dim(d, &out->as.i);
    case ATTR_REAL:
        *out = (flx_attr){.kind = FLX_ATTR_REAL};
        return get_real(d, &out->as.r);
    case ATTR_WORD:
    case ATTR_DTYPE:
        *out = (flx_attr){.kind = FLX_ATTR_WORD};
        return get_text(d, &d->scratch, &out->as.s);
    case ATTR_STRING:
        *out = (flx_attr){.kind = FLX_ATTR_STRING};
        return get_text(d, &d->scratch, &out->as.s);
    case ATTR_TYPE: {
        flx_type *t = flxi_new(&d->scratch, flx_type, 1);
        *out = (flx_attr){.kind = FLX_ATTR_TYPE, .as.type = t};
        return t ? get_type(d, t) : flxi_oom(d->err, "decoding");
    }
    case ATTR_GRAPH:
        *out = (flx_attr){.kind = FLX_ATTR_GRAPH};
        return get_graph(d, &out->as.graph);
    case ATTR_COMBINE:
        *out = (flx_attr){.kind = FLX_ATTR_WORD};
        FLXI_TRY(get_text(d, &d->scratch, &out->as.s));
        if (*out->as.s)
            return FLX_OK;
        out->kind = FLX_ATTR_GRAPH;
        return get_graph(d, &out->as.graph);
    case ATTR_DATA:
    case ATTR_VALUE:
        return get_tensor(d, out);
    default:
        return get_list(d, a, out);
    }
}

static flx_code get_attrs(decoder *d, const flxi_op *op, flx_attr *given, size_t count, size_t *made)
{
    for (size_t i = 0; i < count; i++) {
        const char *key;
        FLXI_TRY(get_text(d, &d->scratch, &key));
        const flxi_attr *a = op->rules->schema;
        while (a && a->name && strcmp(a->name, key) != 0)
            a++;
        if (!a || !a->name)
            return flxi_unknown_attr(op, key, d->err);
        FLXI_TRY(get_attr_value(d, a, &given[i]));
        given[i].key = a->name;
        *made = i + 1;
    }
    return FLX_OK;
}

static flx_code graph_failure(decoder *d)
{
    *d->err = d->g->error;
    return (flx_code)d->g->error.code;
}

static flx_code get_results(decoder *d, uint32_t first)
{
    uint32_t n;
    FLXI_TRY(get_count(d, 1, &n));
    if (n != flxi_node_at(d->g, d->g->node_count - 1)->nout)
        return damaged(d, "a node has another number of results than it should");
    for (uint32_t i = 0; i < n; i++) {
        uint64_t flags;
        FLXI_TRY(get(d, 1, &flags));
        if (flags & 1) {
            const char *name;
            FLXI_TRY(get_text(d, &d->scratch, &name));
            if (!flxi_is_label(name, strlen(name)))
                return damaged(d, "a name is not valid");
            flxi_label(d->g, first + i, name, strlen(name));
        }
        flxi_value_at(d->g, first + i)->pinned = (flags & 2) != 0;
        if (!flxi_push(&d->ctx->mem, &d->ids, first + i))
            return flxi_oom(d->err, "decoding");
    }
    return d->g->error.code ? graph_failure(d) : FLX_OK;
}

static flx_code get_operands(decoder *d, uint32_t **in, uint32_t *nin)
{
    FLXI_TRY(get_count(d, 4, nin));
    *in = flxi_new(&d->scratch, uint32_t, *nin);
    if (!*in)
        return flxi_oom(d->err, "decoding");
    for (uint32_t i = 0; i < *nin; i++) {
        uint64_t number;
        FLXI_TRY(get(d, 4, &number));
        if (number == 0 || number > d->ids.n)
            return damaged(d, "an operand does not come before its user");
        (*in)[i] = d->ids.at[number - 1];
    }
    return FLX_OK;
}

static flx_code get_node(decoder *d)
{
    const char *name;
    uint32_t *in;
    uint32_t nin;
    uint64_t count;
    size_t made = 0;
    void *attrs = NULL;
    FLXI_TRY(get_text(d, &d->scratch, &name));
    flxi_opcode op = flxi_op_lookup(name, strlen(name));
    if (op == OP_NONE || (flxi_ops[op].traits & TRAIT_DECLARED)) {
        char text[60];
        return flxi_fail_hint(d->err, FLX_E_VERSION, "it may have been written by a newer version",
                              "the file uses an op called '%s', which is not known here",
                              flxi_printable(text, sizeof text, name, strlen(name)));
    }
    FLXI_TRY(get_operands(d, &in, &nin));
    FLXI_TRY(get(d, 1, &count));
    flx_attr *given = flxi_new(&d->scratch, flx_attr, count);
    if (!given)
        return flxi_oom(d->err, "decoding");
    flx_code code = get_attrs(d, &flxi_ops[op], given, count, &made);
    if (code == FLX_OK)
        code = flxi_attrs_fill(d->g, &flxi_ops[op], given, count, &attrs, d->err);
    uint32_t first = code == FLX_OK ? flxi_add_node(d->g, op, in, nin, attrs) : 0;
    for (size_t i = 0; i < made; i++)
        if (given[i].kind == FLX_ATTR_TENSOR)
            flx_tensor_release((flx_tensor *)(uintptr_t)given[i].as.tensor);
    if (code != FLX_OK)
        return code;
    return first ? get_results(d, first) : graph_failure(d);
}

static flx_code get_leaves(decoder *d)
{
    uint32_t n;
    FLXI_TRY(get_count(d, 7, &n));
    for (uint32_t i = 0; i < n; i++) {
        uint64_t flags;
        const char *name;
        flx_type type;
        FLXI_TRY(get(d, 1, &flags));
        FLXI_TRY(get_text(d, &d->scratch, &name));
        FLXI_TRY(get_type(d, &type));
        uint32_t id = flxi_add_leaf(d->g, flags & 1 ? OP_param : OP_input, name, &type);
        if (!id)
            return graph_failure(d);
        flxi_value_at(d->g, id)->pinned = (flags & 2) != 0;
        if (!flxi_push(&d->ctx->mem, &d->ids, id))
            return flxi_oom(d->err, "decoding");
    }
    return FLX_OK;
}

static flx_code get_outputs(decoder *d)
{
    uint32_t n;
    FLXI_TRY(get_count(d, 8, &n));
    for (uint32_t i = 0; i < n; i++) {
        uint64_t number;
        const char *name;
        FLXI_TRY(get(d, 4, &number));
        FLXI_TRY(get_text(d, &d->scratch, &name));
        if (number == 0 || number > d->ids.n)
            return damaged(d, "an output does not exist");
        if (flx_output(d->g, (flx_val){d->ids.at[number - 1], d->g->serial}, name) != FLX_OK)
            return graph_failure(d);
        if (strcmp(d->g->outputs.at[i].name, name) != 0)
            return damaged(d, "two outputs have one name");
    }
    return FLX_OK;
}

static flx_code get_whole_graph(decoder *d)
{
    const char *name;
    uint32_t n;
    FLXI_TRY(get_text(d, &d->scratch, &name));
    d->ids.n = 0;
    d->g = flx_graph_new(d->ctx, name);
    if (!d->g || !flxi_push(&d->ctx->mem, &d->graphs, d->g)) {
        flx_graph_release(d->g);
        return flxi_oom(d->err, "decoding");
    }
    if (d->g->error.code)
        return graph_failure(d);
    FLXI_TRY(get_leaves(d));
    FLXI_TRY(get_count(d, 13, &n));
    for (uint32_t i = 0; i < n; i++) {
        flxi_mark mark = flxi_arena_mark(&d->scratch);
        FLXI_TRY(get_node(d));
        flxi_arena_rewind(&d->scratch, mark);
    }
    return get_outputs(d);
}

static flx_code get_payload(decoder *d, flx_module *m)
{
    uint32_t n;
    FLXI_TRY(get_count(d, 16, &n));
    if (n == 0)
        return damaged(d, "it holds no graph");
    for (uint32_t i = 0; i < n; i++) {
        FLXI_TRY(get_whole_graph(d));
        if (flxi_module_add(m, d->g) != FLX_OK)
            return flxi_oom(d->err, "decoding");
    }
    return d->at == d->end ? FLX_OK : damaged(d, "there is more behind its end");
}

static flx_code get_header(decoder *d)
{
    uint64_t version;
    uint64_t size;
    uint64_t sum;
    if (d->end - d->at < HEADER_SIZE || memcmp(d->at, magic, sizeof magic) != 0)
        return flxi_fail(d->err, FLX_E_SYNTAX, "this is no Fluxion binary file");
    d->at += sizeof magic;
    FLXI_TRY(get(d, 4, &version));
    if (version != FORMAT_VERSION)
        return flxi_fail(d->err, FLX_E_VERSION, "the file has format version %llu, this library reads version %d",
                         (unsigned long long)version, FORMAT_VERSION);
    FLXI_TRY(get(d, 8, &size));
    FLXI_TRY(get(d, 8, &sum));
    if (size != (uint64_t)(d->end - d->at))
        return damaged(d, "its size is not the recorded one");
    if (flxi_hash_bytes(FLXI_HASH_SEED, d->at, (size_t)size) != sum)
        return damaged(d, "its checksum is wrong");
    return FLX_OK;
}

flx_module *flx_decode(flx_context *ctx, const void *bytes, size_t size, const char *file, flx_error *err)
{
    flx_error local = {0};
    if (!ctx || (!bytes && size)) {
        flxi_fail(err, FLX_E_USAGE, "flx_decode: context and bytes must be given");
        return NULL;
    }
    decoder d = {.ctx = ctx, .at = bytes, .err = &local};
    d.end = size ? d.at + size : d.at;
    flxi_arena_init(&d.scratch, &ctx->mem);
    flx_module *m = flxi_module_new(ctx);
    flx_code code = m ? get_header(&d) : flxi_oom(&local, "a module");
    if (code == FLX_OK)
        code = get_payload(&d, m);
    for (size_t i = 0; i < d.graphs.n; i++)
        flx_graph_release(d.graphs.at[i]);
    flxi_vec_free(&ctx->mem, &d.graphs);
    flxi_vec_free(&ctx->mem, &d.ids);
    flxi_arena_free(&d.scratch);
    if (code == FLX_OK)
        return m;
    flx_module_free(m);
    local.where[0] = 0;
    flxi_at(&local, "%.110s", file ? file : "bytes");
    if (err)
        *err = local;
    return NULL;
}
