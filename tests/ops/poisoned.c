/* SPDX-License-Identifier: Apache-2.0 */
/* poisoned.c: what `where` did not select has no influence on derivatives, whatever the op and whatever its operands
   are there. Every op of the table runs on a batch of two examples, of which one is selected. The other one is filled
   with numbers that are poison to derivatives: NaN, infinities, zeros, numbers outside of domains. Its cotangents must
   be exact zeros, those of the selected example must not change, and both modes must agree. */
#include "experiment.h"
#include "graph/op/site.h"
#include "ops/opcode.h"
#include "test.h"

#include <fluxion/catalogue.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXAMPLES = 2 };

static const double poisons[] = {NAN, INFINITY, -INFINITY, 0.0, -3.0};

/* Ops through which it is not known which elements belong to which example: zero times infinity is NaN there. A rule of
   the user may do with a cotangent what it wants; which rows belong to a group is in the data. */
static const struct {
    flxi_opcode op;
    const char *why;
} lost[] = {
    {OP_custom_fn, "its rule is its own"},
    {OP_grouped_matmul, "examples become groups"},
    {OP_grouped_matmul_input_backward, "examples become groups"},
    {OP_grouped_matmul_weight_backward, "examples become groups"},
    {OP_kernel_call, "its rule is its own"},
};

enum { LOST_OPS = sizeof lost / sizeof *lost };

static size_t lost_cases[LOST_OPS];

static size_t *lost_by(flxi_opcode op)
{
    for (size_t i = 0; i < LOST_OPS; i++)
        if (lost[i].op == op)
            return &lost_cases[i];
    return NULL;
}

/* A loop runs until every example is done, which poison may prevent. */
static bool may_never_end(flxi_opcode op)
{
    return op == OP_while || op == OP_while_backward;
}

/* sum_k <w_k, where(keep, y_k, 0)> of the batched op; inputs are the operands, the weights and keep. */
static flx_graph *selected_loss(const experiment *x, flx_error *err)
{
    flx_vmap_axis axes[MAX_OPERANDS];
    size_t n = flx_graph_input_count(x->g);
    flx_val in[MAX_OPERANDS];
    flx_val y[MAX_OUT];
    flx_val total = FLX_NONE;
    for (size_t i = 0; i < n; i++)
        axes[i] = (flx_vmap_axis){flx_val_name(x->g, flx_graph_input(x->g, i)), 0};
    flx_graph *batched = flx_vmap(x->g, axes, n, NULL, 0, EXAMPLES, err);
    if (!batched)
        return NULL;
    flx_graph *l = flx_graph_new(x->ctx, "selected");
    for (size_t i = 0; i < n; i++) {
        flx_val v = flx_graph_input(batched, i);
        in[i] = flx_input(l, flx_val_name(batched, v), flx_val_type(batched, v));
    }
    flx_type lanes = flx_type_make(FLX_BOOL, 1, (const flx_dim[]){EXAMPLES});
    flx_val keep = flx_input(l, "keep", &lanes);
    flxi_inline(l, batched, in, y);
    for (size_t k = 0; k < flx_graph_output_count(batched); k++) {
        char name[32];
        const flx_type *t = flx_val_type(l, y[k]);
        flx_dim dims[FLX_MAX_RANK] = {EXAMPLES};
        if (!x->weighs[k])
            continue;
        for (int d = 1; d < t->rank; d++)
            dims[d] = 1;
        snprintf(name, sizeof name, "w%zu", k);
        flx_val w = flx_input(l, name, t);
        flx_val chosen = flx_where(l, flx_reshape(l, keep, (flx_ints){dims, (size_t)t->rank}), y[k],
                                   flx_scalar(l, (flx_dtype)t->dtype, 0.0));
        flx_val p =
            flxi_is_complex(t->dtype) ? flx_real(l, flx_mul(l, flx_conjugate(l, w), chosen)) : flx_mul(l, w, chosen);
        flx_val sum = flx_reduce_sum(l, p, FLX_ALL, 0);
        total = total.id ? flx_add(l, total, flx_cast(l, sum, (flx_dtype)flx_val_type(l, total)->dtype)) : sum;
    }
    flx_output(l, total, "loss");
    flx_graph_release(batched);
    return l;
}

/* Both examples are x. */
static flx_tensor *twice(const flx_tensor *x)
{
    flx_type t = *flx_tensor_type(x);
    memmove(t.dims + 1, t.dims, (size_t)t.rank * sizeof *t.dims);
    t.dims[0] = EXAMPLES;
    t.rank++;
    flx_tensor *y = flx_tensor_new(x->ctx, &t, NULL, NULL);
    CHECK(y != NULL);
    for (int i = 0; i < EXAMPLES; i++)
        memcpy((char *)flx_tensor_data(y) + (size_t)i * x->nbytes, x->data, x->nbytes);
    return y;
}

static void poison(flx_tensor *x, double with)
{
    double *p = flx_tensor_data(x);
    int64_t n = flx_tensor_count(x) * experiment_parts(flx_tensor_type(x)->dtype);
    for (int64_t i = n / 2; i < n; i++)
        p[i] = with;
}

static bag batch_values(const experiment *x)
{
    bag b = {0};
    flx_type lanes = flx_type_make(FLX_BOOL, 1, (const flx_dim[]){EXAMPLES});
    for (size_t i = 0; i < x->in.n; i++)
        bag_put(&b, x->in.name[i], twice(x->in.value[i]));
    bag_put(&b, "keep", flx_tensor_new(x->ctx, &lanes, (const uint8_t[]){1, 0}, NULL));
    return b;
}

/* What is compared: the gradients, and the derivative along the directions. */
typedef struct {
    flx_tensor *d[MAX_NAMES];
    double along;
} answer;

static bool answer_of(const experiment *x, const flx_graph *grad, const flx_graph *jvp, const bag *in, answer *a)
{
    flx_tensor *y[2] = {0};
    *a = (answer){.along = NAN};
    if (!experiment_run(x, grad, in, a->d) || !experiment_run(x, jvp, in, y))
        return false;
    a->along = flx_tensor_get(y[1], 0);
    release_all(y, 2);
    return true;
}

/* The first example as without poison, the second zero. */
static void compare(const experiment *x, const answer *clean, const answer *a, double with)
{
    size_t *counted = lost_by(x->c->op);
    for (size_t i = 0; i < x->count; i++) {
        const double *p = flx_tensor_const_data(a->d[i]);
        const double *q = flx_tensor_const_data(clean->d[i]);
        int64_t n = flx_tensor_count(a->d[i]) * experiment_parts(flx_tensor_type(a->d[i])->dtype);
        for (int64_t k = 0; k < n; k++) {
            double want = k < n / 2 ? q[k] : 0.0;
            bool same = p[k] == want || (k < n / 2 && experiment_close(p[k], want, 1e-12, fabs(want)));
            if (!same && counted)
                ++*counted;
            if (!same && (counted || !EXPECT_MSG(false, "%g where nothing is selected: d_%s[%lld] is %g, expected %g",
                                                 with, x->names[i], (long long)k, p[k], want)))
                return;
        }
    }
    EXPECT_MSG(experiment_close(a->along, clean->along, 1e-12, fabs(clean->along)),
               "%g where nothing is selected: forward mode gives %g, expected %g", with, a->along, clean->along);
}

static bool is_differentiated(const experiment *x, const char *name)
{
    for (size_t i = 0; i < x->count; i++)
        if (strcmp(x->names[i], name) == 0)
            return true;
    return false;
}

static void try_poisons(const experiment *x, const flx_graph *grad, const flx_graph *jvp)
{
    answer clean;
    bag in = batch_values(x);
    if (answer_of(x, grad, jvp, &in, &clean))
        for (size_t k = 0; k < sizeof poisons / sizeof *poisons; k++) {
            answer a;
            for (size_t i = 0; i < in.n; i++)
                if (is_differentiated(x, in.name[i]))
                    poison(in.value[i], poisons[k]);
            if (answer_of(x, grad, jvp, &in, &a))
                compare(x, &clean, &a, poisons[k]);
            release_all(a.d, x->count);
        }
    release_all(clean.d, x->count);
    bag_free(&in);
}

static void poisoned_example(const sample_case *sample)
{
    sample_case c = *sample;
    experiment x;
    flx_error err = {0};
    if (!law_needs_derivative(c.op) || may_never_end(c.op) || !experiment_is_wide(&c))
        return;
    if (experiment_begin(&x, &c)) {
        flx_graph *loss = selected_loss(&x, &err);
        flx_grad_options zero = {.flags = FLX_GRAD_MISSING_ZERO};
        flx_graph *grad = experiment_made(loss, "vmap", &err) ? flx_grad(loss, x.names, x.count, &zero, &err) : NULL;
        flx_graph *jvp = grad ? flx_jvp(loss, x.names, x.count, &err) : NULL;
        if (experiment_made(grad, "grad", &err) && experiment_made(jvp, "jvp", &err))
            try_poisons(&x, grad, jvp);
        flx_graph_release(jvp);
        flx_graph_release(grad);
        flx_graph_release(loss);
    }
    experiment_end(&x);
}

TEST(derivative_ignores_what_was_not_selected)
{
    sample_each(poisoned_example);
    for (size_t i = 0; i < LOST_OPS && !getenv("FLX_TEST_CASE"); i++)
        EXPECT_MSG(lost_cases[i] > 0, "%s: it is known now; remove it from the list", flxi_ops[lost[i].op].name);
}
