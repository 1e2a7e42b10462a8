/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_texts.c: what the device "cuda" emits is CUDA C that NVRTC compiles, for three generations of cards. It needs
   the library, and no card: the kernels of the samples of ops are made as for a card. One sample in many has its turn,
   others with each seed; effort compiled_all: all of them. */
#include "backend/card/card_numbers.h"
#include "backend/cuda/cuda_compile.h"
#include "backend/cuda/cuda_kernel.h"
#include "backend/cuda/cuda_way.h"
#include "compile/compiled_ways.h"
#include "compile/program.h"
#include "ops/sample.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const flxi_device flxi_device_cuda;

static const char *const architectures[] = {"sm_80", "sm_90a", "sm_100"};

enum { MOST_KERNELS = 60, MOST_PROGRAMS = 400 };

static struct {
    flx_context *ctx;
    flxi_program programs[MOST_PROGRAMS];
    size_t num_programs, num_kernels, num_done;
} now;

static void keep_failed(const char *text)
{
    const char *dir = getenv("FLX_TEST_KEEP");
    char path[300];
    snprintf(path, sizeof path, "%s/cuda_text.cu", dir ? dir : "");
    FILE *f = dir ? fopen(path, "w") : NULL;
    if (f) {
        fputs(text, f);
        fclose(f);
    }
}

static void assemble(const char *text)
{
    for (size_t i = 0; i < sizeof architectures / sizeof *architectures; i++) {
        flx_error err = {0};
        unsigned char *bytes;
        size_t size = 0;
        flx_code code = flxi_cuda_assemble(flxi_context_mem(now.ctx), architectures[i], text, &bytes, &size, &err);
        if (code != FLX_OK)
            keep_failed(text);
        CHECK_OK(code, &err);
        CHECK(size > 100);
        flxi_free(flxi_context_mem(now.ctx), bytes, size, 1);
    }
}

static void flush(void)
{
    flx_error err = {0};
    flxi_strbuf text;
    flx_kernel **kernels = calloc(now.num_kernels + 1, sizeof *kernels);
    bool *is_call = calloc(now.num_kernels + 1, sizeof *is_call);
    flxi_compile_request q = {.ctx = now.ctx, .kernels = kernels, .is_call = is_call};
    for (size_t i = 0; i < now.num_programs; i++)
        for (size_t k = 0; k < now.programs[i].kernels.n; k++)
            kernels[q.num_kernels++] = now.programs[i].kernels.at[k].kernel;
    flxi_strbuf_init(&text, flxi_context_mem(now.ctx));
    if (q.num_kernels) {
        CHECK_OK(flxi_cuda_write_source(&q, &text, &err), &err);
        assemble(text.at);
    }
    flxi_strbuf_free(&text);
    for (size_t i = 0; i < now.num_programs; i++)
        flxi_program_free(&now.programs[i]);
    now.num_done += now.num_kernels;
    now.num_programs = now.num_kernels = 0;
    free(kernels);
    free(is_call);
}

/* Which ops the host computes, with the effort "report". */
static void report_host_steps(const flxi_program *m)
{
    for (uint32_t i = 0; effort(EFFORT_report) && i < m->main->num_steps; i++)
        if (m->main->steps[i].kind == STEP_EVALUATE)
            printf("on the host: %s\n", flxi_ops[flxi_node_at(m->main->g, m->main->steps[i].node)->op].name);
}

static void make_program(const flx_graph *g, const char *about)
{
    flx_error err = {0};
    flx_compile_options o = {.struct_size = sizeof o};
    flxi_program *m = &now.programs[now.num_programs++];
    flxi_program_init(m, now.ctx, &flxi_device_cuda, &o);
    CHECK_MSG(flxi_routine_compile(m, g, &m->main, &err) == FLX_OK, "%s: %s", about, err.message);
    report_host_steps(m);
    for (size_t k = 0; k < m->kernels.n; k++)
        CHECK_MSG(flxi_cuda_check_kernel(m->kernels.at[k].kernel, &err) == FLX_OK, "%s: %s", about, err.message);
    now.num_kernels += m->kernels.n;
    if (now.num_kernels >= MOST_KERNELS || now.num_programs == MOST_PROGRAMS)
        flush();
}

static void add_case(const sample_case *c)
{
    flx_error err = {0};
    flx_dim_binding dims[8];
    size_t n = 0;
    if (c->sample->error != FLX_OK || !case_turn(40))
        return;
    flx_module *m = sample_parse(now.ctx, c, &err);
    CHECK_MSG(m, "%s: %s", sample_describe(c), err.message);
    flx_graph *g = flx_module_main(m);
    for (const char *s; n < 8 && (s = flx_graph_symbol(g, n)) != NULL; n++)
        dims[n] = (flx_dim_binding){s, SAMPLE_EXTENT};
    flx_graph *bound = flx_specialise(g, dims, n, &err);
    CHECK_MSG(bound, "%s: %s", sample_describe(c), err.message);
    make_program(bound, sample_describe(c));
    flx_graph_release(bound);
    flx_module_free(m);
}

static bool begin(void)
{
    flx_error err = {0};
    if (!flxi_cuda_nvrtc(&err)) {
        printf("no NVRTC: %s\n", err.message);
        return false;
    }
    memset(&now, 0, sizeof now);
    now.ctx = flx_context_new(NULL);
    CHECK(now.ctx);
    return true;
}

TEST(cuda_texts_of_samples_compile)
{
    if (!begin())
        return;
    sample_each(add_case);
    flush();
    CHECK(getenv("FLX_TEST_CASE") || now.num_done > 20);
    flx_context_free(now.ctx);
}

/* Rows for a warp, rows for a block, sums of columns, maps with axes. */
TEST(cuda_texts_of_rows_and_maps_compile)
{
    static const char *const texts[] = {
        "graph f(x: f32[64, 1024], g: f32[1024]) {\n"
        "  c = sub(x, reduce_mean(x, axes=[1], keep_dims=true))\n"
        "  return mul(mul(c, rsqrt(add(reduce_mean(mul(c, c), axes=[1], keep_dims=true), 1e-5))), g) }",
        "graph f(x: f32[128, 50304]) { return log_softmax(x, axis=1) }",
        "graph f(x: bf16[4096, 768]) { return reduce_sum(x, axes=[0]) }",
        "graph f(x: c64[3, 70, 5]) { return reduce_prod(x, axes=[1]), transpose(x, perm=[2, 0, 1]) }",
    };
    if (!begin())
        return;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        flx_error err = {0};
        flx_module *m = flx_parse(now.ctx, texts[i], strlen(texts[i]), NULL, &err);
        CHECK_MSG(m, "%s", err.message);
        make_program(flx_module_main(m), texts[i]);
        flx_module_free(m);
    }
    flush();
    flx_context_free(now.ctx);
}

static void check_variant(const flxi_card_text *text, int32_t variant)
{
    flxi_strbuf out;
    flxi_strbuf_init(&out, flxi_context_mem(now.ctx));
    text->write(FLXI_CARD_CUDA, variant, &out);
    CHECK(!out.failed);
    assemble(out.at);
    flxi_strbuf_free(&out);
}

/* A variant of a text, another with each seed; effort compiled_all: all of them. */
static void check_variants(const flxi_card_text *text)
{
    int32_t step = effort(EFFORT_compiled_all) ? 1 : text->num_variants;
    for (int32_t i = (int32_t)(test_seed() % (uint64_t)step); i < text->num_variants; i += step)
        check_variant(text, i);
}

TEST(cuda_texts_of_our_own_compile)
{
    static const flx_dtype numbers[] = {FLX_F32, FLX_F16, FLX_BF16, FLX_I8, FLX_C128};
    if (!begin())
        return;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        check_variant(&flxi_card_product_text, flxi_card_number_of(numbers[i]));
    check_variants(&flxi_card_sum_text);
    check_variants(&flxi_card_index_text);
    check_variants(&flxi_card_running_text);
    check_variants(&flxi_card_sort_text);
    flx_context_free(now.ctx);
}

/* One of these texts, another with each seed; effort compiled_all: all of them. */
TEST(cuda_texts_of_nodes_compile)
{
    static const flxi_card_text *const texts[] = {
        &flxi_card_conv_text,    &flxi_card_keys_text,       &flxi_card_window_text,  &flxi_card_combine_text,
        &flxi_card_grouped_text, &flxi_card_group_keys_text, &flxi_card_fourier_text, &flxi_cuda_dense_text,
        &flxi_cuda_few_text,     &flxi_cuda_orthogonal_text, &flxi_card_along_text,   &flxi_cuda_singular_text,
    };
    const size_t n = sizeof texts / sizeof *texts;
    if (!begin())
        return;
    for (size_t i = 0; i < n; i++)
        if (effort(EFFORT_compiled_all) || i == test_seed() % n)
            check_variants(texts[i]);
    flx_context_free(now.ctx);
}
