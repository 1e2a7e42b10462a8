/* SPDX-License-Identifier: Apache-2.0 */
/* fourier_route.c: fft, fft_axis, and rfft and irfft in both forms, in the precision of their operands. Tables are
   made when the node is compiled and kept with it; rows are what threads share.

   A row is transformed by itself, with vectors along it, where its length allows that. Rows of other short lengths, and
   the columns of an axis that is not the last, are transformed side by side, as lanes of one transform: vectors run
   across them. A row comes out the same, to the bit, whatever the other rows are. All threads together transform rows
   that do not fit into the cache, one after the other. Error: numeric/fourier.h. */
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
    flxi_fourier_real real;  /* of rfft and irfft */
    flxi_fourier_long large; /* of a row, or of half of a real one, if is_long */
    bool is_long;
    flxi_split split; /* the operand around the axis, in numbers of its dtype */
    bool is_real, is_complex, is_wide, inverse;
    double scale;
    int64_t lanes; /* of one item */
    int64_t items; /* threads share them */
    int64_t slots; /* items are distributed among that many */
    item_fn run;
};

enum { LANES = 16, LONGEST_LANE = 4096, MOST_IN_TILE = 1 << 13 };

static size_t real_size(const transforming *t)
{
    return t->is_wide ? sizeof(double) : sizeof(float);
}

static bool is_forward_op(flxi_opcode op)
{
    return op == OP_rfft || op == OP_rfft_complex;
}

/* Bins of a real signal are pairs in one tensor, or parts in two. */
static bool has_pairs(flxi_opcode op)
{
    return op == OP_rfft_complex || op == OP_irfft_complex;
}

/* ---- Items ---- */

/* A group of rows, or of columns. The parts of a real tensor are the halves of the axis. */
static flxi_fourier_lanes group_of(const transforming *t, int64_t i)
{
    bool by_rows = t->split.inner == 1;
    int64_t lanes = t->lanes, inner = t->split.inner, groups = (inner + lanes - 1) / lanes;
    int64_t outer = by_rows ? i * lanes : i / groups, column = by_rows ? 0 : i % groups * lanes;
    int64_t left = by_rows ? t->split.outer - outer : inner - column;
    size_t size = real_size(t) * (t->is_complex ? 2 : 1), offset = size * (size_t)(outer * t->split.n * inner + column);
    size_t half = size * (size_t)(t->plan.n * inner);
    const char *x = (const char *)t->n->in[0] + offset;
    char *y = (char *)t->n->out[0] + offset;
    return (flxi_fourier_lanes){.plan = &t->plan,
                                .table = t->n->kept,
                                .form = t->is_complex ? FLXI_FORM_PAIRS : FLXI_FORM_PARTS,
                                .from_re = x,
                                .from_im = t->is_complex ? NULL : x + half,
                                .to_re = y,
                                .to_im = t->is_complex ? NULL : y + half,
                                .distance = by_rows ? t->split.n : inner,
                                .lanes = lanes,
                                .used = left < lanes ? left : lanes,
                                .by_rows = by_rows,
                                .inverse = t->inverse,
                                .scale = t->scale};
}

static void lanes_f32(const transforming *t, int64_t i, void *work)
{
    flxi_fourier_lanes group = group_of(t, i);
    flxi_fourier_lanes_f32(&group, work);
}

static void lanes_f64(const transforming *t, int64_t i, void *work)
{
    flxi_fourier_lanes group = group_of(t, i);
    flxi_fourier_lanes_f64(&group, work);
}

#define TRANSFORM_ROWS(REAL, name)                                                                               \
    static void row_##name(const transforming *t, int64_t i, void *work)                                         \
    {                                                                                                            \
        const REAL *x = (const REAL *)t->n->in[0] + 2 * t->plan.n * i;                                           \
        REAL *y = (REAL *)t->n->out[0] + 2 * t->plan.n * i;                                                      \
        if (t->is_complex)                                                                                       \
            flxi_fourier_pairs_##name(&t->plan, t->n->kept, x, y, t->inverse, (REAL)t->scale, work);             \
        else                                                                                                     \
            flxi_fourier_parts_##name(&t->plan, t->n->kept, x, y, t->inverse, (REAL)t->scale, work);             \
    }                                                                                                            \
    static void bins_##name(const transforming *t, int64_t i, void *work)                                        \
    {                                                                                                            \
        int64_t given = t->split.n, at = i * (t->real.n / 2 + 1);                                                \
        bool pairs = has_pairs(t->n->op);                                                                        \
        REAL *re = (REAL *)t->n->out[0] + (pairs ? 2 * at : at), *im = pairs ? NULL : (REAL *)t->n->out[1] + at; \
        const REAL *x = (const REAL *)t->n->in[0] + i * given;                                                   \
        flxi_fourier_bins_##name(&t->real, t->n->kept, x, given, re, im, (REAL)t->scale, work);                  \
    }                                                                                                            \
    static void signal_##name(const transforming *t, int64_t i, void *work)                                      \
    {                                                                                                            \
        int64_t given = t->split.n, at = i * given;                                                              \
        bool pairs = has_pairs(t->n->op);                                                                        \
        const REAL *re = (const REAL *)t->n->in[0] + (pairs ? 2 * at : at);                                      \
        const REAL *im = pairs ? NULL : (const REAL *)t->n->in[1] + at;                                          \
        REAL *y = (REAL *)t->n->out[0] + i * t->real.n;                                                          \
        flxi_fourier_signal_##name(&t->real, t->n->kept, re, im, given, y, (REAL)t->scale, work);                \
    }
TRANSFORM_ROWS(float, f32)
TRANSFORM_ROWS(double, f64)

/* Numbers of scratch for one slot, in whole cache lines. */
static size_t slot_count(const transforming *t)
{
    size_t count = t->is_long   ? flxi_fourier_long_work_count(&t->large)
                   : t->is_real ? flxi_fourier_real_work_count(&t->real)
                                : flxi_fourier_lanes_work_count(&t->plan, t->lanes);
    return (count + 15) / 16 * 16;
}

/* ---- Long rows: all threads work on one ---- */

typedef struct {
    const transforming *t;
    flxi_fourier_long_row row;
    flxi_fourier_halves halves; /* of a real row */
    void (*tile)(const flxi_fourier_long_row *r, int64_t tile, void *work);
    int64_t tiles;
} long_run;

enum { HALVES = 1 << 14 }; /* bins at a time */

static void first_f32(const flxi_fourier_long_row *r, int64_t tile, void *work)
{
    flxi_fourier_long_first_f32(r, tile, work);
}

static void first_f64(const flxi_fourier_long_row *r, int64_t tile, void *work)
{
    flxi_fourier_long_first_f64(r, tile, work);
}

static void second_f32(const flxi_fourier_long_row *r, int64_t tile, void *work)
{
    flxi_fourier_long_second_f32(r, tile, work);
}

static void second_f64(const flxi_fourier_long_row *r, int64_t tile, void *work)
{
    flxi_fourier_long_second_f64(r, tile, work);
}

/* Scratch of a long row: what is between its halves, the transform of a real row, the work of the slots. */
static size_t shared_count(const transforming *t)
{
    return (t->is_real ? 4 : 2) * (size_t)t->large.n;
}

static void *part(const transforming *t, const void *base, int64_t at)
{
    return (char *)(uintptr_t)base + (size_t)at * real_size(t);
}

static void run_tiles(void *user, int64_t begin, int64_t end)
{
    const long_run *r = user;
    const transforming *t = r->t;
    for (int64_t slot = begin; slot < end; slot++) {
        size_t at = shared_count(t) + (size_t)slot * slot_count(t);
        for (int64_t tile = slot; tile < r->tiles && !flxi_stopped(); tile += t->slots)
            r->tile(&r->row, tile, part(t, t->n->scratch, (int64_t)at));
    }
}

static void run_halves(void *user, int64_t begin, int64_t end)
{
    const long_run *r = user;
    if (r->t->is_wide)
        flxi_fourier_halves_f64(&r->halves, begin, end);
    else
        flxi_fourier_halves_f32(&r->halves, begin, end);
}

static void transform_long(long_run *r)
{
    const transforming *t = r->t;
    r->tile = t->is_wide ? first_f64 : first_f32;
    r->tiles = t->large.second.n / t->large.lanes;
    flxi_pool_run(t->n->pool, t->slots, 1, run_tiles, r);
    r->tile = t->is_wide ? second_f64 : second_f32;
    r->tiles = t->large.first.n / t->large.lanes;
    flxi_pool_run(t->n->pool, t->slots, 1, run_tiles, r);
}

static void set_complex_row(long_run *r, int64_t i)
{
    const transforming *t = r->t;
    const void *x = part(t, t->n->in[0], 2 * t->large.n * i);
    void *y = part(t, t->n->out[0], 2 * t->large.n * i);
    r->row.from = !t->is_complex ? FLXI_FORM_PARTS : t->inverse ? FLXI_FORM_SWAPPED : FLXI_FORM_PAIRS;
    r->row.to = r->row.from;
    r->row.given = 2 * t->large.n;
    bool swaps = t->inverse && !t->is_complex;
    r->row.from_re = part(t, x, swaps ? t->large.n : 0);
    r->row.from_im = part(t, x, swaps ? 0 : t->large.n);
    r->row.to_re = part(t, y, swaps ? t->large.n : 0);
    r->row.to_im = part(t, y, swaps ? 0 : t->large.n);
}

/* Signal i and its bins; the transform of its pairs is in the scratch. */
static void set_real_row(long_run *r, int64_t i)
{
    const transforming *t = r->t;
    int64_t h = t->large.n, given = t->split.n;
    void *re = part(t, t->n->scratch, 2 * h), *im = part(t, re, h);
    bool pairs = has_pairs(t->n->op);
    int64_t step = pairs ? 2 : 1;
    r->halves = (flxi_fourier_halves){.plan = &t->large.first, .h = h, .is_paired = pairs};
    r->halves.is_forward = is_forward_op(t->n->op);
    r->halves.roots = part(t, t->n->kept, (int64_t)flxi_fourier_long_table_count(&t->large));
    r->halves.scale = t->scale;
    if (r->halves.is_forward) {
        r->row.from = FLXI_FORM_PAIRS;
        r->row.from_re = part(t, t->n->in[0], i * given);
        r->row.given = given < 2 * h ? given : 2 * h;
        r->row.to_re = re;
        r->row.to_im = im;
        r->row.scale = 1;
        r->halves.from_re = re;
        r->halves.from_im = im;
        r->halves.to_re = part(t, t->n->out[0], i * (h + 1) * step);
        r->halves.to_im = pairs ? NULL : part(t, t->n->out[1], i * (h + 1));
        return;
    }
    r->halves.from_re = part(t, t->n->in[0], i * given * step);
    r->halves.from_im = pairs ? NULL : part(t, t->n->in[1], i * given);
    r->halves.to_re = re;
    r->halves.to_im = im;
    r->row.from_re = im; /* the inverse direction */
    r->row.from_im = re;
    r->row.to = FLXI_FORM_SWAPPED;
    r->row.to_re = part(t, t->n->out[0], i * 2 * h);
}

/* What tiles write to goes in steps through all of the memory. */
static void touch_long(const transforming *t)
{
    flxi_stop_touch(t->n->scratch, shared_count(t) * real_size(t));
    for (uint32_t k = 0; k < t->n->nout; k++)
        flxi_stop_touch(t->n->out[k],
                        (size_t)flxi_route_count(t->n->out_types[k]) * flx_dtype_size(t->n->out_types[k]->dtype));
}

static void run_long(const transforming *t)
{
    touch_long(t);
    for (int64_t i = 0; i < t->items && !flxi_stopped(); i++) {
        long_run r = {.t = t, .row = {.plan = &t->large, .table = t->n->kept, .scale = t->scale}};
        r.row.middle = t->n->scratch;
        if (t->is_real)
            set_real_row(&r, i);
        else
            set_complex_row(&r, i);
        if (t->is_real && !is_forward_op(t->n->op))
            flxi_pool_run(t->n->pool, t->large.n / 2 + 1, HALVES, run_halves, &r);
        transform_long(&r);
        if (is_forward_op(t->n->op))
            flxi_pool_run(t->n->pool, t->large.n / 2 + 1, HALVES, run_halves, &r);
    }
}

/* ---- Plans ---- */

/* Lanes instead of rows: where the axis is not the last, or the first pass of a row would have no vectors. Short
   columns are read in long pieces of rows, as many as fit into the cache beside the work. */
static int64_t lanes_of(const transforming *t)
{
    bool by_columns = t->split.inner > 1;
    int64_t others = by_columns ? t->split.inner : t->split.outer, lanes = LANES;
    bool is_weak = t->plan.inner < 128 || t->plan.radix[0] % 4;
    bool is_worth = by_columns || (is_weak && others >= LANES && t->plan.inner <= LONGEST_LANE);
    if (!is_worth)
        return 1;
    while (by_columns && 2 * lanes <= others && 2 * lanes * t->plan.inner <= MOST_IN_TILE)
        lanes *= 2;
    return others < lanes ? others : lanes;
}

static bool make_real(transforming *t)
{
    const flxi_route_node *n = t->n;
    if (!flxi_fourier_real_plan(flxi_route_int(n, "n"), &t->real))
        return false;
    bool forward = is_forward_op(n->op);
    t->scale = flxi_fourier_scale(flxi_route_int(n, "norm"), !forward, t->real.n);
    t->run = forward ? (t->is_wide ? bins_f64 : bins_f32) : (t->is_wide ? signal_f64 : signal_f32);
    const flx_type *y = n->out_types[0];
    t->items = flxi_route_count(y) / y->dims[y->rank - 1]; /* the operand may be empty */
    int64_t h = t->real.n / 2;
    bool is_complete = forward || t->split.n > h; /* missing bins are rare */
    t->is_long =
        t->real.n % 2 == 0 && is_complete && flxi_fourier_long_plan(h, t->is_wide ? FLX_F64 : FLX_F32, &t->large);
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
    t->is_long = !by_lanes && flxi_fourier_long_plan(t->plan.n, t->is_wide ? FLX_F64 : FLX_F32, &t->large);
    t->run = by_lanes ? (t->is_wide ? lanes_f64 : lanes_f32) : (t->is_wide ? row_f64 : row_f32);
    int64_t groups = (t->split.inner + t->lanes - 1) / t->lanes;
    t->items = t->split.inner > 1 ? t->split.outer * groups : (t->split.outer + t->lanes - 1) / t->lanes;
    return true;
}

static bool make(const flxi_route_node *n, int threads, transforming *t)
{
    const flx_type *x = n->in_types[0];
    *t = (transforming){.n = n,
                        .is_real = is_forward_op(n->op) || n->op == OP_irfft || n->op == OP_irfft_complex,
                        .is_complex = flxi_is_complex(x->dtype),
                        .is_wide = x->dtype == FLX_F64 || x->dtype == FLX_C128,
                        .lanes = 1};
    if (flxi_route_count(n->out_types[0]) == 0)
        return false;
    t->split = flxi_split_at(x, n->op == OP_fft_axis ? flxi_route_int(n, "axis") : x->rank - 1);
    if (!(t->is_real ? make_real(t) : make_complex(t)))
        return false;
    int64_t tiles = t->is_long ? t->large.second.n / t->large.lanes : t->items;
    t->slots = threads < tiles ? threads : tiles;
    return true;
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

/* Roots of unity for the bins of a long real row. */
static int64_t bin_roots(const transforming *t)
{
    return t->is_real ? t->large.n / 2 + 1 : 0;
}

const char *flxi_fourier_applies(const flxi_route_node *n)
{
    transforming t;
    return make(n, 1, &t) || flxi_route_count(n->out_types[0]) == 0 ? NULL : "the transform is too long";
}

size_t flxi_fourier_scratch(const flxi_route_node *n, int threads)
{
    transforming t;
    if (!make(n, threads, &t))
        return 0;
    return ((t.is_long ? shared_count(&t) : 0) + (size_t)t.slots * slot_count(&t)) * real_size(&t);
}

size_t flxi_fourier_kept(const flxi_route_node *n)
{
    transforming t;
    if (!make(n, 1, &t))
        return 0;
    size_t count = t.is_long   ? flxi_fourier_long_table_count(&t.large) + 2 * (size_t)bin_roots(&t)
                   : t.is_real ? flxi_fourier_real_table_count(&t.real)
                               : flxi_fourier_table_count(&t.plan);
    return count * real_size(&t);
}

flx_code flxi_fourier_prepare(const flxi_route_node *n, void *kept, const flxi_allocator *mem)
{
    transforming t;
    if (!make(n, 1, &t))
        return FLX_OK;
    int32_t dtype = t.is_wide ? FLX_F64 : FLX_F32;
    if (t.is_long)
        return flxi_fourier_long_fill(&t.large, bin_roots(&t), dtype, kept, mem, n->err);
    return t.is_real ? flxi_fourier_real_fill(&t.real, dtype, kept, mem, n->err)
                     : flxi_fourier_fill(&t.plan, dtype, kept, mem, n->err);
}

flx_code flxi_fourier_route(const flxi_route_node *n)
{
    transforming t;
    if (!make(n, flxi_pool_threads(n->pool), &t))
        return FLX_OK;
    if (t.is_long) {
        run_long(&t);
        return FLX_OK;
    }
    bool is_small = flxi_route_count(n->in_types[0]) < 4096; /* not worth waking a thread */
    flxi_pool_run(is_small ? NULL : n->pool, t.slots, 1, run_slots, &t);
    return FLX_OK;
}
