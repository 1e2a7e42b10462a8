/* SPDX-License-Identifier: Apache-2.0 */
/* group_vectors.c: rows whose lanes take vectors of neighbouring elements, for a device with a form of its own. Where
   the operands of a whole row fit into the registers of its lanes, they are loaded once, before the first phase. */
#include "compile/group/group_writer.h"

/* Registers for operands that a lane may use, by lanes of a row: a multiprocessor has 2^16 of them, and a workgroup of
   1024 has 64 for each lane. */
static int64_t most_operand_words(const flxi_gwriter *w)
{
    return w->lanes > 512 ? 52 : w->lanes > 128 ? 96 : 72;
}

/* The operands of one element that flxi_gw_load_operands() loads. */
typedef struct {
    uint32_t seen[16], count;
    int64_t words; /* of each operand once, as far as there is room to note them */
    size_t widest;
} operands;

static void add_operand(flxi_gwriter *w, uint32_t value, void *user)
{
    operands *o = user;
    size_t size = flx_dtype_size(flxi_type_at(w->g, value)->dtype);
    for (uint32_t i = 0; i < o->count; i++)
        if (o->seen[i] == value)
            return;
    o->words += size > 4 ? 2 : 1;
    o->widest = size > o->widest ? size : o->widest;
    if (o->count < sizeof o->seen / sizeof *o->seen)
        o->seen[o->count++] = value;
}

void flxi_gw_choose_vectors(flxi_gwriter *w)
{
    operands o = {.widest = 1};
    flxi_gw_visit_operands(w, add_operand, &o);
    int64_t extent = w->group->space.extent, words = o.words;
    w->vector = w->num_vectors = 0;
    if (!w->f->form || !w->lanes || w->is_across || w->group->column_rows || !words)
        return;
    uint32_t most = w->f->form->vector / (uint32_t)o.widest;
    if (!most)
        return;
    w->vector = most > FLXI_MOST_TIMES ? FLXI_MOST_TIMES : most;
    while (w->vector > 1 && (extent % w->vector || extent < (int64_t)w->lanes * w->vector))
        w->vector /= 2;
    int64_t each = extent / ((int64_t)w->lanes * w->vector);
    if (each * w->vector * words <= most_operand_words(w))
        w->num_vectors = (uint32_t)each;
}

/* Where the elements of the vector number `number` of the row are. */
static void place_vector(flxi_gwriter *w, const flxi_row_frame *r, uint32_t number, flxi_kindex *at, uint32_t *columns)
{
    flxi_express e = flxi_gw_emitter(w);
    uint32_t first = flxi_ku_mul(&e, number, w->vector);
    first = flxi_kb_var(w->k, flxi_kb_let(w->k, flxi_kb_fresh_name(w->k, "k"), first));
    flxi_gw_set_element(w, r, first);
    uint32_t flat = flxi_kb_var(w->k, flxi_kb_let(w->k, flxi_kb_fresh_name(w->k, "i"), w->element.flat));
    for (uint32_t j = 0; j < w->vector; j++) {
        flxi_gw_set_element(w, r, flxi_ku_add(&e, first, flxi_gw_u32(w, j)));
        at[j] = w->element;
        at[j].flat = flxi_ku_add(&e, flat, flxi_gw_u32(w, j));
        columns[j] = w->column;
    }
}

/* What the elements of a vector are for. All are read before the first is folded, and all results of a node are stored
   together, so that the compiler makes vectors of them. */
static void visit_vector(flxi_gwriter *w, const flxi_kindex *at, const uint32_t *columns, int phase)
{
    size_t outside = w->known.n;
    for (uint32_t j = 0; j < w->vector; j++) {
        w->element = at[j];
        flxi_gw_load_operands(w);
    }
    for (uint32_t j = 0; j < w->vector; j++) {
        w->element = at[j];
        w->column = columns[j];
        flxi_gw_step_folds(w);
        flxi_gw_compute_stored(w, LEVEL_ELEMENT, phase);
    }
    for (uint32_t n = 0; n < w->group->num_nodes; n++)
        for (uint32_t j = 0; j < w->vector; j++) {
            w->element = at[j];
            flxi_gw_visit_stored_node(w, n, LEVEL_ELEMENT, phase, true);
        }
    w->known.n = outside;
}

void flxi_gw_load_row(flxi_gwriter *w, const flxi_row_frame *r)
{
    flxi_express e = flxi_gw_emitter(w);
    size_t n = (size_t)w->num_vectors * w->vector;
    if (!n)
        return;
    w->elements_at = flxi_alloc(w->mem, n, sizeof *w->elements_at);
    w->columns = flxi_alloc(w->mem, n, sizeof *w->columns);
    w->failed |= !w->elements_at || !w->columns;
    for (uint32_t v = 0; v < w->num_vectors && !w->failed; v++) {
        uint32_t number = flxi_ku_add(&e, flxi_gw_u32(w, (int64_t)v * w->lanes), r->lane);
        place_vector(w, r, number, w->elements_at + (size_t)v * w->vector, w->columns + (size_t)v * w->vector);
    }
    for (size_t i = 0; i < n && !w->failed; i++) {
        w->element = w->elements_at[i];
        flxi_gw_load_operands(w);
    }
}

void flxi_gw_free_row(flxi_gwriter *w)
{
    size_t n = (size_t)w->num_vectors * w->vector;
    if (w->elements_at)
        flxi_free(w->mem, w->elements_at, n, sizeof *w->elements_at);
    if (w->columns)
        flxi_free(w->mem, w->columns, n, sizeof *w->columns);
    w->elements_at = NULL;
    w->columns = NULL;
}

/* Vectors that every lane has, in registers or in a loop; then those that some have. */
void flxi_gw_walk_vectors(flxi_gwriter *w, const flxi_row_frame *r, int phase)
{
    flxi_express e = flxi_gw_emitter(w);
    flxi_kindex at[FLXI_MOST_TIMES];
    uint32_t columns[FLXI_MOST_TIMES];
    int64_t vectors = w->group->space.extent / w->vector, full = vectors / w->lanes;
    for (uint32_t v = 0; v < w->num_vectors && !w->failed; v++)
        visit_vector(w, w->elements_at + (size_t)v * w->vector, w->columns + (size_t)v * w->vector, phase);
    if (!w->num_vectors && full > 0) {
        uint32_t b = flxi_kb_var(
            w->k, flxi_kb_loop(w->k, flxi_kb_fresh_name(w->k, "b"), flxi_gw_u32(w, 0), flxi_gw_u32(w, full)));
        place_vector(w, r, flxi_ku_add(&e, flxi_ku_mul(&e, b, w->lanes), r->lane), at, columns);
        visit_vector(w, at, columns, phase);
        flxi_kb_end(w->k);
    }
    if (vectors % w->lanes) {
        flxi_gw_open_guarded(w, r->lane, vectors % w->lanes);
        place_vector(w, r, flxi_ku_add(&e, r->lane, flxi_gw_u32(w, full * w->lanes)), at, columns);
        visit_vector(w, at, columns, phase);
        flxi_kb_end(w->k);
    }
}

/* The compiler does not know these values: it would keep what it computed from them in the phase before, and the
   registers of the row do not leave room for that. */
void flxi_gw_renew_folds(flxi_gwriter *w, int phase)
{
    for (uint32_t j = 0; j < w->group->num_nodes && w->num_vectors; j++) {
        uint32_t value = flxi_node_at(w->g, w->group->nodes[j])->first;
        flxi_kindex at = flxi_gw_index_for(w, value, LEVEL_ROW);
        flxi_kval x;
        if (!flxi_gw_is_fold(w, j) || w->phase[j] >= phase || flxi_type_at(w->g, value)->dtype != FLX_F32 ||
            !flxi_gw_recall(w, value, &at, &x))
            continue;
        x.re = flxi_kb_subgroup_shuffle(w->k, x.re, flxi_gw_u32(w, 0));
        x.re = flxi_kb_var(w->k, flxi_kb_let(w->k, flxi_gw_name_of(w, value), x.re));
        flxi_gw_remember(w, value, &at, x);
    }
}
