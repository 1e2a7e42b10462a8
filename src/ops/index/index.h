/* SPDX-License-Identifier: Apache-2.0 */
/* index.h: functions of index.c for other files. */
#ifndef FLXI_INDEX_H
#define FLXI_INDEX_H

#include "graph/op/site.h"

/* The transpose of gather along `axis` of a table with n rows there: rows that were read several times are summed. */
flx_val flxi_ungather(flxi_site *s, flx_val dy, flx_val idx, int64_t axis, flx_dim n, int64_t oob);

#endif
