/* SPDX-License-Identifier: Apache-2.0 */
/* spectral.h: transforms for the decompositions of the spectral family. */
#ifndef FLXI_SPECTRAL_H
#define FLXI_SPECTRAL_H

#include "graph/op/infer.h"
#include "graph/op/site.h"

/* fft of the last axis; norm is an index into FLXI_FOURIER_NORMS. */
flx_val flxi_fft(flxi_site *s, flx_val x, bool inverse, int64_t norm);
/* rfft and irfft of the last axis with norm=backward. */
void flxi_rfft(flxi_site *s, flx_val x, flx_dim n, flx_val parts[2]);
flx_val flxi_irfft(flxi_site *s, const flx_val parts[2], flx_dim n);

/* The last axis padded with zeros, or cut, to n elements. */
flx_val flxi_fit_last(flxi_site *s, flx_val x, flx_dim n);
/* Elements [start, start + len) of the last axis. */
flx_val flxi_narrow_last(flxi_site *s, flx_val x, flx_dim start, flx_dim len);
/* a followed by b along the last axis. */
flx_val flxi_join_last(flxi_site *s, flx_val a, flx_val b);
/* re² + im² of the first `bins` bins of [re…, im…] in the last axis. */
flx_val flxi_power_of_bins(flxi_site *s, flx_val spec, flx_dim bins);

/* n // 2 + 1: the bins of a real signal of length n. */
flx_dim flxi_bins_of(flx_context *ctx, flx_dim n);
/* The transform length n of an op: where absent, `fallback`. Fails with ATTRIBUTE where it is a number below 1. */
flx_code flxi_norm_length(flxi_infer *f, flx_dim *n, flx_dim fallback);
/* The last axis of operand i holds [re…, im…]: fails with SHAPE where it is known to be odd or absent. */
flx_code flxi_need_parts(flxi_infer *f, uint32_t i);

#endif
