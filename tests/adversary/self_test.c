/* SPDX-License-Identifier: Apache-2.0 */
/* self_test.c: cases that fail in every way that there is, each after one that does not. */
#include "runner.h"
#include "test.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WAYS = 6, SELF_MIB = 768 };

/* More than the limit of a process. */
static void grow(void)
{
    static char *held[SELF_MIB + 64];
    for (size_t i = 0; i < sizeof held / sizeof *held; i++) {
        held[i] = malloc(1 << 20);
        CHECK(held[i]);
        memset(held[i], 1, 1 << 20);
    }
}

static void misbehave(uint64_t seed)
{
    case_input(&seed, sizeof seed);
    switch (seed) {
    case 1: FAIL("on purpose"); break;
    case 3: EXPECT_MSG(false, "on purpose"); break;
    case 5: abort();
    case 7:
        for (;;)
            pause();
    case 9: grow(); break;
    case 11: _exit(0); /* as if nothing had happened */
    default: break;
    }
}

bool runner_works(const run_options *given)
{
    static const part self = {"self-test", "", 0, 4, 1, misbehave};
    char found[600], path[700];
    run_options o = *given;
    snprintf(found, sizeof found, "%s", o.work);
    o.found = found;
    o.seed = 0;
    o.cases = 2 * WAYS;
    o.seconds = 0;
    o.input = NULL;
    o.is_quiet = true;
    o.memory_mib = SELF_MIB;
    run_totals t = run_part(&self, &o);
    bool ok = t.done == WAYS && t.failed == WAYS;
    for (uint64_t seed = 1; seed < 2 * WAYS; seed += 2) {
        snprintf(path, sizeof path, "%s/self-test-%" PRIu64 ".input", found, seed);
        if (access(path, R_OK) != 0) {
            printf("flx_adversary: case %" PRIu64 " of the self-test was not recorded\n", seed);
            ok = false;
        }
    }
    if (!ok)
        printf("flx_adversary: the self-test found %" PRId64 " good and %" PRId64 " failing cases of %d each\n", t.done,
               t.failed, WAYS);
    return ok;
}
