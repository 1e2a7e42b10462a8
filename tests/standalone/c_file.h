/* SPDX-License-Identifier: Apache-2.0 */
/* c_file.h: C files that the library wrote, compiled as strictly as their users may, and run. */
#ifndef FLX_C_FILE_H
#define FLX_C_FILE_H

#include "compile/bundle.h"

#include <fluxion/build.h>

/* A shared object made from a text. */
typedef struct c_file c_file;

/* Compiles with -std=c99 -pedantic -Wall -Wextra -Werror and these flags; a compiler that fails or complains fails the
   test. `compiler`: "gcc" or "clang". */
c_file *c_file_compile(const flx_buffer *text, const char *compiler, const char *flags);
void *c_file_symbol(const c_file *f, const char *name); /* must be there */
void c_file_free(c_file *f);

/* All pieces of a bundle as one C file, compiled, run and compared with the reference. */
void c_file_check_bundle(bundle *b, const char *compiler, const char *flags, int vector_bytes);

/* The same, and compares the bits with those of a compiled graph on the device `cpu`. */
void c_file_check_bits(bundle *b, const char *compiler, const char *flags, int vector_bytes, bundle_differs differs);

/* Memory of a model, which is not zero. When it is freed, nothing may have been written after it. */
typedef struct {
    void *at;
    size_t nbytes;
} c_file_memory;
c_file_memory c_file_memory_new(size_t nbytes);
void c_file_memory_free(c_file_memory *m);

#endif
