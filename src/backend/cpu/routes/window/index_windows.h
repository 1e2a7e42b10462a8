/* SPDX-License-Identifier: Apache-2.0 */
/* index_windows.h: the geometry of routes that gather and scatter. gather, take_along, gather_nd, scatter_add and
   scatter_nd are one thing: for each start, read from indices, a window of x meets a window of another tensor, here
   called `moved`: the result of a gather, the updates of a scatter. Axes are reduced: those of extent 1 vanish, and
   neighbours that can be walked with one step become one.

   Starts come in blocks along the innermost index axis, as offsets in x, so that the loop over a block only moves
   elements. Where windows may stick out of x (oob=zero), each start comes alone with the part of its window that is
   inside. */
#ifndef FLXI_INDEX_WINDOWS_H
#define FLXI_INDEX_WINDOWS_H

#include "backend/cpu/routes/routes.h"
#include "graph/op/eval.h"

enum { FLXI_START_BLOCK = 256 };

typedef struct {
    int64_t extent;
    int64_t moved; /* distances between neighbours: in the moved tensor, … */
    int64_t index; /* … in indices, for an index axis, … */
    int64_t x;     /* … and in x: of an axis of the window, or a batching axis */
    int part;      /* the component of a start that moves this axis of the window, or -1 */
} flxi_window_axis;

typedef struct { /* a component of a start */
    int64_t axis, extent, window;
    int64_t x; /* distance between neighbours */
} flxi_start_part;

typedef struct {
    const flxi_route_node *n;
    const flx_type *x, *moved, *indices;
    bool is_nd;        /* gather_nd or scatter_nd: for messages */
    bool clips;        /* windows may stick out of x */
    bool moves_window; /* a start moves an axis of the window of more than one element */
    flxi_oob policy;
    flxi_window_axis index[FLX_MAX_RANK], window[FLX_MAX_RANK]; /* in order of the moved tensor */
    int num_index, num_window;
    flxi_start_part part[FLX_MAX_RANK];
    int num_parts;
    int64_t part_step; /* between the components of a start, in indices */
    int64_t first_index, first_moved, first_x;
} flxi_index_windows;

/* Of a node of one of the five ops; reads types and attributes only. */
flxi_index_windows flxi_index_windows_of(const flxi_route_node *n);

/* NULL, or why no loop over windows is needed: there is nothing to move. */
const char *flxi_index_windows_refusal(const flxi_route_node *n);

/* Fails as the definition does on the first start that is an error. Where all windows are inside of x, no walk has to
   drop, clamp or clip any: the policy is OOB_ERROR then. Where the run is stopped, starts are not checked, and no walk
   may follow. */
flx_code flxi_index_windows_check(flxi_index_windows *w);

int64_t flxi_index_windows_starts(const flxi_index_windows *w);   /* how many */
int64_t flxi_index_windows_elements(const flxi_index_windows *w); /* of one window */

/* Up to FLXI_START_BLOCK starts, or one with what is left of its window. */
typedef struct {
    int64_t n;
    const int64_t *x;          /* offsets of windows in x; negative: the window is dropped */
    int64_t moved, moved_step; /* offset of the first one in the moved tensor, and between them */
    const flxi_window_axis *window;
    int num_window;
} flxi_start_block;

/* Calls fn for the starts [begin, end) in order, until the run is stopped. */
void flxi_index_windows_walk(const flxi_index_windows *w, int64_t begin, int64_t end,
                             void (*fn)(const void *user, const flxi_start_block *b), const void *user);

/* Starts along the innermost index axis as they are in indices, for loops over single elements of x: where all are
   inside, of I32 or I64, with one component or two. */
typedef struct {
    const void *indices; /* the first component of the first start; others are `part_step` away */
    int64_t n, step;     /* between starts in indices */
    int64_t x, x_step;   /* what is added to the offsets of the starts in x */
    int64_t moved, moved_step;
} flxi_start_line;

static inline bool flxi_index_windows_has_lines(const flxi_index_windows *w)
{
    return w->policy == OOB_ERROR && w->num_window == 0 && (w->num_parts == 1 || w->num_parts == 2) &&
           (w->indices->dtype == FLX_I32 || w->indices->dtype == FLX_I64);
}

void flxi_index_windows_lines(const flxi_index_windows *w, int64_t begin, int64_t end,
                              void (*fn)(const void *user, const flxi_start_line *l), const void *user);

/* Positions [begin, end) of an axis alone: of the index axes first, then of the window. */
flxi_index_windows flxi_index_windows_part(const flxi_index_windows *w, int number, int64_t begin, int64_t end);
static inline const flxi_window_axis *flxi_index_windows_axis(const flxi_index_windows *w, int number)
{
    return number < w->num_index ? &w->index[number] : &w->window[number - w->num_index];
}

/* Whether the loop over a block should run along the last axis of the window, not over the starts: where that is dense,
   or at least closer together in the moved tensor, or where starts are very few. */
static inline bool flxi_block_has_rows(const flxi_start_block *b)
{
    if (b->num_window == 0)
        return false;
    const flxi_window_axis *last = &b->window[b->num_window - 1];
    return (last->x == 1 && last->moved == 1) || last->moved < b->moved_step || b->n < 4;
}

/* The next position; false after the last. */
static inline bool flxi_window_next(const flxi_window_axis *axes, int n, int64_t *at)
{
    for (int k = n; k-- > 0;) {
        if (++at[k] < axes[k].extent)
            return true;
        at[k] = 0;
    }
    return false;
}

#endif
