/* SPDX-License-Identifier: Apache-2.0 */
/* bundle.c: see bundle.h. */
#include "compile/bundle.h"

#include "compile/error_bound.h"
#include "graph/op/eval.h"
#include "graph/op/site.h"
#include "test.h"

#include <complex.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum { IS_NEAR, IS_EXACT, HAS_SIGNS } piece_rule;

typedef struct {
    flx_graph *g;
    flx_tensor **values, **expected;
    double **bounds; /* NULL before they are asked for */
    size_t nin, nout;
    char about[160];
    piece_rule rule;
} piece;

struct bundle {
    flx_context *ctx;
    piece *pieces;
    size_t n, cap;
};

/* What the compiler could not do although it should, in a context of bundle_context(); "": nothing. */
static char refused[500];

static void keep_refusal(void *user, flx_log_event event, const char *subject, const char *text)
{
    (void)user;
    if (event == FLX_LOG_REFUSED)
        snprintf(refused, sizeof refused, "%s: %s", subject, text);
}

flx_context *bundle_context(void)
{
    flx_context *ctx =
        flx_context_new(&(flx_context_options){.struct_size = sizeof(flx_context_options), .log = keep_refusal});
    CHECK(ctx);
    refused[0] = 0;
    return ctx;
}

/* ---- Filling ---- */

bundle *bundle_new(flx_context *ctx)
{
    bundle *b = calloc(1, sizeof *b);
    CHECK(b);
    b->ctx = ctx;
    return b;
}

static void free_tensors(flx_tensor **t, size_t n)
{
    for (size_t i = 0; t && i < n; i++)
        flx_tensor_release(t[i]);
    free(t);
}

void bundle_free(bundle *b)
{
    for (size_t i = 0; i < b->n; i++) {
        flx_graph_release(b->pieces[i].g);
        free_tensors(b->pieces[i].values, b->pieces[i].nin);
        free_tensors(b->pieces[i].expected, b->pieces[i].nout);
        for (size_t k = 0; b->pieces[i].bounds && k < b->pieces[i].nout; k++)
            free(b->pieces[i].bounds[k]);
        free(b->pieces[i].bounds);
    }
    free(b->pieces);
    free(b);
}

size_t bundle_size(const bundle *b)
{
    return b->n;
}

static flx_code run_reference(piece *p, flx_error *err)
{
    flx_feed *feeds = calloc(p->nin + 1, sizeof *feeds);
    CHECK(feeds);
    for (size_t i = 0; i < p->nin; i++)
        feeds[i] = (flx_feed){flx_val_name(p->g, flx_graph_input(p->g, i)), p->values[i]};
    flx_run_options o = {.device = "ref"};
    flx_code code = flx_run(p->g, &o, feeds, p->nin, p->expected, err);
    free(feeds);
    return code;
}

static bool add_piece(bundle *b, const flx_graph *g, flx_tensor *const *values, const char *about, piece_rule rule)
{
    flx_error err = {0};
    if (b->n == b->cap) {
        b->cap = b->cap ? 2 * b->cap : 16;
        b->pieces = realloc(b->pieces, b->cap * sizeof *b->pieces);
        CHECK(b->pieces);
    }
    piece *p = &b->pieces[b->n];
    *p = (piece){.nin = flx_graph_input_count(g), .nout = flx_graph_output_count(g), .rule = rule};
    p->g = flx_graph_retain((flx_graph *)(uintptr_t)g);
    p->values = calloc(p->nin + 1, sizeof *p->values);
    p->expected = calloc(p->nout + 1, sizeof *p->expected);
    CHECK(p->values && p->expected);
    memcpy(p->values, values, p->nin * sizeof *values);
    snprintf(p->about, sizeof p->about, "%s", about);
    if (run_reference(p, &err) == FLX_OK) {
        b->n++;
        return true;
    }
    flx_graph_release(p->g);
    free_tensors(p->values, p->nin);
    free(p->expected);
    return false;
}

bool bundle_add(bundle *b, const flx_graph *g, flx_tensor *const *values, const char *about)
{
    return add_piece(b, g, values, about, IS_NEAR);
}

bool bundle_add_exact(bundle *b, const flx_graph *g, flx_tensor *const *values, const char *about)
{
    return add_piece(b, g, values, about, IS_EXACT);
}

bool bundle_add_signs(bundle *b, const flx_graph *g, flx_tensor *const *values, const char *about)
{
    return add_piece(b, g, values, about, HAS_SIGNS);
}

bool bundle_add_copy(bundle *b, const flx_graph *g, bundle_find find, const void *user, const char *about)
{
    enum { MOST = 64 };
    flx_error err = {0};
    flx_buffer bytes;
    flx_tensor *values[MOST];
    CHECK_OK(flx_graph_encode(g, &bytes, &err), &err);
    flx_module *m = flx_decode(b->ctx, bytes.data, bytes.size, "piece", &err);
    CHECK_MSG(m, "%s: %s", about, err.message);
    flx_graph *copy = flx_module_main(m);
    size_t n = flx_graph_input_count(copy);
    CHECK(n <= MOST);
    for (size_t i = 0; i < n; i++) {
        const char *name = flx_val_name(copy, flx_graph_input(copy, i));
        const flx_tensor *t = find(user, name);
        CHECK_MSG(t, "%s: no value for %s", about, name);
        values[i] = flx_tensor_new(b->ctx, flx_tensor_type(t), flx_tensor_const_data(t), &err);
        CHECK_MSG(values[i], "%s", err.message);
    }
    bool added = bundle_add(b, copy, values, about);
    flx_module_free(m);
    flx_buffer_free(&bytes);
    return added;
}

/* ---- The whole ---- */

static flx_graph *join(const bundle *b)
{
    flx_graph *all = flx_graph_new(b->ctx, "bundle");
    CHECK(all);
    for (size_t i = 0; i < b->n; i++) {
        const piece *p = &b->pieces[i];
        flx_val *in = calloc(p->nin + 1, sizeof *in), *out = calloc(p->nout + 1, sizeof *out);
        char name[60];
        for (size_t k = 0; k < p->nin; k++) {
            snprintf(name, sizeof name, "i%zu_%zu", i, k);
            in[k] = flx_input(all, name, flx_val_type(p->g, flx_graph_input(p->g, k)));
        }
        flxi_inline(all, p->g, in, out);
        for (size_t k = 0; k < p->nout; k++) {
            snprintf(name, sizeof name, "o%zu_%zu", i, k);
            flx_output(all, out[k], name);
        }
        free(in);
        free(out);
    }
    flx_error err = {0};
    CHECK_OK(flx_graph_error(all, &err), &err);
    return all;
}

flx_graph *bundle_join(const bundle *b, flx_feed **feeds)
{
    flx_graph *all = join(b);
    size_t at = 0;
    *feeds = calloc(flx_graph_input_count(all) + 1, sizeof **feeds);
    CHECK(*feeds);
    for (size_t i = 0; i < b->n; i++)
        for (size_t k = 0; k < b->pieces[i].nin; k++, at++)
            (*feeds)[at] = (flx_feed){flx_val_name(all, flx_graph_input(all, at)), b->pieces[i].values[k]};
    return all;
}

/* ---- Comparing ---- */

double *const *bundle_bounds(bundle *b, size_t i)
{
    piece *p = &b->pieces[i];
    if (!p->bounds) {
        p->bounds = calloc(p->nout + 1, sizeof *p->bounds);
        CHECK(p->bounds);
        noise_bounds(p->g, p->values, p->expected, p->bounds);
    }
    return p->bounds;
}

/* |y|, or what of it is finite. */
static double size_of(double _Complex y)
{
    double re = isfinite(creal(y)) ? creal(y) : 0, im = isfinite(cimag(y)) ? cimag(y) : 0;
    return hypot(re, im);
}

static bool is_near(double a, double b, double tolerance, piece_rule rule)
{
    bool is_exact = rule == IS_EXACT;
    if (rule == HAS_SIGNS)
        return a != 0 || b != 0 || signbit(a) == signbit(b);
    if (isnan(a) || isnan(b))
        return isnan(a) && isnan(b);
    if (a == b)
        return !is_exact || signbit(a) == signbit(b);
    return !is_exact && isfinite(a) && isfinite(b) && fabs(a - b) <= tolerance;
}

/* `more` is what noise does to each element, or NULL. */
static int64_t first_difference(const flx_tensor *a, const flx_tensor *b, const double *more, piece_rule rule)
{
    int32_t dtype = a->type.dtype;
    size_t size = flx_dtype_size(dtype);
    for (int64_t i = 0; i < a->count; i++) {
        if (unit_of(dtype) == 0) {
            if (rule != HAS_SIGNS &&
                memcmp((const char *)a->data + (size_t)i * size, (const char *)b->data + (size_t)i * size, size) != 0)
                return i;
            continue;
        }
        double _Complex x = flxi_load_complex(dtype, a->data, i), y = flxi_load_complex(dtype, b->data, i);
        double tolerance = element_bound(dtype, size_of(y)) + (more ? more[i] : 0);
        if (!is_near(creal(x), creal(y), tolerance, rule) || !is_near(cimag(x), cimag(y), tolerance, rule))
            return i;
    }
    return -1;
}

/* Noise is asked for only where a few units are not enough. */
static void compare_piece(bundle *b, size_t i, flx_tensor *const *out, const char *way)
{
    const piece *p = &b->pieces[i];
    for (size_t k = 0; k < p->nout; k++) {
        double more = 0;
        double _Complex x = 0, y = 0;
        int64_t bad = first_difference(out[k], p->expected[k], NULL, p->rule);
        if (bad >= 0 && p->rule == IS_NEAR)
            bad = first_difference(out[k], p->expected[k], bundle_bounds(b, i)[k], IS_NEAR);
        if (bad >= 0) {
            x = flxi_load_complex(out[k]->type.dtype, out[k]->data, bad);
            y = flxi_load_complex(out[k]->type.dtype, p->expected[k]->data, bad);
            more = p->bounds && p->bounds[k] ? p->bounds[k][bad] : 0;
        }
        EXPECT_MSG(bad < 0, "%s, %s: output %zu differs at %lld: %.17g%+.17gi instead of %.17g%+.17gi (noise %.3g)",
                   p->about, way, k, (long long)bad, creal(x), cimag(x), creal(y), cimag(y), more);
    }
    test_count_case();
}

typedef struct {
    const flx_graph *g;
    const flx_feed *feeds;
    size_t nin, nout;
} whole;

/* A compiler that fails leaves the evaluator, which would agree with itself. */
static void check_is_compiled(const flx_exec *e, const flx_compile_options *o)
{
    flx_error err = {0};
    flx_buffer report = {0};
    CHECK_MSG(!refused[0], "%s", refused);
    if (o->flags & FLX_COMPILE_INTERPRET)
        return;
    CHECK_OK(flx_exec_report(e, &report, &err), &err);
    const char *note = strstr(report.data, "note: no machine code");
    CHECK_MSG(!note, "%s", note);
    flx_buffer_free(&report);
}

static flx_tensor **run_whole(const whole *w, const flx_compile_options *o)
{
    flx_error err = {0};
    flx_exec *e = NULL;
    flx_tensor **out = calloc(w->nout + 1, sizeof *out);
    CHECK(out);
    e = flx_compile(w->g, o, &err);
    CHECK_MADE(e, &err);
    check_is_compiled(e, o);
    CHECK_OK(flx_exec_run(e, NULL, w->feeds, w->nin, out, &err), &err);
    flx_exec_free(e);
    return out;
}

static void compare_bits(const bundle *b, flx_tensor *const *one, flx_tensor *const *several, const char *way)
{
    size_t at = 0;
    for (size_t i = 0; i < b->n; i++)
        for (size_t k = 0; k < b->pieces[i].nout; k++, at++)
            EXPECT_MSG(memcmp(flx_tensor_const_data(one[at]), flx_tensor_const_data(several[at]),
                              flx_tensor_nbytes(one[at])) == 0,
                       "%s, %s: output %zu depends on the number of threads", b->pieces[i].about, way, k);
}

void bundle_compare(bundle *b, flx_tensor *const *out, const char *way)
{
    for (size_t i = 0; i < b->n; out += b->pieces[i++].nout)
        compare_piece(b, i, out, way);
}

static bool is_nan(double _Complex z)
{
    return isnan(creal(z)) || isnan(cimag(z));
}

static bool has_same_bits(const flx_tensor *a, const flx_tensor *b)
{
    int32_t dtype = a->type.dtype;
    size_t size = flx_dtype_size(dtype);
    for (int64_t i = 0; i < a->count; i++) {
        size_t at = (size_t)i * size;
        if (memcmp((const char *)a->data + at, (const char *)b->data + at, size) == 0)
            continue;
        if (unit_of(dtype) == 0 || !is_nan(flxi_load_complex(dtype, a->data, i)) ||
            !is_nan(flxi_load_complex(dtype, b->data, i)))
            return false;
    }
    return true;
}

void bundle_compare_bits(const bundle *b, flx_tensor *const *one, flx_tensor *const *other, bundle_differs differs)
{
    size_t at = 0;
    for (size_t i = 0; i < b->n; at += b->pieces[i++].nout) {
        bool same = true;
        for (size_t k = 0; k < b->pieces[i].nout; k++)
            same &= has_same_bits(one[at + k], other[at + k]);
        if (!same)
            differs(b->pieces[i].g, b->pieces[i].about);
    }
}

void bundle_check_and(bundle *b, size_t way, bundle_visit visit, void *user)
{
    flx_feed *feeds;
    size_t at = 0;
    if (b->n == 0)
        return;
    flx_graph *all = bundle_join(b, &feeds);
    whole w = {all, feeds, flx_graph_input_count(all), flx_graph_output_count(all)};
    flx_compile_options o = way_begin(way);
    flx_tensor **out = run_whole(&w, &o);
    if (o.threads > 1) {
        o.threads = 1;
        flx_tensor **one = run_whole(&w, &o);
        compare_bits(b, one, out, way_name(way));
        free_tensors(one, w.nout);
    }
    way_end();
    for (size_t i = 0; i < b->n; at += b->pieces[i++].nout) {
        compare_piece(b, i, out + at, way_name(way));
        if (visit)
            visit(user, i, out + at);
    }
    free_tensors(out, w.nout);
    free(feeds);
    flx_graph_release(all);
}

void bundle_check(bundle *b, size_t way)
{
    bundle_check_and(b, way, NULL, NULL);
}

/* ---- A bundle for each way ---- */

static void close_bundle(bundle_spread *s, size_t way)
{
    if (!s->at[way].b)
        return;
    s->check(s->at[way].b, way);
    bundle_free(s->at[way].b);
    flx_context_free(s->at[way].ctx);
    s->at[way].b = NULL;
}

bundle *bundle_spread_open(bundle_spread *s, size_t way)
{
    if (s->at[way].b && s->at[way].b->n >= s->most)
        close_bundle(s, way);
    if (!s->at[way].b) {
        s->at[way].ctx = bundle_context();
        s->at[way].b = bundle_new(s->at[way].ctx);
    }
    return s->at[way].b;
}

void bundle_spread_end(bundle_spread *s)
{
    for (size_t way = 0; way < WAY_COUNT; way++)
        close_bundle(s, way);
}

bool bundle_spread_copy(bundle_spread *s, const flx_graph *g, bundle_find find, const void *user, const char *about)
{
    for (size_t way = 0; way < WAY_COUNT; way++)
        if (way_takes(way, about) && !bundle_add_copy(bundle_spread_open(s, way), g, find, user, about))
            return false;
    return true;
}
