/* SPDX-License-Identifier: Apache-2.0 */
/* zero_signs.c: cases of docs/numerics.md about the signs of zeros that no sample of an op is: sums that are cut into
   parts, products without a sum, einsum. The law over all samples is in compiled_samples.c. */
#include "graph/graph_text.h"

#include <math.h>

/* x and y are full of -0 and -1: f32[N] and f32[M]. Each result is a zero; the sign of all its elements. */
static const struct {
    const char *text;
    bool is_negative;
} rows[] = {
    {"graph f(x: f32[20000], y: f32[3]) { return reduce_sum(x) }", true},
    {"graph f(x: f32[20000], y: f32[3]) { return reduce_mean(x) }", false},
    {"graph f(x: f32[20000], y: f32[3]) { return reduce_mean(reshape(x, shape=[10000, 2]), axes=[0]) }", false},
    {"graph f(x: f32[20000], y: f32[3]) { return reduce_mean(cast(reshape(x, shape=[100, 200]), to=bf16), axes=[1]) }",
     false},
    {"graph f(x: f32[20000], y: f32[3]) { return reduce_mean(complex(x, x)) }", false},
    {"graph f(x: f32[2000], y: f32[3]) { return einsum(x, neg(y), eq=\"i,j->ij\") }", true},
    {"graph f(x: f32[2000], y: f32[3]) { return einsum(x, eq=\"i->i\") }", true},
    {"graph f(x: f32[2000], y: f32[3]) { return einsum(x, eq=\"i->\") }", false},
    {"graph f(x: f32[2000], y: f32[3]) { return einsum(x, x, y, eq=\"i,i,j->j\") }", false},
    {"graph f(x: f32[2000], y: f32[3]) { return einsum(x, neg(y), eq=\"i,j->j\") }", false},
    {"graph f(x: f32[2000], y: f32[3]) { return dot_general(x, neg(y), lc=[], rc=[], lb=[], rb=[]) }", true},
    {"graph f(x: f32[2000], y: f32[3]) { return dot_general(x, full(f32[2000], 1), lc=[], rc=[], lb=[0], rb=[0]) }",
     true},
    {"graph f(x: f32[2000], y: f32[3])"
     " { return dot_general(cast(x, to=bf16), cast(neg(y), to=bf16), lc=[], rc=[], lb=[], rb=[]) }",
     true},
    {"graph f(x: f32[2000], y: f32[3])"
     " { return matmul(reshape(x, shape=[2000, 1]), reshape(neg(y), shape=[1, 3])) }",
     false},
};

/* `flags` are those of compiling; NULL: the reference evaluator. */
static flx_tensor *run(const flx_graph *g, const flx_feed *feeds, const uint32_t *flags)
{
    flx_error err = {0};
    flx_tensor *out = NULL;
    if (!flags) {
        CHECK_OK(flx_run(g, ON_REF, feeds, 2, &out, &err), &err);
        return out;
    }
    flx_exec *e = flx_compile(g, &(flx_compile_options){.device = "cpu", .flags = *flags, .optimisation = 1}, &err);
    CHECK_MADE(e, &err);
    CHECK_OK(flx_exec_run(e, NULL, feeds, 2, &out, &err), &err);
    flx_exec_free(e);
    return out;
}

static void check_row(size_t row, const char *way, const uint32_t *flags)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = graph_of(ctx, rows[row].text);
    flx_tensor *in[2];
    flx_feed feeds[2];
    for (size_t i = 0; i < 2; i++) {
        in[i] = flx_tensor_new(ctx, flx_val_type(g, flx_graph_input(g, i)), NULL, &err);
        CHECK_MADE(in[i], &err);
        for (int64_t k = 0; k < flx_tensor_count(in[i]); k++)
            ((float *)flx_tensor_data(in[i]))[k] = i ? -1.0f : -0.0f;
        feeds[i] = (flx_feed){i ? "y" : "x", in[i]};
    }
    flx_tensor *out = run(g, feeds, flags);
    int64_t wrong = 0;
    for (int64_t k = 0; k < flx_tensor_count(out); k++) {
        double y = flx_tensor_get(out, k);
        wrong += y != 0 || (signbit(y) != 0) != rows[row].is_negative;
    }
    EXPECT_MSG(wrong == 0, "%s, %s: %lld elements are not %s0", rows[row].text, way, (long long)wrong,
               rows[row].is_negative ? "-" : "+");
    flx_tensor_release(out);
    flx_tensor_release(in[0]);
    flx_tensor_release(in[1]);
    flx_graph_release(g);
    flx_context_free(ctx);
    test_count_case();
}

TEST(zero_signs_of_sums_and_products_are_those_of_the_reference)
{
    const uint32_t grouped = 0, ungrouped = FLX_COMPILE_UNGROUPED;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        check_row(i, "ref", NULL);
        check_row(i, "cpu", &grouped);
        check_row(i, "cpu, ungrouped", &ungrouped);
    }
}
