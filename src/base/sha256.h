/* SPDX-License-Identifier: Apache-2.0 */
/* sha256.h: SHA-256 (FIPS 180-4), for names and digests that must not collide even under attack. */
#ifndef FLXI_SHA256_H
#define FLXI_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FLXI_SHA256_BYTES = 32, FLXI_SHA256_TEXT = 65 };

typedef struct {
    uint32_t state[8];
    uint64_t length;         /* bytes so far */
    unsigned char block[64]; /* the last length % 64 of them */
} flxi_sha256;

void flxi_sha256_init(flxi_sha256 *h);
void flxi_sha256_add(flxi_sha256 *h, const void *data, size_t n);
/* Adds the number of bytes, then the bytes: different lists of fields never give the same input. */
void flxi_sha256_add_field(flxi_sha256 *h, const void *data, size_t n);
void flxi_sha256_end(flxi_sha256 *h, unsigned char digest[FLXI_SHA256_BYTES]);

void flxi_sha256_of(const void *data, size_t n, unsigned char digest[FLXI_SHA256_BYTES]);
/* 64 lower-case hexadecimal digits and a 0. */
void flxi_sha256_text(const unsigned char digest[FLXI_SHA256_BYTES], char text[FLXI_SHA256_TEXT]);

/* Disables the processor's instructions, to test the portable code; written by tests only. */
extern bool flxi_sha256_plain;

#endif
