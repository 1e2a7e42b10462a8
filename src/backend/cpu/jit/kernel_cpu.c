/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_cpu.c: device "cpu" of kernels: emits C, compiles it once, runs it on all cores. The same code serves all
   dispatches of a kernel: lengths, grid and subgroup size are arguments. */
#include "backend/cpu/jit/kernel_cpu.h"

#include "backend/cpu/jit/compile_c.h"
#include "backend/kernel_cache.h"
#include "backend/kernel_status.h"
#include "base/host/stop.h"
#include "base/host/thread_pool.h"
#include "emit/kernel_emit.h"

/* Below this many invocations waking threads costs more than it gives. */
static const uint64_t min_parallel = 8192;
/* Pieces of a dispatch: enough to balance any number of threads that is likely. */
static const uint64_t max_pieces = 256;

/* Invocations of a piece at most, so that a dispatch can be stopped between pieces. */
static const uint64_t piece_invocations = (uint64_t)1 << 18;

/* The layout that emitted code knows as k_dispatch. */
typedef struct {
    void *const *data;
    const uint32_t *count;
    uint32_t grid[3], lanes;
    const void *sizes;
} arguments;

typedef void (*kernel_fn)(const arguments *d, uint64_t begin, uint64_t end, unsigned char *scratch, uint32_t *status);

typedef struct {
    flxi_object *object;
    size_t users; /* kernels of it that are kept */
} unit;

typedef struct {
    unit *unit;
    kernel_fn run;
    flxi_kentry entry;
} compiled;

typedef struct {
    const flxi_allocator *mem;
    flxi_kcache kernels;
    flxi_compile_service *compiler;
    flxi_pool *pool;
} engine;

/* ---- What a context keeps ---- */

static void free_compiled(void *owner, void *data)
{
    const flxi_allocator *mem = ((engine *)owner)->mem;
    compiled *k = data;
    if (k->unit && --k->unit->users == 0) {
        flxi_object_free(k->unit->object);
        flxi_free(mem, k->unit, 1, sizeof *k->unit);
    }
    flxi_free(mem, k, 1, sizeof *k);
}

static void *make_engine(flx_context *ctx)
{
    const flxi_allocator *mem = flxi_context_mem(ctx);
    engine *e = flxi_alloc(mem, 1, sizeof *e);
    if (!e)
        return NULL;
    e->mem = mem;
    e->compiler = flxi_compile_service_new(mem, NULL);
    if (!e->compiler || !flxi_kcache_init(&e->kernels, mem, free_compiled, e)) {
        flxi_compile_service_free(e->compiler);
        flxi_free(mem, e, 1, sizeof *e);
        return NULL;
    }
    e->pool = flxi_pool_new(mem, 0); /* without one everything runs on the caller */
    return e;
}

static void free_engine(void *data)
{
    engine *e = data;
    flxi_kcache_free(&e->kernels);
    flxi_compile_service_free(e->compiler);
    flxi_pool_free(e->pool);
    flxi_free(e->mem, e, 1, sizeof *e);
}

static flx_code engine_of(flx_context *ctx, engine **e, flx_error *err)
{
    *e = flxi_context_attached(ctx, make_engine, free_engine);
    return *e ? FLX_OK : flxi_oom(err, "compiled kernels");
}

/* ---- Compiling ---- */

typedef struct {
    compiled *kernel;
    flxi_kcache_key key;
} made;

typedef struct {
    engine *engine;
    flxi_kfile file;
    FLXI_VEC(made) made;
    unsigned flags;
    flx_error *err;
} batch;

static void start_batch(batch *b, engine *e, unsigned flags, flx_error *err)
{
    *b = (batch){.engine = e, .flags = flags, .err = err};
    flxi_kfile_init(&b->file, &flxi_target_c, e->mem);
}

/* Writes the kernel into the batch and takes ownership of the key. */
static flx_code add_kernel(batch *b, const flx_kernel *k, flxi_kcache_key *key)
{
    made m = {flxi_alloc(b->engine->mem, 1, sizeof *m.kernel), *key};
    if (!m.kernel || !flxi_push(b->engine->mem, &b->made, m)) {
        if (m.kernel)
            flxi_free(b->engine->mem, m.kernel, 1, sizeof *m.kernel);
        flxi_kcache_key_free(key);
        return flxi_oom(b->err, "a compiled kernel");
    }
    FLXI_TRY(flxi_kernel_check_target(k, &flxi_target_c, b->err));
    return flxi_kernel_write(&b->file, k, &m.kernel->entry, b->err);
}

static flx_code find_functions(batch *b, unit *u)
{
    for (size_t i = 0; i < b->made.n; i++) {
        b->made.at[i].kernel->unit = u;
        u->users++;
    }
    for (size_t i = 0; i < b->made.n; i++) {
        compiled *k = b->made.at[i].kernel;
        *(void **)&k->run = flxi_object_symbol(u->object, k->entry.name);
        if (!k->run)
            return flxi_fail(b->err, FLX_E_INTERNAL, "the compiled kernel has no function '%s'", k->entry.name);
    }
    return FLX_OK;
}

static flx_code compile_batch(batch *b)
{
    flxi_strbuf text;
    flxi_strbuf_init(&text, b->engine->mem);
    unit *u = flxi_alloc(b->engine->mem, 1, sizeof *u);
    flx_code code = u ? flxi_kfile_text(&b->file, &text, b->err) : flxi_oom(b->err, "a compiled kernel");
    if (code == FLX_OK) {
        flxi_c_unit source = {.text = text.at, .n = text.n};
        code = flxi_compile_c(b->engine->compiler, &source, 1, FLXI_C_O2, b->flags, b->err);
        u->object = source.object;
    }
    flxi_strbuf_free(&text);
    if (code == FLX_OK)
        return find_functions(b, u);
    if (u)
        flxi_free(b->engine->mem, u, 1, sizeof *u);
    return code;
}

/* Moves the results into the cache, or discards them. The first is held for the caller if `held` is given. */
static flx_code end_batch(batch *b, flx_code code, flxi_kcached **held)
{
    for (size_t i = 0; i < b->made.n; i++) {
        flxi_kcached *kept = NULL;
        if (code == FLX_OK) {
            code = flxi_kcache_keep(&b->engine->kernels, &b->made.at[i].key, b->made.at[i].kernel, &kept, b->err);
        } else {
            free_compiled(b->engine, b->made.at[i].kernel);
            flxi_kcache_key_free(&b->made.at[i].key);
        }
        if (kept && held && i == 0)
            *held = kept;
        else if (kept)
            flxi_kcache_put_back(&b->engine->kernels, kept);
    }
    flxi_vec_free(b->engine->mem, &b->made);
    flxi_kfile_free(&b->file);
    return code;
}

static unsigned compiler_flags(const flx_kernel *k)
{
    return k->flags & FLX_KERNEL_CONTRACT ? FLXI_C_CONTRACT : 0;
}

static flx_code get_compiled(engine *e, const flx_kernel *k, flxi_kcached **held, flx_error *err)
{
    flxi_kcache_key key;
    FLXI_TRY(flxi_kcache_key_of(k, &key, err));
    if ((*held = flxi_kcache_find(&e->kernels, &key))) {
        flxi_kcache_key_free(&key);
        return FLX_OK;
    }
    batch b;
    start_batch(&b, e, compiler_flags(k), err);
    flx_code code = add_kernel(&b, k, &key);
    if (code == FLX_OK)
        code = compile_batch(&b);
    return end_batch(&b, code, held);
}

/* Those of the kernels with these flags that are not kept yet. */
static flx_code prepare(engine *e, flx_kernel *const *kernels, size_t n, unsigned flags, flx_error *err)
{
    batch b;
    flx_code code = FLX_OK;
    start_batch(&b, e, flags, err);
    for (size_t i = 0; code == FLX_OK && i < n; i++) {
        flxi_kcache_key key;
        if (compiler_flags(kernels[i]) != flags)
            continue;
        code = flxi_kcache_key_of(kernels[i], &key, err);
        flxi_kcached *known = code == FLX_OK ? flxi_kcache_find(&e->kernels, &key) : NULL;
        if (known) {
            flxi_kcache_put_back(&e->kernels, known);
            flxi_kcache_key_free(&key);
        } else if (code == FLX_OK) {
            code = add_kernel(&b, kernels[i], &key);
        }
    }
    if (code == FLX_OK && b.made.n > 0)
        code = compile_batch(&b);
    return end_batch(&b, code, NULL);
}

flx_code flxi_cpu_prepare(flx_kernel *const *kernels, size_t n, flx_error *err)
{
    engine *e;
    if (n == 0)
        return FLX_OK;
    FLXI_TRY(engine_of(kernels[0]->ctx, &e, err));
    FLXI_TRY(prepare(e, kernels, n, 0, err));
    return prepare(e, kernels, n, FLXI_C_CONTRACT, err);
}

/* ---- Memory of a dispatch ---- */

typedef struct {
    const flxi_kdispatch *d;
    const compiled *k;
    const flxi_allocator *mem;
    arguments args;
    void **data;
    uint32_t *count;
    uint64_t groups, piece;
    unsigned char *scratch; /* one part for each thread that may run */
    size_t scratch_size;    /* of a part */
    atomic_flag *taken;     /* by part */
    size_t parts;
    pthread_mutex_t lock; /* guards the two below */
    uint64_t trapped;     /* first workgroup of the piece that trapped, UINT64_MAX if none did */
    uint32_t status[KSTATUS_WORDS];
} dispatch;

/* For buffers without elements: a guarded load is never done, but the pointer must be one. */
static uint64_t nothing;

static bool is_aligned(const flxi_kbuffer *b, const void *data)
{
    return (uintptr_t)data % flxi_ktype_bytes(b->element, 1) == 0;
}

/* Compiled code expects natural alignment: memory without it is copied, and back when the kernel may have changed
   it. */
static flx_code bind(dispatch *r, flx_error *err)
{
    const flx_kernel *k = r->d->kernel;
    for (uint32_t i = 1; i <= k->num_buffers; i++) {
        const flxi_kbound *b = &r->d->bound[i];
        size_t size = flxi_ktype_bytes(k->buffers[i].element, b->count);
        r->count[i - 1] = flxi_kbound_length(b);
        r->data[i - 1] = b->data && size ? b->data : (void *)&nothing;
        if (!b->data || !size || is_aligned(&k->buffers[i], b->data))
            continue;
        r->data[i - 1] = flxi_alloc(r->mem, size, 1);
        if (!r->data[i - 1])
            return flxi_oom(err, "the memory of a kernel");
        memcpy(r->data[i - 1], b->data, size);
    }
    return FLX_OK;
}

static void unbind(dispatch *r)
{
    const flx_kernel *k = r->d->kernel;
    for (uint32_t i = 1; r->data && i <= k->num_buffers; i++) {
        const flxi_kbound *b = &r->d->bound[i];
        void *copy = r->data[i - 1];
        if (!copy || copy == b->data || copy == &nothing)
            continue;
        size_t size = flxi_ktype_bytes(k->buffers[i].element, b->count);
        if (k->buffers[i].access == FLX_KERNEL_WRITE || k->buffers[i].access == FLX_KERNEL_READ_WRITE)
            memcpy(b->data, copy, size);
        flxi_free(r->mem, copy, size, 1);
    }
}

static flx_code count_groups(dispatch *r, flx_error *err)
{
    const uint32_t *grid = r->d->grid, *size = r->d->kernel->size;
    r->groups = (uint64_t)grid[0] * grid[1];
    if (__builtin_mul_overflow(r->groups, grid[2], &r->groups) || r->groups > INT64_MAX ||
        (uint64_t)grid[0] * size[0] > UINT32_MAX)
        return flxi_fail_hint(err, FLX_E_SIZE, "make it several dispatches",
                              "a grid of [%u, %u, %u] workgroups is too large for compiled kernels", grid[0], grid[1],
                              grid[2]);
    return FLX_OK;
}

/* ---- Running ---- */

static unsigned char *take_part(dispatch *r)
{
    for (size_t i = 0;; i = (i + 1) % r->parts)
        if (!atomic_flag_test_and_set_explicit(&r->taken[i], memory_order_acquire))
            return r->scratch + i * r->scratch_size;
}

static void give_part(dispatch *r, const unsigned char *part)
{
    size_t i = r->scratch_size ? (size_t)(part - r->scratch) / r->scratch_size : 0;
    atomic_flag_clear_explicit(&r->taken[i], memory_order_release);
}

static void run_piece(void *user, int64_t begin, int64_t end)
{
    dispatch *r = user;
    uint32_t status[KSTATUS_WORDS] = {0};
    pthread_mutex_lock(&r->lock);
    bool is_late = r->trapped < (uint64_t)begin;
    pthread_mutex_unlock(&r->lock);
    if (is_late)
        return;
    unsigned char *part = r->scratch_size ? take_part(r) : r->scratch;
    r->k->run(&r->args, (uint64_t)begin, (uint64_t)end, part, status);
    if (r->scratch_size)
        give_part(r, part);
    pthread_mutex_lock(&r->lock);
    if (status[KSTATUS_TRAPPED] && (uint64_t)begin < r->trapped) {
        r->trapped = (uint64_t)begin;
        memcpy(r->status, status, KSTATUS_INDIRECT * sizeof *status);
    }
    if (status[KSTATUS_INDIRECT])
        r->status[KSTATUS_INDIRECT] = status[KSTATUS_INDIRECT];
    pthread_mutex_unlock(&r->lock);
}

static flx_code run(dispatch *r, engine *e, flx_error *err)
{
    bool is_small = r->groups * flxi_kernel_workgroup(r->d->kernel) < min_parallel;
    flxi_pool *pool = r->k->entry.is_ordered || is_small ? NULL : e->pool;
    r->parts = pool ? (size_t)flxi_pool_threads(pool) : 1;
    r->scratch_size = r->k->entry.scratch;
    uint64_t pieces = r->groups * flxi_kernel_workgroup(r->d->kernel) / piece_invocations + 1;
    pieces = pool && pieces < max_pieces ? max_pieces : pieces;
    r->piece = (r->groups + pieces - 1) / pieces;
    size_t bytes;
    if (!flxi_mul_size(r->parts, r->scratch_size, &bytes) || !flxi_add_size(bytes, 64, &bytes))
        return flxi_oom(err, "the memory of a kernel");
    unsigned char *block = flxi_alloc(r->mem, bytes, 1);
    r->taken = flxi_alloc(r->mem, r->parts, sizeof *r->taken);
    flx_code code = block && r->taken ? FLX_OK : flxi_oom(err, "the memory of a kernel");
    if (code == FLX_OK) {
        r->scratch = block + (0 - (uintptr_t)block) % 64;
        for (size_t i = 0; i < r->parts; i++)
            atomic_flag_clear(&r->taken[i]);
        flxi_pool_run(pool, (int64_t)r->groups, (int64_t)r->piece, run_piece, r);
        code = flxi_kernel_report_status(r->d, r->status, err);
    }
    if (block)
        flxi_free(r->mem, block, bytes, 1);
    if (r->taken)
        flxi_free(r->mem, r->taken, r->parts, sizeof *r->taken);
    return code;
}

static flx_code bind_and_run(dispatch *r, engine *e, flx_error *err)
{
    const flx_kernel *k = r->d->kernel;
    size_t n = k->num_buffers;
    r->data = flxi_alloc(r->mem, n, sizeof *r->data);
    r->count = flxi_alloc(r->mem, n, sizeof *r->count);
    flx_code code = r->data && r->count ? bind(r, err) : flxi_oom(err, "the memory of a kernel");
    r->args = (arguments){.data = r->data, .count = r->count, .lanes = r->d->options.subgroup_size};
    memcpy(r->args.grid, r->d->grid, sizeof r->args.grid);
    if (code == FLX_OK && pthread_mutex_init(&r->lock, NULL) != 0)
        code = flxi_oom(err, "the memory of a kernel");
    else if (code == FLX_OK) {
        code = run(r, e, err);
        pthread_mutex_destroy(&r->lock);
    }
    unbind(r);
    if (r->data)
        flxi_free(r->mem, r->data, n, sizeof *r->data);
    if (r->count)
        flxi_free(r->mem, r->count, n, sizeof *r->count);
    return code;
}

flx_code flxi_kernel_run_cpu(const flxi_kdispatch *d, flx_error *err)
{
    engine *e;
    flxi_kcached *held;
    dispatch r = {.d = d, .mem = flxi_kernel_mem(d->kernel), .trapped = UINT64_MAX};
    FLXI_TRY(engine_of(d->kernel->ctx, &e, err));
    FLXI_TRY(get_compiled(e, d->kernel, &held, err));
    r.k = flxi_kcached_data(held);
    flx_code code = count_groups(&r, err);
    if (code == FLX_OK && r.groups > 0)
        code = flxi_stop_or(bind_and_run(&r, e, err), err);
    flxi_kcache_put_back(&e->kernels, held);
    return code;
}
