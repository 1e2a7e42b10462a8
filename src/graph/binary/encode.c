/* SPDX-License-Identifier: Apache-2.0 */
/* encode.c: writes graphs in the binary form, which binary.h describes. */
#include "base/half.h"
#include "graph/binary/binary.h"
#include "graph/initialisation.h"
#include "graph/module.h"
#include "graph/op/eval.h"

#include <fluxion/text.h>

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
    put(w, flxi_f64_bits(x), 8);
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

/* ---- Attributes by kind ---- */

static void encode_dim(writer *w, const flxi_attr *a, const void *field)
{
    (void)a;
    put_dim(w, *(const flx_dim *)field);
}

static void encode_real(writer *w, const flxi_attr *a, const void *field)
{
    (void)a;
    put_real(w, *(const double *)field);
}

static void put_word(writer *w, const flxi_attr *a, int64_t word)
{
    size_t n = 0;
    const char *s = flxi_word_at(a->words, word, &n);
    put(w, n, 4);
    flxi_add_bytes(&w->out, s, n);
}

static void encode_word(writer *w, const flxi_attr *a, const void *field)
{
    put_word(w, a, *(const int64_t *)field);
}

static void encode_dtype(writer *w, const flxi_attr *a, const void *field)
{
    (void)a;
    put_text(w, flx_dtype_name((int32_t) * (const int64_t *)field));
}

static void encode_ints(writer *w, const flxi_attr *a, const void *field)
{
    const flx_ints *list = field;
    (void)a;
    put(w, list->n, 4);
    for (size_t i = 0; i < list->n; i++)
        put_dim(w, list->v[i]);
}

static void encode_reals(writer *w, const flxi_attr *a, const void *field)
{
    const flx_reals *list = field;
    (void)a;
    put(w, list->n, 4);
    for (size_t i = 0; i < list->n; i++)
        put_real(w, list->v[i]);
}

static void encode_string(writer *w, const flxi_attr *a, const void *field)
{
    (void)a;
    put_text(w, *(const char *const *)field);
}

static void encode_type(writer *w, const flxi_attr *a, const void *field)
{
    (void)a;
    put_type(w, *(const flx_type *const *)field);
}

static void encode_types(writer *w, const flxi_attr *a, const void *field)
{
    const flx_types *list = field;
    (void)a;
    put(w, list->n, 4);
    for (size_t i = 0; i < list->n; i++)
        put_type(w, &list->v[i]);
}

static void encode_graph(writer *w, const flxi_attr *a, const void *field)
{
    (void)a;
    put_graph(w, *(const flx_graph *const *)field);
}

static void encode_graphs(writer *w, const flxi_attr *a, const void *field)
{
    const flx_graphs *list = field;
    (void)a;
    put(w, list->n, 4);
    for (size_t i = 0; i < list->n; i++)
        put_graph(w, list->v[i]);
}

static void encode_combine(writer *w, const flxi_attr *a, const void *field)
{
    const flxi_combine *c = field;
    if (c->graph) {
        put(w, 0, 4); /* no word */
        put_graph(w, c->graph);
    } else {
        put_word(w, a, c->word);
    }
}

static void encode_data(writer *w, const flxi_attr *a, const void *field)
{
    (void)a;
    put_tensor(w, *(const flx_tensor *const *)field);
}

#define encode_int encode_dim
#define encode_bool encode_dim
#define encode_bools encode_ints
#define encode_dims encode_ints
#define encode_pairs encode_ints
#define encode_value encode_data

/* A kind without a function here does not compile. */
static void (*const encoders[])(writer *w, const flxi_attr *a, const void *field) = {
#define ENCODER(NAME, name) [ATTR_##NAME] = encode_##name,
    FLXI_ATTR_KINDS(ENCODER)
#undef ENCODER
};

static void put_attr(writer *w, const flxi_attr *a, const void *field)
{
    put_text(w, a->name);
    encoders[a->kind](w, a, field);
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

static void put_init(writer *w, flx_init init)
{
    size_t n = 0;
    const char *name = flxi_init_name(init.kind, &n);
    put(w, n, 4);
    flxi_add_bytes(&w->out, name, n);
    put_real(w, init.scale);
}

static void put_whole_graph(writer *w, const char *name)
{
    const flx_graph *g = w->g;
    put_text(w, name);
    put(w, g->leaves.n, 4);
    for (size_t i = 0; i < g->leaves.n; i++) {
        const flxi_value *v = flxi_value_at(g, g->leaves.at[i]);
        flx_init init = flxi_leaf_init(g, g->leaves.at[i]);
        put(w, (uint64_t)flx_graph_input_is_param(g, i) | (v->pinned ? 2u : 0u) | (init.kind ? 4u : 0u), 1);
        put_text(w, v->name);
        put_type(w, v->type);
        if (init.kind)
            put_init(w, init);
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
    size_t size = w->out.n - FLXI_BINARY_HEADER_SIZE;
    uint64_t sum = flxi_hash_bytes(FLXI_HASH_SEED, bytes + FLXI_BINARY_HEADER_SIZE, size);
    size_t end = w->out.n;
    w->out.n = 0;
    flxi_add_bytes(&w->out, FLXI_BINARY_MAGIC, FLXI_BINARY_MAGIC_SIZE);
    put(w, FLXI_BINARY_VERSION, 4);
    put(w, size, 8);
    put(w, sum, 8);
    /* The additions above ended the text with a zero byte, which overwrites the payload's first byte. */
    w->out.n = end;
}

/* Header and payload in w->out; OOM when they are incomplete. */
static flx_code write_list(writer *w, const flx_graph *main_graph, flxi_arena *scratch)
{
    char blank[FLXI_BINARY_HEADER_SIZE] = {0};
    w->names = flxi_new(scratch, const char *, w->list->graphs.n);
    if (!w->names)
        return FLX_E_OOM;
    FLXI_TRY(flxi_name_graphs(w->list, main_graph, scratch, w->names));
    flxi_add_bytes(&w->out, blank, sizeof blank);
    put_payload(w);
    if (w->out.failed)
        return FLX_E_OOM;
    char first = w->out.at[FLXI_BINARY_HEADER_SIZE];
    write_header(w);
    w->out.at[FLXI_BINARY_HEADER_SIZE] = first;
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
