/* SPDX-License-Identifier: Apache-2.0 */
/* conv_weight.c: w[f, c, t] = Σ z[n, f, o] x[n, c, p] over images and positions, see conv_direct.h.

   A tile has 6 of the pairs (tap, channel) as rows and a panel of features as columns; its depth are positions, a row
   of the image for each segment. Rows of all taps read the same copy of x, shifted. A task takes some channels, some
   features and a part of the images; for each unit, which is a block of rows, it copies x and z, and visits it in
   pieces of about VISIT positions that the first cache holds of z. Parts have sums of their own, which are added in
   order at the end.

   Where each group has one channel and one feature, groups are the lanes of vectors: a panel is some groups, and rows
   of a tile are taps alone.

   So each element of w is a chain of fused multiply-adds for each visit; the visits of a part are added in order, then
   the parts. How positions are cut into visits and parts depends on shapes alone. */
#include "backend/cpu/conv/conv_direct.h"
#include "backend/cpu/gemm/gemm_turn.h"

#include "base/host/stop.h"
#include "base/number.h"

typedef struct {
    flxi_conv_problem p; /* by lane: its groups are panels */
    const flxi_gemm_kernels *ker;
    bool by_lane;
    int64_t groups; /* by lane: of the problem as given */
    int64_t depth;  /* rows of a tap: channels, or 1 by lane */
    int64_t taps;
    int64_t stride[2], dilation[2], sample[2]; /* in the copy of x */
    int64_t panel, panels;                     /* features of a panel, and how many there are */
    int64_t channels, features;                /* of a task; features are whole panels */
    int64_t images, rows, columns;             /* of a unit */
    int64_t visit;                             /* rows of a visit, for one image */
    int64_t units, part, parts;                /* all; of one part; how many parts */
    int64_t x_count, z_count, held;            /* elements: copies, and the sums of one part */
    bool z_is_read;                            /* z is read where it is */
    size_t sum_bytes, own_bytes;
    char *sums;
} plan;

enum {
    VISIT = 128,            /* positions */
    UNIT_BYTES = 192 << 10, /* of x, for 64 channels */
    SUM_BYTES = 512 << 10,  /* that a task writes again and again */
    PART_BYTES = 4 << 20,   /* of all parts */
    WANTED_TASKS = 16,
    LINE_CHANNELS = 16, /* whose taps are written in one task */
};

/* ---- Plans ---- */

/* How many indices of the copy of x that many outputs see along axis k. */
static int64_t seen(const plan *g, int k, int64_t outputs)
{
    return (outputs - 1) * g->stride[k] + (g->p.axis[k].taps - 1) * g->dilation[k] + 1;
}

static void set_axis(plan *g, int k)
{
    const flxi_conv_axis *x = &g->p.axis[k];
    g->sample[k] = x->spread != 1 ? 1 : x->taps > 1 ? flxi_common_divisor(x->stride, x->dilation) : x->stride;
    g->stride[k] = x->stride / g->sample[k];
    g->dilation[k] = x->taps > 1 ? x->dilation / g->sample[k] : 1;
}

/* Units of rows, or of columns of one row, and visits of about the same number of positions each. */
static void choose_units(plan *g)
{
    const flxi_conv_axis *h = &g->p.axis[0];
    const flxi_conv_axis *w = &g->p.axis[1];
    int64_t most = UNIT_BYTES / (64 * (int64_t)g->ker->size);
    g->columns = w->out <= 3 * VISIT / 2 ? w->out : flxi_conv_even(w->out, VISIT);
    int64_t wide = seen(g, 1, g->columns);
    int64_t fit = (most / wide - (h->taps - 1) * g->dilation[0] - 1) / g->stride[0] + 1;
    g->visit = flxi_conv_most(flxi_conv_even(h->out, VISIT / g->columns), 1);
    g->rows = flxi_conv_even(h->out, flxi_conv_most(fit, g->visit));
    g->images = 1;
    if (g->rows == h->out)
        g->images = flxi_conv_even(
            g->p.images, flxi_conv_least(VISIT / (g->rows * g->columns), most / (wide * seen(g, 0, g->rows))));
    g->units = flxi_conv_parts(g->p.images, g->images) * flxi_conv_parts(h->out, g->rows) *
               flxi_conv_parts(w->out, g->columns);
}

static int64_t task_count(const plan *g)
{
    return g->p.groups * flxi_conv_parts(g->p.channels, g->channels) * flxi_conv_parts(g->p.features, g->features);
}

/* Tasks whose sums fit the second cache; then parts, and channels, until there are enough of them. */
static void choose_tasks(plan *g)
{
    const flxi_conv_problem *p = &g->p;
    int64_t size = (int64_t)g->ker->size;
    g->features = flxi_conv_least(flxi_conv_round(p->features, 64), 256);
    g->channels = flxi_conv_even(p->channels, flxi_conv_most(SUM_BYTES / (g->taps * g->features * size), 16));
    double work = (double)p->images * (double)p->axis[0].out * (double)p->axis[1].out * (double)g->taps *
                  (double)p->channels * (double)p->features * (double)p->groups;
    int64_t wanted = (int64_t)flxi_conv_least(WANTED_TASKS, (int64_t)(work / 0x1p19) + 1);
    int64_t weight_bytes = p->groups * g->taps * p->channels * flxi_conv_round(p->features, 64) * size;
    g->parts =
        flxi_conv_least(flxi_conv_parts(wanted, task_count(g)), flxi_conv_least(g->units, PART_BYTES / weight_bytes));
    g->parts = flxi_conv_most(g->parts, 1);
    g->part = flxi_conv_parts(g->units, g->parts);
    g->parts = flxi_conv_parts(g->units, g->part);
    while (task_count(g) * g->parts < wanted && g->channels >= 32)
        g->channels = flxi_conv_parts(g->channels, 2);
}

/* By lane there are enough groups, or little to do; parts do not depend on the width of vectors. */
static void choose_lanes(plan *g)
{
    flxi_conv_problem *p = &g->p;
    flxi_conv_join_lanes(p, 2 * g->ker->lanes);
    g->panel = g->channels = g->features = p->features;
    g->panels = 1;
    g->depth = 1;
    g->parts = flxi_conv_least(g->units, WANTED_TASKS);
    g->part = flxi_conv_parts(g->units, g->parts);
    g->parts = flxi_conv_parts(g->units, g->part);
}

/* Channels and features of a group by lane: the last may have fewer. */
static int64_t lanes_of(const plan *g, int64_t group)
{
    return flxi_conv_least(g->panel, g->groups - group * g->panel);
}

static plan make_plan(const flxi_conv_problem *given)
{
    plan g = {.p = *given, .ker = flxi_conv_kernels(given), .groups = given->groups, .depth = given->channels};
    const flxi_conv_problem *p = &g.p;
    g.by_lane = flxi_conv_is_by_lane(p);
    g.taps = p->axis[0].taps * p->axis[1].taps;
    set_axis(&g, 0);
    set_axis(&g, 1);
    choose_units(&g);
    if (g.by_lane) {
        choose_lanes(&g);
    } else {
        choose_tasks(&g);
        g.panel = flxi_conv_least(g.ker->cols, flxi_conv_round(p->features, g.ker->lanes));
        g.panels = flxi_conv_parts(p->features, g.panel);
    }
    int64_t wide = g.by_lane ? g.groups : p->features;
    g.z_is_read = p->z.inner == 1 && flxi_gemm_is_native(p->dtype) && wide % g.ker->lanes == 0;
    g.x_count = g.images * seen(&g, 0, g.rows) * seen(&g, 1, g.columns) * g.channels + g.ker->cols;
    g.z_count = g.z_is_read ? 0 : g.images * g.rows * g.columns * flxi_conv_round(g.features, g.panel);
    g.held = p->groups * g.panels * g.taps * g.depth * g.panel;
    g.sum_bytes = flxi_conv_aligned(g.held, g.ker->size) * (size_t)g.parts;
    g.own_bytes = flxi_conv_aligned(g.x_count, g.ker->size) + flxi_conv_aligned(g.z_count, g.ker->size) +
                  flxi_conv_aligned(2 * g.images * g.rows, sizeof(int64_t));
    return g;
}

flxi_conv_cuts flxi_conv_cuts_of(const flxi_conv_problem *p)
{
    plan g = make_plan(p);
    return (flxi_conv_cuts){.images = g.images,
                            .rows = g.rows,
                            .columns = g.columns,
                            .visit = g.visit,
                            .units = g.units,
                            .part = g.part,
                            .parts = g.parts};
}

/* ---- Tasks ---- */

typedef struct {
    const plan *g;
    int64_t group;
    int64_t channel, channels; /* of the group */
    int64_t panel, panels;
    int64_t image, images, row, rows, column, columns; /* the unit */
    flxi_strip_view x;
    char *x_copy, *z_copy;
    int64_t *a_at, *b_at;
    char *sums; /* of the part */
    bool add;
} task_state;

static void enter_unit(task_state *s, int64_t unit)
{
    const plan *g = s->g;
    const flxi_conv_problem *p = &g->p;
    int64_t row_units = flxi_conv_parts(p->axis[0].out, g->rows);
    int64_t column_units = flxi_conv_parts(p->axis[1].out, g->columns);
    s->column = unit % column_units * g->columns;
    s->columns = flxi_conv_least(g->columns, p->axis[1].out - s->column);
    s->row = unit / column_units % row_units * g->rows;
    s->rows = flxi_conv_least(g->rows, p->axis[0].out - s->row);
    s->image = unit / column_units / row_units * g->images;
    s->images = flxi_conv_least(g->images, p->images - s->image);
}

static void fetch_x(task_state *s)
{
    const plan *g = s->g;
    const flxi_conv_problem *p = &g->p;
    int64_t in = (int64_t)flx_dtype_size(p->dtype);
    flxi_strip strip = {.images = s->images, .channels = s->channels};
    int64_t first[2] = {s->row, s->column};
    int64_t count[2] = {s->rows, s->columns};
    for (int k = 0; k < 2; k++)
        strip.axis[k] = (flxi_strip_axis){.count = seen(g, k, count[k]),
                                          .first = first[k] * p->axis[k].stride - p->axis[k].low,
                                          .sample = g->sample[k],
                                          .spread = p->axis[k].spread,
                                          .in = p->axis[k].in};
    const char *from =
        (const char *)p->x_data + (s->group * p->x.group + s->image * p->x.outer + s->channel * p->x.inner) * in;
    if (flxi_strip_is_there(p, &strip) && (!g->by_lane || s->channels % g->ker->lanes == 0)) {
        s->x =
            (flxi_strip_view){.data = from + (strip.axis[0].first * p->x.at[0] + strip.axis[1].first * p->x.at[1]) * in,
                              .image = p->x.outer,
                              .at = {g->sample[0] * p->x.at[0], g->sample[1] * p->x.at[1]}};
        return;
    }
    flxi_strip_fill(p, &strip, from, s->x_copy);
    s->x = (flxi_strip_view){.data = s->x_copy, .at = {strip.axis[1].count * s->channels, s->channels}};
    s->x.image = strip.axis[0].count * s->x.at[0];
}

static int64_t panel_width(const task_state *s, int64_t panel)
{
    const plan *g = s->g;
    return g->by_lane ? lanes_of(g, s->group) : flxi_conv_least(g->panel, g->p.features - panel * g->panel);
}

/* z as [panel, image, row, column, feature]. */
static void fetch_z(task_state *s)
{
    const plan *g = s->g;
    const flxi_conv_problem *p = &g->p;
    int64_t in = (int64_t)flx_dtype_size(p->dtype);
    size_t size = g->ker->size;
    char *to = s->z_copy;
    bool is_line = p->z.at[0] == s->columns * p->z.at[1]; /* rows follow each other */
    int64_t lines = is_line ? 1 : s->rows;
    int64_t length = is_line ? s->rows * s->columns : s->columns;
    for (int64_t j = 0; j < s->panels; j++) {
        int64_t first = (s->panel + j) * g->panel;
        int64_t features = panel_width(s, s->panel + j);
        for (int64_t r = 0; r < s->images * lines; r++, to += (size_t)(length * g->panel) * size) {
            int64_t at = s->group * p->z.group + (s->image + r / lines) * p->z.outer + first * p->z.inner +
                         (s->row + r % lines) * p->z.at[0] + s->column * p->z.at[1];
            const flxi_gemm_view row = {(const char *)p->z_data + at * in, features, p->z.inner, length, p->z.at[1]};
            flxi_turn_block(p->dtype, (flxi_isa)p->isa, &row, to, g->panel);
            for (int64_t k = 0; features < g->panel && k < length; k++)
                memset(to + (size_t)(k * g->panel + features) * size, 0, (size_t)(g->panel - features) * size);
        }
    }
}

/* The rows [from, from + rows) of each image as segments, for panel j of the task. */
static void set_segments(const task_state *s, flxi_scattered_tile *t, int64_t j, int64_t from, int64_t rows)
{
    const plan *g = s->g;
    const flxi_conv_problem *p = &g->p;
    t->segments = 0;
    t->depth = s->columns;
    t->a = s->x.data;
    t->a_step = g->stride[1] * s->x.at[1];
    t->b_step = g->z_is_read ? p->z.at[1] : g->panel;
    int64_t at = s->group * p->z.group + s->image * p->z.outer + (s->panel + j) * g->panel + s->row * p->z.at[0] +
                 s->column * p->z.at[1];
    t->b = g->z_is_read ? (const char *)p->z_data + (size_t)at * g->ker->size
                        : s->z_copy + (size_t)(j * s->images * s->rows * s->columns * g->panel) * g->ker->size;
    for (int64_t i = 0; i < s->images; i++)
        for (int64_t r = from; r < from + rows; r++) {
            s->a_at[t->segments] = i * s->x.image + r * g->stride[0] * s->x.at[0];
            s->b_at[t->segments++] =
                g->z_is_read ? i * p->z.outer + r * p->z.at[0] : (i * s->rows + r) * s->columns * g->panel;
        }
    t->a_at = s->a_at;
    t->b_at = s->b_at;
}

/* A pair of tap and channel; where the copy of x and the sums have its row. */
typedef struct {
    int64_t tap, column, channel; /* column: of the tap */
    int64_t a_tap, c_tap;         /* of channel 0 */
} row_state;

static void next_row(const task_state *s, row_state *r)
{
    const plan *g = s->g;
    if (!g->by_lane && ++r->channel < s->channels)
        return;
    r->channel = 0;
    r->tap++;
    r->c_tap += g->depth * g->panel;
    r->a_tap += g->dilation[1] * s->x.at[1];
    if (++r->column < g->p.axis[1].taps)
        return;
    r->column = 0;
    r->a_tap += g->dilation[0] * s->x.at[0] - g->p.axis[1].taps * g->dilation[1] * s->x.at[1];
}

/* All taps and channels of the task for one panel. */
static void run_tiles(const task_state *s, flxi_scattered_tile *t, int64_t panel)
{
    const plan *g = s->g;
    int64_t count = g->taps * (g->by_lane ? 1 : s->channels);
    row_state row = {.c_tap = ((s->group * g->panels + panel) * g->taps * g->depth + s->channel) * g->panel};
    t->cols = (int)flxi_conv_round(panel_width(s, panel), g->ker->lanes);
    t->c = s->sums;
    t->add = s->add;
    for (int64_t i = 0; i < count; i += t->rows) {
        t->rows = flxi_conv_tile_rows(count - i);
        for (int r = 0; r < t->rows; r++, next_row(s, &row)) {
            t->a_row[r] = row.a_tap + row.channel;
            t->c_row[r] = row.c_tap + row.channel * g->panel;
        }
        (g->by_lane ? g->ker->by_lane : g->ker->scattered)(t);
    }
}

static void run_unit(task_state *s)
{
    const plan *g = s->g;
    fetch_x(s);
    if (!g->z_is_read)
        fetch_z(s);
    for (int64_t r = 0; r < s->rows; r += g->visit) {
        for (int64_t j = 0; j < s->panels && !flxi_stopped(); j++) {
            flxi_scattered_tile t = {0};
            set_segments(s, &t, j, r, flxi_conv_least(g->visit, s->rows - r));
            run_tiles(s, &t, s->panel + j);
        }
        s->add = true;
    }
}

static void run_task(const void *user, int64_t task, char *own)
{
    const plan *g = user;
    const flxi_conv_problem *p = &g->p;
    int64_t blocks = flxi_conv_parts(p->channels, g->channels); /* by lane 1, as the next */
    int64_t wide = flxi_conv_parts(p->features, g->features);
    task_state s = {.g = g, .channel = task % blocks * g->channels};
    s.channels = flxi_conv_least(g->channels, p->channels - s.channel);
    int64_t feature = task / blocks % wide * g->features;
    s.panel = feature / g->panel;
    s.panels = flxi_conv_parts(flxi_conv_least(g->features, p->features - feature), g->panel);
    s.group = task / blocks / wide % p->groups;
    if (g->by_lane)
        s.channels = lanes_of(g, s.group);
    int64_t part = task / blocks / wide / p->groups;
    s.sums = g->sums + (size_t)part * flxi_conv_aligned(g->held, g->ker->size);
    s.x_copy = own;
    s.z_copy = own + flxi_conv_aligned(g->x_count, g->ker->size);
    s.a_at = (void *)(s.z_copy + flxi_conv_aligned(g->z_count, g->ker->size));
    s.b_at = s.a_at + g->images * g->rows;
    int64_t end = flxi_conv_least(g->units, (part + 1) * g->part);
    for (int64_t unit = part * g->part; unit < end && !flxi_stopped(); unit++) {
        enter_unit(&s, unit);
        run_unit(&s);
    }
}

/* ---- Parts to the result ---- */

#define ADD_PARTS(name, T)                                                                    \
    static void name(char *sums, int64_t at, int64_t count, size_t part_bytes, int64_t parts) \
    {                                                                                         \
        T *s = (T *)(void *)sums + at;                                                        \
        for (int64_t i = 1; i < parts; i++) {                                                 \
            const T *from = (const T *)(const void *)(sums + (size_t)i * part_bytes) + at;    \
            for (int64_t e = 0; e < count; e++)                                               \
                s[e] += from[e];                                                              \
        }                                                                                     \
    }
ADD_PARTS(add_parts_f32, float)
ADD_PARTS(add_parts_f64, double)

/* One tap of one panel. */
static void finish_tap(const void *user, int64_t task, char *own)
{
    const plan *g = user;
    const flxi_conv_problem *p = &g->p;
    (void)own;
    int64_t tap = task % g->taps;
    int64_t panel = task / g->taps % g->panels;
    int64_t group = task / g->taps / g->panels;
    int64_t count = g->depth * g->panel;
    bool is_f64 = g->ker->size == 8;
    (is_f64 ? add_parts_f64 : add_parts_f32)(g->sums, task * count, count, flxi_conv_aligned(g->held, g->ker->size),
                                             g->parts);
    int64_t at = group * p->w.group + panel * g->panel * p->w.outer + tap / p->axis[1].taps * p->w.at[0] +
                 tap % p->axis[1].taps * p->w.at[1];
    flxi_gemm to = {.dtype = p->dtype, .result = p->dtype, .alpha = 1, .c_row = p->w.inner, .c_col = p->w.outer};
    flxi_gemm_block done = {.sums = g->sums + (size_t)(task * count) * g->ker->size,
                            .sums_row = g->panel,
                            .rows = g->depth,
                            .cols = g->by_lane ? lanes_of(g, group)
                                               : flxi_conv_least(g->panel, p->features - panel * g->panel),
                            .c = (char *)(uintptr_t)p->w_data + at * (int64_t)flx_dtype_size(p->dtype)};
    flxi_gemm_finish(&to, &done);
}

/* Whether taps are neighbours in the result, or else channels: with channels first they are. Then a task writes whole
   lines of them, feature by feature; tap by tap each line of the cache would come from memory for each of its taps. */
static bool has_lines(const plan *g)
{
    const flxi_conv_view *w = &g->p.w;
    bool taps_are = g->taps > 1 && w->at[1] == 1 && (w->at[0] == g->p.axis[1].taps || g->p.axis[0].taps == 1);
    bool channels_are = g->taps == 1 && w->inner == 1 && !g->by_lane;
    return flxi_gemm_is_native(g->p.dtype) && (taps_are || channels_are);
}

/* All taps of some channels of one panel. */
static void finish_lines(const void *user, int64_t task, char *own)
{
    const plan *g = user;
    const flxi_conv_problem *p = &g->p;
    (void)own;
    int64_t blocks = flxi_conv_parts(g->depth, LINE_CHANNELS);
    int64_t first = task % blocks * LINE_CHANNELS;
    int64_t panel = task / blocks % g->panels;
    int64_t group = task / blocks / g->panels;
    int64_t channels = flxi_conv_least(LINE_CHANNELS, g->depth - first);
    int64_t at = (group * g->panels + panel) * g->taps * g->depth + first; /* rows of sums; of the first tap */
    size_t size = g->ker->size;
    for (int64_t tap = 0; tap < g->taps; tap++)
        (size == 8 ? add_parts_f64 : add_parts_f32)(g->sums, (at + tap * g->depth) * g->panel, channels * g->panel,
                                                    flxi_conv_aligned(g->held, size), g->parts);
    int64_t features = g->by_lane ? lanes_of(g, group) : flxi_conv_least(g->panel, p->features - panel * g->panel);
    int64_t to = group * p->w.group + panel * g->panel * p->w.outer + first * p->w.inner;
    char *w = (char *)(uintptr_t)p->w_data + (size_t)to * size;
    const char *sums = g->sums + (size_t)(at * g->panel) * size;
    if (g->taps == 1)
        flxi_turn_block(p->dtype, (flxi_isa)p->isa, &(flxi_gemm_view){sums, channels, g->panel, features, 1}, w,
                        p->w.outer);
    for (int64_t c = 0; g->taps > 1 && c < channels; c++) {
        const flxi_gemm_view from = {sums + (size_t)(c * g->panel) * size, g->taps, g->depth * g->panel, features, 1};
        flxi_turn_block(p->dtype, (flxi_isa)p->isa, &from, w + (size_t)(c * p->w.inner) * size, p->w.outer);
    }
}

/* ---- Entry ---- */

size_t flxi_conv_weight_scratch(const flxi_conv_problem *p, int threads)
{
    plan g = make_plan(p);
    return g.sum_bytes + (size_t)(threads < 1 ? 1 : threads) * g.own_bytes;
}

void flxi_conv_weight(const flxi_conv_problem *p, flxi_pool *pool, void *scratch)
{
    plan g = make_plan(p);
    pool = flxi_conv_pool(p, pool);
    g.sums = scratch;
    char *own = (char *)scratch + g.sum_bytes;
    flxi_conv_tasks(&g, task_count(&g) * g.parts, run_task, pool, own, g.own_bytes);
    if (has_lines(&g))
        flxi_conv_tasks(&g, g.p.groups * g.panels * flxi_conv_parts(g.depth, LINE_CHANNELS), finish_lines, pool, own,
                        0);
    else
        flxi_conv_tasks(&g, g.p.groups * g.panels * g.taps, finish_tap, pool, own, 0);
}
