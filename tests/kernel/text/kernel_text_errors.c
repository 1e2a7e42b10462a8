/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_text_errors.c: kernel text that is rejected: exact messages with their locations, hostile input, lack of
   memory. */
#include "fault.h"
#include "kernel/flk.h"

#include "kernel/text/kernel_parse.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- Messages ---- */

typedef struct {
    const char *text;
    const char *where; /* LINE:COL */
    flx_code code;
    const char *message;
    const char *hint;
} refusal;

static void check_refusal(const refusal *r, const char *text)
{
    flx_error err = {0};
    char where[40];
    snprintf(where, sizeof where, "t:%s", r->where);
    flx_kernel *k = flx_kernel_parse(flk_context(), text, strlen(text), "t", &err);
    EXPECT_MSG(k == NULL, "the text is accepted:\n%s", text);
    flx_kernel_release(k);
    EXPECT_MSG(err.code == (int32_t)r->code && strcmp(err.message, r->message) == 0 && strcmp(err.where, where) == 0 &&
                   strcmp(err.hint, r->hint) == 0,
               "%s: %s: %s (hint: %s)\nexpected %s: %s: %s (hint: %s) for\n%s", err.where, flx_code_name(err.code),
               err.message, err.hint, where, flx_code_name(r->code), r->message, r->hint, text);
    test_count_case();
}

/* The text is line 4 of a kernel. */
static void check_statements(const refusal *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char text[1000];
        snprintf(text, sizeof text,
                 "kernel t {\n  buffer x: f32[4] read_write; buffer u: u32[] read;\n"
                 "  fn twice(p: f32) -> f32 { return p + p; } let i = u[0];\n%s\n}\n",
                 rows[i].text);
        check_refusal(&rows[i], text);
    }
}

#define CHECK_STATEMENTS(rows) check_statements(rows, sizeof rows / sizeof rows[0])

TEST(kernel_text_refuses_malformed_expressions)
{
    static const refusal rows[] = {
        {"let a = ;", "4:9", FLX_E_SYNTAX, "expected an expression, found ';'", ""},
        {"let a = 1 +;", "4:12", FLX_E_SYNTAX, "expected an expression, found ';'", ""},
        {"let a = 1 2;", "4:11", FLX_E_SYNTAX, "expected ';', found '2'", ""},
        {"let a = (i;", "4:11", FLX_E_SYNTAX, "expected ')', found ';'", ""},
        {"let a = (i];", "4:11", FLX_E_SYNTAX, "expected ')', found ']'", ""},
        {"let a = x[i;", "4:12", FLX_E_SYNTAX, "expected ']', found ';'", ""},
        {"let a = x[i, 1];", "4:12", FLX_E_SYNTAX, "expected ']', found ','", ""},
        {"let a = i);", "4:10", FLX_E_SYNTAX, "expected ';', found ')'", ""},
        {"let a = twice(1.0;", "4:18", FLX_E_SYNTAX, "expected ',' or ')', found ';'", ""},
        {"let a = twice(,);", "4:15", FLX_E_SYNTAX, "expected an expression, found ','", ""},
        {"let a = +1;", "4:9", FLX_E_SYNTAX, "expected an expression, found '+'", ""},
        {"let a = i ? 1 : 2;", "4:11", FLX_E_SYNTAX, "unexpected character '?'", "write select(condition, a, b)"},
        {"let a = i $;", "4:11", FLX_E_SYNTAX, "unexpected character '$'", ""},
        {"let a = \"i;", "4:9", FLX_E_SYNTAX, "unterminated string", "strings end on the line on which they begin"},
        {"let a = i; /* never", "4:12", FLX_E_SYNTAX, "unterminated comment", "end it with */"},
        {"let a = if;", "4:9", FLX_E_SYNTAX, "expected an expression, found the reserved word 'if'",
         "quote it to use it as a name"},
        {"let a = \"b\\q\";", "4:11", FLX_E_SYNTAX, "unknown escape in a string",
         "the escapes are \\\" \\\\ \\n \\t \\r \\xHH"},
        {"let a = \"b\\x00\";", "4:11", FLX_E_SYNTAX, "unknown escape in a string",
         "the escapes are \\\" \\\\ \\n \\t \\r \\xHH"},
        {"let a = cast<f31>(i);", "4:14", FLX_E_SYNTAX, "expected a type such as f32 or u32, found 'f31'", ""},
        {"let a = cast<nf4>(i);", "4:14", FLX_E_SYNTAX, "nf4 is a storage type for buffers, not a type of values",
         "loads widen it"},
        {"let a = cast<f32 i;", "4:18", FLX_E_SYNTAX, "expected '>', found 'i'", ""},
        {"let a = cast(i);", "4:13", FLX_E_SYNTAX, "expected '<', found '('", ""},
        {"let a = buf_len(3);", "4:17", FLX_E_SYNTAX, "expected a buffer, found '3'", ""},
        {"let a = buf_len(x + 1);", "4:19", FLX_E_SYNTAX, "expected ',' or ')', found '+'", ""},
        {"let a = local_id(i);", "4:18", FLX_E_SYNTAX, "expected an axis: 0, 1 or 2, found 'i'", ""},
        {"let a = local_id(4294967296);", "4:18", FLX_E_SYNTAX,
         "4294967296 is too large, at most 4294967295 is allowed here", ""},
        {"let a = local_id(1 + 1);", "4:20", FLX_E_SYNTAX, "expected ',' or ')', found '+'", ""},
        {"let a = 1 + local_id(0 * 2);", "4:24", FLX_E_SYNTAX, "expected ',' or ')', found '*'", ""},
        {"let a = atomic_add(x, 1.0);", "4:21", FLX_E_SYNTAX, "expected '[', found ','", ""},
        {"let a = atomic_add(x[0] + 1.0, 1.0);", "4:25", FLX_E_SYNTAX, "expected ',' or ')', found '+'", ""},
        {"let a = atomic_add(x[0], 1.0, i);", "4:31", FLX_E_SYNTAX,
         "expected an ordering: relaxed acquire release acq_rel seq_cst, found 'i'", ""},
        {"let a = atomic_add(x[0], 1.0, relaxed + 1);", "4:39", FLX_E_SYNTAX, "expected ',' or ')', found '+'", ""},
        {"let a = fma(1.0, 2.0);", "4:9", FLX_E_KERNEL, "K61 fma takes 3 arguments", "separate arguments by commas"},
        {"let a = exp();", "4:9", FLX_E_KERNEL, "K61 exp takes 1 argument", "separate arguments by commas"},
        {"let a = exp(1.0, 2.0);", "4:9", FLX_E_KERNEL, "K61 exp takes 1 argument", "separate arguments by commas"},
        {"let a = subgroup_lane(1);", "4:9", FLX_E_KERNEL, "K61 subgroup_lane takes 0 arguments",
         "write it with empty parentheses"},
        {"let a = local_id();", "4:9", FLX_E_KERNEL, "K61 local_id takes 1 argument", "the axis: 0, 1 or 2"},
        {"let a = buf_len();", "4:9", FLX_E_KERNEL, "K61 buf_len takes 1 argument", "the name of a buffer"},
        {"let a = atomic_add(x[0]);", "4:9", FLX_E_KERNEL, "K61 atomic_add takes 2 arguments and an ordering, if any",
         "as in (buf[i], value)"},
        {"let a = atomic_compare_exchange(x[0], 1, 2, relaxed, 1);", "4:9", FLX_E_KERNEL,
         "K61 atomic_compare_exchange takes 3 arguments and an ordering, if any", "as in (buf[i], expected, value)"},
        {"let a = opaque<f32>(\"k\", \"0\", 1, pure);", "4:26", FLX_E_SYNTAX, "an odd number of hexadecimal digits",
         "each byte takes two digits"},
        {"let a = opaque<f32>(\"k\", \"0g\", 1, pure);", "4:26", FLX_E_SYNTAX,
         "expected bytes as a string of hexadecimal digits", ""},
        {"let a = opaque<f32>(\"k\", \"00\");", "4:30", FLX_E_SYNTAX, "expected ',' and a fingerprint, found ')'", ""},
        {"let a = opaque<f32>(\"k\", \"00\", 1, maybe);", "4:35", FLX_E_SYNTAX,
         "expected pure or impure, found 'maybe'", ""},
        {"let a = opaque<f32>(k, \"00\", 1, pure);", "4:21", FLX_E_SYNTAX,
         "expected the name of an extension, as a string, or its number, found 'k'", ""},
    };
    CHECK_STATEMENTS(rows);
}

TEST(kernel_text_refuses_literals_out_of_range)
{
    static const refusal rows[] = {
        {"let a = 4294967296;", "4:9", FLX_E_SYNTAX, "4294967296 does not fit u32",
         "give it a wider type, as in 300u32"},
        {"let a = 256u8;", "4:9", FLX_E_SYNTAX, "256u8 does not fit u8", "give it a wider type, as in 300u32"},
        {"let a = 128i8;", "4:9", FLX_E_SYNTAX, "128i8 does not fit i8", "give it a wider type, as in 300u32"},
        {"let a = -129i8;", "4:9", FLX_E_SYNTAX, "-129i8 does not fit i8", "give it a wider type, as in 300u32"},
        {"let a = -1;", "4:9", FLX_E_SYNTAX, "-1 does not fit u32", "give it a signed type, as in -1i32; -(1) wraps"},
        {"let a = i + -1;", "4:13", FLX_E_SYNTAX, "-1 does not fit u32",
         "give it a signed type, as in -1i32; -(1) wraps"},
        {"let a = 18446744073709551616u64;", "4:9", FLX_E_SYNTAX, "18446744073709551616u64 does not fit u64",
         "give it a wider type, as in 300u32"},
        {"let a = 1e39;", "4:9", FLX_E_SYNTAX, "1e39 does not fit f32", "inf is written inf; f64 reaches 1.8e308"},
        {"let a = 1e999f64;", "4:9", FLX_E_SYNTAX, "1e999f64 does not fit f64",
         "inf is written inf; f64 reaches 1.8e308"},
        {"let a = 65520f16;", "4:9", FLX_E_SYNTAX, "65520f16 does not fit f16",
         "inf is written inf; f64 reaches 1.8e308"},
        {"x[0] = 340282356779733661637539395458142568448;", "4:8", FLX_E_SYNTAX,
         "340282356779733661637539395458142568448 does not fit f32", "inf is written inf; f64 reaches 1.8e308"},
        {"let a = 1.5u32;", "4:9", FLX_E_SYNTAX, "a real number cannot have an integer's type", ""},
        {"let a = 1bool;", "4:9", FLX_E_SYNTAX, "not a number: the suffix must be a type, as in 2.0f64 or 3i32", ""},
        {"let a = 1nf4;", "4:9", FLX_E_SYNTAX, "not a number: the suffix must be a type, as in 2.0f64 or 3i32", ""},
        {"let a = 12abc;", "4:9", FLX_E_SYNTAX, "not a number: the suffix must be a type, as in 2.0f64 or 3i32", ""},
        {"let a = 1e;", "4:9", FLX_E_SYNTAX, "not a number: the suffix must be a type, as in 2.0f64 or 3i32", ""},
        {"let a = 0x;", "4:9", FLX_E_SYNTAX, "a hexadecimal number without digits", ""},
        {"let a = 0x1.8;", "4:9", FLX_E_SYNTAX, "a hexadecimal real needs its exponent, as in 0x1.8p3", ""},
        {"let a = nan(0x7f800000)f32;", "4:9", FLX_E_SYNTAX, "nan(0x7f800000)f32 does not fit f32",
         "the bits of a NaN: exponent all ones, fraction not 0"},
        {"let a = nan(0x17fc00000)f32;", "4:9", FLX_E_SYNTAX, "nan(0x17fc00000)f32 does not fit f32",
         "the bits of a NaN: exponent all ones, fraction not 0"},
        {"let a = nan(0x7fc00001);", "4:24", FLX_E_SYNTAX, "expected a type such as f32 or u32, found ';'", ""},
        {"let a = nan(0x7fc00001)u32;", "4:9", FLX_E_SYNTAX, "only floats have a NaN", ""},
        {"let a = nan(1.0)f32;", "4:13", FLX_E_SYNTAX,
         "expected the bits of a NaN, as in nan(0x7fc00001)f32, found '1.0'", ""},
    };
    CHECK_STATEMENTS(rows);
}

TEST(kernel_text_refuses_malformed_statements)
{
    static const refusal rows[] = {
        {"let 3 = 4;", "4:5", FLX_E_SYNTAX, "expected a variable's name, found '3'", ""},
        {"let for = 4;", "4:5", FLX_E_SYNTAX, "expected a variable's name, found the reserved word 'for'",
         "quote it to use it as a name"},
        {"let a 4;", "4:7", FLX_E_SYNTAX, "expected '=', found '4'", ""},
        {"let a = 4", "5:1", FLX_E_SYNTAX, "expected ';', found '}'", ""},
        {"1 = 2;", "4:3", FLX_E_SYNTAX, "this is not allowed on the left of '='",
         "only variables and buffer elements can be assigned to"},
        {"(x[0]) = 2.0;", "4:8", FLX_E_SYNTAX, "this is not allowed on the left of '='",
         "only variables and buffer elements can be assigned to"},
        {"if i {}", "4:4", FLX_E_SYNTAX, "expected '(', found 'i'", ""},
        {"if (i) return;", "4:8", FLX_E_SYNTAX, "expected '{', found 'return'", "bodies are written in braces: { … }"},
        {"if (i) {} else return;", "4:16", FLX_E_SYNTAX, "expected '{', found 'return'",
         "bodies are written in braces: { … }"},
        {"else {}", "4:1", FLX_E_SYNTAX, "else without a preceding if", ""},
        {"for (k = 0..3) {}", "4:8", FLX_E_SYNTAX, "expected in, found '='", "write for (i in 0..n) { … }"},
        {"for (k in 0) {}", "4:12", FLX_E_SYNTAX, "expected '..', found ')'", ""},
        {"return 3;", "4:8", FLX_E_SYNTAX, "this return must not have a value",
         "only the last statement of a function returns a value"},
        {"barrier(all);", "4:9", FLX_E_SYNTAX,
         "expected an ordering: acquire release acq_rel seq_cst grid, found 'all'", ""},
        {"barrier", "5:1", FLX_E_SYNTAX, "expected ';', found '}'", ""},
        {"trap(i);", "4:7", FLX_E_SYNTAX, "expected ',', found ')'", ""},
        {"trap(i, 3);", "4:9", FLX_E_SYNTAX, "expected a tag, found '3'", ""},
        {"trap(i, a, b);", "4:10", FLX_E_SYNTAX, "expected ')', found ','", ""},
        {"indirect_dispatch(u, i);", "4:22", FLX_E_SYNTAX, "expected a number, found 'i'", ""},
        {"region {}", "4:8", FLX_E_SYNTAX, "expected ';', found '{'", ""},
        {"region a from b {}", "4:15", FLX_E_SYNTAX, "expected the source, as a string, found 'b'", ""},
        {"region a twice {}", "4:10", FLX_E_SYNTAX, "expected '{', found 'twice'",
         "bodies are written in braces: { … }"},
        {"buffer y: f32[] read;", "4:1", FLX_E_SYNTAX, "a declaration is not allowed among the statements",
         "declare buffers and functions before the first statement"},
        {"fn y() -> f32 { return 1.0; }", "4:1", FLX_E_SYNTAX, "a declaration is not allowed among the statements",
         "declare buffers and functions before the first statement"},
        {";", "4:1", FLX_E_SYNTAX, "expected a statement, found ';'", ""},
        {"}", "5:1", FLX_E_SYNTAX, "expected the end of the text after the kernel, found '}'", ""},
        {"{", "6:1", FLX_E_SYNTAX, "expected a statement or '}', found the end of the text", ""},
        {"} kernel b {", "4:3", FLX_E_SYNTAX, "expected the end of the text after the kernel, found 'kernel'", ""},
    };
    CHECK_STATEMENTS(rows);
}

TEST(kernel_text_refuses_malformed_declarations)
{
    static const refusal rows[] = {
        {"", "1:1", FLX_E_SYNTAX, "expected kernel, found the end of the text", ""},
        {"graph f() {}", "1:1", FLX_E_SYNTAX, "expected kernel, found 'graph'",
         "it holds graphs: flx check and flx run read it, in C flx_parse()"},
        {"kernel {}", "1:8", FLX_E_SYNTAX, "expected the kernel's name, found '{'", ""},
        {"kernel let {}", "1:8", FLX_E_SYNTAX, "expected the kernel's name, found 'let'", ""},
        {"kernel \"a\\z\" {}", "1:10", FLX_E_SYNTAX, "unknown escape in a string",
         "the escapes are \\\" \\\\ \\n \\t \\r \\xHH"},
        {"kernel t(size = 3) {}", "1:10", FLX_E_SYNTAX, "expected workgroup = [x, y, z] or flags = [...], found 'size'",
         ""},
        {"kernel t(workgroup = 3) {}", "1:22", FLX_E_SYNTAX, "expected '[', found '3'", ""},
        {"kernel t(workgroup = [1, 2, 3, 4]) {}", "1:32", FLX_E_SYNTAX, "expected ']', found '4'", ""},
        {"kernel t(workgroup = [4294967296]) {}", "1:23", FLX_E_SYNTAX,
         "4294967296 is too large, at most 4294967295 is allowed here", ""},
        {"kernel t(workgroup = [-1]) {}", "1:23", FLX_E_SYNTAX, "expected a workgroup size, found '-'", ""},
        {"kernel t(flags = [fast]) {}", "1:19", FLX_E_SYNTAX,
         "expected a flag: flush, contract, reassociate or reciprocal, found 'fast'", ""},
        {"kernel t", "1:9", FLX_E_SYNTAX, "expected '{', found the end of the text", ""},
        {"kernel t { meta a = \"b\"; }", "1:17", FLX_E_SYNTAX, "expected a key, as a string, found 'a'", ""},
        {"kernel t { meta \"a\" \"b\"; }", "1:21", FLX_E_SYNTAX, "expected '=', found \"b\"", ""},
        {"kernel t { buffer x f32[] read; }", "1:21", FLX_E_SYNTAX, "expected ':', found 'f32'", ""},
        {"kernel t { buffer x: f31[] read; }", "1:22", FLX_E_SYNTAX,
         "expected an element type, as in f32[1024], found 'f31'", ""},
        {"kernel t { buffer x: f32 read; }", "1:26", FLX_E_SYNTAX, "expected '[', found 'read'", ""},
        {"kernel t { buffer x: f32[-1] read; }", "1:26", FLX_E_SYNTAX, "expected a count of elements, found '-'", ""},
        {"kernel t { buffer x: f32[1.0] read; }", "1:26", FLX_E_SYNTAX, "expected a count of elements, found '1.0'",
         ""},
        {"kernel t { buffer x: f32[18446744073709551616] read; }", "1:26", FLX_E_SYNTAX,
         "18446744073709551616 is too large, at most 18446744073709551615 is allowed here", ""},
        {"kernel t { buffer x: f32[]; }", "1:27", FLX_E_SYNTAX,
         "expected an access: read write read_write output uniform workgroup private, found ';'", ""},
        {"kernel t { buffer x: f32[] read fast; }", "1:33", FLX_E_SYNTAX,
         "expected a flag, @BINDING or ';', found 'fast'", ""},
        {"kernel t { buffer x: f32[] read @; }", "1:34", FLX_E_SYNTAX, "expected a binding, found ';'", ""},
        {"kernel t { buffer x: f32[4] workgroup @3; }", "1:39", FLX_E_SYNTAX, "a workgroup buffer takes no binding",
         "leave it out"},
        {"kernel t { buffer x: f32[] read usage(never); }", "1:39", FLX_E_SYNTAX,
         "expected at_most_once, at_least_once or exactly_once, found 'never'", ""},
        {"kernel t { buffer x: f32[] read align 4; }", "1:39", FLX_E_SYNTAX, "expected '(', found '4'", ""},
        {"kernel t { buffer x: f32[] read where (size > 3); }", "1:40", FLX_E_SYNTAX, "expected count, found 'size'",
         ""},
        {"kernel t { buffer x: f32[] read where (count > 3); }", "1:46", FLX_E_SYNTAX,
         "expected one of >= <= == %, found '>'", ""},
        {"kernel t { buffer x: f32[] read where (!count >= 3); }", "1:41", FLX_E_SYNTAX, "expected '(', found 'count'",
         ""},
        {"kernel t { buffer x: f32[] read where (1 <= 2 * count < 3); }", "1:55", FLX_E_SYNTAX,
         "expected '<=', found '<'", ""},
        {"kernel t { fn exp(a: f32) -> f32 { return a; } }", "1:15", FLX_E_SYNTAX, "'exp' is the name of an op",
         "choose another name, or quote it here and where it is called"},
        {"kernel t { fn f(a) -> f32 { return a; } }", "1:18", FLX_E_SYNTAX, "expected ':', found ')'", ""},
        {"kernel t { fn f(a: f32) { return a; } }", "1:25", FLX_E_SYNTAX, "expected '->' and a type, found '{'", ""},
        {"kernel t { fn f(a: f32) -> nf4 { return a; } }", "1:28", FLX_E_SYNTAX,
         "nf4 is a storage type for buffers, not a type of values", "loads widen it"},
        {"kernel t { fn f(a: f32) -> f32 { let b = a; } }", "1:45", FLX_E_SYNTAX,
         "expected a statement or return, found '}'", ""},
        {"kernel t { fn f(a: f32) -> f32 { return a; let b = a; } }", "1:44", FLX_E_SYNTAX, "expected '}', found 'let'",
         ""},
        {"kernel t { fn f(a: f32) -> f32 { if (true) { return a; } return a; } }", "1:53", FLX_E_SYNTAX,
         "this return must not have a value", "only the last statement of a function returns a value"},
        {"kernel t { adjoint f.a(a: f32) -> f32 { return a; } }", "1:20", FLX_E_SYNTAX, "there is no function 'f'",
         "declare it before its adjoints"},
        {"kernel t { fn f(a: f32) -> f32 { return a; }\n adjoint f.b(a: f32) -> f32 { return a; } }", "2:12",
         FLX_E_SYNTAX, "the function has no parameter 'b'", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        check_refusal(&rows[i], rows[i].text);
}

TEST(kernel_text_names_that_stand_for_nothing)
{
    static const refusal rows[] = {
        {"x[0] = 1.5 + foo;", "4:14", FLX_E_KERNEL, "K10 unknown variable 'foo'", "declare it: let name = value;"},
        {"let indx = i; x[0] = 1.5; x[index] = 1.0;", "4:29", FLX_E_KERNEL, "K10 unknown variable 'index'",
         "did you mean indx?"},
        {"let a = x + 1;", "4:9", FLX_E_KERNEL, "K10 unknown variable 'x'", "x is a buffer: an element is x[i]"},
        {"foo = 1;", "4:1", FLX_E_KERNEL, "K13 assignment to an undeclared name 'foo'",
         "declare it: let name = value;"},
        {"y[0] = 1.0;", "4:1", FLX_E_KERNEL, "K15 unknown buffer 'y'",
         "declare it before the statements: buffer name: f32[] read;"},
        {"let a = xx[0];", "4:9", FLX_E_KERNEL, "K15 unknown buffer 'xx'", "did you mean x?"},
        {"let a = twiec(1.0);", "4:9", FLX_E_KERNEL, "K60 unknown op or function 'twiec'", "did you mean twice?"},
        {"let a = rsqr(1.0);", "4:9", FLX_E_KERNEL, "K60 unknown op or function 'rsqr'", "did you mean rsqrt?"},
        {"let a = frobnicate(1.0);", "4:9", FLX_E_KERNEL, "K60 unknown op or function 'frobnicate'",
         "declare it before the statements: fn name(p: f32) -> f32 { return e; }"},
        {"{ let inner = 1; } let b = inner;", "4:28", FLX_E_KERNEL, "K10 unknown variable 'inner'",
         "declare it: let name = value;"},
        /* An earlier error is reported first. */
        {"let a = 1.0 + 1i32; let b = foo;", "4:1", FLX_E_KERNEL, "K23 the operands of add are f32 and i32",
         "cast one of them"},
        {"let b = foo; let a = 1.0f32 + 1i32;", "4:9", FLX_E_KERNEL, "K10 unknown variable 'foo'",
         "declare it: let name = value;"},
    };
    CHECK_STATEMENTS(rows);
}

/* A finding of validation is located at its statement, buffer or function. */
TEST(kernel_text_findings_have_the_place_of_their_statement)
{
    static const char *const rows[][3] = {
        {"kernel t(workgroup = [0]) { }", "1:1", "K01 "},
        {"\n kernel t { buffer x: f32[] read @0;\n  buffer x: f32[] read @1; }", "3:3", "K02 "},
        {"kernel t { buffer x: f32[] read @0;\n  buffer y: f32[] read @0; }", "2:3", "K03 "},
        {"kernel t {\n buffer x: f32[] workgroup; }", "2:2", "K04 "},
        {"kernel t {\n let a = 1;\n let a = 2;\n}", "3:2", "K11 "},
        {"kernel t {\n let a = 1;\n {\n   let a = 2; } }", "4:4", "K12 "},
        {"kernel t { for (k in 0..3) {\n  k = 1; } }", "2:3", "K14 "},
        {"kernel t { return;\n let a = 2; }", "2:2", "K16 "},
        {"kernel t { buffer x: f32[] read; let a = x[1.5]; }", "1:34", "K20 "},
        {"kernel t { buffer x: f32[] output; x[0] = 1i32; }", "1:36", "K21 "},
        {"kernel t { let a = 1; a = 1.5; }", "1:23", "K22 "},
        {"kernel t { let a = 1; let b = a + 1.5; }", "1:23", "K23 "},
        {"kernel t { if (1.5) { } }", "1:12", "K25 "},
        {"kernel t { for (k in 0..1.5) { } }", "1:12", "K26 "},
        {"kernel t { let a = select(true, 1i32, 1.5); }", "1:12", "K27 "},
        {"kernel t { let a = 1 / 0; }", "1:12", "K32 "},
        {"kernel t { let a = local_id(3); }", "1:12", "K33 "},
        {"kernel t { buffer x: f32[] read;\n x[0] = 1.0; }", "2:2", "K40 "},
        {"kernel t {\n fn f(a: f32) -> f32 { return 1i32; } }", "2:2", "K62 "},
        {"kernel t { fn f(a: f32) -> f32 { return a; }\n let a = f(); }", "2:2", "K61 "},
        {"kernel t { fn f(a: f32) -> f32 { return f(a); } }", "1:12", "K63 "},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        flx_error err = {0};
        char where[40];
        snprintf(where, sizeof where, "t.flk:%s", rows[i][1]);
        flx_kernel *k = flx_kernel_parse(flk_context(), rows[i][0], strlen(rows[i][0]), "t.flk", &err);
        EXPECT_MSG(k == NULL && err.code == FLX_E_KERNEL && strncmp(err.message, rows[i][2], 4) == 0 &&
                       strcmp(err.where, where) == 0 && err.hint[0],
                   "%s: %s (hint: %s) for\n%s", err.where, err.message, err.hint, rows[i][0]);
        flx_kernel_release(k);
        test_count_case();
    }
}

TEST(kernel_text_misuse_is_an_error)
{
    flx_error err = {0};
    flx_buffer out = {0};
    CHECK(flx_kernel_parse(NULL, "", 0, "t", &err) == NULL && err.code == FLX_E_USAGE);
    CHECK(flx_kernel_parse(flk_context(), NULL, 3, "t", &err) == NULL && err.code == FLX_E_USAGE);
    CHECK(flx_kernel_parse(flk_context(), NULL, 0, NULL, &err) == NULL && err.code == FLX_E_SYNTAX);
    CHECK_EQ_STR(err.where, "text:1:1");
    CHECK(flx_kernel_parse(flk_context(), "kernel", 6, NULL, NULL) == NULL);
    CHECK(flx_kernel_print(NULL, &out, &err) == FLX_E_USAGE);
    flx_kernel *k = flk("kernel t { }");
    CHECK(flx_kernel_print(k, NULL, &err) == FLX_E_USAGE);
    flx_kernel_release(k);
    /* Only the given bytes are read, which need not end in a 0. */
    char *exact = malloc(12);
    CHECK(exact != NULL);
    memcpy(exact, "kernel t { }", 12);
    k = flx_kernel_parse(flk_context(), exact, 12, "t", &err);
    CHECK_MSG(k != NULL, "%s", err.message);
    for (size_t n = 0; n < 12; n++)
        CHECK(flx_kernel_parse(flk_context(), exact + 12 - n, n, "t", &err) == NULL);
    flx_kernel_release(k);
    free(exact);
}

/* ---- Hostile input ---- */

typedef struct {
    char *at;
    size_t n, cap;
} text_buffer;

static void append(text_buffer *t, const char *s)
{
    size_t n = strlen(s);
    if (t->n + n + 1 > t->cap) {
        t->cap = 2 * (t->n + n + 1);
        t->at = realloc(t->at, t->cap);
        CHECK(t->at != NULL);
    }
    memcpy(t->at + t->n, s, n + 1);
    t->n += n;
}

static void append_times(text_buffer *t, const char *s, size_t times)
{
    for (size_t i = 0; i < times; i++)
        append(t, s);
}

/* `times` repetitions of `each` between `head` and `tail` are rejected with this message at this location. */
static void check_hostile(const char *head, const char *each, size_t times, const char *tail, flx_code code,
                          const char *message, const char *where)
{
    flx_error err = {0};
    text_buffer t = {0};
    append(&t, head);
    append_times(&t, each, times);
    append(&t, tail);
    test_fail_context("%s (%s)* %s", head, each, tail);
    flx_kernel *k = flx_kernel_parse(flk_context(), t.at, t.n, "t", &err);
    CHECK_MSG(k == NULL, "the text is accepted");
    CHECK_CODE(err.code, code, &err);
    CHECK_EQ_STR(err.message, message);
    CHECK_EQ_STR(err.where, where);
    free(t.at);
    test_fail_context("%s", "");
}

TEST(kernel_text_refuses_hostile_nesting)
{
    static const char deep[] = "K71 expression depth exceeds the limit of 128";
    static const size_t counts[] = {10000, 500000};
    for (int i = 0; i < 2; i++) {
        size_t n = counts[i];
        check_hostile("kernel t { let a = ", "(", n, "", FLX_E_KERNEL, deep, "t:1:532");
        check_hostile("kernel t { let a = ", "-", n, "b", FLX_E_KERNEL, deep, "t:1:532");
        check_hostile("kernel t { let a = ", "!", n, "true", FLX_E_KERNEL, deep, "t:1:532");
        check_hostile("kernel t { let a = ", "exp(", n, "", FLX_E_KERNEL, deep, "t:1:2068");
        check_hostile("kernel t { let a = ", "x[", n, "", FLX_E_KERNEL, deep, "t:1:1044");
        check_hostile("kernel t { let a = ", "f(1,", n, "", FLX_E_KERNEL, deep, "t:1:2068");
        check_hostile("kernel t { let a = 1", " + (1", n, "", FLX_E_KERNEL, deep, "t:1:1302");
        check_hostile("kernel t { let a = 1", "+1", n, ";", FLX_E_KERNEL, deep, "t:1:275");
        check_hostile("kernel t { let a = 1", "|1&1", n, ";", FLX_E_KERNEL, deep, "t:1:525");
        check_hostile("kernel t { ", "{", n, "", FLX_E_KERNEL, "K70 nesting depth exceeds the limit of 64", "t:1:76");
        check_hostile("kernel t { ", "if (1) {", n, "", FLX_E_KERNEL, "K70 nesting depth exceeds the limit of 64",
                      "t:1:524");
        check_hostile("kernel t { if (1) {}", " else if (1) {}", n, "", FLX_E_KERNEL,
                      "K70 nesting depth exceeds the limit of 64", "t:1:972");
        check_hostile("kernel t { buffer x: f32[] read where (", "(", n, "", FLX_E_KERNEL,
                      "K70 the nesting of a condition exceeds the limit of 256", "t:1:297");
        check_hostile("kernel t { buffer x: f32[] read where (", "!", n, "", FLX_E_KERNEL,
                      "K72 the number of parts of a condition exceeds the limit of 256", "t:1:297");
        check_hostile("kernel t { buffer x: f32[] read where (count >= 1", " || count >= 1", n, "", FLX_E_KERNEL,
                      "K72 the number of parts of a condition exceeds the limit of 256", "t:1:1843");
    }
    check_hostile("kernel t { ", "region r { ", 10000, "", FLX_E_KERNEL, "K70 nesting depth exceeds the limit of 64",
                  "t:1:716");
    check_hostile("kernel t { ", "for (i in 0..1) { ", 10000, "", FLX_E_KERNEL,
                  "K70 nesting depth exceeds the limit of 64", "t:1:1164");
    check_hostile("kernel t { let a = f(1", ",1", 4096, ");", FLX_E_KERNEL,
                  "K72 the number of call arguments exceeds the limit of 4096", "t:1:20");
    check_hostile("kernel t { let a = 1.", "0", 100000, ";", FLX_E_SYNTAX, "not a number", "t:1:20");
    check_hostile("kernel t { ", "let a = 1; ", 500001, "}", FLX_E_KERNEL,
                  "K72 the number of nodes exceeds the limit of 1000000", "t:1:5500012");
}

/* The deepest expression that is allowed, in its most bracketed form, prints and reads back. */
TEST(kernel_text_deepest_expression_reads_back)
{
    static const char *const forms[][3] = {
        {"(i - ", "i", ")"}, {"-(", "f", ")"}, {"exp(", "f", ")"}, {"x[u[", "i", "]]"}, {"select(true, ", "1", ", 2)"}};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        int times = i == 3 ? 63 : 127;
        text_buffer t = {0};
        append(&t, "kernel t { buffer x: u32[] read; buffer u: u32[] read; let i = 1; let f = 1.0; let r = ");
        append_times(&t, forms[i][0], (size_t)times);
        append(&t, forms[i][1]);
        append_times(&t, forms[i][2], (size_t)times);
        append(&t, "; }");
        flx_kernel *k = flk(t.at);
        flx_buffer text = flk_text(k);
        flx_kernel *back = flk(text.data);
        flx_buffer again = flk_text(back);
        CHECK_EQ_STR(again.data, text.data);
        flx_buffer_free(&again);
        flx_buffer_free(&text);
        flx_kernel_release(back);
        flx_kernel_release(k);
        free(t.at);
    }
}

/* Many names, each looked up repeatedly: linear, so a megabyte takes no noticeable time. A quadratic reader would take
   minutes. */
TEST(kernel_text_a_megabyte_is_read_in_linear_time)
{
    text_buffer t = {0};
    char line[120];
    append(&t, "kernel t {\n");
    for (int i = 0; i < 16000; i++) {
        snprintf(line, sizeof line, "buffer b%d: f32[] read_write;\n", i);
        append(&t, line);
    }
    for (int i = 0; i < 2000; i++) {
        snprintf(line, sizeof line, "fn f%d(a: f32) -> f32 { return a; }\n", i);
        append(&t, line);
    }
    append(&t, "let v0 = 0;\n");
    for (int i = 1; i < 30000; i++) {
        snprintf(line, sizeof line, "let v%d = v0 + v%d; b%d[v0] = f%d(b0[v%d]);\n", i, i - 1, i % 16000, i % 2000, i);
        append(&t, line);
    }
    append(&t, "}\n");
    CHECK(t.n > 1500000);
    flx_kernel *k = flk(t.at);
    flx_buffer text = flk_text(k);
    CHECK(text.size > 1500000);
    flx_buffer_free(&text);
    flx_kernel_release(k);
    free(t.at);
}

/* Arbitrary bytes and truncations anywhere give a kernel or an error with a location. */
TEST(kernel_text_survives_damage)
{
    static const char rich[] =
        "kernel t(workgroup = [4], flags = [flush]) { meta \"k\" = \"v\"; buffer x: f32[16] read_write "
        "where (count % 4 == 0 && !(count <= 3)); buffer \"q r\": bytes(\"00\")[] read @7;\n"
        "fn sq(a: f32) -> f32 { let t = a * a; return t; } adjoint sq.a(a: f32, z: f32, g: f32) "
        "-> f32 { return 2 * a * g; }\n"
        "let i = invocation_id(0); if (i < 3 && !(i == 2)) { x[i] = sq(x[i]) + -0x1.8p3 * nan; } "
        "else { for (k in 0..i) { atomic_add(x[k], select(true, 1, 2.5), acq_rel); } }\n"
        "region r from \"s\" once { trap(1, tag); } let o = opaque<f32>(\"e\", \"ff\", 1, pure, 1.0); "
        "let c = cast<i8>(-5) >> 1; /* c */ barrier(); return; }";
    static const char pool[] = "(){}[];,.:=@+-*/%&|^~!<>\"\\#\n\0 0123456789xepfu let if else nan inf true\x80\xff";
    uint64_t state = test_seed();
    for (size_t n = 0; n < sizeof rich; n++) {
        flx_error err = {0};
        flx_kernel *k = flx_kernel_parse(flk_context(), rich, n, "t", &err);
        CHECK_MSG(k ? n == sizeof rich - 1 : err.code != FLX_OK && err.where[0], "cut at %zu: %s", n, err.message);
        flx_kernel_release(k);
    }
    for (int round = 0; round < 4000; round++) {
        char text[sizeof rich];
        memcpy(text, rich, sizeof rich);
        for (uint64_t edits = 1 + test_random(&state) % 3; edits-- > 0;)
            text[test_random(&state) % (sizeof rich - 1)] = pool[test_random(&state) % (sizeof pool - 1)];
        flx_error err = {0};
        flx_buffer printed = {0};
        flx_kernel *k = flxi_kernel_parse_only(flk_context(), text, sizeof rich - 1, "t", &err);
        CHECK_MSG(k || err.where[0], "%s", err.message);
        if (k && flx_kernel_print(k, &printed, &err) == FLX_OK) {
            flx_kernel *back = flxi_kernel_parse_only(flk_context(), printed.data, printed.size, "t", &err);
            CHECK_MSG(back != NULL, "%s: %s in\n%s", err.where, err.message, printed.data);
            flx_kernel_release(back);
        }
        flx_buffer_free(&printed);
        flx_kernel_release(k);
    }
}

/* ---- Lack of memory ---- */

static const char starved_text[] =
    "kernel \"a b\" { meta \"k\" = \"v\\n\";\n"
    "buffer x: f32[16] read_write where (count >= 1 && (count >= 2 || !(count == 3)));\n"
    "buffer q: bytes(\"0011\")[] read; buffer y: u32[] output;\n"
    "fn sq(a: f32) -> f32 { let t = a * a; return t; }\n"
    "adjoint sq.a as own(a: f32, z: f32, g: f32) -> f32 { return 2 * a * g; }\n"
    "let i = invocation_id(0); let \"odd \\x41 name\" = 1.5;\n"
    "if (i < 3) { x[i] = sq(x[i]) + 2 * \"odd A name\"; } else if (i == 4) { i = 3; } else { return; }\n"
    "for (k in 0..i) { { atomic_add(x[k], 1); } region r from \"s\" { let z = x[((k)) + (1 * (2 + k))]; } }\n"
    "y[0] = 1; y[1] = 2; y[2] = 3; y[3] = 4; y[4] = 5; y[5] = 6;\n"
    "}\n";

static void starve_once(bool forever, bool print, bool *done, size_t at)
{
    fault f = {0};
    flx_error err = {0};
    flx_buffer out = {0};
    flx_context *ctx = flx_context_new(&(flx_context_options){.alloc = fault_alloc, .alloc_user = &f});
    CHECK(ctx != NULL);
    flx_kernel *k = print ? flk_in(ctx, starved_text) : NULL;
    f.fail_at = f.calls + at;
    f.forever = forever;
    if (print)
        flx_kernel_print(k, &out, &err);
    else
        k = flx_kernel_parse(ctx, starved_text, sizeof starved_text - 1, "t", &err);
    *done = f.failed == 0;
    if (!*done) {
        CHECK_CODE(err.code, FLX_E_OOM, &err);
        CHECK(print ? out.data == NULL : k == NULL);
    } else {
        CHECK_CODE(err.code, FLX_OK, &err);
    }
    flx_buffer_free(&out);
    flx_kernel_release(k);
    flx_context_free(ctx);
    CHECK(fault_is_clean(&f));
}

TEST(kernel_text_starved_reading_and_printing_fail_with_oom)
{
    for (int mode = 0; mode < 4; mode++) {
        bool done = false;
        size_t at = 1;
        for (; !done; at++) {
            test_fail_context("request %zu fails", at);
            starve_once(mode & 1, mode & 2, &done, at);
            test_count_case();
        }
        CHECK(at > 2);
    }
    test_fail_context("%s", "");
}

/* ---- All findings ---- */

TEST(kernel_text_tells_all_findings)
{
    static const char text[] = "kernel t {\n  buffer x: f32[4] read;\n  let i = nothing;\n  x[0] = 1.0;\n  let u = "
                               "cast<u8>(7);\n  far = other[0];\n}\n";
    static const struct {
        const char *code, *position, *message;
        int32_t is_warning;
    } rows[] = {
        {"K10", "nothing", "unknown variable 'nothing'", 0},
        {"K40", "x[0]", "store to buffer 'x', which is read-only", 0},
        {"K30", "let u", "cast of u32 to u8 loses bits", 1},
        {"K15", "other", "unknown buffer 'other'", 0},
        {"K13", "far", "assignment to an undeclared name 'far'", 0},
    };
    enum { NUM_ROWS = sizeof rows / sizeof rows[0] };
    flx_kernel_finding findings[NUM_ROWS] = {0};
    flx_error err = {0};
    size_t found = 0;
    CHECK(flx_kernel_parse_findings(flk_context(), text, strlen(text), "t", findings, 2, &found, &err) == NULL);
    CHECK_EQ_STR(err.message, "K10 unknown variable 'nothing'");
    CHECK_EQ_STR(err.where, "t:3:11");
    CHECK_EQ_U64(found, NUM_ROWS);
    CHECK_EQ_STR(findings[2].code, ""); /* there was room for two */
    CHECK(flx_kernel_parse_findings(flk_context(), text, strlen(text), "t", findings, NUM_ROWS, &found, &err) == NULL);
    for (size_t i = 0; i < NUM_ROWS; i++) {
        CHECK_EQ_STR(findings[i].code, rows[i].code);
        CHECK_EQ_STR(findings[i].message, rows[i].message);
        CHECK_EQ_I64(findings[i].is_warning, rows[i].is_warning);
        CHECK_EQ_U64(findings[i].position, (size_t)(strstr(text, rows[i].position) - text) + 1);
        CHECK(findings[i].hint[0] && findings[i].path[0]);
    }
}

TEST(kernel_text_without_findings)
{
    static const char malformed[] = "kernel t {", right[] = "kernel t { let u = cast<u8>(7); }";
    flx_kernel_finding finding;
    flx_error err = {0};
    size_t found = 7;
    CHECK(flx_kernel_parse_findings(flk_context(), malformed, strlen(malformed), "t", &finding, 1, &found, &err) ==
          NULL);
    CHECK_CODE(err.code, FLX_E_SYNTAX, &err);
    CHECK_EQ_U64(found, 0);
    flx_kernel *k = flx_kernel_parse_findings(flk_context(), right, strlen(right), "t", &finding, 1, &found, &err);
    CHECK(k != NULL && found == 1 && finding.is_warning);
    flx_kernel_release(k);
    k = flx_kernel_parse_findings(flk_context(), right, strlen(right), "t", NULL, 0, NULL, NULL);
    CHECK(k != NULL);
    flx_kernel_release(k);
    CHECK(flx_kernel_parse_findings(flk_context(), right, strlen(right), "t", NULL, 1, &found, &err) == NULL);
    CHECK_CODE(err.code, FLX_E_USAGE, &err);
    CHECK(flx_kernel_parse_findings(NULL, right, strlen(right), "t", &finding, 1, &found, &err) == NULL);
    CHECK_CODE(err.code, FLX_E_USAGE, &err);
}
