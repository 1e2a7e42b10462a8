/* SPDX-License-Identifier: Apache-2.0 */
/* native.c: emits the kernels of an executable into a few C files, compiles these at once, and runs the functions. */
#include "backend/cpu/jit/native.h"

#include "backend/compile_request.h"
#include "base/host/stop.h"
#include "emit/vector/vector_emit.h"

#include <stdatomic.h>
#include <unistd.h>

/* A file with more kernels than this is cut, so that several compilers can work. */
enum { KERNELS_PER_FILE = 12, MAX_FILES = FLXI_NATIVE_FILES };
/* Pieces of a dispatch: enough to balance any number of threads that is likely. */
static const uint64_t max_pieces = 64;

struct flxi_native_code {
    const flxi_allocator *mem;
    flxi_c_unit units[MAX_FILES];
    size_t first[MAX_FILES + 1]; /* kernel of each, and one more than the last */
    size_t n;
};

/* ---- Compiling ---- */

/* The memory of a user's kernel never overlaps; of others, an output may take the place of an operand that is read for
   the last time. Vectors have functions of their own, which are not those of the interpreter. */
flx_code flxi_native_write(flxi_kfile *file, const flxi_native_program *p, size_t i, const flxi_native_options *o,
                           flxi_kentry *entry, const char **scalar, flx_error *err)
{
    bool is_call = p->is_call && p->is_call[i];
    FLXI_TRY(flxi_kernel_check_target(p->kernels[i], &flxi_target_c, err));
    *scalar = is_call ? NULL : "vectors are switched off";
    file->may_alias = !is_call;
    if (o->is_scalar || is_call)
        return flxi_kernel_write(file, p->kernels[i], entry, err);
    uint32_t streams[FLXI_MAX_STREAMS];
    flxi_vector_options vectors = {.stream = streams, .num_streams = flxi_vector_streams(p->kernels[i], streams)};
    return flxi_vector_write(file, p->kernels[i], &vectors, entry, scalar, err);
}

/* A program, and what is found out about its kernels when they are written. */
typedef struct {
    const flxi_native_program *p;
    const flxi_native_options *o;
    flxi_kentry *entries;
    const char **scalar; /* or NULL */
} writing;

static flx_code write_kernels(flxi_kfile *file, const writing *w, size_t begin, size_t end, flx_error *err)
{
    const char *unused;
    for (size_t i = begin; i < end; i++)
        FLXI_TRY(flxi_native_write(file, w->p, i, w->o, &w->entries[i], w->scalar ? &w->scalar[i] : &unused, err));
    return FLX_OK;
}

flx_code flxi_native_text(const flxi_native_program *p, const flxi_native_options *o, flxi_strbuf *out,
                          flxi_kentry *entries, const char **scalar, flx_error *err)
{
    flxi_kfile file;
    flxi_kfile_init(&file, &flxi_target_c, out->mem);
    flx_code code = write_kernels(&file, &(writing){p, o, entries, scalar}, 0, p->n, err);
    if (code == FLX_OK)
        code = flxi_kfile_text(&file, out, err);
    flxi_kfile_free(&file);
    return code;
}

size_t flxi_native_files(size_t kernels)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    size_t most = cores > 1 ? (size_t)cores : 1, files = (kernels + KERNELS_PER_FILE - 1) / KERNELS_PER_FILE;
    most = most < MAX_FILES ? most : MAX_FILES;
    return files < most ? files : most;
}

/* Kernels in order, as many in each file; but those of a chain stay together, as long as they would not fill a file of
   their own. */
static void cut_files(flxi_native_code *code, const flxi_native_program *p)
{
    for (size_t f = 0; f <= code->n; f++)
        code->first[f] = (f * p->n + code->n - 1) / code->n;
    for (size_t i = 0; i < p->num_chains; i++) {
        const flxi_chain *c = p->chains[i].chain;
        size_t low = p->n, high = 0;
        for (uint32_t k = 0; k < c->n; k++)
            if (c->steps[k].kind == CHAIN_KERNEL) {
                low = c->steps[k].kernel < low ? c->steps[k].kernel : low;
                high = c->steps[k].kernel > high ? c->steps[k].kernel : high;
            }
        for (size_t f = 1; f < code->n && low < high && high - low < KERNELS_PER_FILE; f++)
            if (low < code->first[f] && code->first[f] <= high)
                code->first[f] = high + 1;
    }
    for (size_t f = 1; f < code->n; f++)
        code->first[f] = code->first[f] < code->first[f - 1] ? code->first[f - 1] : code->first[f];
}

static flx_code find_functions(const flxi_native_code *code, const flxi_native_program *p, const flxi_kentry *entries,
                               flxi_native *out, flx_error *err)
{
    for (size_t i = 0, f = 0; i < p->n; i++) {
        while (i >= code->first[f + 1])
            f++;
        flxi_object *o = code->units[f].object;
        *(void **)&out[i].run = flxi_object_symbol(o, entries[i].name);
        out[i].scratch = (entries[i].scratch + 63) / 64 * 64;
        out[i].is_ordered = entries[i].is_ordered;
        if (!out[i].run)
            return flxi_fail_hint(err, FLX_E_DEVICE, "FLX_CC names another compiler",
                                  "the compiler made an object without the function '%s'", entries[i].name);
    }
    for (size_t i = 0; i < p->num_chains; i++) {
        flxi_chain_name name;
        flxi_chain_code *c = &p->chains[i];
        if (!c->file)
            continue;
        flxi_object *o = code->units[c->file - 1].object;
        *(void **)&c->run = flxi_object_symbol(o, flxi_chain_function(&name, i));
        if (c->chain->loop)
            *(void **)&c->run_loop = flxi_object_symbol(o, flxi_chain_loop_function(&name, i));
    }
    return FLX_OK;
}

/* The kernels of a file, and the chains that need no others. */
static flx_code write_file(const writing *w, const flxi_native_code *c, size_t number, flxi_strbuf *text,
                           flx_error *err)
{
    const flxi_native_program *p = w->p;
    size_t begin = c->first[number], end = c->first[number + 1];
    flxi_kfile file;
    flxi_kfile_init(&file, &flxi_target_c, text->mem);
    flx_code code = write_kernels(&file, w, begin, end, err);
    for (size_t i = 0; code == FLX_OK && i < p->num_chains; i++)
        if (!p->chains[i].file && flxi_chain_fits(&p->chains[i], w->entries, begin, end)) {
            flxi_chain_write(&p->chains[i], i, w->entries, &file);
            p->chains[i].file = number + 1;
        }
    if (code == FLX_OK)
        code = flxi_kfile_text(&file, text, err);
    flxi_kfile_free(&file);
    return code;
}

static flx_code build(flxi_native_code *code, flxi_compile_service *s, const writing *w, flxi_strbuf *texts,
                      flx_error *err)
{
    const flxi_native_options *o = w->o;
    cut_files(code, w->p);
    for (size_t f = 0; f < code->n; f++) {
        FLXI_TRY(write_file(w, code, f, &texts[f], err));
        if (o->dump_dir)
            FLXI_TRY(flxi_dump_text(o->dump_dir, f, "c", &texts[f], err));
        code->units[f].text = texts[f].at;
        code->units[f].n = texts[f].n;
    }
    return flxi_compile_c(s, code->units, code->n, o->level, o->flags, err);
}

flx_code flxi_native_build(flxi_compile_service *s, const flxi_native_program *p, const flxi_native_options *o,
                           flxi_native *out, flxi_native_code **code, flx_error *err)
{
    size_t n = p->n;
    *code = NULL;
    if (n == 0)
        return FLX_OK;
    const flxi_allocator *mem = flxi_kernel_mem(p->kernels[0]);
    flxi_native_code *c = flxi_alloc(mem, 1, sizeof *c);
    flxi_kentry *entries = flxi_alloc(mem, n, sizeof *entries);
    const char **scalar = flxi_alloc(mem, n, sizeof *scalar);
    flxi_strbuf texts[MAX_FILES];
    for (size_t f = 0; f < MAX_FILES; f++)
        flxi_strbuf_init(&texts[f], mem);
    flx_code result = c && entries && scalar ? FLX_OK : flxi_oom(err, "compiled kernels");
    if (c)
        c->mem = mem; /* it is freed by this, whatever else is missing */
    if (result == FLX_OK) {
        c->n = flxi_native_files(n);
        result = build(c, s, &(writing){p, o, entries, scalar}, texts, err);
    }
    if (result == FLX_OK)
        result = find_functions(c, p, entries, out, err);
    for (size_t i = 0; result == FLX_OK && i < n; i++)
        out[i].scalar = scalar[i];
    for (size_t f = 0; f < MAX_FILES; f++)
        flxi_strbuf_free(&texts[f]);
    if (entries)
        flxi_free(mem, entries, n, sizeof *entries);
    if (scalar)
        flxi_free(mem, scalar, n, sizeof *scalar);
    if (result == FLX_OK)
        *code = c;
    else
        flxi_native_free(c);
    return result;
}

void flxi_native_free(flxi_native_code *code)
{
    if (!code)
        return;
    for (size_t i = 0; i < code->n; i++)
        flxi_object_free(code->units[i].object);
    flxi_free(code->mem, code, 1, sizeof *code);
}

/* ---- Running ---- */

typedef struct {
    const flxi_native *k;
    const flxi_native_args *args;
    unsigned char *scratch;
    atomic_uint_least64_t free_parts; /* of the scratch: a bit for each */
    /* Of a user's kernel: */
    atomic_uint_least64_t trapped; /* first workgroup of the piece that trapped; UINT64_MAX: none did */
    atomic_flag is_reporting;      /* guards the status */
    uint32_t *status;
} dispatch;

static int take_part(dispatch *d)
{
    for (;;) {
        uint64_t parts = atomic_load_explicit(&d->free_parts, memory_order_relaxed);
        int i = parts ? __builtin_ctzll(parts) : -1;
        if (i >= 0 && atomic_compare_exchange_weak_explicit(&d->free_parts, &parts, parts & ~(UINT64_C(1) << i),
                                                            memory_order_acquire, memory_order_relaxed))
            return i;
    }
}

static void run_piece(void *user, int64_t begin, int64_t end)
{
    dispatch *d = user;
    uint32_t status[KSTATUS_WORDS] = {0};
    int part = d->k->scratch ? take_part(d) : 0;
    d->k->run(d->args, (uint64_t)begin, (uint64_t)end, d->scratch + (size_t)part * d->k->scratch, status);
    if (d->k->scratch)
        atomic_fetch_or_explicit(&d->free_parts, UINT64_C(1) << part, memory_order_release);
}

/* Elements of a piece: some milliseconds at most, also where an element takes long. */
static const int64_t piece_work = (int64_t)1 << 18;

void flxi_native_run(const flxi_native *k, const flxi_native_args *args, int64_t work, flxi_pool *pool,
                     unsigned char *scratch)
{
    uint64_t groups = (uint64_t)args->grid[0] * args->grid[1] * args->grid[2];
    uint32_t status[KSTATUS_WORDS] = {0};
    uint64_t pieces = (uint64_t)(work / piece_work) + 1;
    if (groups == 0)
        return;
    if (!pool && pieces == 1) {
        k->run(args, 0, groups, scratch, status);
        return;
    }
    if (pool && pieces < max_pieces)
        pieces = max_pieces;
    dispatch d = {.k = k, .args = args, .scratch = scratch};
    atomic_init(&d.free_parts,
                flxi_pool_threads(pool) < 64 ? (UINT64_C(1) << flxi_pool_threads(pool)) - 1 : UINT64_MAX);
    flxi_pool_run(pool, (int64_t)groups, (int64_t)((groups + pieces - 1) / pieces), run_piece, &d);
}

/* ---- Kernels of the user ---- */

/* What the first piece that trapped says counts, whichever thread was faster. */
static void report_trap(dispatch *d, uint64_t begin, const uint32_t *status)
{
    while (atomic_flag_test_and_set_explicit(&d->is_reporting, memory_order_acquire))
        continue;
    if (begin < atomic_load(&d->trapped)) {
        atomic_store(&d->trapped, begin);
        memcpy(d->status, status, KSTATUS_WORDS * sizeof *status);
    }
    atomic_flag_clear_explicit(&d->is_reporting, memory_order_release);
}

static void run_call_piece(void *user, int64_t begin, int64_t end)
{
    dispatch *d = user;
    uint32_t status[KSTATUS_WORDS] = {0};
    if (atomic_load(&d->trapped) < (uint64_t)begin || flxi_stopped())
        return;
    int part = d->k->scratch ? take_part(d) : 0;
    d->k->run(d->args, (uint64_t)begin, (uint64_t)end, d->scratch + (size_t)part * d->k->scratch, status);
    if (d->k->scratch)
        atomic_fetch_or_explicit(&d->free_parts, UINT64_C(1) << part, memory_order_release);
    if (status[KSTATUS_TRAPPED])
        report_trap(d, (uint64_t)begin, status);
}

void flxi_native_call(const flxi_native *k, const flxi_native_args *args, flxi_pool *pool, unsigned char *scratch,
                      uint32_t *status)
{
    uint64_t groups = (uint64_t)args->grid[0] * args->grid[1] * args->grid[2];
    uint64_t piece = (groups + max_pieces - 1) / max_pieces;
    dispatch d = {.k = k, .args = args, .scratch = scratch, .status = status};
    pool = k->is_ordered ? NULL : pool;
    int threads = pool ? flxi_pool_threads(pool) : 1;
    atomic_init(&d.free_parts, threads < 64 ? (UINT64_C(1) << threads) - 1 : UINT64_MAX);
    atomic_init(&d.trapped, UINT64_MAX);
    atomic_flag_clear(&d.is_reporting);
    if (pool) {
        flxi_pool_run(pool, (int64_t)groups, (int64_t)piece, run_call_piece, &d);
        return;
    }
    for (uint64_t g = 0; g < groups; g += piece)
        run_call_piece(&d, (int64_t)g, (int64_t)(groups - g > piece ? g + piece : groups));
}
