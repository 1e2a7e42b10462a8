/* SPDX-License-Identifier: Apache-2.0 */
/* degenerate.c: graphs at the edge of what is legal: empty, without inputs or outputs, outputs that are inputs, tensors
   without elements, integers only. Every function that takes a graph is called with each, on every device. None may
   crash; one that fails says why with a code that is not a bug's, and devices agree on whether a graph runs. */
#include "emit/opencl_here.h"
#include "test.h"

#include <fluxion/build.h>
#include <fluxion/fluxion.h>
#include <fluxion/generate.h>
#include <fluxion/mesh.h>
#include <fluxion/onnx.h>
#include <fluxion/quantise.h>
#include <fluxion/recording.h>
#include <fluxion/report.h>
#include <fluxion/stablehlo.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *name, *text;
} graphs[] = {
    {"no inputs", "graph f() { return const(f32[], 2) }"},
    {"no inputs, integers", "graph f() { return const(i32[2], [1, 2]) }"},
    {"output is an input", "graph f(x: f32[]) { return x }"},
    {"output is a parameter", "graph f(param x: f32[]) { return x }"},
    {"output twice", "graph f(x: f32[]) { return x, x }"},
    {"output does not depend on x", "graph f(x: f32[], y: f32[]) { return square(y) }"},
    {"no elements", "graph f(x: f32[0]) { return reduce_sum(mul(x, x)) }"},
    {"no elements out", "graph f(x: f32[0, 3]) { return exp(x) }"},
    {"no elements, parameter", "graph f(param x: f32[2, 0]) { return reduce_mean(x) }"},
    {"integers", "graph f(x: i32[3]) { return reduce_sum(mul(x, x)) }"},
    {"integer parameter", "graph f(param x: i64[]) { return add(x, x) }"},
    {"integer and float outputs", "graph f(x: f32[3]) { return reduce_sum(square(x)), argmax(x) }"},
    {"integer output first", "graph f(x: f32[3]) { return argmax(x), reduce_sum(square(x)) }"},
    {"bools", "graph f(x: bool[2]) { return not(x) }"},
    {"one element", "graph f(x: f32[1, 1]) { return square(x) }"},
};

enum { NUM_TEXTS = sizeof graphs / sizeof *graphs, NUM_GRAPHS = NUM_TEXTS + 3 };

typedef struct {
    flx_context *ctx;
    flx_graph *g; /* held */
    const char *name;
} subject;

static subject subject_at(flx_context *ctx, size_t i)
{
    flx_error err = {0};
    subject s = {.ctx = ctx};
    if (i < NUM_TEXTS) {
        s.name = graphs[i].name;
        flx_module *m = flx_parse(ctx, graphs[i].text, strlen(graphs[i].text), "degenerate", &err);
        CHECK_MADE(m, &err);
        s.g = flx_graph_retain(flx_module_main(m));
        flx_module_free(m);
        return s;
    }
    static const char *const names[] = {"empty", "no outputs", "no outputs, but a node"};
    const flx_type type = flx_type_make(FLX_F32, 1, (flx_dim[]){3});
    s.name = names[i - NUM_TEXTS];
    s.g = flx_graph_new(ctx, "f");
    if (i - NUM_TEXTS > 0) {
        flx_val x = flx_input(s.g, "x", &type);
        if (i - NUM_TEXTS > 1)
            flx_square(s.g, x);
    }
    CHECK_OK(flx_graph_error(s.g, &err), &err);
    return s;
}

/* Feeds of zeros. */
enum { MAX_FEEDS = 4, MAX_OUTPUTS = 8 };

typedef struct {
    flx_feed at[MAX_FEEDS];
    size_t n;
} feeding;

static feeding feeds_of(const subject *s)
{
    feeding f = {.n = flx_graph_input_count(s->g)};
    CHECK(f.n <= MAX_FEEDS && flx_graph_output_count(s->g) <= MAX_OUTPUTS);
    for (size_t i = 0; i < f.n; i++) {
        flx_val v = flx_graph_input(s->g, i);
        f.at[i] = (flx_feed){flx_val_name(s->g, v), flx_tensor_new(s->ctx, flx_val_type(s->g, v), NULL, NULL)};
        CHECK(f.at[i].value != NULL);
    }
    return f;
}

static void feeds_free(feeding *f)
{
    for (size_t i = 0; i < f->n; i++)
        flx_tensor_release((flx_tensor *)(uintptr_t)f->at[i].value);
}

static void release_outputs(flx_tensor **outputs)
{
    for (size_t i = 0; i < MAX_OUTPUTS; i++)
        flx_tensor_release(outputs[i]);
}

/* ---- Functions ---- */

typedef flx_code (*call_fn)(const subject *s, const char *device, flx_error *err);

static flx_code run(const subject *s, const char *device, flx_error *err)
{
    feeding f = feeds_of(s);
    flx_tensor *outputs[MAX_OUTPUTS] = {0};
    const flx_run_options o = {.struct_size = sizeof o, .device = device};
    flx_code code = flx_run(s->g, &o, f.at, f.n, outputs, err);
    release_outputs(outputs);
    feeds_free(&f);
    return code;
}

/* A graph that a transform made must be a valid one that runs. */
static flx_code made(const subject *s, flx_graph *g, const char *device, flx_error *err)
{
    if (!g)
        return (flx_code)err->code;
    subject t = {s->ctx, g, s->name};
    CHECK_OK(flx_graph_verify(g, err), err);
    if (flx_graph_input_count(g) <= MAX_FEEDS && flx_graph_output_count(g) <= MAX_OUTPUTS)
        CHECK_OK(run(&t, device, err), err);
    flx_graph_release(g);
    return FLX_OK;
}

static const char *const wrt[] = {"x"};

#define TRANSFORM(name, call)                                                  \
    static flx_code name(const subject *s, const char *device, flx_error *err) \
    {                                                                          \
        return made(s, call, device, err);                                     \
    }

static const flx_grad_options seeded = {.struct_size = sizeof seeded,
                                        .flags = FLX_GRAD_SEED_INPUT | FLX_GRAD_MISSING_ZERO | FLX_GRAD_VALUE};
static const flx_jacobian_options reverse = {.struct_size = sizeof reverse, .mode = FLX_JACOBIAN_REVERSE};
static const flx_vmap_axis batched[] = {{"x", 0}};

static flx_graph *lowered(const flx_graph *g, flx_error *err)
{
    return flx_lower(g, FLX_POLICY_FOR_AUTODIFF, err);
}

static int choose_all(void *user, const char *name, flx_tensor *value)
{
    (void)user, (void)name, (void)value;
    return 1;
}

static const flx_sharding cut[] = {{"x", "data"}};

static flx_graph *extracted(const flx_graph *g, flx_error *err)
{
    flx_val v = flx_graph_output(g, 0);
    return flx_extract(g, &v, 1, err);
}

TRANSFORM(call_grad, flx_grad(s->g, wrt, 1, NULL, err))
TRANSFORM(call_grad_seeded, flx_grad(s->g, wrt, 1, &seeded, err))
TRANSFORM(call_jvp, flx_jvp(s->g, wrt, 1, err))
TRANSFORM(call_hvp, flx_hvp(s->g, wrt, 1, NULL, err))
TRANSFORM(call_vmap, flx_vmap(s->g, batched, 1, NULL, 0, 2, err))
TRANSFORM(call_vmap_none, flx_vmap(s->g, NULL, 0, NULL, 0, 2, err))
TRANSFORM(call_vmap_zero, flx_vmap(s->g, batched, 1, NULL, 0, 0, err))
TRANSFORM(call_jacobian, flx_jacobian(s->g, wrt, 1, NULL, err))
TRANSFORM(call_jacobian_reverse, flx_jacobian(s->g, wrt, 1, &reverse, err))
TRANSFORM(call_hessian, flx_hessian(s->g, wrt, 1, NULL, err))
TRANSFORM(call_taylor, flx_taylor(s->g, wrt, 1, 2, err))
TRANSFORM(call_nth_grad, flx_nth_grad(s->g, "x", 2, err))
TRANSFORM(call_force, flx_force_energy_loss(s->g, "x", NULL, err))
TRANSFORM(call_simplify, flx_simplify(s->g, err))
TRANSFORM(call_extract, extracted(s->g, err))
TRANSFORM(call_constants, flx_constants_to_params(s->g, choose_all, NULL, err))
TRANSFORM(call_specialise, flx_specialise(s->g, NULL, 0, err))
TRANSFORM(call_lower, lowered(s->g, err))
TRANSFORM(call_mixed, flx_mixed_precision(s->g, FLX_BF16, err))
TRANSFORM(call_rewrite, flx_rewrite_patterns(s->g, NULL, NULL, err))
TRANSFORM(call_widen, flx_widen(s->g, err))
TRANSFORM(call_partition, flx_partition(s->g, "data=1", cut, 1, NULL, err))
TRANSFORM(call_training_graph, flx_training_graph(s->g, NULL, err))

static const flx_train_options in_regions = {.struct_size = sizeof in_regions, .recompute = 3},
                               everything = {.struct_size = sizeof everything,
                                             .flags = FLX_TRAIN_LOSS_SCALE | FLX_TRAIN_MISSING_ZERO,
                                             .optimiser = FLX_ADAFACTOR,
                                             .clip_norm = 1,
                                             .clip_value = 1,
                                             .ema = 0.5,
                                             .accumulate = 2},
                               by_example = {.struct_size = sizeof by_example,
                                             .flags = FLX_TRAIN_MISSING_ZERO,
                                             .optimiser = FLX_MUON,
                                             .clip_example = 1,
                                             .noise = 1};
TRANSFORM(call_training_regions, flx_training_graph(s->g, &in_regions, err))
TRANSFORM(call_training_everything, flx_training_graph(s->g, &everything, err))
TRANSFORM(call_training_examples, flx_training_graph(s->g, &by_example, err))

static flx_code call_export(const subject *s, const char *device, flx_error *err)
{
    (void)device;
    flx_buffer text = {0};
    flx_code code = flx_export_stablehlo(s->g, &text, err);
    flx_module *m = code == FLX_OK ? flx_import_stablehlo(s->ctx, text.data, text.size, NULL, err) : NULL;
    CHECK_MSG(code != FLX_OK || m, "%s", err->message);
    flx_module_free(m);
    flx_buffer_free(&text);
    return code;
}

static flx_code call_export_bytecode(const subject *s, const char *device, flx_error *err)
{
    (void)device;
    flx_buffer bytes = {0};
    flx_code code = flx_export_stablehlo_bytecode(s->g, &bytes, err);
    flx_module *m = code == FLX_OK ? flx_import_stablehlo(s->ctx, bytes.data, bytes.size, NULL, err) : NULL;
    CHECK_MSG(code != FLX_OK || m, "%s", err->message);
    flx_module_free(m);
    flx_buffer_free(&bytes);
    return code;
}

static flx_code call_export_onnx(const subject *s, const char *device, flx_error *err)
{
    (void)device;
    feeding f = feeds_of(s), params = {.n = 0};
    flx_buffer bytes = {0};
    for (size_t i = 0; i < f.n; i++)
        if (flx_graph_input_is_param(s->g, i))
            params.at[params.n++] = f.at[i];
    flx_code code = flx_onnx_encode(s->g, params.at, params.n, &bytes, err);
    flx_onnx *m = code == FLX_OK ? flx_onnx_decode(s->ctx, bytes.data, bytes.size, "degenerate", NULL, err) : NULL;
    CHECK_MSG(code != FLX_OK || m, "%s", err->message);
    flx_onnx_free(m);
    flx_buffer_free(&bytes);
    feeds_free(&f);
    return code;
}

static flx_code build_c(const subject *s, const flx_build_options *o, flx_error *err)
{
    flx_buffer source = {0}, header = {0};
    flx_code code = flx_build_c(s->g, o, &source, &header, NULL, err);
    flx_buffer_free(&source);
    flx_buffer_free(&header);
    return code;
}

static flx_code call_build(const subject *s, const char *device, flx_error *err)
{
    (void)device;
    const flx_build_options o = {.struct_size = sizeof o, .header = "degenerate.h"};
    return build_c(s, &o, err);
}

static flx_code call_build_training(const subject *s, const char *device, flx_error *err)
{
    (void)device;
    const flx_train_options sgd = {.struct_size = sizeof sgd};
    const flx_build_options o = {.struct_size = sizeof o, .flags = FLX_BUILD_GRAD | FLX_BUILD_TABLES, .train = &sgd};
    return build_c(s, &o, err);
}

static flx_code call_quantise(const subject *s, const char *device, flx_error *err)
{
    feeding f = feeds_of(s), params = {.n = 0}, inputs = {.n = 0};
    for (size_t i = 0; i < f.n; i++) {
        feeding *to = flx_graph_input_is_param(s->g, i) ? &params : &inputs;
        to->at[to->n++] = f.at[i];
    }
    const flx_quantise_options o = {.struct_size = sizeof o,
                                    .params = params.at,
                                    .num_params = params.n,
                                    .batches = inputs.at,
                                    .num_inputs = inputs.n,
                                    .num_batches = 1};
    flx_code code = made(s, flx_quantise(s->g, &o, err), device, err);
    feeds_free(&f);
    return code;
}

static flx_code call_generate(const subject *s, const char *device, flx_error *err)
{
    (void)device;
    flx_buffer text = {0};
    const flx_generate_options o = {.struct_size = sizeof o, .tokens = 1};
    flx_params *set = flx_params_of(s->g, 1, err);
    flx_code code = set ? flx_generate(s->g, set, "a", &o, &text, err) : (flx_code)err->code;
    flx_params_release(set);
    flx_buffer_free(&text);
    return code;
}

/* A graph as a part of another. */
static flx_code call_inline(const subject *s, const char *device, flx_error *err)
{
    flx_graph *g = flx_graph_new(s->ctx, "outer");
    flx_val inputs[MAX_FEEDS], results[MAX_OUTPUTS];
    size_t n = flx_graph_input_count(s->g);
    for (size_t i = 0; i < n; i++) {
        flx_val v = flx_graph_input(s->g, i);
        inputs[i] = flx_input(g, flx_val_name(s->g, v), flx_val_type(s->g, v));
    }
    uint32_t count = flx_inline(g, s->g, inputs, n, results, MAX_OUTPUTS);
    for (uint32_t i = 0; i < count; i++)
        flx_output(g, results[i], NULL);
    flx_code code = flx_graph_error(g, err);
    if (code != FLX_OK) {
        flx_graph_release(g);
        return code;
    }
    return made(s, g, device, err);
}

/* What only looks at a graph: each element and one beyond the last. */
static flx_code call_views(const subject *s, const char *device, flx_error *err)
{
    (void)device, (void)err;
    const flx_graph *g = s->g;
    flx_params *set = flx_params_new(s->ctx, err);
    flx_feed feeds[MAX_FEEDS];
    CHECK_MADE(set, err);
    for (size_t i = 0; i <= flx_graph_node_count(g); i++) {
        flx_node_view view;
        flx_node_attr_view attr;
        flx_code code = flx_graph_node(g, i, &view);
        CHECK((code == FLX_OK) == (i < flx_graph_node_count(g)));
        for (uint32_t k = 0; k < 3; k++) {
            flx_node_input(g, i, k), flx_node_result(g, i, k), flx_node_graph(g, i, k);
            flx_node_attr(g, i, k, &attr);
        }
        CHECK(flx_node_attr_find(g, i, "no such", &attr) != FLX_OK);
    }
    CHECK(!flx_graph_symbol(g, 0) && flx_graph_find(g, "no such").id == 0 && flx_graph_memory(g) > 0);
    flx_graph_hash(g), flx_graph_stage(g);
    for (size_t i = 0; i <= flx_graph_input_count(g); i++)
        flx_graph_input_init(g, i), flx_val_bits(g, flx_graph_input(g, i));
    flx_code code = flx_params_join(set, g, 1, err);
    CHECK(code != FLX_OK || flx_params_feeds(set, g, feeds, MAX_FEEDS) <= MAX_FEEDS);
    flx_params_release(set);
    return code;
}

static flx_code call_print(const subject *s, const char *device, flx_error *err)
{
    (void)device;
    flx_buffer text = {0}, bytes = {0};
    flx_code code = flx_graph_print(s->g, &text, err);
    if (code == FLX_OK)
        code = flx_graph_encode(s->g, &bytes, err);
    flx_buffer_free(&text);
    flx_buffer_free(&bytes);
    return code;
}

static flx_code call_show(const subject *s, const char *device, flx_error *err)
{
    flx_code code = FLX_OK;
    flx_buffer text = {0};
    const flx_compile_options o = {.struct_size = sizeof o, .device = strcmp(device, "ref") == 0 ? "cpu" : device};
    for (int stage = FLX_STAGE_HIR; code == FLX_OK && stage <= FLX_STAGE_C; stage++) {
        code = flx_show_stage(s->g, (flx_stage)stage, &o, &text, err);
        flx_buffer_free(&text);
    }
    return code;
}

static flx_code call_report(const subject *s, const char *device, flx_error *err)
{
    flx_buffer page = {0}, picture = {0}, dot = {0};
    const flx_compile_options o = {.struct_size = sizeof o, .device = strcmp(device, "ref") == 0 ? "cpu" : device};
    flx_exec *e = flx_compile(s->g, &o, err);
    const flx_report_graph what = {.struct_size = sizeof what, .graph = s->g, .exec = e};
    flx_report *r = e ? flx_report_new(s->ctx, NULL, err) : NULL;
    flx_code code = r ? flx_report_add_graph(r, &what, err) : (flx_code)err->code;
    if (code == FLX_OK)
        code = flx_report_print(r, FLX_REPORT_HTML, &page, err);
    if (code == FLX_OK)
        code = flx_report_draw(&what, FLX_DRAWING_SVG, &picture, err);
    if (code == FLX_OK)
        code = flx_report_draw(&what, FLX_DRAWING_DOT, &dot, err);
    flx_buffer_free(&page);
    flx_buffer_free(&picture);
    flx_buffer_free(&dot);
    flx_report_free(r);
    flx_exec_free(e);
    return code;
}

static flx_code call_compile(const subject *s, const char *device, flx_error *err)
{
    feeding f = feeds_of(s);
    flx_tensor *outputs[MAX_OUTPUTS] = {0};
    const char *path = test_temp_path("degenerate.flxr");
    flx_buffer text = {0};
    const flx_compile_options o = {.struct_size = sizeof o, .device = strcmp(device, "ref") == 0 ? "cpu" : device};
    flx_exec *e = flx_compile(s->g, &o, err);
    flx_code code = e ? flx_exec_run(e, NULL, f.at, f.n, outputs, err) : (flx_code)err->code;
    release_outputs(outputs);
    if (code == FLX_OK)
        code = flx_exec_record(e, NULL, f.at, f.n, path, err);
    flx_recording *r = code == FLX_OK ? flx_recording_read(s->ctx, path, err) : NULL;
    memset(outputs, 0, sizeof outputs);
    if (code == FLX_OK)
        code = r ? flx_recording_run(r, NULL, outputs, err) : (flx_code)err->code;
    release_outputs(outputs);
    if (code == FLX_OK)
        code = flx_exec_report(e, &text, err);
    flx_buffer_free(&text);
    flx_recording_free(r);
    flx_exec_free(e);
    feeds_free(&f);
    unlink(path);
    return code;
}

static flx_code call_train(const subject *s, const char *device, flx_error *err)
{
    feeding f = feeds_of(s);
    double loss;
    const flx_compile_options o = {.struct_size = sizeof o, .device = strcmp(device, "ref") == 0 ? "cpu" : device};
    flx_trainer *t = flx_compile_training(s->g, NULL, &o, err);
    flx_code code = t ? FLX_OK : (flx_code)err->code;
    size_t n = 0;
    for (size_t i = 0; code == FLX_OK && i < f.n; i++)
        if (flx_graph_input_is_param(s->g, i))
            code = flx_trainer_set_param(t, f.at[i].name, f.at[i].value, err);
    feeding given = {.n = 0};
    for (size_t i = 0; i < f.n; i++)
        if (!flx_graph_input_is_param(s->g, i))
            given.at[n++] = f.at[i];
    if (code == FLX_OK)
        code = flx_trainer_step(t, given.at, n, &loss, err);
    flx_trainer_free(t);
    feeds_free(&f);
    return code;
}

static flx_code call_minimise(const subject *s, const char *device, flx_error *err)
{
    feeding f = feeds_of(s);
    flx_params *set = flx_params_of(s->g, 1, err);
    flx_code code = set ? FLX_OK : (flx_code)err->code;
    (void)device;
    for (int32_t method = FLX_LBFGS; code == FLX_OK && method <= FLX_GAUSS_NEWTON; method++) {
        const flx_minimise_options o = {.struct_size = sizeof o, .method = method, .max_iterations = 3};
        code = flx_minimise(s->g, set, f.at, f.n, &o, NULL, err);
    }
    flx_params_release(set);
    feeds_free(&f);
    return code;
}

static const struct {
    const char *name;
    call_fn call;
    bool accepts_all; /* every graph */
} functions[] = {
    {"flx_run", run, true},
    {"flx_compile", call_compile, true},
    {"flx_show_stage", call_show, true},
    {"flx_report_add_graph", call_report, true},
    {"flx_graph_print", call_print, true},
    {"flx_export_stablehlo", call_export, false},
    {"flx_export_stablehlo_bytecode", call_export_bytecode, false},
    {"flx_onnx_encode", call_export_onnx, false},
    {"flx_build_c", call_build, false},
    {"flx_build_c, training", call_build_training, false},
    {"flx_quantise", call_quantise, false},
    {"flx_generate", call_generate, false},
    {"flx_inline", call_inline, false},
    {"flx_graph_node and other views", call_views, true},
    {"flx_widen", call_widen, true},
    {"flx_partition", call_partition, false},
    {"flx_grad", call_grad, false},
    {"flx_grad, seeded", call_grad_seeded, false},
    {"flx_jvp", call_jvp, false},
    {"flx_hvp", call_hvp, false},
    {"flx_vmap", call_vmap, false},
    {"flx_vmap of nothing", call_vmap_none, true},
    {"flx_vmap of no examples", call_vmap_zero, false},
    {"flx_jacobian", call_jacobian, false},
    {"flx_jacobian, reverse", call_jacobian_reverse, false},
    {"flx_hessian", call_hessian, false},
    {"flx_taylor", call_taylor, false},
    {"flx_nth_grad", call_nth_grad, false},
    {"flx_force_energy_loss", call_force, false},
    {"flx_simplify", call_simplify, true},
    {"flx_extract", call_extract, false},
    {"flx_constants_to_params", call_constants, true},
    {"flx_specialise", call_specialise, true},
    {"flx_lower", call_lower, true},
    {"flx_mixed_precision", call_mixed, true},
    {"flx_rewrite_patterns", call_rewrite, true},
    {"flx_training_graph", call_training_graph, false},
    {"flx_training_graph, in regions", call_training_regions, false},
    {"flx_training_graph, everything", call_training_everything, false},
    {"flx_training_graph, by example", call_training_examples, false},
    {"flx_compile_training", call_train, false},
    {"flx_minimise", call_minimise, false},
};

enum { NUM_FUNCTIONS = sizeof functions / sizeof *functions };

static bool is_a_reason(flx_code code)
{
    return code != FLX_E_INTERNAL && code != FLX_E_OOM && code != FLX_E_DEVICE && code != FLX_E_CANCELLED;
}

TEST(api_degenerate_graphs_never_crash)
{
    flx_context *ctx = flx_context_new(NULL);
    for (size_t i = 0; i < NUM_GRAPHS; i++)
        for (size_t k = 0; k < NUM_FUNCTIONS; k++) {
            flx_code first = FLX_OK;
            const char *device;
            for (size_t d = 0, tried = 0; flx_device(d, &device, NULL, 0) != FLX_E_NAME; d++) {
                if (!device_here(device))
                    continue;
                flx_error err = {0};
                subject s = subject_at(ctx, i);
                test_fail_context("%s of '%s' on %s", functions[k].name, s.name, device);
                flx_code code = functions[k].call(&s, device, &err);
                EXPECT_MSG(code == FLX_OK || (is_a_reason(code) && err.message[0]), "%s of '%s' on %s: %s: %s",
                           functions[k].name, s.name, device, flx_code_name(code), err.message);
                EXPECT_MSG(code == FLX_OK || !functions[k].accepts_all, "%s of '%s' on %s: %s: %s", functions[k].name,
                           s.name, device, flx_code_name(code), err.message);
                EXPECT_MSG(!tried++ || code == first, "%s of '%s': %s on %s, but %s elsewhere", functions[k].name,
                           s.name, flx_code_name(code), device, flx_code_name(first));
                first = code;
                flx_graph_release(s.g);
                test_count_case();
            }
        }
    flx_context_free(ctx);
}

/* What has nothing to differentiate says so. */
TEST(api_graphs_without_outputs_have_no_derivative)
{
    static const call_fn derivatives[] = {call_grad, call_hvp, call_jacobian, call_hessian, call_nth_grad, call_force};
    flx_context *ctx = flx_context_new(NULL);
    for (size_t i = 0; i < sizeof derivatives / sizeof *derivatives; i++) {
        flx_error err = {0};
        subject s = subject_at(ctx, NUM_TEXTS + 1);
        CHECK_CODE(derivatives[i](&s, "ref", &err), FLX_E_USAGE, &err);
        flx_graph_release(s.g);
    }
    flx_context_free(ctx);
}

TEST(api_jacobian_leaves_integer_outputs_out)
{
    static const char text[] = "graph f(x: f32[3]) { i = argmax(x) y = square(x) z = exp(x) return i, y, z }";
    static const char *const integer[] = {"i"}, *const one[] = {"z"}, *const twice[] = {"z", "z"}, *const no[] = {"w"};
    static const struct {
        const char *const *names;
        size_t count;
        flx_code code;
        size_t outputs;
    } rows[] = {{NULL, 0, FLX_OK, 2},
                {integer, 1, FLX_E_NOT_DIFFERENTIABLE, 0},
                {one, 1, FLX_OK, 1},
                {twice, 2, FLX_E_DUP_NAME, 0},
                {no, 1, FLX_E_NAME, 0}};
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_module *m = flx_parse(ctx, text, strlen(text), "jacobian", &err);
    CHECK_MADE(m, &err);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (uint32_t mode = FLX_JACOBIAN_AUTO; mode <= FLX_JACOBIAN_REVERSE; mode++) {
            const flx_jacobian_options o = {
                .struct_size = sizeof o, .mode = mode, .outputs = rows[i].names, .num_outputs = rows[i].count};
            flx_graph *g = flx_jacobian(flx_module_main(m), wrt, 1, &o, &err);
            test_fail_context("row %zu, mode %u", i, mode);
            CHECK_CODE(g ? FLX_OK : (flx_code)err.code, rows[i].code, &err);
            CHECK_EQ_U64(flx_graph_output_count(g), rows[i].outputs);
            if (g)
                CHECK_EQ_STR(flx_graph_output_name(g, rows[i].outputs - 1), "jac_z_x");
            flx_graph_release(g);
        }
    flx_module_free(m);
    flx_context_free(ctx);
}
