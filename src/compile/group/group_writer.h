/* SPDX-License-Identifier: Apache-2.0 */
/* group_writer.h: what the parts of group_kernel.c share: the state of the kernel that is written, and the calls
   between them. group_elements.c writes elements, group_map.c kernels without folds; group_rows.c writes rows, with the
   folds of group_folds.c, the elements that group_kept.c keeps, and the vectors of group_vectors.c. */
#ifndef FLXI_GROUP_WRITER_H
#define FLXI_GROUP_WRITER_H

#include "compile/express_node.h"
#include "compile/group_kernel.h"

enum {
    FLXI_MAX_LANES = 16, /* of a row, for vectors of a CPU */
    FLXI_ACROSS = 32,    /* neighbouring rows in neighbouring invocations: the lanes of a row are this far apart */
    FLXI_MOST_KEPT = 4,
    FLXI_MOST_TIMES = 8, /* elements of a vector */
    FLXI_MOST_HELD = 4,  /* operands of an element that are held during all phases */
};

typedef struct {
    uint32_t value;
    flxi_kindex at;
    flxi_kval x;
} flxi_known_element;

enum { FLXI_SUM_PART = 64, FLXI_MOST_LEVELS = 2 };

typedef struct {
    uint32_t re, im; /* variables; im 0: none */
} flxi_accumulator;

/* A long sum has several: steps go to the first, what has been added FLXI_SUM_PART times is added to the next. */
typedef struct {
    uint32_t node;
    flxi_accumulator acc[1 + FLXI_MOST_LEVELS];
} flxi_running_fold;

/* An element that several phases want: the first stores it where the result `at` will be, the others load it. Where
   operands are held, it takes the place of the operand `at`. */
typedef struct {
    uint32_t value, at;
    int first, last;
} flxi_kept_element;

/* An operand of the elements of a row that lanes hold: in registers, and in this memory of the workgroup, if any. */
typedef struct {
    uint32_t value, buffer;
    uint8_t element; /* of the buffer */
} flxi_held_operand;

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
    flx_type anchor, row_anchor;        /* the shapes that the indices below are of */
    flxi_kindex element, row;           /* the current ones */
    uint32_t part, row_of_part;         /* of the rows that are folded by columns: expressions */
    uint32_t column;                    /* of the element in its row */
    FLXI_VEC(flxi_known_element) known; /* values at indices; those of inner scopes last */
    FLXI_VEC(uint32_t) values;          /* of buffers */
    FLXI_VEC(bool) in_place;            /* likewise */
    FLXI_VEC(flxi_running_fold) folds;
    uint32_t levels; /* further accumulators of those that add */
    uint8_t *phase;  /* by position in the group's list */
    flxi_kept_element kept[FLXI_MOST_KEPT];
    uint32_t num_kept;
    /* Rows of a device with a form of its own: lanes have vectors of neighbouring elements. */
    uint32_t vector;                   /* elements of one; 0: lanes take single elements */
    uint32_t num_vectors;              /* of each lane, whose operands are in registers during all phases */
    uint32_t num_slots;                /* further ones, whose operands are in memory of the workgroup … */
    bool holds_rest;                   /* … as are those of the vectors that only some lanes have */
    uint32_t first_column, first_flat; /* of the lane's first vector: variables */
    flxi_held_operand held[FLXI_MOST_HELD];
    uint32_t num_held;
    flxi_kindex *elements_at; /* of the elements in registers … */
    uint32_t *columns;        /* … and their columns */
    bool failed;              /* memory is exhausted */
    bool is_lost;             /* a fold was wanted at another row than the current one: grouping must not allow that */
} flxi_gwriter;

/* ---- Elements (group_elements.c) ---- */

/* Emitting without a node. */
static inline flxi_express flxi_gw_emitter(flxi_gwriter *w)
{
    return (flxi_express){.k = w->k};
}

static inline uint32_t flxi_gw_u32(flxi_gwriter *w, int64_t value)
{
    return flxi_kb_u32(w->k, (uint32_t)value);
}

/* After the op, not after the label: equal work in different groups must be the same kernel. */
const char *flxi_gw_name_of(flxi_gwriter *w, uint32_t value);

/* The buffer of a value, declared when it is first asked for. */
uint32_t flxi_gw_buffer_of(flxi_gwriter *w, uint32_t value, flx_kernel_access access);

/* The value at this index is known until the scope ends. */
void flxi_gw_remember(flxi_gwriter *w, uint32_t value, const flxi_kindex *at, flxi_kval x);
/* An expression as a variable, unless it is one or a literal. */
uint32_t flxi_gw_bind(flxi_gwriter *w, uint32_t value, uint32_t x);

/* What is known of it; false: nothing. */
bool flxi_gw_recall(const flxi_gwriter *w, uint32_t value, const flxi_kindex *at, flxi_kval *x);

/* Whether a value is in memory and has the shape of the elements. */
bool flxi_gw_is_operand_here(const flxi_gwriter *w, uint32_t value);
/* Those that the group's nodes read, also through views that compute. */
void flxi_gw_visit_operands(flxi_gwriter *w, void (*visit)(flxi_gwriter *w, uint32_t value, void *user), void *user);
/* Loads them at the current element. */
void flxi_gw_load_operands(flxi_gwriter *w);

/* The current index of a value of the group, and its element there. */
flxi_kindex flxi_gw_index_for(flxi_gwriter *w, uint32_t value, flxi_level level);
flxi_kval flxi_gw_value_here(flxi_gwriter *w, uint32_t value, flxi_level level);

/* Computes, and if it `writes` stores, the results of the group's node j if they are of this level and phase (-1: any);
   and those of all nodes. Storing computes all before the first is written: a result may take the memory of another's
   operand. */
void flxi_gw_visit_stored_node(flxi_gwriter *w, uint32_t j, flxi_level level, int phase, bool writes);
void flxi_gw_compute_stored(flxi_gwriter *w, flxi_level level, int phase);
void flxi_gw_store_all(flxi_gwriter *w, flxi_level level, int phase);

/* The axes [from, to) of the anchor from a position among them. */
void flxi_gw_unfold(flxi_gwriter *w, const flx_type *t, int from, int to, uint32_t position, flxi_kindex *at);

/* Opens a block that runs only where index < count. */
void flxi_gw_open_guarded(flxi_gwriter *w, uint32_t index, int64_t count);
uint32_t flxi_gw_bound_id(flxi_gwriter *w, const char *name, flx_kernel_id id, uint32_t axis);

static inline uint32_t flxi_gw_blocks(int64_t count, uint32_t width)
{
    return (uint32_t)((count + width - 1) / width);
}

/* ---- Kernels without folds (group_map.c) ---- */

/* The shape with the most axes among those stored: others follow from it. */
const flx_type *flxi_gw_find_anchor(const flxi_gwriter *w);
/* The axis that the invocations of a line run along: the last one of more than one element. -1: they run along all. */
int flxi_gw_line_axis(const flxi_gwriter *w);
void flxi_gw_write_map(flxi_gwriter *w);

/* ---- Folds (group_folds.c) ---- */

/* Whether the group's node j folds rows, or columns. */
static inline bool flxi_gw_is_fold(const flxi_gwriter *w, uint32_t j)
{
    uint32_t i = w->group->nodes[j];
    return w->f->kind[i] == NODE_FOLDED && w->f->level[i] == LEVEL_ROW;
}

static inline bool flxi_gw_is_column_fold(const flxi_gwriter *w, uint32_t j)
{
    return w->f->level[w->group->nodes[j]] == LEVEL_COLUMN;
}

/* Finds the phase of every node; the last one. */
uint8_t flxi_gw_find_phases(flxi_gwriter *w);
/* Of the folds of a phase: their initial values, one more element, what they have in parts after step k, and what they
   have in the end. */
void flxi_gw_start_folds(flxi_gwriter *w, int phase);
void flxi_gw_step_folds(flxi_gwriter *w);
void flxi_gw_gather_parts(flxi_gwriter *w, uint32_t k);
void flxi_gw_end_folds(flxi_gwriter *w, uint32_t lane);
/* Adds the current element to what its column has so far. */
void flxi_gw_fold_columns(flxi_gwriter *w, int phase);
/* Lanes of a row that exchange values with each other; the rest goes through memory of the workgroup. */
uint32_t flxi_gw_subgroup_lanes(const flxi_gwriter *w);

/* ---- Elements that are kept from phase to phase (group_kept.c) ---- */

/* Finds them; rows that are walked by one invocation have none. */
void flxi_gw_find_kept(flxi_gwriter *w, int last_phase);
/* What a place for the operand holds in a phase: it, or what was kept there by an earlier one; 0: nothing wanted. */
uint32_t flxi_gw_held_value(const flxi_gwriter *w, uint32_t operand, int phase);
void flxi_gw_load_kept(flxi_gwriter *w, int phase);
void flxi_gw_store_kept(flxi_gwriter *w, int phase);

/* ---- Rows (group_rows.c) ---- */

typedef struct {
    int from, to; /* the folded axes of the anchor */
    uint32_t outer, inner, lane;
} flxi_row_frame;

/* The current element is the k-th of its row. */
void flxi_gw_set_element(flxi_gwriter *w, const flxi_row_frame *r, uint32_t k);

/* Steps of the folds of this phase for some elements of the row at once, where no step of them rounds. */
enum { FLXI_FREE_STEPS = 4, FLXI_FREE_FOLDS = 4 };
bool flxi_gw_steps_are_free(const flxi_gwriter *w);
void flxi_gw_step_folds_together(flxi_gwriter *w, const flxi_row_frame *r, const uint32_t *columns);
void flxi_gw_write_lanes(flxi_gwriter *w);
void flxi_gw_write_across(flxi_gwriter *w);
void flxi_gw_write_serial(flxi_gwriter *w);

/* ---- Vectors of a row (group_vectors.c) ---- */

/* Whether lanes have vectors, and whether operands stay on the chip: sets `vector`, `num_vectors` … */
void flxi_gw_choose_vectors(flxi_gwriter *w);
/* Operands of the vectors that are held, before the first phase. */
void flxi_gw_load_row(flxi_gwriter *w, const flxi_row_frame *r);
/* Results of folds that an earlier phase knew already, as new values. */
void flxi_gw_renew_folds(flxi_gwriter *w, int phase);
void flxi_gw_walk_vectors(flxi_gwriter *w, const flxi_row_frame *r, int phase);
void flxi_gw_free_row(flxi_gwriter *w);

#endif
