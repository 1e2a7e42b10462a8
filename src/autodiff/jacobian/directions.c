/* SPDX-License-Identifier: Apache-2.0 */
/* directions.c: one graph that takes a direction, run on many of them: batched over all at once, or chunk by chunk in a
   scan, so that memory for only one chunk is used at a time. Inside the scan, a step makes its own directions from its
   index; the whole set never exists. */
#include "autodiff/jacobian/jacobian.h"

#include <stdio.h>

/* ---- Colours ---- */

/* Below this, following each direction separately costs less than separating them afterwards. */
static const int64_t few_directions = 16;

static flx_dim colours_of_axis(const flxi_directions *d, int axis)
{
    return d->width[axis] ? d->width[axis] : d->type->dims[axis];
}

void flxi_count_colours(flx_context *ctx, flxi_directions *d)
{
    flx_dim elements = flxi_dims_product(ctx, d->type, 0, d->type->rank);
    d->colours = 1;
    for (int k = 0; k < d->type->rank; k++)
        d->colours = flx_dim_mul(ctx, d->colours, colours_of_axis(d, k));
    bool is_known = flxi_dim_is_number(elements) && flxi_dim_is_number(d->colours);
    if (!is_known || (elements >= few_directions && d->colours <= elements / 2))
        return;
    d->colours = elements;
    memset(d->width, 0, sizeof d->width);
}

static bool is_dense(const flxi_directions *d)
{
    for (int k = 0; k < d->type->rank; k++)
        if (d->width[k])
            return false;
    return true;
}

/* The position of every element along one axis, in the shape of the type. */
static flx_val positions(flxi_site *s, const flx_type *type, int axis)
{
    flx_type t = *type;
    t.dtype = FLX_I64;
    return flx_iota(s->g, &t, axis);
}

/* The colour of every element: its positions, each modulo its axis' width, as digits of one number. */
static flx_val colour_of_each(flxi_site *s, const flxi_directions *d)
{
    flx_graph *g = s->g;
    flx_val sum = FLX_NONE;
    flx_dim unit = 1;
    for (int k = d->type->rank; k-- > 0;) {
        if (d->width[k] == 1)
            continue;
        flx_val digit = positions(s, d->type, k);
        if (d->width[k])
            digit = flx_rem(g, digit, flx_scalar(g, FLX_I64, (double)d->width[k]));
        if (unit != 1)
            digit = flx_mul(g, digit, flxi_index_number(s, FLX_I64, unit));
        sum = flxi_sum(s, digit, sum);
        unit = flx_dim_mul(s->ctx, unit, colours_of_axis(d, k));
    }
    if (flxi_is_none(sum)) {
        flx_type t = *d->type;
        t.dtype = FLX_I64;
        sum = flxi_zeros(s, &t);
    }
    return sum;
}

/* A tensor of the basis' shape for each row, which holds a colour: ones where elements have it. */
static flx_val directions_of(flxi_site *s, const flxi_directions *d, flx_val rows, flx_dim count)
{
    flx_dim dims[FLX_MAX_RANK] = {count};
    for (int k = 0; k < d->type->rank; k++)
        dims[k + 1] = 1;
    flx_val column = flxi_reshape_to(s, rows, d->type->rank + 1, dims);
    return flx_cast(s->g, flx_eq(s->g, column, colour_of_each(s, d)), (flx_dtype)d->type->dtype);
}

static flx_val all_directions(flxi_site *s, const flxi_directions *d)
{
    flx_dim dims[FLX_MAX_RANK] = {d->colours};
    memcpy(dims + 1, d->type->dims, (size_t)d->type->rank * sizeof *dims);
    if (is_dense(d))
        return flxi_reshape_to(s, flx_eye(s->g, d->colours, d->colours, 0, (flx_dtype)d->type->dtype),
                               d->type->rank + 1, dims);
    if (d->colours == 1) {
        flx_type t = flx_type_make((flx_dtype)d->type->dtype, d->type->rank + 1, dims);
        return flxi_full(s, &t, 1.0);
    }
    flx_type row = flx_type_make(FLX_I64, 1, &d->colours);
    return directions_of(s, d, flx_iota(s->g, &row, 0), d->colours);
}

static flx_val shifted(flx_graph *g, flx_val positions, int64_t by)
{
    return by ? flx_add(g, positions, flx_scalar(g, FLX_I64, (double)by)) : positions;
}

/* Whether the position of each element along one axis is in the band around that of the other value. */
static flx_val within_tie(flxi_site *s, const flxi_directions *d, const flxi_tie *t, const flx_type *other, flx_dim n)
{
    flx_graph *g = s->g;
    flx_dim column[FLX_MAX_RANK] = {n};
    flx_dim row[FLX_MAX_RANK] = {other->dims[t->to]};
    for (int k = 1; k <= other->rank; k++)
        column[k] = 1;
    for (int k = 1; k < other->rank - t->to; k++)
        row[k] = 1;
    flx_type line = flx_type_make(FLX_I64, 1, row);
    flx_val mine = flxi_reshape_to(s, positions(s, d->type, t->of), other->rank + 1, column);
    flx_val its = flxi_reshape_to(s, flx_iota(g, &line, 0), other->rank - t->to, row);
    if (t->lo == t->hi)
        return flx_eq(g, mine, shifted(g, its, t->lo));
    return flx_and(g, flx_ge(g, mine, shifted(g, its, t->lo)), flx_le(g, mine, shifted(g, its, t->hi)));
}

flx_val flxi_spread_colours(flxi_site *s, const flxi_directions *d, flx_val v, const flxi_tie *ties, size_t n)
{
    flx_type other = *flxi_typeof(s, v); /* [colours, other…] */
    flx_dim elements = flxi_dims_product(s->ctx, d->type, 0, d->type->rank);
    if (is_dense(d))
        return v;
    other.rank--;
    memmove(other.dims, other.dims + 1, (size_t)other.rank * sizeof(flx_dim));
    if (d->colours != 1) {
        flx_val colour = flxi_reshape_to(s, colour_of_each(s, d), 1, &elements);
        v = flx_gather(s->g, v, colour, 0, NULL);
    }
    flx_val mask = FLX_NONE;
    for (size_t i = 0; i < n; i++) {
        flx_val one = within_tie(s, d, &ties[i], &other, elements);
        mask = i ? flx_and(s->g, mask, one) : one;
    }
    flx_dim dims[FLX_MAX_RANK] = {elements};
    memcpy(dims + 1, other.dims, (size_t)other.rank * sizeof *dims);
    return flxi_expand_to(s, flxi_masked(s, mask, v), other.rank + 1, dims);
}

/* ---- Running ---- */

/* Inlines `callee` into g: the seed as given, the other inputs from g's inputs of the same name. */
static flx_code call(flx_graph *g, const flx_graph *callee, const char *seed, flx_val value, flx_val *out,
                     flx_error *err)
{
    flx_val *in = flxi_new(&g->arena, flx_val, callee->leaves.n);
    if (!in)
        return flxi_oom(err, "a Jacobian");
    for (size_t i = 0; i < callee->leaves.n; i++) {
        const char *name = flxi_value_at(callee, callee->leaves.at[i])->name;
        in[i] = strcmp(name, seed) == 0 ? value : flx_graph_find(g, name);
    }
    flxi_inline(g, callee, in, out);
    return flxi_built(g, err);
}

static flx_graph *batch_over_seed(const flxi_many *m, flx_dim size)
{
    flx_vmap_axis axis = {m->seed, 0};
    return flx_vmap(m->one, &axis, 1, NULL, 0, size, m->err);
}

static flx_code run_at_once(flxi_many *m, flx_val *out)
{
    flxi_site s = flxi_plain_site(m->g);
    flx_graph *all = batch_over_seed(m, m->along.colours);
    if (!all)
        return (flx_code)m->err->code;
    flx_code code = call(m->g, all, m->seed, all_directions(&s, &m->along), out, m->err);
    flx_graph_release(all);
    return code;
}

/* One step: the inputs of the graph, then the step's index. */
static flx_graph *chunk_body(flxi_many *m, const flx_graph *some)
{
    flx_graph *g = flx_graph_new(m->g->ctx, "chunk");
    flx_val *out = g ? flxi_new(&g->arena, flx_val, some->outputs.n) : NULL;
    if (!out) {
        flxi_oom(m->err, "a Jacobian");
        flx_graph_release(g);
        return NULL;
    }
    flxi_site s = flxi_plain_site(g);
    flx_type number = {.dtype = FLX_I64};
    flx_dim count = m->chunk;
    flx_type row = flx_type_make(FLX_I64, 1, &count);
    for (size_t i = 0; i < some->leaves.n; i++) {
        const flxi_value *v = flxi_value_at(some, some->leaves.at[i]);
        if (strcmp(v->name, m->seed) != 0)
            flx_input(g, v->name, v->type);
    }
    flx_val step = flxi_new_leaf(g, "step", "", &number);
    flx_val first = flx_mul(g, step, flx_scalar(g, FLX_I64, (double)count));
    flx_val rows = flx_add(g, flx_iota(g, &row, 0), first);
    flx_code code = call(g, some, m->seed, directions_of(&s, &m->along, rows, count), out, m->err);
    for (size_t k = 0; k < some->outputs.n; k++)
        flx_output(g, out[k], NULL);
    if (code == FLX_OK)
        code = flxi_finish(&g, m->err);
    else
        flx_graph_release(g);
    return code == FLX_OK ? g : NULL;
}

/* From [chunks, chunk, …] to [colours, …]; the last chunk may hold colours that do not exist. */
static flx_val join_chunks(flxi_site *s, const flxi_many *m, flx_val v, flx_dim chunks)
{
    flx_type t = *flxi_typeof(s, v);
    flx_dim rows = flx_dim_mul(s->ctx, chunks, m->chunk);
    flx_dim dims[FLX_MAX_RANK] = {rows};
    if (s->g->error.code)
        return FLX_NONE;
    memcpy(dims + 1, t.dims + 2, (size_t)(t.rank - 2) * sizeof *dims);
    v = flxi_reshape_to(s, v, t.rank - 1, dims);
    return rows == m->along.colours ? v : flx_narrow(s->g, v, 0, 0, m->along.colours);
}

static flx_code run_in_chunks(flxi_many *m, flx_dim chunks, flx_val *out)
{
    flxi_site s = flxi_plain_site(m->g);
    flx_graph *some = batch_over_seed(m, m->chunk);
    flx_graph *body = some ? chunk_body(m, some) : NULL;
    flx_val *in = body ? flxi_new(&m->g->arena, flx_val, body->leaves.n) : NULL;
    flx_code code = in ? FLX_OK : body ? flxi_oom(m->err, "a Jacobian") : (flx_code)m->err->code;
    if (code == FLX_OK) {
        size_t n = body->leaves.n;
        flx_type steps = flx_type_make(FLX_I64, 1, &chunks);
        flx_scan_attrs a = FLX_SCAN_ATTRS;
        for (size_t i = 0; i + 1 < n; i++)
            in[i] = flx_graph_find(m->g, flxi_value_at(body, body->leaves.at[i])->name);
        in[n - 1] = flx_iota(m->g, &steps, 0);
        a.body = body;
        a.num_carry = 0;
        a.num_bcast = (int64_t)n - 1;
        flx_scan_with(m->g, in, n, out, some->outputs.n, &a);
        for (size_t k = 0; k < some->outputs.n; k++)
            out[k] = join_chunks(&s, m, out[k], chunks);
        code = flxi_built(m->g, m->err);
    }
    flx_graph_release(body);
    flx_graph_release(some);
    return code;
}

/* As few chunks as the limits allow, all of equal size. */
static flx_code choose_chunk(flxi_many *m, flx_dim *chunks)
{
    flx_dim n = m->along.colours;
    int64_t most = m->chunk > 0 ? m->chunk : INT64_MAX;
    if (m->budget > 0) {
        int64_t fit;
        FLXI_TRY(flxi_copies_within(m->one, flx_graph_find(m->one, m->seed).id, m->budget, &fit, m->err));
        most = fit < most ? fit : most;
    }
    *chunks = 1;
    if (most == INT64_MAX || (flxi_dim_is_number(n) && n <= most))
        return FLX_OK;
    *chunks = flxi_dim_ceil_div(m->g->ctx, n, most);
    m->chunk = flxi_dim_is_number(n) ? flxi_dim_ceil_div(m->g->ctx, n, *chunks) : most;
    return FLX_OK;
}

flx_code flxi_run_many(flxi_many *m, flx_val *out)
{
    flx_dim chunks;
    if (m->along.type->rank + 2 > FLX_MAX_RANK)
        return flxi_fail(m->err, FLX_E_SIZE, "the Jacobian of a tensor of rank %d exceeds the rank limit",
                         m->along.type->rank);
    FLXI_TRY(choose_chunk(m, &chunks));
    return chunks == 1 ? run_at_once(m, out) : run_in_chunks(m, chunks, out);
}
