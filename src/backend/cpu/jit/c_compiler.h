/* SPDX-License-Identifier: Apache-2.0 */
/* c_compiler.h: which C compiler there is, what it is, and with which arguments it makes our objects. */
#ifndef FLXI_C_COMPILER_H
#define FLXI_C_COMPILER_H

#include "backend/object_cache.h"
#include "base/error.h"
#include "base/host/process.h"

typedef enum { FLXI_CC_UNKNOWN, FLXI_CC_GCC, FLXI_CC_CLANG } flxi_cc_family;

typedef struct {
    char path[4096];
    char version[400];                         /* the beginning of what it says about itself, "" if it says nothing */
    unsigned char identity[FLXI_SHA256_BYTES]; /* of path and file: size and times */
    flxi_cc_family family;
} flxi_cc;

/* $FLX_CC, else the first of gcc, clang and cc on the PATH: all make equally fast code, and gcc starts three times as
   fast as clang. Knows path and identity then. DEVICE when there is none. */
flx_code flxi_cc_find(flxi_cc *cc, flx_error *err);

/* Asks the compiler for its version and finds its family by it. The answer is kept in the cache as long as the
   compiler's file stays the same, for some compilers take longer to answer than to compile. */
void flxi_cc_probe(flxi_cc *cc, flxi_object_cache *cache, const flxi_process_limits *limits);

/* The compiler that made what is in the cache, as it was when it was last used: its objects serve where there is none.
   False: not known. Has no path. */
bool flxi_cc_recall(flxi_cc *cc, flxi_object_cache *cache);

/* ---- Arguments ---- */

typedef enum {
    FLXI_C_USUAL, /* all that explicit vectors need: -O2 of gcc, -O1 of clang */
    FLXI_C_O0,
    FLXI_C_O1,
    FLXI_C_O2,
    FLXI_C_O3,
} flxi_c_level;

enum {
    FLXI_C_CONTRACT = 1, /* a * b + c may become one operation */
};

enum { FLXI_CC_MAX_FLAGS = 32 };

/* The flags, without files; gives their number. */
size_t flxi_cc_flags(const flxi_cc *cc, flxi_c_level level, unsigned flags, const char *out[FLXI_CC_MAX_FLAGS]);

/* Adds what this processor can do, as far as it changes what the compiler makes. */
void flxi_cc_add_processor(flxi_sha256 *h);

#endif
