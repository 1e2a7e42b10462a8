/* SPDX-License-Identifier: Apache-2.0 */
/* pendulum.c: swings of damped pendulums: angle'' = -(g / length) sin(angle) - damping angle', integrated with the
   classic Runge-Kutta method. Beginnings are such that no pendulum turns over, so the angle stays within (-pi, pi). The
   sine is a polynomial: that of a C library may differ in the last bit. */
#include "data/dataset.h"

#include "base/host/stop.h"
#include "graph/type/tensor.h"
#include "numeric/counter_rng.h"

enum { SUBSTEPS = 8 };

typedef struct {
    double angle, velocity;
} state;

typedef struct {
    double pull, damping;
} pendulum;

/* Within (-pi, pi), to 1e-13: the Taylor series on [-pi/2, pi/2], and sin(x) = sin(pi - x) outside. */
static double sine(double x)
{
    static const double pi = 3.14159265358979323846;
    x = x > pi / 2 ? pi - x : x < -pi / 2 ? -pi - x : x;
    double term = x, sum = x;
    for (int k = 2; k < 20; k += 2) {
        term *= -x * x / (k * (k + 1));
        sum += term;
    }
    return sum;
}

static state slope(const pendulum *p, state s)
{
    return (state){s.velocity, -p->pull * sine(s.angle) - p->damping * s.velocity};
}

static state moved(state s, state by, double h)
{
    return (state){s.angle + h * by.angle, s.velocity + h * by.velocity};
}

static state after_step(const pendulum *p, state s, double h)
{
    state a = slope(p, s);
    state b = slope(p, moved(s, a, h / 2));
    state c = slope(p, moved(s, b, h / 2));
    state d = slope(p, moved(s, c, h));
    state mean = {(a.angle + 2 * b.angle + 2 * c.angle + d.angle) / 6,
                  (a.velocity + 2 * b.velocity + 2 * c.velocity + d.velocity) / 6};
    return moved(s, mean, h);
}

static double draw(const flxi_rng *r, uint64_t i, double low, double high)
{
    return low + (high - low) * flxi_rng_uniform(r, FLXI_RNG_53, i);
}

/* One swing: length + 1 states. */
static void swing(uint64_t seed, int64_t row, int64_t length, float *out)
{
    flxi_rng r = flxi_rng_seeded(seed, (uint64_t)row);
    pendulum p = {.pull = 9.81 / draw(&r, 0, 0.5, 2), .damping = draw(&r, 1, 0, 0.3)};
    state s = {draw(&r, 2, -2, 2), draw(&r, 3, -1, 1)};
    for (int64_t i = 0; i <= length && !flxi_stopped_by_now(); i++) {
        out[2 * i] = (float)s.angle;
        out[2 * i + 1] = (float)s.velocity;
        for (int k = 0; k < SUBSTEPS; k++)
            s = after_step(&p, s, 0.1 / SUBSTEPS);
    }
}

static flx_code add_swings(flx_dataset *d, int64_t rows, int64_t length, uint64_t seed, flx_error *err)
{
    const flx_type type = flx_type_make(FLX_F32, 3, (flx_dim[]){rows, length, 2});
    const flx_type whole = flx_type_make(FLX_F32, 3, (flx_dim[]){rows, length + 1, 2});
    flx_tensor *all = flx_tensor_new(d->ctx, &whole, NULL, err);
    FLXI_TRY(flxi_dataset_own(d, "x", all, err));
    FLXI_TRY(flx_dataset_add(d, "next", all, err));
    for (int64_t i = 0; i < rows && !flxi_stopped_by_now(); i++)
        swing(seed, i, length, (float *)all->data + i * (length + 1) * 2);
    FLXI_TRY(flxi_stop_check(err));
    for (size_t i = 0; i < 2; i++) { /* both are parts of the same rows */
        flxi_column *c = &d->columns.at[i];
        c->type = type;
        c->row_count = length * 2;
        c->first = i * 2 * sizeof(float);
    }
    return FLX_OK;
}

flx_dataset *flx_pendulum(flx_context *ctx, int64_t rows, int64_t length, uint64_t seed, flx_error *err)
{
    if (!ctx || rows < 1 || length < 1 || length == INT64_MAX) {
        flxi_fail(err, FLX_E_USAGE, "flx_pendulum: the context must be given, rows and length positive");
        return NULL;
    }
    flx_dataset *d = flx_dataset_new(ctx, err);
    return d ? flxi_dataset_if(d, add_swings(d, rows, length, seed, err)) : NULL;
}
