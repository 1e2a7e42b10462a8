/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_kernel_wire.c: the wire form of kernels. Half of the inputs are complete files; in the others, marked by their
   first byte, length and checksum are corrected, so that the code after them is explored. What decodes must encode to
   the same bytes, and is checked like every kernel. Most changes keep the sections whole. */
#include "kernel_checks.h"

#include "kernel/wire/kernel_wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

/* ---- Changes ---- */

static uint32_t get_word(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static void put_word(uint8_t *at, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(v >> (8 * i));
}

static uint64_t random_state;

static size_t below(size_t n)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return n ? (size_t)(random_state >> 33) % n : 0;
}

/* A word that has a meaning elsewhere. */
static uint32_t some_word(const uint8_t *file, size_t size)
{
    static const uint8_t tags[] = {WIRE_LITERAL, WIRE_VAR,     WIRE_LOAD,   WIRE_ID,    WIRE_UNARY,
                                   WIRE_BINARY,  WIRE_LET,     WIRE_STORE,  WIRE_IF,    WIRE_LOOP,
                                   WIRE_BLOCK,   WIRE_BARRIER, WIRE_RETURN, WIRE_ATOMIC};
    switch (below(4)) {
    case 0: return (uint32_t)below(14);
    case 1: return tags[below(sizeof tags)] | (uint32_t)below(40) << 8;
    case 2: return (uint32_t)(1u << below(32)) - (uint32_t)below(2);
    default: return get_word(file + 4 * below(size / 4));
    }
}

/* Replaces, removes or inserts words in [at, at + n) of the file; returns its new size. */
static size_t change_words(uint8_t *file, size_t size, size_t room, size_t at, size_t n)
{
    size_t where = at + 4 * below(n / 4);
    size_t count = 4 * (1 + below(3));
    switch (below(5)) {
    case 0:
    case 1: put_word(file + where, some_word(file, size)); return size;
    case 2: put_word(file + where, get_word(file + where) + (below(2) ? 1 : 0xffffffffu)); return size;
    case 3:
        if (count > at + n - where)
            count = at + n - where;
        memmove(file + where, file + where + count, size - where - count);
        return size - count;
    default:
        if (size + count > room)
            return size;
        memmove(file + where + count, file + where, size - where);
        for (size_t i = 0; i < count; i += 4)
            put_word(file + where + i, some_word(file, size));
        return size + count;
    }
}

/* Changes one section and its length; 0 when the file has no such sections. */
static size_t change_section(uint8_t *file, size_t size, size_t room)
{
    size_t at = WIRE_HEADER_BYTES;
    for (size_t skip = below(4);; skip--) {
        if (size < at + 8 || get_word(file + at + 4) > (size - at - 8) / 4)
            return 0;
        size_t n = 4 * (size_t)get_word(file + at + 4);
        if (skip == 0 && n > 0) {
            size_t after = change_words(file, size, room, at + 8, n);
            put_word(file + at + 4, (uint32_t)((n + after - size) / 4));
            return after;
        }
        if (skip == 0)
            return 0;
        at += 8 + n;
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    random_state = seed * UINT64_C(0x9e3779b97f4a7c15) + size;
    size_t after = 0;
    if (size > 1 && data[0] % 2 && below(5))
        for (size_t n = 1 + below(3); n > 0; n--) {
            after = change_section(data + 1, size - 1, max_size - 1);
            if (!after)
                break;
            size = after + 1;
        }
    return after ? size : LLVMFuzzerMutate(data, size, max_size);
}

/* ---- Checks ---- */

static void seal(uint8_t *file, size_t size)
{
    uint64_t sum = flxi_hash_bytes(FLXI_HASH_SEED, file + WIRE_HEADER_BYTES, size - WIRE_HEADER_BYTES);
    memcpy(file, "FLXK\1\0\0\0\0\0\0\0", 12);
    put_word(file + 12, (uint32_t)(size / 4));
    put_word(file + 16, (uint32_t)sum);
    put_word(file + 20, (uint32_t)(sum >> 32));
}

static void check_file(const uint8_t *file, size_t size)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(&(flx_context_options){.memory_limit = 64 << 20});
    flx_kernel *k = flx_kernel_decode(ctx, file, size, &err);
    if (!k)
        need(err.code == FLX_E_KERNEL && err.message[0] && err.hint[0]);
    if (k) {
        flx_buffer again = kernel_bytes(k);
        need(again.size == size && memcmp(again.data + 8, file + 8, size - 8) == 0); /* except for the minor version */
        flx_buffer_free(&again);
        check_kernel(k);
    }
    flx_kernel_release(k);
    flx_context_free(ctx);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    uint8_t *file = malloc(size); /* exactly its size: a read past the end is detected */
    need(file != NULL);
    memcpy(file, data + 1, size - 1);
    if (data[0] % 2 && size - 1 >= WIRE_HEADER_BYTES)
        seal(file, (size - 1) & ~(size_t)3);
    check_file(file, data[0] % 2 ? (size - 1) & ~(size_t)3 : size - 1);
    free(file);
    return 0;
}
