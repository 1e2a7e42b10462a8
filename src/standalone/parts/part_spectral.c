/* SPDX-License-Identifier: Apache-2.0 */
/* part_spectral.c: Fourier transforms of the last axis, for any length: one pass for each prime factor, each from one
   array to another so that results come out in order (Stockham). Everything is in double. Roots of unity are a
   constant; of long transforms, whose text would be too long, they are a table that each call makes. */
#include "numeric/fourier.h"
#include "standalone/parts/parts.h"

#include <math.h>

static int64_t length_of(const flx_type *t)
{
    int64_t last = t->dims[t->rank - 1];
    return flxi_is_complex(t->dtype) ? last : last / 2;
}

static const int64_t longest_constant = 8192;

/* Two arrays of numbers, and perhaps the table. */
size_t flxi_sa_fft_scratch(const flxi_device_node *n)
{
    int64_t length = length_of(n->in_types[0]);
    size_t arrays = length > longest_constant ? 3 : 2;
    return flxi_sa_count(n->in_types[0]) ? 2 * arrays * sizeof(double) * (size_t)length : 0;
}

/* exp(2πi k / n), or its conjugate, from an angle of at most π/4. */
static void find_root(int64_t k, int64_t n, bool is_conjugate, double *root)
{
    int64_t eighth = 8 * k / n, odd = eighth % 2, quarter = (eighth + 1) / 2 % 4;
    double turn = (double)(4 * k - (eighth + odd) / 2 * n) / (double)n * 1.5707963267948966;
    double c = cos(turn), s = sin(turn);
    const double re[4] = {c, -s, -c, s}, im[4] = {s, c, -s, -c};
    root[0] = re[quarter];
    root[1] = is_conjugate ? -im[quarter] : im[quarter];
}

static const char *constant_roots(flxi_sa_writer *w, int64_t n, bool inverse)
{
    flx_dim count = 2 * n;
    flx_type type = flx_type_make(FLX_F64, 1, &count);
    double *roots = flxi_new(&w->f->arena, double, 2 * n);
    if (!roots) {
        w->f->failed = true;
        return "";
    }
    for (int64_t k = 0; k < n; k++)
        find_root(k, n, !inverse, roots + 2 * k);
    return flxi_sa_constant_of(w->f, roots, &type, "roots");
}

static void write_roots(flxi_sa_writer *w, long long n, bool inverse)
{
    if (n <= longest_constant) {
        flxi_sa_line(w, "const double *const root = %s;", constant_roots(w, n, inverse));
        return;
    }
    flxi_sa_line(w, "double *const root = y + %lld;", 2 * n);
    flxi_sa_open(w, "for (int64_t k = 0; k < %lld; k++)", n);
    flxi_sa_line(w, "const double angle = 6.283185307179586 * (double)k / %lld.0;", n);
    flxi_sa_line(w, "root[2 * k] = cos(angle);");
    flxi_sa_line(w, "root[2 * k + 1] = %ssin(angle);", inverse ? "" : "-");
    flxi_sa_close(w);
}

static const char transform[] = "static double *NAME_(double *x, double *y, const double *root, int64_t length)\n"
                                "{\n"
                                "    int64_t step = 1;\n"
                                "    for (int64_t n = length; n > 1;) {\n"
                                "        int64_t p = 2;\n"
                                "        while (n % p != 0)\n"
                                "            p += p * p > n ? n - p : 1;\n"
                                "        const int64_t m = n / p;\n"
                                "        for (int64_t k = 0; k < m; k++)\n"
                                "            for (int64_t c = 0; c < p; c++)\n"
                                "                for (int64_t q = 0; q < step; q++) {\n"
                                "                    double re = 0, im = 0;\n"
                                "                    for (int64_t r = 0; r < p; r++) {\n"
                                "                        const double *a = x + 2 * (q + step * (k + m * r));\n"
                                "                        const double *w = root + 2 * (r * c % p * (length / p));\n"
                                "                        re += a[0] * w[0] - a[1] * w[1];\n"
                                "                        im += a[0] * w[1] + a[1] * w[0];\n"
                                "                    }\n"
                                "                    const double *w = root + 2 * (k * c * (length / n) % length);\n"
                                "                    double *b = y + 2 * (q + step * (p * k + c));\n"
                                "                    b[0] = re * w[0] - im * w[1];\n"
                                "                    b[1] = re * w[1] + im * w[0];\n"
                                "                }\n"
                                "        double *const other = x;\n"
                                "        x = y;\n"
                                "        y = other;\n"
                                "        step *= p;\n"
                                "        n = m;\n"
                                "    }\n"
                                "    return x;\n"
                                "}\n";

static const char *transform_function(flxi_sa_writer *w)
{
    flxi_strbuf text;
    flxi_strbuf_init(&text, w->f->mem);
    flxi_add_text(&text, transform);
    const char *name = flxi_sa_static_of(w->f, &text, &text, "fourier",
                                         "The discrete Fourier transform of x; it is in x or y, as the result says.");
    flxi_strbuf_free(&text);
    return name;
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
    const char *name = transform_function(w), *type = flxi_sa_type(t->dtype);
    int64_t norm = flxi_sa_int(w->n, "norm");
    flxi_sa_line(w, "double *const x = (double *)scratch, *const y = x + %lld;", 2 * n);
    write_roots(w, n, inverse);
    flxi_sa_open(w, "for (int64_t row = 0; row < %lld; row++)", rows);
    flxi_sa_open(w, "for (int64_t i = 0; i < %lld; i++)", n);
    flxi_sa_line(w, "x[2 * i] = x0[%s];", element_at(w, n, is_complex, 0));
    flxi_sa_line(w, "x[2 * i + 1] = x0[%s];", element_at(w, n, is_complex, 1));
    flxi_sa_close(w);
    flxi_sa_line(w, "const double *const z = %s(x, y, root, %lld);", name, n);
    flxi_sa_open(w, "for (int64_t i = 0; i < %lld; i++)", n);
    double scale = flxi_fourier_scale(norm, inverse, n);
    const char *factor = scale == 1                ? ""
                         : norm == FLXI_NORM_ORTHO ? flxi_sa_print(w, " / sqrt(%lld.0)", n)
                                                   : flxi_sa_print(w, " / %lld.0", n);
    flxi_sa_line(w, "y0[%s] = (%s)(z[2 * i]%s);", element_at(w, n, is_complex, 0), type, factor);
    flxi_sa_line(w, "y0[%s] = (%s)(z[2 * i + 1]%s);", element_at(w, n, is_complex, 1), type, factor);
    flxi_sa_close(w);
    flxi_sa_close(w);
}
