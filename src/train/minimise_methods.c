/* SPDX-License-Identifier: Apache-2.0 */
/* minimise_methods.c: L-BFGS, Newton's method in a trust region, and Gauss-Newton with damping. Each iterates until
   flxi_accept_point() says that it has ended, or no smaller value can be found. */
#include "train/minimise.h"

#include <math.h>

static void add_scaled(const flxi_minimising *m, double *y, double a, const double *x)
{
    for (size_t i = 0; i < m->n; i++)
        y[i] += a * x[i];
}

static flx_code no_memory(flxi_minimising *m)
{
    return flxi_oom(m->err, "a minimisation");
}

/* ---- Line search ---- */

/* A point on the line m->x + a p: its value, slope and gradient. */
typedef struct {
    double a, f, slope;
    double *x, *d;
} line_point;

static flx_code at_distance(flxi_minimising *m, const double *p, double a, line_point *out)
{
    out->a = a;
    memcpy(out->x, m->x, m->n * sizeof *m->x);
    add_scaled(m, out->x, a, p);
    FLXI_TRY(flxi_value_and_gradient(m, out->x, &out->f, out->d));
    out->slope = flxi_inner_product(m, out->d, p);
    return FLX_OK;
}

static void exchange(line_point *a, line_point *b)
{
    line_point t = *a;
    *a = *b;
    *b = t;
}

/* The minimum of the cubic through both points, if it is well inside; else the middle. */
static double cubic_minimum(const line_point *lo, const line_point *hi)
{
    double width = hi->a - lo->a, middle = lo->a + 0.5 * width;
    double d1 = lo->slope + hi->slope - 3 * (hi->f - lo->f) / width, root = d1 * d1 - lo->slope * hi->slope;
    if (!(root >= 0))
        return middle;
    double d2 = width > 0 ? sqrt(root) : -sqrt(root);
    double a = hi->a - width * (hi->slope + d2 - d1) / (hi->slope - lo->slope + 2 * d2);
    return fabs(a - middle) < 0.4 * fabs(width) ? a : middle;
}

static bool decreases_enough(const line_point *p, double f0, double slope0)
{
    return p->f <= f0 + 1e-4 * p->a * slope0;
}

static bool is_flat_enough(const line_point *p, double slope0)
{
    return fabs(p->slope) <= -0.9 * slope0;
}

/* Between lo, the best point so far, and hi (Nocedal and Wright, algorithm 3.6). */
static flx_code zoom(flxi_minimising *m, const double *p, double f0, double slope0, line_point *lo, line_point *hi,
                     line_point *try)
{
    for (int k = 0; k < 30; k++) {
        FLXI_TRY(at_distance(m, p, cubic_minimum(lo, hi), try));
        if (!decreases_enough(try, f0, slope0) || try->f >= lo->f) {
            exchange(hi, try);
            continue;
        }
        if (is_flat_enough(try, slope0)) {
            exchange(lo, try);
            return FLX_OK;
        }
        if (try->slope * (hi->a - lo->a) >= 0) {
            exchange(hi, lo);
        }
        exchange(lo, try);
    }
    return FLX_OK;
}

/* A point with the strong Wolfe conditions, in `lo`; lo->a is 0 when there is none. Points that are not finite count as
   too far. */
static flx_code search_line(flxi_minimising *m, const double *p, double a, line_point *lo, line_point *hi,
                            line_point *try)
{
    double f0 = m->f, slope0 = flxi_inner_product(m, m->d, p);
    lo->a = 0;
    lo->f = f0;
    lo->slope = slope0;
    memcpy(lo->x, m->x, m->n * sizeof *m->x);
    memcpy(lo->d, m->d, m->n * sizeof *m->d);
    for (int k = 0; k < 30; k++) {
        FLXI_TRY(at_distance(m, p, a, try));
        if (!isfinite(try->f) || !isfinite(try->slope)) {
            a = lo->a + 0.1 * (a - lo->a);
            continue;
        }
        if (!decreases_enough(try, f0, slope0) || (k && try->f >= lo->f)) {
            exchange(hi, try);
            return zoom(m, p, f0, slope0, lo, hi, try);
        }
        exchange(lo, try); /* try is now the point before */
        if (is_flat_enough(lo, slope0))
            return FLX_OK;
        if (lo->slope >= 0) {
            exchange(hi, try);
            return zoom(m, p, f0, slope0, lo, hi, try);
        }
        a = 2 * lo->a;
    }
    return FLX_OK;
}

/* ---- L-BFGS ---- */

typedef struct {
    double **s, **y, *rho, *alpha; /* a ring */
    size_t size, count, next;
} pair_history;

static flx_code make_history(flxi_minimising *m, pair_history *h)
{
    h->size = (size_t)m->o.history;
    h->s = flxi_new(&m->arena, double *, h->size);
    h->y = flxi_new(&m->arena, double *, h->size);
    h->rho = flxi_new(&m->arena, double, h->size);
    h->alpha = flxi_new(&m->arena, double, h->size);
    if (!h->s || !h->y || !h->rho || !h->alpha)
        return no_memory(m);
    for (size_t i = 0; i < h->size; i++)
        if (!(h->s[i] = flxi_new_vector(m)) || !(h->y[i] = flxi_new_vector(m)))
            return no_memory(m);
    return FLX_OK;
}

/* The pair number k, counted from the newest. */
static size_t pair_at(const pair_history *h, size_t k)
{
    return (h->next + 2 * h->size - 1 - k) % h->size;
}

/* p = -H d with the approximate inverse Hessian H (two loops). */
static void find_direction(flxi_minimising *m, pair_history *h, double *p)
{
    for (size_t i = 0; i < m->n; i++)
        p[i] = -m->d[i];
    for (size_t k = 0; k < h->count; k++) {
        size_t j = pair_at(h, k);
        h->alpha[j] = h->rho[j] * flxi_inner_product(m, h->s[j], p);
        add_scaled(m, p, -h->alpha[j], h->y[j]);
    }
    if (h->count) {
        size_t j = pair_at(h, 0);
        double scale = 1 / (h->rho[j] * flxi_inner_product(m, h->y[j], h->y[j]));
        for (size_t i = 0; i < m->n; i++)
            p[i] *= scale;
    }
    for (size_t k = h->count; k-- > 0;) {
        size_t j = pair_at(h, k);
        add_scaled(m, p, h->alpha[j] - h->rho[j] * flxi_inner_product(m, h->y[j], p), h->s[j]);
    }
}

static void keep_pair(flxi_minimising *m, pair_history *h, const line_point *to)
{
    double *s = h->s[h->next], *y = h->y[h->next];
    for (size_t i = 0; i < m->n; i++) {
        s[i] = to->x[i] - m->x[i];
        y[i] = to->d[i] - m->d[i];
    }
    double product = flxi_inner_product(m, s, y);
    if (!(product > 1e-10 * sqrt(flxi_inner_product(m, s, s) * flxi_inner_product(m, y, y))))
        return; /* the curvature is not positive: keep the approximation */
    h->rho[h->next] = 1 / product;
    h->next = (h->next + 1) % h->size;
    h->count += h->count < h->size;
}

flx_code flxi_lbfgs(flxi_minimising *m)
{
    pair_history h = {0};
    line_point points[3] = {0};
    double *p = flxi_new_vector(m);
    FLXI_TRY(make_history(m, &h));
    for (int k = 0; k < 3; k++)
        if (!(points[k].x = flxi_new_vector(m)) || !(points[k].d = flxi_new_vector(m)) || !p)
            return no_memory(m);
    for (;;) {
        find_direction(m, &h, p);
        if (!(flxi_inner_product(m, p, m->d) < 0)) {
            h.count = 0;
            find_direction(m, &h, p);
        }
        double first = h.count ? 1 : fmin(1, 1 / sqrt(flxi_inner_product(m, m->d, m->d)));
        FLXI_TRY(search_line(m, p, first, &points[0], &points[1], &points[2]));
        if (points[0].a == 0 && h.count) {
            h.count = 0; /* once more, along the gradient */
            continue;
        }
        if (points[0].a == 0) {
            m->r.reason = FLX_MINIMISE_STEP;
            return FLX_OK;
        }
        keep_pair(m, &h, &points[0]);
        if (flxi_accept_point(m, points[0].x, points[0].f, points[0].d))
            return FLX_OK;
    }
}

/* ---- Conjugate gradients ---- */

typedef struct {
    double *p, *r, *q, *product, *x, *d;
} newton_vectors;

static flx_code make_vectors(flxi_minimising *m, newton_vectors *v)
{
    double **all[] = {&v->p, &v->r, &v->q, &v->product, &v->x, &v->d};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!(*all[i] = flxi_new_vector(m)))
            return no_memory(m);
    return FLX_OK;
}

/* How far along q from p the border of the trust region is. */
static double to_border(const flxi_minimising *m, const newton_vectors *v, double radius)
{
    double a = flxi_inner_product(m, v->q, v->q), b = flxi_inner_product(m, v->p, v->q),
           c = flxi_inner_product(m, v->p, v->p) - radius * radius;
    return (-b + sqrt(fmax(0, b * b - a * c))) / a;
}

/* Minimises d.p + p.(A + damping) p / 2 within the radius (Steihaug); A is the product. *decrease receives what the
   model promises. */
static flx_code solve_model(flxi_minimising *m, newton_vectors *v, double damping, double radius, double *decrease)
{
    double rr = flxi_inner_product(m, m->d, m->d), enough = rr * fmin(0.25, sqrt(rr)) * fmin(0.25, sqrt(rr)),
           promised = 0;
    for (size_t i = 0; i < m->n; i++) {
        v->p[i] = 0;
        v->r[i] = -m->d[i];
        v->q[i] = v->r[i];
    }
    for (size_t k = 0; k < 2 * m->n + 10 && rr > enough; k++) {
        FLXI_TRY(flxi_curvature_times(m, v->q, v->product));
        add_scaled(m, v->product, damping, v->q);
        double curvature = flxi_inner_product(m, v->q, v->product), along = flxi_inner_product(m, v->r, v->q);
        double a = curvature > 0 ? rr / curvature : INFINITY, border = to_border(m, v, radius);
        bool is_outside = !(a < border);
        a = is_outside ? border : a;
        if (!isfinite(a)) /* rounding has left no curvature, and there is no border */
            break;
        promised += a * along - 0.5 * a * a * curvature;
        add_scaled(m, v->p, a, v->q);
        if (is_outside)
            break;
        add_scaled(m, v->r, -a, v->product);
        double before = rr;
        rr = flxi_inner_product(m, v->r, v->r);
        for (size_t i = 0; i < m->n; i++)
            v->q[i] = v->r[i] + rr / before * v->q[i];
    }
    *decrease = promised;
    return FLX_OK;
}

static flx_code try_step(flxi_minimising *m, newton_vectors *v, double *f)
{
    memcpy(v->x, m->x, m->n * sizeof *m->x);
    add_scaled(m, v->x, 1, v->p);
    return flxi_value_and_gradient(m, v->x, f, v->d);
}

/* The radius follows how well the model predicts the decrease. */
flx_code flxi_newton_cg(flxi_minimising *m)
{
    newton_vectors v;
    double radius = 1 + sqrt(flxi_inner_product(m, m->x, m->x)), promised, f;
    FLXI_TRY(make_vectors(m, &v));
    for (;;) {
        FLXI_TRY(solve_model(m, &v, 0, radius, &promised));
        FLXI_TRY(try_step(m, &v, &f));
        double ratio = isfinite(f) ? (m->f - f) / promised : -1, length = sqrt(flxi_inner_product(m, v.p, v.p));
        if (!(ratio > 0.25))
            radius = 0.25 * length;
        else if (ratio > 0.75 && length > 0.9 * radius)
            radius *= 2;
        bool is_better = ratio > 1e-4 && f < m->f;
        if (is_better && flxi_accept_point(m, v.x, f, v.d))
            return FLX_OK;
        if (!is_better && !(radius > 1e-15 * (1 + sqrt(flxi_inner_product(m, m->x, m->x))))) {
            m->r.reason = FLX_MINIMISE_STEP;
            return FLX_OK;
        }
    }
}

/* Damping grows until the step decreases the value, and shrinks after a good one. */
flx_code flxi_gauss_newton(flxi_minimising *m)
{
    newton_vectors v;
    double damping = 1e-3 * fmax(1e-12, sqrt(flxi_inner_product(m, m->d, m->d))), promised, f;
    FLXI_TRY(make_vectors(m, &v));
    for (;;) {
        FLXI_TRY(solve_model(m, &v, damping, INFINITY, &promised));
        FLXI_TRY(try_step(m, &v, &f));
        double ratio = isfinite(f) ? (m->f - f) / promised : -1;
        bool is_better = ratio > 1e-4 && f < m->f;
        damping = ratio > 0.75 ? damping / 5 : ratio > 0.25 ? damping : 4 * damping;
        if (is_better && flxi_accept_point(m, v.x, f, v.d))
            return FLX_OK;
        if (!is_better && damping > 1e20) {
            m->r.reason = FLX_MINIMISE_STEP;
            return FLX_OK;
        }
    }
}
