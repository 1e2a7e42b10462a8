/* SPDX-License-Identifier: Apache-2.0 */
/* fourier.c: see fourier.h. The passes are in fourier_pass.inc, written once for every precision and width of
   vectors. */
#include "numeric/fourier.h"

#include "base/host/stop.h"

#include <math.h>

/* ---- Plans ---- */

/* The passes of a length, or false where a prime factor is too large. Eights first: they need the fewest passes, and
   after one of them strides are multiples of 8. */
static bool factorise(int64_t n, flxi_fourier *plan)
{
    int twos = 0;
    plan->inner = n;
    plan->passes = 0;
    for (; n % 2 == 0; n /= 2)
        twos++;
    int eights = twos % 3 == 1 ? (twos - 4) / 3 : twos / 3;
    eights = twos == 1 ? 0 : eights;
    for (int i = 0; i < eights; i++, twos -= 3)
        plan->radix[plan->passes++] = 8;
    for (; twos > 1; twos -= 2)
        plan->radix[plan->passes++] = 4;
    if (twos)
        plan->radix[plan->passes++] = 2;
    for (int8_t r = 3; r <= FLXI_FOURIER_PRIME; r = (int8_t)(r + 2))
        for (; n % r == 0; n /= r)
            plan->radix[plan->passes++] = r;
    return n == 1;
}

/* The shortest length of at least `least` whose factors are two and at most two others. */
static int64_t convolution_length(int64_t least)
{
    static const int64_t odd[] = {1, 3, 5, 9, 15};
    int64_t best = INT64_MAX;
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        int64_t n = 16 * odd[i];
        while (n < least)
            n *= 2;
        best = n < best ? n : best;
    }
    return best;
}

bool flxi_fourier_plan(int64_t n, flxi_fourier *plan)
{
    *plan = (flxi_fourier){.n = n};
    if (n < 1 || n > INT64_C(1) << 40)
        return false;
    if (factorise(n, plan))
        return true;
    plan->is_chirp = true;
    return factorise(convolution_length(2 * n - 1), plan);
}

static bool has_roots(int radix)
{
    return radix > 5;
}

/* Passes of one row with these strides take their factors as vectors: one for each number of a result. */
static bool is_spread(int64_t row_stride)
{
    return row_stride <= 8;
}

/* The last pass has no factors. */
static int64_t factor_count(int radix, int64_t groups, int64_t row_stride)
{
    return groups == 1 ? 0 : 2 * (radix - 1) * groups * (is_spread(row_stride) ? row_stride : 1);
}

static size_t pass_table_count(const flxi_fourier *plan)
{
    int64_t groups = plan->inner, stride = 1, count = 0;
    for (int i = 0; i < plan->passes; i++) {
        int r = plan->radix[i];
        groups /= r;
        count += factor_count(r, groups, stride) + (has_roots(r) ? 2 * r : 0);
        stride *= r;
    }
    return (size_t)count;
}

size_t flxi_fourier_table_count(const flxi_fourier *plan)
{
    return pass_table_count(plan) + (plan->is_chirp ? 2 * (size_t)plan->inner + 2 * (size_t)plan->n : 0);
}

size_t flxi_fourier_work_count(const flxi_fourier *plan)
{
    return 6 * (size_t)plan->inner;
}

/* Buffers that follow each other begin at cache lines if the first one does. */
static int64_t whole_lines(int64_t count)
{
    return (count + 15) / 16 * 16;
}

size_t flxi_fourier_lanes_work_count(const flxi_fourier *plan, int64_t lanes)
{
    return (size_t)whole_lines(2 * plan->n * lanes) + flxi_fourier_work_count(plan) * (size_t)lanes;
}

bool flxi_fourier_real_plan(int64_t n, flxi_fourier_real *plan)
{
    plan->n = n;
    return flxi_fourier_plan(n % 2 ? n : n / 2, &plan->inner);
}

/* exp(-2πi k/n) for k up to n/4, after the tables of the transform of half the length. */
static int64_t bin_roots(const flxi_fourier_real *plan)
{
    return plan->n % 2 ? 0 : plan->n / 4 + 1;
}

size_t flxi_fourier_real_table_count(const flxi_fourier_real *plan)
{
    return flxi_fourier_table_count(&plan->inner) + 2 * (size_t)bin_roots(plan);
}

size_t flxi_fourier_real_work_count(const flxi_fourier_real *plan)
{
    return (size_t)whole_lines(2 * plan->n + 2) + flxi_fourier_work_count(&plan->inner);
}

/* ---- Long transforms ---- */

/* Below, all of a transform fits into the second-level cache of common machines. */
enum { LONG_BYTES = 1 << 19 };

/* The factor of n nearest to its square root, from below, of which both it and n divided by it are multiples of
   `lanes`; 0: there is none that is not far away. */
static int64_t middle_factor(int64_t n, int64_t lanes)
{
    int64_t root = (int64_t)sqrt((double)n) / lanes * lanes;
    for (int64_t r = root; r >= lanes && r >= root / 8; r -= lanes)
        if (n % r == 0 && n / r % lanes == 0)
            return r;
    return 0;
}

bool flxi_fourier_long_plan(int64_t n, int32_t dtype, flxi_fourier_long *plan)
{
    int64_t least = LONG_BYTES / (dtype == FLX_F64 ? 16 : 8), rows = 0, lanes = 32;
    *plan = (flxi_fourier_long){.n = n};
    if (n < least || n > INT64_C(1) << 40 || n % 64)
        return false;
    while (!rows && lanes > 8) {
        lanes /= 2;
        rows = middle_factor(n, lanes);
    }
    plan->lanes = lanes;
    return rows && flxi_fourier_plan(rows, &plan->first) && flxi_fourier_plan(n / rows, &plan->second) &&
           !plan->first.is_chirp && !plan->second.is_chirp;
}

/* The factors between the halves come after the tables of both. */
static size_t long_factors(const flxi_fourier_long *plan)
{
    return flxi_fourier_table_count(&plan->first) + flxi_fourier_table_count(&plan->second);
}

size_t flxi_fourier_long_table_count(const flxi_fourier_long *plan)
{
    size_t tiles = (size_t)(plan->second.n / plan->lanes);
    return long_factors(plan) + 2 * (size_t)plan->first.n * ((size_t)plan->lanes + tiles);
}

size_t flxi_fourier_long_work_count(const flxi_fourier_long *plan)
{
    int64_t longer = plan->first.n > plan->second.n ? plan->first.n : plan->second.n;
    return 8 * (size_t)longer * (size_t)plan->lanes;
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
#define UNROLLED _Pragma("GCC unroll 16")
#endif

/* Of one pass between two looks at whether the work is stopped. A multiple of all widths. */
enum { PASS_LANES = 1 << 14 };

/* Between groups of that many lanes. */
static inline bool is_stopped_at(int64_t lanes)
{
    return lanes < 32 ? flxi_stopped_by_now() : flxi_stopped();
}

/* See fourier_pass.inc; the first and the last pass convert between forms. */
typedef enum {
    KIND_WIDE,
    KIND_BLOCK,
    KIND_LAST,
    KIND_LAST_PAIRS,
    KIND_LAST_SWAPPED,
    KIND_FIRST,
    KIND_FIRST_PAIRS,
    KIND_FIRST_SWAPPED,
    NUM_KINDS
} pass_kind;

/* The widest vectors of the machine, in bytes. */
static int vector_bytes(const flxi_fourier *plan)
{
    int bytes = 16;
#if defined(__x86_64__)
    bool has_512 =
        __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
    bytes = has_512 ? 64 : __builtin_cpu_supports("avx2") ? 32 : 16;
#endif
    return plan->widest && plan->widest < bytes ? plan->widest : bytes;
}

/* Lists of positions for __builtin_shufflevector, by the number of elements. */
#define LISTED(name, width) LISTED_AGAIN(name, width)
#define LISTED_AGAIN(name, width) name##_##width
#define LOW_2 0, 2
#define LOW_4 0, 4, 1, 5
#define LOW_8 0, 8, 1, 9, 2, 10, 3, 11
#define LOW_16 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH_2 1, 3
#define HIGH_4 2, 6, 3, 7
#define HIGH_8 4, 12, 5, 13, 6, 14, 7, 15
#define HIGH_16 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#define EVEN_2 0, 2
#define EVEN_4 0, 2, 4, 6
#define EVEN_8 0, 2, 4, 6, 8, 10, 12, 14
#define EVEN_16 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define ODD_2 1, 3
#define ODD_4 1, 3, 5, 7
#define ODD_8 1, 3, 5, 7, 9, 11, 13, 15
#define ODD_16 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#define BACK_2 1, 0
#define BACK_4 3, 2, 1, 0
#define BACK_8 7, 6, 5, 4, 3, 2, 1, 0
#define BACK_16 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0
#define FIRST_4 0, 1
#define FIRST_8 0, 1, 2, 3
#define FIRST_16 0, 1, 2, 3, 4, 5, 6, 7
#define SECOND_4 2, 3
#define SECOND_8 4, 5, 6, 7
#define SECOND_16 8, 9, 10, 11, 12, 13, 14, 15

typedef float f32_v8 __attribute__((vector_size(8)));
typedef float f32_v16 __attribute__((vector_size(16)));
typedef float f32_v32 __attribute__((vector_size(32)));
typedef float f32_v64 __attribute__((vector_size(64)));
typedef double f64_v16 __attribute__((vector_size(16)));
typedef double f64_v32 __attribute__((vector_size(32)));
typedef double f64_v64 __attribute__((vector_size(64)));

#define REAL float
#define T16 f32_v16
#define T32 f32_v32
#define T64 f32_v64
#define HALF_OF_16 f32_v8
#define WIDTH_16 4
#define WIDTH_32 8
#define WIDTH_64 16
#define FIELD(name) f32_##name
#include "numeric/fourier_transform.inc"

#define REAL double
#define T16 f64_v16
#define T32 f64_v32
#define T64 f64_v64
#define WIDTH_16 2
#define WIDTH_32 4
#define WIDTH_64 8
#define FIELD(name) f64_##name
#include "numeric/fourier_transform.inc"

#define ENTRY_POINTS(REAL, name)                                                                                      \
    void flxi_fourier_##name(const flxi_fourier *plan, const REAL *table, REAL *re, REAL *im, int64_t lanes,          \
                             REAL *work)                                                                              \
    {                                                                                                                 \
        const name##_job j = {re, im, FLXI_FORM_PARTS, re, im, FLXI_FORM_PARTS, 1};                                   \
        name##_transform(plan, table, &j, lanes, work);                                                               \
    }                                                                                                                 \
    void flxi_fourier_pairs_##name(const flxi_fourier *plan, const REAL *table, const REAL *x, REAL *y, bool inverse, \
                                   REAL scale, REAL *work)                                                            \
    {                                                                                                                 \
        flxi_fourier_form form = inverse ? FLXI_FORM_SWAPPED : FLXI_FORM_PAIRS;                                       \
        const name##_job j = {x, NULL, form, y, NULL, form, scale};                                                   \
        name##_transform(plan, table, &j, 1, work);                                                                   \
    }                                                                                                                 \
    void flxi_fourier_parts_##name(const flxi_fourier *plan, const REAL *table, const REAL *x, REAL *y, bool inverse, \
                                   REAL scale, REAL *work)                                                            \
    {                                                                                                                 \
        int64_t first = inverse ? plan->n : 0, second = inverse ? 0 : plan->n;                                        \
        const name##_job j = {x + first, x + second, FLXI_FORM_PARTS, y + first, y + second, FLXI_FORM_PARTS, scale}; \
        name##_transform(plan, table, &j, 1, work);                                                                   \
    }                                                                                                                 \
    void flxi_fourier_bins_##name(const flxi_fourier_real *plan, const REAL *table, const REAL *x, int64_t given,     \
                                  REAL *re, REAL *im, REAL scale, REAL *work)                                         \
    {                                                                                                                 \
        const name##_bins b = {.signal = x, .given = given, .re = re, .im = im, .scale = scale};                      \
        name##_bins_of_signal(plan, table, &b, work);                                                                 \
    }                                                                                                                 \
    void flxi_fourier_signal_##name(const flxi_fourier_real *plan, const REAL *table, const REAL *re, const REAL *im, \
                                    int64_t given, REAL *y, REAL scale, REAL *work)                                   \
    {                                                                                                                 \
        const name##_bins b = {.from_re = re, .from_im = im, .given = given, .to = y, .scale = scale};                \
        name##_signal_of_bins(plan, table, &b, work);                                                                 \
    }                                                                                                                 \
    void flxi_fourier_lanes_##name(const flxi_fourier_lanes *t, REAL *work)                                           \
    {                                                                                                                 \
        name##_tile_of_lanes(t, work);                                                                                \
    }                                                                                                                 \
    void flxi_fourier_long_first_##name(const flxi_fourier_long_row *r, int64_t tile, REAL *work)                     \
    {                                                                                                                 \
        name##_long_first(r, tile, work);                                                                             \
    }                                                                                                                 \
    void flxi_fourier_long_second_##name(const flxi_fourier_long_row *r, int64_t tile, REAL *work)                    \
    {                                                                                                                 \
        name##_long_second(r, tile, work);                                                                            \
    }                                                                                                                 \
    void flxi_fourier_halves_##name(const flxi_fourier_halves *b, int64_t begin, int64_t end)                         \
    {                                                                                                                 \
        name##_long_bins(b, begin, end);                                                                              \
    }
ENTRY_POINTS(float, f32)
ENTRY_POINTS(double, f64)

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

/* Factors as vectors: of result 1 the real parts, then the imaginary parts, of result 2 …; a factor of a group is
   there once for each of its numbers. */
static void fill_spread(int radix, int64_t groups, int64_t stride, double *t)
{
    int64_t count = groups * stride;
    for (int64_t p = 0; p < groups && !flxi_stopped_by_now(); p++)
        for (int64_t j = 1; j < radix; j++) {
            double z[2], *to = t + 2 * (j - 1) * count + p * stride;
            root_of_unity(p * j, groups * radix, z);
            for (int64_t q = 0; q < stride; q++) {
                to[q] = z[0];
                to[q + count] = z[1];
            }
        }
}

static double *fill_passes(const flxi_fourier *plan, double *t)
{
    int64_t length = plan->inner, stride = 1;
    for (int i = 0; i < plan->passes; i++) {
        int r = plan->radix[i];
        int64_t groups = length / r;
        bool spread = is_spread(stride);
        if (spread && groups > 1)
            fill_spread(r, groups, stride, t);
        for (int64_t p = 0; !spread && groups > 1 && p < groups && !flxi_stopped_by_now(); p++)
            for (int64_t j = 1; j < r; j++)
                root_of_unity(p * j, length, t + 2 * (p * (r - 1) + j - 1));
        t += factor_count(r, groups, stride);
        for (int64_t j = 0; has_roots(r) && j < r; j++, t += 2)
            root_of_unity(j, r, t);
        length = groups;
        stride *= r;
    }
    return t;
}

/* conj(c) over the circle of `inner`, transformed and divided by it; then c. */
static void fill_chirp(const flxi_fourier *plan, const double *passes, double *filter, double *work)
{
    int64_t n = plan->n, inner = plan->inner;
    double *re = filter, *im = filter + inner, *c = im + inner;
    const f64_job j = {re, im, FLXI_FORM_PARTS, re, im, FLXI_FORM_PARTS, 1 / (double)inner};
    for (int64_t k = 0, square = 0; k < n && !flxi_stopped_by_now(); k++) {
        double z[2];
        root_of_unity(square, 2 * n, z);
        c[k] = z[0];
        c[n + k] = z[1];
        square = (square + 2 * k + 1) % (2 * n);
    }
    if (flxi_stopped())
        return;
    flxi_stop_clear(filter, 2 * (size_t)inner * sizeof *filter);
    for (int64_t k = 0; k < n && !flxi_stopped_by_now(); k++) {
        int64_t mirror = k ? inner - k : 0;
        re[k] = re[mirror] = c[k];
        im[k] = im[mirror] = -c[n + k];
    }
    f64_passes(plan, passes, &j, 1, work);
}

/* exp(-2πi k/n) for k < count: real parts, then imaginary parts. */
static void fill_roots(int64_t n, int64_t count, double *t)
{
    for (int64_t k = 0; k < count && !flxi_stopped_by_now(); k++) {
        double z[2];
        root_of_unity(k, n, z);
        t[k] = z[0];
        t[count + k] = z[1];
    }
}

/* Tables as they are computed, in f64: in place, or where there is room for `scratch` numbers more. */
typedef struct {
    void *table;
    double *room, *t;
    size_t count, scratch, own;
} filling;

static flx_code begin_filling(filling *f, size_t count, size_t scratch, int32_t dtype, void *table,
                              const flxi_allocator *mem, flx_error *err)
{
    *f = (filling){.table = table, .count = count, .scratch = scratch, .own = dtype == FLX_F64 ? 0 : count};
    f->room = flxi_alloc(mem, scratch + f->own + 1, sizeof *f->room);
    if (!f->room)
        return flxi_oom(err, "the tables of a Fourier transform");
    f->t = f->own ? f->room + scratch : table;
    return FLX_OK;
}

static void end_filling(const filling *f, const flxi_allocator *mem)
{
    for (size_t i = 0; i < f->own && !flxi_stopped_by_now(); i++)
        ((float *)f->table)[i] = (float)f->t[i];
    flxi_free(mem, f->room, f->scratch + f->own + 1, sizeof *f->room);
}

/* The tables of a plan, and after them `roots` powers of exp(-2πi/n). */
static flx_code fill_tables(const flxi_fourier *plan, int64_t n, int64_t roots, int32_t dtype, void *table,
                            const flxi_allocator *mem, flx_error *err)
{
    filling f;
    size_t count = flxi_fourier_table_count(plan), scratch = plan->is_chirp ? flxi_fourier_work_count(plan) : 0;
    FLXI_TRY(begin_filling(&f, count + 2 * (size_t)roots, scratch, dtype, table, mem, err));
    double *filter = fill_passes(plan, f.t);
    if (plan->is_chirp)
        fill_chirp(plan, f.t, filter, f.room);
    fill_roots(n, roots, f.t + count);
    end_filling(&f, mem);
    return FLX_OK;
}

flx_code flxi_fourier_fill(const flxi_fourier *plan, int32_t dtype, void *table, const flxi_allocator *mem,
                           flx_error *err)
{
    return fill_tables(plan, 0, 0, dtype, table, mem, err);
}

flx_code flxi_fourier_real_fill(const flxi_fourier_real *plan, int32_t dtype, void *table, const flxi_allocator *mem,
                                flx_error *err)
{
    return fill_tables(&plan->inner, plan->n, bin_roots(plan), dtype, table, mem, err);
}

/* Factors between the halves of a long transform: exp(-2πi kl/n) for all lanes l, then, for each tile of columns, that
   of its first column. */
static void fill_between(const flxi_fourier_long *plan, double *t)
{
    int64_t rows = plan->first.n, lanes = plan->lanes;
    for (int64_t k = 0; k < rows && !flxi_stopped_by_now(); k++)
        for (int64_t l = 0; l < lanes; l++) {
            double z[2];
            root_of_unity(k * l, plan->n, z);
            t[k * lanes + l] = z[0];
            t[(rows + k) * lanes + l] = z[1];
        }
    t += 2 * rows * lanes;
    for (int64_t column = 0; column < plan->second.n; column += lanes, t += 2 * rows)
        for (int64_t k = 0; k < rows && !flxi_stopped_by_now(); k++) {
            double z[2];
            root_of_unity(k * column, plan->n, z);
            t[k] = z[0];
            t[rows + k] = z[1];
        }
}

flx_code flxi_fourier_long_fill(const flxi_fourier_long *plan, int64_t roots, int32_t dtype, void *table,
                                const flxi_allocator *mem, flx_error *err)
{
    filling f;
    size_t count = flxi_fourier_long_table_count(plan);
    FLXI_TRY(begin_filling(&f, count + 2 * (size_t)roots, 0, dtype, table, mem, err));
    fill_passes(&plan->first, f.t);
    fill_passes(&plan->second, f.t + flxi_fourier_table_count(&plan->first));
    fill_between(plan, f.t + long_factors(plan));
    fill_roots(2 * plan->n, roots, f.t + count);
    end_filling(&f, mem);
    return FLX_OK;
}
