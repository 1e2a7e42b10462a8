/* SPDX-License-Identifier: Apache-2.0 */
/* iteration.c: see iteration.h. */
#include "numeric/linalg/iteration.h"

#include <math.h>

/* Advances x by one step; *moved is the length of the step, which may be NaN. */
typedef int (*step_fn)(flxi_iteration *f, double *x, double *moved);

static int walk(flxi_iteration *f, step_fn step, double *x)
{
    f->solved = false;
    for (int64_t i = 0; i < f->most; i++) {
        double moved = NAN;
        int code = step(f, x, &moved);
        if (code != 0)
            return code;
        f->solved = moved <= f->tol * (1.0 + flxi_norm2(f->n, x));
        if (f->solved || !isfinite(moved))
            break;
    }
    return 0;
}

static int step_fixed_point(flxi_iteration *f, double *x, double *moved)
{
    double *room = f->room;
    int code = f->call(f->user, x, room);
    if (code != 0)
        return code;
    for (int64_t i = 0; i < f->n; i++) {
        double next = room[i];
        room[i] -= x[i];
        x[i] = next;
    }
    *moved = flxi_norm2(f->n, room);
    return 0;
}

int flxi_fixed_point(flxi_iteration *f, double *x)
{
    return walk(f, step_fixed_point, x);
}

size_t flxi_fixed_point_room(int64_t n)
{
    return (size_t)n;
}

/* ---- Newton's method ---- */

typedef struct {
    flxi_iteration *f;
    const double *x, *fx;
    double *moved_x;
    double size; /* 1 + |x| */
} linearised;

/* y = (f(x + h v) - f(x)) / h. The error, about the square root of the unit roundoff, only slows Newton's method
   down. */
static int apply_jacobian(void *user, double *v, double *y)
{
    linearised *l = user;
    int64_t n = l->f->n;
    double length = flxi_norm2(n, v);
    double h = sqrt(l->f->unit) * l->size / (length > 0.0 ? length : 1.0);
    for (int64_t i = 0; i < n; i++)
        l->moved_x[i] = l->x[i] + h * v[i];
    int code = l->f->call(l->f->user, l->moved_x, y);
    for (int64_t i = 0; i < n && code == 0; i++)
        y[i] = (y[i] - l->fx[i]) / h;
    return code;
}

enum { MAX_HALVINGS = 12, NEWTON_VECTORS = 4 };

/* x - step, where the step is halved as long as |f| would grow. */
static int take_step(flxi_iteration *f, double *x, double *step, double *trial, double *ft, double size)
{
    for (int k = 0;; k++) {
        for (int64_t i = 0; i < f->n; i++)
            trial[i] = x[i] - step[i];
        int code = f->call(f->user, trial, ft);
        if (code != 0)
            return code;
        if (flxi_norm2(f->n, ft) <= size || k == MAX_HALVINGS)
            break;
        for (int64_t i = 0; i < f->n; i++)
            step[i] *= 0.5;
    }
    for (int64_t i = 0; i < f->n; i++)
        x[i] = trial[i];
    return 0;
}

static int step_newton(flxi_iteration *f, double *x, double *moved)
{
    int64_t n = f->n;
    double *fx = f->room;
    double *step = fx + n;
    double *trial = fx + 2 * n;
    double *ft = fx + 3 * n;
    int code = f->call(f->user, x, fx);
    if (code != 0)
        return code;
    double size = flxi_norm2(n, fx);
    for (int64_t i = 0; i < n && isnan(size); i++)
        x[i] = NAN;
    linearised l = {.f = f, .x = x, .fx = fx, .moved_x = trial, .size = 1.0 + flxi_norm2(n, x)};
    flxi_krylov k = {.apply = apply_jacobian,
                     .user = &l,
                     .n = n,
                     .tol = 4.0 * sqrt(f->unit),
                     .iterations = 10 * n + 100,
                     .room = fx + NEWTON_VECTORS * n};
    if (size > 0.0)
        code = flxi_krylov_gmres(&k, fx, step);
    if (code != 0)
        return code;
    *moved = size > 0.0 ? flxi_norm2(n, step) : size;
    return size > 0.0 ? take_step(f, x, step, trial, ft, size) : 0;
}

int flxi_newton(flxi_iteration *f, double *x)
{
    return walk(f, step_newton, x);
}

size_t flxi_newton_room(int64_t n)
{
    return NEWTON_VECTORS * (size_t)n + flxi_gmres_room(n);
}
