/* cmd_run.c: `flx run`: values in, values out. */
#include "args.h"
#include "cmd_devices.h"
#include "commands.h"
#include "inputs.h"
#include "json_writer.h"
#include "load.h"
#include "output.h"
#include "report.h"
#include "summary.h"

#include <fluxion/run.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const int64_t printed_values = 64; /* of a `print` op */

typedef struct {
    const model *model;
    size_t num_outputs;
    flx_tensor **outputs;
    double seconds;
} results;

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

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int run_graph(results *r, const inputs *in, const char *device)
{
    uint32_t run_status = 0;
    flx_run_options options = {
        .struct_size = sizeof options,
        .device = device,
        .print = print_op,
        .print_user = (void *)(uintptr_t)r->model,
        .dims = in->dims,
        .num_dims = in->num_dims,
        .status = &run_status,
    };
    r->outputs = calloc(r->num_outputs + 1, sizeof *r->outputs);
    if (!r->outputs)
        return fail_memory();
    flx_error err = {0};
    double start = now();
    flx_code code = flx_run(r->model->graph, &options, in->feeds, in->num_feeds, r->outputs, &err);
    r->seconds = now() - start;
    if (run_status & FLX_RUN_LOOP_CUT)
        note("a while loop stopped at its max_iterations although its condition still held");
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

static void print_json(const results *r, const char *out)
{
    json j = {0};
    for (size_t i = 0; i < r->num_outputs; i++) {
        const char *name = flx_graph_output_name(r->model->graph, i);
        json_object_begin(&j, NULL);
        summary_json(&j, r->model->ctx, name, r->outputs[i]);
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
        json_object_end(&j);
    } else {
        printf("time: %.3f ms on %s\n", r->seconds * 1e3, device);
    }
}

static int tell(const results *r, const args *a, const char *device)
{
    const char *out = args_value(a, "--out");
    int status = out ? write_outputs(r, out) : STATUS_OK;
    if (status)
        return status;
    if (args_has(a, "--json"))
        print_json(r, out);
    else
        for (size_t i = 0; !out && i < r->num_outputs; i++)
            summary_text(r->model->ctx, flx_graph_output_name(r->model->graph, i), r->outputs[i]);
    if (args_has(a, "--profile"))
        print_profile(r, a, device);
    return STATUS_OK;
}

/* ---- The command ---- */

static int run_model(const model *m, const args *a, const char *device)
{
    results r = {.model = m, .num_outputs = flx_graph_output_count(m->graph)};
    inputs in;
    int status = inputs_read(&in, m, a, MISSING_IS_ERROR);
    if (!status)
        status = run_graph(&r, &in, device);
    if (!status)
        status = tell(&r, a, device);
    for (size_t i = 0; r.outputs && i < r.num_outputs; i++)
        flx_tensor_release(r.outputs[i]);
    free(r.outputs);
    inputs_free(&in);
    return status;
}

static int run_run(const args *a)
{
    const char *device = args_value(a, "--device");
    if (!device)
        device = default_device;
    int status = device_require(device);
    if (status)
        return status;
    model m;
    status = model_open(&m, a->operand);
    if (!status)
        status = run_model(&m, a, device);
    model_close(&m);
    return status;
}

static const option options[] = {
    OPTION_IN,
    {"--out", "DIR", "write each output as DIR/NAME.npy; a DIR that ends in .npz is one\narchive with all of them",
     MAY_BE_GIVEN},
    {"--device", "NAME", "where to run: ref, the reference evaluator (flx devices lists all)", MAY_BE_GIVEN},
    OPTION_SET,
    {"--profile", NULL, "print how long the run took", MAY_BE_GIVEN},
    OPTION_JSON,
    {0},
};

static const char *const examples[] = {
    "flx run examples/newton.flx --in x=2",
    "flx run examples/heat.flx --in u0=iota --in rate=0.25 --set STEPS=10 --set N=8",
    "flx run examples/mlp.flx --set N=4 --in x=uniform:1 --in label=3 --in w1=0.05 --in b1=0 --in w2=normal:2 "
    "--in b2=0",
    "flx run examples/heat.flx --in u0=ones --in rate=0.1 --set STEPS=3 --set N=5 --out heat",
    "flx run examples/heat.flx --in u0=heat/u.npy --in rate=0.1 --set STEPS=3 --json",
    NULL,
};

const command command_run = {
    .name = "run",
    .operand = "FILE",
    .summary = "run a graph once",
    .about = "Runs the main graph of the file. Without --out a summary of each output is printed: its type, for\n"
             "floats the smallest, largest and mean value (NaNs are left out and counted), and its first values.\n"
             "What `print` ops say goes to standard error. In JSON, infinities and NaN are the strings \"inf\",\n"
             "\"-inf\" and \"nan\", and a complex number is [re, im].\n"
             "\n" ABOUT_SPEC,
    .options = options,
    .examples = examples,
    .run = run_run,
};
