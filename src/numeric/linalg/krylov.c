/* SPDX-License-Identifier: Apache-2.0 */
/* krylov.c: see krylov.h. Both methods restart with the true residual when their own estimate says that they are done:
   the estimate drifts from it by rounding, most of all where the operator computes in few bits. */
#include "numeric/linalg/krylov.h"

#include <math.h>

enum { RESTART = 64 };

/* In eight sums side by side, which are vectors to a compiler. */
static double dot(int64_t n, const double *x, const double *y)
{
    double part[8] = {0.0};
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int j = 0; j < 8; j++)
            part[j] += x[i + j] * y[i + j];
    for (int j = 0; i < n; i++, j++)
        part[j] += x[i] * y[i];
    for (int width = 4; width > 0; width /= 2)
        for (int j = 0; j < width; j++)
            part[j] += part[j + width];
    return part[0];
}

/* Scaled by the largest number where the squares would overflow or lose bits. */
double flxi_norm2(int64_t n, const double *x)
{
    double square = dot(n, x, x), largest = 0.0, sum = 0.0;
    if (square > 1e-270 && square < 1e300)
        return sqrt(square);
    for (int64_t i = 0; i < n; i++)
        largest = fabs(x[i]) > largest || isnan(x[i]) ? fabs(x[i]) : largest;
    if (largest == 0.0 || !isfinite(largest))
        return largest;
    for (int64_t i = 0; i < n; i++)
        sum += (x[i] / largest) * (x[i] / largest);
    return largest * sqrt(sum);
}

static void add_scaled(int64_t n, double *y, double by, const double *x)
{
    for (int64_t i = 0; i < n; i++)
        y[i] += by * x[i];
}

static int apply(flxi_krylov *k, double *x, double *y)
{
    k->iterations--;
    return k->apply(k->user, x, y);
}

/* r = b - A x; before the first product x is zero. */
static int residual(flxi_krylov *k, const double *b, double *x, double *r, bool is_first)
{
    int code = is_first ? 0 : apply(k, x, r);
    for (int64_t i = 0; i < k->n && code == 0; i++)
        r[i] = is_first ? b[i] : b[i] - r[i];
    return code;
}

/* ---- Rounds ---- */

/* One round improves x until its own estimate of the residual is below `enough`; r is the residual at the start. */
typedef int (*round_fn)(flxi_krylov *k, double *x, double *r, double enough, double *room);

/* Rounds until the true residual is small, or hardly becomes smaller any more. */
static int run_rounds(flxi_krylov *k, const double *b, double *x, round_fn run)
{
    double enough = k->tol * flxi_norm2(k->n, b);
    double before = INFINITY;
    double *r = k->room;
    int code = 0;
    for (int64_t i = 0; i < k->n; i++)
        x[i] = 0.0;
    k->solved = false;
    for (int i = 0; code == 0 && !k->solved; i++) {
        code = residual(k, b, x, r, i == 0);
        double size = flxi_norm2(k->n, r);
        k->solved = code == 0 && size <= enough;
        for (int64_t j = 0; j < k->n && !isfinite(size); j++)
            x[j] = NAN;
        if (code != 0 || k->solved || !(size <= 0.99 * before) || !isfinite(size) || k->iterations <= 0)
            break;
        before = size;
        code = run(k, x, r, enough, r + k->n);
    }
    return code;
}

/* ---- Conjugate gradients ---- */

static int cg_round(flxi_krylov *k, double *x, double *r, double enough, double *room)
{
    int64_t n = k->n;
    double *p = room;
    double *ap = room + n;
    double rr = dot(n, r, r);
    for (int64_t i = 0; i < n; i++)
        p[i] = r[i];
    while (k->iterations > 0 && flxi_norm2(n, r) > enough) {
        int code = apply(k, p, ap);
        double curvature = dot(n, p, ap);
        if (code != 0 || !(curvature > 0.0)) /* not positive definite, or rounding dominates */
            return code;
        double step = dot(n, p, r) / curvature; /* rr / curvature, except for the rounding of p */
        add_scaled(n, x, step, p);
        add_scaled(n, r, -step, ap);
        double next = dot(n, r, r);
        for (int64_t i = 0; i < n; i++)
            p[i] = r[i] + next / rr * p[i];
        rr = next;
    }
    return 0;
}

size_t flxi_cg_room(int64_t n)
{
    return 3 * (size_t)n;
}

int flxi_krylov_cg(flxi_krylov *k, const double *b, double *x)
{
    return run_rounds(k, b, x, cg_round);
}

/* ---- GMRES ---- */

static int64_t basis_size(int64_t n)
{
    return n < RESTART ? n : RESTART;
}

/* The least-squares problem of the basis, kept triangular by rotations: column j of h has j + 1 numbers. */
typedef struct {
    int64_t stride; /* from column to column of h */
    double *h, *c, *s, *g;
} triangle;

/* Orthogonalises column j of h against the basis, twice: a single pass leaves the rounding errors of cancellation. */
static void orthogonalise(int64_t n, const double *basis, int64_t j, double *w, double *h)
{
    for (int64_t i = 0; i <= j; i++)
        h[i] = 0.0;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t i = 0; i <= j; i++) {
            double part = dot(n, basis + i * n, w);
            h[i] += part;
            add_scaled(n, w, -part, basis + i * n);
        }
    h[j + 1] = flxi_norm2(n, w);
}

static void rotate_column(triangle *t, int64_t j)
{
    double *h = t->h + j * t->stride;
    for (int64_t i = 0; i < j; i++) {
        double upper = t->c[i] * h[i] + t->s[i] * h[i + 1];
        h[i + 1] = t->c[i] * h[i + 1] - t->s[i] * h[i];
        h[i] = upper;
    }
    double r = hypot(h[j], h[j + 1]);
    t->c[j] = r > 0.0 ? h[j] / r : 1.0;
    t->s[j] = r > 0.0 ? h[j + 1] / r : 0.0;
    h[j] = r;
    t->g[j + 1] = -t->s[j] * t->g[j];
    t->g[j] = t->c[j] * t->g[j];
}

/* x += basis y with T y = g; where a diagonal element vanishes (a singular operator), its coordinate is set to 0. */
static void add_solution(int64_t n, triangle *t, const double *basis, int64_t columns, double *x)
{
    for (int64_t j = columns - 1; j >= 0; j--) {
        const double *h = t->h + j * t->stride;
        double y = h[j] > 0.0 ? t->g[j] / h[j] : 0.0;
        for (int64_t i = 0; i < j; i++)
            t->g[i] -= h[i] * y;
        add_scaled(n, x, y, basis + j * n);
    }
}

static int grow_basis(flxi_krylov *k, triangle *t, double *basis, double enough, int64_t *columns)
{
    int64_t n = k->n;
    int64_t most = basis_size(n);
    for (int64_t j = 0; j < most && k->iterations > 0 && fabs(t->g[j]) > enough; j++) {
        double *w = basis + (j + 1) * n;
        double *h = t->h + j * t->stride;
        double before = t->g[j];
        int code = apply(k, basis + j * n, w);
        if (code != 0)
            return code;
        orthogonalise(n, basis, j, w, h);
        double size = h[j + 1];
        rotate_column(t, j);
        *columns = j + 1;
        if (!(size > 1e-15 * fabs(before)) || !(size > 0.0)) /* nothing new: the basis is closed */
            return 0;
        for (int64_t i = 0; i < n; i++)
            w[i] /= size;
    }
    return 0;
}

static int gmres_round(flxi_krylov *k, double *x, double *r, double enough, double *room)
{
    int64_t n = k->n, most = basis_size(n), columns = 0;
    double *after = room + (most + 1) * n;
    triangle t = {.stride = most + 1, .c = after, .s = after + most, .g = after + 2 * most, .h = after + 3 * most + 1};
    t.g[0] = flxi_norm2(n, r);
    for (int64_t i = 0; i < n; i++)
        room[i] = r[i] / t.g[0];
    int code = grow_basis(k, &t, room, enough, &columns);
    if (code == 0)
        add_solution(n, &t, room, columns, x);
    return code;
}

/* The residual, the basis and one vector more, and the least-squares problem. */
size_t flxi_gmres_room(int64_t n)
{
    size_t most = (size_t)basis_size(n);
    return (most + 2) * (size_t)n + most * (most + 1) + 3 * most + 1;
}

int flxi_krylov_gmres(flxi_krylov *k, const double *b, double *x)
{
    return run_rounds(k, b, x, gmres_round);
}
