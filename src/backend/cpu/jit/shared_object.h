/* SPDX-License-Identifier: Apache-2.0 */
/* shared_object.h: the bytes of a shared object, loaded into this process. */
#ifndef FLXI_SHARED_OBJECT_H
#define FLXI_SHARED_OBJECT_H

#include "base/error.h"
#include "base/memory.h"
#include "base/sha256.h"

/* A loaded shared object; any number of threads may use it. */
typedef struct flxi_object flxi_object;

/* Loads `n` bytes whose digest is known: they are copied into anonymous memory, which is sealed against changes, the
   digest is compared with what is there, and that memory is mapped. `path` is a file with the same bytes in a
   directory that only this user can enter, for systems that have no such memory, or NULL. DEVICE when it cannot be
   loaded; OOM. */
flx_code flxi_object_load(const flxi_allocator *mem, const unsigned char *bytes, size_t n,
                          const unsigned char digest[FLXI_SHA256_BYTES], const char *path, flxi_object **out,
                          flx_error *err);
void *flxi_object_symbol(const flxi_object *o, const char *name); /* NULL: there is none */
void flxi_object_free(flxi_object *o);                            /* NULL is fine */

#endif
