/* SPDX-License-Identifier: Apache-2.0 */
/* readers.c: see readers.h; and calls of the building functions. */
#include "readers.h"

#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint8_t input[MUTATE_ROOM];

/* A file that was given instead of the seed's input. */
static bool read_given(size_t *size)
{
    const char *path = case_given_input();
    if (!path)
        return false;
    FILE *f = fopen(path, "rb");
    CHECK_MSG(f != NULL, "%s cannot be read", path);
    *size = fread(input, 1, sizeof input, f);
    fclose(f);
    return true;
}

/* The input in memory of exactly its size, so that a sanitizer sees a read past its end. */
void check(target_check target, size_t size)
{
    read_given(&size);
    case_input(input, size);
    uint8_t *exact = malloc(size ? size : 1);
    CHECK(exact);
    memcpy(exact, input, size);
    target(exact, size);
    free(exact);
}

size_t begin_with(const void *bytes, size_t size)
{
    size = size < sizeof input / 2 ? size : sizeof input / 2;
    memcpy(input, bytes, size);
    return size;
}

void note_accepted(bool accepted)
{
    if (accepted)
        case_accepted();
}

/* ---- Guided changes to bytes ---- */

size_t change_bytes(uint8_t *data, size_t size, size_t room, byte_change change, byte_check accepts)
{
    static uint8_t before[MUTATE_ROOM];
    for (size_t n = pick_below(5); n > 0; n--) {
        size_t old = size;
        memcpy(before, data, old);
        for (int tries = 0; tries < 6; tries++) {
            size = change(data, size, room);
            if (accepts(data, size))
                break;
            memcpy(data, before, old);
            size = old;
        }
    }
    return pick_below(2) ? change(data, size, room) : size;
}

/* ---- Calls ---- */

/* The target reads its input as calls of the building functions; bytes of any value are calls. */
void attack_calls(uint64_t seed)
{
    mutate_begin(seed);
    size_t n = 20 + pick_below(600);
    for (size_t i = 0; i < n; i++) /* mostly small numbers, which mean ordinary things */
        input[i] = (uint8_t)(pick_below(8) ? pick_below(64) : pick_bits());
    check(check_graph_input, n);
    case_accepted();
}
