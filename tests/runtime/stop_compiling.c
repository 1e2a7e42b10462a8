/* SPDX-License-Identifier: Apache-2.0 */
/* stop_compiling.c: compilations that are stopped, with a compiler that never ends; readers and transforms that are
   stopped; and the limit of nodes, which all of them keep. */
#include "backend/cache_fixture.h"
#include "session_case.h"

#include <fluxion/build.h>
#include <fluxion/lower.h>
#include <fluxion/mesh.h>
#include <fluxion/onnx.h>
#include <fluxion/quantise.h>
#include <fluxion/stablehlo.h>
#include <stdlib.h>
#include <time.h>

static const char text[] = "graph f(x: f32[N]) { return mul(exp(mul(x, -0.5)), x), reduce_sum(sin(x), axes=[0]) }";

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

enum { SOON_MS = 3000 }; /* of a machine that is busy; the compiler would take 100 s */

/* With a compiler that never ends. */
static void begin(cache_fixture *f, session_case *c)
{
    char path[800];
    cache_fixture_begin(f, NULL);
    snprintf(path, sizeof path, "%.700s/../slow", f->temp);
    write_script(path, "#!/bin/sh\n[ $1 = --version ] && exec cc --version\nexec sleep 100\n");
    setenv("FLX_CC", path, 1);
    session_begin(c, text, 0);
}

static void end(cache_fixture *f, session_case *c)
{
    session_end(c);
    CHECK(!has_leftovers(f));
    cache_fixture_end(f);
}

TEST(stop_compiling_at_the_time_limit)
{
    cache_fixture f;
    session_case c;
    begin(&f, &c);
    flx_dim_binding dim = {"N", 64};
    flx_compile_options o = {.struct_size = sizeof o, .dims = &dim, .num_dims = 1, .time_limit = 0.1};
    int64_t start = now_ms();
    CHECK(!flx_compile(c.g, &o, &c.err));
    CHECK_CODE(c.err.code, FLX_E_TIMEOUT, &c.err);
    CHECK_MSG(strstr(c.err.message, "0.1 seconds"), "%s", c.err.message);
    CHECK(now_ms() - start < SOON_MS);
    o.time_limit = -1;
    CHECK(!flx_compile(c.g, &o, &c.err) && c.err.code == FLX_E_USAGE);
    end(&f, &c);
}

TEST(stop_runs_that_compile_or_wait_for_it)
{
    cache_fixture f;
    session_case c;
    begin(&f, &c);
    c.exec = flx_compile(c.g, NULL, &c.err); /* when extents are known */
    CHECK_MADE(c.exec, &c.err);
    flx_feed feed = {"x", session_f32(&c, 64, 2)};
    flx_job *jobs[3];
    flx_tensor *out[2];
    for (int i = 0; i < 3; i++)
        jobs[i] = flx_exec_start(c.exec, NULL, &feed, 1, &c.err);
    pause_ms(100);
    for (int i = 3; i-- > 0;) {
        int64_t start = now_ms();
        CHECK(jobs[i] && !flx_job_is_done(jobs[i]));
        flx_job_cancel(jobs[i]);
        CHECK_CODE(flx_job_wait(jobs[i], out, &c.err), FLX_E_CANCELLED, &c.err);
        flx_job_free(jobs[i]);
        CHECK(now_ms() - start < SOON_MS);
    }
    flx_run_options limited = {.struct_size = sizeof limited, .device = "cpu", .time_limit = 0.1};
    CHECK_CODE(flx_exec_run(c.exec, &limited, &feed, 1, out, &c.err), FLX_E_TIMEOUT, &c.err);
    CHECK_CODE(flx_run(c.g, &limited, &feed, 1, out, &c.err), FLX_E_TIMEOUT, &c.err);
    unsetenv("FLX_CC"); /* what was stopped can be done later */
    CHECK_OK(flx_exec_run(c.exec, NULL, &feed, 1, out, &c.err), &c.err);
    flx_tensor_release(out[0]);
    flx_tensor_release(out[1]);
    end(&f, &c);
}

TEST(stop_compiling_in_the_background)
{
    cache_fixture f;
    session_case c;
    begin(&f, &c);
    flx_dim_binding dim = {"N", 64};
    flx_compile_options o = {
        .struct_size = sizeof o, .dims = &dim, .num_dims = 1, .flags = FLX_COMPILE_BACKGROUND, .time_limit = 0.1};
    c.exec = flx_compile(c.g, &o, &c.err);
    CHECK_MADE(c.exec, &c.err);
    CHECK_CODE(flx_exec_wait_ready(c.exec, &c.err), FLX_E_TIMEOUT, &c.err);
    flx_exec_free(c.exec);
    o.time_limit = 0;
    c.exec = flx_compile(c.g, &o, &c.err);
    CHECK_MADE(c.exec, &c.err);
    pause_ms(50);
    int64_t start = now_ms();
    flx_exec_free(c.exec);
    c.exec = NULL;
    CHECK(now_ms() - start < SOON_MS);
    end(&f, &c);
}

TEST(stop_limits_of_memory)
{
    for (int on_ref = 0; on_ref < 2; on_ref++) {
        session_case c;
        session_begin(&c, "graph f(x: f32[1000]) { return sort(exp(x)) }", 0);
        flx_feed feed = {"x", session_f32(&c, 1000, 1)};
        flx_tensor *out = NULL;
        flx_run_options o = {.struct_size = sizeof o, .device = on_ref ? "ref" : "cpu", .memory_limit = 3000};
        CHECK_CODE(flx_run(c.g, &o, &feed, 1, &out, &c.err), FLX_E_SIZE, &c.err);
        CHECK(!out);
        o.memory_limit = 1000000;
        CHECK_OK(flx_run(c.g, &o, &feed, 1, &out, &c.err), &c.err);
        flx_tensor_release(out);
        flx_compile_options co = {.struct_size = sizeof co, .memory_limit = 3000};
        CHECK(!flx_compile(c.g, &co, &c.err) && c.err.code == FLX_E_SIZE);
        session_end(&c);
    }
}

/* ---- Readers and transforms ---- */

static const char scalar[] = "graph f(x: f32[]) { return sin(mul(tanh(mul(x, x)), exp(x))) }";
static const char hlo[] = "func.func @main(%x: tensor<f32>) -> tensor<f32> {\n"
                          "  %a = stablehlo.sine %x : tensor<f32>\n  %b = stablehlo.multiply %a, %x : tensor<f32>\n"
                          "  %c = stablehlo.add %b, %a : tensor<f32>\n  %d = stablehlo.exponential %c : tensor<f32>\n"
                          "  return %d : tensor<f32>\n}\n";

static const char *const wrt[] = {"x"};

typedef struct {
    flx_context *ctx;
    const flx_graph *g; /* of the context */
    const flx_buffer *bytes, *onnx, *bytecode;
    flx_error err;
} reading;

static void drop_graph(flx_graph *g)
{
    flx_graph_release(g);
}

static flx_code failure(reading *r, bool made)
{
    return made ? FLX_OK : (flx_code)r->err.code;
}

static flx_code read_text(reading *r)
{
    flx_module *m = flx_parse(r->ctx, scalar, strlen(scalar), "t", &r->err);
    flx_module_free(m);
    return failure(r, m);
}

static flx_code read_bytes_of(reading *r)
{
    flx_module *m = flx_decode(r->ctx, r->bytes->data, r->bytes->size, "b", &r->err);
    flx_module_free(m);
    return failure(r, m);
}

static flx_code read_stablehlo(reading *r)
{
    flx_module *m = flx_import_stablehlo(r->ctx, hlo, strlen(hlo), "h", &r->err);
    flx_module_free(m);
    return failure(r, m);
}

static flx_code read_bytecode(reading *r)
{
    flx_module *m = flx_import_stablehlo(r->ctx, r->bytecode->data, r->bytecode->size, "h", &r->err);
    flx_module_free(m);
    return failure(r, m);
}

static flx_code read_onnx(reading *r)
{
    flx_onnx *m = flx_onnx_decode(r->ctx, r->onnx->data, r->onnx->size, "o", NULL, &r->err);
    flx_onnx_free(m);
    return failure(r, m);
}

#define TRANSFORM(name, call)        \
    static flx_code name(reading *r) \
    {                                \
        flx_graph *made = call;      \
        drop_graph(made);            \
        return failure(r, made);     \
    }
TRANSFORM(take_grad, flx_grad(r->g, wrt, 1, NULL, &r->err))
TRANSFORM(take_jvp, flx_jvp(r->g, wrt, 1, &r->err))
TRANSFORM(take_hvp, flx_hvp(r->g, wrt, 1, NULL, &r->err))
TRANSFORM(take_vmap, flx_vmap(r->g, &(flx_vmap_axis){"x", 0}, 1, NULL, 0, 4, &r->err))
TRANSFORM(take_jacobian, flx_jacobian(r->g, wrt, 1, NULL, &r->err))
TRANSFORM(take_hessian, flx_hessian(r->g, wrt, 1, NULL, &r->err))
TRANSFORM(take_taylor, flx_taylor(r->g, wrt, 1, 3, &r->err))
TRANSFORM(take_nth, flx_nth_grad(r->g, "x", 4, &r->err))
TRANSFORM(take_simplified, flx_simplify(r->g, &r->err))

static flx_code take_inlined(reading *r)
{
    flx_graph *g = flx_graph_new(r->ctx, "g");
    flx_type type = flx_type_make(FLX_F32, 0, NULL);
    flx_val x = flx_input(g, "x", &type);
    for (int i = 0; i < 4; i++)
        flx_inline(g, r->g, &x, 1, &x, 1);
    flx_code code = flx_graph_error(g, &r->err);
    flx_graph_release(g);
    return code;
}

TRANSFORM(take_widened, flx_widen(r->g, &r->err))
TRANSFORM(take_mixed, flx_mixed_precision(r->g, FLX_F16, &r->err))
TRANSFORM(take_lowered, flx_lower(r->g, FLX_POLICY_FOR_AUTODIFF, &r->err))
TRANSFORM(take_rewritten, flx_rewrite_patterns(r->g, NULL, NULL, &r->err))
TRANSFORM(take_specialised, flx_specialise(r->g, NULL, 0, &r->err))
TRANSFORM(take_part, flx_partition(r->g, "data=2", &(flx_sharding){"x", ""}, 1, NULL, &r->err))
TRANSFORM(take_quantised, flx_quantise(r->g, &(flx_quantise_options){.flags = FLX_QUANTISE_TRAIN}, &r->err))

#define WRITER(name, call)           \
    static flx_code name(reading *r) \
    {                                \
        flx_buffer out = {0};        \
        flx_code code = call;        \
        flx_buffer_free(&out);       \
        return code;                 \
    }
WRITER(write_text, flx_graph_print(r->g, &out, &r->err))
WRITER(write_encoded, flx_graph_encode(r->g, &out, &r->err))
WRITER(write_stablehlo, flx_export_stablehlo(r->g, &out, &r->err))
WRITER(write_bytecode, flx_export_stablehlo_bytecode(r->g, &out, &r->err))
WRITER(write_onnx, flx_onnx_encode(r->g, NULL, 0, &out, &r->err))
WRITER(write_c, flx_build_c(r->g, NULL, &out, NULL, NULL, &r->err))

static flx_code take_plan(reading *r)
{
    flx_mesh_plan plan = {.struct_size = sizeof plan};
    return flx_plan_mesh(r->g, "data=2", NULL, &plan, &r->err);
}

/* First those that read, then those that make graphs. */
static flx_code (*const ways[])(reading *r) = {
    read_text,       read_bytes_of,    read_stablehlo, read_bytecode,  read_onnx,    take_grad,
    take_jvp,        take_hvp,         take_vmap,      take_jacobian,  take_hessian, take_taylor,
    take_nth,        take_simplified,  take_inlined,   take_widened,   take_mixed,   take_lowered,
    take_rewritten,  take_specialised, take_part,      take_quantised, write_text,   write_encoded,
    write_stablehlo, write_bytecode,   write_onnx,     write_c,        take_plan};
enum { WAYS = sizeof ways / sizeof *ways, READERS = 5, MAKERS = 15 };

static flx_graph *long_chain(flx_context *ctx)
{
    enum { NODES = 20000 };
    flx_graph *g = flx_graph_new(ctx, "long");
    flx_type type = flx_type_make(FLX_F32, 0, NULL);
    flx_val x = flx_input(g, "x", &type);
    for (int i = 0; i < NODES; i++)
        x = flx_sin(g, x);
    flx_output(g, x, "y");
    return g;
}

/* What the readers read, and a graph that takes a while to write. */
typedef struct {
    flx_context *ctx;
    flx_graph *g, *large;
    flx_buffer bytes, onnx, bytecode;
} read_files;

static void files_begin(read_files *f)
{
    flx_error err = {0};
    *f = (read_files){.ctx = flx_context_new(NULL)};
    f->g = graph_of(f->ctx, scalar);
    f->large = long_chain(f->ctx);
    f->bytes = bytes_of(f->g);
    CHECK_OK(flx_onnx_encode(f->g, NULL, 0, &f->onnx, &err), &err);
    CHECK_OK(flx_export_stablehlo_bytecode(f->g, &f->bytecode, &err), &err);
}

static void files_end(read_files *f)
{
    flx_buffer_free(&f->bytes);
    flx_buffer_free(&f->onnx);
    flx_buffer_free(&f->bytecode);
    flx_graph_release(f->large);
    flx_graph_release(f->g);
    flx_context_free(f->ctx);
}

static reading reading_of(const read_files *f, flx_context *ctx, const flx_graph *g)
{
    return (reading){.ctx = ctx, .g = g, .bytes = &f->bytes, .onnx = &f->onnx, .bytecode = &f->bytecode};
}

TEST(stop_readers_and_transforms)
{
    read_files f;
    files_begin(&f);
    reading r = reading_of(&f, f.ctx, f.g);
    flx_stop *stop = flx_stop_new(f.ctx, 0, &r.err);
    CHECK(stop);
    for (int i = 0; i < WAYS; i++) {
        test_fail_context("way %d", i);
        CHECK_OK(ways[i](&r), &r.err);
    }
    flx_stop_request(stop);
    CHECK(flx_stop_use(stop) == NULL);
    for (int i = 0; i < WAYS; i++) {
        test_fail_context("way %d, stopped", i);
        r.g = i < MAKERS ? f.g : f.large; /* what is done at once need not be stopped */
        CHECK_CODE(ways[i](&r), FLX_E_CANCELLED, &r.err);
    }
    CHECK(flx_stop_use(NULL) == stop);
    r.g = f.g;
    for (int i = 0; i < WAYS; i++)
        CHECK_OK(ways[i](&r), &r.err);
    flx_stop_free(stop);
    flx_stop_free(NULL);
    files_end(&f);
}

/* Grows without an end in sight. */
TEST(stop_an_expansion_at_its_time_limit)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = graph_of(ctx, "graph f(x: f64[]) { return div(sin(mul(x, exp(x))), add(tanh(mul(x, x)), 2)) }");
    flx_error err = {0};
    flx_stop *stop = flx_stop_new(ctx, 0.2, &err);
    CHECK(stop);
    flx_stop_use(stop);
    int64_t start = now_ms();
    CHECK(!flx_nth_grad(g, "x", 64, &err));
    flx_stop_use(NULL);
    CHECK_MSG(err.code == FLX_E_TIMEOUT || err.code == FLX_E_SIZE, "%s: %s", flx_code_name(err.code), err.message);
    CHECK(now_ms() - start < SOON_MS);
    flx_stop_free(stop);
    flx_graph_release(g);
    flx_context_free(ctx);
}

/* ---- The limit of nodes ---- */

TEST(node_limit_holds_in_every_reader_and_transform)
{
    read_files f;
    files_begin(&f);
    CHECK(!flx_context_new(&(flx_context_options){.struct_size = sizeof(flx_context_options), .node_limit = -1}));
    for (int i = 0; i < MAKERS; i++) {
        bool reads = i < READERS, was_refused = false;
        for (int64_t limit = reads ? 1 : 7; limit < 1000 && (!was_refused || limit < 100); limit++) {
            flx_context_options o = {.struct_size = sizeof o, .node_limit = limit};
            flx_context *ctx = flx_context_new(&o);
            flx_graph *g = reads ? NULL : graph_of(ctx, scalar);
            reading r = reading_of(&f, ctx, g);
            flx_code code = ways[i](&r);
            test_fail_context("way %d, %lld nodes", i, (long long)limit);
            CHECK_MSG(code == FLX_OK || (code == FLX_E_SIZE && strstr(r.err.message, "node")), "%s: %s",
                      flx_code_name(code), r.err.message);
            was_refused |= code != FLX_OK;
            flx_graph_release(g);
            flx_context_free(ctx);
        }
        CHECK(was_refused || ways[i] == take_simplified || ways[i] == take_vmap); /* these make no more nodes */
    }
    files_end(&f);
}

/* Each graph inlines the one before twice: 2^40 nodes. */
TEST(node_limit_ends_inlining_that_doubles)
{
    flx_context_options o = {.struct_size = sizeof o, .node_limit = 100000};
    flx_context *ctx = flx_context_new(&o);
    flx_graph *g = graph_of(ctx, scalar);
    flx_error err = {0};
    flx_type type = flx_type_make(FLX_F32, 0, NULL);
    for (int i = 0; i < 40 && !err.code; i++) {
        flx_graph *next = flx_graph_new(ctx, "next");
        flx_val x = flx_input(next, "x", &type);
        flx_inline(next, g, &x, 1, &x, 1);
        flx_inline(next, g, &x, 1, &x, 1);
        flx_output(next, x, NULL);
        flx_graph_error(next, &err);
        flx_graph_release(g);
        g = next;
    }
    CHECK_CODE(err.code, FLX_E_SIZE, &err);
    flx_graph_release(g);
    flx_context_free(ctx);
}
