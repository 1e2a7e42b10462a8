/* SPDX-License-Identifier: Apache-2.0 */
/* import_bodies.c: regions: inlined into the graph they appear in, or as graphs of their own, the bodies of our control
   flow. A body sees its inputs only, so what a region uses from outside becomes inputs (captures);
   constants and extents are copied into it. */
#include "stablehlo/import/import_scope.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_DEPTH = 256 }; /* of nested calls and regions: the import recurses */

/* ---- Scopes ---- */

bool flxi_hlo_enter(hlo_scope *sc, const hlo_scope *from)
{
    sc->depth = from ? from->depth + 1 : 0;
    sc->bound = flxi_new(&sc->im->arena, hlo_binding, sc->count);
    if (!sc->bound)
        flxi_graph_failf(sc->g, FLX_E_OOM, NULL, "no memory for the values of a function");
    else if (sc->depth > MAX_DEPTH)
        flxi_graph_failf(sc->g, FLX_E_SIZE, NULL, "calls and regions nest more than %d deep", MAX_DEPTH);
    return flx_graph_error(sc->g, NULL) == FLX_OK;
}

/* Binds `args`, one after the other, to the arguments. */
static bool bind_args(hlo_scope *sc, const hlo_region *r, const flx_val *args, size_t n)
{
    size_t at = 0;
    for (size_t i = 0; i < r->num_args; i++) {
        size_t parts = flxi_hlo_parts(r->args[i]->type);
        if (at + parts > n || !flxi_hlo_bind(sc, r->args[i], args + at, parts)) {
            flxi_graph_failf(sc->g, FLX_E_ARITY, NULL, "a region or function has more arguments than it is given");
            return false;
        }
        at += parts;
    }
    if (at != n)
        flxi_graph_failf(sc->g, FLX_E_ARITY, NULL, "a region or function has fewer arguments than it is given");
    return at == n;
}

static size_t hand_out(const flx_val *results, size_t n, flx_val *out, size_t capacity)
{
    for (size_t i = 0; i < n && i < capacity; i++)
        out[i] = results[i];
    return n;
}

size_t flxi_hlo_run_scope(hlo_scope *sc, const hlo_scope *from, const hlo_region *r, const flx_val *args,
                          size_t num_args, flx_val *out, size_t capacity)
{
    flx_val *results = NULL;
    size_t n = 0;
    if (!flxi_hlo_enter(sc, from) || !bind_args(sc, r, args, num_args) || !flxi_hlo_import_ops(sc, r, &results, &n))
        return 0;
    return hand_out(results, n, out, capacity);
}

/* ---- Regions ---- */

typedef struct {
    uint32_t first, last; /* numbers of the values that the region defines */
    bool any;
} number_range;

static void widen(number_range *r, const hlo_value *v)
{
    r->first = r->any && r->first < v->number ? r->first : v->number;
    r->last = r->any && r->last > v->number ? r->last : v->number;
    r->any = true;
}

static void find_range(const hlo_region *region, number_range *r)
{
    for (size_t i = 0; i < region->num_args; i++)
        widen(r, region->args[i]);
    for (const hlo_op *op = region->first; op; op = op->next) {
        for (size_t i = 0; i < op->num_results; i++)
            widen(r, op->results[i]);
        for (size_t i = 0; i < op->num_regions; i++)
            find_range(&op->regions[i], r);
    }
}

static hlo_scope region_scope(const hlo_site *s, const hlo_region *r, flx_graph *g)
{
    number_range range = {0};
    find_range(r, &range);
    return (hlo_scope){.im = s->im,
                       .parent = s->scope,
                       .g = g,
                       .first = range.first,
                       .count = range.any ? range.last - range.first + 1 : 0};
}

size_t flxi_hlo_inline_region(hlo_site *s, const hlo_region *r, const flx_val *args, size_t num_args, flx_val *out,
                              size_t capacity)
{
    hlo_scope sc = region_scope(s, r, s->g);
    return flxi_hlo_run_scope(&sc, s->scope, r, args, num_args, out, capacity);
}

typedef FLXI_VEC(const hlo_value *) value_list;

/* Adds the values that the region uses and `range` does not define. */
static bool collect_uses(const flxi_allocator *mem, const hlo_region *region, const number_range *range,
                         value_list *list)
{
    for (const hlo_op *op = region->first; op; op = op->next) {
        for (size_t i = 0; i < op->num_operands; i++) {
            uint32_t number = op->operands[i]->number;
            bool is_inside = range->any && number >= range->first && number <= range->last;
            if (!is_inside && !flxi_push(mem, list, op->operands[i]))
                return false;
        }
        for (size_t i = 0; i < op->num_regions; i++)
            if (!collect_uses(mem, &op->regions[i], range, list))
                return false;
    }
    return true;
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = (*(const hlo_value *const *)a)->number;
    uint32_t y = (*(const hlo_value *const *)b)->number;
    return (x > y) - (x < y);
}

/* Sorted by number, each once. */
static bool outer_values(hlo_site *s, const hlo_region *regions, size_t n, value_list *list)
{
    const flxi_allocator *mem = s->im->arena.mem;
    bool ok = true;
    for (size_t i = 0; i < n && ok; i++) {
        number_range range = {0};
        find_range(&regions[i], &range);
        ok = collect_uses(mem, &regions[i], &range, list);
    }
    if (!ok)
        flxi_hlo_fail(s, FLX_E_OOM, NULL, "no memory for what its regions use");
    size_t kept = 0;
    if (list->n)
        qsort(list->at, list->n, sizeof *list->at, by_number);
    for (size_t i = 0; i < list->n; i++)
        if (!kept || list->at[kept - 1]->number != list->at[i]->number)
            list->at[kept++] = list->at[i];
    list->n = kept;
    return ok;
}

/* A value that a body can have a copy of: a leaf of the graph that is not an input. */
bool flxi_hlo_is_constant(const flx_graph *g, flx_val v)
{
    const flxi_node *n = flxi_node_of(g, v.id);
    return n->nin == 0 && !(flxi_ops[n->op].traits & (TRAIT_DECLARED | TRAIT_EFFECT)) &&
           flxi_ops[n->op].op_class == CLASS_LEAF;
}

static bool is_constant_binding(hlo_site *s, const hlo_binding *b)
{
    for (size_t i = 0; i < b->n; i++)
        if (!flxi_hlo_is_constant(s->g, b->v[i]) && !flxi_hlo_is_extent(s, b->v[i]))
            return false;
    return true;
}

/* Captures are written in place of what they were chosen from. */
static bool list_captures(hlo_site *s, const value_list *all, hlo_captures *out)
{
    const hlo_value **values = flxi_hlo_new(s, const hlo_value *, all->n);
    size_t room = 0;
    for (size_t i = 0; i < all->n; i++)
        room += flxi_hlo_parts(all->at[i]->type);
    flx_val *vals = flxi_hlo_new(s, flx_val, room);
    if (!values || !vals)
        return false;
    *out = (hlo_captures){.values = values, .vals = vals};
    for (size_t i = 0; i < all->n; i++) {
        const hlo_binding *b = flxi_hlo_lookup(s->scope, all->at[i]->number);
        if (!b) {
            flxi_hlo_fail(s, FLX_E_INTERNAL, NULL, "%%%s has no value", all->at[i]->name);
            return false;
        }
        if (is_constant_binding(s, b))
            continue;
        if (flxi_hlo_failed(s))
            return false;
        values[out->num_values++] = all->at[i];
        for (size_t k = 0; k < b->n; k++)
            vals[out->num_vals++] = b->v[k];
    }
    return true;
}

bool flxi_hlo_captures(hlo_site *s, const hlo_region *regions, size_t n, hlo_captures *out)
{
    value_list all = {0};
    *out = (hlo_captures){0};
    bool ok = outer_values(s, regions, n, &all) && list_captures(s, &all, out);
    flxi_vec_free(s->im->arena.mem, &all);
    return ok;
}

const flx_graph *flxi_hlo_keep(hlo_site *s, flx_graph *g)
{
    if (!g || flxi_push(s->im->arena.mem, &s->im->kept, g))
        return g;
    flx_graph_release(g);
    flxi_hlo_fail(s, FLX_E_OOM, NULL, "no memory for a body");
    return NULL;
}

/* The tensor that is part *part of a value of type t, counted down from there; NULL when it has fewer parts. */
static const hlo_type *tensor_part(const hlo_type *t, size_t *part)
{
    if (t->kind == HLO_TENSOR || t->kind == HLO_SCALAR)
        return (*part)-- == 0 ? t : NULL;
    const hlo_type *found = NULL;
    for (size_t i = 0; i < t->num_parts && !found && (t->kind == HLO_TUPLE || t->kind == HLO_FUTURE); i++)
        found = tensor_part(t->parts[i], part);
    return found;
}

/* Declares the arguments of a body, all parts of tuples one after the other. */
bool flxi_hlo_declare_args(hlo_scope *sc, const hlo_region *r, const flx_type *const *types)
{
    size_t inputs = 0;
    for (size_t i = 0; i < r->num_args; i++) {
        size_t n = flxi_hlo_parts(r->args[i]->type);
        flx_val *v = flxi_new(&sc->im->arena, flx_val, n + 1);
        for (size_t k = 0; v && k < n; k++, inputs++) {
            char name[32];
            flx_type declared;
            size_t part = k;
            snprintf(name, sizeof name, "arg%zu", inputs);
            if (!types && !flxi_hlo_our_type(sc->g, tensor_part(r->args[i]->type, &part), NULL, &declared))
                return false;
            v[k] = flx_input(sc->g, name, types ? types[inputs] : &declared);
        }
        if (!v)
            flxi_graph_failf(sc->g, FLX_E_OOM, NULL, "no memory for the arguments of a region");
        else if (!flxi_hlo_bind(sc, r->args[i], v, n))
            return false;
    }
    return flx_graph_error(sc->g, NULL) == FLX_OK;
}

/* The counterpart in the body of a value outside: an input for a capture, a copy of a constant. */
static flx_val bring_in(hlo_site *s, flx_graph *body, flx_val v, bool is_captured, size_t number)
{
    if (is_captured) {
        char name[32];
        snprintf(name, sizeof name, "outer%zu", number);
        return flx_input(body, name, flxi_hlo_typeof(s, v));
    }
    if (!flxi_hlo_is_constant(s->g, v))
        return flxi_hlo_copy_extent(s, body, v);
    const flxi_node *n = flxi_node_of(s->g, v.id);
    void *attrs = NULL;
    flx_error err = {0};
    if (flxi_attrs_clone(body, &flxi_ops[n->op], n->attrs, NULL, &attrs, &err) != FLX_OK) {
        flxi_graph_fail(body, &err);
        return FLX_NONE;
    }
    uint32_t id = flxi_add_copy(body, s->g, n, NULL, attrs);
    return (flx_val){.id = id ? id + (v.id - n->first) : 0, .graph = body->serial};
}

static bool bind_outer(hlo_site *s, hlo_scope *sc, const hlo_captures *captures, const value_list *used)
{
    hlo_outer *outer = flxi_hlo_new(s, hlo_outer, used->n + captures->num_values);
    size_t next = 0; /* capture */
    size_t input = 0;
    size_t u = 0;
    if (!outer)
        return false;
    while (u < used->n || next < captures->num_values) { /* both are sorted: merge them */
        bool is_captured =
            next < captures->num_values && (u == used->n || captures->values[next]->number <= used->at[u]->number);
        const hlo_value *value = is_captured ? captures->values[next] : used->at[u];
        const hlo_binding *b = flxi_hlo_lookup(s->scope, value->number);
        flx_val *v = flxi_hlo_new(s, flx_val, b ? b->n : 0);
        if (!b || !v)
            return false;
        for (size_t k = 0; k < b->n; k++)
            v[k] = bring_in(s, sc->g, b->v[k], is_captured, input++);
        outer[sc->num_outer++] = (hlo_outer){value->number, {.v = v, .n = b->n, .is_set = true}};
        u += u < used->n && used->at[u]->number == value->number;
        next += is_captured;
    }
    sc->outer = outer;
    return flx_graph_error(sc->g, NULL) == FLX_OK;
}

static bool build_body(hlo_site *s, hlo_scope *sc, const hlo_region *r, const flx_type *const *types,
                       const hlo_captures *captures)
{
    static const hlo_captures none = {0};
    value_list used = {0};
    flx_val *results = NULL;
    size_t n = 0;
    bool ok = flxi_hlo_enter(sc, s->scope) && flxi_hlo_declare_args(sc, r, types) && outer_values(s, r, 1, &used) &&
              bind_outer(s, sc, captures ? captures : &none, &used);
    flxi_vec_free(s->im->arena.mem, &used);
    if (!ok || !flxi_hlo_import_ops(sc, r, &results, &n))
        return false;
    for (size_t i = 0; i < n; i++)
        flx_output(sc->g, results[i], NULL);
    for (size_t i = 0; captures && captures->are_carried && i < captures->num_vals; i++) {
        uint32_t id = sc->g->leaves.at[sc->g->leaves.n - captures->num_vals + i];
        flx_output(sc->g, (flx_val){id, sc->g->serial}, NULL);
    }
    return flx_graph_error(sc->g, NULL) == FLX_OK;
}

const flx_graph *flxi_hlo_body(hlo_site *s, const hlo_region *r, const flx_type *const *arg_types,
                               const hlo_captures *captures)
{
    flx_graph *g = flx_graph_new(s->im->ctx, "body");
    if (!flxi_hlo_keep(s, g)) {
        flxi_hlo_fail(s, FLX_E_OOM, NULL, "no memory for a body");
        return NULL;
    }
    hlo_scope sc = region_scope(s, r, g);
    if (build_body(s, &sc, r, arg_types, captures))
        return g;
    flxi_hlo_note_error(&sc, s->op);
    flx_error err = {0};
    if (flx_graph_error(g, &err) == FLX_OK)
        flxi_hlo_fail(s, FLX_E_INTERNAL, NULL, "a region could not be built");
    else
        flxi_graph_fail(s->g, &err);
    return NULL;
}
