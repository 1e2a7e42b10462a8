/* SPDX-License-Identifier: Apache-2.0 */
/* recurrent.c: layers with a state, each a scan over the sequence. What does not depend on the state is computed for
   all steps at once, before the scan: the product of the whole sequence with w. */
#include "nn/layer.h"

#include <stdbool.h>
#include <stdio.h>

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

/* ---- A network of cells ---- */

typedef struct {
    flx_graph *g;
    const cell *c;
    const char *name;
    flx_nn_recurrent_options o;
    int64_t units, layers, directions;
    flx_dtype dtype;
    flx_dim batch, steps;
    flx_val active;              /* bool [S, N, 1]: the step is not padding; or none */
    flx_val given[MOST_CARRIES]; /* initial states of all layers, or none */
} network;

/* Inputs: carries, u, [c], a row of x w + b, [whether it is not padding]. Outputs: the next carries, then the first of
   them as the step's result. */
static flx_graph *body_of(const network *n, const flx_type *state, const flx_type *row)
{
    const cell *c = n->c;
    flx_graph *g = flx_graph_new(flx_graph_context(n->g), c->name);
    const flx_dim u_dims[] = {n->units, c->gates * n->units}, flag_dims[] = {n->batch, 1};
    flx_type u_type = flx_type_make(n->dtype, 2, u_dims), c_type = flx_type_make(n->dtype, 1, u_dims + 1);
    flx_type flag_type = flx_type_make(FLX_BOOL, 2, flag_dims);
    flx_val carry[MOST_CARRIES], next[MOST_CARRIES];
    static const char *const names[] = {"h", "c"};
    for (int k = 0; k < c->carries; k++)
        carry[k] = flx_input(g, names[k], state);
    flx_val u = flx_input(g, "u", &u_type);
    flx_val inner = c->has_inner ? flx_input(g, "inner", &c_type) : FLX_NONE;
    flx_val from_x = flx_input(g, "x", row), from_h = flx_matmul(g, carry[0], u);
    c->step(g, carry, from_x, c->has_inner ? flx_add(g, from_h, inner) : from_h, n->units, next);
    flx_val result = next[0];
    if (n->active.id) {
        flx_val is_active = flx_input(g, "is_active", &flag_type);
        result = flx_where(g, is_active, next[0], flx_scalar(g, n->dtype, 0));
        for (int k = 0; k < c->carries; k++)
            next[k] = flx_where(g, is_active, next[k], carry[k]);
    }
    for (int k = 0; k < c->carries; k++)
        flx_output(g, next[k], NULL);
    flx_output(g, result, NULL);
    return g;
}

/* Initial state k of scan number `at`: a row of what was given, or zeros. */
static flx_val initial(const network *n, int k, int64_t at, flx_ints shape)
{
    if (!n->given[k].id)
        return flx_expand(n->g, flx_scalar(n->g, n->dtype, 0), shape);
    return flx_squeeze(n->g, flx_narrow(n->g, n->given[k], 0, at, 1), FLX_INTS(0));
}

/* One layer in one direction, scan number `at`; its final carries go to `last`. */
static flx_val scan(const network *n, const char *name, flx_val x, int64_t at, bool is_reverse, flx_val *last)
{
    flx_graph *g = n->g;
    const cell *c = n->c;
    const flx_dim columns = c->gates * n->units, width = flxi_nn_width(g, x), w_dims[] = {width, columns};
    const flx_dim u_dims[] = {n->units, columns}, state_dims[] = {n->batch, n->units};
    const flx_dim row_dims[] = {n->batch, columns};
    flx_type state = flx_type_make(n->dtype, 2, state_dims), row = flx_type_make(n->dtype, 2, row_dims);
    flx_init init = flxi_nn_uniform((double)n->units);
    flx_val w = flxi_nn_param(g, name, "w", n->dtype, w_dims, 2, init);
    flx_val rows = flx_add(g, flx_matmul(g, x, w), flxi_nn_param(g, name, "b", n->dtype, &columns, 1, init));
    flx_val operands[MOST_CARRIES + 4], results[MOST_CARRIES + 1] = {FLX_NONE, FLX_NONE, FLX_NONE};
    size_t count = 0;
    for (int k = 0; k < c->carries; k++)
        operands[count++] = initial(n, k, at, (flx_ints){state_dims, 2});
    operands[count++] = flxi_nn_param(g, name, "u", n->dtype, u_dims, 2, init);
    if (c->has_inner)
        operands[count++] = flxi_nn_param(g, name, "c", n->dtype, &columns, 1, init);
    operands[count++] = flxi_nn_swap01(g, rows); /* [S, N, columns] */
    if (n->active.id)
        operands[count++] = n->active;
    flx_scan_attrs attrs = FLX_SCAN_ATTRS;
    flx_graph *body = body_of(n, &state, &row);
    attrs.body = body;
    attrs.num_carry = c->carries;
    attrs.num_bcast = 1 + c->has_inner;
    attrs.reverse = is_reverse;
    flx_scan_with(g, operands, count, results, (size_t)c->carries + 1, &attrs);
    flx_graph_release(body); /* the graph has its own hold on it */
    for (int k = 0; k < c->carries; k++)
        last[k] = results[k];
    return flxi_nn_swap01(g, results[c->carries]);
}

/* The name of a layer in a direction: name, name.0, name.reverse, name.0.reverse. */
static const char *name_of(const network *n, int64_t layer, bool is_second, char *buffer)
{
    char number[32] = "";
    if (n->layers > 1)
        snprintf(number, sizeof number, ".%lld", (long long)layer);
    snprintf(buffer, FLXI_NN_NAME, "%s%s%s", n->name, number, is_second ? ".reverse" : "");
    return buffer;
}

/* ---- What is given ---- */

static bool check_state(const network *n, const char *what, flx_val state, bool is_allowed)
{
    flx_graph *g = n->g;
    flxi_nn_type_text text;
    if (!state.id)
        return true;
    const flx_type *t = flxi_nn_type(g, state);
    bool is_fit = t->rank == 3 && t->dims[0] == n->layers * n->directions && t->dims[1] == n->batch &&
                  t->dims[2] == n->units && t->dtype == (int32_t)n->dtype;
    return flxi_nn_require(g, is_allowed, n->c->function, "it has no state '%s'", what) &&
           flxi_nn_require_shape(
               g, is_fit, "[layers * directions, N, units], of the dtype of x", n->c->function,
               "the initial state '%s', %s, does not fit %lld layers of %lld units in %lld directions", what,
               flxi_nn_text(g, state, &text), (long long)n->layers, (long long)n->units, (long long)n->directions);
}

static bool check_lengths(const network *n, flx_val lengths)
{
    flx_graph *g = n->g;
    flxi_nn_type_text text;
    if (!lengths.id)
        return true;
    const flx_type *t = flxi_nn_type(g, lengths);
    return flxi_nn_require(g, flxi_nn_is_integer(g, lengths), n->c->function, "lengths must be integers, not %s",
                           flx_dtype_name(t->dtype)) &&
           flxi_nn_require_shape(g, t->rank == 1 && t->dims[0] == n->batch, "one length for each sequence",
                                 n->c->function, "the lengths are %s", flxi_nn_text(g, lengths, &text));
}

static bool read(network *n, flx_val x, const flx_nn_recurrent_options *options)
{
    flx_graph *g = n->g;
    const char *function = n->c->function;
    flx_nn_recurrent_options *o = &n->o;
    FLXI_NN_READ(g, flx_nn_recurrent_options, o, options);
    if (!flxi_nn_check_layer(g, function, n->name, n->units) ||
        !flxi_nn_check_rank(g, function, x, 3, 3, "[N, S, width]") ||
        !flxi_nn_require(g, n->units < INT64_C(1) << 40, function, "%lld units are too many", (long long)n->units) ||
        !flxi_nn_require(g, o->layers >= 0 && o->layers < 1 << 20, function,
                         "the number of layers must be positive and at most 2^20, got %lld", (long long)o->layers) ||
        !flxi_nn_require(g, !(o->is_bidirectional && o->is_reverse) && o->reserved == 0, function,
                         "both directions include the reverse one, and reserved must be 0"))
        return false;
    const flx_type *t = flxi_nn_type(g, x);
    n->dtype = (flx_dtype)t->dtype;
    n->batch = t->dims[0];
    n->steps = t->rank == 3 ? t->dims[1] : 1;
    n->layers = o->layers ? o->layers : 1;
    n->directions = o->is_bidirectional ? 2 : 1;
    n->given[0] = o->hidden;
    n->given[1] = o->cell;
    return check_state(n, "hidden", o->hidden, true) && check_state(n, "cell", o->cell, n->c->carries > 1) &&
           check_lengths(n, o->lengths);
}

/* bool [S, N, 1] */
static flx_val active_steps(const network *n)
{
    flx_graph *g = n->g;
    flx_type type = flx_type_make(FLX_I64, 1, &n->steps);
    flx_val step = flx_unsqueeze(g, flx_iota(g, &type, FLX_DEFAULT), FLX_INTS(1, 2));
    return flx_lt(g, step, flx_unsqueeze(g, flx_cast(g, n->o.lengths, FLX_I64), FLX_INTS(1)));
}

/* ---- Layers and directions ---- */

/* The states of all scans so far and one more, [count, N, units]. */
static void collect(const network *n, flx_val *all, flx_val one)
{
    const flx_val parts[] = {*all, flx_unsqueeze(n->g, one, FLX_INTS(0))};
    *all = all->id ? flx_concat(n->g, parts, 2, 0) : parts[1];
}

static flx_val run(flx_graph *g, const cell *c, const char *name, flx_val x, int64_t units,
                   const flx_nn_recurrent_options *options, flx_nn_recurrent_state *last)
{
    network n = {.g = g, .c = c, .name = name, .units = units};
    flx_val final[MOST_CARRIES] = {FLX_NONE, FLX_NONE};
    if (last)
        *last = (flx_nn_recurrent_state){FLX_NONE, FLX_NONE};
    if (!read(&n, x, options))
        return FLX_NONE;
    if (n.o.lengths.id)
        n.active = active_steps(&n);
    for (int64_t layer = 0; layer < n.layers; layer++) {
        flx_val results[2] = {FLX_NONE, FLX_NONE};
        for (int64_t d = 0; d < n.directions; d++) {
            char full[FLXI_NN_NAME];
            flx_val carries[MOST_CARRIES];
            bool is_reverse = d == 1 || n.o.is_reverse;
            results[d] =
                scan(&n, name_of(&n, layer, is_reverse, full), x, layer * n.directions + d, is_reverse, carries);
            for (int k = 0; last && k < c->carries; k++)
                collect(&n, &final[k], carries[k]);
        }
        x = n.directions > 1 ? flx_concat(g, results, 2, -1) : results[0];
    }
    if (last)
        *last = (flx_nn_recurrent_state){final[0], final[1]};
    return x;
}

flx_val flx_nn_rnn(flx_graph *g, const char *name, flx_val x, int64_t units, const flx_nn_recurrent_options *options,
                   flx_nn_recurrent_state *last)
{
    return run(g, &rnn, name, x, units, options, last);
}

flx_val flx_nn_gru(flx_graph *g, const char *name, flx_val x, int64_t units, const flx_nn_recurrent_options *options,
                   flx_nn_recurrent_state *last)
{
    return run(g, &gru, name, x, units, options, last);
}

flx_val flx_nn_lstm(flx_graph *g, const char *name, flx_val x, int64_t units, const flx_nn_recurrent_options *options,
                    flx_nn_recurrent_state *last)
{
    return run(g, &lstm, name, x, units, options, last);
}
