/* SPDX-License-Identifier: Apache-2.0 */
/* memory_budget.c: runs within a budget of bytes. The laws: the same bits as without, whatever the budget; never more
   bytes than the budget; a smaller budget never takes more bytes or recomputes less; the least that an error names can
   be reached; and a run allocates what the plan says. */
#include "fault.h"
#include "graph/graph_text.h"
#include "random/plain_subject.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_OUT = 24 };

static const char deep_text[] =
    "graph deep(x: f32[64, 32], param w: f32[32, 32]) {\n"
    "  a = tanh(matmul(x, w)) b = sin(matmul(a, w)) c = tanh(matmul(exp(neg(mul(b, b))), w))\n"
    "  d = sin(matmul(c, w)) e = tanh(matmul(add(d, a), w)) f = cos(matmul(e, w))\n"
    "  h = softmax(matmul(f, w), axis=1) k = sigmoid(matmul(mul(h, e), w))\n"
    "  return reduce_sum(mul(k, add(k, b)))\n"
    "}\n";

typedef struct {
    flx_memory_plan plan;
    flx_tensor *out[MAX_OUT];
    size_t n;
    size_t least; /* what the error names, when it does not fit; else 0 */
} outcome;

/* Compiles with the budget and runs; inputs are all of the feeds. */
static outcome run_within(const flx_graph *g, uint32_t flags, int64_t budget, const flx_feed *feeds, size_t num_feeds)
{
    flx_error err = {0};
    outcome o = {.plan.struct_size = sizeof o.plan, .n = flx_graph_output_count(g)};
    flx_compile_options options = {
        .struct_size = sizeof options, .flags = flags, .threads = 1, .optimisation = 1, .memory_budget = budget};
    flx_exec *e = flx_compile(g, &options, &err);
    if (!e) {
        CHECK_MSG(err.code == FLX_E_SIZE, "%s", err.message);
        CHECK_MSG(sscanf(err.hint, "give at least %zu bytes", &o.least) == 1, "%s", err.hint);
        return o;
    }
    CHECK(o.n <= MAX_OUT);
    CHECK_OK(flx_exec_memory_plan(e, &o.plan, &err), &err);
    CHECK(o.plan.bytes == flx_exec_memory(e));
    CHECK_OK(flx_exec_run(e, NULL, feeds, num_feeds, o.out, &err), &err);
    flx_exec_free(e);
    return o;
}

static void release(outcome *o)
{
    for (size_t i = 0; i < o->n; i++)
        flx_tensor_release(o->out[i]);
}

static void check_same_bits(const outcome *a, const outcome *b, const char *about)
{
    for (size_t i = 0; i < a->n; i++) {
        size_t n = flx_tensor_nbytes(a->out[i]);
        CHECK_MSG(n == flx_tensor_nbytes(b->out[i]) &&
                      memcmp(flx_tensor_const_data(a->out[i]), flx_tensor_const_data(b->out[i]), n) == 0,
                  "%s: output %zu has other bits", about, i);
    }
}

/* All laws for `steps` budgets between what is usual and the least; how many values the least recomputes. */
static uint32_t check_laws(const flx_graph *g, uint32_t flags, const flx_feed *feeds, size_t n, int steps,
                           const char *about)
{
    outcome usual = run_within(g, flags, 0, feeds, n), least = run_within(g, flags, 1, feeds, n), before = usual;
    if (!least.least) { /* it needs no memory at all */
        check_same_bits(&usual, &least, about);
        release(&usual);
        release(&least);
        return 0;
    }
    CHECK_MSG(least.least <= usual.plan.bytes, "%s: %zu and %zu bytes", about, least.least, (size_t)usual.plan.bytes);
    uint32_t recomputed = 0;
    for (int i = 1; i <= steps; i++) {
        size_t budget = usual.plan.bytes - (usual.plan.bytes - least.least) / (size_t)steps * (size_t)i;
        budget = i == steps ? least.least : budget;
        outcome now = run_within(g, flags, (int64_t)budget, feeds, n);
        CHECK_MSG(!now.least && now.plan.bytes <= budget, "%s: %zu bytes, but the least of %zu with %zu", about,
                  (size_t)now.plan.bytes, now.least, budget);
        CHECK_MSG(now.plan.bytes <= before.plan.bytes && now.plan.flops >= before.plan.flops &&
                      now.plan.recomputed >= before.plan.recomputed,
                  "%s: a smaller budget of %zu takes more, or computes less again", about, budget);
        CHECK(now.plan.usual_bytes >= now.plan.bytes);
        check_same_bits(&usual, &now, about);
        recomputed = now.plan.recomputed;
        before.plan = now.plan;
        release(&now);
    }
    release(&usual);
    return recomputed;
}

/* ---- A network ---- */

typedef struct {
    flx_context *ctx;
    flx_graph *g; /* the gradient */
    flx_feed feeds[2];
} network;

static flx_tensor *waves(flx_context *ctx, int64_t rows, int64_t columns)
{
    flx_error err = {0};
    flx_type t = flx_type_make(FLX_F32, 2, (flx_dim[]){rows, columns});
    flx_tensor *x = flx_tensor_new(ctx, &t, NULL, &err);
    CHECK_MSG(x, "%s", err.message);
    for (int64_t i = 0; i < rows * columns; i++)
        ((float *)flx_tensor_data(x))[i] = (float)((i * 37) % 101) / 101 - 0.5F;
    return x;
}

static void network_begin(network *w, const flx_context_options *o)
{
    flx_error err = {0};
    w->ctx = flx_context_new(o);
    flx_graph *loss = graph_of(w->ctx, deep_text);
    const char *wrt[] = {"w"};
    w->g = flx_grad(loss, wrt, 1, &(flx_grad_options){.flags = FLX_GRAD_VALUE}, &err);
    CHECK_MADE(w->g, &err);
    flx_graph_release(loss);
    w->feeds[0] = (flx_feed){"x", waves(w->ctx, 64, 32)};
    w->feeds[1] = (flx_feed){"w", waves(w->ctx, 32, 32)};
}

static void network_end(network *w)
{
    for (int i = 0; i < 2; i++)
        flx_tensor_release((flx_tensor *)(uintptr_t)w->feeds[i].value);
    flx_graph_release(w->g);
    flx_context_free(w->ctx);
}

TEST(budget_of_a_gradient_keeps_bits_and_is_monotone)
{
    network w;
    network_begin(&w, NULL);
    uint32_t recomputed = check_laws(w.g, 0, w.feeds, 2, 4, "deep");
    CHECK_MSG(recomputed > 0, "nothing is computed again");
    check_laws(w.g, FLX_COMPILE_INTERPRET, w.feeds, 2, 8, "deep, evaluated");
    outcome usual = run_within(w.g, FLX_COMPILE_INTERPRET, 0, w.feeds, 2);
    outcome least = run_within(w.g, FLX_COMPILE_INTERPRET, 1, w.feeds, 2);
    CHECK_MSG(least.least * 2 < usual.plan.bytes, "%zu of %zu bytes", least.least, (size_t)usual.plan.bytes);
    release(&usual);
    network_end(&w);
}

/* The plan is known before the run, and the run allocates exactly that beside its results and what it notes. */
TEST(budget_planned_is_what_a_run_allocates)
{
    fault memory = {0};
    network w;
    network_begin(&w, &(flx_context_options){.alloc = fault_alloc, .alloc_user = &memory});
    for (int i = 0; i < 2; i++) {
        flx_error err = {0};
        flx_tensor *out[2];
        size_t results = 0, notes = 32768;
        flx_compile_options o = {
            .struct_size = sizeof o, .threads = 1, .optimisation = 1, .memory_budget = i ? 90000 : 0};
        flx_exec *e = flx_compile(w.g, &o, &err);
        CHECK_MADE(e, &err);
        size_t planned = flx_exec_memory(e), before = memory.live_bytes;
        memory.largest = 0;
        memory.peak_bytes = before;
        CHECK_OK(flx_exec_run(e, NULL, w.feeds, 2, out, &err), &err);
        for (int k = 0; k < 2; k++) {
            results += flx_tensor_nbytes(out[k]);
            flx_tensor_release(out[k]);
        }
        size_t taken = memory.peak_bytes - before;
        CHECK_MSG(taken >= planned + results && taken <= planned + results + notes, "%zu planned, %zu taken for %zu",
                  planned, taken, results);
        CHECK_MSG(memory.largest >= planned && memory.largest <= planned + 4096, "%zu planned, %zu at once", planned,
                  memory.largest);
        flx_exec_free(e);
    }
    network_end(&w);
    CHECK(fault_is_clean(&memory));
}

TEST(budget_of_the_wrong_size_is_explained)
{
    network w;
    flx_error err = {0};
    network_begin(&w, NULL);
    flx_compile_options o = {
        .struct_size = sizeof o, .flags = FLX_COMPILE_INTERPRET, .threads = 1, .memory_budget = -1};
    CHECK(!flx_compile(w.g, &o, &err));
    CHECK(err.code == FLX_E_USAGE);
    o.memory_budget = 100;
    CHECK(!flx_compile(w.g, &o, &err));
    CHECK(err.code == FLX_E_SIZE);
    CHECK_MSG(strstr(err.message, "the budget of 100 is too small"), "%s", err.message);
    network_end(&w);
}

TEST(budget_survives_every_failed_allocation)
{
    for (size_t at = 1, step = 1;; at += step, step += step / 16) {
        fault memory = {0};
        network w;
        flx_error err = {0};
        network_begin(&w, &(flx_context_options){.alloc = fault_alloc, .alloc_user = &memory});
        flx_compile_options o = {
            .struct_size = sizeof o, .flags = FLX_COMPILE_INTERPRET, .threads = 1, .memory_budget = 120000};
        memory.fail_at = memory.calls + at;
        flx_exec *e = flx_compile(w.g, &o, &err);
        bool is_reached = memory.failed > 0;
        CHECK_MSG(e || err.code == FLX_E_OOM, "%s", err.message);
        memory.fail_at = 0;
        flx_exec_free(e);
        network_end(&w);
        CHECK_MSG(fault_is_clean(&memory), "request %zu", at);
        if (!is_reached)
            break;
    }
}

/* ---- Random graphs ---- */

static size_t feeds_of(const subject *s, flx_feed *feeds)
{
    for (size_t k = 0; k < s->n; k++)
        feeds[k] = (flx_feed){s->in[k].name, s->in[k].x};
    return s->n;
}

static flx_graph *gradient_of(const flx_graph *g, const subject *s)
{
    flx_error err = {0};
    const char *wrt[RANDOM_MAX_INPUTS];
    size_t n = 0;
    for (size_t k = 0; k < s->n; k++)
        if (s->in[k].t)
            wrt[n++] = s->in[k].name;
    return flx_grad(g, wrt, n, &(flx_grad_options){.flags = FLX_GRAD_VALUE | FLX_GRAD_MISSING_ZERO}, &err);
}

TEST(budget_of_random_gradients_keeps_bits_and_is_monotone)
{
    uint64_t first = test_seed() % 1000000;
    uint64_t n = test_case_seed(&first) ? 1 : 24;
    uint32_t recomputed = 0;
    for (uint64_t seed = first; seed < first + n; seed++) {
        subject s;
        flx_module *module;
        flx_error err = {0};
        flx_feed feeds[RANDOM_MAX_INPUTS];
        char about[60];
        bool is_compiled = seed % 12 == 0; /* which takes a compiler much longer */
        if (!(seed % 3 ? random_subject : random_control_subject)(&s, seed, &module))
            continue;
        flx_graph *bound = flx_specialise(s.g, s.dims, known_dims(s.g, s.dims, s.num_dims), &err);
        CHECK_MSG(bound, "%s", err.message);
        flx_graph *grad = gradient_of(bound, &s);
        snprintf(about, sizeof about, "FLX_TEST_CASE=%llu", (unsigned long long)seed);
        if (grad && flx_graph_output_count(grad) <= MAX_OUT)
            recomputed += check_laws(grad, is_compiled ? 0 : FLX_COMPILE_INTERPRET, feeds, feeds_of(&s, feeds),
                                     is_compiled ? 1 : 3, about);
        flx_graph_release(grad);
        flx_graph_release(bound);
        random_subject_free(&s, module);
    }
    CHECK_MSG(n == 1 || recomputed > 0, "no graph of %llu recomputes anything", (unsigned long long)n);
}

/* ---- Sums of gradients ---- */

/* The gradient of a parameter that is used twelve times is a sum of twelve tensors of its size. */
static flx_graph *gradient_of_uses(flx_context *ctx, const char *dtype)
{
    char text[4000];
    flx_error err = {0};
    size_t n = (size_t)snprintf(text, sizeof text, "graph uses(param w: %s[60, 70]) {\n  s0 = reduce_sum(w)\n", dtype);
    for (int i = 0; i < 12; i++)
        n += (size_t)snprintf(text + n, sizeof text - n,
                              "  s%d = tanh(add(reduce_sum(softmax(mul(w, s%d), axis=%d)), reduce_sum(cumsum(w, "
                              "axis=%d))))\n",
                              i + 1, i, i % 2, i % 2);
    snprintf(text + n, sizeof text - n, "  return s12\n}\n");
    flx_graph *g = graph_of(ctx, text), *grad = flx_grad(g, (const char *const[]){"w"}, 1, NULL, &err);
    CHECK_OK(grad ? FLX_OK : (flx_code)err.code, &err);
    flx_graph_release(g);
    return grad;
}

TEST(budget_adds_gradients_one_after_the_other)
{
    static const char *const dtypes[] = {"f32", "bf16", "f64"};
    for (int i = 0; i < 3; i++) {
        flx_context *ctx = flx_context_new(NULL);
        flx_graph *g = gradient_of_uses(ctx, dtypes[i]);
        flx_tensor *values = waves(ctx, 60, 70);
        flx_tensor *w = flx_tensor_cast(values, (flx_dtype)flx_val_type(g, flx_graph_input(g, 0))->dtype, NULL);
        CHECK(w != NULL);
        const flx_feed feed = {"w", w};
        outcome usual = run_within(g, 0, 0, &feed, 1), least = run_within(g, 0, 1, &feed, 1);
        CHECK_MSG(least.least * 3 < usual.plan.bytes, "%s: %zu and %zu bytes", dtypes[i], least.least,
                  (size_t)usual.plan.bytes);
        release(&usual);
        check_laws(g, 0, &feed, 1, 4, dtypes[i]);
        flx_tensor_release(values);
        flx_tensor_release(w);
        flx_graph_release(g);
        flx_context_free(ctx);
    }
}
