/* SPDX-License-Identifier: Apache-2.0 */
/* extents.c: one machine code for all extents of symbolic dimensions. */
#include "runtime/exec.h"
#include "session_case.h"

#include <stdatomic.h>
#include <time.h>

/* ---- Graphs for several extents ---- */

typedef struct {
    session_case c;
    atomic_int loads; /* how often objects were compiled, or came from the cache on disk */
    flx_tensor *in[8];
    flx_feed feeds[8];
} extents_case;

static void count_objects(void *user, flx_log_event event, const char *subject, const char *text)
{
    extents_case *x = user;
    (void)subject;
    (void)text;
    x->loads += event == FLX_LOG_CACHE_HIT || event == FLX_LOG_CACHE_MISS;
}

static void begin(extents_case *x, const char *text)
{
    *x = (extents_case){0};
    x->c.ctx = flx_context_new(
        &(flx_context_options){.alloc = fault_alloc, .alloc_user = &x->c.memory, .log = count_objects, .log_user = x});
    CHECK(x->c.ctx);
    x->c.g = graph_of(x->c.ctx, text);
}

static flx_exec *compile(extents_case *x, uint32_t flags)
{
    flx_compile_options o = {.struct_size = sizeof o, .flags = flags, .threads = 2, .optimisation = 1};
    flx_exec *e = flx_compile(x->c.g, &o, &x->c.err);
    CHECK_MADE(e, &x->c.err);
    return e;
}

/* Numbers between -1 and 1 that depend on the position and the input. */
static void fill(flx_tensor *t, size_t input)
{
    uint32_t state = (uint32_t)input * 747796405u + 2891336453u;
    for (int64_t i = 0; i < flx_tensor_count(t); i++) {
        state = state * 1664525u + 1013904223u;
        float value = (float)(state >> 8) / (1 << 23) - 1;
        if (flx_tensor_type(t)->dtype == FLX_F64)
            ((double *)flx_tensor_data(t))[i] = value;
        else
            ((float *)flx_tensor_data(t))[i] = value;
    }
}

static size_t feed(extents_case *x, const flx_dim_binding *dims, size_t n)
{
    flx_graph *bound = flx_specialise(x->c.g, dims, n, &x->c.err);
    CHECK_MADE(bound, &x->c.err);
    size_t count = flx_graph_input_count(bound);
    for (size_t i = 0; i < count; i++) {
        flx_val v = flx_graph_input(bound, i);
        x->in[i] = flx_tensor_new(x->c.ctx, flx_val_type(bound, v), NULL, &x->c.err);
        CHECK_MADE(x->in[i], &x->c.err);
        fill(x->in[i], i);
        x->feeds[i] = (flx_feed){flx_val_name(x->c.g, flx_graph_input(x->c.g, i)), x->in[i]};
    }
    flx_graph_release(bound);
    return count;
}

/* Both executables give the same bits. */
static void compare(extents_case *x, flx_exec *general, flx_exec *exact, const flx_dim_binding *dims, size_t n,
                    int *loads, int *exact_loads)
{
    enum { MANY = 8 };
    flx_tensor *a[MANY] = {0}, *b[MANY] = {0};
    size_t inputs = feed(x, dims, n), outputs = flx_graph_output_count(x->c.g);
    x->loads = 0;
    CHECK_OK(flx_exec_run(general, NULL, x->feeds, inputs, a, &x->c.err), &x->c.err);
    *loads += x->loads;
    x->loads = 0;
    CHECK_OK(flx_exec_run(exact, NULL, x->feeds, inputs, b, &x->c.err), &x->c.err);
    *exact_loads += x->loads;
    for (size_t i = 0; i < outputs; i++) {
        CHECK_MSG(flx_tensor_nbytes(a[i]) == flx_tensor_nbytes(b[i]) &&
                      memcmp(flx_tensor_data(a[i]), flx_tensor_data(b[i]), flx_tensor_nbytes(a[i])) == 0,
                  "output %zu differs for %s = %lld", i, dims[0].name, (long long)dims[0].extent);
        flx_tensor_release(a[i]);
        flx_tensor_release(b[i]);
    }
    for (size_t i = 0; i < inputs; i++)
        flx_tensor_release(x->in[i]);
}

/* ---- Programs ---- */

typedef struct {
    const char *name, *text;
    const char *symbols[2];
    int most_loads; /* of objects, for all extents together */
} program;

/* The loop is one function only where N is known. */
static const char loop_over_rows[] = "graph body(h: f32[N, 6], x: f32[6]) {\n"
                                     "  return tanh(add(mul(h, 0.5), x))\n"
                                     "}\n"
                                     "graph f(x: f32[9, 6], h: f32[N, 6]) {\n"
                                     "  last = scan(h, x, body=@body)\n"
                                     "  return last\n"
                                     "}\n";

static const program programs[] = {
    {"rows and columns",
     "graph f(x: f32[N, 40], w: f32[40, 5], b: f32[5]) {\n"
     "  h = tanh(add(matmul(x, w), b))\n"
     "  return softmax(h, axis=1), softmax(x, axis=0), reduce_mean(x, axes=[0]), reduce_sum(h), sigmoid(x)\n"
     "}\n",
     {"N"},
     8},
    {"attention",
     "graph f(q: f32[T, 16], k: f32[S, 16], v: f32[S, 8]) {\n"
     "  p = softmax(mul(matmul(q, transpose(k)), 0.25), axis=1)\n"
     "  return matmul(p, v), argmax(p, axis=1)\n"
     "}\n",
     {"T", "S"},
     12},
    {"movement",
     "graph f(x: f32[N, M], y: f32[M]) {\n"
     "  a = concat(x, add(x, y), axis=0)\n"
     "  b = pad(transpose(a), 0, low=[1, 0], high=[0, 2])\n"
     "  return a, b, reduce_max(b, axes=[0]), cumsum(x, axis=1), slice(b, start=[0, 1], limit=[2, 2])\n"
     "}\n",
     {"N", "M"},
     12},
    {"numbers of the extent",
     "graph f(x: f64[N]) {\n"
     "  n = cast(dim_size(x, axis=0), to=f64)\n"
     "  m = reduce_mean(x)\n"
     "  return mul(x, n), reduce_mean(square(sub(x, m))), iota(type=f64[N])\n"
     "}\n",
     {"N"},
     8},
    {"steps of a loop",
     "graph body(h: f32[6], x: f32[6]) {\n"
     "  z = tanh(add(mul(h, 0.5), x))\n"
     "  return z, square(z)\n"
     "}\n"
     "graph f(x: f32[N, 6], h: f32[6]) {\n"
     "  last, all = scan(h, x, body=@body)\n"
     "  return last, all\n"
     "}\n",
     {"N"},
     8},
    {"rows of a loop", loop_over_rows, {"N"}, 8},
};

enum { NUM_PROGRAMS = sizeof programs / sizeof *programs };

/* For a column of extents, and for pairs of them. */
static void check_program(const program *p)
{
    static const int64_t extents[] = {1, 2, 15, 16, 17, 33, 64, 100, 3, 31, 47, 200}; /* all with the effort soak */
    extents_case x;
    int exact_loads = 0, loads = 0;
    size_t n = p->symbols[1] ? 2 : 1, num_extents = effort(EFFORT_compiled_all) ? 12 : 8;
    test_fail_context("%s", p->name);
    begin(&x, p->text);
    flx_exec *general = compile(&x, 0), *exact = compile(&x, FLX_COMPILE_SPECIALISE);
    for (size_t i = 0; i < num_extents; i++) {
        flx_dim_binding dims[2] = {{p->symbols[0], extents[i]}, {p->symbols[1], extents[(i * 7 + 3) % num_extents]}};
        compare(&x, general, exact, dims, n, &loads, &exact_loads);
        test_count_case();
    }
    CHECK_MSG(loads <= p->most_loads && exact_loads >= (int)num_extents, "%d loads instead of %d", loads, exact_loads);
    flx_exec_free(general);
    flx_exec_free(exact);
    session_end(&x.c);
}

TEST(extents_share_machine_code)
{
    for (size_t i = 0; i < NUM_PROGRAMS; i++)
        check_program(&programs[i]);
}

/* ---- The life of an executable ---- */

static const char square_text[] = "graph f(x: f32[N]) { return reduce_sum(square(x)), mul(x, x) }";

TEST(extents_of_runs_on_memory_of_the_caller)
{
    session_case c;
    float in[50], sum, out[50];
    for (int i = 0; i < 50; i++)
        in[i] = (float)i;
    session_begin(&c, square_text, 0);
    session_compile(&c, 0, 1);
    CHECK_CODE(flx_exec_run_at(c.exec, (const void *[]){in}, (void *[]){&sum, out}, &c.err), FLX_E_UNBOUND_DIM, &c.err);
    for (int64_t n = 50; n > 0; n -= 7) {
        flx_dim_binding dim = {"N", n};
        flx_run_options run = {.dims = &dim, .num_dims = 1};
        out[n - 1] = 0;
        CHECK_OK(flx_exec_run_at_with(c.exec, &run, (const void *[]){in}, (void *[]){&sum, out}, &c.err), &c.err);
        CHECK(sum == (float)((n - 1) * n * (2 * n - 1) / 6) && out[n - 1] == (float)((n - 1) * (n - 1)));
        int may;
        CHECK_OK(flx_exec_may_share_at(c.exec, &run, 0, 1, &may, &c.err), &c.err);
    }
    flx_dim_binding wrong = {"M", 3};
    flx_run_options run = {.dims = &wrong, .num_dims = 1};
    CHECK(flx_exec_run_at_with(c.exec, &run, (const void *[]){in}, (void *[]){&sum, out}, &c.err) != FLX_OK);
    session_end(&c);
}

static bool is_specialised(flx_exec *e)
{
    pthread_mutex_lock(&e->lock);
    bool is = e->variants.at[0]->on == &e->variants.at[0]->later;
    pthread_mutex_unlock(&e->lock);
    return is;
}

/* Extents whose runs took long get code of their own, which computes the same bits. */
TEST(extents_in_long_use_are_specialised)
{
    extents_case x;
    flx_dim_binding dim = {"N", 37};
    int loads = 0, exact_loads = 0;
    begin(&x, loop_over_rows);
    flx_exec *general = compile(&x, 0), *exact = compile(&x, FLX_COMPILE_SPECIALISE);
    compare(&x, general, exact, &dim, 1, &loads, &exact_loads);
    CHECK(!is_specialised(general));
    general->variants.at[0]->run_ns = INT64_MAX / 2; /* as if it had run for long */
    compare(&x, general, exact, &dim, 1, &loads, &exact_loads);
    CHECK(flx_exec_is_ready(general));
    for (int i = 0; i < 6000 && !is_specialised(general); i++)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    CHECK(is_specialised(general));
    compare(&x, general, exact, &dim, 1, &loads, &exact_loads);
    flx_exec_free(general);
    flx_exec_free(exact);
    session_end(&x.c);
}

/* An executable may go while it specialises. */
TEST(extents_are_specialised_no_longer_than_needed)
{
    extents_case x;
    flx_dim_binding dim = {"N", 21};
    int loads = 0, exact_loads = 0;
    begin(&x, loop_over_rows);
    flx_exec *general = compile(&x, 0), *exact = compile(&x, FLX_COMPILE_SPECIALISE);
    for (int i = 0; i < 2; i++) {
        compare(&x, general, exact, &dim, 1, &loads, &exact_loads);
        general->variants.at[0]->run_ns = INT64_MAX / 2;
    }
    flx_exec_free(general);
    flx_exec_free(exact);
    session_end(&x.c);
}

/* What runs of many extents work in is not kept for all of them. */
TEST(extents_hold_a_bounded_amount_of_memory)
{
    session_case c;
    session_begin(&c, "graph f(x: f32[N, 1024]) { return reduce_sum(matmul(sigmoid(x), transpose(x))) }", 0);
    session_compile(&c, FLX_COMPILE_INTERPRET, 1);
    size_t most = 0;
    for (int64_t n = 700; n < 720; n++) {
        flx_tensor *out;
        flx_type t = flx_type_make(FLX_F32, 2, (flx_dim[]){n, 1024});
        flx_tensor *x = flx_tensor_new(c.ctx, &t, NULL, &c.err);
        CHECK_OK(flx_exec_run(c.exec, NULL, &(flx_feed){"x", x}, 1, &out, &c.err), &c.err);
        flx_tensor_release(out);
        flx_tensor_release(x);
        most = flx_exec_memory(c.exec) > most ? flx_exec_memory(c.exec) : most;
    }
    CHECK(most > 4 << 20 && flxi_exec_held_bytes(c.exec) <= ((size_t)64 << 20) + most);
    session_end(&c);
}
