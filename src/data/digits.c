/* SPDX-License-Identifier: Apache-2.0 */
/* digits.c: drawn digits. Each digit is a few strokes, given by points in a unit square; curves are Catmull-Rom splines
   through them. For each example the points are moved a little, the square is scaled, slanted and shifted, and the
   strokes are drawn with a pen of some thickness, with smooth edges. Then come short strokes that belong to no digit,
   and noise. A linear model cannot follow the shifts; a small convolutional network can.

   Row i depends on the seed and i alone. Only + - * / and sqrt are used, which are exact to the last bit on every
   machine. */
#include "data/dataset.h"
#include "data/permutation.h"

#include "base/host/stop.h"
#include "graph/type/tensor.h"
#include "numeric/counter_rng.h"

#include <math.h>

enum { SIDE = 28, PIXELS = SIDE * SIDE, CLASSES = 10, MAX_POINTS = 14, MAX_STROKES = 2, PIECES = 6 };

typedef struct {
    int n;
    bool is_curve;
    float at[MAX_POINTS][2]; /* x to the right, y down */
} stroke;

static const stroke glyphs[CLASSES][MAX_STROKES] = {
    {{9,
      true,
      {{.5f, .03f},
       {.78f, .17f},
       {.86f, .5f},
       {.78f, .83f},
       {.5f, .97f},
       {.22f, .83f},
       {.14f, .5f},
       {.22f, .17f},
       {.5f, .03f}}}},
    {{3, false, {{.28f, .25f}, {.55f, .03f}, {.55f, .97f}}}},
    {{7, true, {{.16f, .28f}, {.28f, .1f}, {.54f, .03f}, {.8f, .2f}, {.75f, .42f}, {.5f, .66f}, {.14f, .96f}}},
     {2, false, {{.14f, .96f}, {.88f, .96f}}}},
    {{5, true, {{.2f, .13f}, {.5f, .03f}, {.78f, .2f}, {.7f, .42f}, {.42f, .47f}}},
     {5, true, {{.42f, .47f}, {.75f, .56f}, {.83f, .77f}, {.55f, .97f}, {.17f, .86f}}}},
    {{4, false, {{.66f, .97f}, {.66f, .03f}, {.1f, .68f}, {.9f, .68f}}}},
    {{3, false, {{.8f, .04f}, {.26f, .04f}, {.22f, .45f}}},
     {6, true, {{.22f, .45f}, {.5f, .37f}, {.8f, .52f}, {.8f, .78f}, {.5f, .97f}, {.17f, .86f}}}},
    {{9,
      true,
      {{.72f, .06f},
       {.42f, .2f},
       {.2f, .55f},
       {.25f, .82f},
       {.5f, .97f},
       {.78f, .82f},
       {.77f, .6f},
       {.52f, .48f},
       {.23f, .64f}}}},
    {{3, false, {{.14f, .04f}, {.86f, .04f}, {.4f, .97f}}}},
    {{13,
      true,
      {{.5f, .47f},
       {.25f, .32f},
       {.3f, .1f},
       {.5f, .03f},
       {.7f, .1f},
       {.75f, .32f},
       {.5f, .47f},
       {.22f, .68f},
       {.28f, .9f},
       {.5f, .97f},
       {.72f, .9f},
       {.78f, .68f},
       {.5f, .47f}}}},
    {{9,
      true,
      {{.76f, .36f},
       {.48f, .52f},
       {.22f, .4f},
       {.22f, .18f},
       {.5f, .03f},
       {.76f, .18f},
       {.8f, .45f},
       {.62f, .78f},
       {.3f, .97f}}}},
};

/* ---- Random numbers of one example ---- */

typedef struct {
    flxi_rng rng;
    uint64_t drawn;
} source;

static float draw(source *s, float low, float high)
{
    return low + (high - low) * (float)flxi_rng_uniform(&s->rng, FLXI_RNG_24, s->drawn++);
}

/* About normal, with mean 0 and deviation 1: four bytes added up. */
static float draw_noise(source *s)
{
    uint32_t w = flxi_rng_word(&s->rng, s->drawn++);
    uint32_t sum = (w & 255) + (w >> 8 & 255) + (w >> 16 & 255) + (w >> 24);
    return ((float)sum - 510.0f) * (1.0f / 147.8f);
}

/* ---- Drawing ---- */

typedef struct {
    float pixels[PIXELS]; /* ink, 0 to 1 */
    float radius;         /* of the pen */
    float x, y;           /* where it is */
} canvas;

/* Distance of a point to the segment from (ax, ay) to (bx, by). */
static float distance(float px, float py, float ax, float ay, float bx, float by)
{
    float ux = bx - ax, uy = by - ay;
    float length = ux * ux + uy * uy;
    float t = length > 0 ? ((px - ax) * ux + (py - ay) * uy) / length : 0;
    t = t < 0 ? 0 : t > 1 ? 1 : t;
    float dx = px - (ax + t * ux), dy = py - (ay + t * uy);
    return sqrtf(dx * dx + dy * dy);
}

static int clamp(float x)
{
    return x < 0 ? 0 : x > SIDE - 1 ? SIDE - 1 : (int)x;
}

/* Moves the pen in a straight line; edges are one point wide. */
static void line_to(canvas *c, float x, float y)
{
    float reach = c->radius + 1;
    int left = clamp((c->x < x ? c->x : x) - reach), right = clamp((c->x < x ? x : c->x) + reach + 1);
    int top = clamp((c->y < y ? c->y : y) - reach), bottom = clamp((c->y < y ? y : c->y) + reach + 1);
    for (int i = top; i <= bottom; i++)
        for (int k = left; k <= right; k++) {
            float ink = c->radius + 0.5f - distance((float)k, (float)i, c->x, c->y, x, y);
            float *p = &c->pixels[i * SIDE + k];
            ink = ink > 1 ? 1 : ink;
            *p = ink > *p ? ink : *p;
        }
    c->x = x;
    c->y = y;
}

/* Between p1 and p2 of four points in a row. */
static float spline(float p0, float p1, float p2, float p3, float t)
{
    float a = p2 - p0, b = 2 * p0 - 5 * p1 + 4 * p2 - p3, c = 3 * (p1 - p2) + p3 - p0;
    return p1 + 0.5f * t * (a + t * (b + t * c));
}

static void draw_curve(canvas *c, float p[][2], int n)
{
    for (int i = 0; i + 1 < n; i++)
        for (int k = 1; k <= PIECES; k++) {
            float t = (float)k / PIECES;
            const float *a = p[i ? i - 1 : 0], *d = p[i + 2 < n ? i + 2 : n - 1];
            line_to(c, spline(a[0], p[i][0], p[i + 1][0], d[0], t), spline(a[1], p[i][1], p[i + 1][1], d[1], t));
        }
}

/* Where a point of the unit square is drawn. */
typedef struct {
    float xx, xy, yx, yy, x0, y0;
} placement;

static void draw_stroke(canvas *c, const stroke *s, const placement *at, source *r)
{
    float p[MAX_POINTS][2] = {{0}};
    for (int i = 0; i < s->n; i++) {
        float x = s->at[i][0] - 0.5f + draw(r, -0.07f, 0.07f), y = s->at[i][1] - 0.5f + draw(r, -0.07f, 0.07f);
        p[i][0] = at->x0 + at->xx * x + at->xy * y;
        p[i][1] = at->y0 + at->yx * x + at->yy * y;
    }
    c->x = p[0][0];
    c->y = p[0][1];
    if (s->is_curve)
        draw_curve(c, p, s->n);
    for (int i = 1; !s->is_curve && i < s->n; i++)
        line_to(c, p[i][0], p[i][1]);
}

static placement draw_placement(source *r)
{
    float width = draw(r, 10, 17), height = draw(r, 14, 21), slant = draw(r, -0.45f, 0.45f);
    return (placement){.xx = width,
                       .xy = -slant * height,
                       .yx = draw(r, -0.2f, 0.2f) * width,
                       .yy = height,
                       .x0 = 13.5f + draw(r, -3.5f, 3.5f),
                       .y0 = 13.5f + draw(r, -2.5f, 2.5f)};
}

/* Strokes that mean nothing. */
static void draw_dust(canvas *c, source *r)
{
    c->radius = 0.4f;
    for (int n = (int)draw(r, 0, 3); n > 0; n--) {
        c->x = draw(r, 0, SIDE - 1);
        c->y = draw(r, 0, SIDE - 1);
        float x = c->x + draw(r, -4, 4), y = c->y + draw(r, -4, 4);
        line_to(c, x, y);
    }
}

static void draw_digit(int digit, source *r, unsigned char *out)
{
    canvas c = {.radius = draw(r, 0.5f, 1.5f)};
    float contrast = draw(r, 0.5f, 1), paper = draw(r, 0, 0.2f), noise = draw(r, 0.03f, 0.15f);
    placement at = draw_placement(r);
    for (int i = 0; i < MAX_STROKES && glyphs[digit][i].n; i++)
        draw_stroke(&c, &glyphs[digit][i], &at, r);
    draw_dust(&c, r);
    for (int i = 0; i < PIXELS; i++) {
        float v = 255 * (paper + (contrast - paper) * c.pixels[i] + noise * draw_noise(r)) + 0.5f;
        out[i] = (unsigned char)(v < 0 ? 0 : v > 255 ? 255 : (int)v);
    }
}

/* ---- The dataset ---- */

static flx_code add_digits(flx_dataset *d, int64_t rows, uint64_t seed, flx_error *err)
{
    const flx_type image = flx_type_make(FLX_U8, 4, (flx_dim[]){rows, 1, SIDE, SIDE});
    const flx_type label = flx_type_make(FLX_I32, 1, (flx_dim[]){rows});
    flx_tensor *x = flx_tensor_new(d->ctx, &image, NULL, err);
    FLXI_TRY(flxi_dataset_own(d, "x", x, err));
    flx_tensor *y = flx_tensor_new(d->ctx, &label, NULL, err);
    FLXI_TRY(flxi_dataset_own(d, "label", y, err));
    flxi_permutation order;
    flxi_permutation_begin(&order, (uint64_t)rows, seed, UINT64_MAX, NULL);
    for (int64_t i = 0; i < rows && !flxi_stopped_by_now(); i++) {
        source r = {flxi_rng_seeded(seed, (uint64_t)i), 0};
        int digit = (int)(flxi_permutation_at(&order, (uint64_t)i) % CLASSES);
        ((int32_t *)y->data)[i] = digit;
        draw_digit(digit, &r, (unsigned char *)x->data + i * PIXELS);
    }
    FLXI_TRY(flxi_stop_check(err));
    for (int i = 0; i < CLASSES; i++)
        FLXI_TRY(flxi_dataset_add_class(d, &"0123456789"[i], 1, err));
    return flx_dataset_convert(d, "x", FLX_F32, 1.0 / 255, 0, err);
}

flx_dataset *flx_digits(flx_context *ctx, int64_t rows, uint64_t seed, flx_error *err)
{
    if (!ctx || rows < 1) {
        flxi_fail(err, FLX_E_USAGE, "flx_digits: the context must be given and the number of rows positive");
        return NULL;
    }
    flx_dataset *d = flx_dataset_new(ctx, err);
    return d ? flxi_dataset_if(d, add_digits(d, rows, seed, err)) : NULL;
}
