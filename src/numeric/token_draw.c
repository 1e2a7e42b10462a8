/* SPDX-License-Identifier: Apache-2.0 */
/* token_draw.c: see token_draw.h. */
#include "numeric/token_draw.h"

#include "numeric/merge_sort.h"

#include <math.h>

int64_t flxi_argmax(const double *row, int64_t n)
{
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (row[i] > row[best])
            best = i;
    return best;
}

static bool logit_before(void *user, int64_t a, int64_t b)
{
    const double *logit = user;
    return logit[a] > logit[b];
}

/* Softmax of a token, not divided by the sum. The largest logit, infinite or not, has the weight 1. */
static double weight_of(const flxi_token_row *row, int64_t i)
{
    if (row->logit[i] == row->most)
        return 1;
    return isinf(row->most) || isinf(row->logit[i]) ? 0 : exp((row->logit[i] - row->most) / row->temperature);
}

static void cut_row(flxi_token_row *row)
{
    int64_t kept = row->top_k > 0 && row->top_k < row->n ? row->top_k : row->n;
    if (kept == row->n && row->top_p >= 1)
        return;
    for (int64_t i = 0; i < row->n; i++)
        row->order[i] = i;
    const int64_t *order = flxi_sort_positions(row->order, row->order + row->n, row->n, logit_before, row->logit);
    if (row->top_p < 1) {
        double total = 0;
        for (int64_t i = 0; i < kept; i++)
            total += weight_of(row, order[i]);
        double held = weight_of(row, order[0]);
        int64_t prefix = 1;
        while (prefix < kept && held < row->top_p * total)
            held += weight_of(row, order[prefix++]);
        kept = prefix;
    }
    for (int64_t i = kept; i < row->n; i++)
        row->logit[order[i]] = -INFINITY;
}

int64_t flxi_draw_token(flxi_token_row *row, double u)
{
    double total = 0;
    double held = 0;
    int64_t last = 0;
    row->most = row->logit[flxi_argmax(row->logit, row->n)];
    cut_row(row);
    for (int64_t i = 0; i < row->n; i++)
        total += weight_of(row, i);
    for (int64_t i = 0; i < row->n; i++) {
        double w = weight_of(row, i);
        held += w;
        if (u * total < held)
            return i;
        if (w > 0)
            last = i;
    }
    return last;
}
