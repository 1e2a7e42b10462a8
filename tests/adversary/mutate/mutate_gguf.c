/* SPDX-License-Identifier: Apache-2.0 */
/* mutate_gguf.c: changes to GGUF files: values and descriptions of tensors are changed, renamed, removed, doubled and
   exchanged. The file is then written again, with correct counts and padding. */
#include "mutate.h"

#include <string.h>

enum { MAX_ITEMS = 400, HEADER = 24, ALIGNMENT = 32, TYPE_STRING = 8, TYPE_ARRAY = 9, TYPES = 13 };

typedef struct {
    const uint8_t *at;
    size_t n;
} slice;

/* A value with its key, or a description of a tensor. */
typedef struct {
    slice name, rest; /* the name with its length; what follows it */
} item;

typedef struct {
    item at[MAX_ITEMS];
    size_t n;
} items;

/* ---- Reading ---- */

typedef struct {
    const uint8_t *data;
    size_t at, size;
} cursor;

static bool skip(cursor *c, uint64_t n)
{
    if (n > c->size - c->at)
        return false;
    c->at += (size_t)n;
    return true;
}

static bool take(cursor *c, size_t width, uint64_t *v)
{
    if (!skip(c, width))
        return false;
    *v = get_integer(c->data + c->at - width, width);
    return true;
}

static bool skip_string(cursor *c)
{
    uint64_t n;
    return take(c, 8, &n) && skip(c, n);
}

static bool skip_value(cursor *c)
{
    static const uint8_t widths[TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    uint64_t type, n = 1;
    if (!take(c, 4, &type) || (type == TYPE_ARRAY && (!take(c, 4, &type) || !take(c, 8, &n))))
        return false;
    if (type != TYPE_STRING)
        return type < TYPES && type != TYPE_ARRAY && n < c->size && skip(c, n * widths[type]);
    for (; n > 0; n--)
        if (!skip_string(c))
            return false;
    return true;
}

/* Rank, extents, the type, and where its bytes are. */
static bool skip_tensor(cursor *c)
{
    uint64_t rank;
    return take(c, 4, &rank) && rank < 16 && skip(c, rank * 8 + 4 + 8);
}

static bool read_items(cursor *c, items *s, uint64_t n, bool (*skip_rest)(cursor *c))
{
    for (s->n = 0; s->n < n; s->n++) {
        size_t begin = c->at;
        if (s->n == MAX_ITEMS || !skip_string(c))
            return false;
        size_t middle = c->at;
        if (!skip_rest(c))
            return false;
        s->at[s->n] = (item){{c->data + begin, middle - begin}, {c->data + middle, c->at - middle}};
    }
    return true;
}

/* ---- Changing ---- */

static uint8_t fresh[MUTATE_ROOM]; /* what items that were changed hold */
static size_t num_fresh;

static void change_rest(item *v)
{
    uint8_t *copy = fresh + num_fresh;
    size_t room = sizeof fresh - num_fresh, n = v->rest.n;
    if (n + 16 > room)
        return;
    memcpy(copy, v->rest.at, n);
    size_t at = 4 * pick_below(n / 4 + 1), width = pick_below(3) ? 4 : 8;
    if (pick_below(4) == 0)
        n = LLVMFuzzerMutate(copy, n, room < n + 16 ? room : n + 16);
    else if (at + width <= n)
        put_integer(copy + at, width, near_integer(get_integer(copy + at, width)));
    v->rest = (slice){copy, n};
    num_fresh += n;
}

static void change_items(items *s)
{
    if (s->n == 0)
        return;
    item *v = &s->at[pick_below(s->n)], *other = &s->at[pick_below(s->n)], swap = *v;
    switch (pick_below(10)) {
    case 0: *v = s->at[--s->n]; break;
    case 1:
        if (s->n < MAX_ITEMS)
            s->at[s->n++] = swap;
        break;
    case 2:
        *v = *other;
        *other = swap;
        break;
    case 3: v->name = other->name; break;
    case 4: v->rest = other->rest; break;
    default: change_rest(v); break;
    }
}

/* ---- Writing ---- */

static size_t put_slice(uint8_t *out, size_t n, slice s)
{
    if (n + s.n + ALIGNMENT > MUTATE_ROOM)
        return n;
    if (s.n)
        memcpy(out + n, s.at, s.n);
    return n + s.n;
}

static size_t put_items(uint8_t *out, size_t n, const items *s)
{
    for (size_t i = 0; i < s->n; i++) {
        n = put_slice(out, n, s->at[i].name);
        n = put_slice(out, n, s->at[i].rest);
    }
    return n;
}

static size_t padded(size_t n)
{
    return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

size_t mutate_gguf(uint8_t *data, size_t size, size_t room)
{
    static items values, tensors;
    static uint8_t out[MUTATE_ROOM];
    cursor c = {data, HEADER, size};
    if (pick_below(10) == 0 || size < HEADER || memcmp(data, "GGUF", 4) != 0 ||
        !read_items(&c, &values, get_integer(data + 16, 8), skip_value) ||
        !read_items(&c, &tensors, get_integer(data + 8, 8), skip_tensor))
        return LLVMFuzzerMutate(data, size, room);
    num_fresh = 0;
    for (size_t n = 1 + pick_below(2); n > 0; n--)
        change_items(pick_below(3) ? &values : &tensors);
    memcpy(out, data, HEADER);
    put_integer(out + 8, 8, tensors.n);
    put_integer(out + 16, 8, values.n);
    size_t n = put_items(out, put_items(out, HEADER, &values), &tensors), end = padded(n), from = padded(c.at);
    memset(out + n, 0, end - n);
    n = put_slice(out, end, (slice){data + from, from < size ? size - from : 0});
    return replace_bytes(data, size, room, 0, size, out, n);
}
