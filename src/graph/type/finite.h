/* SPDX-License-Identifier: Apache-2.0 */
/* finite.h: search for infinities and NaNs. */
#ifndef FLXI_FINITE_H
#define FLXI_FINITE_H

#include "graph/type/type.h"

/* The first element that is infinite or NaN; -1 when there is none. Integer dtypes have no such values. */
int64_t flxi_first_not_finite(int32_t dtype, const void *data, int64_t count);

/* NUMERIC when there is one, with the name of the node and the element's index. The type is static. */
flx_code flxi_check_finite(const flx_type *t, const void *data, const char *name, flx_error *err);

#endif
