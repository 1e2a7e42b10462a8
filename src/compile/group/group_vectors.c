/* SPDX-License-Identifier: Apache-2.0 */
/* group_vectors.c: rows whose lanes take vectors of neighbouring elements, for a device with a form of its own. As far
   as the operands of a row fit on the chip, lanes load theirs once, before the first phase, and hold them: in
   registers, and of long rows in memory of the workgroup, where each lane has room of its own. */
#include "compile/group/group_writer.h"

/* Registers for operands that a lane may use, by lanes of a row: a multiprocessor has 2^16 of them, and a workgroup of
   1024 has 64 for each lane. Registers that go to memory cost more than memory of the workgroup. */
static int64_t most_operand_words(const flxi_gwriter *w, bool has_room)
{
    return w->lanes > 512 ? has_room ? 36 : 52 : w->lanes > 128 ? 96 : 72;
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

/* ---- What is held ---- */

/* Numbers that memory of a workgroup takes as they are. */
static bool fits_slot(int32_t dtype)
{
    return dtype == FLX_F32 || dtype == FLX_F64 || dtype == FLX_F16 || dtype == FLX_BF16 || dtype == FLX_I32 ||
           dtype == FLX_I64;
}

/* Vectors for which there is memory of the workgroup, which the second kernel of a row declares after its values. */
static int64_t most_slots(const flxi_gwriter *w)
{
    int64_t bytes = 0;
    for (uint32_t h = 0; h < w->num_held; h++) {
        int32_t dtype = flxi_type_at(w->g, w->held[h].value)->dtype;
        bytes += (int64_t)flx_dtype_size((flx_dtype)dtype) * w->vector;
        if (!fits_slot(dtype))
            return 0;
    }
    return w->declared && bytes ? w->f->form->held_bytes / bytes : 0;
}

static void declare_slots(flxi_gwriter *w, int64_t vectors)
{
    for (uint32_t h = 0; h < w->num_held; h++) {
        flxi_held_operand *o = &w->held[h];
        o->element = (uint8_t)flxi_kernel_storage(flxi_type_at(w->g, o->value)->dtype);
        const flxi_kbuffer b = {.name = flxi_kb_fresh_name(w->k, "held"),
                                .access = FLX_KERNEL_WORKGROUP,
                                .element = o->element,
                                .count = (uint64_t)vectors * w->vector};
        o->buffer = flxi_kb_buffer(w->k, &b);
    }
}

/* As many vectors as fit into registers, the others in memory of the workgroup, with those that only some lanes have.
   Unless most of the row is held, nothing is. */
static void choose_held(flxi_gwriter *w, int64_t words)
{
    int64_t vectors = w->group->space.extent / w->vector, each = vectors / w->lanes, rest = vectors % w->lanes;
    int64_t room = most_slots(w), in_registers = most_operand_words(w, room > 0) / (w->vector * words);
    in_registers = each < in_registers ? each : in_registers;
    w->holds_rest = rest > 0 && rest <= room;
    int64_t slots = (room - (w->holds_rest ? rest : 0)) / w->lanes;
    slots = each - in_registers < slots ? each - in_registers : slots;
    if (in_registers + slots < each) {
        w->num_held = 0;
        w->holds_rest = false;
        return;
    }
    w->num_vectors = (uint32_t)in_registers;
    w->num_slots = (uint32_t)slots;
    if (slots || w->holds_rest)
        declare_slots(w, slots * w->lanes + (w->holds_rest ? rest : 0));
}

void flxi_gw_choose_vectors(flxi_gwriter *w)
{
    operands o = {.widest = 1};
    flxi_gw_visit_operands(w, add_operand, &o);
    w->vector = w->num_vectors = w->num_slots = w->num_held = 0;
    w->holds_rest = false;
    if (!w->f->form || !w->lanes || w->is_across || w->group->column_rows || !o.words)
        return;
    int64_t extent = w->group->space.extent;
    uint32_t most = w->f->form->vector / (uint32_t)o.widest;
    if (!most)
        return;
    w->vector = most > FLXI_MOST_TIMES ? FLXI_MOST_TIMES : most;
    while (w->vector > 1 && (extent % w->vector || extent < (int64_t)w->lanes * w->vector))
        w->vector /= 2;
    for (uint32_t i = 0; i < o.count && o.count <= FLXI_MOST_HELD; i++)
        w->held[w->num_held++] = (flxi_held_operand){.value = o.seen[i]};
    choose_held(w, o.words);
}

/* ---- Vectors ---- */

static uint32_t bound(flxi_gwriter *w, const char *name, uint32_t x)
{
    return flxi_kb_var(w->k, flxi_kb_let(w->k, flxi_kb_fresh_name(w->k, name), x));
}

/* Where the elements of a vector of the row are, which begins at this column and position. */
static void place_elements(flxi_gwriter *w, const flxi_row_frame *r, uint32_t column, uint32_t flat, int64_t after,
                           flxi_kindex *at, uint32_t *columns)
{
    flxi_express e = flxi_gw_emitter(w);
    for (uint32_t j = 0; j < w->vector; j++) {
        uint32_t distance = flxi_gw_u32(w, after + j);
        flxi_gw_set_element(w, r, flxi_ku_add(&e, column, distance));
        at[j] = w->element;
        at[j].flat = flxi_ku_add(&e, flat, distance);
        columns[j] = w->column;
    }
}

/* Those of the vector number `number` of the row. */
static void place_vector(flxi_gwriter *w, const flxi_row_frame *r, uint32_t number, flxi_kindex *at, uint32_t *columns)
{
    flxi_express e = flxi_gw_emitter(w);
    uint32_t first = bound(w, "k", flxi_ku_mul(&e, number, w->vector));
    flxi_gw_set_element(w, r, first);
    place_elements(w, r, first, bound(w, "i", w->element.flat), 0, at, columns);
}

/* Those of the lane's own vector number `number`: a fixed distance after its first one. */
static void place_own(flxi_gwriter *w, const flxi_row_frame *r, int64_t number, flxi_kindex *at, uint32_t *columns)
{
    place_elements(w, r, w->first_column, w->first_flat, number * w->lanes * w->vector, at, columns);
}

static void place_first(flxi_gwriter *w, const flxi_row_frame *r)
{
    flxi_express e = flxi_gw_emitter(w);
    w->first_column = bound(w, "k", flxi_ku_mul(&e, r->lane, w->vector));
    flxi_gw_set_element(w, r, w->first_column);
    w->first_flat = bound(w, "i", w->element.flat);
}

/* The number of the first element of the slot in memory of the workgroup. */
static uint32_t offset_of(flxi_gwriter *w, const flxi_row_frame *r, uint32_t slot)
{
    flxi_express e = flxi_gw_emitter(w);
    return flxi_ku_add(&e, flxi_ku_mul(&e, r->lane, w->vector), flxi_gw_u32(w, (int64_t)slot * w->lanes * w->vector));
}

/* What the slot holds in this phase, at the elements of its vector. */
static void read_slot(flxi_gwriter *w, uint32_t offset, const flxi_kindex *at, int phase)
{
    flxi_express e = flxi_gw_emitter(w);
    for (uint32_t h = 0; h < w->num_held; h++) {
        const flxi_held_operand *o = &w->held[h];
        uint32_t value = flxi_gw_held_value(w, o->value, phase);
        if (value && flxi_kernel_storage(flxi_type_at(w->g, value)->dtype) != o->element)
            value = o->value; /* what is kept in registers has no place here */
        for (uint32_t j = 0; j < w->vector && value; j++) {
            w->element = at[j];
            flxi_kindex index = flxi_gw_index_for(w, value, LEVEL_ELEMENT);
            uint32_t x = flxi_kb_load(w->k, o->buffer, flxi_ku_add(&e, offset, flxi_gw_u32(w, j)));
            flxi_gw_remember(w, value, &index, flxi_kreal(flxi_gw_bind(w, value, x)));
        }
    }
}

static void write_slot(flxi_gwriter *w, const flxi_held_operand *o, uint32_t offset, const uint32_t *x)
{
    flxi_express e = flxi_gw_emitter(w);
    for (uint32_t j = 0; j < w->vector; j++)
        flxi_kb_store(w->k, o->buffer, flxi_ku_add(&e, offset, flxi_gw_u32(w, j)), x[j]);
}

/* An element of the current vector, as variables. */
static void find_elements(flxi_gwriter *w, uint32_t value, const flxi_kindex *at, uint32_t *x)
{
    for (uint32_t j = 0; j < w->vector; j++) {
        w->element = at[j];
        x[j] = flxi_gw_value_here(w, value, LEVEL_ELEMENT).re;
    }
}

/* Which vector is visited: in registers; in a slot, which begins at this offset; or in memory. */
typedef struct {
    const flxi_kindex *at;
    const uint32_t *columns;
    bool is_register, is_slot;
    uint32_t offset;
} visited;

/* Elements that later phases want take the place of operands. */
static void keep_elements(flxi_gwriter *w, const visited *v, int phase, size_t outside)
{
    uint32_t x[FLXI_MOST_KEPT][FLXI_MOST_TIMES];
    for (uint32_t i = 0; i < w->num_kept && (v->is_register || v->is_slot); i++)
        if (w->kept[i].first == phase)
            find_elements(w, w->kept[i].value, v->at, x[i]);
    w->known.n = outside;
    for (uint32_t i = 0; i < w->num_kept; i++) {
        const flxi_kept_element *e = &w->kept[i];
        for (uint32_t j = 0; v->is_register && e->first == phase && j < w->vector; j++) {
            w->element = v->at[j];
            flxi_kindex index = flxi_gw_index_for(w, e->value, LEVEL_ELEMENT);
            flxi_gw_remember(w, e->value, &index, flxi_kreal(x[i][j]));
        }
        int32_t dtype = flxi_type_at(w->g, e->value)->dtype;
        for (uint32_t h = 0; v->is_slot && e->first == phase && h < w->num_held; h++)
            if (w->held[h].value == e->at && w->held[h].element == flxi_kernel_storage(dtype))
                write_slot(w, &w->held[h], v->offset, x[i]);
    }
}

/* What the elements of a vector are for. All are read before the first is folded, and all results of a node are stored
   together, so that the compiler makes vectors of them. */
static void visit_vector(flxi_gwriter *w, const visited *v, int phase)
{
    size_t outside = w->known.n;
    if (v->is_slot)
        read_slot(w, v->offset, v->at, phase);
    for (uint32_t j = 0; j < w->vector && !v->is_slot; j++) {
        w->element = v->at[j];
        flxi_gw_load_operands(w);
    }
    for (uint32_t j = 0; j < w->vector; j++) {
        w->element = v->at[j];
        w->column = v->columns[j];
        flxi_gw_step_folds(w);
        flxi_gw_compute_stored(w, LEVEL_ELEMENT, phase);
    }
    for (uint32_t n = 0; n < w->group->num_nodes; n++)
        for (uint32_t j = 0; j < w->vector; j++) {
            w->element = v->at[j];
            flxi_gw_visit_stored_node(w, n, LEVEL_ELEMENT, phase, true);
        }
    keep_elements(w, v, phase, outside);
}

/* Number `slot` of the lane's vectors in memory of the workgroup; the last number is that of the rest. */
static void find_slot(flxi_gwriter *w, const flxi_row_frame *r, uint32_t slot, flxi_kindex *at, uint32_t *columns)
{
    flxi_express e = flxi_gw_emitter(w);
    uint32_t number = w->num_vectors + slot;
    if (slot < w->num_slots)
        place_own(w, r, number, at, columns);
    else /* in terms of the lane, of which the guard says that it has one */
        place_vector(w, r, flxi_ku_add(&e, r->lane, flxi_gw_u32(w, (int64_t)number * w->lanes)), at, columns);
}

/* Loads the operands that a slot holds; and puts them there. */
static void load_slot(flxi_gwriter *w, const flxi_kindex *at, uint32_t (*x)[FLXI_MOST_TIMES])
{
    size_t outside = w->known.n;
    for (uint32_t h = 0; h < w->num_held; h++)
        find_elements(w, w->held[h].value, at, x[h]);
    w->known.n = outside;
}

static void fill_slot(flxi_gwriter *w, const flxi_row_frame *r, uint32_t slot, uint32_t (*x)[FLXI_MOST_TIMES])
{
    for (uint32_t h = 0; h < w->num_held; h++)
        write_slot(w, &w->held[h], offset_of(w, r, slot), x[h]);
}

static void load_registers(flxi_gwriter *w, const flxi_row_frame *r)
{
    size_t n = (size_t)w->num_vectors * w->vector;
    w->elements_at = n ? flxi_alloc(w->mem, n, sizeof *w->elements_at) : NULL;
    w->columns = n ? flxi_alloc(w->mem, n, sizeof *w->columns) : NULL;
    w->failed |= n && (!w->elements_at || !w->columns);
    for (uint32_t v = 0; v < w->num_vectors && !w->failed; v++)
        place_own(w, r, v, w->elements_at + (size_t)v * w->vector, w->columns + (size_t)v * w->vector);
    for (size_t i = 0; i < n && !w->failed; i++) {
        w->element = w->elements_at[i];
        flxi_gw_load_operands(w);
    }
}

/* Whether the value is known before the group, be it through views. */
static bool is_known_before(const flxi_gwriter *w, uint32_t value)
{
    uint32_t i = flxi_value_at(w->g, value)->node;
    const flxi_node *n = flxi_node_at(w->g, i);
    for (uint32_t k = 0; w->f->kind[i] == NODE_VIEW && k < n->nin; k++)
        if (!is_known_before(w, n->in[k]))
            return false;
    return w->f->group_of[i] != w->number;
}

/* Operands that the row has one element of, so that they are there when something is read at a place they tell. */
static void load_row_operands(flxi_gwriter *w)
{
    for (uint32_t j = 0; j < w->group->num_nodes; j++) {
        const flxi_node *n = flxi_node_at(w->g, w->group->nodes[j]);
        for (uint32_t k = 0; k < n->nin; k++) {
            const flx_type *t = flxi_type_at(w->g, n->in[k]);
            if (t->rank == w->row_anchor.rank && is_known_before(w, n->in[k]) &&
                memcmp(t->dims, w->row_anchor.dims, (size_t)t->rank * sizeof *t->dims) == 0)
                flxi_gw_value_here(w, n->in[k], LEVEL_ROW);
        }
    }
}

static void load_rest(flxi_gwriter *w, const flxi_row_frame *r)
{
    flxi_kindex at[FLXI_MOST_TIMES];
    uint32_t loaded[FLXI_MOST_HELD][FLXI_MOST_TIMES], columns[FLXI_MOST_TIMES];
    flxi_gw_open_guarded(w, r->lane, w->group->space.extent / w->vector % w->lanes);
    find_slot(w, r, w->num_slots, at, columns);
    load_slot(w, at, loaded);
    fill_slot(w, r, w->num_slots, loaded);
    flxi_kb_end(w->k);
}

/* All loads that every lane does come before the first store, so that they are on their way at the same time. */
void flxi_gw_load_row(flxi_gwriter *w, const flxi_row_frame *r)
{
    uint32_t columns[FLXI_MOST_TIMES];
    size_t row = sizeof(uint32_t[FLXI_MOST_TIMES]), n = (size_t)w->num_slots * FLXI_MOST_HELD;
    uint32_t(*x)[FLXI_MOST_TIMES] = n ? flxi_alloc(w->mem, n, row) : NULL;
    flxi_kindex at[FLXI_MOST_TIMES];
    w->failed |= n && !x;
    if (!w->num_vectors && !w->num_slots)
        return;
    load_row_operands(w);
    place_first(w, r);
    for (uint32_t s = 0; s < w->num_slots && x; s++) {
        find_slot(w, r, s, at, columns);
        load_slot(w, at, x + (size_t)s * FLXI_MOST_HELD);
    }
    load_registers(w, r);
    if (w->holds_rest)
        load_rest(w, r);
    for (uint32_t s = 0; s < w->num_slots && x; s++)
        fill_slot(w, r, s, x + (size_t)s * FLXI_MOST_HELD);
    if (x)
        flxi_free(w->mem, x, n, row);
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

static void visit_slot(flxi_gwriter *w, const flxi_row_frame *r, uint32_t slot, int phase)
{
    flxi_kindex at[FLXI_MOST_TIMES];
    uint32_t columns[FLXI_MOST_TIMES];
    find_slot(w, r, slot, at, columns);
    const visited v = {.at = at, .columns = columns, .is_slot = true, .offset = offset_of(w, r, slot)};
    visit_vector(w, &v, phase);
}

/* Vector `number` of the row, whose operands are loaded again. */
static void visit_in_memory(flxi_gwriter *w, const flxi_row_frame *r, uint32_t number, int phase)
{
    flxi_kindex at[FLXI_MOST_TIMES];
    uint32_t columns[FLXI_MOST_TIMES];
    place_vector(w, r, number, at, columns);
    const visited v = {.at = at, .columns = columns};
    visit_vector(w, &v, phase);
}

/* Vectors that every lane has, which are held or read in a loop; then those that some have. */
void flxi_gw_walk_vectors(flxi_gwriter *w, const flxi_row_frame *r, int phase)
{
    flxi_express e = flxi_gw_emitter(w);
    int64_t vectors = w->group->space.extent / w->vector, full = vectors / w->lanes;
    for (uint32_t v = 0; v < w->num_vectors && !w->failed; v++) {
        size_t first = (size_t)v * w->vector;
        const visited at = {.at = w->elements_at + first, .columns = w->columns + first, .is_register = true};
        visit_vector(w, &at, phase);
    }
    for (uint32_t s = 0; s < w->num_slots; s++)
        visit_slot(w, r, s, phase);
    if (!w->num_vectors && !w->num_slots && full > 0) {
        uint32_t b = flxi_kb_var(
            w->k, flxi_kb_loop(w->k, flxi_kb_fresh_name(w->k, "b"), flxi_gw_u32(w, 0), flxi_gw_u32(w, full)));
        visit_in_memory(w, r, flxi_ku_add(&e, flxi_ku_mul(&e, b, w->lanes), r->lane), phase);
        flxi_kb_end(w->k);
    }
    if (vectors % w->lanes) {
        flxi_gw_open_guarded(w, r->lane, vectors % w->lanes);
        if (w->holds_rest)
            visit_slot(w, r, w->num_slots, phase);
        else
            visit_in_memory(w, r, flxi_ku_add(&e, r->lane, flxi_gw_u32(w, full * w->lanes)), phase);
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
