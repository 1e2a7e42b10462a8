/* SPDX-License-Identifier: Apache-2.0 */
/* compiled_ways.h: the ways in which tests compile: grouped or not, one thread or two, vectors or not, levels of the C
   compiler, two C compilers, and other devices: the toy (backend/toy/toy.h), a card, OpenCL. All tests that compare
   compiled code with the reference go through this one list.

   A compiler takes ten milliseconds and more for a kernel, so a case is compiled in one of the ways, which its name and
   the seed choose: many cases together go through all of them, and each case goes through others with other seeds.
   Efforts: compiled_all: every case in every way; compiled_way=K: in the K-th. */
#ifndef FLX_COMPILED_WAYS_H
#define FLX_COMPILED_WAYS_H

#include <fluxion/exec.h>
#include <stdbool.h>

/* name, threads, flags, level (0 usual, 1 … 4 for -O0 … -O3), C compiler (NULL: the usual one), device. With two
   threads the bits are those of one thread. */
#define COMPILED_WAYS(X)                                                               \
    X(without_optimisation, 1, 0, 1, NULL, "cpu")                                      \
    X(grouped, 1, 0, 0, NULL, "cpu")                                                   \
    X(two_threads, 2, 0, 0, NULL, "cpu")                                               \
    X(ungrouped, 1, FLX_COMPILE_UNGROUPED, 0, NULL, "cpu")                             \
    X(interpreted, 1, FLX_COMPILE_INTERPRET, 0, NULL, "cpu")                           \
    X(scalar, 1, FLX_COMPILE_SCALAR, 1, NULL, "cpu")                                   \
    X(o3, 2, 0, 4, NULL, "cpu")                                                        \
    X(ungrouped_scalar, 2, FLX_COMPILE_UNGROUPED | FLX_COMPILE_SCALAR, 4, NULL, "cpu") \
    X(clang, 1, 0, 1, "clang", "cpu")                                                  \
    X(clang_ungrouped, 2, FLX_COMPILE_UNGROUPED, 4, "clang", "cpu")                    \
    X(toy, 1, 0, 0, NULL, "toy")                                                       \
    X(cuda, 1, 0, 0, NULL, "cuda")                                                     \
    X(opencl, 1, 0, 0, NULL, "opencl")

enum {
#define WAY_ID(name, threads, flags, level, compiler, device) WAY_##name,
    COMPILED_WAYS(WAY_ID)
#undef WAY_ID
        WAY_COUNT
};

/* The options of a way. Its C compiler is chosen by $FLX_CC until way_end(), unless that is set already or there is no
   such compiler: then the way is one with the usual compiler. The toy device is known until then too. */
flx_compile_options way_begin(size_t way);
void way_end(void);
const char *way_name(size_t way);

/* How many there are here that every case may get: cuda needs a card, and OpenCL's compilers take long. */
size_t way_count(void);
/* Whether there is this one, be it among those or not. */
bool way_is_here(size_t way);

/* Whether a case of this name is compiled in this way. */
bool way_takes(size_t way, const char *case_name);

/* Whether it is a case's turn at all: one in `share` times the effort compiled_share, others with each seed; with the
   effort compiled_all always. */
bool case_turn(unsigned share);

#endif
