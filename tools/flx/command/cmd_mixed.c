/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_mixed.c: `flx mixed`: a graph whose products are in 16 bits. */
#include "command/derive.h"
#include "commands.h"
#include "report.h"

#include <fluxion/transform.h>

static flx_graph *make_mixed(const model *m, const void *user, flx_error *err)
{
    return flx_mixed_precision(m->graph, *(const flx_dtype *)user, err);
}

static int run_mixed(const args *a)
{
    static const char *const names[] = {"bf16", "f16", NULL};
    static const flx_dtype dtypes[] = {FLX_BF16, FLX_F16};
    int choice = choice_read(a, "--to", names);
    if (choice < 0)
        return STATUS_BAD_INPUT;
    return derive_run(a, make_mixed, &dtypes[choice]);
}

static const option options[] = {
    OPTION_GRAPH,  {"--to", "bf16|f16", "the dtype of operands of products; bf16 unless given", MAY_BE_GIVEN},
    OPTION_OUTPUT, OPTION_JSON,
    {0},
};

static const char *const examples[] = {
    "echo 'graph f(x: f32[2, 3], w: f32[3, 4]) { return tanh(matmul(x, w)) }' | flx mixed -",
    "flx mixed examples/mlp.flx --to f16 | flx check -",
    "flx mixed examples/mlp.flx | flx grad - --wrt w1",
    NULL,
};

const command command_mixed = {
    .name = "mixed",
    .operand = "FILE",
    .summary = "a graph with its products in 16 bits",
    .about =
        "Writes the main graph with matrix products, einsum and convolutions of f32 on operands rounded to bf16 or\n"
        "f16, in bodies too. They sum in f32 and round once; all other ops compute in f32. Inputs and outputs keep\n"
        "their types, so parameters and their gradients stay f32.",
    .options = options,
    .examples = examples,
    .run = run_mixed,
};
