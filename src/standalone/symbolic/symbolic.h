/* SPDX-License-Identifier: Apache-2.0 */
/* symbolic.h: C files for all extents of symbolic dimensions.

   A graph is written for several extents, its samples. Where the texts differ in numbers alone, each such number is a
   formula of the extents, which is found from the samples and holds for all of them; there are more samples than a
   formula has coefficients. The formula takes the place of the number, and functions that have one get the extents as
   arguments. Where several formulas fit a number, such as N / 4 and (N - 1) / 4 rounded down, a sample is added that
   tells them apart. The arena is planned for all samples together, so that its offsets are polynomials. What has
   another text for other extents, or numbers without a formula, is an error that names the nodes.

   Files: symbolic_fit.c   formulas of numbers
          symbolic_plan.c  the arena for all samples
          symbolic_text.c  one text from many; symbolic_thread.c: extents as arguments of functions
          build_symbolic.c the whole */
#ifndef FLXI_SYMBOLIC_H
#define FLXI_SYMBOLIC_H

#include "standalone/standalone.h"

/* ---- Formulas ---- */

enum {
    FLXI_SA_MAX_SYMBOLS = 2,
    FLXI_SA_MAX_ADDED = 6, /* samples that tell formulas apart */
    FLXI_SA_MAX_SAMPLES = 14 + FLXI_SA_MAX_ADDED,
    FLXI_SA_MAX_TERMS = 10,
    FLXI_SA_MAX_TRIED = 4
};

typedef struct {
    size_t num_symbols, n;
    const char *names[FLXI_SA_MAX_SYMBOLS];               /* in the file */
    int64_t at[FLXI_SA_MAX_SAMPLES][FLXI_SA_MAX_SYMBOLS]; /* extents, by sample */
    size_t num_tried;
    int64_t tried[FLXI_SA_MAX_TRIED][FLXI_SA_MAX_SYMBOLS]; /* extents that cannot be samples: their text is another */
} flxi_sa_points;

/* A polynomial with integer coefficients, of degree 3 at most. */
typedef struct {
    int64_t c[FLXI_SA_MAX_TERMS];
} flxi_sa_poly;

typedef FLXI_VEC(flxi_sa_poly) flxi_sa_polys;
bool flxi_sa_polys_have(const flxi_sa_polys *x, const flxi_sa_poly *f);

/* Extents of the samples. None is a multiple of 4, so that all have remainders after tiles; some are odd, and some
   twice an odd number, so that a remainder that only some extents have is not mistaken for a number that all have:
   such a graph has other texts for these samples. They are primes and twice primes, which hardly any extent of a model
   is a multiple of. All of them are moved by `shift`: where the text is about N - 1, samples by 1 larger are such for
   N - 1. */
void flxi_sa_points_init(flxi_sa_points *p, int shift);
/* The value for extents; false when it is out of range. */
bool flxi_sa_poly_at(const flxi_sa_points *p, const flxi_sa_poly *f, const int64_t *extents, int64_t *out);
/* Whether the value depends on the extent of that symbol. */
bool flxi_sa_poly_has(const flxi_sa_poly *f, size_t symbol);
/* The polynomial with these values at the samples; false: there is none. */
bool flxi_sa_fit(const flxi_sa_points *p, const int64_t *values, flxi_sa_poly *out);
/* `to` becomes at least as large as both for all extents but 0. */
void flxi_sa_poly_raise(flxi_sa_poly *to, const flxi_sa_poly *f);
/* At least as large for all extents but 0, and always a multiple of 16. */
flxi_sa_poly flxi_sa_poly_padded(flxi_sa_poly f);
/* `64 * N + 12` */
void flxi_sa_poly_print(const flxi_sa_points *p, const flxi_sa_poly *f, flxi_strbuf *out);

/* ---- Models of all samples ---- */

/* Lays out the arenas of all models in the same way. UNSUPPORTED: their programs differ. */
flx_code flxi_sa_plan_together(flxi_sa_model *const *models, const flxi_sa_points *p, flx_error *err);

/* Extents that a file takes. */
typedef struct {
    int64_t least, limit;
    bool asks; /* several formulas fit a number; a sample of these extents tells them apart */
    int64_t asked[FLXI_SA_MAX_SYMBOLS];
} flxi_sa_range;

/* One text from those of the samples. `counts` are those of elements: numbers of the text may be what is left of them
   after tiles. `range` is narrowed to extents for which all numbers of the text stay below 2^31,
   and none is negative that is not for the samples. UNBOUND_DIM: texts differ in more than numbers with formulas, or a
   number has several formulas that are not the same for all extents, about which `range` asks. */
flx_code flxi_sa_merge(const flxi_sa_points *p, const flx_buffer *texts, const flxi_sa_polys *counts, flxi_sa_file *f,
                       flxi_strbuf *out, flxi_sa_range *range, flx_error *err);
/* Gives the extents to the static functions that need them, and puts the range where `least_` and `limit_` are. */
flx_code flxi_sa_thread_extents(const flxi_sa_points *p, const flxi_sa_range *range, const flxi_strbuf *text,
                                flxi_sa_file *f, flxi_strbuf *out, flx_error *err);

#endif
