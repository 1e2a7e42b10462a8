/* SPDX-License-Identifier: Apache-2.0 */
/* mutate_protobuf.c: changes to messages in the wire form of protocol buffers. A field is found by going down from the
   file: bytes that read as a message are one. The lengths of all messages around the field are corrected. */
#include "mutate.h"

#include <string.h>

enum { MAX_FIELDS = 256, MAX_DEPTH = 12, VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

typedef struct {
    size_t at, body, end; /* the tag, what follows it (and the length), the next field */
    uint64_t value;       /* of a varint; of bytes their number */
    unsigned wire;
} field;

typedef struct {
    field at[MAX_FIELDS];
    size_t n;
} message;

static bool read_varint(const uint8_t *data, size_t end, size_t *at, uint64_t *v)
{
    *v = 0;
    for (unsigned shift = 0; shift < 70 && *at < end; shift += 7) {
        uint8_t byte = data[(*at)++];
        *v |= shift < 64 ? (uint64_t)(byte & 127) << shift : 0;
        if (byte < 128)
            return true;
    }
    return false;
}

static size_t write_varint(uint8_t *out, uint64_t v)
{
    size_t n = 0;
    for (; v > 127; v >>= 7)
        out[n++] = (uint8_t)(v | 128);
    out[n++] = (uint8_t)v;
    return n;
}

static bool read_field(const uint8_t *data, size_t end, size_t at, field *f)
{
    uint64_t tag;
    f->at = at;
    if (!read_varint(data, end, &at, &tag) || tag >> 3 == 0)
        return false;
    f->wire = (unsigned)(tag & 7);
    f->body = at;
    f->value = 0;
    if ((f->wire == VARINT || f->wire == BYTES) && !read_varint(data, end, &at, &f->value))
        return false;
    if (f->wire == BYTES)
        f->body = at;
    uint64_t n = f->wire == FIXED64 ? 8 : f->wire == FIXED32 ? 4 : f->wire == BYTES ? f->value : 0;
    if ((f->wire != VARINT && f->wire != FIXED64 && f->wire != BYTES && f->wire != FIXED32) || n > end - at)
        return false;
    f->end = at + (size_t)n;
    return true;
}

static bool read_message(const uint8_t *data, size_t at, size_t end, message *m)
{
    for (m->n = 0; at < end; at = m->at[m->n++].end)
        if (m->n == MAX_FIELDS || !read_field(data, end, at, &m->at[m->n]))
            return false;
    return m->n > 0;
}

/* The change [at, at + old) becomes `n` bytes, and so does each length around it. */
typedef struct {
    field around[MAX_DEPTH]; /* from the outermost */
    size_t depth;
} path;

static size_t splice(uint8_t *data, size_t size, size_t room, const path *p, size_t at, size_t old, const void *what,
                     size_t n)
{
    uint8_t length[10];
    if (size - old + n + 10 * p->depth > room)
        return size;
    size = replace_bytes(data, size, room, at, old, what, n);
    uint64_t added = n - old; /* modulo 2^64 */
    for (size_t i = p->depth; i-- > 0;) {
        const field *f = &p->around[i];
        size_t before = write_varint(length, f->value), after = write_varint(length, f->value + added);
        size = replace_bytes(data, size, room, f->body - before, before, length, after);
        added += after - before;
    }
    return size;
}

static size_t change_content(uint8_t *data, size_t size, size_t room, const path *p, const field *f)
{
    static uint8_t fresh[MUTATE_ROOM];
    size_t n = f->end - f->body;
    if (f->wire == VARINT) {
        n = write_varint(fresh, near_integer(f->value));
        return splice(data, size, room, p, f->body, f->end - f->body, fresh, n);
    }
    if (f->wire != BYTES) {
        put_integer(data + f->body, n, odd_integer());
        return size;
    }
    memcpy(fresh, data + f->body, n);
    path within = *p;
    within.around[within.depth++] = *f;
    return splice(data, size, room, &within, f->body, n, fresh, LLVMFuzzerMutate(fresh, n, sizeof fresh));
}

/* The content of another field of the same kind. */
static size_t take_content(uint8_t *data, size_t size, size_t room, const path *p, const field *f, const field *from)
{
    if (f->wire != BYTES || from->wire != BYTES)
        return splice(data, size, room, p, f->at, 0, data + from->at, from->end - from->at);
    path within = *p;
    within.around[within.depth++] = *f;
    return splice(data, size, room, &within, f->body, f->end - f->body, data + from->body, from->end - from->body);
}

static size_t exchange(uint8_t *data, size_t size, const field *a, const field *b)
{
    static uint8_t old[MUTATE_ROOM];
    const field *first = a->at < b->at ? a : b, *last = a->at < b->at ? b : a;
    if (first->at == last->at)
        return size;
    memcpy(old, data, size);
    size_t at = first->at, n = last->end - last->at;
    memcpy(data + at, old + last->at, n);
    memcpy(data + at + n, old + first->end, last->at - first->end);
    memcpy(data + last->end - (first->end - first->at), old + first->at, first->end - first->at);
    return size;
}

size_t mutate_protobuf(uint8_t *data, size_t size, size_t room)
{
    static message m, inner;
    path p = {.depth = 0};
    if (pick_below(10) == 0 || !read_message(data, 0, size, &m))
        return LLVMFuzzerMutate(data, size, room);
    const field *f = &m.at[pick_below(m.n)];
    while (p.depth + 1 < MAX_DEPTH && f->wire == BYTES && pick_below(6) &&
           read_message(data, f->body, f->end, &inner)) {
        p.around[p.depth++] = *f;
        m = inner;
        f = &m.at[pick_below(m.n)];
    }
    const field *other = &m.at[pick_below(m.n)];
    switch (pick_below(8)) {
    case 0: return splice(data, size, room, &p, f->at, f->end - f->at, NULL, 0);
    case 1: return splice(data, size, room, &p, other->at, 0, data + f->at, f->end - f->at);
    case 2: return exchange(data, size, f, other);
    case 3: return take_content(data, size, room, &p, f, other);
    case 4: data[f->at] ^= (uint8_t)(8 << pick_below(4)); return size; /* another field */
    default: return change_content(data, size, room, &p, f);
    }
}
