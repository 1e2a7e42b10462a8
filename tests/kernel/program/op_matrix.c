/* SPDX-License-Identifier: Apache-2.0 */
/* op_matrix.c: see op_matrix.h. A kernel contains all ops of one type, each with its own output; operands are all
   pairs of edge cases, then random bits. */
#include "kernel/program/op_matrix.h"

#include "kernel/program/kernel_scalar.h"

#include <stdio.h>

static const uint32_t types[] = {FLX_BOOL, FLX_U8,  FLX_U16, FLX_U32,  FLX_U64, FLX_I8, FLX_I16,
                                 FLX_I32,  FLX_I64, FLX_F16, FLX_BF16, FLX_F32, FLX_F64};
static const uint32_t elements[] = {FLX_BOOL,      FLX_U8,        FLX_U16,        FLX_U32,           FLX_U64,
                                    FLX_I8,        FLX_I16,       FLX_I32,        FLX_I64,           FLX_F16,
                                    FLX_BF16,      FLX_F32,       FLX_F64,        FLX_KERNEL_F8E4M3, FLX_KERNEL_F8E5M2,
                                    FLX_KERNEL_I4, FLX_KERNEL_U4, FLX_KERNEL_FP4, FLX_KERNEL_NF4};

#define COUNT(a) (sizeof(a) / sizeof *(a))

enum { ELEMENTS = 8192, WORKGROUP = 64 };

typedef struct {
    op_matrix *m;
    flx_context *ctx;
    unsigned flags;
    flxi_kb *b; /* the kernel that is being built */
    uint32_t index;
} maker;

static bool is_left_out(const maker *m, uint32_t type)
{
    return (m->flags & OP_MATRIX_NO_F64) && type == FLX_F64;
}

/* ---- Kernels ---- */

static void begin(maker *m, const char *what, uint32_t type)
{
    flx_error err = {0};
    char name[64];
    const uint32_t size[3] = {WORKGROUP, 1, 1};
    snprintf(name, sizeof name, "%s_%s", what, flxi_ktype_of(type)->name);
    m->b = flxi_kb_new(m->ctx, name, size, &err);
    CHECK_MSG(m->b, "%s", err.message);
    m->index = flxi_kb_id(m->b, FLX_KERNEL_INVOCATION_ID, 0);
}

static void end(maker *m)
{
    flx_error err = {0};
    bool is_empty = m->b->frames.at[0].list.n == 0;
    flx_kernel *k = flxi_kb_finish(m->b, &err);
    CHECK_MSG(k, "%s", err.message);
    CHECK(m->m->n < OP_MATRIX_MAX);
    if (is_empty)
        flx_kernel_release(k);
    else
        m->m->at[m->m->n++] = k;
}

static uint32_t add_buffer(maker *m, const char *name, uint32_t element, bool is_output)
{
    return flxi_kb_buffer(m->b, &(flxi_kbuffer){.name = name,
                                                .binding = (uint32_t)m->b->buffers.n,
                                                .access = is_output ? FLX_KERNEL_WRITE : FLX_KERNEL_READ,
                                                .element = (uint8_t)element,
                                                .count = ELEMENTS});
}

static uint32_t operand(maker *m, const char *name, uint32_t type)
{
    return flxi_kb_load(m->b, add_buffer(m, name, type, false), m->index);
}

static void result(maker *m, const char *name, uint32_t value)
{
    uint32_t type = flxi_kb_type(m->b, value);
    CHECK_MSG(type != 0, "%s is ill-typed", name);
    flxi_kb_store(m->b, add_buffer(m, name, type, true), m->index, value);
}

static bool is_exact_unary(int op)
{
    return op < KUN_exp || op > KUN_sigmoid;
}

static bool is_exact_binary(int op)
{
    return op != KBIN_pow && op != KBIN_atan2 && op != KBIN_hypot;
}

static bool is_chosen(const maker *m, bool is_exact)
{
    return !(m->flags & (is_exact ? OP_MATRIX_TRANSCENDENTAL : OP_MATRIX_EXACT));
}

static void make_unary(maker *m, uint32_t type)
{
    begin(m, "unary", type);
    uint32_t x = operand(m, "x", type);
    for (int op = 1; op < KUN_COUNT; op++)
        if (flxi_ktype_fits(type, flxi_kunaries[op].kinds) && is_chosen(m, is_exact_unary(op)))
            result(m, flxi_kunaries[op].name, flxi_kb_unary(m->b, (flxi_kunary)op, x));
    end(m);
}

static void make_binary(maker *m, uint32_t type)
{
    begin(m, "binary", type);
    uint32_t x = operand(m, "x", type), y = operand(m, "y", type);
    for (int op = 1; op < KBIN_COUNT; op++)
        if (flxi_ktype_fits(type, flxi_kbinaries[op].kinds) && is_chosen(m, is_exact_binary(op)))
            result(m, flxi_kbinaries[op].name, flxi_kb_binary(m->b, (flxi_kbinary)op, x, y));
    end(m);
}

static void make_ternary(maker *m, uint32_t type)
{
    begin(m, "ternary", type);
    uint32_t x = operand(m, "x", type), y = operand(m, "y", type), z = operand(m, "z", type);
    result(m, "select", flxi_kb_select(m->b, operand(m, "c", FLX_BOOL), x, y));
    result(m, "select_word", flxi_kb_select(m->b, operand(m, "w", FLX_U32), x, y));
    if (flxi_ktype_is_float(type))
        result(m, "fma", flxi_kb_fma(m->b, x, y, z));
    end(m);
}

static void make_casts(maker *m, uint32_t type)
{
    begin(m, "cast", type);
    uint32_t x = operand(m, "x", type);
    for (size_t i = 0; i < COUNT(types); i++) {
        char name[32];
        if (is_left_out(m, types[i]))
            continue;
        snprintf(name, sizeof name, "cast_%s", flxi_ktype_of(types[i])->name);
        if (types[i] != type)
            result(m, name, flxi_kb_cast(m->b, types[i], x));
        if (flxi_ktype_of(types[i])->bits != flxi_ktype_of(type)->bits)
            continue;
        snprintf(name, sizeof name, "bitcast_%s", flxi_ktype_of(types[i])->name);
        result(m, name, flxi_kb_bitcast(m->b, types[i], x));
    }
    end(m);
}

/* Every element type from memory and back, with and without a guard, through workgroup and private memory too. */
static void make_memory(maker *m, uint32_t element)
{
    begin(m, "memory", element);
    uint32_t x = operand(m, "x", element), type = flxi_kb_type(m->b, x);
    uint32_t local = flxi_kb_id(m->b, FLX_KERNEL_LOCAL_ID, 0), out = add_buffer(m, "out", element, true);
    flxi_kbuffer own = {
        .name = "shared", .access = FLX_KERNEL_WORKGROUP, .element = (uint8_t)element, .count = WORKGROUP};
    uint32_t shared = flxi_kb_buffer(m->b, &own);
    own.name = "own";
    own.access = FLX_KERNEL_PRIVATE;
    own.count = 3;
    uint32_t private = flxi_kb_buffer(m->b, &own);
    uint32_t value = flxi_kb_load(m->b, add_buffer(m, "y", type, false), m->index);
    result(m, "loaded", x);
    flxi_kb_store(m->b, out, m->index, value);
    flxi_kb_store(m->b, shared, local, value);
    flxi_kb_store(m->b, private, flxi_kb_binary(m->b, KBIN_mod, local, flxi_kb_u32(m->b, 5)), value);
    result(m, "shared_again", flxi_kb_load(m->b, shared, local));
    result(m, "own_again", flxi_kb_load(m->b, private, flxi_kb_binary(m->b, KBIN_mod, local, flxi_kb_u32(m->b, 3))));
    result(m, "beyond",
           flxi_kb_load(m->b, m->b->k ? 1 : 1, flxi_kb_binary(m->b, KBIN_mul, m->index, flxi_kb_u32(m->b, 3))));
    end(m);
}

/* Results of arithmetic whose bits are inspected: all NaNs are the same. */
static void make_observed(maker *m, uint32_t type)
{
    static const flxi_kbinary ops[] = {KBIN_add, KBIN_mul, KBIN_div, KBIN_min, KBIN_max_nan};
    const flxi_ktype *t = flxi_ktype_of(type);
    uint32_t bits = t->bits == 16 ? FLX_U16 : t->bits == 32 ? FLX_U32 : FLX_U64;
    begin(m, "observed", type);
    uint32_t x = operand(m, "x", type), y = operand(m, "y", type);
    for (size_t i = 0; i < COUNT(ops); i++) {
        char name[32];
        uint32_t r = flxi_kb_binary(m->b, ops[i], x, y);
        snprintf(name, sizeof name, "bits_of_%s", flxi_kbinaries[ops[i]].name);
        result(m, name, flxi_kb_bitcast(m->b, bits, r));
        snprintf(name, sizeof name, "sign_of_%s", flxi_kbinaries[ops[i]].name);
        result(m, name, flxi_kb_binary(m->b, KBIN_copysign, flxi_kb_number(m->b, type, 1), r));
    }
    result(m, "moved", flxi_kb_bitcast(m->b, bits, flxi_kb_unary(m->b, KUN_neg, x)));
    end(m);
}

/* Literals of all types, by their bits. */
static void make_literals(maker *m, uint32_t type)
{
    uint64_t edges[128];
    size_t n = device_pair_edges(type, edges, 120);
    unsigned w = flxi_ktype_of(type)->bits;
    if (flxi_ktype_is_float(type)) {
        edges[n++] = (UINT64_C(1) << (w - 1)) - 1;                        /* a NaN with all payload bits */
        edges[n++] = ~UINT64_C(0) >> (64 - w);                            /* and its negative */
        edges[n++] = flxi_kscalar_from_double(type, __builtin_inf()) + 1; /* a signalling one */
    }
    begin(m, "literal", type);
    uint32_t out = add_buffer(m, "out", type, true);
    for (size_t i = 0; i < n; i++)
        flxi_kb_store(m->b, out, flxi_kb_u32(m->b, (uint32_t)i), flxi_kb_literal(m->b, type, edges[i]));
    end(m);
}

void op_matrix_make(op_matrix *m, flx_context *ctx, unsigned flags)
{
    maker k = {.m = m, .ctx = ctx, .flags = flags};
    m->n = 0;
    for (size_t i = 0; i < COUNT(types); i++) {
        if (is_left_out(&k, types[i]))
            continue;
        make_unary(&k, types[i]);
        make_binary(&k, types[i]);
        if (flags & OP_MATRIX_TRANSCENDENTAL)
            continue;
        make_ternary(&k, types[i]);
        make_casts(&k, types[i]);
        make_literals(&k, types[i]);
        if (flxi_ktype_is_float(types[i]))
            make_observed(&k, types[i]);
    }
    for (size_t i = 0; i < COUNT(elements) && !(flags & OP_MATRIX_TRANSCENDENTAL); i++)
        if (!is_left_out(&k, elements[i]))
            make_memory(&k, elements[i]);
}

void op_matrix_free(op_matrix *m)
{
    for (size_t i = 0; i < m->n; i++)
        flx_kernel_release(m->at[i]);
    m->n = 0;
}

/* ---- Data ---- */

/* All pairs of edge cases: x runs fast, y slowly; then random bits. */
static void fill_pairs(const flx_kernel_buffer *b, void *data, size_t count, uint64_t seed)
{
    uint64_t edges[128], state = seed;
    const flxi_ktype *t = flxi_ktype_of(b->element);
    bool is_slow = b->name[0] == 'y' || b->name[0] == 'c';
    size_t n = t->storage || (b->access == FLX_KERNEL_WRITE) ? 0 : device_pair_edges(b->element, edges, 88);
    for (size_t i = 0; i < count; i++) {
        size_t pair = is_slow ? i / (n ? n : 1) : i;
        uint64_t bits = n && i < n * n ? edges[pair % n] : test_random(&state) >> 3;
        device_pair_put(b->element, data, i, b->access == FLX_KERNEL_WRITE ? 0 : bits);
    }
}

void op_matrix_check(const op_matrix *m, const char *device, uint32_t max_ulp)
{
    for (size_t i = 0; i < m->n; i++)
        device_pair_check(m->at[i], &(device_pair){.device = device,
                                                   .grid = {ELEMENTS / WORKGROUP, 1, 1},
                                                   .seed = test_seed(),
                                                   .max_ulp = max_ulp,
                                                   .fill = fill_pairs});
}
