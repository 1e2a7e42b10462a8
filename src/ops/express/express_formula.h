/* SPDX-License-Identifier: Apache-2.0 */
/* express_formula.h: express rules of pointwise ops as one-line formulas.

   F1 and F2 apply an op of kernels, NUM is a number of the type of its first argument, PICK selects and HOLD keeps a
   value that is used more than once in a variable, so that it is computed once. The operands' elements are already
   held. */
#ifndef FLXI_KERNEL_FORMULA_H
#define FLXI_KERNEL_FORMULA_H

#include "ops/express/express.h"

#define F1(op, x) flxi_k1(e, KUN_##op, (x))
#define F2(op, x, y) flxi_k2(e, KBIN_##op, (x), (y))
#define NUM(like, value) flxi_kc(e, (like), (value))
#define PICK(c, x, y) flxi_kb_select(e->k, (c), (x), (y))
#define HOLD(x) flxi_khold(e, (x))

/* A formula of all operands x[0], x[1] … as values of any dtype. */
#define ELEMENT_KERNEL(name, value)                                      \
    static flxi_kval element_##name(flxi_express *e, const flxi_kval *x) \
    {                                                                    \
        (void)e;                                                         \
        return (value);                                                  \
    }

/* A formula of the one real operand x, or of the two real operands x and y. */
#define ELEMENT_KERNEL_1(name, value)                                           \
    static flxi_kval element_##name(flxi_express *e, const flxi_kval *operands) \
    {                                                                           \
        uint32_t x = operands[0].re;                                            \
        return flxi_kreal(value);                                               \
    }
#define ELEMENT_KERNEL_2(name, value)                                           \
    static flxi_kval element_##name(flxi_express *e, const flxi_kval *operands) \
    {                                                                           \
        uint32_t x = operands[0].re;                                            \
        uint32_t y = operands[1].re;                                            \
        return flxi_kreal(value);                                               \
    }

#endif
