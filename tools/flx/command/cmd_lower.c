/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_lower.c: `flx lower`: a graph without the composites of HIR. */
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
     "what they become: composites that MIR has, such as fused_matmul_bias_act,\nas without this option; primitive "
     "ops; or primitive ops only, whatever\nwas written",
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
    .summary = "a graph with composites such as linear replaced by their meaning",
    .about = "Writes the main graph at stage MIR: every composite that only HIR has (linear, gated_ffn, mlp ...) is\n"
             "replaced by the ops it means, in bodies too. No value changes by a bit. Composites can be run and\n"
             "differentiated as they are; this shows what they become.",
    .options = options,
    .examples = examples,
    .run = run_lower,
};
