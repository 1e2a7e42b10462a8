/* SPDX-License-Identifier: Apache-2.0 */
/* pipelines.c: a pipeline is its stages one after the other; cut among processes it has the same bits, and they
   exchange what moves from stage to stage alone. One with its loss keeps few microbatches, however many there are. */
#include "../backend/collective/local_ranks.h"
#include "../test.h"

#include <fluxion/fluxion.h>
#include <math.h>
#include <stdio.h>
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

/* ---- With a loss: one microbatch forwards, one backwards ---- */

/* # is the number of examples of a microbatch. */
static const char loss_stage_text[] = "graph stage(x: f64[#, 3], param w: f64[3, 3], param b: f64[3]) {\n"
                                      "  return add(x, tanh(add(matmul(x, w), b)))\n}\n";
static const char loss_text[] = "graph loss(y: f64[#, 3], target: f64[#, 4], param head: f64[3, 4], mask: i32[#]) {\n"
                                "  e = square(sub(matmul(y, head), target))\n"
                                "  return reduce_mean(mul(reduce_sum(e, axes=[1]), cast(mask, to=f64)))\n}\n";

static const char plain_loss_text[] =
    "graph step(x: f64[8, 3], w: f64[3, 3], b: f64[3]) { return add(x, tanh(add(matmul(x, w), b))) }\n"
    "graph f(x: f64[8, 3], param w: f64[4, 3, 3], param b: f64[4, 3], target: f64[8, 4], param head: f64[3, 4],\n"
    "        mask: i32[8]) {\n"
    "  y = scan(x, w, b, body=@step)\n"
    "  e = square(sub(matmul(y, head), target))\n"
    "  return square(reduce_mean(mul(reduce_sum(e, axes=[1]), cast(mask, to=f64))))\n}\n";

static const struct {
    const char *name, *cut;
    int rank;
    flx_dim dims[3];
} loss_inputs[] = {{"x", "data,-", 2, {BATCH, WIDTH}},   {"w", "stage,-,-", 3, {STAGES, WIDTH, WIDTH}},
                   {"b", "stage,-", 2, {STAGES, WIDTH}}, {"target", "data,-", 2, {BATCH, 4}},
                   {"head", "-,-", 2, {WIDTH, 4}},       {"mask", "data", 1, {BATCH}}};
enum { LOSS_INPUTS = 6, LOSS_WRT = 5, LOSS_VALUES = 1 + 24 + 36 + 12 + 32 + 12 };
static const char *const loss_wrt[LOSS_WRT] = {"x", "w", "b", "target", "head"};

typedef struct {
    flx_buffer bytes;
    const char *axes;
    double want[LOSS_VALUES], got[MAX_RANKS][LOSS_VALUES];
    flx_partition_report report;
} loss_case;

static flx_module *parse(flx_context *ctx, const char *text, flx_error *err)
{
    flx_module *m = flx_parse(ctx, text, strlen(text), "test", err);
    CHECK_MADE(m, err);
    return m;
}

/* Texts are of the batch that the microbatches have. */
static flx_graph *pipeline_loss(flx_context *ctx, const char *stage, const char *loss, int64_t microbatches,
                                flx_error *err)
{
    char texts[2][400];
    snprintf(texts[0], sizeof texts[0], "%s", stage);
    snprintf(texts[1], sizeof texts[1], "%s", loss);
    for (int k = 0; k < 2; k++)
        for (char *at = strchr(texts[k], '#'); at; at = strchr(at, '#'))
            *at = (char)('0' + BATCH / microbatches);
    flx_module *a = parse(ctx, texts[0], err), *b = parse(ctx, texts[1], err);
    flx_graph *g = flx_pipeline_loss(flx_module_main(a), flx_module_main(b), STAGES, microbatches, err);
    flx_module_free(a);
    flx_module_free(b);
    return g;
}

/* The square of the loss, whose gradient depends on the cotangent that the pipeline gets. */
static flx_graph *squared_gradient(flx_context *ctx, int64_t microbatches, flx_error *err)
{
    flx_graph *pipe = pipeline_loss(ctx, loss_stage_text, loss_text, microbatches, err), *f = flx_graph_new(ctx, "f");
    CHECK_MADE(pipe, err);
    flx_val in[LOSS_INPUTS], y = FLX_NONE;
    for (size_t i = 0; i < LOSS_INPUTS; i++)
        in[i] = flx_input(f, loss_inputs[i].name, flx_val_type(pipe, flx_graph_input(pipe, i)));
    const flx_attr body = flx_attr_graph("body", pipe);
    flx_op(f, "call", in, LOSS_INPUTS, &body, 1, &y, 1);
    flx_output(f, flx_square(f, y), "loss");
    const flx_grad_options o = {.struct_size = sizeof o, .flags = FLX_GRAD_VALUE};
    flx_graph *g = flx_grad(f, loss_wrt, LOSS_WRT, &o, err);
    CHECK_MADE(g, err);
    flx_graph_release(f);
    flx_graph_release(pipe);
    return g;
}

static flx_tensor *loss_value(flx_context *ctx, size_t i, flx_error *err)
{
    flx_type type = flx_type_make(i == 5 ? FLX_I32 : FLX_F64, loss_inputs[i].rank, loss_inputs[i].dims);
    flx_tensor *t = flx_tensor_new(ctx, &type, NULL, err);
    CHECK_MADE(t, err);
    for (int64_t k = 0; k < flx_tensor_count(t); k++)
        if (i == 5)
            ((int32_t *)flx_tensor_data(t))[k] = (int32_t)(k % 3);
        else
            ((double *)flx_tensor_data(t))[k] = sin((double)(5 * k) + (double)i);
    return t;
}

/* Cuts along an axis of the mesh that there is. */
static const char *loss_cut(const char *axes, size_t i)
{
    const char *cut = loss_inputs[i].cut;
    bool is_there = axes && ((cut[0] == 'd' && strstr(axes, "data")) || (cut[0] == 's' && strstr(axes, "stage")));
    return is_there ? cut : loss_inputs[i].rank == 3 ? "-,-,-" : loss_inputs[i].rank == 2 ? "-,-" : "-";
}

static void run_loss(flx_context *ctx, const flx_graph *g, const char *axes, double *out, flx_error *err)
{
    flx_feed feeds[LOSS_INPUTS];
    flx_tensor *results[1 + LOSS_WRT] = {0};
    for (size_t i = 0; i < LOSS_INPUTS; i++) {
        flx_tensor *whole = loss_value(ctx, i, err);
        const char *cut = loss_cut(axes, i);
        feeds[i] = (flx_feed){loss_inputs[i].name,
                              flx_mesh_part(ctx, whole, axes ? axes : "stage=1", cut, flx_mesh_rank(ctx), err)};
        flx_tensor_release(whole);
    }
    CHECK_OK(flx_run(g, ON_REF, feeds, LOSS_INPUTS, results, err), err);
    for (size_t i = 0; i <= LOSS_WRT; i++) {
        const char *cut = i ? loss_cut(axes, i - 1) : "";
        flx_tensor *whole = axes ? flx_mesh_whole(ctx, results[i], axes, cut, err) : flx_tensor_retain(results[i]);
        CHECK_MADE(whole, err);
        memcpy(out, flx_tensor_const_data(whole), flx_tensor_nbytes(whole));
        out += flx_tensor_count(whole);
        flx_tensor_release(whole);
        flx_tensor_release(results[i]);
    }
    for (size_t i = 0; i < LOSS_INPUTS; i++)
        flx_tensor_release((flx_tensor *)(uintptr_t)feeds[i].value);
}

static double farthest(const double *a, const double *b)
{
    double d = 0;
    for (int i = 0; i < LOSS_VALUES; i++)
        d = fabs(a[i] - b[i]) <= d ? d : fabs(a[i] - b[i]);
    return d;
}

TEST(pipelines_with_a_loss_are_their_stages)
{
    double want[LOSS_VALUES], got[LOSS_VALUES];
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = parse(ctx, plain_loss_text, &err);
    const flx_grad_options o = {.struct_size = sizeof o, .flags = FLX_GRAD_VALUE};
    flx_graph *plain = flx_grad(flx_module_main(m), loss_wrt, LOSS_WRT, &o, &err);
    CHECK_MADE(plain, &err);
    run_loss(ctx, plain, NULL, want, &err);
    for (int64_t microbatches = 1; microbatches <= BATCH; microbatches *= 2) { /* also fewer than stages */
        flx_graph *pipe = squared_gradient(ctx, microbatches, &err);
        run_loss(ctx, pipe, NULL, got, &err);
        CHECK_MSG(farthest(want, got) <= 1e-12, "%lld microbatches: differs by %g", (long long)microbatches,
                  farthest(want, got));
        flx_graph_release(pipe);
        test_count_case();
    }
    flx_graph_release(plain);
    flx_module_free(m);
    flx_context_free(ctx);
}

static void run_loss_rank(local_rank *r)
{
    static const char *const outputs[] = {"d_x", "d_w", "d_b", "d_target", "d_head"};
    loss_case *c = r->user;
    flx_sharding cuts[2 * LOSS_INPUTS];
    size_t n = 0;
    for (size_t i = 0; i < LOSS_INPUTS; i++) {
        cuts[n++] = (flx_sharding){loss_inputs[i].name, loss_cut(c->axes, i)};
        if (i < LOSS_WRT)
            cuts[n++] = (flx_sharding){outputs[i], loss_cut(c->axes, i)};
    }
    flx_partition_report report = {.struct_size = sizeof report};
    flx_module *m = flx_decode(r->ctx, c->bytes.data, c->bytes.size, "test", &r->err);
    CHECK_MADE(m, &r->err);
    flx_graph *g = flx_partition(flx_module_main(m), c->axes, cuts, n, &report, &r->err);
    CHECK_MADE(g, &r->err);
    run_loss(r->ctx, g, c->axes, c->got[r->rank], &r->err);
    if (r->rank == 0)
        c->report = report;
    flx_graph_release(g);
    flx_module_free(m);
}

/* Along stages alone bits are the same: what is added to a value of one stage are zeros. */
TEST(pipelines_with_a_loss_on_meshes)
{
    static const struct {
        const char *axes;
        int64_t ranks;
    } meshes[] = {{"stage=2", 2}, {"stage=4", 4}, {"data=2", 2}, {"data=2,stage=4", 8}};
    for (size_t i = 0; i < sizeof meshes / sizeof *meshes; i++) {
        flx_error err = {0};
        flx_context *ctx = flx_context_new(NULL);
        flx_graph *g = squared_gradient(ctx, BATCH / 2, &err);
        loss_case c = {.axes = meshes[i].axes};
        run_loss(ctx, g, NULL, c.want, &err);
        CHECK_OK(flx_graph_encode(g, &c.bytes, &err), &err);
        local_ranks_run(meshes[i].ranks, c.axes, 60, run_loss_rank, &c);
        double most = strstr(c.axes, "data") ? 1e-12 : 0;
        for (int64_t r = 0; r < meshes[i].ranks; r++)
            CHECK_MSG(farthest(c.want, c.got[r]) <= most, "rank %lld of %s differs by %g", (long long)r, c.axes,
                      farthest(c.want, c.got[r]));
        CHECK_MSG(c.report.gathered == 0, "%s: %lld nodes gathered", c.axes, (long long)c.report.gathered);
        flx_buffer_free(&c.bytes);
        flx_graph_release(g);
        flx_context_free(ctx);
        test_count_case();
    }
}

/* ---- Memory ---- */

static const char wide_stage[] = "graph stage(x: f32[4, 64], param v: f32[64, 1024], param w: f32[1024, 64]) {\n"
                                 "  return add(x, matmul(tanh(matmul(x, v)), w))\n}\n";
static const char wide_loss[] = "graph loss(y: f32[4, 64], target: f32[4, 64]) {\n"
                                "  return reduce_mean(square(sub(y, target)))\n}\n";

/* What a rank of four works in, in a step of that many microbatches. */
static int64_t work_of(flx_context *ctx, bool has_loss, int64_t microbatches, flx_error *err)
{
    static const char *const params[] = {"v", "w"};
    static const flx_sharding cuts[] = {
        {"v", "stage,-,-"}, {"w", "stage,-,-"}, {"d_v", "stage,-,-"}, {"d_w", "stage,-,-"}};
    flx_module *m = parse(ctx, wide_stage, err);
    flx_graph *pipe = has_loss ? pipeline_loss(ctx, wide_stage, wide_loss, microbatches, err)
                               : flx_pipeline(flx_module_main(m), STAGES, microbatches, err);
    CHECK_MADE(pipe, err);
    flx_graph *f = flx_graph_new(ctx, "f");
    flx_val in[4], y = FLX_NONE, loss;
    size_t n = flx_graph_input_count(pipe);
    for (size_t i = 0; i < n; i++)
        in[i] =
            flx_input(f, flx_val_name(pipe, flx_graph_input(pipe, i)), flx_val_type(pipe, flx_graph_input(pipe, i)));
    const flx_attr body = flx_attr_graph("body", pipe);
    flx_op(f, "call", in, n, &body, 1, &y, 1);
    loss =
        has_loss ? y : flx_reduce_mean(f, flx_square(f, flx_sub(f, y, flx_input(f, "target", flx_val_type(f, in[0])))));
    flx_output(f, loss, "loss");
    flx_graph *g = flx_grad(f, params, 2, NULL, err);
    CHECK_MADE(g, err);
    flx_graph *part = flx_partition(g, "stage=4", cuts, 4, NULL, err);
    CHECK_MADE(part, err);
    flx_mesh_plan plan = {.struct_size = sizeof plan};
    CHECK_OK(flx_plan_mesh(part, "stage=4", NULL, &plan, err), err);
    flx_graph *const made[] = {pipe, f, g, part};
    for (size_t i = 0; i < 4; i++)
        flx_graph_release(made[i]);
    flx_module_free(m);
    return plan.work;
}

/* Another microbatch costs no more than its gradients with respect to what enters and what the loss reads. All at once
   it costs what the first stage reads, what moves between stages, and what the last one returns as well. */
TEST(pipelines_with_a_loss_keep_few_microbatches)
{
    enum { ACTIVATION = 4 * 64 * 4, MORE = 40 - 8 };
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    int64_t few = work_of(ctx, true, 8, &err), many = work_of(ctx, true, 8 + MORE, &err);
    int64_t few_all = work_of(ctx, false, 8, &err), many_all = work_of(ctx, false, 8 + MORE, &err);
    CHECK_MSG(many - few <= MORE * (2 * ACTIVATION + 64), "a microbatch takes %lld bytes more",
              (long long)(many - few) / MORE);
    CHECK_MSG(many_all - few_all >= MORE * 5 * ACTIVATION, "all at once, a microbatch takes only %lld bytes",
              (long long)(many_all - few_all) / MORE);
    flx_context_free(ctx);
}

TEST(pipelines_say_what_a_loss_must_be)
{
    static const struct {
        const char *loss;
        int64_t microbatches;
        const char *message;
    } wrong[] = {
        {"graph l(y: f64[2, 4]) { return reduce_sum(y) }", 2, "must have the type that a stage returns"},
        {"graph l(y: f64[2, 3]) { return y }", 2, "must be a floating-point scalar"},
        {"graph l(y: f64[2, 3]) { return reduce_sum(y), y }", 2, "and returns one value"},
        {"graph l(y: f64[2, 3], t: f64[]) { return mul(t, reduce_sum(y)) }", 2, "with an axis of examples"},
        {"graph l(y: f64[2, 3], t: c128[2, 3]) { return reduce_sum(mul(y, real(t))) }", 2, "'t' is complex"},
        {"graph l(y: f64[2, 3], w: f64[2, 3]) { return reduce_sum(mul(y, w)) }", 2, "'w' is defined twice"},
        {"graph l(y: f64[2, 3]) { return reduce_sum(y) }", INT32_MAX, "too many"},
    };
    flx_context *ctx = flx_context_new(NULL);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        flx_error err = {0};
        CHECK(!pipeline_loss(ctx, stage_text, wrong[i].loss, wrong[i].microbatches, &err));
        CHECK_MSG(strstr(err.message, wrong[i].message), "case %zu: %s", i, err.message);
    }
    flx_error err = {0};
    CHECK(!flx_pipeline_loss(NULL, NULL, 1, 1, &err) && err.code == FLX_E_USAGE);
    flx_context_free(ctx);
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
        {"graph s(x: f32[N, 3]) { return exp(x) }", 2, 1, "is f32[N, 3]; it needs extents that are numbers"},
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
