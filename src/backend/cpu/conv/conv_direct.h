/* SPDX-License-Identifier: Apache-2.0 */
/* conv_direct.h: convolutions over at most two spatial axes without a matrix of patches.

   All are the trilinear form  Σ z[n, f, o] w[f, c, t] x[n, c, p],  p = (o stride + t dilation - low) / spread  along
   each axis, where p must be whole and inside of x. z is gathered (conv_gather.c), w is summed over images and
   positions (conv_weight.c). A convolution towards its input is one that gathers too: x and z change places, spread
   and stride do, and taps are counted from the end. So is every form that other frameworks write.

   Both read parts of x from copies [image, row, column, channel] with zeros for padding (conv_strip.c) that fit the
   second cache, and let tiles of the matrix product sum over taps and channels, or over positions, in registers. */
#ifndef FLXI_CONV_DIRECT_H
#define FLXI_CONV_DIRECT_H

#include "backend/cpu/gemm/gemm_engine.h"
#include "backend/order.h"

size_t flxi_conv_gather_scratch(const flxi_conv_problem *p, int threads);
void flxi_conv_gather(const flxi_conv_problem *p, flxi_pool *pool, void *scratch);

size_t flxi_conv_weight_scratch(const flxi_conv_problem *p, int threads);
void flxi_conv_weight(const flxi_conv_problem *p, flxi_pool *pool, void *scratch);

/* ---- For the two ---- */

const flxi_gemm_kernels *flxi_conv_kernels(const flxi_conv_problem *p);

/* Whether groups are the lanes of vectors: each has one channel and one feature. */
bool flxi_conv_is_by_lane(const flxi_conv_problem *p);

/* Joins that many groups (the last ones may be fewer) to one, with a channel and a feature for each. */
void flxi_conv_join_lanes(flxi_conv_problem *p, int64_t lanes);

/* One axis of a strip: index u is at position first + u sample of the spread axis. */
typedef struct {
    int64_t count, first, sample, spread, in;
} flxi_strip_axis;

/* Some channels of some images of x between two rows and two columns. */
typedef struct {
    int64_t images, channels;
    flxi_strip_axis axis[2];
} flxi_strip;

/* Copies the strip to [image, row, column, channel]; `from` is x at the first image and channel, and index 0. */
void flxi_strip_fill(const flxi_conv_problem *p, const flxi_strip *s, const char *from, char *to);

/* Where a strip is: steps from one image, row, column to the next. */
typedef struct {
    const char *data;
    int64_t image, at[2];
} flxi_strip_view;

/* Whether tiles can read the strip where x has it. */
bool flxi_strip_is_there(const flxi_conv_problem *p, const flxi_strip *s);

/* Tasks that any thread may take, each with scratch of its thread. */
typedef struct flxi_conv_job flxi_conv_job;
struct flxi_conv_job {
    void (*task)(const void *plan, int64_t task, char *own);
    const void *plan;
    int64_t tasks;
    _Atomic int64_t next;
    char *own;
    size_t own_bytes; /* of each thread */
};
void flxi_conv_tasks(const void *plan, int64_t tasks, void (*task)(const void *plan, int64_t task, char *own),
                     flxi_pool *pool, char *own, size_t own_bytes);

/* The pool, or NULL where there is too little work for other threads: some microseconds. */
flxi_pool *flxi_conv_pool(const flxi_conv_problem *p, flxi_pool *pool);

/* Rows of the next tile: the last two are alike, since a thin one would wait for its few chains. */
static inline int flxi_conv_tile_rows(int64_t left)
{
    return (int)(left >= 12 || left <= 6 ? (left < 6 ? left : 6) : (left + 1) / 2);
}

static inline int64_t flxi_conv_round(int64_t x, int64_t to)
{
    return (x + to - 1) / to * to;
}

static inline int64_t flxi_conv_least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t flxi_conv_most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline size_t flxi_conv_aligned(int64_t elements, size_t size)
{
    return ((size_t)elements * size + 63) / 64 * 64;
}

#endif
