/* SPDX-License-Identifier: Apache-2.0 */
/* card_conv.c: see card_conv.h. The kernels compute the definition: a thread sums the terms of an element of the result
   in a fixed order, and a block those of an element of the weights, which are many. Terms that meet padding are left
   out, not multiplied by zero. */
#include "backend/card/card_conv.h"

#include "backend/card/card_numbers.h"
#include "graph/op/eval.h"
#include "ops/opcode.h"
#include "ops/signal/conv.h"

/* ---- Text ---- */

static const char geometry[] =
    "typedef struct {\n    i32 out, taps, extent, stride, dilation, low, spread, reverse;\n    i64 x, w, z;\n} "
    "conv_axis;\n"
    "typedef struct {\n    conv_axis a[3];\n    i32 images, features, channels, per_batch_group;\n"
    "    i64 x_image, x_channel, w_feature, w_channel, z_image, z_feature;\n"
    "    i32 part[5], extent[5];\n    i64 step[5];\n    u64 count;\n} conv_form;\n"
    "typedef struct {\n    GLOBAL const T *a, *b;\n    i64 step_a, step_b;\n    i32 n;\n} terms;\n"
    /* The element i of the result: its indices by part, and where it is. */
    "FUNCTION i64 locate(GLOBAL const conv_form *f, u64 i, int *at)\n{\n    i64 to = 0;\n"
    "    for (int k = 0; k < 5; k++) {\n        const u64 q = i / f->extent[k];\n"
    "        const int r = (int)(i - q * f->extent[k]);\n        at[f->part[k]] = r;\n        to += r * f->step[k];\n"
    "        i = q;\n    }\n    return to;\n}\n"
    "FUNCTION bool divide(i64 q, int by, int end, i64 *p)\n{\n    if (q < 0)\n        return false;\n"
    "    *p = q;\n    if (by != 1) {\n        *p = q / by;\n        if (*p * by != q)\n            return false;\n    "
    "}\n"
    "    return *p < end;\n}\n"
    /* Tap t of an axis meets: the index of x for position o; the position for index p of x. Offsets are added. */
    "FUNCTION bool at_input(GLOBAL const conv_axis *a, int o, int t, i64 *x, i64 *w)\n{\n    i64 p;\n"
    "    if (!divide((i64)o * a->stride + (i64)t * a->dilation - a->low, a->spread, a->extent, &p))\n"
    "        return false;\n    *x += p * a->x;\n    *w += (a->reverse ? a->taps - 1 - t : t) * a->w;\n    return "
    "true;\n}\n"
    "FUNCTION bool at_output(GLOBAL const conv_axis *a, int p, int t, i64 *z, i64 *w)\n{\n    i64 o;\n"
    "    if (!divide((i64)p * a->spread + a->low - (i64)t * a->dilation, a->stride, a->out, &o))\n"
    "        return false;\n    *z += o * a->z;\n    *w += (a->reverse ? a->taps - 1 - t : t) * a->w;\n    return "
    "true;\n}\n"
    "FUNCTION bool meet(bool to_input, GLOBAL const conv_axis *a, int at, int t, i64 *x, i64 *w)\n"
    "{ return to_input ? at_output(a, at, t, x, w) : at_input(a, at, t, x, w); }\n";

static const char body[] =
    "FUNCTION A sum_taps(bool to_input, GLOBAL const conv_form *f, const int *at, const terms *s)\n{\n"
    "    A sum = ZERO;\n"
    "    for (int t0 = 0; t0 < f->a[0].taps; t0++) {\n        i64 x0 = 0, w0 = 0;\n"
    "        if (!meet(to_input, &f->a[0], at[2], t0, &x0, &w0))\n            continue;\n"
    "        for (int t1 = 0; t1 < f->a[1].taps; t1++) {\n            i64 x1 = x0, w1 = w0;\n"
    "            if (!meet(to_input, &f->a[1], at[3], t1, &x1, &w1))\n                continue;\n"
    "            for (int t2 = 0; t2 < f->a[2].taps; t2++) {\n                i64 x = x1, w = w1;\n"
    "                if (!meet(to_input, &f->a[2], at[4], t2, &x, &w))\n                    continue;\n"
    "                for (int c = 0; c < s->n; c++)\n"
    "                    sum = STEP(sum, LOAD(s->a[x + c * s->step_a]), LOAD(s->b[w + c * s->step_b]));\n"
    "            }\n        }\n    }\n    return sum;\n}\n"
    "KERNEL(256) conv_to_features(GLOBAL const T *RESTRICT x, "
    "GLOBAL const T *RESTRICT w, GLOBAL T *RESTRICT z, FORM(conv_form))\n{\n"
    "    const u64 i = (u64)GROUP * 256u + OWN;\n    int at[5];\n    if (i >= form.count)\n        return;\n"
    "    const i64 to = locate(&form, i, at);\n"
    "    const i64 image = (i64)(at[1] / form.per_batch_group) * form.images + at[0];\n"
    "    const terms s = {x + image * form.x_image + (i64)(at[1] / form.features) * form.channels * form.x_channel, "
    "w + at[1] * form.w_feature, form.x_channel, form.w_channel, form.channels};\n"
    "    z[to] = SAVE(sum_taps(false, &form, at, &s));\n}\n"
    "KERNEL(256) conv_to_input(GLOBAL const T *RESTRICT z, "
    "GLOBAL const T *RESTRICT w, GLOBAL T *RESTRICT x, FORM(conv_form))\n{\n"
    "    const u64 i = (u64)GROUP * 256u + OWN;\n    int at[5];\n    if (i >= form.count)\n        return;\n"
    "    const i64 to = locate(&form, i, at), first = (i64)(at[1] / form.channels) * form.features;\n"
    "    const terms s = {z + at[0] * form.z_image + first * form.z_feature, "
    "w + first * form.w_feature + at[1] % form.channels * form.w_channel, form.z_feature, form.w_feature, "
    "form.features};\n"
    "    x[to] = SAVE(sum_taps(true, &form, at, &s));\n}\n"
    /* Threads take images and positions in turn; then the sums of neighbours are added, always the same ones. */
    "KERNEL(256) conv_to_weight(GLOBAL const T *RESTRICT x, "
    "GLOBAL const T *RESTRICT z, GLOBAL T *RESTRICT w, FORM(conv_form))\n{\n"
    "    SHARED A part[256];\n    int at[5];\n    const i64 to = locate(&form, GROUP, at);\n"
    "    const u32 n2 = form.a[2].out, n1 = form.a[1].out, n0 = form.a[0].out, t = OWN;\n"
    "    const u64 all = (u64)form.images * n0 * n1 * n2;\n    A sum = ZERO;\n"
    "    x += ((i64)(at[0] / form.features) * form.channels + at[1]) * form.x_channel;\n    z += at[0] * "
    "form.z_feature;\n"
    "    for (u64 q = t; q < all; q += 256u) {\n        u32 r = (u32)q, image = r / (n0 * n1 * n2);\n"
    "        r -= image * n0 * n1 * n2;\n        const u32 o0 = r / (n1 * n2);\n        r -= o0 * n1 * n2;\n"
    "        const u32 o1 = r / n2, o2 = r - o1 * n2;\n        i64 from = image * form.x_image, none = 0;\n"
    "        if (!at_input(&form.a[0], o0, at[2], &from, &none) || !at_input(&form.a[1], o1, at[3], &from, &none) ||\n"
    "            !at_input(&form.a[2], o2, at[4], &from, &none))\n            continue;\n"
    "        const i64 by = image * form.z_image + o0 * form.a[0].z + o1 * form.a[1].z + o2 * form.a[2].z;\n"
    "        sum = STEP(sum, LOAD(x[from]), LOAD(z[by]));\n    }\n"
    "    part[t] = sum;\n    MEET;\n"
    "    for (u32 d = 128; d > 0; d /= 2) {\n"
    "        if (t < d)\n            part[t] = ADD(part[t], part[t + d]);\n        MEET;\n    }\n"
    "    if (t == 0)\n        w[to] = SAVE(part[0]);\n}\n";

static void write_conv(flxi_card_language language, int32_t variant, flxi_strbuf *out)
{
    flxi_card_add_dialect(language, out);
    flxi_add_text(out, flxi_card_number_text(flxi_card_number_at(variant)));
    flxi_add_text(out, geometry);
    flxi_add_text(out, body);
}

const flxi_card_text flxi_card_conv_text = {write_conv, FLXI_CARD_NUM_NUMBERS};

/* ---- Nodes ---- */

typedef struct {
    flxi_conv_factor x, w, z;
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
    c.x = flxi_conv_factor_of(x, c.general ? &c.general->input_axes : NULL);
    c.w = flxi_conv_factor_of(w, c.general ? &c.general->kernel_axes : NULL);
    c.z = flxi_conv_factor_of(z, c.general ? &c.general->output_axes : NULL);
    return c;
}

static bool is_small(int64_t v)
{
    return v >= -(1 << 30) && v <= 1 << 30;
}

const char *flxi_card_refuse_conv(const flxi_device_node *n)
{
    int64_t count = 0;
    conv_node c = conv_node_of(n);
    if (flxi_card_number_of(n->out_types[0]->dtype) < 0)
        return "for numbers";
    if (c.spatial > FLXI_CARD_CONV_AXES)
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
static flxi_card_conv_axis axis_of(const conv_node *c, int k)
{
    if (k >= c->spatial)
        return (flxi_card_conv_axis){.out = 1, .taps = 1, .extent = 1, .stride = 1, .dilation = 1, .spread = 1};
    return (flxi_card_conv_axis){.out = (int32_t)c->z.dims[k + 2],
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
static void order_parts(flxi_card_conv_form *f, const flxi_conv_factor *y, int spatial)
{
    enum { PARTS = FLXI_CARD_CONV_AXES + 2 };
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

flxi_card_conv_plan flxi_card_plan_conv(const flxi_device_node *n)
{
    conv_node c = conv_node_of(n);
    flxi_card_conv_plan p;
    memset(&p, 0, sizeof p); /* plans are compared by their bytes */
    p.target = c.target;
    p.dtype = n->out_types[0]->dtype;
    p.spatial = c.spatial;
    p.groups = (int32_t)c.common->groups;
    flxi_card_conv_form *f = &p.form;
    for (int k = 0; k < FLXI_CARD_CONV_AXES; k++)
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
    return p;
}

static size_t prepare(const flxi_device_node *n, void *table)
{
    flxi_card_conv_plan p = flxi_card_plan_conv(n);
    memcpy(table, &p, sizeof p);
    return 0;
}

/* ---- Running ---- */

flx_code flxi_card_run_conv(const flxi_launcher *on, const flxi_node_step *s, flx_error *err)
{
    static const char *const names[] = {"conv_to_features", "conv_to_input", "conv_to_weight"};
    const flxi_card_conv_plan *p = s->way->table;
    const flxi_card_conv_form *f = &p->form;
    const flxi_card_argument arguments[] = {FLXI_ADDRESS(s->in[0]), FLXI_ADDRESS(s->in[1]), FLXI_ADDRESS(s->out[0]),
                                            FLXI_FORM(*f)};
    return flxi_card_launch_line(on, &flxi_card_conv_text, flxi_card_number_of(p->dtype), names[p->target],
                                 p->target == FLXI_CONV_TO_WEIGHT ? 256 * f->count : f->count, arguments,
                                 FLXI_CARD_COUNT(arguments), err);
}

const flxi_card_way flxi_card_convs = {.name = "conv",
                                       .refuse = flxi_card_refuse_conv,
                                       .table_bytes = sizeof(flxi_card_conv_plan),
                                       .prepare = prepare,
                                       .run = flxi_card_run_conv};
