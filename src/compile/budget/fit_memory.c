/* SPDX-License-Identifier: Apache-2.0 */
/* fit_memory.c: rounds of planning, until a run works in the budget.

   A round plans the graph as it is, and lowers the highest steps by an eighth or so: by sums of two operands in the
   first round, by another order of the steps in the next one, by recomputing values in those that follow. What a round
   does depends on the graph alone, not on the budget, which only says when to stop: at the first plan that fits. A
   smaller budget therefore never gives a plan with more memory, or with less to compute. When some rounds in a row
   reach nothing new, there is nothing to reach. */
#include "compile/budget/fit_memory.h"

#include "base/host/stop.h"
#include "compile/budget/recompute.h"
#include "compile/pipeline.h"
#include "graph/op/work.h"
#include "passes/pass.h"

#include <stdio.h>

enum { MAX_ROUNDS = 400, MAX_FRUITLESS = 6 };

typedef struct {
    flxi_program *m;
    size_t budget;
    flx_graph *g;             /* held */
    flxi_position *positions; /* in `kept` */
    flxi_arena kept, scratch;
    size_t usual;    /* bytes of the first plan */
    size_t smallest; /* of all plans */
    bool is_lowered; /* this plan is the smallest so far */
    flx_error *err;
} fitting;

/* ---- A plan ---- */

/* A program of its own, without code. */
static flx_code plan(fitting *f, flxi_program *trial)
{
    const flx_compile_options *o = &f->m->options;
    flxi_program_init(trial, f->m->ctx, f->m->device, o);
    trial->grouping = f->m->grouping;
    trial->checks_kernels = f->m->checks_kernels;
    FLXI_TRY(flxi_stop_check(f->err));
    FLXI_TRY(flxi_routine_build(trial, flx_graph_retain(f->g), f->positions, &trial->main, f->err));
    flxi_routine_share(trial, trial->main, o->shares, o->num_shares);
    return flxi_routine_plan(trial, trial->main, f->err);
}

/* The graph that follows from a plan. */
static flx_code take(fitting *f, const flxi_program *trial, const uint32_t *order, const flxi_recomputations *list)
{
    flx_graph *next;
    flxi_position *positions;
    FLXI_TRY(flxi_apply_recomputations(trial->main, order, list, &f->scratch, &next, &positions, f->err));
    flx_graph_release(f->g);
    f->g = next;
    f->positions = flxi_dup(&f->kept, flxi_position, positions, next->node_count);
    return f->positions ? FLX_OK : flxi_oom(f->err, "a memory plan");
}

/* ---- Rounds ---- */

/* The sums of several operands, if there are any, as sums of two that are made when the second one is there. */
static flx_code pair_sums(fitting *f)
{
    flx_graph *paired, *ordered;
    if (f->m->grouping.evaluate_all) /* the evaluator rounds a sum once */
        return FLX_OK;
    FLXI_TRY(flxi_pass_pair_sums(f->g, &paired, NULL, f->err));
    if (paired->node_count == f->g->node_count) {
        flx_graph_release(paired);
        return FLX_OK;
    }
    flx_code code = flxi_pass_order(paired, &ordered, NULL, f->err);
    flx_graph_release(paired);
    FLXI_TRY(code);
    flx_graph_release(f->g);
    f->g = ordered;
    f->positions = flxi_new(&f->kept, flxi_position, ordered->node_count);
    for (uint32_t i = 0, first; f->positions && i < ordered->node_count; i++) {
        f->positions[i] = (flxi_position){.step = i};
        if (flxi_paired_sum(ordered, i, &first))
            f->positions[first] = f->positions[i] = (flxi_position){.step = first, .is_apart = true};
    }
    return f->positions ? FLX_OK : flxi_oom(f->err, "a memory plan");
}

static flx_code reorder(fitting *f, const flxi_program *trial)
{
    const uint32_t *order = flxi_thrifty_order(trial->main, trial, &f->scratch);
    return order ? take(f, trial, order, NULL) : flxi_oom(f->err, "a memory plan");
}

/* *is_over: nothing can be done about the highest step. */
static flx_code recompute(fitting *f, const flxi_program *trial, bool *is_over)
{
    flxi_recomputations list;
    size_t most = trial->main->max_live;
    FLXI_TRY(flxi_choose_recomputations(trial->main, most - most / 16, &f->scratch, &list, f->err));
    *is_over = list.n == 0;
    return list.n ? take(f, trial, NULL, &list) : FLX_OK;
}

static flx_code run_round(fitting *f, int round, bool *is_over)
{
    flxi_program trial;
    flx_code code = plan(f, &trial);
    size_t bytes = code == FLX_OK ? trial.main->arena_bytes : 0;
    f->is_lowered = bytes < f->smallest || !round;
    if (code == FLX_OK && f->is_lowered)
        f->smallest = bytes;
    if (!round)
        f->usual = bytes;
    *is_over = bytes <= f->budget;
    if (code == FLX_OK && !*is_over)
        code = round == 0 ? pair_sums(f) : round == 1 ? reorder(f, &trial) : recompute(f, &trial, is_over);
    flxi_program_free(&trial);
    flxi_arena_free(&f->scratch);
    flxi_arena_init(&f->scratch, f->m->mem);
    return code;
}

static flx_code fit(fitting *f)
{
    bool is_over = false;
    int fruitless = 0;
    for (int round = 0; round < MAX_ROUNDS && fruitless < MAX_FRUITLESS && !is_over; round++) {
        FLXI_TRY(run_round(f, round, &is_over));
        fruitless = f->is_lowered ? 0 : fruitless + 1;
    }
    if (f->smallest <= f->budget)
        return FLX_OK;
    size_t given = (size_t)f->m->options.memory_budget; /* of which kernels take a part for themselves */
    return flxi_fail_budget(f->g, f->usual, f->smallest + (given - f->budget), given, f->err);
}

flx_code flxi_fit_memory(flxi_program *m, const flx_graph *g, size_t budget, flxi_routine **out, flx_error *err)
{
    fitting f = {.m = m, .budget = budget, .err = err};
    bool groups = !m->grouping.evaluate_all && !m->grouping.keep_apart;
    FLXI_TRY(flxi_optimise(g, m->device, groups, &f.g, &m->is_slow, err));
    flxi_arena_init(&f.kept, m->mem);
    flxi_arena_init(&f.scratch, m->mem);
    flx_code code = fit(&f);
    m->usual_bytes = f.usual;
    if (code == FLX_OK)
        code = flxi_routine_build(m, f.g, f.positions, out, err);
    else
        flx_graph_release(f.g);
    flxi_arena_free(&f.kept);
    flxi_arena_free(&f.scratch);
    return code;
}

/* ---- Telling ---- */

flx_code flxi_fail_budget(const flx_graph *g, size_t usual, size_t need, size_t budget, flx_error *err)
{
    char hint[100];
    snprintf(hint, sizeof hint, "give at least %zu bytes, or smaller inputs", need);
    return flxi_fail_hint(err, FLX_E_SIZE, hint,
                          "'%.60s' works in %zu bytes, and in no less than %zu when values are computed again: the "
                          "budget of %zu is too small",
                          g->name, usual, need, budget);
}

void flxi_routine_recomputed(const flxi_routine *l, uint32_t *values, int64_t *flops)
{
    *values = 0;
    *flops = 0;
    for (uint32_t i = 0; l->positions && i < l->g->node_count; i++) {
        *values += l->positions[i].is_copy;
        *flops += l->positions[i].is_copy ? flxi_node_work(l->g, i).flops : 0;
    }
    for (uint32_t i = 0; l->positions && i < l->num_views; i++) /* which nothing computes */
        *values -= l->positions[l->views[i]].is_copy;
}
