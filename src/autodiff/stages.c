/* SPDX-License-Identifier: Apache-2.0 */
/* stages.c: a stage that is applied several times, as a pipeline. Microbatch m is in stage s in tick m + s, so that
   stages work on different microbatches at the same time: a scan over ticks whose carry has what each stage returned
   last. In a tick every value moves to the next stage, the next microbatch enters the first one, and all stages run,
   batched over an axis of stages. Where that axis is cut among processes (passes/partition), each runs its own stages,
   and what moves is an exchange with the neighbour; derivatives move the other way. No process is special.

   In the first and last ticks some stages have no microbatch: stages - 1 of microbatches + stages - 1 ticks are lost.
   In the first ones they compute on values that they are not made for, which may overflow: derivatives are stopped
   there, since zero times infinity is NaN. In the last ones they compute on the last microbatch again. */
#include "autodiff/stages.h"

#include <fluxion/ops.h>
#include <fluxion/transform.h>

/* ---- Types ---- */

flx_type flxi_with_axis(int64_t extent, const flx_type *t)
{
    flx_type out = {.dtype = t->dtype, .rank = t->rank + 1, .dims = {extent}};
    memcpy(out.dims + 1, t->dims, (size_t)t->rank * sizeof *t->dims);
    return out;
}

static const flx_type *input_type(const flxi_stages *p, size_t i)
{
    return flx_val_type(p->stage, flx_graph_input(p->stage, i));
}

static const char *input_name(const flxi_stages *p, size_t i)
{
    return flx_val_name(p->stage, flx_graph_input(p->stage, i));
}

/* Microbatches are cut from numbers. */
static flx_code check_input(const flxi_stages *p, size_t i)
{
    const flx_type *t = input_type(p, i);
    flxi_type_text text;
    if (flxi_type_is_static(t) && t->rank < FLX_MAX_RANK - 1 && (i > 0 || t->rank >= 1))
        return FLX_OK;
    flx_code code = flxi_type_is_static(t) ? FLX_E_SHAPE : FLX_E_UNBOUND_DIM;
    return flxi_fail(
        p->err, code, "flx_pipeline: the input '%.60s' of a stage is %s; it needs extents that are numbers%s",
        input_name(p, i), flxi_type_str(p->stage->ctx, t, &text), i == 0 ? " and an axis of examples" : "");
}

flx_code flxi_stages_check(flxi_stages *p)
{
    FLXI_TRY(flx_graph_error(p->stage, p->err));
    p->inputs = flx_graph_input_count(p->stage);
    if (p->stages < 1 || p->microbatches < 1 || p->stages > INT32_MAX || p->microbatches > INT32_MAX)
        return flxi_fail(p->err, FLX_E_USAGE, "flx_pipeline: stages and microbatches must be 1 to %d", INT32_MAX);
    if (p->inputs < 1 || flx_graph_output_count(p->stage) != 1)
        return flxi_fail(p->err, FLX_E_ARITY, "flx_pipeline: a stage takes an activation first, and returns the next");
    p->type = input_type(p, 0);
    if (!flxi_type_equal(p->type, flx_val_type(p->stage, flx_graph_output(p->stage, 0))))
        return flxi_fail(p->err, FLX_E_SHAPE, "flx_pipeline: a stage must return a value of the type of its input '%s'",
                         input_name(p, 0));
    for (size_t i = 0; i < p->inputs; i++)
        FLXI_TRY(check_input(p, i));
    if (p->type->dims[0] > INT64_MAX / p->microbatches)
        return flxi_fail(p->err, FLX_E_SIZE, "flx_pipeline: the batch has too many examples");
    return FLX_OK;
}

/* ---- A tick ---- */

flx_val flxi_stage_numbers(const flxi_stages *p, flx_graph *g)
{
    const flx_type positions = {.dtype = FLX_I32, .rank = 1, .dims = {p->stages}};
    return flx_iota(g, .type = &positions);
}

/* One number for each stage, for values of rank `rank` in each of them: [stages, 1, …]. */
flx_val flxi_by_stage(const flxi_stages *p, flx_graph *g, flx_val numbers, int rank)
{
    int64_t shape[FLX_MAX_RANK] = {p->stages};
    for (int k = 1; k <= rank; k++)
        shape[k] = 1;
    return flx_reshape(g, numbers, (flx_ints){shape, (size_t)rank + 1});
}

/* Whether an element belongs to this stage. */
flx_val flxi_is_stage(const flxi_stages *p, flx_graph *g, int64_t stage, int rank)
{
    return flxi_by_stage(p, g, flx_eq(g, flxi_stage_numbers(p, g), flx_scalar(g, FLX_I32, (double)stage)), rank);
}

/* Values of the stage before, and the microbatch that enters. */
flx_val flxi_moved_on(const flxi_stages *p, flx_graph *g, flx_val state, flx_val entering)
{
    int64_t low[FLX_MAX_RANK] = {1}, high[FLX_MAX_RANK] = {-1}, shape[FLX_MAX_RANK] = {1};
    size_t rank = (size_t)p->type->rank + 1;
    memcpy(shape + 1, p->type->dims, (rank - 1) * sizeof *shape);
    flx_val zero = flx_scalar(g, (flx_dtype)p->type->dtype, 0.0);
    flx_val next = flx_pad(g, state, zero, .low = (flx_ints){low, rank}, .high = (flx_ints){high, rank});
    flx_val first = flx_reshape(g, entering, (flx_ints){shape, rank});
    return flx_where(g, flxi_is_stage(p, g, 0, p->type->rank), first, next);
}

flx_code flxi_stages_make_all(flxi_stages *p)
{
    flx_vmap_axis *axes = flxi_alloc(&p->stage->ctx->mem, p->inputs, sizeof *axes);
    if (!axes)
        return flxi_oom(p->err, "a pipeline");
    for (size_t i = 0; i < p->inputs; i++)
        axes[i] = (flx_vmap_axis){input_name(p, i), 0};
    p->all = flx_vmap(p->stage, axes, p->inputs, NULL, 0, p->stages, p->err);
    flxi_free(&p->stage->ctx->mem, axes, p->inputs, sizeof *axes);
    return p->all ? FLX_OK : (flx_code)p->err->code;
}

/* Operands without derivatives in stages whose first microbatch has not come yet. */
static void stop_early(const flxi_stages *p, flx_graph *g, flx_val *x)
{
    const flx_type number = {.dtype = FLX_I32};
    flx_val tick = flxi_new_leaf(g, "tick", "", &number);
    flx_val has_begun = flx_le(g, flxi_stage_numbers(p, g), tick);
    for (size_t i = 0; i < p->inputs; i++)
        x[i] = flx_where(g, flxi_by_stage(p, g, has_begun, input_type(p, i)->rank), x[i], flx_stop_gradient(g, x[i]));
}

/* Operands are the state, the parameters, the microbatch that enters, and the number of the tick. */
static flx_code make_tick(flxi_stages *p)
{
    flx_graph *g = p->tick = flx_graph_new(p->stage->ctx, "tick");
    flx_val *x = flxi_alloc(&p->stage->ctx->mem, p->inputs, sizeof *x), y = FLX_NONE;
    if (!g || !x) {
        if (x)
            flxi_free(&p->stage->ctx->mem, x, p->inputs, sizeof *x);
        return flxi_oom(p->err, "a pipeline");
    }
    flx_type state = flxi_with_axis(p->stages, p->type);
    x[0] = flx_input(g, input_name(p, 0), &state);
    for (size_t i = 1; i < p->inputs; i++) {
        flx_type type = flxi_with_axis(p->stages, input_type(p, i));
        x[i] = flx_input(g, input_name(p, i), &type);
    }
    x[0] = flxi_moved_on(p, g, x[0], flxi_new_leaf(g, "entering", "", p->type));
    stop_early(p, g, x);
    const flx_attr body = flx_attr_graph("body", p->all);
    flx_op(g, "call", x, p->inputs, &body, 1, &y, 1);
    flx_output(g, y, "state");
    flx_output(g, y, "left");
    flxi_free(&p->stage->ctx->mem, x, p->inputs, sizeof *x);
    return flx_graph_error(g, p->err);
}

/* ---- The whole batch ---- */

/* Microbatch m has the examples m, m + microbatches …: an axis of examples that is cut stays cut in each of them. */
flx_val flxi_microbatches_of(const flxi_stages *p, flx_graph *g, flx_val x, const flx_type *type)
{
    int64_t shape[FLX_MAX_RANK] = {type->dims[0], p->microbatches}, order[FLX_MAX_RANK] = {1, 0};
    size_t rank = (size_t)type->rank + 1;
    for (size_t k = 2; k < rank; k++) {
        shape[k] = type->dims[k - 1];
        order[k] = (int64_t)k;
    }
    flx_val cut = flx_reshape(g, x, (flx_ints){shape, rank});
    return flx_transpose(g, cut, .perm = (flx_ints){order, rank});
}

flx_val flxi_joined_microbatches(const flxi_stages *p, flx_graph *g, flx_val each, const flx_type *type)
{
    int64_t shape[FLX_MAX_RANK] = {type->dims[0] * p->microbatches}, order[FLX_MAX_RANK] = {1, 0};
    size_t rank = (size_t)type->rank;
    for (size_t k = 2; k <= rank; k++) {
        shape[k - 1] = type->dims[k - 1];
        order[k] = (int64_t)k;
    }
    flx_val examples = flx_transpose(g, each, .perm = (flx_ints){order, rank + 1});
    return flx_reshape(g, examples, (flx_ints){shape, rank});
}

/* A microbatch as often as needed. */
flx_val flxi_repeated_microbatch(flx_graph *g, flx_val each, const flx_type *type, int64_t microbatch, int64_t times)
{
    flx_type all = flxi_with_axis(times, type);
    int64_t axes[FLX_MAX_RANK];
    for (int k = 0; k < all.rank; k++)
        axes[k] = k;
    flx_val one = flx_narrow(g, each, .axis = 0, .start = microbatch, .len = 1);
    flx_ints shape = {all.dims, (size_t)all.rank};
    return flx_broadcast_in_dim(g, one, .shape = shape, .axes = (flx_ints){axes, shape.n});
}

/* What enters in each tick: the last microbatch again while the others leave. */
static flx_val entering(const flxi_stages *p, flx_graph *g, flx_val each)
{
    if (p->stages == 1)
        return each;
    const flx_val both[2] = {each, flxi_repeated_microbatch(g, each, p->type, p->microbatches - 1, p->stages - 1)};
    return flx_concat(g, both, 2, .axis = 0);
}

/* What the last stage returned for each microbatch, of the values of all stages in all ticks. */
static flx_val leaving(const flxi_stages *p, flx_graph *g, flx_val all)
{
    flx_val late = flx_narrow(g, all, .axis = 0, .start = p->stages - 1, .len = p->microbatches);
    flx_val zero = flx_scalar(g, (flx_dtype)p->type->dtype, 0.0);
    flx_val last = flx_where(g, flxi_is_stage(p, g, p->stages - 1, p->type->rank), late, zero);
    return flx_reduce_sum(g, last, .axes = FLX_INTS(1));
}

static flx_code run_ticks(flxi_stages *p, flx_val *operands)
{
    flx_graph *g = p->to;
    flx_type batch = *p->type;
    batch.dims[0] *= p->microbatches;
    flx_val x = flx_input(g, input_name(p, 0), &batch), results[2] = {FLX_NONE, FLX_NONE};
    flx_val each = flxi_microbatches_of(p, g, x, p->type);
    operands[0] = flxi_repeated_microbatch(g, each, p->type, 0, p->stages);
    for (size_t i = 1; i < p->inputs; i++) {
        flx_type type = flxi_with_axis(p->stages, input_type(p, i));
        bool is_param = flx_graph_input_is_param(p->stage, i);
        operands[i] = is_param ? flx_param(g, input_name(p, i), &type) : flx_input(g, input_name(p, i), &type);
    }
    const flx_type ticks = {.dtype = FLX_I32, .rank = 1, .dims = {p->microbatches + p->stages - 1}};
    operands[p->inputs] = entering(p, g, each);
    operands[p->inputs + 1] = flx_iota(g, .type = &ticks);
    const flx_attr attrs[] = {flx_attr_graph("body", p->tick), flx_attr_int("num_carry", 1),
                              flx_attr_int("num_bcast", (int64_t)p->inputs - 1)};
    flx_op(g, "scan", operands, p->inputs + 2, attrs, 3, results, 2);
    flx_output(g, flxi_joined_microbatches(p, g, leaving(p, g, results[1]), p->type),
               flx_graph_output_name(p->stage, 0));
    return flx_graph_error(g, p->err);
}

static flx_code make(flxi_stages *p)
{
    const flxi_allocator *mem = &p->stage->ctx->mem;
    FLXI_TRY(flxi_stages_check(p));
    FLXI_TRY(flxi_stages_make_all(p));
    FLXI_TRY(make_tick(p));
    p->to = flx_graph_new(p->stage->ctx, flx_graph_name(p->stage));
    flx_val *operands = flxi_alloc(mem, p->inputs + 2, sizeof *operands);
    flx_code code = p->to && operands ? run_ticks(p, operands) : flxi_oom(p->err, "a pipeline");
    if (operands)
        flxi_free(mem, operands, p->inputs + 2, sizeof *operands);
    return code;
}

flx_graph *flx_pipeline(const flx_graph *stage, int64_t stages, int64_t microbatches, flx_error *err)
{
    flx_error local = {0};
    flxi_stages p = {.stage = stage, .stages = stages, .microbatches = microbatches, .err = &local};
    flx_code code = stage ? make(&p) : flxi_fail(&local, FLX_E_USAGE, "flx_pipeline: the stage must not be NULL");
    flx_graph_release(p.all);
    flx_graph_release(p.tick);
    if (code == FLX_OK)
        return p.to;
    flx_graph_release(p.to);
    if (err)
        *err = local;
    return NULL;
}
