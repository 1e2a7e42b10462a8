/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_uniform.c: divergence analysis.

   Everything starts as uniform. Some values diverge by themselves: ids inside a workgroup, loads of memory that other
   invocations may write, atomics, values from other lanes, extensions. Divergence then spreads along a dependence
   graph: an expression depends on its operands, a variable on all values assigned to it and on the control flow at each
   assignment, a private buffer likewise on its stores (value, index and control flow), control flow on conditions, loop
   bounds and earlier returns. Each dependence is followed once, so the time is linear; walking the program until
   nothing changes would be quadratic.

   Control flow is a number that changes where it may begin to differ: in the bodies of an `if` or loop, and after a
   statement that contains a return, because from there on some invocations may be missing. A loop that contains a
   return depends on it from its first statement: the next iteration comes after it. */
#include "kernel/check/kernel_uniform.h"

typedef struct {
    uint32_t from, to; /* when `from` diverges, so does `to` */
} edge;

typedef struct {
    const flx_kernel *k;
    const flxi_allocator *mem;
    flxi_kuniform_scope scope;
    uint32_t vars, buffers, fns; /* node of number 0 of each; the node of an expression is its number */
    uint32_t num_nodes;
    uint32_t returned; /* node of the returns so far, 0 if there is none */
    FLXI_VEC(edge) edges;
    FLXI_VEC(uint32_t) seeds; /* what diverges by itself, later the worklist */
    FLXI_VEC(uint32_t) flow;  /* node of the control flow, by statement of the body */
    bool failed;              /* memory is exhausted */
} finder;

static void add_edge(finder *f, uint32_t from, uint32_t to)
{
    edge e = {from, to};
    if (!f->failed && !flxi_push(f->mem, &f->edges, e))
        f->failed = true;
}

static void add_seed(finder *f, uint32_t node)
{
    if (!f->failed && !flxi_push(f->mem, &f->seeds, node))
        f->failed = true;
}

/* A number of a table as a node; in invalid programs it may be anything. */
static uint32_t expr_node(const finder *f, uint32_t e)
{
    return e <= f->k->num_exprs ? e : 0;
}

static uint32_t var_node(const finder *f, uint32_t v)
{
    return f->vars + (v <= f->k->num_vars ? v : 0);
}

static uint32_t buffer_node(const finder *f, uint32_t b)
{
    return f->buffers + (b <= f->k->num_buffers ? b : 0);
}

static uint32_t fn_node(const finder *f, uint32_t fn)
{
    return f->fns + (fn <= f->k->num_fns ? fn : 0);
}

/* ---- Expressions ---- */

static bool is_uniform_id(const finder *f, uint8_t which)
{
    return which == FLX_KERNEL_NUM_WORKGROUPS || (which == FLX_KERNEL_WORKGROUP_ID && f->scope == KUNIFORM_WORKGROUP);
}

static void add_load(finder *f, const flxi_kx *e, uint32_t node)
{
    uint8_t access = e->ref <= f->k->num_buffers ? f->k->buffers[e->ref].access : 0;
    if (access == FLX_KERNEL_PRIVATE)
        add_edge(f, buffer_node(f, e->ref), node);
    else if (access != FLX_KERNEL_UNIFORM)
        add_seed(f, node);
}

static void add_expr(finder *f, uint32_t node)
{
    const flxi_kx *e = &f->k->exprs[node];
    switch ((flxi_kx_kind)e->kind) {
    case KX_VAR: add_edge(f, var_node(f, e->ref), node); break;
    case KX_LOAD: add_load(f, e, node); break;
    case KX_ID:
        if (!is_uniform_id(f, e->op))
            add_seed(f, node);
        break;
    case KX_CALL: add_edge(f, fn_node(f, e->ref), node); break;
    case KX_LANE:
    case KX_ATOMIC:
    case KX_SUBGROUP_ADD:
    case KX_SUBGROUP_SHUFFLE:
    case KX_SUBGROUP_BALLOT:
    case KX_OPAQUE: add_seed(f, node); break;
    default: break;
    }
    for (int i = 0; i < flxi_kx_operands(e); i++)
        add_edge(f, expr_node(f, e->x[i]), node);
    for (size_t i = 0; i < e->num_args; i++)
        add_edge(f, expr_node(f, e->args[i]), node);
}

/* ---- Statements ---- */

static uint32_t new_flow(finder *f, uint32_t outer)
{
    add_edge(f, outer, f->num_nodes);
    return f->num_nodes++;
}

static void add_return(finder *f, uint32_t flow)
{
    uint32_t node = new_flow(f, flow);
    if (f->returned)
        add_edge(f, f->returned, node);
    f->returned = node;
}

static void walk(finder *f, flxi_klist list, uint32_t flow, uint32_t fn);

/* The bodies of an `if` or loop. */
static void walk_branches(finder *f, const flxi_ks *s, uint32_t flow, uint32_t fn)
{
    uint32_t inner = new_flow(f, flow);
    uint32_t before = f->returned;
    add_edge(f, expr_node(f, s->a), inner);
    if (s->kind == KS_LOOP)
        add_edge(f, expr_node(f, s->b), inner);
    walk(f, s->body, inner, fn);
    walk(f, s->other, inner, fn);
    if (s->kind == KS_LOOP && f->returned != before)
        add_edge(f, f->returned, inner);
}

static void add_statement(finder *f, const flxi_ks *s, uint32_t flow, uint32_t fn)
{
    switch ((flxi_ks_kind)s->kind) {
    case KS_LET:
    case KS_ASSIGN:
        add_edge(f, flow, var_node(f, s->var));
        add_edge(f, expr_node(f, s->a), var_node(f, s->var));
        break;
    case KS_STORE:
        add_edge(f, flow, buffer_node(f, s->buffer));
        add_edge(f, expr_node(f, s->a), buffer_node(f, s->buffer));
        add_edge(f, expr_node(f, s->b), buffer_node(f, s->buffer));
        break;
    case KS_LOOP:
        add_edge(f, flow, var_node(f, s->var));
        add_edge(f, expr_node(f, s->a), var_node(f, s->var));
        add_edge(f, expr_node(f, s->b), var_node(f, s->var));
        walk_branches(f, s, flow, fn);
        break;
    case KS_IF: walk_branches(f, s, flow, fn); break;
    case KS_BLOCK:
    case KS_REGION: walk(f, s->body, flow, fn); break;
    case KS_RETURN: add_return(f, flow); break;
    case KS_ASYNC_LOAD:
    case KS_ASYNC_STORE:
    case KS_COLLECTIVE: add_seed(f, buffer_node(f, s->target)); break;
    default: break;
    }
}

/* Statements of a function also contribute to the value of its calls; stores are not allowed in one, and diverge. */
static void add_to_function(finder *f, const flxi_ks *s, uint32_t fn)
{
    if (s->kind == KS_STORE)
        add_seed(f, buffer_node(f, s->buffer));
    add_edge(f, expr_node(f, s->a), fn_node(f, fn));
    add_edge(f, expr_node(f, s->b), fn_node(f, fn));
}

static void walk(finder *f, flxi_klist list, uint32_t flow, uint32_t fn)
{
    for (size_t i = 0; i < list.n; i++) {
        uint32_t before = f->returned;
        if (fn)
            add_to_function(f, &list.at[i], fn);
        else if (!f->failed && !flxi_push(f->mem, &f->flow, flow))
            f->failed = true;
        add_statement(f, &list.at[i], flow, fn);
        if (f->returned != before) {
            flow = new_flow(f, flow);
            add_edge(f, f->returned, flow);
        }
    }
}

static void gather_edges(finder *f)
{
    const flx_kernel *k = f->k;
    for (uint32_t e = 1; e <= k->num_exprs; e++)
        add_expr(f, e);
    for (uint32_t fn = 1; fn <= k->num_fns; fn++) {
        f->returned = 0;
        walk(f, k->fns[fn].body, f->num_nodes++, fn);
        add_edge(f, expr_node(f, k->fns[fn].result), fn_node(f, fn));
    }
    for (uint32_t v = 1; v <= k->num_vars; v++)
        if (k->vars[v].kind == KVAR_UNKNOWN)
            add_seed(f, var_node(f, v));
    f->returned = 0;
    walk(f, k->body, f->num_nodes++, 0);
}

/* ---- Propagation ---- */

/* `diverges` by node. The edges of a node are chained through `next`; both count from 1. */
static void spread(finder *f, uint8_t *diverges, uint32_t *first, uint32_t *next)
{
    for (size_t i = 0; i < f->edges.n; i++) {
        uint32_t from = f->edges.at[i].from;
        next[i + 1] = first[from];
        first[from] = (uint32_t)i + 1;
    }
    for (size_t i = 0; i < f->seeds.n; i++)
        diverges[f->seeds.at[i]] = 1;
    while (f->seeds.n > 0 && !f->failed) {
        uint32_t node = f->seeds.at[--f->seeds.n];
        for (uint32_t i = first[node]; i; i = next[i]) {
            uint32_t to = f->edges.at[i - 1].to;
            if (!diverges[to]) {
                diverges[to] = 1;
                add_seed(f, to);
            }
        }
    }
}

static const uint8_t *opposite(flxi_kuniform *u, const uint8_t *diverges, size_t n)
{
    uint8_t *flags = flxi_new(&u->arena, uint8_t, n);
    for (size_t i = 0; flags && i < n; i++)
        flags[i] = !diverges[i];
    return flags;
}

static bool keep_results(finder *f, flxi_kuniform *u, const uint8_t *diverges)
{
    const flx_kernel *k = f->k;
    uint8_t *buffers = flxi_new(&u->arena, uint8_t, k->num_buffers + 1u);
    uint8_t *flow = flxi_new(&u->arena, uint8_t, f->flow.n);
    u->exprs = opposite(u, diverges, k->num_exprs + 1u);
    u->vars = opposite(u, diverges + f->vars, k->num_vars + 1u);
    for (uint32_t b = 1; buffers && b <= k->num_buffers; b++)
        buffers[b] = k->buffers[b].access == FLX_KERNEL_PRIVATE && !diverges[f->buffers + b];
    for (size_t i = 0; flow && i < f->flow.n; i++)
        flow[i] = !diverges[f->flow.at[i]];
    u->buffers = buffers;
    u->flow = flow;
    u->num_flow = f->flow.n;
    return u->exprs && u->vars && buffers && flow;
}

static bool solve(finder *f, flxi_kuniform *u)
{
    flxi_arena scratch;
    flxi_arena_init(&scratch, f->mem);
    uint8_t *diverges = flxi_new(&scratch, uint8_t, f->num_nodes);
    uint32_t *first = flxi_new(&scratch, uint32_t, f->num_nodes);
    uint32_t *next = flxi_new(&scratch, uint32_t, f->edges.n + 1);
    bool ok = diverges && first && next;
    if (ok) {
        spread(f, diverges, first, next);
        ok = !f->failed && keep_results(f, u, diverges);
    }
    flxi_arena_free(&scratch);
    return ok;
}

flx_code flxi_kuniform_find(const flx_kernel *k, flxi_kuniform_scope scope, flxi_kuniform *u, flx_error *err)
{
    finder f = {.k = k, .mem = flxi_kernel_mem(k), .scope = scope};
    *u = (flxi_kuniform){0};
    flxi_arena_init(&u->arena, f.mem);
    f.vars = k->num_exprs + 1;
    f.buffers = f.vars + k->num_vars + 1;
    f.fns = f.buffers + k->num_buffers + 1;
    f.num_nodes = f.fns + k->num_fns + 1;
    gather_edges(&f);
    bool ok = !f.failed && solve(&f, u);
    flxi_vec_free(f.mem, &f.edges);
    flxi_vec_free(f.mem, &f.seeds);
    flxi_vec_free(f.mem, &f.flow);
    if (ok)
        return FLX_OK;
    flxi_kuniform_free(u);
    return flxi_oom(err, "divergence analysis");
}

void flxi_kuniform_free(flxi_kuniform *u)
{
    flxi_arena_free(&u->arena);
    *u = (flxi_kuniform){0};
}
