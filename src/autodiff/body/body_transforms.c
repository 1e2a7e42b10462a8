/* SPDX-License-Identifier: Apache-2.0 */
/* body_transforms.c: the transforms of sub-graphs for the rules of control flow; see site.h for what each returns. Each
   question about a body is answered once (body_memo.h). */
#include "autodiff/autodiff.h"
#include "autodiff/body/split_body.h"
#include "autodiff/masks.h"

/* Common start of the first three: the prepared body, an empty graph and a map. */
typedef struct {
    flx_graph *prepared;
    flx_graph *g;
    uint32_t *map;
    flx_val *vals; /* by id: cotangents or tangents */
    bool *flags;   /* by id: wrt, or batched */
    size_t ids;
    const flxi_allocator *mem;
    flx_error err;
} work;

static flx_code work_begin(work *w, const flx_graph *body, flxi_mode mode)
{
    w->mem = &body->ctx->mem;
    FLXI_TRY(flxi_prepare(body, mode, &w->prepared, NULL, &w->err));
    w->ids = (size_t)w->prepared->value_count + 1;
    w->g = flx_graph_new(body->ctx, body->name);
    w->map = flxi_alloc(w->mem, w->ids, sizeof *w->map);
    w->vals = flxi_alloc(w->mem, w->ids, sizeof *w->vals);
    w->flags = flxi_alloc(w->mem, w->ids, sizeof *w->flags);
    return w->g && w->map && w->vals && w->flags ? FLX_OK : flxi_oom(&w->err, "transforming a body");
}

/* What is known of a question; NULL: nothing. The caller holds what it returns. */
static flx_graph *recall(const flxi_site *s, const flxi_question *q, bool *out)
{
    const flxi_answer *a = flxi_memo_find(s->memo, q);
    if (a && a->out && out)
        memcpy(out, a->out, q->body->outputs.n * sizeof *out);
    return a ? flx_graph_retain(a->made) : NULL;
}

static flx_graph *remember(flxi_site *s, const flxi_question *q, flx_graph *made, const bool *out)
{
    const flxi_answer a = {.made = made, .out = out};
    if (!made || !s->memo || flxi_memo_keep(s->memo, &s->ctx->mem, q, &a))
        return made;
    flx_graph_release(made);
    flxi_graph_failf(s->g, FLX_E_OOM, NULL, "out of memory: transforming a body");
    return NULL;
}

/* Hands over the simplified graph, or NULL with the error in the graph that the rule builds. */
static flx_graph *work_end(work *w, flx_code code, flxi_site *s)
{
    if (code == FLX_OK)
        code = flxi_finish(&w->g, &w->err);
    else {
        flx_graph_release(w->g);
        w->g = NULL;
    }
    if (code != FLX_OK)
        flxi_graph_fail(s->g, &w->err);
    flx_graph_release(w->prepared);
    flxi_free(w->mem, w->map, w->ids, sizeof *w->map);
    flxi_free(w->mem, w->vals, w->ids, sizeof *w->vals);
    flxi_free(w->mem, w->flags, w->ids, sizeof *w->flags);
    return w->g;
}

static bool carries_derivative(const flx_type *t)
{
    return flxi_in(FLXI_FLOATS | FLXI_COMPLEX, t->dtype);
}

/* with_outputs: those of the body come first. */
static flx_code run_vjp(work *w, const bool *seeded, const bool *wanted, const flxi_site *rule, bool with_outputs)
{
    const flx_graph *src = w->prepared;
    flxi_reverse r = {.src = src,
                      .g = w->g,
                      .map = w->map,
                      .wrt = w->flags,
                      .cotangent = w->vals,
                      .bounded = rule->bounded,
                      .backward_ops = rule->backward_ops,
                      .memo = rule->memo};
    flxi_site s = flxi_plain_site(w->g);
    FLXI_TRY(flxi_copy_leaves(src, w->g, w->map, &w->err));
    for (size_t i = 0; i < src->leaves.n; i++)
        w->flags[src->leaves.at[i]] = wanted[i] && carries_derivative(flxi_type_at(src, src->leaves.at[i]));
    for (size_t k = 0; k < src->outputs.n; k++) { /* one value may be several outputs: their cotangents add up */
        uint32_t id = src->outputs.at[k].val;
        if (!seeded[k] || !carries_derivative(flxi_type_at(src, id)))
            continue;
        flx_val seed = flxi_new_leaf(w->g, "d_", src->outputs.at[k].name, flxi_type_at(src, id));
        w->vals[id] = flxi_sum(&s, w->vals[id], seed);
    }
    flx_code code = flxi_reverse_forward(&r, &w->err);
    if (code == FLX_OK)
        code = flxi_reverse_sweep(&r, &w->err);
    flxi_reverse_free(&r);
    FLXI_TRY(code);
    for (size_t k = 0; with_outputs && k < src->outputs.n; k++)
        flx_output(w->g, (flx_val){w->map[src->outputs.at[k].val], w->g->serial}, NULL);
    for (size_t i = 0; i < src->leaves.n; i++) {
        uint32_t id = src->leaves.at[i];
        if (!w->flags[id])
            continue;
        flx_val d = w->vals[id];
        flx_output(w->g, flxi_is_none(d) ? flxi_zeros(&s, flxi_type_at(src, id)) : d, NULL);
    }
    return flxi_built(w->g, &w->err);
}

static flx_graph *make_vjp(flxi_site *s, const flx_graph *body, const bool *seeded, const bool *wanted,
                           bool with_outputs)
{
    work w = {0};
    flx_code code = work_begin(&w, body, s->backward_ops ? MODE_BACKWARD_OPS : MODE_VJP);
    if (code == FLX_OK)
        code = run_vjp(&w, seeded, wanted, s, with_outputs);
    return work_end(&w, code, s);
}

static uint32_t vjp_options(const flxi_site *s)
{
    return (s->backward_ops ? 1u : 0u) | (s->bounded ? 2u : 0u);
}

static flx_graph *vjp_body(flxi_site *s, const flx_graph *body, const bool *seeded, const bool *wanted)
{
    const flxi_question q = {
        .asked = ASKED_VJP, .body = body, .options = vjp_options(s), .inputs = wanted, .outputs = seeded};
    flx_graph *known = recall(s, &q, NULL);
    return known ? known : remember(s, &q, make_vjp(s, body, seeded, wanted, false), NULL);
}

static bool split_body(flxi_site *s, const flx_graph *body, const bool *wanted, flxi_split_body *out)
{
    const flxi_question q = {.asked = ASKED_SPLIT, .body = body, .options = vjp_options(s), .inputs = wanted};
    const flxi_answer *known = flxi_memo_find(s->memo, &q);
    *out = (flxi_split_body){0};
    if (!known && s->memo) {
        bool *seeded = flxi_rule_new(s, bool, body->outputs.n);
        for (size_t k = 0; seeded && k < body->outputs.n; k++)
            seeded[k] = true; /* where the output can have a cotangent */
        flx_graph *joint = seeded ? make_vjp(s, body, seeded, wanted, true) : NULL;
        flx_error err = {0};
        flx_code code = joint ? flxi_split_joint(joint, body, out, &err) : FLX_OK;
        if (code != FLX_OK)
            flxi_graph_fail(s->g, &err);
        else if (joint &&
                 !flxi_memo_keep(s->memo, &s->ctx->mem, &q,
                                 &(flxi_answer){.made = out->forward, .second = out->backward, .kept = out->kept}))
            flxi_graph_failf(s->g, FLX_E_OOM, NULL, "out of memory: transforming a body");
        flx_graph_release(joint);
        flx_graph_release(out->forward);
        flx_graph_release(out->backward);
        known = s->g->error.code ? NULL : flxi_memo_find(s->memo, &q);
    }
    *out = known ? (flxi_split_body){known->made, known->second, known->kept} : (flxi_split_body){0};
    return !s->g->error.code;
}

static flx_code run_jvp(work *w, const bool *active, flxi_body_memo *memo)
{
    const flx_graph *src = w->prepared;
    flxi_forward f = {.src = src, .g = w->g, .map = w->map, .tangent = w->vals, .memo = memo};
    flxi_site s = flxi_plain_site(w->g);
    FLXI_TRY(flxi_copy_leaves(src, w->g, w->map, &w->err));
    for (size_t i = 0; i < src->leaves.n; i++) {
        const flxi_value *v = flxi_value_at(src, src->leaves.at[i]);
        if (active[i] && carries_derivative(v->type))
            w->vals[src->leaves.at[i]] = flxi_new_leaf(w->g, "tangent_", v->name, v->type);
    }
    FLXI_TRY(flxi_forward_sweep(&f, &w->err));
    for (size_t k = 0; k < src->outputs.n; k++)
        flx_output(w->g, (flx_val){w->map[src->outputs.at[k].val], w->g->serial}, src->outputs.at[k].name);
    for (size_t k = 0; k < src->outputs.n; k++) {
        uint32_t id = src->outputs.at[k].val;
        if (!carries_derivative(flxi_type_at(src, id)))
            continue;
        flx_val t = w->vals[id];
        flx_output(w->g, flxi_is_none(t) ? flxi_zeros(&s, flxi_type_at(src, id)) : t, NULL);
    }
    return flxi_built(w->g, &w->err);
}

static flx_graph *jvp_body(flxi_site *s, const flx_graph *body, const bool *active)
{
    const flxi_question q = {.asked = ASKED_JVP, .body = body, .inputs = active};
    flx_graph *known = recall(s, &q, NULL);
    if (known)
        return known;
    work w = {0};
    flx_code code = work_begin(&w, body, MODE_JVP);
    if (code == FLX_OK)
        code = run_jvp(&w, active, s->memo);
    return remember(s, &q, work_end(&w, code, s), NULL);
}

static flx_val with_batch_axis(flxi_site *s, flx_val v, const flx_type *example)
{
    flx_dim dims[FLX_MAX_RANK];
    if (example->rank == FLX_MAX_RANK) {
        flxi_graph_failf(s->g, FLX_E_SIZE, NULL, "adding a batch axis to a tensor of rank %d exceeds the rank limit",
                         example->rank);
        return FLX_NONE;
    }
    dims[0] = s->size;
    memcpy(dims + 1, example->dims, (size_t)example->rank * sizeof *dims);
    return flxi_expand_to(s, v, example->rank + 1, dims);
}

static flx_code run_vmap(work *w, const bool *batched, flx_dim size, bool *out, bool is_fixed, flxi_body_memo *memo)
{
    const flx_graph *src = w->prepared;
    flxi_batching b = {.src = src, .g = w->g, .map = w->map, .batched = w->flags, .size = size, .memo = memo};
    flxi_site s = flxi_plain_site(w->g);
    s.size = size;
    for (size_t i = 0; i < src->leaves.n; i++) {
        const flxi_value *v = flxi_value_at(src, src->leaves.at[i]);
        flx_type type = *v->type;
        if (batched[i]) {
            if (type.rank == FLX_MAX_RANK)
                return flxi_fail(&w->err, FLX_E_SIZE,
                                 "adding a batch axis to a tensor of rank %d exceeds the rank limit", type.rank);
            memmove(type.dims + 1, type.dims, (size_t)type.rank * sizeof(flx_dim));
            type.dims[0] = size;
            type.rank++;
        }
        uint32_t id = flxi_add_leaf_like(w->g, src, src->leaves.at[i], &type);
        if (!id)
            return flxi_built(w->g, &w->err);
        w->map[src->leaves.at[i]] = id;
        w->flags[src->leaves.at[i]] = batched[i];
    }
    FLXI_TRY(flxi_batch_sweep(&b, &w->err));
    for (size_t k = 0; k < src->outputs.n; k++) {
        uint32_t id = src->outputs.at[k].val;
        flx_val v = {w->map[id], w->g->serial};
        if (!is_fixed)
            out[k] = w->flags[id];
        else if (out[k] && !w->flags[id])
            v = with_batch_axis(&s, v, flxi_type_at(src, id));
        else if (!out[k] && w->flags[id])
            return flxi_fail(&w->err, FLX_E_INTERNAL, "an output is batched that must not be");
        flx_output(w->g, v, src->outputs.at[k].name);
    }
    return flxi_built(w->g, &w->err);
}

static flx_graph *vmap_body(flxi_site *s, const flx_graph *body, const bool *batched, bool *out, bool is_fixed)
{
    const flxi_question q = {
        .asked = ASKED_VMAP, .body = body, .size = s->size, .inputs = batched, .outputs = is_fixed ? out : NULL};
    flx_graph *known = recall(s, &q, out);
    if (known)
        return known;
    work w = {0};
    flx_code code = work_begin(&w, body, MODE_BATCH);
    if (code == FLX_OK)
        code = run_vmap(&w, batched, s->size, out, is_fixed, s->memo);
    return remember(s, &q, work_end(&w, code, s), is_fixed ? NULL : out);
}

static flx_graph *simplify_body(flxi_site *s, flx_graph *body)
{
    flx_error err = {0};
    if (flxi_finish(&body, &err) != FLX_OK)
        flxi_graph_fail(s->g, &err);
    return body;
}

static flx_val restore_zeros(flxi_site *s, flx_val v)
{
    return s->zeros ? flxi_restore_zeros(s, v, s->zeros, NULL) : v;
}

const flxi_body_transforms flxi_bodies = {.vjp = vjp_body,
                                          .jvp = jvp_body,
                                          .vmap = vmap_body,
                                          .split = split_body,
                                          .simplify = simplify_body,
                                          .check_linear = flxi_check_linear,
                                          .restore_zeros = restore_zeros,
                                          .jvp_from_vjp = flxi_jvp_from_vjp,
                                          .vjp_from_jvp = flxi_vjp_from_jvp};
