/* kernel_regress.c: one test per bug that fuzzing found in kernels. */
#include "flk.h"

#include "kernel/kernel_validate.h"

/* What a transform gave must be a valid kernel. */
static void check_derived(flx_kernel_derived *d, const flx_error *err)
{
    CHECK_MSG(d != NULL, "%s", err->message);
    for (size_t i = 0; i < flx_kernel_derived_count(d); i++) {
        flx_error other = {0};
        CHECK_OK(flxi_kernel_check(flx_kernel_derived_kernel(d, i), &other), &other);
    }
    flx_kernel_derived_free(d);
}

TEST(kernel_regress_tangents_do_not_take_bindings_of_the_forward_kernel)
{
    flx_kernel *k = flk("kernel k() {\n"
                        "  buffer x: f32[8] read @0;\n"
                        "  buffer y: f32[8] read_write @1;\n"
                        "  buffer o: f32[8] output @4;\n"
                        "  let i = invocation_id(0);\n"
                        "  o[i] = fma(2.0, x[i], y[i]);\n"
                        "}\n");
    const char *in = "x";
    const char *out = "o";
    flx_error err = {0};
    check_derived(flx_kernel_jvp(k, &out, 1, &in, 1, NULL, &err), &err);
    check_derived(flx_kernel_grad(k, &out, 1, &in, 1, NULL, &err), &err);
    flx_kernel_free(k);
}
