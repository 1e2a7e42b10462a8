/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_kernel_optimise.c: `flx kernel optimise` and `flx kernel fuse`: kernels that do the same with less. */
#include "kernel/cmd_kernel.h"

#include "commands.h"
#include "kernel/kernel_file.h"
#include "report.h"

/* ---- optimise ---- */

static int run_optimise(const args *a)
{
    kernel_file f;
    flx_error err = {0};
    flx_kernel *fast = NULL;
    int status = kernel_open(&f, a->operand);
    if (!status && !(fast = flx_kernel_optimise(f.kernel, args_value(a, "--passes"), &err)))
        status = report(&err, f.name);
    if (!status)
        status = kernel_write(fast, a);
    flx_kernel_release(fast);
    kernel_close(&f);
    return status;
}

static const option optimise_rows[] = {
    {"--passes", "NAMES", "which, as in cse,licm; -unroll,-peel: the usual ones without these", MAY_BE_GIVEN},
    OPTION_KERNEL_OUTPUT,
    {0},
};
static const char *const optimise_examples[] = {
    "flx kernel optimise examples/tiled_matmul.flk",
    "flx kernel optimise examples/tiled_matmul.flk --passes inline_always,propagate,dce",
    NULL,
};

const command command_kernel_optimise = {
    .name = "kernel optimise",
    .operand = "FILE",
    .summary = "print a kernel that does the same with less",
    .about = "Every bit of the result stays, unless the kernel's flags allow otherwise. Passes run in turn until none\n"
             "changes anything. The usual ones, in their order:\n"
             "  inline propagate coalesce bounds if forward dead_store peel unroll fuse cse licm barriers dce select\n"
             "  strength\n"
             "and on request: inline_always fold split strip_mine.",
    .options = optimise_rows,
    .examples = optimise_examples,
    .run = run_optimise,
};

/* ---- fuse ---- */

static int run_fuse(const args *a)
{
    kernel_file first, second = {0};
    flx_error err = {0};
    flx_kernel *fused = NULL;
    const char *then = args_value(a, "--then");
    if (!then)
        return fail(FLX_E_USAGE, "flx kernel fuse needs --then FILE");
    int status = kernel_open(&first, a->operand);
    if (!status)
        status = kernel_open(&second, then);
    if (!status && !(fused = flx_kernel_fuse(first.kernel, second.kernel, &err)))
        status = report(&err, NULL);
    if (!status)
        status = kernel_write(fused, a);
    flx_kernel_release(fused);
    kernel_close(&second);
    kernel_close(&first);
    return status;
}

static const option fuse_rows[] = {
    {"--then", "FILE", "the kernel that is dispatched second, over the same grid", MUST_BE_GIVEN},
    OPTION_KERNEL_OUTPUT,
    {0},
};
static const char *const fuse_examples[] = {
    "flx kernel fuse examples/saxpy.flk --then examples/square.flk | flx kernel optimise -",
    NULL,
};

const command command_kernel_fuse = {
    .name = "kernel fuse",
    .operand = "FILE",
    .summary = "print one kernel for two dispatches",
    .about =
        "Bound buffers of one name are the same memory. It is refused, with the reason, when an invocation of the\n"
        "second kernel may need what another one of the first did.",
    .options = fuse_rows,
    .examples = fuse_examples,
    .run = run_fuse,
};
