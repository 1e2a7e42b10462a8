/* SPDX-License-Identifier: Apache-2.0 */
/* object_cache.c: see object_cache.h. The directory is looked up again for each use, and everything in it is reached
   through one descriptor of the directory that was checked, so that no one can replace it meanwhile. */
#include "backend/object_cache.h"

#include "base/error.h"
#include "base/host/system.h"
#include "base/text/count_words.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, NAME_BYTES = 96, VERSION = 1 };

static const uint64_t usual_max_bytes = (uint64_t)512 << 20;
static const uint64_t largest_entry = (uint64_t)256 << 20;
/* Entries that are used are made young again, but not at every use. */
static const time_t refresh_seconds = 3600;
/* What remains of a process that was killed. */
static const time_t stale_seconds = 3600;
static const char suffix[] = ".flxo";
static const char temp_prefix[] = ".tmp-";

/* As written to the file; a cache never leaves its machine, so the byte order is the machine's. */
typedef struct {
    char magic[8];
    uint32_t version, reserved;
    uint64_t length;
    unsigned char key[FLXI_SHA256_BYTES];
    unsigned char digest[FLXI_SHA256_BYTES];
} header;
_Static_assert(sizeof(header) == 88, "the header has no holes");

struct flxi_object_cache {
    const flxi_allocator *mem;
    flx_cache_mode mode;
    char dir[PATH_BYTES]; /* "": by the environment */
    uint64_t max_bytes;
    unsigned serial;      /* of temporary files */
    bool has_swept;       /* what killed processes left was removed */
    pthread_mutex_t lock; /* guards serial, has_swept and stats */
    flxi_cache_stats stats;
};

/* ---- Life, numbers, notes ---- */

flxi_object_cache *flxi_object_cache_new(const flxi_allocator *mem, const flxi_cache_options *options)
{
    flxi_object_cache *c = flxi_alloc(mem, 1, sizeof *c);
    if (!c)
        return NULL;
    c->mem = mem;
    c->mode = options->mode;
    c->max_bytes = options->max_bytes ? options->max_bytes : usual_max_bytes;
    if (options->dir && strlen(options->dir) < sizeof c->dir)
        memcpy(c->dir, options->dir, strlen(options->dir) + 1);
    else if (options->dir)
        c->mode = FLX_CACHE_OFF;
    if (pthread_mutex_init(&c->lock, NULL) != 0) {
        flxi_free(mem, c, 1, sizeof *c);
        return NULL;
    }
    return c;
}

void flxi_object_cache_free(flxi_object_cache *c)
{
    if (!c)
        return;
    pthread_mutex_destroy(&c->lock);
    flxi_free(c->mem, c, 1, sizeof *c);
}

void flxi_object_cache_stats(flxi_object_cache *c, flxi_cache_stats *out)
{
    pthread_mutex_lock(&c->lock);
    *out = c->stats;
    pthread_mutex_unlock(&c->lock);
}

static void count(flxi_object_cache *c, uint64_t *counter, uint64_t n)
{
    pthread_mutex_lock(&c->lock);
    *counter += n;
    pthread_mutex_unlock(&c->lock);
}

static void note(flxi_object_cache *c, const char *fmt, ...) FLX_PRINTF(2, 3);

static void note(flxi_object_cache *c, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    pthread_mutex_lock(&c->lock);
    flxi_format_va(c->stats.note, sizeof c->stats.note, fmt, args);
    pthread_mutex_unlock(&c->lock);
    va_end(args);
}

void flxi_object_cache_reject(flxi_object_cache *c, const char *why)
{
    count(c, &c->stats.rejected, 1);
    note(c, "an entry was rejected: %s", why);
}

/* ---- The directory ---- */

static flx_cache_mode mode_of(flxi_object_cache *c)
{
    char shown[60];
    const char *said = secure_getenv("FLX_CACHE");
    if (!said || !said[0])
        return c->mode;
    if (strcmp(said, "on") == 0)
        return FLX_CACHE_ON;
    if (strcmp(said, "read-only") == 0)
        return FLX_CACHE_READ_ONLY;
    if (strcmp(said, "off") != 0)
        note(c, "FLX_CACHE is '%s', not on, read-only or off: no cache",
             flxi_printable(shown, sizeof shown, said, strlen(said)));
    return FLX_CACHE_OFF;
}

/* False with a note when there is no folder for a cache. The path has no slash at its end: with one a link would be
   followed. */
static bool find_dir(flxi_object_cache *c, char path[PATH_BYTES])
{
    const char *own = secure_getenv("FLX_CACHE_DIR"), *xdg = secure_getenv("XDG_CACHE_HOME");
    const char *home = secure_getenv("HOME");
    int n;
    if (c->dir[0])
        n = snprintf(path, PATH_BYTES, "%s", c->dir);
    else if (own && own[0])
        n = snprintf(path, PATH_BYTES, "%s", own);
    else if (xdg && xdg[0] == '/')
        n = snprintf(path, PATH_BYTES, "%s/fluxion", xdg);
    else if (home && home[0] == '/')
        n = snprintf(path, PATH_BYTES, "%s/.cache/fluxion", home);
    else
        n = -1;
    if (n < 0 || n >= PATH_BYTES) {
        note(c, n < 0 ? "no cache: neither FLX_CACHE_DIR nor HOME is set" : "no cache: its path is too long");
        return false;
    }
    while (n > 1 && path[n - 1] == '/')
        path[--n] = 0;
    return true;
}

static void make_dirs(char path[PATH_BYTES])
{
    for (char *p = path + 1; *p; p++) {
        if (*p != '/')
            continue;
        *p = 0;
        flxi_system.mkdir(path, 0700); /* most exist; if one cannot be made, opening the last one tells */
        *p = '/';
    }
    flxi_system.mkdir(path, 0700);
}

static const char *fault_of_dir(const struct stat *st)
{
    if (st->st_uid != geteuid())
        return "it belongs to another user";
    return st->st_mode & (S_IWGRP | S_IWOTH) ? "others may write to it" : NULL;
}

/* The descriptor of the directory, -1 with a note when there is none that can be trusted. */
static int open_dir(flxi_object_cache *c, bool make)
{
    char path[PATH_BYTES];
    struct stat st;
    if (!find_dir(c, path))
        return -1;
    int fd = flxi_open_at(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    if (fd < 0 && errno == ENOENT && make) {
        make_dirs(path);
        fd = flxi_open_at(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    }
    if (fd < 0) {
        if (errno != ENOENT || make)
            note(c, "no cache in '%.80s': %s", path,
                 errno == ELOOP || errno == ENOTDIR ? "it is a link or no directory" : strerror(errno));
        return -1;
    }
    const char *fault = flxi_system.fstat(fd, &st) == 0 ? fault_of_dir(&st) : strerror(errno);
    if (!fault)
        return fd;
    note(c, "no cache in '%.80s': %s", path, fault);
    flxi_system.close(fd);
    return -1;
}

static void entry_name(const unsigned char *key, char name[NAME_BYTES])
{
    flxi_sha256_text(key, name);
    memcpy(name + 64, suffix, sizeof suffix);
}

/* ---- Reading ---- */

static const char *fault_of_file(const struct stat *st)
{
    if (!S_ISREG(st->st_mode))
        return "it is not a file";
    if (st->st_uid != geteuid())
        return "it belongs to another user";
    if (st->st_mode & (S_IWGRP | S_IWOTH))
        return "others may write to it";
    if (st->st_size < (off_t)sizeof(header) || (uint64_t)st->st_size > largest_entry)
        return "it has an impossible size";
    return NULL;
}

static const char *fault_of_header(const header *h, const unsigned char *key, uint64_t size)
{
    if (memcmp(h->magic, "FLXOBJ\r\n", 8) != 0 || h->version != VERSION || h->reserved != 0)
        return "its header is foreign";
    if (memcmp(h->key, key, sizeof h->key) != 0)
        return "it is the entry of another key";
    return h->length != size - sizeof *h ? "its length is wrong" : NULL;
}

/* NULL, or what is wrong. The bytes are freed by the caller either way. */
static const char *read_entry(const flxi_object_cache *c, int fd, const struct stat *st, const unsigned char *key,
                              flxi_cache_entry *out)
{
    header h;
    unsigned char digest[FLXI_SHA256_BYTES];
    if (!flxi_read_all(fd, &h, sizeof h))
        return "it cannot be read";
    const char *fault = fault_of_header(&h, key, (uint64_t)st->st_size);
    if (fault)
        return fault;
    out->n = (size_t)h.length;
    out->bytes = flxi_alloc(c->mem, out->n, 1);
    if (!out->bytes)
        return "there is no memory for it";
    if (!flxi_read_all(fd, out->bytes, out->n))
        return "it cannot be read";
    flxi_sha256_of(out->bytes, out->n, digest);
    if (memcmp(digest, h.digest, sizeof digest) != 0)
        return "its digest is wrong";
    memcpy(out->digest, digest, sizeof digest);
    return NULL;
}

static void refresh(int fd, const struct stat *st)
{
    if (time(NULL) - st->st_mtime > refresh_seconds)
        (void)futimens(fd, NULL);
}

bool flxi_object_cache_read(flxi_object_cache *c, const unsigned char key[FLXI_SHA256_BYTES], flxi_cache_entry *out)
{
    char name[NAME_BYTES];
    struct stat st;
    flx_cache_mode mode = mode_of(c);
    *out = (flxi_cache_entry){0};
    int dir = mode == FLX_CACHE_OFF ? -1 : open_dir(c, mode == FLX_CACHE_ON);
    if (dir < 0)
        return false;
    entry_name(key, name);
    /* O_NONBLOCK: opening a pipe that someone put there does not wait. */
    int fd = flxi_open_at(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
    bool is_missing = fd < 0 && errno == ENOENT;
    const char *fault = fd < 0 ? strerror(errno) : NULL;
    if (!fault)
        fault = flxi_system.fstat(fd, &st) == 0 ? fault_of_file(&st) : strerror(errno);
    if (!fault)
        fault = read_entry(c, fd, &st, key, out);
    if (!fault && mode == FLX_CACHE_ON)
        refresh(fd, &st);
    if (fd >= 0)
        flxi_system.close(fd);
    flxi_system.close(dir);
    if (!fault)
        return true;
    flxi_cache_entry_free(c, out);
    if (!is_missing)
        flxi_object_cache_reject(c, fault);
    return false;
}

void flxi_cache_entry_free(const flxi_object_cache *c, flxi_cache_entry *e)
{
    if (e->bytes)
        flxi_free(c->mem, e->bytes, e->n, 1);
    *e = (flxi_cache_entry){0};
}

/* ---- Keeping it small ---- */

typedef struct {
    struct timespec time;
    uint64_t size;
    char name[NAME_BYTES];
} old_file;

typedef struct {
    const flxi_object_cache *cache;
    int dir;
    bool sees_entries; /* false: only what remains of killed processes is removed */
    FLXI_VEC(old_file) files;
    uint64_t total;
} survey;

static int by_age(const void *a, const void *b)
{
    const old_file *x = a, *y = b;
    if (x->time.tv_sec != y->time.tv_sec)
        return x->time.tv_sec < y->time.tv_sec ? -1 : 1;
    if (x->time.tv_nsec != y->time.tv_nsec)
        return x->time.tv_nsec < y->time.tv_nsec ? -1 : 1;
    return strcmp(x->name, y->name);
}

static bool is_entry_name(const char *name)
{
    return strspn(name, "0123456789abcdef") == 64 && strcmp(name + 64, suffix) == 0;
}

/* Files that are not ours stay and do not count. */
static bool look_at(survey *s, const char *name)
{
    struct stat st;
    bool is_temp = strncmp(name, temp_prefix, sizeof temp_prefix - 1) == 0;
    bool is_seen = is_temp || (s->sees_entries && is_entry_name(name));
    if (!is_seen || fstatat(s->dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return true;
    if (is_temp) {
        if (time(NULL) - st.st_mtime > stale_seconds)
            flxi_system.unlinkat(s->dir, name, 0);
        return true;
    }
    old_file f = {.time = st.st_mtim, .size = (uint64_t)st.st_size};
    memcpy(f.name, name, strlen(name) + 1);
    s->total += f.size;
    return flxi_push(s->cache->mem, &s->files, f);
}

static bool survey_dir(survey *s)
{
    int fd = flxi_open_at(s->dir, ".", O_RDONLY | O_DIRECTORY, 0);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (!d) {
        if (fd >= 0)
            flxi_system.close(fd);
        return false;
    }
    bool ok = true;
    for (struct dirent *e; ok && (e = readdir(d));)
        ok = look_at(s, e->d_name);
    closedir(d);
    return ok;
}

/* Removes the oldest until an eighth of the room is free, so that the next writes need not. */
static void evict(flxi_object_cache *c, int dir)
{
    survey s = {.cache = c, .dir = dir, .sees_entries = true};
    uint64_t evicted = 0;
    if (survey_dir(&s) && s.total > c->max_bytes) {
        qsort(s.files.at, s.files.n, sizeof *s.files.at, by_age);
        for (size_t i = 0; i < s.files.n && s.total > c->max_bytes - c->max_bytes / 8; i++) {
            if (flxi_system.unlinkat(dir, s.files.at[i].name, 0) != 0)
                continue; /* another process was faster, or it cannot be removed */
            s.total -= s.files.at[i].size;
            evicted++;
        }
    }
    flxi_vec_free(c->mem, &s.files);
    count(c, &c->stats.evicted, evicted);
}

/* Once for each cache that is written to: reading names takes milliseconds, and what killed processes left must not
   wait until the oldest entries go, which a small cache never needs. */
static void sweep(flxi_object_cache *c, int dir)
{
    survey s = {.cache = c, .dir = dir};
    pthread_mutex_lock(&c->lock);
    bool is_due = !c->has_swept;
    c->has_swept = true;
    pthread_mutex_unlock(&c->lock);
    if (is_due)
        survey_dir(&s);
}

/* Looking through the directory takes long, so not every write does it, but each with a chance in proportion to its
   size: then 1/64 of the bound is written between two of them, however many processes write. The key is random
   enough. */
static bool is_eviction_due(const flxi_object_cache *c, const unsigned char *key, uint64_t size)
{
    double chance = (double)size * 64 / (double)c->max_bytes;
    return (double)(key[0] << 16 | key[1] << 8 | key[2]) < chance * (1 << 24);
}

/* ---- Writing ---- */

/* A fresh file; the leftover of a process that was killed, or of one with the same number elsewhere, is
   skipped. */
static int open_temp(flxi_object_cache *c, int dir, char name[NAME_BYTES])
{
    for (int tries = 0; tries < 100; tries++) {
        pthread_mutex_lock(&c->lock);
        unsigned serial = c->serial++;
        pthread_mutex_unlock(&c->lock);
        snprintf(name, NAME_BYTES, "%s%ld-%u", temp_prefix, (long)getpid(), serial);
        int fd = flxi_open_at(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

static bool write_entry(int fd, const unsigned char *key, const flxi_cache_entry *e)
{
    header h = {.magic = {'F', 'L', 'X', 'O', 'B', 'J', '\r', '\n'}, .version = VERSION, .length = e->n};
    memcpy(h.key, key, sizeof h.key);
    memcpy(h.digest, e->digest, sizeof h.digest);
    /* Whatever the program's umask removes, the owner can read it again. */
    return flxi_system.fchmod(fd, 0600) == 0 && flxi_write_all(fd, &h, sizeof h) &&
           flxi_write_all(fd, e->bytes, e->n) && flxi_system.fsync(fd) == 0;
}

static bool put_entry(flxi_object_cache *c, int dir, const unsigned char *key, const flxi_cache_entry *e)
{
    char temp[NAME_BYTES], name[NAME_BYTES];
    entry_name(key, name);
    int fd = open_temp(c, dir, temp);
    if (fd < 0)
        return false;
    bool ok = write_entry(fd, key, e);
    int error = errno;
    if (flxi_system.close(fd) != 0 && ok) {
        ok = false;
        error = errno;
    }
    if (ok && flxi_system.renameat(dir, temp, dir, name) == 0)
        return true;
    if (ok)
        error = errno;
    flxi_system.unlinkat(dir, temp, 0);
    errno = error;
    return false;
}

void flxi_object_cache_write(flxi_object_cache *c, const unsigned char key[FLXI_SHA256_BYTES],
                             const flxi_cache_entry *e)
{
    uint64_t size = sizeof(header) + (uint64_t)e->n;
    if (mode_of(c) != FLX_CACHE_ON)
        return;
    if (size > c->max_bytes || size > largest_entry) {
        note(c, "an object of %llu bytes is too large for the cache", (unsigned long long)e->n);
        return;
    }
    int dir = open_dir(c, true);
    if (dir < 0)
        return;
    if (put_entry(c, dir, key, e)) {
        count(c, &c->stats.stored, 1);
        sweep(c, dir);
        if (is_eviction_due(c, key, size))
            evict(c, dir);
    } else {
        note(c, "cannot write to the cache: %s", strerror(errno));
    }
    flxi_system.close(dir);
}

/* ---- For people ---- */

void flxi_object_cache_describe(flxi_object_cache *c, char *text, size_t size)
{
    flx_cache_mode mode = mode_of(c);
    char path[PATH_BYTES];
    if (mode == FLX_CACHE_OFF) {
        snprintf(text, size, "off");
        return;
    }
    if (!find_dir(c, path)) {
        snprintf(text, size, "%s", c->stats.note);
        return;
    }
    int fd = open_dir(c, false);
    const char *state = fd >= 0 ? "" : ", not made yet";
    if (fd < 0 && c->stats.note[0])
        snprintf(text, size, "%s", c->stats.note);
    else
        snprintf(text, size, "%s%s%s", path, state, mode == FLX_CACHE_READ_ONLY ? ", read only" : "");
    if (fd >= 0)
        flxi_system.close(fd);
}
