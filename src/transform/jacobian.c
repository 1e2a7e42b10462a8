/* jacobian.c: Jacobians, Hessians and n-th gradients, made of the other transforms.

   Forward: the jvp is batched over its tangent and run once on all basis vectors. Reverse: the vjp is batched over its seed. With
   a chunk size the basis is cut into chunks and a scan runs over them, so that only a chunk's worth of memory is used at a time.
   The result is an ordinary graph with the inputs of the given one. */
#include "transform/transform.h"

#include <fluxion/text.h>
#include <stdio.h>

/* ---- Calling a finished graph inside another ---- */

typedef struct {
    const char *name;
    flx_val value;
} named_value;

/* Inlines `callee` into g: the inputs in `given` by name, the others from g's inputs of the same name. */
static flx_code call(flx_graph *g, const flx_graph *callee, const named_value *given, size_t n, flx_val *out,
                     flx_error *err)
{
    flx_val *in = flxi_new(&g->arena, flx_val, callee->leaves.n);
    if (!in)
        return flxi_oom(err, "a Jacobian");
    for (size_t i = 0; i < callee->leaves.n; i++) {
        const char *name = flxi_value_at(callee, callee->leaves.at[i])->name;
        in[i] = flx_graph_find(g, name);
        for (size_t k = 0; k < n; k++)
            if (strcmp(given[k].name, name) == 0)
                in[i] = given[k].value;
    }
    flxi_inline(g, callee, in, out);
    return flxi_built(g, err);
}

static flx_dim product_of(flx_context *ctx, const flx_type *t)
{
    return flxi_dims_product(ctx, t, 0, t->rank);
}

/* ---- One block: all basis vectors of one value ---- */

typedef struct {
    flx_graph *g;         /* being built */
    const flx_graph *one; /* one column (row): takes a basis vector as the input `seed` */
    char seed[300];
    const flx_type *basis; /* type of the value whose basis is walked */
    int64_t chunk;         /* 0: all at once */
    flx_error *err;
} block;

/* Rows [0, n) of the identity as n tensors of the basis' shape; complex ones count real and imaginary directions apart. */
static flx_val identity_rows(flxi_site *s, const flx_type *t, flx_dim n)
{
    flx_dim dims[FLX_MAX_RANK];
    flx_val rows = flx_eye(s->g, n, n, 0, (flx_dtype)t->dtype);
    if (t->rank == FLX_MAX_RANK) {
        flxi_graph_failf(s->g, FLX_E_SIZE, NULL, "a Jacobian of a tensor of rank %d exceeds the limit", t->rank);
        return FLX_NONE;
    }
    dims[0] = n;
    memcpy(dims + 1, t->dims, (size_t)t->rank * sizeof *dims);
    return flxi_reshape_to(s, rows, t->rank + 1, dims);
}

static flx_graph *batch_over(const block *b, flx_dim size)
{
    flx_vmap_axis axis = {b->seed, 0};
    return flx_vmap(b->one, &axis, 1, NULL, 0, size, b->err);
}

static flx_code run_at_once(block *b, flx_dim n, flx_val *out)
{
    flxi_site s = {.g = b->g, .ctx = b->g->ctx, .op = &flxi_ops[OP_add]};
    flx_graph *all = batch_over(b, n);
    if (!all)
        return (flx_code)b->err->code;
    named_value seed = {b->seed, identity_rows(&s, b->basis, n)};
    flx_code code = call(b->g, all, &seed, 1, out, b->err);
    flx_graph_free(all);
    return code;
}

/* A scan over chunks of the basis; the inputs of the graph are broadcast to every step. */
static flx_code run_in_chunks(block *b, int64_t n, flx_val *out)
{
    flxi_site s = {.g = b->g, .ctx = b->g->ctx, .op = &flxi_ops[OP_add]};
    int64_t chunks = n / b->chunk;
    flx_graph *some = batch_over(b, b->chunk);
    if (!some)
        return (flx_code)b->err->code;
    size_t leaves = some->leaves.n;
    flx_val *in = flxi_new(&b->g->arena, flx_val, leaves);
    flx_val rows = identity_rows(&s, b->basis, n);
    flx_type t = *flxi_typeof(&s, rows);
    flx_dim dims[FLX_MAX_RANK + 1];
    flx_code code = in && t.rank < FLX_MAX_RANK ? FLX_OK : flxi_fail(b->err, FLX_E_SIZE, "the rank is too large to chunk");
    if (code == FLX_OK) {
        dims[0] = chunks;
        dims[1] = b->chunk;
        memcpy(dims + 2, t.dims + 1, (size_t)(t.rank - 1) * sizeof *dims);
        size_t at = 0;
        size_t seed_at = 0;
        for (size_t i = 0; i < leaves; i++) {
            const char *name = flxi_value_at(some, some->leaves.at[i])->name;
            if (strcmp(name, b->seed) == 0)
                seed_at = i;
            else
                in[at++] = flx_graph_find(b->g, name);
        }
        in[at] = flxi_reshape_to(&s, rows, t.rank + 1, dims);
        flx_graph *body = flxi_last_input(some, seed_at, b->err);
        if (body) {
            flx_scan_attrs a = FLX_SCAN_ATTRS;
            a.body = body;
            a.num_carry = 0;
            a.num_bcast = (int64_t)leaves - 1;
            flx_scan(b->g, in, leaves, &a, out, some->outputs.n);
        }
        code = body ? flxi_built(b->g, b->err) : (flx_code)b->err->code;
        flx_graph_free(body);
    }
    for (size_t k = 0; code == FLX_OK && k < some->outputs.n; k++) { /* [chunks, chunk, …] → [n, …] */
        flx_type y = *flxi_typeof(&s, out[k]);
        flx_dim flat[FLX_MAX_RANK] = {n};
        memcpy(flat + 1, y.dims + 2, (size_t)(y.rank - 2) * sizeof *flat);
        out[k] = flxi_reshape_to(&s, out[k], y.rank - 1, flat);
    }
    flx_graph_free(some);
    return code;
}

static flx_code run_block(block *b, flx_val *out)
{
    flx_dim n = product_of(b->g->ctx, b->basis);
    bool chunked = b->chunk > 0 && flxi_dim_is_number(n) && n > b->chunk;
    while (chunked && n % b->chunk) /* equal chunks: the largest size that divides the whole */
        b->chunk--;
    return chunked ? run_in_chunks(b, n, out) : run_at_once(b, n, out);
}

/* ---- Outputs ---- */

/* From [n, a…] with n = b… to a… ++ b…, or the other way round when the basis is that of the output (reverse). */
static flx_val shape_block(flxi_site *s, flx_val v, const flx_type *basis, const flx_type *other, bool basis_first)
{
    flx_dim dims[2 * FLX_MAX_RANK];
    int rank = basis->rank + other->rank;
    if (rank > FLX_MAX_RANK) {
        flxi_graph_failf(s->g, FLX_E_SIZE, NULL, "a Jacobian of rank %d exceeds the limit %d", rank, FLX_MAX_RANK);
        return FLX_NONE;
    }
    const flx_type *first = basis_first ? basis : other;
    const flx_type *second = basis_first ? other : basis;
    memcpy(dims, first->dims, (size_t)first->rank * sizeof *dims);
    memcpy(dims + first->rank, second->dims, (size_t)second->rank * sizeof *dims);
    if (!basis_first)
        v = flxi_move_axis(s, v, 0, other->rank);
    return flxi_reshape_to(s, v, rank, dims);
}

typedef struct {
    const flx_graph *g;
    flx_graph *out;
    const char *const *wrt;
    size_t count;
    flx_val *blocks; /* [output][input] */
    const char *prefix;
    int64_t chunk;
    flx_error *err;
} jacobian_work;

static const flx_type *wrt_type(const jacobian_work *w, size_t i)
{
    return flx_val_type(w->g, flx_graph_find(w->g, w->wrt[i]));
}

static const flx_type *output_type(const jacobian_work *w, size_t k)
{
    return flxi_type_at(w->g, w->g->outputs.at[k].val);
}

/* All outputs by input i: one batched jvp. */
static flx_code forward_column(jacobian_work *w, size_t i)
{
    size_t outputs = w->g->outputs.n;
    flx_graph *jvp = flx_jvp(w->g, &w->wrt[i], 1, w->err);
    flx_val *out = flxi_new(&w->out->arena, flx_val, 2 * outputs);
    if (!jvp || !out) {
        flx_graph_free(jvp);
        return jvp ? flxi_oom(w->err, "a Jacobian") : (flx_code)w->err->code;
    }
    block b = {.g = w->out, .one = jvp, .basis = wrt_type(w, i), .chunk = w->chunk, .err = w->err};
    snprintf(b.seed, sizeof b.seed, "%s", flxi_value_at(jvp, jvp->leaves.at[jvp->leaves.n - 1])->name);
    flx_code code = run_block(&b, out);
    flxi_site s = {.g = w->out, .ctx = w->out->ctx, .op = &flxi_ops[OP_add]};
    for (size_t k = 0; code == FLX_OK && k < outputs; k++)
        w->blocks[k * w->count + i] = shape_block(&s, out[outputs + k], b.basis, output_type(w, k), false);
    flx_graph_free(jvp);
    return code == FLX_OK ? flxi_built(w->out, w->err) : code;
}

/* Output k by all inputs: one batched vjp. */
static flx_code reverse_row(jacobian_work *w, size_t k)
{
    flxi_choice choice = {.output = k};
    flx_grad_options o = {.flags = FLX_GRAD_SEED_INPUT | FLX_GRAD_MISSING_ZERO};
    flx_graph *alone = flxi_choose_outputs(w->g, &choice, 1, w->err);
    flx_graph *vjp = alone ? flx_grad(alone, w->wrt, w->count, &o, w->err) : NULL;
    flx_val *out = flxi_new(&w->out->arena, flx_val, w->count);
    flx_code code = vjp && out ? FLX_OK : vjp ? flxi_oom(w->err, "a Jacobian") : (flx_code)w->err->code;
    if (code == FLX_OK) {
        block b = {.g = w->out, .one = vjp, .basis = output_type(w, k), .chunk = w->chunk, .err = w->err};
        snprintf(b.seed, sizeof b.seed, "%s", flxi_value_at(vjp, vjp->leaves.at[vjp->leaves.n - 1])->name);
        code = run_block(&b, out);
        flxi_site s = {.g = w->out, .ctx = w->out->ctx, .op = &flxi_ops[OP_add]};
        for (size_t i = 0; code == FLX_OK && i < w->count; i++)
            w->blocks[k * w->count + i] = shape_block(&s, out[i], b.basis, wrt_type(w, i), true);
    }
    flx_graph_free(alone);
    flx_graph_free(vjp);
    return code == FLX_OK ? flxi_built(w->out, w->err) : code;
}

/* Forward where there are no more inputs than outputs. A symbol counts as more than any number. */
static bool prefers_forward(const jacobian_work *w)
{
    flx_dim in = 0;
    flx_dim out = 0;
    for (size_t i = 0; i < w->count; i++)
        in = flx_dim_add(w->g->ctx, in, product_of(w->g->ctx, wrt_type(w, i)));
    for (size_t k = 0; k < w->g->outputs.n; k++)
        out = flx_dim_add(w->g->ctx, out, product_of(w->g->ctx, output_type(w, k)));
    if (!flxi_dim_is_number(in) || !flxi_dim_is_number(out))
        return !flxi_dim_is_number(out);
    return in <= out;
}

static flx_code name_blocks(jacobian_work *w)
{
    for (size_t k = 0; k < w->g->outputs.n; k++)
        for (size_t i = 0; i < w->count; i++) {
            char name[300];
            const char *output = w->g->outputs.at[k].name;
            bool hessian = strcmp(w->prefix, "hessian") == 0; /* outputs are then called d_<input> */
            snprintf(name, sizeof name, "%s_%.120s_%.120s", w->prefix, hessian ? output + 2 : output, w->wrt[i]);
            flx_output(w->out, w->blocks[k * w->count + i], name);
        }
    return flxi_built(w->out, w->err);
}

static flx_code check_outputs(const jacobian_work *w)
{
    for (size_t i = 0; i < w->count; i++) {
        uint32_t id;
        FLXI_TRY(flxi_find_wrt(w->g, w->wrt[i], &id, w->err));
        if (flxi_is_complex(flxi_type_at(w->g, id)->dtype))
            return flxi_fail_hint(w->err, FLX_E_UNSUPPORTED, "take real and imaginary parts as inputs",
                                  "'%s' is complex: its Jacobian is not one complex matrix", w->wrt[i]);
    }
    for (size_t k = 0; k < w->g->outputs.n; k++)
        if (!flxi_is_float(output_type(w, k)->dtype))
            return flxi_fail(w->err, FLX_E_NOT_DIFFERENTIABLE, "the output '%s' has no Jacobian: its dtype is %s",
                             w->g->outputs.at[k].name, flx_dtype_name(output_type(w, k)->dtype));
    return FLX_OK;
}

static flx_code build_jacobian(jacobian_work *w, uint32_t mode)
{
    char name[300];
    uint32_t *map = flxi_alloc(&w->g->ctx->mem, (size_t)w->g->value_count + 1, sizeof *map);
    snprintf(name, sizeof name, "%.250s_%s", w->g->name, w->prefix);
    w->out = flx_graph_new(w->g->ctx, name);
    flx_code code = w->out && map ? flxi_copy_leaves(w->g, w->out, map, w->err) : flxi_oom(w->err, "a Jacobian");
    flxi_free(&w->g->ctx->mem, map, (size_t)w->g->value_count + 1, sizeof *map);
    FLXI_TRY(code);
    w->blocks = flxi_new(&w->out->arena, flx_val, w->g->outputs.n * w->count);
    if (!w->blocks)
        return flxi_oom(w->err, "a Jacobian");
    FLXI_TRY(check_outputs(w));
    bool forward = mode == FLX_JACOBIAN_FORWARD || (mode != FLX_JACOBIAN_REVERSE && prefers_forward(w));
    for (size_t i = 0; forward && i < w->count; i++)
        FLXI_TRY(forward_column(w, i));
    for (size_t k = 0; !forward && k < w->g->outputs.n; k++)
        FLXI_TRY(reverse_row(w, k));
    FLXI_TRY(name_blocks(w));
    return flxi_finish(&w->out, w->err);
}

static flx_graph *jacobian(const flx_graph *g, const char *const *wrt, size_t count, const char *prefix, uint32_t mode,
                           int64_t chunk, flx_error *err)
{
    jacobian_work w = {.g = g, .wrt = wrt, .count = count, .prefix = prefix, .chunk = chunk, .err = err};
    flx_code code = build_jacobian(&w, mode);
    if (code != FLX_OK) {
        flx_graph_free(w.out);
        return NULL;
    }
    return w.out;
}

flx_graph *flx_jacobian(const flx_graph *g, const char *const *wrt, size_t count, const flx_jacobian_options *options,
                        flx_error *err)
{
    flx_error local = {0};
    flx_graph *out = NULL;
    if (flx_graph_error(g, &local) == FLX_OK) {
        if (!count || !wrt)
            flxi_fail(&local, FLX_E_USAGE, "flx_jacobian: name at least one input to differentiate by");
        else
            out = jacobian(g, wrt, count, "jac", options ? options->mode : 0, options ? options->chunk : 0, &local);
    }
    if (!out) {
        flxi_in_transform(&local, "jacobian", g);
        if (err)
            *err = local;
    }
    return out;
}

flx_graph *flx_hessian(const flx_graph *g, const char *const *wrt, size_t count, const flx_jacobian_options *options,
                       flx_error *err)
{
    flx_error local = {0};
    flx_graph *out = NULL;
    flxi_choice loss = {.output = 0};
    flx_graph *alone = flx_graph_error(g, &local) == FLX_OK && g->outputs.n ? flxi_choose_outputs(g, &loss, 1, &local) : NULL;
    flx_graph *gradient = alone ? flx_grad(alone, wrt, count, NULL, &local) : NULL;
    if (gradient)
        out = jacobian(gradient, wrt, count, "hessian", options ? options->mode : FLX_JACOBIAN_FORWARD,
                       options ? options->chunk : 0, &local);
    else if (!alone && local.code == FLX_OK)
        flxi_fail(&local, FLX_E_USAGE, "the graph has no output to differentiate");
    flx_graph_free(alone);
    flx_graph_free(gradient);
    if (!out) {
        flxi_in_transform(&local, "hessian", g);
        if (err)
            *err = local;
    }
    return out;
}

/* ---- n-th gradients ---- */

/* <1, output 0> as the loss of the next level. */
static flx_graph *summed(const flx_graph *g, flx_error *err)
{
    flx_graph *out = flx_graph_new(g->ctx, g->name);
    uint32_t *map = flxi_alloc(&g->ctx->mem, (size_t)g->value_count + 1, sizeof *map);
    flx_code code = out && map ? flxi_copy_leaves(g, out, map, err) : flxi_oom(err, "a gradient");
    for (uint32_t i = 0; code == FLX_OK && i < g->node_count; i++)
        if (!(flxi_ops[flxi_node_at(g, i)->op].traits & TRAIT_DECLARED))
            code = flxi_graft(out, g, i, map, err);
    if (code == FLX_OK) {
        flx_output(out, flx_reduce_sum(out, (flx_val){map[g->outputs.at[0].val], out->serial}, FLX_ALL, 0), "sum");
        code = flxi_built(out, err);
    }
    flxi_free(&g->ctx->mem, map, (size_t)g->value_count + 1, sizeof *map);
    if (code == FLX_OK)
        return out;
    flx_graph_free(out);
    return NULL;
}

flx_graph *flx_nth_grad(const flx_graph *g, const char *wrt, int32_t n, flx_error *err)
{
    flx_error local = {0};
    flxi_choice first = {.output = 0};
    flx_graph *now = NULL;
    if (flx_graph_error(g, &local) == FLX_OK && g->outputs.n && wrt && n >= 0)
        now = flxi_choose_outputs(g, &first, 1, &local);
    else if (local.code == FLX_OK)
        flxi_fail(&local, FLX_E_USAGE, "flx_nth_grad: a graph with an output, a name and an order of 0 or more are needed");
    for (int32_t k = 1; now && k <= n; k++) {
        flx_grad_options o = {.flags = k > 1 ? FLX_GRAD_MISSING_ZERO : 0}; /* a level may no longer depend on it */
        flx_graph *loss = k > 1 ? summed(now, &local) : flx_graph_retain(now);
        flx_graph *next = loss ? flx_grad(loss, &wrt, 1, &o, &local) : NULL;
        flx_graph_free(loss);
        flx_graph_free(now);
        now = next;
    }
    if (now && n > 0) {
        flxi_choice named = {.output = 0};
        snprintf(named.name, sizeof named.name, "d%d_%.250s", (int)n, wrt);
        flx_graph *renamed = flxi_choose_outputs(now, &named, 1, &local);
        flx_graph_free(now);
        now = renamed;
    }
    if (!now) {
        flxi_in_transform(&local, "nth_grad", g);
        if (err)
            *err = local;
    }
    return now;
}
