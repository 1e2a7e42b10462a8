/* SPDX-License-Identifier: Apache-2.0 */
/* gamma_side.h: first attempts of gamma draws (numeric/counter_rng.h), several side by side in vectors. */
#ifndef FLXI_GAMMA_SIDE_H
#define FLXI_GAMMA_SIDE_H

#include "backend/cpu/routes/random_blocks.h"

#include <stddef.h>

/* The numbers d and c of the shapes, and the words of two blocks of each element; shapes are at least 1. x[j] receives
   what flxi_rng_gamma_attempt() computes with a relative error below FLXI_GAMMA_ERROR, or NaN where the attempt may be
   refused or the error larger. */
#define FLXI_GAMMA_ERROR 0x1p-40
typedef void (*flxi_gammas_fn)(const double d[FLXI_BLOCKS_SIDE], const double c[FLXI_BLOCKS_SIDE],
                               uint32_t normal[FLXI_BLOCK_WORDS][FLXI_BLOCKS_SIDE],
                               uint32_t uniform[FLXI_BLOCK_WORDS][FLXI_BLOCKS_SIDE], double x[FLXI_BLOCKS_SIDE]);

/* NULL where this machine has no instructions that make it worth it. */
flxi_gammas_fn flxi_gamma_side(void);

#endif
