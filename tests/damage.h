/* SPDX-License-Identifier: Apache-2.0 */
/* damage.h: what every decoder of a file format must withstand: truncated files, changed bytes, lack of memory. It may
   return an error or a tensor, but must not crash, leak, or request more memory than the file justifies. */
#ifndef FLX_DAMAGE_H
#define FLX_DAMAGE_H

#include <fluxion/tensor.h>

typedef flx_tensor *(*damage_decoder)(flx_context *ctx, const void *bytes, size_t size, flx_error *err);

/* Truncates the sample to every length (each must be an error), then changes every byte in several ways. No single
   request for memory may exceed `largest` bytes. */
void damage_everywhere(damage_decoder decode, const void *bytes, size_t size, size_t largest);

/* Fails each allocation in turn, once and permanently; every failure must be OOM, and nothing may leak. */
void damage_allocations(damage_decoder decode, const void *bytes, size_t size);

/* Bytes from hexadecimal digits; returns how many, at most `room`. */
size_t damage_hex(const char *hex, unsigned char *out, size_t room);

#endif
