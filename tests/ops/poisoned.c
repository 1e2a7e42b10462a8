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
static const flxi_opcode lost[] = {OP_custom_fn, OP_grouped_matmul_weight_backward, OP_kernel_call};

/* Ops whose rules multiply what an example has computed by its cotangent and add up over the examples, where these
   share an operand. The factors of products are cleaned (guard_factors() in autodiff/reverse.c), and rules of systems
   clean what they multiply (restore_zeros() in graph/op/site.h). What is added up in a body is not: rounds of loops,
   windows whose elements are combined by one. Neither are convolutions in groups, where examples share the input:
   their weights have the examples inside of each group. */
static const flxi_opcode lost_if_shared[] = {OP_causal_conv1d,
                                             OP_cg,
                                             OP_conv,
                                             OP_conv_backward_input,
                                             OP_conv_backward_weight,
                                             OP_conv_transpose,
                                             OP_fixed_point,
                                             OP_fused_conv_affine_act,
                                             OP_fused_conv_bias_act,
                                             OP_gated_delta_net,
                                             OP_gaussian_splat_render,
                                             OP_gaussian_splat_render_backward,
                                             OP_gmres,
                                             OP_odeint,
                                             OP_reduce_window,
                                             OP_scan_backward,
                                             OP_scan_backward_xs,
                                             OP_scan_replay_backward,
                                             OP_select_and_scatter,
                                             OP_selective_scan,
                                             OP_sparse_solve};

enum { LOST = sizeof lost / sizeof *lost, LOST_IF_SHARED = sizeof lost_if_shared / sizeof *lost_if_shared };

static size_t lost_cases[LOST], lost_cases_if_shared[LOST_IF_SHARED];

/* Where failures of the op are counted; NULL: it must not fail. */
static size_t *lost_by(flxi_opcode op, bool shares)
{
    for (size_t i = 0; i < LOST; i++)
        if (lost[i] == op)
            return &lost_cases[i];
    for (size_t i = 0; shares && i < LOST_IF_SHARED; i++)
        if (lost_if_shared[i] == op)
            return &lost_cases_if_shared[i];
    return NULL;
}

/* A loop runs until every example is done, which poison may prevent. */
static bool may_never_end(flxi_opcode op)
{
    return op == OP_while || op == OP_while_backward;
}

static bool is_shared(const experiment *x, size_t shared, const char *name)
{
    return shared < x->count && strcmp(x->names[shared], name) == 0;
}

/* The operand itself or its direction. */
static bool is_of_shared(const experiment *x, size_t shared, const char *name)
{
    static const char direction[] = "tangent_";
    size_t n = strncmp(name, direction, sizeof direction - 1) == 0 ? sizeof direction - 1 : 0;
    return is_shared(x, shared, name + n);
}

/* Which operand all examples share; NONE_SHARED: each has its own of all. */
enum { NONE_SHARED = MAX_NAMES };

/* sum_k <w_k, where(keep, y_k, 0)> of the batched op; inputs are the operands, the weights and keep. */
static flx_graph *selected_loss(const experiment *x, size_t shared, flx_error *err)
{
    flx_vmap_axis axes[MAX_OPERANDS];
    size_t n = flx_graph_input_count(x->g);
    flx_val in[MAX_OPERANDS];
    flx_val y[MAX_OUT];
    flx_val total = FLX_NONE;
    for (size_t i = 0; i < n; i++) {
        const char *name = flx_val_name(x->g, flx_graph_input(x->g, i));
        axes[i] = (flx_vmap_axis){name, is_shared(x, shared, name) ? FLX_NO_AXIS : 0};
    }
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

static bag batch_values(const experiment *x, size_t shared)
{
    bag b = {0};
    flx_type lanes = flx_type_make(FLX_BOOL, 1, (const flx_dim[]){EXAMPLES});
    for (size_t i = 0; i < x->in.n; i++)
        bag_put(&b, x->in.name[i],
                is_of_shared(x, shared, x->in.name[i]) ? flx_tensor_retain(x->in.value[i]) : twice(x->in.value[i]));
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

/* The first example as without poison, the second zero; what they share as without poison. */
static void compare(const experiment *x, size_t shared, const answer *clean, const answer *a, double with)
{
    size_t *counted = lost_by(x->c->op, shared != NONE_SHARED);
    for (size_t i = 0; i < x->count; i++) {
        const double *p = flx_tensor_const_data(a->d[i]);
        const double *q = flx_tensor_const_data(clean->d[i]);
        int64_t n = flx_tensor_count(a->d[i]) * experiment_parts(flx_tensor_type(a->d[i])->dtype);
        for (int64_t k = 0; k < n; k++) {
            bool counts = i == shared || k < n / 2;
            double want = counts ? q[k] : 0.0;
            bool same = p[k] == want || (counts && experiment_close(p[k], want, 1e-12, fabs(want)));
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

static void try_poisons(const experiment *x, size_t shared, const flx_graph *grad, const flx_graph *jvp)
{
    answer clean;
    bag in = batch_values(x, shared);
    if (answer_of(x, grad, jvp, &in, &clean))
        for (size_t k = 0; k < sizeof poisons / sizeof *poisons; k++) {
            answer a;
            for (size_t i = 0; i < in.n; i++)
                if (is_differentiated(x, in.name[i]) && !is_shared(x, shared, in.name[i]))
                    poison(in.value[i], poisons[k]);
            if (answer_of(x, grad, jvp, &in, &a))
                compare(x, shared, &clean, &a, poisons[k]);
            release_all(a.d, x->count);
        }
    release_all(clean.d, x->count);
    bag_free(&in);
}

static void poisoned_with(const experiment *x, size_t shared)
{
    flx_error err = {0};
    flx_graph *loss = selected_loss(x, shared, &err);
    flx_grad_options zero = {.flags = FLX_GRAD_MISSING_ZERO};
    flx_graph *grad = experiment_made(loss, "vmap", &err) ? flx_grad(loss, x->names, x->count, &zero, &err) : NULL;
    flx_graph *jvp = grad ? flx_jvp(loss, x->names, x->count, &err) : NULL;
    if (experiment_made(grad, "grad", &err) && experiment_made(jvp, "jvp", &err))
        try_poisons(x, shared, grad, jvp);
    flx_graph_release(jvp);
    flx_graph_release(grad);
    flx_graph_release(loss);
}

static void poisoned_example(const sample_case *sample)
{
    sample_case c = *sample;
    experiment x;
    if (!law_needs_derivative(c.op) || may_never_end(c.op) || !experiment_is_wide(&c))
        return;
    bool is_turn = law_is_its_turn();
    if (!is_turn && !lost_by(c.op, true)) /* of those that are lost all are tried: each must be seen */
        return;
    if (experiment_begin(&x, &c)) {
        poisoned_with(&x, NONE_SHARED);
        for (size_t i = 0; c.dtype != FLX_C128 && x.count > 1 && i < x.count; i++)
            poisoned_with(&x, i);
    }
    experiment_end(&x);
}

static void check_still_lost(const flxi_opcode *ops, const size_t *cases, size_t n)
{
    for (size_t i = 0; i < n && !getenv("FLX_TEST_CASE"); i++)
        EXPECT_MSG(cases[i] > 0, "%s: it is known now; remove it from the list", flxi_ops[ops[i]].name);
}

TEST(derivative_ignores_what_was_not_selected)
{
    sample_each(poisoned_example);
    check_still_lost(lost, lost_cases, LOST);
    check_still_lost(lost_if_shared, lost_cases_if_shared, LOST_IF_SHARED);
}
