/* SPDX-License-Identifier: Apache-2.0 */
/* mutate_files.c: changes to files of arrays and archives. Contents are changed by what they are, and lengths and
   checksums are corrected as a rule, so that the code after the checks is reached; then, sometimes, a field is changed
   after all. */
#include "mutate.h"

#include "base/hash.h"
#include "format/zip.h"
#include "graph/binary/binary.h"
#include "test.h"

#include <fluxion/fluxion.h>
#include <stdlib.h>
#include <string.h>

static size_t some_bytes(uint8_t *data, size_t size, size_t room)
{
    for (size_t n = 1 + pick_below(3); n > 0; n--)
        size = LLVMFuzzerMutate(data, size, room);
    return size;
}

/* The text at [at, at + n) of the file, changed; returns its new length. The file's size is corrected. */
static size_t change_text_part(uint8_t *data, size_t *size, size_t room, size_t at, size_t n, const language *l)
{
    static char fresh[MUTATE_ROOM];
    size_t m = mutate_text(l, (char *)data + at, n, fresh, sizeof fresh);
    if (*size - n + m > room)
        return n;
    memmove(data + at + m, data + at + n, *size - at - n);
    memcpy(data + at, fresh, m);
    *size = *size - n + m;
    return m;
}

/* ---- .npy ---- */

size_t mutate_npy(uint8_t *data, size_t size, size_t room, const language *l)
{
    size_t width = size > 6 && data[6] >= 2 ? 4 : 2, start = 8 + width;
    if (size < start || pick_below(5) == 0)
        return some_bytes(data, size, room);
    size_t n = 0;
    for (size_t i = 0; i < width; i++)
        n |= (size_t)data[8 + i] << (8 * i);
    if (n > size - start)
        return some_bytes(data, size, room);
    n = change_text_part(data, &size, room, start, n, l);
    if (pick_below(6))
        put_integer(data + 8, width, n);
    if (pick_below(4) == 0)
        size = some_bytes(data, size, room);
    return size;
}

/* ---- .safetensors ---- */

size_t mutate_safetensors(uint8_t *data, size_t size, size_t room, const language *l)
{
    uint64_t n = 0;
    for (size_t i = 0; size >= 8 && i < 8; i++)
        n |= (uint64_t)data[i] << (8 * i);
    if (size < 8 || n > size - 8 || pick_below(5) == 0)
        return some_bytes(data, size, room);
    n = change_text_part(data, &size, room, 8, (size_t)n, l);
    if (pick_below(6))
        put_integer(data, 8, n);
    return size;
}

/* ---- Archives ---- */

enum { MAX_ENTRIES = 16, NAME_ROOM = 64 };

typedef struct {
    char name[NAME_ROOM];
    size_t name_size;
    uint8_t *bytes; /* of MUTATE_ROOM */
    size_t size;
} entry;

typedef struct {
    entry at[MAX_ENTRIES];
    size_t n;
} archive;

static void archive_add(archive *a, const char *name, size_t name_size, const void *bytes, size_t size)
{
    if (a->n == MAX_ENTRIES || size > MUTATE_ROOM / 4)
        return;
    entry *e = &a->at[a->n++];
    e->name_size = name_size < NAME_ROOM ? name_size : NAME_ROOM;
    memcpy(e->name, name, e->name_size);
    e->bytes = malloc(MUTATE_ROOM);
    CHECK(e->bytes);
    if (size)
        memcpy(e->bytes, bytes, size);
    e->size = size;
}

static void archive_free(archive *a)
{
    for (size_t i = 0; i < a->n; i++)
        free(a->at[i].bytes);
    a->n = 0;
}

/* False when it is not an archive. */
static bool archive_read(archive *a, const uint8_t *data, size_t size)
{
    const flxi_allocator mem = {flxi_default_alloc, NULL};
    flxi_source source = flxi_source_memory(data, size);
    flxi_zip zip;
    flxi_zip_entry e;
    bool more = true;
    a->n = 0;
    if (flxi_zip_open(&zip, &mem, &source, NULL) != FLX_OK)
        return false;
    for (size_t at = 0; flxi_zip_next(&zip, &at, &e, &more, NULL) == FLX_OK && more;) {
        flxi_source content;
        void *block;
        if (flxi_zip_content(&zip, &e, 1 << 20, &content, &block, NULL) != FLX_OK)
            continue;
        uint8_t *copy = malloc((size_t)content.size + 1);
        CHECK(copy);
        if (flxi_source_read(&content, 0, copy, (size_t)content.size, NULL) == FLX_OK)
            archive_add(a, e.name, e.name_size, copy, (size_t)content.size);
        free(copy);
        flxi_free(&mem, block, (size_t)content.size, 1);
    }
    flxi_zip_close(&zip);
    return a->n > 0;
}

static uint32_t checksum(const uint8_t *data, size_t size)
{
    static flxi_crc32 c;
    flxi_crc32_begin(&c);
    flxi_crc32_add(&c, data, size);
    return flxi_crc32_end(&c);
}

enum { LOCAL = 30, CENTRAL = 46, END = 22 };

/* What both records of an entry have in common, from the version on. */
static void put_common(uint8_t *at, const entry *e, uint32_t crc)
{
    put_integer(at, 2, 20);
    put_integer(at + 8, 2, 0x21);
    put_integer(at + 10, 4, crc);
    put_integer(at + 14, 4, e->size);
    put_integer(at + 18, 4, e->size);
    put_integer(at + 22, 2, e->name_size);
}

/* Stored entries, with everything as it should be; 0 when there is no room. */
static size_t archive_write(const archive *a, uint8_t *out, size_t room)
{
    static uint8_t directory[MAX_ENTRIES * (CENTRAL + NAME_ROOM)];
    size_t n = 0, d = 0;
    for (size_t i = 0; i < a->n; i++) {
        const entry *e = &a->at[i];
        uint32_t crc = checksum(e->bytes, e->size);
        if (n + LOCAL + e->name_size + e->size + sizeof directory + END > room)
            return 0;
        memset(directory + d, 0, CENTRAL);
        memcpy(directory + d, "PK\1\2", 4);
        put_integer(directory + d + 4, 2, 20);
        put_common(directory + d + 6, e, crc);
        put_integer(directory + d + 42, 4, n);
        memcpy(directory + d + CENTRAL, e->name, e->name_size);
        d += CENTRAL + e->name_size;
        memset(out + n, 0, LOCAL);
        memcpy(out + n, "PK\3\4", 4);
        put_common(out + n + 4, e, crc);
        memcpy(out + n + LOCAL, e->name, e->name_size);
        memcpy(out + n + LOCAL + e->name_size, e->bytes, e->size);
        n += LOCAL + e->name_size + e->size;
    }
    memcpy(out + n, directory, d);
    memset(out + n + d, 0, END);
    memcpy(out + n + d, "PK\5\6", 4);
    put_integer(out + n + d + 8, 2, a->n);
    put_integer(out + n + d + 10, 2, a->n);
    put_integer(out + n + d + 12, 4, d);
    put_integer(out + n + d + 16, 4, n);
    return n + d + END;
}

static bool ends_with(const entry *e, const char *suffix)
{
    size_t n = strlen(suffix);
    return e->name_size >= n && memcmp(e->name + e->name_size - n, suffix, n) == 0;
}

static void change_entry(entry *e, const language *l)
{
    if (ends_with(e, ".npy")) {
        e->size = mutate_npy(e->bytes, e->size, MUTATE_ROOM, l);
    } else if (ends_with(e, ".txt")) {
        change_text_part(e->bytes, &e->size, MUTATE_ROOM, 0, e->size, l);
    } else if (ends_with(e, ".flxb") && e->size > FLXI_BINARY_HEADER_SIZE) {
        uint8_t *payload = e->bytes + FLXI_BINARY_HEADER_SIZE;
        size_t n = e->size - FLXI_BINARY_HEADER_SIZE;
        n = mutate_graph_payload(payload, n, MUTATE_ROOM - FLXI_BINARY_HEADER_SIZE);
        put_integer(e->bytes + 8, 8, n);
        put_integer(e->bytes + 16, 8, flxi_hash_bytes(FLXI_HASH_SEED, payload, n));
        e->size = n + FLXI_BINARY_HEADER_SIZE;
    } else {
        e->size = some_bytes(e->bytes, e->size, MUTATE_ROOM);
    }
}

static void change_archive(archive *a, const language *l)
{
    size_t at = pick_below(a->n), other = pick_below(a->n);
    entry swap = a->at[at];
    switch (pick_below(10)) {
    case 0: /* another order */
        a->at[at] = a->at[other];
        a->at[other] = swap;
        break;
    case 1:
        free(a->at[at].bytes);
        a->at[at] = a->at[--a->n];
        break;
    case 2: archive_add(a, swap.name, swap.name_size, swap.bytes, swap.size); break;
    case 3: a->at[at].name_size = LLVMFuzzerMutate((uint8_t *)a->at[at].name, swap.name_size, NAME_ROOM); break;
    case 4: /* the content of another */
        memcpy(a->at[at].bytes, a->at[other].bytes, a->at[other].size);
        a->at[at].size = a->at[other].size;
        break;
    default: change_entry(&a->at[at], l); break;
    }
}

/* A field of a record: a number of two or four bytes after a mark PK. */
static void change_field(uint8_t *data, size_t size)
{
    size_t begin = pick_below(size);
    for (size_t i = 0; i + 4 < size; i++) {
        size_t at = (begin + i) % size;
        if (at + 50 > size || data[at] != 'P' || data[at + 1] != 'K')
            continue;
        put_integer(data + at + 2 * pick_below(23), pick_below(2) ? 2 : 4, odd_integer());
        return;
    }
}

size_t mutate_zip(uint8_t *data, size_t size, size_t room, const language *l)
{
    static archive a;
    if (pick_below(6) == 0 || !archive_read(&a, data, size))
        return some_bytes(data, size, room);
    for (size_t n = 1 + pick_below(3); n > 0 && a.n > 0; n--)
        change_archive(&a, l);
    size_t written = archive_write(&a, data, room);
    archive_free(&a);
    if (written > 0 && pick_below(3) == 0)
        change_field(data, written);
    return written ? written : size;
}
