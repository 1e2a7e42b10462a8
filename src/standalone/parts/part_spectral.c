/* SPDX-License-Identifier: Apache-2.0 */
/* part_spectral.c: Fourier transforms of the last axis, for any length, in the precision of the operand: passes of
   radix 4 while that divides what is left, then one for each prime factor, each from one array to another so that
   results come out in order (Stockham). Real and imaginary parts are apart, so that compilers vectorise the passes.
   Roots of unity are a constant; of long transforms, whose text would be too long, they are a table that each call
   makes from products of few sines, in double. */
#include "numeric/fourier.h"
#include "standalone/parts/parts.h"

#include <math.h>

static int64_t length_of(const flx_type *t)
{
    int64_t last = t->dims[t->rank - 1];
    return flxi_is_complex(t->dtype) ? last : last / 2;
}

static bool is_wide(const flx_type *t)
{
    return t->dtype == FLX_F64 || t->dtype == FLX_C128;
}

static const int64_t longest_constant = 2048;

/* Two arrays of numbers, and perhaps the table. */
size_t flxi_sa_fft_scratch(const flxi_device_node *n)
{
    const flx_type *t = n->in_types[0];
    int64_t length = length_of(t);
    size_t arrays = length > longest_constant ? 3 : 2, size = is_wide(t) ? sizeof(double) : sizeof(float);
    return flxi_sa_count(t) ? 2 * arrays * size * (size_t)length : 0;
}

/* exp(2πi k / n), or its conjugate, from an angle of at most π/4. */
static void find_root(int64_t k, int64_t n, bool is_conjugate, double *re, double *im)
{
    int64_t eighth = 8 * k / n, odd = eighth % 2, quarter = (eighth + 1) / 2 % 4;
    double turn = (double)(4 * k - (eighth + odd) / 2 * n) / (double)n * 1.5707963267948966;
    double c = cos(turn), s = sin(turn);
    const double all_re[4] = {c, -s, -c, s}, all_im[4] = {s, c, -s, -c};
    *re = all_re[quarter];
    *im = is_conjugate ? -all_im[quarter] : all_im[quarter];
}

static const char *constant_roots(flxi_sa_writer *w, int64_t n, bool inverse, bool wide)
{
    flx_dim count = 2 * n;
    flx_type type = flx_type_make(wide ? FLX_F64 : FLX_F32, 1, &count);
    double *roots = flxi_new(&w->f->arena, double, 2 * n);
    float *narrow = flxi_new(&w->f->arena, float, 2 * n);
    if (!roots || !narrow) {
        w->f->failed = true;
        return "";
    }
    for (int64_t k = 0; k < n; k++)
        find_root(k, n, !inverse, &roots[k], &roots[n + k]);
    for (int64_t k = 0; k < 2 * n; k++)
        narrow[k] = (float)roots[k];
    return flxi_sa_constant_of(w->f, wide ? (const void *)roots : narrow, &type, "roots");
}

/* $ is the type of numbers. */
static const char table[] = "static void NAME_($ *re, $ *im, int64_t n, double turn)\n"
                            "{\n"
                            "    double fine_re[64], fine_im[64];\n"
                            "    for (int j = 0; j < 64; j++) {\n"
                            "        fine_re[j] = cos(turn * j);\n"
                            "        fine_im[j] = sin(turn * j);\n"
                            "    }\n"
                            "    for (int64_t k = 0; k < n; k += 64) {\n"
                            "        const double c = cos(turn * (double)k), s = sin(turn * (double)k);\n"
                            "        for (int64_t j = 0; j < 64 && k + j < n; j++) {\n"
                            "            re[k + j] = ($)(c * fine_re[j] - s * fine_im[j]);\n"
                            "            im[k + j] = ($)(c * fine_im[j] + s * fine_re[j]);\n"
                            "        }\n"
                            "    }\n"
                            "}\n";

/* The first pass runs along groups, where numbers are neighbours; its other factors are powers of the first. */
static const char first_pass[] =
    "static void NAME_(const $ *x, $ *restrict y, const $ *root, int64_t length)\n"
    "{\n"
    "    const int64_t m = length / 4;\n"
    "    const $ *xi = x + length, turn = root[length + m];\n"
    "    $ *restrict yi = y + length;\n"
    "    for (int64_t k = 0; k < m; k++) {\n"
    "        const $ w = root[k], v = root[length + k];\n"
    "        const $ w2 = w * w - v * v, v2 = 2 * w * v, w3 = w * w2 - v * v2, v3 = w * v2 + v * w2;\n"
    "        const $ sum = x[k] + x[k + 2 * m], sumi = xi[k] + xi[k + 2 * m];\n"
    "        const $ gap = x[k] - x[k + 2 * m], gapi = xi[k] - xi[k + 2 * m];\n"
    "        const $ odd = x[k + m] + x[k + 3 * m], oddi = xi[k + m] + xi[k + 3 * m];\n"
    "        const $ side = -turn * (xi[k + m] - xi[k + 3 * m]), sidei = turn * (x[k + m] - x[k + 3 * m]);\n"
    "        y[4 * k] = sum + odd;\n"
    "        yi[4 * k] = sumi + oddi;\n"
    "        y[4 * k + 1] = (gap + side) * w - (gapi + sidei) * v;\n"
    "        yi[4 * k + 1] = (gap + side) * v + (gapi + sidei) * w;\n"
    "        y[4 * k + 2] = (sum - odd) * w2 - (sumi - oddi) * v2;\n"
    "        yi[4 * k + 2] = (sum - odd) * v2 + (sumi - oddi) * w2;\n"
    "        y[4 * k + 3] = (gap - side) * w3 - (gapi - sidei) * v3;\n"
    "        yi[4 * k + 3] = (gap - side) * v3 + (gapi - sidei) * w3;\n"
    "    }\n"
    "}\n";

/* Later passes run along the numbers of a group, which are `step` many. */
static const char pass_of_four[] =
    "static void NAME_(const $ *x, $ *restrict y, const $ *root, int64_t length, int64_t step)\n"
    "{\n"
    "    const int64_t m = length / step / 4, far = length / 4;\n"
    "    const $ turn = root[length + far];\n"
    "    for (int64_t k = 0; k < m; k++) {\n"
    "        const $ *a = x + k * step, *ai = a + length, *w = root + k * step, *v = w + length;\n"
    "        const $ w1 = w[0], v1 = v[0], w2 = root[2 * k * step], v2 = root[length + 2 * k * step];\n"
    "        const $ w3 = root[3 * k * step], v3 = root[length + 3 * k * step];\n"
    "        $ *restrict b = y + 4 * k * step, *restrict bi = b + length;\n"
    "        for (int64_t q = 0; q < step; q++) {\n"
    "            const $ sum = a[q] + a[q + 2 * far], sumi = ai[q] + ai[q + 2 * far];\n"
    "            const $ gap = a[q] - a[q + 2 * far], gapi = ai[q] - ai[q + 2 * far];\n"
    "            const $ odd = a[q + far] + a[q + 3 * far], oddi = ai[q + far] + ai[q + 3 * far];\n"
    "            const $ side = -turn * (ai[q + far] - ai[q + 3 * far]);\n"
    "            const $ sidei = turn * (a[q + far] - a[q + 3 * far]);\n"
    "            b[q] = sum + odd;\n"
    "            bi[q] = sumi + oddi;\n"
    "            b[q + step] = (gap + side) * w1 - (gapi + sidei) * v1;\n"
    "            bi[q + step] = (gap + side) * v1 + (gapi + sidei) * w1;\n"
    "            b[q + 2 * step] = (sum - odd) * w2 - (sumi - oddi) * v2;\n"
    "            bi[q + 2 * step] = (sum - odd) * v2 + (sumi - oddi) * w2;\n"
    "            b[q + 3 * step] = (gap - side) * w3 - (gapi - sidei) * v3;\n"
    "            bi[q + 3 * step] = (gap - side) * v3 + (gapi - sidei) * w3;\n"
    "        }\n"
    "    }\n"
    "}\n";

static const char pass_of_prime[] =
    "static void NAME_(const $ *x, $ *restrict y, const $ *root, int64_t length, int64_t step, int64_t p)\n"
    "{\n"
    "    const int64_t m = length / step / p, far = length / p;\n"
    "    for (int64_t k = 0; k < m; k++)\n"
    "        for (int64_t c = 0; c < p; c++) {\n"
    "            $ *restrict b = y + (p * k + c) * step, *restrict bi = b + length;\n"
    "            for (int64_t q = 0; q < step; q++)\n"
    "                b[q] = bi[q] = 0;\n"
    "            for (int64_t r = 0; r < p; r++) {\n"
    "                const $ *a = x + k * step + r * far, *ai = a + length;\n"
    "                const int64_t at = (r * c % p * far + k * c * step) % length;\n"
    "                const $ w = root[at], v = root[length + at];\n"
    "                for (int64_t q = 0; q < step; q++) {\n"
    "                    b[q] += a[q] * w - ai[q] * v;\n"
    "                    bi[q] += a[q] * v + ai[q] * w;\n"
    "                }\n"
    "            }\n"
    "        }\n"
    "}\n";

/* A static function of a text with the type for $. */
static const char *function_of(flxi_sa_writer *w, const char *from, const char *type, const char *wanted,
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

static void write_roots(flxi_sa_writer *w, long long n, bool inverse, const char *type)
{
    if (n <= longest_constant) {
        flxi_sa_line(w, "const %s *const root = %s;", type, constant_roots(w, n, inverse, type[0] == 'd'));
        return;
    }
    flxi_sa_line(w, "%s *const root = (%s *)scratch + %lld;", type, type, 4 * n);
    flxi_sa_line(w, "%s(root, root + %lld, %lld, %s6.283185307179586 / %lld.0);",
                 function_of(w, table, type, "roots_of_unity", "Powers of a root of unity, exp(i k turn)."), n, n,
                 inverse ? "" : "-", n);
}

/* The passes, as calls: each from one of the two arrays to the other. The result is in the array that is returned. */
static const char *write_passes(flxi_sa_writer *w, int64_t length, const char *type)
{
    const char *from = "x", *to = "y";
    int64_t step = 1, rest = length;
    while (rest > 1) {
        int64_t p = rest % 4 == 0 ? 4 : 2;
        while (rest % p)
            p += p * p > rest ? rest - p : 1;
        if (p == 4 && step == 1)
            flxi_sa_line(w, "%s(%s, %s, root, %lld);",
                         function_of(w, first_pass, type, "first_pass", "The first pass of a transform, of radix 4."),
                         from, to, (long long)length);
        else if (p == 4)
            flxi_sa_line(w, "%s(%s, %s, root, %lld, %lld);",
                         function_of(w, pass_of_four, type, "pass_of_four", "A pass of a transform, of radix 4."), from,
                         to, (long long)length, (long long)step);
        else
            flxi_sa_line(w, "%s(%s, %s, root, %lld, %lld, %lld);",
                         function_of(w, pass_of_prime, type, "pass_of_prime", "A pass of a transform, of radix p."),
                         from, to, (long long)length, (long long)step, (long long)p);
        const char *other = from;
        from = to;
        to = other;
        step *= p;
        rest /= p;
    }
    return from;
}

/* The position of a part of number i of a row: the parts of real dtypes are apart. */
static const char *element_at(flxi_sa_writer *w, int64_t n, bool is_complex, int part)
{
    return is_complex ? flxi_sa_print(w, "2 * (row * %lld + i) + %d", (long long)n, part)
                      : flxi_sa_print(w, "row * %lld + i + %lld", (long long)(2 * n), (long long)(part * n));
}

void flxi_sa_fft(flxi_sa_writer *w)
{
    const flx_type *t = w->n->in_types[0];
    if (flxi_sa_count(t) == 0)
        return;
    bool is_complex = flxi_is_complex(t->dtype), inverse = flxi_sa_int(w->n, "inverse");
    long long n = (long long)length_of(t), rows = (long long)(flxi_sa_count(t) / t->dims[t->rank - 1]);
    const char *type = is_wide(t) ? "double" : "float";
    int64_t norm = flxi_sa_int(w->n, "norm");
    flxi_sa_line(w, "%s *const x = (%s *)scratch, *const y = x + %lld;", type, type, 2 * n);
    if (n > 1)
        write_roots(w, n, inverse, type);
    flxi_sa_open(w, "for (int64_t row = 0; row < %lld; row++)", rows);
    flxi_sa_open(w, "for (int64_t i = 0; i < %lld; i++)", n);
    flxi_sa_line(w, "x[i] = x0[%s];", element_at(w, n, is_complex, 0));
    flxi_sa_line(w, "x[i + %lld] = x0[%s];", n, element_at(w, n, is_complex, 1));
    flxi_sa_close(w);
    const char *z = write_passes(w, n, type);
    flxi_sa_open(w, "for (int64_t i = 0; i < %lld; i++)", n);
    double scale = flxi_fourier_scale(norm, inverse, n);
    const char *factor = scale == 1                ? ""
                         : norm == FLXI_NORM_ORTHO ? flxi_sa_print(w, " * (%s)%s", type, flxi_sa_real(w, scale))
                                                   : flxi_sa_print(w, " / %lld", n);
    flxi_sa_line(w, "y0[%s] = %s[i]%s;", element_at(w, n, is_complex, 0), z, factor);
    flxi_sa_line(w, "y0[%s] = %s[i + %lld]%s;", element_at(w, n, is_complex, 1), z, n, factor);
    flxi_sa_close(w);
    flxi_sa_close(w);
    if (n == 1)
        flxi_sa_line(w, "(void)y;");
}
