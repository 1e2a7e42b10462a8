/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_survey.c: analysis of a kernel before the first line is written. */
#include "emit/kernel_writer.h"

/* ---- Expressions ---- */

static bool is_subgroup_op(const flxi_kx *e)
{
    return e->kind >= KX_SUBGROUP_ADD && e->kind <= KX_SUBGROUP_BALLOT;
}

/* A bitcast exposes all bits of a float, and copysign exposes the sign of a NaN. */
static bool looks_at_bits(const flx_kernel *k, const flxi_kx *e)
{
    return (e->kind == KX_BITCAST && flxi_ktype_is_float(k->exprs[e->x[0]].type)) ||
           (e->kind == KX_BINARY && e->op == KBIN_copysign);
}

/* Atomics whose results depend on the order of invocations: those that do not commute with themselves, or with another
   kind on the same buffer. */
static bool depends_on_order(flxi_kwriter *w, const flxi_kx *e)
{
    bool adds = e->op == FLX_KERNEL_ATOMIC_ADD || e->op == FLX_KERNEL_ATOMIC_SUB;
    uint8_t kind = (uint8_t)(1 + (adds ? FLX_KERNEL_ATOMIC_ADD : e->op)), before = w->atomic_kind[e->ref];
    w->atomic_kind[e->ref] = kind;
    return e->op == FLX_KERNEL_ATOMIC_EXCHANGE || e->op == FLX_KERNEL_ATOMIC_COMPARE_EXCHANGE ||
           (flxi_ktype_is_float(e->type) && adds) || (before && before != kind);
}

static void note_expr(flxi_kwriter *w, uint32_t expr)
{
    const flxi_kx *e = &w->k->exprs[expr];
    w->talks[expr] = is_subgroup_op(e);
    for (int i = flxi_kx_operands(e); i-- > 0;)
        w->talks[expr] |= w->talks[e->x[i]];
    for (size_t i = 0; i < e->num_args; i++)
        w->talks[expr] |= w->talks[e->args[i]];
    w->observes_bits |= looks_at_bits(w->k, e);
    w->file->uses_f64 |= e->type == FLX_F64;
    if (e->kind == KX_ID)
        w->ids[e->op] |= (uint8_t)(1u << e->ref);
    w->uses_lane |= e->kind == KX_LANE;
    w->uses_lanes |= e->kind == KX_LANE || e->kind == KX_LANES || is_subgroup_op(e);
    if (e->kind == KX_LOAD || e->kind == KX_LENGTH || e->kind == KX_ATOMIC)
        w->is_accessed[e->ref] = 1;
    if (e->kind == KX_ATOMIC) {
        w->is_written[e->ref] = 1;
        w->file->uses_wide_atomics |= flxi_ktype_of(e->type)->bits == 64;
        bool shared = w->k->buffers[e->ref].access != FLX_KERNEL_WORKGROUP;
        w->is_ordered |= shared && depends_on_order(w, e);
    }
    w->is_ordered |= e->kind == KX_OPAQUE && !w->k->opaques[e->ref].pure; /* its effects are observed in order */
}

/* ---- Statements ---- */

static void note_statement(flxi_kwriter *w, const flxi_ks *s)
{
    switch ((flxi_ks_kind)s->kind) {
    case KS_STORE: w->is_accessed[s->buffer] = w->is_written[s->buffer] = 1; break;
    case KS_ASYNC_LOAD:
    case KS_ASYNC_STORE:
    case KS_COLLECTIVE:
        w->is_accessed[s->buffer] = w->is_accessed[s->target] = w->is_written[s->target] = 1;
        if (s->kind != KS_COLLECTIVE && !flxi_push(flxi_kernel_mem(w->k), &w->copies, s))
            w->code = flxi_oom(w->err, "the text of a kernel");
        break;
    case KS_TRAP:
        w->has_traps = true;
        w->ids[FLX_KERNEL_INVOCATION_ID] = 7; /* a trap reports them */
        break;
    case KS_INDIRECT: w->has_indirect = true; break;
    case KS_RETURN: w->has_returns = true; break;
    case KS_OPAQUE: w->is_ordered = true; break;
    case KS_BARRIER: w->has_grid_barrier |= s->order == FLX_KERNEL_GRID; break;
    default: break;
    }
    /* An atomic whose result is used exposes the order of invocations. */
    const flxi_kx *a = &w->k->exprs[s->a];
    bool plain_effect = s->kind == KS_EFFECT && a->kind == KX_ATOMIC && !(w->k->exprs[a->x[0]].does & KX_ATOMICS) &&
                        !(w->k->exprs[a->x[1]].does & KX_ATOMICS);
    if (((a->does | w->k->exprs[s->b].does) & KX_ATOMICS) && !plain_effect)
        w->is_ordered = true;
}

static bool talks(const flxi_kwriter *w, const flxi_ks *s)
{
    return w->talks[s->a] || w->talks[s->b];
}

/* Flags statements that split, in text order; `number` is that of the next statement. */
static bool mark_splits(flxi_kwriter *w, flxi_klist list, size_t *number)
{
    bool any = false;
    for (size_t i = 0; i < list.n; i++) {
        const flxi_ks *s = &list.at[i];
        size_t own = (*number)++;
        bool is_leaving = s->kind == KS_RETURN && w->has_sync && w->uniform.flow[own];
        bool split = s->kind == KS_BARRIER || talks(w, s) || is_leaving;
        split |= mark_splits(w, s->body, number);
        split |= mark_splits(w, s->other, number);
        w->splits[own] = split;
        any |= split;
    }
    return any;
}

static size_t note_list(flxi_kwriter *w, flxi_klist list)
{
    size_t n = list.n;
    for (size_t i = 0; i < list.n; i++) {
        note_statement(w, &list.at[i]);
        n += note_list(w, list.at[i].body) + note_list(w, list.at[i].other);
    }
    return n;
}

/* ---- What determines addresses ---- */

/* Reads of memory that other invocations may be writing at the same time. A race may give any value, but the value that
   was compared with a length must be the one that is used: the compiler must not read twice. */
static bool has_racy_load(const flxi_kwriter *w)
{
    for (uint32_t e = 1; e <= w->k->num_exprs; e++)
        if (w->k->exprs[e].kind == KX_LOAD && w->is_written[w->k->exprs[e].ref])
            return true;
    return false;
}

static bool mark_vars(flxi_kwriter *w, uint32_t expr)
{
    const flxi_kx *e = &w->k->exprs[expr];
    bool grew = false;
    if (e->kind == KX_VAR && !w->steers[e->ref])
        grew = (w->steers[e->ref] = 1);
    if (!(e->does & (KX_VARIES | KX_OPAQUES)))
        return grew;
    for (int i = flxi_kx_operands(e); i-- > 0;)
        grew |= mark_vars(w, e->x[i]);
    for (size_t i = 0; i < e->num_args; i++)
        grew |= mark_vars(w, e->args[i]);
    return grew;
}

/* The indices in a tree. */
static void mark_indices(flxi_kwriter *w, uint32_t expr)
{
    const flxi_kx *e = &w->k->exprs[expr];
    if (e->kind == KX_LOAD || e->kind == KX_ATOMIC)
        mark_vars(w, e->x[0]);
    for (int i = flxi_kx_operands(e); i-- > 0;)
        mark_indices(w, e->x[i]);
    for (size_t i = 0; i < e->num_args; i++)
        mark_indices(w, e->args[i]);
}

static void mark_all_indices(flxi_kwriter *w, flxi_klist list)
{
    for (size_t i = 0; i < list.n; i++) {
        const flxi_ks *s = &list.at[i];
        mark_indices(w, s->a);
        mark_indices(w, s->b);
        if (s->kind == KS_STORE || s->kind == KS_ASYNC_LOAD || s->kind == KS_ASYNC_STORE) {
            mark_vars(w, s->a);
            mark_vars(w, s->kind == KS_STORE ? 0 : s->b);
        }
        mark_all_indices(w, s->body);
        mark_all_indices(w, s->other);
    }
}

/* Propagates backwards from variables that determine addresses to the variables their values depend on. */
static bool spread_steering(flxi_kwriter *w, flxi_klist list)
{
    bool grew = false;
    for (size_t i = list.n; i-- > 0;) {
        const flxi_ks *s = &list.at[i];
        grew |= spread_steering(w, s->other);
        grew |= spread_steering(w, s->body);
        if ((s->kind == KS_LET || s->kind == KS_ASSIGN || s->kind == KS_LOOP) && w->steers[s->var])
            grew |= mark_vars(w, s->a);
        if (s->kind == KS_LOOP && w->steers[s->var])
            grew |= mark_vars(w, s->b);
    }
    return grew;
}

static void find_steering(flxi_kwriter *w)
{
    enum { MAX_ROUNDS = 8 }; /* beyond this, all reads of a program are made safe */
    if (!has_racy_load(w))
        return;
    mark_all_indices(w, w->k->body);
    int rounds = 0;
    while (rounds < MAX_ROUNDS && spread_steering(w, w->k->body))
        rounds++;
    if (rounds == MAX_ROUNDS)
        memset(w->steers, 1, w->k->num_vars + 1);
}

/* ---- Which NaNs are observed ---- */

/* Ops whose result is not computed arithmetically: a NaN passes through them unchanged. */
static bool moves_bits(const flxi_kx *e)
{
    if (e->kind == KX_UNARY)
        return e->op == KUN_neg || e->op == KUN_abs || e->op == KUN_stop_gradient;
    return (e->kind == KX_BINARY && e->op == KBIN_copysign) || e->kind == KX_SELECT || e->kind == KX_BITCAST;
}

bool flxi_kw_is_canonical(const flxi_kwriter *w, const flxi_kx *e)
{
    return w->observes_bits && w->is_observed[e - w->k->exprs] && flxi_ktype_is_float(e->type) && !moves_bits(e);
}

/* Values that come from elsewhere than the statements of the kernel's body. */
static bool is_foreign(const flxi_kwriter *w, const flxi_kx *e)
{
    return e->kind == KX_CALL || e->kind == KX_ATOMIC || e->kind == KX_OPAQUE || is_subgroup_op(e) ||
           (e->kind == KX_LOAD && w->is_written[e->ref]);
}

/* Marks what may give the bits of an observed value; false: that cannot be said. */
static bool observe(flxi_kwriter *w, uint32_t expr)
{
    const flxi_kx *e = &w->k->exprs[expr];
    if (w->is_observed[expr] || !flxi_ktype_is_float(e->type))
        return true;
    w->is_observed[expr] = 1;
    if (e->kind == KX_VAR)
        w->is_observed_var[e->ref] = 1;
    if (e->kind == KX_SELECT)
        return observe(w, e->x[1]) && observe(w, e->x[2]);
    return !is_foreign(w, e) && (!moves_bits(e) || observe(w, e->x[0]));
}

/* The values of observed variables. */
static bool observe_values(flxi_kwriter *w, flxi_klist list, bool *grew)
{
    bool known = true;
    for (size_t i = list.n; known && i-- > 0;) {
        const flxi_ks *s = &list.at[i];
        known = observe_values(w, s->other, grew) && observe_values(w, s->body, grew);
        if ((s->kind == KS_LET || s->kind == KS_ASSIGN) && w->is_observed_var[s->var] && !w->is_observed[s->a]) {
            *grew = flxi_ktype_is_float(w->k->exprs[s->a].type);
            known &= observe(w, s->a);
        }
    }
    return known;
}

/* Only NaNs whose bits matter are made equal, because that costs as much as the operation itself. */
static void find_observed(flxi_kwriter *w)
{
    bool known = w->k->num_fns == 0, grew = true;
    for (uint32_t i = 1; known && i <= w->k->num_exprs; i++) {
        const flxi_kx *e = &w->k->exprs[i];
        if (looks_at_bits(w->k, e))
            known = observe(w, e->x[e->kind == KX_BINARY]);
    }
    while (known && grew) {
        grew = false;
        known = observe_values(w, w->k->body, &grew);
    }
    if (!known)
        memset(w->is_observed, 1, w->k->num_exprs + 1);
}

flx_code flxi_kw_survey(flxi_kwriter *w)
{
    const flx_kernel *k = w->k;
    FLXI_TRY(flxi_kfacts_find(&w->known, k, w->err));
    if (!flxi_kranges_begin(&w->ranges, &w->known))
        return flxi_oom(w->err, "the text of a kernel");
    FLXI_TRY(flxi_kuniform_find(k, KUNIFORM_WORKGROUP, &w->uniform, w->err));
    w->talks = flxi_new(&w->facts, uint8_t, k->num_exprs + 1);
    w->is_observed = flxi_new(&w->facts, uint8_t, k->num_exprs + 1);
    w->is_observed_var = flxi_new(&w->facts, uint8_t, k->num_vars + 1);
    w->steers = flxi_new(&w->facts, uint8_t, k->num_vars + 1);
    w->home = flxi_new(&w->facts, uint32_t, k->num_vars + 1);
    w->outlives = flxi_new(&w->facts, uint8_t, k->num_vars + 1);
    w->loop_form = flxi_new(&w->facts, uint8_t, k->num_vars + 1);
    w->loop_work = flxi_new(&w->facts, uint32_t, k->num_vars + 1);
    w->is_written = flxi_new(&w->facts, uint8_t, k->num_buffers + 1);
    w->is_accessed = flxi_new(&w->facts, uint8_t, k->num_buffers + 1);
    w->atomic_kind = flxi_new(&w->facts, uint8_t, k->num_buffers + 1);
    w->splits = flxi_new(&w->facts, uint8_t, w->uniform.num_flow + 1);
    if (!w->talks || !w->steers || !w->home || !w->outlives || !w->loop_form || !w->loop_work || !w->is_written ||
        !w->is_accessed || !w->atomic_kind || !w->splits || !w->is_observed || !w->is_observed_var)
        return flxi_oom(w->err, "the text of a kernel");
    for (uint32_t e = 1; e <= k->num_exprs; e++)
        note_expr(w, e);
    for (uint32_t b = 1; b <= k->num_buffers; b++)
        w->file->uses_f64 |= k->buffers[b].element == FLX_F64;
    note_list(w, k->body);
    size_t number = 0;
    w->has_sync = mark_splits(w, k->body, &number);
    number = 0;
    if (w->has_sync)
        mark_splits(w, k->body, &number); /* now including returns */
    find_steering(w);
    if (w->observes_bits)
        find_observed(w);
    flxi_kw_survey_polls(w);
    return w->code;
}
