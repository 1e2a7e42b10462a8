/* SPDX-License-Identifier: Apache-2.0 */
/* emit_random.c: see emit_random.h. Statements are drawn with a budget; a program that turns out invalid (for example a
   barrier in divergent control flow) is discarded and drawn again with the next seed. */
#include "emit/emit_random.h"

#include "kernel/program/kernel.h"

#include <stdio.h>

static const uint32_t types[] = {FLX_F32, FLX_F32, FLX_U32, FLX_U32, FLX_I32, FLX_F64, FLX_F16, FLX_BF16,
                                 FLX_U8,  FLX_U16, FLX_U64, FLX_I8,  FLX_I16, FLX_I64, FLX_BOOL};

enum { MAX_VARS = 64, MAX_DEPTH = 5 };

typedef struct {
    flxi_kb *b;
    uint64_t state;
    unsigned flags;
    uint32_t vars[MAX_VARS];
    bool fixed[MAX_VARS]; /* a loop's variable */
    size_t num_vars;
    int budget;
    uint32_t num_buffers;
    const uint32_t *size; /* of a workgroup */
    uint32_t own, local;  /* linear ids, in the grid and in the workgroup */
    bool has_barriers, has_lanes, diverges;
} drawing;

static uint32_t draw(drawing *d, uint32_t n)
{
    return (uint32_t)(test_random(&d->state) >> 16) % n;
}

static uint32_t draw_type(drawing *d)
{
    uint32_t t = types[draw(d, sizeof types / sizeof *types)];
    return t == FLX_F64 && (d->flags & EMIT_RANDOM_NO_F64) ? FLX_F32 : t;
}

static uint32_t expr(drawing *d, uint32_t type, int depth);

/* ---- Expressions ---- */

static uint32_t literal(drawing *d, uint32_t type)
{
    static const double values[] = {0, 1, 2, 0.5, 3, 7, 10, 0.1, 100, 31};
    double v = values[draw(d, 10)];
    bool negative = flxi_ktype_fits(type, TAKES_SIGNED | TAKES_FLOAT) && draw(d, 3) == 0;
    if (type == FLX_BOOL)
        return flxi_kb_bool(d->b, draw(d, 2));
    return draw(d, 8) == 0 ? flxi_kb_literal(d->b, type, test_random(&d->state))
                           : flxi_kb_number(d->b, type, negative ? -v : v);
}

static uint32_t variable(drawing *d, uint32_t type)
{
    for (int tries = 0; tries < 6 && d->num_vars; tries++) {
        uint32_t v = flxi_kb_var(d->b, d->vars[draw(d, (uint32_t)d->num_vars)]);
        if (flxi_kb_type(d->b, v) == type)
            return v;
    }
    return literal(d, type);
}

static uint32_t invocation(drawing *d)
{
    return flxi_kb_id(d->b, FLX_KERNEL_INVOCATION_ID, 0);
}

/* x + nx * (y + ny * z), of ids. */
static uint32_t linear(drawing *d, flx_kernel_id which, const uint32_t extent[2])
{
    flxi_kb *b = d->b;
    uint32_t sum = flxi_kb_id(b, which, 2);
    for (uint32_t a = 2; a-- > 0;)
        sum = flxi_kb_binary(b, KBIN_add, flxi_kb_binary(b, KBIN_mul, sum, extent[a]), flxi_kb_id(b, which, a));
    return sum;
}

static void find_places(drawing *d)
{
    flxi_kb *b = d->b;
    const uint32_t *size = d->size;
    uint32_t in_group[2] = {flxi_kb_u32(b, size[0]), flxi_kb_u32(b, size[1])};
    uint32_t in_grid[2] = {flxi_kb_id(b, FLX_KERNEL_NUM_WORKGROUPS, 0), flxi_kb_id(b, FLX_KERNEL_NUM_WORKGROUPS, 1)};
    uint32_t group = linear(d, FLX_KERNEL_WORKGROUP_ID, in_grid);
    d->local = linear(d, FLX_KERNEL_LOCAL_ID, in_group);
    d->own = flxi_kb_binary(b, KBIN_add,
                            flxi_kb_binary(b, KBIN_mul, group, flxi_kb_u32(b, size[0] * size[1] * size[2])), d->local);
}

static bool is_written(const flxi_kbuffer *b)
{
    return b->access == FLX_KERNEL_READ_WRITE || b->access == FLX_KERNEL_WORKGROUP;
}

/* The index of an access; memory that others write is accessed only at the invocation's own index, if it has to be
   safe. */
static uint32_t index_for(drawing *d, uint32_t buffer, int depth)
{
    const flxi_kbuffer *b = &d->b->buffers.at[buffer];
    if ((d->flags & EMIT_RANDOM_SAFE) && is_written(b))
        return b->access == FLX_KERNEL_WORKGROUP ? d->local : d->own;
    switch (draw(d, 5)) {
    case 0: return invocation(d);
    case 1: return flxi_kb_binary(d->b, KBIN_mod, expr(d, FLX_U32, depth), flxi_kb_u32(d->b, 1 + draw(d, 70)));
    case 2: return flxi_kb_binary(d->b, KBIN_min, expr(d, FLX_U32, depth), flxi_kb_u32(d->b, draw(d, 70)));
    case 3: return flxi_kb_binary(d->b, KBIN_add, invocation(d), flxi_kb_u32(d->b, draw(d, 9)));
    default: return expr(d, FLX_U32, depth);
    }
}

static uint32_t load(drawing *d, uint32_t type, int depth)
{
    for (int tries = 0; tries < 8; tries++) {
        uint32_t i = 1 + draw(d, d->num_buffers - (d->flags & EMIT_RANDOM_SAFE));
        if (flxi_ktype_of(d->b->buffers.at[i].element)->value == type && d->b->buffers.at[i].access != FLX_KERNEL_WRITE)
            return flxi_kb_load(d->b, i, index_for(d, i, depth));
    }
    return variable(d, type);
}

static bool is_transcendental(uint8_t unary, uint8_t binary)
{
    return (unary >= KUN_exp && unary <= KUN_sigmoid) || binary == KBIN_pow || binary == KBIN_atan2 ||
           binary == KBIN_hypot;
}

static uint32_t unary(drawing *d, uint32_t type, int depth)
{
    for (int tries = 0; tries < 20; tries++) {
        uint8_t op = (uint8_t)(1 + draw(d, KUN_COUNT - 1));
        uint32_t from = flxi_kunaries[op].result == KRESULT_SAME ? type : draw_type(d);
        if (flxi_kop_type(&flxi_kunaries[op], from) == type &&
            !((d->flags & EMIT_RANDOM_EXACT) && is_transcendental(op, 0)))
            return flxi_kb_unary(d->b, (flxi_kunary)op, expr(d, from, depth));
    }
    return variable(d, type);
}

static uint32_t binary(drawing *d, uint32_t type, int depth)
{
    for (int tries = 0; tries < 20; tries++) {
        uint8_t op = (uint8_t)(1 + draw(d, KBIN_COUNT - 1));
        uint32_t from = flxi_kbinaries[op].result == KRESULT_SAME ? type : draw_type(d);
        if (flxi_kop_type(&flxi_kbinaries[op], from) != type ||
            ((d->flags & EMIT_RANDOM_EXACT) && is_transcendental(0, op)))
            continue;
        uint32_t x = expr(d, from, depth), y = expr(d, from, depth);
        bool divides = (op == KBIN_div || op == KBIN_mod) && flxi_kb_expr(d->b, y)->kind == KX_LITERAL;
        return divides ? x : flxi_kb_binary(d->b, (flxi_kbinary)op, x, y);
    }
    return variable(d, type);
}

static uint32_t id(drawing *d)
{
    switch (draw(d, 4)) {
    case 0: return flxi_kb_id(d->b, (flx_kernel_id)draw(d, FLX_KERNEL_ID_COUNT), draw(d, 3));
    case 1: return flxi_kb_length(d->b, 1 + draw(d, d->num_buffers));
    case 2: return d->has_lanes ? flxi_kb_lane(d->b) : invocation(d);
    default: return invocation(d);
    }
}

static uint32_t bitcast(drawing *d, uint32_t type, int depth)
{
    for (int tries = 0; tries < 8; tries++) {
        uint32_t from = draw_type(d);
        if (from != type && flxi_ktype_of(from)->bits == flxi_ktype_of(type)->bits)
            return flxi_kb_bitcast(d->b, type, expr(d, from, depth));
    }
    return variable(d, type);
}

static uint32_t expr(drawing *d, uint32_t type, int depth)
{
    if (depth <= 0)
        return draw(d, 3) ? variable(d, type) : literal(d, type);
    depth--;
    switch (draw(d, 14)) {
    case 0: return literal(d, type);
    case 1:
    case 2: return variable(d, type);
    case 3:
    case 4: return load(d, type, depth);
    case 5:
    case 6: return unary(d, type, depth);
    case 7:
    case 8:
    case 9: return binary(d, type, depth);
    case 10:
        return flxi_kb_select(d->b, expr(d, draw(d, 2) ? FLX_BOOL : FLX_U32, depth), expr(d, type, depth),
                              expr(d, type, depth));
    case 11: return flxi_kb_cast(d->b, type, expr(d, draw_type(d), depth));
    case 12: return type == FLX_U32 ? id(d) : bitcast(d, type, depth);
    default:
        return flxi_ktype_is_float(type)
                   ? flxi_kb_fma(d->b, expr(d, type, depth), expr(d, type, depth), expr(d, type, depth))
                   : variable(d, type);
    }
}

/* ---- Statements ---- */

static void statements(drawing *d, int depth, int n);

static void keep(drawing *d, uint32_t var, bool is_fixed)
{
    if (var && d->num_vars < MAX_VARS) {
        d->fixed[d->num_vars] = is_fixed;
        d->vars[d->num_vars++] = var;
    }
}

static void let(drawing *d, uint32_t value)
{
    char name[16];
    snprintf(name, sizeof name, "v%u", (unsigned)d->b->vars.n);
    keep(d, flxi_kb_let(d->b, name, value), false);
}

static void assign(drawing *d)
{
    size_t i = draw(d, (uint32_t)(d->num_vars ? d->num_vars : 1));
    if (i < d->num_vars && !d->fixed[i])
        flxi_kb_assign(d->b, d->vars[i], expr(d, flxi_kb_type(d->b, flxi_kb_var(d->b, d->vars[i])), 3));
}

static void store(drawing *d)
{
    uint32_t i = 1 + draw(d, d->num_buffers - (d->flags & EMIT_RANDOM_SAFE));
    const flxi_kbuffer *b = &d->b->buffers.at[i];
    uint8_t access = b->access;
    if (access != FLX_KERNEL_READ_WRITE && access != FLX_KERNEL_WORKGROUP && access != FLX_KERNEL_PRIVATE)
        return;
    uint32_t type = flxi_ktype_of(b->element)->value, index = index_for(d, i, 1);
    flxi_kb_store(d->b, i, index, expr(d, type, 4));
}

static void atomic(drawing *d)
{
    uint32_t i = d->num_buffers; /* the last one is only for them */
    flx_kernel_atomic op = (flx_kernel_atomic)draw(d, d->flags & EMIT_RANDOM_SAFE ? 2 : FLX_KERNEL_ATOMIC_EXCHANGE);
    uint32_t a = flxi_kb_atomic(d->b, op, i, flxi_kb_binary(d->b, KBIN_mod, expr(d, FLX_U32, 1), flxi_kb_u32(d->b, 10)),
                                expr(d, FLX_U32, 2), 0, (flx_kernel_order)draw(d, FLX_KERNEL_GRID));
    if ((d->flags & EMIT_RANDOM_SAFE) || draw(d, 2))
        flxi_kb_effect(d->b, a);
    else
        let(d, flxi_kb_binary(d->b, KBIN_add, flxi_kb_load(d->b, i, flxi_kb_u32(d->b, 1)), a));
}

static void lanes(drawing *d)
{
    uint32_t type = draw(d, 2) ? FLX_F32 : FLX_U32, x = expr(d, type, 2), r;
    switch (draw(d, 3)) {
    case 0: r = flxi_kb_subgroup_add(d->b, x); break;
    case 1: r = flxi_kb_subgroup_shuffle(d->b, x, expr(d, FLX_U32, 1)); break;
    default: type = FLX_U32; r = flxi_kb_subgroup_ballot(d->b, expr(d, FLX_BOOL, 2));
    }
    let(d, draw(d, 2) ? r : flxi_kb_binary(d->b, KBIN_add, expr(d, type, 2), r));
}

/* A condition or bound that is the same for all invocations, so that barriers are allowed inside. */
static uint32_t common(drawing *d)
{
    switch (draw(d, 3)) {
    case 0: return flxi_kb_u32(d->b, draw(d, 4));
    case 1: return flxi_kb_binary(d->b, KBIN_mod, flxi_kb_id(d->b, FLX_KERNEL_WORKGROUP_ID, 0), flxi_kb_u32(d->b, 3));
    default: return flxi_kb_binary(d->b, KBIN_mod, flxi_kb_length(d->b, 1), flxi_kb_u32(d->b, 4));
    }
}

static void body(drawing *d, int depth, bool is_common)
{
    size_t n = d->num_vars;
    bool diverged = d->diverges;
    d->diverges |= !is_common;
    statements(d, depth - 1, 1 + (int)draw(d, 4));
    d->diverges = diverged;
    d->num_vars = n;
}

static void branch(drawing *d, int depth)
{
    bool is_common = draw(d, 2);
    flxi_kb_if(d->b, is_common ? common(d) : expr(d, draw(d, 4) ? FLX_BOOL : FLX_U32, 3));
    body(d, depth, is_common);
    if (draw(d, 2)) {
        flxi_kb_else(d->b);
        body(d, depth, is_common);
    }
    flxi_kb_end(d->b);
}

static void loop(drawing *d, int depth)
{
    char name[16];
    bool is_common = draw(d, 2);
    uint32_t from = flxi_kb_u32(d->b, draw(d, 3));
    uint32_t to = is_common ? common(d) : flxi_kb_binary(d->b, KBIN_mod, expr(d, FLX_U32, 2), flxi_kb_u32(d->b, 5));
    size_t n = d->num_vars;
    snprintf(name, sizeof name, "i%u", (unsigned)d->b->vars.n);
    keep(d, flxi_kb_loop(d->b, name, from, to), true);
    body(d, depth, is_common);
    d->num_vars = n;
    flxi_kb_end(d->b);
}

static void block(drawing *d, int depth)
{
    if (draw(d, 2))
        flxi_kb_block(d->b);
    else
        flxi_kb_region(d->b, "made \"by\" */ chance", "", 0);
    body(d, depth, true);
    flxi_kb_end(d->b);
}

static void statement(drawing *d, int depth)
{
    bool talks = d->has_lanes && (!d->diverges || !(d->flags & EMIT_RANDOM_CONVERGENT));
    switch (draw(d, 16)) {
    case 0:
    case 1:
    case 2: let(d, expr(d, draw_type(d), 4)); break;
    case 3:
    case 4: assign(d); break;
    case 5:
    case 6:
    case 7: store(d); break;
    case 8: atomic(d); break;
    case 9:
    case 10:
        if (talks)
            lanes(d);
        break;
    case 11:
        if (d->has_barriers && !d->diverges)
            flxi_kb_barrier(d->b, FLX_KERNEL_ACQ_REL);
        break;
    case 12: branch(d, depth); break;
    case 13: loop(d, depth); break;
    case 14: block(d, depth); break;
    default:
        if (draw(d, 6) == 0 && depth < MAX_DEPTH) {
            flxi_kb_if(d->b, draw(d, 2) ? common(d) : expr(d, FLX_BOOL, 2));
            flxi_kb_return(d->b);
            flxi_kb_end(d->b);
        }
    }
}

static void statements(drawing *d, int depth, int n)
{
    for (int i = 0; i < n && d->budget-- > 0 && depth > 0; i++)
        statement(d, depth);
}

/* ---- Kernels ---- */

static void declare(drawing *d, uint8_t access, uint32_t element, uint64_t count)
{
    char name[40];
    snprintf(name, sizeof name, "b\"%u'; x", (unsigned)d->b->buffers.n);
    flxi_kb_buffer(d->b, &(flxi_kbuffer){.name = name,
                                         .binding = (uint32_t)d->b->buffers.n,
                                         .access = access,
                                         .element = (uint8_t)element,
                                         .count = count});
}

static flx_kernel *draw_kernel(flx_context *ctx, uint64_t seed, unsigned flags)
{
    static const uint32_t sizes[][3] = {{1, 1, 1}, {8, 1, 1}, {16, 1, 1}, {4, 2, 1}, {5, 1, 1}, {2, 2, 3}, {1, 6, 1}};
    static const uint32_t storage[] = {FLX_KERNEL_F8E4M3, FLX_KERNEL_NF4, FLX_KERNEL_I4, FLX_KERNEL_U4, FLX_KERNEL_FP4};
    flx_error err = {0};
    drawing d = {.state = seed, .flags = flags, .budget = 40};
    test_random(&d.state);
    d.size = sizes[draw(&d, 7)];
    uint32_t group = d.size[0] * d.size[1] * d.size[2];
    d.has_barriers = draw(&d, 2);
    d.has_lanes = draw(&d, 3) == 0;
    if (d.has_barriers || d.has_lanes) /* where invocations synchronise, their order in between is unspecified */
        d.flags |= EMIT_RANDOM_SAFE;
    char name[40];
    snprintf(name, sizeof name, "random \"%llu\"", (unsigned long long)seed);
    d.b = flxi_kb_new(ctx, name, d.size, &err);
    CHECK_MSG(d.b, "%s", err.message);
    for (int i = 0; i < 3; i++)
        declare(&d, i == 2 ? FLX_KERNEL_UNIFORM : FLX_KERNEL_READ, draw_type(&d), draw(&d, 2) ? 0 : 20);
    for (int i = 0; i < 3; i++)
        declare(&d, FLX_KERNEL_READ_WRITE, draw_type(&d), draw(&d, 2) ? 0 : 64);
    declare(&d, FLX_KERNEL_READ_WRITE, storage[draw(&d, 5)], 64);
    declare(&d, FLX_KERNEL_WORKGROUP, draw_type(&d), draw(&d, 2) ? group : 7);
    declare(&d, FLX_KERNEL_PRIVATE, draw_type(&d), 1 + draw(&d, 5));
    declare(&d, FLX_KERNEL_PRIVATE, storage[draw(&d, 5)], 1 + draw(&d, 5));
    declare(&d, FLX_KERNEL_READ_WRITE, FLX_U32, 8);
    d.num_buffers = (uint32_t)d.b->buffers.n - 1;
    find_places(&d);
    let(&d, flxi_kb_binary(d.b, KBIN_mod, invocation(&d), flxi_kb_u32(d.b, 7)));
    let(&d, flxi_kb_load(d.b, 1, invocation(&d)));
    statements(&d, MAX_DEPTH, 14);
    /* The final values of variables must be visible. */
    for (size_t i = 0; i < d.num_vars; i++)
        for (uint32_t b = 4; b <= 6; b++)
            if (d.b->buffers.at[b].element == flxi_kb_type(d.b, flxi_kb_var(d.b, d.vars[i])))
                flxi_kb_store(d.b, b, d.own, flxi_kb_var(d.b, d.vars[i]));
    return flxi_kb_finish(d.b, &err);
}

flx_kernel *emit_random(flx_context *ctx, uint64_t seed, unsigned flags)
{
    for (uint64_t i = 0;; i++) {
        flx_kernel *k = draw_kernel(ctx, seed + i * 1000003, flags);
        bool is_valid = k && flx_kernel_validate(k, NULL, NULL, 0, NULL, NULL) == FLX_OK;
        if (is_valid && (flags & EMIT_RANDOM_CONVERGENT)) { /* also after a return that some invocations take */
            flx_buffer text = {0};
            is_valid = flx_kernel_emit(k, "opencl", &text, NULL) == FLX_OK;
            flx_buffer_free(&text);
        }
        if (is_valid)
            return k;
        flx_kernel_release(k);
        CHECK_MSG(i < 1000, "no valid kernel in %llu draws", (unsigned long long)i);
    }
}
