/* SPDX-License-Identifier: Apache-2.0 */
/* partial.h: one-line derivatives of unary ops. The formula builds dy/dx from the operand x and the result y in the
   graph g; K(v) is the constant v in their dtype. */
#ifndef FLXI_PARTIAL_H
#define FLXI_PARTIAL_H

#include "graph/op/site.h"

#define PARTIAL(op, formula)                              \
    static flx_val partial_##op(flxi_site *s, uint32_t i) \
    {                                                     \
        flx_graph *g = s->g;                              \
        flx_val x = s->x[0];                              \
        flx_val y = s->y[0];                              \
        (void)i, (void)g, (void)x, (void)y;               \
        return (formula);                                 \
    }
#define K(value) flxi_number(s, s->x[0], (value))

#endif
