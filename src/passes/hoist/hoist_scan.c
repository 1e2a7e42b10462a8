/* SPDX-License-Identifier: Apache-2.0 */
/* hoist_scan.c: a scan with as little as possible inside its loop. The plan (hoist_plan.h) says where each node of the
   body goes; here the parts become graphs of their own, those outside the loop are batched over the steps and put
   before and after the scan, and sums over the steps become reductions and contractions over the axis of the steps. */
#include "passes/hoist/hoist_scan.h"

#include "autodiff/autodiff.h"
#include "ops/opcode.h"
#include "passes/hoist/hoist_plan.h"

#include <stdio.h>

/* The values kept for all steps may be this many times as large as those the scan itself keeps, its sequences and
   stacked results, plus this many bytes: memory grows at most by a factor, and what fits a cache may always be kept. */
static const double most_growth = 4, always_kept = 1 << 20;

typedef struct {
    flx_graph *g;
    flx_val *in;      /* scratch: what its inputs are */
    uint32_t *leaves; /* values of the body that are its inputs: carries, shared ones, sequences */
    uint32_t *roots;  /* likewise its outputs */
    uint32_t num_leaves, num_carries, num_shared, num_roots;
} part;

typedef struct {
    flxi_copy *c;
    const flxi_node *n;
    flxi_hoist_plan plan;
    part once, before, loop, after;
    bool *has_rows;     /* by value made inside: its rows of all steps are a result of the new scan */
    uint32_t *row_root; /* which one: its number + 1 */
    flx_val *outer;     /* by value of the body: its value outside, with a leading axis of the steps where it has one */
    flx_error *err;
} hoisting;

static flx_val outer_operand(const hoisting *h, uint32_t i)
{
    return (flx_val){h->c->remap.id[h->n->in[i]], h->c->to->serial};
}

static bool is_body_leaf(const hoisting *h, uint32_t value)
{
    return flxi_ops[flxi_hoist_node(&h->plan, value)->op].traits & TRAIT_DECLARED;
}

/* ---- Parts as graphs ---- */

/* Whether a part gets the value from outside. */
static bool is_given(const hoisting *h, flxi_hoist_part part_of, uint32_t value)
{
    flxi_hoist_part where = flxi_hoist_part_of(&h->plan, value);
    if (is_body_leaf(h, value))
        return true;
    switch (part_of) {
    case PART_BEFORE: return where == PART_ONCE;
    case PART_LOOP: return where == PART_ONCE || where == PART_BEFORE;
    case PART_AFTER: return where == PART_ONCE || where == PART_BEFORE || where == PART_LOOP;
    default: return false;
    }
}

static void add_root(part *t, uint32_t value)
{
    for (uint32_t k = 0; k < t->num_roots; k++)
        if (t->roots[k] == value)
            return;
    t->roots[t->num_roots++] = value;
}

/* By value: the part computes it or receives it. */
static bool *find_needed(hoisting *h, flxi_hoist_part part_of, const part *t)
{
    const flx_graph *body = h->plan.body;
    bool *needed = flxi_new(&h->plan.arena, bool, body->value_count + 1);
    for (uint32_t k = 0; needed && k < t->num_roots; k++)
        needed[t->roots[k]] = true;
    for (uint32_t i = body->node_count; needed && i-- > 0;) {
        const flxi_node *n = flxi_node_at(body, i);
        bool is_computed = false;
        for (uint32_t k = 0; k < n->nout; k++)
            is_computed |= needed[n->first + k] && !is_given(h, part_of, n->first + k);
        for (uint32_t k = 0; is_computed && k < n->nin; k++)
            needed[n->in[k]] = true;
    }
    return needed;
}

static flx_code declare(hoisting *h, part *t, uint32_t value, uint32_t *map)
{
    char name[24];
    snprintf(name, sizeof name, "x%u", t->num_leaves);
    map[value] = flx_input(t->g, name, flxi_type_at(h->plan.body, value)).id;
    t->leaves[t->num_leaves++] = value;
    return flxi_built(t->g, h->err);
}

/* Carries that stay come first, needed or not; then values that all steps share; then sequences. */
static flx_code declare_leaves(hoisting *h, flxi_hoist_part part_of, part *t, const bool *needed, uint32_t *map)
{
    const flx_graph *body = h->plan.body;
    for (uint32_t k = 0; part_of == PART_LOOP && k < h->plan.carries; k++)
        if (!h->plan.is_sunk[k])
            FLXI_TRY(declare(h, t, body->leaves.at[k], map));
    t->num_carries = t->num_leaves;
    for (int shared = 1; shared >= 0; shared--) {
        for (uint32_t v = 1; v <= body->value_count; v++)
            if (needed[v] && !map[v] && is_given(h, part_of, v) &&
                (flxi_hoist_part_of(&h->plan, v) == PART_ONCE) == (shared == 1))
                FLXI_TRY(declare(h, t, v, map));
        if (shared)
            t->num_shared = t->num_leaves - t->num_carries;
    }
    return FLX_OK;
}

static flx_code make_part(hoisting *h, flxi_hoist_part part_of, part *t)
{
    const flx_graph *body = h->plan.body;
    const bool *needed = find_needed(h, part_of, t);
    uint32_t *map = flxi_new(&h->plan.arena, uint32_t, body->value_count + 1);
    t->leaves = flxi_new(&h->plan.arena, uint32_t, body->value_count + 1);
    t->in = flxi_new(&h->plan.arena, flx_val, body->value_count + 1);
    t->g = flx_graph_new(body->ctx, body->name);
    if (!needed || !map || !t->leaves || !t->in || !t->g)
        return flxi_oom(h->err, "hoisting");
    t->g->is_lowered = body->is_lowered;
    FLXI_TRY(declare_leaves(h, part_of, t, needed, map));
    for (uint32_t i = 0; i < body->node_count; i++) {
        const flxi_node *n = flxi_node_at(body, i);
        bool is_computed = false;
        for (uint32_t k = 0; k < n->nout; k++)
            is_computed |= needed[n->first + k] && !map[n->first + k];
        if (is_computed)
            FLXI_TRY(flxi_graft(t->g, body, i, map, h->err));
    }
    for (uint32_t k = 0; k < t->num_roots; k++)
        if (flx_output(t->g, (flx_val){map[t->roots[k]], t->g->serial}, NULL) != FLX_OK)
            return flxi_built(t->g, h->err);
    return FLX_OK;
}

/* ---- Terms ---- */

/* One side of a product: the value whose rows it reads, and the axes that it sums over, the axis of the steps first. */
typedef struct {
    uint32_t value;
    int64_t summed[FLX_MAX_RANK], batch[FLX_MAX_RANK];
    size_t num_summed, num_batch;
} side;

static void add_axes(const flx_ints *axes, int64_t *list, size_t *n)
{
    for (size_t k = 0; k < axes->n; k++)
        list[(*n)++] = axes->v[k] + 1;
}

/* A transposed matrix is read as stored. */
static side side_of(const hoisting *h, const flxi_node *n, uint32_t k)
{
    static const char *const summed[] = {"lc", "rc"}, *const batch[] = {"lb", "rb"};
    side s = {.value = n->in[k], .num_summed = 1};
    if (n->op == OP_dot_general) {
        add_axes(flxi_node_ints(n, summed[k]), s.summed, &s.num_summed);
        add_axes(flxi_node_ints(n, batch[k]), s.batch, &s.num_batch);
        return s;
    }
    int64_t axis = k == 0 ? 1 : 0; /* of a matrix */
    const flxi_node *turned = flxi_hoist_node(&h->plan, s.value);
    if (turned->op == OP_transpose) {
        axis = flxi_node_ints(turned, "perm")->v[axis];
        s.value = turned->in[0];
    }
    s.summed[s.num_summed++] = axis + 1;
    return s;
}

/* What a term consists of, and the values whose rows it reads. */
typedef void (*row_reader)(hoisting *h, uint32_t value);

static void read_rows(hoisting *h, uint32_t value, row_reader reader)
{
    const flxi_node *n = flxi_hoist_node(&h->plan, value);
    if (flxi_hoist_part_of(&h->plan, value) != PART_TERM) {
        reader(h, value);
        return;
    }
    for (uint32_t k = 0; k < n->nin; k++) {
        if (n->op == OP_matmul || n->op == OP_dot_general)
            reader(h, side_of(h, n, k).value);
        else if (n->op == OP_reduce_sum)
            reader(h, n->in[k]);
        else
            read_rows(h, n->in[k], reader);
    }
}

static void read_all_rows(hoisting *h, row_reader reader)
{
    for (uint32_t k = 0; k < h->plan.carries; k++)
        if (h->plan.is_sunk[k])
            read_rows(h, flxi_hoist_term(&h->plan, k), reader);
}

static flx_val sum_of_product(const hoisting *h, const flxi_node *n)
{
    side l = side_of(h, n, 0), r = side_of(h, n, 1);
    return flx_dot_general(h->c->to, h->outer[l.value], h->outer[r.value], (flx_ints){l.summed, l.num_summed},
                           (flx_ints){r.summed, r.num_summed}, (flx_ints){l.batch, l.num_batch},
                           (flx_ints){r.batch, r.num_batch});
}

static flx_val sum_of_rows(const hoisting *h, const flxi_node *n)
{
    int64_t axes[FLX_MAX_RANK] = {0};
    size_t count = 1;
    add_axes(flxi_node_ints(n, "axes"), axes, &count);
    const flx_type *t = flxi_type_at(h->plan.body, n->first);
    flx_val y = flx_reduce_sum(h->c->to, h->outer[n->in[0]], (flx_ints){axes, count}, 0);
    return flx_reshape(h->c->to, y, (flx_ints){t->dims, (size_t)t->rank});
}

/* The sum of a value over all steps. */
static flx_val sum_of(const hoisting *h, uint32_t value)
{
    flx_graph *g = h->c->to;
    const flxi_node *n = flxi_hoist_node(&h->plan, value);
    const flx_type *t = flxi_type_at(h->plan.body, value);
    if (flxi_hoist_part_of(&h->plan, value) != PART_TERM)
        return flx_reduce_sum(g, h->outer[value], FLX_INTS(0), 0);
    switch (n->op) {
    case OP_add: return flx_add(g, sum_of(h, n->in[0]), sum_of(h, n->in[1]));
    case OP_transpose: return flx_transpose(g, sum_of(h, n->in[0]), *flxi_node_ints(n, "perm"));
    case OP_reshape: return flx_reshape(g, sum_of(h, n->in[0]), (flx_ints){t->dims, (size_t)t->rank});
    case OP_reduce_sum: return sum_of_rows(h, n);
    default: return sum_of_product(h, n);
    }
}

/* ---- Which values cross the borders of parts ---- */

static void want_after(hoisting *h, uint32_t value)
{
    if (flxi_hoist_part_of(&h->plan, value) == PART_AFTER)
        add_root(&h->after, value);
}

static void want_rows(hoisting *h, uint32_t value)
{
    if (flxi_hoist_part_of(&h->plan, value) == PART_LOOP)
        h->has_rows[value] = true;
}

static void want_early(hoisting *h, uint32_t value)
{
    flxi_hoist_part where = flxi_hoist_part_of(&h->plan, value);
    if (is_body_leaf(h, value))
        return;
    if (where == PART_BEFORE)
        add_root(&h->before, value);
    else if (where == PART_ONCE)
        add_root(&h->once, value);
}

static void want_leaves(hoisting *h, const part *t, row_reader reader)
{
    for (uint32_t k = 0; k < t->num_leaves; k++)
        reader(h, t->leaves[k]);
}

/* Whether an output of the body stays a result of the loop. */
static bool stays(const hoisting *h, size_t k)
{
    if (k < h->plan.carries)
        return !h->plan.is_sunk[k];
    flxi_hoist_part where = flxi_hoist_part_of(&h->plan, h->plan.body->outputs.at[k].val);
    return where != PART_BEFORE && where != PART_AFTER;
}

/* Carries, then the stacked outputs of the body, then the other values that are needed. */
static void add_loop_outputs(hoisting *h)
{
    const flx_graph *body = h->plan.body;
    part *t = &h->loop;
    for (size_t k = 0; k < body->outputs.n; k++) {
        if (!stays(h, k))
            continue;
        t->roots[t->num_roots++] = body->outputs.at[k].val;
        if (k >= h->plan.carries)
            h->row_root[body->outputs.at[k].val] = t->num_roots;
    }
    for (uint32_t v = 1; v <= body->value_count; v++)
        if (h->has_rows[v] && !h->row_root[v]) {
            t->roots[t->num_roots++] = v;
            h->row_root[v] = t->num_roots;
        }
}

/* From the last part to the first: each part requests the values that it needs from those before it. */
static flx_code make_parts(hoisting *h)
{
    const flx_graph *body = h->plan.body;
    size_t room = (size_t)body->value_count + body->outputs.n + 1;
    part *const parts[] = {&h->once, &h->before, &h->loop, &h->after};
    for (size_t i = 0; i < 4; i++)
        if (!(parts[i]->roots = flxi_new(&h->plan.arena, uint32_t, room)))
            return flxi_oom(h->err, "hoisting");
    read_all_rows(h, want_after);
    for (size_t k = h->plan.carries; k < body->outputs.n; k++)
        want_after(h, body->outputs.at[k].val);
    FLXI_TRY(make_part(h, PART_AFTER, &h->after));
    read_all_rows(h, want_rows);
    want_leaves(h, &h->after, want_rows);
    add_loop_outputs(h);
    FLXI_TRY(make_part(h, PART_LOOP, &h->loop));
    read_all_rows(h, want_early);
    want_leaves(h, &h->after, want_early);
    want_leaves(h, &h->loop, want_early);
    for (size_t k = h->plan.carries; k < body->outputs.n; k++)
        if (!stays(h, k))
            want_early(h, body->outputs.at[k].val);
    FLXI_TRY(make_part(h, PART_BEFORE, &h->before));
    want_leaves(h, &h->before, want_early);
    return make_part(h, PART_ONCE, &h->once);
}

static double bytes_of(const flx_graph *g, uint32_t value)
{
    size_t n = 0;
    flxi_static_bytes(flxi_type_at(g, value), &n);
    return (double)n;
}

static bool is_too_large(const hoisting *h)
{
    const flx_graph *body = h->plan.body;
    double kept = 0, own = 0;
    for (uint32_t k = h->plan.shared; k < h->n->nin; k++)
        own += bytes_of(h->c->from, h->n->in[k]);
    for (uint32_t k = h->plan.a->save_trajectory ? 0 : h->plan.carries; k < h->n->nout; k++)
        own += bytes_of(h->c->from, h->n->first + k);
    for (uint32_t k = 0; k < h->before.num_roots; k++)
        kept += bytes_of(body, h->before.roots[k]);
    for (uint32_t k = 0; k < h->loop.num_roots; k++) /* those that were outputs before are in `own` */
        kept += h->has_rows[h->loop.roots[k]] ? bytes_of(body, h->loop.roots[k]) : 0;
    return kept * (double)h->plan.length > most_growth * own + always_kept;
}

/* ---- Putting them together ---- */

/* A part over all steps at once; what cannot be batched, because of the rank limit, stays in the loop. */
static flx_code batch_part(hoisting *h, part *t, bool *can)
{
    flx_vmap_axis *axes = flxi_new(&h->plan.arena, flx_vmap_axis, t->num_leaves + 1);
    size_t n = 0;
    if (!axes)
        return flxi_oom(h->err, "hoisting");
    for (uint32_t k = t->num_shared; k < t->num_leaves; k++)
        axes[n++] = (flx_vmap_axis){.name = flxi_value_at(t->g, t->g->leaves.at[k])->name, .axis = 0};
    flx_error err = {0};
    flx_graph *batched = t->num_roots ? flx_vmap(t->g, axes, n, NULL, 0, h->plan.length, &err) : flx_graph_retain(t->g);
    flx_graph_release(t->g);
    t->g = batched;
    *can &= batched != NULL;
    if (batched || err.code != FLX_E_OOM)
        return FLX_OK;
    if (h->err)
        *h->err = err;
    return FLX_E_OOM;
}

static void append_part(hoisting *h, part *t)
{
    flx_val *out = flxi_new(&h->c->to->arena, flx_val, t->num_roots + 1);
    for (uint32_t k = 0; k < t->num_leaves; k++)
        t->in[k] = h->outer[t->leaves[k]];
    if (!out || t->num_roots == 0)
        return;
    flxi_inline(h->c->to, t->g, t->in, out);
    for (uint32_t k = 0; k < t->num_roots; k++)
        h->outer[t->roots[k]] = out[k];
}

/* The scan of what is left; `results` by output of the loop. */
static void append_loop(hoisting *h, flx_val *results)
{
    const scan_attrs *a = h->plan.a;
    const part *t = &h->loop;
    for (uint32_t k = 0; k < t->num_leaves; k++)
        t->in[k] = h->outer[t->leaves[k]];
    flx_scan_attrs attrs = FLX_SCAN_ATTRS;
    attrs.body = t->g;
    attrs.num_carry = t->num_carries;
    attrs.num_bcast = t->num_shared;
    attrs.length = h->plan.length;
    attrs.reverse = a->reverse != 0;
    attrs.save_trajectory = a->save_trajectory != 0;
    attrs.num_checkpoints = a->num_checkpoints;
    if (t->num_roots)
        flx_scan_with(h->c->to, t->in, t->num_leaves, results, t->num_roots, &attrs);
}

static flx_val result_of(hoisting *h, size_t k, const flx_val *results, uint32_t *next)
{
    if (stays(h, k))
        return results[(*next)++];
    if (k >= h->plan.carries)
        return h->outer[h->plan.body->outputs.at[k].val];
    return flx_add(h->c->to, outer_operand(h, (uint32_t)k), sum_of(h, flxi_hoist_term(&h->plan, (uint32_t)k)));
}

static flx_code append_parts(hoisting *h)
{
    const flx_graph *body = h->plan.body;
    flx_val *results = flxi_new(&h->plan.arena, flx_val, h->loop.num_roots + 1);
    if (!results)
        return flxi_oom(h->err, "hoisting");
    for (uint32_t i = 0; i < body->leaves.n; i++)
        h->outer[body->leaves.at[i]] = outer_operand(h, i);
    append_part(h, &h->once);
    append_part(h, &h->before);
    append_loop(h, results);
    for (uint32_t v = 1; v <= body->value_count; v++)
        if (h->has_rows[v])
            h->outer[v] = results[h->row_root[v] - 1];
    append_part(h, &h->after);
    uint32_t next = 0;
    for (uint32_t k = 0; k < h->n->nout; k++) {
        flx_val y = result_of(h, k, results, &next);
        FLXI_TRY(flxi_built(h->c->to, h->err));
        flxi_copy_replace(h->c, h->n->first + k, y.id);
    }
    return FLX_OK;
}

/* ---- One scan ---- */

static bool is_static(const flx_graph *g)
{
    for (uint32_t v = 1; v <= g->value_count; v++)
        if (!flxi_type_is_static(flxi_type_at(g, v)))
            return false;
    return true;
}

/* *length receives the number of steps; false: the scan stays unchanged. */
static bool is_visited(const flx_graph *g, const flxi_node *n, int64_t *length)
{
    const scan_attrs *a = flxi_scan_attrs(n);
    if (!a || a->body->has_effects)
        return false;
    for (uint32_t k = 0; k < n->nin; k++)
        if (!flxi_type_is_static(flxi_type_at(g, n->in[k])))
            return false;
    *length = a->length != FLXI_ABSENT ? a->length : flxi_type_at(g, n->in[a->num_carry + a->num_bcast])->dims[0];
    return flxi_dim_is_number(*length) && *length >= 2;
}

/* Weights in the layout that products prefer: dot_general(x, w) over the last axes reads columns of w; a transposed
   copy of a value that is the same in all steps is made once. With a batch axis it is not a product of matrices. */
static bool reads_weight_columns(const flxi_hoist_plan *p, const flxi_node *n)
{
    if (n->op != OP_dot_general || p->depends[n->in[1]] != 0 || p->depends[n->in[0]] == 0)
        return false;
    const flx_ints *l = flxi_node_ints(n, "lc"), *r = flxi_node_ints(n, "rc");
    return flxi_type_at(p->body, n->in[0])->rank == 2 && flxi_type_at(p->body, n->in[1])->rank == 2 && l->n == 1 &&
           r->n == 1 && l->v[0] == 1 && r->v[0] == 1 && flxi_node_ints(n, "lb")->n == 0;
}

static flx_code turn_weights(const flxi_hoist_plan *p, flx_graph **out, flx_error *err)
{
    flxi_copy c;
    flx_code code = flxi_copy_begin(&c, p->body, err);
    for (uint32_t i = 0; code == FLX_OK && i < p->body->node_count; i++) {
        const flxi_node *n = flxi_node_at(p->body, i);
        if (!reads_weight_columns(p, n)) {
            code = flxi_copy_node(&c, i);
            continue;
        }
        flx_val x = {c.remap.id[n->in[0]], c.to->serial}, w = {c.remap.id[n->in[1]], c.to->serial};
        flx_val y = flx_matmul(c.to, x, flx_transpose(c.to, w, FLX_INTS(1, 0)));
        code = flxi_built(c.to, err);
        if (code == FLX_OK)
            flxi_copy_replace(&c, n->first, y.id);
    }
    return flxi_copy_end(&c, code, out, NULL);
}

static flx_code take_apart(hoisting *h, bool *is_done)
{
    const flx_graph *body = h->plan.body;
    h->has_rows = flxi_new(&h->plan.arena, bool, body->value_count + 1);
    h->row_root = flxi_new(&h->plan.arena, uint32_t, body->value_count + 1);
    h->outer = flxi_new(&h->plan.arena, flx_val, body->value_count + 1);
    if (!h->has_rows || !h->row_root || !h->outer)
        return flxi_oom(h->err, "hoisting");
    FLXI_TRY(make_parts(h));
    bool can = !is_too_large(h);
    if (can)
        FLXI_TRY(batch_part(h, &h->before, &can));
    if (can)
        FLXI_TRY(batch_part(h, &h->after, &can));
    *is_done = can;
    return can ? append_parts(h) : FLX_OK;
}

static flx_code hoist_by_plan(flxi_copy *c, const flxi_node *n, const flxi_hoist_plan *plan, bool *is_done)
{
    hoisting h = {.c = c, .n = n, .plan = *plan, .err = c->err};
    flx_code code = flxi_hoist_plan_make(&h.plan, &c->from->ctx->mem, c->err);
    if (code == FLX_OK && flxi_hoist_pays(&h.plan))
        code = take_apart(&h, is_done);
    part *const parts[] = {&h.once, &h.before, &h.loop, &h.after};
    for (size_t i = 0; i < 4; i++)
        flx_graph_release(parts[i]->g);
    flxi_hoist_plan_free(&h.plan);
    return code;
}

/* If too much would have to be kept, at least what is the same in all steps leaves the loop. */
static flx_code hoist_body(flxi_copy *c, const flxi_node *n, const flx_graph *body, int64_t length, bool *is_done)
{
    const scan_attrs *a = flxi_scan_attrs(n);
    const flxi_allocator *mem = &c->from->ctx->mem;
    flxi_hoist_plan plan = {.body = body,
                            .a = a,
                            .length = length,
                            .carries = (uint32_t)a->num_carry,
                            .shared = (uint32_t)(a->num_carry + a->num_bcast)};
    flxi_hoist_plan first = plan;
    flx_graph *turned = NULL;
    flx_code code = flxi_hoist_plan_make(&first, mem, c->err);
    if (code == FLX_OK)
        code = turn_weights(&first, &turned, c->err);
    flxi_hoist_plan_free(&first);
    plan.body = turned;
    for (int only_once = 0; code == FLX_OK && !*is_done && only_once < 2; only_once++) {
        plan.only_once = only_once == 1;
        code = hoist_by_plan(c, n, &plan, is_done);
    }
    flx_graph_release(turned);
    return code;
}

flx_code flxi_visit_scans(const flx_graph *in, flxi_prepare_body prepare, const void *user, flxi_visit_scan visit,
                          flx_graph **out, flxi_remap *remap, flx_error *err)
{
    flxi_copy c;
    flx_code code = flxi_copy_begin(&c, in, err);
    for (uint32_t i = 0; code == FLX_OK && i < in->node_count; i++) {
        const flxi_node *n = flxi_node_at(in, i);
        flx_graph *body = NULL;
        bool is_done = false;
        int64_t length;
        if (is_visited(in, n, &length)) {
            code = prepare(user, flxi_scan_attrs(n)->body, &body, err);
            if (code == FLX_OK && is_static(body))
                code = visit(&c, n, body, length, &is_done);
            flx_graph_release(body);
        }
        if (code == FLX_OK && !is_done)
            code = flxi_copy_node(&c, i);
    }
    return flxi_copy_end(&c, code, out, remap);
}

flx_code flxi_hoist_scans(const flx_graph *in, flxi_prepare_body prepare, const void *user, flx_graph **out,
                          flxi_remap *remap, flx_error *err)
{
    return flxi_visit_scans(in, prepare, user, hoist_body, out, remap, err);
}
