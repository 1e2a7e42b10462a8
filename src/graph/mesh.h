/* SPDX-License-Identifier: Apache-2.0 */
/* mesh.h: the mesh that a context is a process of, as the ops of src/ops/collective see it. How values travel is known
   to src/backend/collective alone. A context without a mesh runs alone: exchanges are then identities. */
#ifndef FLXI_MESH_H
#define FLXI_MESH_H

#include "graph/op/eval.h"

typedef enum {
    COLLECT_ALL_REDUCE,
    COLLECT_ALL_GATHER,
    COLLECT_REDUCE_SCATTER,
    COLLECT_ALL_TO_ALL,
    COLLECT_BROADCAST,
    COLLECT_PERMUTE,
    COLLECT_SEND,
    COLLECT_RECV,
    COLLECT_BARRIER,
    COLLECT_AGREE /* all have the same `value` */
} flxi_collect_kind;

#define FLXI_REDUCTIONS "sum max min mean prod and or"
typedef enum { REDUCE_SUM, REDUCE_MAX, REDUCE_MIN, REDUCE_MEAN, REDUCE_PROD, REDUCE_AND, REDUCE_OR } flxi_reduce_kind;

/* out[i] = reduction of parts[0][i], parts[1][i] … in this order: f16 and bf16 in f32, other floats in double
   (reduce_parts.c). */
void flxi_reduce_parts(int32_t dtype, flxi_reduce_kind reduction, const void *const *parts, size_t n, size_t count,
                       void *out);

/* One exchange. Operand and result are dense; `from` and `to` are how they are cut around the axis of the op. */
typedef struct {
    flxi_collect_kind kind;
    const char *op;        /* for messages */
    const char *axis_name; /* axes of the mesh with commas between them; "": all processes */
    int64_t size;          /* processes that the graph was made for; 0: any number */
    flxi_reduce_kind reduction;
    int64_t process;                  /* root, receiver or sender */
    const int64_t *sources, *targets; /* of a permutation */
    size_t num_pairs;
    int32_t dtype;
    flxi_split from, to;
    const void *in;
    void *out;
    size_t elements; /* of the operand; of a receipt, of the result */
    uint64_t value;
} flxi_collective;

typedef struct flxi_mesh flxi_mesh;
struct flxi_mesh {
    flx_code (*collect)(flxi_mesh *m, const flxi_collective *c, flx_error *err);
    /* Exchanges that may run while the caller computes, in the order in which they are started: operand, result and the
       stop of the caller must stay until finish() has returned for this one, or for a later one. `exchange` is its
       number; 0: it has ended already. */
    flx_code (*start)(flxi_mesh *m, const flxi_collective *c, uint64_t *exchange, flx_error *err);
    /* Waits for it and for those before it; fails if one of them has failed. */
    flx_code (*finish)(flxi_mesh *m, uint64_t exchange, flx_error *err);
    /* Index of this process along the axes, and how many there are. */
    flx_code (*locate)(const flxi_mesh *m, const char *axis_name, int64_t *index, int64_t *size, flx_error *err);
    void (*discard)(flxi_mesh *m);
};

/* ---- Axes ---- */

enum { FLXI_MESH_AXES = 8, FLXI_MESH_NAME = 32, FLXI_MESH_RANKS = 1 << 20 };

/* The first axis is the slowest: of data=2,model=3 rank 4 is process 1 of data and 1 of model. */
typedef struct {
    char name[FLXI_MESH_NAME];
    int64_t size, stride; /* stride: ranks between neighbours */
} flxi_mesh_axis;

/* Reads "data=4,model=2"; `size` is the number of processes, or 0 if it is not known: the product is. NULL: one axis
   "data". */
flx_code flxi_mesh_read_axes(const char *text, int64_t *size, flxi_mesh_axis *axes, int *num_axes, flx_error *err);

/* Some axes of a mesh: the processes along them are a group. */
typedef struct {
    const flxi_mesh_axis *at[FLXI_MESH_AXES];
    int n;
} flxi_mesh_axes;

/* The axes of a list of names; "" is all of them. */
flx_code flxi_mesh_find_axes(const flxi_mesh_axis *axes, int num_axes, const char *names, flxi_mesh_axes *out,
                             flx_error *err);
/* How many processes are along the axes, and which of them a rank is. */
int64_t flxi_mesh_count(const flxi_mesh_axes *along);
int64_t flxi_mesh_index(const flxi_mesh_axes *along, int64_t rank);
/* The rank of process k of the group that `rank` is in. */
int64_t flxi_mesh_peer(const flxi_mesh_axes *along, int64_t rank, int64_t k);

/* Whether a group of n processes can do it. */
flx_code flxi_collective_check(const flxi_collective *c, int64_t n, flx_error *err);

/* ---- The mesh of a context ---- */

/* The mesh of the context; NULL: it runs alone. */
flxi_mesh *flxi_mesh_of(flx_context *ctx);
/* Takes over `m`; the mesh before is discarded. NULL: it runs alone from now on. */
flx_code flxi_mesh_set(flx_context *ctx, flxi_mesh *m, flx_error *err);
/* The mesh of what this thread runs in the context, which is then not that of the context. Not taken over; one at a
   time. NULL: that of the context again. */
void flxi_mesh_enter(const flx_context *ctx, flxi_mesh *m);
/* The mesh that the thread has entered; NULL: none. */
flxi_mesh *flxi_mesh_entered(const flx_context *ctx);

#endif
