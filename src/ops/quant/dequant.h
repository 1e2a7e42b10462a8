/* SPDX-License-Identifier: Apache-2.0 */
/* dequant.h: the schemes of dequant_matmul, for backends that compute it in a way of their own. */
#ifndef FLXI_DEQUANT_H
#define FLXI_DEQUANT_H

enum { /* order of the words */
       SCHEME_INT8_BLOCK,
       SCHEME_INT8_BLOCK_ASYM,
       SCHEME_INT4_BLOCK,
       SCHEME_FP8_E4M3,
       SCHEME_FP8_E5M2,
       SCHEME_NVFP4_BLOCK,
       SCHEME_GGUF /* the first of them: FLXI_GGUF_… follow */
};

#endif
