/* SPDX-License-Identifier: Apache-2.0 */
/* zip.c: see zip.h. Written from PKWARE's APPNOTE 6.3; numbers such as 4.3.16 below are its sections.

   Archives are untrusted: every offset and size is checked against the file before it is used, and a size is allocated
   only if the file is large enough to contain it (deflated data: can inflate to it). */
#include "format/zip.h"

#include "format/endian.h"
#include "format/inflate.h"

enum {
    end_size = 22,     /* end of central directory, 4.3.16 */
    end64_size = 56,   /* zip64 end of central directory, 4.3.14 */
    locator_size = 20, /* where that is, 4.3.15 */
    central_size = 46, /* a directory record before its name, 4.3.12 */
    local_size = 30,   /* an entry's header before its name, 4.3.7 */
    comment_max = 65535,
    method_stored = 0,
    method_deflated = 8,
    flag_encrypted = 1,
    flag_utf8 = 1 << 11,
    zip64_extra = 1, /* 4.5.3 */
    version_plain = 20,
    version_zip64 = 45,
    date_1980 = 0x21, /* the earliest: the same content gives the same file */
};

#define END_MARK UINT32_C(0x06054b50)
#define END64_MARK UINT32_C(0x06064b50)
#define LOCATOR_MARK UINT32_C(0x07064b50)
#define CENTRAL_MARK UINT32_C(0x02014b50)
#define LOCAL_MARK UINT32_C(0x04034b50)
#define ALL_ONES UINT32_C(0xffffffff) /* the value is in a zip64 field */

static flx_code damaged(flx_error *err, const char *what)
{
    return flxi_fail(err, FLX_E_SYNTAX, "not a readable zip archive: %s", what);
}

/* ---- The directory ---- */

typedef struct {
    uint64_t at, size, count; /* of the directory */
    uint64_t end_at;          /* where the record that says so begins; the directory is before it */
} directory_range;

/* The zip64 record, if its locator is right before the ordinary one. */
static flx_code read_end64(const flxi_source *s, directory_range *d, flx_error *err)
{
    unsigned char locator[locator_size];
    unsigned char end[end64_size];
    uint64_t locator_at = d->end_at - locator_size;
    if (d->end_at < locator_size)
        return damaged(err, "sizes are missing");
    FLXI_TRY(flxi_source_read(s, locator_at, locator, sizeof locator, err));
    if (flxi_get32(locator) != LOCATOR_MARK)
        return FLX_OK;
    uint64_t at = flxi_get64(locator + 8);
    if (flxi_get32(locator + 4) != 0 || flxi_get32(locator + 16) > 1)
        return flxi_fail(err, FLX_E_UNSUPPORTED, "multi-part archives are not supported");
    if (at > locator_at || locator_at - at < end64_size)
        return damaged(err, "the offset of its directory is invalid");
    FLXI_TRY(flxi_source_read(s, at, end, sizeof end, err));
    if (flxi_get32(end) != END64_MARK)
        return damaged(err, "the offset of its directory is invalid");
    if (flxi_get32(end + 16) != 0 || flxi_get32(end + 20) != 0 || flxi_get64(end + 24) != flxi_get64(end + 32))
        return flxi_fail(err, FLX_E_UNSUPPORTED, "multi-part archives are not supported");
    *d = (directory_range){
        .at = flxi_get64(end + 48),
        .size = flxi_get64(end + 40),
        .count = flxi_get64(end + 32),
        .end_at = at,
    };
    return FLX_OK;
}

/* The last record of the file is followed only by a comment whose length it states; search for it from the end. */
static flx_code find_end(const flxi_allocator *mem, const flxi_source *s, directory_range *d, flx_error *err)
{
    size_t n = s->size < end_size + comment_max ? (size_t)s->size : end_size + comment_max;
    if (n < end_size)
        return damaged(err, "it is too short");
    unsigned char *tail = flxi_alloc(mem, n, 1);
    if (!tail)
        return flxi_oom(err, "the end of a zip archive");
    flx_code code = flxi_source_read(s, s->size - n, tail, n, err);
    size_t i = n - end_size + 1;
    bool found = false;
    while (code == FLX_OK && !found && i-- > 0)
        found = flxi_get32(tail + i) == END_MARK && flxi_get16(tail + i + 20) == n - end_size - i;
    if (code == FLX_OK && !found)
        code = damaged(err, "its directory is missing");
    if (found) {
        const unsigned char *end = tail + i;
        *d = (directory_range){
            .at = flxi_get32(end + 16),
            .size = flxi_get32(end + 12),
            .count = flxi_get16(end + 10),
            .end_at = s->size - n + i,
        };
        bool is_wide = d->at == ALL_ONES || d->size == ALL_ONES || d->count == 0xffff;
        bool parts = flxi_get16(end + 4) != flxi_get16(end + 6) || flxi_get16(end + 8) != d->count;
        if (is_wide)
            code = read_end64(s, d, err);
        else if (parts)
            code = flxi_fail(err, FLX_E_UNSUPPORTED, "multi-part archives are not supported");
    }
    flxi_free(mem, tail, n, 1);
    return code;
}

/* The directory must contain exactly the stated number of valid records. */
static flx_code count_entries(const flxi_zip *z, flx_error *err)
{
    size_t at = 0;
    uint64_t n = 0;
    flxi_zip_entry e;
    for (bool more = true; more; n += more)
        FLXI_TRY(flxi_zip_next(z, &at, &e, &more, err));
    return n == z->count ? FLX_OK : damaged(err, "its directory does not have the stated number of entries");
}

flx_code flxi_zip_open(flxi_zip *z, const flxi_allocator *mem, const flxi_source *source, flx_error *err)
{
    *z = (flxi_zip){.mem = mem, .source = source};
    directory_range d = {0};
    FLXI_TRY(find_end(mem, source, &d, err));
    if (d.at > d.end_at || d.size > d.end_at - d.at || d.size > SIZE_MAX)
        return damaged(err, "the offset of its directory is invalid");
    if (d.count > d.size / central_size)
        return damaged(err, "its directory is too short");
    z->directory = flxi_alloc(mem, (size_t)d.size, 1);
    if (!z->directory)
        return flxi_oom(err, "the directory of a zip archive");
    z->directory_size = (size_t)d.size;
    z->directory_at = d.at;
    z->count = d.count;
    flx_code code = flxi_source_read(source, d.at, z->directory, z->directory_size, err);
    if (code == FLX_OK)
        code = count_entries(z, err);
    if (code != FLX_OK)
        flxi_zip_close(z);
    return code;
}

void flxi_zip_close(flxi_zip *z)
{
    flxi_free(z->mem, z->directory, z->directory_size, 1);
    z->directory = NULL;
    z->directory_size = 0;
    z->count = 0;
}

/* Takes the values that did not fit 32 bits from the extra field, where they are in this order. */
static bool read_wide_values(const unsigned char *extra, size_t n, uint64_t *const values[3])
{
    bool is_needed = false;
    for (int k = 0; k < 3; k++)
        is_needed |= *values[k] == ALL_ONES;
    while (is_needed && n >= 4) {
        size_t size = flxi_get16(extra + 2);
        if (size > n - 4)
            return false;
        if (flxi_get16(extra) == zip64_extra) {
            size_t used = 0;
            for (int k = 0; k < 3; k++) {
                if (*values[k] != ALL_ONES)
                    continue;
                if (size - used < 8)
                    return false;
                *values[k] = flxi_get64(extra + 4 + used);
                used += 8;
            }
            return true;
        }
        extra += 4 + size;
        n -= 4 + size;
    }
    return true; /* without the field the values are literal */
}

flx_code flxi_zip_next(const flxi_zip *z, size_t *at, flxi_zip_entry *entry, bool *more, flx_error *err)
{
    size_t left = z->directory_size - *at;
    const unsigned char *p = z->directory + *at;
    *more = left > 0;
    if (left == 0)
        return FLX_OK;
    if (left < central_size || flxi_get32(p) != CENTRAL_MARK)
        return damaged(err, "its directory is damaged");
    size_t name_size = flxi_get16(p + 28);
    size_t extra_size = flxi_get16(p + 30);
    size_t total = central_size + name_size + extra_size + flxi_get16(p + 32);
    if (left < total)
        return damaged(err, "its directory is damaged");
    *entry = (flxi_zip_entry){
        .name = (const char *)p + central_size,
        .name_size = name_size,
        .flags = flxi_get16(p + 8),
        .method = flxi_get16(p + 10),
        .crc = flxi_get32(p + 16),
        .stored_size = flxi_get32(p + 20),
        .size = flxi_get32(p + 24),
        .header_at = flxi_get32(p + 42),
    };
    uint64_t *const wide[3] = {&entry->size, &entry->stored_size, &entry->header_at};
    if (!read_wide_values(p + central_size + name_size, extra_size, wide))
        return damaged(err, "its directory is damaged");
    *at += total;
    return FLX_OK;
}

/* ---- Contents ---- */

/* Where the data begins: after a header that repeats the name and has its own extra field. */
static flx_code find_data(const flxi_zip *z, const flxi_zip_entry *e, uint64_t *at, flx_error *err)
{
    unsigned char header[local_size];
    if (e->header_at > z->directory_at || z->directory_at - e->header_at < local_size)
        return damaged(err, "an entry is outside the data of the archive");
    FLXI_TRY(flxi_source_read(z->source, e->header_at, header, sizeof header, err));
    if (flxi_get32(header) != LOCAL_MARK)
        return damaged(err, "an entry is not where the directory says");
    *at = e->header_at + local_size + flxi_get16(header + 26) + flxi_get16(header + 28);
    if (flxi_get16(header + 26) != e->name_size || flxi_get16(header + 8) != e->method)
        return damaged(err, "an entry and the directory disagree");
    if (*at > z->directory_at || e->stored_size > z->directory_at - *at)
        return damaged(err, "an entry is outside the data of the archive");
    return FLX_OK;
}

static flx_code sum_source(const flxi_source *s, uint32_t *sum, flx_error *err)
{
    flxi_crc32 crc;
    unsigned char piece[16384];
    flxi_crc32_begin(&crc);
    if (s->bytes)
        flxi_crc32_add(&crc, s->bytes, (size_t)s->size);
    for (uint64_t at = 0; !s->bytes && at < s->size;) {
        size_t n = s->size - at < sizeof piece ? (size_t)(s->size - at) : sizeof piece;
        FLXI_TRY(flxi_source_read(s, at, piece, n, err));
        flxi_crc32_add(&crc, piece, n);
        at += n;
    }
    *sum = flxi_crc32_end(&crc);
    return FLX_OK;
}

static flx_code inflate_part(const flxi_allocator *mem, const flxi_source *part, void *out, size_t size, flx_error *err)
{
    if (part->bytes)
        return flxi_inflate(part->bytes, (size_t)part->size, out, size, err);
    void *in = flxi_alloc(mem, (size_t)part->size, 1);
    if (!in)
        return flxi_oom(err, "a compressed zip entry");
    flx_code code = flxi_source_read(part, 0, in, (size_t)part->size, err);
    if (code == FLX_OK)
        code = flxi_inflate(in, (size_t)part->size, out, size, err);
    flxi_free(mem, in, (size_t)part->size, 1);
    return code;
}

static flx_code check_entry(const flxi_zip_entry *e, int64_t limit, flx_error *err)
{
    if (e->flags & flag_encrypted)
        return flxi_fail(err, FLX_E_UNSUPPORTED, "the entry is encrypted");
    if (e->method != method_stored && e->method != method_deflated)
        return flxi_fail(err, FLX_E_UNSUPPORTED,
                         "compression method %u of the entry is not supported, only stored and deflated",
                         (unsigned)e->method);
    if (e->method == method_stored && e->size != e->stored_size)
        return damaged(err, "a stored entry has two different sizes");
    if (e->method == method_deflated && e->size > flxi_inflate_bound(e->stored_size))
        return damaged(err, "an entry cannot inflate to the size it states");
    if (e->size > SIZE_MAX || (limit > 0 && e->method == method_deflated && e->size > (uint64_t)limit))
        return flxi_fail(err, FLX_E_SIZE, "the entry has %llu bytes, the limit is %lld", (unsigned long long)e->size,
                         (long long)limit);
    return FLX_OK;
}

flx_code flxi_zip_content(const flxi_zip *z, const flxi_zip_entry *entry, int64_t limit, flxi_source *content,
                          void **block, flx_error *err)
{
    uint64_t at = 0;
    uint32_t crc = 0;
    *block = NULL;
    FLXI_TRY(check_entry(entry, limit, err));
    FLXI_TRY(find_data(z, entry, &at, err));
    *content = flxi_source_part(z->source, at, entry->stored_size);
    flx_code code = FLX_OK;
    if (entry->method == method_deflated) {
        size_t size = (size_t)entry->size;
        flxi_source part = *content;
        *block = flxi_alloc(z->mem, size, 1);
        if (!*block)
            return flxi_oom(err, "a zip entry");
        code = inflate_part(z->mem, &part, *block, size, err);
        *content = flxi_source_memory(*block, size);
    }
    if (code == FLX_OK)
        code = sum_source(content, &crc, err);
    if (code == FLX_OK && crc != entry->crc)
        code = flxi_fail(err, FLX_E_SYNTAX, "the zip entry is damaged: its checksum is %08x, not %08x", (unsigned)crc,
                         (unsigned)entry->crc);
    if (code != FLX_OK && *block) {
        flxi_free(z->mem, *block, (size_t)entry->size, 1);
        *block = NULL;
    }
    return code;
}

/* ---- Writing ---- */

flx_code flxi_zip_write_begin(flxi_zip_writer *w, const flxi_allocator *mem, const char *path, flx_error *err)
{
    flxi_strbuf_init(&w->directory, mem);
    w->count = 0;
    return flxi_save_begin(&w->save, path, err);
}

static uint32_t or_all_ones(uint64_t v)
{
    return v < ALL_ONES ? (uint32_t)v : ALL_ONES;
}

/* The fields that the local and the central header share, starting with "version needed". */
static void put_common(unsigned char *p, const flxi_zip_entry *e, bool is_wide)
{
    flxi_put16(p, is_wide ? version_zip64 : version_plain);
    flxi_put16(p + 2, e->flags);
    flxi_put16(p + 4, method_stored);
    flxi_put16(p + 6, 0);
    flxi_put16(p + 8, date_1980);
    flxi_put32(p + 10, e->crc);
    flxi_put32(p + 14, is_wide ? ALL_ONES : (uint32_t)e->size);
    flxi_put32(p + 18, is_wide ? ALL_ONES : (uint32_t)e->size);
    flxi_put16(p + 22, (uint32_t)e->name_size);
}

/* Both sizes or neither are wide; the offset is independent of them and only in the directory. */
static size_t put_extra(unsigned char *p, const flxi_zip_entry *e, bool is_wide, bool wide_offset)
{
    size_t n = 0;
    if (is_wide) {
        flxi_put64(p + 4, e->size);
        flxi_put64(p + 12, e->size);
        n = 16;
    }
    if (wide_offset) {
        flxi_put64(p + 4 + n, e->header_at);
        n += 8;
    }
    if (n == 0)
        return 0;
    flxi_put16(p, zip64_extra);
    flxi_put16(p + 2, (uint32_t)n);
    return n + 4;
}

static flx_code write_local(flxi_zip_writer *w, const flxi_zip_entry *e, flx_error *err)
{
    unsigned char header[local_size] = {0};
    unsigned char extra[32];
    bool is_wide = e->size >= ALL_ONES;
    size_t extra_size = put_extra(extra, e, is_wide, false);
    flxi_put32(header, LOCAL_MARK);
    put_common(header + 4, e, is_wide);
    flxi_put16(header + 28, (uint32_t)extra_size);
    FLXI_TRY(flxi_save_bytes(&w->save, header, sizeof header, err));
    FLXI_TRY(flxi_save_bytes(&w->save, e->name, e->name_size, err));
    return flxi_save_bytes(&w->save, extra, extra_size, err);
}

static flx_code add_central(flxi_zip_writer *w, const flxi_zip_entry *e, flx_error *err)
{
    unsigned char record[central_size] = {0};
    unsigned char extra[32];
    bool is_wide = e->size >= ALL_ONES;
    bool wide_offset = e->header_at >= ALL_ONES;
    size_t extra_size = put_extra(extra, e, is_wide, wide_offset);
    flxi_put32(record, CENTRAL_MARK);
    flxi_put16(record + 4, is_wide || wide_offset ? version_zip64 : version_plain);
    put_common(record + 6, e, is_wide);
    flxi_put16(record + 30, (uint32_t)extra_size);
    flxi_put32(record + 42, or_all_ones(e->header_at));
    flxi_add_bytes(&w->directory, record, sizeof record);
    flxi_add_bytes(&w->directory, e->name, e->name_size);
    flxi_add_bytes(&w->directory, extra, extra_size);
    return w->directory.failed ? flxi_oom(err, "the directory of a zip archive") : FLX_OK;
}

flx_code flxi_zip_write_entry(flxi_zip_writer *w, const char *name, const flxi_piece *pieces, size_t count,
                              flx_error *err)
{
    flxi_zip_entry e = {.name = name, .name_size = strlen(name), .header_at = w->save.written};
    if (e.name_size > 65535)
        return flxi_fail(err, FLX_E_SIZE, "the name of a zip entry has %zu bytes, the limit is 65535", e.name_size);
    for (size_t i = 0; i < e.name_size; i++)
        if ((unsigned char)name[i] >= 128)
            e.flags = flag_utf8;
    flxi_crc32 crc;
    flxi_crc32_begin(&crc);
    for (size_t i = 0; i < count; i++) {
        flxi_crc32_add(&crc, pieces[i].data, pieces[i].size);
        e.size += pieces[i].size;
    }
    e.crc = flxi_crc32_end(&crc);
    FLXI_TRY(write_local(w, &e, err));
    for (size_t i = 0; i < count; i++)
        FLXI_TRY(flxi_save_bytes(&w->save, pieces[i].data, pieces[i].size, err));
    w->count++;
    return add_central(w, &e, err);
}

/* The records after the directory: the zip64 ones only if something does not fit. */
static flx_code write_trailer(flxi_zip_writer *w, uint64_t at, flx_error *err)
{
    unsigned char end64[end64_size + locator_size] = {0};
    unsigned char end[end_size] = {0};
    uint64_t size = w->directory.n;
    uint32_t short_count = w->count < 0xffff ? (uint32_t)w->count : 0xffff;
    if (w->count >= 0xffff || at >= ALL_ONES || size >= ALL_ONES) {
        unsigned char *locator = end64 + end64_size;
        flxi_put32(end64, END64_MARK);
        flxi_put64(end64 + 4, end64_size - 12);
        flxi_put16(end64 + 12, version_zip64);
        flxi_put16(end64 + 14, version_zip64);
        flxi_put64(end64 + 24, w->count);
        flxi_put64(end64 + 32, w->count);
        flxi_put64(end64 + 40, size);
        flxi_put64(end64 + 48, at);
        flxi_put32(locator, LOCATOR_MARK);
        flxi_put64(locator + 8, at + size);
        flxi_put32(locator + 16, 1);
        FLXI_TRY(flxi_save_bytes(&w->save, end64, sizeof end64, err));
    }
    flxi_put32(end, END_MARK);
    flxi_put16(end + 8, short_count);
    flxi_put16(end + 10, short_count);
    flxi_put32(end + 12, or_all_ones(size));
    flxi_put32(end + 16, or_all_ones(at));
    return flxi_save_bytes(&w->save, end, sizeof end, err);
}

flx_code flxi_zip_write_end(flxi_zip_writer *w, flx_error *err)
{
    uint64_t at = w->save.written;
    flx_code code = flxi_save_bytes(&w->save, w->directory.at, w->directory.n, err);
    if (code == FLX_OK)
        code = write_trailer(w, at, err);
    if (code == FLX_OK)
        code = flxi_save_end(&w->save, err);
    else
        flxi_save_abandon(&w->save);
    flxi_strbuf_free(&w->directory);
    return code;
}

void flxi_zip_write_abandon(flxi_zip_writer *w)
{
    flxi_save_abandon(&w->save);
    flxi_strbuf_free(&w->directory);
}
