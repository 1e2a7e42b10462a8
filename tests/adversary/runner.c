/* SPDX-License-Identifier: Apache-2.0 */
/* runner.c: see runner.h. A process that ends in any way but the expected one has failed at the case that its slot
   names; the cases after it are given to a new process. */
#include "runner.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct {
    pid_t pid; /* 0: idle */
    slot *s;
    uint64_t first, end; /* seeds of the batch */
    bool is_late;        /* killed, because its case takes too long */
    char log[512];
} worker;

typedef struct {
    const part *p;
    const run_options *o;
    worker *workers;
    uint64_t next; /* seed */
    uint64_t end;
    int64_t deadline; /* milliseconds; INT64_MAX: none */
    run_totals totals;
} crew;

int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- What failed ---- */

static void write_input(const crew *c, const worker *w, uint64_t seed)
{
    char path[1024];
    size_t n = atomic_load(&w->s->input_size);
    if (n == 0)
        return;
    snprintf(path, sizeof path, "%s/%s-%" PRIu64 ".input", c->o->found, c->p->name, seed);
    FILE *f = fopen(path, "wb");
    if (!f)
        return;
    fwrite(w->s->input, 1, n < INPUT_ROOM ? n : INPUT_ROOM, f);
    fclose(f);
}

/* Copies the log, of a long one the beginning and the end: a crash is at the end, the law that is broken at the
   beginning. */
static void copy_log(const worker *w, FILE *to, long most)
{
    FILE *f = fopen(w->log, "rb");
    if (!f)
        return;
    fseek(f, 0, SEEK_END);
    long size = ftell(f), at = 0;
    rewind(f);
    for (int c; (c = getc(f)) != EOF; at++) {
        if (at == most / 2 && size > most) {
            fputs("\n    ...\n", to);
            fseek(f, at = size - most / 2, SEEK_SET);
            continue;
        }
        putc(c, to);
    }
    fclose(f);
}

static void describe_end(const worker *w, int status, char *text, size_t size)
{
    if (w->is_late)
        snprintf(text, size, "hangs");
    else if (WIFSIGNALED(status))
        snprintf(text, size, "crashes: %s", strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status) == CASE_FAILED)
        snprintf(text, size, "fails");
    else if (WEXITSTATUS(status) == BATCH_LEAKED)
        snprintf(text, size, "leaks memory");
    else
        snprintf(text, size, "ends the process with status %d", WEXITSTATUS(status));
}

static void record(crew *c, const worker *w, int status)
{
    bool leaked = !w->is_late && WIFEXITED(status) && WEXITSTATUS(status) == BATCH_LEAKED;
    uint64_t seed = leaked ? w->first : atomic_load(&w->s->seed);
    char end[200], path[1024], rerun[1200];
    mkdir(c->o->found, 0777); /* it is there when something was found before */
    describe_end(w, status, end, sizeof end);
    snprintf(rerun, sizeof rerun, "%s %s --seed=%" PRIu64 " --cases=%" PRIu64, c->o->program, c->p->name, seed,
             leaked ? w->end - w->first : 1);
    write_input(c, w, seed);
    snprintf(path, sizeof path, "%s/%s-%" PRIu64 ".txt", c->o->found, c->p->name, seed);
    FILE *f = fopen(path, "w");
    if (f) {
        fprintf(f, "%s, seed %" PRIu64 ": %s\nrerun: %s\n\n", c->p->name, seed, end, rerun);
        copy_log(w, f, 1 << 18);
        fclose(f);
    }
    c->totals.failed++;
    if (c->o->is_quiet)
        return;
    printf("FAILED %s, seed %" PRIu64 ": %s\n", c->p->name, seed, end);
    copy_log(w, stdout, 3000);
    printf("\n    rerun: %s\n    kept: %s\n", rerun, path);
    fflush(stdout);
}

/* ---- Processes ---- */

static void start(crew *c, worker *w)
{
    fflush(NULL);
    atomic_store(&w->s->seed, w->first);
    atomic_store(&w->s->done, 0);
    atomic_store(&w->s->accepted, 0);
    atomic_store(&w->s->input_size, 0);
    atomic_store(&w->s->is_finished, false);
    atomic_store(&w->s->started, now_ms());
    w->is_late = false;
    w->pid = fork();
    if (w->pid < 0) {
        perror("fork");
        exit(2);
    }
    if (w->pid > 0) {
        setpgid(w->pid, w->pid); /* in both processes: neither may be later than a kill */
        return;
    }
    setpgid(0, 0);
    int log = open(w->log, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (log < 0 || in < 0)
        _exit(2);
    dup2(in, 0);
    dup2(log, 1);
    dup2(log, 2);
    run_batch(c->p, w->s, w->first, (int64_t)(w->end - w->first), c->deadline, c->o);
    _exit(0);
}

/* Another batch, unless there is nothing left to do. */
static void give_batch(crew *c, worker *w)
{
    if (c->next >= c->end || now_ms() >= c->deadline || c->totals.failed >= c->o->max_failures)
        return;
    w->first = c->next;
    w->end = c->end - c->next < (uint64_t)c->p->batch ? c->end : c->next + (uint64_t)c->p->batch;
    c->next = w->end;
    start(c, w);
}

static void take_end(crew *c, worker *w, int status)
{
    bool is_good = !w->is_late && WIFEXITED(status) && WEXITSTATUS(status) == 0 && atomic_load(&w->s->is_finished);
    kill(-w->pid, SIGKILL); /* what it started and did not wait for */
    w->pid = 0;
    c->totals.done += atomic_load(&w->s->done);
    c->totals.accepted += atomic_load(&w->s->accepted);
    if (is_good)
        return;
    record(c, w, status);
    uint64_t failed = atomic_load(&w->s->seed);
    bool in_case = w->is_late || WIFSIGNALED(status) || WEXITSTATUS(status) != BATCH_LEAKED;
    if (!in_case)
        return;
    w->first = failed + 1;
    if (w->first < w->end && now_ms() < c->deadline && c->totals.failed < c->o->max_failures)
        start(c, w);
}

static void end_if_late(const crew *c, worker *w)
{
    int64_t limit = (int64_t)(c->p->limit * c->o->limit_factor * 1000);
    if (w->is_late || now_ms() - atomic_load(&w->s->started) < limit)
        return;
    w->is_late = true;
    kill(-w->pid, SIGKILL);
    kill(w->pid, SIGKILL);
}

/* Looks at each worker; returns how many are active. */
static int look_after(crew *c)
{
    int active = 0;
    for (int i = 0; i < c->o->jobs; i++) {
        worker *w = &c->workers[i];
        int status;
        if (w->pid && waitpid(w->pid, &status, WNOHANG) == w->pid)
            take_end(c, w, status);
        if (!w->pid)
            give_batch(c, w);
        if (w->pid)
            end_if_late(c, w);
        active += w->pid != 0;
    }
    return active;
}

static double cpu_seconds(void)
{
    struct rusage u;
    getrusage(RUSAGE_CHILDREN, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

static void open_crew(crew *c)
{
    c->workers = calloc((size_t)c->o->jobs, sizeof *c->workers);
    for (int i = 0; c->workers && i < c->o->jobs; i++) {
        worker *w = &c->workers[i];
        snprintf(w->log, sizeof w->log, "%s/log-%d", c->o->work, i);
        w->s = mmap(NULL, sizeof *w->s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (w->s == MAP_FAILED) {
            perror("mmap");
            exit(2);
        }
    }
}

run_totals run_part(const part *p, const run_options *o)
{
    crew c = {.p = p, .o = o, .next = o->seed};
    c.end = o->cases ? o->seed + (uint64_t)o->cases : UINT64_MAX;
    int64_t begin = now_ms();
    double cpu = cpu_seconds();
    c.deadline = o->seconds > 0 ? begin + (int64_t)(o->seconds * 1000) : INT64_MAX;
    open_crew(&c);
    while (look_after(&c) > 0)
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    for (int i = 0; i < o->jobs; i++) {
        unlink(c.workers[i].log);
        munmap(c.workers[i].s, sizeof *c.workers[i].s);
    }
    free(c.workers);
    c.totals.seconds = (double)(now_ms() - begin) / 1000;
    c.totals.cpu_seconds = cpu_seconds() - cpu;
    return c.totals;
}
