/* derivatives.c: the laws of derivatives and batching, tried on every sample of the table in f64 and c128.

   Of an op with results y_k the test makes the loss L = Σ_k Σ Re(conj(w_k) y_k) with random weights w_k, so that one number
   stands for all of the op. Then, along random directions t and u: reverse and forward mode agree with each other to rounding
   and with differences; the four ways to u'Ht agree with each other and with differences of the gradient; and the batched op
   agrees with a loop over the examples, for every subset of batched operands. Symbolic samples are transformed as they are. */
#include "../test.h"
#include "ir/site.h"
#include "sample.h"
#include "transform/transform.h"

#include <fluxion/catalogue.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LEAVES = 24, MAX_NAMES = 12, MAX_OUT = 64 };

/* ---- Named values ---- */

typedef struct {
    char name[MAX_LEAVES][64];
    flx_tensor *value[MAX_LEAVES];
    size_t n;
} bag;

static void bag_put(bag *b, const char *name, flx_tensor *t)
{
    CHECK(b->n < MAX_LEAVES && t);
    snprintf(b->name[b->n], sizeof b->name[0], "%s", name);
    b->value[b->n++] = t;
}

static flx_tensor *bag_get(const bag *b, const char *name)
{
    for (size_t i = 0; i < b->n; i++)
        if (strcmp(b->name[i], name) == 0)
            return b->value[i];
    return NULL;
}

static void bag_free(bag *b)
{
    for (size_t i = 0; i < b->n; i++)
        flx_tensor_release(b->value[i]);
    b->n = 0;
}

/* ---- The experiment ---- */

typedef struct {
    const sample_case *c;
    flx_context *ctx;
    flx_module *m;
    flx_graph *loss;
    bag in; /* operands, weights w<k>, directions t_<a> and u_<a> */
    char wrt[MAX_NAMES][64];
    const char *names[MAX_NAMES];
    size_t count;
    flx_dim_binding dims[8];
    size_t num_dims;
    double size; /* of the quantities compared: for relative errors */
} experiment;

/* Of the dtypes that have one, those in which differences mean something. */
static bool has_derivative(int32_t dtype)
{
    return dtype == FLX_F64 || dtype == FLX_C128;
}

/* The derivative is declared and not that of the value, so only the modes can be held against each other. */
static bool is_straight_through(const sample_case *c)
{
    bool asked = c->sample->attrs && strstr(c->sample->attrs, "ste=identity");
    return asked || strcmp(flxi_ops[c->op].name, "reduce_precision") == 0;
}

static bool run_named(const experiment *x, const flx_graph *g, const bag *values, flx_tensor **out)
{
    flx_feed feeds[MAX_LEAVES * 2];
    flx_error err = {0};
    flx_run_options options = {.dims = x->dims, .num_dims = x->num_dims};
    size_t n = flx_graph_input_count(g);
    for (size_t i = 0; i < n; i++) {
        const char *name = flx_val_name(g, flx_graph_input(g, i));
        feeds[i] = (flx_feed){name, bag_get(values, name)};
        if (!EXPECT_MSG(feeds[i].value, "no value for input '%s'", name))
            return false;
    }
    return EXPECT_MSG(flx_run(g, &options, feeds, n, out, &err) == FLX_OK, "%s: %s", flx_graph_name(g), err.message);
}

/* Re <a, b>: the pairing under which cotangents are gradients. */
static double pair(const flx_tensor *a, const flx_tensor *b)
{
    double sum = 0.0;
    int32_t dtype = flx_tensor_type(a)->dtype;
    int64_t n = flx_tensor_count(a) * (dtype == FLX_C128 ? 2 : 1);
    const double *p = flx_tensor_bytes(a);
    const double *q = flx_tensor_bytes(b);
    for (int64_t i = 0; i < n; i++)
        sum += p[i] * q[i];
    return sum;
}

static flx_tensor *moved(const flx_tensor *x, const flx_tensor *t, double h)
{
    flx_tensor *y = flx_tensor_cast(x, (flx_dtype)flx_tensor_type(x)->dtype, NULL);
    double *p = flx_tensor_data(y);
    const double *q = flx_tensor_bytes(t);
    int64_t n = flx_tensor_count(x) * (flx_tensor_type(x)->dtype == FLX_C128 ? 2 : 1);
    for (int64_t i = 0; i < n; i++)
        p[i] += h * q[i];
    return y;
}

/* All of x->in, with every operand that is differentiated moved by h along direction `prefix`. */
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

static double random_unit(uint64_t *state)
{
    return 2.0 * test_uniform(state) - 1.0;
}

static flx_tensor *random_like(const experiment *x, const flx_type *type, uint64_t *state)
{
    flx_tensor *t = flx_tensor_new(x->ctx, type, NULL, NULL);
    CHECK(t != NULL);
    double *p = flx_tensor_data(t);
    for (int64_t i = 0; i < flx_tensor_count(t) * (type->dtype == FLX_C128 ? 2 : 1); i++)
        p[i] = random_unit(state);
    return t;
}

/* L(a…, w…) around the op's graph. Elements that are not finite (folds of nothing) take no part: they have no differences. */
static flx_graph *make_loss(const experiment *x, const flx_graph *g)
{
    flx_graph *l = flx_graph_new(x->ctx, "loss");
    flx_val in[MAX_LEAVES];
    flx_val y[MAX_OUT];
    flx_val total = FLX_NONE;
    for (size_t i = 0; i < flx_graph_input_count(g); i++) {
        flx_val v = flx_graph_input(g, i);
        in[i] = flx_input(l, flx_val_name(g, v), flx_val_type(g, v));
    }
    flx_val w[MAX_OUT];
    for (size_t k = 0; k < flx_graph_output_count(g); k++) {
        char name[32];
        const flx_type *t = flx_val_type(g, flx_graph_output(g, k));
        snprintf(name, sizeof name, "w%zu", k);
        w[k] = has_derivative(t->dtype) ? flx_input(l, name, t) : FLX_NONE;
    }
    flxi_inline(l, g, in, y);
    for (size_t k = 0; k < flx_graph_output_count(g); k++) {
        if (!w[k].id)
            continue;
        const flx_type *t = flx_val_type(l, w[k]);
        bool is_complex = t->dtype == FLX_C128;
        flx_val finite = flx_where(l, flx_is_finite(l, y[k]), y[k], flx_scalar(l, (flx_dtype)t->dtype, 0.0));
        flx_val p = is_complex ? flx_real(l, flx_mul(l, flx_conjugate(l, w[k]), finite)) : flx_mul(l, w[k], finite);
        flx_val sum = flx_reduce_sum(l, p, FLX_ALL, 0);
        total = total.id ? flx_add(l, total, sum) : sum;
    }
    if (total.id)
        flx_output(l, total, "loss");
    return l;
}

static bool may_differentiate(const experiment *x, size_t i, const flx_type *t)
{
    flxi_role role = flxi_operand_role(flxi_operands_of(&flxi_ops[x->c->op]), (uint32_t)i);
    bool undefined = i == 0 && (x->c->op == OP_polygamma || x->c->op == OP_zeta); /* tests/ops/special.c */
    return has_derivative(t->dtype) && !undefined && (role == ROLE_SAME || role == ROLE_ANY || role == ROLE_PAIR);
}

static bool fill_inputs(experiment *x, const flx_graph *g)
{
    flx_error err = {0};
    uint64_t state = test_seed() + (uint64_t)x->c->op * 131;
    for (const char *s; x->num_dims < 8 && (s = flx_graph_symbol(g, x->num_dims)) != NULL; x->num_dims++)
        x->dims[x->num_dims] = (flx_dim_binding){s, SAMPLE_EXTENT};
    flx_graph *bound = flx_specialise(x->loss, x->dims, x->num_dims, &err);
    if (!EXPECT_MSG(bound != NULL, "%s", err.message))
        return false;
    size_t operands = flx_graph_input_count(g);
    for (size_t i = 0; i < flx_graph_input_count(bound); i++) {
        flx_val v = flx_graph_input(bound, i);
        const flx_type *t = flx_val_type(bound, v);
        const char *name = flx_val_name(bound, v);
        bag_put(&x->in, name,
                i < operands ? sample_value(x->ctx, x->c, i, t, FILL_RANDOM, &state, &err) : random_like(x, t, &state));
        if (i < operands && may_differentiate(x, i, t) && x->count < MAX_NAMES) {
            char tangent[80];
            snprintf(x->wrt[x->count], sizeof x->wrt[0], "%s", name);
            x->names[x->count] = x->wrt[x->count];
            x->count++;
            snprintf(tangent, sizeof tangent, "tangent_%s", name);
            bag_put(&x->in, tangent, random_like(x, t, &state));
            snprintf(tangent, sizeof tangent, "tangent_%s_2", name);
            bag_put(&x->in, tangent, random_like(x, t, &state));
        }
    }
    flx_graph_free(bound);
    return true;
}

/* False when there is nothing to differentiate. */
static bool begin(experiment *x, const sample_case *c)
{
    flx_error err = {0};
    *x = (experiment){.c = c, .ctx = flx_context_new(NULL)};
    x->m = sample_parse(x->ctx, c, &err);
    const flx_graph *g = flx_module_main(x->m);
    if (!x->m || flx_graph_output_count(g) > MAX_OUT || flx_graph_input_count(g) > 6)
        return false;
    x->loss = make_loss(x, g);
    if (flx_graph_output_count(x->loss) == 0)
        return false;
    return fill_inputs(x, g) && x->count > 0;
}

static void end(experiment *x)
{
    bag_free(&x->in);
    flx_graph_free(x->loss);
    flx_module_free(x->m);
    flx_context_free(x->ctx);
}

/* ---- First order ---- */

static double loss_at(const experiment *x, const char *direction, double h)
{
    flx_tensor *out[1] = {NULL};
    bag b = shifted(x, direction, h);
    double v = run_named(x, x->loss, &b, out) ? flx_tensor_get(out[0], 0) : NAN;
    flx_tensor_release(out[0]);
    bag_free(&b);
    return v;
}

/* Central differences, extrapolated once: the error is O(h^4). */
static double difference(const experiment *x, double (*f)(const experiment *, const char *, double), const char *direction)
{
    double h = 1e-3;
    double wide = (f(x, direction, h) - f(x, direction, -h)) / (2 * h);
    double narrow = (f(x, direction, h / 2) - f(x, direction, -h / 2)) / h;
    return (4 * narrow - wide) / 3;
}

static flx_graph *gradient_of(const experiment *x, const flx_graph *l, flx_error *err)
{
    flx_grad_options o = {.flags = FLX_GRAD_MISSING_ZERO};
    return flx_grad(l, x->names, x->count, &o, err);
}

/* Σ_i Re <d_i, direction_i> at the shifted point, and the size of its terms. */
static double gradient_along(const experiment *x, const flx_graph *grad, const bag *at, const char *suffix, double *size)
{
    flx_tensor *out[MAX_NAMES] = {0};
    double sum = 0.0;
    if (!run_named(x, grad, at, out))
        return NAN;
    for (size_t i = 0; i < x->count; i++) {
        char name[80];
        snprintf(name, sizeof name, "tangent_%s%s", x->names[i], suffix);
        double term = pair(out[i], bag_get(&x->in, name));
        sum += term;
        if (size)
            *size += fabs(term) + sqrt(pair(out[i], out[i]));
        flx_tensor_release(out[i]);
    }
    return sum;
}

static bool close_to(double a, double b, double tolerance, double size)
{
    return fabs(a - b) <= tolerance * (1.0 + size + fabs(a) + fabs(b)) || (isnan(a) && isnan(b));
}

static void check_first_order(experiment *x, const flx_graph *grad)
{
    flx_error err = {0};
    flx_tensor *out[2] = {NULL, NULL};
    double size = 0.0;
    double by_reverse = gradient_along(x, grad, &x->in, "", &size);
    flx_graph *jvp = flx_jvp(x->loss, x->names, x->count, &err);
    if (!EXPECT_MSG(jvp != NULL, "jvp: %s (%s)", err.message, err.where))
        return;
    EXPECT_MSG(flx_graph_verify(jvp, &err) == FLX_OK, "jvp: %s", err.message);
    double by_forward = run_named(x, jvp, &x->in, out) ? flx_tensor_get(out[1], 0) : NAN;
    flx_tensor_release(out[0]);
    flx_tensor_release(out[1]);
    flx_graph_free(jvp);
    double by_difference = difference(x, loss_at, "tangent_");
    x->size = size;
    EXPECT_MSG(close_to(by_reverse, by_forward, 1e-12, size), "reverse %.15g, forward %.15g (difference %.15g)", by_reverse,
               by_forward, by_difference);
    EXPECT_MSG(is_straight_through(x->c) || close_to(by_forward, by_difference, 1e-6, size),
               "forward %.12g, difference %.12g", by_forward, by_difference);
}

/* ---- Second order ---- */

static const flx_graph *gradient_graph; /* of the experiment under way: differences call back without room for it */

static double gradient_at(const experiment *x, const char *direction, double h)
{
    bag b = shifted(x, direction, h);
    double v = gradient_along(x, gradient_graph, &b, "_2", NULL);
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
        bool is_complex = flx_val_type(l, t[i])->dtype == FLX_C128;
        flx_val p = is_complex ? flx_real(l, flx_mul(l, flx_conjugate(l, t[i]), d[i])) : flx_mul(l, t[i], d[i]);
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
    flx_graph *second = gradient_of(x, l, &err);
    if (!EXPECT_MSG(second != NULL, "%s: %s (%s)", what, err.message, err.where))
        return NAN;
    EXPECT_MSG(flx_graph_verify(second, &err) == FLX_OK, "%s: %s", what, err.message);
    double v = gradient_along(x, second, &x->in, "_2", NULL);
    flx_graph_free(second);
    return v;
}

static double forward_over_forward(const experiment *x, const flx_graph *jvp)
{
    flx_error err = {0};
    flx_tensor *out[4] = {0};
    flx_graph *second = flx_jvp(jvp, x->names, x->count, &err);
    double v = NAN;
    if (EXPECT_MSG(second != NULL, "forward over forward: %s (%s)", err.message, err.where) &&
        run_named(x, second, &x->in, out))
        v = flx_tensor_get(out[3], 0);
    for (int i = 0; i < 4; i++)
        flx_tensor_release(out[i]);
    flx_graph_free(second);
    return v;
}

static double forward_over_reverse(const experiment *x)
{
    flx_error err = {0};
    flx_tensor *out[MAX_NAMES] = {0};
    flx_grad_options o = {.flags = FLX_GRAD_MISSING_ZERO};
    flx_graph *hvp = flx_hvp(x->loss, x->names, x->count, &o, &err);
    double v = NAN;
    if (EXPECT_MSG(hvp != NULL, "hvp: %s (%s)", err.message, err.where)) {
        EXPECT_MSG(flx_graph_verify(hvp, &err) == FLX_OK, "hvp: %s", err.message);
        if (run_named(x, hvp, &x->in, out)) {
            v = 0.0;
            for (size_t i = 0; i < x->count; i++) {
                char name[80];
                snprintf(name, sizeof name, "tangent_%s_2", x->names[i]);
                v += pair(out[i], bag_get(&x->in, name));
            }
        }
    }
    for (size_t i = 0; i < x->count; i++)
        flx_tensor_release(out[i]);
    flx_graph_free(hvp);
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
        bool agree = close_to(a, b, 1e-10, size) && close_to(a, c, 1e-10, size) && close_to(a, d, 1e-10, size);
        EXPECT_MSG(agree, "forward over reverse %.15g, reverse over reverse %.15g, reverse over forward %.15g, "
                          "forward over forward %.15g, difference %.15g",
                   a, b, c, d, e);
        EXPECT_MSG(close_to(a, e, 1e-5, size), "second order %.12g, difference of gradients %.12g", a, e);
    }
    flx_graph_free(along);
    flx_graph_free(tangent_loss);
    flx_graph_free(jvp);
}

/* ---- Every sample ---- */

static bool is_once_per_dtype(sample_case *c)
{
    if (c->sample->error)
        return false;
    if (c->dtype == FLX_DTYPE_NONE) {
        c->widen = true;
        return true;
    }
    return c->dtype == FLX_F64 || c->dtype == FLX_C128;
}

static void differentiate_sample(const sample_case *sample)
{
    sample_case c = *sample;
    experiment x;
    flx_error err = {0};
    if (!is_once_per_dtype(&c))
        return;
    int32_t kind = flxi_rule_kind(&flxi_ops[c.op], MODE_VJP);
    if (begin(&x, &c) && kind != FLX_RULE_ZERO) {
        flx_graph *grad = gradient_of(&x, x.loss, &err);
        if (kind == FLX_RULE_UNDEFINED) {
            EXPECT_MSG(!grad && err.code == FLX_E_NO_RULE && err.hint[0], "an undefined derivative: %s", err.message);
        } else if (EXPECT_MSG(grad != NULL, "grad: %s (%s)", err.message, err.where)) {
            EXPECT_MSG(flx_graph_verify(grad, &err) == FLX_OK, "grad: %s", err.message);
            check_first_order(&x, grad);
            check_second_order(&x, grad);
        }
        flx_graph_free(grad);
        test_count_case();
    }
    end(&x);
}

TEST(derivative_laws_hold_for_every_op)
{
    sample_each(differentiate_sample);
}

TEST(derivative_rules_have_no_hole)
{
    for (int i = 1; i < OP_COUNT; i++) {
        const flxi_op *op = &flxi_ops[i];
        EXPECT_MSG(flxi_rule_kind(op, MODE_VJP) != FLX_RULE_NONE, "%s has no derivative rule and no reason", op->name);
        EXPECT_MSG(flxi_rule_kind(op, MODE_JVP) != FLX_RULE_NONE, "%s has no forward rule and no reason", op->name);
        test_count_case();
    }
}

/* ---- Batching ---- */

enum { BATCH = 2 };

static flx_tensor *example_of(const flx_tensor *t, const flx_type *type, int64_t b)
{
    size_t n = flx_tensor_size(t) / BATCH;
    return flx_tensor_new(t->ctx, type,
                          (const char *)flx_tensor_bytes(t) + (size_t)b * n, NULL);
}

static flx_type with_batch(const flx_type *t)
{
    flx_type y = {.dtype = t->dtype, .rank = t->rank + 1, .dims = {BATCH}};
    memcpy(y.dims + 1, t->dims, (size_t)t->rank * sizeof(flx_dim));
    return y;
}

static bool same_values(const flx_tensor *a, const flx_tensor *b)
{
    const flx_type *ta = flx_tensor_type(a);
    if (flx_tensor_size(a) != flx_tensor_size(b))
        return false;
    if (memcmp(flx_tensor_bytes(a), flx_tensor_bytes(b), flx_tensor_size(a)) == 0)
        return true;
    if (ta->dtype != FLX_F64 && ta->dtype != FLX_C128)
        return false;
    const double *p = flx_tensor_bytes(a);
    const double *q = flx_tensor_bytes(b);
    for (size_t i = 0; i < flx_tensor_size(a) / sizeof(double); i++)
        if (!close_to(p[i], q[i], 1e-13, 0.0) && !(p[i] == q[i]))
            return false;
    return true;
}

/* One subset of batched operands: the batched graph against each example on its own. */
static void check_subset(const experiment *x, const flx_graph *g, unsigned subset, const bag *single, const bag *stacked)
{
    flx_vmap_axis axes[MAX_LEAVES];
    flx_error err = {0};
    size_t n = 0;
    size_t outputs = flx_graph_output_count(g);
    flx_tensor *all[MAX_OUT] = {0};
    bag in = {0};
    for (size_t i = 0; i < flx_graph_input_count(g); i++) {
        const char *name = flx_val_name(g, flx_graph_input(g, i));
        bool batched = subset >> i & 1;
        if (batched)
            axes[n++] = (flx_vmap_axis){name, 0};
        bag_put(&in, name, flx_tensor_retain(bag_get(batched ? stacked : single, name)));
    }
    flx_graph *v = flx_vmap(g, axes, n, NULL, 0, BATCH, &err);
    if (EXPECT_MSG(v != NULL, "vmap (operands %u): %s (%s)", subset, err.message, err.where) &&
        EXPECT_MSG(flx_graph_verify(v, &err) == FLX_OK, "vmap: %s", err.message) && run_named(x, v, &in, all))
        for (int64_t b = 0; b < BATCH; b++) {
            flx_tensor *one[MAX_OUT] = {0};
            bag example = {0};
            for (size_t i = 0; i < flx_graph_input_count(g); i++) {
                const char *name = flx_val_name(g, flx_graph_input(g, i));
                flx_tensor *t = bag_get(single, name);
                bag_put(&example, name,
                        subset >> i & 1 ? example_of(bag_get(stacked, name), flx_tensor_type(t), b)
                                        : flx_tensor_retain(t));
            }
            if (run_named(x, g, &example, one))
                for (size_t k = 0; k < outputs; k++) {
                    flx_tensor *part = example_of(all[k], flx_tensor_type(one[k]), b);
                    EXPECT_MSG(same_values(part, one[k]), "vmap (operands %u): output %zu, example %lld differs", subset,
                               k, (long long)b);
                    flx_tensor_release(part);
                }
            for (size_t k = 0; k < outputs; k++)
                flx_tensor_release(one[k]);
            bag_free(&example);
        }
    for (size_t k = 0; k < outputs; k++)
        flx_tensor_release(all[k]);
    bag_free(&in);
    flx_graph_free(v);
    test_count_case();
}

static void batch_sample(const sample_case *sample)
{
    sample_case c = *sample;
    experiment x = {.c = &c, .ctx = flx_context_new(NULL)};
    flx_error err = {0};
    uint64_t state = test_seed() + (uint64_t)c.op * 7919;
    bool tried = c.dtype == FLX_DTYPE_NONE || c.dtype == FLX_F64 || c.dtype == FLX_C128 || c.dtype == FLX_I32 ||
                 c.dtype == FLX_BOOL;
    x.m = tried && !c.sample->error ? sample_parse(x.ctx, &c, &err) : NULL;
    const flx_graph *g = flx_module_main(x.m);
    size_t n = flx_graph_input_count(g);
    if (x.m && n > 0 && n <= 4 && flx_graph_output_count(g) <= MAX_OUT) {
        bag single = {0};
        bag stacked = {0};
        for (const char *s; x.num_dims < 8 && (s = flx_graph_symbol(g, x.num_dims)) != NULL; x.num_dims++)
            x.dims[x.num_dims] = (flx_dim_binding){s, SAMPLE_EXTENT};
        flx_graph *bound = flx_specialise(g, x.dims, x.num_dims, &err);
        for (size_t i = 0; bound && i < n; i++) {
            flx_val v = flx_graph_input(bound, i);
            flx_type wide = with_batch(flx_val_type(bound, v));
            bag_put(&single, flx_val_name(bound, v),
                    sample_value(x.ctx, &c, i, flx_val_type(bound, v), FILL_RANDOM, &state, &err));
            bag_put(&stacked, flx_val_name(bound, v), sample_value(x.ctx, &c, i, &wide, FILL_RANDOM, &state, &err));
        }
        for (unsigned subset = 1; bound && subset < 1u << n; subset++)
            check_subset(&x, g, subset, &single, &stacked);
        flx_graph_free(bound);
        bag_free(&single);
        bag_free(&stacked);
    }
    flx_module_free(x.m);
    flx_context_free(x.ctx);
}

TEST(derivative_batching_equals_a_loop)
{
    sample_each(batch_sample);
}

/* ---- docs/derivatives.md: what each op has, and how often it is tried here ---- */

static size_t law_cases[OP_COUNT];
static size_t batch_cases[OP_COUNT];

static void count_sample(const sample_case *sample)
{
    sample_case c = *sample;
    experiment x;
    flx_error err = {0};
    if (c.sample->error)
        return;
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = sample_parse(ctx, &c, &err);
    size_t n = flx_graph_input_count(flx_module_main(m));
    bool tried = c.dtype == FLX_DTYPE_NONE || c.dtype == FLX_F64 || c.dtype == FLX_C128 || c.dtype == FLX_I32 ||
                 c.dtype == FLX_BOOL;
    if (tried && n > 0 && n <= 4)
        batch_cases[c.op] += (1u << n) - 1;
    flx_module_free(m);
    flx_context_free(ctx);
    if (!is_once_per_dtype(&c) || flxi_rule_kind(&flxi_ops[c.op], MODE_VJP) == FLX_RULE_ZERO)
        return;
    law_cases[c.op] += begin(&x, &c);
    end(&x);
}

static const char *kind_word(int32_t kind)
{
    static const char *const words[] = {"**none**", "rule", "decomposition", "zero", "undefined", "loop"};
    return words[kind];
}

static char *write_manual(void)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    fputs("<!-- Written by the test derivative_manual_is_fresh with FLX_UPDATE_DOCS=1; do not edit. -->\n"
          "# Derivatives\n\n"
          "How each op gets its reverse rule (VJP), forward rule (JVP), batching rule (vmap) and second derivatives: a rule of\n"
          "its own, the rules of what it decomposes into, zero by definition, undefined (with the reason), or for vmap a loop\n"
          "over the examples. The last two columns count what `flx_tests derivative` tries: points at which the modes are\n"
          "compared with each other and with differences, to second order, in f64 and c128; and subsets of batched operands\n"
          "compared with a loop.\n\n"
          "| op | VJP | JVP | vmap | order 2 | points | batchings |\n|---|---|---|---|---|---|---|\n",
          f);
    for (int i = 1; i < OP_COUNT; i++) {
        flx_op_view v;
        flx_op_find(flxi_ops[i].name, &v);
        if (flxi_ops[i].op_class == CLASS_LEAF)
            continue; /* nothing to differentiate by */
        fprintf(f, "| `%s` | %s | %s | %s | %s | %zu | %zu |\n", v.name, kind_word(v.vjp), kind_word(v.jvp),
                kind_word(v.vmap), kind_word(v.order2), law_cases[i], batch_cases[i]);
    }
    fputs("\nUndefined:\n\n", f);
    for (int i = 1; i < OP_COUNT; i++)
        if (flxi_rule_kind(&flxi_ops[i], MODE_VJP) == FLX_RULE_UNDEFINED)
            fprintf(f, "- `%s`: %s\n", flxi_ops[i].name, flxi_ops[i].rules->undefined);
    fclose(f);
    return text;
}

TEST(derivative_manual_is_fresh)
{
    char path[4096];
    if (getenv("FLX_OP"))
        return; /* only some of the ops were counted */
    memset(law_cases, 0, sizeof law_cases);
    memset(batch_cases, 0, sizeof batch_cases);
    sample_each(count_sample);
    char *text = write_manual();
    snprintf(path, sizeof path, "%s/docs/derivatives.md", test_source_dir());
    if (getenv("FLX_UPDATE_DOCS")) {
        FILE *f = fopen(path, "w");
        CHECK_MSG(f && fputs(text, f) >= 0 && fclose(f) == 0, "%s cannot be written", path);
    }
    FILE *f = fopen(path, "r");
    CHECK_MSG(f != NULL, "%s is missing: run with FLX_UPDATE_DOCS=1", path);
    char *old = malloc(strlen(text) + 2);
    size_t n = fread(old, 1, strlen(text) + 1, f);
    old[n] = 0;
    fclose(f);
    bool fresh = strcmp(old, text) == 0;
    free(old);
    free(text);
    CHECK_MSG(fresh, "%s is stale: run with FLX_UPDATE_DOCS=1", path);
}
