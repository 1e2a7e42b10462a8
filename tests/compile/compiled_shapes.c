/* SPDX-License-Identifier: Apache-2.0 */
/* compiled_shapes.c: graphs whose kernels take a particular form: sums of columns inside kernels of rows, and small
   products as sums of products. Each must have the form (as many steps as said) and, compiled in every usual way, the
   reference's results. */
#include "compile/bundle.h"
#include "graph/graph.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    const char *text;
    uint64_t steps; /* of the fused executable */
} shape_case;

static uint64_t count_steps(const flx_exec *e)
{
    flx_step s;
    uint64_t n = 0;
    while (flx_exec_step(e, n, &s) == FLX_OK)
        n++;
    return n;
}

static void add_case(bundle *b, flx_context *ctx, const shape_case *c)
{
    flx_error err = {0};
    flx_module *m = flx_parse(ctx, c->text, strlen(c->text), "shape", &err);
    CHECK_MSG(m, "%s: %s", c->text, err.message);
    const flx_graph *g = flx_module_main(m);
    flx_exec *e = NULL;
    flx_compile_options o = {.cache = FLX_CACHE_OFF};
    e = flx_compile(g, &o, &err);
    CHECK_MADE(e, &err);
    EXPECT_MSG(count_steps(e) == c->steps, "%s: %llu steps instead of %llu", c->text,
               (unsigned long long)count_steps(e), (unsigned long long)c->steps);
    flx_exec_free(e);
    flx_tensor *values[8] = {0};
    for (size_t i = 0; i < g->leaves.n; i++) {
        values[i] = flx_tensor_new(ctx, flxi_value_at(g, g->leaves.at[i])->type, NULL, &err);
        CHECK_MSG(values[i], "%s", err.message);
        float *x = flx_tensor_data(values[i]);
        for (int64_t k = 0; k < flx_tensor_count(values[i]); k++)
            x[k] = (float)((k * 7919 + (int64_t)i * 104729) % 2003) / 1001.0f - 1.0f;
    }
    CHECK(bundle_add(b, g, values, c->text));
    flx_module_free(m);
}

static void check_cases(const shape_case *cases, size_t n)
{
    flx_context *ctx = bundle_context();
    bundle *b = bundle_new(ctx);
    for (size_t i = 0; i < n; i++)
        add_case(b, ctx, &cases[i]);
    for (size_t way = 0; way < way_count(); way++)
        bundle_check(b, way);
    bundle_free(b);
    flx_context_free(ctx);
}

#define NORM                                                   \
    "  c = sub(x, reduce_mean(x, axes=[1], keep_dims=true))\n" \
    "  h = mul(c, rsqrt(add(reduce_mean(mul(c, c), axes=[1], keep_dims=true), 1e-5)))\n"

TEST(compiled_sums_of_columns_join_the_rows)
{
    static const shape_case cases[] = {
        /* A norm's rows, and the sums that its parameters get: one kernel, and one for the parts of each sum. */
        {"graph f(x: f32[1024, 96], t: f32[1024, 96]) {\n" NORM
         "  return mul(h, t), reduce_sum(mul(h, t), axes=[0]), reduce_sum(t, axes=[0])\n}",
         3},
        /* No fold along the row. */
        {"graph f(x: f32[2048, 33], y: f32[2048, 33]) {\n"
         "  z = where(gt(x, 0), y, 0)\n  return mul(z, 2), reduce_sum(z, axes=[0])\n}",
         2},
        /* Leading axes are rows too; a mean is finished by the sum of the parts, a maximum starts from -inf. */
        {"graph f(x: f32[4, 256, 64]) {\n"
         "  z = exp(x)\n  return z, reduce_mean(z, axes=[0, 1]), reduce_max(z, axes=[0, 1])\n}",
         3},
        /* Few elements: one part. */
        {"graph f(x: f32[24, 40]) {\n"
         "  s = softmax(x, axis=1)\n  return s, reduce_sum(mul(s, x), axes=[0])\n}",
         1},
        /* What needs a sum of columns runs after it. */
        {"graph f(x: f32[24, 40]) {\n"
         "  s = softmax(x, axis=1)\n  return mul(s, reduce_sum(s, axes=[0]))\n}",
         2},
        /* 1021 rows have no parts: the sum stays a kernel of its own. */
        {"graph f(x: f32[1021, 96]) {\n"
         "  s = softmax(x, axis=1)\n  return s, reduce_sum(s, axes=[0])\n}",
         2},
    };
    check_cases(cases, sizeof cases / sizeof *cases);
}

/* The window has the whole extent of the last two axes, so the sum is needed where it is. */
TEST(compiled_updates_read_a_sum_at_its_own_row)
{
    static const shape_case cases[] = {{"graph f(x: f32[3, 3, 2], z: f32[3, 3, 2], i: i32[]) {\n"
                                        "  s = neg(reduce_sum(x, axes=[0], keep_dims=true))\n"
                                        "  return add(dynamic_update_slice(z, s, 0, 1, i), x)\n}",
                                        1}};
    check_cases(cases, 1);
}

TEST(compiled_small_products_join_their_surroundings)
{
    static const shape_case cases[] = {
        {"graph f(x: f32[3, 8], w: f32[8, 16], b: f32[16]) { return tanh(add(matmul(x, w), b)) }", 1},
        {"graph f(x: f32[8, 3], w: f32[8, 16]) { return exp(matmul(transpose(x), w)) }", 1},
        {"graph f(x: f32[3, 8], w: f32[16, 8]) { return exp(matmul(x, transpose(w))) }", 1},
        {"graph f(x: f32[5, 64], w: f32[64]) { return dot_general(x, w, lc=[1], rc=[0]) }", 1},
        {"graph f(x: f32[2, 3, 4], w: f32[5, 4, 3]) { return dot_general(x, w, lc=[1, 2], rc=[2, 1]) }", 1},
        {"graph f(x: f32[2, 3, 4], w: f32[5, 4, 2]) { return dot_general(x, w, lc=[2], rc=[1], lb=[0], rb=[2]) }", 1},
        /* An outer product has no sum, whatever its size. */
        {"graph f(x: f32[300, 1], w: f32[1, 200]) { return add(matmul(x, w), 1) }", 1},
        {"graph f(x: f32[3, 0], w: f32[0, 5]) { return add(matmul(x, w), 1) }", 2},
        /* Products without elements, which agree in their number with everything that has none. */
        {"graph f(p: f32[0, 3], t: f32[3, 0], x: f32[3]) {\n"
         "  v = matmul(p, matmul(transpose(p), transpose(t)))\n"
         "  w = matmul(matmul(transpose(t), transpose(p)), p)\n"
         "  z = sub(sub(v, matmul(matmul(v, t), p)), matmul(matmul(p, t), p))\n"
         "  return matmul(add(z, sub(w, matmul(p, matmul(t, w)))), unsqueeze(x, axes=[1]))\n}",
         15},
        /* A batch of tiny ones, whatever its number; sums of more than eight terms stay products. */
        {"graph f(x: f32[700, 5, 3], w: f32[700, 3]) {\n"
         "  return exp(dot_general(x, w, lc=[2], rc=[1], lb=[0], rb=[0]))\n}",
         1},
        {"graph f(x: f32[700, 5, 9], w: f32[700, 9]) {\n"
         "  return exp(dot_general(x, w, lc=[2], rc=[1], lb=[0], rb=[0]))\n}",
         2},
        /* A large one is left to the products of the backend. */
        {"graph f(x: f32[32, 32], w: f32[32, 32]) { return exp(matmul(x, w)) }", 2},
    };
    check_cases(cases, sizeof cases / sizeof *cases);
}

/* Rows long enough for several elements at a time, with a rest or none; NaN anywhere, and zeros of both signs, which
   the sign of an infinity tells apart. */
TEST(compiled_maxima_of_long_rows_are_exact)
{
    static const shape_case cases[] = {
        {"graph f(x: f32[40, 300]) {\n"
         "  y = cast(x, to=f64)\n  return reduce_max(x, axes=[1]), reduce_min(sin(x), axes=[1]), reduce_max(y, "
         "axes=[1])"
         "\n}",
         1},
        {"graph f(x: f32[64, 256]) {\n"
         "  z = where(gt(x, 0.999), log(sub(0, x)), x)\n  o = mul(x, 0)\n"
         "  return reduce_max(z, axes=[1]), reduce_min(z, axes=[1]), div(1, reduce_max(o, axes=[1])),\n"
         "    div(1, reduce_min(o, axes=[1]))\n}",
         1},
    };
    check_cases(cases, sizeof cases / sizeof *cases);
}

/* ---- Small blocks as one function ---- */

/* How many functions of chains the text of the kernels has. */
static int count_chains(const char *dir)
{
    char path[700], line[400];
    int n = 0;
    snprintf(path, sizeof path, "%s/kernels_0.c", dir);
    FILE *f = fopen(path, "r");
    CHECK_MSG(f, "no text in %s", path);
    while (fgets(line, sizeof line, f))
        n += strncmp(line, "void flxc_", 10) == 0 && !strchr(line, ';');
    fclose(f);
    unlink(path);
    return n;
}

/* Runs a graph of x: f32[4, 4] plainly, where the function serves, and with each step looked at, where it does not. */
static void check_chain_at(const char *text, int chains, int32_t optimisation)
{
    char dir[600];
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    snprintf(dir, sizeof dir, "%s/chain-XXXXXX", test_temp_dir());
    CHECK(mkdtemp(dir));
    flx_module *m = flx_parse(ctx, text, strlen(text), "chain", &err);
    CHECK_MSG(m, "%s", err.message);
    const flx_compile_options o = {.dump_dir = dir, .cache = FLX_CACHE_OFF, .optimisation = optimisation};
    flx_exec *e = NULL;
    e = flx_compile(flx_module_main(m), &o, &err);
    CHECK_MADE(e, &err);
    CHECK_EQ_I64(count_chains(dir), chains);
    rmdir(dir);
    const flx_dim dims[] = {4, 4};
    flx_type type = flx_type_make(FLX_F32, 2, dims);
    flx_tensor *x = flx_tensor_new(ctx, &type, NULL, &err), *plain = NULL, *watched = NULL, *right = NULL;
    for (int i = 0; i < 16; i++)
        ((float *)flx_tensor_data(x))[i] = 0.25f * (float)(i % 7) - 0.5f;
    flx_feed feed = {"x", x};
    const flx_run_options finite = {.flags = FLX_RUN_CHECK_FINITE}, ref = {.device = "ref"};
    CHECK_OK(flx_exec_run(e, NULL, &feed, 1, &plain, &err), &err);
    CHECK_OK(flx_exec_run(e, &finite, &feed, 1, &watched, &err), &err);
    CHECK_OK(flx_run(flx_module_main(m), &ref, &feed, 1, &right, &err), &err);
    CHECK(memcmp(flx_tensor_const_data(plain), flx_tensor_const_data(watched), flx_tensor_nbytes(plain)) == 0);
    for (int64_t i = 0; i < flx_tensor_count(plain); i++)
        CHECK_NEAR(flx_tensor_get(plain, i), flx_tensor_get(right, i), 1e-5);
    flx_tensor_release(x);
    flx_tensor_release(plain);
    flx_tensor_release(watched);
    flx_tensor_release(right);
    flx_exec_free(e);
    flx_module_free(m);
    flx_context_free(ctx);
}

/* Without optimisation the kernels are called, with it they become part of the function. */
static void check_chain(const char *text, int chains)
{
    check_chain_at(text, chains, 0);
    check_chain_at(text, chains, 1);
    check_chain_at(text, chains, 4);
}

TEST(compiled_small_blocks_are_one_function)
{
    /* Each product needs all elements of the one before: three kernels. */
    check_chain("graph f(x: f32[4, 4]) { return matmul(tanh(matmul(tanh(matmul(x, x)), x)), x) }", 1);
    /* A loop's body is a block of its own. */
    check_chain("graph step(c: f32[4, 4]) { return tanh(matmul(tanh(matmul(c, c)), c)) }\n"
                "graph f(x: f32[4, 4]) { return scan(x, body=@step, num_carry=1, length=5) }",
                1);
    /* One kernel is called as it is, and so are kernels with an evaluated op between them. */
    check_chain("graph f(x: f32[4, 4]) { return tanh(x) }", 0);
    check_chain("graph f(x: f32[4, 4]) { return exp(cumlogsumexp(exp(x), axis=0)) }", 0);
}

/* ---- Many elements ---- */

/* More than 2^31 elements, of which none is in memory. Sums of integers are exact in any order. */
TEST(compiled_shapes_of_more_than_two_to_the_31_elements)
{
    static const char text[] = "graph main(x: i64[32769]) {\n"
                               "  i = iota(i64[65537, 32769], axis=0)\n"
                               "  b = broadcast_in_dim(x, shape=[65537, 32769], axes=[1])\n"
                               "  return reduce_sum(add(i, b))\n}\n";
    const int64_t n = 65537, m = 32769;
    flx_error err = {0};
    flx_buffer report = {0};
    flx_context *ctx = bundle_context();
    flx_module *module = flx_parse(ctx, text, strlen(text), "many", &err);
    CHECK_MADE(module, &err);
    flx_exec *e = flx_compile(flx_module_main(module), NULL, &err);
    CHECK_MADE(e, &err);
    CHECK_OK(flx_exec_report(e, &report, &err), &err);
    CHECK_MSG(!strstr(report.data, "evaluate steps"), "%s", (const char *)report.data);
    CHECK(flx_exec_memory(e) < (size_t)1 << 26);
    int64_t *x = malloc((size_t)m * sizeof *x), sum = 0;
    CHECK(x != NULL);
    for (int64_t j = 0; j < m; j++)
        x[j] = j * j - 7 * j;
    for (int64_t j = 0; j < m; j++)
        sum += n * x[j];
    sum += m * (n * (n - 1) / 2);
    int64_t got = 0;
    CHECK_OK(flx_exec_run_at(e, (const void *const[]){x}, (void *const[]){&got}, &err), &err);
    CHECK_EQ_I64(got, sum);
    free(x);
    flx_buffer_free(&report);
    flx_exec_free(e);
    flx_module_free(module);
    flx_context_free(ctx);
}
