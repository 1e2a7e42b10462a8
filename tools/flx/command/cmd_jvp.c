/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_jvp.c: `flx jvp`: forward mode. */
#include "command/derive.h"
#include "commands.h"

#include <fluxion/transform.h>

static flx_graph *make_tangents(const model *m, const void *user, flx_error *err)
{
    const text_list *wrt = user;
    return flx_jvp(m->graph, wrt->items, wrt->count, err);
}

static int run_jvp(const args *a)
{
    text_list wrt;
    int status = wrt_read(&wrt, a);
    if (!status)
        status = derive_run(a, make_tangents, &wrt);
    list_free(&wrt);
    return status;
}

static const option options[] = {OPTION_GRAPH, OPTION_WRT, OPTION_OUTPUT, OPTION_JSON, {0}};

static const char *const examples[] = {
    "flx jvp examples/logistic.flx --wrt w",
    "echo 'graph f(x: f64[]) { return sin(x) }' | flx jvp --wrt x - | flx run --in x=0 --in tangent_x=1 -",
    NULL,
};

const command command_jvp = {
    .name = "jvp",
    .operand = "FILE",
    .summary = "the derivative along a direction, by forward mode",
    .about = "Writes a graph that has, for each input of --wrt, one more input tangent_NAME. Its outputs are those\n"
             "of the main graph, then for each of them tangent_NAME: how it changes when the inputs move along\n"
             "their tangents.",
    .options = options,
    .examples = examples,
    .run = run_jvp,
};
