/* SPDX-License-Identifier: Apache-2.0 */
/* decode.c: reads graphs from the binary form, which binary.h describes. The bytes are untrusted: every node is built
   with flxi_add_node, so a decoded graph is inferred and checked like any other, and counts are compared with the
   remaining bytes before anything is allocated. */
#include "graph/binary/binary.h"
#include "graph/initialisation.h"
#include "graph/module.h"
#include "graph/op/eval.h"
#include "graph/text/parse.h"

#include <fluxion/text.h>

typedef struct {
    flx_context *ctx;
    const unsigned char *at, *end;
    flxi_arena scratch;           /* of one node */
    FLXI_VEC(flx_graph *) graphs; /* held */
    flx_graph *g;
    FLXI_VEC(uint32_t) ids; /* by number in the file, minus 1 */
    int version;
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
        return damaged(d, "the size of a constant does not match its type");
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

/* ---- Attributes by kind ---- */

static flx_code decode_dim(decoder *d, flx_attr *out)
{
    *out = (flx_attr){.kind = FLX_ATTR_INT};
    return get_dim(d, &out->as.i);
}

static flx_code decode_real(decoder *d, flx_attr *out)
{
    *out = (flx_attr){.kind = FLX_ATTR_REAL};
    return get_real(d, &out->as.r);
}

static flx_code decode_word(decoder *d, flx_attr *out)
{
    *out = (flx_attr){.kind = FLX_ATTR_WORD};
    return get_text(d, &d->scratch, &out->as.s);
}

static flx_code decode_string(decoder *d, flx_attr *out)
{
    *out = (flx_attr){.kind = FLX_ATTR_STRING};
    return get_text(d, &d->scratch, &out->as.s);
}

static flx_code decode_ints(decoder *d, flx_attr *out)
{
    uint32_t n;
    FLXI_TRY(get_count(d, 5, &n));
    int64_t *v = flxi_new(&d->scratch, int64_t, n);
    if (!v)
        return flxi_oom(d->err, "decoding");
    for (uint32_t i = 0; i < n; i++)
        FLXI_TRY(get_dim(d, &v[i]));
    *out = (flx_attr){.kind = FLX_ATTR_INTS, .as.ints = {v, n}};
    return FLX_OK;
}

static flx_code decode_pairs(decoder *d, flx_attr *out)
{
    FLXI_TRY(decode_ints(d, out));
    out->kind = FLX_ATTR_PAIRS;
    return FLX_OK;
}

static flx_code decode_reals(decoder *d, flx_attr *out)
{
    uint32_t n;
    FLXI_TRY(get_count(d, 8, &n));
    double *v = flxi_new(&d->scratch, double, n);
    for (uint32_t i = 0; v && i < n; i++)
        FLXI_TRY(get_real(d, &v[i]));
    *out = (flx_attr){.kind = FLX_ATTR_REALS, .as.reals = {v, n}};
    return v ? FLX_OK : flxi_oom(d->err, "decoding");
}

static flx_code decode_type(decoder *d, flx_attr *out)
{
    flx_type *t = flxi_new(&d->scratch, flx_type, 1);
    *out = (flx_attr){.kind = FLX_ATTR_TYPE, .as.type = t};
    return t ? get_type(d, t) : flxi_oom(d->err, "decoding");
}

static flx_code decode_types(decoder *d, flx_attr *out)
{
    uint32_t n;
    FLXI_TRY(get_count(d, 2, &n));
    flx_type *v = flxi_new(&d->scratch, flx_type, n);
    for (uint32_t i = 0; v && i < n; i++)
        FLXI_TRY(get_type(d, &v[i]));
    *out = (flx_attr){.kind = FLX_ATTR_TYPES, .as.types = {v, n}};
    return v ? FLX_OK : flxi_oom(d->err, "decoding");
}

static flx_code decode_graph(decoder *d, flx_attr *out)
{
    *out = (flx_attr){.kind = FLX_ATTR_GRAPH};
    return get_graph(d, &out->as.graph);
}

static flx_code decode_graphs(decoder *d, flx_attr *out)
{
    uint32_t n;
    FLXI_TRY(get_count(d, 4, &n));
    const flx_graph **v = flxi_new(&d->scratch, const flx_graph *, n);
    for (uint32_t i = 0; v && i < n; i++)
        FLXI_TRY(get_graph(d, &v[i]));
    *out = (flx_attr){.kind = FLX_ATTR_GRAPHS, .as.graphs = {v, n}};
    return v ? FLX_OK : flxi_oom(d->err, "decoding");
}

static flx_code decode_combine(decoder *d, flx_attr *out)
{
    FLXI_TRY(decode_word(d, out));
    return *out->as.s ? FLX_OK : decode_graph(d, out);
}

#define decode_int decode_dim
#define decode_bool decode_dim
#define decode_dtype decode_word
#define decode_bools decode_ints
#define decode_dims decode_ints
#define decode_data get_tensor
#define decode_value get_tensor

static flx_code (*const decoders[])(decoder *d, flx_attr *out) = {
#define DECODER(NAME, name) [ATTR_##NAME] = decode_##name,
    FLXI_ATTR_KINDS(DECODER)
#undef DECODER
};

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
        FLXI_TRY(decoders[a->kind](d, &given[i]));
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
        return damaged(d, "a node has the wrong number of results");
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
        return flxi_fail_hint(d->err, FLX_E_VERSION, "the file may come from a newer version",
                              "the file uses the unknown op '%s'",
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

static flx_code get_init(decoder *d, uint32_t id)
{
    const char *name;
    flx_init init = {0};
    FLXI_TRY(get_text(d, &d->scratch, &name));
    FLXI_TRY(get_real(d, &init.scale));
    init.kind = flxi_init_find(name, strlen(name));
    if (!init.kind) {
        char text[60];
        return flxi_fail_hint(d->err, FLX_E_VERSION, "the file may come from a newer version",
                              "the file uses the unknown initialisation '%s'",
                              flxi_printable(text, sizeof text, name, strlen(name)));
    }
    if (!flx_set_init(d->g, (flx_val){id, d->g->serial}, init).id)
        return graph_failure(d);
    return FLX_OK;
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
        uint32_t id = flxi_add_leaf(d->g, flxi_leaf_op(flags & 1), name, &type);
        if (!id)
            return graph_failure(d);
        flxi_value_at(d->g, id)->pinned = (flags & 2) != 0;
        if ((flags & 4) && d->version > 1)
            FLXI_TRY(get_init(d, id));
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
        if (flxi_output_last(d->g, (flx_val){d->ids.at[number - 1], d->g->serial}, name) != FLX_OK)
            return graph_failure(d);
        if (strcmp(d->g->outputs.at[i].name, name) != 0)
            return damaged(d, "two outputs have the same name");
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
    return d->at == d->end ? FLX_OK : damaged(d, "there is data after its end");
}

static flx_code get_header(decoder *d)
{
    uint64_t version;
    uint64_t size;
    uint64_t sum;
    if (d->end - d->at < FLXI_BINARY_HEADER_SIZE || memcmp(d->at, FLXI_BINARY_MAGIC, FLXI_BINARY_MAGIC_SIZE) != 0)
        return flxi_fail(d->err, FLX_E_SYNTAX, "this is not a Fluxion binary file");
    d->at += FLXI_BINARY_MAGIC_SIZE;
    FLXI_TRY(get(d, 4, &version));
    if (version < 1 || version > FLXI_BINARY_VERSION)
        return flxi_fail(d->err, FLX_E_VERSION,
                         "the file has format version %llu, but this library reads versions 1 to %d",
                         (unsigned long long)version, FLXI_BINARY_VERSION);
    d->version = (int)version;
    FLXI_TRY(get(d, 8, &size));
    FLXI_TRY(get(d, 8, &sum));
    if (size != (uint64_t)(d->end - d->at))
        return damaged(d, "its size differs from the recorded size");
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
