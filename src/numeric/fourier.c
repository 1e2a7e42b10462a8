/* SPDX-License-Identifier: Apache-2.0 */
/* fourier.c: see fourier.h. The passes are in fourier_pass.inc, written once for every precision and width of
   vectors. */
#include "numeric/fourier.h"

#include "base/host/stop.h"

#include <math.h>

/* ---- Plans ---- */

/* The passes of a length, or false where a prime factor is too large. Fours first: they cost least. */
static bool factorise(int64_t n, flxi_fourier *plan)
{
    static const int8_t first[] = {4, 2, 3, 5};
    plan->inner = n;
    plan->passes = 0;
    for (size_t i = 0; i < sizeof first; i++)
        for (; n % first[i] == 0; n /= first[i])
            plan->radix[plan->passes++] = first[i];
    for (int8_t r = 7; r <= FLXI_FOURIER_PRIME; r = (int8_t)(r + 2))
        for (; n % r == 0; n /= r)
            plan->radix[plan->passes++] = r;
    return n == 1;
}

bool flxi_fourier_plan(int64_t n, flxi_fourier *plan)
{
    *plan = (flxi_fourier){.n = n};
    if (n < 1 || n > INT64_C(1) << 40)
        return false;
    if (factorise(n, plan))
        return true;
    int64_t inner = 1;
    while (inner < 2 * n - 1)
        inner *= 2;
    plan->is_chirp = true;
    return factorise(inner, plan);
}

static bool has_roots(int radix)
{
    return radix > 5;
}

static size_t pass_table_count(const flxi_fourier *plan)
{
    int64_t groups = plan->inner;
    size_t count = 0;
    for (int i = 0; i < plan->passes; i++) {
        int r = plan->radix[i];
        groups /= r;
        count += 2 * (size_t)groups * (size_t)(r - 1) + (has_roots(r) ? 2 * (size_t)r : 0);
    }
    return count;
}

size_t flxi_fourier_table_count(const flxi_fourier *plan)
{
    return pass_table_count(plan) + (plan->is_chirp ? 2 * (size_t)plan->inner + 2 * (size_t)plan->n : 0);
}

size_t flxi_fourier_work_count(const flxi_fourier *plan)
{
    return (plan->is_chirp ? 4 : 2) * (size_t)plan->inner;
}

double flxi_fourier_scale(int64_t norm, bool inverse, int64_t n)
{
    bool is_divided = norm == (inverse ? FLXI_NORM_BACKWARD : FLXI_NORM_FORWARD);
    if (norm == FLXI_NORM_ORTHO)
        return 1 / sqrt((double)n);
    return is_divided ? 1 / (double)n : 1.0;
}

int64_t flxi_fourier_good_length(int64_t n)
{
    int64_t best = 1;
    while (best < n)
        best *= 2;
    for (int64_t five = 1; five < best; five *= 5)
        for (int64_t three = five; three < best; three *= 3) {
            int64_t length = three;
            while (length < n)
                length *= 2;
            best = length < best ? length : best;
        }
    return best;
}

/* ---- Transforms ---- */

/* Passes of a fixed radix keep their numbers in registers, which needs unrolled loops. */
#if defined(__clang__)
#define UNROLLED _Pragma("clang loop unroll(full)")
#else
#define UNROLLED _Pragma("GCC unroll 8")
#endif

/* Of one pass between two looks at whether the work is stopped. A multiple of all widths. */
enum { PASS_LANES = 1 << 14 };

/* Between groups of that many lanes. */
static inline bool is_stopped_at(int64_t lanes)
{
    return lanes < 32 ? flxi_stopped_by_now() : flxi_stopped();
}

typedef float narrow_f32 __attribute__((vector_size(16)));
typedef float wide_f32 __attribute__((vector_size(32)));
typedef double narrow_f64 __attribute__((vector_size(16)));
typedef double wide_f64 __attribute__((vector_size(32)));

#define REAL float
#define NARROW narrow_f32
#define WIDE wide_f32
#define FIELD(name) f32_##name
#include "numeric/fourier_transform.inc"

#define REAL double
#define NARROW narrow_f64
#define WIDE wide_f64
#define FIELD(name) f64_##name
#include "numeric/fourier_transform.inc"

void flxi_fourier_f32(const flxi_fourier *plan, const float *table, float *re, float *im, int64_t lanes, float *work)
{
    if (plan->is_chirp)
        f32_chirp(plan, table, re, im, lanes, work);
    else
        f32_passes(plan, table, re, im, lanes, work);
}

void flxi_fourier_f64(const flxi_fourier *plan, const double *table, double *re, double *im, int64_t lanes,
                      double *work)
{
    if (plan->is_chirp)
        f64_chirp(plan, table, re, im, lanes, work);
    else
        f64_passes(plan, table, re, im, lanes, work);
}

/* ---- Tables ---- */

/* exp(-2πi k/n) for 0 ≤ k < n: computed by octant, so that the angle is at most π/4 and symmetric roots agree to the
   bit. */
static void root_of_unity(int64_t k, int64_t n, double *z)
{
    static const double quarter_pi = 0.78539816339744830962;
    int64_t octant = 8 * k / n;
    int64_t rest = octant % 2 ? (octant + 1) * n - 8 * k : 8 * k - octant * n;
    double angle = quarter_pi * ((double)rest / (double)n);
    double c = cos(angle), s = sin(angle);
    static const struct {
        int8_t swaps, cos_sign, sin_sign;
    } by_octant[8] = {{0, 1, 1}, {1, 1, 1}, {1, -1, 1}, {0, -1, 1}, {0, -1, -1}, {1, -1, -1}, {1, 1, -1}, {0, 1, -1}};
    z[0] = by_octant[octant].cos_sign * (by_octant[octant].swaps ? s : c);
    z[1] = -by_octant[octant].sin_sign * (by_octant[octant].swaps ? c : s);
}

static double *fill_passes(const flxi_fourier *plan, double *t)
{
    int64_t length = plan->inner;
    for (int i = 0; i < plan->passes; i++) {
        int r = plan->radix[i];
        for (int64_t p = 0; p < length / r && !flxi_stopped_by_now(); p++)
            for (int64_t j = 1; j < r; j++, t += 2)
                root_of_unity(p * j, length, t);
        for (int64_t j = 0; has_roots(r) && j < r; j++, t += 2)
            root_of_unity(j, r, t);
        length /= r;
    }
    return t;
}

/* conj(c) over the circle of `inner`, transformed and divided by it. */
static void fill_chirp(const flxi_fourier *plan, const double *passes, double *filter, double *work)
{
    int64_t n = plan->n, inner = plan->inner;
    double *c = filter + 2 * inner;
    double *re = work, *im = work + inner;
    for (int64_t k = 0, square = 0; k < n && !flxi_stopped_by_now(); k++) {
        root_of_unity(square, 2 * n, c + 2 * k);
        square = (square + 2 * k + 1) % (2 * n);
    }
    if (flxi_stopped())
        return;
    flxi_stop_clear(work, 2 * (size_t)inner * sizeof *work);
    for (int64_t k = 0; k < n && !flxi_stopped_by_now(); k++) {
        int64_t mirror = k ? inner - k : 0;
        re[k] = re[mirror] = c[2 * k];
        im[k] = im[mirror] = -c[2 * k + 1];
    }
    f64_passes(plan, passes, re, im, 1, work + 2 * inner);
    for (int64_t k = 0; k < inner && !flxi_stopped_by_now(); k++) {
        filter[2 * k] = re[k] / (double)inner;
        filter[2 * k + 1] = im[k] / (double)inner;
    }
}

flx_code flxi_fourier_fill(const flxi_fourier *plan, int32_t dtype, void *table, const flxi_allocator *mem,
                           flx_error *err)
{
    size_t count = flxi_fourier_table_count(plan), scratch = flxi_fourier_work_count(plan);
    size_t own = dtype == FLX_F64 ? 0 : count;
    double *room = flxi_alloc(mem, scratch + own, sizeof *room);
    if (!room)
        return flxi_oom(err, "the tables of a Fourier transform");
    double *t = own ? room + scratch : table;
    double *filter = fill_passes(plan, t);
    if (plan->is_chirp)
        fill_chirp(plan, t, filter, room);
    for (size_t i = 0; i < own && !flxi_stopped_by_now(); i++)
        ((float *)table)[i] = (float)t[i];
    flxi_free(mem, room, scratch + own, sizeof *room);
    return FLX_OK;
}
