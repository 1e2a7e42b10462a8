/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_kernel.c: `flx kernel`: what can be done with a kernel beside running it: checking, printing, differentiating,
   emitting, and the wire form. */
#include "kernel/cmd_kernel.h"

#include "command/cmd_help.h"
#include "commands.h"
#include "io/json_writer.h"
#include "kernel/kernel_file.h"
#include "report.h"
#include "suggest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- check ---- */

static const char *const access_names[FLX_KERNEL_ACCESS_COUNT] = {
    [FLX_KERNEL_READ] = "read",       [FLX_KERNEL_WRITE] = "write",         [FLX_KERNEL_READ_WRITE] = "read_write",
    [FLX_KERNEL_UNIFORM] = "uniform", [FLX_KERNEL_WORKGROUP] = "workgroup", [FLX_KERNEL_PRIVATE] = "private",
};

static const char *access_name(const flx_kernel_buffer *b)
{
    return b->flags & FLX_KERNEL_OUTPUT ? "output" : access_names[b->access];
}

static void print_buffers(const flx_kernel *k)
{
    for (size_t i = 0; i < flx_kernel_buffer_count(k); i++) {
        flx_kernel_buffer b = {.struct_size = sizeof b};
        flx_kernel_buffer_at(k, i, &b);
        char count[32] = "";
        if (b.count)
            snprintf(count, sizeof count, "%llu", (unsigned long long)b.count);
        printf("  %s: %s[%s] %s\n", b.name, flx_kernel_type_name(b.element), count, access_name(&b));
    }
}

static void print_kernel_json(const flx_kernel *k, size_t warnings)
{
    json j = {0};
    uint32_t size[3];
    flx_kernel_workgroup_size(k, size);
    json_object_begin(&j, NULL);
    json_text(&j, "kernel", flx_kernel_name(k));
    json_array_begin(&j, "workgroup");
    for (int i = 0; i < 3; i++)
        json_unsigned(&j, NULL, size[i]);
    json_array_end(&j);
    json_array_begin(&j, "buffers");
    for (size_t i = 0; i < flx_kernel_buffer_count(k); i++) {
        flx_kernel_buffer b = {.struct_size = sizeof b};
        flx_kernel_buffer_at(k, i, &b);
        json_object_begin(&j, NULL);
        json_text(&j, "name", b.name);
        json_text(&j, "type", flx_kernel_type_name(b.element));
        json_unsigned(&j, "count", b.count);
        json_text(&j, "access", access_name(&b));
        json_object_end(&j);
    }
    json_array_end(&j);
    json_unsigned(&j, "warnings", warnings);
    json_object_end(&j);
}

static int run_check(const args *a)
{
    kernel_file f;
    size_t warnings = 0;
    int status = kernel_open_checked(&f, a->operand, &warnings);
    uint32_t size[3];
    if (!status && args_has(a, "--json")) {
        print_kernel_json(f.kernel, warnings);
    } else if (!status) {
        flx_kernel_workgroup_size(f.kernel, size);
        printf("kernel %s\nworkgroup: %u x %u x %u\nbuffers:\n", flx_kernel_name(f.kernel), size[0], size[1], size[2]);
        print_buffers(f.kernel);
    }
    kernel_close(&f);
    return status;
}

static const option check_rows[] = {OPTION_JSON, {0}};
static const char *const check_examples[] = {"flx kernel check examples/saxpy.flk", NULL};

static const command command_kernel_check = {
    .name = "kernel check",
    .operand = "FILE",
    .summary = "read and validate a kernel; list its buffers",
    .about = "Prints the kernel's name, workgroup size and buffers. Everything that is wrong with it is listed with "
             "its location,\n"
             "and so are warnings.",
    .options = check_rows,
    .examples = check_examples,
    .run = run_check,
};

/* ---- show, encode, decode ---- */

static int write_kernel(const args *a, flx_code (*form)(const flx_kernel *, flx_buffer *, flx_error *))
{
    kernel_file f;
    flx_buffer bytes = {0};
    flx_error err = {0};
    int status = kernel_open(&f, a->operand);
    if (!status && form(f.kernel, &bytes, &err))
        status = report(&err, NULL);
    if (!status)
        status = kernel_write_text(&bytes, a);
    flx_buffer_free(&bytes);
    kernel_close(&f);
    return status;
}

static int run_show(const args *a)
{
    return write_kernel(a, flx_kernel_print);
}

static int run_encode(const args *a)
{
    return write_kernel(a, flx_kernel_encode);
}

static const option output_rows[] = {OPTION_KERNEL_OUTPUT, {0}};
static const char *const show_examples[] = {"flx kernel show examples/saxpy.flk", NULL};
static const char *const encode_examples[] = {"flx kernel encode examples/saxpy.flk -o saxpy.flkb", NULL};
static const char *const decode_examples[] = {"flx kernel encode examples/saxpy.flk | flx kernel decode -", NULL};

static const command command_kernel_show = {
    .name = "kernel show",
    .operand = "FILE",
    .summary = "print a kernel as text",
    .about = "Prints text that reads back to the same kernel.",
    .options = output_rows,
    .examples = show_examples,
    .run = run_show,
};

static const command command_kernel_encode = {
    .name = "kernel encode",
    .operand = "FILE",
    .summary = "write the wire form of a kernel",
    .about = "Writes bytes: equal kernels have equal ones. Every command that takes a kernel reads them.",
    .options = output_rows,
    .examples = encode_examples,
    .run = run_encode,
};

static const command command_kernel_decode = {
    .name = "kernel decode",
    .operand = "FILE",
    .summary = "print the kernel that a wire form holds",
    .about = "Reads bytes that flx kernel encode wrote and prints the kernel as text.",
    .options = output_rows,
    .examples = decode_examples,
    .run = run_show,
};

/* ---- emit ---- */

static int run_emit(const args *a)
{
    static const char *const targets[] = {"c", "cuda", "opencl", NULL};
    int target = choice_read(a, "--to", targets);
    if (target < 0)
        return STATUS_BAD_INPUT;
    kernel_file f;
    flx_buffer text = {0};
    flx_error err = {0};
    int status = kernel_open(&f, a->operand);
    if (!status && flx_kernel_emit(f.kernel, targets[target], &text, &err))
        status = report(&err, NULL);
    if (!status)
        status = kernel_write_text(&text, a);
    flx_buffer_free(&text);
    kernel_close(&f);
    return status;
}

static const option emit_rows[] = {
    {"--to", "c|cuda|opencl", "the language; C unless given", MAY_BE_GIVEN},
    OPTION_KERNEL_OUTPUT,
    {0},
};
static const char *const emit_examples[] = {"flx kernel emit examples/saxpy.flk --to cuda", NULL};

static const command command_kernel_emit = {
    .name = "kernel emit",
    .operand = "FILE",
    .summary = "print a kernel as C, CUDA C or OpenCL C",
    .about = "Names in the source are made from numbers; no text of the kernel gets there.",
    .options = emit_rows,
    .examples = emit_examples,
    .run = run_emit,
};

/* ---- grad, jvp ---- */

typedef flx_kernel_derived *(*derive_kernel_fn)(const flx_kernel *, const char *const *, size_t, const char *const *,
                                                size_t, const flx_kernel_grad_options *, flx_error *);

static const char *const role_names[] = {
    [FLX_KERNEL_PRIMAL] = "primal",       [FLX_KERNEL_SCRATCH] = "a copy",    [FLX_KERNEL_RESULT] = "result",
    [FLX_KERNEL_COTANGENT] = "cotangent", [FLX_KERNEL_GRADIENT] = "gradient", [FLX_KERNEL_ADJOINT] = "adjoint",
    [FLX_KERNEL_TAPE] = "tape",           [FLX_KERNEL_TANGENT] = "tangent",   [FLX_KERNEL_COUNTER] = "counter",
};

/* What the caller of the kernel must know, as comments above it. */
static void print_needs(FILE *f, const flx_kernel_derived *d)
{
    flx_kernel_need n;
    for (size_t i = 0; flx_kernel_derived_need(d, i, &n) == FLX_OK; i++)
        fprintf(f, "// %s: %s of %s elements%s%s%s\n", n.buffer, role_names[n.role], n.length,
                n.flags & FLX_KERNEL_NEED_ZERO ? ", zero before the dispatch" : "",
                n.flags & FLX_KERNEL_NEED_CONSUMED ? ", consumed" : "",
                n.flags & FLX_KERNEL_NEED_ATOMIC ? ", added to atomically" : "");
}

static int write_derived(const flx_kernel_derived *d, const args *a)
{
    flx_buffer text = {0};
    flx_error err = {0};
    const char *path = args_value(a, "-o");
    bool to_stdout = !path || strcmp(path, "-") == 0;
    if (flx_kernel_derived_counting(d))
        note("tape lengths depend on data: flx kernel vjp counts them first");
    if (!to_stdout)
        return kernel_write(flx_kernel_derived_kernel(d, 0), a);
    if (flx_kernel_print(flx_kernel_derived_kernel(d, 0), &text, &err))
        return report(&err, NULL);
    print_needs(stdout, d);
    fwrite(text.data, 1, text.size, stdout);
    flx_buffer_free(&text);
    return STATUS_OK;
}

static int derive_kernel(const args *a, derive_kernel_fn derive)
{
    kernel_file f = {0};
    text_list outputs = {0}, inputs = {0};
    flx_kernel_derived *d = NULL;
    flx_error err = {0};
    flx_kernel_grad_options options = {.struct_size = sizeof options,
                                       .flags = args_has(a, "--strict") ? FLX_KERNEL_STRICT : 0};
    int status = kernel_names_read(a, &outputs, &inputs);
    if (!status)
        status = kernel_open(&f, a->operand);
    if (!status && !(d = derive(f.kernel, outputs.items, outputs.count, inputs.items, inputs.count, &options, &err)))
        status = report_transform(&err);
    for (size_t i = 0; !status && i < flx_kernel_derived_warning_count(d); i++)
        note("%s", flx_kernel_derived_warning(d, i));
    if (!status)
        status = write_derived(d, a);
    flx_kernel_derived_free(d);
    kernel_close(&f);
    list_free(&outputs);
    list_free(&inputs);
    return status;
}

static int run_grad(const args *a)
{
    return derive_kernel(a, flx_kernel_grad);
}

static int run_jvp(const args *a)
{
    return derive_kernel(a, flx_kernel_jvp);
}

static const option derive_rows[] = {
    {"--outputs", "NAMES", "the buffers to differentiate, as in a,b", MUST_BE_GIVEN},
    {"--inputs", "NAMES", "the buffers to differentiate with respect to, as in a,b", MUST_BE_GIVEN},
    {"--strict", NULL, "a piecewise constant operation on the way is an error", MAY_BE_GIVEN},
    OPTION_KERNEL_OUTPUT,
    {0},
};
static const char *const grad_examples[] = {
    "flx kernel grad examples/saxpy.flk --outputs out --inputs x,y",
    "flx kernel grad examples/ode.flk --outputs out --inputs y0 | flx kernel grad --outputs grad_y0 --inputs y0 -",
    NULL,
};
static const char *const jvp_examples[] = {"flx kernel jvp examples/saxpy.flk --outputs out --inputs x", NULL};

static const command command_kernel_grad = {
    .name = "kernel grad",
    .operand = "FILE",
    .summary = "the reverse of a kernel, as text",
    .about = "Prints the kernel that takes cotangents grad_<output> and adds to gradients grad_<input>, with what its\n"
             "buffers need as comments. What it prints can be differentiated again.",
    .options = derive_rows,
    .examples = grad_examples,
    .run = run_grad,
};

static const command command_kernel_jvp = {
    .name = "kernel jvp",
    .operand = "FILE",
    .summary = "a kernel with its tangents, as text",
    .about = "Prints the kernel that also takes tangents tan_<input> and writes tangents tan_<output>.",
    .options = derive_rows,
    .examples = jvp_examples,
    .run = run_jvp,
};

/* ---- All of them ---- */

const command *const kernel_commands[] = {
    &command_kernel_check,  &command_kernel_show,   &command_kernel_run,      &command_kernel_vjp,
    &command_kernel_grad,   &command_kernel_jvp,    &command_kernel_fuse,     &command_kernel_emit,
    &command_kernel_encode, &command_kernel_decode, &command_kernel_optimise, NULL,
};

const command *kernel_command_find(const char *name)
{
    for (const command *const *c = kernel_commands; *c; c++)
        if (strcmp((*c)->name + strlen("kernel "), name) == 0)
            return *c;
    return NULL;
}

static int run_kernel(const args *a)
{
    int status = a->operand ? fail(FLX_E_USAGE, "unknown command 'kernel %s'", a->operand)
                            : fail(FLX_E_USAGE, "flx kernel needs a command");
    suggestion s = suggest_begin(a->operand ? a->operand : "");
    for (const command *const *c = kernel_commands; *c; c++)
        suggest_consider(&s, (*c)->name + strlen("kernel "));
    if (a->operand && s.best)
        hint("did you mean 'flx kernel %s'?", s.best);
    else
        hint("flx help kernel lists them");
    return status;
}

static const option no_rows[] = {{0}};
static const char *const kernel_examples[] = {"flx kernel run --help", NULL};

const command command_kernel = {
    .name = "kernel",
    .operand = "[COMMAND]",
    .summary = "check, run, differentiate and emit kernels (.flk)",
    .about = "  flx kernel check FILE    read and validate a kernel; list its buffers\n"
             "  flx kernel show FILE     print it as text\n"
             "  flx kernel run FILE      dispatch it once\n"
             "  flx kernel vjp FILE      run its gradient\n"
             "  flx kernel grad FILE     its reverse, as text\n"
             "  flx kernel jvp FILE      with its tangents, as text\n"
             "  flx kernel optimise FILE one that does the same with less\n"
             "  flx kernel fuse FILE     one kernel for two dispatches\n"
             "  flx kernel emit FILE     as C, CUDA C or OpenCL C\n"
             "  flx kernel encode FILE   the wire form\n"
             "  flx kernel decode FILE   and back\n"
             "flx kernel COMMAND --help tells more about one.",
    .options = no_rows,
    .examples = kernel_examples,
    .run = run_kernel,
};
