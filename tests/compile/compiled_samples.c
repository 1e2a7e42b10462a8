/* SPDX-License-Identifier: Apache-2.0 */
/* compiled_samples.c: samples of every op, compiled, on random and on special values (NaN, infinities, zeros of both
   signs, extremes), and on zeros, where the signs of zeros in results must be those of the reference. Many samples with
   all their dtypes are one graph; kernels for other values are the same kernels.

   A compiler takes ten milliseconds and more for each, so every way of compiling (compiled_ways.h) gets one case in
   many, others with each seed, and the first of each op and dtype on the toy device, of each op and usual dtype without
   optimisation. Effort compiled_all: every case in every way. */
#include "compile/bundle.h"
#include "graph/graph.h"
#include "graph/type/type.h"
#include "ops/opcode.h"
#include "ops/sample.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef bool (*case_filter)(const sample_case *c);

static bundle_spread now = {.most = 1000, .check = bundle_check};
static size_t now_way;
static uint64_t now_turn;
static case_filter now_filter;

/* ---- How close ---- */

static bool is_one_of(const char *const *list, const char *name)
{
    while (*list && strcmp(*list, name) != 0)
        list++;
    return *list;
}

/* Ops whose result is the exact one rounded, or an operand: with numbers of any dtype but complex ones, whose parts are
   several operations. In f32 the reference rounds twice, from double, which for one operation gives the same. */
static bool is_exact_op(const sample_case *c)
{
    static const char *const names[] = {"add",
                                        "sub",
                                        "mul",
                                        "div",
                                        "max",
                                        "min",
                                        "clamp",
                                        "nextafter",
                                        "sqrt",
                                        "neg",
                                        "abs",
                                        "sign",
                                        "floor",
                                        "ceil",
                                        "trunc",
                                        "round",
                                        "square",
                                        "where",
                                        "round_away",
                                        "reduce_max",
                                        "cast",
                                        "reduce_min",
                                        "gather",
                                        "take_along",
                                        "sort",
                                        "topk",
                                        "top_k",
                                        "bitcast",
                                        "gather_nd",
                                        "dynamic_slice",
                                        "dynamic_update_slice",
                                        "cummax",
                                        "cummin",
                                        "relu",
                                        "threshold",
                                        "reciprocal",
                                        NULL};
    bool moves = flxi_ops[c->op].op_class == CLASS_SHAPE && c->op != OP_resize; /* which interpolates */
    return moves || (is_one_of(names, flxi_ops[c->op].name) && !flxi_is_complex(c->dtype));
}

/* ---- Cases ---- */

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

static void add_filled(bundle *b, const sample_case *c, const flx_graph *g, sample_fill fill)
{
    flx_error err = {0};
    flx_tensor *values[SAMPLE_MAX_OPERANDS];
    uint64_t state = sample_seed(c) + (uint64_t)fill;
    for (size_t i = 0; i < flx_graph_input_count(g); i++) {
        values[i] =
            sample_value(flx_graph_context(g), c, i, flx_val_type(g, flx_graph_input(g, i)), fill, &state, &err);
        CHECK_MSG(values[i], "%s: %s", sample_describe(c), err.message);
    }
    char about[160];
    static const char *const fills[] = {"", "special values: ", "special values: ", "", "signs of zeros: ", "all -0: "};
    snprintf(about, sizeof about, "%s%s", fills[fill], sample_describe(c));
    if (fill == FILL_ZEROS || fill == FILL_NEGATIVE)
        bundle_add_signs(b, g, values, about);
    else if (is_exact_op(c))
        bundle_add_exact(b, g, values, about);
    else
        bundle_add(b, g, values, about);
}

/* A fast transform of real numbers adds up pairs of them on the way, so one that is not finite reaches results in which
   it is multiplied by 0 or cancels in the definition. A card adds up other parts of any transform. */
static bool adds_other_parts(const flx_graph *g)
{
    bool found = false;
    flx_error err = {0};
    flx_graph *low = flx_lower(g, FLX_POLICY_FOR_AUTODIFF, &err);
    CHECK_MSG(low != NULL, "%s", err.message);
    for (uint32_t i = 0; i < low->node_count; i++) {
        flxi_opcode op = flxi_node_at(low, i)->op;
        found |= op == OP_rfft || op == OP_irfft || op == OP_rfft_complex || op == OP_irfft_complex;
        found |= (now_way == WAY_cuda || now_way == WAY_opencl) &&
                 (op == OP_fft || op == OP_fft_axis || op == OP_fftn || op == OP_ifftn);
    }
    flx_graph_release(low);
    return found;
}

/* Ops that the toy and a card compute by a decomposition whose steps are not finite where the op's definition still is:
   splats that are not seen count with the factor 0, and the derivative of an adjugate is a mean over complex points. */
static bool decomposes_finite_only(flxi_opcode op)
{
    bool is_rendering = op == OP_gaussian_splat_render || op == OP_gaussian_splat_render_backward;
    return (is_rendering || op == OP_adjugate_along) &&
           (now_way == WAY_toy || now_way == WAY_cuda || now_way == WAY_opencl);
}

/* Loops might never end. An einsum is defined as one sum of products, and computed as sums of sums: (x + y) z is x z +
   y z only while all are finite. */
static bool takes_special_values(const sample_case *c, const flx_graph *g)
{
    return flxi_ops[c->op].op_class != CLASS_CONTROL && c->op != OP_einsum && !decomposes_finite_only(c->op) &&
           !adds_other_parts(g);
}

/* docs/numerics.md, "Infinities, NaN and signed zeros", says where signs of zeros are not defined. */
static bool defines_signs(const sample_case *c, const flx_graph *g)
{
    bool has_signs = flxi_is_float(c->dtype) || c->dtype == FLX_DTYPE_NONE;
    has_signs &= c->op != OP_resize && !decomposes_finite_only(c->op);
    return has_signs && flxi_ops[c->op].op_class != CLASS_CONTROL && !adds_other_parts(g);
}

static void add_case(const sample_case *c)
{
    if (c->sample->error != FLX_OK || (!effort(EFFORT_compiled_all) && !now_filter(c)))
        return;
    bundle *b = bundle_spread_open(&now, now_way);
    flx_module *m;
    flx_graph *g = parse_bound(now.at[now_way].ctx, c, &m);
    bool takes_extremes = flxi_ops[c->op].op_class == CLASS_POINTWISE || is_exact_op(c);
    add_filled(b, c, g, FILL_RANDOM);
    if (takes_special_values(c, g))
        add_filled(b, c, g, takes_extremes ? FILL_SPECIAL : FILL_TAME);
    if (defines_signs(c, g)) {
        add_filled(b, c, g, FILL_ZEROS);
        add_filled(b, c, g, FILL_NEGATIVE);
    }
    flx_graph_release(g);
    flx_module_free(m);
}

/* ---- Ways ---- */

static bool is_usual_dtype(const sample_case *c)
{
    static const int32_t usual[] = {FLX_DTYPE_NONE, FLX_F32, FLX_F64, FLX_BF16, FLX_I32, FLX_BOOL, FLX_C64};
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (usual[i] == c->dtype)
            return true;
    return false;
}

/* One case in `share`: `now_turn` counts those of the current test. */
static bool is_turn(uint64_t share)
{
    return (now_turn++ + test_seed()) % share == 0;
}

static bool is_first_of_dtype(const sample_case *c)
{
    static sample_case last;
    static uint64_t seen;
    if (last.op != c->op)
        seen = 0;
    last = *c;
    bool is_first = !(seen >> c->dtype & 1);
    seen |= UINT64_C(1) << c->dtype;
    return is_first;
}

static bool is_first_or_turn(const sample_case *c)
{
    bool is_first = is_first_of_dtype(c);
    return is_turn(11) || is_first;
}

static bool is_usual_first_or_turn(const sample_case *c)
{
    bool is_first = is_first_of_dtype(c) && is_usual_dtype(c);
    return is_turn(41) || is_first;
}

static bool is_usual_turn(const sample_case *c)
{
    return is_usual_dtype(c) && is_turn(15);
}

static bool is_rare_turn(const sample_case *c)
{
    (void)c;
    return is_turn(97);
}

/* PoCL takes a tenth of a second for a kernel. */
static bool is_very_rare_turn(const sample_case *c)
{
    (void)c;
    return is_turn(997);
}

static case_filter filter_of(size_t way)
{
    if (way == WAY_toy || way == WAY_cuda)
        return is_first_or_turn;
    if (way == WAY_without_optimisation)
        return is_usual_first_or_turn;
    if (way == WAY_opencl)
        return is_very_rare_turn;
    return way == WAY_grouped ? is_usual_turn : is_rare_turn;
}

static void check_way(size_t way)
{
    if (!way_is_here(way))
        return;
    now_way = way;
    now_turn = 0;
    now_filter = filter_of(way);
    sample_each(add_case);
    bundle_spread_end(&now);
}

#define SAMPLES_TEST(name, threads, flags, level, compiler, device) \
    TEST(compiled_samples_##name)                                   \
    {                                                               \
        check_way(WAY_##name);                                      \
    }
COMPILED_WAYS(SAMPLES_TEST)
