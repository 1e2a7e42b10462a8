/* SPDX-License-Identifier: Apache-2.0 */
/* pass_meaning.c: each pass of the compiler alone, on random graphs and their gradients and on reductions that it
   changes: the reference evaluator gives the same before and after. */
#include "autodiff/transform_text.h"
#include "backend/devices.h"
#include "compile/pipeline.h"
#include "random/plain_subject.h"
#include "test.h"

#include <math.h>

static void agree(const flx_graph *g, flx_tensor *const *a, flx_tensor *const *b, double tolerance, const char *pass)
{
    for (size_t i = 0; i < flx_graph_output_count(g); i++) {
        double most = 0;
        for (int64_t k = 0; k < flx_tensor_count(a[i]); k++)
            most = fmax(most, fabs(flx_tensor_get(a[i], k)));
        for (int64_t k = 0; k < flx_tensor_count(a[i]); k++) {
            double x = flx_tensor_get(a[i], k), y = flx_tensor_get(b[i], k);
            CHECK_MSG(fabs(x - y) <= tolerance * most, "%s: output %zu at %lld: %.17g before, %.17g after", pass, i,
                      (long long)k, x, y);
        }
    }
}

static void check_subject(const subject *s, const flx_graph *g, double tolerance)
{
    flx_tensor *before[RANDOM_MAX_VALUES], *after[RANDOM_MAX_VALUES];
    flx_error err = {0};
    const char *name;
    const flxi_device *cpu = NULL;
    CHECK_OK(flxi_device_find("cpu", &cpu, &err), &err);
    CHECK(flx_graph_output_count(g) <= RANDOM_MAX_VALUES);
    CHECK_MSG(subject_run(s, g, before, &err), "%s", err.message);
    for (size_t i = 0; (name = flxi_compile_pass_name(i)); i++) {
        flx_graph *changed = NULL;
        CHECK_OK(flxi_compile_pass(i, cpu, g, &changed, &err), &err);
        CHECK_OK(flx_graph_verify(changed, &err), &err);
        CHECK_MSG(subject_run(s, changed, after, &err), "%s: %s", name, err.message);
        agree(g, before, after, tolerance, name);
        bench_release(g, after);
        flx_graph_release(changed);
        test_count_case();
    }
    bench_release(g, before);
}

TEST(passes_keep_the_meaning_of_random_graphs)
{
    uint64_t first = test_seed() % 1000000;
    for (uint64_t seed = first; seed < first + 60; seed++) {
        subject s;
        flx_module *module;
        flx_error err = {0};
        if (!random_subject(&s, seed, &module))
            continue;
        test_fail_context("seed %llu", (unsigned long long)seed);
        flx_graph *bound = flx_specialise(s.g, s.dims, known_dims(s.g, s.dims, s.num_dims), &err);
        CHECK_MSG(bound, "%s", err.message);
        check_subject(&s, bound, graph_is_single(bound) ? 1e-3 : 1e-9);
        flx_graph_release(bound);
        random_subject_free(&s, module);
    }
}

/* Long reductions are split, and those over axes that are no neighbours; a mean is decomposed first. */
TEST(passes_keep_the_meaning_of_long_reductions)
{
    text_bench b =
        bench_open("graph f(x: f64[300, 5, 200]) {\n"
                   "  a = reduce_sum(x)\n  m = reduce_mean(x, axes=[0, 2])\n  h = reduce_max(x, axes=[0, 2])\n"
                   "  return a, m, h, reduce_sum(mul(x, x), axes=[0])\n}\n",
                   NULL);
    enum { COUNT = 300 * 5 * 200 };
    double *x = malloc(COUNT * sizeof *x);
    uint64_t state = test_seed();
    for (int i = 0; i < COUNT; i++)
        x[i] = test_uniform(&state);
    bench_feed(&b, "x", 3, (const flx_dim[]){300, 5, 200}, x);
    free(x);
    flx_tensor *before[TEXT_OUTPUTS], *after[TEXT_OUTPUTS];
    flx_graph *optimised = NULL;
    bench_run(&b, b.g, before);
    const flxi_device *cpu = NULL;
    CHECK_OK(flxi_device_find("cpu", &cpu, &b.err), &b.err);
    bool left_out = false;
    CHECK_OK(flxi_optimise(b.g, cpu, true, &optimised, &left_out, &b.err), &b.err);
    CHECK(!left_out);
    CHECK(optimised->node_count > b.g->node_count); /* something was split */
    bench_run(&b, optimised, after);
    agree(b.g, before, after, 1e-10, "all passes");
    bench_release(b.g, before);
    bench_release(b.g, after);
    flx_graph_release(optimised);
    bench_close(&b);
}
