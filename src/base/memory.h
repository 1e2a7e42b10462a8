/* SPDX-License-Identifier: Apache-2.0 */
/* memory.h: the allocator, arenas and growable arrays used by all of src/.

   Nothing outside this folder calls malloc: memory comes from the allocator of a context. An arena returns pieces of
   larger blocks and frees them all at once. Sizes are multiplied with overflow checks. On failure functions return NULL
   (or false) and change nothing. */
#ifndef FLXI_MEMORY_H
#define FLXI_MEMORY_H

#include <fluxion/graph.h>
#include <stdbool.h>
#include <string.h>

typedef struct {
    flx_alloc_fn fn;
    void *user;
} flxi_allocator;

/* The C library's malloc, realloc and free. */
void *flxi_default_alloc(void *user, void *block, size_t old_size, size_t new_size);

/* a * b and a + b; false if they overflow. */
bool flxi_mul_size(size_t a, size_t b, size_t *out);
bool flxi_add_size(size_t a, size_t b, size_t *out);

/* `count` zeroed elements of `size` bytes; count 0 gives a valid block of one byte. */
void *flxi_alloc(const flxi_allocator *mem, size_t count, size_t size);
void *flxi_alloc_zeroed(const flxi_allocator *mem, size_t nbytes); /* at least one */
void flxi_free(const flxi_allocator *mem, void *block, size_t count, size_t size);

/* ---- Arena ---- */

typedef struct flxi_block flxi_block;

typedef struct {
    const flxi_allocator *mem;
    flxi_block *head; /* newest block; older ones are chained after it */
    size_t held;      /* bytes taken from the allocator */
} flxi_arena;

typedef struct {
    flxi_block *block;
    size_t used;
} flxi_mark;

void flxi_arena_init(flxi_arena *a, const flxi_allocator *mem);
void flxi_arena_free(flxi_arena *a);
void *flxi_arena_alloc(flxi_arena *a, size_t count, size_t size, size_t align); /* zeroed */
char *flxi_arena_text(flxi_arena *a, const char *s, size_t n);                  /* a copy terminated by a 0 */
void *flxi_arena_copy(flxi_arena *a, const void *data, size_t count, size_t size, size_t align);
flxi_mark flxi_arena_mark(const flxi_arena *a);
void flxi_arena_rewind(flxi_arena *a, flxi_mark mark);

#define flxi_new(arena, T, n) ((T *)flxi_arena_alloc((arena), (size_t)(n), sizeof(T), _Alignof(T)))
#define flxi_dup(arena, T, p, n) ((T *)flxi_arena_copy((arena), (p), (size_t)(n), sizeof(T), _Alignof(T)))

/* ---- Growable array: FLXI_VEC(int) v = {0}; if (!flxi_push(mem, &v, 3)) … ---- */

#define FLXI_VEC(T)    \
    struct {           \
        T *at;         \
        size_t n, cap; \
    }

/* Makes room for one more element; false when memory is exhausted. */
bool flxi_vec_grow(const flxi_allocator *mem, void **at, size_t n, size_t *cap, size_t size);

#define flxi_reserve(mem, v) flxi_vec_grow((mem), (void **)&(v)->at, (v)->n, &(v)->cap, sizeof *(v)->at)
#define flxi_push(mem, v, x) (flxi_reserve((mem), (v)) && ((v)->at[(v)->n++] = (x), true))
#define flxi_vec_free(mem, v)                                     \
    do {                                                          \
        if ((v)->at)                                              \
            flxi_free((mem), (v)->at, (v)->cap, sizeof *(v)->at); \
        (v)->at = NULL;                                           \
        (v)->n = (v)->cap = 0;                                    \
    } while (0)

#endif
