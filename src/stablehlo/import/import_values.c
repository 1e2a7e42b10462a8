/* SPDX-License-Identifier: Apache-2.0 */
/* import_values.c: what rules read: attributes, types, and values that follow from the program alone. */
#include "stablehlo/import/import_scope.h"

#include "graph/op/eval.h"
#include "graph/op/site.h"
#include "graph/type/dim.h"
#include "ops/opcode.h"

#include <fluxion/run.h>
#include <stdio.h>
#include <stdlib.h>

void *flxi_hlo_alloc(hlo_site *s, size_t n, size_t size)
{
    void *p = flxi_arena_alloc(&s->im->arena, n ? n : 1, size, _Alignof(max_align_t));
    if (!p)
        flxi_graph_failf(s->g, FLX_E_OOM, NULL, "no memory for %s", s->op->name);
    return p;
}

/* ---- Attributes ---- */

static void refuse_kind(hlo_site *s, const char *name, const char *wanted)
{
    flxi_hlo_fail(s, FLX_E_ATTRIBUTE, NULL, "attribute %.60s must be %s", name, wanted);
}

bool flxi_hlo_has(const hlo_site *s, const char *name)
{
    return flxi_hlo_attr(s->op, name) != NULL;
}

static bool int_in(const hlo_attr *a, int64_t *out)
{
    if (a->kind != HLO_A_INT && a->kind != HLO_A_BOOL)
        return false;
    *out = a->integer;
    return true;
}

static int64_t one_int(hlo_site *s, const hlo_attr *a, const char *name, int64_t absent)
{
    int64_t value = absent;
    if (a && !int_in(a, &value))
        refuse_kind(s, name, "an integer");
    return value;
}

int64_t flxi_hlo_int(hlo_site *s, const char *name, int64_t absent)
{
    return one_int(s, flxi_hlo_attr(s->op, name), name, absent);
}

bool flxi_hlo_flag(hlo_site *s, const char *name, bool absent)
{
    const hlo_attr *a = flxi_hlo_attr(s->op, name);
    return a && a->kind == HLO_A_UNIT ? true : one_int(s, a, name, absent) != 0;
}

const char *flxi_hlo_word(hlo_site *s, const char *name, const char *absent)
{
    const hlo_attr *a = flxi_hlo_attr(s->op, name);
    if (!a)
        return absent;
    if (a->kind == HLO_A_WORD || a->kind == HLO_A_STRING || a->kind == HLO_A_SYMBOL)
        return a->text;
    refuse_kind(s, name, "a word");
    return absent;
}

static bool dense_ints(const hlo_attr *a, int64_t *v, size_t n)
{
    flx_dtype d = flxi_hlo_carrier(a->type);
    if (!flxi_is_int((int32_t)d) && d != FLX_BOOL)
        return false;
    for (size_t i = 0; i < n; i++)
        v[i] = flxi_load_int((int32_t)d, a->bytes, a->is_splat ? 0 : (int64_t)i);
    return true;
}

static size_t dense_count(const hlo_attr *a)
{
    size_t n = 1;
    for (int i = 0; i < a->type->rank; i++)
        n *= (size_t)a->type->dims[i];
    return n;
}

bool flxi_hlo_ints_in(hlo_site *s, const hlo_attr *a, flx_ints *out)
{
    enum { MAX_NUMBERS = 1 << 20 }; /* a splat may claim any count */
    size_t n = a->kind == HLO_A_LIST ? a->num_numbers : a->kind == HLO_A_ARRAY ? a->num_items : 1;
    if (a->kind == HLO_A_DENSE)
        n = dense_count(a);
    int64_t *v = n <= MAX_NUMBERS ? flxi_hlo_new(s, int64_t, n) : NULL;
    *out = (flx_ints){v, n};
    if (!v)
        return false;
    if (a->kind == HLO_A_DENSE)
        return dense_ints(a, v, n);
    if (a->kind == HLO_A_LIST) {
        for (size_t i = 0; i < n && a->ints; i++)
            v[i] = a->ints[i];
        return n == 0 || a->ints;
    }
    if (a->kind != HLO_A_ARRAY)
        return int_in(a, v);
    for (size_t i = 0; i < n; i++)
        if (!int_in(a->items[i], &v[i]))
            return false;
    return true;
}

static flx_ints list_of(hlo_site *s, const hlo_attr *a, const char *name)
{
    flx_ints out = {NULL, 0};
    if (a && !flxi_hlo_ints_in(s, a, &out)) {
        refuse_kind(s, name, "a list of integers");
        out = (flx_ints){NULL, 0};
    }
    return out;
}

flx_ints flxi_hlo_ints(hlo_site *s, const char *name)
{
    return list_of(s, flxi_hlo_attr(s->op, name), name);
}

flx_ints flxi_hlo_ints_of(hlo_site *s, const char *name, size_t n, int64_t absent)
{
    flx_ints given = flxi_hlo_ints(s, name);
    if (given.v && given.n == n)
        return given;
    if (given.v)
        flxi_hlo_fail(s, FLX_E_ATTRIBUTE, NULL, "attribute %.60s has %zu entries, but needs %zu", name, given.n, n);
    int64_t *v = flxi_hlo_new(s, int64_t, n);
    for (size_t i = 0; v && i < n; i++)
        v[i] = absent;
    return (flx_ints){v, v ? n : 0};
}

static const hlo_attr *member_of(hlo_site *s, const char *name, const char *member)
{
    const hlo_attr *a = flxi_hlo_attr(s->op, name);
    if (!a)
        return NULL;
    if (a->kind == HLO_A_DICT)
        return flxi_hlo_entry(a, member);
    refuse_kind(s, name, "a structure");
    return NULL;
}

flx_ints flxi_hlo_member_ints(hlo_site *s, const char *name, const char *member)
{
    flx_ints out = list_of(s, member_of(s, name, member), member);
    return out.v ? out : (flx_ints){flxi_hlo_new(s, int64_t, 1), 0}; /* a member left out is an empty list */
}

int64_t flxi_hlo_member_int(hlo_site *s, const char *name, const char *member, int64_t absent)
{
    return one_int(s, member_of(s, name, member), member, absent);
}

/* ---- Types ---- */

const flx_type *flxi_hlo_typeof(const hlo_site *s, flx_val v)
{
    static const flx_type none = {.dtype = FLX_F32};
    const flx_type *t = flx_val_type(s->g, v);
    return t ? t : &none;
}

flx_dtype flxi_hlo_dtype(const hlo_site *s, flx_val v)
{
    return (flx_dtype)flxi_hlo_typeof(s, v)->dtype;
}

const hlo_type *flxi_hlo_operand_type(const hlo_site *s, size_t i)
{
    return s->op->operands[i]->type;
}

const hlo_type *flxi_hlo_result_type(const hlo_site *s, size_t i)
{
    return s->op->results[i]->type;
}

flx_dtype flxi_hlo_carrier(const hlo_type *t)
{
    return flxi_hlo_element(t->element)->carrier;
}

static flx_dim extent_for(flx_graph *g, int64_t dim, const char *name, int axis)
{
    if (dim != HLO_DYNAMIC)
        return dim;
    char symbol[64];
    snprintf(symbol, sizeof symbol, "%.40s_d%d", name ? name : "", axis);
    return name ? flx_dim_symbol(g->ctx, symbol) : FLX_DIM_INVALID;
}

bool flxi_hlo_our_type(flx_graph *g, const hlo_type *t, const char *name, flx_type *out)
{
    *out = (flx_type){.dtype = (int32_t)flxi_hlo_carrier(t), .rank = t->rank};
    bool known = (t->kind == HLO_TENSOR || t->kind == HLO_SCALAR) && !t->is_unranked;
    for (int i = 0; i < t->rank && known; i++) {
        out->dims[i] = extent_for(g, t->dims[i], name, i);
        known = out->dims[i] != FLX_DIM_INVALID;
    }
    if (!known && name && flxi_dim_starved(g->ctx)) {
        flxi_graph_failf(g, FLX_E_OOM, NULL, "no memory for the extents of %s", name);
    } else if (!known) {
        char text[160];
        flxi_hlo_type_print(t, text, sizeof text);
        flxi_graph_failf(g, FLX_E_UNSUPPORTED, NULL, "unsupported: a shape of %s that is not known at import", text);
    }
    return known;
}

bool flxi_hlo_static_result(hlo_site *s, size_t i, flx_type *out)
{
    return flxi_hlo_our_type(s->g, flxi_hlo_result_type(s, i), NULL, out);
}

/* ---- Values ---- */

flx_val flxi_hlo_number(hlo_site *s, flx_val like, double x)
{
    return flx_scalar(s->g, flxi_hlo_dtype(s, like), x);
}

flx_val flxi_hlo_fill(hlo_site *s, flx_val v, const flx_type *type)
{
    return flx_expand(s->g, v, flxi_hlo_dims(type));
}

flx_val flxi_hlo_append(hlo_site *s, const char *op, const flx_val *x, size_t n)
{
    return flx_op1(s->g, op, x, n, NULL, 0);
}

/* ---- Known values ---- */

typedef FLXI_VEC(uint32_t) id_list;

enum { MAX_SLICE = 1 << 16 }; /* nodes that may be evaluated to know one value */

/* A loop may take long or not end at all: it is left to a run. */
static bool is_evaluable(const flxi_node *n)
{
    bool is_loop = n->op == OP_while || n->op == OP_scan;
    return !(flxi_ops[n->op].traits & (TRAIT_DECLARED | TRAIT_OPAQUE)) && !flxi_has_effect(n) && !is_loop;
}

/* What cannot be computed for lack of memory must not count as unknown. */
static void note_no_memory(hlo_site *s)
{
    flxi_graph_failf(s->g, FLX_E_OOM, NULL, "no memory for %s", s->op->name);
}

/* Adds a node to the list, marked in the map; false when memory is exhausted. */
static bool list_node(hlo_site *s, uint32_t node, id_list *nodes)
{
    uint32_t *mark = &s->im->map.at[flxi_node_at(s->g, node)->first];
    if (*mark)
        return true;
    if (!flxi_push(s->im->arena.mem, nodes, node)) {
        flxi_hlo_fail(s, FLX_E_OOM, NULL, "no memory to work out a value");
        return false;
    }
    *mark = UINT32_MAX;
    return true;
}

/* Lists the nodes that value `id` follows from; false when one of them is an input. */
static bool list_slice(hlo_site *s, uint32_t id, id_list *nodes)
{
    const flx_graph *g = s->g;
    bool ok = list_node(s, flxi_value_at(g, id)->node, nodes);
    for (size_t i = 0; i < nodes->n && ok; i++) {
        const flxi_node *n = flxi_node_at(g, nodes->at[i]);
        ok = is_evaluable(n) && nodes->n <= MAX_SLICE;
        for (uint32_t k = 0; k < n->nin && ok; k++)
            ok = list_node(s, flxi_value_at(g, n->in[k])->node, nodes);
    }
    return ok;
}

static int by_id(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static flx_tensor *run_slice(hlo_site *s, const id_list *nodes, uint32_t id)
{
    flx_graph *g = flx_graph_new(s->im->ctx, "known");
    flx_error err = {0};
    flx_tensor *value = NULL;
    flx_code code = g ? FLX_OK : FLX_E_OOM;
    for (size_t i = 0; i < nodes->n && code == FLX_OK; i++)
        code = flxi_graft(g, s->g, nodes->at[i], s->im->map.at, &err);
    if (code == FLX_OK)
        code = flx_output(g, (flx_val){s->im->map.at[id], g->serial}, NULL);
    if (code == FLX_OK)
        code = flx_run(g, &(flx_run_options){.device = "ref"}, NULL, 0, &value, &err);
    flx_graph_release(g);
    if (code == FLX_E_OOM)
        note_no_memory(s);
    return value;
}

static bool reserve_map(hlo_site *s)
{
    while (s->im->map.n <= s->g->value_count)
        if (!flxi_push(s->im->arena.mem, &s->im->map, 0)) {
            note_no_memory(s);
            return false;
        }
    return true;
}

flx_tensor *flxi_hlo_known(hlo_site *s, flx_val v)
{
    id_list nodes = {0};
    flx_tensor *value = NULL;
    if (flxi_hlo_failed(s) || v.id == 0 || !reserve_map(s))
        return NULL;
    if (list_slice(s, v.id, &nodes)) {
        qsort(nodes.at, nodes.n, sizeof *nodes.at, by_id);
        value = run_slice(s, &nodes, v.id);
    }
    for (size_t i = 0; i < nodes.n; i++) {
        const flxi_node *n = flxi_node_at(s->g, nodes.at[i]);
        for (uint32_t k = 0; k < n->nout; k++)
            s->im->map.at[n->first + k] = 0;
    }
    flxi_vec_free(s->im->arena.mem, &nodes);
    return value;
}
