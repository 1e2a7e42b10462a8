/* SPDX-License-Identifier: Apache-2.0 */
/* implicit_eval.c: how equations are solved. Numbers are kept in double; the body takes and returns them in its dtype.
   tol is at least 8 units of the dtype's rounding. When a method stops at its bound, or where rounding prevents further
   progress, the run reports LOOP_CUT and the result is the last iterate. Bounds where max_iterations is absent: 10
   products for each number of the unknown and 100 more for cg and gmres, 10000 steps for fixed_point, 100 for root. */
#include "ops/implicit/implicit.h"

#include "graph/op/eval.h"
#include "numeric/krylov.h"

#include <float.h>
#include <fluxion/run.h>
#include <math.h>

/* The body as a function of its first input; the other inputs are the operands after the first. */
typedef struct {
    flxi_eval *e;
    const implicit_attrs *a;
    const flx_tensor **in; /* in[0] is owned */
    flx_tensor *x;
    int32_t part; /* dtype of the numbers */
    int64_t n;    /* numbers: complex elements have two */
} function;

static flx_code function_begin(flxi_eval *e, function *f)
{
    const flx_tensor *first = e->in[0];
    int32_t dtype = first->type.dtype;
    *f = (function){.e = e, .a = e->attrs, .part = flxi_part_dtype(dtype)};
    f->n = first->count * (flxi_is_complex(dtype) ? 2 : 1);
    f->in = flxi_alloc(e->mem, e->nin, sizeof *f->in);
    f->x = f->in ? flx_tensor_new(first->ctx, &first->type, NULL, e->err) : NULL;
    if (!f->in)
        return flxi_oom(e->err, e->op->name);
    if (!f->x)
        return (flx_code)e->err->code;
    f->in[0] = f->x;
    for (uint32_t i = 1; i < e->nin; i++)
        f->in[i] = e->in[i];
    return FLX_OK;
}

static void function_end(function *f)
{
    flx_tensor_release(f->x);
    flxi_free(f->e->mem, f->in, f->e->nin, sizeof *f->in);
}

/* Two dtypes are copied in loops that a compiler can vectorise. */
static void read_numbers(const function *f, const flx_tensor *t, double *x)
{
    const float *single = t->data;
    if (f->part == FLX_F64)
        memcpy(x, t->data, (size_t)f->n * sizeof *x);
    for (int64_t i = 0; f->part == FLX_F32 && i < f->n; i++)
        x[i] = (double)single[i];
    for (int64_t i = 0; f->part != FLX_F64 && f->part != FLX_F32 && i < f->n; i++)
        x[i] = flxi_load_double(f->part, t->data, i);
}

static void write_numbers(const function *f, const double *x, flx_tensor *t)
{
    float *single = t->data;
    if (f->part == FLX_F64)
        memcpy(t->data, x, (size_t)f->n * sizeof *x);
    for (int64_t i = 0; f->part == FLX_F32 && i < f->n; i++)
        single[i] = (float)x[i];
    for (int64_t i = 0; f->part != FLX_F64 && f->part != FLX_F32 && i < f->n; i++)
        flxi_store_double(f->part, t->data, i, x[i]);
}

/* y = body(x), with x rounded to the body's dtype. */
static flx_code call(void *user, double *x, double *y)
{
    function *f = user;
    flx_tensor *out = NULL;
    write_numbers(f, x, f->x);
    read_numbers(f, f->x, x);
    FLXI_TRY(f->e->run_body(f->e, f->a->body, f->in, &out));
    read_numbers(f, out, y);
    flx_tensor_release(out);
    return FLX_OK;
}

static double unit_of(const function *f)
{
    return f->part == FLX_F64 ? DBL_EPSILON : (double)FLT_EPSILON;
}

static double tolerance_of(const function *f)
{
    return fmax(f->a->tol, 8.0 * unit_of(f));
}

static int64_t bound_of(const function *f, int64_t own)
{
    return f->a->max_iterations == FLXI_ABSENT ? own : f->a->max_iterations;
}

/* ---- Linear systems ---- */

static flx_code solve_linear(flxi_eval *e, flx_code (*method)(flxi_krylov *, const double *, double *))
{
    function f;
    flx_code code = function_begin(e, &f);
    size_t room = 2 * (size_t)f.n;
    double *b = code == FLX_OK ? flxi_alloc(e->mem, room, sizeof *b) : NULL;
    if (code == FLX_OK && !b)
        code = flxi_oom(e->err, e->op->name);
    if (code == FLX_OK) {
        flxi_krylov k = {.apply = call, .user = &f, .n = f.n, .tol = tolerance_of(&f), .mem = e->mem, .err = e->err};
        k.iterations = bound_of(&f, 10 * f.n + 100);
        read_numbers(&f, e->in[0], b);
        code = method(&k, b, b + f.n);
        write_numbers(&f, b + f.n, e->out[0]);
        if (code == FLX_OK && !k.solved)
            e->report(e, FLX_RUN_LOOP_CUT);
    }
    flxi_free(e->mem, b, room, sizeof *b);
    function_end(&f);
    return code;
}

flx_code flxi_eval_cg(flxi_eval *e)
{
    return solve_linear(e, flxi_krylov_cg);
}

flx_code flxi_eval_gmres(flxi_eval *e)
{
    return solve_linear(e, flxi_krylov_gmres);
}

/* ---- Steps towards a point ---- */

/* Advances x by one step; *moved is the length of the step, which may be NaN. `room` has space for `vectors`
   vectors. */
typedef flx_code (*step_fn)(function *f, double *x, double *room, double *moved);

/* Until a step is no longer than tol (1 + |x|). */
static flx_code walk(function *f, step_fn step, double *x, double *room, int64_t most)
{
    double tol = tolerance_of(f);
    for (int64_t i = 0; i < most; i++) {
        double moved = NAN;
        FLXI_TRY(step(f, x, room, &moved));
        if (moved <= tol * (1.0 + flxi_norm2(f->n, x)))
            return FLX_OK;
        if (!isfinite(moved))
            break;
    }
    f->e->report(f->e, FLX_RUN_LOOP_CUT);
    return FLX_OK;
}

static flx_code solve_by_steps(flxi_eval *e, step_fn step, size_t vectors, int64_t most)
{
    function f;
    flx_code code = function_begin(e, &f);
    size_t room = (1 + vectors) * (size_t)f.n;
    double *x = code == FLX_OK ? flxi_alloc(e->mem, room, sizeof *x) : NULL;
    if (code == FLX_OK && !x)
        code = flxi_oom(e->err, e->op->name);
    if (code == FLX_OK) {
        read_numbers(&f, e->in[0], x);
        code = walk(&f, step, x, x + f.n, bound_of(&f, most));
        write_numbers(&f, x, e->out[0]);
    }
    flxi_free(e->mem, x, room, sizeof *x);
    function_end(&f);
    return code;
}

static flx_code step_fixed_point(function *f, double *x, double *room, double *moved)
{
    FLXI_TRY(call(f, x, room));
    for (int64_t i = 0; i < f->n; i++) {
        double next = room[i];
        room[i] -= x[i];
        x[i] = next;
    }
    *moved = flxi_norm2(f->n, room);
    return FLX_OK;
}

flx_code flxi_eval_fixed_point(flxi_eval *e)
{
    return solve_by_steps(e, step_fixed_point, 1, 10000);
}

/* ---- Roots: Newton's method, with the Jacobian from finite differences ---- */

typedef struct {
    function *f;
    const double *x, *fx;
    double *moved_x;
    double size; /* 1 + |x| */
} linearised;

/* y = (f(x + h v) - f(x)) / h. The error, about the square root of the unit roundoff, only slows Newton's method
   down. */
static flx_code apply_jacobian(void *user, double *v, double *y)
{
    linearised *l = user;
    int64_t n = l->f->n;
    double length = flxi_norm2(n, v);
    double h = sqrt(unit_of(l->f)) * l->size / (length > 0.0 ? length : 1.0);
    for (int64_t i = 0; i < n; i++)
        l->moved_x[i] = l->x[i] + h * v[i];
    FLXI_TRY(call(l->f, l->moved_x, y));
    for (int64_t i = 0; i < n; i++)
        y[i] = (y[i] - l->fx[i]) / h;
    return FLX_OK;
}

enum { MAX_HALVINGS = 12, ROOT_VECTORS = 5 };

/* x - step, where the step is halved as long as |f| would grow. */
static flx_code take_step(function *f, double *x, double *step, double *trial, double *ft, double size)
{
    for (int k = 0;; k++) {
        for (int64_t i = 0; i < f->n; i++)
            trial[i] = x[i] - step[i];
        FLXI_TRY(call(f, trial, ft));
        if (flxi_norm2(f->n, ft) <= size || k == MAX_HALVINGS)
            break;
        for (int64_t i = 0; i < f->n; i++)
            step[i] *= 0.5;
    }
    for (int64_t i = 0; i < f->n; i++)
        x[i] = trial[i];
    return FLX_OK;
}

static flx_code step_root(function *f, double *x, double *room, double *moved)
{
    int64_t n = f->n;
    double *fx = room;
    double *step = room + n;
    double *trial = room + 2 * n;
    double *ft = room + 3 * n;
    FLXI_TRY(call(f, x, fx));
    double size = flxi_norm2(n, fx);
    for (int64_t i = 0; i < n && isnan(size); i++)
        x[i] = NAN;
    linearised l = {.f = f, .x = x, .fx = fx, .moved_x = trial, .size = 1.0 + flxi_norm2(n, x)};
    flxi_krylov k = {.apply = apply_jacobian,
                     .user = &l,
                     .n = n,
                     .tol = 4.0 * sqrt(unit_of(f)),
                     .iterations = 10 * n + 100,
                     .mem = f->e->mem,
                     .err = f->e->err};
    if (size > 0.0)
        FLXI_TRY(flxi_krylov_gmres(&k, fx, step));
    *moved = size > 0.0 ? flxi_norm2(n, step) : size;
    return size > 0.0 ? take_step(f, x, step, trial, ft, size) : FLX_OK;
}

flx_code flxi_eval_root(flxi_eval *e)
{
    return solve_by_steps(e, step_root, ROOT_VECTORS - 1, 100);
}
