/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_loop_fusion.c: two loops in a row over the same range become one, and so do two branches in a row of the same
   condition; long loops become two.

   Let A and B be the bodies. Fused, B of an iteration runs before A of all later ones; so these must be independent.
   They are if no outer variable that one assigns is used by the other, and if every buffer that one writes and the
   other accesses is accessed in both only at the same index, a sum of the loop variable and something fixed: then each
   element belongs to one iteration. Barriers, atomics on buffers of the other body, returns, traps and copies prevent
   it. Splitting is the same in the other direction. Branches keep their order, so it is enough that the first does not
   change the condition. */
#include "kernel/optimise/kernel_facts.h"
#include "kernel/optimise/kernel_optimise.h"
#include "kernel/program/kernel_rewrite.h"

enum {
    MAX_FUSED = 64, /* statements of a body, also in its inner lists: longer ones are split, not fused */
    MAX_CUTS = 16,  /* positions at which a split is tried */
};

enum { READS = 1, WRITES = 2, ACTS = 4, SCATTERED = 8 };

/* How a body accesses one buffer. The index is the loop's variable, combined by `op` with expression `fixed`. */
typedef struct {
    uint8_t does;
    bool has_index;
    uint8_t op;
    uint32_t fixed;
} access;

typedef struct {
    uint8_t *vars; /* by variable: READS, WRITES */
    access *buffers;
    uint32_t *seen_vars, *seen_buffers; /* what is not zero, to be cleared */
    uint32_t num_vars, num_buffers;
    bool is_fenced; /* contains something that must not be reordered */
} footprint;

typedef struct {
    flxi_kfacts f;
    const flx_kernel *k;
    footprint a, b;
    uint32_t from, to; /* the span of both loops: what is fixed does not change there */
    flxi_klist lists[FLXI_KERNEL_MAX_NESTING + 4];
    size_t depth;
    const flxi_ks *skipped; /* already part of the loop before it */
} fuser;

/* ---- Footprints ---- */

static void clear(footprint *p)
{
    for (uint32_t i = 0; i < p->num_vars; i++)
        p->vars[p->seen_vars[i]] = 0;
    for (uint32_t i = 0; i < p->num_buffers; i++)
        p->buffers[p->seen_buffers[i]] = (access){0};
    p->num_vars = p->num_buffers = 0;
    p->is_fenced = false;
}

static void note_var(footprint *p, uint32_t var, uint8_t does)
{
    if (!p->vars[var])
        p->seen_vars[p->num_vars++] = var;
    p->vars[var] |= does;
}

static bool is_var(const fuser *w, uint32_t e, uint32_t var)
{
    return w->k->exprs[e].kind == KX_VAR && w->k->exprs[e].ref == var;
}

static bool declares_before(const fuser *w, uint32_t number, uint32_t at)
{
    const flxi_kx *e = &w->k->exprs[number];
    if (e->kind == KX_VAR)
        return w->f.vars[e->ref].at < at;
    for (int i = flxi_kx_operands(e); i-- > 0;)
        if (!declares_before(w, e->x[i], at))
            return false;
    for (size_t i = 0; i < e->num_args; i++)
        if (!declares_before(w, e->args[i], at))
            return false;
    return true;
}

static bool is_fixed(const fuser *w, uint32_t e)
{
    return declares_before(w, e, w->from) && flxi_kfacts_is_stable(&w->f, e, w->from, w->to);
}

/* v, v + c, c + v, v - c: different iterations access different elements, also when sums wrap. */
static bool split_index(const fuser *w, uint32_t index, uint32_t var, uint8_t *op, uint32_t *fixed)
{
    const flxi_kx *e = &w->k->exprs[index];
    *op = 0;
    *fixed = 0;
    if (is_var(w, index, var))
        return true;
    if (e->kind != KX_BINARY || (e->op != KBIN_add && e->op != KBIN_sub))
        return false;
    int side = is_var(w, e->x[0], var) ? 0 : e->op == KBIN_add && is_var(w, e->x[1], var) ? 1 : -1;
    if (side < 0 || !is_fixed(w, e->x[1 - side]))
        return false;
    *op = e->op;
    *fixed = e->x[1 - side];
    return true;
}

static void note_access(fuser *w, footprint *p, uint32_t buffer, uint32_t index, uint32_t var, uint8_t does)
{
    access *x = &p->buffers[buffer];
    uint8_t op;
    uint32_t fixed;
    if (!x->does)
        p->seen_buffers[p->num_buffers++] = buffer;
    x->does |= does;
    if (!split_index(w, index, var, &op, &fixed) || (x->has_index && (x->op != op || x->fixed != fixed)))
        x->does |= SCATTERED;
    x->has_index = true;
    x->op = op;
    x->fixed = fixed;
}

static void note_expr(fuser *w, footprint *p, uint32_t number, uint32_t var)
{
    const flxi_kx *e = &w->k->exprs[number];
    if (e->kind == KX_VAR)
        note_var(p, e->ref, READS);
    if (e->kind == KX_LOAD)
        note_access(w, p, e->ref, e->x[0], var, READS);
    if (e->kind == KX_ATOMIC)
        note_access(w, p, e->ref, e->x[0], var, READS | WRITES | ACTS);
    bool orders = e->kind == KX_ATOMIC && e->order != FLX_KERNEL_RELAXED;
    bool is_unknown = (e->kind == KX_OPAQUE && !w->k->opaques[e->ref].pure) ||
                      (e->kind == KX_CALL && w->f.fn_does[e->ref]) || e->kind == KX_SUBGROUP_ADD ||
                      e->kind == KX_SUBGROUP_SHUFFLE || e->kind == KX_SUBGROUP_BALLOT;
    p->is_fenced = p->is_fenced || orders || is_unknown;
    for (int i = 0; i < flxi_kx_operands(e); i++)
        note_expr(w, p, e->x[i], var);
    for (size_t i = 0; i < e->num_args; i++)
        note_expr(w, p, e->args[i], var);
}

static void note_list(fuser *w, footprint *p, flxi_klist list, uint32_t var)
{
    for (size_t i = 0; i < list.n; i++) {
        const flxi_ks *s = &list.at[i];
        if (s->a)
            note_expr(w, p, s->a, var);
        if (s->b)
            note_expr(w, p, s->b, var);
        switch ((flxi_ks_kind)s->kind) {
        case KS_LET:
        case KS_EFFECT:
        case KS_IF:
        case KS_LOOP:
        case KS_BLOCK:
        case KS_REGION: break;
        case KS_ASSIGN: note_var(p, s->var, WRITES); break;
        case KS_STORE: note_access(w, p, s->buffer, s->a, var, WRITES); break;
        default: p->is_fenced = true; break;
        }
        note_list(w, p, s->body, var);
        note_list(w, p, s->other, var);
    }
}

/* ---- Whether bodies may be reordered ---- */

static bool variables_are_apart(const fuser *w)
{
    for (uint32_t i = 0; i < w->a.num_vars; i++) {
        uint32_t v = w->a.seen_vars[i];
        if (w->f.vars[v].at < w->from && w->b.vars[v] && ((w->a.vars[v] | w->b.vars[v]) & WRITES))
            return false;
    }
    return true;
}

static bool buffers_are_apart(const fuser *w)
{
    for (uint32_t i = 0; i < w->a.num_buffers; i++) {
        uint32_t number = w->a.seen_buffers[i];
        const access *a = &w->a.buffers[number], *b = &w->b.buffers[number];
        uint8_t does = a->does | b->does;
        if (!b->does || !(does & WRITES))
            continue;
        if ((does & (ACTS | SCATTERED)) || a->op != b->op || a->fixed != b->fixed)
            return false;
    }
    return true;
}

static bool are_independent(fuser *w, flxi_klist a, uint32_t var_a, flxi_klist b, uint32_t var_b)
{
    clear(&w->a);
    clear(&w->b);
    note_list(w, &w->a, a, var_a);
    note_list(w, &w->b, b, var_b);
    return !w->a.is_fenced && !w->b.is_fenced && variables_are_apart(w) && buffers_are_apart(w);
}

static size_t count(flxi_klist list)
{
    size_t n = list.n;
    for (size_t i = 0; i < list.n && n <= MAX_FUSED; i++)
        n += count(list.at[i].body) + count(list.at[i].other);
    return n;
}

/* ---- Fusing ---- */

static bool may_fuse(fuser *w, const flxi_ks *s, const flxi_ks *next, uint32_t at)
{
    if (next->kind != KS_LOOP || next->a != s->a || next->b != s->b || count(s->body) + count(next->body) > MAX_FUSED)
        return false;
    w->from = at;
    w->to = w->f.end[w->f.end[at]];
    return flxi_kfacts_is_stable(&w->f, s->a, w->from, w->to) && flxi_kfacts_is_stable(&w->f, s->b, w->from, w->to) &&
           are_independent(w, s->body, s->var, next->body, next->var);
}

static bool ends_with_return(flxi_klist list)
{
    return list.n && list.at[list.n - 1].kind == KS_RETURN;
}

static bool may_join(const fuser *w, const flxi_ks *s, const flxi_ks *next, uint32_t at)
{
    return next->kind == KS_IF && next->a == s->a && !ends_with_return(s->body) && !ends_with_return(s->other) &&
           flxi_kfacts_is_stable(&w->f, s->a, at, w->f.end[at]);
}

/* A list followed by another one that came after the first one's statement. */
static void copy_both(flxi_krewrite *r, flxi_klist list, uint32_t at, flxi_klist next, uint32_t next_at)
{
    fuser *w = r->user;
    r->at = at - 1;
    flxi_krewrite_list(r, list);
    r->at = next_at - 1;
    w->lists[++w->depth] = next;
    flxi_krewrite_splice(r, next, KNAMES_ALL_APART); /* what the first list declares is visible */
    w->depth--;
}

static void join_branches(flxi_krewrite *r, const flxi_ks *s)
{
    fuser *w = r->user;
    uint32_t at = r->at, next_at = w->f.end[at];
    flxi_kb_if(r->to, flxi_krewrite_expr(r, s->a));
    copy_both(r, s->body, at + 1, s[1].body, next_at + 1);
    if (s->other.n + s[1].other.n) {
        flxi_kb_else(r->to);
        copy_both(r, s->other, w->f.other[at], s[1].other, w->f.other[next_at]);
    }
    flxi_kb_end(r->to);
    w->skipped = s + 1;
}

static bool fuse_stmt(flxi_krewrite *r, const flxi_ks *s)
{
    fuser *w = r->user;
    const flxi_klist *list = &w->lists[w->depth];
    if (s == w->skipped)
        return true;
    bool has_next = s + 1 < list->at + list->n;
    if (s->kind == KS_IF && has_next && may_join(w, s, s + 1, r->at)) {
        join_branches(r, s);
        return true;
    }
    if (s->kind != KS_LOOP || !has_next || !may_fuse(w, s, s + 1, r->at))
        return false;
    uint32_t at = r->at;
    uint32_t from = flxi_krewrite_expr(r, s->a), to = flxi_krewrite_expr(r, s->b);
    uint32_t var = flxi_kb_loop(r->to, r->from->vars[s->var].name, from, to);
    flxi_krewrite_bind(r, s->var, var);
    r->values[s[1].var] = flxi_kb_var(r->to, var);
    copy_both(r, s->body, at + 1, s[1].body, w->f.end[at] + 1);
    flxi_kb_end(r->to);
    w->skipped = s + 1;
    return true;
}

/* ---- Splitting ---- */

/* Whether the second part uses what the first declares. */
static bool is_torn(const fuser *w, uint32_t cut_at)
{
    for (uint32_t i = 0; i < w->b.num_vars; i++) {
        uint32_t at = w->f.vars[w->b.seen_vars[i]].at;
        if (at > w->from && at < cut_at)
            return true;
    }
    return false;
}

static flxi_klist head(flxi_klist list, size_t n)
{
    return (flxi_klist){list.at, n};
}

static flxi_klist tail(flxi_klist list, size_t n)
{
    return (flxi_klist){list.at + n, list.n - n};
}

/* The cut of the body nearest to its middle, or 0; `cut_at` receives its position. */
static size_t find_cut(fuser *w, const flxi_ks *s, uint32_t at, uint32_t *cut_at)
{
    size_t middle = s->body.n / 2;
    for (size_t i = 0; i < MAX_CUTS; i++) {
        size_t cut = i % 2 ? middle - (i + 1) / 2 : middle + i / 2;
        if (cut == 0 || cut >= s->body.n)
            continue;
        *cut_at = at + 1;
        for (size_t j = 0; j < cut; j++)
            *cut_at = w->f.end[*cut_at];
        if (are_independent(w, head(s->body, cut), s->var, tail(s->body, cut), s->var) && !is_torn(w, *cut_at))
            return cut;
    }
    return 0;
}

static void copy_part(flxi_krewrite *r, const flxi_ks *s, flxi_klist part, uint32_t at)
{
    uint32_t from = flxi_krewrite_expr(r, s->a), to = flxi_krewrite_expr(r, s->b);
    flxi_krewrite_bind(r, s->var, flxi_kb_loop(r->to, r->from->vars[s->var].name, from, to));
    r->at = at;
    flxi_krewrite_list(r, part);
    flxi_kb_end(r->to);
}

static bool split_stmt(flxi_krewrite *r, const flxi_ks *s)
{
    fuser *w = r->user;
    uint32_t at = r->at, cut_at;
    if (s->kind != KS_LOOP || count(s->body) <= MAX_FUSED)
        return false;
    w->from = at;
    w->to = w->f.end[at];
    if (!flxi_kfacts_is_stable(&w->f, s->a, w->from, w->to) || !flxi_kfacts_is_stable(&w->f, s->b, w->from, w->to))
        return false;
    size_t cut = find_cut(w, s, at, &cut_at);
    if (!cut)
        return false;
    copy_part(r, s, head(s->body, cut), at);
    copy_part(r, s, tail(s->body, cut), cut_at - 1);
    return true;
}

/* ---- Passes ---- */

static void open_list(flxi_krewrite *r, flxi_klist list)
{
    fuser *w = r->user;
    w->lists[++w->depth] = list;
}

static void close_list(flxi_krewrite *r, flxi_klist list)
{
    fuser *w = r->user;
    (void)list;
    w->depth--;
}

static bool make_footprint(fuser *w, footprint *p)
{
    flxi_arena *a = &w->f.arena;
    p->vars = flxi_new(a, uint8_t, (size_t)w->k->num_vars + 1);
    p->seen_vars = flxi_new(a, uint32_t, (size_t)w->k->num_vars + 1);
    p->buffers = flxi_new(a, access, (size_t)w->k->num_buffers + 1);
    p->seen_buffers = flxi_new(a, uint32_t, (size_t)w->k->num_buffers + 1);
    return p->vars && p->seen_vars && p->buffers && p->seen_buffers;
}

static flx_kernel *run(const flx_kernel *k, const flxi_krewrite_hooks *hooks, flx_error *err)
{
    fuser w = {.k = k};
    flx_kernel *result = NULL;
    if (flxi_kfacts_find(&w.f, k, err) == FLX_OK) {
        bool has_work = false;
        for (uint32_t at = 1; !has_work && at <= w.f.num_positions; at++)
            has_work = w.f.stmt[at] && (w.f.stmt[at]->kind == KS_LOOP || w.f.stmt[at]->kind == KS_IF);
        if (!has_work) {
            result = flxi_krewrite_nothing(k);
        } else if (make_footprint(&w, &w.a) && make_footprint(&w, &w.b)) {
            flxi_krewrite r = {.from = k, .hooks = hooks, .user = &w};
            result = flxi_krewrite_run(&r, err);
        } else {
            flxi_oom(err, "loops of a kernel");
        }
    }
    flxi_kfacts_free(&w.f);
    return result;
}

flx_kernel *flxi_kpass_fuse(const flx_kernel *k, const flxi_ksimplify_options *o, flx_error *err)
{
    static const flxi_krewrite_hooks hooks = {
        .stmt = fuse_stmt, .is_blind = true, .open = open_list, .close = close_list};
    (void)o;
    return run(k, &hooks, err);
}

flx_kernel *flxi_kpass_split(const flx_kernel *k, const flxi_ksimplify_options *o, flx_error *err)
{
    static const flxi_krewrite_hooks hooks = {
        .stmt = split_stmt, .is_blind = true, .open = open_list, .close = close_list};
    (void)o;
    return run(k, &hooks, err);
}
