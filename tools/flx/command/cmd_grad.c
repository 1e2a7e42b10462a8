/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_grad.c: `flx grad`: reverse mode. */
#include "command/derive.h"
#include "commands.h"
#include "report.h"

#include <fluxion/transform.h>

typedef struct {
    text_list wrt;
    const char *output; /* the loss; NULL: the first */
    flx_grad_options options;
} request;

static flx_graph *make_gradient(const model *m, const void *user, flx_error *err)
{
    const request *q = user;
    flx_val loss;
    if (loss_find(m->graph, q->output, &loss, err) != FLX_OK)
        return NULL;
    if (m->lost_rules)
        note("the gradient is that of the values of %s: stop_gradient and rules of functions are in programs that JAX "
             "exports for the platform fluxion",
             m->name);
    flx_graph *part = q->output ? flx_extract(m->graph, &loss, 1, err) : NULL;
    if (q->output && !part)
        return NULL;
    flx_graph *gradient = flx_grad(part ? part : m->graph, q->wrt.items, q->wrt.count, &q->options, err);
    flx_graph_release(part);
    return gradient;
}

static int read_request(request *q, const args *a)
{
    static const char *const seeds[] = {"ones", "input", NULL};
    static const char *const missing[] = {"error", "zero", NULL};
    int seed = choice_read(a, "--seed", seeds);
    static const char *const unbounded[] = {"tape", "error", NULL};
    int gap = choice_read(a, "--missing", missing);
    int loops = choice_read(a, "--unbounded", unbounded);
    if (seed < 0 || gap < 0 || loops < 0)
        return STATUS_BAD_INPUT;
    q->options = (flx_grad_options){
        .struct_size = sizeof q->options,
        .flags = (args_has(a, "--value") ? FLX_GRAD_VALUE : 0U) | (seed == 1 ? FLX_GRAD_SEED_INPUT : 0U) |
                 (gap == 1 ? FLX_GRAD_MISSING_ZERO : 0U) | (loops == 1 ? FLX_GRAD_UNBOUNDED_ERROR : 0U) |
                 (args_has(a, "--backward-ops") ? FLX_GRAD_BACKWARD_OPS : 0U),
    };
    q->output = args_value(a, "--output");
    return wrt_read(&q->wrt, a);
}

static int run_grad(const args *a)
{
    request q = {0};
    int status = read_request(&q, a);
    if (!status)
        status = derive_run(a, make_gradient, &q);
    list_free(&q.wrt);
    return status;
}

static const option options[] = {
    OPTION_GRAPH,
    OPTION_WRT,
    OPTION_LOSS(", with\nwhich the others are left out"),
    {"--value", NULL, "keep the loss among the outputs", MAY_BE_GIVEN},
    {"--seed", "ones|input", "where the sweep starts: ones, when the loss is one element, or an\ninput d_output",
     MAY_BE_GIVEN},
    {"--missing", "error|zero", "what to do about an input that the loss does not depend on; error\nunless given",
     MAY_BE_GIVEN},
    {"--unbounded", "tape|error",
     "what to do about a while loop without max_iterations: keep a tape that\ngrows as it runs, as without this "
     "option, or refuse",
     MAY_BE_GIVEN},
    {"--backward-ops", NULL,
     "backward ops, such as layer_norm_backward_input, where an op has them,\ninstead of the derivative of its "
     "decomposition",
     MAY_BE_GIVEN},
    OPTION_OUTPUT,
    OPTION_JSON,
    {0},
};

static const char *const examples[] = {
    "flx grad examples/logistic.flx --wrt w,b",
    "flx grad examples/logistic.flx --wrt w --value -o g.flx",
    "flx grad examples/mlp.flx --wrt w1,b1,w2,b2 | flx check -",
    "echo 'graph f(x: f64[3]) { return sin(x) }' | flx grad --wrt x --seed input - | "
    "flx run --in x=0 --in d_output=iota -",
    "echo 'graph f(x: f64[]) { return pow(x, 3) }' | flx grad --wrt x - | flx grad --wrt x - | flx run --in x=2 -",
    NULL,
};

const command command_grad = {
    .name = "grad",
    .operand = "FILE",
    .summary = "the gradient of a graph, by reverse mode",
    .about = "Writes a graph that computes the gradient of the main graph's first output, the loss, with respect to\n"
             "each input of --wrt. Its outputs are the loss (with --value), the other outputs of the main graph\n"
             "unchanged, then d_NAME for each name. The loss must have one element; with --seed input it may have any\n"
             "shape, and the extra input d_output gives the weight of each of its elements.",
    .options = options,
    .examples = examples,
    .run = run_grad,
};
