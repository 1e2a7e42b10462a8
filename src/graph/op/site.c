/* SPDX-License-Identifier: Apache-2.0 */
/* site.c: see site.h. */
#include "graph/op/site.h"

#include "base/text/count_words.h"

/* ---- Appending ---- */

flxi_site flxi_plain_site(flx_graph *g)
{
    static const flxi_rules no_rules = {0};
    static const flxi_op transform = {.name = "transform", .operands = "", .results = "...", .rules = &no_rules};
    return (flxi_site){.g = g, .ctx = g->ctx, .op = &transform};
}

void *flxi_site_attrs(flxi_site *s)
{
    void *copy = NULL;
    flx_error err = {0};
    if (s->g->error.code)
        return NULL;
    if (flxi_attrs_clone(s->g, s->op, s->attrs, NULL, &copy, &err) != FLX_OK)
        flxi_graph_fail(s->g, &err);
    return copy;
}

void flxi_append(flxi_site *s, void *attrs, const flx_val *x, uint32_t nin, flx_val *y)
{
    flx_graph *g = s->g;
    for (uint32_t i = 0; i < s->nout; i++)
        y[i] = FLX_NONE;
    uint32_t *in = flxi_rule_new(s, uint32_t, nin);
    if (!attrs && s->attrs)
        attrs = flxi_site_attrs(s);
    if (!in || g->error.code)
        return;
    for (uint32_t i = 0; i < nin; i++)
        in[i] = x[i].id;
    uint32_t first = flxi_add_node(g, (flxi_opcode)(s->op - flxi_ops), in, nin, attrs);
    uint32_t nout = first ? flxi_node_at(g, g->node_count - 1)->nout : 0;
    for (uint32_t i = 0; i < nout && i < s->nout; i++)
        y[i] = (flx_val){first + i, g->serial};
}

flx_val flxi_emit1(flxi_site *s, void *attrs, const flx_val *x, uint32_t nin)
{
    flx_val y[1] = {FLX_NONE};
    flxi_site one = *s;
    one.nout = 1;
    flxi_append(&one, attrs, x, nin, y);
    return y[0];
}

void flxi_site_fail(flxi_site *s, flx_code code, const char *hint, const char *fmt, ...)
{
    char text[240];
    va_list args;
    va_start(args, fmt);
    flxi_format_va(text, sizeof text, fmt, args);
    va_end(args);
    const char *label = NULL;
    for (uint32_t k = 0; s->y && !label && k < s->nout; k++)
        label = s->y[k].id ? flxi_value_at(s->g, s->y[k].id)->name : NULL;
    flxi_graph_failf(s->g, code, hint, "%s%s%.60s%s: %s", s->op->name, label ? " '" : "", label ? label : "",
                     label ? "'" : "", text);
}

void *flxi_rule_alloc(flxi_site *s, size_t n, size_t size)
{
    void *p = s->g->error.code ? NULL : flxi_arena_alloc(&s->g->arena, n, size, _Alignof(max_align_t));
    if (!p && !s->g->error.code)
        flxi_graph_failf(s->g, FLX_E_OOM, NULL, "out of memory: a rule of %s", s->op->name);
    return p;
}

/* ---- Inlining ---- */

flx_code flxi_graft(flx_graph *g, const flx_graph *src, uint32_t i, uint32_t *map, flx_error *err)
{
    const flxi_node *n = flxi_node_at(src, i);
    void *attrs;
    FLXI_TRY(flxi_attrs_clone(g, &flxi_ops[n->op], n->attrs, NULL, &attrs, err));
    uint32_t *in = flxi_new(&g->arena, uint32_t, n->nin);
    if (!in)
        return flxi_oom(err, "copying a node");
    for (uint32_t k = 0; k < n->nin; k++)
        in[k] = map[n->in[k]];
    uint32_t first = flxi_add_copy(g, src, n, in, attrs);
    if (!first) {
        if (err)
            *err = g->error;
        return (flx_code)g->error.code;
    }
    for (uint32_t k = 0; k < n->nout; k++) {
        const flxi_value *v = flxi_value_at(src, n->first + k);
        map[n->first + k] = first + k;
        flxi_value_at(g, first + k)->pinned |= v->pinned;
        if (v->name)
            flxi_label(g, first + k, v->name, strlen(v->name));
    }
    return FLX_OK;
}

void flxi_inline(flx_graph *g, const flx_graph *body, const flx_val *in, flx_val *out)
{
    flx_error err = {0};
    size_t ids = (size_t)body->value_count + 1;
    uint32_t *map = g->error.code ? NULL : flxi_alloc(&g->ctx->mem, ids, sizeof *map);
    for (size_t i = 0; i < body->outputs.n; i++)
        out[i] = FLX_NONE;
    if (!map) {
        if (!g->error.code)
            flxi_graph_failf(g, FLX_E_OOM, NULL, "out of memory: inlining");
        return;
    }
    for (size_t i = 0; i < body->leaves.n; i++)
        map[body->leaves.at[i]] = in[i].id;
    flx_code code = FLX_OK;
    for (uint32_t i = 0; code == FLX_OK && i < body->node_count; i++)
        if (!(flxi_ops[flxi_node_at(body, i)->op].traits & TRAIT_DECLARED))
            code = flxi_graft(g, body, i, map, &err);
    if (code != FLX_OK)
        flxi_graph_fail(g, &err);
    for (size_t i = 0; code == FLX_OK && i < body->outputs.n; i++)
        out[i] = (flx_val){map[body->outputs.at[i].val], g->serial};
    flxi_free(&g->ctx->mem, map, ids, sizeof *map);
}

/* Subtracts the nodes of a body from `left`, with those of bodies inside of it as often as they are used; false when
   there are more. */
static bool takes_at_most(const flx_graph *body, size_t *left)
{
    if (body->node_count > *left)
        return false;
    *left -= body->node_count;
    for (uint32_t i = 0; i < body->node_count; i++) {
        const flxi_node *n = flxi_node_at(body, i);
        const flxi_rules *r = flxi_ops[n->op].rules;
        flxi_body inner;
        for (uint32_t k = 0; r->bodies && r->bodies(body, n, k, &inner); k++)
            if (inner.role != BODY_RULE && !takes_at_most(inner.graph, left))
                return false;
    }
    return true;
}

void flxi_inline_or_call(flx_graph *g, const flx_graph *body, size_t most, const flx_val *in, flx_val *out)
{
    if (takes_at_most(body, &most))
        flxi_inline(g, body, in, out);
    else
        flx_call(g, in, body->leaves.n, out, body->outputs.n, body);
}

/* ---- Values ---- */

flx_val flxi_number(flxi_site *s, flx_val like, double x)
{
    return flx_scalar(s->g, (flx_dtype)flxi_typeof(s, like)->dtype, x);
}

/* A symbolic extent as a value: the size of an axis of that extent, a constant once the symbol is bound. */
flx_val flxi_index_number(flxi_site *s, flx_dtype dtype, flx_dim d)
{
    if (flxi_dim_is_number(d))
        return flx_scalar(s->g, dtype, (double)d);
    flx_type row = flx_type_make(FLX_BOOL, 1, &d);
    return flx_cast(s->g, flx_dim_size(s->g, flxi_full(s, &row, 0.0), 0), dtype);
}

flx_val flxi_full(flxi_site *s, const flx_type *type, double x)
{
    flx_error err = {0};
    flx_type scalar = {.dtype = type->dtype};
    flx_type wide = {.dtype = FLX_F64};
    flx_val y = FLX_NONE;
    if (s->g->error.code)
        return y;
    flx_tensor *f64 = flx_tensor_new(s->ctx, &wide, &x, &err);
    flx_tensor *value = f64 ? flx_tensor_cast(f64, (flx_dtype)scalar.dtype, &err) : NULL;
    if (value)
        y = flx_full(s->g, type, value);
    else
        flxi_graph_fail(s->g, &err);
    flx_tensor_release(value);
    flx_tensor_release(f64);
    return y;
}

flx_val flxi_zeros(flxi_site *s, const flx_type *type)
{
    return flxi_full(s, type, 0.0);
}

flx_val flxi_zeros_like(flxi_site *s, flx_val v)
{
    return flxi_full(s, flxi_typeof(s, v), 0.0);
}

flx_val flxi_or_zeros(flxi_site *s, flx_val v, flx_val like)
{
    return flxi_is_none(v) ? flxi_zeros_like(s, like) : v;
}

flx_val flxi_or_zero_tangent(flxi_site *s, flx_val v, flx_val like)
{
    flx_type type = flxi_tangent_type(flxi_typeof(s, like));
    return flxi_is_none(v) ? flxi_zeros(s, &type) : v;
}

flx_val flxi_sum(flxi_site *s, flx_val a, flx_val b)
{
    if (flxi_is_none(a) || flxi_is_none(b))
        return flxi_is_none(a) ? b : a;
    return flx_add(s->g, a, b);
}

flx_val flxi_conj(flxi_site *s, flx_val v)
{
    return flxi_is_complex(flxi_typeof(s, v)->dtype) ? flx_conjugate(s->g, v) : v;
}

flx_val flxi_masked(flxi_site *s, flx_val mask, flx_val v)
{
    return flx_where(s->g, mask, v, flxi_number(s, v, 0.0));
}

void flxi_pointwise_vjp(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    for (uint32_t k = s->nin; k-- > 0;) {
        if (!s->wanted[k])
            continue;
        flx_val p = s->op->rules->mask ? s->op->rules->mask(s, k) : s->op->rules->partial(s, k);
        if (flxi_is_none(p))
            continue;
        dx[k] = s->op->rules->mask ? flxi_masked(s, p, dy[0]) : flx_mul(s->g, dy[0], flxi_conj(s, p));
    }
}

/* ---- Shapes ---- */

flx_val flxi_reshape_to(flxi_site *s, flx_val v, int rank, const flx_dim *dims)
{
    const flx_type *t = flxi_typeof(s, v);
    if (t->rank == rank && (rank == 0 || memcmp(t->dims, dims, (size_t)rank * sizeof *dims) == 0))
        return v;
    flx_dim none = 0;
    return flx_reshape(s->g, v, (flx_ints){rank ? dims : &none, (size_t)rank});
}

flx_val flxi_expand_to(flxi_site *s, flx_val v, int rank, const flx_dim *dims)
{
    const flx_type *t = flxi_typeof(s, v);
    if (t->rank == rank && (rank == 0 || memcmp(t->dims, dims, (size_t)rank * sizeof *dims) == 0))
        return v;
    flx_dim none = 0;
    return flx_expand(s->g, v, (flx_ints){rank ? dims : &none, (size_t)rank});
}

flx_val flxi_expand_like(flxi_site *s, flx_val v, const flx_type *type)
{
    return flxi_expand_to(s, v, type->rank, type->dims);
}

flx_val flxi_sum_axes(flxi_site *s, flx_val v, flx_ints axes, bool keep_dims)
{
    return axes.n ? flx_reduce_sum(s->g, v, axes, keep_dims) : v;
}

flx_val flxi_unbroadcast(flxi_site *s, flx_val v, const flx_type *to)
{
    int64_t axes[FLX_MAX_RANK];
    flx_type from = *flxi_typeof(s, v);
    int extra = from.rank - to->rank;
    size_t n = 0;
    for (int k = 0; k < extra; k++)
        axes[n++] = k;
    v = flxi_sum_axes(s, v, (flx_ints){axes, n}, false);
    n = 0;
    for (int k = 0; k < to->rank; k++)
        if (to->dims[k] == 1 && extra + k >= 0 && from.dims[extra + k] != 1)
            axes[n++] = k;
    return flxi_sum_axes(s, v, (flx_ints){axes, n}, true);
}

flx_val flxi_move_axis(flxi_site *s, flx_val v, int from, int to)
{
    int64_t perm[FLX_MAX_RANK];
    int rank = flxi_typeof(s, v)->rank;
    if (from == to)
        return v;
    int source = 0;
    for (int k = 0; k < rank; k++) {
        if (k == to) {
            perm[k] = from;
            continue;
        }
        if (source == from)
            source++;
        perm[k] = source++;
    }
    return flx_transpose(s->g, v, (flx_ints){perm, (size_t)rank});
}

flx_val flxi_unreduce(flxi_site *s, flx_val v, flx_ints axes, bool keep_dims, const flx_type *type)
{
    flx_dim dims[FLX_MAX_RANK];
    for (int k = 0; k < type->rank; k++)
        dims[k] = type->dims[k];
    for (size_t i = 0; i < axes.n; i++)
        dims[axes.v[i]] = 1;
    if (!keep_dims)
        v = flxi_reshape_to(s, v, type->rank, dims);
    return flxi_expand_like(s, v, type);
}

/* ---- Batching ---- */

void flxi_shift_axes(flxi_site *s, flx_ints *axes)
{
    int64_t *own = flxi_dup(&s->g->arena, int64_t, axes->v, axes->n);
    if (!own) {
        flxi_graph_failf(s->g, FLX_E_OOM, NULL, "out of memory: a rule");
        return;
    }
    for (size_t i = 0; i < axes->n; i++)
        own[i]++;
    axes->v = own;
}

int flxi_example_rank(const flxi_site *s, uint32_t i)
{
    return flxi_typeof(s, s->x[i])->rank - (s->batched[i] ? 1 : 0);
}

flx_val flxi_lift(flxi_site *s, uint32_t i)
{
    flx_dim dims[FLX_MAX_RANK];
    const flx_type *t = flxi_typeof(s, s->x[i]);
    if (s->batched[i])
        return s->x[i];
    if (t->rank == FLX_MAX_RANK) {
        flxi_site_fail(s, FLX_E_SIZE, NULL, "adding a batch axis to a tensor of rank %d exceeds the rank limit",
                       t->rank);
        return FLX_NONE;
    }
    dims[0] = s->size;
    for (int k = 0; k < t->rank; k++)
        dims[k + 1] = t->dims[k];
    return flxi_expand_to(s, s->x[i], t->rank + 1, dims);
}

flx_val flxi_align(flxi_site *s, flx_val v, bool batched, int rank)
{
    flx_dim dims[FLX_MAX_RANK];
    flx_type t = *flxi_typeof(s, v);
    int gap = rank - (t.rank - 1);
    if (!batched || gap <= 0)
        return v;
    if (rank + 1 > FLX_MAX_RANK) {
        flxi_site_fail(s, FLX_E_SIZE, NULL, "adding a batch axis to a tensor of rank %d exceeds the rank limit", rank);
        return FLX_NONE;
    }
    dims[0] = t.dims[0];
    for (int k = 1; k <= rank; k++)
        dims[k] = k <= gap ? 1 : t.dims[k - gap];
    return flxi_reshape_to(s, v, rank + 1, dims);
}
