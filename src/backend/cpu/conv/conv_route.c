/* SPDX-License-Identifier: Apache-2.0 */
/* conv_route.c: convolutions as matrix products with the matrix of patches (conv_patches.h), which is made while
   packing: no copy of the input, and the packed parts are as fast to multiply with as any matrix.

   The faces of the trilinear form of ops/signal/conv.c, per image and group:
     conv             z[feature, position] = w[feature, (channel, taps)] · patches of x
     to the input     x[channel, position] = w[channel, (feature, taps)] · patches of z, one product for each remainder
                      of positions by the stride
     to the weight    w[feature, (channel, taps)] = z[feature, (image, position)] · patches of x
   Where the result's features are neighbours in memory (channels last) the product is turned: rows are positions.

   Terms in the padding are 0 times an element of the second operand here, while the definition leaves them out. That is
   the same unless the element is infinite or NaN: then the definition is computed (conv_plain.c). */
#include "backend/cpu/conv/conv_form.h"
#include "backend/cpu/conv/conv_patches.h"
#include "base/number.h"
#include "graph/type/finite.h"
#include "ops/opcode.h"
#include "ops/signal/conv.h"

typedef struct {
    flxi_patches patches;
    flxi_gemm_source source; /* reads patches: the plan must not move once this is set */
    flxi_gemm product;
} conv_plan;

/* ---- The form of a node ---- */

flxi_conv_form flxi_conv_form_of(const flxi_route_node *n)
{
    const flxi_conv_common *a = flxi_conv_common_of(n->op, n->attrs);
    const flxi_conv_attrs *general = flxi_conv_attrs_of(n->op, n->attrs);
    const flx_type *l = n->in_types[0];
    const flx_type *r = n->in_types[1];
    const flx_type *y = n->out_types[0];
    bool to_weight = n->op == OP_conv_backward_weight;
    flxi_conv_form f = {.spatial = l->rank > 2 ? l->rank - 2 : 1, .groups = a->groups, .batch_groups = 1};
    if (general) {
        f.batch_groups = general->batch_groups;
        f.x = flxi_conv_factor_of(l, &general->input_axes);
        f.w = flxi_conv_factor_of(r, &general->kernel_axes);
        f.z = flxi_conv_factor_of(y, &general->output_axes);
    } else {
        f.x = flxi_conv_factor_of(to_weight ? l : y, NULL);
        f.w = flxi_conv_factor_of(to_weight ? y : r, NULL);
        f.z = flxi_conv_factor_of(to_weight ? r : l, NULL);
    }
    f.slide[0] = (flxi_slide){.extent = 1, .window = 1, .stride = 1, .base_dilation = 1, .dilation = 1};
    for (int k = 0; k < l->rank - 2; k++) {
        f.slide[k] = flxi_conv_slide(a, (size_t)k, f.x.dims[k + 2], f.w.dims[k + 2]);
        f.slide[k].base_dilation = general ? general->input_dilation.v[k] : 1;
        f.reverse[k] = general && general->reverse.v[k];
    }
    return f;
}

/* ---- Products with patches ---- */

/* Patches of a factor for a kernel that moves as the slides say over `out` positions. */
static void set_patches(flxi_patches *p, const flxi_conv_form *f, const flxi_conv_factor *x, const int64_t *out,
                        int32_t dtype)
{
    p->dtype = dtype;
    p->spatial = f->spatial;
    p->images = 1;
    p->image_step = x->steps[0];
    p->channel_step = x->steps[1];
    for (int k = 0; k < f->spatial; k++) {
        const flxi_slide *s = &f->slide[k];
        p->axis[k] = (flxi_patch_axis){.out = out[k],
                                       .taps = s->window,
                                       .extent = s->extent,
                                       .stride = s->stride,
                                       .dilation = s->dilation,
                                       .low = s->low,
                                       .spread = s->base_dilation,
                                       .step = x->steps[k + 2]};
    }
    p->by_channel = x->steps[1] == 1 && p->channels >= 4; /* long runs; else the last spatial axis has them */
}

/* The kernel's summed index, in the order in which patches have their columns; returns where it begins. */
static int64_t walk_taps(const flxi_patches *p, const flxi_conv_form *f, int64_t channel_step, flxi_walk *walk)
{
    int64_t begin = 0;
    if (!p->by_channel)
        flxi_walk_push(walk, p->channels, channel_step);
    for (int k = 0; k < f->spatial; k++) {
        int64_t step = f->w.steps[k + 2];
        begin += f->reverse[k] && p->axis[k].taps > 0 ? (p->axis[k].taps - 1) * step : 0;
        flxi_walk_push(walk, p->axis[k].taps, f->reverse[k] ? -step : step);
    }
    if (p->by_channel)
        flxi_walk_push(walk, p->channels, channel_step);
    return begin;
}

/* A batch axis of the product. */
static void push_batch(flxi_gemm *p, int64_t dim, int64_t a, int64_t b, int64_t c)
{
    p->batch_dims[p->batch_rank] = dim;
    p->a.batch[p->batch_rank] = a;
    p->b.batch[p->batch_rank] = b;
    p->c_batch[p->batch_rank++] = c;
}

/* Whether the spatial axes of a factor are one index with one step, which goes to *step. */
static bool is_line(const flxi_conv_form *f, const flxi_conv_factor *z, int64_t *step)
{
    flxi_walk w = {0};
    for (int k = 0; k < f->spatial; k++)
        flxi_walk_push(&w, z->dims[k + 2], z->steps[k + 2]);
    *step = w.rank ? w.steps[0] : 1;
    return w.rank <= 1;
}

static const void *moved(const void *data, int64_t elements, int32_t dtype)
{
    return data ? (const char *)data + elements * (int64_t)flx_dtype_size(dtype) : NULL;
}

/* What a product with patches on one side and the kernel on the other needs to know. */
typedef struct {
    const flxi_conv_factor *from, *to; /* of patches; of the result */
    const void *from_data, *w_data;
    int64_t channels, features;   /* summed; of the result, in one group */
    int64_t w_channel, w_feature; /* steps of the kernel */
    int64_t from_group, w_group;  /* steps from one group to the next */
    int64_t groups;
} patch_product;

/* result[feature, position] = Σ kernel[feature, k] patch[position, k], or turned where features are neighbours. */
static void set_product(conv_plan *c, const flxi_conv_form *f, const patch_product *d, int32_t dtype)
{
    flxi_gemm_operand kernel = {0};
    flxi_gemm_operand patches = {0};
    int64_t position_step;
    c->patches.channels = d->channels;
    set_patches(&c->patches, f, d->from, d->to->dims + 2, dtype);
    is_line(f, d->to, &position_step);
    int64_t positions = flxi_patch_positions(&c->patches);
    bool turned = position_step != 1 && d->to->steps[1] == 1;
    bool folded = turned && d->groups == 1 && d->to->steps[0] == positions * position_step;
    if (folded) {
        c->patches.images = d->to->dims[0];
        positions *= d->to->dims[0];
    }
    c->source = (flxi_gemm_source){flxi_pack_positions, &c->patches};
    int64_t begin = walk_taps(&c->patches, f, d->w_channel, &kernel.depth);
    kernel.data = moved(d->w_data, begin, dtype);
    flxi_walk_push(&kernel.line, d->features, d->w_feature);
    patches.data = d->from_data;
    patches.source = &c->source;

    flxi_gemm *p = &c->product;
    *p = (flxi_gemm){.dtype = dtype, .result = dtype, .alpha = 1, .k = flxi_patch_taps(&c->patches)};
    p->a = turned ? patches : kernel;
    p->b = turned ? kernel : patches;
    p->m = turned ? positions : d->features;
    p->n = turned ? d->features : positions;
    p->c_row = turned ? position_step : d->to->steps[1];
    p->c_col = turned ? d->to->steps[1] : position_step;
    if (!folded)
        push_batch(p, d->to->dims[0], turned ? d->from->steps[0] : 0, turned ? 0 : d->from->steps[0], d->to->steps[0]);
    if (d->groups > 1)
        push_batch(p, d->groups, turned ? d->from_group : d->w_group, turned ? d->w_group : d->from_group,
                   d->features * d->to->steps[1]);
}

static void plan_conv(conv_plan *c, const flxi_route_node *n, const flxi_conv_form *f)
{
    int64_t groups = f->groups * f->batch_groups; /* one of them is 1 */
    int64_t features = f->w.dims[0] / groups;
    patch_product d = {.from = &f->x,
                       .to = &f->z,
                       .from_data = n->in ? n->in[0] : NULL,
                       .w_data = n->in ? n->in[1] : NULL,
                       .channels = f->w.dims[1],
                       .features = features,
                       .w_channel = f->w.steps[1],
                       .w_feature = f->w.steps[0],
                       .from_group = f->groups > 1 ? f->w.dims[1] * f->x.steps[1] : f->z.dims[0] * f->x.steps[0],
                       .w_group = features * f->w.steps[0],
                       .groups = groups};
    set_product(c, f, &d, n->out_types[0]->dtype);
}

/* Elements of x whose indices leave one remainder when divided by the stride: they meet the same taps, and what they
   meet of z are neighbours. So each such phase is a convolution of z without stride. */
typedef struct {
    int64_t first[FLX_MAX_RANK]; /* the smallest index of the phase, below the stride */
    int64_t dims[FLX_MAX_RANK];  /* how many it has */
} input_phase;

/* Along axis k of the form: which taps the phase meets (every `every`-th from the returned one on), and how z moves
   under them: index p = first + stride q meets tap t = t0 + every j at z's index q - low - j dilation. */
static int64_t narrow_axis(const flxi_conv_form *f, int k, const input_phase *phase, flxi_slide *to, int64_t *every)
{
    const flxi_slide *s = &f->slide[k];
    int64_t shared = flxi_common_divisor(s->stride, s->dilation);
    int64_t at = phase->first[k] + s->low;
    int64_t tap = 0;
    *every = s->stride / shared;
    while (tap < *every && (at - tap * s->dilation) % s->stride != 0)
        tap++;
    bool has_taps = tap < *every && tap < s->window;
    *to = (flxi_slide){.extent = f->z.dims[k + 2],
                       .window = has_taps ? (s->window - tap + *every - 1) / *every : 0,
                       .low = has_taps ? (tap * s->dilation - at) / s->stride : 0,
                       .stride = 1,
                       .dilation = -s->dilation / shared,
                       .base_dilation = 1};
    return has_taps ? tap : 0;
}

/* The phase of x, dense in memory of its own where there are several. */
static flxi_conv_factor phase_result(const flxi_conv_form *f, const input_phase *phase)
{
    flxi_conv_factor y = {.dims = {f->x.dims[0], f->x.dims[1]}};
    int64_t step = 1;
    for (int k = f->spatial - 1; k >= 0; k--) {
        y.dims[k + 2] = phase->dims[k];
        y.steps[k + 2] = step;
        step *= phase->dims[k];
    }
    y.steps[1] = step;
    y.steps[0] = step * f->x.dims[1];
    return y;
}

static void plan_to_input(conv_plan *c, const flxi_route_node *n, const flxi_conv_form *f, const input_phase *phase)
{
    flxi_conv_form g = *f;
    flxi_conv_factor result = phase_result(f, phase);
    int32_t dtype = n->out_types[0]->dtype;
    int64_t features = f->w.dims[0] / f->groups;
    int64_t begin = 0;
    for (int k = 0; k < f->spatial; k++) {
        int64_t every;
        begin += narrow_axis(f, k, phase, &g.slide[k], &every) * f->w.steps[k + 2];
        g.w.steps[k + 2] *= every;
    }
    patch_product d = {.from = &f->z,
                       .to = &result,
                       .from_data = n->in ? n->in[0] : NULL,
                       .w_data = n->in ? moved(n->in[1], begin, dtype) : NULL,
                       .channels = features,
                       .features = f->w.dims[1],
                       .w_channel = f->w.steps[0],
                       .w_feature = f->w.steps[1],
                       .from_group = features * f->z.steps[1],
                       .w_group = features * f->w.steps[0],
                       .groups = f->groups};
    set_product(c, &g, &d, dtype);
}

/* ---- Phases ---- */

static bool has_phases(const flxi_conv_form *f)
{
    for (int k = 0; k < f->spatial; k++)
        if (f->slide[k].stride > 1)
            return true;
    return false;
}

/* The first phase, which is as large as any; then each in turn until there is none. */
static input_phase first_phase(const flxi_conv_form *f)
{
    input_phase p = {0};
    for (int k = 0; k < f->spatial; k++)
        p.dims[k] = (f->x.dims[k + 2] + f->slide[k].stride - 1) / f->slide[k].stride;
    return p;
}

static bool next_phase(const flxi_conv_form *f, input_phase *p)
{
    for (int k = f->spatial - 1; k >= 0; k--) {
        int64_t stride = f->slide[k].stride;
        int64_t extent = f->x.dims[k + 2];
        bool ended = ++p->first[k] >= stride || p->first[k] >= extent;
        if (ended)
            p->first[k] = 0;
        p->dims[k] = (extent - p->first[k] + stride - 1) / stride;
        if (!ended)
            return true;
    }
    return false;
}

static int64_t phase_count(const flxi_conv_form *f, const input_phase *p)
{
    int64_t count = 1;
    for (int k = 0; k < f->spatial; k++)
        count *= p->dims[k];
    return count;
}

static size_t phase_bytes(const flxi_conv_form *f, int32_t dtype)
{
    input_phase p = first_phase(f);
    size_t nbytes = (size_t)(f->x.dims[0] * f->x.dims[1] * phase_count(f, &p)) * flx_dtype_size(dtype);
    return (nbytes + 63) / 64 * 64;
}

typedef struct {
    const flxi_conv_form *form;
    const input_phase *phase;
    const char *from;
    char *to;
    size_t size;
} spreading;

/* Images and features [begin, end) of a phase are written to x. */
static void spread_rows(void *user, int64_t begin, int64_t end)
{
    const spreading *s = user;
    const flxi_conv_form *f = s->form;
    const input_phase *p = s->phase;
    int last = f->spatial - 1;
    int64_t count = phase_count(f, p);
    int64_t x_count = f->x.steps[1];
    int64_t stride = f->slide[last].stride;
    for (int64_t row = begin; row < end; row++)
        for (int64_t q = 0; q < count; q += p->dims[last]) {
            int64_t at = row * x_count + p->first[last] * f->x.steps[last + 2];
            int64_t rest = q / p->dims[last];
            for (int k = last - 1; k >= 0; k--) {
                at += (p->first[k] + rest % p->dims[k] * f->slide[k].stride) * f->x.steps[k + 2];
                rest /= p->dims[k];
            }
            const char *from = s->from + (size_t)(row * count + q) * s->size;
            char *to = s->to + (size_t)at * s->size;
            for (int64_t i = 0; i < p->dims[last]; i++)
                memcpy(to + (size_t)(i * stride) * s->size, from + (size_t)i * s->size, s->size);
        }
}

static void run_phases(const flxi_route_node *n, const flxi_conv_form *f)
{
    int32_t dtype = n->out_types[0]->dtype;
    char *held = n->scratch;
    input_phase p = first_phase(f);
    do {
        conv_plan c = {0};
        plan_to_input(&c, n, f, &p);
        c.product.c = held;
        flxi_gemm_run(&c.product, n->pool, held + phase_bytes(f, dtype));
        spreading s = {f, &p, held, n->out[0], flx_dtype_size(dtype)};
        int64_t rows = f->x.dims[0] * f->x.dims[1];
        int64_t bytes = phase_count(f, &p) * (int64_t)s.size;
        flxi_pool_run(n->pool, rows, flxi_route_chunk(rows, bytes), spread_rows, &s);
    } while (next_phase(f, &p));
}

static size_t phases_scratch(const flxi_route_node *n, const flxi_conv_form *f, int threads)
{
    size_t most = 0;
    input_phase p = first_phase(f);
    do {
        conv_plan c = {0};
        plan_to_input(&c, n, f, &p);
        size_t nbytes = flxi_gemm_scratch(&c.product, threads);
        most = nbytes > most ? nbytes : most;
    } while (next_phase(f, &p));
    return phase_bytes(f, n->out_types[0]->dtype) + most;
}

/* ---- The other two ---- */

static void plan_to_weight(conv_plan *c, const flxi_route_node *n, const flxi_conv_form *f)
{
    int32_t dtype = n->out_types[0]->dtype;
    int64_t features = f->w.dims[0] / f->groups;
    c->patches.channels = f->w.dims[1];
    set_patches(&c->patches, f, &f->x, f->z.dims + 2, dtype);
    c->patches.by_channel = false; /* the kernel's own order */
    c->patches.images = f->x.dims[0];
    c->source = (flxi_gemm_source){flxi_pack_taps, &c->patches};
    flxi_gemm *p = &c->product;
    *p = (flxi_gemm){.dtype = dtype,
                     .result = dtype,
                     .alpha = 1,
                     .m = features,
                     .n = flxi_patch_taps(&c->patches),
                     .k = flxi_patch_positions(&c->patches),
                     .c_row = f->w.steps[0],
                     .c_col = 1};
    flxi_walk_push(&p->a.line, features, f->z.steps[1]);
    flxi_walk_push(&p->a.depth, f->z.dims[0], f->z.steps[0]);
    for (int k = 0; k < f->spatial; k++)
        flxi_walk_push(&p->a.depth, f->z.dims[k + 2], f->z.steps[k + 2]);
    p->a.data = n->in ? n->in[1] : NULL;
    p->b.data = n->in ? n->in[0] : NULL;
    p->b.source = &c->source;
    if (f->groups > 1)
        push_batch(p, f->groups, features * f->z.steps[1], f->w.dims[1] * f->x.steps[1], features * f->w.steps[0]);
}

static void make_plan(conv_plan *c, const flxi_route_node *n, const flxi_conv_form *f)
{
    *c = (conv_plan){0};
    if (n->op == OP_conv) {
        plan_conv(c, n, f);
    } else if (n->op == OP_conv_backward_weight) {
        plan_to_weight(c, n, f);
    } else {
        input_phase whole = first_phase(f);
        plan_to_input(c, n, f, &whole);
    }
    c->product.c = n->out ? n->out[0] : NULL;
}

static bool is_phased(const flxi_route_node *n, const flxi_conv_form *f)
{
    return n->op != OP_conv && n->op != OP_conv_backward_weight && has_phases(f);
}

/* ---- Terms that a product must not have ---- */

bool flxi_conv_has_padding(const flxi_route_node *n, const flxi_conv_form *f)
{
    if (n->op == OP_conv_backward_input || n->op == OP_conv_transpose)
        return true;
    for (int k = 0; k < f->spatial; k++) {
        const flxi_slide *s = &f->slide[k];
        int64_t last = (f->z.dims[k + 2] - 1) * s->stride + (s->window - 1) * s->dilation - s->low;
        if (s->low > 0 || s->base_dilation > 1 || last >= s->extent)
            return true;
    }
    return false;
}

typedef struct {
    const char *data;
    int32_t dtype;
    atomic_bool found;
} search;

static void search_chunk(void *user, int64_t begin, int64_t end)
{
    search *s = user;
    if (!atomic_load_explicit(&s->found, memory_order_relaxed) &&
        flxi_first_not_finite(s->dtype, moved(s->data, begin, s->dtype), end - begin) >= 0)
        atomic_store_explicit(&s->found, true, memory_order_relaxed);
}

static bool is_finite(const void *data, const flx_type *t, flxi_pool *pool)
{
    search s = {.data = data, .dtype = t->dtype};
    int64_t count = flxi_route_count(t);
    flxi_pool_run(pool, count, flxi_route_chunk(count, (int64_t)flx_dtype_size(t->dtype)), search_chunk, &s);
    return !atomic_load(&s.found);
}

bool flxi_conv_meets_infinity(const flxi_route_node *n, const flxi_conv_form *f, int operand)
{
    return flxi_is_float(n->in_types[operand]->dtype) && flxi_conv_has_padding(n, f) &&
           !is_finite(n->in[operand], n->in_types[operand], n->pool);
}

/* ---- The route ---- */

static bool is_moderate(int64_t x)
{
    return x > -INT32_MAX && x < INT32_MAX;
}

const char *flxi_conv_form_reason(const flxi_route_node *n)
{
    const flx_type *y = n->out_types[0];
    if (!flxi_conv_common_of(n->op, n->attrs))
        return "not a convolution";
    if (!flxi_is_float(y->dtype) && flxi_int_bits(y->dtype) < 32)
        return "only real floats and integers of 32 and 64 bits are packed as patches";
    if (flxi_route_count(y) == 0)
        return NULL;
    flxi_conv_form f = flxi_conv_form_of(n);
    for (int k = 0; k < f.spatial; k++) {
        const flxi_slide *s = &f.slide[k];
        if (!is_moderate(s->extent) || !is_moderate(s->window) || !is_moderate(s->low) || !is_moderate(s->stride) ||
            !is_moderate(s->dilation) || !is_moderate(s->base_dilation) || !is_moderate(s->window * s->dilation) ||
            !is_moderate(f.z.dims[k + 2] * s->stride))
            return "extents or paddings beyond 2^31";
    }
    return NULL;
}

const char *flxi_conv_applies(const flxi_route_node *n)
{
    const char *why = flxi_conv_form_reason(n);
    int64_t step;
    if (why || flxi_route_count(n->out_types[0]) == 0)
        return why;
    flxi_conv_form f = flxi_conv_form_of(n);
    if (!is_line(&f, n->op == OP_conv ? &f.z : &f.x, &step))
        return "the result's spatial axes are not neighbours";
    return NULL;
}

size_t flxi_conv_route_scratch(const flxi_route_node *n, int threads)
{
    if (flxi_route_count(n->out_types[0]) == 0)
        return 0;
    flxi_conv_form f = flxi_conv_form_of(n);
    if (is_phased(n, &f))
        return phases_scratch(n, &f, threads);
    conv_plan c;
    make_plan(&c, n, &f);
    return flxi_gemm_scratch(&c.product, threads);
}

flx_code flxi_conv_route(const flxi_route_node *n)
{
    if (flxi_route_count(n->out_types[0]) == 0)
        return FLX_OK;
    flxi_conv_form f = flxi_conv_form_of(n);
    if (flxi_conv_meets_infinity(n, &f, 1)) {
        flxi_conv_plain(n, &f);
        return FLX_OK;
    }
    if (is_phased(n, &f)) {
        run_phases(n, &f);
        return FLX_OK;
    }
    conv_plan c;
    make_plan(&c, n, &f);
    flxi_gemm_run(&c.product, n->pool, n->scratch);
    return FLX_OK;
}
