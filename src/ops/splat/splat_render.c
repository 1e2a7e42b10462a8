/* SPDX-License-Identifier: Apache-2.0 */
/* splat_render.c: see splat.h. The renderer: for each pixel a ray, for each ray the splats front to back.

   A splat dims a ray by α = α₀ exp(-ρ²/2), with ρ the distance of the ray from the splat's centre in the splat's own
   units: with e the eye and w the ray in those units, the nearest point is e + t w at t = -(e·w)/(w·w), and ρ² its
   squared norm, which cannot be negative, unlike the difference e·e - (e·w)²/(w·w). */
#include "base/host/stop.h"
#include "graph/op/eval.h"
#include "numeric/merge_sort.h"
#include "ops/splat/splat.h"

/* ---- Vectors ---- */

static double dot(const double a[3], const double b[3])
{
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

static void cross(const double a[3], const double b[3], double out[3])
{
    for (int k = 0; k < 3; k++)
        out[k] = a[(k + 1) % 3] * b[(k + 2) % 3] - a[(k + 2) % 3] * b[(k + 1) % 3];
}

/* v of length 1; zeros stay zeros. Returns 1 over the length, or 0. */
static double normalise(double *v, int n)
{
    double square = 0;
    for (int k = 0; k < n; k++)
        square += v[k] * v[k];
    double inverse = square > 0 ? 1 / sqrt(square) : square == 0 ? 0 : square; /* NaN stays NaN */
    for (int k = 0; k < n; k++)
        v[k] *= inverse;
    return inverse;
}

/* The cotangent of v from that of its normalised form. */
static void unnormalise(const double *unit, double inverse, int n, double *d)
{
    double along = 0;
    for (int k = 0; k < n; k++)
        along += unit[k] * d[k];
    for (int k = 0; k < n; k++)
        d[k] = (d[k] - unit[k] * along) * inverse;
}

static void load(const flxi_scene *s, int part, int64_t at, int n, double *out)
{
    for (int k = 0; k < n; k++)
        out[k] = flxi_load_double(s->dtype, s->part[part], at + k);
}

/* ---- Spherical harmonics ---- */

const double flxi_harmonic_factor[SPLAT_MAX_BANDS] = {
    0.28209479177387814, -0.4886025119029199, 0.4886025119029199,  -0.4886025119029199,
    1.0925484305920792,  -1.0925484305920792, 0.31539156525252005, -1.0925484305920792,
    0.5462742152960396,  -0.5900435899266435, 2.890611442640554,   -0.4570457994644658,
    0.3731763325901154,  -0.4570457994644658, 1.445305721320277,   -0.5900435899266435,
};

void flxi_harmonics(const double v[3], double out[SPLAT_MAX_BANDS], double d[SPLAT_MAX_BANDS][3])
{
    double x = v[0], y = v[1], z = v[2], xx = x * x, yy = y * y, zz = z * z;
    const double rows[SPLAT_MAX_BANDS][4] = {
        /* value, and derivatives with respect to x, y, z */
        {1, 0, 0, 0},
        {y, 0, 1, 0},
        {z, 0, 0, 1},
        {x, 1, 0, 0},
        {x * y, y, x, 0},
        {y * z, 0, z, y},
        {2 * zz - xx - yy, -2 * x, -2 * y, 4 * z},
        {x * z, z, 0, x},
        {xx - yy, 2 * x, -2 * y, 0},
        {y * (3 * xx - yy), 6 * x * y, 3 * xx - 3 * yy, 0},
        {x * y * z, y * z, x * z, x * y},
        {y * (4 * zz - xx - yy), -2 * x * y, 4 * zz - xx - 3 * yy, 8 * y * z},
        {z * (2 * zz - 3 * xx - 3 * yy), -6 * x * z, -6 * y * z, 6 * zz - 3 * xx - 3 * yy},
        {x * (4 * zz - xx - yy), 4 * zz - 3 * xx - yy, -2 * x * y, 8 * x * z},
        {z * (xx - yy), 2 * x * z, -2 * y * z, xx - yy},
        {x * (xx - 3 * yy), 3 * xx - 3 * yy, -6 * x * y, 0},
    };
    for (int b = 0; b < SPLAT_MAX_BANDS; b++) {
        out[b] = flxi_harmonic_factor[b] * rows[b][0];
        for (int k = 0; k < 3; k++)
            d[b][k] = flxi_harmonic_factor[b] * rows[b][k + 1];
    }
}

/* ---- Camera ---- */

flxi_camera flxi_camera_of(const flxi_splat_attrs *a, int32_t dtype, const void *meta)
{
    static const double degree = 0.017453292519943295;
    flxi_scene s = {.dtype = dtype, .part = {[SPLAT_META] = meta}};
    flxi_camera c;
    double numbers[SPLAT_META_COUNT], up[3];
    load(&s, SPLAT_META, 0, SPLAT_META_COUNT, numbers);
    for (int k = 0; k < 3; k++) {
        c.eye[k] = numbers[SPLAT_EYE + k];
        c.forward[k] = numbers[SPLAT_TARGET + k] - c.eye[k];
        up[k] = numbers[SPLAT_UP + k];
        c.background[k] = numbers[SPLAT_BACKGROUND + k];
    }
    normalise(c.forward, 3);
    cross(up, c.forward, c.right);
    normalise(c.right, 3);
    cross(c.forward, c.right, c.up);
    normalise(c.up, 3);
    c.focal = 0.5 * (double)a->height / tan(0.5 * degree * numbers[SPLAT_FOV]);
    c.centre[0] = 0.5 * (double)a->width;
    c.centre[1] = 0.5 * (double)a->height;
    c.near = numbers[SPLAT_NEAR];
    c.far = numbers[SPLAT_FAR];
    return c;
}

void flxi_camera_ray(const flxi_camera *c, int64_t column, int64_t row, double ray[3])
{
    double x = ((double)column + 0.5 - c->centre[0]) / c->focal;
    double y = ((double)row + 0.5 - c->centre[1]) / c->focal;
    for (int k = 0; k < 3; k++)
        ray[k] = x * c->right[k] + y * c->up[k] + c->forward[k];
    normalise(ray, 3);
}

/* ---- Splats ---- */

void flxi_splat_rotate(flxi_splat *p)
{
    const double *q = p->quaternion;
    double x = q[0], y = q[1], z = q[2], w = q[3];
    const double r[9] = {
        1 - 2 * (y * y + z * z), 2 * (x * y - w * z),     2 * (x * z + w * y),     /* */
        2 * (x * y + w * z),     1 - 2 * (x * x + z * z), 2 * (y * z - w * x),     /* */
        2 * (x * z - w * y),     2 * (y * z + w * x),     1 - 2 * (x * x + y * y), /* */
    };
    memcpy(p->rotation, r, sizeof r);
}

/* v in the splat's own axes and units: diag(1/σ) Rᵀ v. */
static void to_own(const flxi_splat *p, const double v[3], double out[3])
{
    for (int a = 0; a < 3; a++)
        out[a] = p->inverse[a] * (p->rotation[a] * v[0] + p->rotation[3 + a] * v[1] + p->rotation[6 + a] * v[2]);
}

/* Σ_b coef_b Y_b + ½ of each channel, before clamping at 0. */
static void raw_colour(const flxi_scene *s, int64_t i, const double y[SPLAT_MAX_BANDS], double out[3])
{
    for (int ch = 0; ch < 3; ch++) {
        out[ch] = 0.5;
        for (int64_t b = 0; b < s->bands; b++)
            out[ch] += flxi_load_double(s->dtype, s->part[SPLAT_HARMONICS], (i * s->bands + b) * 3 + ch) * y[b];
    }
}

static void colour_splat(const flxi_scene *s, int64_t i, const double from_eye[3], flxi_splat *p)
{
    double v[3] = {from_eye[0], from_eye[1], from_eye[2]}, y[SPLAT_MAX_BANDS], dy[SPLAT_MAX_BANDS][3];
    if (s->bands == 0) {
        load(s, SPLAT_COLOURS, 3 * i, 3, p->colour);
        return;
    }
    normalise(v, 3);
    flxi_harmonics(v, y, dy);
    raw_colour(s, i, y, p->colour);
    for (int ch = 0; ch < 3; ch++)
        p->colour[ch] = p->colour[ch] <= 0 ? 0 : p->colour[ch];
}

/* The pixels [lo, hi] along one axis of the image that see a ball: the angles of its tangents are that of its centre,
   seen from the eye, plus and minus asin(radius / distance). One more pixel on both sides allows for rounding. */
static void reach(const flxi_camera *c, double across, double ahead, double radius, int axis, int64_t extent,
                  int64_t box[2])
{
    double distance = sqrt(across * across + ahead * ahead);
    box[0] = 0;
    box[1] = extent - 1;
    if (!(ahead > radius * 1.001) || !(c->focal > 0))
        return; /* around the eye, or not a number: everywhere */
    double middle = atan2(across, ahead), half = asin(radius / distance);
    double lo = c->focal * tan(middle - half) + c->centre[axis] - 1.5;
    double hi = c->focal * tan(middle + half) + c->centre[axis] + 0.5;
    if (lo > 0)
        box[0] = lo < (double)extent ? (int64_t)lo : extent;
    if (hi < (double)extent)
        box[1] = hi >= 0 ? (int64_t)hi : -1;
}

/* Where α₀ exp(-ρ²/2) ≥ cutoff, ρ is at most sqrt(2 ln(α₀/cutoff)): the splat is inside a ball of that many largest
   σ. */
static void bound_splat(const flxi_view *v, const double from_eye[3], flxi_splat *p)
{
    const flxi_splat_attrs *a = v->attrs;
    double least = fmin(p->inverse[0], fmin(p->inverse[1], p->inverse[2]));
    double reachable = a->alpha_cutoff > 0 ? 2 * log(p->opacity / a->alpha_cutoff) : INFINITY;
    double radius = reachable <= 0 ? 0 : sqrt(reachable) / least;
    reach(&v->camera, dot(v->camera.right, from_eye), p->depth, radius, 0, a->width, p->box);
    reach(&v->camera, dot(v->camera.up, from_eye), p->depth, radius, 1, a->height, p->box + 2);
}

static void open_splat(const flxi_view *v, int64_t i, flxi_splat *p)
{
    const flxi_scene *s = &v->scene;
    double from_eye[3], to_eye[3], log_scale[3], logit;
    load(s, SPLAT_POSITIONS, 3 * i, 3, from_eye);
    load(s, SPLAT_LOG_SCALES, 3 * i, 3, log_scale);
    load(s, SPLAT_ROTATIONS, 4 * i, 4, p->quaternion);
    load(s, SPLAT_OPACITY, i, 1, &logit);
    normalise(p->quaternion, 4);
    flxi_splat_rotate(p);
    for (int k = 0; k < 3; k++) {
        from_eye[k] -= v->camera.eye[k];
        to_eye[k] = -from_eye[k];
        p->inverse[k] = 1 / (exp(log_scale[k]) * v->attrs->radius_scale);
    }
    p->opacity = logit >= 0 ? 1 / (1 + exp(-logit)) : exp(logit) / (1 + exp(logit));
    p->depth = dot(v->camera.forward, from_eye);
    p->is_valid = p->depth > v->camera.near && p->depth < v->camera.far;
    to_own(p, to_eye, p->origin);
    colour_splat(s, i, from_eye, p);
    bound_splat(v, from_eye, p);
}

static bool is_nearer(void *user, int64_t a, int64_t b)
{
    const flxi_splat *splats = user;
    return splats[a].depth < splats[b].depth;
}

size_t flxi_view_bytes(int64_t count)
{
    return (size_t)count * (sizeof(flxi_splat) + 2 * sizeof(int64_t));
}

void flxi_view_open(flxi_view *v, const flxi_splat_attrs *a, const flxi_scene *scene, void *scratch)
{
    *v = (flxi_view){.attrs = a, .scene = *scene, .splats = scratch};
    v->camera = flxi_camera_of(a, scene->dtype, scene->part[SPLAT_META]);
    int64_t *order = (int64_t *)(v->splats + scene->count);
    for (int64_t i = 0; i < scene->count; i++) {
        open_splat(v, i, &v->splats[i]);
        if (v->splats[i].is_valid)
            order[v->valid++] = i;
    }
    v->order = flxi_sort_positions(order, order + scene->count, v->valid, is_nearer, v->splats);
}

/* ---- One ray ---- */

/* The effect of a splat on a ray; false where it has none. */
typedef struct {
    double nearest[3], along; /* e + t w, and t */
    double gauss, alpha;      /* exp(-ρ²/2), α */
} meeting;

static bool meet(const flxi_splat_attrs *a, const flxi_splat *p, const double ray[3], meeting *m)
{
    double w[3];
    to_own(p, ray, w);
    m->along = -dot(p->origin, w) / dot(w, w);
    if (!(m->along > 0))
        return false;
    for (int k = 0; k < 3; k++)
        m->nearest[k] = p->origin[k] + m->along * w[k];
    m->gauss = exp(-0.5 * dot(m->nearest, m->nearest));
    m->alpha = p->opacity * m->gauss;
    return m->alpha >= a->alpha_cutoff;
}

/* Light so far. */
typedef struct {
    double colour[3], left; /* transmittance */
    int64_t steps;
} light;

static bool goes_on(const flxi_splat_attrs *a, const light *l)
{
    return l->steps < a->max_splat_steps && l->left >= a->transmittance_threshold;
}

static void add_splat(light *l, const flxi_splat *p, double alpha)
{
    for (int ch = 0; ch < 3; ch++)
        l->colour[ch] += l->left * alpha * p->colour[ch];
    l->left *= 1 - alpha;
    l->steps++;
}

static void finish_light(const light *l, const double background[3], double rgba[4])
{
    for (int ch = 0; ch < 3; ch++) {
        double x = l->colour[ch] + l->left * background[ch];
        rgba[ch] = x <= 0 ? 0 : pow(x, 2.2);
    }
    rgba[3] = 1 - l->left;
}

void flxi_splat_shade(const flxi_splat_attrs *a, const flxi_splat *splats, const int64_t *order, int64_t count,
                      const double ray[3], const double background[3], double rgba[4])
{
    light l = {.left = 1};
    meeting m;
    for (int64_t k = 0; k < count && goes_on(a, &l); k++)
        if (meet(a, &splats[order[k]], ray, &m))
            add_splat(&l, &splats[order[k]], m.alpha);
    finish_light(&l, background, rgba);
}

static bool is_in_box(const flxi_splat *p, int64_t column, int64_t row)
{
    return column >= p->box[0] && column <= p->box[1] && row >= p->box[2] && row <= p->box[3];
}

void flxi_splat_draw(const flxi_view *v, bool boxed, int64_t from, int64_t to, void *image)
{
    for (int64_t row = from; row < to && !flxi_stopped(); row++)
        for (int64_t column = 0; column < v->attrs->width; column++) {
            light l = {.left = 1};
            meeting m;
            double ray[3], rgba[4];
            flxi_camera_ray(&v->camera, column, row, ray);
            for (int64_t k = 0; k < v->valid && goes_on(v->attrs, &l); k++) {
                const flxi_splat *p = &v->splats[v->order[k]];
                if ((!boxed || is_in_box(p, column, row)) && meet(v->attrs, p, ray, &m))
                    add_splat(&l, p, m.alpha);
            }
            finish_light(&l, v->camera.background, rgba);
            for (int ch = 0; ch < 4; ch++)
                flxi_store_double(v->scene.dtype, image, (row * v->attrs->width + column) * 4 + ch, rgba[ch]);
        }
}

/* ---- Backward ---- */

/* Cotangents of a splat as rays see it, summed over all rays. */
typedef struct {
    double origin[3], ray_own[9]; /* of e; of w, times the ray: by own axis and axis of the world */
    double scaled[3];             /* of 1/σ through w, before its own part through e is known */
    double colour[3], opacity;
} splat_sums;

typedef struct {
    int64_t splat;
    meeting m;
    double left; /* transmittance before it */
} crossing;

size_t flxi_splat_backward_bytes(const flxi_view *v)
{
    return (size_t)v->scene.count * (sizeof(splat_sums) + sizeof(crossing));
}

static int64_t cross_splats(const flxi_view *v, const double ray[3], crossing *list, light *l)
{
    int64_t n = 0;
    for (int64_t k = 0; k < v->valid && goes_on(v->attrs, l); k++) {
        const flxi_splat *p = &v->splats[v->order[k]];
        crossing *c = &list[n];
        *c = (crossing){.splat = v->order[k], .left = l->left};
        if (!meet(v->attrs, p, ray, &c->m))
            continue;
        add_splat(l, p, c->m.alpha);
        n++;
    }
    return n;
}

/* The derivative of ρ² with respect to e is 2 (e + t w), and with respect to w t times that: the nearest point is
   perpendicular to w. */
static void add_crossing(const flxi_view *v, const crossing *c, const double ray[3], double d_alpha, splat_sums *s)
{
    const flxi_splat *p = &v->splats[c->splat];
    double d_square = -0.5 * d_alpha * c->m.alpha;
    s->opacity += d_alpha * c->m.gauss;
    for (int a = 0; a < 3; a++) {
        double d_own = 2 * d_square * c->m.nearest[a], d_ray = d_own * c->m.along;
        s->origin[a] += d_own;
        s->scaled[a] += d_ray * (p->rotation[a] * ray[0] + p->rotation[3 + a] * ray[1] + p->rotation[6 + a] * ray[2]);
        for (int b = 0; b < 3; b++)
            s->ray_own[3 * a + b] += d_ray * ray[b];
    }
}

/* Back to front, with the colour beyond a splat for each unit of light that passes it, and in `after` the product of
   what the farther splats leave, so that nothing is divided by a 1 - α that may be 0. */
static void pixel_backward(const flxi_view *v, const double ray[3], const double *d, splat_sums *sums, crossing *list)
{
    light l = {.left = 1};
    int64_t n = cross_splats(v, ray, list, &l);
    double d_sum[3], behind[3], after = 1;
    for (int ch = 0; ch < 3; ch++) {
        double x = l.colour[ch] + l.left * v->camera.background[ch];
        d_sum[ch] = x <= 0 ? 0 : d[ch] * 2.2 * pow(x, 1.2);
        behind[ch] = v->camera.background[ch];
    }
    for (int64_t k = n - 1; k >= 0; k--) {
        const crossing *c = &list[k];
        const flxi_splat *p = &v->splats[c->splat];
        double alpha = c->m.alpha, d_alpha = d[3] * c->left * after;
        for (int ch = 0; ch < 3; ch++) {
            d_alpha += c->left * d_sum[ch] * (p->colour[ch] - behind[ch]);
            sums[c->splat].colour[ch] += c->left * alpha * d_sum[ch];
            behind[ch] = alpha * p->colour[ch] + (1 - alpha) * behind[ch];
        }
        after *= 1 - alpha;
        add_crossing(v, c, ray, d_alpha, &sums[c->splat]);
    }
}

/* The cotangent of the rotation's nine numbers to that of its quaternion. */
static void rotation_backward(const double q[4], const double r[9], double out[4])
{
    double x = q[0], y = q[1], z = q[2], w = q[3];
    double xy = r[1] + r[3], xz = r[2] + r[6], yz = r[5] + r[7];
    double wx = r[7] - r[5], wy = r[2] - r[6], wz = r[3] - r[1];
    out[0] = 2 * (y * xy + z * xz + w * wx - 2 * x * (r[4] + r[8]));
    out[1] = 2 * (x * xy + z * yz + w * wy - 2 * y * (r[0] + r[8]));
    out[2] = 2 * (x * xz + y * yz + w * wz - 2 * z * (r[0] + r[4]));
    out[3] = 2 * (x * wx + y * wy + z * wz);
}

/* Where the parts of the packed cotangent begin. */
typedef struct {
    int64_t at[SPLAT_META];
} packing;

static packing packing_of(const flxi_scene *s)
{
    int64_t n = s->count;
    return (packing){{0, 3 * n, 6 * n, 10 * n, 11 * n, 14 * n}};
}

static void store(const flxi_view *v, void *packed, int64_t at, double x)
{
    double clip = v->attrs->clip;
    flxi_store_double(v->scene.dtype, packed, at, clip >= 0 ? fmin(fmax(x, -clip), clip) : x);
}

/* Cotangents of coefficients, and of the position through the direction from which the splat is seen. */
static void harmonics_backward(const flxi_view *v, int64_t i, const splat_sums *s, void *packed, double d_position[3])
{
    const flxi_scene *scene = &v->scene;
    double unit[3], raw[3], y[SPLAT_MAX_BANDS], dy[SPLAT_MAX_BANDS][3], d_unit[3] = {0};
    int64_t first = packing_of(scene).at[SPLAT_HARMONICS];
    int64_t most = v->attrs->sh_bands == FLXI_ABSENT ? SPLAT_MAX_BANDS : v->attrs->sh_bands * v->attrs->sh_bands;
    load(scene, SPLAT_POSITIONS, 3 * i, 3, unit);
    for (int k = 0; k < 3; k++)
        unit[k] -= v->camera.eye[k];
    double inverse = normalise(unit, 3);
    flxi_harmonics(unit, y, dy);
    raw_colour(scene, i, y, raw);
    for (int64_t b = 0; b < scene->bands; b++)
        for (int ch = 0; ch < 3; ch++) {
            int64_t at = (i * scene->bands + b) * 3 + ch;
            double d = raw[ch] <= 0 ? 0 : s->colour[ch];
            store(v, packed, first + at, b < most ? d * y[b] : 0);
            for (int k = 0; k < 3; k++)
                d_unit[k] += d * flxi_load_double(scene->dtype, scene->part[SPLAT_HARMONICS], at) * dy[b][k];
        }
    unnormalise(unit, inverse, 3, d_unit);
    for (int k = 0; k < 3; k++)
        d_position[k] += d_unit[k];
}

static bool is_too_flat(const flxi_view *v, const flxi_splat *p)
{
    double least = fmin(p->inverse[0], fmin(p->inverse[1], p->inverse[2]));
    double most = fmax(p->inverse[0], fmax(p->inverse[1], p->inverse[2]));
    return v->attrs->max_anisotropy >= 0 && most > v->attrs->max_anisotropy * least;
}

static void splat_backward(const flxi_view *v, int64_t i, const splat_sums *s, void *packed)
{
    const flxi_splat *p = &v->splats[i];
    packing to = packing_of(&v->scene);
    double position[3], quaternion[4], d_rotation[9], d_position[3] = {0}, d_quaternion[4];
    load(&v->scene, SPLAT_POSITIONS, 3 * i, 3, position);
    load(&v->scene, SPLAT_ROTATIONS, 4 * i, 4, quaternion);
    for (int a = 0; a < 3; a++) {
        double turned = 0; /* (Rᵀ (eye - μ))_a */
        for (int b = 0; b < 3; b++) {
            double to_eye = v->camera.eye[b] - position[b];
            turned += p->rotation[3 * b + a] * to_eye;
            d_rotation[3 * b + a] = p->inverse[a] * (s->origin[a] * to_eye + s->ray_own[3 * a + b]);
            d_position[b] -= p->inverse[a] * p->rotation[3 * b + a] * s->origin[a];
        }
        double d_inverse = s->origin[a] * turned + s->scaled[a];
        store(v, packed, to.at[SPLAT_LOG_SCALES] + 3 * i + a, is_too_flat(v, p) ? 0 : -d_inverse * p->inverse[a]);
    }
    rotation_backward(p->quaternion, d_rotation, d_quaternion);
    unnormalise(p->quaternion, normalise(quaternion, 4), 4, d_quaternion);
    if (v->scene.bands > 0)
        harmonics_backward(v, i, s, packed, d_position);
    for (int k = 0; k < 4; k++)
        store(v, packed, to.at[SPLAT_ROTATIONS] + 4 * i + k, d_quaternion[k]);
    for (int k = 0; k < 3; k++) {
        store(v, packed, to.at[SPLAT_POSITIONS] + 3 * i + k, d_position[k]);
        store(v, packed, to.at[SPLAT_COLOURS] + 3 * i + k, v->scene.bands > 0 ? 0 : s->colour[k]);
    }
    store(v, packed, to.at[SPLAT_OPACITY] + i, s->opacity * p->opacity * (1 - p->opacity));
}

void flxi_splat_backward(const flxi_view *v, const void *d_image, void *packed, void *scratch)
{
    splat_sums *sums = scratch;
    crossing *list = (crossing *)(sums + v->scene.count);
    memset(sums, 0, (size_t)v->scene.count * sizeof *sums);
    for (int64_t row = 0; row < v->attrs->height && !flxi_stopped(); row++)
        for (int64_t column = 0; column < v->attrs->width; column++) {
            double ray[3], d[4];
            flxi_camera_ray(&v->camera, column, row, ray);
            for (int ch = 0; ch < 4; ch++)
                d[ch] = flxi_load_double(v->scene.dtype, d_image, (row * v->attrs->width + column) * 4 + ch);
            pixel_backward(v, ray, d, sums, list);
        }
    for (int64_t i = 0; i < v->scene.count; i++)
        splat_backward(v, i, &sums[i], packed);
}
