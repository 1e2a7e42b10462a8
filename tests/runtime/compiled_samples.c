/* compiled_samples.c: every sample of every op, compiled: all samples of an op with all dtypes are one graph. */
#include "../ops/sample.h"
#include "../test.h"
#include "bundle.h"

#include <stdlib.h>
#include <string.h>

static bundle *now;
static flx_context *now_ctx;
static flxi_opcode now_op;
static flx_compile_options now_options;

static void close_bundle(void)
{
    if (!now)
        return;
    test_fail_context("op %s", flxi_ops[now_op].name);
    bundle_check(now, &now_options);
    bundle_free(now);
    flx_context_free(now_ctx);
    now = NULL;
}

static void add_case(const sample_case *c)
{
    flx_error err = {0};
    if (c->sample->error != FLX_OK)
        return;
    if (now && now_op != c->op)
        close_bundle();
    if (!now) {
        now_ctx = flx_context_new(NULL);
        now = bundle_new(now_ctx);
        now_op = c->op;
    }
    flx_module *m = sample_parse(now_ctx, c, &err);
    CHECK_MSG(m, "%s: %s", sample_describe(c), err.message);
    flx_dim_binding dims[8];
    size_t n = 0;
    flx_graph *g = flx_module_main(m);
    for (const char *s; n < 8 && (s = flx_graph_symbol(g, n)) != NULL; n++)
        dims[n] = (flx_dim_binding){s, SAMPLE_EXTENT};
    flx_graph *bound = flx_specialise(g, dims, n, &err);
    CHECK_MSG(bound, "%s: %s", sample_describe(c), err.message);
    flx_tensor *values[SAMPLE_MAX_OPERANDS];
    uint64_t state = test_seed() + (uint64_t)c->op * 977;
    for (size_t i = 0; i < flx_graph_input_count(bound); i++) {
        values[i] = sample_value(now_ctx, c, i, flx_val_type(bound, flx_graph_input(bound, i)), FILL_RANDOM, &state, &err);
        CHECK_MSG(values[i], "%s: %s", sample_describe(c), err.message);
    }
    bundle_add(now, bound, values, sample_describe(c), 1);
    flx_graph_free(bound);
    flx_module_free(m);
}

static void check_way(size_t way)
{
    bundle_way(way, &now_options);
    sample_each(add_case);
    close_bundle();
}

TEST(compiled_samples_fused) { check_way(0); }
TEST(compiled_samples_two_threads) { check_way(1); }
TEST(compiled_samples_unfused) { check_way(2); }
TEST(compiled_samples_interpreted) { check_way(3); }
TEST(compiled_samples_scalar) { check_way(4); }
TEST(compiled_samples_o3) { check_way(5); }
