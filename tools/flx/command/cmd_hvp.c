/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_hvp.c: `flx hvp`: Hessian times vector. */
#include "command/derive.h"
#include "commands.h"

#include <fluxion/transform.h>

typedef struct {
    text_list wrt;
    flx_grad_options options;
} request;

static flx_graph *make_product(const model *m, const void *user, flx_error *err)
{
    const request *q = user;
    return flx_hvp(m->graph, q->wrt.items, q->wrt.count, &q->options, err);
}

static int run_hvp(const args *a)
{
    request q = {.options = {.struct_size = sizeof q.options, .flags = args_has(a, "--value") ? FLX_GRAD_VALUE : 0U}};
    int status = wrt_read(&q.wrt, a);
    if (!status)
        status = derive_run(a, make_product, &q);
    list_free(&q.wrt);
    return status;
}

static const option options[] = {
    OPTION_GRAPH,  OPTION_WRT,  {"--value", NULL, "keep the loss and the gradient as the first outputs", MAY_BE_GIVEN},
    OPTION_OUTPUT, OPTION_JSON, {0},
};

static const char *const examples[] = {
    "flx hvp examples/rosenbrock.flx --wrt x",
    "flx hvp examples/rosenbrock.flx --wrt x --value | flx run --in x=1 --in tangent_x=iota --set N=3 -",
    NULL,
};

const command command_hvp = {
    .name = "hvp",
    .operand = "FILE",
    .summary = "the Hessian of a graph times a vector",
    .about = "Writes a graph that has, for each input of --wrt, one more input tangent_NAME: together the vector.\n"
             "Its outputs hvp_NAME are the Hessian of the main graph's first output, which must have one element,\n"
             "times that vector. The Hessian itself is never made: the gradient is pushed along the vector\n"
             "(forward over reverse), which costs a few times what the loss costs.",
    .options = options,
    .examples = examples,
    .run = run_hvp,
};
