/* SPDX-License-Identifier: Apache-2.0 */
/* temp_dir.c: see temp_dir.h. */
#include "base/host/temp_dir.h"

#include "base/host/system.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static const char prefix[] = "fluxion-"; /* then the number of the process and six random letters */

flx_code flxi_temp_dir_fail(flx_error *err, const char *what, const char *dir)
{
    return flxi_fail_hint(err, FLX_E_DEVICE, "set TMPDIR to a directory with room that you may write to",
                          "cannot %s in '%.100s': %s", what, dir, strerror(errno));
}

static int open_directory(int parent, const char *name)
{
    return openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* ---- Removing ---- */

/* Levels of directories that a compiler may have made; what is deeper stays. */
enum { MAX_DEPTH = 16 };

/* Removes a directory and what is in it. Links are removed, not followed: what they lead to is not ours. */
static void remove_at(int parent, const char *name, int depth)
{
    int fd = open_directory(parent, name);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (!d && fd >= 0)
        close(fd);
    for (struct dirent *e; d && (e = readdir(d));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (flxi_system.unlinkat(dirfd(d), e->d_name, 0) != 0 && depth < MAX_DEPTH)
            remove_at(dirfd(d), e->d_name, depth + 1);
    }
    if (d)
        closedir(d);
    flxi_system.unlinkat(parent, name, AT_REMOVEDIR);
}

/* Whether it is a directory of a process of this user that has ended: the name has its number, and it would hold a lock
   on the directory even where numbers mean something else, in another container. */
static bool is_left_over(int parent, const char *name)
{
    char *end;
    struct stat st;
    if (strncmp(name, prefix, sizeof prefix - 1) != 0)
        return false;
    long owner = strtol(name + sizeof prefix - 1, &end, 10);
    if (owner <= 0 || owner > INT32_MAX || *end != '-' || (kill((pid_t)owner, 0) == 0 || errno != ESRCH))
        return false;
    int fd = open_directory(parent, name);
    if (fd < 0)
        return false;
    bool is_ours = fstat(fd, &st) == 0 && st.st_uid == geteuid() && flock(fd, LOCK_EX | LOCK_NB) == 0;
    close(fd);
    return is_ours;
}

static void sweep(const char *parent)
{
    static atomic_flag done = ATOMIC_FLAG_INIT;
    DIR *d = atomic_flag_test_and_set(&done) ? NULL : opendir(parent);
    for (struct dirent *e; d && (e = readdir(d));)
        if (is_left_over(dirfd(d), e->d_name))
            remove_at(dirfd(d), e->d_name, 0);
    if (d)
        closedir(d);
}

void flxi_temp_dir_remove(flxi_temp_dir *d)
{
    if (!d->path[0])
        return;
    remove_at(AT_FDCWD, d->path, 0);
    if (d->lock >= 0)
        close(d->lock);
    d->path[0] = 0;
}

/* ---- Making ---- */

flx_code flxi_temp_dir_make(flxi_temp_dir *d, flx_error *err)
{
    const char *parent = secure_getenv("TMPDIR");
    char path[sizeof d->path];
    parent = parent && parent[0] ? parent : "/tmp";
    int n = snprintf(path, sizeof path, "%s/%s%ld-XXXXXX", parent, prefix, (long)getpid());
    if (n < 0 || (size_t)n >= sizeof path) {
        errno = ENAMETOOLONG;
        return flxi_temp_dir_fail(err, "make a directory", parent);
    }
    if (!flxi_system.mkdtemp(path))
        return flxi_temp_dir_fail(err, "make a directory", parent);
    memcpy(d->path, path, (size_t)n + 1);
    d->lock = open_directory(AT_FDCWD, d->path);
    if (d->lock >= 0)
        (void)flock(d->lock, LOCK_EX | LOCK_NB); /* without it the number of the process decides */
    sweep(parent);
    return FLX_OK;
}
