/* SPDX-License-Identifier: Apache-2.0 */
/* own_attrs.h: attributes outside any schema: those of operations that a program registers. They are kept as text,

     alpha=0.5, axes=[0, 1], mode="wrap"

   sorted by name and with one spelling for each value, so that equal attributes are equal texts: the code that copies,
   compares, hashes and stores strings works for them too. A value is a number, a string, true or false, or a list of
   numbers. */
#ifndef FLXI_OWN_ATTRS_H
#define FLXI_OWN_ATTRS_H

#include "base/strbuf.h"
#include "graph/op/op.h"

#include <fluxion/graph.h>

/* The text of some attributes. `given` is sorted in place. ATTRIBUTE: a name appears twice, or a value is of an
   unsupported kind. */
flx_code flxi_own_attrs_write(const char *op, flx_attr *given, size_t n, flxi_strbuf *out, flx_error *err);

/* The attributes of a text, in `arena`; ATTRIBUTE when it was not made by the function above. */
flx_code flxi_own_attrs_read(const char *op, const char *text, flxi_arena *arena, flx_attr **out, size_t *n,
                             flx_error *err);

#endif
