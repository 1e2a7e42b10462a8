/* SPDX-License-Identifier: Apache-2.0 */
/* runner.h: runs the cases of a part in processes, several at a time, and records what fails. */
#ifndef FLX_ADVERSARY_RUNNER_H
#define FLX_ADVERSARY_RUNNER_H

#include "adversary.h"

#include <stdatomic.h>
#include <sys/types.h>

enum { INPUT_ROOM = 1 << 20 };

/* What a process reports while it works, in memory that it shares with the program. */
typedef struct {
    _Atomic uint64_t seed; /* of the current case */
    _Atomic int64_t done, accepted;
    _Atomic int64_t started;  /* milliseconds; when the current case began */
    _Atomic bool is_finished; /* all cases were run: the process did not end on the way */
    _Atomic size_t input_size;
    unsigned char input[INPUT_ROOM];
} slot;

typedef struct {
    uint64_t seed;  /* of the first case */
    int64_t cases;  /* at most this many; 0: until the time is over */
    double seconds; /* of the part; 0: no limit */
    int jobs;
    int64_t max_failures; /* after this many the part ends */
    const char *found;    /* folder for what fails */
    const char *work;     /* folder for temporary files */
    const char *program;  /* as it was called: for the command that runs a case again */
    double limit_factor;  /* of the time limits of cases: slow builds */
    int64_t memory_mib;   /* of a process */
    bool is_quiet;        /* failures are counted and kept, not printed */
    const char *input;    /* a file that is the input of the case, or NULL */
} run_options;

typedef struct {
    int64_t done, accepted, failed;
    double seconds, cpu_seconds;
} run_totals;

run_totals run_part(const part *p, const run_options *o);

/* Whether failing cases of every kind are noticed and recorded (self_test.c); prints what is not. */
bool runner_works(const run_options *o);

/* ---- In the process of a batch (harness.c) ---- */

/* Runs the cases `seed` … and returns; the process ends with CASE_FAILED as soon as one fails. */
void run_batch(const part *p, slot *s, uint64_t seed, int64_t n, int64_t deadline, const run_options *o);

enum { CASE_FAILED = 70, BATCH_LEAKED = 71 }; /* exit statuses of the process */

int64_t now_ms(void);
void remove_folder(const char *path);

#endif
