/* SPDX-License-Identifier: Apache-2.0 */
/* system.h: system calls that may fail, in one table, so that tests can make each of them fail.

   The functions below the table are for general use: they repeat a call that a signal interrupts and continue after a
   partial one. */
#ifndef FLXI_SYSTEM_H
#define FLXI_SYSTEM_H

#include <spawn.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

typedef struct {
    int (*openat)(int dir, const char *path, int flags, mode_t mode);
    int (*fstat)(int fd, struct stat *out);
    ssize_t (*read)(int fd, void *out, size_t n);
    ssize_t (*write)(int fd, const void *data, size_t n);
    int (*fchmod)(int fd, mode_t mode);
    int (*fsync)(int fd);
    int (*close)(int fd);
    int (*renameat)(int from_dir, const char *from, int to_dir, const char *to);
    int (*unlinkat)(int dir, const char *path, int flags);
    int (*mkdir)(const char *path, mode_t mode);
    char *(*mkdtemp)(char *path);
    int (*memfd)(const char *name, unsigned flags);
    int (*seal)(int fd); /* against all changes */
    void *(*map)(int fd, size_t n);
    void *(*dlopen)(const char *path, int flags);
    int (*pipe)(int ends[2], int flags);
    int (*spawn)(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attr,
                 char *const *args, char *const *environment); /* returns an errno */
} flxi_system_calls;

extern flxi_system_calls flxi_system; /* written by tests only */

/* All of these return -1 or false with errno on failure; descriptors are close-on-exec. */
int flxi_open_at(int dir, const char *path, int flags, mode_t mode);
bool flxi_read_all(int fd, void *out, size_t n);         /* exactly n bytes; EIO when there are fewer */
bool flxi_write_all(int fd, const void *data, size_t n); /* ENOSPC if the system accepts none */

#endif
