/* kernel_guard.h: which accesses of a kernel are in bounds for sure, so that no guard is emitted for them. */
#ifndef FLXI_KERNEL_GUARD_H
#define FLXI_KERNEL_GUARD_H

#include "kernel/kernel.h"

/* Known where it was found: `index` is below the length of `buffer`, or, if that is 0, below `end`. */
typedef struct {
    uint32_t index, buffer;
    uint64_t end;
} flxi_kguard_fact;

typedef struct {
    const flx_kernel *k;
    uint8_t *stable;    /* by expression: the same value wherever it is computed while its variables are in scope */
    uint32_t *values;   /* by variable that is never assigned: the expression of its let, if that is stable; else 0 */
    uint64_t *largest;  /* by expression of an unsigned type: no value is larger */
    uint8_t *assigned;  /* by variable: after its let */
    uint32_t *uses;     /* by variable: the expression that reads it, or 0 */
    FLXI_VEC(flxi_kguard_fact) facts;
    bool failed; /* memory is exhausted: facts are missing, which is safe */
} flxi_kguard;

/* Of a valid program; memory is from the arena but for the facts. */
flx_code flxi_kguard_find(flxi_kguard *b, const flx_kernel *k, flxi_arena *arena, flx_error *err);
void flxi_kguard_free(flxi_kguard *b);

/* Facts that hold while `condition` is true (or false): add them on entering a body, and go back to the number of facts
   there were when leaving it. */
void flxi_kguard_assume(flxi_kguard *b, uint32_t condition, bool is_true);
/* Inside a loop. */
void flxi_kguard_assume_loop(flxi_kguard *b, const flxi_ks *loop);

bool flxi_kguard_hold(const flxi_kguard *b, uint32_t buffer, uint32_t index);

#endif
