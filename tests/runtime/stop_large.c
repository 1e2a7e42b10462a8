/* SPDX-License-Identifier: Apache-2.0 */
/* stop_large.c: what reads, transforms, compiles or writes a graph of many nodes ends soon after it is asked to. Each
   way is stopped at several moments, so that its phases are met: a tree of syntax that is built before a graph, passes
   that only look, text that is printed. */
#include "effort.h"
#include "graph/graph_text.h"

#include <fluxion/build.h>
#include <fluxion/kernel.h>
#include <fluxion/mesh.h>
#include <fluxion/onnx.h>
#include <fluxion/quantise.h>
#include <fluxion/report.h>
#include <fluxion/stablehlo.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

/* The time of the processor that work may take after it was stopped. */
enum { BUSY_MS = 50 };

static int nodes(void)
{
    return effort(EFFORT_stop_whole) ? 20000 : 6000;
}

typedef struct {
    flx_context *ctx;
    flx_graph *g;
    flx_buffer text, bytes, mlir, mlirbc, onnx, kernel;
    flx_error err;
} subject;

static void append(flx_buffer *b, const char *text)
{
    size_t n = strlen(text);
    b->data = realloc(b->data, b->size + n + 1);
    CHECK(b->data != NULL);
    memcpy((char *)b->data + b->size, text, n + 1);
    b->size += n;
}

/* A long chain of ops, every value of which depends on the one before. */
static char *chain_text(void)
{
    enum { ROOM = 80 };
    char *text = malloc((size_t)(nodes() + 4) * ROOM);
    CHECK(text != NULL);
    size_t n = (size_t)sprintf(text, "graph f(x: f32[64], param w: f32[64]) {\n  v0 = mul(x, w)\n");
    for (int i = 1; i < nodes(); i++)
        n += (size_t)snprintf(text + n, ROOM, i % 2 ? "  v%d = sin(v%d)\n" : "  v%d = mul(v%d, w)\n", i, i - 1);
    sprintf(text + n, "  return reduce_sum(v%d)\n}\n", nodes() - 1);
    return text;
}

/* The same as a kernel. */
static char *kernel_text(void)
{
    enum { ROOM = 60 };
    char *text = malloc((size_t)(nodes() + 8) * ROOM);
    CHECK(text != NULL);
    size_t n = (size_t)sprintf(text, "kernel k {\n  buffer x: f32[64] read @0;\n  buffer y: f32[64] output @1;\n"
                                     "  let i = invocation_id(0);\n  let v0 = x[i];\n");
    for (int i = 1; i < nodes(); i++)
        n +=
            (size_t)snprintf(text + n, ROOM, i % 2 ? "  let v%d = sin(v%d);\n" : "  let v%d = v%d * x[i];\n", i, i - 1);
    sprintf(text + n, "  y[i] = v%d;\n}\n", nodes() - 1);
    return text;
}

static void begin(subject *s)
{
    char *text = chain_text(), *kernel = kernel_text();
    *s = (subject){.ctx = flx_context_new(NULL)};
    append(&s->text, text);
    append(&s->kernel, kernel);
    free(text);
    free(kernel);
    s->g = graph_of(s->ctx, s->text.data);
    CHECK_OK(flx_graph_encode(s->g, &s->bytes, &s->err), &s->err);
    CHECK_OK(flx_export_stablehlo(s->g, &s->mlir, &s->err), &s->err);
    CHECK_OK(flx_export_stablehlo_bytecode(s->g, &s->mlirbc, &s->err), &s->err);
    CHECK_OK(flx_onnx_encode(s->g, NULL, 0, &s->onnx, &s->err), &s->err);
}

static void end(subject *s)
{
    free(s->text.data);
    free(s->kernel.data);
    flx_buffer_free(&s->bytes);
    flx_buffer_free(&s->mlir);
    flx_buffer_free(&s->mlirbc);
    flx_buffer_free(&s->onnx);
    flx_graph_release(s->g);
    flx_context_free(s->ctx);
}

/* ---- Ways ---- */

static flx_code failure(subject *s, bool made)
{
    return made ? FLX_OK : (flx_code)s->err.code;
}

static flx_code read_module(subject *s, flx_module *m)
{
    flx_module_free(m);
    return failure(s, m);
}

#define READ(name, call)             \
    static flx_code name(subject *s) \
    {                                \
        return read_module(s, call); \
    }
READ(read_text, flx_parse(s->ctx, s->text.data, s->text.size, "t", &s->err))
READ(read_bytes, flx_decode(s->ctx, s->bytes.data, s->bytes.size, "b", &s->err))
READ(read_mlir, flx_import_stablehlo(s->ctx, s->mlir.data, s->mlir.size, "m", &s->err))
READ(read_mlirbc, flx_import_stablehlo(s->ctx, s->mlirbc.data, s->mlirbc.size, "m", &s->err))

static flx_code read_onnx(subject *s)
{
    flx_onnx *m = flx_onnx_decode(s->ctx, s->onnx.data, s->onnx.size, "o", NULL, &s->err);
    flx_onnx_free(m);
    return failure(s, m);
}

static const char *const wrt[] = {"x"};
static const flx_vmap_axis batched[] = {{"x", 0}};
static const flx_sharding cut[] = {{"x", "data"}};
static const flx_train_options regions = {.struct_size = sizeof regions, .recompute = 8};
static const flx_quantise_options rounding = {.struct_size = sizeof rounding, .flags = FLX_QUANTISE_TRAIN};
static const flx_rewrite_options groups = {.struct_size = sizeof groups, .flags = FLX_REWRITE_REGIONS};

static int choose_all(void *user, const char *name, flx_tensor *value)
{
    (void)user, (void)name, (void)value;
    return 1;
}

static flx_graph *extracted(subject *s)
{
    flx_val v = flx_graph_output(s->g, 0);
    return flx_extract(s->g, &v, 1, &s->err);
}

#define TRANSFORM(name, call)        \
    static flx_code name(subject *s) \
    {                                \
        flx_graph *made = call;      \
        flx_graph_release(made);     \
        return failure(s, made);     \
    }
TRANSFORM(take_grad, flx_grad(s->g, wrt, 1, NULL, &s->err))
TRANSFORM(take_jvp, flx_jvp(s->g, wrt, 1, &s->err))
TRANSFORM(take_hvp, flx_hvp(s->g, wrt, 1, NULL, &s->err))
TRANSFORM(take_vmap, flx_vmap(s->g, batched, 1, NULL, 0, 4, &s->err))
TRANSFORM(take_jacobian, flx_jacobian(s->g, wrt, 1, NULL, &s->err))
TRANSFORM(take_hessian, flx_hessian(s->g, wrt, 1, NULL, &s->err))
TRANSFORM(take_taylor, flx_taylor(s->g, wrt, 1, 3, &s->err))
TRANSFORM(take_nth, flx_nth_grad(s->g, "x", 2, &s->err))
TRANSFORM(take_force, flx_force_energy_loss(s->g, "x", NULL, &s->err))
TRANSFORM(take_simplified, flx_simplify(s->g, &s->err))
TRANSFORM(take_lowered, flx_lower(s->g, FLX_POLICY_FOR_AUTODIFF, &s->err))
TRANSFORM(take_specialised, flx_specialise(s->g, NULL, 0, &s->err))
TRANSFORM(take_widened, flx_widen(s->g, &s->err))
TRANSFORM(take_mixed, flx_mixed_precision(s->g, FLX_BF16, &s->err))
TRANSFORM(take_rewritten, flx_rewrite_patterns(s->g, &groups, NULL, &s->err))
TRANSFORM(take_extracted, extracted(s))
TRANSFORM(take_params, flx_constants_to_params(s->g, choose_all, NULL, &s->err))
TRANSFORM(take_part, flx_partition(s->g, "data=2", cut, 1, NULL, &s->err))
TRANSFORM(take_training, flx_training_graph(s->g, NULL, &s->err))
TRANSFORM(take_regions, flx_training_graph(s->g, &regions, &s->err))
TRANSFORM(take_quantised, flx_quantise(s->g, &rounding, &s->err))

#define WRITE(name, call)            \
    static flx_code name(subject *s) \
    {                                \
        flx_buffer out = {0};        \
        flx_code code = call;        \
        flx_buffer_free(&out);       \
        return code;                 \
    }
WRITE(write_text, flx_graph_print(s->g, &out, &s->err))
WRITE(write_bytes, flx_graph_encode(s->g, &out, &s->err))
WRITE(write_mlir, flx_export_stablehlo(s->g, &out, &s->err))
WRITE(write_mlirbc, flx_export_stablehlo_bytecode(s->g, &out, &s->err))
WRITE(write_onnx, flx_onnx_encode(s->g, NULL, 0, &out, &s->err))
WRITE(write_c, flx_build_c(s->g, NULL, &out, NULL, NULL, &s->err))
WRITE(write_steps, flx_show_stage(s->g, FLX_STAGE_LIR, NULL, &out, &s->err))

static flx_code draw(subject *s)
{
    flx_buffer out = {0};
    const flx_report_graph what = {.struct_size = sizeof what, .graph = s->g};
    flx_code code = flx_report_draw(&what, FLX_DRAWING_SVG, &out, &s->err);
    flx_buffer_free(&out);
    return code;
}

static flx_code compile_with(subject *s, uint32_t flags)
{
    const flx_compile_options o = {
        .struct_size = sizeof o, .flags = flags, .threads = 1, .optimisation = 1, .cache = FLX_CACHE_OFF};
    flx_exec *e = flx_compile(s->g, &o, &s->err);
    flx_exec_free(e);
    return failure(s, e);
}

static flx_code compile(subject *s)
{
    return compile_with(s, 0);
}

static flx_code compile_ungrouped(subject *s)
{
    return compile_with(s, FLX_COMPILE_UNGROUPED);
}

static flx_code interpret(subject *s)
{
    return compile_with(s, FLX_COMPILE_INTERPRET);
}

static flx_code compile_in_budget(subject *s)
{
    const flx_compile_options o = {
        .struct_size = sizeof o, .flags = FLX_COMPILE_INTERPRET, .threads = 1, .memory_budget = 1 << 20};
    flx_exec *e = flx_compile(s->g, &o, &s->err);
    flx_exec_free(e);
    return failure(s, e);
}

static flx_code read_kernel(subject *s)
{
    flx_kernel *k = flx_kernel_parse(s->ctx, s->kernel.data, s->kernel.size, "k", &s->err);
    flx_kernel_release(k);
    return failure(s, k);
}

static const struct {
    const char *name;
    flx_code (*go)(subject *s);
} ways[] = {
    {"flx_parse", read_text},
    {"flx_decode", read_bytes},
    {"flx_import_stablehlo, text", read_mlir},
    {"flx_import_stablehlo, bytecode", read_mlirbc},
    {"flx_onnx_decode", read_onnx},
    {"flx_kernel_parse", read_kernel},
    {"flx_grad", take_grad},
    {"flx_jvp", take_jvp},
    {"flx_hvp", take_hvp},
    {"flx_vmap", take_vmap},
    {"flx_jacobian", take_jacobian},
    {"flx_hessian", take_hessian},
    {"flx_taylor", take_taylor},
    {"flx_nth_grad", take_nth},
    {"flx_force_energy_loss", take_force},
    {"flx_simplify", take_simplified},
    {"flx_lower", take_lowered},
    {"flx_specialise", take_specialised},
    {"flx_widen", take_widened},
    {"flx_mixed_precision", take_mixed},
    {"flx_rewrite_patterns", take_rewritten},
    {"flx_extract", take_extracted},
    {"flx_constants_to_params", take_params},
    {"flx_partition", take_part},
    {"flx_training_graph", take_training},
    {"flx_training_graph, regions", take_regions},
    {"flx_quantise", take_quantised},
    {"flx_graph_print", write_text},
    {"flx_graph_encode", write_bytes},
    {"flx_export_stablehlo", write_mlir},
    {"flx_export_stablehlo_bytecode", write_mlirbc},
    {"flx_onnx_encode", write_onnx},
    {"flx_build_c", write_c},
    {"flx_show_stage", write_steps},
    {"flx_report_draw", draw},
    {"flx_compile", compile},
    {"flx_compile, ungrouped", compile_ungrouped},
    {"flx_compile, interpreted", interpret},
    {"flx_compile, in a budget", compile_in_budget},
};

/* ---- Stopping one ---- */

static int64_t clock_ms(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

typedef struct {
    flx_stop *stop;
    int delay_ms;
    clockid_t clock; /* of the thread that works */
    atomic_llong busy_ms;
    atomic_int ended;
} stopper;

/* After so much time of the processor that the work took, so that the phase in which it is met is the same on a busy
   machine. */
static void *request_soon(void *user)
{
    stopper *s = user;
    int64_t begin = clock_ms(s->clock);
    while (!atomic_load(&s->ended) && clock_ms(s->clock) - begin < s->delay_ms)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    flx_stop_request(s->stop);
    atomic_store(&s->busy_ms,
                 clock_ms(s->clock)); /* after it: on a busy machine this thread may be held up before it */
    return NULL;
}

static bool stop_way(subject *s, size_t way, int delay_ms)
{
    pthread_t thread;
    stopper p = {.stop = flx_stop_new(s->ctx, 0, &s->err), .delay_ms = delay_ms};
    CHECK(p.stop && pthread_getcpuclockid(pthread_self(), &p.clock) == 0);
    flx_stop_use(p.stop);
    int64_t begin = clock_ms(p.clock);
    CHECK(pthread_create(&thread, NULL, request_soon, &p) == 0);
    flx_code code = ways[way].go(s);
    int64_t end = clock_ms(p.clock);
    atomic_store(&p.ended, 1);
    flx_stop_use(NULL);
    pthread_join(thread, NULL);
    int64_t busy = end - (int64_t)atomic_load(&p.busy_ms);
    bool ok = busy < BUSY_MS && (code == FLX_E_CANCELLED || code == FLX_OK);
    if (!ok || effort(EFFORT_report))
        printf("  %-32s %s after %lld ms, %lld ms after it was stopped at %d ms\n", ways[way].name, flx_code_name(code),
               (long long)(end - begin), (long long)(busy < 0 ? 0 : busy), delay_ms);
    flx_stop_free(p.stop);
    return ok;
}

/* What else the machine does can only add to the time: the best of a few attempts counts. */
static bool way_stops_in_time(subject *s, size_t way, int delay_ms)
{
    enum { ATTEMPTS = 3 };
    for (int k = 0; k < ATTEMPTS; k++)
        if (stop_way(s, way, delay_ms))
            return true;
    return false;
}

TEST(stop_work_on_large_graphs)
{
    static const int delays_ms[] = {2, 10, 40, 120, 400, 1000}; /* the latter for the larger graph */
    enum { DELAYS = sizeof delays_ms / sizeof *delays_ms };
    subject s;
    int failures = 0;
    begin(&s);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        for (size_t d = 0; d < DELAYS; d++)
            if (effort(EFFORT_stop_whole) || d == i % 3)
                failures += !way_stops_in_time(&s, i, delays_ms[d]);
    end(&s);
    CHECK_MSG(failures == 0, "%d ways were not stopped in time", failures);
}
