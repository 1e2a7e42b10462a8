/* SPDX-License-Identifier: Apache-2.0 */
/* oob.h: the attribute `oob` of indexing ops: what happens to an index out of range (docs/numerics.md, "Indices out of
   range"). */
#ifndef FLXI_OOB_H
#define FLXI_OOB_H

#include "graph/op/eval.h"

#define FLXI_OOB_WORDS "error zero clamp" /* order of flxi_oob */

/* The attribute as builders take it. */
static inline const char *flxi_oob_word(int64_t oob)
{
    return oob == OOB_CLAMP ? "clamp" : oob == OOB_ZERO ? "zero" : "error";
}

#endif
