/* SPDX-License-Identifier: Apache-2.0 */
/* decomposition.c: see decomposition.h. */
#include "backend/cpu/linalg/decomposition.h"

#include "base/host/stop.h"

#include <math.h>
#include <string.h>

bool flxi_find_scale(const flxi_decomposing *s, int64_t i, int *exponent)
{
    double most = 0;
    bool is_finite = true;
    int64_t first = flxi_first_of(s, i);
    for (int64_t k = first; k < first + s->rows * s->cols && !flxi_stopped_by_now(); k++) {
        double x = fabs(flxi_load_element(s, k));
        is_finite = is_finite && x < INFINITY;
        most = x > most ? x : most;
    }
    *exponent = 0;
    if (is_finite)
        frexp(most, exponent);
    return is_finite;
}

flxi_power flxi_power_of(int exponent)
{
    return (flxi_power){ldexp(1, exponent / 2), ldexp(1, exponent - exponent / 2)};
}

void flxi_load_matrix(const flxi_decomposing *s, int64_t which, int exponent, double *a, int64_t step, bool turned)
{
    flxi_power p = flxi_power_of(-exponent);
    int64_t first = flxi_first_of(s, which);
    for (int64_t i0 = 0; i0 < s->rows && !flxi_stopped(); i0 += FLXI_TILE)
        for (int64_t j0 = 0; j0 < s->cols; j0 += FLXI_TILE)
            for (int64_t i = i0; i < s->rows && i < i0 + FLXI_TILE; i++)
                for (int64_t j = j0; j < s->cols && j < j0 + FLXI_TILE; j++)
                    a[turned ? j * step + i : i * step + j] =
                        flxi_times(flxi_load_element(s, first + i * s->cols + j), p);
}

void flxi_fill_nan(const flxi_decomposing *s, int result, int64_t which, int64_t count)
{
    for (int64_t k = 0; k < count && !flxi_stopped_by_now(); k++)
        flxi_store_element(s, result, which * count + k, NAN);
}

/* By merging. */
void flxi_sort_values(const double *d, int64_t n, bool descending, int64_t *order, int64_t *room)
{
    for (int64_t i = 0; i < n; i++)
        order[i] = i;
    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t low = 0; low < n; low += 2 * width) {
            int64_t middle = low + width < n ? low + width : n, end = low + 2 * width < n ? low + 2 * width : n;
            for (int64_t i = low, j = middle, k = low; k < end; k++) {
                bool is_second =
                    i == middle || (j < end && (descending ? d[order[j]] > d[order[i]] : d[order[j]] < d[order[i]]));
                room[k] = order[is_second ? j++ : i++];
            }
        }
        memcpy(order, room, (size_t)n * sizeof *order);
    }
}
