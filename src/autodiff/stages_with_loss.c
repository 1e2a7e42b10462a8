/* SPDX-License-Identifier: Apache-2.0 */
/* stages_with_loss.c: a pipeline that goes backwards with a microbatch as soon as its loss is known, one forwards and
   one backwards (1F1B) in each tick. Microbatch m is forwards in stage s in tick m + s, and backwards in tick
   m + 2 (stages - 1) - s: in the last stage in the same tick. So a stage keeps the inputs of at most 2 stages - 1
   microbatches, however many there are, and computes what is between again from them: of that one microbatch is alive.

   The loss is the mean over the microbatches, and gradients are collected in carries of the scan over ticks. The
   cotangent of the loss is only a factor of them, so the loop makes them together with the loss: the result is a
   custom_fn whose residuals are the gradients. A stage that has no microbatch in a tick computes on others; what
   comes of it is left out by a choice, never multiplied by zero. */
#include "autodiff/stages.h"

#include <fluxion/mesh.h>
#include <fluxion/ops.h>
#include <stdio.h>

typedef enum { ACTIVATION, OF_STAGES, SHARED, OF_EXAMPLES } item_kind;

/* An input of the result: those of the stage, then those of the loss without its first. */
typedef struct {
    const char *name;
    const flx_type *type; /* in the graph that it comes from */
    item_kind kind;
    bool is_param, varies;
} item;

typedef struct {
    flxi_stages s;
    const flx_graph *loss;
    item *items;
    size_t n;
    flx_graph *pull;      /* of all stages: inputs, cotangent of the result -> gradients of what varies */
    flx_graph *loss_pull; /* the loss, its gradients with respect to the result of the last stage and what varies */
    flx_graph *fwd, *vjp; /* of the custom_fn */
    flxi_arena arena;
    flx_val *in, *out; /* room for operands and results */
} work;

static bool is_row(const item *x)
{
    return x->kind == ACTIVATION || x->kind == OF_EXAMPLES;
}

/* As an input of the result. */
static flx_type whole_type(const work *w, const item *x)
{
    flx_type t = x->kind == OF_STAGES ? flxi_with_axis(w->s.stages, x->type) : *x->type;
    if (is_row(x))
        t.dims[0] *= w->s.microbatches;
    return t;
}

static int64_t slots(const work *w)
{
    return 2 * w->s.stages - 1;
}

/* A batch as examples of microbatches: [n, microbatches, …]. */
static flx_type split_type(const work *w, const item *x)
{
    flx_type t = flxi_with_axis(x->type->dims[0], x->type);
    t.dims[1] = w->s.microbatches;
    return t;
}

/* ---- What is asked for ---- */

static flx_code check_item(const work *w, const item *x)
{
    if (!flxi_type_is_static(x->type) || x->type->rank >= FLX_MAX_RANK - 1 || (is_row(x) && x->type->rank < 1))
        return flxi_fail_hint(w->s.err, FLX_E_UNBOUND_DIM, "what is not of examples must be a parameter",
                              "flx_pipeline_loss: the type of '%.80s' must be of numbers%s", x->name,
                              is_row(x) ? ", with an axis of examples" : "");
    if (flxi_is_complex(x->type->dtype))
        return flxi_fail(w->s.err, FLX_E_DTYPE, "flx_pipeline_loss: '%.80s' is complex", x->name);
    if (is_row(x) && x->type->dims[0] > INT64_MAX / w->s.microbatches)
        return flxi_fail(w->s.err, FLX_E_SIZE, "flx_pipeline_loss: the batch has too many examples");
    return FLX_OK;
}

static flx_code add_items(work *w, const flx_graph *g, size_t first, item_kind examples, item_kind params)
{
    for (size_t i = first; i < flx_graph_input_count(g); i++) {
        flx_val v = flx_graph_input(g, i);
        bool is_param = flx_graph_input_is_param(g, i), is_example = g == w->s.stage ? i == 0 : !is_param;
        item x = {.name = flx_val_name(g, v),
                  .type = flx_val_type(g, v),
                  .kind = is_example ? examples : params,
                  .is_param = is_param};
        x.varies = flxi_is_float(x.type->dtype);
        FLXI_TRY(check_item(w, &x));
        w->items[w->n++] = x;
    }
    return FLX_OK;
}

static flx_code check_loss(const work *w)
{
    const flx_graph *g = w->loss;
    FLXI_TRY(flx_graph_error(g, w->s.err));
    if (flx_graph_input_count(g) < 1 || flx_graph_output_count(g) != 1)
        return flxi_fail(w->s.err, FLX_E_ARITY,
                         "flx_pipeline_loss: a loss takes what the last stage returns first, and returns one value");
    if (!flxi_type_equal(w->s.type, flx_val_type(g, flx_graph_input(g, 0))))
        return flxi_fail(w->s.err, FLX_E_SHAPE,
                         "flx_pipeline_loss: the first input of the loss must have the type that a stage returns");
    const flx_type *t = flx_val_type(g, flx_graph_output(g, 0));
    if (t->rank != 0 || !flxi_is_float(t->dtype) || !flxi_is_float(w->s.type->dtype))
        return flxi_fail(w->s.err, FLX_E_NON_SCALAR,
                         "flx_pipeline_loss: the loss must be a floating-point scalar, and activations floating-point");
    if (w->s.microbatches > INT32_MAX - 2 * w->s.stages)
        return flxi_fail(w->s.err, FLX_E_USAGE, "flx_pipeline_loss: there are too many microbatches");
    return FLX_OK;
}

static flx_code read_items(work *w)
{
    FLXI_TRY(flxi_stages_check(&w->s));
    FLXI_TRY(check_loss(w));
    size_t room = w->s.inputs + flx_graph_input_count(w->loss);
    w->items = flxi_new(&w->arena, item, room);
    w->in = flxi_new(&w->arena, flx_val, 3 * room + 8);
    w->out = flxi_new(&w->arena, flx_val, 3 * room + 8);
    if (!w->items || !w->in || !w->out)
        return flxi_oom(w->s.err, "a pipeline");
    FLXI_TRY(add_items(w, w->s.stage, 0, ACTIVATION, OF_STAGES));
    return add_items(w, w->loss, 1, OF_EXAMPLES, SHARED);
}

/* ---- Gradients of a stage and of the loss ---- */

static flx_code differentiate(work *w, const flx_graph *g, uint32_t flags, flx_graph **out)
{
    const flx_grad_options o = {.struct_size = sizeof o, .flags = flags | FLX_GRAD_MISSING_ZERO};
    size_t count = flx_graph_input_count(g), n = 0;
    const char **names = flxi_new(&w->arena, const char *, count);
    if (!names)
        return flxi_oom(w->s.err, "a pipeline");
    for (size_t i = 0; i < count; i++)
        if (flxi_is_float(flx_val_type(g, flx_graph_input(g, i))->dtype))
            names[n++] = flx_val_name(g, flx_graph_input(g, i));
    *out = flx_grad(g, names, n, &o, w->s.err);
    return *out ? FLX_OK : (flx_code)w->s.err->code;
}

static flx_code make_pulls(work *w)
{
    flx_graph *one = NULL;
    FLXI_TRY(flxi_stages_make_all(&w->s));
    FLXI_TRY(differentiate(w, w->loss, FLX_GRAD_VALUE, &w->loss_pull));
    FLXI_TRY(differentiate(w, w->s.stage, FLX_GRAD_SEED_INPUT, &one));
    size_t n = flx_graph_input_count(one);
    flx_vmap_axis *axes = flxi_new(&w->arena, flx_vmap_axis, n);
    for (size_t i = 0; axes && i < n; i++)
        axes[i] = (flx_vmap_axis){flx_val_name(one, flx_graph_input(one, i)), 0};
    w->pull = axes ? flx_vmap(one, axes, n, NULL, 0, w->s.stages, w->s.err) : NULL;
    flx_code code = axes ? (w->pull ? FLX_OK : (flx_code)w->s.err->code) : flxi_oom(w->s.err, "a pipeline");
    flx_graph_release(one);
    return code;
}

/* ---- A tick ---- */

typedef struct {
    flx_graph *g;
    flx_val state, back, kept, loss, number;
    flx_val *x, *sum, *d; /* by item: its value, the gradient that was collected, that of the microbatch that ends */
} tick;

/* Inputs of the stage that are kept: [slots, stages, …]. */
static flx_type kept_type(const work *w)
{
    flx_type state = flxi_with_axis(w->s.stages, w->s.type);
    return flxi_with_axis(slots(w), &state);
}

static void declare(work *w, tick *t)
{
    flx_type state = flxi_with_axis(w->s.stages, w->s.type), kept = kept_type(w), number = {.dtype = FLX_I32};
    t->state = flxi_new_leaf(t->g, "state", "", &state);
    t->back = flxi_new_leaf(t->g, "back", "", &state);
    t->kept = flxi_new_leaf(t->g, "kept", "", &kept);
    t->loss = flxi_new_leaf(t->g, "loss", "", flx_val_type(w->loss, flx_graph_output(w->loss, 0)));
    for (size_t i = 0; i < w->n; i++) {
        flx_type type = whole_type(w, &w->items[i]);
        if (w->items[i].varies && !is_row(&w->items[i]))
            t->sum[i] = flxi_new_leaf(t->g, "sum_", w->items[i].name, &type);
    }
    for (size_t i = 0; i < w->n; i++) {
        flx_type type = is_row(&w->items[i]) ? split_type(w, &w->items[i]) : whole_type(w, &w->items[i]);
        t->x[i] = flxi_new_leaf(t->g, "", w->items[i].name, &type);
    }
    t->number = flxi_new_leaf(t->g, "tick", "", &number);
}

static flx_val whole_number(flx_graph *g, int64_t value)
{
    return flx_scalar(g, FLX_I32, (double)value);
}

/* The microbatch that enters the first stage, or that is with the loss `after` ticks later. In ticks without one it is
   the first or the last again. */
static flx_val row_of(const work *w, const tick *t, size_t i, int64_t after)
{
    flx_val at = flx_add(t->g, t->number, whole_number(t->g, -after));
    at = flx_clamp(t->g, whole_number(t->g, 0), at, whole_number(t->g, w->s.microbatches - 1));
    return flx_gather(t->g, t->x[i], at, .axis = 1);
}

static flx_val zero_of(const work *w, flx_graph *g)
{
    return flx_scalar(g, (flx_dtype)w->s.type->dtype, 0.0);
}

/* i32 numbers, of slots or of stages, as an axis of what is kept. */
static flx_val along_kept(const work *w, flx_graph *g, flx_val numbers, int axis, int64_t n)
{
    int64_t shape[FLX_MAX_RANK];
    int rank = w->s.type->rank + 2;
    for (int k = 0; k < rank; k++)
        shape[k] = k == axis ? n : 1;
    return flx_reshape(g, numbers, (flx_ints){shape, (size_t)rank});
}

/* What is kept, with the inputs of this tick; it is also what the stages read. */
static void keep(const work *w, tick *t, flx_val x)
{
    flx_graph *g = t->g;
    const flx_type all = {.dtype = FLX_I32, .rank = 1, .dims = {slots(w)}};
    const flx_type state = flxi_with_axis(w->s.stages, w->s.type), one = flxi_with_axis(1, &state);
    flx_val numbers = along_kept(w, g, flx_iota(g, .type = &all), 0, slots(w));
    flx_val now = flx_mod(g, t->number, whole_number(g, slots(w)));
    flx_val row = flx_reshape(g, x, (flx_ints){one.dims, (size_t)one.rank});
    t->kept = flx_where(g, flx_eq(g, numbers, now), row, t->kept);
}

/* The inputs of the microbatches that go backwards: stage s kept its own 2 (stages - 1 - s) ticks ago. */
static flx_val recall(const work *w, tick *t)
{
    flx_graph *g = t->g;
    const flx_type all = {.dtype = FLX_I32, .rank = 1, .dims = {slots(w)}};
    flx_val numbers = along_kept(w, g, flx_iota(g, .type = &all), 0, slots(w));
    flx_val twice = flx_mul(g, flxi_stage_numbers(&w->s, g), whole_number(g, 2));
    flx_val then = flx_add(g, flx_add(g, twice, t->number), whole_number(g, slots(w) - 2 * (w->s.stages - 1)));
    flx_val slot = along_kept(w, g, flx_mod(g, then, whole_number(g, slots(w))), 1, w->s.stages);
    return flx_reduce_sum(g, flx_where(g, flx_eq(g, numbers, slot), t->kept, zero_of(w, g)), .axes = FLX_INTS(0));
}

/* Whether number + shift is that of a microbatch. */
static flx_val is_microbatch(const work *w, flx_graph *g, flx_val number, int64_t shift)
{
    flx_val least = whole_number(g, -shift), end = whole_number(g, w->s.microbatches - shift);
    return flx_and(g, flx_ge(g, number, least), flx_lt(g, number, end));
}

static flx_val of_stage(const work *w, flx_graph *g, flx_val all, int64_t stage)
{
    flx_val one = flx_where(g, flxi_is_stage(&w->s, g, stage, w->s.type->rank), all, zero_of(w, g));
    return flx_reduce_sum(g, one, .axes = FLX_INTS(0));
}

static void call(work *w, tick *t, const flx_graph *body, size_t n)
{
    const flx_attr attr = flx_attr_graph("body", body);
    flx_op(t->g, "call", w->in, n, &attr, 1, w->out, flx_graph_output_count(body));
}

static flx_val go_forwards(work *w, tick *t)
{
    w->in[0] = flxi_moved_on(&w->s, t->g, t->state, row_of(w, t, 0, 0));
    for (size_t i = 1; i < w->s.inputs; i++)
        w->in[i] = t->x[i];
    keep(w, t, w->in[0]);
    call(w, t, w->s.all, w->s.inputs);
    t->state = w->out[0];
    return of_stage(w, t->g, t->state, w->s.stages - 1);
}

static flx_val added(flx_graph *g, flx_val sum, flx_val counts, flx_val d, const flx_type *type)
{
    flx_val zero = flx_scalar(g, (flx_dtype)type->dtype, 0.0);
    return flx_add(g, sum, flx_where(g, counts, d, zero));
}

/* The gradient with respect to what the last stage returned. */
static flx_val find_loss(work *w, tick *t, flx_val y)
{
    size_t n = 0, at = 0;
    flx_val counts = is_microbatch(w, t->g, t->number, 1 - w->s.stages);
    w->in[n++] = y;
    for (size_t i = w->s.inputs; i < w->n; i++)
        w->in[n++] = is_row(&w->items[i]) ? row_of(w, t, i, w->s.stages - 1) : t->x[i];
    call(w, t, w->loss_pull, n);
    t->loss = added(t->g, t->loss, counts, w->out[at++], flx_val_type(w->loss, flx_graph_output(w->loss, 0)));
    flx_val dy = w->out[at++];
    for (size_t i = w->s.inputs; i < w->n; i++)
        if (w->items[i].varies && w->items[i].kind == SHARED)
            t->sum[i] = added(t->g, t->sum[i], counts, w->out[at++], w->items[i].type);
        else if (w->items[i].varies)
            t->d[i] = w->out[at++];
    return dy;
}

/* Cotangents of the stage after, and that of the loss. */
static flx_val moved_back(const work *w, tick *t, flx_val dy)
{
    int64_t low[FLX_MAX_RANK] = {-1}, high[FLX_MAX_RANK] = {1};
    flx_type one = flxi_with_axis(1, w->s.type);
    flx_ints shape = {one.dims, (size_t)one.rank};
    flx_val next =
        flx_pad(t->g, t->back, zero_of(w, t->g), .low = (flx_ints){low, shape.n}, .high = (flx_ints){high, shape.n});
    flx_val last = flxi_is_stage(&w->s, t->g, w->s.stages - 1, w->s.type->rank);
    return flx_where(t->g, last, flx_reshape(t->g, dy, shape), next);
}

static void go_backwards(work *w, tick *t, flx_val dy)
{
    flx_graph *g = t->g;
    size_t at = 0, n = w->s.inputs;
    flx_val own = flx_add(g, flxi_stage_numbers(&w->s, g), t->number);
    flx_val counts = is_microbatch(w, g, own, -2 * (w->s.stages - 1));
    w->in[0] = recall(w, t);
    for (size_t i = 1; i < n; i++)
        w->in[i] = t->x[i];
    w->in[n] = moved_back(w, t, dy);
    call(w, t, w->pull, n + 1);
    t->back = flx_where(g, flxi_by_stage(&w->s, g, counts, w->s.type->rank), w->out[at++], zero_of(w, g));
    t->d[0] = of_stage(w, g, t->back, 0);
    for (size_t i = 1; i < n; i++)
        if (w->items[i].varies) {
            flx_val here = flxi_by_stage(&w->s, g, counts, w->items[i].type->rank);
            t->sum[i] = added(g, t->sum[i], here, w->out[at++], w->items[i].type);
        }
}

static flx_code make_tick(work *w)
{
    tick t = {.g = w->s.tick = flx_graph_new(w->s.stage->ctx, "tick"),
              .x = flxi_new(&w->arena, flx_val, w->n),
              .sum = flxi_new(&w->arena, flx_val, w->n),
              .d = flxi_new(&w->arena, flx_val, w->n)};
    if (!t.g || !t.x || !t.sum || !t.d)
        return flxi_oom(w->s.err, "a pipeline");
    declare(w, &t);
    go_backwards(w, &t, find_loss(w, &t, go_forwards(w, &t)));
    const flx_val carries[] = {t.state, t.back, t.kept, t.loss};
    for (size_t i = 0; i < sizeof carries / sizeof *carries; i++)
        flx_output(t.g, carries[i], NULL);
    for (size_t i = 0; i < w->n; i++)
        if (w->items[i].varies && !is_row(&w->items[i]))
            flx_output(t.g, t.sum[i], NULL);
    for (size_t i = 0; i < w->n; i++)
        if (w->items[i].varies && is_row(&w->items[i]))
            flx_output(t.g, t.d[i], NULL);
    return flx_graph_error(t.g, w->s.err);
}

/* ---- All ticks ---- */

static flx_val split(const work *w, flx_graph *g, flx_val x, const item *of)
{
    const flx_type t = split_type(w, of);
    return flx_reshape(g, x, (flx_ints){t.dims, (size_t)t.rank});
}

/* The first microbatch in all stages, or slots of all stages: what is computed of it is as good as any. */
static flx_val first_everywhere(const work *w, flx_graph *g, flx_val each, const flx_type *all)
{
    int64_t axes[FLX_MAX_RANK];
    size_t rank = (size_t)w->s.type->rank;
    for (size_t k = 0; k < rank; k++)
        axes[k] = all->rank - (int)rank + (int)k;
    flx_val one = flx_narrow(g, each, .axis = 1, .start = 0, .len = 1);
    one = flx_reshape(g, one, (flx_ints){w->s.type->dims, rank});
    return flx_broadcast_in_dim(g, one, .shape = {all->dims, (size_t)all->rank}, .axes = {axes, rank});
}

/* Operands of the scan: carries, values for all ticks, the numbers of the ticks. How many. */
static size_t list_operands(work *w, flx_graph *g, const flx_val *x)
{
    flxi_site site = flxi_plain_site(g);
    const flx_type state = flxi_with_axis(w->s.stages, w->s.type), kept = kept_type(w);
    const flx_type ticks = {.dtype = FLX_I32, .rank = 1, .dims = {w->s.microbatches + 2 * (w->s.stages - 1)}};
    flx_val each = split(w, g, x[0], &w->items[0]);
    size_t n = 0;
    w->in[n++] = first_everywhere(w, g, each, &state);
    w->in[n++] = flxi_zeros(&site, &state);
    w->in[n++] = first_everywhere(w, g, each, &kept);
    w->in[n++] = flxi_zeros(&site, flx_val_type(w->loss, flx_graph_output(w->loss, 0)));
    for (size_t i = 0; i < w->n; i++) {
        const flx_type type = whole_type(w, &w->items[i]);
        if (w->items[i].varies && !is_row(&w->items[i]))
            w->in[n++] = flxi_zeros(&site, &type);
    }
    for (size_t i = 0; i < w->n; i++)
        w->in[n++] = is_row(&w->items[i]) ? split(w, g, x[i], &w->items[i]) : x[i];
    w->in[n++] = flx_iota(g, .type = &ticks);
    return n;
}

static flx_val mean_of(const work *w, flx_graph *g, flx_val sum, const flx_type *type)
{
    return flx_div(g, sum, flx_scalar(g, (flx_dtype)type->dtype, (double)w->s.microbatches));
}

/* The gradient with respect to an input of examples, of those of the ticks: the first left last. */
static flx_val joined_rows(const work *w, flx_graph *g, flx_val rows, const item *x)
{
    int64_t start = (x->kind == ACTIVATION ? 2 : 1) * (w->s.stages - 1);
    flx_val each = flx_narrow(g, rows, .axis = 0, .start = start, .len = w->s.microbatches);
    return flxi_joined_microbatches(&w->s, g, each, x->type);
}

/* Inputs of the whole batch -> loss, then the gradient of each that varies. */
static flx_code make_forward(work *w)
{
    flx_graph *g = w->fwd = flx_graph_new(w->s.stage->ctx, "pipeline");
    flx_val *x = flxi_new(&w->arena, flx_val, w->n);
    size_t sums = 0, rows = 0, carries = 4;
    if (!g || !x)
        return flxi_oom(w->s.err, "a pipeline");
    for (size_t i = 0; i < w->n; i++) {
        const flx_type type = whole_type(w, &w->items[i]);
        x[i] = flx_input(g, w->items[i].name, &type);
        carries += w->items[i].varies && !is_row(&w->items[i]);
        rows += w->items[i].varies && is_row(&w->items[i]);
    }
    const flx_attr attrs[] = {flx_attr_graph("body", w->s.tick), flx_attr_int("num_carry", (int64_t)carries),
                              flx_attr_int("num_bcast", (int64_t)w->n)};
    size_t n = list_operands(w, g, x);
    flx_op(g, "scan", w->in, n, attrs, 3, w->out, (uint32_t)(carries + rows));
    flx_output(g, mean_of(w, g, w->out[3], flx_val_type(w->loss, flx_graph_output(w->loss, 0))), NULL);
    for (size_t i = 0, row = carries; i < w->n; i++)
        if (w->items[i].varies) {
            flx_val d = is_row(&w->items[i]) ? joined_rows(w, g, w->out[row++], &w->items[i]) : w->out[4 + sums++];
            flx_output(g, mean_of(w, g, d, w->items[i].type), NULL);
        }
    return flx_graph_error(g, w->s.err);
}

/* ---- The loss as a function with a derivative ---- */

/* Inputs, loss, gradients, cotangent of the loss -> the gradients times it. */
static flx_code make_vjp(work *w)
{
    flx_graph *g = w->vjp = flx_graph_new(w->s.stage->ctx, "pipeline_vjp");
    const flx_type *loss = flx_val_type(w->loss, flx_graph_output(w->loss, 0));
    size_t n = 0;
    if (!g)
        return flxi_oom(w->s.err, "a pipeline");
    for (size_t i = 0; i < w->n; i++) {
        const flx_type type = whole_type(w, &w->items[i]);
        flx_input(g, w->items[i].name, &type);
    }
    flxi_new_leaf(g, "value", "", loss);
    for (size_t i = 0; i < w->n; i++) {
        const flx_type type = whole_type(w, &w->items[i]);
        if (w->items[i].varies)
            w->in[n++] = flxi_new_leaf(g, "d_", w->items[i].name, &type);
    }
    flx_val seed = flxi_new_leaf(g, "d_value", "", loss);
    n = 0;
    for (size_t i = 0; i < w->n; i++)
        if (w->items[i].varies) {
            flx_val factor = flx_cast(g, seed, .to = (flx_dtype)w->items[i].type->dtype);
            flx_output(g, flx_mul(g, w->in[n++], factor), NULL);
        }
    return flx_graph_error(g, w->s.err);
}

static flx_code make_result(work *w)
{
    flx_graph *g = w->s.to = flx_graph_new(w->s.stage->ctx, flx_graph_name(w->s.stage));
    flx_val loss = FLX_NONE;
    if (!g)
        return flxi_oom(w->s.err, "a pipeline");
    for (size_t i = 0; i < w->n; i++) {
        const flx_type type = whole_type(w, &w->items[i]);
        w->in[i] = w->items[i].is_param ? flx_param(g, w->items[i].name, &type) : flx_input(g, w->items[i].name, &type);
    }
    flx_custom_fn(g, w->in, w->n, &loss, 1, .fwd_body = w->fwd, .vjp_body = w->vjp,
                  .num_residuals = (int64_t)flx_graph_output_count(w->fwd) - 1);
    flx_output(g, loss, flx_graph_output_name(w->loss, 0));
    return flx_graph_error(g, w->s.err);
}

static flx_code make(work *w)
{
    FLXI_TRY(read_items(w));
    FLXI_TRY(make_pulls(w));
    FLXI_TRY(make_tick(w));
    FLXI_TRY(make_forward(w));
    FLXI_TRY(make_vjp(w));
    return make_result(w);
}

flx_graph *flx_pipeline_loss(const flx_graph *stage, const flx_graph *loss, int64_t stages, int64_t microbatches,
                             flx_error *err)
{
    flx_error local = {0};
    work w = {.s = {.stage = stage, .stages = stages, .microbatches = microbatches, .err = &local}, .loss = loss};
    bool is_asked = stage && loss;
    if (is_asked)
        flxi_arena_init(&w.arena, &stage->ctx->mem);
    flx_code code =
        is_asked ? make(&w) : flxi_fail(&local, FLX_E_USAGE, "flx_pipeline_loss: stage and loss must not be NULL");
    flx_graph *const parts[] = {w.s.all, w.s.tick, w.pull, w.loss_pull, w.fwd, w.vjp};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        flx_graph_release(parts[i]);
    if (is_asked)
        flxi_arena_free(&w.arena);
    if (code == FLX_OK)
        return w.s.to;
    flx_graph_release(w.s.to);
    if (err)
        *err = local;
    return NULL;
}
