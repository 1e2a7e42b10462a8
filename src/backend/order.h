/* SPDX-License-Identifier: Apache-2.0 */
/* order.h: in which order the device `cpu` adds, by types and attributes alone, for code that computes the same bits in
   another way (src/standalone). The device's own loops are planned with these types too, so there is one statement of
   the order. */
#ifndef FLXI_ORDER_H
#define FLXI_ORDER_H

#include "backend/backend.h"

/* ---- Matrix products: matmul and dot_general ---- */

/* One index that walks several axes, the last one fastest. */
typedef struct {
    int rank;
    int64_t dims[FLX_MAX_RANK], steps[FLX_MAX_RANK]; /* steps in elements */
} flxi_walk;

typedef struct {
    flxi_walk line, depth;       /* rows of A or columns of B; the summed index */
    int64_t batch[FLX_MAX_RANK]; /* steps along the batch axes; 0: shared */
} flxi_order_side;

/* C[i, j] = Σ_k A[i, k] B[k, j]. Batch axes are joined to the rows where that is possible, and sides may have changed
   places. */
typedef struct {
    int32_t dtype, result; /* of A and B; of C */
    int64_t m, n, k;
    flxi_order_side a, b;
    int64_t c_row, c_col;
    int batch_rank;
    int64_t batch_dims[FLX_MAX_RANK], c_batch[FLX_MAX_RANK];
    bool is_turned; /* sides have changed places: A is the second operand */
    bool is_dots;   /* one row against lines along the depth */
    int64_t piece;  /* the depth is cut into pieces of this length, whose sums are added at the end; 0: it is not */
} flxi_product_order;

/* The result must not be empty. The order does not depend on the machine. */
flxi_product_order flxi_order_of_product(const flxi_device_node *n);

/* How far one chain of additions goes. */
int64_t flxi_gemm_chunk(int32_t dtype, int64_t depth);

/* ---- Convolutions over one or two spatial axes by tiles (backend/cpu/conv/conv_direct.h) ---- */

typedef struct {
    int64_t out, taps, in;
    int64_t stride, dilation, low, spread; /* dilation and the others are positive, low has any sign */
} flxi_conv_axis;

/* Steps of a factor in elements: outer is the image of x and z, or the feature of w; inner the channel of x and w, or
   the feature of z. */
typedef struct {
    int64_t outer, inner, at[2], group;
} flxi_conv_view;

/* Σ z[n, f, o] w[f, c, t] x[n, c, p],  p = (o stride + t dilation - low) / spread. */
typedef struct {
    int32_t dtype;
    uint32_t isa;                               /* which loops of the device: a flxi_isa */
    int64_t images, channels, features, groups; /* channels and features of one group */
    flxi_conv_axis axis[2];
    flxi_conv_view x, w, z;
    const void *x_data, *w_data, *z_data; /* NULL when asking for the order or for scratch */
    int64_t x_first, w_first, z_first;    /* where these begin in their tensors, in elements */
} flxi_conv_problem;

/* A node that tiles compute. */
typedef struct {
    flxi_conv_problem p;
    bool to_weight; /* z and x are the operands; otherwise x and w are */
    bool is_turned; /* then: operand 0 is z, not x. Zeros for padding meet operand 0, not operand 1 */
    bool has_zeros; /* terms that the definition leaves out are computed with zeros */
} flxi_direct_conv;

/* NULL, or why tiles do not compute the convolution. */
const char *flxi_order_is_direct(const flxi_device_node *n);
/* A convolution that tiles compute. */
flxi_direct_conv flxi_order_of_conv(const flxi_device_node *n);
int32_t flxi_conv_sum_dtype(int32_t dtype); /* in which it is computed */

/* Gathering: along one axis of x that is spread, positions with one remainder meet the same taps, and those alone.
   Outputs first + q every and taps tap + j tap_every meet index (q stride + j dilation) sample + at of x. */
typedef struct {
    int64_t first, every, count;
    int64_t tap, tap_every, taps;
    int64_t stride, dilation, sample, at;
} flxi_conv_phase;
int64_t flxi_conv_phases(const flxi_conv_axis *x); /* how many there are */
flxi_conv_phase flxi_conv_phase_of(const flxi_conv_axis *x, int64_t first);
/* Gathering: channels of one chain. */
int64_t flxi_conv_chunk(const flxi_conv_problem *p);

/* Towards the weights: units are blocks of images, rows and columns; those of a part follow each other, and each is
   summed in visits of some rows of all its images. */
typedef struct {
    int64_t images, rows, columns; /* of a unit */
    int64_t visit;                 /* rows */
    int64_t units, part, parts;    /* all units; units of a part; parts */
} flxi_conv_cuts;
flxi_conv_cuts flxi_conv_cuts_of(const flxi_conv_problem *p);

static inline int64_t flxi_conv_parts(int64_t x, int64_t part)
{
    return (x + part - 1) / part;
}

/* The length of equal parts, none longer than `most`. */
static inline int64_t flxi_conv_even(int64_t x, int64_t most)
{
    int64_t parts = flxi_conv_parts(x, most > 1 ? most : 1);
    return parts > 1 ? flxi_conv_parts(x, parts) : x;
}

#endif
