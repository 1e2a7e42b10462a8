/* SPDX-License-Identifier: Apache-2.0 */
/* random_parts.c: the laws of the random tests, for seed after seed. */
#include "adversary.h"

#include "compile/compiled_ways.h"
#include "compile/random_compiled.h"
#include "passes/partition_random.h"
#include "random/laws.h"
#include "sanitizer.h"

#include <stdlib.h>

/* Every second graph lives in memory that is used again at once. */
static void choose_allocator(uint64_t seed)
{
    random_context_options.alloc = NULL;
    if (seed % 2)
        random_context_options.alloc = ATTACK_ALLOC;
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

/* The tests take the seed of the case. */
void attack_kernels(uint64_t seed)
{
    static const char *const tests[] = {"kernel_random_laws", "kernel_random_laws", "kernel_optimise_random_kernels",
                                        "kernel_text_random_programs_survive"};
    run_test(tests[seed / 2 % 4]);
    case_accepted();
}

/* Kernels of all types and statements as scalar C and as vectors, bit for bit as they are interpreted. */
void attack_emitted(uint64_t seed)
{
    static const char *const tests[] = {"kernel_emit_c_random_kernels", "kernel_vector_random_kernels",
                                        "kernel_vector_random_kernels_that_fit"};
    setenv("FLX_TEST_EFFORT", "full,emitted_kernels=20", 1); /* one file for the compiler */
    run_test(tests[seed % 3]);
    unsetenv("FLX_TEST_EFFORT");
    case_accepted();
}

/* One call of the compiler for several graphs; each case in the next way of compiling. */
void attack_compiled(uint64_t seed)
{
    enum { GRAPHS = 4 };
    random_compiled_try(seed * GRAPHS, GRAPHS, (size_t)(seed % way_count()));
    case_accepted();
}

void attack_partition(uint64_t seed)
{
    flx_partition_report counts = {0};
    if (partition_random_try(seed, &counts))
        case_accepted();
}
