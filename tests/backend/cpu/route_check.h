/* SPDX-License-Identifier: Apache-2.0 */
/* route_check.h: a node computed by its route and by its definition. */
#ifndef FLX_ROUTE_CHECK_H
#define FLX_ROUTE_CHECK_H

#include "backend/cpu/routes/routes.h"

#include <fluxion/fluxion.h>

/* g is a graph of one op on its inputs, all static; `in` has a value for each. Runs the op's route `name` (NULL: the
   first that applies) with 1, 2 and 3 threads, which must agree to the bit, and compares with the definition: to the
   bit, or for sums of floats within the bound for sums of that many terms. False when no route applies; then *why is
   the reason. */
bool route_check(const flx_graph *g, const flx_tensor *const *in, const char *name, const char **why);

/* The same for one line of text: op and types of operands as in the samples ("conv", "f32[1, 2, 5], f32[3, 2, 2]",
   "stride=[2]"), random values from -2 to 2, indices from `low` to `high`. */
void route_check_text(const char *op, const char *operands, const char *attrs, double low, double high);

/* The same for the route of that name, which must apply; NULL: the first that does. */
void route_check_text_by(const char *route, const char *op, const char *operands, const char *attrs, double low,
                         double high);

#endif
