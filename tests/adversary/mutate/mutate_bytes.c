/* SPDX-License-Identifier: Apache-2.0 */
/* mutate_bytes.c: random numbers, changes to bytes, and to the binary form of graphs, whose fields are found by what
   they contain: a text is a length and that many printable bytes, a node begins with the name of an op. */
#include "mutate.h"

#include "graph/op/op.h"
#include "ops/opcode.h"
#include "test.h"

#include <ctype.h>
#include <string.h>

static uint64_t state;

void mutate_begin(uint64_t seed)
{
    state = seed ^ 0x5eed;
}

uint64_t pick_bits(void)
{
    return test_random(&state);
}

size_t pick_below(size_t n)
{
    return n ? (size_t)(pick_bits() % n) : 0;
}

uint64_t odd_integer(void)
{
    switch (pick_below(6)) {
    case 0: return pick_below(17);
    case 1: return (uint64_t)1 << pick_below(64);
    case 2: return ((uint64_t)1 << pick_below(64)) - 1;
    case 3: return (uint64_t)0 - 1 - pick_below(17);
    case 4: return (UINT64_C(1) << 62) / (1 + pick_below(16));
    default: return pick_bits() >> pick_below(64);
    }
}

uint64_t near_integer(uint64_t v)
{
    switch (pick_below(4)) {
    case 0: return v + 1;
    case 1: return v - 1;
    case 2: return pick_below(8);
    default: return odd_integer();
    }
}

void put_integer(uint8_t *at, size_t width, uint64_t v)
{
    for (size_t i = 0; i < width; i++)
        at[i] = (uint8_t)(v >> (8 * i));
}

uint64_t get_integer(const uint8_t *at, size_t width)
{
    uint64_t v = 0;
    for (size_t i = 0; i < width; i++)
        v |= (uint64_t)at[i] << (8 * i);
    return v;
}

size_t replace_bytes(uint8_t *data, size_t size, size_t room, size_t at, size_t old, const void *what, size_t n)
{
    static uint8_t copy[MUTATE_ROOM];
    if (at > size || old > size - at || n > sizeof copy || size - old + n > room)
        return size;
    if (n)
        memcpy(copy, what, n);
    memmove(data + at + n, data + at + old, size - at - old);
    if (n)
        memcpy(data + at, copy, n);
    return size - old + n;
}

static uint32_t get_u32(const uint8_t *at)
{
    return (uint32_t)get_integer(at, 4);
}

static size_t insert_bytes(uint8_t *data, size_t size, size_t room, size_t at, const uint8_t *what, size_t n)
{
    return replace_bytes(data, size, room, at, 0, what, n);
}

static size_t remove_bytes(uint8_t *data, size_t size, size_t at, size_t n)
{
    return replace_bytes(data, size, size, at, n < size - at ? n : size - at, NULL, 0);
}

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size)
{
    static const size_t widths[] = {1, 2, 4, 8};
    uint8_t byte = (uint8_t)pick_bits();
    if (size == 0)
        return insert_bytes(data, size, max_size, 0, &byte, 1);
    size_t at = pick_below(size), from = pick_below(size), n = 1 + pick_below(pick_below(4) ? 8 : 200);
    size_t width = widths[pick_below(4)];
    switch (pick_below(8)) {
    case 0: data[at] ^= (uint8_t)(1 << pick_below(8)); return size;
    case 1: data[at] = byte; return size;
    case 2: return insert_bytes(data, size, max_size, at, &byte, 1);
    case 3: return remove_bytes(data, size, at, n);
    case 4: return insert_bytes(data, size, max_size, at, data + from, n < size - from ? n : size - from);
    case 5:
        n = n < size - from ? n : size - from;
        n = n < size - at ? n : size - at;
        memmove(data + at, data + from, n);
        return size;
    case 6: return pick_below(4) ? size : at; /* cut off */
    default:
        if (at + width <= size)
            put_integer(data + at, width, odd_integer());
        return size;
    }
}

/* ---- Graphs ---- */

enum { MAX_TEXTS = 4000, TEXT_MAX = 200 };

static struct {
    size_t at[MAX_TEXTS]; /* of the length */
    bool is_op[MAX_TEXTS];
    size_t n;
} texts;

static bool is_text(const uint8_t *data, size_t size, size_t at)
{
    if (at + 4 > size)
        return false;
    uint32_t n = get_u32(data + at);
    if (n == 0 || n > TEXT_MAX || n > size - at - 4)
        return false;
    for (uint32_t i = 0; i < n; i++)
        if (!isprint(data[at + 4 + i]))
            return false;
    return true;
}

static bool names_op(const uint8_t *data, size_t at)
{
    uint32_t n = get_u32(data + at);
    for (size_t i = 1; i < OP_COUNT; i++)
        if (strlen(flxi_ops[i].name) == n && memcmp(flxi_ops[i].name, data + at + 4, n) == 0)
            return true;
    return false;
}

static void find_texts(const uint8_t *data, size_t size)
{
    texts.n = 0;
    for (size_t at = 0; at < size && texts.n < MAX_TEXTS;) {
        if (!is_text(data, size, at)) {
            at++;
            continue;
        }
        texts.at[texts.n] = at;
        texts.is_op[texts.n++] = names_op(data, at);
        at += 4 + get_u32(data + at);
    }
}

/* A node from its op to the next; false when there is none. */
static bool any_node(size_t size, size_t *begin, size_t *end)
{
    size_t first = pick_below(texts.n);
    for (size_t i = 0; i < texts.n; i++) {
        size_t k = (first + i) % texts.n;
        if (!texts.is_op[k])
            continue;
        *begin = texts.at[k];
        *end = size;
        for (size_t next = k + 1; next < texts.n; next++)
            if (texts.is_op[next]) {
                *end = texts.at[next];
                break;
            }
        return true;
    }
    return false;
}

static size_t replace_text(uint8_t *data, size_t size, size_t room)
{
    size_t k = pick_below(texts.n), at = texts.at[k], other = texts.at[pick_below(texts.n)];
    uint8_t fresh[4 + TEXT_MAX];
    uint32_t n = get_u32(data + other);
    if (texts.is_op[k] && pick_below(2)) {
        const char *name = flxi_ops[1 + pick_below(OP_COUNT - 1)].name;
        n = (uint32_t)strlen(name);
        memcpy(fresh + 4, name, n);
    } else {
        memcpy(fresh + 4, data + other + 4, n);
    }
    put_integer(fresh, 4, n);
    size = remove_bytes(data, size, at, 4 + get_u32(data + at));
    return insert_bytes(data, size, room, at, fresh, 4 + n);
}

/* A number, of one, four or eight bytes, outside of the texts. */
static void change_number(uint8_t *data, size_t size)
{
    size_t at = pick_below(size), width = pick_below(3) == 0 ? 1 : pick_below(3) == 0 ? 8 : 4;
    for (size_t i = 0; i < texts.n; i++)
        if (at >= texts.at[i] && at < texts.at[i] + 4 + get_u32(data + texts.at[i]))
            at = texts.at[i] + 4 + get_u32(data + texts.at[i]); /* what follows the text: often a count */
    if (at + width > size)
        return;
    put_integer(data + at, width, near_integer(get_integer(data + at, width)));
}

static size_t change_node(uint8_t *data, size_t size, size_t room)
{
    size_t begin, end, other, other_end;
    if (!any_node(size, &begin, &end) || !any_node(size, &other, &other_end))
        return size;
    switch (pick_below(3)) {
    case 0: return remove_bytes(data, size, begin, end - begin);
    case 1: return insert_bytes(data, size, room, other, data + begin, end - begin);
    default: return insert_bytes(data, size, room, end, data + begin, end - begin);
    }
}

size_t mutate_graph_payload(uint8_t *data, size_t size, size_t room)
{
    for (size_t n = 1 + pick_below(2); n > 0; n--) {
        find_texts(data, size);
        size_t k = pick_below(8);
        if (texts.n == 0 || size == 0 || k == 0)
            size = LLVMFuzzerMutate(data, size, room);
        else if (k <= 2)
            size = replace_text(data, size, room);
        else if (k <= 4)
            size = change_node(data, size, room);
        else
            change_number(data, size);
    }
    return size;
}
