/* SPDX-License-Identifier: Apache-2.0 */
/* initialisation.c: the initialisation that a parameter carries. It is kept with the declaration, but it is not an
   attribute of it: graphs that differ in it compute the same, so hashes and comparisons do not see it. Text and binary
   form, copies and transforms keep it. */
#include "graph/initialisation.h"

#include <math.h>

/* By kind. */
static const char kinds[] = "usual zeros ones constant uniform normal truncated_normal xavier_uniform xavier_normal "
                            "he_uniform he_normal lecun_uniform lecun_normal orthogonal identity key";

int32_t flxi_init_find(const char *s, size_t n)
{
    int64_t i = flxi_word_find(kinds, s, n);
    return i > 0 ? (int32_t)i : 0;
}

const char *flxi_init_name(int32_t kind, size_t *n)
{
    return flxi_word_at(kinds, kind, n);
}

static bool is_random(int32_t kind)
{
    return kind >= FLX_INIT_UNIFORM && kind <= FLX_INIT_ORTHOGONAL;
}

/* ---- What a tensor admits ---- */

/* Whether the number is one of the dtype's, rounded where that has fractions. */
static bool is_in_range(int32_t dtype, double x)
{
    if (flxi_is_float(dtype) || flxi_is_complex(dtype)) {
        bool is_single = dtype == FLX_F32 || dtype == FLX_C64;
        double most = dtype == FLX_F16 ? 65504 : dtype == FLX_BF16 ? 0x1.fep127 : is_single ? 0x1.fffffep127 : INFINITY;
        return fabs(x) <= most;
    }
    bool is_signed = dtype == FLX_I8 || dtype == FLX_I16 || dtype == FLX_I32 || dtype == FLX_I64;
    int bits = dtype == FLX_BOOL ? 1 : (int)flx_dtype_size(dtype) * 8 - is_signed;
    return x >= (is_signed ? -ldexp(1, bits) : 0) && x < ldexp(1, bits);
}

static flx_code check_scale(const flx_type *type, const flx_init *init, flx_error *err)
{
    if (!isfinite(init->scale))
        return flxi_fail(err, FLX_E_USAGE, "the scale of an initialisation must be finite, got %g", init->scale);
    if (is_random(init->kind) && init->scale <= 0)
        return flxi_fail(err, FLX_E_USAGE, "the scale of a random initialisation must be positive, got %g",
                         init->scale);
    bool has_fractions = flxi_is_float(type->dtype) || flxi_is_complex(type->dtype);
    if ((!has_fractions && init->scale != floor(init->scale)) || !is_in_range(type->dtype, init->scale))
        return flxi_fail(err, FLX_E_USAGE, "a parameter of dtype %s cannot be initialised with %g",
                         flx_dtype_name(type->dtype), init->scale);
    return FLX_OK;
}

static flx_code check_type(const flx_type *type, const flx_init *init, flx_error *err)
{
    size_t n = 0;
    const char *name = flxi_init_name(init->kind, &n);
    if (is_random(init->kind) && !flxi_is_float(type->dtype))
        return flxi_fail_hint(err, FLX_E_DTYPE, "zeros, ones and constant are for every dtype, key is for u32",
                              "%.*s numbers are floating, but the parameter has dtype %s", (int)n, name,
                              flx_dtype_name(type->dtype));
    if (init->kind == FLX_INIT_KEY && type->dtype != FLX_U32)
        return flxi_fail(err, FLX_E_DTYPE, "a key consists of u32 numbers, but the parameter has dtype %s",
                         flx_dtype_name(type->dtype));
    if (init->kind == FLX_INIT_IDENTITY && type->rank != 2)
        return flxi_fail(err, FLX_E_SHAPE, "identity initialises matrices, but the parameter has rank %d", type->rank);
    return FLX_OK;
}

flx_code flxi_init_check(const flx_type *type, flx_init *init, flx_error *err)
{
    bool is_plain = init->kind == FLX_INIT_USUAL || init->kind == FLX_INIT_ZEROS || init->kind == FLX_INIT_KEY;
    if (init->kind < 0 || init->kind > FLX_INIT_KEY)
        return flxi_fail(err, FLX_E_USAGE, "%d is not a kind of initialisation", (int)init->kind);
    if (init->reserved)
        return flxi_fail(err, FLX_E_USAGE, "flx_init.reserved must be 0, got %d", (int)init->reserved);
    if (init->scale == 0 && init->kind != FLX_INIT_CONSTANT)
        init->scale = 1;
    FLXI_TRY(check_type(type, init, err));
    FLXI_TRY(check_scale(type, init, err));
    if (is_plain)
        init->scale = init->kind ? 1 : 0;
    return FLX_OK;
}

/* ---- Kinds that look at the shape ---- */

/* Fan-in, how many numbers one result depends on, and fan-out, how many results depend on one number: the extents of a
   matrix [inputs, outputs], and those of a convolution's [outputs, inputs, spatial...] with the spatial ones. */
typedef struct {
    double inputs, outputs;
} fans;

static fans fans_of(const flx_type *t)
{
    fans f = {t->rank ? (double)t->dims[0] : 1, t->rank ? (double)t->dims[t->rank - 1] : 1};
    if (t->rank > 2) {
        f = (fans){(double)t->dims[1], (double)t->dims[0]};
        for (int k = 2; k < t->rank; k++) {
            f.inputs *= (double)t->dims[k];
            f.outputs *= (double)t->dims[k];
        }
    }
    return (fans){f.inputs > 0 ? f.inputs : 1, f.outputs > 0 ? f.outputs : 1};
}

flx_init flxi_init_settled(const flx_type *type, flx_init init)
{
    if (!flxi_type_is_static(type))
        return init;
    fans f = fans_of(type);
    double mean = (f.inputs + f.outputs) / 2, s = init.scale;
    switch (init.kind) {
    case FLX_INIT_ONES: return (flx_init){FLX_INIT_CONSTANT, 0, s};
    case FLX_INIT_XAVIER_UNIFORM: return (flx_init){FLX_INIT_UNIFORM, 0, s * sqrt(3 / mean)};
    case FLX_INIT_XAVIER_NORMAL: return (flx_init){FLX_INIT_NORMAL, 0, s * sqrt(1 / mean)};
    case FLX_INIT_HE_UNIFORM: return (flx_init){FLX_INIT_UNIFORM, 0, s * sqrt(6 / f.inputs)};
    case FLX_INIT_HE_NORMAL: return (flx_init){FLX_INIT_NORMAL, 0, s * sqrt(2 / f.inputs)};
    case FLX_INIT_LECUN_UNIFORM: return (flx_init){FLX_INIT_UNIFORM, 0, s * sqrt(3 / f.inputs)};
    case FLX_INIT_LECUN_NORMAL: return (flx_init){FLX_INIT_NORMAL, 0, s * sqrt(1 / f.inputs)};
    default: return init;
    }
}

/* ---- Where nothing is said ---- */

flx_init flxi_init_usual(const char *name, const flx_type *type)
{
    static const char zeros[] = "b c beta bias", ones[] = "gamma";
    const char *end = name ? strrchr(name, '.') : NULL;
    end = end ? end + 1 : name ? name : "";
    size_t n = strlen(end);
    if (n && flxi_word_find(ones, end, n) >= 0)
        return (flx_init){FLX_INIT_ONES, 0, 1};
    if (!flxi_is_float(type->dtype) || (n && flxi_word_find(zeros, end, n) >= 0))
        return (flx_init){FLX_INIT_ZEROS, 0, 1};
    return (flx_init){FLX_INIT_XAVIER_UNIFORM, 0, 1};
}

/* ---- Parameters ---- */

flx_val flx_set_init(flx_graph *g, flx_val param, flx_init init)
{
    flx_error err = {0};
    if (!flxi_may_build(g))
        return FLX_NONE;
    const flx_type *type = flx_val_type(g, param);
    const flxi_node *n = type ? flxi_node_of(g, param.id) : NULL;
    if (!n || !flxi_is_param(n)) {
        flxi_graph_failf(g, FLX_E_USAGE, "declare it with flx_param()",
                         "flx_set_init: the value is not a parameter of the graph '%s'", g->name);
        return FLX_NONE;
    }
    if (flxi_init_check(type, &init, &err) != FLX_OK) {
        flxi_at(&err, "%.50s/%.50s", g->name, flxi_value_at(g, param.id)->name);
        flxi_graph_fail(g, &err);
        return FLX_NONE;
    }
    ((flxi_leaf_attrs *)n->attrs)->init = init;
    return param;
}

flx_init flxi_leaf_init(const flx_graph *g, uint32_t id)
{
    return ((const flxi_leaf_attrs *)flxi_node_of(g, id)->attrs)->init;
}

flx_init flx_graph_input_init(const flx_graph *g, size_t i)
{
    if (!flx_graph_input_is_param(g, i))
        return (flx_init){FLX_INIT_USUAL, 0, 0};
    const flxi_value *v = flxi_value_at(g, g->leaves.at[i]);
    flx_init init = flxi_leaf_init(g, g->leaves.at[i]);
    return init.kind ? init : flxi_init_usual(v->name, v->type);
}

/* A leaf with a further axis holds several of the original: each is initialised like that one, where that can be
   said. */
uint32_t flxi_add_leaf_like(flx_graph *g, const flx_graph *from, uint32_t id, const flx_type *type)
{
    const flxi_value *v = flxi_value_at(from, id);
    flx_init init = flxi_leaf_init(from, id);
    uint32_t made = flxi_add_leaf(g, flxi_node_at(from, v->node)->op, v->name, type);
    if (!made || !init.kind)
        return made;
    if (type->rank != v->type->rank) {
        init = flxi_init_settled(v->type, init);
        if (init.kind == FLX_INIT_ORTHOGONAL || init.kind == FLX_INIT_IDENTITY)
            return made;
    }
    ((flxi_leaf_attrs *)flxi_node_of(g, made)->attrs)->init = init;
    return made;
}
