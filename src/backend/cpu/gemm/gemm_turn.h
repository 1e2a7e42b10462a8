/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_turn.h: blocks of 32-bit words transposed in registers. Images with channels first meet tiles that want channels
   last in every convolution, so this is done for each element that is read or written; products pack transposed
   matrices with it. */
#ifndef FLXI_GEMM_TURN_H
#define FLXI_GEMM_TURN_H

#include "backend/cpu/gemm/gemm_engine.h"

/* As flxi_gemm_pack_block(): element (line, depth) goes to[depth * pitch + line], converted to the type that products
   are computed in. Fast where the elements of a line are neighbours. */
void flxi_turn_block(int32_t dtype, flxi_isa isa, const flxi_gemm_view *from, void *to, int64_t pitch);

/* The same for words, where the elements of a line are neighbours; false: nothing was done, the block is too small or
   the machine has no such vectors. */
bool flxi_turn_words(flxi_isa isa, const void *from, void *to, int64_t pitch, int64_t lines, int64_t line_step,
                     int64_t depths);

#endif
