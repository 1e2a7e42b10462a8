/* SPDX-License-Identifier: Apache-2.0 */
/* tangent_text.h: derivatives of a graph given as text, along directions and from cotangents chosen by hand. Where
   every direction is 1, gradient_text.h is shorter. */
#ifndef FLX_TEST_TANGENT_TEXT_H
#define FLX_TEST_TANGENT_TEXT_H

#include "test.h"

#include <fluxion/run.h>
#include <fluxion/text.h>
#include <fluxion/transform.h>
#include <string.h>

enum { TANGENT_MAX = 8 };

/* A value of an input, or with f64 elements what an output must be. */
typedef struct {
    const char *name;
    double v[TANGENT_MAX];
} tangent_row;

typedef struct {
    flx_context *ctx;
    flx_module *m;
    const flx_graph *g;
    flx_error err;
} tangent_graph;

static inline tangent_graph tangent_parse(const char *text)
{
    tangent_graph t = {.ctx = flx_context_new(NULL)};
    t.m = flx_parse(t.ctx, text, strlen(text), "test", &t.err);
    CHECK_OK(t.m ? FLX_OK : t.err.code, &t.err);
    t.g = flx_module_main(t.m);
    return t;
}

static inline void tangent_end(tangent_graph *t)
{
    flx_module_free(t->m);
    flx_context_free(t->ctx);
}

static inline flx_tensor *tangent_tensor(flx_context *ctx, const flx_type *type, const double *v)
{
    flx_type wide = *type;
    wide.dtype = FLX_F64;
    flx_tensor *t = flx_tensor_new(ctx, &wide, v, NULL);
    flx_tensor *y = t ? flx_tensor_cast(t, (flx_dtype)type->dtype, NULL) : NULL;
    CHECK(y != NULL);
    flx_tensor_release(t);
    return y;
}

static inline void tangent_compare(const flx_tensor *found, const tangent_row *want)
{
    for (int64_t e = 0; e < flx_tensor_count(found); e++) {
        test_fail_context("%s, element %d", want->name, (int)e);
        CHECK_NEAR(flx_tensor_get(found, e), want->v[e], 0);
    }
}

/* Runs `made` (which is freed) at the rows with the names of its inputs, and compares the outputs with the expected
   ones by name. */
static inline void tangent_check(tangent_graph *t, flx_graph *made, const tangent_row *at, size_t n,
                                 const tangent_row *want, size_t num_want)
{
    flx_feed feeds[TANGENT_MAX];
    flx_tensor *out[TANGENT_MAX] = {0};
    CHECK_OK(made ? FLX_OK : t->err.code, &t->err);
    size_t inputs = flx_graph_input_count(made);
    for (size_t i = 0; i < inputs; i++) {
        flx_val v = flx_graph_input(made, i);
        const char *name = flx_val_name(made, v);
        size_t k = 0;
        while (k < n && strcmp(at[k].name, name) != 0)
            k++;
        CHECK_MSG(k < n, "no value for input %s", name);
        feeds[i] = (flx_feed){name, tangent_tensor(t->ctx, flx_val_type(made, v), at[k].v)};
    }
    CHECK_OK(flx_run(made, ON_REF, feeds, inputs, out, &t->err), &t->err);
    size_t compared = 0;
    for (size_t k = 0; k < flx_graph_output_count(made); k++) {
        for (size_t w = 0; w < num_want; w++)
            if (strcmp(want[w].name, flx_graph_output_name(made, k)) == 0) {
                tangent_compare(out[k], &want[w]);
                compared++;
            }
        flx_tensor_release(out[k]);
    }
    CHECK_EQ_U64(compared, num_want);
    for (size_t i = 0; i < inputs; i++)
        flx_tensor_release((flx_tensor *)(uintptr_t)feeds[i].value);
    flx_graph_release(made);
}

/* The tangent of output y along tangents of these inputs. */
static inline void check_tangent(const char *text, const char *const *wrt, size_t count, const tangent_row *at,
                                 size_t n, tangent_row want)
{
    tangent_graph t = tangent_parse(text);
    tangent_check(&t, flx_jvp(t.g, wrt, count, &t.err), at, n, &want, 1);
    tangent_end(&t);
}

#endif
