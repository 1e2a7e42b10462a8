/* SPDX-License-Identifier: Apache-2.0 */
/* conv_direct.c: which problem of conv_direct.h a node is.

   A convolution whose kernel has more taps than it has positions is a gradient with respect to a kernel as other
   frameworks write it: batch and channels of both operands change places. Its kernel is z of the form, its result w. */
#include "backend/cpu/conv/conv_direct.h"

#include "backend/cpu/conv/conv_form.h"
#include "ops/opcode.h"

static void *moved(const void *data, int64_t elements, int32_t dtype)
{
    return data ? (char *)(uintptr_t)data + elements * (int64_t)flx_dtype_size(dtype) : NULL;
}

/* The factor's steps along spatial axis k of the problem; the form has the last of them only when it has one. */
static int64_t spatial_step(const flxi_conv_form *f, const flxi_conv_factor *x, int k)
{
    int at = k - 2 + f->spatial;
    return at < 0 ? 0 : x->steps[at + 2];
}

static void set_steps(const flxi_conv_form *f, const flxi_conv_factor *x, flxi_conv_view *v)
{
    for (int k = 0; k < 2; k++)
        v->at[k] = spatial_step(f, x, k);
}

/* Counts taps of w from the end along axis k, from now on. */
static int64_t turn_axis(flxi_conv_view *v, int k, int64_t taps)
{
    int64_t last = taps > 0 ? (taps - 1) * v->at[k] : 0;
    v->at[k] = -v->at[k];
    return last;
}

static const flxi_slide point = {.extent = 1, .window = 1, .stride = 1, .dilation = 1, .base_dilation = 1};

static const flxi_slide *slide_of(const flxi_conv_form *f, int k)
{
    int at = k - 2 + f->spatial;
    return at < 0 ? &point : &f->slide[at];
}

static int64_t extent_of(const flxi_conv_form *f, const flxi_conv_factor *x, int k)
{
    int at = k - 2 + f->spatial;
    return at < 0 ? 1 : x->dims[at + 2];
}

static bool is_reversed(const flxi_conv_form *f, int k)
{
    int at = k - 2 + f->spatial;
    return at >= 0 && f->reverse[at];
}

static flxi_conv_problem new_problem(const flxi_route_node *n, const flxi_conv_form *f)
{
    flxi_conv_problem p = {.dtype = n->out_types[0]->dtype, .groups = f->groups * f->batch_groups};
    set_steps(f, &f->x, &p.x);
    set_steps(f, &f->w, &p.w);
    set_steps(f, &f->z, &p.z);
    return p;
}

/* How far apart are its images, or features; its channels; its groups. */
static void set_planes(flxi_conv_view *v, int64_t outer, int64_t inner, int64_t group)
{
    v->outer = outer;
    v->inner = inner;
    v->group = group;
}

/* An axis as the form has it. */
static flxi_conv_axis axis_of(const flxi_conv_form *f, int k, int64_t spread)
{
    const flxi_slide *s = slide_of(f, k);
    return (flxi_conv_axis){.out = extent_of(f, &f->z, k),
                            .taps = s->window,
                            .in = s->extent,
                            .stride = s->stride,
                            .dilation = s->dilation,
                            .low = s->low,
                            .spread = spread};
}

static const void *operand(const flxi_route_node *n, int i)
{
    return n->in ? n->in[i] : NULL;
}

static const void *result(const flxi_route_node *n)
{
    return n->out ? n->out[0] : NULL;
}

static flxi_conv_problem gather_of(const flxi_route_node *n, const flxi_conv_form *f)
{
    flxi_conv_problem p = new_problem(n, f);
    int64_t begin = 0;
    p.images = f->z.dims[0];
    p.channels = f->w.dims[1];
    p.features = f->w.dims[0] / p.groups;
    set_planes(&p.x, f->x.steps[0], f->x.steps[1],
               f->groups > 1 ? p.channels * f->x.steps[1] : p.images * f->x.steps[0]);
    set_planes(&p.w, f->w.steps[0], f->w.steps[1], p.features * f->w.steps[0]);
    set_planes(&p.z, f->z.steps[0], f->z.steps[1], p.features * f->z.steps[1]);
    for (int k = 0; k < 2; k++) {
        const flxi_slide *s = slide_of(f, k);
        p.axis[k] = axis_of(f, k, s->base_dilation);
        begin += is_reversed(f, k) ? turn_axis(&p.w, k, s->window) : 0;
    }
    p.x_data = operand(n, 0);
    p.w_data = moved(operand(n, 1), begin, p.dtype);
    p.w_first = begin;
    p.z_data = result(n);
    return p;
}

/* x = Σ w z: the problem's x is the form's z and the other way round. */
static flxi_conv_problem to_input_of(const flxi_route_node *n, const flxi_conv_form *f)
{
    flxi_conv_problem p = new_problem(n, f);
    flxi_conv_view x = p.x;
    int64_t begin = 0;
    p.images = f->x.dims[0];
    p.channels = f->w.dims[0] / f->groups;
    p.features = f->w.dims[1];
    p.x = p.z;
    set_planes(&p.x, f->z.steps[0], f->z.steps[1], p.channels * f->z.steps[1]);
    set_planes(&p.w, f->w.steps[1], f->w.steps[0], p.channels * f->w.steps[0]);
    p.z = x;
    set_planes(&p.z, f->x.steps[0], f->x.steps[1], p.features * f->x.steps[1]);
    for (int k = 0; k < 2; k++) {
        const flxi_slide *s = slide_of(f, k);
        p.axis[k] = (flxi_conv_axis){.out = extent_of(f, &f->x, k),
                                     .taps = s->window,
                                     .in = extent_of(f, &f->z, k),
                                     .stride = 1,
                                     .dilation = s->dilation,
                                     .low = (s->window - 1) * s->dilation - s->low,
                                     .spread = s->stride};
        begin += turn_axis(&p.w, k, s->window);
    }
    p.x_data = operand(n, 0);
    p.w_data = moved(operand(n, 1), begin, p.dtype);
    p.w_first = begin;
    p.z_data = result(n);
    return p;
}

static flxi_conv_problem to_weight_of(const flxi_route_node *n, const flxi_conv_form *f)
{
    flxi_conv_problem p = new_problem(n, f);
    p.images = f->x.dims[0];
    p.channels = f->w.dims[1];
    p.features = f->w.dims[0] / f->groups;
    set_planes(&p.x, f->x.steps[0], f->x.steps[1], p.channels * f->x.steps[1]);
    set_planes(&p.w, f->w.steps[0], f->w.steps[1], p.features * f->w.steps[0]);
    set_planes(&p.z, f->z.steps[0], f->z.steps[1], p.features * f->z.steps[1]);
    for (int k = 0; k < 2; k++)
        p.axis[k] = axis_of(f, k, 1);
    p.x_data = operand(n, 0);
    p.z_data = operand(n, 1);
    p.w_data = result(n);
    return p;
}

/* A convolution with few positions: the problem's images are the form's channels, its channels the form's images, its
   positions the form's taps. */
static flxi_conv_problem exchanged(const flxi_route_node *n, const flxi_conv_form *f)
{
    flxi_conv_problem q = gather_of(n, f);
    flxi_conv_problem p = q;
    p.images = q.channels;
    p.channels = q.images;
    p.x.outer = q.x.inner;
    p.x.inner = q.x.outer;
    p.z.outer = q.w.inner;
    p.z.inner = q.w.outer;
    p.z.group = q.w.group;
    p.w.outer = q.z.inner;
    p.w.inner = q.z.outer;
    p.w.group = q.z.group;
    for (int k = 0; k < 2; k++) {
        p.z.at[k] = q.w.at[k];
        p.w.at[k] = q.z.at[k];
        p.axis[k].out = q.axis[k].taps;
        p.axis[k].taps = q.axis[k].out;
        p.axis[k].stride = q.axis[k].dilation;
        p.axis[k].dilation = q.axis[k].stride;
    }
    p.z_data = q.w_data;
    p.z_first = q.w_first;
    p.w_data = q.z_data;
    p.w_first = q.z_first;
    return p;
}

/* Whether x is spread, but z meets all of it: then z, seen from x, is not spread but strided. */
static bool is_better_turned(const flxi_conv_problem *p)
{
    return p->axis[0].stride == 1 && p->axis[1].stride == 1 && (p->axis[0].spread > 1 || p->axis[1].spread > 1);
}

/* The same sums towards the weights with x and z in each other's place: nothing is multiplied with gaps. */
static flxi_conv_problem turned(const flxi_conv_problem *q)
{
    flxi_conv_problem p = *q;
    int64_t begin = 0;
    p.channels = q->features;
    p.features = q->channels;
    p.x = q->z;
    p.z = q->x;
    p.w.outer = q->w.inner;
    p.w.inner = q->w.outer;
    for (int k = 0; k < 2; k++) {
        const flxi_conv_axis *a = &q->axis[k];
        p.axis[k] = (flxi_conv_axis){.out = a->in,
                                     .taps = a->taps,
                                     .in = a->out,
                                     .stride = a->spread,
                                     .dilation = a->dilation,
                                     .low = (a->taps - 1) * a->dilation - a->low,
                                     .spread = 1};
        begin += turn_axis(&p.w, k, a->taps);
    }
    p.x_data = q->z_data;
    p.x_first = q->z_first;
    p.z_data = q->x_data;
    p.z_first = q->x_first;
    p.w_data = moved(q->w_data, begin, p.dtype);
    p.w_first = q->w_first + begin;
    return p;
}

static flxi_direct_conv weight_conv(flxi_conv_problem p)
{
    bool is_turned = is_better_turned(&p);
    return (flxi_direct_conv){.p = is_turned ? turned(&p) : p, .to_weight = true, .is_turned = is_turned};
}

static flxi_direct_conv direct_of(const flxi_route_node *n, const flxi_conv_form *f)
{
    if (n->op == OP_conv_backward_weight)
        return weight_conv(to_weight_of(n, f));
    if (n->op != OP_conv)
        return (flxi_direct_conv){.p = to_input_of(n, f)};
    int64_t positions = extent_of(f, &f->z, 0) * extent_of(f, &f->z, 1);
    if (positions < slide_of(f, 0)->window * slide_of(f, 1)->window)
        return weight_conv(exchanged(n, f));
    return (flxi_direct_conv){.p = gather_of(n, f)};
}

flxi_direct_conv flxi_order_of_conv(const flxi_device_node *given)
{
    flxi_route_node n = flxi_route_node_of(given);
    flxi_conv_form f = flxi_conv_form_of(&n);
    flxi_direct_conv d = direct_of(&n, &f);
    d.has_zeros = flxi_conv_has_padding(&n, &f);
    return d;
}

const char *flxi_order_is_direct(const flxi_device_node *given)
{
    flxi_route_node n = flxi_route_node_of(given);
    return flxi_direct_applies(&n);
}

/* ---- The route ---- */

static size_t scratch_of(const flxi_direct_conv *d, int threads)
{
    return (d->to_weight ? flxi_conv_weight_scratch : flxi_conv_gather_scratch)(&d->p, threads);
}

/* Gaps of x make phases, each of which is planned. */
static bool has_few_phases(const flxi_conv_problem *p)
{
    return p->axis[0].spread <= 64 && p->axis[1].spread <= 64 && p->axis[0].spread * p->axis[1].spread <= 64;
}

const char *flxi_direct_applies(const flxi_route_node *n)
{
    const char *why = flxi_conv_form_reason(n);
    if (why)
        return why;
    if (!flxi_is_float(n->out_types[0]->dtype))
        return "for real floats";
    if (n->in_types[0]->rank > 4)
        return "more than two spatial axes";
    if (flxi_route_count(n->out_types[0]) == 0 || flxi_route_count(n->in_types[0]) == 0 ||
        flxi_route_count(n->in_types[1]) == 0)
        return "an operand or the result is empty";
    flxi_conv_form f = flxi_conv_form_of(n);
    flxi_direct_conv d = direct_of(n, &f);
    if (!has_few_phases(&d.p))
        return "the input is spread too wide";
    double most = 0x1p24 + 4 * ((double)flxi_route_count(n->out_types[0]) + (double)flxi_route_count(n->in_types[0]) +
                                (double)flxi_route_count(n->in_types[1]));
    if ((double)scratch_of(&d, 1) > most * (double)flxi_gemm_packed_size(d.p.dtype))
        return "the padding is far larger than the input";
    return NULL;
}

size_t flxi_direct_scratch(const flxi_route_node *n, int threads)
{
    flxi_conv_form f = flxi_conv_form_of(n);
    flxi_direct_conv d = direct_of(n, &f);
    return scratch_of(&d, threads);
}

flx_code flxi_direct_route(const flxi_route_node *n)
{
    flxi_conv_form f = flxi_conv_form_of(n);
    flxi_direct_conv d = direct_of(n, &f);
    if (flxi_conv_meets_infinity(n, &f, d.is_turned ? 0 : 1)) {
        flxi_conv_plain(n, &f);
        return FLX_OK;
    }
    (d.to_weight ? flxi_conv_weight : flxi_conv_gather)(&d.p, n->pool, n->scratch);
    return FLX_OK;
}
