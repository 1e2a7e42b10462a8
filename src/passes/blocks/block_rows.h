/* SPDX-License-Identifier: Apache-2.0 */
/* block_rows.h: what the files of the pass share. See block_rows.c for what it does. */
#ifndef FLXI_BLOCK_ROWS_H
#define FLXI_BLOCK_ROWS_H

#include "passes/pass.h"

/* What is worth it; all depends on shapes alone. */
typedef struct {
    /* A product whose result takes at least this many bytes, is at least that many times as large as its operands, and
       sums over at most that many terms: otherwise writing the result is little beside computing it. */
    double least_result, least_growth;
    int64_t most_terms;
    /* What the products of one block read and write should stay in the second cache of a core; more than `most` does
       not pay, and what takes less than `least` as a whole stays as it is. */
    double wanted_block, most_block, least_whole;
    /* Blocks that read the same matrices have at least this many rows: packing must pay. What takes less than that
       many bytes is not a matrix. */
    int64_t least_rows;
    double least_shared;
    /* Where a mask excludes columns of whole blocks, the rows are divided into parts instead, each with the columns
       that it needs, in steps of `part_columns`: at most `most_parts` of about `part_rows` rows. */
    int64_t part_rows, part_columns, most_parts;
} flxi_block_limits;

extern const flxi_block_limits flxi_usual_blocks;

/* flxi_pass_block_rows() with other limits, for tests. */
flx_code flxi_block_rows(const flx_graph *in, const flxi_block_limits *limits, flx_graph **out, flxi_remap *remap,
                         flx_error *err);

/* Rows and columns of a set: [row, row + rows) by [column, column + columns). */
typedef struct {
    int64_t row, rows, column, columns;
} flxi_block_part;

/* Nodes that one loop computes, and how. */
typedef struct {
    const flx_graph *g;
    const flxi_block_limits *limits;
    uint32_t *nodes; /* ascending */
    uint32_t num_nodes;
    uint32_t *results; /* values that are needed outside of the loop */
    uint32_t num_results;
    uint32_t *position; /* by node: in `nodes`, + 1; 0: it is not one of them. Shared by all sets. */
    bool *is_large;     /* by value: one of those that should not be in memory as a whole; likewise */
    bool *is_generated; /* by node: its elements follow from far fewer ones, such as a mask of positions; likewise */
    int *axis;          /* by value: the axis that is cut; -1: none. Likewise. */
    int64_t extent;     /* positions along the cut axis; the axis of a value may have a multiple of it */
    int64_t rows;       /* positions of one block */
    int *column;        /* by value: the axis of columns, if the set is divided into parts; -1: none. Likewise. */
    int64_t columns;    /* positions along that axis, likewise */
    flxi_block_part *parts;
    uint32_t num_parts; /* 0: blocks of equal size, in a loop */
    flxi_arena *arena;
    flx_error *err;
} flxi_block_set;

/* ---- Ops (block_ops.c) ---- */

/* Whether the pass knows how the op treats axes, and can make it for other extents. */
bool flxi_block_knows(const flx_graph *g, const flxi_node *n);
bool flxi_is_contraction(const flxi_node *n);
/* The axis of the result along which the node treats positions of an operand's axis independently; -1: there is none.
   The positions are the first of `extent` equal parts of the axis, the second, and so on. */
int flxi_block_push(const flx_graph *g, const flxi_node *n, uint32_t operand, int axis, int64_t extent);
/* The operand's axis that becomes this axis of the result; -1: all positions of the result see the same elements of the
   operand. False: neither. */
bool flxi_block_pull(const flx_graph *g, const flxi_node *n, uint32_t operand, int axis, int64_t extent, int *out);
/* Whether the node sums over this axis of the operand, so that its result is the sum of those of all blocks; *other
   receives the axis that the other operand of a contraction sums over at the same time. */
bool flxi_block_sums(const flx_graph *g, const flxi_node *n, uint32_t operand, int axis, int *other);

/* ---- Axes (block_axes.c) ---- */

/* Chooses the axis to cut and the rows of a block; false: there is none, or it does not pay. Nodes of which no block
   depends leave the set. */
bool flxi_block_choose(flxi_block_set *s, uint32_t seed);
/* The axis of the operand that is cut, where this node reads it. */
int flxi_block_operand_axis(const flxi_block_set *s, const flxi_node *n, uint32_t operand);
/* Whether the result is a sum over all blocks. */
bool flxi_block_is_sum(const flxi_block_set *s, const flxi_node *n);

/* From one axis of one value the axes of all others in the set, as `axis` of the set; false: some node mixes positions
   along it. */
bool flxi_block_follow(flxi_block_set *s, uint32_t seed, int axis, int64_t extent);

/* ---- Masks (block_ranges.c, block_parts.c) ---- */

/* Bounds of all elements of a value over a box; 0 and 1 are false and true. */
typedef struct {
    double lo, hi;
} flxi_block_range;

flxi_block_range flxi_block_range_of(const flxi_block_set *s, uint32_t value, const flxi_block_part *box);

/* Divides the rows into parts where a mask makes many columns of each part worthless: nothing that the set returns
   depends on them. Otherwise the set has no parts. */
flx_code flxi_block_find_parts(flxi_block_set *s, uint32_t seed);

/* ---- Loops (block_loop.c) ---- */

typedef struct flxi_block_loop flxi_block_loop;

/* The loop of a set, with its bodies; NULL in *out where one of the ops cannot be made for the extents of a block. */
flx_code flxi_block_loop_new(const flxi_block_set *s, flxi_block_loop **out);
void flxi_block_loop_free(flxi_block_loop *l);
/* Whether all values that the loop reads have been copied. */
bool flxi_block_loop_is_ready(const flxi_block_loop *l, const flxi_copy *c);
/* Appends it, in place of the results of the set. */
flx_code flxi_block_loop_append(flxi_block_loop *l, flxi_copy *c);

#endif
