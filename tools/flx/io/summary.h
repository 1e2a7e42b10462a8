/* SPDX-License-Identifier: Apache-2.0 */
/* summary.h: a tensor in a few words. */
#ifndef FLX_SUMMARY_H
#define FLX_SUMMARY_H

#include "io/json_writer.h"

#include <fluxion/tensor.h>
#include <stdio.h>

/* A type as text, allocated; NULL when memory is exhausted. */
char *type_text(flx_context *ctx, const flx_type *type);

/* Members "dtype", "shape" (symbolic dimensions are strings) and "type". */
void type_json(json *j, flx_context *ctx, const flx_type *type);

/* One element: floats with six digits, integers and bools exactly, complex numbers as `re+imi`. */
void element_text(FILE *f, const flx_tensor *t, int64_t i);

/* The first elements, separated by commas; followed by `...` when there are more than `limit`. */
void elements_text(FILE *f, const flx_tensor *t, int64_t limit);

/* `NAME: TYPE = VALUE` for one element; otherwise the type, a line of statistics and the first elements, or
   all of them, with a line for each row. */
void summary_text(flx_context *ctx, const char *name, const flx_tensor *t, bool has_all);

/* The same as members of an object. */
void summary_json(json *j, flx_context *ctx, const char *name, const flx_tensor *t, bool has_all);

#endif
