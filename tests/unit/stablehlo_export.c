/* stablehlo_export.c: graphs as StableHLO text: every sample of every op is written, or its op is among those that have no
   counterpart; what is special about the text. tests/oracle/stablehlo_export.py gives the same text to another compiler.

   FLX_EXPORT_SAMPLES=FOLDER also writes the text of each sample there, with values of its inputs and outputs. */
#include "../ops/sample.h"
#include "../test.h"

#include <fluxion/stablehlo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Samples ---- */

/* What StableHLO cannot say: docs/stablehlo.md tells why. */
static const char *const without_counterpart[] = {"custom", NULL};

static bool has_no_counterpart(const char *op)
{
    const char *const *name = without_counterpart;
    while (*name && strcmp(*name, op) != 0)
        name++;
    return *name;
}

static flx_graph *parse_bound(flx_context *ctx, const sample_case *c, flx_module **m)
{
    flx_error err = {0};
    flx_dim_binding dims[8];
    size_t n = 0;
    *m = sample_parse(ctx, c, &err);
    CHECK_MSG(*m, "%s: %s", sample_describe(c), err.message);
    flx_graph *g = flx_module_main(*m);
    for (const char *s; n < 8 && (s = flx_graph_symbol(g, n)) != NULL; n++)
        dims[n] = (flx_dim_binding){s, SAMPLE_EXTENT};
    flx_graph *bound = flx_specialise(g, dims, n, &err);
    CHECK_MSG(bound, "%s: %s", sample_describe(c), err.message);
    return bound;
}

static void write_text(const char *path, const flx_buffer *text)
{
    FILE *f = fopen(path, "w");
    CHECK_MSG(f, "%s cannot be written", path);
    fwrite(text->data, 1, text->size, f);
    fclose(f);
}

/* NUMBER_op.mlir, and NUMBER_op.npz with in0 … and out0 … where it runs. */
static const flx_run_options on_ref = {.struct_size = sizeof on_ref, .device = "ref"};

static void keep_sample(const char *folder, const sample_case *c, const flx_graph *g, const flx_buffer *text)
{
    static unsigned number;
    char path[512];
    char names[64][8];
    const char *keys[64];
    flx_tensor *values[64];
    flx_feed feeds[SAMPLE_MAX_OPERANDS];
    flx_error err = {0};
    uint64_t state = test_seed() + (uint64_t)c->op * 977;
    size_t nin = flx_graph_input_count(g);
    size_t nout = flx_graph_output_count(g);
    snprintf(path, sizeof path, "%s/%05u_%s.mlir", folder, number, flxi_ops[c->op].name);
    write_text(path, text);
    for (size_t i = 0; i < nin + nout && i < 64; i++) {
        snprintf(names[i], sizeof names[i], "%s%u", i < nin ? "in" : "out", (unsigned)(i < nin ? i : i - nin) % 100);
        keys[i] = names[i];
    }
    for (size_t i = 0; i < nin; i++) {
        flx_val v = flx_graph_input(g, i);
        values[i] = sample_value(flx_graph_context(g), c, i, flx_val_type(g, v), FILL_RANDOM, &state, &err);
        feeds[i] = (flx_feed){flx_val_name(g, v), values[i]};
    }
    if (nin + nout <= 64 && flx_run(g, &on_ref, feeds, nin, values + nin, &err) == FLX_OK) {
        snprintf(path, sizeof path, "%s/%05u_%s.npz", folder, number, flxi_ops[c->op].name);
        flx_npz_write(path, keys, (const flx_tensor *const *)values, nin + nout, &err);
        for (size_t i = 0; i < nout; i++)
            flx_tensor_release(values[nin + i]);
    }
    for (size_t i = 0; i < nin; i++)
        flx_tensor_release(values[i]);
    number++;
}

static void export_case(const sample_case *c)
{
    const char *folder = getenv("FLX_EXPORT_SAMPLES");
    const char *op = flxi_ops[c->op].name;
    if (c->sample->error != FLX_OK)
        return;
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_module *m = NULL;
    flx_graph *g = parse_bound(ctx, c, &m);
    flx_buffer text = {0};
    flx_code code = flx_export_stablehlo(g, &text, &err);
    if (has_no_counterpart(op))
        EXPECT_MSG(code == FLX_E_UNSUPPORTED, "%s: listed as without counterpart, but code %d: %s", sample_describe(c),
                   (int)code, err.message);
    else
        EXPECT_MSG(code == FLX_OK, "%s: %s", sample_describe(c), err.message);
    if (code == FLX_OK && folder)
        keep_sample(folder, c, g, &text);
    test_count_case();
    flx_buffer_free(&text);
    flx_graph_free(g);
    flx_module_free(m);
    flx_context_free(ctx);
}

TEST(stablehlo_export_every_sample)
{
    sample_each(export_case);
}
