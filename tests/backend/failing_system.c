/* SPDX-License-Identifier: Apache-2.0 */
/* failing_system.c: see failing_system.h. Removing files always works: there is nothing to test. */
#include "backend/failing_system.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static flxi_system_calls real; /* as they were */
static system_plan plan;

static bool fails(void)
{
    return call_fails(&plan.failing);
}

/* Reading and writing, and opening, which may wait. */
static bool gives_up(void)
{
    return call_is_interrupted(&plan.failing) || fails();
}

static int bad_openat(int dir, const char *path, int flags, mode_t mode)
{
    return gives_up() ? -1 : real.openat(dir, path, flags, mode);
}
static int bad_fstat(int fd, struct stat *out)
{
    return fails() ? -1 : real.fstat(fd, out);
}
static ssize_t bad_read(int fd, void *out, size_t n)
{
    return gives_up() ? -1 : real.read(fd, out, call_moves(&plan.failing, n));
}
static ssize_t bad_write(int fd, const void *data, size_t n)
{
    return gives_up() ? -1 : real.write(fd, data, call_moves(&plan.failing, n));
}
static int bad_fchmod(int fd, mode_t mode)
{
    return fails() ? -1 : real.fchmod(fd, mode);
}
static int bad_fsync(int fd)
{
    return fails() ? -1 : plan.skip_sync ? 0 : real.fsync(fd);
}
static int bad_close(int fd)
{
    return call_result(&plan.failing, real.close(fd));
}
static int bad_renameat(int from_dir, const char *from, int to_dir, const char *to)
{
    return fails() ? -1 : real.renameat(from_dir, from, to_dir, to);
}
static int bad_mkdir(const char *path, mode_t mode)
{
    return fails() ? -1 : real.mkdir(path, mode);
}
static char *bad_mkdtemp(char *path)
{
    return fails() ? NULL : real.mkdtemp(path);
}
static int bad_memfd(const char *name, unsigned flags)
{
    if (plan.refuse_memory)
        errno = ENOSYS;
    return plan.refuse_memory || fails() ? -1 : real.memfd(name, flags);
}
static int bad_seal(int fd)
{
    return fails() ? -1 : real.seal(fd);
}
static void *bad_map(int fd, size_t n)
{
    return fails() ? MAP_FAILED : real.map(fd, n);
}
static void *bad_dlopen(const char *path, int flags)
{
    return fails() ? NULL : real.dlopen(path, flags);
}
static int last_pipe; /* the end to write to of the last one made */

static int bad_pipe(int ends[2], int flags)
{
    if (fails() || real.pipe(ends, flags) != 0)
        return -1;
    last_pipe = ends[1];
    return 0;
}

static void copy_file(const char *from, const char *to)
{
    char piece[4096];
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    for (size_t n; in && out && (n = fread(piece, 1, sizeof piece, in)) > 0;)
        fwrite(piece, 1, n, out);
    if (in)
        fclose(in);
    if (out)
        fclose(out);
}

/* A compiler that is only played is a process that never was: its output is in the pipe already, and the code that
   waits for it learns that someone else has collected it. Starting real ones takes most of the time of such tests. */
static int play_compiler(pid_t *pid, char *const *args, bool asks_version)
{
    static const char version[] = "gcc, in words";
    for (size_t i = 1; args[i]; i++)
        if (strcmp(args[i - 1], "-o") == 0)
            copy_file(plan.object, args[i]);
    if (asks_version && real.write(last_pipe, version, sizeof version - 1) < 0)
        return errno;
    *pid = INT_MAX;
    return 0;
}

static int bad_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                     const posix_spawnattr_t *attr, char *const *args, char *const *environment)
{
    bool asks_version = args[1] && strcmp(args[1], "--version") == 0;
    if (fails())
        return plan.failing.error;
    plan.compilers += !asks_version;
    return plan.object ? play_compiler(pid, args, asks_version)
                       : real.spawn(pid, path, actions, attr, args, environment);
}

void system_plan_lift(void)
{
    if (real.openat)
        flxi_system = real;
}

system_plan *system_plan_set(const system_plan *p)
{
    system_plan_lift();
    real = flxi_system;
    plan = *p;
    flxi_system = (flxi_system_calls){
        .openat = bad_openat,
        .fstat = bad_fstat,
        .read = bad_read,
        .write = bad_write,
        .fchmod = bad_fchmod,
        .fsync = bad_fsync,
        .close = bad_close,
        .renameat = bad_renameat,
        .unlinkat = real.unlinkat,
        .mkdir = bad_mkdir,
        .mkdtemp = bad_mkdtemp,
        .memfd = bad_memfd,
        .seal = bad_seal,
        .map = bad_map,
        .dlopen = bad_dlopen,
        .pipe = bad_pipe,
        .spawn = bad_spawn,
    };
    return &plan;
}
