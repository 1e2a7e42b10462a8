/* SPDX-License-Identifier: Apache-2.0 */
/* random_parts.c: the laws of the random tests, for seed after seed. */
#include "adversary.h"

#include "compile/compiled_ways.h"
#include "compile/random_compiled.h"
#include "random/laws.h"

void attack_graphs(uint64_t seed)
{
    if (random_laws_try(seed, false, false))
        case_accepted();
}

void attack_control(uint64_t seed)
{
    if (random_laws_try(seed, false, true))
        case_accepted();
}

void attack_kernels(uint64_t seed)
{
    (void)seed; /* the test asks for it */
    run_test("kernel_random_laws");
    case_accepted();
}

/* One call of the compiler for several graphs; each case in the next way of compiling. */
void attack_compiled(uint64_t seed)
{
    enum { GRAPHS = 6 };
    random_compiled_try(seed * GRAPHS, GRAPHS, (size_t)(seed % WAY_COUNT));
    case_accepted();
}
