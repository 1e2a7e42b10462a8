/* SPDX-License-Identifier: Apache-2.0 */
/* standalone_budget.c: C files with a bound on their arena: they fit it and compute the same bits. */
#include "standalone/c_file.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>

/* The gradient keeps every layer, and the plain activations are cheap to compute again. */
static const char tower[] = "graph model(x: f32[64, 8], param w: f32[8, 8]) {\n"
                            "  a = sin(matmul(x, w))\n"
                            "  b = sin(matmul(a, w))\n"
                            "  c = sin(matmul(b, w))\n"
                            "  d = sin(matmul(c, w))\n"
                            "  return reduce_mean(mul(d, d))\n"
                            "}\n";

typedef struct {
    unsigned char *arena;
    void *w;
} tower_model;

typedef struct {
    flx_context *ctx;
    flx_graph *g;
} subject;

static subject subject_open(const char *text)
{
    flx_error err = {0};
    subject s = {.ctx = flx_context_new(NULL)};
    flx_module *m = flx_parse(s.ctx, text, strlen(text), "model", &err);
    CHECK_MSG(m, "%s", err.message);
    s.g = flx_graph_retain(flx_module_main(m));
    flx_module_free(m);
    return s;
}

static void subject_close(subject *s)
{
    flx_graph_release(s->g);
    flx_context_free(s->ctx);
}

/* The loss and its gradient; the bytes of the arena. */
static int64_t compute(const subject *s, int64_t budget, float result[65])
{
    flx_error err = {0};
    flx_buffer source;
    flx_build_sizes sizes = {.struct_size = sizeof sizes};
    const flx_build_options o = {
        .struct_size = sizeof o, .flags = FLX_BUILD_TABLES | FLX_BUILD_GRAD, .name = "model", .memory_budget = budget};
    CHECK_OK(flx_build_c(s->g, &o, &source, NULL, &sizes, &err), &err);
    c_file *f = c_file_compile(&source, "gcc", "-O1");
    int (*init)(tower_model *, void *);
    int (*grad)(const tower_model *, const void *const *, void *const *);
    *(void **)&init = c_file_symbol(f, "model_init");
    *(void **)&grad = c_file_symbol(f, "model_grad");
    void *memory = aligned_alloc(64, ((size_t)sizes.memory_bytes + 63) / 64 * 64);
    float x[64 * 8], w[8 * 8];
    for (int i = 0; i < 64 * 8; i++)
        x[i] = (float)(i % 37) / 18 - 1;
    for (int i = 0; i < 8 * 8; i++)
        w[i] = (float)(i % 11) / 5 - 1;
    tower_model m;
    CHECK(memory && init(&m, memory) == 0);
    m.w = w;
    const void *in[] = {x};
    void *out[] = {result, result + 1};
    CHECK(grad(&m, in, out) == 0);
    free(memory);
    c_file_free(f);
    flx_buffer_free(&source);
    return sizes.arena_bytes;
}

TEST(standalone_budget_bounds_arena_and_keeps_bits)
{
    subject s = subject_open(tower);
    float usual[65], bounded[65];
    int64_t bytes = compute(&s, 0, usual), budget = bytes * 4 / 5;
    int64_t less = compute(&s, budget, bounded);
    CHECK_MSG(less <= budget, "%lld bytes, the budget is %lld", (long long)less, (long long)budget);
    CHECK(memcmp(usual, bounded, sizeof usual) == 0);
    subject_close(&s);
}

static void refuse(const char *text, int64_t budget, flx_code code)
{
    flx_error err = {0};
    flx_buffer source;
    subject s = subject_open(text);
    const flx_build_options o = {.struct_size = sizeof o, .flags = FLX_BUILD_GRAD, .memory_budget = budget};
    CHECK(flx_build_c(s.g, &o, &source, NULL, NULL, &err) == code && err.message[0]);
    subject_close(&s);
}

TEST(standalone_budget_that_cannot_be_kept_is_refused)
{
    refuse(tower, 64, FLX_E_SIZE);
    refuse(tower, -1, FLX_E_USAGE);
    refuse("graph model(x: f32[N, 8], param w: f32[8]) { return reduce_sum(mul(x, w)) }\n", 4096, FLX_E_UNBOUND_DIM);
}
