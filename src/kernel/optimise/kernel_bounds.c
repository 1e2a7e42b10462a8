/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_bounds.c: intervals of unsigned expressions, comparisons that they decide, and accesses that they prove to be
   in range. An interval that might wrap around is the whole range of its type. Facts are only learned from conditions
   on expressions that read neither assigned variables nor written buffers, so they stay true. */
#include "kernel/optimise/kernel_bounds.h"

#include "kernel/optimise/kernel_fold.h"
#include "kernel/optimise/kernel_optimise.h"

static flxi_krange whole(uint32_t type)
{
    uint8_t bits = flxi_ktype_of(type)->bits;
    return (flxi_krange){0, bits >= 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1};
}

static bool is_unsigned(uint32_t type)
{
    return flxi_ktype_fits(type, TAKES_UNSIGNED);
}

static flxi_krange meet(flxi_krange a, flxi_krange b)
{
    flxi_krange r = {a.low > b.low ? a.low : b.low, a.high < b.high ? a.high : b.high};
    return r.low <= r.high ? r : a; /* empty: this point is never reached */
}

static flxi_krange join(flxi_krange a, flxi_krange b)
{
    return (flxi_krange){a.low < b.low ? a.low : b.low, a.high > b.high ? a.high : b.high};
}

/* ---- Intervals of operations ---- */

static flxi_krange range_add(flxi_krange a, flxi_krange b, flxi_krange all)
{
    uint64_t high;
    bool wraps = __builtin_add_overflow(a.high, b.high, &high) || high > all.high;
    return wraps ? all : (flxi_krange){a.low + b.low, high};
}

static flxi_krange range_sub(flxi_krange a, flxi_krange b, flxi_krange all)
{
    return a.low >= b.high ? (flxi_krange){a.low - b.high, a.high - b.low} : all;
}

static flxi_krange range_mul(flxi_krange a, flxi_krange b, flxi_krange all)
{
    uint64_t high;
    bool wraps = __builtin_mul_overflow(a.high, b.high, &high) || high > all.high;
    return wraps ? all : (flxi_krange){a.low * b.low, high};
}

static flxi_krange range_div(flxi_krange a, flxi_krange b, flxi_krange all)
{
    return b.low > 0 ? (flxi_krange){a.low / b.high, a.high / b.low} : all;
}

static flxi_krange range_mod(flxi_krange a, flxi_krange b)
{
    if (b.low > 0 && a.high < b.low)
        return a;
    uint64_t high = b.low > 0 && b.high - 1 < a.high ? b.high - 1 : a.high; /* x % 0 is x */
    return (flxi_krange){0, high};
}

static flxi_krange range_shift(const flxi_kx *e, flxi_krange a, flxi_krange b, flxi_krange all)
{
    uint8_t width = flxi_ktype_of(e->type)->bits;
    if (b.low != b.high || b.high >= width)
        return e->op == KBIN_shr ? (flxi_krange){0, a.high} : all;
    if (e->op == KBIN_shr)
        return (flxi_krange){a.low >> b.low, a.high >> b.low};
    return range_mul(a, (flxi_krange){UINT64_C(1) << b.low, UINT64_C(1) << b.low}, all);
}

/* All bits set up to the highest bit of the value. */
static uint64_t filled(uint64_t x)
{
    return x ? UINT64_MAX >> __builtin_clzll(x) : 0;
}

static flxi_krange range_binary(const flxi_kx *e, flxi_krange a, flxi_krange b)
{
    flxi_krange all = whole(e->type);
    switch ((flxi_kbinary)e->op) {
    case KBIN_add: return range_add(a, b, all);
    case KBIN_sub: return range_sub(a, b, all);
    case KBIN_mul: return range_mul(a, b, all);
    case KBIN_div: return range_div(a, b, all);
    case KBIN_mod: return range_mod(a, b);
    case KBIN_shl:
    case KBIN_shr: return range_shift(e, a, b, all);
    case KBIN_bit_and: return (flxi_krange){0, a.high < b.high ? a.high : b.high};
    case KBIN_bit_or: return (flxi_krange){a.low > b.low ? a.low : b.low, filled(a.high | b.high)};
    case KBIN_bit_xor: return (flxi_krange){0, filled(a.high | b.high)};
    case KBIN_min: return (flxi_krange){a.low < b.low ? a.low : b.low, a.high < b.high ? a.high : b.high};
    case KBIN_max: return (flxi_krange){a.low > b.low ? a.low : b.low, a.high > b.high ? a.high : b.high};
    default: return all;
    }
}

static flxi_krange range_id(const flx_kernel *k, const flxi_kx *e)
{
    uint32_t size = e->ref < 3 ? k->size[e->ref] : 1;
    switch ((flx_kernel_id)e->op) {
    case FLX_KERNEL_LOCAL_ID: return (flxi_krange){0, size ? size - 1 : 0};
    case FLX_KERNEL_NUM_WORKGROUPS: return (flxi_krange){1, UINT32_MAX};
    case FLX_KERNEL_WORKGROUP_ID: return (flxi_krange){0, UINT32_MAX - 1};
    default: return whole(FLX_U32);
    }
}

static flxi_krange range_length(const flx_kernel *k, uint32_t buffer)
{
    const flxi_kbuffer *b = &k->buffers[buffer];
    uint64_t count = b->count < UINT32_MAX ? b->count : UINT32_MAX;
    if (b->count)
        return (flxi_krange){count, count};
    flxi_krange r = whole(FLX_U32);
    if (b->num_predicates == 1 && b->predicates[0].test == FLX_KERNEL_COUNT_GE && b->predicates[0].a <= UINT32_MAX)
        r.low = b->predicates[0].a;
    if (b->num_predicates == 1 && b->predicates[0].test == FLX_KERNEL_COUNT_LE && b->predicates[0].a < UINT32_MAX)
        r.high = b->predicates[0].a;
    return r;
}

/* Whether it has the same value wherever it is evaluated. */
static bool is_fixed(const flxi_kranges *g, uint32_t e)
{
    return flxi_kfacts_is_pure(g->f, e) && !(g->f->does[e] & (KF_MEMORY | KF_STATE | KF_FOREIGN));
}

/* What a comparison that holds, or does not, says of one of its sides. */
static flxi_krange compared_range(const flxi_kranges *g, const flxi_kx *c, bool holds, uint32_t value)
{
    flxi_krange all = whole(g->f->k->exprs[value].type);
    bool is_right = c->x[1] == value, swaps = is_right != !holds, has_equal = c->op == KBIN_le || c->op == KBIN_ge;
    if ((c->x[0] != value && !is_right) || c->op < KBIN_lt || c->op > KBIN_ge)
        return all;
    flxi_krange other = flxi_kranges_of(g, c->x[is_right ? 0 : 1]);
    bool is_below = (c->op == KBIN_lt || c->op == KBIN_le) != swaps;
    uint64_t gap = has_equal == holds ? 0 : 1;
    if (is_below)
        return other.high >= gap ? (flxi_krange){0, other.high - gap} : all;
    return other.low <= all.high - gap ? (flxi_krange){other.low + gap, all.high} : all;
}

/* The range of a value where the condition holds, or does not: of select(i < n, i, 0), the index of a guarded access.
   `depth` bounds the work. */
static flxi_krange chosen_range(const flxi_kranges *g, uint32_t condition, bool holds, uint32_t value, int depth)
{
    const flxi_kx *c = &g->f->k->exprs[condition];
    flxi_krange r = flxi_kranges_of(g, value);
    if (c->kind != KX_BINARY || depth == 0 || !is_fixed(g, value))
        return r;
    if (c->op == (holds ? KBIN_logical_and : KBIN_logical_or)) {
        r = meet(r, chosen_range(g, c->x[0], holds, value, depth - 1));
        return meet(r, chosen_range(g, c->x[1], holds, value, depth - 1));
    }
    return meet(r, compared_range(g, c, holds, value));
}

static flxi_krange range_select(const flxi_kranges *g, const flxi_kx *e)
{
    enum { DEPTH = 4 };
    return join(chosen_range(g, e->x[0], true, e->x[1], DEPTH), chosen_range(g, e->x[0], false, e->x[2], DEPTH));
}

static flxi_krange computed_range(const flxi_kranges *g, const flxi_kx *e)
{
    const flx_kernel *k = g->f->k;
    switch ((flxi_kx_kind)e->kind) {
    case KX_LITERAL: return (flxi_krange){e->bits, e->bits};
    case KX_VAR: return flxi_kfacts_is_assigned(g->f, e->ref) ? whole(e->type) : g->vars[e->ref];
    case KX_LENGTH: return range_length(k, e->ref);
    case KX_ID: return range_id(k, e);
    case KX_BINARY: return range_binary(e, flxi_kranges_of(g, e->x[0]), flxi_kranges_of(g, e->x[1]));
    case KX_SELECT: return range_select(g, e);
    case KX_CAST: {
        uint32_t from = k->exprs[e->x[0]].type;
        flxi_krange all = whole(e->type), x = flxi_kranges_of(g, e->x[0]);
        return from == FLX_BOOL ? (flxi_krange){0, 1} : is_unsigned(from) && x.high <= all.high ? x : all;
    }
    default: return whole(e->type);
    }
}

flxi_krange flxi_kranges_of(const flxi_kranges *g, uint32_t number)
{
    const flxi_kx *e = &g->f->k->exprs[number];
    if (!is_unsigned(e->type))
        return whole(e->type);
    return meet(computed_range(g, e), g->learned[number]);
}

/* ---- Learning ---- */

static void narrow(flxi_kranges *g, uint32_t e, flxi_krange r)
{
    flxi_krange now = g->learned[e];
    flxi_krange_lesson lesson = {e, now};
    if (!is_fixed(g, e) || r.low > r.high || (r.low <= now.low && r.high >= now.high))
        return;
    if (!flxi_push(g->mem, &g->lessons, lesson)) {
        g->failed = true;
        return;
    }
    g->learned[e] = meet(now, r);
}

/* The buffer of which the expression is the length, or 0. */
static uint32_t length_of(const flxi_kranges *g, uint32_t number)
{
    const flxi_kx *e = &g->f->k->exprs[number];
    if (e->kind == KX_VAR && !flxi_kfacts_is_assigned(g->f, e->ref) && g->f->vars[e->ref].value)
        e = &g->f->k->exprs[g->f->vars[e->ref].value];
    return e->kind == KX_LENGTH ? e->ref : 0;
}

static void learn_inside(flxi_kranges *g, uint32_t index, uint32_t length)
{
    flxi_kinside inside = {index, length_of(g, length)};
    if (inside.buffer && is_fixed(g, index) && !flxi_push(g->mem, &g->inside, inside))
        g->failed = true;
}

/* x < y, or x <= y. */
static void learn_less(flxi_kranges *g, uint32_t x, uint32_t y, bool or_equal)
{
    flxi_krange rx = flxi_kranges_of(g, x), ry = flxi_kranges_of(g, y);
    uint64_t gap = or_equal ? 0 : 1;
    if (ry.high >= gap)
        narrow(g, x, (flxi_krange){0, ry.high - gap});
    if (rx.low <= UINT64_MAX - gap)
        narrow(g, y, (flxi_krange){rx.low + gap, UINT64_MAX});
    if (!or_equal)
        learn_inside(g, x, y);
}

static void learn_comparison(flxi_kranges *g, const flxi_kx *e, bool holds)
{
    uint32_t x = e->x[0], y = e->x[1];
    if (!is_unsigned(g->f->k->exprs[x].type))
        return;
    switch ((flxi_kbinary)e->op) {
    case KBIN_lt: holds ? learn_less(g, x, y, false) : learn_less(g, y, x, true); break;
    case KBIN_le: holds ? learn_less(g, x, y, true) : learn_less(g, y, x, false); break;
    case KBIN_gt: holds ? learn_less(g, y, x, false) : learn_less(g, x, y, true); break;
    case KBIN_ge: holds ? learn_less(g, y, x, true) : learn_less(g, x, y, false); break;
    case KBIN_eq:
    case KBIN_ne:
        if (holds == (e->op == KBIN_eq)) {
            narrow(g, x, flxi_kranges_of(g, y));
            narrow(g, y, flxi_kranges_of(g, x));
        }
        break;
    default: break;
    }
}

/* `left` bounds the work: named conditions may use each other many times over. */
static void learn(flxi_kranges *g, uint32_t condition, bool holds, int *left)
{
    const flxi_kx *e = &g->f->k->exprs[condition];
    if ((*left)-- <= 0)
        return;
    if (e->kind == KX_UNARY && e->op == KUN_logical_not) {
        learn(g, e->x[0], !holds, left);
    } else if (e->kind == KX_BINARY && e->op == (holds ? KBIN_logical_and : KBIN_logical_or)) {
        learn(g, e->x[0], holds, left);
        learn(g, e->x[1], holds, left);
    } else if (e->kind == KX_BINARY) {
        learn_comparison(g, e, holds);
    } else if (e->kind == KX_VAR && !flxi_kfacts_is_assigned(g->f, e->ref) && g->f->vars[e->ref].value) {
        learn(g, g->f->vars[e->ref].value, holds, left); /* a named condition */
    }
}

void flxi_kranges_learn(flxi_kranges *g, uint32_t condition, bool holds)
{
    int left = 256;
    learn(g, condition, holds, &left);
}

void flxi_kranges_declare(flxi_kranges *g, const flxi_ks *s)
{
    if (s->kind == KS_LET) {
        g->vars[s->var] = flxi_kranges_of(g, s->a);
    } else if (s->kind == KS_LOOP) {
        flxi_krange from = flxi_kranges_of(g, s->a), to = flxi_kranges_of(g, s->b);
        uint64_t last = to.high ? to.high - 1 : 0; /* less than the first value if the loop never runs */
        g->vars[s->var] = (flxi_krange){from.low, last > from.low ? last : from.low};
        if (g->reads[s->var])
            learn_inside(g, g->reads[s->var], s->b);
    }
}

void flxi_kranges_pass_if(flxi_kranges *g, const flxi_ks *s)
{
    if (flxi_klist_returns(s->body))
        flxi_kranges_learn(g, s->a, false);
    if (flxi_klist_returns(s->other))
        flxi_kranges_learn(g, s->a, true);
}

/* ---- Queries ---- */

bool flxi_kranges_is_inside(const flxi_kranges *g, uint32_t buffer, uint32_t index)
{
    if (flxi_kranges_of(g, index).high < range_length(g->f->k, buffer).low)
        return true;
    enum { LOOK_BACK = 64 };
    size_t first = g->inside.n > LOOK_BACK ? g->inside.n - LOOK_BACK : 0;
    for (size_t i = g->inside.n; i-- > first;)
        if (g->inside.at[i].buffer == buffer && g->inside.at[i].index == index)
            return true;
    return false;
}

int flxi_kranges_decide(const flxi_kranges *g, uint32_t number)
{
    const flxi_kx *e = &g->f->k->exprs[number];
    if (e->kind != KX_BINARY || !is_unsigned(g->f->k->exprs[e->x[0]].type) || !flxi_kfacts_is_pure(g->f, number))
        return -1;
    flxi_krange a = flxi_kranges_of(g, e->x[0]), b = flxi_kranges_of(g, e->x[1]);
    bool is_below = a.high<b.low, not_above = a.high <= b.low, above = a.low> b.high, not_below = a.low >= b.high;
    bool is_apart = is_below || above, is_equal = a.low == a.high && b.low == b.high && a.low == b.low;
    switch ((flxi_kbinary)e->op) {
    case KBIN_lt: return is_below ? 1 : not_below ? 0 : -1;
    case KBIN_le: return not_above ? 1 : above ? 0 : -1;
    case KBIN_gt: return above ? 1 : not_above ? 0 : -1;
    case KBIN_ge: return not_below ? 1 : is_below ? 0 : -1;
    case KBIN_eq: return is_equal ? 1 : is_apart ? 0 : -1;
    case KBIN_ne: return is_equal ? 0 : is_apart ? 1 : -1;
    default: return -1;
    }
}

/* ---- Beginning and ending ---- */

bool flxi_kranges_begin(flxi_kranges *g, flxi_kfacts *f)
{
    const flx_kernel *k = f->k;
    *g = (flxi_kranges){.f = f, .mem = flxi_kernel_mem(k)};
    g->vars = flxi_new(&f->arena, flxi_krange, (size_t)k->num_vars + 1);
    g->learned = flxi_new(&f->arena, flxi_krange, (size_t)k->num_exprs + 1);
    g->reads = flxi_new(&f->arena, uint32_t, (size_t)k->num_vars + 1);
    if (!g->vars || !g->learned || !g->reads)
        return false;
    for (uint32_t v = 1; v <= k->num_vars; v++)
        g->vars[v] = whole(k->vars[v].type);
    for (uint32_t e = 1; e <= k->num_exprs; e++)
        g->learned[e] = (flxi_krange){0, UINT64_MAX};
    for (uint32_t e = 1; e <= k->num_exprs; e++)
        if (k->exprs[e].kind == KX_VAR)
            g->reads[k->exprs[e].ref] = e;
    return true;
}

void flxi_kranges_free(flxi_kranges *g)
{
    flxi_vec_free(g->mem, &g->lessons);
    flxi_vec_free(g->mem, &g->inside);
}

flxi_kranges_mark flxi_kranges_at(const flxi_kranges *g)
{
    return (flxi_kranges_mark){g->lessons.n, g->inside.n};
}

void flxi_kranges_back(flxi_kranges *g, flxi_kranges_mark mark)
{
    while (g->lessons.n > mark.lessons) {
        const flxi_krange_lesson *l = &g->lessons.at[--g->lessons.n];
        g->learned[l->expr] = l->before;
    }
    g->inside.n = mark.inside;
}

bool flxi_klist_returns(flxi_klist list)
{
    if (!list.n)
        return false;
    const flxi_ks *last = &list.at[list.n - 1];
    switch ((flxi_ks_kind)last->kind) {
    case KS_RETURN: return true;
    case KS_IF: return flxi_klist_returns(last->body) && flxi_klist_returns(last->other);
    case KS_BLOCK:
    case KS_REGION: return flxi_klist_returns(last->body);
    default: return false;
    }
}

/* ---- The whole program ---- */

typedef struct {
    flxi_kbounds *b;
    flxi_kranges g;
    uint8_t *outside; /* by expression: not proved somewhere */
    uint32_t at;
} prover;

static void prove_expr(prover *p, uint32_t number)
{
    const flxi_kx *e = &p->b->f.k->exprs[number];
    if (!(e->does & KX_READS))
        return;
    if (e->kind == KX_LOAD || e->kind == KX_ATOMIC) {
        bool inside = flxi_kranges_is_inside(&p->g, e->ref, e->x[0]);
        p->outside[number] |= !inside;
        p->b->exprs[number] = !p->outside[number];
    }
    for (int i = flxi_kx_operands(e); i-- > 0;)
        prove_expr(p, e->x[i]);
    for (size_t i = 0; i < e->num_args; i++)
        prove_expr(p, e->args[i]);
}

static void prove_list(prover *p, flxi_klist list);

static void prove_branches(prover *p, const flxi_ks *s)
{
    flxi_kranges_mark mark = flxi_kranges_at(&p->g);
    flxi_kranges_learn(&p->g, s->a, true);
    prove_list(p, s->body);
    flxi_kranges_back(&p->g, mark);
    flxi_kranges_learn(&p->g, s->a, false);
    prove_list(p, s->other);
    flxi_kranges_back(&p->g, mark);
}

static void prove_stmt(prover *p, const flxi_ks *s)
{
    prove_expr(p, s->a);
    prove_expr(p, s->b);
    if (s->kind == KS_STORE)
        p->b->stores[p->at] = flxi_kranges_is_inside(&p->g, s->buffer, s->a);
    if (s->kind == KS_IF) {
        prove_branches(p, s);
        flxi_kranges_pass_if(&p->g, s);
        return;
    }
    flxi_kranges_mark mark = flxi_kranges_at(&p->g);
    flxi_kranges_declare(&p->g, s);
    prove_list(p, s->body);
    flxi_kranges_back(&p->g, mark);
}

static void prove_list(prover *p, flxi_klist list)
{
    flxi_kranges_mark mark = flxi_kranges_at(&p->g);
    for (size_t i = 0; i < list.n; i++) {
        p->at++;
        prove_stmt(p, &list.at[i]);
    }
    flxi_kranges_back(&p->g, mark);
}

static void prove_program(prover *p)
{
    const flx_kernel *k = p->b->f.k;
    for (uint32_t i = 1; i <= k->num_fns; i++) {
        prove_list(p, k->fns[i].body);
        p->at++;
        prove_expr(p, k->fns[i].result);
    }
    prove_list(p, k->body);
}

flx_code flxi_kbounds_find(flxi_kbounds *b, const flx_kernel *k, flx_error *err)
{
    *b = (flxi_kbounds){0};
    FLXI_TRY(flxi_kfacts_find(&b->f, k, err));
    prover p = {.b = b};
    b->exprs = flxi_new(&b->f.arena, uint8_t, (size_t)k->num_exprs + 1);
    b->stores = flxi_new(&b->f.arena, uint8_t, (size_t)b->f.num_positions + 2);
    p.outside = flxi_new(&b->f.arena, uint8_t, (size_t)k->num_exprs + 1);
    if (!b->exprs || !b->stores || !p.outside || !flxi_kranges_begin(&p.g, &b->f))
        return flxi_oom(err, "ranges of a kernel");
    prove_program(&p);
    flxi_kranges_free(&p.g);
    return p.g.failed ? flxi_oom(err, "ranges of a kernel") : FLX_OK;
}

void flxi_kbounds_free(flxi_kbounds *b)
{
    flxi_kfacts_free(&b->f);
}

/* ---- The pass ---- */

typedef struct {
    flxi_kfacts f;
    flxi_kranges g;
    flxi_kfolder fold;
    flxi_kranges_mark marks[FLXI_KERNEL_MAX_NESTING + 4]; /* by open list */
    size_t depth;
} bounder;

/* min, max, mod: one operand is already the result. */
static uint32_t settled_operand(const flxi_kranges *g, const flxi_kx *e)
{
    if (e->kind != KX_BINARY || !is_unsigned(e->type))
        return 0;
    flxi_krange a = flxi_kranges_of(g, e->x[0]), b = flxi_kranges_of(g, e->x[1]);
    switch ((flxi_kbinary)e->op) {
    case KBIN_min: return a.high <= b.low ? e->x[0] : b.high <= a.low ? e->x[1] : 0;
    case KBIN_max: return a.low >= b.high ? e->x[0] : b.low >= a.high ? e->x[1] : 0;
    case KBIN_mod: return a.high < b.low ? e->x[0] : 0;
    default: return 0;
    }
}

static uint32_t bound_expr(flxi_krewrite *r, uint32_t number)
{
    const bounder *p = r->user;
    int decided = flxi_kranges_decide(&p->g, number);
    if (decided >= 0)
        return flxi_kb_bool(r->to, decided);
    uint32_t operand = flxi_kfacts_is_pure(&p->f, number) ? settled_operand(&p->g, &r->from->exprs[number]) : 0;
    return operand ? flxi_krewrite_expr(r, operand) : 0;
}

static uint32_t bound_node(flxi_krewrite *r, uint32_t made)
{
    return flxi_kfold(&((bounder *)r->user)->fold, made);
}

static void bound_if(flxi_krewrite *r, const flxi_ks *s)
{
    bounder *p = r->user;
    flxi_kranges_mark mark = flxi_kranges_at(&p->g);
    flxi_kb_if(r->to, flxi_krewrite_expr(r, s->a));
    flxi_kranges_learn(&p->g, s->a, true);
    flxi_krewrite_list(r, s->body);
    flxi_kranges_back(&p->g, mark);
    if (s->other.n) {
        flxi_kranges_learn(&p->g, s->a, false);
        flxi_kb_else(r->to);
        flxi_krewrite_list(r, s->other);
        flxi_kranges_back(&p->g, mark);
    }
    flxi_kb_end(r->to);
    flxi_kranges_pass_if(&p->g, s);
}

static bool bound_stmt(flxi_krewrite *r, const flxi_ks *s)
{
    bounder *p = r->user;
    flxi_kranges_mark mark = flxi_kranges_at(&p->g);
    switch ((flxi_ks_kind)s->kind) {
    case KS_IF: bound_if(r, s); return true;
    case KS_LET:
        flxi_krewrite_stmt(r, s);
        flxi_kranges_declare(&p->g, s);
        return true;
    case KS_LOOP:
        flxi_kranges_declare(&p->g, s);
        flxi_krewrite_stmt(r, s);
        flxi_kranges_back(&p->g, mark);
        return true;
    default: return flxi_kfold_stmt(r, &p->fold, s);
    }
}

static void open_bounds(flxi_krewrite *r, flxi_klist list)
{
    bounder *p = r->user;
    (void)list;
    p->marks[p->depth++] = flxi_kranges_at(&p->g);
}

static void close_bounds(flxi_krewrite *r, flxi_klist list)
{
    bounder *p = r->user;
    (void)list;
    flxi_kranges_back(&p->g, p->marks[--p->depth]);
    if (p->g.failed && flxi_kb_ok(r->to))
        flxi_oom(&r->to->err, "ranges of a kernel");
}

static void begin_bounds(flxi_krewrite *r)
{
    bounder *p = r->user;
    p->fold = flxi_kfolder_of(r->to, p->fold.flags);
}

static bool has_comparisons(const flx_kernel *k)
{
    for (uint32_t i = 1; i <= k->num_exprs; i++) {
        const flxi_kx *e = &k->exprs[i];
        if (e->kind == KX_BINARY && is_unsigned(k->exprs[e->x[0]].type) &&
            ((e->op >= KBIN_eq && e->op <= KBIN_ge) || e->op == KBIN_min || e->op == KBIN_max || e->op == KBIN_mod))
            return true;
    }
    return false;
}

flx_kernel *flxi_kpass_bounds(const flx_kernel *k, const flxi_ksimplify_options *o, flx_error *err)
{
    static const flxi_krewrite_hooks hooks = {
        .begin = begin_bounds,
        .expr = bound_expr,
        .node = bound_node,
        .stmt = bound_stmt,
        .open = open_bounds,
        .close = close_bounds,
    };
    bounder p = {.fold = {.flags = o->flags}};
    flx_kernel *result = NULL;
    if (!has_comparisons(k))
        return flxi_krewrite_nothing(k);
    if (flxi_kfacts_find(&p.f, k, err) == FLX_OK) {
        if (flxi_kranges_begin(&p.g, &p.f)) {
            flxi_krewrite r = {.from = k, .hooks = &hooks, .user = &p};
            result = flxi_krewrite_run(&r, err);
            flxi_kranges_free(&p.g);
        } else {
            flxi_oom(err, "ranges of a kernel");
        }
    }
    flxi_kfacts_free(&p.f);
    return result;
}
