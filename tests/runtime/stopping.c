/* SPDX-License-Identifier: Apache-2.0 */
/* stopping.c: long work of every kind ends soon after it is asked to, on ref and cpu. Each work of the table takes
   longer than the last delay if nothing stops it; with the effort stop_whole=1 that limits of time end it is checked
   too. */
#include "session_case.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

enum { BY_REF = 1, BY_CPU = 2, BY_BOTH = 3 };

typedef struct {
    const char *name, *text;
    int devices;
} work;

static const work works[] = {
    {"matmul", "graph f(a: f32[8192, 8192], b: f32[8192, 8192]) { return matmul(a, b) }", BY_BOTH},
    {"matmul in f64", "graph f(a: f64[6144, 6144], b: f64[6144, 6144]) { return matmul(a, b) }", BY_CPU},
    {"matmul of a batch", "graph f(a: f32[400, 1024, 1024], b: f32[1024, 2048]) { return matmul(a, b) }", BY_CPU},
    {"long dot",
     "graph step(s: f32[1, 1], x: f32[1, 40000000], y: f32[40000000, 1]) { return add(s, matmul(x, mul(y, s))) }\n"
     "graph f(x: f32[1, 40000000], y: f32[40000000, 1])\n"
     "{ return scan(full(f32[1, 1], 0), x, y, body=@step, num_bcast=2, length=1000) }",
     BY_BOTH},
    {"pointwise", "graph f(x: f64[20000, 1], y: f64[1, 40000]) { return erf(tanh(sin(mul(sin(x), y)))) }", BY_CPU},
    {"pointwise by definition", "graph f(x: f64[100000, 1], y: f64[1, 2000]) { return sin(add(x, y)) }", BY_REF},
    {"reduction of rows",
     "graph step(s: f64[20], x: f64[20, 2000000]) { return add(s, reduce_sum(exp(sin(mul(x, reshape(s, shape=[20, "
     "1])))), axes=[1])) }\n"
     "graph f(x: f64[20, 2000000]) { return scan(full(f64[20], 0), x, body=@step, num_bcast=1, length=1000) }",
     BY_CPU},
    {"reduction of all",
     "graph step(s: f64[], x: f64[40000000]) { return add(s, reduce_sum(exp(sin(mul(x, s))), axes=[0])) }\n"
     "graph f(x: f64[40000000]) { return scan(full(f64[], 0), x, body=@step, num_bcast=1, length=1000) }",
     BY_CPU},
    {"reduction by definition", "graph f(x: f32[4, 60000000]) { return reduce_sum(x, axes=[0, 1]) }", BY_REF},
    {"sort", "graph f(x: f32[40000000]) { return sort(x) }", BY_BOTH},
    {"sort by a graph",
     "graph before(a: f32[], b: f32[]) { return lt(a, b) }\n"
     "graph f(x: f32[8000000]) { return sort(x, compare=@before) }",
     BY_BOTH},
    {"topk", "graph f(x: f32[8, 20000000]) { return topk(x, k=1000) }", BY_BOTH},
    {"cumsum",
     "graph step(x: f64[40000000]) { return cumsum(x) }\n"
     "graph f(x: f64[40000000]) { return scan(x, body=@step, length=1000) }",
     BY_BOTH},
    {"fft",
     "graph step(x: c128[4194304]) { return fft(x, norm=ortho) }\n"
     "graph f(x: c128[4194304]) { return scan(x, body=@step, length=200) }",
     BY_BOTH},
    {"fft of a prime",
     "graph step(x: c128[4000037]) { return fft(x, norm=ortho) }\n"
     "graph f(x: c128[4000037]) { return scan(x, body=@step, length=100) }",
     BY_BOTH},
    {"conv", "graph f(x: f32[16, 128, 256, 256], w: f32[128, 128, 7, 7]) { return conv(x, w) }", BY_BOTH},
    {"gather",
     "graph step(x: f32[2000000, 32], i: i32[2000000]) { return gather(x, i, axis=0) }\n"
     "graph f(x: f32[2000000, 32], i: i32[2000000])\n"
     "{ return scan(x, i, body=@step, num_bcast=1, length=1000) }",
     BY_BOTH},
    {"scatter_add",
     "graph step(x: f32[2000000, 32], i: i32[2000000])\n"
     "{ return scatter_add(x, i, R=2000000) }\n"
     "graph f(x: f32[2000000, 32], i: i32[2000000])\n"
     "{ return scan(x, i, body=@step, num_bcast=1, length=1000) }",
     BY_BOTH},
    {"transpose",
     "graph step(x: f32[8192, 8192]) { return transpose(x, perm=[1, 0]) }\n"
     "graph f(x: f32[8192, 8192]) { return scan(x, body=@step, length=1000) }",
     BY_BOTH},
    {"qr", "graph f(x: f64[2000, 2000]) { q, r = qr(x)\n return q }", BY_BOTH},
    {"eigh", "graph f(x: f64[1200, 1200]) { w, v = eigh(x)\n return v }", BY_BOTH},
    {"eig", "graph f(x: f64[800, 800]) { return eig(x) }", BY_BOTH},
    {"svd", "graph f(x: f64[1000, 1000]) { u, s, v = svd(x)\n return s }", BY_BOTH},
    {"lu", "graph f(x: f64[10000, 10000]) { y, p, q = lu(x)\n return y }", BY_BOTH},
    {"solve", "graph f(x: f64[8000, 8000], y: f64[8000, 8000]) { return solve(x, y) }", BY_BOTH},
    {"solve of a batch", "graph f(x: f64[20, 2000, 2000], y: f64[20, 2000, 2000]) { return solve(x, y) }", BY_BOTH},
    {"cholesky",
     "graph f(x: f64[10000, 10000]) {\n"
     "  i = iota(i32[10000, 10000], axis=0)\n  j = iota(i32[10000, 10000], axis=1)\n"
     "  return cholesky(add(x, where(eq(i, j), full(f64[], 100000), full(f64[], 0)))) }",
     BY_CPU},
    {"expm", "graph f(x: f64[1500, 1500]) { return expm(x) }", BY_BOTH},
    {"det", "graph f(x: f64[6000, 6000]) { return det(x) }", BY_BOTH},
    {"random normal", "graph f(k: u32[2]) { return reduce_sum(rng_normal(k, shape=[400000000], dtype=f32), axes=[0]) }",
     BY_BOTH},
    {"scan of small steps",
     "graph step(x: f32[4]) { return mul(add(x, 1), 0.5) }\n"
     "graph f(x: f32[4]) { return scan(x, body=@step, length=100000000000) }",
     BY_BOTH},
    {"while",
     "graph grow(i: i64[], x: f32[4]) { return add(i, 1), mul(x, 0.5) }\n"
     "graph more(i: i64[], x: f32[4]) { return ge(i, 0) }\n"
     "graph f(x: f32[4]) { n, y = while(full(i64[], 0), x, cond=@more, body=@grow)\n return y }",
     BY_BOTH},
    {"kernel with a long loop",
     "kernel spin(workgroup = [1, 1, 1]) {\n  buffer x: f32[4] read;\n  buffer out: f32[4] output;\n"
     "  let i = invocation_id(0);\n  let s = x[i];\n"
     "  for (a in 0 .. 4000000000) {\n    s = s * 0.999 + x[i];\n  }\n  out[i] = s;\n}\n"
     "graph f(x: f32[4]) { return kernel_call(x, kernel=@spin, grid=[4, 1, 1], outputs=[f32[4]]) }",
     BY_BOTH},
    {"kernel with loops in loops",
     "kernel spin(workgroup = [64, 1, 1]) {\n  buffer x: f32[65536] read;\n  buffer out: f32[65536] output;\n"
     "  let i = invocation_id(0);\n  let s = x[i];\n"
     "  for (a in 0 .. buf_len(x)) {\n    for (b in 0 .. 100) {\n      s = s * 0.999 + x[a] * x[b];\n    }\n  }\n"
     "  out[i] = s;\n}\n"
     "graph f(x: f32[65536]) { return kernel_call(x, kernel=@spin, grid=[1024, 1, 1], outputs=[f32[65536]]) }",
     BY_BOTH},
    {"kernel with barriers",
     "kernel spin(workgroup = [64, 1, 1]) {\n  buffer x: f32[64] read;\n  buffer out: f32[64] output;\n"
     "  buffer shared: f32[64] workgroup;\n  let i = invocation_id(0);\n  let s = x[i];\n"
     "  for (a in 0 .. 400000000) {\n    shared[i] = s;\n    barrier();\n    s = s * 0.5 + shared[(i + 1) % 64];\n"
     "    barrier();\n  }\n  out[i] = s;\n}\n"
     "graph f(x: f32[64]) { return kernel_call(x, kernel=@spin, grid=[1, 1, 1], outputs=[f32[64]]) }",
     BY_BOTH},
    {"kernel with loops of different lengths",
     "kernel spin(workgroup = [64, 1, 1]) {\n  buffer x: f32[64] read;\n  buffer out: f32[64] output;\n"
     "  let i = invocation_id(0);\n  let s = x[i];\n"
     "  for (a in 0 .. 3000000000 + i * 1000) {\n    s = s * 0.999 + x[a % 64];\n  }\n  out[i] = s;\n}\n"
     "graph f(x: f32[64]) { return kernel_call(x, kernel=@spin, grid=[1, 1, 1], outputs=[f32[64]]) }",
     BY_BOTH},
    {"kernel with a function",
     "kernel spin(workgroup = [64, 1, 1]) {\n  buffer x: f32[6400] read;\n  buffer out: f32[6400] output;\n"
     "  fn far(a: f32) -> f32 {\n    let s = a;\n    for (b in 0 .. 100000000) {\n      s = s * 0.999 + a;\n    }\n"
     "    return s;\n  }\n"
     "  let i = invocation_id(0);\n  out[i] = far(x[i]);\n}\n"
     "graph f(x: f32[6400]) { return kernel_call(x, kernel=@spin, grid=[100, 1, 1], outputs=[f32[6400]]) }",
     BY_BOTH},
    {"fma", "graph f(x: f32[20000, 1], y: f32[1, 20000]) { return fma(x, y, x) }", BY_REF},
    {"nextafter", "graph f(x: f32[20000, 1], y: f32[1, 20000]) { return nextafter(x, y) }", BY_REF},
    {"add_n", "graph f(x: f32[10000, 1], y: f32[1, 10000]) { return add_n(x, y, x, y, x) }", BY_REF},
    {"complex", "graph f(x: f32[20000, 1], y: f32[1, 20000]) { return complex(x, y) }", BY_REF},
    {"comparison", "graph f(x: f32[20000, 1], y: f32[1, 20000]) { return lt(x, y) }", BY_REF},
    {"where", "graph f(x: f32[20000, 1], y: f32[1, 20000]) { return where(gt(x, 0), x, y) }", BY_REF},
    {"cast", "graph f(x: f32[200000000]) { return cast(cast(x, to=f16), to=f64) }", BY_REF},
    {"special function", "graph f(x: f64[20000000]) { return zeta(add(x, 3), exp(x)) }", BY_BOTH},
    {"full", "graph f(x: f32[]) { return full(f32[400000000], 2), x }", BY_REF},
    {"iota", "graph f(x: f32[]) { return iota(f32[400000000], axis=0), x }", BY_REF},
    {"pad", "graph f(x: f32[]) { return pad(reshape(x, shape=[1]), x, low=[400000000]) }", BY_REF},
    {"tile", "graph f(x: f32[4000]) { return tile(x, repeats=[100000]) }", BY_REF},
    {"concat", "graph f(x: f32[100000000]) { return concat(x, x, x, x, axis=0) }", BY_REF},
    {"tril", "graph f(x: f32[20000, 20000]) { return tril(x) }", BY_REF},
    {"softmax", "graph f(x: f64[2000, 20000]) { return softmax(x) }", BY_REF},
    {"argmax", "graph f(x: f32[200000000]) { return argmax(x, axis=0) }", BY_REF},
    {"cumlogsumexp", "graph f(x: f64[50000000]) { return cumlogsumexp(x) }", BY_REF},
    {"map",
     "graph one(x: f64[]) { return sin(x) }\n"
     "graph f(x: f64[4000000]) { return map(x, body=@one) }",
     BY_REF},
    {"fold",
     "graph one(a: f64[], x: f64[]) { return add(mul(a, x), 1) }\n"
     "graph f(x: f64[4000000]) { return reduce(x, 0, body=@one) }",
     BY_REF},
    {"reduce_window", "graph f(x: f64[4000, 4000]) { return reduce_window(x, 0, combine=max, window=[9, 9]) }", BY_REF},
    {"pool", "graph f(x: f32[16, 64, 256, 256]) { return pool(x, kind=max, kernel_size=[5, 5]) }", BY_REF},
    {"resize", "graph f(x: f32[4, 16, 512, 512]) { return resize(x, shape=[4, 16, 2048, 2048]) }", BY_REF},
    {"einsum", "graph f(x: f64[1500, 1500], y: f64[1500, 1500]) { return einsum(x, y, eq=\"ij,jk->ik\") }", BY_REF},
    {"inv", "graph f(x: f64[4000, 4000]) { return inv(x) }", BY_BOTH},
    {"adjugate", "graph f(x: f64[1500, 1500]) { return adjugate(x) }", BY_REF},
    {"solve_triangular", "graph f(x: f64[3000, 3000], y: f64[3000, 3000]) { return solve_triangular(x, y) }", BY_REF},
    {"lstsq", "graph f(x: f64[800, 600], y: f64[800, 4]) { return lstsq(x, y) }", BY_REF},
    {"expm of large numbers", "graph f(x: f64[400, 400]) { return expm(mul(x, 1000)) }", BY_REF},
    {"wide svd", "graph f(x: f64[300, 3000]) { u, s, v = svd(x)\n return s }", BY_REF},
    {"real fft of a prime", "graph f(x: f32[9999991]) { re, im = rfft(x) return re }", BY_REF},
    {"stft", "graph f(x: f32[4000000], w: f32[1021]) { return stft(x, w, frame_len=1021, hop=16) }", BY_REF},
    {"attention",
     "graph f(q: f32[4, 8, 512, 64], k: f32[4, 8, 512, 64], v: f32[4, 8, 512, 64]) "
     "{ return attention(q, k, v, layout=bhsd, num_heads=8, head_dim=64) }",
     BY_REF},
    {"layer_norm", "graph f(x: f32[40000, 2000], g: f32[2000], b: f32[2000]) { return layer_norm(x, g, b) }", BY_REF},
    {"quantize", "graph f(x: f32[200000000]) { return quantize(x, scales=[0.1]) }", BY_REF},
    {"cumlogsumexp of columns", "graph f(x: f32[8000, 20000]) { return cumlogsumexp(x, axis=0) }", BY_BOTH},
    {"one long fft", "graph f(x: c128[33554432]) { return fft(x) }", BY_CPU},
    {"permutation", "graph f(k: u32[2]) { return permutation(k, n=100000000) }", BY_REF},
    {"select_and_scatter of large windows",
     "graph f(x: f32[2000, 2000], y: f32[1001, 1001]) { return select_and_scatter(x, y, 0, window=[1000, 1000]) }",
     BY_CPU},
    {"maxima of large windows",
     "graph f(x: f32[1, 1, 2000, 2000]) { return pool_argmax(x, kernel_size=[1000, 1000], stride=[1, 1]) }", BY_REF},
    {"call of a long body",
     "graph one(x: f32[100000000]) { return x, x, x }\n"
     "graph f(x: f32[100000000]) { a, b, c = call(x, body=@one) return a, b, c }",
     BY_REF},
};

/* ---- Running one ---- */

static int64_t clock_ms(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int64_t now_ms(void)
{
    return clock_ms(CLOCK_MONOTONIC);
}

/* Values between -1 and 1 in no order, or positions that fit everywhere. */
static flx_tensor *make_input(session_case *c, size_t i)
{
    const flx_type *t = flx_val_type(c->g, flx_graph_input(c->g, i));
    flx_tensor *x = flx_tensor_new(c->ctx, t, NULL, &c->err);
    CHECK_MADE(x, &c->err);
    uint32_t state = 12345 + (uint32_t)i;
    int64_t n = (int64_t)flx_tensor_nbytes(x) / (t->dtype == FLX_F64 || t->dtype == FLX_C128 ? 8 : 4);
    for (int64_t k = 0; k < n; k++) {
        state = state * 1664525u + 1013904223u;
        double value = (double)(state >> 8) * 0x1p-23 - 1;
        if (t->dtype == FLX_F32)
            ((float *)flx_tensor_data(x))[k] = (float)value;
        else if (t->dtype == FLX_F64 || t->dtype == FLX_C128)
            ((double *)flx_tensor_data(x))[k] = value;
        else
            ((uint32_t *)flx_tensor_data(x))[k] = state >> 12;
    }
    return c->made[c->count++] = x;
}

typedef struct {
    flx_stop *stop;
    int delay_ms;
    clockid_t clock; /* of the thread that runs the work */
    atomic_llong at_ms, busy_ms;
} stopper;

static void *request_soon(void *user)
{
    stopper *s = user;
    nanosleep(&(struct timespec){.tv_nsec = s->delay_ms * 1000000L}, NULL);
    flx_stop_request(s->stop);
    atomic_store(&s->at_ms, now_ms()); /* after it: on a busy machine this thread may be held up before it */
    atomic_store(&s->busy_ms, clock_ms(s->clock));
    return NULL;
}

/* The promised 50 ms, in time of the processor: machines that run the tests are busy. */
enum { BOUND_MS = 4000, BUSY_MS = 50 };

static flx_code run_work(session_case *c, bool on_ref, const flx_run_options *o)
{
    flx_feed feeds[4];
    flx_tensor *out[4] = {0};
    size_t n = flx_graph_input_count(c->g);
    for (size_t i = 0; i < n; i++)
        feeds[i] = (flx_feed){flx_val_name(c->g, flx_graph_input(c->g, i)), c->made[i]};
    flx_code code =
        on_ref ? flx_run(c->g, o, feeds, n, out, &c->err) : flx_exec_run(c->exec, o, feeds, n, out, &c->err);
    for (int i = 0; i < 4; i++) {
        CHECK(code == FLX_OK || !out[i]);
        flx_tensor_release(out[i]);
    }
    return code;
}

static bool stop_work(session_case *c, const work *w, bool on_ref, int delay_ms)
{
    pthread_t thread;
    stopper s = {.stop = flx_stop_new(c->ctx, 0, &c->err), .delay_ms = delay_ms};
    CHECK_MADE(s.stop, &c->err);
    CHECK(pthread_getcpuclockid(pthread_self(), &s.clock) == 0);
    flx_run_options o = {.struct_size = sizeof o, .device = on_ref ? "ref" : NULL, .stop = s.stop};
    CHECK(pthread_create(&thread, NULL, request_soon, &s) == 0);
    flx_code code = run_work(c, on_ref, &o);
    int64_t end = now_ms(), busy_end = clock_ms(s.clock);
    pthread_join(thread, NULL);
    int64_t late = end - (int64_t)atomic_load(&s.at_ms), busy = busy_end - (int64_t)atomic_load(&s.busy_ms);
    flx_stop_free(s.stop);
    bool ok = code == FLX_E_CANCELLED && late < BOUND_MS && busy < BUSY_MS;
    if (!ok || effort(EFFORT_report))
        printf("  %s %s: %s %s, %lld ms (%lld ms of them busy) after it was stopped at %d ms\n", on_ref ? "ref" : "cpu",
               w->name, flx_code_name(code), c->err.message, (long long)late, (long long)busy, delay_ms);
    return ok;
}

/* That it can fail: the work is long. */
static void check_length(session_case *c, const work *w, bool on_ref)
{
    flx_run_options o = {.struct_size = sizeof o, .device = on_ref ? "ref" : NULL, .time_limit = 0.4};
    int64_t begin = now_ms();
    CHECK_CODE(run_work(c, on_ref, &o), FLX_E_TIMEOUT, &c->err);
    int64_t took = now_ms() - begin;
    CHECK_MSG(took < 400 + BOUND_MS, "%s: a limit of 0.4 s ended it after %lld ms", w->name, (long long)took);
}

/* With the usual allocator: that of the other tests writes all bytes of large tensors. */
static void begin(session_case *c, const char *text)
{
    *c = (session_case){.ctx = flx_context_new(NULL)};
    CHECK(c->ctx);
    c->g = graph_of(c->ctx, text);
}

/* What else the machine does can only add to the time: the best of a few attempts counts. */
static bool stops_in_time(session_case *c, const work *w, bool on_ref, int delay_ms)
{
    enum { ATTEMPTS = 3 };
    for (int k = 0; k < ATTEMPTS; k++)
        if (stop_work(c, w, on_ref, delay_ms))
            return true;
    return false;
}

/* Works have parts, which take different times. The last delay is for the effort stop_whole. */
static const int delays_ms[] = {20, 100, 350};
enum { DELAYS = sizeof delays_ms / sizeof *delays_ms };

static void stop_all(int device)
{
    int failures = 0;
    for (size_t i = 0; i < sizeof works / sizeof *works; i++) {
        session_case c;
        if (!(works[i].devices & device))
            continue;
        begin(&c, works[i].text);
        if (device == BY_CPU) {
            flx_compile_options o = {.struct_size = sizeof o, .threads = 1 + i % 2};
            c.exec = flx_compile(c.g, &o, &c.err);
            CHECK_MADE(c.exec, &c.err);
        }
        for (size_t k = 0; k < flx_graph_input_count(c.g); k++)
            make_input(&c, k);
        for (size_t d = 0; d < DELAYS; d++)
            if (effort(EFFORT_stop_whole) || d == i / 2 % (DELAYS - 1))
                failures += !stops_in_time(&c, &works[i], device == BY_REF, delays_ms[d]);
        if (effort(EFFORT_stop_whole))
            check_length(&c, &works[i], device == BY_REF);
        session_end(&c);
    }
    CHECK_MSG(failures == 0, "%d works were not stopped in time", failures);
}

TEST(stop_long_works_on_ref)
{
    stop_all(BY_REF);
}

TEST(stop_long_works_on_cpu)
{
    stop_all(BY_CPU);
}
