/* SPDX-License-Identifier: Apache-2.0 */
/* training_graph.c: from a loss to a training step. The gradient graph of the loss gets the optimiser's state as
   further parameters and the update as further nodes; the gradients are then no longer outputs. Everything is one
   graph: the compiler sees that a gradient is used once, by the update, and needs no memory for it where both become
   one kernel. */
#include "train/params.h"
#include "train/training_work.h"

#include <fluxion/ops.h>
#include <math.h>
#include <stdio.h>

typedef flxi_training_work training_work;

/* ---- What is trained ---- */

static bool is_param(const flx_graph *g, size_t leaf)
{
    return flxi_is_param(flxi_node_of(g, g->leaves.at[leaf]));
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

static bool is_pattern(const char *name)
{
    return strpbrk(name, "*?") != NULL;
}

/* All trainable parameters that match: a pattern may also match others. */
static flx_code choose_matching(const training_work *w, const char *pattern, bool *chosen)
{
    bool any = false;
    size_t output;
    for (size_t i = 0; i < w->loss->leaves.n; i++) {
        const flxi_value *v = flxi_value_at(w->loss, w->loss->leaves.at[i]);
        if (is_param(w->loss, i) && flxi_is_float(v->type->dtype) && !flxi_find_update(w->loss, i, &output) &&
            flx_name_matches(pattern, v->name))
            any = chosen[i] = true;
    }
    return any ? FLX_OK
               : flxi_fail(w->err, FLX_E_NAME, "training: no parameter of '%.60s' matches '%.60s'", w->loss->name,
                           pattern);
}

static flx_code choose_name(const training_work *w, const char *name, bool *chosen)
{
    size_t leaf, output;
    if (!flxi_find_leaf(w->loss, name, &leaf))
        return flxi_no_input(w->err, w->loss, name);
    if (!is_param(w->loss, leaf))
        return flxi_fail_hint(w->err, FLX_E_NAME, "declare it as a parameter",
                              "'%s' is an input of the graph '%s', not a parameter", name, w->loss->name);
    if (flxi_find_update(w->loss, leaf, &output))
        return flxi_fail(w->err, FLX_E_NAME, "'%s' is a state, which the output 'new_%s' sets: it is not trained", name,
                         name);
    if (chosen[leaf])
        return flxi_fail(w->err, FLX_E_DUP_NAME, "training: the parameter '%s' is named twice", name);
    FLXI_TRY(check_trainable(w, leaf));
    chosen[leaf] = true;
    return FLX_OK;
}

static flx_code choose_named(const training_work *w, bool *chosen)
{
    for (size_t i = 0; i < w->o.num_params; i++) {
        const char *name = w->o.params[i];
        if (!name)
            return flxi_fail(w->err, FLX_E_USAGE, "training: the name of a parameter is NULL");
        FLXI_TRY(is_pattern(name) ? choose_matching(w, name, chosen) : choose_name(w, name, chosen));
    }
    return FLX_OK;
}

static flx_code choose_all(const training_work *w, bool *chosen)
{
    size_t output;
    for (size_t i = 0; i < w->loss->leaves.n; i++) {
        int32_t dtype = flxi_type_at(w->loss, w->loss->leaves.at[i])->dtype;
        chosen[i] = is_param(w->loss, i) && (flxi_is_float(dtype) || flxi_is_complex(dtype)) &&
                    !flxi_find_update(w->loss, i, &output);
        if (chosen[i])
            FLXI_TRY(check_trainable(w, i));
    }
    return FLX_OK;
}

/* The first names of parameters, as a hint about a pattern that none of them has. */
static void hint_params(const training_work *w)
{
    char list[90];
    size_t n = 0;
    for (size_t leaf = 0; leaf < w->loss->leaves.n; leaf++) {
        const char *name = flxi_value_at(w->loss, w->loss->leaves.at[leaf])->name;
        if (!is_param(w->loss, leaf))
            continue;
        bool fits = n + strlen(name) + 8 < sizeof list;
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", n ? ", " : "", fits ? name : "...");
        if (!fits)
            break;
    }
    flxi_hint(w->err, "parameters are called %s", n ? list : "nothing: there are none");
}

/* A group that matches nothing is a typing error: biases would decay, layers would not be frozen. */
static flx_code check_groups(const training_work *w)
{
    for (size_t i = 0; i < w->o.num_groups; i++) {
        bool is_met = false;
        for (size_t leaf = 0; leaf < w->loss->leaves.n && !is_met; leaf++)
            is_met = is_param(w->loss, leaf) &&
                     flx_name_matches(w->o.groups[i].pattern, flxi_value_at(w->loss, w->loss->leaves.at[leaf])->name);
        if (is_met)
            continue;
        flxi_fail(w->err, FLX_E_NAME, "training: no parameter of '%.60s' matches the group '%.60s'", w->loss->name,
                  w->o.groups[i].pattern);
        hint_params(w);
        return FLX_E_NAME;
    }
    return FLX_OK;
}

static const char *leaf_name(const training_work *w, size_t leaf)
{
    return flxi_value_at(w->loss, w->loss->leaves.at[leaf])->name;
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
        if (!chosen[i] || flxi_group_of(&w->o, leaf_name(w, i)).is_frozen)
            continue;
        w->names[w->num_trained] = leaf_name(w, i);
        w->num_trained++;
        if (flxi_type_at(w->loss, w->loss->leaves.at[i])->dtype == FLX_F64)
            w->widest = FLX_F64;
    }
    if (!w->num_trained)
        return flxi_fail_hint(w->err, FLX_E_USAGE, "declare what is trained with flx_param(), or `param` in text",
                              "the graph '%s' has no parameter to train", w->loss->name);
    return FLX_OK;
}

/* ---- Leaves ---- */

/* Trained parameters, then states of the graph. Gradient graphs have the leaves of the loss at the same positions. */
static flx_code list_updated(training_work *w)
{
    flxi_training *t = w->t;
    size_t n = w->loss->leaves.n;
    t->mem = &w->loss->ctx->mem;
    t->room = w->num_trained * (1 + FLXI_MAX_STATE + 2) + n + 8;
    t->updated = flxi_alloc(t->mem, t->room, sizeof *t->updated);
    w->next = flxi_new(&w->arena, flx_val, t->room);
    w->kept_outputs = flxi_new(&w->arena, size_t, n);
    w->total = flxi_new(&w->arena, flx_val, w->num_trained);
    if (!t->updated || !w->next || !w->kept_outputs || !w->total)
        return flxi_oom(w->err, "a training step");
    for (size_t i = 0; i < w->num_trained; i++)
        flxi_find_leaf(w->loss, w->names[i], &t->updated[t->num_updated++]);
    for (size_t i = 0; i < n; i++)
        if (flxi_find_update(w->loss, i, &w->kept_outputs[w->num_kept])) {
            t->updated[t->num_updated++] = i;
            w->num_kept++;
        }
    t->num_trained = w->num_trained;
    t->num_results = w->loss->outputs.n - w->num_kept;
    t->first_state = n;
    return FLX_OK;
}

flx_val flxi_new_state(training_work *w, const char *param, const char *state, const flx_type *type)
{
    char text[300];
    snprintf(text, sizeof text, "state_%.200s%s%s", param, param[0] ? "_" : "", state);
    size_t n = strlen(text);
    for (unsigned k = 2; flx_graph_find(w->g, text).id; k++)
        snprintf(text + n, sizeof text - n, "_%u", k);
    w->t->updated[w->t->num_updated++] = w->g->leaves.n;
    return flx_param(w->g, text, type);
}

flx_val flxi_with_dtype(flx_graph *g, flx_val x, flx_dtype to)
{
    const flx_type *type = flx_val_type(g, x);
    return type && type->dtype == (int32_t)to ? x : flx_cast(g, x, to);
}

static flx_val as(training_work *w, flx_val x, flx_dtype to)
{
    return flxi_with_dtype(w->g, x, to);
}

static flx_val leaf_value(const training_work *w, size_t leaf)
{
    return (flx_val){w->g->leaves.at[leaf], w->g->serial};
}

static flx_val gradient_of(const training_work *w, size_t i)
{
    return flx_graph_output(w->g, w->loss->outputs.n + i);
}

/* The update of a trainer reads what is complete: gradients that are finite, and scalars. It then is a kernel that
   writes each element where it reads it, and runs after everything that can fail. */
static flx_val complete(const training_work *w, flx_val v)
{
    return w->for_trainer ? flx_pin(w->g, v) : v;
}

/* The gradient, or the numbers of 16 bits that it is a cast of: these stay in memory until the update widens them. */
static flx_val narrow_gradient(const training_work *w, size_t i)
{
    flx_val d = gradient_of(w, i);
    const flxi_node *n = flxi_node_at(w->g, flxi_value_at(w->g, d.id)->node);
    bool is_cast = n->nin == 1 && n->nout == 1 && flxi_ops[n->op].op_class == CLASS_POINTWISE;
    int32_t from = is_cast ? flxi_type_at(w->g, n->in[0])->dtype : FLX_DTYPE_NONE;
    bool widens = (from == FLX_F16 || from == FLX_BF16) && flxi_type_at(w->g, d.id)->dtype == FLX_F32;
    return widens ? (flx_val){n->in[0], w->g->serial} : d;
}

static flx_dtype arithmetic_of(const training_work *w, flx_val v)
{
    const flx_type *type = flx_val_type(w->g, v);
    return type && type->dtype == FLX_F64 ? FLX_F64 : FLX_F32;
}

/* `then` where the condition holds, which may be none: always. */
static flx_val if_else(const training_work *w, flx_val condition, flx_val then, flx_val otherwise)
{
    return condition.id ? flx_where(w->g, condition, then, otherwise) : then;
}

static flx_val both(const training_work *w, flx_val a, flx_val b)
{
    return a.id && b.id ? flx_and(w->g, a, b) : a.id ? a : b;
}

/* A counter: a state of i64[]. */
static flx_val new_counter(training_work *w, const char *name, size_t *at)
{
    flx_type counter = flx_type_make(FLX_I64, 0, NULL);
    *at = w->t->num_updated;
    return flxi_new_state(w, "", name, &counter);
}

static flx_val whole(const training_work *w, int64_t value)
{
    return flx_scalar(w->g, FLX_I64, (double)value);
}

/* ---- Rates ---- */

static flx_code check_schedule(const training_work *w)
{
    const flx_graph *s = w->o.schedule;
    if (s->ctx != w->loss->ctx)
        return flxi_fail(w->err, FLX_E_USAGE, "training: the schedule belongs to another context");
    if (s->leaves.n != 1 || s->outputs.n < 1)
        return flxi_fail(w->err, FLX_E_USAGE, "training: the schedule '%.60s' must have one input and an output",
                         s->name);
    const flx_type *in = flxi_type_at(s, s->leaves.at[0]), *out = flxi_type_at(s, s->outputs.at[0].val);
    if (in->rank || out->rank || !flxi_is_float(out->dtype) || (in->dtype != FLX_I64 && !flxi_is_float(in->dtype)))
        return flxi_fail(w->err, FLX_E_USAGE,
                         "training: the schedule '%.60s' must be a real function of a number of steps", s->name);
    return FLX_OK;
}

/* The factor of the rate after that many steps. */
static flx_val scheduled(training_work *w, flx_val before)
{
    const flx_graph *s = w->o.schedule;
    flx_val *results = flxi_new(&w->arena, flx_val, s->outputs.n), in = FLX_NONE;
    if (!results)
        return FLX_NONE;
    in = as(w, before, (flx_dtype)flxi_type_at(s, s->leaves.at[0])->dtype);
    flx_inline(w->g, s, &in, 1, results, s->outputs.n);
    return as(w, results[0], w->widest);
}

static bool counts_steps(const training_work *w)
{
    return w->optimiser->counts_steps || w->o.schedule || w->o.ema > 0 || w->o.noise > 0;
}

static flx_code declare_rate(training_work *w)
{
    flx_val before = FLX_NONE;
    size_t at;
    if (counts_steps(w)) {
        before = new_counter(w, "step", &at);
        w->step = complete(w, flx_add(w->g, before, whole(w, 1)));
        w->next[at] = w->step;
    }
    flx_type scalar = flx_type_make(w->widest, 0, NULL);
    if (w->o.flags & FLX_TRAIN_RATE_INPUT)
        w->rate = flxi_new_leaf(w->g, "lr", "", &scalar);
    else
        w->rate = flx_scalar(w->g, w->widest, w->o.rate);
    if (w->o.schedule) {
        FLXI_TRY(check_schedule(w));
        w->rate = complete(w, flx_mul(w->g, w->rate, scheduled(w, before)));
    }
    return FLX_OK;
}

/* ---- Accumulation and scaling ---- */

/* The dimension that counts the examples: the one that the options name, or the only symbolic one; NULL: none is
   known. */
static const char *counting_dim(const training_work *w)
{
    const flx_graph *g = w->loss;
    for (size_t i = 0; w->o.example_dim && i < g->symbols.n; i++)
        if (strcmp(g->symbols.at[i], w->o.example_dim) == 0)
            return g->symbols.at[i];
    return !w->o.example_dim && g->symbols.n == 1 ? g->symbols.at[0] : NULL;
}

static flx_code check_example_dim(const training_work *w)
{
    if (!w->o.example_dim || w->o.accumulate == 1 || counting_dim(w))
        return FLX_OK;
    return flxi_fail(w->err, FLX_E_NAME, "training: the graph '%.60s' has no dimension called '%.60s'", w->loss->name,
                     w->o.example_dim);
}

/* How many examples the step has, from an input that has an axis of them; none where no input shows it. */
static flx_val examples_of_step(training_work *w)
{
    const char *dim = counting_dim(w);
    flx_dim size = dim ? flx_dim_symbol(w->loss->ctx, dim) : 0;
    for (size_t i = 0; dim && i < w->loss->leaves.n; i++) {
        const flx_type *type = flxi_type_at(w->loss, w->loss->leaves.at[i]);
        for (int k = 0; k < type->rank; k++)
            if (type->dims[k] == size)
                return flx_dim_size(w->g, leaf_value(w, i), k);
    }
    return FLX_NONE;
}

/* Sums of gradients, and how many steps and examples they have. A step counts as much as it has examples, so that
   several batches give the gradient of all of them joined, also where the last one is smaller. */
static void declare_sums(training_work *w)
{
    size_t at;
    if (w->o.accumulate == 1)
        return;
    for (size_t i = 0; i < w->num_trained; i++) {
        flx_val p = leaf_value(w, w->t->updated[i]);
        flx_type type = *flx_val_type(w->g, p);
        type.dtype = (int32_t)arithmetic_of(w, p);
        flxi_new_state(w, w->names[i], "sum", &type);
    }
    flx_val count = flx_add(w->g, new_counter(w, "micro_step", &at), whole(w, 1));
    w->is_last = complete(w, flx_eq(w->g, count, whole(w, w->o.accumulate)));
    w->next[at] = flx_where(w->g, w->is_last, whole(w, 0), count);
    w->weight = examples_of_step(w);
    if (!w->weight.id)
        return;
    flx_val total = flx_add(w->g, new_counter(w, "examples", &at), w->weight);
    w->next[at] = flx_where(w->g, w->is_last, whole(w, 0), total);
    w->examples = as(w, total, w->widest);
    w->weight = complete(w, as(w, w->weight, w->widest));
    w->share = complete(w, flx_reciprocal(w->g, w->examples));
}

/* The sum of the gradients so far with this one, and their mean. */
static flx_val accumulated(training_work *w, size_t at, flx_val d, flx_dtype dtype)
{
    flx_val share = w->share.id ? as(w, w->share, dtype) : flx_scalar(w->g, dtype, 1.0 / (double)w->o.accumulate);
    if (w->weight.id)
        d = flx_mul(w->g, d, as(w, w->weight, dtype));
    flx_val sum = flx_add(w->g, leaf_value(w, w->t->updated[at]), d);
    w->next[at] = flx_where(w->g, w->is_last, flx_scalar(w->g, dtype, 0), sum);
    return flx_mul(w->g, sum, share);
}

/* Gradients of this step, and with accumulation the mean with those before it. Sums are the `first` states. */
static void find_totals(training_work *w, size_t first)
{
    flx_val unscale = w->loss_scale.id ? complete(w, flx_reciprocal(w->g, w->loss_scale)) : FLX_NONE;
    for (size_t i = 0; i < w->num_trained; i++) {
        flx_dtype dtype = arithmetic_of(w, leaf_value(w, w->t->updated[i]));
        flx_val d = as(w, gradient_of(w, i), dtype);
        if (unscale.id)
            d = flx_mul(w->g, d, as(w, unscale, dtype));
        w->total[i] = w->is_last.id ? accumulated(w, first + i, d, dtype) : d;
    }
}

/* A scale that is too large halves; one that was good for long enough doubles, up to a limit that f32 holds. */
static void adapt_scale(training_work *w)
{
    flx_graph *g = w->g;
    size_t at = w->scale_at + 1;
    flx_val good = flx_add(g, leaf_value(w, w->t->updated[at]), whole(w, 1)), one = flx_scalar(g, FLX_F32, 1);
    flx_val is_due = flx_ge(g, good, whole(w, w->o.scale_interval));
    flx_val doubled = flx_min(g, flx_add(g, w->loss_scale, w->loss_scale), flx_scalar(g, FLX_F32, 0x1p64));
    flx_val halved = flx_max(g, flx_mul(g, w->loss_scale, flx_scalar(g, FLX_F32, 0.5)), one);
    w->next[at] = flx_where(g, flx_and(g, w->takes, flx_not(g, is_due)), good, whole(w, 0));
    w->next[w->scale_at] = flx_where(g, w->takes, flx_where(g, is_due, doubled, w->loss_scale), halved);
}

/* ---- Norms and clipping ---- */

static flx_val norm_of_totals(training_work *w)
{
    flx_val sum = FLX_NONE;
    for (size_t i = 0; i < w->num_trained; i++) {
        flx_val d = as(w, w->total[i], w->widest);
        flx_val squares = flx_reduce_sum(w->g, flx_mul(w->g, d, d), FLX_ALL, 0);
        if (w->squares && !w->squares[i].id) /* before clipping */
            w->squares[i] = squares;
        sum = i ? flx_add(w->g, sum, squares) : squares;
    }
    return flx_sqrt(w->g, sum);
}

/* The norm, or the loss where that is not finite: a loss may be NaN although its gradients are not. The update waits
   for it, whether it is clipped or not. */
static void guard_loss(training_work *w)
{
    flx_val loss = flx_graph_output(w->g, 0);
    w->norm = flx_where(w->g, flx_is_finite(w->g, loss), w->norm, as(w, loss, w->widest));
}

/* Steps whose scaled gradients overflow are left out, and -1 is their norm; if even a scale of 1 is too large, the step
   fails. */
static void leave_out(training_work *w)
{
    flx_graph *g = w->g;
    w->takes = complete(w, flx_is_finite(g, w->norm));
    flx_val may_shrink = flx_gt(g, w->loss_scale, flx_scalar(g, FLX_F32, 1));
    flx_val is_left_out = flx_and(g, flx_not(g, w->takes), may_shrink);
    w->norm = flx_where(g, is_left_out, flx_scalar(g, w->widest, -1), w->norm);
}

static void clip_values(training_work *w)
{
    for (size_t i = 0; i < w->num_trained; i++) {
        const flx_type *type = flx_val_type(w->g, w->total[i]);
        flx_dtype dtype = type ? (flx_dtype)type->dtype : FLX_F32;
        w->total[i] = flx_clamp(w->g, flx_scalar(w->g, dtype, -w->o.clip_value), w->total[i],
                                flx_scalar(w->g, dtype, w->o.clip_value));
    }
}

/* min(1, clip_norm / norm), as clip_norm / max(norm, clip_norm): exactly 1 where nothing is clipped. */
static void clip(training_work *w, flx_val norm)
{
    flx_val limit = flx_scalar(w->g, w->widest, w->o.clip_norm);
    w->factor = complete(w, flx_div(w->g, limit, flx_max(w->g, norm, limit)));
}

static flx_val is_below_infinity(training_work *w)
{
    return flx_lt(w->g, w->norm, flx_scalar(w->g, w->widest, INFINITY));
}

/* Multiplies by exactly 1, a number that is known only with the norm: so the update is in no kernel with what finds the
   norm, which must run before it. */
static void wait_for_norm(training_work *w)
{
    flx_val one = flx_scalar(w->g, w->widest, 1), zero = flx_scalar(w->g, w->widest, 0);
    w->factor = complete(w, flx_where(w->g, is_below_infinity(w), one, zero));
}

static void guard_and_clip(training_work *w)
{
    bool scales = w->loss_scale.id, is_guarded = w->for_trainer && !(w->o.flags & FLX_TRAIN_UNGUARDED);
    if (w->o.clip_norm > 0 || is_guarded || scales || w->squares)
        w->norm = norm_of_totals(w);
    flx_val norm = w->norm;
    if (is_guarded || scales)
        guard_loss(w);
    if (scales)
        leave_out(w);
    if (w->o.clip_value > 0)
        clip_values(w);
    if (w->o.clip_norm > 0)
        clip(w, w->o.clip_value > 0 ? norm_of_totals(w) : is_guarded && !scales ? w->norm : norm);
    else if (is_guarded)
        wait_for_norm(w);
    w->t->guard = is_guarded;
    w->waits = w->takes;
    if (is_guarded && !scales && w->is_last.id)
        w->waits = complete(w, is_below_infinity(w));
}

/* ---- Noise ---- */

static flx_val key_of_step(training_work *w)
{
    flx_val words[] = {flx_scalar(w->g, FLX_U32, (double)(w->o.seed & UINT32_MAX)),
                       flx_scalar(w->g, FLX_U32, (double)(w->o.seed >> 32))};
    for (int k = 0; k < 2; k++)
        words[k] = flx_reshape(w->g, words[k], FLX_INTS(1));
    const flx_attr axis = flx_attr_int("axis", 0);
    flx_val key = FLX_NONE;
    flx_op(w->g, "concat", words, 2, &axis, 1, &key, 1);
    return complete(w, flx_rng_fold_in(w->g, key, w->step));
}

/* Normal numbers of deviation noise · clip_example, divided as the sum of the examples is: by all examples of the
   update, or by those of a step and the number of steps. */
static flx_val noise_for(training_work *w, size_t i, flx_val key, const flx_type *type)
{
    double steps = w->weight.id ? 1 : (double)w->o.accumulate;
    const flx_attr attrs[] = {flx_attr_ints("shape", (flx_ints){type->dims, (size_t)type->rank}),
                              flx_attr_dtype("dtype", (flx_dtype)type->dtype),
                              flx_attr_real("std", w->o.noise * w->o.clip_example / steps),
                              flx_attr_int("stream", (int64_t)i)};
    flx_val draw = FLX_NONE;
    flx_op(w->g, "rng_normal", &key, 1, attrs, 4, &draw, 1);
    return flx_div(w->g, draw, as(w, w->examples, (flx_dtype)type->dtype));
}

static void add_noise(training_work *w)
{
    if (!(w->o.noise > 0))
        return;
    flx_val key = key_of_step(w);
    for (size_t i = 0; i < w->num_trained; i++) {
        const flx_type *type = flx_val_type(w->g, w->total[i]);
        if (type)
            w->total[i] = flx_add(w->g, w->total[i], noise_for(w, i, key, type));
    }
}

/* ---- The update ---- */

/* The states of trained parameter i begin at updated[state]; returns how many there are. */
static int update_param(training_work *w, size_t i, size_t state)
{
    flx_val p = leaf_value(w, w->t->updated[i]);
    flx_dtype dtype = arithmetic_of(w, p);
    flxi_group group = flxi_group_of(&w->o, w->names[i]);
    flx_train_options o = w->o;
    o.weight_decay = group.weight_decay;
    flxi_update u = {
        .g = w->g, .o = &o, .dtype = dtype, .rate = as(w, w->rate, dtype), .p = as(w, p, dtype), .dp = w->total[i]};
    if (group.rate_factor != 1)
        u.rate = flx_mul(w->g, u.rate, flx_scalar(w->g, dtype, group.rate_factor));
    const flx_type *stored = flx_val_type(w->g, p);
    flx_type type = *stored;
    flxi_state states[FLXI_MAX_STATE];
    type.dtype = (int32_t)dtype;
    int n = flxi_optimiser_states(w->optimiser, &type, states);
    for (int k = 0; k < n; k++)
        u.state[k] = leaf_value(w, w->t->updated[state + (size_t)k]);
    if (w->optimiser->counts_steps)
        u.step = as(w, w->step, dtype);
    if (w->factor.id)
        u.dp = flx_mul(w->g, u.dp, as(w, w->factor, dtype));
    if (o.weight_decay > 0 && !w->optimiser->decay_is_apart)
        u.dp = flx_add(w->g, u.dp, flx_mul(w->g, flx_scalar(w->g, dtype, o.weight_decay), u.p));
    flx_val next = w->optimiser->update(&u);
    w->next[i] = as(w, next, (flx_dtype)stored->dtype);
    for (int k = 0; k < n; k++)
        w->next[state + (size_t)k] = u.next[k];
    return n;
}

/* The average begins with the first update. */
static void average_param(training_work *w, size_t i, size_t at)
{
    flx_val before = leaf_value(w, w->t->updated[at]);
    const flx_type *type = flx_val_type(w->g, before);
    flx_dtype dtype = type ? (flx_dtype)type->dtype : FLX_F32;
    flx_val p = as(w, w->next[i], dtype), keep = flx_scalar(w->g, dtype, w->o.ema);
    flx_val mean = flx_add(w->g, flx_mul(w->g, keep, before), flx_mul(w->g, flx_scalar(w->g, dtype, 1 - w->o.ema), p));
    w->next[at] = flx_where(w->g, flx_eq(w->g, w->step, whole(w, 1)), p, mean);
}

static void declare_state(training_work *w)
{
    for (size_t i = 0; i < w->num_trained; i++) {
        flx_val p = leaf_value(w, w->t->updated[i]);
        flxi_state states[FLXI_MAX_STATE];
        flx_type type = *flx_val_type(w->g, p);
        type.dtype = (int32_t)arithmetic_of(w, p);
        int n = flxi_optimiser_states(w->optimiser, &type, states);
        for (int k = 0; k < n; k++)
            flxi_new_state(w, w->names[i], states[k].name, &states[k].type);
    }
}

static void declare_averages(training_work *w)
{
    if (!(w->o.ema > 0))
        return;
    w->t->first_ema = w->t->num_updated;
    for (size_t i = 0; i < w->num_trained; i++) {
        flx_val p = leaf_value(w, w->t->updated[i]);
        flxi_new_state(w, w->names[i], "ema", flx_val_type(w->g, p));
    }
}

/* What is not updated in this step keeps its value: all but the sums if there is no update, and everything if it is
   left out, except that the scale says so. */
static void keep_values(training_work *w, size_t first_sum, size_t end_sum)
{
    w->applies = both(w, w->takes, w->is_last);
    if (w->applies.id && w->takes.id && w->is_last.id)
        w->applies = complete(w, w->applies);
    for (size_t j = 0; j < w->t->num_updated; j++) {
        bool is_sum = j >= first_sum && j < end_sum;
        bool is_kept = j >= w->num_trained && j < w->num_trained + w->num_kept;
        flx_val condition = is_sum ? w->waits : is_kept ? w->takes : w->applies;
        if (w->next[j].id)
            w->next[j] = if_else(w, condition, w->next[j], leaf_value(w, w->t->updated[j]));
    }
}

/* ---- The whole ---- */

bool flxi_is_kept_output(const training_work *w, size_t i)
{
    for (size_t k = 0; k < w->num_kept; k++)
        if (w->kept_outputs[k] == i)
            return true;
    return false;
}

/* Adds an output to those of the gradient graph, and to the choice. */
static void choose_new(training_work *w, flxi_choice *choices, size_t *n, flx_val v, const char *name)
{
    choices[*n].output = w->g->outputs.n;
    (*n)++;
    flx_output(w->g, v, name);
}

/* The gradients are outputs of w->g; the results of the update become outputs after them, and then the gradients are
   dropped. */
static flx_code choose_outputs(training_work *w)
{
    flxi_training *t = w->t;
    size_t n = 0, first_state = w->num_trained + w->num_kept;
    flxi_choice *choices = flxi_new(&w->arena, flxi_choice, t->num_results + t->num_updated + 3);
    if (!choices)
        return flxi_oom(w->err, "a training step");
    for (size_t i = 0; i < w->loss->outputs.n; i++)
        if (!flxi_is_kept_output(w, i))
            choices[n++].output = i;
    for (size_t j = 0; j < t->num_updated; j++) {
        flx_val leaf = leaf_value(w, t->updated[j]);
        char name[300];
        snprintf(name, sizeof name, "new_%.250s", flx_val_name(w->g, leaf));
        bool is_kept = j >= w->num_trained && j < first_state;
        choose_new(w, choices, &n, w->next[j], name);
        if (is_kept) /* it replaces the output of this name */
            snprintf(choices[n - 1].name, sizeof choices[n - 1].name, "%s", name);
    }
    if (t->guard) {
        t->guard = n + 1;
        choose_new(w, choices, &n, w->norm, "loss_or_gradient_norm");
    }
    if (w->squares) {
        t->norms = n + 1;
        choose_new(w, choices, &n, flx_stack(w->g, w->squares, w->num_trained, 0), "gradient_squares");
    }
    if (w->for_trainer && w->o.schedule) {
        t->rate = n + 1;
        choose_new(w, choices, &n, w->rate, "rate");
    }
    FLXI_TRY(flxi_built(w->g, w->err));
    flxi_name name;
    t->g = flxi_choose_outputs_as(w->g, flxi_derived_name(w->loss, "train", &name), choices, n, w->err);
    return t->g ? FLX_OK : (flx_code)w->err->code;
}

/* Order of states: those of the optimiser, averages, sums, counters. */
static flx_code make(training_work *w)
{
    flxi_training *t = w->t;
    w->optimiser = flxi_optimiser_at(w->o.optimiser);
    FLXI_TRY(check_groups(w));
    FLXI_TRY(check_example_dim(w));
    FLXI_TRY(choose_params(w));
    FLXI_TRY(list_updated(w));
    FLXI_TRY(flxi_make_gradients(w));
    FLXI_TRY(flxi_reduce_over_processes(w));
    size_t first_state = t->num_updated;
    declare_state(w);
    declare_averages(w);
    size_t first_sum = t->num_updated;
    declare_sums(w);
    size_t end_sum = t->num_updated;
    FLXI_TRY(declare_rate(w));
    FLXI_TRY(flxi_built(w->g, w->err));
    for (size_t i = 0; i < w->num_trained; i++)
        complete(w, narrow_gradient(w, i));
    for (size_t k = 0; k < w->num_kept; k++)
        w->next[w->num_trained + k] = flx_graph_output(w->g, w->kept_outputs[k]);
    find_totals(w, first_sum);
    if (w->for_trainer && w->o.flags & FLX_TRAIN_NORMS && !(w->squares = flxi_new(&w->arena, flx_val, w->num_trained)))
        return flxi_oom(w->err, "a training step");
    guard_and_clip(w);
    add_noise(w);
    size_t state = first_state;
    for (size_t i = 0; i < w->num_trained; i++)
        state += (size_t)update_param(w, i, state);
    for (size_t i = 0; t->first_ema && i < w->num_trained; i++)
        average_param(w, i, t->first_ema + i);
    keep_values(w, first_sum, end_sum);
    if (w->loss_scale.id)
        adapt_scale(w);
    return choose_outputs(w);
}

flx_code flxi_training_make(flxi_training *t, const flx_graph *loss, const flx_train_options *options, bool for_trainer,
                            flx_error *err)
{
    flx_error local = {0};
    *t = (flxi_training){.optimiser = options->optimiser};
    training_work w = {.loss = loss, .t = t, .o = *options, .for_trainer = for_trainer, .err = &local};
    flx_code code = flx_graph_error(loss, &local);
    if (code == FLX_OK) {
        flxi_arena_init(&w.arena, &loss->ctx->mem);
        code = make(&w);
        flx_graph_release(w.g);
        flxi_arena_free(&w.arena);
    }
    if (code != FLX_OK && err)
        *err = local;
    return code;
}

void flxi_training_free(flxi_training *t)
{
    if (t->updated)
        flxi_free(t->mem, t->updated, t->room, sizeof *t->updated);
    flx_graph_release(t->g);
    flx_graph_release(t->whole);
    *t = (flxi_training){0};
}

flx_graph *flx_training_graph(const flx_graph *loss, const flx_train_options *options, flx_error *err)
{
    flxi_training t = {0};
    flx_train_options o;
    flx_graph *g = NULL;
    if (flxi_train_options_read(&o, options, err) == FLX_OK && flxi_training_make(&t, loss, &o, false, err) == FLX_OK &&
        flxi_training_cut(&t, &o, false, err) == FLX_OK) {
        g = t.g;
        t.g = NULL;
    }
    flxi_training_free(&t);
    return g;
}
