/* thread_pool.c: see thread_pool.h. One loop is open at a time. Threads that take part draw chunk numbers from a shared
   counter, so an uneven load evens out. A worker joins a loop only while it is open; the caller works too, closes the
   loop when no chunk is left, and waits only for those who joined. So a worker that wakes late delays nobody, and a short
   loop may be over before any worker stirs.

   Order of locks: `turn`, held by the caller for the whole loop, then `lock`, held for moments. Everything but the chunk
   counter is read and written under `lock`; leaving a loop under it is what makes a chunk's writes visible to the
   caller. */
#include "base/thread_pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

typedef struct {
    int64_t count, chunk, chunks;
    flxi_chunk_fn fn;
    void *user;
} loop;

struct flxi_pool {
    const flxi_allocator *mem;
    pthread_mutex_t turn;
    pthread_mutex_t lock;
    pthread_cond_t opened; /* a loop was opened, or the pool is to end */
    pthread_cond_t left;   /* the last worker left the loop */
    loop current;
    _Atomic int64_t next; /* chunk to draw */
    uint64_t serial;      /* of the loop; a worker joins each at most once */
    bool open, ending;
    int joined;  /* workers inside the loop */
    int threads; /* with the caller */
    int started; /* workers */
    pthread_t workers[];
};

static _Thread_local bool inside_chunk;

static const int most_threads = 4096;

static void run_chunk(const loop *l, int64_t i)
{
    int64_t begin = i * l->chunk;
    int64_t end = l->count - begin < l->chunk ? l->count : begin + l->chunk;
    l->fn(l->user, begin, end);
}

static void run_alone(const loop *l)
{
    bool outer = inside_chunk;
    inside_chunk = true;
    for (int64_t i = 0; i < l->chunks; i++)
        run_chunk(l, i);
    inside_chunk = outer;
}

/* The counter publishes nothing but itself, so relaxed is enough. */
static void draw_chunks(flxi_pool *p, const loop *l)
{
    inside_chunk = true;
    for (;;) {
        int64_t i = atomic_fetch_add_explicit(&p->next, 1, memory_order_relaxed);
        if (i >= l->chunks)
            break;
        run_chunk(l, i);
    }
    inside_chunk = false;
}

static void *worker(void *arg)
{
    flxi_pool *p = arg;
    uint64_t done = 0;
    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (!p->ending && !(p->open && p->serial != done))
            pthread_cond_wait(&p->opened, &p->lock);
        if (p->ending)
            break;
        done = p->serial;
        loop l = p->current;
        p->joined++;
        pthread_mutex_unlock(&p->lock);
        draw_chunks(p, &l);
        pthread_mutex_lock(&p->lock);
        if (--p->joined == 0)
            pthread_cond_signal(&p->left);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

void flxi_pool_run(flxi_pool *p, int64_t count, int64_t chunk, flxi_chunk_fn fn, void *user)
{
    if (count <= 0)
        return;
    if (chunk <= 0 || chunk > count)
        chunk = count;
    loop l = {count, chunk, count / chunk + (count % chunk != 0), fn, user};
    if (!p || p->started == 0 || l.chunks == 1 || inside_chunk) {
        run_alone(&l);
        return;
    }
    pthread_mutex_lock(&p->turn);
    pthread_mutex_lock(&p->lock);
    p->current = l;
    p->serial++;
    p->open = true;
    atomic_store_explicit(&p->next, 0, memory_order_relaxed);
    pthread_cond_broadcast(&p->opened);
    pthread_mutex_unlock(&p->lock);

    draw_chunks(p, &l);

    pthread_mutex_lock(&p->lock);
    p->open = false;
    while (p->joined > 0)
        pthread_cond_wait(&p->left, &p->lock);
    pthread_mutex_unlock(&p->lock);
    pthread_mutex_unlock(&p->turn);
}

/* ---- Life ---- */

static int available_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        return CPU_COUNT(&set);
    long n = sysconf(_SC_NPROCESSORS_ONLN); /* more cores than the set can name */
    return n < 1 ? 1 : n > most_threads ? most_threads : (int)n;
}

/* Signals are the business of the program's own threads, so workers start with all of them blocked. */
static bool start_workers(flxi_pool *p)
{
    sigset_t all, before;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0)
        return false;
    bool ok = true;
    while (ok && p->started < p->threads - 1) {
        ok = pthread_create(&p->workers[p->started], NULL, worker, p) == 0;
        p->started += ok;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return ok;
}

static bool init_locks(flxi_pool *p)
{
    if (pthread_mutex_init(&p->turn, NULL) != 0)
        return false;
    if (pthread_mutex_init(&p->lock, NULL) == 0) {
        if (pthread_cond_init(&p->opened, NULL) == 0) {
            if (pthread_cond_init(&p->left, NULL) == 0)
                return true;
            pthread_cond_destroy(&p->opened);
        }
        pthread_mutex_destroy(&p->lock);
    }
    pthread_mutex_destroy(&p->turn);
    return false;
}

static size_t pool_bytes(int threads)
{
    return sizeof(flxi_pool) + (size_t)(threads - 1) * sizeof(pthread_t);
}

flxi_pool *flxi_pool_new(const flxi_allocator *mem, int threads)
{
    if (threads == 0)
        threads = available_cores();
    if (threads < 0 || threads > most_threads)
        return NULL;
    flxi_pool *p = flxi_alloc(mem, 1, pool_bytes(threads));
    if (!p)
        return NULL;
    p->mem = mem;
    p->threads = threads;
    if (!init_locks(p)) {
        flxi_free(mem, p, 1, pool_bytes(threads));
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
    pthread_mutex_lock(&p->lock);
    p->ending = true;
    pthread_cond_broadcast(&p->opened);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->started; i++)
        pthread_join(p->workers[i], NULL);
    pthread_cond_destroy(&p->left);
    pthread_cond_destroy(&p->opened);
    pthread_mutex_destroy(&p->lock);
    pthread_mutex_destroy(&p->turn);
    flxi_free(p->mem, p, 1, pool_bytes(p->threads));
}

int flxi_pool_threads(const flxi_pool *p)
{
    return p ? p->threads : 1;
}
