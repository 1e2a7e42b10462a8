/* SPDX-License-Identifier: Apache-2.0 */
/* runtime_run.c: running a graph: feeds, symbols, devices, printing, failures, several threads. */
#include "emit/opencl_here.h"
#include "graph/graph_text.h"

#include <pthread.h>
#include <stdio.h>

/* One graph, its context and the tensors made for it. */
typedef struct {
    flx_context *ctx;
    flx_graph *g;
    flx_tensor *made[16];
    int count;
    flx_tensor *out[4];
    flx_error err;
} bench;

static bench bench_begin(const char *text)
{
    bench b = {.ctx = flx_context_new(NULL)};
    b.g = graph_of(b.ctx, text);
    return b;
}

static flx_tensor *tensor(bench *b, flx_dtype dtype, int32_t rank, const flx_dim *dims)
{
    flx_type t = flx_type_make(dtype, rank, dims);
    flx_tensor *x = flx_tensor_new(b->ctx, &t, NULL, &b->err);
    CHECK_MSG(x != NULL, "%s", b->err.message);
    for (int64_t i = 0; dtype == FLX_F32 && i < flx_tensor_count(x); i++)
        ((float *)flx_tensor_data(x))[i] = (float)(i + 1);
    return b->made[b->count++] = x;
}

#define VECTOR(b, n) tensor(b, FLX_F32, 1, (flx_dim[]){n})

static flx_code run(bench *b, const flx_feed *feeds, size_t n, const flx_run_options *options)
{
    for (int i = 0; i < 4; i++) {
        flx_tensor_release(b->out[i]);
        b->out[i] = NULL;
    }
    memset(&b->err, 0, sizeof b->err);
    flx_code code = flx_run(b->g, options, feeds, n, b->out, &b->err);
    for (int i = 0; i < 4 && code != FLX_OK; i++)
        CHECK(b->out[i] == NULL);
    CHECK(code == FLX_OK || (b->err.code == (int32_t)code && b->err.message[0]));
    return code;
}

static void bench_end(bench *b)
{
    for (int i = 0; i < 4; i++)
        flx_tensor_release(b->out[i]);
    for (int i = 0; i < b->count; i++)
        flx_tensor_release(b->made[i]);
    flx_graph_release(b->g);
    flx_context_free(b->ctx);
}

/* ---- Feeds ---- */

TEST(run_feeds_bind_by_name_in_any_order)
{
    bench b = bench_begin("graph f(x: f32[3], param w: f32[3]) { return sub(x, w), x }");
    flx_tensor *x = VECTOR(&b, 3);
    flx_tensor *w = VECTOR(&b, 3);
    ((float *)flx_tensor_data(w))[2] = 10.0f;
    CHECK_OK(run(&b, (flx_feed[]){{"w", w}, {"x", x}}, 2, NULL), &b.err);
    CHECK(flx_tensor_get(b.out[0], 0) == 0.0 && flx_tensor_get(b.out[0], 2) == -7.0);
    CHECK(flx_tensor_get(b.out[1], 2) == 3.0);
    bench_end(&b);
}

TEST(run_wrong_feeds_are_errors)
{
    bench b = bench_begin("graph f(x: f32[3], i: i32[]) { return add(x, 1), i }");
    flx_tensor *x = VECTOR(&b, 3);
    flx_tensor *i = tensor(&b, FLX_I32, 0, NULL);
    flx_tensor *wide = VECTOR(&b, 4);
    flx_tensor *deep = tensor(&b, FLX_F32, 2, (flx_dim[]){3, 1});
    CHECK_EQ_I64(run(&b, NULL, 0, NULL), FLX_E_MISSING_INPUT);
    CHECK_EQ_STR(b.err.message, "2 inputs have no value: x, i");
    CHECK_EQ_STR(b.err.where, "f");
    flx_exec *e = flx_compile(b.g, NULL, &b.err);
    flx_tensor *out[2];
    flx_error err = {0};
    CHECK_MSG(e, "%s", b.err.message);
    CHECK_EQ_I64(flx_exec_run(e, NULL, NULL, 0, out, &err), FLX_E_MISSING_INPUT);
    CHECK_EQ_STR(err.where, "f");
    flx_exec_free(e);
    CHECK_EQ_I64(run(&b, (flx_feed[]){{"x", x}}, 1, NULL), FLX_E_MISSING_INPUT);
    CHECK_EQ_I64(run(&b, (flx_feed[]){{"x", x}, {"i", i}, {"y", x}}, 3, NULL), FLX_E_NAME);
    CHECK_EQ_I64(run(&b, (flx_feed[]){{"x", x}, {"i", i}, {"x", x}}, 3, NULL), FLX_E_DUP_NAME);
    CHECK_EQ_I64(run(&b, (flx_feed[]){{"x", x}, {"i", x}}, 2, NULL), FLX_E_DTYPE);
    CHECK_EQ_I64(run(&b, (flx_feed[]){{"x", wide}, {"i", i}}, 2, NULL), FLX_E_SHAPE);
    CHECK_EQ_I64(run(&b, (flx_feed[]){{"x", deep}, {"i", i}}, 2, NULL), FLX_E_SHAPE);
    CHECK_EQ_I64(run(&b, (flx_feed[]){{"x", NULL}, {"i", i}}, 2, NULL), FLX_E_USAGE);
    CHECK_EQ_I64(run(&b, (flx_feed[]){{NULL, x}, {"i", i}}, 2, NULL), FLX_E_USAGE);
    CHECK_EQ_I64(run(&b, NULL, 2, NULL), FLX_E_USAGE);
    flx_context *other = flx_context_new(NULL);
    flx_type t = {.dtype = FLX_I32};
    flx_tensor *foreign = flx_tensor_new(other, &t, NULL, NULL);
    CHECK_EQ_I64(run(&b, (flx_feed[]){{"x", x}, {"i", foreign}}, 2, NULL), FLX_E_USAGE);
    flx_tensor_release(foreign);
    flx_context_free(other);
    CHECK_OK(run(&b, (flx_feed[]){{"x", x}, {"i", i}}, 2, NULL), &b.err); /* and it still works */
    CHECK_EQ_I64(flx_run(b.g, ON_REF, (flx_feed[]){{"x", x}, {"i", i}}, 2, NULL, &b.err), FLX_E_USAGE);
    bench_end(&b);
}

TEST(run_many_inputs_take_linear_time)
{
    enum { COUNT = 20000 };
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_type t = {.dtype = FLX_F32};
    flx_graph *g = flx_graph_new(ctx, "f");
    static flx_feed feeds[COUNT];
    static char names[COUNT][8];
    flx_tensor *x = flx_tensor_new(ctx, &t, (float[]){1}, &err);
    for (int i = 0; i < COUNT; i++) {
        snprintf(names[i], sizeof names[i], "x%d", i);
        flx_input(g, names[i], &t);
        feeds[i] = (flx_feed){names[i], x};
    }
    CHECK_OK(flx_run(g, ON_REF, feeds, COUNT, NULL, &err), &err);
    flx_tensor_release(x);
    flx_graph_release(g);
    flx_context_free(ctx);
}

/* ---- Symbols ---- */

TEST(run_symbols_take_their_extents_from_feeds)
{
    bench b = bench_begin("graph f(x: f32[2*N + 1], y: f32[N]) { return reduce_sum(x), iota(f32[N*N]) }");
    CHECK_OK(run(&b, (flx_feed[]){{"x", VECTOR(&b, 7)}, {"y", VECTOR(&b, 3)}}, 2, NULL), &b.err);
    CHECK(flx_tensor_get(b.out[0], 0) == 28.0 && flx_tensor_count(b.out[1]) == 9);
    CHECK_EQ_I64(run(&b, (flx_feed[]){{"x", VECTOR(&b, 7)}, {"y", VECTOR(&b, 4)}}, 2, NULL), FLX_E_SHAPE);
    CHECK(strstr(b.err.message, "'y' is declared f32[N], but the value is f32[4]"));
    CHECK_EQ_I64(run(&b, (flx_feed[]){{"x", VECTOR(&b, 6)}, {"y", VECTOR(&b, 3)}}, 2, NULL), FLX_E_SHAPE);
    CHECK(strstr(b.err.message, "'x' is declared f32[2*N + 1], but the value is f32[6]"));
    CHECK_EQ_I64(run(&b, (flx_feed[]){{"x", tensor(&b, FLX_F32, 0, NULL)}, {"y", VECTOR(&b, 3)}}, 2, NULL),
                 FLX_E_SHAPE);
    CHECK_EQ_I64(run(&b, (flx_feed[]){{"x", tensor(&b, FLX_I32, 1, (flx_dim[]){7})}, {"y", VECTOR(&b, 3)}}, 2, NULL),
                 FLX_E_DTYPE);
    bench_end(&b);
}

TEST(run_symbols_that_no_feed_shows_come_from_the_options)
{
    bench b = bench_begin("graph f(x: f32[N]) { return iota(f32[M]), x }");
    flx_feed feed = {"x", VECTOR(&b, 3)};
    CHECK_EQ_I64(run(&b, &feed, 1, NULL), FLX_E_UNBOUND_DIM);
    CHECK(strstr(b.err.message, "M") && b.err.hint[0]);
    flx_dim_binding dims[] = {{"M", 5}, {"N", 3}};
    CHECK_OK(run(&b, &feed, 1, &(flx_run_options){.dims = dims, .num_dims = 1}), &b.err);
    CHECK_EQ_I64(flx_tensor_count(b.out[0]), 5);
    CHECK_OK(run(&b, &feed, 1, &(flx_run_options){.dims = dims, .num_dims = 2}), &b.err);
    dims[1].extent = 4;
    CHECK_EQ_I64(run(&b, &feed, 1, &(flx_run_options){.dims = dims, .num_dims = 2}), FLX_E_SHAPE);
    dims[1] = (flx_dim_binding){"M", 6};
    CHECK_EQ_I64(run(&b, &feed, 1, &(flx_run_options){.dims = dims, .num_dims = 2}), FLX_E_DUP_NAME);
    dims[1] = (flx_dim_binding){"M", -6};
    CHECK_EQ_I64(run(&b, &feed, 1, &(flx_run_options){.dims = dims, .num_dims = 2}), FLX_E_USAGE);
    dims[1] = (flx_dim_binding){NULL, 6};
    CHECK_EQ_I64(run(&b, &feed, 1, &(flx_run_options){.dims = dims, .num_dims = 2}), FLX_E_USAGE);
    CHECK_EQ_I64(run(&b, &feed, 1, &(flx_run_options){.num_dims = 2}), FLX_E_USAGE);
    bench_end(&b);
}

/* ---- Options ---- */

TEST(run_devices_are_told_apart)
{
    bench b = bench_begin("graph f() { return 1 }");
    CHECK_OK(run(&b, NULL, 0, &(flx_run_options){.device = "ref"}), &b.err);
    CHECK_EQ_I64(run(&b, NULL, 0, &(flx_run_options){.device = "no such device"}), FLX_E_NAME);
    CHECK_EQ_I64(run(&b, NULL, 0, &(flx_run_options){.flags = 1U << 31}), FLX_E_USAGE);
    const char *name = NULL;
    char detail[100] = "";
    CHECK_OK(flx_device(0, &name, detail, sizeof detail), NULL);
    CHECK_EQ_STR(name, "ref");
    CHECK(detail[0] != 0);
    CHECK_OK(flx_device(0, NULL, NULL, 0), NULL);
    CHECK_EQ_I64(flx_device(1000, &name, detail, sizeof detail), FLX_E_NAME);
    for (size_t i = 0;; i++) {
        flx_code code = flx_device(i, &name, NULL, 0);
        if (code == FLX_E_NAME)
            break;
        if (code != FLX_OK || device_here(name))
            CHECK_EQ_I64(run(&b, NULL, 0, &(flx_run_options){.device = name}), code);
    }
    bench_end(&b);
}

typedef struct {
    char text[200];
} listener;

static void listen(void *user, const char *message, const flx_tensor *value)
{
    listener *l = user;
    size_t n = strlen(l->text);
    snprintf(l->text + n, sizeof l->text - n, "%s=%g ", message, flx_tensor_get(value, 0));
}

TEST(run_print_ops_call_back_in_order_also_from_bodies)
{
    bench b =
        bench_begin("graph loud(c: f32[], x: f32[]) { s = print(add(c, x), message=\"step\") return s }\n"
                    "graph f(x: f32[3]) {\n  a = print(x, message=\"first\")\n  _ = print(x, message=\"unused\")\n"
                    "  z = const(f32[], 0)\n  s = scan(z, a, body=@loud)\n  return s\n}\n");
    listener l = {""};
    flx_feed feed = {"x", VECTOR(&b, 3)};
    CHECK_OK(run(&b, &feed, 1, &(flx_run_options){.print = listen, .print_user = &l}), &b.err);
    CHECK_EQ_STR(l.text, "first=1 unused=1 step=1 step=3 step=6 ");
    CHECK_OK(run(&b, &feed, 1, NULL), &b.err); /* silent */
    bench_end(&b);
}

TEST(run_failures_name_the_node)
{
    bench b = bench_begin("graph inner(x: f32[2], i: i64[]) { bad = gather(x, i, axis=0) return bad }\n"
                          "graph f(x: f32[2]) { k = const(i64[], 7)\n"
                          "  y = custom_fn(x, k, fwd_body=@inner) return y }");
    flx_feed feed = {"x", VECTOR(&b, 2)};
    CHECK_EQ_I64(run(&b, &feed, 1, ON_REF), FLX_E_INDEX);
    CHECK_EQ_STR(b.err.where, "inner/bad");
    bench_end(&b);
    b = bench_begin("graph f(x: f32[2]) { y = check(x, false, message=\"oh no\") return y }");
    CHECK_EQ_I64(run(&b, &(flx_feed){"x", VECTOR(&b, 2)}, 1, NULL), FLX_E_CHECK);
    CHECK(strstr(b.err.message, "oh no") && strcmp(b.err.where, "f/y") == 0);
    bench_end(&b);
}

TEST(run_limit_on_memory_is_kept)
{
    flx_context *ctx = flx_context_new(&(flx_context_options){.memory_limit = 4096});
    flx_error err = {0};
    flx_tensor *out = NULL;
    flx_graph *g = graph_of(ctx, "graph f() { return reduce_sum(full(f32[1000000, 1000000], 1)) }");
    CHECK_EQ_I64(flx_run(g, ON_REF, NULL, 0, &out, &err), FLX_E_SIZE);
    CHECK(out == NULL);
    flx_graph_release(g);
    flx_context_free(ctx);
}

TEST(run_graph_without_outputs_runs_its_effects)
{
    bench b = bench_begin("graph f(x: f32[1]) { _ = print(x, message=\"x\") return }");
    listener l = {""};
    flx_run_options options = {.print = listen, .print_user = &l};
    CHECK_OK(flx_run(b.g, &options, &(flx_feed){"x", VECTOR(&b, 1)}, 1, NULL, &b.err), &b.err);
    CHECK_EQ_STR(l.text, "x=1 ");
    bench_end(&b);
}

/* ---- Threads ---- */

enum { THREADS = 4, REPEATS = 25 };

typedef struct {
    const flx_graph *g;
    const flx_feed *feeds;
    size_t num_feeds;
    double sum;
    flx_code code;
    flx_error err;
} job;

static void *work(void *user)
{
    job *j = user;
    for (int i = 0; i < REPEATS && j->code == FLX_OK; i++) {
        flx_tensor *out[2] = {NULL, NULL};
        j->code = flx_run(j->g, ON_REF, j->feeds, j->num_feeds, out, &j->err);
        if (j->code == FLX_OK)
            j->sum = flx_tensor_get(out[0], 0) + flx_tensor_get(out[1], 0);
        flx_tensor_release(out[0]);
        flx_tensor_release(out[1]);
    }
    return NULL;
}

TEST(run_one_graph_from_several_threads)
{
    bench b = bench_begin("graph step(c: f32[N], x: f32[N]) { n = add(c, mul(x, 0.5)) return n, reduce_sum(n) }\n"
                          "graph f(x: f32[T, N], c: f32[N]) {\n  h, ys = scan(c, x, body=@step)\n"
                          "  return reduce_sum(h), reduce_mean(ys)\n}\n");
    flx_feed feeds[] = {{"x", tensor(&b, FLX_F32, 2, (flx_dim[]){5, 4})}, {"c", VECTOR(&b, 4)}};
    pthread_t threads[THREADS];
    job jobs[THREADS] = {{0}};
    job alone = {.g = b.g, .feeds = feeds, .num_feeds = 2};
    work(&alone);
    CHECK_OK(alone.code, &alone.err);
    for (int i = 0; i < THREADS; i++) {
        jobs[i] = (job){.g = b.g, .feeds = feeds, .num_feeds = 2};
        CHECK(pthread_create(&threads[i], NULL, work, &jobs[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    for (int i = 0; i < THREADS; i++) {
        CHECK_OK(jobs[i].code, &jobs[i].err);
        CHECK(jobs[i].sum == alone.sum);
    }
    bench_end(&b);
}

static void *build_and_print(void *user)
{
    job *j = user;
    flx_context *ctx = flx_graph_context(j->g);
    for (int i = 0; i < REPEATS; i++) {
        char text[200];
        snprintf(text, sizeof text, "graph f(x: f32[N, S%d]) { return reshape(x, shape=[N*S%d]), exp(x) }", i % 7,
                 i % 7);
        flx_module *m = flx_parse(ctx, text, strlen(text), "t", &j->err);
        flx_buffer out = {0};
        if (!m || flx_graph_print(flx_module_main(m), &out, &j->err) != FLX_OK || flx_graph_hash(j->g) == 0)
            j->code = FLX_E_INTERNAL;
        flx_buffer_free(&out);
        flx_module_free(m);
    }
    return NULL;
}

TEST(run_graphs_of_one_context_are_built_by_several_threads)
{
    bench b = bench_begin("graph f(x: f32[N]) { return exp(x) }");
    pthread_t threads[THREADS];
    job jobs[THREADS] = {{0}};
    for (int i = 0; i < THREADS; i++) {
        jobs[i] = (job){.g = b.g};
        CHECK(pthread_create(&threads[i], NULL, build_and_print, &jobs[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
        CHECK_OK(jobs[i].code, &jobs[i].err);
    }
    bench_end(&b);
}
