/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_encode.c: writes the wire form, which kernel_wire.h describes. The sections after the strings are written
   first, because they determine the order of the strings. */
#include "kernel/wire/kernel_wire.h"

#include "base/context.h"
#include "base/strbuf.h"
#include "base/text/utf8.h"
#include "kernel/check/kernel_check_buffer.h"

typedef struct {
    const char *text;
    size_t length;
    uint32_t number; /* in the table of strings */
} known_text;

typedef struct {
    const flx_kernel *k;
    const flxi_allocator *mem;
    flxi_arena scratch;
    flxi_strbuf out; /* declarations, metadata and body */
    flxi_strings strings;
    FLXI_VEC(known_text) known; /* texts by pointer: a program keeps each once */
    flxi_index known_index;
    uint32_t *numbers; /* of variables: number + 1, 0 before the declaration */
    uint32_t num_vars;
    uint64_t text; /* bytes of all texts referred to */
    flx_error err; /* the first */
} writer;

/* ---- Words ---- */

static void refuse(writer *w, const char *kind, const char *what)
{
    if (w->err.code == FLX_OK)
        flxi_kernel_fail(&w->err, kind, "validate the kernel first", "%s", what);
}

static void put_into(flxi_strbuf *out, uint32_t v)
{
    unsigned char bytes[4];
    for (int i = 0; i < 4; i++)
        bytes[i] = (unsigned char)(v >> (8 * i));
    flxi_add_bytes(out, bytes, sizeof bytes);
}

static void put(writer *w, uint32_t v)
{
    put_into(&w->out, v);
}

static void put_u64(writer *w, uint64_t v)
{
    put(w, (uint32_t)v);
    put(w, (uint32_t)(v >> 32));
}

static void put_node(writer *w, unsigned tag, uint32_t details)
{
    put(w, tag | details << 8);
}

static void put_bytes_into(flxi_strbuf *out, const void *data, size_t n)
{
    static const char zeros[4] = {0};
    put_into(out, (uint32_t)n);
    flxi_add_bytes(out, data, n);
    flxi_add_bytes(out, zeros, (4 - n % 4) % 4);
}

static void put_payload(writer *w, const void *data, size_t n)
{
    if (n > WIRE_MAX_PAYLOAD)
        refuse(w, "limit:", "an extension or a descriptor exceeds 4 MiB");
    else if (w->out.n + n > WIRE_MAX_BYTES) /* one payload may occur often */
        refuse(w, "limit:", "the kernel exceeds 64 MiB");
    else
        put_bytes_into(&w->out, data, n);
}

/* ---- Texts ---- */

/* A text that occurs for the first time. */
static const known_text *add_text(writer *w, uint64_t hash, const char *text)
{
    known_text t = {.text = text, .length = strlen(text)};
    if (t.length > WIRE_MAX_STRING || !flxi_is_utf8(text, t.length)) {
        bool too_long = t.length > WIRE_MAX_STRING;
        refuse(w, too_long ? "limit:" : "bad string:", too_long ? "a text exceeds 1 MiB" : "a text is not UTF-8");
        return NULL;
    }
    size_t number = flxi_intern_number(&w->strings, text, t.length);
    t.number = (uint32_t)number;
    if (number == SIZE_MAX || !flxi_push(w->mem, &w->known, t) ||
        !flxi_index_add(w->mem, &w->known_index, hash, (uint32_t)w->known.n - 1)) {
        w->out.failed = true;
        return NULL;
    }
    return &w->known.at[w->known.n - 1];
}

static const known_text *find_text(writer *w, const char *text)
{
    uint64_t h = flxi_hash_u64(FLXI_HASH_SEED, (uint64_t)(uintptr_t)text);
    uint32_t i;
    for (flxi_probe p = flxi_index_first(&w->known_index, h); flxi_index_next(&w->known_index, &p, &i);)
        if (w->known.at[i].text == text)
            return &w->known.at[i];
    return add_text(w, h, text);
}

static void put_text(writer *w, const char *text)
{
    const known_text *t = w->err.code == FLX_OK && !w->out.failed ? find_text(w, text) : NULL;
    if (!t)
        return;
    w->text += t->length;
    if (w->text > WIRE_MAX_TEXT)
        refuse(w, "limit:", "names and other texts exceed 64 MiB in total");
    put(w, t->number);
}

/* ---- Expressions ---- */

static void put_expr(writer *w, uint32_t expr);

static void put_args(writer *w, const flxi_kx *e)
{
    put(w, e->num_args);
    for (size_t i = 0; i < e->num_args; i++)
        put_expr(w, e->args[i]);
}

/* A reference: its kind is known only after a lookup, so it is written with its node. */
static void put_var(writer *w, unsigned tag, uint32_t var)
{
    uint32_t number = w->numbers[var <= w->k->num_vars ? var : 0];
    put_node(w, tag, number == 0);
    if (number)
        put(w, number - 1);
    else
        put_text(w, w->k->vars[var <= w->k->num_vars ? var : 0].name);
}

static void declare(writer *w, uint32_t var)
{
    put_text(w, w->k->vars[var].name);
    w->numbers[var] = ++w->num_vars;
}

static void put_literal(writer *w, const flxi_kx *e)
{
    put_node(w, WIRE_LITERAL, e->type);
    put(w, (uint32_t)e->bits);
    if (flxi_ktype_of(e->type)->bits == 64)
        put(w, (uint32_t)(e->bits >> 32));
}

static void put_opaque(writer *w, unsigned tag, uint32_t opaque)
{
    const flxi_kopaque *o = &w->k->opaques[opaque <= w->k->num_opaques ? opaque : 0];
    if (o->id) {
        put_node(w, WIRE_EXTENSION, o->type);
        put(w, o->id);
        put_payload(w, o->payload, o->payload_size);
        return;
    }
    put_node(w, tag, o->type | (uint32_t)(o->pure != 0) << 8);
    put_text(w, o->extension);
    put_u64(w, o->fingerprint);
    put_payload(w, o->payload, o->payload_size);
}

/* The node and the fields that are not expressions. */
static void put_expr_head(writer *w, const flxi_kx *e)
{
    switch ((flxi_kx_kind)e->kind) {
    case KX_NONE:
    case KX_KIND_COUNT: refuse(w, "bad value:", "an operand is missing"); break;
    case KX_LITERAL: put_literal(w, e); break;
    case KX_VAR: put_var(w, WIRE_VAR, e->ref); break;
    case KX_LOAD:
        put_node(w, WIRE_LOAD, 0);
        put(w, e->ref);
        break;
    case KX_LENGTH:
        put_node(w, WIRE_LENGTH, 0);
        put(w, e->ref);
        break;
    case KX_ID:
        put_node(w, WIRE_ID, e->op);
        put(w, e->ref);
        break;
    case KX_LANE: put_node(w, WIRE_LANE, 0); break;
    case KX_LANES: put_node(w, WIRE_LANES, 0); break;
    case KX_UNARY: put_node(w, WIRE_UNARY, e->op); break;
    case KX_BINARY: put_node(w, WIRE_BINARY, e->op); break;
    case KX_SELECT: put_node(w, WIRE_SELECT, 0); break;
    case KX_FMA: put_node(w, WIRE_FMA, 0); break;
    case KX_CAST: put_node(w, WIRE_CAST, e->type); break;
    case KX_BITCAST: put_node(w, WIRE_BITCAST, e->type); break;
    case KX_CALL:
        put_node(w, WIRE_CALL, 0);
        put(w, e->ref);
        break;
    case KX_ATOMIC:
        put_node(w, WIRE_ATOMIC, e->op | (uint32_t)e->order << 8 | (uint32_t)(e->x[2] != 0) << 16);
        put(w, e->ref);
        break;
    case KX_SUBGROUP_ADD: put_node(w, WIRE_SUBGROUP_ADD, 0); break;
    case KX_SUBGROUP_SHUFFLE: put_node(w, WIRE_SUBGROUP_SHUFFLE, 0); break;
    case KX_SUBGROUP_BALLOT: put_node(w, WIRE_SUBGROUP_BALLOT, 0); break;
    case KX_OPAQUE: put_opaque(w, WIRE_OPAQUE_EXPR, e->ref); break;
    }
}

static void put_expr(writer *w, uint32_t expr)
{
    const flxi_kx *e = &w->k->exprs[expr <= w->k->num_exprs ? expr : 0];
    if (w->err.code != FLX_OK || w->out.failed)
        return;
    put_expr_head(w, e);
    for (int i = 0; i < flxi_kx_operands(e); i++)
        put_expr(w, e->x[i]);
    if (e->kind == KX_CALL || e->kind == KX_OPAQUE)
        put_args(w, e);
}

/* ---- Statements ---- */

static void put_list(writer *w, flxi_klist list);

static void put_rare(writer *w, const flxi_ks *s)
{
    switch ((flxi_ks_kind)s->kind) {
    case KS_INDIRECT:
        put_node(w, WIRE_INDIRECT, 0);
        put(w, s->buffer);
        put_u64(w, s->offset);
        break;
    case KS_ASYNC_LOAD:
    case KS_ASYNC_STORE:
        put_node(w, s->kind == KS_ASYNC_LOAD ? WIRE_ASYNC_LOAD : WIRE_ASYNC_STORE, 0);
        put(w, s->buffer);
        put(w, s->target);
        put_text(w, s->text);
        put_expr(w, s->a);
        put_expr(w, s->b);
        break;
    case KS_ASYNC_WAIT:
    case KS_RESUME:
        put_node(w, s->kind == KS_RESUME ? WIRE_RESUME : WIRE_ASYNC_WAIT, 0);
        put_text(w, s->text);
        break;
    case KS_TRAP:
        put_node(w, WIRE_TRAP, 0);
        put_text(w, s->text);
        put_expr(w, s->a);
        break;
    case KS_COLLECTIVE:
        put_node(w, WIRE_COLLECTIVE, s->order);
        put(w, s->buffer);
        put(w, s->target);
        if (s->order == FLX_KERNEL_BROADCAST)
            put_u64(w, s->offset);
        break;
    case KS_OPAQUE: put_opaque(w, WIRE_OPAQUE, s->opaque); break;
    default: refuse(w, "bad value:", "a statement has no kind"); break;
    }
}

static void put_nested(writer *w, const flxi_ks *s)
{
    if (s->kind == KS_IF) {
        put_node(w, WIRE_IF, 0);
        put_expr(w, s->a);
        put_list(w, s->body);
        put_list(w, s->other);
        return;
    }
    if (s->kind == KS_LOOP) {
        put_node(w, WIRE_LOOP, 0);
        put_text(w, w->k->vars[s->var].name);
        put_expr(w, s->a);
        put_expr(w, s->b);
        w->numbers[s->var] = ++w->num_vars; /* not visible in the bounds */
    } else if (s->kind == KS_REGION) {
        put_node(w, WIRE_REGION, s->flags);
        put_text(w, s->text);
        put_text(w, s->source);
    } else {
        put_node(w, WIRE_BLOCK, 0);
    }
    put_list(w, s->body);
}

static void put_statement(writer *w, const flxi_ks *s)
{
    switch ((flxi_ks_kind)s->kind) {
    case KS_LET:
        put_node(w, WIRE_LET, 0);
        put_text(w, w->k->vars[s->var].name);
        put_expr(w, s->a);
        w->numbers[s->var] = ++w->num_vars;
        break;
    case KS_ASSIGN:
        put_var(w, WIRE_ASSIGN, s->var);
        put_expr(w, s->a);
        break;
    case KS_STORE:
        put_node(w, WIRE_STORE, 0);
        put(w, s->buffer);
        put_expr(w, s->a);
        put_expr(w, s->b);
        break;
    case KS_EFFECT:
        put_node(w, WIRE_EFFECT, 0);
        put_expr(w, s->a);
        break;
    case KS_IF:
    case KS_LOOP:
    case KS_BLOCK:
    case KS_REGION: put_nested(w, s); break;
    case KS_BARRIER: put_node(w, WIRE_BARRIER, s->order); break;
    case KS_RETURN: put_node(w, WIRE_RETURN, 0); break;
    default: put_rare(w, s); break;
    }
}

static void put_list(writer *w, flxi_klist list)
{
    put(w, (uint32_t)list.n);
    for (size_t i = 0; i < list.n && w->err.code == FLX_OK && !w->out.failed; i++)
        put_statement(w, &list.at[i]);
}

/* ---- Sections ---- */

static void put_predicates(writer *w, const flxi_kbuffer *b)
{
    if (!flxi_kpredicate_is_whole(b->predicates, b->num_predicates))
        refuse(w, "bad value:", "the condition on the count of a buffer is not well-formed");
    put(w, (uint32_t)b->num_predicates);
    for (size_t i = 0; i < b->num_predicates; i++) {
        const uint64_t numbers[3] = {b->predicates[i].a, b->predicates[i].b, b->predicates[i].c};
        put(w, b->predicates[i].test);
        for (int k = 0; k < flxi_kwire_numbers(b->predicates[i].test); k++)
            put_u64(w, numbers[k]);
    }
}

static void put_buffer(writer *w, const flxi_kbuffer *b)
{
    put(w, b->access | (uint32_t)b->element << 8 | (uint32_t)b->usage << 16);
    put_text(w, b->name);
    put(w, flxi_kbuffer_is_bound(b) ? b->binding : 0);
    put(w, b->flags);
    put_u64(w, b->count);
    put_u64(w, b->range_begin);
    put_u64(w, b->range_end);
    put(w, b->alignment);
    put(w, b->locality);
    put(w, b->coalescing);
    put_payload(w, b->descriptor, b->descriptor_size);
    put_predicates(w, b);
}

static void put_function(writer *w, const flxi_kfn *fn)
{
    put(w, fn->type | (uint32_t)(fn->adjoint_of != 0) << 8);
    if (fn->adjoint_of) {
        put(w, fn->adjoint_of - 1);
        put(w, fn->adjoint_param);
    } else {
        put_text(w, fn->name);
    }
    put(w, fn->num_params);
    for (uint32_t i = 0; i < fn->num_params; i++) {
        put(w, w->k->vars[fn->params[i]].type);
        declare(w, fn->params[i]);
    }
    put_list(w, fn->body);
    put_expr(w, fn->result);
}

static void put_declarations(writer *w)
{
    for (int a = 0; a < 3; a++)
        put(w, w->k->size[a]);
    put(w, w->k->num_buffers);
    for (uint32_t i = 1; i <= w->k->num_buffers && !w->out.failed; i++)
        put_buffer(w, &w->k->buffers[i]);
    put(w, w->k->num_fns);
    for (uint32_t i = 1; i <= w->k->num_fns && !w->out.failed; i++)
        put_function(w, &w->k->fns[i]);
}

static void put_metadata(writer *w)
{
    put_text(w, w->k->name);
    put(w, w->k->flags);
    put(w, (uint32_t)w->k->num_meta);
    for (size_t i = 0; i < w->k->num_meta && !w->out.failed; i++) {
        put_text(w, w->k->meta[i].key);
        put_text(w, w->k->meta[i].value);
    }
}

static void put_body(writer *w)
{
    put_list(w, w->k->body);
}

/* Overwrites words that were written before. */
static void patch(flxi_strbuf *out, size_t at, uint32_t v)
{
    for (size_t i = 0; i < 4; i++)
        out->at[at + i] = (char)(v >> (8 * i));
}

static void put_section(writer *w, uint32_t number, void (*contents)(writer *))
{
    put(w, number);
    size_t start = w->out.n;
    put(w, 0);
    contents(w);
    if (!w->out.failed)
        patch(&w->out, start, (uint32_t)((w->out.n - start) / 4 - 1));
}

/* ---- The whole ---- */

/* Header, strings, then the contents of w->out. */
static void assemble(writer *w, flxi_strbuf *file)
{
    put_into(file, WIRE_MAGIC);
    put_into(file, WIRE_MAJOR | WIRE_MINOR << 16);
    for (int i = 0; i < 4; i++)
        put_into(file, 0);
    put_into(file, WIRE_STRINGS);
    size_t start = file->n;
    put_into(file, 0);
    put_into(file, (uint32_t)w->strings.texts.n);
    for (size_t i = 0; i < w->strings.texts.n; i++)
        put_bytes_into(file, w->strings.texts.at[i], strlen(w->strings.texts.at[i]));
    size_t end = file->n;
    flxi_add_bytes(file, w->out.at, w->out.n);
    if (file->failed)
        return;
    patch(file, start, (uint32_t)((end - start) / 4 - 1));
    uint64_t sum = flxi_hash_bytes(FLXI_HASH_SEED, file->at + WIRE_HEADER_BYTES, file->n - WIRE_HEADER_BYTES);
    patch(file, 12, (uint32_t)(file->n / 4));
    patch(file, 16, (uint32_t)sum);
    patch(file, 20, (uint32_t)(sum >> 32));
}

static void write_all(writer *w, flxi_strbuf *file)
{
    w->numbers = flxi_new(&w->scratch, uint32_t, w->k->num_vars + 1u);
    if (!w->numbers) {
        w->out.failed = true;
        return;
    }
    put_section(w, WIRE_DECLARATIONS, put_declarations);
    put_section(w, WIRE_METADATA, put_metadata);
    put_section(w, WIRE_BODY, put_body);
    if (w->err.code == FLX_OK && !w->out.failed)
        assemble(w, file);
    if (file->n > WIRE_MAX_BYTES)
        refuse(w, "limit:", "the kernel exceeds 64 MiB");
}

/* The bytes in `file`, which is empty on failure. */
static flx_code encode(const flx_kernel *k, flxi_strbuf *file, flx_error *err)
{
    writer w = {.k = k, .mem = flxi_kernel_mem(k)};
    flxi_arena_init(&w.scratch, w.mem);
    flxi_strbuf_init(&w.out, w.mem);
    flxi_strbuf_init(file, w.mem);
    w.strings.arena = &w.scratch;
    write_all(&w, file);
    bool is_starved = w.out.failed || file->failed;
    flxi_strbuf_free(&w.out);
    flxi_strings_free(&w.strings);
    flxi_vec_free(w.mem, &w.known);
    flxi_index_free(w.mem, &w.known_index);
    flxi_arena_free(&w.scratch);
    if (!is_starved && w.err.code == FLX_OK)
        return FLX_OK;
    flxi_strbuf_free(file);
    if (is_starved)
        return flxi_oom(err, "encoding a kernel");
    if (err)
        *err = w.err;
    return (flx_code)w.err.code;
}

flx_code flx_kernel_encode(const flx_kernel *k, flx_buffer *out, flx_error *err)
{
    if (!k || !out)
        return flxi_fail(err, FLX_E_USAGE, "flx_kernel_encode: the %s is NULL", k ? "buffer" : "kernel");
    flxi_strbuf file;
    *out = (flx_buffer){0};
    FLXI_TRY(encode(k, &file, err));
    return flxi_buffer_finish(&file, k->ctx, out, err);
}

flx_code flx_kernel_hash(const flx_kernel *k, uint64_t *hash, flx_error *err)
{
    if (!k || !hash)
        return flxi_fail(err, FLX_E_USAGE, "flx_kernel_hash: the %s is NULL", k ? "result" : "kernel");
    flxi_strbuf file;
    FLXI_TRY(encode(k, &file, err));
    *hash = flxi_hash_bytes(FLXI_HASH_SEED, file.at, file.n);
    flxi_strbuf_free(&file);
    return FLX_OK;
}
