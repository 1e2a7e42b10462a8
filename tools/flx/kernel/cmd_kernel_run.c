/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_kernel_run.c: `flx kernel run` and `flx kernel vjp`: buffers in, buffers out. */
#include "command/derive.h"
#include "commands.h"
#include "kernel/cmd_kernel.h"
#include "kernel/kernel_file.h"
#include "report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Running ---- */

static bool is_written(const flx_kernel_buffer *b)
{
    return b->access == FLX_KERNEL_WRITE || b->access == FLX_KERNEL_READ_WRITE;
}

/* Outputs start at zero, what is only written may; everything else must be given. */
static int complete(buffer_values *v, const kernel_file *f)
{
    bool any = false;
    int status = STATUS_OK;
    for (size_t i = 0; !status && i < v->count; i++) {
        buffer_value *b = &v->at[i];
        bool is_output = (b->declared.flags & FLX_KERNEL_OUTPUT) || b->declared.access == FLX_KERNEL_WRITE;
        if (is_output)
            status = values_zero(v, f, b);
        else if (!b->value && !any) {
            any = true;
            fail_list_begin("buffers without contents");
        }
        if (!is_output && !b->value)
            list_item(b->name);
    }
    if (!any)
        return status;
    status = fail_list_end(FLX_E_MISSING_INPUT);
    hint("give each by --in NAME=SPEC");
    return status;
}

static flx_kernel_run_options run_options(const args *a)
{
    uint32_t flags = args_has(a, "--check-races") ? FLX_KERNEL_DETECT_RACES : 0;
    if (args_has(a, "--check-arithmetic"))
        flags |= FLX_KERNEL_CHECKED;
    return (flx_kernel_run_options){
        .struct_size = sizeof(flx_kernel_run_options), .flags = flags, .device = args_value(a, "--device")};
}

static int dispatch(buffer_values *v, const kernel_file *f, const args *a, const uint32_t grid[3])
{
    flx_kernel_memory *memory = calloc(v->count + 1, sizeof *memory);
    size_t n;
    int status = memory ? values_memory(v, memory, &n) : fail_memory();
    flx_kernel_run_options options = run_options(a);
    flx_error err = {0};
    if (!status && flx_kernel_run(f->kernel, grid, memory, n, &options, &err))
        status = report(&err, NULL);
    tell_slow();
    free(memory);
    return status ? status : values_take(v);
}

static int run_run(const args *a)
{
    uint32_t grid[3];
    kernel_file f = {0};
    buffer_values v = {0};
    int status = grid_read(a, grid);
    if (!status)
        status = kernel_open(&f, a->operand);
    if (!status)
        status = values_read(&v, &f, a, grid, NULL);
    if (!status)
        status = complete(&v, &f);
    if (!status)
        status = dispatch(&v, &f, a, grid);
    for (size_t i = 0; !status && i < v.count; i++)
        if (is_written(&v.at[i].declared))
            status = value_tell(&f, a, &v.at[i]);
    values_free(&v);
    kernel_close(&f);
    return status;
}

static const option run_rows[] = {OPTION_GRID,          OPTION_KERNEL_IN,   OPTION_LENGTH,           OPTION_KERNEL_OUT,
                                  OPTION_KERNEL_DEVICE, OPTION_CHECK_RACES, OPTION_CHECK_ARITHMETIC, {0}};

static const char *const run_examples[] = {
    "flx kernel run examples/saxpy.flk --grid 16 --in x=iota --in y=ones",
    "flx kernel run examples/histogram.flk --grid 4 --in x=uniform:1 --out bins",
    "flx kernel run examples/histogram.flk --grid 4 --in x=uniform:1 --check-races",
    NULL,
};

const command command_kernel_run = {
    .name = "kernel run",
    .operand = "FILE",
    .summary = "dispatch a kernel once",
    .about = "Runs the kernel over the grid. Outputs start at zero; they and other buffers that the kernel may\n"
             "write are printed in short, or written to files.\n"
             "\n"
             "Two invocations that access one element, one of them writing, must be separated by a barrier, or both\n"
             "must use atomics. --check-races finds those that are not, in this dispatch: other data, or another\n"
             "grid, may have others.\n"
             "\n" ABOUT_KERNEL_SPEC,
    .options = run_rows,
    .examples = run_examples,
    .run = run_run,
};

/* ---- Gradients ---- */

int kernel_names_read(const args *a, text_list *outputs, text_list *inputs)
{
    const char *out = args_value(a, "--outputs"), *in = args_value(a, "--inputs");
    if (!out || !in) {
        int status = fail(FLX_E_USAGE, "flx %s needs --outputs NAMES and --inputs NAMES", a->command->name);
        hint("the buffers to differentiate, and those with respect to which, as in --outputs out --inputs x,y");
        return status;
    }
    int status = list_read(outputs, "--outputs", out, "A,B,...");
    if (!status)
        status = list_read(inputs, "--inputs", in, "A,B,...");
    if (!status)
        status = list_check_unique(outputs, "--outputs");
    return status ? status : list_check_unique(inputs, "--inputs");
}

static void tell_warnings(const flx_kernel_derived *d)
{
    for (size_t i = 0; i < flx_kernel_derived_warning_count(d); i++)
        note("%s", flx_kernel_derived_warning(d, i));
}

static int fill_ones(buffer_value *b)
{
    for (int64_t i = 0; i < flx_tensor_count(b->value); i++) {
        if (b->declared.element == FLX_F64)
            ((double *)flx_tensor_data(b->value))[i] = 1;
        else
            ((float *)flx_tensor_data(b->value))[i] = 1;
    }
    return STATUS_OK;
}

/* Cotangents that are not given are ones, gradients begin as zeros. */
static int complete_derivatives(buffer_values *v, const kernel_file *f)
{
    int status = STATUS_OK;
    for (size_t i = 0; !status && i < v->count; i++) {
        buffer_value *b = &v->at[i];
        if (!b->forward || b->value)
            continue;
        status = values_zero_derivative(v, f, b);
        if (!status && b->role == FLX_KERNEL_COTANGENT)
            status = fill_ones(b);
    }
    return status;
}

static int run_derived(buffer_values *v, const flx_kernel_derived *d, const args *a, const uint32_t grid[3])
{
    flx_kernel_memory *memory = calloc(v->count + 1, sizeof *memory);
    size_t n;
    int status = memory ? values_memory(v, memory, &n) : fail_memory();
    flx_kernel_run_options options = run_options(a);
    flx_error err = {0};
    if (!status && flx_kernel_derived_run(d, grid, memory, n, &options, &err))
        status = report(&err, NULL);
    tell_slow();
    free(memory);
    return status;
}

/* Of a buffer that is both an output and an input, the cotangent that was given becomes the gradient. */
static int tell_gradients(buffer_values *v, const kernel_file *f, const args *a, const text_list *inputs)
{
    int status = STATUS_OK;
    for (size_t i = 0; !status && i < inputs->count; i++) {
        buffer_value *b = values_derivative(v, inputs->items[i], FLX_KERNEL_GRADIENT);
        if (!b)
            b = values_derivative(v, inputs->items[i], FLX_KERNEL_COTANGENT);
        status = b ? value_tell(f, a, b) : fail(FLX_E_INTERNAL, "'%s' has no gradient", inputs->items[i]);
    }
    return status;
}

static int run_vjp(const args *a)
{
    uint32_t grid[3];
    kernel_file f = {0};
    buffer_values v = {0};
    text_list outputs = {0}, inputs = {0};
    flx_kernel_derived *d = NULL;
    flx_error err = {0};
    int status = kernel_names_read(a, &outputs, &inputs);
    if (!status)
        status = grid_read(a, grid);
    if (!status)
        status = kernel_open(&f, a->operand);
    if (!status &&
        !(d = flx_kernel_grad(f.kernel, outputs.items, outputs.count, inputs.items, inputs.count, NULL, &err)))
        status = report_transform(&err);
    if (!status) {
        tell_warnings(d);
        status = values_read(&v, &f, a, grid, d);
    }
    if (!status)
        status = complete_derivatives(&v, &f);
    if (!status)
        status = run_derived(&v, d, a, grid);
    if (!status)
        status = tell_gradients(&v, &f, a, &inputs);
    flx_kernel_derived_free(d);
    values_free(&v);
    kernel_close(&f);
    list_free(&outputs);
    list_free(&inputs);
    return status;
}

static const option vjp_rows[] = {
    {"--outputs", "NAMES", "the buffers to differentiate, as in a,b", MUST_BE_GIVEN},
    {"--inputs", "NAMES", "the buffers to differentiate with respect to, as in a,b", MUST_BE_GIVEN},
    OPTION_GRID,
    OPTION_KERNEL_IN,
    OPTION_LENGTH,
    OPTION_KERNEL_OUT,
    OPTION_KERNEL_DEVICE,
    OPTION_CHECK_RACES,
    OPTION_CHECK_ARITHMETIC,
    {0},
};

static const char *const vjp_examples[] = {
    "flx kernel vjp examples/saxpy.flk --outputs out --inputs x,y --grid 16 --in x=iota --in y=ones",
    "flx kernel vjp examples/saxpy.flk --outputs out --inputs x --grid 16 --in grad_out=2 --out grads",
    NULL,
};

const command command_kernel_vjp = {
    .name = "kernel vjp",
    .operand = "FILE",
    .summary = "run the gradient of a kernel",
    .about = "Differentiates the kernel in reverse mode and runs the result with whatever it needs. Cotangents are\n"
             "given as grad_<output>, by --in; they are ones otherwise. The gradients are called grad_<input>.\n"
             "A name that the kernel has already gets a number, as flx kernel grad shows. Any buffer of the\n"
             "kernel may be given, needed or not.\n"
             "\n" ABOUT_KERNEL_SPEC,
    .options = vjp_rows,
    .examples = vjp_examples,
    .run = run_vjp,
};
