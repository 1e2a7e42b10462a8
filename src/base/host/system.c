/* SPDX-License-Identifier: Apache-2.0 */
/* system.c: see system.h. */
#include "base/host/system.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static int call_openat(int dir, const char *path, int flags, mode_t mode)
{
    return openat(dir, path, flags, mode);
}

static int call_fstat(int fd, struct stat *out)
{
    return fstat(fd, out);
}

static int call_seal(int fd)
{
    return fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL);
}

static void *call_map(int fd, size_t n)
{
    return mmap(NULL, n, PROT_READ, MAP_PRIVATE, fd, 0);
}

flxi_system_calls flxi_system = {
    .openat = call_openat,
    .fstat = call_fstat,
    .read = read,
    .write = write,
    .fchmod = fchmod,
    .fsync = fsync,
    .close = close,
    .renameat = renameat,
    .unlinkat = unlinkat,
    .mkdir = mkdir,
    .mkdtemp = mkdtemp,
    .memfd = memfd_create,
    .seal = call_seal,
    .map = call_map,
    .dlopen = dlopen,
    .pipe = pipe2,
    .spawn = posix_spawn,
};

int flxi_open_at(int dir, const char *path, int flags, mode_t mode)
{
    int fd;
    do
        fd = flxi_system.openat(dir, path, flags | O_CLOEXEC, mode);
    while (fd < 0 && errno == EINTR);
    return fd;
}

bool flxi_read_all(int fd, void *out, size_t n)
{
    unsigned char *p = out;
    while (n > 0) {
        ssize_t k = flxi_system.read(fd, p, n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k == 0)
            errno = EIO;
        if (k <= 0)
            return false;
        p += k;
        n -= (size_t)k;
    }
    return true;
}

bool flxi_write_all(int fd, const void *data, size_t n)
{
    const unsigned char *p = data;
    while (n > 0) {
        ssize_t k = flxi_system.write(fd, p, n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k == 0)
            errno = ENOSPC;
        if (k <= 0)
            return false;
        p += k;
        n -= (size_t)k;
    }
    return true;
}
