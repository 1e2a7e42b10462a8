/* SPDX-License-Identifier: Apache-2.0 */
/* transform_checks.h: what must hold for every graph that a reader accepts when it is used: each transform gives a
   graph that verifies and reads back, or an error with a message; a run ends, and so does one of the compiled graph
   without machine code. INTERNAL is never an answer. */
#ifndef FLX_FUZZ_TRANSFORM_CHECKS_H
#define FLX_FUZZ_TRANSFORM_CHECKS_H

#include "fuzz_checks.h"
#include "ops/opcode.h"

#include <fluxion/stablehlo.h>
#include <stdio.h>

enum { MAX_USED_NODES = 300, MAX_DERIVED_NODES = 3000, MAX_WRT = 4, MAX_USED_ELEMENTS = 4096 };

/* Work that takes longer is ended; then the answer is TIMEOUT. */
static const double use_seconds = 2.0;

/* An error as it should be. */
static inline void check_refusal(const flx_error *err)
{
    if (err->code == FLX_E_INTERNAL || err->code == FLX_OK || !err->message[0])
        fprintf(stderr, "%s: %s (%s)\n", flx_code_name(err->code), err->message, err->where);
    need(err->code != FLX_OK && err->code != FLX_E_INTERNAL && err->message[0]);
}

/* A transform's result, which is released. */
static inline void check_made(flx_graph *made, const flx_error *err)
{
    flx_error wrong = {0};
    if (!made) {
        check_refusal(err);
        return;
    }
    flx_stop *stop = flx_stop_use(NULL); /* checking is not part of the work that may be ended */
    if (flx_graph_verify(made, &wrong) != FLX_OK)
        fprintf(stderr, "%s: %s (%s)\n", flx_code_name(wrong.code), wrong.message, wrong.where);
    need(wrong.code == FLX_OK);
    if (flx_graph_node_count(made) <= MAX_DERIVED_NODES) {
        check_text(made);
        check_bytes(made);
    }
    flx_stop_use(stop);
    flx_graph_release(made);
}

static inline size_t count_nodes(const flx_graph *g)
{
    size_t n = g->node_count;
    for (size_t i = 0; i < g->bodies.n && n <= MAX_USED_NODES; i++)
        n += count_nodes(g->bodies.at[i]);
    return n;
}

static inline size_t float_inputs(const flx_graph *g, const char **names)
{
    size_t n = 0;
    for (size_t i = 0; i < flx_graph_input_count(g) && n < MAX_WRT; i++) {
        flx_val v = flx_graph_input(g, i);
        int32_t dtype = flx_val_type(g, v)->dtype;
        if (dtype >= FLX_F64 && dtype <= FLX_C128)
            names[n++] = flx_val_name(g, v);
    }
    return n;
}

static inline void check_derivatives_of(const flx_graph *g)
{
    const char *wrt[MAX_WRT];
    flx_error err = {0};
    flx_grad_options seeded = {.flags = FLX_GRAD_SEED_INPUT | FLX_GRAD_MISSING_ZERO};
    flx_grad_options zero = {.flags = FLX_GRAD_VALUE | FLX_GRAD_MISSING_ZERO};
    size_t n = float_inputs(g, wrt);
    if (n == 0)
        return;
    flx_graph *made = flx_grad(g, wrt, n, &seeded, &err);
    check_made(made, &err);
    made = flx_grad(g, wrt, n, &zero, &err);
    flx_graph *again = made ? flx_grad(g, wrt, n, &zero, NULL) : NULL; /* NULL: the time is over */
    need(!again || flx_graph_hash(again) == flx_graph_hash(made));
    flx_graph_release(again);
    check_made(made, &err);
    made = flx_jvp(g, wrt, n, &err);
    check_made(made, &err);
    made = flx_hvp(g, wrt, n, &zero, &err);
    check_made(made, &err);
    made = flx_taylor(g, wrt, n, 2, &err);
    check_made(made, &err);
    made = flx_jacobian(g, wrt, n, NULL, &err);
    check_made(made, &err);
}

static inline void check_batches_of(const flx_graph *g)
{
    flx_vmap_axis axes[MAX_INPUTS];
    flx_error err = {0};
    size_t n = flx_graph_input_count(g) < MAX_INPUTS ? flx_graph_input_count(g) : MAX_INPUTS;
    for (size_t i = 0; i < n; i++)
        axes[i] = (flx_vmap_axis){flx_val_name(g, flx_graph_input(g, i)), i % 3 == 2 ? FLX_NO_AXIS : i % 2 ? -1 : 0};
    flx_graph *made = flx_vmap(g, axes, n, NULL, 0, 2, &err);
    check_made(made, &err);
}

static inline void check_other_transforms_of(const flx_graph *g)
{
    flx_error err = {0};
    flx_graph *made = flx_simplify(g, &err);
    check_made(made, &err);
    made = flx_widen(g, &err);
    check_made(made, &err);
    made = flx_mixed_precision(g, FLX_BF16, &err);
    check_made(made, &err);
    for (int policy = FLX_POLICY_DIRECT; policy <= FLX_POLICY_FOR_AUTODIFF; policy++) {
        made = flx_lower(g, (flx_policy)policy, &err);
        check_made(made, &err);
    }
    made = flx_rewrite_patterns(g, &(flx_rewrite_options){.flags = FLX_REWRITE_REGIONS}, NULL, &err);
    check_made(made, &err);
}

/* What is exported can be imported. */
static inline void check_export_of(const flx_graph *g)
{
    flx_error err = {0};
    flx_buffer text = {0};
    if (flx_export_stablehlo(g, &text, &err) != FLX_OK) {
        check_refusal(&err);
        return;
    }
    flx_module *back = flx_import_stablehlo(flx_graph_context(g), text.data, text.size, "exported", &err);
    if (!back && err.code != FLX_E_TIMEOUT && err.code != FLX_E_SIZE)
        fprintf(stderr, "%s: %s (%s)\n%.*s\n", flx_code_name(err.code), err.message, err.where, (int)text.size,
                text.data);
    need(back || err.code == FLX_E_TIMEOUT || err.code == FLX_E_SIZE);
    flx_module_free(back);
    flx_buffer_free(&text);
}

/* ---- Running ---- */

static inline int has_small_inputs(const flx_graph *g)
{
    int64_t sum = 0;
    for (size_t i = 0; i < flx_graph_input_count(g); i++) {
        int64_t count;
        if (!flxi_static_count(flx_val_type(g, flx_graph_input(g, i)), &count) || count > MAX_USED_ELEMENTS)
            return 0;
        sum += count;
    }
    return flx_graph_input_count(g) <= MAX_INPUTS && flx_graph_output_count(g) <= MAX_OUTPUTS &&
           sum <= MAX_USED_ELEMENTS;
}

static inline void check_run(flx_code code, const flx_error *err, size_t n, flx_tensor **out)
{
    if (code != FLX_OK)
        check_refusal(err);
    for (size_t i = 0; code == FLX_OK && i < n; i++)
        need(out[i] != NULL);
}

static inline void release_all(flx_tensor **x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        flx_tensor_release(x[i]);
}

/* The values of a graph, and what it gives for them. */
typedef struct {
    const flx_graph *g;
    flx_feed feeds[MAX_INPUTS];
    flx_tensor *in[MAX_INPUTS], *out[MAX_OUTPUTS];
    size_t num_in, num_out;
    flx_code code;
    int may_round; /* other graphs differ by rounding */
} known_run;

static inline flx_code run_by_definition(const flx_graph *g, const flx_feed *feeds, size_t n, flx_tensor **out)
{
    flx_error err = {0};
    flx_run_options o = {.device = "ref", .time_limit = use_seconds};
    flx_code code = flx_run(g, &o, feeds, n, out, &err);
    check_run(code, &err, flx_graph_output_count(g), out);
    return code;
}

/* Elements are equal to the bit, except that a NaN is any NaN. */
static inline int is_same_element(const flx_tensor *a, const flx_tensor *b, size_t at, size_t size)
{
    const unsigned char *p = (const unsigned char *)flx_tensor_const_data(a) + at;
    const unsigned char *q = (const unsigned char *)flx_tensor_const_data(b) + at;
    int64_t i = (int64_t)(at / size);
    if (memcmp(p, q, size) == 0)
        return 1;
    int32_t dtype = flx_tensor_type(a)->dtype;
    if (dtype == FLX_C64 || dtype == FLX_C128) /* parts are not told apart here */
        return 1;
    return isnan(flx_tensor_get(a, i)) && isnan(flx_tensor_get(b, i));
}

/* Elements differ by rounding at most: of graphs that compute the same in another order. */
static inline int is_near_element(const flx_tensor *a, const flx_tensor *b, int64_t i)
{
    int32_t dtype = flx_tensor_type(a)->dtype;
    double tolerance = dtype == FLX_F64 ? 1e-8 : 1e-2, largest = 1;
    double x = flx_tensor_get(a, i), y = flx_tensor_get(b, i);
    if ((dtype != FLX_F64 && dtype != FLX_F32) || !isfinite(x) || !isfinite(y))
        return 1;
    for (int64_t k = 0; k < flx_tensor_count(a); k++)
        if (isfinite(flx_tensor_get(a, k)))
            largest = fmax(largest, fabs(flx_tensor_get(a, k)));
    return fabs(x - y) <= tolerance * largest;
}

static inline void check_same_tensor(const flx_tensor *a, const flx_tensor *b, int to_the_bit, const char *what)
{
    size_t size = flx_dtype_size(flx_tensor_type(a)->dtype);
    need(flx_tensor_nbytes(a) == flx_tensor_nbytes(b) && flxi_type_equal(flx_tensor_type(a), flx_tensor_type(b)));
    for (size_t at = 0; at < flx_tensor_nbytes(a); at += size)
        if (!is_same_element(a, b, at, size) && (to_the_bit || !is_near_element(a, b, (int64_t)(at / size)))) {
            fprintf(stderr, "%s: element %zu is %.17g instead of %.17g\n", what, at / size,
                    flx_tensor_get(b, (int64_t)(at / size)), flx_tensor_get(a, (int64_t)(at / size)));
            abort();
        }
}

/* A graph of the same meaning gives the same values; it is released. An index out of range is an error only where its
   op is still needed, which transforms decide. */
static inline void check_same_values(const known_run *k, flx_graph *other, const char *what)
{
    flx_tensor *out[MAX_OUTPUTS];
    if (!other)
        return;
    flx_code code = run_by_definition(other, k->feeds, k->num_in, out);
    bool is_permitted = code == FLX_OK || code == FLX_E_TIMEOUT || code == FLX_E_SIZE || code == FLX_E_INDEX;
    if (!is_permitted)
        fprintf(stderr, "%s: %s\n", what, flx_code_name(code));
    need(is_permitted);
    for (size_t i = 0; code == FLX_OK && i < k->num_out; i++)
        check_same_tensor(k->out[i], out[i], !k->may_round, what);
    if (code == FLX_OK)
        release_all(out, k->num_out);
    flx_graph_release(other);
}

static inline void check_meanings(const known_run *k)
{
    static const char *const names[] = {"lowered, direct", "lowered, fusable", "lowered, for autodiff"};
    flx_rewrite_options exactly = {.flags = FLX_REWRITE_EXACT | FLX_REWRITE_REGIONS};
    check_same_values(k, flx_simplify(k->g, NULL), "simplified");
    for (int policy = FLX_POLICY_DIRECT; policy <= FLX_POLICY_FOR_AUTODIFF; policy++)
        check_same_values(k, flx_lower(k->g, (flx_policy)policy, NULL), names[policy]);
    check_same_values(k, flx_rewrite_patterns(k->g, &exactly, NULL, NULL), "rewritten");
}

/* The draws whose second example differs from the first (docs/transforms/batching.md). */
static inline int draws_by_example(const flx_graph *g)
{
    for (uint32_t i = 0; i < g->node_count; i++) {
        flxi_opcode op = flxi_node_at(g, i)->op;
        if (op == OP_rng_uniform || op == OP_rng_normal || op == OP_sample)
            return 1;
    }
    for (size_t i = 0; i < g->bodies.n; i++)
        if (draws_by_example(g->bodies.at[i]))
            return 1;
    return 0;
}

/* A batch of two equal examples gives two equal results, those of one. */
static inline void check_batch_values(const known_run *k)
{
    flx_vmap_axis axes[MAX_INPUTS];
    flx_feed feeds[MAX_INPUTS];
    flx_tensor *in[MAX_INPUTS] = {0}, *out[MAX_OUTPUTS];
    flx_error err = {0};
    int fits = k->num_in > 0 && !draws_by_example(k->g);
    for (size_t i = 0; i < k->num_in && fits; i++) {
        flx_type t = *flx_tensor_type(k->in[i]);
        fits = t.rank < FLX_MAX_RANK;
        if (!fits)
            break;
        memmove(t.dims + 1, t.dims, (size_t)t.rank * sizeof t.dims[0]);
        t.dims[0] = 2;
        t.rank++;
        in[i] = flx_tensor_new(flx_graph_context(k->g), &t, NULL, NULL);
        need(in[i] != NULL);
        size_t n = flx_tensor_nbytes(k->in[i]);
        for (size_t copy = 0; copy < 2 && n > 0; copy++)
            memcpy((char *)flx_tensor_data(in[i]) + copy * n, flx_tensor_const_data(k->in[i]), n);
        axes[i] = (flx_vmap_axis){k->feeds[i].name, 0};
        feeds[i] = (flx_feed){k->feeds[i].name, in[i]};
    }
    flx_graph *batched = fits ? flx_vmap(k->g, axes, k->num_in, NULL, 0, 2, &err) : NULL;
    flx_code code = batched ? run_by_definition(batched, feeds, k->num_in, out) : FLX_E_NO_RULE;
    if (batched && code != FLX_OK && code != FLX_E_TIMEOUT && code != FLX_E_SIZE)
        fprintf(stderr, "batched: %s\n", flx_code_name(code));
    need(!batched || code == FLX_OK || code == FLX_E_TIMEOUT || code == FLX_E_SIZE);
    for (size_t i = 0; code == FLX_OK && i < k->num_out; i++) {
        flx_type t = *flx_tensor_type(k->out[i]);
        size_t n = flx_tensor_nbytes(k->out[i]);
        need(flx_tensor_nbytes(out[i]) == 2 * n);
        for (size_t copy = 0; copy < 2 && n > 0; copy++) {
            flx_tensor *row = flx_tensor_new(flx_graph_context(k->g), &t,
                                             (const char *)flx_tensor_const_data(out[i]) + copy * n, NULL);
            need(row != NULL);
            check_same_tensor(k->out[i], row, 1, copy ? "batched, second" : "batched, first");
            flx_tensor_release(row);
        }
    }
    if (code == FLX_OK)
        release_all(out, k->num_out);
    release_all(in, k->num_in);
    flx_graph_release(batched);
}

/* ---- Reverse against forward mode ---- */

static inline int has_foreign_rules(const flx_graph *g)
{
    for (uint32_t i = 0; i < g->node_count; i++)
        if (flxi_node_at(g, i)->op == OP_custom_fn || flxi_node_at(g, i)->op == OP_kernel_call)
            return 1;
    for (size_t i = 0; i < g->bodies.n; i++)
        if (has_foreign_rules(g->bodies.at[i]))
            return 1;
    return 0;
}

/* Distinct numbers around 1, each a little larger by `nudge`: few ops have a kink or a pole there. */
static inline flx_tensor *tame(flx_context *ctx, const flx_type *type, unsigned salt, double nudge)
{
    flx_type wide = *type;
    wide.dtype = FLX_F64;
    flx_tensor *w = flx_tensor_new(ctx, &wide, NULL, NULL);
    need(w != NULL);
    double *x = flx_tensor_data(w);
    for (int64_t i = 0; i < flx_tensor_count(w); i++)
        x[i] = (0.55 + fmod((double)(salt * 31 + (unsigned)i * 7) * 0.0617, 0.9)) * (1 + nudge);
    flx_tensor *t = flx_tensor_cast(w, (flx_dtype)type->dtype, NULL);
    need(t != NULL);
    flx_tensor_release(w);
    return t;
}

static inline double inner(const flx_tensor *a, const flx_tensor *b, double *size)
{
    double sum = 0;
    for (int64_t i = 0; i < flx_tensor_count(a); i++) {
        double term = flx_tensor_get(a, i) * flx_tensor_get(b, i);
        sum += term;
        *size += fabs(term);
    }
    return sum;
}

/* Runs g with a tame value for each of its inputs, those of tangents included. */
static inline int run_tamely(const flx_graph *g, double nudge, flx_tensor **in, flx_tensor **out)
{
    flx_feed feeds[MAX_INPUTS];
    size_t n = flx_graph_input_count(g);
    if (n > MAX_INPUTS || flx_graph_output_count(g) > MAX_OUTPUTS || !has_small_inputs(g))
        return 0;
    for (size_t i = 0; i < n; i++) {
        flx_val v = flx_graph_input(g, i);
        in[i] = tame(flx_graph_context(g), flx_val_type(g, v), (unsigned)i, nudge);
        feeds[i] = (flx_feed){flx_val_name(g, v), in[i]};
    }
    if (run_by_definition(g, feeds, n, out) == FLX_OK)
        return 1;
    release_all(in, n);
    return 0;
}

/* Both modes of a loss, which is the first output of `wide`. */
typedef struct {
    const flx_graph *wide;
    flx_graph *forward, *reverse;
    size_t n; /* inputs with respect to which they differentiate */
} two_modes;

typedef struct {
    double sum, tangent, size; /* <gradient, t>, the tangent of the loss, and one more than the sum of all |terms| */
} mode_values;

static inline int run_modes(const two_modes *m, double nudge, mode_values *out)
{
    flx_tensor *jin[MAX_INPUTS], *jout[MAX_OUTPUTS], *gin[MAX_INPUTS], *gout[MAX_OUTPUTS];
    size_t base = flx_graph_input_count(m->wide), outputs = flx_graph_output_count(m->wide);
    int is_known = 0;
    if (!run_tamely(m->forward, nudge, jin, jout))
        return 0;
    if (run_tamely(m->reverse, nudge, gin, gout)) {
        *out = (mode_values){0, flx_tensor_get(jout[outputs], 0), 1};
        for (size_t i = 0; i < m->n; i++)
            out->sum += inner(gout[outputs - 1 + i], jin[base + i], &out->size);
        is_known = isfinite(out->sum) && isfinite(out->tangent);
        release_all(gin, flx_graph_input_count(m->reverse));
        release_all(gout, flx_graph_output_count(m->reverse));
    }
    release_all(jin, flx_graph_input_count(m->forward));
    release_all(jout, flx_graph_output_count(m->forward));
    return is_known;
}

/* <gradient, t> = tangent of the loss, in double precision, where both exist and are finite; up to rounding, which is
   measured by moving the inputs by a few units of their last place. */
static inline void check_two_modes(const two_modes *m)
{
    mode_values v, moved;
    if (!run_modes(m, 0, &v))
        return;
    double apart = fabs(v.sum - v.tangent);
    if (apart <= 1e-7 * (v.size + fabs(v.tangent)) || !run_modes(m, 0x1p-50, &moved))
        return;
    double noise = fmax(fabs(moved.sum - v.sum), fabs(moved.tangent - v.tangent));
    if (apart > 256 * noise)
        fprintf(stderr, "reverse mode gives %.17g, forward mode %.17g\n", v.sum, v.tangent);
    need(apart <= 256 * noise);
}

static inline void check_modes_of(const flx_graph *g)
{
    const char *wrt[MAX_WRT];
    flx_grad_options zero = {.flags = FLX_GRAD_MISSING_ZERO};
    flx_graph *wide = has_foreign_rules(g) ? NULL : flx_widen(g, NULL);
    size_t n = wide ? float_inputs(wide, wrt) : 0;
    const flx_type *loss = wide && flx_graph_output_count(wide) ? flx_val_type(wide, flx_graph_output(wide, 0)) : NULL;
    for (size_t i = 0; i < n; i++)
        if (flx_val_type(wide, flx_graph_find(wide, wrt[i]))->dtype != FLX_F64)
            n = 0;
    if (n > 0 && loss && loss->dtype == FLX_F64 && loss->rank == 0) {
        two_modes m = {wide, flx_jvp(wide, wrt, n, NULL), flx_grad(wide, wrt, n, &zero, NULL), n};
        if (m.forward && m.reverse)
            check_two_modes(&m);
        flx_graph_release(m.forward);
        flx_graph_release(m.reverse);
    }
    flx_graph_release(wide);
}

static inline void check_interpreted(const known_run *k)
{
    flx_tensor *out[MAX_OUTPUTS];
    flx_error err = {0};
    flx_compile_options interpreted = {
        .flags = FLX_COMPILE_INTERPRET, .device = "cpu", .threads = 1, .time_limit = use_seconds};
    flx_exec *e = flx_compile(k->g, &interpreted, &err);
    if (!e)
        check_refusal(&err);
    flx_run_options limited = {.time_limit = use_seconds};
    for (int round = 0; e && round < 2; round++) {
        flx_code code = flx_exec_run(e, &limited, k->feeds, k->num_in, out, &err);
        check_run(code, &err, k->num_out, out);
        if (code != FLX_OK && k->code == FLX_OK && code != FLX_E_TIMEOUT && code != FLX_E_SIZE)
            fprintf(stderr, "interpreted: %s: %s\n", flx_code_name(code), err.message);
        need(code == FLX_OK || k->code != FLX_OK || code == FLX_E_TIMEOUT || code == FLX_E_SIZE);
        if (code == FLX_OK)
            release_all(out, k->num_out);
    }
    flx_exec_free(e);
}

static inline void check_runs_of(const flx_graph *g)
{
    known_run k = {.g = g, .num_in = flx_graph_input_count(g), .num_out = flx_graph_output_count(g)};
    if (!has_small_inputs(g))
        return;
    for (size_t i = 0; i < k.num_in; i++) {
        flx_val v = flx_graph_input(g, i);
        k.in[i] = awkward(flx_graph_context(g), flx_val_type(g, v), (unsigned)i);
        k.feeds[i] = (flx_feed){flx_val_name(g, v), k.in[i]};
    }
    k.code = run_by_definition(g, k.feeds, k.num_in, k.out);
    check_interpreted(&k);
    if (k.code == FLX_OK) {
        check_meanings(&k);
        check_batch_values(&k);
        release_all(k.out, k.num_out);
    }
    release_all(k.in, k.num_in);
}

/* ---- All of it ---- */

/* 2 to 5, by the name alone. */
static inline int64_t extent_of(const char *symbol)
{
    return 2 + (symbol[0] + (int64_t)strlen(symbol)) % 4;
}

/* The graph with small extents for its symbols; NULL when that is refused. The caller releases it. */
static inline flx_graph *with_small_extents(const flx_graph *g)
{
    flx_dim_binding dims[MAX_WRT];
    flx_error err = {0};
    size_t n = 0;
    for (; n < MAX_WRT && flx_graph_symbol(g, n); n++)
        dims[n] = (flx_dim_binding){flx_graph_symbol(g, n), extent_of(flx_graph_symbol(g, n))};
    flx_graph *bound = flx_specialise(g, dims, n, &err);
    if (!bound)
        check_refusal(&err);
    return bound;
}

/* Binding symbols and differentiating commute. */
static inline void check_bound_gradient(const flx_graph *g, const flx_graph *bound)
{
    const char *wrt[MAX_WRT];
    known_run k = {0};
    flx_grad_options seeded = {.flags = FLX_GRAD_SEED_INPUT | FLX_GRAD_MISSING_ZERO};
    size_t n = float_inputs(g, wrt);
    flx_graph *symbolic = n && flx_graph_symbol(g, 0) ? flx_grad(g, wrt, n, &seeded, NULL) : NULL;
    flx_graph *late = symbolic ? with_small_extents(symbolic) : NULL;
    flx_graph *early = late ? flx_grad(bound, wrt, n, &seeded, NULL) : NULL;
    if (early && has_small_inputs(early)) {
        k = (known_run){.g = early,
                        .num_in = flx_graph_input_count(early),
                        .num_out = flx_graph_output_count(early),
                        .may_round = 1};
        for (size_t i = 0; i < k.num_in; i++) {
            flx_val v = flx_graph_input(early, i);
            k.in[i] = tame(flx_graph_context(g), flx_val_type(early, v), (unsigned)i, 0);
            k.feeds[i] = (flx_feed){flx_val_name(early, v), k.in[i]};
        }
        k.code = run_by_definition(early, k.feeds, k.num_in, k.out);
        if (k.code == FLX_OK) {
            check_same_values(&k, flx_graph_retain(late), "differentiated before its symbols are bound");
            release_all(k.out, k.num_out);
        }
        release_all(k.in, k.num_in);
    }
    flx_graph_release(symbolic);
    flx_graph_release(late);
    flx_graph_release(early);
}

static inline void check_uses(const flx_graph *g)
{
    flx_error err = {0};
    if (count_nodes(g) > MAX_USED_NODES)
        return;
    flx_stop *stop = flx_stop_new(flx_graph_context(g), use_seconds, &err);
    need(stop != NULL);
    flx_stop_use(stop);
    check_other_transforms_of(g);
    check_derivatives_of(g);
    check_batches_of(g);
    flx_graph *bound = with_small_extents(g);
    if (bound) {
        check_export_of(bound);
        check_runs_of(bound);
        check_modes_of(bound);
        check_bound_gradient(g, bound);
    }
    flx_graph_release(bound);
    flx_stop_use(NULL);
    flx_stop_free(stop);
}

#endif
