/* SPDX-License-Identifier: Apache-2.0 */
/* compiled_scans.c: scans in compiled code: what leaves the loop, what the loop's function consists of, and that the
   results are those of the reference evaluator. Numbers are f64, small enough for the loops not to amplify differences,
   and sums have fewer than 500 terms: another order of additions changes them by less than 500 · 500 · 2^-53 of their
   size, far below the tolerance. */
#include "autodiff/transform_text.h"
#include "test.h"

#include <math.h>

static const double tolerance = 1e-10;

/* ---- Running in both ways ---- */

static flx_tensor *filled(flx_context *ctx, const flx_type *type, uint64_t *state)
{
    flx_error err = {0};
    flx_tensor *x = flx_tensor_new(ctx, type, NULL, &err);
    CHECK_MSG(x, "%s", err.message);
    for (int64_t i = 0; i < flx_tensor_count(x); i++) {
        double v = test_uniform(state) * 0.5 - 0.25;
        float f = (float)v;
        if (type->dtype == FLX_F64)
            ((double *)flx_tensor_data(x))[i] = v;
        else if (type->dtype == FLX_F32)
            ((float *)flx_tensor_data(x))[i] = f;
        else /* the upper half of a float is a bf16 */
            memcpy((char *)flx_tensor_data(x) + 2 * i, (const char *)&f + 2, 2);
    }
    return x;
}

static flx_tensor *inputs[16];
static flx_feed feeds[16];

static size_t feed_all(flx_context *ctx, const flx_graph *g)
{
    uint64_t state = test_seed();
    size_t n = flx_graph_input_count(g);
    CHECK(n <= 16);
    for (size_t i = 0; i < n; i++) {
        const char *name = flx_val_name(g, flx_graph_input(g, i));
        inputs[i] = filled(ctx, flx_val_type(g, flx_graph_input(g, i)), &state);
        feeds[i] = (flx_feed){name, inputs[i]};
    }
    return n;
}

static void expect_same(const flx_graph *g, flx_tensor *const *a, flx_tensor *const *b, double bound, const char *what)
{
    for (size_t k = 0; k < flx_graph_output_count(g); k++)
        for (int64_t i = 0; i < flx_tensor_count(a[k]); i++) {
            double x = flx_tensor_get(a[k], i), y = flx_tensor_get(b[k], i);
            EXPECT_MSG(fabs(x - y) <= bound * fmax(1, fabs(x)) || (isnan(x) && isnan(y)),
                       "%s: output %zu at %lld: %.17g by reference, %.17g", what, k, (long long)i, x, y);
        }
}

/* The reference, compiled code whose scans are functions, and the same one step after the other: the last two agree to
   the bit. */
static void check_graph(flx_context *ctx, const flx_graph *g, uint32_t flags, double bound, const char *what)
{
    flx_tensor *right[TEXT_OUTPUTS], *plain[TEXT_OUTPUTS], *watched[TEXT_OUTPUTS];
    flx_error err = {0};
    size_t n = feed_all(ctx, g);
    const flx_run_options ref = {.device = "ref"}, finite = {.flags = FLX_RUN_CHECK_FINITE};
    CHECK_OK(flx_run(g, &ref, feeds, n, right, &err), &err);
    flx_exec *e = NULL;
    e = flx_compile(g, &(flx_compile_options){.flags = flags}, &err);
    CHECK_MADE(e, &err);
    CHECK_OK(flx_exec_run(e, NULL, feeds, n, plain, &err), &err);
    CHECK_OK(flx_exec_run(e, &finite, feeds, n, watched, &err), &err);
    expect_same(g, right, plain, bound, what);
    for (size_t k = 0; k < flx_graph_output_count(g); k++)
        EXPECT_MSG(memcmp(flx_tensor_const_data(plain[k]), flx_tensor_const_data(watched[k]),
                          flx_tensor_nbytes(plain[k])) == 0,
                   "%s: output %zu differs between the function and its steps", what, k);
    flx_exec_free(e);
    bench_release(g, right);
    bench_release(g, plain);
    bench_release(g, watched);
    for (size_t i = 0; i < n; i++)
        flx_tensor_release(inputs[i]);
    test_count_case();
}

static void check_text(const char *text, uint32_t flags)
{
    text_bench b = bench_open(text, NULL);
    test_fail_context("%s", text);
    check_graph(b.ctx, b.g, flags, tolerance, "scan");
    bench_close(&b);
}

/* ---- Forms of scans ---- */

/* $ is what follows the body in the call. */
static const char *const bodies[] = {
    /* before the loop: a product of the sequence; after it: a product of the carry */
    "graph step(c: f64[3, 8], w: f64[8, 8], b: f64[8], x: f64[3, 8]) {\n"
    "  n = tanh(add(add(matmul(x, w), b), mul(c, 0.5)))\n  return n, matmul(n, w)\n}\n"
    "graph f(c: f64[3, 8], w: f64[8, 8], b: f64[8], xs: f64[L, 3, 8]) {\n"
    "  h, ys = scan(c, w, b, xs, body=@step, num_bcast=2$)\n  return h, ys\n}\n",
    /* inside: a product of the carry; rows that are the carry, a broadcast input, the sequence, a constant */
    "graph step(c: f64[3, 8], w: f64[8, 8], b: f64[8], x: f64[3, 8]) {\n"
    "  n = tanh(add(matmul(c, w), x))\n  return n, c, b, x, full(f64[2], 3)\n}\n"
    "graph f(c: f64[3, 8], w: f64[8, 8], b: f64[8], xs: f64[L, 3, 8]) {\n"
    "  h, r, s, t, u = scan(c, w, b, xs, body=@step, num_bcast=2$)\n  return h, r, s, t, u\n}\n",
    /* sums: of products, transposed and not, of rows, of what is needed elsewhere; and one that is read */
    "graph step(c: f64[3, 4], a: f64[4, 5], d: f64[5, 4], e: f64[4], s: f64[3, 4], x: f64[3, 4], y: f64[3, 5]) {\n"
    "  n = sin(add(c, x))\n  p = matmul(transpose(n, perm=[1, 0]), y)\n"
    "  q = transpose(matmul(transpose(x, perm=[1, 0]), y), perm=[1, 0])\n"
    "  return n, add(a, p), add(q, d), add(e, reduce_sum(n, axes=[0])), add(s, mul(s, n))\n}\n"
    "graph f(c: f64[3, 4], a: f64[4, 5], d: f64[5, 4], e: f64[4], xs: f64[L, 3, 4], ys: f64[L, 3, 5]) {\n"
    "  n, p, q, r, s = scan(c, a, d, e, c, xs, ys, body=@step, num_carry=5$)\n  return n, p, q, r, s\n}\n",
    /* sums of dot_general, of two products, of a value that is shown as well; f32 in between */
    "graph step(a: f64[4, 5], b: f64[3, 4], c: f64[4, 5], x: f64[3, 4], y: f64[3, 5]) {\n"
    "  p = dot_general(x, y, lc=[0], rc=[0])\n  q = dot_general(mul(x, x), y, lc=[0], rc=[0])\n"
    "  v = mul(x, 2)\n  return add(a, add(p, q)), add(b, v), add(dot_general(b, y, lc=[0], rc=[0]), c), v\n}\n"
    "graph f(a: f64[4, 5], b: f64[3, 4], xs: f64[L, 3, 4], ys: f64[L, 3, 5]) {\n"
    "  p, q, r, v = scan(a, b, a, xs, ys, body=@step, num_carry=3$)\n  return p, q, r, v\n}\n",
    /* nothing is left inside; a carry that forgets */
    "graph step(c: f64[3, 4], w: f64[4, 4], x: f64[3, 4]) {\n  y = matmul(x, w)\n  return y, exp(y)\n}\n"
    "graph f(c: f64[3, 4], w: f64[4, 4], xs: f64[L, 3, 4]) {\n"
    "  n, y = scan(c, w, xs, body=@step, num_bcast=1$)\n  return n, y\n}\n",
    /* what is the same in all steps: a product and a transposed weight */
    "graph step(c: f64[16, 16], w: f64[16, 16], x: f64[16, 16]) {\n"
    "  u = matmul(w, w)\n  n = tanh(add(dot_general(c, w, lc=[1], rc=[1]), matmul(x, transpose(u, perm=[1, 0]))))\n"
    "  return n, reduce_sum(mul(n, u), axes=[1])\n}\n"
    "graph f(c: f64[16, 16], w: f64[16, 16], xs: f64[L, 16, 16]) {\n"
    "  n, y = scan(c, w, xs, body=@step, num_bcast=1$)\n  return n, y\n}\n",
    /* a scan in a scan, and integers that count */
    "graph inner(h: f64[2, 4], w: f64[4, 4], x: f64[2, 4]) { n = tanh(add(matmul(h, w), matmul(x, w))) return n, n }\n"
    "graph step(c: f64[2, 4], i: i32[], w: f64[4, 4], x: f64[3, 2, 4]) {\n"
    "  h, hs = scan(c, w, x, body=@inner, num_bcast=1)\n  return h, add(i, 1), reduce_sum(hs, axes=[0])\n}\n"
    "graph f(c: f64[2, 4], w: f64[4, 4], xs: f64[L, 3, 2, 4]) {\n"
    "  h, i, y = scan(c, const(i32[], 0), w, xs, body=@step, num_carry=2, num_bcast=1$)\n  return h, i, y\n}\n",
    /* a product of matching rows, not of matrices, with what is the same in all steps; views around it */
    "graph step(x: f64[2], s: f64[], p: f64[2, 3], z: f64[3, 3], c: f64[1, 4]) {\n"
    "  d = concat(concat(broadcast_in_dim(x, shape=[2, 1], axes=[0]), p, axis=1), c, axis=0)\n"
    "  y = dot_general(slice(d, start=[0, 1], limit=[3, 4]), z, lc=[1], rc=[1], lb=[0], rb=[0])\n"
    "  t = reduce_sum(y)\n  return mul(x, 0.5), add(s, t), y\n}\n"
    "graph f(x: f64[2], s: f64[], p: f64[2, 3], z: f64[3, 3], cs: f64[L, 1, 4]) {\n"
    "  x2, t, y = scan(x, s, p, z, cs, body=@step, num_carry=2, num_bcast=2$)\n  return x2, t, y\n}\n",
    /* the same with the carry in the product, and the weight first */
    "graph step(x: f64[3, 4], z: f64[3, 4], c: f64[3, 4]) {\n"
    "  y = dot_general(tanh(x), z, lc=[1], rc=[1], lb=[0], rb=[0])\n"
    "  w = dot_general(z, x, lc=[0], rc=[0], lb=[1], rb=[1])\n"
    "  return add(mul(x, unsqueeze(y, axes=[1])), c), y, w\n}\n"
    "graph f(x: f64[3, 4], z: f64[3, 4], cs: f64[L, 3, 4]) {\n"
    "  x2, y, w = scan(x, z, cs, body=@step, num_bcast=1$)\n  return x2, y, w\n}\n",
};

/* The text with L and $ replaced. */
static char *written(const char *text, const char *length, const char *options)
{
    size_t room = strlen(text) + 400, n = 0;
    char *out = malloc(room);
    for (const char *p = text; *p; p++) {
        bool is_length = *p == 'L' && (p[-1] == '[') && (p[1] == ',');
        const char *put = is_length ? length : *p == '$' ? options : NULL;
        n += put ? (size_t)snprintf(out + n, room - n, "%s", put) : 1;
        if (!put)
            out[n - 1] = *p;
    }
    out[n] = 0;
    return out;
}

TEST(compiled_scans_give_what_the_reference_gives)
{
    static const char *const lengths[] = {"0", "1", "2", "5", "70"};
    static const char *const options[] = {"", ", reverse=true", ", save_trajectory=true",
                                          ", save_trajectory=true, reverse=true", ", num_checkpoints=2"};
    for (size_t b = 0; b < sizeof bodies / sizeof *bodies; b++)
        for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
            for (size_t o = 0; o < sizeof options / sizeof *options; o++) {
                if ((l + o + b + test_seed()) % 3 != 0 && !(l == 3 && o < 2))
                    continue; /* a third of them, others with each seed */
                char *text = written(bodies[b], lengths[l], options[o]);
                check_text(text, 0);
                free(text);
            }
}

TEST(compiled_scans_save_some_rows_of_a_trajectory)
{
    for (size_t b = 0; b < 2; b++) {
        char *text = written(bodies[b], "7", ", save_trajectory=true, num_checkpoints=3, reverse=true");
        check_text(text, 0);
        free(text);
    }
}

TEST(compiled_scans_without_vectors_or_fusion)
{
    for (size_t b = 0; b < sizeof bodies / sizeof *bodies; b++) {
        char *text = written(bodies[b], "4", "");
        check_text(text, b % 2 ? FLX_COMPILE_SCALAR : FLX_COMPILE_UNGROUPED);
        check_text(text, FLX_COMPILE_INTERPRET);
        free(text);
    }
}

/* The length is a symbol until values show it. */
TEST(compiled_scan_of_a_symbolic_length)
{
    char *text = written(bodies[0], "N", "");
    text_bench b = bench_open(text, NULL);
    flx_exec *e = NULL;
    e = flx_compile(b.g, NULL, &b.err);
    CHECK_MADE(e, &b.err);
    for (int64_t n = 0; n < 4; n++) {
        flx_graph *bound = flx_specialise(b.g, &(flx_dim_binding){"N", n}, 1, &b.err);
        CHECK_MSG(bound, "%s", b.err.message);
        flx_tensor *right[TEXT_OUTPUTS], *y[TEXT_OUTPUTS];
        size_t count = feed_all(b.ctx, bound);
        CHECK_OK(flx_run(bound, &(flx_run_options){.device = "ref"}, feeds, count, right, &b.err), &b.err);
        CHECK_OK(flx_exec_run(e, NULL, feeds, count, y, &b.err), &b.err);
        expect_same(bound, right, y, tolerance, "symbolic length");
        bench_release(bound, right);
        bench_release(bound, y);
        for (size_t i = 0; i < count; i++)
            flx_tensor_release(inputs[i]);
        flx_graph_release(bound);
    }
    flx_exec_free(e);
    bench_close(&b);
    free(text);
}

/* ---- Gradients ---- */

#define CELL                                                                                      \
    "graph cell(h: f64[4, 48], w: f64[48, 48], u: f64[48, 48], b: f64[48], x: f64[4, 48]) {\n"    \
    "  n = tanh(add(add(matmul(h, w), matmul(x, u)), b))\n  return n, matmul(n, u)\n}\n"          \
    "graph rnn(w: f64[48, 48], u: f64[48, 48], b: f64[48], xs: f64[6, 4, 48], h: f64[4, 48]) {\n" \
    "  n, ys = scan(h, w, u, b, xs, body=@cell, num_bcast=3"
#define GATES                                                                                               \
    "graph cell(h: f64[2, 8], c: f64[2, 8], u: f64[8, 32], x: f64[2, 32]) {\n"                              \
    "  g = add(x, matmul(h, u))\n  i = sigmoid(narrow(g, axis=1, start=0, len=8))\n"                        \
    "  f = sigmoid(narrow(g, axis=1, start=8, len=8))\n  o = sigmoid(narrow(g, axis=1, start=16, len=8))\n" \
    "  z = add(mul(f, c), mul(i, tanh(narrow(g, axis=1, start=24, len=8))))\n  n = mul(o, tanh(z))\n"       \
    "  return n, z, n\n}\n"                                                                                 \
    "graph lstm(u: f64[8, 32], xs: f64[5, 2, 32], h: f64[2, 8]) {\n"                                        \
    "  n, z, ys = scan(h, h, u, xs, body=@cell, num_carry=2, num_bcast=1"
#define END ")\n  return reduce_sum(mul(ys, sin(ys)))\n}\n"

TEST(compiled_gradients_of_scans)
{
    static const struct {
        const char *text;
        uint32_t flags;
    } cases[] = {{CELL END, 0},
                 {CELL END, FLX_GRAD_BACKWARD_OPS},
                 {CELL ", reverse=true" END, 0},
                 {CELL ", num_checkpoints=2" END, 0},
                 {GATES END, 0},
                 {GATES ", reverse=true" END, FLX_GRAD_BACKWARD_OPS}};
    static const char *const of_cell[] = {"w", "u", "b", "xs", "h"}, *const of_gates[] = {"u", "xs", "h"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        text_bench b = bench_open(cases[i].text, NULL);
        bool is_cell = strncmp(cases[i].text, CELL, 40) == 0;
        const flx_grad_options o = {.flags = cases[i].flags | FLX_GRAD_VALUE};
        flx_graph *g = flx_grad(b.g, is_cell ? of_cell : of_gates, is_cell ? 5 : 3, &o, &b.err);
        CHECK_MSG(g, "%s", b.err.message);
        test_fail_context("gradient %zu", i);
        check_graph(b.ctx, g, 0, tolerance, "gradient");
        flx_graph_release(g);
        bench_close(&b);
    }
}

TEST(compiled_second_derivatives_of_a_scan)
{
    text_bench b = bench_open(CELL END, NULL);
    static const char *const wrt[] = {"w"};
    flx_graph *g = flx_hvp(b.g, wrt, 1, NULL, &b.err);
    CHECK_MSG(g, "%s", b.err.message);
    check_graph(b.ctx, g, 0, tolerance, "hvp");
    flx_graph_release(g);
    bench_close(&b);
}

/* ---- What the report says ---- */

static char *report_of(const flx_graph *g, const flx_compile_options *o)
{
    flx_error err = {0};
    flx_exec *e = NULL;
    flx_buffer text = {0};
    e = flx_compile(g, o, &err);
    CHECK_MADE(e, &err);
    CHECK_OK(flx_exec_report(e, &text, &err), &err);
    char *out = strndup(text.data, text.size);
    flx_buffer_free(&text);
    flx_exec_free(e);
    return out;
}

/* The gradient of a recurrent network: nothing is called in a step of either loop, one product is left in each, and the
   gradients of weights are no carries. */
TEST(compiled_scan_calls_nothing_in_its_steps)
{
    text_bench b = bench_open(CELL END, NULL);
    static const char *const wrt[] = {"w", "u", "b"};
    flx_graph *g = flx_grad(b.g, wrt, 3, NULL, &b.err);
    CHECK_MSG(g, "%s", b.err.message);
    flx_exec *e = NULL;
    e = flx_compile(g, NULL, &b.err);
    CHECK_MADE(e, &b.err);
    flx_step s;
    int emitted = 0, loops = 0;
    for (size_t i = 0; flx_exec_step(e, i, &s) == FLX_OK; i++) {
        loops += strcmp(s.kind, "scan") == 0;
        emitted += strcmp(s.name, "matmul in the function of its block") == 0;
        EXPECT_MSG(s.depth == 0 || strcmp(s.kind, "kernel") == 0 || strcmp(s.kind, "emitted") == 0,
                   "step %zu of a loop, %s, is a %s", i, s.name, s.kind);
    }
    CHECK_EQ_I64(loops, 2);
    EXPECT_MSG(emitted == 2, "%d products are left in two loops", emitted);
    char *report = report_of(g, NULL);
    EXPECT_MSG(strstr(report, "one function with the loop around it"), "%s", report);
    free(report);
    flx_exec_free(e);
    flx_graph_release(g);
    bench_close(&b);
}

TEST(compiled_scan_says_why_a_product_is_called)
{
    static const struct {
        const char *text, *why;
        uint32_t flags;
        int32_t threads;
    } cases[] = {
        {"graph s(h: f32[80, 64], w: f32[64, 64]) { return tanh(matmul(h, w)) }\n"
         "graph f(h: f32[80, 64], w: f32[64, 64]) { return scan(h, w, body=@s, num_bcast=1, length=9) }\n",
         "it has rows enough for packing to pay", 0, 1},
        {"graph s(h: f32[15, 256], w: f32[256, 256]) { return tanh(matmul(h, w)) }\n"
         "graph f(h: f32[15, 256], w: f32[256, 256]) { return scan(h, w, body=@s, num_bcast=1, length=9) }\n",
         "it is large enough for threads", 0, 2},
        {"graph s(h: f32[8, 64], w: f32[64, 64]) { return sort(tanh(matmul(h, w)), axis=1) }\n"
         "graph f(h: f32[8, 64], w: f32[64, 64]) { return scan(h, w, body=@s, num_bcast=1, length=9) }\n",
         "the loop has other steps that are called", 0, 0},
        {"graph s(h: f32[8, 64], w: f32[64, 64]) { return tanh(matmul(h, w)) }\n"
         "graph f(h: f32[8, 64], w: f32[64, 64]) { return scan(h, w, body=@s, num_bcast=1, length=9) }\n",
         "vectors are switched off", FLX_COMPILE_SCALAR, 0},
        {"graph s(h: bf16[8, 64], w: bf16[64, 64]) { return tanh(matmul(h, w)) }\n"
         "graph f(h: bf16[8, 64], w: bf16[64, 64]) { return scan(h, w, body=@s, num_bcast=1, length=9) }\n",
         "its dtype is neither f32 nor f64", 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        text_bench b = bench_open(cases[i].text, NULL);
        char *report = report_of(b.g, &(flx_compile_options){.flags = cases[i].flags, .threads = cases[i].threads});
        EXPECT_MSG(strstr(report, cases[i].why), "'%s' is not in\n%s", cases[i].why, report);
        free(report);
        bench_close(&b);
    }
}

/* ---- What must stay ---- */

/* More would have to be kept than the scan itself has: the accumulated product stays a carry. */
TEST(compiled_scan_keeps_what_would_be_too_large)
{
    text_bench b = bench_open("graph s(a: f32[64, 64], c: f32[64, 64]) {\n"
                              "  n = sin(c)\n  return add(a, matmul(n, n)), n\n}\n"
                              "graph f(a: f32[64, 64], c: f32[64, 64]) {\n"
                              "  s, n = scan(a, c, body=@s, num_carry=2, length=1000)\n  return s\n}\n",
                              NULL);
    flx_exec *e = NULL;
    e = flx_compile(b.g, NULL, &b.err);
    CHECK_MADE(e, &b.err);
    EXPECT_MSG(flx_exec_memory(e) < 1 << 20, "%zu bytes", flx_exec_memory(e));
    flx_exec_free(e);
    bench_close(&b);
}

/* Sums of narrow floats are rounded in every step by definition, and random numbers and checks belong to their step. */
TEST(compiled_scan_keeps_narrow_sums_random_numbers_and_checks)
{
    static const char *const texts[] = {
        "graph s(a: bf16[4, 4], x: bf16[2, 4]) { return add(a, dot_general(x, x, lc=[0], rc=[0])) }\n"
        "graph f(a: bf16[4, 4], xs: bf16[6, 2, 4]) { return scan(a, xs, body=@s) }\n",
        "graph s(a: f64[4, 4], k: u32[2], x: f64[4, 4]) {\n"
        "  r = rng_uniform(k, shape=[4, 4], dtype=f64)\n  return add(a, matmul(r, x)), matmul(mul(r, x), x)\n}\n"
        "graph f(a: f64[4, 4], xs: f64[6, 4, 4]) {\n"
        "  s, y = scan(a, const(u32[2], [1, 2]), xs, body=@s, num_bcast=1)\n  return s, y\n}\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        text_bench b = bench_open(texts[i], NULL);
        check_graph(b.ctx, b.g, 0, i == 0 ? 0.1 : tolerance, texts[i]);
        bench_close(&b);
    }
}

/* ---- Products of all shapes inside a loop ---- */

TEST(compiled_small_products_have_the_bits_of_large_ones)
{
    static const int shapes[][3] = {{1, 64, 80}, {3, 40, 33}, {8, 128, 130}, {13, 70, 19}, {5, 300, 24}, {64, 9, 17}};
    static const char *const dtypes[] = {"f32", "f64"};
    for (size_t i = 0; i < 2 * sizeof shapes / sizeof *shapes; i++) {
        const int *s = shapes[i / 2];
        const char *t = dtypes[i % 2];
        char text[800];
        if (i % 2 && s[1] > 256)
            continue;
        snprintf(text, sizeof text,
                 "graph s(h: %s[%d, %d], w: %s[%d, %d], x: %s[%d, %d]) {\n"
                 "  y = matmul(h, w)\n  n = narrow(tanh(y), axis=1, start=0, len=1)\n  return add(mul(h, 0.5), mul(n, "
                 "x)), y\n"
                 "}\ngraph f(h: %s[%d, %d], w: %s[%d, %d], xs: %s[7, %d, %d]) {\n"
                 "  n, y = scan(h, w, xs, body=@s, num_bcast=1)\n  return n, y\n}\n",
                 t, s[0], s[1], t, s[1], s[2], t, s[0], s[1], t, s[0], s[1], t, s[1], s[2], t, s[0], s[1]);
        text_bench b = bench_open(text, NULL);
        test_fail_context("%s", text);
        check_graph(b.ctx, b.g, 0, i % 2 ? 1e-11 : 1e-3, "product");
        bench_close(&b);
    }
}

/* ---- Examples that are cut among threads ---- */

/* The bits are those of one thread, with a trajectory, backwards, and one step after the other. */
TEST(compiled_scans_in_parts_have_the_bits_of_one_thread)
{
    static const char *const options[] = {"", ", reverse=true", ", save_trajectory=true, reverse=true",
                                          ", save_trajectory=true, num_checkpoints=2"};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        char text[900];
        snprintf(text, sizeof text,
                 "graph s(h: f32[12, 96], c: f32[12, 96], w: f32[96, 192], b: f32[192], x: f32[12, 192]) {\n"
                 "  g = add(add(matmul(h, w), b), x)\n  z = mul(sigmoid(narrow(g, axis=1, start=0, len=96)), c)\n"
                 "  n = tanh(add(z, narrow(g, axis=1, start=96, len=96)))\n  return n, z, g\n}\n"
                 "graph f(h: f32[12, 96], w: f32[96, 192], b: f32[192], xs: f32[5, 12, 192]) {\n"
                 "  n, z, g = scan(h, h, w, b, xs, body=@s, num_carry=2, num_bcast=2%s)\n  return n, z, g\n}\n",
                 options[i]);
        text_bench b = bench_open(text, NULL);
        flx_tensor *one[TEXT_OUTPUTS], *many[TEXT_OUTPUTS];
        size_t n = feed_all(b.ctx, b.g);
        for (int32_t threads = 1; threads <= 3; threads++) {
            flx_exec *e = NULL;
            char part[40];
            e = flx_compile(b.g, &(flx_compile_options){.threads = threads}, &b.err);
            CHECK_MADE(e, &b.err);
            CHECK_OK(flx_exec_run(e, NULL, feeds, n, threads == 1 ? one : many, &b.err), &b.err);
            flx_buffer report = {0};
            CHECK_OK(flx_exec_report(e, &report, &b.err), &b.err);
            snprintf(part, sizeof part, "in %d parts of the examples", threads);
            EXPECT_MSG((memmem(report.data, report.size, part, strlen(part)) != NULL) == (threads > 1), "%s: %.*s",
                       part, (int)report.size, (const char *)report.data);
            flx_buffer_free(&report);
            flx_exec_free(e);
            for (size_t k = 0; threads > 1 && k < flx_graph_output_count(b.g); k++)
                EXPECT_MSG(memcmp(flx_tensor_const_data(one[k]), flx_tensor_const_data(many[k]),
                                  flx_tensor_nbytes(one[k])) == 0,
                           "output %zu differs with %d threads\n%s", k, threads, text);
            if (threads > 1)
                bench_release(b.g, many);
            test_count_case();
        }
        bench_release(b.g, one);
        for (size_t k = 0; k < n; k++)
            flx_tensor_release(inputs[k]);
        check_graph(b.ctx, b.g, 0, 1e-4, "parts");
        bench_close(&b);
    }
}

/* ---- Loops among many kernels ---- */

/* Text is cut into files for several compilers, wherever the kernels of a loop are. */
TEST(compiled_scans_are_functions_in_any_file)
{
    enum { SCANS = 12 };
    char text[8000];
    size_t n = 0;
    for (int i = 0; i < SCANS; i++) {
        int k = 40 + 8 * i;
        n += (size_t)snprintf(text + n, sizeof text - n,
                              "graph s%d(h: f32[4, %d], w: f32[%d, %d]) {\n"
                              "  n = tanh(matmul(h, w))\n  return sub(0.5, matmul(n, w))\n}\n",
                              i, k, k, k);
    }
    n += (size_t)snprintf(text + n, sizeof text - n, "graph f(x: f32[200], y: f32[3, 5]");
    for (int i = 0; i < SCANS; i++) {
        int k = 40 + 8 * i;
        n += (size_t)snprintf(text + n, sizeof text - n, ", h%d: f32[4, %d], w%d: f32[%d, %d]", i, k, i, k, k);
    }
    n += (size_t)snprintf(text + n, sizeof text - n, ") {\n  return exp(x), sin(y)");
    for (int i = 0; i < SCANS; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, ", scan(h%d, w%d, body=@s%d, num_bcast=1, length=3)", i, i, i);
    snprintf(text + n, sizeof text - n, "\n}\n");
    text_bench b = bench_open(text, NULL);
    char *report = report_of(b.g, &(flx_compile_options){.threads = 1});
    int functions = 0;
    for (const char *p = report; (p = strstr(p, "one function with the loop around it")); p++)
        functions++;
    EXPECT_MSG(functions == SCANS, "%d functions for %d loops\n%s", functions, SCANS, report);
    free(report);
    bench_close(&b);
}
