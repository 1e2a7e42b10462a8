/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_hessian.c: `flx hessian`: all second derivatives. */
#include "command/derive.h"
#include "commands.h"

#include <fluxion/transform.h>

typedef struct {
    text_list wrt;
    flx_jacobian_options options;
} request;

static flx_graph *make_hessian(const model *m, const void *user, flx_error *err)
{
    const request *q = user;
    return flx_hessian(m->graph, q->wrt.items, q->wrt.count, &q->options, err);
}

static int run_hessian(const args *a)
{
    request q = {.options = {.struct_size = sizeof q.options, .mode = FLX_JACOBIAN_FORWARD}};
    int status = limits_read(a, &q.options);
    if (!status)
        status = wrt_read(&q.wrt, a);
    if (!status)
        status = derive_run(a, make_hessian, &q);
    list_free(&q.wrt);
    return status;
}

static const option options[] = {OPTION_GRAPH, OPTION_WRT, OPTIONS_OF_LIMITS, OPTION_OUTPUT, OPTION_JSON, {0}};

static const char *const examples[] = {
    "flx hessian examples/rosenbrock.flx --wrt x | flx run --in x=1 --set N=3 -",
    "echo 'graph f(a: f64[], b: f64[]) { return mul(mul(a, a), b) }' | flx hessian --wrt a,b - | "
    "flx run --in a=2 --in b=5 -",
    NULL,
};

const command command_hessian = {
    .name = "hessian",
    .operand = "FILE",
    .summary = "the second derivatives of a graph",
    .about = "Writes a graph whose outputs hessian_A_B, for every ordered pair of the inputs of --wrt, hold the\n"
             "second derivatives of the main graph's first output, which must have one element. Their shapes are\n"
             "that of A followed by that of B. flx hvp multiplies with a vector without making them.",
    .options = options,
    .examples = examples,
    .run = run_hessian,
};
