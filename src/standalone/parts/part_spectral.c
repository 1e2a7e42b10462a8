/* SPDX-License-Identifier: Apache-2.0 */
/* part_spectral.c: Fourier transforms of the last axis, row by row, in the precision of the operand and with the bits
   of the device `cpu` (transforms of 65536 numbers or more, of 32768 in f64, excepted: there it works in two halves). A
   real signal of even length is half as many complex numbers. Short tables are constants; long ones are made by init,
   before the arena, and in bodies of control flow, which do not see that memory, constants too. */
#include "ops/opcode.h"
#include "standalone/parts/fourier_text.h"

typedef struct {
    flxi_sa_writer *w;
    const char *type;
    bool is_wide, is_real, has_pairs, inverse;
    int64_t n, given, rows; /* of a signal; numbers or bins of a row of the operand */
    double scale;
    const char *scale_text; /* or NULL */
    flxi_sa_fourier_table t;
    const char *table;
    int64_t chirp_at, d_at, e_at, numbers; /* in the scratch memory, after the buffers x and y */
} transform;

enum { MOST_CONSTANT = 4096, MOST_CHIRP = 1 << 20 };

static bool is_forward_op(flxi_opcode op)
{
    return op == OP_rfft || op == OP_rfft_complex;
}

static bool make_plan(const flxi_device_node *n, transform *s)
{
    const flx_type *x = n->in_types[0], *y = n->out_types[0];
    bool is_complex = flxi_is_complex(x->dtype);
    *s = (transform){.is_real = n->op != OP_fft, .has_pairs = is_complex || n->op == OP_rfft_complex};
    s->is_wide = x->dtype == FLX_F64 || x->dtype == FLX_C128;
    s->type = s->is_wide ? "double" : "float";
    s->given = x->dims[x->rank - 1];
    s->n = s->is_real ? flxi_sa_int(n, "n") : is_complex ? s->given : s->given / 2;
    s->inverse = s->is_real ? !is_forward_op(n->op) : flxi_sa_int(n, "inverse");
    s->rows = y->dims[y->rank - 1] ? flxi_sa_count(y) / y->dims[y->rank - 1] : 0;
    if (s->n < 1)
        return s->rows == 0;
    s->scale = flxi_fourier_scale(flxi_sa_int(n, "norm"), s->inverse, s->n);
    bool is_half = s->is_real && s->n % 2 == 0;
    if (is_half)
        s->t = (flxi_sa_fourier_table){.roots_of = s->n, .roots = s->n / 4 + 1};
    return flxi_fourier_plan(is_half ? s->n / 2 : s->n, &s->t.plan);
}

static transform plan_of(const flxi_device_node *n)
{
    transform s;
    make_plan(n, &s);
    int64_t inner = s.t.plan.inner;
    s.chirp_at = 4 * (inner + FLXI_SA_APART);
    s.d_at = s.chirp_at + (s.t.plan.is_chirp ? 2 * inner : 0);
    s.e_at = s.d_at + (s.is_real ? 2 * s.n + FLXI_SA_APART : 0);
    s.numbers = s.e_at + (s.is_real ? 2 * s.n + 2 : 0);
    return s;
}

const char *flxi_sa_fft_applies(const flxi_device_node *n)
{
    transform s;
    if (!make_plan(n, &s))
        return "the transform is too long";
    return s.t.plan.is_chirp && flxi_sa_fourier_numbers(&s.t) > MOST_CHIRP
               ? "its length has a prime factor above 31, and its table would be too long a text"
               : NULL;
}

size_t flxi_sa_fft_scratch(const flxi_device_node *n)
{
    transform s = plan_of(n);
    return s.rows ? (size_t)s.numbers * (s.is_wide ? sizeof(double) : sizeof(float)) : 0;
}

/* ---- Tables ---- */

void flxi_sa_fft_table(const flxi_device_node *n, flxi_sa_table *t)
{
    transform s = plan_of(n);
    int64_t numbers = flxi_sa_fourier_numbers(&s.t);
    bool has_none = s.rows == 0 || s.t.plan.is_chirp || numbers <= MOST_CONSTANT;
    *t = (flxi_sa_table){.key = {s.t.plan.n, s.t.roots_of, s.is_wide}, .n = n};
    t->bytes = has_none ? 0 : (size_t)numbers * (s.is_wide ? sizeof(double) : sizeof(float));
}

void flxi_sa_fft_fill(flxi_sa_writer *w)
{
    transform s = plan_of(w->n);
    flxi_sa_open(w, "/* factors of Fourier transforms */");
    flxi_sa_line(w, "%s *const table = (%s *)(%s);", s.type, s.type, w->table);
    flxi_sa_fourier_fill(w, &s.t, s.type);
    flxi_sa_close(w);
}

/* ---- Text ---- */

static const char *number(transform *s, int64_t x)
{
    return flxi_sa_print(s->w, "%lld", (long long)x);
}

/* Number i of a signal. */
static const char *element(transform *s, const flxi_sa_signal *x, int part)
{
    if (x->form == FLXI_FORM_PARTS)
        return flxi_sa_print(s->w, "(%s)[i]", part ? x->im : x->re);
    return flxi_sa_print(s->w, "%s[2 * i + %d]", x->re, x->form == FLXI_FORM_PAIRS ? part : 1 - part);
}

static void write_passes(transform *s, flxi_sa_signal from, flxi_sa_signal to, const char *scale)
{
    flxi_sa_transform(s->w, &s->t.plan, s->type, s->table, from, to, scale);
}

/* A length with a large prime factor: a convolution with a chirp. */
static void write_chirp(transform *s, flxi_sa_signal from, flxi_sa_signal to, const char *scale)
{
    flxi_sa_writer *w = s->w;
    const long long n = (long long)s->t.plan.n, inner = (long long)s->t.plan.inner;
    const long long filter = (long long)flxi_sa_fourier_passes_end(&s->t.plan);
    const char *multiply = flxi_sa_fourier(w, SA_MULTIPLY, s->type);
    const flxi_sa_signal c = {FLXI_FORM_PARTS, "c", "ci"}, back = {FLXI_FORM_PARTS, "ci", "c"};
    flxi_sa_open(w, "/* a convolution with a chirp */");
    flxi_sa_line(w, "%s *const c = x + %lld, *const ci = c + %lld;", s->type, (long long)s->chirp_at, inner);
    flxi_sa_line(w, "memset(c, 0, %lld * sizeof *c);", 2 * inner);
    flxi_sa_open(w, "for (int64_t i = 0; i < %lld; i++)", n);
    flxi_sa_line(w, "c[i] = %s;", element(s, &from, 0));
    flxi_sa_line(w, "ci[i] = %s;", element(s, &from, 1));
    flxi_sa_close(w);
    flxi_sa_line(w, "%s(c, ci, %s + %lld, %lld);", multiply, s->table, filter + 2 * inner, n);
    write_passes(s, c, c, NULL);
    flxi_sa_line(w, "%s(c, ci, %s + %lld, %lld);", multiply, s->table, filter, inner);
    write_passes(s, back, back, NULL);
    flxi_sa_line(w, "%s(c, ci, %s + %lld, %lld);", multiply, s->table, filter + 2 * inner, n);
    flxi_sa_open(w, "for (int64_t i = 0; i < %lld; i++)", n);
    for (int part = 0; part < 2; part++)
        flxi_sa_line(w, "%s = %s[i]%s%s;", element(s, &to, part), part ? "ci" : "c", scale ? " * " : "",
                     scale ? scale : "");
    flxi_sa_close(w);
    flxi_sa_close(w);
}

static void write_transform(transform *s, flxi_sa_signal from, flxi_sa_signal to, const char *scale)
{
    (s->t.plan.is_chirp ? write_chirp : write_passes)(s, from, to, scale);
}

/* ---- Complex signals ---- */

static void write_complex(transform *s)
{
    flxi_sa_writer *w = s->w;
    const char *n = number(s, s->n);
    flxi_fourier_form form = !s->has_pairs ? FLXI_FORM_PARTS : s->inverse ? FLXI_FORM_SWAPPED : FLXI_FORM_PAIRS;
    flxi_sa_signal from = {form, "from", flxi_sa_print(w, "from + %s", n)};
    flxi_sa_signal to = {form, "to", flxi_sa_print(w, "to + %s", n)};
    flxi_sa_line(w, "const %s *from = x0 + row * %lld;", s->type, 2 * (long long)s->n);
    flxi_sa_line(w, "%s *to = y0 + row * %lld;", s->type, 2 * (long long)s->n);
    if (form == FLXI_FORM_PARTS && s->inverse) {
        from = (flxi_sa_signal){form, from.im, from.re};
        to = (flxi_sa_signal){form, to.im, to.re};
    }
    write_transform(s, from, to, s->scale_text);
}

/* ---- Real signals ---- */

/* Numbers of a row that exist, then zeros, at e: where they are from now on. */
static const char *padded(transform *s, const char *from, int64_t given, int64_t wanted, const char *to)
{
    if (given >= wanted)
        return from;
    if (given)
        flxi_sa_line(s->w, "memcpy(%s, %s, %lld * sizeof(%s));", to, from, (long long)given, s->type);
    flxi_sa_line(s->w, "memset(%s + %lld, 0, %lld * sizeof(%s));", to, (long long)given, (long long)(wanted - given),
                 s->type);
    return to;
}

static const char *times_scale(const transform *s)
{
    return s->scale_text ? flxi_sa_print(s->w, " * %s", s->scale_text) : "";
}

/* Bins of an odd length: the first half of a complex transform. */
static void write_odd_bins(transform *s, const char *im)
{
    flxi_sa_writer *w = s->w;
    const char *n = number(s, s->n), *step = s->has_pairs ? "2 * " : "";
    int64_t count = s->given < s->n ? s->given : s->n;
    flxi_sa_line(w, "memset(d, 0, %lld * sizeof *d);", 2 * (long long)s->n);
    if (count)
        flxi_sa_line(w, "memcpy(d, from, %lld * sizeof *d);", (long long)count);
    write_transform(s, (flxi_sa_signal){FLXI_FORM_PARTS, "d", flxi_sa_print(w, "d + %s", n)},
                    (flxi_sa_signal){FLXI_FORM_PARTS, "e", flxi_sa_print(w, "e + %s", n)}, NULL);
    flxi_sa_open(w, "for (int64_t i = 0; i < %lld; i++)", (long long)s->n / 2 + 1);
    flxi_sa_line(w, "to[%si] = e[i]%s;", step, times_scale(s));
    flxi_sa_line(w, "(%s)[%si] = e[%s + i]%s;", im, step, n, times_scale(s));
    flxi_sa_close(w);
    flxi_sa_line(w, "(%s)[0] = 0;", im);
}

static void write_bins(transform *s)
{
    flxi_sa_writer *w = s->w;
    const long long h = (long long)s->n / 2, bins = h + 1, step = s->has_pairs ? 2 : 1;
    const char *im = s->has_pairs ? "to + 1" : "toi";
    if (s->given)
        flxi_sa_line(w, "const %s *from = x0 + row * %lld;", s->type, (long long)s->given);
    flxi_sa_line(w, "%s *to = y0 + row * %lld;", s->type, step * bins);
    if (!s->has_pairs)
        flxi_sa_line(w, "%s *toi = y1 + row * %lld;", s->type, bins);
    if (s->n % 2) {
        write_odd_bins(s, im);
        return;
    }
    const char *from = padded(s, "from", s->given, s->n, "e");
    const char *half = flxi_sa_print(w, "d + %lld", h + FLXI_SA_APART);
    write_transform(s, (flxi_sa_signal){.form = FLXI_FORM_PAIRS, .re = from},
                    (flxi_sa_signal){FLXI_FORM_PARTS, "d", half}, NULL);
    const char *one = s->scale_text ? s->scale_text : flxi_sa_print(w, "(%s)1", s->type);
    flxi_sa_line(w, "%s(d, %s, %s + %lld, to, %s, to + %lld, %s + %lld, %lld, %s / 2);",
                 flxi_sa_fourier(w, s->has_pairs ? SA_BINS_AS_PAIRS : SA_BINS, s->type), half, s->table,
                 (long long)flxi_sa_fourier_roots_at(&s->t), im, step * h, im, step * h, h, one);
    flxi_sa_line(w, "to[0] = (d[0] + (%s)[0])%s;", half, times_scale(s));
    flxi_sa_line(w, "to[%lld] = (d[0] - (%s)[0])%s;", step * h, half, times_scale(s));
    flxi_sa_line(w, "(%s)[0] = (%s)[%lld] = 0;", im, im, step * h);
}

/* A signal of odd length: bins above n / 2 are the conjugates of those below. */
static void write_odd_signal(transform *s, const char *im)
{
    flxi_sa_writer *w = s->w;
    const long long n = (long long)s->n, half = n / 2 + 1;
    const char *step = s->has_pairs ? "2 * " : "";
    flxi_sa_line(w, "memset(d, 0, %lld * sizeof *d);", 2 * n);
    if (s->given)
        flxi_sa_line(w, "d[0] = from[0];");
    flxi_sa_open(w, "for (int64_t i = 1; i < %lld; i++)", s->given < half ? (long long)s->given : half);
    flxi_sa_line(w, "d[i] = d[%lld - i] = from[%si];", n, step);
    flxi_sa_line(w, "d[%lld + i] = (%s)[%si];", n, im, step);
    flxi_sa_line(w, "d[%lld - i] = -d[%lld + i];", 2 * n, n);
    flxi_sa_close(w);
    write_transform(s, (flxi_sa_signal){FLXI_FORM_PARTS, flxi_sa_print(w, "d + %lld", n), "d"},
                    (flxi_sa_signal){FLXI_FORM_PARTS, flxi_sa_print(w, "e + %lld", n), "e"}, s->scale_text);
    flxi_sa_line(w, "memcpy(to, e, %lld * sizeof *to);", n);
}

static void write_signal(transform *s)
{
    flxi_sa_writer *w = s->w;
    const long long h = (long long)s->n / 2, step = s->has_pairs ? 2 : 1, given = (long long)s->given;
    const char *from = "from", *im = s->has_pairs ? "from + 1" : "fromi";
    if (given) {
        flxi_sa_line(w, "const %s *from = x0 + row * %lld;", s->type, step * given);
        if (!s->has_pairs)
            flxi_sa_line(w, "const %s *fromi = x1 + row * %lld;", s->type, given);
    }
    flxi_sa_line(w, "%s *to = y0 + row * %lld;", s->type, (long long)s->n);
    if (s->n % 2) {
        write_odd_signal(s, im);
        return;
    }
    from = padded(s, from, step * given, step * (h + 1), "e");
    if (s->has_pairs)
        im = flxi_sa_print(w, "%s + 1", from);
    else
        im = padded(s, im, given, h + 1, flxi_sa_print(w, "(e + %lld)", h + 1));
    const char *half = flxi_sa_print(w, "d + %lld", h + FLXI_SA_APART);
    flxi_sa_line(w, "%s(%s, %s, %s + %lld, d, %s, d + %lld, %s + %lld, %lld);",
                 flxi_sa_fourier(w, s->has_pairs ? SA_SIGNAL_OF_PAIRS : SA_SIGNAL, s->type), from, im, s->table,
                 (long long)flxi_sa_fourier_roots_at(&s->t), half, h, half, h, h);
    flxi_sa_line(w, "d[0] = %s[0] + %s[%lld];", from, from, step * h);
    flxi_sa_line(w, "(%s)[0] = %s[0] - %s[%lld];", half, from, from, step * h);
    write_transform(s, (flxi_sa_signal){FLXI_FORM_PARTS, half, "d"},
                    (flxi_sa_signal){.form = FLXI_FORM_SWAPPED, .re = "to"}, s->scale_text);
}

/* ---- The node ---- */

static void declare_memory(transform *s)
{
    flxi_sa_writer *w = s->w;
    flxi_sa_line(w, "%s *const x = (%s *)scratch, *const y = x + %lld;", s->type, s->type,
                 2 * (long long)(s->t.plan.inner + FLXI_SA_APART));
    if (s->is_real)
        flxi_sa_line(w, "%s *const d = x + %lld, *const e = x + %lld;", s->type, (long long)s->d_at,
                     (long long)s->e_at);
    flxi_sa_line(w, "(void)x, (void)y%s;", s->is_real ? ", (void)e" : "");
}

void flxi_sa_fft(flxi_sa_writer *w)
{
    transform s = plan_of(w->n);
    if (s.rows == 0)
        return;
    s.w = w;
    if (s.scale != 1)
        s.scale_text = flxi_sa_print(w, "(%s)%s", s.type, flxi_sa_real(w, s.scale));
    s.table = "table";
    if (w->table)
        flxi_sa_line(w, "const %s *const table = (const %s *)prepared;", s.type, s.type);
    else
        s.table = flxi_sa_fourier_numbers(&s.t) ? flxi_sa_fourier_constant(w, &s.t, s.is_wide) : "x";
    declare_memory(&s);
    flxi_sa_open(w, "for (int64_t row = 0; row < %lld; row++)", (long long)s.rows);
    (!s.is_real ? write_complex : s.inverse ? write_signal : write_bins)(&s);
    flxi_sa_close(w);
}
