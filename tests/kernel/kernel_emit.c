/* kernel_emit.c: emitted C against the interpreter: every op on every type, control flow, memory, barriers, subgroups. */
#include "kernel/emit_programs.h"
#include "kernel/op_matrix.h"

#include "backend/cpu/kernel_cpu.h"

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
