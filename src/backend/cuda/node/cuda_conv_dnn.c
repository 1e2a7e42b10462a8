/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_conv_dnn.c: convolutions by cuDNN. Only engines are taken that give the same bits on every run and compute as
   precisely as the dtype promises: f32 is never rounded to TF32, and no engine goes through another transform. cuDNN
   multiplies padding by weights as zeros. */
#include "backend/cuda/cuda_dnn.h"
#include "backend/cuda/node/cuda_conv.h"

enum { ID_X = 1, ID_W, ID_Z, MOST_RANK = FLXI_CARD_CONV_AXES + 2 };

struct flxi_dnn_conv {
    flxi_card_conv_plan of; /* found again by its bytes; by_library and workspace are 0 */
    flxi_dnn_builder b;
    flxi_dnn_conv *next;
};

/* Below, a kernel of our own takes less time than making a plan. */
static const double least_work = 1 << 22;

static double work_of(const flxi_card_conv_plan *p)
{
    const flxi_card_conv_form *f = &p->form;
    double work = (double)f->images * f->features * p->groups * f->channels;
    for (int k = 0; k < FLXI_CARD_CONV_AXES; k++)
        work *= (double)f->axis[k].out * f->axis[k].taps;
    return work;
}

static int type_of(int32_t dtype)
{
    switch (dtype) {
    case FLX_F32: return FLXI_DNN_F32;
    case FLX_F64: return FLXI_DNN_F64;
    case FLX_F16: return FLXI_DNN_F16;
    case FLX_BF16: return FLXI_DNN_BF16;
    default: return -1;
    }
}

/* Padding after the last element that taps reach. */
static int64_t padding_after(const flxi_card_conv_axis *a)
{
    int64_t reach = (int64_t)(a->out - 1) * a->stride + (int64_t)(a->taps - 1) * a->dilation + 1 - a->low;
    return reach > a->extent ? reach - a->extent : 0;
}

/* A factor as [outer, inner, extents of the axes]. */
typedef struct {
    int64_t id, outer, inner, outer_step, inner_step;
} conv_factor;

static conv_factor factor_of(const flxi_card_conv_plan *p, int64_t id)
{
    const flxi_card_conv_form *f = &p->form;
    int64_t features = (int64_t)f->features * p->groups, channels = (int64_t)f->channels * p->groups;
    switch (id) {
    case ID_X: return (conv_factor){id, f->images, channels, f->x_image, f->x_channel};
    case ID_W: return (conv_factor){id, features, f->channels, f->w_feature, f->w_channel};
    default: return (conv_factor){id, f->images, features, f->z_image, f->z_feature};
    }
}

static int64_t extent_of(const flxi_card_conv_axis *a, int64_t id)
{
    return id == ID_X ? a->extent : id == ID_W ? a->taps : a->out;
}

static int64_t step_of(const flxi_card_conv_axis *a, int64_t id)
{
    return id == ID_X ? a->x : id == ID_W ? a->w : a->z;
}

/* Dense, in the order of the axes, or with the inner one last. cuDNN does not look at other strides of weights. */
static bool is_dense(const flxi_card_conv_plan *p, int64_t id, bool is_inner_last)
{
    conv_factor c = factor_of(p, id);
    int64_t step = 1;
    if (is_inner_last && c.inner_step != step)
        return false;
    step *= is_inner_last ? c.inner : 1;
    for (int k = p->spatial; k-- > 0;) {
        if (step_of(&p->form.axis[k], id) != step)
            return false;
        step *= extent_of(&p->form.axis[k], id);
    }
    if (!is_inner_last && c.inner_step != step)
        return false;
    return c.outer_step == step * (is_inner_last ? 1 : c.inner);
}

static bool is_laid_out(const flxi_card_conv_plan *p, bool is_inner_last)
{
    return is_dense(p, ID_X, is_inner_last) && is_dense(p, ID_W, is_inner_last) && is_dense(p, ID_Z, is_inner_last);
}

static bool is_taken(const flxi_card_conv_plan *p)
{
    const flxi_card_conv_form *f = &p->form;
    if (type_of(p->dtype) < 0 || f->per_batch_group != f->features * p->groups || p->spatial < 1 ||
        work_of(p) < least_work)
        return false;
    for (int k = 0; k < FLXI_CARD_CONV_AXES; k++)
        if (f->axis[k].low < 0 || f->axis[k].spread != 1 || f->axis[k].reverse)
            return false;
    return is_laid_out(p, false) || is_laid_out(p, true);
}

/* ---- Descriptors ---- */

/* Two spatial axes at least: the first of two has extent 1 where there is one. */
static int axis_at(const flxi_card_conv_plan *p, int k)
{
    return p->spatial == 1 ? !k : k;
}

static int spatial_of(const flxi_card_conv_plan *p)
{
    return p->spatial == 1 ? 2 : p->spatial;
}

static flxi_dnn_desc add_factor(flxi_dnn_builder *b, const flxi_card_conv_plan *p, int64_t id)
{
    conv_factor c = factor_of(p, id);
    int64_t dims[MOST_RANK] = {c.outer, c.inner}, steps[MOST_RANK] = {c.outer_step, c.inner_step};
    int rank = spatial_of(p) + 2;
    for (int k = 2; k < rank; k++) {
        const flxi_card_conv_axis *a = &p->form.axis[axis_at(p, k - 2)];
        dims[k] = extent_of(a, id);
        steps[k] = step_of(a, id);
    }
    if (p->spatial == 1)
        steps[2] = dims[3] * steps[3];
    const flxi_dnn_tensor t = {.id = id, .type = type_of(p->dtype), .rank = rank, .dims = dims, .strides = steps};
    return flxi_dnn_add_tensor(b, &t);
}

static flxi_dnn_desc add_geometry(flxi_dnn_builder *b, const flxi_card_conv_plan *p)
{
    enum { DILATIONS, STRIDES, AFTER, BEFORE, LISTS };
    int64_t lists[LISTS][FLXI_CARD_CONV_AXES], spatial = spatial_of(p);
    const int math = p->dtype == FLX_F64 ? FLXI_DNN_F64 : FLXI_DNN_F32, mode = FLXI_DNN_CROSS_CORRELATION;
    flxi_dnn_desc d = flxi_dnn_make(b, FLXI_DNN_CONV);
    for (int k = 0; k < spatial; k++) {
        const flxi_card_conv_axis *a = &p->form.axis[axis_at(p, k)];
        lists[DILATIONS][k] = a->dilation;
        lists[STRIDES][k] = a->stride;
        lists[AFTER][k] = padding_after(a);
        lists[BEFORE][k] = a->low;
    }
    flxi_dnn_set(b, d, FLXI_DNN_CONV_MATH, FLXI_DNN_OF_DATA_TYPE, 1, &math);
    flxi_dnn_set(b, d, FLXI_DNN_CONV_MATH + 1, FLXI_DNN_OF_CONV_MODE, 1, &mode);
    for (int i = 0; i < LISTS; i++)
        flxi_dnn_set(b, d, FLXI_DNN_CONV_MATH + 2 + i, FLXI_DNN_OF_INT64, spatial, lists[i]);
    flxi_dnn_set(b, d, FLXI_DNN_CONV_MATH + 6, FLXI_DNN_OF_INT64, 1, &spatial);
    flxi_dnn_finish(b, d);
    return d;
}

static void describe(flxi_dnn_builder *b, const flxi_card_conv_plan *p)
{
    static const int kinds[] = {FLXI_DNN_CONV_FORWARD, FLXI_DNN_CONV_TO_INPUT, FLXI_DNN_CONV_TO_WEIGHT};
    static const int firsts[] = {FLXI_DNN_FORWARD_ALPHA, FLXI_DNN_TO_INPUT_ALPHA, FLXI_DNN_TO_WEIGHT_ALPHA};
    static const int64_t ids[] = {ID_W, ID_X, ID_Z};
    const double scales[] = {1, 0};
    const float narrow_scales[] = {1, 0};
    bool is_wide = p->dtype == FLX_F64;
    int first = firsts[p->target];
    flxi_dnn_desc d = flxi_dnn_make(b, kinds[p->target]);
    for (int i = 0; i < 2; i++)
        flxi_dnn_set(b, d, first + i, is_wide ? FLXI_DNN_OF_DOUBLE : FLXI_DNN_OF_FLOAT, 1,
                     is_wide ? (const void *)&scales[i] : &narrow_scales[i]);
    flxi_dnn_set_desc(b, d, first + 2, add_geometry(b, p));
    for (int i = 0; i < 3; i++)
        flxi_dnn_set_desc(b, d, first + 3 + i, add_factor(b, p, ids[i]));
    flxi_dnn_add_operation(b, d);
}

flx_code flxi_cuda_conv_describes(const flxi_allocator *mem, const flxi_card_conv_plan *p, flx_error *err)
{
    const flxi_cudnn *dnn = flxi_cuda_dnn(err);
    if (!dnn)
        return FLX_E_DEVICE;
    flxi_dnn_builder *b = flxi_alloc(mem, 1, sizeof *b);
    if (!b)
        return flxi_oom(err, "a convolution");
    b->dnn = dnn;
    describe(b, p);
    bool failed = b->failed;
    flxi_dnn_free(b);
    flxi_free(mem, b, 1, sizeof *b);
    return failed ? flxi_fail(err, FLX_E_DEVICE, "cuDNN does not take the convolution") : FLX_OK;
}

/* ---- Plans ---- */

static uint32_t refused_notes(int32_t dtype)
{
    enum { NOTE_WINOGRADS = 15 << FLXI_DNN_NOTE_WINOGRAD, CORE = 1 << FLXI_DNN_NOTE_TENSOR_CORE };
    uint32_t all = NOTE_WINOGRADS | 1u << FLXI_DNN_NOTE_DOWN_CONVERT | 1u << FLXI_DNN_NOTE_REDUCED_PRECISION |
                   1u << FLXI_DNN_NOTE_FFT | 1u << FLXI_DNN_NOTE_NONDETERMINISTIC;
    return dtype == FLX_F32 ? all | CORE : all;
}

/* With the lock held. */
static flxi_dnn_conv *find(flxi_card *card, const flxi_card_conv_plan *of)
{
    flxi_dnn_conv *c = card->convs;
    while (c && memcmp(&c->of, of, sizeof *of) != 0)
        c = c->next;
    if (c || !flxi_dnn_handle_of(card))
        return c;
    c = flxi_alloc(card->mem, 1, sizeof *c);
    if (!c)
        return NULL;
    c->of = *of;
    c->b.dnn = flxi_cuda_dnn(NULL);
    describe(&c->b, of);
    if (!c->b.failed)
        flxi_dnn_make_plan(&c->b, card->dnn, refused_notes(of->dtype));
    c->next = card->convs;
    return card->convs = c;
}

static const flxi_dnn_conv *plan_of(flxi_card *card, const flxi_card_conv_plan *p)
{
    flxi_card_conv_plan key;
    memcpy(&key, p, sizeof key); /* with its padding */
    key.by_library = false;
    key.workspace = 0;
    pthread_mutex_lock(&card->lock);
    const flxi_dnn_conv *c = find(card, &key);
    pthread_mutex_unlock(&card->lock);
    return c && c->b.plan ? c : NULL;
}

bool flxi_cuda_conv_by_library(flxi_card *card, const flxi_card_conv_plan *p, size_t *workspace)
{
    const flxi_dnn_conv *c = is_taken(p) ? plan_of(card, p) : NULL;
    *workspace = c && c->b.workspace > 0 ? (size_t)c->b.workspace : 0;
    return c != NULL;
}

void flxi_cuda_free_convs(flxi_card *card)
{
    for (flxi_dnn_conv *c = card->convs, *next; c; c = next) {
        next = c->next;
        flxi_dnn_free(&c->b);
        flxi_free(card->mem, c, 1, sizeof *c);
    }
    card->convs = NULL;
}

flx_code flxi_cuda_conv_run_library(flxi_card *card, flxi_cu_stream stream, const flxi_card_conv_plan *p,
                                    const void *const in[2], void *out, void *workspace, flx_error *err)
{
    const flxi_dnn_conv *c = plan_of(card, p);
    void *left = (void *)(uintptr_t)in[0], *right = (void *)(uintptr_t)in[1];
    bool to_input = p->target == FLXI_CONV_TO_INPUT, to_weight = p->target == FLXI_CONV_TO_WEIGHT;
    const int64_t ids[] = {ID_X, ID_W, ID_Z};
    void *const pointers[] = {to_input ? out : left, to_weight ? out : right,
                              to_input    ? left
                              : to_weight ? right
                                          : out};
    if (!c)
        return flxi_fail(err, FLX_E_INTERNAL, "a convolution has no plan any more");
    return flxi_dnn_execute(card, stream, &c->b, &(flxi_dnn_operands){ids, pointers, 3, workspace}, "a convolution",
                            err);
}
