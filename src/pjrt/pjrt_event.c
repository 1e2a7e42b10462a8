/* SPDX-License-Identifier: Apache-2.0 */
/* pjrt_event.c: events. Many of them are ready when they are made: these are one constant object, so that a short
   execution allocates none. The others are counted: a callback may destroy the event that calls it, so a hold is kept
   until all of them have returned, and none is called with the lock held. */
#include "pjrt/pjrt.h"

typedef struct waiter {
    pjrt_on_ready callback;
    void *user;
    struct waiter *next;
} waiter;

struct pjrt_event {
    atomic_int holders;
    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t changed;
    bool is_ready;
    pjrt_error *error;
    waiter *waiters; /* the last one first */
};

static pjrt_event always_ready = {.is_ready = true};

pjrt_event *flxi_pjrt_ready_event(void)
{
    return &always_ready;
}

pjrt_event *flxi_pjrt_event_pending(void)
{
    pjrt_event *e = flxi_alloc(&flxi_pjrt_mem, 1, sizeof *e);
    if (!e)
        return NULL;
    atomic_init(&e->holders, 2);
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->changed, NULL);
    return e;
}

static void release(pjrt_event *e)
{
    if (e == &always_ready || atomic_fetch_sub(&e->holders, 1) != 1)
        return;
    for (waiter *w = e->waiters; w;) {
        waiter *next = w->next;
        flxi_free(&flxi_pjrt_mem, w, 1, sizeof *w);
        w = next;
    }
    flxi_pjrt_error_free(e->error);
    pthread_cond_destroy(&e->changed);
    pthread_mutex_destroy(&e->lock);
    flxi_free(&flxi_pjrt_mem, e, 1, sizeof *e);
}

pjrt_event *flxi_pjrt_event_retain(pjrt_event *e)
{
    if (e != &always_ready)
        atomic_fetch_add(&e->holders, 1);
    return e;
}

void flxi_pjrt_event_release(pjrt_event *e)
{
    if (e)
        release(e);
}

/* The caller owns what is returned. */
static pjrt_error *error_copy(pjrt_event *e)
{
    pjrt_text_args text = {.handle = e->error};
    pjrt_int_args code = {.handle = e->error};
    if (!e->error)
        return NULL;
    flxi_pjrt_error_message(&text);
    flxi_pjrt_error_get_code(&code);
    return flxi_pjrt_fail_text((pjrt_code)code.value, text.text, text.size);
}

void flxi_pjrt_event_fire(pjrt_event *e, pjrt_error *error)
{
    pthread_mutex_lock(&e->lock);
    waiter *list = e->waiters;
    bool was_ready = e->is_ready;
    e->waiters = NULL;
    e->is_ready = true;
    if (!was_ready)
        e->error = error;
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
    if (was_ready)
        flxi_pjrt_error_free(error);
    while (list) {
        waiter w = *list;
        flxi_free(&flxi_pjrt_mem, list, 1, sizeof *list);
        list = w.next;
        w.callback(error_copy(e), w.user);
    }
    release(e);
}

/* ---- Calls ---- */

static bool is_ready(pjrt_event *e)
{
    if (e == &always_ready)
        return true;
    pthread_mutex_lock(&e->lock);
    bool ready = e->is_ready;
    pthread_mutex_unlock(&e->lock);
    return ready;
}

pjrt_error *flxi_pjrt_event_destroy(void *args)
{
    flxi_pjrt_event_release(((pjrt_handle_args *)args)->handle);
    return NULL;
}

pjrt_error *flxi_pjrt_event_is_ready(void *args)
{
    pjrt_bool_args *a = args;
    a->value = is_ready(a->handle);
    return NULL;
}

pjrt_error *flxi_pjrt_event_error(void *args)
{
    pjrt_event *e = ((pjrt_handle_args *)args)->handle;
    if (!is_ready(e))
        return flxi_pjrt_fail(PJRT_FAILED_PRECONDITION, "the event is not ready");
    return error_copy(e);
}

pjrt_error *flxi_pjrt_event_await(void *args)
{
    return flxi_pjrt_event_wait(((pjrt_handle_args *)args)->handle);
}

pjrt_error *flxi_pjrt_event_wait(pjrt_event *e)
{
    if (e == &always_ready)
        return NULL;
    pthread_mutex_lock(&e->lock);
    while (!e->is_ready)
        pthread_cond_wait(&e->changed, &e->lock);
    pthread_mutex_unlock(&e->lock);
    return error_copy(e);
}

/* False: the event is ready, and nothing was added. */
static bool add_waiter(pjrt_event *e, waiter *w)
{
    pthread_mutex_lock(&e->lock);
    bool waits = !e->is_ready;
    if (waits) {
        w->next = e->waiters;
        e->waiters = w;
    }
    pthread_mutex_unlock(&e->lock);
    return waits;
}

pjrt_error *flxi_pjrt_event_on_ready(void *args)
{
    pjrt_on_ready_args *a = args;
    if (!is_ready(a->event)) {
        waiter *w = flxi_alloc(&flxi_pjrt_mem, 1, sizeof *w);
        if (!w)
            return flxi_pjrt_oom();
        *w = (waiter){a->callback, a->user, NULL};
        if (add_waiter(a->event, w))
            return NULL;
        flxi_free(&flxi_pjrt_mem, w, 1, sizeof *w);
    }
    a->callback(error_copy(a->event), a->user);
    return NULL;
}

/* Both holds belong to the caller here: Event_Set releases the second. */
pjrt_error *flxi_pjrt_event_create(void *args)
{
    pjrt_event_create_args *a = args;
    a->event = flxi_pjrt_event_pending();
    return a->event ? NULL : flxi_pjrt_oom();
}

pjrt_error *flxi_pjrt_event_set(void *args)
{
    pjrt_event_set_args *a = args;
    if (is_ready(a->event))
        return flxi_pjrt_fail(PJRT_FAILED_PRECONDITION, "the event was set before");
    flxi_pjrt_event_fire(a->event,
                         a->code ? flxi_pjrt_fail_text((pjrt_code)a->code, a->message, a->message_size) : NULL);
    return NULL;
}
