/* SPDX-License-Identifier: Apache-2.0 */
/* test_common.c: what the programs that run tests (test.c) and that attack (adversary/harness.c) have in common of
   test.h: random numbers, where the files of the tree are, and which programs there are. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>

uint64_t test_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

double test_uniform(uint64_t *state)
{
    return (double)(test_random(state) >> 11) * 0x1p-53;
}

const char *test_source_dir(void)
{
    const char *dir = getenv("FLX_SOURCE_DIR");
    return dir && dir[0] ? dir : FLX_SOURCE_DIR;
}

bool test_has_program(const char *name)
{
    char command[120];
    snprintf(command, sizeof command, "command -v '%s' >/dev/null 2>&1", name);
    if (system(command) == 0)
        return true;
    printf("   left out: there is no %s\n", name);
    return false;
}
