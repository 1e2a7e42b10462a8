/* SPDX-License-Identifier: Apache-2.0 */
/* general_eigen.c: eigenvalues and eigenvectors of a general matrix: to Hessenberg form by reflections, then to blocks
   of one or two rows along the diagonal by implicit QR steps with two shifts (Francis), then vectors by substitution.

   A step moves a bulge of three rows down the diagonal. Its reflections are found in windows, on the elements near the
   diagonal alone; the other elements of their rows and columns follow a window at a time, with vectors. */
#include "backend/cpu/linalg/dense_work.h"
#include "base/host/stop.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum {
    WINDOW = FLXI_REFLECTED_ROWS - 2, /* reflections that are found before the rest of the matrix follows */
    LINES = 8,                        /* rows whose columns are reflected together */
    MOST_STEPS = 60                   /* for each eigenvalue; fewer than three are usual */
};

typedef struct {
    flxi_workspace *w;
    double *t; /* rows of the matrix */
    double *z; /* rows: columns of the product of all transformations; NULL: eigenvalues alone */
    int64_t step, n;
    double *re, *im;
    double small; /* what is negligible beside the matrix */
} schur;

/* ---- To Hessenberg form ---- */

/* Column k below the diagonal is reflected to its first element. */
static void reduce_column(schur *s, const flxi_reflections *r, int64_t k, double *y)
{
    const flxi_row_kernels *kernels = s->w->rows;
    int64_t first = k + 1, count = s->n - first, step = s->step;
    double *v = r->h + k * step + first, *rows = s->t + first * step + first;
    memset(r->h + k * step, 0, (size_t)first * sizeof *v);
    for (int64_t i = 0; i < count; i++)
        v[i] = s->t[(first + i) * step + k];
    double head = flxi_reflect_row(kernels, v, count, &r->tau[k]);
    for (int64_t i = 0; i < count; i++)
        s->t[(first + i) * step + k] = i == 0 ? head : 0;
    memset(y, 0, (size_t)count * sizeof *y);
    flxi_rows_combine(s->w, y, rows, step, count, v, count);
    double *c = y + s->step;
    for (int64_t i = 0; i < count; i++)
        c[i] = -r->tau[k] * v[i];
    kernels->spread(rows, step, count, c, y, count);
    flxi_rows_dots(s->w, s->t + first, step, s->n, v, count, y);
    for (int64_t i = 0; i < s->n; i++)
        y[i] *= -r->tau[k];
    kernels->spread(s->t + first, step, s->n, y, v, count);
}

/* ---- Steps ---- */

/* Reflections 1 - tau v v^T with v = (1, a, b): (tau, a, b) of each. */
typedef struct {
    int64_t first, rows; /* the first one is of rows first .. first + 2, `rows` are touched by all of them */
    int64_t count;
    double turns[3 * WINDOW];
} window;

/* The reflection that maps (x, y, z) to (value returned, 0, 0). */
static double find_turn(double x, double y, double z, double *turn)
{
    double size = fabs(x) + fabs(y) + fabs(z);
    turn[0] = turn[1] = turn[2] = 0;
    if (fabs(y) + fabs(z) == 0)
        return x;
    x /= size;
    y /= size;
    z /= size;
    double length = -copysign(sqrt(x * x + y * y + z * z), x);
    turn[0] = (length - x) / length;
    turn[1] = y / (x - length);
    turn[2] = z / (x - length);
    return length * size;
}

/* Columns first .. first + rows - 1 of rows [begin, end). */
static void turn_columns(const schur *s, const window *b, int64_t begin, int64_t end)
{
    double lines[(WINDOW + 2) * LINES] = {0};
    for (int64_t i = begin; i < end; i += LINES) {
        int64_t count = end - i < LINES ? end - i : LINES;
        double *at = s->t + i * s->step + b->first;
        for (int64_t r = 0; r < count; r++)
            for (int64_t j = 0; j < b->rows; j++)
                lines[j * LINES + r] = at[r * s->step + j];
        s->w->rows->reflect(lines, LINES, LINES, b->turns, b->rows, b->count);
        for (int64_t r = 0; r < count; r++)
            for (int64_t j = 0; j < b->rows; j++)
                at[r * s->step + j] = lines[j * LINES + r];
    }
}

/* One reflection of the columns from k on, of rows [begin, end). */
static void turn_near_columns(const schur *s, int64_t k, int64_t rows, const double *turn, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++) {
        double *at = s->t + i * s->step + k;
        double sum = turn[0] * ((at[0] + turn[1] * at[1]) + (rows > 2 ? turn[2] * at[2] : 0));
        at[0] -= sum;
        at[1] -= turn[1] * sum;
        if (rows > 2)
            at[2] -= turn[2] * sum;
    }
}

/* A step on the block low .. high, whose first column is (x, y, z). */
static void step_down(schur *s, int64_t low, int64_t high, double x, double y, double z)
{
    int64_t step = s->step, end_col = s->z ? s->n : high + 1, top = s->z ? 0 : low;
    for (int64_t first = low; first < high && !flxi_stopped(); first += WINDOW) {
        int64_t last = first + WINDOW < high ? first + WINDOW : high; /* reflections first .. last - 1 */
        window b = {.first = first, .rows = (last + 1 < high ? last + 1 : high) - first + 1, .count = last - first};
        int64_t near_end = first + b.rows;
        for (int64_t k = first; k < last; k++) {
            double *turn = b.turns + 3 * (k - first), *row = s->t + k * step;
            int64_t rows = k + 2 <= high ? 3 : 2, below = k + 3 < high ? k + 3 : high;
            if (k > low) {
                double *at = row + k - 1;
                at[0] = find_turn(at[0], at[step], rows > 2 ? at[2 * step] : 0, turn);
                at[step] = 0;
                if (rows > 2)
                    at[2 * step] = 0;
            } else {
                find_turn(x, y, z, turn);
            }
            s->w->rows->reflect(row + k, step, near_end - k, turn, rows, 1);
            turn_near_columns(s, k, rows, turn, first, below + 1);
        }
        s->w->rows->reflect(s->t + first * step + near_end, step, end_col - near_end, b.turns, b.rows, b.count);
        turn_columns(s, &b, top, first);
        if (s->z)
            s->w->rows->reflect(s->z + first * step, step, s->n, b.turns, b.rows, b.count);
    }
}

/* The eigenvalues of the last two rows are the shifts, except now and then, to end a cycle. */
static void qr_step(schur *s, int64_t low, int64_t high, int count)
{
    int64_t step = s->step;
    const double *a = s->t + low * step + low, *p = s->t + (high - 1) * step + high - 1;
    double sum = p[0] + p[step + 1], product = p[0] * p[step + 1] - p[1] * p[step];
    if (count % 10 == 0) {
        double size = fabs(p[step]) + (high - low > 1 ? fabs(p[-1]) : 0);
        sum = 1.5 * size + 2 * p[step + 1];
        product = p[step + 1] * p[step + 1] + 1.5 * size * p[step + 1] + size * size;
    }
    double x = a[0] * (a[0] - sum) + a[1] * a[step] + product;
    double y = a[step] * (a[0] + a[step + 1] - sum);
    double z = high - low > 1 ? a[step] * a[2 * step + 1] : 0;
    step_down(s, low, high, x, y, z);
}

/* ---- Blocks ---- */

/* Rows and columns k and k + 1 are turned by (c, s), so that the element below the diagonal vanishes. */
static void turn_block(schur *s, int64_t k, double c, double d)
{
    int64_t step = s->step;
    double *row = s->t + k * step, *column = s->t + k, *z = s->z + k * step;
    for (int64_t j = k; j < s->n; j++) {
        double x = row[j], y = row[step + j];
        row[j] = c * x + d * y;
        row[step + j] = c * y - d * x;
    }
    for (int64_t i = 0; i < k + 2; i++) {
        double x = column[i * step], y = column[i * step + 1];
        column[i * step] = c * x + d * y;
        column[i * step + 1] = c * y - d * x;
    }
    for (int64_t j = 0; j < s->n; j++) {
        double x = z[j], y = z[step + j];
        z[j] = c * x + d * y;
        z[step + j] = c * y - d * x;
    }
    row[step + k] = 0;
}

/* Both eigenvalues of rows k and k + 1. */
static void finish_block(schur *s, int64_t k)
{
    const double *at = s->t + k * s->step + k;
    double half = 0.5 * (at[0] - at[s->step + 1]), below = at[s->step], across = at[1] * below;
    double last = at[s->step + 1], square = half * half + across;
    s->im[k] = s->im[k + 1] = 0;
    if (square < 0) {
        s->re[k] = s->re[k + 1] = last + half;
        s->im[k] = sqrt(-square);
        s->im[k + 1] = -s->im[k];
        return;
    }
    double far = half + copysign(sqrt(square), half);
    s->re[k] = last + far;
    s->re[k + 1] = far != 0 ? last - across / far : last;
    double length = hypot(far, below);
    if (s->z && length > 0)
        turn_block(s, k, far / length, below / length);
}

/* The first row of the block that ends at `high`: the element before it is negligible, and set to zero. */
static int64_t block_start(schur *s, int64_t high)
{
    for (int64_t low = high; low > 0; low--) {
        double *at = s->t + low * s->step + low;
        double around = fabs(at[0]) + fabs(at[-s->step - 1]);
        if (fabs(at[-1]) <= DBL_EPSILON * around || (around == 0 && fabs(at[-1]) <= s->small)) {
            at[-1] = 0;
            return low;
        }
    }
    return 0;
}

static bool reduce_to_blocks(schur *s)
{
    int count = 0;
    for (int64_t high = s->n - 1; high >= 0 && !flxi_stopped();) {
        int64_t low = block_start(s, high);
        if (low >= high - 1) {
            if (low == high) {
                s->re[high] = s->t[high * s->step + high];
                s->im[high] = 0;
            } else {
                finish_block(s, low);
            }
            high = low - 1;
            count = 0;
            continue;
        }
        if (++count > MOST_STEPS)
            return false;
        qr_step(s, low, high, count);
    }
    return true;
}

/* ---- Vectors ---- */

typedef struct {
    double re, im;
} number;

static number divided(number a, number b)
{
    double scale = fabs(b.re) + fabs(b.im), re = b.re / scale, im = b.im / scale, square = (re * re + im * im) * scale;
    return (number){(a.re * re + a.im * im) / square, (a.im * re - a.re * im) / square};
}

static number product(number a, number b)
{
    return (number){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

/* x, a row of parts or for a complex eigenvalue two, solves (t - value) x = 0 with given elements from `from` on. */
typedef struct {
    schur *s;
    double *x;
    number value;
    int64_t k; /* the last element that is not zero */
} substitution;

static void put(const substitution *b, int64_t i, number x)
{
    b->x[i] = x.re;
    if (b->value.im != 0)
        b->x[b->s->step + i] = x.im;
}

/* Σ t[i, j] x[j] over j > after. */
static number known_sum(const substitution *b, int64_t i, int64_t after)
{
    double y[2] = {0, 0};
    const schur *s = b->s;
    s->w->rows->dots(b->x + after + 1, s->step, b->value.im != 0 ? 2 : 1, s->t + i * s->step + after + 1, b->k - after,
                     y);
    return (number){y[0], y[1]};
}

/* Numbers that vanish are replaced by negligible ones: then the vector nearly repeats another, as it must where the
   matrix has too few. */
static number not_zero(number x, double small)
{
    return fabs(x.re) + fabs(x.im) < small ? (number){small, 0} : x;
}

/* Element i alone. */
static void solve_one(const substitution *b, int64_t i)
{
    const schur *s = b->s;
    number gap = {b->value.re - s->t[i * s->step + i], b->value.im};
    put(b, i, divided(known_sum(b, i, i), not_zero(gap, s->small)));
}

/* Elements i - 1 and i, a block of the diagonal. */
static void solve_two(const substitution *b, int64_t i)
{
    const schur *s = b->s;
    const double *at = s->t + (i - 1) * s->step + i - 1;
    number p = {b->value.re - at[0], b->value.im}, q = {b->value.re - at[s->step + 1], b->value.im};
    number first = known_sum(b, i - 1, i), second = known_sum(b, i, i), det = product(p, q);
    double above = at[1], below = at[s->step];
    det.re -= above * below;
    det = not_zero(det, s->small * (fabs(above) + fabs(below)));
    number x = product(first, q), y = product(second, p);
    x = (number){x.re + above * second.re, x.im + above * second.im};
    y = (number){y.re + below * first.re, y.im + below * first.im};
    put(b, i - 1, divided(x, det));
    put(b, i, divided(y, det));
}

/* Keeps the elements from i on below a size that could overflow. */
static void keep_small(const substitution *b, int64_t i)
{
    int64_t rows = b->value.im != 0 ? 2 : 1;
    double most = 0;
    for (int64_t r = 0; r < rows; r++)
        most = fmax(most, fabs(b->x[r * b->s->step + i]));
    for (int64_t r = 0; r < rows && most > 0x1p500; r++)
        for (int64_t j = i; j <= b->k; j++)
            b->x[r * b->s->step + j] *= 0x1p-500;
}

static void substitute(const substitution *b, int64_t from)
{
    for (int64_t i = from - 1; i >= 0 && !flxi_stopped();) {
        bool is_pair = i > 0 && b->s->t[i * b->s->step + i - 1] != 0;
        if (is_pair)
            solve_two(b, i);
        else
            solve_one(b, i);
        i -= is_pair;
        keep_small(b, i);
        i--;
    }
}

/* Row k of x for a real eigenvalue; rows k and k + 1, the real and the imaginary parts, for a complex pair. */
static void find_vectors(schur *s, double *x)
{
    memset(x, 0, (size_t)(s->n * s->step) * sizeof *x);
    for (int64_t k = 0; k < s->n && !flxi_stopped(); k++) {
        substitution b = {s, x + k * s->step, {s->re[k], s->im[k]}, k};
        if (s->im[k] == 0) {
            b.x[k] = 1;
            substitute(&b, k);
            continue;
        }
        const double *at = s->t + k * s->step + k;
        double above = at[1], below = at[s->step];
        bool is_first = fabs(above) >= fabs(below);
        number one = {1, 0}, other = is_first ? (number){(s->re[k] - at[0]) / above, s->im[k] / above}
                                              : (number){(s->re[k] - at[s->step + 1]) / below, s->im[k] / below};
        b.k = k + 1;
        put(&b, k, is_first ? one : other);
        put(&b, k + 1, is_first ? other : one);
        substitute(&b, k);
        k++;
    }
}

bool flxi_general_eigen(flxi_workspace *w, double *a, int64_t step, int64_t n, double *re, double *im, bool has_vectors)
{
    size_t used = w->used;
    schur s = {.w = w, .t = a, .step = step, .n = n, .re = re, .im = im, .small = DBL_MIN};
    flxi_reflections r = {.step = step, .count = n > 2 ? n - 2 : 0, .width = n, .shift = 1};
    r.h = flxi_take_numbers(w, n * step);
    r.tau = flxi_take_numbers(w, n);
    double *y = flxi_take_numbers(w, 2 * step), *z = has_vectors ? flxi_take_numbers(w, n * step) : NULL;
    bool counts = flxi_space_counts(w), is_found = true;
    for (int64_t i = 0; i < n && !counts; i++)
        for (int64_t j = 0; j < n; j++)
            s.small = fmax(s.small, DBL_EPSILON * fabs(a[i * step + j]));
    for (int64_t k = 0; k < r.count && !counts && !flxi_stopped(); k++)
        reduce_column(&s, &r, k, y);
    if (has_vectors)
        flxi_reflections_product(w, &r, z, step, n);
    s.z = z;
    is_found = counts || reduce_to_blocks(&s);
    if (has_vectors && is_found && !counts)
        find_vectors(&s, r.h);
    if (has_vectors && is_found)
        flxi_multiply(w, (flxi_part){a, step, 1}, (flxi_part){r.h, step, 1}, (flxi_part){z, step, 1}, n, n, n, false);
    w->used = used;
    return is_found;
}
