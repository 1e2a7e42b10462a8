/* SPDX-License-Identifier: Apache-2.0 */
/* array.h: an array as stored in a file, and reading it into a tensor. */
#ifndef FLXI_ARRAY_H
#define FLXI_ARRAY_H

#include "format/file.h"

#include <fluxion/tensor.h>

typedef struct {
    flx_type type; /* static */
    bool is_big_endian;
    bool is_fortran;        /* the first axis runs fastest */
    const int64_t *strides; /* in elements, not negative; NULL: row-major, or Fortran's */
    uint64_t at, size;      /* the bytes of the source that hold it */
} flxi_array;

/* A row-major tensor in this machine's byte order. `size` must be exactly what the type requires, or with strides at
   least that, and within the source, so nothing is allocated that the source does not justify. Bools that are neither
   0 nor 1 become 1. */
flx_tensor *flxi_array_load(flx_context *ctx, const flxi_array *a, const flxi_source *s, flx_error *err);

/* Whether this machine stores the highest byte first. */
bool flxi_host_is_big_endian(void);

#endif
