/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_sequence.c: sequences and optionals. They exist only while the model is read: lists of values of the graph. */
#include "onnx/import/onnx_site.h"

static bool need_sequence(onnx_site *s, size_t i)
{
    if (s->in[i].kind == ONNX_T_SEQUENCE)
        return true;
    flxi_onnx_fail(s, FLX_E_DTYPE, NULL, "operand %zu must be a sequence", i);
    return false;
}

static void give_sequence(onnx_site *s, const onnx_value *items, size_t n)
{
    s->out[0] = (onnx_value){.kind = ONNX_T_SEQUENCE, .items = items, .num_items = n};
}

static void give_value(onnx_site *s, const onnx_value *v)
{
    s->out[0] = *v;
    s->y[0] = v->kind == ONNX_T_TENSOR ? v->v : FLX_NONE;
}

void flxi_onnx_import_sequence_empty(onnx_site *s)
{
    give_sequence(s, NULL, 0);
}

void flxi_onnx_import_sequence_construct(onnx_site *s)
{
    give_sequence(s, s->in, s->nx);
}

void flxi_onnx_import_sequence_length(onnx_site *s)
{
    if (need_sequence(s, 0))
        s->y[0] = flx_scalar(s->g, FLX_I64, (double)s->in[0].num_items);
}

/* A position from -n to n - 1, or to n with `end`. */
static bool known_position(onnx_site *s, size_t i, int64_t n, bool end, int64_t *out)
{
    flx_ints v;
    if (!flxi_onnx_extents(s, i, &v))
        return false;
    *out = v.n == 1 ? v.v[0] : INT64_MAX;
    *out = *out < 0 ? *out + n : *out;
    if (*out >= 0 && (*out < n || (end && *out == n)))
        return true;
    flxi_onnx_fail(s, FLX_E_INDEX, NULL, "a position is out of range of a sequence of %lld items", (long long)n);
    return false;
}

void flxi_onnx_import_sequence_at(onnx_site *s)
{
    int64_t at;
    if (need_sequence(s, 0) && known_position(s, 1, (int64_t)s->in[0].num_items, false, &at))
        give_value(s, &s->in[0].items[at]);
}

void flxi_onnx_import_sequence_insert(onnx_site *s)
{
    int64_t n = (int64_t)s->in[0].num_items, at = n;
    if (!need_sequence(s, 0) || (flxi_onnx_given(s->x[2]) && !known_position(s, 2, n, true, &at)))
        return;
    onnx_value *items = flxi_onnx_new(s, onnx_value, n + 1);
    for (int64_t i = 0; items && i <= n; i++)
        items[i] = i == at ? s->in[1] : s->in[0].items[i < at ? i : i - 1];
    give_sequence(s, items, items ? (size_t)n + 1 : 0);
}

void flxi_onnx_import_sequence_erase(onnx_site *s)
{
    int64_t n = (int64_t)s->in[0].num_items, at = n - 1;
    if (!need_sequence(s, 0) || (flxi_onnx_given(s->x[1]) && !known_position(s, 1, n, false, &at)) || n < 1)
        return;
    onnx_value *items = flxi_onnx_new(s, onnx_value, n);
    for (int64_t i = 0; items && i + 1 < n; i++)
        items[i] = s->in[0].items[i < at ? i : i + 1];
    give_sequence(s, items, items ? (size_t)n - 1 : 0);
}

/* Sizes of the parts of an axis: as given, equal ones, or 1 each. */
static flx_ints part_sizes(onnx_site *s, flx_dim extent, bool *single)
{
    flx_ints given = {NULL, 0};
    *single = !flxi_onnx_given(s->x[1]);
    if (!*single && !flxi_onnx_extents(s, 1, &given))
        return given;
    if (!*single && flxi_onnx_rank(s, s->x[1]) == 1)
        return given;
    int64_t size = *single ? 1 : given.v[0];
    if (!flx_dim_is_static(extent) || size < 1) {
        flxi_onnx_unsupported(s, "parts of this axis");
        return (flx_ints){NULL, 0};
    }
    int64_t n = (extent + size - 1) / size;
    int64_t *v = flxi_onnx_new(s, int64_t, n);
    for (int64_t i = 0; v && i < n; i++)
        v[i] = i + 1 < n ? size : extent - i * size;
    return (flx_ints){v, v ? (size_t)n : 0};
}

void flxi_onnx_import_split_to_sequence(onnx_site *s)
{
    int axis = flxi_onnx_axis(s, flxi_onnx_int(s, "axis", 0), flxi_onnx_rank(s, s->x[0]));
    bool single;
    flx_ints sizes = part_sizes(s, flxi_onnx_dim(s, s->x[0], axis), &single);
    bool drops = single && !flxi_onnx_int(s, "keepdims", 1);
    onnx_value *items = flxi_onnx_new(s, onnx_value, sizes.n);
    int64_t at = 0;
    for (size_t i = 0; items && i < sizes.n; at += sizes.v[i++]) {
        flx_val part = flx_narrow(s->g, s->x[0], .axis = axis, .start = at, .len = sizes.v[i]);
        items[i] = (onnx_value){.kind = ONNX_T_TENSOR, .element = s->in[0].element};
        items[i].v = drops ? flx_squeeze(s->g, part, .axes = FLX_INTS(axis)) : part;
    }
    give_sequence(s, items, items ? sizes.n : 0);
}

void flxi_onnx_import_concat_from_sequence(onnx_site *s)
{
    if (!need_sequence(s, 0) || s->in[0].num_items == 0)
        return;
    size_t n = s->in[0].num_items;
    flx_val *x = flxi_onnx_new(s, flx_val, n);
    for (size_t i = 0; x && i < n; i++) {
        x[i] = s->in[0].items[i].v;
        if (s->in[0].items[i].kind != ONNX_T_TENSOR)
            flxi_onnx_unsupported(s, "items that are not numbers");
    }
    if (!x || flxi_onnx_failed(s))
        return;
    bool stacks = flxi_onnx_int(s, "new_axis", 0) != 0;
    int rank = flxi_onnx_rank(s, x[0]) + stacks;
    int axis = flxi_onnx_axis(s, flxi_onnx_int(s, "axis", 0), rank);
    s->y[0] = stacks ? flx_stack(s->g, x, n, .axis = axis) : flx_concat(s->g, x, n, .axis = axis);
}

/* The graph once for each item. */
void flxi_onnx_import_sequence_map(onnx_site *s)
{
    const onnx_graph *body = flxi_onnx_graph(s, "body");
    if (!body || !need_sequence(s, 0))
        return;
    size_t n = s->in[0].num_items;
    onnx_value *lists = flxi_onnx_new(s, onnx_value, n * body->num_outputs);
    onnx_value *args = flxi_onnx_new(s, onnx_value, s->nx), *out = flxi_onnx_new(s, onnx_value, body->num_outputs);
    if (!lists || !args || !out)
        return;
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < s->nx; k++) {
            bool is_list = s->in[k].kind == ONNX_T_SEQUENCE;
            if (is_list && i >= s->in[k].num_items) {
                flxi_onnx_fail(s, FLX_E_SHAPE, NULL, "its sequences have different lengths");
                return;
            }
            args[k] = is_list ? s->in[k].items[i] : s->in[k];
        }
        if (!flxi_onnx_inline(s, body, args, s->nx, out))
            return;
        for (size_t k = 0; k < body->num_outputs; k++)
            lists[k * n + i] = out[k];
    }
    for (size_t k = 0; k < body->num_outputs && k < s->ny; k++)
        s->out[k] = (onnx_value){.kind = ONNX_T_SEQUENCE, .items = lists + k * n, .num_items = n};
}

/* ---- Optionals ---- */

void flxi_onnx_import_optional(onnx_site *s)
{
    if (s->nx == 0 || s->in[0].kind == ONNX_T_NONE) {
        s->out[0] = (onnx_value){.kind = ONNX_T_OPTIONAL};
        return;
    }
    give_value(s, &s->in[0]);
    s->out[0].is_optional = true;
}

void flxi_onnx_import_optional_has_element(onnx_site *s)
{
    bool has = s->nx > 0 && s->in[0].kind != ONNX_T_NONE && s->in[0].kind != ONNX_T_OPTIONAL;
    s->y[0] = flx_scalar(s->g, FLX_BOOL, has);
}

void flxi_onnx_import_optional_get_element(onnx_site *s)
{
    if (s->in[0].kind == ONNX_T_NONE || s->in[0].kind == ONNX_T_OPTIONAL) {
        flxi_onnx_fail(s, FLX_E_MISSING_INPUT, NULL, "the optional has no value");
        return;
    }
    give_value(s, &s->in[0]);
    s->out[0].is_optional = false;
}
