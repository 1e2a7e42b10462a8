/* SPDX-License-Identifier: Apache-2.0 */
/* process.h: running several programs at once, with limits, and keeping the beginning of what they print.

   A program is started directly, never through a shell, in a process group of its own: when its time is over, the whole
   group is killed, so a compiler's passes go with its driver. Limits of memory and file size are set from outside as
   soon as the program runs; what it has started in that moment escapes them, but not the time limit. */
#ifndef FLXI_PROCESS_H
#define FLXI_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef enum {
    FLXI_PROCESS_WAITING, /* not started: another one failed before its turn came */
    FLXI_PROCESS_REFUSED, /* the system did not start it, or what it printed cannot be read: `error` says why */
    FLXI_PROCESS_RUNS,
    FLXI_PROCESS_LATE,  /* killed when its time was over */
    FLXI_PROCESS_ENDED, /* `status` is that of waitpid(), 0 where the program's parent ignores its children */
} flxi_process_state;

typedef struct {
    const char *const *args;        /* NULL at the end; the first is the path of the program */
    const char *const *environment; /* NULL: that of this program */
    flxi_process_state state;
    int status;
    int error;
    char said[400]; /* the beginning of what it printed to both outputs, with a 0 behind it */
    /* While it runs: */
    size_t num_said;
    pid_t pid;
    int output;
    int64_t end_ms;
} flxi_process;

typedef struct {
    int jobs;              /* at once; 0 counts as 1 */
    int64_t time_ms;       /* of each; 0: none */
    uint64_t memory_bytes; /* address space of each; 0: none */
    uint64_t file_bytes;   /* of each file it writes; 0: none */
} flxi_process_limits;

enum { FLXI_PROCESS_JOBS = 64 }; /* more are not run at once */

/* Runs them all, in order, and returns when the last has ended. After one fails no more are started. */
void flxi_processes_run(flxi_process *p, size_t n, const flxi_process_limits *limits);

/* It ended, with status 0. */
bool flxi_process_ok(const flxi_process *p);

#endif
