/* SPDX-License-Identifier: Apache-2.0 */
/* gradient_text.h: exact derivatives of a graph given as text, at points chosen by hand (kinks, ties, zeros, poles). */
#ifndef FLX_TEST_GRADIENT_TEXT_H
#define FLX_TEST_GRADIENT_TEXT_H

#include "test.h"

#include <fluxion/run.h>
#include <fluxion/text.h>
#include <fluxion/transform.h>
#include <stdio.h>
#include <string.h>

enum { GRADIENT_MAX_INPUTS = 6, GRADIENT_MAX_PARTS = 16 };

/* An input of the graph: its elements, row-major, and its expected derivative. A complex element is two numbers. */
typedef struct {
    const char *name;
    double at[GRADIENT_MAX_PARTS];
    double want[GRADIENT_MAX_PARTS];
} gradient_row;

typedef struct {
    flx_context *ctx;
    flx_module *module;
    const gradient_row *rows;
    size_t n;
    const char *names[GRADIENT_MAX_INPUTS];
    flx_tensor *point[GRADIENT_MAX_INPUTS];
    flx_feed feeds[2 * GRADIENT_MAX_INPUTS]; /* the point, then what a transform adds */
    double tolerance;                        /* absolute */
    uint32_t flags;                          /* more of grad's */
} gradient_run;

static inline int gradient_parts(const flx_type *t)
{
    return t->dtype == FLX_C64 || t->dtype == FLX_C128 ? 2 : 1;
}

/* The parts as numbers, whatever the dtype. */
static inline void gradient_read(const flx_tensor *t, double *v)
{
    const flx_type *type = flx_tensor_type(t);
    size_t count = (size_t)flx_tensor_count(t) * (size_t)gradient_parts(type);
    CHECK(count <= GRADIENT_MAX_PARTS);
    flx_tensor *wide = flx_tensor_cast(t, gradient_parts(type) == 2 ? FLX_C128 : FLX_F64, NULL);
    CHECK(wide != NULL);
    memcpy(v, flx_tensor_const_data(wide), count * sizeof *v);
    flx_tensor_release(wide);
}

static inline flx_tensor *gradient_tensor(flx_context *ctx, const flx_type *type, const double *v)
{
    flx_type wide = *type;
    wide.dtype = gradient_parts(type) == 2 ? FLX_C128 : FLX_F64;
    flx_tensor *t = flx_tensor_new(ctx, &wide, v, NULL);
    flx_tensor *y = t ? flx_tensor_cast(t, (flx_dtype)type->dtype, NULL) : NULL;
    CHECK(y != NULL);
    flx_tensor_release(t);
    return y;
}

/* A tensor whose elements are all re + i*im. */
static inline flx_tensor *gradient_uniform(flx_context *ctx, const flx_type *type, double re, double im)
{
    double v[GRADIENT_MAX_PARTS];
    int parts = gradient_parts(type);
    for (int i = 0; i < GRADIENT_MAX_PARTS; i++)
        v[i] = parts == 2 && i % 2 ? im : re;
    return gradient_tensor(ctx, type, v);
}

static inline gradient_run gradient_begin(const char *text, const gradient_row *rows, size_t n)
{
    flx_error err = {0};
    gradient_run r = {.ctx = flx_context_new(NULL), .rows = rows, .n = n};
    r.module = flx_parse(r.ctx, text, strlen(text), "test", &err);
    CHECK_OK(r.module ? FLX_OK : err.code, &err);
    const flx_graph *g = flx_module_main(r.module);
    CHECK(n <= GRADIENT_MAX_INPUTS && n == flx_graph_input_count(g));
    for (size_t i = 0; i < n; i++) {
        const flx_type *type = flx_val_type(g, flx_graph_find(g, rows[i].name));
        CHECK(type != NULL);
        r.names[i] = rows[i].name;
        r.point[i] = gradient_tensor(r.ctx, type, rows[i].at);
        r.feeds[i] = (flx_feed){rows[i].name, r.point[i]};
    }
    return r;
}

static inline void gradient_end(gradient_run *r)
{
    for (size_t i = 0; i < r->n; i++)
        flx_tensor_release(r->point[i]);
    flx_module_free(r->module);
    flx_context_free(r->ctx);
}

/* Runs g, which is freed, on the point and `extra` feeds that follow it. */
static inline void gradient_eval(const gradient_run *r, flx_graph *g, size_t extra, flx_tensor **out)
{
    flx_error err = {0};
    CHECK_OK(flx_graph_verify(g, &err), &err);
    CHECK(flx_graph_output_count(g) <= 2 * GRADIENT_MAX_INPUTS);
    CHECK_OK((int32_t)flx_run(g, ON_REF, r->feeds, r->n + extra, out, &err), &err);
    flx_graph_release(g);
}

static inline void gradient_compare(const gradient_run *r, flx_tensor **found, const char *what)
{
    for (size_t i = 0; i < r->n; i++) {
        double v[GRADIENT_MAX_PARTS];
        int64_t count = flx_tensor_count(found[i]) * gradient_parts(flx_tensor_type(found[i]));
        gradient_read(found[i], v);
        for (int64_t k = 0; k < count; k++) {
            test_fail_context("%s of %s, number %lld", what, r->names[i], (long long)k);
            CHECK_NEAR(v[k], r->rows[i].want[k], r->tolerance);
        }
        flx_tensor_release(found[i]);
    }
}

/* Forward mode along 1 (and i) in one input: the sum of the output's tangents is the sum of the expected
   derivatives. */
static inline void gradient_forward(gradient_run *r, size_t i, int part)
{
    char name[64];
    flx_error err = {0};
    flx_tensor *out[2] = {0};
    double v[GRADIENT_MAX_PARTS];
    double want = 0;
    double found = 0;
    const flx_type *type = flx_tensor_type(r->point[i]);
    snprintf(name, sizeof name, "tangent_%s", r->names[i]);
    flx_tensor *tangent = gradient_uniform(r->ctx, type, part == 0, part == 1);
    r->feeds[r->n] = (flx_feed){name, tangent};
    flx_graph *jvp = flx_jvp(flx_module_main(r->module), &r->names[i], 1, &err);
    CHECK_OK(jvp ? FLX_OK : err.code, &err);
    gradient_eval(r, jvp, 1, out);
    int step = gradient_parts(flx_tensor_type(out[1]));
    gradient_read(out[1], v);
    for (int64_t k = 0; k < flx_tensor_count(out[1]) * step; k += step)
        found += v[k];
    for (int64_t k = part; k < flx_tensor_count(tangent) * gradient_parts(type); k += gradient_parts(type))
        want += r->rows[i].want[k];
    test_fail_context("forward mode along %s%s", part ? "i " : "", r->names[i]);
    CHECK_NEAR(found, want, r->tolerance * GRADIENT_MAX_PARTS);
    flx_tensor_release(out[0]);
    flx_tensor_release(out[1]);
    flx_tensor_release(tangent);
}

static inline void gradient_reverse(gradient_run *r)
{
    flx_error err = {0};
    flx_tensor *out[2 * GRADIENT_MAX_INPUTS] = {0};
    const flx_graph *g = flx_module_main(r->module);
    flx_grad_options options = {.flags = FLX_GRAD_SEED_INPUT | FLX_GRAD_MISSING_ZERO | r->flags};
    flx_graph *grad = flx_grad(g, r->names, r->n, &options, &err);
    CHECK_OK(grad ? FLX_OK : err.code, &err);
    flx_tensor *seed = gradient_uniform(r->ctx, flx_val_type(g, flx_graph_output(g, 0)), 1, 0);
    r->feeds[r->n] = (flx_feed){"d_output", seed};
    gradient_eval(r, grad, 1, out);
    gradient_compare(r, out, "gradient");
    flx_tensor_release(seed);
}

/* The one output of the text, at the point the rows give: reverse mode from the cotangent 1 gives each input its
   `want`. One row for each input; all are differentiated. */
static inline void check_reverse(const char *text, const gradient_row *rows, size_t n)
{
    gradient_run r = gradient_begin(text, rows, n);
    gradient_reverse(&r);
    gradient_end(&r);
}

/* The same, and forward mode agrees; each number is off by at most the tolerance. */
static inline void check_gradient_near(const char *text, const gradient_row *rows, size_t n, double tolerance)
{
    gradient_run r = gradient_begin(text, rows, n);
    r.tolerance = tolerance;
    gradient_reverse(&r);
    for (size_t i = 0; i < n; i++)
        for (int part = 0; part < gradient_parts(flx_tensor_type(r.point[i])); part++)
            gradient_forward(&r, i, part);
    r.flags = FLX_GRAD_BACKWARD_OPS;
    gradient_reverse(&r);
    gradient_end(&r);
}

static inline void check_gradient(const char *text, const gradient_row *rows, size_t n)
{
    check_gradient_near(text, rows, n, 0);
}

/* Second derivatives of a one-element output: `want` is the Hessian times a vector of ones. */
static inline void check_hessian_of_ones(const char *text, const gradient_row *rows, size_t n)
{
    char names[GRADIENT_MAX_INPUTS][64];
    flx_error err = {0};
    flx_tensor *out[2 * GRADIENT_MAX_INPUTS] = {0};
    flx_tensor *ones[GRADIENT_MAX_INPUTS];
    gradient_run r = gradient_begin(text, rows, n);
    flx_grad_options options = {.flags = FLX_GRAD_MISSING_ZERO};
    flx_graph *hvp = flx_hvp(flx_module_main(r.module), r.names, n, &options, &err);
    CHECK_OK(hvp ? FLX_OK : err.code, &err);
    for (size_t i = 0; i < n; i++) {
        snprintf(names[i], sizeof names[i], "tangent_%s", r.names[i]);
        ones[i] = gradient_uniform(r.ctx, flx_tensor_type(r.point[i]), 1, 0);
        r.feeds[n + i] = (flx_feed){names[i], ones[i]};
    }
    gradient_eval(&r, hvp, n, out);
    gradient_compare(&r, out, "Hessian");
    for (size_t i = 0; i < n; i++)
        flx_tensor_release(ones[i]);
    gradient_end(&r);
}

#endif
