/* SPDX-License-Identifier: Apache-2.0 */
/* data_parallel.c: a training step whose batch is shared by processes along an axis of the mesh. Each process
   differentiates the loss of its part; the step then uses the means over the processes. Gradients travel in buckets:
   several small ones joined to one exchange, from the last parameter to the first, in the order in which the backward
   pass has them. Everything after the means is computed by all processes alike, so their parameters stay equal, bit for
   bit. */
#include "train/training_work.h"

#include <fluxion/ops.h>

enum { BUCKET = 4 << 20 }; /* elements */

static flx_val mean_of(flxi_training_work *w, flx_val x)
{
    const flx_attr attrs[] = {flx_attr_string("axis_name", w->o.data_axis), flx_attr_word("op", "mean")};
    return flx_op1(w->g, "all_reduce", &x, 1, attrs, 2);
}

static bool has_mean(const flx_type *t)
{
    return t && flxi_in(FLXI_FLOATS | FLXI_COMPLEX, t->dtype);
}

/* The output is the value from now on. */
static void replace_output(flxi_training_work *w, size_t output, flx_val v)
{
    if (v.id)
        w->g->outputs.at[output].val = v.id;
}

/* ---- Buckets ---- */

/* Elements of a gradient; 0 if that is not known yet: it travels by itself. */
static int64_t elements_of(const flx_type *t)
{
    int64_t n = 1;
    for (int k = 0; t && k < t->rank; k++) {
        if (!flx_dim_is_static(t->dims[k]) || t->dims[k] > BUCKET || n > BUCKET)
            return 0;
        n *= t->dims[k];
    }
    return t ? n : 0;
}

typedef struct {
    size_t first, n; /* outputs, downwards from `first` */
    int64_t elements;
    int32_t dtype;
} bucket;

static flx_val joined(flxi_training_work *w, const bucket *b)
{
    flx_val *flat = flxi_new(&w->arena, flx_val, b->n), all = FLX_NONE;
    if (!flat)
        return FLX_NONE;
    for (size_t k = 0; k < b->n; k++) {
        flx_val d = flx_graph_output(w->g, b->first - k);
        flat[k] = flx_reshape(w->g, d, FLX_INTS(elements_of(flx_val_type(w->g, d))));
    }
    const flx_attr axis = flx_attr_int("axis", 0);
    flx_op(w->g, "concat", flat, b->n, &axis, 1, &all, 1);
    return all;
}

static void reduce_bucket(flxi_training_work *w, const bucket *b)
{
    if (b->n == 1) {
        replace_output(w, b->first, mean_of(w, flx_graph_output(w->g, b->first)));
        return;
    }
    flx_val all = mean_of(w, joined(w, b));
    int64_t start = 0;
    for (size_t k = 0; k < b->n; k++) {
        const flx_type *t = flx_val_type(w->g, flx_graph_output(w->g, b->first - k));
        int64_t n = elements_of(t);
        flx_val part = flx_narrow(w->g, all, 0, start, n);
        replace_output(w, b->first - k, t ? flx_reshape(w->g, part, (flx_ints){t->dims, (size_t)t->rank}) : FLX_NONE);
        start += n;
    }
}

static void reduce_gradients(flxi_training_work *w)
{
    size_t end = w->loss->outputs.n;
    bucket b = {.n = 0};
    for (size_t i = end + w->num_trained; i-- > end;) {
        const flx_type *t = flx_val_type(w->g, flx_graph_output(w->g, i));
        int64_t n = elements_of(t);
        if (b.n && (!n || !b.elements || t->dtype != b.dtype || b.elements + n > BUCKET)) {
            reduce_bucket(w, &b);
            b = (bucket){.n = 0};
        }
        if (!b.n)
            b = (bucket){.first = i, .dtype = t ? t->dtype : 0};
        b.n++;
        b.elements = n ? b.elements + n : 0;
    }
    if (b.n)
        reduce_bucket(w, &b);
}

/* ---- All ---- */

flx_code flxi_reduce_over_processes(flxi_training_work *w)
{
    if (!w->o.data_axis || w->o.mesh)
        return FLX_OK;
    if (w->o.noise > 0)
        return flxi_fail_hint(w->err, FLX_E_UNSUPPORTED, "train with noise in one process",
                              "training: noise and data_axis do not work together");
    for (size_t i = 0; i < w->loss->outputs.n; i++) { /* the loss, measures, states */
        flx_val v = flx_graph_output(w->g, i);
        if (has_mean(flx_val_type(w->g, v)))
            replace_output(w, i, mean_of(w, v));
    }
    reduce_gradients(w);
    return flxi_built(w->g, w->err);
}
