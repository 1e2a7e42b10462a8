/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_dce.c: dead code elimination: marks what results need and copies what is marked.

   Roots are observable effects: stores and atomics on bound buffers, traps, extensions, copies between buffers. From
   there marks spread to variables (all their assignments, so a loop-carried variable that feeds only itself is never
   marked), to the conditions and loops that enclose a marked statement, and to buffers: once something loads from a
   workgroup, private or scratch buffer, all writes to it are marked. Two kinds of statements matter only through
   others: a return if something marked may come after it, a barrier if marked accesses to one buffer, one of them a
   write, are on both sides of it. They are checked again whenever marking has reached a fixed point. */
#include "kernel/optimise/kernel_liveness.h"
#include "kernel/optimise/kernel_optimise.h"
#include "kernel/program/kernel_rewrite.h"

/* Span of the accesses to a shared buffer by marked statements; loops count as a whole. */
typedef struct {
    uint32_t first, last; /* last 0: nowhere */
    bool is_written;
} reach;

typedef struct {
    const flx_kernel *k;
    const flxi_ksimplify_options *o;
    flxi_kfacts f;
    flxi_arena arena;
    uint8_t *unreachable; /* by position */
    uint8_t *stmts;       /* by position: marked */
    uint8_t *dead;        /* by position: an assignment that is never read */
    uint8_t *vars, *exprs, *fns;
    uint32_t *first_adjoint, *next_adjoint; /* by function: the derivatives it brings along, chained */
    uint8_t *contents;                      /* by buffer: what it holds matters */
    uint8_t *named;                         /* by buffer: a marked statement names it */
    reach *reaches;                         /* by buffer */
    uint32_t last_action;                   /* the last position at which something marked acts */
    bool reads_unseen;                      /* a marked call loads: every barrier counts */
    int32_t *covers;                        /* by position: scratch for the spans of written buffers */
    uint32_t *todo;                         /* marked statements whose operands are not yet visited */
    size_t num_todo;
} marker;

static void mark_expr(marker *m, uint32_t e);
static void mark_contents(marker *m, uint32_t buffer);

/* ---- Unreachable code ---- */

/* Whether control never gets past the list, whose first statement is at `at`. */
static bool flag_unreachable(marker *m, flxi_klist list, uint32_t at, bool is_dead)
{
    for (size_t i = 0; i < list.n; i++) {
        const flxi_ks *s = &list.at[i];
        m->unreachable[at] = is_dead && !flxi_klist_has_copies((flxi_klist){s, 1});
        bool body_ends = flag_unreachable(m, s->body, at + 1, is_dead);
        bool other_ends = flag_unreachable(m, s->other, m->f.other[at], is_dead);
        is_dead = is_dead || s->kind == KS_RETURN || (s->kind == KS_IF && body_ends && other_ends) ||
                  ((s->kind == KS_BLOCK || s->kind == KS_REGION) && body_ends);
        at = m->f.end[at];
    }
    return is_dead;
}

/* ---- Marking ---- */

static void mark_stmt(marker *m, uint32_t at)
{
    if (!at || m->stmts[at] || m->unreachable[at] || m->dead[at] || !m->f.stmt[at])
        return;
    m->stmts[at] = 1;
    m->todo[m->num_todo++] = at;
}

static void mark_positions(marker *m, const flxi_kpositions *p, uint32_t group)
{
    for (uint32_t i = p->start[group]; i < p->start[group + 1]; i++)
        mark_stmt(m, p->at[i]);
}

static void mark_var(marker *m, uint32_t var)
{
    if (m->vars[var])
        return;
    m->vars[var] = 1;
    mark_stmt(m, m->f.vars[var].at);
    mark_positions(m, &m->f.assigns, var);
}

static void mark_contents(marker *m, uint32_t buffer)
{
    m->named[buffer] = 1;
    if (m->contents[buffer])
        return;
    m->contents[buffer] = 1;
    mark_positions(m, &m->f.writes, buffer);
}

static bool is_action(const marker *m, const flxi_ks *s)
{
    bool is_frame = s->kind == KS_LET || s->kind == KS_ASSIGN || s->kind == KS_IF || s->kind == KS_LOOP ||
                    s->kind == KS_BLOCK || s->kind == KS_REGION || s->kind == KS_RETURN;
    return !is_frame || ((m->f.does[s->a] | m->f.does[s->b]) & (KF_EFFECT | KF_HELD));
}

/* Whether it counts regardless of buffers and variables. */
static bool is_root(const marker *m, const flxi_ks *s)
{
    switch ((flxi_ks_kind)s->kind) {
    case KS_INDIRECT:
    case KS_ASYNC_LOAD:
    case KS_ASYNC_STORE:
    case KS_ASYNC_WAIT:
    case KS_TRAP:
    case KS_RESUME:
    case KS_COLLECTIVE:
    case KS_OPAQUE: return true;
    case KS_STORE:
        if (m->k->buffers[s->buffer].usage != FLX_KERNEL_ANY_USE)
            return true;
        break;
    default: break;
    }
    unsigned does = m->f.does[s->a] | m->f.does[s->b];
    bool has_calls = (m->k->exprs[s->a].does | m->k->exprs[s->b].does) & KX_OPAQUES;
    return (does & KF_HELD) || ((does & KF_EFFECT) && has_calls);
}

static void mark_roots(marker *m, uint32_t from, uint32_t to)
{
    for (uint32_t at = from; at < to; at++)
        if (m->f.stmt[at] && is_root(m, m->f.stmt[at]))
            mark_stmt(m, at);
}

static void mark_fn(marker *m, uint32_t fn)
{
    if (m->fns[fn])
        return;
    m->fns[fn] = 1;
    mark_roots(m, m->f.fn_at[fn], m->f.fn_result[fn]);
    mark_expr(m, m->k->fns[fn].result);
    for (uint32_t i = m->first_adjoint[fn]; i; i = m->next_adjoint[i])
        mark_fn(m, i);
}

static void mark_expr(marker *m, uint32_t number)
{
    if (!number || m->exprs[number])
        return;
    m->exprs[number] = 1;
    const flxi_kx *e = &m->k->exprs[number];
    switch ((flxi_kx_kind)e->kind) {
    case KX_VAR: mark_var(m, e->ref); break;
    case KX_LOAD:
    case KX_ATOMIC: mark_contents(m, e->ref); break;
    case KX_LENGTH: m->named[e->ref] = 1; break;
    case KX_CALL: mark_fn(m, e->ref); break;
    default: break;
    }
    for (int i = 0; i < flxi_kx_operands(e); i++)
        mark_expr(m, e->x[i]);
    for (size_t i = 0; i < e->num_args; i++)
        mark_expr(m, e->args[i]);
}

/* ---- Accesses, for barriers ---- */

static void touch(marker *m, uint32_t buffer, uint32_t at, bool writes)
{
    if (!flxi_kfacts_is_shared(&m->f, buffer))
        return;
    uint32_t first = at, last = at;
    for (uint32_t l = m->f.loop[at]; l; l = m->f.loop[l]) {
        first = l;
        last = m->f.end[l];
    }
    reach *r = &m->reaches[buffer];
    if (!r->last || first < r->first)
        r->first = first;
    if (last > r->last)
        r->last = last;
    r->is_written = r->is_written || writes;
}

static void touch_expr(marker *m, uint32_t number, uint32_t at)
{
    if (!(m->f.does[number] & (KF_MEMORY | KF_FOREIGN | KF_EFFECT)))
        return;
    const flxi_kx *e = &m->k->exprs[number];
    if (e->kind == KX_LOAD || e->kind == KX_ATOMIC)
        touch(m, e->ref, at, e->kind == KX_ATOMIC);
    bool calls = e->kind == KX_CALL && (m->f.fn_does[e->ref] & (KF_FOREIGN | KF_EFFECT));
    m->reads_unseen |= calls || (e->kind == KX_OPAQUE && !m->k->opaques[e->ref].pure);
    for (int i = 0; i < flxi_kx_operands(e); i++)
        touch_expr(m, e->x[i], at);
    for (size_t i = 0; i < e->num_args; i++)
        touch_expr(m, e->args[i], at);
}

/* ---- Spreading the marks ---- */

static void note_action(marker *m, uint32_t at)
{
    uint32_t last = at;
    for (uint32_t l = m->f.loop[at]; l; l = m->f.loop[l])
        last = m->f.end[l];
    if (last > m->last_action)
        m->last_action = last;
}

static void spread(marker *m, uint32_t at)
{
    const flxi_ks *s = m->f.stmt[at];
    mark_stmt(m, m->f.parent[at]);
    mark_expr(m, s->a);
    mark_expr(m, s->b);
    touch_expr(m, s->a, at);
    touch_expr(m, s->b, at);
    if (is_action(m, s))
        note_action(m, at);
    switch ((flxi_ks_kind)s->kind) {
    case KS_ASSIGN:
        if (m->k->exprs[s->a].kind != KX_ATOMIC) /* an atomic can do without the variable */
            mark_var(m, s->var);
        break;
    case KS_STORE:
        m->named[s->buffer] = 1;
        touch(m, s->buffer, at, true);
        break;
    case KS_INDIRECT: mark_contents(m, s->buffer); break;
    case KS_ASYNC_LOAD:
    case KS_ASYNC_STORE:
    case KS_COLLECTIVE:
        mark_contents(m, s->buffer);
        mark_contents(m, s->target);
        touch(m, s->buffer, at, false);
        touch(m, s->target, at, true);
        break;
    case KS_RESUME:
    case KS_OPAQUE: m->reads_unseen = true; break;
    default: break;
    }
}

static void spread_all(marker *m)
{
    while (m->num_todo)
        spread(m, m->todo[--m->num_todo]);
}

/* Barriers count inside the union of the spans in which written buffers are accessed. */
static void mark_barriers_and_returns(marker *m)
{
    const flxi_kfacts *f = &m->f;
    memset(m->covers, 0, ((size_t)f->num_positions + 3) * sizeof *m->covers);
    for (uint32_t b = 1; b <= m->k->num_buffers; b++) {
        const reach *r = &m->reaches[b];
        if (r->is_written && r->first + 1 < r->last) {
            m->covers[r->first + 1]++;
            m->covers[r->last]--;
        }
    }
    int32_t covered = 0;
    for (uint32_t at = 1; at <= f->num_positions; at++) {
        covered += m->covers[at];
        const flxi_ks *s = f->stmt[at];
        if (!s || m->stmts[at])
            continue;
        if ((s->kind == KS_RETURN && at < m->last_action) ||
            (s->kind == KS_BARRIER && (covered > 0 || m->reads_unseen)))
            mark_stmt(m, at);
    }
}

static void mark_program(marker *m)
{
    const flx_kernel *k = m->k;
    uint32_t body_at = k->num_fns ? m->f.fn_result[k->num_fns] + 1 : 1;
    for (uint32_t i = 1; i <= k->num_fns; i++)
        flag_unreachable(m, k->fns[i].body, m->f.fn_at[i], false);
    flag_unreachable(m, k->body, body_at, false);
    for (uint32_t b = 1; b <= k->num_buffers; b++) {
        bool is_inner = !flxi_kbuffer_is_bound(&k->buffers[b]);
        if (!is_inner && !(m->o->only_if_loaded && m->o->only_if_loaded[b]))
            mark_contents(m, b);
    }
    mark_roots(m, body_at, m->f.num_positions + 1);
    mark_positions(m, &m->f.wild, 0);
    /* Each round marks something. Only contrived programs need many rounds: those keep their barriers. */
    enum { MAX_ROUNDS = 16 };
    for (int round = 0; m->num_todo; round++) {
        spread_all(m);
        if (round == MAX_ROUNDS) {
            m->reads_unseen = true;
            m->last_action = UINT32_MAX;
        }
        mark_barriers_and_returns(m);
    }
}

/* ---- Copying what is marked ---- */

static bool sweep_stmt(flxi_krewrite *r, const flxi_ks *s)
{
    const marker *m = r->user;
    if (!m->stmts[r->at])
        return true;
    bool sets = s->kind == KS_LET || s->kind == KS_ASSIGN;
    if (sets && !m->vars[s->var] && m->k->exprs[s->a].kind == KX_ATOMIC) {
        flxi_kb_effect(r->to, flxi_krewrite_expr(r, s->a));
        return true;
    }
    return false;
}

static bool all_marked(const marker *m)
{
    bool all = true;
    for (uint32_t at = 1; all && at <= m->f.num_positions; at++)
        all = m->stmts[at] || !m->f.stmt[at];
    for (uint32_t v = 1; all && v <= m->k->num_vars; v++)
        all = m->vars[v] || m->k->vars[v].kind == KVAR_PARAM || m->k->vars[v].kind == KVAR_LOOP;
    for (uint32_t b = 1; all && b <= m->k->num_buffers; b++)
        all = m->named[b];
    for (uint32_t i = 1; all && i <= m->k->num_fns; i++)
        all = m->fns[i];
    return all;
}

static flx_kernel *sweep(marker *m, flx_error *err)
{
    if (all_marked(m))
        return flxi_krewrite_nothing(m->k);
    static const flxi_krewrite_hooks hooks = {.stmt = sweep_stmt, .is_blind = true};
    uint8_t *drop_buffer = m->named, *drop_fn = m->fns; /* invert: what is kept becomes what is dropped */
    for (uint32_t b = 0; b <= m->k->num_buffers; b++)
        drop_buffer[b] = !m->named[b];
    for (uint32_t i = 0; i <= m->k->num_fns; i++)
        drop_fn[i] = !m->fns[i];
    flxi_krewrite r = {.from = m->k, .hooks = &hooks, .user = m, .drop_buffer = drop_buffer, .drop_fn = drop_fn};
    return flxi_krewrite_run(&r, err);
}

static bool make_room(marker *m)
{
    const flx_kernel *k = m->k;
    size_t positions = (size_t)m->f.num_positions + 3;
    flxi_arena *a = &m->arena;
    m->unreachable = flxi_new(a, uint8_t, positions);
    m->stmts = flxi_new(a, uint8_t, positions);
    m->dead = flxi_new(a, uint8_t, positions);
    m->covers = flxi_new(a, int32_t, positions);
    m->todo = flxi_new(a, uint32_t, positions);
    m->vars = flxi_new(a, uint8_t, (size_t)k->num_vars + 1);
    m->exprs = flxi_new(a, uint8_t, (size_t)k->num_exprs + 1);
    m->fns = flxi_new(a, uint8_t, (size_t)k->num_fns + 1);
    m->first_adjoint = flxi_new(a, uint32_t, (size_t)k->num_fns + 1);
    m->next_adjoint = flxi_new(a, uint32_t, (size_t)k->num_fns + 1);
    m->contents = flxi_new(a, uint8_t, (size_t)k->num_buffers + 1);
    m->named = flxi_new(a, uint8_t, (size_t)k->num_buffers + 1);
    m->reaches = flxi_new(a, reach, (size_t)k->num_buffers + 1);
    return m->unreachable && m->stmts && m->dead && m->covers && m->todo && m->vars && m->exprs && m->fns &&
           m->first_adjoint && m->next_adjoint && m->contents && m->named && m->reaches;
}

static void chain_adjoints(marker *m)
{
    for (uint32_t i = m->k->num_fns; i > 0; i--) {
        uint32_t of = m->k->fns[i].adjoint_of;
        if (!of)
            continue;
        m->next_adjoint[i] = m->first_adjoint[of - 1];
        m->first_adjoint[of - 1] = i;
    }
}

flx_kernel *flxi_kpass_dce(const flx_kernel *k, const flxi_ksimplify_options *o, flx_error *err)
{
    marker m = {.k = k, .o = o};
    flx_kernel *result = NULL;
    flxi_arena_init(&m.arena, flxi_kernel_mem(k));
    if (flxi_kfacts_find(&m.f, k, err) == FLX_OK) {
        if (!make_room(&m)) {
            flxi_oom(err, "dead code elimination");
        } else if (flxi_kliveness_find(&m.f, m.dead, err) == FLX_OK) {
            chain_adjoints(&m);
            mark_program(&m);
            result = sweep(&m, err);
        }
    }
    flxi_kfacts_free(&m.f);
    flxi_arena_free(&m.arena);
    return result;
}
