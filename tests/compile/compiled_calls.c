/* SPDX-License-Identifier: Apache-2.0 */
/* compiled_calls.c: kernels of the user as ops of compiled graphs. They give the bits of the interpreter, also as their
   derivatives and batches, and no step is left to the evaluator. */
#include "autodiff/transform_text.h"
#include "test.h"

/* ---- Running in both ways ---- */

static flx_tensor *filled(flx_context *ctx, const flx_type *type, uint64_t *state)
{
    flx_error err = {0};
    flx_type wide = *type;
    wide.dtype = FLX_F64;
    flx_tensor *x = flx_tensor_new(ctx, &wide, NULL, &err);
    CHECK_MSG(x, "%s", err.message);
    bool is_count = type->dtype == FLX_U32 || type->dtype == FLX_I32;
    for (int64_t i = 0; i < flx_tensor_count(x); i++) {
        double u = test_uniform(state);
        ((double *)flx_tensor_data(x))[i] = is_count ? (double)(int)(u * 5) : type->dtype == FLX_BOOL ? u < 0.5 : u;
    }
    flx_tensor *y = flx_tensor_cast(x, (flx_dtype)type->dtype, &err);
    CHECK_MSG(y, "%s", err.message);
    flx_tensor_release(x);
    return y;
}

static flx_feed feeds[TEXT_FEEDS];

static size_t feed_all(flx_context *ctx, const flx_graph *g)
{
    uint64_t state = test_seed();
    size_t n = flx_graph_input_count(g);
    CHECK(n <= TEXT_FEEDS);
    for (size_t i = 0; i < n; i++)
        feeds[i] = (flx_feed){flx_val_name(g, flx_graph_input(g, i)),
                              filled(ctx, flx_val_type(g, flx_graph_input(g, i)), &state)};
    return n;
}

static void release_feeds(size_t n)
{
    for (size_t i = 0; i < n; i++)
        flx_tensor_release((flx_tensor *)(uintptr_t)feeds[i].value);
}

static void expect_calls(const flx_exec *e, const char *what)
{
    flx_error err = {0};
    flx_buffer report = {0};
    CHECK_OK(flx_exec_report(e, &report, &err), &err);
    EXPECT_MSG(strstr(report.data, " dispatch steps"), "%s: no kernel is called\n%s", what, report.data);
    EXPECT_MSG(!strstr(report.data, " evaluate steps"), "%s: something is evaluated\n%s", what, report.data);
    flx_buffer_free(&report);
}

static void check_graph(flx_context *ctx, const flx_graph *g, const char *what)
{
    flx_error err = {0};
    flx_tensor *right[TEXT_OUTPUTS] = {0}, *got[TEXT_OUTPUTS] = {0};
    CHECK(g && flx_graph_output_count(g) <= TEXT_OUTPUTS);
    size_t n = feed_all(ctx, g);
    CHECK_OK(flx_run(g, ON_REF, feeds, n, right, &err), &err);
    for (int threads = 1; threads <= 2; threads++) {
        uint32_t status = 0;
        const flx_run_options run = {.status = &status};
        flx_exec *e = flx_compile(g, &(flx_compile_options){.threads = threads}, &err);
        CHECK_MADE(e, &err);
        expect_calls(e, what);
        for (int again = 0; again < 2; again++) { /* the second run finds memory that the first has used */
            CHECK_OK(flx_exec_run(e, &run, feeds, n, got, &err), &err);
            CHECK_EQ_U64(status, 0);
            for (size_t k = 0; k < flx_graph_output_count(g); k++)
                EXPECT_MSG(memcmp(flx_tensor_const_data(right[k]), flx_tensor_const_data(got[k]),
                                  flx_tensor_nbytes(right[k])) == 0,
                           "%s, %d threads: output %zu differs", what, threads, k);
            bench_release(g, got);
        }
        flx_exec_free(e);
    }
    bench_release(g, right);
    release_feeds(n);
    test_count_case();
}

/* ---- Kernels ---- */

enum { NO_GRAD = 1, NO_VMAP = 2, NO_JVP = 4, NO_VMAP_GRAD = 8 };

static const struct {
    const char *text;
    int without;
} cases[] = {
    {"graph main(x: f32[1000], y: f32[1000]) { return kernel_call(x, y, kernel=\"kernel saxpy(workgroup = [64, 1, 1]) {"
     " buffer x: f32[1000] read; buffer y: f32[1000] read; buffer out: f32[1000] output; let i = invocation_id(0);"
     " out[i] = fma(2.0, x[i], y[i]); }\", grid=[16]) }",
     0},
    /* more workgroups than one thread takes, open lengths, and values before and after */
    {"graph main(x: f32[40000]) { return mul(0.5, kernel_call(mul(x, 2), kernel=\"kernel k(workgroup = [64, 1, 1]) {"
     " buffer x: f32[] read; buffer out: f32[] output; let i = invocation_id(0); if (i < buf_len(x)) {"
     " out[i] = exp(x[i]) * cast<f32>(buf_len(out)); } }\", outputs=[f32[40000]], grid=[625])) }",
     0},
    /* tiles in shared memory, with barriers */
    {"graph main(x: f32[32, 32], y: f32[32, 32]) { return kernel_call(x, y, kernel=\"kernel k(workgroup = [8, 8, 1]) {"
     " buffer a: f32[1024] read; buffer b: f32[1024] read; buffer c: f32[1024] output; buffer s: f32[64] workgroup;"
     " buffer t: f32[64] workgroup; let col = invocation_id(0); let row = invocation_id(1); let lc = local_id(0);"
     " let lr = local_id(1); let sum = 0.0; for (tile in 0..4) { s[lr * 8 + lc] = a[row * 32 + tile * 8 + lc];"
     " t[lr * 8 + lc] = b[(tile * 8 + lr) * 32 + col]; barrier(); for (k in 0..8) {"
     " sum = sum + s[lr * 8 + k] * t[k * 8 + lc]; } barrier(); } c[row * 32 + col] = sum; }\","
     " outputs=[f32[32, 32]], grid=[4, 4]) }",
     0},
    /* a sum by halves */
    {"graph main(x: f64[256]) { return kernel_call(x, kernel=\"kernel k(workgroup = [64, 1, 1]) {"
     " buffer x: f64[256] read; buffer out: f64[4] output; buffer part: f64[64] workgroup; let l = local_id(0);"
     " part[l] = x[invocation_id(0)]; barrier(); for (step in 0..6) { let reach = 32 >> step;"
     " if (l < reach) { part[l] = part[l] + part[l + reach]; } barrier(); }"
     " if (l == 0) { out[workgroup_id(0)] = part[0]; } }\", grid=[4]) }",
     0},
    /* sums by atomics, whose order counts */
    {"graph main(x: f32[256]) { return kernel_call(x, kernel=\"kernel k(workgroup = [64, 1, 1]) {"
     " buffer x: f32[256] read; buffer bins: f32[16] output; let i = invocation_id(0); let position = x[i] * 15.0;"
     " let below = floor(stop_gradient(position)); let share = position - below; let bin = cast<u32>(below);"
     " atomic_add(bins[bin], 1.0 - share); atomic_add(bins[bin + 1], share); }\", grid=[4]) }",
     0},
    /* a loop with a tape */
    {"graph main(x: f64[20]) { return kernel_call(x, kernel=\"kernel k(workgroup = [16, 1, 1]) {"
     " buffer y0: f64[] read; buffer out: f64[] output; let i = invocation_id(0); if (i < buf_len(y0)) {"
     " let y = y0[i]; let v = 0.0f64; for (step in 0..30) { v = v - 0.1 * sin(y); y = y + 0.1 * v; } out[i] = y; } }\","
     " outputs=[f64[20]], grid=[2]) }",
     0},
    /* trips from data: the gradient counts them and then allocates its tape */
    {"graph main(x: f64[3]) { return kernel_call(x, const(u32[3], [0, 1, 3]), kernel=\"kernel k() {"
     " buffer x: f64[3] read; buffer n: u32[3] read; buffer out: f64[3] output; let i = invocation_id(0);"
     " let p = 1.0f64; for (j in 0..n[i]) { p = p * x[i]; } out[i] = p; }\", grid=[3]) }",
     NO_VMAP_GRAD},
    {"graph main(x: f64[3]) { return kernel_call(x, const(u32[3], [0, 1, 3]), kernel=\"kernel k() {"
     " buffer x: f64[3] read; buffer n: u32[3] read; buffer out: f64[3] output; let i = invocation_id(0);"
     " let p = 1.0f64; for (j in 0..n[i]) { p = p * x[i]; } out[i] = p; }\", grid=[3], max_trips=3) }",
     0},
    /* operand and result in one buffer; the operand is used again */
    {"graph main(x: f64[4]) { t = add(x, 1)\n y = kernel_call(t, kernel=\"kernel k() { buffer x: f64[4] read_write;"
     " let i = invocation_id(0); x[i] = x[i] * x[i] * x[i]; }\", inputs=\"x\", results=\"x\", grid=[3])\n"
     " return y, t, add(y, t) }",
     0},
    /* an operand that the kernel writes to, and that others read */
    {"graph main(x: f64[4]) { t = mul(x, 3)\n y = kernel_call(t, kernel=\"kernel k() { buffer x: f64[4] read_write;"
     " buffer y: f64[4] output; let i = invocation_id(0); x[i] = x[i] + 1.0; y[i] = x[i]; }\", grid=[4])\n"
     " return add(y, t), t }",
     0},
    /* results that are not written completely, a result that nothing reads, lists in another order */
    {"graph main(x: f64[2], w: f64[2]) { c, d = kernel_call(x, w, kernel=\"kernel two() { buffer x: f64[2] read;"
     " buffer sum: f64[2] output; buffer w: f64[2] read; buffer product: f64[2] output; let i = invocation_id(0);"
     " sum[i] = x[i] + w[i]; if (i == 1) { product[i] = x[i] * w[i]; } }\", grid=[2], inputs=\"w, x\","
     " results=\"product,sum\")\n return c }",
     0},
    {"graph main(x: f16[3], b: bool[3]) { y, n = kernel_call(b, x, kernel=\"kernel k() { buffer keep: bool[3] read;"
     " buffer x: f16[3] read; buffer y: f16[3] output; buffer is_small: bool[3] output; let i = invocation_id(0);"
     " y[i] = select(keep[i], x[i] * x[i], -1.0f16); is_small[i] = x[i] < 0.5f16; }\", grid=[3])\n"
     " return y, where(n, x, 2) }",
     NO_VMAP},
    {"graph main(x: f64[4]) { return kernel_call(x, kernel=\"kernel k() { buffer x: f64[4] read;"
     " buffer out: f64[4] output; out[invocation_id(0)] = x[0]; }\", grid=[0]) }",
     NO_GRAD | NO_JVP | NO_VMAP},
    {"graph main(x: f64[0]) { return kernel_call(x, kernel=\"kernel k() { buffer x: f64[] read;"
     " buffer out: f64[2] output; out[invocation_id(0)] = x[0] + cast<f64>(buf_len(x)); }\", grid=[2]) }",
     NO_GRAD | NO_JVP | NO_VMAP},
    /* subgroups; outside of a buffer a load gives zero and a store does nothing */
    {"graph main(x: f32[64]) { return kernel_call(x, kernel=\"kernel k(workgroup = [64, 1, 1]) {"
     " buffer x: f32[64] read; buffer out: f32[64] output; let i = invocation_id(0);"
     " out[i + 60] = subgroup_add(x[i]); out[i - 3] = x[i + 1]; }\", grid=[1]) }",
     NO_GRAD | NO_JVP | NO_VMAP},
    /* in the bodies of a loop and of a branch */
    {"graph step(c: f64[1], x: f64[3]) { p = kernel_call(x, kernel=\"kernel product() { buffer x: f64[] read;"
     " buffer out: f64[1] output; let p = 1.0f64; for (j in 0..buf_len(x)) { p = p * x[j]; } out[0] = p; }\","
     " outputs=[f64[1]], grid=[1])\n  return add(mul(c, 0.5), p), p }\n"
     "graph main(x: f64[5, 3]) { c, ys = scan(full(f64[1], 0), x, body=@step)\n  return c, ys }",
     0},
    {"graph yes(x: f32[8]) { return kernel_call(x, kernel=\"kernel k() { buffer x: f32[8] read;"
     " buffer out: f32[8] output; let i = invocation_id(0); out[i] = tanh(x[7 - i]); }\", grid=[8]) }\n"
     "graph no(x: f32[8]) { return x }\n"
     "graph main(x: f32[8]) { return if(gt(reduce_sum(x), 0), x, then=@yes, else=@no) }",
     NO_VMAP | NO_VMAP_GRAD},
};

static flx_graph *gradient_of(const flx_graph *g)
{
    flx_error err = {0};
    const flx_grad_options o = {.flags = FLX_GRAD_SEED_INPUT | FLX_GRAD_MISSING_ZERO};
    flx_graph *d = flx_grad(g, (const char *const[]){"x"}, 1, &o, &err);
    CHECK_MSG(d, "%s", err.message);
    return d;
}

static void check_batched(flx_context *ctx, const flx_graph *g, const char *what)
{
    flx_error err = {0};
    flx_vmap_axis axes[TEXT_FEEDS];
    size_t n = flx_graph_input_count(g);
    for (size_t i = 0; i < n; i++)
        axes[i] = (flx_vmap_axis){flx_val_name(g, flx_graph_input(g, i)), 0};
    flx_graph *many = flx_vmap(g, axes, n, NULL, 0, 3, &err);
    CHECK_MSG(many, "%s", err.message);
    check_graph(ctx, many, what);
    flx_graph_release(many);
}

TEST(compiled_calls_give_the_bits_of_the_interpreter)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        text_bench b = bench_open(cases[i].text, NULL);
        test_fail_context("%s", cases[i].text);
        check_graph(b.ctx, b.g, "the kernel");
        if (!(cases[i].without & NO_VMAP))
            check_batched(b.ctx, b.g, "its batch");
        if (!(cases[i].without & NO_JVP)) {
            flx_graph *d = flx_jvp(b.g, (const char *const[]){"x"}, 1, &b.err);
            CHECK_MSG(d, "%s", b.err.message);
            check_graph(b.ctx, d, "its tangent");
            flx_graph_release(d);
        }
        if (!(cases[i].without & NO_GRAD)) {
            flx_graph *d = gradient_of(b.g);
            check_graph(b.ctx, d, "its gradient");
            if (!(cases[i].without & (NO_VMAP | NO_VMAP_GRAD)))
                check_batched(b.ctx, d, "the batch of its gradient");
            flx_graph_release(d);
        }
        bench_close(&b);
    }
}

/* ---- Failures ---- */

static void check_failure(const char *text, bool is_gradient, flx_code code, const char *message)
{
    flx_error ref = {0}, cpu = {0};
    flx_tensor *out[TEXT_OUTPUTS] = {0};
    text_bench b = bench_open(text, NULL);
    test_fail_context("%s", text);
    flx_graph *g = is_gradient ? gradient_of(b.g) : flx_graph_retain(b.g);
    size_t n = feed_all(b.ctx, g);
    CHECK_EQ_I64(flx_run(g, ON_REF, feeds, n, out, &ref), code);
    CHECK_EQ_I64(flx_run(g, &(flx_run_options){.device = "cpu"}, feeds, n, out, &cpu), code);
    CHECK_EQ_STR(cpu.message, ref.message);
    CHECK_EQ_STR(cpu.hint, ref.hint);
    CHECK_MSG(strstr(cpu.message, message), "%s", cpu.message);
    release_feeds(n);
    flx_graph_release(g);
    bench_close(&b);
}

TEST(compiled_calls_fail_as_the_interpreter_does)
{
    check_failure(
        "graph main(x: f64[4]) { y = kernel_call(x, kernel=\"kernel k(workgroup = [4, 1, 1]) {"
        " buffer x: f64[4] read; buffer out: f64[1] output; if (invocation_id(0) == 9) { trap(7, here); } }\","
        " grid=[4])\n return y }",
        false, FLX_E_KERNEL, "trap 'here' at address 7");
    check_failure("graph main(x: f64[3]) { y = kernel_call(x, const(u32[3], [0, 1, 3]), kernel=\"kernel k() {"
                  " buffer x: f64[3] read; buffer n: u32[3] read; buffer out: f64[3] output;"
                  " let i = invocation_id(0); let p = 1.0f64; for (j in 0..n[i]) { p = p * x[i]; } out[i] = p; }\","
                  " grid=[3], max_trips=2)\n return y }",
                  true, FLX_E_KERNEL, "a loop made 3 trips, more than max_trips");
    check_failure("graph main(x: f64[3]) { y = kernel_call(x, kernel=\"kernel k() { buffer x: f64[3] read;"
                  " buffer out: f64[3] output; out[0] = x[0]; }\", grid=[-1])\n return y }",
                  false, FLX_E_SIZE, "a grid of -1 workgroups is out of range");
}

/* What the C compiler cannot have is interpreted; the report and the status of the run say so. */
TEST(compiled_calls_leave_grid_barriers_to_the_interpreter)
{
    static const char text[] =
        "graph main(x: f32[4]) { t, y = kernel_call(x, kernel=\"kernel k(workgroup = [2, 1, 1]) {"
        " buffer x: f32[4] read; buffer t: f32[4] read_write; buffer out: f32[4] output; let i = invocation_id(0);"
        " t[i] = x[i]; barrier(grid); out[i] = t[3 - i]; }\", inputs=\"x\", results=\"t, out\", grid=[2])\n"
        " return y }";
    flx_buffer report = {0};
    uint32_t status = 0;
    flx_tensor *out[TEXT_OUTPUTS] = {0};
    text_bench b = bench_open(text, NULL);
    flx_exec *e = flx_compile(b.g, NULL, &b.err);
    CHECK_MADE(e, &b.err);
    CHECK_OK(flx_exec_report(e, &report, &b.err), &b.err);
    CHECK_MSG(strstr(report.data, " evaluate steps"), "%s", report.data);
    CHECK_MSG(strstr(report.data, "no kernel: K52 the target does not support grid barriers"), "%s", report.data);
    size_t n = feed_all(b.ctx, b.g);
    CHECK_OK(flx_exec_run(e, &(flx_run_options){.status = &status}, feeds, n, out, &b.err), &b.err);
    CHECK_EQ_U64(status, FLX_RUN_SLOW);
    for (int64_t i = 0; i < 4; i++)
        CHECK_NEAR(flx_tensor_get(out[0], i), flx_tensor_get(feeds[0].value, 3 - i), 0);
    bench_release(b.g, out);
    release_feeds(n);
    flx_exec_free(e);
    flx_buffer_free(&report);
    bench_close(&b);
}

/* An op that runs its body in its own way, here until a system is solved, runs machine code. */
TEST(compiled_calls_of_bodies_by_the_op_itself)
{
    static const char text[] = "graph shift(x: f32[5], d: f32[5]) { return add(mul(x, d), mul(x, 9)) }\n"
                               "graph main(b: f32[5], d: f32[5]) { return cg(b, mul(d, d), body=@shift) }";
    flx_buffer report = {0};
    uint32_t status = 0;
    flx_tensor *out[TEXT_OUTPUTS] = {0};
    text_bench b = bench_open(text, NULL);
    flx_exec *e = flx_compile(b.g, NULL, &b.err);
    CHECK_MADE(e, &b.err);
    CHECK_OK(flx_exec_report(e, &report, &b.err), &b.err);
    CHECK_MSG(strstr(report.data, "2 kernel steps"), "%s", report.data);
    size_t n = feed_all(b.ctx, b.g);
    CHECK_OK(flx_exec_run(e, &(flx_run_options){.status = &status}, feeds, n, out, &b.err), &b.err);
    CHECK_EQ_U64(status, 0);
    for (int64_t i = 0; i < 5; i++) {
        double side = flx_tensor_get(feeds[0].value, i), d = flx_tensor_get(feeds[1].value, i);
        CHECK_NEAR(flx_tensor_get(out[0], i), side / (d * d + 9), 1e-6);
    }
    bench_release(b.g, out);
    release_feeds(n);
    flx_exec_free(e);
    flx_buffer_free(&report);
    bench_close(&b);
}

/* The kernel would take hours. */
TEST(compiled_calls_end_when_the_run_is_cancelled)
{
    static const char text[] =
        "graph main(x: f32[64]) { return kernel_call(x, kernel=\"kernel k(workgroup = [64, 1, 1]) {"
        " buffer x: f32[64] read; buffer out: f32[64] output; let s = x[local_id(0)]; for (j in 0..1000000) {"
        " s = s * 0.999 + 0.1; } atomic_add(out[local_id(0)], s); }\", grid=[1000000]) }";
    text_bench b = bench_open(text, NULL);
    flx_tensor *out[TEXT_OUTPUTS] = {0};
    flx_exec *e = flx_compile(b.g, NULL, &b.err);
    CHECK_MADE(e, &b.err);
    expect_calls(e, "a long kernel");
    size_t n = feed_all(b.ctx, b.g);
    flx_job *job = flx_exec_start(e, NULL, feeds, n, &b.err);
    CHECK_MADE(job, &b.err);
    flx_job_cancel(job);
    CHECK_EQ_I64(flx_job_wait(job, out, &b.err), FLX_E_CANCELLED);
    flx_job_free(job);
    flx_exec_free(e);
    release_feeds(n);
    bench_close(&b);
}

/* ---- Memory ---- */

#define DOUBLES(buffers, value)                                                                      \
    "kernel_call(exp(x), kernel=\"kernel k(workgroup = [64, 1, 1]) { " buffers " let i = invocation" \
    "_id(0); if (i < 65536) { " value " } }\", grid=[1024]"
#define SINE(call) "graph main(x: f32[65536]) { y = " call ") return reduce_sum(sin(y)) }"

/* How many whole values the arena has room for; nothing is copied into it or out of it. */
static int64_t values_in_arena(const flx_graph *g)
{
    flx_buffer report = {0};
    flx_error err = {0};
    flx_exec *e = flx_compile(g, &(flx_compile_options){.device = "cpu", .threads = 1}, &err);
    CHECK_MADE(e, &err);
    CHECK_OK(flx_exec_report(e, &report, &err), &err);
    CHECK_MSG(strstr(report.data, "dispatch steps") && !strstr(report.data, "copy"), "%s", report.data);
    int64_t values = (int64_t)flx_exec_memory(e) / (65536 * 4);
    flx_buffer_free(&report);
    flx_exec_free(e);
    return values;
}

/* A kernel reads what the step before has written where that wrote it, its result is read there, and a buffer that it
   reads and writes is changed in place when nothing else needs it. */
TEST(compiled_calls_work_in_place_without_copies)
{
    static const struct {
        const char *text;
        int64_t values, in_gradient;
    } rows[] = {
        {SINE(DOUBLES("buffer a: f32[65536] read; buffer out: f32[65536] output;", "out[i] = a[i] * 2.0;")), 2, 3},
        {SINE(DOUBLES("buffer t: f32[65536] read_write;", "t[i] = t[i] * 2.0;") ", inputs=\"t\", results=\"t\""), 1, 2},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        text_bench b = bench_open(rows[i].text, NULL);
        test_fail_context("%s", rows[i].text);
        CHECK_EQ_I64(values_in_arena(b.g), rows[i].values);
        flx_graph *d = gradient_of(b.g);
        CHECK_EQ_I64(values_in_arena(d), rows[i].in_gradient);
        flx_graph_release(d);
        bench_close(&b);
    }
}
