/* SPDX-License-Identifier: Apache-2.0 */
/* schedule.c: factors of the learning rate as graphs of the number of steps, which a training step contains: no work is
   left to the program. They compute in f64, so that counts of steps are exact. */
#include "graph/graph.h"

#include "base/options.h"

#include <fluxion/ops.h>
#include <fluxion/train.h>
#include <math.h>

typedef struct {
    flx_graph *g;
    const flx_schedule_options *o;
    flx_val i; /* the step, as f64 */
} schedule_work;

static const double pi = 3.14159265358979323846;

static flx_val number(const schedule_work *w, double value)
{
    return flx_scalar(w->g, FLX_F64, value);
}

/* (i - begin) / length, between 0 and 1. */
static flx_val part(const schedule_work *w, double begin, double length)
{
    flx_val x = flx_div(w->g, flx_sub(w->g, w->i, number(w, begin)), number(w, length));
    return flx_clamp(w->g, number(w, 0), x, number(w, 1));
}

/* From a to b along a line, or half a cosine. */
static flx_val line(const schedule_work *w, double a, double b, flx_val x)
{
    return flx_add(w->g, number(w, a), flx_mul(w->g, number(w, b - a), x));
}

static flx_val half_cosine(const schedule_work *w, double a, double b, flx_val x)
{
    flx_val c = flx_cos(w->g, flx_mul(w->g, number(w, pi), x));
    return line(w, b, a, flx_mul(w->g, number(w, 0.5), flx_add(w->g, number(w, 1), c)));
}

static flx_val power(const schedule_work *w, flx_val exponent)
{
    return flx_pow(w->g, number(w, w->o->factor), exponent);
}

/* The steps after warm-up, in units of `steps`; not negative, because factor^x may overflow there. */
static flx_val periods(const schedule_work *w)
{
    flx_val x = flx_sub(w->g, w->i, number(w, (double)w->o->warmup));
    return flx_div(w->g, flx_max(w->g, x, number(w, 0)), number(w, (double)w->o->steps));
}

/* The peak is reached with the last step of the warm-up, the end with the last step. */
static flx_val one_cycle(const schedule_work *w)
{
    double peak = (double)w->o->warmup - 1, end = (double)w->o->steps - 1;
    flx_val down = half_cosine(w, 1, w->o->final, part(w, peak, end - peak));
    if (peak <= 0)
        return down;
    flx_val up = half_cosine(w, 1.0 / 25, 1, part(w, 0, peak));
    return flx_where(w->g, flx_lt(w->g, w->i, number(w, peak)), up, down);
}

static flx_val inverse_root(const schedule_work *w)
{
    double warmup = w->o->warmup > 0 ? (double)w->o->warmup : 1;
    flx_val count = flx_max(w->g, flx_add(w->g, w->i, number(w, 1)), number(w, warmup));
    return flx_sqrt(w->g, flx_div(w->g, number(w, warmup), count));
}

static flx_val after_warmup(const schedule_work *w)
{
    double warmup = (double)w->o->warmup, steps = (double)w->o->steps;
    switch (w->o->kind) {
    case FLX_SCHEDULE_LINEAR: return line(w, 1, w->o->final, part(w, warmup, steps));
    case FLX_SCHEDULE_COSINE: return half_cosine(w, 1, w->o->final, part(w, warmup, steps));
    case FLX_SCHEDULE_STEP: return power(w, flx_floor(w->g, periods(w)));
    case FLX_SCHEDULE_EXPONENTIAL: return power(w, periods(w));
    case FLX_SCHEDULE_ONE_CYCLE: return one_cycle(w);
    case FLX_SCHEDULE_INVERSE_SQRT: return inverse_root(w);
    default: return number(w, 1);
    }
}

static flx_val warmed_up(const schedule_work *w, flx_val factor)
{
    if (!w->o->warmup || w->o->kind == FLX_SCHEDULE_ONE_CYCLE)
        return factor;
    flx_val warmup = number(w, (double)w->o->warmup);
    flx_val up = flx_div(w->g, flx_add(w->g, w->i, number(w, 1)), warmup);
    return flx_where(w->g, flx_lt(w->g, w->i, warmup), up, factor);
}

static flx_code check(flx_schedule_options *o, flx_error *err)
{
    bool has_length = o->kind != FLX_SCHEDULE_CONSTANT && o->kind != FLX_SCHEDULE_INVERSE_SQRT;
    if (o->kind < 0 || o->kind > FLX_SCHEDULE_INVERSE_SQRT)
        return flxi_fail(err, FLX_E_USAGE, "flx_schedule_graph: unknown kind %d", (int)o->kind);
    if (o->warmup < 0 || o->steps < 0 || (has_length && !o->steps))
        return flxi_fail(err, FLX_E_USAGE, "flx_schedule_graph: the number of steps must be positive");
    if (!(o->final >= 0 && o->final < INFINITY && o->factor >= 0 && o->factor < INFINITY))
        return flxi_fail(err, FLX_E_USAGE, "flx_schedule_graph: final and factor must be finite and not negative");
    if (o->factor == 0)
        o->factor = 0.1;
    if (o->kind != FLX_SCHEDULE_ONE_CYCLE)
        return FLX_OK;
    if (o->final == 0)
        o->final = 4e-6;
    if (o->warmup == 0)
        o->warmup = (int64_t)(0.3 * (double)o->steps + 0.5);
    if (o->warmup >= o->steps)
        return flxi_fail(err, FLX_E_USAGE, "flx_schedule_graph: a cycle of %lld steps has a warm-up of %lld",
                         (long long)o->steps, (long long)o->warmup);
    return FLX_OK;
}

flx_graph *flx_schedule_graph(flx_context *ctx, const flx_schedule_options *options, flx_error *err)
{
    flx_schedule_options o;
    if (!ctx || !options) {
        flxi_fail(err, FLX_E_USAGE, "flx_schedule_graph: the context and options must be given");
        return NULL;
    }
    if (FLXI_READ_OPTIONS(flx_schedule_options, &o, options, err) != FLX_OK || check(&o, err) != FLX_OK)
        return NULL;
    flx_graph *g = flx_graph_new(ctx, "schedule");
    if (!g) {
        flxi_oom(err, "a schedule");
        return NULL;
    }
    const flx_type count = flx_type_make(FLX_I64, 0, NULL);
    schedule_work w = {.g = g, .o = &o};
    w.i = flx_cast(g, flx_input(g, "step", &count), FLX_F64);
    flx_output(g, warmed_up(&w, after_warmup(&w)), "factor");
    if (flx_graph_error(g, err) == FLX_OK)
        return g;
    flx_graph_release(g);
    return NULL;
}
