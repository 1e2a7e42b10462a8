/* kernel_emit.c: emitted C against the interpreter: every op on every type, control flow, memory, barriers, subgroups. */
#include "kernel/emit_programs.h"
#include "kernel/op_matrix.h"
#include "kernel/emit_random.h"

#include "backend/cpu/kernel_cpu.h"

#include <stdio.h>
#include <stdlib.h>

TEST(kernel_emit_c_every_op_on_every_type)
{
    op_matrix m;
    flx_error err = {0};
    op_matrix_make(&m, flk_context(), 0);
    CHECK_OK(flxi_cpu_prepare(m.at, m.n, &err), &err);
    op_matrix_check(&m, "cpu", 0);
    op_matrix_free(&m);
}

TEST(kernel_emit_c_programs)
{
    enum { MAX = 64 };
    static flx_kernel *kernels[MAX];
    flx_error err = {0};
    CHECK(num_emit_programs <= MAX);
    for (size_t i = 0; i < num_emit_programs; i++)
        kernels[i] = flk(emit_programs[i].text);
    CHECK_OK(flxi_cpu_prepare(kernels, num_emit_programs, &err), &err);
    for (size_t i = 0; i < num_emit_programs; i++) {
        emit_program_check(&emit_programs[i], kernels[i], "cpu", 0);
        flx_kernel_free(kernels[i]);
    }
}

/* FLX_RANDOM_KERNELS of them, 40 in one file. */
TEST(kernel_emit_c_random_kernels)
{
    enum { BATCH = 40 };
    flx_kernel *kernels[BATCH];
    const char *wanted = getenv("FLX_RANDOM_KERNELS");
    size_t total = wanted && wanted[0] ? strtoull(wanted, NULL, 10) : BATCH;
    uint64_t seed = test_seed();
    for (size_t done = 0; done < total && !test_failed(); done += BATCH) {
        flx_context *ctx = flx_context_new(NULL);
        flx_error err = {0};
        for (size_t i = 0; i < BATCH; i++)
            kernels[i] = emit_random(ctx, seed + done + i, 0);
        CHECK_OK(flxi_cpu_prepare(kernels, BATCH, &err), &err);
        for (size_t i = 0; i < BATCH; i++) {
            device_pair p = {.device = "cpu", .grid = {4, 2, 1}, .open_count = 100, .seed = seed + done + i};
            p.max_index = i % 2 ? 70 : 0;
            p.subgroup_size = i % 3 ? 32 : 3;
            device_pair_check(kernels[i], &p);
            flx_kernel_free(kernels[i]);
        }
        flx_context_free(ctx);
    }
}

/* ---- OpenCL ---- */

/* Whether there is a device; says so when there is none. */
static bool has_opencl(void)
{
    static int known = -1;
    if (known < 0) {
        flx_error err = {0};
        const uint32_t grid[3] = {1, 1, 1};
        flx_kernel *k = flk("kernel probe { buffer out: u32[1] output; out[0] = 1; }");
        uint32_t out = 0;
        flx_kernel_memory m = {"out", &out, sizeof out};
        flx_code code = flx_kernel_run(k, grid, &m, 1, &(flx_kernel_run_options){.device = "opencl"}, &err);
        flx_kernel_free(k);
        CHECK_MSG(code == FLX_OK || code == FLX_E_DEVICE, "%s", err.message);
        CHECK(code != FLX_OK || out == 1);
        if (code != FLX_OK)
            printf("   OpenCL is left out: %s\n", err.message);
        known = code == FLX_OK;
    }
    return known;
}

TEST(kernel_emit_opencl_every_op_on_every_type)
{
    op_matrix m;
    if (!has_opencl())
        return;
    op_matrix_make(&m, flk_context(), OP_MATRIX_EXACT);
    op_matrix_check(&m, "opencl", 0);
    op_matrix_free(&m);
    op_matrix_make(&m, flk_context(), OP_MATRIX_TRANSCENDENTAL);
    op_matrix_check(&m, "opencl", 128);
    op_matrix_free(&m);
}

TEST(kernel_emit_opencl_programs)
{
    for (size_t i = 0; i < num_emit_programs && has_opencl(); i++) {
        if (emit_programs[i].flags & (PROGRAM_DIVERGENT | PROGRAM_ORDER | PROGRAM_SERIAL))
            continue;
        flx_kernel *k = flk(emit_programs[i].text);
        emit_program_check(&emit_programs[i], k, "opencl", 0);
        flx_kernel_free(k);
    }
}
