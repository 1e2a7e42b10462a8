/* SPDX-License-Identifier: Apache-2.0 */
/* error_bound.c: see error_bound.h. The driver is that of the reference backend (src/backend/ref/ref.c) in small, with
   noise between the nodes. */
#include "compile/error_bound.h"

#include "autodiff/autodiff.h"
#include "graph/graph.h"
#include "graph/op/eval.h"
#include "ops/rule/decomposed.h"
#include "test.h"

#include <complex.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS = 8 };
static const double function_units = 8, safety = 8;

/* ---- Ops and dtypes ---- */

bool op_rounds(flxi_opcode op)
{
    static const flxi_opcode exact[] = {OP_where, OP_neg,  OP_abs,     OP_sign,      OP_max,  OP_min,  OP_clamp,
                                        OP_real,  OP_imag, OP_complex, OP_conjugate, OP_relu, OP_sort, OP_top_k};
    flxi_class c = flxi_ops[op].op_class;
    for (size_t i = 0; i < sizeof exact / sizeof *exact; i++)
        if (exact[i] == op)
            return false;
    if (c == CLASS_INDEX || c == CLASS_SHAPE) /* these interpolate or accumulate */
        return op == OP_scatter_add || op == OP_scatter_nd || op == OP_gather_backward || op == OP_resize;
    return c != CLASS_LEAF && c != CLASS_IDENTITY;
}

double unit_of(int32_t dtype)
{
    return flxi_is_float(dtype) || flxi_is_complex(dtype) ? ldexp(1, 1 - flxi_mantissa_bits(dtype)) : 0;
}

static double smallest_normal(int32_t dtype)
{
    int32_t part = flxi_part_dtype(dtype);
    return ldexp(1, part == FLX_F64 ? -1022 : part == FLX_F16 ? -14 : -126);
}

double element_bound(int32_t dtype, double magnitude)
{
    return function_units * unit_of(dtype) * fmax(magnitude, smallest_normal(dtype));
}

/* ---- Noise ---- */

static double largest(const flx_tensor *t)
{
    double most = 0;
    for (int64_t i = 0; i < t->count; i++) {
        double x = cabs(flxi_load_complex(t->type.dtype, t->data, i));
        most = isfinite(x) && x > most ? x : most;
    }
    return most;
}

typedef struct {
    double steps;   /* by how many units in the last place */
    double overall; /* not 0: units of this number, for all elements, instead of each element's own */
    uint64_t *state;
} noise;

/* Moves the part of an element, up or down, by units in the last place of `size`; it stays where that is not finite. */
static void move(int32_t part, void *data, int64_t i, double size, const noise *by)
{
    int e;
    double x = flxi_load_double(part, data, i);
    frexp(fmax(size, smallest_normal(part)), &e);
    double step = by->steps * ldexp(1, e - flxi_mantissa_bits(part));
    flxi_store_double(part, data, i, test_random(by->state) >> 63 ? x + step : x - step);
    if (!isfinite(flxi_load_double(part, data, i)))
        flxi_store_double(part, data, i, x);
}

/* Zeros stay where units are of the element: a rounding leaves them. A complex element has one size, but a part of it
   that is 0 stays as well: numbers on a branch cut stay there. */
static void add_noise(flx_tensor *t, const noise *by)
{
    int32_t dtype = t->type.dtype, part = flxi_part_dtype(dtype);
    int parts = flxi_is_complex(dtype) ? 2 : 1;
    if (unit_of(dtype) == 0)
        return;
    for (int64_t i = 0; i < t->count; i++) {
        double size = by->overall > 0 ? by->overall : cabs(flxi_load_complex(dtype, t->data, i));
        for (int64_t k = parts * i; k < parts * (i + 1); k++)
            if (by->overall > 0 || (isfinite(size) && flxi_load_double(part, t->data, k) != 0))
                move(part, t->data, k, size, by);
    }
}

/* ---- Running ---- */

typedef struct {
    uint64_t *state; /* NULL: no noise */
    flx_error *err;
} noisy;

static flx_code run_nodes(const noisy *n, const flx_graph *g, const flx_tensor *const *in, flx_tensor **out);

static flx_code run_noisy_body(flxi_eval *e, const flx_graph *body, const flx_tensor *const *in, flx_tensor **out)
{
    return run_nodes((const noisy *)(void *)e->run, body, in, out);
}

static void ignore_value(flxi_eval *e, const char *message, const flx_tensor *value)
{
    (void)e;
    (void)message;
    (void)value;
}

static void ignore_status(flxi_eval *e, uint32_t status)
{
    (void)e;
    (void)status;
}

/* Whether an op sees its operands with noise: where elements meet in it. */
static bool mixes(flxi_opcode op)
{
    flxi_class c = flxi_ops[op].op_class;
    return op == OP_add_n || (op_rounds(op) && c != CLASS_POINTWISE && c != CLASS_CONTROL);
}

/* Fourier transforms have errors relative to all of the result: every element is a sum with terms of all sizes, but
   sums of other terms go into it on the way. */
static bool is_transform(flxi_opcode op)
{
    return op == OP_fft || op == OP_fft_axis || op == OP_fftn || op == OP_ifftn;
}

/* How many terms the sums of an op have, as the sizes of its operands tell: a product of [m, k] and [k, n] numbers, m n
   in total, has k. */
static double terms_of(const flxi_node *n, flx_tensor *const *values, const flx_tensor *out)
{
    double count = fmax(1, (double)out->count), terms = 1, product = 1 / count;
    for (uint32_t k = 0; k < n->nin; k++) {
        const flx_tensor *x = values[n->in[k]];
        terms = fmax(terms, (double)x->count / count);
        product *= k < 2 ? fmax(1, (double)x->count) : 1;
        for (int32_t d = 0; flxi_ops[n->op].op_class == CLASS_AXIS && d < x->type.rank; d++)
            terms = fmax(terms, (double)x->type.dims[d]);
    }
    return n->nin > 1 ? fmax(terms, sqrt(product)) : terms;
}

/* The error of a sum grows with the square root of the number of its terms: with `safety` it is 8 units, or as many as
   that root. */
static double steps_of(const flxi_node *n, flx_tensor *const *values, const flx_tensor *out)
{
    return mixes(n->op) ? fmax(1, sqrt(terms_of(n, values, out)) / safety) : 1;
}

static flx_tensor *with_noise(const flx_tensor *t, const noise *by)
{
    flx_error err = {0};
    flx_tensor *copy = flx_tensor_new(t->ctx, &t->type, t->data, &err);
    CHECK_MSG(copy, "%s", err.message);
    add_noise(copy, by);
    return copy;
}

static flx_code run_node(const noisy *r, const flx_graph *g, const flxi_node *n, flx_tensor **values)
{
    const flxi_op *op = &flxi_ops[n->op];
    const flx_tensor **in = calloc((size_t)n->nin + 1, sizeof *in);
    flx_tensor **out = calloc((size_t)n->nout + 1, sizeof *out);
    bool is_noisy = r->state && op->rules->eval != flxi_eval_decomposed; /* else what it consists of is */
    CHECK(in && out);
    for (uint32_t k = 0; k < n->nout; k++) {
        out[k] = values[n->first + k] = flx_tensor_new(g->ctx, flxi_type_at(g, n->first + k), NULL, r->err);
        CHECK(out[k]);
    }
    noise by = {.steps = n->nout ? steps_of(n, values, out[0]) : 1, .state = r->state};
    for (uint32_t k = 0; k < n->nin; k++)
        in[k] = is_noisy && mixes(n->op) ? with_noise(values[n->in[k]], &by) : flx_tensor_retain(values[n->in[k]]);
    flxi_eval e = {.op = op,
                   .attrs = n->attrs,
                   .nin = n->nin,
                   .nout = n->nout,
                   .in = in,
                   .out = out,
                   .mem = &g->ctx->mem,
                   .run = (flxi_run *)(uintptr_t)r,
                   .err = r->err,
                   .run_body = run_noisy_body,
                   .print = ignore_value,
                   .report = ignore_status};
    flx_code code = op->rules->eval(&e);
    for (uint32_t k = 0; is_noisy && op_rounds(n->op) && op->op_class != CLASS_CONTROL && k < n->nout; k++) {
        by.overall = is_transform(n->op) ? largest(out[k]) : 0;
        add_noise(out[k], &by);
    }
    for (uint32_t k = 0; k < n->nin; k++)
        flx_tensor_release((flx_tensor *)(uintptr_t)in[k]);
    free(in);
    free(out);
    return code;
}

static flx_code run_nodes(const noisy *r, const flx_graph *g, const flx_tensor *const *in, flx_tensor **out)
{
    flx_tensor **values = calloc((size_t)g->value_count + 1, sizeof *values);
    flx_code code = FLX_OK;
    CHECK(values);
    for (size_t i = 0; i < g->leaves.n; i++)
        values[g->leaves.at[i]] = flx_tensor_retain((flx_tensor *)(uintptr_t)in[i]);
    for (uint32_t i = 0; code == FLX_OK && i < g->node_count; i++) {
        const flxi_node *n = flxi_node_at(g, i);
        if (!(flxi_ops[n->op].traits & TRAIT_DECLARED))
            code = run_node(r, g, n, values);
    }
    for (size_t i = 0; i < g->outputs.n; i++)
        out[i] = code == FLX_OK ? flx_tensor_retain(values[g->outputs.at[i].val]) : NULL;
    for (uint32_t i = 0; i <= g->value_count; i++)
        flx_tensor_release(values[i]);
    free(values);
    return code;
}

flx_code noisy_run(const flx_graph *g, flx_tensor *const *values, uint64_t seed, flx_tensor **out, flx_error *err)
{
    return run_nodes(&(noisy){seed ? &seed : NULL, err}, g, (const flx_tensor *const *)values, out);
}

/* ---- Bounds ---- */

static double coarsest_unit(const flx_graph *g)
{
    double unit = 0;
    for (uint32_t id = 1; id <= g->value_count; id++)
        unit = fmax(unit, unit_of(flxi_type_at(g, id)->dtype));
    for (size_t i = 0; i < g->bodies.n; i++)
        unit = fmax(unit, coarsest_unit(g->bodies.at[i]));
    return unit;
}

static bool is_composite(const flx_graph *g, uint32_t i, const void *user)
{
    (void)user;
    return flxi_ops[flxi_node_at(g, i)->op].rules->decompose;
}

/* The graph with what its ops consist of in their places. */
static flx_graph *decomposed(const flx_graph *g)
{
    flx_error err = {0};
    flx_graph *parts = NULL;
    CHECK_OK(flxi_decompose(g, is_composite, NULL, &parts, NULL, &err), &err);
    return parts;
}

/* No result (NULL) is an infinite error. */
static void take_in(const flx_tensor *with, const flx_tensor *without, double *most)
{
    for (int64_t i = 0; i < without->count; i++) {
        double _Complex y = flxi_load_complex(without->type.dtype, without->data, i);
        double off = with ? cabs(flxi_load_complex(with->type.dtype, with->data, i) - y) : HUGE_VAL;
        if (isfinite(creal(y)) && isfinite(cimag(y)))
            most[i] = isfinite(off) ? fmax(most[i], off) : HUGE_VAL;
    }
}

void noise_bounds(const flx_graph *g, flx_tensor *const *values, flx_tensor *const *expected, double **bounds)
{
    size_t n = flx_graph_output_count(g);
    flx_tensor **out = calloc(n + 1, sizeof *out);
    flx_graph *parts = decomposed(g);
    double limit = sqrt(coarsest_unit(g)), scale = 0;
    CHECK(out);
    for (size_t k = 0; k < n; k++) {
        bounds[k] =
            unit_of(expected[k]->type.dtype) > 0 ? calloc((size_t)expected[k]->count + 1, sizeof **bounds) : NULL;
        CHECK(bounds[k] || unit_of(expected[k]->type.dtype) == 0);
    }
    for (uint64_t r = 1; r <= RUNS; r++) {
        flx_error err = {0};
        noisy_run(parts, values, r, out, &err);
        for (size_t k = 0; k < n; k++) {
            if (bounds[k])
                take_in(out[k], expected[k], bounds[k]);
            flx_tensor_release(out[k]);
        }
    }
    for (size_t k = 0; k < flx_graph_input_count(g); k++)
        scale = fmax(scale, unit_of(values[k]->type.dtype) > 0 ? largest(values[k]) : 0);
    for (size_t k = 0; k < n; k++) {
        double most = limit * fmax(scale, largest(expected[k]));
        for (int64_t i = 0; bounds[k] && i < expected[k]->count; i++)
            bounds[k][i] = fmin(safety * bounds[k][i], most);
    }
    flx_graph_release(parts);
    free(out);
}
