/* SPDX-License-Identifier: Apache-2.0 */
/* data_parallel.c: a training step whose batch is shared by processes along an axis of the mesh. Each process
   differentiates the loss of its part; the step then uses the means over the processes. Gradients travel from the last
   parameter to the first, in the order in which the backward pass has them: large ones by themselves, since joining
   them would copy them, and small ones in buckets, several joined to one exchange. Everything after the means is
   computed by all processes alike, so their parameters stay equal, bit for bit. */
#include "train/training_work.h"

#include <fluxion/ops.h>

enum { SMALL = 1 << 18, BUCKET = 1 << 20 }; /* elements: what is joined has fewer, and is at most that many */

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

/* Elements of a gradient that is joined with others; 0: it travels by itself. */
static int64_t small_elements(const flx_type *t)
{
    int64_t n = 1;
    for (int k = 0; t && k < t->rank; k++) {
        if (!flx_dim_is_static(t->dims[k]) || t->dims[k] >= SMALL)
            return 0;
        n *= t->dims[k];
        if (n >= SMALL)
            return 0;
    }
    return t ? n : 0;
}

typedef struct {
    size_t *outputs, n;
    int64_t elements;
    int32_t dtype;
} bucket;

static flx_val joined(flxi_training_work *w, const bucket *b)
{
    flx_val *flat = flxi_new(&w->arena, flx_val, b->n), all = FLX_NONE;
    if (!flat)
        return FLX_NONE;
    for (size_t k = 0; k < b->n; k++) {
        flx_val d = flx_graph_output(w->g, b->outputs[k]);
        flat[k] = flx_reshape(w->g, d, FLX_INTS(small_elements(flx_val_type(w->g, d))));
    }
    const flx_attr axis = flx_attr_int("axis", 0);
    flx_op(w->g, "concat", flat, b->n, &axis, 1, &all, 1);
    return all;
}

static void reduce_by_itself(flxi_training_work *w, size_t output)
{
    replace_output(w, output, mean_of(w, flx_graph_output(w->g, output)));
}

/* The bucket is empty afterwards. */
static void reduce_bucket(flxi_training_work *w, bucket *b)
{
    if (b->n == 1)
        reduce_by_itself(w, b->outputs[0]);
    flx_val all = b->n > 1 ? mean_of(w, joined(w, b)) : FLX_NONE;
    int64_t start = 0;
    for (size_t k = 0; b->n > 1 && k < b->n; k++) {
        const flx_type *t = flx_val_type(w->g, flx_graph_output(w->g, b->outputs[k]));
        int64_t n = small_elements(t);
        flx_val part = flx_narrow(w->g, all, 0, start, n);
        replace_output(w, b->outputs[k], t ? flx_reshape(w->g, part, (flx_ints){t->dims, (size_t)t->rank}) : FLX_NONE);
        start += n;
    }
    *b = (bucket){.outputs = b->outputs};
}

static flx_code reduce_gradients(flxi_training_work *w)
{
    size_t end = w->loss->outputs.n;
    bucket b = {.outputs = flxi_new(&w->arena, size_t, w->num_trained + 1)};
    if (!b.outputs)
        return flxi_oom(w->err, "a training step");
    for (size_t i = end + w->num_trained; i-- > end;) {
        const flx_type *t = flx_val_type(w->g, flx_graph_output(w->g, i));
        int64_t n = small_elements(t);
        if (!n) {
            reduce_by_itself(w, i);
            continue;
        }
        if (t->dtype != b.dtype || b.elements + n > BUCKET)
            reduce_bucket(w, &b);
        b.dtype = t->dtype;
        b.outputs[b.n++] = i;
        b.elements += n;
    }
    reduce_bucket(w, &b);
    return FLX_OK;
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
    FLXI_TRY(reduce_gradients(w));
    return flxi_built(w->g, w->err);
}
