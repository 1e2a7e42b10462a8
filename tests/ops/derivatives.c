/* SPDX-License-Identifier: Apache-2.0 */
/* derivatives.c: the modes of differentiation must agree, on every sample of the table in f64 and c128. Along random
   directions t and u (see experiment.h): reverse and forward mode agree with each other to rounding and with finite
   differences; the four ways to u'Ht agree with each other and with finite differences of gradients; the Hessian is
   symmetric; and the Jacobians computed column by column and row by row are equal. An op whose derivative is zero by
   definition returns exact zeros. */
#include "autodiff/autodiff.h"
#include "experiment.h"
#include "graph/op/site.h"
#include "ops/opcode.h"
#include "test.h"

#include <fluxion/catalogue.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Straight-through derivatives are declared and not those of the value, so only the modes can be compared with each
   other. Which laws remain: */
typedef enum {
    DERIVED,          /* all */
    STRAIGHT_THROUGH, /* the value is rounded: finite differences of it mean nothing */
    FROZEN_SCALE,     /* nor do those of the gradient, which holds a scale constant */
    NOT_A_GRADIENT    /* the partial derivatives are not those of one function: mixed second ones differ */
} law_left;

static law_left law_left_of(flxi_opcode op)
{
    switch (op) {
    case OP_reduce_precision: return STRAIGHT_THROUGH;
    case OP_fake_quantize:
    case OP_fake_quantize_backward: return FROZEN_SCALE;
    case OP_fake_quantize_lsq: return NOT_A_GRADIENT;
    default: return DERIVED;
    }
}

static bool is_straight_through(const sample_case *c)
{
    const char *attrs = c->sample->attrs;
    bool asked = attrs && (strstr(attrs, "ste=identity") || strstr(attrs, "x_bits=8"));
    return asked || law_left_of(c->op) != DERIVED;
}

bool law_has_hessian(flxi_opcode op)
{
    return law_left_of(op) != NOT_A_GRADIENT;
}

bool law_has_only_shadows(flxi_opcode op)
{
    return (flxi_ops[op].traits & TRAIT_QUANTISES) || !(flxi_ops[op].dtypes & (FLXI_FLOATS | FLXI_COMPLEX));
}

static flx_tensor *moved(const flx_tensor *x, const flx_tensor *t, double h)
{
    flx_tensor *y = flx_tensor_cast(x, (flx_dtype)flx_tensor_type(x)->dtype, NULL);
    double *p = flx_tensor_data(y);
    const double *q = flx_tensor_const_data(t);
    int64_t n = flx_tensor_count(x) * experiment_parts(flx_tensor_type(x)->dtype);
    for (int64_t i = 0; i < n; i++)
        p[i] += h * q[i];
    return y;
}

/* All of x->in, with every differentiated operand moved by h along direction `prefix`. */
static bag shifted(const experiment *x, const char *prefix, double h)
{
    bag b = {0};
    for (size_t i = 0; i < x->in.n; i++) {
        char name[80];
        snprintf(name, sizeof name, "%s%s", prefix, x->in.name[i]);
        flx_tensor *t = bag_get(&x->in, name);
        bag_put(&b, x->in.name[i], t ? moved(x->in.value[i], t, h) : flx_tensor_retain(x->in.value[i]));
    }
    return b;
}

/* ---- First order ---- */

static double loss_at(const experiment *x, const char *direction, double h)
{
    flx_tensor *out[1] = {NULL};
    bag b = shifted(x, direction, h);
    double v = experiment_run(x, x->loss, &b, out) ? flx_tensor_get(out[0], 0) : NAN;
    flx_tensor_release(out[0]);
    bag_free(&b);
    return v;
}

/* Central differences, extrapolated once: the error is O(h^4). Where two steps disagree there is a kink between them,
   and smaller steps are used. */
static double difference(const experiment *x, double (*f)(const experiment *, const char *, double),
                         const char *direction)
{
    double wide = 0.0;
    double narrow = 0.0;
    for (double h = 1e-3; h > 1e-6; h /= 10) {
        wide = (f(x, direction, h) - f(x, direction, -h)) / (2 * h);
        narrow = (f(x, direction, h / 2) - f(x, direction, -h / 2)) / h;
        if (fabs(wide - narrow) <= 1e-4 * (1 + fabs(narrow)))
            break;
    }
    return (4 * narrow - wide) / 3;
}

/* Σ_i Re <h_i, direction_i>, with the size of its terms. */
static double along_direction(const experiment *x, flx_tensor *const *h, const char *suffix, double *size)
{
    double sum = 0.0;
    for (size_t i = 0; i < x->count; i++) {
        char name[80];
        snprintf(name, sizeof name, "tangent_%s%s", x->names[i], suffix);
        sum += experiment_pair(h[i], bag_get(&x->in, name));
        *size += sqrt(experiment_pair(h[i], h[i]));
    }
    return sum;
}

/* Σ_i Re <d_i, direction_i> of the gradient at a point. */
static double gradient_along(const experiment *x, const flx_graph *grad, const bag *at, const char *suffix,
                             double *size)
{
    flx_tensor *out[MAX_NAMES] = {0};
    double v = experiment_run(x, grad, at, out) ? along_direction(x, out, suffix, size) : NAN;
    release_all(out, x->count);
    return v;
}

static void check_first_order(experiment *x, const flx_graph *grad)
{
    flx_error err = {0};
    flx_tensor *out[2] = {NULL, NULL};
    double size = 0.0;
    double by_reverse = gradient_along(x, grad, &x->in, "", &size);
    flx_graph *jvp = flx_jvp(x->loss, x->names, x->count, &err);
    if (!experiment_made(jvp, "jvp", &err))
        return;
    double by_forward = experiment_run(x, jvp, &x->in, out) ? flx_tensor_get(out[1], 0) : NAN;
    flx_tensor_release(out[0]);
    flx_tensor_release(out[1]);
    flx_graph_release(jvp);
    double by_difference = difference(x, loss_at, "tangent_");
    x->size = size;
    EXPECT_MSG(experiment_close(by_reverse, by_forward, 1e-12, size), "reverse %.15g, forward %.15g (difference %.15g)",
               by_reverse, by_forward, by_difference);
    EXPECT_MSG(is_straight_through(x->c) || experiment_close(by_forward, by_difference, 1e-6, size),
               "forward %.12g, difference %.12g", by_forward, by_difference);
}

/* ---- Second order ---- */

static const flx_graph *gradient_graph; /* of the current experiment: the callback has no argument for it */

static double gradient_at(const experiment *x, const char *direction, double h)
{
    bag b = shifted(x, direction, h);
    double size = 0.0;
    double v = gradient_along(x, gradient_graph, &b, "_2", &size);
    bag_free(&b);
    return v;
}

/* <grad L, tangent> as a graph, to be differentiated again. */
static flx_graph *along_tangent(const experiment *x, const flx_graph *grad)
{
    flx_graph *l = flx_graph_new(x->ctx, "along");
    flx_val in[MAX_LEAVES];
    flx_val d[MAX_NAMES];
    flx_val total = FLX_NONE;
    for (size_t i = 0; i < flx_graph_input_count(grad); i++) {
        flx_val v = flx_graph_input(grad, i);
        in[i] = flx_input(l, flx_val_name(grad, v), flx_val_type(grad, v));
    }
    flx_val t[MAX_NAMES];
    for (size_t i = 0; i < x->count; i++) {
        char name[80];
        snprintf(name, sizeof name, "tangent_%s", x->names[i]);
        t[i] = flx_input(l, name, flx_val_type(grad, flx_graph_find(grad, x->names[i])));
    }
    flxi_inline(l, grad, in, d);
    for (size_t i = 0; i < x->count; i++) {
        flx_val p = flxi_is_complex(flx_val_type(l, t[i])->dtype)
                        ? flx_real(l, flx_mul(l, flx_conjugate(l, t[i]), d[i]))
                        : flx_mul(l, t[i], d[i]);
        flx_val sum = flx_reduce_sum(l, p, FLX_ALL, 0);
        total = total.id ? flx_add(l, total, sum) : sum;
    }
    flx_output(l, total, "along");
    return l;
}

/* Reverse mode on a one-output graph, paired with the second direction. */
static double reverse_of(const experiment *x, const flx_graph *l, const char *what)
{
    flx_error err = {0};
    flx_graph *second = experiment_gradient(x, l, &err);
    if (!experiment_made(second, what, &err))
        return NAN;
    double size = 0.0;
    double v = gradient_along(x, second, &x->in, "_2", &size);
    flx_graph_release(second);
    return v;
}

static double forward_over_forward(const experiment *x, const flx_graph *jvp)
{
    flx_error err = {0};
    flx_tensor *out[4] = {0};
    flx_graph *second = flx_jvp(jvp, x->names, x->count, &err);
    double v = NAN;
    if (EXPECT_MSG(second != NULL, "forward over forward: %s (%s)", err.message, err.where) &&
        experiment_run(x, second, &x->in, out))
        v = flx_tensor_get(out[3], 0);
    for (int i = 0; i < 4; i++)
        flx_tensor_release(out[i]);
    flx_graph_release(second);
    return v;
}

static flx_graph *hessian_product(const experiment *x)
{
    flx_error err = {0};
    flx_grad_options o = {.flags = FLX_GRAD_MISSING_ZERO};
    flx_graph *hvp = flx_hvp(x->loss, x->names, x->count, &o, &err);
    return experiment_made(hvp, "hvp", &err) ? hvp : NULL;
}

static double forward_over_reverse(const experiment *x)
{
    flx_tensor *out[MAX_NAMES] = {0};
    flx_graph *hvp = hessian_product(x);
    double size = 0.0;
    double v = hvp && experiment_run(x, hvp, &x->in, out) ? along_direction(x, out, "_2", &size) : NAN;
    release_all(out, x->count);
    flx_graph_release(hvp);
    return v;
}

static void check_second_order(experiment *x, const flx_graph *grad)
{
    flx_error err = {0};
    flxi_choice tangent = {.output = 1};
    flx_graph *jvp = flx_jvp(x->loss, x->names, x->count, &err);
    flx_graph *tangent_loss = jvp ? flxi_choose_outputs(jvp, &tangent, 1, &err) : NULL;
    flx_graph *along = along_tangent(x, grad);
    if (EXPECT_MSG(tangent_loss && along, "%s", err.message)) {
        double a = forward_over_reverse(x);
        double b = reverse_of(x, along, "reverse over reverse");
        double c = reverse_of(x, tangent_loss, "reverse over forward");
        double d = forward_over_forward(x, jvp);
        gradient_graph = grad;
        double e = difference(x, gradient_at, "tangent_");
        double size = x->size + fabs(a);
        law_left left = law_left_of(x->c->op);
        bool agree = (left == NOT_A_GRADIENT || experiment_close(a, b, 1e-10, size)) &&
                     experiment_close(b, c, 1e-10, size) && experiment_close(b, d, 1e-10, size);
        EXPECT_MSG(agree,
                   "forward over reverse %.15g, reverse over reverse %.15g, reverse over forward %.15g, "
                   "forward over forward %.15g, difference %.15g",
                   a, b, c, d, e);
        EXPECT_MSG(left == FROZEN_SCALE || experiment_close(a, e, 1e-5, size),
                   "second order %.12g, difference of gradients %.12g", a, e);
    }
    flx_graph_release(along);
    flx_graph_release(tangent_loss);
    flx_graph_release(jvp);
}

/* ---- Zero by definition ---- */

static void expect_zeros(const flx_tensor *t, const char *what)
{
    for (int64_t i = 0; i < flx_tensor_count(t); i++)
        if (!EXPECT_MSG(flx_tensor_get(t, i) == 0.0, "%s: element %lld is %g", what, (long long)i,
                        flx_tensor_get(t, i)))
            return;
}

static void check_zero(const experiment *x, const flx_graph *grad)
{
    flx_error err = {0};
    flx_tensor *d[MAX_NAMES] = {0};
    flx_tensor *y[2] = {0};
    flx_graph *jvp = flx_jvp(x->loss, x->names, x->count, &err);
    if (experiment_run(x, grad, &x->in, d))
        for (size_t i = 0; i < x->count; i++)
            expect_zeros(d[i], "reverse mode");
    if (experiment_made(jvp, "jvp", &err) && experiment_run(x, jvp, &x->in, y))
        expect_zeros(y[1], "forward mode");
    release_all(d, x->count);
    release_all(y, 2);
    flx_graph_release(jvp);
}

/* ---- Every sample ---- */

size_t law_of_modes(const sample_case *sample, bool dry)
{
    sample_case c = *sample;
    experiment x;
    flx_error err = {0};
    if (!experiment_is_wide(&c))
        return 0;
    int32_t kind = flxi_rule_kind(&flxi_ops[c.op], MODE_VJP);
    bool applies = experiment_begin(&x, &c);
    flx_graph *grad = applies && !dry ? experiment_gradient(&x, x.loss, &err) : NULL;
    if (applies && !dry && kind == FLX_RULE_UNDEFINED) {
        EXPECT_MSG(!grad && err.code == FLX_E_NO_RULE && err.hint[0], "an undefined derivative: %s", err.message);
    } else if (applies && !dry && experiment_made(grad, "grad", &err)) {
        if (kind == FLX_RULE_ZERO) {
            check_zero(&x, grad);
        } else {
            check_first_order(&x, grad);
            check_second_order(&x, grad);
        }
    }
    flx_graph_release(grad);
    experiment_end(&x);
    return applies;
}

TEST(derivative_laws_hold_for_every_op)
{
    try_law(law_of_modes);
}

/* ---- Integers and bools ---- */

/* The sum of the results that have no derivative: both modes must give zero for it, whatever rules the op has. */
static flx_graph *sum_of_whole_numbers(const flx_graph *g)
{
    flx_graph *l = flx_graph_new(g->ctx, "whole");
    flx_val in[MAX_LEAVES];
    flx_val y[MAX_OUT];
    flx_val total = FLX_NONE;
    for (size_t i = 0; i < flx_graph_input_count(g); i++) {
        flx_val v = flx_graph_input(g, i);
        in[i] = flx_input(l, flx_val_name(g, v), flx_val_type(g, v));
    }
    flxi_inline(l, g, in, y);
    for (size_t k = 0; k < flx_graph_output_count(g); k++) {
        if (flxi_in(FLXI_FLOATS | FLXI_COMPLEX, flx_val_type(g, flx_graph_output(g, k))->dtype))
            continue;
        flx_val sum = flx_reduce_sum(l, flx_cast(l, y[k], FLX_F64), FLX_ALL, 0);
        total = total.id ? flx_add(l, total, sum) : sum;
    }
    if (total.id)
        flx_output(l, total, "total");
    return l;
}

/* An output of a transformed graph that is a constant zero. */
static void expect_zero_output(const experiment *x, const flx_graph *made, size_t k, const char *what)
{
    flx_error err = {0};
    flx_tensor *y = NULL;
    flx_feed feeds[2 * MAX_LEAVES];
    flx_graph *bound = flx_specialise(made, x->dims, x->num_dims, &err);
    flx_val v = bound ? flx_graph_output(bound, k) : FLX_NONE;
    flx_graph *alone = bound ? flx_extract(bound, &v, 1, &err) : NULL;
    size_t n = alone ? flx_graph_input_count(alone) : 0;
    uint32_t node = alone ? flxi_value_at(alone, alone->outputs.at[0].val)->node : 0;
    CHECK(n <= 2 * MAX_LEAVES);
    for (size_t i = 0; i < n; i++) {
        flx_val in = flx_graph_input(alone, i);
        feeds[i] = (flx_feed){flx_val_name(alone, in), flx_tensor_new(x->ctx, flx_val_type(alone, in), NULL, &err)};
    }
    if (EXPECT_MSG(alone != NULL, "%s: %s", what, err.message) &&
        EXPECT_MSG(flxi_node_at(alone, node)->nin == 0, "%s: not a constant", what) &&
        EXPECT_MSG(flx_run(alone, ON_REF, feeds, n, &y, &err) == FLX_OK, "%s: %s", what, err.message))
        expect_zeros(y, what);
    for (size_t i = 0; i < n; i++)
        flx_tensor_release((flx_tensor *)(uintptr_t)feeds[i].value);
    flx_tensor_release(y);
    flx_graph_release(alone);
    flx_graph_release(bound);
}

static void whole_results_have_no_derivative(const sample_case *c)
{
    experiment x = {0};
    flx_error err = {0};
    const char *names[MAX_NAMES];
    size_t count = 0;
    bool applies = c->sample->error == FLX_OK && !law_has_only_shadows(c->op) && experiment_parse(&x, c);
    flx_graph *whole = applies ? sum_of_whole_numbers(x.g) : NULL;
    for (size_t i = 0; whole && i < flx_graph_input_count(x.g) && count < MAX_NAMES; i++) {
        flx_val v = flx_graph_input(x.g, i);
        if (flxi_in(FLXI_FLOATS | FLXI_COMPLEX, flx_val_type(x.g, v)->dtype))
            names[count++] = flx_val_name(x.g, v);
    }
    if (whole && count && flx_graph_output_count(whole)) {
        flx_grad_options o = {.flags = FLX_GRAD_MISSING_ZERO};
        flx_graph *grad = flx_grad(whole, names, count, &o, &err);
        for (size_t k = 0; experiment_made(grad, "grad", &err) && k < count; k++)
            expect_zero_output(&x, grad, k, "reverse mode");
        flx_graph *jvp = flx_jvp(whole, names, count, &err);
        if (experiment_made(jvp, "jvp", &err))
            expect_zero_output(&x, jvp, 1, "forward mode");
        flx_graph *taylor = flx_taylor(whole, names, count, 2, &err);
        if (experiment_made(taylor, "taylor", &err))
            expect_zero_output(&x, taylor, 2, "Taylor mode");
        flx_graph_release(taylor);
        flx_graph_release(jvp);
        flx_graph_release(grad);
    }
    flx_graph_release(whole);
    if (x.ctx)
        experiment_end(&x);
}

TEST(derivative_of_integers_and_bools_is_zero_in_every_mode)
{
    sample_each(whole_results_have_no_derivative);
}

bool law_needs_derivative(flxi_opcode op)
{
    int32_t kind = flxi_rule_kind(&flxi_ops[op], MODE_VJP);
    return kind == FLX_RULE_OWN || kind == FLX_RULE_DECOMPOSE;
}

/* ---- Symmetry ---- */

/* The bag with the two directions exchanged. */
static bag exchanged(const experiment *x)
{
    bag b = {0};
    for (size_t i = 0; i < x->in.n; i++) {
        char other[80];
        size_t n = strlen(x->in.name[i]);
        bool second = n > 2 && strcmp(x->in.name[i] + n - 2, "_2") == 0;
        snprintf(other, sizeof other, second ? "%.*s" : "%.*s_2", (int)(second ? n - 2 : n), x->in.name[i]);
        flx_tensor *t = bag_get(&x->in, other);
        bag_put(&b, x->in.name[i], flx_tensor_retain(t ? t : x->in.value[i]));
    }
    return b;
}

/* u'Ht = t'Hu. The tolerance is that of check_second_order. */
static void check_symmetry(const experiment *x)
{
    flx_tensor *ht[MAX_NAMES] = {0};
    flx_tensor *hu[MAX_NAMES] = {0};
    flx_graph *hvp = hessian_product(x);
    bag turned = exchanged(x);
    if (hvp && experiment_run(x, hvp, &x->in, ht) && experiment_run(x, hvp, &turned, hu)) {
        double size = 0.0;
        double a = along_direction(x, ht, "_2", &size);
        double b = along_direction(x, hu, "", &size);
        EXPECT_MSG(experiment_close(a, b, 1e-10, size), "u'Ht is %.15g, t'Hu is %.15g", a, b);
    }
    release_all(ht, x->count);
    release_all(hu, x->count);
    bag_free(&turned);
    flx_graph_release(hvp);
}

size_t law_of_symmetry(const sample_case *sample, bool dry)
{
    sample_case c = *sample;
    experiment x;
    if (!law_needs_derivative(c.op) || !law_has_hessian(c.op) || !experiment_is_wide(&c))
        return 0;
    bool applies = experiment_begin(&x, &c);
    if (applies && !dry)
        check_symmetry(&x);
    experiment_end(&x);
    return applies;
}

TEST(derivative_hessians_are_symmetric_for_every_op)
{
    try_law(law_of_symmetry);
}

/* ---- Jacobians ---- */

enum { MAX_REAL = 2 * MAX_NAMES };

/* The op with real inputs and outputs: complex ones are split into parts, since their Jacobian is not one complex
   matrix. */
typedef struct {
    flx_graph *g;
    bag in;
    char wrt[MAX_REAL][64];
    const char *names[MAX_REAL];
    size_t count;
} real_op;

static flx_tensor *part_of(const flx_tensor *z, int part)
{
    flx_type t = *flx_tensor_type(z);
    t.dtype = FLX_F64;
    flx_tensor *y = flx_tensor_new(z->ctx, &t, NULL, NULL);
    CHECK(y != NULL);
    double *to = flx_tensor_data(y);
    const double *from = flx_tensor_const_data(z);
    for (int64_t i = 0; i < flx_tensor_count(z); i++)
        to[i] = from[2 * i + part];
    return y;
}

static flx_val real_input(real_op *r, const experiment *x, flx_val v, bool differentiated, const char *suffix)
{
    flx_type t = *flx_val_type(x->g, v);
    const char *name = flx_val_name(x->g, v);
    const flx_tensor *value = bag_get(&x->in, name);
    char full[64];
    snprintf(full, sizeof full, "%.50s%s", name, suffix);
    if (*suffix)
        t.dtype = FLX_F64;
    bag_put(&r->in, full, *suffix ? part_of(value, suffix[1] == 'i') : flx_tensor_retain(bag_get(&x->in, name)));
    if (differentiated) {
        snprintf(r->wrt[r->count], sizeof r->wrt[0], "%s", full);
        r->names[r->count] = r->wrt[r->count];
        r->count++;
    }
    return flx_input(r->g, full, &t);
}

static void add_real_output(real_op *r, flx_val y, size_t k, const char *suffix)
{
    char name[64];
    snprintf(name, sizeof name, "y%zu%s", k, suffix);
    flx_output(r->g, flx_where(r->g, flx_is_finite(r->g, y), y, flx_scalar(r->g, FLX_F64, 0.0)), name);
}

static void make_real(real_op *r, const experiment *x)
{
    flx_val parts[MAX_OPERANDS][2] = {{{0}}};
    flx_val in[MAX_OPERANDS];
    flx_val y[MAX_OUT];
    size_t n = flx_graph_input_count(x->g);
    *r = (real_op){.g = flx_graph_new(x->ctx, "real_op")};
    for (size_t i = 0; i < n; i++) {
        flx_val v = flx_graph_input(x->g, i);
        bool differentiated = false;
        bool is_complex = flx_val_type(x->g, v)->dtype == FLX_C128;
        for (size_t k = 0; k < x->count; k++)
            differentiated |= strcmp(x->names[k], flx_val_name(x->g, v)) == 0;
        parts[i][0] = real_input(r, x, v, differentiated, is_complex ? "_re" : "");
        if (is_complex)
            parts[i][1] = real_input(r, x, v, differentiated, "_im");
    }
    for (size_t i = 0; i < n; i++)
        in[i] = parts[i][1].id ? flx_complex(r->g, parts[i][0], parts[i][1]) : parts[i][0];
    flxi_inline(r->g, x->g, in, y);
    for (size_t k = 0; k < flx_graph_output_count(x->g); k++) {
        if (!x->weighs[k])
            continue;
        if (flx_val_type(r->g, y[k])->dtype == FLX_F64) {
            add_real_output(r, y[k], k, "");
        } else {
            add_real_output(r, flx_real(r->g, y[k]), k, "_re");
            add_real_output(r, flx_imag(r->g, y[k]), k, "_im");
        }
    }
}

/* By columns and by rows: the same products, summed in another order. */
static void check_jacobians(const experiment *x)
{
    static flx_tensor *by[2][2 * MAX_OUT * MAX_REAL];
    flx_graph *jac[2] = {NULL, NULL};
    flx_error err = {0};
    real_op r;
    make_real(&r, x);
    bool ok = EXPECT_MSG(flx_graph_error(r.g, &err) == FLX_OK, "%s", err.message);
    for (uint32_t k = 0; ok && k < 2; k++) {
        flx_jacobian_options o = {.mode = k ? FLX_JACOBIAN_REVERSE : FLX_JACOBIAN_FORWARD};
        jac[k] = flx_jacobian(r.g, r.names, r.count, &o, &err);
        ok = experiment_made(jac[k], k ? "jacrev" : "jacfwd", &err) && experiment_run(x, jac[k], &r.in, by[k]);
    }
    size_t n = jac[0] ? flx_graph_output_count(jac[0]) : 0;
    for (size_t i = 0; ok && i < n; i++)
        ok = experiment_same(by[0][i], by[1][i], 1e-12, "jacfwd and jacrev");
    for (int k = 0; k < 2; k++) {
        release_all(by[k], n);
        flx_graph_release(jac[k]);
    }
    bag_free(&r.in);
    flx_graph_release(r.g);
}

size_t law_of_jacobians(const sample_case *sample, bool dry)
{
    sample_case c = *sample;
    experiment x;
    if (!law_needs_derivative(c.op) || !experiment_is_wide(&c))
        return 0;
    bool applies = experiment_begin(&x, &c);
    if (applies && !dry)
        check_jacobians(&x);
    experiment_end(&x);
    return applies;
}

TEST(derivative_jacobians_agree_for_every_op)
{
    try_law(law_of_jacobians);
}
