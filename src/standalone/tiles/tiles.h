/* SPDX-License-Identifier: Apache-2.0 */
/* tiles.h: the inner loops of products and convolutions as functions of a C file with vectors. A tile is a small part
   of the result whose sums stay in registers while it walks down the depth. Files share them: each is written once for
   its number of rows and vectors. */
#ifndef FLXI_TILES_H
#define FLXI_TILES_H

#include "backend/order.h"
#include "standalone/parts/parts.h"

/* What a target can hold: a tile has at most that many rows, and columns of that many vectors. */
typedef struct {
    int lanes;         /* of a vector */
    int rows, vectors; /* of a tile */
    int wide;          /* vectors of a tile of one row: with fewer the additions would wait for each other */
} flxi_sa_shape;

flxi_sa_shape flxi_sa_shape_of(const flxi_sa_file *f, int32_t dtype);

/* ---- Products: where operands are ---- */

/* Where index `i`, an expression, of a walk is. */
const char *flxi_sa_walk_at(flxi_sa_writer *w, const flxi_walk *x, const char *i);
/* The number of matrices, loops over the axes of the batch, which are one loop where threads share it, and an address
   for the current matrix. */
int64_t flxi_sa_batch_of(const flxi_product_order *g);
void flxi_sa_open_batch(flxi_sa_writer *w, const flxi_product_order *g, bool is_cut);
void flxi_sa_close_batch(flxi_sa_writer *w, const flxi_product_order *g, bool is_cut);
const char *flxi_sa_batch_at(flxi_sa_writer *w, const flxi_product_order *g, const char *base, const int64_t *steps);

/* ---- Tiles ---- */

/* NAME(a, a_row, a_col, b, b_row, c, c_row, depth, add): c = Σ a b, or added to what c holds. */
const char *flxi_sa_tile(flxi_sa_writer *w, int32_t dtype, int rows, int vectors);

/* NAME(a, x, taps, num_taps, channels, plane, c, c_row, add): for each tap and channel a number of each row of a, which
   follow each other, times neighbours of x. */
const char *flxi_sa_tap_tile(flxi_sa_writer *w, int32_t dtype, int rows, int vectors);

/* NAME(x, x_row, z, walk, c, c_row, add): rows of x are anywhere; the depth are lines of images. `walk` points to a
   struct of the type that flxi_sa_walk_type() names, with the members images, lines, depth, x_image, x_line, x_step,
   z_image, z_line and z_step. */
const char *flxi_sa_line_tile(flxi_sa_writer *w, int32_t dtype, int rows, int vectors);
const char *flxi_sa_walk_type(flxi_sa_writer *w);

/* NAME(x, step, y, pitch): y[d * pitch + i] = x[i * step + d], for a square of as many rows as a vector has lanes. */
const char *flxi_sa_turn(flxi_sa_writer *w, int32_t dtype);

/* NAME(x, count): whether none of them is infinite or NaN. */
const char *flxi_sa_finite(flxi_sa_writer *w, int32_t dtype);

/* NAME(a, b, depth): a dot product of neighbours, by 64 chains of f32 or 32 of f64 that are folded in halves. */
const char *flxi_sa_dot(flxi_sa_writer *w, int32_t dtype);

#endif
