/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_cse.c: common subexpressions. The same walk is made twice: first to find what is worth sharing, then to
   rewrite.

   Expressions get value numbers: the number of an expression whose variables are replaced by the values that they are
   known to equal. The walk records every value at the position where it was first computed, in the scope of its list.
   When it meets a recorded value again that has not changed since, it shares it: with the variable whose let computed
   it, or with a new variable, which is then requested right before the statement that computed it first. The parts of a
   shared expression are not examined, so shared expressions are as large as possible. */
#include "kernel/optimise/kernel_facts.h"
#include "kernel/optimise/kernel_fold.h"
#include "kernel/optimise/kernel_optimise.h"

/* Below this cost (kernel_facts.h) a new variable does not pay. */
enum { MIN_COST = 2 };

/* Names of new variables for ids; others are called t. */
static const char *const id_names[FLX_KERNEL_ID_COUNT] = {
    [FLX_KERNEL_INVOCATION_ID] = "i",
    [FLX_KERNEL_WORKGROUP_ID] = "w",
    [FLX_KERNEL_LOCAL_ID] = "l",
    [FLX_KERNEL_NUM_WORKGROUPS] = "groups",
};

/* A value: like an expression, with values as operands. Variables beyond those of the program are new ones. */
typedef struct {
    flxi_kx e;
    uint8_t does; /* KF_… */
    uint32_t cost;
    uint32_t at;     /* recorded: where it was computed; 0: not recorded */
    uint32_t holder; /* the variable that holds it, or 0 */
} value;

/* A new variable to hold `value`, declared before the statement at `at`. */
typedef struct {
    uint32_t at, value;
    uint32_t var; /* rewriting: in the new program */
} want;

typedef struct {
    uint32_t value;
    uint32_t at, holder; /* the previous record */
} filing;

typedef struct {
    const flx_kernel *k;
    const flxi_allocator *mem;
    flxi_kfacts f;
    flxi_arena arena;
    FLXI_VEC(value) values; /* numbered from 1 */
    flxi_index index;
    uint32_t *value_of;       /* by expression, 0: not yet known */
    uint32_t *same;           /* by variable: the value it is known to have, or 0: its own */
    FLXI_VEC(want) wants;     /* number i is variable num_vars + 1 + i */
    flxi_index want_index;    /* by value and position */
    FLXI_VEC(filing) filings; /* by open lists, undone when they end */
    FLXI_VEC(size_t) scopes;
    uint32_t at;      /* position of the current statement */
    size_t hits;      /* how often something was shared */
    bool acts;        /* its own effects may change what its operands load */
    flxi_krewrite *r; /* the second walk, NULL in the first */
    bool failed;
} sharer;

static void fail(sharer *c)
{
    c->failed = true;
    if (c->r && flxi_kb_ok(c->r->to))
        flxi_oom(&c->r->to->err, "common subexpressions");
}

/* ---- Value numbers ---- */

static bool swaps(const flxi_kx *e)
{
    return e->kind == KX_BINARY && flxi_kbinary_commutes(e->op);
}

static uint64_t hash_value(const flxi_kx *e)
{
    uint32_t x[3] = {e->x[0], e->x[1], e->x[2]};
    if (swaps(e) && x[0] > x[1]) {
        x[0] = e->x[1];
        x[1] = e->x[0];
    }
    uint64_t h = flxi_hash_u64(FLXI_HASH_SEED, e->kind | (uint64_t)e->op << 8 | (uint64_t)e->type << 16 |
                                                   (uint64_t)e->order << 24 | (uint64_t)e->ref << 32);
    h = flxi_hash_bytes(h, x, sizeof x);
    return e->num_args ? flxi_hash_bytes(h, e->args, e->num_args * sizeof *e->args) : flxi_hash_u64(h, e->bits);
}

static bool same_value(const flxi_kx *a, const flxi_kx *b)
{
    if (a->kind != b->kind || a->op != b->op || a->type != b->type || a->order != b->order || a->ref != b->ref ||
        a->num_args != b->num_args)
        return false;
    bool is_turned = swaps(a) && a->x[0] == b->x[1] && a->x[1] == b->x[0];
    if (!is_turned && memcmp(a->x, b->x, sizeof a->x) != 0)
        return false;
    return a->num_args ? memcmp(a->args, b->args, a->num_args * sizeof *a->args) == 0 : a->bits == b->bits;
}

static uint32_t intern(sharer *c, const flxi_kx *e, uint8_t does, uint32_t cost)
{
    uint64_t h = hash_value(e);
    uint32_t found;
    for (flxi_probe p = flxi_index_first(&c->index, h); flxi_index_next(&c->index, &p, &found);)
        if (same_value(&c->values.at[found].e, e))
            return found;
    found = (uint32_t)c->values.n;
    value v = {.e = *e, .does = does, .cost = cost};
    if (!flxi_push(c->mem, &c->values, v) || !flxi_index_add(c->mem, &c->index, h, found)) {
        fail(c);
        return 0;
    }
    return found;
}

static uint32_t var_value(sharer *c, uint32_t var, uint8_t type)
{
    uint8_t does = var <= c->k->num_vars && c->f.vars[var].assigns ? KF_STATE : 0;
    return intern(c, &(flxi_kx){.kind = KX_VAR, .type = type, .ref = var}, does, 0);
}

/* The number is final when it is first requested: variables are declared before they are used. */
static uint32_t number_of(sharer *c, uint32_t expr)
{
    if (!expr || c->failed)
        return 0;
    if (c->value_of[expr])
        return c->value_of[expr];
    flxi_kx e = c->k->exprs[expr];
    if (e.kind == KX_VAR && c->same[e.ref])
        return c->value_of[expr] = c->same[e.ref];
    for (int i = flxi_kx_operands(&e); i-- > 0;)
        e.x[i] = number_of(c, e.x[i]);
    if (e.num_args) {
        uint32_t *args = flxi_new(&c->arena, uint32_t, e.num_args);
        if (!args) {
            fail(c);
            return 0;
        }
        for (size_t i = 0; i < e.num_args; i++)
            args[i] = number_of(c, e.args[i]);
        e.args = args;
    }
    return c->value_of[expr] = intern(c, &e, c->f.does[expr], c->f.cost[expr]);
}

/* ---- Recorded values ---- */

static bool is_stable(const sharer *c, uint32_t number, uint32_t from, uint32_t to)
{
    const value *v = &c->values.at[number];
    const flxi_kx *e = &v->e;
    if (!(v->does & (KF_MEMORY | KF_STATE | KF_FOREIGN)))
        return true;
    if (e->kind == KX_VAR && e->ref <= c->k->num_vars && !flxi_kfacts_is_same(&c->f, e->ref, from, to))
        return false;
    if (e->kind == KX_LOAD && !flxi_kfacts_is_kept(&c->f, e->ref, from, to))
        return false;
    if (e->kind == KX_CALL && (c->f.fn_does[e->ref] & KF_FOREIGN))
        return false;
    for (int i = flxi_kx_operands(e); i-- > 0;)
        if (!is_stable(c, e->x[i], from, to))
            return false;
    for (size_t i = 0; i < e->num_args; i++)
        if (!is_stable(c, e->args[i], from, to))
            return false;
    return true;
}

static void file(sharer *c, uint32_t number, uint32_t holder)
{
    value *v = &c->values.at[number];
    if (!flxi_push(c->mem, &c->filings, ((filing){number, v->at, v->holder}))) {
        fail(c);
        return;
    }
    v->at = c->at;
    v->holder = holder;
}

static void open_scope(sharer *c)
{
    if (!flxi_push(c->mem, &c->scopes, c->filings.n))
        fail(c);
}

static void close_scope(sharer *c)
{
    if (c->failed)
        return;
    size_t first = c->scopes.at[--c->scopes.n];
    while (c->filings.n > first) {
        const filing *u = &c->filings.at[--c->filings.n];
        c->values.at[u->value].at = u->at;
        c->values.at[u->value].holder = u->holder;
    }
}

static bool may_share(const sharer *c, const value *v)
{
    return v->e.kind != KX_LITERAL && v->e.kind != KX_VAR && !(v->does & (KF_EFFECT | KF_CONVERGENT | KF_HELD)) &&
           !(c->acts && (v->does & (KF_MEMORY | KF_FOREIGN)));
}

/* Ids cost nothing, but repeated ones are easier to read with a name. */
static bool is_worth(const value *v)
{
    return v->cost >= MIN_COST || v->e.kind == KX_ID;
}

/* Whether the value is recorded and may be reused. */
static bool is_found(const sharer *c, uint32_t number)
{
    const value *v = &c->values.at[number];
    return v->at && is_stable(c, number, v->at, flxi_kfacts_reach(&c->f, v->at, c->at));
}

static uint64_t hash_want(uint32_t number, uint32_t at)
{
    return flxi_hash_u64(FLXI_HASH_SEED, number | (uint64_t)at << 32);
}

/* A recorded value without a holder occurs again: request a holder. */
static uint32_t holder_of(sharer *c, uint32_t number)
{
    value *v = &c->values.at[number];
    if (v->holder || c->r)
        return v->holder;
    uint32_t i = (uint32_t)c->wants.n;
    if (!flxi_push(c->mem, &c->wants, ((want){v->at, number, 0})) ||
        !flxi_index_add(c->mem, &c->want_index, hash_want(number, v->at), i)) {
        fail(c);
        return 0;
    }
    return v->holder = c->k->num_vars + 1 + i;
}

/* ---- The first walk ---- */

static void look(sharer *c, uint32_t number)
{
    if (!number || c->failed)
        return;
    flxi_kx e = c->values.at[number].e;
    if (may_share(c, &c->values.at[number])) {
        if (is_found(c, number)) {
            holder_of(c, number);
            c->hits++;
            return;
        }
        if (is_worth(&c->values.at[number]))
            file(c, number, 0);
    }
    for (int i = 0; i < flxi_kx_operands(&e); i++)
        look(c, e.x[i]);
    for (size_t i = 0; i < e.num_args; i++)
        look(c, e.args[i]);
}

/* Whether a let is redundant, because another variable holds its value. */
static bool takes_over(sharer *c, const flxi_ks *s, uint32_t number)
{
    const value *v = &c->values.at[number];
    if (flxi_kfacts_is_assigned(&c->f, s->var))
        return false;
    if (v->e.kind == KX_VAR && !(v->does & KF_STATE)) {
        c->same[s->var] = number;
        return true;
    }
    uint8_t type = v->e.type;
    uint32_t holder = may_share(c, v) && is_found(c, number) ? holder_of(c, number) : 0;
    return holder && (c->same[s->var] = var_value(c, holder, type));
}

/* From its let on, the variable holds the value. */
static void hold(sharer *c, const flxi_ks *s, uint32_t number)
{
    if (!flxi_kfacts_is_assigned(&c->f, s->var) && may_share(c, &c->values.at[number]))
        file(c, number, s->var);
}

static void look_at_list(sharer *c, flxi_klist list);

static void look_at_stmt(sharer *c, const flxi_ks *s)
{
    c->acts = (c->f.does[s->a] | c->f.does[s->b]) & KF_EFFECT;
    uint32_t a = number_of(c, s->a), b = number_of(c, s->b);
    if (c->failed || (s->kind == KS_LET && takes_over(c, s, a)))
        return;
    look(c, a);
    look(c, b);
    if (s->kind == KS_LET && !c->failed)
        hold(c, s, a);
    look_at_list(c, s->body);
    look_at_list(c, s->other);
}

static void look_at_statements(sharer *c, flxi_klist list)
{
    for (size_t i = 0; i < list.n && !c->failed; i++) {
        c->at++;
        look_at_stmt(c, &list.at[i]);
    }
}

static void look_at_list(sharer *c, flxi_klist list)
{
    open_scope(c);
    look_at_statements(c, list);
    close_scope(c);
}

static void look_at_program(sharer *c)
{
    const flx_kernel *k = c->k;
    for (uint32_t i = 1; i <= k->num_fns; i++) {
        open_scope(c);
        look_at_statements(c, k->fns[i].body);
        c->at++;
        c->acts = c->f.does[k->fns[i].result] & KF_EFFECT;
        look(c, number_of(c, k->fns[i].result));
        close_scope(c);
    }
    look_at_list(c, k->body);
}

/* ---- The second walk ---- */

static uint32_t build(sharer *c, uint32_t number);

static uint32_t build_node(sharer *c, uint32_t number)
{
    flxi_kx e = c->values.at[number].e;
    uint32_t x[3] = {0};
    uint32_t *args = NULL;
    if (e.kind == KX_VAR) {
        bool is_new = e.ref > c->k->num_vars;
        return flxi_kb_var(c->r->to, is_new ? c->wants.at[e.ref - c->k->num_vars - 1].var : c->r->vars[e.ref]);
    }
    for (int i = 0; i < flxi_kx_operands(&e); i++)
        x[i] = build(c, e.x[i]);
    if (e.num_args && !(args = flxi_new(&c->arena, uint32_t, e.num_args))) {
        fail(c);
        return 0;
    }
    for (size_t i = 0; i < e.num_args; i++)
        args[i] = build(c, e.args[i]);
    return flxi_krewrite_rebuild(c->r, &e, x, args);
}

static want *wanted(sharer *c, uint32_t number)
{
    uint32_t i;
    for (flxi_probe p = flxi_index_first(&c->want_index, hash_want(number, c->at));
         flxi_index_next(&c->want_index, &p, &i);)
        if (c->wants.at[i].value == number && c->wants.at[i].at == c->at)
            return &c->wants.at[i];
    return NULL;
}

static uint32_t holder_expr(sharer *c, uint32_t holder)
{
    uint32_t n = c->k->num_vars;
    return flxi_kb_var(c->r->to, holder > n ? c->wants.at[holder - n - 1].var : c->r->vars[holder]);
}

/* The expression for a value here. A requested variable is declared right away: the statement itself comes later. */
static uint32_t build(sharer *c, uint32_t number)
{
    if (!number || c->failed || !flxi_kb_ok(c->r->to))
        return 0;
    const value *v = &c->values.at[number];
    if (!may_share(c, v))
        return build_node(c, number);
    if (is_found(c, number)) {
        if (v->holder)
            return holder_expr(c, v->holder);
    } else if (is_worth(v)) {
        want *w = wanted(c, number);
        if (w) {
            uint32_t e = build_node(c, number);
            const char *stem = v->e.kind == KX_ID ? id_names[v->e.op] : "t";
            w->var = flxi_kb_let(c->r->to, flxi_krewrite_fresh_name(c->r, stem), e);
            file(c, number, c->k->num_vars + 1 + (uint32_t)(w - c->wants.at));
            return flxi_kb_var(c->r->to, w->var);
        }
        file(c, number, 0);
    }
    return build_node(c, number);
}

static uint32_t share_expr(flxi_krewrite *r, uint32_t e)
{
    sharer *c = r->user;
    const flxi_ks *s = c->f.stmt[r->at];
    c->at = r->at;
    c->acts = (s ? c->f.does[s->a] | c->f.does[s->b] : c->f.does[e]) & KF_EFFECT;
    return build(c, c->value_of[e]);
}

static bool share_stmt(flxi_krewrite *r, const flxi_ks *s)
{
    sharer *c = r->user;
    if (s->kind != KS_LET)
        return false;
    if (!c->same[s->var]) {
        flxi_krewrite_let(r, s->var, flxi_krewrite_expr(r, s->a));
        hold(c, s, c->value_of[s->a]);
    }
    return true;
}

static void open_share(flxi_krewrite *r, flxi_klist list)
{
    (void)list;
    open_scope(r->user);
}

static void close_share(flxi_krewrite *r, flxi_klist list)
{
    (void)list;
    close_scope(r->user);
}

static void begin_share(flxi_krewrite *r)
{
    ((sharer *)r->user)->r = r;
}

/* ---- The pass ---- */

static bool shares(const sharer *c)
{
    bool any = c->hits > 0;
    for (uint32_t v = 1; !any && v <= c->k->num_vars; v++)
        any = c->same[v];
    return any;
}

static bool make_room(sharer *c)
{
    value none = {0};
    c->value_of = flxi_new(&c->arena, uint32_t, (size_t)c->k->num_exprs + 1);
    c->same = flxi_new(&c->arena, uint32_t, (size_t)c->k->num_vars + 1);
    return c->value_of && c->same && flxi_push(c->mem, &c->values, none);
}

flx_kernel *flxi_kpass_cse(const flx_kernel *k, const flxi_ksimplify_options *o, flx_error *err)
{
    static const flxi_krewrite_hooks hooks = {
        .begin = begin_share, .expr = share_expr, .stmt = share_stmt, .open = open_share, .close = close_share};
    sharer c = {.k = k, .mem = flxi_kernel_mem(k)};
    flx_kernel *result = NULL;
    (void)o;
    flxi_arena_init(&c.arena, c.mem);
    if (flxi_kfacts_find(&c.f, k, err) == FLX_OK) {
        c.failed = !make_room(&c);
        if (!c.failed)
            look_at_program(&c);
        flxi_krewrite r = {.from = k, .hooks = &hooks, .user = &c};
        if (c.failed)
            flxi_oom(err, "common subexpressions");
        else
            result = shares(&c) ? flxi_krewrite_run(&r, err) : flxi_krewrite_nothing(k);
    }
    flxi_vec_free(c.mem, &c.values);
    flxi_vec_free(c.mem, &c.wants);
    flxi_vec_free(c.mem, &c.filings);
    flxi_vec_free(c.mem, &c.scopes);
    flxi_index_free(c.mem, &c.index);
    flxi_index_free(c.mem, &c.want_index);
    flxi_kfacts_free(&c.f);
    flxi_arena_free(&c.arena);
    return result;
}
