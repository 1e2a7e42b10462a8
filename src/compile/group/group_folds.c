/* SPDX-License-Identifier: Apache-2.0 */
/* group_folds.c: folds in a kernel: the phases that they come in, their accumulators, and how lanes, subgroups and
   invocations fold what they have together. */
#include "compile/group/group_writer.h"
#include "passes/pass.h"

/* ---- Phases ---- */

/* How many folds of the group come before this value. */
static uint8_t phase_of(const flxi_gwriter *w, uint32_t value)
{
    uint32_t i = flxi_value_at(w->g, value)->node;
    const flxi_node *n = flxi_node_at(w->g, i);
    uint8_t most = 0;
    if (w->f->kind[i] == NODE_VIEW) {
        for (uint32_t k = 0; k < n->nin; k++) {
            uint8_t p = phase_of(w, n->in[k]);
            most = p > most ? p : most;
        }
        return most;
    }
    for (uint32_t j = 0; w->f->group_of[i] == w->number && j < w->group->num_nodes; j++)
        if (w->group->nodes[j] == i)
            return w->phase[j];
    return 0;
}

uint8_t flxi_gw_find_phases(flxi_gwriter *w)
{
    uint8_t last = 0;
    for (uint32_t j = 0; j < w->group->num_nodes; j++) {
        const flxi_node *n = flxi_node_at(w->g, w->group->nodes[j]);
        for (uint32_t k = 0; k < n->nin; k++) {
            uint8_t p = phase_of(w, n->in[k]);
            w->phase[j] = p > w->phase[j] ? p : w->phase[j];
        }
        w->phase[j] = (uint8_t)(w->phase[j] + flxi_gw_is_fold(w, j));
        last = w->phase[j] > last ? w->phase[j] : last;
    }
    return last;
}

/* Whether it is a sum of numbers that are rounded, whose error grows with the steps of its longest chain. A fold that
   is linear adds. */
static bool is_inexact_sum(const flxi_gwriter *w, uint32_t node)
{
    const flxi_node *n = flxi_node_at(w->g, node);
    return flxi_ops[n->op].traits & TRAIT_LINEAR &&
           flxi_in(FLXI_FLOATS | FLXI_COMPLEX, flxi_type_at(w->g, n->in[0])->dtype);
}

/* How often what was added is moved on: the steps of an invocation are a chain. Cards have many of them for a row. */
static uint32_t levels_of(const flxi_gwriter *w)
{
    int64_t steps = w->group->space.extent / (w->lanes ? w->lanes : 1);
    if (w->f->form)
        return 0;
    if (flxi_free_divisor(w->f->free_extents, w->group->space.extent))
        return FLXI_MOST_LEVELS;
    return (uint32_t)(steps >= 2 * FLXI_SUM_PART) + (uint32_t)(steps >= 2 * FLXI_SUM_PART * FLXI_SUM_PART);
}

static flxi_accumulator new_accumulator(flxi_gwriter *w, uint32_t node)
{
    flxi_kval x = flxi_express_start(w->g, w->k, node);
    flxi_accumulator a = {.re = flxi_kb_let(w->k, flxi_kb_fresh_name(w->k, "acc"), x.re)};
    a.im = x.im ? flxi_kb_let(w->k, flxi_kb_fresh_name(w->k, "acc"), x.im) : 0;
    return a;
}

void flxi_gw_start_folds(flxi_gwriter *w, int phase)
{
    w->folds.n = 0;
    w->levels = levels_of(w);
    for (uint32_t j = 0; j < w->group->num_nodes; j++) {
        if (!flxi_gw_is_fold(w, j) || w->phase[j] != phase + 1)
            continue;
        flxi_running_fold f = {.node = w->group->nodes[j]};
        uint32_t levels = is_inexact_sum(w, f.node) ? w->levels : 0;
        for (uint32_t l = 0; l <= levels; l++)
            f.acc[l] = new_accumulator(w, f.node);
        w->failed |= !flxi_push(w->mem, &w->folds, f);
    }
}

static flxi_kval value_of(flxi_gwriter *w, flxi_accumulator a)
{
    return (flxi_kval){flxi_kb_var(w->k, a.re), a.im ? flxi_kb_var(w->k, a.im) : 0};
}

static void assign(flxi_gwriter *w, flxi_accumulator a, flxi_kval x)
{
    if (!a.im) {
        flxi_kb_assign(w->k, a.re, x.re);
        return;
    }
    uint32_t re = flxi_kb_let(w->k, flxi_kb_fresh_name(w->k, "re"), x.re);
    flxi_kb_assign(w->k, a.im, x.im);
    flxi_kb_assign(w->k, a.re, flxi_kb_var(w->k, re));
}

static flxi_kval accumulator(flxi_gwriter *w, const flxi_running_fold *f)
{
    return value_of(w, f->acc[0]);
}

static void set_accumulator(flxi_gwriter *w, const flxi_running_fold *f, flxi_kval x)
{
    assign(w, f->acc[0], x);
}

/* Adds what a level has to the next. */
static void move_on(flxi_gwriter *w, const flxi_running_fold *f, uint32_t level)
{
    assign(w, f->acc[level + 1],
           flxi_express_join(w->g, w->k, f->node, value_of(w, f->acc[level + 1]), value_of(w, f->acc[level])));
}

/* After step k of the loop over a row: every FLXI_SUM_PART steps those of the first level, and so on. */
void flxi_gw_gather_parts(flxi_gwriter *w, uint32_t k)
{
    bool has_sums = false;
    for (size_t i = 0; i < w->folds.n; i++)
        has_sums |= is_inexact_sum(w, w->folds.at[i].node);
    int64_t last = 1;
    for (uint32_t l = 0; has_sums && l < w->levels; l++) {
        last *= FLXI_SUM_PART;
        flxi_kb_if(w->k, flxi_kb_binary(w->k, KBIN_eq, flxi_kb_binary(w->k, KBIN_bit_and, k, flxi_gw_u32(w, last - 1)),
                                        flxi_gw_u32(w, last - 1)));
        for (size_t i = 0; i < w->folds.n; i++) {
            const flxi_running_fold *f = &w->folds.at[i];
            if (!is_inexact_sum(w, f->node))
                continue;
            move_on(w, f, l);
            assign(w, f->acc[l], flxi_express_start(w->g, w->k, f->node));
        }
    }
    for (uint32_t l = 0; has_sums && l < w->levels; l++)
        flxi_kb_end(w->k);
}

/* Adds the current element to the folds of this phase. */
void flxi_gw_step_folds(flxi_gwriter *w)
{
    for (size_t i = 0; i < w->folds.n; i++) {
        const flxi_running_fold *f = &w->folds.at[i];
        const flxi_node *n = flxi_node_at(w->g, f->node);
        flxi_kval x = flxi_gw_value_here(w, n->in[0], LEVEL_ELEMENT);
        if (flxi_ops[n->op].rules->fold->value_op)
            x.im = w->column;
        set_accumulator(w, f, flxi_express_step(w->g, w->k, f->node, accumulator(w, f), x));
    }
}

/* Each step of a fold waits for the one before. Where the order makes no difference, some elements are folded together
   first, which wait for none. */
bool flxi_gw_steps_are_free(const flxi_gwriter *w)
{
    for (size_t i = 0; i < w->folds.n; i++) {
        const flxi_node *n = flxi_node_at(w->g, w->folds.at[i].node);
        int32_t dtype = flxi_type_at(w->g, n->in[0])->dtype;
        if (!flxi_ops[n->op].rules->fold->is_exact || (dtype != FLX_F32 && dtype != FLX_F64))
            return false;
    }
    return w->folds.n > 0 && w->folds.n <= FLXI_FREE_FOLDS && !w->f->form;
}

void flxi_gw_step_folds_together(flxi_gwriter *w, const flxi_row_frame *r, const uint32_t *columns)
{
    flxi_kval part[FLXI_FREE_FOLDS] = {{0}};
    size_t outside = w->known.n;
    for (uint32_t t = 0; t < FLXI_FREE_STEPS; t++, w->known.n = outside) {
        flxi_gw_set_element(w, r, columns[t]);
        for (size_t i = 0; i < w->folds.n; i++) {
            uint32_t node = w->folds.at[i].node;
            flxi_kval x = flxi_gw_value_here(w, flxi_node_at(w->g, node)->in[0], LEVEL_ELEMENT);
            x = t == 0 ? x : flxi_express_step(w->g, w->k, node, part[i], x);
            part[i].re = flxi_kb_var(w->k, flxi_kb_let(w->k, flxi_kb_fresh_name(w->k, "part"), x.re));
        }
    }
    for (size_t i = 0; i < w->folds.n; i++) {
        const flxi_running_fold *f = &w->folds.at[i];
        set_accumulator(w, f, flxi_express_step(w->g, w->k, f->node, accumulator(w, f), part[i]));
    }
}

static uint32_t if_row(flxi_gwriter *w, int64_t row, uint32_t then, uint32_t otherwise)
{
    return flxi_kb_select(w->k, flxi_kb_binary(w->k, KBIN_eq, w->row_of_part, flxi_gw_u32(w, row)), then, otherwise);
}

/* Adds the current element to what its column has so far: the first row starts it, the last one finishes it. */
static void fold_column(flxi_gwriter *w, uint32_t node)
{
    flxi_express e = flxi_gw_emitter(w);
    const flxi_node *n = flxi_node_at(w->g, node);
    int64_t rows = w->group->column_rows;
    flxi_kval x = flxi_gw_value_here(w, n->in[0], LEVEL_ELEMENT);
    uint32_t at = flxi_ku_add(&e, flxi_ku_mul(&e, w->part, w->group->space.extent), w->column);
    uint32_t b = flxi_gw_buffer_of(w, n->first, FLX_KERNEL_READ_WRITE);
    uint32_t acc = if_row(w, 0, flxi_express_start(w->g, w->k, node).re, flxi_kb_load(w->k, b, at));
    acc = flxi_khold(&e, flxi_express_step(w->g, w->k, node, flxi_kreal(acc), x).re);
    uint32_t whole = flxi_express_finish(w->g, w->k, node, flxi_kreal(acc), rows).re;
    flxi_kb_store(w->k, b, at, whole == acc ? acc : if_row(w, rows - 1, whole, acc));
}

void flxi_gw_fold_columns(flxi_gwriter *w, int phase)
{
    for (uint32_t j = 0; j < w->group->num_nodes; j++)
        if (flxi_gw_is_column_fold(w, j) && w->phase[j] == phase)
            fold_column(w, w->group->nodes[j]);
}

/* ---- Lanes ---- */

static flxi_kval named(flxi_gwriter *w, flxi_kval x)
{
    x.re = flxi_kb_var(w->k, flxi_kb_let(w->k, flxi_kb_fresh_name(w->k, "acc"), x.re));
    x.im = x.im ? flxi_kb_var(w->k, flxi_kb_let(w->k, flxi_kb_fresh_name(w->k, "acc"), x.im)) : 0;
    return x;
}

uint32_t flxi_gw_subgroup_lanes(const flxi_gwriter *w)
{
    return w->f->form && w->lanes > w->f->form->lanes ? w->f->form->lanes : w->lanes;
}

/* Memory of the workgroup: one element for each of its subgroups. */
static uint32_t shared_buffer(flxi_gwriter *w, uint32_t like, uint32_t count)
{
    flxi_kbuffer b = {.name = flxi_kb_fresh_name(w->k, "parts"),
                      .access = FLX_KERNEL_WORKGROUP,
                      .element = flxi_kb_expr(w->k, like)->type,
                      .count = count};
    return flxi_kb_buffer(w->k, &b);
}

/* Each lane leaves what it has in the workgroup's memory; then all lanes of the row fold these parts in order. */
static flxi_kval fold_across(flxi_gwriter *w, const flxi_running_fold *f, flxi_kval x, uint32_t lane)
{
    flxi_express e = flxi_gw_emitter(w);
    uint32_t re = shared_buffer(w, x.re, w->lanes * FLXI_ACROSS),
             im = x.im ? shared_buffer(w, x.im, w->lanes * FLXI_ACROSS) : 0;
    uint32_t own = flxi_ku_add(&e, flxi_ku_mul(&e, lane, FLXI_ACROSS), w->column_id);
    flxi_kb_store(w->k, re, own, x.re);
    if (im)
        flxi_kb_store(w->k, im, own, x.im);
    flxi_kb_barrier(w->k, FLX_KERNEL_ACQ_REL);
    for (uint32_t i = 0; i < w->lanes; i++) {
        uint32_t at = flxi_ku_add(&e, w->column_id, flxi_gw_u32(w, (int64_t)i * FLXI_ACROSS));
        flxi_kval part = named(w, (flxi_kval){flxi_kb_load(w->k, re, at), im ? flxi_kb_load(w->k, im, at) : 0});
        x = i == 0 ? part : named(w, flxi_express_join(w->g, w->k, f->node, x, part));
    }
    return x;
}

/* Each subgroup leaves what it has in the workgroup's memory; then all fold these parts in order. */
static flxi_kval fold_subgroups(flxi_gwriter *w, const flxi_running_fold *f, flxi_kval x, uint32_t lane)
{
    flxi_express e = flxi_gw_emitter(w);
    uint32_t width = flxi_gw_subgroup_lanes(w), count = w->lanes / width;
    uint32_t re = shared_buffer(w, x.re, count), im = x.im ? shared_buffer(w, x.im, count) : 0;
    uint32_t own = flxi_ku_div(&e, lane, width);
    flxi_gw_open_guarded(w, flxi_ku_mod(&e, lane, width), 1);
    flxi_kb_store(w->k, re, own, x.re);
    if (im)
        flxi_kb_store(w->k, im, own, x.im);
    flxi_kb_end(w->k);
    flxi_kb_barrier(w->k, FLX_KERNEL_ACQ_REL);
    for (uint32_t i = 0; i < count; i++) {
        flxi_kval part = {flxi_kb_load(w->k, re, flxi_gw_u32(w, i)),
                          im ? flxi_kb_load(w->k, im, flxi_gw_u32(w, i)) : 0};
        part = named(w, part);
        x = i == 0 ? part : named(w, flxi_express_join(w->g, w->k, f->node, x, part));
    }
    return x;
}

/* Lane l and lane l ^ d exchange what they have, for d = half of the lanes down to 1: all end with the same. */
static flxi_kval fold_lanes(flxi_gwriter *w, const flxi_running_fold *f, flxi_kval x, uint32_t lane)
{
    flxi_express e = flxi_gw_emitter(w);
    if (w->is_across)
        return w->declared ? fold_across(w, f, x, lane) : x;
    uint32_t width = flxi_gw_subgroup_lanes(w), own = width < w->lanes ? flxi_ku_mod(&e, lane, width) : lane;
    for (uint32_t d = width / 2; d > 0; d /= 2) {
        uint32_t from = flxi_kb_binary(w->k, KBIN_bit_xor, own, flxi_gw_u32(w, d));
        flxi_kval other = {flxi_kb_subgroup_shuffle(w->k, x.re, from),
                           x.im ? flxi_kb_subgroup_shuffle(w->k, x.im, from) : 0};
        x = named(w, flxi_express_join(w->g, w->k, f->node, x, other));
    }
    return width < w->lanes ? fold_subgroups(w, f, x, lane) : x;
}

void flxi_gw_end_folds(flxi_gwriter *w, uint32_t lane)
{
    for (size_t i = 0; i < w->folds.n; i++) {
        const flxi_running_fold *f = &w->folds.at[i];
        uint32_t value = flxi_node_at(w->g, f->node)->first;
        uint32_t levels = is_inexact_sum(w, f->node) ? w->levels : 0;
        for (uint32_t l = 0; l < levels; l++)
            move_on(w, f, l);
        flxi_kval x = value_of(w, f->acc[levels]);
        x = w->lanes ? fold_lanes(w, f, x, lane) : x;
        x = flxi_express_finish(w->g, w->k, f->node, x, w->group->space.extent);
        x.re = flxi_kb_var(w->k, flxi_kb_let(w->k, flxi_gw_name_of(w, value), x.re));
        x.im = x.im ? flxi_kb_var(w->k, flxi_kb_let(w->k, flxi_gw_name_of(w, value), x.im)) : 0;
        flxi_kindex at = flxi_gw_index_for(w, value, LEVEL_ROW);
        flxi_gw_remember(w, value, &at, x);
    }
}
