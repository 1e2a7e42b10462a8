/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_race.h: detects data races (docs/kernels.md, "The language") and broken promises.

   Every element of memory that can race has a shadow. Two accesses by different invocations conflict when one writes
   and not both are atomic; they are a race unless a barrier of their workgroup or of the grid separates them. Ordered
   accesses stay ordered, so the shadow needs only the last store, two of the loads and two of the atomics to find a
   race of any later access with any earlier one. Ordering through the values of atomics is not tracked: across
   workgroups only grid barriers order. */
#ifndef FLXI_KERNEL_RACE_H
#define FLXI_KERNEL_RACE_H

#include "kernel/interpret/kernel_code.h"

typedef enum { KTOUCH_LOAD, KTOUCH_ATOMIC, KTOUCH_STORE, KTOUCH_ANY } flxi_ktouch_kind;

/* One access to one element. */
typedef struct {
    uint32_t who;       /* number of the invocation + 1; 0 means none */
    uint32_t statement; /* number in the code */
} flxi_ktouch;

/* Accesses of one kind that are not yet ordered before all later ones: those in the last nonempty interval of one
   workgroup, or those of two workgroups. */
typedef struct {
    flxi_ktouch at[2];
    uint32_t interval; /* of the workgroup of at[0] */
} flxi_ktouches;

typedef struct {
    uint32_t epoch;       /* number of grid barriers before the accesses below */
    flxi_ktouches few[2]; /* loads, atomics */
    flxi_ktouch store;
    uint32_t interval; /* of the store */
    flxi_ktouch owner; /* the first to access an element of an exclusive buffer */
} flxi_kshadow;

/* An access about to happen. */
typedef struct {
    flxi_ktouch_kind kind;
    flxi_ktouch touch;
    uint32_t interval, epoch; /* barriers that its workgroup, and the grid, have passed */
    uint32_t buffer;
    uint64_t index;
} flxi_kaccess;

/* Records the access, or reports the race or the broken promise. */
flx_code flxi_krace_access(flxi_kshadow *s, const flxi_kdispatch *d, const flxi_kcode *code, const flxi_kaccess *a,
                           flx_error *err);

/* Checks buffers that promise `distinct`: those that the kernel writes, or those that it does not write. */
flx_code flxi_krace_check_distinct(const flxi_kdispatch *d, bool written, flx_error *err);

/* The id of invocation `number`: x-fastest over workgroups, then within each. */
void flxi_krace_id(const flxi_kdispatch *d, uint64_t number, uint32_t id[3]);

#endif
