/* SPDX-License-Identifier: Apache-2.0 */
/* options.c: structs that begin with their size. Every prefix of every such struct is handed to every function that
   takes it, with the bytes after the prefix overwritten: what is not part of the struct must not be read. A test reads
   the public headers and fails for a struct or a function that is missing in the table here. */
#include "api/api_fixture.h"
#include "api/callbacks.h"
#include "test.h"

#include <fluxion/build.h>
#include <fluxion/custom.h>
#include <fluxion/data.h>
#include <fluxion/fluxion.h>
#include <fluxion/generate.h>
#include <fluxion/kernel.h>
#include <fluxion/nn.h>
#include <fluxion/onnx.h>
#include <fluxion/quantise.h>
#include <fluxion/recording.h>
#include <fluxion/report.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- The functions ---- */

typedef flx_code (*call_fn)(fixture *f, const void *options, flx_error *err);

static flx_code graph_made(flx_graph *g, const flx_error *err)
{
    flx_graph_release(g);
    return g ? FLX_OK : (flx_code)err->code;
}

static flx_code call_context_new(fixture *f, const void *options, flx_error *err)
{
    (void)f;
    (void)err;
    flx_context *ctx = flx_context_new(options);
    flx_context_free(ctx);
    return ctx ? FLX_OK : FLX_E_USAGE;
}

static const char *const wrt[] = {"x"};

static flx_code call_grad(fixture *f, const void *options, flx_error *err)
{
    return graph_made(flx_grad(f->g, wrt, 1, options, err), err);
}

static flx_code call_hvp(fixture *f, const void *options, flx_error *err)
{
    return graph_made(flx_hvp(f->g, wrt, 1, options, err), err);
}

static flx_code call_jacobian(fixture *f, const void *options, flx_error *err)
{
    return graph_made(flx_jacobian(f->g, wrt, 1, options, err), err);
}

static flx_code call_hessian(fixture *f, const void *options, flx_error *err)
{
    return graph_made(flx_hessian(f->g, wrt, 1, options, err), err);
}

static flx_code call_force_energy_loss(fixture *f, const void *options, flx_error *err)
{
    return graph_made(flx_force_energy_loss(f->g, "x", options, err), err);
}

static flx_code call_training_graph(fixture *f, const void *options, flx_error *err)
{
    return graph_made(flx_training_graph(f->g, options, err), err);
}

static flx_code call_compile_training(fixture *f, const void *options, flx_error *err)
{
    flx_trainer *t = flx_compile_training(f->g, options, &interpreted, err);
    flx_trainer_free(t);
    return t ? FLX_OK : (flx_code)err->code;
}

static flx_code call_compile_training_compile(fixture *f, const void *options, flx_error *err)
{
    flx_trainer *t = flx_compile_training(f->g, NULL, options, err);
    flx_trainer_free(t);
    return t ? FLX_OK : (flx_code)err->code;
}

static flx_code call_schedule_graph(fixture *f, const void *options, flx_error *err)
{
    return graph_made(flx_schedule_graph(f->ctx, options, err), err);
}

/* One batch in each epoch. */
static int next_batch(void *user, int64_t epoch, int64_t index, flx_batch *batch, flx_error *err)
{
    fixture *f = user;
    (void)epoch;
    (void)err;
    if (f)
        *batch = (flx_batch){.feeds = f->feeds, .num_feeds = 1, .examples = 1};
    return f && index == 0;
}

static int no_progress(void *user, const flx_progress *p)
{
    return user && p->epoch > 100;
}

static flx_code call_fit(fixture *f, const void *options, flx_error *err)
{
    flx_fit_options *o = (flx_fit_options *)(uintptr_t)options; /* a copy: the samples know no fixture */
    flx_trainer *t = flx_compile_training(f->g, NULL, &interpreted, err);
    CHECK_MADE(t, err);
    if (o->struct_size >= offsetof(flx_fit_options, epochs) || !o->struct_size)
        o->next_user = f;
    if (o->struct_size >= offsetof(flx_fit_options, patience) || !o->struct_size)
        o->validation_user = f;
    flx_code code = flx_fit(t, o, NULL, err);
    flx_trainer_free(t);
    return code;
}

static flx_code call_minimise(fixture *f, const void *options, flx_error *err)
{
    flx_params *set = flx_params_of(f->g, 1, err);
    CHECK_MADE(set, err);
    flx_code code = flx_minimise(f->g, set, f->feeds, 1, options, NULL, err);
    flx_params_release(set);
    return code;
}

static flx_code call_compile(fixture *f, const void *options, flx_error *err)
{
    flx_exec *e = flx_compile(f->g, options, err);
    flx_exec_free(e);
    return e ? FLX_OK : (flx_code)err->code;
}

static flx_code call_show_stage(fixture *f, const void *options, flx_error *err)
{
    flx_buffer text = {0};
    flx_code code = flx_show_stage(f->g, FLX_STAGE_MIR, options, &text, err);
    flx_buffer_free(&text);
    return code;
}

static flx_code call_rewrite_patterns(fixture *f, const void *options, flx_error *err)
{
    return graph_made(flx_rewrite_patterns(f->g, options, NULL, err), err);
}

static flx_code call_run(fixture *f, const void *options, flx_error *err)
{
    flx_tensor *y = NULL;
    flx_code code = flx_run(f->g, options, f->feeds, 2, &y, err);
    flx_tensor_release(y);
    return code;
}

static flx_code call_exec_run(fixture *f, const void *options, flx_error *err)
{
    flx_tensor *y = NULL;
    flx_code code = flx_exec_run(f->exec, options, f->feeds, 2, &y, err);
    flx_tensor_release(y);
    return code;
}

static flx_code call_exec_run_at_with(fixture *f, const void *options, flx_error *err)
{
    float y[1024];
    const void *in[] = {flx_tensor_const_data(f->feeds[0].value), flx_tensor_const_data(f->feeds[1].value)};
    void *out[] = {y};
    return flx_exec_run_at_with(f->exec, options, in, out, err);
}

static flx_code call_exec_may_share_at(fixture *f, const void *options, flx_error *err)
{
    int may;
    return flx_exec_may_share_at(f->exec, options, 0, 0, &may, err);
}

static flx_code call_trainer_step_with(fixture *f, const void *options, flx_error *err)
{
    flx_trainer *t = flx_compile_training(f->g, NULL, &interpreted, err);
    CHECK_MADE(t, err);
    CHECK_OK(flx_trainer_set_param(t, "p", f->x, err), err);
    flx_code code = flx_trainer_step_with(t, options, f->feeds, 1, NULL, err);
    flx_trainer_free(t);
    return code;
}

static flx_code call_exec_start(fixture *f, const void *options, flx_error *err)
{
    flx_tensor *y = NULL;
    flx_job *job = flx_exec_start(f->exec, options, f->feeds, 2, err);
    flx_code code = job ? flx_job_wait(job, &y, err) : (flx_code)err->code;
    flx_tensor_release(y);
    flx_job_free(job);
    return code;
}

static flx_code call_exec_profile(fixture *f, const void *options, flx_error *err)
{
    flx_tensor *y = NULL;
    flx_code code = flx_exec_profile(f->exec, options, f->feeds, 2, &y, NULL, 0, NULL, err);
    flx_tensor_release(y);
    return code;
}

static flx_code call_exec_trace(fixture *f, const void *options, flx_error *err)
{
    flx_tensor *y = NULL;
    flx_run_trace trace = {0};
    flx_code code = flx_exec_trace(f->exec, options, f->feeds, 2, &y, &trace, err);
    flx_tensor_release(y);
    return code;
}

static flx_code call_report_new(fixture *f, const void *options, flx_error *err)
{
    flx_report *r = flx_report_new(f->ctx, options, err);
    flx_report_free(r);
    return r ? FLX_OK : (flx_code)err->code;
}

static flx_code call_report_add_graph(fixture *f, const void *options, flx_error *err)
{
    flx_report *r = flx_report_new(f->ctx, NULL, err);
    flx_code code = flx_report_add_graph(r, options, err);
    flx_report_free(r);
    return code;
}

static flx_code call_report_draw(fixture *f, const void *options, flx_error *err)
{
    flx_buffer text = {0};
    (void)f;
    flx_code code = flx_report_draw(options, FLX_DRAWING_SVG, &text, err);
    flx_buffer_free(&text);
    return code;
}

static flx_code call_exec_record(fixture *f, const void *options, flx_error *err)
{
    return flx_exec_record(f->exec, options, f->feeds, 2, f->recording, err);
}

static flx_code call_recording_run(fixture *f, const void *options, flx_error *err)
{
    flx_tensor *y = NULL;
    flx_recording *r = flx_recording_read(f->ctx, f->recording, err);
    flx_code code = r ? flx_recording_run(r, options, &y, err) : (flx_code)err->code;
    flx_tensor_release(y);
    flx_recording_free(r);
    return code;
}

static const uint32_t grid[3] = {4, 1, 1};

static flx_code call_kernel_run(fixture *f, const void *options, flx_error *err)
{
    float x[4] = {1, 2, 3, 4}, y[4];
    const flx_kernel_memory memory[] = {{"x", x, sizeof x}, {"y", y, sizeof y}};
    return flx_kernel_run(f->kernel, grid, memory, 2, options, err);
}

static flx_code call_kernel_derived_run(fixture *f, const void *options, flx_error *err)
{
    float x[4] = {1, 2, 3, 4}, dx[4] = {0};
    const flx_kernel_memory memory[] = {{"x", x, sizeof x}, {"grad_x", dx, sizeof dx}};
    return flx_kernel_derived_run(f->derived, grid, memory, 2, options, err);
}

static flx_code derived(flx_kernel_derived *d, const flx_error *err)
{
    flx_kernel_derived_free(d);
    return d ? FLX_OK : (flx_code)err->code;
}

static flx_code call_kernel_grad(fixture *f, const void *options, flx_error *err)
{
    return derived(flx_kernel_grad(f->kernel, (const char *[]){"y"}, 1, wrt, 1, options, err), err);
}

static flx_code call_kernel_jvp(fixture *f, const void *options, flx_error *err)
{
    return derived(flx_kernel_jvp(f->kernel, (const char *[]){"y"}, 1, wrt, 1, options, err), err);
}

static flx_code call_kernel_validate(fixture *f, const void *options, flx_error *err)
{
    return flx_kernel_validate(f->kernel, options, NULL, 0, NULL, err);
}

static flx_code call_kernel_add_buffer(fixture *f, const void *options, flx_error *err)
{
    flx_kernel_builder *b = flx_kernel_begin(f->ctx, "built", 1, 1, 1);
    flx_kernel_add_buffer(b, options);
    flx_kernel *k = flx_kernel_finish(b, err);
    flx_kernel_release(k);
    return k ? FLX_OK : (flx_code)err->code;
}

static flx_code call_kernel_register_extension(fixture *f, const void *options, flx_error *err)
{
    (void)f;
    flx_context *ctx = flx_context_new(NULL);
    flx_code code = flx_kernel_register_extension(ctx, options, err);
    flx_context_free(ctx);
    return code;
}

static flx_code call_register_custom(fixture *f, const void *options, flx_error *err)
{
    (void)f;
    flx_context *ctx = flx_context_new(NULL);
    flx_code code = flx_register_custom(ctx, options, err);
    flx_context_free(ctx);
    return code;
}

static flx_code dataset_made(flx_dataset *d, const flx_error *err)
{
    flx_dataset_free(d);
    return d ? FLX_OK : (flx_code)err->code;
}

static flx_code call_csv_decode(fixture *f, const void *options, flx_error *err)
{
    return dataset_made(flx_csv_decode(f->ctx, "a;b\n1;2\n", 8, options, err), err);
}

/* A file of one column: valid with every separator. */
static flx_code onnx_made(flx_onnx *m, const flx_error *err)
{
    flx_onnx_free(m);
    return m ? FLX_OK : (flx_code)err->code;
}

static const char onnx_path[] = FLX_SOURCE_DIR "/tests/onnx/cases/test_add_bcast/model.onnx";

static flx_code call_onnx_decode(fixture *f, const void *options, flx_error *err)
{
    char bytes[2000];
    FILE *in = fopen(onnx_path, "rb");
    CHECK(in != NULL);
    size_t n = fread(bytes, 1, sizeof bytes, in);
    fclose(in);
    return onnx_made(flx_onnx_decode(f->ctx, bytes, n, NULL, options, err), err);
}

static flx_code call_onnx_read(fixture *f, const void *options, flx_error *err)
{
    return onnx_made(flx_onnx_read(f->ctx, onnx_path, options, err), err);
}

static flx_code call_csv_read(fixture *f, const void *options, flx_error *err)
{
    char path[700];
    snprintf(path, sizeof path, "%s/options.csv", test_temp_dir());
    FILE *out = fopen(path, "w");
    CHECK(out && fputs("a\n1\n", out) >= 0 && fclose(out) == 0);
    return dataset_made(flx_csv_read(f->ctx, path, options, err), err);
}

static flx_code call_folder_read(fixture *f, const void *options, flx_error *err)
{
    char path[700], file[760];
    snprintf(path, sizeof path, "%s/options_folder", test_temp_dir());
    mkdir(path, 0777);
    snprintf(file, sizeof file, "%s/class", path);
    mkdir(file, 0777);
    snprintf(file, sizeof file, "%s/class/a.pgm", path);
    FILE *out = fopen(file, "w");
    CHECK(out && fputs("P2 1 1 1 1", out) >= 0 && fclose(out) == 0);
    return dataset_made(flx_folder_read(f->ctx, path, options, err), err);
}

static flx_code call_loader_new(fixture *f, const void *options, flx_error *err)
{
    flx_dataset *d = flx_dataset_new(f->ctx, err);
    CHECK_OK(flx_dataset_add(d, "x", f->x, err), err);
    flx_loader *l = flx_loader_new(d, options, err);
    flx_loader_free(l);
    flx_dataset_free(d);
    return l ? FLX_OK : (flx_code)err->code;
}

/* A graph with one layer of nn.h on x [1, 2, 4]. */
typedef flx_val (*layer_fn)(flx_graph *g, flx_val x, const void *options);

static flx_code layer(const fixture *f, layer_fn make, const void *options, flx_error *err)
{
    flx_graph *g = flx_graph_new(f->ctx, "layer");
    const flx_type type = flx_type_make(FLX_F32, 3, (flx_dim[]){1, 2, 4});
    flx_output(g, make(g, flx_input(g, "x", &type), options), NULL);
    flx_code code = flx_graph_error(g, err);
    flx_graph_release(g);
    return code;
}

static flx_val make_conv(flx_graph *g, flx_val x, const void *options)
{
    return flx_nn_conv(g, "c", x, 2, options);
}

static flx_val make_conv_transpose(flx_graph *g, flx_val x, const void *options)
{
    return flx_nn_conv_transpose(g, "c", x, 2, options);
}

static flx_val make_pool(flx_graph *g, flx_val x, const void *options)
{
    return flx_nn_avg_pool(g, x, options);
}

static flx_val make_max_pool(flx_graph *g, flx_val x, const void *options)
{
    return flx_nn_max_pool(g, x, options);
}

static flx_val make_unet_up(flx_graph *g, flx_val x, const void *options)
{
    flx_val skip = flx_nn_conv_transpose(g, "c", x, 3, NULL);
    return flx_nn_unet_up(g, "u", x, skip, 2, options);
}

static flx_val make_rnn(flx_graph *g, flx_val x, const void *options)
{
    return flx_nn_rnn(g, "l", x, 3, options, NULL);
}

static flx_val make_gru(flx_graph *g, flx_val x, const void *options)
{
    return flx_nn_gru(g, "l", x, 3, options, NULL);
}

static flx_val make_unet(flx_graph *g, flx_val x, const void *options)
{
    flx_val skip;
    return flx_nn_unet_down(g, "u", x, 2, options, &skip);
}

static flx_val make_batch_norm(flx_graph *g, flx_val x, const void *options)
{
    return flx_nn_batch_norm(g, "n", x, options);
}

static flx_val make_moe(flx_graph *g, flx_val x, const void *options)
{
    return flx_nn_moe(g, "m", x, 3, options, NULL);
}

static flx_val make_lstm(flx_graph *g, flx_val x, const void *options)
{
    return flx_nn_lstm(g, "l", x, 3, options, NULL);
}

static flx_val make_mamba(flx_graph *g, flx_val x, const void *options)
{
    return flx_nn_mamba(g, "m", x, options);
}

static flx_val make_attention(flx_graph *g, flx_val x, const void *options)
{
    return flx_nn_attention(g, "a", x, FLX_NONE, options);
}

static flx_val make_block(flx_graph *g, flx_val x, const void *options)
{
    return flx_nn_transformer_block(g, "b", x, options);
}

static flx_code call_nn_conv(fixture *f, const void *options, flx_error *err)
{
    return layer(f, make_conv, options, err);
}

static flx_code call_nn_conv_transpose(fixture *f, const void *options, flx_error *err)
{
    return layer(f, make_conv_transpose, options, err);
}

static flx_code call_nn_avg_pool(fixture *f, const void *options, flx_error *err)
{
    return layer(f, make_pool, options, err);
}

static flx_code call_nn_max_pool(fixture *f, const void *options, flx_error *err)
{
    return layer(f, make_max_pool, options, err);
}

static flx_code call_nn_unet_up(fixture *f, const void *options, flx_error *err)
{
    return layer(f, make_unet_up, options, err);
}

static flx_code call_nn_rnn(fixture *f, const void *options, flx_error *err)
{
    return layer(f, make_rnn, options, err);
}

static flx_code call_nn_gru(fixture *f, const void *options, flx_error *err)
{
    return layer(f, make_gru, options, err);
}

static flx_code call_nn_unet_down(fixture *f, const void *options, flx_error *err)
{
    return layer(f, make_unet, options, err);
}

static flx_code call_nn_batch_norm(fixture *f, const void *options, flx_error *err)
{
    return layer(f, make_batch_norm, options, err);
}

static flx_code call_nn_moe(fixture *f, const void *options, flx_error *err)
{
    return layer(f, make_moe, options, err);
}

static flx_code call_nn_lstm(fixture *f, const void *options, flx_error *err)
{
    return layer(f, make_lstm, options, err);
}

static flx_code call_nn_mamba(fixture *f, const void *options, flx_error *err)
{
    return layer(f, make_mamba, options, err);
}

static flx_code call_nn_attention(fixture *f, const void *options, flx_error *err)
{
    return layer(f, make_attention, options, err);
}

static flx_code call_nn_transformer_block(fixture *f, const void *options, flx_error *err)
{
    return layer(f, make_block, options, err);
}

static flx_code call_nn_gpt(fixture *f, const void *options, flx_error *err)
{
    flx_graph *g = flx_graph_new(f->ctx, "layer");
    const flx_type type = flx_type_make(FLX_I32, 2, (flx_dim[]){1, 2});
    flx_output(g, flx_nn_gpt(g, "m", flx_input(g, "x", &type), options), NULL);
    flx_code code = flx_graph_error(g, err);
    flx_graph_release(g);
    return code;
}

/* Structs that functions fill. */
static flx_code call_exec_memory_plan(fixture *f, const void *options, flx_error *err)
{
    return flx_exec_memory_plan(f->exec, (flx_memory_plan *)(uintptr_t)options, err);
}

static flx_code build(const fixture *f, const flx_build_options *options, flx_build_sizes *sizes, flx_error *err)
{
    flx_buffer source = {0};
    flx_code code = flx_build_c(f->g, options, &source, NULL, sizes, err);
    flx_buffer_free(&source);
    return code;
}

static flx_code call_build_c(fixture *f, const void *options, flx_error *err)
{
    return build(f, options, NULL, err);
}

static flx_code call_build_c_sizes(fixture *f, const void *options, flx_error *err)
{
    return build(f, NULL, (flx_build_sizes *)(uintptr_t)options, err);
}

static flx_code call_quantise(fixture *f, const void *options, flx_error *err)
{
    flx_graph *g = flx_quantise(f->g, options, err);
    flx_graph_release(g);
    return g ? FLX_OK : (flx_code)err->code;
}

/* The logits of a token are a row of the table. */
static flx_code call_generate(fixture *f, const void *options, flx_error *err)
{
    static const char text[] = "graph g(t: i32[1, T], param w: f32[256, 256] ~ ones) { return gather(w, t) }";
    flx_module *m = flx_parse(f->ctx, text, strlen(text), "generate", err);
    flx_params *p = m ? flx_params_of(flx_module_main(m), 1, err) : NULL;
    flx_code code = FLX_E_INTERNAL;
    if (p)
        code = flx_generate(flx_module_main(m), p, NULL, options, NULL, err);
    flx_params_release(p);
    flx_module_free(m);
    return code;
}

/* ---- The structs, with every field set where that is possible ---- */

static void *allocate(void *user, void *block, size_t old_size, size_t new_size)
{
    (void)user;
    (void)old_size;
    if (new_size)
        return realloc(block, new_size);
    free(block);
    return NULL;
}

static void ignore_log(void *user, flx_log_event event, const char *subject, const char *text)
{
    (void)user, (void)event, (void)subject, (void)text;
}

static void ignore_print(void *user, const char *message, const flx_tensor *value)
{
    (void)user, (void)message, (void)value;
}

static uint32_t status_of_run;
static const flx_dim_binding no_dims[1];

static const flx_context_options for_context = {.struct_size = sizeof for_context,
                                                .alloc = allocate,
                                                .alloc_user = &status_of_run,
                                                .memory_limit = 1 << 20,
                                                .log = ignore_log,
                                                .log_user = &status_of_run};
static const flx_grad_options for_grad = {.struct_size = sizeof for_grad, .flags = FLX_GRAD_VALUE};
static const flx_jacobian_options for_jacobian = {.struct_size = sizeof for_jacobian,
                                                  .mode = FLX_JACOBIAN_FORWARD,
                                                  .chunk = 2,
                                                  .budget = 1000,
                                                  .flags = FLX_JACOBIAN_DENSE};
static const char *const loss_name[] = {"out0"};
static const flx_jacobian_options for_jacobian_of = {
    .struct_size = sizeof for_jacobian_of, .mode = FLX_JACOBIAN_REVERSE, .outputs = loss_name, .num_outputs = 1};
static const flx_force_options for_force = {.struct_size = sizeof for_force, .energy_weight = 1, .force_weight = 2};
static const flx_train_options for_train = {.struct_size = sizeof for_train,
                                            .flags = FLX_TRAIN_NESTEROV,
                                            .optimiser = FLX_MOMENTUM,
                                            .rate = 0.1,
                                            .momentum = 0.5,
                                            .beta1 = 0.5,
                                            .beta2 = 0.5,
                                            .epsilon = 1e-3,
                                            .weight_decay = 0.1,
                                            .clip_norm = 1, /* a list without its length would be an empty one */
                                            .clip_value = 2,
                                            .ema = 0.9,
                                            .accumulate = 2,
                                            .scale_interval = 5,
                                            .loss_scale = 8,
                                            .seed = 3,
                                            .recompute = 1};
static const flx_schedule_options for_schedule = {.struct_size = sizeof for_schedule,
                                                  .kind = FLX_SCHEDULE_STEP,
                                                  .warmup = 3,
                                                  .steps = 10,
                                                  .final = 0.5,
                                                  .factor = 0.5};
static const flx_fit_options for_fit = {.struct_size = sizeof for_fit,
                                        .flags = FLX_FIT_SKIP_NUMERIC,
                                        .next = next_batch,
                                        .epochs = 2,
                                        .max_steps = 3,
                                        .progress = no_progress,
                                        .next_validation = next_batch,
                                        .patience = 5,
                                        .min_delta = 0.1};
static const flx_minimise_options for_minimise = {.struct_size = sizeof for_minimise,
                                                  .method = FLX_LBFGS,
                                                  .max_iterations = 2,
                                                  .history = 3,
                                                  .tolerance = 0.1,
                                                  .step_tolerance = 0.1};
static const flx_compile_options for_compile = {.struct_size = sizeof for_compile,
                                                .flags = FLX_COMPILE_INTERPRET,
                                                .device = "cpu",
                                                .threads = 1,
                                                .optimisation = 1,
                                                .cache = FLX_CACHE_OFF,
                                                .cache_dir = "/tmp",
                                                .dims = no_dims,
                                                .shares = NULL,
                                                .record_path = NULL};
static const flx_run_options for_run = {.struct_size = sizeof for_run,
                                        .flags = FLX_RUN_CHECK_FINITE,
                                        .device = "cpu",
                                        .print = ignore_print,
                                        .print_user = &status_of_run,
                                        .dims = no_dims,
                                        .status = &status_of_run};
static const flx_report_options for_report = {
    .struct_size = sizeof for_report, .title = "t", .about = "a", .clock_user = &status_of_run};
static flx_report_graph for_report_graph = {.struct_size = sizeof for_report_graph, .title = "t"}; /* + the graph */
static const flx_rewrite_options for_rewrite = {.struct_size = sizeof for_rewrite, .flags = FLX_REWRITE_EXACT};
static const flx_kernel_run_options for_kernel_run = {.struct_size = sizeof for_kernel_run,
                                                      .flags = FLX_KERNEL_CHECKED,
                                                      .device = "ref",
                                                      .schedule = FLX_KERNEL_REVERSE,
                                                      .subgroup_size = 4,
                                                      .seed = 1,
                                                      .max_steps = 1 << 20};
static const flx_kernel_grad_options for_kernel_grad = {.struct_size = sizeof for_kernel_grad,
                                                        .tape_budget = 1 << 16,
                                                        .private_words = 8,
                                                        .max_trips = 4,
                                                        .unroll = 2,
                                                        .columns = 1};
static const flx_kernel_target for_target = {.struct_size = sizeof for_target,
                                             .flags = FLX_KERNEL_HAS_SUBGROUPS,
                                             .max_workgroup = 64,
                                             .subgroup_size = 8,
                                             .max_workgroup_bytes = 1024,
                                             .max_private_bytes = 1024};
static const flx_kernel_buffer for_buffer = {.struct_size = sizeof for_buffer,
                                             .flags = FLX_KERNEL_LIVE_OUT,
                                             .name = "x",
                                             .access = FLX_KERNEL_READ_WRITE,
                                             .element = FLX_F32,
                                             .count = 8,
                                             .alignment = 16};
static const flx_kernel_extension for_extension = {.struct_size = sizeof for_extension,
                                                   .name = "first",
                                                   .fingerprint = 1,
                                                   .id = 7,
                                                   .num_args = 1,
                                                   .type = type_of_first,
                                                   .evaluate = evaluate_first,
                                                   .c = {"$0", NULL}};
static const flx_custom_op for_custom = {.struct_size = sizeof for_custom,
                                         .name = "same",
                                         .user = &status_of_run,
                                         .infer = infer_same,
                                         .eval = evaluate_nothing};
static const int64_t some_one = 1, some_two = 2, some_zero = 0;
static const flx_nn_conv_options for_conv = {.struct_size = sizeof for_conv,
                                             .no_bias = 1,
                                             .kernel = {&some_two, 1},
                                             .stride = {&some_one, 1},
                                             .dilation = {&some_one, 1},
                                             .padding = {&some_one, 1},
                                             .groups = 2,
                                             .activation = "relu"};
static const flx_nn_conv_options for_conv_transpose = {.struct_size = sizeof for_conv_transpose,
                                                       .no_bias = 1,
                                                       .kernel = {&some_two, 1},
                                                       .stride = {&some_two, 1},
                                                       .dilation = {&some_one, 1},
                                                       .padding = {&some_zero, 1},
                                                       .extra = {&some_one, 1},
                                                       .groups = 2,
                                                       .activation = "relu"};
static const flx_nn_pool_options for_pool = {.struct_size = sizeof for_pool,
                                             .exclude_padding = 1,
                                             .kernel = {&some_two, 1},
                                             .stride = {&some_one, 1},
                                             .padding = {&some_one, 1}};
static const flx_nn_unet_options for_unet = {.struct_size = sizeof for_unet, .norm_groups = 2, .activation = "silu"};
static const flx_nn_batch_norm_options for_batch_norm = {
    .struct_size = sizeof for_batch_norm, .is_training = 1, .momentum = 0.2, .eps = 1e-3};
static const flx_nn_moe_options for_moe = {
    .struct_size = sizeof for_moe, .no_bias = 1, .top_k = 1, .hidden = 5, .activation = "relu"};
static const flx_nn_recurrent_options for_recurrent = {
    .struct_size = sizeof for_recurrent, .is_bidirectional = 1, .layers = 2};
static const flx_nn_mamba_options for_mamba = {
    .struct_size = sizeof for_mamba, .inner = 6, .states = 3, .kernel = 2, .rank = 2};
static const flx_nn_attention_options for_attention = {.struct_size = sizeof for_attention,
                                                       .no_bias = 1,
                                                       .heads = 2,
                                                       .kv_heads = 2,
                                                       .head_dim = 2,
                                                       .mask_kind = "causal",
                                                       .rope_theta = 100};
static const flx_nn_block_options for_block = {.struct_size = sizeof for_block,
                                               .is_post_norm = 1,
                                               .is_rms = 1,
                                               .is_gated = 1,
                                               .hidden = 8,
                                               .activation = "relu",
                                               .eps = 1e-3,
                                               .attention = &for_attention};

static const flx_loader_options for_loader = {
    .struct_size = sizeof for_loader, .flags = FLX_LOADER_SHUFFLE, .batch = 2, .epochs = 1, .seed = 3};
static const flx_csv_options for_csv = {.struct_size = sizeof for_csv, .flags = FLX_CSV_NO_HEADER, .label = "c0"};
static const flx_csv_options for_table = {.struct_size = sizeof for_table, .label = "a", .features = "x"};
static const flx_onnx_options for_onnx = {.struct_size = sizeof for_onnx, .flags = FLX_ONNX_CONSTANTS, .folder = "."};
static const flx_folder_options for_folder = {.struct_size = sizeof for_folder, .channels = 1, .samples = 8};

static const flx_nn_gpt_options for_gpt = {
    .struct_size = sizeof for_gpt, .vocabulary = 9, .width = 8, .layers = 1, .heads = 2};
static const flx_memory_plan for_plan = {.struct_size = sizeof for_plan};
static const flx_build_options for_build = {.struct_size = sizeof for_build, .flags = FLX_BUILD_GRAD, .name = "f"};
static const flx_build_sizes for_sizes = {.struct_size = sizeof for_sizes};
static const flx_quantise_options for_quantise = {
    .struct_size = sizeof for_quantise, .flags = FLX_QUANTISE_TRAIN, .weight_bits = 4};
static const flx_generate_options for_generate = {.struct_size = sizeof for_generate,
                                                  .flags = FLX_GENERATE_MOST_LIKELY,
                                                  .tokens = 1,
                                                  .context = 2,
                                                  .top = 3,
                                                  .temperature = 1,
                                                  .seed = 4};

typedef struct {
    const char *type, *function;
    const void *sample;
    size_t size, alignment;
    size_t needed; /* a shorter struct lacks what must be given, and is refused for that */
    call_fn call;
    bool is_filled; /* by the function: what a newer program has room for is set to zero */
} options_row;

#define ROW(type, function, sample, needed)                                                                \
    {                                                                                                      \
#type, "flx_" #function, &(sample), sizeof(type), _Alignof(type), (needed), call_##function, false \
    }

static const options_row rows[] = {
    ROW(flx_context_options, context_new, for_context, 0),
    ROW(flx_grad_options, grad, for_grad, 0),
    ROW(flx_grad_options, hvp, for_grad, 0),
    ROW(flx_jacobian_options, jacobian, for_jacobian, 0),
    ROW(flx_jacobian_options, jacobian, for_jacobian_of, 0),
    ROW(flx_jacobian_options, hessian, for_jacobian, 0),
    ROW(flx_force_options, force_energy_loss, for_force, 0),
    ROW(flx_train_options, training_graph, for_train, offsetof(flx_train_options, rate)),
    ROW(flx_train_options, compile_training, for_train, offsetof(flx_train_options, rate)),
    ROW(flx_schedule_options, schedule_graph, for_schedule, offsetof(flx_schedule_options, final)),
    ROW(flx_fit_options, fit, for_fit, offsetof(flx_fit_options, epochs)),
    ROW(flx_minimise_options, minimise, for_minimise, 0),
    {"flx_compile_options", "flx_compile_training", &for_compile, sizeof for_compile, _Alignof(flx_compile_options), 0,
     call_compile_training_compile, false},
    ROW(flx_compile_options, compile, for_compile, 0),
    ROW(flx_compile_options, show_stage, for_compile, 0),
    ROW(flx_run_options, run, for_run, 0),
    ROW(flx_run_options, exec_run, for_run, 0),
    ROW(flx_run_options, exec_run_at_with, for_run, 0),
    ROW(flx_run_options, exec_may_share_at, for_run, 0),
    ROW(flx_run_options, trainer_step_with, for_run, 0),
    ROW(flx_run_options, exec_start, for_run, 0),
    ROW(flx_run_options, exec_profile, for_run, 0),
    ROW(flx_run_options, exec_trace, for_run, 0),
    ROW(flx_report_options, report_new, for_report, 0),
    ROW(flx_report_graph, report_add_graph, for_report_graph, offsetof(flx_report_graph, exec)),
    ROW(flx_report_graph, report_draw, for_report_graph, offsetof(flx_report_graph, exec)),
    ROW(flx_run_options, exec_record, for_run, 0),
    ROW(flx_run_options, recording_run, for_run, 0),
    ROW(flx_rewrite_options, rewrite_patterns, for_rewrite, 0),
    ROW(flx_kernel_run_options, kernel_run, for_kernel_run, 0),
    ROW(flx_kernel_run_options, kernel_derived_run, for_kernel_run, 0),
    ROW(flx_kernel_grad_options, kernel_grad, for_kernel_grad, 0),
    ROW(flx_kernel_grad_options, kernel_jvp, for_kernel_grad, 0),
    ROW(flx_kernel_target, kernel_validate, for_target, 0),
    ROW(flx_kernel_buffer, kernel_add_buffer, for_buffer, offsetof(flx_kernel_buffer, count)),
    ROW(flx_kernel_extension, kernel_register_extension, for_extension, offsetof(flx_kernel_extension, c)),
    ROW(flx_custom_op, register_custom, for_custom, offsetof(flx_custom_op, vjp)),
    ROW(flx_nn_conv_options, nn_conv, for_conv, 0),
    ROW(flx_nn_conv_options, nn_conv_transpose, for_conv_transpose, 0),
    ROW(flx_nn_pool_options, nn_avg_pool, for_pool, 0),
    ROW(flx_nn_pool_options, nn_max_pool, for_pool, 0),
    ROW(flx_nn_unet_options, nn_unet_down, for_unet, 0),
    ROW(flx_nn_unet_options, nn_unet_up, for_unet, 0),
    ROW(flx_nn_batch_norm_options, nn_batch_norm, for_batch_norm, 0),
    ROW(flx_nn_moe_options, nn_moe, for_moe, 0),
    ROW(flx_nn_recurrent_options, nn_rnn, for_recurrent, 0),
    ROW(flx_nn_recurrent_options, nn_gru, for_recurrent, 0),
    ROW(flx_nn_recurrent_options, nn_lstm, for_recurrent, 0),
    ROW(flx_nn_mamba_options, nn_mamba, for_mamba, 0),
    ROW(flx_nn_attention_options, nn_attention, for_attention, 0),
    ROW(flx_nn_block_options, nn_transformer_block, for_block, 0),
    ROW(flx_loader_options, loader_new, for_loader, 0),
    ROW(flx_csv_options, csv_decode, for_csv, offsetof(flx_csv_options, features)),
    ROW(flx_csv_options, csv_read, for_table, 0),
    ROW(flx_onnx_options, onnx_decode, for_onnx, 0),
    ROW(flx_onnx_options, onnx_read, for_onnx, 0),
    ROW(flx_folder_options, folder_read, for_folder, 0),
    ROW(flx_nn_gpt_options, nn_gpt, for_gpt, 0),
    {"flx_memory_plan", "flx_exec_memory_plan", &for_plan, sizeof for_plan, _Alignof(flx_memory_plan), 0,
     call_exec_memory_plan, true},
    ROW(flx_build_options, build_c, for_build, 0),
    {"flx_build_sizes", "flx_build_c", &for_sizes, sizeof for_sizes, _Alignof(flx_build_sizes), 0, call_build_c_sizes,
     true},
    ROW(flx_quantise_options, quantise, for_quantise, 0),
    ROW(flx_generate_options, generate, for_generate, 0),
};

enum { NUM_ROWS = sizeof rows / sizeof *rows, MORE = 64 };

/* ---- The test ---- */

/* A copy whose struct_size is `claimed`, with `filler` in all bytes from `cut` on. */
static void *copy_cut(const options_row *r, uint32_t claimed, size_t cut, int filler)
{
    size_t n = r->size + MORE;
    unsigned char *copy = malloc(n);
    CHECK(copy != NULL);
    memset(copy, filler, n);
    memcpy(copy, r->sample, cut < r->size ? cut : r->size);
    memcpy(copy, &claimed, sizeof claimed);
    return copy;
}

static void expect(fixture *f, const options_row *r, void *options, flx_code code)
{
    flx_error err = {0};
    flx_code got = r->call(f, options, &err);
    free(options);
    EXPECT_MSG(got == code, "%s, %s: %s instead of %s: %s", r->function, r->type, flx_code_name(got),
               flx_code_name(code), err.message);
    test_count_case();
}

static void check_prefix(fixture *f, const options_row *r, uint32_t prefix)
{
    flx_error err = {0};
    bool is_layout = prefix > sizeof prefix && prefix % r->alignment == 0;
    test_fail_context("%s(%s) with struct_size %u of %zu", r->function, r->type, prefix, r->size);
    if (is_layout && prefix < r->needed) { /* refused for what is missing, but without reading on */
        void *options = copy_cut(r, prefix, prefix, 0xa5);
        CHECK(r->call(f, options, &err) != FLX_OK);
        free(options);
        test_count_case();
        return;
    }
    expect(f, r, copy_cut(r, prefix, prefix, 0xa5), is_layout ? FLX_OK : FLX_E_USAGE);
}

static void check_row(fixture *f, const options_row *r)
{
    uint32_t size = (uint32_t)r->size, longer = size + (uint32_t)r->alignment;
    for (uint32_t prefix = 1; prefix <= size; prefix++)
        check_prefix(f, r, prefix);
    test_fail_context("%s(%s)", r->function, r->type);
    expect(f, r, copy_cut(r, 0, size, 0xa5), FLX_OK);   /* 0: the layout of version 0.2 */
    expect(f, r, copy_cut(r, longer, size, 0), FLX_OK); /* of a newer program, nothing new used */
    expect(f, r, copy_cut(r, longer, size, 1), r->is_filled ? FLX_OK : FLX_E_USAGE); /* something new used */
    expect(f, r, copy_cut(r, 1u << 16, size, 0), FLX_E_USAGE);                       /* not a size */
    expect(f, r, copy_cut(r, UINT32_MAX, size, 0), FLX_E_USAGE);
}

TEST(api_options_accept_every_prefix)
{
    fixture f = fixture_new();
    for_report_graph.graph = f.g;
    for (size_t i = 0; i < NUM_ROWS; i++)
        check_row(&f, &rows[i]);
    fixture_free(&f);
}

/* ---- Nothing is missing in the table ---- */

static bool has_row(const char *type, const char *function)
{
    for (size_t i = 0; i < NUM_ROWS; i++)
        if (strcmp(rows[i].type, type) == 0 && (!function || strcmp(rows[i].function, function) == 0))
            return true;
    return false;
}

static char *read_header(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/include/fluxion/%s", FLX_SOURCE_DIR, name);
    FILE *in = fopen(path, "rb");
    CHECK_MSG(in != NULL, "%s", path);
    char *text = calloc(1, 1 << 20);
    CHECK(text && fread(text, 1, (1 << 20) - 1, in) > 0);
    fclose(in);
    return text;
}

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

/* The function in whose declaration `at` is: the name before its parenthesis. */
static void declared_function(const char *text, const char *at, char *name, size_t size)
{
    const char *begin = at;
    while (begin > text && strncmp(begin, "FLX_API", 7) != 0)
        begin--;
    const char *end = strchr(begin, '(');
    const char *s = end;
    while (s > begin && is_name(s[-1]))
        s--;
    snprintf(name, size, "%.*s", (int)(end - s), s);
}

static void check_uses(const char *text, const char *type)
{
    char pattern[120], function[100];
    snprintf(pattern, sizeof pattern, "const %s *", type);
    for (const char *at = text; (at = strstr(at, pattern)); at++) {
        const char *end = at + strlen(pattern);
        while (is_name(*end))
            end++;
        if (*end == ';')
            continue; /* a field: the struct it is part of has a row */
        declared_function(text, at, function, sizeof function);
        EXPECT_MSG(has_row(type, function), "tests/api/options.c has no row for %s of %s()", type, function);
        test_count_case();
    }
}

TEST(api_options_table_is_complete)
{
    static const char *const headers[] = {
        "build.h",  "catalogue.h", "checkpoint.h", "custom.h", "data.h", "exec.h",     "generate.h",
        "graph.h",  "kernel.h",    "lower.h",      "nn.h",     "onnx.h", "quantise.h", "recording.h",
        "report.h", "run.h",       "stablehlo.h",  "tensor.h", "text.h", "train.h",    "transform.h"};
    enum { NUM_HEADERS = sizeof headers / sizeof *headers };
    char *texts[NUM_HEADERS];
    size_t found = 0;
    for (size_t i = 0; i < NUM_HEADERS; i++)
        texts[i] = read_header(headers[i]);
    for (size_t i = 0; i < NUM_HEADERS; i++)
        for (const char *at = texts[i]; (at = strstr(at, "typedef struct flx_")); at++) {
            char type[100];
            const char *s = at + strlen("typedef struct ");
            const char *body = s + strspn(s, "abcdefghijklmnopqrstuvwxyz_0123456789");
            snprintf(type, sizeof type, "%.*s", (int)(body - s), s);
            bool is_sized = strncmp(body, " {\n    uint32_t struct_size;", 28) == 0;
            bool is_options = strlen(type) > 8 && strcmp(type + strlen(type) - 8, "_options") == 0;
            EXPECT_MSG(is_sized || !is_options, "%s does not begin with struct_size", type);
            if (!is_sized)
                continue;
            found++;
            EXPECT_MSG(has_row(type, NULL), "tests/api/options.c has no row for %s", type);
            for (size_t k = 0; k < NUM_HEADERS; k++)
                check_uses(texts[k], type);
        }
    CHECK(found >= 15);
    for (size_t i = 0; i < NUM_HEADERS; i++)
        free(texts[i]);
}
