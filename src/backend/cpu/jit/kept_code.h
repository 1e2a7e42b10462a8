/* SPDX-License-Identifier: Apache-2.0 */
/* kept_code.h: machine code that a context keeps for programs with other extents: kernels and chains, by the text that
   they were made of. */
#ifndef FLXI_KEPT_CODE_H
#define FLXI_KEPT_CODE_H

#include "backend/cpu/jit/kernel_outline.h"
#include "backend/cpu/jit/native.h"
#include "base/context.h"

/* An object and what is kept of it. */
typedef struct {
    flxi_object *object;
    uint32_t users;
} flxi_kept_object;

typedef struct {
    flxi_outline outline;
    flxi_arena arena;
    flxi_outline_sizes sizes; /* which numbers are arguments */
    flxi_c_level level;
    unsigned flags; /* of compile_c.h */
    flxi_kept_object *unit;
    void (*run)(const flxi_native_args *d, uint64_t begin, uint64_t end, unsigned char *scratch, uint32_t *status);
    uint32_t users; /* programs */
    uint64_t last_use;
} flxi_kept_code;

typedef struct {
    const flxi_allocator *mem;
    pthread_mutex_t lock;
    FLXI_VEC(flxi_kept_code *) kept;
    size_t num_used; /* by programs */
    uint64_t clock;
    size_t holders; /* programs, and the context, which may give it up first */
} flxi_code_keeper;

/* That of the context, held until it is released; NULL when memory is exhausted. */
flxi_code_keeper *flxi_code_keeper_hold(flx_context *ctx);
void flxi_code_keeper_release(flxi_code_keeper *c);

/* Code that computes what the text says, with the values of its arguments in the arena; *out is NULL if there is none.
   False when memory is exhausted. It is used until flxi_code_keeper_leave(). */
bool flxi_code_keeper_find(flxi_code_keeper *c, const flxi_outline *x, flxi_c_level level, unsigned flags,
                           flxi_arena *arena, flxi_kept_code **out, uint64_t **sizes);
/* Takes ownership of it, and the caller uses it; false when memory is exhausted. */
bool flxi_code_keeper_add(flxi_code_keeper *c, flxi_kept_code *k);
void flxi_code_keeper_leave(flxi_code_keeper *c, flxi_kept_code *const *list, size_t n);

/* Frees what is not kept, or not yet. */
void flxi_kept_code_free(flxi_code_keeper *c, flxi_kept_code *k);

/* Whether the code computes what a text with an equal outline says; *sizes, in the arena, is NULL if not. False when
   memory is exhausted. */
bool flxi_kept_code_fits(const flxi_kept_code *k, const flxi_outline *x, flxi_arena *arena, uint64_t **sizes);

#endif
