/* SPDX-License-Identifier: Apache-2.0 */
/* Attention where a naive rule fails: against closed forms for one query and two keys, and at points where the
   weights are exact. Everything else comes from the samples and from the oracles. */
#include "ops/batch_text.h"
#include "ops/run_text.h"
#include "ops/symbolic_text.h"

#include <math.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* The elements of the first output. */
static void check_values(const char *text, const double *want, int64_t count, double tolerance)
{
    test_fail_context("%s", text);
    text_run r = text_begin(text);
    CHECK_CODE(r.code, FLX_OK, &r.err);
    CHECK_EQ_I64(flx_tensor_count(r.out[0]), count);
    for (int64_t i = 0; i < count; i++)
        CHECK_NEAR(flx_tensor_get(r.out[0], i), want[i], tolerance);
    text_end(&r);
}

/* ---- One query, two keys, heads of one element: everything is a function of two scores ---- */

static const double q0 = 0.7, key[2] = {0.5, -1.25}, value[2] = {2.0, -0.5}, bias[2] = {0.3, -0.2};

typedef struct {
    double y, dq, dk[2], dv[2], db[2];
} two_keys;

/* cap 0: none */
static two_keys closed_form(double scale, double cap)
{
    two_keys t;
    double l[2], slope[2];
    for (int j = 0; j < 2; j++) {
        double s = scale * q0 * key[j];
        double c = cap > 0 ? tanh(s / cap) : 0;
        l[j] = (cap > 0 ? cap * c : s) + bias[j];
        slope[j] = 1 - c * c;
    }
    double p = 1 / (1 + exp(l[1] - l[0]));
    double dl = p * (1 - p) * (value[0] - value[1]);
    t.y = p * value[0] + (1 - p) * value[1];
    t.dv[0] = p;
    t.dv[1] = 1 - p;
    t.dq = 0;
    for (int j = 0; j < 2; j++) {
        double sign = j ? -1 : 1;
        t.db[j] = sign * dl;
        t.dk[j] = sign * dl * slope[j] * scale * q0;
        t.dq += sign * dl * slope[j] * scale * key[j];
    }
    return t;
}

static void check_two_keys(const char *attrs, double scale, double cap)
{
    char text[400];
    two_keys t = closed_form(scale, cap);
    gradient_row rows[] = {{"q", {q0}, {t.dq}},
                           {"k", {key[0], key[1]}, {t.dk[0], t.dk[1]}},
                           {"v", {value[0], value[1]}, {t.dv[0], t.dv[1]}},
                           {"b", {bias[0], bias[1]}, {t.db[0], t.db[1]}}};
    snprintf(text, sizeof text,
             "graph g(q: f64[1, 1, 1, 1], k: f64[1, 1, 2, 1], v: f64[1, 1, 2, 1], b: f64[2]) {\n"
             "return attention(q, k, v, b, layout=bhsd, mask_kind=bias%s) }",
             attrs);
    check_gradient_near(text, rows, COUNT(rows), 1e-14); /* a dozen roundings of numbers below 4 */
    snprintf(text, sizeof text,
             "graph g() { return attention(const(f64[1, 1, 1, 1], [[[[%.17g]]]]), const(f64[1, 1, 2, 1], [[[[%.17g], "
             "[%.17g]]]]), const(f64[1, 1, 2, 1], [[[[%.17g], [%.17g]]]]), const(f64[2], [%.17g, %.17g]), layout=bhsd, "
             "mask_kind=bias%s) }",
             q0, key[0], key[1], value[0], value[1], bias[0], bias[1], attrs);
    check_values(text, &t.y, 1, 1e-15);
}

/* Both the backward ops (check_gradient asks for them too) and the decomposition. */
TEST(trap_49_attention_backward_has_the_scale_and_the_softcap)
{
    check_two_keys(", score_scale=3", 3, 0);
    check_two_keys(", softcap=0.5", 1, 0.5);
    check_two_keys(", score_scale=-2, softcap=0.75", -2, 0.75);
}

TEST(trap_50_attention_value_has_the_scale_and_the_softcap)
{
    static const double scores[2] = {0.25, -0.5}; /* q k */
    double cap = 0.5, scale = 4, c[2];
    for (int j = 0; j < 2; j++)
        c[j] = cap * tanh(scale * scores[j] / cap);
    double y = 1 / (1 + exp(c[1] - c[0]));
    check_values("graph g() { return attention(const(f64[1, 1, 1], [[[0.5]]]), const(f64[1, 2, 1], [[[0.5], [-1]]]), "
                 "const(f64[1, 2, 1], [[[1], [0]]]), layout=bsd, num_heads=1, score_scale=4, softcap=0.5) }",
                 &y, 1, 1e-15);
}

/* Equal scores, so that the weights are 1/2; the bias is shared by both queries, whose cotangents add up. */
TEST(trap_51_attention_bias_has_a_cotangent)
{
    static const gradient_row rows[] = {{"v", {5, 1}, {1, 1}}, {"b", {0, 0}, {2, -2}}};
    check_gradient("graph g(v: f64[1, 1, 2, 1], b: f64[1, 2]) {\n"
                   "q = const(f64[1, 1, 2, 1], [[[[0], [0]]]])\n"
                   "return attention(q, v, v, b, layout=bhsd, mask_kind=bias) }",
                   rows, COUNT(rows));
}

/* attention(dq, k, v) would be a mean of v, and q, k, v all have a tangent of their own. */
TEST(trap_52_attention_tangent_is_not_attention_of_the_tangent)
{
    static const gradient_row rows[] = {{"q", {0}, {6}}, {"k", {3, -5}, {0, 0}}, {"v", {2, -1}, {0.5, 0.5}}};
    check_gradient("graph g(q: f64[1, 1, 1, 1], k: f64[1, 1, 2, 1], v: f64[1, 1, 2, 1]) {\n"
                   "return attention(q, k, v, layout=bhsd) }",
                   rows, COUNT(rows));
}

/* All four extents that could distinguish heads from tokens are 2. */
TEST(trap_55_attention_layout_is_never_guessed)
{
    static const double by_head[] = {1.5, 1.5, 3.5, 3.5}, by_token[] = {2, 3, 2, 3};
    const char *text = "graph g() { z = full(f64[1, 2, 2, 1], 0)\n"
                       "return attention(z, z, const(f64[1, 2, 2, 1], [[[[1], [2]], [[3], [4]]]]), layout=%s) }";
    char call[200];
    snprintf(call, sizeof call, text, "bhsd");
    check_values(call, by_head, 4, 0);
    snprintf(call, sizeof call, text, "bshd");
    check_values(call, by_token, 4, 0);
}

/* The last query is at the last key; with fewer keys than queries the first ones share a position. */
TEST(trap_56_causal_attention_to_a_cache_sees_all_of_it)
{
    static const double last[] = {10}, two[] = {8, 10}, fewer[] = {4, 6, 6};
    check_values("graph g() { q = full(f64[1, 1, 1, 1], 0) v = const(f64[1, 1, 4, 1], [[[[4], [8], [12], [16]]]])\n"
                 "return attention(q, v, v, layout=bhsd, mask_kind=causal) }",
                 last, 1, 0);
    check_values("graph g() { q = full(f64[1, 1, 2, 1], 0) v = const(f64[1, 1, 4, 1], [[[[4], [8], [12], [16]]]])\n"
                 "return attention(q, v, v, layout=bhsd, mask_kind=causal) }",
                 two, 2, 1e-15);
    check_values("graph g() { q = full(f64[1, 1, 3, 1], 0) v = const(f64[1, 1, 2, 1], [[[[4], [8]]]])\n"
                 "return attention(q, v, v, layout=bhsd, mask_kind=causal) }",
                 fewer, 3, 0);
}

/* The same when the extents are symbols until the run. */
TEST(causal_offset_is_found_when_symbols_are_bound)
{
    flx_type type = flx_type_make(FLX_F64, 4, (flx_dim[]){1, 1, 4, 1});
    flx_type out;
    flx_error err = {0};
    CHECK_OK(
        run_text_at("graph g(x: f64[1, 1, K, 1]) { q = full(f64[1, 1, 1, 1], 0) w = iota(f64[1, 1, K, 1], axis=2)\n"
                    "y = attention(q, x, w, layout=bhsd, mask_kind=causal)\n"
                    "return check(y, reduce_all(eq(y, 1.5)), message=\"the mean of all keys\") }",
                    type, &out, &err),
        &err);
}

/* A large negative number instead would give the mean of v for a row without keys; in f16 it would overflow. */
TEST(trap_57_masked_rows_are_zero_and_pass_nothing)
{
    static const double half_of_rows[] = {3, 0};
    static const gradient_row rows[] = {{"q", {1, 2}, {0, 0}}, {"k", {3, 4}, {0, 0}}, {"v", {3, 7}, {1, 0}}};
    static const char *const dtypes[] = {"f64", "f32", "f16", "bf16"};
    for (size_t i = 0; i < COUNT(dtypes); i++) {
        char text[400];
        snprintf(text, sizeof text,
                 "graph g() { q = const(%s[1, 1, 2, 1], [[[[1], [2]]]]) v = const(%s[1, 1, 2, 1], [[[[3], [7]]]])\n"
                 "return attention(q, v, v, const(bool[2, 2], [[true, false], [false, false]]), layout=bhsd, "
                 "mask_kind=custom) }",
                 dtypes[i], dtypes[i]);
        /* a mask of two axes has batch and keys: [2, 2] does not fit one item */
        check_text_fails(
            text, FLX_E_SHAPE,
            "attention: the mask, of shape [2, 2], does not broadcast to the scores [N, H, Sq, Sk] = [1, 1, 2, 2]");
        snprintf(text, sizeof text,
                 "graph g() { q = const(%s[1, 1, 2, 1], [[[[1], [2]]]]) v = const(%s[1, 1, 2, 1], [[[[3], [7]]]])\n"
                 "return attention(q, v, v, const(bool[1, 2, 2], [[[true, false], [false, false]]]), layout=bhsd, "
                 "mask_kind=custom) }",
                 dtypes[i], dtypes[i]);
        check_values(text, half_of_rows, 2, 0);
    }
    const char *differentiated = "graph g(q: f64[1, 1, 2, 1], k: f64[1, 1, 2, 1], v: f64[1, 1, 2, 1]) {\n"
                                 "m = const(bool[1, 2, 2], [[[true, false], [false, false]]])\n"
                                 "return reduce_sum(attention(q, k, v, m, layout=bhsd, mask_kind=custom)) }";
    check_gradient(differentiated, rows, COUNT(rows));
    static const gradient_row none[] = {{"q", {1, 2}, {0, 0}}, {"k", {3, 4}, {0, 0}}, {"v", {3, 7}, {0, 0}}};
    check_hessian_of_ones(differentiated, none, COUNT(none));
    check_gradient("graph g(q: f64[1, 1, 2, 1], k: f64[1, 1, 2, 1], v: f64[1, 1, 2, 1]) {\n"
                   "b = full(f64[1, 2], -inf)\n"
                   "return reduce_sum(attention(q, k, v, b, layout=bhsd, mask_kind=bias)) }",
                   none, COUNT(none));
}

/* Capped after the mask, -inf would become -1 and the second key would count. */
TEST(trap_58_softcap_comes_before_bias_and_mask)
{
    static const gradient_row rows[] = {
        {"q", {1}, {0}}, {"k", {3, 4}, {0, 0}}, {"v", {3, 7}, {1, 0}}, {"b", {0, -INFINITY}, {0, 0}}};
    static const double first[] = {3};
    check_gradient("graph g(q: f64[1, 1, 1, 1], k: f64[1, 1, 2, 1], v: f64[1, 1, 2, 1], b: f64[2]) {\n"
                   "return attention(q, k, v, b, layout=bhsd, mask_kind=bias, softcap=1) }",
                   rows, COUNT(rows));
    check_values("graph g() { q = full(f64[1, 1, 1, 1], 1) v = const(f64[1, 1, 2, 1], [[[[3], [7]]]])\n"
                 "return attention(q, v, v, const(f64[2], [0, -inf]), layout=bhsd, mask_kind=bias, softcap=1) }",
                 first, 1, 0);
}

TEST(trap_59_attention_keeps_tiny_weights)
{
    double weight = exp(-40.0) / (1 + exp(-40.0));
    gradient_row rows[] = {{"v", {0, 1}, {1 - weight, weight}}};
    const char *text = "graph g(v: f64[1, 1, 2, 1]) { z = full(f64[1, 1, 1, 1], 0)\n"
                       "return attention(z, v, v, const(f64[2], [40, 0]), layout=bhsd, mask_kind=bias) }";
    check_gradient_near(text, rows, COUNT(rows), 1e-16 * weight + 0x1p-54);
    check_values("graph g() { z = full(f64[1, 1, 1, 1], 0) v = const(f64[1, 1, 2, 1], [[[[0], [1]]]])\n"
                 "return attention(z, v, v, const(f64[2], [40, 0]), layout=bhsd, mask_kind=bias) }",
                 &weight, 1, 4e-16 * weight);
}

/* ---- Degenerate shapes ---- */

TEST(attention_without_keys_is_zero)
{
    static const double zeros[] = {0, 0, 0, 0};
    static const char *const kinds[] = {"none", "causal", "sliding_window, window=1"};
    for (size_t i = 0; i < COUNT(kinds); i++) {
        char text[200];
        snprintf(text, sizeof text,
                 "graph g() { return attention(full(f64[1, 1, 2, 3], 1), full(f64[1, 1, 0, 3], 1), full(f64[1, 1, 0, "
                 "2], 1), layout=bhsd, mask_kind=%s) }",
                 kinds[i]);
        check_values(text, zeros, 4, 0);
    }
}

TEST(sliding_window_beside_all_keys_is_zero)
{
    static const double want[] = {2, 3, 4, 0};
    check_values("graph g() { q = full(f64[1, 1, 4, 1], 0) v = const(f64[1, 1, 2, 1], [[[[2], [4]]]])\n"
                 "return attention(q, v, v, layout=bhsd, mask_kind=sliding_window, window=1) }",
                 want, 4, 0);
    check_values("graph g() { q = full(f64[1, 1, 2, 1], 0) v = const(f64[1, 1, 2, 1], [[[[2], [4]]]])\n"
                 "return attention(q, v, v, layout=bhsd, mask_kind=sliding_window, window=9223372036854775806) }",
                 want, 2, 0);
}

TEST(attention_types_with_symbols)
{
    check_text_type("graph g(q: f16[N, 8, S, 64], k: f16[N, 2, K, 64], v: f16[N, 2, K, 32]) {\n"
                    "return attention(q, k, v, layout=bhsd, num_kv_heads=2, mask_kind=causal) }",
                    "f16[N, 8, S, 32]");
    check_text_type("graph g(q: f32[N, S, 12], k: f32[N, K, 6], v: f32[N, K, 8]) {\n"
                    "return attention(q, k, v, layout=bsd, num_heads=4, num_kv_heads=2) }",
                    "f32[N, S, 16]");
    check_text_type("graph g(q: f32[N, S, 2, 3], k: f32[N, S, 2, 3], dy: f32[N, S, 2, 3]) {\n"
                    "return attention_backward(q, k, k, dy, wrt=key, layout=bshd) }",
                    "f32[N, S, 2, 3]");
}

TEST(attention_errors_name_the_operand)
{
    check_text_fails("graph g(q: f32[2, 3, 4]) { y = attention(q, q, q, layout=bsd) return y }", FLX_E_ATTRIBUTE,
                     "attention 'y': num_heads or head_dim is missing");
    check_text_fails("graph g(q: f32[2, 3, 4]) { y = attention(q, q, q, layout=bhsd) return y }", FLX_E_SHAPE,
                     "attention 'y': q must be [N, H, S, D], but it is [2, 3, 4]");
    check_text_fails("graph g(q: f32[2, 4, 3, 8], k: f32[2, 2, 3, 8]) { y = attention(q, k, k, layout=bhsd) return y }",
                     FLX_E_SHAPE, "attention 'y': the number of heads of k must be 4, not 2");
    check_text_fails(
        "graph g(q: f32[2, 4, 3, 8], k: f32[2, 4, 5, 8], v: f32[2, 4, 6, 8]) {\n"
        "y = attention(q, k, v, layout=bhsd) return y }",
        FLX_E_SHAPE,
        "attention 'y': the keys of k and v differ: q is [2, 4, 3, 8], k is [2, 4, 5, 8], v is [2, 4, 6, 8]");
}

/* ---- Batching: masks belong to their example ---- */

TEST(batched_masks_stay_with_their_example)
{
    static const batch_row rows[] = {{"v", {3, 7, 5, 9}, true}, {"m", {1, 0, 0, 1}, true}};
    static const double want[] = {3, 9};
    check_batched("graph g(v: f64[1, 1, 2, 1], m: f64[1, 2]) { q = full(f64[1, 1, 1, 1], 1)\n"
                  "return attention(q, v, v, m, layout=bhsd, mask_kind=custom) }",
                  2, rows, COUNT(rows), want, COUNT(want));
}

/* Each example has a bias cotangent of its own, summed over its two items only. */
TEST(batched_bias_cotangents_are_not_summed_over_the_batch)
{
    static const batch_row rows[] = {{"dy", {1, 2, 3, 4}, true}, {"b", {0, 0}, false}};
    static const double want[] = {3, -3, 7, -7};
    check_batched("graph g(dy: f64[2, 1, 1, 1], b: f64[2]) { q = full(f64[2, 1, 1, 1], 0)\n"
                  "k = full(f64[2, 1, 2, 1], 1) v = const(f64[2, 1, 2, 1], [[[[5], [1]]], [[[5], [1]]]])\n"
                  "return attention_backward(q, k, v, dy, b, wrt=bias, layout=bhsd, mask_kind=bias) }",
                  2, rows, COUNT(rows), want, COUNT(want));
}

/* ---- The composites around attention ---- */

/* 8 operands without biases, where beta is 0; 14 with them. */
TEST(trap_102_transformer_layer_has_eight_operands_or_fourteen)
{
    const char *text =
        "graph g() { h = iota(f64[1, 2, 2], axis=1) a = const(f64[2, 6], [[1, 0, 2, 1, 0, 1], [0, 1, 1, 3, 1, 0]])\n"
        "w = const(f64[2, 2], [[1, 2], [3, 1]]) g = const(f64[2], [2, 3]) z = full(f64[2], 0)\n"
        "z6 = full(f64[6], 0) m = full(bool[1, 2], true)\n"
        "x = fused_transformer_layer(h, a, w, g, w, w, g, m, num_heads=1, has_bias=false)\n"
        "y = fused_transformer_layer(h, a, z6, w, z, g, z, w, z, w, z, g, z, m, num_heads=1)\n"
        "return x, y }";
    text_run r = text_begin(text);
    CHECK_CODE(r.code, FLX_OK, &r.err);
    for (int i = 0; i < 4; i++) {
        CHECK_NEAR(flx_tensor_get(r.out[0], i), flx_tensor_get(r.out[1], i), 0);
        CHECK(fabs(flx_tensor_get(r.out[0], i)) > 0.5);
    }
    text_end(&r);
    check_text_fails(
        "graph g(h: f32[1, 2, 2], a: f32[2, 6], w: f32[2, 2], g: f32[2], m: bool[1, 2]) {\n"
        "y = fused_transformer_layer(h, a, w, g, g, w, w, g, g, m, num_heads=1, has_bias=false) return y }",
        FLX_E_ARITY, "fused_transformer_layer 'y': with these attributes, expected 8 operands, got 10");
}

/* The mask keeps its position and is not read where the kind has none; it may be omitted. */
TEST(attention_block_without_a_mask_is_one_with_a_mask_that_nobody_reads)
{
    text_run r = text_begin(
        "graph g() { h = iota(f64[1, 2, 2], axis=1)\n"
        "a = const(f64[2, 6], [[1, 0, 2, 1, 0, 1], [0, 1, 1, 3, 1, 0]]) w = const(f64[2, 2], [[1, 2], [3, 1]])\n"
        "m = full(bool[1, 2], false)\n"
        "return fused_attention_block(h, a, w, num_heads=1, mask_kind=causal),\n"
        "  fused_attention_block(h, a, w, m, num_heads=1, mask_kind=causal),\n"
        "  fused_attention_block(h, a, w, m, num_heads=1) }");
    CHECK_CODE(r.code, FLX_OK, &r.err);
    for (int i = 0; i < 4; i++) {
        CHECK_NEAR(flx_tensor_get(r.out[0], i), flx_tensor_get(r.out[1], i), 0);
        CHECK_NEAR(flx_tensor_get(r.out[2], i), 0, 0);
    }
    CHECK(flx_tensor_get(r.out[0], 2) != 0);
    text_end(&r);
}

/* ---- Causal attention in parts ---- */

/* Long causal attention is computed in parts that leave out keys; a custom mask leaves out none. */
static void check_parts(const char *dtype, int64_t queries, int64_t keys, double tolerance)
{
    static const char *const wrt[] = {"query", "key", "value"};
    for (int w = -1; w < 3; w++) {
        char text[1600], op[40], seed[8], of[40];
        snprintf(op, sizeof op, "%s", w < 0 ? "attention" : "attention_backward");
        snprintf(seed, sizeof seed, "%s", w < 0 ? "" : ", dy");
        snprintf(of, sizeof of, "%s%s", w < 0 ? "" : ", wrt=", w < 0 ? "" : wrt[w]);
        snprintf(text, sizeof text,
                 "graph g() {\n"
                 "  a = reshape(sin(mul(iota(f64[%lld], axis=0), 0.37)), shape=[1, %lld, 2, 3])\n"
                 "  b = reshape(cos(mul(iota(f64[%lld], axis=0), 0.73)), shape=[1, %lld, 1, 3])\n"
                 "  q = cast(a, to=%s)\n  dy = cast(mul(a, a), to=%s)\n"
                 "  k = cast(b, to=%s)\n  v = cast(mul(b, add(b, 2)), to=%s)\n"
                 "  mask = le(iota(i64[%lld, %lld], axis=1), add(iota(i64[%lld, %lld], axis=0), %lld))\n"
                 "  y = %s(q, k, v%s, layout=bshd, num_kv_heads=1, mask_kind=causal%s)\n"
                 "  z = %s(q, k, v%s, reshape(mask, shape=[1, 1, %lld, %lld]), layout=bshd, num_kv_heads=1, "
                 "mask_kind=custom%s)\n"
                 "  return cast(reduce_max(abs(sub(y, z))), to=f64), cast(reduce_max(abs(z)), to=f64)\n}\n",
                 (long long)(queries * 6), (long long)queries, (long long)(keys * 3), (long long)keys, dtype, dtype,
                 dtype, dtype, (long long)queries, (long long)keys, (long long)queries, (long long)keys,
                 (long long)(keys - queries), op, seed, of, op, seed, (long long)queries, (long long)keys, of);
        test_fail_context("%s", text);
        text_run r = text_begin(text);
        CHECK_CODE(r.code, FLX_OK, &r.err);
        double size = flx_tensor_get(r.out[1], 0);
        CHECK(size > 0.01);
        CHECK_NEAR(flx_tensor_get(r.out[0], 0), 0, tolerance * size);
        text_end(&r);
    }
}

TEST(causal_attention_in_parts_is_attention_with_a_mask)
{
    check_parts("f64", 512, 512, 1e-13);
    check_parts("f64", 600, 611, 1e-13);
    check_parts("bf16", 513, 513, 0x1p-7); /* rounded once, to 8 bits, as the other */
}
