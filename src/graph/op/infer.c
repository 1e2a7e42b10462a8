/* SPDX-License-Identifier: Apache-2.0 */
/* infer.c: shared by the inference rules of all ops. */
#include "graph/op/infer.h"

#include "base/text/count_words.h"
#include "graph/graph.h"
#include "graph/op/foreign_names.h"
#include "graph/op/origin.h"

#include <stdio.h>

flx_code flxi_infer_fail(flxi_infer *f, flx_code code, const char *hint, const char *fmt, ...)
{
    char text[240];
    va_list args;
    va_start(args, fmt);
    flxi_format_va(text, sizeof text, fmt, args);
    va_end(args);
    flxi_node_name name;
    return flxi_fail_hint(f->err, code, hint, "%s: %s", flxi_name_node(&name, f->op, f->label, flxi_current_origin()),
                          text);
}

flx_code flxi_results(flxi_infer *f, size_t n)
{
    if (n > UINT16_MAX)
        return flxi_infer_fail(f, FLX_E_SIZE, NULL, "%zu results exceed the limit of %d", n, UINT16_MAX);
    f->out = flxi_new(f->arena, flx_type, n);
    if (!f->out)
        return flxi_oom(f->err, f->op->name);
    f->nout = (uint32_t)n;
    return FLX_OK;
}

/* Where the name of operand i begins. The last optional operands are omitted first, even if required operands follow
   them. NULL: the row does not name that many. */
static const char *operand_text(const flxi_infer *f, uint32_t i)
{
    const flxi_operands *o = flxi_operands_of(f->op);
    uint32_t spare = f->nin > (uint32_t)o->required ? f->nin - (uint32_t)o->required : 0;
    for (const char *s = f->op->operands; s; s = strchr(s, ',')) {
        s += strspn(s, ", ");
        if (*s == '[' && spare == 0)
            continue;
        spare -= *s == '[';
        if (i-- == 0)
            return s + strspn(s, "[");
    }
    return NULL;
}

const char *flxi_operand_name(const flxi_infer *f, uint32_t i, char *buffer, size_t size)
{
    const char *s = operand_text(f, i);
    size_t n = s ? strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") : 0;
    const char *dots = s ? strstr(s, "...") : NULL;
    if (!s || (dots && dots < s + strcspn(s, ",")))
        snprintf(buffer, size, "operand %u", i);
    else
        snprintf(buffer, size, "%.*s", (int)n, s);
    return buffer;
}

const char *flxi_operand_label(const flxi_infer *f, uint32_t i, char *buffer, size_t size)
{
    const char *label = f->ids ? flxi_value_at(f->g, f->ids[i])->name : NULL;
    if (!label)
        return flxi_operand_name(f, i, buffer, size);
    snprintf(buffer, size, "%s", label);
    return buffer;
}

/* ---- Lists and axes ---- */

int64_t *flxi_new_list(flxi_infer *f, flx_ints *list, size_t n)
{
    int64_t *v = flxi_new(f->arena, int64_t, n);
    if (v)
        *list = (flx_ints){v, n};
    else
        flxi_oom(f->err, f->op->name);
    return v;
}

int64_t *flxi_own_list(flxi_infer *f, flx_ints *list)
{
    flx_ints old = *list;
    int64_t *v = flxi_new_list(f, list, old.n);
    if (v && old.n)
        memcpy(v, old.v, old.n * sizeof *v);
    return v;
}

flx_code flxi_norm_axis(flxi_infer *f, const char *name, int64_t *axis, int rank)
{
    if (*axis < -(int64_t)rank || *axis >= rank)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "%s=%lld is out of range for a tensor of rank %d", name,
                               (long long)*axis, rank);
    if (*axis < 0)
        *axis += rank;
    return FLX_OK;
}

static void sort_small(int64_t *v, size_t n)
{
    for (size_t i = 1; i < n; i++)
        for (size_t k = i; k > 0 && v[k - 1] > v[k]; k--) {
            int64_t t = v[k];
            v[k] = v[k - 1];
            v[k - 1] = t;
        }
}

flx_code flxi_norm_axes(flxi_infer *f, const char *name, flx_ints *axes, int rank, bool sorted)
{
    if (!axes->v) {
        int64_t *all = flxi_new_list(f, axes, (size_t)rank);
        if (!all)
            return FLX_E_OOM;
        for (int i = 0; i < rank; i++)
            all[i] = i;
        return FLX_OK;
    }
    if (axes->n > (size_t)rank)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "%s lists %zu axes, but the tensor has rank %d", name, axes->n,
                               rank);
    int64_t *own = flxi_own_list(f, axes);
    if (!own)
        return FLX_E_OOM;
    uint32_t seen = 0;
    for (size_t i = 0; i < axes->n; i++) {
        FLXI_TRY(flxi_norm_axis(f, name, &own[i], rank));
        if (seen >> own[i] & 1)
            return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "%s lists axis %lld twice", name, (long long)own[i]);
        seen |= UINT32_C(1) << own[i];
    }
    if (sorted)
        sort_small(own, axes->n);
    return FLX_OK;
}

flx_code flxi_norm_list(flxi_infer *f, const char *name, flx_ints *list, size_t n, int64_t value)
{
    if (!list->v) {
        int64_t *v = flxi_new_list(f, list, n);
        if (!v)
            return FLX_E_OOM;
        for (size_t i = 0; i < n; i++)
            v[i] = value;
        return FLX_OK;
    }
    if (list->n != n)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "%s has %zu entries, expected %zu", name, list->n, n);
    return FLX_OK;
}

flx_code flxi_need_rank(flxi_infer *f, uint32_t operand, int at_least)
{
    char name[32];
    flxi_type_text text;
    if (f->in[operand]->rank >= at_least)
        return FLX_OK;
    return flxi_infer_fail(f, FLX_E_SHAPE, NULL, "%s must have rank %d or more, but it is %s",
                           flxi_operand_name(f, operand, name, sizeof name), at_least,
                           flxi_type_str(f->ctx, f->in[operand], &text));
}

/* ---- Shapes ---- */

bool flxi_dims_may_equal(flxi_infer *f, flx_dim a, flx_dim b)
{
    return a == b || !flxi_dims_differ(f->ctx, a, b);
}

flx_code flxi_broadcast(flxi_infer *f, const flx_type *const *in, uint32_t n, flx_type *out)
{
    out->rank = 0;
    for (uint32_t i = 0; i < n; i++)
        if (in[i]->rank > out->rank)
            out->rank = in[i]->rank;
    for (int k = 0; k < out->rank; k++)
        out->dims[k] = 1;
    for (uint32_t i = 0; i < n; i++) {
        int shift = out->rank - in[i]->rank;
        for (int k = 0; k < in[i]->rank; k++) {
            flx_dim *d = &out->dims[shift + k];
            flx_dim x = in[i]->dims[k];
            if (*d == 1) {
                *d = x;
            } else if (x != 1 && x != *d) {
                flxi_type_text so_far;
                flxi_type_text mine;
                bool is_symbolic = !flxi_dim_is_number(x) || !flxi_dim_is_number(*d);
                return flxi_infer_fail(
                    f, FLX_E_SHAPE, is_symbolic ? "a symbolic dimension broadcasts with 1 and with itself only" : NULL,
                    "shapes do not broadcast: %s and %s", flxi_shape_str(f->ctx, in[0], &so_far),
                    flxi_shape_str(f->ctx, in[i], &mine));
            }
        }
    }
    return FLX_OK;
}

/* ---- Sub-graphs ---- */

/* A bare number among the operands has no dtype to share. */
static const char *body_type_hint(const flx_type *wanted, const flx_type *found, char *hint, size_t size)
{
    const char *dtype = flx_dtype_name(wanted->dtype);
    if (wanted->dtype == found->dtype)
        return NULL;
    if (found->rank == 0 && wanted->rank == 0)
        snprintf(hint, size, "a number is f32 here: write const(%s[], 0) for 0, or cast(x, to=%s) of a value", dtype,
                 dtype);
    else
        snprintf(hint, size, "write cast(x, to=%s), or change the input of the graph", dtype);
    return hint;
}

flx_code flxi_match_body(flxi_infer *f, const char *attr, const flx_graph *body, const flx_type *const *types, size_t n)
{
    char hint[120];
    flxi_type_text wanted;
    flxi_type_text found;
    if (body->leaves.n != n)
        return flxi_infer_fail(f, FLX_E_ARITY, NULL, "%s=@%s takes %zu inputs, not %zu", attr, body->name,
                               body->leaves.n, n);
    for (size_t i = 0; i < n; i++) {
        const flxi_value *v = flxi_value_at(body, body->leaves.at[i]);
        if (!flxi_type_equal(v->type, types[i]))
            return flxi_infer_fail(f, v->type->dtype == types[i]->dtype ? FLX_E_SHAPE : FLX_E_DTYPE,
                                   body_type_hint(v->type, types[i], hint, sizeof hint),
                                   "%s=@%s: input '%s' is %s, but the given value is %s", attr, body->name, v->name,
                                   flxi_type_str(f->ctx, v->type, &wanted), flxi_type_str(f->ctx, types[i], &found));
    }
    return FLX_OK;
}

size_t flxi_body_inputs(const flx_graph *body)
{
    return body->leaves.n;
}

size_t flxi_body_outputs(const flx_graph *body)
{
    return body->outputs.n;
}

const flx_type *flxi_body_output(const flx_graph *body, size_t i)
{
    return flxi_type_at(body, body->outputs.at[i].val);
}

/* ---- Ready-made rules ---- */

flx_code flxi_infer_same(flxi_infer *f)
{
    for (uint32_t i = 0; i < f->nout; i++)
        f->out[i] = *f->in[0];
    return FLX_OK;
}

static flx_code infer_broadcast(flxi_infer *f, int32_t dtype)
{
    f->out[0].dtype = dtype;
    return flxi_broadcast(f, f->in, f->nin, &f->out[0]);
}

flx_code flxi_infer_pointwise(flxi_infer *f)
{
    const flxi_operands *o = flxi_operands_of(f->op);
    uint32_t i = 0;
    while (i + 1 < f->nin && flxi_operand_role(o, i) != ROLE_SAME)
        i++;
    if (f->nin == 0)
        return flxi_infer_fail(f, FLX_E_ARITY, NULL, "at least one operand is needed");
    return infer_broadcast(f, f->in[i]->dtype);
}

flx_code flxi_infer_predicate(flxi_infer *f)
{
    return infer_broadcast(f, FLX_BOOL);
}

/* ---- The frame around every rule ---- */

static flx_code check_arity(flxi_infer *f, const flxi_operands *o)
{
    uint32_t most = o->variadic ? UINT32_MAX : (uint32_t)o->count;
    if (f->nin >= (uint32_t)o->required && f->nin <= most)
        return FLX_OK;
    char wanted[48];
    if (o->variadic)
        snprintf(wanted, sizeof wanted, "%d or more operands", o->required);
    else if (o->required == o->count)
        flxi_format(wanted, sizeof wanted, "%d operands", o->count);
    else
        snprintf(wanted, sizeof wanted, "%d to %d operands", o->required, o->count);
    flxi_infer_fail(f, FLX_E_ARITY, NULL, "expected %s, got %u", wanted, f->nin);
    char signature[sizeof f->err->hint];
    const char *meaning = flxi_foreign_meaning(f->op->name);
    flxi_hint(f->err, "%s", meaning ? meaning : flxi_op_signature(f->op, signature, sizeof signature));
    return FLX_E_ARITY;
}

static void list_dtypes(flxi_dtypes set, char *buffer, size_t size)
{
    size_t at = 0;
    for (int d = 1; d < FLX_DTYPE_COUNT && at < size; d++)
        if (flxi_in(set, d))
            at += (size_t)snprintf(buffer + at, size - at, "%s%s", at ? " " : "", flx_dtype_name(d));
}

static flx_code wrong_dtype(flxi_infer *f, uint32_t i, flxi_dtypes wanted)
{
    char name[32];
    char list[100];
    list_dtypes(wanted, list, sizeof list);
    flxi_infer_fail(f, FLX_E_DTYPE, NULL, "%s cannot be %s", flxi_operand_name(f, i, name, sizeof name),
                    flx_dtype_name(f->in[i]->dtype));
    flxi_hint(f->err, "accepted: %s", list);
    return FLX_E_DTYPE;
}

static flx_code check_role(flxi_infer *f, uint32_t i, flxi_role role)
{
    static const flxi_dtypes accepted[] = {
        [ROLE_SAME] = FLXI_ANY, [ROLE_INDEX] = FLXI_INTS | FLXI_FLOATS,
        [ROLE_PRED] = FLXI_ANY, [ROLE_KEY] = FLXI_BIT(FLX_U32),
        [ROLE_ANY] = FLXI_ANY,  [ROLE_INT] = FLXI_INTS,
        [ROLE_PAIR] = FLXI_ANY,
    };
    if (!flxi_in(accepted[role], f->in[i]->dtype))
        return wrong_dtype(f, i, accepted[role]);
    if (role == ROLE_KEY && !(f->in[i]->rank == 1 && f->in[i]->dims[0] == 2)) {
        char name[32];
        flxi_type_text text;
        return flxi_infer_fail(f, FLX_E_SHAPE, NULL, "%s must be a u32[2], but is %s",
                               flxi_operand_name(f, i, name, sizeof name), flxi_type_str(f->ctx, f->in[i], &text));
    }
    return FLX_OK;
}

/* Operands without a role share one dtype of the row's set. */
static flx_code check_dtypes(flxi_infer *f, const flxi_operands *o)
{
    const flx_type *first = NULL;
    for (uint32_t i = 0; i < f->nin; i++) {
        flxi_role role = flxi_operand_role(o, i);
        FLXI_TRY(check_role(f, i, role));
        if (role != ROLE_SAME)
            continue;
        if (!flxi_in(f->op->dtypes, f->in[i]->dtype))
            return wrong_dtype(f, i, f->op->dtypes);
        if (first && first->dtype != f->in[i]->dtype) {
            char hint[120];
            char name[40];
            flxi_operand_label(f, i, name, sizeof name);
            snprintf(hint, sizeof hint, "convert %s: cast(%s, to=%s)", name,
                     strncmp(name, "operand ", 8) == 0 ? "x" : name, flx_dtype_name(first->dtype));
            return flxi_infer_fail(f, FLX_E_DTYPE, hint, "operands have different dtypes: %s and %s",
                                   flx_dtype_name(first->dtype), flx_dtype_name(f->in[i]->dtype));
        }
        if (!first)
            first = f->in[i];
    }
    return FLX_OK;
}

static flx_code check_results(flxi_infer *f)
{
    if (f->nout == 0)
        return flxi_infer_fail(f, FLX_E_ARITY, NULL, "the op would have no result");
    for (uint32_t i = 0; i < f->nout; i++) {
        flx_error err = {0};
        if (flxi_type_check(f->ctx, &f->out[i], &err) != FLX_OK)
            return flxi_infer_fail(f, (flx_code)err.code, NULL, "result %u: %s", i, err.message);
    }
    return FLX_OK;
}

flx_code flxi_infer_node(flx_graph *g, flxi_opcode op, const flx_type *const *in, uint32_t nin, void *attrs,
                         flx_type **out, uint32_t *nout, flx_error *err)
{
    int fixed = flxi_fixed_results(&flxi_ops[op]);
    flxi_infer f = {.g = g,
                    .ctx = g->ctx,
                    .op = &flxi_ops[op],
                    .label = g->pending_label,
                    .nin = nin,
                    .in = in,
                    .ids = g->pending_in,
                    .attrs = attrs,
                    .nout = fixed < 0 ? 0 : (uint32_t)fixed,
                    .out = *out,
                    .arena = &g->arena,
                    .err = err};
    const flxi_operands *o = flxi_operands_of(f.op);
    unsigned starvations = flxi_dim_starvations(f.ctx);
    FLXI_TRY(check_arity(&f, o));
    FLXI_TRY(check_dtypes(&f, o));
    flx_code code = f.op->rules->infer(&f);
    if (code == FLX_OK)
        code = check_results(&f);
    if (flxi_dim_starvations(f.ctx) != starvations) /* a dimension that could not be computed may have caused any other
                                                       error */
        return flxi_oom(err, "dimensions");
    *out = f.out;
    *nout = f.nout;
    return code;
}
