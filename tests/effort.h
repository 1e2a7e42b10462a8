/* SPDX-License-Identifier: Apache-2.0 */
/* effort.h: how much the tests try. One environment variable decides:

       FLX_TEST_EFFORT=quick | full | soak       full when it is not set

   and may set single amounts of the table below: FLX_TEST_EFFORT=full,random_graphs=5000,report=1. Builds with
   sanitizers are ten times slower: they use the column `sanitized`, and with `soak` the column `full`. They compile the
   random graphs and shares of cases that `full` compiles: script/test gives them the objects. */
#ifndef FLX_EFFORT_H
#define FLX_EFFORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* X(name, quick, full, soak, sanitized, meaning). A share of N tries one case in N, different ones for each seed. */
#define EFFORT_AMOUNTS(X)                                                                                       \
    X(random_graphs, 200, 800, 100000, 150, "random graphs that must obey all laws")                            \
    X(random_kernels, 100, 600, 100000, 150, "random kernels that must obey all laws")                          \
    X(optimised_kernels, 50, 150, 1500, 60, "random kernels that go through each optimisation")                 \
    X(emitted_kernels, 20, 60, 400, 20, "random kernels compiled as scalar C and as vectors")                   \
    X(compiled_graphs, 8, 12, 60, 12, "random graphs that are compiled")                                        \
    X(compiled_share, 8, 5, 1, 5, "of samples and oracle cases that are compiled, times the share of the test") \
    X(standalone_share, 199, 67, 1, 401, "of samples that are compiled as C files, for each compiler")          \
    X(standalone_graphs, 3, 9, 500, 2, "random graphs that are compiled as C files")                            \
    X(compiled_all, 0, 0, 1, 0, "1: every case is compiled, in every way")                                      \
    X(compiled_way, 0, 0, 0, 0, "1 and up: only the way of that position in runtime/compiled_ways.h")           \
    X(laws_share, 8, 1, 1, 28, "of the samples of every op that must obey the laws of derivatives and batches") \
    X(starved_transforms, 20, 60, 600, 60, "allocations that fail in turn, for each transform and text")        \
    X(starved_runs, 25, 80, 3000, 25, "allocations that fail in turn while a graph is compiled and run")        \
    X(starved_stride, 4, 1, 1, 4, "one allocation in this many fails in turn, where all do otherwise")          \
    X(vector_stride, 65537, 4099, 61, 4099,                                                                     \
      "one bit pattern in this many for vector functions of f32; 1: all (hours)")                               \
    X(vector_first, -1, -1, -1, -1, "the first of these bit patterns; -1: chosen by the seed")                  \
    X(vector_blocks, 5, 25, 2000, 25, "blocks of random numbers for vector functions of f64")                   \
    X(fuzz_seconds, 1, 2, 300, 2, "for each fuzz target (script/test, script/soak)")                            \
    X(stop_whole, 0, 0, 1, 0, "1: works that are stopped in the tests are also ended by a limit of time")       \
    X(kills, 50, 200, 2000, 50, "programs that are killed while they write a checkpoint")                       \
    X(gguf_models, 3, 7, 1000, 2, "random models of GGUF files whose logits are compared with stored ones")     \
    X(timeout, 900, 900, 36000, 900, "seconds after which a test counts as hanging")                            \
    X(report, 0, 0, 0, 0, "1: some tests print what they measured")

typedef enum {
#define EFFORT_ENUM(name, ...) EFFORT_##name,
    EFFORT_AMOUNTS(EFFORT_ENUM)
#undef EFFORT_ENUM
        EFFORT_COUNT
} effort_name;

/* The current amount. */
int64_t effort(effort_name name);

/* Whether FLX_TEST_EFFORT is valid; if not, writes what is wrong with it to `to`, unless that is NULL. */
bool effort_is_valid(FILE *to);

/* Prints all current amounts with their meaning, one per line: NAME VALUE MEANING. */
void effort_print(void);

#endif
