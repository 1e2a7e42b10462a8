/* kernel_emit.c: emitted C against the interpreter: every op on every type. */
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
