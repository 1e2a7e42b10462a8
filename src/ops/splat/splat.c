/* SPDX-License-Identifier: Apache-2.0 */
/* splat.c: the ops of Gaussian splats: shapes, evaluation, derivatives.

   gaussian_splat_render has a closed form for its cotangents, which is an op of its own,
   gaussian_splat_render_backward. Both are evaluated by the renderer (splat_render.c). Everything else comes from the
   renderer in tensor ops (splat_graph.c): tangents, and the backward op as the reverse mode of that graph, from which
   its own derivatives follow to any order. The camera has no derivatives. prepare and rasterize are the two halves of
   render for separate use; a pair of them is merged again before anything is differentiated. */
#include "ops/splat/splat.h"

#include "base/host/stop.h"
#include "graph/op/eval.h"
#include "graph/op/infer.h"
#include "graph/op/work.h"
#include "ops/rule/decomposed.h"
#include "ops/rule/link.h"
#include "ops/splat/splat_graph.h"

#include <fluxion/run.h>

/* ---- Attributes ---- */

#define SPLAT_SCHEMA                                                                                                 \
    A_INT_REQ(flxi_splat_attrs, width), A_INT_REQ(flxi_splat_attrs, height), A_INT_REQ(flxi_splat_attrs, tile_size), \
        A_REAL_REQ(flxi_splat_attrs, radius_scale), A_REAL_REQ(flxi_splat_attrs, alpha_cutoff),                      \
        A_INT_REQ(flxi_splat_attrs, max_splat_steps), A_REAL_REQ(flxi_splat_attrs, transmittance_threshold),         \
        A_INT_REQ(flxi_splat_attrs, max_list_entries)

static const flxi_attr splat_schema[] = {SPLAT_SCHEMA, A_END};
static const flxi_attr backward_schema[] = {
    SPLAT_SCHEMA,
    A_REAL_OPT(flxi_splat_attrs, clip, "none"),
    A_INT_OPT(flxi_splat_attrs, sh_bands, "none"),
    A_REAL_OPT(flxi_splat_attrs, max_anisotropy, "none"),
    A_END,
};

static flx_code check_attrs(flxi_infer *f)
{
    static const int64_t most = 1 << 16, most_entries = INT64_C(1) << 40;
    const flxi_splat_attrs *a = f->attrs;
    if (a->width < 1 || a->width > most || a->height < 1 || a->height > most || a->tile_size < 1 || a->tile_size > most)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL,
                               "width, height and tile_size must be at least 1 and at most %lld, got %lld, %lld, %lld",
                               (long long)most, (long long)a->width, (long long)a->height, (long long)a->tile_size);
    if (a->max_splat_steps < 1 || a->max_list_entries < 0 || a->max_list_entries > most_entries)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL,
                               "a ray must have at least one step and a list at least 0 entries, got %lld and %lld",
                               (long long)a->max_splat_steps, (long long)a->max_list_entries);
    if (!(a->radius_scale > 0) || !isfinite(a->radius_scale) || isnan(a->alpha_cutoff) ||
        isnan(a->transmittance_threshold))
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "radius_scale must be positive, got %g", a->radius_scale);
    return FLX_OK;
}

/* ---- Shapes ---- */

int64_t flxi_splat_bands(flx_context *ctx, flx_dim n, flx_dim harmonics)
{
    for (int64_t m = 0; m <= SPLAT_MAX_BANDS; m++)
        if (flx_dim_mul(ctx, 3 * m, n) == harmonics)
            return m;
    return -1;
}

static flx_code need_length(flxi_infer *f, uint32_t i, flx_dim length, const char *what)
{
    flxi_type_text text;
    char name[32];
    if (f->in[i]->rank == 1 && flxi_dims_may_equal(f, f->in[i]->dims[0], length))
        return FLX_OK;
    return flxi_infer_fail(f, FLX_E_SHAPE, "scenes are flat: [x, y, z, x, y, z, ...]", "%s must have %s: it is %s",
                           flxi_operand_name(f, i, name, sizeof name), what, flxi_shape_str(f->ctx, f->in[i], &text));
}

static flx_code infer_scene(flxi_infer *f)
{
    static const struct {
        int64_t each;
        const char *what;
    } parts[] = {{3, "3 numbers for each splat"},
                 {3, "3 numbers for each splat"},
                 {4, "4 numbers for each splat"},
                 {1, "one number for each splat"},
                 {3, "3 numbers for each splat"}};
    flxi_type_text text;
    FLXI_TRY(check_attrs(f));
    FLXI_TRY(flxi_need_rank(f, SPLAT_OPACITY, 1));
    flx_dim n = f->in[SPLAT_OPACITY]->dims[0];
    for (uint32_t i = 0; i < SPLAT_HARMONICS; i++)
        FLXI_TRY(need_length(f, i, flx_dim_mul(f->ctx, parts[i].each, n), parts[i].what));
    const flx_type *sh = f->in[SPLAT_HARMONICS];
    if (sh->rank != 1 || flxi_splat_bands(f->ctx, n, sh->dims[0]) < 0)
        return flxi_infer_fail(f, FLX_E_SHAPE, "for none, which leaves colours unchanged, sh is [0]",
                               "sh must have 3 m numbers for each splat, m at most 16: it is %s",
                               flxi_shape_str(f->ctx, sh, &text));
    return need_length(f, SPLAT_META, SPLAT_META_COUNT, "23 numbers");
}

static int64_t image_count(const flxi_splat_attrs *a)
{
    return 4 * a->width * a->height;
}

static flx_type row_of(const flxi_infer *f, flx_dim count)
{
    return flx_type_make((flx_dtype)f->in[0]->dtype, 1, &count);
}

static flx_code infer_render(flxi_infer *f)
{
    FLXI_TRY(infer_scene(f));
    f->out[0] = row_of(f, image_count(f->attrs));
    return FLX_OK;
}

static flx_code infer_backward(flxi_infer *f)
{
    const flxi_splat_attrs *a = f->attrs;
    FLXI_TRY(infer_scene(f));
    FLXI_TRY(need_length(f, SPLAT_PARTS, image_count(a), "as many numbers as the image"));
    if (a->clip < 0 || a->max_anisotropy < 1 || (a->sh_bands != FLXI_ABSENT && (a->sh_bands < 0 || a->sh_bands > 4)))
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL,
                               "clip must be at least 0, max_anisotropy at least 1, sh_bands in 0 .. 4");
    flx_dim scene = flx_dim_mul(f->ctx, 14, f->in[SPLAT_OPACITY]->dims[0]);
    f->out[0] = row_of(f, flx_dim_add(f->ctx, scene, f->in[SPLAT_HARMONICS]->dims[0]));
    return FLX_OK;
}

/* ---- Evaluation ---- */

static flxi_scene scene_of(const flxi_eval *e)
{
    flxi_scene s = {.count = e->in[SPLAT_OPACITY]->count, .dtype = e->in[0]->type.dtype};
    for (int i = 0; i < SPLAT_PARTS; i++)
        s.part[i] = e->in[i]->data;
    s.bands = s.count ? e->in[SPLAT_HARMONICS]->count / (3 * s.count) : 0;
    return s;
}

/* Opens the scene in new memory, with `more` bytes after it; NULL: none. */
static void *open_scene(flxi_eval *e, flxi_view *v, size_t more, size_t *nbytes)
{
    flxi_scene s = scene_of(e);
    *nbytes = flxi_view_bytes(s.count) + more;
    void *scratch = flxi_alloc(e->mem, *nbytes, 1);
    if (scratch)
        flxi_view_open(v, e->attrs, &s, scratch);
    return scratch;
}

static flx_code eval_render(flxi_eval *e)
{
    flxi_view v;
    size_t nbytes;
    void *scratch = open_scene(e, &v, 0, &nbytes);
    if (!scratch)
        return flxi_oom(e->err, "a scene");
    flxi_splat_draw(&v, false, 0, v.attrs->height, e->out[0]->data);
    flxi_free(e->mem, scratch, nbytes, 1);
    return FLX_OK;
}

static flx_code eval_backward(flxi_eval *e)
{
    flxi_view v = {.scene = scene_of(e)};
    size_t nbytes;
    void *scratch = open_scene(e, &v, flxi_splat_backward_bytes(&v), &nbytes);
    if (!scratch)
        return flxi_oom(e->err, "a scene");
    flxi_splat_backward(&v, e->in[SPLAT_PARTS]->data, e->out[0]->data,
                        (char *)scratch + flxi_view_bytes(v.scene.count));
    flxi_free(e->mem, scratch, nbytes, 1);
    return FLX_OK;
}

/* ---- Derivatives ---- */

static bool refuse_camera(flxi_site *s)
{
    flxi_site_fail(s, FLX_E_NO_RULE, "use stop_gradient(meta)", "the camera has no derivative");
    return false;
}

/* Another op of the family with the attributes of this one. */
static flx_val append_splat(flxi_site *s, const char *op, const flx_val *in, size_t n)
{
    const flxi_splat_attrs *a = s->attrs;
    const flx_attr attrs[] = {flx_attr_int("width", a->width),
                              flx_attr_int("height", a->height),
                              flx_attr_int("tile_size", a->tile_size),
                              flx_attr_real("radius_scale", a->radius_scale),
                              flx_attr_real("alpha_cutoff", a->alpha_cutoff),
                              flx_attr_int("max_splat_steps", a->max_splat_steps),
                              flx_attr_real("transmittance_threshold", a->transmittance_threshold),
                              flx_attr_int("max_list_entries", a->max_list_entries)};
    return flx_op1(s->g, op, in, n, attrs, sizeof attrs / sizeof *attrs);
}

static void vjp_render(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    flx_val in[SPLAT_PARTS + 1];
    flx_dim at = 0;
    if (s->wanted[SPLAT_META] && !refuse_camera(s))
        return;
    memcpy(in, s->x, SPLAT_PARTS * sizeof *in);
    in[SPLAT_PARTS] = dy[0];
    flx_val packed = append_splat(s, "gaussian_splat_render_backward", in, SPLAT_PARTS + 1);
    for (uint32_t i = 0; i < SPLAT_META; i++) {
        const flx_type *t = flxi_typeof(s, s->x[i]);
        flx_dim count = t->rank ? t->dims[0] : 0;
        if (s->wanted[i])
            dx[i] = flx_narrow(s->g, packed, 0, at, count);
        at = flx_dim_add(s->ctx, at, count);
    }
}

static void jvp_render(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    if (flxi_is_none(tx[SPLAT_META]) || refuse_camera(s))
        flxi_jvp_decomposed(s, tx, ty);
}

/* Leaves the result unset: the examples are rendered one after the other. */
static void batch_by_loop(flxi_site *s, flx_val *by)
{
    (void)s;
    (void)by;
}

/* The reverse mode of the renderer in tensor ops. */
static void decompose_backward(flxi_site *s, flx_val *y)
{
    static const bool seeded[1] = {true};
    static const bool wanted[SPLAT_PARTS] = {true, true, true, true, true, true, false};
    const flxi_splat_attrs *a = s->attrs;
    flx_val parts[SPLAT_META] = {FLX_NONE};
    if (!isnan(a->clip) || a->sh_bands != FLXI_ABSENT || !isnan(a->max_anisotropy)) {
        flxi_site_fail(s, FLX_E_NO_RULE, "omit clip, sh_bands and max_anisotropy",
                       "with limits the cotangents are not those of any function");
        return;
    }
    flx_graph *image = flx_graph_new(s->ctx, "image");
    flx_val in[SPLAT_PARTS];
    static const char *const names[SPLAT_PARTS] = {"positions", "log_scales", "rotations", "opacity",
                                                   "colours",   "sh",         "meta"};
    for (int i = 0; image && i < SPLAT_PARTS; i++)
        in[i] = flx_input(image, names[i], flxi_typeof(s, s->x[i]));
    if (!image) {
        flxi_site_fail(s, FLX_E_OOM, NULL, "out of memory");
        return;
    }
    flxi_site inner = *s;
    flx_val rgba = FLX_NONE;
    inner.g = image;
    inner.x = in;
    flxi_decompose_splat(&inner, &rgba);
    flx_output(image, rgba, "rgba");
    if (image->error.code)
        flxi_graph_fail(s->g, &image->error);
    flx_graph *reverse = s->g->error.code ? NULL : s->bodies->vjp(s, image, seeded, wanted);
    if (reverse)
        flxi_inline(s->g, reverse, s->x, parts);
    flx_graph_release(reverse);
    flx_graph_release(image);
    y[0] = flx_concat(s->g, parts, SPLAT_META, 0);
}

/* The cameras of the samples are random, so some see nothing (tests/oracle/splat.py has better ones); and there are few
   samples, since tests try all subsets of operands. */
#define SCENE(n3, n4, n, m) \
    "T[" n3 "]{-1..1}, T[" n3 "]{-0.5..0.5}, T[" n4 "]{0.25..1}, T[" n "], T[" n3 "]{0.25..1}, T[" m "], T[23]{-3..3}"
#define SIZES "width=2, height=2, tile_size=2, radius_scale=1.5, alpha_cutoff=0, max_splat_steps=9, "
#define LIMITS "transmittance_threshold=0, max_list_entries=16"

static const flxi_sample samples_render[] = {
    {SCENE("6", "8", "2", "0"), SIZES LIMITS, NULL, FLX_OK},
    {SCENE("3*N", "4*N", "N", "0"), SIZES LIMITS, NULL, FLX_OK},
    {SCENE("6", "6", "2", "0"), SIZES LIMITS, NULL, FLX_E_SHAPE},
    {SCENE("6", "8", "2", "5"), SIZES LIMITS, NULL, FLX_E_SHAPE},
    {SCENE("6", "8", "2", "102"), SIZES LIMITS, NULL, FLX_E_SHAPE},
    {SCENE("6", "8", "3", "0"), SIZES LIMITS, NULL, FLX_E_SHAPE},
    {SCENE("6", "8", "2", "0"), LIMITS, NULL, FLX_E_ATTRIBUTE},
    {0},
};

const flxi_rules flxi_rules_gaussian_splat_render = {
    .infer = infer_render,
    .eval = eval_render,
    .decompose = flxi_decompose_splat,
    .vjp = vjp_render,
    .jvp = jvp_render,
    .batch = batch_by_loop,
    .schema = splat_schema,
    .attrs_size = sizeof(flxi_splat_attrs),
    .samples = samples_render,
    .work = flxi_work_results,
    .link = flxi_link_dense,
};

static const flxi_sample samples_backward[] = {
    {SCENE("3", "4", "1", "3") ", T[16]", SIZES LIMITS, NULL, FLX_OK},
    {SCENE("3", "4", "1", "0") ", T[12]", SIZES LIMITS, NULL, FLX_E_SHAPE},
    {SCENE("3", "4", "1", "0") ", T[16]", SIZES LIMITS ", clip=-1", NULL, FLX_E_ATTRIBUTE},
    {SCENE("3", "4", "1", "0") ", T[16]", SIZES LIMITS ", sh_bands=5", NULL, FLX_E_ATTRIBUTE},
    {0},
};

const flxi_rules flxi_rules_gaussian_splat_render_backward = {
    .infer = infer_backward,
    .eval = eval_backward,
    .decompose = decompose_backward,
    .batch = batch_by_loop,
    .schema = backward_schema,
    .attrs_size = sizeof(flxi_splat_attrs),
    .samples = samples_backward,
    .work = flxi_work_results,
};

/* ---- prepare ---- */

/* Offsets in the packed buffer. */
enum { PER_SPLAT = 19, PARAMETERS = 8 };

typedef struct {
    int64_t across, down, tiles; /* tiles */
    int64_t list, ranges, rays, parameters;
} prep_layout;

static prep_layout layout_of(const flxi_splat_attrs *a, int64_t splats)
{
    prep_layout l = {.across = (a->width + a->tile_size - 1) / a->tile_size,
                     .down = (a->height + a->tile_size - 1) / a->tile_size};
    l.tiles = l.across * l.down;
    l.list = PER_SPLAT * splats;
    l.ranges = l.list + a->max_list_entries;
    l.rays = l.ranges + 2 * l.tiles;
    l.parameters = l.rays + 3 * a->width * a->height;
    return l;
}

static flx_code infer_prepare(flxi_infer *f)
{
    FLXI_TRY(infer_scene(f));
    flx_dim rest = layout_of(f->attrs, 0).parameters + PARAMETERS;
    f->out[0] = row_of(f, flx_dim_add(f->ctx, flx_dim_mul(f->ctx, PER_SPLAT, f->in[SPLAT_OPACITY]->dims[0]), rest));
    return FLX_OK;
}

static void store_all(flx_tensor *y, int64_t at, const double *x, int n)
{
    for (int k = 0; k < n; k++)
        flxi_store_double(y->type.dtype, y->data, at + k, x[k]);
}

static void store_splat(flx_tensor *y, int64_t i, const flxi_splat *p)
{
    const int64_t *b = p->box;
    double wide = 0.5 * (double)(b[1] - b[0] + 1), high = 0.5 * (double)(b[3] - b[2] + 1);
    const double head[] = {0.5 * (double)(b[0] + b[1] + 1), 0.5 * (double)(b[2] + b[3] + 1), fmax(wide, high), p->depth,
                           p->is_valid};
    int64_t at = i * PER_SPLAT;
    store_all(y, at, head, 5);
    store_all(y, at + 5, p->origin, 3);
    store_all(y, at + 8, p->inverse, 3);
    store_all(y, at + 11, p->quaternion, 4);
    store_all(y, at + 15, p->colour, 3);
    store_all(y, at + 18, &p->opacity, 1);
}

static bool touches(const flxi_splat *p, const flxi_splat_attrs *a, int64_t column, int64_t row)
{
    int64_t x = column * a->tile_size, y = row * a->tile_size, last = a->tile_size - 1;
    return p->box[0] <= x + last && p->box[1] >= x && p->box[2] <= y + last && p->box[3] >= y;
}

/* Fills the lists tile after tile; returns the number of entries, which may exceed the available room. */
static int64_t store_lists(const flxi_view *v, const prep_layout *l, flx_tensor *y)
{
    int64_t used = 0;
    for (int64_t tile = 0; tile < l->tiles && !flxi_stopped(); tile++) {
        double range[2] = {(double)(used < v->attrs->max_list_entries ? used : v->attrs->max_list_entries), 0};
        for (int64_t k = 0; k < v->valid; k++) {
            if (!touches(&v->splats[v->order[k]], v->attrs, tile % l->across, tile / l->across))
                continue;
            if (used < v->attrs->max_list_entries)
                flxi_store_int(y->type.dtype, y->data, l->list + used, v->order[k]);
            used++;
        }
        range[1] = (double)(used < v->attrs->max_list_entries ? used : v->attrs->max_list_entries);
        store_all(y, l->ranges + 2 * tile, range, 2);
    }
    return used;
}

static flx_code eval_prepare(flxi_eval *e)
{
    flxi_view v;
    size_t nbytes;
    void *scratch = open_scene(e, &v, 0, &nbytes);
    flx_tensor *y = e->out[0];
    if (!scratch)
        return flxi_oom(e->err, "a scene");
    prep_layout l = layout_of(e->attrs, v.scene.count);
    for (int64_t i = 0; i < v.scene.count && !flxi_stopped_by_now(); i++)
        store_splat(y, i, &v.splats[i]);
    int64_t used = store_lists(&v, &l, y);
    for (int64_t i = 0; i < v.attrs->width * v.attrs->height && !flxi_stopped_by_now(); i++) {
        double ray[3];
        flxi_camera_ray(&v.camera, i % v.attrs->width, i / v.attrs->width, ray);
        store_all(y, l.rays + 3 * i, ray, 3);
    }
    const double parameters[PARAMETERS] = {
        v.camera.focal,         v.camera.centre[0],     v.camera.centre[1],    v.camera.background[0],
        v.camera.background[1], v.camera.background[2], (double)v.scene.count, (double)used};
    store_all(y, l.parameters, parameters, PARAMETERS);
    if (used > v.attrs->max_list_entries && e->report)
        e->report(e, FLX_RUN_LIST_FULL);
    flxi_free(e->mem, scratch, nbytes, 1);
    return FLX_OK;
}

static const flxi_sample samples_prepare[] = {
    {SCENE("6", "8", "2", "0"), SIZES LIMITS, NULL, FLX_OK},
    {SCENE("3*N", "4*N", "N", "0"), SIZES LIMITS, NULL, FLX_OK},
    {SCENE("0", "0", "0", "0"), SIZES LIMITS, NULL, FLX_OK},
    {SCENE("6", "8", "3", "0"), SIZES LIMITS, NULL, FLX_E_SHAPE},
    {0},
};

static const char halves_undefined[] =
    "prepare and rasterize have a derivative together only; or use gaussian_splat_render";

static bool is_used(const flx_graph *g, uint32_t value)
{
    for (uint32_t i = 0; i < g->node_count; i++)
        for (uint32_t k = 0; k < flxi_node_at(g, i)->nin; k++)
            if (flxi_node_at(g, i)->in[k] == value)
                return true;
    for (size_t k = 0; k < g->outputs.n; k++)
        if (g->outputs.at[k].val == value)
            return true;
    return false;
}

static void expand_unused(flxi_site *s, flx_val *y)
{
    flx_dim count = flx_dim_mul(s->ctx, PER_SPLAT, flxi_typeof(s, s->x[SPLAT_OPACITY])->dims[0]);
    count = flx_dim_add(s->ctx, count, layout_of(s->attrs, 0).parameters + PARAMETERS);
    flx_type t = flx_type_make((flx_dtype)flxi_typeof(s, s->x[0])->dtype, 1, &count);
    y[0] = flxi_zeros(s, &t);
}

/* A prepare that is not used any more, once its rasterize is a render, goes away as zeros. */
static flxi_expansion pair_prepare(const flx_graph *g, uint32_t node)
{
    return is_used(g, flxi_node_at(g, node)->first) ? NULL : expand_unused;
}

const flxi_rules flxi_rules_gaussian_splat_prepare = {
    .infer = infer_prepare,
    .eval = eval_prepare,
    .batch = batch_by_loop,
    .schema = splat_schema,
    .attrs_size = sizeof(flxi_splat_attrs),
    .undefined = halves_undefined,
    .samples = samples_prepare,
    .work = flxi_work_results,
    .pair = pair_prepare,
};

/* ---- rasterize ---- */

static flx_code infer_rasterize(flxi_infer *f)
{
    const flxi_splat_attrs *a = f->attrs;
    flxi_type_text text;
    FLXI_TRY(check_attrs(f));
    FLXI_TRY(need_length(f, 1, SPLAT_META_COUNT, "23 numbers"));
    int64_t rest = layout_of(a, 0).parameters + PARAMETERS;
    flx_dim count = f->in[0]->rank == 1 ? f->in[0]->dims[0] : -1;
    if (flxi_dim_is_number(count) && (count < rest || (count - rest) % PER_SPLAT))
        return flxi_infer_fail(f, FLX_E_SHAPE, "prep must come from gaussian_splat_prepare with the same attributes",
                               "prep must have 19 n + %lld numbers: it is %s", (long long)rest,
                               flxi_shape_str(f->ctx, f->in[0], &text));
    f->out[0] = row_of(f, image_count(a));
    return FLX_OK;
}

/* The buffer in the form that the renderer needs. */
typedef struct {
    flxi_splat *splats;
    int64_t *list;
    int64_t count;
} prepared;

static void load_all(const flx_tensor *x, int64_t at, double *out, int n)
{
    for (int k = 0; k < n; k++)
        out[k] = flxi_load_double(x->type.dtype, x->data, at + k);
}

static flx_code load_prepared(flxi_eval *e, const prep_layout *l, prepared *p)
{
    const flx_tensor *x = e->in[0];
    const flxi_splat_attrs *a = e->attrs;
    for (int64_t i = 0; i < p->count; i++) {
        flxi_splat *s = &p->splats[i];
        int64_t at = i * PER_SPLAT;
        load_all(x, at + 5, s->origin, 3);
        load_all(x, at + 8, s->inverse, 3);
        load_all(x, at + 11, s->quaternion, 4);
        load_all(x, at + 15, s->colour, 3);
        load_all(x, at + 18, &s->opacity, 1);
        flxi_splat_rotate(s);
    }
    for (int64_t k = 0; k < a->max_list_entries; k++) {
        p->list[k] = flxi_load_int(x->type.dtype, x->data, l->list + k);
        if (p->list[k] < 0 || (p->list[k] >= p->count && p->list[k] != 0))
            return flxi_eval_fail(e, FLX_E_INDEX, "prep must come from gaussian_splat_prepare with the same attributes",
                                  "a list refers to splat %lld of %lld", (long long)p->list[k], (long long)p->count);
    }
    return FLX_OK;
}

static flx_code rasterize(flxi_eval *e, const prep_layout *l, const prepared *p)
{
    const flxi_splat_attrs *a = e->attrs;
    const flx_tensor *x = e->in[0];
    flxi_camera c = flxi_camera_of(a, e->in[1]->type.dtype, e->in[1]->data);
    for (int64_t i = 0; i < a->width * a->height && !flxi_stopped_by_now(); i++) {
        int64_t tile = i / a->width / a->tile_size * l->across + i % a->width / a->tile_size;
        int64_t from = flxi_load_int(x->type.dtype, x->data, l->ranges + 2 * tile);
        int64_t to = flxi_load_int(x->type.dtype, x->data, l->ranges + 2 * tile + 1);
        double ray[3], rgba[4];
        if (from < 0 || to < from || to > a->max_list_entries || (to > from && p->count == 0))
            return flxi_eval_fail(e, FLX_E_INDEX, "prep must come from gaussian_splat_prepare with the same attributes",
                                  "tile %lld has entries %lld to %lld of %lld", (long long)tile, (long long)from,
                                  (long long)to, (long long)a->max_list_entries);
        load_all(x, l->rays + 3 * i, ray, 3);
        flxi_splat_shade(a, p->splats, p->list + from, to - from, ray, c.background, rgba);
        store_all(e->out[0], 4 * i, rgba, 4);
    }
    return FLX_OK;
}

static flx_code eval_rasterize(flxi_eval *e)
{
    const flxi_splat_attrs *a = e->attrs;
    prep_layout l = layout_of(a, 0);
    prepared p = {.count = (e->in[0]->count - l.parameters - PARAMETERS) / PER_SPLAT};
    size_t splats = (size_t)p.count * sizeof *p.splats;
    size_t nbytes = splats + (size_t)a->max_list_entries * sizeof *p.list;
    l = layout_of(a, p.count);
    p.splats = flxi_alloc(e->mem, nbytes, 1);
    if (!p.splats)
        return flxi_oom(e->err, "a scene");
    p.list = (int64_t *)(p.splats + p.count);
    flx_code code = load_prepared(e, &l, &p);
    if (code == FLX_OK)
        code = rasterize(e, &l, &p);
    flxi_free(e->mem, p.splats, nbytes, 1);
    return code;
}

/* 16 entries, 2 numbers for one tile, 3 for each of 4 pixels, 8 parameters: 38 without splats. */
static const flxi_sample samples_rasterize[] = {
    {"T[57]{0..0}, T[23]{-3..3}", SIZES LIMITS, NULL, FLX_OK},
    {"T[38]{0..0}, T[23]{-3..3}", SIZES LIMITS, NULL, FLX_OK},
    {"T[58], T[23]", SIZES LIMITS, NULL, FLX_E_SHAPE},
    {"T[19], T[23]", SIZES LIMITS, NULL, FLX_E_SHAPE},
    {"T[57], T[22]", SIZES LIMITS, NULL, FLX_E_SHAPE},
    {0},
};

/* The prepare before a rasterize with the same camera and attributes; NULL: none. */
static const flxi_node *other_half(const flx_graph *g, const flxi_node *n)
{
    const flxi_node *p = flxi_node_of(g, n->in[0]);
    if (flxi_ops[p->op].rules != &flxi_rules_gaussian_splat_prepare || p->in[SPLAT_META] != n->in[1])
        return NULL;
    const flxi_splat_attrs *a = n->attrs, *b = p->attrs;
    bool is_same = a->width == b->width && a->height == b->height && a->tile_size == b->tile_size &&
                   a->radius_scale == b->radius_scale && a->alpha_cutoff == b->alpha_cutoff &&
                   a->max_splat_steps == b->max_splat_steps &&
                   a->transmittance_threshold == b->transmittance_threshold &&
                   a->max_list_entries == b->max_list_entries;
    return is_same ? p : NULL;
}

static void expand_pair(flxi_site *s, flx_val *y)
{
    const flxi_node *p = flxi_node_of(s->g, s->x[0].id);
    flx_val in[SPLAT_PARTS];
    for (int i = 0; i < SPLAT_PARTS; i++)
        in[i] = (flx_val){p->in[i], s->g->serial};
    y[0] = append_splat(s, "gaussian_splat_render", in, SPLAT_PARTS);
}

/* Apart from each other the halves have no derivative; together they are one render. */
static flxi_expansion pair_rasterize(const flx_graph *g, uint32_t node)
{
    return other_half(g, flxi_node_at(g, node)) ? expand_pair : NULL;
}

const flxi_rules flxi_rules_gaussian_splat_rasterize = {
    .infer = infer_rasterize,
    .eval = eval_rasterize,
    .batch = batch_by_loop,
    .schema = splat_schema,
    .attrs_size = sizeof(flxi_splat_attrs),
    .undefined = halves_undefined,
    .samples = samples_rasterize,
    .work = flxi_work_results,
    .pair = pair_rasterize,
};
