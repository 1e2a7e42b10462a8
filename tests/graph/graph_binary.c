/* SPDX-License-Identifier: Apache-2.0 */
/* graph_binary.c: graphs as bytes: round trips, damage that the checksum detects, and damage with a valid checksum. */
#include "graph/graph_text.h"
#include "graph/rich_text.h"

#include "base/hash.h"
#include "fault.h"

#include <stdlib.h>

enum { HEADER = 24, SUM_AT = 16, SIZE_AT = 8, VERSION_AT = 4 };

static void put_u64(unsigned char *at, uint64_t v)
{
    for (int i = 0; i < 8; i++)
        at[i] = (unsigned char)(v >> (8 * i));
}

/* Makes size and checksum of the header those of the payload, so that a reader proceeds to the payload. */
static void mend(unsigned char *bytes, size_t size)
{
    put_u64(bytes + SIZE_AT, size - HEADER);
    put_u64(bytes + SUM_AT, flxi_hash_bytes(FLXI_HASH_SEED, bytes + HEADER, size - HEADER));
}

/* Decodes a copy of exactly that size. What comes back verifies and can be written again. */
static flx_code attempt(const unsigned char *bytes, size_t size, flx_error *err)
{
    fault f = {0};
    flx_context *ctx =
        flx_context_new(&(flx_context_options){.alloc = fault_alloc, .alloc_user = &f, .memory_limit = 1 << 26});
    unsigned char *copy = malloc(size ? size : 1);
    CHECK(ctx && copy);
    if (size)
        memcpy(copy, bytes, size);
    *err = (flx_error){0};
    flx_module *m = flx_decode(ctx, copy, size, "b", err);
    free(copy);
    flx_code code = m ? FLX_OK : (flx_code)err->code;
    CHECK_MSG(m || (err->message[0] && strcmp(err->where, "b") == 0), "'%s' at '%s'", err->message, err->where);
    CHECK_MSG(code != FLX_E_INTERNAL && code != FLX_E_OOM, "%s", err->message);
    CHECK_MSG(f.largest <= (size_t)1 << 22, "asked for %zu bytes at once", f.largest);
    for (size_t i = 0; i < flx_module_count(m); i++)
        CHECK_OK(flx_graph_verify(flx_module_graph(m, i), err), err);
    if (m) {
        flx_buffer again = bytes_of(flx_module_main(m));
        flx_buffer text = text_of(flx_module_main(m));
        flx_module *read = flx_parse(ctx, text.data, text.size, "t", err);
        CHECK_MSG(read && flx_graph_hash(flx_module_main(read)) == flx_graph_hash(flx_module_main(m)), "%s: %s in\n%s",
                  err->where, err->message, text.data);
        flx_module_free(read);
        flx_buffer_free(&again);
        flx_buffer_free(&text);
    }
    flx_module_free(m);
    flx_context_free(ctx);
    CHECK_MSG(fault_is_clean(&f), "%zu blocks leaked, %zu errors", f.live_blocks, f.errors);
    return code;
}

static flx_buffer rich_bytes(flx_context *ctx)
{
    flx_graph *g = graph_of(ctx, rich_text);
    flx_buffer b = bytes_of(g);
    flx_graph_release(g);
    return b;
}

/* ---- Round trips ---- */

TEST(binary_rich_graph_comes_back_in_another_context)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_context *other = flx_context_new(NULL);
    flx_error err = {0};
    flx_graph *g = graph_of(ctx, rich_text);
    flx_buffer bytes = bytes_of(g);
    flx_module *m = flx_decode(other, bytes.data, bytes.size, NULL, &err);
    CHECK_MSG(m != NULL, "%s", err.message);
    CHECK_EQ_U64(flx_module_count(m), 6);
    CHECK_EQ_U64(flx_graph_hash(flx_module_main(m)), flx_graph_hash(g));
    flx_buffer a = text_of(g);
    flx_buffer b = text_of(flx_module_main(m));
    CHECK_EQ_STR(b.data, a.data); /* labels and pins too */
    flx_buffer_free(&a);
    flx_buffer_free(&b);
    flx_buffer_free(&bytes);
    flx_module_free(m);
    flx_graph_release(g);
    flx_context_free(other);
    flx_context_free(ctx);
}

TEST(binary_shared_body_stays_shared)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_graph *g = graph_of(ctx, "graph b(x: f32[N]) { return exp(x) }\n"
                                 "graph f(p: bool[], x: f32[N]) { a = custom_fn(x, fwd_body=@b)\n"
                                 "  c = if(p, a, then=@b, else=@b) return c }");
    flx_buffer bytes = bytes_of(g);
    flx_module *m = flx_decode(ctx, bytes.data, bytes.size, "b", &err);
    CHECK_EQ_U64(flx_module_count(m), 2);
    const flx_graph *f = flx_module_main(m);
    CHECK(flx_node_graph(f, 2, 0) == flx_node_graph(f, 3, 0) && flx_node_graph(f, 3, 1) == flx_node_graph(f, 3, 0));
    CHECK(flx_node_graph(f, 2, 0) == flx_module_graph(m, 0));
    flx_module_free(m);
    flx_buffer_free(&bytes);
    flx_graph_release(g);
    flx_context_free(ctx);
}

TEST(binary_leaves_declared_late_come_first)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_type t = {.dtype = FLX_F32, .rank = 1, .dims = {3}};
    flx_graph *g = flx_graph_new(ctx, "late");
    flx_val a = flx_input(g, "a", &t);
    flx_val e = flx_exp(g, a);
    flx_val b = flx_pin(g, flx_param(g, "b", &t));
    flx_val s = flx_add(g, e, b);
    flx_val c = flx_input(g, "c", &t);
    flx_output(g, flx_mul(g, s, c), "y");
    flx_output(g, b, NULL);
    check_round_trip(g);
    flx_graph_release(g);
    flx_context_free(ctx);
}

TEST(binary_body_called_main_is_not_taken_for_the_main_graph)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_module *m = module_of(ctx, "graph main(x: f32[2]) { return exp(x) }\n"
                                   "graph f(x: f32[2]) { return custom_fn(x, fwd_body=@main) }");
    flx_buffer bytes = bytes_of(flx_module_find(m, "f"));
    flx_module *again = flx_decode(ctx, bytes.data, bytes.size, "b", &err);
    CHECK_EQ_STR(flx_graph_name(flx_module_main(again)), "f");
    CHECK_EQ_U64(flx_graph_hash(flx_module_main(again)), flx_graph_hash(flx_module_find(m, "f")));
    flx_module_free(again);
    flx_buffer_free(&bytes);
    flx_module_free(m);
    flx_context_free(ctx);
}

TEST(binary_large_constants_come_back)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_type t = flx_type_make(FLX_F64, 1, (flx_dim[]){50000});
    flx_tensor *data = flx_tensor_new(ctx, &t, NULL, &err);
    for (int i = 0; i < 50000; i++)
        ((double *)flx_tensor_data(data))[i] = i * 0.1;
    flx_graph *g = flx_graph_new(ctx, "big");
    flx_output(g, flx_const(g, &t, data), "y");
    check_round_trip(g);
    flx_tensor_release(data);
    flx_graph_release(g);
    flx_context_free(ctx);
}

TEST(binary_misuse_is_an_error)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_graph *g = graph_of(ctx, "graph f() { return }");
    CHECK_EQ_I64(flx_graph_encode(g, NULL, &err), FLX_E_USAGE);
    CHECK(flx_decode(NULL, "x", 1, "b", &err) == NULL && err.code == FLX_E_USAGE);
    CHECK(flx_decode(ctx, NULL, 1, "b", &err) == NULL && err.code == FLX_E_USAGE);
    CHECK(flx_decode(ctx, NULL, 0, "b", &err) == NULL && err.code == FLX_E_SYNTAX);
    CHECK(flx_decode(ctx, "graph f() { return }", 20, "b", NULL) == NULL);
    flx_graph_release(g);
    flx_context_free(ctx);
}

/* ---- Damage ---- */

TEST(binary_cut_anywhere_is_an_error)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_buffer b = rich_bytes(ctx);
    flx_error err;
    CHECK_OK(attempt((const unsigned char *)b.data, b.size, &err), &err);
    for (size_t n = 0; n < b.size; n++) {
        test_fail_context("cut to %zu of %zu bytes", n, b.size);
        CHECK_EQ_I64(attempt((const unsigned char *)b.data, n, &err), FLX_E_SYNTAX);
    }
    flx_buffer_free(&b);
    flx_context_free(ctx);
}

TEST(binary_any_changed_byte_is_an_error)
{
    static const unsigned char flips[] = {0x01, 0x80};
    flx_context *ctx = flx_context_new(NULL);
    flx_buffer b = rich_bytes(ctx);
    unsigned char *bytes = (unsigned char *)b.data;
    for (size_t i = 0; i < b.size; i++)
        for (size_t k = 0; k < sizeof flips; k++) {
            flx_error err;
            bytes[i] ^= flips[k];
            test_fail_context("byte %zu is changed by 0x%02x", i, flips[k]);
            flx_code code = attempt(bytes, b.size, &err);
            CHECK_EQ_I64(code, i >= VERSION_AT && i < SIZE_AT ? FLX_E_VERSION : FLX_E_SYNTAX);
            bytes[i] ^= flips[k];
        }
    flx_buffer_free(&b);
    flx_context_free(ctx);
}

TEST(binary_more_behind_the_end_is_an_error)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_buffer b = rich_bytes(ctx);
    flx_error err;
    unsigned char *longer = calloc(b.size + 4, 1);
    memcpy(longer, b.data, b.size);
    CHECK_EQ_I64(attempt(longer, b.size + 4, &err), FLX_E_SYNTAX);
    mend(longer, b.size + 4);
    CHECK_EQ_I64(attempt(longer, b.size + 4, &err), FLX_E_SYNTAX);
    free(longer);
    flx_buffer_free(&b);
    flx_context_free(ctx);
}

/* With a valid checksum, every byte is tried with many values: the result is an error or a valid graph. */
TEST(binary_changed_payload_with_a_right_checksum_is_an_error_or_a_graph)
{
    static const unsigned char values[] = {0x00, 0x01, 0x02, 0x08, 0x10, 0x2d, 0x41, 0x5f, 0x7f, 0x80, 0xfe, 0xff};
    flx_context *ctx = flx_context_new(NULL);
    flx_buffer b = rich_bytes(ctx);
    unsigned char *bytes = (unsigned char *)b.data;
    size_t accepted = 0;
    for (size_t i = HEADER; i < b.size; i++)
        for (size_t k = i % 4; k < sizeof values; k += 4) {
            flx_error err;
            unsigned char was = bytes[i];
            bytes[i] = values[k];
            mend(bytes, b.size);
            test_fail_context("byte %zu is 0x%02x instead of 0x%02x", i, values[k], was);
            accepted += attempt(bytes, b.size, &err) == FLX_OK;
            bytes[i] = was;
            test_count_case();
        }
    CHECK(accepted > 0);
    flx_buffer_free(&b);
    flx_context_free(ctx);
}

TEST(binary_cut_payload_with_a_right_checksum_is_an_error)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_buffer b = rich_bytes(ctx);
    unsigned char *copy = malloc(b.size);
    for (size_t n = HEADER; n < b.size; n++) {
        flx_error err;
        memcpy(copy, b.data, n);
        mend(copy, n);
        test_fail_context("cut to %zu of %zu bytes", n, b.size);
        CHECK(attempt(copy, n, &err) != FLX_OK);
    }
    free(copy);
    flx_buffer_free(&b);
    flx_context_free(ctx);
}

/* Every aligned or unaligned run of four bytes becomes a huge count: no memory is allocated for data that does not
   exist. */
TEST(binary_huge_counts_with_a_right_checksum_are_refused_cheaply)
{
    static const uint32_t counts[] = {0xffffffffu, 0x00010000u};
    flx_context *ctx = flx_context_new(NULL);
    flx_buffer b = rich_bytes(ctx);
    unsigned char *bytes = (unsigned char *)b.data;
    for (size_t i = HEADER; i + 4 <= b.size; i++)
        for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++) {
            flx_error err;
            unsigned char was[4];
            memcpy(was, bytes + i, 4);
            for (int s = 0; s < 4; s++)
                bytes[i + (size_t)s] = (unsigned char)(counts[k] >> (8 * s));
            mend(bytes, b.size);
            test_fail_context("bytes %zu… hold %#x", i, counts[k]);
            attempt(bytes, b.size, &err);
            memcpy(bytes + i, was, 4);
            test_count_case();
        }
    flx_buffer_free(&b);
    flx_context_free(ctx);
}
