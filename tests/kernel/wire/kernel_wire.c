/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_wire.c: the wire form of kernels: round trips, the exact bytes of a small kernel, and everything that must be
   rejected. */
#include "fault.h"
#include "kernel/flk.h"

#include "kernel/text/kernel_parse.h"
#include "kernel/wire/kernel_wire.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- Programs ---- */

/* Every construct once. */
static const char rich[] =
    "kernel rich(workgroup = [4, 2, 1], flags = [flush, contract]) {\n"
    "  meta \"author\" = \"someone\";\n"
    "  meta \"author\" = \"\";\n"
    "  buffer x: f32[8] read @3 align(16) locality(2) coalescing(1);\n"
    "  buffer n: u32[] uniform @0 distinct where (count >= 1 && (count % 4 == 0 || 2 <= 3 * count <= 9) && !(count == "
    "7));\n"
    "  buffer o: f32[8] output @1 live_out range(4, 16) usage(at_least_once);\n"
    "  buffer h: nf4[9] write @2 stop_gradient where (count % 5 == 4 && count <= 10);\n"
    "  buffer a: i64[4] read_write @7;\n"
    "  buffer s: f32[8] workgroup;\n"
    "  buffer p: f64[2] private exclusive;\n"
    "  buffer d: sparse(\"0102ff\")[12] read @9;\n"
    "  fn sq(v: f32) -> f32 { let w = v; if (v > 2.0) { w = w * v; } return w * v; }\n"
    "  adjoint sq.v(v: f32, z: f32, g: f32) -> f32 { return 2.0 * v * g; }\n"
    "  fn two(v: f32) -> f32 { return sq(v) + sq(1.0); }\n"
    "  let i = invocation_id(0) + workgroup_id(1) * local_id(2) % num_workgroups(0);\n"
    "  let acc = nan;\n"
    "  let wide = 0x1.8p300f64;\n"
    "  let small = -7i8;\n"
    "  let truth = true && !false;\n"
    "  acc = select(truth, fma(acc, x[i], -0.0), two(acc));\n"
    "  for (k in 0..n[0]) {\n"
    "    let t = cast<f64>(acc);\n"
    "    p[k] = t + wide;\n"
    "    if (k == 2) { s[k] = acc; } else { region \"gen 1\" from \"src\\n\" once record { s[k] = abs(acc); } }\n"
    "    if (k == 3) { } else { let t2 = bitcast<u64>(t); }\n"
    "  }\n"
    "  barrier();\n"
    "  barrier(grid);\n"
    "  { let i2 = i; h[i2] = 0.5; }\n"
    "  let old = atomic_compare_exchange(a[0], 1, 2, acq_rel);\n"
    "  atomic_max(a[1], cast<i64>(small));\n"
    "  let lanes = subgroup_size() + subgroup_lane() + subgroup_ballot(truth);\n"
    "  let sum = subgroup_add(acc) + subgroup_shuffle(acc, lanes);\n"
    "  async_load(x, s, 0, buf_len(x) * 4, tag);\n"
    "  async_wait(tag);\n"
    "  async_store(s, o, 4, 8, \"tag 2\");\n"
    "  async_wait(\"tag 2\");\n"
    "  if (truth) { trap(17, oops); }\n"
    "  resume(oops);\n"
    "  all_reduce(x, o);\n"
    "  broadcast(x, o, 3);\n"
    "  opaque(\"ext\", \"00ff10\");\n"
    "  let e = opaque<f32>(\"ext\", \"\", 18446744073709551615, impure, acc, i);\n"
    "  indirect_dispatch(a, 8);\n"
    "  o[0] = e;\n"
    "  return;\n"
    "}\n";

static const char saxpy[] = "kernel saxpy(workgroup = [64, 1, 1]) {\n"
                            "  buffer x: f32[1024] read @0;\n"
                            "  buffer y: f32[1024] read_write @1;\n"
                            "  buffer out: f32[1024] output @2;\n"
                            "  let i = invocation_id(0);\n"
                            "  if (i < buf_len(x)) {\n"
                            "    let a = 2.0;\n"
                            "    out[i] = fma(a, x[i], y[i]);\n"
                            "  }\n"
                            "}\n";

static flx_buffer bytes_of(const flx_kernel *k)
{
    flx_error err = {0};
    flx_buffer out = {0};
    CHECK_OK(flx_kernel_encode(k, &out, &err), &err);
    CHECK(out.size % 4 == 0);
    return out;
}

static flx_buffer bytes_of_text(const char *text)
{
    flx_error err = {0};
    flx_kernel *k = flxi_kernel_parse_only(flk_context(), text, strlen(text), "t", &err);
    CHECK_MSG(k != NULL, "%s: %s", err.where, err.message);
    flx_buffer out = bytes_of(k);
    flx_kernel_release(k);
    return out;
}

static bool same_bytes(const flx_buffer *a, const flx_buffer *b)
{
    return a->size == b->size && memcmp(a->data, b->data, a->size) == 0;
}

static uint64_t hash_of(const flx_kernel *k)
{
    uint64_t hash = 0;
    flx_error err = {0};
    CHECK_OK(flx_kernel_hash(k, &hash, &err), &err);
    return hash;
}

/* ---- Round trips ---- */

TEST(kernel_wire_gives_the_same_kernel_back)
{
    static const char *const texts[] = {rich, saxpy, "kernel nothing() {}",
                                        "kernel t() { fn f() -> u32 { return 1; } let a = f(); }"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        flx_error err = {0};
        flx_kernel *k = flk(texts[i]);
        flx_buffer once = bytes_of(k);
        flx_kernel *back = flx_kernel_decode(flk_context(), once.data, once.size, &err);
        CHECK_MSG(back != NULL, "%s", err.message);
        flx_buffer twice = bytes_of(back);
        CHECK(same_bytes(&once, &twice));
        CHECK_EQ_U64(hash_of(k), hash_of(back));
        CHECK_OK(flx_kernel_validate(back, NULL, NULL, 0, NULL, &err), &err);
        flx_buffer text = flk_text(k);
        flx_buffer again = flk_text(back);
        CHECK_EQ_STR(text.data, again.data);
        flx_buffer_free(&once);
        flx_buffer_free(&twice);
        flx_buffer_free(&text);
        flx_buffer_free(&again);
        flx_kernel_release(k);
        flx_kernel_release(back);
    }
}

/* The format is fixed: these bytes were written by its first version. */
TEST(kernel_wire_writes_known_bytes)
{
    flx_buffer b = bytes_of_text("kernel k(workgroup = [4, 1, 1]) {\n"
                                 "  buffer x: f32[8] read @3;\n"
                                 "  let i = local_id(1);\n"
                                 "  if (x[i] < 2.0) { i = i + 7; } else { barrier(); }\n"
                                 "}\n");
    static const uint32_t words[] = {
        0x4b584c46, 1, 0, 67, 0x93f89ac6, 0xca37551e, /* header */
        1, 7, 3, 1, 'x', 1, 'k', 1, 'i',              /* strings */
        2, 20, 4, 1, 1,                               /* declarations: size of the workgroup */
        1, 0x201, 0, 3, 0, 8, 0, 0, 0,
        /* a buffer: access, name, binding, flags, count … */
        0, 0, 0, 0, 0, 0, 0, 0,                      /* no function */
        3, 3, 1, 0, 0,                               /* metadata */
        4, 23, 2,                                    /* body */
        0x41, 2, 0x205, 1,                           /* let i = local_id(1) */
        0x45, 0x1a09, 3, 1, 2, 0, 0x201, 0x40000000, /* if (x[i] < 2.0) */
        1, 0x42, 0, 0x109, 2, 0, 0xc01, 7,           /* i = i + 7 */
        1, 0x347,                                    /* barrier() */
    };
    CHECK_EQ_U64(b.size, sizeof words);
    for (size_t i = 0; i < b.size / 4; i++) {
        const unsigned char *p = (const unsigned char *)b.data + 4 * i;
        uint32_t word = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
        CHECK_MSG(word == words[i], "word %zu is %#x instead of %#x", i, (unsigned)word, (unsigned)words[i]);
    }
    flx_buffer_free(&b);
}

TEST(kernel_wire_writes_equal_programs_alike)
{
    /* Blanks, comments and table rows that nothing refers to are not part of a program. */
    flx_buffer plain =
        bytes_of_text("kernel t() { buffer c: u32[4] read_write @0; let a = 1; { let b = a + 2; } c[0] = a; }");
    flx_buffer spaced =
        bytes_of_text("/* hello */ kernel t(workgroup = [1, 1, 1]) {\n buffer c : u32[4]  read_write;\n\n"
                      "let a = 1u32;\n{ let b = (a + 2); } // here\n c[0] = a; }");
    CHECK(same_bytes(&plain, &spaced));
    flxi_kb *b = flxi_kb_new(flk_context(), "t", (const uint32_t[3]){1, 1, 1}, NULL);
    flxi_kb_text(b, "rubbish", 7);
    flxi_kb_unknown(b, "no_one", 6);
    flxi_kb_unary(b, KUN_exp, flxi_kb_number(b, FLX_F32, 3));
    uint32_t two = flxi_kb_u32(b, 2);
    flxi_kb_add_opaque(b, &(flxi_kopaque){.extension = "unused"});
    uint32_t c = flxi_kb_buffer(
        b, &(flxi_kbuffer){.name = "c", .access = FLX_KERNEL_READ_WRITE, .element = FLX_U32, .count = 4});
    b->position = 77;
    uint32_t a = flxi_kb_var(b, flxi_kb_let(b, "a", flxi_kb_u32(b, 1)));
    flxi_kb_block(b);
    flxi_kb_let(b, "b", flxi_kb_binary(b, KBIN_add, a, two));
    flxi_kb_end(b);
    flxi_kb_store(b, c, flxi_kb_u32(b, 0), a);
    flx_error err = {0};
    flx_kernel *k = flxi_kb_finish(b, &err);
    CHECK(k != NULL);
    flx_buffer built = bytes_of(k);
    CHECK(same_bytes(&plain, &built));
    flx_buffer other =
        bytes_of_text("kernel t() { buffer c: u32[4] read_write @0; let a = 1; { let b = a + 3; } c[0] = a; }");
    CHECK(!same_bytes(&plain, &other));
    flx_kernel_release(k);
    flx_buffer_free(&plain);
    flx_buffer_free(&spaced);
    flx_buffer_free(&built);
    flx_buffer_free(&other);
}

TEST(kernel_wire_carries_programs_that_are_not_valid)
{
    flx_buffer once =
        bytes_of_text("kernel t(workgroup = [0, 9, 9]) {\n"
                      "  let a = missing + 1u32; b = nothing[2]; f(a); { let c = 1; } let d = local_id(9);\n"
                      "  return; return;\n}\n");
    flx_error err = {0};
    flx_kernel *k = flx_kernel_decode(flk_context(), once.data, once.size, &err);
    CHECK_MSG(k != NULL, "%s", err.message);
    flx_buffer twice = bytes_of(k);
    CHECK(same_bytes(&once, &twice));
    flx_kernel_finding found[20];
    size_t n = 0;
    CHECK_CODE(flx_kernel_validate(k, NULL, found, 20, &n, &err), FLX_E_KERNEL, &err);
    static const char *const codes[] = {"K01", "K10", "K15", "K13", "K60", "K24", "K33", "K16"};
    CHECK_EQ_U64(n, sizeof codes / sizeof codes[0]);
    for (size_t i = 0; i < n; i++)
        CHECK_EQ_STR(found[i].code, codes[i]);
    flx_kernel_release(k);
    flx_buffer_free(&once);
    flx_buffer_free(&twice);
}

/* ---- Damage ---- */

static void put_word(unsigned char *at, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        at[i] = (unsigned char)(v >> (8 * i));
}

/* Corrects length and checksum. */
static void seal(unsigned char *bytes, size_t size)
{
    uint64_t sum = flxi_hash_bytes(FLXI_HASH_SEED, bytes + WIRE_HEADER_BYTES, size - WIRE_HEADER_BYTES);
    put_word(bytes + 12, (uint32_t)(size / 4));
    put_word(bytes + 16, (uint32_t)sum);
    put_word(bytes + 20, (uint32_t)(sum >> 32));
}

static const char *const kinds[] = {"truncated ", "bad magic ",  "version ",   "checksum ",     "limit ",
                                    "bad tag ",   "bad string ", "bad value ", "trailing data "};

/* Whether the bytes are rejected with an error of the format. Accepted bytes must be exactly what the encoder writes.
   */
static bool is_refused(flx_context *ctx, const void *bytes, size_t size, flx_error *err)
{
    void *exact = malloc(size ? size : 1); /* so that a sanitizer sees a read past the end */
    CHECK(exact);
    if (size)
        memcpy(exact, bytes, size);
    *err = (flx_error){0};
    flx_kernel *k = flx_kernel_decode(ctx, exact, size, err);
    free(exact);
    if (!k) {
        bool known = false;
        for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
            known |= strncmp(err->message, kinds[i], strlen(kinds[i])) == 0;
        CHECK_MSG(known && err->code == FLX_E_KERNEL && err->hint[0] && strstr(err->message, "at byte "), "%s",
                  err->message);
        return true;
    }
    flx_error other = {0};
    flx_buffer again = {0};
    CHECK_OK(flx_kernel_encode(k, &again, &other), &other);
    CHECK_MSG(again.size == size && memcmp(again.data, bytes, size) == 0, "accepted, but written otherwise");
    flx_kernel_validate(k, NULL, NULL, 0, NULL, NULL);
    flx_buffer_free(&again);
    flx_kernel_release(k);
    return false;
}

TEST(kernel_wire_refuses_what_is_cut)
{
    flx_buffer b = bytes_of_text(rich);
    flx_error err;
    for (size_t n = 0; n < b.size; n++) {
        test_fail_context("%zu of %zu bytes", n, b.size);
        CHECK(is_refused(flk_context(), b.data, n, &err));
        CHECK_MSG(strncmp(err.message, "truncated at byte", 17) == 0, "%s", err.message);
    }
    /* The same with a matching header. */
    for (size_t n = WIRE_HEADER_BYTES; n < b.size; n += 4) {
        test_fail_context("%zu of %zu bytes, sealed", n, b.size);
        unsigned char *cut = malloc(n);
        CHECK(cut);
        memcpy(cut, b.data, n);
        seal(cut, n);
        CHECK(is_refused(flk_context(), cut, n, &err));
        CHECK_MSG(strncmp(err.message, "truncated at byte", 17) == 0, "%s", err.message);
        free(cut);
    }
    flx_buffer_free(&b);
}

TEST(kernel_wire_refuses_every_flipped_bit)
{
    flx_buffer b = bytes_of_text(rich);
    flx_error err;
    for (size_t i = 0; i < b.size * 8; i++) {
        b.data[i / 8] = (char)(b.data[i / 8] ^ 1 << i % 8);
        test_fail_context("bit %zu of byte %zu", i % 8, i / 8);
        bool is_minor = i / 8 == 6 || i / 8 == 7; /* newer minor versions are read */
        if (!is_minor)
            CHECK(is_refused(flk_context(), b.data, b.size, &err));
        b.data[i / 8] = (char)(b.data[i / 8] ^ 1 << i % 8);
    }
    flx_buffer_free(&b);
}

/* After the checksum a change may give another kernel, but then one whose encoding is exactly these bytes. */
TEST(kernel_wire_accepts_only_what_it_would_write)
{
    flx_buffer b = bytes_of_text(rich);
    unsigned char *changed = malloc(b.size);
    CHECK(changed);
    flx_error err;
    size_t accepted = 0;
    static const unsigned char flips[] = {0x01, 0x02, 0x04, 0x08, 0x10, 0x80, 0xff};
    for (size_t i = WIRE_HEADER_BYTES; i < b.size; i++) {
        for (size_t k = 0; k < sizeof flips; k++) {
            memcpy(changed, b.data, b.size);
            changed[i] ^= flips[k];
            seal(changed, b.size);
            test_fail_context("byte %zu is %#x instead of %#x", i, changed[i], (unsigned char)b.data[i]);
            accepted += !is_refused(flk_context(), changed, b.size, &err);
        }
    }
    uint64_t random = test_seed();
    for (int round = 0; round < 5000; round++) {
        memcpy(changed, b.data, b.size);
        for (uint64_t n = 1 + test_random(&random) % 3; n > 0; n--) {
            size_t to = WIRE_HEADER_BYTES + 4 * (size_t)(test_random(&random) % ((b.size - WIRE_HEADER_BYTES) / 4));
            size_t from = WIRE_HEADER_BYTES + 4 * (size_t)(test_random(&random) % ((b.size - WIRE_HEADER_BYTES) / 4));
            if (test_random(&random) % 3)
                memcpy(changed + to, b.data + from, 4); /* a word that has a meaning elsewhere */
            else
                put_word(changed + to, (uint32_t)(test_random(&random) % 9));
        }
        seal(changed, b.size);
        test_fail_context("round %d of seed %llu", round, (unsigned long long)test_seed());
        accepted += !is_refused(flk_context(), changed, b.size, &err);
    }
    CHECK(accepted > 500);
    free(changed);
    flx_buffer_free(&b);
}

typedef struct {
    size_t at, size;
} section;

static uint32_t word_at(const void *bytes, size_t at)
{
    const unsigned char *p = (const unsigned char *)bytes + at;
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

TEST(kernel_wire_refuses_swapped_sections)
{
    flx_buffer b = bytes_of_text(rich);
    section s[4];
    size_t at = WIRE_HEADER_BYTES;
    for (int i = 0; i < 4; i++) {
        CHECK_EQ_U64(word_at(b.data, at), (uint64_t)i + 1);
        s[i] = (section){at, 8 + 4 * (size_t)word_at(b.data, at + 4)};
        at += s[i].size;
    }
    CHECK_EQ_U64(at, b.size);
    unsigned char *changed = malloc(2 * b.size);
    CHECK(changed);
    memcpy(changed, b.data, WIRE_HEADER_BYTES);
    for (int order = 0; order < 256; order++) { /* all sequences of four, also with one twice */
        const int pick[4] = {order & 3, order >> 2 & 3, order >> 4 & 3, order >> 6};
        size_t n = WIRE_HEADER_BYTES;
        for (int i = 0; i < 4; i++) {
            if (n + s[pick[i]].size > 2 * b.size)
                break;
            memcpy(changed + n, b.data + s[pick[i]].at, s[pick[i]].size);
            n += s[pick[i]].size;
        }
        seal(changed, n);
        flx_error err;
        test_fail_context("sections %d %d %d %d", pick[0], pick[1], pick[2], pick[3]);
        bool is_right = pick[0] == 0 && pick[1] == 1 && pick[2] == 2 && pick[3] == 3;
        CHECK(is_refused(flk_context(), changed, n, &err) == !is_right);
    }
    free(changed);
    flx_buffer_free(&b);
}

TEST(kernel_wire_refuses_random_bytes)
{
    uint64_t random = test_seed();
    unsigned char bytes[256];
    for (int round = 0; round < 5000; round++) {
        size_t n = (size_t)(test_random(&random) % sizeof bytes);
        for (size_t i = 0; i < n; i++)
            bytes[i] = (unsigned char)(test_random(&random) % (round % 2 ? 256 : 6));
        if (n >= 4 && round % 4)
            memcpy(bytes, "FLXK\1\0\0", 8 < n ? 8 : n);
        if (n >= WIRE_HEADER_BYTES && round % 8) {
            put_word(bytes + 8, 0);
            seal(bytes, n & ~(size_t)3);
            n &= ~(size_t)3;
        }
        flx_error err;
        is_refused(flk_context(), bytes, n, &err);
    }
}

/* ---- Exact errors ---- */

/* The bytes of a text with some words replaced; their numbers count from the end when negative. */
typedef struct {
    const char *error, *text;
    struct {
        int word;
        uint32_t value;
    } change[3];
    int unsealed; /* 1: length and checksum are not corrected */
} wire_row;

#define LITERAL "kernel k() { let a = true; }" /* its last words: … let, name, literal | bool << 8, 1 */

static const wire_row wire_rows[] = {
    {"bad magic at byte 0: these bytes are not a kernel", LITERAL, {{0, 0x41414141}}, 1},
    {"version at byte 4: expected 1, found 2", LITERAL, {{1, 2}}, 1},
    {"version at byte 4: expected 1, found 0", LITERAL, {{1, 0x10000}}, 1},
    {"bad value at byte 8: reserved flags are set", LITERAL, {{2, 1}}, 1},
    {"limit at byte 12: more than 64 MiB", LITERAL, {{3, 0x7fffffff}}, 1},
    {"trailing data at byte 80: the data is longer than its length field", LITERAL, {{3, 20}}, 1},
    {"checksum at byte 16: the contents do not match it", LITERAL, {{4, 1}}, 1},
    {"bad tag at byte 24: unexpected section", LITERAL, {{6, 2}}, 0},
    {"truncated at byte 28: a section exceeds the remaining data", LITERAL, {{7, 0x40000000}}, 0},
    {"truncated at byte 28: a section exceeds the remaining data", LITERAL, {{7, 0xffffffff}}, 0},
    {"truncated at byte 32: a count exceeds the remaining data", LITERAL, {{8, 0xffffffff}}, 0},
    {"limit at byte 36: a string or payload is too long", LITERAL, {{9, 0x00100001}}, 0},
    {"truncated at byte 36: a string or payload exceeds the remaining data", LITERAL, {{9, 0x00100000}}, 0},
    {"bad string at byte 36: it is not UTF-8, or has zero bytes", LITERAL, {{10, 0xff}}, 0},
    {"bad string at byte 36: it is not UTF-8, or has zero bytes", LITERAL, {{10, 0}}, 0},
    {"bad value at byte 41: padding is not zero", LITERAL, {{10, 'k' | 1 << 8}}, 0},
    {"bad string at byte 44: it occurs twice", LITERAL, {{12, 'k'}}, 0},
    {"bad value at byte 124: a bool is neither 0 nor 1", LITERAL, {{-1, 2}}, 0},
    {"bad value at byte 120: unknown type of values", LITERAL, {{-2, 0x01 | 200 << 8}}, 0},
    {"bad value at byte 120: unknown type of values", LITERAL, {{-2, 0x01 | FLX_KERNEL_I4 << 8}}, 0},
    {"bad value at byte 120: reserved bits are set", LITERAL, {{-2, 0x01 | 0x400d << 8}}, 0},
    {"bad tag at byte 120: 0x7f is not a valid expression", LITERAL, {{-2, 0x7f}}, 0},
    {"bad tag at byte 120: 0x41 is not a valid expression", LITERAL, {{-2, 0x41}}, 0},
    {"bad tag at byte 120: 0xff is not a valid expression", LITERAL, {{-2, 0xff}}, 0},
    {"bad tag at byte 120: extension 99 is not registered", LITERAL, {{-2, 0x80}, {-1, 99}}, 0},
    {"bad tag at byte 112: 0x1 is not a valid statement", LITERAL, {{-4, 0x01}}, 0},
    {"bad tag at byte 112: extension 1 is not registered", LITERAL, {{-4, 0x80}}, 0},
    {"bad tag at byte 112: 0 is not a valid statement", LITERAL, {{-4, 0}}, 0},
    {"bad string at byte 116: no string has this number", LITERAL, {{-3, 2}}, 0},
    {"bad string at byte 32: a string is not used", LITERAL, {{-3, 0}}, 0},
    {"bad string at byte 88: strings are not in the order of their first use", LITERAL, {{22, 1}}, 0},
    {"truncated at byte 108: a count exceeds the remaining data", LITERAL, {{-5, 0x50000}}, 0},
    {"limit at byte 108: a count is too large", LITERAL, {{-5, 1000001}}, 0},
    {"truncated at byte 128: a word is missing", LITERAL, {{-5, 2}}, 0},
    {"trailing data at byte 112: a section is longer than its contents", LITERAL, {{-5, 0}}, 0},
    {"bad value at byte 124: no variable with this number is declared before its use",
     LITERAL,
     {{-2, 0x02}, {-1, 0}},
     0},
    {"limit at byte 72: a count is too large", LITERAL, {{18, 16385}}, 0},
    {"truncated at byte 72: a count exceeds the remaining data", LITERAL, {{18, 16384}}, 0},
    {"bad value at byte 92: the kernel has unknown flags", LITERAL, {{23, 16}}, 0},
    {"bad value at byte 120: no op has this number",
     "kernel k() { let b = -local_id(0); }",
     {{-3, 0x08 | 200 << 8}},
     0},
    {"bad value at byte 120: no op has this number", "kernel k() { let b = -local_id(0); }", {{-3, 0x08}}, 0},
    {"bad value at byte 124: unknown id", "kernel k() { let b = -local_id(0); }", {{-2, 0x05 | 4 << 8}}, 0},
    {"bad value at byte 120: a cast to the type of its operand",
     "kernel k() { let b = cast<f32>(1u32); }",
     {{-3, 0x0c | FLX_U32 << 8}},
     0},
    {"bad value at byte 124: a literal does not fit its type", "kernel k() { let b = 1u8; }", {{-1, 256}}, 0},
    {"bad value at byte 104: unknown ordering", "kernel k() { barrier(); }", {{-1, 0x47 | 6 << 8}}, 0},
    {"bad value at byte 116: a region has unknown flags", "kernel k() { region r { } }", {{-4, 0x49 | 16 << 8}}, 0},
    {"bad value at byte 76: a buffer has an unknown access, element type or usage",
     "kernel k() { buffer x: f32[1] workgroup; }",
     {{19, 0}},
     0},
    {"bad value at byte 76: a buffer has an unknown access, element type or usage",
     "kernel k() { buffer x: f32[1] workgroup; }",
     {{19, 7 | 2 << 8}},
     0},
    {"bad value at byte 76: a buffer has an unknown access, element type or usage",
     "kernel k() { buffer x: f32[1] workgroup; }",
     {{19, 5 | 100 << 8}},
     0},
    {"bad value at byte 76: a buffer has an unknown access, element type or usage",
     "kernel k() { buffer x: f32[1] workgroup; }",
     {{19, 5 | 2 << 8 | 4 << 16}},
     0},
    {"bad value at byte 84: a workgroup or private buffer has a binding",
     "kernel k() { buffer x: f32[1] workgroup; }",
     {{21, 1}},
     0},
    {"bad value at byte 88: a buffer has unknown flags", "kernel k() { buffer x: f32[1] workgroup; }", {{22, 32}}, 0},
    {"limit at byte 128: a string or payload is too long",
     "kernel k() { buffer x: f32[1] workgroup; }",
     {{32, 0x400001}},
     0},
    {"limit at byte 132: a count is too large", "kernel k() { buffer x: f32[1] workgroup; }", {{33, 257}}, 0},
    {"truncated at byte 132: a count exceeds the remaining data",
     "kernel k() { buffer x: f32[1] workgroup; }",
     {{33, 256}},
     0},
    {"bad value at byte 132: the condition on a count is not well-formed",
     "kernel k() { buffer x: f32[1] read where (count >= 1); }",
     {{34, FLX_KERNEL_COUNT_NOT}},
     0},
    {"bad value at byte 156: no function with this number is declared before its use",
     "kernel k() { fn f() -> u32 { return 1; } let a = f(); }",
     {{-2, 2}},
     0},
    {"limit at byte 160: a count is too large",
     "kernel k() { fn f() -> u32 { return 1; } let a = f(); }",
     {{-1, 4097}},
     0},
    {"truncated at byte 160: a count exceeds the remaining data",
     "kernel k() { fn f() -> u32 { return 1; } let a = f(); }",
     {{-1, 4096}},
     0},
    {"bad value at byte 112: a statement has no type",
     "kernel k() { opaque(\"e\", \"00\"); }",
     {{-6, 0x52 | 1 << 8}},
     0},
    {"limit at byte 128: a string or payload is too long",
     "kernel k() { opaque(\"e\", \"00\"); }",
     {{-2, 0x400001}},
     0},
    {"bad value at byte 172: reserved bits are set",
     "kernel k() { buffer x: f32[1] output; all_reduce(x, x); }",
     {{-3, 0x51 | 4 << 8}},
     0},
    {"bad value at byte 180: no buffer has this number",
     "kernel k() { buffer x: f32[1] output; all_reduce(x, x); }",
     {{-1, 2}},
     0},
};

static bool change_words(const wire_row *r, flx_buffer *b)
{
    for (int i = 0; i < 3; i++) {
        if (i > 0 && r->change[i].word == 0)
            break;
        size_t word = r->change[i].word < 0 ? b->size / 4 - (size_t)-r->change[i].word : (size_t)r->change[i].word;
        if (word >= b->size / 4)
            return false;
        put_word((unsigned char *)b->data + 4 * word, r->change[i].value);
    }
    if (!r->unsealed)
        seal((unsigned char *)b->data, b->size);
    return true;
}

TEST(kernel_wire_says_what_is_wrong_and_where)
{
    for (size_t i = 0; i < sizeof wire_rows / sizeof wire_rows[0]; i++) {
        flx_buffer b = bytes_of_text(wire_rows[i].text);
        test_count_case();
        CHECK(change_words(&wire_rows[i], &b));
        flx_error err = {0};
        flx_kernel *k = flx_kernel_decode(flk_context(), b.data, b.size, &err);
        EXPECT_MSG(!k && strcmp(err.message, wire_rows[i].error) == 0, "row %zu: %s\ninstead of\n%s", i, err.message,
                   wire_rows[i].error);
        flx_kernel_release(k);
        flx_buffer_free(&b);
    }
}

TEST(kernel_wire_reads_newer_minor_versions)
{
    flx_buffer b = bytes_of_text(saxpy);
    flx_error err = {0};
    put_word((unsigned char *)b.data + 4, WIRE_MAJOR | 7u << 16);
    flx_kernel *k = flx_kernel_decode(flk_context(), b.data, b.size, &err);
    CHECK_MSG(k != NULL, "%s", err.message);
    flx_kernel_release(k);
    flx_buffer_free(&b);
}

/* ---- Limits ---- */

typedef struct {
    uint32_t *at;
    size_t n, cap;
} words;

static void add(words *w, uint32_t v)
{
    if (w->n == w->cap) {
        w->cap = w->cap ? 2 * w->cap : 1024;
        w->at = realloc(w->at, w->cap * sizeof *w->at);
        CHECK(w->at);
    }
    w->at[w->n++] = v;
}

/* A kernel "k" without buffers up to the start of its body; `strings` more texts of `length` bytes follow the name. */
static words start_file(uint32_t strings, uint32_t length)
{
    words w = {0};
    add(&w, WIRE_MAGIC);
    add(&w, WIRE_MAJOR);
    for (int i = 0; i < 4; i++)
        add(&w, 0);
    add(&w, WIRE_STRINGS);
    add(&w, 3 + strings * (1 + length / 4));
    add(&w, 1 + strings);
    add(&w, 1);
    add(&w, 'k');
    for (uint32_t i = 0; i < strings; i++) {
        add(&w, length);
        for (uint32_t k = 0; k < length / 4; k++)
            add(&w, 0x61616161);
    }
    static const uint32_t rest[] = {WIRE_DECLARATIONS, 5, 1, 1, 1, 0, 0, WIRE_METADATA, 3, 0, 0, 0, WIRE_BODY, 0};
    for (size_t i = 0; i < sizeof rest / sizeof rest[0]; i++)
        add(&w, rest[i]);
    return w;
}

/* Ends the body that began at word `body` and decodes; "" or the error. Frees w. */
static const char *decode_file(words *w, size_t body)
{
    static flx_error err;
    w->at[body - 1] = (uint32_t)(w->n - body);
    seal((unsigned char *)w->at, w->n * 4);
    err = (flx_error){0};
    flx_kernel *k = flx_kernel_decode(flk_context(), w->at, w->n * 4, &err);
    if (k)
        flx_kernel_validate(k, NULL, NULL, 0, NULL, NULL);
    CHECK(k || err.code == FLX_E_KERNEL);
    flx_kernel_release(k);
    free(w->at);
    return k ? "" : err.message;
}

TEST(kernel_wire_limits_the_number_of_nodes)
{
    for (uint32_t over = 0; over < 2; over++) {
        words w = start_file(0, 0);
        size_t body = w.n;
        add(&w, 500000);
        for (uint32_t i = 0; i < 500000; i++) {
            add(&w, WIRE_EFFECT);
            add(&w, i == 77 && over ? WIRE_UNARY | KUN_neg << 8 : WIRE_LANE);
            if (i == 77 && over)
                add(&w, WIRE_LANE);
        }
        const char *error = decode_file(&w, body);
        CHECK_EQ_STR(error, over ? "limit at byte 4000104: more than 1000000 nodes" : "");
    }
}

TEST(kernel_wire_limits_depth)
{
    for (uint32_t over = 0; over < 2; over++) {
        words w = start_file(0, 0);
        size_t body = w.n;
        add(&w, 1);
        add(&w, WIRE_EFFECT);
        for (uint32_t i = 0; i < 127 + over; i++)
            add(&w, WIRE_UNARY | KUN_neg << 8);
        add(&w, WIRE_LANE);
        const char *error = decode_file(&w, body);
        CHECK_EQ_STR(error, over ? "limit at byte 620: the depth of an expression exceeds 128" : "");
        w = start_file(0, 0);
        for (uint32_t i = 0; i < 64 + over; i++) {
            add(&w, 1);
            add(&w, WIRE_BLOCK);
        }
        add(&w, 0);
        error = decode_file(&w, body);
        CHECK_EQ_STR(error, over ? "limit at byte 616: K70 nesting depth exceeds the limit of 64" : "");
    }
    /* Far beyond the limit: a decoder that recursed before checking would need megabytes of stack. */
    for (uint32_t tag = 0; tag < 2; tag++) {
        words w = start_file(0, 0);
        size_t body = w.n;
        add(&w, 1);
        add(&w, WIRE_EFFECT);
        for (uint32_t i = 0; i < 900000; i++) {
            add(&w, tag ? WIRE_BLOCK : WIRE_UNARY | KUN_neg << 8);
            if (tag)
                add(&w, 1);
        }
        CHECK(strncmp(decode_file(&w, body), tag ? "bad tag" : "limit at", 7) == 0);
    }
}

/* A long text with many references would make the time grow with their product. */
TEST(kernel_wire_limits_texts)
{
    for (uint32_t n = 63; n <= 64; n++) {
        words w = start_file(1, 1 << 20);
        size_t body = w.n;
        add(&w, n);
        for (uint32_t i = 0; i < n; i++) {
            static const uint32_t region[] = {WIRE_REGION, 1, 0, 0}; /* generator, source, empty list */
            for (size_t k = 0; k < 4; k++)
                add(&w, region[k]);
        }
        const char *error = decode_file(&w, body);
        CHECK(n == 63 ? !error[0] : strncmp(error, "limit at byte", 13) == 0);
        CHECK(n == 63 || strstr(error, "texts add up to more than 64 MiB"));
    }
}

TEST(kernel_wire_refuses_to_write_what_it_would_not_read)
{
    static char long_text[(1 << 20) + 2];
    memset(long_text, 'a', sizeof long_text - 1);
    static char payload[(4 << 20) + 1];
    for (int i = 0; i < 7; i++) {
        flx_error err = {0};
        flxi_kb *b = flxi_kb_new(flk_context(), "k", (const uint32_t[3]){1, 1, 1}, &err);
        flxi_kopaque o = {.extension = "e", .payload = payload, .payload_size = sizeof payload - (i == 2)};
        uint32_t opaque = i == 1 || i == 2 ? flxi_kb_add_opaque(b, &o) : 0;
        if (i == 0)
            flxi_kb_meta(b, long_text, "");
        for (int n = 0; opaque && n < (i == 1 ? 1 : 17); n++)
            flxi_kb_simple(b, &(flxi_ks){.kind = KS_OPAQUE, .opaque = opaque});
        if (i == 3)
            flxi_kb_meta(b, "\xff", "");
        if (i == 4)
            flxi_kb_let(b, "a", flxi_kb_unary(b, KUN_exp, 0));
        for (int n = 0; i == 5 && n < 65; n++) {
            flxi_kb_region(b, long_text + 1, "", 0);
            flxi_kb_end(b);
        }
        flx_kernel_predicate p = {.test = FLX_KERNEL_COUNT_NOT};
        if (i == 6)
            flxi_kb_buffer(
                b,
                &(flxi_kbuffer){
                    .name = "x", .access = FLX_KERNEL_READ, .element = FLX_F32, .predicates = &p, .num_predicates = 1});
        flx_kernel *k = flxi_kb_finish(b, &err);
        CHECK_MSG(k != NULL, "%s", err.message);
        flx_buffer out = {0};
        uint64_t hash;
        static const char *const errors[] = {
            "limit: a text exceeds 1 MiB",
            "limit: an extension or a descriptor exceeds 4 MiB",
            "limit: the kernel exceeds 64 MiB",
            "bad string: a text is not UTF-8",
            "bad value: an operand is missing",
            "limit: names and other texts exceed 64 MiB in total",
            "bad value: the condition on the count of a buffer is not well-formed",
        };
        CHECK_CODE(flx_kernel_encode(k, &out, &err), FLX_E_KERNEL, &err);
        CHECK_EQ_STR(err.message, errors[i]);
        CHECK(out.data == NULL);
        CHECK_CODE(flx_kernel_hash(k, &hash, NULL), FLX_E_KERNEL, &err);
        flx_kernel_release(k);
    }
}

TEST(kernel_wire_refuses_missing_arguments)
{
    flx_error err = {0};
    flx_buffer out = {0};
    uint64_t hash;
    flx_kernel *k = flk(saxpy);
    CHECK_CODE(flx_kernel_encode(NULL, &out, &err), FLX_E_USAGE, &err);
    CHECK_CODE(flx_kernel_encode(k, NULL, &err), FLX_E_USAGE, &err);
    CHECK_CODE(flx_kernel_hash(NULL, &hash, &err), FLX_E_USAGE, &err);
    CHECK_CODE(flx_kernel_hash(k, NULL, &err), FLX_E_USAGE, &err);
    CHECK(!flx_kernel_decode(NULL, "", 0, &err) && err.code == FLX_E_USAGE);
    CHECK(!flx_kernel_decode(flk_context(), NULL, 4, &err) && err.code == FLX_E_USAGE);
    CHECK(!flx_kernel_decode(flk_context(), NULL, 0, &err) && err.code == FLX_E_KERNEL);
    CHECK(!flx_kernel_decode(flk_context(), "xyz", 3, NULL));
    flx_kernel_release(k);
}

/* ---- Memory ---- */

TEST(kernel_wire_asks_for_no_more_memory_than_the_bytes_justify)
{
    flx_buffer b = bytes_of_text(saxpy);
    unsigned char *changed = malloc(b.size);
    CHECK(changed);
    fault f = {0};
    flx_context *ctx = flx_context_new(&(flx_context_options){.alloc = fault_alloc, .alloc_user = &f});
    static const uint32_t lies[] = {UINT32_MAX, 0x7fffffff, 1000000, 4096, 65536};
    f.largest = 0;
    for (size_t i = WIRE_HEADER_BYTES; i < b.size; i += 4) {
        for (size_t k = 0; k < sizeof lies / sizeof lies[0]; k++) {
            flx_error err;
            memcpy(changed, b.data, b.size);
            put_word(changed + i, lies[k]);
            seal(changed, b.size);
            is_refused(ctx, changed, b.size, &err);
        }
    }
    CHECK_MSG(f.largest <= 1 << 16, "%zu bytes at once", f.largest);
    flx_context_free(ctx);
    CHECK(fault_is_clean(&f));
    free(changed);
    flx_buffer_free(&b);
}

TEST(kernel_wire_survives_starving)
{
    flx_buffer whole = bytes_of_text(rich);
    for (int forever = 0; forever < 2; forever++) {
        for (size_t n = 1;; n++) {
            test_fail_context("request %zu fails%s", n, forever ? ", and all later ones" : "");
            fault f = {0};
            flx_context *ctx = flx_context_new(&(flx_context_options){.alloc = fault_alloc, .alloc_user = &f});
            size_t before = f.live_blocks;
            f.fail_at = f.calls + n;
            f.forever = forever;
            flx_error err = {0};
            flx_buffer again = {0};
            flx_kernel *k = flx_kernel_decode(ctx, whole.data, whole.size, &err);
            if (k && flx_kernel_encode(k, &again, &err) == FLX_OK)
                CHECK(same_bytes(&whole, &again));
            size_t failed = f.failed;
            CHECK(failed == 0 || err.code == FLX_E_OOM);
            flx_buffer_free(&again);
            flx_kernel_release(k);
            CHECK(f.live_blocks == before);
            flx_context_free(ctx);
            CHECK(fault_is_clean(&f));
            if (failed == 0)
                break;
            CHECK(n < 10000);
        }
    }
    flx_buffer_free(&whole);
}
