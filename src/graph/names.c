/* SPDX-License-Identifier: Apache-2.0 */
/* names.c: see names.h. */
#include "graph/names.h"

#include <stdio.h>

void flxi_names_init(flxi_names *names, flxi_arena *arena)
{
    *names = (flxi_names){.pool.arena = arena};
}

void flxi_names_free(flxi_names *names)
{
    flxi_vec_free(names->pool.arena->mem, &names->next);
    flxi_strings_free(&names->pool);
}

/* The counter of a name that is taken, made when it is first needed; NULL when memory is exhausted. */
static uint32_t *counter_of(flxi_names *names, size_t number)
{
    while (names->next.n <= number)
        if (!flxi_push(names->pool.arena->mem, &names->next, 2))
            return NULL;
    return &names->next.at[number];
}

const char *flxi_unique_name(flxi_names *names, const char *wanted)
{
    flxi_strings *pool = &names->pool;
    size_t length = strlen(wanted);
    size_t taken = pool->texts.n;
    size_t number = flxi_intern_number(pool, wanted, length);
    if (number == SIZE_MAX || pool->texts.n > taken)
        return number == SIZE_MAX ? NULL : pool->texts.at[number];
    size_t room = length + 16;
    char *text = flxi_new(pool->arena, char, room);
    uint32_t *suffix = counter_of(names, number);
    while (text && suffix) {
        int n = snprintf(text, room, "%s_%u", wanted, (*suffix)++);
        size_t made = flxi_intern_number(pool, text, (size_t)n);
        if (made == SIZE_MAX)
            return NULL;
        if (pool->texts.n > taken)
            return pool->texts.at[made];
    }
    return NULL;
}
