/* SPDX-License-Identifier: Apache-2.0 */
/* matrix_exponential.c: see matrix_exponential.h. The matrix is scaled down by a power of two; then the diagonal Padé
   approximant of degree 13 is accurate to the last bit for norms up to 5.37 (Higham 2005), and is squared as often as
   the matrix was halved. */
#include "numeric/linalg/matrix_exponential.h"

#include "base/complex_arith.h"
#include "base/host/stop.h"

typedef double _Complex cplx;

/* Between sums of that many terms. */
static bool is_stopped_at(int64_t terms)
{
    return terms < 256 ? flxi_stopped_by_now() : flxi_stopped();
}

static void multiply(int64_t n, const cplx *a, const cplx *b, cplx *y)
{
    for (int64_t i = 0; i < n && !flxi_stopped_by_now(); i++)
        for (int64_t j = 0; j < n && !is_stopped_at(n); j++) {
            cplx sum = 0.0;
            for (int64_t k = 0; k < n; k++)
                sum += flxi_cmul(a[i * n + k], b[k * n + j]);
            y[i * n + j] = sum;
        }
}

/* c6 a6 + c4 a4 + c2 a2 + c0 I, the constant only where the caller requests it. */
static void combine(int64_t n, cplx *const powers[3], const double c[4], cplx *y)
{
    for (int64_t i = 0; i < n * n && !flxi_stopped_by_now(); i++) {
        y[i] = c[3] * powers[2][i] + c[2] * powers[1][i] + c[1] * powers[0][i];
        if (i % (n + 1) == 0)
            y[i] += c[0];
    }
}

/* The numerator's even and odd parts v and u: of x = a, p(x) = v + u and the denominator is v - u. */
static void pade_parts(int64_t n, const cplx *a, cplx *const powers[3], cplx *u, cplx *v, cplx *room)
{
    static const double b[14] = {64764752532480000.0,
                                 32382376266240000.0,
                                 7771770303897600.0,
                                 1187353796428800.0,
                                 129060195264000.0,
                                 10559470521600.0,
                                 670442572800.0,
                                 33522128640.0,
                                 1323241920.0,
                                 40840800.0,
                                 960960.0,
                                 16380.0,
                                 182.0,
                                 1.0};
    const double odd_high[4] = {0.0, b[9], b[11], b[13]};
    const double odd_low[4] = {b[1], b[3], b[5], b[7]};
    const double even_high[4] = {0.0, b[8], b[10], b[12]};
    const double even_low[4] = {b[0], b[2], b[4], b[6]};
    combine(n, powers, odd_high, v);
    multiply(n, powers[2], v, u);
    combine(n, powers, odd_low, v);
    for (int64_t i = 0; i < n * n && !flxi_stopped_by_now(); i++)
        room[i] = u[i] + v[i];
    multiply(n, a, room, u);
    combine(n, powers, even_high, room);
    multiply(n, powers[2], room, v);
    combine(n, powers, even_low, room);
    for (int64_t i = 0; i < n * n && !flxi_stopped_by_now(); i++)
        v[i] += room[i];
}

/* How often to halve: until the largest column sum is at most 5.37. Negative: an element is not finite. The sums are
   taken of smaller elements, so that they do not overflow. */
static int halvings(int64_t n, const cplx *a)
{
    enum { SMALLER = 128 };
    double most = 0.0;
    int exponent = 0;
    for (int64_t j = 0; j < n && !flxi_stopped(); j++) {
        double sum = 0.0;
        for (int64_t i = 0; i < n; i++) {
            cplx x = a[i * n + j];
            if (!isfinite(creal(x)) || !isfinite(cimag(x)))
                return -1;
            sum += cabs(flxi_cmake(ldexp(creal(x), -SMALLER), ldexp(cimag(x), -SMALLER)));
        }
        most = fmax(most, sum);
    }
    frexp(most / 5.371920351148152, &exponent);
    return exponent > -SMALLER && most > 0 ? exponent + SMALLER : 0;
}

/* ---- Squaring beyond the range of double ----

   e^A of a large A has elements that overflow. When they do between squarings, inf - inf and 0 inf become NaN also in
   elements that are finite, or infinite with a definite sign. Then the squarings are done with an exponent beside each
   element. */

typedef struct {
    cplx x;    /* of a magnitude from 1/2 to 2, or 0 */
    int64_t e; /* the element is x 2^e */
} wide;

static const int64_t largest_exponent = INT64_C(1) << 50;

static wide normalised(cplx x, int64_t e)
{
    int by = 0;
    double size = fmax(fabs(creal(x)), fabs(cimag(x)));
    if (size == 0 || e < -largest_exponent)
        return (wide){0.0, 0};
    frexp(size, &by);
    e = e > largest_exponent ? largest_exponent : e;
    return (wide){flxi_cmake(ldexp(creal(x), -by), ldexp(cimag(x), -by)), e + by};
}

static wide sum_of(wide a, wide b)
{
    if (creal(a.x) == 0 && cimag(a.x) == 0)
        return b;
    if (creal(b.x) == 0 && cimag(b.x) == 0)
        return a;
    wide high = a.e >= b.e ? a : b, low = a.e >= b.e ? b : a;
    int64_t apart = high.e - low.e;
    if (apart > 200)
        return high;
    cplx x = flxi_cmake(ldexp(creal(low.x), -(int)apart), ldexp(cimag(low.x), -(int)apart));
    return normalised(high.x + x, high.e);
}

static void square_wide(int64_t n, const wide *a, wide *y)
{
    for (int64_t i = 0; i < n && !flxi_stopped_by_now(); i++)
        for (int64_t j = 0; j < n && !is_stopped_at(n); j++) {
            wide sum = {0.0, 0};
            for (int64_t k = 0; k < n; k++) {
                const wide *l = &a[i * n + k], *r = &a[k * n + j];
                sum = sum_of(sum, normalised(flxi_cmul(l->x, r->x), l->e + r->e));
            }
            y[i * n + j] = sum;
        }
}

static double as_double(double x, int64_t e)
{
    int bounded = e > 4096 ? 4096 : e < -4096 ? -4096 : (int)e;
    return x == 0 ? x : ldexp(x, bounded);
}

/* m is squared `times` times; `room` is for two matrices of wide elements. */
static void square_often(int64_t n, cplx *m, int times, wide *room)
{
    wide *now = room, *next = room + n * n;
    for (int64_t i = 0; i < n * n && !flxi_stopped_by_now(); i++)
        now[i] = normalised(m[i], 0);
    for (int k = 0; k < times && !flxi_stopped(); k++) {
        square_wide(n, now, next);
        wide *t = now;
        now = next;
        next = t;
    }
    for (int64_t i = 0; i < n * n && !flxi_stopped_by_now(); i++)
        m[i] = flxi_cmake(as_double(creal(now[i].x), now[i].e), as_double(cimag(now[i].x), now[i].e));
}

static bool is_finite(int64_t n, const cplx *m)
{
    bool is = true;
    for (int64_t i = 0; i < n * n && !flxi_stopped_by_now(); i++)
        is = is && isfinite(creal(m[i])) && isfinite(cimag(m[i]));
    return is;
}

enum { MATRICES = 7 }; /* a, three powers, u, v, room; later the unsquared matrix, and two wide ones after it */
_Static_assert(2 * sizeof(wide) <= 4 * sizeof(cplx), "wide matrices fit where the powers are no longer needed");

size_t flxi_expm_room(int64_t n)
{
    return MATRICES * (size_t)n * (size_t)n;
}

void flxi_matrix_exponential(int64_t n, cplx *m, int64_t *pivots, flxi_solve_square solve)
{
    cplx *at[MATRICES];
    for (int i = 0; i < MATRICES; i++)
        at[i] = m + i * n * n;
    int times = halvings(n, m);
    for (int64_t i = 0; i < n * n && !flxi_stopped_by_now(); i++)
        m[i] = times < 0 ? flxi_cmake(NAN, NAN) : flxi_cmake(ldexp(creal(m[i]), -times), ldexp(cimag(m[i]), -times));
    if (times < 0)
        return;
    multiply(n, m, m, at[1]);
    multiply(n, at[1], at[1], at[2]);
    multiply(n, at[2], at[1], at[3]);
    pade_parts(n, m, at + 1, at[4], at[5], at[6]);
    if (flxi_stopped())
        return;
    for (int64_t i = 0; i < n * n && !flxi_stopped_by_now(); i++) {
        m[i] = at[5][i] + at[4][i];
        at[1][i] = at[5][i] - at[4][i];
    }
    solve(n, at[1], m, pivots);
    for (int64_t i = 0; i < n * n && !flxi_stopped_by_now(); i++)
        at[2][i] = m[i];
    for (int k = 0; k < times && !flxi_stopped(); k++) {
        multiply(n, m, m, at[1]);
        for (int64_t i = 0; i < n * n && !flxi_stopped_by_now(); i++)
            m[i] = at[1][i];
    }
    if (is_finite(n, m))
        return;
    for (int64_t i = 0; i < n * n && !flxi_stopped_by_now(); i++)
        m[i] = at[2][i];
    square_often(n, m, times, (wide *)(void *)at[3]);
}
