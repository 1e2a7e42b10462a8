/* SPDX-License-Identifier: Apache-2.0 */
/* pjrt_callback.h: calls from a program back into the process that runs it, such as jax.pure_callback. */
#ifndef FLXI_PJRT_CALLBACK_H
#define FLXI_PJRT_CALLBACK_H

#include "pjrt/pjrt.h"

/* An operand or result in memory, dense and row-major. */
typedef struct {
    void *data;
    const int64_t *dims;
    int32_t dtype; /* a flx_dtype */
    int32_t rank;
} pjrt_view;

/* Calls function `id` of the host. Not 0: it failed, and `error` has a text of at most `size` bytes. */
typedef int (*pjrt_callback)(uint64_t id, size_t num_inputs, const pjrt_view *inputs, size_t num_results,
                             const pjrt_view *results, char *error, size_t size);

/* Takes a part of a text. */
typedef void (*pjrt_writer)(const char *text, size_t size);

/* An entry in the table's chain of extensions: JAX skips types that it does not know, the Python package of the plugin
   finds it there. */
enum { PJRT_EXTENSION_CALLBACK = 0x466c78 };

typedef struct {
    PJRT_EXTENSION_HEAD;
    void (*set_callback)(pjrt_callback function);
    void (*show_programs)(int32_t change); /* 1 before asking for an executable's program, −1 afterwards */
    /* Writes the text of the graph that each device has of a program for several (pjrt_text.c), given as the bytes of a
       serialised executable; 1: it cannot, and the text says why. */
    int (*write_process)(const char *bytes, size_t size, pjrt_writer write);
} pjrt_callback_extension;

extern pjrt_callback_extension flxi_pjrt_callback_extension;

int flxi_pjrt_write_process(const char *bytes, size_t size, pjrt_writer write);

/* Whether someone asks for the program of an executable. */
bool flxi_pjrt_shows_programs(void);

/* What the last callback of this thread failed with, NULL when none did; and forgetting it. */
pjrt_error *flxi_pjrt_callback_error(void);
void flxi_pjrt_forget_callback_error(void);

#endif
