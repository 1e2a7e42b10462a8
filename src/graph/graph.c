/* SPDX-License-Identifier: Apache-2.0 */
/* graph.c: building graphs and reading them back. All nodes are made by flxi_add_node. */
#include "graph/graph.h"

#include "base/host/stop.h"
#include "base/options.h"
#include "graph/op/foreign_names.h"
#include "graph/op/infer.h"
#include "graph/op/origin.h"

#include <fluxion/lower.h>
#include <fluxion/text.h>
#include <stdio.h>

enum { FIRST_CHUNK = 16, SMALL_RESULTS = 8 };

static const char name_hint[] = "names are letters, digits, _ and ., not starting with a digit";

/* ---- Life ---- */

bool flxi_graph_alive(const flx_graph *g)
{
    return g && g->magic == FLXI_GRAPH_MAGIC;
}

flx_graph *flx_graph_new(flx_context *ctx, const char *name)
{
    if (!ctx || !name)
        return NULL;
    char text[60];
    flx_graph *g = flxi_alloc(&ctx->mem, 1, sizeof *g);
    if (!g)
        return NULL;
    g->magic = FLXI_GRAPH_MAGIC;
    g->serial = atomic_fetch_add(&ctx->next_serial, 1);
    atomic_init(&g->refs, 1);
    atomic_init(&g->sealed, false);
    g->ctx = ctx;
    g->nesting = 1;
    flxi_arena_init(&g->arena, &ctx->mem);
    g->name = flxi_arena_text(&g->arena, name, strlen(name));
    if (!g->name) {
        flx_graph_release(g);
        return NULL;
    }
    if (!flxi_is_name(name, strlen(name)))
        flxi_graph_failf(g, FLX_E_NAME, name_hint, "a graph cannot be called '%s'",
                         flxi_printable(text, sizeof text, name, strlen(name)));
    return g;
}

flx_graph *flx_graph_retain(flx_graph *g)
{
    if (flxi_graph_alive(g))
        atomic_fetch_add(&g->refs, 1);
    return g;
}

/* Debug builds keep the header of a freed graph as long as its context, so that using it is an error, not a crash. */
static void bury(flx_graph *g)
{
    flx_context *ctx = g->ctx;
#ifdef FLX_DEBUG
    g->magic = FLXI_GRAPH_DEAD;
    pthread_mutex_lock(&ctx->lock);
    g->next_dead = ctx->dead_graphs;
    ctx->dead_graphs = g;
    pthread_mutex_unlock(&ctx->lock);
#else
    flxi_free(&ctx->mem, g, 1, sizeof *g);
#endif
}

/* Recursion is bounded by FLXI_MAX_NESTING. */
void flx_graph_release(flx_graph *g)
{
    if (!flxi_graph_alive(g) || atomic_fetch_sub(&g->refs, 1) != 1)
        return;
    const flxi_allocator *mem = &g->ctx->mem;
    for (size_t i = 0; i < g->bodies.n; i++)
        flx_graph_release(g->bodies.at[i]);
    for (size_t i = 0; i < g->constants.n; i++)
        flx_tensor_release(g->constants.at[i]);
    flxi_vec_free(mem, &g->types);
    flxi_vec_free(mem, &g->leaves);
    flxi_vec_free(mem, &g->outputs);
    flxi_vec_free(mem, &g->bodies);
    flxi_vec_free(mem, &g->constants);
    flxi_vec_free(mem, &g->symbols);
    flxi_index_free(mem, &g->type_index);
    flxi_index_free(mem, &g->symbol_index);
    flxi_index_free(mem, &g->names);
    flxi_arena_free(&g->arena);
    bury(g);
}

/* ---- Errors ---- */

/* A node that a program builds has no label yet: its number tells calls of one op apart. What a rule builds is not the
   user's graph: the caller of the rule adds the location. */
static void write_where(flx_graph *g)
{
    char *where = g->error.where;
    size_t size = sizeof g->error.where;
    if (flxi_current_origin())
        where[0] = 0;
    else if (g->pending_label)
        snprintf(where, size, "%.50s/%.50s", g->name, g->pending_label);
    else if (g->pending_op && g->is_call_pending)
        snprintf(where, size, "%.50s/%.40s, node %u", g->name, g->pending_op, g->node_count);
    else if (g->pending_op)
        snprintf(where, size, "%.50s/%.50s", g->name, g->pending_op);
    else
        snprintf(where, size, "%.100s", g->name);
}

flx_code flxi_graph_fail(flx_graph *g, const flx_error *err)
{
    if (g->error.code == FLX_OK) {
        g->error = *err;
        if (!g->error.where[0])
            write_where(g);
    }
    return (flx_code)err->code;
}

flx_code flxi_graph_failf(flx_graph *g, flx_code code, const char *hint, const char *fmt, ...)
{
    flx_error err;
    va_list args;
    va_start(args, fmt);
    flxi_fail_va(&err, code, hint, fmt, args);
    va_end(args);
    return flxi_graph_fail(g, &err);
}

flx_code flx_graph_error(const flx_graph *g, flx_error *err)
{
    if (!flxi_graph_alive(g))
        return flxi_fail(err, FLX_E_USAGE, "the graph is NULL or was freed");
    if (err)
        *err = g->error;
    return (flx_code)g->error.code;
}

flx_code flxi_graph_check(const flx_graph *g, flx_error *err)
{
    return flxi_graph_alive(g) && atomic_load(&g->sealed) ? FLX_OK : flx_graph_error(g, err);
}

/* The one limit of what readers, imports, transforms and passes make, since all of it is nodes; and the place where all
   of them can be stopped. */
static bool has_room(flx_graph *g)
{
    flx_error err = {0};
    if (g->node_count >= g->ctx->node_limit) {
        flxi_graph_failf(g, FLX_E_SIZE,
                         "a body that call() uses is counted once; in C flx_context_options.node_limit is the limit",
                         "the graph '%s' has more than %llu nodes", g->name, (unsigned long long)g->ctx->node_limit);
        return false;
    }
    if (flxi_stop_check(&err) != FLX_OK)
        flxi_graph_fail(g, &err);
    return !err.code;
}

/* True when g may grow; otherwise g holds the reason (or is NULL). */
bool flxi_may_build(flx_graph *g)
{
    if (!flxi_graph_alive(g) || g->error.code)
        return false;
    if (!atomic_load(&g->sealed))
        return true;
    flxi_graph_failf(g, FLX_E_USAGE, "finish a graph before using it as a body",
                     "the graph '%s' is used as a body and can no longer change", g->name);
    return false;
}

/* ---- Chunks ---- */

/* Item i is in chunk c = ⌊log2(i/16 + 1)⌋, which starts at 16·(2^c − 1) and holds 16·2^c items. */
static void locate(uint32_t i, uint32_t *chunk, uint32_t *at)
{
    uint32_t k = i / FIRST_CHUNK + 1;
    *chunk = 31u - (uint32_t)__builtin_clz(k);
    *at = i - FIRST_CHUNK * ((UINT32_C(1) << *chunk) - 1);
}

const flxi_node *flxi_node_at(const flx_graph *g, uint32_t i)
{
    uint32_t c;
    uint32_t k;
    locate(i, &c, &k);
    return &g->node_chunks[c][k];
}

flxi_value *flxi_value_at(const flx_graph *g, uint32_t id)
{
    uint32_t c;
    uint32_t k;
    locate(id - 1, &c, &k);
    return &g->value_chunks[c][k];
}

/* The number of leaves declared before a value. */
static size_t leaves_before(const flx_graph *g, uint32_t id)
{
    size_t low = 0;
    size_t high = g->leaves.n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (g->leaves.at[middle] < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

size_t flxi_leaf_at(const flx_graph *g, uint32_t id)
{
    size_t i = leaves_before(g, id);
    return i < g->leaves.n && g->leaves.at[i] == id ? i : g->leaves.n;
}

uint32_t flxi_value_number(const flx_graph *g, uint32_t id)
{
    size_t leaf = flxi_leaf_at(g, id);
    return leaf < g->leaves.n ? (uint32_t)leaf + 1 : id + (uint32_t)(g->leaves.n - leaves_before(g, id));
}

/* Room for node `node_count` and for n more values. */
static bool make_room(flx_graph *g, uint32_t n)
{
    uint32_t c;
    uint32_t k;
    if (n > UINT32_MAX / 2 - g->value_count || g->node_count >= UINT32_MAX / 4)
        return false;
    locate(g->node_count, &c, &k);
    if (c >= FLXI_CHUNKS)
        return false;
    if (!g->node_chunks[c] && !(g->node_chunks[c] = flxi_new(&g->arena, flxi_node, FIRST_CHUNK << c)))
        return false;
    if (n == 0)
        return true;
    uint32_t last;
    locate(g->value_count, &c, &k);
    locate(g->value_count + n - 1, &last, &k);
    for (; c <= last; c++)
        if (c >= FLXI_CHUNKS ||
            (!g->value_chunks[c] && !(g->value_chunks[c] = flxi_new(&g->arena, flxi_value, FIRST_CHUNK << c))))
            return false;
    return true;
}

/* ---- Types ---- */

static void note_symbol(void *user, const char *name)
{
    flx_graph *g = user;
    uint64_t h = flxi_hash_u64(FLXI_HASH_SEED, (uintptr_t)name);
    uint32_t i;
    for (flxi_probe p = flxi_index_first(&g->symbol_index, h); flxi_index_next(&g->symbol_index, &p, &i);)
        if (g->symbols.at[i] == name)
            return;
    if (!flxi_push(&g->ctx->mem, &g->symbols, name) ||
        !flxi_index_add(&g->ctx->mem, &g->symbol_index, h, (uint32_t)g->symbols.n - 1))
        flxi_graph_failf(g, FLX_E_OOM, NULL, "out of memory: symbols");
}

const flx_type *flxi_graph_type(flx_graph *g, const flx_type *t)
{
    uint64_t h = flxi_type_hash(FLXI_HASH_SEED, t);
    uint32_t i;
    for (flxi_probe p = flxi_index_first(&g->type_index, h); flxi_index_next(&g->type_index, &p, &i);)
        if (flxi_type_equal(g->types.at[i], t))
            return g->types.at[i];
    /* Only the dims in use are kept. */
    size_t nbytes = offsetof(flx_type, dims) + (size_t)t->rank * sizeof(flx_dim);
    flx_type *copy = flxi_arena_copy(&g->arena, t, 1, sizeof *t, _Alignof(flx_type));
    if (!copy)
        return NULL;
    memset((char *)copy + nbytes, 0, sizeof *copy - nbytes);
    if (!flxi_reserve(&g->ctx->mem, &g->types) ||
        !flxi_index_add(&g->ctx->mem, &g->type_index, h, (uint32_t)g->types.n))
        return NULL;
    g->types.at[g->types.n++] = copy;
    for (int k = 0; k < t->rank; k++)
        flxi_dim_symbols(g->ctx, t->dims[k], note_symbol, g);
    return copy;
}

/* ---- Nodes ---- */

static flx_code hold_body(void *user, const flx_graph *body)
{
    flx_graph *g = user;
    flx_graph *held = (flx_graph *)(uintptr_t)body; /* the reference and the seal are not visible changes */
    if (!flxi_push(&g->ctx->mem, &g->bodies, held))
        return FLX_E_OOM;
    atomic_fetch_add(&held->refs, 1);
    atomic_store(&held->sealed, true);
    if (held->nesting + 1 > g->nesting)
        g->nesting = held->nesting + 1;
    g->has_effects |= held->has_effects;
    g->has_exchanges |= held->has_exchanges;
    g->has_hir |= held->has_hir;
    for (size_t i = 0; i < held->symbols.n; i++)
        note_symbol(g, held->symbols.at[i]);
    return FLX_OK;
}

static flx_code hold_tensor(void *user, const flx_tensor *t)
{
    flx_graph *g = user;
    flx_tensor *held = (flx_tensor *)(uintptr_t)t; /* only the count changes */
    if (!flxi_push(&g->ctx->mem, &g->constants, held))
        return FLX_E_OOM;
    flx_tensor_retain(held);
    return FLX_OK;
}

static flx_code note_dim(void *user, flx_dim d)
{
    flx_graph *g = user;
    flxi_dim_symbols(g->ctx, d, note_symbol, g);
    return FLX_OK;
}

static flx_code append(flx_graph *g, flxi_opcode op, const uint32_t *in, uint32_t nin, void *attrs, const flx_type *out,
                       uint32_t nout, const flxi_origin *origin)
{
    const flxi_attr_visitor hold = {hold_body, hold_tensor, note_dim, g};
    uint32_t *own = flxi_dup(&g->arena, uint32_t, in, nin);
    const flxi_origin *kept = flxi_keep_origin(g, origin);
    if (!own || (origin && !kept) || !make_room(g, nout))
        return FLX_E_OOM;
    for (uint32_t i = 0; i < nout; i++) {
        flxi_value *v = flxi_value_at(g, g->value_count + 1 + i);
        *v = (flxi_value){.type = flxi_graph_type(g, &out[i]), .node = g->node_count};
        if (!v->type)
            return FLX_E_OOM;
    }
    if (attrs)
        FLXI_TRY(flxi_attrs_visit(&flxi_ops[op], attrs, &hold));
    uint32_t c;
    uint32_t k;
    locate(g->node_count, &c, &k);
    g->node_chunks[c][k] = (flxi_node){(uint32_t)op, nin, nout, g->value_count + 1, own, attrs, kept};
    g->has_effects |= flxi_has_effect(&g->node_chunks[c][k]);
    g->has_exchanges |= flxi_has_exchange(&g->node_chunks[c][k]);
    g->has_hir |= (flxi_ops[op].traits & TRAIT_HIR) != 0;
    g->node_count++;
    g->value_count += nout;
    return FLX_OK;
}

static flx_code note_effect(void *user, const flx_graph *body)
{
    *(bool *)user |= body->has_effects;
    return FLX_OK;
}

bool flxi_has_effect(const flxi_node *n)
{
    bool has = (flxi_ops[n->op].traits & TRAIT_EFFECT) != 0;
    for (const flxi_attr *a = flxi_ops[n->op].rules->schema; a && a->name; a++)
        has |= (a->flags & ATTR_EFFECT) && *(const int64_t *)(const void *)((const char *)n->attrs + a->offset);
    const flxi_attr_visitor v = {.graph = note_effect, .user = &has};
    flxi_attrs_visit(&flxi_ops[n->op], n->attrs, &v);
    return has;
}

static flx_code note_exchange(void *user, const flx_graph *body)
{
    *(bool *)user |= body->has_exchanges;
    return FLX_OK;
}

bool flxi_has_exchange(const flxi_node *n)
{
    bool has = (flxi_ops[n->op].traits & TRAIT_EXCHANGES) != 0;
    const flxi_attr_visitor v = {.graph = note_exchange, .user = &has};
    flxi_attrs_visit(&flxi_ops[n->op], n->attrs, &v);
    return has;
}

/* ---- Stages ---- */

static flx_code find_composites(void *user, const flx_graph *body)
{
    (void)user;
    return body->has_hir ? FLX_E_STAGE : FLX_OK;
}

/* A graph that was lowered has no composites of HIR left, and none may be added. */
static bool fits_stage(flx_graph *g, flxi_opcode op, const void *attrs)
{
    static const char hint[] = "add it to the graph before lowering, then lower again";
    const flxi_attr_visitor bodies = {.graph = find_composites};
    const flxi_op *row = &flxi_ops[op];
    if (!g->is_lowered)
        return true;
    if (row->traits & TRAIT_HIR)
        flxi_graph_failf(g, FLX_E_STAGE, hint, "%s is a composite of HIR, but '%s' has been lowered", row->name,
                         g->name);
    else if (attrs && flxi_attrs_visit(row, attrs, &bodies) != FLX_OK)
        flxi_graph_failf(g, FLX_E_STAGE, hint, "%s: its body has composites of HIR, but '%s' has been lowered",
                         row->name, g->name);
    return !g->error.code;
}

flx_stage flx_graph_stage(const flx_graph *g)
{
    return flxi_graph_alive(g) && g->is_lowered ? FLX_STAGE_MIR : FLX_STAGE_HIR;
}

/* ---- Adding nodes ---- */

static flx_code add_checked(flx_graph *g, flxi_opcode op, const uint32_t *in, uint32_t nin, void *attrs, flx_error *err)
{
    const flx_type *few[SMALL_RESULTS];
    const flx_type **types = few;
    flx_type results[SMALL_RESULTS];
    flx_type *out = results;
    uint32_t nout;
    if (nin > SMALL_RESULTS && !(types = flxi_new(&g->arena, const flx_type *, nin)))
        return flxi_oom(err, "operands");
    for (uint32_t i = 0; i < nin; i++)
        types[i] = flxi_type_at(g, in[i]);
    g->pending_in = in;
    flx_code inferred = flxi_infer_node(g, op, types, nin, attrs, &out, &nout, err);
    g->pending_in = NULL;
    FLXI_TRY(inferred);
    flx_code code = append(g, op, in, nin, attrs, out, nout, flxi_current_origin());
    return code == FLX_OK ? FLX_OK : flxi_oom(err, "the graph's nodes");
}

uint32_t flxi_add_node(flx_graph *g, flxi_opcode op, const uint32_t *in, uint32_t nin, void *attrs)
{
    flx_error err = {0};
    if (!flxi_may_build(g) || !has_room(g))
        return 0;
    uint32_t first = g->value_count + 1;
    const char *outer = g->pending_op;
    g->pending_op = flxi_ops[op].name;
    if (fits_stage(g, op, attrs) && add_checked(g, op, in, nin, attrs, &err) != FLX_OK)
        flxi_graph_fail(g, &err);
    g->pending_op = outer;
    return g->error.code ? 0 : first;
}

/* A copy was made for the same node as the original. A node without a label inside of a rule's graph was made for the
   rule's node, one with a label is the user's own. */
static const flxi_origin *origin_of_copy(const flx_graph *like, const flxi_node *n)
{
    return n->origin || flxi_node_label(like, n) ? n->origin : flxi_current_origin();
}

uint32_t flxi_add_copy(flx_graph *g, const flx_graph *like, const flxi_node *n, const uint32_t *in, void *attrs)
{
    flx_type few[SMALL_RESULTS];
    flx_type *types = few;
    if (!flxi_may_build(g) || !has_room(g) || !fits_stage(g, n->op, attrs))
        return 0;
    if (n->nout > SMALL_RESULTS)
        types = flxi_new(&g->arena, flx_type, n->nout);
    for (uint32_t k = 0; types && k < n->nout; k++)
        types[k] = *flxi_type_at(like, n->first + k);
    uint32_t first = g->value_count + 1;
    if (!types || append(g, n->op, in, n->nin, attrs, types, n->nout, origin_of_copy(like, n)) != FLX_OK)
        flxi_graph_failf(g, FLX_E_OOM, NULL, "out of memory: the graph's nodes");
    return g->error.code ? 0 : first;
}

static flx_code check_handle(flx_graph *g, flx_val v, const char *op, size_t i)
{
    if (v.id && v.graph == g->serial && v.id <= g->value_count)
        return FLX_OK;
    if (v.id == 0)
        return flxi_graph_failf(g, FLX_E_USAGE, NULL, "%s: operand %zu is FLX_NONE", op, i);
    return flxi_graph_failf(g, FLX_E_USAGE, "values can only be used in the graph they were made in",
                            "%s: operand %zu belongs to another graph than '%s'", op, i, g->name);
}

/* The operands' ids: in `few` where they fit, else in the graph's memory; NULL with the error in g. */
static const uint32_t *read_operands(flx_graph *g, const char *op, const flx_val *inputs, size_t n, uint32_t *few)
{
    uint32_t *in = n > SMALL_RESULTS ? flxi_new(&g->arena, uint32_t, n) : few;
    if (!in) {
        flxi_graph_failf(g, FLX_E_OOM, NULL, "out of memory: operands");
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        if (check_handle(g, inputs[i], op, i) != FLX_OK)
            return NULL;
        in[i] = inputs[i].id;
    }
    return in;
}

flx_code flx_attrs_check(flx_graph *g, const void *attrs, const char *type, size_t size, size_t alignment)
{
    flx_error err = {0};
    if (!flxi_may_build(g))
        return flx_graph_error(g, NULL);
    if (!attrs || !type || !alignment)
        return flxi_graph_failf(g, FLX_E_USAGE, NULL,
                                "flx_attrs_check: the struct, its type and its alignment must be given");
    return flxi_options_check(attrs, size, alignment, type, &err) == FLX_OK ? FLX_OK : flxi_graph_fail(g, &err);
}

/* The id of result 0, or 0 with the error in g. */
static uint32_t build_op(flx_graph *g, const char *op, const flx_val *inputs, size_t num_inputs, const flx_attr *attrs,
                         size_t num_attrs)
{
    uint32_t few[SMALL_RESULTS];
    char name[60];
    void *filled;
    flx_error err = {0};
    if (!op) {
        flxi_graph_failf(g, FLX_E_USAGE, NULL, "flx_op: the name of the op is NULL");
        return 0;
    }
    flxi_opcode code = flxi_op_lookup(op, strlen(op));
    if (code == OP_NONE || (flxi_ops[code].traits & TRAIT_DECLARED)) {
        char hint[120];
        bool is_known = flxi_foreign_hint(op, strlen(op), hint, sizeof hint);
        flxi_graph_failf(g, FLX_E_NAME, is_known ? hint : NULL, "there is no op called '%s'",
                         flxi_printable(name, sizeof name, op, strlen(op)));
        return 0;
    }
    if ((num_inputs && !inputs) || (num_attrs && !attrs) || num_inputs > UINT32_MAX / 2) {
        flxi_graph_failf(g, FLX_E_USAGE, NULL, "%s: a list of operands or attributes is NULL", op);
        return 0;
    }
    const uint32_t *in = read_operands(g, op, inputs, num_inputs, few);
    if (!in)
        return 0;
    if (flxi_attrs_fill(g, &flxi_ops[code], attrs, num_attrs, &filled, &err) != FLX_OK) {
        flxi_graph_fail(g, &err);
        return 0;
    }
    return flxi_add_node(g, code, in, (uint32_t)num_inputs, filled);
}

uint32_t flx_op(flx_graph *g, const char *op, const flx_val *inputs, size_t num_inputs, const flx_attr *attrs,
                size_t num_attrs, flx_val *results, size_t capacity)
{
    char called[60];
    uint32_t first = 0;
    if (flxi_may_build(g)) {
        g->pending_op = op ? flxi_printable(called, sizeof called, op, strlen(op)) : NULL;
        g->is_call_pending = true;
        first = build_op(g, op, inputs, num_inputs, attrs, num_attrs);
        g->is_call_pending = false;
        g->pending_op = NULL;
    }
    uint32_t n = first ? flxi_node_at(g, g->node_count - 1)->nout : 0;
    for (size_t i = 0; results && i < capacity; i++) /* only now: `results` may be the same memory as `inputs` */
        results[i] = i < n ? (flx_val){first + (uint32_t)i, g->serial} : (flx_val){0, 0};
    return n;
}

flx_val flx_scalar(flx_graph *g, flx_dtype dtype, double value)
{
    flx_val y = {0, 0};
    flx_error err = {0};
    if (!flxi_may_build(g))
        return y;
    flx_type wide = {.dtype = FLX_F64};
    flx_type type = {.dtype = (int32_t)dtype};
    flx_tensor *f64 = flx_tensor_new(g->ctx, &wide, &value, &err);
    flx_tensor *data = f64 ? flx_tensor_cast(f64, dtype, &err) : NULL;
    if (data) {
        flx_attr attrs[] = {{.key = "type", .kind = FLX_ATTR_TYPE, .as.type = &type},
                            {.key = "data", .kind = FLX_ATTR_TENSOR, .as.tensor = data}};
        flx_op(g, flxi_ops[flxi_const_op()].name, NULL, 0, attrs, 2, &y, 1);
    } else {
        flxi_graph_fail(g, &err);
    }
    flx_tensor_release(data);
    flx_tensor_release(f64);
    return y;
}

/* ---- Names ---- */

bool flxi_is_name(const char *s, size_t n)
{
    static const char *const reserved = "graph kernel param return true false inf nan";
    for (size_t i = 0; i < n; i++) {
        char c = s[i];
        bool letter = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
        if (!letter && !(i > 0 && ((c >= '0' && c <= '9') || c == '.')))
            return false;
    }
    return n > 0 && flxi_word_find(reserved, s, n) < 0;
}

bool flxi_is_label(const char *s, size_t n)
{
    return flxi_is_name(s, n) && !(n == 1 && *s == '_');
}

/* The index holds leaves as 2·position and outputs as 2·position + 1. */
static const char *indexed_name(const flx_graph *g, uint32_t k)
{
    return k & 1 ? g->outputs.at[k / 2].name : flxi_value_at(g, g->leaves.at[k / 2])->name;
}

static uint32_t indexed_val(const flx_graph *g, uint32_t k)
{
    return k & 1 ? g->outputs.at[k / 2].val : g->leaves.at[k / 2];
}

static bool find_name(const flx_graph *g, const char *name, bool outputs, uint32_t *k)
{
    uint64_t h = flxi_hash_text(FLXI_HASH_SEED, name);
    for (flxi_probe p = flxi_index_first(&g->names, h); flxi_index_next(&g->names, &p, k);)
        if ((*k & 1) == outputs && strcmp(indexed_name(g, *k), name) == 0)
            return true;
    return false;
}

bool flxi_find_leaf(const flx_graph *g, const char *name, size_t *i)
{
    uint32_t k;
    bool found = find_name(g, name, false, &k);
    *i = found ? k / 2 : SIZE_MAX;
    return found;
}

bool flxi_find_output(const flx_graph *g, const char *name, size_t *i)
{
    uint32_t k;
    bool found = find_name(g, name, true, &k);
    *i = found ? k / 2 : SIZE_MAX;
    return found;
}

static bool index_name(flx_graph *g, const char *name, uint32_t k)
{
    return flxi_index_add(&g->ctx->mem, &g->names, flxi_hash_text(FLXI_HASH_SEED, name), k);
}

/* Whether an input may have the name; otherwise the graph has failed. */
static bool is_free_for_leaf(flx_graph *g, flxi_opcode op, const char *name)
{
    char text[60];
    uint32_t taken;
    if (!flxi_is_name(name, strlen(name)))
        flxi_graph_failf(g, FLX_E_NAME, name_hint, "an %s cannot be called '%s'", flxi_ops[op].name,
                         flxi_printable(text, sizeof text, name, strlen(name)));
    else if (find_name(g, name, false, &taken) || find_name(g, name, true, &taken))
        flxi_graph_failf(g, FLX_E_DUP_NAME, NULL, "the name '%s' is defined twice",
                         flxi_printable(text, sizeof text, name, strlen(name)));
    return !g->error.code;
}

uint32_t flxi_add_leaf(flx_graph *g, flxi_opcode op, const char *name, const flx_type *type)
{
    flx_error err = {0};
    void *attrs;
    if (!flxi_may_build(g))
        return 0;
    if (!name || !type) {
        flxi_graph_failf(g, FLX_E_USAGE, NULL, "%s: name and type must be given", flxi_ops[op].name);
        return 0;
    }
    if (!is_free_for_leaf(g, op, name))
        return 0;
    flx_attr given = {.key = "type", .kind = FLX_ATTR_TYPE, .as.type = type};
    if (flxi_attrs_fill(g, &flxi_ops[op], &given, 1, &attrs, &err) != FLX_OK) {
        flxi_graph_fail(g, &err);
        return 0;
    }
    const char *kept = flxi_arena_text(&g->arena, name, strlen(name));
    if (!kept || !flxi_reserve(&g->ctx->mem, &g->leaves)) {
        flxi_graph_failf(g, FLX_E_OOM, NULL, "out of memory: inputs");
        return 0;
    }
    uint32_t id = flxi_add_node(g, op, NULL, 0, attrs);
    if (!id)
        return 0;
    flxi_value_at(g, id)->name = kept;
    g->leaves.at[g->leaves.n++] = id;
    if (!index_name(g, kept, (uint32_t)(2 * (g->leaves.n - 1)))) {
        flxi_graph_failf(g, FLX_E_OOM, NULL, "out of memory: names");
        return 0;
    }
    return id;
}

static flx_val declare(flx_graph *g, flxi_opcode op, const char *name, const flx_type *type)
{
    uint32_t id = flxi_add_leaf(g, op, name, type);
    return id ? (flx_val){id, g->serial} : (flx_val){0, 0};
}

flx_val flx_input(flx_graph *g, const char *name, const flx_type *type)
{
    return declare(g, flxi_leaf_op(false), name, type);
}

flx_val flx_param(flx_graph *g, const char *name, const flx_type *type)
{
    return declare(g, flxi_leaf_op(true), name, type);
}

flx_code flxi_add_output(flx_graph *g, uint32_t id, const char *name)
{
    const char *kept = flxi_arena_text(&g->arena, name, strlen(name));
    if (!kept || !flxi_push(&g->ctx->mem, &g->outputs, ((flxi_output){id, 2, kept})) ||
        !index_name(g, kept, (uint32_t)(2 * (g->outputs.n - 1) + 1)))
        return flxi_graph_failf(g, FLX_E_OOM, NULL, "out of memory: outputs");
    g->num_updates = 0;
    return FLX_OK;
}

/* An output may share its name with the leaf that it returns, and with nothing else. */
static bool name_is_free(const flx_graph *g, const char *name, uint32_t id)
{
    uint32_t k;
    if (find_name(g, name, true, &k))
        return false;
    return !find_name(g, name, false, &k) || indexed_val(g, k) == id;
}

/* The name with the first suffix that is free. The output that has the plain name remembers where the search ended, so
   that many outputs of one name take linear time. */
static const char *free_name(flx_graph *g, const char *name, uint32_t id)
{
    size_t room = strlen(name) + 16;
    size_t i;
    char *text = flxi_new(&g->arena, char, room);
    uint32_t k = flxi_find_output(g, name, &i) ? g->outputs.at[i].next_suffix : 2;
    if (!text)
        return NULL;
    do
        snprintf(text, room, "%s_%u", name, k++);
    while (!name_is_free(g, text, id));
    if (i != SIZE_MAX)
        g->outputs.at[i].next_suffix = k;
    return text;
}

static void move_output(flx_graph *g, flxi_output o, size_t from, size_t to)
{
    flxi_index_replace(&g->names, flxi_hash_text(FLXI_HASH_SEED, o.name), (uint32_t)(2 * from + 1),
                       (uint32_t)(2 * to + 1));
    g->outputs.at[to] = o;
}

/* The output takes the position of the first next value of a state, which becomes the last. */
flx_code flx_output(flx_graph *g, flx_val v, const char *name)
{
    size_t updates = flxi_graph_alive(g) ? g->num_updates : 0;
    FLXI_TRY(flxi_output_last(g, v, name));
    size_t last = g->outputs.n - 1, at = last - updates;
    if (at == last)
        return FLX_OK;
    flxi_output o = g->outputs.at[last], first_update = g->outputs.at[at];
    move_output(g, o, last, at);
    move_output(g, first_update, at, last);
    g->num_updates = updates;
    return FLX_OK;
}

flx_code flxi_output_update(flx_graph *g, flx_val param, flx_val next)
{
    const char *name = flx_val_name(g, param);
    if (!flxi_graph_alive(g))
        return FLX_E_USAGE;
    if (!name)
        return flxi_graph_failf(g, FLX_E_USAGE, NULL, "only a parameter has a next value");
    char *full = flxi_new(&g->arena, char, strlen(name) + 5);
    size_t updates = g->num_updates;
    if (!full)
        return flxi_graph_failf(g, FLX_E_OOM, NULL, "out of memory: outputs");
    memcpy(full, "new_", 4);
    memcpy(full + 4, name, strlen(name) + 1);
    FLXI_TRY(flxi_output_last(g, next, full));
    g->num_updates = updates + 1;
    return FLX_OK;
}

flx_code flxi_output_last(flx_graph *g, flx_val v, const char *name)
{
    char text[60];
    if (!flxi_graph_alive(g))
        return FLX_E_USAGE;
    if (!flxi_may_build(g))
        return (flx_code)g->error.code;
    FLXI_TRY(check_handle(g, v, "output", g->outputs.n));
    const char *own = flxi_value_at(g, v.id)->name;
    char position[24];
    snprintf(position, sizeof position, "out%zu", g->outputs.n - g->num_updates);
    if (!name)
        name = own ? own : position;
    if (!flxi_is_label(name, strlen(name)) && !(own && strcmp(name, own) == 0)) /* an input may be called _ */
        return flxi_graph_failf(g, FLX_E_NAME, name_hint, "output %zu cannot be called '%s'", g->outputs.n,
                                flxi_printable(text, sizeof text, name, strlen(name)));
    if (!name_is_free(g, name, v.id))
        name = free_name(g, name, v.id);
    return name ? flxi_add_output(g, v.id, name) : flxi_graph_failf(g, FLX_E_OOM, NULL, "out of memory: outputs");
}

void flxi_label(flx_graph *g, uint32_t id, const char *name, size_t n)
{
    flxi_value *v = flxi_value_at(g, id);
    if (flxi_ops[flxi_node_at(g, v->node)->op].traits & TRAIT_DECLARED)
        return;
    const char *kept = flxi_arena_text(&g->arena, name, n);
    if (kept)
        v->name = kept;
    else
        flxi_graph_failf(g, FLX_E_OOM, NULL, "out of memory: names");
}

flx_val flx_named(flx_graph *g, flx_val v, const char *name)
{
    if (!flxi_may_build(g) || check_handle(g, v, "named", 0) != FLX_OK)
        return (flx_val){0, 0};
    if (!name || !flxi_is_label(name, strlen(name))) {
        char text[60];
        flxi_graph_failf(g, FLX_E_NAME, name_hint, "a value cannot be called '%s'",
                         name ? flxi_printable(text, sizeof text, name, strlen(name)) : "(null)");
        return (flx_val){0, 0};
    }
    flxi_label(g, v.id, name, strlen(name));
    return g->error.code ? (flx_val){0, 0} : v;
}

flx_val flx_pin(flx_graph *g, flx_val v)
{
    if (!flxi_may_build(g) || check_handle(g, v, "pin", 0) != FLX_OK)
        return (flx_val){0, 0};
    flxi_value_at(g, v.id)->pinned = 1;
    return v;
}

/* ---- Reading ---- */

flx_context *flx_graph_context(const flx_graph *g)
{
    return flxi_graph_alive(g) ? g->ctx : NULL;
}

const char *flx_graph_name(const flx_graph *g)
{
    return flxi_graph_alive(g) ? g->name : "";
}

size_t flx_graph_node_count(const flx_graph *g)
{
    return flxi_graph_alive(g) ? g->node_count : 0;
}

static flx_code count_body(void *user, const flx_graph *body)
{
    (void)body;
    ++*(uint32_t *)user;
    return FLX_OK;
}

flx_code flx_graph_node(const flx_graph *g, size_t i, flx_node_view *out)
{
    if (!out || i >= flx_graph_node_count(g))
        return FLX_E_USAGE;
    const flxi_node *n = flxi_node_at(g, (uint32_t)i);
    *out = (flx_node_view){.op = flxi_ops[n->op].name, .num_inputs = n->nin, .num_results = n->nout};
    for (uint32_t k = 0; k < n->nout; k++)
        out->pinned |= flxi_value_at(g, n->first + k)->pinned;
    out->num_attrs = flxi_node_attr_count(n);
    flxi_attr_visitor v = {.graph = count_body, .user = &out->num_graphs};
    return flxi_attrs_visit(&flxi_ops[n->op], n->attrs, &v);
}

flx_val flx_node_input(const flx_graph *g, size_t i, uint32_t k)
{
    if (i >= flx_graph_node_count(g) || k >= flxi_node_at(g, (uint32_t)i)->nin)
        return (flx_val){0, 0};
    return (flx_val){flxi_node_at(g, (uint32_t)i)->in[k], g->serial};
}

flx_val flx_node_result(const flx_graph *g, size_t i, uint32_t k)
{
    if (i >= flx_graph_node_count(g) || k >= flxi_node_at(g, (uint32_t)i)->nout)
        return (flx_val){0, 0};
    return (flx_val){flxi_node_at(g, (uint32_t)i)->first + k, g->serial};
}

typedef struct {
    uint32_t left;
    const flx_graph *found;
} body_search;

static flx_code find_body(void *user, const flx_graph *body)
{
    body_search *s = user;
    if (s->left-- == 0)
        s->found = body;
    return FLX_OK;
}

const flx_graph *flx_node_graph(const flx_graph *g, size_t i, uint32_t k)
{
    if (i >= flx_graph_node_count(g))
        return NULL;
    body_search s = {k, NULL};
    const flxi_node *n = flxi_node_at(g, (uint32_t)i);
    flxi_attr_visitor v = {.graph = find_body, .user = &s};
    flxi_attrs_visit(&flxi_ops[n->op], n->attrs, &v);
    return s.found;
}

size_t flx_graph_input_count(const flx_graph *g)
{
    return flxi_graph_alive(g) ? g->leaves.n : 0;
}

flx_val flx_graph_input(const flx_graph *g, size_t i)
{
    return i < flx_graph_input_count(g) ? (flx_val){g->leaves.at[i], g->serial} : (flx_val){0, 0};
}

int flx_graph_input_is_param(const flx_graph *g, size_t i)
{
    return i < flx_graph_input_count(g) && flxi_is_param(flxi_node_of(g, g->leaves.at[i]));
}

size_t flx_graph_output_count(const flx_graph *g)
{
    return flxi_graph_alive(g) ? g->outputs.n : 0;
}

flx_val flx_graph_output(const flx_graph *g, size_t i)
{
    return i < flx_graph_output_count(g) ? (flx_val){g->outputs.at[i].val, g->serial} : (flx_val){0, 0};
}

const char *flx_graph_output_name(const flx_graph *g, size_t i)
{
    return i < flx_graph_output_count(g) ? g->outputs.at[i].name : NULL;
}

static const flxi_value *checked_value(const flx_graph *g, flx_val v)
{
    bool own = flxi_graph_alive(g) && v.id && v.graph == g->serial && v.id <= g->value_count;
    return own ? flxi_value_at(g, v.id) : NULL;
}

const flx_type *flx_val_type(const flx_graph *g, flx_val v)
{
    const flxi_value *x = checked_value(g, v);
    return x ? x->type : NULL;
}

const char *flx_val_name(const flx_graph *g, flx_val v)
{
    const flxi_value *x = checked_value(g, v);
    return x ? x->name : NULL;
}

flx_val flx_graph_find(const flx_graph *g, const char *name)
{
    uint32_t k;
    if (flxi_graph_alive(g) && name && (find_name(g, name, false, &k) || find_name(g, name, true, &k)))
        return (flx_val){indexed_val(g, k), g->serial};
    return (flx_val){0, 0};
}

const char *flx_graph_symbol(const flx_graph *g, size_t i)
{
    return flxi_graph_alive(g) && i < g->symbols.n ? g->symbols.at[i] : NULL;
}

size_t flx_graph_memory(const flx_graph *g)
{
    if (!flxi_graph_alive(g))
        return 0;
    return sizeof *g + g->arena.held + g->types.cap * sizeof *g->types.at + g->leaves.cap * sizeof *g->leaves.at +
           g->outputs.cap * sizeof *g->outputs.at + g->bodies.cap * sizeof *g->bodies.at +
           g->constants.cap * sizeof *g->constants.at + g->symbols.cap * sizeof *g->symbols.at +
           (g->type_index.cap + g->symbol_index.cap + g->names.cap) * (sizeof(uint64_t) + sizeof(uint32_t));
}
