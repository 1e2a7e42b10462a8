/* SPDX-License-Identifier: Apache-2.0 */
/* losses.c: loss functions; each returns a scalar, the mean over the examples. */
#include "nn/layer.h"

#include <math.h>
#include <string.h>

static flx_val mean(flx_graph *g, flx_val x)
{
    return flx_reduce_mean(g, x, FLX_ALL, 0);
}

/* What a loss compares element by element is not broadcast. */
static bool check_pair(flx_graph *g, const char *function, flx_val y, flx_val target)
{
    return flxi_nn_check_same(g, function, y, target);
}

flx_val flx_nn_mse(flx_graph *g, flx_val y, flx_val target)
{
    if (!check_pair(g, "flx_nn_mse", y, target))
        return FLX_NONE;
    return mean(g, flx_square(g, flx_sub(g, y, target)));
}

flx_val flx_nn_mae(flx_graph *g, flx_val y, flx_val target)
{
    if (!check_pair(g, "flx_nn_mae", y, target))
        return FLX_NONE;
    return mean(g, flx_abs(g, flx_sub(g, y, target)));
}

/* d^2 / 2 for |d| up to delta, delta (|d| - delta / 2) beyond. The square is that of d: |d| has a corner at 0. */
flx_val flx_nn_huber(flx_graph *g, flx_val y, flx_val target, double delta)
{
    if (!check_pair(g, "flx_nn_huber", y, target) ||
        !flxi_nn_require(g, delta > 0 && isfinite(delta), "flx_nn_huber", "delta must be positive and finite, got %g",
                         delta))
        return FLX_NONE;
    flx_val d = flx_sub(g, y, target), size = flx_abs(g, d);
    flx_val limit = flxi_nn_number(g, d, delta), half = flxi_nn_number(g, d, 0.5);
    flx_val inside = flx_mul(g, half, flx_square(g, d));
    flx_val outside = flx_mul(g, limit, flx_sub(g, size, flx_mul(g, half, limit)));
    return mean(g, flx_where(g, flx_le(g, size, limit), inside, outside));
}

/* Logits [..., C] and labels [...] with more axes, such as those of sequences, as rows: [N, C] and [N]. */
static bool make_rows(flx_graph *g, const char *function, flx_val *logits, flx_val *labels)
{
    flxi_nn_type_text x, y;
    const flx_type *l = flxi_nn_type(g, *logits), *n = flxi_nn_type(g, *labels);
    if (l->rank <= 2)
        return true; /* the op checks it */
    bool is_fit = n->rank == l->rank - 1 && memcmp(l->dims, n->dims, (size_t)n->rank * sizeof *n->dims) == 0;
    if (!flxi_nn_require_shape(g, is_fit, "logits are [..., C], labels [...]", function,
                               "logits %s and labels %s do not fit", flxi_nn_text(g, *logits, &x),
                               flxi_nn_text(g, *labels, &y)))
        return false;
    *logits = flx_reshape(g, *logits, FLX_INTS(-1, flxi_nn_width(g, *logits)));
    *labels = flx_reshape(g, *labels, FLX_INTS(-1));
    return true;
}

/* The smoothed target has (1 - s) at the label and s / C everywhere. */
flx_val flx_nn_cross_entropy(flx_graph *g, flx_val logits, flx_val labels, double smoothing)
{
    static const char function[] = "flx_nn_cross_entropy";
    if (!flxi_nn_require(g, smoothing >= 0 && smoothing <= 1, function, "smoothing must be in [0, 1], got %g",
                         smoothing) ||
        !make_rows(g, function, &logits, &labels))
        return FLX_NONE;
    flx_val hard = mean(g, flx_softmax_cross_entropy_with_logits(g, logits, labels, NULL));
    if (smoothing == 0)
        return hard;
    flx_val even = flx_neg(g, mean(g, flx_log_softmax(g, logits, FLX_DEFAULT)));
    return flx_add(g, flx_mul(g, hard, flxi_nn_number(g, hard, 1 - smoothing)),
                   flx_mul(g, even, flxi_nn_number(g, even, smoothing)));
}

flx_val flx_nn_nll(flx_graph *g, flx_val log_probs, flx_val labels)
{
    static const char function[] = "flx_nn_nll";
    flxi_nn_type_text probs, indices;
    const flx_type *p = flxi_nn_type(g, log_probs), *l = flxi_nn_type(g, labels);
    if (!flxi_nn_require(g, flxi_nn_is_integer(g, labels), function, "labels must be integers, not %s",
                         flx_dtype_name(l->dtype)) ||
        !flxi_nn_require_shape(g, p->rank == 2 && l->rank == 1, "log_probs are [N, C], labels [N]", function,
                               "log_probs %s and labels %s do not fit", flxi_nn_text(g, log_probs, &probs),
                               flxi_nn_text(g, labels, &indices)))
        return FLX_NONE;
    return flx_neg(g, mean(g, flx_take_along(g, log_probs, flx_unsqueeze(g, labels, FLX_INTS(1)), 1, NULL)));
}

/* log(1 + e^z) - t z: the cross entropy of each element, without overflow. */
static flx_val binary_entropy(flx_graph *g, flx_val logits, flx_val target)
{
    return flx_sub(g, flx_softplus(g, logits), flx_mul(g, logits, target));
}

flx_val flx_nn_bce_with_logits(flx_graph *g, flx_val logits, flx_val target)
{
    if (!check_pair(g, "flx_nn_bce_with_logits", logits, target))
        return FLX_NONE;
    return mean(g, binary_entropy(g, logits, target));
}

/* t a + (1 - t) b */
static flx_val between(flx_graph *g, flx_val t, flx_val a, flx_val b)
{
    return flx_add(g, b, flx_mul(g, t, flx_sub(g, a, b)));
}

flx_val flx_nn_focal(flx_graph *g, flx_val logits, flx_val target, double alpha, double gamma)
{
    static const char function[] = "flx_nn_focal";
    if (!check_pair(g, function, logits, target) ||
        !flxi_nn_require(g, alpha >= 0 && alpha <= 1 && gamma >= 0 && isfinite(gamma), function,
                         "alpha must be in [0, 1] and gamma finite and not negative, got %g and %g", alpha, gamma))
        return FLX_NONE;
    flx_val p = flx_sigmoid(g, logits), one = flxi_nn_number(g, logits, 1), not_p = flx_sub(g, one, p);
    flx_val missed = between(g, target, not_p, p); /* 1 - p_t */
    flx_val power = flx_pow(g, missed, flxi_nn_number(g, logits, gamma == 0 ? 2 : gamma));
    flx_val loss = flx_mul(g, power, binary_entropy(g, logits, target));
    if (alpha > 0)
        loss = flx_mul(g, loss,
                       between(g, target, flxi_nn_number(g, logits, alpha), flxi_nn_number(g, logits, 1 - alpha)));
    return mean(g, loss);
}

/* The sum over all axes but the first. */
static flx_val per_example(flx_graph *g, flx_val x)
{
    int64_t axes[FLX_MAX_RANK];
    int rank = flxi_nn_type(g, x)->rank;
    for (int k = 1; k < rank; k++)
        axes[k - 1] = k;
    return rank > 1 ? flx_reduce_sum(g, x, (flx_ints){axes, (size_t)(rank - 1)}, 0) : x;
}

flx_val flx_nn_dice(flx_graph *g, flx_val p, flx_val target, double smooth)
{
    static const char function[] = "flx_nn_dice";
    if (!check_pair(g, function, p, target) || !flxi_nn_require(g, smooth >= 0 && isfinite(smooth), function,
                                                                "smooth must be a finite number >= 0, got %g", smooth))
        return FLX_NONE;
    flx_val s = flxi_nn_number(g, p, smooth == 0 ? 1 : smooth), two = flxi_nn_number(g, p, 2);
    flx_val common = flx_mul(g, two, per_example(g, flx_mul(g, p, target)));
    flx_val all = flx_add(g, per_example(g, p), per_example(g, target));
    flx_val part = flx_div(g, flx_add(g, common, s), flx_add(g, all, s));
    return flx_sub(g, flxi_nn_number(g, p, 1), mean(g, part));
}

flx_val flx_nn_hinge(flx_graph *g, flx_val y, flx_val target)
{
    if (!check_pair(g, "flx_nn_hinge", y, target))
        return FLX_NONE;
    return mean(g, flx_relu(g, flx_sub(g, flxi_nn_number(g, y, 1), flx_mul(g, y, target))));
}

/* ---- Distances of vectors ---- */

/* 1 / |x| along the last axis, which is kept; a vector of zeros gives 1 / sqrt(least), not infinity. */
static flx_val inverse_norm(flx_graph *g, flx_val x)
{
    double least = flxi_nn_dtype(g, x) == FLX_F64 ? 1e-24 : 1e-12;
    flx_val squares = flx_reduce_sum(g, flx_square(g, x), FLX_INTS(-1), 1);
    return flx_rsqrt(g, flx_max(g, squares, flxi_nn_number(g, x, least)));
}

static flx_val unit(flx_graph *g, flx_val x)
{
    return flx_mul(g, x, inverse_norm(g, x));
}

static bool check_vectors(flx_graph *g, const char *function, flx_val x, int rank)
{
    return flxi_nn_check_rank(g, function, x, rank, rank > 1 ? rank : FLX_MAX_RANK,
                              rank > 1 ? "[N, width]" : "[..., width]");
}

flx_val flx_nn_cosine(flx_graph *g, flx_val y, flx_val target)
{
    if (!check_pair(g, "flx_nn_cosine", y, target) || !check_vectors(g, "flx_nn_cosine", y, 1))
        return FLX_NONE;
    flx_val cosine = flx_reduce_sum(g, flx_mul(g, unit(g, y), unit(g, target)), FLX_INTS(-1), 0);
    return flx_sub(g, flxi_nn_number(g, y, 1), mean(g, cosine));
}

/* |a - b| with 1e-6 added to each difference, which keeps the slope finite where they are equal. */
static flx_val distance(flx_graph *g, flx_val a, flx_val b)
{
    flx_val d = flx_add(g, flx_sub(g, a, b), flxi_nn_number(g, a, 1e-6));
    return flx_sqrt(g, flx_reduce_sum(g, flx_square(g, d), FLX_INTS(-1), 0));
}

flx_val flx_nn_triplet(flx_graph *g, flx_val anchor, flx_val positive, flx_val negative, double margin)
{
    static const char function[] = "flx_nn_triplet";
    if (!check_pair(g, function, anchor, positive) || !check_pair(g, function, anchor, negative) ||
        !check_vectors(g, function, anchor, 1) ||
        !flxi_nn_require(g, margin >= 0 && isfinite(margin), function, "margin must be a finite number >= 0, got %g",
                         margin))
        return FLX_NONE;
    flx_val gap = flx_sub(g, distance(g, anchor, positive), distance(g, anchor, negative));
    return mean(g, flx_relu(g, flx_add(g, gap, flxi_nn_number(g, gap, margin == 0 ? 1 : margin))));
}

flx_val flx_nn_contrastive(flx_graph *g, flx_val a, flx_val b, double temperature)
{
    static const char function[] = "flx_nn_contrastive";
    if (!check_pair(g, function, a, b) || !check_vectors(g, function, a, 2) ||
        !flxi_nn_require(g, temperature > 0 && isfinite(temperature), function,
                         "the temperature must be positive and finite, got %g", temperature))
        return FLX_NONE;
    flx_val cosines = flx_matmul(g, unit(g, a), flxi_nn_swap01(g, unit(g, b)));
    flx_dim rows = flxi_nn_type(g, a)->dims[0];
    flx_type labels = flx_type_make(FLX_I64, 1, &rows);
    return flx_nn_cross_entropy(g, flx_mul(g, cosines, flxi_nn_number(g, a, 1 / temperature)),
                                flx_iota(g, &labels, FLX_DEFAULT), 0);
}

/* ---- Likelihoods ---- */

flx_val flx_nn_gaussian_nll(flx_graph *g, flx_val centre, flx_val target, flx_val var, double eps)
{
    static const char function[] = "flx_nn_gaussian_nll";
    if (!check_pair(g, function, centre, target) || !check_pair(g, function, centre, var) ||
        !flxi_nn_check_eps(g, function, eps))
        return FLX_NONE;
    flx_val v = flx_max(g, var, flxi_nn_number(g, var, eps == 0 ? 1e-6 : eps));
    flx_val terms = flx_add(g, flx_log(g, v), flx_div(g, flx_square(g, flx_sub(g, centre, target)), v));
    return flx_mul(g, flxi_nn_number(g, var, 0.5), mean(g, terms));
}

flx_val flx_nn_poisson_nll(flx_graph *g, flx_val log_rate, flx_val target)
{
    if (!check_pair(g, "flx_nn_poisson_nll", log_rate, target))
        return FLX_NONE;
    return mean(g, flx_sub(g, flx_exp(g, log_rate), flx_mul(g, target, log_rate)));
}

flx_val flx_nn_kl(flx_graph *g, flx_val p, flx_val log_q)
{
    if (!check_pair(g, "flx_nn_kl", p, log_q))
        return FLX_NONE;
    flx_val zero = flxi_nn_number(g, p, 0), is_there = flx_gt(g, p, zero);
    flx_val safe = flx_where(g, is_there, p, flxi_nn_number(g, p, 1));
    flx_val terms = flx_where(g, is_there, flx_mul(g, p, flx_sub(g, flx_log(g, safe), log_q)), zero);
    return mean(g, flx_reduce_sum(g, terms, FLX_INTS(-1), 0));
}

/* ---- Connectionist temporal classification ----

   Labels with a blank before, between and after them are M = 2 L + 1 positions. alpha[s] is the log probability of all
   paths that are at position s now; a step stays, advances by one, or by two if that skips a blank between different
   labels. The log probability of an impossible path is -inf, which must not reach a derivative: hence the guards. */

/* log(e^a + e^b + …), -inf if all are. */
static flx_val log_sum(flx_graph *g, const flx_val *x, size_t n)
{
    flx_val most = x[0], sum = FLX_NONE;
    for (size_t i = 1; i < n; i++)
        most = flx_max(g, most, x[i]);
    flx_val none = flxi_nn_number(g, most, -INFINITY), is_any = flx_gt(g, most, none);
    most = flx_stop_gradient(g, flx_where(g, is_any, most, flxi_nn_number(g, most, 0)));
    for (size_t i = 0; i < n; i++) {
        flx_val term = flx_exp(g, flx_sub(g, x[i], most));
        sum = i ? flx_add(g, sum, term) : term;
    }
    sum = flx_where(g, is_any, sum, flxi_nn_number(g, sum, 1));
    return flx_where(g, is_any, flx_add(g, most, flx_log(g, sum)), none);
}

/* Position s gets the value of position s - by. */
static flx_val moved(flx_graph *g, flx_val alpha, int64_t by)
{
    return flx_pad(g, alpha, flxi_nn_number(g, alpha, -INFINITY), FLX_INTS(0, by), FLX_INTS(0, -by), (flx_ints){0, 0});
}

/* Inputs alpha [N, M], may_skip bool [N, M], log_p [N, M], is_active bool [N, 1]; output: the next alpha. */
static flx_graph *ctc_step(flx_context *ctx, const flx_type *alpha_type)
{
    flx_graph *g = flx_graph_new(ctx, "ctc");
    flx_type flags = *alpha_type, rows = *alpha_type;
    flags.dtype = rows.dtype = FLX_BOOL;
    rows.dims[1] = 1;
    flx_val alpha = flx_input(g, "alpha", alpha_type), may_skip = flx_input(g, "may_skip", &flags);
    flx_val log_p = flx_input(g, "log_p", alpha_type), is_active = flx_input(g, "is_active", &rows);
    flx_val skipped = flx_where(g, may_skip, moved(g, alpha, 2), flxi_nn_number(g, alpha, -INFINITY));
    const flx_val ways[] = {alpha, moved(g, alpha, 1), skipped};
    flx_val next = flx_add(g, log_sum(g, ways, 3), log_p);
    flx_output(g, flx_where(g, is_active, next, alpha), NULL);
    return g;
}

typedef struct {
    flx_graph *g;
    flx_dtype dtype, index;
    flx_dim n, steps, classes, labels, states;
} ctc;

static flx_val blanks(const ctc *c, int64_t blank, flx_dim count)
{
    const flx_dim dims[] = {c->n, count};
    return flx_expand(c->g, flx_scalar(c->g, c->index, (double)blank), (flx_ints){dims, 2});
}

/* [N, M]: blank, label, blank, label … blank. */
static flx_val with_blanks(const ctc *c, flx_val labels, int64_t blank)
{
    const flx_val pair[] = {blanks(c, blank, c->labels), labels};
    const flx_dim dims[] = {c->n, flx_dim_sub(flx_graph_context(c->g), c->states, 1)};
    const flx_val parts[] = {flx_reshape(c->g, flx_stack(c->g, pair, 2, 2), (flx_ints){dims, 2}), blanks(c, blank, 1)};
    return flx_concat(c->g, parts, 2, 1);
}

/* Where the label two positions earlier differs, and this is not a blank. */
static flx_val skippable(const ctc *c, flx_val states, int64_t blank)
{
    flx_val before = flx_pad(c->g, states, flx_scalar(c->g, c->index, (double)blank), FLX_INTS(0, 2), FLX_INTS(0, -2),
                             (flx_ints){0, 0});
    flx_val is_label = flx_ne(c->g, states, flx_scalar(c->g, c->index, (double)blank));
    return flx_and(c->g, is_label, flx_ne(c->g, states, before));
}

/* [T, N, M]: log_probs of the label at each position. */
static flx_val at_states(const ctc *c, flx_val log_probs, flx_val states)
{
    const flx_dim dims[] = {c->n, c->steps, c->states};
    flx_val index = flx_expand(c->g, flx_unsqueeze(c->g, states, FLX_INTS(1)), (flx_ints){dims, 3});
    return flxi_nn_swap01(c->g, flx_take_along(c->g, log_probs, index, 2, NULL));
}

/* [T, N, 1]: whether the input of an example reaches this step. */
static flx_val within(const ctc *c, flx_val lengths)
{
    flx_type type = flx_type_make(c->index, 1, &c->steps);
    flx_val t = flx_unsqueeze(c->g, flx_iota(c->g, &type, FLX_DEFAULT), FLX_INTS(1, 2));
    return flx_lt(c->g, t, flx_unsqueeze(c->g, flx_cast(c->g, lengths, c->index), FLX_INTS(1)));
}

static flx_val alpha_at(const ctc *c, flx_val alpha, flx_val index)
{
    return flx_squeeze(c->g, flx_take_along(c->g, alpha, flx_unsqueeze(c->g, index, FLX_INTS(1)), 1, NULL),
                       FLX_INTS(1));
}

/* At the last label, or the blank after it. */
static flx_val at_the_end(const ctc *c, flx_val alpha, flx_val lengths)
{
    flx_graph *g = c->g;
    flx_val n = flx_cast(g, lengths, c->index), two = flx_scalar(g, c->index, 2), zero = flx_scalar(g, c->index, 0);
    flx_val last = flx_mul(g, n, two), has_label = flx_gt(g, n, zero);
    flx_val before = flx_max(g, flx_sub(g, last, flx_scalar(g, c->index, 1)), zero);
    flx_val label = flx_where(g, has_label, alpha_at(c, alpha, before), flxi_nn_number(g, alpha, -INFINITY));
    const flx_val ways[] = {alpha_at(c, alpha, last), label};
    return log_sum(g, ways, 2);
}

flx_val flx_nn_ctc(flx_graph *g, flx_val log_probs, flx_val labels, flx_val input_lengths, flx_val label_lengths,
                   int64_t blank)
{
    const flx_type *p = flxi_nn_type(g, log_probs), *l = flxi_nn_type(g, labels);
    if (flx_graph_error(g, NULL) != FLX_OK || p->rank != 3 || l->rank != 2)
        return flx_take_along(g, log_probs, labels, 1, NULL); /* its message reports the ranks */
    bool is_class = blank >= 0 && (!flx_dim_is_static(p->dims[2]) || blank < p->dims[2]);
    if (!flxi_nn_require(g, is_class, "flx_nn_ctc", "blank %lld is not one of the classes", (long long)blank))
        return FLX_NONE;
    flx_context *ctx = flx_graph_context(g);
    ctc c = {g, (flx_dtype)p->dtype, (flx_dtype)l->dtype, p->dims[0], p->dims[1], p->dims[2], l->dims[1], 0};
    c.states = flx_dim_add(ctx, flx_dim_mul(ctx, c.labels, 2), 1);
    const flx_dim alpha_dims[] = {c.n, c.states};
    flx_type alpha_type = flx_type_make(c.dtype, 2, alpha_dims), states_type = flx_type_make(c.index, 1, &c.states);
    flx_val states = with_blanks(&c, labels, blank);
    flx_val is_first = flx_eq(g, flx_iota(g, &states_type, FLX_DEFAULT), flx_scalar(g, c.index, 0));
    flx_val start = flx_where(g, is_first, flx_scalar(g, c.dtype, 0), flx_scalar(g, c.dtype, -INFINITY));
    const flx_val operands[] = {flx_expand(g, start, (flx_ints){alpha_dims, 2}), skippable(&c, states, blank),
                                at_states(&c, log_probs, states), within(&c, input_lengths)};
    flx_scan_attrs attrs = FLX_SCAN_ATTRS;
    flx_graph *body = ctc_step(ctx, &alpha_type);
    flx_val alpha = FLX_NONE;
    attrs.body = body;
    attrs.num_bcast = 1;
    flx_scan_with(g, operands, 4, &alpha, 1, &attrs);
    flx_graph_release(body);
    return mean(g, flx_neg(g, at_the_end(&c, alpha, label_lengths)));
}
