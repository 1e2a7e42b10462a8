/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_taylor.c: `flx taylor`: derivatives of higher order along one direction. */
#include "command/derive.h"
#include "commands.h"
#include "report.h"

#include <fluxion/transform.h>

typedef struct {
    text_list wrt;
    int32_t order;
} request;

static const int64_t max_order = 64; /* the graph grows with every order */

static flx_graph *make_series(const model *m, const void *user, flx_error *err)
{
    const request *q = user;
    return flx_taylor(m->graph, q->wrt.items, q->wrt.count, q->order, err);
}

static int read_request(request *q, const args *a)
{
    const char *text = args_value(a, "--order");
    int64_t order;
    if (!text) {
        int status = fail(FLX_E_USAGE, "flx taylor needs --order K");
        hint("the highest derivative wanted, as in --order 3");
        return status;
    }
    if (!read_i64(text, &order) || order < 1 || order > max_order)
        return fail(FLX_E_USAGE, "--order must be an integer between 1 and %lld, got '%s'", (long long)max_order, text);
    q->order = (int32_t)order;
    return wrt_read(&q->wrt, a);
}

static int run_taylor(const args *a)
{
    request q = {0};
    int status = read_request(&q, a);
    if (!status)
        status = derive_run(a, make_series, &q);
    list_free(&q.wrt);
    return status;
}

static const option options[] = {
    OPTION_GRAPH,  OPTION_WRT,  {"--order", "K", "the highest derivative; must be given", MUST_BE_GIVEN},
    OPTION_OUTPUT, OPTION_JSON, {0},
};

static const char *const examples[] = {
    "echo 'graph f(x: f64[]) { y = exp(mul(x, 2)) return y }' | flx taylor --wrt x --order 3 - | "
    "flx run --in x=0 --in tangent_x=1 -",
    NULL,
};

const command command_taylor = {
    .name = "taylor",
    .operand = "FILE",
    .summary = "derivatives of higher order along a direction",
    .about = "Writes a graph that has, for each input of --wrt, one more input tangent_NAME. Its outputs are those\n"
             "of the main graph, then taylor_OUTPUT_1 of all of them, and so on up to taylor_OUTPUT_K: the k-th\n"
             "derivative of f(x + t tangent) by t at t = 0. The k-th term of the Taylor series is that / k!.",
    .options = options,
    .examples = examples,
    .run = run_taylor,
};
