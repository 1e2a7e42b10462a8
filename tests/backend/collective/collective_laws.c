/* SPDX-License-Identifier: Apache-2.0 */
/* collective_laws.c: derivatives and batching of exchanges on groups of 1, 2, 3, 4 and 8 processes. All processes
   together compute one function, the sum of their losses; its gradient must agree with finite differences, with forward
   mode, and to second order in two ways. With values of other dtypes than f64 and c128 all of these must be near those
   of these two, and compiled code must give what the reference evaluator does. */
#include "../../test.h"
#include "local_ranks.h"

#include <fluxion/transform.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_VALUES = 3 * 2 * MAX_RANKS * MAX_RANKS };

/* @ is the number of processes. The loss is a nonlinear function of the op's result, weighted per process. */
static const struct {
    const char *name, *op;
} cases[] = {
    {"sum", "all_reduce(u, axis_name=\"data\")"},
    {"mean", "all_reduce(u, axis_name=\"data\", op=mean)"},
    {"max", "all_reduce(u, axis_name=\"data\", op=max)"},
    {"min", "all_reduce(u, axis_name=\"data\", op=min)"},
    {"prod", "all_reduce(u, axis_name=\"data\", op=prod, size=@)"},
    {"gather", "all_gather(u, axis_name=\"data\", size=@)"},
    {"gather 1", "all_gather(u, axis_name=\"data\", axis=1, size=@)"},
    {"scatter", "reduce_scatter(u, axis_name=\"data\", size=@)"},
    {"scatter 1", "reduce_scatter(u, axis_name=\"data\", axis=1, size=@)"},
    {"all_to_all", "all_to_all(u, axis_name=\"data\", split_axis=1, concat_axis=0, size=@)"},
    {"all_to_all 1", "all_to_all(u, axis_name=\"data\", split_axis=0, concat_axis=1, size=@)"},
    {"all_to_all 2", "all_to_all(u, axis_name=\"data\", split_axis=1, concat_axis=1, size=@)"},
    {"broadcast", "broadcast(u, axis_name=\"data\", root=0)"},
    {"shift", "collective_permute(u, axis_name=\"data\", sources=[SOURCES], targets=[TARGETS])"},
    {"barrier", "barrier(u)"},
    {"loop", "scan(u, xs, num_carry=1, body=@round)"},
    {"branch", "if(gt(reduce_sum(mul(x, x)), -1), u, then=@taken, else=@other)"},
};
enum { NUM_CASES = sizeof cases / sizeof *cases };

typedef struct {
    const char *device;
    char text[2000];
    int64_t n; /* elements of x */
    double loss[2][MAX_RANKS], tangent[MAX_RANKS];
    double x[MAX_RANKS][MAX_VALUES], w[MAX_RANKS][MAX_VALUES], t[MAX_RANKS][MAX_VALUES];
    double grad[3][MAX_RANKS][MAX_VALUES], hvp[2][MAX_RANKS][MAX_VALUES], second[MAX_RANKS][MAX_VALUES];
    double batched[MAX_RANKS][4], single[MAX_RANKS][4];
} law_case;

/* ---- Texts ---- */

static void replace(char *text, size_t size, const char *what, const char *with)
{
    char copy[2000];
    for (char *at = strstr(text, what); at; at = strstr(text, what)) {
        snprintf(copy, sizeof copy, "%s", at + strlen(what));
        snprintf(at, size - (size_t)(at - text), "%s%s", with, copy);
    }
}

/* From x to what is exchanged, and from what arrives to a real number. */
static const struct {
    flx_dtype dtype, near; /* the dtype whose results are near; its own: laws of this one are checked */
    const char *to, *from;
    double tolerance; /* of what is near, for values of size 1 */
} kinds[] = {
    {FLX_F64, FLX_F64, "add(sin(x), 0.1)", "y", 0},
    {FLX_F32, FLX_F64, "cast(add(sin(x), 0.1), to=f32)", "cast(y, to=f64)", 0x1p-18},
    {FLX_F16, FLX_F64, "cast(add(sin(x), 0.1), to=f16)", "cast(y, to=f64)", 0x1p-6},
    {FLX_BF16, FLX_F64, "cast(add(sin(x), 0.1), to=bf16)", "cast(y, to=f64)", 0x1p-3},
    {FLX_C128, FLX_C128, "complex(add(sin(x), 0.1), mul(x, 0.5))", "add(real(y), mul(imag(y), 0.5))", 0},
    {FLX_C64, FLX_C128, "cast(complex(add(sin(x), 0.1), mul(x, 0.5)), to=c64)",
     "cast(add(real(y), mul(imag(y), 0.5)), to=f64)", 0x1p-18},
};
enum { NUM_KINDS = sizeof kinds / sizeof *kinds };

/* Whether the op takes values of that dtype, and is smooth where they are rounded: two that round to one are both the
   largest. */
static bool is_case(size_t i, size_t k)
{
    bool is_extreme = strcmp(cases[i].name, "max") == 0 || strcmp(cases[i].name, "min") == 0;
    return !is_extreme || (kinds[k].dtype != FLX_C128 && kinds[k].dtype != FLX_C64 && kinds[k].tolerance < 0x1p-10);
}

static void list_pairs(char *sources, char *targets, int64_t ranks)
{
    for (int i = 0; i + 1 < ranks; i++) {
        snprintf(sources + strlen(sources), 8, i ? ", %d" : "%d", i);
        snprintf(targets + strlen(targets), 8, i ? ", %d" : "%d", i + 1);
    }
}

/* Process i sends to i + 1; the last one sends to none. ~ is the dtype. */
static void write_text(law_case *c, const char *op, size_t kind, int64_t ranks)
{
    char sources[64] = "", targets[64] = "", width[8];
    list_pairs(sources, targets, ranks);
    snprintf(c->text, sizeof c->text,
             "graph round(c: ~[@, 2@], x: ~[]) { return all_reduce(mul(sin(c), x), axis_name=\"data\", op=mean) }\n"
             "graph taken(u: ~[@, 2@]) { return all_reduce(u, axis_name=\"data\") }\n"
             "graph other(u: ~[@, 2@]) { return u }\n"
             "graph f(x: f64[@, 2@], w: f64[]) {\n"
             "  u = %s\n  %s y = %s\n  v = %s\n"
             "  return mul(w, reduce_sum(mul(v, mul(v, sin(v)))))\n}\n",
             kinds[kind].to, strstr(op, "scan") ? "xs = const(~[3], [1, 0.5, 2])\n" : "", op, kinds[kind].from);
    snprintf(width, sizeof width, "%lld", (long long)(2 * ranks));
    replace(c->text, sizeof c->text, "2@", width);
    replace(c->text, sizeof c->text, "~", flx_dtype_name(kinds[kind].dtype));
    for (char *at = strchr(c->text, '@'); at; at = strchr(at + 1, '@'))
        if (at[1] < 'a' || at[1] > 'z')
            *at = (char)('0' + ranks);
    replace(c->text, sizeof c->text, "SOURCES", sources);
    replace(c->text, sizeof c->text, "TARGETS", targets);
}

/* ---- Transforms ---- */

static const char *const wrt[] = {"x"};

static flx_graph *to_grad(const flx_graph *g, flx_error *err)
{
    return flx_grad(g, wrt, 1, NULL, err);
}

static flx_graph *to_jvp(const flx_graph *g, flx_error *err)
{
    return flx_jvp(g, wrt, 1, err);
}

static flx_graph *to_hvp(const flx_graph *g, flx_error *err)
{
    return flx_hvp(g, wrt, 1, NULL, err);
}

static flx_graph *to_second(const flx_graph *g, flx_error *err)
{
    return flx_nth_grad(g, "x", 2, err);
}

static flx_graph *to_batch(const flx_graph *g, flx_error *err)
{
    const flx_vmap_axis axes[] = {{"x", 0}};
    const int64_t out = 0;
    return flx_vmap(g, axes, 1, &out, 1, 3, err);
}

/* ---- One process ---- */

static const double h = 1e-5;

static void run_on(local_rank *r, const law_case *c, local_change change, const double *x, double w, const double *t,
                   double *out)
{
    double in[3 * MAX_VALUES + 1];
    size_t n = (size_t)c->n;
    memcpy(in, x, n * sizeof *in);
    in[n] = w;
    if (t)
        memcpy(in + n + 1, t, n * sizeof *in);
    CHECK_OK(local_rank_text(r, c->text, change, c->device, in, out), &r->err);
}

static void run_laws(local_rank *r)
{
    law_case *c = r->user;
    double x[MAX_VALUES], w = c->w[r->rank][0], both[2], ones[MAX_VALUES];
    const double *t = c->t[r->rank];
    for (int side = 0; side < 2; side++) {
        for (int64_t i = 0; i < c->n; i++)
            x[i] = c->x[r->rank][i] + (side ? h : -h) * t[i];
        run_on(r, c, NULL, x, w, NULL, &c->loss[side][r->rank]);
        run_on(r, c, to_grad, x, w, NULL, c->grad[side][r->rank]);
    }
    for (int64_t i = 0; i < c->n; i++)
        ones[i] = 1;
    run_on(r, c, to_grad, c->x[r->rank], w, NULL, c->grad[2][r->rank]);
    run_on(r, c, to_jvp, c->x[r->rank], w, t, both);
    c->tangent[r->rank] = both[1];
    run_on(r, c, to_hvp, c->x[r->rank], w, t, c->hvp[0][r->rank]);
    run_on(r, c, to_hvp, c->x[r->rank], w, ones, c->hvp[1][r->rank]);
    run_on(r, c, to_second, c->x[r->rank], w, NULL, c->second[r->rank]);
}

/* A batch of three is three runs, bit for bit. */
static void run_batch(local_rank *r)
{
    law_case *c = r->user;
    double in[3 * MAX_VALUES + 1];
    size_t n = (size_t)c->n;
    for (size_t k = 0; k < 3; k++) {
        for (size_t i = 0; i < n; i++)
            in[k * n + i] = c->x[r->rank][i] * (double)(k + 1) * 0.5;
        run_on(r, c, NULL, in + k * n, 2, NULL, &c->single[r->rank][k]);
    }
    in[3 * n] = 2;
    CHECK_OK(local_rank_text(r, c->text, to_batch, c->device, in, c->batched[r->rank]), &r->err);
}

/* ---- The laws ---- */

static void check_second_order(const law_case *c, int64_t ranks)
{
    for (int64_t r = 0; r < ranks; r++)
        for (int64_t i = 0; i < c->n; i++) {
            double slope = (c->grad[1][r][i] - c->grad[0][r][i]) / (2 * h), hv = c->hvp[0][r][i];
            EXPECT_MSG(fabs(slope - hv) <= 2e-6 * (1 + fabs(hv)), "rank %d: H t is %g, finite differences give %g",
                       (int)r, hv, slope);
            EXPECT_MSG(fabs(c->second[r][i] - c->hvp[1][r][i]) <= 1e-11 * (1 + fabs(c->hvp[1][r][i])),
                       "rank %d: H 1 is %g in reverse mode, %g in forward mode", (int)r, c->second[r][i],
                       c->hvp[1][r][i]);
        }
}

static void check_laws(const law_case *c, int64_t ranks)
{
    double slope = 0, product = 0, tangent = 0;
    for (int64_t r = 0; r < ranks; r++) {
        slope += (c->loss[1][r] - c->loss[0][r]) / (2 * h);
        tangent += c->tangent[r];
        for (int64_t i = 0; i < c->n; i++)
            product += c->grad[2][r][i] * c->t[r][i];
    }
    EXPECT_MSG(fabs(slope - product) <= 1e-6 * (1 + fabs(product)), "gradient %g, finite differences %g", product,
               slope);
    EXPECT_MSG(fabs(tangent - product) <= 1e-11 * (1 + fabs(product)), "reverse %g, forward %g", product, tangent);
    check_second_order(c, ranks);
}

static void fill(law_case *c, int64_t ranks)
{
    uint64_t state = test_seed();
    c->n = 2 * ranks * ranks;
    for (int64_t r = 0; r < ranks; r++)
        for (int64_t i = 0; i < c->n; i++) {
            c->x[r][i] = test_uniform(&state) * 2 - 1;
            c->t[r][i] = test_uniform(&state) - 0.5;
            c->w[r][i] = test_uniform(&state) + 0.5;
        }
}

static void begin(law_case *c, size_t i, size_t kind, int64_t ranks, const char *device)
{
    memset(c, 0, sizeof *c);
    c->device = device;
    write_text(c, cases[i].op, kind, ranks);
    fill(c, ranks);
    test_fail_context("%s of %s on %d processes, %s", cases[i].name, flx_dtype_name(kinds[kind].dtype), (int)ranks,
                      device);
}

static bool is_wanted(size_t i)
{
    return !test_case_wanted() || strstr(cases[i].name, test_case_wanted());
}

/* A batch of values of any of these dtypes. */
static void check_batches(int64_t ranks)
{
    static law_case c;
    for (size_t i = 0; i < NUM_CASES * NUM_KINDS; i++) {
        if (!is_wanted(i % NUM_CASES) || !is_case(i % NUM_CASES, i / NUM_CASES))
            continue;
        begin(&c, i % NUM_CASES, i / NUM_CASES, ranks, "ref");
        local_ranks_run(ranks, NULL, 60, run_batch, &c);
        for (int64_t r = 0; r < ranks; r++)
            CHECK(memcmp(c.batched[r], c.single[r], sizeof c.single[r]) == 0);
        test_count_case();
    }
}

/* Derivatives are those of `want`, up to the rounding of the dtype: relative to the largest. */
static void check_near(const law_case *got, const law_case *want, int64_t ranks, double tolerance)
{
    double size[3] = {1, 1, 1}, off[3] = {0, 0, 0};
    for (int64_t r = 0; r < ranks; r++)
        for (int64_t i = 0; i < want->n; i++) {
            const double both[3][2] = {{got->grad[2][r][i], want->grad[2][r][i]},
                                       {got->hvp[0][r][i], want->hvp[0][r][i]},
                                       {got->second[r][i], want->second[r][i]}};
            for (int k = 0; k < 3; k++) {
                double d = fabs(both[k][0] - both[k][1]);
                size[k] = fmax(size[k], fabs(both[k][1]));
                off[k] = d <= off[k] ? off[k] : d;
            }
        }
    for (int k = 0; k < 3; k++)
        EXPECT_MSG(off[k] <= tolerance * size[k], "%s: off by %g of %g",
                   k == 0   ? "gradient"
                   : k == 1 ? "forward over reverse"
                            : "reverse over reverse",
                   off[k], size[k]);
}

/* All dtypes whose results are near one. */
static void check_group(int64_t ranks)
{
    static law_case base, c;
    for (size_t i = 0; i < NUM_CASES * NUM_KINDS; i++) {
        size_t kind = i % NUM_KINDS, k = i / NUM_KINDS;
        bool is_base = kinds[kind].near == kinds[kind].dtype;
        if (!is_wanted(k) || !is_case(k, kind))
            continue;
        begin(is_base ? &base : &c, k, kind, ranks, "ref");
        local_ranks_run(ranks, NULL, 60, run_laws, is_base ? &base : &c);
        if (is_base)
            check_laws(&base, ranks);
        else
            check_near(&c, &base, ranks, kinds[kind].tolerance);
        test_count_case();
    }
}

TEST(collective_laws_one_process)
{
    check_group(1);
    check_batches(1);
}

TEST(collective_laws_two_processes)
{
    check_group(2);
    check_batches(2);
}

TEST(collective_laws_three_processes)
{
    check_group(3);
    check_batches(3);
}

TEST(collective_laws_four_processes)
{
    check_group(4);
    check_batches(4);
}

TEST(collective_laws_eight_processes)
{
    check_group(8);
    check_batches(8);
}

TEST(collective_laws_of_compiled_code)
{
    static law_case base, c;
    for (size_t i = 0; i < NUM_CASES; i++) {
        if (!is_wanted(i))
            continue;
        begin(&base, i, 0, 2, "ref");
        local_ranks_run(2, NULL, 60, run_laws, &base);
        begin(&c, i, 0, 2, "cpu");
        local_ranks_run(2, NULL, 60, run_laws, &c);
        check_laws(&c, 2);
        check_near(&c, &base, 2, 1e-12);
        test_count_case();
    }
}
