/* SPDX-License-Identifier: Apache-2.0 */
/* axis_letters.h: operands whose axes have names. A list of texts, one for each operand, gives each axis a letter
   ("NSH", "Hn"); axes of one letter have one extent. Inference checks it, rules ask for the extents. */
#ifndef FLXI_AXIS_LETTERS_H
#define FLXI_AXIS_LETTERS_H

#include "graph/op/infer.h"
#include "graph/op/site.h"

enum { FLXI_LETTERS = 128 };

typedef struct {
    flx_dim of[FLXI_LETTERS]; /* by letter; a number where any operand says one */
} flxi_letters;

/* Ranks and extents of all operands are as `axes` says, one text each. */
flx_code flxi_match_letters(flxi_infer *f, const char *const *axes, flxi_letters *dims);

/* The extents once more, from the operands of a node that passed. */
flxi_letters flxi_site_letters(const flxi_site *s, const char *const *axes);

/* A type of these axes. */
flx_type flxi_lettered(int32_t dtype, const char *axes, const flxi_letters *dims);

/* v under the very extents of its letters: where v says a symbol, another operand may say a number. */
flx_val flxi_as_lettered(flxi_site *s, flx_val v, const char *axes, const flxi_letters *dims);

#endif
