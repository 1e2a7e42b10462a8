/* SPDX-License-Identifier: Apache-2.0 */
/* failing_system.h: the calls of base/host/system.h, made to fail, to do less than asked, or to compile without a
   compiler. */
#ifndef FLX_TEST_FAILING_SYSTEM_H
#define FLX_TEST_FAILING_SYSTEM_H

#include "base/host/system.h"
#include "failing_calls.h"

typedef struct {
    failing_calls failing;
    bool skip_sync;     /* fsync does nothing */
    bool refuse_memory; /* there is no anonymous memory */
    const char *object; /* a file to copy instead of running the compiler; NULL: it runs */
    int compilers;      /* that were started, those for their version not counted */
} system_plan;

/* In force until lifted. A test that fails in between leaves it in force, so each begins by lifting it. */
system_plan *system_plan_set(const system_plan *p);
void system_plan_lift(void);

#endif
