/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_run.c: `flx run`: values in, values out. */
#include "args.h"
#include "command/cmd_devices.h"
#include "commands.h"
#include "compiling.h"
#include "interrupt.h"
#include "io/drawing.h"
#include "io/inputs.h"
#include "io/json_writer.h"
#include "io/load.h"
#include "io/output.h"
#include "io/profile_table.h"
#include "io/summary.h"
#include "mesh/mesh_cuts.h"
#include "mesh/mesh_run.h"
#include "report.h"

#include <fluxion/recording.h>
#include <stdlib.h>
#include <string.h>

static const int64_t printed_values = 64; /* of a `print` op */

typedef struct {
    const model *model;
    size_t num_outputs;
    flx_tensor **outputs;
    flx_exec *exec; /* NULL: the device compiles nothing */
    uint32_t flags; /* of the run */
    bool is_lazy;   /* nothing was said about how to run: a small graph needs no compiler */
    int64_t memory_limit;
    const char *record; /* file, or NULL */
    double compile_seconds, seconds;
    flx_run_trace trace; /* of a profiled run */
} results;

enum { MAX_EVENTS = 1 << 20 }; /* of a trace */

/* ---- Running ---- */

/* Called for each `print` op: results have standard output for themselves. */
static void print_op(void *user, const char *message, const flx_tensor *value)
{
    const model *m = user;
    char *type = type_text(m->ctx, flx_tensor_type(value));
    for (const char *s = message; *s; s++)
        fputc((unsigned char)*s < 32 || *s == 127 ? '?' : *s, stderr);
    fprintf(stderr, "%s%s ", message[0] ? ": " : "", type ? type : "");
    elements_text(stderr, value, printed_values);
    fputc('\n', stderr);
    free(type);
}

/* The usual options of the run. */
static flx_compile_options compile_options(const results *r, const inputs *in, const flx_compile_options *given)
{
    flx_compile_options options = *given;
    options.dims = in->dims;
    options.num_dims = in->num_dims;
    options.flags |= FLX_COMPILE_GENERAL | (r->is_lazy ? FLX_COMPILE_LAZY : 0u);
    return options;
}

static int compile(results *r, const inputs *in, const flx_compile_options *given)
{
    flx_compile_options options = compile_options(r, in, given);
    flx_error err = {0};
    double start = clock_seconds();
    r->exec = flx_compile(r->model->graph, &options, &err);
    r->compile_seconds = clock_seconds() - start;
    if (r->exec && options.memory_budget)
        compiling_tell_memory(r->exec);
    return r->exec ? STATUS_OK : compiling_failed(&err);
}

static int record(const results *r, const inputs *in, const flx_run_options *options)
{
    flx_error err = {0};
    if (!r->record || !r->exec)
        return STATUS_OK;
    flx_code code = flx_exec_record(r->exec, options, in->feeds, in->num_feeds, r->record, &err);
    return code ? output_failed(r->record, &err) : STATUS_OK;
}

static flx_code run_once(results *r, const inputs *in, const flx_run_options *options, bool is_profiled, flx_error *err)
{
    if (!r->exec)
        return flx_run(r->model->graph, options, in->feeds, in->num_feeds, r->outputs, err);
    if (!is_profiled)
        return flx_exec_run(r->exec, options, in->feeds, in->num_feeds, r->outputs, err);
    flx_code code = flx_exec_trace(r->exec, options, in->feeds, in->num_feeds, r->outputs, &r->trace, err);
    if (r->trace.num_steps > r->trace.step_capacity)
        r->trace.num_steps = r->trace.step_capacity;
    return code;
}

static bool is_traced(const args *a)
{
    return args_has(a, "--trace") || args_has(a, "--html");
}

/* Room for the times of steps and, where they are wanted, for events. */
static bool make_room(results *r, const args *a)
{
    r->trace.step_capacity = compiling_steps(r->exec);
    r->trace.event_capacity = is_traced(a) ? MAX_EVENTS : 0;
    r->outputs = calloc(r->num_outputs + 1, sizeof *r->outputs);
    r->trace.steps = calloc(r->trace.step_capacity + 1, sizeof *r->trace.steps);
    r->trace.events = calloc(r->trace.event_capacity + 1, sizeof *r->trace.events);
    return r->outputs && r->trace.steps && r->trace.events;
}

static int run_graph(results *r, const inputs *in, const char *device, const args *a)
{
    uint32_t run_status = 0;
    flx_run_options options = {
        .struct_size = sizeof options,
        .flags = r->flags,
        .device = device,
        .print = print_op,
        .print_user = (void *)(uintptr_t)r->model,
        .dims = in->dims,
        .num_dims = in->num_dims,
        .status = &run_status,
        .memory_limit = r->memory_limit,
    };
    if (!make_room(r, a))
        return fail_memory();
    int status = record(r, in, &options);
    if (status)
        return status;
    flx_error err = {0};
    double start = clock_seconds();
    flx_code code = run_once(r, in, &options, args_has(a, "--profile") || is_traced(a), &err);
    r->seconds = clock_seconds() - start;
    tell_unsolved();
    if (run_status & FLX_RUN_LOOP_CUT && !(run_status & FLX_RUN_UNSOLVED))
        note("a while loop stopped at its max_iterations although its condition still held");
    if (run_status & FLX_RUN_SINGULAR)
        note("a matrix was singular, or not positive definite: its part of the result is not finite");
    tell_slow();
    return code ? report(&err, NULL) : STATUS_OK;
}

/* ---- Files ---- */

static int write_npz(const results *r, const char *path)
{
    const char **keys = calloc(r->num_outputs + 1, sizeof *keys);
    if (!keys)
        return fail_memory();
    for (size_t i = 0; i < r->num_outputs; i++)
        keys[i] = flx_graph_output_name(r->model->graph, i);
    flx_error err = {0};
    int status = STATUS_OK;
    if (flx_npz_write(path, keys, (const flx_tensor *const *)r->outputs, r->num_outputs, &err))
        status = output_failed(path, &err);
    free(keys);
    return status;
}

static bool is_archive(const char *path)
{
    size_t n = strlen(path);
    return n >= 4 && strcmp(path + n - 4, ".npz") == 0;
}

static int write_outputs(const results *r, const char *out)
{
    if (is_archive(out))
        return write_npz(r, out);
    int status = output_make_folder(out);
    for (size_t i = 0; !status && i < r->num_outputs; i++)
        status = output_write_npy(out, flx_graph_output_name(r->model->graph, i), r->outputs[i]);
    return status;
}

/* ---- Telling ---- */

static void print_json(const results *r, const char *out, bool has_all)
{
    json j = {0};
    for (size_t i = 0; i < r->num_outputs; i++) {
        const char *name = flx_graph_output_name(r->model->graph, i);
        json_object_begin(&j, NULL);
        summary_json(&j, r->model->ctx, name, r->outputs[i], has_all);
        if (out) {
            char *path = is_archive(out) ? strdup(out) : output_path(out, name);
            json_text(&j, "file", path);
            free(path);
        }
        json_object_end(&j);
    }
}

static void print_profile(const results *r, const args *a, const char *device)
{
    if (args_has(a, "--json")) {
        json j = {0};
        json_object_begin(&j, NULL);
        json_text(&j, "device", device);
        json_number(&j, "time_ms", r->seconds * 1e3, 24);
        if (r->exec)
            json_number(&j, "compile_ms", r->compile_seconds * 1e3, 24);
        json_object_end(&j);
        profile_json(r->exec, r->trace.steps, r->trace.num_steps);
        return;
    }
    printf("time: %.3f ms on %s", r->seconds * 1e3, device);
    if (r->exec)
        printf(", %.3f ms to compile", r->compile_seconds * 1e3);
    putchar('\n');
    if (r->exec)
        profile_print(r->trace.steps, r->trace.num_steps);
}

/* The files that show the run. */
static int write_trace(const results *r, const args *a)
{
    const char *trace = args_value(a, "--trace"), *page = args_value(a, "--html");
    const flx_report_graph what = {
        .struct_size = sizeof what, .graph = r->model->graph, .exec = r->exec, .trace = &r->trace};
    if (r->trace.num_events > r->trace.event_capacity && is_traced(a))
        note("the run had %zu steps, of which the first %zu are shown", r->trace.num_events, r->trace.event_capacity);
    int status = trace ? drawing_write_trace(r->exec, &r->trace, trace) : STATUS_OK;
    return !status && page ? drawing_write_html(r->model->ctx, &what, page) : status;
}

static int tell(const results *r, const args *a, const char *device)
{
    const char *out = args_value(a, "--out");
    int status = out ? write_outputs(r, out) : STATUS_OK;
    if (status)
        return status;
    if (args_has(a, "--json"))
        print_json(r, out, args_has(a, "--all"));
    else
        for (size_t i = 0; !out && i < r->num_outputs; i++)
            summary_text(r->model->ctx, flx_graph_output_name(r->model->graph, i), r->outputs[i], args_has(a, "--all"));
    if (args_has(a, "--profile"))
        print_profile(r, a, device);
    return write_trace(r, a);
}

/* ---- The command ---- */

static int read_memory_limit(const args *a, int64_t *bytes)
{
    const char *text = args_value(a, "--memory-limit");
    int64_t megabytes;
    if (!text)
        return STATUS_OK;
    if (!read_i64(text, &megabytes) || megabytes < 1 || megabytes > INT64_MAX >> 20)
        return fail(FLX_E_USAGE, "--memory-limit must be a positive integer, got '%s'", text);
    *bytes = megabytes << 20;
    return STATUS_OK;
}

static int limit_time(const args *a)
{
    const char *text = args_value(a, "--timeout");
    char *end = NULL;
    if (!text)
        return STATUS_OK;
    double seconds = strtod(text, &end);
    if (end == text || *end || !(seconds > 0) || seconds > 1e9)
        return fail(FLX_E_USAGE, "--timeout must be a positive number of seconds, got '%s'", text);
    return interrupt_limit(seconds);
}

static bool is_usual(const args *a)
{
    static const char *const about_code[] = {"--device", "--profile", "--trace", "--html", "--check-finite", NULL};
    const char *device = getenv("FLX_DEVICE");
    bool is = !compiling_is_chosen(a) && !(device && device[0]);
    for (size_t i = 0; about_code[i]; i++)
        is &= !args_has(a, about_code[i]);
    return is;
}

static int run_model(model *m, const args *a, const char *device, const flx_compile_options *options)
{
    results r = {.model = m,
                 .num_outputs = flx_graph_output_count(m->graph),
                 .flags = args_has(a, "--check-finite") ? FLX_RUN_CHECK_FINITE : 0,
                 .is_lazy = is_usual(a),
                 .record = args_value(a, "--record")};
    inputs in;
    mesh_run *mesh = NULL;
    mesh_request request = {.axes = args_value(a, "--mesh"), .device = device, .transport = mesh_run_transport(a)};
    int status = read_memory_limit(a, &r.memory_limit);
    if (status)
        return status;
    status = inputs_read(&in, m, a, MISSING_IS_ERROR);
    if (!status && request.axes) {
        request.compile = compile_options(&r, &(inputs){0}, options);
        request.run = (flx_run_options){
            .struct_size = sizeof request.run, .flags = r.flags, .device = device, .memory_limit = r.memory_limit};
        status = mesh_run_begin(&mesh, m, &in, a, &request);
        if (!status && mesh_run_tells(mesh))
            mesh_cuts_note(m, request.axes);
        options = &request.compile;
    }
    if (!status && strcmp(device, "ref") != 0)
        status = compile(&r, &in, options);
    if (!status)
        status = run_graph(&r, &in, device, a);
    if (!status)
        status = mesh_run_join(mesh, r.outputs);
    if (!status && (!mesh || mesh_run_tells(mesh)))
        status = tell(&r, a, device);
    flx_exec_free(r.exec);
    free(r.trace.steps);
    free(r.trace.events);
    for (size_t i = 0; r.outputs && i < r.num_outputs; i++)
        flx_tensor_release(r.outputs[i]);
    free(r.outputs);
    inputs_free(&in);
    return mesh_run_end(mesh, status);
}

/* Options about a mesh need one. */
static int check_mesh(const args *a)
{
    bool has_mesh = args_has(a, "--mesh");
    static const char *const names[] = {"--shard", "--mpi", "--nccl"};
    for (size_t i = 0; !has_mesh && i < sizeof names / sizeof *names; i++)
        if (args_has(a, names[i]))
            return fail(FLX_E_USAGE, "%s needs --mesh", names[i]);
    if (has_mesh && args_has(a, "--record"))
        return fail(FLX_E_USAGE, "--record has no effect with --mesh: a recording is of one process");
    return STATUS_OK;
}

static int run_run(const args *a)
{
    static const char *const written[] = {"--out", "--trace", "--html", "--record", NULL};
    const char *device;
    flx_compile_options chosen;
    int status = output_check_distinct(a, written);
    if (!status)
        status = device_choose(args_value(a, "--device"), &device);
    if (!status && is_traced(a) && strcmp(device, "ref") == 0)
        status = fail(FLX_E_USAGE, "%s has no effect with device %s, which compiles nothing",
                      args_has(a, "--trace") ? "--trace" : "--html", device);
    if (!status)
        status = check_mesh(a);
    if (!status)
        status = limit_time(a);
    if (!status)
        status = compiling_read(a, device, &chosen);
    if (status)
        return status;
    model m;
    status = model_open_fixed(&m, a);
    if (!status)
        status = run_model(&m, a, device, &chosen);
    model_close(&m);
    return status;
}

static const option options[] = {
    OPTION_GRAPH,
    OPTION_IN,
    OPTION_VALUES,
    OPTION_INIT,
    {"--out", "DIR", "write each output as DIR/NAME.npy; a DIR that ends in .npz is one\narchive with all of them",
     MAY_BE_GIVEN},
    {"--all", NULL, "print all elements of each output, a line for each row, not the first 8", MAY_BE_GIVEN},
    OPTION_DEVICE,
    OPTION_SET,
    OPTION_FIX,
    OPTION_ACTIVATION_BITS("32"),
    {"--profile", NULL, "print how long the run took, step by step", MAY_BE_GIVEN},
    {"--trace", "FILE", "write when each step ran, for Perfetto or Chrome", MAY_BE_GIVEN},
    {"--html", "OUT", "write a page with the graph, its kernels, the memory plan and the timeline", MAY_BE_GIVEN},
    {"--check-finite", NULL, "fail at the first op that gives an infinity or NaN", MAY_BE_GIVEN},
    {"--timeout", "SECONDS", "fail if reading, compiling and running take longer together", MAY_BE_GIVEN},
    {"--memory-limit", "MB", "fail if the run needs more than this many megabytes (2^20 bytes)", MAY_BE_GIVEN},
    OPTION_MESH,
    OPTION_SHARD,
    {"--mpi", NULL, "the ranks of the mesh are the processes that mpirun or srun has started", MAY_BE_GIVEN},
    OPTION_NCCL,
    OPTION_RECORD,
    OPTION_MEMORY,
    OPTION_THREADS,
    OPTION_NO_GROUPING,
    OPTION_NO_COMPILER,
    OPTION_CACHE,
    OPTION_FLUSH,
    OPTION_FAST,
    OPTION_DUMP,
    OPTION_JSON,
    {0},
};

static const char *const examples[] = {
    "flx run examples/newton.flx --in x=2",
    "flx run examples/heat.flx --in u0=iota --in rate=0.25 --set STEPS=10 --set N=8",
    "flx run examples/mlp.flx --set N=4 --in x=uniform:1 --in label=3 --in w1=0.05 --in b1=0 --in w2=normal:2 "
    "--in b2=0",
    "flx run examples/mlp.flx --set N=4 --in x=uniform:1 --in label=3 --init 1",
    "flx run examples/heat.flx --in u0=ones --in rate=0.1 --set STEPS=3 --set N=5 --out heat",
    "flx run examples/heat.flx --in u0=heat/u.npy --in rate=0.1 --set STEPS=3 --json",
    "flx run examples/newton.flx --in x=2 --device ref",
    "flx run examples/newton.flx --in x=2 --threads 1 --no-grouping --cache off --dump text",
    "flx run examples/newton.flx --in x=2 --no-compiler",
    "flx run examples/heat.flx --in u0=iota --in rate=0.25 --set STEPS=10 --set N=8 --memory 64K",
    "flx run examples/mlp.flx --set N=4 --in x=uniform:1 --in label=3 --in w1=0.05 --in b1=0 --in w2=normal:2 "
    "--in b2=0 --mesh data=2 --shard x=data,-",
    "flx run examples/newton.flx --in x=2 --trace newton.json --html newton.html",
    NULL,
};

const command command_run = {
    .name = "run",
    .operand = "FILE",
    .summary = "run a graph once",
    .about = "Runs the main graph of the file. Without --out a summary of each output is printed: its type, for\n"
             "floats the smallest, largest and mean value (NaNs are left out and counted), and its first 8 elements,\n"
             "or all with --all.\n"
             "What `print` ops say goes to standard error. In JSON, \"cut\": true marks values of which only the\n"
             "first 8 are there; infinities and NaN are the strings \"inf\", \"-inf\" and \"nan\", and a complex\n"
             "number is [re, im].\n"
             "\n"
             "--profile prints for each step of the run how often it ran, its time, its share, the bytes that it\n"
             "reads and writes at least, and its floating point operations where they are known. Steps inside\n"
             "a loop or branch are indented below it.\n"
             "\n"
             "A small graph runs at once, by the reference evaluator, unless an option about the device, the\n"
             "compiler or the steps is given; its last bits are those of --device ref.\n"
             "\n"
             "--mesh runs the graph on several ranks: each has the parts of the values that --shard and `shard` ops\n"
             "cut, and exchanges are added. The ranks are threads, or with --mpi processes. Results are those of one\n"
             "process, up to the order of sums; rank 0 prints or writes them.\n"
             "\n" ABOUT_SPEC,
    .options = options,
    .examples = examples,
    .run = run_run,
};
