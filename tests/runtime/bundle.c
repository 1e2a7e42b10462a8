/* bundle.c: see bundle.h. */
#include "bundle.h"

#include "../test.h"
#include "ir/eval.h"
#include "ir/site.h"

#include <complex.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    flx_graph *g;
    flx_tensor **values, **expected;
    size_t nin, nout;
    char about[160];
    bundle_rule rule;
} piece;

struct bundle {
    flx_context *ctx;
    piece *pieces;
    size_t n, cap;
};

const bundle_rule bundle_usual = {.element = 8, .overall = 4};

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
        flx_graph_free(b->pieces[i].g);
        free_tensors(b->pieces[i].values, b->pieces[i].nin);
        free_tensors(b->pieces[i].expected, b->pieces[i].nout);
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

bool bundle_add(bundle *b, const flx_graph *g, flx_tensor *const *values, const char *about, const bundle_rule *rule)
{
    flx_error err = {0};
    if (b->n == b->cap) {
        b->cap = b->cap ? 2 * b->cap : 16;
        b->pieces = realloc(b->pieces, b->cap * sizeof *b->pieces);
        CHECK(b->pieces);
    }
    piece *p = &b->pieces[b->n];
    *p = (piece){.nin = flx_graph_input_count(g), .nout = flx_graph_output_count(g), .rule = *rule};
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
    flx_graph_free(p->g);
    free_tensors(p->values, p->nin);
    free(p->expected);
    return false;
}

bool bundle_add_copy(bundle *b, const flx_graph *g, bundle_find find, const void *user, const char *about,
                     const bundle_rule *rule)
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
        values[i] = flx_tensor_new(b->ctx, flx_tensor_type(t), flx_tensor_bytes(t), &err);
        CHECK_MSG(values[i], "%s", err.message);
    }
    bool added = bundle_add(b, copy, values, about, rule);
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

void bundle_run(bundle *b, const flx_compile_options *o, bundle_visit visit, void *user)
{
    flx_error err = {0};
    flx_exec *e = NULL;
    flx_feed *feeds;
    if (b->n == 0)
        return;
    flx_graph *all = bundle_join(b, &feeds);
    size_t nin = flx_graph_input_count(all), nout = flx_graph_output_count(all), at = 0;
    flx_tensor **out = calloc(nout + 1, sizeof *out);
    CHECK(out);
    CHECK_OK(flx_compile(all, o, &e, &err), &err);
    CHECK_OK(flx_exec_run(e, NULL, feeds, nin, out, &err), &err);
    for (size_t i = 0; i < b->n; at += b->pieces[i++].nout)
        visit(user, i, out + at);
    flx_exec_free(e);
    free_tensors(out, nout);
    free(feeds);
    flx_graph_free(all);
}

/* ---- Comparing ---- */

/* The distance of 1 to the next number; 0 for dtypes that are exact. */
static double unit_of(int32_t dtype)
{
    return flxi_is_float(dtype) || flxi_is_complex(dtype) ? ldexp(1, 1 - flxi_mantissa_bits(dtype)) : 0;
}

static double largest(const flx_tensor *t)
{
    double most = 0;
    for (int64_t i = 0; i < t->count; i++) {
        double x = cabs(flxi_load_complex(t->type.dtype, t->data, i));
        most = isfinite(x) && x > most ? x : most;
    }
    return most;
}

/* |y|, or what of it is finite. */
static double size_of(double _Complex y)
{
    double re = isfinite(creal(y)) ? creal(y) : 0, im = isfinite(cimag(y)) ? cimag(y) : 0;
    return hypot(re, im);
}

static bool is_near(double a, double b, double tolerance, bool is_exact)
{
    if (isnan(a) || isnan(b))
        return isnan(a) && isnan(b);
    if (a == b)
        return !is_exact || signbit(a) == signbit(b);
    return !is_exact && isfinite(a) && isfinite(b) && fabs(a - b) <= tolerance;
}

static double coarsest_unit(const piece *p, double unit)
{
    for (size_t i = 0; p->rule.is_mixed && i < p->nin; i++)
        unit = fmax(unit, unit_of(p->values[i]->type.dtype));
    return unit;
}

static int64_t first_difference(const flx_tensor *a, const flx_tensor *b, const piece *p)
{
    const bundle_rule *r = &p->rule;
    int32_t dtype = a->type.dtype;
    double unit = unit_of(dtype) > 0 ? coarsest_unit(p, unit_of(dtype)) : 0, most = largest(b);
    size_t size = flx_dtype_size(dtype);
    for (int64_t i = 0; i < a->count; i++) {
        if (unit == 0) {
            if (memcmp((const char *)a->data + (size_t)i * size, (const char *)b->data + (size_t)i * size, size) != 0)
                return i;
            continue;
        }
        double _Complex x = flxi_load_complex(dtype, a->data, i), y = flxi_load_complex(dtype, b->data, i);
        double magnitude = size_of(y);
        double tolerance = unit * (r->element * magnitude + r->overall * most + r->least);
        if (!is_near(creal(x), creal(y), tolerance, r->is_exact) ||
            !is_near(cimag(x), cimag(y), tolerance, r->is_exact))
            return i;
    }
    return -1;
}

typedef struct {
    const bundle *b;
    char way[80];
} comparison;

static void compare(void *user, size_t i, flx_tensor *const *out)
{
    const comparison *c = user;
    const piece *p = &c->b->pieces[i];
    for (size_t k = 0; k < p->nout; k++) {
        int64_t bad = first_difference(out[k], p->expected[k], p);
        double _Complex x = 0, y = 0;
        if (bad >= 0) {
            x = flxi_load_complex(out[k]->type.dtype, out[k]->data, bad);
            y = flxi_load_complex(out[k]->type.dtype, p->expected[k]->data, bad);
        }
        EXPECT_MSG(bad < 0, "%s, %s: output %zu differs at %lld: %.17g%+.17gi instead of %.17g%+.17gi", p->about,
                   c->way, k, (long long)bad, creal(x), cimag(x), creal(y), cimag(y));
    }
    test_count_case();
}

void bundle_check(bundle *b, const flx_compile_options *o)
{
    comparison c = {.b = b};
    snprintf(c.way, sizeof c.way, "flags %u, %d threads, level %d", o ? o->flags : 0, o ? o->threads : 0,
             o ? o->optimisation : 0);
    bundle_run(b, o, compare, &c);
}

/* ---- Which cases, in which ways ---- */

bool bundle_turn(unsigned share)
{
    static uint64_t turn;
    const char *rarely = getenv("FLX_COMPILED_RARELY");
    uint64_t n = rarely ? strtoull(rarely, NULL, 10) : 1;
    return getenv("FLX_COMPILED_ALL") || (turn++ + test_seed()) % (share * (n ? n : 1)) == 0;
}

static const struct {
    const char *name;
    flx_compile_options o;
} ways[] = {
    {"fused", {.threads = 1}},
    {"fused, 2 threads", {.threads = 2}},
    {"unfused", {.threads = 1, .flags = FLX_COMPILE_UNFUSED}},
    {"interpreted", {.threads = 1, .flags = FLX_COMPILE_INTERPRET}},
    {"scalar -O0", {.threads = 1, .flags = FLX_COMPILE_SCALAR, .optimisation = 1}},
    {"fused -O3", {.threads = 2, .optimisation = 4}},
};

size_t bundle_ways(void)
{
    return sizeof ways / sizeof *ways;
}

const char *bundle_way(size_t i, flx_compile_options *o)
{
    *o = ways[i].o;
    return ways[i].name;
}
