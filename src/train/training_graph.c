/* SPDX-License-Identifier: Apache-2.0 */
/* training_graph.c: from a loss to a training step. The gradient graph of the loss gets the optimiser's state as
   further parameters and the update as further nodes; the gradients are then no longer outputs. Everything is one
   graph: the compiler sees that a gradient is used once, by the update, and needs no memory for it where both become
   one kernel. */
#include "train/train.h"

#include "autodiff/autodiff.h"
#include "base/options.h"

#include <fluxion/ops.h>
#include <math.h>
#include <stdio.h>

typedef struct {
    const flx_graph *loss;
    flx_train_options o;
    const flxi_optimiser *optimiser;
    flxi_training *t;
    flx_graph *g;       /* the gradient graph, which grows */
    flxi_arena arena;   /* scratch */
    const char **names; /* of the trained parameters */
    size_t num_trained;
    flx_dtype widest; /* of the arithmetic: f64 if some parameter is, else f32 */
    flx_val rate, step;
    flx_val norm;  /* of all gradients, or a loss that is not finite; or none */
    flx_val scale; /* of the gradients, from clipping; or none */
    bool for_trainer;
    flx_val *next; /* by position in t->updated */
    flx_error *err;
} training_work;

/* ---- What is trained ---- */

static bool is_param(const flx_graph *g, size_t leaf)
{
    return flxi_is_param(flxi_node_at(g, flxi_value_at(g, g->leaves.at[leaf])->node));
}

static flx_code check_trainable(const training_work *w, size_t leaf)
{
    uint32_t id = w->loss->leaves.at[leaf];
    flxi_value_text text;
    const flx_type *type = flxi_type_at(w->loss, id);
    if (flxi_is_complex(type->dtype))
        return flxi_fail_hint(w->err, FLX_E_UNSUPPORTED,
                              "train its real and imaginary parts, or name the others in params",
                              "complex parameters cannot be trained: %s", flxi_value_str(w->loss, id, NULL, &text));
    if (!flxi_is_float(type->dtype))
        return flxi_fail_hint(w->err, FLX_E_NOT_DIFFERENTIABLE, "only floating values are trained",
                              "%s cannot be trained", flxi_value_str(w->loss, id, NULL, &text));
    return FLX_OK;
}

static flx_code choose_named(const training_work *w, bool *chosen)
{
    for (size_t i = 0; i < w->o.num_params; i++) {
        size_t leaf;
        if (!w->o.params[i])
            return flxi_fail(w->err, FLX_E_USAGE, "training: the name of a parameter is NULL");
        if (!flxi_find_leaf(w->loss, w->o.params[i], &leaf))
            return flxi_no_input(w->err, w->loss, w->o.params[i]);
        if (!is_param(w->loss, leaf))
            return flxi_fail_hint(w->err, FLX_E_NAME, "declare it as a parameter",
                                  "'%s' is an input of the graph '%s', not a parameter", w->o.params[i], w->loss->name);
        if (chosen[leaf])
            return flxi_fail(w->err, FLX_E_DUP_NAME, "training: the parameter '%s' is named twice", w->o.params[i]);
        FLXI_TRY(check_trainable(w, leaf));
        chosen[leaf] = true;
    }
    return FLX_OK;
}

static flx_code choose_all(const training_work *w, bool *chosen)
{
    for (size_t i = 0; i < w->loss->leaves.n; i++) {
        int32_t dtype = flxi_type_at(w->loss, w->loss->leaves.at[i])->dtype;
        chosen[i] = is_param(w->loss, i) && (flxi_is_float(dtype) || flxi_is_complex(dtype));
        if (chosen[i])
            FLXI_TRY(check_trainable(w, i));
    }
    return FLX_OK;
}

static flx_code choose_params(training_work *w)
{
    size_t n = w->loss->leaves.n;
    bool *chosen = flxi_new(&w->arena, bool, n);
    w->names = flxi_new(&w->arena, const char *, n);
    if (!chosen || !w->names)
        return flxi_oom(w->err, "a training step");
    FLXI_TRY(w->o.params ? choose_named(w, chosen) : choose_all(w, chosen));
    w->widest = FLX_F32;
    for (size_t i = 0; i < n; i++) {
        if (!chosen[i])
            continue;
        w->names[w->num_trained++] = flxi_value_at(w->loss, w->loss->leaves.at[i])->name;
        if (flxi_type_at(w->loss, w->loss->leaves.at[i])->dtype == FLX_F64)
            w->widest = FLX_F64;
    }
    if (!w->num_trained)
        return flxi_fail_hint(w->err, FLX_E_USAGE, "declare what is trained with flx_param(), or `param` in text",
                              "the graph '%s' has no parameter to train", w->loss->name);
    return FLX_OK;
}

/* ---- New leaves ---- */

/* A parameter named after the given parts, with a suffix where that name is in use; it becomes the next updated
   leaf. */
static flx_val new_state(training_work *w, const char *param, const char *state, const flx_type *type)
{
    char text[300];
    snprintf(text, sizeof text, "state_%.200s%s%s", param, param[0] ? "_" : "", state);
    size_t n = strlen(text);
    for (unsigned k = 2; flx_graph_find(w->g, text).id; k++)
        snprintf(text + n, sizeof text - n, "_%u", k);
    w->t->updated[w->t->num_updated++] = w->g->leaves.n;
    return flx_param(w->g, text, type);
}

static flx_val as(training_work *w, flx_val x, flx_dtype to)
{
    const flx_type *type = flx_val_type(w->g, x);
    return type && type->dtype == (int32_t)to ? x : flx_cast(w->g, x, to);
}

static flx_val leaf_value(const training_work *w, size_t leaf)
{
    return (flx_val){w->g->leaves.at[leaf], w->g->serial};
}

static flx_val gradient_of(const training_work *w, size_t i)
{
    return flx_graph_output(w->g, w->t->num_results + i);
}

/* The update of a trainer reads what is complete: gradients that are finite, and scalars. It then is a kernel that
   writes each element where it reads it, and runs after everything that can fail. */
static flx_val complete(const training_work *w, flx_val v)
{
    return w->for_trainer ? flx_pin(w->g, v) : v;
}

static flx_dtype arithmetic_of(const training_work *w, flx_val v)
{
    const flx_type *type = flx_val_type(w->g, v);
    return type && type->dtype == FLX_F64 ? FLX_F64 : FLX_F32;
}

/* ---- The update ---- */

static void find_norm(training_work *w)
{
    flx_val sum = FLX_NONE;
    for (size_t i = 0; i < w->num_trained; i++) {
        flx_val d = as(w, gradient_of(w, i), w->widest);
        flx_val squares = flx_reduce_sum(w->g, flx_mul(w->g, d, d), FLX_ALL, 0);
        sum = i ? flx_add(w->g, sum, squares) : squares;
    }
    w->norm = flx_sqrt(w->g, sum);
}

/* The norm, or the loss where that is not finite: a loss may be NaN although its gradients are not. The update waits
   for it, whether it is clipped or not. */
static void guard_loss(training_work *w)
{
    flx_val loss = flx_graph_output(w->g, 0);
    w->norm = flx_where(w->g, flx_is_finite(w->g, loss), w->norm, as(w, loss, w->widest));
}

/* min(1, clip_norm / norm), as clip_norm / max(norm, clip_norm): exactly 1 where nothing is clipped. */
static void clip(training_work *w)
{
    flx_val limit = flx_scalar(w->g, w->widest, w->o.clip_norm);
    w->scale = complete(w, flx_div(w->g, limit, flx_max(w->g, w->norm, limit)));
}

/* Multiplies by exactly 1, a number that is known only with the norm: so the update is in no kernel with what finds the
   norm, which must run before it. */
static void wait_for_norm(training_work *w)
{
    flx_val limit = flx_scalar(w->g, w->widest, INFINITY), one = flx_scalar(w->g, w->widest, 1);
    w->scale = complete(w, flx_where(w->g, flx_lt(w->g, w->norm, limit), one, flx_scalar(w->g, w->widest, 0)));
}

static void update_param(training_work *w, size_t i)
{
    flx_val p = leaf_value(w, w->t->updated[i]);
    flx_dtype dtype = arithmetic_of(w, p);
    flxi_update u = {.g = w->g,
                     .o = &w->o,
                     .dtype = dtype,
                     .rate = as(w, w->rate, dtype),
                     .p = as(w, p, dtype),
                     .dp = as(w, gradient_of(w, i), dtype)};
    size_t state = w->num_trained + i * (size_t)w->optimiser->num_state;
    for (int k = 0; k < w->optimiser->num_state; k++)
        u.state[k] = leaf_value(w, w->t->updated[state + (size_t)k]);
    if (w->optimiser->counts_steps)
        u.step = as(w, w->step, dtype);
    if (w->scale.id)
        u.dp = flx_mul(w->g, u.dp, as(w, w->scale, dtype));
    if (w->o.weight_decay > 0 && !w->optimiser->decay_is_apart)
        u.dp = flx_add(w->g, u.dp, flx_mul(w->g, flx_scalar(w->g, dtype, w->o.weight_decay), u.p));
    const flx_type *stored = flx_val_type(w->g, p);
    flx_val next = w->optimiser->update(&u);
    w->next[i] = stored ? as(w, next, (flx_dtype)stored->dtype) : next;
    for (int k = 0; k < w->optimiser->num_state; k++)
        w->next[state + (size_t)k] = u.next[k];
}

static void declare_state(training_work *w)
{
    for (size_t i = 0; i < w->num_trained; i++) {
        flx_val p = leaf_value(w, w->t->updated[i]);
        flx_type type = *flx_val_type(w->g, p);
        type.dtype = (int32_t)arithmetic_of(w, p);
        for (int k = 0; k < w->optimiser->num_state; k++)
            new_state(w, w->names[i], w->optimiser->state[k], &type);
    }
    if (w->optimiser->counts_steps) {
        flx_type counter = flx_type_make(FLX_I64, 0, NULL);
        flx_val before = new_state(w, "", "step", &counter);
        w->step = complete(w, flx_add(w->g, before, flx_scalar(w->g, FLX_I64, 1)));
        w->next[w->t->num_updated - 1] = w->step;
    }
    flx_type scalar = flx_type_make(w->widest, 0, NULL);
    if (w->o.flags & FLX_TRAIN_RATE_INPUT)
        w->rate = flxi_new_leaf(w->g, "lr", "", &scalar);
    else
        w->rate = flx_scalar(w->g, w->widest, w->o.rate);
}

/* ---- The whole ---- */

/* The gradients are outputs of w->g; the results of the update become outputs after them, and then the gradients are
   dropped. */
static flx_code choose_outputs(training_work *w)
{
    flxi_training *t = w->t;
    size_t n = t->num_results + t->num_updated + t->is_guarded, first_new = w->g->outputs.n;
    flxi_choice *choices = flxi_new(&w->arena, flxi_choice, n);
    if (!choices)
        return flxi_oom(w->err, "a training step");
    for (size_t i = 0; i < t->num_results; i++)
        choices[i].output = i;
    for (size_t j = 0; j < t->num_updated; j++) {
        char name[300];
        flx_val leaf = leaf_value(w, t->updated[j]);
        snprintf(name, sizeof name, "new_%.250s", flx_val_name(w->g, leaf));
        flx_output(w->g, w->next[j], name);
        choices[t->num_results + j].output = first_new + j;
    }
    if (t->is_guarded) {
        flx_output(w->g, w->norm, "loss_or_gradient_norm");
        choices[n - 1].output = first_new + t->num_updated;
    }
    FLXI_TRY(flxi_built(w->g, w->err));
    flxi_name name;
    t->g = flxi_choose_outputs_as(w->g, flxi_derived_name(w->loss, "train", &name), choices, n, w->err);
    return t->g ? FLX_OK : (flx_code)w->err->code;
}

static flx_code differentiate(training_work *w)
{
    flx_grad_options o = {.struct_size = sizeof o, .flags = FLX_GRAD_VALUE};
    if (w->o.flags & FLX_TRAIN_MISSING_ZERO)
        o.flags |= FLX_GRAD_MISSING_ZERO;
    w->g = flx_grad(w->loss, w->names, w->num_trained, &o, w->err);
    if (w->g)
        return FLX_OK;
    flxi_without_options(w->err);
    if (w->err->code == FLX_E_NO_GRAD_PATH)
        flxi_hint(w->err, "name the parameters to train in flx_train_options.params, or use FLX_TRAIN_MISSING_ZERO");
    return (flx_code)w->err->code;
}

static flx_code make(training_work *w)
{
    flxi_training *t = w->t;
    FLXI_TRY(flx_graph_error(w->loss, w->err));
    FLXI_TRY(flxi_train_options_check(&w->o, &w->o, w->err));
    w->optimiser = flxi_optimiser_at(w->o.optimiser);
    FLXI_TRY(choose_params(w));
    FLXI_TRY(differentiate(w));
    t->mem = &w->loss->ctx->mem;
    t->room = w->num_trained * (size_t)(1 + w->optimiser->num_state) + 1;
    t->updated = flxi_alloc(t->mem, t->room, sizeof *t->updated);
    w->next = flxi_new(&w->arena, flx_val, t->room);
    if (!t->updated || !w->next)
        return flxi_oom(w->err, "a training step");
    t->num_results = w->loss->outputs.n;
    t->first_state = w->g->leaves.n;
    for (size_t i = 0; i < w->num_trained; i++)
        flxi_find_leaf(w->g, w->names[i], &t->updated[t->num_updated++]);
    declare_state(w);
    FLXI_TRY(flxi_built(w->g, w->err));
    for (size_t i = 0; i < w->num_trained; i++)
        complete(w, gradient_of(w, i));
    t->is_guarded = w->for_trainer && !(w->o.flags & FLX_TRAIN_UNGUARDED);
    if (w->o.clip_norm > 0 || t->is_guarded)
        find_norm(w);
    if (t->is_guarded)
        guard_loss(w);
    if (w->o.clip_norm > 0)
        clip(w);
    else if (t->is_guarded)
        wait_for_norm(w);
    for (size_t i = 0; i < w->num_trained; i++)
        update_param(w, i);
    return choose_outputs(w);
}

flx_code flxi_training_make(flxi_training *t, const flx_graph *loss, const flx_train_options *options, bool for_trainer,
                            flx_error *err)
{
    flx_error local = {0};
    *t = (flxi_training){0};
    training_work w = {.loss = loss, .t = t, .for_trainer = for_trainer, .err = &local};
    flx_code code = FLXI_READ_OPTIONS(flx_train_options, &w.o, options, &local);
    if (loss && flxi_graph_alive(loss))
        flxi_arena_init(&w.arena, &loss->ctx->mem);
    if (code == FLX_OK)
        code = make(&w);
    if (w.g)
        flx_graph_release(w.g);
    if (w.arena.mem)
        flxi_arena_free(&w.arena);
    if (code != FLX_OK && err)
        *err = local;
    return code;
}

void flxi_training_free(flxi_training *t)
{
    if (t->updated)
        flxi_free(t->mem, t->updated, t->room, sizeof *t->updated);
    flx_graph_release(t->g);
    *t = (flxi_training){0};
}

flx_graph *flx_training_graph(const flx_graph *loss, const flx_train_options *options, flx_error *err)
{
    flxi_training t;
    flx_graph *g = NULL;
    if (flxi_training_make(&t, loss, options, false, err) == FLX_OK) {
        g = t.g;
        t.g = NULL;
    }
    flxi_training_free(&t);
    return g;
}
