/* SPDX-License-Identifier: Apache-2.0 */
/* borrow.h: functions that a C file takes from the library's own sources (src/numeric), so that both compute the same
   in the same order, and nothing is written twice. The build turns the sources into texts (embed_sources.cmake). */
#ifndef FLXI_BORROW_H
#define FLXI_BORROW_H

#include <stddef.h>

typedef struct {
    const char *name; /* of the file, without its folder */
    const unsigned char *text;
    size_t n;
} flxi_sa_source;

extern const flxi_sa_source flxi_sa_sources[];
extern const size_t flxi_sa_num_sources;

typedef struct flxi_sa_file flxi_sa_file;

/* The name that a function, type or constant of the sources has in the file. It is written there, after everything that
   it needs, unless it is there already. `source`: the file that defines it, for dense.c "real" or "complex". */
const char *flxi_sa_borrow(flxi_sa_file *f, const char *source, const char *name);

#endif
