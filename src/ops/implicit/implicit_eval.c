/* SPDX-License-Identifier: Apache-2.0 */
/* implicit_eval.c: how equations are solved. Numbers are kept in double; the body takes and returns them in its dtype.
   tol is at least 8 units of the dtype's rounding. When a method stops at its bound, or where rounding prevents further
   progress, the run reports UNSOLVED and the result is the last iterate. Bounds where max_iterations is absent: 10
   products for each number of the unknown and 100 more for cg and gmres, 10000 steps for fixed_point, 100 for root. */
#include "ops/implicit/implicit.h"

#include "base/context.h"
#include "graph/op/eval.h"
#include "numeric/linalg/iteration.h"

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
static int call(void *user, double *x, double *y)
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

/* The result is the last iterate, which is not a solution. */
static void report_unsolved(const function *f, int64_t most)
{
    const char *op = f->e->op->name, *label = f->e->label;
    f->e->report(f->e, FLX_RUN_LOOP_CUT | FLX_RUN_UNSOLVED);
    flxi_log(f->x->ctx, FLX_LOG_UNSOLVED, label ? label : op,
             "%s did not reach tol=%g in at most %lld steps: the result is that of the last step", op, tolerance_of(f),
             (long long)most);
}

/* Room for `vectors` vectors, and more. */
static flx_code room_begin(const function *f, size_t vectors, size_t more, size_t *count, double **room)
{
    size_t bytes;
    *room = NULL;
    if (flxi_mul_size(vectors, (size_t)f->n, count) && flxi_add_size(*count, more, count) &&
        flxi_mul_size(*count, sizeof **room, &bytes))
        *room = flxi_alloc(f->e->mem, *count, sizeof **room);
    return *room ? FLX_OK : flxi_oom(f->e->err, f->e->op->name);
}

static void room_end(const function *f, size_t count, double *room)
{
    if (room)
        flxi_free(f->e->mem, room, count, sizeof *room);
}

/* ---- Linear systems ---- */

static flx_code solve_linear(flxi_eval *e, int (*method)(flxi_krylov *, const double *, double *),
                             size_t (*room_of)(int64_t))
{
    function f;
    double *b = NULL;
    size_t count = 0;
    flx_code code = function_begin(e, &f);
    if (code == FLX_OK)
        code = room_begin(&f, 2, room_of(f.n), &count, &b);
    if (code == FLX_OK) {
        flxi_krylov k = {.apply = call, .user = &f, .n = f.n, .tol = tolerance_of(&f), .room = b + 2 * f.n};
        k.iterations = bound_of(&f, 10 * f.n + 100);
        read_numbers(&f, e->in[0], b);
        code = (flx_code)method(&k, b, b + f.n);
        write_numbers(&f, b + f.n, e->out[0]);
        if (code == FLX_OK && !k.solved)
            report_unsolved(&f, bound_of(&f, 10 * f.n + 100));
    }
    room_end(&f, count, b);
    function_end(&f);
    return code;
}

flx_code flxi_eval_cg(flxi_eval *e)
{
    return solve_linear(e, flxi_krylov_cg, flxi_cg_room);
}

flx_code flxi_eval_gmres(flxi_eval *e)
{
    return solve_linear(e, flxi_krylov_gmres, flxi_gmres_room);
}

/* ---- Steps towards a point ---- */

static flx_code solve_by_steps(flxi_eval *e, int (*method)(flxi_iteration *, double *), size_t (*room_of)(int64_t),
                               int64_t most)
{
    function f;
    double *x = NULL;
    size_t count = 0;
    flx_code code = function_begin(e, &f);
    if (code == FLX_OK)
        code = room_begin(&f, 1, room_of(f.n), &count, &x);
    if (code == FLX_OK) {
        flxi_iteration i = {.call = call,
                            .user = &f,
                            .n = f.n,
                            .tol = tolerance_of(&f),
                            .unit = unit_of(&f),
                            .most = bound_of(&f, most),
                            .room = x + f.n};
        read_numbers(&f, e->in[0], x);
        code = (flx_code)method(&i, x);
        write_numbers(&f, x, e->out[0]);
        if (code == FLX_OK && !i.solved)
            report_unsolved(&f, i.most);
    }
    room_end(&f, count, x);
    function_end(&f);
    return code;
}

flx_code flxi_eval_fixed_point(flxi_eval *e)
{
    return solve_by_steps(e, flxi_fixed_point, flxi_fixed_point_room, 10000);
}

flx_code flxi_eval_root(flxi_eval *e)
{
    return solve_by_steps(e, flxi_newton, flxi_newton_room, 100);
}
