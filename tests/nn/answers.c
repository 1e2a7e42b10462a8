/* SPDX-License-Identifier: Apache-2.0 */
/* answers.c: see answers.h. */
#include "answers.h"

#include "test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_INPUTS = 64 };

void answers_open(answers *a, const char *name)
{
    a->ctx = flx_context_new(NULL);
    a->g = flx_graph_new(a->ctx, name);
    snprintf(a->path, sizeof a->path, "%s/tests/oracle/fixtures/nn/%s.npz", FLX_SOURCE_DIR, name);
}

void answers_close(answers *a)
{
    flx_graph_release(a->g);
    flx_context_free(a->ctx);
}

flx_tensor *answers_read(const answers *a, const char *key)
{
    flx_error err = {0};
    return flx_npz_read(a->ctx, a->path, key, &err);
}

static void compare(const char *what, const flx_tensor *y, const flx_tensor *want)
{
    CHECK_MSG(flx_tensor_count(y) == flx_tensor_count(want), "%s has another size", what);
    for (int64_t i = 0; i < flx_tensor_count(y); i++) {
        double got = flx_tensor_get(y, i), expected = flx_tensor_get(want, i);
        EXPECT_MSG(fabs(got - expected) <= 1e-12 * (1 + fabs(expected)), "%s[%lld] is %.17g instead of %.17g", what,
                   (long long)i, got, expected);
    }
}

/* A C compiler does not optimise here: that takes most of the time, and other tests are about it. */
static void run_on(const char *device, const flx_graph *g, const flx_feed *feeds, size_t n, flx_tensor **out)
{
    flx_error err = {0};
    if (strcmp(device, "ref") == 0) {
        CHECK_OK(flx_run(g, &(flx_run_options){.device = device}, feeds, n, out, &err), &err);
        return;
    }
    flx_exec *e = flx_compile(g, &(flx_compile_options){.device = device, .optimisation = 1}, &err);
    CHECK_MADE(e, &err);
    CHECK_OK(flx_exec_run(e, NULL, feeds, n, out, &err), &err);
    flx_exec_free(e);
}

void answers_check(const answers *a, const flx_graph *g, const char *device)
{
    flx_feed feeds[MOST_INPUTS];
    flx_tensor *in[MOST_INPUTS], *out[MOST_INPUTS] = {0};
    size_t n = flx_graph_input_count(g);
    CHECK(n <= MOST_INPUTS && flx_graph_output_count(g) <= MOST_INPUTS);
    for (size_t i = 0; i < n; i++) {
        const char *name = flx_val_name(g, flx_graph_input(g, i));
        in[i] = answers_read(a, name);
        CHECK_MSG(in[i], "%s has no %s", a->path, name);
        feeds[i] = (flx_feed){name, in[i]};
    }
    run_on(device, g, feeds, n, out);
    for (size_t k = 0; k < flx_graph_output_count(g); k++) {
        const char *name = flx_graph_output_name(g, k);
        flx_tensor *want = answers_read(a, name);
        CHECK_MSG(want || strcmp(name, "loss") == 0, "no answer for %s", name); /* that of a case is a sum of others */
        if (want)
            compare(name, out[k], want);
        flx_tensor_release(want);
        flx_tensor_release(out[k]);
    }
    for (size_t i = 0; i < n; i++)
        flx_tensor_release(in[i]);
}

size_t answers_check_gradient(const answers *a, const flx_graph *g, uint32_t grad_flags)
{
    flx_error err = {0};
    const char *wrt[MOST_INPUTS];
    size_t n = 0;
    CHECK(flx_graph_input_count(g) <= MOST_INPUTS);
    for (size_t i = 0; i < flx_graph_input_count(g); i++) {
        char key[256];
        const char *name = flx_val_name(g, flx_graph_input(g, i));
        snprintf(key, sizeof key, "d_%s", name);
        flx_tensor *d = answers_read(a, key);
        if (d)
            wrt[n++] = name;
        flx_tensor_release(d);
    }
    CHECK(n > 0);
    flx_graph *grad = flx_grad(g, wrt, n, &(flx_grad_options){.flags = grad_flags}, &err);
    CHECK_MSG(grad, "%s", err.message);
    answers_check(a, grad, "ref");
    answers_check(a, grad, "cpu");
    flx_graph_release(grad);
    return n;
}

flx_val answers_input(const answers *a, const char *name)
{
    flx_tensor *t = answers_read(a, name);
    CHECK_MSG(t, "%s has no %s", a->path, name);
    flx_val v = flx_input(a->g, name, flx_tensor_type(t));
    flx_tensor_release(t);
    return v;
}

/* One gradient graph that also returns the value: everything is compiled once. */
void answers_check_case(const char *name, answers_build build)
{
    answers a;
    flx_error err = {0};
    test_fail_context("%s", name);
    answers_open(&a, name);
    flx_val y = build(&a), loss = y;
    flx_tensor *seed = answers_read(&a, "seed");
    if (seed)
        loss = flx_reduce_sum(a.g, flx_mul(a.g, y, answers_input(&a, "seed")), FLX_ALL, 0);
    flx_tensor_release(seed);
    flx_output(a.g, loss, "loss");
    flx_output(a.g, y, "out");
    CHECK_OK(flx_graph_verify(a.g, &err), &err);
    answers_check_gradient(&a, a.g, FLX_GRAD_VALUE);
    answers_close(&a);
}
