/* SPDX-License-Identifier: Apache-2.0 */
/* fourier_text.c: see fourier_text.h. A pass is one loop without calls or arrays, which compilers vectorise: along the
   stride, and for the first pass, whose stride is 1, along groups. Radices 2, 3, 4, 5 and 8 are written out; others
   are one function with a loop over their numbers. */
#include "standalone/parts/fourier_text.h"

#include <math.h>
#include <stdio.h>

typedef enum { PASS_FIRST, PASS_LATER, PASS_LAST } pass_kind;

typedef struct {
    flxi_sa_writer *w;
    const char *type;
    int radix;
    pass_kind kind;
    flxi_fourier_form from, to;
    int64_t stride; /* in the text if it is small */
    bool has_scale;
} pass;

enum { MOST_FIXED_STRIDE = 8, WRITTEN_OUT = 8 };

static bool is_written_out(int radix)
{
    return radix <= 5 || radix == WRITTEN_OUT;
}

/* ---- Short transforms: results s, t of numbers r, i ---- */

static const char turn2[] = "$s0 = $r0 + $r1, $t0 = $i0 + $i1, $s1 = $r0 - $r1, $t1 = $i0 - $i1;\n";

static const char turn3[] = "ar = r1 + r2, ai = i1 + i2, mr = r0 - ar * (#)0.5, mi = i0 - ai * (#)0.5;\n"
                            "dr = (r1 - r2) * (#)0.86602540378443864676, di = (i1 - i2) * (#)0.86602540378443864676;\n"
                            "s0 = r0 + ar, t0 = i0 + ai, s1 = mr + di, t1 = mi - dr, s2 = mr - di, t2 = mi + dr;\n";

static const char turn4[] = "$ar = $r0 + $r2, $ai = $i0 + $i2, $br = $r0 - $r2, $bi = $i0 - $i2;\n"
                            "$cr = $r1 + $r3, $ci = $i1 + $i3, $dr = $r1 - $r3, $di = $i1 - $i3;\n"
                            "$s0 = $ar + $cr, $t0 = $ai + $ci, $s1 = $br + $di, $t1 = $bi - $dr;\n"
                            "$s2 = $ar - $cr, $t2 = $ai - $ci, $s3 = $br - $di, $t3 = $bi + $dr;\n";

static const char turn5[] = "c1 = (#)0.30901699437494742410, c2 = (#)-0.80901699437494742410;\n"
                            "s = (#)0.95105651629515357212, half = (#)0.58778525229247312917;\n"
                            "ar = r1 + r4, ai = i1 + i4, br = r2 + r3, bi = i2 + i3;\n"
                            "dr = r1 - r4, di = i1 - i4, er = r2 - r3, ei = i2 - i3;\n"
                            "pr = r0 + ar * c1 + br * c2, pi = i0 + ai * c1 + bi * c2;\n"
                            "qr = r0 + ar * c2 + br * c1, qi = i0 + ai * c2 + bi * c1;\n"
                            "ur = dr * s + er * half, ui = di * s + ei * half;\n"
                            "vr = dr * half - er * s, vi = di * half - ei * s;\n"
                            "s0 = r0 + (ar + br), t0 = i0 + (ai + bi), s1 = pr + ui, t1 = pi - ur;\n"
                            "s4 = pr - ui, t4 = pi + ur, s2 = qr + vi, t2 = qi - vr, s3 = qr - vi, t3 = qi + vr;\n";

/* After turn4 of the numbers with even index (e) and with odd index (o). */
static const char turn8[] = "half = (#)0.70710678118654752440;\n"
                            "hr1 = (os1 + ot1) * half, hi1 = (ot1 - os1) * half;\n"
                            "hr3 = (ot3 - os3) * half, hi3 = (ot3 + os3) * -half;\n"
                            "s0 = es0 + os0, t0 = et0 + ot0, s4 = es0 - os0, t4 = et0 - ot0;\n"
                            "s1 = es1 + hr1, t1 = et1 + hi1, s5 = es1 - hr1, t5 = et1 - hi1;\n"
                            "s2 = es2 + ot2, t2 = et2 - os2, s6 = es2 - ot2, t6 = et2 + os2;\n"
                            "s3 = es3 + hr3, t3 = et3 + hi3, s7 = es3 - hr3, t7 = et3 - hi3;\n";

static void indent(flxi_strbuf *out, int depth)
{
    flxi_addf(out, "%*s", 4 * depth, "");
}

/* Lines of declarations: # is the type, $ the prefix of names; numbers r, i of index k are those of `each` k + `at`. */
static void add_turn(flxi_strbuf *out, const char *text, const char *type, const char *prefix, int each, int at)
{
    bool begins = true;
    for (const char *p = text; *p; p++) {
        if (begins) {
            indent(out, 3);
            flxi_addf(out, "const %s ", type);
        }
        begins = *p == '\n';
        if (*p == '#') {
            flxi_add_text(out, type);
        } else if (*p == '$' && (p[1] == 'r' || p[1] == 'i')) {
            flxi_addf(out, "%c%d", p[1], each * (p[2] - '0') + at);
            p += 2;
        } else if (*p == '$') {
            flxi_add_text(out, prefix);
        } else {
            flxi_add_char(out, *p);
        }
    }
}

static void add_turns(flxi_strbuf *out, int radix, const char *type)
{
    switch (radix) {
    case 2: add_turn(out, turn2, type, "", 1, 0); return;
    case 3: add_turn(out, turn3, type, "", 1, 0); return;
    case 4: add_turn(out, turn4, type, "", 1, 0); return;
    case 5: add_turn(out, turn5, type, "", 1, 0); return;
    default: break;
    }
    add_turn(out, turn4, type, "e", 2, 0);
    add_turn(out, turn4, type, "o", 2, 1);
    add_turn(out, turn8, type, "", 1, 0);
}

/* ---- Passes ---- */

/* Number `at` of the source or target: `part` 0 is the real one. */
static void add_number(flxi_strbuf *out, char letter, flxi_fourier_form form, int part, const char *at)
{
    if (form == FLXI_FORM_PARTS)
        flxi_addf(out, "%c%s[%s]", letter, part ? "i" : "", at);
    else
        flxi_addf(out, "%c[2 * (%s) + %d]", letter, at, form == FLXI_FORM_PAIRS ? part : 1 - part);
}

static void add_numbers(const pass *p, flxi_strbuf *out)
{
    char at[64];
    for (int k = 0; k < p->radix; k++) {
        snprintf(at, sizeof at, k ? "q + %d * far" : "q", k);
        indent(out, 3);
        flxi_addf(out, "const %s r%d = ", p->type, k);
        add_number(out, 'x', p->from, 0, at);
        flxi_addf(out, ", i%d = ", k);
        add_number(out, 'x', p->from, 1, at);
        flxi_add_text(out, ";\n");
    }
}

/* Result `j`, a number or a name, with its factor, to where it belongs; results are %s after a letter. */
static void add_result(const pass *p, flxi_strbuf *out, const char *j, const char *result, bool is_first)
{
    char at[64], factor[2][64];
    if (p->kind == PASS_FIRST)
        snprintf(at, sizeof at, "%d * q + %s", p->radix, j);
    else
        snprintf(at, sizeof at, is_first ? "q" : "q + %s * stride", j);
    for (int part = 0; part < 2; part++)
        if (p->kind == PASS_FIRST)
            snprintf(factor[part], sizeof factor[part], "w[q + (2 * %s - %d) * far]", j, 2 - part);
        else
            snprintf(factor[part], sizeof factor[part], "w[2 * %s - %d]", j, 2 - part);
    for (int part = 0; part < 2; part++) {
        indent(out, 3);
        add_number(out, 'y', p->to, part, at);
        if (p->kind == PASS_LAST)
            flxi_addf(out, " = %c%s%s;\n", "st"[part], result, p -> has_scale ? " * scale" : "");
        else if (is_first)
            flxi_addf(out, " = %c%s;\n", "st"[part], result);
        else
            flxi_addf(out, " = s%s * %s %c t%s * %s;\n", result, factor[part], "-+"[part], result, factor[1 - part]);
    }
}

static bool is_fixed(const pass *p)
{
    return p->kind == PASS_LATER && p->stride <= MOST_FIXED_STRIDE;
}

static void add_head(const pass *p, flxi_strbuf *out)
{
    const char *t = p->type;
    flxi_addf(out, "static void NAME_(const %s *x, ", t);
    if (p->from == FLXI_FORM_PARTS)
        flxi_addf(out, "const %s *xi, ", t);
    flxi_addf(out, "%s *restrict y, ", t);
    if (p->to == FLXI_FORM_PARTS)
        flxi_addf(out, "%s *restrict yi, ", t);
    if (p->kind != PASS_LAST)
        flxi_addf(out, "const %s *w, ", t);
    if (!is_written_out(p->radix))
        flxi_addf(out, "const %s *root, ", t);
    flxi_add_text(out, "int64_t length");
    flxi_add_text(out, p->kind == PASS_LATER && !is_fixed(p) ? ", int64_t stride" : "");
    if (p->has_scale)
        flxi_addf(out, ", %s scale", t);
    flxi_add_text(out, ")\n{\n");
}

/* The loops over groups, if there are any, and numbers: q. */
static void open_loops(const pass *p, flxi_strbuf *out)
{
    flxi_addf(out, "    const int64_t far = length / %d", p->radix);
    flxi_add_text(out, p->kind == PASS_LAST ? ", stride = far;\n" : ";\n");
    if (is_fixed(p))
        flxi_addf(out, "    enum { stride = %d };\n", (int)p->stride);
    if (p->kind != PASS_LATER) {
        flxi_add_text(out, "    for (int64_t q = 0; q < far; q++) {\n");
        return;
    }
    flxi_add_text(out, "    for (int64_t p = 0; p < far; p += stride) {\n");
    flxi_add_text(out, "        for (int64_t q = 0; q < stride; q++) {\n");
}

static void close_loops(const pass *p, flxi_strbuf *out)
{
    if (p->kind == PASS_LATER) {
        flxi_addf(out, "        }\n        x += stride;\n        xi += stride;\n        y += %d * stride;\n", p->radix);
        flxi_addf(out, "        yi += %d * stride;\n        w += %d;\n", p->radix, 2 * (p->radix - 1));
    }
    flxi_add_text(out, "    }\n}\n");
}

static const char *static_of(flxi_sa_writer *w, const char *from, const char *type, const char *wanted,
                             const char *comment)
{
    flxi_strbuf text;
    flxi_strbuf_init(&text, w->f->mem);
    for (; *from; from++)
        if (*from == '$')
            flxi_add_text(&text, type);
        else
            flxi_add_char(&text, *from);
    const char *name = flxi_sa_static_of(w->f, &text, &text, wanted, comment);
    flxi_strbuf_free(&text);
    return name;
}

static const char odd_turn[] = "static void NAME_($ *r, $ *i, int radix, const $ *root)\n"
                               "{\n"
                               "    $ s[31], t[31];\n"
                               "    const int half = radix / 2;\n"
                               "    s[0] = r[0];\n"
                               "    t[0] = i[0];\n"
                               "    for (int k = 1; k <= half; k++) {\n"
                               "        const $ ar = r[k] + r[radix - k], ai = i[k] + i[radix - k];\n"
                               "        r[radix - k] = r[k] - r[radix - k];\n"
                               "        i[radix - k] = i[k] - i[radix - k];\n"
                               "        r[k] = ar;\n"
                               "        i[k] = ai;\n"
                               "        s[0] += ar;\n"
                               "        t[0] += ai;\n"
                               "    }\n"
                               "    for (int j = 1; j <= half; j++) {\n"
                               "        const $ *w = root + 2 * j;\n"
                               "        $ ar = r[0] + r[1] * w[0], ai = i[0] + i[1] * w[0];\n"
                               "        $ br = r[radix - 1] * w[1], bi = i[radix - 1] * w[1];\n"
                               "        for (int k = 2; k <= half; k++) {\n"
                               "            w = root + 2 * (j * k % radix);\n"
                               "            ar += r[k] * w[0];\n"
                               "            ai += i[k] * w[0];\n"
                               "            br += r[radix - k] * w[1];\n"
                               "            bi += i[radix - k] * w[1];\n"
                               "        }\n"
                               "        s[j] = ar - bi;\n"
                               "        t[j] = ai + br;\n"
                               "        s[radix - j] = ar + bi;\n"
                               "        t[radix - j] = ai - br;\n"
                               "    }\n"
                               "    memcpy(r, s, (size_t)radix * sizeof *r);\n"
                               "    memcpy(i, t, (size_t)radix * sizeof *i);\n"
                               "}\n";

/* A radix that is not written out: numbers are in arrays. */
static void add_odd(const pass *p, flxi_strbuf *out)
{
    const char *turn =
        static_of(p->w, odd_turn, p->type, "turn_odd", "A transform of an odd length up to 31, in place.");
    flxi_addf(out, "            %s s[%d], t[%d];\n", p->type, p->radix, p->radix);
    flxi_addf(out, "            for (int k = 0; k < %d; k++) {\n                s[k] = ", p->radix);
    add_number(out, 'x', p->from, 0, "q + k * far");
    flxi_add_text(out, ";\n                t[k] = ");
    add_number(out, 'x', p->from, 1, "q + k * far");
    flxi_addf(out, ";\n            }\n            %s(s, t, %d, root);\n", turn, p->radix);
    if (p->kind != PASS_LAST)
        add_result(p, out, "0", "[0]", true);
    flxi_addf(out, "            for (int j = %d; j < %d; j++) {\n", p->kind != PASS_LAST, p->radix);
    add_result(p, out, "j", "[j]", false);
    flxi_add_text(out, "            }\n");
}

static void add_written_out(const pass *p, flxi_strbuf *out)
{
    char j[16];
    add_numbers(p, out);
    add_turns(out, p->radix, p->type);
    for (int k = 0; k < p->radix; k++) {
        snprintf(j, sizeof j, "%d", k);
        add_result(p, out, j, j, k == 0);
    }
}

static const char *pass_function(const pass *p)
{
    static const char *const kinds[] = {"first", "later", "last"};
    static const char *const forms[] = {"", "_pairs", "_swapped"};
    flxi_sa_writer *w = p->w;
    flxi_strbuf out;
    flxi_strbuf_init(&out, w->f->mem);
    add_head(p, &out);
    open_loops(p, &out);
    (is_written_out(p->radix) ? add_written_out : add_odd)(p, &out);
    close_loops(p, &out);
    const char *wanted = flxi_sa_print(w, "%s_pass_%d%s%s", kinds[p->kind], p->radix, forms[p->from], forms[p->to]);
    const char *name =
        flxi_sa_static_of(w->f, &out, &out, wanted, flxi_sa_print(w, "A pass of a transform, of radix %d.", p->radix));
    flxi_strbuf_free(&out);
    return name;
}

/* ---- Transforms ---- */

static const char *signal_text(flxi_sa_writer *w, const flxi_sa_signal *s)
{
    return s->form == FLXI_FORM_PARTS ? flxi_sa_print(w, "%s, %s", s->re, s->im) : s->re;
}

/* A transform of one number. */
static void write_copy(flxi_sa_writer *w, const flxi_sa_signal *from, const flxi_sa_signal *to, const char *scale)
{
    const flxi_sa_signal *const s[2] = {to, from};
    const char *at[2][2];
    for (int k = 0; k < 2; k++)
        for (int part = 0; part < 2; part++)
            at[k][part] = s[k]->form == FLXI_FORM_PARTS
                              ? flxi_sa_print(w, "(%s)[0]", part ? s[k]->im : s[k]->re)
                              : flxi_sa_print(w, "(%s)[%d]", s[k]->re, s[k]->form == FLXI_FORM_PAIRS ? part : 1 - part);
    for (int part = 0; part < 2; part++)
        flxi_sa_line(w, "%s = %s%s%s;", at[0][part], at[1][part], scale ? " * " : "", scale ? scale : "");
}

static int64_t factor_count(int radix, int64_t groups)
{
    return groups == 1 ? 0 : 2 * (radix - 1) * groups;
}

static int64_t root_count(int radix)
{
    return is_written_out(radix) ? 0 : 2 * radix;
}

/* " + 12", or nothing. */
static const char *after(flxi_sa_writer *w, const char *text, int64_t at)
{
    return at ? flxi_sa_print(w, "%s + %lld", text, (long long)at) : text;
}

static void write_pass(flxi_sa_writer *w, pass *p, const char *table, int64_t at, int64_t groups, int64_t length,
                       const char *signals, const char *scale)
{
    const char *text = signals;
    if (p->kind != PASS_LAST)
        text = flxi_sa_print(w, "%s, %s", text, after(w, table, at));
    if (!is_written_out(p->radix))
        text = flxi_sa_print(w, "%s, %s", text, after(w, table, at + factor_count(p->radix, groups)));
    text = flxi_sa_print(w, "%s, %lld", text, (long long)length);
    if (p->kind == PASS_LATER && !is_fixed(p))
        text = flxi_sa_print(w, "%s, %lld", text, (long long)p->stride);
    p->has_scale = p->kind == PASS_LAST && scale;
    flxi_sa_line(w, "%s(%s%s%s);", pass_function(p), text, p->has_scale ? ", " : "", p->has_scale ? scale : "");
}

void flxi_sa_transform(flxi_sa_writer *w, const flxi_fourier *plan, const char *type, const char *table,
                       flxi_sa_signal from, flxi_sa_signal to, const char *scale)
{
    int64_t n = plan->inner, groups = n, stride = 1, at = 0;
    const flxi_sa_signal buffers[2] = {{FLXI_FORM_PARTS, "x", after(w, "x", n + FLXI_SA_APART)},
                                       {FLXI_FORM_PARTS, "y", after(w, "y", n + FLXI_SA_APART)}};
    if (plan->passes == 0)
        write_copy(w, &from, &to, scale);
    for (int i = 0; i < plan->passes; i++) {
        bool is_last = i + 1 == plan->passes;
        const flxi_sa_signal *target = is_last ? &to : &buffers[i % 2];
        pass p = {
            .w = w, .type = type, .radix = plan->radix[i], .from = from.form, .to = target->form, .stride = stride};
        p.kind = is_last ? PASS_LAST : i == 0 ? PASS_FIRST : PASS_LATER;
        groups /= p.radix;
        write_pass(w, &p, table, at, groups, n,
                   flxi_sa_print(w, "%s, %s", signal_text(w, &from), signal_text(w, target)), scale);
        at += factor_count(p.radix, groups) + root_count(p.radix);
        stride *= p.radix;
        from = *target;
    }
}

/* ---- Other functions ---- */

static const char multiply[] = "static void NAME_($ *restrict re, $ *restrict im, const $ *z, int64_t n)\n"
                               "{\n"
                               "    for (int64_t k = 0; k < n; k++) {\n"
                               "        const $ a = re[k], b = im[k];\n"
                               "        re[k] = a * z[k] - b * z[n + k];\n"
                               "        im[k] = a * z[n + k] + b * z[k];\n"
                               "    }\n"
                               "}\n";

/* @ is the step of the bins; low and high are bins k and h - k, of which the two in the middle may be one. */
static const char bins[] =
    "static void NAME_(const $ *re, const $ *im, const $ *root, $ *restrict low, $ *restrict lowi,\n"
    "                  $ *restrict high, $ *restrict highi, int64_t h, $ scale)\n"
    "{\n"
    "    const $ *rooti = root + h / 2 + 1;\n"
    "    const int64_t half = (h + 1) / 2;\n"
    "    for (int64_t k = 1; k < half; k++) {\n"
    "        const $ er = re[k] + re[h - k], ei = im[k] - im[h - k], dr = im[k] + im[h - k], di = re[h - k] - re[k];\n"
    "        const $ tr = dr * root[k] - di * rooti[k], ti = dr * rooti[k] + di * root[k];\n"
    "        low[@ * k] = (er + tr) * scale;\n"
    "        lowi[@ * k] = (ei + ti) * scale;\n"
    "        high[-@ * k] = (er - tr) * scale;\n"
    "        highi[-@ * k] = (ti - ei) * scale;\n"
    "    }\n"
    "    if (h > 1 && h % 2 == 0) {\n"
    "        const $ er = re[half] + re[half], ei = im[half] - im[half], dr = im[half] + im[half];\n"
    "        const $ di = re[half] - re[half];\n"
    "        const $ tr = dr * root[half] - di * rooti[half], ti = dr * rooti[half] + di * root[half];\n"
    "        low[@ * half] = (er - tr) * scale;\n"
    "        lowi[@ * half] = (ti - ei) * scale;\n"
    "    }\n"
    "}\n";

static const char back[] =
    "static void NAME_(const $ *xr, const $ *xi, const $ *root, $ *restrict low, $ *restrict lowi,\n"
    "                  $ *restrict top, $ *restrict topi, int64_t h)\n"
    "{\n"
    "    const $ *rooti = root + h / 2 + 1, *high = xr + @ * h, *highi = xi + @ * h;\n"
    "    const int64_t half = (h + 1) / 2;\n"
    "    for (int64_t k = 1; k < half; k++) {\n"
    "        const $ er = xr[@ * k] + high[-@ * k], ei = xi[@ * k] - highi[-@ * k];\n"
    "        const $ dr = xr[@ * k] - high[-@ * k], di = xi[@ * k] + highi[-@ * k];\n"
    "        const $ tr = dr * root[k] + di * rooti[k], ti = di * root[k] - dr * rooti[k];\n"
    "        low[k] = er - ti;\n"
    "        lowi[k] = ei + tr;\n"
    "        top[-k] = er + ti;\n"
    "        topi[-k] = tr - ei;\n"
    "    }\n"
    "    if (h > 1 && h % 2 == 0) {\n"
    "        const $ a = xr[@ * half], b = xi[@ * half];\n"
    "        const $ er = a + a, ei = b - b, dr = a - a, di = b + b;\n"
    "        const $ tr = dr * root[half] + di * rooti[half], ti = di * root[half] - dr * rooti[half];\n"
    "        low[half] = er + ti;\n"
    "        lowi[half] = tr - ei;\n"
    "    }\n"
    "}\n";

static const char one_root[] =
    "static void NAME_(int64_t k, int64_t n, double *z)\n"
    "{\n"
    "    const int64_t eighth = 8 * k / n, rest = eighth % 2 ? (eighth + 1) * n - 8 * k : 8 * k - eighth * n;\n"
    "    const double angle = 0.78539816339744830962 * ((double)rest / (double)n);\n"
    "    const double c = cos(angle), s = sin(angle), re = (eighth + 1) / 2 % 2 ? s : c;\n"
    "    const double im = (eighth + 1) / 2 % 2 ? c : s;\n"
    "    z[0] = eighth > 1 && eighth < 6 ? -re : re;\n"
    "    z[1] = eighth < 4 ? -im : im;\n"
    "}\n";

static const char roots[] = "static void NAME_(int64_t n, int64_t count, $ *z)\n"
                            "{\n"
                            "    for (int64_t k = 0; k < count; k++) {\n"
                            "        double root[2];\n"
                            "        @(k, n, root);\n"
                            "        z[k] = ($)root[0];\n"
                            "        z[count + k] = ($)root[1];\n"
                            "    }\n"
                            "}\n";

static const char factors[] =
    "static void NAME_(int64_t length, int radix, int64_t groups, int64_t group, int64_t factor, $ *z)\n"
    "{\n"
    "    for (int64_t p = 0; p < groups; p++)\n"
    "        for (int64_t j = 1; j < radix; j++) {\n"
    "            double root[2];\n"
    "            @(p * j, length, root);\n"
    "            z[p * group + (2 * j - 2) * factor] = ($)root[0];\n"
    "            z[p * group + (2 * j - 1) * factor] = ($)root[1];\n"
    "        }\n"
    "}\n";

/* The text with `word` for @. */
static const char *with_word(flxi_sa_writer *w, const char *from, const char *word)
{
    flxi_strbuf text;
    flxi_strbuf_init(&text, w->f->mem);
    for (; *from; from++)
        if (*from == '@')
            flxi_add_text(&text, word);
        else
            flxi_add_char(&text, *from);
    const char *kept = text.at ? flxi_arena_text(&w->f->arena, text.at, text.n) : NULL;
    w->f->failed |= text.failed || !kept;
    flxi_strbuf_free(&text);
    return kept ? kept : "";
}

static const char *root_function(flxi_sa_writer *w)
{
    return static_of(w, one_root, "double", "root_of_unity",
                     "exp(-2 pi i k / n), from an angle of at most an eighth of a circle.");
}

const char *flxi_sa_fourier(flxi_sa_writer *w, flxi_sa_fourier_function which, const char *type)
{
    const char *const to_bins = "Bins of a real signal from the transform of its pairs.";
    const char *const from_bins = "Twice the transform of the pairs of a real signal, from its bins.";
    switch (which) {
    case SA_MULTIPLY: return static_of(w, multiply, type, "multiply", "Numbers times factors.");
    case SA_BINS: return static_of(w, with_word(w, bins, "1"), type, "bins", to_bins);
    case SA_BINS_AS_PAIRS: return static_of(w, with_word(w, bins, "2"), type, "bins_as_pairs", to_bins);
    case SA_SIGNAL: return static_of(w, with_word(w, back, "1"), type, "pairs_of_bins", from_bins);
    case SA_SIGNAL_OF_PAIRS: return static_of(w, with_word(w, back, "2"), type, "pairs_of_paired_bins", from_bins);
    case SA_ROOTS: break;
    }
    return static_of(w, with_word(w, roots, root_function(w)), type, "roots", "Powers of a root of unity.");
}

/* ---- Tables ---- */

int64_t flxi_sa_fourier_passes_end(const flxi_fourier *plan)
{
    int64_t groups = plan->inner, count = 0;
    for (int i = 0; i < plan->passes; i++) {
        groups /= plan->radix[i];
        count += factor_count(plan->radix[i], groups) + root_count(plan->radix[i]);
    }
    return count;
}

int64_t flxi_sa_fourier_roots_at(const flxi_sa_fourier_table *t)
{
    return flxi_sa_fourier_passes_end(&t->plan) + (t->plan.is_chirp ? 2 * (t->plan.inner + t->plan.n) : 0);
}

int64_t flxi_sa_fourier_numbers(const flxi_sa_fourier_table *t)
{
    return flxi_sa_fourier_roots_at(t) + 2 * t->roots;
}

/* As the function root_of_unity() of the file. */
static void find_root(int64_t k, int64_t n, double *z)
{
    int64_t eighth = 8 * k / n, rest = eighth % 2 ? (eighth + 1) * n - 8 * k : 8 * k - eighth * n;
    double angle = 0.78539816339744830962 * ((double)rest / (double)n);
    double c = cos(angle), s = sin(angle);
    bool swaps = (eighth + 1) / 2 % 2;
    z[0] = (swaps ? s : c) * (eighth > 1 && eighth < 6 ? -1 : 1);
    z[1] = (swaps ? c : s) * (eighth < 4 ? -1 : 1);
}

/* Numbers of the first pass's factors are apart by groups, those of the others by nothing. */
static void fill_passes(const flxi_fourier *plan, double *z)
{
    int64_t groups = plan->inner;
    for (int i = 0; i < plan->passes; i++) {
        int64_t r = plan->radix[i], length = groups;
        groups /= r;
        int64_t group = i ? 2 * (r - 1) : 1, factor = i ? 1 : groups;
        for (int64_t p = 0; groups > 1 && p < groups; p++)
            for (int64_t j = 1; j < r; j++) {
                double root[2];
                find_root(p * j, length, root);
                z[p * group + (2 * j - 2) * factor] = root[0];
                z[p * group + (2 * j - 1) * factor] = root[1];
            }
        z += factor_count((int)r, groups);
        for (int64_t j = 0; j < root_count((int)r) / 2; j++, z += 2)
            find_root(j, r, z);
    }
}

/* The filter and the chirp are the library's: they are transforms themselves. */
static bool fill_chirp(flxi_sa_writer *w, const flxi_fourier *plan, double *z)
{
    size_t count = flxi_fourier_table_count(plan), own = 2 * (size_t)(plan->inner + plan->n);
    double *all = flxi_new(&w->f->arena, double, count);
    flx_error err = {0};
    if (!all || flxi_fourier_fill(plan, FLX_F64, all, w->f->mem, &err) != FLX_OK)
        return false;
    memcpy(z, all + count - own, own * sizeof *z);
    return true;
}

const char *flxi_sa_fourier_constant(flxi_sa_writer *w, const flxi_sa_fourier_table *t, bool is_wide)
{
    int64_t count = flxi_sa_fourier_numbers(t);
    flx_type type = flx_type_make(is_wide ? FLX_F64 : FLX_F32, 1, &count);
    double *wide = flxi_new(&w->f->arena, double, (size_t)count);
    float *narrow = flxi_new(&w->f->arena, float, (size_t)count);
    bool is_there = wide && narrow;
    if (is_there)
        fill_passes(&t->plan, wide);
    if (is_there && t->plan.is_chirp)
        is_there = fill_chirp(w, &t->plan, wide + flxi_sa_fourier_passes_end(&t->plan));
    w->f->failed |= !is_there;
    if (!is_there)
        return "";
    double *powers = wide + flxi_sa_fourier_roots_at(t);
    for (int64_t k = 0; k < t->roots; k++) {
        double root[2];
        find_root(k, t->roots_of, root);
        powers[k] = root[0];
        powers[t->roots + k] = root[1];
    }
    for (int64_t k = 0; k < count; k++)
        narrow[k] = (float)wide[k];
    return flxi_sa_constant_of(w->f, is_wide ? (const void *)wide : narrow, &type, "roots");
}

void flxi_sa_fourier_fill(flxi_sa_writer *w, const flxi_sa_fourier_table *t, const char *type)
{
    const char *fill = static_of(w, with_word(w, factors, root_function(w)), type, "factors",
                                 "Factors of a pass: of all groups, for each number but the first.");
    long long groups = (long long)t->plan.inner, at = 0;
    for (int i = 0; i < t->plan.passes; i++) {
        int r = t->plan.radix[i];
        groups /= r;
        if (groups > 1)
            flxi_sa_line(w, "%s(%lld, %d, %lld, %d, %lld, %s);", fill, groups * r, r, groups, i ? 2 * (r - 1) : 1,
                         i ? 1 : groups, after(w, "table", at));
        at += factor_count(r, groups);
        if (root_count(r))
            flxi_sa_line(w, "%s(%d, 2, %d, 2, 1, %s);", fill, r, r, after(w, "table", at));
        at += root_count(r);
    }
    if (t->roots)
        flxi_sa_line(w, "%s(%lld, %lld, %s);", flxi_sa_fourier(w, SA_ROOTS, type), (long long)t->roots_of,
                     (long long)t->roots, after(w, "table", at));
}
