/* SPDX-License-Identifier: Apache-2.0 */
/* precision.c: derivatives in f32, f16, bf16 and c64 against those in f64 and c128 at the same inputs, on every
   sample of the table.

   The inputs have eight bits, so that every format can represent them and one reference serves for all. Of each number
   d of the vjp and of the jvp the bound is

       depth · unit · (|d| + Σ_z |∂d/∂z| |z|),

   z running through all numbers that d is computed from: operands and cotangents or tangents. The sum is how much d
   could change if each of them were wrong by its own size; since d is linear in the cotangents, it contains the sum of
   the magnitudes of the terms of d. `depth` is the largest number of roundings on a path of the derivative's graph:
   every op of the reference evaluator rounds its result once, sums having been taken in double (f16, bf16: in f32). So
   an algorithm that rounds along a path as long as its own, without losing more than the problem does, is within the
   bound, and one without roundings must be exact. A number below the normal ones of a format is off by its smallest
   step instead, times what it is multiplied with.

   A rule that cancels more than the problem requires needs a row below, which says why and what bounds its error. */
#include "compile/error_bound.h"
#include "experiment.h"
#include "graph/op/site.h"
#include "ops/opcode.h"
#include "test.h"

#include <fluxion/transform.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Formats and exceptions ---- */

typedef struct {
    int32_t dtype;
    double unit; /* half the distance from 1 to the next number */
    double tiny; /* half the distance between the smallest numbers */
} format;

static const format formats[] = {
    {FLX_F32, 0x1p-24, 0x1p-150},
    {FLX_F16, 0x1p-11, 0x1p-25},
    {FLX_BF16, 0x1p-8, 0x1p-134},
    {FLX_C64, 0x1p-24, 0x1p-150},
};
enum { NUM_FORMATS = sizeof formats / sizeof *formats };

/* Ops whose rules subtract numbers of the size of their results, which are at most 1: the error is relative to the
   incoming cotangents and tangents, not to the derivative. */
static const precision_exception exceptions[] = {
    {OP_sigmoid, "y (1 - y) cancels where y is near 1"},
    {OP_tan, "1 + y^2 cancels where y is near i or -i"},
    {OP_softmax, "g - sum(g y) cancels where one y is near 1"},
    {OP_log_softmax, "t - sum(t softmax(x)) cancels where one x is far above the others"},
    {OP_attention, "g v - sum(P g v) cancels where the values hardly differ"},
    {OP_attention_backward, "the same, with dy instead of g"},
    {OP_fused_attention_block, "as attention"},
    {OP_fused_transformer_layer, "as attention; layer_norm also subtracts means"},
    {OP_lstsq, "b - a x and what projections leave of it cancel where a x is near b"},
    {OP_bessel_i0e, "i1e(x) - i0e(x) cancels for large x"},
    {OP_bessel_i1e, "i0e(x) - i1e(x) (1 + 1/x) cancels for large x"},
};

const precision_exception *precision_exceptions(size_t *n)
{
    *n = sizeof exceptions / sizeof *exceptions;
    return exceptions;
}

static bool is_exception(flxi_opcode op)
{
    for (size_t i = 0; i < sizeof exceptions / sizeof *exceptions; i++)
        if (exceptions[i].op == op)
            return true;
    return false;
}

/* ---- Inputs that every format can represent ---- */

/* Eight bits, as bf16 has them, and none below the smallest of f16. */
static double coarse(double x)
{
    int e;
    double m = frexp(x, &e);
    int bits = e + 24 < 8 ? e + 24 : 8;
    return bits > 0 ? ldexp(nearbyint(ldexp(m, bits)), e - bits) : 0.0;
}

static void make_coarse(experiment *x)
{
    for (size_t i = 0; i < x->in.n; i++) {
        const flx_type *t = flx_tensor_type(x->in.value[i]);
        if (t->dtype != FLX_F64 && t->dtype != FLX_C128)
            continue;
        flx_tensor *y = flx_tensor_cast(x->in.value[i], (flx_dtype)t->dtype, NULL);
        CHECK(y != NULL);
        double *p = flx_tensor_data(y);
        for (int64_t k = 0; k < flx_tensor_count(y) * experiment_parts(t->dtype); k++)
            p[k] = coarse(p[k]);
        flx_tensor_release(x->in.value[i]);
        x->in.value[i] = y;
    }
}

/* ---- Roundings ---- */

/* The most roundings on a path through the graph. A body is executed at most this often in any sample. */
static int depth_of(const flx_graph *g)
{
    enum { MOST_STEPS = 7 };
    int *at = calloc((size_t)g->value_count + 1, sizeof *at);
    int most = 0;
    int bodies = 0;
    CHECK(at != NULL);
    for (uint32_t i = 0; i < g->node_count; i++) {
        const flxi_node *n = flxi_node_at(g, i);
        int deep = 0;
        for (uint32_t k = 0; k < n->nin; k++)
            deep = at[n->in[k]] > deep ? at[n->in[k]] : deep;
        for (uint32_t k = 0; k < n->nout; k++) {
            int32_t dtype = flxi_type_at(g, n->first + k)->dtype;
            at[n->first + k] = deep + (op_rounds(n->op) && (flxi_is_float(dtype) || flxi_is_complex(dtype)));
            most = at[n->first + k] > most ? at[n->first + k] : most;
        }
    }
    for (size_t i = 0; i < g->bodies.n; i++)
        bodies += MOST_STEPS * depth_of(g->bodies.at[i]);
    free(at);
    return most + bodies;
}

/* ---- The reference ---- */

typedef struct {
    flx_graph *g; /* the vjp, or the results followed by the jvp */
    flx_tensor *out[2 * MAX_OUT];
    double *scale[2 * MAX_OUT]; /* by output: |d| + Σ |∂d/∂z| |z|; NULL where it is not compared */
    size_t outputs, first;      /* the derivatives are the outputs from `first` on */
} reference;

static double magnitude(const flx_tensor *t, int64_t i)
{
    const double *p = flx_tensor_const_data(t);
    return flxi_is_complex(flx_tensor_type(t)->dtype) ? hypot(p[2 * i], p[2 * i + 1]) : fabs(p[i]);
}

/* Tangents for everything in z: zero except number e of z[i], which moves by the size of the element. */
static bag one_direction(const experiment *x, const flx_graph *g, const flx_graph *jvp, const char *const *z, size_t i,
                         int64_t e)
{
    bag b = {0};
    size_t own = flx_graph_input_count(g);
    for (size_t k = 0; k < flx_graph_input_count(jvp); k++) {
        const char *name = flx_val_name(jvp, flx_graph_input(jvp, k));
        if (k < own) {
            bag_put(&b, name, flx_tensor_retain(bag_get(&x->in, name)));
            continue;
        }
        const flx_tensor *like = bag_get(&x->in, z[k - own]);
        flx_tensor *t = flx_tensor_new(x->ctx, flx_tensor_type(like), NULL, NULL);
        CHECK(t != NULL);
        memset(flx_tensor_data(t), 0, flx_tensor_nbytes(t));
        if (k - own == i)
            ((double *)flx_tensor_data(t))[e] = magnitude(like, e / experiment_parts(flx_tensor_type(like)->dtype));
        bag_put(&b, name, t);
    }
    return b;
}

static bool add_scales(const experiment *x, reference *r, const flx_graph *jvp, const char *const *z, size_t i)
{
    const flx_tensor *like = bag_get(&x->in, z[i]);
    int64_t numbers = flx_tensor_count(like) * experiment_parts(flx_tensor_type(like)->dtype);
    bool ok = true;
    for (int64_t e = 0; ok && e < numbers; e++) {
        flx_tensor *out[4 * MAX_OUT] = {0};
        bag b = one_direction(x, r->g, jvp, z, i, e);
        ok = experiment_run(x, jvp, &b, out);
        for (size_t k = 0; ok && k < r->outputs; k++)
            for (int64_t j = 0; r->scale[k] && j < flx_tensor_count(out[k]); j++)
                r->scale[k][j] += magnitude(out[r->outputs + k], j);
        release_all(out, 2 * r->outputs);
        bag_free(&b);
    }
    return ok;
}

/* Of an op that is linear in each operand d is a sum of products, one factor from each: with all factors positive it
   is the sum of the magnitudes, and the sum over z counts each product once for each of its factors. */
static bool add_products(const experiment *x, reference *r)
{
    flx_tensor *out[2 * MAX_OUT] = {0};
    bag b = {0};
    for (size_t i = 0; i < x->in.n; i++) {
        const flx_tensor *value = x->in.value[i];
        const flx_type *t = flx_tensor_type(value);
        flx_tensor *size = flx_tensor_cast(value, (flx_dtype)t->dtype, NULL);
        CHECK(size != NULL);
        for (int64_t k = 0; (t->dtype == FLX_F64 || t->dtype == FLX_C128) && k < flx_tensor_count(value); k++) {
            double *p = (double *)flx_tensor_data(size) + k * experiment_parts(t->dtype);
            p[0] = magnitude(value, k);
            if (t->dtype == FLX_C128)
                p[1] = 0.0;
        }
        bag_put(&b, x->in.name[i], size);
    }
    bool ok = experiment_run(x, r->g, &b, out);
    for (size_t k = 0; ok && k < r->outputs; k++)
        for (int64_t j = 0; r->scale[k] && j < flx_tensor_count(out[k]); j++)
            r->scale[k][j] += (double)flx_graph_input_count(x->g) * magnitude(out[k], j);
    release_all(out, r->outputs);
    bag_free(&b);
    return ok;
}

/* By the derivative of the derivative along every number of the inputs z. */
static bool add_movements(const experiment *x, reference *r, const char *const *z, size_t n)
{
    flx_error err = {0};
    flx_graph *jvp = flx_jvp(r->g, z, n, &err);
    bool ok = experiment_made(jvp, "jvp of the derivative", &err);
    for (size_t i = 0; ok && i < n; i++)
        ok = add_scales(x, r, jvp, z, i);
    flx_graph_release(jvp);
    return ok;
}

/* Runs the derivative r->g, whose inputs with a derivative are z, and finds its scales. */
static bool make_reference(const experiment *x, reference *r, const char *const *z, size_t n)
{
    r->outputs = flx_graph_output_count(r->g);
    if (!experiment_run(x, r->g, &x->in, r->out))
        return false;
    for (size_t k = 0; k < r->outputs; k++) {
        int32_t dtype = flx_tensor_type(r->out[k])->dtype;
        int64_t count = flx_tensor_count(r->out[k]);
        if (k < r->first || (dtype != FLX_F64 && dtype != FLX_C128))
            continue;
        r->scale[k] = calloc((size_t)count + 1, sizeof *r->scale[k]);
        CHECK(r->scale[k] != NULL);
        for (int64_t j = 0; j < count; j++)
            r->scale[k][j] = magnitude(r->out[k], j);
    }
    bool products = flxi_ops[x->c->op].traits & TRAIT_MULTILINEAR;
    return products ? add_products(x, r) : add_movements(x, r, z, n);
}

static void free_reference(reference *r)
{
    release_all(r->out, r->outputs);
    for (size_t k = 0; k < r->outputs; k++)
        free(r->scale[k]);
    flx_graph_release(r->g);
}

/* ---- Comparing ---- */

typedef struct {
    const format *f;
    const char *what;
    int depth;
    double largest;  /* of all inputs and 1: the largest factor of a number */
    double incoming; /* Σ of the magnitudes of cotangents or tangents, for an exception; else 0 */
} comparison;

static void compare(const comparison *c, const flx_tensor *narrow, const flx_tensor *wide, const double *scale)
{
    int parts = experiment_parts(flx_tensor_type(wide)->dtype);
    flx_tensor *cast = flx_tensor_cast(narrow, (flx_dtype)flx_tensor_type(wide)->dtype, NULL);
    CHECK(cast != NULL);
    const double *p = flx_tensor_const_data(cast);
    const double *q = flx_tensor_const_data(wide);
    for (int64_t i = 0; i < flx_tensor_count(wide); i++) {
        double error = 0.0;
        for (int64_t k = parts * i; k < parts * (i + 1); k++)
            error = p[k] == q[k] || (isnan(p[k]) && isnan(q[k])) ? error : hypot(error, p[k] - q[k]);
        double bound = c->depth * (c->f->unit * (scale[i] + c->incoming) + c->f->tiny * c->largest);
        if (!EXPECT_MSG(error == 0.0 || error <= bound,
                        "%s: element %lld is %.9g and %.9g in double, off by %.3g where %.3g is allowed (depth %d)",
                        c->what, (long long)i, p[parts * i], q[parts * i], error, bound, c->depth))
            break;
    }
    flx_tensor_release(cast);
}

/* The sum of all magnitudes of the values with this prefix. */
static double incoming(const experiment *x, const char *prefix)
{
    double sum = 0.0;
    for (size_t i = 0; i < x->in.n; i++)
        if (strncmp(x->in.name[i], prefix, strlen(prefix)) == 0)
            for (int64_t k = 0; k < flx_tensor_count(x->in.value[i]); k++)
                sum += magnitude(x->in.value[i], k);
    return sum;
}

static double largest_input(const experiment *x)
{
    double most = 1.0;
    for (size_t i = 0; i < x->in.n; i++)
        for (int64_t k = 0; k < flx_tensor_count(x->in.value[i]); k++)
            most = fmax(most, fabs(flx_tensor_get(x->in.value[i], k)));
    return most;
}

static void compare_format(const experiment *y, const flx_graph *narrow, const reference *r, comparison c)
{
    flx_tensor *out[2 * MAX_OUT] = {0};
    c.depth = depth_of(narrow);
    if (experiment_run(y, narrow, &y->in, out))
        for (size_t k = 0; k < r->outputs; k++)
            if (r->scale[k])
                compare(&c, out[k], r->out[k], r->scale[k]);
    release_all(out, r->outputs);
}

/* ---- Every sample ---- */

typedef struct {
    experiment x;
    reference vjp, jvp;
    char weight[MAX_OUT][16];
    char tangent[MAX_NAMES][80];
} wide_side;

static bool begin_references(wide_side *w)
{
    flx_error err = {0};
    const experiment *x = &w->x;
    const char *z[MAX_LEAVES];
    size_t n = 0;
    for (; n < x->count; n++)
        z[n] = x->names[n];
    for (size_t k = 0; k < flx_graph_output_count(x->g); k++)
        if (x->weighs[k]) {
            snprintf(w->weight[k], sizeof w->weight[k], "w%zu", k);
            z[n++] = w->weight[k];
        }
    w->vjp.g = experiment_gradient(x, x->loss, &err);
    if (!experiment_made(w->vjp.g, "grad", &err) || !make_reference(x, &w->vjp, z, n))
        return false;
    for (n = x->count; n < 2 * x->count; n++) {
        snprintf(w->tangent[n - x->count], sizeof w->tangent[0], "tangent_%s", x->names[n - x->count]);
        z[n] = w->tangent[n - x->count];
    }
    w->jvp.g = flx_jvp(x->g, x->names, x->count, &err);
    w->jvp.first = flx_graph_output_count(x->g);
    return experiment_made(w->jvp.g, "jvp", &err) && make_reference(x, &w->jvp, z, n);
}

static void compare_derivatives(const wide_side *w, const experiment *y, const format *f)
{
    flx_error err = {0};
    const char *name = flx_dtype_name(f->dtype);
    char what[2][40];
    snprintf(what[0], sizeof what[0], "vjp in %s", name);
    snprintf(what[1], sizeof what[1], "jvp in %s", name);
    bool cancels = is_exception(y->c->op);
    flx_graph *vjp = experiment_gradient(y, y->loss, &err);
    double most = largest_input(&w->x);
    if (experiment_made(vjp, what[0], &err))
        compare_format(y, vjp, &w->vjp, (comparison){f, what[0], 0, most, cancels ? incoming(&w->x, "w") : 0.0});
    flx_graph *jvp = flx_jvp(y->g, y->names, y->count, &err);
    if (experiment_made(jvp, what[1], &err))
        compare_format(y, jvp, &w->jvp, (comparison){f, what[1], 0, most, cancels ? incoming(&w->x, "tangent_") : 0.0});
    flx_graph_release(vjp);
    flx_graph_release(jvp);
}

/* The wide case with its dtype exchanged for that of the format, or the f32 in its text; one that says only c64, or
   begins with c64, or says f32 beside the c64 of an op for complex numbers, is one of c64. False where the op does not
   take the dtype. */
static bool narrow_case(const sample_case *wide, const format *f, sample_case *narrow)
{
    bool is_complex = f->dtype == FLX_C64;
    *narrow = *wide;
    if (wide->dtype == FLX_DTYPE_NONE) {
        bool says_f32 = sample_says(wide->sample, "f32");
        bool is_first = strncmp(wide->sample->operands, "c64", 3) == 0;
        bool says_complex =
            sample_says(wide->sample, "c64") && (!says_f32 || is_first || !flxi_in(flxi_ops[wide->op].dtypes, FLX_F32));
        narrow->real = is_complex ? FLX_F32 : f->dtype;
        return is_complex ? says_complex : says_f32 && !says_complex;
    }
    narrow->dtype = f->dtype;
    return (wide->dtype == FLX_C128) == is_complex && flxi_in(flxi_ops[wide->op].dtypes, f->dtype);
}

static size_t try_formats(const sample_case *sample, int32_t only, bool dry)
{
    sample_case c = *sample;
    wide_side w = {0};
    size_t tried = 0;
    if (!law_needs_derivative(c.op) || !experiment_is_wide(&c))
        return 0;
    bool applies = experiment_begin(&w.x, &c);
    if (applies && !dry) {
        make_coarse(&w.x);
        applies = begin_references(&w);
    }
    for (int i = 0; applies && i < NUM_FORMATS; i++) {
        sample_case small;
        experiment y;
        if ((only && formats[i].dtype != only) || !narrow_case(&c, &formats[i], &small))
            continue;
        if (experiment_begin_narrow(&y, &small, &w.x)) {
            tried++;
            if (!dry)
                compare_derivatives(&w, &y, &formats[i]);
        }
        experiment_end(&y);
    }
    free_reference(&w.vjp);
    free_reference(&w.jvp);
    experiment_end(&w.x);
    return tried;
}

size_t law_of_precision(const sample_case *c, bool dry)
{
    return try_formats(c, FLX_DTYPE_NONE, dry);
}

size_t precision_cases(const sample_case *c, int32_t dtype)
{
    return try_formats(c, dtype, true);
}

TEST(derivative_is_as_precise_as_its_dtype)
{
    try_law(law_of_precision);
}
