/* SPDX-License-Identifier: Apache-2.0 */
/* sharing.c: outputs in the memory of inputs: where flx_exec_may_share() says so, results in the memory of the input
   are the same bits as elsewhere. */
#include "compile/bundle.h"
#include "random/plain_subject.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- A graph in both ways ---- */

typedef struct {
    const flx_graph *g;
    flx_exec *e;
    size_t nin, nout;
    flx_tensor **in, **apart,
        **together;      /* values; results in memory of their own; results that share where they may */
    size_t *shared_with; /* by output: input + 1 */
    size_t num_shared;
} pair_run;

static void *room(size_t n, size_t size)
{
    void *p = calloc(n + 1, size);
    CHECK(p);
    return p;
}

static const flx_type *type_in(const pair_run *r, size_t i)
{
    return flx_val_type(r->g, flx_graph_input(r->g, i));
}
static const flx_type *type_out(const pair_run *r, size_t k)
{
    return flx_val_type(r->g, flx_graph_output(r->g, k));
}

static bool equal_types(const flx_type *a, const flx_type *b)
{
    return a->dtype == b->dtype && a->rank == b->rank &&
           memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0;
}

/* Every input with every output of its type. */
static flx_share *list_pairs(const pair_run *r, size_t *n)
{
    flx_share *pairs = room(r->nin * r->nout, sizeof *pairs);
    *n = 0;
    for (size_t i = 0; i < r->nin; i++)
        for (size_t k = 0; k < r->nout; k++)
            if (equal_types(type_in(r, i), type_out(r, k)))
                pairs[(*n)++] = (flx_share){i, k};
    return pairs;
}

/* Compiles and takes every pair that may share, each input and output once. */
static void compile(pair_run *r, const flx_compile_options *options, bool is_asked)
{
    flx_compile_options o = *options;
    flx_error err = {0};
    size_t n;
    flx_share *pairs = list_pairs(r, &n);
    bool *taken = room(r->nin, sizeof *taken);
    o.shares = is_asked ? pairs : NULL;
    o.num_shares = is_asked ? n : 0;
    r->e = flx_compile(r->g, &o, &err);
    CHECK_MADE(r->e, &err);
    for (size_t j = 0; j < n; j++) {
        size_t i = pairs[j].input, k = pairs[j].output;
        if (!taken[i] && !r->shared_with[k] && flx_exec_may_share(r->e, i, k)) {
            taken[i] = true;
            r->shared_with[k] = i + 1;
            r->num_shared++;
        }
    }
    free(taken);
    free(pairs);
}

static void run_at(pair_run *r, flx_tensor **out, bool is_shared)
{
    flx_error err = {0};
    const void **in = room(r->nin, sizeof *in);
    void **to = room(r->nout, sizeof *to);
    flx_tensor **copies = room(r->nin, sizeof *copies);
    for (size_t i = 0; i < r->nin; i++) {
        copies[i] = flx_tensor_new(flx_graph_context(r->g), type_in(r, i), flx_tensor_const_data(r->in[i]), &err);
        CHECK(copies[i]);
        in[i] = flx_tensor_const_data(copies[i]);
    }
    for (size_t k = 0; k < r->nout; k++) {
        out[k] = is_shared && r->shared_with[k] ? flx_tensor_retain(copies[r->shared_with[k] - 1])
                                                : flx_tensor_new(flx_graph_context(r->g), type_out(r, k), NULL, &err);
        CHECK(out[k]);
        to[k] = flx_tensor_data(out[k]);
    }
    CHECK_OK(flx_exec_run_at(r->e, in, to, &err), &err);
    for (size_t i = 0; i < r->nin; i++)
        flx_tensor_release(copies[i]);
    free(copies);
    free(in);
    free(to);
}

/* Compiles, runs both ways and compares; returns how many pairs share. */
static size_t check_sharing(const flx_graph *g, flx_tensor **values, const flx_compile_options *o, bool is_asked)
{
    pair_run r = {.g = g, .nin = flx_graph_input_count(g), .nout = flx_graph_output_count(g), .in = values};
    r.shared_with = room(r.nout, sizeof *r.shared_with);
    r.apart = room(r.nout, sizeof *r.apart);
    r.together = room(r.nout, sizeof *r.together);
    compile(&r, o, is_asked);
    run_at(&r, r.apart, false);
    run_at(&r, r.together, true);
    for (size_t k = 0; k < r.nout; k++) {
        EXPECT_MSG(memcmp(flx_tensor_const_data(r.apart[k]), flx_tensor_const_data(r.together[k]),
                          flx_tensor_nbytes(r.apart[k])) == 0,
                   "output '%s' differs where it shares memory%s", flx_graph_output_name(g, k),
                   r.shared_with[k] ? "" : " (another one does)");
        flx_tensor_release(r.apart[k]);
        flx_tensor_release(r.together[k]);
    }
    flx_exec_free(r.e);
    free(r.shared_with);
    free(r.apart);
    free(r.together);
    return r.num_shared;
}

/* ---- By hand ---- */

typedef struct {
    const char *text;
    size_t usual, asked; /* pairs that share as it is, and when they are asked for */
} sharing_row;

static const sharing_row rows[] = {
    {"graph f(x: f32[40, 30]) { return add(mul(x, x), 1) }\n", 1, 1},
    {"graph f(x: f32[40, 40]) { return add(transpose(x, perm=[1, 0]), x) }\n", 0, 0}, /* reads other elements too */
    {"graph f(x: f32[40, 30]) { return exp(x), x }\n", 0, 1}, /* x is copied afterwards, or before */
    {"graph f(x: f32[40, 30]) { return cumsum(x, axis=0) }\n", 0, 0},
    {"graph f(x: f32[40, 30], y: f32[40, 30]) { return add(x, y), sub(x, y) }\n", 2, 2}, /* one kernel writes both */
    {"graph f(x: f32[40, 30], y: f32[40, 30]) { return y, x }\n", 0, 0},
    /* The product reads w after the step that makes its next value, unless that is moved back. */
    {"graph f(w: f32[30, 30], x: f32[40, 30]) { return mul(w, 0.5), tanh(matmul(x, w)) }\n", 0, 1},
};

TEST(sharing_follows_from_how_elements_are_read)
{
    flx_compile_options o = {.threads = 2};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        flx_context *ctx = flx_context_new(NULL);
        flx_error err = {0};
        flx_module *m = flx_parse(ctx, rows[i].text, strlen(rows[i].text), "t", &err);
        CHECK_MSG(m, "%s", err.message);
        const flx_graph *g = flx_module_main(m);
        flx_tensor *values[2] = {0};
        uint64_t seed = test_seed();
        test_fail_context("%s", rows[i].text);
        for (size_t k = 0; k < flx_graph_input_count(g); k++) {
            values[k] = flx_tensor_new(ctx, flx_val_type(g, flx_graph_input(g, k)), NULL, &err);
            for (int64_t j = 0; j < flx_tensor_count(values[k]); j++)
                ((float *)flx_tensor_data(values[k]))[j] = (float)test_uniform(&seed);
        }
        CHECK_EQ_U64(check_sharing(g, values, &o, false), rows[i].usual);
        CHECK_EQ_U64(check_sharing(g, values, &o, true), rows[i].asked);
        flx_tensor_release(values[0]);
        flx_tensor_release(values[1]);
        flx_module_free(m);
        flx_context_free(ctx);
    }
}

/* ---- Routes that work in place ---- */

/* Two scatters one after the other, of which the second writes an output: both work there, so that one run needs no
   memory for what is before them. Updates of one row meet. */
TEST(routes_in_place_work_where_the_output_is)
{
    static const char text[] =
        "graph f(i: i32[3], u: f32[3, 64]) {\n"
        "  x = full(f32[1000, 64], 1)\n"
        "  y = scatter_nd(x, i, u, start_index_map=[0], offset_axes=[1], collapsed_axes=[0], index_vector_axis=1)\n"
        "  return scatter_nd(y, i, u, start_index_map=[0], offset_axes=[1], collapsed_axes=[0], index_vector_axis=1)\n"
        "}\n";
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_module *m = flx_parse(ctx, text, strlen(text), "t", &err);
    CHECK_MSG(m, "%s", err.message);
    flx_exec *e = flx_compile(flx_module_main(m), &(flx_compile_options){.threads = 2}, &err);
    CHECK_MADE(e, &err);
    CHECK(flx_exec_memory(e) < 1000 * 64 * sizeof(float));
    int32_t rows_at[3] = {7, 999, 7};
    float u[3][64], *y = room((size_t)1000 * 64, sizeof *y);
    for (int k = 0; k < 3 * 64; k++)
        u[k / 64][k % 64] = (float)k;
    for (int run = 0; run < 2; run++) /* a second run begins again with x */
        CHECK_OK(flx_exec_run_at(e, (const void *[]){rows_at, u}, (void *[]){y}, &err), &err);
    for (int k = 0; k < 1000 * 64; k++) {
        int row = k / 64, j = k % 64;
        float expected = row == 7 ? 1 + 2 * (u[0][j] + u[2][j]) : row == 999 ? 1 + 2 * u[1][j] : 1;
        CHECK_MSG(y[k] == expected, "row %d, column %d: %g instead of %g", row, j, (double)y[k], (double)expected);
    }
    free(y);
    flx_exec_free(e);
    flx_module_free(m);
    flx_context_free(ctx);
}

/* ---- Random graphs ---- */

static const flx_tensor *find_input(const void *user, const char *name)
{
    const subject *s = user;
    for (size_t k = 0; k < s->n; k++)
        if (strcmp(s->in[k].name, name) == 0)
            return s->in[k].x;
    return NULL;
}

/* A random graph's gradient, and a step down along it: the new inputs replace the old ones. */
static void add_descent(bundle *b, uint64_t seed)
{
    subject s;
    flx_module *module;
    flx_error err = {0};
    const char *wrt[RANDOM_MAX_INPUTS];
    size_t n = 0;
    if (!random_subject(&s, seed, &module))
        return;
    for (size_t k = 0; k < s.n; k++)
        if (s.in[k].t)
            wrt[n++] = s.in[k].name;
    flx_graph *bound = flx_specialise(s.g, s.dims, s.num_dims, &err);
    flx_grad_options o = {.flags = FLX_GRAD_VALUE | FLX_GRAD_MISSING_ZERO};
    flx_graph *grad = bound ? flx_grad(bound, wrt, n, &o, &err) : NULL;
    size_t first = grad ? flx_graph_output_count(grad) - n : 0;
    for (size_t k = 0; grad && k < n; k++)
        flx_output(grad, flx_sub(grad, flx_graph_find(grad, wrt[k]), flx_graph_output(grad, first + k)), NULL);
    if (grad)
        bundle_add_copy(b, grad, find_input, &s, "descent");
    flx_graph_release(grad);
    flx_graph_release(bound);
    random_subject_free(&s, module);
}

TEST(sharing_keeps_the_bits_of_random_descents)
{
    size_t shared = 0;
    uint64_t descents = 2 + (uint64_t)effort(EFFORT_compiled_graphs) / 4;
    for (uint64_t way = 0; way < 2; way++) {
        flx_context *ctx = bundle_context();
        bundle *b = bundle_new(ctx);
        flx_compile_options o = {.threads = 1 + (int32_t)way};
        flx_feed *feeds;
        for (uint64_t i = 0; i < descents; i++)
            add_descent(b, test_seed() % 1000000 + way * descents + i);
        flx_graph *g = bundle_join(b, &feeds);
        size_t n = flx_graph_input_count(g);
        flx_tensor **values = room(n, sizeof *values);
        for (size_t i = 0; i < n; i++)
            values[i] = (flx_tensor *)(uintptr_t)feeds[i].value;
        shared += check_sharing(g, values, &o, true);
        free(values);
        free(feeds);
        flx_graph_release(g);
        bundle_free(b);
        flx_context_free(ctx);
    }
    CHECK_MSG(5 * shared >= 2 * descents, "%zu pairs share", shared);
}
