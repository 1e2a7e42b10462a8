/* SPDX-License-Identifier: Apache-2.0 */
/* group_kernel.c: from a group to a kernel. Three forms:

     map      no folds: one invocation for each element, or for each element of the last axis when others need their
     index;
     lanes    folds along the innermost axes: a workgroup for each row, whose lanes take its elements in turn and then
     fold
              what they have together; with folds by columns a workgroup has several rows, one after the other, and adds
              their
              elements to sums in memory;
     serial   all other folds: an invocation for each row, which walks along the row.

   A device may want other forms (flxi_kernel_form): workgroups along one axis; several elements for each invocation of
   a map; a subgroup for each of several rows; and for long rows, and for those that are not contiguous, several
   invocations that fold through memory of the workgroup.

   Folds that need the results of others come in a later phase; each phase is one loop over the row that computes what
   the folds of that phase want, and stores the elements that are known by then. Elements are computed again in each
   phase rather than kept, since their operands are in the nearest cache by then; except those of expensive functions,
   which wait in the memory of a result that a later phase writes: the exponentials of a softmax. */
#include "compile/group_kernel.h"

#include "compile/express_node.h"
#include "ops/opcode.h"

#include <stdio.h>

/* Workgroups of maps; the emitter makes one loop of a line of them. */
enum { MAP_WIDTH = 256, MIN_LANES = 8, MAX_LANES = 16, MOST_TIMES = 8 };

typedef struct {
    uint32_t value;
    flxi_kindex at;
    flxi_kval x;
} known;

typedef struct {
    uint32_t node;
    uint32_t re, im; /* variables of the accumulator */
} running_fold;

/* An element that several phases want: the first stores it where the result `at` will be, the others load it. */
typedef struct {
    uint32_t value, at;
    int first, last;
} kept_element;

enum { MOST_KEPT = 4 };

typedef struct {
    const flxi_grouping *f;
    const flxi_group *group;
    const flx_graph *g;
    uint32_t number; /* of the group, + 1 */
    flxi_kb *k;
    const flxi_allocator *mem;
    uint32_t lanes;             /* of a row; 0: an invocation has rows of its own */
    uint32_t rows;              /* of a workgroup, at the same time */
    bool is_across;             /* neighbouring invocations have neighbouring rows; their lanes are the second axis */
    uint32_t column_id;         /* … and this is their number in the workgroup: an expression */
    const flx_kernel *declared; /* the same kernel before: its buffers come first, in their order; or NULL */
    flxi_group_kernel *out;
    flx_type anchor, row_anchor; /* the shapes that the indices below are of */
    flxi_kindex element, row;    /* the current ones */
    uint32_t part, row_of_part;  /* of the rows that are folded by columns: expressions */
    uint32_t column;             /* of the element in its row */
    FLXI_VEC(known) known;       /* values at indices; those of inner scopes last */
    FLXI_VEC(uint32_t) values;   /* of buffers */
    FLXI_VEC(bool) in_place;     /* likewise */
    FLXI_VEC(running_fold) folds;
    uint8_t *phase; /* by position in the group's list */
    kept_element kept[MOST_KEPT];
    uint32_t num_kept;
    bool failed;  /* memory is exhausted */
    bool is_lost; /* a fold was wanted at another row than the current one: grouping must not allow that */
} writer;

/* ---- Emitting without a node ---- */

static flxi_express emitter(writer *w)
{
    return (flxi_express){.k = w->k};
}

static uint32_t u32(writer *w, int64_t value)
{
    return flxi_kb_u32(w->k, (uint32_t)value);
}

/* After the op, not after the label: equal work in different groups must be the same kernel. */
static const char *name_of(writer *w, uint32_t value)
{
    const flxi_value *v = flxi_value_at(w->g, value);
    return flxi_kb_fresh_name(w->k, flxi_ops[flxi_node_at(w->g, v->node)->op].name);
}

/* ---- Memory ---- */

static uint32_t buffer_of(writer *w, uint32_t value, flx_kernel_access access)
{
    for (size_t i = 0; i < w->values.n; i++)
        if (w->values.at[i] == value)
            return (uint32_t)i + 1;
    const flx_type *t = flxi_type_at(w->g, value);
    int64_t count = 0;
    flxi_static_count(t, &count);
    flxi_kbuffer b = {.name = name_of(w, value),
                      .binding = (uint32_t)w->values.n,
                      .access = (uint8_t)access,
                      .element = (uint8_t)flxi_kernel_storage(t->dtype),
                      .count = (uint64_t)count * (flxi_is_complex(t->dtype) ? 2 : 1)};
    w->failed |= !flxi_push(w->mem, &w->values, value) || !flxi_push(w->mem, &w->in_place, !w->group->has_rows);
    return flxi_kb_buffer(w->k, &b);
}

static flxi_kval load(writer *w, uint32_t value, uint32_t flat)
{
    flxi_express e = emitter(w);
    int32_t dtype = flxi_type_at(w->g, value)->dtype;
    uint32_t b = buffer_of(w, value, FLX_KERNEL_READ);
    if (flat != w->element.flat && b && b <= w->in_place.n)
        w->in_place.at[b - 1] = false;
    if (flxi_is_complex(dtype)) {
        uint32_t at = flxi_ku_mul(&e, flat, 2);
        return (flxi_kval){flxi_kb_load(w->k, b, at), flxi_kb_load(w->k, b, flxi_ku_add(&e, at, u32(w, 1)))};
    }
    uint32_t x = flxi_kb_load(w->k, b, flat);
    return flxi_kreal(dtype == FLX_BOOL ? flxi_kb_binary(w->k, KBIN_ne, x, flxi_kb_literal(w->k, FLX_U8, 0)) : x);
}

static void store(writer *w, uint32_t value, uint32_t flat, flxi_kval x)
{
    flxi_express e = emitter(w);
    int32_t dtype = flxi_type_at(w->g, value)->dtype;
    uint32_t b = buffer_of(w, value, FLX_KERNEL_WRITE);
    if (flxi_is_complex(dtype)) {
        uint32_t at = flxi_ku_mul(&e, flat, 2);
        flxi_kb_store(w->k, b, at, x.re);
        flxi_kb_store(w->k, b, flxi_ku_add(&e, at, u32(w, 1)), x.im);
        return;
    }
    if (dtype == FLX_BOOL)
        x.re = flxi_kb_select(w->k, x.re, flxi_kb_literal(w->k, FLX_U8, 1), flxi_kb_literal(w->k, FLX_U8, 0));
    flxi_kb_store(w->k, b, flat, x.re);
}

/* ---- Elements ---- */

static flxi_kval element_of(writer *w, uint32_t value, const flxi_kindex *at);

static flxi_kval answer(flxi_express *e, uint32_t operand, const flxi_kindex *at)
{
    const flxi_express_frame *l = e->user;
    writer *w = l->user;
    return element_of(w, flxi_node_at(w->g, l->node)->in[operand], at);
}

/* A constant of one element, or of elements that are all the same, is a number in the text. */
static bool is_literal(const writer *w, uint32_t value, flxi_kval *x)
{
    const flxi_node *n = flxi_node_at(w->g, flxi_value_at(w->g, value)->node);
    const flx_type *t = flxi_type_at(w->g, value);
    if (!flxi_is_const(n) || flxi_is_complex(t->dtype))
        return false;
    const flx_tensor *data = flxi_const_data(n);
    size_t size = flx_dtype_size(t->dtype);
    if (data->count == 0)
        return false;
    for (int64_t i = 1; i < data->count; i++)
        if (memcmp(data->data, (const char *)data->data + (size_t)i * size, size) != 0)
            return false;
    uint64_t bits = 0;
    memcpy(&bits, data->data, size);
    *x = flxi_kreal(t->dtype == FLX_BOOL ? flxi_kb_bool(w->k, bits != 0)
                                         : flxi_kb_literal(w->k, flxi_kernel_dtype(t->dtype), bits));
    return true;
}

/* Equal positions, or equal indices along every axis: the same element may be written in both ways. */
static bool is_same_element(const flx_type *t, const flxi_kindex *a, const flxi_kindex *b)
{
    if (a->flat && a->flat == b->flat)
        return true;
    for (int k = 0; k < t->rank; k++)
        if (t->dims[k] != 1 && (!a->dim[k] || a->dim[k] != b->dim[k]))
            return false;
    return true;
}

static bool recall(const writer *w, uint32_t value, const flxi_kindex *at, flxi_kval *x)
{
    const flx_type *t = flxi_type_at(w->g, value);
    for (size_t i = w->known.n; i-- > 0;)
        if (w->known.at[i].value == value && is_same_element(t, &w->known.at[i].at, at)) {
            *x = w->known.at[i].x;
            return true;
        }
    return false;
}

static void remember(writer *w, uint32_t value, const flxi_kindex *at, flxi_kval x)
{
    known k = {value, *at, x};
    w->failed |= !flxi_push(w->mem, &w->known, k);
}

static uint32_t bind(writer *w, uint32_t value, uint32_t x)
{
    const flxi_kx *e = flxi_kb_expr(w->k, x);
    if (!e || e->kind == KX_LITERAL || e->kind == KX_VAR)
        return x;
    return flxi_kb_var(w->k, flxi_kb_let(w->k, name_of(w, value), x));
}

/* The current index of a value of the group. */
static flxi_kindex index_for(writer *w, uint32_t value, flxi_level level)
{
    flxi_express e = emitter(w);
    const flx_type *t = flxi_type_at(w->g, value);
    const flx_type *anchor = level == LEVEL_ROW ? &w->row_anchor : &w->anchor;
    flxi_kindex *at = level == LEVEL_ROW ? &w->row : &w->element;
    if (t->rank == anchor->rank && memcmp(t->dims, anchor->dims, (size_t)t->rank * sizeof *t->dims) == 0)
        return *at;
    return w->group->needs_axes ? flxi_at_reshape(&e, t, anchor, at) : (flxi_kindex){.flat = at->flat};
}

static flxi_kval element_of(writer *w, uint32_t value, const flxi_kindex *at)
{
    flxi_express e = emitter(w);
    flxi_kindex there = *at;
    uint32_t flat = flxi_at_flat(&e, flxi_type_at(w->g, value), &there);
    uint32_t i = flxi_value_at(w->g, value)->node;
    const flxi_node *n = flxi_node_at(w->g, i);
    flxi_kval x;
    if (recall(w, value, &there, &x) || is_literal(w, value, &x))
        return x;
    bool is_ours = w->f->group_of[i] == w->number;
    if (is_ours) { /* the current index may have been requested indirectly */
        flxi_kindex here = index_for(w, value, (flxi_level)w->f->level[i]);
        there = is_same_element(flxi_type_at(w->g, value), &here, &there) ? here : there;
    }
    if (w->f->kind[i] == NODE_VIEW)
        return flxi_express_element(w->g, w->k, i, value - n->first, &there, answer, w);
    if (is_ours && w->f->kind[i] == NODE_FOLDED) {
        w->is_lost = true;
        x = flxi_kzero(&e, flxi_type_at(w->g, value)->dtype);
    } else if (!is_ours)
        x = load(w, value, flat);
    else
        x = flxi_express_element(w->g, w->k, i, value - n->first, &there, answer, w);
    x.re = bind(w, value, x.re);
    x.im = x.im ? bind(w, value, x.im) : 0;
    remember(w, value, &there, x);
    return x;
}

static flxi_kval value_here(writer *w, uint32_t value, flxi_level level)
{
    flxi_kindex at = index_for(w, value, level);
    return element_of(w, value, &at);
}

/* Every stored result of the group's nodes at a level and in a phase (-1: any). All are computed before the first is
   written: a result may take the memory of another's operand. */
static void visit_stored_node(writer *w, uint32_t j, flxi_level level, int phase, bool writes)
{
    uint32_t i = w->group->nodes[j], value = flxi_node_at(w->g, i)->first;
    if (!w->f->is_stored[value] || w->f->level[i] != level || (phase >= 0 && w->phase[j] != phase))
        return;
    flxi_kindex at = index_for(w, value, level);
    flxi_kval x = element_of(w, value, &at);
    if (writes)
        store(w, value, at.flat, x);
}

static void visit_stored(writer *w, flxi_level level, int phase, bool writes)
{
    for (uint32_t j = 0; j < w->group->num_nodes; j++)
        visit_stored_node(w, j, level, phase, writes);
}

static void compute_stored(writer *w, flxi_level level, int phase)
{
    visit_stored(w, level, phase, false);
}

static void store_all(writer *w, flxi_level level, int phase)
{
    compute_stored(w, level, phase);
    visit_stored(w, level, phase, true);
}

/* ---- Indices ---- */

/* The axes [from, to) of the anchor from a position among them. */
static void unfold(writer *w, const flx_type *t, int from, int to, uint32_t position, flxi_kindex *at)
{
    flxi_express e = emitter(w);
    for (int k = to; k-- > from;) {
        int64_t extent = t->dims[k] ? t->dims[k] : 1;
        bool is_first = true;
        for (int j = from; j < k; j++)
            is_first &= t->dims[j] == 1;
        at->dim[k] = t->dims[k] == 1 ? u32(w, 0) : is_first ? position : flxi_ku_mod(&e, position, extent);
        position = is_first ? position : flxi_ku_div(&e, position, extent);
    }
}

/* ---- Maps ---- */

/* The shape with the most axes among those stored: others follow from it. */
static const flx_type *find_anchor(const writer *w)
{
    const flx_type *best = NULL;
    for (uint32_t j = 0; j < w->group->num_nodes; j++) {
        const flxi_node *n = flxi_node_at(w->g, w->group->nodes[j]);
        for (uint32_t r = 0; r < n->nout; r++) {
            const flx_type *t = flxi_type_at(w->g, n->first + r);
            if (w->f->is_stored[n->first + r] && (!best || t->rank > best->rank))
                best = t;
        }
    }
    return best;
}

static void open_guarded(writer *w, uint32_t index, int64_t count)
{
    flxi_kb_if(w->k, flxi_kb_binary(w->k, KBIN_lt, index, u32(w, count)));
}

static uint32_t blocks(int64_t count, uint32_t width)
{
    return (uint32_t)((count + width - 1) / width);
}

static uint32_t bound_id(writer *w, const char *name, flx_kernel_id id, uint32_t axis)
{
    return flxi_kb_var(w->k, flxi_kb_let(w->k, flxi_kb_fresh_name(w->k, name), flxi_kb_id(w->k, id, axis)));
}

/* The axis that the invocations of a line run along: the last one of more than one element. -1: they run along all. */
static int line_axis(const writer *w)
{
    const flx_type *t = &w->anchor;
    int last = t->rank - 1;
    while (last >= 0 && t->dims[last] == 1)
        last--;
    return w->group->needs_axes && !w->f->form && last >= 0 && t->dims[last] >= MAX_LANES ? last : -1;
}

/* Invocation i of line o. */
static void set_line_index(writer *w, int axis, uint32_t o, uint32_t i)
{
    flxi_express e = emitter(w);
    w->element.flat = flxi_ku_add(&e, flxi_ku_mul(&e, o, w->anchor.dims[axis]), i);
    unfold(w, &w->anchor, 0, axis, o, &w->element);
    w->element.dim[axis] = i;
    for (int k = axis + 1; k < w->anchor.rank; k++)
        w->element.dim[k] = u32(w, 0);
}

/* Operands that the group's nodes read at the current element. What a node reads elsewhere after all is not used. */
static void load_operands(writer *w)
{
    for (uint32_t j = 0; j < w->group->num_nodes; j++) {
        const flxi_node *n = flxi_node_at(w->g, w->group->nodes[j]);
        for (uint32_t k = 0; k < n->nin; k++) {
            uint32_t from = flxi_value_at(w->g, n->in[k])->node;
            const flx_type *t = flxi_type_at(w->g, n->in[k]);
            bool is_same =
                t->rank == w->anchor.rank && memcmp(t->dims, w->anchor.dims, (size_t)t->rank * sizeof *t->dims) == 0;
            if (is_same && w->f->group_of[from] != w->number && w->f->kind[from] != NODE_VIEW)
                value_here(w, n->in[k], LEVEL_ELEMENT);
        }
    }
}

/* Where the elements of a vector are. Those of one line differ along its axis alone, which shows what they share. */
static void index_neighbours(writer *w, uint32_t number, uint32_t times, flxi_kindex *at)
{
    flxi_express e = emitter(w);
    flxi_kindex first = {0};
    int last = w->anchor.rank - 1;
    bool in_line = w->group->needs_axes && last >= 0 && w->anchor.dims[last] % times == 0;
    uint32_t offset = 0;
    if (in_line) {
        int64_t vectors = w->anchor.dims[last] / times;
        unfold(w, &w->anchor, 0, last, flxi_ku_div(&e, number, vectors), &first);
        offset = flxi_ku_mul(&e, flxi_ku_mod(&e, number, vectors), times);
    }
    for (uint32_t j = 0; j < times; j++) {
        at[j] = first;
        at[j].flat = flxi_ku_add(&e, flxi_ku_mul(&e, number, times), u32(w, j));
        at[j].flat = flxi_kb_var(w->k, flxi_kb_let(w->k, flxi_kb_fresh_name(w->k, "i"), at[j].flat));
        if (in_line)
            at[j].dim[last] = flxi_ku_add(&e, offset, u32(w, j));
    }
}

/* Vector number `number`: all are read before the first is computed, and computed before the first is stored, so
   that the compiler reads and writes them as vectors. */
static void write_elements(writer *w, uint32_t number, uint32_t times)
{
    flxi_kindex at[MOST_TIMES];
    index_neighbours(w, number, times, at);
    for (uint32_t j = 0; j < times; j++) {
        w->element = at[j];
        load_operands(w);
    }
    for (uint32_t j = 0; j < times; j++) {
        w->element = at[j];
        compute_stored(w, LEVEL_ELEMENT, -1);
    }
    for (uint32_t n = 0; n < w->group->num_nodes; n++)
        for (uint32_t j = 0; j < times; j++) {
            w->element = at[j];
            visit_stored_node(w, n, LEVEL_ELEMENT, -1, true);
        }
}

/* How many elements of the widest result a vector has. */
static uint32_t times_of(const writer *w)
{
    size_t widest = 1;
    for (uint32_t j = 0; j < w->group->num_nodes; j++) {
        uint32_t value = flxi_node_at(w->g, w->group->nodes[j])->first;
        size_t size = flx_dtype_size(flxi_type_at(w->g, value)->dtype);
        widest = w->f->is_stored[value] && size > widest ? size : widest;
    }
    uint32_t times = w->f->form->vector / (uint32_t)widest;
    return times > MOST_TIMES ? MOST_TIMES : times > 2 ? times : 2;
}

/* An invocation has neighbouring elements; the last workgroup may have fewer, which are computed one at a time. */
static void write_large_map(writer *w, int64_t count)
{
    flxi_express e = emitter(w);
    uint32_t width = w->k->k->size[0], times = times_of(w);
    int64_t each = (int64_t)width * times, full = count / each;
    uint32_t group = bound_id(w, "o", FLX_KERNEL_WORKGROUP_ID, 0), own = bound_id(w, "l", FLX_KERNEL_LOCAL_ID, 0);
    w->out->grid[0] = (uint32_t)((count + each - 1) / each);
    open_guarded(w, group, full);
    uint32_t number = flxi_ku_add(&e, flxi_ku_mul(&e, group, width), own);
    number = flxi_kb_var(w->k, flxi_kb_let(w->k, flxi_kb_fresh_name(w->k, "v"), number));
    write_elements(w, number, times);
    flxi_kb_end(w->k);
    w->known.n = 0;
    if (count % each == 0)
        return;
    flxi_kb_if(w->k, flxi_kb_binary(w->k, KBIN_eq, group, u32(w, full)));
    uint32_t line = flxi_kb_var(w->k, flxi_kb_loop(w->k, flxi_kb_fresh_name(w->k, "j"), u32(w, 0), u32(w, times)));
    uint32_t at = flxi_ku_add(&e, flxi_ku_add(&e, flxi_ku_mul(&e, line, width), own), u32(w, full * each));
    at = flxi_kb_var(w->k, flxi_kb_let(w->k, flxi_kb_fresh_name(w->k, "i"), at));
    open_guarded(w, at, count);
    w->element = (flxi_kindex){.flat = at};
    store_all(w, LEVEL_ELEMENT, -1);
    flxi_kb_end(w->k);
    flxi_kb_end(w->k);
    flxi_kb_end(w->k);
}

static void write_map(writer *w)
{
    int axis = line_axis(w);
    int64_t count = flxi_static_extent(&w->anchor, 0, w->anchor.rank), line = axis >= 0 ? w->anchor.dims[axis] : count;
    if (w->f->form && count >= w->f->form->large_map) {
        write_large_map(w, count);
        return;
    }
    uint32_t i = bound_id(w, "i", FLX_KERNEL_INVOCATION_ID, 0);
    w->element.flat = i;
    w->out->grid[0] = blocks(line, w->k->k->size[0]);
    open_guarded(w, i, line);
    if (line != count) {
        uint32_t o = bound_id(w, "o", FLX_KERNEL_WORKGROUP_ID, 1);
        w->out->grid[1] = (uint32_t)(count / line);
        open_guarded(w, o, count / line); /* always true; it bounds the indices */
        set_line_index(w, axis, o, i);
    }
    store_all(w, LEVEL_ELEMENT, -1);
    if (line != count)
        flxi_kb_end(w->k);
    flxi_kb_end(w->k);
}

/* ---- Folds ---- */

static bool is_fold(const writer *w, uint32_t j)
{
    uint32_t i = w->group->nodes[j];
    return w->f->kind[i] == NODE_FOLDED && w->f->level[i] == LEVEL_ROW;
}

static bool is_column_fold(const writer *w, uint32_t j)
{
    return w->f->level[w->group->nodes[j]] == LEVEL_COLUMN;
}

/* How many folds of the group come before this value. */
static uint8_t phase_of(const writer *w, uint32_t value)
{
    uint32_t i = flxi_value_at(w->g, value)->node;
    const flxi_node *n = flxi_node_at(w->g, i);
    uint8_t most = 0;
    if (w->f->kind[i] == NODE_VIEW) {
        for (uint32_t k = 0; k < n->nin; k++) {
            uint8_t p = phase_of(w, n->in[k]);
            most = p > most ? p : most;
        }
        return most;
    }
    for (uint32_t j = 0; w->f->group_of[i] == w->number && j < w->group->num_nodes; j++)
        if (w->group->nodes[j] == i)
            return w->phase[j];
    return 0;
}

static uint8_t find_phases(writer *w)
{
    uint8_t last = 0;
    for (uint32_t j = 0; j < w->group->num_nodes; j++) {
        const flxi_node *n = flxi_node_at(w->g, w->group->nodes[j]);
        for (uint32_t k = 0; k < n->nin; k++) {
            uint8_t p = phase_of(w, n->in[k]);
            w->phase[j] = p > w->phase[j] ? p : w->phase[j];
        }
        w->phase[j] = (uint8_t)(w->phase[j] + is_fold(w, j));
        last = w->phase[j] > last ? w->phase[j] : last;
    }
    return last;
}

static void start_folds(writer *w, int phase)
{
    w->folds.n = 0;
    for (uint32_t j = 0; j < w->group->num_nodes; j++) {
        if (!is_fold(w, j) || w->phase[j] != phase + 1)
            continue;
        running_fold f = {.node = w->group->nodes[j]};
        flxi_kval acc = flxi_express_start(w->g, w->k, f.node);
        f.re = flxi_kb_let(w->k, flxi_kb_fresh_name(w->k, "acc"), acc.re);
        f.im = acc.im ? flxi_kb_let(w->k, flxi_kb_fresh_name(w->k, "acc"), acc.im) : 0;
        w->failed |= !flxi_push(w->mem, &w->folds, f);
    }
}

static flxi_kval accumulator(writer *w, const running_fold *f)
{
    return (flxi_kval){flxi_kb_var(w->k, f->re), f->im ? flxi_kb_var(w->k, f->im) : 0};
}

static void set_accumulator(writer *w, const running_fold *f, flxi_kval x)
{
    if (!f->im) {
        flxi_kb_assign(w->k, f->re, x.re);
        return;
    }
    uint32_t re = flxi_kb_let(w->k, flxi_kb_fresh_name(w->k, "re"), x.re);
    flxi_kb_assign(w->k, f->im, x.im);
    flxi_kb_assign(w->k, f->re, flxi_kb_var(w->k, re));
}

static uint32_t if_row(writer *w, int64_t row, uint32_t then, uint32_t otherwise)
{
    return flxi_kb_select(w->k, flxi_kb_binary(w->k, KBIN_eq, w->row_of_part, u32(w, row)), then, otherwise);
}

/* Adds the current element to what its column has so far: the first row starts it, the last one finishes it. */
static void fold_column(writer *w, uint32_t node)
{
    flxi_express e = emitter(w);
    const flxi_node *n = flxi_node_at(w->g, node);
    int64_t rows = w->group->column_rows;
    flxi_kval x = value_here(w, n->in[0], LEVEL_ELEMENT);
    uint32_t at = flxi_ku_add(&e, flxi_ku_mul(&e, w->part, w->group->space.extent), w->column);
    uint32_t b = buffer_of(w, n->first, FLX_KERNEL_READ_WRITE);
    uint32_t acc = if_row(w, 0, flxi_express_start(w->g, w->k, node).re, flxi_kb_load(w->k, b, at));
    acc = flxi_khold(&e, flxi_express_step(w->g, w->k, node, flxi_kreal(acc), x).re);
    uint32_t whole = flxi_express_finish(w->g, w->k, node, flxi_kreal(acc), rows).re;
    flxi_kb_store(w->k, b, at, whole == acc ? acc : if_row(w, rows - 1, whole, acc));
}

static void fold_columns(writer *w, int phase)
{
    for (uint32_t j = 0; j < w->group->num_nodes; j++)
        if (is_column_fold(w, j) && w->phase[j] == phase)
            fold_column(w, w->group->nodes[j]);
}

/* ---- Elements that are kept ---- */

/* Longer rows leave the nearest caches. */
static const int64_t most_kept_extent = 16384;

static bool is_expensive(uint32_t op)
{
    switch (op) {
    case OP_exp:
    case OP_exp2:
    case OP_expm1:
    case OP_log:
    case OP_log1p:
    case OP_tanh:
    case OP_sigmoid:
    case OP_silu:
    case OP_gelu:
    case OP_gelu_approx:
    case OP_softplus:
    case OP_erf:
    case OP_sin:
    case OP_cos:
    case OP_pow: return true;
    default: return false;
    }
}

/* Marks the group's nodes whose elements are computed on the way to this value. */
static void need(const writer *w, uint32_t value, bool *needed)
{
    uint32_t i = flxi_value_at(w->g, value)->node;
    const flxi_node *n = flxi_node_at(w->g, i);
    if (w->f->kind[i] != NODE_VIEW) {
        if (w->f->group_of[i] != w->number || w->f->level[i] != LEVEL_ELEMENT)
            return;
        for (uint32_t j = 0; j < w->group->num_nodes; j++) {
            if (w->group->nodes[j] != i)
                continue;
            if (needed[j])
                return;
            needed[j] = true;
        }
    }
    for (uint32_t k = 0; k < n->nin; k++)
        need(w, n->in[k], needed);
}

/* The same for all that a phase folds and stores. */
static void need_in_phase(const writer *w, int phase, bool *needed)
{
    for (uint32_t j = 0; j < w->group->num_nodes; j++) {
        const flxi_node *n = flxi_node_at(w->g, w->group->nodes[j]);
        if (is_fold(w, j) ? w->phase[j] == phase + 1 : is_column_fold(w, j) && w->phase[j] == phase)
            need(w, n->in[0], needed);
        else if (w->f->is_stored[n->first] && w->f->level[w->group->nodes[j]] == LEVEL_ELEMENT && w->phase[j] == phase)
            need(w, n->first, needed);
    }
}

/* A result of the same size that is stored in the last of these phases or later, and holds nothing else. */
static uint32_t find_room(const writer *w, uint32_t value, int last)
{
    const flx_type *t = flxi_type_at(w->g, value);
    for (uint32_t j = 0; j < w->group->num_nodes; j++) {
        uint32_t at = flxi_node_at(w->g, w->group->nodes[j])->first;
        const flx_type *u = flxi_type_at(w->g, at);
        bool is_free = at != value && w->f->is_stored[at] && w->f->level[w->group->nodes[j]] == LEVEL_ELEMENT &&
                       w->phase[j] >= last && u->dtype == t->dtype &&
                       flxi_static_extent(u, 0, u->rank) == flxi_static_extent(t, 0, t->rank);
        for (uint32_t k = 0; k < w->num_kept; k++)
            is_free &= w->kept[k].at != at;
        if (is_free)
            return at;
    }
    return 0;
}

static void find_kept(writer *w, int last_phase)
{
    bool *needed = flxi_alloc(w->mem, (size_t)(last_phase + 1) * w->group->num_nodes, sizeof *needed);
    w->num_kept = 0;
    w->failed |= !needed;
    for (int phase = 0; needed && phase <= last_phase; phase++)
        need_in_phase(w, phase, needed + (size_t)phase * w->group->num_nodes);
    for (uint32_t j = 0; needed && j < w->group->num_nodes && w->num_kept < MOST_KEPT; j++) {
        const flxi_node *n = flxi_node_at(w->g, w->group->nodes[j]);
        kept_element e = {.value = n->first, .first = -1, .last = -1};
        for (int phase = 0; phase <= last_phase; phase++)
            if (needed[(size_t)phase * w->group->num_nodes + j]) {
                e.first = e.first < 0 ? phase : e.first;
                e.last = phase;
            }
        int32_t dtype = flxi_type_at(w->g, n->first)->dtype;
        if (!is_expensive(n->op) || e.first == e.last || (dtype != FLX_F32 && dtype != FLX_F64) ||
            w->f->is_stored[n->first])
            continue;
        e.at = find_room(w, n->first, e.last);
        if (e.at)
            w->kept[w->num_kept++] = e;
    }
    if (needed)
        flxi_free(w->mem, needed, (size_t)(last_phase + 1) * w->group->num_nodes, sizeof *needed);
}

static void load_kept(writer *w, int phase)
{
    for (uint32_t i = 0; i < w->num_kept; i++) {
        const kept_element *e = &w->kept[i];
        if (phase <= e->first || phase > e->last)
            continue;
        flxi_kindex at = index_for(w, e->value, LEVEL_ELEMENT);
        uint32_t b = buffer_of(w, e->at, FLX_KERNEL_READ_WRITE);
        uint32_t x = flxi_kb_load(w->k, b, index_for(w, e->at, LEVEL_ELEMENT).flat);
        remember(w, e->value, &at, flxi_kreal(bind(w, e->value, x)));
    }
}

static void store_kept(writer *w, int phase)
{
    for (uint32_t i = 0; i < w->num_kept; i++) {
        const kept_element *e = &w->kept[i];
        if (phase != e->first)
            continue;
        flxi_kval x = value_here(w, e->value, LEVEL_ELEMENT);
        uint32_t b = buffer_of(w, e->at, FLX_KERNEL_READ_WRITE);
        flxi_kb_store(w->k, b, index_for(w, e->at, LEVEL_ELEMENT).flat, x.re);
    }
}

/* What one element of the row is for: folds of this phase, and what is stored in it. */
static void visit_element(writer *w, int phase)
{
    size_t outside = w->known.n;
    load_kept(w, phase);
    for (size_t i = 0; i < w->folds.n; i++) {
        const running_fold *f = &w->folds.at[i];
        const flxi_node *n = flxi_node_at(w->g, f->node);
        flxi_kval x = value_here(w, n->in[0], LEVEL_ELEMENT);
        if (flxi_ops[n->op].rules->fold->value_op)
            x.im = w->column;
        set_accumulator(w, f, flxi_express_step(w->g, w->k, f->node, accumulator(w, f), x));
    }
    store_kept(w, phase);
    store_all(w, LEVEL_ELEMENT, phase);
    fold_columns(w, phase);
    w->known.n = outside;
}

static flxi_kval named(writer *w, flxi_kval x)
{
    x.re = flxi_kb_var(w->k, flxi_kb_let(w->k, flxi_kb_fresh_name(w->k, "acc"), x.re));
    x.im = x.im ? flxi_kb_var(w->k, flxi_kb_let(w->k, flxi_kb_fresh_name(w->k, "acc"), x.im)) : 0;
    return x;
}

static uint32_t subgroup_lanes(const writer *w)
{
    return w->f->form && w->lanes > w->f->form->lanes ? w->f->form->lanes : w->lanes;
}

/* Memory of the workgroup: one element for each of its subgroups. */
static uint32_t shared_buffer(writer *w, uint32_t like, uint32_t count)
{
    flxi_kbuffer b = {.name = flxi_kb_fresh_name(w->k, "parts"),
                      .access = FLX_KERNEL_WORKGROUP,
                      .element = flxi_kb_expr(w->k, like)->type,
                      .count = count};
    return flxi_kb_buffer(w->k, &b);
}

/* Neighbouring rows are in neighbouring invocations: the lanes of a row are ACROSS elements apart. */
enum { ACROSS = 32 };

/* Each lane leaves what it has in the workgroup's memory; then all lanes of the row fold these parts in order. */
static flxi_kval fold_across(writer *w, const running_fold *f, flxi_kval x, uint32_t lane)
{
    flxi_express e = emitter(w);
    uint32_t re = shared_buffer(w, x.re, w->lanes * ACROSS), im = x.im ? shared_buffer(w, x.im, w->lanes * ACROSS) : 0;
    uint32_t own = flxi_ku_add(&e, flxi_ku_mul(&e, lane, ACROSS), w->column_id);
    flxi_kb_store(w->k, re, own, x.re);
    if (im)
        flxi_kb_store(w->k, im, own, x.im);
    flxi_kb_barrier(w->k, FLX_KERNEL_ACQ_REL);
    for (uint32_t i = 0; i < w->lanes; i++) {
        uint32_t at = flxi_ku_add(&e, w->column_id, u32(w, (int64_t)i * ACROSS));
        flxi_kval part = named(w, (flxi_kval){flxi_kb_load(w->k, re, at), im ? flxi_kb_load(w->k, im, at) : 0});
        x = i == 0 ? part : named(w, flxi_express_join(w->g, w->k, f->node, x, part));
    }
    return x;
}

/* Each subgroup leaves what it has in the workgroup's memory; then all fold these parts in order. */
static flxi_kval fold_subgroups(writer *w, const running_fold *f, flxi_kval x, uint32_t lane)
{
    flxi_express e = emitter(w);
    uint32_t width = subgroup_lanes(w), count = w->lanes / width;
    uint32_t re = shared_buffer(w, x.re, count), im = x.im ? shared_buffer(w, x.im, count) : 0;
    uint32_t own = flxi_ku_div(&e, lane, width);
    open_guarded(w, flxi_ku_mod(&e, lane, width), 1);
    flxi_kb_store(w->k, re, own, x.re);
    if (im)
        flxi_kb_store(w->k, im, own, x.im);
    flxi_kb_end(w->k);
    flxi_kb_barrier(w->k, FLX_KERNEL_ACQ_REL);
    for (uint32_t i = 0; i < count; i++) {
        flxi_kval part = {flxi_kb_load(w->k, re, u32(w, i)), im ? flxi_kb_load(w->k, im, u32(w, i)) : 0};
        part = named(w, part);
        x = i == 0 ? part : named(w, flxi_express_join(w->g, w->k, f->node, x, part));
    }
    return x;
}

/* Lane l and lane l ^ d exchange what they have, for d = half of the lanes down to 1: all end with the same. */
static flxi_kval fold_lanes(writer *w, const running_fold *f, uint32_t lane)
{
    flxi_express e = emitter(w);
    flxi_kval x = accumulator(w, f);
    if (w->is_across)
        return w->declared ? fold_across(w, f, x, lane) : x;
    uint32_t width = subgroup_lanes(w), own = width < w->lanes ? flxi_ku_mod(&e, lane, width) : lane;
    for (uint32_t d = width / 2; d > 0; d /= 2) {
        uint32_t from = flxi_kb_binary(w->k, KBIN_bit_xor, own, u32(w, d));
        flxi_kval other = {flxi_kb_subgroup_shuffle(w->k, x.re, from),
                           x.im ? flxi_kb_subgroup_shuffle(w->k, x.im, from) : 0};
        x = named(w, flxi_express_join(w->g, w->k, f->node, x, other));
    }
    return width < w->lanes ? fold_subgroups(w, f, x, lane) : x;
}

static void end_folds(writer *w, uint32_t lane)
{
    for (size_t i = 0; i < w->folds.n; i++) {
        const running_fold *f = &w->folds.at[i];
        uint32_t value = flxi_node_at(w->g, f->node)->first;
        flxi_kval x = w->lanes ? fold_lanes(w, f, lane) : accumulator(w, f);
        x = flxi_express_finish(w->g, w->k, f->node, x, w->group->space.extent);
        x.re = flxi_kb_var(w->k, flxi_kb_let(w->k, name_of(w, value), x.re));
        x.im = x.im ? flxi_kb_var(w->k, flxi_kb_let(w->k, name_of(w, value), x.im)) : 0;
        flxi_kindex at = index_for(w, value, LEVEL_ROW);
        remember(w, value, &at, x);
    }
}

/* Values of the row that are known by now, so that the next loop need not compute them for each element. */
static void compute_rows(writer *w, int phase)
{
    for (uint32_t j = 0; j < w->group->num_nodes; j++) {
        uint32_t i = w->group->nodes[j];
        const flxi_node *n = flxi_node_at(w->g, i);
        for (uint32_t r = 0; !is_fold(w, j) && w->f->level[i] == LEVEL_ROW && w->phase[j] == phase && r < n->nout; r++)
            value_here(w, n->first + r, LEVEL_ROW);
    }
}

static bool has_element_stores(const writer *w, int phase)
{
    for (uint32_t j = 0; j < w->group->num_nodes; j++) {
        if (is_column_fold(w, j) && w->phase[j] == phase)
            return true;
        const flxi_node *n = flxi_node_at(w->g, w->group->nodes[j]);
        for (uint32_t r = 0; w->f->level[w->group->nodes[j]] == LEVEL_ELEMENT && w->phase[j] == phase && r < n->nout;
             r++)
            if (w->f->is_stored[n->first + r])
                return true;
    }
    return false;
}

/* Where element k of the row is. The axes of the anchor: those of outer, of the extent, of inner. */
static void set_element(writer *w, int from, int to, uint32_t outer, uint32_t k, uint32_t inner)
{
    flxi_express e = emitter(w);
    const flxi_space *s = &w->group->space;
    w->element = w->row;
    unfold(w, &w->anchor, from, to, k, &w->element);
    uint32_t line = flxi_ku_add(&e, flxi_ku_mul(&e, outer, s->extent), k);
    w->element.flat = flxi_ku_add(&e, flxi_ku_mul(&e, line, s->inner), inner);
    w->column = k;
}

typedef struct {
    int from, to; /* the folded axes of the anchor */
    uint32_t outer, inner, lane;
} row_frame;

static void loop_over_row(writer *w, const row_frame *r, int phase)
{
    flxi_express e = emitter(w);
    int64_t extent = w->group->space.extent, width = w->lanes ? w->lanes : 1, full = extent / width;
    if (full > 0) {
        uint32_t b = flxi_kb_var(w->k, flxi_kb_loop(w->k, flxi_kb_fresh_name(w->k, "k"), u32(w, 0), u32(w, full)));
        uint32_t k = w->lanes ? flxi_ku_add(&e, flxi_ku_mul(&e, b, width), r->lane) : b;
        set_element(w, r->from, r->to, r->outer, k, r->inner);
        visit_element(w, phase);
        flxi_kb_end(w->k);
    }
    if (extent % width) {
        open_guarded(w, r->lane, extent % width);
        set_element(w, r->from, r->to, r->outer, flxi_ku_add(&e, r->lane, u32(w, full * width)), r->inner);
        visit_element(w, phase);
        flxi_kb_end(w->k);
    }
}

static void write_phases(writer *w, const row_frame *r)
{
    int last = find_phases(w);
    if (w->lanes && !w->is_across && w->group->space.extent <= most_kept_extent)
        find_kept(w, last);
    for (int phase = 0; phase <= last; phase++) {
        compute_rows(w, phase);
        start_folds(w, phase);
        if (w->folds.n > 0 || has_element_stores(w, phase))
            loop_over_row(w, r, phase);
        end_folds(w, r->lane);
    }
    if (w->lanes)
        open_guarded(w, r->lane, 1);
    store_all(w, LEVEL_ROW, -1);
    if (w->lanes)
        flxi_kb_end(w->k);
}

/* The group's first fold; without one along the rows, the first by columns. */
static uint32_t first_fold(const writer *w)
{
    uint32_t found = 0;
    for (uint32_t j = w->group->num_nodes; j-- > 0;)
        if (is_fold(w, j) || (is_column_fold(w, j) && !is_fold(w, found)))
            found = j;
    return found;
}

/* The input of the first fold gives the shape: it knows where the folded axes are. Those after the ones of a fold by
   columns are the row's. */
static row_frame find_frame(writer *w)
{
    row_frame r = {0};
    uint32_t j = first_fold(w);
    const flxi_node *n = flxi_node_at(w->g, w->group->nodes[j]);
    const flx_ints axes = flxi_ops[n->op].rules->fold->axes(n->attrs);
    w->anchor = w->row_anchor = *flxi_type_at(w->g, n->in[0]);
    r.from = axes.n ? (int)axes.v[0] : w->anchor.rank;
    r.to = r.from + (int)axes.n;
    if (is_column_fold(w, j)) {
        r.from = r.to;
        r.to = w->anchor.rank;
    }
    for (int k = r.from; k < r.to; k++)
        w->row_anchor.dims[k] = 1;
    return r;
}

static void set_row(writer *w, const row_frame *r)
{
    flxi_express e = emitter(w);
    unfold(w, &w->row_anchor, 0, r->from, r->outer, &w->row);
    unfold(w, &w->row_anchor, r->from, r->to, u32(w, 0), &w->row);
    unfold(w, &w->row_anchor, r->to, w->row_anchor.rank, r->inner, &w->row);
    w->row.flat = flxi_ku_add(&e, flxi_ku_mul(&e, r->outer, w->group->space.inner), r->inner);
}

static void write_lanes(writer *w)
{
    flxi_express e = emitter(w);
    row_frame r = find_frame(w);
    int64_t rows = w->group->column_rows ? w->group->column_rows : 1, parts = w->group->space.outer / rows;
    w->part = parts == 1 ? u32(w, 0) : bound_id(w, "row", FLX_KERNEL_WORKGROUP_ID, 0);
    r.lane = bound_id(w, "lane", FLX_KERNEL_LOCAL_ID, 0);
    r.inner = u32(w, 0);
    w->out->grid[0] = (uint32_t)(parts / w->rows);
    open_guarded(w, w->part, parts / w->rows); /* always true; it bounds the indices */
    if (w->rows > 1) {
        uint32_t own = flxi_kb_binary(w->k, KBIN_min, flxi_kb_id(w->k, FLX_KERNEL_LOCAL_ID, 1), u32(w, w->rows - 1));
        w->part = flxi_ku_add(&e, flxi_ku_mul(&e, w->part, w->rows), own);
        w->part = flxi_kb_var(w->k, flxi_kb_let(w->k, flxi_kb_fresh_name(w->k, "row"), w->part));
    }
    r.outer = w->part;
    if (w->group->column_rows) {
        w->row_of_part = flxi_kb_var(w->k, flxi_kb_loop(w->k, flxi_kb_fresh_name(w->k, "r"), u32(w, 0), u32(w, rows)));
        r.outer = flxi_ku_add(&e, flxi_ku_mul(&e, w->part, rows), w->row_of_part);
    }
    set_row(w, &r);
    write_phases(w, &r);
    if (w->group->column_rows)
        flxi_kb_end(w->k);
    flxi_kb_end(w->k);
}

/* Rows past the last one are the last one again, so that all invocations reach the barriers. */
static void write_across(writer *w)
{
    flxi_express e = emitter(w);
    const flxi_space *s = &w->group->space;
    row_frame r = find_frame(w);
    int64_t rows = flxi_space_rows(s);
    w->column_id = bound_id(w, "l", FLX_KERNEL_LOCAL_ID, 0);
    r.lane = bound_id(w, "lane", FLX_KERNEL_LOCAL_ID, 1);
    uint32_t group = bound_id(w, "o", FLX_KERNEL_WORKGROUP_ID, 0);
    w->out->grid[0] = blocks(rows, ACROSS);
    open_guarded(w, group, w->out->grid[0]); /* always true; it bounds the indices */
    uint32_t i = flxi_ku_add(&e, flxi_ku_mul(&e, group, ACROSS), w->column_id);
    if (rows % ACROSS)
        i = flxi_kb_binary(w->k, KBIN_min, i, u32(w, rows - 1));
    i = flxi_kb_var(w->k, flxi_kb_let(w->k, flxi_kb_fresh_name(w->k, "i"), i));
    r.outer = s->outer == 1 ? u32(w, 0) : flxi_ku_div(&e, i, s->inner);
    r.inner = s->outer == 1 ? i : flxi_ku_mod(&e, i, s->inner);
    set_row(w, &r);
    write_phases(w, &r);
    flxi_kb_end(w->k);
}

static void write_serial(writer *w)
{
    flxi_express e = emitter(w);
    const flxi_space *s = &w->group->space;
    row_frame r = find_frame(w);
    uint32_t i = bound_id(w, "i", FLX_KERNEL_INVOCATION_ID, 0);
    bool is_wide = s->inner >= MAX_LANES && !w->f->form;
    open_guarded(w, i, is_wide ? s->inner : flxi_space_rows(s));
    w->out->grid[0] = blocks(is_wide ? s->inner : flxi_space_rows(s), w->k->k->size[0]);
    r.outer = is_wide ? bound_id(w, "o", FLX_KERNEL_WORKGROUP_ID, 1) : flxi_ku_div(&e, i, s->inner ? s->inner : 1);
    r.inner = is_wide || s->outer == 1 ? i : flxi_ku_mod(&e, i, s->inner ? s->inner : 1);
    if (s->outer == 1)
        r.outer = u32(w, 0);
    if (is_wide) {
        w->out->grid[1] = (uint32_t)s->outer;
        open_guarded(w, r.outer, s->outer);
    }
    set_row(w, &r);
    write_phases(w, &r);
    if (is_wide)
        flxi_kb_end(w->k);
    flxi_kb_end(w->k);
}

/* ---- The whole ---- */

static bool runs_along_lanes(const writer *w)
{
    int64_t least = w->f->form ? w->f->form->lanes : 2 * MAX_LANES;
    return w->group->space.inner == 1 && w->group->space.extent >= least;
}

static uint32_t width_of(const writer *w)
{
    if (w->f->form)
        return w->group->has_rows ? 128 : w->f->form->width;
    if (w->group->has_rows)
        return 64;
    int axis = line_axis(w);
    int64_t line = axis >= 0 ? w->anchor.dims[axis] : flxi_static_extent(&w->anchor, 0, w->anchor.rank);
    int64_t rounded = (line + MAX_LANES - 1) / MAX_LANES * MAX_LANES;
    return rounded < MAP_WIDTH ? (uint32_t)(rounded ? rounded : MAX_LANES) : MAP_WIDTH;
}

static bool has_wide_values(const flx_kernel *k)
{
    for (uint32_t i = 1; i <= k->num_exprs; i++)
        if (flxi_ktype_of(k->exprs[i].type)->bits == 64)
            return true;
    return false;
}

static void write_group(writer *w)
{
    if (!w->group->has_rows)
        write_map(w);
    else if (w->is_across)
        write_across(w);
    else if (w->lanes)
        write_lanes(w);
    else
        write_serial(w);
}

/* Buffers of values come before those of the workgroup, which no value is in: all values are known from before. */
static void declare_again(writer *w)
{
    for (size_t i = 0; w->declared && i < w->values.n; i++) {
        const flxi_kbuffer *b = &w->declared->buffers[i + 1];
        flxi_kb_buffer(w->k, b);
    }
}

static flx_code lower(writer *w, flx_error *err)
{
    char name[64];
    const flxi_node *last = flxi_node_at(w->g, w->group->nodes[w->group->num_nodes - 1]);
    snprintf(name, sizeof name, "%.40s_%u", flxi_ops[last->op].name, w->group->num_nodes);
    if (!w->group->has_rows)
        w->anchor = *find_anchor(w);
    const uint32_t along[3] = {w->lanes ? w->lanes : width_of(w), w->rows, 1}, across[3] = {ACROSS, w->lanes, 1};
    const uint32_t *size = w->is_across ? across : along;
    w->k = flxi_kb_new(w->g->ctx, name, size, err);
    if (!w->k)
        return FLX_E_OOM;
    w->out->grid[0] = w->out->grid[1] = w->out->grid[2] = 1;
    w->out->lanes = w->is_across ? 0 : subgroup_lanes(w);
    declare_again(w);
    write_group(w);
    w->out->kernel = flxi_kb_finish(w->k, err);
    return w->out->kernel ? FLX_OK : err && err->code ? (flx_code)err->code : FLX_E_OOM;
}

static void forget(writer *w)
{
    w->known.n = w->folds.n = w->num_kept = 0;
    w->element = w->row = (flxi_kindex){0};
    memset(w->phase, 0, w->group->num_nodes);
}

/* The number of lanes follows from the widest value, which is known when the kernel is there. */
static flx_code lower_for_vectors(writer *w, flx_error *err)
{
    bool has_lanes = w->group->has_rows && runs_along_lanes(w);
    w->lanes = has_lanes ? MAX_LANES : 0;
    w->rows = 1;
    FLXI_TRY(lower(w, err));
    if (!has_lanes || !has_wide_values(w->out->kernel))
        return FLX_OK;
    flx_kernel_release(w->out->kernel);
    forget(w);
    w->values.n = w->in_place.n = 0;
    w->lanes = MIN_LANES;
    return lower(w, err);
}

/* Whether the folds of the kernel can go through memory of the workgroup, which holds no truth values. */
static bool has_plain_folds(const writer *w)
{
    for (uint32_t j = 0; j < w->group->num_nodes; j++) {
        const flxi_node *n = flxi_node_at(w->g, w->group->nodes[j]);
        if (is_fold(w, j) && (flxi_type_at(w->g, n->first)->dtype == FLX_BOOL || flxi_ops[n->op].rules->fold->value_op))
            return false;
    }
    return true;
}

static bool is_long(const writer *w)
{
    const flxi_kernel_form *form = w->f->form;
    int64_t least = w->group->space.outer < form->fewer_rows ? form->long_row / 4 : form->long_row;
    return w->group->space.extent >= least && has_plain_folds(w);
}

/* How many lanes a row that is not contiguous has, so that there are about as many invocations as wanted; 0: it is
   walked by one. */
static uint32_t lanes_across(const writer *w)
{
    const flxi_space *s = &w->group->space;
    uint32_t lanes = 1;
    if (!w->group->has_rows || s->outer == 0 || s->inner < 2 || !has_plain_folds(w))
        return 0;
    while (lanes < 32 && s->extent >= 4 * (int64_t)lanes && flxi_space_rows(s) * lanes < w->f->form->across)
        lanes *= 2;
    return lanes > 1 ? lanes : 0;
}

/* Subgroups have rows of their own, or a workgroup has some; its memory is declared after that of values. */
static flx_code lower_for_form(writer *w, flx_error *err)
{
    const flxi_kernel_form *form = w->f->form;
    bool has_lanes = w->group->has_rows && runs_along_lanes(w);
    uint32_t across = has_lanes ? 0 : lanes_across(w);
    w->is_across = across > 0;
    w->lanes = has_lanes ? form->lanes : across;
    w->rows = has_lanes && !is_long(w) ? form->rows : 1;
    while (w->group->space.outer % w->rows)
        w->rows /= 2;
    FLXI_TRY(lower(w, err));
    if (!across && (!has_lanes || !is_long(w)))
        return FLX_OK;
    flx_kernel *before = w->out->kernel;
    forget(w);
    w->declared = before;
    w->lanes = across ? across : w->group->space.extent >= form->longest_row ? 4 * form->width : form->width;
    flx_code code = lower(w, err);
    flx_kernel_release(before);
    return code;
}

static flx_code lower_with_lanes(writer *w, flx_error *err)
{
    return w->f->form ? lower_for_form(w, err) : lower_for_vectors(w, err);
}

flx_code flxi_group_to_kernel(const flxi_grouping *f, const flxi_group *group, flxi_arena *out, flxi_group_kernel *r,
                              flx_error *err)
{
    flx_error local = {0};
    writer w = {
        .f = f, .group = group, .g = f->g, .number = f->group_of[group->nodes[0]], .mem = &f->g->ctx->mem, .out = r};
    *r = (flxi_group_kernel){0};
    w.phase = flxi_alloc(w.mem, group->num_nodes, 1);
    flx_code code = w.phase ? lower_with_lanes(&w, &local) : flxi_oom(&local, "a kernel");
    if (code == FLX_OK && w.failed)
        code = flxi_oom(&local, "a kernel");
    if (code == FLX_OK && w.is_lost)
        code = flxi_fail(&local, FLX_E_INTERNAL, "the group of '%s' reads a fold at another row", r->kernel->name);
    r->values = code == FLX_OK ? flxi_dup(out, uint32_t, w.values.at, w.values.n) : NULL;
    r->reads_in_place = code == FLX_OK ? flxi_dup(out, bool, w.in_place.at, w.in_place.n) : NULL;
    r->num_values = (uint32_t)w.values.n;
    if (code == FLX_OK && (!r->values || !r->reads_in_place))
        code = flxi_oom(&local, "a kernel");
    if (code == FLX_OK)
        code = flx_kernel_encode(r->kernel, &r->wire, &local);
    if (code != FLX_OK) {
        flxi_group_kernel_free(r);
        if (err)
            *err = local;
    }
    flxi_vec_free(w.mem, &w.known);
    flxi_vec_free(w.mem, &w.values);
    flxi_vec_free(w.mem, &w.in_place);
    flxi_vec_free(w.mem, &w.folds);
    if (w.phase)
        flxi_free(w.mem, w.phase, group->num_nodes, 1);
    return code;
}

void flxi_group_kernel_free(flxi_group_kernel *r)
{
    flx_kernel_release(r->kernel);
    flx_buffer_free(&r->wire);
    *r = (flxi_group_kernel){0};
}
