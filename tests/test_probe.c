/* SPDX-License-Identifier: Apache-2.0 */
/* test_probe.c: test_survives() and test_missing_path() of the harness do what test.h says. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_used; /* by an earlier test of this process */

PROBE(ends_the_program)
{
    snprintf(reason, size, "nothing yet");
    abort();
}

PROBE(refuses)
{
    snprintf(reason, size, "no device");
    return false;
}

PROBE(has_memory_of_its_own)
{
    snprintf(reason, size, "it sees what the test did");
    return !is_used;
}

TEST(probe_in_a_process_of_its_own_does_not_end_the_tests)
{
    char reason[200] = "";
    CHECK(!test_survives("ends_the_program", reason, sizeof reason));
    CHECK_MSG(strstr(reason, "signal 6"), "%s", reason);
    CHECK(!test_survives("refuses", reason, sizeof reason));
    CHECK_EQ_STR(reason, "no device");
    is_used = true;
    CHECK_MSG(test_survives("has_memory_of_its_own", reason, sizeof reason), "%s", reason);
}

TEST(missing_paths_are_missing)
{
    const char *a = test_missing_path("a"), *b = test_missing_path("b");
    CHECK(access(a, F_OK) != 0 && access(b, F_OK) != 0);
    CHECK(strcmp(a, b) != 0);
    CHECK_EQ_STR(test_missing_path("a"), a);
}
