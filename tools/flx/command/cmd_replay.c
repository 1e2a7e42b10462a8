/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_replay.c: `flx replay`: a recorded run again. */
#include "args.h"
#include "command/cmd_devices.h"
#include "commands.h"
#include "io/json_writer.h"
#include "io/load.h"
#include "io/summary.h"
#include "report.h"

#include <fluxion/recording.h>
#include <stdlib.h>
#include <string.h>

/* What happened then, if it is not what happened now. */
static void tell_failure(const flx_recording *r, const flx_error *now)
{
    flx_error then = {0};
    if (flx_recording_failure(r, &then) == FLX_OK) {
        if (now->code)
            note("no failure was recorded");
    } else if (!now->code) {
        note("the recorded run failed: %s [%s]", then.message, flx_code_name(then.code));
    } else if (now->code == then.code && strcmp(now->message, then.message) == 0) {
        note("the recorded run failed in the same way");
    } else {
        note("the recorded run failed in another way: %s [%s]", then.message, flx_code_name(then.code));
    }
}

static void tell_outputs(flx_context *ctx, const flx_graph *g, flx_tensor *const *outputs, bool is_json)
{
    json j = {0};
    for (size_t i = 0; i < flx_graph_output_count(g); i++) {
        const char *name = flx_graph_output_name(g, i);
        if (!is_json) {
            summary_text(ctx, name, outputs[i], false);
            continue;
        }
        json_object_begin(&j, NULL);
        summary_json(&j, ctx, name, outputs[i], false);
        json_object_end(&j);
    }
}

static int run_recording(flx_context *ctx, const flx_recording *r, const args *a, const char *device)
{
    const flx_graph *g = flx_recording_graph(r);
    size_t n = flx_graph_output_count(g);
    flx_tensor **outputs = calloc(n + 1, sizeof *outputs);
    if (!outputs)
        return fail_memory();
    flx_error err = {0};
    flx_run_options options = {.struct_size = sizeof options, .device = device};
    int status = STATUS_OK;
    flx_code code = flx_recording_run(r, &options, outputs, &err);
    tell_slow();
    if (code)
        status = report(&err, NULL);
    else
        tell_outputs(ctx, g, outputs, args_has(a, "--json"));
    tell_failure(r, &err);
    for (size_t i = 0; i < n; i++)
        flx_tensor_release(outputs[i]);
    free(outputs);
    return status;
}

static int replay(const args *a)
{
    const char *device;
    int status = device_choose(args_value(a, "--device"), &device);
    if (status)
        return status;
    file_bytes file = {0};
    status = file_read(a->operand, &file);
    if (status)
        return status;
    flx_context *ctx = new_context();
    flx_error err = {0};
    flx_recording *r = ctx ? flx_recording_decode(ctx, file.data, file.size, &err) : NULL;
    if (r)
        status = run_recording(ctx, r, a, device);
    else
        status = ctx ? report(&err, file_name(a->operand)) : fail_memory();
    flx_recording_free(r);
    flx_context_free(ctx);
    free(file.data);
    return status;
}

static const option options[] = {OPTION_DEVICE, OPTION_JSON, {0}};

static const char *const examples[] = {
    "flx run examples/newton.flx --in x=2 --record newton.flxr",
    "flx replay newton.flxr",
    "flx replay newton.flxr --device ref --json",
    NULL,
};

const command command_replay = {
    .name = "replay",
    .operand = "FILE",
    .summary = "run a recorded run again",
    .about = "Runs the graph of a recording on the inputs that it holds, compiled with the options that it had. A\n"
             "recording is written by flx run --record, or by a program that calls flx_exec_record() or gives\n"
             "flx_compile() a record_path. Outputs are printed as by flx run; a failure is reported, and whether\n"
             "the recorded run failed in the same way. The inputs in the file are arrays that NumPy can read.",
    .options = options,
    .examples = examples,
    .run = replay,
};
