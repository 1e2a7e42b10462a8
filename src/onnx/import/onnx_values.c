/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_values.c: what rules read: attributes, types, and values that follow from the model alone; and the small things
   that they build. */
#include "onnx/import/onnx_scope.h"

#include "graph/op/eval.h"
#include "graph/type/dim.h"

#include <stdio.h>

/* ---- Attributes ---- */

static const onnx_attr *attr_in(const onnx_attr *attrs, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(attrs[i].name, name) == 0)
            return &attrs[i];
    return NULL;
}

/* In a function an attribute may refer to one of the call, or to the function's default for it. */
static const onnx_attr *resolve(const onnx_scope *sc, const onnx_attr *a)
{
    for (; a && a->ref && sc && sc->function; sc = sc->caller) {
        const onnx_attr *given = attr_in(sc->call->attributes, sc->call->num_attrs, a->ref);
        if (!given)
            return attr_in(sc->function->defaults, sc->function->num_defaults, a->ref);
        a = given;
    }
    return a;
}

const onnx_attr *flxi_onnx_attr(onnx_site *s, const char *name)
{
    return resolve(s->scope, attr_in(s->node->attributes, s->node->num_attrs, name));
}

bool flxi_onnx_has(onnx_site *s, const char *name)
{
    return flxi_onnx_attr(s, name) != NULL;
}

/* The attribute if it is of this kind; NULL when it is absent or wrong, which fails. */
static const onnx_attr *attr_of(onnx_site *s, const char *name, int32_t kind, const char *what)
{
    const onnx_attr *a = flxi_onnx_attr(s, name);
    if (!a || a->kind == kind)
        return a;
    flxi_onnx_fail(s, FLX_E_ATTRIBUTE, NULL, "attribute %s must be %s", name, what);
    return NULL;
}

int64_t flxi_onnx_int(onnx_site *s, const char *name, int64_t absent)
{
    const onnx_attr *a = attr_of(s, name, ONNX_A_INT, "an integer");
    return a ? a->i : absent;
}

double flxi_onnx_real(onnx_site *s, const char *name, double absent)
{
    const onnx_attr *a = attr_of(s, name, ONNX_A_FLOAT, "a number");
    return a ? a->f : absent;
}

const char *flxi_onnx_word(onnx_site *s, const char *name, const char *absent)
{
    const onnx_attr *a = attr_of(s, name, ONNX_A_STRING, "a text");
    return a ? a->s : absent;
}

flx_ints flxi_onnx_ints(onnx_site *s, const char *name)
{
    const onnx_attr *a = attr_of(s, name, ONNX_A_INTS, "a list of integers");
    return a ? (flx_ints){a->ints, a->num_ints} : (flx_ints){NULL, 0};
}

flx_reals flxi_onnx_reals(onnx_site *s, const char *name)
{
    const onnx_attr *a = attr_of(s, name, ONNX_A_FLOATS, "a list of numbers");
    return a ? (flx_reals){a->floats, a->num_floats} : (flx_reals){NULL, 0};
}

const char *const *flxi_onnx_words(onnx_site *s, const char *name, size_t *n)
{
    const onnx_attr *a = attr_of(s, name, ONNX_A_STRINGS, "a list of texts");
    *n = a ? a->num_strings : 0;
    return a ? a->strings : NULL;
}

flx_ints flxi_onnx_ints_of(onnx_site *s, const char *name, size_t n, int64_t absent)
{
    flx_ints given = flxi_onnx_ints(s, name);
    if (given.v && given.n == n)
        return given;
    if (given.v && given.n)
        flxi_onnx_fail(s, FLX_E_ATTRIBUTE, NULL, "attribute %s has %zu entries, but needs %zu", name, given.n, n);
    int64_t *v = flxi_onnx_new(s, int64_t, n);
    for (size_t i = 0; v && i < n; i++)
        v[i] = absent;
    return (flx_ints){v, v ? n : 0};
}

const onnx_graph *flxi_onnx_graph(onnx_site *s, const char *name)
{
    const onnx_attr *a = attr_of(s, name, ONNX_A_GRAPH, "a graph");
    if (!a || !a->g) {
        flxi_onnx_fail(s, FLX_E_ATTRIBUTE, NULL, "attribute %s is missing", name);
        return NULL;
    }
    return a->g;
}

flx_val flxi_onnx_constant(onnx_site *s, const onnx_tensor *t, int32_t *element)
{
    flx_error err = {0};
    if (t->element == ONNX_STRING) {
        flxi_onnx_unsupported(s, "texts as its value");
        return FLX_NONE;
    }
    flx_tensor *value = flxi_onnx_tensor(s->im->ctx, t, &s->im->origin, &err);
    if (element)
        *element = t->element;
    if (!value) {
        flxi_graph_fail(s->g, &err);
        return FLX_NONE;
    }
    flx_val v = flx_const(s->g, .type = flx_tensor_type(value), .data = value);
    flx_tensor_release(value);
    return v;
}

/* ---- Types ---- */

const flx_type *flxi_onnx_typeof(const onnx_site *s, flx_val v)
{
    static const flx_type none = {.dtype = FLX_F32};
    const flx_type *t = flx_val_type(s->g, v);
    return t ? t : &none;
}

int flxi_onnx_rank(const onnx_site *s, flx_val v)
{
    return flxi_onnx_typeof(s, v)->rank;
}

flx_dtype flxi_onnx_dtype(const onnx_site *s, flx_val v)
{
    return (flx_dtype)flxi_onnx_typeof(s, v)->dtype;
}

flx_dim flxi_onnx_dim(const onnx_site *s, flx_val v, int axis)
{
    const flx_type *t = flxi_onnx_typeof(s, v);
    return axis >= 0 && axis < t->rank ? t->dims[axis] : 1;
}

int flxi_onnx_axis(onnx_site *s, int64_t axis, int rank)
{
    if (axis < -rank || axis >= rank) {
        flxi_onnx_fail(s, FLX_E_ATTRIBUTE, NULL, "axis %lld is out of range for a tensor of rank %d", (long long)axis,
                       rank);
        return 0;
    }
    return (int)(axis < 0 ? axis + rank : axis);
}

flx_ints flxi_onnx_axes(onnx_site *s, flx_ints axes, int rank)
{
    int64_t *v = flxi_onnx_new(s, int64_t, axes.n);
    for (size_t i = 0; v && i < axes.n; i++)
        v[i] = flxi_onnx_axis(s, axes.v[i], rank);
    return (flx_ints){v, v ? axes.n : 0};
}

/* ---- Building ---- */

flx_val flxi_onnx_number(onnx_site *s, flx_val like, double x)
{
    return flx_scalar(s->g, flxi_onnx_dtype(s, like), x);
}

flx_val flxi_onnx_vector(onnx_site *s, const int64_t *v, size_t n)
{
    flx_type type = flx_type_make(FLX_I64, 1, &(flx_dim){(flx_dim)n});
    flx_error err = {0};
    flx_tensor *t = flx_tensor_new(s->im->ctx, &type, v, &err);
    if (!t) {
        flxi_graph_fail(s->g, &err);
        return FLX_NONE;
    }
    flx_val y = flx_const(s->g, .type = &type, .data = t);
    flx_tensor_release(t);
    return y;
}

flx_val flxi_onnx_append(onnx_site *s, const char *op, const flx_val *x, size_t n)
{
    return flx_op1(s->g, op, x, n, NULL, 0);
}

flx_val flxi_onnx_unary(onnx_site *s, const char *op, flx_val x)
{
    return flx_op1(s->g, op, &x, 1, NULL, 0);
}

flx_val flxi_onnx_binary(onnx_site *s, const char *op, flx_val a, flx_val b)
{
    flx_val x[] = {a, b};
    return flx_op1(s->g, op, x, 2, NULL, 0);
}

flx_val flxi_onnx_cast(onnx_site *s, flx_val x, flx_dtype to)
{
    return flxi_onnx_dtype(s, x) == to ? x : flx_cast(s->g, x, .to = to);
}

flx_val flxi_onnx_fill(onnx_site *s, flx_val scalar, flx_ints shape)
{
    return flx_expand(s->g, scalar, .shape = shape);
}

flx_val flxi_onnx_slice_axis(onnx_site *s, flx_val x, int axis, int64_t start, int64_t limit)
{
    return flx_narrow(s->g, x, .axis = axis, .start = start, .len = limit - start);
}

/* ---- Known values ---- */

flx_tensor *flxi_onnx_known(onnx_site *s, flx_val v)
{
    flx_tensor *value = NULL;
    if (!flxi_onnx_failed(s) && flxi_known_value(&s->im->known, s->g, v.id, &value, NULL) != FLX_OK)
        flxi_graph_failf(s->g, FLX_E_OOM, NULL, "no memory for %.40s", s->node->op);
    return value;
}

flx_tensor *flxi_onnx_need(onnx_site *s, size_t i)
{
    flx_tensor *t = flxi_onnx_known(s, s->x[i]);
    if (!t)
        flxi_onnx_unknown(s, i < s->node->num_inputs ? s->node->inputs[i] : "");
    return t;
}

/* Numbers far below zero ("from the beginning") must not be mistaken for symbolic extents. */
static int64_t as_number(int64_t v)
{
    return flxi_dim_is_number(v) ? v : FLXI_DIM_SYMBOLIC_END;
}

bool flxi_onnx_extents(onnx_site *s, size_t i, flx_ints *out)
{
    *out = (flx_ints){s->in[i].extents, s->in[i].num_extents};
    if (s->in[i].extents)
        return !flxi_onnx_failed(s);
    flx_tensor *t = flxi_onnx_need(s, i);
    int64_t n = t ? flx_tensor_count(t) : 0;
    int64_t *v = t ? flxi_onnx_new(s, int64_t, n) : NULL;
    for (int64_t k = 0; v && k < n; k++)
        v[k] = as_number(flxi_load_int(flx_tensor_type(t)->dtype, flx_tensor_const_data(t), k));
    flx_tensor_release(t);
    *out = (flx_ints){v, (size_t)n};
    return v != NULL;
}

bool flxi_onnx_known_reals(onnx_site *s, size_t i, flx_reals *out)
{
    flx_tensor *t = flxi_onnx_need(s, i);
    int64_t n = t ? flx_tensor_count(t) : 0;
    double *v = t ? flxi_onnx_new(s, double, n) : NULL;
    for (int64_t k = 0; v && k < n; k++)
        v[k] = flx_tensor_get(t, k);
    flx_tensor_release(t);
    *out = (flx_reals){v, (size_t)n};
    return v != NULL;
}

flx_ints flxi_onnx_ints_at(onnx_site *s, size_t i, const char *attr)
{
    flx_ints out = {NULL, 0};
    if (s->in[i].kind == ONNX_T_TENSOR)
        flxi_onnx_extents(s, i, &out);
    else if (attr)
        out = flxi_onnx_ints(s, attr);
    return out;
}
