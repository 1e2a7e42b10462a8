/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_jac.c: `flx jac`: all first derivatives. */
#include "command/derive.h"
#include "commands.h"
#include "report.h"

#include <fluxion/transform.h>

typedef struct {
    text_list wrt;
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
    return status ? status : wrt_read(&q->wrt, a);
}

static int run_jac(const args *a)
{
    request q = {0};
    int status = read_request(&q, a);
    if (!status)
        status = derive_run(a, make_jacobian, &q);
    list_free(&q.wrt);
    return status;
}

static const option options[] = {
    OPTION_WRT,
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
             "not with the size.",
    .options = options,
    .examples = examples,
    .run = run_jac,
};
