/* SPDX-License-Identifier: Apache-2.0 */
/* initialisation.h: how parameters are initialised, as their graph says. */
#ifndef FLXI_INITIALISATION_H
#define FLXI_INITIALISATION_H

#include "graph/graph.h"

/* The kind of this name, 0 (none) where there is no such kind; and the other way round. */
int32_t flxi_init_find(const char *s, size_t n);
const char *flxi_init_name(int32_t kind, size_t *n);

/* Whether a tensor of this type can be initialised so. Brings *init into its normal form: a scale that makes no
   difference is 1. */
flx_code flxi_init_check(const flx_type *type, flx_init *init, flx_error *err);

/* The same numbers by a kind that does not look at the shape, where there is one and the type is static: ones become a
   constant, and what depends on the number of inputs and outputs becomes uniform or normal. */
flx_init flxi_init_settled(const flx_type *type, flx_init init);

/* What is usual for a parameter with this name (or NULL) and type. */
flx_init flxi_init_usual(const char *name, const flx_type *type);

#endif
