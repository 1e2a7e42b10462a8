/* kernel_cpu.c: device "cpu" of kernels: emits C, compiles it once, runs it on all cores.

   Compiled kernels are kept in memory with their context, by their wire form; the oldest that is not running makes room. The
   same code serves all dispatches: lengths, grid and subgroup size are arguments. */
#include "backend/cpu/kernel_cpu.h"

#include "backend/cpu/compile_c.h"
#include "base/thread_pool.h"
#include "codegen/kernel_emit.h"
#include "ir/context.h"
#include "kernel/kernel_code.h"

/* Kernels that are kept when none of them runs. */
static const size_t max_kept = 512;
/* Below this many invocations waking threads costs more than it gives. */
static const uint64_t min_parallel = 8192;
/* Pieces of a dispatch: enough to balance any number of threads that is likely. */
static const uint64_t max_pieces = 256;

/* The layout that emitted code knows as k_dispatch. */
typedef struct {
    void *const *data;
    const uint32_t *count;
    uint32_t grid[3], lanes;
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
    flx_buffer key; /* the wire form */
    uint64_t hash;
    size_t running;   /* dispatches that hold it */
    uint64_t last_use;
} compiled;

typedef struct {
    const flxi_allocator *mem;
    pthread_mutex_t lock;
    FLXI_VEC(compiled *) kept;
    uint64_t clock;
    flxi_pool *pool;
} cache;

/* ---- The cache ---- */

static void *make_cache(flx_context *ctx)
{
    const flxi_allocator *mem = flxi_context_mem(ctx);
    cache *c = flxi_alloc(mem, 1, sizeof *c);
    if (!c)
        return NULL;
    c->mem = mem;
    if (pthread_mutex_init(&c->lock, NULL) != 0) {
        flxi_free(mem, c, 1, sizeof *c);
        return NULL;
    }
    c->pool = flxi_pool_new(mem, 0); /* without one everything runs on the caller */
    return c;
}

static void release_unit(cache *c, unit *u)
{
    if (--u->users > 0)
        return;
    flxi_object_free(u->object);
    flxi_free(c->mem, u, 1, sizeof *u);
}

static void free_compiled(cache *c, compiled *k)
{
    if (k->unit)
        release_unit(c, k->unit);
    flx_buffer_free(&k->key);
    flxi_free(c->mem, k, 1, sizeof *k);
}

static void free_cache(void *data)
{
    cache *c = data;
    for (size_t i = 0; i < c->kept.n; i++)
        free_compiled(c, c->kept.at[i]);
    flxi_vec_free(c->mem, &c->kept);
    flxi_pool_free(c->pool);
    pthread_mutex_destroy(&c->lock);
    flxi_free(c->mem, c, 1, sizeof *c);
}

static flx_code cache_of(flx_context *ctx, cache **c, flx_error *err)
{
    *c = flxi_context_attached(ctx, make_cache, free_cache);
    return *c ? FLX_OK : flxi_oom(err, "compiled kernels");
}

/* With the lock held: marks it as running. */
static compiled *find(cache *c, const flx_buffer *key, uint64_t hash)
{
    for (size_t i = 0; i < c->kept.n; i++) {
        compiled *k = c->kept.at[i];
        if (k->hash == hash && k->key.size == key->size && memcmp(k->key.data, key->data, key->size) == 0) {
            k->running++;
            k->last_use = ++c->clock;
            return k;
        }
    }
    return NULL;
}

static void make_room(cache *c)
{
    while (c->kept.n >= max_kept) {
        size_t oldest = SIZE_MAX;
        for (size_t i = 0; i < c->kept.n; i++)
            if (!c->kept.at[i]->running && (oldest == SIZE_MAX || c->kept.at[i]->last_use < c->kept.at[oldest]->last_use))
                oldest = i;
        if (oldest == SIZE_MAX)
            return;
        free_compiled(c, c->kept.at[oldest]);
        c->kept.at[oldest] = c->kept.at[--c->kept.n];
    }
}

/* Keeps a new one, unless another thread was faster. It is held by the caller, who gives it back with put_back(). */
static flx_code keep(cache *c, compiled *k, compiled **held, flx_error *err)
{
    pthread_mutex_lock(&c->lock);
    *held = find(c, &k->key, k->hash);
    bool is_new = !*held;
    if (is_new) {
        make_room(c);
        k->running = 1;
        k->last_use = ++c->clock;
        if (flxi_push(c->mem, &c->kept, k))
            *held = k;
    }
    if (!is_new || !*held)
        free_compiled(c, k);
    pthread_mutex_unlock(&c->lock);
    return *held ? FLX_OK : flxi_oom(err, "a compiled kernel");
}

static void put_back(cache *c, compiled *k)
{
    pthread_mutex_lock(&c->lock);
    k->running--;
    pthread_mutex_unlock(&c->lock);
}

/* ---- Compiling ---- */

typedef struct {
    cache *cache;
    flxi_kfile file;
    FLXI_VEC(compiled *) made;
    unsigned flags;
    flx_error *err;
} batch;

/* Writes the kernel into the batch; `key` is taken over. */
static flx_code add_kernel(batch *b, const flx_kernel *k, flx_buffer *key, uint64_t hash)
{
    compiled *made = flxi_alloc(b->cache->mem, 1, sizeof *made);
    if (!made || !flxi_push(b->cache->mem, &b->made, made)) {
        if (made)
            flxi_free(b->cache->mem, made, 1, sizeof *made);
        flx_buffer_free(key);
        return flxi_oom(b->err, "a compiled kernel");
    }
    made->key = *key;
    made->hash = hash;
    FLXI_TRY(flxi_kernel_check_target(k, &flxi_target_c, b->err));
    return flxi_kernel_write(&b->file, k, &made->entry, b->err);
}

static flx_code compile_batch(batch *b)
{
    flxi_strbuf text;
    flxi_strbuf_init(&text, b->cache->mem);
    unit *u = flxi_alloc(b->cache->mem, 1, sizeof *u);
    flx_code code = u ? flxi_kfile_text(&b->file, &text, b->err) : flxi_oom(b->err, "a compiled kernel");
    if (code == FLX_OK)
        code = flxi_compile_c(b->cache->mem, text.at, text.n, b->flags, &u->object, b->err);
    flxi_strbuf_free(&text);
    if (code != FLX_OK && u)
        flxi_free(b->cache->mem, u, 1, sizeof *u);
    for (size_t i = 0; code == FLX_OK && i < b->made.n; i++) {
        compiled *k = b->made.at[i];
        k->unit = u;
        u->users++;
    }
    for (size_t i = 0; code == FLX_OK && i < b->made.n; i++) {
        compiled *k = b->made.at[i];
        *(void **)&k->run = flxi_object_symbol(u->object, k->entry.name);
        if (!k->run)
            code = flxi_fail(b->err, FLX_E_INTERNAL, "the compiled kernel has no function '%s'", k->entry.name);
    }
    return code;
}

/* Takes what was made over into the cache, or throws it away. The first is held for the caller if `held` is given. */
static flx_code end_batch(batch *b, flx_code code, compiled **held)
{
    for (size_t i = 0; i < b->made.n; i++) {
        compiled *kept = NULL;
        if (code == FLX_OK)
            code = keep(b->cache, b->made.at[i], &kept, b->err);
        else
            free_compiled(b->cache, b->made.at[i]);
        if (kept && held && i == 0)
            *held = kept;
        else if (kept)
            put_back(b->cache, kept);
    }
    flxi_vec_free(b->cache->mem, &b->made);
    flxi_kfile_free(&b->file);
    return code;
}

static void start_batch(batch *b, cache *c, unsigned flags, flx_error *err)
{
    *b = (batch){.cache = c, .flags = flags, .err = err};
    flxi_kfile_init(&b->file, &flxi_target_c, c->mem);
}

static unsigned compiler_flags(const flx_kernel *k)
{
    return k->flags & FLX_KERNEL_CONTRACT ? FLXI_C_CONTRACT : 0;
}

/* The wire form and its hash. */
static flx_code key_of(const flx_kernel *k, flx_buffer *key, uint64_t *hash, flx_error *err)
{
    FLXI_TRY(flx_kernel_encode(k, key, err));
    *hash = flxi_hash_bytes(FLXI_HASH_SEED, key->data, key->size);
    return FLX_OK;
}

static compiled *look_up(cache *c, const flx_buffer *key, uint64_t hash)
{
    pthread_mutex_lock(&c->lock);
    compiled *k = find(c, key, hash);
    pthread_mutex_unlock(&c->lock);
    return k;
}

static flx_code get_compiled(cache *c, const flx_kernel *k, compiled **held, flx_error *err)
{
    flx_buffer key = {0};
    uint64_t hash;
    FLXI_TRY(key_of(k, &key, &hash, err));
    if ((*held = look_up(c, &key, hash))) {
        flx_buffer_free(&key);
        return FLX_OK;
    }
    batch b;
    start_batch(&b, c, compiler_flags(k), err);
    flx_code code = add_kernel(&b, k, &key, hash);
    if (code == FLX_OK)
        code = compile_batch(&b);
    return end_batch(&b, code, held);
}

/* Those of the kernels with these flags that are not kept yet. */
static flx_code prepare(cache *c, flx_kernel *const *kernels, size_t n, unsigned flags, flx_error *err)
{
    batch b;
    flx_code code = FLX_OK;
    start_batch(&b, c, flags, err);
    for (size_t i = 0; code == FLX_OK && i < n; i++) {
        flx_buffer key = {0};
        uint64_t hash;
        if (compiler_flags(kernels[i]) != flags)
            continue;
        code = key_of(kernels[i], &key, &hash, err);
        compiled *known = code == FLX_OK ? look_up(c, &key, hash) : NULL;
        if (known) {
            put_back(c, known);
            flx_buffer_free(&key);
        } else if (code == FLX_OK) {
            code = add_kernel(&b, kernels[i], &key, hash);
        }
    }
    if (code == FLX_OK && b.made.n > 0)
        code = compile_batch(&b);
    return end_batch(&b, code, NULL);
}

flx_code flxi_cpu_prepare(flx_kernel *const *kernels, size_t n, flx_error *err)
{
    cache *c;
    if (n == 0)
        return FLX_OK;
    FLXI_TRY(cache_of(kernels[0]->ctx, &c, err));
    FLXI_TRY(prepare(c, kernels, n, 0, err));
    return prepare(c, kernels, n, FLXI_C_CONTRACT, err);
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
    pthread_mutex_t lock;   /* guards the two below */
    uint64_t trapped;       /* first workgroup of the piece that trapped, UINT64_MAX if none did */
    uint32_t status[KSTATUS_WORDS];
} dispatch;

/* For buffers without elements: a load behind a guard is never done, but the pointer must be one. */
static uint64_t nothing;

static bool is_aligned(const flxi_kbuffer *b, const void *data)
{
    return (uintptr_t)data % flxi_ktype_bytes(b->element, 1) == 0;
}

/* Compiled code expects natural alignment: memory without it is copied, and back when the kernel may have changed it. */
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

static flx_code fail_trap(const dispatch *r, flx_error *err)
{
    const flx_kernel *k = r->d->kernel;
    const uint32_t *status = r->status, *id = status + KSTATUS_ID;
    const flxi_ks *s = flxi_kernel_site(k, KS_TRAP, status[KSTATUS_SITE]);
    char path[48];
    if (!s)
        return flxi_fail(err, FLX_E_INTERNAL, "kernel '%.60s' has no trap %u", k->name, status[KSTATUS_SITE]);
    flxi_kernel_fail(err, "trap", "the kernel ended the dispatch itself", "'%.60s' at address %u", s->text,
                     status[KSTATUS_ADDRESS]);
    flxi_at(err, "kernel %.30s: %s, invocation [%u, %u, %u]", k->name, flxi_kcode_path(k, s, path, sizeof path), id[0],
            id[1], id[2]);
    return FLX_E_KERNEL;
}

static flx_code report(const dispatch *r, flx_error *err)
{
    if (r->trapped != UINT64_MAX)
        return fail_trap(r, err);
    if (!r->status[KSTATUS_INDIRECT])
        return FLX_OK;
    const flxi_ks *s = flxi_kernel_site(r->d->kernel, KS_INDIRECT, r->status[KSTATUS_INDIRECT] - 1);
    return s ? flxi_kernel_report_stage(r->d, s, err) : FLX_OK;
}

static flx_code run(dispatch *r, cache *c, flx_error *err)
{
    bool is_small = r->groups * flxi_kernel_workgroup(r->d->kernel) < min_parallel;
    flxi_pool *pool = r->k->entry.is_ordered || is_small ? NULL : c->pool;
    r->parts = pool ? (size_t)flxi_pool_threads(pool) : 1;
    r->scratch_size = r->k->entry.scratch;
    r->piece = pool ? (r->groups + max_pieces - 1) / max_pieces : r->groups;
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
        code = report(r, err);
    }
    if (block)
        flxi_free(r->mem, block, bytes, 1);
    if (r->taken)
        flxi_free(r->mem, r->taken, r->parts, sizeof *r->taken);
    return code;
}

static flx_code bind_and_run(dispatch *r, cache *c, flx_error *err)
{
    const flx_kernel *k = r->d->kernel;
    size_t n = k->num_buffers;
    r->data = flxi_alloc(r->mem, n, sizeof *r->data);
    r->count = flxi_alloc(r->mem, n, sizeof *r->count);
    flx_code code = r->data && r->count ? bind(r, err) : flxi_oom(err, "the memory of a kernel");
    r->args = (arguments){r->data, r->count, {r->d->grid[0], r->d->grid[1], r->d->grid[2]}, r->d->options.subgroup_size};
    if (code == FLX_OK && pthread_mutex_init(&r->lock, NULL) != 0)
        code = flxi_oom(err, "the memory of a kernel");
    else if (code == FLX_OK) {
        code = run(r, c, err);
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
    cache *c;
    compiled *k;
    dispatch r = {.d = d, .mem = flxi_kernel_mem(d->kernel), .trapped = UINT64_MAX};
    FLXI_TRY(cache_of(d->kernel->ctx, &c, err));
    FLXI_TRY(get_compiled(c, d->kernel, &k, err));
    r.k = k;
    flx_code code = count_groups(&r, err);
    if (code == FLX_OK && r.groups > 0)
        code = bind_and_run(&r, c, err);
    put_back(c, k);
    return code;
}
