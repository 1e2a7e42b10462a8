/* SPDX-License-Identifier: Apache-2.0 */
/* local_transport.c: a mesh whose processes are threads of one process, for tests and for trying a mesh without MPI.
   A message that is sent waits in a list until its receiver copies it; sender and receiver both wait for that. Those
   that may read each other's memory can meet instead (FLX_MESH_MEET). */
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
    flxi_arena arena; /* of the lists */
    bool is_made;
    pthread_mutex_t lock;    /* guards the rest */
    pthread_cond_t *changed; /* by rank: what its thread waits for, so that a message wakes no other */
    int64_t size;
    bool *has_joined, *has_left; /* by rank */
    flxi_meeting **meetings;     /* by rank: that it waits in; NULL: none */
    parcel *first;
};

struct flxi_mesh_end {
    flx_local_mesh *mesh;
    const flxi_allocator *mem;
    int64_t rank;
};

/* ---- The mesh ---- */

void flx_local_mesh_free(flx_local_mesh *m)
{
    if (!m)
        return;
    for (int64_t i = 0; m->is_made && i < m->size; i++)
        pthread_cond_destroy(&m->changed[i]);
    if (m->is_made)
        pthread_mutex_destroy(&m->lock);
    flxi_arena_free(&m->arena);
    flxi_free(m->mem, m, 1, sizeof *m);
}

flx_local_mesh *flx_local_mesh_new(flx_context *ctx, int64_t ranks, flx_error *err)
{
    if (!ctx || ranks < 1 || ranks > 4096) {
        flxi_fail(err, FLX_E_USAGE, "flx_local_mesh_new: a context and 1 to 4096 processes are needed");
        return NULL;
    }
    flx_local_mesh *m = flxi_alloc(&ctx->mem, 1, sizeof *m);
    if (!m) {
        flxi_oom(err, "a mesh");
        return NULL;
    }
    *m = (flx_local_mesh){.mem = &ctx->mem, .size = ranks};
    flxi_arena_init(&m->arena, m->mem);
    m->changed = flxi_new(&m->arena, pthread_cond_t, ranks);
    m->has_joined = flxi_new(&m->arena, bool, ranks);
    m->has_left = flxi_new(&m->arena, bool, ranks);
    m->meetings = flxi_new(&m->arena, flxi_meeting *, ranks);
    bool has_room = m->changed && m->has_joined && m->has_left && m->meetings;
    m->is_made = has_room && pthread_mutex_init(&m->lock, NULL) == 0;
    for (int64_t i = 0; m->is_made && i < ranks; i++)
        pthread_cond_init(&m->changed[i], NULL);
    if (m->is_made)
        return m;
    flx_local_mesh_free(m);
    flxi_oom(err, "a mesh");
    return NULL;
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

/* Until something has changed for this process, or it is time to look at the deadline and the stop. */
static void sleep_a_while(flxi_mesh_end *l)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 5000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&l->mesh->changed[l->rank], &l->mesh->lock, &until);
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
        sleep_a_while(l);
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

/* ---- Meetings ---- */

/* Who of the group is there; whether all are. */
static bool look_around(const flxi_mesh_end *l, flxi_meeting *own)
{
    size_t size = (size_t)own->n * sizeof *own->ranks;
    bool is_complete = true;
    for (int64_t k = 0; k < own->n; k++) {
        int64_t rank = own->ranks[k];
        flxi_meeting *other = l->mesh->meetings[rank];
        bool is_there = other && !other->is_busy && other->n == own->n && memcmp(other->ranks, own->ranks, size) == 0;
        own->others[k] = is_there ? other : NULL;
        own->signs[k] =
            (flxi_message){.peer = rank, .is_done = is_there, .is_gone = !is_there && l->mesh->has_left[rank]};
        is_complete &= is_there;
    }
    return is_complete;
}

/* Acts for all that are there. The lock is free meanwhile: they do not go while they are busy. */
static void conclude(flxi_mesh_end *l, flxi_meeting *own, flx_code code)
{
    for (int64_t k = 0; k < own->n; k++)
        if (own->others[k])
            own->others[k]->is_busy = true;
    pthread_mutex_unlock(&l->mesh->lock);
    own->act(own, code);
    pthread_mutex_lock(&l->mesh->lock);
    for (int64_t k = 0; k < own->n; k++)
        if (own->others[k]) {
            own->others[k]->is_over = true;
            l->mesh->meetings[own->ranks[k]] = NULL;
            if (own->ranks[k] != l->rank)
                pthread_cond_signal(&l->mesh->changed[own->ranks[k]]);
        }
}

static flx_code meet_local(flxi_mesh_end *l, flxi_meeting *own, int64_t deadline_ns, flx_error *err)
{
    flx_code code = FLX_OK;
    pthread_mutex_lock(&l->mesh->lock);
    l->mesh->meetings[l->rank] = own;
    while (!own->is_over && code == FLX_OK) {
        flx_code reason = FLX_OK;
        bool is_complete = !own->is_busy && look_around(l, own);
        if (!own->is_busy && !is_complete)
            reason = is_anyone_gone(own->signs, (size_t)own->n) ? FLX_E_DEVICE
                     : flxi_transport_clock() >= deadline_ns    ? FLX_E_TIMEOUT
                                                                : FLX_OK;
        if (is_complete || reason) {
            conclude(l, own, reason);
        } else if (!own->is_busy && flxi_stopped()) {
            l->mesh->meetings[l->rank] = NULL;
            code = flxi_stop_check(err);
        } else {
            sleep_a_while(l);
        }
    }
    pthread_mutex_unlock(&l->mesh->lock);
    return code;
}

const flxi_transport flxi_local_transport = {
    .name = "local", .open = open_local, .transfer = transfer_local, .meet = meet_local, .close = close_local};
