/* SPDX-License-Identifier: Apache-2.0 */
/* part_running.c: running sums, products, maxima and minima along an axis. They run in double, sums of f16 and bf16 in
   float, as the reference evaluator does; each element is rounded once. */
#include "graph/op/eval.h"
#include "ops/opcode.h"
#include "standalone/parts/parts.h"

typedef struct {
    const char *type, *start; /* of what runs, and its first value */
    const char *next;         /* from acc and x */
} running;

/* Sums of f16 and bf16 are in float; all else that is not an integer is in double. */
static const char *wide_type(int32_t dtype, bool is_sum)
{
    bool is_half = dtype == FLX_F16 || dtype == FLX_BF16;
    return flxi_is_int(dtype) || (is_half && is_sum) ? flxi_sa_arithmetic(dtype) : "double";
}

/* The least or largest number of the dtype. */
static const char *bound_of(flxi_sa_writer *w, int32_t dtype, bool is_least)
{
    if (flxi_is_float(dtype))
        return is_least ? "-INFINITY" : "INFINITY";
    if (dtype == FLX_BOOL)
        return is_least ? "0" : "1";
    int bits = flxi_int_bits(dtype);
    if (!flxi_is_signed(dtype))
        return is_least ? "0" : flxi_sa_print(w, "UINT%d_MAX", bits);
    return flxi_sa_print(w, is_least ? "INT%d_MIN" : "INT%d_MAX", bits);
}

static running extremum(flxi_sa_writer *w, int32_t dtype, bool is_max)
{
    running r = {.type = flxi_is_float(dtype) ? (dtype == FLX_F64 ? "double" : "float") : flxi_sa_type(dtype),
                 .start = bound_of(w, dtype, is_max)};
    if (flxi_is_float(dtype))
        r.next =
            flxi_sa_print(w, "%s(acc, x)",
                          flxi_sa_function_of(w, is_max ? "max_nan" : "min_nan", dtype == FLX_F64 ? FLX_F64 : FLX_F32));
    else
        r.next = is_max ? "acc > x ? acc : x" : "acc < x ? acc : x";
    return r;
}

static running running_of(flxi_sa_writer *w, int32_t dtype)
{
    bool is_sum = w->n->op == OP_cumsum;
    if (w->n->op == OP_cummax || w->n->op == OP_cummin)
        return extremum(w, dtype, w->n->op == OP_cummax);
    if (dtype == FLX_BOOL)
        return (running){"uint8_t", is_sum ? "0" : "1", is_sum ? "(uint8_t)(acc | x)" : "(uint8_t)(acc & x)"};
    return (running){wide_type(dtype, is_sum), is_sum ? "0" : "1", is_sum ? "acc + x" : "acc * x"};
}

/* f16 and bf16 are rounded once, from double. */
static const char *rounded(flxi_sa_writer *w, int32_t dtype, const char *value)
{
    if (w->n->op == OP_cumsum || w->n->op == OP_cummax || w->n->op == OP_cummin)
        return dtype == FLX_F32 || dtype == FLX_C64 ? flxi_sa_print(w, "(float)%s", value)
                                                    : flxi_sa_store(w, dtype, value);
    if (dtype == FLX_F16)
        return flxi_sa_print(w, "%s(%s)", flxi_sa_borrow(w->f, "half.c", "flxi_to_f16"), value);
    if (dtype == FLX_BF16)
        return flxi_sa_print(w, "%s(%s)", flxi_sa_borrow(w->f, "half.c", "flxi_to_bf16"), value);
    return dtype == FLX_F32 || dtype == FLX_C64 ? flxi_sa_print(w, "(float)%s", value) : flxi_sa_store(w, dtype, value);
}

/* for each row { start; for each position { read, step, write } } */
static void open_rows(flxi_sa_writer *w, flxi_split s)
{
    flxi_sa_line(w, "for (int64_t p = 0; p < %lld; p++)", (long long)s.outer);
    w->depth++;
    flxi_sa_open(w, "for (int64_t q = 0; q < %lld; q++)", (long long)s.inner);
}

static void open_positions(flxi_sa_writer *w, flxi_split s)
{
    flxi_sa_open(w, "for (int64_t i = 0; i < %lld; i++)", (long long)s.n);
    const char *k = flxi_sa_int(w->n, "reverse") ? flxi_sa_print(w, "(%lld - i)", (long long)(s.n - 1)) : "i";
    flxi_sa_line(w, "const int64_t at = (p * %lld + %s) * %lld + q;", (long long)s.n, k, (long long)s.inner);
}

static void close_rows(flxi_sa_writer *w)
{
    flxi_sa_close(w);
    flxi_sa_close(w);
    w->depth--;
}

static void write_complex(flxi_sa_writer *w, flxi_split s, int32_t dtype)
{
    bool exclusive = flxi_sa_int(w->n, "exclusive"), is_sum = w->n->op == OP_cumsum;
    open_rows(w, s);
    flxi_sa_line(w, "double re = %s, im = 0;", is_sum ? "0" : "1");
    open_positions(w, s);
    flxi_sa_line(w, "const double a = x0[2 * at], b = x0[2 * at + 1];");
    flxi_sa_line(w, is_sum ? "const double u = re + a, v = im + b;"
                           : "const double u = re * a - im * b, v = re * b + im * a;");
    flxi_sa_line(w, "y0[2 * at] = %s;", rounded(w, dtype, exclusive ? "re" : "u"));
    flxi_sa_line(w, "y0[2 * at + 1] = %s;", rounded(w, dtype, exclusive ? "im" : "v"));
    flxi_sa_line(w, "re = u;");
    flxi_sa_line(w, "im = v;");
    close_rows(w);
}

void flxi_sa_running(flxi_sa_writer *w)
{
    const flx_type *x = w->n->in_types[0];
    int32_t dtype = x->dtype;
    bool exclusive = flxi_sa_int(w->n, "exclusive");
    if (flxi_sa_count(x) == 0)
        return;
    flxi_split s = flxi_split_at(x, flxi_sa_int(w->n, "axis"));
    if (flxi_is_complex(dtype)) {
        write_complex(w, s, dtype);
        return;
    }
    running r = running_of(w, dtype);
    bool is_order = w->n->op == OP_cummax || w->n->op == OP_cummin;
    open_rows(w, s);
    flxi_sa_line(w, "%s acc = %s;", r.type, r.start);
    open_positions(w, s);
    const char *element = is_order && flxi_is_int(dtype) ? "x0[at]" : flxi_sa_load(w, dtype, "x0[at]");
    flxi_sa_line(w, "const %s x = %s;", r.type, element);
    flxi_sa_line(w, "const %s next = %s;", r.type, r.next);
    flxi_sa_line(w, "y0[at] = %s;", rounded(w, dtype, exclusive ? "acc" : "next"));
    flxi_sa_line(w, "acc = next;");
    close_rows(w);
}

static const char log_add_exp[] = "static double NAME_(double a, double b)\n"
                                  "{\n"
                                  "    const double high = a > b ? a : b, low = a > b ? b : a;\n"
                                  "    if (a != a || b != b)\n"
                                  "        return a + b;\n"
                                  "    return isinf(high) ? high : high + log1p(exp(low - high));\n"
                                  "}\n";

/* log(exp(acc) + exp(x)). The larger one is factored out; where it is infinite it is the result. */
void flxi_sa_running_log(flxi_sa_writer *w)
{
    const flx_type *x = w->n->in_types[0];
    bool exclusive = flxi_sa_int(w->n, "exclusive");
    flxi_strbuf text;
    if (flxi_sa_count(x) == 0)
        return;
    flxi_strbuf_init(&text, w->f->mem);
    flxi_add_text(&text, log_add_exp);
    const char *add = flxi_sa_static_of(w->f, &text, &text, "log_add_exp", "log(exp(a) + exp(b))");
    flxi_strbuf_free(&text);
    open_rows(w, flxi_split_at(x, flxi_sa_int(w->n, "axis")));
    flxi_sa_line(w, "double acc = -INFINITY;");
    open_positions(w, flxi_split_at(x, flxi_sa_int(w->n, "axis")));
    flxi_sa_line(w, "const double next = %s(acc, %s);", add, flxi_sa_load(w, x->dtype, "x0[at]"));
    flxi_sa_line(w, "y0[at] = %s;", rounded(w, x->dtype, exclusive ? "acc" : "next"));
    flxi_sa_line(w, "acc = next;");
    close_rows(w);
}
