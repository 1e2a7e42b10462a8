/* SPDX-License-Identifier: Apache-2.0 */
/* standalone_samples.c: samples of every op as C files, compiled and compared with the reference. Many samples are one
   file. One in many is compiled, others with each seed; effort standalone_share=1: all. */
#include "effort.h"
#include "graph/graph.h"
#include "ops/sample.h"
#include "standalone/c_file.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PER_FILE = 300 };

static struct {
    flx_context *ctx;
    bundle *b;
    size_t built, refused;
    uint64_t turn, share;
    const char *compiler, *flags;
    int vector_bytes;
    bool only_builds; /* nothing is compiled */
    bool has_bits;    /* results must have the bits of the device `cpu` */
    size_t other_bits;
} now;

/* How the device `cpu` computes what a C file adds in another order: by the evaluator (complex convolutions, updates of
   scatters out of order …), by patches (three spatial axes), from packed weights, by groups of one row or column, by
   adjugates of matrices, by a library of the system. */
static bool is_added_otherwise(const flx_graph *g)
{
    static const char *const ways[] = {"= evaluate ", " by patches(",  " by packed(",
                                       " by groups(", " by matrices(", " by lapack("};
    bool found = false;
    flx_buffer steps = {0};
    flx_error err = {0};
    CHECK_OK(flx_show_stage(g, FLX_STAGE_LIR, NULL, &steps, &err), &err);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        found |= strstr(steps.data, ways[i]) != NULL;
    bool is_complex = strstr(steps.data, ": c64[") || strstr(steps.data, ": c128[");
    found |= is_complex && strstr(steps.data, " by windows("); /* products of updates */
    flx_buffer_free(&steps);
    return found;
}

/* Of a piece whose results have other bits than those of the device. */
static void count_other_bits(const flx_graph *g, const char *about)
{
    now.other_bits++;
    EXPECT_MSG(is_added_otherwise(g), "%s: other bits than on cpu", about);
    if (effort(EFFORT_report))
        printf("other bits than cpu: %s\n", about);
}

static void close_file(void)
{
    if (!now.b)
        return;
    if (now.has_bits)
        c_file_check_bits(now.b, now.compiler, now.flags, now.vector_bytes, count_other_bits);
    else
        c_file_check_bundle(now.b, now.compiler, now.flags, now.vector_bytes);
    bundle_free(now.b);
    flx_context_free(now.ctx);
    now.b = NULL;
}

static void open_file(void)
{
    if (now.b && bundle_size(now.b) >= PER_FILE)
        close_file();
    if (now.b)
        return;
    now.ctx = bundle_context();
    now.b = bundle_new(now.ctx);
}

/* Whether the graph can be a C file. */
static bool is_built(const flx_graph *g, const sample_case *c)
{
    flx_error err = {0};
    flx_buffer text = {0};
    flx_build_options o = {.struct_size = sizeof o, .flags = FLX_BUILD_TABLES, .vector_bytes = now.vector_bytes};
    flx_code code = flx_build_c(g, &o, &text, NULL, NULL, &err);
    flx_buffer_free(&text);
    CHECK_MSG(code == FLX_OK || code == FLX_E_UNSUPPORTED, "%s: %s", sample_describe(c), err.message);
    now.built += code == FLX_OK;
    now.refused += code != FLX_OK;
    if (code != FLX_OK && effort(EFFORT_report))
        printf("refused: %s: %s\n", sample_describe(c), err.message);
    return code == FLX_OK;
}

static void add_values(const sample_case *c, const flx_graph *g)
{
    flx_error err = {0};
    flx_tensor *values[SAMPLE_MAX_OPERANDS];
    uint64_t state = sample_seed(c);
    for (size_t i = 0; i < flx_graph_input_count(g); i++) {
        values[i] =
            sample_value(flx_graph_context(g), c, i, flx_val_type(g, flx_graph_input(g, i)), FILL_RANDOM, &state, &err);
        CHECK_MSG(values[i], "%s: %s", sample_describe(c), err.message);
    }
    bundle_add(now.b, g, values, sample_describe(c));
}

static void add_case(const sample_case *c)
{
    flx_error err = {0};
    flx_dim_binding dims[8];
    size_t n = 0;
    if (c->sample->error != FLX_OK || (now.turn++ + test_seed()) % now.share != 0)
        return;
    open_file();
    flx_module *m = sample_parse(now.ctx, c, &err);
    CHECK_MSG(m, "%s: %s", sample_describe(c), err.message);
    flx_graph *g = flx_module_main(m);
    for (const char *s; n < 8 && (s = flx_graph_symbol(g, n)) != NULL; n++)
        dims[n] = (flx_dim_binding){s, SAMPLE_EXTENT};
    flx_graph *bound = flx_specialise(g, dims, n, &err);
    CHECK_MSG(bound, "%s: %s", sample_describe(c), err.message);
    if (is_built(bound, c) && !now.only_builds)
        add_values(c, bound);
    flx_graph_release(bound);
    flx_module_free(m);
}

static void check_all(const char *compiler, const char *flags, int vector_bytes, uint64_t share)
{
    now.compiler = compiler;
    now.flags = flags;
    now.vector_bytes = vector_bytes;
    now.share = share;
    now.built = now.refused = 0;
    sample_each(add_case);
    close_file();
}

/* Also with the device `cpu`, to the bit, where it adds in the same order. */
static void check_all_bits(const char *flags, int vector_bytes, uint64_t share)
{
    now.has_bits = true;
    now.other_bits = 0;
    check_all("gcc", flags, vector_bytes, share);
    now.has_bits = false;
    if (effort(EFFORT_report))
        printf("%zu of %zu samples have other bits than on cpu\n", now.other_bits, now.built);
}

TEST(standalone_samples_agree_with_reference)
{
    check_all("gcc", "-O0", 0, (uint64_t)effort(EFFORT_standalone_share));
    if (effort(EFFORT_report))
        printf("%zu samples built, %zu refused\n", now.built, now.refused);
}

TEST(standalone_samples_by_clang_agree_with_reference)
{
    if (test_has_program("clang"))
        check_all("clang", "-O1", 0, 3 * (uint64_t)effort(EFFORT_standalone_share));
}

/* The size of vectors that the processor has; where it has fused multiply-adds, bits are those of compiled graphs. */
TEST(standalone_samples_in_vectors_agree_with_reference)
{
    uint64_t share = 2 * (uint64_t)effort(EFFORT_standalone_share);
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        check_all_bits("-O1 -mavx2 -mfma -Wno-psabi", 32, share);
    else
        check_all("gcc", "-O1 -Wno-psabi", 16, share);
#else
    check_all("gcc", "-O1", 16, share);
#endif
}

/* Nearly all ops can be in a C file; docs/standalone.md lists the others. */
TEST(standalone_samples_can_nearly_all_be_built)
{
    now.share = 13;
    now.vector_bytes = 0;
    now.built = now.refused = 0;
    now.only_builds = true;
    sample_each(add_case);
    now.only_builds = false;
    close_file();
    if (effort(EFFORT_report))
        printf("%zu samples built, %zu refused\n", now.built, now.refused);
    CHECK_MSG(now.refused * 30 <= now.built, "%zu of %zu samples are refused", now.refused, now.built + now.refused);
}
