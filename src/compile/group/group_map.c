/* SPDX-License-Identifier: Apache-2.0 */
/* group_map.c: kernels of groups without folds: one invocation for each element, or for each element of the last axis
   when others need their index; on devices that want it, several neighbouring elements for each invocation. */
#include "compile/group/group_writer.h"

/* The shape with the most axes among those stored: others follow from it. */
const flx_type *flxi_gw_find_anchor(const flxi_gwriter *w)
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

/* The axis that the invocations of a line run along: the last one of more than one element. -1: they run along all. */
int flxi_gw_line_axis(const flxi_gwriter *w)
{
    const flx_type *t = &w->anchor;
    int last = t->rank - 1;
    while (last >= 0 && t->dims[last] == 1)
        last--;
    return w->group->needs_axes && !w->f->form && last >= 0 && t->dims[last] >= FLXI_MAX_LANES ? last : -1;
}

/* Invocation i of line o. */
static void set_line_index(flxi_gwriter *w, int axis, uint32_t o, uint32_t i)
{
    flxi_express e = flxi_gw_emitter(w);
    w->element.flat = flxi_ku_add(&e, flxi_ku_mul(&e, o, w->anchor.dims[axis]), i);
    flxi_gw_unfold(w, &w->anchor, 0, axis, o, &w->element);
    w->element.dim[axis] = i;
    for (int k = axis + 1; k < w->anchor.rank; k++)
        w->element.dim[k] = flxi_gw_u32(w, 0);
}

/* Where the elements of a vector are. Those of one line differ along its axis alone, which shows what they share. */
static void index_neighbours(flxi_gwriter *w, uint32_t number, uint32_t times, flxi_kindex *at)
{
    flxi_express e = flxi_gw_emitter(w);
    flxi_kindex first = {0};
    int last = w->anchor.rank - 1;
    bool in_line = w->group->needs_axes && last >= 0 && w->anchor.dims[last] % times == 0;
    uint32_t offset = 0;
    if (in_line) {
        int64_t vectors = w->anchor.dims[last] / times;
        flxi_gw_unfold(w, &w->anchor, 0, last, flxi_ku_div(&e, number, vectors), &first);
        offset = flxi_ku_mul(&e, flxi_ku_mod(&e, number, vectors), times);
    }
    for (uint32_t j = 0; j < times; j++) {
        at[j] = first;
        at[j].flat = flxi_ku_add(&e, flxi_ku_mul(&e, number, times), flxi_gw_u32(w, j));
        at[j].flat = flxi_kb_var(w->k, flxi_kb_let(w->k, flxi_kb_fresh_name(w->k, "i"), at[j].flat));
        if (in_line)
            at[j].dim[last] = flxi_ku_add(&e, offset, flxi_gw_u32(w, j));
    }
}

/* Vector number `number`: all are read before the first is computed, and computed before the first is stored, so
   that the compiler reads and writes them as vectors. */
static void write_elements(flxi_gwriter *w, uint32_t number, uint32_t times)
{
    flxi_kindex at[FLXI_MOST_TIMES];
    index_neighbours(w, number, times, at);
    for (uint32_t j = 0; j < times; j++) {
        w->element = at[j];
        flxi_gw_load_operands(w);
    }
    for (uint32_t j = 0; j < times; j++) {
        w->element = at[j];
        flxi_gw_compute_stored(w, LEVEL_ELEMENT, -1);
    }
    for (uint32_t n = 0; n < w->group->num_nodes; n++)
        for (uint32_t j = 0; j < times; j++) {
            w->element = at[j];
            flxi_gw_visit_stored_node(w, n, LEVEL_ELEMENT, -1, true);
        }
}

/* How many elements of the widest result a vector has. */
static uint32_t times_of(const flxi_gwriter *w)
{
    size_t widest = 1;
    for (uint32_t j = 0; j < w->group->num_nodes; j++) {
        uint32_t value = flxi_node_at(w->g, w->group->nodes[j])->first;
        size_t size = flx_dtype_size(flxi_type_at(w->g, value)->dtype);
        widest = w->f->is_stored[value] && size > widest ? size : widest;
    }
    uint32_t times = w->f->form->vector / (uint32_t)widest;
    return times > FLXI_MOST_TIMES ? FLXI_MOST_TIMES : times > 2 ? times : 2;
}

static void count_operand(flxi_gwriter *w, uint32_t value, void *user)
{
    (void)w;
    (void)value;
    ++*(int *)user;
}

/* How many vectors an invocation has. Where nothing is read at each element, as in outer products, memory takes two
   faster than one. */
static uint32_t vectors_of(flxi_gwriter *w)
{
    int count = 0;
    flxi_gw_visit_operands(w, count_operand, &count);
    return count ? 1 : 2;
}

/* An invocation has neighbouring elements; the last workgroup may have fewer, which are computed one at a time. */
static void write_large_map(flxi_gwriter *w, int64_t count)
{
    flxi_express e = flxi_gw_emitter(w);
    uint32_t width = w->k->k->size[0], vectors = vectors_of(w), times = times_of(w) * vectors;
    int64_t each = (int64_t)width * times, full = count / each;
    uint32_t group = flxi_gw_bound_id(w, "o", FLX_KERNEL_WORKGROUP_ID, 0),
             own = flxi_gw_bound_id(w, "l", FLX_KERNEL_LOCAL_ID, 0);
    w->out->grid[0] = (uint32_t)((count + each - 1) / each);
    flxi_gw_open_guarded(w, group, full);
    for (uint32_t v = 0; v < vectors; v++) {
        uint32_t line = flxi_ku_add(&e, flxi_ku_mul(&e, group, vectors), flxi_gw_u32(w, v));
        uint32_t number = flxi_ku_add(&e, flxi_ku_mul(&e, line, width), own);
        number = flxi_kb_var(w->k, flxi_kb_let(w->k, flxi_kb_fresh_name(w->k, "v"), number));
        write_elements(w, number, times / vectors);
    }
    flxi_kb_end(w->k);
    w->known.n = 0;
    if (count % each == 0)
        return;
    flxi_kb_if(w->k, flxi_kb_binary(w->k, KBIN_eq, group, flxi_gw_u32(w, full)));
    uint32_t line =
        flxi_kb_var(w->k, flxi_kb_loop(w->k, flxi_kb_fresh_name(w->k, "j"), flxi_gw_u32(w, 0), flxi_gw_u32(w, times)));
    uint32_t at = flxi_ku_add(&e, flxi_ku_add(&e, flxi_ku_mul(&e, line, width), own), flxi_gw_u32(w, full * each));
    at = flxi_kb_var(w->k, flxi_kb_let(w->k, flxi_kb_fresh_name(w->k, "i"), at));
    flxi_gw_open_guarded(w, at, count);
    w->element = (flxi_kindex){.flat = at};
    flxi_gw_store_all(w, LEVEL_ELEMENT, -1);
    flxi_kb_end(w->k);
    flxi_kb_end(w->k);
    flxi_kb_end(w->k);
}

void flxi_gw_write_map(flxi_gwriter *w)
{
    int axis = flxi_gw_line_axis(w);
    int64_t count = flxi_static_extent(&w->anchor, 0, w->anchor.rank), line = axis >= 0 ? w->anchor.dims[axis] : count;
    if (w->f->form && count >= w->f->form->large_map) {
        write_large_map(w, count);
        return;
    }
    uint32_t i = flxi_gw_bound_id(w, "i", FLX_KERNEL_INVOCATION_ID, 0);
    w->element.flat = i;
    w->out->grid[0] = flxi_gw_blocks(line, w->k->k->size[0]);
    flxi_gw_open_guarded(w, i, line);
    if (line != count) {
        uint32_t o = flxi_gw_bound_id(w, "o", FLX_KERNEL_WORKGROUP_ID, 1);
        w->out->grid[1] = (uint32_t)(count / line);
        flxi_gw_open_guarded(w, o, count / line); /* always true; it bounds the indices */
        set_line_index(w, axis, o, i);
    }
    flxi_gw_store_all(w, LEVEL_ELEMENT, -1);
    if (line != count)
        flxi_kb_end(w->k);
    flxi_kb_end(w->k);
}
