/* SPDX-License-Identifier: Apache-2.0 */
/* graph_parse_hostile.c: hostile or damaged text: deep, huge, truncated, changed. Parsing returns a module that
   verifies or an error with a message and a location, and takes time linear in the text. */
#include "graph/graph_text.h"
#include "graph/rich_text.h"

#include "fault.h"

#include <stdio.h>
#include <stdlib.h>

/* Text under construction. */
typedef struct {
    char *at;
    size_t size;
    FILE *file;
} draft;

static draft *draft_begin(draft *d)
{
    *d = (draft){0};
    d->file = open_memstream(&d->at, &d->size);
    CHECK(d->file != NULL);
    return d;
}

static void draft_end(draft *d)
{
    CHECK(fclose(d->file) == 0);
}

static void repeat(draft *d, const char *s, int n)
{
    for (int i = 0; i < n; i++)
        fputs(s, d->file);
}

/* Parses a copy of exactly that size, so that a sanitizer sees a read past the end. Frees everything. */
static flx_code attempt(const char *text, size_t size, flx_error *err)
{
    fault f = {0};
    flx_context *ctx =
        flx_context_new(&(flx_context_options){.alloc = fault_alloc, .alloc_user = &f, .memory_limit = 1 << 26});
    char *copy = malloc(size ? size : 1);
    CHECK(ctx && copy);
    memcpy(copy, text, size);
    *err = (flx_error){0};
    flx_module *m = flx_parse(ctx, copy, size, "t", err);
    free(copy);
    flx_code code = m ? FLX_OK : (flx_code)err->code;
    CHECK_MSG(m || (code != FLX_OK && err->message[0] && strncmp(err->where, "t:", 2) == 0), "code %d '%s' at '%s'",
              (int)code, err->message, err->where);
    CHECK_MSG(code != FLX_E_INTERNAL && code != FLX_E_OOM, "%s", err->message);
    for (size_t i = 0; i < flx_module_count(m); i++)
        CHECK_OK(flx_graph_verify(flx_module_graph(m, i), err), err);
    flx_module_free(m);
    flx_context_free(ctx);
    CHECK_MSG(fault_is_clean(&f), "%zu blocks leaked, %zu errors", f.live_blocks, f.errors);
    return code;
}

static flx_code attempt_draft(draft *d, flx_error *err)
{
    draft_end(d);
    flx_code code = attempt(d->at, d->size, err);
    free(d->at);
    return code;
}

/* ---- Deep ---- */

TEST(parse_calls_nested_very_deep_are_fine)
{
    enum { DEPTH = 100000 };
    draft d;
    flx_error err;
    repeat(draft_begin(&d), "graph f(x: f32[2]) { return ", 1);
    repeat(&d, "neg(", DEPTH);
    fputs("x", d.file);
    repeat(&d, ")", DEPTH);
    fputs(" }", d.file);
    CHECK_OK(attempt_draft(&d, &err), &err);
}

TEST(parse_calls_nested_very_deep_and_never_closed_are_refused)
{
    draft d;
    flx_error err;
    repeat(draft_begin(&d), "graph f(x: f32[2]) { return ", 1);
    repeat(&d, "add(1, ", 100000);
    CHECK_CODE(attempt_draft(&d, &err), FLX_E_SYNTAX, &err);
}

TEST(parse_parentheses_nested_very_deep_are_refused)
{
    static const struct {
        const char *before, *unit;
        flx_code code;
    } rows[] = {
        {"graph f(x: f32[", "(", FLX_E_SIZE},
        {"graph f(x: f32[", "-", FLX_E_SIZE},
        {"graph f(x: f32[", "(-", FLX_E_SIZE},
        {"graph f(x: f32[2]) { return reduce_sum(x, axes=", "[", FLX_E_SYNTAX},
        {"graph f() { return const(f32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1], ", "[", FLX_E_SYNTAX},
        {"graph f() { return const(c64[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1], ", "[", FLX_E_SYNTAX},
        {"graph f() { return ", "-", FLX_E_SYNTAX},
        {"", "graph f(", FLX_E_SYNTAX},
        {"graph f() { ", "{", FLX_E_SYNTAX},
        {"", "\"", FLX_E_SYNTAX},
        {"graph f() { x = ", "@", FLX_E_SYNTAX},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        draft d;
        flx_error err;
        repeat(draft_begin(&d), rows[i].before, 1);
        repeat(&d, rows[i].unit, 100000);
        test_fail_context("%s and many %s", rows[i].before, rows[i].unit);
        CHECK_CODE(attempt_draft(&d, &err), rows[i].code, &err);
        test_count_case();
    }
}

/* ---- Long ---- */

/* Anything quadratic would take minutes. */
TEST(parse_many_statements_take_linear_time)
{
    enum { COUNT = 200000 };
    draft d;
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    repeat(draft_begin(&d), "graph f(x0: f32[2]) {\n", 1);
    for (int i = 0; i < COUNT; i++)
        fprintf(d.file, "  x%d = add(mul(x%d, 0.5), x%d)\n", i + 1, i, i / 2);
    fprintf(d.file, "  return x%d\n}\n", COUNT);
    draft_end(&d);
    flx_module *m = flx_parse(ctx, d.at, d.size, "t", &err);
    CHECK_MSG(m != NULL, "%s: %s", err.where, err.message);
    CHECK_EQ_U64(flx_graph_node_count(flx_module_main(m)), 3 * COUNT + 1);
    free(d.at);
    flx_module_free(m);
    flx_context_free(ctx);
}

TEST(parse_long_things_are_fine)
{
    enum { COUNT = 50000 };
    draft d;
    flx_error err;
    repeat(draft_begin(&d), "graph f(", 1); /* leaves, each with a symbol of its own */
    for (int i = 0; i < COUNT / 5; i++)
        fprintf(d.file, "x%d: f32[s%d], ", i, i);
    fputs(") { return }", d.file);
    CHECK_OK(attempt_draft(&d, &err), &err);
    repeat(draft_begin(&d), "graph f(x: f32[]) { return ", 1); /* returns */
    repeat(&d, "x, ", COUNT);
    fputs("}", d.file);
    CHECK_OK(attempt_draft(&d, &err), &err);
    repeat(draft_begin(&d), "graph f() { return const(i8[50000], [", 1); /* a literal */
    repeat(&d, "-1,", COUNT);
    fputs("]) }", d.file);
    CHECK_OK(attempt_draft(&d, &err), &err);
    draft_begin(&d); /* graphs */
    for (int i = 0; i < COUNT / 10; i++)
        fprintf(d.file, "graph g%d() { return }\n", i);
    CHECK_OK(attempt_draft(&d, &err), &err);
    repeat(draft_begin(&d), "graph f(x: f32[]) { return ", 1); /* operands, and results */
    fputs("concat(", d.file);
    repeat(&d, "x, ", 5000);
    fputs("axis=0) }", d.file);
    CHECK_CODE(attempt_draft(&d, &err), FLX_E_SHAPE, &err);
    repeat(draft_begin(&d), "#", COUNT); /* comments */
    fputs("\ngraph f() { return }", d.file);
    CHECK_OK(attempt_draft(&d, &err), &err);
    repeat(draft_begin(&d), "graph f() { return }", 1);
    repeat(&d, "\n#\n", COUNT);
    CHECK_OK(attempt_draft(&d, &err), &err);
}

TEST(parse_long_tokens_are_read_or_refused)
{
    static const struct {
        const char *before, *unit, *after;
        flx_code code;
    } rows[] = {
        {"graph ", "a", "() { return }", FLX_OK},
        {"graph f(", "a", ": f32[]) { return }", FLX_OK},
        {"graph f(x: f32[", "N", "]) { return x }", FLX_OK},
        {"graph f() { return ", "1", " }", FLX_E_SYNTAX}, /* a numeral longer than any double needs */
        {"graph f() { return 0.", "0", "1 }", FLX_E_SYNTAX},
        {"graph f() { return 1e", "9", " }", FLX_E_SYNTAX},
        {"graph f(x: f32[", "1", "]) { return x }", FLX_E_SIZE},
        {"graph f(x: f32[2]) { return softmax(x, axis=", "0", ") }", FLX_E_SYNTAX},
        {"graph f() { return ", "a", "(1) }", FLX_E_NAME},
        {"graph f() { return iota(f32[2], ", "a", "=1) }", FLX_E_ATTRIBUTE},
        {"graph f(x: f32[]) { return cast(x, to=", "f", ") }", FLX_E_ATTRIBUTE},
        {"graph f(x: f32[]) { return print(x, message=\"", "a", "\") }", FLX_OK},
        {"graph f() { return const(u8[50000], \"", "00", "\") }", FLX_E_SHAPE},
        {"graph f(x: f32[]) { return custom_fn(x, fwd_body=@", "a", ") }", FLX_E_NAME},
        {"", "a", "", FLX_E_SYNTAX},
        {"", "}", "", FLX_E_SYNTAX},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        draft d;
        flx_error err;
        repeat(draft_begin(&d), rows[i].before, 1);
        repeat(&d, rows[i].unit, 100000);
        fputs(rows[i].after, d.file);
        test_fail_context("%s and many %s", rows[i].before, rows[i].unit);
        CHECK_CODE(attempt_draft(&d, &err), rows[i].code, &err);
        test_count_case();
    }
}

/* Alternate squaring and pooling builds dimensions whose text grows fourfold at each step, from a line each. */
TEST(parse_dimensions_that_would_explode_are_refused)
{
    draft d;
    flx_error err;
    repeat(draft_begin(&d), "graph f(x0: f32[N]) {\n", 1);
    for (int i = 0; i < 40; i++) {
        fprintf(d.file, "  a%d = reshape(einsum(x%d, x%d, eq=\"a,b->ab\"), shape=[-1])\n", i, i, i);
        fprintf(d.file, "  b%d = reshape(einsum(a%d, a%d, eq=\"a,b->ab\"), shape=[1, 1, -1])\n", i, i, i);
        fprintf(d.file, "  x%d = reshape(pool(b%d, kind=max, kernel_size=[2]), shape=[-1])\n", i + 1, i);
    }
    fputs("  return\n}\n", d.file);
    CHECK_CODE(attempt_draft(&d, &err), FLX_E_SIZE, &err);
}

/* ---- Damaged ---- */

TEST(parse_every_byte_alone_is_refused)
{
    for (int c = 0; c < 256; c++) {
        flx_error err;
        char text[32] = "graph f() { return ";
        size_t n = strlen(text);
        test_fail_context("byte %d", c);
        text[n] = (char)c;
        CHECK(attempt(&text[n], 1, &err) != FLX_OK);
        CHECK((attempt(text, n + 1, &err) == FLX_OK) == (c == '}'));
        test_count_case();
    }
}

TEST(parse_zero_bytes_are_refused_where_they_stand)
{
    static const char *const pieces[] = {"graph f() { return }", "x = 1", "\"\"", "1.5", "f32[2]"};
    for (size_t k = 0; k < sizeof pieces / sizeof pieces[0]; k++)
        for (size_t i = 0; i <= strlen(pieces[k]); i++) {
            char text[64];
            flx_error err;
            memcpy(text, pieces[k], i);
            text[i] = 0;
            memcpy(text + i + 1, pieces[k] + i, strlen(pieces[k]) - i);
            CHECK(attempt(text, strlen(pieces[k]) + 1, &err) != FLX_OK);
        }
}

TEST(parse_rich_text_is_right)
{
    flx_error err;
    CHECK_OK(attempt(rich_text, sizeof rich_text - 1, &err), &err);
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = graph_of(ctx, rich_text);
    check_round_trip(g);
    flx_graph_release(g);
    flx_context_free(ctx);
}

TEST(parse_rich_text_cut_anywhere_is_an_error_or_whole_graphs)
{
    for (size_t n = 0; n < sizeof rich_text - 1; n++) {
        flx_error err;
        test_fail_context("cut to %zu bytes", n);
        attempt(rich_text, n, &err);
        test_count_case();
    }
}

TEST(parse_rich_text_with_changed_bytes_never_crashes)
{
    static const char bytes[] = "\0\n\"#(),.-/0:=@N[]_ex{}\xff";
    char text[sizeof rich_text];
    size_t accepted = 0;
    for (size_t i = 0; i < sizeof rich_text - 1; i++)
        for (size_t k = i % 5; k < sizeof bytes - 1; k += 5) { /* every byte of the text, a fifth of the replacements */
            flx_error err;
            memcpy(text, rich_text, sizeof text);
            text[i] = bytes[k];
            test_fail_context("byte %zu is 0x%02x instead of '%c'", i, (unsigned char)bytes[k], rich_text[i]);
            accepted += attempt(text, sizeof rich_text - 1, &err) == FLX_OK;
            test_count_case();
        }
    CHECK(accepted > 0);
}

TEST(parse_rich_text_with_moved_pieces_never_crashes)
{
    uint64_t random = test_seed();
    char text[2 * sizeof rich_text];
    for (int i = 0; i < 1500; i++) {
        size_t size = sizeof rich_text - 1;
        flx_error err;
        memcpy(text, rich_text, size);
        for (int k = 0; k < 3; k++) {
            size_t from = (size_t)(test_random(&random) % size);
            size_t to = (size_t)(test_random(&random) % size);
            size_t n = (size_t)(test_random(&random) % 30);
            n = n < size - from ? n : size - from;
            n = n < size - to ? n : size - to;
            memmove(text + to, text + from, n);
        }
        test_fail_context("variant %d of seed %llu", i, (unsigned long long)test_seed());
        attempt(text, size, &err);
        test_count_case();
    }
}
