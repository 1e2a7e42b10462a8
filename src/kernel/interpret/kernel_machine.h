/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_machine.h: the state of a dispatch in the interpreter: invocations ("lanes"), workgroups, memory.

   A lane has its position in the code and its registers, so it can stop anywhere and continue later: kernel_step.c runs
   one lane until it stops, kernel_interpret.c schedules lanes and decides what barriers and subgroups wait for. */
#ifndef FLXI_KERNEL_MACHINE_H
#define FLXI_KERNEL_MACHINE_H

#include "kernel/interpret/kernel_race.h"

typedef enum {
    KLANE_READY,
    KLANE_AT_SUBGROUP, /* pc is at the instruction, its operands are in their registers */
    KLANE_AT_BARRIER,
    KLANE_AT_GRID_BARRIER,
    KLANE_DONE
} flxi_klane_state;

typedef struct {
    uint32_t id[3];
    uint64_t number;       /* linear id */
    uint32_t interval;     /* barriers passed */
    unsigned char *memory; /* workgroup buffers, one after the other */
    flxi_kshadow *shadows; /* of their elements, if races are detected */
} flxi_kgroup;

typedef struct {
    uint64_t *regs;
    unsigned char *memory; /* private buffers, one after the other */
    flxi_kgroup *group;
    uint32_t pc;
    uint32_t local; /* linear id in the workgroup */
    flxi_klane_state state;
} flxi_klane;

typedef enum { KSPACE_BOUND, KSPACE_GROUP, KSPACE_LANE } flxi_kspace;

/* Where a buffer is stored. */
typedef struct {
    flxi_kspace space;
    unsigned char *data;   /* KSPACE_BOUND */
    size_t offset;         /* in the memory of its group or lane */
    uint64_t count;        /* elements that an index can reach */
    size_t size;           /* bytes */
    flxi_kshadow *shadows; /* KSPACE_BOUND, if races are detected */
    size_t shadow_offset;  /* KSPACE_GROUP: in the group's shadows */
} flxi_kstore;

typedef struct {
    const flxi_kdispatch *d;
    flxi_kcode code;
    flxi_kstore *stores;     /* by buffer */
    int64_t steps_left;      /* below 0: the budget is used up */
    uint32_t epoch;          /* grid barriers passed */
    const flxi_ks *indirect; /* the statement that requested another stage, or NULL */
    flx_error *err;
} flxi_kmachine;

static inline unsigned char *flxi_kstore_at(const flxi_kstore *s, const flxi_klane *l)
{
    if (s->space == KSPACE_BOUND)
        return s->data;
    return (s->space == KSPACE_GROUP ? l->group->memory : l->memory) + s->offset;
}

/* Runs the lane, which is ready, until it waits or ends; with KI_TURN in the code for at most `turns` statements. */
flx_code flxi_kmachine_step(flxi_kmachine *m, flxi_klane *l, uint32_t turns);

/* A failure at the current instruction of the lane: adds the location. Returns the code. */
flx_code flxi_kmachine_fail(flxi_kmachine *m, const flxi_klane *l, const char *word, const char *hint, const char *fmt,
                            ...) FLX_PRINTF(5, 6);

#endif
