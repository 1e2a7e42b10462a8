/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_quantise.c: `flx quantise`: a graph whose products with weights are in integers. */
#include "command/derive.h"
#include "commands.h"
#include "io/inputs.h"
#include "report.h"

#include <fluxion/quantise.h>
#include <stdlib.h>

static int read_options(const args *a, flx_quantise_options *o)
{
    const char *bits = args_value(a, "--bits");
    int64_t n = 8;
    if (bits && (!read_i64(bits, &n) || n < 2 || n > 8))
        return fail(FLX_E_USAGE, "--bits must be an integer between 2 and 8, got '%s'", bits);
    if (args_has(a, "--train") && (args_has(a, "--in") || args_has(a, "--values")))
        return fail(FLX_E_USAGE, "%s has no effect with --train, which needs no values",
                    args_has(a, "--in") ? "--in" : "--values");
    *o = (flx_quantise_options){
        .struct_size = sizeof *o, .flags = args_has(a, "--train") ? FLX_QUANTISE_TRAIN : 0, .weight_bits = (int32_t)n};
    return STATUS_OK;
}

/* The values that were given: parameters, which may be anywhere among them, and one batch of the others. */
static void split(const flx_graph *g, const inputs *in, flx_feed *feeds, flx_quantise_options *o)
{
    size_t n = 0;
    for (int is_param = 1; is_param >= 0; is_param--) {
        for (size_t i = 0; i < in->num_feeds; i++)
            if ((flx_graph_input_is_param(g, i) != 0) == is_param)
                feeds[n++] = in->feeds[i];
        o->num_params = is_param ? n : o->num_params;
    }
    o->params = feeds;
    o->batches = feeds + o->num_params;
    o->num_inputs = n - o->num_params;
    o->num_batches = 1;
}

static int quantise(const model *m, const args *a, flx_quantise_options *o)
{
    flx_error err = {0};
    inputs in = {0};
    int status = o->flags ? STATUS_OK : inputs_read(&in, m, a, MISSING_IS_ERROR);
    flx_feed *feeds = calloc(in.num_feeds + 1, sizeof *feeds);
    if (!feeds)
        status = fail_memory();
    if (!status) {
        split(m->graph, &in, feeds, o);
        flx_graph *g = flx_quantise(m->graph, o, &err);
        status = g ? derive_write(g, a) : report(&err, NULL);
        flx_graph_release(g);
    }
    free(feeds);
    if (!o->flags)
        inputs_free(&in);
    return status;
}

static int run_quantise(const args *a)
{
    flx_quantise_options o;
    model m;
    int status = derive_check_output(a);
    if (!status)
        status = read_options(a, &o);
    if (status)
        return status;
    status = model_open_chosen(&m, a);
    if (!status)
        status = quantise(&m, a, &o);
    model_close(&m);
    return status;
}

static const option options[] = {
    OPTION_GRAPH,
    OPTION_IN,
    OPTION_VALUES,
    OPTION_SET,
    {"--bits", "N", "of weights, 2 to 8; 8 unless given", MAY_BE_GIVEN},
    {"--train", NULL, "round operands of products in f32, for a training; no values are needed", MAY_BE_GIVEN},
    OPTION_OUTPUT,
    OPTION_JSON,
    {0},
};

static const char *const examples[] = {
    "echo 'graph f(x: f32[4, 3], param w: f32[3, 2]) { return relu(matmul(x, w)) }' > f.flx",
    "flx quantise f.flx --in x=normal --in w=normal:1 -o f8.flxb",
    "flx run f8.flxb --in x=normal",
    "flx quantise f.flx --train --bits 4",
    NULL,
};

const command command_quantise = {
    .name = "quantise",
    .operand = "FILE",
    .summary = "a graph with its products in integers of 8 bits",
    .about =
        "Writes the main graph with matrix products of f32 values and weights in integers: weights, which are\n"
        "parameters or constants, are rounded for each column and become constants; other operands get one scale\n"
        "from their range in a run on the values that are given. Sums are exact, in i32. Everything else stays f32.\n"
        "\n"
        "--train writes the graph for a training that takes the rounding into account: operands are rounded in\n"
        "f32, derivatives pass through, and the scales of operands are states of the graph.\n"
        "\n" ABOUT_SPEC,
    .options = options,
    .examples = examples,
    .run = run_quantise,
};
