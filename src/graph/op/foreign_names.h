/* SPDX-License-Identifier: Apache-2.0 */
/* foreign_names.h: hints for names that other frameworks use. */
#ifndef FLXI_FOREIGN_NAMES_H
#define FLXI_FOREIGN_NAMES_H

#include "graph/op/op.h"

/* What to write instead of an op that does not exist, in `hint`; false when the name is not known elsewhere either. */
bool flxi_foreign_hint(const char *name, size_t n, char *hint, size_t size);

/* What other frameworks mean by the name of one of our ops, where that is something else; NULL: the same. */
const char *flxi_foreign_meaning(const char *op);

/* The dtype that is called `name` elsewhere; NULL when it is not known. */
const char *flxi_foreign_dtype(const char *name, size_t n);

/* What the op calls an attribute that other frameworks call `key`; NULL when it has none of that meaning. */
const char *flxi_foreign_attr(const flxi_op *op, const char *key);

#endif
