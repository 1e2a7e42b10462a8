/* SPDX-License-Identifier: Apache-2.0 */
/* import_op.c: see import_site.h. One operation after the other: find its rule, hand it the operands, check what comes
   back. */
#include "stablehlo/import/import_site.h"

#include "stablehlo/import/import_narrow.h"
#include "stablehlo/import/import_scope.h"

#include <stdio.h>
#include <stdlib.h>

static const hlo_rule *const tables[] = {
    flxi_hlo_structure_rules, flxi_hlo_elementwise_rules, flxi_hlo_shape_rules,   flxi_hlo_custom_call_rules,
    flxi_hlo_product_rules,   flxi_hlo_gather_rules,      flxi_hlo_linalg_rules,  flxi_hlo_spectral_rules,
    flxi_hlo_random_rules,    flxi_hlo_norm_rules,        flxi_hlo_chlo_rules,    flxi_hlo_scan_rules,
    flxi_hlo_ragged_rules,    flxi_hlo_fold_rules,        flxi_hlo_scatter_rules, flxi_hlo_sort_rules,
    flxi_hlo_control_rules,   flxi_hlo_loop_rules,        flxi_hlo_dynamic_rules, flxi_hlo_quant_rules,
};

enum { MAX_DEPTH = 256 }; /* of calls and regions inside one another: the lowering recurses */

/* ---- Errors ---- */

bool flxi_hlo_failed(const hlo_site *s)
{
    return flx_graph_error(s->g, NULL) != FLX_OK;
}

static void fail_va(hlo_site *s, flx_code code, const char *hint, const char *prefix, const char *fmt, va_list args)
{
    char text[200];
    vsnprintf(text, sizeof text, fmt, args);
    flxi_graph_failf(s->g, code, hint, "%s%s: %s", prefix, s->op->name, text);
}

void flxi_hlo_fail(hlo_site *s, flx_code code, const char *hint, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fail_va(s, code, hint, "", fmt, args);
    va_end(args);
}

void flxi_hlo_unsupported(hlo_site *s, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fail_va(s, FLX_E_UNSUPPORTED, NULL, "unsupported: ", fmt, args);
    va_end(args);
}

/* The first error of a graph is that of the lowering; the place is that of the innermost operation. */
static void note_error(const hlo_scope *sc, hlo_place at)
{
    hlo_lowering *l = sc->l;
    if (l->error.code != FLX_OK || flx_graph_error(sc->g, &l->error) == FLX_OK)
        return;
    l->error.where[0] = 0;
    flxi_at(&l->error, "%.110s:%u:%u", l->file, at.line, at.column);
}

/* ---- Rules by name ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const hlo_rule *const *)a)->name, (*(const hlo_rule *const *)b)->name);
}

bool flxi_hlo_index_rules(hlo_lowering *l)
{
    size_t n = 0;
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const hlo_rule *r = tables[t]; r->name; r++)
            n++;
    l->rules = flxi_new(&l->arena, const hlo_rule *, n);
    if (!l->rules)
        return false;
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const hlo_rule *r = tables[t]; r->name; r++)
            l->rules[l->num_rules++] = r;
    qsort(l->rules, n, sizeof *l->rules, by_name);
    return true;
}

static const hlo_rule *find_rule(const hlo_lowering *l, const char *name)
{
    const hlo_rule key = {.name = name};
    const hlo_rule *wanted = &key;
    const hlo_rule **found = bsearch(&wanted, l->rules, l->num_rules, sizeof *l->rules, by_name);
    return found ? *found : NULL;
}

/* ---- Bindings ---- */

size_t flxi_hlo_parts(const hlo_type *t)
{
    size_t n = t->kind == HLO_TENSOR || t->kind == HLO_SCALAR;
    if (t->kind == HLO_TUPLE || t->kind == HLO_FUTURE)
        for (size_t i = 0; i < t->num_parts; i++)
            n += flxi_hlo_parts(t->parts[i]);
    return n;
}

static const hlo_binding *find_outer(const hlo_scope *sc, uint32_t number)
{
    size_t lo = 0;
    for (size_t hi = sc->num_outer; lo < hi;) {
        size_t mid = lo + (hi - lo) / 2;
        if (sc->outer[mid].number < number)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < sc->num_outer && sc->outer[lo].number == number ? &sc->outer[lo].binding : NULL;
}

const hlo_binding *flxi_hlo_lookup(const hlo_scope *sc, uint32_t number)
{
    for (; sc; sc = sc->parent) {
        if (number - sc->first < sc->count)
            return sc->bound[number - sc->first].is_set ? &sc->bound[number - sc->first] : NULL;
        if (sc->outer)
            return find_outer(sc, number);
    }
    return NULL;
}

bool flxi_hlo_bind(hlo_scope *sc, const hlo_value *value, const flx_val *v, size_t n)
{
    flx_val *copy = flxi_dup(&sc->l->arena, flx_val, v, n);
    if (!copy || value->number - sc->first >= sc->count) {
        flxi_graph_failf(sc->g, copy ? FLX_E_INTERNAL : FLX_E_OOM, NULL, "cannot keep a value of the program");
        return false;
    }
    sc->bound[value->number - sc->first] = (hlo_binding){.v = copy, .n = n, .is_set = true};
    return true;
}

/* ---- One operation ---- */

/* `got` fits "n" or any number. */
static bool counts(hlo_site *s, const char *what, size_t got, int wanted)
{
    if (wanted == HLO_MANY || got == (size_t)wanted)
        return true;
    flxi_hlo_fail(s, FLX_E_ARITY, NULL, "it has %zu %s, but takes %d", got, what, wanted);
    return false;
}

static bool take_operands(hlo_site *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->op->num_operands; i++)
        n += flxi_hlo_parts(s->op->operands[i]->type);
    flx_val *x = flxi_hlo_new(s, flx_val, n);
    if (!x)
        return false;
    for (size_t i = 0; i < s->op->num_operands; i++) {
        const hlo_value *v = s->op->operands[i];
        const hlo_binding *b = flxi_hlo_lookup(s->scope, v->number);
        if (!b || s->nx + b->n > n) {
            flxi_hlo_fail(s, FLX_E_INTERNAL, NULL, "operand %%%s has no value", v->name);
            return false;
        }
        for (size_t k = 0; k < b->n; k++)
            x[s->nx++] = b->v[k];
    }
    s->x = x;
    return true;
}

/* Whether a value of the graph is what the text declares: `?` is anything. */
static bool fits(const flx_type *t, const hlo_type *declared)
{
    if (t->dtype != (int32_t)flxi_hlo_carrier(declared))
        return false;
    if (declared->is_unranked)
        return true;
    if (t->rank != declared->rank)
        return false;
    for (int i = 0; i < t->rank; i++)
        if (declared->dims[i] != HLO_DYNAMIC && t->dims[i] != declared->dims[i] && flx_dim_is_static(t->dims[i]))
            return false;
    return true;
}

/* Where the text has a number, an extent that was a symbol is that number. */
static bool learn_extents(hlo_site *s, flx_val v, const hlo_type *declared)
{
    const flx_type *t = flxi_hlo_typeof(s, v);
    for (int i = 0; i < t->rank && !declared->is_unranked; i++)
        if (declared->dims[i] != HLO_DYNAMIC && !flxi_hlo_equal_extents(s, t->dims[i], declared->dims[i]))
            return false;
    return true;
}

static void refuse_result(hlo_site *s, size_t i, const flx_type *got, const hlo_type *declared)
{
    char ours[160];
    char theirs[160];
    flx_type_print(s->l->ctx, got, ours, sizeof ours);
    flxi_hlo_type_print(declared, theirs, sizeof theirs);
    bool same_dtype = got->dtype == (int32_t)flxi_hlo_carrier(declared);
    flxi_hlo_fail(s, same_dtype ? FLX_E_SHAPE : FLX_E_DTYPE, NULL, "result %zu is %s, but the text says %s", i, ours,
                  theirs);
}

/* Compares results with their declared types and binds them. */
static bool bind_results(hlo_site *s)
{
    size_t at = 0;
    for (size_t i = 0; i < s->op->num_results; i++) {
        const hlo_value *r = s->op->results[i];
        size_t n = flxi_hlo_parts(r->type);
        if (r->type->kind == HLO_TENSOR && !fits(flxi_hlo_typeof(s, s->y[at]), r->type)) {
            refuse_result(s, i, flxi_hlo_typeof(s, s->y[at]), r->type);
            return false;
        }
        if (r->type->kind == HLO_TENSOR && !learn_extents(s, s->y[at], r->type))
            return false;
        if (!flxi_hlo_bind(s->scope, r, s->y + at, n))
            return false;
        at += n;
    }
    return true;
}

/* What was computed in a wider dtype becomes a value of the element type. */
static void round_results(hlo_site *s)
{
    size_t at = 0;
    for (size_t i = 0; i < s->op->num_results && !(s->rule->flags & HLO_MOVES); i++) {
        const hlo_type *t = s->op->results[i]->type;
        if (t->kind == HLO_TENSOR && s->y[at].id)
            s->y[at] = flxi_hlo_round(s, s->y[at], t->element);
        at += flxi_hlo_parts(t);
    }
}

static bool import_op(hlo_scope *sc, const hlo_op *op)
{
    hlo_site s = {.l = sc->l, .scope = sc, .op = op, .g = sc->g, .rule = find_rule(sc->l, op->name)};
    if (!s.rule) {
        flxi_graph_failf(s.g, FLX_E_UNSUPPORTED, NULL, "unsupported operation %s", op->name);
        return false;
    }
    if (sc->l->budget-- <= 0) {
        flxi_graph_failf(s.g, FLX_E_SIZE, NULL, "the program has too many operations once its calls are expanded");
        return false;
    }
    if (!counts(&s, "operands", op->num_operands, s.rule->num_operands) ||
        !counts(&s, "regions", op->num_regions, s.rule->num_regions) || !take_operands(&s))
        return false;
    for (size_t i = 0; i < op->num_results; i++)
        s.ny += flxi_hlo_parts(op->results[i]->type);
    s.y = flxi_hlo_new(&s, flx_val, s.ny);
    if (!s.y || !flxi_hlo_check_signature(&s) || !flxi_hlo_check_attributes(&s) || !flxi_hlo_check_agreement(&s))
        return false;
    if (flxi_hlo_is_expressed(&s)) {
        flxi_hlo_import_expressed(&s);
    } else {
        s.rule->lower(&s);
        round_results(&s);
    }
    return !flxi_hlo_failed(&s) && bind_results(&s);
}

void flxi_hlo_import_as(hlo_site *s, const hlo_op *op, const flx_val *x, size_t nx)
{
    hlo_site as = *s;
    as.op = op;
    as.x = x;
    as.nx = nx;
    as.rule = find_rule(s->l, op->name);
    if (!as.rule) {
        flxi_hlo_unsupported(s, "no rule for %s", op->name);
        return;
    }
    as.rule->lower(&as);
    round_results(&as);
}

static bool is_terminator(const hlo_op *op)
{
    return !op->next;
}

bool flxi_hlo_import_ops(hlo_scope *sc, const hlo_region *r, flx_val **out, size_t *n)
{
    for (const hlo_op *op = r->first; op; op = op->next) {
        hlo_site s = {.l = sc->l, .scope = sc, .op = op, .g = sc->g};
        if (is_terminator(op) ? !take_operands(&s) : !import_op(sc, op)) {
            note_error(sc, op->at);
            return false;
        }
        *out = (flx_val *)(uintptr_t)s.x;
        *n = s.nx;
    }
    return true;
}

/* ---- Calls and regions ---- */

static bool enter(hlo_scope *sc, const hlo_scope *from)
{
    sc->depth = from ? from->depth + 1 : 0;
    sc->bound = flxi_new(&sc->l->arena, hlo_binding, sc->count);
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

static size_t run_scope(hlo_scope *sc, const hlo_scope *from, const hlo_region *r, const flx_val *args, size_t num_args,
                        flx_val *out, size_t capacity)
{
    flx_val *results = NULL;
    size_t n = 0;
    if (!enter(sc, from) || !bind_args(sc, r, args, num_args) || !flxi_hlo_import_ops(sc, r, &results, &n))
        return 0;
    return hand_out(results, n, out, capacity);
}

static bool is_active(const hlo_scope *sc, const hlo_function *f)
{
    while (sc) {
        if (sc->function == f)
            return true;
        sc = sc->parent ? sc->parent : sc->caller;
    }
    return false;
}

size_t flxi_hlo_inline_call(hlo_site *s, const char *function, const flx_val *args, size_t num_args, flx_val *out,
                            size_t capacity)
{
    const hlo_function *f = flxi_hlo_find(s->l->module, function);
    if (!f || f->is_declared_only) {
        flxi_hlo_fail(s, FLX_E_NAME, NULL, "there is no function @%.80s with a body", function);
        return 0;
    }
    if (is_active(s->scope, f)) {
        flxi_hlo_fail(s, FLX_E_UNBOUNDED_LOOP, NULL, "@%.80s calls itself", function);
        return 0;
    }
    if (args == s->x && num_args == s->nx && !flxi_hlo_check_call(s, f))
        return 0;
    hlo_scope sc = {.l = s->l, .caller = s->scope, .function = f, .g = s->g, .count = f->num_values};
    return run_scope(&sc, s->scope, &f->body, args, num_args, out, capacity);
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
    return (hlo_scope){.l = s->l,
                       .parent = s->scope,
                       .g = g,
                       .first = range.first,
                       .count = range.any ? range.last - range.first + 1 : 0};
}

size_t flxi_hlo_inline_region(hlo_site *s, const hlo_region *r, const flx_val *args, size_t num_args, flx_val *out,
                              size_t capacity)
{
    hlo_scope sc = region_scope(s, r, s->g);
    return run_scope(&sc, s->scope, r, args, num_args, out, capacity);
}

typedef FLXI_VEC(const hlo_value *) value_list;

/* Adds the values that the region uses and `range` does not define. */
static bool collect_uses(const flxi_allocator *mem, const hlo_region *region, const number_range *range,
                         value_list *list)
{
    for (const hlo_op *op = region->first; op; op = op->next) {
        for (size_t i = 0; i < op->num_operands; i++) {
            uint32_t number = op->operands[i]->number;
            bool inside = range->any && number >= range->first && number <= range->last;
            if (!inside && !flxi_push(mem, list, op->operands[i]))
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
    const flxi_allocator *mem = s->l->arena.mem;
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

/* A value that a body can have a copy of: a leaf of the graph that is no input. */
static bool is_constant(const flx_graph *g, flx_val v)
{
    const flxi_node *n = flxi_node_at(g, flxi_value_at(g, v.id)->node);
    return n->nin == 0 && !(flxi_ops[n->op].traits & (TRAIT_DECLARED | TRAIT_EFFECT)) &&
           flxi_ops[n->op].op_class == CLASS_LEAF;
}

static bool is_constant_binding(hlo_site *s, const hlo_binding *b)
{
    for (size_t i = 0; i < b->n; i++)
        if (!is_constant(s->g, b->v[i]) && !flxi_hlo_is_extent(s, b->v[i]))
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
    flxi_vec_free(s->l->arena.mem, &all);
    return ok;
}

const flx_graph *flxi_hlo_keep(hlo_site *s, flx_graph *g)
{
    if (!g || flxi_push(s->l->arena.mem, &s->l->kept, g))
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
static bool declare_args(hlo_scope *sc, const hlo_region *r, const flx_type *const *types)
{
    size_t inputs = 0;
    for (size_t i = 0; i < r->num_args; i++) {
        size_t n = flxi_hlo_parts(r->args[i]->type);
        flx_val *v = flxi_new(&sc->l->arena, flx_val, n + 1);
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
    if (!is_constant(s->g, v))
        return flxi_hlo_copy_extent(s, body, v);
    const flxi_node *n = flxi_node_at(s->g, flxi_value_at(s->g, v.id)->node);
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
    bool ok = enter(sc, s->scope) && declare_args(sc, r, types) && outer_values(s, r, 1, &used) &&
              bind_outer(s, sc, captures ? captures : &none, &used);
    flxi_vec_free(s->l->arena.mem, &used);
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
    flx_graph *g = flx_graph_new(s->l->ctx, "body");
    if (!flxi_hlo_keep(s, g)) {
        flxi_hlo_fail(s, FLX_E_OOM, NULL, "no memory for a body");
        return NULL;
    }
    hlo_scope sc = region_scope(s, r, g);
    if (build_body(s, &sc, r, arg_types, captures))
        return g;
    note_error(&sc, s->op->at);
    flx_error err = {0};
    if (flx_graph_error(g, &err) == FLX_OK)
        flxi_hlo_fail(s, FLX_E_INTERNAL, NULL, "a region could not be built");
    else
        flxi_graph_fail(s->g, &err);
    return NULL;
}
