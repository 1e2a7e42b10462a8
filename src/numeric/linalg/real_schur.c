/* SPDX-License-Identifier: Apache-2.0 */
/* real_schur.c: the Schur form of a real matrix (schur.h): to Hessenberg form by reflections, then to blocks of one or
   two rows by implicit QR steps with two shifts (Francis), in double. */
#include "base/host/stop.h"
#include "numeric/linalg/schur.h"

#include <float.h>
#include <math.h>

enum { MAX_STEPS = 60 }; /* per eigenvalue; three are typical */

/* Element (i, j) of a matrix that is an array of columns. */
#define AT(a, i, j) ((a)[(j)*n + (i)])

typedef struct {
    int64_t n;
    double *a, *z;
    double norm;
} form;

/* ---- Reflections of two or more rows ---- */

/* x becomes v, v[0] = 1, such that 1 - tau v v^T maps it to (value, 0, …); tau is returned. */
static double find_reflection(int64_t m, double *x, double *value)
{
    double tail = 0;
    for (int64_t i = 1; i < m; i++)
        tail = hypot(tail, x[i]);
    *value = x[0];
    if (tail == 0)
        return 0;
    *value = -copysign(hypot(x[0], tail), x[0]);
    double head = x[0] - *value;
    for (int64_t i = 1; i < m; i++)
        x[i] /= head;
    x[0] = 1;
    return -head / *value;
}

/* Rows first … first + m - 1 of columns from … n - 1. */
static void reflect_rows(const form *f, int64_t first, int64_t m, const double *v, double tau, int64_t from)
{
    int64_t n = f->n;
    for (int64_t j = from; j < n && !flxi_stopped(); j++) {
        double *x = &AT(f->a, first, j), sum = 0;
        for (int64_t i = 0; i < m; i++)
            sum += v[i] * x[i];
        for (int64_t i = 0; i < m; i++)
            x[i] -= tau * sum * v[i];
    }
}

/* Columns first … first + m - 1 of rows 0 … to - 1 of a matrix. */
static void reflect_columns(int64_t n, double *a, int64_t first, int64_t m, const double *v, double tau, int64_t to)
{
    for (int64_t i = 0; i < to && !flxi_stopped(); i++) {
        double sum = 0;
        for (int64_t j = 0; j < m; j++)
            sum += v[j] * AT(a, i, first + j);
        for (int64_t j = 0; j < m; j++)
            AT(a, i, first + j) -= tau * sum * v[j];
    }
}

static void reduce_to_hessenberg(const form *f, double *v)
{
    int64_t n = f->n;
    for (int64_t k = 0; k + 2 < n && !flxi_stopped(); k++) {
        int64_t m = n - k - 1;
        double value;
        for (int64_t i = 0; i < m; i++)
            v[i] = AT(f->a, k + 1 + i, k);
        double tau = find_reflection(m, v, &value);
        if (tau == 0)
            continue;
        reflect_rows(f, k + 1, m, v, tau, k + 1);
        reflect_columns(n, f->a, k + 1, m, v, tau, n);
        reflect_columns(n, f->z, k + 1, m, v, tau, n);
        AT(f->a, k + 1, k) = value;
        for (int64_t i = k + 2; i < n; i++)
            AT(f->a, i, k) = 0;
    }
}

/* ---- Steps ---- */

/* The reflection of the first rows, whose first column is x, makes a bulge that the next ones chase down. */
static void chase(const form *f, int64_t low, int64_t high, double *x)
{
    int64_t n = f->n;
    for (int64_t k = low; k < high && !flxi_stopped(); k++) {
        int64_t m = k + 2 <= high ? 3 : 2;
        double value;
        for (int64_t i = 0; i < m && k > low; i++)
            x[i] = AT(f->a, k + i, k - 1);
        double tau = find_reflection(m, x, &value);
        if (tau != 0) {
            reflect_rows(f, k, m, x, tau, k);
            reflect_columns(n, f->a, k, m, x, tau, k + 4 < high + 1 ? k + 4 : high + 1);
            reflect_columns(n, f->z, k, m, x, tau, n);
        }
        for (int64_t i = 0; i < m && k > low; i++)
            AT(f->a, k + i, k - 1) = i == 0 ? value : 0;
    }
}

/* The eigenvalues of the last two rows are the shifts, except now and then, to end a cycle. */
static void qr_step(const form *f, int64_t low, int64_t high, int step)
{
    int64_t n = f->n;
    double p = AT(f->a, high - 1, high - 1), q = AT(f->a, high, high), below = AT(f->a, high, high - 1);
    double sum = p + q, product = p * q - AT(f->a, high - 1, high) * below;
    if (step % 10 == 0) {
        double size = fabs(below) + fabs(AT(f->a, high - 1, high - 2));
        sum = 2 * q + 1.5 * size;
        product = q * q + 1.5 * size * q + size * size;
    }
    double a = AT(f->a, low, low), next = AT(f->a, low + 1, low);
    double x[3] = {a * (a - sum) + AT(f->a, low, low + 1) * next + product,
                   next * (a + AT(f->a, low + 1, low + 1) - sum), next * AT(f->a, low + 2, low + 1)};
    chase(f, low, high, x);
}

/* ---- Blocks of two rows ---- */

/* Rows and columns k and k + 1 are turned: (x, y) becomes (c x + s y, c y - s x). */
static void turn(const form *f, int64_t k, double c, double s)
{
    int64_t n = f->n;
    for (int64_t j = k; j < n; j++) {
        double x = AT(f->a, k, j), y = AT(f->a, k + 1, j);
        AT(f->a, k, j) = c * x + s * y;
        AT(f->a, k + 1, j) = c * y - s * x;
    }
    for (int64_t i = 0; i < k + 2; i++) {
        double x = AT(f->a, i, k), y = AT(f->a, i, k + 1);
        AT(f->a, i, k) = c * x + s * y;
        AT(f->a, i, k + 1) = c * y - s * x;
    }
    for (int64_t i = 0; i < n; i++) {
        double x = AT(f->z, i, k), y = AT(f->z, i, k + 1);
        AT(f->z, i, k) = c * x + s * y;
        AT(f->z, i, k + 1) = c * y - s * x;
    }
}

/* Two real eigenvalues: the block becomes triangular. A pair: its diagonal becomes equal, as in LAPACK. */
static void finish_block(const form *f, int64_t k)
{
    int64_t n = f->n;
    double half = 0.5 * (AT(f->a, k, k) - AT(f->a, k + 1, k + 1)), below = AT(f->a, k + 1, k);
    double sum = AT(f->a, k, k + 1) + below, square = half * half + AT(f->a, k, k + 1) * below;
    if (square >= 0) {
        double far = half + copysign(sqrt(square), half), length = hypot(far, below);
        if (length > 0)
            turn(f, k, far / length, below / length);
        AT(f->a, k + 1, k) = 0;
    } else if (half != 0) {
        double angle = sum == 0 ? atan(1) : 0.5 * atan(-2 * half / sum);
        turn(f, k, cos(angle), sin(angle));
        double mean = 0.5 * (AT(f->a, k, k) + AT(f->a, k + 1, k + 1));
        AT(f->a, k, k) = AT(f->a, k + 1, k + 1) = mean;
    }
}

/* The first row of the block that ends at `high`: the element before it is negligible, and set to zero. */
static int64_t block_start(const form *f, int64_t high)
{
    int64_t n = f->n;
    for (int64_t low = high; low > 0; low--) {
        double around = fabs(AT(f->a, low, low)) + fabs(AT(f->a, low - 1, low - 1));
        if (fabs(AT(f->a, low, low - 1)) <= DBL_EPSILON * (around > 0 ? around : f->norm)) {
            AT(f->a, low, low - 1) = 0;
            return low;
        }
    }
    return 0;
}

static bool reduce_to_blocks(const form *f)
{
    int step = 0;
    for (int64_t high = f->n - 1; high > 0 && !flxi_stopped();) {
        int64_t low = block_start(f, high);
        if (low >= high - 1) {
            if (low < high)
                finish_block(f, low);
            high = low - 1;
            step = 0;
        } else if (++step > MAX_STEPS) {
            return false;
        } else {
            qr_step(f, low, high, step);
        }
    }
    return true;
}

void flxi_real_schur_form(int64_t n, double *a, double *z, double *room)
{
    form f = {.n = n, .a = a, .z = z};
    double most = 0, sum = 0;
    int exponent = 0;
    for (int64_t i = 0; i < n * n; i++) {
        most = fmax(most, fabs(a[i]));
        sum += fabs(a[i]) * 0;
        z[i] = i % (n + 1) == 0;
    }
    bool is_finite = isfinite(most) && !isnan(sum);
    if (is_finite)
        frexp(most, &exponent);
    for (int64_t i = 0; i < n * n && is_finite; i++) {
        a[i] = ldexp(a[i], -exponent);
        f.norm = hypot(f.norm, a[i]);
    }
    if (is_finite)
        reduce_to_hessenberg(&f, room);
    is_finite = is_finite && reduce_to_blocks(&f);
    for (int64_t i = 0; i < n * n; i++) {
        a[i] = is_finite ? ldexp(a[i], exponent) : NAN;
        z[i] = is_finite ? z[i] : NAN;
    }
}
