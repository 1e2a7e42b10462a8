/* SPDX-License-Identifier: Apache-2.0 */
/* losses.c: loss functions; each returns a scalar, the mean over the examples. */
#include "nn/layer.h"

#include "graph/graph.h"

#include <math.h>
#include <string.h>

static flx_val mean(flx_graph *g, flx_val x)
{
    return flx_reduce_mean(g, x, FLX_ALL, 0);
}

/* Two values of one type: what a loss compares element by element is not broadcast. */
static bool check_pair(flx_graph *g, const char *function, flx_val y, flx_val target)
{
    const flx_type *a = flx_val_type(g, y), *b = flx_val_type(g, target);
    if (!a || !b) /* the graph has an error, or gets one from the next op */
        return true;
    bool is_same = a->rank == b->rank && memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0;
    if (is_same || flx_graph_error(g, NULL) != FLX_OK)
        return is_same;
    char first[100], second[100];
    flx_type_print(flx_graph_context(g), a, first, sizeof first);
    flx_type_print(flx_graph_context(g), b, second, sizeof second);
    flxi_graph_failf(g, FLX_E_SHAPE, "reshape or expand one of them", "%s: the shapes of %s and %s differ", function,
                     first, second);
    return false;
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

/* c (|d| - c / 2) with c = min(|d|, delta): d^2 / 2 up to delta, delta (|d| - delta / 2) beyond. */
flx_val flx_nn_huber(flx_graph *g, flx_val y, flx_val target, double delta)
{
    if (!check_pair(g, "flx_nn_huber", y, target) ||
        !flxi_nn_require(g, delta > 0 && isfinite(delta), "flx_nn_huber", "delta must be positive and finite, got %g",
                         delta))
        return FLX_NONE;
    flx_val d = flx_abs(g, flx_sub(g, y, target)), limit = flxi_nn_number(g, d, delta),
            half = flxi_nn_number(g, d, 0.5);
    flx_val inside = flx_mul(g, half, flx_square(g, d));
    flx_val outside = flx_mul(g, limit, flx_sub(g, d, flx_mul(g, half, limit)));
    return mean(g, flx_where(g, flx_le(g, d, limit), inside, outside));
}

/* The smoothed target has (1 - s) at the label and s / C everywhere. */
flx_val flx_nn_cross_entropy(flx_graph *g, flx_val logits, flx_val labels, double smoothing)
{
    if (!flxi_nn_require(g, smoothing >= 0 && smoothing <= 1, "flx_nn_cross_entropy",
                         "smoothing must be in [0, 1], got %g", smoothing))
        return FLX_NONE;
    flx_val hard = mean(g, flx_softmax_cross_entropy_with_logits(g, logits, labels, NULL));
    if (smoothing == 0)
        return hard;
    flx_val even = flx_neg(g, mean(g, flx_log_softmax(g, logits, FLX_DEFAULT)));
    return flx_add(g, flx_mul(g, hard, flxi_nn_number(g, hard, 1 - smoothing)),
                   flx_mul(g, even, flxi_nn_number(g, even, smoothing)));
}

/* softplus(z) - t z: log(1 + e^z) without overflow. */
flx_val flx_nn_bce_with_logits(flx_graph *g, flx_val logits, flx_val target)
{
    if (!check_pair(g, "flx_nn_bce_with_logits", logits, target))
        return FLX_NONE;
    return mean(g, flx_sub(g, flx_softplus(g, logits), flx_mul(g, logits, target)));
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
