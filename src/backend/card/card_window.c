/* SPDX-License-Identifier: Apache-2.0 */
/* card_window.c: gather_nd and scatter_nd on the card (their geometry: ops/index/gather_nd.c). A thread of gather_nd
   has an element of the result.

   scatter_nd copies x and combines updates into it. Updates are sorted by their target, together with their positions,
   and the first thread of each run of equal targets combines the whole run in the order of positions: no atomics, the
   same bits every time. Where windows have extent 1 along all axes that starts move them on, two windows are either the
   same or have nothing in common: then windows are sorted, else elements are. */
#include "backend/card/card_keys.h"
#include "backend/card/card_numbers.h"
#include "graph/op/eval.h"
#include "ops/index/gather_nd.h"
#include "ops/opcode.h"

typedef struct {
    int64_t stride, extent, window; /* of the axis of x that a component of a start moves along */
} nd_component;

/* An axis of the gathered shape. */
typedef struct {
    int64_t extent;
    int64_t step;                  /* in the gathered shape */
    int64_t x_step, index_step;    /* in x, of windows and batches; in indices, else 0 */
    int32_t component, is_element; /* of windows: the component that moves them, or -1; whether it is a window's axis */
} nd_axis;

/* The kernels know this layout. Axes that a key has are first, then those of its window. */
typedef struct {
    nd_axis axis[FLX_MAX_RANK];
    nd_component component[FLX_MAX_RANK];
    int64_t vector_stride; /* between the components of a start */
    uint64_t keys, window; /* keys, and the elements of each */
    uint32_t key_axes, axes, components, oob;
} nd_form;

typedef enum { COMBINE_SUM, COMBINE_ADD, COMBINE_MUL, COMBINE_MIN, COMBINE_MAX, COMBINE_SET, NUM_COMBINES } combine;

typedef struct {
    nd_form form;
    int32_t index, number;
    combine combine;
    uint32_t size;   /* bytes of an element */
    uint64_t padded; /* keys as they are sorted */
    size_t nbytes;   /* of x */
} nd_table;

_Static_assert(sizeof(nd_table) <= FLXI_CARD_MOST_TABLE, "a table");

/* ---- Texts ---- */

static const char form_text[] =
    "typedef struct {\n    i64 stride, extent, window;\n} nd_component;\n"
    "typedef struct {\n    i64 extent, step, x_step, index_step;\n    i32 component, is_element;\n} nd_axis;\n"
    "typedef struct {\n    nd_axis a[16];\n    nd_component c[16];\n    i64 vector_stride;\n    u64 keys, window;\n"
    "    u32 key_axes, axes, components, oob;\n} nd_form;\n";

/* oob: 0 error, 1 zero, 2 clamp. -1: there is no such element. */
static const char locate_text[] =
    "FUNCTION i64 locate(GLOBAL const nd_form *f, GLOBAL const I *idx, u64 q, u32 axes, GLOBAL finding *t, u64 node)\n"
    "{\n"
    "    i64 at = 0, first = 0, moved[16];\n    bool inside = true;\n"
    "    for (u32 j = 0; j < f->components; j++)\n        moved[j] = 0;\n"
    "    for (u32 k = axes; k-- > 0;) {\n        GLOBAL const nd_axis *a = &f->a[k];\n"
    "        const u64 rest = q / a->extent;\n        const i64 o = (i64)(q - rest * a->extent);\n        q = rest;\n"
    "        at += o * a->x_step;\n        first += o * a->index_step;\n"
    "        if (a->component >= 0)\n            moved[a->component] = o;\n    }\n"
    "    for (u32 j = 0; j < f->components; j++) {\n        GLOBAL const nd_component *c = &f->c[j];\n"
    "        i64 s = (i64)idx[first + (i64)j * f->vector_stride];\n        const i64 last = c->extent - c->window;\n"
    "        if (f->oob == 1) {\n"
    "            const bool is_near = s > -I64(4000000000000000000) && s < I64(4000000000000000000);\n"
    "            inside = inside && is_near && s + moved[j] >= 0 && s + moved[j] < c->extent;\n"
    "        } else if (s < 0 || s > last) {\n            if (f->oob == 2 && last >= 0)\n"
    "                s = s < 0 ? 0 : last;\n            else {\n                found(t, s, c->window, j, node);\n"
    "                inside = false;\n            }\n        }\n"
    "        if (inside)\n            at += s * c->stride;\n    }\n"
    "    return inside ? at : -1;\n}\n"
    "KERNEL(256) nd_keys(GLOBAL const I *idx, GLOBAL u64 *keys, u64 padded, FORM(nd_form), GLOBAL finding *t, "
    "u64 node)\n{\n"
    "    const u64 q = (u64)GROUP * 256u + OWN;\n"
    "    const i64 at = q < form.keys ? locate(&form, idx, q, form.key_axes, t, node) : -1;\n"
    "    if (q < padded)\n        keys[q] = at < 0 ? ~(u64)0 : (u64)at << 32 | q;\n}\n";

static const char gather_text[] =
    "KERNEL(256) NAMED(nd_gather)(GLOBAL const W *x, GLOBAL const I *idx, GLOBAL W *y, FORM(nd_form), "
    "GLOBAL finding *t, u64 node)\n{\n"
    "    const u64 q = (u64)GROUP * 256u + OWN;\n    if (q >= form.keys)\n        return;\n"
    "    const i64 at = locate(&form, idx, q, form.axes, t, node);\n    W none = NOTHING(W);\n"
    "    y[q] = at < 0 ? none : x[at];\n}\n";

static const char combine_text[] =
    "KERNEL(256) nd_combine(GLOBAL const T *updates, GLOBAL const u64 *keys, GLOBAL T *y, FORM(nd_form))\n{\n"
    "    const u64 i = (u64)GROUP * 256u + OWN;\n    u64 p = i / form.window, w = i - p * form.window;\n"
    "    if (p >= form.keys)\n        return;\n    const u64 key = keys[p];\n"
    "    if (key == ~(u64)0 || (p > 0 && keys[p - 1] >> 32 == key >> 32))\n        return;\n"
    "    i64 to = (i64)(key >> 32), from = 0;\n"
    "    for (u32 k = form.axes; k-- > form.key_axes;) {\n        GLOBAL const nd_axis *a = &form.a[k];\n"
    "        const u64 rest = w / a->extent;\n        const i64 o = (i64)(w - rest * a->extent);\n        w = rest;\n"
    "        to += o * a->x_step;\n        from += o * a->step;\n    }\n"
    "    A sum = LOAD(y[to]);\n"
    "    for (; p < form.keys && keys[p] >> 32 == key >> 32 && keys[p] != ~(u64)0; p++) {\n"
    "        u64 q = keys[p] & 0xffffffffu;\n        i64 own = from;\n"
    "        for (u32 k = form.key_axes; k-- > 0;) {\n            GLOBAL const nd_axis *a = &form.a[k];\n"
    "            const u64 rest = q / a->extent;\n            own += (i64)(q - rest * a->extent) * a->step;\n"
    "            q = rest;\n        }\n"
    "        const A next = LOAD(updates[own]);\n        sum = FOLD(sum, next);\n    }\n"
    "    y[to] = SAVE(sum);\n}\n";

static void write_locate(flxi_card_language language, int32_t variant, flxi_strbuf *out)
{
    flxi_card_add_dialect(language, out);
    flxi_card_add_index(variant, out);
    flxi_add_text(out, form_text);
    flxi_add_text(out, locate_text);
    flxi_card_add_for_words(gather_text, 5, out);
}

const flxi_card_text flxi_card_window_text = {write_locate, FLXI_CARD_NUM_INDICES};

/* In which two are compared. Integers of 32 and 64 bits have an unsigned type where sums wrap. */
static const char *ordered_type(int32_t dtype)
{
    return flxi_in(FLXI_FLOATS, dtype) ? "double" : dtype == FLX_I32 ? "i32" : dtype == FLX_I64 ? "i64" : "A";
}

static void write_combine(flxi_card_language language, int32_t variant, flxi_strbuf *out)
{
    static const char *const folds[] = {
        "ADD(a, b)", "rounded(ADD(a, b))", "rounded(PRODUCT(a, b))", "(A)chosen(a, b)", "(A)chosen(a, b)", "(b)",
    };
    int32_t dtype = flxi_card_number_at(variant / NUM_COMBINES);
    combine c = (combine)(variant % NUM_COMBINES);
    bool is_complex = flxi_in(FLXI_COMPLEX, dtype);
    if (is_complex && (c == COMBINE_MIN || c == COMBINE_MAX))
        c = COMBINE_SET; /* they have no order */
    flxi_card_add_dialect(language, out);
    flxi_add_text(out, form_text);
    flxi_add_text(out, flxi_card_number_text(dtype));
    if (c == COMBINE_MIN || c == COMBINE_MAX)
        flxi_card_add_chosen(ordered_type(dtype), c == COMBINE_MAX, out);
    flxi_addf(out,
              "FUNCTION A rounded(A a)\n{\n    const T y = SAVE(a);\n    return LOAD(y);\n}\n"
              "#define PRODUCT(a, b) %s\n#define FOLD(a, b) %s\n",
              is_complex ? "STEP(ZERO, a, b)" : "((a) * (b))", folds[c]);
    flxi_add_text(out, combine_text);
}

const flxi_card_text flxi_card_combine_text = {write_combine, FLXI_CARD_NUM_NUMBERS *NUM_COMBINES};

/* ---- Nodes ---- */

static const flx_type *gathered_type(const flxi_device_node *n)
{
    return n->op == OP_scatter_nd ? n->in_types[2] : n->out_types[0];
}

/* How updates are combined; NUM_COMBINES: by a graph. Bools are numbers of which one is largest. */
static combine combine_of(const flxi_device_node *n)
{
    const flxi_combine *c = &flxi_nd_attrs_of(n->op, n->attrs)->combine;
    bool is_bool = n->in_types[0]->dtype == FLX_BOOL;
    if (c->graph)
        return !flxi_scatter_adds(c) ? NUM_COMBINES : is_bool ? COMBINE_MAX : COMBINE_ADD;
    switch ((flxi_scatter_word)c->word) {
    case FLXI_SCATTER_ADD: return is_bool ? COMBINE_MAX : COMBINE_SUM;
    case FLXI_SCATTER_MUL: return is_bool ? COMBINE_MIN : COMBINE_MUL;
    case FLXI_SCATTER_MIN: return COMBINE_MIN;
    case FLXI_SCATTER_MAX: return COMBINE_MAX;
    case FLXI_SCATTER_SET: return COMBINE_SET;
    }
    return NUM_COMBINES;
}

static int32_t number_of(int32_t dtype)
{
    return flxi_card_number_of(dtype == FLX_BOOL ? FLX_U8 : dtype);
}

static const char *refuse(const flxi_device_node *n)
{
    int64_t count = 0, x_count = 0;
    bool is_static = flxi_static_count(gathered_type(n), &count) && flxi_static_count(n->in_types[0], &x_count);
    if (flxi_card_index_number(n->in_types[1]->dtype) < 0)
        return "for indices of signed and of short integers";
    if (!is_static || count == 0 || x_count == 0 || count > INT32_MAX || x_count > INT32_MAX)
        return "for fewer than 2^31 elements, and not for none";
    if (flx_dtype_size(n->in_types[0]->dtype) == 0)
        return "for elements of whole bytes";
    if (n->op != OP_scatter_nd)
        return NULL;
    if (combine_of(n) == NUM_COMBINES)
        return "updates are combined by a graph";
    return number_of(n->in_types[0]->dtype) < 0 ? "for numbers" : NULL;
}

static nd_axis axis_of(const flxi_device_node *n, const flxi_nd_layout *l, int k, const int64_t *step)
{
    const flxi_nd_attrs *a = flxi_nd_attrs_of(n->op, n->attrs);
    int64_t x_strides[FLX_MAX_RANK], index_strides[FLX_MAX_RANK];
    nd_axis y = {.extent = gathered_type(n)->dims[k], .step = step[k], .component = -1};
    flxi_strides(n->in_types[0], x_strides);
    flxi_strides(n->in_types[1], index_strides);
    if (l->in_window[k]) {
        y.is_element = true;
        y.x_step = x_strides[l->axis[k]];
        for (size_t j = 0; j < a->start_index_map.n; j++)
            if (a->start_index_map.v[j] == l->axis[k])
                y.component = (int32_t)j;
        return y;
    }
    y.index_step = index_strides[l->axis[k]];
    for (size_t i = 0; i < a->indices_batching_axes.n; i++)
        if (a->indices_batching_axes.v[i] == l->axis[k])
            y.x_step = x_strides[a->operand_batching_axes.v[i]];
    return y;
}

/* Index axes before window axes, each in order, or all in order. */
static void add_axes(nd_form *f, const flxi_device_node *n, const flxi_nd_layout *l, bool by_window)
{
    int64_t step[FLX_MAX_RANK];
    flxi_strides(gathered_type(n), step);
    f->keys = f->window = 1;
    for (int pass = 0; pass < (by_window ? 2 : 1); pass++)
        for (int k = 0; k < l->rank; k++) {
            if (by_window && l->in_window[k] != (pass == 1))
                continue;
            f->axis[f->axes] = axis_of(n, l, k, step);
            *(pass ? &f->window : &f->keys) *= (uint64_t)f->axis[f->axes++].extent;
            f->key_axes += !pass;
        }
}

/* Windows are whole: none has an axis that a start moves along, unless its extent is 1. */
static bool has_whole_windows(const flxi_device_node *n, const flxi_nd_layout *l)
{
    const flxi_nd_attrs *a = flxi_nd_attrs_of(n->op, n->attrs);
    for (int k = 0; k < l->rank; k++)
        for (size_t j = 0; l->in_window[k] && j < a->start_index_map.n; j++)
            if (a->start_index_map.v[j] == l->axis[k] && gathered_type(n)->dims[k] != 1)
                return false;
    return true;
}

static void add_components(nd_form *f, const flxi_device_node *n, const flxi_nd_layout *l)
{
    const flxi_nd_attrs *a = flxi_nd_attrs_of(n->op, n->attrs);
    const flx_type *x = n->in_types[0], *indices = n->in_types[1];
    int64_t strides[FLX_MAX_RANK], index_strides[FLX_MAX_RANK];
    flxi_strides(x, strides);
    flxi_strides(indices, index_strides);
    f->components = (uint32_t)a->start_index_map.n;
    f->vector_stride = a->index_vector_axis < indices->rank ? index_strides[a->index_vector_axis] : 0;
    f->oob = (uint32_t)a->oob;
    for (size_t j = 0; j < a->start_index_map.n; j++) {
        int64_t axis = a->start_index_map.v[j];
        f->component[j] = (nd_component){strides[axis], x->dims[axis], 1};
        for (int k = 0; k < l->rank; k++)
            if (l->in_window[k] && l->axis[k] == axis)
                f->component[j].window = gathered_type(n)->dims[k];
    }
}

static size_t prepare(const flxi_device_node *n, void *table)
{
    const flx_type *x = n->in_types[0];
    flxi_nd_layout l = flxi_nd_layout_of(flxi_nd_attrs_of(n->op, n->attrs), x->rank, n->in_types[1]->rank);
    bool scatters = n->op == OP_scatter_nd;
    nd_table t = {.index = flxi_card_index_number(n->in_types[1]->dtype), .size = (uint32_t)flx_dtype_size(x->dtype)};
    add_axes(&t.form, n, &l, scatters && has_whole_windows(n, &l));
    add_components(&t.form, n, &l);
    flxi_static_bytes(x, &t.nbytes);
    if (scatters) {
        t.number = number_of(x->dtype);
        t.combine = combine_of(n);
        t.padded = flxi_card_padded_keys(t.form.keys);
    }
    memcpy(table, &t, sizeof t);
    return scatters ? flxi_card_keys_bytes(t.padded) : 0;
}

/* ---- Running ---- */

static flx_code run_gather(const flxi_launcher *on, const flxi_node_step *s, flx_error *err)
{
    static const char *const names[] = {"nd_gather_1", "nd_gather_2", "nd_gather_4", "nd_gather_8", "nd_gather_16"};
    const nd_table *t = s->way->table;
    const flxi_card_argument arguments[] = {FLXI_ADDRESS(s->in[0]), FLXI_ADDRESS(s->in[1]),    FLXI_ADDRESS(s->out[0]),
                                            FLXI_FORM(t->form),     FLXI_ADDRESS(on->finding), FLXI_VALUE(s->node)};
    return flxi_card_launch_line(on, &flxi_card_window_text, t->index, names[flxi_card_word(t->size)], t->form.keys,
                                 arguments, FLXI_CARD_COUNT(arguments), err);
}

static flx_code run_scatter(const flxi_launcher *on, const flxi_node_step *s, flx_error *err)
{
    const nd_table *t = s->way->table;
    void *keys = s->scratch;
    const flxi_card_argument located[] = {FLXI_ADDRESS(s->in[1]), FLXI_ADDRESS(keys),        FLXI_VALUE(t->padded),
                                          FLXI_FORM(t->form),     FLXI_ADDRESS(on->finding), FLXI_VALUE(s->node)};
    const flxi_card_argument combined[] = {FLXI_ADDRESS(s->in[2]), FLXI_ADDRESS(keys), FLXI_ADDRESS(s->out[0]),
                                           FLXI_FORM(t->form)};
    if (s->in[0] != s->out[0])
        FLXI_TRY(on->copy(on, s->out[0], s->in[0], t->nbytes, err));
    FLXI_TRY(flxi_card_launch_line(on, &flxi_card_window_text, t->index, "nd_keys", t->padded, located,
                                   FLXI_CARD_COUNT(located), err));
    FLXI_TRY(flxi_card_sort_keys(on, s->scratch, t->padded, &keys, err));
    return flxi_card_launch_line(on, &flxi_card_combine_text, t->number * NUM_COMBINES + (int32_t)t->combine,
                                 "nd_combine", t->form.keys * t->form.window, combined, FLXI_CARD_COUNT(combined), err);
}

const flxi_card_way flxi_card_windows = {
    .name = "windows", .refuse = refuse, .table_bytes = sizeof(nd_table), .prepare = prepare, .run = run_gather};
const flxi_card_way flxi_card_scatter = {.name = "sorted",
                                         .refuse = refuse,
                                         .table_bytes = sizeof(nd_table),
                                         .prepare = prepare,
                                         .run = run_scatter,
                                         .needs_f64 = true,
                                         .is_in_place = true};
