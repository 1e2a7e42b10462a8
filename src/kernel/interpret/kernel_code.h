/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_code.h: a program as linear code over registers, which the interpreter runs.

   Every variable and temporary has a register, a uint64_t with the bits of kernel_scalar.h; registers are reused when
   scopes end. Literals, lengths, ids and the subgroup size also have registers, which are set before the code runs and
   never written by it. Calls are inlined. Each instruction records its statement, for messages. */
#ifndef FLXI_KERNEL_CODE_H
#define FLXI_KERNEL_CODE_H

#include "kernel/interpret/kernel_run.h"
#include "kernel/program/kernel_path.h"

typedef enum {
    KI_END,           /* the invocation returns */
    KI_JUMP,          /* to instruction d */
    KI_UNLESS,        /* a is 0: to instruction d */
    KI_ENTER,         /* a loop from a to b: to = a; no iteration: to instruction d */
    KI_NEXT,          /* to = to + 1; below b: to instruction d */
    KI_MOVE,          /* to = a */
    KI_UNARY,         /* to = op(a) */
    KI_BINARY,        /* to = op(a, b) */
    KI_CHECKED_UNARY, /* likewise, but faults end the run */
    KI_CHECKED_BINARY,
    KI_SELECT,       /* to = a ? b : c */
    KI_FMA,          /* to = a * b + c */
    KI_CAST,         /* to = a, from type `op` */
    KI_LOAD,         /* to = buffer d [a] */
    KI_STORE,        /* buffer d [a] = b */
    KI_ATOMIC,       /* to = buffer d [a], op with b, expected c */
    KI_WATCHED_LOAD, /* likewise, and reported to the race detector */
    KI_WATCHED_STORE,
    KI_WATCHED_ATOMIC,
    KI_SUBGROUP_ADD,     /* to = sum of a; c: the innermost loop around it */
    KI_SUBGROUP_SHUFFLE, /* to = a of lane b */
    KI_SUBGROUP_BALLOT,
    KI_BARRIER,
    KI_GRID_BARRIER,
    KI_TURN,       /* others may run: between statements, where the schedule asks for it */
    KI_COPY_START, /* of copy d: its registers starting at `to` become 1, a, b */
    KI_COPY_WAIT,  /* for copy d */
    KI_INDIRECT,
    KI_TRAP, /* a: address */
    KI_RESUME,
    KI_COLLECTIVE,
    KI_OPAQUE, /* opaque part c: to = its value for the operands starting at a, of expression d; d = 0: a statement */
} flxi_kinstr_op;

typedef struct {
    uint8_t code; /* a flxi_kinstr_op */
    uint8_t op;   /* flxi_kunary, flxi_kbinary, flx_kernel_atomic; a cast's source type */
    uint8_t type; /* of the operands; a cast's target */
    uint8_t element;
    uint16_t cost; /* nodes evaluated since the last instruction */
    uint32_t to, a, b, c, d;
    uint32_t statement; /* number in flxi_kcode.statements */
} flxi_kinstr;

/* A loop, to compare the progress of two invocations. Number 0 means none. */
typedef struct {
    uint32_t outer;      /* the loop around it */
    uint32_t depth;      /* 1 for an outermost loop */
    uint32_t var, begin; /* registers: its variable and the first value of that */
} flxi_kcode_loop;

/* An async copy: a start, and what the wait for its tag needs. */
typedef struct {
    const flxi_ks *start;
    uint32_t registers; /* three: whether it is outstanding, offset, bytes */
    uint32_t statement;
} flxi_kcode_copy;

typedef struct {
    uint32_t reg;
    uint64_t bits;
} flxi_kcode_constant;

/* Registers that the interpreter sets when an invocation starts. */
enum { KREG_INVOCATION = 0, KREG_WORKGROUP = 3, KREG_LOCAL = 6, KREG_LANE = 9, KREG_IDS = 10 };

typedef struct {
    const flx_kernel *kernel;
    FLXI_VEC(flxi_kinstr) instrs;
    FLXI_VEC(const flxi_ks *) statements;
    FLXI_VEC(flxi_kcode_loop) loops;
    FLXI_VEC(flxi_kcode_copy) copies;
    FLXI_VEC(flxi_kcode_constant) constants;
    uint32_t num_registers;
    bool has_barrier, has_grid_barrier, has_subgroup;
} flxi_kcode;

enum {
    KCODE_TURNS = 1,   /* with KI_TURN before each statement */
    KCODE_CHECKED = 2, /* with checked arithmetic */
    KCODE_WATCHED = 4, /* with watched accesses to memory that can race */
};

/* Translates the kernel of a dispatch, which must be valid. flxi_kcode_free() in any case. */
flx_code flxi_kcode_make(flxi_kcode *code, const flxi_kdispatch *d, unsigned flags, flx_error *err);
void flxi_kcode_free(flxi_kcode *code);

/* Whether the detector must see accesses to the buffer: one invocation may change what another one accesses. */
bool flxi_kcode_is_watched(const flxi_kbuffer *b);

/* "body/2/else/0": the path of statement `s` in the body of `k`. */
const char *flxi_kcode_path(const flx_kernel *k, const flxi_ks *s, char *buffer, size_t size);

#endif
