/* SPDX-License-Identifier: Apache-2.0 */
/* bench_kernel.c: the cost of derivatives of kernels: time and tape of a long loop under a budget, and the memory
   traffic of an elementwise kernel and its reverse.

       bench_kernel [STEPS]      (default 1000000) */
#include "bench.h"

#include <fluxion/fluxion.h>
#include <fluxion/kernel.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static flx_kernel *parse(flx_context *ctx, const char *text)
{
    flx_error err = {0};
    flx_kernel *k = flx_kernel_parse(ctx, text, strlen(text), "bench", &err);
    check(k != NULL, &err);
    return k;
}

/* The longest tape, in bytes per invocation. */
static unsigned long long tape_bytes(const flx_kernel_derived *d)
{
    unsigned long long sum = 0;
    flx_kernel_need n;
    for (size_t i = 0; flx_kernel_derived_need(d, i, &n) == FLX_OK; i++)
        if (n.role == FLX_KERNEL_TAPE)
            sum += strtoull(n.length, NULL, 10) * (n.element == FLX_F64 ? 8 : 4);
    return sum;
}

static void long_loop(flx_context *ctx, unsigned steps, const char *device)
{
    char text[300];
    snprintf(text, sizeof text,
             "kernel k() { buffer x: f64[1] read; buffer out: f64[1] output; let y = x[0];"
             "for (s in 0..%u) { y = y - 1e-6 * y * y; } out[0] = y; }",
             steps);
    flx_kernel *k = parse(ctx, text);
    const char *const out = "out", *const in = "x";
    double gradient[2] = {0};
    for (int limited = 0; limited < 2; limited++) {
        flx_kernel_grad_options options = {.struct_size = sizeof options, .tape_budget = limited ? 65536 : 0};
        flx_error err = {0};
        double start = now();
        flx_kernel_derived *d = flx_kernel_grad(k, &out, 1, &in, 1, &options, &err);
        check(d != NULL, &err);
        double made = now();
        double x = 1;
        flx_kernel_memory memory[] = {{"x", &x, 8}, {"grad_x", &gradient[limited], 8}};
        flx_kernel_run_options run = {.struct_size = sizeof run, .device = device};
        const uint32_t grid[3] = {1, 1, 1};
        check(flx_kernel_derived_run(d, grid, memory, 2, &run, &err) == FLX_OK, &err);
        double first = now();
        check(flx_kernel_derived_run(d, grid, memory, 2, &run, &err) == FLX_OK, &err);
        printf("  %-4s %-22s differentiated in %.4f s, run in %.4f s, tape %llu bytes, gradient %.15g\n", device,
               limited ? "budget 64 KiB" : "no budget", made - start, now() - first, tape_bytes(d), gradient[limited]);
        flx_kernel_derived_free(d);
    }
    printf("  bit for bit the same: %s\n", memcmp(&gradient[0], &gradient[1], 8) == 0 ? "yes" : "NO");
    flx_kernel_release(k);
}

int main(int argc, char **argv)
{
    unsigned steps = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 1000000;
    flx_context *ctx = flx_context_new(NULL);
    if (!ctx)
        return 3;
    printf("%u steps of y = y - 1e-6 y y\n", steps);
    long_loop(ctx, steps, "ref");
    long_loop(ctx, steps, "cpu");
    flx_context_free(ctx);
    return 0;
}
