/* SPDX-License-Identifier: Apache-2.0 */
/* random_kernel.c: the generator of random kernels. Its kernels are valid and free of races by construction: an
   invocation writes only its own elements, sums with atomics, and reads what others wrote after a barrier. Values
   stay small, arguments away from poles. */
#include "kernel/random_kernel.h"

#include "test.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { MAX_VARS = 24, MAX_DEPTH = 4 };

typedef struct {
    uint64_t state;
    char *text;
    size_t n;
    int indent;
    int vars;      /* float variables v0 … in scope */
    int first_own; /* of the innermost scope */
    int names;     /* given out so far */
    int var_names[MAX_VARS];
    int loops; /* loop variables in scope */
    int loop_names[MAX_DEPTH + 2];
    int statements; /* still to write */
    bool has_phases;
} writer;

static uint32_t pick(writer *w, uint32_t n)
{
    w->state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = w->state;
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)((z ^ z >> 31) >> 33) % n;
}

static void put(writer *w, const char *fmt, ...) FLX_PRINTF(2, 3);

static void put(writer *w, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int m = vsnprintf(w->text + w->n, RANDOM_KERNEL_SIZE - w->n, fmt, args);
    va_end(args);
    CHECK(m >= 0 && w->n + (size_t)m < RANDOM_KERNEL_SIZE);
    w->n += (size_t)m;
}

static void put_indent(writer *w)
{
    put(w, "%*s", 2 * w->indent, "");
}

/* ---- Expressions: %s in a form is an operand ---- */

static const char *const unary_forms[] = {
    "sin(%s)",
    "cos(%s)",
    "tanh(%s)",
    "sigmoid(%s)",
    "erf(%s)",
    "erfc(%s)",
    "atan(%s)",
    "asinh(%s)",
    "-(%s)",
    "exp(-abs(%s))",
    "exp2(tanh(%s))",
    "expm1(tanh(%s))",
    "sqrt(1.0 + (%s) * (%s))",
    "rsqrt(2.0 + sin(%s))",
    "recip(2.0 + cos(%s))",
    "log(3.0 + sin(%s))",
    "log2(3.0 + cos(%s))",
    "log10(3.0 + sin(%s))",
    "log1p(1.5 + cos(%s))",
    "tan(0.5 * tanh(%s))",
    "asin(0.7 * tanh(%s))",
    "acos(0.7 * sin(%s))",
    "sinh(tanh(%s))",
    "cosh(tanh(%s))",
    "acosh(2.5 + sin(%s))",
    "atanh(0.6 * tanh(%s))",
    "abs(%s)",
    "stop_gradient(cos(0.3)) * (%s)",
    "cast<f64>(cast<f32>(0.0 * floor(%s))) + 0.25",
    "scaled(%s)",
};

static const char *const binary_forms[] = {
    "(%s) + (%s)",
    "(%s) - (%s)",
    "tanh(%s) * (%s)",
    "(%s) / (2.5 + sin(%s))",
    "min(%s, %s)",
    "max(%s, %s)",
    "min_nan(%s, %s)",
    "max_nan(%s, %s)",
    "pow(1.5 + 0.4 * sin(%s), tanh(%s))",
    "atan2(%s, 2.0 + cos(%s))",
    "hypot(%s, 1.0 + tanh(%s))",
    "copysign(%s, %s)",
    "abs_diff(%s, %s)",
    "fma(tanh(%s), %s, 0.5)",
    "select((%s) > 0.1, %s, -0.3)",
    "(%s) % (3.0 + sin(%s))",
};

static void put_form(writer *w, const char *form, int depth);

static void put_leaf(writer *w)
{
    switch (pick(w, 9)) {
    case 0: put(w, "x[i]"); break;
    case 1: put(w, "x[(i + %u) %% %d]", pick(w, 4), RANDOM_KERNEL_COUNT); break;
    case 2: put(w, "y[k[i]]"); break;
    case 3:
        if (w->loops)
            put(w, "y[(i * %u + n%d) %% %d]", pick(w, 3) + 1, w->loop_names[pick(w, (uint32_t)w->loops)],
                RANDOM_KERNEL_TABLE);
        else
            put(w, "y[l + %u]", pick(w, 3)); /* may be beyond the end: reads 0 */
        break;
    case 4: put(w, "mem[i]"); break;
    case 5: put(w, "pr[%u]", pick(w, 2)); break;
    case 6: put(w, "%u.%u", pick(w, 2), pick(w, 9) + 1); break;
    default:
        if (w->vars)
            put(w, "v%d", w->var_names[pick(w, (uint32_t)w->vars)]);
        else
            put(w, "x[i]");
    }
}

static void put_value(writer *w, int depth)
{
    if (depth == 0 || pick(w, 5) == 0)
        put_leaf(w);
    else if (pick(w, 2))
        put_form(w, unary_forms[pick(w, sizeof unary_forms / sizeof *unary_forms)], depth);
    else
        put_form(w, binary_forms[pick(w, sizeof binary_forms / sizeof *binary_forms)], depth);
}

/* A form that uses its operand twice gets the same one twice. */
static void put_form(writer *w, const char *form, int depth)
{
    bool repeats = strstr(form, "sqrt(1.0") != NULL;
    uint64_t before = 0;
    for (const char *s = form; *s; s++) {
        if (s[0] != '%' || s[1] != 's') {
            put(w, "%c", *s);
            continue;
        }
        if (repeats && before)
            w->state = before;
        before = w->state;
        put_value(w, depth - 1);
        s++;
    }
}

/* ---- Statements ---- */

static void put_list(writer *w, int depth, bool is_uniform);

static void put_let(writer *w)
{
    if (w->vars == MAX_VARS)
        return;
    put_indent(w);
    put(w, "let v%d = cast<f64>(", w->names);
    put_value(w, 3);
    put(w, ");\n");
    w->var_names[w->vars++] = w->names++;
}

static void put_assign(writer *w)
{
    put_indent(w);
    switch (w->vars ? pick(w, 4) : pick(w, 2)) {
    case 0: put(w, "mem[i] = "); break;
    case 1: put(w, "pr[%u] = ", pick(w, 2)); break;
    default: put(w, "v%d = ", w->var_names[pick(w, (uint32_t)w->vars)]);
    }
    put_value(w, 3);
    put(w, ";\n");
}

static void put_atomic(writer *w)
{
    put_indent(w);
    put(w, "atomic_add(acc[%s], ", pick(w, 2) ? "k[i] % 3" : "1");
    put_value(w, 2);
    put(w, ");\n");
}

static void put_scope(writer *w, int depth, bool is_uniform)
{
    int vars = w->vars, loops = w->loops;
    w->indent++;
    put_list(w, depth, is_uniform);
    w->indent--;
    w->vars = vars;
    w->loops = loops;
}

static void put_if(writer *w, int depth)
{
    put_indent(w);
    if (pick(w, 2)) {
        put(w, "if (k[i] > %u) {\n", pick(w, 4));
    } else {
        put(w, "if (");
        put_value(w, 1);
        put(w, " < 0.4) {\n");
    }
    put_scope(w, depth - 1, false);
    put_indent(w);
    if (pick(w, 2)) {
        put(w, "} else {\n");
        put_scope(w, depth - 1, false);
        put_indent(w);
    }
    put(w, "}\n");
}

static void put_loop(writer *w, int depth, bool is_uniform)
{
    bool from_data = !is_uniform && pick(w, 3) == 0;
    put_indent(w);
    if (from_data)
        put(w, "for (n%d in %u..k[i]) {\n", w->names, pick(w, 2));
    else
        put(w, "for (n%d in %u..%u) {\n", w->names, pick(w, 2), pick(w, 4));
    w->loop_names[w->loops++] = w->names++;
    put_scope(w, depth - 1, is_uniform && !from_data);
    w->loops--;
    put_indent(w);
    put(w, "}\n");
}

/* All invocations write, all read an element of another, then memory is free again. */
static void put_phase(writer *w)
{
    if (w->vars == MAX_VARS)
        return;
    w->has_phases = true;
    put_indent(w);
    put(w, "sh[l] = ");
    put_value(w, 2);
    put(w, ";\n");
    put_indent(w);
    put(w, "barrier();\n");
    put_indent(w);
    put(w, "let v%d = sh[(l + %u) %% %d] * sh[l];\n", w->names, pick(w, 4), RANDOM_KERNEL_WIDTH);
    put_indent(w);
    put(w, "barrier();\n");
    w->var_names[w->vars++] = w->names++;
}

static void put_statement(writer *w, int depth, bool is_uniform)
{
    switch (pick(w, depth > 0 ? 10 : 6)) {
    case 0:
    case 1: put_let(w); break;
    case 2:
    case 3:
    case 4: put_assign(w); break;
    case 5:
        if (is_uniform)
            put_phase(w);
        else
            put_atomic(w);
        break;
    case 6:
    case 7: put_if(w, depth); break;
    default: put_loop(w, depth, is_uniform);
    }
}

static void put_list(writer *w, int depth, bool is_uniform)
{
    int n = 1 + (int)pick(w, 4);
    for (int i = 0; i < n && w->statements > 0; i++) {
        w->statements--;
        put_statement(w, depth, is_uniform);
    }
}

void random_kernel_write(uint64_t seed, char *text)
{
    writer w = {.state = seed, .text = text, .indent = 1, .statements = 24};
    put(&w, "kernel r(workgroup = [%d, 1, 1]) {\n", RANDOM_KERNEL_WIDTH);
    put(&w, "  buffer x: f64[%d] read;\n  buffer y: f64[%d] read;\n", RANDOM_KERNEL_COUNT, RANDOM_KERNEL_TABLE);
    put(&w, "  buffer k: u32[%d] read;\n  buffer mem: f64[%d] read_write;\n", RANDOM_KERNEL_COUNT, RANDOM_KERNEL_COUNT);
    put(&w, "  buffer out: f64[%d] output;\n  buffer acc: f64[%d] output;\n", RANDOM_KERNEL_COUNT, RANDOM_KERNEL_SUMS);
    put(&w, "  buffer sh: f64[%d] workgroup;\n  buffer pr: f64[2] private;\n", RANDOM_KERNEL_WIDTH);
    put(&w, "  fn scaled(a: f64) -> f64 { let h = a * 0.5; return h * cos(h); }\n");
    put(&w, "  let i = invocation_id(0);\n  let l = local_id(0);\n");
    if (pick(&w, 4) == 0)
        put(&w, "  if (k[i] == %u) { return; }\n", pick(&w, RANDOM_KERNEL_TABLE));
    bool may_synchronise = strstr(text, "return") == NULL || strstr(text, "{ return; }") == NULL;
    int lists = 1 + (int)pick(&w, 3);
    for (int i = 0; i < lists; i++)
        put_list(&w, MAX_DEPTH, may_synchronise);
    put(&w, "  out[i] = ");
    put_value(&w, 3);
    put(&w, ";\n}\n");
}
