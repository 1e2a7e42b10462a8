/* SPDX-License-Identifier: Apache-2.0 */
/* backward_ops.c: FLX_GRAD_BACKWARD_OPS. For every op that has a `backward_vjp`, on each of its samples in f64 and
   c128: the gradient and the Hessian product with backward ops equal those without them, and the backward ops really
   appear. */
#include "graph/graph.h"
#include "ops/experiment.h"
#include "test.h"

#include <fluxion/transform.h>
#include <string.h>

static bool has_backward_op(const flx_graph *g)
{
    for (uint32_t i = 0; i < g->node_count; i++)
        if (strstr(flxi_ops[flxi_node_at(g, i)->op].name, "_backward"))
            return true;
    return false;
}

typedef flx_graph *(*derivative)(const flx_graph *g, const char *const *wrt, size_t count,
                                 const flx_grad_options *options, flx_error *err);

/* Runs the derivative `d` of the loss, plain and with backward ops, and compares; returns whether there were any. */
static bool compare(const experiment *x, derivative d, const char *what)
{
    flx_error err = {0};
    flx_grad_options plain = {.flags = FLX_GRAD_MISSING_ZERO};
    flx_grad_options backward_ops = {.flags = FLX_GRAD_MISSING_ZERO | FLX_GRAD_BACKWARD_OPS};
    flx_graph *a = d(x->loss, x->names, x->count, &plain, &err);
    flx_graph *b = d(x->loss, x->names, x->count, &backward_ops, &err);
    flx_tensor *p[MAX_NAMES] = {0};
    flx_tensor *q[MAX_NAMES] = {0};
    bool ok = experiment_made(a, what, &err) && experiment_made(b, what, &err) && experiment_run(x, a, &x->in, p) &&
              experiment_run(x, b, &x->in, q);
    for (size_t i = 0; ok && i < x->count; i++)
        experiment_same(p[i], q[i], 1e-12, what);
    bool found = b && has_backward_op(b);
    release_all(p, x->count);
    release_all(q, x->count);
    flx_graph_release(a);
    flx_graph_release(b);
    return found;
}

static flxi_opcode op_under_way;
static size_t with_backward_op;

static void finish_op(void)
{
    if (op_under_way)
        EXPECT_MSG(with_backward_op > 0, "%s: no gradient of its samples holds a backward op",
                   flxi_ops[op_under_way].name);
}

static void try_sample(const sample_case *sample)
{
    sample_case c = *sample;
    experiment x;
    if (!flxi_ops[c.op].rules->backward_vjp || !experiment_is_wide(&c))
        return;
    if (c.op != op_under_way) {
        finish_op();
        op_under_way = c.op;
        with_backward_op = 0;
    }
    if (experiment_begin(&x, &c)) {
        with_backward_op += compare(&x, flx_grad, "gradient");
        compare(&x, flx_hvp, "Hessian product");
        test_count_case();
    }
    experiment_end(&x);
}

TEST(backward_ops_equals_the_decomposition_for_every_op)
{
    op_under_way = OP_NONE;
    sample_each(try_sample);
    finish_op();
}
