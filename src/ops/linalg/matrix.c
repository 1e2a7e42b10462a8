/* SPDX-License-Identifier: Apache-2.0 */
/* matrix.c: trace, kron, matrix_power, diag_extract and diag_set. Each means its decomposition. */
#include "ops/linalg/matrix_rules.h"
#include "ops/rule/axis/axis_lists.h"
#include "ops/rule/decomposed.h"

/* ---- diag_extract, trace ---- */

static flx_code infer_diagonals(flxi_infer *f)
{
    const flx_type *x = f->in[0];
    flx_dim n;
    FLXI_TRY(flxi_need_rank(f, 0, 2));
    FLXI_TRY(flxi_smaller_dim(f, x, &n));
    f->out[0] = *x;
    f->out[0].rank--;
    f->out[0].dims[x->rank - 2] = n;
    return FLX_OK;
}

static flx_code infer_trace(flxi_infer *f)
{
    FLXI_TRY(infer_diagonals(f));
    f->out[0].rank--;
    return FLX_OK;
}

static void decompose_diag_extract(flxi_site *s, flx_val *y)
{
    y[0] = flx_diag(s->g, s->x[0], 0);
}

static void decompose_trace(flxi_site *s, flx_val *y)
{
    flx_val diagonal = flx_diag(s->g, s->x[0], 0);
    int64_t last = flxi_typeof(s, diagonal)->rank - 1;
    y[0] = flx_reduce_sum(s->g, diagonal, (flx_ints){&last, 1}, 0);
}

static const flxi_sample samples_diagonals[] = {
    {"T[3, 3]", NULL, NULL, FLX_OK},
    {"T[2, 3]", NULL, NULL, FLX_OK},
    {"T[2, 3, 2]", NULL, NULL, FLX_OK},
    {"T[0, 0]", NULL, NULL, FLX_OK},
    {"T[2, 3, 0]", NULL, NULL, FLX_OK},
    {"T[B, N, N]", NULL, NULL, FLX_OK},
    {"T[N, N+1]", NULL, NULL, FLX_OK},
    {"T[N, 3]", NULL, NULL, FLX_E_UNBOUND_DIM},
    {"T[3]", NULL, NULL, FLX_E_SHAPE},
    {"T[]", NULL, NULL, FLX_E_SHAPE},
    {0},
};

const flxi_rules flxi_rules_diag_extract = {
    .infer = infer_diagonals,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_diag_extract,
    .samples = samples_diagonals,
};

const flxi_rules flxi_rules_trace = {
    .infer = infer_trace,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_trace,
    .samples = samples_diagonals,
};

/* ---- diag_set ---- */

static flx_code infer_diag_set(flxi_infer *f)
{
    const flx_type *x = f->in[0];
    FLXI_TRY(flxi_need_rank(f, 0, 1));
    if (x->rank == FLX_MAX_RANK)
        return flxi_infer_fail(f, FLX_E_SIZE, NULL, "diagonal matrices of a tensor of rank %d exceed the rank limit",
                               x->rank);
    f->out[0] = *x;
    f->out[0].dims[f->out[0].rank++] = x->dims[x->rank - 1];
    return FLX_OK;
}

static void decompose_diag_set(flxi_site *s, flx_val *y)
{
    const flx_type *x = flxi_typeof(s, s->x[0]);
    int64_t last = x->rank;
    flx_dim n = x->dims[x->rank ? x->rank - 1 : 0];
    flx_val rows = flx_unsqueeze(s->g, s->x[0], (flx_ints){&last, 1});
    y[0] = flxi_masked(s, flx_eye(s->g, n, n, 0, FLX_BOOL), rows);
}

static const flxi_sample samples_diag_set[] = {
    {"T[3]", NULL, NULL, FLX_OK},
    {"T[2, 3]", NULL, NULL, FLX_OK},
    {"T[0]", NULL, NULL, FLX_OK},
    {"T[2, 0]", NULL, NULL, FLX_OK},
    {"T[B, N]", NULL, NULL, FLX_OK},
    {"T[]", NULL, NULL, FLX_E_SHAPE},
    {"T[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]", NULL, NULL, FLX_E_SIZE},
    {0},
};

const flxi_rules flxi_rules_diag_set = {
    .infer = infer_diag_set,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_diag_set,
    .samples = samples_diag_set,
};

/* ---- kron ---- */

/* How many axes are multiplied: 1 for vectors, 2 for matrices. */
static int kron_axes(const flx_type *a, const flx_type *b)
{
    return a->rank == 1 && b->rank == 1 ? 1 : 2;
}

static flx_code infer_kron(flxi_infer *f)
{
    const flx_type *a = f->in[0];
    const flx_type *b = f->in[1];
    flxi_type_text ta, tb;
    int own = kron_axes(a, b);
    if (a->rank < own || b->rank < own)
        return flxi_infer_fail(f, FLX_E_SHAPE, "make a vector a row, [1, n], or a column, [n, 1]",
                               "both must be matrices or both vectors: a is %s, b is %s",
                               flxi_shape_str(f->ctx, a, &ta), flxi_shape_str(f->ctx, b, &tb));
    if (own == 2 && (a->rank > FLX_MAX_RANK - 2 || b->rank > FLX_MAX_RANK - 2))
        return flxi_infer_fail(f, FLX_E_SIZE, NULL, "the product of tensors of rank %d exceeds the rank limit",
                               a->rank > b->rank ? a->rank : b->rank);
    flx_type lead_a = {.dtype = a->dtype};
    flx_type lead_b = {.dtype = b->dtype};
    flx_type y = {.dtype = a->dtype};
    flxi_append_dims(&lead_a, a, 0, a->rank - own);
    flxi_append_dims(&lead_b, b, 0, b->rank - own);
    FLXI_TRY(flxi_broadcast(f, (const flx_type *const[]){&lead_a, &lead_b}, 2, &y));
    for (int k = own; k > 0; k--)
        y.dims[y.rank++] = flx_dim_mul(f->ctx, a->dims[a->rank - k], b->dims[b->rank - k]);
    f->out[0] = y;
    return FLX_OK;
}

/* v with an axis of extent 1 after (before) each of its last `own`. */
static flx_val spread(flxi_site *s, flx_val v, int own, bool behind)
{
    const flx_type *t = flxi_typeof(s, v);
    flx_type y = {.dtype = t->dtype};
    flxi_append_dims(&y, t, 0, t->rank - own);
    for (int k = t->rank - own; k >= 0 && k < t->rank; k++) {
        y.dims[y.rank++] = behind ? t->dims[k] : 1;
        y.dims[y.rank++] = behind ? 1 : t->dims[k];
    }
    return flxi_reshape_like(s, v, &y);
}

static void decompose_kron(flxi_site *s, flx_val *y)
{
    int own = kron_axes(flxi_typeof(s, s->x[0]), flxi_typeof(s, s->x[1]));
    flx_val pairs = flx_mul(s->g, spread(s, s->x[0], own, true), spread(s, s->x[1], own, false));
    const flx_type *t = flxi_typeof(s, pairs);
    flx_type out = {.dtype = t->dtype};
    int lead = t->rank - 2 * own;
    if (lead < 0)
        return; /* the graph has an error */
    flxi_append_dims(&out, t, 0, lead);
    for (int k = lead; k < t->rank; k += 2)
        out.dims[out.rank++] = flx_dim_mul(s->ctx, t->dims[k], t->dims[k + 1]);
    y[0] = flxi_reshape_like(s, pairs, &out);
}

static const flxi_sample samples_kron[] = {
    {"T[2, 3], T[3, 1]", NULL, NULL, FLX_OK},
    {"T[2], T[3]", NULL, NULL, FLX_OK},
    {"T[2, 1, 2], T[2, 2, 1]", NULL, NULL, FLX_OK},
    {"T[2, 2], T[2, 1, 2]", NULL, NULL, FLX_OK},
    {"T[0, 2], T[2, 2]", NULL, NULL, FLX_OK},
    {"T[N, M], T[2, N]", NULL, NULL, FLX_OK},
    {"T[2], T[2, 2]", NULL, NULL, FLX_E_SHAPE},
    {"T[], T[]", NULL, NULL, FLX_E_SHAPE},
    {"T[2, 1, 1], T[3, 1, 1]", NULL, NULL, FLX_E_SHAPE},
    {0},
};

const flxi_rules flxi_rules_kron = {
    .infer = infer_kron,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_kron,
    .samples = samples_kron,
};

/* ---- matrix_power ---- */

typedef struct {
    int64_t n;
} power_attrs;

static const flxi_attr power_schema[] = {A_INT_REQ(power_attrs, n), A_END};

/* By squaring: one product for each bit of n and one for each that is set. */
static void decompose_matrix_power(flxi_site *s, flx_val *y)
{
    int64_t n = ((const power_attrs *)s->attrs)->n;
    uint64_t left = n < 0 ? 0 - (uint64_t)n : (uint64_t)n;
    flx_val base = flxi_as_square(s, s->x[0]);
    flx_val made = FLX_NONE;
    if (n < 0)
        base = flx_inv(s->g, base);
    for (; left; left >>= 1) {
        if (left & 1)
            made = flxi_is_none(made) ? base : flx_matmul(s->g, made, base);
        if (left > 1)
            base = flx_matmul(s->g, base, base);
    }
    if (n == 0)
        made = flxi_expand_like(s, flxi_identity_like(s, base), flxi_typeof(s, base));
    y[0] = flxi_spelled_like(s, made, s->x[0], 2);
}

static const flxi_sample samples_matrix_power[] = {
    {"T[3, 3]{-1..1}", "n=3", NULL, FLX_OK},  {"T[2, 2]{-1..1}", "n=1", NULL, FLX_OK},
    {"T[2, 2]", "n=0", NULL, FLX_OK},         {"T[2, 2, 2]{-1..1+3I}", "n=-2", NULL, FLX_OK},
    {"T[0, 0]", "n=2", NULL, FLX_OK},         {"T[B, N, N]{-1..1}", "n=2", NULL, FLX_OK},
    {"T[N, 3]{-1..1}", "n=2", NULL, FLX_OK},  {"T[2, 3]", "n=2", NULL, FLX_E_SHAPE},
    {"T[2, 2]", NULL, NULL, FLX_E_ATTRIBUTE}, {0},
};

const flxi_rules flxi_rules_matrix_power = {
    .infer = flxi_infer_square,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_matrix_power,
    .schema = power_schema,
    .attrs_size = sizeof(power_attrs),
    .samples = samples_matrix_power,
};
