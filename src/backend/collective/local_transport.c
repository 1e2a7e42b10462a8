/* SPDX-License-Identifier: Apache-2.0 */
/* local_transport.c: a mesh whose processes are threads of one process, for tests and for trying a mesh without MPI.
   A message that is sent waits in a list until its receiver copies it; sender and receiver both wait for that. */
#include "backend/transport.h"

#include "base/host/stop.h"

typedef struct parcel {
    int64_t from, to;
    int tag;
    const void *data;
    size_t nbytes;
    bool is_taken;
    struct parcel *next; /* later ones follow */
} parcel;

struct flx_local_mesh {
    const flxi_allocator *mem;
    pthread_mutex_t lock;    /* guards the rest */
    pthread_cond_t *changed; /* by rank: what its thread waits for, so that a message wakes no other */
    int64_t size;
    bool *has_joined, *has_left; /* by rank */
    parcel *first;
};

struct flxi_mesh_end {
    flx_local_mesh *mesh;
    const flxi_allocator *mem;
    int64_t rank;
};

/* ---- The mesh ---- */

flx_local_mesh *flx_local_mesh_new(flx_context *ctx, int64_t ranks, flx_error *err)
{
    if (!ctx || ranks < 1 || ranks > 4096) {
        flxi_fail(err, FLX_E_USAGE, "flx_local_mesh_new: a context and 1 to 4096 processes are needed");
        return NULL;
    }
    flx_local_mesh *m = flxi_alloc(&ctx->mem, 1, sizeof *m);
    pthread_cond_t *changed = flxi_alloc(&ctx->mem, (size_t)ranks, sizeof *changed);
    bool *joined = flxi_alloc(&ctx->mem, (size_t)ranks, sizeof *joined);
    bool *left = flxi_alloc(&ctx->mem, (size_t)ranks, sizeof *left);
    if (m)
        *m = (flx_local_mesh){
            .mem = &ctx->mem, .changed = changed, .size = ranks, .has_joined = joined, .has_left = left};
    if (m && changed && joined && left && pthread_mutex_init(&m->lock, NULL) == 0) {
        for (int64_t i = 0; i < ranks; i++)
            pthread_cond_init(&changed[i], NULL);
        return m;
    }
    if (changed)
        flxi_free(&ctx->mem, changed, (size_t)ranks, sizeof *changed);
    if (joined)
        flxi_free(&ctx->mem, joined, (size_t)ranks, sizeof *joined);
    if (left)
        flxi_free(&ctx->mem, left, (size_t)ranks, sizeof *left);
    if (m)
        flxi_free(&ctx->mem, m, 1, sizeof *m);
    flxi_oom(err, "a mesh");
    return NULL;
}

void flx_local_mesh_free(flx_local_mesh *m)
{
    if (!m)
        return;
    for (int64_t i = 0; i < m->size; i++)
        pthread_cond_destroy(&m->changed[i]);
    pthread_mutex_destroy(&m->lock);
    flxi_free(m->mem, m->changed, (size_t)m->size, sizeof *m->changed);
    flxi_free(m->mem, m->has_joined, (size_t)m->size, sizeof *m->has_joined);
    flxi_free(m->mem, m->has_left, (size_t)m->size, sizeof *m->has_left);
    flxi_free(m->mem, m, 1, sizeof *m);
}

static flx_code open_local(flx_context *ctx, const flx_mesh_options *o, flxi_mesh_end **out, int64_t *rank,
                           int64_t *size, flx_error *err)
{
    flx_local_mesh *m = o->local;
    if (!m)
        return flxi_fail_hint(err, FLX_E_USAGE, "make one with flx_local_mesh_new()",
                              "the transport local needs a flx_local_mesh");
    if (o->rank < 0 || o->rank >= m->size)
        return flxi_fail(err, FLX_E_USAGE, "the mesh has processes 0 to %lld, not %lld", (long long)m->size - 1,
                         (long long)o->rank);
    flxi_mesh_end *l = flxi_alloc(&ctx->mem, 1, sizeof *l);
    if (!l)
        return flxi_oom(err, "a mesh");
    *l = (flxi_mesh_end){m, &ctx->mem, o->rank};
    pthread_mutex_lock(&m->lock);
    bool is_taken = m->has_joined[o->rank];
    m->has_joined[o->rank] = true;
    pthread_mutex_unlock(&m->lock);
    if (is_taken) {
        flxi_free(&ctx->mem, l, 1, sizeof *l);
        return flxi_fail(err, FLX_E_USAGE, "process %lld of the mesh has joined before", (long long)o->rank);
    }
    *out = l;
    *rank = o->rank;
    *size = m->size;
    return FLX_OK;
}

static void close_local(flxi_mesh_end *l, bool has_failed)
{
    (void)has_failed;
    pthread_mutex_lock(&l->mesh->lock);
    l->mesh->has_left[l->rank] = true;
    for (int64_t i = 0; i < l->mesh->size; i++)
        pthread_cond_signal(&l->mesh->changed[i]);
    pthread_mutex_unlock(&l->mesh->lock);
    flxi_free(l->mem, l, 1, sizeof *l);
}

/* ---- Messages ---- */

static void post(flx_local_mesh *m, parcel *p)
{
    parcel **end = &m->first;
    while (*end)
        end = &(*end)->next;
    *end = p;
}

static void take_back(flx_local_mesh *m, parcel *p)
{
    parcel **at = &m->first;
    while (*at && *at != p)
        at = &(*at)->next;
    if (*at)
        *at = p->next;
}

/* Copies the first parcel for the message, if there is one. */
static void receive(flxi_mesh_end *l, flxi_message *msg)
{
    for (parcel *p = l->mesh->first; p; p = p->next)
        if (!p->is_taken && p->from == msg->peer && p->to == l->rank && p->tag == msg->tag) {
            size_t n = p->nbytes < msg->nbytes ? p->nbytes : msg->nbytes; /* equal, once processes agree */
            memcpy(msg->data, p->data, n);
            p->is_taken = msg->is_done = true;
            pthread_cond_signal(&l->mesh->changed[p->from]);
            return;
        }
}

/* Messages of one peer arrive in order: a later one is not taken before an earlier one. */
static bool advance(flxi_mesh_end *l, flxi_message *m, size_t n, const parcel *parcels)
{
    bool is_complete = true;
    for (size_t i = 0; i < n; i++) {
        bool is_turn = true;
        for (size_t k = 0; k < i && !m[i].is_sent; k++)
            is_turn &= m[k].is_sent || m[k].is_done || m[k].peer != m[i].peer || m[k].tag != m[i].tag;
        if (m[i].is_sent)
            m[i].is_done = parcels[i].is_taken;
        else if (!m[i].is_done && is_turn)
            receive(l, &m[i]);
        m[i].is_gone = !m[i].is_done && l->mesh->has_left[m[i].peer];
        is_complete &= m[i].is_done;
    }
    return is_complete;
}

static bool is_anyone_gone(const flxi_message *m, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (m[i].is_gone)
            return true;
    return false;
}

static flx_code wait_for_all(flxi_mesh_end *l, flxi_message *m, size_t n, const parcel *parcels, int64_t deadline_ns,
                             flx_error *err)
{
    while (!advance(l, m, n, parcels)) {
        if (is_anyone_gone(m, n))
            return flxi_fail(err, FLX_E_DEVICE, "a process has left the mesh");
        if (flxi_transport_clock() >= deadline_ns)
            return flxi_fail(err, FLX_E_TIMEOUT, "the processes of the mesh did not meet in time");
        if (flxi_stopped())
            return flxi_stop_check(err);
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 5000000; /* to look at the deadline and the stop */
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&l->mesh->changed[l->rank], &l->mesh->lock, &until);
    }
    return FLX_OK;
}

/* Waiting is sleeping here: the processor is free for others in any case. */
static flx_code transfer_local(flxi_mesh_end *l, flxi_message *m, size_t n, int64_t deadline_ns,
                               const atomic_bool *computes, flx_error *err)
{
    (void)computes;
    parcel *parcels = flxi_alloc(l->mem, n, sizeof *parcels);
    if (!parcels)
        return flxi_oom(err, "messages");
    pthread_mutex_lock(&l->mesh->lock);
    for (size_t i = 0; i < n; i++) {
        parcels[i] = (parcel){l->rank, m[i].peer, m[i].tag, m[i].data, m[i].nbytes, false, NULL};
        if (m[i].is_sent) {
            post(l->mesh, &parcels[i]);
            pthread_cond_signal(&l->mesh->changed[m[i].peer]);
        }
    }
    flx_code code = wait_for_all(l, m, n, parcels, deadline_ns, err);
    for (size_t i = 0; i < n; i++)
        if (m[i].is_sent)
            take_back(l->mesh, &parcels[i]);
    pthread_mutex_unlock(&l->mesh->lock);
    flxi_free(l->mem, parcels, n, sizeof *parcels);
    return code;
}

const flxi_transport flxi_local_transport = {"local", open_local, NULL, transfer_local, close_local, NULL};
