/* SPDX-License-Identifier: Apache-2.0 */
/* image.h: the decoders of the image formats. */
#ifndef FLXI_IMAGE_H
#define FLXI_IMAGE_H

#include <fluxion/data.h>
#include <stdbool.h>

/* [channels, height, width] of u8 or u16. */
flx_tensor *flxi_png_decode(flx_context *ctx, const unsigned char *p, size_t n, flx_error *err);
flx_tensor *flxi_pnm_decode(flx_context *ctx, const unsigned char *p, size_t n, flx_error *err);

bool flxi_is_png(const unsigned char *p, size_t n);

#endif
