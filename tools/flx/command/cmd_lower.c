/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_lower.c: `flx lower`: a graph without blocks. */
#include "command/derive.h"
#include "commands.h"
#include "report.h"

#include <fluxion/lower.h>

static flx_graph *make_lowered(const model *m, const void *user, flx_error *err)
{
    return flx_lower(m->graph, *(const flx_policy *)user, err);
}

static int run_lower(const args *a)
{
    static const char *const policies[] = {"direct", "fusable", "for-autodiff", NULL}; /* in the order of flx_policy */
    int choice = choice_read(a, "--policy", policies);
    if (choice < 0)
        return STATUS_BAD_INPUT;
    flx_policy policy = (flx_policy)choice;
    return derive_run(a, make_lowered, &policy);
}

static const option options[] = {
    OPTION_GRAPH,
    {"--policy", "direct|fusable|for-autodiff",
     "what blocks become: fused ops where there are some, as without this\noption; primitive ops; or primitive ops "
     "only, whatever "
     "was written",
     MAY_BE_GIVEN},
    OPTION_OUTPUT,
    OPTION_JSON,
    {0},
};

static const char *const examples[] = {
    "echo 'graph f(x: f32[2, 3], w: f32[3, 4], b: f32[4]) { return linear(x, w, b, act=relu) }' | flx lower -",
    "echo 'graph f(x: f32[2, 3], w: f32[3, 4], b: f32[4]) { return linear(x, w, b, act=relu) }' | "
    "flx lower --policy fusable -",
    NULL,
};

const command command_lower = {
    .name = "lower",
    .operand = "FILE",
    .summary = "a graph with its blocks replaced by ops",
    .about = "Writes the main graph with every block (linear, gated_ffn, mlp ...) replaced by the ops it means, in\n"
             "bodies too. No value changes by a bit. Blocks can be run and differentiated as they are; this shows\n"
             "what they become.",
    .options = options,
    .examples = examples,
    .run = run_lower,
};
