/* SPDX-License-Identifier: Apache-2.0 */
/* sparse.c: products and systems with a matrix whose pattern is part of the op and whose values are an operand. Only
   the values on the pattern have derivatives. Transposing the matrix is exchanging rows with cols. */
#include "graph/op/work.h"
#include "numeric/linalg/sparse_elimination.h"
#include "ops/linalg/solve/linear_system.h"
#include "ops/rule/decomposed.h"
#include "ops/rule/link.h"

#include <fluxion/run.h>

typedef struct {
    flx_ints rows, cols;
    int64_t n;
} sparse_attrs;

static const flxi_attr sparse_schema[] = {
    A_INTS_REQ(sparse_attrs, rows),
    A_INTS_REQ(sparse_attrs, cols),
    A_INT_REQ(sparse_attrs, n),
    A_END,
};

/* ---- Inference ---- */

static flx_code check_indices(flxi_infer *f, const char *name, flx_ints indices, flx_dim extent)
{
    for (size_t k = 0; k < indices.n; k++)
        if (indices.v[k] < 0 || (flxi_dim_is_number(extent) && indices.v[k] >= extent))
            return flxi_infer_fail(f, FLX_E_ATTRIBUTE, "positions count from 0", "%s[%zu]=%lld is outside the matrix",
                                   name, k, (long long)indices.v[k]);
    return FLX_OK;
}

/* `columns` is the number of columns of the matrix, an extent of x or of the solution. */
static flx_code check_pattern(flxi_infer *f, flx_dim columns)
{
    const sparse_attrs *a = f->attrs;
    const flx_type *v = f->in[0];
    flxi_type_text t;
    if (a->rows.n != a->cols.n)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL,
                               "rows and cols must have the same number of entries: %zu and %zu", a->rows.n, a->cols.n);
    if (a->n < 0)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "n must not be negative: it is %lld", (long long)a->n);
    if (v->rank != 1 || !flxi_dims_may_equal(f, v->dims[0], (flx_dim)a->rows.n))
        return flxi_infer_fail(f, FLX_E_SHAPE, "use vmap for more axes",
                               "v must have one value for each of the %zu positions: it is %s", a->rows.n,
                               flxi_shape_str(f->ctx, v, &t));
    FLXI_TRY(check_indices(f, "rows", a->rows, a->n));
    return check_indices(f, "cols", a->cols, columns);
}

static flx_code check_sides(flxi_infer *f)
{
    const flx_type *x = f->in[1];
    char name[32];
    flxi_type_text t;
    if (x->rank == 1 || x->rank == 2)
        return FLX_OK;
    return flxi_infer_fail(f, FLX_E_SHAPE, "use vmap for more axes", "%s must be a vector or a matrix: it is %s",
                           flxi_operand_name(f, 1, name, sizeof name), flxi_shape_str(f->ctx, x, &t));
}

static flx_code infer_spmv(flxi_infer *f)
{
    const sparse_attrs *a = f->attrs;
    FLXI_TRY(check_sides(f));
    FLXI_TRY(check_pattern(f, f->in[1]->dims[0]));
    f->out[0] = *f->in[1];
    f->out[0].dims[0] = a->n;
    return FLX_OK;
}

static flx_code infer_sparse_solve(flxi_infer *f)
{
    const sparse_attrs *a = f->attrs;
    flxi_type_text t;
    FLXI_TRY(check_sides(f));
    FLXI_TRY(check_pattern(f, a->n));
    if (!flxi_dims_may_equal(f, f->in[1]->dims[0], a->n))
        return flxi_infer_fail(f, FLX_E_SHAPE, NULL, "x must have n = %lld rows: it is %s", (long long)a->n,
                               flxi_shape_str(f->ctx, f->in[1], &t));
    f->out[0] = *f->in[1];
    f->out[0].dims[0] = a->n;
    return FLX_OK;
}

/* ---- Appending ---- */

static flx_val indices(flxi_site *s, flx_ints list)
{
    flx_error err = {0};
    flx_dim count = (flx_dim)list.n;
    flx_type type = flx_type_make(FLX_I64, 1, &count);
    static const int64_t none = 0;
    flx_tensor *t = s->g->error.code ? NULL : flx_tensor_new(s->ctx, &type, list.n ? list.v : &none, &err);
    if (err.code)
        flxi_graph_fail(s->g, &err);
    flx_val c = t ? flx_const(s->g, &type, t) : FLX_NONE;
    flx_tensor_release(t);
    return c;
}

/* v shaped to multiply the rows of x. */
static flx_val beside_rows(flxi_site *s, flx_val v, flx_val x)
{
    int64_t axis = 1;
    return flxi_typeof(s, x)->rank > 1 ? flx_unsqueeze(s->g, v, (flx_ints){&axis, 1}) : v;
}

static flx_val rows_at(flxi_site *s, flx_val x, flx_ints list)
{
    return flx_gather(s->g, x, indices(s, list), 0, NULL);
}

static flx_val product(flxi_site *s, flx_val v, flx_val x)
{
    const sparse_attrs *a = s->attrs;
    flx_val terms = flx_mul(s->g, beside_rows(s, v, x), rows_at(s, x, a->cols));
    return flx_scatter_add(s->g, terms, indices(s, a->rows), a->n, NULL);
}

/* ---- spmv ---- */

static void decompose_spmv(flxi_site *s, flx_val *y)
{
    y[0] = product(s, s->x[0], s->x[1]);
}

static const flxi_sample samples_spmv[] = {
    {"T[4], T[3]", "rows=[0, 1, 1, 2], cols=[0, 0, 2, 1], n=3", NULL, FLX_OK},
    {"T[3], T[2, 2]", "rows=[3, 0, 0], cols=[0, 1, 1], n=4", NULL, FLX_OK},
    {"T[0], T[2]", "rows=[], cols=[], n=2", NULL, FLX_OK},
    {"T[2], T[N]", "rows=[0, 1], cols=[2, 0], n=2", NULL, FLX_OK},
    {"T[2], T[2]", "rows=[0, 2], cols=[0, 1], n=2", NULL, FLX_E_ATTRIBUTE},
    {"T[2], T[2]", "rows=[0, 1], cols=[0, -1], n=2", NULL, FLX_E_ATTRIBUTE},
    {"T[2], T[2]", "rows=[0, 1], cols=[0], n=2", NULL, FLX_E_ATTRIBUTE},
    {"T[3], T[2]", "rows=[0, 1], cols=[0, 1], n=2", NULL, FLX_E_SHAPE},
    {"T[2], T[]", "rows=[0, 1], cols=[0, 1], n=2", NULL, FLX_E_SHAPE},
    {0},
};

const flxi_rules flxi_rules_spmv = {
    .infer = infer_spmv,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_spmv,
    .schema = sparse_schema,
    .attrs_size = sizeof(sparse_attrs),
    .samples = samples_spmv,
};

/* ---- sparse_solve ---- */

static flx_code solve_pattern(flxi_eval *e, flxi_arena *scratch)
{
    const sparse_attrs *p = e->attrs;
    const flx_tensor *v = e->in[0];
    const flx_tensor *b = e->in[1];
    double _Complex *values = flxi_new(scratch, double _Complex, v->count);
    int64_t sides = b->type.rank > 1 ? b->type.dims[1] : 1;
    flxi_sparse_system s = {.n = p->n, .sides = sides, .count = p->rows.n, .rows = p->rows.v, .cols = p->cols.v};
    s.b = flxi_new(scratch, double _Complex, b->count);
    s.values = values;
    if (!values || !s.b)
        return flxi_oom(e->err, "solving");
    for (int64_t i = 0; i < v->count; i++)
        values[i] = flxi_load_complex(v->type.dtype, v->data, i);
    for (int64_t i = 0; i < b->count; i++)
        s.b[i] = flxi_load_complex(b->type.dtype, b->data, i);
    FLXI_TRY(flxi_eliminate(&s, e->mem, e->err));
    for (int64_t i = 0; i < b->count; i++)
        flxi_store_complex(b->type.dtype, e->out[0]->data, i, s.b[i]);
    if (!s.regular)
        e->report(e, FLX_RUN_SINGULAR);
    return FLX_OK;
}

static flx_code eval_sparse_solve(flxi_eval *e)
{
    return e->out[0]->count ? flxi_eval_with_scratch(e, solve_pattern) : FLX_OK;
}

/* The same with the adjoint of the matrix. */
static flx_val solve_adjoint(flxi_site *s, flx_val g)
{
    sparse_attrs *a = flxi_site_attrs(s);
    if (!a)
        return FLX_NONE;
    flx_ints rows = a->rows;
    a->rows = a->cols;
    a->cols = rows;
    return flxi_emit1(s, a, (flx_val[]){flxi_conj(s, s->x[0]), g}, 2);
}

/* d_b = a^-H g, d_v[k] = -d_b[rows[k]] conj(x[cols[k]]) */
static void vjp_sparse_solve(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    const sparse_attrs *a = s->attrs;
    flx_val back = s->bodies->restore_zeros(s, solve_adjoint(s, dy[0]));
    int64_t last = 1;
    if (s->wanted[1])
        dx[1] = flxi_reshape_like(s, back, flxi_typeof(s, s->x[1]));
    if (!s->wanted[0])
        return;
    flx_val x = s->bodies->restore_zeros(s, s->y[0]);
    flx_val pairs = flx_mul(s->g, rows_at(s, back, a->rows), flxi_conj(s, rows_at(s, x, a->cols)));
    if (flxi_typeof(s, pairs)->rank > 1)
        pairs = flx_reduce_sum(s->g, pairs, (flx_ints){&last, 1}, 0);
    dx[0] = flxi_reshape_like(s, flx_neg(s->g, pairs), flxi_typeof(s, s->x[0]));
}

static void jvp_sparse_solve(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    flx_val moved = flxi_is_none(tx[1]) ? tx[1] : flxi_reshape_like(s, tx[1], flxi_typeof(s, s->y[0]));
    if (!flxi_is_none(tx[0]))
        moved = flxi_sum(s, moved, flx_neg(s->g, product(s, tx[0], s->y[0])));
    ty[0] = flxi_emit1(s, NULL, (flx_val[]){s->x[0], moved}, 2);
}

/* Examples that share the values are more right-hand sides; others are solved in a loop. */
static void batch_sparse_solve(flxi_site *s, flx_val *by)
{
    if (!s->batched[0])
        flxi_batch_sides(s, true, flxi_example_rank(s, 1) == 1, by);
}

static const flxi_sample samples_sparse_solve[] = {
    {"T[5]{1..2}, T[3]", "rows=[0, 1, 2, 0, 2], cols=[0, 1, 2, 2, 1], n=3", NULL, FLX_OK},
    {"T[3]{1..2}, T[2, 2]", "rows=[1, 0, 0], cols=[0, 1, 0], n=2", NULL, FLX_OK},
    {"T[3]{1..2}, T[2]", "rows=[0, 1, 1], cols=[0, 1, 1], n=2", NULL, FLX_OK},
    {"T[2]{1..2}, T[2, 0]", "rows=[0, 1], cols=[0, 1], n=2", NULL, FLX_OK},
    {"T[0], T[0]", "rows=[], cols=[], n=0", NULL, FLX_OK},
    {"T[2]{1..2}, T[2, N]", "rows=[0, 1], cols=[0, 1], n=2", NULL, FLX_OK},
    {"T[3]{1..2}, T[N]", "rows=[0, 1, 2], cols=[1, 0, 2], n=3", NULL, FLX_OK},
    {"T[2], T[3]", "rows=[0, 1], cols=[0, 1], n=2", NULL, FLX_E_SHAPE},
    {"T[2], T[2]", "rows=[0, 1], cols=[0, 2], n=2", NULL, FLX_E_ATTRIBUTE},
    {"T[2], T[2]", "rows=[0, 1], cols=[0, 1], n=-1", NULL, FLX_E_ATTRIBUTE},
    {0},
};

/* At least a pair for each element of the pattern and right-hand side; what elimination fills in comes on top. */
static void work_sparse_solve(const flx_graph *g, const flxi_node *n, flxi_work *w)
{
    const flx_type *y = flxi_type_at(g, n->first);
    w->flops = flxi_work_pairs(y, flxi_work_count(flxi_type_at(g, n->in[0])));
}

const flxi_rules flxi_rules_sparse_solve = {
    .infer = infer_sparse_solve,
    .eval = eval_sparse_solve,
    .vjp = vjp_sparse_solve,
    .jvp = jvp_sparse_solve,
    .batch = batch_sparse_solve,
    .schema = sparse_schema,
    .attrs_size = sizeof(sparse_attrs),
    .samples = samples_sparse_solve,
    .work = work_sparse_solve,
    .link = flxi_link_dense,
};
