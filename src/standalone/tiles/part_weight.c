/* SPDX-License-Identifier: Apache-2.0 */
/* part_weight.c: convolutions towards the weights for targets with vectors: w[f, c, t] = Σ z[n, f, o] x[n, c, p] over
   images and positions. The order of sums is that of the library (backend/cpu/conv/conv_weight.c): a chain of fused
   multiply-adds for each visit of some rows, the visits of a part added in order, then the parts.

   Tiles have pairs of tap and channel as rows and features as the lanes of vectors. A unit of rows is copied: x with
   zeros for padding, z with its features side by side. */
#include "standalone/tiles/part_direct.h"

#include "base/number.h"

typedef struct {
    flxi_sa_direct_form *f;
    const flxi_conv_problem *p;
    flxi_conv_cuts cuts;
    int64_t stride[2], dilation[2], sample[2];   /* in the copy of x */
    int64_t seen[2], channel, image;             /* rows and columns of the copy, elements of a channel and an image */
    int64_t taps, pairs, features;               /* features of the copy of z */
    size_t x_at, z_at, rows_at, total_at, bytes; /* in the scratch memory, after the sums */
} plan;

static plan plan_of(flxi_sa_direct_form *f)
{
    const flxi_conv_problem *p = &f->d.p;
    plan g = {.f = f, .p = p, .cuts = flxi_conv_cuts_of(p)};
    const int64_t counts[2] = {g.cuts.rows, g.cuts.columns};
    for (int k = 0; k < 2; k++) {
        const flxi_conv_axis *x = &p->axis[k];
        g.sample[k] = x->spread != 1 ? 1 : x->taps > 1 ? flxi_common_divisor(x->stride, x->dilation) : x->stride;
        g.stride[k] = x->stride / g.sample[k];
        g.dilation[k] = x->taps > 1 ? x->dilation / g.sample[k] : 1;
        g.seen[k] = (counts[k] - 1) * g.stride[k] + (x->taps - 1) * g.dilation[k] + 1;
    }
    g.channel = g.seen[0] * g.seen[1];
    g.image = p->channels * g.channel;
    g.taps = p->axis[0].taps * p->axis[1].taps;
    g.pairs = g.taps * p->channels;
    g.features = (p->features + 15) / 16 * 16;
    size_t sums = flxi_sa_elements(g.pairs * g.features, f->size);
    g.total_at = sums;
    g.x_at = sums * (g.cuts.parts > 1 ? 2 : 1);
    g.z_at = g.x_at + flxi_sa_elements(g.cuts.images * g.image, f->size);
    g.rows_at = g.z_at + flxi_sa_elements(g.cuts.images * g.cuts.rows * g.cuts.columns * g.features, f->size);
    g.bytes = g.rows_at + flxi_sa_elements(g.pairs, sizeof(int64_t));
    return g;
}

size_t flxi_sa_weight_bytes(const flxi_sa_direct_form *f)
{
    flxi_sa_direct_form own = *f;
    return plan_of(&own).bytes;
}

/* Threads share the parts of the sum, which are added in order when all are there. */
flxi_sa_cuts flxi_sa_weight_cuts(const flxi_sa_direct_form *f)
{
    flxi_sa_direct_form own = *f;
    plan g = plan_of(&own);
    size_t sums = g.total_at, parts = (size_t)g.cuts.parts;
    if (g.cuts.parts < 2 || g.p->groups > 1)
        return (flxi_sa_cuts){0};
    return (flxi_sa_cuts){
        .units = g.cuts.parts, .common = parts * sums, .bytes = parts * sums + g.bytes - g.x_at, .has_end = true};
}

/* ---- Copies ---- */

/* Declares the index of x at position `u` of the copy along axis k, and gives whether it is inside. */
static const char *declare_index(const plan *g, int k, const char *name, const char *u, const char *first)
{
    flxi_sa_writer *w = g->f->w;
    const flxi_conv_axis *x = &g->p->axis[k];
    flxi_sa_line(w, "const int64_t %s = %s * %lld - %lld + %s * %lld;", name, first, flxi_sa_long(x->stride),
                 flxi_sa_long(x->low), u, flxi_sa_long(g->sample[k]));
    if (x->spread == 1)
        return flxi_sa_print(w, "%s >= 0 && %s < %lld", name, name, flxi_sa_long(x->in));
    return flxi_sa_print(w, "%s >= 0 && %s %% %lld == 0 && %s / %lld < %lld", name, name, flxi_sa_long(x->spread), name,
                         flxi_sa_long(x->spread), flxi_sa_long(x->in));
}

/* One row of the copy, from column `column` of the result on. Where x is not spread the columns inside are a run. */
static void copy_columns(const plan *g)
{
    flxi_sa_writer *w = g->f->w;
    const flxi_conv_problem *p = g->p;
    const flxi_conv_axis *x = &p->axis[1];
    long long seen = flxi_sa_long(g->seen[1]), sample = flxi_sa_long(g->sample[1]);
    if (x->spread != 1) {
        flxi_sa_open(w, "for (int64_t v = 0; v < %lld; v++)", seen);
        const char *is_inside = declare_index(g, 1, "at", "v", "column");
        flxi_sa_line(w, "to[v] = %s ? %s : 0;", is_inside,
                     flxi_sa_load(w, p->dtype,
                                  flxi_sa_print(w, "from[at / %lld * %lld]", flxi_sa_long(x->spread),
                                                flxi_sa_long(p->x.at[1]))));
        flxi_sa_close(w);
        return;
    }
    flxi_sa_line(w, "const int64_t begin = column * %lld - %lld;", flxi_sa_long(x->stride), flxi_sa_long(x->low));
    flxi_sa_line(w, "const int64_t room = begin < %lld ? (%lld - begin + %lld) / %lld : 0;", flxi_sa_long(x->in),
                 flxi_sa_long(x->in), sample - 1, sample);
    flxi_sa_line(w, "const int64_t high = room < %lld ? room : %lld;", seen, seen);
    flxi_sa_line(w, "const int64_t reach = begin < 0 ? (%lld - begin) / %lld : 0;", sample - 1, sample);
    flxi_sa_line(w, "const int64_t low = reach < high ? reach : high;");
    flxi_sa_line(w, "for (int64_t v = 0; v < low; v++)");
    flxi_sa_line(w, "    to[v] = 0;");
    flxi_sa_line(w, "for (int64_t v = low; v < high; v++)");
    flxi_sa_line(w, "    to[v] = %s;",
                 flxi_sa_load(w, p->dtype,
                              flxi_sa_print(w, "from[begin * %lld + v * %lld]", flxi_sa_long(p->x.at[1]),
                                            flxi_sa_long(g->sample[1] * p->x.at[1]))));
    flxi_sa_line(w, "for (int64_t v = high; v < %lld; v++)", seen);
    flxi_sa_line(w, "    to[v] = 0;");
}

static void copy_x(const plan *g)
{
    flxi_sa_writer *w = g->f->w;
    const flxi_conv_problem *p = g->p;
    flxi_sa_line(w, "for (int64_t i = 0; i < images; i++)");
    flxi_sa_line(w, "    for (int64_t c = 0; c < %lld; c++)", flxi_sa_long(p->channels));
    w->depth += 2;
    flxi_sa_open(w, "for (int64_t u = 0; u < %lld; u++)", flxi_sa_long(g->seen[0]));
    flxi_sa_line(w, "%s *to = x + i * %lld + c * %lld + u * %lld;", g->f->real, flxi_sa_long(g->image),
                 flxi_sa_long(g->channel), flxi_sa_long(g->seen[1]));
    const char *is_inside = declare_index(g, 0, "line", "u", "row");
    flxi_sa_open(w, "if (!(%s))", is_inside);
    flxi_sa_line(w, "memset(to, 0, %lld * sizeof(%s));", flxi_sa_long(g->seen[1]), g->f->real);
    flxi_sa_line(w, "continue;");
    flxi_sa_close(w);
    flxi_sa_line(w, "const %s *from = %s + %lld + group * %lld + (image + i) * %lld + c * %lld + line / %lld * %lld;",
                 flxi_sa_type(p->dtype), g->f->d.is_turned ? "x1" : "x0", flxi_sa_long(p->x_first),
                 flxi_sa_long(p->x.group), flxi_sa_long(p->x.outer), flxi_sa_long(p->x.inner),
                 flxi_sa_long(p->axis[0].spread), flxi_sa_long(p->x.at[0]));
    copy_columns(g);
    flxi_sa_close(w);
    w->depth -= 2;
}

/* Elements of z from feature `feature` on, some columns at a time so that lines of memory are written as a whole. */
static void copy_features(const plan *g, int64_t feature)
{
    flxi_sa_writer *w = g->f->w;
    const flxi_conv_problem *p = g->p;
    flxi_sa_line(w, "for (int64_t part = 0; part < columns; part += 16)");
    w->depth++;
    flxi_sa_open(w, "for (int64_t f = %lld; f < %lld; f++)", flxi_sa_long(feature), flxi_sa_long(p->features));
    flxi_sa_line(w, "for (int64_t v = part; v < columns && v < part + 16; v++)");
    flxi_sa_line(w, "    to[v * %lld + f] = %s;", flxi_sa_long(g->features),
                 flxi_sa_load(w, p->dtype,
                              flxi_sa_print(w, "from[f * %lld + v * %lld]", flxi_sa_long(p->z.inner),
                                            flxi_sa_long(p->z.at[1]))));
    flxi_sa_close(w);
    w->depth--;
}

/* Squares of columns that are neighbours are turned in registers; the last ones overlap those before. */
static void turn_features(const plan *g)
{
    flxi_sa_writer *w = g->f->w;
    const flxi_conv_problem *p = g->p;
    int lanes = g->f->shape.lanes;
    int64_t whole = p->features / lanes * lanes;
    flxi_sa_open(w, "for (int64_t part = 0; part < columns && columns >= %d; part += %d)", lanes, lanes);
    flxi_sa_line(w, "const int64_t v = part + %d <= columns ? part : columns - %d;", lanes, lanes);
    flxi_sa_line(w, "for (int64_t f = 0; f < %lld; f += %d)", flxi_sa_long(whole), lanes);
    flxi_sa_line(w, "    %s(from + f * %lld + v, %lld, to + v * %lld + f, %lld);", flxi_sa_turn(w, p->dtype),
                 flxi_sa_long(p->z.inner), flxi_sa_long(p->z.inner), flxi_sa_long(g->features),
                 flxi_sa_long(g->features));
    flxi_sa_close(w);
    flxi_sa_open(w, "if (columns < %d)", lanes);
    copy_features(g, 0);
    if (whole < p->features) {
        w->depth--;
        flxi_sa_open(w, "} else");
        copy_features(g, whole);
    }
    flxi_sa_close(w);
}

/* z as [image, row, column, feature]. */
static void copy_z(const plan *g)
{
    flxi_sa_writer *w = g->f->w;
    const flxi_conv_problem *p = g->p;
    flxi_sa_line(w, "for (int64_t i = 0; i < images; i++)");
    w->depth++;
    flxi_sa_open(w, "for (int64_t r = 0; r < rows; r++)");
    flxi_sa_line(w, "%s *to = z + (i * %lld + r) * %lld;", g->f->real, flxi_sa_long(g->cuts.rows),
                 flxi_sa_long(g->cuts.columns * g->features));
    flxi_sa_line(
        w, "const %s *from = %s + %lld + group * %lld + (image + i) * %lld + (row + r) * %lld + column * %lld;",
        flxi_sa_type(p->dtype), g->f->d.is_turned ? "x0" : "x1", flxi_sa_long(p->z_first), flxi_sa_long(p->z.group),
        flxi_sa_long(p->z.outer), flxi_sa_long(p->z.at[0]), flxi_sa_long(p->z.at[1]));
    int lanes = g->f->shape.lanes;
    if (p->z.at[1] == 1 && p->dtype == g->f->sum && p->features >= lanes && p->axis[1].out >= lanes)
        turn_features(g);
    else
        copy_features(g, 0);
    flxi_sa_close(w);
    w->depth--;
}

/* ---- Tiles ---- */

static void write_tile(const plan *g, int rows, int vectors, const char *pair, const char *feature)
{
    flxi_sa_writer *w = g->f->w;
    flxi_sa_line(w, "%s(x + r * %lld, shifts + %s, z + r * %lld + %s, &walk, sums + %s * %lld + %s, %lld, adds);",
                 flxi_sa_line_tile(w, g->f->sum, rows, vectors), flxi_sa_long(g->stride[0] * g->seen[1]), pair,
                 flxi_sa_long(g->cuts.columns * g->features), feature, pair, flxi_sa_long(g->features), feature,
                 flxi_sa_long(g->features));
}

/* All pairs of tap and channel for that many vectors of features. */
static void write_pairs(const plan *g, int vectors, const char *feature)
{
    flxi_sa_writer *w = g->f->w;
    int64_t rest = g->pairs % 6, sixes = g->pairs - rest;
    if (sixes) {
        flxi_sa_line(w, "for (int64_t j = 0; j < %lld; j += 6)", flxi_sa_long(sixes));
        w->depth++;
        write_tile(g, 6, vectors, "j", feature);
        w->depth--;
    }
    if (rest)
        write_tile(g, (int)rest, vectors, flxi_sa_print(w, "%lld", flxi_sa_long(sixes)), feature);
}

static void write_visits(const plan *g)
{
    flxi_sa_writer *w = g->f->w;
    int lanes = g->f->shape.lanes, vectors = g->f->shape.vectors;
    int64_t width = (int64_t)lanes * vectors, whole = g->p->features / width * width;
    int rest = (int)((g->p->features - whole + lanes - 1) / lanes);
    flxi_sa_open(w, "for (int64_t r = 0; r < rows; r += %lld)", flxi_sa_long(g->cuts.visit));
    flxi_sa_line(w, "const int64_t lines = rows - r < %lld ? rows - r : %lld;", flxi_sa_long(g->cuts.visit),
                 flxi_sa_long(g->cuts.visit));
    flxi_sa_line(w, "const %s walk = {images, lines, columns, %lld, %lld, %lld, %lld, %lld, %lld};",
                 flxi_sa_walk_type(w), flxi_sa_long(g->image), flxi_sa_long(g->stride[0] * g->seen[1]),
                 flxi_sa_long(g->stride[1]), flxi_sa_long(g->cuts.rows * g->cuts.columns * g->features),
                 flxi_sa_long(g->cuts.columns * g->features), flxi_sa_long(g->features));
    if (whole) {
        flxi_sa_open(w, "for (int64_t f = 0; f < %lld; f += %lld)", flxi_sa_long(whole), flxi_sa_long(width));
        write_pairs(g, vectors, "f");
        flxi_sa_close(w);
    }
    if (rest)
        write_pairs(g, rest, flxi_sa_print(w, "%lld", flxi_sa_long(whole)));
    flxi_sa_line(w, "adds = 1;");
    flxi_sa_close(w);
}

/* ---- The whole ---- */

static void declare_shifts(const plan *g)
{
    flxi_sa_writer *w = g->f->w;
    flxi_sa_line(w, "int64_t *const shifts = (int64_t *)(%s + %zu); /* of a tap and channel in the copy of x */",
                 flxi_sa_own(w), g->rows_at);
    flxi_sa_line(w, "for (int64_t t = 0; t < %lld; t++)", flxi_sa_long(g->taps));
    flxi_sa_line(w, "    for (int64_t c = 0; c < %lld; c++)", flxi_sa_long(g->p->channels));
    flxi_sa_line(w, "        shifts[t * %lld + c] = c * %lld + t / %lld * %lld + t %% %lld * %lld;",
                 flxi_sa_long(g->p->channels), flxi_sa_long(g->channel), flxi_sa_long(g->p->axis[1].taps),
                 flxi_sa_long(g->dilation[0] * g->seen[1]), flxi_sa_long(g->p->axis[1].taps),
                 flxi_sa_long(g->dilation[1]));
}

/* Where the unit begins, and how large it is: the last ones may be smaller. */
static void declare_unit(const plan *g)
{
    flxi_sa_writer *w = g->f->w;
    const int64_t all[3] = {g->p->images, g->p->axis[0].out, g->p->axis[1].out};
    const int64_t one[3] = {g->cuts.images, g->cuts.rows, g->cuts.columns};
    static const char *const names[3] = {"image", "row", "column"};
    int64_t parts[3];
    for (int k = 0; k < 3; k++)
        parts[k] = flxi_conv_parts(all[k], one[k]);
    for (int k = 0; k < 3; k++) {
        int64_t inner = (k < 1 ? parts[1] : 1) * (k < 2 ? parts[2] : 1);
        flxi_sa_line(w, "const int64_t %s = unit / %lld %% %lld * %lld;", names[k], flxi_sa_long(inner),
                     flxi_sa_long(parts[k]), flxi_sa_long(one[k]));
        flxi_sa_line(w, "const int64_t %ss = %lld - %s < %lld ? %lld - %s : %lld;", names[k], flxi_sa_long(all[k]),
                     names[k], flxi_sa_long(one[k]), flxi_sa_long(all[k]), names[k], flxi_sa_long(one[k]));
    }
}

static void write_units(const plan *g)
{
    flxi_sa_writer *w = g->f->w;
    long long units = flxi_sa_long(g->cuts.units), part = flxi_sa_long(g->cuts.part);
    flxi_sa_line(w, "int adds = 0;");
    flxi_sa_open(w, "for (int64_t unit = part * %lld; unit < (part + 1) * %lld && unit < %lld; unit++)", part, part,
                 units);
    declare_unit(g);
    copy_x(g);
    copy_z(g);
    write_visits(g);
    flxi_sa_close(w);
}

static void store_weights(const plan *g, const char *from)
{
    flxi_sa_writer *w = g->f->w;
    const flxi_conv_problem *p = g->p;
    flxi_sa_line(w, "for (int64_t f = 0; f < %lld; f++)", flxi_sa_long(p->features));
    flxi_sa_line(w, "    for (int64_t c = 0; c < %lld; c++)", flxi_sa_long(p->channels));
    flxi_sa_line(w, "        for (int64_t t = 0; t < %lld; t++)", flxi_sa_long(g->taps));
    flxi_sa_line(w, "            y0[%lld + group * %lld + f * %lld + c * %lld + t / %lld * %lld + t %% %lld * %lld] =",
                 flxi_sa_long(p->w_first), flxi_sa_long(p->w.group), flxi_sa_long(p->w.outer), flxi_sa_long(p->w.inner),
                 flxi_sa_long(p->axis[1].taps), flxi_sa_long(p->w.at[0]), flxi_sa_long(p->axis[1].taps),
                 flxi_sa_long(p->w.at[1]));
    flxi_sa_line(w, "                %s;",
                 flxi_sa_store(w, p->dtype,
                               flxi_sa_print(w, "%s[(t * %lld + c) * %lld + f]", from, flxi_sa_long(p->channels),
                                             flxi_sa_long(g->features))));
}

/* Parts by threads: each has sums of its own; in the end they are added, as one thread adds them. */
static void write_shared(plan *g)
{
    flxi_sa_writer *w = g->f->w;
    const char *real = g->f->real;
    long long count = flxi_sa_long(g->pairs * g->features), each = flxi_sa_long((int64_t)(g->total_at / g->f->size));
    size_t moved = (size_t)g->cuts.parts * g->total_at - g->x_at;
    g->x_at += moved;
    g->z_at += moved;
    g->rows_at += moved;
    flxi_sa_line(w, "%s *const all = (%s *)scratch;", real, real);
    flxi_sa_line(w, "const int64_t group = 0;");
    flxi_sa_open(w, "if (from < %lld)", flxi_sa_long(w->units));
    flxi_sa_line(w, "%s *const x = (%s *)(own + %zu);", real, real, g->x_at);
    flxi_sa_line(w, "%s *const z = (%s *)(own + %zu);", real, real, g->z_at);
    declare_shifts(g);
    if (g->features != g->p->features)
        flxi_sa_line(w, "memset(z, 0, %zu); /* features that fill the last vector */", g->rows_at - g->z_at);
    flxi_sa_open(w, "for (int64_t part = from; part < to; part++)");
    flxi_sa_line(w, "%s *const sums = all + part * %lld;", real, each);
    write_units(g);
    flxi_sa_close(w);
    flxi_sa_line(w, "return;");
    flxi_sa_close(w);
    flxi_sa_line(w, "for (int64_t part = 1; part < %lld; part++)", flxi_sa_long(w->units));
    flxi_sa_line(w, "    for (int64_t i = 0; i < %lld; i++)", count);
    flxi_sa_line(w, "        all[i] += all[part * %lld + i];", each);
    store_weights(g, "all");
}

void flxi_sa_weight_tiles(flxi_sa_direct_form *f)
{
    flxi_sa_writer *w = f->w;
    plan g = plan_of(f);
    const char *real = f->real;
    bool has_parts = g.cuts.parts > 1;
    if (w->units > 1) {
        write_shared(&g);
        return;
    }
    flxi_sa_line(w, "%s *const sums = (%s *)scratch;", real, real);
    if (has_parts)
        flxi_sa_line(w, "%s *const total = (%s *)(scratch + %zu);", real, real, g.total_at);
    flxi_sa_line(w, "%s *const x = (%s *)(scratch + %zu);", real, real, g.x_at);
    flxi_sa_line(w, "%s *const z = (%s *)(scratch + %zu);", real, real, g.z_at);
    declare_shifts(&g);
    if (g.features != g.p->features)
        flxi_sa_line(w, "memset(z, 0, %zu); /* features that fill the last vector */", g.rows_at - g.z_at);
    flxi_sa_open(w, "for (int64_t group = 0; group < %lld; group++)", flxi_sa_long(g.p->groups));
    flxi_sa_open(w, "for (int64_t part = 0; part < %lld; part++)", flxi_sa_long(g.cuts.parts));
    write_units(&g);
    if (has_parts) {
        flxi_sa_line(w, "for (int64_t i = 0; i < %lld; i++)", flxi_sa_long(g.pairs * g.features));
        flxi_sa_line(w, "    total[i] = part ? total[i] + sums[i] : sums[i];");
    }
    flxi_sa_close(w);
    store_weights(&g, has_parts ? "total" : "sums");
    flxi_sa_close(w);
}
