/* SPDX-License-Identifier: Apache-2.0 */
/* patterns_attention.c: attention from its parts, in the layout bhsd: softmax(scale q k^T) v, with a soft cap, with a
   mask that is causal, a window or given, or with a bias.

   A given mask and a bias are also proposed in a plain form, since a graph hardly ever defines the result of a query
   without any allowed key; so is a scale on the queries instead of the scores. */
#include "passes/patterns/pattern.h"

#include <math.h>

#define ON_QUERIES "the scale is on the queries, not on the scores"

typedef struct {
    uint32_t q, k, v; /* k as used in the product: transposed */
    uint32_t mask;    /* or bias; 0: none */
    bool is_bias, is_denied;
    bool is_grouped;       /* heads share keys: the products are reshaped */
    double scale, softcap; /* NaN: no cap */
    bool scales_queries;
    bool is_causal; /* for the plain form */
} parts;

/* ---- Reading, from the result to the queries ---- */

static uint32_t ungrouped(const flx_graph *g, uint32_t v, parts *p)
{
    uint32_t base = flxi_reshaped_from(g, v);
    p->is_grouped |= base != v;
    return base;
}

/* where(mask, scores, -inf); with has_empty_rows the fill is computed. */
static uint32_t read_mask(const flx_graph *g, uint32_t l, parts *p)
{
    const flxi_node *n = flxi_made_by(g, l, OP_where);
    double x;
    if (!n)
        return l;
    p->mask = n->in[0];
    p->is_denied = flxi_known_number(g, n->in[1], &x);
    return p->is_denied ? n->in[2] : n->in[1];
}

/* x times a number, which goes into *factor. */
static uint32_t read_factor(const flx_graph *g, uint32_t v, double *factor)
{
    const flxi_node *n = flxi_maker(g, v);
    double x;
    for (uint32_t k = 0; n->op == OP_mul && k < 2; k++)
        if (flxi_known_number(g, n->in[k], &x)) {
            *factor = x;
            return n->in[1 - k];
        }
    if (n->op == OP_div && flxi_known_number(g, n->in[1], &x)) {
        *factor = 1 / x;
        return n->in[0];
    }
    return v;
}

static uint32_t read_cap(const flx_graph *g, uint32_t l, parts *p)
{
    double cap = 1, inner = 1;
    const flxi_node *tanh = flxi_made_by(g, read_factor(g, l, &cap), OP_tanh);
    if (!tanh)
        return l;
    p->softcap = cap;
    return read_factor(g, tanh->in[0], &inner);
}

static bool read_product(const flx_graph *g, uint32_t l, parts *p)
{
    p->scale = 1;
    uint32_t s = ungrouped(g, read_factor(g, l, &p->scale), p);
    const flxi_node *n = flxi_made_by(g, s, OP_matmul);
    if (!n)
        return false;
    p->q = n->in[0];
    p->k = n->in[1];
    return true;
}

static bool read_scores(const flx_graph *g, uint32_t l, parts *p)
{
    p->softcap = NAN;
    return read_product(g, read_cap(g, l, p), p);
}

/* The weights with a bias added to the scores; the bias is the operand that is not the scores. */
static bool read_weights(const flx_graph *g, uint32_t weights, parts *p)
{
    const flxi_node *masked = flxi_made_by(g, weights, OP_where);
    const flxi_node *n = flxi_made_by(g, masked ? masked->in[1] : weights, OP_softmax);
    if (!n || flxi_node_int(n, "axis") != 3)
        return false;
    uint32_t l = read_mask(g, n->in[0], p);
    const flxi_node *sum = flxi_made_by(g, l, OP_add);
    if (read_scores(g, l, p))
        return true;
    for (uint32_t k = 0; sum && k < 2; k++) {
        const flxi_node *chosen = flxi_made_by(g, sum->in[1 - k], OP_where);
        if (!read_scores(g, sum->in[k], p))
            continue;
        p->is_bias = true;
        p->mask = p->mask && chosen ? chosen->in[1] : sum->in[1 - k];
        return true;
    }
    return false;
}

static bool read_parts(const flx_graph *g, uint32_t root, parts *p)
{
    const flxi_node *n = flxi_made_by(g, ungrouped(g, root, p), OP_matmul);
    if (!n || flxi_type_at(g, root)->rank != 4)
        return false;
    p->v = n->in[1];
    return read_weights(g, ungrouped(g, n->in[0], p), p);
}

/* ---- Proposing ---- */

static flxi_pattern_operand keys_of(const flx_graph *g, uint32_t transposed)
{
    static const int64_t last_two[] = {0, 1, 3, 2};
    const flxi_node *n = flxi_made_by(g, transposed, OP_transpose);
    const flx_ints *perm = n ? flxi_node_ints(n, "perm") : NULL;
    flxi_pattern_operand k = flxi_whole(transposed);
    if (perm && perm->n == 4 && memcmp(perm->v, last_two, sizeof last_two) == 0)
        return flxi_whole(n->in[0]);
    k.view = VIEW_TRANSPOSE;
    k.rank = 4;
    memcpy(k.dims, last_two, sizeof last_two);
    return k;
}

/* With all four axes: a mask of two would be one of keys. */
static flxi_pattern_operand mask_of(const flx_graph *g, uint32_t id)
{
    const flx_type *t = flxi_type_at(g, id);
    flxi_pattern_operand m = flxi_whole(id);
    if (t->rank >= 4)
        return m;
    m.view = VIEW_RESHAPE;
    m.rank = 4;
    for (int k = 0; k < 4; k++)
        m.dims[k] = k < 4 - t->rank ? 1 : t->dims[k - (4 - t->rank)];
    return m;
}

/* Queries [Sq, 1] and keys [1, Sk] counted; the last query is at the last key where there are more keys. */
static flx_val causal_mask(flx_graph *g, const flx_type *q, const flx_type *k)
{
    flx_type column = flx_type_make(FLX_I64, 2, (flx_dim[]){q->dims[2], 1});
    flx_type row = flx_type_make(FLX_I64, 2, (flx_dim[]){1, k->dims[2]});
    flx_val i = flx_iota(g, &column, 0);
    flx_dim before = flx_dim_sub(flx_graph_context(g), k->dims[2], q->dims[2]);
    if (flxi_dim_is_number(before) && before > 0)
        i = flx_add(g, i, flx_scalar(g, FLX_I64, (double)before));
    return flx_le(g, flx_iota(g, &row, 1), i);
}

/* softmax of the scores as they are, times v. */
static flx_val plain_attention(flx_graph *g, const flx_val *x, const flxi_proposal *proposal)
{
    const parts *p = proposal->user;
    flx_dtype dtype = (flx_dtype)flx_val_type(g, x[0])->dtype;
    flx_val scale = flx_scalar(g, dtype, p->scale);
    flx_val q = p->scales_queries ? flx_mul(g, x[0], scale) : x[0];
    flx_val l = flx_matmul(g, q, flx_transpose(g, x[1], FLX_INTS(0, 1, 3, 2)));
    if (!p->scales_queries)
        l = flx_mul(g, l, scale);
    if (!isnan(p->softcap)) {
        flx_val cap = flx_scalar(g, dtype, p->softcap);
        l = flx_mul(g, flx_tanh(g, flx_div(g, l, cap)), cap);
    }
    if (p->is_bias)
        l = flx_add(g, l, x[3]);
    else if (p->is_causal)
        l = flx_where(g, causal_mask(g, flx_val_type(g, x[0]), flx_val_type(g, x[1])), l,
                      flx_scalar(g, dtype, -INFINITY));
    else if (p->mask)
        l = flx_where(g, x[3], l, flx_scalar(g, dtype, -INFINITY));
    return flx_matmul(g, flx_softmax(g, l, 3), x[2]);
}

static void begin_proposal(const flx_graph *g, const parts *p, flxi_proposal *out)
{
    const flx_type *q = flxi_type_at(g, p->q), *v = flxi_type_at(g, p->v);
    *out = (flxi_proposal){.op = OP_attention, .nin = 3, .user = p};
    out->in[0] = flxi_whole(p->q);
    out->in[1] = keys_of(g, p->k);
    out->in[2] = flxi_whole(p->v);
    flxi_propose_attr(out, flx_attr_word("layout", "bhsd"));
    if (v->rank == 4 && q->rank == 4 && v->dims[1] != q->dims[1] && flxi_dim_is_number(v->dims[1]))
        flxi_propose_attr(out, flx_attr_int("num_kv_heads", v->dims[1]));
    double width = q->rank == 4 ? (double)q->dims[3] : 1;
    if (flxi_short_number(q->dtype, p->scale) != flxi_short_number(q->dtype, 1 / sqrt(width)))
        flxi_propose_attr(out, flx_attr_real("score_scale", flxi_short_number(q->dtype, p->scale)));
    if (!isnan(p->softcap))
        flxi_propose_attr(out, flx_attr_real("softcap", flxi_short_number(q->dtype, p->softcap)));
}

/* The mask as an operand: first as the op defines it, then as graphs usually write it. */
static bool propose_operand(flxi_rewriting *f, const parts *p)
{
    flxi_proposal a;
    begin_proposal(flxi_fused_graph(f), p, &a);
    if (p->mask) {
        a.in[a.nin++] = mask_of(flxi_fused_graph(f), p->mask);
        flxi_propose_attr(&a, flx_attr_word("mask_kind", p->is_bias ? "bias" : "custom"));
    }
    if (flxi_propose(f, &a))
        return true;
    a.plain = plain_attention;
    a.differs = p->scales_queries ? ON_QUERIES : "a query without an allowed key gives 0, not NaN";
    return (p->mask || p->scales_queries) && flxi_propose(f, &a);
}

/* How far a window reaches: the number by which positions are shifted, on one side of an `and`; 0 without a shift. */
static bool read_window(const flx_graph *g, uint32_t mask, double *window)
{
    const flxi_node *both = flxi_made_by(g, mask, OP_and);
    *window = 0;
    for (uint32_t k = 0; both && k < 2; k++) {
        const flxi_node *c = flxi_maker(g, both->in[k]);
        for (uint32_t i = 0; c->nin == 2 && i < 2; i++) {
            const flxi_node *shift = flxi_made_by(g, c->in[i], OP_sub);
            if (shift && flxi_known_number(g, shift->in[1], window))
                return true;
        }
    }
    return both != NULL;
}

static bool propose_positions(flxi_rewriting *f, const parts *p)
{
    const flx_graph *g = flxi_fused_graph(f);
    flxi_proposal a, b;
    double window;
    begin_proposal(g, p, &a);
    b = a;
    flxi_propose_attr(&a, flx_attr_word("mask_kind", "causal"));
    a.plain = p->scales_queries ? plain_attention : NULL;
    a.differs = ON_QUERIES;
    if (flxi_propose(f, &a))
        return true;
    if (p->scales_queries || !read_window(g, p->mask, &window))
        return false;
    flxi_propose_attr(&b, flx_attr_word("mask_kind", "sliding_window"));
    flxi_propose_attr(&b, flx_attr_int("window", (int64_t)window));
    return flxi_propose(f, &b);
}

static bool propose_attention(flxi_rewriting *f, parts *p)
{
    p->is_causal = p->mask && !p->is_bias;
    if (p->is_causal && propose_positions(f, p))
        return true;
    p->is_causal = false;
    return !p->is_denied && propose_operand(f, p);
}

void flxi_pattern_attention(flxi_rewriting *f, uint32_t root)
{
    const flx_graph *g = flxi_fused_graph(f);
    parts p = {0};
    if (!read_parts(g, root, &p))
        return;
    if (p.is_grouped) /* the queries of all heads, before they were stacked */
        p.q = flxi_reshaped_from(g, p.q);
    if (p.scale == 1 && !p.is_grouped) {
        p.q = read_factor(g, p.q, &p.scale);
        p.scales_queries = p.scale != 1;
    }
    propose_attention(f, &p);
}
