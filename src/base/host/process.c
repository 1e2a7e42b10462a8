/* SPDX-License-Identifier: Apache-2.0 */
/* process.c: see process.h. One thread starts and watches all programs: it sleeps until one of them prints, ends or
   exceeds its time. The end of the output shows that a program ends. */
#include "base/host/process.h"

#include "base/host/stop.h"
#include "base/host/system.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

bool flxi_process_ok(const flxi_process *p)
{
    return p->state == FLXI_PROCESS_ENDED && WIFEXITED(p->status) && WEXITSTATUS(p->status) == 0;
}

/* ---- Starting ---- */

/* No input; both outputs go to the pipe. */
static int add_actions(posix_spawn_file_actions_t *actions, int output)
{
    int error = posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDONLY, 0);
    if (!error)
        error = posix_spawn_file_actions_adddup2(actions, output, 1);
    if (!error)
        error = posix_spawn_file_actions_adddup2(actions, output, 2);
    return error;
}

/* The calling thread may block signals, and the process may ignore some: the child must not inherit either. */
static int set_attributes(posix_spawnattr_t *attr)
{
    sigset_t none, usual;
    sigemptyset(&none);
    sigemptyset(&usual);
    sigaddset(&usual, SIGCHLD);
    sigaddset(&usual, SIGPIPE);
    sigaddset(&usual, SIGXFSZ);
    int error = posix_spawnattr_setflags(attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    if (!error)
        error = posix_spawnattr_setpgroup(attr, 0);
    if (!error)
        error = posix_spawnattr_setsigmask(attr, &none);
    if (!error)
        error = posix_spawnattr_setsigdefault(attr, &usual);
    return error;
}

static int spawn(flxi_process *p, int output)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    int error = posix_spawn_file_actions_init(&actions);
    if (error)
        return error;
    error = posix_spawnattr_init(&attr);
    if (!error) {
        error = add_actions(&actions, output);
        if (!error)
            error = set_attributes(&attr);
        if (!error)
            error = flxi_system.spawn(&p->pid, p->args[0], &actions, &attr, (char *const *)(uintptr_t)p->args,
                                      p->environment ? (char *const *)(uintptr_t)p->environment : environ);
        posix_spawnattr_destroy(&attr);
    }
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

/* If the system refuses, the time limit still holds, which is the essential one. */
static void limit(const flxi_process *p, const flxi_process_limits *limits)
{
    const struct rlimit memory = {limits->memory_bytes, limits->memory_bytes};
    const struct rlimit file = {limits->file_bytes, limits->file_bytes};
    const struct rlimit core = {0, 0};
    if (limits->memory_bytes)
        prlimit(p->pid, RLIMIT_AS, &memory, NULL);
    if (limits->file_bytes)
        prlimit(p->pid, RLIMIT_FSIZE, &file, NULL);
    prlimit(p->pid, RLIMIT_CORE, &core, NULL);
}

static void start(flxi_process *p, const flxi_process_limits *limits)
{
    int ends[2];
    p->state = FLXI_PROCESS_REFUSED;
    if (flxi_system.pipe(ends, O_CLOEXEC) != 0) {
        p->error = errno;
        return;
    }
    p->error = spawn(p, ends[1]);
    flxi_system.close(ends[1]);
    if (p->error) {
        flxi_system.close(ends[0]);
        return;
    }
    limit(p, limits);
    p->output = ends[0];
    p->end_ms = limits->time_ms > 0 ? now_ms() + limits->time_ms : INT64_MAX;
    p->state = FLXI_PROCESS_RUNS;
}

/* ---- Watching ---- */

static void kill_group(const flxi_process *p)
{
    kill(-p->pid, SIGKILL);
}

/* Whether the program has ended, though others may still hold its output. It is not reaped yet, so that its group keeps
   its number. */
static bool has_ended(const flxi_process *p)
{
    siginfo_t info = {0};
    int result;
    do
        result = waitid(P_PID, (id_t)p->pid, &info, WEXITED | WNOHANG | WNOWAIT);
    while (result < 0 && errno == EINTR);
    return result < 0 || info.si_pid != 0;
}

/* Reaps the child; false if it still runs. If the host ignores its children, or reaps them itself, there is no status:
   that counts as success, and the results of the program decide. */
static bool collect(flxi_process *p, int flags)
{
    pid_t got;
    do
        got = waitpid(p->pid, &p->status, flags);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        p->status = 0;
    return got != 0;
}

/* The output has ended, so the program will end soon; one that only closed its output may run until its time limit. */
static flxi_process_state wait_for_end(flxi_process *p)
{
    for (long pause_ns = 20000; !collect(p, WNOHANG); pause_ns = pause_ns < 5000000 ? pause_ns * 2 : pause_ns) {
        bool is_late = p->end_ms <= now_ms();
        if (is_late || flxi_stopped()) {
            kill_group(p);
            collect(p, 0);
            return is_late ? FLXI_PROCESS_LATE : FLXI_PROCESS_STOPPED;
        }
        nanosleep(&(struct timespec){.tv_nsec = pause_ns}, NULL);
    }
    return FLXI_PROCESS_ENDED;
}

static void end(flxi_process *p, flxi_process_state state)
{
    if (state == FLXI_PROCESS_ENDED) {
        state = wait_for_end(p);
    } else {
        kill_group(p);
        collect(p, 0);
    }
    flxi_system.close(p->output);
    p->said[p->num_said] = 0;
    p->state = state;
}

/* Keeps the beginning of the output. */
static void take_output(flxi_process *p)
{
    char piece[4096];
    ssize_t got = flxi_system.read(p->output, piece, sizeof piece);
    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (got <= 0) {
        p->error = got < 0 ? errno : 0;
        end(p, got < 0 ? FLXI_PROCESS_REFUSED : FLXI_PROCESS_ENDED);
        return;
    }
    size_t room = sizeof p->said - 1 - p->num_said;
    size_t kept = (size_t)got < room ? (size_t)got : room;
    memcpy(p->said + p->num_said, piece, kept);
    p->num_said += kept;
}

typedef struct {
    flxi_process *running[FLXI_PROCESS_JOBS];
    struct pollfd polled[FLXI_PROCESS_JOBS];
    nfds_t n;
} watch;

/* Time between two checks for what no output shows: a stop, and the end of a program whose output others hold. */
enum { LOOK_MS = 10 };

/* Milliseconds to sleep at most. */
static int time_left(const watch *w)
{
    int64_t first = INT64_MAX;
    for (nfds_t i = 0; i < w->n; i++)
        if (w->running[i]->end_ms < first)
            first = w->running[i]->end_ms;
    int64_t left = first - now_ms();
    return left < 0 ? 0 : left > LOOK_MS ? LOOK_MS : (int)left;
}

static void watch_once(watch *w)
{
    for (nfds_t i = 0; i < w->n; i++)
        w->polled[i] = (struct pollfd){.fd = w->running[i]->output, .events = POLLIN};
    int ready = poll(w->polled, w->n, time_left(w));
    for (nfds_t i = 0; i < w->n; i++) {
        flxi_process *p = w->running[i];
        if (ready > 0 && w->polled[i].revents)
            take_output(p);
        if (p->state == FLXI_PROCESS_RUNS && ready == 0 && has_ended(p)) {
            kill_group(p); /* those who hold the output */
            end(p, FLXI_PROCESS_ENDED);
        }
        if (p->state == FLXI_PROCESS_RUNS && p->end_ms <= now_ms())
            end(p, FLXI_PROCESS_LATE);
        if (p->state == FLXI_PROCESS_RUNS && flxi_stopped())
            end(p, FLXI_PROCESS_STOPPED);
    }
    nfds_t kept = 0;
    for (nfds_t i = 0; i < w->n; i++)
        if (w->running[i]->state == FLXI_PROCESS_RUNS)
            w->running[kept++] = w->running[i];
    w->n = kept;
}

static bool any_failed(const flxi_process *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i].state != FLXI_PROCESS_RUNS && !flxi_process_ok(&p[i]))
            return true;
    return false;
}

void flxi_processes_run(flxi_process *p, size_t n, const flxi_process_limits *limits)
{
    watch w = {.n = 0};
    size_t jobs = limits->jobs < 1 ? 1 : limits->jobs > FLXI_PROCESS_JOBS ? FLXI_PROCESS_JOBS : (size_t)limits->jobs;
    size_t next = 0;
    for (size_t i = 0; i < n; i++) {
        p[i].state = FLXI_PROCESS_WAITING;
        p[i].num_said = 0;
        p[i].said[0] = 0;
    }
    for (;;) {
        while (next < n && w.n < jobs && !any_failed(p, next) && !flxi_stopped()) {
            start(&p[next], limits);
            if (p[next].state == FLXI_PROCESS_RUNS)
                w.running[w.n++] = &p[next];
            next++;
        }
        if (w.n == 0)
            break;
        watch_once(&w);
    }
}
