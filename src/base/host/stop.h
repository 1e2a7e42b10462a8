/* SPDX-License-Identifier: Apache-2.0 */
/* stop.h: ending work early, because the caller asks for it or its time is over.

   What a thread does belongs to at most one flx_stop at a time: a run, a compilation, or what the caller chose with
   flx_stop_use(). Long loops poll it once per tile, row or chunk, never per element, and return as they are when it is
   set. Their results are then garbage, which is harmless: a stop stays set, and those who started the work ask again
   at its end (flxi_stop_check) and fail. So a loop that polls needs no way to report, but nothing between such a loop
   and the end of the step may use its results as addresses. The threads of a pool work for the stop of the caller. */
#ifndef FLXI_STOP_H
#define FLXI_STOP_H

#include "base/error.h"
#include "base/memory.h"

#include <fluxion/stop.h>
#include <pthread.h>
#include <stdatomic.h>

struct flx_stop {
    atomic_int code;     /* 0: continue; else FLX_E_CANCELLED or FLX_E_TIMEOUT, for ever */
    double seconds;      /* the time limit, for messages */
    int64_t deadline_ns; /* of CLOCK_MONOTONIC; 0: none */
    flx_stop *outer[2];  /* that stop this one too; or NULL */
    const flxi_allocator *mem;
};

/* Read by flxi_stopped() often, so it is as cheap as a variable can be that each thread has its own of. */
extern _Thread_local flx_stop *flxi_current_stop __attribute__((tls_model("initial-exec")));
extern _Thread_local uint32_t flxi_stop_count __attribute__((tls_model("initial-exec")));

bool flxi_stop_poll(flx_stop *s);

/* Whether the current thread should end what it does. */
static inline bool flxi_stopped(void)
{
    return flxi_current_stop && flxi_stop_poll(flxi_current_stop);
}

bool flxi_stop_poll_again(void);

/* The same for loops over elements: asks at every 1024th call, and once the answer is yes at each, so that the loops
   around it end too. */
static inline bool flxi_stopped_by_now(void)
{
    return flxi_current_stop && (++flxi_stop_count & 1023) == 0 && flxi_stop_poll_again();
}

/* memcpy(), and memset() to zero, that can be stopped. */
void flxi_stop_copy(void *to, const void *from, size_t n);
void flxi_stop_clear(void *to, size_t n);
/* Writes to each page of memory that will be overwritten: the system gives pages when they are first written to, which
   takes long where a loop that does not poll goes through gigabytes in large steps. */
void flxi_stop_touch(void *to, size_t n);

/* The error of what was stopped; FLX_OK when nothing was. */
flx_code flxi_stop_check(flx_error *err);
/* `code`, unless the work was stopped: what it failed with is then a consequence. */
flx_code flxi_stop_or(flx_code code, flx_error *err);

/* Work with limits of its own, inside of what limits the thread already. */
typedef struct {
    flx_stop own;
    flx_stop *before;
} flxi_stop_scope;

/* `given` may be NULL; seconds 0: no limit. */
void flxi_stop_enter(flxi_stop_scope *c, flx_stop *given, double seconds);
void flxi_stop_leave(const flxi_stop_scope *c);

/* Makes `s` the stop of this thread and returns the one before. */
static inline flx_stop *flxi_stop_swap(flx_stop *s)
{
    flx_stop *before = flxi_current_stop;
    flxi_current_stop = s;
    return before;
}

/* pthread_cond_wait() that returns at the latest after some milliseconds if the thread has a stop: the caller asks
   both. */
void flxi_stop_wait(pthread_cond_t *changed, pthread_mutex_t *lock);

/* USAGE for a time limit that is negative or NaN, or a negative memory limit. */
flx_code flxi_check_limits(const char *function, double seconds, int64_t bytes, flx_error *err);

#endif
