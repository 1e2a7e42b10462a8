/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_plan.c: what a run of a graph takes on a rank: the graph is compiled to steps, as for the cpu but without
   machine code, and the steps are added up, those of bodies as often as they run. A step takes as long as its
   arithmetic or as its memory, whichever is longer. Exchanges follow each other, and so do other steps; one that the
   program runs beside the steps after it delays the one that awaits it only. Of branches each quantity is the most that
   one of them takes. */
#include "plan/mesh_plan.h"

#include "backend/devices.h"
#include "base/options.h"
#include "compile/program.h"
#include "graph/op/work.h"
#include "ops/collective/exchange.h"

#include <math.h>
#include <stdio.h>

/* Exchanges of one op along one axis. */
typedef struct {
    int64_t count, messages, bytes;
    double seconds;
} exchange_sum;

typedef struct {
    int64_t flops, traffic;
    double seconds, exchange_seconds;
    double elapsed; /* of both, as far as they follow each other */
    double link_bytes[FLXI_MACHINE_LINKS];
    int64_t open_loops, choices;
    exchange_sum *by_kind; /* NULL: not known yet */
} cost;

typedef struct {
    const char *op, *axis_name;
} exchange_kind;

typedef struct {
    flxi_layout layout;
    flxi_arena arena;
    flxi_program program;
    cost *costs; /* by number of a routine */
    exchange_kind *kinds;
    size_t num_kinds, room;
    flx_error *err;
} planner;

/* ---- Sums ---- */

static void add_cost(const planner *p, cost *sum, const cost *one, int64_t times)
{
    double n = (double)times;
    sum->flops = flxi_plus(sum->flops, flxi_times(one->flops, times));
    sum->traffic = flxi_plus(sum->traffic, flxi_times(one->traffic, times));
    sum->open_loops += one->open_loops;
    sum->choices += one->choices;
    sum->seconds += n * one->seconds;
    sum->exchange_seconds += n * one->exchange_seconds;
    sum->elapsed += n * one->elapsed;
    for (int k = 0; k < FLXI_MACHINE_LINKS; k++)
        sum->link_bytes[k] += n * one->link_bytes[k];
    for (size_t k = 0; k < p->num_kinds; k++) {
        const exchange_sum *x = &one->by_kind[k];
        exchange_sum *y = &sum->by_kind[k];
        y->count = flxi_plus(y->count, flxi_times(x->count, times));
        y->messages = flxi_plus(y->messages, flxi_times(x->messages, times));
        y->bytes = flxi_plus(y->bytes, flxi_times(x->bytes, times));
        y->seconds += n * x->seconds;
    }
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Of each quantity the most that one of several bodies takes. */
static void keep_most(const planner *p, cost *most, const cost *one)
{
    most->flops = larger(most->flops, one->flops);
    most->traffic = larger(most->traffic, one->traffic);
    most->open_loops += one->open_loops;
    most->choices += one->choices;
    most->seconds = fmax(most->seconds, one->seconds);
    most->exchange_seconds = fmax(most->exchange_seconds, one->exchange_seconds);
    most->elapsed = fmax(most->elapsed, one->elapsed);
    for (int k = 0; k < FLXI_MACHINE_LINKS; k++)
        most->link_bytes[k] = fmax(most->link_bytes[k], one->link_bytes[k]);
    for (size_t k = 0; k < p->num_kinds; k++) {
        const exchange_sum *x = &one->by_kind[k];
        exchange_sum *y = &most->by_kind[k];
        y->count = larger(y->count, x->count);
        y->messages = larger(y->messages, x->messages);
        y->bytes = larger(y->bytes, x->bytes);
        y->seconds = fmax(y->seconds, x->seconds);
    }
}

/* ---- Steps ---- */

static flx_code cost_of_routine(planner *p, const flxi_routine *l, const cost **out);

static flx_code begin_cost(planner *p, cost *c)
{
    c->by_kind = flxi_new(&p->arena, exchange_sum, p->num_kinds + 1);
    return c->by_kind ? FLX_OK : flxi_oom(p->err, "a plan");
}

/* Bodies as often as they run; of branches the most, as which of them runs depends on values. */
static flx_code add_bodies(planner *p, const flxi_routine *l, const flxi_step *s, cost *sum)
{
    const flxi_node *n = flxi_node_at(l->g, s->node);
    cost most = {0};
    uint32_t num_branches = 0;
    bool is_open = false;
    FLXI_TRY(begin_cost(p, &most));
    for (uint32_t k = 0; k < s->num_bodies; k++) {
        flxi_body b;
        const cost *one;
        if (!flxi_ops[n->op].rules->bodies(l->g, n, k, &b))
            break;
        FLXI_TRY(cost_of_routine(p, s->bodies[k], &one));
        bool is_branch = b.role == BODY_BRANCH;
        is_open |= b.runs == FLXI_ABSENT && !is_branch;
        if (!is_branch)
            add_cost(p, sum, one, b.runs == FLXI_ABSENT ? 1 : flxi_work_extent(b.runs));
        else
            keep_most(p, &most, one);
        num_branches += is_branch;
    }
    add_cost(p, sum, &most, 1);
    sum->choices += num_branches > 1;
    sum->open_loops += is_open;
    return FLX_OK;
}

static size_t find_kind(const planner *p, const flxi_collective *c)
{
    size_t i = 0;
    while (i < p->num_kinds && (strcmp(p->kinds[i].op, c->op) != 0 || strcmp(p->kinds[i].axis_name, c->axis_name) != 0))
        i++;
    return i;
}

static flx_code add_exchange(planner *p, const flxi_collective *c, cost *sum)
{
    flxi_exchange_cost x;
    FLXI_TRY(flxi_exchange_cost_of(&p->layout, c, &x, p->err));
    exchange_sum *y = &sum->by_kind[find_kind(p, c)];
    y->count++;
    y->messages = flxi_plus(y->messages, x.messages);
    y->bytes = flxi_plus(y->bytes, x.bytes);
    y->seconds += x.seconds;
    sum->exchange_seconds += x.seconds;
    for (uint32_t k = 0; k < p->layout.machine.num_links; k++)
        sum->link_bytes[k] += x.link_bytes[k];
    return FLX_OK;
}

static void add_work(const planner *p, const flxi_step *s, cost *sum)
{
    const flx_machine *m = &p->layout.machine;
    sum->flops = flxi_plus(sum->flops, s->flops);
    sum->traffic = flxi_plus(sum->traffic, s->bytes);
    if (m->flops > 0) {
        double computing = (double)s->flops / m->flops, moving = m->bandwidth > 0 ? (double)s->bytes / m->bandwidth : 0;
        sum->seconds += computing > moving ? computing : moving;
    }
}

static bool is_exchange(const flxi_routine *l, const flxi_step *s, flxi_collective *out)
{
    return (s->kind == STEP_EVALUATE || s->kind == STEP_ROUTE) &&
           flxi_exchange_of(l->g, flxi_node_at(l->g, s->node), out);
}

/* ---- Time ---- */

/* When the exchanges of a routine end. */
typedef struct {
    double last;
    double *of_step;
} exchange_ends;

/* A step of bodies, in which exchanges wait for those that were started before. */
static flx_code pass_bodies(planner *p, const flxi_routine *l, const flxi_step *s, exchange_ends *ends, cost *sum)
{
    double exchanging = sum->exchange_seconds, before = sum->elapsed;
    FLXI_TRY(add_bodies(p, l, s, sum));
    if (sum->exchange_seconds > exchanging)
        sum->elapsed += fmax(ends->last - before, 0);
    return FLX_OK;
}

static flx_code pass_exchange(planner *p, const flxi_collective *c, uint32_t i, bool is_awaited, exchange_ends *ends,
                              cost *sum)
{
    double before = sum->exchange_seconds;
    FLXI_TRY(add_exchange(p, c, sum));
    ends->last = fmax(ends->last, sum->elapsed) + (sum->exchange_seconds - before);
    ends->of_step[i] = ends->last;
    if (is_awaited)
        sum->elapsed = ends->last;
    return FLX_OK;
}

static flx_code pass_step(planner *p, const flxi_routine *l, uint32_t i, exchange_ends *ends, cost *sum)
{
    const flxi_step *s = &l->steps[i];
    flxi_collective c;
    if (s->awaits)
        sum->elapsed = fmax(sum->elapsed, ends->of_step[s->awaits - 1]);
    if (s->num_bodies)
        return pass_bodies(p, l, s, ends, sum);
    if (is_exchange(l, s, &c))
        return pass_exchange(p, &c, i, !s->ends_before, ends, sum);
    double before = sum->seconds;
    add_work(p, s, sum);
    sum->elapsed += sum->seconds - before;
    return FLX_OK;
}

/* Worked out once for each routine: bodies may be used exponentially often. */
static flx_code cost_of_routine(planner *p, const flxi_routine *l, const cost **out)
{
    cost *sum = &p->costs[l->number];
    *out = sum;
    if (sum->by_kind)
        return FLX_OK;
    exchange_ends ends = {.of_step = flxi_new(&p->arena, double, l->num_steps + 1)};
    if (!ends.of_step)
        return flxi_oom(p->err, "a plan");
    FLXI_TRY(begin_cost(p, sum));
    for (uint32_t i = 0; i < l->num_steps; i++)
        FLXI_TRY(pass_step(p, l, i, &ends, sum));
    sum->elapsed = fmax(sum->elapsed, ends.last);
    return FLX_OK;
}

/* ---- Memory ---- */

/* Whether an output is the next value of a parameter, and overwrites it. */
static bool overwrites(const planner *p, const flxi_routine *l, size_t output)
{
    size_t leaf;
    const char *name = l->g->outputs.at[output].name;
    return strncmp(name, "new_", 4) == 0 && flxi_find_leaf(l->g, name + 4, &leaf) &&
           flxi_routine_may_share(&p->program, l, leaf, output);
}

static int64_t bytes_of(const flx_type *t)
{
    size_t nbytes = 0;
    return flxi_static_bytes(t, &nbytes) && nbytes <= INT64_MAX ? (int64_t)nbytes : INT64_MAX;
}

static int64_t count_values(const planner *p, const flxi_routine *l)
{
    int64_t sum = 0;
    for (size_t i = 0; i < l->g->leaves.n; i++)
        sum = flxi_plus(sum, bytes_of(flxi_type_at(l->g, l->g->leaves.at[i])));
    for (size_t i = 0; i < l->g->outputs.n; i++)
        if (!overwrites(p, l, i))
            sum = flxi_plus(sum, bytes_of(flxi_type_at(l->g, l->g->outputs.at[i].val)));
    for (size_t i = 0; i < l->g->constants.n; i++)
        sum = flxi_plus(sum, (int64_t)l->g->constants.at[i]->nbytes);
    return sum;
}

static flx_share *list_shares(planner *p, const flx_graph *g, size_t *count)
{
    flx_share *list = flxi_new(&p->arena, flx_share, g->outputs.n + 1);
    *count = 0;
    for (size_t i = 0; list && i < g->outputs.n; i++) {
        size_t leaf;
        const char *name = g->outputs.at[i].name;
        if (strncmp(name, "new_", 4) == 0 && flxi_find_leaf(g, name + 4, &leaf))
            list[(*count)++] = (flx_share){leaf, i};
    }
    return list;
}

/* ---- The machine ---- */

static bool is_positive(double x)
{
    return x > 0 && isfinite(x);
}

static bool is_not_negative(double x)
{
    return x >= 0 && isfinite(x);
}

static flx_code check_link(const flx_link *l, uint32_t number, int64_t before, flx_error *err)
{
    if (l->ranks < 1 || l->ranks % before)
        return flxi_fail_hint(err, FLX_E_USAGE, "links are listed from the inside to the outside",
                              "link %u joins %lld ranks, which is not a multiple of the %lld before", number,
                              (long long)l->ranks, (long long)before);
    if (!is_positive(l->bandwidth))
        return flxi_fail(err, FLX_E_USAGE, "link %u has a bandwidth of %g, which is not above 0 and finite", number,
                         l->bandwidth);
    if (!is_not_negative(l->latency))
        return flxi_fail(err, FLX_E_USAGE, "link %u has a latency of %g, which is not 0 or more and finite", number,
                         l->latency);
    return FLX_OK;
}

static flx_code check_machine(const flx_machine *m, flx_error *err)
{
    if (!is_positive(m->flops))
        return flxi_fail(err, FLX_E_USAGE, "a machine has %g flops, which is not above 0 and finite", m->flops);
    if (!is_not_negative(m->bandwidth) || !is_not_negative(m->message))
        return flxi_fail(err, FLX_E_USAGE,
                         "a machine has bandwidth %g and message %g, which must be 0 or more and finite", m->bandwidth,
                         m->message);
    if (!m->links || m->num_links < 1 || m->num_links > FLXI_MACHINE_LINKS)
        return flxi_fail(err, FLX_E_USAGE, "a machine has 1 to %d links", FLXI_MACHINE_LINKS);
    for (uint32_t i = 0; i < m->num_links; i++)
        FLXI_TRY(check_link(&m->links[i], i + 1, i ? m->links[i - 1].ranks : 1, err));
    return FLX_OK;
}

static flx_code read_layout(planner *p, const char *axes, const flx_machine *given)
{
    flxi_layout *l = &p->layout;
    l->arena = &p->arena;
    l->ranks = axes ? 0 : 1;
    FLXI_TRY(flxi_mesh_read_axes(axes, &l->ranks, l->axes, &l->num_axes, p->err));
    if (given) {
        FLXI_TRY(FLXI_READ_OPTIONS(flx_machine, &l->machine, given, p->err));
        FLXI_TRY(check_machine(&l->machine, p->err));
        int64_t joined = l->machine.links[l->machine.num_links - 1].ranks;
        if (joined < l->ranks)
            return flxi_fail_hint(p->err, FLX_E_USAGE, "add a link that joins more",
                                  "the links of the machine join %lld ranks, but the mesh has %lld", (long long)joined,
                                  (long long)l->ranks);
    }
    l->counts = flxi_new(&p->arena, int64_t, (size_t)l->ranks);
    l->targets = flxi_new(&p->arena, int64_t, (size_t)l->ranks);
    return l->counts && l->targets ? FLX_OK : flxi_oom(p->err, "a plan");
}

/* ---- The whole ---- */

static flx_code compile(planner *p, const flx_graph *g)
{
    const flxi_device *device;
    flx_compile_options o = {.struct_size = sizeof o, .threads = 1}; /* the plan is the same on all machines */
    flxi_program *m = &p->program;
    FLXI_TRY(flxi_device_for_showing("cpu", &device, p->err));
    flx_share *shares = list_shares(p, g, &o.num_shares);
    if (!shares)
        return flxi_oom(p->err, "a plan");
    flxi_program_init(m, g->ctx, device, &o);
    FLXI_TRY(flxi_routine_compile(m, g, &m->main, p->err));
    flxi_routine_share(m, m->main, shares, o.num_shares);
    FLXI_TRY(flxi_routine_explain(m, m->main, p->err));
    return flxi_routine_plan(m, m->main, p->err);
}

/* All that there are in the program. */
static flx_code list_kinds(planner *p)
{
    const flxi_program *m = &p->program;
    p->kinds = flxi_new(&p->arena, exchange_kind, m->all_steps.n + 1);
    p->costs = flxi_new(&p->arena, cost, m->num_routines + 1);
    if (!p->kinds || !p->costs)
        return flxi_oom(p->err, "a plan");
    for (size_t i = 0; i < m->all_steps.n; i++) {
        const flxi_routine *l = m->all_steps.at[i].routine;
        flxi_collective c;
        if (!is_exchange(l, &l->steps[m->all_steps.at[i].step], &c) || find_kind(p, &c) < p->num_kinds)
            continue;
        p->kinds[p->num_kinds++] = (exchange_kind){c.op, c.axis_name};
    }
    return FLX_OK;
}

static void fill(const planner *p, const cost *c, flx_mesh_plan *out)
{
    const flxi_routine *main = p->program.main;
    out->ranks = p->layout.ranks;
    out->flops = c->flops;
    out->traffic = c->traffic;
    out->open_loops = c->open_loops;
    out->choices = c->choices;
    out->compute_seconds = c->seconds;
    out->exchange_seconds = c->exchange_seconds;
    out->run_seconds = c->elapsed;
    out->values = count_values(p, main);
    out->work = (int64_t)main->arena_bytes;
    out->exchanges = out->messages = out->bytes = 0;
    out->count = p->num_kinds;
    for (size_t k = 0; k < p->num_kinds; k++) {
        const exchange_sum *x = &c->by_kind[k];
        out->exchanges = flxi_plus(out->exchanges, x->count);
        out->messages = flxi_plus(out->messages, x->messages);
        out->bytes = flxi_plus(out->bytes, x->bytes);
        if (!out->list || k >= out->capacity)
            continue;
        flx_plan_exchange *y = &out->list[k];
        *y = (flx_plan_exchange){.count = x->count, .messages = x->messages, .bytes = x->bytes, .seconds = x->seconds};
        snprintf(y->op, sizeof y->op, "%s", p->kinds[k].op);
        snprintf(y->axis_name, sizeof y->axis_name, "%s", p->kinds[k].axis_name);
    }
    for (uint32_t k = 0; out->link_bytes && k < p->layout.machine.num_links; k++)
        out->link_bytes[k] = c->link_bytes[k];
}

static flx_code make_plan(planner *p, const flx_graph *g, const char *axes, const flx_machine *machine,
                          flx_mesh_plan *out)
{
    flx_mesh_plan full;
    const cost *c;
    FLXI_TRY(flx_graph_error(g, p->err));
    FLXI_TRY(FLXI_READ_OPTIONS(flx_mesh_plan, &full, out, p->err));
    if (g->symbols.n)
        return flxi_fail_hint(p->err, FLX_E_UNBOUND_DIM, "give the extents: --set DIM=INT (flx_specialise())",
                              "'%.60s' has the symbolic dimension %.60s, whose extent decides the cost", g->name,
                              g->symbols.at[0]);
    FLXI_TRY(read_layout(p, axes, machine));
    FLXI_TRY(compile(p, g));
    FLXI_TRY(list_kinds(p));
    FLXI_TRY(cost_of_routine(p, p->program.main, &c));
    fill(p, c, &full);
    return FLXI_FILL_OPTIONS(flx_mesh_plan, out, &full, p->err);
}

flx_code flx_plan_mesh(const flx_graph *g, const char *axes, const flx_machine *machine, flx_mesh_plan *out,
                       flx_error *err)
{
    flx_error local = {0};
    if (!g || !out)
        return flxi_fail(err, FLX_E_USAGE, "flx_plan_mesh: a graph and where to write the plan are needed");
    planner p = {.err = &local};
    flxi_arena_init(&p.arena, &g->ctx->mem);
    flx_code code = make_plan(&p, g, axes, machine, out);
    flxi_program_free(&p.program);
    flxi_arena_free(&p.arena);
    if (code != FLX_OK && err)
        *err = local;
    return code;
}
