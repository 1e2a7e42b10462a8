/* SPDX-License-Identifier: Apache-2.0 */
/* ref.c: the reference evaluator's driver. Every value gets a tensor when its node runs and loses it after its last
   use. Sub-graphs are run by recursion, whose depth FLXI_MAX_NESTING bounds. Nothing here knows an op, except that
   leaves are given, not evaluated. */
#include "backend/ref/ref.h"

#include "base/host/stop.h"
#include "graph/op/origin.h"
#include "graph/type/finite.h"

struct flxi_run {
    const flx_graph *g;
    const flx_run_options *options;
    const flxi_allocator *mem;
    flx_tensor **values; /* by id; NULL before the node ran and after the last use */
    uint32_t *last_use;  /* by id: index of the last node that reads it; UINT32_MAX: an output */
    size_t held;         /* bytes of values that were computed and are still needed */
    flx_error *err;
};

static flx_code find_last_uses(flxi_run *r)
{
    for (uint32_t i = 0; i < r->g->node_count; i++) {
        const flxi_node *n = flxi_node_at(r->g, i);
        for (uint32_t k = 0; k < n->nout; k++)
            r->last_use[n->first + k] = i; /* unless read later, a result dies where it is made */
        for (uint32_t k = 0; k < n->nin; k++)
            r->last_use[n->in[k]] = i;
    }
    for (size_t i = 0; i < r->g->outputs.n; i++)
        r->last_use[r->g->outputs.at[i].val] = UINT32_MAX;
    return FLX_OK;
}

static bool is_leaf(const flxi_run *r, uint32_t id)
{
    return flxi_ops[flxi_node_of(r->g, id)->op].traits & TRAIT_DECLARED;
}

static void drop(flxi_run *r, uint32_t id)
{
    if (r->values[id] && !is_leaf(r, id))
        r->held -= r->values[id]->nbytes;
    flx_tensor_release(r->values[id]);
    r->values[id] = NULL;
}

/* Bytes that values may have together; 0: any number. */
static size_t limit_of(const flxi_run *r)
{
    return r->options ? (size_t)r->options->memory_limit : 0;
}

/* Counts the bytes of a result before they are allocated. */
static flx_code hold(flxi_run *r, uint32_t id)
{
    size_t nbytes = 0;
    flxi_static_bytes(flxi_type_at(r->g, id), &nbytes);
    if (limit_of(r) && (nbytes > limit_of(r) || r->held > limit_of(r) - nbytes))
        return flxi_fail_hint(r->err, FLX_E_SIZE, "raise --memory-limit (flx_run_options.memory_limit)",
                              "the run needs more than its limit of %zu bytes", limit_of(r));
    r->held += nbytes;
    return FLX_OK;
}

/* A body may use what the graph around it has left. */
static flx_code run_body(flxi_eval *e, const flx_graph *body, const flx_tensor *const *in, flx_tensor **out)
{
    if (!limit_of(e->run))
        return flxi_ref_run(body, e->run->options, in, out, e->err);
    flx_run_options rest = *e->run->options;
    rest.memory_limit -= (int64_t)e->run->held;
    rest.memory_limit = rest.memory_limit > 0 ? rest.memory_limit : 1;
    return flxi_ref_run(body, &rest, in, out, e->err);
}

static void print_value(flxi_eval *e, const char *message, const flx_tensor *value)
{
    const flx_run_options *o = e->run->options;
    if (o && o->print)
        o->print(o->print_user, message, value);
}

static void report_status(flxi_eval *e, uint32_t status)
{
    const flx_run_options *o = e->run->options;
    if (o && o->status)
        *o->status |= status;
}

enum { FEW = 8 };

static flx_code eval_node(flxi_run *r, const flxi_node *n, const flx_tensor **in, flx_tensor **out)
{
    for (uint32_t k = 0; k < n->nin; k++)
        in[k] = r->values[n->in[k]];
    for (uint32_t k = 0; k < n->nout; k++) {
        FLXI_TRY(hold(r, n->first + k));
        out[k] = flx_tensor_new(r->g->ctx, flxi_type_at(r->g, n->first + k), NULL, r->err);
        if (!out[k])
            return r->err && r->err->code ? (flx_code)r->err->code : FLX_E_OOM;
        r->values[n->first + k] = out[k];
    }
    flxi_eval e = {.op = &flxi_ops[n->op],
                   .label = flxi_node_label(r->g, n),
                   .origin = n->origin,
                   .attrs = n->attrs,
                   .nin = n->nin,
                   .nout = n->nout,
                   .in = in,
                   .out = out,
                   .mem = r->mem,
                   .run = r,
                   .err = r->err,
                   .run_body = run_body,
                   .print = print_value,
                   .report = report_status};
    flxi_node_name name;
    FLXI_TRY(flxi_stop_or(e.op->rules->eval(&e), r->err));
    bool is_checked = r->options && (r->options->flags & FLX_RUN_CHECK_FINITE) && !flxi_is_const(n);
    for (uint32_t k = 0; is_checked && k < n->nout; k++)
        FLXI_TRY(flxi_check_finite(&out[k]->type, out[k]->data,
                                   flxi_name_node(&name, e.op, flxi_value_at(r->g, n->first + k)->name, n->origin),
                                   r->err));
    return FLX_OK;
}

static flx_code run_node(flxi_run *r, uint32_t i)
{
    const flxi_node *n = flxi_node_at(r->g, i);
    const flx_tensor *few_in[FEW];
    flx_tensor *few_out[FEW];
    const flx_tensor **in = few_in;
    flx_tensor **out = few_out;
    size_t room = (size_t)n->nin + n->nout;
    void *block = NULL;
    if (flxi_ops[n->op].traits & TRAIT_DECLARED)
        return FLX_OK;
    if (n->nin > FEW || n->nout > FEW) {
        block = flxi_alloc(r->mem, room, sizeof(void *));
        if (!block)
            return flxi_oom(r->err, "operands");
        in = block;
        out = (flx_tensor **)block + n->nin;
    }
    flx_code code = eval_node(r, n, in, out);
    flxi_free(r->mem, block, room, sizeof(void *));
    if (code != FLX_OK) {
        flxi_at_node(r->err, r->g, n);
        return code;
    }
    for (uint32_t k = 0; k < n->nin; k++)
        if (r->last_use[n->in[k]] == i)
            drop(r, n->in[k]);
    for (uint32_t k = 0; k < n->nout; k++)
        if (r->last_use[n->first + k] == i)
            drop(r, n->first + k);
    return FLX_OK;
}

static flx_code run_all(flxi_run *r, const flx_tensor *const *in, flx_tensor **out)
{
    FLXI_TRY(find_last_uses(r));
    FLXI_TRY(flxi_stop_check(r->err));          /* a body may have no nodes */
    for (size_t i = 0; i < r->g->leaves.n; i++) /* the hold is ours, the elements stay the caller's */
        r->values[r->g->leaves.at[i]] = flx_tensor_retain((flx_tensor *)(uintptr_t)in[i]);
    for (uint32_t i = 0; i < r->g->node_count; i++)
        FLXI_TRY(run_node(r, i));
    for (size_t i = 0; i < r->g->outputs.n; i++)
        out[i] = flx_tensor_retain(r->values[r->g->outputs.at[i].val]);
    return FLX_OK;
}

flx_code flxi_ref_run(const flx_graph *g, const flx_run_options *options, const flx_tensor *const *in, flx_tensor **out,
                      flx_error *err)
{
    size_t ids = (size_t)g->value_count + 1;
    flxi_run r = {.g = g, .options = options, .mem = &g->ctx->mem, .err = err};
    for (size_t i = 0; i < g->outputs.n; i++)
        out[i] = NULL;
    r.values = flxi_alloc(r.mem, ids, sizeof *r.values);
    r.last_use = flxi_alloc(r.mem, ids, sizeof *r.last_use);
    flx_code code = r.values && r.last_use ? run_all(&r, in, out) : flxi_oom(err, "running a graph");
    for (size_t i = 0; r.values && i < ids; i++)
        flx_tensor_release(r.values[i]);
    flxi_free(r.mem, r.values, ids, sizeof *r.values);
    flxi_free(r.mem, r.last_use, ids, sizeof *r.last_use);
    return code;
}
