/* SPDX-License-Identifier: Apache-2.0 */
/* rotary.c: rope, whose tables are operands, and its cotangent. rope is linear in x and, where it rotates, in the pair
   of tables: the cotangent of x is the rotation back, the tangent the same rotation. */
#include "ops/nn/rotary.h"

#include "base/host/stop.h"
#include "ops/express/express_combine.h"
#include "ops/opcode.h"
#include "ops/rule/axis/along.h"
#include "ops/rule/axis/extent.h"
#include "ops/rule/decomposed.h"
#include "ops/rule/link.h"
#include "ops/rule/rule_lists.h"
#include "ops/rule/shard.h"

typedef struct {
    int64_t layout;
    int64_t head_dim, n_rot, num_heads;
} rope_attrs;

static const flxi_attr rope_schema[] = {
    A_WORD_REQ(rope_attrs, layout, FLXI_HEAD_LAYOUTS),
    A_INT_OPT(rope_attrs, head_dim, "from x"),
    A_INT_OPT(rope_attrs, n_rot, "head_dim"),
    A_INT_OPT(rope_attrs, num_heads, "from x"),
    A_END,
};

/* ---- Inference ---- */

flx_code flxi_check_rope_tables(flxi_infer *f, uint32_t cos_operand, uint32_t sin_operand, const flxi_heads *heads,
                                int64_t half)
{
    const flx_type *c = f->in[cos_operand], *n = f->in[sin_operand];
    flxi_type_text tc, ts;
    flxi_dim_text tokens;
    bool is_alike = c->rank == n->rank;
    for (int k = 0; is_alike && k < c->rank; k++)
        is_alike = flxi_dims_may_equal(f, c->dims[k], n->dims[k]);
    if (!is_alike)
        return flxi_infer_fail(f, FLX_E_SHAPE, NULL, "cos and sin must have the same shape: %s and %s",
                               flxi_shape_str(f->ctx, c, &tc), flxi_shape_str(f->ctx, n, &ts));
    bool fits = (c->rank == 2 || c->rank == 3) && flxi_dims_may_equal(f, c->dims[c->rank - 2], heads->tokens) &&
                (c->rank == 2 || flxi_dims_may_equal(f, c->dims[0], heads->n));
    if (!fits)
        return flxi_infer_fail(f, FLX_E_SHAPE, "all heads share a token's row of the tables",
                               "cos and sin must be [S, T] or [N, S, T] for %s tokens, but they are %s",
                               flxi_dim_str(f->ctx, heads->tokens, &tokens), flxi_shape_str(f->ctx, c, &tc));
    if (flxi_dim_below(f->ctx, c->dims[c->rank - 1], half))
        return flxi_infer_fail(f, FLX_E_SHAPE, NULL,
                               "cos and sin, of shape %s, have fewer than the %lld angles of n_rot=%lld",
                               flxi_shape_str(f->ctx, c, &tc), (long long)half, (long long)(2 * half));
    return FLX_OK;
}

static flx_code infer_rope(flxi_infer *f)
{
    rope_attrs *a = f->attrs;
    flxi_heads x;
    FLXI_TRY(flxi_infer_heads(f, 0, a->layout, &a->num_heads, &a->head_dim, &x));
    if (a->n_rot == FLXI_ABSENT)
        a->n_rot = a->head_dim;
    if (a->n_rot < 0 || a->n_rot > a->head_dim || a->n_rot % 2)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, "elements are rotated in pairs",
                               "n_rot must be even and at most head_dim=%lld: it is %lld", (long long)a->head_dim,
                               (long long)a->n_rot);
    FLXI_TRY(flxi_check_rope_tables(f, 1, 2, &x, a->n_rot / 2));
    f->out[0] = *f->in[0];
    return FLX_OK;
}

/* ---- Evaluation: rounded as compiled code does, products and sum each ---- */

/* An element of a pair, rotated with its partner; `sine` has the sign for the element's position in the pair. */
static double turned(int32_t dtype, double x, double partner, double cosine, double sine)
{
    if (dtype == FLX_F64)
        return x * cosine + partner * sine;
    return (float)x * (float)cosine + (float)partner * (float)sine;
}

static flx_code eval_rope(flxi_eval *e)
{
    const rope_attrs *a = e->attrs;
    const flx_tensor *x = e->in[0], *tables = e->in[1];
    int32_t dtype = x->type.dtype;
    flxi_heads h = flxi_heads_of(&x->type, a->layout, a->num_heads, a->head_dim);
    int64_t half = a->n_rot / 2, row = tables->type.dims[tables->type.rank - 1];
    int64_t inner =
        a->layout == HEADS_BHSD ? a->head_dim : a->num_heads * a->head_dim; /* elements of a token in a row */
    for (int64_t at = 0; at < x->count && !flxi_stopped_by_now(); at++) {
        int64_t d = at % a->head_dim, token = at / inner % h.tokens;
        int64_t item = tables->type.rank == 3 ? at / (x->count / h.n) : 0;
        double v = flxi_load_double(dtype, x->data, at);
        if (d < a->n_rot) {
            bool is_first = d < half;
            int64_t angle = (item * h.tokens + token) * row + (is_first ? d : d - half);
            double sine = flxi_load_double(dtype, e->in[2]->data, angle);
            v = turned(dtype, v, flxi_load_double(dtype, x->data, is_first ? at + half : at - half),
                       flxi_load_double(dtype, tables->data, angle), is_first ? -sine : sine);
        }
        flxi_store_double(dtype, e->out[0]->data, at, v);
    }
    return FLX_OK;
}

static flxi_kval pull_rope(flxi_express *e, uint32_t result, const flxi_kindex *at)
{
    const rope_attrs *a = e->attrs;
    const flx_type *table = e->in[1];
    int64_t half = a->n_rot / 2;
    int32_t wide = flxi_wide_dtype(e->in[0]->dtype);
    flxi_kindex to = flxi_at_axes(e, at), angle = {0};
    int last = e->in[0]->rank - 1;
    if (half == 0)
        return flxi_operand_at(e, 0, at);
    flxi_kval x = flxi_khold_value(e, flxi_operand_at(e, 0, &to));
    bool turns_all = a->n_rot == a->head_dim;
    uint32_t in_head = a->layout == HEADS_BSD ? flxi_ku_mod(e, to.dim[last], a->head_dim) : to.dim[last];
    uint32_t d = flxi_khold(e, in_head);
    uint32_t first = flxi_khold(e, flxi_k2(e, KBIN_lt, d, flxi_ku(e, half)));
    uint32_t turns = turns_all ? 0 : flxi_khold(e, flxi_k2(e, KBIN_lt, d, flxi_ku(e, a->n_rot)));
    uint32_t pair = flxi_kb_select(e->k, first, d, flxi_ku_sub(e, d, flxi_ku(e, half)));
    angle.dim[table->rank - 1] = flxi_khold(e, turns_all ? pair : flxi_ku_guarded(e, turns, pair));
    angle.dim[table->rank - 2] = to.dim[a->layout == HEADS_BHSD ? 2 : 1];
    if (table->rank == 3)
        angle.dim[0] = to.dim[0];
    uint32_t other = flxi_kb_select(e->k, first, flxi_ku_add(e, to.dim[last], flxi_ku(e, half)),
                                    flxi_ku_sub(e, to.dim[last], flxi_ku(e, half)));
    to.dim[last] = flxi_khold(e, turns_all ? other : flxi_kb_select(e->k, turns, other, to.dim[last]));
    uint32_t partner = flxi_kas(e, flxi_operand_at(e, 0, &to), wide).re;
    uint32_t cosine = flxi_kas(e, flxi_operand_at(e, 1, &angle), wide).re;
    uint32_t sine = flxi_khold(e, flxi_kas(e, flxi_operand_at(e, 2, &angle), wide).re);
    sine = flxi_kb_select(e->k, first, flxi_k1(e, KUN_neg, sine), sine);
    uint32_t y = flxi_k2(e, KBIN_add, flxi_k2(e, KBIN_mul, flxi_kas(e, x, wide).re, cosine),
                         flxi_k2(e, KBIN_mul, partner, sine));
    flxi_kval rounded = flxi_kas(e, flxi_kreal(y), e->out[result]->dtype);
    return flxi_khold_value(e, turns_all ? rounded : flxi_kchoose(e, turns, rounded, x));
}

/* ---- Derivatives ---- */

/* [N, H, S, n_rot/2]: the first or the second elements of the pairs. */
static flx_val pair_parts(flxi_site *s, flx_val heads, bool is_second)
{
    int64_t half = ((const rope_attrs *)s->attrs)->n_rot / 2;
    return flx_narrow(s->g, heads, 3, is_second ? half : 0, half);
}

/* The cotangent of each pair's angle, summed over all that share a row of the table; zeros after the angles that are
   used. */
static flx_val table_cotangent(flxi_site *s, flx_val sum, flx_val table)
{
    flx_type t = *flxi_typeof(s, table);
    flx_dim low[3] = {0}, high[3] = {0};
    flx_dim used = ((const rope_attrs *)s->attrs)->n_rot / 2;
    high[t.rank - 1] = flx_dim_sub(s->ctx, t.dims[t.rank - 1], used);
    sum = flx_reduce_sum(s->g, sum, t.rank == 3 ? FLX_INTS(1) : FLX_INTS(0, 1), false);
    return flxi_as_dtype(s, flxi_reshape_like(s, flxi_pad_zeros(s, sum, low, high), &t), t.dtype);
}

static void vjp_tables(flxi_site *s, flx_val dy, flx_val *dx)
{
    const rope_attrs *a = s->attrs;
    flx_graph *g = s->g;
    flxi_heads h = flxi_heads_of(flxi_typeof(s, s->x[0]), a->layout, a->num_heads, a->head_dim);
    flx_val x = flxi_to_heads(s, flxi_widen(s, s->x[0]), a->layout, &h);
    flx_val d = flxi_to_heads(s, flxi_widen(s, dy), a->layout, &h);
    flx_val x1 = pair_parts(s, x, false), x2 = pair_parts(s, x, true);
    flx_val d1 = pair_parts(s, d, false), d2 = pair_parts(s, d, true);
    if (s->wanted[1])
        dx[1] = table_cotangent(s, flx_add(g, flx_mul(g, d1, x1), flx_mul(g, d2, x2)), s->x[1]);
    if (s->wanted[2])
        dx[2] = table_cotangent(s, flx_sub(g, flx_mul(g, d2, x1), flx_mul(g, d1, x2)), s->x[2]);
}

static void vjp_rope(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    if (s->wanted[0])
        dx[0] = flxi_emit1(s, NULL, (flx_val[]){dy[0], s->x[1], flx_neg(s->g, s->x[2])}, 3);
    if (s->wanted[1] || s->wanted[2])
        vjp_tables(s, dy[0], dx);
}

static void backward_vjp_rope(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    flxi_site backward = *s;
    backward.op = &flxi_ops[OP_rope_backward];
    if (s->wanted[0])
        dx[0] = flxi_emit1(&backward, NULL, (flx_val[]){dy[0], s->x[1], s->x[2]}, 3);
    if (s->wanted[1] || s->wanted[2])
        vjp_tables(s, dy[0], dx);
}

/* x with 0 where it is passed through: there the tables have no effect. */
static flx_val rotated_part(flxi_site *s)
{
    const rope_attrs *a = s->attrs;
    flx_type heads = flx_type_make(FLX_I64, 2, (flx_dim[]){a->num_heads, a->head_dim});
    flx_dim width = a->num_heads * a->head_dim;
    if (a->n_rot == a->head_dim)
        return s->x[0];
    if (a->layout != HEADS_BSD)
        heads = flx_type_make(FLX_I64, 1, &heads.dims[1]);
    flx_val d = flx_iota(s->g, &heads, heads.rank - 1);
    flx_val turns = flx_lt(s->g, d, flxi_number(s, d, (double)a->n_rot));
    return flxi_masked(s, heads.rank == 2 ? flxi_reshape_to(s, turns, 1, &width) : turns, s->x[0]);
}

static void jvp_rope(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    if (!flxi_is_none(tx[0]))
        ty[0] = flxi_emit1(s, NULL, (flx_val[]){tx[0], s->x[1], s->x[2]}, 3);
    if (flxi_is_none(tx[1]) && flxi_is_none(tx[2]))
        return;
    flx_val tables[2] = {flxi_or_zeros(s, tx[1], s->x[1]), flxi_or_zeros(s, tx[2], s->x[2])};
    ty[0] = flxi_sum(s, ty[0], flxi_emit1(s, NULL, (flx_val[]){rotated_part(s), tables[0], tables[1]}, 3));
}

static void decompose_rope_backward(flxi_site *s, flx_val *dx)
{
    flxi_site forward = *s;
    forward.op = &flxi_ops[OP_rope];
    dx[0] = flxi_emit1(&forward, NULL, (flx_val[]){s->x[0], s->x[1], flx_neg(s->g, s->x[2])}, 3);
}

/* ---- Batching: folded into N ---- */

/* A table [B*n, S, T]; [S, T] is unchanged where no table is batched. */
static flx_val fold_table(flxi_site *s, uint32_t i, flx_dim n)
{
    flx_type t = flxi_example_type(s, i);
    flx_dim dims[4] = {s->size, n, t.dims[t.rank - 2], t.dims[t.rank - 1]};
    int batch = s->batched[i] ? 0 : 1;
    if (t.rank == 2 && !s->batched[1] && !s->batched[2])
        return s->x[i];
    flx_val v = s->x[i];
    if (t.rank == 2) {
        flx_dim one[4] = {s->size, 1, dims[2], dims[3]};
        v = flxi_reshape_to(s, v, 4 - batch, one + batch);
        v = flxi_expand_to(s, v, 4 - batch, dims + batch);
    }
    return flxi_fold_batch(s, v, s->batched[i], n);
}

static void batch_rope(flxi_site *s, flx_val *by)
{
    flx_type example = flxi_example_type(s, 0);
    flx_dim n = example.dims[0];
    for (uint32_t i = 1; i < 3; i++) {
        flx_type table = flxi_example_type(s, i);
        n = table.rank == 3 ? flxi_agreed_dim(n, table.dims[0]) : n;
    }
    flx_val x[3] = {flxi_fold_batch(s, s->x[0], s->batched[0], n), fold_table(s, 1, n), fold_table(s, 2, n)};
    by[0] = flxi_unfold_batch(s, flxi_emit1(s, NULL, x, 3), &example);
}

/* ---- Rules ---- */

static const flxi_sample samples_rope[] = {
    {"T[2, 2, 3, 4], T[3, 2], T[3, 2]", "layout=bhsd", NULL, FLX_OK},
    {"T[2, 3, 2, 5], T[2, 3, 3], T[2, 3, 3]", "layout=bshd, n_rot=4", NULL, FLX_OK},
    {"T[2, 2, 6], T[2, 1], T[2, 1]", "layout=bsd, head_dim=3, n_rot=2", NULL, FLX_OK},
    {"T[1, 2, 4], T[1, 2, 1], T[1, 2, 1]", "layout=bsd, num_heads=2", NULL, FLX_OK},
    {"T[N, 1, M, 4], T[M, 2], T[M, 2]", "layout=bhsd", NULL, FLX_OK},
    {"T[N, M, 4], T[N, M, 2], T[N, M, 2]", "layout=bsd, head_dim=4, num_heads=1", NULL, FLX_OK},
    {"T[1, 2, 2, 2], T[2, N], T[2, N]", "layout=bhsd", NULL, FLX_OK},
    {"T[2, 1, 2, 3], T[2, 0], T[2, 0]", "layout=bhsd, n_rot=0", NULL, FLX_OK},
    {"T[2, 0, 4], T[0, 1], T[0, 1]", "layout=bsd, num_heads=2", NULL, FLX_OK},
    {"T[2, 2, 3, 4], T[3, 1], T[3, 1]", "layout=bhsd", NULL, FLX_E_SHAPE},
    {"T[2, 2, 3, 4], T[2, 2], T[2, 2]", "layout=bhsd", NULL, FLX_E_SHAPE},
    {"T[2, 2, 3, 4], T[3, 2], T[1, 3, 2]", "layout=bhsd", NULL, FLX_E_SHAPE},
    {"T[2, 2, 3, 4], T[3, 3, 2], T[3, 3, 2]", "layout=bhsd", NULL, FLX_E_SHAPE},
    {"T[2, 2, 3, 4], T[2], T[2]", "layout=bhsd", NULL, FLX_E_SHAPE},
    {"T[2, 3, 4], T[3, 2], T[3, 2]", "layout=bhsd", NULL, FLX_E_SHAPE},
    {"T[2, 2, 3, 3], T[3, 2], T[3, 2]", "layout=bhsd", NULL, FLX_E_ATTRIBUTE},
    {"T[2, 2, 3, 4], T[3, 3], T[3, 3]", "layout=bhsd, n_rot=6", NULL, FLX_E_ATTRIBUTE},
    {"T[2, 3, 4], T[3, 2], T[3, 2]", "layout=bsd", NULL, FLX_E_ATTRIBUTE},
    {0},
};

/* Elements that are not rotated are those of x. */
static bool scales_rope(const flxi_node *n, const bool *in)
{
    (void)n;
    return in[0];
}

/* Elements are rotated within the head of a token; all heads of a token share its row of the tables. */
static bool link_rope(const flxi_use *u, flxi_link *l)
{
    int last = flxi_link_operand(u)->rank - 1;
    if (u->operand == 0)
        return flxi_link_except(u, l, last);
    if (l->axis == last - 1)
        return flxi_link_move(u, l, ((const rope_attrs *)u->n->attrs)->layout == HEADS_BHSD ? 2 : 1);
    return l->axis == 0 && last == 2 && flxi_link_move(u, l, 0);
}

#define ROPE_RULES                                                                                     \
    .infer = infer_rope, .batch = batch_rope, .schema = rope_schema, .attrs_size = sizeof(rope_attrs), \
    .samples = samples_rope, .scales = scales_rope

/* Heads are independent where they are groups along the last axis, and so are positions with their rows of the
   tables. */
static int rope_becomes(const flx_graph *g, const flxi_node *n, uint32_t operand, int axis)
{
    static const int heads[] = {[HEADS_BHSD] = 1, [HEADS_BSHD] = 2, [HEADS_BSD] = -1};
    int64_t layout = ((const rope_attrs *)n->attrs)->layout;
    const flxi_use use = {g, n, operand, 0};
    flxi_link l = {.axis = axis};
    if (operand == 0 && layout == HEADS_BSD && axis == flxi_type_at(g, n->in[0])->rank - 1)
        return axis;
    return (operand > 0 || axis != heads[layout]) && link_rope(&use, &l) ? l.axis : -1;
}

static const struct flxi_shard shard_rope = {.becomes = rope_becomes, .groups = "num_heads"};

const flxi_rules flxi_rules_rope = {
    ROPE_RULES,      .eval = eval_rope, .pull = pull_rope,   .vjp = vjp_rope, .backward_vjp = backward_vjp_rope,
    .jvp = jvp_rope, .link = link_rope, .shard = &shard_rope};

const flxi_rules flxi_rules_rope_backward = {ROPE_RULES, .eval = flxi_eval_decomposed,
                                             .decompose = decompose_rope_backward};
