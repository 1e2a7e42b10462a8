/* SPDX-License-Identifier: Apache-2.0 */
/* import_values.c: what rules read: attributes, types, and values that follow from the program alone. */
#include "stablehlo/import/import_scope.h"

#include "graph/op/eval.h"
#include "graph/type/dim.h"

#include <stdio.h>
#include <string.h>

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
    size_t size = flx_dtype_size(d);
    for (size_t i = 0; i < n; i++) {
        int64_t word; /* the elements are not aligned */
        memcpy(&word, (const unsigned char *)a->bytes + (a->is_splat ? 0 : i * size), size);
        v[i] = flxi_load_int((int32_t)d, &word, 0);
    }
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
    bool is_known = (t->kind == HLO_TENSOR || t->kind == HLO_SCALAR) && !t->is_unranked;
    for (int i = 0; i < t->rank && is_known; i++) {
        out->dims[i] = extent_for(g, t->dims[i], name, i);
        is_known = out->dims[i] != FLX_DIM_INVALID;
    }
    if (!is_known && name && flxi_dim_starved(g->ctx)) {
        flxi_graph_failf(g, FLX_E_OOM, NULL, "no memory for the extents of %s", name);
    } else if (!is_known) {
        char text[160];
        flxi_hlo_type_print(t, text, sizeof text);
        flxi_graph_failf(g, FLX_E_UNSUPPORTED, NULL, "unsupported: a shape of %s that is not known at import", text);
    }
    return is_known;
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

flx_tensor *flxi_hlo_known(hlo_site *s, flx_val v)
{
    flx_tensor *value = NULL;
    if (!flxi_hlo_failed(s) && flxi_known_value(&s->im->known, s->g, v.id, &value, NULL) != FLX_OK)
        flxi_graph_failf(s->g, FLX_E_OOM, NULL, "no memory for %s", s->op->name);
    return value;
}
