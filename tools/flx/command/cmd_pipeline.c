/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_pipeline.c: `flx pipeline`: a stage that is applied several times, as a pipeline. */
#include "command/derive.h"
#include "commands.h"
#include "report.h"

#include <fluxion/mesh.h>
#include <stdio.h>

typedef struct {
    int64_t stages, microbatches;
    const char *loss; /* the name of its graph; NULL: none */
} request;

static int read_count(const args *a, const char *name, int64_t *out)
{
    const char *text = args_value(a, name);
    if (!text)
        return fail(FLX_E_USAGE, "flx pipeline needs %s N", name);
    if (!read_i64(text, out) || *out < 1)
        return fail(FLX_E_USAGE, "%s must be a positive integer, got '%s'", name, text);
    return STATUS_OK;
}

static flx_graph *make_pipeline(const model *m, const void *user, flx_error *err)
{
    const request *q = user;
    if (!q->loss)
        return flx_pipeline(m->graph, q->stages, q->microbatches, err);
    const flx_graph *loss = flx_module_find(m->module, q->loss);
    if (loss)
        return flx_pipeline_loss(m->graph, loss, q->stages, q->microbatches, err);
    *err = (flx_error){.code = FLX_E_NAME};
    snprintf(err->message, sizeof err->message, "--loss: there is no graph '%.80s'", q->loss);
    return NULL;
}

static int run_pipeline(const args *a)
{
    request q = {.loss = args_value(a, "--loss")};
    int status = read_count(a, "--stages", &q.stages);
    if (!status)
        status = read_count(a, "--microbatches", &q.microbatches);
    return status ? status : derive_run(a, make_pipeline, &q);
}

static const option options[] = {
    OPTION_GRAPH,
    {"--stages", "N", "how often the stage is applied; must be given", MUST_BE_GIVEN},
    {"--microbatches", "N", "parts of a batch that follow each other; must be given", MUST_BE_GIVEN},
    {"--loss", "GRAPH",
     "a graph of the file, of what the last stage returns and more: the result is its mean\nover the microbatches, "
     "which "
     "go backwards one by one",
     MAY_BE_GIVEN},
    OPTION_OUTPUT,
    OPTION_JSON,
    {0},
};

static const char *const examples[] = {
    "echo 'graph stage(x: f32[2, 3], w: f32[3, 3]) { return tanh(matmul(x, w)) }' | "
    "flx pipeline --stages 2 --microbatches 4 - | flx run --in x=iota --in w=normal --mesh stage=2 "
    "--shard w=stage,-,- -",
    NULL,
};

const command command_pipeline = {
    .name = "pipeline",
    .operand = "FILE",
    .summary = "a stage applied several times, as a pipeline for a mesh",
    .about =
        "Writes a graph that applies the main graph, a stage, N times. The stage takes an activation of a microbatch\n"
        "first and returns the next one, of the same type; the graph takes a whole batch. All other inputs get a\n"
        "leading axis of stages. Cut along that axis, as in --shard w=stage,-,-, each rank runs its own stages on\n"
        "different microbatches at the same time. With --loss the gradient of the result keeps only few microbatches;\n"
        "--graph then names the stage. docs/distributed.md says more.",
    .options = options,
    .examples = examples,
    .run = run_pipeline,
};
