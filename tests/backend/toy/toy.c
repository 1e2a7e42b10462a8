/* SPDX-License-Identifier: Apache-2.0 */
/* toy.c: see toy.h. */
#include "backend/toy/toy.h"

#include <pthread.h>

static atomic_uint_least64_t kernels_run, copies_run, steps_late, sequences_run, sent, received, pieces_moved;

toy_counts toy_count(void)
{
    return (toy_counts){atomic_load(&kernels_run),   atomic_load(&copies_run), atomic_load(&steps_late),
                        atomic_load(&sequences_run), atomic_load(&sent),       atomic_load(&received),
                        atomic_load(&pieces_moved)};
}

/* ---- Memory: no address that is given out is one of the host's ---- */

static const uintptr_t shift = (uintptr_t)1 << 60;

static void *hide(void *p)
{
    return (void *)((uintptr_t)p + shift);
}

static void *real(const void *p)
{
    return p ? (void *)((uintptr_t)p - shift) : NULL;
}

static flx_code allocate(flx_context *ctx, size_t nbytes, flxi_device_memory *out, flx_error *err)
{
    unsigned char *block = flxi_alloc(flxi_context_mem(ctx), nbytes + 64, 1);
    *out = (flxi_device_memory){0};
    if (!block)
        return flxi_oom(err, "the toy's memory");
    *out = (flxi_device_memory){hide(block + (0 - (uintptr_t)block) % 64), block, nbytes + 64};
    return FLX_OK;
}

static void release(flx_context *ctx, flxi_device_memory *m)
{
    if (m->handle)
        flxi_free(flxi_context_mem(ctx), m->handle, m->nbytes, 1);
    *m = (flxi_device_memory){0};
}

/* ---- Steps that wait ---- */

typedef struct {
    const flx_kernel *kernel; /* NULL: a copy of nbytes from data[0] to data[1] */
    uint32_t grid[3], lanes;
    size_t nbytes;
    void *data[TOY_BUFFERS];
} waiting;

enum { MAX_WAITING = 100 };

/* Steps of a sequence from `begin` on, and where the pieces are listed that it comes after. */
typedef struct {
    size_t begin, first_after, num_after;
    bool has_run;
} piece;

/* Its pieces run in another order than they were noted in: the last that may run is the next. */
struct flxi_sequence {
    const flxi_allocator *mem;
    FLXI_VEC(waiting) steps;
    FLXI_VEC(piece) pieces;
    FLXI_VEC(uint32_t) after;
};

/* Runs of several threads may share a queue. */
struct flxi_queue {
    const flxi_allocator *mem;
    pthread_mutex_t lock;
    waiting steps[MAX_WAITING];
    size_t n;
    flxi_sequence *noted; /* steps go there; or NULL */
};

static flx_code run_now(const waiting *w, flx_error *err)
{
    flxi_kbound bound[TOY_BUFFERS + 1] = {0};
    if (!w->kernel) {
        memmove(real(w->data[1]), real(w->data[0]), w->nbytes);
        atomic_fetch_add(&copies_run, 1);
        return FLX_OK;
    }
    for (uint32_t i = 1; i <= w->kernel->num_buffers; i++)
        bound[i] = (flxi_kbound){real(w->data[i - 1]), w->kernel->buffers[i].count};
    flxi_kdispatch d = {.kernel = w->kernel,
                        .grid = {w->grid[0], w->grid[1], w->grid[2]},
                        .bound = bound,
                        .options.max_steps = UINT64_MAX};
    d.options.subgroup_size = w->lanes ? w->lanes : 1;
    atomic_fetch_add(&kernels_run, 1);
    return flxi_kernel_interpret(&d, err);
}

/* With the lock held. */
static flx_code run_all(flxi_queue *q, flx_error *err)
{
    flx_code code = FLX_OK;
    for (size_t i = 0; i < q->n && code == FLX_OK; i++)
        code = run_now(&q->steps[i], err);
    q->n = 0;
    return code;
}

static flx_code finish(const flxi_device_run *r)
{
    if (!r->queue)
        return FLX_OK;
    pthread_mutex_lock(&r->queue->lock);
    flx_code code = run_all(r->queue, r->err);
    pthread_mutex_unlock(&r->queue->lock);
    return code;
}

static flx_code enqueue(const flxi_device_run *r, const waiting *w)
{
    flx_code code = FLX_OK;
    flxi_queue *q = r->queue;
    if (!q)
        return run_now(w, r->err);
    if (q->noted)
        return flxi_push(q->mem, &q->noted->steps, *w) ? FLX_OK : flxi_oom(r->err, "the toy's sequence");
    pthread_mutex_lock(&q->lock);
    if (q->n == MAX_WAITING)
        code = run_all(q, r->err);
    q->steps[q->n++] = *w;
    pthread_mutex_unlock(&q->lock);
    atomic_fetch_add(&steps_late, 1);
    return code;
}

static flx_code open_queue(flx_context *ctx, int threads, flxi_queue **out, flx_error *err)
{
    const flxi_allocator *mem = flxi_context_mem(ctx);
    (void)threads;
    *out = flxi_alloc(mem, 1, sizeof **out);
    if (!*out)
        return flxi_oom(err, "the toy's queue");
    (*out)->mem = mem;
    pthread_mutex_init(&(*out)->lock, NULL);
    return FLX_OK;
}

static void close_queue(flxi_queue *q)
{
    if (!q)
        return;
    pthread_mutex_destroy(&q->lock);
    flxi_free(q->mem, q, 1, sizeof *q);
}

static void free_sequence(flxi_sequence *s)
{
    if (!s)
        return;
    flxi_vec_free(s->mem, &s->steps);
    flxi_vec_free(s->mem, &s->pieces);
    flxi_vec_free(s->mem, &s->after);
    flxi_free(s->mem, s, 1, sizeof *s);
}

static flx_code note(const flxi_device_run *r, flxi_queue **out)
{
    const flxi_allocator *mem = flxi_context_mem(r->ctx);
    flx_code code = open_queue(r->ctx, 1, out, r->err);
    if (code != FLX_OK)
        return code;
    (*out)->noted = flxi_alloc(mem, 1, sizeof *(*out)->noted);
    if ((*out)->noted) {
        (*out)->noted->mem = mem;
        return FLX_OK;
    }
    close_queue(*out);
    *out = NULL;
    return flxi_oom(r->err, "the toy's sequence");
}

static flx_code note_piece(const flxi_device_run *r, uint32_t i, const uint32_t *after, uint32_t num_after)
{
    flxi_sequence *s = r->queue->noted;
    const piece p = {.begin = s->steps.n, .first_after = s->after.n, .num_after = num_after};
    bool ok = i == s->pieces.n && flxi_push(s->mem, &s->pieces, p);
    for (uint32_t k = 0; k < num_after && ok; k++)
        ok = flxi_push(s->mem, &s->after, after[k]);
    return ok ? FLX_OK : flxi_oom(r->err, "the toy's sequence");
}

static flx_code end_note(const flxi_device_run *r, flxi_queue *queue, flxi_sequence **out)
{
    (void)r;
    if (out)
        *out = queue->noted;
    else
        free_sequence(queue->noted);
    close_queue(queue);
    return FLX_OK;
}

static bool may_run(const flxi_sequence *s, const piece *p)
{
    bool may = !p->has_run;
    for (size_t k = 0; k < p->num_after && may; k++)
        may = s->pieces.at[s->after.at[p->first_after + k]].has_run;
    return may;
}

static flx_code run_piece(const flxi_device_run *r, flxi_sequence *s, size_t i)
{
    flx_code code = FLX_OK;
    size_t end = i + 1 < s->pieces.n ? s->pieces.at[i + 1].begin : s->steps.n;
    for (size_t k = s->pieces.at[i].begin; code == FLX_OK && k < end; k++)
        code = enqueue(r, &s->steps.at[k]);
    s->pieces.at[i].has_run = true;
    return code;
}

static flx_code run_sequence(const flxi_device_run *r, flxi_sequence *s)
{
    flx_code code = FLX_OK;
    for (size_t i = 0; i < s->pieces.n; i++)
        s->pieces.at[i].has_run = false;
    for (size_t k = 0; code == FLX_OK && !s->pieces.n && k < s->steps.n; k++)
        code = enqueue(r, &s->steps.at[k]);
    for (size_t done = 0; code == FLX_OK && done < s->pieces.n; done++) {
        size_t i = s->pieces.n - 1;
        while (!may_run(s, &s->pieces.at[i]))
            i--;
        atomic_fetch_add(&pieces_moved, i != done);
        code = run_piece(r, s, i);
    }
    atomic_fetch_add(&sequences_run, 1);
    return code;
}

static flx_code copy(const flxi_device_run *r, void *to, const void *from, size_t nbytes, flxi_copy_kind kind)
{
    if (kind == COPY_WITHIN)
        return enqueue(r, &(waiting){.nbytes = nbytes, .data = {(void *)(uintptr_t)from, to}});
    flx_code code = finish(r);
    atomic_fetch_add(kind == COPY_TO_DEVICE ? &sent : &received, 1);
    if (code == FLX_OK && kind == COPY_TO_DEVICE)
        memcpy(real(to), from, nbytes);
    else if (code == FLX_OK)
        memcpy(to, real(from), nbytes);
    return code;
}

/* ---- Kernels and nodes ---- */

/* The forms of a card, small enough that the samples of ops have all of them. */
static const flxi_kernel_form form = {.lanes = 4,
                                      .rows = 2,
                                      .width = 8,
                                      .long_row = 24,
                                      .fewer_rows = 2,
                                      .across = 64,
                                      .longest_row = 60,
                                      .vector = 8,
                                      .large_map = 40};

static const char *refuse_kernel(const flx_kernel *k)
{
    return k->num_buffers > TOY_BUFFERS ? "the toy takes no more than six buffers" : NULL;
}

static void accept_node(const flxi_device_node *n, int threads, flxi_node_way *way)
{
    (void)n;
    (void)threads;
    *way = (flxi_node_way){0};
}

static flx_code compile(const flxi_compile_request *q, flxi_kernel_code *kernels, flxi_device_code **code,
                        flx_error *err)
{
    (void)err;
    for (size_t i = 0; i < q->num_kernels; i++)
        kernels[i].code = q->kernels[i];
    *code = NULL;
    return FLX_OK;
}

static flx_code run_kernel(const flxi_device_run *r, const flxi_kernel_step *s)
{
    waiting w = {.kernel = s->code, .grid = {s->grid[0], s->grid[1], s->grid[2]}, .lanes = s->lanes};
    for (uint32_t i = 0; i < w.kernel->num_buffers; i++) {
        uint8_t access = w.kernel->buffers[i + 1].access;
        if (access != FLX_KERNEL_WORKGROUP && access != FLX_KERNEL_PRIVATE)
            w.data[i] = s->data[i];
    }
    return enqueue(r, &w);
}

const flxi_device toy_device = {
    .name = "toy",
    .about = "kernels on the interpreter, everything else on the host",
    .run_dispatch = flxi_kernel_interpret,
    .checks_kernels = true,
    .form = &form,
    .refuse_kernel = refuse_kernel,
    .accept_node = accept_node,
    .compile = compile,
    .open_queue = open_queue,
    .close_queue = close_queue,
    .min_parallel = INT64_MAX,
    .allocate = allocate,
    .release = release,
    .copy = copy,
    .finish = finish,
    .run_kernel = run_kernel,
    .note = note,
    .note_piece = note_piece,
    .end_note = end_note,
    .run_sequence = run_sequence,
    .free_sequence = free_sequence,
};
