/* oob.h: the attribute `oob` of indexing ops: what happens to an index out of range (ops.md 0.7). */
#ifndef FLXI_OOB_H
#define FLXI_OOB_H

#include "ir/eval.h"

#define FLXI_OOB_WORDS "error zero clamp" /* order of flxi_oob */

#endif
