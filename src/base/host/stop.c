/* SPDX-License-Identifier: Apache-2.0 */
/* stop.c: see stop.h. */
#include "base/host/stop.h"

#include "base/context.h"

#include <string.h>
#include <time.h>

_Thread_local flx_stop *flxi_current_stop;
_Thread_local uint32_t flxi_stop_count;

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- Polling ---- */

bool flxi_stop_poll(flx_stop *s)
{
    int code = atomic_load_explicit(&s->code, memory_order_relaxed);
    if (!code && s->deadline_ns && now_ns() >= s->deadline_ns)
        code = FLX_E_TIMEOUT;
    for (int i = 0; !code && i < 2; i++)
        if (s->outer[i] && flxi_stop_poll(s->outer[i]))
            code = atomic_load_explicit(&s->outer[i]->code, memory_order_relaxed);
    int none = 0;
    if (code) /* what came first stays */
        atomic_compare_exchange_strong_explicit(&s->code, &none, code, memory_order_relaxed, memory_order_relaxed);
    return code != 0;
}

bool flxi_stop_poll_again(void)
{
    bool is_stopped = flxi_stopped();
    if (is_stopped)
        flxi_stop_count = 1023;
    return is_stopped;
}

enum { STOP_PIECE = 4 << 20 }; /* bytes between two looks */

void flxi_stop_copy(void *to, const void *from, size_t n)
{
    for (size_t done = 0, m; done < n && (n <= STOP_PIECE || !flxi_stopped()); done += m) {
        m = n - done < STOP_PIECE ? n - done : STOP_PIECE;
        memcpy((char *)to + done, (const char *)from + done, m);
    }
}

void flxi_stop_clear(void *to, size_t n)
{
    for (size_t done = 0, m; done < n && (n <= STOP_PIECE || !flxi_stopped()); done += m) {
        m = n - done < STOP_PIECE ? n - done : STOP_PIECE;
        memset((char *)to + done, 0, m);
    }
}

void flxi_stop_touch(void *to, size_t n)
{
    enum { PAGE = 4096 };
    for (size_t done = 0; done < n && (done % STOP_PIECE || !flxi_stopped()); done += PAGE)
        ((volatile char *)to)[done] = 0;
}

/* The stop whose limit it was, for its number of seconds. */
static const flx_stop *find_late(const flx_stop *s)
{
    if (s->deadline_ns && now_ns() >= s->deadline_ns)
        return s;
    for (int i = 0; i < 2; i++) {
        const flx_stop *late = s->outer[i] ? find_late(s->outer[i]) : NULL;
        if (late)
            return late;
    }
    return NULL;
}

flx_code flxi_stop_check(flx_error *err)
{
    flx_stop *s = flxi_current_stop;
    if (!s || !flxi_stop_poll(s))
        return FLX_OK;
    if (atomic_load_explicit(&s->code, memory_order_relaxed) == FLX_E_CANCELLED)
        return flxi_fail(err, FLX_E_CANCELLED, "cancelled");
    const flx_stop *late = find_late(s);
    return flxi_fail_hint(err, FLX_E_TIMEOUT, "allow more time, or compute less", "not finished after %g seconds",
                          late ? late->seconds : s->seconds);
}

flx_code flxi_stop_or(flx_code code, flx_error *err)
{
    flx_code stopped = flxi_stop_check(err);
    return stopped != FLX_OK ? stopped : code;
}

/* ---- Scopes ---- */

static void begin(flx_stop *s, double seconds)
{
    static const double most = 4e9; /* seconds that fit */
    atomic_init(&s->code, 0);
    s->seconds = seconds;
    if (seconds > 0)
        s->deadline_ns = now_ns() + (int64_t)((seconds < most ? seconds : most) * 1e9);
}

void flxi_stop_enter(flxi_stop_scope *c, flx_stop *given, double seconds)
{
    *c = (flxi_stop_scope){.before = flxi_current_stop};
    if (!given && seconds <= 0)
        return;
    begin(&c->own, seconds);
    c->own.outer[0] = c->before;
    c->own.outer[1] = given == c->before ? NULL : given;
    flxi_current_stop = &c->own;
}

void flxi_stop_leave(const flxi_stop_scope *c)
{
    flxi_current_stop = c->before;
}

void flxi_stop_wait(pthread_cond_t *changed, pthread_mutex_t *lock)
{
    struct timespec end;
    if (!flxi_current_stop) {
        pthread_cond_wait(changed, lock);
        return;
    }
    clock_gettime(CLOCK_REALTIME, &end); /* the clock of conditions */
    end.tv_nsec += 10000000;
    if (end.tv_nsec >= 1000000000) {
        end.tv_nsec -= 1000000000;
        end.tv_sec++;
    }
    pthread_cond_timedwait(changed, lock, &end);
}

flx_code flxi_check_limits(const char *function, double seconds, int64_t bytes, flx_error *err)
{
    if (!(seconds >= 0))
        return flxi_fail_hint(err, FLX_E_USAGE, "0 means no limit", "%s: the time limit is %g seconds", function,
                              seconds);
    if (bytes < 0)
        return flxi_fail_hint(err, FLX_E_USAGE, "0 means no limit", "%s: the memory limit is %lld bytes", function,
                              (long long)bytes);
    return FLX_OK;
}

/* ---- Public functions ---- */

flx_stop *flx_stop_new(flx_context *ctx, double seconds, flx_error *err)
{
    if (!ctx) {
        flxi_fail(err, FLX_E_USAGE, "flx_stop_new: the context must be given");
        return NULL;
    }
    if (flxi_check_limits("flx_stop_new", seconds, 0, err) != FLX_OK)
        return NULL;
    const flxi_allocator *mem = flxi_context_mem(ctx);
    flx_stop *s = flxi_alloc(mem, 1, sizeof *s);
    if (!s) {
        flxi_oom(err, "a stop");
        return NULL;
    }
    begin(s, seconds);
    s->mem = mem;
    return s;
}

void flx_stop_free(flx_stop *s)
{
    if (s)
        flxi_free(s->mem, s, 1, sizeof *s);
}

void flx_stop_request(flx_stop *s)
{
    int none = 0;
    if (s)
        atomic_compare_exchange_strong_explicit(&s->code, &none, FLX_E_CANCELLED, memory_order_relaxed,
                                                memory_order_relaxed);
}

flx_stop *flx_stop_use(flx_stop *s)
{
    return flxi_stop_swap(s);
}
