/* SPDX-License-Identifier: Apache-2.0 */
/* npy.h: NumPy's .npy format, as a file or inside an archive. */
#ifndef FLXI_NPY_H
#define FLXI_NPY_H

#include "format/array.h"

/* The array that is the whole source. */
flx_tensor *flxi_npy_load(flx_context *ctx, const flxi_source *s, flx_error *err);

/* The header of a row-major array, before its data; returns its length. The dtype must not be bf16. */
#define FLXI_NPY_HEADER_MAX 1024
size_t flxi_npy_header(const flx_type *t, char out[FLXI_NPY_HEADER_MAX]);

/* The tensor written for t: t itself, or the f32 version of bf16. Release it. */
flx_code flxi_npy_version(const flx_tensor *t, flx_tensor **out, flx_error *err);

#endif
