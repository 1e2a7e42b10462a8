/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_turn.c: see gemm_turn.h. Masks of the exchanges are written out: lane l of LOW_d is lane l of a, or lane l - d
   of b where bit d of l is set; HIGH_d has the rest. */
#include "backend/cpu/gemm/gemm_turn.h"

#if defined(__x86_64__)

typedef uint32_t words8 __attribute__((vector_size(32)));
typedef uint32_t words16 __attribute__((vector_size(64)));

#define V words8
#define EDGE 8
#define FN(name) avx2_##name
#define TARGET __attribute__((target("avx2")))
#define EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define LOW_4(a, b) __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11)
#define HIGH_4(a, b) __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15)
#define LOW_2(a, b) __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13)
#define HIGH_2(a, b) __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15)
#define LOW_1(a, b) __builtin_shufflevector(a, b, 0, 8, 2, 10, 4, 12, 6, 14)
#define HIGH_1(a, b) __builtin_shufflevector(a, b, 1, 9, 3, 11, 5, 13, 7, 15)
#define PAIRS_4(X) X(0, 4, 4) X(1, 5, 4) X(2, 6, 4) X(3, 7, 4)
#define PAIRS_2(X) X(0, 2, 2) X(1, 3, 2) X(4, 6, 2) X(5, 7, 2)
#define PAIRS_1(X) X(0, 1, 1) X(2, 3, 1) X(4, 5, 1) X(6, 7, 1)
#include "backend/cpu/gemm/gemm_turn.inc"
#undef LOW_4
#undef HIGH_4
#undef PAIRS_4
#undef LOW_2
#undef HIGH_2
#undef PAIRS_2
#undef LOW_1
#undef HIGH_1
#undef PAIRS_1

#define V words16
#define EDGE 16
#define FN(name) avx512_##name
#define TARGET __attribute__((target("avx512f")))
#define EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#define LOW_8(a, b) __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23)
#define HIGH_8(a, b) __builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31)
#define LOW_4(a, b) __builtin_shufflevector(a, b, 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27)
#define HIGH_4(a, b) __builtin_shufflevector(a, b, 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31)
#define LOW_2(a, b) __builtin_shufflevector(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29)
#define HIGH_2(a, b) __builtin_shufflevector(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31)
#define LOW_1(a, b) __builtin_shufflevector(a, b, 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30)
#define HIGH_1(a, b) __builtin_shufflevector(a, b, 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31)
#define PAIRS_8(X) X(0, 8, 8) X(1, 9, 8) X(2, 10, 8) X(3, 11, 8) X(4, 12, 8) X(5, 13, 8) X(6, 14, 8) X(7, 15, 8)
#define PAIRS_4(X) X(0, 4, 4) X(1, 5, 4) X(2, 6, 4) X(3, 7, 4) X(8, 12, 4) X(9, 13, 4) X(10, 14, 4) X(11, 15, 4)
#define PAIRS_2(X) X(0, 2, 2) X(1, 3, 2) X(4, 6, 2) X(5, 7, 2) X(8, 10, 2) X(9, 11, 2) X(12, 14, 2) X(13, 15, 2)
#define PAIRS_1(X) X(0, 1, 1) X(2, 3, 1) X(4, 5, 1) X(6, 7, 1) X(8, 9, 1) X(10, 11, 1) X(12, 13, 1) X(14, 15, 1)
#include "backend/cpu/gemm/gemm_turn.inc"

bool flxi_turn_words(flxi_isa isa, const void *from, void *to, int64_t pitch, int64_t lines, int64_t line_step,
                     int64_t depths)
{
    bool any = isa == FLXI_ISA_BEST;
    if (lines >= 16 && depths >= 16 && (any || isa == FLXI_ISA_AVX512) && flxi_isa_available(FLXI_ISA_AVX512))
        avx512_turn(from, to, pitch, lines, line_step, depths);
    else if (lines >= 8 && depths >= 8 && isa != FLXI_ISA_GENERIC && flxi_isa_available(FLXI_ISA_AVX2))
        avx2_turn(from, to, pitch, lines, line_step, depths);
    else
        return false;
    return true;
}

#else

bool flxi_turn_words(flxi_isa isa, const void *from, void *to, int64_t pitch, int64_t lines, int64_t line_step,
                     int64_t depths)
{
    (void)isa, (void)from, (void)to, (void)pitch, (void)lines, (void)line_step, (void)depths;
    return false;
}

#endif

void flxi_turn_block(int32_t dtype, flxi_isa isa, const flxi_gemm_view *from, void *to, int64_t pitch)
{
    bool is_turned = dtype == FLX_F32 && from->depth_step == 1 && from->line_step != 1 &&
                     flxi_turn_words(isa, from->at, to, pitch, from->lines, from->line_step, from->depths);
    if (!is_turned)
        flxi_gemm_pack_block(dtype, from, to, pitch);
}
