/* SPDX-License-Identifier: Apache-2.0 */
/* member.h: a context as a process of a mesh: its coordinates, its transport, and what it tells others about itself. */
#ifndef FLXI_MEMBER_H
#define FLXI_MEMBER_H

#include "backend/transport.h"
#include "graph/mesh.h"

typedef struct flxi_background flxi_background;

typedef struct {
    flxi_mesh mesh; /* first */
    flx_context *ctx;
    const flxi_transport *transport;
    flxi_mesh_end *link;
    int64_t rank, size;
    flxi_mesh_axis axes[FLXI_MESH_AXES];
    int num_axes;
    double timeout;
    int64_t step;
    uint64_t exchanges; /* so far */
    flx_mesh_traffic sent;
    flx_error failure; /* of the exchange that failed, if one has */
    bool has_failed;
    bool meets;                  /* before an exchange (meeting.c) */
    bool overlaps;               /* exchanges may run while the caller computes … */
    const atomic_bool *computes; /* … and one does: whether the caller computes now; NULL: none does */
    flxi_background *background; /* the thread that runs them; NULL: none has been started */
} flxi_member;

/* The processes along some axes that this one exchanges with, in the order of their coordinates. */
typedef struct {
    int64_t *ranks;
    int64_t n, index; /* index: of this process */
} flxi_process_group;

flx_code flxi_member_group(const flxi_member *m, const char *axis_name, flxi_process_group *out, flx_error *err);
void flxi_member_group_free(const flxi_member *m, flxi_process_group *g);
flx_code flxi_member_locate(const flxi_mesh *mesh, const char *axis_name, int64_t *index, int64_t *size,
                            flx_error *err);

/* Succeeds if all processes of the group are about to do this; else all of them fail with the same message
   (agreement.c). */
flx_code flxi_member_agree(flxi_member *m, const flxi_process_group *g, const flxi_collective *c, flx_error *err);
/* The same at a meeting; is_made: the exchange has been made there too. */
flx_code flxi_member_meet(flxi_member *m, const flxi_process_group *g, const flxi_collective *c, bool *is_made,
                          flx_error *err);
/* Messages between two processes: each carries what it is. */
flx_code flxi_member_send(flxi_member *m, int64_t peer, const flxi_collective *c, flx_error *err);
flx_code flxi_member_receive(flxi_member *m, int64_t peer, const flxi_collective *c, flx_error *err);
/* Moves messages within the time limit; names the process that is missing. */
flx_code flxi_member_transfer(flxi_member *m, flxi_message *messages, size_t n, double seconds, flx_error *err);

/* Makes the exchange of all n processes of a group, which may all be read and written here, if it is small; else
   is_made is false (meeting.c). */
flx_code flxi_collect_together(const flxi_allocator *mem, const flxi_collective *const *all, int64_t n, bool *is_made,
                               flx_error *err);

/* Copies piece k of [outer, pieces * n, inner] from it, or to it. */
void flxi_copy_piece(const flxi_split *whole, int64_t pieces, size_t bytes, int64_t k, unsigned char *piece,
                     unsigned char *of_whole, bool is_cut);

flx_code flxi_member_collect(flxi_mesh *mesh, const flxi_collective *c, flx_error *err);
/* The exchange itself, by the one thread that exchanges at the moment. */
flx_code flxi_member_exchange(flxi_member *m, const flxi_collective *c, flx_error *err);

/* ---- Exchanges in the background (background.c) ---- */

flx_code flxi_member_start(flxi_mesh *mesh, const flxi_collective *c, uint64_t *exchange, flx_error *err);
flx_code flxi_member_finish(flxi_mesh *mesh, uint64_t exchange, flx_error *err);
/* Waits for all; NULL is fine. */
flx_code flxi_background_wait(flxi_background *b, flx_error *err);
void flxi_background_free(flxi_background *b); /* likewise */

#endif
