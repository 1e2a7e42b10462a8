/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_cpu.c: compiling and running emitted C: what can go wrong, and that nothing is left. */
#include "emit/device_pair.h"

#include "backend/cpu/jit/compile_c.h"
#include "backend/cpu/jit/kernel_cpu.h"
#include "fault.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const char doubling[] =
    "kernel doubling(workgroup = [4, 1, 1]) { buffer x: f32[] read; buffer out: f32[] output;"
    " let i = invocation_id(0); out[i] = x[i] * 2.0; }";

static flx_code run_on(const flx_kernel *k, const char *device, float *x, float *out, size_t n, flx_error *err)
{
    const uint32_t grid[3] = {(uint32_t)(n + 3) / 4, 1, 1};
    flx_kernel_memory m[] = {{"x", x, n * sizeof *x}, {"out", out, n * sizeof *out}};
    flx_kernel_run_options o = {.device = device};
    return flx_kernel_run(k, grid, m, 2, &o, err);
}

/* ---- Compilers ---- */

/* Sets an environment variable, or removes it; gives its old value, to be handed to put_back(). */
static char *set_variable(const char *name, const char *value)
{
    const char *was = getenv(name);
    char *kept = was ? strdup(was) : NULL;
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
    return kept;
}

static void put_back(const char *name, char *kept)
{
    free(set_variable(name, kept));
    free(kept);
}

static void write_program(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    CHECK(f);
    fputs(text, f);
    fclose(f);
    CHECK(chmod(path, 0700) == 0);
}

static void fails_to_compile(const char *variable, const char *value, const char *message)
{
    char *cache = set_variable("FLX_CACHE", "off"); /* which would do without a compiler */
    flx_context *ctx = flx_context_new(NULL);
    flx_kernel *k = flk_in(ctx, doubling);
    flx_error err = {0};
    float x[4] = {1, 2, 3, 4}, out[4];
    char *was = set_variable(variable, value);
    flx_code code = run_on(k, "cpu", x, out, 4, &err);
    put_back(variable, was);
    CHECK_CODE(code, FLX_E_DEVICE, &err);
    CHECK_MSG(strstr(err.message, message), "message: %s", err.message);
    CHECK_MSG(err.hint[0], "no hint with: %s", err.message);
    CHECK_OK(run_on(k, "cpu", x, out, 4, &err), &err); /* the next one finds everything in order */
    CHECK(out[3] == 8);
    flx_kernel_release(k);
    flx_context_free(ctx);
    put_back("FLX_CACHE", cache);
}

TEST(kernel_cpu_without_a_compiler)
{
    char noisy[600], silent[600], text[600];
    snprintf(noisy, sizeof noisy, "%s/noisy", test_temp_dir());
    snprintf(silent, sizeof silent, "%s/silent", test_temp_dir());
    snprintf(text, sizeof text, "#!/bin/sh\nprintf 'no\\033 good' >&2\nyes x | head -c 100000 >&2\nexit 3\n");
    write_program(noisy, text);
    write_program(silent, "#!/bin/sh\nexit 0\n");
    snprintf(text, sizeof text, "FLX_CC is '%s', which is not a program", test_missing_path("cc"));
    fails_to_compile("FLX_CC", test_missing_path("cc"), text);
    fails_to_compile("FLX_CC", "no-such-compiler", "is not a program");
    fails_to_compile("FLX_CC", "/bin/false", "'/bin/false' failed");
    fails_to_compile("FLX_CC", noisy, "failed: no? goodx?x?x");
    fails_to_compile("FLX_CC", silent, "cannot load");
    fails_to_compile("PATH", "", "no C compiler");
    snprintf(text, sizeof text, "%s:::%s", test_missing_path("bin"), test_missing_path("sbin"));
    fails_to_compile("PATH", text, "no C compiler");
    fails_to_compile("TMPDIR", test_missing_path("tmp"), "cannot make a directory");
}

static size_t count_files(const char *dir)
{
    size_t n = 0;
    DIR *d = opendir(dir);
    CHECK(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

TEST(kernel_cpu_leaves_no_files_and_compiles_once)
{
    char dir[600], compiler[700], log[700], text[4000];
    snprintf(dir, sizeof dir, "%s/only_once", test_temp_dir());
    CHECK(mkdir(dir, 0700) == 0);
    snprintf(compiler, sizeof compiler, "%s/once", test_temp_dir());
    snprintf(log, sizeof log, "%s/once.log", test_temp_dir());
    snprintf(text, sizeof text,
             "#!/bin/sh\n[ $1 = --version ] && exec cc --version\n"
             "echo call >>%s\nls -ld %s/* >>%s\nexec cc \"$@\"\n",
             log, dir, log);
    write_program(compiler, text);
    char *was = set_variable("FLX_CC", compiler);
    char *old_dir = set_variable("TMPDIR", dir);
    flx_context *ctx = flx_context_new(NULL);
    flx_kernel *first = flk_in(ctx, doubling), *second = flk_in(ctx, doubling);
    flx_error err = {0};
    float x[4] = {1, 2, 3, 4}, out[4] = {0};
    for (int i = 0; i < 3; i++) {
        CHECK_OK(run_on(first, "cpu", x, out, 4, &err), &err);
        CHECK_OK(run_on(second, "cpu", x, out, 4, &err), &err);
    }
    CHECK_EQ_U64(count_files(dir), 2); /* . and .. */
    flx_kernel_release(first);
    flx_kernel_release(second);
    flx_context_free(ctx);
    put_back("FLX_CC", was);
    put_back("TMPDIR", old_dir);
    char seen[2000] = "";
    FILE *f = fopen(log, "r");
    CHECK(f);
    size_t n = fread(seen, 1, sizeof seen - 1, f);
    fclose(f);
    seen[n] = 0;
    CHECK_MSG(strncmp(seen, "call\n", 5) == 0 && !strstr(seen + 5, "call"), "%s", seen);
    CHECK_MSG(strstr(seen, "drwx------"), "%s", seen); /* no one else may enter */
}

/* ---- Memory ---- */

TEST(kernel_cpu_takes_memory_of_any_alignment)
{
    flx_kernel *k = flk(
        "kernel odd(workgroup = [4, 1, 1]) { buffer x: f64[] read; buffer y: u16[] read_write; buffer n: u32[] read;"
        " let i = invocation_id(0); y[i] = y[i] + cast<u16>(x[i]) + cast<u16>(buf_len(n)); }");
    static unsigned char raw[512];
    flx_error err = {0};
    const uint32_t grid[3] = {2, 1, 1};
    for (size_t shift = 0; shift < 3; shift++) {
        unsigned char *x = raw + shift, *y = raw + 300 + shift;
        for (size_t i = 0; i < 8; i++) {
            double d = (double)i * 3;
            uint16_t u = (uint16_t)(i + 100);
            memcpy(x + i * sizeof d, &d, sizeof d);
            memcpy(y + i * sizeof u, &u, sizeof u);
        }
        flx_kernel_memory m[] = {{"x", x, 64}, {"y", y, 16}, {"n", NULL, 0}};
        CHECK_OK(flx_kernel_run(k, grid, m, 3, &(flx_kernel_run_options){.device = "cpu"}, &err), &err);
        for (size_t i = 0; i < 8; i++) {
            uint16_t u;
            memcpy(&u, y + i * sizeof u, sizeof u);
            CHECK_EQ_U64(u, i * 4 + 100);
        }
    }
    flx_kernel_release(k);
}

TEST(kernel_cpu_empty_and_too_large_grids)
{
    flx_kernel *k = flk(doubling);
    flx_error err = {0};
    float x[4] = {0}, out[4] = {7, 7, 7, 7};
    flx_kernel_memory m[] = {{"x", x, sizeof x}, {"out", out, sizeof out}};
    flx_kernel_run_options o = {.device = "cpu"};
    const uint32_t none[3] = {1, 0, 1}, many[3] = {UINT32_MAX / 4 + 1, 1, 1},
                   more[3] = {1u << 20, UINT32_MAX, UINT32_MAX};
    CHECK_OK(flx_kernel_run(k, none, m, 2, &o, &err), &err);
    CHECK(out[0] == 0); /* an output starts at zero whatever runs */
    CHECK_CODE(flx_kernel_run(k, many, m, 2, &o, &err), FLX_E_SIZE, &err);
    CHECK_CODE(flx_kernel_run(k, more, m, 2, &o, &err), FLX_E_SIZE, &err);
    o.flags = FLX_KERNEL_DETECT_RACES;
    const uint32_t one[3] = {1, 1, 1};
    CHECK_CODE(flx_kernel_run(k, one, m, 2, &o, &err), FLX_E_UNSUPPORTED, &err);
    flx_kernel_release(k);
}

/* The same bits whatever the threads do: sums by atomics run in order. */
TEST(kernel_cpu_repeats_itself)
{
    flx_kernel *k = flk("kernel sums(workgroup = [64, 1, 1]) { buffer x: f32[] read; buffer out: f32[4] output; buffer "
                        "n: u32[2] output;"
                        " let i = invocation_id(0); atomic_add(out[i % 4], x[i]); atomic_max(n[0], i); }");
    enum { COUNT = 64 * 1024 };
    static float x[COUNT];
    float first[4] = {0}, out[4];
    uint32_t n[2];
    uint64_t state = test_seed();
    flx_error err = {0};
    for (size_t i = 0; i < COUNT; i++)
        x[i] = (float)(test_uniform(&state) - 0.5);
    for (int round = 0; round < 20; round++) {
        const uint32_t grid[3] = {COUNT / 64, 1, 1};
        flx_kernel_memory m[] = {{"x", x, sizeof x}, {"out", out, sizeof out}, {"n", n, sizeof n}};
        CHECK_OK(flx_kernel_run(k, grid, m, 3, &(flx_kernel_run_options){.device = round ? "cpu" : "ref"}, &err), &err);
        if (round == 0)
            memcpy(first, out, sizeof out);
        CHECK(memcmp(first, out, sizeof out) == 0);
        CHECK_EQ_U64(n[0], COUNT - 1);
    }
    flx_kernel_release(k);
}

/* ---- Failing allocations ---- */

/* Every allocation of emitting, compiling and running fails once; the compiler returns what a real one
   made before, so that there is time for all of them. */
TEST(kernel_cpu_survives_failing_allocations)
{
    char kept[600], keeper[700], giver[700], text[2000];
    snprintf(kept, sizeof kept, "%s/kept.so", test_temp_dir());
    snprintf(keeper, sizeof keeper, "%s/keeper", test_temp_dir());
    snprintf(giver, sizeof giver, "%s/giver", test_temp_dir());
    snprintf(text, sizeof text, "#!/bin/sh\ncc \"$@\" || exit 1\nfor a; do case $a in *.so) cp $a %s;; esac; done\n",
             kept);
    write_program(keeper, text);
    snprintf(text, sizeof text, "#!/bin/sh\nfor a; do case $a in *.so) cp %s $a;; esac; done\n", kept);
    write_program(giver, text);
    char *was = set_variable("FLX_CC", keeper);
    float x[5] = {1, 2, 3, 4, 5}, out[5];
    flx_error err = {0};
    bool done = false;
    for (size_t fail_at = 0; !done; fail_at++) {
        fault f = {0};
        flx_context *ctx = flx_context_new(&(flx_context_options){.alloc = fault_alloc, .alloc_user = &f});
        flx_kernel *k =
            flk_in(ctx, "kernel shared(workgroup = [4, 1, 1]) { buffer x: f32[] read; buffer out: f32[] output;"
                        " buffer s: f32[4] workgroup; fn half(a: f32) -> f32 { return a * 0.5; } let l = local_id(0);"
                        " let own = x[invocation_id(0)]; s[l] = half(own); barrier();"
                        " out[invocation_id(0)] = s[3 - l] + own + subgroup_add(own); }");
        f.fail_at = fail_at ? f.calls + fail_at : 0;
        char *odd = (char *)malloc(64) + 1; /* unaligned memory needs a copy */
        memcpy(odd, x, sizeof x);
        const uint32_t grid[3] = {2, 1, 1};
        flx_kernel_memory m[] = {{"x", odd, sizeof x}, {"out", out, sizeof out}};
        flx_code code = flx_kernel_run(k, grid, m, 2, &(flx_kernel_run_options){.device = "cpu"}, &err);
        free(odd - 1);
        test_fail_context("allocation %zu", fail_at);
        CHECK_MSG(code == FLX_OK || code == FLX_E_OOM, "%d %s", code, err.message);
        CHECK(code != FLX_OK || out[0] == 2 + 1 + 10);
        CHECK(fail_at || code == FLX_OK);
        done = fail_at && f.failed == 0;
        flx_kernel_release(k);
        flx_context_free(ctx);
        CHECK(fault_is_clean(&f));
        setenv("FLX_CC", giver, 1);
    }
    put_back("FLX_CC", was);
}
