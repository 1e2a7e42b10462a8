/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_rewrite.c: `flx rewrite`: a graph with patterns of primitive ops replaced by single ops, and what was found. */
#include "command/derive.h"
#include "commands.h"
#include "report.h"

#include <fluxion/lower.h>

typedef struct {
    flx_rewrite_options options;
    flx_rewrite_report *report;
} request;

static flx_graph *make_rewritten(const model *m, const void *user, flx_error *err)
{
    const request *r = user;
    return flx_rewrite_patterns(m->graph, &r->options, r->report, err);
}

/* On standard error, so that the graph can be read from standard output. */
static void print_report(const flx_rewrite_report *r)
{
    for (uint32_t i = 0; flx_pattern_name(i); i++)
        if (r->rewritten[i])
            note("%s: %u rewritten", flx_pattern_name(i), r->rewritten[i]);
    uint32_t listed = r->miss_count < FLX_NEAR_MISS_ROOM ? r->miss_count : FLX_NEAR_MISS_ROOM;
    for (uint32_t i = 0; i < listed; i++)
        note("%s: near miss at %s: %s", flx_pattern_name(r->misses[i].pattern), r->misses[i].where,
             r->misses[i].reason);
    if (listed < r->miss_count)
        note("%u more near misses", r->miss_count - listed);
}

static int run_rewrite(const args *a)
{
    flx_rewrite_report report = {0};
    request r = {.options = {.struct_size = sizeof(flx_rewrite_options)}, .report = &report};
    r.options.flags = (args_has(a, "--exact") ? FLX_REWRITE_EXACT : 0u) |
                      (args_has(a, "--regions") ? FLX_REWRITE_REGIONS : 0u) |
                      (args_has(a, "--clean") ? FLX_REWRITE_CLEAN : 0u);
    int status = derive_run(a, make_rewritten, &r);
    print_report(&report);
    return status;
}

static const option options[] = {
    OPTION_GRAPH,
    {"--exact", NULL, "only what gives the same bits; without it a replacement may round\ndifferently", MAY_BE_GIVEN},
    {"--regions", NULL, "replace runs of pointwise ops by elementwise_region too", MAY_BE_GIVEN},
    {"--clean", NULL, "fail when there is a near miss", MAY_BE_GIVEN},
    OPTION_OUTPUT,
    OPTION_JSON,
    {0},
};

static const char *const examples[] = {
    "echo 'graph f(x: f32[2, 3], w: f32[3, 4], b: f32[4]) { return relu(add(matmul(x, w), b)) }' | flx rewrite -",
    "echo 'graph f(x: f32[2, 3]) { e = exp(x) return div(e, reduce_sum(e, axes=[1], keep_dims=true)) }' | flx rewrite "
    "-",
    NULL,
};

const command command_rewrite = {
    .name = "rewrite",
    .operand = "FILE",
    .summary = "a graph with patterns of primitive ops replaced by single ops",
    .about =
        "Writes the main graph, simplified. Where primitive ops compute a softmax, a norm, attention, a loss, or a\n"
        "product followed by a bias or an activation, they are replaced by the one op that means the same, in\n"
        "bodies too. Standard error lists what was replaced, and near misses with the reason. flx lower\n"
        "--policy for-autodiff undoes it.",
    .options = options,
    .examples = examples,
    .run = run_rewrite,
};
