/* SPDX-License-Identifier: Apache-2.0 */
/* compiling.h: the options of commands that compile a graph, and what such a command does with them. */
#ifndef FLX_COMPILING_H
#define FLX_COMPILING_H

#include "args.h"

#include <fluxion/exec.h>

#define OPTION_THREADS                                                                               \
    {                                                                                                \
        "--threads", "N", "threads to run on, 1 to 64; one for each core unless given", MAY_BE_GIVEN \
    }
#define OPTION_NO_GROUPING                                                     \
    {                                                                          \
        "--no-grouping", NULL, "every op is a kernel of its own", MAY_BE_GIVEN \
    }
#define OPTION_NO_COMPILER                                                                                   \
    {                                                                                                        \
        "--no-compiler", NULL, "start no C compiler: routes and the reference evaluator compute everything", \
            MAY_BE_GIVEN                                                                                     \
    }
#define OPTION_CACHE                                                                                                   \
    {                                                                                                                  \
        "--cache", "MODE", "compiled objects on disk: on, read-only or off; $FLX_CACHE takes precedence", MAY_BE_GIVEN \
    }
#define OPTION_FLUSH                                                           \
    {                                                                          \
        "--flush", NULL, "subnormal numbers are flushed to zero", MAY_BE_GIVEN \
    }
#define OPTION_FAST                                                                                           \
    {                                                                                                         \
        "--fast", NULL, "the last bits of results may differ between runs where that is faster", MAY_BE_GIVEN \
    }
#define OPTION_DUMP                                                                              \
    {                                                                                            \
        "--dump", "DIR", "write the C text of the kernels to DIR/kernels_0.c, ...", MAY_BE_GIVEN \
    }

#define OPTION_MEMORY                                                                                        \
    {                                                                                                        \
        "--memory", "BYTES", "work in so much memory, such as 64M or 2G: compute values again", MAY_BE_GIVEN \
    }

#define OPTION_RECORD                                                                                       \
    {                                                                                                       \
        "--record", "FILE", "write the graph, its inputs and options to FILE, for flx replay", MAY_BE_GIVEN \
    }

/* Fills the options from what was given; dims are left to the caller. With a device that compiles nothing it is bad
   usage to give any of them. */
int compiling_read(const args *a, const char *device, flx_compile_options *o);

/* --memory; the budget stays as it is where it is not given. */
int compiling_read_memory(const args *a, int64_t *budget);

/* Whether any of them was given. */
bool compiling_is_chosen(const args *a);

/* What flx_compile() or a run reports: a file that cannot be written is the system's failure. */
int compiling_failed(const flx_error *err);

/* What a run will work in, and what its budget costs, on standard error. */
void compiling_tell_memory(const flx_exec *e);

/* How many steps there are. */
size_t compiling_steps(const flx_exec *e);

/* Seconds of a clock that never goes back. */
double clock_seconds(void);
/* Processor time of all threads of the process. */
double processor_seconds(void);

#endif
