/* precision.c: derivatives in f32, f16, bf16 and c64 against those in f64 and c128 at the same inputs, for every sample of the table. */
#include "../test.h"
#include "experiment.h"
#include "ir/site.h"

#include <complex.h>
#include <fluxion/transform.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Formats ---- */

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

static double magnitude(const flx_tensor *t, int64_t i)
{
    const double *p = flx_tensor_bytes(t);
    return flxi_is_complex(flx_tensor_type(t)->dtype) ? hypot(p[2 * i], p[2 * i + 1]) : fabs(p[i]);
}

/* Values that all formats hold: of eight bits, as bf16 has them, and no smaller than those of f16. */
static flx_tensor *coarse(const flx_tensor *t)
{
    const flx_type *type = flx_tensor_type(t);
    flx_tensor *y = flx_tensor_cast(t, (flx_dtype)type->dtype, NULL);
    CHECK(y != NULL);
    double *p = flx_tensor_data(y);
    for (int64_t i = 0; i < flx_tensor_count(t) * experiment_parts(type->dtype); i++) {
        int e;
        double m = frexp(p[i], &e);
        int bits = e + 24 < 8 ? e + 24 : 8;
        p[i] = bits > 0 ? ldexp(nearbyint(ldexp(m, bits)), e - bits) : 0.0;
    }
    return y;
}

static void make_coarse(experiment *x)
{
    for (size_t i = 0; i < x->in.n; i++) {
        int32_t dtype = flx_tensor_type(x->in.value[i])->dtype;
        if (dtype != FLX_F64 && dtype != FLX_C128)
            continue;
        flx_tensor *y = coarse(x->in.value[i]);
        flx_tensor_release(x->in.value[i]);
        x->in.value[i] = y;
    }
}

/* ---- Roundings ---- */

static bool is_exact(const flxi_op *op)
{
    switch (op->op_class) {
    case CLASS_LEAF:
    case CLASS_SHAPE:
    case CLASS_INDEX:
    case CLASS_IDENTITY: return strcmp(op->name, "resize") != 0;
    default: return false;
    }
}

static int depth_of(const flx_graph *g)
{
    int *at = calloc((size_t)g->value_count + 1, sizeof *at);
    int most = 0;
    for (uint32_t i = 0; i < g->node_count; i++) {
        const flxi_node *n = flxi_node_at(g, i);
        int deep = 0;
        for (uint32_t k = 0; k < n->nin; k++)
            deep = at[n->in[k]] > deep ? at[n->in[k]] : deep;
        for (uint32_t k = 0; k < n->nout; k++) {
            int32_t dtype = flxi_type_at(g, n->first + k)->dtype;
            bool rounds = !is_exact(&flxi_ops[n->op]) && (flxi_is_float(dtype) || flxi_is_complex(dtype));
            at[n->first + k] = deep + rounds;
            most = deep + rounds > most ? deep + rounds : most;
        }
    }
    for (size_t i = 0; i < g->bodies.n; i++)
        most += 7 * depth_of(g->bodies.at[i]);
    free(at);
    return most;
}

/* ---- Scales ---- */

typedef struct {
    double *of[MAX_OUT];
} scales;

/* Σ over the numbers z of all inputs of |∂d/∂z| |z|. */
static bool add_scales(const experiment *x, const flx_graph *d, size_t first, size_t count, const char *const *names, size_t n,
                       scales *s)
{
    flx_error err = {0};
    flx_graph *jvp = flx_jvp(d, names, n, &err);
    bool ok = experiment_made(jvp, "jvp of the derivative", &err);
    size_t outputs = ok ? flx_graph_output_count(d) : 0;
    for (size_t i = 0; ok && i < n; i++) {
        const flx_tensor *z = bag_get(&x->in, names[i]);
        int parts = experiment_parts(flx_tensor_type(z)->dtype);
        for (int64_t e = 0; ok && e < flx_tensor_count(z) * parts; e++) {
            flx_tensor *out[2 * MAX_OUT] = {0};
            bag b = {0};
            for (size_t k = 0; k < flx_graph_input_count(jvp); k++) {
                flx_val v = flx_graph_input(jvp, k);
                const char *name = flx_val_name(jvp, v);
                flx_tensor *value = k < flx_graph_input_count(d) ? bag_get(&x->in, name) : NULL;
                if (value) {
                    bag_put(&b, name, flx_tensor_retain(value));
                    continue;
                }
                size_t of = k - flx_graph_input_count(d);
                flx_tensor *like = bag_get(&x->in, names[of]);
                flx_tensor *t = flx_tensor_new(x->ctx, flx_tensor_type(like), NULL, NULL);
                memset(flx_tensor_data(t), 0, flx_tensor_size(t));
                if (of == i)
                    ((double *)flx_tensor_data(t))[e] = magnitude(z, e / parts);
                bag_put(&b, name, t);
            }
            ok = experiment_run(x, jvp, &b, out);
            for (size_t k = 0; ok && k < count; k++)
                for (int64_t j = 0; j < flx_tensor_count(out[first + k]); j++)
                    s->of[k][j] += magnitude(out[outputs + first + k], j);
            release_all(out, 2 * outputs);
            bag_free(&b);
        }
    }
    flx_graph_free(jvp);
    return ok;
}

static void compare(const sample_case *c, const format *f, const flx_tensor *narrow, const flx_tensor *wide, const double *scale, int depth,
                    const char *what, bool jvp)
{
    flx_tensor *n = flx_tensor_cast(narrow, (flx_dtype)flx_tensor_type(wide)->dtype, NULL);
    const double *p = flx_tensor_bytes(n);
    const double *q = flx_tensor_bytes(wide);
    int parts = experiment_parts(flx_tensor_type(wide)->dtype);
    for (int64_t i = 0; i < flx_tensor_count(wide); i++) {
        double e = parts == 2 ? hypot(p[2 * i] - q[2 * i], p[2 * i + 1] - q[2 * i + 1]) : fabs(p[i] - q[i]);
        if (isnan(e) && isnan(q[i * parts]) && isnan(p[i*parts])) continue;
        if (p[i*parts]==q[i*parts] && parts==1) continue;
        double size = scale[i] + magnitude(wide, i);
        double ratio = e / (f->unit * size + f->tiny);
        if (getenv("FLX_STATS"))
            printf("STAT\t%s\t%s\t%s\t%.3g\t%d\t%.3g\t%.9g\t%.9g\t%s\n", flxi_ops[c->op].name, flx_dtype_name(f->dtype), jvp ? "jvp" : "vjp", ratio, depth, ratio / (depth + 1), p[i * parts],
                   q[i * parts], sample_describe(c));
    }
    (void)what;
    flx_tensor_release(n);
}

static flx_tensor *wider(const experiment *x, const flx_tensor *t, const flx_tensor *like)
{
    (void)x; (void)like;
    return flx_tensor_cast(t, (flx_dtype)flx_tensor_type(like)->dtype, NULL);
}

size_t law_of_precision(const sample_case *sample, int32_t dtype, bool dry)
{
    sample_case c = *sample;
    experiment x;
    flx_error err = {0};
    const format *f = formats;
    while (f->dtype != dtype)
        f++;
    if (!law_needs_derivative(c.op) || !experiment_is_wide(&c))
        return 0;
    if (c.dtype == FLX_DTYPE_NONE ? dtype == FLX_C64 : (c.dtype == FLX_C128) != (dtype == FLX_C64))
        return 0;
    sample_case small = c;
    if (c.dtype == FLX_DTYPE_NONE)
        small.real = dtype;
    else
        small.dtype = dtype;
    if (c.dtype != FLX_DTYPE_NONE && !(flxi_ops[c.op].dtypes >> dtype & 1))
        return 0;
    experiment y = {0};
    bool applies = experiment_begin(&x, &c);
    if (applies) {
        make_coarse(&x);
        applies = experiment_begin_narrow(&y, &small, &x);
    }
    if (applies && !dry) {
        flx_graph *gx = experiment_gradient(&x, x.loss, &err);
        flx_graph *gy = experiment_gradient(&y, y.loss, &err);
        flx_tensor *dx[MAX_NAMES] = {0};
        flx_tensor *dy[MAX_NAMES] = {0};
        scales s = {{0}};
        const char *names[MAX_LEAVES];
        char weights[MAX_OUT][16];
        size_t n = 0;
        for (size_t i = 0; i < x.count; i++)
            names[n++] = x.names[i];
        for (size_t k = 0; k < flx_graph_output_count(x.g); k++)
            if (x.weighs[k]) {
                snprintf(weights[k], 16, "w%zu", k);
                names[n++] = weights[k];
            }
        if (experiment_made(gx, "grad", &err) && experiment_made(gy, "narrow grad", &err) && experiment_run(&x, gx, &x.in, dx) &&
            experiment_run(&y, gy, &y.in, dy)) {
            for (size_t i = 0; i < x.count; i++)
                s.of[i] = calloc((size_t)flx_tensor_count(dx[i]) + 1, sizeof(double));
            if (add_scales(&x, gx, 0, x.count, names, n, &s))
                for (size_t i = 0; i < x.count; i++)
                    compare(&c, f, dy[i], dx[i], s.of[i], depth_of(gy), "vjp", false);
            for (size_t i = 0; i < x.count; i++)
                free(s.of[i]);
        }
        (void)wider;
        release_all(dx, x.count);
        release_all(dy, x.count);
        flx_graph_free(gx);
        flx_graph_free(gy);
    }
    if (y.ctx)
        experiment_end(&y);
    experiment_end(&x);
    return applies;
}

static size_t f32_law(const sample_case *c, bool dry) { return law_of_precision(c, FLX_F32, dry); }
static size_t f16_law(const sample_case *c, bool dry) { return law_of_precision(c, FLX_F16, dry); }
static size_t bf16_law(const sample_case *c, bool dry) { return law_of_precision(c, FLX_BF16, dry); }
static size_t c64_law(const sample_case *c, bool dry) { return law_of_precision(c, FLX_C64, dry); }

TEST(derivative_precision) { try_law(f32_law); try_law(f16_law); try_law(bf16_law); try_law(c64_law); }
