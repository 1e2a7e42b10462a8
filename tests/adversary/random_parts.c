/* SPDX-License-Identifier: Apache-2.0 */
/* random_parts.c: the laws of the random tests, for seed after seed. */
#include "adversary.h"

#include "compile/compiled_ways.h"
#include "compile/random_compiled.h"
#include "random/laws.h"
#include "recycle.h"

/* Every second graph lives in memory that is used again at once. */
static void choose_allocator(uint64_t seed)
{
    random_context_options.alloc = seed % 2 ? recycle_alloc : NULL;
}

void attack_graphs(uint64_t seed)
{
    choose_allocator(seed);
    if (random_laws_try(seed, false, false))
        case_accepted();
}

void attack_control(uint64_t seed)
{
    choose_allocator(seed);
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
