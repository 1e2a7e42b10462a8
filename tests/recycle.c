/* SPDX-License-Identifier: Apache-2.0 */
/* recycle.c: see recycle.h. One list of freed blocks for each of many hashes of sizes; a free block holds the link to
   the next. */
#include "recycle.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { LISTS = 1024, LARGEST = 1 << 16 };

typedef struct freed {
    struct freed *next;
    size_t size;
} freed;

static struct {
    pthread_mutex_t lock;
    freed *lists[LISTS];
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Blocks hold a link, and are of few sizes, so that they are used again often. */
static size_t rounded(size_t size)
{
    return size < sizeof(freed) ? sizeof(freed) : (size + 15) & ~(size_t)15;
}

static void *take(size_t size)
{
    if (size > LARGEST)
        return malloc(size);
    for (freed **at = &pool.lists[size / 16 % LISTS]; *at; at = &(*at)->next)
        if ((*at)->size == size) {
            freed *found = *at;
            *at = found->next;
            return found;
        }
    return malloc(size);
}

static void give_back(void *block, size_t size)
{
    if (size > LARGEST) {
        free(block);
        return;
    }
    freed *f = block;
    f->size = size;
    f->next = pool.lists[size / 16 % LISTS];
    pool.lists[size / 16 % LISTS] = f;
}

void *recycle_alloc(void *user, void *block, size_t old_size, size_t new_size)
{
    (void)user;
    pthread_mutex_lock(&pool.lock);
    void *fresh = new_size ? take(rounded(new_size)) : NULL;
    if (block && fresh)
        memcpy(fresh, block, old_size < new_size ? old_size : new_size);
    if (block && (fresh || !new_size))
        give_back(block, rounded(old_size));
    pthread_mutex_unlock(&pool.lock);
    return fresh;
}
