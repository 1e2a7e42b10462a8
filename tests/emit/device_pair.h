/* SPDX-License-Identifier: Apache-2.0 */
/* device_pair.h: runs one dispatch on the interpreter and on another device, with the same memory before, and checks
   that it is the same after. Elements are compared bit by bit; all NaNs are equal. */
#ifndef FLX_TEST_DEVICE_PAIR_H
#define FLX_TEST_DEVICE_PAIR_H

#include "kernel/flk.h"

typedef struct {
    const char *device;
    uint32_t grid[3];
    uint32_t subgroup_size; /* 0: 32 */
    size_t open_count;      /* elements of buffers whose count is open; 0: 64 */
    uint64_t seed;          /* of the contents */
    uint32_t max_ulp;       /* by which floats may differ; 0: none */
    uint32_t max_index;     /* u32 elements are below this; 0: any */
    /* Fills the memory of a buffer instead of the usual mixture of edge cases and random bits; may be NULL. */
    void (*fill)(const flx_kernel_buffer *b, void *data, size_t count, uint64_t seed);
    bool is_error; /* both must fail, with the same message and location */
} device_pair;

void device_pair_check(const flx_kernel *k, const device_pair *p);

/* Bytes of elements in memory. */
size_t device_pair_bytes(uint32_t element, uint64_t count);
/* Edge cases of a type, as bits: at most `room`; returns their number. */
size_t device_pair_edges(uint32_t type, uint64_t *bits, size_t room);
void device_pair_put(uint32_t element, void *data, size_t index, uint64_t bits);
uint64_t device_pair_get(uint32_t element, const void *data, size_t index);

#endif
