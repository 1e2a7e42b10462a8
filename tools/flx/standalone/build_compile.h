/* SPDX-License-Identifier: Apache-2.0 */
/* build_compile.h: what `flx build` makes of a C file with the C compiler of the user. */
#ifndef BUILD_COMPILE_H
#define BUILD_COMPILE_H

#include <fluxion/build.h>
#include <stdint.h>

/* What -o names, by its ending. */
typedef enum { OUT_TEXT, OUT_OBJECT, OUT_SHARED, OUT_ARCHIVE } build_kind;

typedef struct {
    const char *out, *header;
    build_kind kind;            /* of text an object is made only to be measured */
    const char *const *machine; /* flags of the C compiler for the target, ended by NULL */
    int32_t threads;            /* a flx_build_threads */
} build_compilation;

/* Bytes of what was compiled; -1: not known. */
typedef struct {
    int64_t code_bytes, stack_bytes;
} build_measures;

/* Compiles the text into what -o names, and measures it. $CC may have a launcher and flags. */
int build_compile(const build_compilation *c, const flx_buffer *source, build_measures *m);

#endif
