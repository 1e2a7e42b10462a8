/* SPDX-License-Identifier: Apache-2.0 */
/* diagonal.c: ops of the movement family that treat the last two axes as matrices: tril, triu and diag. All are linear:
   masking is its own transpose, extracting a diagonal is the transpose of inserting one. */
#include "base/host/stop.h"
#include "ops/express/express.h"
#include "ops/opcode.h"
#include "ops/rule/axis/axis_map.h"
#include "ops/rule/copy.h"
#include "ops/rule/link.h"
#include "ops/rule/rule_lists.h"

/* ---- tril, triu, diag ---- */

typedef struct {
    int64_t k;
} diagonal_attrs;

static const flxi_attr diagonal_schema[] = {A_INT(diagonal_attrs, k, 0), A_END};

static flx_code infer_triangle(flxi_infer *f)
{
    FLXI_TRY(flxi_need_rank(f, 0, 2));
    f->out[0] = *f->in[0];
    return FLX_OK;
}

/* sign 1 keeps the diagonals up to k, sign -1 those from k on. */
static flx_code keep_triangle(flxi_eval *e, int sign)
{
    int64_t k = ((const diagonal_attrs *)e->attrs)->k;
    const flx_tensor *x = e->in[0];
    size_t size = flx_dtype_size(x->type.dtype);
    int64_t rows = x->type.dims[x->type.rank - 2];
    int64_t cols = x->type.dims[x->type.rank - 1];
    for (int64_t i = 0; i < x->count && !flxi_stopped_by_now(); i++) {
        int64_t diagonal = i % cols - i / cols % rows;
        if (sign > 0 ? diagonal <= k : diagonal >= k)
            flxi_copy_element(e->out[0]->data, i, x->data, i, size);
    }
    return FLX_OK;
}

static flx_code eval_tril(flxi_eval *e)
{
    return keep_triangle(e, 1);
}

static flx_code eval_triu(flxi_eval *e)
{
    return keep_triangle(e, -1);
}

static const flxi_sample samples_triangle[] = {
    {"T[3, 3]", NULL, NULL, FLX_OK},
    {"T[2, 4]", "k=1", NULL, FLX_OK},
    {"T[4, 2]", "k=-1", NULL, FLX_OK},
    {"T[2, 2, 3]", "k=-2", NULL, FLX_OK},
    {"T[3, 3]", "k=4611686018427387904", NULL, FLX_OK},
    {"T[3, 3]", "k=-4611686018427387904", NULL, FLX_OK},
    {"T[0, 3]", NULL, NULL, FLX_OK},
    {"T[2, 3, 0]", NULL, NULL, FLX_OK},
    {"T[N, 3]", "k=1", NULL, FLX_OK},
    {"T[3]", NULL, NULL, FLX_E_SHAPE},
    {"T[]", NULL, NULL, FLX_E_SHAPE},
    {0},
};

/* The same elements are kept of the cotangent. */
static void vjp_triangle(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    dx[0] = flxi_emit1(s, NULL, dy, 1);
}

/* The matrices are the last axes, whatever is before them. */
static void batch_triangle(flxi_site *s, flx_val *by)
{
    flxi_append(s, NULL, s->x, 1, by);
}

/* column - row of every position of a matrix */
static flx_val diagonal_numbers(flxi_site *s, flx_dim rows, flx_dim cols)
{
    flx_type column = flx_type_make(FLX_I64, 2, (flx_dim[]){rows, 1});
    flx_type row = flx_type_make(FLX_I64, 2, (flx_dim[]){1, cols});
    return flx_sub(s->g, flx_iota(s->g, &row, 1), flx_iota(s->g, &column, 0));
}

static void decompose_triangle(flxi_site *s, flx_val *y)
{
    const flx_type *x = flxi_typeof(s, s->x[0]);
    flx_val at = diagonal_numbers(s, x->dims[x->rank - 2], x->dims[x->rank - 1]);
    flx_val k = flx_scalar(s->g, FLX_I64, (double)((const diagonal_attrs *)s->attrs)->k);
    bool lower = s->op == &flxi_ops[OP_tril];
    y[0] = flxi_masked(s, lower ? flx_le(s->g, at, k) : flx_ge(s->g, at, k), s->x[0]);
}

/* k clamped to the diagonals next to the matrix: the same result, and no overflow. */
static int64_t bounded_diagonal(int64_t k, int64_t rows, int64_t cols)
{
    return k < -rows ? -rows : k > cols ? cols : k;
}

/* Compares column with row + k in unsigned arithmetic. */
static uint32_t beside(flxi_express *e, flxi_kbinary relation, uint32_t row, uint32_t col, int64_t k)
{
    uint32_t left = k < 0 ? flxi_ku_add(e, col, flxi_ku(e, -k)) : col;
    return flxi_k2(e, relation, left, k > 0 ? flxi_ku_add(e, row, flxi_ku(e, k)) : row);
}

static flxi_kval pull_triangle(flxi_express *e, const flxi_kindex *at, flxi_kbinary relation)
{
    const diagonal_attrs *a = e->attrs;
    const flx_type *x = e->in[0];
    flxi_kindex in = flxi_at_axes(e, at);
    int row = x->rank - 2, col = x->rank - 1;
    int64_t k = bounded_diagonal(a->k, x->dims[row], x->dims[col]);
    uint32_t keeps = beside(e, relation, in.dim[row], in.dim[col], k);
    return flxi_khold_value(e, flxi_kchoose(e, keeps, flxi_operand_at(e, 0, at), flxi_kzero(e, x->dtype)));
}

static flxi_kval pull_tril(flxi_express *e, uint32_t result, const flxi_kindex *at)
{
    (void)result;
    return pull_triangle(e, at, KBIN_le);
}

static flxi_kval pull_triu(flxi_express *e, uint32_t result, const flxi_kindex *at)
{
    (void)result;
    return pull_triangle(e, at, KBIN_ge);
}

const flxi_rules flxi_rules_tril = {
    .infer = infer_triangle,
    .eval = eval_tril,
    .pull = pull_tril,
    .vjp = vjp_triangle,
    .batch = batch_triangle,
    .decompose = decompose_triangle,
    .schema = diagonal_schema,
    .attrs_size = sizeof(diagonal_attrs),
    .samples = samples_triangle,
    .link = flxi_link_aligned,
};

const flxi_rules flxi_rules_triu = {
    .infer = infer_triangle,
    .eval = eval_triu,
    .pull = pull_triu,
    .vjp = vjp_triangle,
    .batch = batch_triangle,
    .decompose = decompose_triangle,
    .schema = diagonal_schema,
    .attrs_size = sizeof(diagonal_attrs),
    .samples = samples_triangle,
    .link = flxi_link_aligned,
};

/* Length of diagonal k of a matrix; FLX_DIM_INVALID when symbols decide which side ends it. */
static flx_dim diagonal_length(flx_context *ctx, flx_dim rows, flx_dim cols, int64_t k)
{
    if (flxi_dim_is_number(rows) && flxi_dim_is_number(cols) && (k >= cols || k <= -rows))
        return 0; /* outside the matrix; also keeps the differences below from overflowing */
    rows = k < 0 ? flx_dim_add(ctx, rows, k) : rows;
    cols = k > 0 ? flx_dim_sub(ctx, cols, k) : cols;
    if (rows == cols || flxi_dim_below(ctx, rows, cols))
        return rows;
    return flxi_dim_below(ctx, cols, rows) ? cols : FLX_DIM_INVALID;
}

static flx_code infer_diag(flxi_infer *f)
{
    const diagonal_attrs *a = f->attrs;
    const flx_type *x = f->in[0];
    FLXI_TRY(flxi_need_rank(f, 0, 1));
    f->out[0] = *x;
    if (x->rank == 1) {
        flx_dim n = flx_dim_add(f->ctx, x->dims[0], a->k < 0 ? -a->k : a->k);
        f->out[0] = flx_type_make((flx_dtype)x->dtype, 2, (flx_dim[]){n, n});
        return FLX_OK;
    }
    flx_dim n = diagonal_length(f->ctx, x->dims[x->rank - 2], x->dims[x->rank - 1], a->k);
    flxi_type_text t;
    if (n == FLX_DIM_INVALID)
        return flxi_infer_fail(f, FLX_E_UNBOUND_DIM, "specialise the graph first, or use square matrices",
                               "the length of diagonal %lld of shape %s depends on which extent is smaller",
                               (long long)a->k, flxi_shape_str(f->ctx, x, &t));
    f->out[0].rank--;
    f->out[0].dims[x->rank - 2] = n;
    return FLX_OK;
}

static flx_code eval_diag(flxi_eval *e)
{
    int64_t k = ((const diagonal_attrs *)e->attrs)->k;
    bool to_matrix = e->in[0]->type.rank == 1;
    const flx_tensor *vector = to_matrix ? e->in[0] : e->out[0];
    const flx_type *matrix = to_matrix ? &e->out[0]->type : &e->in[0]->type;
    if (vector->count == 0)
        return FLX_OK; /* nothing to move, and the other extents may be too large to multiply */
    int64_t cols = matrix->dims[matrix->rank - 1];
    int64_t plane = matrix->dims[matrix->rank - 2] * cols;
    int64_t n = vector->type.dims[vector->type.rank - 1];
    int64_t first = k < 0 ? -k : 0; /* row where the diagonal begins */
    size_t size = flx_dtype_size(matrix->dtype);
    for (int64_t i = 0; i < vector->count && !flxi_stopped_by_now(); i++) {
        int64_t row = first + i % n;
        int64_t at = i / n * plane + row * cols + row + k;
        flxi_copy_element(e->out[0]->data, to_matrix ? at : i, e->in[0]->data, to_matrix ? i : at, size);
    }
    return FLX_OK;
}

static const flxi_sample samples_diag[] = {
    {"T[3]", NULL, NULL, FLX_OK},
    {"T[2]", "k=1", NULL, FLX_OK},
    {"T[2]", "k=-2", NULL, FLX_OK},
    {"T[0]", "k=2", NULL, FLX_OK},
    {"T[3, 3]", NULL, NULL, FLX_OK},
    {"T[2, 4]", "k=1", NULL, FLX_OK},
    {"T[2, 4]", "k=3", NULL, FLX_OK},
    {"T[4, 2]", "k=-1", NULL, FLX_OK},
    {"T[3, 3]", "k=4611686018427387904", NULL, FLX_OK},
    {"T[3, 3]", "k=-4611686018427387904", NULL, FLX_OK},
    {"T[2, 3, 2]", "k=-1", NULL, FLX_OK},
    {"T[2, 0, 3]", NULL, NULL, FLX_OK},
    {"T[0, 4294967296, 4294967296]", "k=-1", NULL, FLX_OK},
    {"T[N]", "k=1", NULL, FLX_OK},
    {"T[2, N, N]", "k=1", NULL, FLX_OK},
    {"T[N, N+1]", NULL, NULL, FLX_OK},
    {"T[N, 3]", NULL, NULL, FLX_E_UNBOUND_DIM},
    {"T[3]", "k=4611686018427387904", NULL, FLX_E_SIZE},
    {"T[]", NULL, NULL, FLX_E_SHAPE},
    {0},
};

/* The last axis of v as diagonal k of zero matrices of the given extents. */
static flx_val embed_diagonal(flxi_site *s, flx_val v, int64_t k, flx_dim rows, flx_dim cols)
{
    flx_type t = *flxi_typeof(s, v);
    flx_dim low[FLX_MAX_RANK] = {0};
    flx_dim high[FLX_MAX_RANK] = {0};
    int row = t.rank - 1;
    flx_dim n = t.dims[row];
    if (t.rank == FLX_MAX_RANK) {
        flxi_site_fail(s, FLX_E_SIZE, NULL, "diagonal matrices of a tensor of rank %d exceed the rank limit", t.rank);
        return FLX_NONE;
    }
    if (flxi_is_empty(&t)) { /* the diagonal may begin far outside, or the matrices may be too large for a mask */
        t.dims[row] = rows;
        t.dims[t.rank++] = cols;
        return flxi_zeros(s, &t);
    }
    t.dims[t.rank++] = 1;
    flx_val mask = flx_eye(s->g, n, n, FLX_DEFAULT, FLX_BOOL);
    flx_val square = flxi_masked(s, mask, flxi_reshape_like(s, v, &t));
    low[row] = k < 0 ? -k : 0;
    low[row + 1] = k > 0 ? k : 0;
    high[row] = flx_dim_sub(s->ctx, rows, flx_dim_add(s->ctx, n, low[row]));
    high[row + 1] = flx_dim_sub(s->ctx, cols, flx_dim_add(s->ctx, n, low[row + 1]));
    return flxi_pad_zeros(s, square, low, high);
}

/* A vector as a matrix: n + |k| rows and columns. */
static flx_val diagonal_matrix(flxi_site *s, flx_val v)
{
    int64_t k = ((const diagonal_attrs *)s->attrs)->k;
    const flx_type *t = flxi_typeof(s, v);
    flx_dim n = flx_dim_add(s->ctx, t->dims[t->rank - 1], k < 0 ? -k : k);
    return embed_diagonal(s, v, k, n, n);
}

/* Extracting a diagonal and inserting one are each other's transposes. */
static void vjp_diag(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    const flx_type *x = flxi_typeof(s, s->x[0]);
    int64_t k = ((const diagonal_attrs *)s->attrs)->k;
    dx[0] = x->rank == 1 ? flxi_emit1(s, NULL, dy, 1)
                         : embed_diagonal(s, dy[0], k, x->dims[x->rank - 2], x->dims[x->rank - 1]);
}

static void batch_diag(flxi_site *s, flx_val *by)
{
    by[0] = flxi_example_rank(s, 0) == 1 ? diagonal_matrix(s, s->x[0]) : flxi_emit1(s, NULL, s->x, 1);
}

/* Every (n + 1)-th element of the square that contains the diagonal. */
static flx_val take_diagonal(flxi_site *s, flx_val x)
{
    int64_t k = ((const diagonal_attrs *)s->attrs)->k;
    flx_type t = *flxi_typeof(s, x);
    int row = t.rank - 2;
    flx_dim n = diagonal_length(s->ctx, t.dims[row], t.dims[row + 1], k);
    flx_type line = flx_type_make(FLX_I64, 1, &n);
    if (n == 0 || flxi_is_empty(&t)) {
        t.rank--;
        t.dims[row] = n;
        return flxi_zeros(s, &t);
    }
    x = flx_narrow(s->g, x, row, k < 0 ? -k : 0, n);
    x = flx_narrow(s->g, x, row + 1, k > 0 ? k : 0, n);
    t.rank--;
    t.dims[row] = flx_dim_mul(s->ctx, n, n);
    flx_val step = flxi_index_number(s, FLX_I64, flx_dim_add(s->ctx, n, 1));
    flx_val at = flx_mul(s->g, flx_iota(s->g, &line, 0), step);
    return flx_gather(s->g, flxi_reshape_like(s, x, &t), at, row, NULL);
}

static void decompose_diag(flxi_site *s, flx_val *y)
{
    y[0] = flxi_typeof(s, s->x[0])->rank == 1 ? diagonal_matrix(s, s->x[0]) : take_diagonal(s, s->x[0]);
}

static flxi_kval pull_diag(flxi_express *e, uint32_t result, const flxi_kindex *at)
{
    int64_t k = ((const diagonal_attrs *)e->attrs)->k;
    const flx_type *x = e->in[0];
    flxi_kindex in = flxi_at_axes(e, at);
    int64_t down = k < 0 ? -k : 0, right = k > 0 ? k : 0;
    if (flxi_is_empty(x) || flxi_is_empty(e->out[result]))
        return flxi_kzero(e, x->dtype);
    if (x->rank > 1) {
        uint32_t i = in.dim[x->rank - 2];
        in.dim[x->rank - 2] = flxi_ku_add(e, i, flxi_ku(e, down));
        in.dim[x->rank - 1] = flxi_ku_add(e, i, flxi_ku(e, right));
        return flxi_operand_at(e, 0, &in);
    }
    /* Of the row alone, so that all lanes read the same element. */
    uint32_t hit = flxi_khold(e, beside(e, KBIN_eq, in.dim[0], in.dim[1], k));
    uint32_t i = flxi_ku_sub(e, in.dim[0], flxi_ku(e, down));
    flxi_kindex from = {.flat = k ? flxi_ku_guarded(e, flxi_k2(e, KBIN_lt, i, flxi_ku(e, x->dims[0])), i) : i};
    return flxi_khold_value(e, flxi_kchoose(e, hit, flxi_operand_at(e, 0, &from), flxi_kzero(e, x->dtype)));
}

/* The axes before the matrices; a vector has none. */
static bool link_diag(const flxi_use *u, flxi_link *l)
{
    return l->axis < flxi_link_operand(u)->rank - 2 && flxi_link_move(u, l, l->axis);
}

const flxi_rules flxi_rules_diag = {
    .infer = infer_diag,
    .eval = eval_diag,
    .pull = pull_diag,
    .vjp = vjp_diag,
    .batch = batch_diag,
    .decompose = decompose_diag,
    .schema = diagonal_schema,
    .attrs_size = sizeof(diagonal_attrs),
    .samples = samples_diag,
    .link = link_diag,
};
