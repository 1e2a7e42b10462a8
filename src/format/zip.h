/* SPDX-License-Identifier: Apache-2.0 */
/* zip.h: reads and writes ZIP archives, as far as .npz needs them.

   Reading starts from the central directory at the end of the file; sizes beyond 4 GiB (zip64) are supported. Entries
   may be stored or deflated. Not supported: encrypted entries, other methods, multi-part archives, archives with data
   before their beginning. Names are only compared, never used as paths. Writing stores entries uncompressed. */
#ifndef FLXI_ZIP_H
#define FLXI_ZIP_H

#include "format/crc32.h"
#include "format/file.h"

/* ---- Reading ---- */

typedef struct {
    const flxi_allocator *mem;
    const flxi_source *source;
    unsigned char *directory;
    size_t directory_size;
    uint64_t directory_at; /* where it begins in the file; entries' data is before it */
    uint64_t count;        /* entries it must have */
} flxi_zip;

typedef struct {
    const char *name; /* not terminated; inside the directory */
    size_t name_size;
    uint32_t flags, method, crc;
    uint64_t stored_size; /* in the file */
    uint64_t size;        /* after inflating */
    uint64_t header_at;
} flxi_zip_entry;

/* Reads and checks the directory. The source must outlive the archive. */
flx_code flxi_zip_open(flxi_zip *z, const flxi_allocator *mem, const flxi_source *source, flx_error *err);
void flxi_zip_close(flxi_zip *z);

/* Iterates over the entries: start with *at = 0; *more is false after the last. */
flx_code flxi_zip_next(const flxi_zip *z, size_t *at, flxi_zip_entry *entry, bool *more, flx_error *err);

/* The entry's contents, checksum verified: a part of the archive's source if it is stored, memory if it was deflated;
   then the caller frees *block, of content->size bytes; it is NULL otherwise. Contents larger than `limit` (0: none)
   are SIZE. */
flx_code flxi_zip_content(const flxi_zip *z, const flxi_zip_entry *entry, int64_t limit, flxi_source *content,
                          void **block, flx_error *err);

/* ---- Writing ---- */

typedef struct {
    flxi_save save;
    flxi_strbuf directory;
    uint64_t count;
} flxi_zip_writer;

flx_code flxi_zip_write_begin(flxi_zip_writer *w, const flxi_allocator *mem, const char *path, flx_error *err);

/* Adds an entry whose content is the concatenation of the given pieces. */
typedef struct {
    const void *data;
    size_t size;
} flxi_piece;
flx_code flxi_zip_write_entry(flxi_zip_writer *w, const char *name, const flxi_piece *pieces, size_t count,
                              flx_error *err);

/* Call either of these after a successful begin; if end fails, nothing is left over. */
flx_code flxi_zip_write_end(flxi_zip_writer *w, flx_error *err);
void flxi_zip_write_abandon(flxi_zip_writer *w);

#endif
