/* SPDX-License-Identifier: Apache-2.0 */
/* finite.h: looking for infinities and NaNs. */
#ifndef FLXI_FINITE_H
#define FLXI_FINITE_H

#include "graph/type/type.h"

/* The first element that is infinite or no number; -1 when there is none. Dtypes that have no such values have none. */
int64_t flxi_first_not_finite(int32_t dtype, const void *data, int64_t count);

/* NUMERIC when there is one, naming op, label (may be NULL) and the element's place. The type is static. */
flx_code flxi_check_finite(const flx_type *t, const void *data, const char *op, const char *label, flx_error *err);

#endif
