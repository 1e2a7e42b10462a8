/* SPDX-License-Identifier: Apache-2.0 */
/* random_kernel_laws.c: laws that must hold for every kernel, on random ones: reading back, schedules, simplification,
   forward mode against finite differences, reverse mode against forward mode, second order. Effort random_kernels: how
   many; FLX_TEST_CASE=SEED: only this seed. */
#include "kernel/flk.h"
#include "kernel/random_kernel.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    double x[RANDOM_KERNEL_COUNT], y[RANDOM_KERNEL_TABLE], mem[RANDOM_KERNEL_COUNT];
} inputs;

typedef struct {
    double out[RANDOM_KERNEL_COUNT], acc[RANDOM_KERNEL_SUMS], mem[RANDOM_KERNEL_COUNT];
} results;

typedef struct {
    uint64_t seed;
    char text[RANDOM_KERNEL_SIZE];
    flx_kernel *k;
    uint32_t index[RANDOM_KERNEL_COUNT];
    inputs at, direction;
    results weight;
} problem;

static const uint32_t grid[3] = {RANDOM_KERNEL_GROUPS, 1, 1};
static const char *const output_names[] = {"out", "acc", "mem"};
static const char *const input_names[] = {"x", "y", "mem"};

static double uniform(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(*state >> 11) / 9007199254740992.0 * 2 - 1;
}

static void fill(double *values, size_t n, uint64_t *state)
{
    for (size_t i = 0; i < n; i++)
        values[i] = uniform(state);
}

static void start(problem *p, uint64_t seed)
{
    uint64_t state = seed * 77 + 5;
    p->seed = seed;
    random_kernel_write(seed, p->text);
    test_fail_context("seed %llu:\n%s", (unsigned long long)seed, p->text);
    p->k = flk(p->text);
    fill((double *)&p->at, sizeof p->at / sizeof(double), &state);
    fill((double *)&p->direction, sizeof p->direction / sizeof(double), &state);
    fill((double *)&p->weight, sizeof p->weight / sizeof(double), &state);
    for (int i = 0; i < RANDOM_KERNEL_COUNT; i++)
        p->index[i] = (uint32_t)((uniform(&state) + 1) * 0.5 * RANDOM_KERNEL_TABLE) % RANDOM_KERNEL_TABLE;
}

/* ---- Running ---- */

static size_t forward_memory(problem *p, inputs *in, results *r, flx_kernel_memory *m)
{
    memcpy(r->mem, in->mem, sizeof r->mem);
    m[0] = (flx_kernel_memory){"x", in->x, sizeof in->x};
    m[1] = (flx_kernel_memory){"y", in->y, sizeof in->y};
    m[2] = (flx_kernel_memory){"k", p->index, sizeof p->index};
    m[3] = (flx_kernel_memory){"mem", r->mem, sizeof r->mem};
    m[4] = (flx_kernel_memory){"out", r->out, sizeof r->out};
    m[5] = (flx_kernel_memory){"acc", r->acc, sizeof r->acc};
    return 6;
}

static void run_forward(problem *p, const flx_kernel *k, inputs *in, results *r, const flx_kernel_run_options *options)
{
    flx_kernel_memory m[6];
    flx_error err = {0};
    size_t n = forward_memory(p, in, r, m);
    CHECK_OK(flx_kernel_run(k, grid, m, n, options, &err), &err);
}

static double dot(const void *a, const void *b, size_t size)
{
    double sum = 0;
    for (size_t i = 0; i < size / sizeof(double); i++)
        sum += ((const double *)a)[i] * ((const double *)b)[i];
    return sum;
}

/* Sums of atomics depend on their order in the last bits. */
static bool are_near(const results *a, const results *b)
{
    bool same = memcmp(a->out, b->out, sizeof a->out) == 0 && memcmp(a->mem, b->mem, sizeof a->mem) == 0;
    for (int i = 0; i < RANDOM_KERNEL_SUMS; i++)
        same &= fabs(a->acc[i] - b->acc[i]) <= 1e-12 * (1 + fabs(a->acc[i]));
    return same;
}

static void check_schedules(problem *p, const results *expected)
{
    for (uint32_t schedule = 0; schedule < 4; schedule++) {
        const flx_kernel_run_options options = {.struct_size = sizeof options,
                                                .flags = schedule ? 0 : FLX_KERNEL_DETECT_RACES,
                                                .schedule = schedule,
                                                .seed = p->seed};
        results r = {0};
        run_forward(p, p->k, &p->at, &r, &options);
        CHECK_MSG(are_near(&r, expected), "schedule %u differs", schedule);
    }
}

static void check_forms(problem *p, const results *expected)
{
    flx_buffer text = flk_text(p->k), bytes = {0};
    flx_error err = {0};
    flx_kernel *read = flk(text.data);
    CHECK_OK(flx_kernel_encode(p->k, &bytes, &err), &err);
    flx_kernel *decoded = flx_kernel_decode(flk_context(), bytes.data, bytes.size, &err);
    CHECK_MSG(decoded != NULL, "%s", err.message);
    uint64_t a = 0, b = 0, c = 0;
    CHECK_OK(flx_kernel_hash(p->k, &a, &err), &err);
    CHECK_OK(flx_kernel_hash(read, &b, &err), &err);
    CHECK_OK(flx_kernel_hash(decoded, &c, &err), &err);
    CHECK(a == b && a == c);
    flx_kernel *fast = flx_kernel_optimise(p->k, NULL, &err);
    CHECK_MSG(fast != NULL, "%s", err.message);
    results r = {0};
    run_forward(p, fast, &p->at, &r, NULL);
    if (!are_near(&r, expected)) {
        flx_buffer optimised = flk_text(fast);
        FAIL("optimised:\n%s", optimised.data);
    }
    flx_kernel_release(fast);
    flx_kernel_release(read);
    flx_kernel_release(decoded);
    flx_buffer_free(&text);
    flx_buffer_free(&bytes);
}

/* ---- Derivatives ---- */

static flx_kernel_derived *derive(const problem *p, bool forward_mode)
{
    flx_error err = {0};
    flx_kernel_derived *d =
        (forward_mode ? flx_kernel_jvp : flx_kernel_grad)(p->k, output_names, 3, input_names, 3, NULL, &err);
    CHECK_MSG(d != NULL, "%s (%s)", err.message, err.where);
    return d;
}

static void run_tangent(problem *p, const flx_kernel_derived *d, results *tangent)
{
    results r = {0};
    flx_kernel_memory m[12];
    size_t n = forward_memory(p, &p->at, &r, m);
    inputs v = p->direction;
    memcpy(tangent->mem, v.mem, sizeof v.mem);
    m[n++] = (flx_kernel_memory){"tan_x", v.x, sizeof v.x};
    m[n++] = (flx_kernel_memory){"tan_y", v.y, sizeof v.y};
    m[n++] = (flx_kernel_memory){"tan_mem", tangent->mem, sizeof tangent->mem};
    m[n++] = (flx_kernel_memory){"tan_out", tangent->out, sizeof tangent->out};
    m[n++] = (flx_kernel_memory){"tan_acc", tangent->acc, sizeof tangent->acc};
    flx_error err = {0};
    CHECK_OK(flx_kernel_derived_run(d, grid, m, n, NULL, &err), &err);
}

static void run_gradient(problem *p, const flx_kernel_derived *d, inputs *gradient,
                         const flx_kernel_run_options *options)
{
    results r = {0}, w = p->weight;
    flx_kernel_memory m[12];
    size_t n = forward_memory(p, &p->at, &r, m);
    memcpy(gradient->mem, w.mem, sizeof w.mem);
    m[n++] = (flx_kernel_memory){"grad_out", w.out, sizeof w.out};
    m[n++] = (flx_kernel_memory){"grad_acc", w.acc, sizeof w.acc};
    m[n++] = (flx_kernel_memory){"grad_mem", gradient->mem, sizeof gradient->mem};
    m[n++] = (flx_kernel_memory){"grad_x", gradient->x, sizeof gradient->x};
    m[n++] = (flx_kernel_memory){"grad_y", gradient->y, sizeof gradient->y};
    flx_error err = {0};
    CHECK_OK(flx_kernel_derived_run(d, grid, m, n, options, &err), &err);
}

/* (f(x + h v) - f(x - h v)) / 2h */
static void difference(problem *p, double h, results *out)
{
    inputs plus = p->at, minus = p->at;
    results a = {0}, b = {0};
    for (size_t i = 0; i < sizeof plus / sizeof(double); i++) {
        ((double *)&plus)[i] += h * ((double *)&p->direction)[i];
        ((double *)&minus)[i] -= h * ((double *)&p->direction)[i];
    }
    run_forward(p, p->k, &plus, &a, NULL);
    run_forward(p, p->k, &minus, &b, NULL);
    for (size_t i = 0; i < sizeof *out / sizeof(double); i++)
        ((double *)out)[i] = (((double *)&a)[i] - ((double *)&b)[i]) / (2 * h);
}

/* Finite differences of two widths must agree to be conclusive: a kink in between makes them differ. */
static bool check_tangent(problem *p, const results *tangent)
{
    results wide = {0}, narrow = {0};
    difference(p, 2e-5, &wide);
    difference(p, 1e-5, &narrow);
    bool is_smooth = true;
    double scale = 1;
    for (size_t i = 0; i < sizeof wide / sizeof(double); i++)
        scale = fmax(scale, fabs(((double *)&narrow)[i]));
    for (size_t i = 0; i < sizeof wide / sizeof(double); i++)
        is_smooth &= fabs(((double *)&wide)[i] - ((double *)&narrow)[i]) <= 1e-6 * scale;
    for (size_t i = 0; is_smooth && i < sizeof wide / sizeof(double); i++)
        CHECK_MSG(fabs(((double *)&narrow)[i] - ((const double *)tangent)[i]) <= 2e-6 * scale,
                  "result %zu: tangent %.12g, difference %.12g", i, ((const double *)tangent)[i],
                  ((double *)&narrow)[i]);
    return is_smooth;
}

static bool is_finite(const results *r)
{
    bool finite = true;
    for (size_t i = 0; i < sizeof *r / sizeof(double); i++)
        finite &= isfinite(((const double *)r)[i]) && fabs(((const double *)r)[i]) < 1e6;
    return finite;
}

static void check_gradient(problem *p, const flx_kernel_derived *d, const results *tangent)
{
    const flx_kernel_run_options races = {.struct_size = sizeof races, .flags = FLX_KERNEL_DETECT_RACES};
    const flx_kernel_run_options backwards = {.struct_size = sizeof backwards, .schedule = FLX_KERNEL_REVERSE};
    inputs gradient = {0}, other = {0};
    run_gradient(p, d, &gradient, &races);
    run_gradient(p, d, &other, &backwards);
    double left = dot(&p->weight, tangent, sizeof *tangent), right = dot(&gradient, &p->direction, sizeof gradient);
    double scale = 1 + fabs(left);
    for (size_t i = 0; i < sizeof gradient / sizeof(double); i++)
        scale = fmax(scale, fabs(((double *)&gradient)[i]));
    if (!(fabs(left - right) <= 1e-9 * scale)) {
        flx_buffer text = flk_text(flx_kernel_derived_kernel(d, 0));
        FAIL("<w, jvp(v)> = %.15g, <grad(w), v> = %.15g\n%s", left, right, text.data);
    }
    CHECK(fabs(dot(&other, &p->direction, sizeof other) - right) <= 1e-9 * scale);
}

/* ---- Second order: of out and acc with respect to x and y ---- */

typedef struct {
    double x[RANDOM_KERNEL_COUNT], y[RANDOM_KERNEL_TABLE];
} two;

/* The gradient kernel as a separate kernel; NULL when it does not depend on both inputs. */
static flx_kernel_derived *gradient_kernel(const problem *p)
{
    static const char *const out[] = {"out", "acc"}, *const in[] = {"x", "y"};
    const flx_kernel_grad_options bounded = {.struct_size = sizeof bounded, .max_trips = 8};
    flx_error err = {0};
    flx_kernel_derived *d = flx_kernel_grad(p->k, out, 2, in, 2, &bounded, &err);
    CHECK_MSG(d != NULL, "%s (%s)", err.message, err.where);
    bool has_x = false, has_y = false;
    flx_kernel_need need;
    for (size_t i = 0; flx_kernel_derived_need(d, i, &need) == FLX_OK; i++) {
        has_x |= strcmp(need.buffer, "x") == 0;
        has_y |= strcmp(need.buffer, "y") == 0;
    }
    if (has_x && has_y)
        return d;
    flx_kernel_derived_free(d);
    return NULL;
}

static size_t gradient_memory(problem *p, inputs *in, results *r, two *gradient, flx_kernel_memory *m)
{
    size_t n = forward_memory(p, in, r, m);
    m[n++] = (flx_kernel_memory){"grad_out", p->weight.out, sizeof p->weight.out};
    m[n++] = (flx_kernel_memory){"grad_acc", p->weight.acc, sizeof p->weight.acc};
    m[n++] = (flx_kernel_memory){"grad_x", gradient->x, sizeof gradient->x};
    m[n++] = (flx_kernel_memory){"grad_y", gradient->y, sizeof gradient->y};
    return n;
}

static void gradient_at(problem *p, const flx_kernel_derived *d, double step, two *gradient)
{
    inputs in = p->at;
    results r = {0};
    flx_kernel_memory m[16];
    flx_error err = {0};
    for (int i = 0; i < RANDOM_KERNEL_COUNT; i++)
        in.x[i] += step * p->direction.x[i];
    for (int i = 0; i < RANDOM_KERNEL_TABLE; i++)
        in.y[i] += step * p->direction.y[i];
    CHECK_OK(flx_kernel_derived_run(d, grid, m, gradient_memory(p, &in, &r, gradient, m), NULL, &err), &err);
}

static flx_kernel_derived *derive_again(const flx_kernel_derived *d, bool forward_mode)
{
    static const char *const out[] = {"grad_x", "grad_y"}, *const in[] = {"x", "y"};
    const flx_kernel_grad_options bounded = {.struct_size = sizeof bounded, .max_trips = 8};
    flx_error err = {0};
    flx_kernel_derived *e = (forward_mode ? flx_kernel_jvp : flx_kernel_grad)(flx_kernel_derived_kernel(d, 0), out, 2,
                                                                              in, 2, &bounded, &err);
    CHECK_MSG(e != NULL, "%s (%s)", err.message, err.where);
    return e;
}

static void run_again(problem *p, const flx_kernel_derived *e, const char *const names[4], two *first, two *second)
{
    results r = {0};
    two gradient = {0};
    flx_kernel_memory m[20];
    flx_error err = {0};
    size_t n = gradient_memory(p, &p->at, &r, &gradient, m);
    m[n++] = (flx_kernel_memory){names[0], first->x, sizeof first->x};
    m[n++] = (flx_kernel_memory){names[1], first->y, sizeof first->y};
    m[n++] = (flx_kernel_memory){names[2], second->x, sizeof second->x};
    m[n++] = (flx_kernel_memory){names[3], second->y, sizeof second->y};
    n = flk_known_memory(e, m, n, m);
    CHECK_OK(flx_kernel_derived_run(e, grid, m, n, NULL, &err), &err);
}

/* The derivative's name for the gradient of x or y: grad_x is taken. */
static const char *gradient_name(const flx_kernel_derived *d, const char *input, char *name, size_t size)
{
    flx_kernel_need need;
    for (size_t i = 0; flx_kernel_derived_need(d, i, &need) == FLX_OK; i++)
        if (need.role == FLX_KERNEL_GRADIENT && strcmp(need.forward, input) == 0)
            snprintf(name, size, "%s", need.buffer);
    return name;
}

static double largest(const two *a)
{
    double most = 1;
    for (size_t i = 0; i < sizeof *a / sizeof(double); i++)
        most = fmax(most, fabs(((const double *)a)[i]));
    return most;
}

static void check_second(problem *p)
{
    flx_kernel_derived *d = gradient_kernel(p);
    if (!d)
        return;
    flx_kernel_derived *forward = derive_again(d, true), *backward = derive_again(d, false);
    two v, w, along = {0}, back = {0}, plus = {0}, minus = {0}, wide_plus = {0}, wide_minus = {0};
    memcpy(v.x, p->direction.x, sizeof v.x);
    memcpy(v.y, p->direction.y, sizeof v.y);
    memcpy(w.x, p->weight.out, sizeof w.x);
    memcpy(w.y, p->direction.mem, sizeof w.y);
    run_again(p, forward, (const char *const[4]){"tan_x", "tan_y", "tan_grad_x", "tan_grad_y"}, &v, &along);
    char x[60] = "", y[60] = "";
    two seeds = w;
    run_again(p, backward,
              (const char *const[4]){"grad_grad_x", "grad_grad_y", gradient_name(backward, "x", x, sizeof x),
                                     gradient_name(backward, "y", y, sizeof y)},
              &seeds, &back);
    double left = dot(&w, &along, sizeof w), right = dot(&v, &back, sizeof v), scale = largest(&along) + largest(&back);
    CHECK_MSG(fabs(left - right) <= 1e-9 * scale, "<w, H v> = %.15g, <H w, v> = %.15g", left, right);
    const double h = 1e-5;
    gradient_at(p, d, h, &plus);
    gradient_at(p, d, -h, &minus);
    gradient_at(p, d, 2 * h, &wide_plus);
    gradient_at(p, d, -2 * h, &wide_minus);
    for (size_t i = 0; i < sizeof plus / sizeof(double); i++) {
        double narrow = (((double *)&plus)[i] - ((double *)&minus)[i]) / (2 * h);
        double wide = (((double *)&wide_plus)[i] - ((double *)&wide_minus)[i]) / (4 * h);
        if (fabs(narrow - wide) <= 1e-6 * scale)
            CHECK_MSG(fabs(narrow - ((double *)&along)[i]) <= 1e-5 * scale,
                      "(H v)[%zu] is %.12g, finite differences give %.12g", i, ((double *)&along)[i], narrow);
    }
    flx_kernel_derived_free(d);
    flx_kernel_derived_free(forward);
    flx_kernel_derived_free(backward);
}

TEST(kernel_random_laws)
{
    static problem p;
    uint64_t first = 1 + 1000000 * (test_seed() % 1000000);
    bool only = test_case_seed(&first);
    uint64_t last = only ? first : first + (uint64_t)effort(EFFORT_random_kernels) - 1, smooth = 0, usable = 0;
    for (uint64_t seed = first; seed <= last; seed++) {
        start(&p, seed);
        results r = {0}, tangent = {0};
        run_forward(&p, p.k, &p.at, &r, NULL);
        if (is_finite(&r)) {
            usable++;
            check_schedules(&p, &r);
            check_forms(&p, &r);
            flx_kernel_derived *forward = derive(&p, true), *backward = derive(&p, false);
            run_tangent(&p, forward, &tangent);
            smooth += check_tangent(&p, &tangent);
            check_gradient(&p, backward, &tangent);
            if (test_case_wanted() || seed % 8 == 0)
                check_second(&p);
            flx_kernel_derived_free(forward);
            flx_kernel_derived_free(backward);
        }
        flx_kernel_release(p.k);
        test_count_case();
    }
    test_fail_context("%llu kernels, %llu finite, %llu without kinks near by", (unsigned long long)(last - first + 1),
                      (unsigned long long)usable, (unsigned long long)smooth);
    CHECK(only || usable * 10 >= (last - first + 1) * 9);
    CHECK(only || smooth * 10 >= usable * 7);
}
