/* SPDX-License-Identifier: Apache-2.0 */
/* mpi_transport.c: messages over MPI, with any implementation of it. All calls are those that return at once, and are
   polled, so that a run can be stopped and no process waits for ever. */
#include "backend/collective/mpi_shim.h"
#include "backend/transport.h"
#include "base/host/stop.h"

#include <sched.h>
#include <time.h>

struct flxi_mesh_end {
    const flxi_allocator *mem;
    const flxi_mpi_calls *mpi;
    bool serves_threads;
};

enum { PIECE = 1 << 30 }; /* counts of MPI are int */

static flx_code open_mpi(flx_context *ctx, const flx_mesh_options *o, flxi_mesh_end **out, int64_t *rank, int64_t *size,
                         flx_error *err)
{
    const flxi_mpi_calls *mpi;
    int own = 0, n = 1, serves_threads = 0;
    (void)o;
    FLXI_TRY(flxi_mpi_load(ctx, &mpi, err));
    flxi_mesh_end *l = flxi_alloc(&ctx->mem, 1, sizeof *l);
    if (!l)
        return flxi_oom(err, "a mesh");
    int code = mpi->open(&own, &n, &serves_threads);
    if (code) {
        flxi_free(&ctx->mem, l, 1, sizeof *l);
        return flxi_fail_hint(err, FLX_E_DEVICE, "MPI starts once in a process", "MPI cannot be started: error %d",
                              code);
    }
    *l = (flxi_mesh_end){&ctx->mem, mpi, serves_threads != 0};
    *rank = own;
    *size = n;
    *out = l;
    return FLX_OK;
}

static bool serves_threads(const flxi_mesh_end *l)
{
    return l->serves_threads;
}

/* After a failure some processes may never come to the end: MPI is then left as it is. */
static void close_mpi(flxi_mesh_end *l, bool has_failed)
{
    if (!has_failed)
        l->mpi->close(10);
    flxi_free(l->mem, l, 1, sizeof *l);
}

static void abort_mpi(flxi_mesh_end *l, int status)
{
    l->mpi->end_all(status);
}

/* ---- Messages ---- */

typedef struct {
    flxi_mpi_message *wire; /* pieces of messages */
    char *done;             /* by piece */
    size_t *of;             /* by piece: its message */
    size_t n;
} pieces;

static size_t count_pieces(const flxi_message *m, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += m[i].nbytes / PIECE + 1;
    return count;
}

static bool make_pieces(pieces *p, flxi_arena *arena, const flxi_message *m, size_t n)
{
    size_t room = count_pieces(m, n);
    p->wire = flxi_new(arena, flxi_mpi_message, room);
    p->done = flxi_new(arena, char, room);
    p->of = flxi_new(arena, size_t, room);
    if (!p->wire || !p->done || !p->of || room > INT32_MAX)
        return false;
    for (size_t i = 0; i < n; i++)
        for (size_t at = 0; at < m[i].nbytes || at == 0; at += PIECE) {
            size_t left = m[i].nbytes - at;
            p->of[p->n] = i;
            p->wire[p->n++] = (flxi_mpi_message){.peer = (int)m[i].peer,
                                                 .tag = m[i].tag,
                                                 .is_sent = m[i].is_sent,
                                                 .nbytes = (int)(left < PIECE ? left : PIECE),
                                                 .data = (char *)m[i].data + at};
        }
    return true;
}

static size_t mark_done(const pieces *p, flxi_message *m, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        m[i].is_done = true;
    for (size_t k = 0; k < p->n; k++) {
        m[p->of[k]].is_done &= p->done[k];
        count += p->done[k] != 0;
    }
    return count;
}

/* Messages advance while they are polled: the processor is given away only when others need it, and slept on when
   nothing has arrived for a millisecond: a process that waits longer waits for one that computes. A thread that yields
   to one that computes would get its turn back at the end of a time slice only, so it sleeps then: it wakes up when it
   wants to, less often the longer the other processes take. */
static void rest(int64_t idle_ns, const atomic_bool *computes)
{
    bool is_wanted = computes && atomic_load(computes);
    int64_t least = 100000, most = is_wanted ? 1000000 : least, ns = idle_ns / 4;
    if (idle_ns < (is_wanted ? 1 : 1000000))
        sched_yield();
    else
        nanosleep(&(struct timespec){.tv_nsec = ns < least ? least : ns > most ? most : ns}, NULL);
}

static flx_code wait_for_pieces(flxi_mesh_end *l, void *started, pieces *p, flxi_message *m, size_t n,
                                int64_t deadline_ns, const atomic_bool *computes, flx_error *err)
{
    int64_t last = flxi_transport_clock();
    size_t before = 0;
    for (;;) {
        int state = l->mpi->poll(started, p->done);
        size_t count = mark_done(p, m, n);
        int64_t now = flxi_transport_clock();
        if (state > 0)
            return FLX_OK;
        if (state < 0)
            return flxi_fail(err, FLX_E_DEVICE, "MPI failed while messages were moving");
        if (flxi_stopped())
            return flxi_stop_check(err);
        if (now >= deadline_ns)
            return flxi_fail(err, FLX_E_TIMEOUT, "the processes of the mesh did not meet in time");
        last = count > before ? now : last;
        before = count;
        rest(now - last, computes);
    }
}

static flx_code transfer_mpi(flxi_mesh_end *l, flxi_message *m, size_t n, int64_t deadline_ns,
                             const atomic_bool *computes, flx_error *err)
{
    flxi_arena arena;
    pieces p = {.n = 0};
    flxi_arena_init(&arena, l->mem);
    flx_code code = FLX_OK;
    void *started = NULL;
    if (!make_pieces(&p, &arena, m, n))
        code = flxi_oom(err, "messages");
    else if (!(started = l->mpi->start((int)p.n, p.wire)))
        code = flxi_fail(err, FLX_E_DEVICE, "MPI does not accept a message");
    else
        code = wait_for_pieces(l, started, &p, m, n, deadline_ns, computes, err);
    if (started)
        l->mpi->end(started, code == FLX_OK);
    flxi_arena_free(&arena);
    return code;
}

const flxi_transport flxi_mpi_transport = {.name = "mpi",
                                           .open = open_mpi,
                                           .serves_threads = serves_threads,
                                           .transfer = transfer_mpi,
                                           .close = close_mpi,
                                           .end_all = abort_mpi};
