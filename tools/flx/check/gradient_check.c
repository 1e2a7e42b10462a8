/* SPDX-License-Identifier: Apache-2.0 */
/* gradient_check.c: what the library claims against what differences find.

   Finite differences of the loss are taken element by element before they are summed up, so that a loss with large
   elements does not drown those that change. All inputs are f64 or c128, so their tensors are arrays of doubles, and by
   the convention for complex gradients (dL/dx + i dL/dy) the gradient is such an array too, of the same length. */
#include "check/gradient_check.h"

#include "check/differences.h"
#include "io/elements.h"

#include <fluxion/run.h>
#include <fluxion/transform.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t many_elements = 2000; /* of one input: beyond, only some are checked */
static const int64_t chosen_elements = 200;

typedef struct {
    const check_point *point;
    const flx_graph *graph; /* the one that is run for differences */
    flx_tensor *weights;    /* of the elements of the loss; NULL: it is one real element */
    double *before;         /* room for the numbers of the loss */
    size_t varied;          /* order 1: which input of wrt is moved ... */
    int64_t number;         /* ... and which number of it */
    double inside;          /* what rounding within the loss moves it by, once that was asked for */
    flx_tensor **start;     /* order 2: of each input of wrt where it was ... */
    flx_tensor **tangents;  /* ... and where to it moves */
    size_t total;           /* of numbers in them */
} checking;

/* ---- Numbers ---- */

static flx_code out_of_memory(flx_error *err)
{
    *err = (flx_error){.code = FLX_E_OOM, .message = "out of memory"};
    return FLX_E_OOM;
}

/* splitmix64: a fixed sequence, the same on every machine. */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* In [0, 1). */
static double next_unit(uint64_t *state)
{
    return (double)(next_random(state) >> 11) * 0x1p-53;
}

static double next_weight(uint64_t *state)
{
    double size = 0.5 + next_unit(state);
    return next_random(state) >> 63 ? -size : size;
}

static double *numbers(flx_tensor *t)
{
    return flx_tensor_data(t);
}

static int64_t number_count(const flx_tensor *t)
{
    return (int64_t)(flx_tensor_nbytes(t) / sizeof(double));
}

/* A tensor of the type with random weights. */
static flx_tensor *random_tensor(const flx_graph *g, const flx_type *type, uint64_t seed, flx_error *err)
{
    flx_tensor *t = flx_tensor_new(flx_graph_context(g), type, NULL, err);
    for (int64_t i = 0; t && i < number_count(t); i++)
        numbers(t)[i] = next_weight(&seed);
    return t;
}

/* ---- Running ---- */

static void release_all(flx_tensor **tensors, size_t n)
{
    for (size_t i = 0; tensors && i < n; i++)
        flx_tensor_release(tensors[i]);
    free(tensors);
}

/* Runs g, whose inputs are those of the point, then the weights where g has them, then tangents; gives its outputs,
   which the caller releases. */
static flx_code run_at(const checking *c, const flx_graph *g, flx_tensor ***outputs, flx_error *err)
{
    const inputs *at = c->point->at;
    size_t n = flx_graph_input_count(g);
    flx_feed *feeds = calloc(n + 1, sizeof *feeds);
    *outputs = calloc(flx_graph_output_count(g) + 1, sizeof **outputs);
    flx_code code = feeds && *outputs ? FLX_OK : out_of_memory(err);
    for (size_t i = 0; code == FLX_OK && i < n; i++) {
        size_t more = i - at->num_feeds; /* wraps for the inputs of the point */
        bool is_weight = c->weights && more == 0;
        feeds[i].name = flx_val_name(g, flx_graph_input(g, i));
        feeds[i].value = i < at->num_feeds ? at->values[i]
                         : is_weight       ? c->weights
                                           : c->tangents[more - (c->weights ? 1 : 0)];
    }
    flx_run_options options = {.struct_size = sizeof options,
                               .device = "ref",
                               .dims = at->dims,
                               .num_dims = dims_of_graph(g, at->dims, at->num_dims)};
    if (code == FLX_OK)
        code = flx_run(g, &options, feeds, n, *outputs, err);
    if (code != FLX_OK) {
        err->where[0] = 0; /* the message names the op */
        free(*outputs);
        *outputs = NULL;
    }
    free(feeds);
    return code;
}

/* ---- The loss ---- */

static bool is_one_number(const flx_type *t)
{
    bool one = t->dtype == FLX_F64;
    for (int32_t i = 0; i < t->rank; i++)
        one = one && t->dims[i] == 1;
    return one;
}

/* Runs the graph once, to see that its loss can be computed, and makes weights if there are to be any. */
static flx_code weigh_loss(checking *c, flx_error *err)
{
    const flx_graph *g = c->point->graph;
    flx_tensor **y;
    const flx_type *type = flx_val_type(g, flx_graph_output(g, 0));
    if (kind_of(type->dtype) != KIND_FLOAT && kind_of(type->dtype) != KIND_COMPLEX)
        return FLX_OK; /* the library says what is wrong with that */
    flx_code code = run_at(c, g, &y, err);
    if (code != FLX_OK)
        return code;
    for (int64_t i = 0; code == FLX_OK && i < number_count(y[0]); i++) {
        if (isfinite(numbers(y[0])[i]))
            continue;
        code = FLX_E_NUMERIC;
        *err = (flx_error){.code = code, .hint = "choose inputs where it is defined, as in --in NAME=uniform"};
        snprintf(err->message, sizeof err->message, "the loss '%.100s' is not finite at these inputs",
                 flx_graph_output_name(g, 0));
    }
    c->before = code == FLX_OK ? calloc((size_t)number_count(y[0]) + 1, sizeof *c->before) : NULL;
    if (code == FLX_OK && !c->before)
        code = out_of_memory(err);
    if (code == FLX_OK && !is_one_number(type)) {
        c->weights = random_tensor(g, flx_tensor_type(y[0]), 1, err);
        code = c->weights ? FLX_OK : (flx_code)err->code;
    }
    release_all(y, flx_graph_output_count(g));
    return code;
}

/* What rounding may have moved the change of element i by. Of several, those that do not change say nothing. */
static double noise_of(const checking *c, int64_t i, double after)
{
    if (c->weights && after == c->before[i])
        return 0;
    double weight = c->weights ? numbers(c->weights)[i] : 1;
    return rounding_of(weight * fmax(fabs(c->before[i]), fabs(after)));
}

/* The change of the loss when the number moves from a to b. An output may be an input itself, so what is needed of the
   outputs is taken before that moves on. */
static flx_code loss_change(checking *c, double a, double b, double *change, double *noise, flx_error *err)
{
    double *x = numbers(c->point->at->values[c->point->wrt[c->varied]]) + c->number;
    double kept = *x;
    size_t num_outputs = flx_graph_output_count(c->graph);
    flx_tensor **y = NULL;
    *change = 0;
    *noise = 0;
    *x = a;
    flx_code code = run_at(c, c->graph, &y, err);
    if (code == FLX_OK)
        memcpy(c->before, numbers(y[0]), flx_tensor_nbytes(y[0]));
    release_all(y, num_outputs);
    *x = b;
    y = NULL;
    if (code == FLX_OK)
        code = run_at(c, c->graph, &y, err);
    for (int64_t i = 0; code == FLX_OK && i < number_count(y[0]); i++) {
        double after = numbers(y[0])[i];
        *change += (c->weights ? numbers(c->weights)[i] : 1) * (after - c->before[i]);
        *noise += noise_of(c, i, after);
    }
    *noise += 2 * c->inside;
    release_all(y, num_outputs);
    *x = kept;
    return code;
}

/* ---- Rounding within the loss ---- */

enum { NEIGHBOURS = 7 };

/* The size of the rounding errors in f, values at points so close that all else in them is a polynomial of low degree:
   differences of order k of independent errors have k!^2 / (2k)! times their variance. That of the orders which agree
   best is taken (Hamming; More and Wild). */
static double spread_of(double f[NEIGHBOURS])
{
    double share = 1, before = INFINITY, best = 0, least = INFINITY;
    for (int k = 1; k < NEIGHBOURS; k++) {
        double sum = 0;
        for (int i = 0; i + k < NEIGHBOURS; i++) {
            f[i] = f[i + 1] - f[i];
            sum += f[i] * f[i];
        }
        share *= (double)k / (2 * (2 * k - 1));
        double now = sqrt(share * sum / (NEIGHBOURS - k)), apart = fabs(log(now / before));
        if (k > 2 && apart < least) {
            least = apart;
            best = fmax(now, before);
        }
        before = now;
    }
    return best;
}

/* A loss that is small because large numbers cancel in it is rounded as they are, not as it is. The points are as close
   as they can be with most of them differing in the loss. */
static flx_code find_inside(checking *c, double *inside, flx_error *err)
{
    double x = numbers(c->point->at->values[c->point->wrt[c->varied]])[c->number];
    flx_code code = FLX_OK;
    int changes = 0;
    *inside = 0;
    for (double h = 0x1p-42; code == FLX_OK && changes < NEIGHBOURS / 2 && h < 0x1p-10; h *= 64) {
        double f[NEIGHBOURS] = {0}, noise;
        changes = 0;
        for (int i = 1; code == FLX_OK && i < NEIGHBOURS; i++) {
            code = loss_change(c, x, x + i * h * fmax(1, fabs(x)), &f[i], &noise, err);
            changes += f[i] != f[i - 1];
        }
        *inside = fmax(*inside, 4 * spread_of(f));
    }
    return code;
}

/* ---- Order 1 ---- */

static flx_code loss_slope(void *user, double h, double *d, double *noise, flx_error *err)
{
    checking *c = user;
    double x = numbers(c->point->at->values[c->point->wrt[c->varied]])[c->number];
    double step = h * fmax(1, fabs(x));
    double change;
    flx_code code = loss_change(c, x - step, x + step, &change, noise, err);
    double width = (x + step) - (x - step);
    *d = change / width;
    *noise /= width;
    return code;
}

bool check_fails(const check_result *r, double tolerance)
{
    return r->worst - r->hidden > tolerance;
}

bool check_is_worse(const check_result *a, const check_result *b, double tolerance)
{
    bool fails = check_fails(a, tolerance);
    return fails == check_fails(b, tolerance) ? a->worst > b->worst : fails;
}

static void note_error(const checking *c, check_result *r, int64_t at, double claimed, double found, double noise)
{
    check_result now = *r;
    now.worst = scaled_error(claimed, found);
    now.at = at;
    now.claimed = claimed;
    now.found = found;
    now.hidden = isfinite(noise) ? noise / fmax(1, fmax(fabs(claimed), fabs(found))) : 0;
    if (r->at < 0 || check_is_worse(&now, r, c->point->tolerance))
        *r = now;
}

static flx_code check_number(checking *c, int64_t at, double claimed, check_result *r, flx_error *err)
{
    double found;
    double noise;
    double close = c->point->tolerance / 100, inside = 0;
    c->number = at;
    flx_code code = differentiate_numerically(loss_slope, c, 1, &claimed, close, &found, &noise, err);
    double worst = scaled_error(claimed, found);
    if (code == FLX_OK && worst > c->point->tolerance)
        code = find_inside(c, &inside, err);
    if (code == FLX_OK && inside > 0 && isfinite(inside)) {
        c->inside = inside;
        code = differentiate_numerically(loss_slope, c, 1, &claimed, close, &found, &noise, err);
        c->inside = 0;
    }
    if (code == FLX_OK)
        note_error(c, r, at, claimed, found, noise);
    return code;
}

/* Chooses elements one after the other, each with the probability that lets the number come out right. */
static flx_code check_gradient(checking *c, size_t k, flx_tensor *gradient, check_result *r, flx_error *err)
{
    int64_t total = flx_tensor_count(gradient);
    int64_t parts = total ? number_count(gradient) / total : 1;
    int64_t wanted = total > many_elements ? chosen_elements : total;
    uint64_t state = 2;
    flx_code code = FLX_OK;
    c->varied = k;
    *r = (check_result){.input = c->point->wrt[k], .at = -1};
    if (c->point->only >= 0) {
        r->elements = 1;
        return check_number(c, c->point->only, numbers(gradient)[c->point->only], r, err);
    }
    for (int64_t i = 0; code == FLX_OK && i < total; i++) {
        if (wanted < total && next_unit(&state) * (double)(total - i) >= (double)(wanted - r->elements))
            continue;
        r->elements++;
        for (int64_t part = 0; code == FLX_OK && part < parts; part++)
            code = check_number(c, i * parts + part, numbers(gradient)[i * parts + part], r, err);
    }
    return code;
}

/* ---- Order 2 ---- */

/* Moves the point to x + h * tangent, or back to x for h = 0. */
static void move_along(const checking *c, double h)
{
    const check_point *p = c->point;
    for (size_t k = 0; k < p->num_wrt; k++) {
        double *x = numbers(p->at->values[p->wrt[k]]);
        const double *start = numbers(c->start[k]);
        const double *v = numbers(c->tangents[k]);
        for (int64_t i = 0; i < number_count(c->start[k]); i++)
            x[i] = h == 0 ? start[i] : start[i] + h * v[i];
    }
}

/* Adds `factor` times the gradient at x + h * tangent to sum, and what rounding may move it by to noise, all inputs of
   wrt one after the other. */
static flx_code add_gradient(const checking *c, double h, double factor, double *sum, double *noise, flx_error *err)
{
    flx_tensor **gradient = NULL;
    move_along(c, h);
    flx_code code = run_at(c, c->graph, &gradient, err);
    for (size_t k = 0; code == FLX_OK && k < c->point->num_wrt; k++)
        for (int64_t i = 0; i < number_count(gradient[k]); i++) {
            double part = factor * numbers(gradient[k])[i];
            *sum++ += part;
            *noise++ += rounding_of(part) / 2;
        }
    move_along(c, 0);
    release_all(gradient, c->point->num_wrt);
    return code;
}

static flx_code gradient_slope(void *user, double h, double *d, double *noise, flx_error *err)
{
    const checking *c = user;
    memset(d, 0, c->total * sizeof *d);
    memset(noise, 0, c->total * sizeof *noise);
    flx_code code = add_gradient(c, h, 1 / (2 * h), d, noise, err);
    return code == FLX_OK ? add_gradient(c, -h, -1 / (2 * h), d, noise, err) : code;
}

/* Compares the products with the numbers found, which are those of all inputs one after the other. */
static void compare_products(const checking *c, const double *claimed, const double *found, const double *noise,
                             check_result *results)
{
    for (size_t k = 0; k < c->point->num_wrt; k++) {
        int64_t n = number_count(c->start[k]);
        results[k] = (check_result){.input = c->point->wrt[k], .elements = flx_tensor_count(c->start[k]), .at = -1};
        for (int64_t i = 0; i < n; i++)
            note_error(c, &results[k], i, claimed[i], found[i], noise[i]);
        claimed += n;
        found += n;
        noise += n;
    }
}

/* `product` is the graph of the Hessian times the tangents, c->graph that of the gradient. */
static flx_code check_products(checking *c, const flx_graph *product, check_result *results, flx_error *err)
{
    double *claimed = calloc(c->total + 1, sizeof *claimed);
    double *found = calloc(c->total + 1, sizeof *found);
    double *noise = calloc(c->total + 1, sizeof *noise);
    flx_tensor **outputs = NULL;
    flx_code code = claimed && found && noise ? run_at(c, product, &outputs, err) : out_of_memory(err);
    if (code == FLX_OK) {
        double *to = claimed;
        for (size_t k = 0; k < c->point->num_wrt; to += number_count(outputs[k++]))
            memcpy(to, numbers(outputs[k]), flx_tensor_nbytes(outputs[k]));
        code = differentiate_numerically(gradient_slope, c, c->total, claimed, c->point->tolerance / 100, found, noise,
                                         err);
    }
    if (code == FLX_OK)
        compare_products(c, claimed, found, noise, results);
    release_all(outputs, c->point->num_wrt);
    free(claimed);
    free(found);
    free(noise);
    return code;
}

/* Keeps where the point is and chooses the vector. */
static flx_code choose_tangents(checking *c, flx_error *err)
{
    const check_point *p = c->point;
    flx_context *ctx = flx_graph_context(p->graph);
    c->start = calloc(p->num_wrt + 1, sizeof *c->start);
    c->tangents = calloc(p->num_wrt + 1, sizeof *c->tangents);
    if (!c->start || !c->tangents)
        return out_of_memory(err);
    for (size_t k = 0; k < p->num_wrt; k++) {
        const flx_tensor *x = p->at->values[p->wrt[k]];
        c->start[k] = flx_tensor_new(ctx, flx_tensor_type(x), flx_tensor_const_data(x), err);
        c->tangents[k] = random_tensor(p->graph, flx_tensor_type(x), 3 + k, err);
        if (!c->start[k] || !c->tangents[k])
            return (flx_code)err->code;
        c->total += (size_t)number_count(x);
    }
    return FLX_OK;
}

/* ---- Both ---- */

static flx_code check_order(checking *c, int order, const char *const *names, check_result *results, flx_error *err)
{
    const check_point *p = c->point;
    flx_grad_options options = {.struct_size = sizeof options,
                                .flags = FLX_GRAD_MISSING_ZERO | (c->weights ? FLX_GRAD_SEED_INPUT : 0U)};
    flx_graph *gradient = flx_grad(p->graph, names, p->num_wrt, &options, err);
    flx_graph *product = gradient && order == 2 ? flx_hvp(p->graph, names, p->num_wrt, &options, err) : NULL;
    flx_code code = gradient && (product || order == 1) ? FLX_OK : (flx_code)err->code;
    if (code == FLX_OK && order == 2) {
        c->graph = gradient;
        code = check_products(c, product, results, err);
    } else if (code == FLX_OK) {
        flx_tensor **outputs = NULL;
        c->graph = p->graph;
        code = run_at(c, gradient, &outputs, err);
        for (size_t k = 0; code == FLX_OK && k < p->num_wrt; k++)
            code = check_gradient(c, k, outputs[k], &results[k], err);
        release_all(outputs, p->num_wrt);
    }
    flx_graph_release(gradient);
    flx_graph_release(product);
    return code;
}

static void checking_free(checking *c)
{
    flx_tensor_release(c->weights);
    free(c->before);
    release_all(c->start, c->point->num_wrt);
    release_all(c->tangents, c->point->num_wrt);
}

flx_code check_derivatives(const check_point *p, int order, check_result *results, flx_error *err)
{
    checking c = {.point = p};
    const char **names = calloc(p->num_wrt + 1, sizeof *names);
    flx_code code = names ? weigh_loss(&c, err) : out_of_memory(err);
    if (code == FLX_OK && order == 2)
        code = choose_tangents(&c, err);
    for (size_t k = 0; names && k < p->num_wrt; k++)
        names[k] = p->at->feeds[p->wrt[k]].name;
    if (code == FLX_OK)
        code = check_order(&c, order, names, results, err);
    free(names);
    checking_free(&c);
    return code;
}

flx_code one_sided_slopes(const check_point *p, int64_t at, double *left, double *right, flx_error *err)
{
    static const double h = 0x1p-20;
    checking c = {.point = p, .graph = p->graph, .number = at};
    double x = numbers(p->at->values[p->wrt[0]])[at];
    double step = h * fmax(1, fabs(x));
    double noise;
    flx_code code = weigh_loss(&c, err);
    if (code == FLX_OK)
        code = loss_change(&c, x - step, x, left, &noise, err);
    if (code == FLX_OK)
        code = loss_change(&c, x, x + step, right, &noise, err);
    *left /= step;
    *right /= step;
    checking_free(&c);
    return code;
}
