/* SPDX-License-Identifier: Apache-2.0 */
/* exec_faults.c: executables when something goes wrong: memory runs out at any request of compiling and running, the
   compiler is missing or misbehaves, names are hostile. */
#include "autodiff/transform_text.h"
#include "backend/cache_fixture.h"
#include "fault.h"

#include <errno.h>
#include <math.h>
#include <unistd.h>

/* A kernel with a fold, routes (matmul, sort), a scan, a while, an if, and an op that only the reference evaluator
   knows. */
#define EVERYTHING(rows)                                                             \
    "graph step(c: f64[2], x: f64[2]) { n = tanh(add(c, x)) return n, mul(n, n) }\n" \
    "graph more(i: i32[], x: f64[2]) { return lt(i, 3) }\n"                          \
    "graph next(i: i32[], x: f64[2]) { return add(i, 1), mul(x, sin(x)) }\n"         \
    "graph a(x: f64[2]) { return exp(x) }\ngraph b(x: f64[2]) { return neg(x) }\n"   \
    "graph f(x: f64[" rows ", 2], w: f64[2, 2]) {\n"                                 \
    "  y = matmul(x, w)\n"                                                           \
    "  c, ys = scan(full(f64[2], 0), y, body=@step)\n"                               \
    "  i, z = while(const(i32[], 0), c, cond=@more, body=@next, max_iterations=5)\n" \
    "  u = if(gt(reduce_sum(z), 0), z, then=@a, else=@b)\n"                          \
    "  v = sort(softmax(ys), axis=0)\n"                                              \
    "  p = permutation(const(u32[2], [1, 2]), n=3)\n"                                \
    "  return u, v, p, add(v, u)\n}\n"

static const char everything[] = EVERYTHING("3");
static const char symbolic[] = EVERYTHING("N"); /* compiled when it runs, for all extents */

enum { OUTPUTS = 4 };

static const double x_values[6] = {0.5, -1, 2, 0.25, -0.75, 1.5}, w_values[4] = {1, 0.5, -0.25, 2};

static void feed_all(text_bench *b)
{
    bench_feed(b, "x", 2, (const flx_dim[]){3, 2}, x_values);
    bench_feed(b, "w", 2, (const flx_dim[]){2, 2}, w_values);
}

static void check_close(flx_tensor *const *found, flx_tensor *const *expected)
{
    for (size_t i = 0; i < OUTPUTS; i++)
        for (int64_t k = 0; k < flx_tensor_count(expected[i]); k++)
            CHECK_NEAR(flx_tensor_get(found[i], k), flx_tensor_get(expected[i], k), 1e-12);
}

/* ---- Memory ---- */

typedef struct {
    size_t requests;
    flx_code code;
} attempt;

/* Compiles and runs while request n fails; with n = 0 none does. */
static attempt try_everything(const char *text, const char *cache_dir, size_t n, bool forever, bool *failed)
{
    fault f = {0};
    text_bench b = bench_open(text, &f);
    flx_tensor *expected[TEXT_OUTPUTS], *out[TEXT_OUTPUTS] = {0};
    flx_exec *e = NULL;
    flx_error err = {0};
    feed_all(&b);
    bench_run(&b, b.g, expected);
    size_t before = f.calls;
    f.fail_at = n ? before + n : 0;
    f.forever = forever;
    flx_compile_options o = {.threads = 2, .optimisation = 1, .cache_dir = cache_dir};
    e = flx_compile(b.g, &o, &err);
    attempt a = {.code = e ? FLX_OK : (flx_code)err.code};
    if (a.code == FLX_OK)
        a.code = flx_exec_run(e, NULL, b.feeds, b.n, out, &err);
    a.requests = f.calls - before;
    *failed = f.failed > 0;
    f.fail_at = 0;
    f.forever = false;
    CHECK_MSG(a.code == FLX_OK || a.code == FLX_E_OOM, "%s: %s", flx_code_name(a.code), err.message);
    if (a.code == FLX_OK)
        check_close(out, expected);
    else if (e) { /* what failed once works afterwards */
        CHECK_OK(flx_exec_run(e, NULL, b.feeds, b.n, out, &err), &err);
        check_close(out, expected);
    }
    for (size_t i = 0; i < OUTPUTS; i++)
        flx_tensor_release(out[i]);
    flx_exec_free(e);
    bench_release(b.g, expected);
    bench_close(&b);
    CHECK_MSG(fault_is_clean(&f), "%zu blocks leaked, %zu errors", f.live_blocks, f.errors);
    return a;
}

static void starve(const char *text)
{
    cache_fixture f;
    bool failed;
    cache_fixture_begin(&f, NULL);
    CHECK_EQ_I64(try_everything(text, f.dir, 0, false, &failed).code,
                 FLX_OK); /* from now on the compiler is not needed */
    size_t requests = try_everything(text, f.dir, 0, false, &failed).requests, refused = 0, tried = 0;
    size_t stride = requests / (size_t)effort(EFFORT_starved_runs) + 1;
    uint64_t state = test_seed();
    for (size_t n = 1 + (size_t)(test_uniform(&state) * (double)stride); n <= requests; n += stride)
        for (int forever = 0; forever < 2; forever++) {
            test_fail_context("request %zu of %zu fails%s", n, requests, forever ? ", and all later ones" : "");
            refused += try_everything(text, f.dir, n, forever, &failed).code == FLX_E_OOM;
            CHECK(failed);
            tried++;
            test_count_case();
        }
    CHECK_MSG(2 * refused > tried, "%zu of %zu were refused", refused, tried);
    cache_fixture_end(&f);
}

TEST(starved_executables_fail_with_oom)
{
    starve(everything);
}

TEST(starved_executables_for_all_extents_fail_with_oom)
{
    starve(symbolic);
}

/* ---- Compilers ---- */

static void check_fallback(const cache_fixture *f, const char *text, const char *what)
{
    text_bench b = bench_open(text, NULL);
    flx_tensor *expected[TEXT_OUTPUTS], *out[TEXT_OUTPUTS];
    flx_exec *e = NULL;
    flx_error err = {0};
    flx_buffer report;
    feed_all(&b);
    bench_run(&b, b.g, expected);
    flx_compile_options o = {.optimisation = 1, .cache_dir = f->dir};
    test_fail_context("a compiler that %s", what);
    e = flx_compile(b.g, &o, &err);
    CHECK_MADE(e, &err);
    CHECK_OK(flx_exec_run(e, NULL, b.feeds, b.n, out, &err), &err);
    check_close(out, expected);
    CHECK_OK(flx_exec_report(e, &report, &err), &err);
    CHECK_MSG(strstr(report.data, "no machine code: "), "%s", report.data);
    flx_buffer_free(&report);
    bench_release(b.g, out);
    bench_release(b.g, expected);
    flx_exec_free(e);
    bench_close(&b);
    test_count_case();
}

TEST(executables_do_without_a_compiler)
{
    static const char *const rows[][2] = {
        {"fails", "#!/bin/sh\nexit 3\n"},
        {"is killed", "#!/bin/sh\nkill -9 $$\n"},
        {"makes nothing", "#!/bin/sh\nexit 0\n"},
        {"makes rubbish",
         "#!/bin/sh\nwhile [ $# -gt 0 ]; do [ \"$1\" = -o ] && echo rubbish >\"$2\"; shift; done\nexit 0\n"},
        {"makes an empty file",
         "#!/bin/sh\nwhile [ $# -gt 0 ]; do [ \"$1\" = -o ] && : >\"$2\"; shift; done\nexit 0\n"},
        {"makes an object without our functions",
         "#!/bin/sh\n[ $1 = --version ] && exec cc --version\nwhile [ $1 != -o ]; do shift; done\n"
         "echo 'int other;' | cc -shared -fPIC -o $2 -x c -\n"},
        {"is not a program", "rubbish\n"},
    };
    cache_fixture f;
    char path[800];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(path, sizeof path, "%s/compiler", test_temp_dir());
        write_script(path, rows[i][1]);
        cache_fixture_begin(&f, path);
        check_fallback(&f, everything, rows[i][0]);
        check_fallback(&f, symbolic, rows[i][0]);
        cache_fixture_end(&f);
        unlink(path);
    }
    cache_fixture_begin(&f, "/no/such/compiler");
    check_fallback(&f, everything, "is not there");
    cache_fixture_end(&f);
}

/* A compiler that takes its time and then fails keeps no caller waiting that compiles in the background. */
TEST(background_survives_a_slow_compiler_that_fails)
{
    cache_fixture f;
    char path[800];
    snprintf(path, sizeof path, "%s/compiler", test_temp_dir());
    write_script(path, "#!/bin/sh\nsleep 0.5\nexit 3\n");
    cache_fixture_begin(&f, path);
    text_bench b = bench_open(everything, NULL);
    flx_tensor *expected[TEXT_OUTPUTS], *out[TEXT_OUTPUTS];
    flx_exec *e = NULL;
    flx_error err = {0};
    feed_all(&b);
    bench_run(&b, b.g, expected);
    flx_compile_options o = {.flags = FLX_COMPILE_BACKGROUND, .cache_dir = f.dir};
    e = flx_compile(b.g, &o, &err);
    CHECK_MADE(e, &err);
    CHECK(!flx_exec_is_ready(e));
    for (int round = 0; round < 2; round++) {
        CHECK_OK(flx_exec_run(e, NULL, b.feeds, b.n, out, &err), &err);
        check_close(out, expected);
        bench_release(b.g, out);
        CHECK_CODE(flx_exec_wait_ready(e, &err), FLX_E_DEVICE, &err);
        CHECK_MSG(strstr(err.message, "compiler"), "%s", err.message);
    }
    bench_release(b.g, expected);
    flx_exec_free(e);
    bench_close(&b);
    cache_fixture_end(&f);
    unlink(path);
}

/* ---- Files ---- */

/* The n-th call of the system fails while a graph is compiled and run; false when there are fewer. */
static bool check_failing_call(const cache_fixture *f, int n, int error)
{
    text_bench b = bench_open(everything, NULL);
    flx_tensor *expected[TEXT_OUTPUTS], *out[TEXT_OUTPUTS];
    flx_exec *e = NULL;
    flx_error err = {0};
    feed_all(&b);
    bench_run(&b, b.g, expected);
    test_fail_context("call %d fails with %s", n, strerror(error));
    system_plan *plan = system_plan_set(&(system_plan){.failing = {.fail_at = n, .error = error}, .skip_sync = true});
    flx_compile_options o = {.optimisation = 1, .cache_dir = f->dir};
    e = flx_compile(b.g, &o, &err);
    CHECK_MADE(e, &err);
    bool has_failed = plan->failing.calls >= n;
    system_plan_lift();
    CHECK_OK(flx_exec_run(e, NULL, b.feeds, b.n, out, &err), &err);
    check_close(out, expected);
    bench_release(b.g, out);
    bench_release(b.g, expected);
    flx_exec_free(e);
    bench_close(&b);
    test_count_case();
    return has_failed;
}

/* Whatever call fails, there is an executable, with machine code or without, and it is right. */
TEST(executables_survive_failing_calls_of_the_system)
{
    static const int errors[] = {EIO, ENOSPC, EACCES, ENOMEM};
    cache_fixture f;
    cache_fixture_begin(&f, NULL);
    CHECK(!check_failing_call(&f, 1 << 20, EIO)); /* from now on the compiler is seldom needed */
    int n = 1;
    while (n < 400 && check_failing_call(&f, n, errors[n % 4]))
        n++;
    CHECK(n > 20 && n < 400);
    cache_fixture_end(&f);
}

TEST(executables_do_without_files)
{
    cache_fixture f;
    cache_fixture_begin(&f, NULL);
    char *kept = set_variable("TMPDIR", "/no/such/folder");
    check_fallback(&f, everything, "finds no room for its files");
    put_variable("TMPDIR", kept);
    cache_fixture_end(&f);
}

/* ---- Names ---- */

TEST(executables_do_not_read_names_as_code)
{
    static char long_name[20000];
    static const char *const names[] = {
        "\"; } #error \"",
        "a\nb",
        "*/ } int main(void) { /*",
        "\\\n#include \"/etc/passwd\"",
        "%s%n%s",
        "flxk_0",
        "\xc3\xa9",
        "k_u32",
        "int",
        "__attribute__",
        "main",
        long_name,
    };
    memset(long_name, 'n', sizeof long_name - 1);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        flx_context *ctx = flx_context_new(NULL);
        flx_graph *g = flx_graph_new(ctx, names[i]);
        flx_type t = flx_type_make(FLX_F64, 1, (const flx_dim[]){3});
        flx_val x = flx_input(g, names[i], &t);
        flx_val y = flx_exp(g, flx_add(g, x, x));
        flx_output(g, y, names[i]);
        flx_error err = {0};
        test_fail_context("the name %zu", i);
        if (flx_graph_error(g, &err) == FLX_OK) {
            flx_exec *e = NULL;
            flx_tensor *v = flx_tensor_new(ctx, &t, x_values, &err), *out[1];
            flx_feed feed = {names[i], v};
            flx_buffer report;
            e = flx_compile(g, &(flx_compile_options){.threads = 1, .optimisation = 1}, &err);
            CHECK_MADE(e, &err);
            CHECK_OK(flx_exec_run(e, NULL, &feed, 1, out, &err), &err);
            CHECK_OK(flx_exec_report(e, &report, &err), &err);
            CHECK_MSG(!strstr(report.data, "no machine code"), "%s", report.data);
            for (int64_t k = 0; k < 3; k++)
                CHECK_NEAR(flx_tensor_get(out[0], k), exp(2 * x_values[k]), 1e-12 * exp(2 * x_values[k]));
            flx_buffer_free(&report);
            flx_tensor_release(out[0]);
            flx_tensor_release(v);
            flx_exec_free(e);
        } else {
            CHECK_CODE(err.code, FLX_E_NAME, &err);
        }
        flx_graph_release(g);
        flx_context_free(ctx);
        test_count_case();
    }
}
