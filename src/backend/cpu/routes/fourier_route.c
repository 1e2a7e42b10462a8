/* SPDX-License-Identifier: Apache-2.0 */
/* fourier_route.c: fft, fft_axis, rfft and irfft, in the precision of their operands. Tables are made when the node is
   compiled and kept with it; rows are what threads share.

   A row is transformed by itself, with vectors along it, where its length allows that. Rows of other short lengths, and
   the columns of an axis that is not the last, are transformed side by side, as lanes of one transform: vectors run
   across them. A row comes out the same, to the bit, whatever the other rows are. Error: numeric/fourier.h. */
#include "backend/cpu/routes/routes.h"
#include "base/host/stop.h"
#include "graph/op/eval.h"
#include "numeric/fourier.h"
#include "ops/opcode.h"

typedef struct transforming transforming;

/* Item i of a transform: a row or a group of lanes. `work` is the slot's. */
typedef void (*item_fn)(const transforming *t, int64_t i, void *work);

struct transforming {
    const flxi_route_node *n;
    flxi_fourier plan;
    flxi_fourier_real real; /* of rfft and irfft */
    flxi_split split;       /* the operand around the axis, in numbers of its dtype */
    bool is_real, is_complex, is_wide, inverse;
    double scale;
    int64_t lanes; /* of one item */
    int64_t items; /* threads share them */
    int64_t slots; /* items are distributed among that many */
    item_fn run;
};

enum { LANES = 16, LONGEST_LANE = 4096 };

/* ---- Items ---- */

/* `lanes` rows from `first` on, or as many columns. Lanes past the last one repeat it. */
#define TRANSFORM_LANES(name, REAL, transform)                                                           \
    static void name(const transforming *t, int64_t i, void *scratch)                                    \
    {                                                                                                    \
        int64_t n = t->plan.n, lanes = t->lanes, inner = t->split.inner;                                 \
        int64_t groups = (inner + lanes - 1) / lanes;                                                    \
        int64_t outer = inner > 1 ? i / groups : i * lanes, column = inner > 1 ? i % groups * lanes : 0; \
        int64_t limit = inner > 1 ? inner - column : t->split.outer - outer;                             \
        int64_t next = inner > 1 ? 1 : t->split.n;     /* to the next lane */                            \
        int64_t step = t->is_complex ? 2 : 1;          /* numbers of REAL per element */                 \
        int64_t other = t->is_complex ? 1 : n * inner; /* to the imaginary part */                       \
        int64_t first = (outer * t->split.n * inner + column) * step;                                    \
        int64_t used = limit < lanes ? limit : lanes;                                                    \
        const REAL scale = (REAL)t->scale;                                                               \
        REAL *re = scratch, *im = re + n * lanes, *work = im + n * lanes;                                \
        const REAL *x = (const REAL *)t->n->in[0] + first;                                               \
        REAL *y = (REAL *)t->n->out[0] + first;                                                          \
        for (int64_t k = 0; k < n && !flxi_stopped_by_now(); k++)                                        \
            for (int64_t l = 0; l < lanes; l++) {                                                        \
                int64_t at = (k * inner + (l < used ? l : used - 1) * next) * step;                      \
                re[k * lanes + l] = x[at];                                                               \
                im[k * lanes + l] = x[at + other];                                                       \
            }                                                                                            \
        transform(&t->plan, t->n->kept, t->inverse ? im : re, t->inverse ? re : im, lanes, work);        \
        for (int64_t k = 0; k < n && !flxi_stopped_by_now(); k++)                                        \
            for (int64_t l = 0; l < used; l++) {                                                         \
                int64_t at = (k * inner + l * next) * step;                                              \
                y[at] = re[k * lanes + l] * scale;                                                       \
                y[at + other] = im[k * lanes + l] * scale;                                               \
            }                                                                                            \
    }
TRANSFORM_LANES(lanes_f32, float, flxi_fourier_f32)
TRANSFORM_LANES(lanes_f64, double, flxi_fourier_f64)

#define TRANSFORM_ROWS(REAL, name)                                                                           \
    static void row_##name(const transforming *t, int64_t i, void *work)                                     \
    {                                                                                                        \
        const REAL *x = (const REAL *)t->n->in[0] + 2 * t->plan.n * i;                                       \
        REAL *y = (REAL *)t->n->out[0] + 2 * t->plan.n * i;                                                  \
        if (t->is_complex)                                                                                   \
            flxi_fourier_pairs_##name(&t->plan, t->n->kept, x, y, t->inverse, (REAL)t->scale, work);         \
        else                                                                                                 \
            flxi_fourier_parts_##name(&t->plan, t->n->kept, x, y, t->inverse, (REAL)t->scale, work);         \
    }                                                                                                        \
    static void bins_##name(const transforming *t, int64_t i, void *work)                                    \
    {                                                                                                        \
        int64_t given = t->split.n, bins = t->real.n / 2 + 1;                                                \
        REAL *re = (REAL *)t->n->out[0] + i * bins, *im = (REAL *)t->n->out[1] + i * bins;                   \
        const REAL *x = (const REAL *)t->n->in[0] + i * given;                                               \
        flxi_fourier_bins_##name(&t->real, t->n->kept, x, given, re, im, (REAL)t->scale, work);              \
    }                                                                                                        \
    static void signal_##name(const transforming *t, int64_t i, void *work)                                  \
    {                                                                                                        \
        int64_t given = t->split.n;                                                                          \
        const REAL *re = (const REAL *)t->n->in[0] + i * given, *im = (const REAL *)t->n->in[1] + i * given; \
        REAL *y = (REAL *)t->n->out[0] + i * t->real.n;                                                      \
        flxi_fourier_signal_##name(&t->real, t->n->kept, re, im, given, y, (REAL)t->scale, work);            \
    }
TRANSFORM_ROWS(float, f32)
TRANSFORM_ROWS(double, f64)

/* ---- Plans ---- */

/* Lanes instead of rows: where the axis is not the last, or the first pass of a row would have no vectors. */
static int64_t lanes_of(const transforming *t)
{
    int64_t others = t->split.inner > 1 ? t->split.inner : t->split.outer;
    bool is_weak = t->plan.inner < 128 || t->plan.radix[0] % 4;
    bool is_worth = t->split.inner > 1 || (is_weak && others >= LANES && t->plan.inner <= LONGEST_LANE);
    return !is_worth ? 1 : others < LANES ? others : LANES;
}

static bool make_real(transforming *t)
{
    const flxi_route_node *n = t->n;
    if (!flxi_fourier_real_plan(flxi_route_int(n, "n"), &t->real))
        return false;
    bool forward = n->op == OP_rfft;
    t->scale = flxi_fourier_scale(flxi_route_int(n, "norm"), !forward, t->real.n);
    t->run = forward ? (t->is_wide ? bins_f64 : bins_f32) : (t->is_wide ? signal_f64 : signal_f32);
    const flx_type *y = n->out_types[0];
    t->items = flxi_route_count(y) / y->dims[y->rank - 1]; /* the operand may be empty */
    return true;
}

static bool make_complex(transforming *t)
{
    const flxi_route_node *n = t->n;
    t->inverse = flxi_route_int(n, "inverse");
    if (!flxi_fourier_plan(t->is_complex ? t->split.n : t->split.n / 2, &t->plan))
        return false;
    t->scale = flxi_fourier_scale(flxi_route_int(n, "norm"), t->inverse, t->plan.n);
    t->lanes = lanes_of(t);
    bool by_lanes = t->lanes > 1 || t->split.inner > 1;
    t->run = by_lanes ? (t->is_wide ? lanes_f64 : lanes_f32) : (t->is_wide ? row_f64 : row_f32);
    int64_t groups = (t->split.inner + t->lanes - 1) / t->lanes;
    t->items = t->split.inner > 1 ? t->split.outer * groups : (t->split.outer + t->lanes - 1) / t->lanes;
    return true;
}

static bool make(const flxi_route_node *n, int threads, transforming *t)
{
    const flx_type *x = n->in_types[0];
    *t = (transforming){.n = n,
                        .is_real = n->op == OP_rfft || n->op == OP_irfft,
                        .is_complex = flxi_is_complex(x->dtype),
                        .is_wide = x->dtype == FLX_F64 || x->dtype == FLX_C128,
                        .lanes = 1};
    if (flxi_route_count(n->out_types[0]) == 0)
        return false;
    t->split = flxi_split_at(x, n->op == OP_fft_axis ? flxi_route_int(n, "axis") : x->rank - 1);
    if (!(t->is_real ? make_real(t) : make_complex(t)))
        return false;
    t->slots = threads < t->items ? threads : t->items;
    return true;
}

static size_t real_size(const transforming *t)
{
    return t->is_wide ? sizeof(double) : sizeof(float);
}

/* Numbers of scratch for one slot, in whole cache lines. */
static size_t slot_count(const transforming *t)
{
    size_t lanes = 2 * (size_t)t->plan.n * (size_t)t->lanes;
    size_t count = t->is_real ? flxi_fourier_real_work_count(&t->real)
                              : lanes + flxi_fourier_work_count(&t->plan) * (size_t)t->lanes;
    return (count + 15) / 16 * 16;
}

/* Slot i takes items i, i + slots …, with scratch of its own. */
static void run_slots(void *user, int64_t begin, int64_t end)
{
    const transforming *t = user;
    for (int64_t slot = begin; slot < end; slot++)
        for (int64_t i = slot; i < t->items && !flxi_stopped(); i += t->slots)
            t->run(t, i, (char *)t->n->scratch + (size_t)slot * slot_count(t) * real_size(t));
}

/* ---- The route ---- */

const char *flxi_fourier_applies(const flxi_route_node *n)
{
    transforming t;
    return make(n, 1, &t) || flxi_route_count(n->out_types[0]) == 0 ? NULL : "the transform is too long";
}

size_t flxi_fourier_scratch(const flxi_route_node *n, int threads)
{
    transforming t;
    return make(n, threads, &t) ? (size_t)t.slots * slot_count(&t) * real_size(&t) : 0;
}

size_t flxi_fourier_kept(const flxi_route_node *n)
{
    transforming t;
    if (!make(n, 1, &t))
        return 0;
    return real_size(&t) * (t.is_real ? flxi_fourier_real_table_count(&t.real) : flxi_fourier_table_count(&t.plan));
}

flx_code flxi_fourier_prepare(const flxi_route_node *n, void *kept, const flxi_allocator *mem)
{
    transforming t;
    if (!make(n, 1, &t))
        return FLX_OK;
    int32_t dtype = t.is_wide ? FLX_F64 : FLX_F32;
    return t.is_real ? flxi_fourier_real_fill(&t.real, dtype, kept, mem, n->err)
                     : flxi_fourier_fill(&t.plan, dtype, kept, mem, n->err);
}

flx_code flxi_fourier_route(const flxi_route_node *n)
{
    transforming t;
    if (!make(n, flxi_pool_threads(n->pool), &t))
        return FLX_OK;
    bool is_small = flxi_route_count(n->in_types[0]) < 4096; /* not worth waking a thread */
    flxi_pool_run(is_small ? NULL : n->pool, t.slots, 1, run_slots, &t);
    return FLX_OK;
}
