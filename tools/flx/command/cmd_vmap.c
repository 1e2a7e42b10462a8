/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_vmap.c: `flx vmap`: one graph for a whole batch. */
#include "command/derive.h"
#include "commands.h"
#include "report.h"

#include <fluxion/transform.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    text_list in; /* `x=0`, each cut at its '=' */
    flx_vmap_axis *in_axes;
    text_list out;
    int64_t *out_axes; /* NULL: 0 for all */
    const char *size;  /* a number that is an extent, or else a symbol */
} request;

static const int64_t max_extent = INT64_C(1) << 60; /* as for --set */

/* ---- Options ---- */

/* A number, negative ones counting from the end, or `none`. */
static int read_axis(const char *option_name, const char *text, int64_t *axis)
{
    *axis = FLX_NO_AXIS;
    if (strcmp(text, "none") == 0 || (read_i64(text, axis) && *axis != FLX_NO_AXIS))
        return STATUS_OK;
    int status = fail(FLX_E_USAGE, "'%s' is not a valid axis for %s", text, option_name);
    hint("an axis is a number, negative ones counting from the end, or none");
    return status;
}

static int read_in_axes(request *q, const char *text)
{
    if (!text) {
        int status = fail(FLX_E_USAGE, "flx vmap needs --in NAME=AXIS,...");
        hint("which inputs have a batch axis and where, as in --in x=0,y=none; all others are shared");
        return status;
    }
    int status = list_read(&q->in, "--in", text, "NAME=AXIS,...");
    q->in_axes = calloc(q->in.count + 1, sizeof *q->in_axes);
    if (!status && !q->in_axes)
        status = fail_memory();
    for (size_t i = 0; !status && i < q->in.count; i++) {
        char *equals = strchr(q->in.items[i], '=');
        if (!equals || equals == q->in.items[i])
            return fail(FLX_E_USAGE, "--in must have the form NAME=AXIS, got '%s'", q->in.items[i]);
        *equals = 0;
        q->in_axes[i].name = q->in.items[i];
        status = read_axis("--in", equals + 1, &q->in_axes[i].axis);
    }
    return status ? status : list_check_unique(&q->in, "--in");
}

static int read_out_axes(request *q, const char *text)
{
    if (!text)
        return STATUS_OK;
    int status = list_read(&q->out, "--out-axes", text, "AXIS,...");
    q->out_axes = calloc(q->out.count + 1, sizeof *q->out_axes);
    if (!status && !q->out_axes)
        status = fail_memory();
    for (size_t i = 0; !status && i < q->out.count; i++)
        status = read_axis("--out-axes", q->out.items[i], &q->out_axes[i]);
    return status;
}

static int read_size(request *q, const char *text)
{
    q->size = text;
    if (!text) {
        int status = fail(FLX_E_USAGE, "flx vmap needs --size N");
        hint("the extent of the batch axis: a number, or the name of a symbolic dimension");
        return status;
    }
    int64_t number;
    if (read_i64(text, &number) && (number < 0 || number > max_extent))
        return fail(FLX_E_USAGE, "--size must be an integer between 0 and %lld or a name, got '%s'",
                    (long long)max_extent, text);
    return STATUS_OK;
}

static int read_request(request *q, const args *a)
{
    int status = read_in_axes(q, args_value(a, "--in"));
    if (!status)
        status = read_out_axes(q, args_value(a, "--out-axes"));
    return status ? status : read_size(q, args_value(a, "--size"));
}

/* ---- The command ---- */

static flx_graph *make_batched(const model *m, const void *user, flx_error *err)
{
    const request *q = user;
    int64_t number;
    flx_dim size = read_i64(q->size, &number) ? number : flx_dim_symbol(m->ctx, q->size);
    if (size == FLX_DIM_INVALID) {
        *err = (flx_error){.code = FLX_E_USAGE, .hint = "a number, or the name of a symbolic dimension"};
        snprintf(err->message, sizeof err->message, "--size must be a nonnegative integer or a name, got '%.100s'",
                 q->size);
        return NULL;
    }
    return flx_vmap(m->graph, q->in_axes, q->in.count, q->out_axes, q->out.count, size, err);
}

static int run_vmap(const args *a)
{
    request q = {0};
    int status = read_request(&q, a);
    if (!status)
        status = derive_run(a, make_batched, &q);
    free(q.in_axes);
    free(q.out_axes);
    list_free(&q.in);
    list_free(&q.out);
    return status;
}

static const option options[] = {
    OPTION_GRAPH,
    {"--in", "NAME=AXIS,...",
     "where an input has its batch axis, or none; inputs that are not listed\nare shared; must "
     "be given",
     MUST_BE_GIVEN},
    {"--out-axes", "AXIS,...",
     "where each output has it, or none for one that does not depend on\nthe batch; 0 for all "
     "unless given",
     MAY_BE_GIVEN},
    {"--size", "N", "the extent of the batch axis, a number or a symbol; must be given", MUST_BE_GIVEN},
    OPTION_OUTPUT,
    OPTION_JSON,
    {0},
};

static const char *const examples[] = {
    "flx vmap examples/logistic.flx --in x=0,label=0 --size B",
    "echo 'graph dot(a: f32[3], b: f32[3]) { return reduce_sum(mul(a, b)) }' | flx vmap --in a=0 --size 2 - | "
    "flx run --in a=iota --in b=ones -",
    "flx grad examples/logistic.flx --wrt w | flx vmap --in x=0,label=0 --size 4 - | "
    "flx run --in x=normal --in label=1 --in w=0.5 --in b=0 --set N=2 -",
    NULL,
};

const command command_vmap = {
    .name = "vmap",
    .operand = "FILE",
    .summary = "a graph that works on a whole batch",
    .about = "Writes a graph that does for a batch of inputs what the main graph does for one. The inputs named in\n"
             "--in get one more axis of extent N, all others are shared by the whole batch, parameters among them;\n"
             "each output has one more axis too. Names stay as they are. Negative axes count from the end of the\n"
             "batched shape. Every op becomes one on the whole batch; there is no loop over the examples, except\n"
             "around an op that has no such rule.",
    .options = options,
    .examples = examples,
    .run = run_vmap,
};
