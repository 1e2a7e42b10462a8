/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_text.c: kernels as text: reading, printing, and that the two are inverse. */
#include "kernel/flk.h"

#include "kernel/program/kernel.h"
#include "kernel/text/kernel_parse.h"

#include <stdio.h>

/* ---- Round trips ---- */

/* The text, written by hand or printed, gives a kernel that prints as `expected` and reads back from that as the same
   kernel, byte for byte in the wire form. Invalid kernels are read without validation. */
static void check_prints(const char *text, const char *expected)
{
    flx_error err = {0};
    flx_context *ctx = flk_context();
    flx_buffer bytes = {0}, again = {0};
    test_fail_context("%s", text);
    flx_kernel *k = flxi_kernel_parse_only(ctx, text, strlen(text), "t", &err);
    CHECK_MSG(k != NULL, "%s: %s", err.where, err.message);
    flx_buffer printed = flk_text(k);
    CHECK_EQ_STR(printed.data, expected);
    flx_kernel *back = flxi_kernel_parse_only(ctx, printed.data, printed.size, "t", &err);
    CHECK_MSG(back != NULL, "%s: %s in\n%s", err.where, err.message, printed.data);
    CHECK_OK(flx_kernel_encode(k, &bytes, &err), &err);
    CHECK_OK(flx_kernel_encode(back, &again, &err), &err);
    CHECK(bytes.size == again.size && memcmp(bytes.data, again.data, bytes.size) == 0);
    flx_buffer_free(&again);
    again = flk_text(back);
    CHECK_EQ_STR(again.data, printed.data);
    flx_buffer_free(&again);
    flx_buffer_free(&bytes);
    flx_buffer_free(&printed);
    flx_kernel_release(back);
    flx_kernel_release(k);
    test_fail_context("%s", "");
}

/* Text of a valid kernel that is already in printed form. */
static void check_same(const char *text)
{
    flx_kernel_release(flk(text));
    check_prints(text, text);
}

TEST(kernel_text_saxpy_of_the_contract)
{
    check_same("kernel saxpy(workgroup = [64, 1, 1]) {\n"
               "  buffer x: f32[1024] read @0;\n"
               "  buffer y: f32[1024] read_write @1;\n"
               "  buffer out: f32[1024] output @2;\n"
               "  let i = invocation_id(0);\n"
               "  if (i < buf_len(x)) {\n"
               "    let a = 2.0;\n"
               "    out[i] = fma(a, x[i], y[i]);\n"
               "  }\n"
               "}\n");
    flx_kernel *k = flk("kernel s(workgroup = [64, 1, 1]) {\n"
                        "  buffer x: f32[1024] read @0;\n"
                        "  buffer out: f32[] output live_out @2;\n"
                        "}\n");
    flx_kernel_buffer b = {.struct_size = sizeof b};
    uint32_t size[3];
    flx_kernel_workgroup_size(k, size);
    CHECK(size[0] == 64 && size[1] == 1 && size[2] == 1);
    CHECK_EQ_STR(flx_kernel_name(k), "s");
    CHECK(flx_kernel_buffer_count(k) == 2 && flx_kernel_buffer_at(k, 0, &b) == FLX_OK);
    CHECK(b.access == FLX_KERNEL_READ && b.element == FLX_F32 && b.count == 1024 && b.binding == 0 && b.flags == 0);
    CHECK(flx_kernel_buffer_at(k, 1, &b) == FLX_OK && b.access == FLX_KERNEL_READ_WRITE && b.count == 0);
    CHECK(b.binding == 2 && b.flags == (FLX_KERNEL_OUTPUT | FLX_KERNEL_LIVE_OUT));
    flx_kernel_release(k);
}

TEST(kernel_text_every_declaration)
{
    static const char text[] =
        "kernel \"full one\"(workgroup = [8, 2, 1], flags = [flush, contract, reassociate, reciprocal]) {\n"
        "  meta \"author\" = \"a \\\"q\\\"\\\\ \\n\\t\\r\\x01 \xc3\xa9\";\n"
        "  meta \"\" = \"\";\n"
        "  buffer x: f32[1024] read @3 where (count >= 4 && !(count % 8 == 3 || 1 <= 2 * count <= 4));\n"
        "  buffer y: f32[] read_write live_out @0;\n"
        "  buffer out: f64[16] output stop_gradient @9 range(0, 64) align(16) locality(2) coalescing(1);\n"
        "  buffer k: u32[] read distinct @1 usage(at_most_once);\n"
        "  buffer w: i8[2] write output exclusive @4294967295;\n"
        "  buffer \"odd name\": i32[4] read_write @2;\n"
        "  buffer n: u32[3] uniform @4;\n"
        "  buffer sh: bool[64] workgroup;\n"
        "  buffer tape: bf16[64] private exclusive;\n"
        "  buffer a: f8e4m3[8] read @5;\n"
        "  buffer b: f8e5m2[8] read @6;\n"
        "  buffer c: i4[8] read @7;\n"
        "  buffer d: u4[8] read @8;\n"
        "  buffer e: fp4[8] read @10;\n"
        "  buffer f: nf4[18446744073709551615] read @11;\n"
        "  buffer g: bytes(\"00ff\")[10] read @12;\n"
        "  buffer h: tensor[1] read @13 usage(exactly_once);\n"
        "  buffer i: u8[] read @14 usage(at_least_once);\n"
        "}\n";
    check_prints(text, text);
}

TEST(kernel_text_defaults_of_declarations)
{
    check_prints("kernel t { }", "kernel t(workgroup = [1, 1, 1]) {\n}\n");
    check_prints("kernel t() { }", "kernel t(workgroup = [1, 1, 1]) {\n}\n");
    check_prints("kernel t(flags = [], workgroup = [4,],) { }", "kernel t(workgroup = [4, 1, 1]) {\n}\n");
    check_prints("# comment\n/* one\n more **/ kernel t(workgroup=[2,3]){// end\n}",
                 "kernel t(workgroup = [2, 3, 1]) {\n}\n");
    /* A buffer without a binding gets the lowest free one; workgroup and private buffers have none. */
    check_prints(
        "kernel t {\n"
        "  buffer a: f32[] read;\n  buffer b: f32[] read @0;\n  buffer s: f32[4] workgroup;\n"
        "  buffer c: f32[] read @2;\n  buffer d: f32[] output;\n  buffer e: f32[0x10] read align(0) usage(any);\n"
        "}\n",
        "kernel t(workgroup = [1, 1, 1]) {\n"
        "  buffer a: f32[] read @1;\n  buffer b: f32[] read @0;\n  buffer s: f32[4] workgroup;\n"
        "  buffer c: f32[] read @2;\n  buffer d: f32[] output @3;\n  buffer e: f32[16] read @4;\n"
        "}\n");
}

TEST(kernel_text_conditions_on_counts)
{
    static const char *const rows[][2] = {
        {"count >= 1", "count >= 1"},
        {"(count <= 1)", "count <= 1"},
        {"count == 18446744073709551615", "count == 18446744073709551615"},
        {"count % 4 == 0", "count % 4 == 0"},
        {"count mod 4 == 0", "count mod 4 == 0"},
        {"count mod 4 == 1", "count % 4 == 1"},
        {"0 <= 3 * count <= 0x10", "0 <= 3 * count <= 16"},
        {"count >= 1 && count >= 2 && count >= 3", "count >= 1 && count >= 2 && count >= 3"},
        {"count >= 1 && (count >= 2 && count >= 3)", "count >= 1 && (count >= 2 && count >= 3)"},
        {"count >= 1 || count >= 2 && count >= 3", "count >= 1 || count >= 2 && count >= 3"},
        {"(count >= 1 || count >= 2) && count >= 3", "(count >= 1 || count >= 2) && count >= 3"},
        {"count >= 1 || (count >= 2 || count >= 3)", "count >= 1 || (count >= 2 || count >= 3)"},
        {"!(count >= 1) && !!(count >= 2)", "!(count >= 1) && !!(count >= 2)"},
        {"!(count >= 1 && count >= 2 || count >= 3)", "!(count >= 1 && count >= 2 || count >= 3)"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[300], expected[300];
        snprintf(text, sizeof text, "kernel t { buffer x: f32[] read @0 where (%s); }", rows[i][0]);
        snprintf(expected, sizeof expected,
                 "kernel t(workgroup = [1, 1, 1]) {\n  buffer x: f32[] read @0 where (%s);\n}\n", rows[i][1]);
        check_prints(text, expected);
        test_count_case();
    }
}

TEST(kernel_text_every_statement)
{
    static const char text[] = "kernel t(workgroup = [4, 1, 1]) {\n"
                               "  buffer x: f32[16] read @0;\n"
                               "  buffer y: f32[16] read_write @1;\n"
                               "  buffer n: u32[4] read_write @2;\n"
                               "  buffer sh: f32[16] workgroup;\n"
                               "  fn square(a: f32) -> f32 {\n"
                               "    let t = a * a;\n"
                               "    return t;\n"
                               "  }\n"
                               "  fn one() -> u32 {\n"
                               "    return 1;\n"
                               "  }\n"
                               "  adjoint square.a(a: f32, z: f32, g: f32) -> f32 {\n"
                               "    return 2.0 * a * g;\n"
                               "  }\n"
                               "  adjoint square.a as \"own name\"(a: f32, z: f32, g: f32) -> f32 {\n"
                               "    return g;\n"
                               "  }\n"
                               "  let i = invocation_id(0);\n"
                               "  let v = 0.0;\n"
                               "  v = square(x[i]);\n"
                               "  y[i + 1] = v;\n"
                               "  if (i < one()) {\n"
                               "    v = 1.0;\n"
                               "  }\n"
                               "  if (i) {\n"
                               "  } else {\n"
                               "    v = 2.0;\n"
                               "  }\n"
                               "  if (i == 0) {\n"
                               "    v = 3.0;\n"
                               "  } else if (i == 1) {\n"
                               "    return;\n"
                               "  } else {\n"
                               "    let w = v;\n"
                               "    v = w;\n"
                               "  }\n"
                               "  for (k in 0..i) {\n"
                               "    for (m in k + 1..4) {\n"
                               "      v = v + 1.0;\n"
                               "    }\n"
                               "  }\n"
                               "  {\n"
                               "    {\n"
                               "    }\n"
                               "    let k = 1;\n"
                               "  }\n"
                               "  barrier();\n"
                               "  barrier(acquire);\n"
                               "  barrier(release);\n"
                               "  barrier(seq_cst);\n"
                               "  barrier(relaxed);\n"
                               "  barrier(grid);\n"
                               "  region plain {\n"
                               "  }\n"
                               "  region \"two words\" from \"a.c:3\" once stop_gradient recompute record {\n"
                               "    let r = 1;\n"
                               "  }\n"
                               "  atomic_add(y[i], 1.0);\n"
                               "  async_load(x, sh, 0, 64, first);\n"
                               "  async_store(sh, y, i * 4, 4, \"second one\");\n"
                               "  async_wait(first);\n"
                               "  async_wait(\"second one\");\n"
                               "  indirect_dispatch(n, 4);\n"
                               "  trap(i + 1, bad);\n"
                               "  resume(bad);\n"
                               "  all_reduce(x, y);\n"
                               "  all_gather(x, y);\n"
                               "  reduce_scatter(x, y);\n"
                               "  broadcast(x, y, 3);\n"
                               "  opaque(\"ext\", \"0102ff\");\n"
                               "  opaque(\"ext\", \"\", 0x10, pure);\n"
                               "  return;\n"
                               "}\n";
    check_prints(text, text);
}

/* ---- Expressions ---- */

static const char expr_head[] = "kernel t(workgroup = [1, 1, 1]) {\n"
                                "  buffer x: f32[] read_write @0;\n"
                                "  buffer d: f64[] read_write @1;\n"
                                "  buffer u: u32[] read_write @2;\n"
                                "  buffer s: i32[] read_write @3;\n"
                                "  buffer q: nf4[] read @4;\n"
                                "  fn pick(a: f64, n: u8) -> f64 {\n"
                                "    return a;\n"
                                "  }\n"
                                "  fn \"min\"() -> i64 {\n"
                                "    return 1;\n"
                                "  }\n"
                                "  let f = x[0];\n"
                                "  let g = d[0];\n"
                                "  let i = u[0];\n"
                                "  let j = s[0];\n"
                                "  let b = f < 1.0;\n"
                                "  let h = 1.0f16;\n";

/* `let r = from;` prints as `let r = to;` */
static void check_expr(const char *from, const char *to)
{
    char text[2000], expected[2000];
    snprintf(text, sizeof text, "%s  let r = %s;\n}\n", expr_head, from);
    snprintf(expected, sizeof expected, "%s  let r = %s;\n}\n", expr_head, to);
    check_prints(text, expected);
    test_count_case();
}

static void check_exprs(const char *const (*rows)[2], size_t n)
{
    for (size_t i = 0; i < n; i++)
        check_expr(rows[i][0], rows[i][1] ? rows[i][1] : rows[i][0]);
}

#define CHECK_EXPRS(rows) check_exprs(rows, sizeof rows / sizeof rows[0])

TEST(kernel_text_precedence_is_that_of_c)
{
    static const char *const rows[][2] = {
        {"((i))", "i"},
        {"i+i*i", "i + i * i"},
        {"(i + i) * i", NULL},
        {"i * (i + i)", NULL},
        {"i - i - i", NULL},
        {"(i - i) - i", "i - i - i"},
        {"i - (i - i)", NULL},
        {"i / i % i * i", NULL},
        {"i / (i % (i * i))", NULL},
        {"i << 1 + i", NULL},
        {"(i << 1) + i", NULL},
        {"i < i << 1", NULL},
        {"i & i == i", NULL}, /* ill-typed: == binds more strongly, as in C */
        {"(i & i) == i", NULL},
        {"i | i ^ i & i", NULL},
        {"(i | i) ^ i & i", NULL},
        {"((i | i) ^ i) & i", NULL},
        {"i < i == (i < i)", "i < i == i < i"},
        {"(i < i == b) < b", NULL},
        {"b || b && b", NULL},
        {"(b || b) && b", NULL},
        {"b && b || b && b", "b && b || b && b"},
        {"i == i && i != i || i >= i", NULL},
        {"-f * -f", NULL},
        {"-(f * f)", NULL},
        {"-f + -f - -f", NULL},
        {"- - f", "--f"},
        {"~i >> 1", NULL},
        {"~(i >> 1)", NULL},
        {"!(i < i)", NULL},
        {"!b == b", NULL},
        {"!!b", NULL},
        {"-x[i + 1]", NULL},
        {"-exp(f)", NULL},
        {"f - -1.0", NULL},
        {"f--1.0", "f - -1.0"},
        {"i-1", "i - 1"},
        {"i <= i", NULL},
        {"i > i", NULL},
    };
    CHECK_EXPRS(rows);
}

TEST(kernel_text_every_call)
{
    for (int op = 1; op < KUN_COUNT; op++) {
        const flxi_kop *o = &flxi_kunaries[op];
        char text[80];
        const char *x = o->kinds & TAKES_FLOAT ? "f" : o->kinds == TAKES_TRUTH ? "b" : "i";
        snprintf(text, sizeof text, *o->sign ? "%s%s" : "%s(%s)", *o->sign ? o->sign : o->name, x);
        check_expr(text, text);
    }
    for (int op = 1; op < KBIN_COUNT; op++) {
        const flxi_kop *o = &flxi_kbinaries[op];
        char text[80];
        const char *x = o->kinds & TAKES_FLOAT ? "f" : o->kinds == TAKES_TRUTH ? "b" : "i";
        if (*o->sign)
            snprintf(text, sizeof text, "%s %s %s", x, o->sign, x);
        else
            snprintf(text, sizeof text, "%s(%s, %s)", o->name, x, x);
        check_expr(text, text);
    }
    for (int op = 0; op < FLX_KERNEL_ATOMIC_COUNT; op++)
        for (int order = 0; order < FLX_KERNEL_ORDER_COUNT; order++) {
            char text[120];
            snprintf(text, sizeof text, "atomic_%s(u[i + 1], %s3%s%s)", flxi_katomic_names[op],
                     op == FLX_KERNEL_ATOMIC_COMPARE_EXCHANGE ? "2, " : "", order ? ", " : "",
                     order ? flxi_korder_names[order] : "");
            check_expr(text, text);
        }
}

TEST(kernel_text_other_calls)
{
    static const char *const rows[][2] = {
        {"select(b, f, f)", NULL},
        {"select(i, i, i)", NULL},
        {"fma(f, f, f)", NULL},
        {"cast<f64>(f)", NULL},
        {"cast<f32>(f)", "f"},
        {"bitcast<u32>(f)", NULL},
        {"cast < bool > (i)", "cast<bool>(i)"},
        {"buf_len(x)", NULL},
        {"buf_len(\"q\")", "buf_len(q)"},
        {"invocation_id(0) + workgroup_id(1) + local_id(2) + num_workgroups(0)", NULL},
        {"invocation_id(4294967295)", NULL},
        {"subgroup_lane() + subgroup_size()", NULL},
        {"subgroup_add(f)", NULL},
        {"subgroup_shuffle(f, i)", NULL},
        {"subgroup_ballot(b)", NULL},
        {"atomic_add(u[i], i, relaxed)", "atomic_add(u[i], i)"},
        {"pick(g, 3)", NULL},
        {"pick(g, 3, 4)", NULL},
        {"pick()", NULL},
        {"\"min\"()", NULL},
        {"opaque<f32>(\"k\", \"00AB\", 18, impure)", "opaque<f32>(\"k\", \"00ab\", 0x12, impure)"},
        {"opaque<bool>(\"\", \"\", 0xffffffffffffffff, pure, f + 1.0, i)", NULL},
        {"x[u[u[i]]]", NULL},
        {"add(i, mul(i, 2))", "i + i * 2"}, /* operators may also be called by name */
        {"neg(f) + logical_not(b)", "-f + !b"},
        {"q[3]", NULL},
    };
    CHECK_EXPRS(rows);
}

/* ---- Literals ---- */

TEST(kernel_text_literals_take_the_type_of_their_place)
{
    static const char *const rows[][2] = {
        /* none */
        {"1", NULL},
        {"1.5", NULL},
        {"1 + 2", NULL},
        {"1 + 2.5", "1.0 + 2.5"},
        {"exp(1)", "exp(1.0)"},
        {"fma(1, 2, 3)", "fma(1.0, 2.0, 3.0)"},
        {"1 < 2.0", "1.0 < 2.0"},
        {"is_nan(1)", "is_nan(1.0)"},
        {"cast<f64>(1)", NULL},
        {"cast<u64>(1.0)", NULL},
        {"!1", NULL},
        {"1 && 2", NULL},
        /* the other operand */
        {"f + 1", "f + 1.0"},
        {"1 + f", "1.0 + f"},
        {"g * 2", "g * 2.0"},
        {"j - 1", NULL},
        {"j * -1", NULL},
        {"-1 * j", NULL},
        {"j << 2", NULL},
        {"min(3, g)", "min(3.0, g)"},
        {"j < -3", NULL},
        {"-3 < j", NULL},
        {"h == 2", "h == 2.0"},
        {"fma(2, h, 3)", "fma(2.0, h, 3.0)"},
        {"abs_diff(j, 3)", NULL},
        /* through expressions of literals only */
        {"f * (1 + 2)", "f * (1.0 + 2.0)"},
        {"g + -(1)", "g + -(1.0)"},
        {"j + min(1, -2)", NULL},
        {"g + select(b, 1, exp(2))", "g + select(b, 1.0, exp(2.0))"},
        {"j + select(1 < 2.5, 1, 2)", "j + select(1.0 < 2.5, 1, 2)"},
        {"h + subgroup_add(1) + subgroup_shuffle(2, 3)", "h + subgroup_add(1.0) + subgroup_shuffle(2.0, 3)"},
        {"j + abs(-2)", NULL},
        /* arms */
        {"select(b, 1, f)", "select(b, 1.0, f)"},
        {"select(b, j, -1)", NULL},
        /* index and arguments */
        {"x[3]", NULL},
        {"x[1 + 2]", NULL},
        {"pick(1, 2)", "pick(1.0, 2)"},
        {"atomic_add(x[0], 1)", "atomic_add(x[0], 1.0)"},
        {"atomic_compare_exchange(s[0], -1, -2)", NULL},
        {"subgroup_shuffle(f, 3)", NULL},
        {"unpack_4_low(3)", NULL},
        /* suffixes */
        {"1u32", "1"},
        {"1f32", "1.0"},
        {"1i32", NULL},
        {"1i32 + 2", NULL},
        {"1 + 2i32", "1i32 + 2"},
        {"1 + 2i32 + 3", "1i32 + 2 + 3"},
        {"(1 + 2i64) * 3", "(1i64 + 2) * 3"},
        {"2.0f64 < 1", "2.0f64 < 1.0"},
        {"1 < 2f64", "1.0f64 < 2.0"},
        {"select(b, 1, 2i64)", "select(b, 1i64, 2)"},
        {"fma(1, 2, 3f64)", "fma(1.0f64, 2.0, 3.0)"},
        {"is_nan(1f16)", "is_nan(1.0f16)"},
        {"exp(1bf16)", "exp(1.0bf16)"},
        {"f + 1.0f64", NULL},
        {"i + 1i32", NULL},
        {"i + 1.0", "i + 1.0f32"},
        {"b == 1", "b == 1u32"},
        {"exp(1u32)", NULL},
        {"f << 1", "f << 1.0f32"},
        {"x[1.0]", "x[1.0f32]"},
        {"true == 1", "true == 1u32"},
    };
    CHECK_EXPRS(rows);
}

TEST(kernel_text_assigned_and_stored_literals_take_the_type)
{
    char text[3000], expected[3000];
    snprintf(text, sizeof text,
             "%s  g = 1;\n  j = -1;\n  h = 2;\n  d[0] = 1;\n  s[0] = -5;\n  i = 1;\n"
             "  for (k in 0..2 * 3) {\n    trap(1, a);\n  }\n}\n",
             expr_head);
    snprintf(expected, sizeof expected,
             "%s  g = 1.0;\n  j = -1;\n  h = 2.0;\n  d[0] = 1.0;\n  s[0] = -5;\n  i = 1;\n"
             "  for (k in 0..2 * 3) {\n    trap(1, a);\n  }\n}\n",
             expr_head);
    check_prints(text, expected);
    flx_kernel_release(flk(text));
}

/* The only literal of `let r = from;` has these bits and type. */
static void check_bits(const char *from, uint32_t type, uint64_t bits)
{
    char text[300];
    flx_error err = {0};
    snprintf(text, sizeof text, "kernel t { let r = %s; }", from);
    test_fail_context("%s", from);
    flx_kernel *k = flxi_kernel_parse_only(flk_context(), text, strlen(text), "t", &err);
    CHECK_MSG(k != NULL, "%s: %s", err.where, err.message);
    CHECK(k->num_exprs == 1 && k->exprs[1].kind == KX_LITERAL);
    CHECK_EQ_U64(k->exprs[1].type, type);
    CHECK_EQ_U64(k->exprs[1].bits, bits);
    flx_kernel_release(k);
    test_fail_context("%s", "");
    test_count_case();
}

static const struct {
    const char *text;
    uint32_t type;
    uint64_t bits;
} literals[] = {
    {"true", FLX_BOOL, 1},
    {"false", FLX_BOOL, 0},
    {"255u8", FLX_U8, 255},
    {"0xffu8", FLX_U8, 255},
    {"65535u16", FLX_U16, 65535},
    {"4294967295", FLX_U32, 4294967295},
    {"0xFFFFffff", FLX_U32, 4294967295},
    {"18446744073709551615u64", FLX_U64, UINT64_MAX},
    {"-128i8", FLX_I8, 0x80},
    {"127i8", FLX_I8, 0x7f},
    {"-32768i16", FLX_I16, 0x8000},
    {"-2147483648i32", FLX_I32, 0x80000000},
    {"-9223372036854775808i64", FLX_I64, UINT64_C(0x8000000000000000)},
    {"9223372036854775807i64", FLX_I64, INT64_MAX},
    {"-1i64", FLX_I64, UINT64_MAX},
    {"-0", FLX_U32, 0},
    {"007", FLX_U32, 7},
    {"1.0", FLX_F32, 0x3f800000},
    {"1.", FLX_F32, 0x3f800000},
    {".5", FLX_F32, 0x3f000000},
    {"1e0", FLX_F32, 0x3f800000},
    {"1E+0f64", FLX_F64, UINT64_C(0x3ff0000000000000)},
    {"-0.0", FLX_F32, 0x80000000},
    {"-0f64", FLX_F64, UINT64_C(0x8000000000000000)},
    {"0x1.8p3", FLX_F32, 0x41400000},
    {"0x1p-149", FLX_F32, 1},
    {"-0x1.8p+1f64", FLX_F64, UINT64_C(0xc008000000000000)},
    {"0x1p3bf16", FLX_BF16, 0x4100},
    {"65504f16", FLX_F16, 0x7bff},
    {"1.5bf16", FLX_BF16, 0x3fc0},
    {"0.1f64", FLX_F64, UINT64_C(0x3fb999999999999a)},
    {"16777217f32", FLX_F32, 0x4b800000},
    {"100000000000000000000f32", FLX_F32, 0x60ad78ec},
    {"1e-60", FLX_F32, 0},
    {"inf", FLX_F32, 0x7f800000},
    {"-inf", FLX_F32, 0xff800000},
    {"inff64", FLX_F64, UINT64_C(0x7ff0000000000000)},
    {"-inff16", FLX_F16, 0xfc00},
    {"infbf16", FLX_BF16, 0x7f80},
    {"nan", FLX_F32, 0x7fc00000},
    {"-nan", FLX_F32, 0xffc00000},
    {"nanf64", FLX_F64, UINT64_C(0x7ff8000000000000)},
    {"nanf16", FLX_F16, 0x7e00},
    {"-nanbf16", FLX_BF16, 0xffc0},
    {"nan(0x7fc00001)f32", FLX_F32, 0x7fc00001},
    {"nan(0x7f800001)f32", FLX_F32, 0x7f800001},
    {"-nan(0x7f800001)f32", FLX_F32, 0xff800001},
    {"nan(0xfff0000000000001)f64", FLX_F64, UINT64_C(0xfff0000000000001)},
    {"nan(0x7c01)f16", FLX_F16, 0x7c01},
};

TEST(kernel_text_literals_of_all_types)
{
    for (size_t i = 0; i < sizeof literals / sizeof *literals; i++)
        check_bits(literals[i].text, literals[i].type, literals[i].bits);
}

/* Every bit pattern, or many of them, survives printing, whether its context gives a type or not. */
static void check_pattern(uint32_t type, uint64_t bits)
{
    flx_error err = {0};
    const uint32_t size[3] = {1, 1, 1};
    flxi_kb *b = flxi_kb_new(flk_context(), "t", size, &err);
    CHECK(b != NULL);
    flxi_kb_let(b, "a", flxi_kb_literal(b, type, bits));
    flx_kernel *k = flxi_kb_finish(b, &err);
    CHECK_MSG(k != NULL, "%s", err.message);
    flx_buffer text = flk_text(k);
    flx_kernel *back = flxi_kernel_parse_only(flk_context(), text.data, text.size, "t", &err);
    CHECK_MSG(back != NULL, "%s: %s in\n%s", err.where, err.message, text.data);
    CHECK_MSG(back->num_exprs == 1 && back->exprs[1].type == type && back->exprs[1].bits == k->exprs[1].bits,
              "%llx of type %u is printed as %s", (unsigned long long)k->exprs[1].bits, type, text.data);
    flx_buffer_free(&text);
    flx_kernel_release(back);
    flx_kernel_release(k);
}

TEST(kernel_text_bit_patterns_survive)
{
    static const uint32_t types[] = {FLX_F64, FLX_F32, FLX_F16, FLX_BF16, FLX_I64, FLX_I32, FLX_I16,
                                     FLX_I8,  FLX_U64, FLX_U32, FLX_U16,  FLX_U8,  FLX_BOOL};
    uint64_t state = test_seed();
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        uint8_t width = flxi_ktype_of(types[i])->bits;
        for (int n = 0; n < 400; n++) {
            uint64_t r = test_random(&state), near = UINT64_C(1) << (r & 63);
            uint64_t choices[] = {r, near, near - 1, ~near, r << (width > 32 ? 52 : width / 2), r >> 32};
            check_pattern(types[i], choices[n % 6]);
            test_count_case();
        }
        for (uint64_t n = 0; width <= 8 && n < UINT64_C(1) << width; n++)
            check_pattern(types[i], n);
    }
    for (uint64_t n = 0; n < 65536; n += 7) { /* all exponents and most fractions of the narrow floats */
        check_pattern(FLX_F16, n);
        check_pattern(FLX_BF16, n);
    }
}

/* ---- Names ---- */

TEST(kernel_text_names_that_are_no_identifiers_are_quoted)
{
    static const char text[] = "kernel \"let\"(workgroup = [1, 1, 1]) {\n"
                               "  buffer \"1x\": f32[] read_write @0;\n"
                               "  buffer \"a.b\": f32[] read_write @1;\n"
                               "  buffer \"\xc3\xa9\xe2\x82\xac\": f32[] read_write @2;\n"
                               "  buffer in: f32[] read_write @3;\n"
                               "  buffer buffer: f32[] read_write @4;\n"
                               "  buffer kernel: u32[] read_write @5;\n"
                               "  buffer \"return\": f32[] read_write @6;\n"
                               "  buffer \"cast\": f32[] read_write @7;\n"
                               "  buffer \"inff64\": f32[] read_write @8;\n"
                               "  buffer \"a\\\"b\\\\c\": f32[] read_write @9;\n"
                               "  fn \"exp\"(\"if\": f32) -> f32 {\n"
                               "    return \"if\";\n"
                               "  }\n"
                               "  fn \"a b\"() -> f32 {\n"
                               "    return 1.0;\n"
                               "  }\n"
                               "  fn f(a: f32) -> f32 {\n"
                               "    return exp(a);\n"
                               "  }\n"
                               "  adjoint \"exp\".\"if\"(\"if\": f32, z: f32, g: f32) -> f32 {\n"
                               "    return g;\n"
                               "  }\n"
                               "  let exp = 1;\n"
                               "  let region = exp;\n"
                               "  let fn = region + exp;\n"
                               "  let \"nan\" = 1.0;\n"
                               "  let \"true\" = 2;\n"
                               "  let barrier = \"true\" + fn;\n"
                               "  let in = kernel[barrier];\n"
                               "  region = in;\n"
                               "  fn = \"true\";\n"
                               "  \"true\" = barrier;\n"
                               "  \"1x\"[in] = \"exp\"(\"nan\") + exp(\"nan\") + \"a b\"() + f(\"a.b\"[0]);\n"
                               "  buffer[0] = in[1] + \"return\"[buf_len(\"cast\")];\n"
                               "  \"a\\\"b\\\\c\"[0] = \"\xc3\xa9\xe2\x82\xac\"[0] + \"inff64\"[0];\n"
                               "  for (from in 0..in) {\n"
                               "    atomic_add(in[from], 1.0);\n"
                               "  }\n"
                               "}\n";
    check_same(text);
}

TEST(kernel_text_quoted_names_are_plain_where_they_can_be)
{
    check_prints(
        "kernel \"t\" { buffer \"x\": f32[] read_write @0; let \"y\" = \"x\"[0]; \"y\" = \"\\x79\"; \"x\"[1] = y; }",
        "kernel t(workgroup = [1, 1, 1]) {\n  buffer x: f32[] read_write @0;\n  let y = x[0];\n  y = y;\n"
        "  x[1] = y;\n}\n");
}

TEST(kernel_text_a_variable_may_be_named_like_a_buffer)
{
    check_same("kernel t(workgroup = [1, 1, 1]) {\n"
               "  buffer x: f32[4] read @0;\n"
               "  buffer y: f32[4] output @1;\n"
               "  let x = x[0] * 2.0;\n"
               "  let y = buf_len(x);\n"
               "  y[y] = x + x[y];\n"
               "}\n");
}

TEST(kernel_text_sibling_scopes_may_repeat_a_name)
{
    static const char text[] = "kernel t(workgroup = [1, 1, 1]) {\n"
                               "  buffer x: f32[4] output @0;\n"
                               "  {\n"
                               "    let a = 1.0;\n"
                               "    x[0] = a;\n"
                               "  }\n"
                               "  for (k in 0..2) {\n"
                               "    let a = 1;\n"
                               "    x[a] = 2.0;\n"
                               "  }\n"
                               "  for (k in 0..2) {\n"
                               "  }\n"
                               "  let a = 3;\n"
                               "  x[a] = 1.0;\n"
                               "}\n";
    check_same(text);
    flx_kernel *k = flk(text);
    CHECK(k->num_vars == 5);
    flx_kernel_release(k);
}

/* ---- Results of transforms ---- */

TEST(kernel_text_gradients_are_read_back)
{
    flx_error err = {0};
    flx_kernel *k = flk("kernel f(workgroup = [4]) {\n"
                        "  buffer x: f32[] read; buffer y: f32[] output;\n"
                        "  let i = invocation_id(0); let p = 1.0;\n"
                        "  for (k in 0..5) { if (p < 3) { p = p * sin(x[i]); } else { p = exp(p) / 2; } }\n"
                        "  y[i] = max(p, x[i]);\n"
                        "}\n");
    flx_kernel_derived *d =
        flx_kernel_grad(k, (const char *const[]){"y"}, 1, (const char *const[]){"x"}, 1, NULL, &err);
    CHECK_MSG(d != NULL, "%s", err.message);
    for (size_t i = 0; i < flx_kernel_derived_count(d); i++) {
        flx_buffer bytes = {0}, again = {0};
        flx_buffer text = flk_text(flx_kernel_derived_kernel(d, i));
        flx_kernel *back = flk(text.data);
        CHECK_OK(flx_kernel_encode(flx_kernel_derived_kernel(d, i), &bytes, &err), &err);
        CHECK_OK(flx_kernel_encode(back, &again, &err), &err);
        CHECK(bytes.size == again.size && memcmp(bytes.data, again.data, bytes.size) == 0);
        CHECK_MSG(!strstr(text.data, "0f32"), "needless types in\n%s", text.data);
        flx_buffer_free(&bytes);
        flx_buffer_free(&again);
        flx_buffer_free(&text);
        flx_kernel_release(back);
    }
    flx_kernel_derived_free(d);
    flx_kernel_release(k);
}

/* ---- Invalid kernels can still be read, written and listed ---- */

TEST(kernel_text_unknown_names_survive_without_validation)
{
    flx_error err = {0};
    flx_kernel_finding found[8];
    size_t n;
    static const char text[] = "kernel t(workgroup = [1, 1, 1]) {\n"
                               "  buffer x: f32[] output @0;\n"
                               "  x[0] = y + 1u32;\n"
                               "  z = 1;\n"
                               "  let a = foo(1.0) + 2.0f32;\n"
                               "  w[0] = x[1.0f32];\n"
                               "}\n";
    flx_kernel *k = flxi_kernel_parse_only(flk_context(), text, strlen(text), "t", &err);
    CHECK_MSG(k != NULL, "%s", err.message);
    CHECK(flx_kernel_validate(k, NULL, found, 8, &n, &err) == FLX_E_KERNEL && n >= 5);
    static const char *const codes[] = {"K10", "K13", "K60", "K15", "K20"};
    static const int lines[] = {3, 4, 5, 6, 6};
    for (int i = 0; i < 5; i++) {
        size_t at = 0;
        for (size_t j = 0; j < n; j++) {
            flx_error where = {0};
            char line[16];
            flxi_kernel_set_position(&where, text, "t", found[j].position);
            snprintf(line, sizeof line, "t:%d:3", lines[i]);
            at += strcmp(found[j].code, codes[i]) == 0 && strcmp(where.where, line) == 0;
        }
        CHECK_MSG(at == 1, "%s on line %d is found %zu times", codes[i], lines[i], at);
    }
    flx_kernel_release(k);
}
