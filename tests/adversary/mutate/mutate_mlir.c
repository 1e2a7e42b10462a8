/* SPDX-License-Identifier: Apache-2.0 */
/* mutate_mlir.c: changes to MLIR bytecode: a header, then sections, each with its length, which is corrected. A section
   mostly holds numbers of one byte, whose lowest bit is set: indices of strings, types, attributes, values. */
#include "mutate.h"

#include <string.h>

enum { MAX_SECTIONS = 24, MAGIC = 4, ALIGNED = 128 };

typedef struct {
    size_t at, length_at, body, end;
} section;

typedef struct {
    section at[MAX_SECTIONS];
    size_t n;
} sections;

/* The zero bits below the lowest set bit of the first byte are the number of further bytes. */
static bool read_number(const uint8_t *data, size_t size, size_t *at, uint64_t *v)
{
    size_t more = 0;
    if (*at >= size)
        return false;
    while (more < 8 && !(data[*at] >> more & 1))
        more++;
    if (more >= size - *at)
        return false;
    *v = more == 8 ? get_integer(data + *at + 1, 8) : get_integer(data + *at, more + 1) >> (more + 1);
    *at += more + 1;
    return true;
}

static size_t write_number(uint8_t *out, uint64_t v)
{
    size_t more = 0;
    while (more < 8 && v >> (7 * (more + 1)))
        more++;
    if (more == 8) {
        out[0] = 0;
        put_integer(out + 1, 8, v);
    } else {
        put_integer(out, more + 1, (v << 1 | 1) << more);
    }
    return more + 1;
}

static bool read_sections(const uint8_t *data, size_t size, sections *s)
{
    uint64_t v;
    size_t at = MAGIC;
    s->n = 0;
    if (size < MAGIC || memcmp(data, "ML\xefR", MAGIC) != 0 || !read_number(data, size, &at, &v))
        return false;
    while (at < size && data[at]) /* the producer */
        at++;
    for (at++; at < size && s->n < MAX_SECTIONS; s->n++) {
        section *c = &s->at[s->n];
        c->at = at++;
        c->length_at = at;
        if ((data[c->at] & ALIGNED) || !read_number(data, size, &at, &v) || v > size - at)
            return s->n > 0; /* padding depends on positions: such a section and what follows stay as they are */
        c->body = at;
        at = c->end = at + (size_t)v;
    }
    return s->n > 0;
}

static size_t replace_in(uint8_t *data, size_t size, size_t room, const section *c, size_t at, size_t old,
                         const void *what, size_t n)
{
    uint8_t length[9];
    if (size - old + n + sizeof length > room)
        return size;
    size = replace_bytes(data, size, room, at, old, what, n);
    size_t k = write_number(length, c->end - c->body + n - old);
    return replace_bytes(data, size, room, c->length_at, c->body - c->length_at, length, k);
}

/* A number of one byte becomes another one, so that nothing else moves. */
static void change_index(uint8_t *data, const section *c)
{
    size_t begin = pick_below(c->end - c->body);
    for (size_t i = 0; i < c->end - c->body; i++) {
        uint8_t *at = &data[c->body + (begin + i) % (c->end - c->body)];
        if (*at & 1) {
            *at = (uint8_t)(near_integer(*at >> 1) << 1 | 1);
            return;
        }
    }
}

size_t mutate_mlir(uint8_t *data, size_t size, size_t room)
{
    static sections s;
    if (pick_below(10) == 0 || !read_sections(data, size, &s))
        return LLVMFuzzerMutate(data, size, room);
    const section *c = &s.at[pick_below(s.n)], *other = &s.at[pick_below(s.n)];
    size_t length = c->end - c->body, at = c->body + pick_below(length + 1), n = 1 + pick_below(12);
    uint8_t fresh[9];
    n = n < c->end - at ? n : c->end - at;
    switch (pick_below(12)) {
    case 0: return replace_bytes(data, size, room, c->at, c->end - c->at, NULL, 0);
    case 1: return replace_bytes(data, size, room, other->at, 0, data + c->at, c->end - c->at);
    case 2: return replace_in(data, size, room, c, at, n, NULL, 0);
    case 3: return replace_in(data, size, room, c, at, 0, data + c->body + pick_below(length - n + 1), n);
    case 4: return replace_in(data, size, room, c, at, n, fresh, write_number(fresh, odd_integer()));
    default:
        if (length > 0)
            change_index(data, c);
        return size;
    }
}
