/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_parse.h: reads kernel text, and what the printer must know about it. The reader's state: kernel_reader.h. */
#ifndef FLXI_KERNEL_PARSE_H
#define FLXI_KERNEL_PARSE_H

#include "kernel/program/kernel.h"

/* Reads text that holds one kernel, without validating it: unknown names become unknown variables, buffer 0 or function
   0, and statements keep their source positions. */
flx_kernel *flxi_kernel_parse_only(flx_context *ctx, const char *text, size_t length, const char *file, flx_error *err);

/* Reads and validates the kernel that a longer text holds between two offsets.
   Positions are those in the whole text. */
flx_kernel *flxi_kernel_parse_part(flx_context *ctx, const char *text, size_t begin, size_t end, const char *file,
                                   flx_error *err);

/* Writes FILE:LINE:COL of a source position (offset + 1, as in a finding or a statement) to err->where. */
void flxi_kernel_set_position(flx_error *err, const char *text, const char *file, uint32_t position);

/* ---- Shared with the printer ---- */

/* How strongly a binary operator binds, as in C; 11 is the strength of unary ones. */
uint8_t flxi_kbinary_strength(uint8_t op);
/* Peers are the operands of an expression that must have the same type: those starting at *first; returns their number.
   */
uint32_t flxi_kx_peers(uint8_t kind, uint8_t op, uint32_t *first);
const char *flxi_kcallee_name(uint8_t kind); /* "select" of KX_SELECT */
/* Whether the name is that of an op or of a statement written as a call. */
bool flxi_kname_is_callee(const char *s, size_t n);

/* A statement written as a call. Its arguments: b and t the two buffers, x and y the two expressions, n a number, g a
   tag, o an ordering. */
typedef struct {
    const char *name;
    const char *args;
    uint8_t kind;
    uint8_t order;
} flxi_kform;

const flxi_kform *flxi_kform_of(const flxi_ks *s);

#endif
