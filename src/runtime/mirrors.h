/* SPDX-License-Identifier: Apache-2.0 */
/* mirrors.h: memory of a device for what is in memory of the host: constants, inputs and outputs of a program. It is
   allocated once. What a caller says has not changed is not sent again, and what it does not want yet stays. */
#ifndef FLXI_MIRRORS_H
#define FLXI_MIRRORS_H

#include "compile/program.h"

typedef struct {
    const flxi_device *device;
    flx_context *ctx;
    FLXI_VEC(flxi_device_memory) memory;
    const flxi_routine *routine;
    size_t num_in, num_out;
    const void **in;      /* by leaf; NULL for those that no step reads */
    void **out;           /* by output: its own memory, or that of an input with which it shares */
    void **own;           /* by output: its own memory */
    size_t *in_bytes;     /* by leaf … */
    size_t *out_bytes;    /* … and by output */
    const void **held;    /* by leaf: the address of the host whose elements are here; NULL: none are */
    void **left;          /* by output: the address of the host that it has yet to be copied to; NULL: none */
    size_t *becomes;      /* by output: 1 + the leaf in whose place it is put after the run; 0: in none */
    const void **last_in; /* of the last run … */
    void **last_out;
    bool is_lost; /* what was left is gone with a run that failed */
} flxi_mirrors;

void flxi_mirrors_init(flxi_mirrors *m, const flxi_device *device, flx_context *ctx);
void flxi_mirrors_free(flxi_mirrors *m, const flxi_allocator *mem);

/* Device memory that lives as long as the mirrors, with these bytes of the host (or NULL). */
flx_code flxi_mirrors_add(flxi_mirrors *m, const flxi_allocator *mem, const void *data, size_t nbytes, void **at,
                          flx_error *err);
/* For the inputs and outputs of a routine; tables are in `arena`. */
flx_code flxi_mirrors_bind(flxi_mirrors *m, const flxi_routine *l, flxi_arena *arena, flx_error *err);

/* Before a run; *moved: addresses differ from those of the run before. `kept` by leaf, or NULL: elements that are here
   already need not be sent. */
flx_code flxi_mirrors_send(flxi_mirrors *m, const flxi_device_run *r, const uint8_t *kept, const void *const *inputs,
                           void *const *outputs, bool *moved);
/* After all steps: whether outputs have yet to be put in place of inputs that their steps cannot overwrite; and
   putting them there. */
bool flxi_mirrors_has_moves(const flxi_mirrors *m);
flx_code flxi_mirrors_move(flxi_mirrors *m, const flxi_device_run *r);
/* After the run. `left` by output, or NULL: what stays here until flxi_mirrors_fetch(). */
flx_code flxi_mirrors_receive(flxi_mirrors *m, const flxi_device_run *r, const uint8_t *left, void *const *outputs);
/* After a run that failed. `is_whole`: it ended before it wrote to the memory of inputs, so these are as they were. */
void flxi_mirrors_forget(flxi_mirrors *m, bool is_whole);
flx_code flxi_mirrors_fetch(flxi_mirrors *m, const flxi_device_run *r);

#endif
