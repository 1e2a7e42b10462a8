/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_conv.c: see cuda_conv.h. The kernels compute the definition: a thread sums the terms of an element of the result
   in a fixed order, and a block those of an element of the weights, which are many. Terms that meet padding are left
   out, not multiplied by zero. */
#include "backend/cuda/node/cuda_conv.h"

#include "backend/cuda/cuda_product.h"
#include "backend/cuda/cuda_way.h"
#include "graph/op/eval.h"
#include "ops/opcode.h"
#include "ops/signal/conv.h"

/* ---- Text ---- */

static const char geometry[] =
    "typedef unsigned long long u64;\ntypedef long long i64;\n"
    "struct conv_axis {\n    int out, taps, extent, stride, dilation, low, spread, reverse;\n    i64 x, w, z;\n};\n"
    "struct conv_form {\n    conv_axis a[3];\n    int images, features, channels, per_batch_group;\n"
    "    i64 x_image, x_channel, w_feature, w_channel, z_image, z_feature;\n"
    "    int part[5], extent[5];\n    i64 step[5];\n    u64 count;\n};\n"
    "struct terms {\n    const T *a, *b;\n    i64 step_a, step_b;\n    int n;\n};\n"
    /* The element i of the result: its indices by part, and where it is. */
    "static __device__ i64 locate(const conv_form &f, u64 i, int *at)\n{\n    i64 to = 0;\n"
    "    for (int k = 0; k < 5; k++) {\n        const u64 q = i / f.extent[k];\n"
    "        const int r = (int)(i - q * f.extent[k]);\n        at[f.part[k]] = r;\n        to += r * f.step[k];\n"
    "        i = q;\n    }\n    return to;\n}\n"
    "static __device__ bool divide(i64 q, int by, int end, i64 *p)\n{\n    if (q < 0)\n        return false;\n"
    "    *p = q;\n    if (by != 1) {\n        *p = q / by;\n        if (*p * by != q)\n            return false;\n    "
    "}\n"
    "    return *p < end;\n}\n"
    /* Tap t of an axis meets: the index of x for position o; the position for index p of x. Offsets are added. */
    "static __device__ bool at_input(const conv_axis &a, int o, int t, i64 *x, i64 *w)\n{\n    i64 p;\n"
    "    if (!divide((i64)o * a.stride + (i64)t * a.dilation - a.low, a.spread, a.extent, &p))\n"
    "        return false;\n    *x += p * a.x;\n    *w += (a.reverse ? a.taps - 1 - t : t) * a.w;\n    return "
    "true;\n}\n"
    "static __device__ bool at_output(const conv_axis &a, int p, int t, i64 *z, i64 *w)\n{\n    i64 o;\n"
    "    if (!divide((i64)p * a.spread + a.low - (i64)t * a.dilation, a.stride, a.out, &o))\n"
    "        return false;\n    *z += o * a.z;\n    *w += (a.reverse ? a.taps - 1 - t : t) * a.w;\n    return "
    "true;\n}\n"
    "template <bool to_input> static __device__ bool meet(const conv_axis &a, int at, int t, i64 *x, i64 *w)\n"
    "{ return to_input ? at_output(a, at, t, x, w) : at_input(a, at, t, x, w); }\n";

static const char body[] =
    "template <bool to_input> static __device__ A sum_taps(const conv_form &f, const int *at, const terms &s)\n{\n"
    "    A sum = ZERO;\n"
    "    for (int t0 = 0; t0 < f.a[0].taps; t0++) {\n        i64 x0 = 0, w0 = 0;\n"
    "        if (!meet<to_input>(f.a[0], at[2], t0, &x0, &w0))\n            continue;\n"
    "        for (int t1 = 0; t1 < f.a[1].taps; t1++) {\n            i64 x1 = x0, w1 = w0;\n"
    "            if (!meet<to_input>(f.a[1], at[3], t1, &x1, &w1))\n                continue;\n"
    "            for (int t2 = 0; t2 < f.a[2].taps; t2++) {\n                i64 x = x1, w = w1;\n"
    "                if (!meet<to_input>(f.a[2], at[4], t2, &x, &w))\n                    continue;\n"
    "                for (int c = 0; c < s.n; c++)\n"
    "                    sum = STEP(sum, (A)LOAD(s.a[x + c * s.step_a]), (A)LOAD(s.b[w + c * s.step_b]));\n"
    "            }\n        }\n    }\n    return sum;\n}\n"
    "extern \"C\" __global__ void __launch_bounds__(256) conv_to_features(const T *__restrict__ x, "
    "const T *__restrict__ w, T *__restrict__ z, const __grid_constant__ conv_form f)\n{\n"
    "    const u64 i = (u64)blockIdx.x * 256u + threadIdx.x;\n    int at[5];\n    if (i >= f.count)\n        return;\n"
    "    const i64 to = locate(f, i, at);\n"
    "    const i64 image = (i64)(at[1] / f.per_batch_group) * f.images + at[0];\n"
    "    const terms s = {x + image * f.x_image + (i64)(at[1] / f.features) * f.channels * f.x_channel, "
    "w + at[1] * f.w_feature, f.x_channel, f.w_channel, f.channels};\n"
    "    z[to] = SAVE(sum_taps<false>(f, at, s));\n}\n"
    "extern \"C\" __global__ void __launch_bounds__(256) conv_to_input(const T *__restrict__ z, "
    "const T *__restrict__ w, T *__restrict__ x, const __grid_constant__ conv_form f)\n{\n"
    "    const u64 i = (u64)blockIdx.x * 256u + threadIdx.x;\n    int at[5];\n    if (i >= f.count)\n        return;\n"
    "    const i64 to = locate(f, i, at), first = (i64)(at[1] / f.channels) * f.features;\n"
    "    const terms s = {z + at[0] * f.z_image + first * f.z_feature, "
    "w + first * f.w_feature + at[1] % f.channels * f.w_channel, f.z_feature, f.w_feature, f.features};\n"
    "    x[to] = SAVE(sum_taps<true>(f, at, s));\n}\n"
    /* Threads take images and positions in turn; then the sums of neighbours are added, always the same ones. */
    "extern \"C\" __global__ void __launch_bounds__(256) conv_to_weight(const T *__restrict__ x, "
    "const T *__restrict__ z, T *__restrict__ w, const __grid_constant__ conv_form f)\n{\n"
    "    __shared__ A part[256];\n    int at[5];\n    const i64 to = locate(f, blockIdx.x, at);\n"
    "    const unsigned n2 = f.a[2].out, n1 = f.a[1].out, n0 = f.a[0].out, t = threadIdx.x;\n"
    "    const u64 all = (u64)f.images * n0 * n1 * n2;\n    A sum = ZERO;\n"
    "    x += ((i64)(at[0] / f.features) * f.channels + at[1]) * f.x_channel;\n    z += at[0] * f.z_feature;\n"
    "    for (u64 q = t; q < all; q += 256u) {\n        unsigned r = (unsigned)q, image = r / (n0 * n1 * n2);\n"
    "        r -= image * n0 * n1 * n2;\n        const unsigned o0 = r / (n1 * n2);\n        r -= o0 * n1 * n2;\n"
    "        const unsigned o1 = r / n2, o2 = r - o1 * n2;\n        i64 from = image * f.x_image, none = 0;\n"
    "        if (!at_input(f.a[0], o0, at[2], &from, &none) || !at_input(f.a[1], o1, at[3], &from, &none) ||\n"
    "            !at_input(f.a[2], o2, at[4], &from, &none))\n            continue;\n"
    "        const i64 by = image * f.z_image + o0 * f.a[0].z + o1 * f.a[1].z + o2 * f.a[2].z;\n"
    "        sum = STEP(sum, (A)LOAD(x[from]), (A)LOAD(z[by]));\n    }\n"
    "    part[t] = sum;\n    __syncthreads();\n"
    "    for (unsigned d = 128; d > 0; d /= 2) {\n"
    "        if (t < d)\n            part[t] = part[t] + part[t + d];\n        __syncthreads();\n    }\n"
    "    if (t == 0)\n        w[to] = SAVE(part[0]);\n}\n";

static flx_code write_conv(int32_t variant, flxi_strbuf *out, flx_error *err)
{
    (void)err;
    flxi_add_text(out, flxi_cuda_number_text(flxi_cuda_number_at(variant)));
    flxi_add_text(out, geometry);
    flxi_add_text(out, body);
    return FLX_OK;
}

const flxi_cuda_text flxi_cuda_conv_text = {write_conv, FLXI_CUDA_NUM_NUMBERS};

/* ---- Nodes ---- */

/* A factor by part: dims and steps. */
typedef struct {
    int64_t dims[FLX_MAX_RANK], steps[FLX_MAX_RANK];
} factor;

static factor factor_of(const flx_type *t, const flx_ints *axes)
{
    factor f;
    int64_t strides[FLX_MAX_RANK];
    flxi_strides(t, strides);
    for (int k = 0; k < t->rank; k++) {
        int64_t axis = axes ? axes->v[k] : k;
        f.dims[k] = t->dims[axis];
        f.steps[k] = strides[axis];
    }
    return f;
}

typedef struct {
    factor x, w, z;
    const flxi_conv_common *common;
    const flxi_conv_attrs *general; /* or NULL */
    flxi_conv_target target;
    int spatial;
} conv_node;

static conv_node conv_node_of(const flxi_device_node *n)
{
    const flx_type *l = n->in_types[0], *r = n->in_types[1], *y = n->out_types[0];
    conv_node c = {.common = flxi_conv_common_of(n->op, n->attrs), .general = flxi_conv_attrs_of(n->op, n->attrs)};
    c.spatial = l->rank - 2;
    c.target = c.general                          ? FLXI_CONV_TO_FEATURES
               : n->op == OP_conv_backward_weight ? FLXI_CONV_TO_WEIGHT
                                                  : FLXI_CONV_TO_INPUT;
    const flx_type *x = c.target == FLXI_CONV_TO_INPUT ? y : l;
    const flx_type *w = c.target == FLXI_CONV_TO_WEIGHT ? y : r;
    const flx_type *z = c.general ? y : c.target == FLXI_CONV_TO_INPUT ? l : r;
    c.x = factor_of(x, c.general ? &c.general->input_axes : NULL);
    c.w = factor_of(w, c.general ? &c.general->kernel_axes : NULL);
    c.z = factor_of(z, c.general ? &c.general->output_axes : NULL);
    return c;
}

static bool is_small(int64_t v)
{
    return v >= -(1 << 30) && v <= 1 << 30;
}

static const char *refuse(const flxi_device_node *n)
{
    int64_t count = 0;
    conv_node c = conv_node_of(n);
    if (flxi_cuda_number_of(n->out_types[0]->dtype) < 0)
        return "for numbers";
    if (c.spatial > FLXI_CUDA_CONV_AXES)
        return "for at most three spatial axes";
    for (int i = 0; i < 3; i++)
        if (!flxi_static_count(i < 2 ? n->in_types[i] : n->out_types[0], &count) || !is_small(count))
            return "for at most 2^30 elements";
    for (int k = 0; k < c.spatial; k++)
        if (!is_small(c.common->stride.v[k]) || !is_small(c.common->dilation.v[k]) ||
            !is_small(c.common->padding.v[2 * k]) || (c.general && !is_small(c.general->input_dilation.v[k])))
            return "for strides, dilations and padding up to 2^30";
    return NULL;
}

/* Axis k, or one of extent 1 where there are fewer. */
static flxi_cuda_conv_axis axis_of(const conv_node *c, int k)
{
    if (k >= c->spatial)
        return (flxi_cuda_conv_axis){.out = 1, .taps = 1, .extent = 1, .stride = 1, .dilation = 1, .spread = 1};
    return (flxi_cuda_conv_axis){.out = (int32_t)c->z.dims[k + 2],
                                 .taps = (int32_t)c->w.dims[k + 2],
                                 .extent = (int32_t)c->x.dims[k + 2],
                                 .stride = (int32_t)c->common->stride.v[k],
                                 .dilation = (int32_t)c->common->dilation.v[k],
                                 .low = (int32_t)c->common->padding.v[2 * k],
                                 .spread = c->general ? (int32_t)c->general->input_dilation.v[k] : 1,
                                 .reverse = c->general && c->general->reverse.v[k],
                                 .x = c->x.steps[k + 2],
                                 .w = c->w.steps[k + 2],
                                 .z = c->z.steps[k + 2]};
}

/* Parts of the result in the order of their steps, so that neighbouring threads have neighbouring elements. */
static void order_parts(flxi_cuda_conv_form *f, const factor *y, int spatial)
{
    enum { PARTS = FLXI_CUDA_CONV_AXES + 2 };
    f->count = 1;
    for (int k = 0; k < PARTS; k++) {
        bool is_there = k < spatial + 2;
        int64_t step = is_there ? y->steps[k] : INT64_MAX;
        int to = k;
        for (; to > 0 && (f->step[to - 1] > step); to--) {
            f->part[to] = f->part[to - 1];
            f->extent[to] = f->extent[to - 1];
            f->step[to] = f->step[to - 1];
        }
        f->part[to] = k;
        f->extent[to] = is_there ? (int32_t)y->dims[k] : 1;
        f->step[to] = step;
        f->count *= (uint64_t)f->extent[to];
    }
    for (int k = 0; k < PARTS; k++)
        f->step[k] = f->step[k] == INT64_MAX ? 0 : f->step[k];
}

static size_t prepare(const flxi_device_node *n, void *table)
{
    conv_node c = conv_node_of(n);
    flxi_cuda_conv_plan p;
    flxi_card *card;
    memset(&p, 0, sizeof p); /* plans are compared by their bytes */
    p.target = c.target;
    p.dtype = n->out_types[0]->dtype;
    p.spatial = c.spatial;
    p.groups = (int32_t)c.common->groups;
    flxi_cuda_conv_form *f = &p.form;
    for (int k = 0; k < FLXI_CUDA_CONV_AXES; k++)
        f->axis[k] = axis_of(&c, k);
    f->images = (int32_t)c.z.dims[0];
    f->features = (int32_t)(c.z.dims[1] / c.common->groups);
    f->channels = (int32_t)c.w.dims[1];
    f->per_batch_group = (int32_t)(c.z.dims[1] / (c.general ? c.general->batch_groups : 1));
    f->x_image = c.x.steps[0];
    f->x_channel = c.x.steps[1];
    f->w_feature = c.w.steps[0];
    f->w_channel = c.w.steps[1];
    f->z_image = c.z.steps[0];
    f->z_feature = c.z.steps[1];
    order_parts(f, c.target == FLXI_CONV_TO_FEATURES ? &c.z : c.target == FLXI_CONV_TO_INPUT ? &c.x : &c.w, c.spatial);
    size_t workspace = 0;
    bool by_library = f->count && n->ctx && flxi_card_of(n->ctx, &card, NULL) == FLX_OK &&
                      flxi_cuda_conv_by_library(card, &p, &workspace);
    p.by_library = by_library;
    p.workspace = workspace;
    memcpy(table, &p, sizeof p);
    return workspace ? workspace + FLXI_CUDA_WORKSPACE_ALIGNMENT : 0;
}

/* ---- Running ---- */

static flx_code run(flxi_card *card, flxi_cu_stream stream, const flxi_node_step *s, flx_error *err)
{
    static const char *const names[] = {"conv_to_features", "conv_to_input", "conv_to_weight"};
    const flxi_cuda_conv_plan *p = s->way->table;
    const flxi_cuda_conv_form *f = &p->form;
    flxi_cu_function function;
    if (f->count == 0)
        return FLX_OK;
    uintptr_t all_bits = (uintptr_t)s->in[0] | (uintptr_t)s->in[1] | (uintptr_t)s->out[0];
    if (p->by_library && all_bits % 16 == 0)
        return flxi_cuda_conv_run_library(card, stream, p, s->in, s->out[0], flxi_cuda_aligned(s->scratch), err);
    FLXI_TRY(flxi_cuda_own_function(card, &flxi_cuda_conv_text, flxi_cuda_number_of(p->dtype), names[p->target],
                                    &function, err));
    void *parameters[] = {(void *)(uintptr_t)&s->in[0], (void *)(uintptr_t)&s->in[1], (void *)(uintptr_t)&s->out[0],
                          (void *)(uintptr_t)f};
    uint64_t blocks = p->target == FLXI_CONV_TO_WEIGHT ? f->count : (f->count + 255) / 256;
    return flxi_cuda_launch_line(card, stream, function, blocks, 256, parameters, err);
}

const flxi_cuda_way flxi_cuda_conv = {"conv", refuse, sizeof(flxi_cuda_conv_plan), prepare, run};
