/* SPDX-License-Identifier: Apache-2.0 */
/* layout.h: the parts of the pass that stores channels last (channels_last.c): which values should be stored like that
   (layout_choice.c), and their nodes in the new graph (layout_nodes.c, layout_convs.c). */
#ifndef FLXI_LAYOUT_H
#define FLXI_LAYOUT_H

#include "graph/graph.h"
#include "passes/pass.h"

#include <fluxion/ops.h>

enum { FLXI_NO_CHANNELS = -1 };

/* ---- Axes ---- */

/* Where an axis is once `channel` is the last one, and the sizes of such a type. */
static inline int64_t flxi_layout_axis(int64_t axis, int channel, int rank)
{
    return axis < channel ? axis : axis == channel ? rank - 1 : axis - 1;
}

/* Whether the elements have the same order in memory with that axis last. */
bool flxi_layout_is_free(const flx_type *t, int channel);

/* ---- Nodes ---- */

/* How a node that computes the same wherever the channels are says which axes it means: lists with an entry for each
   axis, lists of axes, and a single axis. They are axes of the operand of a reduction, and of the result otherwise. A
   pool has channels before its spatial axes, always: after them they become one more spatial axis. */
typedef struct {
    flxi_opcode op;
    const char *lists[6], *axes, *axis;
    bool is_pool, is_reshape; /* a reshape must keep all axes longer than 1 */
} flxi_layout_row;

/* NULL: the op is another one. Pointwise ops have an empty row. */
const flxi_layout_row *flxi_layout_row_of(const flxi_node *n);

/* Whether the types differ in axes of extent 1 alone. */
bool flxi_layout_keeps_axes(const flx_type *x, const flx_type *y);

/* The axis of operand k that is axis `channel` of the result, and the other way round; FLXI_NO_CHANNELS: none. */
int flxi_layout_before(const flx_graph *g, const flxi_node *n, uint32_t k, int channel);
int flxi_layout_after(const flx_graph *g, const flxi_node *n, uint32_t k, int channel);

/* The channels of operand k, or of the result (k = nin), of a convolution; FLXI_NO_CHANNELS: another node, or the
   kernel. */
int flxi_layout_of_conv(const flxi_node *n, uint32_t k);

/* ---- The choice ---- */

typedef struct {
    int64_t least_channels; /* with fewer, a convolution gains nothing */
    double transpose_cost;  /* how many transpositions in registers one in memory costs */
} flxi_layout_limits;

typedef struct {
    const flx_graph *g;
    const flxi_layout_limits *limits;
    int8_t *channel;  /* by value: the axis of its channels, or FLXI_NO_CHANNELS */
    bool *follows;    /* by node: it computes the same wherever the channels are */
    uint32_t *parent; /* by value: a value that is stored alike, itself at the root of such a tree */
    uint32_t *seen;   /* by value: the last root whose balance it is in */
    double *balance;  /* by root: what convolutions gain less what transposes cost */
} flxi_layout_choice;

flx_code flxi_layout_choose(flxi_layout_choice *w, const flx_graph *g, const flxi_layout_limits *limits,
                            flx_error *err);
void flxi_layout_free(flxi_layout_choice *w);

/* Whether the value will be stored with its channels last, and is not now. */
bool flxi_layout_moves(const flxi_layout_choice *w, uint32_t value);

/* ---- The new graph ---- */

typedef struct {
    flxi_layout_choice choice;
    flxi_copy c;
    uint32_t *moved;  /* by value: with the channels last, if its nodes make it like that */
    uint32_t *turned; /* by value: transposed like that from what its node made */
} flxi_layout;

/* The value with axis `channel` last. Where that is negative the value has no such axis, and gets one of extent 1
   unless it is a scalar. */
flx_val flxi_layout_last(flxi_layout *w, uint32_t value, int channel);
/* Sees to it that the value is in the new graph as it was in the old one. */
void flxi_layout_first(flxi_layout *w, uint32_t value);

/* What a new node made is the result of the old one, with channels last if that moves. */
flx_code flxi_layout_keep(flxi_layout *w, const flxi_node *n, flx_val y);

/* The pass with other limits than usual. */
flx_code flxi_channels_last(const flx_graph *in, const flxi_layout_limits *limits, flx_graph **out, flxi_remap *remap,
                            flx_error *err);

/* Appends the node on operands with their channels last. */
flx_code flxi_layout_follow(flxi_layout *w, uint32_t node);
flx_code flxi_layout_conv(flxi_layout *w, uint32_t node);

#endif
