/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_fuse.c: `flx fuse`: a graph with patterns of ops replaced by single ops, and what was found. */
#include "commands.h"
#include "derive.h"
#include "report.h"

#include <fluxion/lower.h>

typedef struct {
    flx_fuse_options options;
    flx_fuse_report *report;
} request;

static flx_graph *make_fused(const model *m, const void *user, flx_error *err)
{
    const request *r = user;
    return flx_fuse(m->graph, &r->options, r->report, err);
}

/* On standard error, so that the graph can be read from standard output. */
static void tell(const flx_fuse_report *r)
{
    for (uint32_t i = 0; flx_fuse_pattern_name(i); i++)
        if (r->fused[i])
            note("%s: %u fused", flx_fuse_pattern_name(i), r->fused[i]);
    uint32_t told = r->miss_count < FLX_FUSE_MISS_ROOM ? r->miss_count : FLX_FUSE_MISS_ROOM;
    for (uint32_t i = 0; i < told; i++)
        note("%s: near miss at %s: %s", flx_fuse_pattern_name(r->misses[i].pattern), r->misses[i].where,
             r->misses[i].reason);
    if (told < r->miss_count)
        note("%u more near misses", r->miss_count - told);
}

static int run_fuse(const args *a)
{
    flx_fuse_report report = {0};
    request r = {.options = {.struct_size = sizeof(flx_fuse_options)}, .report = &report};
    r.options.flags = (args_has(a, "--exact") ? FLX_FUSE_EXACT : 0u) |
                      (args_has(a, "--regions") ? FLX_FUSE_REGIONS : 0u) |
                      (args_has(a, "--clean") ? FLX_FUSE_CLEAN : 0u);
    int status = derive_run(a, make_fused, &r);
    tell(&report);
    return status;
}

static const option options[] = {
    {"--exact", NULL,
     "only what gives the same bits; otherwise patterns may be spelled in ways\nthat round differently", MAY_BE_GIVEN},
    {"--regions", NULL, "runs of pointwise ops become elementwise_region as well", MAY_BE_GIVEN},
    {"--clean", NULL, "fail when there is a near miss", MAY_BE_GIVEN},
    OPTION_OUTPUT,
    OPTION_JSON,
    {0},
};

static const char *const examples[] = {
    "echo 'graph f(x: f32[2, 3], w: f32[3, 4], b: f32[4]) { return relu(add(matmul(x, w), b)) }' | flx fuse -",
    "echo 'graph f(x: f32[2, 3]) { e = exp(x) return div(e, reduce_sum(e, axes=[1], keep_dims=true)) }' | flx fuse -",
    NULL,
};

const command command_fuse = {
    .name = "fuse",
    .operand = "FILE",
    .summary = "a graph with patterns of ops replaced by fused ops",
    .about =
        "Writes the main graph, simplified, with softmax, norms, attention, losses and products with what is done\n"
        "to them recognised in primitive ops and replaced by the one op that means them, in bodies too. What was\n"
        "fused is told on standard error, and so is what nearly was, with the reason. flx lower --policy\n"
        "for-autodiff undoes it.",
    .options = options,
    .examples = examples,
    .run = run_fuse,
};
