/* SPDX-License-Identifier: Apache-2.0 */
/* gradients.c: the gradients of a training step: of the loss, or of each example, clipped and averaged; for narrow
   floats those of the loss times a scale. */
#include "train/training_work.h"

#include <fluxion/ops.h>

static flx_code with_hint(flxi_training_work *w)
{
    flxi_without_options(w->err);
    if (w->err->code == FLX_E_NO_GRAD_PATH)
        flxi_hint(w->err, "name the parameters to train in flx_train_options.params, or use FLX_TRAIN_MISSING_ZERO");
    return (flx_code)w->err->code;
}

static flx_graph *differentiate(flxi_training_work *w, const flx_graph *loss, uint32_t flags)
{
    flx_grad_options o = {.struct_size = sizeof o, .flags = FLX_GRAD_VALUE | flags};
    if (w->o.flags & FLX_TRAIN_BACKWARD_OPS)
        o.flags |= FLX_GRAD_BACKWARD_OPS;
    if (w->o.flags & FLX_TRAIN_MISSING_ZERO)
        o.flags |= FLX_GRAD_MISSING_ZERO;
    flx_graph *g = flx_grad(loss, w->names, w->num_trained, &o, w->err);
    if (!g)
        with_hint(w);
    return g;
}

/* An empty graph with the leaves of the loss; inputs[i] is leaf i. */
static flx_code begin_graph(flxi_training_work *w, const flx_graph *loss, flx_val *inputs)
{
    uint32_t *map = flxi_new(&w->arena, uint32_t, loss->value_count + 1);
    w->g = flxi_derived_graph(w->loss, "grad");
    if (!map || !w->g)
        return flxi_oom(w->err, "a training step");
    FLXI_TRY(flxi_copy_leaves(loss, w->g, map, w->err));
    for (size_t i = 0; i < loss->leaves.n; i++)
        inputs[i] = (flx_val){map[loss->leaves.at[i]], w->g->serial};
    return FLX_OK;
}

/* ---- Scaled ---- */

/* The scale is 0 before the first step, like every state, which means the scale to begin with. */
static void declare_scale(flxi_training_work *w)
{
    flx_type scalar = flx_type_make(FLX_F32, 0, NULL);
    w->scale_at = w->t->num_updated;
    flx_val kept = flxi_new_state(w, "", "loss_scale", &scalar), zero = flx_scalar(w->g, FLX_F32, 0);
    flx_type counter = flx_type_make(FLX_I64, 0, NULL);
    flxi_new_state(w, "", "good_steps", &counter);
    w->loss_scale = flx_where(w->g, flx_gt(w->g, kept, zero), kept, flx_scalar(w->g, FLX_F32, w->o.loss_scale));
}

/* Begins the graph, and the scale if there is one: the input after those of the loss. */
static flx_code begin_scaled(flxi_training_work *w, const flx_graph *loss, flx_val *inputs)
{
    FLXI_TRY(begin_graph(w, loss, inputs));
    if (!(w->o.flags & FLX_TRAIN_LOSS_SCALE))
        return FLX_OK;
    declare_scale(w);
    int32_t dtype = flxi_type_at(loss, loss->outputs.at[0].val)->dtype;
    inputs[loss->leaves.n] = flxi_with_dtype(w->g, w->loss_scale, (flx_dtype)dtype);
    return FLX_OK;
}

static flx_code inline_scaled(flxi_training_work *w, const flx_graph *loss, const flx_graph *grad)
{
    size_t n = grad->outputs.n;
    flx_val *inputs = flxi_new(&w->arena, flx_val, loss->leaves.n + 1), *results = flxi_new(&w->arena, flx_val, n);
    if (!inputs || !results)
        return flxi_oom(w->err, "a training step");
    FLXI_TRY(begin_scaled(w, loss, inputs));
    flx_inline(w->g, grad, inputs, loss->leaves.n + 1, results, n);
    for (size_t i = 0; i < n; i++)
        flx_output(w->g, results[i], grad->outputs.at[i].name);
    return flxi_built(w->g, w->err);
}

/* With FLX_GRAD_SEED_INPUT the loss may have any shape; here it is a scalar, as without. */
static flx_code check_scalar(flxi_training_work *w, const flx_graph *loss)
{
    flxi_type_text text;
    if (!loss->outputs.n)
        return FLX_OK;
    const flx_type *type = flxi_type_at(loss, loss->outputs.at[0].val);
    if (type->rank == 0)
        return FLX_OK;
    return flxi_fail(w->err, FLX_E_NON_SCALAR, "the loss of '%.60s' is %s, not a scalar", loss->name,
                     flxi_type_str(loss->ctx, type, &text));
}

static flx_code scaled_gradients(flxi_training_work *w, const flx_graph *loss)
{
    FLXI_TRY(check_scalar(w, loss));
    flx_graph *grad = differentiate(w, loss, FLX_GRAD_SEED_INPUT);
    flx_code code = grad ? inline_scaled(w, loss, grad) : (flx_code)w->err->code;
    flx_graph_release(grad);
    return code;
}

/* ---- For each example ---- */

/* The axis of a type that counts examples, FLX_NO_AXIS when it has none; -1: the dimension is used in another way. */
static int64_t example_axis(flx_context *ctx, const flx_type *type, flx_dim examples, const char *name)
{
    int64_t axis = FLX_NO_AXIS;
    flx_dim_binding one = {name, 1}, two = {name, 2};
    for (int k = 0; k < type->rank; k++) {
        bool depends =
            flxi_dim_bind(ctx, type->dims[k], &one, 1, NULL) != flxi_dim_bind(ctx, type->dims[k], &two, 1, NULL);
        if (!depends)
            continue;
        if (type->dims[k] != examples || axis != FLX_NO_AXIS)
            return -1;
        axis = k;
    }
    return axis;
}

typedef struct {
    flxi_training_work *w;
    const flx_graph *loss;
    const char *dim; /* that counts examples */
    flx_dim size;
    flx_vmap_axis *in_axes; /* of the inputs that have examples */
    size_t num_axes;
    int64_t *leaf_axis, *out_axes;
} example_work;

static flx_code find_dimension(example_work *e)
{
    const flx_graph *g = e->loss;
    const char *asked = e->w->o.example_dim;
    if (!asked && g->symbols.n != 1)
        return flxi_fail_hint(e->w->err, FLX_E_USAGE, "name the dimension in flx_train_options.example_dim",
                              "clip_example: the graph '%.60s' has %zu symbolic dimensions, and one must count the "
                              "examples",
                              g->name, g->symbols.n);
    for (size_t i = 0; i < g->symbols.n; i++)
        if (!asked || strcmp(g->symbols.at[i], asked) == 0)
            e->dim = g->symbols.at[i];
    if (!e->dim)
        return flxi_fail(e->w->err, FLX_E_NAME, "clip_example: the graph '%.60s' has no dimension called '%.60s'",
                         g->name, asked);
    e->size = flx_dim_symbol(g->ctx, e->dim);
    return FLX_OK;
}

static flx_code mixed_examples(const example_work *e, const char *what, const char *name)
{
    return flxi_fail(e->w->err, FLX_E_UNSUPPORTED,
                     "clip_example: the %s '%.60s' does not consist of one part for each example (%s)", what, name,
                     e->dim);
}

static flx_code find_axes(example_work *e)
{
    const flx_graph *g = e->loss;
    size_t n = g->outputs.n + e->w->num_trained;
    e->in_axes = flxi_new(&e->w->arena, flx_vmap_axis, g->leaves.n);
    e->leaf_axis = flxi_new(&e->w->arena, int64_t, g->leaves.n);
    e->out_axes = flxi_new(&e->w->arena, int64_t, n);
    if (!e->in_axes || !e->leaf_axis || !e->out_axes)
        return flxi_oom(e->w->err, "a training step");
    for (size_t i = 0; i < g->leaves.n; i++) {
        const flxi_value *v = flxi_value_at(g, g->leaves.at[i]);
        bool is_param = flxi_is_param(flxi_node_at(g, v->node));
        e->leaf_axis[i] = example_axis(g->ctx, v->type, e->size, e->dim);
        if (e->leaf_axis[i] == -1 || (is_param && e->leaf_axis[i] != FLX_NO_AXIS))
            return mixed_examples(e, is_param ? "parameter" : "input", v->name);
        if (e->leaf_axis[i] != FLX_NO_AXIS)
            e->in_axes[e->num_axes++] = (flx_vmap_axis){v->name, e->leaf_axis[i]};
    }
    for (size_t i = 0; i < g->outputs.n; i++) {
        const flx_type *type = flxi_type_at(g, g->outputs.at[i].val);
        int64_t axis = example_axis(g->ctx, type, e->size, e->dim);
        if (flxi_is_kept_output(e->w, i)) {
            e->out_axes[i] = FLX_NO_AXIS;
            continue;
        }
        if (axis == -1 || (axis == FLX_NO_AXIS && !flxi_is_float(type->dtype)))
            return mixed_examples(e, "output", g->outputs.at[i].name);
        e->out_axes[i] = axis == FLX_NO_AXIS ? 0 : axis;
    }
    return FLX_OK;
}

/* The same elements with an axis of extent 1 after the axis of examples: one example is a batch of one. */
static flx_val as_single_examples(flx_graph *g, flx_val x, int64_t axis)
{
    return flx_unsqueeze(g, x, FLX_INTS(axis + 1));
}

/* Output i of all examples as the loss has it: batches of one joined, or the mean. A state does not depend on them. */
static flx_val joined(example_work *e, flx_val x, size_t i)
{
    const flx_type *type = flxi_type_at(e->loss, e->loss->outputs.at[i].val);
    int64_t axis = example_axis(e->loss->ctx, type, e->size, e->dim);
    if (e->out_axes[i] == FLX_NO_AXIS)
        return x;
    if (axis == FLX_NO_AXIS)
        return flx_reduce_mean(e->w->g, x, FLX_INTS(0), 0);
    return flx_reshape(e->w->g, x, (flx_ints){type->dims, (size_t)type->rank});
}

/* clip / max(norm, clip) for each example; where gradients are scaled, so is clip. */
static flx_val example_factors(example_work *e, const flx_val *d)
{
    flxi_training_work *w = e->w;
    flx_val sum = FLX_NONE;
    for (size_t i = 0; i < w->num_trained; i++) {
        const flx_type *type = flx_val_type(w->g, d[i]);
        int64_t axes[FLX_MAX_RANK];
        int rank = type ? type->rank : 1;
        for (int k = 1; k < rank; k++)
            axes[k - 1] = k;
        flx_val x = flxi_with_dtype(w->g, d[i], w->widest), squares = flx_mul(w->g, x, x);
        if (rank > 1)
            squares = flx_reduce_sum(w->g, squares, (flx_ints){axes, (size_t)rank - 1}, 0);
        sum = i ? flx_add(w->g, sum, squares) : squares;
    }
    flx_val limit = flx_scalar(w->g, w->widest, w->o.clip_example);
    if (w->loss_scale.id)
        limit = flx_mul(w->g, limit, flxi_with_dtype(w->g, w->loss_scale, w->widest));
    return flx_div(w->g, limit, flx_max(w->g, flx_sqrt(w->g, sum), limit));
}

static flx_val clipped_mean(example_work *e, flx_val d, flx_val factors)
{
    flx_graph *g = e->w->g;
    const flx_type *type = flx_val_type(g, d);
    int rank = type ? type->rank : 1;
    flx_dim dims[FLX_MAX_RANK];
    for (int k = 0; k < rank; k++)
        dims[k] = k ? 1 : e->size;
    flx_val column = flx_reshape(g, factors, (flx_ints){dims, (size_t)rank});
    flx_val product = flx_mul(g, flxi_with_dtype(g, d, e->w->widest), column);
    flx_val mean = flx_reduce_mean(g, product, FLX_INTS(0), 0);
    return type ? flxi_with_dtype(g, mean, (flx_dtype)type->dtype) : mean;
}

static flx_code inline_examples(example_work *e, const flx_graph *batched)
{
    flxi_training_work *w = e->w;
    const flx_graph *loss = e->loss;
    size_t n = batched->outputs.n, first = loss->outputs.n;
    flx_val *inputs = flxi_new(&w->arena, flx_val, loss->leaves.n + 1), *results = flxi_new(&w->arena, flx_val, n);
    if (!inputs || !results)
        return flxi_oom(w->err, "a training step");
    FLXI_TRY(begin_scaled(w, loss, inputs));
    for (size_t i = 0; i < loss->leaves.n; i++)
        if (e->leaf_axis[i] != FLX_NO_AXIS)
            inputs[i] = as_single_examples(w->g, inputs[i], e->leaf_axis[i]);
    flx_inline(w->g, batched, inputs, batched->leaves.n, results, n);
    FLXI_TRY(flxi_built(w->g, w->err));
    for (size_t i = 0; i < first; i++)
        flx_output(w->g, joined(e, results[i], i), loss->outputs.at[i].name);
    flx_val factors = example_factors(e, results + first);
    for (size_t i = first; i < n; i++)
        flx_output(w->g, clipped_mean(e, results[i], factors), batched->outputs.at[i].name);
    flx_val ones = flx_expand(w->g, flx_scalar(w->g, w->widest, 1), (flx_ints){&e->size, 1});
    w->examples = flx_reduce_sum(w->g, ones, FLX_ALL, 0);
    return flxi_built(w->g, w->err);
}

/* Batches the gradient of one example. A state, such as a random key, is that of the step: it must be the same whatever
   the examples are. */
static flx_graph *batch_examples(example_work *e, const flx_graph *grad)
{
    flx_error *err = e->w->err;
    flx_graph *g = flx_vmap(grad, e->in_axes, e->num_axes, e->out_axes, grad->outputs.n, e->size, err);
    if (!g && e->w->num_kept && err->code == FLX_E_SHAPE) {
        flx_error found = *err;
        flxi_fail(err, FLX_E_UNSUPPORTED, "clip_example: states must not mix examples: %.150s", found.message);
    }
    return g;
}

static flx_code example_gradients(flxi_training_work *w, const flx_graph *loss)
{
    example_work e = {.w = w, .loss = loss};
    bool is_scaled = w->o.flags & FLX_TRAIN_LOSS_SCALE;
    if (is_scaled)
        FLXI_TRY(check_scalar(w, loss));
    FLXI_TRY(find_dimension(&e));
    FLXI_TRY(find_axes(&e));
    flx_dim_binding single = {e.dim, 1};
    flx_graph *one = flx_specialise(loss, &single, 1, w->err);
    flx_graph *grad = one ? differentiate(w, one, is_scaled ? FLX_GRAD_SEED_INPUT : 0) : NULL;
    flx_graph *batched = grad ? batch_examples(&e, grad) : NULL;
    flx_code code = batched ? inline_examples(&e, batched) : (flx_code)w->err->code;
    flx_graph_release(one);
    flx_graph_release(grad);
    flx_graph_release(batched);
    return code;
}

/* ---- All ---- */

flx_code flxi_make_gradients(flxi_training_work *w)
{
    flx_graph *divided = NULL;
    const flx_graph *loss = w->loss;
    if (w->o.recompute > 0) {
        divided = flxi_recompute_regions(loss, w->o.recompute, w->err);
        if (!divided)
            return (flx_code)w->err->code;
        loss = divided;
    }
    flx_code code = FLX_OK;
    if (w->o.clip_example > 0)
        code = example_gradients(w, loss);
    else if (w->o.flags & FLX_TRAIN_LOSS_SCALE)
        code = scaled_gradients(w, loss);
    else if (!(w->g = differentiate(w, loss, 0)))
        code = (flx_code)w->err->code;
    flx_graph_release(divided);
    return code;
}
