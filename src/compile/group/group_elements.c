/* SPDX-License-Identifier: Apache-2.0 */
/* group_elements.c: the elements of a group's values in a kernel: their buffers, how an element is computed from those
   of its operands, and which are known already at this point of the text. */
#include "compile/group/group_writer.h"

const char *flxi_gw_name_of(flxi_gwriter *w, uint32_t value)
{
    const flxi_value *v = flxi_value_at(w->g, value);
    return flxi_kb_fresh_name(w->k, flxi_ops[flxi_node_at(w->g, v->node)->op].name);
}

/* ---- Memory ---- */

uint32_t flxi_gw_buffer_of(flxi_gwriter *w, uint32_t value, flx_kernel_access access)
{
    for (size_t i = 0; i < w->values.n; i++)
        if (w->values.at[i] == value)
            return (uint32_t)i + 1;
    const flx_type *t = flxi_type_at(w->g, value);
    int64_t count = 0;
    flxi_static_count(t, &count);
    flxi_kbuffer b = {.name = flxi_gw_name_of(w, value),
                      .binding = (uint32_t)w->values.n,
                      .access = (uint8_t)access,
                      .element = (uint8_t)flxi_kernel_storage(t->dtype),
                      .count = (uint64_t)count * (flxi_is_complex(t->dtype) ? 2 : 1)};
    w->failed |= !flxi_push(w->mem, &w->values, value) || !flxi_push(w->mem, &w->in_place, !w->group->has_rows);
    return flxi_kb_buffer(w->k, &b);
}

static flxi_kval load(flxi_gwriter *w, uint32_t value, uint32_t flat)
{
    flxi_express e = flxi_gw_emitter(w);
    int32_t dtype = flxi_type_at(w->g, value)->dtype;
    uint32_t b = flxi_gw_buffer_of(w, value, FLX_KERNEL_READ);
    if (flat != w->element.flat && b && b <= w->in_place.n)
        w->in_place.at[b - 1] = false;
    if (flxi_is_complex(dtype)) {
        uint32_t at = flxi_ku_mul(&e, flat, 2);
        return (flxi_kval){flxi_kb_load(w->k, b, at), flxi_kb_load(w->k, b, flxi_ku_add(&e, at, flxi_gw_u32(w, 1)))};
    }
    uint32_t x = flxi_kb_load(w->k, b, flat);
    return flxi_kreal(dtype == FLX_BOOL ? flxi_kb_binary(w->k, KBIN_ne, x, flxi_kb_literal(w->k, FLX_U8, 0)) : x);
}

static void store(flxi_gwriter *w, uint32_t value, uint32_t flat, flxi_kval x)
{
    flxi_express e = flxi_gw_emitter(w);
    int32_t dtype = flxi_type_at(w->g, value)->dtype;
    uint32_t b = flxi_gw_buffer_of(w, value, FLX_KERNEL_WRITE);
    if (flxi_is_complex(dtype)) {
        uint32_t at = flxi_ku_mul(&e, flat, 2);
        flxi_kb_store(w->k, b, at, x.re);
        flxi_kb_store(w->k, b, flxi_ku_add(&e, at, flxi_gw_u32(w, 1)), x.im);
        return;
    }
    if (dtype == FLX_BOOL)
        x.re = flxi_kb_select(w->k, x.re, flxi_kb_literal(w->k, FLX_U8, 1), flxi_kb_literal(w->k, FLX_U8, 0));
    flxi_kb_store(w->k, b, flat, x.re);
}

/* ---- Elements ---- */

static flxi_kval element_of(flxi_gwriter *w, uint32_t value, const flxi_kindex *at);

static flxi_kval answer(flxi_express *e, uint32_t operand, const flxi_kindex *at)
{
    const flxi_express_frame *l = e->user;
    flxi_gwriter *w = l->user;
    return element_of(w, flxi_node_at(w->g, l->node)->in[operand], at);
}

/* A constant of one element, or of elements that are all the same, is a number in the text. */
static bool is_literal(const flxi_gwriter *w, uint32_t value, flxi_kval *x)
{
    const flxi_node *n = flxi_node_of(w->g, value);
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

bool flxi_gw_recall(const flxi_gwriter *w, uint32_t value, const flxi_kindex *at, flxi_kval *x)
{
    const flx_type *t = flxi_type_at(w->g, value);
    for (size_t i = w->known.n; i-- > 0;)
        if (w->known.at[i].value == value && is_same_element(t, &w->known.at[i].at, at)) {
            *x = w->known.at[i].x;
            return true;
        }
    return false;
}

void flxi_gw_remember(flxi_gwriter *w, uint32_t value, const flxi_kindex *at, flxi_kval x)
{
    flxi_known_element k = {value, *at, x};
    w->failed |= !flxi_push(w->mem, &w->known, k);
}

uint32_t flxi_gw_bind(flxi_gwriter *w, uint32_t value, uint32_t x)
{
    const flxi_kx *e = flxi_kb_expr(w->k, x);
    if (!e || e->kind == KX_LITERAL || e->kind == KX_VAR)
        return x;
    return flxi_kb_var(w->k, flxi_kb_let(w->k, flxi_gw_name_of(w, value), x));
}

/* The current index of a value of the group. */
flxi_kindex flxi_gw_index_for(flxi_gwriter *w, uint32_t value, flxi_level level)
{
    flxi_express e = flxi_gw_emitter(w);
    const flx_type *t = flxi_type_at(w->g, value);
    const flx_type *anchor = level == LEVEL_ROW ? &w->row_anchor : &w->anchor;
    flxi_kindex *at = level == LEVEL_ROW ? &w->row : &w->element;
    if (t->rank == anchor->rank && memcmp(t->dims, anchor->dims, (size_t)t->rank * sizeof *t->dims) == 0)
        return *at;
    return w->group->needs_axes ? flxi_at_reshape(&e, t, anchor, at) : (flxi_kindex){.flat = at->flat};
}

/* A view that computes (light_nodes.h). */
static bool is_computed(const flxi_gwriter *w, uint32_t i)
{
    return w->f->kind[i] == NODE_VIEW && flxi_ops[flxi_node_at(w->g, i)->op].op_class == CLASS_POINTWISE;
}

static flxi_kval element_of(flxi_gwriter *w, uint32_t value, const flxi_kindex *at)
{
    flxi_express e = flxi_gw_emitter(w);
    flxi_kindex there = *at;
    uint32_t flat = flxi_at_flat(&e, flxi_type_at(w->g, value), &there);
    uint32_t i = flxi_value_at(w->g, value)->node;
    const flxi_node *n = flxi_node_at(w->g, i);
    flxi_kval x;
    if (flxi_gw_recall(w, value, &there, &x) || is_literal(w, value, &x))
        return x;
    bool is_ours = w->f->group_of[i] == w->number;
    if (is_ours) { /* the current index may have been requested indirectly */
        flxi_kindex here = flxi_gw_index_for(w, value, (flxi_level)w->f->level[i]);
        there = is_same_element(flxi_type_at(w->g, value), &here, &there) ? here : there;
    }
    bool is_view = w->f->kind[i] == NODE_VIEW;
    if (is_view && !is_computed(w, i))
        return flxi_express_element(w->g, w->k, i, value - n->first, &there, answer, w);
    if (is_ours && w->f->kind[i] == NODE_FOLDED) {
        w->is_lost = true;
        x = flxi_kzero(&e, flxi_type_at(w->g, value)->dtype);
    } else if (!is_ours && !is_view)
        x = load(w, value, flat);
    else
        x = flxi_express_element(w->g, w->k, i, value - n->first, &there, answer, w);
    x.re = flxi_gw_bind(w, value, x.re);
    x.im = x.im ? flxi_gw_bind(w, value, x.im) : 0;
    flxi_gw_remember(w, value, &there, x);
    return x;
}

flxi_kval flxi_gw_value_here(flxi_gwriter *w, uint32_t value, flxi_level level)
{
    flxi_kindex at = flxi_gw_index_for(w, value, level);
    return element_of(w, value, &at);
}

bool flxi_gw_is_operand_here(const flxi_gwriter *w, uint32_t value)
{
    uint32_t from = flxi_value_at(w->g, value)->node;
    const flx_type *t = flxi_type_at(w->g, value);
    bool is_same = t->rank == w->anchor.rank && memcmp(t->dims, w->anchor.dims, (size_t)t->rank * sizeof *t->dims) == 0;
    return is_same && w->f->group_of[from] != w->number && w->f->kind[from] != NODE_VIEW;
}

static void visit_operands_of(flxi_gwriter *w, uint32_t node,
                              void (*visit)(flxi_gwriter *w, uint32_t value, void *user), void *user)
{
    const flxi_node *n = flxi_node_at(w->g, node);
    for (uint32_t k = 0; k < n->nin; k++) {
        uint32_t source = flxi_value_at(w->g, n->in[k])->node;
        if (flxi_gw_is_operand_here(w, n->in[k]))
            visit(w, n->in[k], user);
        else if (is_computed(w, source))
            visit_operands_of(w, source, visit, user);
    }
}

void flxi_gw_visit_operands(flxi_gwriter *w, void (*visit)(flxi_gwriter *w, uint32_t value, void *user), void *user)
{
    for (uint32_t j = 0; j < w->group->num_nodes; j++)
        visit_operands_of(w, w->group->nodes[j], visit, user);
}

static void load_operand(flxi_gwriter *w, uint32_t value, void *user)
{
    (void)user;
    flxi_gw_value_here(w, value, LEVEL_ELEMENT);
}

/* What a node reads elsewhere after all is not used. */
void flxi_gw_load_operands(flxi_gwriter *w)
{
    flxi_gw_visit_operands(w, load_operand, NULL);
}

/* Every stored result of the group's nodes at a level and in a phase (-1: any). All are computed before the first is
   written: a result may take the memory of another's operand. */
void flxi_gw_visit_stored_node(flxi_gwriter *w, uint32_t j, flxi_level level, int phase, bool writes)
{
    uint32_t i = w->group->nodes[j], value = flxi_node_at(w->g, i)->first;
    if (!w->f->is_stored[value] || w->f->level[i] != level || (phase >= 0 && w->phase[j] != phase))
        return;
    flxi_kindex at = flxi_gw_index_for(w, value, level);
    flxi_kval x = element_of(w, value, &at);
    if (writes)
        store(w, value, at.flat, x);
}

static void visit_stored(flxi_gwriter *w, flxi_level level, int phase, bool writes)
{
    for (uint32_t j = 0; j < w->group->num_nodes; j++)
        flxi_gw_visit_stored_node(w, j, level, phase, writes);
}

void flxi_gw_compute_stored(flxi_gwriter *w, flxi_level level, int phase)
{
    visit_stored(w, level, phase, false);
}

void flxi_gw_store_all(flxi_gwriter *w, flxi_level level, int phase)
{
    flxi_gw_compute_stored(w, level, phase);
    visit_stored(w, level, phase, true);
}

/* ---- Indices ---- */

void flxi_gw_unfold(flxi_gwriter *w, const flx_type *t, int from, int to, uint32_t position, flxi_kindex *at)
{
    flxi_express e = flxi_gw_emitter(w);
    for (int k = to; k-- > from;) {
        int64_t extent = t->dims[k] ? t->dims[k] : 1;
        bool is_first = true;
        for (int j = from; j < k; j++)
            is_first &= t->dims[j] == 1;
        at->dim[k] = t->dims[k] == 1 ? flxi_gw_u32(w, 0) : is_first ? position : flxi_ku_mod(&e, position, extent);
        position = is_first ? position : flxi_ku_div(&e, position, extent);
    }
}

/* ---- Statements ---- */

void flxi_gw_open_guarded(flxi_gwriter *w, uint32_t index, int64_t count)
{
    flxi_kb_if(w->k, flxi_kb_binary(w->k, KBIN_lt, index, flxi_gw_u32(w, count)));
}

uint32_t flxi_gw_bound_id(flxi_gwriter *w, const char *name, flx_kernel_id id, uint32_t axis)
{
    return flxi_kb_var(w->k, flxi_kb_let(w->k, flxi_kb_fresh_name(w->k, name), flxi_kb_id(w->k, id, axis)));
}
