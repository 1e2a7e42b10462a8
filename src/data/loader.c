/* SPDX-License-Identifier: Apache-2.0 */
/* loader.c: batches of a dataset. Where a batch begins, which rows it has and where the next one begins follow from the
   position (epoch, row) alone, so the same function serves the caller and the thread that is one batch ahead.

   With FLX_LOADER_PREFETCH there are two slots. The thread fills an EMPTY one and makes it FULL; the caller takes a
   FULL one, uses its tensors, and makes it EMPTY with the next call. Slots take turns on both sides, so batches stay in
   order. The thread ends after the last batch, after an error, and when it is asked to; seeking ends it and starts it
   again at the new position. */
#include "data/dataset.h"
#include "data/permutation.h"

#include "base/host/quiet_thread.h"
#include "base/host/stop.h"
#include "base/options.h"
#include "graph/type/tensor.h"

typedef struct {
    int64_t epoch, row;
} position;

typedef struct {
    bool is_full;       /* guarded by the lock, as long as there is a thread */
    int64_t rows;       /* of the batch */
    flx_tensor **whole; /* by column: batches of the usual size */
    flx_tensor **part;  /* views of `part_rows` rows of them, for the last batch of an epoch; made when needed */
    int64_t part_rows;
    flx_feed *feeds;
    flx_code code; /* of filling it */
    flx_error error;
} slot;

struct flx_loader {
    flx_context *ctx;
    const flxi_allocator *mem;
    flxi_arena arena;
    flxi_column *columns; /* they hold their tensors */
    size_t num_columns;
    int64_t rows, batch, epochs;
    uint32_t flags;
    uint64_t seed;
    slot slots[2];
    position next; /* of the batch that the caller gets next */
    int turn;      /* the slot with that batch */
    bool is_given; /* the caller uses the other slot */
    /* Of the thread, or without one of the caller: */
    position fill;
    int64_t *order;   /* rows of the batch */
    void *scratch;    /* for columns that are made and converted */
    uint32_t *table;  /* of the permutation, or NULL */
    int64_t shuffled; /* the epoch of `permutation`; -1: none */
    flxi_permutation permutation;
    pthread_t thread;
    bool is_running; /* to be joined */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_ending; /* guarded by the lock */
};

/* ---- Positions ---- */

static int64_t rows_at(const flx_loader *l, position p)
{
    int64_t left = l->rows - p.row;
    return left < l->batch ? left : l->batch;
}

/* A position at which a batch begins: the end of an epoch is the beginning of the next. */
static position settled(const flx_loader *l, position p)
{
    int64_t left = l->rows - p.row;
    bool is_over = left == 0 || ((l->flags & FLX_LOADER_DROP_LAST) && left < l->batch);
    return is_over ? (position){p.epoch + 1, 0} : p;
}

static position after(const flx_loader *l, position p)
{
    return settled(l, (position){p.epoch, p.row + rows_at(l, p)});
}

static bool is_end(const flx_loader *l, position p)
{
    return l->epochs > 0 && p.epoch >= l->epochs;
}

/* ---- Filling a slot ---- */

static void release_whole(void *user, void *data)
{
    (void)data;
    flx_tensor_release(user);
}

/* Views of the first rows of the slot's tensors, which they hold. */
static flx_code make_part(const flx_loader *l, slot *s, int64_t rows, flx_error *err)
{
    for (size_t i = 0; i < l->num_columns; i++) {
        flx_type type = s->whole[i]->type;
        type.dims[0] = rows;
        flx_tensor_release(s->part[i]);
        s->part[i] = flx_tensor_wrap(l->ctx, &type, s->whole[i]->data, release_whole, s->whole[i], err);
        if (!s->part[i]) {
            s->part_rows = 0;
            return err ? (flx_code)err->code : FLX_E_OOM;
        }
        flx_tensor_retain(s->whole[i]);
    }
    s->part_rows = rows;
    return FLX_OK;
}

static void choose_rows(flx_loader *l, position p, int64_t count)
{
    if (!(l->flags & FLX_LOADER_SHUFFLE)) {
        for (int64_t i = 0; i < count; i++)
            l->order[i] = p.row + i;
        return;
    }
    if (l->shuffled != p.epoch)
        flxi_permutation_begin(&l->permutation, (uint64_t)l->rows, l->seed, (uint64_t)p.epoch, l->table);
    l->shuffled = p.epoch;
    for (int64_t i = 0; i < count; i++)
        l->order[i] = (int64_t)flxi_permutation_at(&l->permutation, (uint64_t)(p.row + i));
}

static flx_code fill(flx_loader *l, slot *s, position p, flx_error *err)
{
    s->rows = rows_at(l, p);
    bool is_whole = s->rows == l->batch;
    if (!is_whole && s->part_rows != s->rows)
        FLXI_TRY(make_part(l, s, s->rows, err));
    choose_rows(l, p, s->rows);
    for (size_t i = 0; i < l->num_columns; i++) {
        FLXI_TRY(flxi_column_gather(&l->columns[i], l->order, s->rows, s->whole[i]->data, l->scratch, err));
        FLXI_TRY(flxi_stop_check(err));
        s->feeds[i].value = is_whole ? s->whole[i] : s->part[i];
    }
    return FLX_OK;
}

/* ---- The thread ---- */

static bool wait_for_empty(flx_loader *l, const slot *s)
{
    pthread_mutex_lock(&l->lock);
    while (!l->is_ending && s->is_full)
        pthread_cond_wait(&l->changed, &l->lock);
    bool is_ending = l->is_ending;
    pthread_mutex_unlock(&l->lock);
    return !is_ending;
}

static void *run_ahead(void *user)
{
    flx_loader *l = user;
    int turn = 0;
    flx_code code = FLX_OK;
    while (code == FLX_OK && !is_end(l, l->fill) && wait_for_empty(l, &l->slots[turn])) {
        slot *s = &l->slots[turn];
        s->error = (flx_error){0};
        code = fill(l, s, l->fill, &s->error);
        l->fill = after(l, l->fill);
        pthread_mutex_lock(&l->lock);
        s->code = code;
        s->is_full = true;
        pthread_cond_broadcast(&l->changed);
        pthread_mutex_unlock(&l->lock);
        turn = !turn;
    }
    return NULL;
}

/* False where the system has no thread left: the caller then fills batches itself. */
static bool start(flx_loader *l)
{
    l->fill = l->next;
    l->turn = 0;
    l->is_ending = false;
    l->is_running = flxi_thread_start(&l->thread, run_ahead, l);
    return l->is_running;
}

static void halt(flx_loader *l)
{
    if (l->is_running) {
        pthread_mutex_lock(&l->lock);
        l->is_ending = true;
        pthread_cond_broadcast(&l->changed);
        pthread_mutex_unlock(&l->lock);
        pthread_join(l->thread, NULL);
    }
    l->is_running = l->is_given = false;
    l->slots[0].is_full = l->slots[1].is_full = false;
}

/* The slot with the next batch; NULL if the caller's stop was set first. */
static slot *wait_for_full(flx_loader *l)
{
    slot *s = &l->slots[l->turn];
    pthread_mutex_lock(&l->lock);
    if (l->is_given) {
        l->slots[!l->turn].is_full = false;
        pthread_cond_broadcast(&l->changed);
    }
    l->is_given = false;
    while (!s->is_full && !flxi_stopped())
        flxi_stop_wait(&l->changed, &l->lock);
    bool is_full = s->is_full;
    pthread_mutex_unlock(&l->lock);
    return is_full ? s : NULL;
}

static flx_code next_ahead(flx_loader *l, slot **out, flx_error *err)
{
    slot *s = wait_for_full(l);
    if (!s)
        return flxi_stop_check(err);
    if (s->code != FLX_OK) {
        flx_code code = s->code;
        if (err)
            *err = s->error;
        halt(l); /* a later call begins with this batch again */
        return code;
    }
    l->is_given = true;
    l->turn = !l->turn;
    *out = s;
    return FLX_OK;
}

/* ---- The caller ---- */

flx_code flx_loader_next(flx_loader *l, const flx_feed **feeds, size_t *count, flx_error *err)
{
    if (!l || !feeds || !count)
        return flxi_fail(err, FLX_E_USAGE, "flx_loader_next: loader, feeds and count must not be NULL");
    *feeds = NULL;
    *count = 0;
    if (is_end(l, l->next))
        return FLX_OK;
    slot *s = &l->slots[0];
    bool is_ahead = (l->flags & FLX_LOADER_PREFETCH) && (l->is_running || start(l));
    FLXI_TRY(is_ahead ? next_ahead(l, &s, err) : fill(l, s, l->next, err));
    l->next = after(l, l->next);
    *feeds = s->feeds;
    *count = l->num_columns;
    return FLX_OK;
}

void flx_loader_position(const flx_loader *l, int64_t *epoch, int64_t *row)
{
    if (epoch)
        *epoch = l ? l->next.epoch : 0;
    if (row)
        *row = l ? l->next.row : 0;
}

flx_code flx_loader_seek(flx_loader *l, int64_t epoch, int64_t row, flx_error *err)
{
    if (!l)
        return flxi_fail(err, FLX_E_USAGE, "flx_loader_seek: the loader is NULL");
    if (epoch < 0 || epoch == INT64_MAX || row < 0 || row > l->rows)
        return flxi_fail(err, FLX_E_USAGE, "epoch %lld, row %lld is not a position in a dataset of %lld rows",
                         (long long)epoch, (long long)row, (long long)l->rows);
    halt(l);
    l->next = settled(l, (position){epoch, row});
    return FLX_OK;
}

int64_t flx_loader_batches(const flx_loader *l)
{
    if (!l)
        return 0;
    return l->rows / l->batch + (l->rows % l->batch && !(l->flags & FLX_LOADER_DROP_LAST));
}

/* ---- Making and freeing ---- */

static flx_code hold_columns(flx_loader *l, const flx_dataset *d, flx_error *err)
{
    l->columns = flxi_new(&l->arena, flxi_column, d->columns.n);
    if (!l->columns)
        return flxi_oom(err, "a loader");
    for (size_t i = 0; i < d->columns.n; i++) {
        flxi_column c = d->columns.at[i];
        c.name = flxi_arena_text(&l->arena, c.name, strlen(c.name));
        if (!c.name)
            return flxi_oom(err, "a loader");
        if (c.base)
            flx_tensor_retain(c.base);
        l->columns[i] = c;
        l->num_columns = i + 1;
    }
    return FLX_OK;
}

static flx_code make_slot(flx_loader *l, slot *s, flx_error *err)
{
    s->whole = flxi_new(&l->arena, flx_tensor *, l->num_columns);
    s->part = flxi_new(&l->arena, flx_tensor *, l->num_columns);
    s->feeds = flxi_new(&l->arena, flx_feed, l->num_columns);
    if (!s->whole || !s->part || !s->feeds)
        return flxi_oom(err, "a loader");
    for (size_t i = 0; i < l->num_columns; i++) {
        flx_type type = l->columns[i].type;
        type.dims[0] = l->batch;
        s->whole[i] = flx_tensor_new(l->ctx, &type, NULL, err);
        if (!s->whole[i])
            return err ? (flx_code)err->code : FLX_E_OOM;
        s->feeds[i] = (flx_feed){l->columns[i].name, s->whole[i]};
    }
    return FLX_OK;
}

static flx_code make_loader(flx_loader *l, const flx_dataset *d, flx_error *err)
{
    size_t scratch = 0;
    FLXI_TRY(hold_columns(l, d, err));
    FLXI_TRY(make_slot(l, &l->slots[0], err));
    if (l->flags & FLX_LOADER_PREFETCH)
        FLXI_TRY(make_slot(l, &l->slots[1], err));
    for (size_t i = 0; i < l->num_columns; i++)
        if (flxi_column_scratch(&l->columns[i]) > scratch)
            scratch = flxi_column_scratch(&l->columns[i]);
    l->order = flxi_new(&l->arena, int64_t, l->batch);
    l->scratch = flxi_arena_alloc(&l->arena, scratch, 1, 64);
    bool has_table = (l->flags & FLX_LOADER_SHUFFLE) && l->rows <= FLXI_PERMUTATION_TABLE;
    l->table = has_table ? flxi_new(&l->arena, uint32_t, l->rows) : NULL;
    return l->order && l->scratch && (l->table || !has_table) ? FLX_OK : flxi_oom(err, "a loader");
}

static flx_code check_options(const flx_dataset *d, flx_loader_options *o, flx_error *err)
{
    const uint32_t known = FLX_LOADER_SHUFFLE | FLX_LOADER_DROP_LAST | FLX_LOADER_PREFETCH;
    if (o->flags & ~known)
        return flxi_fail(err, FLX_E_USAGE, "flx_loader_new: unknown flags %#x", (unsigned)(o->flags & ~known));
    if (o->batch < 0 || o->epochs < 0)
        return flxi_fail(err, FLX_E_USAGE, "flx_loader_new: batch is %lld and epochs %lld: they must not be negative",
                         (long long)o->batch, (long long)o->epochs);
    o->batch = o->batch ? o->batch : 32;
    if (d->rows == 0 || d->columns.n == 0)
        return flxi_fail(err, FLX_E_SIZE, "the dataset has no rows");
    if ((o->flags & FLX_LOADER_DROP_LAST) && d->rows < o->batch)
        return flxi_fail_hint(err, FLX_E_SIZE, "use a smaller batch, or no FLX_LOADER_DROP_LAST",
                              "the dataset has %lld rows, fewer than a batch of %lld", (long long)d->rows,
                              (long long)o->batch);
    if (o->batch > d->rows) /* never filled: no memory for it */
        o->batch = d->rows;
    return FLX_OK;
}

flx_loader *flx_loader_new(const flx_dataset *d, const flx_loader_options *options, flx_error *err)
{
    flx_loader_options o;
    if (!d) {
        flxi_fail(err, FLX_E_USAGE, "flx_loader_new: the dataset is NULL");
        return NULL;
    }
    if (FLXI_READ_OPTIONS(flx_loader_options, &o, options, err) != FLX_OK || check_options(d, &o, err) != FLX_OK)
        return NULL;
    flx_loader *l = flxi_alloc(d->mem, 1, sizeof *l);
    if (!l) {
        flxi_oom(err, "a loader");
        return NULL;
    }
    l->ctx = d->ctx;
    l->mem = d->mem;
    l->rows = d->rows;
    l->batch = o.batch;
    l->epochs = o.epochs;
    l->flags = o.flags;
    l->seed = o.seed;
    l->shuffled = -1;
    flxi_arena_init(&l->arena, d->mem);
    pthread_mutex_init(&l->lock, NULL); /* cannot fail with the default attributes */
    pthread_cond_init(&l->changed, NULL);
    if (make_loader(l, d, err) == FLX_OK)
        return l;
    flx_loader_free(l);
    return NULL;
}

static void free_slot(const flx_loader *l, slot *s)
{
    for (size_t i = 0; i < l->num_columns; i++) {
        if (s->part)
            flx_tensor_release(s->part[i]);
        if (s->whole)
            flx_tensor_release(s->whole[i]);
    }
}

void flx_loader_free(flx_loader *l)
{
    if (!l)
        return;
    const flxi_allocator *mem = l->mem;
    halt(l);
    free_slot(l, &l->slots[0]);
    free_slot(l, &l->slots[1]);
    for (size_t i = 0; i < l->num_columns; i++)
        flx_tensor_release(l->columns[i].base);
    pthread_mutex_destroy(&l->lock);
    pthread_cond_destroy(&l->changed);
    flxi_arena_free(&l->arena);
    flxi_free(mem, l, 1, sizeof *l);
}
