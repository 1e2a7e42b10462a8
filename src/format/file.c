/* SPDX-License-Identifier: Apache-2.0 */
/* file.c: see file.h. Every system call goes through the table at the end and may do less than requested. One that a
   signal interrupts is repeated, unless the signal has stopped the thread: a pipe may not have an end. */
#include "format/file.h"

#include "base/host/stop.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

/* Some systems reject larger pieces. */
static const size_t largest_piece = (size_t)1 << 30;

static flx_code io_error(flx_error *err, const char *what)
{
    return flxi_fail(err, FLX_E_IO, "%s: %s", what, strerror(errno));
}

/* Whether a call that failed should be repeated. */
static bool should_repeat(void)
{
    return errno == EINTR && !flxi_stopped();
}

/* The same for reading, which fails as what stopped the thread does. */
static flx_code read_error(flx_error *err, const char *what)
{
    return errno == EINTR && flxi_stopped() ? flxi_stop_check(err) : io_error(err, what);
}

static int open_file(const char *path, int flags, mode_t mode)
{
    int fd;
    do {
        fd = flxi_file_system.open(path, flags | O_CLOEXEC, mode);
    } while (fd < 0 && should_repeat());
    return fd;
}

/* ---- Reading ---- */

flxi_source flxi_source_memory(const void *bytes, size_t size)
{
    return (flxi_source){.bytes = size ? bytes : (const unsigned char *)"", .fd = -1, .size = size, .name = "file"};
}

flxi_source flxi_source_part(const flxi_source *s, uint64_t at, uint64_t size)
{
    flxi_source part = {.fd = s->fd, .base = s->base + at, .size = size, .name = s->name};
    if (s->bytes)
        part.bytes = s->bytes + at;
    return part;
}

flx_code flxi_source_at(const flxi_source *s, uint64_t at, flx_error *err)
{
    return flxi_at(err, "%.90s:%llu", s->name, (unsigned long long)(s->base + at));
}

/* Reads a pipe to its end. */
static flx_code read_all(flxi_source *s, int64_t limit, flx_error *err)
{
    char piece[16384];
    for (;;) {
        ssize_t n = flxi_file_system.read(s->fd, piece, sizeof piece);
        if (n < 0 && should_repeat())
            continue;
        if (n < 0)
            return read_error(err, "cannot read");
        if (n == 0)
            break;
        if (limit > 0 && s->kept.n + (size_t)n > (size_t)limit)
            return flxi_fail(err, FLX_E_SIZE, "the input is longer than the limit of %lld bytes", (long long)limit);
        flxi_add_bytes(&s->kept, piece, (size_t)n);
        if (s->kept.failed)
            return flxi_oom(err, "reading a pipe");
    }
    s->bytes = (const unsigned char *)(s->kept.at ? s->kept.at : "");
    s->size = s->kept.n;
    return FLX_OK;
}

/* Files of /proc and the like are regular but report size 0, so they are read to find out. */
static flx_code inspect(flxi_source *s, int64_t limit, flx_error *err)
{
    struct stat st;
    if (flxi_file_system.fstat(s->fd, &st) != 0)
        return io_error(err, "cannot open");
    if (S_ISDIR(st.st_mode)) {
        errno = EISDIR;
        return io_error(err, "cannot read");
    }
    if (S_ISREG(st.st_mode) && st.st_size > 0) {
        s->size = (uint64_t)st.st_size;
        return FLX_OK;
    }
    if (S_ISREG(st.st_mode) || S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode))
        return read_all(s, limit, err);
    return flxi_fail(err, FLX_E_IO, "cannot read: not a file or a pipe");
}

flx_code flxi_source_open(flxi_source *s, const flxi_allocator *mem, const char *path, int64_t limit, flx_error *err)
{
    *s = (flxi_source){.fd = -1, .name = path};
    flxi_strbuf_init(&s->kept, mem);
    s->fd = open_file(path, O_RDONLY, 0);
    if (s->fd < 0)
        return read_error(err, "cannot open");
    flx_code code = inspect(s, limit, err);
    if (code != FLX_OK)
        flxi_source_close(s);
    return code;
}

void flxi_source_close(flxi_source *s)
{
    if (s->fd >= 0)
        flxi_file_system.close(s->fd);
    flxi_strbuf_free(&s->kept);
    *s = (flxi_source){.fd = -1, .kept.mem = s->kept.mem};
}

flx_code flxi_source_read(const flxi_source *s, uint64_t at, void *out, size_t n, flx_error *err)
{
    if (at > s->size || n > s->size - at)
        return flxi_fail(err, FLX_E_SYNTAX, "the file ends after %llu bytes, expected %llu",
                         (unsigned long long)s->size, (unsigned long long)at + n);
    if (s->bytes) {
        if (n)
            memcpy(out, s->bytes + at, n);
        return FLX_OK;
    }
    unsigned char *p = out;
    uint64_t from = s->base + at;
    while (n > 0) {
        size_t piece = n < largest_piece ? n : largest_piece;
        ssize_t k = flxi_file_system.pread(s->fd, p, piece, (off_t)from);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return io_error(err, "cannot read");
        if (k == 0)
            return flxi_fail(err, FLX_E_IO, "the file was truncated while it was read");
        p += k;
        from += (uint64_t)k;
        n -= (size_t)k;
    }
    return FLX_OK;
}

static flx_code read_whole(flxi_file_bytes *f, const flxi_source *s, int64_t limit, flx_error *err)
{
    if ((limit > 0 && s->size > (uint64_t)limit) || s->size > PTRDIFF_MAX)
        return flxi_fail(err, FLX_E_SIZE, "the file has %llu bytes, more than the limit", (unsigned long long)s->size);
    f->size = (size_t)s->size;
    f->bytes = flxi_alloc(f->mem, f->size, 1);
    if (!f->bytes)
        return flxi_fail(err, FLX_E_OOM, "out of memory: a file of %zu bytes", f->size);
    flx_code code = flxi_source_read(s, 0, f->bytes, f->size, err);
    if (code != FLX_OK)
        flxi_file_free(f);
    return code;
}

flx_code flxi_file_read(flxi_file_bytes *f, const flxi_allocator *mem, const char *path, int64_t limit, flx_error *err)
{
    flxi_source s;
    *f = (flxi_file_bytes){.mem = mem};
    FLXI_TRY(flxi_source_open(&s, mem, path, limit, err));
    flx_code code = read_whole(f, &s, limit, err);
    flxi_source_close(&s);
    return code;
}

void flxi_file_free(flxi_file_bytes *f)
{
    flxi_free(f->mem, f->bytes, f->size, 1);
    *f = (flxi_file_bytes){.mem = f->mem};
}

/* ---- Saving ---- */

/* The path that will be replaced: a link is kept, and its target is written. */
static bool resolve(const char *path, char out[FLXI_PATH_MAX])
{
    _Static_assert(FLXI_PATH_MAX >= PATH_MAX, "realpath writes up to PATH_MAX bytes");
    struct stat st;
    if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode) && realpath(path, out))
        return true;
    size_t n = strlen(path);
    if (n >= FLXI_PATH_MAX) {
        errno = ENAMETOOLONG;
        return false;
    }
    memcpy(out, path, n + 1);
    return true;
}

/* Length of the folder part of a path with its last slash; 0 when it has none. */
static size_t folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

/* Locks a new temporary file, so that flxi_save_sweep() leaves it alone; true if a sweep came between its creation and
   the lock. Where locks do not work, a sweep gets none either. */
static bool was_swept(int fd)
{
    struct stat st;
    return flock(fd, LOCK_EX | LOCK_NB) != 0 ? errno == EWOULDBLOCK : fstat(fd, &st) == 0 && st.st_nlink == 0;
}

/* A new file in the same folder, because only then can it be moved into place atomically. A leftover of a killed
   program is skipped. */
static int open_temp(flxi_save *s)
{
    static const int tries = 1000;
    size_t folder = folder_length(s->path);
    for (int i = 0; i < tries; i++) {
        char name[64];
        int n = snprintf(name, sizeof name, ".flx-%ld-%d.tmp", (long)getpid(), i);
        if (folder + (size_t)n >= sizeof s->temp) {
            errno = ENAMETOOLONG;
            return -1;
        }
        memcpy(s->temp, s->path, folder);
        memcpy(s->temp + folder, name, (size_t)n + 1);
        int fd = open_file(s->temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0666);
        if (fd >= 0 && was_swept(fd)) {
            flxi_file_system.close(fd);
            continue;
        }
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

/* ---- Leftovers of killed programs ---- */

static bool is_temp_name(const char *name)
{
    size_t n = strlen(name);
    return n > 9 && memcmp(name, ".flx-", 5) == 0 && memcmp(name + n - 4, ".tmp", 4) == 0;
}

/* Once it is locked, the name must still be that of the file: its save may have ended, and another have taken the name.
   While the lock is held here, no save uses the file. */
static void remove_if_unused(int folder, const char *name)
{
    struct stat st, now;
    int fd = openat(folder, name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && flock(fd, LOCK_EX | LOCK_NB) == 0 &&
        fstatat(folder, name, &now, AT_SYMLINK_NOFOLLOW) == 0 && now.st_ino == st.st_ino && now.st_dev == st.st_dev)
        unlinkat(folder, name, 0);
    close(fd);
}

void flxi_save_sweep(const char *path)
{
    char folder[FLXI_PATH_MAX];
    if (!resolve(path, folder))
        return;
    size_t n = folder_length(folder);
    memcpy(folder + n, n ? "" : ".", n ? 1 : 2);
    DIR *dir = opendir(folder);
    if (!dir)
        return;
    for (struct dirent *e; (e = readdir(dir)) != NULL;)
        if (is_temp_name(e->d_name))
            remove_if_unused(dirfd(dir), e->d_name);
    closedir(dir);
}

/* ---- Saving, continued ---- */

flx_code flxi_save_begin(flxi_save *s, const char *path, flx_error *err)
{
    s->fd = s->lock = -1;
    s->direct = false;
    s->written = 0;
    s->temp[0] = 0;
    if (!resolve(path, s->path))
        return io_error(err, "cannot write");
    struct stat st;
    bool exists = flxi_file_system.stat(s->path, &st) == 0;
    if (!exists && errno != ENOENT)
        return io_error(err, "cannot write");
    if (exists && S_ISDIR(st.st_mode)) {
        errno = EISDIR;
        return io_error(err, "cannot write");
    }
    if (exists && !S_ISREG(st.st_mode)) {
        s->direct = true;
        s->fd = open_file(s->path, O_WRONLY, 0);
        return s->fd < 0 ? io_error(err, "cannot open") : FLX_OK;
    }
    s->fd = open_temp(s);
    if (s->fd < 0) {
        s->temp[0] = 0;
        return io_error(err, "cannot create a temporary file in the same folder");
    }
    s->lock = fcntl(s->fd, F_DUPFD_CLOEXEC, 0); /* a lock belongs to all copies of a descriptor */
    if (exists && flxi_file_system.fchmod(s->fd, st.st_mode & 0777) != 0) {
        io_error(err, "cannot set its permissions");
        flxi_save_abandon(s);
        return FLX_E_IO;
    }
    return FLX_OK;
}

flx_code flxi_save_bytes(flxi_save *s, const void *data, size_t n, flx_error *err)
{
    const unsigned char *p = data;
    while (n > 0) {
        size_t piece = n < largest_piece ? n : largest_piece;
        ssize_t k = flxi_file_system.write(s->fd, p, piece);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0) {
            errno = k == 0 ? ENOSPC : errno;
            return io_error(err, "cannot write");
        }
        p += k;
        n -= (size_t)k;
        s->written += (uint64_t)k;
    }
    return FLX_OK;
}

/* The new name is on disk once the folder is synced; not every file system supports this, and the file is complete
   either way. */
static void sync_folder(flxi_save *s)
{
    size_t folder = folder_length(s->path);
    if (folder == 0)
        memcpy(s->temp, ".", 2);
    else
        s->temp[folder] = 0; /* temp begins with the same folder */
    int fd = open_file(s->temp, O_RDONLY | O_DIRECTORY, 0);
    if (fd >= 0) {
        flxi_file_system.fsync(fd);
        flxi_file_system.close(fd);
    }
}

static bool sync_file(const flxi_save *s)
{
    if (flxi_file_system.fsync(s->fd) == 0)
        return true;
    return s->direct && (errno == EINVAL || errno == ENOTSUP || errno == EROFS); /* pipes and devices cannot */
}

static void release_lock(flxi_save *s)
{
    if (s->lock >= 0)
        close(s->lock);
    s->lock = -1;
}

flx_code flxi_save_end(flxi_save *s, flx_error *err)
{
    if (!sync_file(s)) {
        io_error(err, "cannot write");
        flxi_save_abandon(s);
        return FLX_E_IO;
    }
    int fd = s->fd;
    s->fd = -1; /* the descriptor is gone whatever close returns */
    if (flxi_file_system.close(fd) != 0 && errno != EINTR) {
        io_error(err, "cannot write");
        flxi_save_abandon(s);
        return FLX_E_IO;
    }
    if (s->direct)
        return FLX_OK;
    if (flxi_file_system.rename(s->temp, s->path) != 0) {
        io_error(err, "cannot move the new file into place");
        flxi_save_abandon(s);
        return FLX_E_IO;
    }
    sync_folder(s);
    s->temp[0] = 0;
    release_lock(s);
    return FLX_OK;
}

void flxi_save_abandon(flxi_save *s)
{
    if (s->fd >= 0)
        flxi_file_system.close(s->fd);
    s->fd = -1;
    if (s->temp[0])
        flxi_file_system.unlink(s->temp);
    s->temp[0] = 0;
    release_lock(s);
}

/* ---- The system calls ---- */

static int open_with_mode(const char *path, int flags, mode_t mode)
{
    return open(path, flags, mode);
}

flxi_file_calls flxi_file_system = {
    .open = open_with_mode,
    .stat = stat,
    .fstat = fstat,
    .read = read,
    .pread = pread,
    .write = write,
    .fchmod = fchmod,
    .fsync = fsync,
    .close = close,
    .rename = rename,
    .unlink = unlink,
};
