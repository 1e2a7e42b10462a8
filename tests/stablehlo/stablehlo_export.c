/* SPDX-License-Identifier: Apache-2.0 */
/* stablehlo_export.c: graphs as StableHLO text. Every sample of every op is written, read back and run again, unless
   its op is among those that have no counterpart; then what is special about the text.

   FLX_TEST_KEEP=FOLDER also writes each text there, with values, results and how far others may be from them:
   tests/oracle/stablehlo_export.py gives them to another compiler. */
#include "compile/error_bound.h"
#include "fault.h"
#include "graph/op/eval.h"
#include "ops/sample.h"
#include "test.h"

#include <complex.h>
#include <fluxion/stablehlo.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- A sample on its way ---- */

enum { MAX_OUTPUTS = 16 };

typedef struct {
    const sample_case *c;
    flx_context *ctx;
    flx_module *module;
    flx_graph *g;
    flx_buffer text;
    flx_tensor *values[SAMPLE_MAX_OPERANDS];
    flx_tensor *expected[MAX_OUTPUTS], *found[MAX_OUTPUTS];
    double *bounds[MAX_OUTPUTS]; /* once has_bounds */
    bool has_bounds;
    size_t nin, nout;
} trip;

static const flx_run_options on_ref = {.struct_size = sizeof on_ref, .device = "ref"};

static bool run_values(const flx_graph *g, const trip *t, flx_tensor **out, flx_error *err)
{
    flx_feed feeds[SAMPLE_MAX_OPERANDS];
    for (size_t i = 0; i < t->nin; i++)
        feeds[i] = (flx_feed){flx_val_name(g, flx_graph_input(g, i)), t->values[i]};
    return flx_run(g, &on_ref, feeds, t->nin, out, err) == FLX_OK;
}

static void begin_trip(trip *t, const sample_case *c)
{
    flx_error err = {0};
    flx_dim_binding dims[8];
    size_t n = 0;
    *t = (trip){.c = c, .ctx = flx_context_new(NULL)};
    t->module = sample_parse(t->ctx, c, &err);
    CHECK_MSG(t->module, "%s: %s", sample_describe(c), err.message);
    flx_graph *g = flx_module_main(t->module);
    for (const char *s; n < 8 && (s = flx_graph_symbol(g, n)) != NULL; n++)
        dims[n] = (flx_dim_binding){s, SAMPLE_EXTENT};
    t->g = flx_specialise(g, dims, n, &err);
    CHECK_MSG(t->g, "%s: %s", sample_describe(c), err.message);
    t->nin = flx_graph_input_count(t->g);
    t->nout = flx_graph_output_count(t->g);
    CHECK(t->nin <= SAMPLE_MAX_OPERANDS && t->nout <= MAX_OUTPUTS);
}

/* False where the sample does not run. */
static bool fill_trip(trip *t, sample_fill fill)
{
    flx_error err = {0};
    uint64_t state = sample_seed(t->c) + (uint64_t)fill;
    for (size_t i = 0; i < t->nin; i++) {
        const flx_type *type = flx_val_type(t->g, flx_graph_input(t->g, i));
        t->values[i] = sample_value(t->ctx, t->c, i, type, fill, &state, &err);
        CHECK_MSG(t->values[i], "%s: %s", sample_describe(t->c), err.message);
    }
    return run_values(t->g, t, t->expected, &err);
}

static void empty_trip(trip *t)
{
    for (size_t i = 0; i < t->nin; i++)
        flx_tensor_release(t->values[i]);
    for (size_t k = 0; k < t->nout; k++) {
        flx_tensor_release(t->expected[k]);
        flx_tensor_release(t->found[k]);
        free(t->bounds[k]);
        t->expected[k] = t->found[k] = NULL;
        t->bounds[k] = NULL;
    }
    t->has_bounds = false;
}

static void end_trip(trip *t)
{
    flx_buffer_free(&t->text);
    flx_graph_release(t->g);
    flx_module_free(t->module);
    flx_context_free(t->ctx);
}

/* ---- How close ---- */

/* The largest |element| of an operand. */
static double reach_of(const flx_tensor *t)
{
    double most = 0;
    for (int64_t i = 0; i < t->count; i++) {
        double size = cabs(flxi_load_complex(t->type.dtype, t->data, i));
        most = isfinite(size) && size > most ? size : most;
    }
    return most;
}

/* Sums that the reference rounds once and the text after each step: that may be off by a unit of each partial sum. */
static double rounding_of_steps(const trip *t, int32_t dtype)
{
    const char *op = flxi_ops[t->c->op].name;
    double size = 0;
    if (strcmp(op, "fma") == 0)
        size = reach_of(t->values[0]) * reach_of(t->values[1]) + reach_of(t->values[2]);
    for (size_t i = 0; i < t->nin && strcmp(op, "add_n") == 0; i++)
        size += (double)t->nin * reach_of(t->values[i]);
    for (size_t i = 0; i < t->nin && strcmp(op, "reduce") == 0; i++)
        size += (double)(t->values[0]->count * t->values[0]->count) * reach_of(t->values[i]);
    /* What a decomposition of a matrix loses is relative to the largest element. */
    for (size_t k = 0; k < t->nout && strcmp(flxi_ops[t->c->op].family, "linalg") == 0; k++)
        size += 4 * reach_of(t->expected[k]);
    return size * unit_of(dtype);
}

/* Noise runs what ops are made of; these are made of what their bodies become when they are batched. */
static bool takes_noise(const trip *t)
{
    static const char *const batched[] = {"map", "reduce", "reduce_window", "select_and_scatter"};
    size_t i = 0;
    while (i < sizeof batched / sizeof *batched && strcmp(batched[i], flxi_ops[t->c->op].name) != 0)
        i++;
    return i == sizeof batched / sizeof *batched;
}

/* The bound of error_bound.h beyond that of the element itself. */
static double more_of(trip *t, size_t k, int64_t i)
{
    if (!t->has_bounds && takes_noise(t))
        noise_bounds(t->g, t->values, t->expected, t->bounds);
    t->has_bounds = true;
    return (t->bounds[k] ? t->bounds[k][i] : 0) + rounding_of_steps(t, t->expected[k]->type.dtype);
}

static double own_bound(int32_t dtype, double _Complex y)
{
    return element_bound(dtype, hypot(isfinite(creal(y)) ? creal(y) : 0, isfinite(cimag(y)) ? cimag(y) : 0));
}

static bool is_near(double _Complex a, double _Complex b, double bound)
{
    double x[2] = {creal(a), cimag(a)};
    double y[2] = {creal(b), cimag(b)};
    bool near = true;
    for (int i = 0; i < 2; i++)
        near = near && (x[i] == y[i] || fabs(x[i] - y[i]) <= bound || (isnan(x[i]) && isnan(y[i])));
    return near;
}

static bool is_finite_throughout(const flx_tensor *t)
{
    bool is = true;
    for (int64_t i = 0; i < t->count; i++)
        is = is && isfinite(cabs(flxi_load_complex(t->type.dtype, t->data, i)));
    return is;
}

/* What the text cannot say: squarings of expm overflow to NaN, inverses near the smallest number become 0, and a
   condition beyond the precision is only known to be large. */
static bool is_beyond(const trip *t, size_t k, double _Complex found, double _Complex expected)
{
    const char *op = flxi_ops[t->c->op].name;
    double large = 1 / unit_of(t->expected[k]->type.dtype);
    if (strcmp(op, "expm") == 0)
        return isnan(creal(found)) && !is_finite_throughout(t->expected[k]);
    if (strcmp(op, "pinv") == 0)
        return cabs(found) < 1e-290 && cabs(expected) < 1e-290;
    return strcmp(op, "cond") == 0 && creal(found) >= large && creal(expected) >= large;
}

/* Integers are equal; noise is measured only where a few units are not enough. */
static bool agrees(trip *t, size_t k, int64_t i)
{
    const flx_tensor *a = t->found[k];
    const flx_tensor *b = t->expected[k];
    int32_t dtype = b->type.dtype;
    if (!flxi_is_float(dtype) && !flxi_is_complex(dtype))
        return flxi_load_int(dtype, a->data, i) == flxi_load_int(dtype, b->data, i);
    double _Complex x = flxi_load_complex(dtype, a->data, i);
    double _Complex y = flxi_load_complex(dtype, b->data, i);
    return is_beyond(t, k, x, y) || is_near(x, y, own_bound(dtype, y)) ||
           is_near(x, y, own_bound(dtype, y) + more_of(t, k, i));
}

static void compare_trip(trip *t)
{
    for (size_t k = 0; k < t->nout; k++) {
        const flx_tensor *b = t->expected[k];
        bool same = flxi_type_equal(&t->found[k]->type, &b->type);
        int64_t i = 0;
        while (same && i < b->count && agrees(t, k, i))
            i++;
        EXPECT_MSG(same && i == b->count, "%s: result %zu[%lld] is %.17g, it was %.17g", sample_describe(t->c), k,
                   (long long)i, flx_tensor_get(t->found[k], i), flx_tensor_get(b, i));
    }
}

/* ---- Every sample ---- */

/* What StableHLO cannot express: docs/stablehlo.md says why. */
static const char *const without_counterpart[] = {"eig_pairs",
                                                  "eig",
                                                  "gaussian_splat_prepare",
                                                  "gaussian_splat_rasterize",
                                                  "kernel_call",
                                                  "all_reduce",
                                                  "all_gather",
                                                  "reduce_scatter",
                                                  "all_to_all",
                                                  "collective_permute",
                                                  "axis_index",
                                                  NULL};

static bool has_no_counterpart(const char *op)
{
    const char *const *name = without_counterpart;
    while (*name && strcmp(*name, op) != 0)
        name++;
    return *name;
}

/* Of samples that hold no element and would be too large without their 0: readers of StableHLO refuse such types. */
static bool is_too_large(const flxi_sample *s)
{
    static const char extent[] = "4294967296";
    return strstr(s->operands, extent) || (s->attrs && strstr(s->attrs, extent));
}

/* Blocks of GGUF files whose codes are positions in tables, and floats as bytes. */
static bool has_no_arithmetic(const flxi_sample *s)
{
    static const char *const schemes[] = {"gguf_iq", "gguf_tq", "gguf_mxfp4", "gguf_f32", "gguf_f16", "gguf_bf16"};
    for (size_t i = 0; s->attrs && i < sizeof schemes / sizeof *schemes; i++)
        if (strstr(s->attrs, schemes[i]))
            return true;
    return false;
}

static bool is_written(trip *t)
{
    flx_error err = {0};
    flx_code code = flx_export_stablehlo(t->g, &t->text, &err);
    if (has_no_arithmetic(t->c->sample)) {
        EXPECT_MSG(code == FLX_E_UNSUPPORTED, "%s: can be written after all", sample_describe(t->c));
        return false;
    }
    if (has_no_counterpart(flxi_ops[t->c->op].name))
        return false;
    return EXPECT_MSG(code == FLX_OK, "%s: %s", sample_describe(t->c), err.message);
}

static void read_back(trip *t)
{
    flx_error err = {0};
    flx_module *m = flx_import_stablehlo(t->ctx, t->text.data, t->text.size, NULL, &err);
    if (!EXPECT_MSG(m, "%s: %s at %s", sample_describe(t->c), err.message, err.where))
        return;
    if (EXPECT_MSG(run_values(flx_module_main(m), t, t->found, &err), "%s: %s", sample_describe(t->c), err.message))
        compare_trip(t);
    flx_module_free(m);
}

/* Of complex numbers it is open which part an infinity makes NaN; elsewhere sums of infinities depend on their order.
   */
static bool takes_special_values(const sample_case *c)
{
    flxi_class k = flxi_ops[c->op].op_class;
    bool is_complex = flxi_is_complex(c->dtype) || sample_says(c->sample, "c64") || sample_says(c->sample, "c128");
    return !is_complex && k != CLASS_CONTROL && k != CLASS_PRODUCT && k != CLASS_WINDOW &&
           strcmp(flxi_ops[c->op].family, "spectrum") != 0;
}

static void round_trip(const sample_case *c)
{
    trip t;
    if (c->sample->error != FLX_OK)
        return;
    begin_trip(&t, c);
    if (is_written(&t) && !is_too_large(c->sample)) {
        for (int k = 0; k < (takes_special_values(c) ? 2 : 1); k++) {
            if (fill_trip(&t, k ? FILL_SPECIAL : FILL_RANDOM))
                read_back(&t);
            empty_trip(&t);
        }
    }
    test_count_case();
    end_trip(&t);
}

TEST(stablehlo_export_of_every_sample_reads_back)
{
    sample_each(round_trip);
}

/* Each op of the list has a sample that cannot be written, and says so. */
static bool refused[1024];

static void note_refusal(const sample_case *c)
{
    flx_error err = {0};
    trip t;
    if (c->sample->error != FLX_OK || !has_no_counterpart(flxi_ops[c->op].name))
        return;
    begin_trip(&t, c);
    flx_code code = flx_export_stablehlo(t.g, &t.text, &err);
    EXPECT_MSG(code == FLX_OK || (code == FLX_E_UNSUPPORTED && err.hint[0]), "%s: code %d, %s", sample_describe(c),
               (int)code, err.message);
    CHECK(c->op < sizeof refused);
    refused[c->op] |= code == FLX_E_UNSUPPORTED;
    end_trip(&t);
}

TEST(stablehlo_export_names_what_has_no_counterpart)
{
    sample_each(note_refusal);
    for (const char *const *name = without_counterpart; *name && !test_case_wanted(); name++)
        EXPECT_MSG(refused[flxi_op_lookup(*name, strlen(*name))], "%s can be written after all", *name);
}

/* ---- Samples for another compiler ---- */

static void keep_text(const char *path, const flx_buffer *text)
{
    FILE *f = fopen(path, "w");
    CHECK_MSG(f, "%s cannot be written", path);
    fwrite(text->data, 1, text->size, f);
    fclose(f);
}

static flx_tensor *bound_tensor(trip *t, size_t k)
{
    flx_error err = {0};
    const flx_tensor *y = t->expected[k];
    flx_type type = y->type;
    type.dtype = FLX_F64;
    flx_tensor *bound = flx_tensor_new(t->ctx, &type, NULL, &err);
    CHECK_MSG(bound, "%s", err.message);
    for (int64_t i = 0; i < y->count; i++)
        ((double *)flx_tensor_data(bound))[i] =
            own_bound(y->type.dtype, flxi_load_complex(y->type.dtype, y->data, i)) + more_of(t, k, i);
    return bound;
}

/* FOLDER/NUMBER_op.mlir, and in .npz its in0 …, out0 … and bound0 … */
static void keep_sample(trip *t, const char *folder, unsigned number)
{
    enum { ROOM = SAMPLE_MAX_OPERANDS + 2 * MAX_OUTPUTS };
    char path[512];
    char names[ROOM][16];
    const char *keys[ROOM];
    const flx_tensor *tensors[ROOM];
    size_t n = 0;
    flx_error err = {0};
    snprintf(path, sizeof path, "%s/%05u_%s.mlir", folder, number, flxi_ops[t->c->op].name);
    keep_text(path, &t->text);
    for (size_t i = 0; i < t->nin; i++, n++) {
        snprintf(names[n], sizeof names[n], "in%u", (unsigned)i);
        tensors[n] = t->values[i];
    }
    for (size_t k = 0; k < 2 * t->nout; k++, n++) {
        snprintf(names[n], sizeof names[n], "%s%u", k % 2 ? "bound" : "out", (unsigned)k / 2);
        tensors[n] = k % 2 ? bound_tensor(t, k / 2) : t->expected[k / 2];
    }
    for (size_t i = 0; i < n; i++)
        keys[i] = names[i];
    snprintf(path, sizeof path, "%s/%05u_%s.npz", folder, number, flxi_ops[t->c->op].name);
    CHECK_OK(flx_npz_write(path, keys, tensors, n, &err), &err);
    for (size_t k = 0; k < t->nout; k++)
        flx_tensor_release((flx_tensor *)(uintptr_t)tensors[t->nin + 2 * k + 1]);
}

static void keep_case(const sample_case *c)
{
    static unsigned number;
    trip t;
    if (c->sample->error != FLX_OK || is_too_large(c->sample))
        return;
    begin_trip(&t, c);
    if (is_written(&t)) {
        if (fill_trip(&t, FILL_RANDOM))
            keep_sample(&t, test_keep_dir(), number++);
        empty_trip(&t);
    }
    end_trip(&t);
}

TEST(stablehlo_export_keeps_samples)
{
    if (test_keep_dir())
        sample_each(keep_case);
}

/* ---- Misuse, and memory that runs out ---- */

static const char mixed_text[] = "graph step(h: f32[2], x: f32[2]) { return tanh(add(h, x)) }\n"
                                 "graph f(a: f32[3, 3], h: f32[2], xs: f32[4, 2], i: i32[2]) {\n"
                                 "  p = inv(a)\n"
                                 "  last = scan(h, xs, body=@step)\n"
                                 "  o, n = top_k(last, k=1)\n"
                                 "  y = gather(a, i, oob=zero)\n"
                                 "  return p, o, n, y, const(f32[2], [1, nan])\n"
                                 "}\n";

static flx_code export_text(flx_context *ctx, const char *source, flx_buffer *text, flx_error *err)
{
    flx_module *m = flx_parse(ctx, source, strlen(source), NULL, err);
    flx_code code = m ? flx_export_stablehlo(flx_module_main(m), text, err) : (flx_code)err->code;
    flx_module_free(m);
    return code;
}

TEST(stablehlo_export_refuses_what_it_cannot_take)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_buffer text = {0};
    CHECK_CODE(flx_export_stablehlo(NULL, &text, &err), FLX_E_USAGE, &err);
    CHECK_CODE(export_text(ctx, "graph f(x: f32[N]) { return exp(x) }", &text, &err), FLX_E_UNSUPPORTED, &err);
    CHECK(strstr(err.message, "symbolic dimension N") && strstr(err.hint, "--set"));
    flx_graph *g = flx_graph_new(ctx, "g");
    CHECK_CODE(flx_export_stablehlo(g, NULL, &err), FLX_E_USAGE, &err);
    flx_type t = flx_type_make(FLX_F32, 0, NULL);
    flx_output(g, flx_op1(g, "no_such_op", (flx_val[]){flx_input(g, "x", &t)}, 1, NULL, 0), NULL);
    CHECK(flx_export_stablehlo(g, &text, &err) != FLX_OK);
    CHECK(!text.data);
    flx_graph_release(g);
    flx_context_free(ctx);
}

TEST(stablehlo_export_is_the_same_every_time)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_buffer first = {0};
    flx_buffer second = {0};
    CHECK_OK(export_text(ctx, mixed_text, &first, &err), &err);
    CHECK_OK(export_text(ctx, mixed_text, &second, &err), &err);
    CHECK_EQ_STR(first.data, second.data);
    flx_buffer_free(&first);
    flx_buffer_free(&second);
    flx_context_free(ctx);
}

TEST(stablehlo_export_survives_want_of_memory)
{
    bool done = false;
    for (size_t n = 1; !done; n += 1 + n / 64) {
        fault f = {.fail_at = n};
        flx_context *ctx = flx_context_new(&(flx_context_options){.alloc = fault_alloc, .alloc_user = &f});
        flx_error err = {0};
        flx_buffer text = {0};
        flx_code code = ctx ? export_text(ctx, mixed_text, &text, &err) : FLX_E_OOM;
        CHECK_MSG(code == FLX_OK || code == FLX_E_OOM, "request %zu: code %d, %s", n, (int)code, err.message);
        done = code == FLX_OK && f.failed == 0;
        flx_buffer_free(&text);
        flx_context_free(ctx);
        CHECK_MSG(fault_is_clean(&f), "request %zu: %zu blocks leaked, %zu errors", n, f.live_blocks, f.errors);
    }
}
