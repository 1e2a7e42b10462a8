/* SPDX-License-Identifier: Apache-2.0 */
/* program_runs.c: what a compiled program does with memory and threads, seen from inside. Random graphs are batched, so
   that their kernels have enough workgroups to share, and each is one piece of a bundle: results are the same to the
   bit on one, two and three threads; memory that no step needs any more may hold anything; ranges in the arena never
   clash. */
#include "backend/devices.h"
#include "base/host/thread_pool.h"
#include "compile/bundle.h"
#include "graph/op/eval.h"
#include "random/plain_subject.h"
#include "runtime/exec.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = 67, SEEDS = 8 };

/* ---- Subjects ---- */

typedef struct {
    const subject *s;
    flx_tensor *value[RANDOM_MAX_INPUTS];
} batch_values;

static const flx_tensor *find_batched(const void *user, const char *name)
{
    const batch_values *v = user;
    for (size_t k = 0; k < v->s->n; k++)
        if (strcmp(v->s->in[k].name, name) == 0)
            return v->value[k];
    return NULL;
}

/* LANES points from x towards x + t; inputs without direction are the same in each lane. */
static flx_tensor *lanes_of(const subject *s, const subject_input *in)
{
    flx_error err = {0};
    flx_type type = *flx_tensor_type(in->x);
    size_t bytes = flx_tensor_nbytes(in->x);
    memmove(type.dims + 1, type.dims, (size_t)type.rank * sizeof *type.dims);
    type.dims[0] = LANES;
    type.rank++;
    flx_tensor *all = flx_tensor_new(s->ctx, &type, NULL, &err);
    CHECK_MSG(all, "%s", err.message);
    for (int i = 0; i < LANES; i++) {
        flx_tensor *wide = in->t ? random_moved(in->x, in->t, i * 1e-3) : flx_tensor_retain(in->x);
        flx_tensor *x = flx_tensor_cast(wide, (flx_dtype)type.dtype, &err);
        CHECK_MSG(x, "%s", err.message);
        if (bytes)
            memcpy((char *)flx_tensor_data(all) + (size_t)i * bytes, flx_tensor_const_data(x), bytes);
        flx_tensor_release(x);
        flx_tensor_release(wide);
    }
    return all;
}

static flx_graph *batched(const subject *s, const flx_graph *g)
{
    flx_error err = {0};
    flx_vmap_axis axes[RANDOM_MAX_INPUTS];
    for (size_t k = 0; k < s->n; k++)
        axes[k] = (flx_vmap_axis){s->in[k].name, 0};
    return s->n ? flx_vmap(g, axes, s->n, NULL, 0, LANES, &err) : NULL;
}

static void add_seed(bundle *b, uint64_t seed)
{
    subject s;
    flx_module *module;
    flx_error err = {0};
    if (!random_subject(&s, seed, &module))
        return;
    char about[80];
    snprintf(about, sizeof about, "seed %llu", (unsigned long long)seed);
    flx_graph *bound = flx_specialise(s.g, s.dims, s.num_dims, &err);
    flx_graph *grad = bound ? subject_gradient(bound, &s) : NULL;
    flx_graph *many = grad ? batched(&s, grad) : NULL;
    if (many) {
        batch_values v = {.s = &s};
        for (size_t k = 0; k < s.n; k++)
            v.value[k] = lanes_of(&s, &s.in[k]);
        bundle_add_copy(b, many, find_batched, &v, about);
        for (size_t k = 0; k < s.n; k++)
            flx_tensor_release(v.value[k]);
    }
    flx_graph_release(many);
    flx_graph_release(grad);
    flx_graph_release(bound);
    random_subject_free(&s, module);
}

/* ---- Programs ---- */

static const flxi_device *cpu_device(void)
{
    const flxi_device *d = NULL;
    flx_error err = {0};
    CHECK_OK(flxi_device_find("cpu", &d, &err), &err);
    return d;
}

typedef struct {
    flx_context *ctx;
    bundle *b;
    flx_graph *g;
    flx_feed *feeds;
    const void **in;
    flxi_program program;
    flxi_state *state;
} bench;

static void bench_begin(bench *t, uint64_t first, int seeds)
{
    *t = (bench){.ctx = bundle_context()};
    t->b = bundle_new(t->ctx);
    for (int i = 0; i < seeds; i++)
        add_seed(t->b, first + (uint64_t)i);
    CHECK(bundle_size(t->b) > 0);
    t->g = bundle_join(t->b, &t->feeds);
    t->in = calloc(flx_graph_input_count(t->g) + 1, sizeof *t->in);
    CHECK(t->in);
    for (size_t i = 0; i < flx_graph_input_count(t->g); i++)
        t->in[i] = flx_tensor_const_data(t->feeds[i].value);
}

static void bench_compile(bench *t)
{
    flx_error err = {0};
    flx_compile_options o = {.threads = 3, .optimisation = 1};
    CHECK_OK(flxi_program_compile(&t->program, t->g, NULL, cpu_device(), &o, &err), &err);
    CHECK_MSG(!t->program.note[0], "%s", t->program.note);
    CHECK_OK(flxi_state_new(&t->program, &t->state, &err), &err);
}

static void bench_end(bench *t)
{
    flxi_state_free(t->state);
    flxi_program_free(&t->program);
    free(t->in);
    free(t->feeds);
    flx_graph_release(t->g);
    bundle_free(t->b);
    flx_context_free(t->ctx);
}

static flx_tensor **run_program(bench *t, const flxi_run_setup *setup)
{
    flx_error err = {0};
    size_t n = flx_graph_output_count(t->g);
    flx_tensor **out = calloc(n + 1, sizeof *out);
    void **data = calloc(n + 1, sizeof *data);
    CHECK(out && data);
    for (size_t i = 0; i < n; i++) {
        out[i] = flx_tensor_new(t->ctx, flx_val_type(t->g, flx_graph_output(t->g, i)), NULL, &err);
        CHECK_MSG(out[i], "%s", err.message);
        data[i] = flx_tensor_data(out[i]);
    }
    CHECK_OK(flxi_state_run(t->state, setup, t->in, data, &err), &err);
    free(data);
    return out;
}

static void release(const bench *t, flx_tensor **out)
{
    for (size_t i = 0; i < flx_graph_output_count(t->g); i++)
        flx_tensor_release(out[i]);
    free(out);
}

static void same_bits(const bench *t, flx_tensor **a, flx_tensor **b, const char *what)
{
    for (size_t i = 0; i < flx_graph_output_count(t->g); i++) {
        EXPECT_MSG(!flx_tensor_nbytes(a[i]) ||
                       memcmp(flx_tensor_const_data(a[i]), flx_tensor_const_data(b[i]), flx_tensor_nbytes(a[i])) == 0,
                   "%s: output %s has other bits", what, flx_graph_output_name(t->g, i));
        test_count_case();
    }
}

/* ---- Threads ---- */

static void check_threads(bench *t, flx_tensor **expected, int threads)
{
    flx_error err = {0};
    flxi_queue *queue = NULL;
    CHECK_OK(cpu_device()->open_queue(t->ctx, threads, &queue, &err), &err);
    flxi_run_setup setup = {.queue = queue, .min_parallel = 1};
    for (int round = 0; round < 3; round++) {
        char what[40];
        snprintf(what, sizeof what, "%d threads, run %d", threads, round);
        flx_tensor **out = run_program(t, &setup);
        same_bits(t, out, expected, what);
        release(t, out);
    }
    cpu_device()->close_queue(queue);
}

/* ---- Memory ---- */

/* Whether a byte of the block's arena is needed after a step. */
static bool is_needed(const flxi_slot *s, uint32_t step)
{
    return s->segment == SEGMENT_ARENA && s->from <= step && s->to > step;
}

static int poisoned; /* steps */

static void poison(void *user, const flxi_routine *l, unsigned char *base, uint32_t step, int64_t time_ns)
{
    (void)user;
    (void)time_ns;
    unsigned char *keep = calloc(l->arena_bytes + 1, 1);
    CHECK(keep);
    for (uint32_t i = 0; i < l->num_slots; i++)
        if (is_needed(&l->slots[i], step))
            memset(keep + l->slots[i].offset, 1, l->slots[i].nbytes);
    for (size_t i = 0; i < l->arena_bytes; i++)
        if (!keep[i])
            base[i] = 0xff;
    free(keep);
    poisoned++;
}

/* ---- Both ---- */

TEST(compiled_bits_depend_neither_on_threads_nor_on_dead_memory)
{
    bench t;
    bench_begin(&t, test_seed() % 1000000, SEEDS);
    bench_compile(&t);
    flxi_run_setup plain = {0}, hostile = {.observe = poison};
    flx_tensor **expected = run_program(&t, &plain);
    for (int threads = 1; threads <= 3; threads++)
        check_threads(&t, expected, threads);
    poisoned = 0;
    flx_tensor **out = run_program(&t, &hostile);
    CHECK(poisoned > 20);
    same_bits(&t, out, expected, "poisoned");
    release(&t, out);
    release(&t, expected);
    bench_end(&t);
}

/* ---- Plans ---- */

static void check_blocks(const flxi_routine *l, int *blocks)
{
    flx_error err = {0};
    CHECK_OK(flxi_routine_verify(l, &err), &err);
    CHECK_OK(flxi_routine_verify_offsets(l, &err), &err);
    CHECK(l->arena_bytes >= l->max_live);
    ++*blocks;
    for (uint32_t i = 0; i < l->num_steps; i++)
        for (uint32_t k = 0; k < l->steps[i].num_bodies; k++)
            check_blocks(l->steps[i].bodies[k], blocks);
}

/* Moves a slot onto another that is needed at the same time, and back. */
static int break_plan(const flxi_routine *l)
{
    int broken = 0;
    for (uint32_t i = 0; i < l->num_slots; i++)
        for (uint32_t j = 0; j < l->num_slots && broken < 500; j++) {
            flxi_slot *a = &l->slots[i], *b = &l->slots[j];
            bool meet = i != j && a->segment == SEGMENT_ARENA && b->segment == SEGMENT_ARENA && a->nbytes &&
                        b->nbytes && a->from <= b->to && b->from <= a->to;
            if (!meet || a->taken_over == j + 1 || b->taken_over == i + 1)
                continue;
            flx_error err = {0};
            size_t offset = a->offset;
            a->offset = b->offset;
            CHECK_CODE(flxi_routine_verify_offsets(l, &err), FLX_E_INTERNAL, &err);
            a->offset = offset;
            CHECK_OK(flxi_routine_verify_offsets(l, &err), &err);
            broken++;
        }
    return broken;
}

TEST(memory_plans_of_random_graphs_are_sound)
{
    int blocks = 0, broken = 0;
    for (uint64_t i = 0; i < 8; i++) {
        bench t;
        bench_begin(&t, test_seed() % 1000000 + 4 * i, 4);
        flx_error err = {0};
        flxi_program m;
        flx_compile_options o = {.threads = 1, .flags = i % 2 ? FLX_COMPILE_UNGROUPED : 0};
        flxi_program_init(&m, t.ctx, cpu_device(), &o);
        CHECK_OK(flxi_routine_compile(&m, t.g, &m.main, &err), &err);
        CHECK_OK(flxi_routine_plan(&m, m.main, &err), &err);
        check_blocks(m.main, &blocks);
        if (i < 2)
            broken += break_plan(m.main);
        flxi_program_free(&m);
        bench_end(&t);
    }
    CHECK(blocks > 8);
    CHECK(broken > 20);
}
