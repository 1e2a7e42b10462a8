/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_loss.c: losses of classifications, and the optimiser steps of the preview domain for training. */
#include "onnx/import/onnx_site.h"

/* -w[t] x[n, t, …] and the weights w[t], 0 where the target is to be ignored; reduced as the attribute says. */
static flx_val likelihood_loss(onnx_site *s, flx_val log_p, flx_val target, flx_val weight)
{
    flx_val at = flxi_onnx_cast(s, target, FLX_I64);
    flx_val ignored = FLX_NONE;
    if (flxi_onnx_has(s, "ignore_index")) {
        flx_val index = flx_scalar(s->g, FLX_I64, (double)flxi_onnx_int(s, "ignore_index", 0));
        ignored = flx_eq(s->g, at, index);
        at = flx_where(s->g, ignored, flx_scalar(s->g, FLX_I64, 0), at);
    }
    flx_val picked = flx_take_along(s->g, log_p, flx_unsqueeze(s->g, at, .axes = FLX_INTS(1)), .axis = 1);
    flx_val loss = flx_neg(s->g, flx_squeeze(s->g, picked, .axes = FLX_INTS(1)));
    flx_val w = flxi_onnx_given(weight) ? flx_gather(s->g, weight, at, .axis = 0) : FLX_NONE;
    if (flxi_onnx_given(ignored)) {
        flx_val zero = flxi_onnx_number(s, loss, 0);
        w = flx_where(s->g, ignored, zero, flxi_onnx_given(w) ? w : flxi_onnx_number(s, loss, 1));
    }
    if (flxi_onnx_given(w))
        loss = flx_mul(s->g, loss, w);
    const char *reduction = flxi_onnx_word(s, "reduction", "mean");
    if (strcmp(reduction, "none") == 0)
        return loss;
    if (strcmp(reduction, "sum") == 0)
        return flx_reduce_sum(s->g, loss);
    if (!flxi_onnx_given(w))
        return flx_reduce_mean(s->g, loss);
    flx_val full = flx_expand(s->g, w, .shape = flxi_onnx_dims(flxi_onnx_typeof(s, loss)));
    return flx_div(s->g, flx_reduce_sum(s->g, loss), flx_reduce_sum(s->g, full));
}

void flxi_onnx_import_nll_loss(onnx_site *s)
{
    s->y[0] = likelihood_loss(s, s->x[0], s->x[1], s->x[2]);
}

void flxi_onnx_import_softmax_cross_entropy(onnx_site *s)
{
    flx_val log_p = flx_log_softmax(s->g, s->x[0], .axis = 1);
    s->y[0] = likelihood_loss(s, log_p, s->x[1], s->x[2]);
    s->y[1] = log_p;
}

/* ---- Optimisers: operands are R, T, then lists of tensors, of gradients and of states ---- */

static flx_val times(onnx_site *s, flx_val x, double c)
{
    return flx_mul(s->g, x, flxi_onnx_number(s, x, c));
}

static flx_val regularised(onnx_site *s, flx_val x, flx_val grad)
{
    return flx_add(s->g, grad, times(s, x, flxi_onnx_real(s, "norm_coefficient", 0)));
}

void flxi_onnx_import_adagrad(onnx_site *s)
{
    size_t n = (s->nx - 2) / 3;
    flx_val t = flxi_onnx_cast(s, s->x[1], flxi_onnx_dtype(s, s->x[0]));
    flx_val decay = times(s, t, flxi_onnx_real(s, "decay_factor", 0));
    flx_val rate = flx_div(s->g, s->x[0], flx_add(s->g, decay, flxi_onnx_number(s, t, 1)));
    for (size_t i = 0; i < n && i < s->ny; i++) {
        flx_val x = s->x[2 + i], grad = regularised(s, x, s->x[2 + n + i]);
        flx_val h = flx_add(s->g, s->x[2 + 2 * n + i], flx_square(s->g, grad));
        flx_val root = flx_add(s->g, flx_sqrt(s->g, h), flxi_onnx_number(s, h, flxi_onnx_real(s, "epsilon", 0)));
        s->y[i] = flx_sub(s->g, x, flx_div(s->g, flx_mul(s->g, rate, grad), root));
        s->y[n + i] = h;
    }
}

void flxi_onnx_import_momentum(onnx_site *s)
{
    size_t n = (s->nx - 2) / 3;
    double alpha = flxi_onnx_real(s, "alpha", 0), beta = flxi_onnx_real(s, "beta", 0);
    bool nesterov = strcmp(flxi_onnx_word(s, "mode", "standard"), "nesterov") == 0;
    flx_val first = flx_gt(s->g, s->x[1], flxi_onnx_number(s, s->x[1], 0));
    for (size_t i = 0; i < n && i < s->ny; i++) {
        flx_val x = s->x[2 + i], grad = regularised(s, x, s->x[2 + n + i]);
        flx_val b = flx_where(s->g, first, flxi_onnx_number(s, x, beta), flxi_onnx_number(s, x, 1));
        flx_val v = flx_add(s->g, times(s, s->x[2 + 2 * n + i], alpha), flx_mul(s->g, b, grad));
        flx_val step = nesterov ? flx_add(s->g, grad, times(s, v, alpha)) : v;
        s->y[i] = flx_sub(s->g, x, flx_mul(s->g, s->x[0], step));
        s->y[n + i] = v;
    }
}

/* The rate with the corrections for the first steps, which are not made at step 0. */
static flx_val adam_rate(onnx_site *s, double alpha, double beta)
{
    flx_val t = flxi_onnx_cast(s, s->x[1], flxi_onnx_dtype(s, s->x[0]));
    flx_val one = flxi_onnx_number(s, t, 1);
    flx_val a = flx_sub(s->g, one, flx_pow(s->g, flxi_onnx_number(s, t, alpha), t));
    flx_val b = flx_sqrt(s->g, flx_sub(s->g, one, flx_pow(s->g, flxi_onnx_number(s, t, beta), t)));
    flx_val started = flx_gt(s->g, t, flxi_onnx_number(s, t, 0));
    return flx_where(s->g, started, flx_div(s->g, flx_mul(s->g, s->x[0], b), a), s->x[0]);
}

void flxi_onnx_import_adam(onnx_site *s)
{
    size_t n = (s->nx - 2) / 4;
    double alpha = flxi_onnx_real(s, "alpha", 0.9), beta = flxi_onnx_real(s, "beta", 0.999);
    double post = flxi_onnx_real(s, "norm_coefficient_post", 0);
    flx_val rate = adam_rate(s, alpha, beta);
    for (size_t i = 0; i < n && i < s->ny; i++) {
        flx_val x = s->x[2 + i], grad = regularised(s, x, s->x[2 + n + i]);
        flx_val v = flx_add(s->g, times(s, s->x[2 + 2 * n + i], alpha), times(s, grad, 1 - alpha));
        flx_val h = flx_add(s->g, times(s, s->x[2 + 3 * n + i], beta), times(s, flx_square(s->g, grad), 1 - beta));
        flx_val root = flx_add(s->g, flx_sqrt(s->g, h), flxi_onnx_number(s, h, flxi_onnx_real(s, "epsilon", 0)));
        flx_val next = flx_sub(s->g, x, flx_div(s->g, flx_mul(s->g, rate, v), root));
        s->y[i] = times(s, next, 1 - post);
        s->y[n + i] = v;
        s->y[2 * n + i] = h;
    }
}
