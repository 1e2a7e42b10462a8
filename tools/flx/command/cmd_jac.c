/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_jac.c: `flx jac`: all first derivatives. */
#include "command/derive.h"
#include "commands.h"
#include "report.h"

#include <fluxion/transform.h>

typedef struct {
    text_list wrt, outputs;
    flx_jacobian_options options;
} request;

static flx_graph *make_jacobian(const model *m, const void *user, flx_error *err)
{
    const request *q = user;
    return flx_jacobian(m->graph, q->wrt.items, q->wrt.count, &q->options, err);
}

static int read_request(request *q, const args *a)
{
    static const char *const modes[] = {"auto", "fwd", "rev", NULL};
    static const uint32_t values[] = {FLX_JACOBIAN_AUTO, FLX_JACOBIAN_FORWARD, FLX_JACOBIAN_REVERSE};
    int mode = choice_read(a, "--mode", modes);
    if (mode < 0)
        return STATUS_BAD_INPUT;
    q->options = (flx_jacobian_options){.struct_size = sizeof q->options, .mode = values[mode]};
    int status = limits_read(a, &q->options);
    const char *outputs = args_value(a, "--output");
    if (!status && outputs)
        status = list_read(&q->outputs, "--output", outputs, "A,B,...");
    if (!status)
        status = list_check_unique(&q->outputs, "--output");
    q->options.outputs = q->outputs.items;
    q->options.num_outputs = q->outputs.count;
    return status ? status : wrt_read(&q->wrt, a);
}

static int run_jac(const args *a)
{
    request q = {0};
    int status = read_request(&q, a);
    if (!status)
        status = derive_run(a, make_jacobian, &q);
    list_free(&q.wrt);
    list_free(&q.outputs);
    return status;
}

static const option options[] = {
    OPTION_GRAPH,
    OPTION_WRT,
    {"--output", "NAMES", "the outputs to differentiate, as in a,b; all of a floating or complex\ndtype unless given",
     MAY_BE_GIVEN},
    {"--mode", "fwd|rev",
     "a column at a time by forward mode, or a row at a time by reverse\nmode; unless given the "
     "cheaper one by shape",
     MAY_BE_GIVEN},
    OPTIONS_OF_LIMITS,
    OPTION_OUTPUT,
    OPTION_JSON,
    {0},
};

static const char *const examples[] = {
    "echo 'graph f(x: f64[3]) { y = mul(x, x) return y }' | flx jac --wrt x - | flx run --in x=iota -",
    "echo 'graph f(x: f64[3]) { y = cumsum(x, axis=0) return y }' | flx jac --wrt x --mode rev -",
    "echo 'graph f(x: f64[1000]) { y = cumsum(x, axis=0) return y }' | flx jac --wrt x --budget 64K -",
    NULL,
};

const command command_jac = {
    .name = "jac",
    .operand = "FILE",
    .summary = "the Jacobian of a graph",
    .about = "Writes a graph whose outputs jac_OUTPUT_INPUT hold the derivatives of all elements of the outputs with\n"
             "respect to all elements of the inputs of --wrt. Their shapes are the output's followed by the input's;\n"
             "those of the first output come first. Where the graph shows that the Jacobian is zero off a diagonal or\n"
             "a band, as for an elementwise function or independent rows, the cost grows with the width of the band,\n"
             "not with the size. Integers and booleans have no derivative: such outputs are left out, and naming one\n"
             "in --output is an error.",
    .options = options,
    .examples = examples,
    .run = run_jac,
};
