/* SPDX-License-Identifier: Apache-2.0 */
/* inline_calls.c: see calls.h. What is inlined can join kernels with its surroundings; what stays a function is
   compiled once. The sum of what is inlined is bounded for each graph and function, so the work grows with the text. */
#include "passes/calls.h"

#include "graph/op/site.h"

/* ---- Sizes ---- */

typedef struct {
    uint32_t serial;
    uint64_t size;  /* nodes, with those of functions that it calls, each as often as it is called */
    uint64_t calls; /* in the graph that the pass works on */
} function;

typedef struct {
    const flxi_allocator *mem;
    FLXI_VEC(function) known;
    flxi_index index; /* by serial number */
} functions;

const flx_graph *flxi_called(const flx_graph *g, const flxi_node *n)
{
    flxi_body body;
    const flxi_rules *r = flxi_ops[n->op].rules;
    return r->bodies && r->bodies(g, n, 0, &body) && body.role == BODY_FUNCTION ? body.graph : NULL;
}

static uint64_t plus(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static function *find(functions *f, const flx_graph *g);

/* The largest number when memory is exhausted: then nothing is inlined. */
static uint64_t count_nodes(functions *f, const flx_graph *g)
{
    uint64_t size = 0;
    for (uint32_t i = 0; i < g->node_count; i++) {
        const flx_graph *body = flxi_called(g, flxi_node_at(g, i));
        const function *inner = body ? find(f, body) : NULL;
        size = plus(size, !body ? 1 : inner ? inner->size : UINT64_MAX);
    }
    return size;
}

/* Valid until the next call; NULL when memory is exhausted. */
static function *find(functions *f, const flx_graph *g)
{
    uint32_t i;
    for (flxi_probe p = flxi_index_first(&f->index, g->serial); flxi_index_next(&f->index, &p, &i);)
        if (f->known.at[i].serial == g->serial)
            return &f->known.at[i];
    function made = {.serial = g->serial, .size = count_nodes(f, g)};
    if (!flxi_reserve(f->mem, &f->known) || !flxi_index_add(f->mem, &f->index, made.serial, (uint32_t)f->known.n))
        return NULL;
    f->known.at[f->known.n] = made;
    return &f->known.at[f->known.n++];
}

/* ---- Choosing ---- */

static flx_code count_calls(functions *f, const flx_graph *g, flx_error *err)
{
    for (uint32_t i = 0; i < g->node_count; i++) {
        const flx_graph *body = flxi_called(g, flxi_node_at(g, i));
        function *called = body ? find(f, body) : NULL;
        if (body && !called)
            return flxi_oom(err, "inlining");
        if (called)
            called->calls++;
    }
    return FLX_OK;
}

static bool is_inlined(functions *f, const flx_graph *body)
{
    const function *called = find(f, body);
    if (!called)
        return false;
    return called->size <= FLXI_INLINE_EACH ||
           (called->size <= FLXI_INLINE_TOGETHER && called->size * called->calls <= FLXI_INLINE_TOGETHER);
}

/* ---- Inlining ---- */

/* With all functions that it calls in turn; those are part of its size. */
static flx_code inline_whole(flx_graph *to, const flx_graph *body, const uint32_t *in, uint32_t *out, flx_error *err)
{
    const flxi_allocator *mem = &to->ctx->mem;
    size_t ids = (size_t)body->value_count + 1;
    uint32_t *map = flxi_alloc(mem, ids, sizeof *map);
    flx_code code = map ? FLX_OK : flxi_oom(err, "inlining");
    for (size_t i = 0; code == FLX_OK && i < body->leaves.n; i++)
        map[body->leaves.at[i]] = in[i];
    for (uint32_t i = 0; code == FLX_OK && i < body->node_count; i++) {
        const flxi_node *n = flxi_node_at(body, i);
        const flx_graph *inner = flxi_called(body, n);
        if (flxi_ops[n->op].traits & TRAIT_DECLARED)
            continue;
        if (!inner) {
            code = flxi_graft(to, body, i, map, err);
            continue;
        }
        uint32_t *operands = flxi_new(&to->arena, uint32_t, n->nin + 1);
        for (uint32_t k = 0; operands && k < n->nin; k++)
            operands[k] = map[n->in[k]];
        code = operands ? inline_whole(to, inner, operands, map + n->first, err) : flxi_oom(err, "inlining");
    }
    for (size_t k = 0; code == FLX_OK && k < body->outputs.n; k++)
        out[k] = map[body->outputs.at[k].val];
    flxi_free(mem, map, ids, sizeof *map);
    return code;
}

static flx_code inline_call(flxi_copy *c, const flxi_node *n, const flx_graph *body)
{
    uint32_t *ids = flxi_new(&c->to->arena, uint32_t, n->nin + n->nout);
    if (!ids)
        return flxi_oom(c->err, "inlining");
    for (uint32_t k = 0; k < n->nin; k++)
        ids[k] = c->remap.id[n->in[k]];
    FLXI_TRY(inline_whole(c->to, body, ids, ids + n->nin, c->err));
    for (uint32_t k = 0; k < n->nout; k++)
        flxi_copy_replace(c, n->first + k, ids[n->nin + k]);
    return FLX_OK;
}

flx_code flxi_pass_inline_calls(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err)
{
    flxi_copy c;
    functions f = {.mem = &in->ctx->mem};
    flx_code code = flxi_copy_begin(&c, in, err);
    if (code == FLX_OK)
        code = count_calls(&f, in, err);
    for (uint32_t i = 0; code == FLX_OK && i < in->node_count; i++) {
        const flxi_node *n = flxi_node_at(in, i);
        const flx_graph *body = flxi_called(in, n);
        code = body && is_inlined(&f, body) ? inline_call(&c, n, body) : flxi_copy_node(&c, i);
    }
    flxi_vec_free(f.mem, &f.known);
    flxi_index_free(f.mem, &f.index);
    return flxi_copy_end(&c, code, out, remap);
}
