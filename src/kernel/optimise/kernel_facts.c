/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_facts.c: one walk over a program that records where variables and buffers are declared, used, assigned and
   written. Events are collected in text order and then grouped by a counting sort, so queries about spans are binary
   searches. */
#include "kernel/optimise/kernel_facts.h"

typedef struct {
    uint32_t group, at;
} event;

typedef FLXI_VEC(event) events;

typedef struct {
    flxi_kfacts *f;
    const flx_kernel *k;
    const flxi_allocator *mem;
    events assigns, writes, order, wild;
    uint32_t at;    /* position of the current statement */
    uint32_t depth; /* depth of the current expression */
    bool failed;
} finder;

static void note(finder *w, events *list, uint32_t group)
{
    if (!flxi_push(w->mem, list, ((event){group, w->at})))
        w->failed = true;
}

/* ---- What expressions do ---- */

static uint8_t opaque_does(const flx_kernel *k, uint32_t opaque)
{
    return opaque <= k->num_opaques && k->opaques[opaque].pure ? 0 : KF_EFFECT;
}

static bool is_held(const flx_kernel *k, uint32_t buffer)
{
    return buffer <= k->num_buffers && k->buffers[buffer].usage != FLX_KERNEL_ANY_USE;
}

static uint8_t node_does(const flxi_kfacts *f, const flxi_kx *e)
{
    const flx_kernel *k = f->k;
    switch ((flxi_kx_kind)e->kind) {
    case KX_LENGTH: return is_held(k, e->ref) ? KF_HELD : 0;
    case KX_VAR: return e->ref <= k->num_vars && f->vars[e->ref].assigns ? KF_STATE : 0;
    case KX_LOAD:
        return (uint8_t)(KF_LOADS | (is_held(k, e->ref) ? KF_HELD : 0) |
                         (flxi_kfacts_is_written(f, e->ref) ? KF_MEMORY : 0));
    case KX_ATOMIC: return (uint8_t)(KF_EFFECT | KF_LOADS | KF_MEMORY | (is_held(k, e->ref) ? KF_HELD : 0));
    case KX_SUBGROUP_ADD:
    case KX_SUBGROUP_SHUFFLE:
    case KX_SUBGROUP_BALLOT: return KF_CONVERGENT;
    case KX_OPAQUE: return opaque_does(k, e->ref);
    case KX_CALL: return e->ref <= k->num_fns ? f->fn_does[e->ref] : KF_EFFECT;
    default: return 0;
    }
}

static uint32_t node_cost(const flxi_kx *e)
{
    enum { LIGHT = 1, LOAD = 4, HEAVY = 8 };
    switch ((flxi_kx_kind)e->kind) {
    case KX_LOAD: return LOAD;
    case KX_UNARY: return e->op >= KUN_sqrt && e->op <= KUN_sigmoid ? HEAVY : LIGHT;
    case KX_BINARY: return e->op == KBIN_div || e->op == KBIN_mod || e->op >= KBIN_pow ? HEAVY : LIGHT;
    case KX_SELECT:
    case KX_FMA:
    case KX_CAST:
    case KX_BITCAST: return LIGHT;
    case KX_CALL:
    case KX_ATOMIC:
    case KX_SUBGROUP_ADD:
    case KX_SUBGROUP_SHUFFLE:
    case KX_SUBGROUP_BALLOT:
    case KX_OPAQUE: return HEAVY;
    default: return 0;
    }
}

static uint32_t sum(uint32_t a, uint32_t b)
{
    uint32_t s;
    return __builtin_add_overflow(a, b, &s) ? UINT32_MAX : s;
}

/* Operands have smaller numbers, so one pass over the table is enough. */
static void find_does(flxi_kfacts *f)
{
    const flx_kernel *k = f->k;
    for (uint32_t i = 1; i <= k->num_exprs; i++) {
        const flxi_kx *e = &k->exprs[i];
        uint8_t does = node_does(f, e);
        uint32_t cost = node_cost(e);
        for (int x = flxi_kx_operands(e); x-- > 0;) {
            does |= f->does[e->x[x]];
            cost = sum(cost, f->cost[e->x[x]]);
        }
        for (size_t a = 0; a < e->num_args; a++) {
            does |= f->does[e->args[a]];
            cost = sum(cost, f->cost[e->args[a]]);
        }
        f->does[i] = does;
        f->cost[i] = cost;
    }
}

static uint8_t list_does(const flxi_kfacts *f, flxi_klist list)
{
    uint8_t does = 0;
    for (size_t i = 0; i < list.n; i++) {
        const flxi_ks *s = &list.at[i];
        bool is_plain = s->kind == KS_LET || s->kind == KS_ASSIGN || s->kind == KS_IF || s->kind == KS_LOOP ||
                        s->kind == KS_BLOCK || s->kind == KS_REGION;
        does |= (uint8_t)(f->does[s->a] | f->does[s->b] | (is_plain ? 0 : KF_EFFECT));
        does |= (uint8_t)(list_does(f, s->body) | list_does(f, s->other));
    }
    return does;
}

/* A function does what its expressions do, and these may call functions. The values of its own variables are not
   visible outside. */
static void find_fn_does(flxi_kfacts *f)
{
    const flx_kernel *k = f->k;
    bool again = true;
    for (int round = 0; again && round <= FLXI_KERNEL_MAX_CALLS; round++) {
        again = false;
        find_does(f);
        for (uint32_t i = 1; i <= k->num_fns; i++) {
            unsigned does = list_does(f, k->fns[i].body) | f->does[k->fns[i].result];
            does = (does & (KF_EFFECT | KF_CONVERGENT | KF_HELD | KF_LOADS | KF_FOREIGN)) |
                   (does & KF_MEMORY ? KF_FOREIGN : 0);
            again = again || does != f->fn_does[i];
            f->fn_does[i] = (uint8_t)does;
        }
    }
    if (again) /* functions call each other recursively: nothing is known */
        memset(f->fn_does, KF_EFFECT, k->num_fns + 1);
    for (uint32_t i = 1; i <= k->num_fns; i++)
        f->calls_act |= (f->fn_does[i] & KF_EFFECT) != 0;
    if (k->num_fns)
        find_does(f);
}

/* ---- The walk ---- */

uint32_t flxi_kfacts_reach(const flxi_kfacts *f, uint32_t from, uint32_t use)
{
    uint32_t reach = use;
    for (uint32_t l = f->loop[use]; l >= from && l; l = f->loop[l])
        reach = f->end[l];
    return reach;
}

static void use_var(finder *w, uint32_t var)
{
    if (var > w->k->num_vars)
        return;
    flxi_kvar_positions *v = &w->f->vars[var];
    v->uses++;
    uint32_t l = w->f->loop[w->at];
    v->is_looped |= l > v->at;
    if (v->reach < w->at)
        v->reach = w->at; /* loops are added when their ends are known */
    if (v->use_depth < w->depth)
        v->use_depth = w->depth;
}

static void visit_expr(finder *w, uint32_t number)
{
    const flxi_kx *e = &w->k->exprs[number];
    if (e->kind == KX_VAR)
        use_var(w, e->ref);
    for (int i = 0; i < flxi_kx_operands(e); i++)
        visit_expr(w, e->x[i]);
    for (size_t i = 0; i < e->num_args; i++)
        visit_expr(w, e->args[i]);
    if (e->kind == KX_ATOMIC) {
        note(w, &w->writes, e->ref);
        if (e->order != FLX_KERNEL_RELAXED)
            note(w, &w->order, 0);
    } else if (e->kind == KX_OPAQUE && opaque_does(w->k, e->ref)) {
        note(w, &w->wild, 0);
    }
}

static void visit_root(finder *w, uint32_t e)
{
    if (!e)
        return;
    w->depth = w->k->exprs[e].depth;
    visit_expr(w, e);
}

static void visit_stmt(finder *w, const flxi_ks *s)
{
    flxi_kfacts *f = w->f;
    visit_root(w, s->a);
    visit_root(w, s->b);
    switch ((flxi_ks_kind)s->kind) {
    case KS_LET:
    case KS_LOOP:
        f->vars[s->var].at = w->at;
        f->vars[s->var].value = s->kind == KS_LET ? s->a : 0;
        f->vars[s->var].reach = w->at;
        break;
    case KS_ASSIGN:
        f->vars[s->var].assigns++;
        note(w, &w->assigns, s->var);
        break;
    case KS_STORE: note(w, &w->writes, s->buffer); break;
    case KS_ASYNC_LOAD:
    case KS_ASYNC_STORE:
    case KS_COLLECTIVE:
        note(w, &w->writes, s->target);
        if (s->target <= w->k->num_buffers)
            f->copied[s->target] = 1;
        note(w, &w->order, 0);
        break;
    case KS_BARRIER:
    case KS_ASYNC_WAIT: note(w, &w->order, 0); break;
    case KS_RESUME:
    case KS_OPAQUE: note(w, &w->wild, 0); break;
    default: break;
    }
}

/* Gives the next position to a statement of the list inside `parent`, innermost loop `loop`. */
static void visit_list(finder *w, flxi_klist list, uint32_t parent, uint32_t loop)
{
    flxi_kfacts *f = w->f;
    for (size_t i = 0; i < list.n; i++) {
        const flxi_ks *s = &list.at[i];
        uint32_t at = ++f->num_positions;
        w->at = at;
        f->stmt[at] = s;
        f->parent[at] = parent;
        f->loop[at] = loop;
        visit_stmt(w, s);
        visit_list(w, s->body, at, s->kind == KS_LOOP ? at : loop);
        f->other[at] = f->num_positions + 1;
        visit_list(w, s->other, at, loop);
        f->end[at] = f->num_positions + 1;
    }
}

static void visit_program(finder *w)
{
    flxi_kfacts *f = w->f;
    const flx_kernel *k = w->k;
    for (uint32_t i = 1; i <= k->num_fns; i++) {
        f->fn_at[i] = f->num_positions + 1;
        visit_list(w, k->fns[i].body, 0, 0);
        w->at = ++f->num_positions;
        f->end[w->at] = w->at + 1;
        f->fn_result[i] = w->at;
        visit_root(w, k->fns[i].result);
    }
    visit_list(w, k->body, 0, 0);
}

static size_t count_list(flxi_klist list)
{
    size_t n = list.n;
    for (size_t i = 0; i < list.n; i++)
        n += count_list(list.at[i].body) + count_list(list.at[i].other);
    return n;
}

/* A use in a loop needs the value until the loop ends, if the variable is declared before the loop. Only the last use
   counts: an earlier one in an outer loop is in the same loop or before it. */
static void extend_reach(flxi_kfacts *f)
{
    for (uint32_t v = 1; v <= f->k->num_vars; v++)
        if (f->vars[v].is_looped)
            f->vars[v].reach = flxi_kfacts_reach(f, f->vars[v].at, f->vars[v].reach);
}

/* ---- Groups ---- */

static bool group(flxi_kfacts *f, flxi_kpositions *p, const events *list, uint32_t groups)
{
    uint32_t *start = flxi_new(&f->arena, uint32_t, (size_t)groups + 2);
    uint32_t *at = flxi_new(&f->arena, uint32_t, list->n);
    if (!start || !at)
        return false;
    for (size_t i = 0; i < list->n; i++)
        if (list->at[i].group <= groups)
            start[list->at[i].group + 1]++;
    for (uint32_t g = 0; g <= groups; g++)
        start[g + 1] += start[g];
    for (size_t i = list->n; i-- > 0;) /* backwards: each group is filled from its end, which restores the starts */
        if (list->at[i].group <= groups)
            at[--start[list->at[i].group + 1]] = list->at[i].at;
    for (uint32_t g = 0; g <= groups; g++)
        start[g] = start[g + 1];
    uint32_t kept = 0;
    for (size_t i = 0; i < list->n; i++)
        kept += list->at[i].group <= groups;
    start[groups + 1] = kept;
    *p = (flxi_kpositions){start, at};
    return true;
}

bool flxi_kpositions_within(const flxi_kpositions *p, uint32_t group, uint32_t from, uint32_t to)
{
    uint32_t low = p->start[group], high = p->start[group + 1];
    uint32_t limit = high;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (p->at[middle] < from)
            low = middle + 1;
        else
            high = middle;
    }
    return low < limit && p->at[low] < to;
}

static bool is_empty(const flxi_kpositions *p, uint32_t group)
{
    return p->start[group] == p->start[group + 1];
}

/* ---- The whole analysis ---- */

static bool make_room(flxi_kfacts *f)
{
    const flx_kernel *k = f->k;
    size_t positions = count_list(k->body) + k->num_fns + 1;
    for (uint32_t i = 1; i <= k->num_fns; i++)
        positions += count_list(k->fns[i].body);
    flxi_arena *a = &f->arena;
    f->stmt = flxi_new(a, const flxi_ks *, positions);
    f->end = flxi_new(a, uint32_t, positions);
    f->other = flxi_new(a, uint32_t, positions);
    f->parent = flxi_new(a, uint32_t, positions);
    f->loop = flxi_new(a, uint32_t, positions);
    f->fn_at = flxi_new(a, uint32_t, (size_t)k->num_fns + 1);
    f->fn_result = flxi_new(a, uint32_t, (size_t)k->num_fns + 1);
    f->fn_does = flxi_new(a, uint8_t, (size_t)k->num_fns + 1);
    f->vars = flxi_new(a, flxi_kvar_positions, (size_t)k->num_vars + 1);
    f->does = flxi_new(a, uint8_t, (size_t)k->num_exprs + 1);
    f->cost = flxi_new(a, uint32_t, (size_t)k->num_exprs + 1);
    f->copied = flxi_new(a, uint8_t, (size_t)k->num_buffers + 1);
    return f->stmt && f->end && f->other && f->parent && f->loop && f->fn_at && f->fn_result && f->fn_does && f->vars &&
           f->does && f->cost && f->copied;
}

flx_code flxi_kfacts_find(flxi_kfacts *f, const flx_kernel *k, flx_error *err)
{
    *f = (flxi_kfacts){.k = k};
    finder w = {.f = f, .k = k, .mem = flxi_kernel_mem(k)};
    flxi_arena_init(&f->arena, w.mem);
    bool ok = make_room(f);
    if (ok) {
        visit_program(&w);
        extend_reach(f);
        ok = !w.failed && group(f, &f->assigns, &w.assigns, k->num_vars) &&
             group(f, &f->writes, &w.writes, k->num_buffers) && group(f, &f->order, &w.order, 0) &&
             group(f, &f->wild, &w.wild, 0);
    }
    if (ok)
        find_fn_does(f);
    flxi_vec_free(w.mem, &w.assigns);
    flxi_vec_free(w.mem, &w.writes);
    flxi_vec_free(w.mem, &w.order);
    flxi_vec_free(w.mem, &w.wild);
    return ok ? FLX_OK : flxi_oom(err, "a kernel's facts");
}

void flxi_kfacts_free(flxi_kfacts *f)
{
    flxi_arena_free(&f->arena);
}

/* ---- Queries ---- */

static bool is_constant(const flxi_kfacts *f, uint32_t buffer)
{
    uint8_t access = f->k->buffers[buffer].access;
    return access == FLX_KERNEL_READ || access == FLX_KERNEL_UNIFORM;
}

bool flxi_kfacts_is_written(const flxi_kfacts *f, uint32_t buffer)
{
    if (buffer > f->k->num_buffers)
        return true;
    return !is_constant(f, buffer) && (f->calls_act || !is_empty(&f->writes, buffer) || !is_empty(&f->wild, 0));
}

bool flxi_klist_has_copies(flxi_klist list)
{
    for (size_t i = 0; i < list.n; i++) {
        const flxi_ks *s = &list.at[i];
        if (s->kind == KS_ASYNC_LOAD || s->kind == KS_ASYNC_STORE || s->kind == KS_ASYNC_WAIT ||
            flxi_klist_has_copies(s->body) || flxi_klist_has_copies(s->other))
            return true;
    }
    return false;
}

bool flxi_kfacts_is_shared(const flxi_kfacts *f, uint32_t buffer)
{
    const flxi_kbuffer *b = &f->k->buffers[buffer];
    bool is_own = b->access == FLX_KERNEL_PRIVATE || ((b->flags & FLX_KERNEL_EXCLUSIVE) && !f->copied[buffer]);
    return !is_own;
}

bool flxi_kfacts_is_kept(const flxi_kfacts *f, uint32_t buffer, uint32_t from, uint32_t to)
{
    if (!flxi_kfacts_is_written(f, buffer))
        return true;
    if (f->calls_act || flxi_kpositions_within(&f->writes, buffer, from, to) ||
        flxi_kpositions_within(&f->wild, 0, from, to))
        return false;
    return !flxi_kfacts_is_shared(f, buffer) || !flxi_kpositions_within(&f->order, 0, from, to);
}

bool flxi_kfacts_is_same(const flxi_kfacts *f, uint32_t var, uint32_t from, uint32_t to)
{
    return !flxi_kpositions_within(&f->assigns, var, from, to);
}

bool flxi_kfacts_reaches(const flxi_kfacts *f, uint32_t var, uint32_t from, uint32_t use)
{
    uint32_t to = flxi_kfacts_reach(f, from, use), looped = use;
    for (uint32_t l = f->loop[use]; l > from; l = f->loop[l])
        looped = l;
    /* From the inside out: the part of the path after the start of each else branch. A loop that leads back makes all
       of its branches part of the path. */
    for (uint32_t q = f->parent[use]; q > from; q = f->parent[q]) {
        if (q >= looped || f->stmt[q]->kind != KS_IF || use < f->other[q])
            continue;
        if (!flxi_kfacts_is_same(f, var, f->other[q], to))
            return false;
        to = q;
    }
    return flxi_kfacts_is_same(f, var, from + 1, to);
}

static bool tree_is_stable(const flxi_kfacts *f, uint32_t number, uint32_t from, uint32_t to)
{
    if (!(f->does[number] & (KF_MEMORY | KF_STATE | KF_FOREIGN)))
        return true;
    const flxi_kx *e = &f->k->exprs[number];
    if (e->kind == KX_VAR && !flxi_kfacts_is_same(f, e->ref, from, to))
        return false;
    if (e->kind == KX_LOAD && !flxi_kfacts_is_kept(f, e->ref, from, to))
        return false;
    if (e->kind == KX_CALL && (f->fn_does[e->ref] & KF_FOREIGN))
        return false;
    for (int i = flxi_kx_operands(e); i-- > 0;)
        if (!tree_is_stable(f, e->x[i], from, to))
            return false;
    for (size_t i = 0; i < e->num_args; i++)
        if (!tree_is_stable(f, e->args[i], from, to))
            return false;
    return true;
}

bool flxi_kfacts_is_stable(const flxi_kfacts *f, uint32_t e, uint32_t from, uint32_t to)
{
    return flxi_kfacts_is_pure(f, e) && tree_is_stable(f, e, from, to);
}
