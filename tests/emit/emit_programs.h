/* SPDX-License-Identifier: Apache-2.0 */
/* emit_programs.h: kernels that exercise control flow, memory and synchronisation, for every backend. */
#ifndef FLX_TEST_EMIT_PROGRAMS_H
#define FLX_TEST_EMIT_PROGRAMS_H

#include "emit/device_pair.h"

enum {
    PROGRAM_DIVERGENT = 1, /* subgroup ops in divergent control flow */
    PROGRAM_TRAPS = 2,     /* the run must fail */
    PROGRAM_F64 = 4,
    PROGRAM_NEEDS_32 = 8, /* subgroups of 32 only */
    PROGRAM_ORDER = 16,   /* the result depends on the order of invocations: on the CPU it equals the interpreter's */
    PROGRAM_SERIAL = 32,  /* collectives, indirect dispatch: for one device */
};

typedef struct {
    const char *text;
    unsigned flags;
    uint32_t groups[3]; /* 0: 1 */
    size_t count;       /* of buffers with open count; 0: 64 */
    uint32_t max_index; /* u32 elements are below it; 0: any */
} emit_program;

extern const emit_program emit_programs[];
extern const size_t num_emit_programs;

/* Runs one on the device and on the interpreter, with subgroups of several sizes where it uses them. */
void emit_program_check(const emit_program *p, const flx_kernel *k, const char *device, uint32_t max_ulp);

#endif
