/* SPDX-License-Identifier: Apache-2.0 */
/* element.h: one-line element functions of pointwise ops. The value is a formula in the operands x[0], x[1] …; integer
   formulas may use the width and sign of their type, t. */
#ifndef FLXI_ELEMENT_H
#define FLXI_ELEMENT_H

#include "ops/rule/pointwise.h"

#define ELEMENT_REAL(name, value)                      \
    static double name(const double *x, const void *a) \
    {                                                  \
        (void)a;                                       \
        return (value);                                \
    }

#define ELEMENT_COMPLEX(name, value)                                     \
    static double _Complex name(const double _Complex *x, const void *a) \
    {                                                                    \
        (void)a;                                                         \
        return (value);                                                  \
    }

#define ELEMENT_INT(name, value)                                  \
    static int64_t name(const int64_t *x, const flxi_int_type *t) \
    {                                                             \
        (void)t;                                                  \
        return (value);                                           \
    }

#endif
