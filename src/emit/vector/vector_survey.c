/* SPDX-License-Identifier: Apache-2.0 */
/* vector_survey.c: which values differ between the lanes of a vector, and what prevents a vector form.

   Everything starts as uniform; each round over the program retracts what does not hold, until nothing changes. Lanes
   execute the text together, so a load at a uniform index is uniform, also of memory that is written. */
#include "emit/vector/vector_writer.h"

/* A program whose variables depend on each other in a longer chain is written in the scalar form. */
enum { MAX_ROUNDS = 100, MAX_STEP = 1 << 20 };

typedef struct {
    flxi_kwriter *w;
    flxi_kvectors *v;
    bool changed;
} survey;

static void refuse(survey *s, const char *reason)
{
    if (!s->v->reason)
        s->v->reason = reason;
}

/* ---- Expressions ---- */

static int32_t step_of(survey *s, uint32_t expr);

static int32_t checked(int64_t step)
{
    return step > -MAX_STEP && step < MAX_STEP ? (int32_t)step : KSTEP_VARYING;
}

static bool has_ramps(uint32_t type)
{
    return type == FLX_U32 || type == FLX_I32;
}

/* The value of a literal as a lane stride. */
static bool literal(const flxi_kwriter *w, uint32_t expr, int64_t *value)
{
    const flxi_kx *e = &w->k->exprs[expr];
    *value = (int32_t)(uint32_t)e->bits;
    return e->kind == KX_LITERAL && *value > -MAX_STEP && *value < MAX_STEP;
}

static int32_t step_of_id(const flxi_kx *e)
{
    bool is_inside = e->op == FLX_KERNEL_INVOCATION_ID || e->op == FLX_KERNEL_LOCAL_ID;
    return is_inside && e->ref == 0 ? 1 : 0;
}

/* ---- Divisors of the first lane ---- */

enum { MAX_FACTOR = 1 << 16 };

static uint32_t factor_in(uint32_t x)
{
    uint32_t power = x & (~x + 1);
    return power == 0 || power > MAX_FACTOR ? MAX_FACTOR : power;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t factor_of(const survey *s, uint32_t expr);

static uint32_t factor_of_binary(const survey *s, const flxi_kx *e)
{
    uint32_t a = factor_of(s, e->x[0]);
    int64_t by;
    switch ((flxi_kbinary)e->op) {
    case KBIN_add:
    case KBIN_wrapping_add:
    case KBIN_sub:
    case KBIN_wrapping_sub: return smaller(a, factor_of(s, e->x[1]));
    case KBIN_mul: { /* 2^16 times 2^16 would be 0 */
        uint32_t b = factor_of(s, e->x[1]);
        return a > MAX_FACTOR / b ? MAX_FACTOR : a * b;
    }
    case KBIN_mod: return smaller(a, factor_of(s, e->x[1]));
    case KBIN_shl: return literal(s->w, e->x[1], &by) && by >= 0 && by < 16 ? smaller(a << by, MAX_FACTOR) : 1;
    default: return 1;
    }
}

/* A power of two that divides the value of the first lane, for indices; 2^32 is divided by it too, so values may wrap
   around. */
static uint32_t factor_of(const survey *s, uint32_t expr)
{
    const flxi_kx *e = &s->w->k->exprs[expr];
    if (!has_ramps(e->type))
        return 1;
    switch ((flxi_kx_kind)e->kind) {
    case KX_LITERAL: return factor_in((uint32_t)e->bits);
    case KX_LANE: return MAX_FACTOR;
    case KX_ID: return step_of_id(e) && s->w->k->size[0] % s->v->span == 0 ? factor_in(s->v->span) : 1;
    case KX_VAR: return s->v->factors[e->ref] ? s->v->factors[e->ref] : 1;
    case KX_CAST: return factor_of(s, e->x[0]);
    case KX_BINARY: return factor_of_binary(s, e);
    default: return 1;
    }
}

/* Quotient and remainder of a ramp by a multiple of the lanes: the lanes are in one row, whose index is uniform, and
   the position in the row is a ramp. */
static int32_t step_of_quotient(const survey *s, const flxi_kx *e)
{
    int64_t by;
    bool in_row = s->v->span && e->type == FLX_U32 && literal(s->w, e->x[1], &by) && by > 0 && by % s->v->span == 0 &&
                  factor_of(s, e->x[0]) % s->v->span == 0;
    return !in_row ? KSTEP_VARYING : e->op == KBIN_mod ? 1 : 0;
}

static int32_t step_of_binary(survey *s, const flxi_kx *e)
{
    int32_t a = step_of(s, e->x[0]), b = step_of(s, e->x[1]);
    int64_t factor;
    if (a == 0 && b == 0)
        return 0;
    if (a == KSTEP_VARYING || b == KSTEP_VARYING || !has_ramps(e->type))
        return KSTEP_VARYING;
    switch ((flxi_kbinary)e->op) {
    case KBIN_add:
    case KBIN_wrapping_add: return checked((int64_t)a + b);
    case KBIN_sub:
    case KBIN_wrapping_sub: return checked((int64_t)a - b);
    case KBIN_mul:
        if (literal(s->w, e->x[1], &factor))
            return checked(a * factor);
        return literal(s->w, e->x[0], &factor) ? checked(b * factor) : KSTEP_VARYING;
    case KBIN_shl:
        return literal(s->w, e->x[1], &factor) && factor >= 0 && factor < 20 ? checked((int64_t)a * (1 << factor))
                                                                             : KSTEP_VARYING;
    case KBIN_div:
    case KBIN_mod: return a == 1 && b == 0 ? step_of_quotient(s, e) : KSTEP_VARYING;
    default: return KSTEP_VARYING;
    }
}

/* 0 if all operands and arguments are uniform. */
static int32_t step_of_parts(survey *s, const flxi_kx *e)
{
    bool uniform = true;
    for (int i = 0; i < flxi_kx_operands(e); i++)
        uniform &= step_of(s, e->x[i]) == 0;
    for (size_t i = 0; i < e->num_args; i++)
        uniform &= step_of(s, e->args[i]) == 0;
    return uniform ? 0 : KSTEP_VARYING;
}

static int32_t compute_step(survey *s, const flxi_kx *e)
{
    switch ((flxi_kx_kind)e->kind) {
    case KX_ID: return step_of_id(e);
    case KX_LANE: return 1;
    case KX_VAR: return s->v->vars[e->ref];
    case KX_BINARY: return step_of_binary(s, e);
    case KX_CAST: {
        int32_t x = step_of(s, e->x[0]);
        return has_ramps(e->type) && has_ramps(s->w->k->exprs[e->x[0]].type) ? x : x == 0 ? 0 : KSTEP_VARYING;
    }
    case KX_SUBGROUP_ADD:
    case KX_SUBGROUP_BALLOT: step_of_parts(s, e); return 0;
    case KX_SUBGROUP_SHUFFLE: step_of_parts(s, e); return step_of(s, e->x[1]) == 0 ? 0 : KSTEP_VARYING;
    default: return step_of_parts(s, e);
    }
}

static int32_t step_of(survey *s, uint32_t expr)
{
    if (!s->v->is_known[expr]) {
        s->v->exprs[expr] = compute_step(s, &s->w->k->exprs[expr]);
        s->v->is_known[expr] = 1;
    }
    return s->v->exprs[expr];
}

/* ---- Statements ---- */

static void set_var(survey *s, uint32_t var, int32_t step)
{
    int32_t *at = &s->v->vars[var];
    if (step == *at || *at == KSTEP_VARYING)
        return;
    *at = flxi_kfacts_is_assigned(&s->w->known, var) || *at != 0 ? KSTEP_VARYING : step;
    s->changed = true;
}

static void visit(survey *s, flxi_klist list, bool divergent);

static void visit_if(survey *s, const flxi_ks *at, bool divergent)
{
    bool is_frame = at == s->w->decided, returns = at->body.n == 1 && at->body.at[0].kind == KS_RETURN;
    divergent |= step_of(s, at->a) != 0 && !is_frame;
    if (is_frame && returns)
        return;
    visit(s, at->body, divergent);
    visit(s, at->other, divergent);
}

static void visit_loop(survey *s, const flxi_ks *at, bool divergent)
{
    bool uniform = step_of(s, at->a) == 0 && step_of(s, at->b) == 0;
    if (!uniform)
        set_var(s, at->var, KSTEP_VARYING);
    visit(s, at->body, divergent || !uniform);
}

static void visit(survey *s, flxi_klist list, bool divergent)
{
    const flxi_kwriter *w = s->w;
    for (size_t i = 0; i < list.n && !s->v->reason; i++) {
        const flxi_ks *at = &list.at[i];
        int32_t a = step_of(s, at->a);
        step_of(s, at->b);
        if (divergent && (w->talks[at->a] || w->talks[at->b]))
            refuse(s, "a subgroup op in divergent control flow");
        switch ((flxi_ks_kind)at->kind) {
        case KS_LET:
            if (s->v->span && !flxi_kfacts_is_assigned(&w->known, at->var))
                s->v->factors[at->var] = factor_of(s, at->a);
            set_var(s, at->var, a);
            break;
        case KS_ASSIGN: set_var(s, at->var, divergent || a != 0 ? KSTEP_VARYING : 0); break;
        case KS_STORE: break;
        case KS_IF: visit_if(s, at, divergent); break;
        case KS_LOOP: visit_loop(s, at, divergent); break;
        case KS_BLOCK:
        case KS_REGION: visit(s, at->body, divergent); break;
        case KS_RETURN:
            if (divergent)
                refuse(s, "a return in divergent control flow");
            break;
        case KS_BARRIER: refuse(s, "a barrier"); break;
        default: refuse(s, "a statement without a vector form"); break;
        }
    }
}

/* ---- What prevents a vector form ---- */

static void check_exprs(survey *s)
{
    const flx_kernel *k = s->w->k;
    for (uint32_t i = 1; i <= k->num_exprs; i++) {
        const flxi_kx *e = &k->exprs[i];
        if (e->kind == KX_ATOMIC)
            refuse(s, "an atomic");
        if (e->kind == KX_OPAQUE)
            refuse(s, "an extension");
        s->v->has_subgroups |= e->kind == KX_LANE || e->kind == KX_LANES || s->w->talks[i];
    }
}

static void check_buffers(survey *s)
{
    const flxi_kwriter *w = s->w;
    for (uint32_t i = 1; i <= w->k->num_buffers; i++)
        if (w->is_accessed[i] && flxi_kw_address(w, i) != KADDRESS_STORAGE)
            refuse(s, flxi_kw_address(w, i) == KADDRESS_PRIVATE ? "a private array" : "workgroup memory");
}

/* The value that was compared with a length must be the one that is used. */
static bool reads_written(const flxi_kwriter *w, uint32_t expr)
{
    const flxi_kx *e = &w->k->exprs[expr];
    bool found = e->kind == KX_LOAD && w->is_written[e->ref];
    if (!(e->does & (KX_READS | KX_OPAQUES)))
        return false;
    for (int i = flxi_kx_operands(e); i-- > 0;)
        found |= reads_written(w, e->x[i]);
    for (size_t i = 0; i < e->num_args; i++)
        found |= reads_written(w, e->args[i]);
    return found;
}

static bool has_racy_index(const flxi_kwriter *w, uint32_t expr)
{
    const flxi_kx *e = &w->k->exprs[expr];
    bool found = e->kind == KX_LOAD && reads_written(w, e->x[0]);
    if (!(e->does & (KX_READS | KX_OPAQUES)))
        return false;
    for (int i = flxi_kx_operands(e); i-- > 0;)
        found |= has_racy_index(w, e->x[i]);
    for (size_t i = 0; i < e->num_args; i++)
        found |= has_racy_index(w, e->args[i]);
    return found;
}

static void check_indices(survey *s, flxi_klist list)
{
    const flxi_kwriter *w = s->w;
    for (size_t i = 0; i < list.n && !s->v->reason; i++) {
        const flxi_ks *at = &list.at[i];
        bool steers = (at->kind == KS_LET || at->kind == KS_ASSIGN || at->kind == KS_LOOP) && w->steers[at->var];
        bool is_racy = has_racy_index(w, at->a) || has_racy_index(w, at->b);
        is_racy |= (steers || at->kind == KS_STORE) && reads_written(w, at->a);
        is_racy |= steers && at->kind == KS_LOOP && reads_written(w, at->b);
        if (is_racy)
            refuse(s, "an index comes from memory that the kernel writes");
        check_indices(s, at->body);
        check_indices(s, at->other);
    }
}

static void check_size(survey *s)
{
    const flxi_kwriter *w = s->w;
    const uint32_t *size = w->k->size;
    unsigned lanes = flxi_vector_lanes(w->k), whole = s->v->lanes * s->v->parts;
    bool asks = (w->ids[FLX_KERNEL_WORKGROUP_ID] | w->ids[FLX_KERNEL_LOCAL_ID]) & 1;
    if (size[1] != 1 || size[2] != 1)
        refuse(s, "a workgroup with several axes");
    else if (s->v->has_subgroups && size[0] != lanes)
        refuse(s, "a workgroup that is not one subgroup");
    else if (asks && size[0] % whole != 0)
        refuse(s, "workgroups that do not hold whole vectors");
}

unsigned flxi_vector_lanes(const flx_kernel *k)
{
    for (uint32_t i = 1; i <= k->num_exprs; i++)
        if (flxi_ktype_of(k->exprs[i].type)->bits == 64)
            return 8;
    return 16;
}

/* The number of statements of a kind. */
static unsigned count_kind(flxi_klist list, flxi_ks_kind kind)
{
    unsigned n = 0;
    for (size_t i = 0; i < list.n; i++)
        n += (list.at[i].kind == kind) + count_kind(list.at[i].body, kind) + count_kind(list.at[i].other, kind);
    return n;
}

/* A loop that accumulates waits for each sum before it begins the next: several independent sums hide the latency. A
   longer text has enough other work, and too few registers. */
static unsigned usual_parts(const flx_kernel *k)
{
    enum { MAX_NODES = 120 };
    unsigned sums = count_kind(k->body, KS_ASSIGN);
    if (k->nodes > MAX_NODES || count_kind(k->body, KS_LOOP) != 1 || sums == 0)
        return 1;
    return sums == 1 ? 4 : sums <= 3 ? 2 : 1;
}

/* Only values that differ between lanes have to fit into vectors. */
static bool has_wide_vectors(const survey *s)
{
    const flx_kernel *k = s->w->k;
    for (uint32_t i = 1; i <= k->num_exprs; i++)
        if (s->v->is_known[i] && s->v->exprs[i] == KSTEP_VARYING && flxi_ktype_of(k->exprs[i].type)->bits == 64)
            return true;
    return false;
}

static void choose_parts(survey *s)
{
    flxi_kvectors *v = s->v;
    const flxi_vector_options *o = s->w->file->vector;
    unsigned lanes = flxi_vector_lanes(s->w->k);
    bool is_wide = v->has_subgroups ? lanes == 8 : has_wide_vectors(s);
    v->lanes = s->w->file->vector_bytes / (is_wide ? 8 : 4);
    unsigned wanted = o->parts ? (o->parts < 8 ? o->parts : 8) : usual_parts(s->w->k);
    v->parts = v->has_subgroups ? lanes / v->lanes : wanted;
    if (v->parts > 1 && !v->has_subgroups && s->w->k->size[0] % (v->lanes * v->parts) != 0)
        v->parts = 1;
}

static bool has_quotients(const flx_kernel *k)
{
    for (uint32_t i = 1; i <= k->num_exprs; i++)
        if (k->exprs[i].kind == KX_BINARY && k->exprs[i].type == FLX_U32 &&
            (k->exprs[i].op == KBIN_div || k->exprs[i].op == KBIN_mod))
            return true;
    return false;
}

static void find_steps(survey *s)
{
    const flx_kernel *k = s->w->k;
    memset(s->v->vars, 0, (k->num_vars + 1) * sizeof *s->v->vars);
    s->changed = true;
    for (int round = 0; s->changed && !s->v->reason; round++) {
        s->changed = false;
        memset(s->v->is_known, 0, k->num_exprs + 1);
        visit(s, k->body, false);
        if (round == MAX_ROUNDS)
            refuse(s, "variables that depend on each other in a long chain");
    }
}

void flxi_vw_survey(flxi_kwriter *w, flxi_kvectors *v)
{
    survey s = {.w = w, .v = v};
    const flx_kernel *k = w->k;
    v->exprs = flxi_new(&w->facts, int32_t, k->num_exprs + 1);
    v->vars = flxi_new(&w->facts, int32_t, k->num_vars + 1);
    v->factors = flxi_new(&w->facts, uint32_t, k->num_vars + 1);
    v->is_known = flxi_new(&w->facts, uint8_t, k->num_exprs + 1);
    v->streams = flxi_new(&w->facts, uint8_t, k->num_buffers + 1);
    if (!v->exprs || !v->vars || !v->factors || !v->is_known || !v->streams) {
        w->code = flxi_oom(w->err, "the text of a kernel");
        return;
    }
    for (size_t i = 0; i < w->file->vector->num_streams; i++)
        if (w->file->vector->stream[i] <= k->num_buffers)
            v->streams[w->file->vector->stream[i]] = 1;
    check_exprs(&s);
    check_buffers(&s);
    check_indices(&s, k->body);
    if (!v->has_subgroups && !v->reason)
        flxi_kw_find_end(w, &v->end);
    find_steps(&s);
    choose_parts(&s);
    v->span = v->lanes * v->parts;
    if (!v->reason && has_quotients(k))
        find_steps(&s);
    check_size(&s);
}
