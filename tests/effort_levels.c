/* SPDX-License-Identifier: Apache-2.0 */
/* effort_levels.c: FLX_TEST_EFFORT is read as effort.h describes. */
#include "test.h"

#include <stdlib.h>
#include <string.h>

/* The amount under this value of the variable, which is restored afterwards. */
static int64_t amount_under(const char *value, effort_name name, bool *is_valid)
{
    const char *set = getenv("FLX_TEST_EFFORT");
    char *old = set ? strdup(set) : NULL;
    setenv("FLX_TEST_EFFORT", value, 1);
    int64_t found = effort(name);
    *is_valid = effort_is_valid(NULL);
    if (old)
        setenv("FLX_TEST_EFFORT", old, 1);
    else
        unsetenv("FLX_TEST_EFFORT");
    free(old);
    return found;
}

TEST(effort_levels_grow)
{
    bool ok;
    int64_t quick = amount_under("quick", EFFORT_random_graphs, &ok);
    CHECK(ok);
    int64_t full = amount_under("full", EFFORT_random_graphs, &ok);
    CHECK(ok && quick <= full);
    CHECK(amount_under("soak", EFFORT_random_graphs, &ok) > full && ok);
    CHECK_EQ_I64(amount_under("", EFFORT_random_graphs, &ok), full);
}

TEST(effort_single_amounts_replace_those_of_the_level)
{
    bool ok;
    CHECK_EQ_I64(amount_under("quick,random_graphs=7,report=1", EFFORT_random_graphs, &ok), 7);
    CHECK(ok);
    CHECK_EQ_I64(amount_under("random_graphs=7,quick", EFFORT_random_graphs, &ok), 7);
    CHECK_EQ_I64(amount_under("vector_first=-1", EFFORT_vector_first, &ok), -1);
    CHECK_EQ_I64(amount_under("quick,random_graphs=7", EFFORT_timeout, &ok),
                 amount_under("quick", EFFORT_timeout, &ok));
}

TEST(effort_refuses_what_it_does_not_know)
{
    static const char *const wrong[] = {"fast",           "full,graphs=3",    "random_graphs",
                                        "random_graphs=", "random_graphs=7x", "full;report=1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        bool ok = true;
        amount_under(wrong[i], EFFORT_report, &ok);
        EXPECT_MSG(!ok, "'%s' is accepted", wrong[i]);
    }
}
