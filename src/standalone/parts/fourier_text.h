/* SPDX-License-Identifier: Apache-2.0 */
/* fourier_text.h: Fourier transforms as functions of a C file: passes, tables and the bins of real signals, each with
   the arithmetic of numeric/fourier.h, so that the bits are the same. */
#ifndef FLXI_FOURIER_TEXT_H
#define FLXI_FOURIER_TEXT_H

#include "numeric/fourier.h"
#include "standalone/parts/parts.h"

/* A signal as text: parts at re and im; or pairs at re, where im is unused: swapped pairs have the imaginary part
   first. */
typedef struct {
    flxi_fourier_form form;
    const char *re, *im;
} flxi_sa_signal;

/* Real and imaginary parts of a buffer are that many numbers further apart than its length: those that a pass reads at
   the same time are then in different sets of the cache. */
enum { FLXI_SA_APART = 16 };

/* Statements that transform `from` to `to`, times `scale` (text, or NULL for 1), through two buffers of 2 (inner +
   FLXI_SA_APART) numbers each from x and y on. `table` is the address of the plan's table. */
void flxi_sa_transform(flxi_sa_writer *w, const flxi_fourier *plan, const char *type, const char *table,
                       flxi_sa_signal from, flxi_sa_signal to, const char *scale);

/* One of the functions below for numbers of `type`: its name. */
typedef enum {
    SA_MULTIPLY,        /* (re, im, z, n): times factors: real parts, then imaginary parts */
    SA_BINS,            /* (re, im, root, low, lowi, high, highi, h, scale): bins 1 to h - 1 of a real signal from the
                           transform of its pairs; `low` is bin 0, `high` bin h */
    SA_BINS_AS_PAIRS,   /* the same for pairs */
    SA_SIGNAL,          /* (xr, xi, root, low, lowi, top, topi, h): and back: `low` is number 0, `top` number h */
    SA_SIGNAL_OF_PAIRS, /* the same for pairs */
    SA_ROOTS            /* (n, count, z): exp(-2πi k/n) for k < count: real parts, then imaginary parts */
} flxi_sa_fourier_function;
const char *flxi_sa_fourier(flxi_sa_writer *w, flxi_sa_fourier_function which, const char *type);

/* ---- Tables: factors of the passes; of a chirp its filter and itself; then powers of exp(-2πi/roots_of) ---- */

typedef struct {
    flxi_fourier plan;
    int64_t roots_of, roots;
} flxi_sa_fourier_table;

int64_t flxi_sa_fourier_numbers(const flxi_sa_fourier_table *t);
/* Where the chirp's filter, or the powers, begin. */
int64_t flxi_sa_fourier_passes_end(const flxi_fourier *plan);
int64_t flxi_sa_fourier_roots_at(const flxi_sa_fourier_table *t);
/* The name of a constant that has it. */
const char *flxi_sa_fourier_constant(flxi_sa_writer *w, const flxi_sa_fourier_table *t, bool is_wide);
/* Statements that fill it; not for chirps. */
void flxi_sa_fourier_fill(flxi_sa_writer *w, const flxi_sa_fourier_table *t, const char *type);

#endif
