/* SPDX-License-Identifier: Apache-2.0 */
/* compile_c.c: see compile_c.h. A batch goes through four steps: find the compiler, take what the cache has, compile
   the rest in a directory of its own, load that and give it to the cache. Without a compiler, the objects of the one
   that was used last serve. */
#include "backend/cpu/jit/compile_c.h"

#include "base/host/process.h"
#include "base/host/stop.h"
#include "base/host/system.h"
#include "base/host/temp_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { FILE_BYTES = FLXI_TEMP_DIR_BYTES + 32 };

/* Part of every key: another calling convention of emitted functions needs another number. */
static const char abi[] = "fluxion object, abi 2, library " FLX_VERSION;

/* A kernel takes about ten milliseconds; a large file on a busy machine takes seconds. */
static const int64_t usual_time_ms = 300000;
static const int64_t probe_time_ms = 20000;
static const uint64_t usual_memory = (uint64_t)8 << 30;
static const uint64_t usual_object = (uint64_t)64 << 20;

struct flxi_compile_service {
    const flxi_allocator *mem;
    flxi_object_cache *cache;
    uint64_t max_object;
    flxi_process_limits limits;
    pthread_mutex_t lock; /* guards the rest */
    flxi_cc known;        /* the compiler that was probed last */
    uint64_t hits, misses;
    double seconds;
};

/* A unit that must be compiled. */
typedef struct {
    flxi_c_unit *unit;
    unsigned char key[FLXI_SHA256_BYTES];
    char source[FILE_BYTES], object[FILE_BYTES];
    const char *args[FLXI_CC_MAX_FLAGS + 8];
} piece;

typedef struct {
    flxi_compile_service *service;
    flxi_cc cc;
    const char *flags[FLXI_CC_MAX_FLAGS];
    size_t num_flags;
    FLXI_VEC(piece *) pieces;
    flxi_process *processes;  /* by piece */
    const char **environment; /* of the compiler */
    size_t num_environment;
    char temp_variable[FLXI_TEMP_DIR_BYTES + 16];
    flxi_temp_dir dir;
    flx_error *err;
} job;

/* ---- The service ---- */

static int available_cores(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0 ? CPU_COUNT(&set) : 1;
}

flxi_compile_service *flxi_compile_service_new(const flxi_allocator *mem, const flxi_service_options *options)
{
    const flxi_service_options usual = {0}, *o = options ? options : &usual;
    flxi_compile_service *s = flxi_alloc(mem, 1, sizeof *s);
    if (!s)
        return NULL;
    s->mem = mem;
    s->cache = flxi_object_cache_new(mem, &o->cache);
    s->max_object = o->object_bytes ? o->object_bytes : usual_object;
    s->limits = (flxi_process_limits){
        .jobs = o->jobs > 0 ? o->jobs : available_cores(),
        .time_ms = o->time_ms > 0 ? o->time_ms : usual_time_ms,
        .memory_bytes = o->memory_bytes ? o->memory_bytes : usual_memory,
        .file_bytes = s->max_object > UINT64_MAX / 16 ? 0 : s->max_object * 16, /* assembler text is longer */
    };
    if (!s->cache || pthread_mutex_init(&s->lock, NULL) != 0) {
        flxi_object_cache_free(s->cache);
        flxi_free(mem, s, 1, sizeof *s);
        return NULL;
    }
    return s;
}

void flxi_compile_service_free(flxi_compile_service *s)
{
    if (!s)
        return;
    pthread_mutex_destroy(&s->lock);
    flxi_object_cache_free(s->cache);
    flxi_free(s->mem, s, 1, sizeof *s);
}

void flxi_compile_service_stats(flxi_compile_service *s, flxi_compile_stats *out)
{
    pthread_mutex_lock(&s->lock);
    *out = (flxi_compile_stats){.hits = s->hits, .misses = s->misses, .compile_seconds = s->seconds};
    pthread_mutex_unlock(&s->lock);
    flxi_object_cache_stats(s->cache, &out->cache);
}

static void add_stats(flxi_compile_service *s, uint64_t hits, uint64_t misses, double seconds)
{
    pthread_mutex_lock(&s->lock);
    s->hits += hits;
    s->misses += misses;
    s->seconds += seconds;
    pthread_mutex_unlock(&s->lock);
}

/* ---- The compiler ---- */

/* Asks a compiler for its version once, and again when its file changes. One that says nothing is asked each time. */
static flx_code find_compiler(job *j)
{
    flxi_compile_service *s = j->service;
    FLXI_TRY(flxi_cc_find(&j->cc, j->err));
    pthread_mutex_lock(&s->lock);
    bool is_known = s->known.version[0] && memcmp(s->known.identity, j->cc.identity, sizeof j->cc.identity) == 0;
    if (is_known)
        j->cc = s->known;
    pthread_mutex_unlock(&s->lock);
    if (is_known)
        return FLX_OK;
    flxi_process_limits limits = s->limits;
    limits.time_ms = limits.time_ms < probe_time_ms ? limits.time_ms : probe_time_ms;
    flxi_cc_probe(&j->cc, s->cache, &limits);
    pthread_mutex_lock(&s->lock);
    s->known = j->cc;
    pthread_mutex_unlock(&s->lock);
    return FLX_OK;
}

static void make_key(const job *j, const flxi_c_unit *u, unsigned char key[FLXI_SHA256_BYTES])
{
    flxi_sha256 h;
    flxi_sha256_init(&h);
    flxi_sha256_add_field(&h, abi, sizeof abi - 1);
    flxi_sha256_add_field(&h, j->cc.identity, sizeof j->cc.identity);
    flxi_sha256_add_field(&h, j->cc.version, strlen(j->cc.version));
    flxi_cc_add_processor(&h);
    for (size_t i = 0; i < j->num_flags; i++)
        flxi_sha256_add_field(&h, j->flags[i], strlen(j->flags[i]));
    flxi_sha256_add_field(&h, u->text, u->n);
    flxi_sha256_end(&h, key);
}

/* ---- From the cache ---- */

/* OK with an object, or without one when the cache has none. */
static flx_code take_cached(job *j, flxi_c_unit *u, const unsigned char *key)
{
    flxi_object_cache *cache = j->service->cache;
    flxi_cache_entry e;
    flx_error why = {0};
    if (!flxi_object_cache_read(cache, key, &e))
        return FLX_OK;
    flx_code code = flxi_object_load(j->service->mem, e.bytes, e.n, e.digest, NULL, &u->object, &why);
    flxi_cache_entry_free(cache, &e);
    if (code == FLX_E_OOM)
        return flxi_oom(j->err, "a compiled object");
    if (code == FLX_OK)
        add_stats(j->service, 1, 0, 0);
    else
        flxi_object_cache_reject(cache, why.message);
    return FLX_OK;
}

static flx_code add_piece(job *j, flxi_c_unit *u, const unsigned char *key)
{
    const flxi_allocator *mem = j->service->mem;
    piece *p = flxi_alloc(mem, 1, sizeof *p);
    if (!p || !flxi_push(mem, &j->pieces, p)) {
        if (p)
            flxi_free(mem, p, 1, sizeof *p);
        return flxi_oom(j->err, "starting the compiler");
    }
    p->unit = u;
    memcpy(p->key, key, sizeof p->key);
    return FLX_OK;
}

static flx_code sort_out(job *j, flxi_c_unit *units, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char key[FLXI_SHA256_BYTES];
        make_key(j, &units[i], key);
        if (j->cc.version[0]) /* what made an object must be known */
            FLXI_TRY(take_cached(j, &units[i], key));
        if (!units[i].object)
            FLXI_TRY(add_piece(j, &units[i], key));
    }
    return FLX_OK;
}

/* ---- Files ---- */

static flx_code write_source(job *j, const piece *p)
{
    int fd = flxi_open_at(AT_FDCWD, p->source, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
    if (fd < 0)
        return flxi_temp_dir_fail(j->err, "make a file", j->dir.path);
    bool ok = flxi_write_all(fd, p->unit->text, p->unit->n);
    flx_code code = ok ? FLX_OK : flxi_temp_dir_fail(j->err, "write a file", j->dir.path);
    if (flxi_system.close(fd) != 0 && ok)
        code = flxi_temp_dir_fail(j->err, "write a file", j->dir.path);
    return code;
}

/* ---- Running it ---- */

/* Temporary files of the compiler go where ours are: so they vanish even when it is killed. */
static flx_code make_environment(job *j)
{
    extern char **environ;
    size_t n = 0, kept = 0;
    while (environ && environ[n])
        n++;
    j->num_environment = n + 2;
    j->environment = flxi_alloc(j->service->mem, j->num_environment, sizeof *j->environment);
    if (!j->environment)
        return flxi_oom(j->err, "starting the compiler");
    for (size_t i = 0; i < n && environ[i]; i++)
        if (strncmp(environ[i], "TMPDIR=", 7) != 0)
            j->environment[kept++] = environ[i];
    snprintf(j->temp_variable, sizeof j->temp_variable, "TMPDIR=%s", j->dir.path);
    j->environment[kept] = j->temp_variable;
    return FLX_OK;
}

static void make_arguments(const job *j, piece *p, size_t number)
{
    size_t n = 0;
    snprintf(p->source, sizeof p->source, "%s/k%zu.c", j->dir.path, number);
    snprintf(p->object, sizeof p->object, "%s/k%zu.so", j->dir.path, number);
    p->args[n++] = j->cc.path;
    for (size_t i = 0; i < j->num_flags; i++)
        p->args[n++] = j->flags[i];
    p->args[n++] = "-o";
    p->args[n++] = p->object;
    p->args[n++] = p->source;
    p->args[n++] = "-lm";
    if (j->cc.family == FLXI_CC_GCC)
        p->args[n++] = "-lgcc"; /* divisions of wide integers and the like */
    p->args[n] = NULL;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Without the path of the directory, which says nothing and takes the place of what does. */
static void shorten(const job *j, char *said)
{
    size_t n = strlen(j->dir.path);
    for (char *at = said; j->dir.path[0] && (at = strstr(at, j->dir.path));) {
        char *rest = at + n + (at[n] == '/');
        memmove(at, rest, strlen(rest) + 1);
    }
}

static flx_code report(job *j, flxi_process *p)
{
    char shown[160];
    if (flxi_process_ok(p))
        return FLX_OK;
    if (p->state == FLXI_PROCESS_REFUSED)
        return flxi_fail_hint(j->err, FLX_E_DEVICE, "set FLX_CC to a C compiler that runs here",
                              "cannot start the compiler '%.100s': %s", j->cc.path, strerror(p->error));
    if (p->state == FLXI_PROCESS_LATE)
        return flxi_fail_hint(j->err, FLX_E_DEVICE, "set FLX_CC to a compiler that ends; device ref needs none",
                              "the compiler '%.100s' takes longer than %g seconds", j->cc.path,
                              (double)j->service->limits.time_ms / 1000);
    shorten(j, p->said);
    flxi_printable(shown, sizeof shown, p->said, strlen(p->said));
    if (WIFSIGNALED(p->status))
        return flxi_fail_hint(j->err, FLX_E_DEVICE, "set FLX_CC to gcc or clang; device ref needs no compiler",
                              "the compiler '%.60s' was ended by signal %d: %s", j->cc.path, WTERMSIG(p->status),
                              shown);
    if (!shown[0])
        snprintf(shown, sizeof shown, "status %d, and no message", WEXITSTATUS(p->status));
    return flxi_fail_hint(j->err, FLX_E_DEVICE, "set FLX_CC to gcc or clang; device ref needs no compiler",
                          "the compiler '%.60s' failed: %s", j->cc.path, shown);
}

static flx_code run_compilers(job *j)
{
    size_t n = j->pieces.n;
    FLXI_TRY(flxi_temp_dir_make(&j->dir, j->err));
    FLXI_TRY(make_environment(j));
    j->processes = flxi_alloc(j->service->mem, n, sizeof *j->processes);
    if (!j->processes)
        return flxi_oom(j->err, "starting the compiler");
    for (size_t i = 0; i < n; i++) {
        make_arguments(j, j->pieces.at[i], i);
        j->processes[i].args = j->pieces.at[i]->args;
        j->processes[i].environment = j->environment;
        FLXI_TRY(write_source(j, j->pieces.at[i]));
    }
    double start = now();
    flxi_processes_run(j->processes, n, &j->service->limits);
    add_stats(j->service, 0, n, now() - start);
    FLXI_TRY(flxi_stop_check(j->err));
    for (size_t i = 0; i < n; i++) /* those that failed, before those that were not started for it */
        if (j->processes[i].state != FLXI_PROCESS_WAITING)
            FLXI_TRY(report(j, &j->processes[i]));
    return FLX_OK;
}

/* ---- What it made ---- */

static flx_code fail_load(job *j, const char *why)
{
    return flxi_fail_hint(j->err, FLX_E_DEVICE, "set FLX_CC to gcc or clang; device ref needs no compiler",
                          "cannot load what '%.60s' made: %s", j->cc.path, why);
}

static flx_code read_object(job *j, int fd, flxi_cache_entry *e)
{
    struct stat st;
    char why[80];
    if (flxi_system.fstat(fd, &st) != 0)
        return fail_load(j, strerror(errno));
    if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > j->service->max_object) {
        snprintf(why, sizeof why, "it has %lld bytes, %llu are the limit", (long long)st.st_size,
                 (unsigned long long)j->service->max_object);
        return fail_load(j, why);
    }
    e->n = (size_t)st.st_size;
    e->bytes = flxi_alloc(j->service->mem, e->n, 1);
    if (!e->bytes)
        return flxi_oom(j->err, "a compiled object");
    if (!flxi_read_all(fd, e->bytes, e->n))
        return fail_load(j, strerror(errno));
    flxi_sha256_of(e->bytes, e->n, e->digest);
    return FLX_OK;
}

static flx_code load_piece(job *j, piece *p)
{
    flxi_cache_entry e = {0};
    flx_error why = {0};
    int fd = flxi_open_at(AT_FDCWD, p->object, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
    if (fd < 0)
        return fail_load(j, strerror(errno));
    flx_code code = read_object(j, fd, &e);
    flxi_system.close(fd);
    if (code == FLX_OK) {
        code = flxi_object_load(j->service->mem, e.bytes, e.n, e.digest, p->object, &p->unit->object, &why);
        if (code != FLX_OK)
            code = code == FLX_E_OOM ? flxi_oom(j->err, "a compiled object") : fail_load(j, why.message);
    }
    if (code == FLX_OK && j->cc.version[0])
        flxi_object_cache_write(j->service->cache, p->key, &e);
    flxi_cache_entry_free(j->service->cache, &e);
    return code;
}

static flx_code compile_pieces(job *j)
{
    if (j->pieces.n == 0)
        return FLX_OK;
    FLXI_TRY(run_compilers(j));
    for (size_t i = 0; i < j->pieces.n; i++)
        FLXI_TRY(load_piece(j, j->pieces.at[i]));
    return FLX_OK;
}

/* ---- All of it ---- */

static void free_job(job *j)
{
    const flxi_allocator *mem = j->service->mem;
    flxi_temp_dir_remove(&j->dir);
    if (j->processes)
        flxi_free(mem, j->processes, j->pieces.n, sizeof *j->processes);
    if (j->environment)
        flxi_free(mem, j->environment, j->num_environment, sizeof *j->environment);
    for (size_t i = 0; i < j->pieces.n; i++)
        flxi_free(mem, j->pieces.at[i], 1, sizeof *j->pieces.at[i]);
    flxi_vec_free(mem, &j->pieces);
    flxi_free(mem, j, 1, sizeof *j);
}

flx_code flxi_compile_c(flxi_compile_service *s, flxi_c_unit *units, size_t n, flxi_c_level level, unsigned flags,
                        flx_error *err)
{
    for (size_t i = 0; i < n; i++)
        units[i].object = NULL;
    job *j = flxi_alloc(s->mem, 1, sizeof *j);
    if (!j)
        return flxi_oom(err, "starting the compiler");
    j->service = s;
    j->err = err;
    flx_code found = find_compiler(j);
    bool is_recalled = found == FLX_E_DEVICE && flxi_cc_recall(&j->cc, s->cache);
    flx_code code = is_recalled ? FLX_OK : found;
    if (code == FLX_OK) {
        j->num_flags = flxi_cc_flags(&j->cc, level, flags, j->flags);
        code = sort_out(j, units, n);
    }
    if (code == FLX_OK && is_recalled && j->pieces.n > 0)
        code = found; /* with its error */
    else if (code == FLX_OK && is_recalled && err)
        *err = (flx_error){0};
    if (code == FLX_OK)
        code = compile_pieces(j);
    free_job(j);
    for (size_t i = 0; code != FLX_OK && i < n; i++) {
        flxi_object_free(units[i].object);
        units[i].object = NULL;
    }
    return code;
}
