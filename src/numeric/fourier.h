/* SPDX-License-Identifier: Apache-2.0 */
/* fourier.h: the discrete Fourier transform of any length, in f64 and f32, for the reference evaluator and for routes.

   y_k = Σ_j x_j exp(-2πi jk/n). Lengths whose prime factors are at most FLXI_FOURIER_PRIME go through Stockham's
   passes, one for each factor or product of factors; any other length is a convolution with a chirp (Bluestein), whose
   transforms have a length with small factors. Both take O(n log n).

   Error: with u = 2^-53 (f32: 2^-24) and in the 2-norm, at most 8 u log2(n) of the result, times 4 for a chirp. Roots
   of unity come from sin and cos of an angle of at most π/4, each on its own, never from a recurrence; between the
   halves of a long transform they are products of two such roots.

   Only the run time depends on the machine's vectors: every variant computes the same bits. */
#ifndef FLXI_FOURIER_H
#define FLXI_FOURIER_H

#include "base/error.h"
#include "base/memory.h"

enum { FLXI_FOURIER_PRIME = 31, FLXI_FOURIER_PASSES = 64 };

/* How a length is transformed: a value, worked out from n alone. */
typedef struct {
    int64_t n;
    int64_t inner; /* the length of the passes: n, or that of the convolution */
    bool is_chirp;
    int passes;
    int8_t radix[FLXI_FOURIER_PASSES]; /* their product is `inner` */
    int widest; /* for tests: vectors of at most that many bytes (16, 32, 64); 0: what the machine has */
} flxi_fourier;

/* False where n < 1, or so large that the length of a convolution would overflow. */
bool flxi_fourier_plan(int64_t n, flxi_fourier *plan);

/* Numbers that the tables of a plan hold, and that one transform of one lane needs as scratch. */
size_t flxi_fourier_table_count(const flxi_fourier *plan);
size_t flxi_fourier_work_count(const flxi_fourier *plan);

/* Fills tables of `dtype` (f32, f64); memory is for scratch alone. */
flx_code flxi_fourier_fill(const flxi_fourier *plan, int32_t dtype, void *table, const flxi_allocator *mem,
                           flx_error *err);

/* Transforms `lanes` signals at once, in place: number k of lane l is at re[k * lanes + l] and im[k * lanes + l]. For
   the inverse direction, exchange re and im. */
void flxi_fourier_f32(const flxi_fourier *plan, const float *table, float *re, float *im, int64_t lanes, float *work);
void flxi_fourier_f64(const flxi_fourier *plan, const double *table, double *re, double *im, int64_t lanes,
                      double *work);

/* One signal from x to y, which do not overlap, times scale: pairs (re, im), or all real parts, then all imaginary
   parts. */
void flxi_fourier_pairs_f32(const flxi_fourier *plan, const float *table, const float *x, float *y, bool inverse,
                            float scale, float *work);
void flxi_fourier_pairs_f64(const flxi_fourier *plan, const double *table, const double *x, double *y, bool inverse,
                            double scale, double *work);
void flxi_fourier_parts_f32(const flxi_fourier *plan, const float *table, const float *x, float *y, bool inverse,
                            float scale, float *work);
void flxi_fourier_parts_f64(const flxi_fourier *plan, const double *table, const double *x, double *y, bool inverse,
                            double scale, double *work);

/* How a signal is stored: real and imaginary parts as two arrays, pairs of both, or pairs in the other order, which for
   both the source and the target means the inverse direction. */
typedef enum { FLXI_FORM_PARTS, FLXI_FORM_PAIRS, FLXI_FORM_SWAPPED } flxi_fourier_form;

/* Several signals of a tensor: of `lanes` lanes `used` exist. Number k of lane l is number k * distance + l of the
   source and of the target, or l * distance + k of a tile by rows. The form is parts or pairs. */
typedef struct {
    const flxi_fourier *plan;
    const void *table;
    flxi_fourier_form form;
    const void *from_re, *from_im;
    void *to_re, *to_im;
    int64_t distance, lanes, used;
    bool by_rows, inverse;
    double scale;
} flxi_fourier_lanes;

size_t flxi_fourier_lanes_work_count(const flxi_fourier *plan, int64_t lanes);
void flxi_fourier_lanes_f32(const flxi_fourier_lanes *t, float *work);
void flxi_fourier_lanes_f64(const flxi_fourier_lanes *t, double *work);

/* ---- Real signals ---- */

/* A real signal of even length n is n/2 complex numbers: their transform, and one pass that separates the bins of even
   and odd elements. An odd length is transformed as a complex signal. */
typedef struct {
    int64_t n;
    flxi_fourier inner;
} flxi_fourier_real;

bool flxi_fourier_real_plan(int64_t n, flxi_fourier_real *plan);
size_t flxi_fourier_real_table_count(const flxi_fourier_real *plan);
size_t flxi_fourier_real_work_count(const flxi_fourier_real *plan);
flx_code flxi_fourier_real_fill(const flxi_fourier_real *plan, int32_t dtype, void *table, const flxi_allocator *mem,
                                flx_error *err);

/* Bins 0 … n/2 of the signal x, of which `given` numbers exist: it is cut, or continued with zeros, to n. With im NULL,
   bins are pairs at re, here and below. */
void flxi_fourier_bins_f32(const flxi_fourier_real *plan, const float *table, const float *x, int64_t given, float *re,
                           float *im, float scale, float *work);
void flxi_fourier_bins_f64(const flxi_fourier_real *plan, const double *table, const double *x, int64_t given,
                           double *re, double *im, double scale, double *work);

/* The signal with these bins, of which `given` exist, in the inverse direction; the imaginary parts of bins 0 and n/2
   are ignored. */
void flxi_fourier_signal_f32(const flxi_fourier_real *plan, const float *table, const float *re, const float *im,
                             int64_t given, float *y, float scale, float *work);
void flxi_fourier_signal_f64(const flxi_fourier_real *plan, const double *table, const double *re, const double *im,
                             int64_t given, double *y, double scale, double *work);

/* ---- Long transforms ---- */

/* A signal that does not fit into the cache is a matrix of `first.n` rows and `second.n` columns: columns are
   transformed, `lanes` at a time, multiplied by roots of unity, and then the rows of the result. Both halves read and
   write the memory once. Tiles are independent of each other; all of the first half come before those of the second.
   Error: two products with a factor more than in the passes. */
typedef struct {
    int64_t n, lanes;
    flxi_fourier first, second;
} flxi_fourier_long;

/* False where the length fits into the cache or has no suitable factors; `dtype` is f32 or f64. */
bool flxi_fourier_long_plan(int64_t n, int32_t dtype, flxi_fourier_long *plan);
size_t flxi_fourier_long_table_count(const flxi_fourier_long *plan);
size_t flxi_fourier_long_work_count(const flxi_fourier_long *plan); /* of one tile at a time */
/* After the tables come `roots` powers of exp(-πi/n): real parts, then imaginary parts. */
flx_code flxi_fourier_long_fill(const flxi_fourier_long *plan, int64_t roots, int32_t dtype, void *table,
                                const flxi_allocator *mem, flx_error *err);

typedef struct {
    const flxi_fourier_long *plan;
    const void *table;
    flxi_fourier_form from, to;
    const void *from_re, *from_im; /* pairs are at from_re */
    int64_t given;                 /* real numbers that exist in pairs; the rest is zero */
    void *to_re, *to_im;
    double scale;
    void *middle; /* 2 n numbers between the halves */
} flxi_fourier_long_row;

/* Tile i of second.n / lanes in the first half, of first.n / lanes in the second one. */
void flxi_fourier_long_first_f32(const flxi_fourier_long_row *r, int64_t tile, float *work);
void flxi_fourier_long_first_f64(const flxi_fourier_long_row *r, int64_t tile, double *work);
void flxi_fourier_long_second_f32(const flxi_fourier_long_row *r, int64_t tile, float *work);
void flxi_fourier_long_second_f64(const flxi_fourier_long_row *r, int64_t tile, double *work);

/* Between the transform of h pairs and the h + 1 bins of the signal that they are: forward from the transform to the
   bins, times scale; else back, to twice the transform. Handles bins k and h - k for k in [begin, end) of 0 … h/2. */
typedef struct {
    const flxi_fourier *plan; /* for the width of vectors */
    int64_t h;
    bool is_forward;
    bool is_paired;    /* the bins are pairs, at from_re or to_re */
    const void *roots; /* exp(-πi k/h) for k = 0 … h/2: real parts, then imaginary parts */
    const void *from_re, *from_im;
    void *to_re, *to_im;
    double scale;
} flxi_fourier_halves;

void flxi_fourier_halves_f32(const flxi_fourier_halves *b, int64_t begin, int64_t end);
void flxi_fourier_halves_f64(const flxi_fourier_halves *b, int64_t begin, int64_t end);

/* The factor of the sum; norm is an index into FLXI_FOURIER_NORMS. */
#define FLXI_FOURIER_NORMS "backward forward ortho none"
enum { FLXI_NORM_BACKWARD, FLXI_NORM_FORWARD, FLXI_NORM_ORTHO, FLXI_NORM_NONE };
double flxi_fourier_scale(int64_t norm, bool inverse, int64_t n);

/* The smallest length ≥ n without a prime factor above 5. */
int64_t flxi_fourier_good_length(int64_t n);

#endif
