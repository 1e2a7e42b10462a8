/* SPDX-License-Identifier: Apache-2.0 */
/* recurrent.c: layers with a state, each a scan over the sequence. What does not depend on the state is computed for
   all steps at once, before the scan: the product of the whole sequence with w. */
#include "nn/layer.h"

#include <stdbool.h>

enum { MOST_CARRIES = 2 };

typedef struct {
    const char *name, *function;
    int64_t gates;  /* columns of w and u, in units */
    int carries;    /* the first is the layer's result */
    bool has_inner; /* a second bias, inside the product with the state */
    /* The next carries from the current ones and the gates' inputs x w + b and h u (+ c). */
    void (*step)(flx_graph *g, const flx_val *carry, flx_val from_x, flx_val from_h, int64_t units, flx_val *next);
} cell;

static flx_val gate(flx_graph *g, flx_val v, int64_t k, int64_t units)
{
    return flx_narrow(g, v, -1, k * units, units);
}

static void step_rnn(flx_graph *g, const flx_val *carry, flx_val from_x, flx_val from_h, int64_t units, flx_val *next)
{
    (void)carry;
    (void)units;
    next[0] = flx_tanh(g, flx_add(g, from_x, from_h));
}

static flx_val opening(flx_graph *g, flx_val from_x, flx_val from_h, int64_t k, int64_t units)
{
    return flx_sigmoid(g, flx_add(g, gate(g, from_x, k, units), gate(g, from_h, k, units)));
}

static void step_gru(flx_graph *g, const flx_val *carry, flx_val from_x, flx_val from_h, int64_t units, flx_val *next)
{
    flx_val r = opening(g, from_x, from_h, 0, units), z = opening(g, from_x, from_h, 1, units);
    flx_val n = flx_tanh(g, flx_add(g, gate(g, from_x, 2, units), flx_mul(g, r, gate(g, from_h, 2, units))));
    next[0] = flx_add(g, n, flx_mul(g, z, flx_sub(g, carry[0], n))); /* (1 - z) n + z h */
}

static void step_lstm(flx_graph *g, const flx_val *carry, flx_val from_x, flx_val from_h, int64_t units, flx_val *next)
{
    flx_val i = opening(g, from_x, from_h, 0, units), f = opening(g, from_x, from_h, 1, units);
    flx_val candidate = flx_tanh(g, flx_add(g, gate(g, from_x, 2, units), gate(g, from_h, 2, units)));
    flx_val o = opening(g, from_x, from_h, 3, units);
    next[1] = flx_add(g, flx_mul(g, f, carry[1]), flx_mul(g, i, candidate));
    next[0] = flx_mul(g, o, flx_tanh(g, next[1]));
}

static const cell rnn = {"rnn", "flx_nn_rnn", 1, 1, false, step_rnn};
static const cell gru = {"gru", "flx_nn_gru", 3, 1, true, step_gru};
static const cell lstm = {"lstm", "flx_nn_lstm", 4, 2, false, step_lstm};

/* Inputs: carries, u, [c], a row of x w + b. Outputs: the next carries, then the first of them as the step's result. */
static flx_graph *body_of(flx_context *ctx, const cell *c, const flx_type *state, const flx_type *row, int64_t units)
{
    flx_graph *g = flx_graph_new(ctx, c->name);
    const flx_dim u_dims[] = {units, c->gates * units};
    flx_type u_type = flx_type_make((flx_dtype)state->dtype, 2, u_dims);
    flx_type c_type = flx_type_make((flx_dtype)state->dtype, 1, u_dims + 1);
    flx_val carry[MOST_CARRIES], next[MOST_CARRIES];
    static const char *const names[] = {"h", "c"};
    for (int k = 0; k < c->carries; k++)
        carry[k] = flx_input(g, names[k], state);
    flx_val u = flx_input(g, "u", &u_type);
    flx_val inner = c->has_inner ? flx_input(g, "inner", &c_type) : FLX_NONE;
    flx_val from_x = flx_input(g, "x", row), from_h = flx_matmul(g, carry[0], u);
    c->step(g, carry, from_x, c->has_inner ? flx_add(g, from_h, inner) : from_h, units, next);
    for (int k = 0; k < c->carries; k++)
        flx_output(g, next[k], NULL);
    flx_output(g, next[0], NULL);
    return g;
}

static flx_val run_cell(flx_graph *g, const cell *c, const char *name, flx_val x, int64_t units, flx_val *last)
{
    flx_dtype dtype = flxi_nn_dtype(g, x);
    if (last)
        *last = FLX_NONE;
    if (!flxi_nn_check_layer(g, c->function, name, units) ||
        !flxi_nn_require(g, flxi_nn_type(g, x)->rank == 3, c->function, "x must be [N, S, width]") ||
        !flxi_nn_require(g, units < INT64_C(1) << 40, c->function, "%lld units are too many", (long long)units))
        return FLX_NONE;
    const flx_dim columns = c->gates * units, u_dims[] = {units, columns};
    flx_val rows = flxi_nn_swap01(g, flx_nn_linear(g, name, x, columns, NULL)); /* [S, N, columns] */
    flx_val operands[MOST_CARRIES + 3], results[MOST_CARRIES + 1] = {FLX_NONE, FLX_NONE, FLX_NONE};
    const flx_type *t = flxi_nn_type(g, rows);
    const flx_dim batch = t->rank == 3 ? t->dims[1] : 1, state_dims[] = {batch, units}, row_dims[] = {batch, columns};
    flx_type state = flx_type_make(dtype, 2, state_dims), row = flx_type_make(dtype, 2, row_dims);
    size_t n = 0;
    while (n < (size_t)c->carries)
        operands[n++] = flx_expand(g, flx_scalar(g, dtype, 0), (flx_ints){state_dims, 2});
    operands[n++] = flxi_nn_param(g, name, "u", dtype, u_dims, 2);
    if (c->has_inner)
        operands[n++] = flxi_nn_param(g, name, "c", dtype, &columns, 1);
    operands[n++] = rows;
    flx_scan_attrs attrs = FLX_SCAN_ATTRS;
    flx_graph *body = body_of(flx_graph_context(g), c, &state, &row, units);
    attrs.body = body;
    attrs.num_carry = c->carries;
    attrs.num_bcast = 1 + c->has_inner;
    flx_scan_with(g, operands, n, results, (size_t)c->carries + 1, &attrs);
    flx_graph_release(body); /* the graph has its own hold on it */
    if (last)
        *last = results[0];
    return flxi_nn_swap01(g, results[c->carries]);
}

flx_val flx_nn_rnn(flx_graph *g, const char *name, flx_val x, int64_t units, flx_val *last)
{
    return run_cell(g, &rnn, name, x, units, last);
}

flx_val flx_nn_gru(flx_graph *g, const char *name, flx_val x, int64_t units, flx_val *last)
{
    return run_cell(g, &gru, name, x, units, last);
}

flx_val flx_nn_lstm(flx_graph *g, const char *name, flx_val x, int64_t units, flx_val *last)
{
    return run_cell(g, &lstm, name, x, units, last);
}
