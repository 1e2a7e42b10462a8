/* SPDX-License-Identifier: Apache-2.0 */
/* sample.c: draws a token from logits. The tokens are sorted by logit once; each limit keeps a beginning of that order.
   Limits apply to the probabilities before the temperature changes them. */
#include "base/options.h"
#include "gguf/gguf_file.h"

#include <fluxion/decoder.h>
#include <math.h>
#include <stdlib.h>

typedef struct {
    double weight; /* logit, then probability */
    int32_t token;
} candidate;

/* Uniform in [0, 1): a counter that is mixed well (splitmix64). */
static double uniform(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

static int descending(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    if (x->weight != y->weight)
        return x->weight < y->weight ? 1 : -1;
    return (x->token > y->token) - (x->token < y->token);
}

/* Of the logits that are finite. */
static int64_t collect(candidate *c, const float *logits, int64_t count, int64_t *most_likely)
{
    int64_t n = 0, best = -1;
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(logits[i]))
            continue;
        if (best < 0 || logits[i] > logits[best])
            best = i;
        c[n++] = (candidate){(double)logits[i], (int32_t)i};
    }
    *most_likely = best;
    return n;
}

/* How many of the sorted candidates remain. */
static int64_t limit(const candidate *c, int64_t n, const flx_sampling *o)
{
    double sum = 0, part = 0;
    if (o->top_k > 0 && o->top_k < n)
        n = o->top_k;
    for (int64_t i = 0; i < n; i++)
        sum += exp(c[i].weight - c[0].weight);
    for (int64_t i = 0; i < n; i++) {
        double p = exp(c[i].weight - c[0].weight);
        if (p < o->min_p)
            return i > 0 ? i : 1;
        part += p;
        if (o->top_p > 0 && o->top_p < 1 && part >= o->top_p * sum)
            return i + 1;
    }
    return n;
}

static int32_t draw(candidate *c, int64_t n, double temperature, uint64_t *state)
{
    double sum = 0;
    const double most = c[0].weight;
    for (int64_t i = 0; i < n; i++) {
        c[i].weight = exp((c[i].weight - most) / temperature);
        sum += c[i].weight;
    }
    double left = uniform(state) * sum;
    for (int64_t i = 0; i < n; i++) {
        left -= c[i].weight;
        if (left < 0)
            return c[i].token;
    }
    return c[n - 1].token;
}

static flx_code check(const flx_sampling *o, flx_error *err)
{
    if (o->top_k < 0 || !(o->top_p >= 0 && o->top_p <= 1) || !(o->min_p >= 0 && o->min_p <= 1) ||
        !(o->temperature >= 0) || !isfinite(o->temperature))
        return flxi_fail(err, FLX_E_USAGE,
                         "flx_sample_token: top_k and temperature must not be negative, top_p and min_p "
                         "between 0 and 1");
    return FLX_OK;
}

int32_t flx_sample_token(flx_context *ctx, const float *logits, int64_t count, const flx_sampling *options,
                         uint64_t *state, flx_error *err)
{
    flx_sampling o;
    int64_t most_likely;
    int32_t token = -1;
    if (!ctx || !logits || count < 1 || count > INT32_MAX || !state) {
        flxi_fail(err, FLX_E_USAGE,
                  "flx_sample_token: a context, logits and the state of random numbers must be given");
        return -1;
    }
    if (FLXI_READ_OPTIONS(flx_sampling, &o, options, err) != FLX_OK || check(&o, err) != FLX_OK)
        return -1;
    const flxi_allocator *mem = flxi_context_mem(ctx);
    candidate *c = flxi_alloc(mem, (size_t)count, sizeof *c);
    if (!c) {
        flxi_oom(err, "logits");
        return -1;
    }
    int64_t n = collect(c, logits, count, &most_likely);
    if (n == 0) {
        flxi_fail(err, FLX_E_NUMERIC, "flx_sample_token: no logit is finite");
    } else if (o.temperature == 0) {
        token = (int32_t)most_likely;
    } else {
        qsort(c, (size_t)n, sizeof *c, descending);
        token = draw(c, limit(c, n, &o), o.temperature, state);
    }
    flxi_free(mem, c, (size_t)count, sizeof *c);
    return token;
}
