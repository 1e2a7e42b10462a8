/* SPDX-License-Identifier: Apache-2.0 */
/* symbolic_fit.c: polynomials through samples. Coefficients are found in long double and rounded; all samples, more
   than there are coefficients, must then have exactly the polynomial's values. */
#include "standalone/symbolic/symbolic.h"

#include <math.h>

/* Powers of the two extents, by term. */
static const int powers[FLXI_SA_MAX_TERMS][2] = {{0, 0}, {1, 0}, {2, 0}, {3, 0}, {0, 1},
                                                 {1, 1}, {0, 2}, {2, 1}, {1, 2}, {0, 3}};

static size_t terms_of(const flxi_sa_points *p)
{
    return p->num_symbols == 1 ? 4 : FLXI_SA_MAX_TERMS;
}

void flxi_sa_points_init(flxi_sa_points *p, int shift)
{
    static const int64_t first[FLXI_SA_MAX_SAMPLES] = {137, 146, 163, 178, 193, 218, 239,
                                                       139, 158, 173, 194, 199, 214, 251};
    static const int64_t second[FLXI_SA_MAX_SAMPLES] = {179, 134, 241, 166, 229, 142, 197,
                                                        206, 167, 254, 157, 202, 149, 226};
    p->n = p->num_symbols == 1 ? 7 : FLXI_SA_MAX_SAMPLES - FLXI_SA_MAX_ADDED;
    for (size_t i = 0; i < p->n; i++) {
        p->at[i][0] = first[i] + shift;
        p->at[i][1] = second[i] + shift;
    }
}

static bool power_of(const int64_t *extents, size_t term, int64_t *out)
{
    *out = 1;
    for (int s = 0; s < 2; s++)
        for (int k = 0; k < powers[term][s]; k++)
            if (__builtin_mul_overflow(*out, extents[s], out))
                return false;
    return true;
}

bool flxi_sa_poly_has(const flxi_sa_poly *f, size_t symbol)
{
    for (size_t t = 0; t < FLXI_SA_MAX_TERMS; t++)
        if (f->c[t] && powers[t][symbol])
            return true;
    return false;
}

bool flxi_sa_poly_at(const flxi_sa_points *p, const flxi_sa_poly *f, const int64_t *extents, int64_t *out)
{
    *out = 0;
    for (size_t t = 0; t < terms_of(p); t++) {
        int64_t part;
        if (f->c[t] && (!power_of(extents, t, &part) || __builtin_mul_overflow(part, f->c[t], &part) ||
                        __builtin_add_overflow(*out, part, out)))
            return false;
    }
    return true;
}

/* The system of the first samples, one row for each: coefficients of terms, then the value. */
static void eliminate(long double a[FLXI_SA_MAX_TERMS][FLXI_SA_MAX_TERMS + 1], size_t n)
{
    for (size_t k = 0; k < n; k++) {
        size_t best = k;
        for (size_t i = k + 1; i < n; i++)
            best = fabsl(a[i][k]) > fabsl(a[best][k]) ? i : best;
        for (size_t j = 0; j <= n; j++) {
            long double t = a[k][j];
            a[k][j] = a[best][j];
            a[best][j] = t;
        }
        for (size_t i = 0; i < n && a[k][k] != 0; i++) {
            long double by = i == k ? 0 : a[i][k] / a[k][k];
            for (size_t j = k; j <= n && by != 0; j++)
                a[i][j] -= by * a[k][j];
        }
    }
}

bool flxi_sa_fit(const flxi_sa_points *p, const int64_t *values, flxi_sa_poly *out)
{
    long double a[FLXI_SA_MAX_TERMS][FLXI_SA_MAX_TERMS + 1];
    size_t n = terms_of(p);
    for (size_t i = 0; i < n; i++) {
        for (size_t t = 0; t < n; t++) {
            int64_t part;
            a[i][t] = power_of(p->at[i], t, &part) ? (long double)part : 0;
        }
        a[i][n] = (long double)values[i];
    }
    eliminate(a, n);
    *out = (flxi_sa_poly){0};
    for (size_t t = 0; t < n; t++) {
        long double c = a[t][t] != 0 ? a[t][n] / a[t][t] : 0;
        if (!(fabsl(c) < 1e15L))
            return false;
        out->c[t] = (int64_t)roundl(c);
    }
    for (size_t i = 0; i < p->n; i++) {
        int64_t value;
        if (!flxi_sa_poly_at(p, out, p->at[i], &value) || value != values[i])
            return false;
    }
    return true;
}

void flxi_sa_poly_raise(flxi_sa_poly *to, const flxi_sa_poly *f)
{
    for (size_t t = 0; t < FLXI_SA_MAX_TERMS; t++)
        to->c[t] = f->c[t] > to->c[t] ? f->c[t] : to->c[t];
}

flxi_sa_poly flxi_sa_poly_padded(flxi_sa_poly f)
{
    for (size_t t = 0; t < FLXI_SA_MAX_TERMS; t++)
        f.c[t] = f.c[t] > 0 ? (f.c[t] + 15) / 16 * 16 : f.c[t] / 16 * 16;
    return f;
}

void flxi_sa_poly_print(const flxi_sa_points *p, const flxi_sa_poly *f, flxi_strbuf *out)
{
    bool is_first = true;
    for (size_t t = terms_of(p); t-- > 0;) {
        if (!f->c[t])
            continue;
        int64_t size = f->c[t] < 0 ? -f->c[t] : f->c[t];
        flxi_add_text(out, is_first ? (f->c[t] < 0 ? "-" : "") : f->c[t] < 0 ? " - " : " + ");
        if (size != 1 || t == 0)
            flxi_addf(out, "%lld", (long long)size);
        const char *joint = size != 1 || t == 0 ? " * " : "";
        for (int s = 0; s < 2; s++)
            for (int k = 0; k < powers[t][s]; k++, joint = " * ")
                flxi_addf(out, "%s%s", joint, p->names[s]);
        is_first = false;
    }
    if (is_first)
        flxi_add_char(out, '0');
}
