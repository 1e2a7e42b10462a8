/* SPDX-License-Identifier: Apache-2.0 */
/* transport.h: what carries messages between the processes of a mesh. A transport moves bytes between two processes,
   in order; every exchange is made of such messages (collect.c), so that all transports give the same bits. */
#ifndef FLXI_TRANSPORT_H
#define FLXI_TRANSPORT_H

#include "base/context.h"
#include "base/error.h"

#include <fluxion/mesh.h>

enum { TAG_HEADER = 1, TAG_VERDICT, TAG_DATA, TAG_POINT };

typedef struct {
    int64_t peer;
    int tag;
    bool is_sent; /* to the peer; else received from it */
    void *data;   /* not changed if it is sent */
    size_t nbytes;
    bool is_done;
    bool is_gone; /* it will never arrive: the peer has left */
} flxi_message;

typedef struct flxi_mesh_end flxi_mesh_end; /* the transport's own: the end of one process */

/* A process that waits for all others of its group. */
typedef struct flxi_meeting {
    const int64_t *ranks; /* of the group: the same list in all of them */
    int64_t n;
    void *user;
    /* What the transport finds, in room for n: those that are there (NULL: one is not), and signs of all. */
    struct flxi_meeting **others;
    flxi_message *signs; /* peer, is_done: it is there; is_gone */
    /* Called by one process, while the others that are there wait: with OK by the last one to arrive; with TIMEOUT or
       DEVICE when some are missing at the deadline or have left. */
    void (*act)(struct flxi_meeting *own, flx_code code);
    bool is_busy, is_over; /* the transport's */
} flxi_meeting;

typedef struct {
    const char *name;
    /* o->timeout is given. */
    flx_code (*open)(flx_context *ctx, const flx_mesh_options *o, flxi_mesh_end **out, int64_t *rank, int64_t *size,
                     flx_error *err);
    /* Whether threads may take turns with transfer(); NULL: they may. */
    bool (*serves_threads)(const flxi_mesh_end *l);
    /* Moves all messages. computes: whether another thread of the process needs the processor now; NULL: none does.
       TIMEOUT at the deadline (CLOCK_MONOTONIC, ns), DEVICE if a peer is gone or the transport failed: is_done of those
       that are missing is false. After a failure no message is sent any more. */
    flx_code (*transfer)(flxi_mesh_end *l, flxi_message *m, size_t n, int64_t deadline_ns, const atomic_bool *computes,
                         flx_error *err);
    /* Returns when act() has returned, in whichever thread; fails if it is stopped before. NULL: processes cannot read
       each other's memory. */
    flx_code (*meet)(flxi_mesh_end *l, flxi_meeting *own, int64_t deadline_ns, flx_error *err);
    void (*close)(flxi_mesh_end *l, bool has_failed);
    void (*end_all)(flxi_mesh_end *l, int status); /* NULL: it cannot end others */
} flxi_transport;

extern const flxi_transport flxi_local_transport, flxi_mpi_transport, flxi_nccl_transport;

int64_t flxi_transport_clock(void); /* CLOCK_MONOTONIC, ns */

#endif
