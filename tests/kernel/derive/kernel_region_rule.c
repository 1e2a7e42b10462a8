/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_region_rule.c: regions with their own derivatives, and regions that control what reverse mode keeps. */
#include "fault.h"
#include "kernel/derive/kernel_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- Rules ---- */

/* The derivative of a root that was found by iterating needs the root only: neither a tape nor the iterations. */
TEST(kernel_region_rule_of_an_iteration_needs_no_tape)
{
    kernel_case_check(&(kernel_case){
        .name = "newton",
        .text = "kernel newton(workgroup = [1, 1, 1]) {\n"
                "  buffer x: f32[3] read;\n"
                "  buffer out: f32[3] output;\n"
                "  let i = invocation_id(0);\n"
                "  let a = x[i] * 2.0;\n"
                "  let y = 1.0f32;\n"
                "  region root {\n"
                "    for (k in 0..40) { y = 0.5 * (y + a / y); }\n"
                "  } adjoint {\n"
                "    adjoint(a) += adjoint(y) / (2.0 * y);\n"
                "  }\n"
                "  out[i] = y * a;\n"
                "}\n",
        .outputs = "out",
        .inputs = "x",
        .grid = {3, 1, 1},
        .data = "x = 2, 8, 0.5",
        .values = "out = 8, 64, 1",
        .gradients = "grad_x = 6, 12, 3",
        .flags = CASE_NO_TAPE | CASE_NO_ATOMIC,
    });
}

/* u = a e^a + v, v' = u a: each result's rule uses the other, and adds to what v was before. In a loop and a branch. */
static const char *const pair_text = "kernel pair(workgroup = [1, 1, 1]) {\n"
                                     "  buffer x: f32[2] read;\n"
                                     "  buffer out: f32[2] output;\n"
                                     "  fn slope(a: f32) -> f32 { return exp(a) * (1.0 + a); }\n"
                                     "  let i = invocation_id(0);\n"
                                     "  let a = x[i];\n"
                                     "  let u = 1.0f32;\n"
                                     "  let v = 0.5 * a * a;\n"
                                     "  let n = 1.0f32;\n"
                                     "  for (k in 0..2) {\n"
                                     "    if (a > 0.25) {\n"
                                     "      region pair %s{\n"
                                     "        u = a * exp(a) + v;\n"
                                     "        let w = u * a;\n"
                                     "        v = w;\n"
                                     "        n = n + 1.0;\n" /* without an adjoint: a constant */
                                     "      } %s\n"
                                     "      a = a * 0.5 + v * 0.125;\n"
                                     "    }\n"
                                     "  }\n"
                                     "  out[i] = u * v + a * %s;\n"
                                     "}\n";

static void check_pair(const char *flags, const char *rule)
{
    char text[2000];
    snprintf(text, sizeof text, pair_text, flags, rule, *rule ? "n" : "stop_gradient(n)");
    kernel_case_check(&(kernel_case){
        .name = "pair",
        .text = text,
        .outputs = "out",
        .inputs = "x",
        .grid = {2, 1, 1},
        .data = "x = 0.75, 0.125",
        .values = "out = 4.364521372559903, 0.1328125",
        .gradients = "grad_x = 32.3715643884428, 1.125",
    });
}

TEST(kernel_region_rule_of_several_results)
{
    check_pair("", "");
    check_pair("", "adjoint {\n"
                   "  adjoint(a) += adjoint(u) * slope(a) + adjoint(v) * (u + a * slope(a));\n"
                   "  adjoint(v) += adjoint(u);\n"
                   "  adjoint(v) += fma(adjoint(v), a, 0.0 * adjoint(u));\n"
                   "}");
}

/* A region that does nothing, with a rule that says nothing. */
TEST(kernel_region_rule_of_an_empty_region)
{
    kernel_case_check(&(kernel_case){
        .name = "nothing",
        .text = "kernel nothing(workgroup = [1, 1, 1]) {\n"
                "  buffer x: f64[2] read;\n"
                "  buffer out: f64[2] output;\n"
                "  let i = invocation_id(0);\n"
                "  region nothing { } adjoint { }\n"
                "  out[i] = x[i] * x[i];\n"
                "}\n",
        .outputs = "out",
        .inputs = "x",
        .grid = {2, 1, 1},
        .data = "x = 1.5, -3",
        .values = "out = 2.25, 9",
        .gradients = "grad_x = 3, -6",
    });
}

/* The rule counts, even where it is not the derivative: rounding passes gradients on. */
TEST(kernel_region_rule_replaces_the_automatic_one)
{
    kernel_case_check(&(kernel_case){
        .name = "pass",
        .text = "kernel pass(workgroup = [1, 1, 1]) {\n"
                "  buffer x: f32[2] read;\n"
                "  buffer out: f32[2] output;\n"
                "  let i = invocation_id(0);\n"
                "  let y = x[i];\n"
                "  region pass { y = rint(y); } adjoint { adjoint(y) += adjoint(y); }\n"
                "  out[i] = y * y;\n"
                "}\n",
        .outputs = "out",
        .inputs = "x",
        .grid = {2, 1, 1},
        .data = "x = 1.75, -3.25",
        .values = "out = 4, 9",
        .gradients = "grad_x = 4, -6",
        .flags = CASE_NO_SECOND, /* finite differences do not see the rule */
    });
}

/* The factor of the other result's adjoint is infinite, and must not be multiplied by the zero of this one. */
TEST(kernel_region_rule_leaves_out_what_belongs_to_others)
{
    static const char *const outputs[] = {"out"}, *const inputs[] = {"x"};
    flx_kernel *k = flk("kernel k() {\n"
                        "  buffer x: f32[1] read; buffer out: f32[1] output;\n"
                        "  let a = x[0]; let u = 0.0f32; let v = 0.0f32;\n"
                        "  region r { u = sqrt(a); v = 3.0 * a; }\n"
                        "  adjoint { adjoint(a) += adjoint(u) / (2.0 * u) - -3.0 * adjoint(v); }\n"
                        "  out[0] = v;\n"
                        "}\n");
    for (int n = 0; n < 2; n++) {
        flx_error err = {0};
        flx_kernel_derived *d = n ? flx_kernel_jvp(k, outputs, 1, inputs, 1, NULL, &err)
                                  : flx_kernel_grad(k, outputs, 1, inputs, 1, NULL, &err);
        CHECK_MSG(d != NULL, "%s", err.message);
        float x = 0, out = 0, one = 1, result = 0;
        flx_kernel_memory memory[] = {{"x", &x, 4},
                                      {"out", &out, 4},
                                      {n ? "tan_x" : "grad_out", &one, 4},
                                      {n ? "tan_out" : "grad_x", &result, 4}};
        CHECK_OK(flx_kernel_derived_run(d, (const uint32_t[3]){1, 1, 1}, memory, 4, NULL, &err), &err);
        CHECK_NEAR((double)result, 3, 1e-6);
        flx_kernel_derived_free(d);
    }
    flx_kernel_release(k);
}

/* f16 values have f32 adjoints, and an f64 result passes on to an f32 operand. */
TEST(kernel_region_rule_of_mixed_types)
{
    static const char *const outputs[] = {"out"}, *const inputs[] = {"x"};
    flx_kernel *k = flk("kernel k() {\n"
                        "  buffer x: f16[1] read; buffer out: f64[1] output;\n"
                        "  let a = x[0]; let y = 0.0f64;\n"
                        "  region r { y = cast<f64>(a) * cast<f64>(a); }\n"
                        "  adjoint { adjoint(a) += cast<f32>(adjoint(y)) * 2.0 * cast<f32>(a); }\n"
                        "  out[0] = y;\n"
                        "}\n");
    for (int n = 0; n < 2; n++) {
        flx_error err = {0};
        flx_kernel_derived *d = n ? flx_kernel_jvp(k, outputs, 1, inputs, 1, NULL, &err)
                                  : flx_kernel_grad(k, outputs, 1, inputs, 1, NULL, &err);
        CHECK_MSG(d != NULL, "%s", err.message);
        uint16_t x = 0x4200; /* 3 */
        float single = n ? 1 : 0;
        double out = 0, wide = n ? 0 : 1;
        flx_kernel_memory memory[] = {{"x", &x, 2},
                                      {"out", &out, 8},
                                      {n ? "tan_x" : "grad_x", &single, 4},
                                      {n ? "tan_out" : "grad_out", &wide, 8}};
        CHECK_OK(flx_kernel_derived_run(d, (const uint32_t[3]){1, 1, 1}, memory, 4, NULL, &err), &err);
        CHECK_NEAR(n ? wide : (double)single, 6, 1e-6);
        flx_kernel_derived_free(d);
    }
    flx_kernel_release(k);
}

TEST(kernel_region_rule_survives_text_bytes_and_passes)
{
    char source[2000];
    snprintf(source, sizeof source, pair_text, "once recompute ",
             "adjoint { adjoint(a) += adjoint(u) * slope(a) + adjoint(v) * u; }", "n");
    flx_kernel *k = flk(source);
    flx_error err = {0};
    flx_buffer text = flk_text(k), bytes = {0}, again = {0};
    flx_kernel *second = flk(text.data);
    flx_buffer stable = flk_text(second);
    CHECK_EQ_STR(stable.data, text.data);
    CHECK(strstr(text.data, "region pair once recompute {") && strstr(text.data, "adjoint pair_u."));
    CHECK_OK(flx_kernel_encode(k, &bytes, &err), &err);
    CHECK_OK(flx_kernel_encode(second, &again, &err), &err);
    CHECK(bytes.size == again.size && memcmp(bytes.data, again.data, bytes.size) == 0);
    flx_kernel *decoded = flx_kernel_decode(flk_context(), bytes.data, bytes.size, &err);
    CHECK_MSG(decoded != NULL, "%s", err.message);
    flx_kernel *kernels[] = {k, decoded, flx_kernel_optimise(k, NULL, &err)};
    float gradients[3] = {0};
    for (int n = 0; n < 3; n++) {
        static const char *const outputs[] = {"out"}, *const inputs[] = {"x"};
        flx_kernel_derived *d = flx_kernel_grad(kernels[n], outputs, 1, inputs, 1, NULL, &err);
        CHECK_MSG(d != NULL, "%s", err.message);
        float x[2] = {0.75f, 0.125f}, out[2] = {0}, seed[2] = {1, 1}, grad[2] = {0};
        flx_kernel_memory memory[] = {{"x", x, sizeof x},
                                      {"out", out, sizeof out},
                                      {"grad_out", seed, sizeof seed},
                                      {"grad_x", grad, sizeof grad}};
        CHECK_OK(flx_kernel_derived_run(d, (const uint32_t[3]){2, 1, 1}, memory, 4, NULL, &err), &err);
        gradients[n] = grad[0];
        flx_kernel_derived_free(d);
        flx_kernel_release(kernels[n]);
    }
    CHECK_NEAR((double)gradients[1], (double)gradients[0], 0);
    CHECK_NEAR((double)gradients[2], (double)gradients[0], 1e-5);
    flx_kernel_release(second);
    flx_buffer_free(&stable);
    flx_buffer_free(&again);
    flx_buffer_free(&bytes);
    flx_buffer_free(&text);
}

TEST(kernel_region_rule_is_built_without_text)
{
    static const char *const outputs[] = {"out"}, *const inputs[] = {"x"};
    flx_error err = {0};
    flx_kernel_builder *b = flx_kernel_begin(flk_context(), "k", 1, 1, 1);
    flx_kernel_buffer in = {
        .struct_size = sizeof in, .name = "x", .access = FLX_KERNEL_READ, .element = FLX_F32, .count = 1};
    flx_kernel_buffer result = {.struct_size = sizeof result,
                                .name = "out",
                                .access = FLX_KERNEL_READ_WRITE,
                                .element = FLX_F32,
                                .count = 1,
                                .binding = 1,
                                .flags = FLX_KERNEL_OUTPUT};
    uint32_t x = flx_kernel_add_buffer(b, &in), out = flx_kernel_add_buffer(b, &result);
    flx_kx zero = flx_kx_u32(b, 0);
    flx_kx a = flx_kernel_let(b, "a", flx_kx_load(b, x, zero)), y = flx_kernel_let(b, "y", flx_kx_f32(b, 0));
    flx_kernel_region(b, "triple", "", 0);
    flx_kernel_assign(b, y, flx_kx_binary(b, "mul", a, a));
    flx_kernel_region_adjoint(b);
    flx_kernel_contribute(b, a, flx_kx_binary(b, "mul", flx_kx_adjoint(b, y), flx_kx_f32(b, 3)));
    flx_kernel_end(b);
    flx_kernel_store(b, out, zero, y);
    flx_kernel *k = flx_kernel_finish(b, &err);
    CHECK_MSG(k != NULL, "%s", err.message);
    flx_kernel_derived *d = flx_kernel_grad(k, outputs, 1, inputs, 1, NULL, &err);
    CHECK_MSG(d != NULL, "%s", err.message);
    float value = 5, one = 1, grad = 0;
    flx_kernel_memory memory[] = {{"x", &value, 4}, {"grad_out", &one, 4}, {"grad_x", &grad, 4}};
    CHECK_OK(flx_kernel_derived_run(d, (const uint32_t[3]){1, 1, 1}, memory, 3, NULL, &err), &err);
    CHECK_NEAR((double)grad, 3, 0);
    flx_kernel_derived_free(d);
    flx_kernel_release(k);
}

/* ---- Errors ---- */

TEST(kernel_region_rule_that_means_nothing_is_refused)
{
    static const char *const rows[][2] = {
        {"region r { y = a; } adjoint { adjoint(q) += adjoint(y); }", "K10 no variable 'q' is in scope"},
        {"region r { y = a; } adjoint { adjoint(a) += adjoint(q); }", "K10 no variable 'q' is in scope"},
        {"region r { let w = a; y = w; } adjoint { adjoint(a) += adjoint(y) * w; }", "K10 unknown variable 'w'"},
        {"region r { y = a; } adjoint { adjoint(i) += adjoint(y); }", "K64 region 'r': there is no adjoint of 'i'"},
        {"region r { y = a; } adjoint { adjoint(a) += adjoint(i); }", "K64 region 'r': there is no adjoint of 'i'"},
        {"region r { y = a; } adjoint { adjoint(a) += adjoint(a); }", "K64 region 'r': it does not assign 'a'"},
        {"region r { y = a; } adjoint { adjoint(a) += 2.0 * y; }",
         "K64 region 'r': no adjoint is a factor of the value added to the adjoint of 'a'"},
        {"region r { y = a; } adjoint { adjoint(a) += adjoint(y) * x[0]; }",
         "K64 region 'r': its adjoint loads from a buffer"},
        {"region r { y = a; } adjoint { adjoint(a) += cast<f64>(adjoint(y)); }",
         "K64 region 'r': a value of another type is added to the adjoint of 'a'"},
        {"region r stop_gradient { y = a; } adjoint { adjoint(a) += adjoint(y); }",
         "K64 region 'r': it is stop_gradient and has an adjoint"},
        {"region r { y = a; } adjoint { let z = 1.0; }", "expected adjoint(v) += …; or '}', found 'let'"},
        {"region r { y = a; } adjoint { adjoint(a) = adjoint(y); }", "expected '+', found '='"},
        {"out[0] = adjoint(y);", "K60 unknown op or function 'adjoint'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[400];
        flx_error err = {0};
        snprintf(
            text, sizeof text,
            "kernel k() { buffer x: f32[1] read; buffer out: f32[1] output; let i = 0; let a = x[0]; let y = a;\n%s\n}",
            rows[i][0]);
        CHECK_MSG(!flx_kernel_parse(flk_context(), text, strlen(text), "t", &err), "%s", rows[i][0]);
        CHECK_EQ_STR(err.message, rows[i][1]);
        CHECK_MSG(strncmp(err.where, "t:2:", 4) == 0, "%s", err.where);
    }
    const char *inside = "kernel k() { fn f(a: f32) -> f32 { let y = a; region r { y = a * a; }\n"
                         "  adjoint { adjoint(a) += adjoint(y); } return y; } }";
    flx_error err = {0};
    CHECK(!flx_kernel_parse(flk_context(), inside, strlen(inside), "t", &err));
    CHECK_EQ_STR(err.message, "K64 region 'r': a region of a function has no adjoint");
}

TEST(kernel_region_rule_in_the_wrong_place_is_misuse)
{
    for (int n = 0; n < 6; n++) {
        flx_error err = {0};
        flx_kernel_builder *b = flx_kernel_begin(flk_context(), "k", 1, 1, 1);
        flx_kx y = flx_kernel_let(b, "y", flx_kx_f32(b, 1));
        if (n > 1)
            flx_kernel_region(b, "r", "", 0);
        if (n == 0)
            flx_kernel_region_adjoint(b); /* of nothing */
        if (n == 1)
            flx_kernel_contribute(b, y, y);
        if (n == 2)
            flx_kernel_let(b, "a", flx_kx_adjoint(b, y));
        if (n > 2)
            flx_kernel_region_adjoint(b);
        if (n == 3)
            flx_kernel_region_adjoint(b); /* a second time */
        if (n == 4)
            flx_kernel_assign(b, y, y); /* a statement in it */
        if (n == 5)
            flx_kernel_contribute(b, flx_kx_f32(b, 1), y);
        if (n > 1)
            flx_kernel_end(b);
        CHECK_MSG(!flx_kernel_finish(b, &err), "case %d", n);
        CHECK_MSG(err.code == FLX_E_USAGE, "case %d: %s", n, err.message);
    }
}

/* ---- recompute and record ---- */

typedef struct {
    double gradient;
    uint64_t tape; /* elements per invocation, private ones included */
} reversed;

static uint64_t tape_of(const flx_kernel_derived *d)
{
    const flx_kernel *k = flx_kernel_derived_kernel(d, 0);
    flx_kernel_buffer buffer = {.struct_size = sizeof buffer};
    flx_kernel_need need;
    uint64_t sum = 0;
    for (size_t i = 0; flx_kernel_derived_need(d, i, &need) == FLX_OK; i++)
        if (need.role == FLX_KERNEL_TAPE)
            sum += strtoull(need.length, NULL, 10);
    for (size_t i = 0; flx_kernel_buffer_at(k, i, &buffer) == FLX_OK; i++)
        if (buffer.access == FLX_KERNEL_PRIVATE && strncmp(buffer.name, "tape", 4) == 0)
            sum += buffer.count;
    return sum;
}

static reversed reverse(const char *format, const char *flags)
{
    static const char *const outputs[] = {"out"}, *const inputs[] = {"x"};
    char text[1000];
    snprintf(text, sizeof text, format, flags);
    flx_kernel *k = flk(text);
    flx_error err = {0};
    flx_kernel_derived *d = flx_kernel_grad(k, outputs, 1, inputs, 1, NULL, &err);
    CHECK_MSG(d != NULL, "%s", err.message);
    double x[2] = {0.7, 1.1}, out[1] = {0}, one = 1, grad[2] = {0};
    flx_kernel_memory memory[] = {
        {"x", x, sizeof x}, {"out", out, sizeof out}, {"grad_out", &one, sizeof one}, {"grad_x", grad, sizeof grad}};
    CHECK_OK(flx_kernel_derived_run(d, (const uint32_t[3]){1, 1, 1}, memory, 4, NULL, &err), &err);
    reversed r = {grad[0] + grad[1] * 2, tape_of(d)};
    flx_kernel_derived_free(d);
    flx_kernel_release(k);
    return r;
}

static const char *const steps_text = "kernel k() {\n"
                                      "  buffer x: f64[2] read; buffer out: f64[1] output;\n"
                                      "  let y = x[0];\n"
                                      "  region r %s {\n"
                                      "    for (k in 3..203) { let s = sin(y * x[1]); y = y + 0.01 * s * exp(s); }\n"
                                      "  }\n"
                                      "  out[0] = y;\n"
                                      "}\n";

/* One state per iteration; with `recompute` none; with `record` the results that derivatives need. */
TEST(kernel_region_flags_decide_what_is_taped)
{
    reversed plain = reverse(steps_text, ""), again = reverse(steps_text, "recompute"),
             kept = reverse(steps_text, "record");
    CHECK_EQ_U64(plain.tape, 200);
    CHECK_EQ_U64(again.tape, 0);
    CHECK_MSG(kept.tape >= 600 && kept.tape % 200 == 0, "%llu", (unsigned long long)kept.tape);
    CHECK_NEAR(again.gradient, plain.gradient, 0);
    CHECK_NEAR(kept.gradient, plain.gradient, 0);
}

/* The innermost region decides for its contents. */
TEST(kernel_region_flags_of_nested_regions)
{
    static const char *const text =
        "kernel k() {\n"
        "  buffer x: f64[2] read; buffer out: f64[1] output;\n"
        "  let y = x[0];\n"
        "  let n = cast<u32>(x[1]) + 19;\n"
        "  region outer %s\n"
        "    for (k in 0..10) {\n"
        "      y = y * x[1];\n"
        "      if (y > 0.5) { region inner { for (j in 0..20) { y = y - 0.02 * y * sin(y); } } }\n"
        "    }\n"
        "  }\n"
        "  for (j in 0..n) { y = y + 0.01 * y * y; }\n"
        "  out[0] = y;\n"
        "}\n";
    char inner_again[700];
    reversed plain = reverse(text, "{"), again = reverse(text, "recompute {");
    CHECK_EQ_U64(plain.tape, 10 + 20 + 1); /* counted trips are stored elsewhere: 1 slot times counts */
    CHECK_EQ_U64(again.tape, 1);
    CHECK_NEAR(again.gradient, plain.gradient, 0);
    const char *at = strstr(text, "region inner {");
    CHECK(at != NULL);
    snprintf(inner_again, sizeof inner_again, "%.*sregion inner recompute {%s", (int)(at - text), text,
             at + strlen("region inner {"));
    reversed half = reverse(inner_again, "{");
    CHECK_EQ_U64(half.tape, 10 + 1);
    CHECK_NEAR(half.gradient, plain.gradient, 0);
    reversed records = reverse(inner_again, "record {");
    CHECK_MSG(records.tape > half.tape, "%llu", (unsigned long long)records.tape);
    CHECK_NEAR(records.gradient, plain.gradient, 0);
}

/* Trips that depend on data, and begin at one: nothing is taped, whatever their number. */
TEST(kernel_region_recompute_of_unknown_trips)
{
    static const char *const text = "kernel k() {\n"
                                    "  buffer x: f64[2] read;\n"
                                    "  buffer out: f64[1] output;\n"
                                    "  let y = x[0];\n"
                                    "  let n = cast<u32>(x[1] * 30.0);\n"
                                    "  region r %s {\n"
                                    "    for (k in n / 8..n) { y = y + 0.01 * y * sin(y * cast<f64>(k)); }\n"
                                    "  }\n"
                                    "  out[0] = y;\n"
                                    "}\n";
    reversed plain = reverse(text, ""), again = reverse(text, "recompute");
    CHECK(plain.tape > 0);
    CHECK_EQ_U64(again.tape, 0);
    CHECK_NEAR(again.gradient, plain.gradient, 0);
}

/* Loads of memory that changes are taped in any case: they cannot be repeated. */
TEST(kernel_region_recompute_keeps_what_cannot_be_repeated)
{
    static const char *const text =
        "kernel k() {\n"
        "  buffer x: f64[2] read; buffer out: f64[1] output; buffer cell: f64[1] private;\n"
        "  let y = x[0];\n"
        "  cell[0] = x[1];\n"
        "  region r %s {\n"
        "    for (k in 0..30) { let c = cell[0]; y = y * 0.5 + sin(y * c); cell[0] = c * 0.9 + y; }\n"
        "  }\n"
        "  out[0] = y;\n"
        "}\n";
    reversed plain = reverse(text, ""), again = reverse(text, "recompute"), kept = reverse(text, "record");
    CHECK_EQ_U64(plain.tape, 60);
    CHECK_EQ_U64(again.tape, 30);
    CHECK(kept.tape > 60);
    CHECK_NEAR(again.gradient, plain.gradient, 0);
    CHECK_NEAR(kept.gradient, plain.gradient, 0);
}

/* With barriers and shared memory, on all schedules, to second order: the flags change only what is kept. */
TEST(kernel_region_flags_with_barriers)
{
    static const char *const flags[] = {"recompute", "record", "recompute record"};
    for (size_t i = 0; i < 3; i++) {
        char text[800];
        snprintf(text, sizeof text,
                 "kernel scan(workgroup = [4, 1, 1]) {\n"
                 "  buffer x: f32[4] read;\n"
                 "  buffer out: f32[4] output;\n"
                 "  buffer part: f32[4] workgroup;\n"
                 "  let l = local_id(0);\n"
                 "  part[l] = x[l];\n"
                 "  barrier();\n"
                 "  region r %s {\n"
                 "    for (step in 0..2) {\n"
                 "      let reach = 1 << step;\n"
                 "      let v = part[l];\n"
                 "      if (l >= reach) { v = v * part[l - reach]; }\n"
                 "      barrier();\n"
                 "      part[l] = v;\n"
                 "      barrier();\n"
                 "    }\n"
                 "  }\n"
                 "  out[l] = part[l];\n"
                 "}\n",
                 flags[i]);
        kernel_case_check(&(kernel_case){.name = "scan",
                                         .text = text,
                                         .outputs = "out",
                                         .inputs = "x",
                                         .data = "x = 2, 3, 4, 5",
                                         .values = "out = 2, 6, 24, 120",
                                         .gradients = "grad_x = 76, 50, 36, 24"});
    }
}

/* ---- Memory ---- */

static flx_code everything(flx_context *ctx, flx_error *err)
{
    static const char *const outputs[] = {"out"}, *const inputs[] = {"x"};
    char text[2000];
    snprintf(text, sizeof text, pair_text, "recompute ",
             "adjoint { adjoint(a) += adjoint(u) * slope(a) + adjoint(v) * u; adjoint(v) += adjoint(v) * a; }", "n");
    flx_kernel *k = flx_kernel_parse(ctx, text, strlen(text), "t", err);
    flx_kernel_derived *d = k ? flx_kernel_grad(k, outputs, 1, inputs, 1, NULL, err) : NULL;
    flx_kernel_derived *t = d ? flx_kernel_jvp(k, outputs, 1, inputs, 1, NULL, err) : NULL;
    bool done = t != NULL;
    flx_kernel_derived_free(t);
    flx_kernel_derived_free(d);
    flx_kernel_release(k);
    return done ? FLX_OK : (flx_code)err->code;
}

/* Reading the text makes few requests: all of them fail in turn. Of the others, about a hundred fail. */
TEST(kernel_region_rule_survives_memory_failure)
{
    enum { ALL = 300, MOST = 200 };
    size_t requests = 0;
    for (size_t at = 0; at <= requests; at += at < ALL ? 1 : 1 + requests / MOST) {
        fault f = {.fail_at = at};
        flx_error err = {0};
        flx_context *ctx = flx_context_new(&(flx_context_options){.alloc = fault_alloc, .alloc_user = &f});
        flx_code code = ctx ? everything(ctx, &err) : FLX_E_OOM;
        flx_context_free(ctx);
        CHECK_MSG(fault_is_clean(&f), "request %zu: %zu blocks leaked, %zu errors", at, f.live_blocks, f.errors);
        CHECK_MSG(code == (at ? FLX_E_OOM : FLX_OK), "request %zu: %s", at, err.message);
        requests = at ? requests : f.calls;
    }
}
