/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_extents.c: scalars and vectors of integers that are made from extents. With symbolic extents their elements are
   not constants, but what they are is known, so that a model which computes a shape from the shape of an input can be
   read with a symbolic batch. Each function looks at the operands of a node whose rule has run and says what is known
   of its results. */
#include "base/context.h"
#include "graph/type/dim.h"
#include "onnx/import/onnx_site.h"

enum { MAX_EXTENTS = 256 };

/* The elements of operand i; false where they are not known (no error). */
static bool extents_of(onnx_site *s, size_t i, flx_ints *out)
{
    const onnx_value *v = &s->in[i];
    if (v->kind != ONNX_T_TENSOR || flxi_onnx_rank(s, v->v) > 1)
        return false;
    *out = (flx_ints){v->extents, v->num_extents};
    if (v->extents)
        return true;
    return v->is_const && flxi_is_int((int32_t)flxi_onnx_dtype(s, v->v)) && flxi_onnx_extents(s, i, out) &&
           out->n <= MAX_EXTENTS;
}

/* Whether the node concerns extents at all: constants alone are folded. */
static bool has_symbols(const onnx_site *s)
{
    for (size_t i = 0; i < s->nx; i++)
        if (s->in[i].extents)
            return true;
    return false;
}

static flx_dim *set_extents(onnx_site *s, size_t n)
{
    flx_dim *v = n <= MAX_EXTENTS ? flxi_onnx_new(s, flx_dim, n) : NULL;
    s->out[0].extents = v;
    s->out[0].num_extents = v ? n : 0;
    return v;
}

void flxi_onnx_extents_shape(onnx_site *s)
{
    const flx_type *t = flxi_onnx_typeof(s, s->x[0]);
    const flx_type *r = flxi_onnx_typeof(s, s->y[0]);
    if (r->rank == 0) { /* Size */
        flx_dim *one = set_extents(s, 1);
        if (one)
            *one = flxi_type_count(s->g->ctx, t);
        return;
    }
    int64_t start = flxi_onnx_int(s, "start", 0);
    start = start < 0 ? start + t->rank : start;
    start = start < 0 ? 0 : start;
    flx_dim *v = set_extents(s, (size_t)r->dims[0]);
    for (int64_t i = 0; v && i < r->dims[0]; i++)
        v[i] = t->dims[start + i];
}

void flxi_onnx_extents_same(onnx_site *s)
{
    flx_ints x;
    const flx_type *r = flxi_onnx_typeof(s, s->y[0]);
    if (!has_symbols(s) || r->rank > 1 || !flxi_is_int(r->dtype) || !extents_of(s, 0, &x))
        return;
    s->out[0].extents = x.v;
    s->out[0].num_extents = x.n;
}

void flxi_onnx_extents_gather(onnx_site *s)
{
    flx_ints x, at;
    if (!has_symbols(s) || !extents_of(s, 0, &x) || !extents_of(s, 1, &at))
        return;
    flx_dim *v = set_extents(s, at.n);
    for (size_t i = 0; v && i < at.n; i++) {
        int64_t k = at.v[i] < 0 ? at.v[i] + (int64_t)x.n : at.v[i];
        v[i] = k >= 0 && k < (int64_t)x.n ? x.v[k] : FLX_DIM_INVALID;
    }
}

void flxi_onnx_extents_concat(onnx_site *s)
{
    size_t n = 0;
    flx_ints x;
    if (!has_symbols(s))
        return;
    for (size_t i = 0; i < s->nx; i++) {
        if (!extents_of(s, i, &x))
            return;
        n += x.n;
    }
    flx_dim *v = set_extents(s, n);
    for (size_t i = 0, k = 0; v && i < s->nx && extents_of(s, i, &x); i++)
        for (size_t j = 0; j < x.n; j++)
            v[k++] = x.v[j];
}

void flxi_onnx_extents_slice(onnx_site *s)
{
    flx_ints x, start, limit, step = {(const int64_t[]){1}, 1};
    bool known = has_symbols(s) && extents_of(s, 0, &x) && extents_of(s, 1, &start) && extents_of(s, 2, &limit);
    if (known && s->in[4].kind == ONNX_T_TENSOR)
        known = extents_of(s, 4, &step);
    if (!known || start.n != 1 || limit.n != 1 || step.n != 1 || step.v[0] != 1)
        return;
    int64_t n = (int64_t)x.n;
    int64_t a = start.v[0] < 0 ? start.v[0] + n : start.v[0];
    int64_t b = limit.v[0] < 0 ? limit.v[0] + n : limit.v[0];
    a = a < 0 ? 0 : a > n ? n : a;
    b = b < a ? a : b > n ? n : b;
    flx_dim *v = set_extents(s, (size_t)(b - a));
    for (int64_t i = a; v && i < b; i++)
        v[i - a] = x.v[i];
}

void flxi_onnx_extents_split(onnx_site *s)
{
    flx_ints x;
    size_t at = 0;
    if (!has_symbols(s) || !extents_of(s, 0, &x))
        return;
    for (size_t i = 0; i < s->ny; i++) {
        const flx_type *t = flxi_onnx_typeof(s, s->y[i]);
        size_t n = t->rank == 1 && flx_dim_is_static(t->dims[0]) ? (size_t)t->dims[0] : 0;
        if (at + n > x.n)
            return;
        s->out[i].extents = x.v + at;
        s->out[i].num_extents = n;
        at += n;
    }
}

static flx_dim combine(flx_context *ctx, const char *op, flx_dim a, flx_dim b)
{
    if (strcmp(op, "add") == 0)
        return flx_dim_add(ctx, a, b);
    if (strcmp(op, "sub") == 0)
        return flx_dim_sub(ctx, a, b);
    if (strcmp(op, "mul") == 0)
        return flx_dim_mul(ctx, a, b);
    if (strcmp(op, "div") == 0)
        return flx_dim_is_static(b) && b > 0 ? flxi_dim_floor_div(ctx, a, b) : FLX_DIM_INVALID;
    /* min and max of equal extents; others are not known */
    return a == b ? a : FLX_DIM_INVALID;
}

/* Integers that are known when the model is read are extents or what extents are made from: a division by zero would
   become a wrong shape. */
static bool divides_by_zero(onnx_site *s)
{
    flx_ints a, b;
    if (s->nx != 2 || strcmp(s->row->ours, "div") != 0 || !flxi_is_int((int32_t)flxi_onnx_dtype(s, s->x[1])) ||
        !s->in[1].is_const || !(s->in[0].is_const || s->in[0].extents) || !extents_of(s, 1, &b) ||
        !extents_of(s, 0, &a))
        return false;
    for (size_t i = 0; a.n && i < b.n; i++)
        if (b.v[i] == 0)
            return true;
    return false;
}

void flxi_onnx_extents_arithmetic(onnx_site *s)
{
    flx_ints a, b;
    const flx_type *r = flxi_onnx_typeof(s, s->y[0]);
    if (divides_by_zero(s)) {
        flxi_onnx_fail(s, FLX_E_NUMERIC, NULL, "an integer that is known when the model is read is divided by zero");
        return;
    }
    if (!has_symbols(s) || s->nx != 2 || r->rank > 1 || !extents_of(s, 0, &a) || !extents_of(s, 1, &b))
        return;
    size_t n = a.n > b.n ? a.n : b.n;
    if ((a.n != n && a.n != 1) || (b.n != n && b.n != 1))
        return;
    flx_dim v[MAX_EXTENTS];
    for (size_t i = 0; i < n; i++) {
        v[i] = combine(s->g->ctx, s->row->ours, a.v[a.n == 1 ? 0 : i], b.v[b.n == 1 ? 0 : i]);
        if (v[i] == FLX_DIM_INVALID)
            return;
    }
    flx_dim *out = set_extents(s, n);
    if (out)
        memcpy(out, v, n * sizeof *v);
}

void flxi_onnx_extents_prod(onnx_site *s)
{
    flx_ints x;
    if (!has_symbols(s) || !extents_of(s, 0, &x) || flxi_onnx_rank(s, s->y[0]) > 1)
        return;
    flx_dim p = 1;
    for (size_t i = 0; i < x.n; i++)
        p = flx_dim_mul(s->g->ctx, p, x.v[i]);
    flx_dim *v = p != FLX_DIM_INVALID ? set_extents(s, 1) : NULL;
    if (v)
        *v = p;
}

/* Where(Equal(shape, -1), ones, shape), which exporters write for Expand: an extent is never -1, so that a condition
   which is a literal chooses; otherwise both must agree. */
void flxi_onnx_extents_where(onnx_site *s)
{
    flx_ints a, b, c = {NULL, 0};
    if (!has_symbols(s) || !extents_of(s, 1, &a) || !extents_of(s, 2, &b) || a.n != b.n)
        return;
    if (s->in[0].is_const && !flxi_onnx_extents(s, 0, &c))
        return;
    flx_dim v[MAX_EXTENTS];
    for (size_t i = 0; i < a.n; i++) {
        if (c.v && (c.n == a.n || c.n == 1))
            v[i] = c.v[c.n == 1 ? 0 : i] ? a.v[i] : b.v[i];
        else if (a.v[i] == b.v[i])
            v[i] = a.v[i];
        else
            return;
    }
    flx_dim *out = set_extents(s, a.n);
    if (out)
        memcpy(out, v, a.n * sizeof *v);
}
