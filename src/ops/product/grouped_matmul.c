/* SPDX-License-Identifier: Apache-2.0 */
/* grouped_matmul.c: each row is multiplied by a matrix that an index selects, as tokens by experts.

   With T(x, w, z) = Σ_i z_i · (x_i w[e_i]), over the rows i whose index is in range, grouped_matmul is ∂T/∂z,
   grouped_matmul_input_backward is ∂T/∂x and grouped_matmul_weight_backward is ∂T/∂w, so the three are closed under
   differentiation, like those of a convolution. None copies a matrix for each row, or transposes one: the cotangent of
   the weights is a sum over the rows of each group. A row that `oob` drops takes no part in T. */
#include "base/host/stop.h"
#include "graph/op/work.h"
#include "ops/rule/axis/axis_letters.h"
#include "ops/rule/axis/extent.h"
#include "ops/rule/link.h"
#include "ops/rule/oob.h"
#include "ops/rule/rule_lists.h"
#include "ops/rule/wide.h"

/* ---- grouped_matmul ---- */

typedef struct {
    int64_t oob;
} grouped_attrs;

static const flxi_attr grouped_schema[] = {A_WORD(grouped_attrs, oob, FLXI_OOB_WORDS), A_END};

static flx_code infer_rows(flxi_infer *f, const char *const *axes, const char *result)
{
    flxi_letters dims;
    FLXI_TRY(flxi_match_letters(f, axes, &dims));
    f->out[0] = flxi_lettered(f->in[0]->dtype, result, &dims);
    return FLX_OK;
}

static flx_code infer_grouped(flxi_infer *f)
{
    return infer_rows(f, (const char *const[]){"MK", "EKN", "M"}, "MN");
}

/* Multiplies each row by its matrix, or by its transpose. */
static flx_code multiply_rows(flxi_eval *e, bool is_transposed)
{
    const grouped_attrs *a = e->attrs;
    const flxi_arith *ar = flxi_arith_of(e->out[0]->type.dtype);
    const flx_dim *w = e->in[1]->type.dims;
    int64_t depth = is_transposed ? w[2] : w[1];
    int64_t columns = is_transposed ? w[1] : w[2];
    int64_t along_depth = is_transposed ? 1 : w[2];
    int64_t along_columns = is_transposed ? w[2] : 1;
    for (int64_t i = 0; i < e->in[2]->count && !flxi_stopped(); i++) {
        int64_t at;
        FLXI_TRY(flxi_resolve_index(e, e->in[2], i, w[0], (flxi_oob)a->oob, &at));
        for (int64_t j = 0; at >= 0 && j < columns && !flxi_stopped_by_now(); j++) {
            int64_t from = at * w[1] * w[2] + j * along_columns;
            flxi_num sum = ar->zero;
            for (int64_t k = 0; k < depth; k++)
                sum = ar->accumulate(sum, ar->mul(ar->load(e->in[0]->data, i * depth + k),
                                                  ar->load(e->in[1]->data, from + k * along_depth)));
            ar->store(e->out[0]->data, i * columns + j, sum);
        }
    }
    return FLX_OK;
}

static flx_code eval_grouped(flxi_eval *e)
{
    return multiply_rows(e, false);
}

static const flxi_sample samples_grouped[] = {
    {"T[4, 3], T[2, 3, 2], i32[4]{0..1}", NULL, NULL, FLX_OK},
    {"T[5, 2], T[3, 2, 4], i64[5]{-2..4}", "oob=zero", NULL, FLX_OK},
    {"T[4, 2], T[3, 2, 1], i16[4]{-2..4}", "oob=clamp", NULL, FLX_OK},
    {"T[3, 2], T[4, 2, 2], f32[3]{1..1}", NULL, NULL, FLX_OK},
    {"T[0, 3], T[2, 3, 2], i32[0]", NULL, NULL, FLX_OK},
    {"T[3, 0], T[2, 0, 2], i32[3]{0..1}", NULL, NULL, FLX_OK},
    {"T[2, 3], T[0, 3, 2], i32[2]{0..1}", "oob=zero", NULL, FLX_OK},
    {"T[N, 3], T[2, 3, 2], u8[N]{0..1}", NULL, NULL, FLX_OK},
    {"T[2, 2], T[N, 2, 2], i32[2]{0..0}", "oob=zero", NULL, FLX_OK},
    {"T[N, K], T[2, 3, 2], i32[3]{0..1}", NULL, NULL, FLX_OK},
    {"T[4], T[2, 4, 2], i32[4]", NULL, NULL, FLX_E_SHAPE},
    {"T[4, 3], T[3, 2], i32[4]", NULL, NULL, FLX_E_SHAPE},
    {"T[4, 3], T[2, 3, 2], i32[]", NULL, NULL, FLX_E_SHAPE},
    {"T[4, 3], T[2, 4, 2], i32[4]", NULL, NULL, FLX_E_SHAPE},
    {"T[4, 3], T[2, 3, 2], i32[3]", NULL, NULL, FLX_E_SHAPE},
    {"T[4, 3], T[2, 3, 2], bool[4]", NULL, NULL, FLX_E_DTYPE},
    {"T[4, 3], T[2, 3, 2], i32[4]", "oob=wrap", NULL, FLX_E_ATTRIBUTE},
    {0},
};

/* One of the two ops whose results are rows. */
static flx_val append_rows(flxi_site *s, const char *op, flx_val x, flx_val w, flx_val e, int64_t oob)
{
    flx_attr attrs[] = {flx_attr_word("oob", flxi_oob_word(oob))};
    return flx_op1(s->g, op, (flx_val[]){x, w, e}, 3, attrs, 1);
}

static const char forward[] = "grouped_matmul";
static const char backward[] = "grouped_matmul_input_backward";

/* Σ x_i ⊗ g_i over the rows of each group. */
static flx_val append_weight(flxi_site *s, flx_val x, flx_val g, flx_val e, flx_dim groups, int64_t oob)
{
    flx_attr attrs[] = {flx_attr_int("E", groups), flx_attr_word("oob", flxi_oob_word(oob))};
    return flx_op1(s->g, "grouped_matmul_weight_backward", (flx_val[]){x, g, e}, 3, attrs, 2);
}

/* For the rows: u multiplied as `back` says; for the weights: the sum over rows and cotangents, left factor first. */
static void vjp_rows(flxi_site *s, flx_val u, const char *back, flx_val *dx)
{
    const grouped_attrs *a = s->attrs;
    const flx_type *w = flxi_typeof(s, s->x[1]);
    flx_val rows = flxi_conj(s, s->x[0]);
    bool is_forward = back == backward;
    if (s->wanted[0]) {
        flx_val d = append_rows(s, back, u, flxi_conj(s, s->x[1]), s->x[2], a->oob);
        dx[0] = flxi_reshape_like(s, d, flxi_typeof(s, s->x[0]));
    }
    if (s->wanted[1]) {
        flx_val sums = append_weight(s, is_forward ? rows : u, is_forward ? u : rows, s->x[2], w->dims[0], a->oob);
        dx[1] = flxi_reshape_like(s, sums, w);
    }
}

static void vjp_grouped(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    vjp_rows(s, dy[0], backward, dx);
}

/* ---- Batching: the rows of all examples stacked ---- */

/* [B, M, ..] as [B M, ..]; a value without a batch axis is repeated for every example. */
static flx_val stacked(flxi_site *s, uint32_t i)
{
    flx_val v = flxi_lift(s, i);
    flx_type t = *flxi_typeof(s, v);
    for (int k = 1; k < t.rank; k++)
        t.dims[k - 1] = k == 1 ? flx_dim_mul(s->ctx, t.dims[0], t.dims[1]) : t.dims[k];
    return flxi_reshape_to(s, v, t.rank > 0 ? t.rank - 1 : 0, t.dims);
}

/* The indices when each of the B examples has `groups` matrices of its own, one set after the other: e of example b is
   b·groups + e. They are first read through an iota, which applies `oob` to the index alone: an index out of range must
   not reach the matrices of a neighbour. A dropped index becomes -1, to be dropped again. */
static flx_val offset_indices(flxi_site *s, flx_dim groups, int64_t oob)
{
    flx_graph *g = s->g;
    flx_type line = flx_type_make(FLX_I64, 1, &groups);
    flx_type column = flx_type_make(FLX_I64, 2, (flx_dim[]){s->size, 1});
    flx_val one = flx_scalar(g, FLX_I64, 1.0);
    flx_val read = flx_gather(g, flx_add(g, flx_iota(g, &line, 0), one), s->x[2], 0, flxi_oob_word(oob));
    flx_val first = flx_mul(g, flx_iota(g, &column, 0), flxi_index_number(s, FLX_I64, groups));
    flx_val at = flx_add(g, first, flx_sub(g, read, one));
    at = flx_where(g, flx_eq(g, read, flx_scalar(g, FLX_I64, 0.0)), flx_scalar(g, FLX_I64, -1.0), at);
    flx_dim rows = flx_dim_mul(s->ctx, s->size, flxi_typeof(s, at)->dims[1]);
    return flxi_reshape_to(s, at, 1, &rows);
}

/* Axis 0 as [B, n]. */
static flx_val unstacked(flxi_site *s, flx_val v, flx_dim n)
{
    flx_type t = *flxi_typeof(s, v);
    flx_dim dims[4] = {s->size, n};
    for (int k = 1; k < t.rank && k < 3; k++)
        dims[k + 1] = t.dims[k];
    return flxi_reshape_to(s, v, t.rank + 1, dims);
}

static flx_dim example_rows(const flxi_site *s, uint32_t i)
{
    return flxi_typeof(s, s->x[i])->dims[s->batched[i] ? 1 : 0];
}

static void batch_rows(flxi_site *s, const char *op, flx_val *by)
{
    const grouped_attrs *a = s->attrs;
    flx_dim rows = flxi_agreed_dim(example_rows(s, 0), example_rows(s, 2));
    bool is_shared = !s->batched[1];
    flx_val e = is_shared ? stacked(s, 2) : offset_indices(s, example_rows(s, 1), a->oob);
    flx_val w = is_shared ? s->x[1] : stacked(s, 1);
    by[0] = unstacked(s, append_rows(s, op, stacked(s, 0), w, e, is_shared ? a->oob : OOB_ZERO), rows);
}

static void batch_grouped(flxi_site *s, flx_val *by)
{
    batch_rows(s, forward, by);
}

/* Each row meets one matrix, wherever the weights are. */
static void work_rows(const flx_type *rows, const flx_type *weights, const flx_type *y, flxi_work *w)
{
    int64_t matrix = flxi_times(flxi_work_extent(weights->dims[1]), flxi_work_extent(weights->dims[2]));
    w->flops = flxi_work_pairs(y, flxi_times(flxi_work_extent(rows->dims[0]), matrix));
}

static void work_grouped(const flx_graph *g, const flxi_node *n, flxi_work *w)
{
    work_rows(flxi_type_at(g, n->in[0]), flxi_type_at(g, n->in[1]), flxi_type_at(g, n->first), w);
}

static void work_weight(const flx_graph *g, const flxi_node *n, flxi_work *w)
{
    work_rows(flxi_type_at(g, n->in[0]), flxi_type_at(g, n->first), flxi_type_at(g, n->first), w);
}

/* A row of the result comes from one row, and a column from one column of the matrices. Extents that are the same may
   be written differently: by blocks, then. */
static bool link_rows(const flxi_use *u, flxi_link *l, int column)
{
    if (u->operand == 1)
        return l->axis == column && flxi_link_move(u, l, 1);
    return l->axis == 0 && (flxi_link_move(u, l, 0) || flxi_link_move_blocks(u, l, 0));
}

static bool link_grouped(const flxi_use *u, flxi_link *l)
{
    return link_rows(u, l, 2);
}

static bool link_input(const flxi_use *u, flxi_link *l)
{
    return link_rows(u, l, 1);
}

/* The columns of both factors are axes of every matrix; which rows belong to a matrix is in the data. */
static bool link_weight(const flxi_use *u, flxi_link *l)
{
    return u->operand < 2 && l->axis == 1 && flxi_link_move(u, l, u->operand == 0 ? 1 : 2);
}

const flxi_rules flxi_rules_grouped_matmul = {
    .infer = infer_grouped,
    .eval = eval_grouped,
    .vjp = vjp_grouped,
    .batch = batch_grouped,
    .schema = grouped_schema,
    .attrs_size = sizeof(grouped_attrs),
    .samples = samples_grouped,
    .work = work_grouped,
    .link = link_grouped,
};

/* ---- grouped_matmul_input_backward ---- */

static flx_code infer_input(flxi_infer *f)
{
    return infer_rows(f, (const char *const[]){"MN", "EKN", "M"}, "MK");
}

static flx_code eval_input(flxi_eval *e)
{
    return multiply_rows(e, true);
}

static void vjp_input(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    vjp_rows(s, dy[0], forward, dx);
}

static void batch_input(flxi_site *s, flx_val *by)
{
    batch_rows(s, backward, by);
}

static const flxi_sample samples_input[] = {
    {"T[4, 2], T[2, 3, 2], i32[4]{0..1}", NULL, NULL, FLX_OK},
    {"T[3, 4], T[3, 2, 4], i64[3]{-2..4}", "oob=zero", NULL, FLX_OK},
    {"T[3, 1], T[3, 2, 1], i16[3]{-2..4}", "oob=clamp", NULL, FLX_OK},
    {"T[0, 2], T[2, 3, 2], i32[0]", NULL, NULL, FLX_OK},
    {"T[2, 0], T[2, 3, 0], i32[2]{0..1}", NULL, NULL, FLX_OK},
    {"T[N, 2], T[2, 1, 2], i32[N]{0..1}", NULL, NULL, FLX_OK},
    {"T[N, K], T[2, 2, 3], i32[3]{0..1}", NULL, NULL, FLX_OK},
    {"T[4, 3], T[2, 3, 2], i32[4]", NULL, NULL, FLX_E_SHAPE},
    {"T[4, 2], T[3, 2], i32[4]", NULL, NULL, FLX_E_SHAPE},
    {"T[4, 2], T[2, 3, 2], i32[3]", NULL, NULL, FLX_E_SHAPE},
    {0},
};

const flxi_rules flxi_rules_grouped_matmul_input_backward = {
    .infer = infer_input,
    .eval = eval_input,
    .vjp = vjp_input,
    .batch = batch_input,
    .schema = grouped_schema,
    .attrs_size = sizeof(grouped_attrs),
    .samples = samples_input,
    .work = work_grouped,
    .link = link_input,
};

/* ---- grouped_matmul_weight_backward ---- */

typedef struct {
    flx_dim E;
    int64_t oob;
} weight_attrs;

static const flxi_attr weight_schema[] = {
    A_DIM_REQ(weight_attrs, E),
    A_WORD(weight_attrs, oob, FLXI_OOB_WORDS),
    A_END,
};

static flx_code infer_weight(flxi_infer *f)
{
    const weight_attrs *a = f->attrs;
    flxi_letters dims;
    FLXI_TRY(flxi_match_letters(f, (const char *const[]){"MK", "MN", "M"}, &dims));
    FLXI_TRY(flxi_need_count(f, "E", a->E));
    dims.of['E'] = a->E;
    f->out[0] = flxi_lettered(f->in[0]->dtype, "EKN", &dims);
    return FLX_OK;
}

static flx_code add_products(flxi_eval *e, const flxi_arith *ar, flxi_num *sum)
{
    const weight_attrs *a = e->attrs;
    const flx_dim *w = e->out[0]->type.dims;
    int64_t depth = w[1];
    int64_t columns = w[2];
    for (int64_t i = 0; i < e->in[2]->count && !flxi_stopped(); i++) {
        int64_t at;
        FLXI_TRY(flxi_resolve_index(e, e->in[2], i, w[0], (flxi_oob)a->oob, &at));
        for (int64_t k = 0; at >= 0 && k < depth && !flxi_stopped_by_now(); k++) {
            flxi_num x = ar->load(e->in[0]->data, i * depth + k);
            flxi_num *row = sum + (at * depth + k) * columns;
            for (int64_t j = 0; j < columns; j++)
                row[j] = ar->accumulate(row[j], ar->mul(x, ar->load(e->in[1]->data, i * columns + j)));
        }
    }
    return FLX_OK;
}

static flx_code eval_weight(flxi_eval *e)
{
    const flxi_arith *ar = flxi_arith_of(e->out[0]->type.dtype);
    flxi_num *sum = flxi_wide_begin(e, ar->zero);
    return sum ? flxi_wide_end(e, sum, add_products(e, ar, sum)) : FLX_E_OOM;
}

static const flxi_sample samples_weight[] = {
    {"T[4, 3], T[4, 2], i32[4]{0..1}", "E=2", NULL, FLX_OK},
    {"T[5, 2], T[5, 3], i64[5]{-2..4}", "E=3, oob=zero", NULL, FLX_OK},
    {"T[4, 2], T[4, 1], i16[4]{-2..4}", "E=3, oob=clamp", NULL, FLX_OK},
    {"T[0, 3], T[0, 2], i32[0]", "E=2", NULL, FLX_OK},
    {"T[3, 0], T[3, 2], i32[3]{0..1}", "E=2", NULL, FLX_OK},
    {"T[2, 3], T[2, 2], i32[2]{0..1}", "E=0, oob=zero", NULL, FLX_OK},
    {"T[N, 3], T[N, 2], u8[N]{0..1}", "E=2", NULL, FLX_OK},
    {"T[2, 2], T[2, 2], i32[2]{0..0}", "E=N", NULL, FLX_OK},
    {"T[N, 2], T[3, 2], i32[3]{0..1}", "E=2", NULL, FLX_OK},
    {"T[4, 3], T[3, 2], i32[4]", "E=2", NULL, FLX_E_SHAPE},
    {"T[4, 3], T[4, 2], i32[3]", "E=2", NULL, FLX_E_SHAPE},
    {"T[4], T[4, 2], i32[4]", "E=2", NULL, FLX_E_SHAPE},
    {"T[4, 3], T[4, 2], i32[4]", "E=-1", NULL, FLX_E_ATTRIBUTE},
    {"T[4, 3], T[4, 2], i32[4]", NULL, NULL, FLX_E_ATTRIBUTE},
    {0},
};

/* With the cotangent u of the sums: d_x_i = u[e_i] g_i^H and d_g_i = x_i^H u[e_i]. */
static void vjp_weight(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    const weight_attrs *a = s->attrs;
    for (uint32_t i = 0; i < 2; i++) {
        if (!s->wanted[i])
            continue;
        flx_val d = append_rows(s, i == 0 ? backward : forward, flxi_conj(s, s->x[1 - i]), dy[0], s->x[2], a->oob);
        dx[i] = flxi_reshape_like(s, d, flxi_typeof(s, s->x[i]));
    }
}

/* Each example sums into matrices of its own. */
static void batch_weight(flxi_site *s, flx_val *by)
{
    const weight_attrs *a = s->attrs;
    flx_val e = offset_indices(s, a->E, a->oob);
    flx_dim groups = flx_dim_mul(s->ctx, s->size, a->E);
    by[0] = unstacked(s, append_weight(s, stacked(s, 0), stacked(s, 1), e, groups, OOB_ZERO), a->E);
}

const flxi_rules flxi_rules_grouped_matmul_weight_backward = {
    .infer = infer_weight,
    .eval = eval_weight,
    .vjp = vjp_weight,
    .batch = batch_weight,
    .schema = weight_schema,
    .attrs_size = sizeof(weight_attrs),
    .samples = samples_weight,
    .work = work_weight,
    .link = link_weight,
};
