/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c: see memory.h. Blocks of an arena double in size up to a limit, so a small graph costs a few kilobytes
   and a large one wastes at most one block. Rewinding keeps the oldest block's memory for reuse and frees the rest. */
#include "base/memory.h"

#include "base/host/stop.h"

#include <stdlib.h>
#include <sys/mman.h>

struct flxi_block {
    flxi_block *next; /* older */
    size_t used, size;
    _Alignas(max_align_t) unsigned char bytes[];
};

static const size_t first_block = 1024;
static const size_t largest_block = 1 << 20;

void *flxi_default_alloc(void *user, void *block, size_t old_size, size_t new_size)
{
    (void)user;
    (void)old_size;
    if (new_size == 0) {
        free(block);
        return NULL;
    }
    return realloc(block, new_size);
}

bool flxi_mul_size(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

bool flxi_add_size(size_t a, size_t b, size_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

static bool array_bytes(size_t count, size_t size, size_t *out)
{
    if (!flxi_mul_size(count, size, out) || *out > PTRDIFF_MAX)
        return false;
    if (*out == 0)
        *out = 1;
    return true;
}

/* The C library's pages are zero already: touching gigabytes of them takes longer than the work may that is stopped. */
/* Large blocks on large pages, where the system has some: fewer misses of the address cache, and fewer faults. Whole
   pages that nothing has touched yet. */
static void ask_for_large_pages(void *block, size_t nbytes)
{
#if defined(MADV_HUGEPAGE)
    const size_t page = (size_t)2 << 20;
    size_t skipped = (0 - (uintptr_t)block) % page;
    if (nbytes >= skipped + page)
        (void)madvise((char *)block + skipped, (nbytes - skipped) / page * page, MADV_HUGEPAGE); /* a wish, no more */
#else
    (void)block;
    (void)nbytes;
#endif
}

void *flxi_alloc_zeroed(const flxi_allocator *mem, size_t nbytes)
{
    if (mem->fn == flxi_default_alloc) {
        void *block = calloc(nbytes, 1);
        if (block)
            ask_for_large_pages(block, nbytes);
        return block;
    }
    void *p = mem->fn(mem->user, NULL, 0, nbytes);
    return p ? memset(p, 0, nbytes) : NULL;
}

void *flxi_alloc(const flxi_allocator *mem, size_t count, size_t size)
{
    size_t nbytes;
    if (!array_bytes(count, size, &nbytes))
        return NULL;
    return flxi_alloc_zeroed(mem, nbytes);
}

void flxi_free(const flxi_allocator *mem, void *block, size_t count, size_t size)
{
    size_t nbytes;
    if (block && array_bytes(count, size, &nbytes))
        mem->fn(mem->user, block, nbytes, 0);
}

/* ---- Arena ---- */

void flxi_arena_init(flxi_arena *a, const flxi_allocator *mem)
{
    *a = (flxi_arena){.mem = mem};
}

static void free_block(flxi_arena *a)
{
    flxi_block *b = a->head;
    a->head = b->next;
    a->held -= sizeof *b + b->size;
    a->mem->fn(a->mem->user, b, sizeof *b + b->size, 0);
}

void flxi_arena_free(flxi_arena *a)
{
    while (a->head)
        free_block(a);
}

/* All long work but loops over elements fills arenas: syntax trees, nodes, kernels, plans. So it can be stopped here:
   what then fails because it got no memory says why it was stopped (flxi_fail()). The first block is given: what has no
   way to report an error, as a new graph, is small. */
static bool add_block(flxi_arena *a, size_t need)
{
    if (a->head && flxi_stopped())
        return false;
    size_t size = a->head ? a->head->size * 2 : first_block;
    if (size > largest_block)
        size = largest_block;
    if (size < need)
        size = need;
    size_t total;
    if (!flxi_add_size(size, sizeof(flxi_block), &total) || total > PTRDIFF_MAX)
        return false;
    bool is_large = size > largest_block;
    flxi_block *b = is_large ? flxi_alloc_zeroed(a->mem, total) : a->mem->fn(a->mem->user, NULL, 0, total);
    if (!b)
        return false;
    b->next = a->head;
    b->used = 0;
    b->size = size;
    a->head = b;
    a->held += total;
    return true;
}

void *flxi_arena_alloc(flxi_arena *a, size_t count, size_t size, size_t align)
{
    size_t nbytes;
    if (!array_bytes(count, size, &nbytes))
        return NULL;
    size_t at = a->head ? (a->head->used + align - 1) & ~(align - 1) : 0;
    if (!a->head || at > a->head->size || a->head->size - at < nbytes) {
        if (!add_block(a, nbytes))
            return NULL;
        at = 0;
        if (nbytes > largest_block) { /* a block of its own, which is zero */
            a->head->used = nbytes;
            return a->head->bytes;
        }
    }
    a->head->used = at + nbytes;
    return memset(a->head->bytes + at, 0, nbytes);
}

void *flxi_arena_copy(flxi_arena *a, const void *data, size_t count, size_t size, size_t align)
{
    void *p = flxi_arena_alloc(a, count, size, align);
    if (p && data && count)
        memcpy(p, data, count * size);
    return p;
}

char *flxi_arena_text(flxi_arena *a, const char *s, size_t n)
{
    char *p = flxi_arena_alloc(a, n + 1, 1, 1);
    if (p && n)
        memcpy(p, s, n);
    return p;
}

flxi_mark flxi_arena_mark(const flxi_arena *a)
{
    return (flxi_mark){a->head, a->head ? a->head->used : 0};
}

void flxi_arena_rewind(flxi_arena *a, flxi_mark mark)
{
    while (a->head != mark.block && a->head && (a->head->next || mark.block))
        free_block(a);
    if (a->head)
        a->head->used = mark.block ? mark.used : 0;
}

/* ---- Growable array ---- */

bool flxi_vec_grow(const flxi_allocator *mem, void **at, size_t n, size_t *cap, size_t size)
{
    if (n < *cap)
        return true;
    size_t wanted = *cap ? *cap + *cap / 2 + 1 : 8;
    size_t nbytes;
    if (!flxi_mul_size(wanted, size, &nbytes) || nbytes > PTRDIFF_MAX)
        return false;
    void *p = mem->fn(mem->user, *at, *cap * size, nbytes);
    if (!p)
        return false;
    *at = p;
    *cap = wanted;
    return true;
}
