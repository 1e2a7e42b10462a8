/* SPDX-License-Identifier: Apache-2.0 */
/* conv_plain.c: convolutions term by term, for operands with infinities and NaNs, which must not meet the zeros that
   stand for padding elsewhere. Each element of the result is one sum, in double and in a fixed order: over the channels
   of a group and the taps (conv), over the features of a group and the taps (to the input), or over the images and the
   positions (to the weight). */
#include "backend/cpu/conv/conv_form.h"
#include "ops/opcode.h"

typedef enum { TO_FEATURES, TO_INPUT, TO_WEIGHT } direction;

typedef struct {
    const flxi_route_node *n;
    const flxi_conv_form *f;
    direction to;
    const flxi_conv_factor *result;
    int64_t inner[FLX_MAX_RANK]; /* extents of what is summed: channels, features or images; taps or positions */
} plain_conv;

/* The offsets of a term in the three factors. */
typedef struct {
    int64_t x, w, z;
} term_offsets;

/* Along spatial axis k: the result's index and the summed one as position of z, tap and index of x; false where they do
   not meet. */
static bool meet(const plain_conv *p, int k, int64_t at, int64_t summed, int64_t *o, int64_t *tap, int64_t *index)
{
    const flxi_slide *s = &p->f->slide[k];
    *tap = p->to == TO_WEIGHT ? at : summed;
    if (p->to == TO_INPUT) {
        int64_t reach = at + s->low - *tap * s->dilation;
        *index = at;
        *o = reach / s->stride;
        return reach >= 0 && reach % s->stride == 0 && *o < p->f->z.dims[k + 2];
    }
    *o = p->to == TO_WEIGHT ? summed : at;
    *index = flxi_slide_at(s, *o, *tap);
    return *index >= 0;
}

/* Batch, output feature and channel of a term, from the result's first two indices and the first summed one. */
static term_offsets locate_outer(const plain_conv *p, const int64_t *at, int64_t summed)
{
    const flxi_conv_form *f = p->f;
    int64_t per_group = f->z.dims[1] / f->groups;
    int64_t channels = f->w.dims[1];
    int64_t image = p->to == TO_WEIGHT ? summed : at[0];
    int64_t feature = p->to == TO_FEATURES ? at[1] : p->to == TO_WEIGHT ? at[0] : at[1] / channels * per_group + summed;
    int64_t channel = p->to == TO_FEATURES ? summed : p->to == TO_WEIGHT ? at[1] : at[1] % channels;
    int64_t batch_group = feature / (f->z.dims[1] / f->batch_groups);
    return (term_offsets){
        .x = (batch_group * f->z.dims[0] + image) * f->x.steps[0] +
             (feature / per_group * channels + channel) * f->x.steps[1],
        .w = feature * f->w.steps[0] + channel * f->w.steps[1],
        .z = image * f->z.steps[0] + feature * f->z.steps[1],
    };
}

static bool locate_term(const plain_conv *p, const int64_t *at, const int64_t *summed, term_offsets *t)
{
    const flxi_conv_form *f = p->f;
    *t = locate_outer(p, at, summed[0]);
    for (int k = 0; k < f->spatial; k++) {
        int64_t o;
        int64_t tap;
        int64_t index;
        if (!meet(p, k, at[k + 2], summed[k + 1], &o, &tap, &index))
            return false;
        t->x += index * f->x.steps[k + 2];
        t->z += o * f->z.steps[k + 2];
        t->w += (f->reverse[k] ? f->w.dims[k + 2] - 1 - tap : tap) * f->w.steps[k + 2];
    }
    return true;
}

static double sum_terms(const plain_conv *p, const int64_t *at)
{
    int32_t dtype = p->n->out_types[0]->dtype;
    int64_t summed[FLX_MAX_RANK] = {0};
    double sum = 0;
    for (int k = 0; k < p->f->spatial + 1; k++)
        if (p->inner[k] == 0)
            return 0;
    do {
        term_offsets t;
        if (!locate_term(p, at, summed, &t))
            continue;
        int64_t left = p->to == TO_INPUT ? t.z : t.x;
        int64_t right = p->to == TO_WEIGHT ? t.z : t.w;
        sum += flxi_load_double(dtype, p->n->in[0], left) * flxi_load_double(dtype, p->n->in[1], right);
    } while (flxi_next(summed, p->inner, p->f->spatial + 1));
    return sum;
}

static void sum_elements(void *user, int64_t begin, int64_t end)
{
    const plain_conv *p = user;
    const flxi_conv_factor *y = p->result;
    int rank = p->f->spatial + 2;
    for (int64_t i = begin; i < end; i++) {
        int64_t at[FLX_MAX_RANK + 1];
        int64_t rest = i;
        int64_t offset = 0;
        for (int k = rank - 1; k >= 0; k--) {
            at[k] = rest % y->dims[k];
            rest /= y->dims[k];
            offset += at[k] * y->steps[k];
        }
        flxi_store_double(p->n->out_types[0]->dtype, p->n->out[0], offset, sum_terms(p, at));
    }
}

void flxi_conv_plain(const flxi_route_node *n, const flxi_conv_form *f)
{
    plain_conv p = {.n = n, .f = f};
    p.to = n->op == OP_conv ? TO_FEATURES : n->op == OP_conv_backward_weight ? TO_WEIGHT : TO_INPUT;
    p.result = p.to == TO_FEATURES ? &f->z : p.to == TO_INPUT ? &f->x : &f->w;
    p.inner[0] = p.to == TO_FEATURES ? f->w.dims[1] : p.to == TO_INPUT ? f->z.dims[1] / f->groups : f->z.dims[0];
    for (int k = 0; k < f->spatial; k++)
        p.inner[k + 1] = p.to == TO_WEIGHT ? f->z.dims[k + 2] : f->w.dims[k + 2];
    int64_t count = flxi_route_count(n->out_types[0]);
    flxi_pool_run(n->pool, count, flxi_route_chunk(count, 64), sum_elements, &p);
}
