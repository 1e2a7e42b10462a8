/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_transport.c: messages between cards by NCCL. Sums are still made in the order of the processes, by the code that
   all transports share, so that bits are those of a mesh without NCCL.

   Processes that MPI has started, or threads of one process, talk by that transport about who they are and what they
   are about to do, and NCCL moves the values alone: a process that hangs is named by the others, as without NCCL. Where
   the environment says who they are ($FLX_MESH_RANK, $FLX_MESH_SIZE, $FLX_MESH_ID_FILE) they need no MPI, and NCCL
   moves everything.

   A message is copied to the card, sent, received and copied back in pieces. All calls are those that return at once,
   and are polled, so that no process waits for ever; after a failure the communicator is aborted, which is the only way
   to end what NCCL has begun. */
#include "backend/cuda/cuda_card.h"
#include "backend/transport.h"
#include "base/host/stop.h"
#include "graph/mesh.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { PIECE = 8 << 20, ALIGNMENT = 256 };

struct flxi_mesh_end {
    const flxi_allocator *mem;
    const flxi_transport *talk; /* carries all but values; NULL: nothing does */
    flxi_mesh_end *link;        /* that transport's own */
    flxi_card *card;
    const flxi_nccl *nccl;
    flxi_nccl_comm comm; /* NULL once it is aborted */
    flxi_cu_stream stream;
    flxi_cu_address memory; /* for pieces */
    size_t nbytes;
};

/* ---- Waiting ---- */

/* After this no message is sent any more. */
static void break_off(flxi_mesh_end *l)
{
    if (l->comm)
        l->nccl->CommAbort(l->comm);
    l->comm = NULL;
}

static flx_code nccl_failed(const char *what, int result, flx_error *err)
{
    return flxi_fail_hint(err, FLX_E_DEVICE, "NCCL_DEBUG=INFO makes NCCL say why", "NCCL: %s failed: error %d", what,
                          result);
}

/* OK: there is time left. */
static flx_code wait_more(int64_t begin, int64_t deadline_ns, flx_error *err)
{
    int64_t now = flxi_transport_clock();
    if (flxi_stopped())
        return flxi_stop_check(err);
    if (now >= deadline_ns)
        return flxi_fail(err, FLX_E_TIMEOUT, "the processes of the mesh did not meet in time");
    if (now - begin < 1000000)
        sched_yield();
    else
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
    return FLX_OK;
}

/* What a call of NCCL has begun is set up. */
static flx_code wait_for_comm(flxi_mesh_end *l, const char *what, int result, int64_t deadline_ns, flx_error *err)
{
    int64_t begin = flxi_transport_clock();
    for (;;) {
        if (result == 0 || result == FLXI_NCCL_IN_PROGRESS) {
            int code = l->nccl->CommGetAsyncError(l->comm, &result);
            result = code ? code : result;
        }
        if (result == 0)
            return FLX_OK;
        if (result != FLXI_NCCL_IN_PROGRESS)
            return nccl_failed(what, result, err);
        FLXI_TRY(wait_more(begin, deadline_ns, err));
    }
}

static flx_code wait_for_stream(flxi_mesh_end *l, int64_t deadline_ns, flx_error *err)
{
    const flxi_cuda *cu = l->card->cu;
    int64_t begin = flxi_transport_clock();
    for (;;) {
        int state = 0, code = l->nccl->CommGetAsyncError(l->comm, &state);
        flxi_cu_result result = cu->StreamQuery(l->stream);
        if (result == FLXI_CU_SUCCESS)
            return FLX_OK;
        if (result != FLXI_CU_NOT_READY)
            return flxi_cuda_fail(cu, "cuStreamQuery", result, err);
        if (code || (state && state != FLXI_NCCL_IN_PROGRESS))
            return nccl_failed("a message", code ? code : state, err);
        FLXI_TRY(wait_more(begin, deadline_ns, err));
    }
}

/* ---- Messages ---- */

static size_t piece_of(const flxi_message *m, size_t at)
{
    size_t left = m->nbytes > at ? m->nbytes - at : 0;
    return left < PIECE ? left : PIECE;
}

static size_t rounded(size_t n)
{
    return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static flx_code make_room(flxi_mesh_end *l, size_t n, flx_error *err)
{
    const flxi_cuda *cu = l->card->cu;
    if (n <= l->nbytes)
        return FLX_OK;
    if (l->memory)
        cu->MemFree(l->memory);
    l->memory = 0;
    l->nbytes = 0;
    FLXI_CU_TRY(cu, err, MemAlloc, &l->memory, n);
    l->nbytes = n;
    return FLX_OK;
}

/* Between the host and the memory for pieces. */
static flx_code copy_pieces(flxi_mesh_end *l, const flxi_message *m, size_t n, size_t at, bool is_sent, flx_error *err)
{
    flxi_cu_address to = l->memory;
    for (size_t i = 0; i < n; i++) {
        size_t nbytes = piece_of(&m[i], at);
        char *data = (char *)m[i].data + at;
        if (nbytes && m[i].is_sent && is_sent)
            FLXI_CU_TRY(l->card->cu, err, MemcpyHtoDAsync, to, data, nbytes, l->stream);
        else if (nbytes && !m[i].is_sent && !is_sent)
            FLXI_CU_TRY(l->card->cu, err, MemcpyDtoHAsync, data, to, nbytes, l->stream);
        to += rounded(nbytes);
    }
    return FLX_OK;
}

/* One group, so that messages in both directions move at the same time. */
static int post_pieces(flxi_mesh_end *l, const flxi_message *m, size_t n, size_t at)
{
    flxi_cu_address address = l->memory;
    int result = l->nccl->GroupStart();
    for (size_t i = 0; i < n && result == 0; i++) {
        size_t nbytes = piece_of(&m[i], at);
        void *data = (void *)(uintptr_t)address; /* NOLINT(performance-no-int-to-ptr) */
        if (nbytes)
            result = m[i].is_sent ? l->nccl->Send(data, nbytes, FLXI_NCCL_U8, (int)m[i].peer, l->comm, l->stream)
                                  : l->nccl->Recv(data, nbytes, FLXI_NCCL_U8, (int)m[i].peer, l->comm, l->stream);
        result = result == FLXI_NCCL_IN_PROGRESS ? 0 : result;
        address += rounded(nbytes);
    }
    int ended = l->nccl->GroupEnd();
    return result ? result : ended;
}

static flx_code move_pieces(flxi_mesh_end *l, const flxi_message *m, size_t n, size_t at, int64_t deadline_ns,
                            flx_error *err)
{
    size_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += rounded(piece_of(&m[i], at));
    FLXI_TRY(make_room(l, sum, err));
    FLXI_TRY(copy_pieces(l, m, n, at, true, err));
    FLXI_TRY(wait_for_comm(l, "a group of messages", post_pieces(l, m, n, at), deadline_ns, err));
    FLXI_TRY(wait_for_stream(l, deadline_ns, err));
    FLXI_TRY(copy_pieces(l, m, n, at, false, err));
    FLXI_CU_TRY(l->card->cu, err, StreamSynchronize, l->stream);
    return FLX_OK;
}

static bool is_talk(const flxi_message *m, size_t n)
{
    return n > 0 && (m[0].tag == TAG_HEADER || m[0].tag == TAG_VERDICT);
}

static flx_code transfer_nccl(flxi_mesh_end *l, flxi_message *m, size_t n, int64_t deadline_ns,
                              const atomic_bool *computes, flx_error *err)
{
    if (l->talk && is_talk(m, n))
        return l->talk->transfer(l->link, m, n, deadline_ns, computes, err);
    size_t longest = 0;
    for (size_t i = 0; i < n; i++)
        longest = m[i].nbytes > longest ? m[i].nbytes : longest;
    if (!l->comm)
        return flxi_fail(err, FLX_E_DEVICE, "NCCL was aborted after an earlier failure");
    flx_code code = FLX_OK;
    int result = l->card->cu->CtxSetCurrent(l->card->context);
    if (result)
        code = flxi_cuda_fail(l->card->cu, "cuCtxSetCurrent", result, err);
    for (size_t at = 0; at < longest && code == FLX_OK; at += PIECE)
        code = move_pieces(l, m, n, at, deadline_ns, err);
    for (size_t i = 0; i < n; i++)
        m[i].is_done = code == FLX_OK;
    if (code != FLX_OK)
        break_off(l);
    return code;
}

/* ---- The name of the mesh, which all processes must know ---- */

static int64_t number_in(const char *own, const char *slurm)
{
    const char *text = getenv(own);
    char *end;
    text = text && *text ? text : getenv(slurm);
    long long n = text && *text ? strtoll(text, &end, 10) : -1;
    return n >= 0 && *end == 0 ? n : -1;
}

/* Rank 0 writes it; the name of the file is new for each start. */
static flx_code write_id(const char *path, const flxi_nccl_id *id, flx_error *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool is_written = fd >= 0 && write(fd, id, sizeof *id) == (ssize_t)sizeof *id;
    if (fd >= 0)
        close(fd);
    if (is_written)
        return FLX_OK;
    return flxi_fail_hint(err, FLX_E_IO, "it must be a new name in a folder that all processes see",
                          "$FLX_MESH_ID_FILE: %.100s cannot be written", path);
}

static flx_code read_id(const char *path, flxi_nccl_id *id, int64_t deadline_ns, flx_error *err)
{
    int64_t begin = flxi_transport_clock();
    for (;;) {
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        bool is_read = fd >= 0 && read(fd, id, sizeof *id) == (ssize_t)sizeof *id;
        if (fd >= 0)
            close(fd);
        if (is_read)
            return FLX_OK;
        FLXI_TRY(wait_more(begin, deadline_ns, err));
    }
}

/* Rank 0 tells all others. */
static flx_code tell_id(flxi_mesh_end *l, flxi_nccl_id *id, int64_t rank, int64_t size, int64_t deadline_ns,
                        flx_error *err)
{
    size_t n = rank == 0 ? (size_t)size - 1 : 1;
    flxi_message *m = size > 1 ? flxi_alloc(l->mem, n, sizeof *m) : NULL;
    if (size == 1)
        return FLX_OK;
    if (!m)
        return flxi_oom(err, "a mesh");
    for (size_t i = 0; i < n; i++)
        m[i] = (flxi_message){.peer = rank == 0 ? (int64_t)i + 1 : 0,
                              .tag = TAG_HEADER,
                              .is_sent = rank == 0,
                              .data = id,
                              .nbytes = sizeof *id};
    flx_code code = l->talk->transfer(l->link, m, n, deadline_ns, NULL, err);
    flxi_free(l->mem, m, n, sizeof *m);
    return code;
}

static flx_code find_id(flxi_mesh_end *l, flxi_nccl_id *id, int64_t rank, int64_t size, int64_t deadline_ns,
                        flx_error *err)
{
    const char *path = getenv("FLX_MESH_ID_FILE");
    int result = rank == 0 ? l->nccl->GetUniqueId(id) : 0;
    if (result)
        return nccl_failed("ncclGetUniqueId", result, err);
    if (l->talk)
        return tell_id(l, id, rank, size, deadline_ns, err);
    return rank == 0 ? write_id(path, id, err) : read_id(path, id, deadline_ns, err);
}

/* ---- Opening and closing ---- */

/* Who this process is: by the transport that it talks by, or by the environment. */
static flx_code find_rank(flx_context *ctx, flxi_mesh_end *l, const flx_mesh_options *o, int64_t *rank, int64_t *size,
                          flx_error *err)
{
    const char *file = getenv("FLX_MESH_ID_FILE");
    if (o->local || !file || !*file) {
        l->talk = o->local ? &flxi_local_transport : &flxi_mpi_transport;
        return l->talk->open(ctx, o, &l->link, rank, size, err);
    }
    *rank = number_in("FLX_MESH_RANK", "SLURM_PROCID");
    *size = number_in("FLX_MESH_SIZE", "SLURM_NTASKS");
    if (*rank >= 0 && *rank < *size && *size <= FLXI_MESH_RANKS)
        return FLX_OK;
    return flxi_fail_hint(err, FLX_E_USAGE, "for example FLX_MESH_RANK=0 FLX_MESH_SIZE=2",
                          "$FLX_MESH_ID_FILE is given, but $FLX_MESH_RANK and $FLX_MESH_SIZE are not a process of a "
                          "mesh");
}

static flx_code join(flxi_mesh_end *l, const flxi_nccl_id *id, int64_t rank, int64_t size, int64_t deadline_ns,
                     flx_error *err)
{
    flxi_nccl_config config = {.size = sizeof config,
                               .magic = (unsigned)FLXI_NCCL_MAGIC,
                               .version = FLXI_NCCL_CONFIG_VERSION,
                               .blocking = 0,
                               .cga_cluster_size = FLXI_NCCL_UNDEFINED,
                               .min_ctas = FLXI_NCCL_UNDEFINED,
                               .max_ctas = FLXI_NCCL_UNDEFINED,
                               .split_share = FLXI_NCCL_UNDEFINED};
    int result = l->nccl->CommInitRankConfig(&l->comm, (int)size, *id, (int)rank, &config);
    if (!l->comm)
        return nccl_failed("ncclCommInitRankConfig", result, err);
    return wait_for_comm(l, "joining", result, deadline_ns, err);
}

static flx_code open_all(flx_context *ctx, flxi_mesh_end *l, const flx_mesh_options *o, int64_t *rank, int64_t *size,
                         flx_error *err)
{
    flxi_nccl_id id;
    int64_t deadline = flxi_transport_clock() + (int64_t)(o->timeout * 1e9);
    FLXI_TRY(flxi_card_of(ctx, &l->card, err));
    if (!(l->nccl = flxi_cuda_nccl(err)))
        return FLX_E_DEVICE;
    FLXI_TRY(find_rank(ctx, l, o, rank, size, err));
    FLXI_CU_TRY(l->card->cu, err, StreamCreate, &l->stream, FLXI_CU_STREAM_NON_BLOCKING);
    FLXI_TRY(find_id(l, &id, *rank, *size, deadline, err));
    flx_code code = join(l, &id, *rank, *size, deadline, err);
    if (!l->talk && *rank == 0)
        unlink(getenv("FLX_MESH_ID_FILE"));
    return code;
}

/* A communicator that all others can leave too. */
static void leave(flxi_mesh_end *l)
{
    flx_error ignored = {0};
    int64_t deadline = flxi_transport_clock() + INT64_C(10000000000);
    if (wait_for_comm(l, "leaving", l->nccl->CommFinalize(l->comm), deadline, &ignored) != FLX_OK) {
        break_off(l);
        return;
    }
    l->nccl->CommDestroy(l->comm);
    l->comm = NULL;
}

static void close_nccl(flxi_mesh_end *l, bool has_failed)
{
    const flxi_cuda *cu = l->card ? l->card->cu : NULL;
    if (l->stream)
        cu->CtxSetCurrent(l->card->context);
    if (l->comm && has_failed)
        break_off(l);
    else if (l->comm)
        leave(l);
    if (l->memory)
        cu->MemFree(l->memory);
    if (l->stream)
        cu->StreamDestroy(l->stream);
    if (l->link)
        l->talk->close(l->link, has_failed);
    flxi_free(l->mem, l, 1, sizeof *l);
}

static flx_code open_nccl(flx_context *ctx, const flx_mesh_options *o, flxi_mesh_end **out, int64_t *rank,
                          int64_t *size, flx_error *err)
{
    flxi_mesh_end *l = flxi_alloc(&ctx->mem, 1, sizeof *l);
    if (!l)
        return flxi_oom(err, "a mesh");
    l->mem = &ctx->mem;
    flx_code code = open_all(ctx, l, o, rank, size, err);
    if (code == FLX_OK)
        *out = l;
    else
        close_nccl(l, true);
    return code;
}

static bool serves_threads(const flxi_mesh_end *l)
{
    return !l->talk || !l->talk->serves_threads || l->talk->serves_threads(l->link);
}

static void end_all(flxi_mesh_end *l, int status)
{
    if (l->talk && l->talk->end_all)
        l->talk->end_all(l->link, status);
}

const flxi_transport flxi_nccl_transport = {.name = "nccl",
                                            .open = open_nccl,
                                            .serves_threads = serves_threads,
                                            .transfer = transfer_nccl,
                                            .close = close_nccl,
                                            .end_all = end_all};
