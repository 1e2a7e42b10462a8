/* SPDX-License-Identifier: Apache-2.0 */
/* part_conv.c: convolutions as loops over the elements of the result. The three ops are the faces of one trilinear form
   (ops/signal/conv.c): z from x and w, x from z and w, w from x and z. Terms that meet padding are left out. */
#include "graph/op/eval.h"
#include "ops/opcode.h"
#include "ops/signal/conv.h"
#include "standalone/tiles/part_direct.h"

typedef enum { TO_FEATURES, TO_INPUT, TO_WEIGHT } direction;

typedef struct {
    flxi_sa_writer *w;
    direction to;
    int spatial;
    int64_t groups, batch_groups;
    flxi_conv_factor x, k, z;
    flxi_slide slide[FLX_MAX_RANK];
    bool reverse[FLX_MAX_RANK];
    bool is_wide; /* sums are in double, and rounded once: the terms of an operand with infinities or NaNs */
} form;

static form form_of(flxi_sa_writer *w)
{
    const flxi_device_node *n = w->n;
    const flxi_conv_attrs *a = flxi_conv_attrs_of(n->op, n->attrs);
    const flxi_conv_common *common = flxi_conv_common_of(n->op, n->attrs);
    form f = {.w = w, .spatial = n->in_types[0]->rank - 2, .groups = common->groups, .batch_groups = 1};
    f.to = n->op == OP_conv ? TO_FEATURES : n->op == OP_conv_backward_weight ? TO_WEIGHT : TO_INPUT;
    if (a) {
        f.x = flxi_conv_factor_of(n->in_types[0], &a->input_axes);
        f.k = flxi_conv_factor_of(n->in_types[1], &a->kernel_axes);
        f.z = flxi_conv_factor_of(n->out_types[0], &a->output_axes);
        f.batch_groups = a->batch_groups;
    } else {
        f.x = flxi_conv_factor_of(f.to == TO_INPUT ? n->out_types[0] : n->in_types[0], NULL);
        f.k = flxi_conv_factor_of(f.to == TO_WEIGHT ? n->out_types[0] : n->in_types[1], NULL);
        f.z = flxi_conv_factor_of(f.to == TO_INPUT ? n->in_types[0] : n->in_types[1], NULL);
    }
    for (int i = 0; i < f.spatial; i++) {
        f.slide[i] = flxi_conv_slide(common, (size_t)i, f.x.dims[i + 2], f.k.dims[i + 2]);
        if (a) {
            f.slide[i].base_dilation = a->input_dilation.v[i];
            f.reverse[i] = a->reverse.v[i];
        }
    }
    return f;
}

/* ---- Sums ---- */

static const char *sum_type(const form *f)
{
    return f->is_wide ? "double" : flxi_sa_arithmetic(f->w->n->out_types[0]->dtype);
}

static const char *sum_load(form *f, const char *element)
{
    const char *value = flxi_sa_load(f->w, f->w->n->out_types[0]->dtype, element);
    return f->is_wide ? flxi_sa_print(f->w, "(double)%s", value) : value;
}

static const char *sum_store(form *f, const char *sum)
{
    flxi_sa_writer *w = f->w;
    int32_t dtype = w->n->out_types[0]->dtype;
    if (!f->is_wide || dtype == FLX_F64)
        return flxi_sa_store(w, dtype, sum);
    if (dtype == FLX_F32)
        return flxi_sa_print(w, "(float)%s", sum);
    return flxi_sa_print(w, "%s(%s)", flxi_sa_borrow(w->f, "half.c", dtype == FLX_F16 ? "flxi_to_f16" : "flxi_to_bf16"),
                         sum);
}

/* ---- Loops ---- */

static void open_loop(form *f, const char *name, int number, int64_t count)
{
    if (number < 0)
        flxi_sa_open(f->w, "for (int64_t %s = 0; %s < %lld; %s++)", name, name, (long long)count, name);
    else
        flxi_sa_open(f->w, "for (int64_t %s%d = 0; %s%d < %lld; %s%d++)", name, number, name, number, (long long)count,
                     name, number);
}

/* Taps from the last to the first: then elements of z are in order, as in the evaluator, which adds complex numbers. */
static void open_loop_down(form *f, const char *letter, int k, int64_t count)
{
    flxi_sa_open(f->w, "for (int64_t %s%d = %lld; %s%d >= 0; %s%d--)", letter, k, (long long)count - 1, letter, k,
                 letter, k);
}

/* Along one spatial axis: declares the index of the factor that neither loop runs over, and leaves the term out where
   there is none. o: position of z, t: tap, i: index of x. */
static void write_meeting(form *f, int k)
{
    flxi_sa_writer *w = f->w;
    const flxi_slide *s = &f->slide[k];
    if (f->to == TO_INPUT) {
        flxi_sa_line(w, "const int64_t reach%d = i%d + %lld - t%d * %lld;", k, k, (long long)s->low, k,
                     (long long)s->dilation);
        flxi_sa_line(w, "const int64_t o%d = reach%d / %lld;", k, k, (long long)s->stride);
        flxi_sa_line(w, "if (reach%d < 0 || reach%d %% %lld != 0 || o%d >= %lld)", k, k, (long long)s->stride, k,
                     (long long)f->z.dims[k + 2]);
        flxi_sa_line(w, "    continue;");
        return;
    }
    const char *at = flxi_sa_print(w, "o%d * %lld + t%d * %lld - %lld", k, (long long)s->stride, k,
                                   (long long)s->dilation, (long long)s->low);
    if (s->base_dilation == 1) {
        flxi_sa_line(w, "const int64_t i%d = %s;", k, at);
    } else {
        flxi_sa_line(w, "const int64_t spread%d = %s;", k, at);
        flxi_sa_line(w, "const int64_t i%d = spread%d %% %lld == 0 ? spread%d / %lld : -1;", k, k,
                     (long long)s->base_dilation, k, (long long)s->base_dilation);
    }
    if (f->x.dims[k + 2])
        flxi_sa_line(w, "if (i%d < 0 || i%d >= %lld)", k, k, (long long)f->x.dims[k + 2]);
    else
        flxi_sa_line(w, "if (i%d <= INT64_MAX - 1) /* x is empty */", k);
    flxi_sa_line(w, "    continue;");
}

/* image, feature and channel from the two outer loops p and q, and the summed one s. */
static void write_outer(form *f)
{
    flxi_sa_writer *w = f->w;
    long long per_group = (long long)(f->z.dims[1] / f->groups), channels = (long long)f->k.dims[1];
    static const char *const image[] = {"p", "p", "s"}, *const feature[] = {"q", NULL, "p"},
                             *const channel[] = {"s", NULL, "q"};
    flxi_sa_line(w, "const int64_t image = %s;", image[f->to]);
    if (f->to == TO_INPUT) {
        flxi_sa_line(w, "const int64_t feature = q / %lld * %lld + s;", channels, per_group);
        flxi_sa_line(w, "const int64_t channel = q %% %lld;", channels);
    } else {
        flxi_sa_line(w, "const int64_t feature = %s, channel = %s;", feature[f->to], channel[f->to]);
    }
}

/* The position in x, along the first spatial axes. */
static const char *x_along(form *f, int axes)
{
    flxi_sa_writer *w = f->w;
    long long per_group = (long long)(f->z.dims[1] / f->groups), channels = (long long)f->k.dims[1];
    const char *group = f->groups == 1 ? "0" : flxi_sa_print(w, "feature / %lld", per_group);
    const char *batch = f->batch_groups == 1
                            ? "image"
                            : flxi_sa_print(w, "(feature / %lld * %lld + image)",
                                            (long long)(f->z.dims[1] / f->batch_groups), (long long)f->z.dims[0]);
    const char *channel = f->groups == 1 ? "channel" : flxi_sa_print(w, "(%s * %lld + channel)", group, channels);
    const char *at =
        flxi_sa_print(w, "%s * %lld + %s * %lld", batch, (long long)f->x.steps[0], channel, (long long)f->x.steps[1]);
    for (int k = 0; k < axes; k++)
        at = flxi_sa_print(w, "%s + i%d * %lld", at, k, (long long)f->x.steps[k + 2]);
    return at;
}

static const char *x_at(form *f)
{
    return x_along(f, f->spatial);
}

/* The beginning of a row. */
static const char *x_start(form *f)
{
    return x_along(f, f->spatial - 1);
}

static const char *k_at(form *f)
{
    flxi_sa_writer *w = f->w;
    const char *at =
        flxi_sa_print(w, "feature * %lld + channel * %lld", (long long)f->k.steps[0], (long long)f->k.steps[1]);
    for (int k = 0; k < f->spatial; k++) {
        const char *tap = f->reverse[k] ? flxi_sa_print(w, "(%lld - t%d)", (long long)(f->k.dims[k + 2] - 1), k)
                                        : flxi_sa_print(w, "t%d", k);
        at = flxi_sa_print(w, "%s + %s * %lld", at, tap, (long long)f->k.steps[k + 2]);
    }
    return at;
}

static const char *z_at(form *f)
{
    const char *at =
        flxi_sa_print(f->w, "image * %lld + feature * %lld", (long long)f->z.steps[0], (long long)f->z.steps[1]);
    for (int k = 0; k < f->spatial; k++)
        at = flxi_sa_print(f->w, "%s + o%d * %lld", at, k, (long long)f->z.steps[k + 2]);
    return at;
}

/* The position of the result's element, from its own loops. */
static const char *result_at(form *f, const flxi_conv_factor *y, const char *letter)
{
    const char *at = flxi_sa_print(f->w, "p * %lld + q * %lld", (long long)y->steps[0], (long long)y->steps[1]);
    for (int k = 0; k < f->spatial; k++)
        at = flxi_sa_print(f->w, "%s + %s%d * %lld", at, letter, k, (long long)y->steps[k + 2]);
    return at;
}

/* ---- Rows ---- */

/* A row of the result is computed at once where that is one walk: sums of all positions along the last axis, to which
   each tap adds a multiple of a row of x. Compilers vectorise it. */
static bool has_rows(const form *f)
{
    int32_t dtype = f->w->n->out_types[0]->dtype;
    int last = f->spatial + 1;
    return f->to == TO_FEATURES && f->spatial >= 1 && !flxi_is_complex(dtype) && f->z.dims[last] >= 4 &&
           f->z.dims[last] <= 1024 && f->x.dims[last] > 0 && f->slide[f->spatial - 1].base_dilation == 1;
}

/* sum += a b, fused where compiled graphs fuse it too. */
static void write_sum(form *f, const char *indent, const char *sum, const char *a, const char *b)
{
    bool fuses = f->w->f->fuses && !f->is_wide && flxi_is_float(f->w->n->out_types[0]->dtype);
    if (fuses)
        flxi_sa_line(f->w, "%s%s = fma%s(%s, %s, %s);", indent, sum, sum_type(f)[0] == 'f' ? "f" : "", a, b, sum);
    else
        flxi_sa_line(f->w, "%s%s += %s * %s;", indent, sum, a, b);
}

/* sum[o] += tap x[o stride + t dilation - low], for the positions where that is inside of x. */
static void write_row_terms(form *f)
{
    flxi_sa_writer *w = f->w;
    int k = f->spatial - 1;
    const flxi_slide *s = &f->slide[k];
    long long step = (long long)s->stride, count = (long long)f->z.dims[k + 2];
    flxi_sa_line(w, "const int64_t shift = t%d * %lld - %lld; /* of the row of x */", k, (long long)s->dilation,
                 (long long)s->low);
    flxi_sa_line(w, "const int64_t begin = shift >= 0 ? 0 : (%lld - shift) / %lld;", step - 1, step);
    flxi_sa_line(w, "const int64_t room = %lld - shift; /* positions from here on are outside */",
                 (long long)f->x.dims[k + 2]);
    flxi_sa_line(w, "const int64_t most = room <= 0 ? 0 : (room + %lld) / %lld;", step - 1, step);
    flxi_sa_line(w, "const int64_t end = most < %lld ? most : %lld;", count, count);
    flxi_sa_line(w, "const %s tap = %s;", sum_type(f), sum_load(f, flxi_sa_print(w, "x1[%s]", k_at(f))));
    flxi_sa_line(w, "const int64_t at = %s + shift * %lld;", x_start(f), (long long)f->x.steps[k + 2]);
    flxi_sa_line(w, "for (int64_t o%d = begin; o%d < end; o%d++)", k, k, k);
    write_sum(f, "    ", flxi_sa_print(w, "sum[o%d]", k), "tap",
              sum_load(f, flxi_sa_print(w, "x0[at + o%d * %lld]", k, (long long)(s->stride * f->x.steps[k + 2]))));
}

static void write_rows(form *f)
{
    flxi_sa_writer *w = f->w;
    int last = f->spatial - 1;
    open_loop(f, "p", -1, f->z.dims[0]);
    open_loop(f, "q", -1, f->z.dims[1]);
    for (int k = 0; k < last; k++)
        open_loop(f, "o", k, f->z.dims[k + 2]);
    flxi_sa_line(w, "%s sum[%lld] = {0};", sum_type(f), (long long)f->z.dims[last + 2]);
    open_loop(f, "s", -1, f->k.dims[1]);
    write_outer(f);
    for (int k = 0; k < last; k++) {
        open_loop(f, "t", k, f->k.dims[k + 2]);
        write_meeting(f, k);
    }
    open_loop(f, "t", last, f->k.dims[last + 2]);
    write_row_terms(f);
    for (int k = 0; k < f->spatial + 1; k++)
        flxi_sa_close(w);
    flxi_sa_line(w, "for (int64_t o%d = 0; o%d < %lld; o%d++)", last, last, (long long)f->z.dims[last + 2], last);
    flxi_sa_line(w, "    y0[%s] = %s;", result_at(f, &f->z, "o"), sum_store(f, flxi_sa_print(w, "sum[o%d]", last)));
    for (int k = 0; k < f->spatial + 1; k++)
        flxi_sa_close(w);
}

/* ---- The whole ---- */

static void write_term(form *f)
{
    flxi_sa_writer *w = f->w;
    int32_t dtype = w->n->out_types[0]->dtype;
    const char *left = f->to == TO_INPUT ? z_at(f) : x_at(f), *right = f->to == TO_WEIGHT ? z_at(f) : k_at(f);
    if (flxi_is_complex(dtype)) {
        flxi_sa_line(w, "const %s *a = x0 + 2 * (%s);", flxi_sa_type(dtype), left);
        flxi_sa_line(w, "const %s *b = x1 + 2 * (%s);", flxi_sa_type(dtype), right);
        flxi_sa_line(w, "sum += a[0] * b[0] - a[1] * b[1];");
        flxi_sa_line(w, "imaginary += a[0] * b[1] + a[1] * b[0];");
    } else {
        write_sum(f, "", "sum", sum_load(f, flxi_sa_print(w, "x0[%s]", left)),
                  sum_load(f, flxi_sa_print(w, "x1[%s]", right)));
    }
}

static void write_result(form *f, const char *at)
{
    flxi_sa_writer *w = f->w;
    int32_t dtype = w->n->out_types[0]->dtype;
    if (flxi_is_complex(dtype)) {
        flxi_sa_line(w, "y0[2 * (%s)] = sum;", at);
        flxi_sa_line(w, "y0[2 * (%s) + 1] = imaginary;", at);
    } else {
        flxi_sa_line(w, "y0[%s] = %s;", at, sum_store(f, "sum"));
    }
}

static void write_conv(flxi_sa_writer *w, bool is_wide)
{
    form f = form_of(w);
    f.is_wide = is_wide;
    int32_t dtype = w->n->out_types[0]->dtype;
    static const char *const outer[] = {"o", "i", "t"}, *const inner[] = {"t", "t", "o"};
    const flxi_conv_factor *y = f.to == TO_FEATURES ? &f.z : f.to == TO_INPUT ? &f.x : &f.k;
    const flxi_conv_factor *walked = f.to == TO_WEIGHT ? &f.z : &f.k;
    if (flxi_sa_count(w->n->out_types[0]) == 0)
        return;
    if (has_rows(&f)) {
        write_rows(&f);
        return;
    }
    int64_t summed = f.to == TO_FEATURES ? f.k.dims[1] : f.to == TO_INPUT ? f.z.dims[1] / f.groups : f.z.dims[0];
    open_loop(&f, "p", -1, y->dims[0]);
    open_loop(&f, "q", -1, y->dims[1]);
    for (int k = 0; k < f.spatial; k++)
        open_loop(&f, outer[f.to], k, y->dims[k + 2]);
    flxi_sa_line(w, "%s sum = 0%s;", sum_type(&f), flxi_is_complex(dtype) ? ", imaginary = 0" : "");
    open_loop(&f, "s", -1, summed);
    write_outer(&f);
    bool is_down = f.to == TO_INPUT && flxi_is_complex(dtype);
    for (int k = 0; k < f.spatial; k++) {
        if (is_down)
            open_loop_down(&f, inner[f.to], k, walked->dims[k + 2]);
        else
            open_loop(&f, inner[f.to], k, walked->dims[k + 2]);
        write_meeting(&f, k);
    }
    write_term(&f);
    for (int k = 0; k < f.spatial + 1; k++)
        flxi_sa_close(w);
    write_result(&f, result_at(&f, y, outer[f.to]));
    for (int k = 0; k < f.spatial + 2; k++)
        flxi_sa_close(w);
}

void flxi_sa_conv(flxi_sa_writer *w)
{
    write_conv(w, false);
}

void flxi_sa_conv_apart(flxi_sa_writer *w)
{
    write_conv(w, true);
}
