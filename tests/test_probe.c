/* SPDX-License-Identifier: Apache-2.0 */
/* test_probe.c: test_survives() and test_missing_path() of the harness do what test.h says. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool probe_ends_the_program(char *reason, size_t size)
{
    snprintf(reason, size, "nothing yet");
    abort();
}

static bool probe_refuses(char *reason, size_t size)
{
    snprintf(reason, size, "no device");
    return false;
}

static bool probe_succeeds(char *reason, size_t size)
{
    (void)reason;
    (void)size;
    return true;
}

TEST(probe_in_a_process_of_its_own_does_not_end_the_tests)
{
    char reason[200] = "";
    CHECK(!test_survives(probe_ends_the_program, reason, sizeof reason));
    CHECK_MSG(strstr(reason, "signal 6"), "%s", reason);
    CHECK(!test_survives(probe_refuses, reason, sizeof reason));
    CHECK_EQ_STR(reason, "no device");
    CHECK(test_survives(probe_succeeds, reason, sizeof reason));
}

TEST(missing_paths_are_missing)
{
    const char *a = test_missing_path("a"), *b = test_missing_path("b");
    CHECK(access(a, F_OK) != 0 && access(b, F_OK) != 0);
    CHECK(strcmp(a, b) != 0);
    CHECK_EQ_STR(test_missing_path("a"), a);
}
