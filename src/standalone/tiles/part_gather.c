/* SPDX-License-Identifier: Apache-2.0 */
/* part_gather.c: convolutions for targets with vectors: z[n, f, o] = Σ w[f, c, t] x[n, c, p], for forward convolutions
   and those towards the input. The order of sums, and with it every bit, is that of the library
   (backend/cpu/conv/conv_gather.c): for some channels at a time a chain of fused multiply-adds over taps and channels.

   The lanes of vectors are positions. Rows of x are copied with zeros for padding, channel after channel, so that the
   positions of a block of rows are one walk: position q of the block meets tap t at q + taps[t], and what it computes
   between the ends of two rows is left out. Where positions are several elements apart, the copy has a plane for each
   remainder. Weights are packed in sixes of features, which are the rows of tiles. */
#include "standalone/tiles/part_direct.h"

typedef struct {
    flxi_sa_direct_form *f;
    const flxi_conv_problem *p;
    flxi_conv_phase at[2];
    int64_t reach[2];              /* how many more rows and columns of a plane than positions are read */
    int64_t rows;                  /* of a block */
    int64_t pitch, plane, channel; /* elements of a row, of a plane, of a channel of the copy */
    int64_t positions, pitch_of_sums;
    int64_t taps, chunk;
    size_t strip_at, sums_at, bytes; /* in the scratch memory */
} phase;

enum { STRIP_BYTES = 160 << 10, SLACK = 128 /* elements that vectors may read beyond the last */ };

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static phase phase_of(flxi_sa_direct_form *f, int64_t i, int64_t j)
{
    const flxi_conv_problem *p = &f->d.p;
    phase x = {.f = f, .p = p, .at = {flxi_conv_phase_of(&p->axis[0], i), flxi_conv_phase_of(&p->axis[1], j)}};
    for (int k = 0; k < 2; k++)
        x.reach[k] = x.at[k].taps ? (x.at[k].taps - 1) * x.at[k].dilation / x.at[k].stride : 0;
    x.taps = x.at[0].taps * x.at[1].taps;
    x.pitch = x.at[1].count + x.reach[1];
    int64_t planes = x.at[0].stride * x.at[1].stride;
    int64_t fit = STRIP_BYTES / most((int64_t)f->size * p->channels * planes * x.pitch, 1) - x.reach[0];
    x.rows = flxi_conv_even(x.at[0].count, most(fit, 1));
    x.plane = (x.rows + x.reach[0]) * x.pitch;
    x.channel = x.plane * planes;
    x.positions = (x.rows - 1) * x.pitch + x.at[1].count;
    x.pitch_of_sums = (x.positions + 15) / 16 * 16;
    x.chunk = flxi_conv_chunk(p);
    x.strip_at = flxi_sa_elements(p->features * p->channels * most(x.taps, 1), f->size);
    x.sums_at = x.strip_at + flxi_sa_elements(p->channels * x.channel + SLACK, f->size);
    x.bytes = x.sums_at + flxi_sa_elements(6 * x.pitch_of_sums, f->size);
    return x;
}

size_t flxi_sa_gather_bytes(const flxi_sa_direct_form *f)
{
    flxi_sa_direct_form own = *f;
    size_t bytes = 0;
    for (int64_t i = 0; i < flxi_conv_phases(&f->d.p.axis[0]); i++)
        for (int64_t j = 0; j < flxi_conv_phases(&f->d.p.axis[1]); j++) {
            size_t one = phase_of(&own, i, j).bytes;
            bytes = one > bytes ? one : bytes;
        }
    return bytes;
}

/* Threads share the images, or the blocks of rows of one. */
flxi_sa_cuts flxi_sa_gather_cuts(const flxi_sa_direct_form *f)
{
    flxi_sa_direct_form own = *f;
    int64_t images = f->d.p.images;
    phase x = phase_of(&own, 0, 0);
    return (flxi_sa_cuts){.units = images > 1 ? images : (x.at[0].count + x.rows - 1) / x.rows,
                          .bytes = flxi_sa_gather_bytes(f)};
}

/* ---- Weights ---- */

/* weights[tap][channel][row] of `count` features from `feature` on, for each chunk of channels. */
static void pack_panel(const phase *x, const char *feature, int64_t count)
{
    flxi_sa_writer *w = x->f->w;
    const flxi_conv_problem *p = x->p;
    const flxi_conv_phase *h = &x->at[0], *v = &x->at[1];
    flxi_sa_open(w, "for (int64_t c = 0; c < %lld; c += %lld)", flxi_sa_long(p->channels), flxi_sa_long(x->chunk));
    flxi_sa_line(w, "const int64_t n = %lld - c < %lld ? %lld - c : %lld;", flxi_sa_long(p->channels),
                 flxi_sa_long(x->chunk), flxi_sa_long(p->channels), flxi_sa_long(x->chunk));
    flxi_sa_line(w, "%s *to = weights + (%s * %lld + c * %lld) * %lld;", x->f->real, feature, flxi_sa_long(p->channels),
                 flxi_sa_long(count), flxi_sa_long(x->taps));
    flxi_sa_line(w, "for (int64_t i = 0; i < n; i++)");
    flxi_sa_line(w, "    for (int64_t r = 0; r < %lld; r++)", flxi_sa_long(count));
    flxi_sa_line(w, "        for (int64_t t = 0; t < %lld; t++)", flxi_sa_long(h->taps));
    flxi_sa_line(w, "            for (int64_t s = 0; s < %lld; s++)", flxi_sa_long(v->taps));
    const char *from =
        flxi_sa_print(w, "x1[%lld + group * %lld + (%s + r) * %lld + (c + i) * %lld + t * %lld + s * %lld]",
                      flxi_sa_long(p->w_first + h->tap * p->w.at[0] + v->tap * p->w.at[1]), flxi_sa_long(p->w.group),
                      feature, flxi_sa_long(p->w.outer), flxi_sa_long(p->w.inner),
                      flxi_sa_long(h->tap_every * p->w.at[0]), flxi_sa_long(v->tap_every * p->w.at[1]));
    flxi_sa_line(w, "                to[((t * %lld + s) * n + i) * %lld + r] =", flxi_sa_long(v->taps),
                 flxi_sa_long(count));
    flxi_sa_line(w, "                    %s;", flxi_sa_load(w, p->dtype, from));
    flxi_sa_close(w);
}

static void pack_weights(const phase *x)
{
    flxi_sa_writer *w = x->f->w;
    int64_t rest = x->p->features % 6, sixes = x->p->features - rest;
    if (sixes) {
        flxi_sa_open(w, "for (int64_t f = 0; f < %lld; f += 6)", flxi_sa_long(sixes));
        pack_panel(x, "f", 6);
        flxi_sa_close(w);
    }
    if (rest)
        pack_panel(x, flxi_sa_print(w, "%lld", flxi_sa_long(sixes)), rest);
}

/* ---- The copy of x ---- */

/* Declares which columns of a row of the copy are inside of x: [low, high). */
static void declare_inside(const phase *x)
{
    flxi_sa_writer *w = x->f->w;
    const flxi_conv_phase *v = &x->at[1];
    long long step = flxi_sa_long(v->stride * v->sample);
    flxi_sa_line(w, "const int64_t begin = %lld + s * %lld; /* the column of x that the first would be */",
                 flxi_sa_long(v->at), flxi_sa_long(v->sample));
    flxi_sa_line(w, "const int64_t room = begin < %lld ? (%lld - begin + %lld) / %lld : 0;",
                 flxi_sa_long(x->p->axis[1].in), flxi_sa_long(x->p->axis[1].in), step - 1, step);
    flxi_sa_line(w, "const int64_t high = room < %lld ? room : %lld;", flxi_sa_long(x->pitch), flxi_sa_long(x->pitch));
    flxi_sa_line(w, "const int64_t reach = begin < 0 ? (%lld - begin) / %lld : 0;", step - 1, step);
    flxi_sa_line(w, "const int64_t low = reach < high ? reach : high;");
}

static void copy_row(const phase *x)
{
    flxi_sa_writer *w = x->f->w;
    const flxi_conv_problem *p = x->p;
    const flxi_conv_phase *h = &x->at[0], *v = &x->at[1];
    int64_t step = v->stride * v->sample * p->x.at[1];
    flxi_sa_line(w, "%s *to = strip + c * %lld + (t * %lld + s) * %lld + u * %lld;", x->f->real,
                 flxi_sa_long(x->channel), flxi_sa_long(v->stride), flxi_sa_long(x->plane), flxi_sa_long(x->pitch));
    flxi_sa_line(w, "const int64_t row = ((first + u) * %lld + t) * %lld + %lld;", flxi_sa_long(h->stride),
                 flxi_sa_long(h->sample), flxi_sa_long(h->at));
    flxi_sa_open(w, "if (row < 0 || row >= %lld)", flxi_sa_long(p->axis[0].in));
    flxi_sa_line(w, "memset(to, 0, %lld * sizeof(%s));", flxi_sa_long(x->pitch), x->f->real);
    flxi_sa_line(w, "continue;");
    flxi_sa_close(w);
    flxi_sa_line(w, "const %s *from = image + c * %lld + row * %lld + begin * %lld;", flxi_sa_type(p->dtype),
                 flxi_sa_long(p->x.inner), flxi_sa_long(p->x.at[0]), flxi_sa_long(p->x.at[1]));
    flxi_sa_line(w, "for (int64_t v = 0; v < low; v++)");
    flxi_sa_line(w, "    to[v] = 0;");
    if (step == 1 && x->f->sum == p->dtype) {
        flxi_sa_line(w, "memcpy(to + low, from + low, (size_t)(high - low) * sizeof(%s));", x->f->real);
    } else {
        flxi_sa_line(w, "for (int64_t v = low; v < high; v++)");
        flxi_sa_line(w, "    to[v] = %s;",
                     flxi_sa_load(w, p->dtype, flxi_sa_print(w, "from[v * %lld]", flxi_sa_long(step))));
    }
    flxi_sa_line(w, "for (int64_t v = high; v < %lld; v++)", flxi_sa_long(x->pitch));
    flxi_sa_line(w, "    to[v] = 0;");
}

static void copy_strip(const phase *x)
{
    flxi_sa_writer *w = x->f->w;
    flxi_sa_line(w, "for (int64_t t = 0; t < %lld; t++)", flxi_sa_long(x->at[0].stride));
    w->depth++;
    flxi_sa_open(w, "for (int64_t s = 0; s < %lld; s++)", flxi_sa_long(x->at[1].stride));
    declare_inside(x);
    flxi_sa_line(w, "for (int64_t c = 0; c < %lld; c++)", flxi_sa_long(x->p->channels));
    w->depth++;
    flxi_sa_open(w, "for (int64_t u = 0; u < %lld; u++)", flxi_sa_long(x->rows + x->reach[0]));
    copy_row(x);
    flxi_sa_close(w);
    w->depth--;
    flxi_sa_close(w);
    w->depth--;
}

/* ---- Tiles ---- */

static void declare_taps(const phase *x)
{
    flxi_sa_writer *w = x->f->w;
    const flxi_conv_phase *h = &x->at[0], *v = &x->at[1];
    flxi_strbuf text;
    flxi_strbuf_init(&text, w->f->mem);
    for (int64_t t = 0; t < h->taps; t++)
        for (int64_t s = 0; s < v->taps; s++) {
            int64_t row = t * h->dilation, column = s * v->dilation, i = t * v->taps + s;
            int64_t at = (row % h->stride * v->stride + column % v->stride) * x->plane + row / h->stride * x->pitch +
                         column / v->stride;
            flxi_addf(&text, "%s%lld", i == 0 ? "" : i % 16 ? ", " : ",\n        ", flxi_sa_long(at));
        }
    flxi_addf(w->out, "%*sstatic const int64_t taps[%lld] = {%s};\n", 4 * w->depth, "", flxi_sa_long(x->taps),
              text.at ? text.at : "");
    w->f->failed |= text.failed;
    flxi_strbuf_free(&text);
}

static void write_tile(const phase *x, int rows, int vectors, const char *q)
{
    flxi_sa_writer *w = x->f->w;
    flxi_sa_line(w, "%s(a, strip + c * %lld + %s, taps, %lld, n, %lld, sums + %s, %lld, c > 0);",
                 flxi_sa_tap_tile(w, x->f->sum, rows, vectors), flxi_sa_long(x->channel), q, flxi_sa_long(x->taps),
                 flxi_sa_long(x->channel), q, flxi_sa_long(x->pitch_of_sums));
}

/* All positions of the block for `count` features from `feature` on. */
static void write_panel(const phase *x, const char *feature, int64_t count)
{
    flxi_sa_writer *w = x->f->w;
    const flxi_conv_problem *p = x->p;
    int lanes = x->f->shape.lanes, most_vectors = count == 1 ? x->f->shape.wide : x->f->shape.vectors;
    int64_t width = (int64_t)lanes * most_vectors, whole = x->positions / width * width;
    int rest = (int)((x->positions - whole + lanes - 1) / lanes);
    flxi_sa_open(w, "for (int64_t c = 0; c < %lld; c += %lld)", flxi_sa_long(p->channels), flxi_sa_long(x->chunk));
    flxi_sa_line(w, "const int64_t n = %lld - c < %lld ? %lld - c : %lld;", flxi_sa_long(p->channels),
                 flxi_sa_long(x->chunk), flxi_sa_long(p->channels), flxi_sa_long(x->chunk));
    flxi_sa_line(w, "const %s *a = weights + (%s * %lld + c * %lld) * %lld;", x->f->real, feature,
                 flxi_sa_long(p->channels), flxi_sa_long(count), flxi_sa_long(x->taps));
    if (whole) {
        flxi_sa_line(w, "for (int64_t q = 0; q < %lld; q += %lld)", flxi_sa_long(whole), flxi_sa_long(width));
        w->depth++;
        write_tile(x, (int)count, most_vectors, "q");
        w->depth--;
    }
    if (rest)
        write_tile(x, (int)count, rest, flxi_sa_print(w, "%lld", flxi_sa_long(whole)));
    flxi_sa_close(w);
}

/* The positions of the block to z; sums: "sums[…]" or 0 where no tap meets x. */
static void store_panel(const phase *x, const char *feature, int64_t count)
{
    flxi_sa_writer *w = x->f->w;
    const flxi_conv_problem *p = x->p;
    const flxi_conv_phase *h = &x->at[0], *v = &x->at[1];
    int64_t step = v->every * p->z.at[1];
    flxi_sa_line(w, "for (int64_t r = 0; r < %lld; r++)", flxi_sa_long(count));
    w->depth++;
    flxi_sa_open(w, "for (int64_t o = first; o < first + %lld && o < %lld; o++)", flxi_sa_long(x->rows),
                 flxi_sa_long(h->count));
    flxi_sa_line(w, "%s *to = result + (%s + r) * %lld + o * %lld;", flxi_sa_type(p->dtype), feature,
                 flxi_sa_long(p->z.inner), flxi_sa_long(h->every * p->z.at[0]));
    const char *from = flxi_sa_print(w, "sums + r * %lld + (o - first) * %lld", flxi_sa_long(x->pitch_of_sums),
                                     flxi_sa_long(x->pitch));
    if (x->taps && step == 1 && x->f->sum == p->dtype) {
        flxi_sa_line(w, "memcpy(to, %s, %lld * sizeof(%s));", from, flxi_sa_long(v->count), x->f->real);
    } else {
        if (x->taps)
            flxi_sa_line(w, "const %s *from = %s;", x->f->real, from);
        flxi_sa_line(w, "for (int64_t v = 0; v < %lld; v++)", flxi_sa_long(v->count));
        flxi_sa_line(w, "    to[v * %lld] = %s;", flxi_sa_long(step),
                     x->taps ? flxi_sa_store(w, p->dtype, "from[v]") : "0");
    }
    flxi_sa_close(w);
    w->depth--;
}

static void write_features(const phase *x)
{
    flxi_sa_writer *w = x->f->w;
    int64_t rest = x->p->features % 6, sixes = x->p->features - rest;
    const char *last = flxi_sa_print(w, "%lld", flxi_sa_long(sixes));
    if (sixes) {
        flxi_sa_open(w, "for (int64_t f = 0; f < %lld; f += 6)", flxi_sa_long(sixes));
        if (x->taps)
            write_panel(x, "f", 6);
        store_panel(x, "f", 6);
        flxi_sa_close(w);
    }
    if (rest && x->taps)
        write_panel(x, last, rest);
    if (rest)
        store_panel(x, last, rest);
}

/* Loops over images, then blocks of rows. */
static void open_blocks(const phase *x)
{
    flxi_sa_writer *w = x->f->w;
    bool is_cut = w->units > 1, cuts_images = is_cut && x->p->images > 1;
    long long count = flxi_sa_long(x->at[0].count), rows = flxi_sa_long(x->rows);
    if (cuts_images)
        flxi_sa_line(w, "for (int64_t i = from; i < to; i++)");
    else
        flxi_sa_line(w, "for (int64_t i = 0; i < %lld; i++)", flxi_sa_long(x->p->images));
    w->depth++;
    if (!is_cut || cuts_images) {
        flxi_sa_open(w, "for (int64_t first = 0; first < %lld; first += %lld)", count, rows);
        return;
    }
    long long blocks = (count + rows - 1) / rows, units = flxi_sa_long(w->units); /* of this phase, and of the first */
    flxi_sa_open(w,
                 "for (int64_t first = from * %lld / %lld * %lld; first < to * %lld / %lld * %lld && first < %lld; "
                 "first += %lld)",
                 blocks, units, rows, blocks, units, rows, count, rows);
}

static void write_phase(const phase *x)
{
    flxi_sa_writer *w = x->f->w;
    const flxi_conv_problem *p = x->p;
    const char *real = x->f->real;
    flxi_sa_open(w, "/* positions */");
    if (x->taps) {
        declare_taps(x);
        const char *own = flxi_sa_own(w);
        flxi_sa_line(w, "%s *const weights = (%s *)%s;", real, real, own);
        flxi_sa_line(w, "%s *const strip = (%s *)(%s + %zu);", real, real, own, x->strip_at);
        flxi_sa_line(w, "%s *const sums = (%s *)(%s + %zu);", real, real, own, x->sums_at);
        pack_weights(x);
    }
    open_blocks(x);
    if (x->taps)
        flxi_sa_line(w, "const %s *image = x0 + %lld + group * %lld + i * %lld;", flxi_sa_type(p->dtype),
                     flxi_sa_long(p->x_first), flxi_sa_long(p->x.group), flxi_sa_long(p->x.outer));
    flxi_sa_line(w, "%s *result = y0 + %lld + group * %lld + i * %lld;", flxi_sa_type(p->dtype),
                 flxi_sa_long(p->z_first + x->at[0].first * p->z.at[0] + x->at[1].first * p->z.at[1]),
                 flxi_sa_long(p->z.group), flxi_sa_long(p->z.outer));
    if (x->taps)
        copy_strip(x);
    write_features(x);
    flxi_sa_close(w);
    w->depth--;
    flxi_sa_close(w);
}

void flxi_sa_gather_tiles(flxi_sa_direct_form *f)
{
    const flxi_conv_problem *p = &f->d.p;
    flxi_sa_open(f->w, "for (int64_t group = 0; group < %lld; group++)", flxi_sa_long(p->groups));
    for (int64_t i = 0; i < flxi_conv_phases(&p->axis[0]); i++)
        for (int64_t j = 0; j < flxi_conv_phases(&p->axis[1]); j++) {
            phase x = phase_of(f, i, j);
            write_phase(&x);
        }
    flxi_sa_close(f->w);
}
