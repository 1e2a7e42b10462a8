/* SPDX-License-Identifier: Apache-2.0 */
/* sort_route.c: sorting of many equal and special elements: all zeros and NaNs keep their order and their bits. */
#include "route_check.h"

#include "graph/graph.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

/* Random bits, of which one in four is a special value: zeros, infinities, NaNs of both signs and several payloads. */
static void fill(flx_tensor *t, uint64_t *seed)
{
    size_t size = flx_dtype_size(t->type.dtype);
    uint64_t inf = t->type.dtype == FLX_F64    ? UINT64_C(0x7ff0000000000000)
                   : t->type.dtype == FLX_F32  ? UINT64_C(0x7f800000)
                   : t->type.dtype == FLX_BF16 ? UINT64_C(0x7f80)
                                               : UINT64_C(0x7c00);
    uint64_t sign = UINT64_C(1) << (size * 8 - 1);
    for (int64_t i = 0; i < t->count; i++) {
        uint64_t bits = test_random(seed), which = test_random(seed) % 24;
        const uint64_t special[] = {0, sign, inf, sign | inf, inf | 1, sign | inf | 3};
        bits = t->type.dtype == FLX_BOOL ? bits & 1 : which < 6 ? special[which] : bits;
        memcpy((char *)t->data + (size_t)i * size, &bits, size);
    }
}

static void check(const char *text)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_parse(ctx, text, strlen(text), "text", &err);
    uint64_t seed = test_seed();
    test_fail_context("%s", text);
    CHECK_MSG(m, "%s", err.message);
    const flx_graph *g = flx_module_graph(m, 0);
    flx_tensor *in[2] = {0};
    for (size_t i = 0; i < g->leaves.n; i++) {
        in[i] = flx_tensor_new(ctx, flxi_type_at(g, g->leaves.at[i]), NULL, &err);
        fill(in[i], &seed);
    }
    const char *why = NULL;
    bool is_done = route_check(g, (const flx_tensor *const *)in, NULL, &why);
    CHECK_MSG(is_done, "%s", why ? why : "");
    for (size_t i = 0; i < g->leaves.n; i++)
        flx_tensor_release(in[i]);
    flx_module_free(m);
    flx_context_free(ctx);
}

static void check_shape(const char *dtype, const char *shape, int64_t axis)
{
    char text[240];
    for (int descending = 0; descending < 2; descending++) {
        const char *word = descending ? "true" : "false";
        snprintf(text, sizeof text, "graph g(x: %s%s) { return sort(x, axis=%lld, descending=%s) }", dtype, shape,
                 (long long)axis, word);
        check(text);
        snprintf(text, sizeof text,
                 "graph g(x: %s%s, y: u16%s) { a, b = sort(x, y, axis=%lld, descending=%s) return a, b }", dtype, shape,
                 shape, (long long)axis, word);
        check(text);
        snprintf(text, sizeof text, "graph g(x: %s%s) { return argsort(x, axis=%lld, descending=%s) }", dtype, shape,
                 (long long)axis, word);
        check(text);
    }
    snprintf(text, sizeof text, "graph g(x: %s%s) { a, b = top_k(x, k=2, axis=%lld) return a, b }", dtype, shape,
             (long long)axis);
    check(text);
}

TEST(routes_of_sorting_keep_bits_and_order)
{
    static const char *const dtypes[] = {"f64", "f32", "f16", "bf16", "i8", "i16", "i32", "i64", "u8", "u64", "bool"};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        check_shape(dtypes[i], "[3]", 0);
        check_shape(dtypes[i], "[7, 31]", 1);
        check_shape(dtypes[i], "[5, 100, 3]", 1);
        check_shape(dtypes[i], "[2, 7000]", 1);
    }
    for (size_t i = 0; i < 4; i++) /* one row, divided among threads */
        check_shape(dtypes[i * 2], "[70001]", 0);
}
