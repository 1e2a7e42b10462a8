/* SPDX-License-Identifier: Apache-2.0 */
/* conv_gather.c: z[n, f, o] = Σ w[f, c, t] x[n, c, p], see conv_direct.h.

   Weights are packed once into panels of features, [panel, channels, tap, channel, feature]. Then tasks take blocks of
   positions: a copy of what they see of x, and for each panel tiles of 6 positions. The depth of a tile is a segment
   for each tap, or for each row of taps where neighbours of the kernel are neighbours in the copy.

   Where x is spread, positions with one remainder meet the same taps, and those alone: each such phase is a
   convolution of its own, and nothing is multiplied with gaps.

   Where each group has one channel and one feature, groups are the lanes of vectors: a panel is some groups, with as
   many channels as features, and tiles multiply lane by lane.

   Each element of z is one chain of fused multiply-adds over taps and channels for every `chunk` channels, and the
   chains are added in order. Nothing of this depends on the machine or on threads. */
#include "backend/cpu/conv/conv_direct.h"
#include "backend/cpu/gemm/gemm_turn.h"

#include "base/host/stop.h"
#include "base/number.h"

typedef struct {
    flxi_conv_phase axis[2];
} phase;

typedef struct {
    flxi_conv_problem p; /* by lane: its groups are panels */
    const flxi_gemm_kernels *ker;
    bool by_lane;
    int64_t groups; /* by lane: of the problem as given */
    int64_t taps;
    int64_t phases[2];        /* along each axis */
    int64_t images, block[2]; /* of a task */
    int64_t panel, panels;    /* features of a panel, and how many there are */
    int64_t chunk, chunks;    /* channels */
    int64_t strip, sums;      /* elements */
    int64_t tasks;
    size_t weight_bytes, own_bytes; /* of all; of each thread */
    char *weights;
} plan;

enum {
    STRIP_BYTES = 160 << 10, /* of x, for one task */
    PANEL_BYTES = 192 << 10, /* of weights that one tile reads in one go, were it 64 features wide */
    LEAST_POSITIONS = 96,    /* for which a task is worth reading all weights */
    WANTED_TASKS = 32,
    PACK_CHANNELS = 16, /* whose weights are packed in one task */
};

/* ---- Phases ---- */

flxi_conv_phase flxi_conv_phase_of(const flxi_conv_axis *x, int64_t first)
{
    int64_t every = x->spread / flxi_common_divisor(x->stride, x->spread);
    int64_t tap_every = x->spread / flxi_common_divisor(x->dilation, x->spread);
    int64_t at = first * x->stride - x->low;
    int64_t tap = 0;
    while (tap < tap_every && (at + tap * x->dilation) % x->spread != 0)
        tap++;
    bool has_taps = tap < tap_every && tap < x->taps;
    flxi_conv_phase a = {
        .first = first, .every = every, .count = flxi_conv_parts(x->out - first, every), .tap_every = tap_every};
    a.tap = has_taps ? tap : 0;
    a.taps = has_taps ? flxi_conv_parts(x->taps - tap, tap_every) : 0;
    a.at = has_taps ? (at + tap * x->dilation) / x->spread : 0;
    int64_t stride = every * x->stride / x->spread;
    int64_t dilation = tap_every * x->dilation / x->spread;
    a.sample = a.taps > 1 ? flxi_common_divisor(stride, dilation) : stride;
    a.stride = stride / a.sample;
    a.dilation = a.taps > 1 ? dilation / a.sample : 1;
    return a;
}

int64_t flxi_conv_phases(const flxi_conv_axis *x)
{
    return flxi_conv_least(x->out, x->spread / flxi_common_divisor(x->stride, x->spread));
}

static phase phase_of(const plan *g, int64_t index)
{
    return (phase){{flxi_conv_phase_of(&g->p.axis[0], index / g->phases[1]),
                    flxi_conv_phase_of(&g->p.axis[1], index % g->phases[1])}};
}

/* How many indices of x a block of that many outputs sees. */
static int64_t seen(const flxi_conv_phase *a, int64_t outputs)
{
    return a->taps == 0 ? 0 : (outputs - 1) * a->stride + (a->taps - 1) * a->dilation + 1;
}

static int64_t strip_count(const plan *g, const phase *f)
{
    int64_t rows = seen(&f->axis[0], flxi_conv_least(g->block[0], f->axis[0].count));
    int64_t columns = seen(&f->axis[1], flxi_conv_least(g->block[1], f->axis[1].count));
    return g->images * rows * columns * g->p.channels;
}

static int64_t phase_tasks(const plan *g, const phase *f)
{
    return g->p.groups * flxi_conv_parts(g->p.images, g->images) * flxi_conv_parts(f->axis[0].count, g->block[0]) *
           flxi_conv_parts(f->axis[1].count, g->block[1]);
}

/* ---- Plans ---- */

static int64_t all_tasks(const plan *g)
{
    int64_t tasks = 0;
    for (int64_t i = 0; i < g->phases[0] * g->phases[1]; i++) {
        phase f = phase_of(g, i);
        tasks += phase_tasks(g, &f);
    }
    return tasks;
}

/* Blocks of positions: as many as the cache holds the copy of, columns first, but some for each of many threads. */
static void choose_blocks(plan *g)
{
    phase f = phase_of(g, 0);
    int64_t most = STRIP_BYTES / ((int64_t)g->ker->size * g->p.channels);
    int64_t high = seen(&f.axis[0], 1);
    g->images = 1;
    g->block[0] = 1;
    g->block[1] = f.axis[1].count;
    if (high * seen(&f.axis[1], g->block[1]) > most) {
        int64_t columns = most / flxi_conv_most(high, 1);
        int64_t fit = (columns - (f.axis[1].taps - 1) * f.axis[1].dilation - 1) / f.axis[1].stride + 1;
        g->block[1] = flxi_conv_least(g->block[1], flxi_conv_most(flxi_conv_round(fit, 6), 48));
        g->block[1] = flxi_conv_even(f.axis[1].count, g->block[1]);
    }
    int64_t rows = most / flxi_conv_most(seen(&f.axis[1], g->block[1]), 1);
    int64_t fit = (rows - (f.axis[0].taps - 1) * f.axis[0].dilation - 1) / f.axis[0].stride + 1;
    g->block[0] = flxi_conv_even(f.axis[0].count, fit);
    if (g->block[0] == f.axis[0].count && g->block[1] == f.axis[1].count)
        g->images = flxi_conv_even(g->p.images, most / flxi_conv_most(strip_count(g, &f) / g->p.channels, 1));
    while (all_tasks(g) < WANTED_TASKS && g->images * g->block[0] * g->block[1] >= 2 * LEAST_POSITIONS) {
        if (g->images > 1)
            g->images = flxi_conv_parts(g->images, 2);
        else if (g->block[0] > 1)
            g->block[0] = flxi_conv_parts(g->block[0], 2);
        else
            g->block[1] = flxi_conv_round(g->block[1] / 2, 6);
    }
}

int64_t flxi_conv_chunk(const flxi_conv_problem *p)
{
    int64_t size = (int64_t)flxi_gemm_packed_size(p->dtype), taps = p->axis[0].taps * p->axis[1].taps;
    return flxi_conv_even(p->channels, flxi_conv_most(PANEL_BYTES / (64 * size * taps), 8));
}

static void choose_panels(plan *g)
{
    flxi_conv_problem *p = &g->p;
    g->by_lane = flxi_conv_is_by_lane(p);
    g->groups = p->groups;
    if (g->by_lane) {
        flxi_conv_join_lanes(p, 2 * g->ker->lanes);
        g->panel = p->features;
        g->panels = g->chunks = 1;
        g->chunk = p->channels;
        return;
    }
    g->panel = flxi_conv_least(g->ker->cols, flxi_conv_round(p->features, g->ker->lanes));
    g->panels = flxi_conv_parts(p->features, g->panel);
    g->chunk = flxi_conv_chunk(p);
    g->chunks = flxi_conv_parts(p->channels, g->chunk);
}

/* Channels, or by lane also features, of a group: the last may have fewer. */
static int64_t group_width(const plan *g, int64_t group)
{
    return g->by_lane ? flxi_conv_least(g->panel, g->groups - group * g->panel) : g->p.channels;
}

static plan make_plan(const flxi_conv_problem *given)
{
    plan g = {.p = *given, .ker = flxi_conv_kernels(given)};
    const flxi_conv_problem *p = &g.p;
    for (int k = 0; k < 2; k++)
        g.phases[k] = flxi_conv_phases(&p->axis[k]);
    g.taps = p->axis[0].taps * p->axis[1].taps;
    choose_panels(&g);
    choose_blocks(&g);
    for (int64_t i = 0; i < g.phases[0] * g.phases[1]; i++) {
        phase f = phase_of(&g, i);
        g.strip = flxi_conv_most(g.strip, strip_count(&g, &f));
        g.tasks += phase_tasks(&g, &f);
    }
    g.sums = g.images * g.block[0] * g.block[1] * g.panel;
    int64_t depth = g.by_lane ? 1 : p->channels;
    g.weight_bytes = flxi_conv_aligned(p->groups * g.panels * depth * g.taps * g.panel, g.ker->size);
    g.strip += g.ker->cols; /* a vector may reach beyond the last position */
    g.own_bytes = flxi_conv_aligned(g.strip, g.ker->size) + flxi_conv_aligned(g.sums, g.ker->size) +
                  flxi_conv_aligned(2 * g.taps, sizeof(int64_t));
    return g;
}

/* ---- Weights ---- */

/* Where the weights of a panel begin, in elements; chunks follow each other. */
static int64_t panel_at(const plan *g, int64_t group, int64_t panel)
{
    return (group * g->panels + panel) * (g->by_lane ? 1 : g->p.channels) * g->taps * g->panel;
}

/* Channels that one task packs. */
static int64_t pack_blocks(const plan *g)
{
    return flxi_conv_parts(g->chunk, PACK_CHANNELS);
}

/* Some channels of one chunk and panel, their first weight at `from`; to[tap][channel][feature], `pitch` from one tap
   to the next. Where taps of the kernel are neighbours they are read together. */
static void pack_channels(const plan *g, const char *from, char *to, int64_t pitch, int64_t features, int64_t channels)
{
    const flxi_conv_problem *p = &g->p;
    int64_t in = (int64_t)flx_dtype_size(p->dtype);
    int64_t size = (int64_t)g->ker->size;
    int64_t step = p->w.at[1];
    bool is_line = (step == 1 || step == -1) && p->w.at[0] == step * p->axis[1].taps && p->w.outer != 1;
    for (int64_t c = 0; is_line && c < channels; c++) {
        const char *first = from + c * p->w.inner * in + (step < 0 ? (1 - g->taps) * in : 0);
        char *row = to + c * g->panel * size + (step < 0 ? (g->taps - 1) * pitch * size : 0);
        const flxi_gemm_view line = {first, features, p->w.outer, g->taps, 1};
        flxi_gemm_pack_block(p->dtype, &line, row, step * pitch);
    }
    for (int64_t tap = 0; !is_line && tap < g->taps; tap++) {
        int64_t at = tap / p->axis[1].taps * p->w.at[0] + tap % p->axis[1].taps * p->w.at[1];
        const flxi_gemm_view block = {from + at * in, features, p->w.outer, channels, p->w.inner};
        flxi_gemm_pack_block(p->dtype, &block, to + tap * pitch * size, g->panel);
    }
    for (int64_t i = 0; features < g->panel && i < g->taps * channels; i++)
        memset(to + (i / channels * pitch + i % channels * g->panel + features) * size, 0,
               (size_t)((g->panel - features) * size));
}

static void pack_panel(const void *user, int64_t task, char *own)
{
    const plan *g = user;
    const flxi_conv_problem *p = &g->p;
    (void)own;
    int64_t first = task % pack_blocks(g) * PACK_CHANNELS; /* in its chunk */
    task /= pack_blocks(g);
    int64_t chunk = task % g->chunks * g->chunk;
    int64_t panel = task / g->chunks % g->panels;
    int64_t group = task / g->chunks / g->panels;
    int64_t all = flxi_conv_least(g->chunk, p->channels - chunk);
    int64_t channels = flxi_conv_least(PACK_CHANNELS, all - first);
    if (channels <= 0)
        return;
    int64_t from = group * p->w.group + panel * g->panel * p->w.outer + (chunk + first) * p->w.inner;
    int64_t to = panel_at(g, group, panel) + (chunk * g->taps + first) * g->panel;
    pack_channels(g, (const char *)p->w_data + from * (int64_t)flx_dtype_size(p->dtype),
                  g->weights + (size_t)to * g->ker->size, all * g->panel,
                  flxi_conv_least(g->panel, p->features - panel * g->panel), channels);
}

/* By lane: [tap, group]. */
static void pack_lanes(const void *user, int64_t group, char *own)
{
    const plan *g = user;
    const flxi_conv_problem *p = &g->p;
    int64_t width = group_width(g, group);
    int64_t size = (int64_t)g->ker->size;
    int64_t from = group * p->w.group;
    (void)own;
    for (int64_t tap = 0; tap < g->taps; tap++) {
        int64_t at = from + tap / p->axis[1].taps * p->w.at[0] + tap % p->axis[1].taps * p->w.at[1];
        char *to = g->weights + (panel_at(g, group, 0) + tap * g->panel) * size;
        const char *weights = (const char *)p->w_data + at * (int64_t)flx_dtype_size(p->dtype);
        flxi_gemm_pack_block(p->dtype, &(flxi_gemm_view){weights, width, p->w.outer, 1, 1}, to, g->panel);
        memset(to + width * size, 0, (size_t)((g->panel - width) * size));
    }
}

/* ---- Blocks of positions ---- */

typedef struct {
    const plan *g;
    const phase *f;
    int64_t group, image, images;
    int64_t first[2], count[2]; /* of the phase's outputs */
    flxi_strip_view x;
    bool is_copy;
    int64_t chunk_step; /* from the copy of one chunk of channels to the next, were all of full length */
    char *sums;
    int64_t *a_at, *b_at;
} block;

static void enter_block(block *b, int64_t task)
{
    const plan *g = b->g;
    int64_t units[2];
    for (int k = 1; k >= 0; k--) {
        units[k] = flxi_conv_parts(b->f->axis[k].count, g->block[k]);
        b->first[k] = task % units[k] * g->block[k];
        b->count[k] = flxi_conv_least(g->block[k], b->f->axis[k].count - b->first[k]);
        task /= units[k];
    }
    int64_t parts = flxi_conv_parts(g->p.images, g->images);
    b->image = task % parts * g->images;
    b->images = flxi_conv_least(g->images, g->p.images - b->image);
    b->group = task / parts;
}

/* The part of x that the block sees, copied unless it can be read where it is. */
static void fetch(block *b, char *own)
{
    const plan *g = b->g;
    const flxi_conv_problem *p = &g->p;
    int64_t in = (int64_t)flx_dtype_size(p->dtype);
    flxi_strip s = {.images = b->images};
    for (int k = 0; k < 2; k++) {
        const flxi_conv_phase *a = &b->f->axis[k];
        s.axis[k] = (flxi_strip_axis){.count = seen(a, b->count[k]),
                                      .first = b->first[k] * a->stride * a->sample + a->at,
                                      .sample = a->sample,
                                      .spread = 1,
                                      .in = p->axis[k].in};
    }
    b->x = (flxi_strip_view){.data = own}; /* an empty copy where no tap meets x */
    if (s.axis[0].count == 0 || s.axis[1].count == 0)
        return;
    const char *from = (const char *)p->x_data + (b->group * p->x.group + b->image * p->x.outer) * in;
    int64_t width = group_width(g, b->group);
    if (flxi_strip_is_there(p, &s) && (!g->by_lane || width % g->ker->lanes == 0)) {
        b->x = (flxi_strip_view){.data = from + (s.axis[0].first * p->x.at[0] + s.axis[1].first * p->x.at[1]) * in,
                                 .image = p->x.outer,
                                 .at = {s.axis[0].sample * p->x.at[0], s.axis[1].sample * p->x.at[1]}};
        b->chunk_step = g->chunk;
        return;
    }
    b->is_copy = true;
    b->chunk_step = s.images * s.axis[0].count * s.axis[1].count * g->chunk;
    for (int64_t c = 0; c < width; c += g->chunk) {
        s.channels = flxi_conv_least(g->chunk, width - c);
        flxi_strip_fill(p, &s, from + c * p->x.inner * in, own + (size_t)(c / g->chunk * b->chunk_step) * g->ker->size);
    }
}

/* Steps of the copy for a chunk of that many channels, which is dense. */
static flxi_strip_view chunk_view(const block *b, int64_t c, int64_t channels)
{
    flxi_strip_view v = b->x;
    v.data = b->x.data + (size_t)(c / b->g->chunk * b->chunk_step) * b->g->ker->size;
    if (b->is_copy) {
        v.at[1] = channels;
        v.at[0] = channels * seen(&b->f->axis[1], b->count[1]);
        v.image = v.at[0] * seen(&b->f->axis[0], b->count[0]);
    }
    return v;
}

/* By lane: one for each row of taps. */
static void set_lane_segments(const block *b, const flxi_strip_view *x, flxi_scattered_tile *t)
{
    const plan *g = b->g;
    const flxi_conv_phase *h = &b->f->axis[0];
    const flxi_conv_phase *w = &b->f->axis[1];
    t->depth = w->taps;
    t->a_step = w->dilation * x->at[1];
    t->b_step = w->tap_every * g->panel;
    t->segments = h->taps;
    for (int64_t i = 0; i < h->taps; i++) {
        b->a_at[i] = i * h->dilation * x->at[0];
        b->b_at[i] = ((h->tap + i * h->tap_every) * g->p.axis[1].taps + w->tap) * g->panel;
    }
    t->a_at = b->a_at;
    t->b_at = b->b_at;
}

/* Segments of the depth: one for each tap of the phase, or each row of them. */
static void set_segments(const block *b, const flxi_strip_view *x, int64_t channels, flxi_scattered_tile *t)
{
    const plan *g = b->g;
    const flxi_conv_phase *h = &b->f->axis[0];
    const flxi_conv_phase *w = &b->f->axis[1];
    if (g->by_lane) {
        set_lane_segments(b, x, t);
        return;
    }
    bool joined = w->dilation * x->at[1] == channels && w->tap_every == 1;
    t->depth = joined ? channels * w->taps : channels;
    t->segments = 0;
    for (int64_t i = 0; i < h->taps; i++)
        for (int64_t j = 0; j < w->taps; j += joined ? w->taps : 1) {
            int64_t tap = (h->tap + i * h->tap_every) * g->p.axis[1].taps + w->tap + j * w->tap_every;
            b->a_at[t->segments] = i * h->dilation * x->at[0] + j * w->dilation * x->at[1];
            b->b_at[t->segments++] = tap * channels * g->panel;
        }
    t->a_at = b->a_at;
    t->b_at = b->b_at;
}

/* A position of the block; the offsets of its element of the copy and of z. */
typedef struct {
    int64_t image, at[2];
} position;

static void next_position(const block *b, position *o)
{
    if (++o->at[1] < b->count[1])
        return;
    o->at[1] = 0;
    if (++o->at[0] < b->count[0])
        return;
    o->at[0] = 0;
    o->image++;
}

static int64_t result_at(const block *b, const position *o)
{
    const flxi_conv_problem *p = &b->g->p;
    int64_t at = b->group * p->z.group + (b->image + o->image) * p->z.outer;
    for (int k = 0; k < 2; k++) {
        const flxi_conv_phase *a = &b->f->axis[k];
        at += (a->first + (b->first[k] + o->at[k]) * a->every) * p->z.at[k];
    }
    return at;
}

/* All positions of the block for one panel and one chunk of channels. */
static void run_tiles(const block *b, flxi_scattered_tile *t, const flxi_strip_view *x, bool in_place)
{
    position o = {0};
    int64_t count = b->images * b->count[0] * b->count[1];
    int64_t strides[2] = {b->f->axis[0].stride * x->at[0], b->f->axis[1].stride * x->at[1]};
    int64_t tiles = 0;
    for (int64_t i = 0; i < count; i += t->rows) {
        if (++tiles % 32 == 0 && flxi_stopped())
            return;
        t->rows = flxi_conv_tile_rows(count - i);
        for (int r = 0; r < t->rows; r++, next_position(b, &o)) {
            t->a_row[r] = o.image * x->image + o.at[0] * strides[0] + o.at[1] * strides[1];
            t->c_row[r] = in_place ? result_at(b, &o) : (i + r) * b->g->panel;
        }
        (b->g->by_lane ? b->g->ker->by_lane : b->g->ker->scattered)(t);
    }
}

/* Positions that are `step` apart in z, some for each feature in one go: its planes are often a power of two apart, and
   writing all features of one position after the other would fall into few sets of the cache. */
static void finish_spread(const flxi_conv_problem *p, const flxi_gemm_block *done, int64_t step)
{
    enum { AT_ONCE = 16, MOST_FEATURES = 64 };
    float held[MOST_FEATURES * AT_ONCE];
    const float *sums = (const float *)(const void *)done->sums;
    for (int64_t f = 0; f < done->cols; f += MOST_FEATURES)
        for (int64_t i = 0; i < done->rows; i += AT_ONCE) {
            int64_t features = flxi_conv_least(MOST_FEATURES, done->cols - f);
            int64_t rows = flxi_conv_least(AT_ONCE, done->rows - i);
            const flxi_gemm_view from = {sums + i * done->sums_row + f, rows, done->sums_row, features, 1};
            flxi_turn_block(p->dtype, (flxi_isa)p->isa, &from, held, AT_ONCE);
            for (int64_t k = 0; k < features; k++) {
                float *to = (float *)(void *)done->c + (f + k) * p->z.inner + i * step;
                for (int64_t r = 0; r < rows; r++)
                    to[r * step] = held[k * AT_ONCE + r];
            }
        }
}

/* Sums to z, in runs of positions that are one step apart there. */
static void finish(const block *b, int64_t first_feature, int64_t features)
{
    const plan *g = b->g;
    const flxi_conv_problem *p = &g->p;
    int64_t step = b->f->axis[1].every * p->z.at[1];
    bool is_line = b->f->axis[0].every * p->z.at[0] == b->count[1] * step;
    int64_t run = is_line ? b->count[0] * b->count[1] : b->count[1];
    flxi_gemm to = {.dtype = p->dtype, .result = p->dtype, .alpha = 1, .c_row = step, .c_col = p->z.inner};
    int64_t count = b->images * b->count[0] * b->count[1];
    for (int64_t i = 0; i < count; i += run) {
        position o = {i / (b->count[0] * b->count[1]), {i / b->count[1] % b->count[0], 0}};
        int64_t at = result_at(b, &o) + first_feature * p->z.inner;
        flxi_gemm_block done = {.sums = b->sums + (size_t)(i * g->panel) * g->ker->size,
                                .sums_row = g->panel,
                                .rows = run,
                                .cols = features,
                                .c = (char *)(uintptr_t)p->z_data + at * (int64_t)flx_dtype_size(p->dtype)};
        if (step == 1 && flxi_gemm_is_native(p->dtype))
            flxi_turn_block(p->dtype, (flxi_isa)p->isa, &(flxi_gemm_view){done.sums, run, g->panel, features, 1},
                            done.c, p->z.inner);
        else if (p->dtype == FLX_F32 && p->z.inner != 1)
            finish_spread(p, &done, step);
        else
            flxi_gemm_finish(&to, &done);
    }
}

static void run_panel(const block *b, int64_t panel)
{
    const plan *g = b->g;
    const flxi_conv_problem *p = &g->p;
    size_t size = g->ker->size;
    int64_t first = panel * g->panel;
    int64_t width = group_width(g, b->group);
    int64_t features = g->by_lane ? width : flxi_conv_least(g->panel, p->features - first);
    flxi_scattered_tile t = {.cols = (int)flxi_conv_round(features, g->ker->lanes), .a_step = 1, .b_step = g->panel};
    bool in_place = p->z.inner == 1 && flxi_gemm_is_native(p->dtype) && t.cols == features;
    t.c = in_place ? (char *)(uintptr_t)p->z_data + (size_t)first * size : b->sums;
    for (int64_t c = 0; c < width && !flxi_stopped(); c += g->chunk) {
        int64_t channels = flxi_conv_least(g->chunk, width - c);
        flxi_strip_view x = chunk_view(b, c, channels);
        t.a = x.data;
        t.b = g->weights + (size_t)(panel_at(g, b->group, panel) + c * g->taps * g->panel) * size;
        t.add = c > 0;
        set_segments(b, &x, channels, &t);
        run_tiles(b, &t, &x, in_place);
    }
    if (!in_place)
        finish(b, first, features);
}

static void run_block(const void *user, int64_t task, char *own)
{
    const plan *g = user;
    phase f = phase_of(g, 0);
    int64_t tasks;
    for (int64_t i = 0; task >= (tasks = phase_tasks(g, &f)); task -= tasks)
        f = phase_of(g, ++i);
    block b = {.g = g, .f = &f};
    enter_block(&b, task);
    b.sums = own + flxi_conv_aligned(g->strip, g->ker->size);
    b.a_at = (void *)(b.sums + flxi_conv_aligned(g->sums, g->ker->size));
    b.b_at = b.a_at + g->taps;
    fetch(&b, own);
    for (int64_t panel = 0; panel < g->panels && !flxi_stopped(); panel++)
        run_panel(&b, panel);
}

/* ---- Entry ---- */

size_t flxi_conv_gather_scratch(const flxi_conv_problem *p, int threads)
{
    plan g = make_plan(p);
    return g.weight_bytes + (size_t)(threads < 1 ? 1 : threads) * g.own_bytes;
}

void flxi_conv_gather(const flxi_conv_problem *p, flxi_pool *pool, void *scratch)
{
    plan g = make_plan(p);
    pool = flxi_conv_pool(p, pool);
    g.weights = scratch;
    char *own = (char *)scratch + g.weight_bytes;
    if (g.by_lane)
        flxi_conv_tasks(&g, g.p.groups, pack_lanes, pool, own, 0);
    else
        flxi_conv_tasks(&g, p->groups * g.panels * g.chunks * pack_blocks(&g), pack_panel, pool, own, 0);
    flxi_conv_tasks(&g, g.tasks, run_block, pool, own, g.own_bytes);
}
