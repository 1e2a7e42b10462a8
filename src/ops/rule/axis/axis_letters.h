/* SPDX-License-Identifier: Apache-2.0 */
/* axis_letters.h: operands whose axes have names. A list of texts, one for each operand, gives each axis a letter
   ("NSH", "Hn"); axes with the same letter have the same extent. Inference checks this, rules read the extents. */
#ifndef FLXI_AXIS_LETTERS_H
#define FLXI_AXIS_LETTERS_H

#include "graph/op/infer.h"
#include "graph/op/site.h"

enum { FLXI_LETTERS = 128 };

typedef struct {
    flx_dim of[FLXI_LETTERS]; /* by letter; a number where any operand has one */
} flxi_letters;

/* Checks that ranks and extents of all operands match `axes`, one text each. */
flx_code flxi_match_letters(flxi_infer *f, const char *const *axes, flxi_letters *dims);

/* The extents again, from the operands of a node that passed the check. */
flxi_letters flxi_site_letters(const flxi_site *s, const char *const *axes);

/* A type of these axes. */
flx_type flxi_lettered(int32_t dtype, const char *axes, const flxi_letters *dims);

/* v with exactly the extents of its letters: where v has a symbol, another operand may have a number. */
flx_val flxi_as_lettered(flxi_site *s, flx_val v, const char *axes, const flxi_letters *dims);

#endif
