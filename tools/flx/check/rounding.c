/* SPDX-License-Identifier: Apache-2.0 */
/* rounding.c: the effect of rounding, measured. The reference evaluator runs the graph again with every floating input
   and parameter moved to a neighbouring number, up or down at random. What that changes, results of other roundings may
   differ by too: a sum whose terms cancel, or an exponential of a large number, has lost those digits on every device.

   A few runs see only a part of what can happen, so the largest change of an element counts 16 times, and at least the
   median change of its output counts. Where the inputs say nothing about half of the digits, the graph is too sensitive
   for this argument, and no more than half of the digits are given away. */
#include "check/rounding.h"

#include "io/elements.h"
#include "report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS = 4 };

static const double safety = 16;

/* ---- Dtypes ---- */

static double spacing(int32_t dtype)
{
    switch (dtype) {
    case FLX_BF16: return 0x1p-7;
    case FLX_F16: return 0x1p-10;
    case FLX_F32:
    case FLX_C64: return 0x1p-23;
    case FLX_F64:
    case FLX_C128: return 0x1p-52;
    default: return 0;
    }
}

double coarsest_spacing(const flx_graph *g)
{
    double worst = 0;
    flx_node_view node;
    for (size_t i = 0; flx_graph_node(g, i, &node) == FLX_OK; i++) {
        for (uint32_t k = 0; k < node.num_results; k++)
            worst = fmax(worst, spacing(flx_val_type(g, flx_node_result(g, i, k))->dtype));
        for (uint32_t k = 0; k < node.num_graphs; k++)
            worst = fmax(worst, coarsest_spacing(flx_node_graph(g, i, k)));
    }
    return worst;
}

/* ---- Inputs ---- */

/* The same for every run of the program: splitmix64. */
static uint64_t random_bits(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* Floats are ordered like the integers with the same bits, sign aside: the neighbours are one more and one less. Zeros,
   infinities and NaN stay. */
#define MOVE(name, type, exponent)                                                                \
    static void name(void *data, int64_t n, uint64_t seed)                                        \
    {                                                                                             \
        type *bits = data;                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                         \
            bool is_zero = (type)(bits[i] << 1) == 0;                                             \
            bool is_finite = (bits[i] & (exponent)) != (exponent);                                \
            if (!is_zero && is_finite)                                                            \
                bits[i] = (type)(bits[i] + (random_bits(seed + (uint64_t)i) & 1 ? 1 : (type)-1)); \
        }                                                                                         \
    }

MOVE(move_f16, uint16_t, 0x7c00u)
MOVE(move_bf16, uint16_t, 0x7f80u)
MOVE(move_f32, uint32_t, 0x7f800000u)
MOVE(move_f64, uint64_t, 0x7ff0000000000000u)

static void move_all(flx_tensor *t, uint64_t seed)
{
    int64_t n = flx_tensor_count(t);
    void *data = flx_tensor_data(t);
    switch (flx_tensor_type(t)->dtype) {
    case FLX_F16: move_f16(data, n, seed); break;
    case FLX_BF16: move_bf16(data, n, seed); break;
    case FLX_F32: move_f32(data, n, seed); break;
    case FLX_C64: move_f32(data, 2 * n, seed); break;
    case FLX_F64: move_f64(data, n, seed); break;
    case FLX_C128: move_f64(data, 2 * n, seed); break;
    default: break;
    }
}

static flx_tensor *moved_copy(const model *m, const flx_tensor *t, uint64_t seed, flx_error *err)
{
    flx_tensor *copy = flx_tensor_new(m->ctx, flx_tensor_type(t), flx_tensor_const_data(t), err);
    if (copy)
        move_all(copy, random_bits(seed));
    return copy;
}

/* ---- One run ---- */

/* Keeps the largest change of each element. */
static void keep_changes(rounding_effect *r, flx_tensor *const *results, flx_tensor *const *moved)
{
    for (size_t k = 0; k < r->count; k++)
        for (int64_t i = 0; r->bounds[k] && i < flx_tensor_count(results[k]); i++) {
            double re = flx_tensor_get(moved[k], i) - flx_tensor_get(results[k], i);
            double im = element_imaginary(moved[k], i) - element_imaginary(results[k], i);
            double change = hypot(re, im);
            r->bounds[k][i] = change > r->bounds[k][i] ? change : r->bounds[k][i]; /* NaN changes nothing */
        }
}

static int run_moved(rounding_effect *r, const model *m, const inputs *in, flx_tensor *const *results, uint64_t run)
{
    flx_error err = {0};
    flx_feed *feeds = calloc(in->num_feeds + 1, sizeof *feeds);
    flx_tensor **moved = calloc(r->count + 1, sizeof *moved);
    flx_run_options options = {
        .struct_size = sizeof options, .device = "ref", .dims = in->dims, .num_dims = in->num_dims};
    int status = feeds && moved ? STATUS_OK : fail_memory();
    for (size_t i = 0; !status && i < in->num_feeds; i++) {
        feeds[i] = (flx_feed){in->feeds[i].name, moved_copy(m, in->values[i], run << 32 | i, &err)};
        status = feeds[i].value ? STATUS_OK : report(&err, NULL);
    }
    if (!status && flx_run(m->graph, &options, feeds, in->num_feeds, moved, &err))
        status = report(&err, NULL);
    if (!status)
        keep_changes(r, results, moved);
    for (size_t i = 0; feeds && i < in->num_feeds; i++)
        flx_tensor_release((flx_tensor *)(uintptr_t)feeds[i].value);
    for (size_t k = 0; moved && k < r->count; k++)
        flx_tensor_release(moved[k]);
    free(feeds);
    free(moved);
    return status;
}

/* ---- Bounds ---- */

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int make_bounds(double *changes, const flx_tensor *result)
{
    int64_t n = flx_tensor_count(result);
    double largest = 1, *sorted = calloc((size_t)n + 1, sizeof *sorted);
    if (!sorted)
        return fail_memory();
    for (int64_t i = 0; i < n; i++) {
        double size = hypot(flx_tensor_get(result, i), element_imaginary(result, i));
        largest = isfinite(size) && size > largest ? size : largest;
        sorted[i] = changes[i];
    }
    qsort(sorted, (size_t)n, sizeof *sorted, by_size);
    double half_of_digits = sqrt(spacing(flx_tensor_type(result)->dtype)) * largest;
    for (int64_t i = 0; i < n; i++)
        changes[i] = fmin(safety * fmax(changes[i], sorted[n / 2]), half_of_digits);
    free(sorted);
    return STATUS_OK;
}

int rounding_measure(rounding_effect *r, const model *m, const inputs *in, flx_tensor *const *results)
{
    *r = (rounding_effect){.count = flx_graph_output_count(m->graph)};
    r->bounds = calloc(r->count + 1, sizeof *r->bounds);
    if (!r->bounds)
        return fail_memory();
    for (size_t k = 0; k < r->count; k++) {
        bool rounds = spacing(flx_tensor_type(results[k])->dtype) > 0;
        r->bounds[k] = rounds ? calloc((size_t)flx_tensor_count(results[k]) + 1, sizeof **r->bounds) : NULL;
        if (rounds && !r->bounds[k])
            return fail_memory();
    }
    int status = STATUS_OK;
    for (uint64_t run = 1; !status && run <= RUNS; run++)
        status = run_moved(r, m, in, results, run);
    for (size_t k = 0; !status && k < r->count; k++)
        status = r->bounds[k] ? make_bounds(r->bounds[k], results[k]) : STATUS_OK;
    return status;
}

void rounding_free(rounding_effect *r)
{
    for (size_t k = 0; r->bounds && k < r->count; k++)
        free(r->bounds[k]);
    free(r->bounds);
    *r = (rounding_effect){0};
}
