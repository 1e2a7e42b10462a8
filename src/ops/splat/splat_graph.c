/* SPDX-License-Identifier: Apache-2.0 */
/* splat_graph.c: rendering splats with tensor ops: the same steps as splat_render.c, for all pixels and splats at once.
   It takes memory for their product, so it is not used to compute images; it serves derivatives of every order.

   Values are of three shapes: [] (camera), [n] (splats), [p, 1] (rays), and [p, n] for pairs. The order front to back
   comes from argsort, which has no derivative, and splats are sorted before they are combined with rays. Decisions are
   masks. */
#include "ops/splat/splat_graph.h"

#include <math.h>

typedef struct {
    flx_val at[3];
} vec3;

typedef struct {
    flxi_site *s;
    flx_graph *g;
    const flxi_splat_attrs *a;
    flx_val like; /* for the dtype of numbers */
} drawing;

/* ---- Arithmetic ---- */

static flx_val num(const drawing *d, double x)
{
    return flxi_number(d->s, d->like, x);
}

static flx_val times(const drawing *d, flx_val x, double k)
{
    return flx_mul(d->g, x, num(d, k));
}

static flx_val dot(const drawing *d, vec3 a, vec3 b)
{
    flx_val sum = flx_mul(d->g, a.at[0], b.at[0]);
    for (int k = 1; k < 3; k++)
        sum = flx_add(d->g, sum, flx_mul(d->g, a.at[k], b.at[k]));
    return sum;
}

static vec3 scaled(const drawing *d, vec3 v, flx_val by)
{
    for (int k = 0; k < 3; k++)
        v.at[k] = flx_mul(d->g, v.at[k], by);
    return v;
}

static vec3 difference(const drawing *d, vec3 a, vec3 b)
{
    for (int k = 0; k < 3; k++)
        a.at[k] = flx_sub(d->g, a.at[k], b.at[k]);
    return a;
}

static vec3 cross(const drawing *d, vec3 a, vec3 b)
{
    vec3 out;
    for (int k = 0; k < 3; k++) {
        int i = (k + 1) % 3, j = (k + 2) % 3;
        out.at[k] = flx_sub(d->g, flx_mul(d->g, a.at[i], b.at[j]), flx_mul(d->g, a.at[j], b.at[i]));
    }
    return out;
}

/* 1/sqrt(x); 0 where x is 0. */
static flx_val inverse_root(const drawing *d, flx_val x)
{
    flx_val is_zero = flx_eq(d->g, x, num(d, 0));
    return flx_where(d->g, is_zero, num(d, 0), flx_rsqrt(d->g, flx_where(d->g, is_zero, num(d, 1), x)));
}

static vec3 normalised(const drawing *d, vec3 v)
{
    return scaled(d, v, inverse_root(d, dot(d, v, v)));
}

/* ---- Parts of the scene ---- */

/* Number `k` of each group of `group` in a flat part: [n]. */
static flx_val column(const drawing *d, flx_val flat, flx_dim n, int64_t group, int64_t k)
{
    flx_val rows = flx_reshape(d->g, flat, FLX_INTS(n, group));
    return flx_reshape(d->g, flx_narrow(d->g, rows, 1, k, 1), FLX_INTS(n));
}

static vec3 columns(const drawing *d, flx_val flat, flx_dim n)
{
    return (vec3){{column(d, flat, n, 3, 0), column(d, flat, n, 3, 1), column(d, flat, n, 3, 2)}};
}

static flx_val meta_at(const drawing *d, flx_val meta, int64_t k)
{
    return flx_reshape(d->g, flx_narrow(d->g, meta, 0, k, 1), FLX_NO_INTS);
}

static vec3 meta_vector(const drawing *d, flx_val meta, int64_t k)
{
    return (vec3){{meta_at(d, meta, k), meta_at(d, meta, k + 1), meta_at(d, meta, k + 2)}};
}

/* ---- Camera ---- */

typedef struct {
    vec3 eye, forward, background;
    flx_val near, far;
    vec3 rays; /* [p, 1] */
} camera;

/* (i + ½ - centre) / focal for each pixel, i its column or row. */
static flx_val offsets(const drawing *d, flx_val focal, int64_t extent, bool is_column)
{
    int64_t w = d->a->width, h = d->a->height;
    flx_type grid = flx_type_make((flx_dtype)flxi_typeof(d->s, d->like)->dtype, 2, (flx_dim[]){h, w});
    flx_val i = flx_reshape(d->g, flx_iota(d->g, &grid, is_column), FLX_INTS(w * h, 1));
    return flx_div(d->g, flx_add(d->g, i, num(d, 0.5 - 0.5 * (double)extent)), focal);
}

static camera camera_of(const drawing *d, flx_val meta)
{
    static const double half_degree = 0.008726646259971648;
    flx_graph *g = d->g;
    camera c = {.eye = meta_vector(d, meta, SPLAT_EYE),
                .background = meta_vector(d, meta, SPLAT_BACKGROUND),
                .near = meta_at(d, meta, SPLAT_NEAR),
                .far = meta_at(d, meta, SPLAT_FAR)};
    c.forward = normalised(d, difference(d, meta_vector(d, meta, SPLAT_TARGET), c.eye));
    vec3 right = normalised(d, cross(d, meta_vector(d, meta, SPLAT_UP), c.forward));
    vec3 up = normalised(d, cross(d, c.forward, right));
    flx_val slope = flx_tan(g, times(d, meta_at(d, meta, SPLAT_FOV), half_degree));
    flx_val focal = flx_div(g, num(d, 0.5 * (double)d->a->height), slope);
    vec3 x = scaled(d, right, offsets(d, focal, d->a->width, true));
    vec3 y = scaled(d, up, offsets(d, focal, d->a->height, false));
    for (int k = 0; k < 3; k++)
        c.rays.at[k] = flx_add(g, flx_add(g, x.at[k], y.at[k]), c.forward.at[k]);
    c.rays = normalised(d, c.rays);
    return c;
}

/* ---- Splats ---- */

typedef struct {
    flx_val depth, is_valid, opacity;
    vec3 origin, colour;
    vec3 to_own[3]; /* rows of diag(1/σ) Rᵀ */
} splats;

/* Rows of Rᵀ: row a is axis a of the splat in world coordinates. */
static void rotation_of(const drawing *d, flx_val flat, flx_dim n, vec3 rows[3])
{
    flx_graph *g = d->g;
    flx_val q[4], square = FLX_NONE, pair[4][4];
    for (int i = 0; i < 4; i++) {
        q[i] = column(d, flat, n, 4, i);
        flx_val own = flx_mul(g, q[i], q[i]);
        square = flxi_sum(d->s, square, own);
    }
    flx_val inverse = inverse_root(d, square);
    for (int i = 0; i < 4; i++)
        q[i] = flx_mul(g, q[i], inverse);
    for (int i = 0; i < 4; i++)
        for (int j = i; j < 4; j++)
            pair[i][j] = pair[j][i] = times(d, flx_mul(g, q[i], q[j]), 2);
    for (int a = 0; a < 3; a++) {
        int b = (a + 1) % 3, c = (a + 2) % 3;
        rows[a].at[a] = flx_sub(g, num(d, 1), flx_add(g, pair[b][b], pair[c][c]));
        rows[a].at[b] = flx_add(g, pair[a][b], pair[c][3]);
        rows[a].at[c] = flx_sub(g, pair[a][c], pair[b][3]);
    }
}

/* The polynomials of flxi_harmonics, without their factors. */
static void polynomials(const drawing *d, vec3 v, flx_val out[SPLAT_MAX_BANDS])
{
    flx_graph *g = d->g;
    flx_val x = v.at[0], y = v.at[1], z = v.at[2];
    flx_val xx = flx_mul(g, x, x), yy = flx_mul(g, y, y), zz = flx_mul(g, z, z);
    flx_val round = flx_add(g, xx, yy), apart = flx_sub(g, xx, yy);
    flx_val tall = flx_sub(g, times(d, zz, 4), round);
    const flx_val list[SPLAT_MAX_BANDS] = {
        flx_add(g, times(d, x, 0), num(d, 1)),
        y,
        z,
        x,
        flx_mul(g, x, y),
        flx_mul(g, y, z),
        flx_sub(g, times(d, zz, 2), round),
        flx_mul(g, x, z),
        apart,
        flx_mul(g, y, flx_sub(g, times(d, xx, 3), yy)),
        flx_mul(g, flx_mul(g, x, y), z),
        flx_mul(g, y, tall),
        flx_mul(g, z, flx_sub(g, times(d, zz, 2), times(d, round, 3))),
        flx_mul(g, x, tall),
        flx_mul(g, z, apart),
        flx_mul(g, x, flx_sub(g, xx, times(d, yy, 3))),
    };
    memcpy(out, list, sizeof list);
}

static flx_val positive(const drawing *d, flx_val x)
{
    return flx_where(d->g, flx_le(d->g, x, num(d, 0)), num(d, 0), x);
}

static vec3 harmonic_colour(const drawing *d, flx_val coefficients, flx_dim n, int64_t bands, vec3 from_eye)
{
    flx_val basis[SPLAT_MAX_BANDS];
    vec3 colour;
    polynomials(d, normalised(d, from_eye), basis);
    for (int ch = 0; ch < 3; ch++) {
        flx_val sum = num(d, 0.5);
        for (int64_t b = 0; b < bands; b++) {
            flx_val c = column(d, coefficients, n, 3 * bands, 3 * b + ch);
            sum = flx_add(d->g, sum, flx_mul(d->g, c, times(d, basis[b], flxi_harmonic_factor[b])));
        }
        colour.at[ch] = positive(d, sum);
    }
    return colour;
}

static splats splats_of(const drawing *d, const flx_val *x, const camera *c, flx_dim n, int64_t bands)
{
    flx_graph *g = d->g;
    splats p;
    vec3 from_eye = difference(d, columns(d, x[SPLAT_POSITIONS], n), c->eye);
    vec3 to_eye = scaled(d, from_eye, num(d, -1));
    vec3 log_scale = columns(d, x[SPLAT_LOG_SCALES], n);
    vec3 axes[3];
    rotation_of(d, x[SPLAT_ROTATIONS], n, axes);
    for (int a = 0; a < 3; a++) {
        flx_val sigma = times(d, flx_exp(g, log_scale.at[a]), d->a->radius_scale);
        p.to_own[a] = scaled(d, axes[a], flx_reciprocal(g, sigma));
        p.origin.at[a] = dot(d, p.to_own[a], to_eye);
    }
    p.opacity = flx_sigmoid(g, x[SPLAT_OPACITY]);
    p.depth = dot(d, c->forward, from_eye);
    p.is_valid = flx_and(g, flx_gt(g, p.depth, c->near), flx_lt(g, p.depth, c->far));
    p.colour = bands ? harmonic_colour(d, x[SPLAT_HARMONICS], n, bands, from_eye) : columns(d, x[SPLAT_COLOURS], n);
    return p;
}

static void bring_in_order(const drawing *d, splats *p)
{
    flx_val order = flx_argsort(d->g, flx_stop_gradient(d->g, p->depth), 0, 1, 0, FLX_I64);
    flx_val *const all[] = {&p->is_valid,        &p->opacity,         &p->origin.at[0],    &p->origin.at[1],
                            &p->origin.at[2],    &p->colour.at[0],    &p->colour.at[1],    &p->colour.at[2],
                            &p->to_own[0].at[0], &p->to_own[0].at[1], &p->to_own[0].at[2], &p->to_own[1].at[0],
                            &p->to_own[1].at[1], &p->to_own[1].at[2], &p->to_own[2].at[0], &p->to_own[2].at[1],
                            &p->to_own[2].at[2]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        *all[i] = flx_gather(d->g, *all[i], order, 0, NULL);
}

/* ---- Where rays meet splats ---- */

/* α of each pixel and splat, 0 where it is left out: [p, n]. */
static flx_val alphas(const drawing *d, const splats *p, vec3 rays)
{
    flx_graph *g = d->g;
    vec3 w, nearest;
    for (int a = 0; a < 3; a++)
        w.at[a] = dot(d, p->to_own[a], rays);
    flx_val length = dot(d, w, w);
    flx_val is_zero = flx_eq(g, length, num(d, 0));
    flx_val along = flx_neg(g, flx_div(g, dot(d, p->origin, w), flx_where(g, is_zero, num(d, 1), length)));
    for (int a = 0; a < 3; a++)
        nearest.at[a] = flx_add(g, p->origin.at[a], flx_mul(g, along, w.at[a]));
    flx_val gauss = flx_exp(g, times(d, dot(d, nearest, nearest), -0.5));
    flx_val alpha = flx_mul(g, p->opacity, gauss);
    flx_val is_seen = flx_and(g, flx_gt(g, along, num(d, 0)), flx_ge(g, alpha, num(d, d->a->alpha_cutoff)));
    is_seen = flx_and(g, flx_and(g, is_seen, p->is_valid), flx_not(g, is_zero));
    alpha = flxi_masked(d->s, is_seen, alpha);
    /* The light left along a ray only decreases, also beyond its end: so the light that would be left without ending
       determines where the ray ends. */
    flx_val left = flx_cumprod(g, flx_sub(g, num(d, 1), flx_stop_gradient(g, alpha)), 1, true, false);
    flx_val steps = flx_cumsum(g, flx_cast(g, is_seen, FLX_I64), 1, true, false);
    flx_val goes_on = flx_and(g, flx_ge(g, left, num(d, d->a->transmittance_threshold)),
                              flx_lt(g, steps, flx_scalar(g, FLX_I64, (double)d->a->max_splat_steps)));
    return flxi_masked(d->s, goes_on, alpha);
}

static flx_val shade(const drawing *d, flx_val weights, flx_val left, flx_val colour, flx_val background)
{
    flx_graph *g = d->g;
    flx_val sum = flx_reduce_sum(g, flx_mul(g, weights, colour), FLX_INTS(1), 0);
    flx_val x = flx_add(g, sum, flx_mul(g, left, background));
    flx_val is_dark = flx_le(g, x, num(d, 0));
    flx_val bright = flx_pow(g, flx_where(g, is_dark, num(d, 1), x), num(d, 2.2));
    return flx_where(g, is_dark, num(d, 0), bright);
}

void flxi_decompose_splat(flxi_site *s, flx_val *y)
{
    drawing d = {s, s->g, s->attrs, s->x[SPLAT_OPACITY]};
    flx_dim n = flxi_typeof(s, s->x[SPLAT_OPACITY])->dims[0];
    int64_t bands = flxi_splat_bands(s->ctx, n, flxi_typeof(s, s->x[SPLAT_HARMONICS])->dims[0]);
    camera c = camera_of(&d, s->x[SPLAT_META]);
    splats p = splats_of(&d, s->x, &c, n, bands);
    bring_in_order(&d, &p);
    flx_val alpha = alphas(&d, &p, c.rays);
    flx_val passes = flx_sub(s->g, num(&d, 1), alpha);
    flx_val weights = flx_mul(s->g, flx_cumprod(s->g, passes, 1, true, false), alpha);
    flx_val left = flx_reduce_prod(s->g, passes, FLX_INTS(1), 0);
    flx_val rgba[4];
    for (int ch = 0; ch < 3; ch++)
        rgba[ch] = shade(&d, weights, left, p.colour.at[ch], c.background.at[ch]);
    rgba[3] = flx_sub(s->g, num(&d, 1), left);
    flx_val image = flx_stack(s->g, rgba, 4, 1);
    y[0] = flx_reshape(s->g, image, FLX_INTS(4 * d.a->width * d.a->height));
}
