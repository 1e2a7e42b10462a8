/* SPDX-License-Identifier: Apache-2.0 */
/* batching.c: vmap must agree with a loop over the examples and with the gradient, on every sample of the table. For
   every subset of batched operands the batch axis is in turn at each position of each operand and of each result,
   counted from the start and from the end; batches have 2, 3 (often the extent of another axis), 1 and 0 examples. The
   result of the batched op for an example has the same bits as that of the op for this example alone. And
   differentiating a batch is batching the derivative: the gradient of the summed losses is each example's own gradient,
   summed over the batch for an operand that is shared. */
#include "experiment.h"
#include "graph/op/site.h"
#include "ops/opcode.h"
#include "test.h"

#include <fluxion/transform.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_BATCH = 3 };

/* ---- The batch axis ---- */

static flx_type with_axis(const flx_type *t, int axis, int64_t size)
{
    flx_type y = *t;
    memmove(y.dims + axis + 1, t->dims + axis, (size_t)(t->rank - axis) * sizeof(flx_dim));
    y.dims[axis] = size;
    y.rank++;
    return y;
}

/* Example b of a batch, or all examples joined: copies between the batch with its axis anywhere and one
   example. */
static void copy_example(char *batch, char *example, const flx_type *type, int axis, int64_t size, int64_t b, bool into)
{
    size_t inner = flx_dtype_size(type->dtype);
    size_t outer = 1;
    for (int i = 0; i < type->rank; i++)
        *(i < axis ? &outer : &inner) *= (size_t)type->dims[i];
    for (size_t o = 0; inner && o < outer; o++) { /* extents next to one of 0 may be huge */
        char *at = batch + (o * (size_t)size + (size_t)b) * inner;
        memcpy(into ? at : example + o * inner, into ? example + o * inner : at, inner);
    }
}

static flx_tensor *example_of(const flx_tensor *batch, const flx_type *type, int axis, int64_t b)
{
    flx_tensor *y = flx_tensor_new(batch->ctx, type, NULL, NULL);
    CHECK(y != NULL);
    copy_example((char *)(uintptr_t)flx_tensor_const_data(batch), flx_tensor_data(y), type, axis,
                 flx_tensor_type(batch)->dims[axis], b, false);
    return y;
}

static flx_tensor *batch_of(flx_context *ctx, flx_tensor *const *examples, const flx_type *type, int axis, int64_t size)
{
    flx_type wide = with_axis(type, axis, size);
    flx_tensor *y = flx_tensor_new(ctx, &wide, NULL, NULL);
    CHECK(y != NULL);
    for (int64_t b = 0; b < size; b++)
        copy_example(flx_tensor_data(y), (char *)(uintptr_t)flx_tensor_const_data(examples[b]), type, axis, size, b,
                     true);
    return y;
}

/* ---- A batch against a loop ---- */

typedef struct {
    experiment x;
    bag example[MAX_BATCH]; /* operand values of each; a shared operand has that of example 0 */
    flx_type out[MAX_OUT];  /* of one example, symbols bound */
    flx_type in[MAX_OPERANDS];
    size_t operands, results;
    int positions; /* where a batch axis may be: more than any rank */
} loop;

/* The position of the axis in a tensor of this rank at turn `turn`. */
static int64_t position_of(int rank, int turn)
{
    return turn % (rank + 1);
}

/* Odd turns count from the end. */
static int64_t spoken(int64_t position, int rank, int turn)
{
    return turn % 2 ? position - (rank + 1) : position;
}

/* Ops that compute a batch in another order than an example. */
static const struct {
    flxi_opcode op;
    double tolerance;
    const char *reason;
} reordered[] = {
    /* At most 9 numbers of at most 2 in a window: 9 additions, each off by 2^-53 of at most 18. */
    {OP_reduce_window, 9 * 18 * 0x1p-53, "an init for each example is combined with its windows after they are folded"},
};

const char *batching_exception(flxi_opcode op)
{
    return op == reordered[0].op ? reordered[0].reason : NULL;
}

static bool same_values(flxi_opcode op, const flx_tensor *a, const flx_tensor *b)
{
    int32_t dtype = flx_tensor_type(a)->dtype;
    if (flx_tensor_nbytes(a) != flx_tensor_nbytes(b))
        return false;
    if (memcmp(flx_tensor_const_data(a), flx_tensor_const_data(b), flx_tensor_nbytes(a)) == 0)
        return true;
    if (op != reordered[0].op || (dtype != FLX_F64 && dtype != FLX_C128))
        return false;
    const double *p = flx_tensor_const_data(a);
    const double *q = flx_tensor_const_data(b);
    for (int64_t i = 0; i < flx_tensor_count(a) * experiment_parts(dtype); i++)
        if (!(p[i] == q[i] || fabs(p[i] - q[i]) <= reordered[0].tolerance))
            return false;
    return true;
}

static void compare_example(const loop *l, unsigned subset, int turn, int64_t b, flx_tensor *const *all)
{
    flx_tensor *one[MAX_OUT] = {0};
    bag in = {0};
    for (size_t i = 0; i < l->operands; i++)
        bag_put(&in, l->example[0].name[i], flx_tensor_retain(l->example[subset >> i & 1 ? b : 0].value[i]));
    if (experiment_run(&l->x, l->x.g, &in, one))
        for (size_t k = 0; k < l->results; k++) {
            int axis = (int)position_of(l->out[k].rank, turn + (int)k + 1);
            flx_tensor *part = example_of(all[k], flx_tensor_type(one[k]), axis, b);
            EXPECT_MSG(same_values(l->x.c->op, part, one[k]),
                       "operands %u, turn %d: output %zu of example %lld differs: %.17g, alone %.17g", subset, turn, k,
                       (long long)b, flx_tensor_get(part, 0), flx_tensor_get(one[k], 0));
            flx_tensor_release(part);
        }
    release_all(one, l->results);
    bag_free(&in);
}

/* One subset of batched operands, the batch axis of each value at one of its positions. */
static void check_turn(const loop *l, unsigned subset, int turn, int64_t size)
{
    flx_vmap_axis axes[MAX_OPERANDS];
    int64_t out_axes[MAX_OUT];
    flx_tensor *all[MAX_OUT] = {0};
    flx_error err = {0};
    bag in = {0};
    size_t n = 0;
    for (size_t i = 0; i < l->operands; i++) {
        const char *name = l->example[0].name[i];
        int rank = l->in[i].rank;
        int64_t position = position_of(rank, turn + (int)i);
        flx_tensor *examples[MAX_BATCH];
        for (int64_t b = 0; b < size; b++)
            examples[b] = l->example[b].value[i];
        if (subset >> i & 1) {
            axes[n++] = (flx_vmap_axis){name, spoken(position, rank, turn)};
            bag_put(&in, name, batch_of(l->x.ctx, examples, &l->in[i], (int)position, size));
        } else {
            bag_put(&in, name, flx_tensor_retain(l->example[0].value[i]));
        }
    }
    for (size_t k = 0; k < l->results; k++)
        out_axes[k] = spoken(position_of(l->out[k].rank, turn + (int)k + 1), l->out[k].rank, turn);
    flx_graph *v = flx_vmap(l->x.g, axes, n, out_axes, l->results, size, &err);
    if (experiment_made(v, "vmap", &err) && experiment_run(&l->x, v, &in, all)) {
        for (size_t k = 0; k < l->results; k++) {
            flx_type t = with_axis(&l->out[k], (int)position_of(l->out[k].rank, turn + (int)k + 1), size);
            EXPECT_MSG(flxi_type_equal(&t, flx_tensor_type(all[k])), "operands %u, turn %d: the type of output %zu",
                       subset, turn, k);
        }
        for (int64_t b = 0; b < size; b++)
            compare_example(l, subset, turn, b, all);
    }
    release_all(all, l->results);
    bag_free(&in);
    flx_graph_release(v);
}

bool batching_has_streams(flxi_opcode op)
{
    return op == OP_rng_uniform || op == OP_rng_normal || op == OP_sample;
}

static bool is_tried(const sample_case *c)
{
    return !c->sample->error && !batching_has_streams(c->op) &&
           (c->dtype == FLX_DTYPE_NONE || c->dtype == FLX_F64 || c->dtype == FLX_C128 || c->dtype == FLX_I32 ||
            c->dtype == FLX_BOOL);
}

static bool begin_loop(loop *l, const sample_case *c)
{
    flx_error err = {0};
    uint64_t state = sample_seed(c);
    *l = (loop){.positions = 1};
    if (!experiment_parse(&l->x, c))
        return false;
    flx_graph *bound = flx_specialise(l->x.g, l->x.dims, l->x.num_dims, &err);
    if (!EXPECT_MSG(bound != NULL, "%s", err.message))
        return false;
    l->operands = flx_graph_input_count(bound);
    l->results = flx_graph_output_count(bound);
    for (size_t i = 0; i < l->operands; i++) {
        flx_val v = flx_graph_input(bound, i);
        l->in[i] = *flx_val_type(bound, v);
        l->positions = l->in[i].rank + 1 > l->positions ? l->in[i].rank + 1 : l->positions;
        for (int b = 0; b < MAX_BATCH; b++)
            bag_put(&l->example[b], flx_val_name(bound, v),
                    sample_value(l->x.ctx, c, i, &l->in[i], FILL_RANDOM, &state, &err));
    }
    for (size_t k = 0; k < l->results; k++) {
        l->out[k] = *flx_val_type(bound, flx_graph_output(bound, k));
        l->positions = l->out[k].rank + 1 > l->positions ? l->out[k].rank + 1 : l->positions;
    }
    flx_graph_release(bound);
    return l->operands > 0;
}

/* With more operands there are many subsets: those of one operand and of all but one are tried, each with one turn. */
enum { FEW_OPERANDS = 6 };

static bool is_typical(unsigned subset, size_t operands)
{
    unsigned all = (1u << operands) - 1, left = all & ~subset;
    return operands <= FEW_OPERANDS || !(subset & (subset - 1)) || !(left & (left - 1));
}

size_t law_of_batching(const sample_case *c, bool dry)
{
    static const int64_t small[] = {1, 0};
    size_t tried = 0;
    loop l;
    if (!is_tried(c))
        return 0;
    bool applies = begin_loop(&l, c);
    for (unsigned subset = 1; applies && subset < 1u << l.operands; subset++) {
        bool has_all = l.operands <= FEW_OPERANDS;
        if (!is_typical(subset, l.operands))
            continue;
        for (int turn = 0; turn < 2 * l.positions; turn++) {
            if (!has_all && turn != (int)subset % (2 * l.positions))
                continue;
            tried++;
            if (!dry)
                check_turn(&l, subset, turn, turn < l.positions ? 2 : 3);
        }
        for (int turn = 0; turn < 2; turn++, tried++)
            if (!dry)
                check_turn(&l, subset, turn, small[turn]);
    }
    for (int b = 0; b < MAX_BATCH; b++)
        bag_free(&l.example[b]);
    experiment_end(&l.x);
    return tried;
}

TEST(derivative_batching_equals_a_loop)
{
    try_law(law_of_batching);
}

/* ---- The gradient of a batch ---- */

typedef struct {
    const experiment *x;
    flx_vmap_axis axes[MAX_LEAVES];
    size_t n;
    bag in; /* batched where axes says so */
    bool batched[MAX_NAMES];
    int64_t out_axes[MAX_NAMES]; /* of the gradients */
} batch_plan;

enum { BATCH = 2 };

static int wrt_index(const experiment *x, const char *name)
{
    for (size_t i = 0; i < x->count; i++)
        if (strcmp(x->names[i], name) == 0)
            return (int)i;
    return -1;
}

/* The operands of the subset and all weights have a batch axis; its position also depends on the subset. */
static void plan_batch(batch_plan *p, const experiment *x, unsigned subset)
{
    flx_error err = {0};
    uint64_t state = sample_seed(x->c);
    size_t operands = flx_graph_input_count(x->g);
    *p = (batch_plan){.x = x};
    for (size_t i = 0; i < flx_graph_input_count(x->loss); i++) {
        const char *name = flx_val_name(x->loss, flx_graph_input(x->loss, i));
        flx_tensor *value = bag_get(&x->in, name);
        const flx_type *t = flx_tensor_type(value);
        int64_t position = position_of(t->rank, (int)(subset + i));
        int k = wrt_index(x, name);
        if (k >= 0)
            p->out_axes[k] = position;
        if (i < operands && !(subset >> i & 1)) {
            bag_put(&p->in, name, flx_tensor_retain(value));
            continue;
        }
        flx_tensor *other = i < operands ? sample_value(x->ctx, x->c, i, t, FILL_RANDOM, &state, &err)
                                         : experiment_random(x->ctx, t, &state);
        bag_put(&p->in, name, batch_of(x->ctx, (flx_tensor *[]){value, other}, t, (int)position, BATCH));
        p->axes[p->n++] = (flx_vmap_axis){p->in.name[p->in.n - 1], position};
        if (k >= 0)
            p->batched[k] = true;
        flx_tensor_release(other);
    }
}

/* Σ over the batch of output 0. */
static flx_graph *summed(const experiment *x, const flx_graph *batch)
{
    flx_graph *g = flx_graph_new(x->ctx, "summed");
    flx_val in[MAX_LEAVES];
    flx_val y[1];
    for (size_t i = 0; i < flx_graph_input_count(batch); i++) {
        flx_val v = flx_graph_input(batch, i);
        in[i] = flx_input(g, flx_val_name(batch, v), flx_val_type(batch, v));
    }
    flxi_inline(g, batch, in, y);
    flx_output(g, flx_reduce_sum(g, y[0], FLX_ALL, 0), "sum");
    return g;
}

/* The gradients of the examples of a shared operand, added. */
static flx_tensor *added(const flx_tensor *batch, const flx_type *type, int axis)
{
    flx_tensor *sum = example_of(batch, type, axis, 0);
    flx_tensor *other = example_of(batch, type, axis, 1);
    double *p = flx_tensor_data(sum);
    const double *q = flx_tensor_const_data(other);
    for (int64_t i = 0; i < flx_tensor_count(sum) * experiment_parts(type->dtype); i++)
        p[i] += q[i];
    flx_tensor_release(other);
    return sum;
}

static void check_commuting(const batch_plan *p, const flx_graph *grad)
{
    const experiment *x = p->x;
    flx_error err = {0};
    flx_tensor *each[MAX_NAMES] = {0};
    flx_tensor *whole[MAX_NAMES] = {0};
    flx_graph *batch_of_grad = flx_vmap(grad, p->axes, p->n, p->out_axes, x->count, BATCH, &err);
    flx_graph *batch = flx_vmap(x->loss, p->axes, p->n, NULL, 0, BATCH, &err);
    flx_graph *sum = batch ? summed(x, batch) : NULL;
    flx_graph *grad_of_batch = sum ? experiment_gradient(x, sum, &err) : NULL;
    if (experiment_made(batch_of_grad, "vmap of grad", &err) && experiment_made(grad_of_batch, "grad of vmap", &err) &&
        experiment_run(x, batch_of_grad, &p->in, each) && experiment_run(x, grad_of_batch, &p->in, whole))
        for (size_t i = 0; i < x->count; i++) {
            flx_tensor *expected = p->batched[i] ? flx_tensor_retain(each[i])
                                                 : added(each[i], flx_tensor_type(whole[i]), (int)p->out_axes[i]);
            experiment_same(expected, whole[i], 1e-12, "the batched gradient and the gradient of the batch");
            flx_tensor_release(expected);
        }
    release_all(each, x->count);
    release_all(whole, x->count);
    flx_graph_release(batch_of_grad);
    flx_graph_release(grad_of_batch);
    flx_graph_release(sum);
    flx_graph_release(batch);
}

size_t law_of_commuting(const sample_case *sample, bool dry)
{
    sample_case c = *sample;
    experiment x;
    flx_error err = {0};
    size_t tried = 0;
    if (!law_needs_derivative(c.op) || !experiment_is_wide(&c))
        return 0;
    bool applies = experiment_begin(&x, &c);
    flx_graph *grad = applies && !dry ? experiment_gradient(&x, x.loss, &err) : NULL;
    bool ok = applies && (dry || experiment_made(grad, "grad", &err));
    size_t operands = ok ? flx_graph_input_count(x.g) : 0;
    for (unsigned subset = 0; ok && subset < 1u << operands; subset++) {
        batch_plan p;
        if (!is_typical(subset, operands))
            continue;
        tried++;
        if (dry)
            continue;
        plan_batch(&p, &x, subset);
        check_commuting(&p, grad);
        bag_free(&p.in);
    }
    flx_graph_release(grad);
    experiment_end(&x);
    return tried;
}

TEST(derivative_of_a_batch_is_a_batch_of_derivatives)
{
    try_law(law_of_commuting);
}
