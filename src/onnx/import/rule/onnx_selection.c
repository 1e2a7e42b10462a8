/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_selection.c: operations whose results have as many elements as the data says. The data that decides it must be
   known when the model is read; what is selected need not be. */
#include "graph/op/eval.h"
#include "onnx/import/onnx_site.h"

#include <math.h>

static bool is_set(const flx_tensor *t, int64_t i)
{
    return flxi_load_truth(flx_tensor_type(t)->dtype, flx_tensor_const_data(t), i);
}

/* The result has an i64 for each axis of each element: a small file must not ask for minutes and gigabytes. */
static const int64_t most_positions = 1 << 24;

/* The positions of element i, one after the other along each axis. */
static void put_position(const flx_type *type, int64_t i, int64_t count, int64_t *at)
{
    for (int a = type->rank; a-- > 0; i /= type->dims[a])
        at[a * count] = i % type->dims[a];
}

void flxi_onnx_import_non_zero(onnx_site *s)
{
    flx_tensor *t = flxi_onnx_need(s, 0);
    int64_t n = t ? flx_tensor_count(t) : 0, count = 0;
    int rank = t ? flx_tensor_type(t)->rank : 0;
    for (int64_t i = 0; i < n && count * rank <= most_positions; i++)
        count += is_set(t, i);
    bool fits = count * rank <= most_positions;
    if (!fits)
        flxi_onnx_fail(s, FLX_E_SIZE, NULL, "more than %lld positions that are not zero", (long long)most_positions);
    int64_t *at = t && fits ? flxi_onnx_new(s, int64_t, count * rank) : NULL;
    for (int64_t i = 0, k = 0; at && i < n; i++)
        if (is_set(t, i))
            put_position(flx_tensor_type(t), i, count, at + k++);
    flx_tensor_release(t);
    if (at)
        s->y[0] = flx_reshape(s->g, flxi_onnx_vector(s, at, (size_t)(count * rank)), .shape = FLX_INTS(rank, count));
}

/* The positions along an axis, or of all elements, for which the condition holds. */
void flxi_onnx_import_compress(onnx_site *s)
{
    flx_val x = s->x[0];
    flx_tensor *t = flxi_onnx_need(s, 1);
    int64_t n = t ? flx_tensor_count(t) : 0, count = 0;
    int64_t *at = t ? flxi_onnx_new(s, int64_t, n) : NULL;
    for (int64_t i = 0; at && i < n; i++)
        if (is_set(t, i))
            at[count++] = i;
    flx_tensor_release(t);
    if (!at)
        return;
    bool flat = !flxi_onnx_has(s, "axis");
    int axis = flat ? 0 : flxi_onnx_axis(s, flxi_onnx_int(s, "axis", 0), flxi_onnx_rank(s, x));
    x = flat ? flx_reshape(s->g, x, .shape = FLX_INTS(-1)) : x;
    s->y[0] = flx_gather(s->g, x, flxi_onnx_vector(s, at, (size_t)count), .axis = axis);
}

/* ---- Unique ---- */

/* Slices of a tensor along an axis, or its elements. */
typedef struct {
    const flx_tensor *t;
    int64_t n, outer, inner; /* slice i has the elements (o, i, k) */
} slices;

static double element_of(const slices *x, int64_t i, int64_t o, int64_t k)
{
    return flx_tensor_get(x->t, (o * x->n + i) * x->inner + k);
}

static int compare_slices(const slices *x, int64_t a, int64_t b)
{
    for (int64_t o = 0; o < x->outer; o++)
        for (int64_t k = 0; k < x->inner; k++) {
            double u = element_of(x, a, o, k), v = element_of(x, b, o, k);
            if (u != v)
                return u < v ? -1 : 1;
        }
    return 0;
}

typedef struct {
    int64_t *first, *inverse, *counts; /* by unique slice; by slice; by unique slice */
    int64_t n;
} uniques;

/* Unique slices in order of first occurrence. */
static void find_uniques(const slices *x, uniques *u)
{
    for (int64_t i = 0; i < x->n; i++) {
        int64_t k = 0;
        while (k < u->n && compare_slices(x, u->first[k], i) != 0)
            k++;
        if (k == u->n) {
            u->first[u->n++] = i;
            u->counts[k] = 0;
        }
        u->counts[k]++;
        u->inverse[i] = k;
    }
}

/* Brings them into ascending order: insertion, since there are few. */
static void sort_uniques(onnx_site *s, const slices *x, uniques *u)
{
    int64_t *order = flxi_onnx_new(s, int64_t, u->n), *position = flxi_onnx_new(s, int64_t, u->n);
    int64_t *first = flxi_onnx_new(s, int64_t, u->n), *counts = flxi_onnx_new(s, int64_t, u->n);
    if (!order || !position || !first || !counts)
        return;
    for (int64_t i = 0; i < u->n; i++) {
        int64_t k = i;
        for (; k > 0 && compare_slices(x, u->first[order[k - 1]], u->first[i]) > 0; k--)
            order[k] = order[k - 1];
        order[k] = i;
    }
    for (int64_t k = 0; k < u->n; k++) {
        position[order[k]] = k;
        first[k] = u->first[order[k]];
        counts[k] = u->counts[order[k]];
    }
    for (int64_t i = 0; i < x->n; i++)
        u->inverse[i] = position[u->inverse[i]];
    u->first = first;
    u->counts = counts;
}

void flxi_onnx_import_unique(onnx_site *s)
{
    enum { MOST = 4096 };
    flx_val x = s->x[0];
    bool flat = !flxi_onnx_has(s, "axis");
    int axis = flat ? 0 : flxi_onnx_axis(s, flxi_onnx_int(s, "axis", 0), flxi_onnx_rank(s, x));
    flx_tensor *t = flxi_onnx_need(s, 0);
    if (!t)
        return;
    const flx_type *type = flx_tensor_type(t);
    slices d = {.t = t, .n = flat ? flx_tensor_count(t) : type->dims[axis], .outer = 1, .inner = 1};
    for (int i = 0; i < type->rank && !flat; i++)
        *(i < axis ? &d.outer : &d.inner) *= i == axis ? 1 : type->dims[i];
    uniques u = {flxi_onnx_new(s, int64_t, d.n), flxi_onnx_new(s, int64_t, d.n), flxi_onnx_new(s, int64_t, d.n), 0};
    if (u.first && u.inverse && u.counts && d.n <= MOST) {
        find_uniques(&d, &u);
        if (flxi_onnx_int(s, "sorted", 1))
            sort_uniques(s, &d, &u);
        flx_val source = flat ? flx_reshape(s->g, x, .shape = FLX_INTS(-1)) : x;
        s->y[1] = flxi_onnx_vector(s, u.first, (size_t)u.n);
        s->y[0] = flx_gather(s->g, source, s->y[1], .axis = axis);
        s->y[2] = flxi_onnx_vector(s, u.inverse, (size_t)d.n);
        s->y[3] = flxi_onnx_vector(s, u.counts, (size_t)u.n);
    } else {
        flxi_onnx_unsupported(s, "more than %d slices", MOST);
    }
    flx_tensor_release(t);
}

/* ---- Non-maximum suppression ---- */

typedef struct {
    double y0, x0, y1, x1;
} box;

static box read_box(const flx_tensor *t, int64_t at, bool centred)
{
    double v[4];
    for (int i = 0; i < 4; i++)
        v[i] = flx_tensor_get(t, at * 4 + i);
    if (centred) /* x, y, width, height */
        return (box){v[1] - v[3] / 2, v[0] - v[2] / 2, v[1] + v[3] / 2, v[0] + v[2] / 2};
    return (box){fmin(v[0], v[2]), fmin(v[1], v[3]), fmax(v[0], v[2]), fmax(v[1], v[3])};
}

static double overlap(const box *a, const box *b)
{
    double h = fmin(a->y1, b->y1) - fmax(a->y0, b->y0), w = fmin(a->x1, b->x1) - fmax(a->x0, b->x0);
    double both = h > 0 && w > 0 ? h * w : 0;
    double all = (a->y1 - a->y0) * (a->x1 - a->x0) + (b->y1 - b->y0) * (b->x1 - b->x0) - both;
    return all > 0 ? both / all : 0;
}

typedef struct {
    const flx_tensor *boxes, *scores;
    int64_t batches, classes, count; /* boxes [B, N, 4], scores [B, C, N] */
    int64_t most;
    double max_overlap, least_score;
    bool has_least, centred;
} suppression;

/* The best box that is left and does not overlap one that was chosen; -1: none. */
static int64_t next_box(const suppression *p, int64_t row, const bool *done)
{
    int64_t best = -1;
    for (int64_t i = 0; i < p->count; i++) {
        double score = flx_tensor_get(p->scores, row * p->count + i);
        bool passes = !done[i] && (!p->has_least || score > p->least_score);
        if (passes && (best < 0 || score > flx_tensor_get(p->scores, row * p->count + best)))
            best = i;
    }
    return best;
}

static void drop_overlaps(const suppression *p, int64_t batch, int64_t chosen, bool *done)
{
    box a = read_box(p->boxes, batch * p->count + chosen, p->centred);
    for (int64_t i = 0; i < p->count; i++) {
        box b = read_box(p->boxes, batch * p->count + i, p->centred);
        done[i] |= i == chosen || overlap(&a, &b) > p->max_overlap;
    }
}

static void suppress(onnx_site *s, const suppression *p)
{
    int64_t n = 0;
    int64_t *out = flxi_onnx_new(s, int64_t, 3 * p->batches * p->classes * p->count);
    for (int64_t row = 0; out && row < p->batches * p->classes; row++) {
        bool *done = flxi_onnx_new(s, bool, p->count);
        for (int64_t taken = 0; done && taken < p->most; taken++) {
            int64_t best = next_box(p, row, done);
            if (best < 0)
                break;
            drop_overlaps(p, row / p->classes, best, done);
            out[3 * n] = row / p->classes;
            out[3 * n + 1] = row % p->classes;
            out[3 * n++ + 2] = best;
        }
    }
    if (out)
        s->y[0] = flx_reshape(s->g, flxi_onnx_vector(s, out, (size_t)(3 * n)), .shape = FLX_INTS(n, 3));
}

static double scalar_or(onnx_site *s, size_t i, double absent)
{
    flx_reals v = {NULL, 0};
    return flxi_onnx_given(s->x[i]) && flxi_onnx_known_reals(s, i, &v) && v.n ? v.v[0] : absent;
}

void flxi_onnx_import_non_max_suppression(onnx_site *s)
{
    suppression p = {.centred = flxi_onnx_int(s, "center_point_box", 0) != 0, .has_least = flxi_onnx_given(s->x[4])};
    p.most = (int64_t)scalar_or(s, 2, 0);
    p.max_overlap = scalar_or(s, 3, 0);
    p.least_score = scalar_or(s, 4, 0);
    flx_tensor *boxes = flxi_onnx_failed(s) ? NULL : flxi_onnx_need(s, 0);
    flx_tensor *scores = boxes ? flxi_onnx_need(s, 1) : NULL;
    if (boxes && scores) {
        const flx_type *b = flx_tensor_type(boxes), *c = flx_tensor_type(scores);
        bool fits = b->rank == 3 && c->rank == 3 && b->dims[2] == 4 && b->dims[0] == c->dims[0] &&
                    b->dims[1] == c->dims[2] && b->dims[1] <= 4096;
        p.boxes = boxes;
        p.scores = scores;
        p.batches = b->dims[0];
        p.count = b->dims[1];
        p.classes = c->dims[1];
        if (fits)
            suppress(s, &p);
        else
            flxi_onnx_fail(s, FLX_E_SHAPE, NULL, "boxes must be [B, N, 4] and scores [B, C, N]");
    }
    flx_tensor_release(boxes);
    flx_tensor_release(scores);
}
