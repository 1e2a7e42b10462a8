/* SPDX-License-Identifier: Apache-2.0 */
/* linear_system.c: see linear_system.h; also the inference of matrix_rules.h. */
#include "ops/linalg/solve/linear_system.h"

#include "ops/rule/axis/axis_lists.h"
#include "ops/rule/axis/extent.h"
#include "ops/rule/link.h"

const char *flxi_trans_word(int64_t trans)
{
    static const char *const words[] = {"none", "transpose", "adjoint"};
    return words[trans];
}

/* ---- Inference ---- */

flx_code flxi_need_square(flxi_infer *f, uint32_t operand)
{
    const flx_type *a = f->in[operand];
    char name[32];
    flxi_type_text t;
    FLXI_TRY(flxi_need_rank(f, operand, 2));
    if (!flxi_dims_may_equal(f, a->dims[a->rank - 2], a->dims[a->rank - 1]))
        return flxi_infer_fail(f, FLX_E_SHAPE, "the last two axes are the rows and columns of the matrices",
                               "%s must contain square matrices: it is %s",
                               flxi_operand_name(f, operand, name, sizeof name), flxi_shape_str(f->ctx, a, &t));
    return FLX_OK;
}

flx_code flxi_smaller_dim(flxi_infer *f, const flx_type *matrix, flx_dim *out)
{
    flx_dim rows = matrix->dims[matrix->rank - 2];
    flx_dim cols = matrix->dims[matrix->rank - 1];
    flxi_type_text t;
    if (rows == cols || flxi_dim_below(f->ctx, rows, cols))
        *out = rows;
    else if (flxi_dim_below(f->ctx, cols, rows))
        *out = cols;
    else
        return flxi_infer_fail(f, FLX_E_UNBOUND_DIM, "specialise the graph first, or use square matrices",
                               "for matrices of shape %s, the smaller extent depends on symbols",
                               flxi_shape_str(f->ctx, matrix, &t));
    return FLX_OK;
}

flx_code flxi_infer_square(flxi_infer *f)
{
    FLXI_TRY(flxi_need_square(f, 0));
    f->out[0] = *f->in[0];
    return FLX_OK;
}

static flx_type lead_of(const flx_type *t, int own)
{
    flx_type lead = {.dtype = t->dtype};
    flxi_append_dims(&lead, t, 0, t->rank - own);
    return lead;
}

static flx_code fail_sides(flxi_infer *f, uint32_t matrix, uint32_t sides, bool left)
{
    const flx_type *a = f->in[matrix];
    const flx_type *b = f->in[sides];
    char name[32];
    flxi_type_text ta, tb;
    const char *hint = b->rank < a->rank - 1 ? "b has as many axes as the matrices, or one less for one vector each"
                       : left                ? "b must have as many rows as the matrices"
                                             : "b must have as many columns as the matrices have rows";
    return flxi_infer_fail(f, FLX_E_SHAPE, hint, "the right-hand sides do not fit the matrices: %s is %s, b is %s",
                           flxi_operand_name(f, matrix, name, sizeof name), flxi_shape_str(f->ctx, a, &ta),
                           flxi_shape_str(f->ctx, b, &tb));
}

flx_code flxi_infer_system(flxi_infer *f, uint32_t matrix, uint32_t sides, bool left, flx_type *y)
{
    const flx_type *a = f->in[matrix];
    const flx_type *b = f->in[sides];
    FLXI_TRY(flxi_need_square(f, matrix));
    FLXI_TRY(flxi_need_rank(f, sides, 1));
    bool vector = flxi_is_vector_system(a, b);
    if (b->rank < a->rank - 1)
        return fail_sides(f, matrix, sides, left);
    int at = vector || !left ? b->rank - 1 : b->rank - 2;
    flx_dim n = flxi_agreed_dim(a->dims[a->rank - 1], a->dims[a->rank - 2]);
    if (!flxi_dims_may_equal(f, n, b->dims[at]))
        return fail_sides(f, matrix, sides, left);
    flx_type lead_a = lead_of(a, 2);
    flx_type lead_b = lead_of(b, vector ? 1 : 2);
    flx_type out = {.dtype = b->dtype};
    FLXI_TRY(flxi_broadcast(f, (const flx_type *const[]){&lead_a, &lead_b}, 2, &out));
    flxi_append_dims(&out, b, b->rank - (vector ? 1 : 2), b->rank);
    out.dims[out.rank - (b->rank - at)] = flxi_agreed_dim(n, b->dims[at]);
    *y = out;
    return FLX_OK;
}

/* ---- Evaluation ---- */

static flxi_matrix_view view_of(const flx_tensor *t)
{
    return (flxi_matrix_view){.dtype = t->type.dtype, .data = t->data};
}

bool flxi_systems_begin(flxi_systems *w, const flx_tensor *a, const flx_tensor *b, const flx_tensor *y, bool left)
{
    bool vector = flxi_is_vector_system(&a->type, &b->type);
    int own = vector ? 1 : 2;
    *w = (flxi_systems){.a = view_of(a), .b = view_of(b), .y = view_of(y), .is_first = true};
    if (y->count == 0)
        return false; /* the other extents may be too large to multiply */
    flx_type lead_a = lead_of(&a->type, 2);
    flx_type lead_b = lead_of(&b->type, own);
    w->n = a->type.dims[a->type.rank - 1];
    w->lead = lead_of(&y->type, own);
    w->k = vector ? 1 : b->type.dims[b->type.rank - (left ? 1 : 2)];
    w->a.row = w->n;
    w->a.col = 1;
    w->b.row = w->y.row = left ? w->k : 1;
    w->b.col = w->y.col = left ? 1 : w->n;
    flxi_broadcast_strides(&lead_a, &w->lead, w->a_lead);
    flxi_broadcast_strides(&lead_b, &w->lead, w->b_lead);
    return true;
}

bool flxi_systems_next(flxi_systems *w)
{
    int64_t before = w->a.first;
    if (!w->is_first && !flxi_next(w->index, w->lead.dims, w->lead.rank))
        return false;
    w->a.first = flxi_offset(w->index, w->a_lead, w->lead.rank) * w->n * w->n;
    w->b.first = flxi_offset(w->index, w->b_lead, w->lead.rank) * w->n * w->k;
    w->y.first += w->is_first ? 0 : w->n * w->k;
    w->same_matrix = !w->is_first && before == w->a.first;
    w->is_first = false;
    return true;
}

/* ---- Rules ---- */

flx_val flxi_as_sides(flxi_site *s, flx_val v, bool vector, bool left)
{
    int64_t axis = flxi_typeof(s, v)->rank - (left ? 0 : 1);
    return vector ? flx_unsqueeze(s->g, v, (flx_ints){&axis, 1}) : v;
}

flx_val flxi_as_vectors(flxi_site *s, flx_val v, bool vector, bool left)
{
    int64_t axis = flxi_typeof(s, v)->rank - (left ? 1 : 2);
    return vector ? flx_squeeze(s->g, v, (flx_ints){&axis, 1}) : v;
}

flx_val flxi_outer_product(flxi_site *s, flx_val l, flx_val r, bool left, int matrix_rank)
{
    int64_t axes[FLX_MAX_RANK];
    size_t n = 0;
    int rank = flxi_typeof(s, l)->rank;
    if (matrix_rank > 2 || rank == 2)
        return left ? flx_matmul(s->g, l, flxi_adjoint(s, r)) : flx_matmul(s->g, flxi_adjoint(s, l), r);
    for (int k = 0; k < rank; k++)
        if (k != rank - (left ? 2 : 1))
            axes[n++] = k;
    return flx_dot_general(s->g, left ? l : flxi_conj(s, l), left ? flxi_conj(s, r) : r, (flx_ints){axes, n},
                           (flx_ints){axes, n}, FLX_ALL, FLX_ALL);
}

/* Two neighbouring axes of v become one. */
static flx_val merged_axes(flxi_site *s, flx_val v, int axis)
{
    flx_type t = *flxi_typeof(s, v);
    t.dims[axis] = flx_dim_mul(s->ctx, t.dims[axis], t.dims[axis + 1]);
    for (int k = axis + 1; k + 1 < t.rank; k++)
        t.dims[k] = t.dims[k + 1];
    t.rank--;
    return flxi_reshape_like(s, v, &t);
}

/* One axis becomes two of these extents. */
static flx_val parted_axis(flxi_site *s, flx_val v, int axis, flx_dim outer, flx_dim inner)
{
    flx_type t = *flxi_typeof(s, v);
    if (t.rank == FLX_MAX_RANK) {
        flxi_site_fail(s, FLX_E_SIZE, NULL, "adding a batch axis to a tensor of rank %d exceeds the rank limit",
                       t.rank);
        return FLX_NONE;
    }
    for (int k = t.rank; k > axis; k--)
        t.dims[k] = t.dims[k - 1];
    t.rank++;
    t.dims[axis] = outer;
    t.dims[axis + 1] = inner;
    return flxi_reshape_like(s, v, &t);
}

/* [B, .., n, k] is solved as [.., n, B k], [B, .., k, n] as [.., B k, n]: the examples are blocks, so facts about them
   stay known (autodiff/masks.h). The batch axis is then moved back to the start. */
void flxi_batch_sides(flxi_site *s, bool left, bool vector, flx_val *by)
{
    uint32_t rhs = s->nin - 1;
    flx_val *x = flxi_rule_new(s, flx_val, s->nin);
    int rank = flxi_typeof(s, s->x[rhs])->rank; /* with the batch axis */
    int to = rank - (left ? 1 : 2) - (vector ? 0 : 1);
    flx_val moved = flxi_move_axis(s, s->x[rhs], 0, to);
    const flx_type *t = flxi_typeof(s, moved);
    flx_dim sides = vector || t->rank < 3 ? 1 : t->dims[to + 1];
    if (!x || s->g->error.code)
        return;
    memcpy(x, s->x, s->nin * sizeof *x);
    x[rhs] = vector ? moved : merged_axes(s, moved, to);
    flx_val y = flxi_emit1(s, NULL, x, s->nin);
    int at = flxi_typeof(s, y)->rank - (left ? 1 : 2);
    if (!vector)
        y = parted_axis(s, y, at, s->size, sides);
    by[0] = flxi_move_axis(s, y, at, 0);
}

/* Operand i with `lead` axes before its own and before them the batch axis, or one of extent 1. Where several
   operands describe the matrix, all have the batch axis. */
static flx_val with_lead(flxi_site *s, uint32_t i, int own, int lead)
{
    flx_type t = *flxi_typeof(s, s->x[i]);
    int skip = s->batched[i] ? 1 : 0;
    flx_type y = {.dtype = t.dtype};
    if (own + lead + 1 > FLX_MAX_RANK) {
        flxi_site_fail(s, FLX_E_SIZE, NULL, "adding a batch axis to a tensor of rank %d exceeds the rank limit",
                       own + lead);
        return FLX_NONE;
    }
    y.dims[y.rank++] = skip ? s->size : 1;
    while (y.rank + (t.rank - skip) < own + lead + 1)
        y.dims[y.rank++] = 1;
    flxi_append_dims(&y, &t, skip, t.rank);
    flx_val x = flxi_reshape_like(s, s->x[i], &y);
    y.dims[0] = s->nin > 2 && i + 1 < s->nin ? s->size : y.dims[0];
    return flxi_expand_like(s, x, &y);
}

bool flxi_link_system(const flxi_use *u, flxi_link *l)
{
    const flx_type *a = flxi_type_at(u->g, u->n->in[0]), *b = flxi_type_at(u->g, u->n->in[u->n->nin - 1]);
    int own = flxi_is_vector_system(a, b) ? 1 : 2;
    int lead = u->operand == 0 ? a->rank - 2 : u->operand + 1 == u->n->nin ? b->rank - own : 0;
    return l->axis < lead && flxi_link_move(u, l, flxi_link_result(u)->rank - own - lead + l->axis);
}

void flxi_batch_system(flxi_site *s, bool left, flx_val *by)
{
    uint32_t rhs = s->nin - 1;
    bool vector = flxi_example_rank(s, rhs) == flxi_example_rank(s, 0) - 1;
    int lead = flxi_example_rank(s, rhs) - (vector ? 1 : 2); /* never fewer than the matrix has */
    bool is_shared = true;
    for (uint32_t i = 0; i < rhs; i++)
        is_shared = is_shared && !s->batched[i];
    if (is_shared) {
        flxi_batch_sides(s, left, vector, by);
        return;
    }
    flx_val *x = flxi_rule_new(s, flx_val, s->nin);
    for (uint32_t i = 0; x && i < s->nin; i++)
        x[i] = with_lead(s, i, i == rhs ? (vector ? 1 : 2) : i == 0 ? 2 : 1, lead);
    if (x)
        flxi_append(s, NULL, x, s->nin, by);
}
