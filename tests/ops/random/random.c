/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers: published vectors, moments, independence of shape, and errors. Exact values of every op:
   tests/oracle/random_draws.py.

   Moments of n draws are within 5 standard deviations of their own distribution: a mean within 5 σ/√n, a variance
   within 5 √((κ − 1)/n) σ², where κ = E(x − μ)⁴/σ⁴. The draws are fixed, so these tests either always pass or
   never. */
#include "ops/batch_text.h"
#include "ops/symbolic_text.h"

#include <math.h>
#include <stdio.h>

enum { DRAWS = 100000 };

/* One wrong digit of a multiplier gives an entirely different stream. */
TEST(trap_68_rng_bits_known_answers)
{
    static const uint32_t philox[] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
    static const uint32_t threefry[] = {0x6b200159, 0x99ba4efe};
    text_run r = text_begin("graph g() { k = full(u32[2], 0)"
                            "  return rng_bits(k, shape=[4]), rng_bits(k, shape=[2], algorithm=threefry2x32) }");
    CHECK_OK(r.code, &r.err);
    const uint32_t *a = flx_tensor_const_data(r.out[0]);
    const uint32_t *b = flx_tensor_const_data(r.out[1]);
    for (int i = 0; i < 4; i++)
        CHECK_EQ_U64(a[i], philox[i]);
    for (int i = 0; i < 2; i++)
        CHECK_EQ_U64(b[i], threefry[i]);
    text_end(&r);
}

static void check_moments(const char *call, double mean, double variance, double kurtosis)
{
    char text[200];
    snprintf(text, sizeof text, "graph g() { k = const(u32[2], [7, 11])  return cast(%s, to=f64) }", call);
    test_fail_context("%s", call);
    text_run r = text_begin(text);
    CHECK_OK(r.code, &r.err);
    CHECK_EQ_I64(flx_tensor_count(r.out[0]), DRAWS);
    double sum = 0;
    double squares = 0;
    for (int64_t i = 0; i < DRAWS; i++) {
        double d = flx_tensor_get(r.out[0], i) - mean;
        sum += d;
        squares += d * d;
    }
    CHECK_NEAR(sum / DRAWS, 0, 5 * sqrt(variance / DRAWS));
    CHECK_NEAR(squares / DRAWS, variance, 5 * variance * sqrt((kurtosis - 1) / DRAWS));
    text_end(&r);
}

TEST(random_draws_have_the_right_moments)
{
    double cut = 2 * exp(-2) / sqrt(2 * acos(-1)) / erf(sqrt(2.0)); /* 2 φ(2) / (2 Φ(2) − 1) */
    double variance = 1 - 2 * cut;
    double fourth = 3 - cut * (8 + 6); /* E x⁴ = 3 E x² − 8·cut */
    check_moments("rng_uniform(k, shape=[100000], lo=-1, hi=3)", 1, 16.0 / 12, 1.8);
    check_moments("rng_uniform(k, shape=[100000], dtype=f64)", 0.5, 1.0 / 12, 1.8);
    check_moments("rng_normal(k, shape=[100000], mean=3, std=2)", 3, 4, 3);
    check_moments("rng_normal(k, shape=[100000], dtype=f64)", 0, 1, 3);
    check_moments("exponential(k, shape=[100000])", 1, 1, 9);
    check_moments("truncated_normal(k, shape=[100000])", 0, variance, fourth / (variance * variance));
    check_moments("gamma(k, full(f32[], 0.5), shape=[100000])", 0.5, 0.5, 3 + 6 / 0.5);
    check_moments("gamma(k, full(f64[], 4), shape=[100000])", 4, 4, 3 + 6 / 4.0);
    check_moments("bernoulli(k, 0.25, shape=[100000])", 0.25, 0.1875, 7.0 / 3);
    check_moments("rng_bits(k, shape=[100000], dtype=u8)", 127.5, 65535 / 12.0, 1.8);
    check_moments("dropout(full(f32[100000], 3), k, rate=0.25)", 3, 9.0 / 3, 7.0 / 3);
    check_moments("categorical(k, expand(const(f32[2], [0, 1.0986123]), shape=[100000, 2]))", 0.75, 0.1875, 7.0 / 3);
    check_moments("sample(expand(const(f32[2], [0, 1.0986123]), shape=[100000, 2]))", 0.75, 0.1875, 7.0 / 3);
    check_moments("permutation(k, n=100000)", (DRAWS - 1) / 2.0, ((double)DRAWS * DRAWS - 1) / 12, 1.8);
}

/* Neighbouring elements are uncorrelated: the mean product of n pairs of unit variance is within 5/√n of 0. */
TEST(random_neighbours_are_uncorrelated)
{
    text_run r = text_begin("graph g() { return rng_normal(shape=[100000]), rng_normal(shape=[100000], stream=1) }");
    CHECK_OK(r.code, &r.err);
    for (int64_t lag = 1; lag < 5; lag++) {
        double inside = 0;
        double across = 0;
        for (int64_t i = 0; i + lag < DRAWS; i++) {
            inside += flx_tensor_get(r.out[0], i) * flx_tensor_get(r.out[0], i + lag);
            across += flx_tensor_get(r.out[0], i) * flx_tensor_get(r.out[1], i + lag - 1);
        }
        CHECK_NEAR(inside / DRAWS, 0, 5 / sqrt(DRAWS));
        CHECK_NEAR(across / DRAWS, 0, 5 / sqrt(DRAWS));
    }
    text_end(&r);
}

/* An element depends only on its index: a longer draw begins with the shorter one. */
TEST(random_draws_do_not_depend_on_shape)
{
    static const char *const calls[] = {
        "rng_uniform(k, shape=[%d])",         "rng_normal(k, shape=[%d], dtype=f64)", "gamma(k, 0.5, shape=[%d])",
        "truncated_normal(k, shape=[%d])",    "exponential(k, shape=[%d])",           "bernoulli(k, 0.5, shape=[%d])",
        "rng_bits(k, shape=[%d], dtype=u64)",
    };
    for (size_t c = 0; c < sizeof calls / sizeof *calls; c++) {
        flx_tensor *shown[2];
        text_run runs[2];
        for (int k = 0; k < 2; k++) {
            char call[80];
            char text[160];
            snprintf(call, sizeof call, calls[c], k == 0 ? 5 : 12);
            snprintf(text, sizeof text, "graph g() { k = const(u32[2], [1, 2])  return %s }", call);
            runs[k] = text_begin(text);
            CHECK_OK(runs[k].code, &runs[k].err);
            shown[k] = runs[k].out[0];
        }
        for (int64_t i = 0; i < 5; i++)
            CHECK_NEAR(flx_tensor_get(shown[0], i), flx_tensor_get(shown[1], i), 0);
        text_end(&runs[0]);
        text_end(&runs[1]);
    }
}

TEST(permutation_holds_every_position_once)
{
    static bool seen[1000];
    text_run r = text_begin("graph g() { return permutation(const(u32[2], [3, 4]), n=1000) }");
    CHECK_OK(r.code, &r.err);
    for (int64_t i = 0; i < 1000; i++) {
        int64_t at = (int64_t)flx_tensor_get(r.out[0], i);
        CHECK(at >= 0 && at < 1000 && !seen[at]);
        seen[at] = true;
    }
    text_end(&r);
}

TEST(random_errors_name_what_is_wrong)
{
    check_text_fails("graph g() { y = sample(const(f32[1, 2], [[0, nan]]))  return y }", FLX_E_NUMERIC,
                     "sample 'y': logit 1 of row 0 is NaN");
    check_text_fails("graph g() { y = sample(full(f32[1, 2], -inf))  return y }", FLX_E_NUMERIC,
                     "sample 'y': all logits of row 0 are -inf: no token has a nonzero probability");
    check_text_fails("graph g() { y = sample(full(f32[1, 2], 0), top_k=3)  return y }", FLX_E_ATTRIBUTE,
                     "sample 'y': top_k must be in 0 .. number of tokens, got 3");
    check_text_fails("graph g() { y = categorical(full(u32[2], 0), const(f32[2], [0, nan]))  return y }", FLX_E_NUMERIC,
                     "categorical 'y': logit 1 of row 0 is NaN");
    check_text_fails("graph g() { y = dropout(full(f32[2], 0), full(u32[2], 0), rate=-0.5)  return y }",
                     FLX_E_ATTRIBUTE, "dropout 'y': rate must be in [0, 1], got -0.5");
    check_text_fails("graph g() { s, y = rng_bit_generator(full(u64[4], 0), shape=[1], dtype=u32, algorithm=philox4x32)"
                     "  return y }",
                     FLX_E_SHAPE, "rng_bit_generator 's': state must be u64[2] or u32[4], but it is u64[4]");
    check_text_fails("graph g() { y = bernoulli(full(u32[2], 0), full(f32[3], 0), shape=[2])  return y }", FLX_E_SHAPE,
                     "bernoulli 'y': p, of shape [3], does not broadcast to shape=[2]");
}

TEST(sample_extreme_temperatures)
{
    text_run r = text_begin("graph g() { x = const(f64[2, 3], [[1e300, -1e300, 0], [-1e300, -2e300, -inf]])"
                            "  return sample(x, temperature=1e-300), sample(x, temperature=0),"
                            "         sample(x, temperature=inf), sample(x, temperature=-1) }");
    CHECK_OK(r.code, &r.err);
    for (int i = 0; i < 4; i += i == 1 ? 2 : 1)
        for (int64_t k = 0; k < 2; k++)
            CHECK_EQ_I64(flx_tensor_get(r.out[i], k), 0);
    CHECK(flx_tensor_get(r.out[2], 1) < 2); /* no temperature revives -inf */
    text_end(&r);
}

/* ---- Derivatives ---- */

/* The gradient with respect to x of the sum of `call`, which uses x: f64[8] and k, equals `want` at the same key. */
static void check_same_draws(const char *call, const char *want)
{
    char text[300];
    flx_error err = {0};
    snprintf(text, sizeof text, "graph g(x: f64[8]) { k = const(u32[2], [5, 6])  return reduce_sum(%s), %s }", call,
             want);
    test_fail_context("%s", call);
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_parse(ctx, text, strlen(text), "test", &err);
    CHECK_OK(m ? FLX_OK : err.code, &err);
    flx_graph *grad = flx_grad(flx_module_main(m), (const char *const[]){"x"}, 1, NULL, &err);
    CHECK_OK(grad ? FLX_OK : err.code, &err);
    flx_type type = flx_type_make(FLX_F64, 1, (const flx_dim[]){8});
    flx_tensor *x = gradient_uniform(ctx, &type, 3, 0);
    flx_tensor *out[2] = {NULL, NULL};
    CHECK_OK((int32_t)flx_run(grad, ON_REF, &(flx_feed){"x", x}, 1, out, &err), &err);
    for (int64_t i = 0; i < 8; i++)
        CHECK_NEAR(flx_tensor_get(out[1], i), flx_tensor_get(out[0], i), 0);
    flx_tensor_release(out[0]);
    flx_tensor_release(out[1]);
    flx_tensor_release(x);
    flx_graph_release(grad);
    flx_module_free(m);
    flx_context_free(ctx);
}

/* The first draw of this seed is exactly 0, where u <= cumulative would take the first token, which is impossible. */
TEST(trap_70_sample_never_draws_an_impossible_token)
{
    text_run r = text_begin("graph g() { return rng_uniform(shape=[1], seed=12121362),"
                            "  sample(log(const(f32[1, 3], [[0, 1, 1]])), seed=12121362) }");
    CHECK_OK(r.code, &r.err);
    CHECK_NEAR(flx_tensor_get(r.out[0], 0), 0, 0);
    CHECK_NEAR(flx_tensor_get(r.out[1], 0), 1, 0);
    text_end(&r);
}

/* All four are equal: the first two are kept, not all that equal the second. */
TEST(trap_71_sample_keeps_exactly_k_of_equal_logits)
{
    text_run r = text_begin("graph g() { return sample(full(f32[500, 4], 0), top_k=2, seed=3) }");
    bool seen[4] = {false};
    CHECK_OK(r.code, &r.err);
    for (int64_t i = 0; i < 500; i++)
        seen[(int)flx_tensor_get(r.out[0], i)] = true;
    CHECK(seen[0] && seen[1] && !seen[2] && !seen[3]);
    text_end(&r);
}

TEST(trap_69_gradients_use_the_draws_of_the_forward)
{
    check_same_draws("dropout(x, k, rate=0.5)", "dropout(full(f64[8], 1), k, rate=0.5)");
    check_same_draws("mul(x, rng_normal(k, shape=[8], dtype=f64))", "rng_normal(k, shape=[8], dtype=f64)");
    check_same_draws("where(bernoulli(k, 0.5, shape=[8]), x, mul(x, 2))",
                     "where(bernoulli(k, 0.5, shape=[8]), full(f64[8], 1), 2)");
}

TEST(dropout_of_everything_has_gradient_zero)
{
    check_gradient("graph g(x: f64[2]) { return mul(dropout(x, const(u32[2], [5, 6]), rate=1), 3) }",
                   (const gradient_row[]){{"x", {1, 2}, {0, 0}}}, 1);
}

/* ---- Batching ---- */

/* The op `call`, which draws from k and is batched over it, against the same op written with stream + b for each
   example. */
static void check_streams(const char *call, const char *dtype)
{
    enum { EXAMPLES = 3, MOST = 7 };
    char text[400];
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    snprintf(text, sizeof text, "graph f(k: u32[2]) { return %s, stream=-1, dtype=%s) }\n", call, dtype);
    test_fail_context("%s", text);
    flx_module *m = flx_parse(ctx, text, strlen(text), "test", &err);
    CHECK_OK(m ? FLX_OK : err.code, &err);
    flx_graph *v = flx_vmap(flx_module_main(m), &(flx_vmap_axis){"k", 0}, 1, NULL, 0, EXAMPLES, &err);
    CHECK_OK(v ? FLX_OK : err.code, &err);
    uint32_t keys[2 * EXAMPLES] = {7, 11, 7, 11, 3, 5}; /* two of them are equal */
    flx_type type = flx_type_make(FLX_U32, 2, (const flx_dim[]){EXAMPLES, 2});
    flx_tensor *k = flx_tensor_new(ctx, &type, keys, &err);
    flx_tensor *all = NULL;
    CHECK_OK((int32_t)flx_run(v, ON_REF, &(flx_feed){"k", k}, 1, &all, &err), &err);
    size_t size = flx_tensor_nbytes(all) / EXAMPLES;
    for (int b = 0; b < EXAMPLES; b++) {
        snprintf(text, sizeof text, "graph f() { k = const(u32[2], [%u, %u])  return %s, stream=%d, dtype=%s) }\n",
                 keys[2 * b], keys[2 * b + 1], call, b - 1, dtype);
        text_run one = text_begin(text);
        CHECK_OK(one.code, &one.err);
        CHECK_EQ_U64(flx_tensor_nbytes(one.out[0]), size);
        CHECK_MSG(memcmp((const char *)flx_tensor_const_data(all) + (size_t)b * size, flx_tensor_const_data(one.out[0]),
                         size) == 0,
                  "example %d draws something else", b);
        text_end(&one);
    }
    const char *bytes = flx_tensor_const_data(all);
    CHECK_MSG(memcmp(bytes, bytes + size, size) != 0, "examples with one key draw the same");
    flx_tensor_release(all);
    flx_tensor_release(k);
    flx_graph_release(v);
    flx_module_free(m);
    flx_context_free(ctx);
}

TEST(random_draws_of_a_batch_have_streams_of_their_own)
{
    static const char *const dtypes[] = {"f64", "f32", "f16", "bf16"};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        check_streams("rng_uniform(k, shape=[7], lo=-1, hi=3", dtypes[i]);
        check_streams("rng_uniform(k, shape=[2, 3]", dtypes[i]);
        check_streams("rng_normal(k, shape=[7], mean=3, std=0.5",
                      dtypes[i]); /* an odd number: half a pair is left over */
        check_streams("rng_normal(k, shape=[2, 2]", dtypes[i]);
    }
    check_streams("rng_uniform(k, shape=[]", "f64");
    check_streams("rng_normal(k, shape=[]", "f64");
}

/* A draw that nothing batches is the same for all examples. */
TEST(random_draws_without_a_batched_key_are_shared)
{
    double out[GRADIENT_MAX_PARTS];
    flx_error err = {0};
    const batch_row rows[] = {{"x", {0, 0, 0}, true}};
    CHECK_OK(run_batched("graph f(x: f64[]) { return add(x, rng_normal(shape=[2], dtype=f64, seed=3)) }", 3, rows, 1,
                         out, &err),
             &err);
    CHECK(out[0] == out[2] && out[0] == out[4] && out[1] == out[3] && out[1] == out[5] && out[0] != out[1]);
}

/* Batched rows of logits are rows like all others: their number in the batch is their stream. */
TEST(sample_of_a_batch_numbers_rows_through_it)
{
    enum { EXAMPLES = 4, ROWS = 3, TOKENS = 5 };
    static const char *const attrs[] = {"", ", temperature=0.5, seed=9", ", top_k=3, top_p=0.9", ", temperature=0"};
    double logits[EXAMPLES * ROWS * TOKENS];
    for (int i = 0; i < EXAMPLES * ROWS * TOKENS; i++)
        logits[i] = i % TOKENS == 0 ? 0.25 : 0.0; /* nearly the same in all rows: only the draws distinguish them */
    for (size_t a = 0; a < sizeof attrs / sizeof *attrs; a++) {
        char text[200];
        flx_error err = {0};
        flx_tensor *y[2] = {NULL, NULL};
        flx_context *ctx = flx_context_new(NULL);
        for (int batched = 0; batched < 2; batched++) {
            snprintf(text, sizeof text, "graph f(x: f64[%s3, 5]) { return sample(x%s) }", batched ? "" : "4, ",
                     attrs[a]);
            flx_module *m = flx_parse(ctx, text, strlen(text), "test", &err);
            CHECK_OK(m ? FLX_OK : err.code, &err);
            flx_graph *g = batched ? flx_vmap(flx_module_main(m), &(flx_vmap_axis){"x", 0}, 1, NULL, 0, EXAMPLES, &err)
                                   : flx_graph_retain(flx_module_main(m));
            CHECK_OK(g ? FLX_OK : err.code, &err);
            flx_type type = flx_type_make(FLX_F64, 3, (const flx_dim[]){EXAMPLES, ROWS, TOKENS});
            flx_tensor *x = flx_tensor_new(ctx, &type, logits, &err);
            CHECK_OK((int32_t)flx_run(g, ON_REF, &(flx_feed){"x", x}, 1, &y[batched], &err), &err);
            flx_tensor_release(x);
            flx_graph_release(g);
            flx_module_free(m);
        }
        test_fail_context("sample(x%s)", attrs[a]);
        CHECK_EQ_U64(flx_tensor_nbytes(y[0]), flx_tensor_nbytes(y[1]));
        CHECK(memcmp(flx_tensor_const_data(y[0]), flx_tensor_const_data(y[1]), flx_tensor_nbytes(y[0])) == 0);
        const char *bytes = flx_tensor_const_data(y[1]);
        size_t size = flx_tensor_nbytes(y[1]) / EXAMPLES;
        bool differ = false;
        for (int b = 1; b < EXAMPLES; b++)
            differ |= memcmp(bytes, bytes + (size_t)b * size, size) != 0;
        CHECK_MSG(differ == (a < 3), "examples draw %s", differ ? "differently" : "the same");
        flx_tensor_release(y[0]);
        flx_tensor_release(y[1]);
        flx_context_free(ctx);
    }
}
