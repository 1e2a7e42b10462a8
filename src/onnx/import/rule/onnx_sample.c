/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_sample.c: images sampled at computed positions. */
#include "graph/type/type.h"
#include "onnx/import/onnx_site.h"

enum { MAX_TAPS = 4 };

typedef struct {
    bool aligned;
    const char *padding;
    int taps; /* along each axis: 1 nearest, 2 linear, 4 cubic */
} sampling;

/* One axis of the positions: indices and weights of its taps, all of shape [N, P]. */
typedef struct {
    flx_val at[MAX_TAPS];     /* i64, in range */
    flx_val weight[MAX_TAPS]; /* FLX_NONE: 1 */
} axis_taps;

static flx_val num(onnx_site *s, flx_val like, double x)
{
    return flxi_onnx_number(s, like, x);
}

/* A position from -1 to 1 as a coordinate of elements. */
static flx_val unnormalised(onnx_site *s, flx_val x, int64_t n, bool is_aligned)
{
    flx_val y = flx_add(s->g, x, num(s, x, 1));
    if (is_aligned)
        return flx_mul(s->g, y, num(s, x, (double)(n - 1) / 2));
    return flx_sub(s->g, flx_mul(s->g, y, num(s, x, (double)n / 2)), num(s, x, 0.5));
}

/* Weight of tap k (of taps) for the fraction t: distance from the sample. */
static flx_val tap_weight(onnx_site *s, flx_val t, int k, int taps)
{
    flx_val one = num(s, t, 1);
    if (taps == 2)
        return k == 0 ? flx_sub(s->g, one, t) : t;
    double a = -0.75;
    flx_val d = flx_abs(s->g, flx_sub(s->g, t, num(s, t, k - 1)));
    flx_val d2 = flx_mul(s->g, d, d), d3 = flx_mul(s->g, d2, d);
    if (k == 1 || k == 2) /* (a+2) d^3 - (a+3) d^2 + 1 */
        return flx_add(s->g, flx_sub(s->g, flx_mul(s->g, d3, num(s, t, a + 2)), flx_mul(s->g, d2, num(s, t, a + 3))),
                       one);
    flx_val high = flx_sub(s->g, flx_mul(s->g, d3, num(s, t, a)), flx_mul(s->g, d2, num(s, t, 5 * a)));
    return flx_add(s->g, high, flx_sub(s->g, flx_mul(s->g, d, num(s, t, 8 * a)), num(s, t, 4 * a)));
}

/* Integer positions brought into range; *weight becomes 0 where nothing is there. */
static flx_val in_range(onnx_site *s, flx_val at, int64_t n, const sampling *p, flx_val *weight)
{
    flx_val zero = num(s, at, 0), last = num(s, at, (double)(n - 1));
    if (strcmp(p->padding, "reflection") == 0) {
        double period = p->aligned ? 2 * (double)(n > 1 ? n - 1 : 1) : 2 * (double)n;
        flx_val r = flx_mod(s->g, at, num(s, at, period));
        flx_val back = flx_sub(s->g, num(s, at, p->aligned ? period : period - 1), r);
        at = flx_where(s->g, flx_gt(s->g, r, last), back, r);
    } else if (strcmp(p->padding, "zeros") == 0) {
        flx_val inside = flx_and(s->g, flx_ge(s->g, at, zero), flx_le(s->g, at, last));
        flx_val w = weight->id ? *weight : num(s, at, 1);
        *weight = flx_where(s->g, inside, w, num(s, at, 0));
    }
    return flxi_onnx_cast(s, flx_clamp(s->g, zero, at, last), FLX_I64);
}

/* A coordinate is reflected before it is rounded. */
static axis_taps take_taps(onnx_site *s, flx_val x, int64_t n, const sampling *p)
{
    axis_taps r;
    flx_val base = p->taps == 1 ? flx_round(s->g, x) : flx_floor(s->g, x);
    flx_val t = flx_sub(s->g, x, base);
    for (int k = 0; k < p->taps; k++) {
        flx_val at = flx_add(s->g, base, num(s, x, p->taps == 4 ? k - 1 : k));
        r.weight[k] = p->taps == 1 ? FLX_NONE : tap_weight(s, t, k, p->taps);
        r.at[k] = in_range(s, at, n, p, &r.weight[k]);
    }
    return r;
}

static flx_val product(onnx_site *s, flx_val a, flx_val b)
{
    return !a.id ? b : !b.id ? a : flx_mul(s->g, a, b);
}

/* The elements of image [N, C, P] at [N, Q], times the weights. */
static flx_val weighted(onnx_site *s, flx_val image, flx_val at, flx_val weight)
{
    flx_dim n = flxi_onnx_dim(s, image, 0), c = flxi_onnx_dim(s, image, 1), q = flxi_onnx_dim(s, at, 1);
    flx_val index = flx_expand(s->g, flx_unsqueeze(s->g, at, .axes = FLX_INTS(1)), .shape = FLX_INTS(n, c, q));
    flx_val y = flx_take_along(s->g, image, index, .axis = 2);
    return weight.id ? flx_mul(s->g, y, flx_unsqueeze(s->g, weight, .axes = FLX_INTS(1))) : y;
}

/* The sum over all combinations of taps. */
static flx_val sample(onnx_site *s, flx_val image, const axis_taps *taps, const int64_t *dims, int axes, int count)
{
    flx_val sum = FLX_NONE;
    int64_t total = 1;
    for (int i = 0; i < axes; i++)
        total *= count;
    for (int64_t k = 0; k < total; k++) {
        flx_val at = FLX_NONE, weight = FLX_NONE;
        int64_t rest = k;
        for (int i = 0; i < axes; i++, rest /= count) {
            int tap = (int)(rest % count);
            flx_val row = taps[i].at[tap];
            at = at.id ? flx_add(s->g, flx_mul(s->g, at, num(s, at, (double)dims[i])), row) : row;
            weight = product(s, weight, taps[i].weight[tap]);
        }
        flx_val part = weighted(s, image, at, weight);
        sum = sum.id ? flx_add(s->g, sum, part) : part;
    }
    return sum;
}

static int taps_of(const char *mode)
{
    if (strcmp(mode, "nearest") == 0)
        return 1;
    return strcmp(mode, "cubic") == 0 || strcmp(mode, "bicubic") == 0 ? 4 : 2;
}

void flxi_onnx_import_grid_sample(onnx_site *s)
{
    flx_val x = s->x[0], grid = s->x[1];
    const flx_type *t = flxi_onnx_typeof(s, x);
    flx_type out = *flxi_onnx_typeof(s, grid);
    int axes = t->rank - 2;
    if (axes < 1 || axes > 3 || out.rank != t->rank || !flxi_type_is_static(t) || !flxi_type_is_static(&out) ||
        out.dims[out.rank - 1] != axes) {
        flxi_onnx_unsupported(s, "an image and a grid of these shapes");
        return;
    }
    sampling p = {.aligned = flxi_onnx_int(s, "align_corners", 0) != 0,
                  .padding = flxi_onnx_word(s, "padding_mode", "zeros"),
                  .taps = taps_of(flxi_onnx_word(s, "mode", "linear"))};
    int64_t positions = 1, elements = 1;
    flx_dim dims[FLX_MAX_RANK] = {t->dims[0], t->dims[1]};
    for (int i = 0; i < axes; i++) {
        dims[2 + i] = out.dims[1 + i];
        positions *= out.dims[1 + i];
        elements *= t->dims[2 + i];
    }
    axis_taps taps[3];
    for (int i = 0; i < axes; i++) { /* the last coordinate belongs to the first axis */
        flx_val column = flxi_onnx_slice_axis(s, grid, out.rank - 1, axes - 1 - i, axes - i);
        column = flx_reshape(s->g, column, .shape = FLX_INTS(t->dims[0], positions));
        column = flxi_onnx_cast(s, column, flxi_onnx_dtype(s, x));
        taps[i] = take_taps(s, unnormalised(s, column, t->dims[2 + i], p.aligned), t->dims[2 + i], &p);
    }
    flx_val image = flx_reshape(s->g, x, .shape = FLX_INTS(t->dims[0], t->dims[1], elements));
    flx_val y = sample(s, image, taps, t->dims + 2, axes, p.taps);
    s->y[0] = flx_reshape(s->g, y, .shape = {dims, (size_t)t->rank});
}

/* ---- Affine grids ---- */

/* n positions from -1 to 1. */
static flx_val base_positions(onnx_site *s, flx_val like, int64_t n, bool is_aligned, int axis, flx_ints shape)
{
    flx_type type = {.dtype = (int32_t)flxi_onnx_dtype(s, like), .rank = (int32_t)shape.n};
    memcpy(type.dims, shape.v, shape.n * sizeof *shape.v);
    flx_val i = flx_iota(s->g, .type = &type, .axis = axis);
    if (is_aligned)
        return flx_sub(s->g, flx_mul(s->g, i, num(s, i, n > 1 ? 2 / (double)(n - 1) : 0)), num(s, i, 1));
    flx_val centre = flx_add(s->g, flx_mul(s->g, i, num(s, i, 2)), num(s, i, 1 - (double)n));
    return flx_div(s->g, centre, num(s, i, (double)n));
}

void flxi_onnx_import_affine_grid(onnx_site *s)
{
    flx_ints size;
    flx_val theta = s->x[0];
    bool aligned = flxi_onnx_int(s, "align_corners", 0) != 0;
    if (!flxi_onnx_extents(s, 1, &size))
        return;
    int axes = (int)size.n - 2;
    if (axes < 2 || axes > 3) {
        flxi_onnx_fail(s, FLX_E_SHAPE, NULL, "size must be [N, C, H, W] or [N, C, D, H, W]");
        return;
    }
    flx_dim grid[4] = {1, 1, 1, 1}, dims[5] = {size.v[0]};
    int64_t count = 1;
    for (int i = 0; i < axes; i++) {
        grid[i] = size.v[2 + i];
        dims[1 + i] = size.v[2 + i];
        count *= size.v[2 + i];
    }
    flx_ints shape = {grid, (size_t)axes};
    flx_val columns[4];
    for (int i = 0; i < axes; i++)
        columns[axes - 1 - i] = base_positions(s, theta, size.v[2 + i], aligned, i, shape);
    columns[axes] = flxi_onnx_fill(s, num(s, theta, 1), shape);
    flx_val points =
        flx_reshape(s->g, flx_stack(s->g, columns, (size_t)axes + 1, .axis = axes), .shape = FLX_INTS(count, axes + 1));
    flx_val y = flx_matmul(s->g, points, flx_transpose(s->g, theta, .perm = FLX_INTS(0, 2, 1)));
    dims[axes + 1] = axes;
    s->y[0] = flx_reshape(s->g, y, .shape = {dims, (size_t)axes + 2});
}

/* ---- Columns to images ---- */

typedef struct {
    size_t axes;
    flx_ints image, block, stride, dilation, pads;
    int64_t blocks[6];                /* along each axis */
    int64_t cells, kernel, positions; /* of the image, of a block, of blocks */
} columns;

static bool read_columns(onnx_site *s, const flx_type *t, columns *c)
{
    if (!flxi_onnx_extents(s, 1, &c->image) || !flxi_onnx_extents(s, 2, &c->block))
        return false;
    size_t axes = c->axes = c->image.n;
    c->stride = flxi_onnx_ints_of(s, "strides", axes, 1);
    c->dilation = flxi_onnx_ints_of(s, "dilations", axes, 1);
    c->pads = flxi_onnx_ints_of(s, "pads", 2 * axes, 0);
    if (axes < 1 || axes > 6 || c->block.n != axes || t->rank != 3 || !flxi_type_is_static(t) || flxi_onnx_failed(s)) {
        flxi_onnx_unsupported(s, "an image of these axes");
        return false;
    }
    c->cells = c->kernel = c->positions = 1;
    for (size_t i = 0; i < axes; i++) {
        int64_t span = c->dilation.v[i] * (c->block.v[i] - 1) + 1;
        c->blocks[i] = (c->image.v[i] + c->pads.v[i] + c->pads.v[axes + i] - span) / c->stride.v[i] + 1;
        c->cells *= c->image.v[i];
        c->kernel *= c->block.v[i];
        c->positions *= c->blocks[i];
    }
    if (c->kernel < 1 || c->positions != t->dims[2] || t->dims[1] % c->kernel != 0) {
        flxi_onnx_fail(s, FLX_E_SHAPE, NULL, "its operand does not have the blocks of this image");
        return false;
    }
    return true;
}

/* The cell of the image that element k of all blocks belongs to; one more cell takes what is outside. */
static int64_t cell_of(const columns *c, int64_t k)
{
    int64_t in_block = k / c->positions, at_block = k % c->positions, cell = 0, scale = 1;
    bool is_outside = false;
    for (size_t i = c->axes; i-- > 0;) {
        int64_t at = at_block % c->blocks[i] * c->stride.v[i] + in_block % c->block.v[i] * c->dilation.v[i];
        int64_t pos = at - c->pads.v[i];
        at_block /= c->blocks[i];
        in_block /= c->block.v[i];
        is_outside |= pos < 0 || pos >= c->image.v[i];
        cell += pos * scale;
        scale *= c->image.v[i];
    }
    return is_outside ? c->cells : cell;
}

/* Each element of a block goes to its cell; cells that several blocks cover are summed. */
void flxi_onnx_import_col2im(onnx_site *s)
{
    columns c;
    const flx_type *t = flxi_onnx_typeof(s, s->x[0]);
    if (!read_columns(s, t, &c))
        return;
    int64_t count = c.kernel * c.positions;
    int64_t *to = flxi_onnx_new(s, int64_t, count);
    if (!to)
        return;
    for (int64_t k = 0; k < count; k++)
        to[k] = cell_of(&c, k);
    flx_dim n = t->dims[0], channels = t->dims[1] / c.kernel;
    flx_val x = flx_reshape(s->g, s->x[0], .shape = FLX_INTS(n * channels, count));
    flx_val y = flx_scatter_add(s->g, flx_transpose(s->g, x), flxi_onnx_vector(s, to, (size_t)count), .R = c.cells + 1);
    y = flx_transpose(s->g, flxi_onnx_slice_axis(s, y, 0, 0, c.cells));
    flx_dim dims[8] = {n, channels};
    for (size_t i = 0; i < c.axes; i++)
        dims[2 + i] = c.image.v[i];
    s->y[0] = flx_reshape(s->g, y, .shape = {dims, c.axes + 2});
}
