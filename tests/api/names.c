/* SPDX-License-Identifier: Apache-2.0 */
/* names.c: every list of names that a public function takes, directly or in its options, with a name that does not
   exist and with one that is repeated. A test reads the headers and fails for a function that has no row. */
#include "test.h"

#include <fluxion/build.h>
#include <fluxion/data.h>
#include <fluxion/fluxion.h>
#include <fluxion/gguf.h>
#include <fluxion/kernel.h>
#include <fluxion/mesh.h>
#include <fluxion/onnx.h>
#include <fluxion/quantise.h>
#include <fluxion/recording.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char graph_text[] = "graph f(x: f32[N, 3], param p: f32[3, 3]) { y = reduce_sum(square(matmul(x, p)))  z "
                                 "= reduce_sum(x)  return y, z }";
static const char kernel_text[] = "kernel k {\n  buffer x: f32[4] read @0;\n  buffer y: f32[4] output @1;\n"
                                  "  let i = invocation_id(0);\n  y[i] = x[i] * x[i];\n}\n";

typedef struct {
    flx_context *ctx;
    flx_graph *g;
    flx_graph *plain; /* the same without symbols */
    flx_exec *exec;
    flx_trainer *trainer;
    flx_params *params;
    flx_kernel *kernel;
    flx_kernel_derived *derived;
    flx_buffer onnx;
    flx_tensor *x, *p;
} fixture;

static const flx_dim_binding two = {"N", 2};
static const flx_compile_options interpreted = {
    .struct_size = sizeof interpreted, .device = "cpu", .flags = FLX_COMPILE_INTERPRET, .threads = 1};

static flx_tensor *ones(flx_context *ctx, int64_t rows)
{
    const flx_type t = flx_type_make(FLX_F32, 2, (flx_dim[]){rows, 3});
    flx_tensor *x = flx_tensor_new(ctx, &t, NULL, NULL);
    CHECK(x != NULL);
    for (int64_t i = 0; i < flx_tensor_count(x); i++)
        ((float *)flx_tensor_data(x))[i] = 1;
    return x;
}

static void fixture_begin(fixture *f)
{
    flx_error err = {0};
    *f = (fixture){.ctx = flx_context_new(NULL)};
    flx_module *m = flx_parse(f->ctx, graph_text, strlen(graph_text), "names", &err);
    CHECK_MADE(m, &err);
    f->g = flx_graph_retain(flx_module_main(m));
    flx_module_free(m);
    f->plain = flx_specialise(f->g, &two, 1, &err);
    CHECK_MADE(f->plain, &err);
    f->exec = flx_compile(f->g, &interpreted, &err);
    CHECK_MADE(f->exec, &err);
    f->trainer = flx_compile_training(f->g, NULL, &interpreted, &err);
    CHECK_MADE(f->trainer, &err);
    f->params = flx_params_of(f->g, 1, &err);
    CHECK_MADE(f->params, &err);
    f->kernel = flx_kernel_parse(f->ctx, kernel_text, strlen(kernel_text), "names", &err);
    CHECK_MADE(f->kernel, &err);
    f->derived = flx_kernel_grad(f->kernel, (const char *[]){"y"}, 1, (const char *[]){"x"}, 1, NULL, &err);
    CHECK_MADE(f->derived, &err);
    CHECK_OK(flx_onnx_encode(f->plain, NULL, 0, &f->onnx, &err), &err);
    f->x = ones(f->ctx, 2);
    f->p = ones(f->ctx, 3);
}

static void fixture_end(fixture *f)
{
    flx_tensor_release(f->x);
    flx_tensor_release(f->p);
    flx_buffer_free(&f->onnx);
    flx_kernel_derived_free(f->derived);
    flx_kernel_release(f->kernel);
    flx_params_release(f->params);
    flx_trainer_free(f->trainer);
    flx_exec_free(f->exec);
    flx_graph_release(f->plain);
    flx_graph_release(f->g);
    flx_context_free(f->ctx);
}

/* A call with a list of `n` names. */
typedef struct {
    const char *const *v;
    size_t n;
} names;

typedef flx_code (*call_fn)(fixture *f, const names *list, flx_error *err);

enum { MOST = 8 };

/* Values for x and p, and then for the names of the list. */
typedef struct {
    flx_feed at[MOST];
    size_t n;
} feeding;

static feeding feeds_and(const fixture *f, bool with_params, const names *list)
{
    feeding all = {.at = {{"x", f->x}}, .n = 1};
    if (with_params)
        all.at[all.n++] = (flx_feed){"p", f->p};
    for (size_t i = 0; i < list->n; i++)
        all.at[all.n++] = (flx_feed){list->v[i], strcmp(list->v[i], "p") == 0 ? f->p : f->x};
    return all;
}

typedef struct {
    flx_dim_binding at[MOST];
} binding;

static binding dims_of(const names *list)
{
    binding b;
    for (size_t i = 0; i < list->n; i++)
        b.at[i] = (flx_dim_binding){list->v[i], 2};
    return b;
}

static const names none = {0};

static flx_code made_graph(flx_graph *g, const flx_error *err)
{
    flx_graph_release(g);
    return g ? FLX_OK : (flx_code)err->code;
}

#define CALL(name, ...)                                                 \
    static flx_code name(fixture *f, const names *list, flx_error *err) \
    {                                                                   \
        __VA_ARGS__                                                     \
    }

/* ---- Transforms ---- */

CALL(grad, return made_graph(flx_grad(f->plain, list->v, list->n, NULL, err), err);)
CALL(jvp, return made_graph(flx_jvp(f->plain, list->v, list->n, err), err);)
CALL(hvp, return made_graph(flx_hvp(f->plain, list->v, list->n, NULL, err), err);)
CALL(taylor, return made_graph(flx_taylor(f->plain, list->v, list->n, 2, err), err);)
CALL(jacobian, return made_graph(flx_jacobian(f->plain, list->v, list->n, NULL, err), err);)
CALL(hessian, return made_graph(flx_hessian(f->plain, list->v, list->n, NULL, err), err);)
CALL(jacobian_outputs,
     const flx_jacobian_options o = {.struct_size = sizeof o, .outputs = list->v, .num_outputs = list->n};
     return made_graph(flx_jacobian(f->plain, (const char *[]){"x"}, 1, &o, err), err);)
CALL(vmap, flx_vmap_axis axes[MOST]; for (size_t i = 0; i < list->n; i++) axes[i] = (flx_vmap_axis){list->v[i], 0};
     return made_graph(flx_vmap(f->plain, axes, list->n, NULL, 0, 2, err), err);)
CALL(specialise, binding b = dims_of(list); return made_graph(flx_specialise(f->g, b.at, list->n, err), err);)
CALL(partition, flx_sharding cuts[MOST];
     for (size_t i = 0; i < list->n; i++) cuts[i] = (flx_sharding){list->v[i], "data,-"};
     return made_graph(flx_partition(f->plain, "data=2", cuts, list->n, NULL, err), err);)
CALL(quantise_params, feeding values = {.n = 0}; feeding inputs = feeds_and(f, false, &none);
     values.at[values.n++] = (flx_feed){"p", f->p};
     for (size_t i = 0; i < list->n; i++) values.at[values.n++] = (flx_feed){list->v[i], f->p};
     const flx_quantise_options o = {.struct_size = sizeof o,
                                     .params = values.at,
                                     .num_params = values.n,
                                     .batches = inputs.at,
                                     .num_inputs = inputs.n,
                                     .num_batches = 1};
     return made_graph(flx_quantise(f->plain, &o, err), err);)
CALL(quantise_inputs, const flx_feed p = {"p", f->p}; feeding inputs = feeds_and(f, false, list);
     const flx_quantise_options o = {.struct_size = sizeof o,
                                     .params = &p,
                                     .num_params = 1,
                                     .batches = inputs.at,
                                     .num_inputs = inputs.n,
                                     .num_batches = 1};
     return made_graph(flx_quantise(f->plain, &o, err), err);)

/* ---- Running and compiling ---- */

static flx_code run(const fixture *f, const flx_run_options *o, const feeding *feeds, flx_error *err)
{
    flx_tensor *y[2] = {0};
    flx_code code = flx_run(f->g, o, feeds->at, feeds->n, y, err);
    flx_tensor_release(y[0]);
    flx_tensor_release(y[1]);
    return code;
}

static flx_code exec_run(const fixture *f, const flx_run_options *o, const feeding *feeds, flx_error *err)
{
    flx_tensor *y[2] = {0};
    flx_code code = flx_exec_run(f->exec, o, feeds->at, feeds->n, y, err);
    flx_tensor_release(y[0]);
    flx_tensor_release(y[1]);
    return code;
}

static flx_code start(const fixture *f, const flx_run_options *o, const feeding *feeds, flx_error *err)
{
    flx_tensor *y[2] = {0};
    flx_job *job = flx_exec_start(f->exec, o, feeds->at, feeds->n, err);
    flx_code code = job ? flx_job_wait(job, y, err) : (flx_code)err->code;
    flx_tensor_release(y[0]);
    flx_tensor_release(y[1]);
    flx_job_free(job);
    return code;
}

static flx_code profile(const fixture *f, const flx_run_options *o, const feeding *feeds, flx_error *err)
{
    flx_tensor *y[2] = {0};
    flx_code code = flx_exec_profile(f->exec, o, feeds->at, feeds->n, y, NULL, 0, NULL, err);
    flx_tensor_release(y[0]);
    flx_tensor_release(y[1]);
    return code;
}

static flx_code trace(const fixture *f, const flx_run_options *o, const feeding *feeds, flx_error *err)
{
    flx_tensor *y[2] = {0};
    flx_run_trace t = {0};
    flx_code code = flx_exec_trace(f->exec, o, feeds->at, feeds->n, y, &t, err);
    flx_tensor_release(y[0]);
    flx_tensor_release(y[1]);
    return code;
}

static flx_code record(const fixture *f, const flx_run_options *o, const feeding *feeds, flx_error *err)
{
    const char *path = test_temp_path("names.flxr");
    flx_code code = flx_exec_record(f->exec, o, feeds->at, feeds->n, path, err);
    unlink(path);
    return code;
}

static flx_code step(const fixture *f, const flx_run_options *o, const feeding *feeds, flx_error *err)
{
    return flx_trainer_step_with(f->trainer, o, feeds->at, feeds->n, NULL, err);
}

/* A function that takes feeds and options of a run: the names of feeds, and those of dimensions. */
#define RUNS(name, function, with_params)                                                                   \
    CALL(name##_feeds, feeding all = feeds_and(f, with_params, list); return function(f, NULL, &all, err);) \
    CALL(name##_dims, feeding all = feeds_and(f, with_params, &none); binding b = dims_of(list);            \
         const flx_run_options o = {.struct_size = sizeof o, .dims = b.at, .num_dims = list->n};            \
         return function(f, &o, &all, err);)
RUNS(run, run, true)
RUNS(exec_run, exec_run, true)
RUNS(start, start, true)
RUNS(profile, profile, true)
RUNS(trace, trace, true)
RUNS(record, record, true)
RUNS(step_with, step, false)

CALL(step_feeds, feeding all = feeds_and(f, false, list);
     return flx_trainer_step(f->trainer, all.at, all.n, NULL, err);)
CALL(trainer_trace_feeds, feeding all = feeds_and(f, false, list); flx_run_trace t = {0};
     return flx_trainer_trace(f->trainer, all.at, all.n, &t, err);)
CALL(run_at_dims, binding b = dims_of(list); float y = 0; float z = 0;
     const flx_run_options o = {.struct_size = sizeof o, .dims = b.at, .num_dims = list->n};
     const void *const in[] = {flx_tensor_const_data(f->x), flx_tensor_const_data(f->p)}; void *const out[] = {&y, &z};
     return flx_exec_run_at_with(f->exec, &o, in, out, err);)
CALL(share_at_dims, binding b = dims_of(list); int may;
     const flx_run_options o = {.struct_size = sizeof o, .dims = b.at, .num_dims = list->n};
     return flx_exec_may_share_at(f->exec, &o, 0, 0, &may, err);)
CALL(compile_dims, binding b = dims_of(list); flx_compile_options o = interpreted; o.dims = b.at; o.num_dims = list->n;
     flx_exec *e = flx_compile(f->g, &o, err); flx_exec_free(e); return e ? FLX_OK : (flx_code)err->code;)
CALL(training_dims, binding b = dims_of(list); flx_compile_options o = interpreted; o.dims = b.at; o.num_dims = list->n;
     flx_trainer *t = flx_compile_training(f->g, NULL, &o, err); flx_trainer_free(t);
     return t ? FLX_OK : (flx_code)err->code;)
CALL(training_params, const flx_train_options o = {.struct_size = sizeof o, .params = list->v, .num_params = list->n};
     flx_trainer *t = flx_compile_training(f->g, &o, &interpreted, err); flx_trainer_free(t);
     return t ? FLX_OK : (flx_code)err->code;)
CALL(training_graph, const flx_train_options o = {.struct_size = sizeof o, .params = list->v, .num_params = list->n};
     return made_graph(flx_training_graph(f->plain, &o, err), err);)
CALL(minimise_feeds, feeding all = feeds_and(f, false, list);
     return flx_minimise(f->plain, f->params, all.at, all.n, NULL, NULL, err);)
CALL(minimise_params, feeding all = feeds_and(f, false, &none); const flx_minimise_options o = {.struct_size = sizeof o,
                                                                                                .max_iterations = 1,
                                                                                                .params = list->v,
                                                                                                .num_params = list->n};
     return flx_minimise(f->plain, f->params, all.at, all.n, &o, NULL, err);)

static flx_code show(const fixture *f, int stage, const names *list, flx_error *err)
{
    flx_buffer text = {0};
    binding b = dims_of(list);
    flx_compile_options o = interpreted;
    o.dims = b.at;
    o.num_dims = list->n;
    flx_code code = flx_show_stage(f->g, (flx_stage)stage, &o, &text, err);
    flx_buffer_free(&text);
    return code;
}

CALL(show_hir, return show(f, FLX_STAGE_HIR, list, err);)
CALL(show_lir, return show(f, FLX_STAGE_LIR, list, err);)

static flx_code build(const fixture *f, const flx_build_options *o, flx_error *err)
{
    flx_buffer text = {0};
    flx_code code = flx_build_c(f->g, o, &text, NULL, NULL, err);
    flx_buffer_free(&text);
    return code;
}

CALL(build_dims, binding b = dims_of(list);
     const flx_build_options o = {.struct_size = sizeof o, .dims = b.at, .num_dims = list->n};
     return build(f, &o, err);)
CALL(build_params, const flx_train_options t = {.struct_size = sizeof t, .params = list->v, .num_params = list->n};
     const flx_build_options o = {.struct_size = sizeof o, .dims = &two, .num_dims = 1, .train = &t};
     return build(f, &o, err);)

/* ---- Files ---- */

static flx_code import(const fixture *f, const flx_onnx_options *o, flx_error *err)
{
    flx_onnx *m = flx_onnx_decode(f->ctx, f->onnx.data, f->onnx.size, "names", o, err);
    flx_onnx_free(m);
    return m ? FLX_OK : (flx_code)err->code;
}

CALL(onnx_inputs, feeding all = feeds_and(f, false, list);
     const flx_onnx_options o = {.struct_size = sizeof o, .inputs = all.at, .num_inputs = all.n};
     return import(f, &o, err);)
CALL(onnx_dims, binding b = dims_of(list);
     const flx_onnx_options o = {.struct_size = sizeof o, .dims = b.at, .num_dims = list->n};
     return import(f, &o, err);)
CALL(onnx_params, feeding all = {.n = 0}; flx_buffer out = {0};
     for (size_t i = 0; i < list->n; i++) all.at[all.n++] = (flx_feed){list->v[i], f->p};
     flx_code code = flx_onnx_encode(f->plain, all.at, all.n, &out, err); flx_buffer_free(&out); return code;)

typedef flx_code (*write_fn)(const char *path, const char *const *keys, const flx_tensor *const *values, size_t n,
                             flx_error *err);

static flx_code write_file(const fixture *f, write_fn write, const names *list, flx_error *err)
{
    const char *path = test_temp_path("names");
    const flx_tensor *values[MOST];
    for (size_t i = 0; i < list->n; i++)
        values[i] = f->x;
    flx_code code = write(path, list->v, values, list->n, err);
    unlink(path);
    return code;
}

CALL(npz_keys, return write_file(f, flx_npz_write, list, err);)
CALL(safetensors_keys, return write_file(f, flx_safetensors_write, list, err);)

static flx_code write_gguf(const fixture *f, const names *keys, const names *tensors, flx_error *err)
{
    static const uint32_t one = 1;
    const char *path = test_temp_path("names.gguf");
    flx_gguf_pair pairs[MOST];
    flx_gguf_source sources[MOST];
    for (size_t i = 0; i < keys->n; i++)
        pairs[i] =
            (flx_gguf_pair){.key = keys->v[i], .kind = FLX_GGUF_U32, .element = FLX_GGUF_U32, .count = 1, .data = &one};
    for (size_t i = 0; i < tensors->n; i++)
        sources[i] = (flx_gguf_source){.name = tensors->v[i], .value = f->x};
    flx_code code = flx_gguf_write(path, pairs, keys->n, sources, tensors->n, err);
    unlink(path);
    return code;
}

CALL(gguf_keys, return write_gguf(f, list, &none, err);)
CALL(gguf_tensors, return write_gguf(f, &none, list, err);)

/* ---- Tables of data ---- */

static const char table[] = "a,b,c\n1,2,u\n3,4,v\n";

static flx_code read_table(const fixture *f, const flx_csv_options *o, flx_error *err)
{
    flx_dataset *d = flx_csv_decode(f->ctx, table, sizeof table - 1, o, err);
    flx_dataset_free(d);
    return d ? FLX_OK : (flx_code)err->code;
}

CALL(csv_order, const flx_csv_options o =
                    {.struct_size = sizeof o, .label = "c", .features = "x", .order = list->v, .num_order = list->n};
     return read_table(f, &o, err);)
CALL(csv_label, const flx_csv_options o = {.struct_size = sizeof o, .label = list->v[0]};
     return read_table(f, &o, err);)
CALL(csv_target,
     const flx_csv_options o = {.struct_size = sizeof o, .label = "c", .features = "x", .target = list->v[0]};
     return read_table(f, &o, err);)

CALL(classes, const flx_csv_options o = {.struct_size = sizeof o, .label = "c"};
     flx_dataset *d = flx_csv_decode(f->ctx, table, sizeof table - 1, &o, err); const char *all[MOST] = {"u", "v"};
     memcpy(all + 2, list->v, list->n * sizeof *all);
     flx_code code = d ? flx_dataset_use_classes(d, "c", all, list->n + 2, err) : (flx_code)err->code;
     flx_dataset_free(d); return code;)

/* ---- Kernels ---- */

static const uint32_t grid[3] = {4, 1, 1};

CALL(kernel_outputs,
     flx_kernel_derived *d = flx_kernel_grad(f->kernel, list->v, list->n, (const char *[]){"x"}, 1, NULL, err);
     flx_kernel_derived_free(d); return d ? FLX_OK : (flx_code)err->code;)
CALL(kernel_inputs,
     flx_kernel_derived *d = flx_kernel_jvp(f->kernel, (const char *[]){"y"}, 1, list->v, list->n, NULL, err);
     flx_kernel_derived_free(d); return d ? FLX_OK : (flx_code)err->code;)
CALL(kernel_batched, const char *all[MOST] = {"y"}; memcpy(all + 1, list->v, list->n * sizeof *all);
     flx_kernel *k = flx_kernel_vmap(f->kernel, all, list->n + 1, 0, 1, 2, err); flx_kernel_release(k);
     return k ? FLX_OK : (flx_code)err->code;)
CALL(kernel_memory, float room[4][4] = {{0}}; flx_kernel_memory m[MOST] = {{"x", room[0], 16}, {"y", room[1], 16}};
     for (size_t i = 0; i < list->n; i++) m[i + 2] = (flx_kernel_memory){list->v[i], room[2], 16};
     return flx_kernel_run(f->kernel, grid, m, list->n + 2, NULL, err);)
CALL(derived_memory, float room[4][4] = {{0}};
     flx_kernel_memory m[MOST] = {{"x", room[0], 16}, {"grad_x", room[1], 16}};
     for (size_t i = 0; i < list->n; i++) m[i + 2] = (flx_kernel_memory){list->v[i], room[2], 16};
     return flx_kernel_derived_run(f->derived, grid, m, list->n + 2, NULL, err);)

/* ---- Rows ---- */

/* Where `good` is NULL the name exists for the function whatever it is: only repetition is wrong. */
static const struct {
    const char *function; /* and what the list is */
    call_fn call;
    const char *good;
    flx_code unknown; /* FLX_OK: any name is a new one */
} rows[] = {
    {"flx_grad, wrt", grad, "x", FLX_E_NAME},
    {"flx_jvp, wrt", jvp, "x", FLX_E_NAME},
    {"flx_hvp, wrt", hvp, "x", FLX_E_NAME},
    {"flx_taylor, wrt", taylor, "x", FLX_E_NAME},
    {"flx_jacobian, wrt", jacobian, "x", FLX_E_NAME},
    {"flx_jacobian, outputs", jacobian_outputs, "y", FLX_E_NAME},
    {"flx_hessian, wrt", hessian, "x", FLX_E_NAME},
    {"flx_vmap, axes", vmap, "x", FLX_E_NAME},
    {"flx_specialise, dims", specialise, "N", FLX_E_NAME},
    {"flx_partition, shardings", partition, "x", FLX_E_NAME},
    {"flx_quantise, params", quantise_params, "p", FLX_E_NAME},
    {"flx_quantise, batches", quantise_inputs, "x", FLX_E_NAME},
    {"flx_run, feeds", run_feeds, "x", FLX_E_NAME},
    {"flx_run, dims", run_dims, "N", FLX_E_NAME},
    {"flx_exec_run, feeds", exec_run_feeds, "x", FLX_E_NAME},
    {"flx_exec_run, dims", exec_run_dims, "N", FLX_E_NAME},
    {"flx_exec_start, feeds", start_feeds, "x", FLX_E_NAME},
    {"flx_exec_start, dims", start_dims, "N", FLX_E_NAME},
    {"flx_exec_profile, feeds", profile_feeds, "x", FLX_E_NAME},
    {"flx_exec_profile, dims", profile_dims, "N", FLX_E_NAME},
    {"flx_exec_trace, feeds", trace_feeds, "x", FLX_E_NAME},
    {"flx_exec_trace, dims", trace_dims, "N", FLX_E_NAME},
    {"flx_exec_record, feeds", record_feeds, "x", FLX_E_NAME},
    {"flx_exec_record, dims", record_dims, "N", FLX_E_NAME},
    {"flx_exec_run_at_with, dims", run_at_dims, "N", FLX_E_NAME},
    {"flx_exec_may_share_at, dims", share_at_dims, "N", FLX_E_NAME},
    {"flx_compile, dims", compile_dims, "N", FLX_E_NAME},
    {"flx_compile_training, dims", training_dims, "N", FLX_E_NAME},
    {"flx_compile_training, params", training_params, "p", FLX_E_NAME},
    {"flx_training_graph, params", training_graph, "p", FLX_E_NAME},
    {"flx_trainer_step, feeds", step_feeds, "x", FLX_E_NAME},
    {"flx_trainer_step_with, feeds", step_with_feeds, "x", FLX_E_NAME},
    {"flx_trainer_step_with, dims", step_with_dims, "N", FLX_E_NAME},
    {"flx_trainer_trace, feeds", trainer_trace_feeds, "x", FLX_E_NAME},
    {"flx_minimise, feeds", minimise_feeds, "x", FLX_E_NAME},
    {"flx_minimise, params", minimise_params, "p", FLX_E_NAME},
    {"flx_show_stage, dims of HIR", show_hir, "N", FLX_E_NAME},
    {"flx_show_stage, dims of LIR", show_lir, "N", FLX_E_NAME},
    {"flx_build_c, dims", build_dims, "N", FLX_E_NAME},
    {"flx_build_c, params", build_params, "p", FLX_E_NAME},
    {"flx_onnx_decode, inputs", onnx_inputs, "x", FLX_E_NAME},
    {"flx_onnx_decode, dims", onnx_dims, NULL, FLX_E_NAME},
    {"flx_onnx_encode, params", onnx_params, "p", FLX_E_NAME},
    {"flx_npz_write, keys", npz_keys, "x", FLX_OK},
    {"flx_safetensors_write, keys", safetensors_keys, "x", FLX_OK},
    {"flx_gguf_write, keys", gguf_keys, "x", FLX_OK},
    {"flx_gguf_write, tensors", gguf_tensors, "x", FLX_OK},
    {"flx_csv_decode, order", csv_order, "a", FLX_E_NAME},
    {"flx_csv_decode, label", csv_label, NULL, FLX_E_NAME},
    {"flx_csv_decode, target", csv_target, NULL, FLX_E_NAME},
    {"flx_dataset_use_classes, classes", classes, "u", FLX_OK},
    {"flx_kernel_grad, outputs", kernel_outputs, "y", FLX_E_KERNEL},
    {"flx_kernel_jvp, inputs", kernel_inputs, "x", FLX_E_KERNEL},
    {"flx_kernel_vmap, batched", kernel_batched, "x", FLX_E_KERNEL},
    {"flx_kernel_run, memory", kernel_memory, "x", FLX_E_NAME},
    {"flx_kernel_derived_run, memory", derived_memory, "grad_x", FLX_E_NAME},
};

enum { NUM_ROWS = sizeof rows / sizeof *rows };

static void expect(fixture *f, size_t i, const names *list, flx_code code, const char *how)
{
    flx_error err = {0};
    char quoted[32];
    snprintf(quoted, sizeof quoted, "%s", list->v[0]);
    test_fail_context("%s, %s", rows[i].function, how);
    flx_code got = rows[i].call(f, list, &err);
    EXPECT_MSG(got == code, "%s, %s: %s instead of %s: %s", rows[i].function, how, flx_code_name(got),
               flx_code_name(code), err.message);
    EXPECT_MSG(got == FLX_OK || strstr(err.message, quoted), "%s, %s: '%s' does not say '%s'", rows[i].function, how,
               err.message, quoted);
    test_count_case();
}

TEST(api_names_that_are_unknown_or_repeated_are_refused_everywhere)
{
    fixture f;
    fixture_begin(&f);
    for (size_t i = 0; i < NUM_ROWS; i++) {
        const char *const unknown[] = {"nowhere"}, *const twice[] = {rows[i].good, rows[i].good};
        expect(&f, i, &(names){unknown, 1}, rows[i].unknown, "unknown");
        if (rows[i].good)
            expect(&f, i, &(names){twice, 2}, FLX_E_DUP_NAME, "repeated");
    }
    fixture_end(&f);
}

/* ---- Completeness ---- */

/* Types of parameters that hold names of something that exists. */
static const char *const holds_names[] = {"const char *const *",          "const flx_feed *",
                                          "const flx_dim_binding *",      "const flx_sharding *",
                                          "const flx_vmap_axis *",        "const flx_kernel_memory *",
                                          "const flx_compile_options *",  "const flx_run_options *",
                                          "const flx_train_options *",    "const flx_build_options *",
                                          "const flx_onnx_options *",     "const flx_quantise_options *",
                                          "const flx_jacobian_options *", "const flx_minimise_options *",
                                          "const flx_csv_options *",      "const flx_gguf_pair *",
                                          "const flx_gguf_source *"};

/* Functions that have such a parameter and no row. */
static const struct {
    const char *function, *why;
} others[] = {
    {"flx_loader_next", "returns feeds"},           {"flx_csv_read", "flx_csv_decode of a file"},
    {"flx_onnx_read", "flx_onnx_decode of a file"}, {"flx_recording_run", "does not use the dims of its options"},
    {"flx_report_add_table", "texts of a table"},   {"flx_report_add_confusion", "texts of a table"},
};

static bool is_tried(const char *function, size_t n)
{
    for (size_t i = 0; i < NUM_ROWS; i++)
        if (strncmp(rows[i].function, function, n) == 0 && rows[i].function[n] == ',')
            return true;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strlen(others[i].function) == n && strncmp(others[i].function, function, n) == 0)
            return true;
    return false;
}

/* The declaration that begins at `text`: up to its semicolon, on one line. */
static size_t read_declaration(const char *text, char *out, size_t room)
{
    size_t n = 0, used = 0;
    for (; text[used] && text[used] != ';'; used++)
        if (n + 1 < room && !(text[used] == ' ' && n && out[n - 1] == ' '))
            out[n++] = text[used] == '\n' ? ' ' : text[used];
    out[n] = 0;
    return used;
}

static size_t check_header(const char *text)
{
    size_t found = 0;
    for (const char *p = text; (p = strstr(p, "\nFLX_API ")) != NULL;) {
        char line[1024];
        p += read_declaration(p + 1, line, sizeof line);
        const char *name = strstr(line, "flx_"), *end = strchr(line, '(');
        bool has_names = false;
        for (size_t i = 0; i < sizeof holds_names / sizeof *holds_names; i++)
            has_names |= strstr(line, holds_names[i]) != NULL;
        for (const char *next = name; end && next && next < end; next = strstr(next + 1, "flx_"))
            name = next;
        if (!has_names || !end || !name)
            continue;
        EXPECT_MSG(is_tried(name, (size_t)(end - name)), "tests/api/names.c has no row for %.*s()", (int)(end - name),
                   name);
        found++;
        test_count_case();
    }
    return found;
}

TEST(api_names_table_is_complete)
{
    static const char *const headers[] = {"build",  "checkpoint", "data",   "decoder", "exec",  "generate", "gguf",
                                          "graph",  "kernel",     "lower",  "mesh",    "onnx",  "quantise", "recording",
                                          "report", "run",        "tensor", "text",    "train", "transform"};
    size_t found = 0;
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/include/fluxion/%s.h", FLX_SOURCE_DIR, headers[i]);
        FILE *in = fopen(path, "rb");
        CHECK_MSG(in != NULL, "%s", path);
        static char text[1 << 19];
        size_t n = fread(text, 1, sizeof text - 1, in);
        text[n] = 0;
        fclose(in);
        found += check_header(text);
    }
    CHECK_MSG(found >= 40, "%zu functions", found);
}
