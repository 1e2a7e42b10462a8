/* compile_c.c: see compile_c.h. The compiler is started directly, never through a shell, with fixed arguments and file
   names of our own; what it prints is read through a pipe that also tells when it is done. */
#include "backend/cpu/compile_c.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* A kernel takes some ten milliseconds; a large file on a busy machine some seconds. */
static const int max_seconds = 300;

enum { PATH_MAX_BYTES = 4096 };

struct flxi_object {
    const flxi_allocator *mem;
    void *handle;
};

typedef struct {
    char compiler[PATH_MAX_BYTES];
    char dir[PATH_MAX_BYTES];
    char source[PATH_MAX_BYTES + 16], object[PATH_MAX_BYTES + 16];
    char said[400]; /* the beginning of what the compiler printed */
    flx_error *err;
} job;

/* ---- The compiler ---- */

static bool is_program(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* A name without a slash is looked for on the PATH. */
static bool find_program(const char *name, char *path, size_t size)
{
    int n;
    if (strchr(name, '/')) {
        n = snprintf(path, size, "%s", name);
        return n > 0 && (size_t)n < size && is_program(path);
    }
    const char *dirs = secure_getenv("PATH");
    for (const char *at = dirs ? dirs : "/usr/bin:/bin"; *at;) {
        size_t length = strcspn(at, ":");
        n = snprintf(path, size, "%.*s/%s", (int)length, at, name);
        if (length > 0 && n > 0 && (size_t)n < size && is_program(path))
            return true;
        at += length + (at[length] == ':');
    }
    return false;
}

static flx_code find_compiler(job *j)
{
    static const char *const names[] = {"cc", "gcc", "clang"};
    const char *chosen = secure_getenv("FLX_CC");
    char shown[120];
    if (chosen && chosen[0]) {
        if (find_program(chosen, j->compiler, sizeof j->compiler))
            return FLX_OK;
        return flxi_fail_hint(j->err, FLX_E_DEVICE, "set FLX_CC to a C compiler, or unset it",
                              "FLX_CC is '%s', which is no program",
                              flxi_printable(shown, sizeof shown, chosen, strlen(chosen)));
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (find_program(names[i], j->compiler, sizeof j->compiler))
            return FLX_OK;
    return flxi_fail_hint(j->err, FLX_E_DEVICE, "install gcc or clang, or set FLX_CC; device ref needs none",
                          "there is no C compiler: none of cc, gcc and clang is on the PATH");
}

/* ---- Files ---- */

static flx_code fail_file(job *j, const char *what)
{
    return flxi_fail_hint(j->err, FLX_E_DEVICE, "set TMPDIR to a directory with room that you may write to",
                          "cannot %s in '%.100s': %s", what, j->dir, strerror(errno));
}

static flx_code make_dir(job *j)
{
    const char *parent = secure_getenv("TMPDIR");
    int n = snprintf(j->dir, sizeof j->dir, "%s/fluxion-XXXXXX", parent && parent[0] ? parent : "/tmp");
    if (n < 0 || (size_t)n >= sizeof j->dir || !mkdtemp(j->dir)) {
        flx_code code = fail_file(j, "make a directory");
        j->dir[0] = 0;
        return code;
    }
    snprintf(j->source, sizeof j->source, "%s/k.c", j->dir);
    snprintf(j->object, sizeof j->object, "%s/k.so", j->dir);
    return FLX_OK;
}

static void remove_dir(job *j)
{
    if (!j->dir[0])
        return;
    unlink(j->source);
    unlink(j->object);
    rmdir(j->dir);
}

static flx_code write_source(job *j, const char *text, size_t n)
{
    int fd = open(j->source, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return fail_file(j, "make a file");
    while (n > 0) {
        ssize_t written = write(fd, text, n);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0) {
            flx_code code = fail_file(j, "write a file");
            close(fd);
            return code;
        }
        text += written;
        n -= (size_t)written;
    }
    return close(fd) == 0 ? FLX_OK : fail_file(j, "write a file");
}

/* ---- Running it ---- */

static flx_code start(job *j, unsigned flags, int out, pid_t *pid)
{
    const char *const args[] = {
        j->compiler,
        "-std=gnu17",
        "-O2",
        "-ftree-vectorize",
#if defined(__x86_64__)
        "-march=native",
#endif
        flags & FLXI_C_CONTRACT ? "-ffp-contract=fast" : "-ffp-contract=off",
        "-fno-math-errno",
        "-fno-trapping-math",
        "-fno-strict-aliasing",
        "-fno-builtin", /* constants too get the library's values */
        "-fPIC",
        "-shared",
        "-w",
        "-o",
        j->object,
        j->source,
        "-lm",
        NULL,
    };
    posix_spawn_file_actions_t actions;
    if (posix_spawn_file_actions_init(&actions) != 0)
        return flxi_oom(j->err, "starting the compiler");
    int failed = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    if (!failed)
        failed = posix_spawn_file_actions_adddup2(&actions, out, 1);
    if (!failed)
        failed = posix_spawn_file_actions_adddup2(&actions, out, 2);
    if (!failed)
        failed = posix_spawn(pid, j->compiler, &actions, NULL, (char *const *)(uintptr_t)args, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failed)
        return flxi_fail_hint(j->err, FLX_E_DEVICE, "set FLX_CC to a C compiler that runs here",
                              "cannot start the compiler '%.100s': %s", j->compiler, strerror(failed));
    return FLX_OK;
}

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Reads until the other end is closed; false when the time is over. */
static bool read_output(job *j, int in)
{
    int64_t end = now_ms() + (int64_t)max_seconds * 1000;
    size_t n = 0;
    for (;;) {
        char piece[512];
        struct pollfd p = {.fd = in, .events = POLLIN};
        int64_t left = end - now_ms();
        int ready = poll(&p, 1, left > 0 ? (int)left : 0);
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready <= 0)
            return false;
        ssize_t got = read(in, piece, sizeof piece);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        size_t kept = (size_t)got < sizeof j->said - 1 - n ? (size_t)got : sizeof j->said - 1 - n;
        memcpy(j->said + n, piece, kept);
        n += kept;
    }
    j->said[n] = 0;
    return true;
}

static flx_code wait_for(job *j, pid_t pid, bool in_time)
{
    int status = 0;
    char shown[160];
    pid_t got;
    if (!in_time)
        kill(pid, SIGKILL);
    do
        got = waitpid(pid, &status, 0);
    while (got < 0 && errno == EINTR);
    if (!in_time)
        return flxi_fail(j->err, FLX_E_DEVICE, "the compiler '%.100s' takes longer than %d seconds", j->compiler,
                         max_seconds);
    /* A program that ignores SIGCHLD gets no status: loading will tell. */
    if (got < 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 0))
        return FLX_OK;
    return flxi_fail_hint(j->err, FLX_E_DEVICE, "set FLX_CC to gcc or clang; device ref needs no compiler",
                          "the compiler '%.60s' failed: %s", j->compiler,
                          flxi_printable(shown, sizeof shown, j->said, strlen(j->said)));
}

static flx_code compile(job *j, unsigned flags)
{
    int ends[2];
    pid_t pid;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return flxi_fail(j->err, FLX_E_DEVICE, "cannot start the compiler: %s", strerror(errno));
    flx_code code = start(j, flags, ends[1], &pid);
    close(ends[1]);
    if (code == FLX_OK)
        code = wait_for(j, pid, read_output(j, ends[0]));
    close(ends[0]);
    return code;
}

static flx_code load(job *j, const flxi_allocator *mem, flxi_object **out)
{
    flxi_object *o = flxi_alloc(mem, 1, sizeof *o);
    if (!o)
        return flxi_oom(j->err, "a compiled kernel");
    o->mem = mem;
    o->handle = dlopen(j->object, RTLD_NOW | RTLD_LOCAL);
    if (!o->handle) {
        const char *why = dlerror();
        flxi_free(mem, o, 1, sizeof *o);
        return flxi_fail_hint(j->err, FLX_E_DEVICE, "if TMPDIR forbids executables, set it to one that does not",
                              "cannot load what '%.60s' made: %.120s", j->compiler, why ? why : "unknown reason");
    }
    *out = o;
    return FLX_OK;
}

flx_code flxi_compile_c(const flxi_allocator *mem, const char *text, size_t n, unsigned flags, flxi_object **out,
                        flx_error *err)
{
    job *j = flxi_alloc(mem, 1, sizeof *j);
    if (!j)
        return flxi_oom(err, "starting the compiler");
    j->err = err;
    flx_code code = find_compiler(j);
    if (code == FLX_OK)
        code = make_dir(j);
    if (code == FLX_OK)
        code = write_source(j, text, n);
    if (code == FLX_OK)
        code = compile(j, flags);
    if (code == FLX_OK)
        code = load(j, mem, out);
    remove_dir(j);
    flxi_free(mem, j, 1, sizeof *j);
    return code;
}

void *flxi_object_symbol(const flxi_object *o, const char *name)
{
    return dlsym(o->handle, name);
}

void flxi_object_free(flxi_object *o)
{
    if (!o)
        return;
    dlclose(o->handle);
    flxi_free(o->mem, o, 1, sizeof *o);
}
