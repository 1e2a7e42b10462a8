/* SPDX-License-Identifier: Apache-2.0 */
/* thread_pool.c: see thread_pool.h. One loop is open at a time. Each thread that may take part, the caller and some
   workers, is given an equal run of chunks; a thread that finishes its share helps the others, one chunk at a time. So
   neighbouring chunks stay on one core, an uneven load is balanced, and a worker that wakes late delays nothing: the
   caller does its work.

   The whole protocol is one word for each worker:

       IDLE --caller--> OPEN --worker--> BUSY --worker--> IDLE
                        OPEN --caller--> IDLE             the loop ended before the worker came

   The description of a loop is written while all words are IDLE and read only by threads that are BUSY, so a worker
   never sees a loop that is over. A worker sleeps on the same word (a futex): a thread that changes it wakes the other
   side if that has announced that it sleeps. "Announce the sleep, then read the word" and "change the word, then check
   for sleepers" must not be reordered, hence the sequentially consistent operations. */
#include "base/host/thread_pool.h"

#include "base/host/float_mode.h"
#include "base/host/stop.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { IDLE, OPEN, BUSY, ENDING };

/* Two cache lines, because processors fetch them in pairs: avoids false sharing between threads. */
enum { LINE = 128 };

typedef struct {
    int64_t count, chunk;
    flxi_chunk_fn fn;
    void *user;
} loop;

/* A participant in loops: the caller, whose state is not used, or a worker. All data that passes between threads at the
   start of a loop is in one cache line. */
typedef struct {
    _Atomic uint32_t state;
    atomic_bool is_asleep;  /* the worker waits for the state to change */
    atomic_bool is_awaited; /* the caller sleeps until the worker is done */
    uint16_t number;
    uint16_t takers;      /* of this loop: numbers below it */
    uint32_t mode;        /* of the caller's arithmetic */
    _Atomic int64_t next; /* next chunk of its share, for itself or a helper; none is left at `end` or beyond */
    int64_t end;
    loop loop;
    flxi_pool *pool;
    flx_stop *stop; /* of the caller; seldom changes, so it is not in the line that does */
    pthread_t thread;
    char padding[LINE - 64 - 2 * sizeof(flxi_pool *) - sizeof(pthread_t)];
} taker;

struct flxi_pool {
    const flxi_allocator *mem;
    void *block; /* the pool's memory; the pool itself is aligned to cache lines in it */
    size_t nbytes;
    int threads; /* including the caller */
    int started; /* workers */
    bool may_spin;
    taker *takers;        /* the caller is number 0 */
    atomic_int runs;      /* between wake and rest */
    pthread_mutex_t turn; /* held by the caller for the whole loop */
};

static _Thread_local bool inside_chunk;

static const int most_threads = 4096;
/* Waking a sleeper takes about 50 microseconds: spinning for that long costs at most twice the optimum. During a run
   the next loop is certain to come, and 50 microseconds after two milliseconds are negligible. */
static const int64_t usual_spin_ns = 50000;
static const int64_t run_spin_ns = 2000000;

/* ---- Waiting ---- */

static void pause_briefly(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Returns when the word changes, on a wake-up, or on a signal: callers check again. */
static void sleep_on(_Atomic uint32_t *word, uint32_t value)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void wake_sleeper(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static int64_t spin_ns(flxi_pool *p)
{
    if (!p->may_spin)
        return 0;
    return atomic_load_explicit(&p->runs, memory_order_relaxed) > 0 ? run_spin_ns : usual_spin_ns;
}

/* Spins while the state is `value`; false when the spinning time is over. */
static bool spin_while(flxi_pool *p, taker *w, uint32_t value)
{
    if (!p->may_spin)
        return atomic_load_explicit(&w->state, memory_order_acquire) != value;
    int64_t start = now_ns();
    do {
        for (int i = 0; i < 64; i++) {
            if (atomic_load_explicit(&w->state, memory_order_acquire) != value)
                return true;
            pause_briefly();
        }
    } while (now_ns() - start < spin_ns(p));
    return false;
}

/* Waits while the state is `value`; `flag` asks the other side to wake this one. Returns at the latest when the state
   has changed, but also on a wake-up, after which spinning is wanted. */
static void wait_while(flxi_pool *p, taker *w, uint32_t value, atomic_bool *flag)
{
    if (spin_while(p, w, value))
        return;
    atomic_store(flag, true);
    if (atomic_load(&w->state) == value)
        sleep_on(&w->state, value);
    atomic_store(flag, false);
}

/* ---- Chunks ---- */

static void run_chunk(const loop *l, int64_t i)
{
    if (flxi_stopped())
        return;
    int64_t begin = i * l->chunk;
    int64_t end = l->count - begin < l->chunk ? l->count : begin + l->chunk;
    l->fn(l->user, begin, end);
}

static void run_alone(const loop *l, int64_t chunks)
{
    bool outer = inside_chunk;
    inside_chunk = true;
    for (int64_t i = 0; i < chunks; i++)
        run_chunk(l, i);
    inside_chunk = outer;
}

/* The counter publishes only itself, so relaxed is enough. */
static void draw_chunks(const loop *l, taker *from)
{
    while (atomic_load_explicit(&from->next, memory_order_relaxed) < from->end) {
        int64_t i = atomic_fetch_add_explicit(&from->next, 1, memory_order_relaxed);
        if (i < from->end)
            run_chunk(l, i);
    }
}

/* The thread's own share, then those of the others, cyclically. */
static void take_part(taker *own)
{
    uint32_t mode = flxi_float_mode();
    flx_stop *stop = flxi_stop_swap(own->stop);
    inside_chunk = true;
    flxi_set_float_mode(own->mode);
    draw_chunks(&own->loop, own);
    for (int i = own->number + 1; i < own->number + own->takers; i++)
        draw_chunks(&own->loop, &own->pool->takers[i % own->takers]);
    flxi_set_float_mode(mode);
    inside_chunk = false;
    flxi_stop_swap(stop);
}

/* Gives each participant the loop and a share of its chunks. */
static void divide(flxi_pool *p, const loop *l, int64_t chunks, int takers)
{
    int64_t each = chunks / takers, rest = chunks % takers, next = 0;
    uint32_t mode = flxi_float_mode();
    for (int i = 0; i < takers; i++) {
        taker *t = &p->takers[i];
        t->loop = *l;
        t->mode = mode;
        if (t->stop != flxi_current_stop)
            t->stop = flxi_current_stop;
        t->takers = (uint16_t)takers;
        atomic_store_explicit(&t->next, next, memory_order_relaxed);
        next += each + (i < rest);
        t->end = next;
    }
}

/* ---- Workers ---- */

static void *work(void *arg)
{
    taker *w = arg;
    flxi_pool *p = w->pool;
    for (;;) {
        uint32_t state = OPEN;
        if (atomic_compare_exchange_strong_explicit(&w->state, &state, BUSY, memory_order_acquire,
                                                    memory_order_acquire)) {
            take_part(w);
            atomic_store(&w->state, IDLE); /* a thread that sees IDLE also sees what the chunks wrote */
            if (atomic_load(&w->is_awaited))
                wake_sleeper(&w->state);
        } else if (state == ENDING) {
            return NULL;
        } else {
            wait_while(p, w, IDLE, &w->is_asleep);
        }
    }
}

static void set_state(taker *w, uint32_t state)
{
    atomic_store(&w->state, state);
    if (atomic_load(&w->is_asleep))
        wake_sleeper(&w->state);
}

static void close_loop(flxi_pool *p, taker *w)
{
    uint32_t state = OPEN;
    if (atomic_compare_exchange_strong_explicit(&w->state, &state, IDLE, memory_order_acquire, memory_order_acquire))
        return;
    while (atomic_load_explicit(&w->state, memory_order_acquire) == BUSY)
        wait_while(p, w, BUSY, &w->is_awaited);
}

/* False when the caller is stopped before its turn comes. */
static bool take_turn(flxi_pool *p)
{
    if (!flxi_current_stop) {
        pthread_mutex_lock(&p->turn);
        return true;
    }
    for (long pause_ns = 1000; pthread_mutex_trylock(&p->turn) != 0;) {
        if (flxi_stopped())
            return false;
        nanosleep(&(struct timespec){.tv_nsec = pause_ns}, NULL);
        pause_ns = pause_ns < 1000000 ? pause_ns * 2 : pause_ns;
    }
    return true;
}

void flxi_pool_run(flxi_pool *p, int64_t count, int64_t chunk, flxi_chunk_fn fn, void *user)
{
    if (count <= 0)
        return;
    if (chunk <= 0 || chunk > count)
        chunk = count;
    const loop l = {count, chunk, fn, user};
    int64_t chunks = count / chunk + (count % chunk != 0);
    if (!p || p->started == 0 || chunks == 1 || inside_chunk) {
        run_alone(&l, chunks);
        return;
    }
    int takers = chunks <= p->started ? (int)chunks : p->started + 1;
    if (!take_turn(p))
        return;
    divide(p, &l, chunks, takers);
    for (int i = 1; i < takers; i++)
        set_state(&p->takers[i], OPEN);
    take_part(&p->takers[0]);
    for (int i = 1; i < takers; i++)
        close_loop(p, &p->takers[i]);
    pthread_mutex_unlock(&p->turn);
}

void flxi_pool_wake(flxi_pool *p)
{
    if (!p || !p->may_spin || atomic_fetch_add(&p->runs, 1) > 0)
        return;
    for (int i = 1; i <= p->started; i++)
        if (atomic_load(&p->takers[i].is_asleep))
            wake_sleeper(&p->takers[i].state);
}

void flxi_pool_rest(flxi_pool *p)
{
    if (p && p->may_spin)
        atomic_fetch_sub(&p->runs, 1);
}

/* ---- Life ---- */

static int available_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        return CPU_COUNT(&set);
    long n = sysconf(_SC_NPROCESSORS_ONLN); /* more cores than the set can represent */
    return n < 1 ? 1 : n > most_threads ? most_threads : (int)n;
}

/* Signals are for the program's own threads, so workers start with all of them blocked. */
static bool start_workers(flxi_pool *p)
{
    sigset_t all, before;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0)
        return false;
    bool ok = true;
    while (ok && p->started < p->threads - 1) {
        taker *w = &p->takers[p->started + 1];
        ok = pthread_create(&w->thread, NULL, work, w) == 0;
        p->started += ok;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return ok;
}

/* The pool and its participants in one block, each aligned to cache lines. */
static flxi_pool *allocate(const flxi_allocator *mem, int threads)
{
    _Static_assert(offsetof(taker, pool) == 64 && sizeof(taker) == LINE, "what is sent is in one cache line");
    size_t head = (sizeof(flxi_pool) + LINE - 1) / LINE * LINE;
    size_t nbytes = LINE + head + (size_t)threads * sizeof(taker);
    char *block = flxi_alloc(mem, nbytes, 1);
    if (!block)
        return NULL;
    char *at = block + (0 - (uintptr_t)block) % LINE;
    flxi_pool *p = (flxi_pool *)(void *)at;
    p->mem = mem;
    p->block = block;
    p->nbytes = nbytes;
    p->threads = threads;
    p->takers = (taker *)(void *)(at + head);
    for (int i = 0; i < threads; i++) {
        p->takers[i].pool = p;
        p->takers[i].number = (uint16_t)i;
    }
    return p;
}

flxi_pool *flxi_pool_new(const flxi_allocator *mem, int threads)
{
    int cores = available_cores();
    if (threads == 0)
        threads = cores;
    if (threads < 0 || threads > most_threads)
        return NULL;
    flxi_pool *p = allocate(mem, threads);
    if (!p)
        return NULL;
    p->may_spin = threads <= cores;
    if (pthread_mutex_init(&p->turn, NULL) != 0) {
        flxi_free(mem, p->block, p->nbytes, 1);
        return NULL;
    }
    if (!start_workers(p)) {
        flxi_pool_free(p);
        return NULL;
    }
    return p;
}

void flxi_pool_free(flxi_pool *p)
{
    if (!p)
        return;
    for (int i = 1; i <= p->started; i++)
        set_state(&p->takers[i], ENDING);
    for (int i = 1; i <= p->started; i++)
        pthread_join(p->takers[i].thread, NULL);
    pthread_mutex_destroy(&p->turn);
    flxi_free(p->mem, p->block, p->nbytes, 1);
}

int flxi_pool_threads(const flxi_pool *p)
{
    return p ? p->threads : 1;
}
