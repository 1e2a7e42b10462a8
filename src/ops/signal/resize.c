/* SPDX-License-Identifier: Apache-2.0 */
/* resize.c: a tensor sampled at other positions along its axes.

   Element i of an axis that grows or shrinks from n to m elements is at the position
       half_pixel     (i + ½)·n/m − ½
       align_corners  i·(n − 1)/(m − 1), 0 for m = 1
       asymmetric     i·n/m
   of the old axis. Positions are kept as exact fractions, so that nearest neighbours do not depend on rounding. nearest
   takes the closest element, the lower one of two equally close ones, or with asymmetric the one at or below; linear
   weighs two neighbours, cubic four with Keys' kernel for a = −¾. Positions beyond the edge read the edge. Axes that
   keep their extent are unchanged in all modes, since there every position is an integer. */
#include "base/host/stop.h"
#include "ops/express/express.h"
#include "ops/quant/channel.h"
#include "ops/rule/axis/along.h"
#include "ops/rule/axis/axis_map.h"
#include "ops/rule/decomposed.h"
#include "ops/rule/link.h"
#include "ops/rule/rule_lists.h"

#include <complex.h>

enum { MODE_NEAREST, MODE_LINEAR, MODE_CUBIC };
enum { AT_HALF_PIXEL, AT_ALIGN_CORNERS, AT_ASYMMETRIC };

typedef struct {
    flx_ints shape;
    int64_t mode, coordinates;
} resize_attrs;

static const flxi_attr resize_schema[] = {
    A_DIMS_REQ(resize_attrs, shape),
    A_WORD(resize_attrs, mode, "nearest linear cubic"),
    A_WORD(resize_attrs, coordinates, "half_pixel align_corners asymmetric"),
    A_END,
};

/* ---- Inference ---- */

static flx_code infer_resize(flxi_infer *f)
{
    resize_attrs *a = f->attrs;
    const flx_type *x = f->in[0];
    FLXI_TRY(flxi_norm_sizes(f, "shape", &a->shape, (size_t)x->rank, 0, 0));
    if (a->mode != MODE_NEAREST && !flxi_in(FLXI_FLOATS | FLXI_COMPLEX, x->dtype))
        return flxi_infer_fail(f, FLX_E_DTYPE, "use mode=nearest, or cast x to a float dtype",
                               "%s cannot be interpolated", flx_dtype_name(x->dtype));
    f->out[0] = *x;
    for (int k = 0; k < x->rank; k++) {
        flx_dim m = a->shape.v[k];
        if (x->dims[k] == 0 && flxi_dim_is_number(m) && m != 0)
            return flxi_infer_fail(f, FLX_E_SHAPE, NULL, "axis %d of x is empty and cannot become %lld", k,
                                   (long long)m);
        f->out[0].dims[k] = m;
    }
    return FLX_OK;
}

static flx_code infer_nearest_2x(flxi_infer *f)
{
    const flx_type *x = f->in[0];
    flxi_type_text t;
    if (x->rank != 4)
        return flxi_infer_fail(f, FLX_E_SHAPE, "resize takes any rank", "x must be [N, C, H, W], but it is %s",
                               flxi_shape_str(f->ctx, x, &t));
    f->out[0] = *x;
    for (int k = 2; k < 4; k++)
        f->out[0].dims[k] = flx_dim_mul(f->ctx, x->dims[k], 2);
    return FLX_OK;
}

/* ---- Positions ---- */

__extension__ typedef __int128 wide; /* products of extents */

typedef struct {
    int64_t below; /* the integer part, rounded down */
    wide rest, of; /* the fraction rest / of, in [0, 1) */
} position;

static position position_of(int64_t coordinates, int64_t i, int64_t n, int64_t m)
{
    wide top = (wide)i * n;
    wide bottom = m;
    if (coordinates == AT_HALF_PIXEL) {
        top = (2 * (wide)i + 1) * n - m;
        bottom = 2 * (wide)m;
    } else if (coordinates == AT_ALIGN_CORNERS) {
        top = m == 1 ? 0 : (wide)i * (n - 1);
        bottom = m == 1 ? 1 : m - 1;
    }
    wide below = top / bottom - (top % bottom < 0);
    return (position){(int64_t)below, top - below * bottom, bottom};
}

static int64_t clamped(int64_t at, int64_t n)
{
    return at < 0 ? 0 : at < n ? at : n - 1;
}

/* ---- nearest ---- */

static int64_t at_nearest(const flxi_eval *e, int axis, int64_t i)
{
    const resize_attrs *a = e->attrs;
    int64_t n = e->in[0]->type.dims[axis];
    position p = position_of(a->coordinates, i, n, e->out[0]->type.dims[axis]);
    bool up = a->coordinates != AT_ASYMMETRIC && 2 * p.rest > p.of;
    return clamped(p.below + up, n);
}

static int64_t at_half(const flxi_eval *e, int axis, int64_t i)
{
    (void)e;
    return axis < 2 ? i : i / 2;
}

static flx_code eval_nearest_2x(flxi_eval *e)
{
    return flxi_move_each(e, at_half);
}

/* ---- linear and cubic ---- */

enum { MOST_TAPS = 4 };

typedef struct {
    int count;
    int64_t first; /* position of tap 0; may be beyond the edge */
    double weight[MOST_TAPS];
} taps;

/* Keys' kernel at distance d ≥ 0, for a = −¾: one polynomial up to 1, another up to 2. */
static double keys(double d)
{
    const double a = -0.75;
    if (d <= 1)
        return ((a + 2) * d - (a + 3)) * d * d + 1;
    return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
}

static taps taps_at(const resize_attrs *a, int64_t i, int64_t n, int64_t m)
{
    position p = position_of(a->coordinates, i, n, m);
    double t = (double)p.rest / (double)p.of;
    if (a->mode == MODE_LINEAR)
        return (taps){2, p.below, {1 - t, t}};
    return (taps){4, p.below - 1, {keys(1 + t), keys(t), keys(1 - t), keys(2 - t)}};
}

typedef struct {
    const flxi_arith *arith;
    const flx_tensor *x;
    int64_t strides[FLX_MAX_RANK];
    taps taps[FLX_MAX_RANK]; /* per axis, for the current element */
    flxi_num sum;
} sampler;

/* Adds the products of weights and elements for a fixed choice of taps along the axes before `axis`. A tap of weight 0
   is skipped, so that an infinity next to an integer position has no effect. */
static void add_taps(sampler *s, int axis, int64_t at, double weight)
{
    if (axis == s->x->type.rank) {
        flxi_num v = s->arith->load(s->x->data, at);
        if (flxi_is_complex(s->arith->dtype))
            v.c *= weight;
        else
            v.f *= weight;
        s->sum = s->arith->accumulate(s->sum, v);
        return;
    }
    const taps *t = &s->taps[axis];
    for (int k = 0; k < t->count; k++)
        if (t->weight[k] != 0)
            add_taps(s, axis + 1, at + clamped(t->first + k, s->x->type.dims[axis]) * s->strides[axis],
                     weight * t->weight[k]);
}

static void interpolate(flxi_eval *e)
{
    const resize_attrs *a = e->attrs;
    const flx_type *x = &e->in[0]->type;
    flx_tensor *y = e->out[0];
    sampler s = {.arith = flxi_arith_of(x->dtype), .x = e->in[0]};
    flxi_strides(x, s.strides);
    int64_t o[FLX_MAX_RANK] = {0};
    for (int64_t i = 0; i < y->count && !flxi_stopped_by_now(); i++, flxi_next(o, y->type.dims, y->type.rank)) {
        for (int k = 0; k < x->rank; k++)
            s.taps[k] = taps_at(a, o[k], x->dims[k], y->type.dims[k]);
        s.sum = s.arith->zero;
        add_taps(&s, 0, 0, 1);
        s.arith->store(y->data, i, s.sum);
    }
}

static flx_code eval_resize(flxi_eval *e)
{
    const resize_attrs *a = e->attrs;
    if (a->mode == MODE_NEAREST)
        return flxi_move_each(e, at_nearest);
    interpolate(e);
    return FLX_OK;
}

/* ---- Decomposition: axis by axis, a sum of gathered elements times weights ---- */

typedef struct {         /* position_of for all elements of an axis at once, as values of the graph */
    flx_val below, rest; /* i64[m] */
    flx_val of;          /* i64[] */
} positions;

static flx_val integer(flxi_site *s, flx_dim d)
{
    return flxi_index_number(s, FLX_I64, d);
}

static positions positions_of(flxi_site *s, int64_t coordinates, flx_dim from, flx_dim to)
{
    flx_graph *g = s->g;
    flx_type row = flx_type_make(FLX_I64, 1, &to);
    flx_val i = flx_iota(g, &row, 0);
    flx_val n = integer(s, from);
    flx_val m = integer(s, to);
    flx_val one = integer(s, 1);
    flx_val top = flx_mul(g, i, n);
    flx_val of = m;
    if (coordinates == AT_HALF_PIXEL) {
        top = flx_sub(g, flx_mul(g, flx_add(g, flx_add(g, i, i), one), n), m);
        of = flx_add(g, m, m);
    } else if (coordinates == AT_ALIGN_CORNERS) {
        top = flx_mul(g, i, flx_sub(g, n, one));
        of = flx_max(g, flx_sub(g, m, one), one); /* for m = 1 there is only i = 0 */
    }
    flx_val rest = flx_mod(g, top, of);
    return (positions){flx_div(g, flx_sub(g, top, rest), of), rest, of};
}

/* The elements of x at positions `at` along the axis, those beyond the edge at the edge. */
static flx_val elements_at(flxi_site *s, flx_val x, int axis, flx_val at)
{
    flx_val last = flx_sub(s->g, integer(s, flxi_typeof(s, x)->dims[axis]), integer(s, 1));
    return flx_gather(s->g, x, flx_clamp(s->g, integer(s, 0), at, last), axis, NULL);
}

static flx_val nearest_along(flxi_site *s, flx_val x, int axis, const positions *p)
{
    const resize_attrs *a = s->attrs;
    flx_graph *g = s->g;
    flx_val at = p->below;
    if (a->coordinates != AT_ASYMMETRIC)
        at = flx_add(g, at, flx_cast(g, flx_gt(g, flx_add(g, p->rest, p->rest), p->of), FLX_I64));
    return elements_at(s, x, axis, at);
}

/* c0 + c1·d + c2·d² + c3·d³ */
static flx_val cubic_polynomial(flxi_site *s, flx_val d, const double c[4])
{
    flx_graph *g = s->g;
    flx_val y = flxi_number(s, d, c[3]);
    for (int k = 3; k-- > 0;)
        y = flx_add(g, flx_mul(g, y, d), flxi_number(s, d, c[k]));
    return y;
}

/* Weights of the taps, f64[m], for the fractions t; returns how many taps there are. */
static int weights_of(flxi_site *s, int64_t mode, flx_val t, flx_val weight[MOST_TAPS])
{
    static const double near[4] = {1, 0, -2.25, 1.25}; /* keys() up to 1, and from there on */
    static const double far[4] = {3, -6, 3.75, -0.75};
    flx_graph *g = s->g;
    flx_val one = flxi_number(s, t, 1.0);
    flx_val u = flx_sub(g, one, t);
    if (mode == MODE_LINEAR) {
        weight[0] = u;
        weight[1] = t;
        return 2;
    }
    weight[0] = cubic_polynomial(s, flx_add(g, one, t), far);
    weight[1] = cubic_polynomial(s, t, near);
    weight[2] = cubic_polynomial(s, u, near);
    weight[3] = cubic_polynomial(s, flx_add(g, one, u), far);
    return 4;
}

/* A weight of 0 drops its tap, so that an infinity next to an integer position has no effect. */
static flx_val interpolate_along(flxi_site *s, flx_val x, int axis, const positions *p)
{
    const resize_attrs *a = s->attrs;
    flx_graph *g = s->g;
    flx_val weight[MOST_TAPS];
    flx_val sum = FLX_NONE;
    flx_type t = *flxi_typeof(s, x);
    flx_dim column[FLX_MAX_RANK] = {flxi_typeof(s, p->rest)->dims[0]};
    for (int k = 1; k < t.rank - axis; k++)
        column[k] = 1;
    flx_val fraction = flx_div(g, flx_cast(g, p->rest, FLX_F64), flx_cast(g, p->of, FLX_F64));
    int count = weights_of(s, a->mode, fraction, weight);
    for (int k = 0; k < count; k++) {
        flx_val w = flxi_reshape_to(s, weight[k], t.rank - axis, column);
        int step = count == 2 ? k : k - 1;
        flx_val at = step ? flx_add(g, p->below, flx_scalar(g, FLX_I64, step)) : p->below;
        flx_val factor = flx_cast(g, w, (flx_dtype)flxi_part_dtype(t.dtype));
        flx_val term = flxi_by_parts(s, elements_at(s, x, axis, at), factor, flx_mul);
        sum = flxi_sum(s, sum, flxi_masked(s, flx_ne(g, w, flxi_number(s, w, 0.0)), term));
    }
    return sum;
}

static void decompose_resize(flxi_site *s, flx_val *y)
{
    const resize_attrs *a = s->attrs;
    flx_type x = *flxi_typeof(s, s->x[0]);
    flx_val v = a->mode == MODE_NEAREST ? s->x[0] : flxi_widen(s, s->x[0]);
    for (int k = 0; k < x.rank; k++) {
        if (a->shape.v[k] == x.dims[k])
            continue;
        positions p = positions_of(s, a->coordinates, x.dims[k], a->shape.v[k]);
        v = a->mode == MODE_NEAREST ? nearest_along(s, v, k, &p) : interpolate_along(s, v, k, &p);
    }
    y[0] = flxi_as_dtype(s, v, x.dtype);
}

/* ---- Gradient of growing axes ----

   Where an axis grows by a whole factor f, element i of x is read by elements f i + first … of y, the same ones for
   every i except at the edges: the gradient is a sum of strided slices of dy with weights that are known, instead of
   sums to gathered positions. */

enum { MOST_GROWTH = 8 }; /* for each unit there are up to four terms, which are written out */

static bool grows_evenly(const resize_attrs *a, const flx_type *x)
{
    if (a->mode == MODE_NEAREST || a->coordinates == AT_ALIGN_CORNERS)
        return false;
    for (int k = 0; k < x->rank; k++) {
        flx_dim n = x->dims[k], m = a->shape.v[k];
        if (n != m &&
            (!flxi_dim_is_number(n) || !flxi_dim_is_number(m) || n <= 0 || m < n || m % n != 0 || m / n > MOST_GROWTH))
            return false;
    }
    return true;
}

/* What element o of m has of element i of n; 0 beyond the end. */
static double weight_between(const resize_attrs *a, int64_t i, int64_t n, int64_t o, int64_t m)
{
    double sum = 0;
    if (o < 0 || o >= m)
        return 0;
    const taps t = taps_at(a, o, n, m);
    for (int k = 0; k < t.count; k++)
        sum += clamped(t.first + k, n) == i ? t.weight[k] : 0;
    return sum;
}

/* Elements start, start + step … of v along the axis, n of them, zeros beyond its ends. */
static flx_val strided(flxi_site *s, flx_val v, int axis, int64_t start, int64_t step, int64_t n)
{
    flx_type t = *flxi_typeof(s, v);
    int64_t low[FLX_MAX_RANK] = {0}, high[FLX_MAX_RANK] = {0}, first[FLX_MAX_RANK] = {0}, stride[FLX_MAX_RANK];
    size_t rank = (size_t)t.rank;
    int64_t end = start + (n - 1) * step + 1;
    for (int k = 0; k < t.rank; k++)
        stride[k] = 1;
    low[axis] = -start; /* negative: cropped */
    high[axis] = end - t.dims[axis];
    stride[axis] = step;
    t.dims[axis] = end - start;
    flx_val part = flx_pad(s->g, v, flxi_number(s, v, 0.0), .low = {low, rank}, .high = {high, rank});
    return flx_slice(s->g, part, .start = {first, rank}, .limit = {t.dims, rank}, .stride = {stride, rank});
}

static flx_val grown_back(flxi_site *s, flx_val dy, int axis, int64_t n)
{
    const resize_attrs *a = s->attrs;
    flx_type t = *flxi_typeof(s, dy);
    int64_t m = t.dims[axis], f = m / n, reach = a->mode == MODE_LINEAR ? 1 : 2;
    double *weights = flxi_rule_new(s, double, n);
    flx_val sum = FLX_NONE;
    for (int64_t first = -reach * f; weights && first < (reach + 1) * f; first++) {
        bool is_needed = false;
        for (int64_t i = 0; i < n; i++) {
            weights[i] = weight_between(a, i, n, i * f + first, m);
            is_needed |= weights[i] != 0;
        }
        if (!is_needed)
            continue;
        t.dims[axis] = n;
        flx_val w = flxi_channel_view(s, flxi_constants(s, FLX_F64, weights, (size_t)n), axis, &t);
        flx_val factor = flx_cast(s->g, w, (flx_dtype)flxi_part_dtype(t.dtype));
        flx_val term = flxi_by_parts(s, strided(s, dy, axis, first, f, n), factor, flx_mul);
        sum = flxi_sum(s, sum, flxi_masked(s, flx_ne(s->g, w, flxi_number(s, w, 0.0)), term));
    }
    return sum;
}

static void vjp_resize(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    const flx_type x = *flxi_typeof(s, s->x[0]);
    if (!grows_evenly(s->attrs, &x)) {
        flxi_vjp_decomposed(s, dy, dx);
        return;
    }
    flx_val v = flxi_widen(s, dy[0]);
    for (int k = x.rank; k-- > 0;)
        if (flxi_typeof(s, v)->dims[k] != x.dims[k])
            v = grown_back(s, v, k, x.dims[k]);
    dx[0] = flxi_as_dtype(s, v, x.dtype);
}

static void batch_resize(flxi_site *s, flx_val *by)
{
    resize_attrs *a = flxi_site_attrs(s);
    if (!a)
        return;
    a->shape = flxi_list_behind(s, s->size, a->shape, 0);
    by[0] = flxi_emit1(s, a, s->x, 1);
}

/* ---- resize_nearest_2x ---- */

/* [N, C, H, 2, W, 2] for an image of type x, with `fold` instead of 2. */
static void blocks_of(const flx_type *x, flx_dim fold, flx_dim dims[6])
{
    const flx_dim blocks[6] = {x->dims[0], x->dims[1], x->dims[2], fold, x->dims[3], fold};
    memcpy(dims, blocks, sizeof blocks);
}

static void decompose_nearest_2x(flxi_site *s, flx_val *y)
{
    flx_dim dims[6];
    flx_type x = *flxi_typeof(s, s->x[0]);
    blocks_of(&x, 1, dims);
    flx_val v = flxi_reshape_to(s, s->x[0], 6, dims);
    blocks_of(&x, 2, dims);
    v = flxi_expand_to(s, v, 6, dims);
    for (int k = 2; k < 4; k++)
        x.dims[k] = flx_dim_mul(s->ctx, x.dims[k], 2);
    y[0] = flxi_reshape_like(s, v, &x);
}

static void vjp_nearest_2x(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    flx_dim dims[6];
    blocks_of(flxi_typeof(s, s->x[0]), 2, dims);
    dx[0] = flx_reduce_sum(s->g, flxi_reshape_to(s, dy[0], 6, dims), FLX_INTS(3, 5), 0);
}

/* The batch joins N. */
static void batch_nearest_2x(flxi_site *s, flx_val *by)
{
    flx_type t = *flxi_typeof(s, s->x[0]);
    flx_dim dims[4] = {flx_dim_mul(s->ctx, t.dims[0], t.dims[1]), t.dims[2], t.dims[3], t.dims[4]};
    flx_val x = flxi_reshape_to(s, s->x[0], 4, dims);
    for (int k = 3; k < 5; k++)
        t.dims[k] = flx_dim_mul(s->ctx, t.dims[k], 2);
    by[0] = flxi_reshape_like(s, flxi_emit1(s, NULL, &x, 1), &t);
}

/* ---- Rules ---- */

static const flxi_sample samples_nearest_2x[] = {
    {"T[1, 2, 2, 3]", NULL, NULL, FLX_OK},
    {"T[1, 0, 2, 3]", NULL, NULL, FLX_OK},
    {"T[N, 2, N, 3]", NULL, NULL, FLX_OK},
    {"T[2, 2, 3]", NULL, NULL, FLX_E_SHAPE},
    {0},
};

static const flxi_sample samples_resize[] = {
    {"T[2, 3]", "shape=[5, 2]", NULL, FLX_OK},
    {"T[4, 3]", "shape=[7, 3], coordinates=align_corners", NULL, FLX_OK},
    {"T[4]", "shape=[9], coordinates=asymmetric", NULL, FLX_OK},
    {"f32[1, 2, 3, 4]", "shape=[1, 2, 5, 3], mode=linear", NULL, FLX_OK},
    {"f64[3, 4]", "shape=[6, 2], mode=linear, coordinates=align_corners", NULL, FLX_OK},
    {"f16[5]", "shape=[8], mode=cubic", NULL, FLX_OK},
    {"bf16[5]", "shape=[1], mode=cubic, coordinates=align_corners", NULL, FLX_OK},
    {"c64[3, 2]", "shape=[4, 4], mode=cubic, coordinates=asymmetric", NULL, FLX_OK},
    {"f32[3, 2]", "shape=[6, 6], mode=linear", NULL, FLX_OK},
    {"f64[1, 4]", "shape=[3, 8], mode=cubic", NULL, FLX_OK},
    {"c64[3]", "shape=[6], mode=linear, coordinates=asymmetric", NULL, FLX_OK},
    {"f32[1, 2]", "shape=[9, 2], mode=linear", NULL, FLX_OK},
    {"T[]", "shape=[]", NULL, FLX_OK},
    {"T[0, 3]", "shape=[0, 6]", NULL, FLX_OK},
    {"T[2, 3]", "shape=[0, 3]", NULL, FLX_OK},
    {"T[N, 3]", "shape=[2*N, 6]", NULL, FLX_OK},
    {"f32[N, 3]", "shape=[N + 1, 3], mode=linear", NULL, FLX_OK},
    {"T[2, 3]", "shape=[5]", NULL, FLX_E_ATTRIBUTE},
    {"T[2, 3]", "shape=[5, -1]", NULL, FLX_E_ATTRIBUTE},
    {"T[0, 3]", "shape=[1, 3]", NULL, FLX_E_SHAPE},
    {"i32[2, 3]", "shape=[4, 3], mode=linear", NULL, FLX_E_DTYPE},
    {0},
};

static flxi_kval pull_nearest_2x(flxi_express *e, uint32_t result, const flxi_kindex *at)
{
    (void)result;
    flxi_kindex in = flxi_at_axes(e, at);
    for (int k = 2; k < 4; k++)
        in.dim[k] = flxi_ku_div(e, in.dim[k], 2);
    return flxi_operand_at(e, 0, &in);
}

/* nearest, where the fractions below fit u32. */
static bool expresses_resize(const void *attrs, const flx_type *const *in, uint32_t nin)
{
    const resize_attrs *a = attrs;
    (void)nin;
    for (int k = 0; k < in[0]->rank; k++)
        if ((wide)4 * (in[0]->dims[k] + 1) * (a->shape.v[k] + 1) > UINT32_MAX)
            return false;
    return a->mode == MODE_NEAREST;
}

/* at_nearest of axis k: the integer part of a fraction top/bottom, whose top is never negative. Below asymmetric's, a
   position p is rounded up where its fraction exceeds ½, which gives ⌈p - ½⌉. */
static uint32_t nearest_of(flxi_express *e, int64_t coordinates, uint32_t i, int64_t n, int64_t m)
{
    if (n == m || n == 0 || m == 0)
        return i;
    if (coordinates == AT_ASYMMETRIC)
        return flxi_ku_div(e, flxi_ku_mul(e, i, n), m);
    /* half_pixel: ⌈(i + ½)·n/m⌉ - 1 = ⌊((2i + 1)·n - 1) / 2m⌋. align_corners: ⌈(2i·(n - 1) - (m - 1)) / 2(m - 1)⌉. */
    if (coordinates == AT_HALF_PIXEL) {
        uint32_t top = flxi_ku_add(e, flxi_ku_mul(e, i, 2 * n), flxi_ku(e, n - 1));
        return flxi_ku_div(e, top, 2 * m);
    }
    if (m == 1)
        return flxi_ku(e, 0);
    uint32_t top = flxi_ku_add(e, flxi_ku_mul(e, i, 2 * (n - 1)), flxi_ku(e, m - 2));
    return flxi_ku_div(e, top, 2 * (m - 1));
}

static flxi_kval pull_resize(flxi_express *e, uint32_t result, const flxi_kindex *at)
{
    const resize_attrs *a = e->attrs;
    flxi_kindex in = flxi_at_axes(e, at);
    for (int k = 0; k < e->in[0]->rank; k++)
        in.dim[k] = nearest_of(e, a->coordinates, in.dim[k], e->in[0]->dims[k], e->out[result]->dims[k]);
    return flxi_operand_at(e, 0, &in);
}

const flxi_rules flxi_rules_resize_nearest_2x = {
    .infer = infer_nearest_2x,
    .eval = eval_nearest_2x,
    .pull = pull_nearest_2x,
    .vjp = vjp_nearest_2x,
    .batch = batch_nearest_2x,
    .decompose = decompose_nearest_2x,
    .samples = samples_nearest_2x,
    .link = flxi_link_dense,
};

const flxi_rules flxi_rules_resize = {
    .infer = infer_resize,
    .eval = eval_resize,
    .pull = pull_resize,
    .expresses = expresses_resize,
    .schema = resize_schema,
    .attrs_size = sizeof(resize_attrs),
    .vjp = vjp_resize,
    .batch = batch_resize,
    .decompose = decompose_resize,
    .samples = samples_resize,
    .link = flxi_link_dense,
};
