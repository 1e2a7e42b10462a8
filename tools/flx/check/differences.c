/* SPDX-License-Identifier: Apache-2.0 */
/* differences.c: Richardson's extrapolation in the form of Ridders. Central differences with steps h, h/2, h/4 ... have
   errors in even powers of the step, so each pair of neighbours gives a better value, each pair of those a still better
   one, and so on:

       a[k][0] = difference with step h / 2^k        a[k][j] = a[k][j-1] + (a[k][j-1] - a[k-1][j-1]) / (4^j - 1)

   Of all entries, the one is taken that differs least from the two it was made of; what rounding may have moved it by
   counts as a difference. Large steps are exact up to truncation, small ones lose digits until they agree by chance, as
   zeros, and steps across a kink, a jump or the edge of the domain are wrong altogether: then entries made of smaller
   steps alone agree better. */
#include "check/differences.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

enum { MAX_STEPS = 18 };

static const double first_step = 0x1p-8;

typedef struct {
    size_t count;
    double *row[2]; /* a[k-1] and a[k]: MAX_STEPS values of each component */
    double *slope;  /* a[k][0] of each component */
    double *noise;  /* of a[k][0] */
    double *blur;   /* of each component, the most that rounding moved a difference by so far, times its step */
    double *least;  /* the difference by which the best entry was chosen; infinite while there is none */
} tableau;

double scaled_error(double a, double b)
{
    double e = fabs(a - b) / fmax(1, fmax(fabs(a), fabs(b)));
    return isfinite(a) && isfinite(b) ? e : INFINITY;
}

double rounding_of(double size)
{
    return 4 * 0x1p-52 * fabs(size);
}

/* An entry is a weighted mean of differences with weights of both signs: their sizes add up to less than 2. */
static void add_row(tableau *t, size_t i, int k, double h, double *found, double *noise)
{
    t->blur[i] = fmax(t->blur[i], t->noise[i] * h);
    double moved = 2 * t->blur[i] / h;
    const double *before = t->row[0] + i * MAX_STEPS;
    double *now = t->row[1] + i * MAX_STEPS;
    now[0] = t->slope[i];
    double factor = 4;
    for (int j = 1; j <= k; j++, factor *= 4) {
        now[j] = now[j - 1] + (now[j - 1] - before[j - 1]) / (factor - 1);
        double apart = fmax(fabs(now[j] - now[j - 1]), fabs(now[j] - before[j - 1])) + moved;
        if (isfinite(now[j]) && apart < t->least[i]) {
            t->least[i] = apart;
            found[i] = now[j];
            noise[i] = moved;
        }
    }
}

/* Adds the row of step k; says whether all components are close to what is claimed. */
static bool add_rows(tableau *t, int k, double h, const double *claimed, double close, double *found, double *noise)
{
    bool all_close = k > 0;
    for (size_t i = 0; i < t->count; i++) {
        add_row(t, i, k, h, found, noise);
        all_close = all_close && scaled_error(found[i], claimed[i]) <= close;
    }
    double *before = t->row[0];
    t->row[0] = t->row[1];
    t->row[1] = before;
    return all_close;
}

static bool tableau_new(tableau *t, size_t count)
{
    *t = (tableau){.count = count};
    for (int k = 0; k < 2; k++)
        t->row[k] = calloc(count * MAX_STEPS + 1, sizeof(double));
    t->slope = calloc(count + 1, sizeof(double));
    t->noise = calloc(count + 1, sizeof(double));
    t->blur = calloc(count + 1, sizeof(double));
    t->least = calloc(count + 1, sizeof(double));
    for (size_t i = 0; t->least && i < count; i++)
        t->least[i] = INFINITY;
    return t->row[0] && t->row[1] && t->slope && t->noise && t->blur && t->least;
}

static void tableau_free(tableau *t)
{
    free(t->row[0]);
    free(t->row[1]);
    free(t->slope);
    free(t->noise);
    free(t->blur);
    free(t->least);
}

flx_code differentiate_numerically(slope_fn slope, void *user, size_t count, const double *claimed, double close,
                                   double *found, double *noise, flx_error *err)
{
    tableau t;
    flx_code code = FLX_OK;
    if (!tableau_new(&t, count)) {
        *err = (flx_error){.code = FLX_E_OOM, .message = "out of memory"};
        code = FLX_E_OOM;
    }
    for (size_t i = 0; i < count; i++) {
        found[i] = NAN;
        noise[i] = 0;
    }
    double h = first_step;
    for (int k = 0; code == FLX_OK && k < MAX_STEPS; k++, h /= 2) {
        code = slope(user, h, t.slope, t.noise, err);
        if (code == FLX_OK && add_rows(&t, k, h, claimed, close, found, noise))
            break;
    }
    tableau_free(&t);
    return code;
}
