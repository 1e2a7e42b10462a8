/* SPDX-License-Identifier: Apache-2.0 */
/* gather_nd.h: the geometry that gather_nd and scatter_nd share, for their evaluators (gather_nd.c) and their rules
   (gather_nd_rules.c). gather_nd.c explains its parts. */
#ifndef FLXI_GATHER_ND_H
#define FLXI_GATHER_ND_H

#include "graph/op/attr_access.h"
#include "graph/op/site.h"

typedef enum {
    FLXI_SCATTER_ADD,
    FLXI_SCATTER_MUL,
    FLXI_SCATTER_MIN,
    FLXI_SCATTER_MAX,
    FLXI_SCATTER_SET
} flxi_scatter_word;
#define FLXI_SCATTER_WORDS "add mul min max set" /* the same order */

/* Attributes of both ops; each schema names those that its op has. */
typedef struct {
    flx_ints slice_sizes; /* gather_nd only: scatter_nd takes the window from its updates */
    flx_ints start_index_map, offset_axes, collapsed_axes;
    flx_ints operand_batching_axes, indices_batching_axes;
    int64_t index_vector_axis;
    flxi_combine combine;
    int64_t unique;
    int64_t oob;
} flxi_nd_attrs;

FLXI_ATTRS_VIEW_OF(flxi_gather_nd_attrs_of, flxi_nd_attrs, gather_nd)
FLXI_ATTRS_VIEW_OF(flxi_scatter_nd_attrs_of, flxi_nd_attrs, scatter_nd)

/* Of either; NULL for other ops. */
static inline const flxi_nd_attrs *flxi_nd_attrs_of(flxi_opcode op, const void *attrs)
{
    const flxi_nd_attrs *gathers = flxi_gather_nd_attrs_of(op, attrs);
    return gathers ? gathers : flxi_scatter_nd_attrs_of(op, attrs);
}

/* Whether updates are added: by the word `add`, or by a graph that is just an add, which rounds at each step. */
bool flxi_scatter_adds(const flxi_combine *c);

/* What each axis of the gathered shape runs over. Index axes and window axes are taken in ascending order. */
typedef struct {
    int rank;
    bool in_window[FLX_MAX_RANK];
    int axis[FLX_MAX_RANK]; /* of x when in_window, else of indices */
} flxi_nd_layout;

flxi_nd_layout flxi_nd_layout_of(const flxi_nd_attrs *a, int x_rank, int indices_rank);

/* A component of a start that is out of range: element `at` of indices, for an axis of x. */
typedef struct {
    int32_t dtype; /* of indices */
    const void *indices;
    int64_t at, axis, extent, window;
} flxi_nd_start;

flx_code flxi_nd_start_fail(const flxi_op *op, const char *label, const struct flxi_origin *origin,
                            const flxi_nd_start *s, flx_error *err);

/* ---- Rules ---- */

bool flxi_link_gather_nd(const flxi_use *u, flxi_link *l);
bool flxi_link_scatter_nd(const flxi_use *u, flxi_link *l);

void flxi_vjp_gather_nd(flxi_site *s, const flx_val *dy, flx_val *dx);
void flxi_batch_gather_nd(flxi_site *s, flx_val *by);
void flxi_vjp_scatter_nd(flxi_site *s, const flx_val *dy, flx_val *dx);
void flxi_jvp_scatter_nd(flxi_site *s, const flx_val *tx, flx_val *ty);
void flxi_batch_scatter_nd(flxi_site *s, flx_val *by);

#endif
