/* SPDX-License-Identifier: Apache-2.0 */
/* opcode.h: a number for each op, for the few files that must know an op by name. It changes with every new row, so
   only files that name an op include it; all others reach an op through its row (graph/op/op.h). */
#ifndef FLXI_OPCODE_H
#define FLXI_OPCODE_H

#include "graph/op/op.h"

enum {
    OP_FIRST = OP_NONE, /* zero is never a real op */
#define OP(name, ...) OP_##name,
#include "ops/ops.def"
    OP_COUNT
};

#endif
