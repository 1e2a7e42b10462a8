/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_outline.h: the emitted text of a kernel, seen as an outline with numbers in it.

   Texts of one kernel for several extents often have the same outline and differ in numbers alone. Those that differ
   can become arguments, `sizes` of k_dispatch: one machine code then serves all extents. Each text was emitted, and its
   accesses proved safe, for its own extents; running the general code with the numbers of a text computes what that
   text says, so nothing has to be proved about extents in general. */
#ifndef FLXI_KERNEL_OUTLINE_H
#define FLXI_KERNEL_OUTLINE_H

#include "base/hash.h"
#include "base/strbuf.h"

typedef enum { NUMBER_I32, NUMBER_U32, NUMBER_I64, NUMBER_U64, NUMBER_F32, NUMBER_F64 } flxi_number_type;

typedef struct {
    size_t at, end; /* in the text */
    uint64_t bits;  /* integers as they are, floats as f64 */
    uint8_t type;   /* a flxi_number_type */
} flxi_number;

typedef struct {
    const flxi_allocator *mem;
    char *text; /* owned */
    size_t n;
    size_t body;   /* where the statements of the function begin */
    uint64_t hash; /* of all except the numbers */
    FLXI_VEC(flxi_number) numbers;
} flxi_outline;

/* Of a text whose function takes a k_dispatch called d; false when memory is exhausted. Free it in any case. */
bool flxi_outline_init(flxi_outline *o, const flxi_allocator *mem, const char *text, size_t n);
/* Of a text that is an outline as a whole. */
bool flxi_outline_init_fixed(flxi_outline *o, const flxi_allocator *mem, const char *text, size_t n);
void flxi_outline_free(flxi_outline *o);                               /* zeroes are fine */
bool flxi_outline_equal(const flxi_outline *a, const flxi_outline *b); /* except for the numbers */

/* ---- Which numbers are arguments ---- */

typedef struct {
    uint32_t *argument; /* by number: which of the sizes, + 1; 0: it stays as it is */
    uint32_t num_arguments;
} flxi_outline_sizes;

/* Arguments are the numbers in which equal outlines differ; numbers that are equal in each of them are one argument.
   False when memory is exhausted. `argument` is in the arena. */
bool flxi_outline_compare(const flxi_outline *o, const flxi_outline *const *others, size_t n, flxi_arena *arena,
                          flxi_outline_sizes *out);
/* Whether general code that was made of `o` computes what the equal outline `x` says. `sizes` has room for the
   arguments, and receives their values for `x`. */
bool flxi_outline_fits(const flxi_outline *o, const flxi_outline_sizes *s, const flxi_outline *x, uint64_t *sizes);
/* The text of general code; the names of functions may be others than those of the text that was compared. */
void flxi_outline_write(const flxi_outline *o, const flxi_outline_sizes *s, flxi_strbuf *out);

#endif
