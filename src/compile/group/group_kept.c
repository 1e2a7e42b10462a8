/* SPDX-License-Identifier: Apache-2.0 */
/* group_kept.c: elements of expensive functions that several phases want. The first phase stores such an element in the
   memory of a result that a later phase writes, and the others load it: the exponentials of a softmax. Where lanes hold
   the operands of a row, such an element takes the place of an operand that no later phase wants. */
#include "compile/group/group_writer.h"

/* Longer rows leave the nearest caches. */
static const int64_t most_kept_extent = 16384;

/* Marks the group's nodes whose elements are computed on the way to this value. */
static void need(const flxi_gwriter *w, uint32_t value, bool *needed)
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
static void need_in_phase(const flxi_gwriter *w, int phase, bool *needed)
{
    for (uint32_t j = 0; j < w->group->num_nodes; j++) {
        const flxi_node *n = flxi_node_at(w->g, w->group->nodes[j]);
        if (flxi_gw_is_fold(w, j) ? w->phase[j] == phase + 1 : flxi_gw_is_column_fold(w, j) && w->phase[j] == phase)
            need(w, n->in[0], needed);
        else if (w->f->is_stored[n->first] && w->f->level[w->group->nodes[j]] == LEVEL_ELEMENT && w->phase[j] == phase)
            need(w, n->first, needed);
    }
}

/* A result of the same size that is stored in the last of these phases or later, and holds nothing else. */
static uint32_t find_room(const flxi_gwriter *w, uint32_t value, int last)
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

/* ---- In place of operands ---- */

/* Whether the element of `value` in this phase depends on that of `target`; kept ones are known by then. */
static bool reaches(const flxi_gwriter *w, uint32_t value, uint32_t target, int phase, bool *seen)
{
    uint32_t i = flxi_value_at(w->g, value)->node;
    const flxi_node *n = flxi_node_at(w->g, i);
    if (value == target)
        return true;
    for (uint32_t k = 0; k < w->num_kept; k++)
        if (w->kept[k].value == value && phase > w->kept[k].first)
            return false;
    bool is_ours = w->f->group_of[i] == w->number && w->f->level[i] == LEVEL_ELEMENT;
    if (seen[i] || (w->f->kind[i] != NODE_VIEW && !is_ours))
        return false;
    seen[i] = true;
    for (uint32_t k = 0; k < n->nin; k++)
        if (reaches(w, n->in[k], target, phase, seen))
            return true;
    return false;
}

/* Whether anything that a phase folds or stores depends on it. */
static bool is_wanted(const flxi_gwriter *w, uint32_t target, int phase, bool *seen)
{
    memset(seen, 0, w->g->node_count * sizeof *seen);
    for (uint32_t j = 0; j < w->group->num_nodes; j++) {
        const flxi_node *n = flxi_node_at(w->g, w->group->nodes[j]);
        bool is_stored = w->f->is_stored[n->first] && w->f->level[w->group->nodes[j]] == LEVEL_ELEMENT;
        if (flxi_gw_is_fold(w, j) ? w->phase[j] == phase + 1 && reaches(w, n->in[0], target, phase, seen)
                                  : is_stored && w->phase[j] == phase && reaches(w, n->first, target, phase, seen))
            return true;
    }
    return false;
}

/* A held operand that nothing needs after the phase that computes the last of the kept elements; 0: there is none. */
static uint32_t find_unwanted(const flxi_gwriter *w, int last_phase)
{
    uint32_t found = 0;
    bool *seen = flxi_alloc(w->mem, w->g->node_count, sizeof *seen);
    const flxi_kept_element *e = &w->kept[w->num_kept - 1];
    bool is_wide = flxi_type_at(w->g, e->value)->dtype == FLX_F64;
    for (uint32_t h = 0; seen && h < w->num_held && !found; h++) {
        bool is_free = !is_wide || flx_dtype_size((flx_dtype)flxi_type_at(w->g, w->held[h].value)->dtype) == 8;
        for (uint32_t k = 0; k + 1 < w->num_kept; k++)
            is_free &= w->kept[k].at != w->held[h].value;
        for (int phase = e->first + 1; phase <= last_phase && is_free; phase++)
            is_free = !is_wanted(w, w->held[h].value, phase, seen);
        found = is_free ? w->held[h].value : 0;
    }
    if (seen)
        flxi_free(w->mem, seen, w->g->node_count, sizeof *seen);
    return found;
}

uint32_t flxi_gw_held_value(const flxi_gwriter *w, uint32_t operand, int phase)
{
    for (uint32_t k = 0; k < w->num_kept; k++)
        if (w->kept[k].at == operand && phase > w->kept[k].first)
            return phase <= w->kept[k].last ? w->kept[k].value : 0;
    return operand;
}

/* ---- Finding them ---- */

/* Takes the element into the list if there is room for it. */
static void keep(flxi_gwriter *w, flxi_kept_element e, int last_phase)
{
    if (!w->vector)
        e.at = find_room(w, e.value, e.last);
    w->kept[w->num_kept++] = e;
    if (w->vector)
        e.at = w->kept[w->num_kept - 1].at = find_unwanted(w, last_phase);
    w->num_kept -= e.at == 0;
}

void flxi_gw_find_kept(flxi_gwriter *w, int last_phase)
{
    w->num_kept = 0;
    bool is_possible = w->vector ? w->num_held > 0 : w->group->space.extent <= most_kept_extent;
    if (!w->lanes || w->is_across || !is_possible)
        return;
    bool *needed = flxi_alloc(w->mem, (size_t)(last_phase + 1) * w->group->num_nodes, sizeof *needed);
    w->failed |= !needed;
    for (int phase = 0; needed && phase <= last_phase; phase++)
        need_in_phase(w, phase, needed + (size_t)phase * w->group->num_nodes);
    for (uint32_t j = 0; needed && j < w->group->num_nodes && w->num_kept < FLXI_MOST_KEPT; j++) {
        const flxi_node *n = flxi_node_at(w->g, w->group->nodes[j]);
        flxi_kept_element e = {.value = n->first, .first = -1, .last = -1};
        for (int phase = 0; phase <= last_phase; phase++)
            if (needed[(size_t)phase * w->group->num_nodes + j]) {
                e.first = e.first < 0 ? phase : e.first;
                e.last = phase;
            }
        int32_t dtype = flxi_type_at(w->g, n->first)->dtype;
        if (!(flxi_ops[n->op].traits & TRAIT_COSTLY) || e.first == e.last || (dtype != FLX_F32 && dtype != FLX_F64) ||
            w->f->is_stored[n->first])
            continue;
        keep(w, e, last_phase);
    }
    if (needed)
        flxi_free(w->mem, needed, (size_t)(last_phase + 1) * w->group->num_nodes, sizeof *needed);
}

/* ---- In memory ---- */

void flxi_gw_load_kept(flxi_gwriter *w, int phase)
{
    for (uint32_t i = 0; i < w->num_kept; i++) {
        const flxi_kept_element *e = &w->kept[i];
        if (phase <= e->first || phase > e->last)
            continue;
        flxi_kindex at = flxi_gw_index_for(w, e->value, LEVEL_ELEMENT);
        uint32_t b = flxi_gw_buffer_of(w, e->at, FLX_KERNEL_READ_WRITE);
        uint32_t x = flxi_kb_load(w->k, b, flxi_gw_index_for(w, e->at, LEVEL_ELEMENT).flat);
        flxi_gw_remember(w, e->value, &at, flxi_kreal(flxi_gw_bind(w, e->value, x)));
    }
}

void flxi_gw_store_kept(flxi_gwriter *w, int phase)
{
    for (uint32_t i = 0; i < w->num_kept; i++) {
        const flxi_kept_element *e = &w->kept[i];
        if (phase != e->first)
            continue;
        flxi_kval x = flxi_gw_value_here(w, e->value, LEVEL_ELEMENT);
        uint32_t b = flxi_gw_buffer_of(w, e->at, FLX_KERNEL_READ_WRITE);
        flxi_kb_store(w->k, b, flxi_gw_index_for(w, e->at, LEVEL_ELEMENT).flat, x.re);
    }
}
