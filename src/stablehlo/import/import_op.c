/* SPDX-License-Identifier: Apache-2.0 */
/* import_op.c: see import_site.h. For one operation after the other: find its row, pass the operands to its rule, check
   the results. */
#include "stablehlo/import/import_site.h"

#include "base/text/count_words.h"
#include "stablehlo/import/import_narrow.h"
#include "stablehlo/import/import_scope.h"

#include <stdio.h>
#include <string.h>

/* ---- Errors ---- */

bool flxi_hlo_failed(const hlo_site *s)
{
    return flx_graph_error(s->g, NULL) != FLX_OK;
}

static void fail_va(hlo_site *s, flx_code code, const char *hint, const char *prefix, const char *fmt, va_list args)
{
    char text[200];
    flxi_format_va(text, sizeof text, fmt, args);
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

void flxi_hlo_add_source(flx_error *err, const hlo_source *source)
{
    enum { most_path = 70 };
    char path[most_path + 1];
    char text[most_path + 40];
    if (!source || !source->file)
        return;
    size_t n = strlen(source->file);
    const char *tail = source->file + (n > most_path ? n - most_path : 0);
    flxi_printable(path, sizeof path, tail, strlen(tail));
    snprintf(text, sizeof text, " (%s:%u:%u)", path, source->line, source->column);
    size_t used = strlen(err->message);
    if (used + strlen(text) < sizeof err->message)
        memcpy(err->message + used, text, strlen(text) + 1);
}

void flxi_hlo_note_error(const hlo_scope *sc, const hlo_op *op)
{
    hlo_import *im = sc->im;
    if (im->error.code != FLX_OK || flx_graph_error(sc->g, &im->error) == FLX_OK)
        return;
    im->error.where[0] = 0;
    flxi_hlo_locate(&im->error, im->file, op->at);
    flxi_hlo_add_source(&im->error, op->source);
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
    flx_val *copy = flxi_dup(&sc->im->arena, flx_val, v, n);
    if (!copy || value->number - sc->first >= sc->count) {
        flxi_graph_failf(sc->g, copy ? FLX_E_INTERNAL : FLX_E_OOM, NULL, "cannot keep a value of the program");
        return false;
    }
    sc->bound[value->number - sc->first] = (hlo_binding){.v = copy, .n = n, .is_set = true};
    return true;
}

/* ---- One operation ---- */

/* Whether `got` is the wanted number, or any number is. */
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

/* Whether a value of the graph has the type that the text declares: `?` is any extent. */
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
    flx_type_print(s->im->ctx, got, ours, sizeof ours);
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
    for (size_t i = 0; i < s->op->num_results && !s->row->moves; i++) {
        const hlo_type *t = s->op->results[i]->type;
        if (t->kind == HLO_TENSOR && s->y[at].id)
            s->y[at] = flxi_hlo_round(s, s->y[at], t->element);
        at += flxi_hlo_parts(t);
    }
}

static bool import_op(hlo_scope *sc, const hlo_op *op)
{
    hlo_site s = {.im = sc->im, .scope = sc, .op = op, .g = sc->g, .row = flxi_hlo_operation(op->name)};
    if (!s.row || !s.row->import) {
        flxi_graph_failf(s.g, FLX_E_UNSUPPORTED, NULL, "unsupported operation %s", op->name);
        return false;
    }
    if (sc->im->budget-- <= 0) {
        flxi_graph_failf(s.g, FLX_E_SIZE, NULL, "the program has too many operations once its calls are expanded");
        return false;
    }
    if (!counts(&s, "operands", op->num_operands, flxi_hlo_signature_operands(s.row->signature)) ||
        !counts(&s, "regions", op->num_regions, flxi_hlo_region_count(s.row->regions)) || !take_operands(&s))
        return false;
    for (size_t i = 0; i < op->num_results; i++)
        s.ny += flxi_hlo_parts(op->results[i]->type);
    s.y = flxi_hlo_new(&s, flx_val, s.ny);
    if (!s.y || !flxi_hlo_check_signature(&s) || !flxi_hlo_check_attributes(&s) || !flxi_hlo_check_agreement(&s))
        return false;
    if (flxi_hlo_is_expressed(&s)) {
        flxi_hlo_import_expressed(&s);
    } else {
        s.row->import(&s);
        round_results(&s);
    }
    return !flxi_hlo_failed(&s) && bind_results(&s);
}

void flxi_hlo_import_checked(hlo_site *s, const hlo_op *op)
{
    hlo_site as = *s;
    as.op = op;
    as.row = flxi_hlo_operation(op->name);
    if (counts(&as, "operands", op->num_operands, flxi_hlo_signature_operands(as.row->signature)) &&
        flxi_hlo_check_signature(&as) && flxi_hlo_check_attributes(&as) && flxi_hlo_check_agreement(&as))
        flxi_hlo_import_as(s, op, s->x, s->nx);
}

void flxi_hlo_import_as(hlo_site *s, const hlo_op *op, const flx_val *x, size_t nx)
{
    hlo_site as = *s;
    as.op = op;
    as.x = x;
    as.nx = nx;
    as.row = flxi_hlo_operation(op->name);
    if (!as.row || !as.row->import) {
        flxi_hlo_unsupported(s, "no rule for %s", op->name);
        return;
    }
    as.row->import(&as);
    round_results(&as);
}

static bool is_terminator(const hlo_op *op)
{
    return !op->next;
}

bool flxi_hlo_import_ops(hlo_scope *sc, const hlo_region *r, flx_val **out, size_t *n)
{
    for (const hlo_op *op = r->first; op; op = op->next) {
        hlo_site s = {.im = sc->im, .scope = sc, .op = op, .g = sc->g};
        if (is_terminator(op) ? !take_operands(&s) : !import_op(sc, op)) {
            flxi_hlo_note_error(sc, op);
            return false;
        }
        *out = (flx_val *)(uintptr_t)s.x;
        *n = s.nx;
    }
    return true;
}
