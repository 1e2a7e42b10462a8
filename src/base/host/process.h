/* SPDX-License-Identifier: Apache-2.0 */
/* process.h: runs several programs at once, with limits, and keeps the beginning of their output.

   A program is started directly, never through a shell, in its own process group: at its time limit the whole group is
   killed, so the passes of a compiler end with its driver. Limits of memory and file size are set from outside as soon
   as the program runs; processes that it has started by then escape them, but not the time limit. */
#ifndef FLXI_PROCESS_H
#define FLXI_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef enum {
    FLXI_PROCESS_WAITING, /* not started: another one failed earlier */
    FLXI_PROCESS_REFUSED, /* the system did not start it, or its output cannot be read: `error` says why */
    FLXI_PROCESS_RUNS,
    FLXI_PROCESS_LATE,    /* killed at its time limit */
    FLXI_PROCESS_STOPPED, /* killed because the thread is stopped (stop.h) */
    FLXI_PROCESS_ENDED,   /* `status` is that of waitpid(), 0 if the host ignores its children */
} flxi_process_state;

typedef struct {
    const char *const *args;        /* NULL at the end; the first is the path of the program */
    const char *const *environment; /* NULL: that of this process */
    flxi_process_state state;
    int status;
    int error;
    char said[400]; /* the beginning of both outputs, terminated by a 0 */
    /* While it runs: */
    size_t num_said;
    pid_t pid;
    int output;
    int64_t end_ms;
} flxi_process;

typedef struct {
    int jobs;              /* at the same time; 0 counts as 1 */
    int64_t time_ms;       /* of each; 0: none */
    uint64_t memory_bytes; /* address space of each; 0: none */
    uint64_t file_bytes;   /* of each file it writes; 0: none */
} flxi_process_limits;

enum { FLXI_PROCESS_JOBS = 64 }; /* limit of programs that run at the same time */

/* Runs all of them, in order, and returns when the last has ended, whatever it has started: processes that outlive a
   program are killed if they are in its group, and not waited for. After a failure no more are started. When the
   calling thread is stopped, all are killed. */
void flxi_processes_run(flxi_process *p, size_t n, const flxi_process_limits *limits);

/* It ended, with status 0. */
bool flxi_process_ok(const flxi_process *p);

#endif
