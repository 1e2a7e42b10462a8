/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_builder.c: builds a program: interned expressions, scopes, nested bodies. Bounds depth and size. */
#include "kernel/program/kernel.h"

#include "base/context.h"
#include "kernel/program/kernel_extension.h"
#include "kernel/program/kernel_scalar.h"

#include <stdio.h>

/* ---- The builder ---- */

static bool fail_limit(flxi_kb *b, const char *code, const char *what, unsigned long long limit)
{
    if (flxi_kb_ok(b))
        flxi_kernel_fail(&b->err, code, "split the kernel, or bind parts of it with let",
                         "%s exceeds the limit of %llu", what, limit);
    return false;
}

static bool fail_usage(flxi_kb *b, const char *what)
{
    if (flxi_kb_ok(b))
        flxi_fail(&b->err, FLX_E_USAGE, "%s", what);
    return false;
}

static bool fail_memory(flxi_kb *b)
{
    if (flxi_kb_ok(b))
        flxi_oom(&b->err, "a kernel");
    return false;
}

bool flxi_kb_ok(const flxi_kb *b)
{
    return b->err.code == FLX_OK;
}

static bool push_frame(flxi_kb *b, const flxi_ks *head)
{
    if (b->frames.n > FLXI_KERNEL_MAX_NESTING)
        return fail_limit(b, "K70", "nesting depth", FLXI_KERNEL_MAX_NESTING);
    flxi_kframe f = {.head = *head, .scope = b->visible.n};
    return flxi_push(b->mem, &b->frames, f) || fail_memory(b);
}

/* Number 0 of every table is a row of zeros. */
static bool start_tables(flxi_kb *b)
{
    flxi_ks top = {0};
    return flxi_push(b->mem, &b->exprs, (flxi_kx){0}) && flxi_push(b->mem, &b->vars, (flxi_kvar){.name = ""}) &&
           flxi_push(b->mem, &b->buffers, (flxi_kbuffer){.name = ""}) &&
           flxi_push(b->mem, &b->fns, (flxi_kfn){.name = ""}) &&
           flxi_push(b->mem, &b->opaques, (flxi_kopaque){.extension = ""}) && push_frame(b, &top);
}

flxi_kb *flxi_kb_new(flx_context *ctx, const char *name, const uint32_t size[3], flx_error *err)
{
    const flxi_allocator *mem = flxi_context_mem(ctx);
    flxi_kb *b = flxi_alloc(mem, 1, sizeof *b);
    flx_kernel *k = flxi_alloc(mem, 1, sizeof *k);
    if (!b || !k) {
        if (b)
            flxi_free(mem, b, 1, sizeof *b);
        if (k)
            flxi_free(mem, k, 1, sizeof *k);
        flxi_oom(err, "a kernel");
        return NULL;
    }
    b->k = k;
    b->mem = mem;
    atomic_init(&k->holds, 1);
    k->ctx = ctx;
    flxi_arena_init(&k->arena, mem);
    b->texts.arena = &k->arena;
    memcpy(k->size, size, sizeof k->size);
    if (!start_tables(b) || !(k->name = flxi_kb_text(b, name, strlen(name)))) {
        flxi_oom(err, "a kernel");
        flxi_kb_free(b);
        return NULL;
    }
    return b;
}

flxi_kb *flxi_kb_like(const flx_kernel *k, flx_error *err)
{
    flxi_kb *b = flxi_kb_new(k->ctx, k->name, k->size, err);
    if (!b)
        return NULL;
    b->k->flags = k->flags;
    for (size_t i = 0; i < k->num_meta; i++)
        flxi_kb_meta(b, k->meta[i].key, k->meta[i].value);
    return b;
}

void flxi_kb_free(flxi_kb *b)
{
    if (!b)
        return;
    const flxi_allocator *mem = b->mem;
    for (size_t i = 0; i < b->frames.n; i++)
        flxi_vec_free(mem, &b->frames.at[i].list);
    flxi_vec_free(mem, &b->frames);
    flxi_strings_free(&b->texts);
    flxi_index_free(mem, &b->expr_index);
    flxi_index_free(mem, &b->opaque_index);
    flxi_vec_free(mem, &b->exprs);
    flxi_vec_free(mem, &b->vars);
    flxi_vec_free(mem, &b->buffers);
    flxi_vec_free(mem, &b->fns);
    flxi_vec_free(mem, &b->opaques);
    flxi_vec_free(mem, &b->meta);
    flxi_vec_free(mem, &b->visible);
    flxi_vec_free(mem, &b->params);
    flxi_vec_free(mem, &b->rule.terms);
    flxi_vec_free(mem, &b->rule.bars);
    flx_kernel_release(b->k);
    flxi_free(mem, b, 1, sizeof *b);
}

static flxi_klist keep_list(flxi_kb *b, flxi_kframe *f)
{
    flxi_klist list = {flxi_dup(&b->k->arena, flxi_ks, f->list.at, f->list.n), f->list.n};
    if (!list.at)
        fail_memory(b);
    flxi_vec_free(b->mem, &f->list);
    return list;
}

#define KEEP_TABLE(b, T, field, count)                                            \
    do {                                                                          \
        (b)->k->field = flxi_dup(&(b)->k->arena, T, (b)->field.at, (b)->field.n); \
        (b)->k->count = (uint32_t)((b)->field.n - 1);                             \
        if (!(b)->k->field)                                                       \
            fail_memory(b);                                                       \
    } while (0)

flx_kernel *flxi_kb_finish(flxi_kb *b, flx_error *err)
{
    if (flxi_kb_ok(b) && b->frames.n != 1)
        fail_usage(b, "a body of the kernel was not closed");
    flx_kernel *k = NULL;
    if (flxi_kb_ok(b)) {
        b->k->body = keep_list(b, &b->frames.at[0]);
        b->k->nodes = b->nodes;
        KEEP_TABLE(b, flxi_kx, exprs, num_exprs);
        KEEP_TABLE(b, flxi_kvar, vars, num_vars);
        KEEP_TABLE(b, flxi_kbuffer, buffers, num_buffers);
        KEEP_TABLE(b, flxi_kfn, fns, num_fns);
        KEEP_TABLE(b, flxi_kopaque, opaques, num_opaques);
        b->k->meta = flxi_dup(&b->k->arena, flxi_kmeta, b->meta.at, b->meta.n);
        b->k->num_meta = b->meta.n;
        if (!b->k->meta)
            fail_memory(b);
        k = flxi_kb_ok(b) ? flx_kernel_retain(b->k) : NULL;
    }
    if (err)
        *err = b->err;
    flxi_kb_free(b);
    return k;
}

const char *flxi_kb_text(flxi_kb *b, const char *s, size_t n)
{
    const char *kept = flxi_intern(&b->texts, s, n);
    if (!kept)
        fail_memory(b);
    return kept;
}

static const char *keep_text(flxi_kb *b, const char *s)
{
    return flxi_kb_text(b, s ? s : "", s ? strlen(s) : 0);
}

void flxi_kb_set_flags(flxi_kb *b, uint32_t flags)
{
    b->k->flags = flags;
}

void flxi_kb_meta(flxi_kb *b, const char *key, const char *value)
{
    flxi_kmeta m = {keep_text(b, key), keep_text(b, value)};
    if (flxi_kb_ok(b) && !flxi_push(b->mem, &b->meta, m))
        fail_memory(b);
}

/* ---- Names ---- */

static bool is_taken(const flxi_kb *b, const char *name)
{
    return flxi_is_interned(&b->texts, name);
}

/* The name is empty when memory is exhausted; the builder has failed then. */
const char *flxi_kb_fresh_name(flxi_kb *b, const char *stem)
{
    char name[1200];
    const char *kept = stem;
    for (; is_taken(b, kept); kept = name)
        snprintf(name, sizeof name, "%.1100s_%u", stem, ++b->next_fresh + 1);
    kept = keep_text(b, kept);
    return kept ? kept : "";
}

/* ---- Buffers ---- */

uint32_t flxi_kb_buffer(flxi_kb *b, const flxi_kbuffer *buffer)
{
    if (!flxi_kb_ok(b))
        return 0;
    if (b->buffers.n > FLXI_KERNEL_MAX_BUFFERS)
        return fail_limit(b, "K72", "the number of buffers", FLXI_KERNEL_MAX_BUFFERS);
    flxi_kbuffer kept = *buffer;
    flxi_arena *arena = &b->k->arena;
    kept.position = b->position;
    if (!flxi_kbuffer_is_bound(&kept))
        kept.binding = 0; /* it has no meaning there, so it must not make programs differ */
    kept.name = keep_text(b, buffer->name);
    kept.predicates = flxi_dup(arena, flx_kernel_predicate, buffer->predicates, buffer->num_predicates);
    kept.descriptor = flxi_dup(arena, char, buffer->descriptor, buffer->descriptor_size);
    if (!kept.predicates || !kept.descriptor || !flxi_push(b->mem, &b->buffers, kept))
        return fail_memory(b);
    return flxi_kb_ok(b) ? (uint32_t)b->buffers.n - 1 : 0;
}

uint32_t flxi_kb_find_buffer(const flxi_kb *b, const char *name)
{
    for (size_t i = 1; i < b->buffers.n; i++)
        if (strcmp(b->buffers.at[i].name, name) == 0)
            return (uint32_t)i;
    return 0;
}

/* ---- Interning expressions ---- */

static const flxi_kx *expr_at(const flxi_kb *b, uint32_t e)
{
    return &b->exprs.at[e < b->exprs.n ? e : 0];
}

const flxi_kx *flxi_kb_expr(const flxi_kb *b, uint32_t e)
{
    return expr_at(b, e);
}

uint32_t flxi_kb_type(const flxi_kb *b, uint32_t e)
{
    return expr_at(b, e)->type;
}

static uint64_t hash_expr(const flxi_kx *e)
{
    uint64_t h = flxi_hash_u64(FLXI_HASH_SEED, e->kind | (uint64_t)e->op << 8 | (uint64_t)e->type << 16 |
                                                   (uint64_t)e->order << 24 | (uint64_t)e->ref << 32);
    h = flxi_hash_bytes(h, e->x, sizeof e->x);
    if (e->num_args)
        return flxi_hash_bytes(h, e->args, e->num_args * sizeof *e->args);
    return flxi_hash_u64(h, e->bits);
}

static bool same_expr(const flxi_kx *a, const flxi_kx *b)
{
    if (a->kind != b->kind || a->op != b->op || a->type != b->type || a->order != b->order || a->ref != b->ref ||
        a->num_args != b->num_args || memcmp(a->x, b->x, sizeof a->x) != 0)
        return false;
    return a->num_args ? memcmp(a->args, b->args, a->num_args * sizeof *a->args) == 0 : a->bits == b->bits;
}

/* Adds the properties of an operand to those of its user. */
static void gather(flxi_kb *b, flxi_kx *e, uint32_t operand)
{
    const flxi_kx *x = expr_at(b, operand);
    e->does |= x->does;
    if (x->depth >= e->depth)
        e->depth = (uint8_t)(x->depth + 1);
    uint32_t sum;
    e->size = __builtin_add_overflow(e->size, x->size, &sum) ? UINT32_MAX : sum;
}

static uint32_t add_expr(flxi_kb *b, flxi_kx e)
{
    if (!flxi_kb_ok(b))
        return 0;
    e.depth = 1;
    e.size = 1;
    for (int i = flxi_kx_operands(&e); i-- > 0;)
        gather(b, &e, e.x[i]);
    for (size_t i = 0; i < e.num_args; i++)
        gather(b, &e, e.args[i]);
    if (e.depth > FLXI_KERNEL_MAX_DEPTH)
        return fail_limit(b, "K71", "expression depth", FLXI_KERNEL_MAX_DEPTH);
    uint64_t h = hash_expr(&e);
    uint32_t found;
    for (flxi_probe p = flxi_index_first(&b->expr_index, h); flxi_index_next(&b->expr_index, &p, &found);)
        if (same_expr(&b->exprs.at[found], &e))
            return found;
    if (e.num_args && !(e.args = flxi_dup(&b->k->arena, uint32_t, e.args, e.num_args)))
        return fail_memory(b);
    found = (uint32_t)b->exprs.n;
    if (!flxi_push(b->mem, &b->exprs, e) || !flxi_index_add(b->mem, &b->expr_index, h, found))
        return fail_memory(b);
    return found;
}

/* ---- Leaves ---- */

uint32_t flxi_kb_literal(flxi_kb *b, uint32_t type, uint64_t bits)
{
    uint8_t width = flxi_ktype_of(type)->bits;
    if (width < 64)
        bits &= (UINT64_C(1) << width) - 1;
    return add_expr(b, (flxi_kx){.kind = KX_LITERAL, .type = (uint8_t)type, .bits = bits});
}

/* Unlike casts, negative numbers of unsigned types wrap. */
static uint64_t bits_of(uint32_t type, double value)
{
    if (flxi_ktype_is_float(type) || type == FLX_BOOL)
        return flxi_kscalar_from_double(type, value);
    if (!(value >= -0x1p63 && value < 0x1p64)) /* not an integer: the type is 0 because building has failed already */
        return 0;
    return value < 0 ? (uint64_t)(int64_t)value : (uint64_t)value;
}

uint32_t flxi_kb_number(flxi_kb *b, uint32_t type, double value)
{
    return flxi_kb_literal(b, type, bits_of(type, value));
}

uint32_t flxi_kb_u32(flxi_kb *b, uint32_t value)
{
    return flxi_kb_literal(b, FLX_U32, value);
}

uint32_t flxi_kb_bool(flxi_kb *b, bool value)
{
    return flxi_kb_literal(b, FLX_BOOL, value);
}

uint32_t flxi_kb_var(flxi_kb *b, uint32_t var)
{
    if (var == 0 || var >= b->vars.n)
        return 0;
    return add_expr(b, (flxi_kx){.kind = KX_VAR, .type = b->vars.at[var].type, .does = KX_VARIES, .ref = var});
}

uint32_t flxi_kb_lookup(flxi_kb *b, const char *name, size_t n)
{
    for (size_t i = b->visible.n; i-- > 0;) {
        const char *s = b->vars.at[b->visible.at[i]].name;
        if (strncmp(s, name, n) == 0 && s[n] == 0)
            return b->visible.at[i];
    }
    return 0;
}

static uint32_t add_var(flxi_kb *b, const char *name, size_t n, uint32_t type, flxi_kvar_kind kind)
{
    if (!flxi_kb_ok(b))
        return 0;
    flxi_kvar v = {flxi_kb_text(b, name, n), (uint8_t)type, (uint8_t)kind};
    if (!v.name || !flxi_push(b->mem, &b->vars, v))
        return fail_memory(b);
    return (uint32_t)b->vars.n - 1;
}

uint32_t flxi_kb_unknown(flxi_kb *b, const char *name, size_t n)
{
    return add_var(b, name, n, 0, KVAR_UNKNOWN);
}

uint32_t flxi_kb_load(flxi_kb *b, uint32_t buffer, uint32_t index)
{
    uint32_t element = buffer < b->buffers.n ? b->buffers.at[buffer].element : 0;
    return add_expr(
        b, (flxi_kx){
               .kind = KX_LOAD, .type = flxi_ktype_of(element)->value, .does = KX_READS, .ref = buffer, .x = {index}});
}

uint32_t flxi_kb_length(flxi_kb *b, uint32_t buffer)
{
    return add_expr(b, (flxi_kx){.kind = KX_LENGTH, .type = FLX_U32, .ref = buffer});
}

uint32_t flxi_kb_id(flxi_kb *b, flx_kernel_id which, uint32_t axis)
{
    return add_expr(b, (flxi_kx){.kind = KX_ID, .op = (uint8_t)which, .type = FLX_U32, .ref = axis});
}

uint32_t flxi_kb_lane(flxi_kb *b)
{
    return add_expr(b, (flxi_kx){.kind = KX_LANE, .type = FLX_U32, .does = KX_SUBGROUP});
}

uint32_t flxi_kb_lanes(flxi_kb *b)
{
    return add_expr(b, (flxi_kx){.kind = KX_LANES, .type = FLX_U32, .does = KX_SUBGROUP});
}

/* ---- Operations ---- */

uint32_t flxi_kb_unary(flxi_kb *b, flxi_kunary op, uint32_t x)
{
    uint32_t type = flxi_kop_type(&flxi_kunaries[op], flxi_kb_type(b, x));
    return add_expr(b, (flxi_kx){.kind = KX_UNARY, .op = (uint8_t)op, .type = (uint8_t)type, .x = {x}});
}

uint32_t flxi_kb_binary(flxi_kb *b, flxi_kbinary op, uint32_t x, uint32_t y)
{
    uint32_t tx = flxi_kb_type(b, x), ty = flxi_kb_type(b, y);
    bool mixed_truth = op == KBIN_logical_and || op == KBIN_logical_or;
    uint32_t type = tx == ty || mixed_truth ? flxi_kop_type(&flxi_kbinaries[op], tx) : 0;
    if (mixed_truth && !flxi_ktype_fits(ty, TAKES_TRUTH))
        type = 0;
    return add_expr(b, (flxi_kx){.kind = KX_BINARY, .op = (uint8_t)op, .type = (uint8_t)type, .x = {x, y}});
}

uint32_t flxi_kb_select(flxi_kb *b, uint32_t c, uint32_t x, uint32_t y)
{
    uint32_t type = flxi_kb_type(b, x) == flxi_kb_type(b, y) ? flxi_kb_type(b, x) : 0;
    return add_expr(b, (flxi_kx){.kind = KX_SELECT, .type = (uint8_t)type, .x = {c, x, y}});
}

uint32_t flxi_kb_fma(flxi_kb *b, uint32_t x, uint32_t y, uint32_t z)
{
    uint32_t t = flxi_kb_type(b, x);
    bool fits = flxi_ktype_is_float(t) && t == flxi_kb_type(b, y) && t == flxi_kb_type(b, z);
    return add_expr(b, (flxi_kx){.kind = KX_FMA, .type = (uint8_t)(fits ? t : 0), .x = {x, y, z}});
}

uint32_t flxi_kb_cast(flxi_kb *b, uint32_t type, uint32_t x)
{
    if (type == flxi_kb_type(b, x))
        return x;
    return add_expr(b, (flxi_kx){.kind = KX_CAST, .type = (uint8_t)type, .x = {x}});
}

uint32_t flxi_kb_bitcast(flxi_kb *b, uint32_t type, uint32_t x)
{
    return add_expr(b, (flxi_kx){.kind = KX_BITCAST, .type = (uint8_t)type, .x = {x}});
}

static uint32_t add_with_args(flxi_kb *b, flxi_kx e, const uint32_t *args, size_t n)
{
    if (n > FLXI_KERNEL_MAX_ARGS)
        return fail_limit(b, "K72", "the number of call arguments", FLXI_KERNEL_MAX_ARGS);
    e.num_args = (uint16_t)n;
    if (n)
        e.args = args;
    return add_expr(b, e);
}

uint32_t flxi_kb_call(flxi_kb *b, uint32_t fn, const uint32_t *args, size_t n)
{
    uint8_t type = fn < b->fns.n ? b->fns.at[fn].type : 0;
    return add_with_args(b, (flxi_kx){.kind = KX_CALL, .type = type, .does = KX_OPAQUES, .ref = fn}, args, n);
}

/* Finds the extension; without an id it may be missing. */
static bool resolve(flxi_kb *b, flxi_kopaque *o)
{
    o->known = flxi_kextension_find(b->k->ctx, o->id ? NULL : o->extension, o->id);
    if (!o->id)
        return true;
    if (!o->known) {
        flxi_kernel_fail(&b->err, "K60",
                         "programs in C add extensions with flx_kernel_register_extension(); flx has none",
                         "there is no extension 0x%x", (unsigned)o->id);
        return false;
    }
    o->extension = o->known->is.name;
    o->fingerprint = o->known->is.fingerprint;
    o->pure = flxi_kextension_is_pure(o->known);
    return true;
}

static bool same_opaque(const flxi_kopaque *a, const flxi_kopaque *b)
{
    return a->extension == b->extension && a->fingerprint == b->fingerprint && a->type == b->type && a->id == b->id &&
           !a->pure == !b->pure && a->payload_size == b->payload_size &&
           (a->payload_size == 0 || memcmp(a->payload, b->payload, a->payload_size) == 0);
}

uint32_t flxi_kb_add_opaque(flxi_kb *b, const flxi_kopaque *opaque)
{
    flxi_kopaque kept = *opaque;
    if (!flxi_kb_ok(b) || !resolve(b, &kept))
        return 0;
    kept.extension = keep_text(b, kept.extension);
    if (!kept.extension)
        return 0;
    uint64_t h = flxi_hash_u64(FLXI_HASH_SEED, kept.fingerprint ^ (uint64_t)kept.type << 40 ^ kept.id);
    h = flxi_hash_bytes(flxi_hash_text(h, kept.extension), kept.payload, kept.payload_size);
    uint32_t found;
    for (flxi_probe p = flxi_index_first(&b->opaque_index, h); flxi_index_next(&b->opaque_index, &p, &found);)
        if (same_opaque(&b->opaques.at[found], &kept))
            return found;
    kept.payload = flxi_dup(&b->k->arena, char, opaque->payload, opaque->payload_size);
    found = (uint32_t)b->opaques.n;
    if (!kept.payload || !flxi_push(b->mem, &b->opaques, kept) || !flxi_index_add(b->mem, &b->opaque_index, h, found))
        return fail_memory(b);
    return found;
}

void flxi_kb_copy_opaques(flxi_kb *b, const flx_kernel *k)
{
    for (uint32_t i = 1; i <= k->num_opaques; i++)
        flxi_kb_add_opaque(b, &k->opaques[i]);
}

uint32_t flxi_kb_opaque(flxi_kb *b, uint32_t opaque, const uint32_t *args, size_t n)
{
    uint8_t type = opaque < b->opaques.n ? b->opaques.at[opaque].type : 0;
    return add_with_args(b, (flxi_kx){.kind = KX_OPAQUE, .type = type, .does = KX_OPAQUES, .ref = opaque}, args, n);
}

uint32_t flxi_kb_atomic(flxi_kb *b, flx_kernel_atomic op, uint32_t buffer, uint32_t index, uint32_t value,
                        uint32_t expected, flx_kernel_order order)
{
    uint32_t element = buffer < b->buffers.n ? b->buffers.at[buffer].element : 0;
    return add_expr(b, (flxi_kx){.kind = KX_ATOMIC,
                                 .op = (uint8_t)op,
                                 .type = flxi_ktype_of(element)->value,
                                 .does = KX_ATOMICS | KX_READS,
                                 .order = (uint8_t)order,
                                 .ref = buffer,
                                 .x = {index, value, expected}});
}

uint32_t flxi_kb_subgroup_add(flxi_kb *b, uint32_t x)
{
    uint32_t t = flxi_kb_type(b, x);
    uint8_t type = (uint8_t)(flxi_ktype_fits(t, TAKES_NUMBER) ? t : 0);
    return add_expr(b, (flxi_kx){.kind = KX_SUBGROUP_ADD, .type = type, .does = KX_SUBGROUP, .x = {x}});
}

uint32_t flxi_kb_subgroup_shuffle(flxi_kb *b, uint32_t x, uint32_t lane)
{
    uint8_t type = (uint8_t)flxi_kb_type(b, x);
    return add_expr(b, (flxi_kx){.kind = KX_SUBGROUP_SHUFFLE, .type = type, .does = KX_SUBGROUP, .x = {x, lane}});
}

uint32_t flxi_kb_subgroup_ballot(flxi_kb *b, uint32_t x)
{
    return add_expr(b, (flxi_kx){.kind = KX_SUBGROUP_BALLOT, .type = FLX_U32, .does = KX_SUBGROUP, .x = {x}});
}

uint32_t flxi_kb_rebuild(flxi_kb *b, const flxi_kx *e, const uint32_t *x, const uint32_t *args)
{
    switch ((flxi_kx_kind)e->kind) {
    case KX_NONE:
    case KX_KIND_COUNT: return 0;
    case KX_LITERAL: return flxi_kb_literal(b, e->type, e->bits);
    case KX_VAR: return flxi_kb_var(b, e->ref);
    case KX_LOAD: return flxi_kb_load(b, e->ref, x[0]);
    case KX_LENGTH: return flxi_kb_length(b, e->ref);
    case KX_ID: return flxi_kb_id(b, (flx_kernel_id)e->op, e->ref);
    case KX_LANE: return flxi_kb_lane(b);
    case KX_LANES: return flxi_kb_lanes(b);
    case KX_UNARY: return flxi_kb_unary(b, (flxi_kunary)e->op, x[0]);
    case KX_BINARY: return flxi_kb_binary(b, (flxi_kbinary)e->op, x[0], x[1]);
    case KX_SELECT: return flxi_kb_select(b, x[0], x[1], x[2]);
    case KX_FMA: return flxi_kb_fma(b, x[0], x[1], x[2]);
    case KX_CAST: return flxi_kb_cast(b, e->type, x[0]);
    case KX_BITCAST: return flxi_kb_bitcast(b, e->type, x[0]);
    case KX_CALL: return flxi_kb_call(b, e->ref, args, e->num_args);
    case KX_ATOMIC:
        return flxi_kb_atomic(b, (flx_kernel_atomic)e->op, e->ref, x[0], x[1], e->x[2] ? x[2] : 0,
                              (flx_kernel_order)e->order);
    case KX_SUBGROUP_ADD: return flxi_kb_subgroup_add(b, x[0]);
    case KX_SUBGROUP_SHUFFLE: return flxi_kb_subgroup_shuffle(b, x[0], x[1]);
    case KX_SUBGROUP_BALLOT: return flxi_kb_subgroup_ballot(b, x[0]);
    case KX_OPAQUE: return flxi_kb_opaque(b, e->ref, args, e->num_args);
    }
    return 0;
}

/* ---- Statements ---- */

static flxi_kframe *top_frame(flxi_kb *b)
{
    return &b->frames.at[b->frames.n - 1];
}

static bool count_nodes(flxi_kb *b, const flxi_ks *s)
{
    b->nodes += 1 + (uint64_t)expr_at(b, s->a)->size + expr_at(b, s->b)->size;
    return b->nodes <= FLXI_KERNEL_MAX_NODES || fail_limit(b, "K72", "the number of nodes", FLXI_KERNEL_MAX_NODES);
}

/* False where no statement is allowed. */
static bool takes_statements(flxi_kb *b)
{
    if (b->rule.is_open)
        fail_usage(b, "the adjoint of a region may only add to adjoints");
    return flxi_kb_ok(b);
}

static void add_stmt(flxi_kb *b, const flxi_ks *s)
{
    if (!takes_statements(b) || !count_nodes(b, s))
        return;
    flxi_ks kept = *s;
    kept.position = b->position;
    if (!flxi_push(b->mem, &top_frame(b)->list, kept))
        fail_memory(b);
}

static void show(flxi_kb *b, uint32_t var)
{
    if (flxi_kb_ok(b) && !flxi_push(b->mem, &b->visible, var))
        fail_memory(b);
}

uint32_t flxi_kb_let(flxi_kb *b, const char *name, uint32_t value)
{
    uint32_t var = add_var(b, name, strlen(name), flxi_kb_type(b, value), KVAR_LET);
    add_stmt(b, &(flxi_ks){.kind = KS_LET, .flags = b->marks, .var = var, .a = value});
    show(b, var);
    return var;
}

void flxi_kb_assign(flxi_kb *b, uint32_t var, uint32_t value)
{
    add_stmt(b, &(flxi_ks){.kind = KS_ASSIGN, .var = var, .a = value});
}

void flxi_kb_store(flxi_kb *b, uint32_t buffer, uint32_t index, uint32_t value)
{
    add_stmt(b, &(flxi_ks){.kind = KS_STORE, .buffer = buffer, .a = index, .b = value});
}

void flxi_kb_effect(flxi_kb *b, uint32_t value)
{
    add_stmt(b, &(flxi_ks){.kind = KS_EFFECT, .a = value});
}

void flxi_kb_barrier(flxi_kb *b, flx_kernel_order order)
{
    add_stmt(b, &(flxi_ks){.kind = KS_BARRIER, .order = (uint8_t)order});
}

void flxi_kb_return(flxi_kb *b)
{
    add_stmt(b, &(flxi_ks){.kind = KS_RETURN});
}

void flxi_kb_simple(flxi_kb *b, const flxi_ks *s)
{
    if (!flxi_kb_ok(b))
        return;
    flxi_ks kept = *s;
    kept.text = keep_text(b, s->text);
    kept.source = keep_text(b, s->source);
    add_stmt(b, &kept);
}

static void open_body(flxi_kb *b, const flxi_ks *head)
{
    flxi_ks at_source = *head;
    at_source.position = b->position;
    if (takes_statements(b))
        push_frame(b, &at_source);
}

void flxi_kb_if(flxi_kb *b, uint32_t condition)
{
    open_body(b, &(flxi_ks){.kind = KS_IF, .a = condition});
}

void flxi_kb_else(flxi_kb *b)
{
    if (!flxi_kb_ok(b))
        return;
    flxi_kframe *f = top_frame(b);
    if (f->head.kind != KS_IF || f->in_else) {
        fail_usage(b, "else without an open if");
        return;
    }
    f->first = keep_list(b, f);
    f->in_else = true;
    b->visible.n = f->scope;
}

uint32_t flxi_kb_loop(flxi_kb *b, const char *name, uint32_t from, uint32_t to)
{
    uint32_t var = add_var(b, name, strlen(name), FLX_U32, KVAR_LOOP);
    open_body(b, &(flxi_ks){.kind = KS_LOOP, .flags = b->marks, .var = var, .a = from, .b = to});
    show(b, var);
    return var;
}

void flxi_kb_block(flxi_kb *b)
{
    open_body(b, &(flxi_ks){.kind = KS_BLOCK});
}

void flxi_kb_region(flxi_kb *b, const char *generator, const char *source, uint32_t flags)
{
    if (!flxi_kb_ok(b))
        return;
    open_body(b, &(flxi_ks){.kind = KS_REGION,
                            .flags = (uint16_t)flags,
                            .text = keep_text(b, generator),
                            .source = keep_text(b, source)});
}

void flxi_kb_end(flxi_kb *b)
{
    flxi_kb_end_rule(b);
    if (!flxi_kb_ok(b))
        return;
    flxi_kframe *f = top_frame(b);
    if (b->frames.n < 2 || f->function) {
        fail_usage(b, f->function ? "a function ends with its result" : "no body is open");
        return;
    }
    flxi_ks s = f->head;
    flxi_klist list = keep_list(b, f);
    s.body = f->in_else ? f->first : list;
    if (f->in_else)
        s.other = list;
    b->visible.n = f->scope;
    b->frames.n--;
    uint32_t position = b->position;
    b->position = s.position;
    add_stmt(b, &s);
    b->position = position;
}

/* ---- Functions ---- */

uint32_t flxi_kb_function(flxi_kb *b, const char *name, uint32_t type)
{
    if (flxi_kb_ok(b) && b->frames.n != 1)
        fail_usage(b, "a function must be declared outside of other bodies");
    return flxi_kb_inner_function(b, name, type);
}

uint32_t flxi_kb_inner_function(flxi_kb *b, const char *name, uint32_t type)
{
    if (!flxi_kb_ok(b))
        return 0;
    flxi_kfn fn = {.name = keep_text(b, name), .type = (uint8_t)type, .position = b->position};
    if (!fn.name || !flxi_push(b->mem, &b->fns, fn))
        return fail_memory(b);
    uint32_t number = (uint32_t)b->fns.n - 1;
    open_body(b, &(flxi_ks){.kind = KS_BLOCK});
    if (!flxi_kb_ok(b))
        return 0;
    top_frame(b)->function = number;
    b->params.n = 0;
    return number;
}

static uint32_t open_function(flxi_kb *b)
{
    uint32_t number = flxi_kb_ok(b) ? top_frame(b)->function : 0;
    if (flxi_kb_ok(b) && !number)
        fail_usage(b, "no function is open here");
    return number;
}

uint32_t flxi_kb_param(flxi_kb *b, const char *name, uint32_t type)
{
    if (!open_function(b))
        return 0;
    uint32_t var = add_var(b, name, strlen(name), type, KVAR_PARAM);
    if (b->params.n >= FLXI_KERNEL_MAX_ARGS)
        return fail_limit(b, "K72", "the number of function parameters", FLXI_KERNEL_MAX_ARGS);
    if (flxi_kb_ok(b) && !flxi_push(b->mem, &b->params, var))
        return fail_memory(b);
    show(b, var);
    return var;
}

void flxi_kb_adjoint_of(flxi_kb *b, uint32_t fn, uint32_t param)
{
    uint32_t number = open_function(b);
    if (!number)
        return;
    b->fns.at[number].adjoint_of = fn + 1;
    b->fns.at[number].adjoint_param = param;
}

void flxi_kb_result(flxi_kb *b, uint32_t value)
{
    uint32_t number = open_function(b);
    if (!number)
        return;
    flxi_kframe *f = top_frame(b);
    flxi_kfn *fn = &b->fns.at[number];
    fn->params = flxi_dup(&b->k->arena, uint32_t, b->params.at, b->params.n);
    fn->num_params = (uint32_t)b->params.n;
    fn->body = keep_list(b, f);
    fn->result = value;
    if (!fn->params)
        fail_memory(b);
    b->nodes += expr_at(b, value)->size;
    if (b->nodes > FLXI_KERNEL_MAX_NODES)
        fail_limit(b, "K72", "the number of nodes", FLXI_KERNEL_MAX_NODES);
    b->visible.n = f->scope;
    b->frames.n--;
}

uint32_t flxi_kb_find_function(const flxi_kb *b, const char *name, size_t n)
{
    for (size_t i = 1; i < b->fns.n; i++) {
        const flxi_kfn *f = &b->fns.at[i];
        if (!f->adjoint_of && strncmp(f->name, name, n) == 0 && f->name[n] == 0)
            return (uint32_t)i;
    }
    return 0;
}
