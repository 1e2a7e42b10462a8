/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_case.h: kernels with data as text, and their expected values and derivatives.

   Data is "name = 1, 2, 3/4; other = …": each name a buffer, its element type that of the kernel (of grad_x and tan_x
   that of x, at least f32). Values are numbers, fractions of numbers, and a*n for n times a. */
#ifndef KERNEL_CASE_H
#define KERNEL_CASE_H

#include "kernel/flk.h"

typedef struct {
    const char *name;
    uint32_t element;
    size_t count;
    double *values;
} kernel_data;

typedef struct {
    kernel_data at[40];
    size_t n;
} kernel_dataset;

/* Adds the data of the text. */
void kernel_data_read(kernel_dataset *set, const flx_kernel *k, const char *text);
/* Adds `count` zeros. */
kernel_data *kernel_data_zeros(kernel_dataset *set, const flx_kernel *k, const char *name, size_t count);
kernel_data *kernel_data_find(const kernel_dataset *set, const char *name);
void kernel_data_free(kernel_dataset *set);

enum {
    CASE_NO_ATOMIC = 1,    /* the gradient has no atomic */
    CASE_NO_TAPE = 2,      /* … and no tape */
    CASE_ATOMIC = 4,       /* the gradient has an atomic */
    CASE_NO_SECOND = 8,    /* not differentiated twice: kinks or an operation without a second derivative */
    CASE_F32_ONLY = 16,    /* for f32 or mixed types: no f64 version */
    CASE_INTERPRETED = 32, /* needs a grid barrier, which compiled C does not support */
};

typedef struct {
    const char *name;
    const char *text;
    const char *outputs, *inputs; /* "a,b" */
    uint32_t grid[3];             /* zeros mean 1 */
    const char *data;             /* with cotangents; those missing are ones */
    const char *values;           /* expected forward values, or NULL */
    const char *gradients;        /* expected grad_… */
    uint32_t flags;
    double tolerance; /* relative, of the listed numbers; 0: 1e-6 */
    uint64_t tape_budget;
    void (*extend)(flx_context *ctx); /* registers the extensions that the text uses, or NULL */
} kernel_case;

/* Forward values, gradients, the identity <s, jvp(v)> = <grad(s), v>, both also in f64, second order in two ways, every
   schedule with the race detector, compiled C, text and wire round trip of the gradient. */
void kernel_case_check(const kernel_case *c);

#endif
