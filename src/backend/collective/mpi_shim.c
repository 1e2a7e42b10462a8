/* SPDX-License-Identifier: Apache-2.0 */
/* mpi_shim.c: the text of the shim, compiling it with mpicc, and loading it. The object cache keeps the result, found
   by the text and the identity of mpicc: its path, size and time of change. */
#include "backend/collective/mpi_shim.h"

#include "backend/object_cache.h"
#include "base/host/process.h"
#include "base/host/system.h"
#include "base/host/temp_dir.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- The text ---- */

#define TEXT(...) #__VA_ARGS__ "\n"

static const char *const shim[] = {
    "#include <mpi.h>\n#include <stdlib.h>\n#include <sched.h>\n",
    TEXT(
        typedef struct {
            int peer, tag, is_sent, nbytes;
            void *data;
        } message;
        typedef struct {
            int n, left;
            MPI_Request *requests;
            char *ended;
        } started;
        static MPI_Comm world; static int is_ours;),
    TEXT(int flx_mpi_open(int *rank, int *size, int *serves_threads) {
        int is_open = 0, is_over = 0, level = 0, code;
        MPI_Initialized(&is_open);
        MPI_Finalized(&is_over);
        if (is_over)
            return -1;
        if (!is_open && (code = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level)))
            return code;
        is_ours = !is_open;
        MPI_Query_thread(&level);
        *serves_threads = level >= MPI_THREAD_SERIALIZED;
        if ((code = MPI_Comm_dup(MPI_COMM_WORLD, &world)))
            return code;
        MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
        MPI_Comm_rank(world, rank);
        MPI_Comm_size(world, size);
        return 0;
    }),
    TEXT(void flx_mpi_end(void *handle, int is_complete) {
        started *s = handle;
        if (is_complete) {
            free(s->requests);
            free(s->ended);
            free(s);
        }
    }),
    TEXT(void *flx_mpi_start(int n, const message *m) {
        started *s = (calloc)(1, sizeof *s);
        if (!s)
            return NULL;
        s->requests = (calloc)(n + 1, sizeof *s->requests);
        s->ended = (calloc)(n + 1, 1);
        for (int i = 0; s->requests && s->ended && i < n; i++) {
            int code = m[i].is_sent
                           ? MPI_Isend(m[i].data, m[i].nbytes, MPI_BYTE, m[i].peer, m[i].tag, world, &s->requests[i])
                           : MPI_Irecv(m[i].data, m[i].nbytes, MPI_BYTE, m[i].peer, m[i].tag, world, &s->requests[i]);
            if (code)
                return NULL;
            s->n = s->left = i + 1;
        }
        if (s->n == n)
            return s;
        flx_mpi_end(s, 1);
        return NULL;
    }),
    TEXT(int flx_mpi_poll(void *handle, char *done) {
        started *s = handle;
        for (int i = 0; i < s->n; i++) {
            int is_done = s->ended[i];
            if (!is_done && MPI_Test(&s->requests[i], &is_done, MPI_STATUS_IGNORE))
                return -1;
            if (is_done && !s->ended[i]) {
                s->left--;
                s->ended[i] = 1;
            }
            done[i] = (char)is_done;
        }
        return s->left == 0;
    }),
    TEXT(
        void flx_mpi_close(double seconds) {
            MPI_Request request;
            int is_done = 0;
            double end = MPI_Wtime() + seconds;
            if (!is_ours || MPI_Ibarrier(world, &request))
                return;
            while (!is_done && MPI_Wtime() < end && !MPI_Test(&request, &is_done, MPI_STATUS_IGNORE))
                sched_yield();
            if (is_done)
                MPI_Finalize();
        } void flx_mpi_abort(int status) { MPI_Abort(world, status); }),
    NULL};

static flx_code write_text(int fd, const char *path, flx_error *err)
{
    for (size_t i = 0; shim[i]; i++)
        if (!flxi_write_all(fd, shim[i], strlen(shim[i])))
            return flxi_temp_dir_fail(err, "write a file", path);
    return FLX_OK;
}

/* ---- mpicc ---- */

/* A path as it is, or a name that $PATH has. */
static bool find_program(const char *name, char *path, size_t size)
{
    const char *folders = getenv("PATH");
    if (strchr(name, '/'))
        return (size_t)snprintf(path, size, "%s", name) < size && access(path, X_OK) == 0;
    for (const char *s = folders ? folders : ""; *s;) {
        size_t n = strcspn(s, ":");
        if (n && (size_t)snprintf(path, size, "%.*s/%s", (int)n, s, name) < size && access(path, X_OK) == 0)
            return true;
        s += n + (s[n] == ':');
    }
    return false;
}

static void identify(const char *mpicc, unsigned char key[FLXI_SHA256_BYTES])
{
    struct stat s = {0};
    flxi_sha256 h;
    flxi_sha256_init(&h);
    flxi_sha256_add_field(&h, "fluxion mpi shim 1", 18);
    flxi_sha256_add_field(&h, mpicc, strlen(mpicc));
    if (stat(mpicc, &s) == 0) {
        int64_t facts[] = {(int64_t)s.st_size, (int64_t)s.st_mtime, (int64_t)s.st_ino};
        flxi_sha256_add_field(&h, facts, sizeof facts);
    }
    for (size_t i = 0; shim[i]; i++)
        flxi_sha256_add_field(&h, shim[i], strlen(shim[i]));
    flxi_sha256_end(&h, key);
}

static flx_code compile_shim(const char *mpicc, const char *source, const char *object, flx_error *err)
{
    int fd = flxi_open_at(AT_FDCWD, source, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (fd < 0)
        return flxi_temp_dir_fail(err, "make a file", source);
    flx_code code = write_text(fd, source, err);
    flxi_system.close(fd);
    FLXI_TRY(code);
    const char *const args[] = {mpicc, "-std=gnu17", "-O1", "-w", "-fPIC", "-shared", "-o", object, source, NULL};
    flxi_process p = {.args = args};
    flxi_processes_run(&p, 1, &(flxi_process_limits){.time_ms = 120000});
    if (flxi_process_ok(&p))
        return FLX_OK;
    return flxi_fail_hint(err, FLX_E_DEVICE, "install MPI with its headers (libopenmpi-dev, mpich), or set $FLX_MPICC",
                          "%.80s cannot compile the shim of MPI: %.100s", mpicc, p.said);
}

/* ---- The object ---- */

static bool read_object(const char *path, const flxi_allocator *mem, flxi_cache_entry *out)
{
    struct stat s;
    int fd = flxi_open_at(AT_FDCWD, path, O_RDONLY, 0);
    bool ok = fd >= 0 && flxi_system.fstat(fd, &s) == 0 && s.st_size > 0;
    out->n = ok ? (size_t)s.st_size : 0;
    out->bytes = ok ? flxi_alloc(mem, out->n, 1) : NULL;
    ok = out->bytes && flxi_read_all(fd, out->bytes, out->n);
    if (ok)
        flxi_sha256_of(out->bytes, out->n, out->digest);
    if (fd >= 0)
        flxi_system.close(fd);
    return ok;
}

static bool write_object(const char *path, const flxi_cache_entry *e)
{
    int fd = flxi_open_at(AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL, 0700);
    bool ok = fd >= 0 && flxi_write_all(fd, e->bytes, e->n);
    if (fd >= 0)
        flxi_system.close(fd);
    return ok;
}

/* The shim as a file: from the cache, or compiled. */
static flx_code make_object(flx_context *ctx, const char *mpicc, const char *source, const char *object, flx_error *err)
{
    unsigned char key[FLXI_SHA256_BYTES];
    flxi_cache_entry e = {0};
    flxi_object_cache *cache = flxi_object_cache_new(&ctx->mem, &(flxi_cache_options){0});
    if (!cache)
        return flxi_oom(err, "the shim of MPI");
    identify(mpicc, key);
    bool is_kept = flxi_object_cache_read(cache, key, &e);
    flx_code code = FLX_OK;
    if (is_kept) {
        is_kept = write_object(object, &e);
        flxi_cache_entry_free(cache, &e);
    }
    if (!is_kept) {
        code = compile_shim(mpicc, source, object, err);
        if (code == FLX_OK && read_object(object, &ctx->mem, &e))
            flxi_object_cache_write(cache, key, &e);
        if (e.bytes)
            flxi_free(&ctx->mem, e.bytes, e.n, 1);
    }
    flxi_object_cache_free(cache);
    return code;
}

static bool find_calls(void *library, flxi_mpi_calls *out)
{
    *(void **)&out->open = dlsym(library, "flx_mpi_open");
    *(void **)&out->start = dlsym(library, "flx_mpi_start");
    *(void **)&out->poll = dlsym(library, "flx_mpi_poll");
    *(void **)&out->end = dlsym(library, "flx_mpi_end");
    *(void **)&out->close = dlsym(library, "flx_mpi_close");
    *(void **)&out->end_all = dlsym(library, "flx_mpi_abort");
    return out->open && out->start && out->poll && out->end && out->close && out->end_all;
}

/* RTLD_GLOBAL: plugins of MPI look for its symbols among those of the process. */
static flx_code load_object(const char *object, flxi_mpi_calls *out, flx_error *err)
{
    void *library = flxi_system.dlopen(object, RTLD_NOW | RTLD_GLOBAL);
    if (library && find_calls(library, out))
        return FLX_OK;
    const char *why = library ? NULL : dlerror();
    return flxi_fail_hint(err, FLX_E_DEVICE, "is the MPI of mpicc the one that is installed?",
                          "the shim of MPI cannot be loaded: %.160s", why ? why : "it is not complete");
}

static flx_code load(flx_context *ctx, flxi_mpi_calls *out, flx_error *err)
{
    char mpicc[400], source[FLXI_TEMP_DIR_BYTES + 16], object[FLXI_TEMP_DIR_BYTES + 16];
    flxi_temp_dir dir = {0};
    const char *name = getenv("FLX_MPICC");
    name = name && *name ? name : "mpicc";
    if (!find_program(name, mpicc, sizeof mpicc))
        return flxi_fail_hint(err, FLX_E_DEVICE,
                              "install MPI with its headers (libopenmpi-dev, mpich), or set $FLX_MPICC",
                              "there is no MPI: the command '%.80s' is not found", name);
    FLXI_TRY(flxi_temp_dir_make(&dir, err));
    snprintf(source, sizeof source, "%s/shim.c", dir.path);
    snprintf(object, sizeof object, "%s/shim.so", dir.path);
    flx_code code = make_object(ctx, mpicc, source, object, err);
    if (code == FLX_OK)
        code = load_object(object, out, err);
    flxi_temp_dir_remove(&dir);
    return code;
}

flx_code flxi_mpi_load(flx_context *ctx, const flxi_mpi_calls **out, flx_error *err)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static flxi_mpi_calls calls;
    static bool is_loaded;
    pthread_mutex_lock(&lock);
    flx_code code = is_loaded ? FLX_OK : load(ctx, &calls, err);
    is_loaded = code == FLX_OK;
    pthread_mutex_unlock(&lock);
    *out = &calls;
    return code;
}
