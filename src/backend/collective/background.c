/* SPDX-License-Identifier: Apache-2.0 */
/* background.c: exchanges that run while the caller computes. One thread of each process makes them in the order in
   which they are started, which is the order of the graph and so the same in all processes; what is exchanged, and with
   whom it is compared, is as without it, so all bits and messages are the same. The thread begins with the first
   exchange that is started, and ends when the process leaves the mesh. */
#include "backend/collective/member.h"
#include "base/host/float_mode.h"
#include "base/host/quiet_thread.h"
#include "base/host/stop.h"

enum { ROOM = 16 }; /* exchanges that wait for their turn */

typedef struct {
    flxi_collective c;
    flx_stop *stop; /* of the thread that started it … */
    uint32_t mode;  /* … and its float mode */
} task;

struct flxi_background {
    flxi_member *m;
    pthread_t thread;
    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t changed;
    task tasks[ROOM]; /* exchange k is at k % ROOM */
    uint64_t started, ended;
    atomic_bool computes; /* the caller does, and does not wait */
    bool is_over;
    uint64_t failed; /* the first that failed; 0: none */
    flx_code code;
    flx_error why;
};

/* ---- The thread ---- */

static flx_code run_task(flxi_background *b, const task *t, flx_error *why)
{
    flxi_stop_swap(t->stop);
    flxi_set_float_mode(t->mode);
    b->m->computes = &b->computes;
    flx_code code = flxi_member_exchange(b->m, &t->c, why);
    b->m->computes = NULL;
    return code;
}

static void *work(void *user)
{
    flxi_background *b = user;
    pthread_mutex_lock(&b->lock);
    while (!b->is_over) {
        if (b->ended == b->started) {
            pthread_cond_wait(&b->changed, &b->lock);
            continue;
        }
        const task *t = &b->tasks[(b->ended + 1) % ROOM];
        flx_error why = {0};
        pthread_mutex_unlock(&b->lock);
        flx_code code = run_task(b, t, &why);
        pthread_mutex_lock(&b->lock);
        b->ended++;
        if (code != FLX_OK && !b->failed) {
            b->failed = b->ended;
            b->code = code;
            b->why = why;
        }
        pthread_cond_broadcast(&b->changed);
    }
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

static flxi_background *begin(flxi_member *m)
{
    flxi_background *b = flxi_alloc(&m->ctx->mem, 1, sizeof *b);
    if (!b)
        return NULL;
    b->m = m;
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->changed, NULL);
    if (flxi_thread_start(&b->thread, work, b))
        return b;
    pthread_cond_destroy(&b->changed);
    pthread_mutex_destroy(&b->lock);
    flxi_free(&m->ctx->mem, b, 1, sizeof *b);
    return NULL;
}

void flxi_background_free(flxi_background *b)
{
    if (!b)
        return;
    pthread_mutex_lock(&b->lock);
    b->is_over = true;
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->lock);
    pthread_join(b->thread, NULL);
    pthread_cond_destroy(&b->changed);
    pthread_mutex_destroy(&b->lock);
    flxi_free(&b->m->ctx->mem, b, 1, sizeof *b);
}

/* ---- The caller ---- */

static void wait_for(flxi_background *b, uint64_t exchange)
{
    atomic_store(&b->computes, false);
    while (b->ended < exchange)
        pthread_cond_wait(&b->changed, &b->lock);
    atomic_store(&b->computes, true);
}

/* A failure is reported once: exchanges that follow it fail by themselves. */
static flx_code end(flxi_background *b, uint64_t exchange, flx_error *err)
{
    wait_for(b, exchange);
    if (!b->failed || b->failed > exchange)
        return FLX_OK;
    b->failed = 0;
    if (err)
        *err = b->why;
    return b->code;
}

flx_code flxi_member_finish(flxi_mesh *mesh, uint64_t exchange, flx_error *err)
{
    flxi_background *b = ((flxi_member *)mesh)->background;
    pthread_mutex_lock(&b->lock);
    flx_code code = end(b, exchange, err);
    pthread_mutex_unlock(&b->lock);
    return code;
}

flx_code flxi_background_wait(flxi_background *b, flx_error *err)
{
    if (!b)
        return FLX_OK;
    pthread_mutex_lock(&b->lock);
    flx_code code = end(b, b->started, err);
    pthread_mutex_unlock(&b->lock);
    return code;
}

/* Without a thread the exchange is made here, as all others would be. */
flx_code flxi_member_start(flxi_mesh *mesh, const flxi_collective *c, uint64_t *exchange, flx_error *err)
{
    flxi_member *m = (flxi_member *)mesh;
    flxi_background *b = m->background;
    *exchange = 0;
    if (m->overlaps && !b)
        b = m->background = begin(m);
    if (!b)
        return flxi_member_collect(mesh, c, err);
    pthread_mutex_lock(&b->lock);
    wait_for(b, b->started < ROOM ? 0 : b->started + 1 - ROOM);
    *exchange = ++b->started;
    b->tasks[b->started % ROOM] = (task){*c, flxi_current_stop, flxi_float_mode()};
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->lock);
    return FLX_OK;
}
