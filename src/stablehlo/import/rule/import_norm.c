/* SPDX-License-Identifier: Apache-2.0 */
/* import_norm.c: batch normalisation. The axis of the features may be any; our ops have it second, so the other axes
   are merged before it. */
#include "stablehlo/import/import_site.h"

typedef struct {
    int axis; /* of the features */
    int rank;
    int64_t there[FLX_MAX_RANK]; /* permutation that puts the features last */
    int64_t back[FLX_MAX_RANK];
    flx_dim dims[FLX_MAX_RANK]; /* in the new order */
    flx_dim examples, features;
    double eps;
} batch_axes;

static bool find_axes(hlo_site *s, batch_axes *b)
{
    const flx_type *t = flxi_hlo_typeof(s, s->x[0]);
    const hlo_attr *eps = flxi_hlo_attr(s->op, "epsilon");
    int64_t axis = flxi_hlo_int(s, "feature_index", 0);
    if (axis < 0 || axis >= t->rank) {
        flxi_hlo_fail(s, FLX_E_ATTRIBUTE, NULL, "feature_index is %lld, but the operand has %d axes", (long long)axis,
                      t->rank);
        return false;
    }
    if (!eps || eps->kind != HLO_A_REAL) {
        flxi_hlo_fail(s, FLX_E_ATTRIBUTE, NULL, "attribute epsilon must be a number");
        return false;
    }
    *b = (batch_axes){.axis = (int)axis, .rank = t->rank, .examples = 1, .features = t->dims[axis], .eps = eps->real};
    for (int i = 0, to = 0; i < t->rank; i++) {
        int at = i == b->axis ? t->rank - 1 : to++;
        b->there[at] = i;
        b->back[i] = at;
        b->dims[at] = t->dims[i];
        if (i != b->axis)
            b->examples = flx_dim_mul(s->g->ctx, b->examples, t->dims[i]);
    }
    return true;
}

/* [examples, features] */
static flx_val flattened(hlo_site *s, const batch_axes *b, flx_val x)
{
    flx_val moved = flx_transpose(s->g, x, (flx_ints){b->there, (size_t)b->rank});
    return flx_reshape(s->g, moved, FLX_INTS(b->examples, b->features));
}

static flx_val restored(hlo_site *s, const batch_axes *b, flx_val y)
{
    flx_val moved = flx_reshape(s->g, y, (flx_ints){b->dims, (size_t)b->rank});
    return flx_transpose(s->g, moved, (flx_ints){b->back, (size_t)b->rank});
}

void flxi_hlo_import_batch_norm_inference(hlo_site *s)
{
    batch_axes b;
    if (find_axes(s, &b))
        s->y[0] = restored(
            s, &b,
            flx_batch_norm_inference(s->g, flattened(s, &b, s->x[0]), s->x[1], s->x[2], s->x[3], s->x[4], b.eps));
}

void flxi_hlo_import_batch_norm_training(hlo_site *s)
{
    batch_axes b;
    if (!find_axes(s, &b) || s->ny != 3)
        return;
    flx_batch_norm_training(s->g, flattened(s, &b, s->x[0]), s->x[1], s->x[2], s->y, b.eps);
    s->y[0] = restored(s, &b, s->y[0]);
}

/* With z = (x − mean) / sqrt(variance + eps): the cotangents of x, scale and offset in training, where mean and
   variance are those of x. */
void flxi_hlo_import_batch_norm_grad(hlo_site *s)
{
    batch_axes b;
    const flx_ints over = FLX_INTS(0);
    flx_graph *g = s->g;
    if (!find_axes(s, &b) || s->ny != 3)
        return;
    flx_val x = flattened(s, &b, s->x[0]);
    flx_val dy = flattened(s, &b, s->x[4]);
    flx_val deviation = flx_sqrt(g, flx_add(g, s->x[3], flxi_hlo_number(s, s->x[3], b.eps)));
    flx_val z = flx_div(g, flx_sub(g, x, s->x[2]), deviation);
    flx_val d_offset = flx_reduce_sum(g, dy, over, 0);
    flx_val d_scale = flx_reduce_sum(g, flx_mul(g, dy, z), over, 0);
    flx_val n = flx_cast(g, flx_dim_size(g, x, 0), flxi_hlo_dtype(s, dy));
    flx_val centred = flx_sub(g, flx_sub(g, flx_mul(g, n, dy), d_offset), flx_mul(g, z, d_scale));
    s->y[0] = restored(s, &b, flx_div(g, flx_mul(g, flx_div(g, s->x[1], deviation), centred), n));
    s->y[1] = d_scale;
    s->y[2] = d_offset;
}
