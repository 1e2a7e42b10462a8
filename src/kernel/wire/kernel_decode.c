/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_decode.c: reads the wire form, which kernel_wire.h describes. The bytes are untrusted: counts are compared
   with the remaining length before anything is allocated, depth is bounded, and everything that the encoder would not
   have written is rejected. The builder creates the program; validation is a separate step. */
#include "kernel/wire/kernel_wire.h"

#include "base/context.h"
#include "base/text/utf8.h"
#include "kernel/check/kernel_check_buffer.h"
#include "kernel/program/kernel_extension.h"

#include <stdio.h>

typedef struct {
    flx_context *ctx;
    const flxi_allocator *mem;
    flxi_arena scratch;
    const unsigned char *bytes;
    size_t at, end; /* in bytes; `end` is that of the section */
    flx_error *err;
    flxi_strings strings;
    size_t next_text;  /* the next string to be used for the first time */
    size_t text_start; /* where the section of strings begins */
    uint64_t text;     /* bytes of all texts referred to */
    uint32_t nodes;
    flxi_kb *b;
    FLXI_VEC(uint32_t) vars;    /* the builder's variables, by number in the bytes */
    FLXI_VEC(uint32_t) waiting; /* expressions that wait for their user */
} reader;

/* ---- Errors ---- */

static flx_code fail(reader *r, const char *kind, size_t at, const char *what)
{
    return flxi_fail_hint(r->err, FLX_E_KERNEL, "the bytes are damaged or were not written by this library",
                          "%s at byte %zu: %s", kind, at, what);
}

static flx_code bad_value(reader *r, const char *what)
{
    return fail(r, "bad value", r->at - 4, what);
}

/* An error of the builder; only limits and memory can be reached from here. */
static flx_code builder_code(reader *r)
{
    if (flxi_kb_ok(r->b))
        return FLX_OK;
    if (r->b->err.code == FLX_E_OOM)
        return flxi_oom(r->err, "decoding a kernel");
    return fail(r, "limit", r->at - 4, r->b->err.message);
}

/* ---- Words ---- */

static flx_code get(reader *r, uint32_t *out)
{
    *out = 0;
    if (r->end - r->at < 4)
        return fail(r, "truncated", r->at, "a word is missing");
    for (size_t i = 0; i < 4; i++)
        *out |= (uint32_t)r->bytes[r->at + i] << (8 * i);
    r->at += 4;
    return FLX_OK;
}

static flx_code get_u64(reader *r, uint64_t *out)
{
    uint32_t low;
    uint32_t high;
    FLXI_TRY(get(r, &low));
    FLXI_TRY(get(r, &high));
    *out = low | (uint64_t)high << 32;
    return FLX_OK;
}

/* A count of items of at least `least` words each. */
static flx_code get_count(reader *r, size_t least, uint32_t limit, uint32_t *out)
{
    FLXI_TRY(get(r, out));
    if (*out > limit)
        return fail(r, "limit", r->at - 4, "a count is too large");
    if (*out > (r->end - r->at) / (4 * least))
        return fail(r, "truncated", r->at - 4, "a count exceeds the remaining data");
    return FLX_OK;
}

/* Bytes and their padding; they are not copied. */
static flx_code get_bytes(reader *r, uint32_t limit, const char **out, size_t *size)
{
    uint32_t n;
    FLXI_TRY(get(r, &n));
    if (n > limit)
        return fail(r, "limit", r->at - 4, "a string or payload is too long");
    size_t padded = (size_t)n + (4 - n % 4) % 4;
    if (padded > r->end - r->at)
        return fail(r, "truncated", r->at - 4, "a string or payload exceeds the remaining data");
    *out = (const char *)r->bytes + r->at;
    *size = n;
    for (size_t i = n; i < padded; i++)
        if (r->bytes[r->at + i] != 0)
            return fail(r, "bad value", r->at + i, "padding is not zero");
    r->at += padded;
    return FLX_OK;
}

/* A node: its details must fit into `used` bits. */
static flx_code check_details(reader *r, uint32_t details, unsigned used)
{
    return details >> used ? bad_value(r, "reserved bits are set") : FLX_OK;
}

/* ---- Texts ---- */

static flx_code get_text(reader *r, const char **out)
{
    uint32_t i;
    FLXI_TRY(get(r, &i));
    if (i >= r->strings.texts.n)
        return fail(r, "bad string", r->at - 4, "no string has this number");
    if (i > r->next_text)
        return fail(r, "bad string", r->at - 4, "strings are not in the order of their first use");
    r->next_text += i == r->next_text;
    *out = r->strings.texts.at[i];
    r->text += strlen(*out);
    return r->text <= WIRE_MAX_TEXT ? FLX_OK : fail(r, "limit", r->at - 4, "texts add up to more than 64 MiB");
}

static flx_code read_strings(reader *r)
{
    uint32_t n;
    r->text_start = r->at;
    FLXI_TRY(get_count(r, 1, UINT32_MAX, &n));
    for (uint32_t i = 0; i < n; i++) {
        const char *s;
        size_t size;
        size_t start = r->at;
        FLXI_TRY(get_bytes(r, WIRE_MAX_STRING, &s, &size));
        if (!flxi_is_utf8(s, size) || memchr(s, 0, size))
            return fail(r, "bad string", start, "it is not UTF-8, or has zero bytes");
        size_t number = flxi_intern_number(&r->strings, s, size);
        if (number == SIZE_MAX)
            return flxi_oom(r->err, "decoding a kernel");
        if (number != i)
            return fail(r, "bad string", start, "it occurs twice");
    }
    return FLX_OK;
}

/* ---- Numbers that refer to something ---- */

static flx_code get_buffer(reader *r, uint32_t *out)
{
    FLXI_TRY(get(r, out));
    return *out < r->b->buffers.n ? FLX_OK : bad_value(r, "no buffer has this number");
}

static bool is_arithmetic(uint32_t type)
{
    return flxi_ktype_fits(type, TAKES_ANY);
}

static flx_code check_type(reader *r, uint32_t type)
{
    return is_arithmetic(type) ? FLX_OK : bad_value(r, "unknown type of values");
}

/* A variable of the builder. */
static flx_code get_var(reader *r, uint32_t by_name, uint32_t *out)
{
    FLXI_TRY(check_details(r, by_name, 1));
    if (by_name) {
        const char *name;
        FLXI_TRY(get_text(r, &name));
        *out = flxi_kb_unknown(r->b, name, strlen(name));
        return builder_code(r);
    }
    FLXI_TRY(get(r, out));
    if (*out >= r->vars.n)
        return bad_value(r, "no variable with this number is declared before its use");
    *out = r->vars.at[*out];
    return FLX_OK;
}

static flx_code add_var(reader *r, uint32_t var)
{
    FLXI_TRY(builder_code(r));
    return flxi_push(r->mem, &r->vars, var) ? FLX_OK : flxi_oom(r->err, "decoding a kernel");
}

static flx_code get_opaque(reader *r, uint32_t details, uint32_t *out)
{
    flxi_kopaque o = {.type = (uint8_t)details, .pure = (uint8_t)(details >> 8)};
    const char *payload;
    FLXI_TRY(check_details(r, details, 9));
    FLXI_TRY(get_text(r, &o.extension));
    FLXI_TRY(get_u64(r, &o.fingerprint));
    FLXI_TRY(get_bytes(r, WIRE_MAX_PAYLOAD, &payload, &o.payload_size));
    o.payload = payload;
    *out = flxi_kb_add_opaque(r->b, &o);
    return builder_code(r);
}

/* ---- Expressions ---- */

static flx_code get_expr(reader *r, unsigned depth, uint32_t *out);

static flx_code count_node(reader *r)
{
    if (++r->nodes > FLXI_KERNEL_MAX_NODES)
        return fail(r, "limit", r->at - 4, "more than 1000000 nodes");
    return FLX_OK;
}

static flx_code get_operands(reader *r, unsigned depth, int n, uint32_t *x)
{
    for (int i = 0; i < n; i++)
        FLXI_TRY(get_expr(r, depth, &x[i]));
    return FLX_OK;
}

/* Leaves the arguments in r->waiting, after `mark`. */
static flx_code get_args(reader *r, unsigned depth, uint32_t *n)
{
    FLXI_TRY(get_count(r, 1, FLXI_KERNEL_MAX_ARGS, n));
    for (uint32_t i = 0; i < *n; i++) {
        uint32_t arg;
        FLXI_TRY(get_expr(r, depth, &arg));
        if (!flxi_push(r->mem, &r->waiting, arg))
            return flxi_oom(r->err, "decoding a kernel");
    }
    return FLX_OK;
}

/* An extension by its number: it must be registered. */
static flx_code get_extension(reader *r, uint32_t details, uint32_t *out)
{
    flxi_kopaque o = {.type = (uint8_t)details};
    const char *payload;
    char what[60];
    FLXI_TRY(check_details(r, details, 8));
    FLXI_TRY(get(r, &o.id));
    if (o.id == 0)
        return bad_value(r, "an extension has no number");
    snprintf(what, sizeof what, "extension %u is not registered", (unsigned)o.id);
    if (!flxi_kextension_find(r->ctx, NULL, o.id))
        return fail(r, "bad tag", r->at - 8, what);
    FLXI_TRY(get_bytes(r, WIRE_MAX_PAYLOAD, &payload, &o.payload_size));
    o.payload = payload;
    *out = flxi_kb_add_opaque(r->b, &o);
    return builder_code(r);
}

static flx_code get_literal(reader *r, uint32_t type, uint32_t *out)
{
    uint32_t low;
    uint32_t high = 0;
    FLXI_TRY(check_details(r, type, 8));
    FLXI_TRY(check_type(r, type));
    FLXI_TRY(get(r, &low));
    uint8_t bits = flxi_ktype_of(type)->bits;
    if (bits == 64)
        FLXI_TRY(get(r, &high));
    else if (bits < 32 && low >> bits)
        return bad_value(r, type == FLX_BOOL ? "a bool is neither 0 nor 1" : "a literal does not fit its type");
    *out = flxi_kb_literal(r->b, type, low | (uint64_t)high << 32);
    return FLX_OK;
}

static flx_code get_leaf(reader *r, unsigned tag, uint32_t details, uint32_t *out)
{
    uint32_t ref;
    switch (tag) {
    case WIRE_LITERAL: return get_literal(r, details, out);
    case WIRE_VAR:
        FLXI_TRY(get_var(r, details, &ref));
        *out = flxi_kb_var(r->b, ref);
        return FLX_OK;
    case WIRE_LENGTH:
        FLXI_TRY(check_details(r, details, 0));
        FLXI_TRY(get_buffer(r, &ref));
        *out = flxi_kb_length(r->b, ref);
        return FLX_OK;
    case WIRE_ID:
        if (details >= FLX_KERNEL_ID_COUNT)
            return bad_value(r, "unknown id");
        FLXI_TRY(get(r, &ref));
        *out = flxi_kb_id(r->b, (flx_kernel_id)details, ref);
        return FLX_OK;
    default:
        FLXI_TRY(check_details(r, details, 0));
        *out = tag == WIRE_LANE ? flxi_kb_lane(r->b) : flxi_kb_lanes(r->b);
        return FLX_OK;
    }
}

static flx_code get_atomic(reader *r, unsigned depth, uint32_t details, uint32_t *out)
{
    uint32_t op = details & 255;
    uint32_t order = details >> 8 & 255;
    uint32_t buffer;
    uint32_t x[3] = {0};
    FLXI_TRY(check_details(r, details, 17));
    if (op >= FLX_KERNEL_ATOMIC_COUNT || order >= FLX_KERNEL_ORDER_COUNT)
        return bad_value(r, "unknown atomic or ordering");
    FLXI_TRY(get_buffer(r, &buffer));
    FLXI_TRY(get_operands(r, depth, details >> 16 ? 3 : 2, x));
    *out = flxi_kb_atomic(r->b, (flx_kernel_atomic)op, buffer, x[0], x[1], x[2], (flx_kernel_order)order);
    return FLX_OK;
}

static flx_code get_cast(reader *r, unsigned tag, unsigned depth, uint32_t type, uint32_t *out)
{
    uint32_t x;
    FLXI_TRY(check_details(r, type, 8));
    FLXI_TRY(check_type(r, type));
    size_t at = r->at - 4;
    FLXI_TRY(get_expr(r, depth, &x));
    if (tag == WIRE_CAST && type == flxi_kb_type(r->b, x))
        return fail(r, "bad value", at, "a cast to the type of its operand");
    *out = tag == WIRE_CAST ? flxi_kb_cast(r->b, type, x) : flxi_kb_bitcast(r->b, type, x);
    return FLX_OK;
}

static flx_code get_called(reader *r, unsigned tag, unsigned depth, uint32_t details, uint32_t *out)
{
    uint32_t ref;
    uint32_t n;
    size_t mark = r->waiting.n;
    if (tag == WIRE_CALL) {
        FLXI_TRY(check_details(r, details, 0));
        FLXI_TRY(get(r, &ref));
        if (ref >= r->b->fns.n)
            return bad_value(r, "no function with this number is declared before its use");
    } else {
        if ((details & 255) && !is_arithmetic(details & 255))
            return bad_value(r, "unknown type of values");
        FLXI_TRY(tag == WIRE_EXTENSION ? get_extension(r, details, &ref) : get_opaque(r, details, &ref));
    }
    FLXI_TRY(get_args(r, depth, &n));
    const uint32_t *args = n ? &r->waiting.at[mark] : NULL;
    *out = tag == WIRE_CALL ? flxi_kb_call(r->b, ref, args, n) : flxi_kb_opaque(r->b, ref, args, n);
    r->waiting.n = mark;
    return FLX_OK;
}

static flx_code get_load(reader *r, unsigned depth, uint32_t details, uint32_t *out)
{
    uint32_t buffer;
    uint32_t index;
    FLXI_TRY(check_details(r, details, 0));
    FLXI_TRY(get_buffer(r, &buffer));
    FLXI_TRY(get_expr(r, depth, &index));
    *out = flxi_kb_load(r->b, buffer, index);
    return FLX_OK;
}

static flx_code get_op(reader *r, unsigned tag, unsigned depth, uint32_t op, uint32_t *out)
{
    uint32_t x[2];
    if (op == 0 || op >= (tag == WIRE_UNARY ? (uint32_t)KUN_COUNT : (uint32_t)KBIN_COUNT))
        return bad_value(r, "no op has this number");
    FLXI_TRY(get_operands(r, depth, tag == WIRE_UNARY ? 1 : 2, x));
    *out = tag == WIRE_UNARY ? flxi_kb_unary(r->b, (flxi_kunary)op, x[0])
                             : flxi_kb_binary(r->b, (flxi_kbinary)op, x[0], x[1]);
    return FLX_OK;
}

/* Expressions that consist of operands only. */
static flx_code get_plain(reader *r, unsigned tag, unsigned depth, uint32_t details, uint32_t *out)
{
    uint32_t x[3];
    FLXI_TRY(check_details(r, details, 0));
    int n = tag == WIRE_SELECT || tag == WIRE_FMA ? 3 : tag == WIRE_SUBGROUP_SHUFFLE ? 2 : 1;
    FLXI_TRY(get_operands(r, depth, n, x));
    switch (tag) {
    case WIRE_SELECT: *out = flxi_kb_select(r->b, x[0], x[1], x[2]); break;
    case WIRE_FMA: *out = flxi_kb_fma(r->b, x[0], x[1], x[2]); break;
    case WIRE_SUBGROUP_ADD: *out = flxi_kb_subgroup_add(r->b, x[0]); break;
    case WIRE_SUBGROUP_SHUFFLE: *out = flxi_kb_subgroup_shuffle(r->b, x[0], x[1]); break;
    default: *out = flxi_kb_subgroup_ballot(r->b, x[0]); break;
    }
    return FLX_OK;
}

static flx_code bad_tag(reader *r, unsigned tag, const char *wanted)
{
    char what[120];
    snprintf(what, sizeof what, "%#x is not a valid %s", tag, wanted);
    return fail(r, "bad tag", r->at - 4, what);
}

static flx_code get_expr_by_tag(reader *r, unsigned tag, unsigned depth, uint32_t details, uint32_t *out)
{
    switch (tag) {
    case WIRE_LITERAL:
    case WIRE_VAR:
    case WIRE_LENGTH:
    case WIRE_ID:
    case WIRE_LANE:
    case WIRE_LANES: return get_leaf(r, tag, details, out);
    case WIRE_LOAD: return get_load(r, depth, details, out);
    case WIRE_UNARY:
    case WIRE_BINARY: return get_op(r, tag, depth, details, out);
    case WIRE_SELECT:
    case WIRE_FMA:
    case WIRE_SUBGROUP_ADD:
    case WIRE_SUBGROUP_SHUFFLE:
    case WIRE_SUBGROUP_BALLOT: return get_plain(r, tag, depth, details, out);
    case WIRE_CAST:
    case WIRE_BITCAST: return get_cast(r, tag, depth, details, out);
    case WIRE_CALL:
    case WIRE_EXTENSION:
    case WIRE_OPAQUE_EXPR: return get_called(r, tag, depth, details, out);
    case WIRE_ATOMIC: return get_atomic(r, depth, details, out);
    default: return bad_tag(r, tag, "expression");
    }
}

/* `depth` is the depth of the user, 0 for a statement. */
static flx_code get_expr(reader *r, unsigned depth, uint32_t *out)
{
    uint32_t node;
    FLXI_TRY(get(r, &node));
    FLXI_TRY(count_node(r));
    if (depth >= FLXI_KERNEL_MAX_DEPTH)
        return fail(r, "limit", r->at - 4, "the depth of an expression exceeds 128");
    FLXI_TRY(get_expr_by_tag(r, node & 255, depth + 1, node >> 8, out));
    return builder_code(r);
}

/* ---- Statements ---- */

static flx_code get_list(reader *r);

static flx_code get_let(reader *r, uint32_t details)
{
    const char *name;
    uint32_t value;
    FLXI_TRY(check_details(r, details, 0));
    FLXI_TRY(get_text(r, &name));
    FLXI_TRY(get_expr(r, 0, &value));
    return add_var(r, flxi_kb_let(r->b, name, value));
}

static flx_code get_assign(reader *r, uint32_t details)
{
    uint32_t var;
    uint32_t value;
    FLXI_TRY(get_var(r, details, &var));
    FLXI_TRY(get_expr(r, 0, &value));
    flxi_kb_assign(r->b, var, value);
    return FLX_OK;
}

static flx_code get_store(reader *r, uint32_t details)
{
    uint32_t buffer;
    uint32_t x[2];
    FLXI_TRY(check_details(r, details, 0));
    FLXI_TRY(get_buffer(r, &buffer));
    FLXI_TRY(get_operands(r, 0, 2, x));
    flxi_kb_store(r->b, buffer, x[0], x[1]);
    return FLX_OK;
}

static flx_code get_effect(reader *r, uint32_t details)
{
    uint32_t value;
    FLXI_TRY(check_details(r, details, 0));
    FLXI_TRY(get_expr(r, 0, &value));
    flxi_kb_effect(r->b, value);
    return FLX_OK;
}

/* An empty else counts as none. */
static flx_code get_else(reader *r)
{
    uint32_t n;
    size_t at = r->at;
    FLXI_TRY(get(r, &n));
    if (n == 0)
        return FLX_OK;
    r->at = at;
    flxi_kb_else(r->b);
    FLXI_TRY(builder_code(r));
    return get_list(r);
}

static flx_code get_if(reader *r, uint32_t details)
{
    uint32_t condition;
    FLXI_TRY(check_details(r, details, 0));
    FLXI_TRY(get_expr(r, 0, &condition));
    flxi_kb_if(r->b, condition);
    FLXI_TRY(builder_code(r));
    FLXI_TRY(get_list(r));
    FLXI_TRY(get_else(r));
    flxi_kb_end(r->b);
    return FLX_OK;
}

static flx_code get_loop(reader *r, uint32_t details)
{
    const char *name;
    uint32_t x[2];
    FLXI_TRY(check_details(r, details, 0));
    FLXI_TRY(get_text(r, &name));
    FLXI_TRY(get_operands(r, 0, 2, x));
    FLXI_TRY(add_var(r, flxi_kb_loop(r->b, name, x[0], x[1])));
    FLXI_TRY(get_list(r));
    flxi_kb_end(r->b);
    return FLX_OK;
}

static flx_code get_scope(reader *r, unsigned tag, uint32_t details)
{
    const char *generator;
    const char *source;
    if (tag == WIRE_REGION) {
        if (details & ~(uint32_t)FLXI_KERNEL_REGION_FLAGS)
            return bad_value(r, "a region has unknown flags");
        FLXI_TRY(get_text(r, &generator));
        FLXI_TRY(get_text(r, &source));
        flxi_kb_region(r->b, generator, source, details);
    } else {
        FLXI_TRY(check_details(r, details, 0));
        flxi_kb_block(r->b);
    }
    FLXI_TRY(builder_code(r));
    FLXI_TRY(get_list(r));
    flxi_kb_end(r->b);
    return FLX_OK;
}

static flx_code get_barrier(reader *r, uint32_t order)
{
    if (order >= FLX_KERNEL_ORDER_COUNT)
        return bad_value(r, "unknown ordering");
    flxi_kb_barrier(r->b, (flx_kernel_order)order);
    return FLX_OK;
}

static flx_code get_copy(reader *r, flxi_ks *s)
{
    FLXI_TRY(get_buffer(r, &s->buffer));
    FLXI_TRY(get_buffer(r, &s->target));
    FLXI_TRY(get_text(r, &s->text));
    FLXI_TRY(get_expr(r, 0, &s->a));
    return get_expr(r, 0, &s->b);
}

static flx_code get_collective(reader *r, flxi_ks *s)
{
    FLXI_TRY(get_buffer(r, &s->buffer));
    FLXI_TRY(get_buffer(r, &s->target));
    return s->order == FLX_KERNEL_BROADCAST ? get_u64(r, &s->offset) : FLX_OK;
}

/* The fields of a statement without a body. */
static flx_code get_fields(reader *r, flxi_ks *s)
{
    switch ((flxi_ks_kind)s->kind) {
    case KS_INDIRECT: FLXI_TRY(get_buffer(r, &s->buffer)); return get_u64(r, &s->offset);
    case KS_ASYNC_LOAD:
    case KS_ASYNC_STORE: return get_copy(r, s);
    case KS_ASYNC_WAIT:
    case KS_RESUME: return get_text(r, &s->text);
    case KS_TRAP: FLXI_TRY(get_text(r, &s->text)); return get_expr(r, 0, &s->a);
    case KS_COLLECTIVE: return get_collective(r, s);
    default: return FLX_OK; /* a return */
    }
}

static flx_code get_simple(reader *r, unsigned tag, uint32_t details)
{
    static const uint8_t kinds[] = {
        [WIRE_RETURN] = KS_RETURN,           [WIRE_INDIRECT] = KS_INDIRECT,     [WIRE_ASYNC_LOAD] = KS_ASYNC_LOAD,
        [WIRE_ASYNC_STORE] = KS_ASYNC_STORE, [WIRE_ASYNC_WAIT] = KS_ASYNC_WAIT, [WIRE_TRAP] = KS_TRAP,
        [WIRE_RESUME] = KS_RESUME,           [WIRE_COLLECTIVE] = KS_COLLECTIVE, [WIRE_OPAQUE] = KS_OPAQUE,
        [WIRE_EXTENSION] = KS_OPAQUE,
    };
    flxi_ks s = {.kind = tag < sizeof kinds ? kinds[tag] : KS_NONE};
    if (s.kind == KS_NONE)
        return bad_tag(r, tag, "statement");
    if (s.kind == KS_OPAQUE) {
        if (details & 255)
            return bad_value(r, "a statement has no type");
        FLXI_TRY(tag == WIRE_EXTENSION ? get_extension(r, details, &s.opaque) : get_opaque(r, details, &s.opaque));
    } else if (s.kind == KS_COLLECTIVE && details < FLX_KERNEL_COLLECTIVE_COUNT) {
        s.order = (uint8_t)details;
        FLXI_TRY(get_fields(r, &s));
    } else {
        FLXI_TRY(check_details(r, details, 0));
        FLXI_TRY(get_fields(r, &s));
    }
    flxi_kb_simple(r->b, &s);
    return FLX_OK;
}

static flx_code get_statement(reader *r)
{
    uint32_t node;
    FLXI_TRY(get(r, &node));
    FLXI_TRY(count_node(r));
    unsigned tag = node & 255;
    uint32_t details = node >> 8;
    switch (tag) {
    case WIRE_LET: return get_let(r, details);
    case WIRE_ASSIGN: return get_assign(r, details);
    case WIRE_STORE: return get_store(r, details);
    case WIRE_EFFECT: return get_effect(r, details);
    case WIRE_IF: return get_if(r, details);
    case WIRE_LOOP: return get_loop(r, details);
    case WIRE_BARRIER: return get_barrier(r, details);
    case WIRE_BLOCK:
    case WIRE_REGION: return get_scope(r, tag, details);
    default: return get_simple(r, tag, details);
    }
}

/* The recursion is bounded: the builder refuses to open bodies beyond the limit. */
static flx_code get_list(reader *r)
{
    uint32_t n;
    FLXI_TRY(get_count(r, 1, FLXI_KERNEL_MAX_NODES, &n));
    for (uint32_t i = 0; i < n; i++) {
        FLXI_TRY(get_statement(r));
        FLXI_TRY(builder_code(r));
    }
    return FLX_OK;
}

/* ---- Declarations ---- */

static flx_code read_predicates(reader *r, flxi_kbuffer *b)
{
    uint32_t n;
    size_t at = r->at;
    FLXI_TRY(get_count(r, 1, FLXI_KERNEL_MAX_PREDICATES, &n));
    flx_kernel_predicate *p = flxi_new(&r->scratch, flx_kernel_predicate, n);
    if (!p)
        return flxi_oom(r->err, "decoding a kernel");
    for (uint32_t i = 0; i < n; i++) {
        uint64_t numbers[3] = {0};
        FLXI_TRY(get(r, &p[i].test));
        for (int k = 0; k < flxi_kwire_numbers(p[i].test); k++)
            FLXI_TRY(get_u64(r, &numbers[k]));
        p[i].a = numbers[0];
        p[i].b = numbers[1];
        p[i].c = numbers[2];
    }
    b->predicates = p;
    b->num_predicates = n;
    return flxi_kpredicate_is_whole(p, n) ? FLX_OK
                                          : fail(r, "bad value", at, "the condition on a count is not well-formed");
}

static flx_code check_buffer_head(reader *r, uint32_t head)
{
    uint32_t access = head & 255;
    uint32_t element = head >> 8 & 255;
    if (access == 0 || access >= FLX_KERNEL_ACCESS_COUNT || !flxi_ktype_of(element)->name || head >> 18)
        return bad_value(r, "a buffer has an unknown access, element type or usage");
    return FLX_OK;
}

static flx_code read_buffer(reader *r)
{
    uint32_t head;
    const char *descriptor;
    FLXI_TRY(get(r, &head));
    FLXI_TRY(check_buffer_head(r, head));
    flxi_kbuffer b = {.access = (uint8_t)head, .element = (uint8_t)(head >> 8), .usage = (uint8_t)(head >> 16)};
    FLXI_TRY(get_text(r, &b.name));
    FLXI_TRY(get(r, &b.binding));
    if (b.binding && !flxi_kbuffer_is_bound(&b))
        return bad_value(r, "a workgroup or private buffer has a binding");
    FLXI_TRY(get(r, &b.flags));
    if (b.flags & ~(uint32_t)FLXI_KERNEL_BUFFER_FLAGS)
        return bad_value(r, "a buffer has unknown flags");
    FLXI_TRY(get_u64(r, &b.count));
    FLXI_TRY(get_u64(r, &b.range_begin));
    FLXI_TRY(get_u64(r, &b.range_end));
    FLXI_TRY(get(r, &b.alignment));
    FLXI_TRY(get(r, &b.locality));
    FLXI_TRY(get(r, &b.coalescing));
    FLXI_TRY(get_bytes(r, WIRE_MAX_PAYLOAD, &descriptor, &b.descriptor_size));
    b.descriptor = descriptor;
    FLXI_TRY(read_predicates(r, &b));
    flxi_kb_buffer(r->b, &b);
    return builder_code(r);
}

static flx_code read_params(reader *r)
{
    uint32_t n;
    FLXI_TRY(get_count(r, 2, FLXI_KERNEL_MAX_ARGS, &n));
    for (uint32_t i = 0; i < n; i++) {
        uint32_t type;
        const char *name;
        FLXI_TRY(get(r, &type));
        FLXI_TRY(check_type(r, type));
        FLXI_TRY(get_text(r, &name));
        FLXI_TRY(add_var(r, flxi_kb_param(r->b, name, type)));
    }
    return FLX_OK;
}

static flx_code read_adjoint(reader *r)
{
    uint32_t of;
    uint32_t param;
    FLXI_TRY(get(r, &of));
    if (of >= r->b->fns.n)
        return bad_value(r, "no function with this number is declared before its use");
    FLXI_TRY(get(r, &param));
    flxi_kb_adjoint_of(r->b, of, param);
    return FLX_OK;
}

static flx_code read_function(reader *r)
{
    uint32_t head;
    uint32_t result;
    const char *name = "";
    FLXI_TRY(get(r, &head));
    FLXI_TRY(check_details(r, head, 9));
    FLXI_TRY(check_type(r, head & 255));
    if (!(head >> 8))
        FLXI_TRY(get_text(r, &name));
    flxi_kb_function(r->b, name, head & 255);
    FLXI_TRY(builder_code(r));
    if (head >> 8)
        FLXI_TRY(read_adjoint(r));
    FLXI_TRY(read_params(r));
    FLXI_TRY(get_list(r));
    FLXI_TRY(get_expr(r, 0, &result));
    flxi_kb_result(r->b, result);
    return builder_code(r);
}

enum { LEAST_BUFFER = 15, LEAST_FUNCTION = 5 }; /* words */

static flx_code read_declarations(reader *r)
{
    uint32_t size[3];
    uint32_t n;
    for (int a = 0; a < 3; a++)
        FLXI_TRY(get(r, &size[a]));
    r->b = flxi_kb_new(r->ctx, "", size, r->err);
    if (!r->b)
        return FLX_E_OOM;
    FLXI_TRY(get_count(r, LEAST_BUFFER, FLXI_KERNEL_MAX_BUFFERS, &n));
    for (uint32_t i = 0; i < n; i++)
        FLXI_TRY(read_buffer(r));
    FLXI_TRY(get_count(r, LEAST_FUNCTION, FLXI_KERNEL_MAX_NODES, &n));
    for (uint32_t i = 0; i < n; i++)
        FLXI_TRY(read_function(r));
    return FLX_OK;
}

static flx_code read_metadata(reader *r)
{
    const char *name;
    uint32_t flags;
    uint32_t n;
    FLXI_TRY(get_text(r, &name));
    r->b->k->name = flxi_kb_text(r->b, name, strlen(name));
    FLXI_TRY(get(r, &flags));
    if (flags & ~(uint32_t)FLXI_KERNEL_FLAGS)
        return bad_value(r, "the kernel has unknown flags");
    flxi_kb_set_flags(r->b, flags);
    FLXI_TRY(get_count(r, 2, UINT32_MAX, &n));
    for (uint32_t i = 0; i < n; i++) {
        const char *key;
        const char *value;
        FLXI_TRY(get_text(r, &key));
        FLXI_TRY(get_text(r, &value));
        flxi_kb_meta(r->b, key, value);
        FLXI_TRY(builder_code(r));
    }
    return builder_code(r);
}

/* ---- The whole ---- */

static flx_code read_section(reader *r, uint32_t number, size_t total, flx_code (*contents)(reader *))
{
    uint32_t found;
    uint32_t words;
    r->end = total;
    FLXI_TRY(get(r, &found));
    if (found != number)
        return fail(r, "bad tag", r->at - 4, "unexpected section");
    FLXI_TRY(get(r, &words));
    if (words > (total - r->at) / 4)
        return fail(r, "truncated", r->at - 4, "a section exceeds the remaining data");
    r->end = r->at + (size_t)words * 4;
    FLXI_TRY(contents(r));
    return r->at == r->end ? FLX_OK : fail(r, "trailing data", r->at, "a section is longer than its contents");
}

static flx_code check_version(reader *r, uint32_t version)
{
    unsigned major = version & 0xffff;
    if (major == WIRE_MAJOR)
        return FLX_OK;
    return flxi_fail_hint(r->err, FLX_E_KERNEL, "read it with the version of the library that wrote it",
                          "version at byte 4: expected %d, found %u", WIRE_MAJOR, major);
}

/* `size` is at least that of the header. */
static flx_code read_header(reader *r, size_t size)
{
    uint32_t word;
    uint32_t words;
    uint64_t sum;
    r->at = 4;
    FLXI_TRY(get(r, &word));
    FLXI_TRY(check_version(r, word));
    FLXI_TRY(get(r, &word));
    if (word != 0)
        return bad_value(r, "reserved flags are set");
    FLXI_TRY(get(r, &words));
    if ((uint64_t)words * 4 > WIRE_MAX_BYTES)
        return fail(r, "limit", r->at - 4, "more than 64 MiB");
    if ((uint64_t)words * 4 > size)
        return fail(r, "truncated", size, "the data is shorter than its length field");
    if ((uint64_t)words * 4 < size)
        return fail(r, "trailing data", (size_t)words * 4, "the data is longer than its length field");
    FLXI_TRY(get_u64(r, &sum));
    if (sum != flxi_hash_bytes(FLXI_HASH_SEED, r->bytes + WIRE_HEADER_BYTES, size - WIRE_HEADER_BYTES))
        return fail(r, "checksum", 16, "the contents do not match it");
    return FLX_OK;
}

static flx_code read_all(reader *r, size_t size)
{
    static const char magic[4] = {'F', 'L', 'X', 'K'};
    if (memcmp(r->bytes, magic, size < 4 ? size : 4) != 0)
        return fail(r, "bad magic", 0, "these bytes are not a kernel");
    if (size < WIRE_HEADER_BYTES)
        return fail(r, "truncated", size, "the header has 24 bytes");
    r->end = WIRE_HEADER_BYTES;
    FLXI_TRY(read_header(r, size));
    FLXI_TRY(read_section(r, WIRE_STRINGS, size, read_strings));
    FLXI_TRY(read_section(r, WIRE_DECLARATIONS, size, read_declarations));
    FLXI_TRY(read_section(r, WIRE_METADATA, size, read_metadata));
    FLXI_TRY(read_section(r, WIRE_BODY, size, get_list));
    if (r->at != size)
        return fail(r, "trailing data", r->at, "data follows the body");
    if (r->next_text != r->strings.texts.n)
        return fail(r, "bad string", r->text_start, "a string is not used");
    return FLX_OK;
}

flx_kernel *flx_kernel_decode(flx_context *ctx, const void *bytes, size_t size, flx_error *err)
{
    if (!ctx || (!bytes && size)) {
        flxi_fail(err, FLX_E_USAGE, "flx_kernel_decode: the %s is NULL", ctx ? "input" : "context");
        return NULL;
    }
    reader r = {.ctx = ctx, .mem = flxi_context_mem(ctx), .bytes = size ? bytes : (const void *)"", .err = err};
    flxi_arena_init(&r.scratch, r.mem);
    r.strings.arena = &r.scratch;
    flx_kernel *k = NULL;
    if (read_all(&r, size) == FLX_OK) {
        k = flxi_kb_finish(r.b, err);
        r.b = NULL;
    }
    flxi_kb_free(r.b);
    flxi_vec_free(r.mem, &r.vars);
    flxi_vec_free(r.mem, &r.waiting);
    flxi_strings_free(&r.strings);
    flxi_arena_free(&r.scratch);
    return k;
}
