/* SPDX-License-Identifier: Apache-2.0 */
/* fault.c: see fault.h. */
#include "fault.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LIVE UINT64_C(0x6c6976652d626c6b)
#define DEAD UINT64_C(0x646561642d626c6b)
#define FENCE 16 /* bytes after the block that must not be written */

typedef struct {
    uint64_t state;
    size_t size;
    _Alignas(max_align_t) unsigned char bytes[];
} header;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static header *header_of(void *block)
{
    return (header *)(void *)((unsigned char *)block - offsetof(header, bytes));
}

static bool request_fails(fault *f, size_t size)
{
    f->calls++;
    if (size > f->largest)
        f->largest = size;
    bool fails = f->fail_at && (f->calls == f->fail_at || (f->forever && f->calls > f->fail_at));
    f->failed += fails;
    return fails;
}

static void *take(fault *f, size_t size)
{
    header *h = size < PTRDIFF_MAX / 2 ? malloc(sizeof *h + size + FENCE) : NULL;
    if (!h)
        return NULL;
    h->state = LIVE;
    h->size = size;
    memset(h->bytes, 0xcd, size);
    memset(h->bytes + size, 0xfe, FENCE);
    f->live_blocks++;
    f->live_bytes += size;
    if (f->live_bytes > f->peak_bytes)
        f->peak_bytes = f->live_bytes;
    return h->bytes;
}

/* Counts errors of a block that is freed or resized; false when it must not be touched. */
static bool inspect(fault *f, void *block, size_t stated)
{
    header *h = header_of(block);
    if (h->state != LIVE) {
        f->errors++;
        return false;
    }
    f->errors += h->size != stated;
    for (int i = 0; i < FENCE; i++) {
        if (h->bytes[h->size + (size_t)i] != 0xfe) {
            f->errors++;
            break;
        }
    }
    return true;
}

static void give_back(fault *f, void *block)
{
    header *h = header_of(block);
    f->live_blocks--;
    f->live_bytes -= h->size;
    h->state = DEAD;
    memset(h->bytes, 0xdd, h->size);
    free(h);
}

static void *serve(fault *f, void *block, size_t old_size, size_t new_size)
{
    if (new_size && request_fails(f, new_size))
        return NULL;
    if (block && !inspect(f, block, old_size))
        return NULL;
    void *fresh = new_size ? take(f, new_size) : NULL;
    if (block && fresh) {
        size_t old = header_of(block)->size;
        memcpy(fresh, block, old < new_size ? old : new_size);
    }
    if (block && (fresh || !new_size))
        give_back(f, block);
    return fresh;
}

void *fault_alloc(void *user, void *block, size_t old_size, size_t new_size)
{
    pthread_mutex_lock(&lock);
    void *p = serve(user, block, old_size, new_size);
    pthread_mutex_unlock(&lock);
    return p;
}

bool fault_is_clean(const fault *f)
{
    return f->live_blocks == 0 && f->live_bytes == 0 && f->errors == 0;
}
