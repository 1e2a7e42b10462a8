/* kernel_guard.c: see kernel_guard.h.

   Two sources: the largest value an unsigned expression can have, found once, bottom up (a remainder, a mask, a local id, a
   loop's variable …), and what the conditions around a place say. Expressions are compared by number after following
   variables to the expressions they were declared with; only variables that are never assigned take part, so a fact stays
   true as long as its variables are in scope. */
#include "codegen/kernel_guard.h"

/* Conditions that are looked at in one assumption, and facts that are looked at for one access: the rest is guarded, so
   that no program, whatever it looks like, costs more than linear time. */
enum { MAX_CONDITIONS = 64, MAX_FACTS = 256 };

/* ---- Largest values ---- */

static uint64_t largest_of_type(uint32_t type)
{
    switch (type) {
    case FLX_BOOL: return 1;
    case FLX_U8: return UINT8_MAX;
    case FLX_U16: return UINT16_MAX;
    case FLX_U32: return UINT32_MAX;
    default: return UINT64_MAX;
    }
}

/* 2^n - 1 that is not less. */
static uint64_t fill_below(uint64_t x)
{
    return x == 0 ? 0 : ~UINT64_C(0) >> __builtin_clzll(x);
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t largest_binary(const flxi_kguard *b, const flxi_kx *e, uint64_t limit)
{
    const flxi_kx *right = &b->k->exprs[e->x[1]];
    uint64_t x = b->largest[e->x[0]], y = b->largest[e->x[1]], r;
    bool literal = right->kind == KX_LITERAL;
    unsigned shift = (unsigned)(right->bits & (flxi_ktype_of(e->type)->bits - 1u));
    switch ((flxi_kbinary)e->op) {
    case KBIN_add:
    case KBIN_wrapping_add: return __builtin_add_overflow(x, y, &r) || r > limit ? limit : r;
    case KBIN_mul: return __builtin_mul_overflow(x, y, &r) || r > limit ? limit : r;
    case KBIN_div: return literal && right->bits ? x / right->bits : limit;
    case KBIN_mod: return literal && right->bits ? least(x, right->bits - 1) : x;
    case KBIN_bit_and:
    case KBIN_min: return least(x, y);
    case KBIN_max: return most(x, y);
    case KBIN_bit_or:
    case KBIN_bit_xor: return fill_below(most(x, y));
    case KBIN_shr: return literal ? x >> shift : x;
    case KBIN_shl: return literal && x <= limit >> shift ? x << shift : limit;
    case KBIN_saturating_sub: return x;
    default: return limit;
    }
}

static uint64_t largest_unary(const flxi_kx *e, uint64_t limit)
{
    switch ((flxi_kunary)e->op) {
    case KUN_popcount:
    case KUN_clz:
    case KUN_ctz: return flxi_ktype_of(e->type)->bits;
    case KUN_unpack_4_low:
    case KUN_unpack_4_high: return 15;
    case KUN_unpack_8_low:
    case KUN_unpack_8_high: return 255;
    default: return limit;
    }
}

static bool is_unsigned(uint32_t type)
{
    return flxi_ktype_fits(type, TAKES_UNSIGNED | TAKES_BOOL);
}

/* Of a variable's declaration, where it is older than the use. */
static uint64_t largest_var(const flxi_kguard *b, const uint32_t *ends, uint32_t expr, uint32_t var, uint64_t limit)
{
    uint32_t value = b->values[var], end = ends[var];
    if (value && value < expr && is_unsigned(b->k->exprs[value].type))
        return b->largest[value];
    if (end && end < expr && b->largest[end] > 0)
        return b->largest[end] - 1;
    return limit;
}

static uint64_t largest(const flxi_kguard *b, const uint32_t *ends, uint32_t expr)
{
    const flxi_kx *e = &b->k->exprs[expr];
    uint64_t limit = largest_of_type(e->type);
    if (!is_unsigned(e->type))
        return limit;
    switch ((flxi_kx_kind)e->kind) {
    case KX_LITERAL: return e->bits;
    case KX_VAR: return largest_var(b, ends, expr, e->ref, limit);
    case KX_ID: return e->op == FLX_KERNEL_LOCAL_ID && e->ref < 3 ? b->k->size[e->ref] - 1u : limit;
    case KX_LENGTH: return b->k->buffers[e->ref].count ? least(limit, b->k->buffers[e->ref].count) : limit;
    case KX_LANE: return 31;
    case KX_LANES: return 32;
    case KX_UNARY: return largest_unary(e, limit);
    case KX_BINARY: return is_unsigned(b->k->exprs[e->x[0]].type) ? largest_binary(b, e, limit) : limit;
    case KX_SELECT: return most(b->largest[e->x[1]], b->largest[e->x[2]]);
    case KX_CAST: return is_unsigned(b->k->exprs[e->x[0]].type) ? least(limit, b->largest[e->x[0]]) : limit;
    default: return limit;
    }
}

/* A cast to fewer bits keeps the low ones: what was larger may become anything. */
static uint64_t bounded(const flxi_kguard *b, const uint32_t *ends, uint32_t expr)
{
    const flxi_kx *e = &b->k->exprs[expr];
    uint64_t limit = largest_of_type(e->type);
    bool cuts = e->kind == KX_CAST && b->largest[e->x[0]] > limit;
    return cuts ? limit : largest(b, ends, expr);
}

/* ---- Stable expressions ---- */

static bool is_stable(const flxi_kguard *b, const flxi_kx *e)
{
    uint8_t access = e->kind == KX_LOAD ? b->k->buffers[e->ref].access : 0;
    if (e->kind == KX_VAR)
        return !b->assigned[e->ref];
    if (e->kind == KX_LOAD && access != FLX_KERNEL_READ && access != FLX_KERNEL_UNIFORM)
        return false;
    if (e->kind == KX_ATOMIC || e->kind == KX_OPAQUE ||
        (e->kind >= KX_SUBGROUP_ADD && e->kind <= KX_SUBGROUP_BALLOT))
        return false;
    for (int i = flxi_kx_operands(e); i-- > 0;)
        if (!b->stable[e->x[i]])
            return false;
    for (size_t i = 0; i < e->num_args; i++)
        if (!b->stable[e->args[i]])
            return false;
    return true;
}

static void gather_assigned(flxi_kguard *b, flxi_klist list)
{
    for (size_t i = 0; i < list.n; i++) {
        const flxi_ks *s = &list.at[i];
        if (s->kind == KS_ASSIGN)
            b->assigned[s->var] = 1;
        gather_assigned(b, s->body);
        gather_assigned(b, s->other);
    }
}

static void gather_values(flxi_kguard *b, uint32_t *ends, flxi_klist list)
{
    for (size_t i = 0; i < list.n; i++) {
        const flxi_ks *s = &list.at[i];
        if (s->kind == KS_LET && !b->assigned[s->var] && b->stable[s->a])
            b->values[s->var] = s->a;
        if (s->kind == KS_LOOP)
            ends[s->var] = s->b;
        gather_values(b, ends, s->body);
        gather_values(b, ends, s->other);
    }
}

flx_code flxi_kguard_find(flxi_kguard *b, const flx_kernel *k, flxi_arena *arena, flx_error *err)
{
    *b = (flxi_kguard){.k = k};
    b->stable = flxi_new(arena, uint8_t, k->num_exprs + 1);
    b->largest = flxi_new(arena, uint64_t, k->num_exprs + 1);
    b->values = flxi_new(arena, uint32_t, k->num_vars + 1);
    b->assigned = flxi_new(arena, uint8_t, k->num_vars + 1);
    b->uses = flxi_new(arena, uint32_t, k->num_vars + 1);
    uint32_t *ends = flxi_new(arena, uint32_t, k->num_vars + 1);
    if (!b->stable || !b->largest || !b->values || !b->assigned || !b->uses || !ends)
        return flxi_oom(err, "the bounds of a kernel");
    gather_assigned(b, k->body);
    for (uint32_t i = 1; i <= k->num_fns; i++)
        gather_assigned(b, k->fns[i].body);
    for (uint32_t e = 1; e <= k->num_exprs; e++) {
        b->stable[e] = is_stable(b, &k->exprs[e]);
        if (k->exprs[e].kind == KX_VAR)
            b->uses[k->exprs[e].ref] = e;
    }
    gather_values(b, ends, k->body);
    for (uint32_t e = 1; e <= k->num_exprs; e++)
        b->largest[e] = bounded(b, ends, e);
    return FLX_OK;
}

void flxi_kguard_free(flxi_kguard *b)
{
    if (b->k)
        flxi_vec_free(flxi_kernel_mem(b->k), &b->facts);
}

/* ---- Facts ---- */

/* The expression that a variable stands for. Each step goes to an older expression, so it ends. */
static uint32_t origin(const flxi_kguard *b, uint32_t expr)
{
    const flxi_kx *e = &b->k->exprs[expr];
    while (e->kind == KX_VAR && b->values[e->ref] && b->values[e->ref] < expr) {
        expr = b->values[e->ref];
        e = &b->k->exprs[expr];
    }
    return expr;
}

static void add_fact(flxi_kguard *b, uint32_t index, uint32_t buffer, uint64_t end)
{
    flxi_kguard_fact fact = {origin(b, index), buffer, end};
    if (b->stable[index] && !flxi_push(flxi_kernel_mem(b->k), &b->facts, fact))
        b->failed = true;
}

/* index < end. */
static void add_below(flxi_kguard *b, uint32_t index, uint32_t end)
{
    if (b->k->exprs[index].type != FLX_U32)
        return;
    const flxi_kx *e = &b->k->exprs[origin(b, end)];
    if (e->kind == KX_LENGTH)
        add_fact(b, index, e->ref, 0);
    if (b->largest[end] < UINT32_MAX)
        add_fact(b, index, 0, b->largest[end]);
}

static void assume(flxi_kguard *b, uint32_t condition, bool is_true, int *left)
{
    const flxi_kx *e = &b->k->exprs[origin(b, condition)];
    if ((*left)-- <= 0)
        return;
    if (e->kind == KX_UNARY && e->op == KUN_logical_not)
        assume(b, e->x[0], !is_true, left);
    if (e->kind != KX_BINARY)
        return;
    uint8_t op = e->op;
    if (op == (is_true ? KBIN_logical_and : KBIN_logical_or)) {
        assume(b, e->x[0], is_true, left);
        assume(b, e->x[1], is_true, left);
    }
    if (op == (is_true ? KBIN_lt : KBIN_ge))
        add_below(b, e->x[0], e->x[1]);
    if (op == (is_true ? KBIN_gt : KBIN_le))
        add_below(b, e->x[1], e->x[0]);
}

void flxi_kguard_assume(flxi_kguard *b, uint32_t condition, bool is_true)
{
    int left = MAX_CONDITIONS;
    assume(b, condition, is_true, &left);
}

void flxi_kguard_assume_loop(flxi_kguard *b, const flxi_ks *loop)
{
    if (b->uses[loop->var])
        add_below(b, b->uses[loop->var], loop->b);
}

bool flxi_kguard_hold(const flxi_kguard *b, uint32_t buffer, uint32_t index)
{
    uint64_t count = b->k->buffers[buffer].count;
    if (count && b->largest[index] < count)
        return true;
    if (!b->stable[index])
        return false;
    uint32_t from = origin(b, index);
    size_t oldest = b->facts.n > MAX_FACTS ? b->facts.n - MAX_FACTS : 0;
    for (size_t i = b->facts.n; i-- > oldest;) {
        const flxi_kguard_fact *f = &b->facts.at[i];
        if (f->index == from && (f->buffer ? f->buffer == buffer : count && f->end <= count))
            return true;
    }
    return false;
}
