/* SPDX-License-Identifier: Apache-2.0 */
/* partition_samples.c: every op that says how it runs on parts gives the same result from parts: its samples, with each
   axis of each operand cut, on ranks that are threads. */
#include "../backend/collective/local_ranks.h"
#include "../ops/sample.h"
#include "../test.h"
#include "graph/op/op.h"

#include <fluxion/mesh.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    flx_buffer bytes; /* of the graph */
    char axes[16], spec[64];
    flx_sharding cut;
    flx_feed feeds[SAMPLE_MAX_OPERANDS];
    size_t num_feeds, num_outputs;
    flx_tensor *want[SAMPLE_MAX_OPERANDS];
    bool computes_on_parts;
} parts_case;

static int64_t num_on_parts;

static bool is_close(const flx_tensor *got, const flx_tensor *want)
{
    double scale = 1;
    if (flx_tensor_count(got) != flx_tensor_count(want))
        return false;
    for (int64_t i = 0; i < flx_tensor_count(want); i++)
        if (isfinite(flx_tensor_get(want, i)))
            scale = fmax(scale, fabs(flx_tensor_get(want, i)));
    for (int64_t i = 0; i < flx_tensor_count(want); i++) {
        double a = flx_tensor_get(got, i), b = flx_tensor_get(want, i);
        if (!(fabs(a - b) <= 1e-9 * scale) && a != b && !(isnan(a) && isnan(b)))
            return false;
    }
    return true;
}

static void run_part(local_rank *r)
{
    parts_case *c = r->user;
    flx_feed feeds[SAMPLE_MAX_OPERANDS];
    flx_tensor *out[SAMPLE_MAX_OPERANDS] = {0};
    flx_partition_report report = {.struct_size = sizeof report};
    flx_module *m = flx_decode(r->ctx, c->bytes.data, c->bytes.size, "test", &r->err);
    CHECK_MADE(m, &r->err);
    flx_graph *g = flx_partition(flx_module_main(m), c->axes, &c->cut, 1, &report, &r->err);
    CHECK_MADE(g, &r->err);
    for (size_t i = 0; i < c->num_feeds; i++) {
        const flx_tensor *x = c->feeds[i].value;
        bool is_cut = strcmp(c->feeds[i].name, c->cut.name) == 0;
        feeds[i].name = c->feeds[i].name;
        feeds[i].value = is_cut ? flx_mesh_part(r->ctx, x, c->axes, c->spec, r->rank, &r->err)
                                : flx_tensor_new(r->ctx, flx_tensor_type(x), flx_tensor_const_data(x), &r->err);
    }
    CHECK_OK(flx_run(g, ON_REF, feeds, c->num_feeds, out, &r->err), &r->err);
    for (size_t k = 0; k < c->num_outputs; k++) {
        EXPECT_MSG(is_close(out[k], c->want[k]), "output %zu differs on rank %lld", k, (long long)r->rank);
        flx_tensor_release(out[k]);
    }
    for (size_t i = 0; i < c->num_feeds; i++)
        flx_tensor_release((flx_tensor *)(uintptr_t)feeds[i].value);
    if (r->rank == 0)
        c->computes_on_parts = report.cut > 0;
    flx_graph_release(g);
    flx_module_free(m);
}

static void cut_axis(parts_case *c, const sample_case *s, size_t operand, int axis)
{
    const flx_type *t = flx_tensor_type(c->feeds[operand].value);
    int64_t ranks = t->dims[axis] % 2 == 0 ? 2 : 3;
    if (t->dims[axis] < 2 || t->dims[axis] % ranks)
        return;
    c->spec[0] = 0;
    for (int k = 0; k < t->rank; k++)
        strcat(strcat(c->spec, k ? "," : ""), k == axis ? "data" : "-");
    c->cut = (flx_sharding){c->feeds[operand].name, c->spec};
    snprintf(c->axes, sizeof c->axes, "data=%lld", (long long)ranks);
    test_fail_context("%s, operand %zu cut as %s", sample_describe(s), operand, c->spec);
    local_ranks_run(ranks, c->axes, 30, run_part, c);
    num_on_parts += c->computes_on_parts;
    test_count_case();
}

static void check_graph(const sample_case *s, const flx_graph *g)
{
    flx_error err = {0};
    uint64_t state = sample_seed(s);
    parts_case c = {.num_feeds = flx_graph_input_count(g), .num_outputs = flx_graph_output_count(g)};
    for (size_t i = 0; i < c.num_feeds; i++) {
        flx_val v = flx_graph_input(g, i);
        flx_tensor *x = sample_value(flx_graph_context(g), s, i, flx_val_type(g, v), FILL_RANDOM, &state, &err);
        CHECK_MADE(x, &err);
        c.feeds[i] = (flx_feed){flx_val_name(g, v), x};
    }
    if (flx_run(g, ON_REF, c.feeds, c.num_feeds, c.want, &err) == FLX_OK) {
        CHECK_OK(flx_graph_encode(g, &c.bytes, &err), &err);
        for (size_t i = 0; i < c.num_feeds; i++)
            for (int k = 0; k < flx_tensor_type(c.feeds[i].value)->rank; k++)
                cut_axis(&c, s, i, k);
        flx_buffer_free(&c.bytes);
    }
    for (size_t k = 0; k < c.num_outputs; k++)
        flx_tensor_release(c.want[k]);
    for (size_t i = 0; i < c.num_feeds; i++)
        flx_tensor_release((flx_tensor *)(uintptr_t)c.feeds[i].value);
}

static void check_sample(const sample_case *s)
{
    bool is_usual = s->dtype == FLX_F64 || s->dtype == FLX_DTYPE_NONE;
    if (!flxi_ops[s->op].rules->shard || s->sample->error || !is_usual)
        return;
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = sample_parse(ctx, s, &err);
    flx_graph *g = m ? flx_module_main(m) : NULL, *bound = NULL;
    flx_dim_binding dims[8];
    size_t n = 0;
    for (const char *symbol; g && n < 8 && (symbol = flx_graph_symbol(g, n)) != NULL; n++)
        dims[n] = (flx_dim_binding){symbol, SAMPLE_EXTENT};
    if (g)
        bound = flx_specialise(g, dims, n, &err);
    if (bound)
        check_graph(s, bound);
    flx_graph_release(bound);
    flx_module_free(m);
    flx_context_free(ctx);
}

TEST(partition_samples_compute_the_same)
{
    num_on_parts = 0;
    sample_each(check_sample);
    if (!getenv("FLX_TEST_CASE"))
        CHECK_MSG(num_on_parts > 100, "only %lld cases computed on parts", (long long)num_on_parts);
}
