/* SPDX-License-Identifier: Apache-2.0 */
/* spec.h: the SPEC of --in: a file, or a rule that fills a tensor. */
#ifndef FLX_SPEC_H
#define FLX_SPEC_H

#include <fluxion/tensor.h>
#include <stdbool.h>

/* Whether the SPEC brings its own shape: it names a file, or is a list of numbers. */
bool spec_has_shape(const char *spec);

/* Reads the tensor and converts it to the dtype of the input called `input` (FLX_DTYPE_NONE: it stays as it is). Its
   shape is not looked at. */
int spec_read(flx_context *ctx, const char *input, const char *spec, int32_t dtype, flx_tensor **out);

/* The same for an input of this type, whose shape a list takes where it has that many numbers. */
int spec_read_as(flx_context *ctx, const char *input, const char *spec, const flx_type *type, flx_tensor **out);

/* "2,3,4" as a vector; of a single number too. FLX_DTYPE_NONE: i64. */
int spec_read_list(flx_context *ctx, const char *input, const char *text, int32_t dtype, flx_tensor **out);

/* "one","two" in quotes: a vector of texts as u8, their bytes along the last axis, filled up with zeros. */
bool spec_has_texts(const char *spec);
int spec_read_texts(flx_context *ctx, const char *input, const char *spec, flx_tensor **out);

/* Replaces *t, which `source` holds, by its value in the dtype of the input: another float width is rounded, another
   integer width taken when every value fits. */
int spec_convert(const char *input, const char *source, int32_t dtype, flx_tensor **t);

/* Refuses a SPEC that is neither a number nor a rule; a file or a list is not one of these either. */
int spec_check_filling(const char *input, const char *spec, int32_t dtype);

/* Makes a tensor of the (static) type by a number or a rule. */
int spec_fill(flx_context *ctx, const char *input, const char *spec, const flx_type *type, flx_tensor **out);

#endif
