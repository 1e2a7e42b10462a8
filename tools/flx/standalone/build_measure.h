/* SPDX-License-Identifier: Apache-2.0 */
/* build_measure.h: what a compiler made of a C file: bytes of code, and of the deepest stack. */
#ifndef BUILD_MEASURE_H
#define BUILD_MEASURE_H

#include "io/load.h"

/* Bytes of machine code in an object file; -1: it is not an ELF file. */
int64_t measure_code(const file_bytes *object);

/* Bytes of the deepest chain of calls among the functions of the text, without those of the C library. `usage` is what
   gcc and clang write with -fstack-usage: a line for each function that was not inlined. -1: some function has no
   bound, or memory is exhausted. */
int64_t measure_stack(const char *text, size_t size, const file_bytes *usage);

#endif
