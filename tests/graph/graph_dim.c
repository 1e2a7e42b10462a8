/* SPDX-License-Identifier: Apache-2.0 */
/* graph_dim.c: dimensions: canonical forms, arithmetic against plain integers, binding, solving, limits, text. */
#include "graph/graph_text.h"

#include "graph/type/type.h"

#include <stdio.h>
#include <stdlib.h>

/* The names are legal and distinct from every op. */
static const char *const symbols[] = {"A", "B", "C", "D"};
enum { SYMBOLS = 4 };

static void check_prints_as(flx_context *ctx, flx_dim d, const char *text)
{
    char found[200];
    size_t n = flx_dim_print(ctx, d, found, sizeof found);
    CHECK_EQ_STR(found, text);
    CHECK_EQ_U64(n, strlen(text));
}

/* ---- Canonical forms ---- */

TEST(dim_same_symbol_is_the_same_number)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_dim n = flx_dim_symbol(ctx, "N");
    CHECK_EQ_I64(flx_dim_symbol(ctx, "N"), n);
    CHECK(flx_dim_symbol(ctx, "M") != n);
    CHECK(!flx_dim_is_static(n) && flx_dim_is_static(7) && !flx_dim_is_static(FLX_DIM_INVALID));
    flx_context_free(ctx);
}

TEST(dim_symbol_with_an_odd_name_is_invalid)
{
    static const char *const odd[] = {"", "1", "a b", "a-b", ".a", "é", "true", "inf", "graph", "return", "nan"};
    flx_context *ctx = flx_context_new(NULL);
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++)
        CHECK_MSG(flx_dim_symbol(ctx, odd[i]) == FLX_DIM_INVALID, "'%s' is accepted", odd[i]);
    CHECK_EQ_I64(flx_dim_symbol(ctx, NULL), FLX_DIM_INVALID);
    CHECK_EQ_I64(flx_dim_symbol(NULL, "N"), FLX_DIM_INVALID);
    CHECK(flx_dim_symbol(ctx, "_") != FLX_DIM_INVALID);
    CHECK(flx_dim_symbol(ctx, "a.b_1") != FLX_DIM_INVALID);
    flx_context_free(ctx);
}

TEST(dim_polynomials_print_in_one_order)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_dim n = flx_dim_symbol(ctx, "N");
    flx_dim m = flx_dim_symbol(ctx, "M");
    check_prints_as(ctx, flx_dim_add(ctx, n, m), "M + N");
    check_prints_as(ctx, flx_dim_add(ctx, 3, flx_dim_mul(ctx, n, m)), "M*N + 3");
    check_prints_as(ctx, flx_dim_sub(ctx, 0, n), "-N");
    check_prints_as(ctx, flx_dim_sub(ctx, flx_dim_mul(ctx, n, flx_dim_mul(ctx, n, 2)), 1), "2*N*N - 1");
    check_prints_as(ctx, flx_dim_sub(ctx, n, n), "0");
    check_prints_as(ctx, flx_dim_div(ctx, n, 2), "N/2");
    check_prints_as(ctx, flx_dim_mul(ctx, flx_dim_div(ctx, n, 2), flx_dim_sub(ctx, 0, m)), "-M*(N/2)");
    check_prints_as(ctx, flxi_dim_floor_div(ctx, flx_dim_add(ctx, n, 5), 2), "(N + 1)//2 + 2");
    flx_context_free(ctx);
}

TEST(dim_division_takes_out_what_divides)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_dim n = flx_dim_symbol(ctx, "N");
    flx_dim m = flx_dim_symbol(ctx, "M");
    flx_dim sum = flx_dim_add(ctx, n, m);
    flx_dim gap = flx_dim_sub(ctx, n, m);
    CHECK_EQ_I64(flx_dim_div(ctx, flx_dim_mul(ctx, n, 6), 3), flx_dim_mul(ctx, n, 2));
    CHECK_EQ_I64(flx_dim_div(ctx, flx_dim_mul(ctx, sum, gap), sum), gap);
    CHECK_EQ_I64(flx_dim_div(ctx, flx_dim_mul(ctx, sum, gap), gap), sum);
    CHECK_EQ_I64(flx_dim_div(ctx, n, n), 1);
    CHECK_EQ_I64(flx_dim_div(ctx, 0, n), 0);
    CHECK_EQ_I64(flx_dim_div(ctx, n, 0), FLX_DIM_INVALID);
    CHECK_EQ_I64(flx_dim_div(ctx, 7, 2), FLX_DIM_INVALID);
    CHECK_EQ_I64(flx_dim_div(ctx, -6, 2), -3);
    CHECK(flx_dim_div(ctx, n, m) != FLX_DIM_INVALID);
    CHECK_EQ_I64(flxi_dim_floor_div(ctx, -7, 2), -4);
    CHECK_EQ_I64(flxi_dim_floor_div(ctx, n, 0), FLX_DIM_INVALID);
    CHECK_EQ_I64(flxi_dim_floor_div(ctx, n, -2), FLX_DIM_INVALID);
    CHECK_EQ_I64(flxi_dim_ceil_div(ctx, 7, 2), 4);
    CHECK_EQ_I64(flxi_dim_floor_div(ctx, flx_dim_add(ctx, flx_dim_mul(ctx, n, 4), 7), 2),
                 flx_dim_add(ctx, flx_dim_mul(ctx, n, 2), 3));
    flx_context_free(ctx);
}

TEST(dim_differences_that_are_numbers_are_seen)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_dim n = flx_dim_symbol(ctx, "N");
    flx_dim m = flx_dim_symbol(ctx, "M");
    CHECK(flxi_dims_differ(ctx, n, flx_dim_add(ctx, n, 1)));
    CHECK(!flxi_dims_differ(ctx, n, m) && !flxi_dims_differ(ctx, n, n) && !flxi_dims_differ(ctx, n, 3));
    CHECK(flxi_dims_differ(ctx, 2, 3) && !flxi_dims_differ(ctx, 3, 3));
    CHECK(flxi_dim_below(ctx, n, flx_dim_add(ctx, n, 1)) && !flxi_dim_below(ctx, flx_dim_add(ctx, n, 1), n));
    CHECK(flxi_dim_below(ctx, 2, 3) && !flxi_dim_below(ctx, n, m) && !flxi_dim_below(ctx, n, n));
    CHECK(!flxi_dims_differ(ctx, FLX_DIM_INVALID, n) && !flxi_dim_below(ctx, FLX_DIM_INVALID, n));
    flx_context_free(ctx);
}

/* ---- Random expressions against plain integers ---- */

__extension__ typedef __int128 wide;

typedef struct {
    flx_dim dim;
    wide value; /* at the bindings; meaningless when `bad` */
    bool bad;   /* not an integer there, or too large */
} sample;

typedef struct {
    flx_context *ctx;
    flx_dim_binding at[SYMBOLS];
    uint64_t random;
} world;

static world world_begin(void)
{
    world w = {.ctx = flx_context_new(NULL), .random = test_seed()};
    for (int i = 0; i < SYMBOLS; i++)
        w.at[i] = (flx_dim_binding){symbols[i], (int64_t)(test_random(&w.random) % 12)};
    return w;
}

static sample leaf(world *w)
{
    uint64_t k = test_random(&w->random) % (SYMBOLS + 3);
    if (k < SYMBOLS)
        return (sample){flx_dim_symbol(w->ctx, symbols[k]), w->at[k].extent, false};
    int64_t v = (int64_t)(test_random(&w->random) % 9) - 3;
    return (sample){v, v, false};
}

static sample combine(world *w, int op, sample a, sample b)
{
    sample c = {.bad = a.bad || b.bad};
    wide q = b.value ? a.value / b.value : 0;
    switch (op) {
    case 0: return (sample){flx_dim_add(w->ctx, a.dim, b.dim), a.value + b.value, c.bad};
    case 1: return (sample){flx_dim_sub(w->ctx, a.dim, b.dim), a.value - b.value, c.bad};
    case 2: return (sample){flx_dim_mul(w->ctx, a.dim, b.dim), a.value * b.value, c.bad};
    case 3:
        c.bad |= b.value == 0 || a.value % b.value != 0;
        return (sample){flx_dim_div(w->ctx, a.dim, b.dim), q, c.bad};
    default:
        c.bad |= b.value <= 0;
        q -= b.value > 0 && a.value % b.value < 0;
        return (sample){flxi_dim_floor_div(w->ctx, a.dim, b.dim), q, c.bad};
    }
}

/* Polynomials in which every division is known to be exact: ops 0 … `ops` - 1. */
static sample random_dim(world *w, int depth, int ops)
{
    if (depth == 0)
        return leaf(w);
    sample a = random_dim(w, depth - 1, ops);
    sample b = random_dim(w, depth - 1, ops);
    return combine(w, (int)(test_random(&w->random) % (uint64_t)ops), a, b);
}

static bool is_large(wide v)
{
    return v > ((wide)1 << 40) || v < -((wide)1 << 40);
}

/* A quotient may be simplified where its divisor happens to be 0, so only valid results must agree. */
static void check_bound_value(world *w, const sample *s)
{
    flx_error err = {0};
    if (s->dim == FLX_DIM_INVALID || s->bad || is_large(s->value))
        return;
    flx_dim found = flxi_dim_bind(w->ctx, s->dim, w->at, SYMBOLS, &err);
    char text[300];
    flx_dim_print(w->ctx, s->dim, text, sizeof text);
    CHECK_MSG(found == (flx_dim)s->value, "%s at A=%lld B=%lld C=%lld D=%lld is %lld, not %lld: %s", text,
              (long long)w->at[0].extent, (long long)w->at[1].extent, (long long)w->at[2].extent,
              (long long)w->at[3].extent, (long long)found, (long long)s->value, err.message);
    test_count_case();
}

TEST(dim_random_expressions_bind_to_their_value)
{
    world w = world_begin();
    for (int i = 0; i < 4000; i++) {
        sample s = random_dim(&w, 1 + i % 4, 5);
        check_bound_value(&w, &s);
        if (i % 16 == 0) {
            flx_context_free(w.ctx);
            uint64_t random = w.random;
            w = world_begin();
            w.random = random;
            for (int k = 0; k < SYMBOLS; k++)
                w.at[k].extent = (int64_t)(test_random(&w.random) % 12);
        }
    }
    flx_context_free(w.ctx);
}

TEST(dim_arithmetic_laws_hold_as_identity)
{
    world w = world_begin();
    flx_context *ctx = w.ctx;
    for (int i = 0; i < 2000; i++) {
        flx_dim a = random_dim(&w, i % 3, 3).dim;
        flx_dim b = random_dim(&w, 1 + i % 2, 3).dim;
        flx_dim c = random_dim(&w, i % 2, 3).dim;
        flx_dim ab = flx_dim_mul(ctx, a, b);
        CHECK_EQ_I64(flx_dim_add(ctx, a, b), flx_dim_add(ctx, b, a));
        CHECK_EQ_I64(ab, flx_dim_mul(ctx, b, a));
        CHECK_EQ_I64(flx_dim_add(ctx, flx_dim_add(ctx, a, b), c), flx_dim_add(ctx, a, flx_dim_add(ctx, b, c)));
        CHECK_EQ_I64(flx_dim_mul(ctx, ab, c), flx_dim_mul(ctx, a, flx_dim_mul(ctx, b, c)));
        CHECK_EQ_I64(flx_dim_mul(ctx, flx_dim_add(ctx, a, b), c),
                     flx_dim_add(ctx, flx_dim_mul(ctx, a, c), flx_dim_mul(ctx, b, c)));
        CHECK_EQ_I64(flx_dim_sub(ctx, flx_dim_add(ctx, a, b), b), a);
        CHECK_EQ_I64(flx_dim_sub(ctx, a, a), 0);
        if (b != 0)
            CHECK_EQ_I64(flx_dim_div(ctx, ab, b), a);
        test_count_case();
    }
    flx_context_free(ctx);
}

/* ---- Text ---- */

/* The type with this dimension, through the parser; a graph has no negative dimensions. */
static flx_dim read_back(flx_context *ctx, const char *dim, flx_error *err)
{
    char text[5000];
    int n = snprintf(text, sizeof text, "graph f(x: f32[%s]) { return x }", dim);
    CHECK(n > 0 && (size_t)n < sizeof text);
    flx_module *m = flx_parse(ctx, text, (size_t)n, "t", err);
    flx_dim d = FLX_DIM_INVALID;
    if (m)
        d = flx_val_type(flx_module_main(m), flx_graph_input(flx_module_main(m), 0))->dims[0];
    flx_module_free(m);
    return d;
}

TEST(dim_random_expressions_read_back_as_printed)
{
    world w = world_begin();
    for (int i = 0; i < 1500; i++) {
        char text[4500];
        flx_error err = {0};
        flx_dim d = random_dim(&w, 1 + i % 4, 5).dim;
        if (d == FLX_DIM_INVALID || (flx_dim_is_static(d) && d < 0))
            continue;
        CHECK(flx_dim_print(w.ctx, d, text, sizeof text) < sizeof text);
        test_fail_context("%s", text);
        CHECK_EQ_I64(read_back(w.ctx, text, &err), d);
        flx_context *other = flx_context_new(NULL);
        char again[4500];
        flx_dim_print(other, read_back(other, text, &err), again, sizeof again);
        CHECK_EQ_STR(again, text);
        CHECK_EQ_U64(flxi_dim_hash(other, 1, read_back(other, text, &err)), flxi_dim_hash(w.ctx, 1, d));
        flx_context_free(other);
        test_count_case();
    }
    flx_context_free(w.ctx);
}

TEST(dim_print_into_a_small_buffer_is_cut)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_dim n = flx_dim_symbol(ctx, "a_rather_long_symbol");
    char text[8] = "xxxxxxx";
    CHECK_EQ_U64(flx_dim_print(ctx, n, text, sizeof text), 20);
    CHECK(text[7] == 0 && strlen(text) == 7);
    CHECK_EQ_U64(flx_dim_print(ctx, n, NULL, 0), 20);
    CHECK_EQ_U64(flx_dim_print(NULL, n, text, sizeof text), 0);
    CHECK_EQ_U64(flx_dim_print(NULL, 42, text, sizeof text), 2);
    CHECK_EQ_STR(text, "42");
    flx_type t = flx_type_make(FLX_F32, 2, (flx_dim[]){2, n});
    char wide_text[64];
    CHECK_EQ_U64(flx_type_print(ctx, &t, wide_text, sizeof wide_text), strlen("f32[2, a_rather_long_symbol]"));
    CHECK_EQ_STR(wide_text, "f32[2, a_rather_long_symbol]");
    CHECK_EQ_U64(flx_type_print(ctx, NULL, wide_text, sizeof wide_text), 0);
    t.rank = 17;
    CHECK(flx_type_print(NULL, &t, wide_text, sizeof wide_text) == 0);
    flx_context_free(ctx);
}

/* ---- Binding and solving ---- */

TEST(dim_bind_some_symbols_leaves_the_others)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_dim n = flx_dim_symbol(ctx, "N");
    flx_dim m = flx_dim_symbol(ctx, "M");
    flx_dim d = flx_dim_add(ctx, flx_dim_mul(ctx, n, m), flx_dim_div(ctx, n, 2));
    flx_dim_binding b[] = {{"N", 6}, {"M", 5}};
    CHECK_EQ_I64(flxi_dim_bind(ctx, d, b, 1, &err), flx_dim_add(ctx, flx_dim_mul(ctx, 6, m), 3));
    CHECK_EQ_I64(flxi_dim_bind(ctx, d, b, 2, &err), 33);
    CHECK_EQ_I64(flxi_dim_bind(ctx, d, NULL, 0, &err), d);
    CHECK_EQ_I64(flxi_dim_bind(ctx, 12, b, 2, &err), 12);
    flx_context_free(ctx);
}

TEST(dim_bind_fails_with_the_dimension_named)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_dim n = flx_dim_symbol(ctx, "N");
    flx_dim_binding odd = {"N", 7};
    CHECK_EQ_I64(flxi_dim_bind(ctx, flx_dim_div(ctx, n, 2), &odd, 1, &err), FLX_DIM_INVALID);
    CHECK_EQ_I64(err.code, FLX_E_SHAPE);
    CHECK(strstr(err.message, "N/2") && err.hint[0]);
    flx_dim_binding none = {"N", 0};
    CHECK_EQ_I64(flxi_dim_bind(ctx, flxi_dim_floor_div(ctx, 9, n), &none, 1, &err), FLX_DIM_INVALID);
    flx_dim_binding huge = {"N", INT64_C(1) << 40};
    CHECK_EQ_I64(flxi_dim_bind(ctx, flx_dim_mul(ctx, n, n), &huge, 1, &err), FLX_DIM_INVALID);
    CHECK_EQ_I64(flxi_dim_bind(ctx, flx_dim_sub(ctx, n, 9), &odd, 1, &err), -2);
    CHECK_EQ_I64(flxi_dim_bind(ctx, FLX_DIM_INVALID, &odd, 1, &err), FLX_DIM_INVALID);
    flx_context_free(ctx);
}

TEST(dim_solve_finds_the_extent_of_one_linear_symbol)
{
    flx_context *ctx = flx_context_new(NULL);
    int64_t extent = 0;
    flx_dim n = flx_dim_symbol(ctx, "N");
    flx_dim m = flx_dim_symbol(ctx, "M");
    CHECK_EQ_STR(flxi_dim_solve(ctx, n, 5, &extent), "N");
    CHECK_EQ_I64(extent, 5);
    CHECK_EQ_STR(flxi_dim_solve(ctx, flx_dim_add(ctx, flx_dim_mul(ctx, n, 3), 2), 14, &extent), "N");
    CHECK_EQ_I64(extent, 4);
    CHECK_EQ_STR(flxi_dim_solve(ctx, flx_dim_sub(ctx, 10, n), 3, &extent), "N");
    CHECK_EQ_I64(extent, 7);
    CHECK_EQ_STR(flxi_dim_solve(ctx, flx_dim_mul(ctx, n, 2), 5, &extent), "N");
    CHECK_MSG(extent < 0, "no extent makes 2*N five, but %lld came back", (long long)extent);
    CHECK_EQ_STR(flxi_dim_solve(ctx, flx_dim_mul(ctx, n, m), 6, &extent), NULL);
    CHECK_EQ_STR(flxi_dim_solve(ctx, flx_dim_add(ctx, n, m), 6, &extent), NULL);
    CHECK_EQ_STR(flxi_dim_solve(ctx, flxi_dim_floor_div(ctx, n, 2), 6, &extent), NULL);
    CHECK_EQ_STR(flxi_dim_solve(ctx, 6, 6, &extent), NULL);
    CHECK_EQ_STR(flxi_dim_solve(ctx, FLX_DIM_INVALID, 6, &extent), NULL);
    flx_context_free(ctx);
}

/* ---- Limits ---- */

TEST(dim_numbers_beyond_the_range_are_invalid)
{
    flx_context *ctx = flx_context_new(NULL);
    int64_t top = FLXI_DIM_LARGEST;
    CHECK_EQ_I64(flx_dim_add(ctx, top, 0), top);
    CHECK_EQ_I64(flx_dim_add(ctx, top, 1), FLX_DIM_INVALID);
    CHECK_EQ_I64(flx_dim_mul(ctx, top, 2), FLX_DIM_INVALID);
    CHECK_EQ_I64(flx_dim_mul(ctx, top, top), FLX_DIM_INVALID);
    CHECK_EQ_I64(flx_dim_sub(ctx, -top, 1), FLX_DIM_INVALID);
    CHECK_EQ_I64(flx_dim_sub(ctx, 0, -top), top);
    CHECK_EQ_I64(flx_dim_add(ctx, FLX_DIM_INVALID, 1), FLX_DIM_INVALID);
    CHECK_EQ_I64(flx_dim_add(NULL, flx_dim_symbol(ctx, "N"), 1), FLX_DIM_INVALID);
    CHECK_EQ_I64(flx_dim_add(NULL, 2, 3), 5);
    flx_context_free(ctx);
}

TEST(dim_coefficients_beyond_the_range_are_invalid)
{
    flx_context *ctx = flx_context_new(NULL);
    int64_t top = FLXI_DIM_LARGEST;
    flx_dim n = flx_dim_symbol(ctx, "N");
    flx_dim most = flx_dim_mul(ctx, n, -top);
    flx_dim_binding one = {"N", 1};
    flx_error err = {0};
    CHECK(most != FLX_DIM_INVALID);
    CHECK_EQ_I64(flxi_dim_bind(ctx, most, &one, 1, &err), -top);
    CHECK_EQ_I64(flx_dim_sub(ctx, most, n), FLX_DIM_INVALID);
    CHECK_EQ_I64(flx_dim_mul(ctx, most, 2), FLX_DIM_INVALID);
    CHECK_EQ_I64(flx_dim_add(ctx, flx_dim_add(ctx, n, top), 1), FLX_DIM_INVALID);
    CHECK(flxi_dim_floor_div(ctx, most, 3) != FLX_DIM_INVALID);
    CHECK_EQ_I64(flx_dim_div(ctx, most, -top), n);
    CHECK_EQ_I64(flx_dim_div(ctx, most, -1), flx_dim_mul(ctx, n, top));
    CHECK_EQ_I64(flxi_dim_floor_div(ctx, flx_dim_add(ctx, n, 1), INT64_MAX),
                 flxi_dim_floor_div(ctx, flx_dim_add(ctx, n, 1), INT64_MAX));
    flx_context_free(ctx);
}

TEST(dim_too_many_terms_or_factors_are_invalid)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_dim sum = 0;
    flx_dim product = 1;
    int terms = 0;
    int factors = 0;
    for (int i = 0; i < 100 && sum != FLX_DIM_INVALID; i++) {
        char name[8];
        snprintf(name, sizeof name, "S%d", i);
        sum = flx_dim_add(ctx, sum, flx_dim_symbol(ctx, name));
        terms += sum != FLX_DIM_INVALID;
    }
    for (int i = 0; i < 100 && product != FLX_DIM_INVALID; i++) {
        product = flx_dim_mul(ctx, product, flx_dim_symbol(ctx, "N"));
        factors += product != FLX_DIM_INVALID;
    }
    CHECK_MSG(terms >= 16 && terms < 100 && factors >= 12 && factors < 100, "%d terms, %d factors", terms, factors);
    flx_context_free(ctx);
}

/* Each step makes the dimension twelve times longer when written out, but only a few entries larger. */
TEST(dim_nested_quotients_that_share_parts_stay_short)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_dim d = flx_dim_symbol(ctx, "N");
    flx_dim last = d;
    for (int i = 0; i < 16 && d != FLX_DIM_INVALID; i++) {
        flx_dim power = d;
        last = d;
        for (int k = 0; k < 11 && power != FLX_DIM_INVALID; k++)
            power = flx_dim_mul(ctx, power, d);
        d = flxi_dim_floor_div(ctx, power, 2);
    }
    char text[64];
    CHECK(flx_dim_print(ctx, last, text, sizeof text) < 100000);
    CHECK_EQ_I64(d, FLX_DIM_INVALID);
    flx_context_free(ctx);
}

TEST(dim_many_symbols_take_linear_time)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_dim first = flx_dim_symbol(ctx, "s0");
    for (int i = 1; i < 100000; i++) {
        char name[16];
        snprintf(name, sizeof name, "s%d", i);
        CHECK(flx_dim_symbol(ctx, name) != FLX_DIM_INVALID);
    }
    CHECK_EQ_I64(flx_dim_symbol(ctx, "s0"), first);
    flx_context_free(ctx);
}

TEST(dim_handles_of_nobody_are_refused)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_dim nobody = FLX_DIM_INVALID + 12345;
    flx_type t = flx_type_make(FLX_F32, 1, &nobody);
    CHECK_EQ_I64(flx_dim_add(ctx, nobody, 1), FLX_DIM_INVALID);
    CHECK(flxi_type_check(ctx, &t, &err) == FLX_E_USAGE && !flxi_dim_is_known(ctx, nobody));
    t.dims[0] = FLX_DIM_INVALID;
    CHECK_EQ_I64(flxi_type_check(ctx, &t, &err), FLX_E_SIZE);
    t.dims[0] = INT64_MAX;
    CHECK_EQ_I64(flxi_type_check(ctx, &t, &err), FLX_E_SIZE);
    flx_context_free(ctx);
}
