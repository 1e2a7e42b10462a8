/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_liveness.c: which variables are read later, by a backwards walk.

   Changes of the set of live variables are logged, so that the branches of an `if` can start from the same set and be
   merged afterwards at the cost of what they changed. At the end of a loop's body every variable that the loop reads at
   all is assumed live: precise enough, and one walk suffices. */
#include "kernel/optimise/kernel_liveness.h"

typedef struct {
    uint32_t var;
    uint8_t live;
} state;

typedef struct {
    const flxi_kfacts *f;
    const flx_kernel *k;
    const flxi_allocator *mem;
    uint8_t *live;  /* by variable */
    uint8_t *dead;  /* by position */
    uint32_t *seen; /* by variable: the last mark it got */
    uint32_t mark;
    FLXI_VEC(state) log;     /* what was before a change of `live` */
    FLXI_VEC(state) results; /* of first branches: what they changed, and to what */
    FLXI_VEC(uint32_t) todo; /* positions of the statements of open lists */
    bool failed;
} walker;

static void set(walker *w, uint32_t var, uint8_t live)
{
    if (w->live[var] == live)
        return;
    if (!flxi_push(w->mem, &w->log, ((state){var, w->live[var]})))
        w->failed = true;
    w->live[var] = live;
}

/* Reads of variables declared before position `before`. */
static void read_old(walker *w, uint32_t number, uint32_t before)
{
    const flxi_kx *e = &w->k->exprs[number];
    if (!(e->does & KX_VARIES))
        return;
    if (e->kind == KX_VAR && w->f->vars[e->ref].at < before)
        set(w, e->ref, 1);
    for (int i = flxi_kx_operands(e); i-- > 0;)
        read_old(w, e->x[i], before);
    for (size_t i = 0; i < e->num_args; i++)
        read_old(w, e->args[i], before);
}

static void read_expr(walker *w, uint32_t number)
{
    read_old(w, number, UINT32_MAX);
}

/* ---- Branches ---- */

static bool is_new(walker *w, uint32_t var)
{
    bool is_first = w->seen[var] != w->mark;
    w->seen[var] = w->mark;
    return is_first;
}

/* Restores what was live when the log had n entries, and keeps the result of the branch. */
static void end_first(walker *w, size_t n)
{
    w->mark++;
    while (w->log.n > n) {
        state before = w->log.at[--w->log.n];
        if (is_new(w, before.var) && !flxi_push(w->mem, &w->results, ((state){before.var, w->live[before.var]})))
            w->failed = true;
        w->live[before.var] = before.live;
    }
}

/* A variable is live if it is live at the start of either branch: the first, whose results begin at `results`, or the
   second, which began when the log had n entries. A branch that does not access a variable leaves it as it is after
   both. */
static void unite(walker *w, size_t n, size_t results)
{
    size_t end = w->log.n;
    w->mark++;
    for (size_t i = results; i < w->results.n; i++)
        is_new(w, w->results.at[i].var);
    for (size_t i = n; i < end && !w->failed; i++) {
        state behind = w->log.at[i];
        if (is_new(w, behind.var) && behind.live)
            set(w, behind.var, 1);
    }
    while (w->results.n > results) {
        state first = w->results.at[--w->results.n];
        if (first.live)
            set(w, first.var, 1);
    }
}

static void walk_list(walker *w, flxi_klist list, uint32_t at);

static void walk_branches(walker *w, const flxi_ks *s, uint32_t at)
{
    size_t n = w->log.n, results = w->results.n;
    walk_list(w, s->body, at + 1);
    end_first(w, n);
    walk_list(w, s->other, w->f->other[at]);
    unite(w, n, results);
}

/* ---- The walk ---- */

/* What a loop's next iteration may read. */
static void read_all(walker *w, flxi_klist list, uint32_t loop)
{
    for (size_t i = 0; i < list.n; i++) {
        read_old(w, list.at[i].a, loop);
        read_old(w, list.at[i].b, loop);
        read_all(w, list.at[i].body, loop);
        read_all(w, list.at[i].other, loop);
    }
}

/* Like an `if` without an else: it may not run. */
static void walk_loop(walker *w, const flxi_ks *s, uint32_t at)
{
    size_t n = w->log.n, results = w->results.n;
    read_all(w, s->body, at);
    walk_list(w, s->body, at + 1);
    end_first(w, n);
    unite(w, n, results);
}

static void walk_stmt(walker *w, const flxi_ks *s, uint32_t at)
{
    switch ((flxi_ks_kind)s->kind) {
    case KS_ASSIGN:
        if (!w->live[s->var] && !(w->f->does[s->a] & (KF_EFFECT | KF_HELD))) {
            w->dead[at] = 1;
            return;
        }
        set(w, s->var, 0);
        break;
    case KS_LET: set(w, s->var, 0); break;
    case KS_IF: walk_branches(w, s, at); break;
    case KS_LOOP: walk_loop(w, s, at); break;
    default: walk_list(w, s->body, at + 1); break;
    }
    read_expr(w, s->a);
    read_expr(w, s->b);
}

static void walk_list(walker *w, flxi_klist list, uint32_t at)
{
    size_t first = w->todo.n;
    for (size_t i = 0; i < list.n; i++, at = w->f->end[at])
        if (!flxi_push(w->mem, &w->todo, at)) {
            w->failed = true;
            return;
        }
    while (w->todo.n > first && !w->failed) {
        uint32_t last = w->todo.at[--w->todo.n];
        walk_stmt(w, w->f->stmt[last], last);
    }
}

static void walk_program(walker *w)
{
    const flx_kernel *k = w->k;
    for (uint32_t i = 1; i <= k->num_fns; i++) {
        read_expr(w, k->fns[i].result);
        walk_list(w, k->fns[i].body, w->f->fn_at[i]);
    }
    walk_list(w, k->body, k->num_fns ? w->f->fn_result[k->num_fns] + 1 : 1);
}

flx_code flxi_kliveness_find(const flxi_kfacts *f, uint8_t *dead, flx_error *err)
{
    const flx_kernel *k = f->k;
    walker w = {.f = f, .k = k, .mem = flxi_kernel_mem(k), .dead = dead};
    flxi_arena arena;
    flxi_arena_init(&arena, w.mem);
    w.live = flxi_new(&arena, uint8_t, (size_t)k->num_vars + 1);
    w.seen = flxi_new(&arena, uint32_t, (size_t)k->num_vars + 1);
    w.failed = !w.live || !w.seen;
    if (!w.failed)
        walk_program(&w);
    flxi_vec_free(w.mem, &w.log);
    flxi_vec_free(w.mem, &w.results);
    flxi_vec_free(w.mem, &w.todo);
    flxi_arena_free(&arena);
    return w.failed ? flxi_oom(err, "liveness of variables") : FLX_OK;
}
