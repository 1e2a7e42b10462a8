/* SPDX-License-Identifier: Apache-2.0 */
/* window.h: shared by the files of the window family: attributes, and helpers for derivative rules of windows. */
#ifndef FLXI_WINDOW_H
#define FLXI_WINDOW_H

#include "graph/op/site.h"
#include "ops/signal/sliding.h"

/* ---- Attributes of reduce_window and select_and_scatter ---- */

typedef struct { /* the first member of both; one entry per axis */
    flx_ints window, strides, pad_low, pad_high;
} flxi_window_common;

typedef struct {
    flxi_window_common common;
    flx_ints base_dilation, window_dilation;
    flxi_combine combine;
} flxi_reduce_window_attrs;

typedef struct {
    flxi_window_common common;
    flxi_combine select, combine;
} flxi_select_and_scatter_attrs;

enum { FLXI_WINDOW_ADD, FLXI_WINDOW_MAX, FLXI_WINDOW_MIN, FLXI_WINDOW_MUL };
#define FLXI_WINDOW_COMBINES "add max min mul"
enum { FLXI_SELECT_GE, FLXI_SELECT_LE, FLXI_SELECT_GT, FLXI_SELECT_LT };
#define FLXI_WINDOW_SELECTS "ge le gt lt"

/* The word for a combination: the given one, or that of a graph with a single op, which differs only in rounding at
   each step. −1 for other graphs. */
int64_t flxi_window_word(const flxi_combine *c);

/* How the window moves along axis k, of that extent; not dilated. */
flxi_slide flxi_window_slide(const flxi_window_common *a, int k, flx_dim extent);
/* The number of windows; 0 when the window does not fit. */
flx_dim flxi_window_count(flx_context *ctx, const flxi_slide *m);

/* ---- Parts of rules; m has one slide for each axis of x ---- */

/* reduce_window with a named combine. */
flx_val flxi_window_fold(flxi_site *s, flx_val x, const char *combine, double init, const flxi_slide *m);
/* The transpose of sums over windows ("add" from 0), to a tensor of type x: each element is the sum of the elements of
   v whose windows contain it. */
flx_val flxi_window_sum_back(flxi_site *s, flx_val v, const flxi_slide *m, const flx_type *x);

/* The windows themselves, [counts…, taps…]; padding holds the scalar `padding`. An axis along which windows have one
   tap gets no axis of taps. *n receives how many there are, and `taps`, which has room for FLX_MAX_RANK, their axes. */
flx_val flxi_unfold_windows(flxi_site *s, flx_val x, flx_val padding, const flxi_slide *m, int64_t *taps, size_t *n);

/* x spread, padded and cropped as the slides say. */
flx_val flxi_pad_windows(flxi_site *s, flx_val x, flx_val padding, const flxi_slide *m);

/* ---- Wide windows (window_blocks.c) ---- */

enum {
    FLXI_FEW_TAPS = 64,       /* as kernels write out, and what copying each window costs at most */
    FLXI_FEW_COMPARED = 16,   /* where positions are asked for, copies cost more */
    FLXI_FEW_TO_ROUTES = 256, /* that have loops over taps */
};

/* Whether windows have more taps than that, and extents are numbers where there are windows. */
bool flxi_window_is_wide(const flxi_slide *m, int rank, int64_t few);
/* Whether elements belong to several windows each, on average; extents are numbers. */
bool flxi_windows_overlap(flx_context *ctx, const flxi_slide *m, int rank);
/* The decomposition of reduce_window by a word. */
flx_val flxi_window_fold_wide(flxi_site *s, flx_val x, flx_val init, int64_t word, const flxi_slide *m);
/* The elements of `at`, integers in the shape of x, where each window has its first extremum, or its first NaN; -1
   where that is padding. */
flx_val flxi_window_winner(flxi_site *s, flx_val x, flx_val padding, flx_val at, const flxi_slide *m, bool largest);

/* ---- Wide windows that a graph folds (window_taps.c) ---- */

/* The decomposition of reduce_window where extents are numbers and there are windows. */
void flxi_window_fold_taps(flxi_site *s, const flx_graph *combine, const flxi_slide *m, flx_val *y);

/* ---- Rules ---- */

void flxi_vjp_reduce_window(flxi_site *s, const flx_val *dy, flx_val *dx);
void flxi_jvp_reduce_window(flxi_site *s, const flx_val *tx, flx_val *ty);
void flxi_batch_reduce_window(flxi_site *s, flx_val *by);
void flxi_decompose_reduce_window(flxi_site *s, flx_val *y);

void flxi_vjp_select_and_scatter(flxi_site *s, const flx_val *dy, flx_val *dx);
void flxi_jvp_select_and_scatter(flxi_site *s, const flx_val *tx, flx_val *ty);
void flxi_batch_select_and_scatter(flxi_site *s, flx_val *by);
void flxi_decompose_select_and_scatter(flxi_site *s, flx_val *y);

#endif
