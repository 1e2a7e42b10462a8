/* SPDX-License-Identifier: Apache-2.0 */
/* window_wide.c: windows of many taps. Values and derivatives are those of the definition, with ties, NaN, infinities
   and padding; memory does not grow with the windows; nothing is left to the evaluator. */
#include "test.h"

#include <fluxion/exec.h>
#include <fluxion/run.h>
#include <fluxion/text.h>
#include <fluxion/transform.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 6, COLUMNS = 50, MOST = 4096 };

typedef struct { /* of axis 0 and axis 1 */
    int64_t window[2], stride[2], low[2], high[2], base[2], dilation[2];
} geometry;

static const geometry geometries[] = {
    {{1, 100}, {1, 1}, {0, 60}, {0, 45}, {1, 1}, {1, 1}}, {{3, 30}, {1, 2}, {1, 3}, {2, 0}, {1, 1}, {1, 1}},
    {{4, 20}, {2, 3}, {3, 20}, {0, -2}, {2, 1}, {1, 2}},  {{6, 25}, {1, 7}, {0, -1}, {0, 30}, {1, 3}, {1, 1}},
    {{6, 50}, {1, 1}, {0, 0}, {0, 0}, {1, 1}, {1, 1}},
};

static int64_t windows_along(const geometry *p, int k)
{
    int64_t n = k ? COLUMNS : ROWS;
    int64_t whole = (n - 1) * p->base[k] + 1 + p->low[k] + p->high[k];
    return (whole - (p->window[k] - 1) * p->dilation[k] - 1) / p->stride[k] + 1;
}

/* Few different numbers, so that most windows have ties. */
static double element(int i, int special)
{
    if (special && i % 97 == 13)
        return NAN;
    if (special && i % 41 == 7)
        return i % 2 ? INFINITY : -INFINITY;
    return (i * 37 % 11) % 5 - 2;
}

/* Element j of axis k that tap t of window o meets; -1: padding. */
static int64_t met(const geometry *p, int k, int64_t o, int64_t t)
{
    int64_t at = o * p->stride[k] + t * p->dilation[k] - p->low[k];
    if (at < 0 || at % p->base[k] || at / p->base[k] >= (k ? COLUMNS : ROWS))
        return -1;
    return at / p->base[k];
}

/* The maximum of the window and where it was first; -1: init. */
static double maximum(const geometry *p, const double *x, int64_t o, int64_t q, double init, int64_t *where)
{
    double best = init;
    *where = -1;
    for (int64_t t = 0; t < p->window[0]; t++)
        for (int64_t u = 0; u < p->window[1]; u++) {
            int64_t i = met(p, 0, o, t), j = met(p, 1, q, u);
            double v = i < 0 || j < 0 ? init : x[i * COLUMNS + j];
            if (isnan(best) || !(v > best || isnan(v)))
                continue;
            best = v;
            *where = i * COLUMNS + j;
        }
    return best;
}

static flx_graph *parse(flx_context *ctx, const char *text, flx_module **m)
{
    flx_error err = {0};
    *m = flx_parse(ctx, text, strlen(text), "test", &err);
    CHECK_OK(*m ? FLX_OK : (flx_code)err.code, &err);
    return flx_module_main(*m);
}

static void write_graph(char *text, size_t size, const geometry *p, const char *combine)
{
    snprintf(text, size,
             "graph g(x: f64[6, 50], init: f64[]) { return reduce_window(x, init, window=[%d, %d], strides=[%d, %d],"
             " pad_low=[%d, %d], pad_high=[%d, %d], base_dilation=[%d, %d], window_dilation=[%d, %d], combine=%s) }",
             (int)p->window[0], (int)p->window[1], (int)p->stride[0], (int)p->stride[1], (int)p->low[0], (int)p->low[1],
             (int)p->high[0], (int)p->high[1], (int)p->base[0], (int)p->base[1], (int)p->dilation[0],
             (int)p->dilation[1], combine);
}

static flx_tensor *tensor(flx_context *ctx, int rank, const flx_dim *dims, const double *v)
{
    flx_type t = flx_type_make(FLX_F64, rank, dims);
    flx_tensor *x = flx_tensor_new(ctx, &t, v, NULL);
    CHECK(x != NULL);
    return x;
}

static void check_same(const flx_tensor *found, const double *want, const char *what)
{
    for (int64_t i = 0; i < flx_tensor_count(found); i++) {
        double v = flx_tensor_get(found, i);
        CHECK_MSG(v == want[i] || (isnan(v) && isnan(want[i])), "%s: element %d is %g, not %g", what, (int)i, v,
                  want[i]);
    }
}

/* What goes in and what must come out: maxima, and the gradient for the cotangent d. */
typedef struct {
    double x[ROWS * COLUMNS], init, d[MOST], y[MOST], dx[ROWS * COLUMNS], dinit;
    flx_dim dims[2], counts[2];
} maxima;

static void expect(const geometry *p, int special, maxima *e)
{
    *e = (maxima){
        .init = special ? -INFINITY : 0, .dims = {ROWS, COLUMNS}, .counts = {windows_along(p, 0), windows_along(p, 1)}};
    for (int i = 0; i < ROWS * COLUMNS; i++)
        e->x[i] = element(i, special);
    CHECK(e->counts[0] * e->counts[1] <= MOST);
    for (int64_t i = 0; i < e->counts[0] * e->counts[1]; i++) {
        int64_t where;
        e->y[i] = maximum(p, e->x, i / e->counts[1], i % e->counts[1], e->init, &where);
        e->d[i] = (double)(i % 7 + 1);
        *(where < 0 ? &e->dinit : &e->dx[where]) += e->d[i];
    }
}

static void check_maxima(const geometry *p, const char *device, int special)
{
    static maxima e;
    char text[600];
    flx_error err = {0};
    flx_module *m;
    flx_context *ctx = flx_context_new(NULL);
    const flx_run_options on = {.struct_size = sizeof on, .device = device};
    const flx_grad_options seeded = {.struct_size = sizeof seeded, .flags = FLX_GRAD_SEED_INPUT};
    expect(p, special, &e);
    write_graph(text, sizeof text, p, "max");
    const flx_graph *g = parse(ctx, text, &m);
    flx_tensor *out[2] = {NULL, NULL};
    flx_tensor *in[3] = {tensor(ctx, 2, e.dims, e.x), tensor(ctx, 0, NULL, &e.init), tensor(ctx, 2, e.counts, e.d)};
    const flx_feed feeds[3] = {{"x", in[0]}, {"init", in[1]}, {"d_output", in[2]}};
    CHECK_OK(flx_run(g, &on, feeds, 2, out, &err), &err);
    check_same(out[0], e.y, text);
    flx_tensor_release(out[0]);
    flx_graph *grad = flx_grad(g, (const char *const[]){"x", "init"}, 2, &seeded, &err);
    CHECK_OK(grad ? FLX_OK : (flx_code)err.code, &err);
    CHECK_OK(flx_run(grad, &on, feeds, 3, out, &err), &err);
    check_same(out[0], e.dx, text);
    check_same(out[1], &e.dinit, text);
    for (int k = 0; k < 3; k++)
        flx_tensor_release(in[k]);
    flx_tensor_release(out[0]);
    flx_tensor_release(out[1]);
    flx_graph_release(grad);
    flx_module_free(m);
    flx_context_free(ctx);
}

TEST(wide_windows_have_the_first_maximum)
{
    for (size_t i = 0; i < sizeof geometries / sizeof *geometries; i++)
        for (int special = 0; special < 2; special++) {
            check_maxima(&geometries[i], "ref", special);
            check_maxima(&geometries[i], "cpu", special);
        }
}

/* ---- Memory, and who computes ---- */

/* Bytes per element of x that a run of the text, or of its gradient with respect to x, takes. */
static int64_t work_bytes(flx_context *ctx, const char *text, bool differentiate)
{
    flx_error err = {0};
    flx_module *m;
    uint32_t status = 0;
    flx_tensor *out[1];
    const flx_graph *g = parse(ctx, text, &m);
    const flx_compile_options o = {.struct_size = sizeof o, .threads = 1, .optimisation = 1};
    const flx_run_options r = {.struct_size = sizeof r, .status = &status};
    const flx_type *t = flx_val_type(g, flx_graph_input(g, 0));
    flx_graph *grad = differentiate ? flx_grad(g, (const char *const[]){"x"}, 1, NULL, &err) : NULL;
    CHECK_OK(grad || !differentiate ? FLX_OK : (flx_code)err.code, &err);
    flx_exec *e = flx_compile(grad ? grad : g, &o, &err);
    CHECK_OK(e ? FLX_OK : (flx_code)err.code, &err);
    flx_tensor *x = flx_tensor_new(ctx, t, NULL, &err);
    CHECK(x != NULL);
    CHECK_OK(flx_exec_run(e, &r, &(flx_feed){"x", x}, 1, out, &err), &err);
    CHECK_MSG(!(status & FLX_RUN_SLOW), "%s: the evaluator computes a part", text);
    int64_t bytes = (int64_t)flx_exec_memory(e) / flx_tensor_count(x);
    flx_tensor_release(out[0]);
    flx_tensor_release(x);
    flx_exec_free(e);
    flx_graph_release(grad);
    flx_module_free(m);
    return bytes;
}

TEST(wide_windows_take_memory_of_their_operand_alone)
{
    enum { ENOUGH = 100 };
    static const char *const texts[] = {
        "graph g(x: f32[20000]) { return reduce_sum(reduce_window(x, -inf, window=[3000], pad_low=[2999], "
        "combine=max)) }",
        "graph g(x: f32[20000]) { return reduce_sum(reduce_window(x, 0, window=[3000], pad_low=[2999], combine=add)) }",
        "graph g(x: bf16[20000]) { return reduce_sum(reduce_window(x, inf, window=[3000], pad_low=[2999], "
        "combine=min)) }",
        "graph g(x: f32[1, 1, 90, 200]) { return reduce_sum(pool(x, kind=max, kernel_size=[40, 40], stride=[1, 1])) }",
        "graph g(x: f16[1, 1, 90, 200]) { return reduce_sum(pool(x, kind=min, kernel_size=[40, 40], stride=[1, 1])) }",
        "graph g(x: f32[1, 1, 90, 200]) { return reduce_sum(pool(x, kind=mean, kernel_size=[40, 40], stride=[1, 1])) }",
    };
    flx_context *ctx = flx_context_new(NULL);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (int grad = 0; grad < 2; grad++) {
            int64_t bytes = work_bytes(ctx, texts[i], grad);
            CHECK_MSG(bytes <= ENOUGH, "%s: %d bytes per element%s", texts[i], (int)bytes, grad ? ", gradient" : "");
        }
    flx_context_free(ctx);
}

/* Each element is in one window at most: it is copied once at most. */
TEST(wide_windows_apart_are_not_folded_by_blocks)
{
    enum { ENOUGH = 12 }; /* a copy of the element, and its index */
    static const char *const texts[] = {
        "graph g(x: f32[4, 8, 40, 40]) { return reduce_sum(pool(x, kind=mean, kernel_size=[40, 40])) }",
        "graph g(x: f32[65000]) { return reduce_sum(reduce_window(x, 0, window=[65], strides=[65], combine=add)) }",
        "graph g(x: f32[60000]) { return reduce_sum(reduce_window(x, 0, window=[300], strides=[6000], combine=max)) }",
    };
    flx_context *ctx = flx_context_new(NULL);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        int64_t bytes = work_bytes(ctx, texts[i], 0);
        CHECK_MSG(bytes <= ENOUGH, "%s: %d bytes per element", texts[i], (int)bytes);
    }
    flx_context_free(ctx);
}
