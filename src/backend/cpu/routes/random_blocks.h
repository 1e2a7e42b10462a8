/* SPDX-License-Identifier: Apache-2.0 */
/* random_blocks.h: blocks of random words (numeric/counter_rng.h), several side by side in vectors. */
#ifndef FLXI_RANDOM_BLOCKS_H
#define FLXI_RANDOM_BLOCKS_H

#include "backend/cpu/gemm/gemm.h"
#include "numeric/counter_rng.h"

enum { FLXI_BLOCKS_SIDE = 16, FLXI_BLOCK_WORDS = 4 };

/* Word w of blocks first … first + 15, counted from the counter of g, goes to words[w]; Threefry has two words, and the
   others are not defined. */
typedef void (*flxi_blocks_fn)(const flxi_rng *g, uint64_t first, uint32_t words[FLXI_BLOCK_WORDS][FLXI_BLOCKS_SIDE]);

/* The function of this machine; and the one for an instruction set, which the machine must have; not BEST. */
flxi_blocks_fn flxi_random_blocks(void);
flxi_blocks_fn flxi_random_blocks_for(flxi_isa isa);

/* The words of Philox blocks first …, one block after the other; `blocks` is a multiple of FLXI_BLOCKS_SIDE. */
void flxi_philox_words(const flxi_rng *g, uint64_t first, int64_t blocks, uint32_t *words);

#endif
