/* SPDX-License-Identifier: Apache-2.0 */
/* quantise.c: products with weights in integers, and the same rounding for training.

   x is about (qx - z) sx with one scale and zero point, and w about qw sw with a scale for each column j. Then x w is
   (sum of qx qw - z times the column sums of qw) sx sw, where everything in parentheses is an exact sum in i32: one
   widening_dot, one constant to subtract, one to multiply by. */
#include "passes/pass.h"
#include "passes/quantise/quantised_products.h"

#include "base/options.h"

#include <fluxion/lower.h>
#include <fluxion/ops.h>
#include <math.h>
#include <stdio.h>

typedef struct {
    flxi_copy c;
    const flx_quantise_options *o;
    flxi_quantised_products products;
    bool *is_live;                  /* by node: something that stays reads it */
    uint32_t *rounded;              /* by value of the old graph: what replaces it in products, or 0 */
    FLXI_VEC(flx_val) states, next; /* of a training */
    int bits;
} quantising;

/* ---- Helpers ---- */

static flx_val val(const quantising *q, uint32_t id)
{
    return (flx_val){id, q->c.to->serial};
}

static flx_val held(const quantising *q, uint32_t value)
{
    return val(q, q->c.remap.id[value]);
}

static flx_code built(const quantising *q)
{
    return flx_graph_error(q->c.to, q->c.err);
}

/* The tensor as a constant of the new graph, which holds it. */
static flx_val add_constant(quantising *q, flx_tensor *t)
{
    flx_val v = flx_const(q->c.to, .type = flx_tensor_type(t), .data = t);
    flx_tensor_release(t);
    return v;
}

/* ---- Weights ---- */

typedef struct {
    const float *w; /* of [rows, columns], as stored */
    int64_t summed, columns;
    int64_t step, stride; /* between elements that are summed, and between columns */
    flx_tensor *q, *scale, *correction;
} weights;

static flx_code make_tensor(quantising *q, flx_dtype dtype, int rank, const flx_dim *dims, flx_tensor **out)
{
    flx_type t = flx_type_make(dtype, rank, dims);
    *out = flx_tensor_new(q->c.from->ctx, &t, NULL, q->c.err);
    return *out ? FLX_OK : q->c.err->code ? (flx_code)q->c.err->code : FLX_E_OOM;
}

/* Column j in integers from -most to most. */
static flx_code round_column(const weights *m, int64_t j, double most, double x_scale, double x_zero, flx_error *err)
{
    int8_t *q = flx_tensor_data(m->q);
    double largest = 0, sum = 0;
    for (int64_t i = 0; i < m->summed; i++) {
        double w = fabs((double)m->w[i * m->step + j * m->stride]);
        largest = w <= largest ? largest : w; /* NaN too */
    }
    if (!isfinite(largest))
        return flxi_fail(err, FLX_E_NUMERIC, "a weight is not finite: %g", largest);
    double scale = largest > 0 ? largest / most : 1;
    for (int64_t i = 0; i < m->summed; i++) {
        int64_t at = i * m->step + j * m->stride;
        q[at] = (int8_t)fmax(-most, fmin(most, nearbyint((double)m->w[at] / scale)));
        sum += q[at];
    }
    ((float *)flx_tensor_data(m->scale))[j] = (float)(scale * x_scale);
    ((int32_t *)flx_tensor_data(m->correction))[j] = (int32_t)(x_zero * sum);
    return FLX_OK;
}

static flx_code round_weights(quantising *q, const flxi_quantised_product *p, const flx_tensor *given, double x_scale,
                              double x_zero, weights *m)
{
    const flx_type *t = flx_tensor_type(given);
    int64_t axis = p->is_transposed ? 1 - p->w_axis : p->w_axis; /* of the weights as they are stored */
    *m = (weights){.w = flx_tensor_const_data(given), .summed = t->dims[axis], .columns = t->dims[1 - axis]};
    m->step = axis == 0 ? t->dims[1] : 1;
    m->stride = axis == 0 ? 1 : t->dims[1];
    flx_code code = make_tensor(q, FLX_I8, 2, t->dims, &m->q);
    if (code == FLX_OK)
        code = make_tensor(q, FLX_F32, 1, &m->columns, &m->scale);
    if (code == FLX_OK)
        code = make_tensor(q, FLX_I32, 1, &m->columns, &m->correction);
    for (int64_t j = 0; code == FLX_OK && j < m->columns; j++)
        code = round_column(m, j, (1 << (q->bits - 1)) - 1, x_scale, x_zero, q->c.err);
    if (code == FLX_OK)
        return FLX_OK;
    flx_tensor_release(m->q);
    flx_tensor_release(m->scale);
    flx_tensor_release(m->correction);
    return code;
}

static flx_code find_weights(quantising *q, const flxi_quantised_product *p, const flx_tensor **out)
{
    const flx_graph *g = q->c.from;
    *out = flxi_given_value(g, p->weights, q->o);
    const char *name = flxi_value_at(g, p->weights)->name;
    if (!*out)
        return flxi_fail_hint(q->c.err, FLX_E_MISSING_INPUT, "give it in flx_quantise_options.params",
                              "the weights '%.60s' have no value", name ? name : "");
    if (!flxi_type_equal(flx_tensor_type(*out), flxi_type_at(g, p->weights)))
        return flxi_fail(q->c.err, FLX_E_SHAPE, "the value of the weights '%.60s' has another type than the parameter",
                         name ? name : "");
    return FLX_OK;
}

/* ---- Products of integers ---- */

static flx_code add_integer_product(quantising *q, const flxi_node *n, const flxi_quantised_product *p)
{
    flx_graph *g = q->c.to;
    const flx_tensor *given;
    weights m;
    FLXI_TRY(find_weights(q, p, &given));
    double low = q->products.low[p->x], high = q->products.high[p->x];
    double scale = high > low ? (high - low) / 255 : 1;
    int64_t zero = (int64_t)nearbyint(-128 - low / scale);
    FLXI_TRY(round_weights(q, p, given, scale, (double)zero, &m));
    if (!q->rounded[p->x])
        q->rounded[p->x] =
            flx_quantize(g, held(q, p->x), .scales = {&scale, 1}, .zero_points = {&zero, 1}, .dtype = FLX_I8).id;
    const int64_t w_axis = p->is_transposed ? 1 - p->w_axis : p->w_axis;
    flx_val w = add_constant(q, m.q), correction = add_constant(q, m.correction), factor = add_constant(q, m.scale);
    flx_val sum =
        flx_widening_dot(g, val(q, q->rounded[p->x]), w, .lc = {&p->x_axis, 1}, .rc = {&w_axis, 1}, .to = FLX_I32);
    sum = zero ? flx_sub(g, sum, correction) : sum;
    g->pending_label = flxi_value_at(q->c.from, n->first)->name;
    flx_val y = flx_mul(g, flx_cast(g, sum, FLX_F32), factor);
    g->pending_label = NULL;
    FLXI_TRY(built(q));
    flxi_copy_replace(&q->c, n->first, y.id);
    return FLX_OK;
}

/* ---- Products for training ---- */

static bool is_taken(const quantising *q, const char *name)
{
    size_t i;
    return flxi_find_leaf(q->c.from, name, &i) || flxi_find_leaf(q->c.to, name, &i);
}

/* An operand rounded with a scale that is a state. */
static flx_code round_operand(quantising *q, uint32_t x)
{
    flx_graph *g = q->c.to;
    flx_type scalar = flx_type_make(FLX_F32, 0, NULL);
    char name[40];
    unsigned number = 0;
    flx_val results[2] = {FLX_NONE, FLX_NONE};
    do
        snprintf(name, sizeof name, "quantise%u.scale", number++);
    while (is_taken(q, name));
    flx_val state = flx_set_init(g, flx_param(g, name, &scalar), (flx_init){.kind = FLX_INIT_ZEROS});
    flx_fake_quantize(g, held(q, x), state, results, 2, .scale_mode = "ema");
    FLXI_TRY(built(q));
    q->rounded[x] = results[0].id;
    bool ok = flxi_push(&g->ctx->mem, &q->states, state) && flxi_push(&g->ctx->mem, &q->next, results[1]);
    return ok ? FLX_OK : flxi_oom(q->c.err, "quantisation");
}

static flx_code add_rounded_product(quantising *q, const flxi_node *n, const flxi_quantised_product *p)
{
    flx_graph *g = q->c.to;
    void *attrs;
    flx_val w = FLX_NONE;
    if (!q->rounded[p->x])
        FLXI_TRY(round_operand(q, p->x));
    if (!q->rounded[p->w]) {
        flx_fake_quantize(g, held(q, p->w), FLX_NONE, &w, 1, .bits = q->bits, .axis = 1 - p->w_axis);
        FLXI_TRY(built(q));
        q->rounded[p->w] = w.id;
    }
    FLXI_TRY(flxi_attrs_clone(g, &flxi_ops[n->op], n->attrs, &q->c.attrs, &attrs, q->c.err));
    uint32_t in[2] = {q->rounded[p->x], q->rounded[p->w]}, *kept = flxi_dup(&g->arena, uint32_t, in, 2);
    if (!kept)
        return flxi_oom(q->c.err, "quantisation");
    g->pending_label = flxi_value_at(q->c.from, n->first)->name;
    uint32_t y = flxi_add_copy(g, q->c.from, n, kept, attrs);
    g->pending_label = NULL;
    FLXI_TRY(built(q));
    flxi_copy_replace(&q->c, n->first, y);
    return FLX_OK;
}

/* ---- The graph ---- */

static bool is_training(const quantising *q)
{
    return q->o->flags & FLX_QUANTISE_TRAIN;
}

/* Weights of integer products are constants: what only these read goes. Inputs and other parameters stay. */
static void find_live(quantising *q)
{
    const flx_graph *g = q->c.from;
    bool *is_weight = q->is_live + g->node_count;
    for (uint32_t i = 0; !is_training(q) && i < g->node_count; i++)
        if (q->products.at[i].x)
            is_weight[flxi_value_at(g, q->products.at[i].weights)->node] = true;
    for (size_t i = 0; i < g->outputs.n; i++)
        q->is_live[flxi_value_at(g, g->outputs.at[i].val)->node] = true;
    for (uint32_t i = g->node_count; i-- > 0;) {
        const flxi_node *n = flxi_node_at(g, i);
        q->is_live[i] |= flxi_is_root(g, n) && !is_weight[i];
        for (uint32_t k = 0; q->is_live[i] && k < n->nin; k++)
            if (is_training(q) || !q->products.at[i].x || k == 0)
                q->is_live[flxi_value_at(g, n->in[k])->node] = true;
    }
}

static flx_code write_nodes(quantising *q)
{
    const flx_graph *g = q->c.from;
    for (uint32_t i = 0; i < g->node_count; i++) {
        const flxi_quantised_product *p = &q->products.at[i];
        if (!q->is_live[i])
            continue;
        if (!p->x)
            FLXI_TRY(flxi_copy_node(&q->c, i));
        else if (is_training(q))
            FLXI_TRY(add_rounded_product(q, flxi_node_at(g, i), p));
        else
            FLXI_TRY(add_integer_product(q, flxi_node_at(g, i), p));
    }
    return FLX_OK;
}

static flx_code add_states(const quantising *q, flx_graph *g, flx_error *err)
{
    for (size_t i = 0; i < q->states.n; i++)
        if (flxi_output_update(g, q->states.at[i], q->next.at[i]) != FLX_OK)
            return flx_graph_error(g, err);
    return FLX_OK;
}

static flx_code write_graph(quantising *q, const flx_graph *g, flx_graph **out, flx_error *err)
{
    const flxi_allocator *mem = &g->ctx->mem;
    size_t marks = 2 * (size_t)g->node_count + 1, values = (size_t)g->value_count + 1;
    q->is_live = flxi_alloc(mem, marks, sizeof *q->is_live);
    q->rounded = flxi_alloc(mem, values, sizeof *q->rounded);
    flx_code code = flxi_copy_begin(&q->c, g, err);
    if (code == FLX_OK && (!q->is_live || !q->rounded))
        code = flxi_oom(err, "quantisation");
    if (code == FLX_OK) {
        find_live(q);
        code = write_nodes(q);
    }
    code = flxi_copy_end(&q->c, code, out, NULL);
    if (code == FLX_OK && (code = add_states(q, *out, err)) != FLX_OK)
        flx_graph_release(*out);
    flxi_free(mem, q->is_live, marks, sizeof *q->is_live);
    flxi_free(mem, q->rounded, values, sizeof *q->rounded);
    flxi_vec_free(mem, &q->states);
    flxi_vec_free(mem, &q->next);
    return code;
}

/* ---- The whole ---- */

static flx_code check_options(const flx_quantise_options *o, flx_error *err)
{
    if (o->flags & ~(uint32_t)FLX_QUANTISE_TRAIN || o->reserved || (o->weight_bits && o->weight_bits < 2) ||
        o->weight_bits > 8)
        return flxi_fail_hint(err, FLX_E_USAGE, "flags 0 or FLX_QUANTISE_TRAIN, weight_bits 2 to 8, reserved 0",
                              "flx_quantise: flags 0x%x, weight_bits %d, reserved %d", (unsigned)o->flags,
                              (int)o->weight_bits, (int)o->reserved);
    return FLX_OK;
}

static flx_code quantise(const flx_graph *g, const flx_quantise_options *given, flx_graph **out, flx_error *err)
{
    flx_quantise_options o;
    FLXI_TRY(flx_graph_error(g, err));
    FLXI_TRY(FLXI_READ_OPTIONS(flx_quantise_options, &o, given, err));
    FLXI_TRY(check_options(&o, err));
    flx_graph *primitive = flx_lower(g, FLX_POLICY_FOR_AUTODIFF, err);
    if (!primitive)
        return (flx_code)err->code;
    quantising q = {.o = &o, .bits = o.weight_bits ? o.weight_bits : 8};
    flx_code code = flxi_find_quantised_products(primitive, &q.products, err);
    if (code == FLX_OK && !is_training(&q))
        code = flxi_calibrate(&q.products, &o, err);
    if (code == FLX_OK)
        code = write_graph(&q, primitive, out, err);
    flxi_quantised_products_free(&q.products);
    flx_graph_release(primitive);
    return code;
}

flx_graph *flx_quantise(const flx_graph *g, const flx_quantise_options *options, flx_error *err)
{
    flx_error local = {0};
    flx_graph *out = NULL;
    flx_code code = quantise(g, options, &out, &local);
    if (code != FLX_OK && err)
        *err = local;
    return code == FLX_OK ? out : NULL;
}
