/* SPDX-License-Identifier: Apache-2.0 */
/* pipelines.c: a pipeline is its stages one after the other; cut among processes it has the same bits, and they
   exchange what moves from stage to stage alone. */
#include "../backend/collective/local_ranks.h"
#include "../test.h"

#include <fluxion/fluxion.h>
#include <math.h>
#include <string.h>

enum { STAGES = 4, BATCH = 8, WIDTH = 3, VALUES = 1 + STAGES * WIDTH * (WIDTH + 1) + BATCH * WIDTH };

static const char stage_text[] = "graph stage(x: f64[2, 3], param w: f64[3, 3], param b: f64[3]) {\n"
                                 "  return add(x, tanh(add(matmul(x, w), b)))\n}\n";

/* The same for the whole batch, stage by stage. */
static const char plain_text[] =
    "graph step(x: f64[8, 3], w: f64[3, 3], b: f64[3]) { return add(x, tanh(add(matmul(x, w), b))) }\n"
    "graph f(x: f64[8, 3], param w: f64[4, 3, 3], param b: f64[4, 3]) {\n"
    "  y = scan(x, w, b, body=@step)\n"
    "  return reduce_mean(square(y))\n}\n";

typedef struct {
    flx_buffer bytes; /* of the gradient */
    const char *axes;
    int64_t ranks;
    double want[VALUES], got[MAX_RANKS][VALUES];
    flx_partition_report report;
} pipe_case;

static const char *const wrt[] = {"w", "b", "x"};

static flx_graph *grad_of(flx_graph *loss, flx_error *err)
{
    const flx_grad_options o = {.struct_size = sizeof o, .flags = FLX_GRAD_VALUE};
    CHECK_MADE(loss, err);
    flx_graph *g = flx_grad(loss, wrt, 3, &o, err);
    CHECK_MADE(g, err);
    return g;
}

static flx_graph *pipelined(flx_context *ctx, flx_error *err)
{
    flx_module *m = flx_parse(ctx, stage_text, sizeof stage_text - 1, "stage", err);
    CHECK_MADE(m, err);
    flx_graph *pipe = flx_pipeline(flx_module_main(m), STAGES, BATCH / 2, err);
    CHECK_MADE(pipe, err);
    flx_graph *loss = flx_graph_new(ctx, "f");
    flx_val in[3], y = FLX_NONE;
    for (size_t i = 0; i < 3; i++)
        in[i] =
            flx_input(loss, flx_val_name(pipe, flx_graph_input(pipe, i)), flx_val_type(pipe, flx_graph_input(pipe, i)));
    const flx_attr body = flx_attr_graph("body", pipe);
    flx_op(loss, "call", in, 3, &body, 1, &y, 1);
    flx_output(loss, flx_reduce_mean(loss, flx_square(loss, y)), "loss");
    flx_graph *g = grad_of(loss, err);
    flx_graph_release(loss);
    flx_graph_release(pipe);
    flx_module_free(m);
    return g;
}

/* The whole value of an input. */
static flx_tensor *whole_value(flx_context *ctx, const char *name, flx_error *err)
{
    flx_type type = {.dtype = FLX_F64, .rank = name[0] == 'w' ? 3 : 2, .dims = {STAGES, WIDTH, WIDTH}};
    type.dims[0] = name[0] == 'x' ? BATCH : STAGES;
    flx_tensor *t = flx_tensor_new(ctx, &type, NULL, err);
    for (int64_t i = 0; i < flx_tensor_count(t); i++)
        ((double *)flx_tensor_data(t))[i] = sin((double)(5 * i + name[0]));
    return t;
}

static const char *cut_of(const char *name)
{
    return name[0] == 'w' ? "stage,-,-" : name[0] == 'b' ? "stage,-" : "-,-";
}

/* Loss and gradients, whole, one after the other. */
static void run(flx_context *ctx, const flx_graph *g, const char *axes, double *out, flx_error *err)
{
    flx_feed feeds[3];
    flx_tensor *results[4] = {0};
    for (int i = 0; i < 3; i++) {
        flx_tensor *whole = whole_value(ctx, wrt[i], err);
        feeds[i] = (flx_feed){wrt[i], axes ? flx_mesh_part(ctx, whole, axes, cut_of(wrt[i]), flx_mesh_rank(ctx), err)
                                           : flx_tensor_retain(whole)};
        flx_tensor_release(whole);
    }
    CHECK_OK(flx_run(g, ON_REF, feeds, 3, results, err), err);
    for (int i = 0; i < 4; i++) {
        const char *cut = i ? cut_of(wrt[i - 1]) : "";
        flx_tensor *whole = axes ? flx_mesh_whole(ctx, results[i], axes, cut, err) : flx_tensor_retain(results[i]);
        CHECK_MADE(whole, err);
        memcpy(out, flx_tensor_const_data(whole), flx_tensor_nbytes(whole));
        out += flx_tensor_count(whole);
        flx_tensor_release(whole);
        flx_tensor_release(results[i]);
    }
    for (int i = 0; i < 3; i++)
        flx_tensor_release((flx_tensor *)(uintptr_t)feeds[i].value);
}

static bool are_near(const double *a, const double *b)
{
    for (int i = 0; i < VALUES; i++)
        if (!(fabs(a[i] - b[i]) <= 1e-12))
            return false;
    return true;
}

TEST(pipelines_are_their_stages)
{
    double want[VALUES], got[VALUES];
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_parse(ctx, plain_text, sizeof plain_text - 1, "plain", &err);
    CHECK_MADE(m, &err);
    flx_graph *plain = grad_of(flx_module_main(m), &err), *pipe = pipelined(ctx, &err);
    run(ctx, plain, NULL, want, &err);
    run(ctx, pipe, NULL, got, &err);
    CHECK(are_near(want, got));
    flx_graph_release(plain);
    flx_graph_release(pipe);
    flx_module_free(m);
    flx_context_free(ctx);
}

/* ---- On a mesh ---- */

static void run_stage(local_rank *r)
{
    pipe_case *c = r->user;
    const flx_sharding cuts[] = {{"w", "stage,-,-"}, {"b", "stage,-"}, {"d_w", "stage,-,-"}, {"d_b", "stage,-"}};
    flx_partition_report report = {.struct_size = sizeof report};
    flx_module *m = flx_decode(r->ctx, c->bytes.data, c->bytes.size, "test", &r->err);
    CHECK_MADE(m, &r->err);
    flx_graph *g = flx_partition(flx_module_main(m), c->axes, cuts, 4, &report, &r->err);
    CHECK_MADE(g, &r->err);
    run(r->ctx, g, c->axes, c->got[r->rank], &r->err);
    if (r->rank == 0)
        c->report = report;
    flx_graph_release(g);
    flx_module_free(m);
}

static void check_mesh(const char *axes, int64_t ranks)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = pipelined(ctx, &err);
    pipe_case c = {.axes = axes, .ranks = ranks};
    run(ctx, g, NULL, c.want, &err);
    CHECK_OK(flx_graph_encode(g, &c.bytes, &err), &err);
    local_ranks_run(ranks, axes, 60, run_stage, &c);
    for (int64_t i = 0; i < ranks; i++)
        CHECK_MSG(memcmp(c.want, c.got[i], sizeof c.want) == 0, "rank %lld of %s has other bits", (long long)i, axes);
    CHECK_MSG(c.report.gathered == 0, "%lld nodes gathered", (long long)c.report.gathered);
    flx_buffer_free(&c.bytes);
    flx_graph_release(g);
    flx_context_free(ctx);
}

TEST(pipelines_on_meshes_have_the_same_bits)
{
    check_mesh("stage=2", 2);
    check_mesh("stage=4", 4);
}

TEST(pipelines_say_what_a_stage_must_be)
{
    static const struct {
        const char *text;
        int64_t stages, microbatches;
        const char *message;
    } wrong[] = {
        {"graph s(x: f32[2, 3]) { return exp(x) }", 0, 1, "stages and microbatches must be 1 to 2147483647"},
        {"graph s(x: f32[2, 3]) { return exp(x) }", 3037000500, 2, "stages and microbatches must be 1 to 2147483647"},
        {"graph s(x: f32[2, 3]) { return exp(x), x }", 2, 1, "a stage takes an activation first"},
        {"graph s(x: f32[2, 3]) { return transpose(x) }", 2, 1, "must return a value of the type of its input 'x'"},
        {"graph s(x: f32[N, 3]) { return exp(x) }", 2, 1, "must be numbers"},
    };
    flx_context *ctx = flx_context_new(NULL);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        flx_error err = {0};
        flx_module *m = flx_parse(ctx, wrong[i].text, strlen(wrong[i].text), "stage", &err);
        CHECK_MADE(m, &err);
        CHECK(!flx_pipeline(flx_module_main(m), wrong[i].stages, wrong[i].microbatches, &err));
        CHECK_MSG(strstr(err.message, wrong[i].message), "%s", err.message);
        flx_module_free(m);
    }
    flx_context_free(ctx);
}
