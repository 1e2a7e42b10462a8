/* SPDX-License-Identifier: Apache-2.0 */
/* object_cache.h: compiled objects on disk, found by the SHA-256 of all that went into them.

   A writable cache is code execution, so everything in it is treated as untrusted. The directory must belong to this
   user and be closed to writing by others, and may not be a symbolic link. An entry is one file: a header with the
   key, the length and the SHA-256 of the object, then the object. It is read only if it is a regular file of this
   user, closed to writing by others, and every byte is as it was written; anything else is a miss, and the next
   write replaces it. Entries appear whole, by a rename, so any number of processes may share a directory. Above its
   bound the oldest entries go.

   No failure of the cache is an error: the caller compiles instead, and a note says why. */
#ifndef FLXI_OBJECT_CACHE_H
#define FLXI_OBJECT_CACHE_H

#include "base/memory.h"
#include "base/sha256.h"

#include <fluxion/exec.h>

typedef struct {
    flx_cache_mode mode; /* $FLX_CACHE (on, read-only or off) takes precedence; read-only: nothing is made or removed */
    const char *dir;     /* NULL: $FLX_CACHE_DIR, else $XDG_CACHE_HOME/fluxion, else $HOME/.cache/fluxion */
    uint64_t max_bytes;  /* of all entries; 0: 512 MiB */
} flxi_cache_options;

/* What a compilation wants. */
static inline flxi_cache_options flxi_cache_options_of(const flx_compile_options *o)
{
    return (flxi_cache_options){.mode = (flx_cache_mode)o->cache, .dir = o->cache_dir};
}

typedef struct {
    uint64_t rejected, stored, evicted;
    char note[200]; /* why the cache was last not used as wanted, or "" */
} flxi_cache_stats;

typedef struct flxi_object_cache flxi_object_cache; /* threads may share one */

/* NULL when memory is exhausted; the options are copied. Looks at nothing yet. */
flxi_object_cache *flxi_object_cache_new(const flxi_allocator *mem, const flxi_cache_options *options);
void flxi_object_cache_free(flxi_object_cache *c); /* NULL is fine */

typedef struct {
    unsigned char *bytes;
    size_t n;
    unsigned char digest[FLXI_SHA256_BYTES]; /* of the bytes: verified */
} flxi_cache_entry;

/* False: there is no entry that can be trusted. */
bool flxi_object_cache_read(flxi_object_cache *c, const unsigned char key[FLXI_SHA256_BYTES], flxi_cache_entry *out);
void flxi_cache_entry_free(const flxi_object_cache *c, flxi_cache_entry *e);
/* Counts an entry that was read well but could not be used. */
void flxi_object_cache_reject(flxi_object_cache *c, const char *why);
void flxi_object_cache_write(flxi_object_cache *c, const unsigned char key[FLXI_SHA256_BYTES],
                             const flxi_cache_entry *e);

void flxi_object_cache_stats(flxi_object_cache *c, flxi_cache_stats *out);

/* Its folder and how it is used, or why not, in a line for people. Makes nothing. */
void flxi_object_cache_describe(flxi_object_cache *c, char *text, size_t size);

#endif
