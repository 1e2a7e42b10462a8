/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_validate.c: every rule of validation: a program that violates it, with the expected finding, and a similar one
   that does not. Programs are text, read without validation; what text cannot express is built. */
#include "fault.h"
#include "kernel/flk.h"

#include "kernel/check/kernel_uniform.h"
#include "kernel/check/kernel_validate.h"
#include "kernel/text/kernel_parse.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- Findings as text ---- */

enum { ROOM = 64 };

typedef struct {
    char text[8192]; /* "K23 body/0: message\n" for each; warnings begin with "warning " */
    size_t found, errors;
    flx_kernel_finding findings[ROOM];
} report;

static report validate(const flx_kernel *k, const flx_kernel_target *target)
{
    report r = {0};
    flx_error err = {0};
    flx_code code = flx_kernel_validate(k, target, r.findings, ROOM, &r.found, &err);
    CHECK(code == FLX_OK || code == FLX_E_KERNEL);
    CHECK(r.found <= ROOM);
    size_t n = 0;
    for (size_t i = 0; i < r.found; i++) {
        const flx_kernel_finding *f = &r.findings[i];
        n += (size_t)snprintf(r.text + n, sizeof r.text - n, "%s%s %s: %s\n", f->is_warning ? "warning " : "", f->code,
                              f->path, f->message);
        CHECK(n < sizeof r.text);
        CHECK_MSG(f->hint[0], "%s has no hint", f->code);
        r.errors += !f->is_warning;
    }
    CHECK((code == FLX_OK) == (r.errors == 0));
    if (r.errors) {
        size_t first = 0;
        while (r.findings[first].is_warning)
            first++;
        CHECK(strncmp(err.message, r.findings[first].code, 3) == 0 && err.code == FLX_E_KERNEL);
        CHECK_EQ_STR(err.message + 4, r.findings[first].message);
        CHECK_EQ_STR(err.where, r.findings[first].path);
        CHECK_EQ_STR(err.hint, r.findings[first].hint);
    }
    return r;
}

static flx_kernel *read_only(const char *text)
{
    flx_error err = {0};
    flx_kernel *k = flxi_kernel_parse_only(flk_context(), text, strlen(text), "t", &err);
    CHECK_MSG(k != NULL, "%s: %s in\n%s", err.where, err.message, text);
    return k;
}

#define BUFFERS                           \
    "  buffer x: f32[8] read @0;\n"       \
    "  buffer o: f32[8] output @1;\n"     \
    "  buffer w: f32[8] write @2;\n"      \
    "  buffer u: u32[4] uniform @3;\n"    \
    "  buffer c: u32[4] read_write @4;\n" \
    "  buffer s: f32[8] workgroup;\n"     \
    "  buffer p: f32[4] private;\n"       \
    "  buffer d: bytes(\"\")[64] read @5;\n"

/* Statements become a kernel with the buffers above; a text that begins with "kernel" is a complete kernel. */
static report report_on(const char *text, const flx_kernel_target *target)
{
    char whole[4096];
    bool is_whole = strncmp(text, "kernel", 6) == 0;
    int n = snprintf(whole, sizeof whole, "%s%s%s", is_whole ? "" : "kernel t(workgroup = [8, 1, 1]) {\n" BUFFERS, text,
                     is_whole ? "" : "\n}\n");
    CHECK(n > 0 && (size_t)n < sizeof whole);
    flx_kernel *k = read_only(whole);
    report r = validate(k, target);
    flx_kernel_release(k);
    return r;
}

/* ---- One row per way to break a rule ---- */

typedef struct {
    const char *finding; /* all findings, without the last newline */
    const char *bad;
    const char *good; /* has no error */
} row;

static const row rows[] = {
    /* Declarations. */
    {"K01 kernel: workgroup [8, 0, 1]: dimension 1 is 0", "kernel t(workgroup = [8, 0, 1]) {}",
     "kernel t(workgroup = [8, 1, 1]) {}"},
    {"K01 kernel: workgroup [32, 33, 1] has more than 1024 invocations", "kernel t(workgroup = [32, 33, 1]) {}",
     "kernel t(workgroup = [32, 32, 1]) {}"},
    {"K01 kernel: workgroup [4294967295, 4294967295, 4294967295] has more than 1024 invocations",
     "kernel t(workgroup = [4294967295, 4294967295, 4294967295]) {}", "kernel t(workgroup = [1, 1, 1024]) {}"},
    {"K02 buffer x: a second buffer is named 'x'", "kernel t() { buffer x: f32[1] read @0; buffer x: f32[1] read @1; }",
     "kernel t() { buffer x: f32[1] read @0; buffer y: f32[1] read @1; }"},
    {"K03 buffer y: buffers 'x' and 'y' both have binding 7",
     "kernel t() { buffer x: f32[1] read @7; buffer y: f32[1] read @7; }",
     "kernel t() { buffer x: f32[1] read @7; buffer y: f32[1] read @8; }"},
    {"K04 buffer s: workgroup buffer 's' has no count", "kernel t() { buffer s: f32[] workgroup; }",
     "kernel t() { buffer s: f32[1] workgroup; }"},
    {"K04 buffer p: private buffer 'p' has no count", "kernel t() { buffer p: f32[] private; }",
     "kernel t() { buffer x: f32[] read; }"},
    {"K04 buffer b: with buffer 'b', workgroup memory takes 1048580 bytes; the limit is 1048576",
     "kernel t() { buffer a: f32[262143] workgroup; buffer b: f64[1] workgroup; buffer e: f32[4] workgroup; }",
     "kernel t() { buffer a: f32[262143] workgroup; buffer b: f32[1] workgroup; }"},
    {"K04 buffer p: with buffer 'p', private memory takes 18446744073709551615 bytes; the limit is 1048576",
     "kernel t() { buffer p: f64[9223372036854775807] private; }", "kernel t() { buffer p: f64[131072] private; }"},
    {"K05 buffer o: output 'o' has elements of type bytes", "kernel t() { buffer o: bytes(\"\")[4] output; }",
     "kernel t() { buffer o: u8[4] output; }"},
    {"K06 buffer o: range (8, 4) of output 'o' ends before it begins",
     "kernel t() { buffer o: f32[4] output range(8, 4); }", "kernel t() { buffer o: f32[4] output range(4, 8); }"},
    {"K06 buffer o: range (0, 17) of output 'o' ends after the end of the buffer",
     "kernel t() { buffer o: f32[4] output range(0, 17); }", "kernel t() { buffer o: f32[] output range(0, 17); }"},
    {"K06 buffer r: buffer 'r' has a byte range but is not an output",
     "kernel t() { buffer r: f32[4] read_write range(0, 4); }", "kernel t() { buffer r: f32[4] read_write; }"},
    {"K07 buffer x: buffer 'x' has 12 elements, which violates its condition",
     "kernel t() { buffer x: f32[12] read where (count % 8 == 0); }",
     "kernel t() { buffer x: f32[16] read where (count % 8 == 0); }"},
    {"K07 buffer x: buffer 'x' has 12 elements, which violates its condition",
     "kernel t() { buffer x: f32[12] read where (count >= 4 && !(count <= 20) || 30 <= 2 * count <= 40); }",
     "kernel t() { buffer x: f32[15] read where (count >= 4 && !(count <= 20) || 30 <= 2 * count <= 40); }"},
    {"K08 buffer r: buffer 'r' must be used exactly once but is used 0 times",
     "kernel t() { buffer r: f32[4] read_write usage(exactly_once); let n = buf_len(r); }",
     "kernel t() { buffer r: f32[4] read_write usage(exactly_once); r[0] = 1.0; }"},
    {"K08 buffer r: buffer 'r' must be used at most once but is used 2 times",
     "kernel t() { buffer r: f32[4] read_write usage(at_most_once); r[0] = r[1]; }",
     "kernel t() { buffer r: f32[4] read_write usage(at_most_once); }"},
    {"K08 buffer r: buffer 'r' must be used at least once but is used 0 times",
     "kernel t() { buffer r: f32[4] read_write usage(at_least_once); }",
     "kernel t() { buffer r: f32[4] read_write usage(at_least_once); r[0] = r[1]; }"},
    /* Names and scope. */
    {"K10 body/0: no variable 'a' is in scope", "let b = a;", "let a = 1; let b = a;"},
    {"K10 body/1: no variable 'a' is in scope", "{ let a = 1; } let b = a;", "let a = 1; { let b = a; }"},
    {"K11 body/1: 'a' is declared twice in one list", "let a = 1; let a = 2;", "{ let a = 1; } { let a = 2; }"},
    {"K12 body/1/0: 'a' hides a variable of the same name in an outer scope", "let a = 1; { let a = 2; }",
     "let a = 1; { let b = 2; }"},
    {"K12 body/0/0: 'i' hides a variable of the same name in an outer scope", "for (i in 0..4) { let i = 2; }",
     "for (i in 0..4) { let j = 2; }"},
    {"K12 body/0/0: 'i' hides a variable of the same name in an outer scope", "for (i in 0..4) { for (i in 0..4) { } }",
     "for (i in 0..4) { for (j in 0..4) { } }"},
    {"K13 body/0: assignment to 'a', which is not declared here", "a = 1;", "let a = 0; a = 1;"},
    {"K14 body/0/0: assignment to the loop variable 'i'", "for (i in 0..4) { i = 1; }",
     "for (i in 0..4) { let j = i; j = 1; }"},
    {"K15 body/0: load of a buffer that does not exist", "let a = zz[0] + 1.0;", "let a = x[0] + 1.0;"},
    {"K15 body/0: store of a buffer that does not exist", "zz[0] = 1.0;", "o[0] = 1.0;"},
    {"K15 body/0: length of a buffer that does not exist", "let n = buf_len(zz);", "let n = buf_len(x);"},
    {"K15 body/0: atomic_add of a buffer that does not exist", "atomic_add(zz[0], 1);", "atomic_add(c[0], 1);"},
    {"K16 body/1: statements after a return are never reached", "return; let a = 1; let b = 2;", "let a = 1; return;"},
    /* Types. */
    {"K20 body/0: load of buffer 'x': the index is i32, not u32", "let a = x[1i32];", "let a = x[1u32];"},
    {"K20 body/0: store of buffer 'o': the index is f32, not u32", "o[1.5f32] = 1.0;", "o[1] = 1.0;"},
    {"K21 body/0: store of buffer 'o' takes f32, not u32", "o[0] = 1u32;", "o[0] = 1;"},
    {"K21 body/0: atomic_max of buffer 'c' takes u32, not i32", "atomic_max(c[0], 1i32);", "atomic_max(c[0], 1);"},
    {"K22 body/1: 'a' is f32 and cannot be assigned u32", "let a = 1.0; a = 1u32;", "let a = 1.0; a = 1;"},
    {"K23 body/0: the operands of add are f32 and u32", "let a = 1.0f32 + 1u32;", "let a = 1.0f32 + 1;"},
    {"K24 body/0: exp takes floats (f16, bf16, f32, f64), not u32", "let a = exp(1u32);", "let a = exp(1.0);"},
    {"K24 body/0: bit_and takes integers (u8 to u64, i8 to i64), not f32", "let a = 1.0f32 & 2.0f32;",
     "let a = 1 & 2;"},
    {"K24 body/0: mul_high takes unsigned integers (u8, u16, u32, u64), not i32", "let a = mul_high(1i32, 2i32);",
     "let a = mul_high(1, 2);"},
    {"K24 body/0: logical_and takes bool or u32, not i32", "let a = true && 1i32;", "let a = true && 1u32;"},
    {"K24 body/0: unpack_4_low takes u32, not u64", "let a = unpack_4_low(1u64);", "let a = unpack_4_low(1u32);"},
    {"K24 body/0: lt takes integers or floats, not bool", "let a = true < false;", "let a = true == false;"},
    {"K24 body/0: subgroup_ballot takes bool, not u32", "let a = subgroup_ballot(1u32);",
     "let a = subgroup_ballot(true);"},
    {"K25 body/0: the condition of if is f32, not bool or u32", "if (x[0]) { }", "if (x[0] > 0.0) { }"},
    {"K25 body/0: the condition of select is i32, not bool or u32", "let a = select(1i32, 1.0, 2.0);",
     "let a = select(1u32, 1.0, 2.0);"},
    {"K26 body/0: the upper bound of a loop is i32, not u32", "for (i in 0..4i32) { }", "for (i in 0..4u32) { }"},
    {"K26 body/0: the lower bound of a loop is f32, not u32", "for (i in 0.5f32..4) { }", "for (i in 0..4) { }"},
    {"K27 body/0: the arms of select are f32 and u32", "let a = select(true, 1.0f32, 1u32);",
     "let a = select(true, 1.0f32, 1);"},
    {"K28 body/0: the operands of fma are f32, f32 and f64", "let a = fma(1.0f32, 2.0f32, 3.0f64);",
     "let a = fma(1.0f32, 2.0f32, 3.0f32);"},
    {"K28 body/0: the operands of fma are u32, u32 and u32", "let a = fma(1u32, 2u32, 3u32);",
     "let a = fma(1.0, 2.0, 3.0);"},
    {"K29 body/0: bitcast of f32 (32 bits) to u64 (64 bits)", "let a = bitcast<u64>(1.0f32);",
     "let a = bitcast<u32>(1.0f32);"},
    {"K32 body/0: div of u32 by the literal 0", "let a = c[0] / 0;", "let a = x[0] / 0;"},
    {"K32 body/0: mod of i32 by the literal 0", "let a = 5i32 % 0i32;", "let a = 5i32 % 1i32;"},
    {"K33 body/0: local_id(3): the axis is out of range", "let a = local_id(3);", "let a = local_id(2);"},
    {"K34 body/0: load of buffer 'd', whose elements are bytes", "let a = d[0];", "let a = buf_len(d);"},
    /* Access. */
    {"K40 body/0: store to buffer 'x', which is read-only", "x[0] = 1.0;", "w[0] = 1.0;"},
    {"K40 body/0: store to buffer 'u', which is uniform", "u[0] = 1;", "c[0] = 1;"},
    {"K41 body/0: load of buffer 'w', which is write-only", "let a = w[0];", "let a = o[0];"},
    {"K42 body/0: atomic_add on buffer 'u', which is uniform", "atomic_add(u[0], 1);", "atomic_add(c[0], 1);"},
    {"K42 body/0: atomic_add on buffer 'p', which is private", "atomic_add(p[0], 1.0);", "atomic_add(s[0], 1.0);"},
    {"K42 body/0: atomic_add on buffer 'w', which is write", "atomic_add(w[0], 1.0);", "atomic_add(o[0], 1.0);"},
    {"K43 body/0: atomic_and does not work on f32 elements (buffer 'o')", "atomic_and(o[0], 1.0);",
     "atomic_and(c[0], 1);"},
    {"K43 body/0: atomic_add does not work on u8 elements (buffer 'b')",
     "kernel t() { buffer b: u8[4] read_write; atomic_add(b[0], 1); }",
     "kernel t() { buffer b: u64[4] read_write; atomic_add(b[0], 1); }"},
    {"K45 body/0: a barrier with ordering relaxed", "barrier(relaxed);", "barrier(release);"},
    {"K45 body/0: atomic_add with ordering grid", "atomic_add(c[0], 1, grid);", "atomic_add(c[0], 1, seq_cst);"},
    {"K46 body/0: load of buffer 'x' at index 8, but it has 8 elements", "let a = x[8];", "let a = x[7];"},
    {"K46 body/0: store of buffer 'c' at index 4294967295, but it has 4 elements", "c[4294967295] = 1;", "c[3] = 1;"},
    {"K47 body/0: an atomic is not allowed in an arm of select", "let a = select(true, atomic_add(c[0], 1), 0);",
     "let a = select(atomic_add(c[0], 1) > 2, 1, 0);"},
    {"K47 body/0: an atomic is not allowed in a loop bound", "for (i in 0..atomic_add(c[0], 1)) { }",
     "let n = atomic_add(c[0], 1); for (i in 0..n) { }"},
    {"K48 body/0: a copy has an empty tag", "async_load(x, s, 0, 32, \"\");",
     "async_load(x, s, 0, 32, a); async_wait(a);"},
    {"K48 body/0: tag 'a' is never waited for", "async_load(x, s, 0, 32, a);",
     "async_store(s, o, 0, 32, a); async_wait(a);"},
    {"K48 body/0: tag 'a' is waited for but not started\nK48 body/1: tag 'a' is never waited for",
     "async_wait(a); async_load(x, s, 0, 32, a);", "async_load(x, s, 0, 32, a); { async_wait(a); }"},
    {"K48 body/1: tag 'a' is started twice", "async_load(x, s, 0, 4, a); async_load(x, s, 4, 4, a); async_wait(a);",
     "async_load(x, s, 0, 4, a); async_load(x, s, 4, 4, b); async_wait(a); async_wait(b);"},
    {"K40 body/0: async_load to buffer 'p', which is private", "async_load(x, p, 0, 16, a); async_wait(a);",
     "async_load(x, s, 0, 16, a); async_wait(a);"},
    {"K41 body/0: async_load from workgroup buffer 's'", "async_load(s, o, 0, 16, a); async_wait(a);",
     "async_store(s, o, 0, 16, a); async_wait(a);"},
    {"K49 body/0: indirect_dispatch at offset 2 of buffer 'c'", "indirect_dispatch(c, 2);", "indirect_dispatch(c, 4);"},
    {"K49 body/0: indirect_dispatch at offset 8 of buffer 'c', which has 16 bytes", "indirect_dispatch(c, 8);",
     "indirect_dispatch(c, 0);"},
    {"K49 body/0: indirect_dispatch from buffer 's', whose memory ends with the dispatch", "indirect_dispatch(s, 0);",
     "indirect_dispatch(o, 0);"},
    /* Control. */
    {"K50 body/0/0: not all invocations of the workgroup may reach this barrier together",
     "if (local_id(0) < 4) { barrier(); }", "if (workgroup_id(0) < 4) { barrier(); }"},
    {"K50 body/0/else/1: not all invocations of the workgroup may reach this barrier together",
     "if (x[0] < 4.0) { } else { let a = 1; barrier(); }", "if (u[0] < 4) { } else { let a = 1; barrier(); }"},
    {"K50 body/0/0: not all invocations of the grid may reach this barrier together",
     "if (workgroup_id(0) < 4) { barrier(grid); }", "if (num_workgroups(0) < 4) { barrier(grid); }"},
    {"K54 body/1: buffer 'c': an atomic and a plain access to the same element, with no barrier between them",
     "atomic_add(c[0], 1); let a = c[0];", "atomic_add(c[0], 1); barrier(); let a = c[0];"},
    {"K54 body/0: buffer 'c': an atomic and a plain access to the same element, with no barrier between them",
     "atomic_add(c[workgroup_id(0)], c[workgroup_id(0)]);", "atomic_add(c[0], c[1]);"},
    /* Calls and extensions. */
    {"K61 body/0: function 'f' takes 2 arguments, got 1",
     "kernel t() { fn f(a: f32, b: f32) -> f32 { return a; } let r = f(1.0); }",
     "kernel t() { fn f(a: f32, b: f32) -> f32 { return a; } let r = f(1.0, 2.0); }"},
    {"K62 body/0: argument 2 of function 'f' is u32, not f32",
     "kernel t() { fn f(a: f32, b: f32) -> f32 { return a; } let r = f(1.0, 2u32); }",
     "kernel t() { fn f(a: f32, b: f32) -> f32 { return a; } let r = f(1.0, 2.0f32); }"},
    {"K62 fn f: function 'f' returns u32, not f32", "kernel t() { fn f(a: u32) -> f32 { return a; } }",
     "kernel t() { fn f(a: u32) -> u32 { return a; } }"},
    {"K63 fn f: function 'f' calls 'f': it is recursive", "kernel t() { fn f(a: u32) -> u32 { return f(a); } }",
     "kernel t() { fn f(a: u32) -> u32 { return a; } fn g(a: u32) -> u32 { return f(a); } }"},
    {"K64 fn f: function 'f' is not pure: a load",
     "kernel t() { buffer x: f32[4] read; fn f(a: u32) -> f32 { return x[a]; } }",
     "kernel t() { buffer x: f32[4] read; fn f(a: f32) -> f32 { return a; } let r = f(x[0]); }"},
    {"K64 fn f/0: function 'f' is not pure: a store",
     "kernel t() { buffer x: f32[4] write; fn f(a: f32) -> f32 { x[0] = a; return a; } }",
     "kernel t() { buffer x: f32[4] write; fn f(a: f32) -> f32 { let b = a; return b; } }"},
    {"K14 fn f/0: assignment to the parameter 'a'", "kernel t() { fn f(a: f32) -> f32 { a = 1.0; return a; } }",
     "kernel t() { fn f(a: f32) -> f32 { let b = a; b = 1.0; return b; } }"},
    {"K02 fn f: a second function is named 'f'",
     "kernel t() { fn f(a: f32) -> f32 { return a; } fn f(a: f32) -> f32 { return a; } }",
     "kernel t() { buffer f: f32[1] read; fn f(a: f32) -> f32 { return a; } let g = f(f[0]); }"},
    {"K11 fn f: 'a' is declared twice in one list", "kernel t() { fn f(a: f32, a: f32) -> f32 { return a; } }",
     "kernel t() { fn f(a: f32, b: f32) -> f32 { return a; } }"},
    {"K61 adjoint f: the derivative of 'f' has 2 parameters, expected 3",
     "kernel t() { fn f(a: f32) -> f32 { return a; } adjoint f.a(a: f32, g: f32) -> f32 { return g; } }",
     "kernel t() { fn f(a: f32) -> f32 { return a; } adjoint f.a(a: f32, z: f32, g: f32) -> f32 { return g; } }"},
    {"K62 adjoint f: parameter 2 of the derivative of 'f' is f64, not f32",
     "kernel t() { fn f(a: f32) -> f32 { return a; } adjoint f.a(a: f32, z: f64, g: f32) -> f32 { return g; } }",
     "kernel t() { fn f(a: f32) -> f32 { return a; } adjoint f.a(a: f32, z: f32, g: f64) -> f64 { return g; } }"},
    {"K64 body/0: extension 'e' has no fingerprint", "let a = opaque<f32>(\"e\", \"00\", 0, pure);",
     "let a = opaque<f32>(\"e\", \"00\", 1, pure);"},
    {"K64 body/0: an extension has no kind", "opaque(\"\", \"00\");", "opaque(\"e\", \"00\");"},
    {"K73 body/1: region 'r' is allowed once in a program and occurs again", "region r once { } region r { }",
     "region r once { } region q once { }"},
};

TEST(kernel_validate_finds_what_breaks_a_rule_and_nothing_in_its_twin)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        test_fail_context("row %zu: %s", i, rows[i].bad);
        test_count_case();
        char wanted[512];
        snprintf(wanted, sizeof wanted, "%s\n", rows[i].finding);
        report bad = report_on(rows[i].bad, NULL);
        EXPECT_MSG(strcmp(bad.text, wanted) == 0, "found\n%s instead of\n%s", bad.text, wanted);
        test_fail_context("the twin of row %zu: %s", i, rows[i].good);
        report good = report_on(rows[i].good, NULL);
        EXPECT_MSG(good.errors == 0, "found\n%s", good.text);
    }
}

TEST(kernel_validate_reports_everything_in_program_order)
{
    report r = report_on("kernel t(workgroup = [0, 1, 1]) {\n"
                         "  buffer x: f32[8] read @0;\n"
                         "  buffer x: f32[] workgroup;\n"
                         "  fn f(a: f32) -> f32 { let b = a + 1u32; return a; }\n"
                         "  let i = invocation_id(4);\n"
                         "  if (exp(1u32)) { x[true] = q; } else { barrier(relaxed); r = cast<u8>(300u32); }\n"
                         "  for (i in 0..1.5f32) { i = cast<f32>(2.0f64); }\n"
                         "  y[0] = 1.0; return; return;\n"
                         "}\n",
                         NULL);
    CHECK_EQ_STR(r.text, "K01 kernel: workgroup [0, 1, 1]: dimension 0 is 0\n"
                         "K02 buffer x: a second buffer is named 'x'\n"
                         "K04 buffer x: workgroup buffer 'x' has no count\n"
                         "K23 fn f/0: the operands of add are f32 and u32\n"
                         "K33 body/0: invocation_id(4): the axis is out of range\n"
                         "K24 body/1: exp takes floats (f16, bf16, f32, f64), not u32\n"
                         "K10 body/1/0: no variable 'q' is in scope\n"
                         "K20 body/1/0: store of buffer 'x': the index is bool, not u32\n"
                         "K40 body/1/0: store to buffer 'x', which is read-only\n"
                         "K45 body/1/else/0: a barrier with ordering relaxed\n"
                         "warning K30 body/1/else/1: cast of u32 to u8 loses bits\n"
                         "K13 body/1/else/1: assignment to 'r', which is not declared here\n"
                         "K26 body/2: the upper bound of a loop is f32, not u32\n"
                         "K12 body/2: 'i' hides a variable of the same name in an outer scope\n"
                         "warning K30 body/2/0: cast of f64 to f32 loses bits\n"
                         "K14 body/2/0: assignment to the loop variable 'i'\n"
                         "K15 body/3: store of a buffer that does not exist\n"
                         "K16 body/5: statements after a return are never reached\n");
}

/* ---- Targets ---- */

static const struct {
    const char *finding;
    flx_kernel_target target;
    const char *text;
} target_rows[] = {
    {"K01 kernel: workgroup [8, 1, 1] has more than 4 invocations\n", {.max_workgroup = 4}, "return;"},
    {"", {.max_workgroup = 2048}, "kernel t(workgroup = [2048, 1, 1]) {}"},
    {"K04 buffer a: with buffer 'a', workgroup memory takes 49156 bytes; the limit is 49152\n",
     {0},
     "kernel t() { buffer a: f32[12289] workgroup; }"},
    {"K04 buffer a: with buffer 'a', private memory takes 68 bytes; the limit is 64\n",
     {.max_private_bytes = 64},
     "kernel t() { buffer a: f32[17] private; }"},
    {"", {.max_private_bytes = 64}, "kernel t() { buffer a: f32[16] private; }"},
    {"K31 buffer a: buffer a: the target does not support f64\nK31 body/0: literal: the target does not support f64\n",
     {.flags = FLX_KERNEL_LACKS_F64},
     "kernel t() { buffer a: f64[1] write; a[0] = 1.0; }"},
    {"K31 body/0: cast: the target does not support f16\n",
     {.flags = FLX_KERNEL_LACKS_F16},
     "let a = cast<f16>(true);"},
    {"", {.flags = FLX_KERNEL_LACKS_F16}, "kernel t() { buffer a: f64[1] write; a[0] = 1.0; }"},
    {"K51 body/0: subgroup_add: the target does not support subgroups\n", {0}, "let a = subgroup_add(1.0);"},
    {"K51 body/0: subgroup_lane: the target does not support subgroups\n", {0}, "let a = subgroup_lane();"},
    {"", {.flags = FLX_KERNEL_HAS_SUBGROUPS}, "let a = subgroup_add(subgroup_shuffle(1.0, subgroup_lane()));"},
    {"K51 body/1/0: subgroup_add in divergent control flow: the target requires all invocations of the workgroup to "
     "reach it\n",
     {.flags = FLX_KERNEL_HAS_SUBGROUPS | FLX_KERNEL_NEEDS_CONVERGENCE},
     "let a = 1.0f32; if (local_id(0) < 2) { a = subgroup_add(a); }"},
    {"K51 body/1: subgroup_ballot in divergent control flow: the target requires all invocations of the workgroup to "
     "reach it\n",
     {.flags = FLX_KERNEL_HAS_SUBGROUPS | FLX_KERNEL_NEEDS_CONVERGENCE},
     "if (local_id(0) < 2) { return; } let a = subgroup_ballot(true);"},
    {"",
     {.flags = FLX_KERNEL_HAS_SUBGROUPS | FLX_KERNEL_NEEDS_CONVERGENCE},
     "let a = 1.0f32; if (workgroup_id(0) < 2) { a = subgroup_add(a); } if (local_id(0) < 2) { let b = "
     "subgroup_lane(); }"},
    {"", {.flags = FLX_KERNEL_HAS_SUBGROUPS}, "let a = 1.0f32; if (local_id(0) < 2) { a = subgroup_add(a); }"},
    {"K52 body/0: the target does not support grid barriers\n", {0}, "barrier(grid);"},
    {"", {.flags = FLX_KERNEL_HAS_GRID_BARRIER}, "barrier(grid);"},
    {"K53 body/0: all_reduce: the target does not support collectives\n", {0}, "all_reduce(x, o);"},
    {"", {.flags = FLX_KERNEL_HAS_COLLECTIVES}, "all_reduce(x, o);"},
    {"K53 body/0: all_gather on buffer 's', which is workgroup\n",
     {.flags = FLX_KERNEL_HAS_COLLECTIVES},
     "all_gather(s, o);"},
    {"K53 body/0: broadcast from u32 to f32 elements\n", {.flags = FLX_KERNEL_HAS_COLLECTIVES}, "broadcast(u, o, 0);"},
    {"K40 body/0: reduce_scatter to buffer 'x', which is read\n",
     {.flags = FLX_KERNEL_HAS_COLLECTIVES},
     "reduce_scatter(o, x);"},
    {"K53 body/0: resume: the target cannot continue after a trap\n", {0}, "resume(a);"},
    {"", {.flags = FLX_KERNEL_HAS_RESUME}, "resume(a);"},
    {"", {.flags = FLX_KERNEL_ALLOWS_SHADOWING}, "let a = 1; for (i in 0..2) { let a = 2; a = i; { let i = a; } }"},
    {"K11 body/1: 'a' is declared twice in one list\n",
     {.flags = FLX_KERNEL_ALLOWS_SHADOWING},
     "let a = 1; let a = 2;"},
};

TEST(kernel_validate_asks_what_the_target_has)
{
    for (size_t i = 0; i < sizeof target_rows / sizeof target_rows[0]; i++) {
        test_fail_context("row %zu: %s", i, target_rows[i].text);
        test_count_case();
        report r = report_on(target_rows[i].text, &target_rows[i].target);
        EXPECT_MSG(strcmp(r.text, target_rows[i].finding) == 0, "found\n%s instead of\n%s", r.text,
                   target_rows[i].finding);
    }
}

/* ---- What text cannot express ---- */

static flxi_kb *builder(void)
{
    flxi_kb *b = flxi_kb_new(flk_context(), "t", (const uint32_t[3]){8, 1, 1}, NULL);
    CHECK(b != NULL);
    return b;
}

static report report_on_built(flxi_kb *b)
{
    flx_error err = {0};
    flx_kernel *k = flxi_kb_finish(b, &err);
    CHECK_MSG(k != NULL, "%s", err.message);
    report r = validate(k, NULL);
    flx_kernel_release(k);
    return r;
}

static uint32_t counter(flxi_kb *b, const char *name)
{
    return flxi_kb_buffer(
        b, &(flxi_kbuffer){.name = name, .access = FLX_KERNEL_READ_WRITE, .element = FLX_U32, .count = 4});
}

TEST(kernel_validate_rejects_bad_names)
{
    static const struct {
        const char *name, *fault;
    } names[] = {
        {"", "is empty"}, {"a\nb", "holds a control byte"}, {"\xff", "is not UTF-8"}, {"\xc0\x80", "is not UTF-8"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        flxi_kb *b = builder();
        counter(b, names[i].name);
        report r = report_on_built(b);
        CHECK_EQ_U64(r.found, 1);
        CHECK_EQ_STR(r.findings[0].code, "K09");
        CHECK_MSG(strstr(r.text, names[i].fault) != NULL, "%s", r.text);
    }
    char longest[1026];
    memset(longest, 'n', sizeof longest);
    for (size_t n = 1024; n <= 1025; n++) {
        longest[n] = 0;
        flxi_kb *b = builder();
        flxi_kb_let(b, longest, flxi_kb_u32(b, 1));
        report r = report_on_built(b);
        CHECK_EQ_U64(r.found, n - 1024);
        CHECK(n == 1024 || strncmp(r.text, "K09 body/0: the name of variable 'nnn", 37) == 0);
        longest[n] = 'n';
    }
    flxi_kb *b = builder();
    counter(b, "näme ok");
    CHECK_EQ_U64(report_on_built(b).found, 0);
    b = builder();
    flxi_kb_meta(b, "key", "\x80");
    flxi_kb_region(b, "g\n", "\xfe", 0);
    flxi_kb_end(b);
    CHECK_EQ_STR(report_on_built(b).text, "K09 kernel: the value '?' is not UTF-8\n"
                                          "K09 body/0: the source of a region '?' is not UTF-8\n");
}

TEST(kernel_validate_rejects_expected_values_of_the_wrong_atomics)
{
    flxi_kb *b = builder();
    uint32_t c = counter(b, "c");
    uint32_t one = flxi_kb_u32(b, 1);
    uint32_t zero = flxi_kb_u32(b, 0);
    flxi_kb_effect(b, flxi_kb_atomic(b, FLX_KERNEL_ATOMIC_COMPARE_EXCHANGE, c, zero, one, 0, FLX_KERNEL_RELAXED));
    flxi_kb_effect(b, flxi_kb_atomic(b, FLX_KERNEL_ATOMIC_ADD, c, zero, one, one, FLX_KERNEL_RELAXED));
    flxi_kb_effect(b, flxi_kb_atomic(b, FLX_KERNEL_ATOMIC_COMPARE_EXCHANGE, c, zero, one, one, FLX_KERNEL_RELAXED));
    CHECK_EQ_STR(report_on_built(b).text, "K44 body/0: atomic_compare_exchange without an expected value\n"
                                          "K44 body/1: atomic_add with an expected value\n");
}

TEST(kernel_validate_rejects_numbers_that_stand_for_nothing)
{
    flxi_kb *b = builder();
    uint32_t x = flxi_kb_number(b, FLX_F32, 1);
    flxi_kb_let(b, "a", flxi_kb_call(b, 9, &x, 1));
    flxi_kb_let(b, "b", flxi_kb_unary(b, KUN_exp, 0));
    flxi_kb_let(b, "c", flxi_kb_cast(b, FLX_KERNEL_I4, x));
    flxi_kb_let(b, "d", flxi_kb_cast(b, FLX_KERNEL_BYTES, x));
    flxi_kb_effect(b, x);
    CHECK_EQ_STR(report_on_built(b).text, "K60 body/0: call of an unknown function\n"
                                          "K24 body/1: an operand is missing\n"
                                          "K29 body/2: cast to i4\n"
                                          "K29 body/3: cast to bytes\n"
                                          "K24 body/4: a statement evaluates an expression that is not an atomic\n");
}

TEST(kernel_validate_rejects_variables_out_of_scope_whatever_their_number)
{
    flxi_kb *b = builder();
    flxi_kb_block(b);
    uint32_t inner = flxi_kb_let(b, "a", flxi_kb_u32(b, 1));
    flxi_kb_end(b);
    flxi_kb_let(b, "b", flxi_kb_var(b, inner));
    flxi_kb_assign(b, inner, flxi_kb_u32(b, 2));
    CHECK_EQ_STR(report_on_built(b).text, "K10 body/1: no variable 'a' is in scope\n"
                                          "K13 body/2: assignment to 'a', which is not declared here\n");
}

TEST(kernel_validate_rejects_malformed_conditions)
{
    static const flx_kernel_predicate bad[][3] = {
        {{.test = FLX_KERNEL_COUNT_AND}, {.test = FLX_KERNEL_COUNT_GE, .a = 1}},
        {{.test = FLX_KERNEL_COUNT_GE, .a = 1}, {.test = FLX_KERNEL_COUNT_GE, .a = 1}},
        {{.test = FLX_KERNEL_COUNT_NOT}, {.test = 77}},
        {{.test = FLX_KERNEL_COUNT_NOT}, {.test = FLX_KERNEL_COUNT_MOD, .a = 0}},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        flxi_kb *b = builder();
        flxi_kb_buffer(
            b,
            &(flxi_kbuffer){
                .name = "x", .access = FLX_KERNEL_READ, .element = FLX_U32, .predicates = bad[i], .num_predicates = 2});
        CHECK_EQ_STR(report_on_built(b).text,
                     "K07 buffer x: the condition on the count of buffer 'x' is not well-formed\n");
    }
}

TEST(kernel_validate_bounds_the_depth_of_calls)
{
    for (int depth = 32; depth <= 34; depth++) {
        flxi_kb *b = builder();
        uint32_t last = 0;
        for (int i = 0; i < depth; i++) {
            char name[16];
            snprintf(name, sizeof name, "f%d", i);
            last = flxi_kb_function(b, name, FLX_F32);
            uint32_t x = flxi_kb_var(b, flxi_kb_param(b, "a", FLX_F32));
            flxi_kb_result(b, i ? flxi_kb_call(b, last - 1, &x, 1) : x);
        }
        uint32_t one = flxi_kb_number(b, FLX_F32, 1);
        flxi_kb_let(b, "r", flxi_kb_call(b, last, &one, 1));
        CHECK_EQ_STR(report_on_built(b).text,
                     depth == 32 ? "" : "K63 fn f32: function 'f32' calls 'f31': calls are nested more than 32 deep\n");
    }
}

static flx_code build_deep(int nesting, int depth, flx_error *err)
{
    flxi_kb *b = builder();
    uint32_t x = flxi_kb_number(b, FLX_F32, 1);
    for (int i = 1; i < depth; i++)
        x = flxi_kb_unary(b, KUN_tanh, x);
    for (int i = 0; i < nesting; i++)
        flxi_kb_block(b);
    flxi_kb_let(b, "r", x);
    for (int i = 0; i < nesting; i++)
        flxi_kb_end(b);
    flx_kernel *k = flxi_kb_finish(b, err);
    if (!k)
        return (flx_code)err->code;
    CHECK_EQ_U64(validate(k, NULL).found, 0);
    flx_kernel_release(k);
    return FLX_OK;
}

TEST(kernel_validate_needs_no_stack_because_depth_is_bounded)
{
    flx_error err = {0};
    CHECK_OK(build_deep(64, 128, &err), &err);
    CHECK_CODE(build_deep(65, 1, &err), FLX_E_KERNEL, &err);
    CHECK(strncmp(err.message, "K70 ", 4) == 0);
    CHECK_CODE(build_deep(1, 129, &err), FLX_E_KERNEL, &err);
    CHECK(strncmp(err.message, "K71 ", 4) == 0);
    CHECK_CODE(build_deep(1, 10000, &err), FLX_E_KERNEL, &err);
    CHECK(strncmp(err.message, "K71 ", 4) == 0);
}

TEST(kernel_validate_counts_shared_operands_as_often_as_they_are_used)
{
    for (int in_function = 0; in_function < 2; in_function++) {
        flx_error err = {0};
        flxi_kb *b = builder();
        if (in_function)
            flxi_kb_function(b, "f", FLX_F32);
        uint32_t x = flxi_kb_number(b, FLX_F32, 1);
        for (int i = 0; i < 100; i++)
            x = flxi_kb_binary(b, KBIN_add, x, x);
        if (in_function)
            flxi_kb_result(b, x);
        else
            flxi_kb_let(b, "r", x);
        CHECK(flxi_kb_finish(b, &err) == NULL);
        CHECK_MSG(strncmp(err.message, "K72 ", 4) == 0, "%s", err.message);
    }
}

/* ---- Source positions and paths ---- */

TEST(kernel_validate_says_where_in_the_text)
{
    const char *text = "kernel t() {\n  let a = 1;\n  if (true) {\n    b = 2;\n  }\n}\n";
    flx_kernel *k = read_only(text);
    report r = validate(k, NULL);
    CHECK_EQ_U64(r.found, 1);
    CHECK_EQ_STR(r.findings[0].path, "body/1/0");
    CHECK_EQ_U64(r.findings[0].position, (uint64_t)(strstr(text, "b = 2") - text) + 1);
    uint32_t position = 0;
    flx_error err = {0};
    CHECK_CODE(flxi_kernel_check_position(k, &position, &err), FLX_E_KERNEL, &err);
    CHECK_EQ_U64(position, r.findings[0].position);
    CHECK_CODE(flxi_kernel_check(k, NULL), FLX_E_KERNEL, &err);
    flx_kernel_release(k);
}

TEST(kernel_validate_writes_the_end_of_a_path_that_does_not_fit)
{
    flxi_kb *b = builder();
    for (int i = 0; i < 60; i++) {
        flxi_kb_let(b, "a", flxi_kb_u32(b, 1));
        flxi_kb_block(b);
    }
    flxi_kb_barrier(b, FLX_KERNEL_RELAXED);
    for (int i = 0; i < 60; i++)
        flxi_kb_end(b);
    report r = report_on_built(b);
    CHECK_EQ_U64(r.found, 60); /* 59 times K12, then K45 */
    const flx_kernel_finding *last = &r.findings[59];
    CHECK_EQ_STR(last->code, "K45");
    CHECK_EQ_U64(strlen(last->path), sizeof last->path - 1);
    CHECK(strncmp(last->path, "...", 3) == 0 && strcmp(last->path + strlen(last->path) - 6, "/1/1/0") == 0);
}

TEST(kernel_validate_counts_findings_beyond_the_room)
{
    flx_kernel *k = read_only("kernel t() { let a = b; let c = d; let e = f; }");
    flx_kernel_finding one;
    size_t found = 0;
    flx_error err = {0};
    CHECK_CODE(flx_kernel_validate(k, NULL, &one, 1, &found, &err), FLX_E_KERNEL, &err);
    CHECK_EQ_U64(found, 3);
    CHECK_EQ_STR(one.path, "body/0");
    CHECK_CODE(flx_kernel_validate(k, NULL, NULL, 0, NULL, NULL), FLX_E_KERNEL, &err);
    CHECK_CODE(flx_kernel_validate(k, NULL, NULL, 1, &found, &err), FLX_E_USAGE, &err);
    CHECK_CODE(flx_kernel_validate(NULL, NULL, NULL, 0, &found, &err), FLX_E_USAGE, &err);
    flx_kernel_target small = {.struct_size = 9};
    CHECK_CODE(flx_kernel_validate(k, &small, NULL, 0, &found, &err), FLX_E_USAGE, &err);
    flx_kernel_release(k);
}

/* ---- Divergence ---- */

/* Each row ends in a barrier; `uniform` says whether all invocations get there together. */
static const struct {
    bool uniform;
    const char *text;
} flow_rows[] = {
    {true, "let a = 1; if (a == 1) { barrier(); }"},
    {true, "let n = buf_len(x); for (i in 0..n) { barrier(); }"},
    {true, "let n = u[workgroup_id(1)]; for (i in 0..n) { if (i > 2) { barrier(); } }"},
    {false, "let n = u[local_id(1)]; for (i in 0..n) { barrier(); }"},
    {false, "for (i in 0..c[0]) { barrier(); }"},
    {false, "if (s[0] > 1.0) { barrier(); }"},
    {false, "if (o[0] > 1.0) { barrier(); }"},
    {false, "if (subgroup_add(1u32) > 1) { barrier(); }"},
    {false, "if (subgroup_lane() > 1) { barrier(); }"},
    {true, "if (subgroup_size() > 1) { barrier(); }"},
    {false, "let a = atomic_add(c[0], 1); if (a > 1) { barrier(); }"},
    {false, "if (opaque<bool>(\"k\", \"\", 1, pure)) { barrier(); }"},
    {false, "if (invocation_id(2) > 1) { barrier(); }"},
    /* Assignments anywhere count. */
    {false, "let a = 1; if (a == 1) { barrier(); } a = local_id(0);"},
    {false, "let a = 1; if (local_id(0) == 1) { a = 2; } if (a == 1) { barrier(); }"},
    {true, "let a = 1; if (workgroup_id(0) == 1) { a = 2; } if (a == 1) { barrier(); }"},
    {false, "let a = 1; for (i in 0..local_id(0)) { a = 2; } if (a == 1) { barrier(); }"},
    {false, "let a = 1; for (j in 0..9) { for (i in 0..a) { barrier(); } let b = a; a = b + local_id(0); }"},
    {true, "let a = 1; for (j in 0..9) { for (i in 0..a) { barrier(); } let b = a; a = b + workgroup_id(0); }"},
    {true, "let a = select(num_workgroups(0) > 2, 1, u[0]); if (a > 1) { } else { barrier(); }"},
    /* Returns. */
    {false, "if (local_id(0) > 3) { return; } barrier();"},
    {true, "if (workgroup_id(0) > 3) { return; } barrier();"},
    {false, "if (workgroup_id(0) > 3) { if (local_id(0) > 3) { return; } } barrier();"},
    {false, "{ { if (local_id(0) > 3) { return; } } } barrier();"},
    {false, "for (i in 0..4) { barrier(); if (local_id(0) > i) { return; } }"},
    {true, "for (i in 0..4) { barrier(); if (workgroup_id(0) > i) { return; } }"},
    {true, "barrier(); if (local_id(0) > 3) { return; }"},
    {false, "if (local_id(0) > 3) { return; } let a = 1; if (a == 1) { barrier(); }"},
    {false, "if (local_id(0) > 3) { for (i in 0..3) { return; } } { barrier(); }"},
    /* Private memory. */
    {true, "p[0] = 1.0; if (p[0] > 0.0) { barrier(); }"},
    {true, "for (i in 0..4) { p[i] = cast<f32>(i); } if (p[u[0]] > 0.0) { barrier(); }"},
    {false, "p[0] = x[local_id(0)]; if (p[1] > 0.0) { barrier(); }"},
    {false, "p[local_id(0)] = 1.0; if (p[1] > 0.0) { barrier(); }"},
    {false, "if (local_id(0) > 1) { p[0] = 1.0; } if (p[1] > 0.0) { barrier(); }"},
    {false, "p[0] = 1.0; if (p[local_id(0)] > 0.0) { barrier(); }"},
    {false, "if (p[0] > 0.0) { barrier(); } p[0] = x[0];"},
};

TEST(kernel_validate_finds_barriers_in_divergent_flow)
{
    for (size_t i = 0; i < sizeof flow_rows / sizeof flow_rows[0]; i++) {
        test_count_case();
        report r = report_on(flow_rows[i].text, NULL);
        EXPECT_MSG(r.errors == !flow_rows[i].uniform && (flow_rows[i].uniform || strstr(r.text, "K50 ")),
                   "row %zu: %s\n%s", i, flow_rows[i].text, r.text);
    }
}

TEST(kernel_validate_knows_what_functions_give)
{
    static const char *const head = "kernel t() { buffer c: u32[4] read_write; fn f(a: u32) -> u32 { let r = a; "
                                    "if (a > 2) { r = r * 2; } return r; } fn g(a: u32) -> u32 { return f(a) + 1; } ";
    static const struct {
        const char *text;
        size_t errors;
    } calls[] = {{"if (g(workgroup_id(0)) > 1) { barrier(); } }", 0},
                 {"if (g(local_id(0)) > 1) { barrier(); } }", 1},
                 {"if (g(c[0]) > 1) { barrier(); } }", 1}};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        char text[512];
        snprintf(text, sizeof text, "%s%s", head, calls[i].text);
        report r = report_on(text, NULL);
        CHECK_MSG(r.errors == calls[i].errors, "%s\n%s", text, r.text);
    }
}

TEST(kernel_uniform_flags_variables_buffers_and_statements)
{
    flx_kernel *k = flk("kernel t(workgroup = [4, 1, 1]) {\n"
                        "  buffer p: u32[4] private;\n"
                        "  buffer q: u32[4] private;\n"
                        "  buffer x: u32[4] read_write;\n"
                        "  let a = workgroup_id(0);\n"
                        "  let b = local_id(0);\n"
                        "  p[a] = a;\n"
                        "  q[a] = b;\n"
                        "  for (i in 0..a) { x[i] = p[i]; }\n"
                        "  for (j in 0..b) { x[j] = q[j]; }\n"
                        "}\n");
    for (int grid = 0; grid < 2; grid++) {
        flxi_kuniform u;
        flx_error err = {0};
        CHECK_OK(flxi_kuniform_find(k, grid ? KUNIFORM_GRID : KUNIFORM_WORKGROUP, &u, &err), &err);
        static const char *const names[] = {"a", "b", "i", "j"};
        for (uint32_t v = 1; v <= 4; v++) {
            CHECK_EQ_STR(k->vars[v].name, names[v - 1]);
            CHECK_EQ_U64(u.vars[v], !grid && (v == 1 || v == 3));
        }
        CHECK(u.buffers[1] == !grid && !u.buffers[2] && !u.buffers[3]);
        CHECK_EQ_U64(u.num_flow, 8);
        for (size_t i = 0; i < 8; i++)
            CHECK_EQ_U64(u.flow[i], i < 5 || i == 6 || (i == 5 && !grid));
        flxi_kuniform_free(&u);
    }
    flx_kernel_release(k);
}

/* ---- Time and memory ---- */

/* Variables that become divergent one after the other, the last assignment first: walking the text until nothing
   changes would take as many walks as there are variables. */
TEST(kernel_validate_takes_linear_time)
{
    enum { VARS = 20000 };
    flxi_kb *b = builder();
    uint32_t *vars = calloc(VARS, sizeof *vars);
    CHECK(vars);
    for (int i = 0; i < VARS; i++) {
        char name[16];
        snprintf(name, sizeof name, "v%d", i);
        vars[i] = flxi_kb_let(b, name, flxi_kb_u32(b, 0));
    }
    flxi_kb_loop(b, "i", flxi_kb_u32(b, 0), flxi_kb_u32(b, 9));
    for (int i = 0; i + 1 < VARS; i++)
        flxi_kb_assign(b, vars[i], flxi_kb_var(b, vars[i + 1]));
    flxi_kb_assign(b, vars[VARS - 1], flxi_kb_id(b, FLX_KERNEL_LOCAL_ID, 0));
    flxi_kb_end(b);
    flxi_kb_if(b, flxi_kb_var(b, vars[0]));
    flxi_kb_barrier(b, FLX_KERNEL_ACQ_REL);
    flxi_kb_end(b);
    CHECK_EQ_STR(report_on_built(b).findings[0].code, "K50");
    free(vars);
}

TEST(kernel_validate_takes_many_buffers_and_deep_scopes)
{
    flxi_kb *b = builder();
    for (uint32_t i = 0; i < FLXI_KERNEL_MAX_BUFFERS; i++) {
        char name[16];
        snprintf(name, sizeof name, "b%u", i);
        flxi_kb_buffer(
            b, &(flxi_kbuffer){
                   .name = name, .access = FLX_KERNEL_READ_WRITE, .element = FLX_U32, .binding = i, .count = 4});
    }
    uint32_t zero = flxi_kb_u32(b, 0);
    for (int depth = 0; depth < 60; depth++) {
        for (int i = 0; i < 500; i++) {
            char name[32];
            snprintf(name, sizeof name, "v%d_%d", depth, i);
            flxi_kb_let(b, name, flxi_kb_load(b, 1 + (uint32_t)(depth * 500 + i) % FLXI_KERNEL_MAX_BUFFERS, zero));
        }
        flxi_kb_block(b);
    }
    for (int depth = 0; depth < 60; depth++)
        flxi_kb_end(b);
    CHECK_EQ_U64(report_on_built(b).found, 0);
    b = builder();
    for (uint32_t i = 0; i <= FLXI_KERNEL_MAX_BUFFERS; i++)
        counter(b, "b");
    flx_error err = {0};
    CHECK(flxi_kb_finish(b, &err) == NULL && strncmp(err.message, "K72 ", 4) == 0);
}

TEST(kernel_validate_survives_starving)
{
    static const char text[] =
        "kernel t(workgroup = [8, 1, 1]) {\n" BUFFERS "  fn f(a: f32) -> f32 { return a * 2.0; }\n"
        "  for (i in 0..4) { if (u[i] > 2) { barrier(); barrier(grid); } s[i] = f(x[i]); }\n"
        "  async_load(x, s, 0, 32, tag); async_wait(tag);\n"
        "  atomic_add(c[0], 1); region r { let a = c[1]; } opaque(\"k\", \"00\");\n}\n";
    fault f = {0};
    flx_context *ctx = flx_context_new(&(flx_context_options){.alloc = fault_alloc, .alloc_user = &f});
    flx_kernel *k = flk_in(ctx, text);
    size_t before = f.calls;
    flx_error err = {0};
    size_t found = 9;
    CHECK_OK(flx_kernel_validate(k, NULL, NULL, 0, &found, &err), &err);
    size_t calls = f.calls - before;
    CHECK(calls > 5 && found == 0);
    for (size_t n = 1; n <= calls; n++) {
        test_fail_context("request %zu of %zu fails", n, calls);
        size_t blocks = f.live_blocks;
        f.fail_at = f.calls + n;
        CHECK_CODE(flx_kernel_validate(k, NULL, NULL, 0, &found, &err), FLX_E_OOM, &err);
        f.fail_at = 0;
        CHECK(f.live_blocks == blocks && f.errors == 0 && found == 0);
    }
    flx_kernel_release(k);
    flx_context_free(ctx);
    CHECK(fault_is_clean(&f));
}
