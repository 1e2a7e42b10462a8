/* kernel_emit.c: emitted C against the interpreter: every op on every type, control flow, memory, barriers, subgroups. */
#include "kernel/emit_programs.h"
#include "kernel/op_matrix.h"
#include "kernel/emit_random.h"

#include "backend/cpu/kernel_cpu.h"

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
