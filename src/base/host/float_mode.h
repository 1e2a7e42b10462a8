/* SPDX-License-Identifier: Apache-2.0 */
/* float_mode.h: how the current thread treats subnormal numbers.

   The mode is a control word of the processor that belongs to the thread. Only x86 is supported; elsewhere there is one
   mode, 0, and setting it does nothing. */
#ifndef FLXI_FLOAT_MODE_H
#define FLXI_FLOAT_MODE_H

#include <stdbool.h>
#include <stdint.h>

#if defined(__x86_64__) || (defined(__i386__) && defined(__SSE__))
#define FLXI_FLUSH_EXISTS 1
#else
#define FLXI_FLUSH_EXISTS 0
#endif

enum {
    FLXI_FLUSH_BITS = 0x8040, /* subnormal results become zero, and so do operands */
    FLXI_EVENT_BITS = 0x3f    /* exception flags: not part of the mode */
};

static inline uint32_t flxi_float_mode(void)
{
#if FLXI_FLUSH_EXISTS
    return __builtin_ia32_stmxcsr() & ~(uint32_t)FLXI_EVENT_BITS;
#else
    return 0;
#endif
}

/* Changing the mode drains the processor's pipeline, so nothing is done if it is already set. */
static inline void flxi_set_float_mode(uint32_t mode)
{
#if FLXI_FLUSH_EXISTS
    uint32_t now = __builtin_ia32_stmxcsr();
    if ((now & ~(uint32_t)FLXI_EVENT_BITS) != mode)
        __builtin_ia32_ldmxcsr(mode | (now & FLXI_EVENT_BITS));
#else
    (void)mode;
#endif
}

static inline uint32_t flxi_flushing(uint32_t mode)
{
    return FLXI_FLUSH_EXISTS ? mode | FLXI_FLUSH_BITS : mode;
}

#endif
