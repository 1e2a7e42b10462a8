/* SPDX-License-Identifier: Apache-2.0 */
/* recurrence.c: layers whose state evolves along a sequence: selective_scan (a diagonal state-space model whose step
   sizes depend on the input) and gated_delta_net (a matrix that forgets and is corrected token by token).

   Both are a `scan` over the tokens, and nothing is unrolled: the scan is differentiated, batched and compiled, so
   graphs do not grow with the sequence, and reverse mode keeps one state for each token. A state is a sum over all
   tokens before, so narrow floats are computed in f32 and rounded once, at the end. */
#include "graph/op/work.h"
#include "ops/control/control.h"
#include "ops/rule/axis/along.h"
#include "ops/rule/axis/axis_letters.h"
#include "ops/rule/decomposed.h"

/* ---- Shared by both ---- */

/* Operand i, wide. */
static flx_val wide_operand(flxi_site *s, uint32_t i, const char *const *axes, const flxi_letters *dims)
{
    return flxi_widen(s, flxi_as_lettered(s, s->x[i], axes[i], dims));
}

/* The same, [N, S, ..], as [S, N, ..], a sequence of rows. */
static flx_val tokens(flxi_site *s, uint32_t i, const char *const *axes, const flxi_letters *dims)
{
    return flxi_move_axis(s, wide_operand(s, i, axes, dims), 1, 0);
}

static int32_t state_dtype(const flxi_site *s)
{
    return flxi_wide_dtype(flxi_typeof(s, s->x[0])->dtype);
}

/* A step of the scan under construction: its graph, and the values in it. */
typedef struct {
    flx_graph *g;
    int32_t dtype;
    const flxi_letters *dims;
} step;

static flx_val step_input(const step *b, const char *name, const char *axes)
{
    flx_type t = flxi_lettered(b->dtype, axes, b->dims);
    return flx_input(b->g, name, &t);
}

/* The body returns the next state and one row of the result. */
static flx_graph *finish_step(flxi_site *s, const step *b, flx_val state, flx_val row)
{
    flx_output(b->g, state, NULL);
    flx_output(b->g, row, NULL);
    return flxi_finish_body(s, b->g);
}

/* Scans x, which are the state, `shared` operands that each step reads as a whole, and sequences; y[0] receives the
   rows, as [N, S, ..], y[1] the last state, both in the dtype of the operands. Frees the body. */
static void run_steps(flxi_site *s, flx_graph *body, const flx_val *x, uint32_t n, uint32_t shared, flx_dim length,
                      flx_val y[2])
{
    flx_scan_attrs a = FLX_SCAN_ATTRS;
    flx_val out[2] = {FLX_NONE, FLX_NONE};
    a.body = body;
    a.num_bcast = shared;
    a.length = length;
    if (body)
        flx_scan_with(s->g, x, n, out, 2, &a);
    flx_graph_release(body);
    int32_t dtype = flxi_typeof(s, s->x[0])->dtype;
    y[0] = flxi_as_dtype(s, flxi_move_axis(s, out[1], 0, 1), dtype);
    y[1] = flxi_as_dtype(s, out[0], dtype);
}

/* ---- selective_scan ---- */

static const char *const selective_axes[] = {"NSH", "NSH", "Hn", "NSn", "NSn"};

static flx_code infer_selective(flxi_infer *f)
{
    flxi_letters dims;
    FLXI_TRY(flxi_match_letters(f, selective_axes, &dims));
    f->out[0] = flxi_lettered(f->in[0]->dtype, "NSH", &dims);
    return FLX_OK;
}

/* h ← exp(Δ a) h + Δ x b and y = Σ_n c h. */
static flx_graph *selective_step(flxi_site *s, const flxi_letters *dims)
{
    step t = {flxi_new_body(s, "step"), state_dtype(s), dims};
    flx_graph *g = t.g;
    if (!g)
        return NULL;
    flx_val h = step_input(&t, "h", "NHn");
    flx_val a = step_input(&t, "a", "Hn");
    flx_val x = step_input(&t, "x", "NH");
    flx_val delta = step_input(&t, "delta", "NH");
    flx_val b = step_input(&t, "b", "Nn");
    flx_val c = step_input(&t, "c", "Nn");
    flx_val decay = flx_exp(g, flx_mul(g, flx_unsqueeze(g, delta, FLX_INTS(2)), a));
    flx_val drive = flx_unsqueeze(g, flx_mul(g, delta, x), FLX_INTS(2));
    drive = flx_mul(g, drive, flx_unsqueeze(g, b, FLX_INTS(1)));
    flx_val next = flx_add(g, flx_mul(g, decay, h), drive);
    flx_val read = flx_mul(g, next, flx_unsqueeze(g, c, FLX_INTS(1))); /* such a short sum belongs in the same kernel */
    return finish_step(s, &t, next, flx_reduce_sum(g, read, FLX_INTS(2), false));
}

static void decompose_selective(flxi_site *s, flx_val *y)
{
    flxi_letters dims = flxi_site_letters(s, selective_axes);
    flx_type state = flxi_lettered(state_dtype(s), "NHn", &dims);
    flx_val x[6] = {flxi_zeros(s, &state), wide_operand(s, 2, selective_axes, &dims)};
    static const uint32_t sequences[] = {0, 1, 3, 4};
    for (uint32_t i = 0; i < 4; i++)
        x[i + 2] = tokens(s, sequences[i], selective_axes, &dims);
    flx_val out[2];
    run_steps(s, selective_step(s, &dims), x, 6, 1, dims.of['S'], out);
    y[0] = out[0];
}

static const flxi_sample samples_selective[] = {
    {"T[2, 3, 2], T[2, 3, 2]{0.1..1}, T[2, 2]{-1..0}, T[2, 3, 2], T[2, 3, 2]", NULL, NULL, FLX_OK},
    {"T[1, 1, 3], T[1, 1, 3]{0.1..1}, T[3, 1]{-1..0}, T[1, 1, 1], T[1, 1, 1]", NULL, NULL, FLX_OK},
    {"T[2, 0, 3], T[2, 0, 3], T[3, 2], T[2, 0, 2], T[2, 0, 2]", NULL, NULL, FLX_OK},
    {"T[0, 3, 2], T[0, 3, 2], T[2, 2], T[0, 3, 2], T[0, 3, 2]", NULL, NULL, FLX_OK},
    {"T[1, 2, 2], T[1, 2, 2]{0.1..1}, T[2, 0], T[1, 2, 0], T[1, 2, 0]", NULL, NULL, FLX_OK},
    {"T[1, N, 2], T[1, N, 2]{0.1..1}, T[2, 1]{-1..0}, T[1, N, 1], T[1, N, 1]", NULL, NULL, FLX_OK},
    {"T[1, S, 1], T[1, 3, 1]{0.1..1}, T[1, 1]{-1..0}, T[1, 3, 1], T[1, S, 1]", NULL, NULL, FLX_OK},
    {"T[2, 3, 4], T[2, 3, 3], T[4, 2], T[2, 3, 2], T[2, 3, 2]", NULL, NULL, FLX_E_SHAPE},
    {"T[2, 3, 4], T[2, 3, 4], T[2, 4], T[2, 3, 2], T[2, 3, 2]", NULL, NULL, FLX_E_SHAPE},
    {"T[2, 3, 4], T[2, 3, 4], T[4, 2], T[2, 5, 2], T[2, 3, 2]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 4], T[3, 4], T[4, 2], T[3, 2], T[3, 2]", NULL, NULL, FLX_E_SHAPE},
    {0},
};

const flxi_rules flxi_rules_selective_scan = {
    .infer = infer_selective,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_selective,
    .samples = samples_selective,
    .work = flxi_work_decomposed,
};

/* ---- gated_delta_net ---- */

typedef struct {
    int64_t carry_state;
} delta_attrs;

static const flxi_attr delta_schema[] = {A_BOOL(delta_attrs, carry_state, 0), A_END};

static const char *const delta_axes[] = {"NSHn", "NSHn", "NSHn", "NSH", "NSH", "NHnn"};

static flx_code infer_delta(flxi_infer *f)
{
    const delta_attrs *a = f->attrs;
    flxi_letters dims;
    FLXI_TRY(flxi_match_letters(f, delta_axes, &dims));
    FLXI_TRY(flxi_results(f, a->carry_state ? 2 : 1));
    f->out[0] = flxi_lettered(f->in[0]->dtype, "NSHn", &dims);
    if (a->carry_state)
        f->out[1] = flxi_lettered(f->in[0]->dtype, "NHnn", &dims);
    return FLX_OK;
}

/* T ← e^γ T; d = (v − k T) β; T ← T + k ⊗ d; y = q T. */
static flx_graph *delta_step(flxi_site *s, const flxi_letters *dims)
{
    step t = {flxi_new_body(s, "step"), state_dtype(s), dims};
    flx_graph *g = t.g;
    if (!g)
        return NULL;
    flx_val state = step_input(&t, "state", "NHnn");
    flx_val q = step_input(&t, "q", "NHn");
    flx_val k = step_input(&t, "k", "NHn");
    flx_val v = step_input(&t, "v", "NHn");
    flx_val gamma = step_input(&t, "gamma", "NH");
    flx_val beta = step_input(&t, "beta", "NH");
    flx_val faded = flx_mul(g, flx_unsqueeze(g, flx_exp(g, gamma), FLX_INTS(2, 3)), state);
    flx_val found = flx_matmul(g, flx_unsqueeze(g, k, FLX_INTS(2)), faded);
    flx_val missing = flx_sub(g, flx_unsqueeze(g, v, FLX_INTS(2)), found);
    missing = flx_mul(g, missing, flx_unsqueeze(g, beta, FLX_INTS(2, 3)));
    flx_val next = flx_add(g, faded, flx_mul(g, flx_unsqueeze(g, k, FLX_INTS(3)), missing));
    flx_val row = flx_matmul(g, flx_unsqueeze(g, q, FLX_INTS(2)), next);
    return finish_step(s, &t, next, flx_squeeze(g, row, FLX_INTS(2)));
}

/* q/√n of all tokens at once. */
static flx_val scaled_queries(flxi_site *s, flx_val q, flx_dim n)
{
    flx_dtype dtype = (flx_dtype)flxi_typeof(s, q)->dtype;
    return flx_mul(s->g, q, flx_rsqrt(s->g, flxi_index_number(s, dtype, n)));
}

static void decompose_delta(flxi_site *s, flx_val *y)
{
    flxi_letters dims = flxi_site_letters(s, delta_axes);
    flx_type state = flxi_lettered(state_dtype(s), "NHnn", &dims);
    flx_val x[6];
    x[0] = s->nin > 5 ? wide_operand(s, 5, delta_axes, &dims) : flxi_zeros(s, &state);
    for (uint32_t i = 0; i < 5; i++)
        x[i + 1] = tokens(s, i, delta_axes, &dims);
    x[1] = scaled_queries(s, x[1], dims.of['n']);
    flx_val out[2];
    run_steps(s, delta_step(s, &dims), x, 6, 0, dims.of['S'], out);
    memcpy(y, out, s->nout * sizeof *y);
}

static const flxi_sample samples_delta[] = {
    {"T[1, 3, 2, 2]{-1..1}, T[1, 3, 2, 2]{-1..1}, T[1, 3, 2, 2], T[1, 3, 2]{-1..0}, T[1, 3, 2]{0.1..1}", NULL, NULL,
     FLX_OK},
    {"T[1, 2, 1, 2]{-1..1}, T[1, 2, 1, 2]{-1..1}, T[1, 2, 1, 2], T[1, 2, 1]{-1..0}, T[1, 2, 1]{0.1..1}, T[1, 1, 2, 2]",
     "carry_state=true", NULL, FLX_OK},
    {"T[2, 1, 1, 1], T[2, 1, 1, 1], T[2, 1, 1, 1], T[2, 1, 1]{-1..0}, T[2, 1, 1]{0.1..1}, T[2, 1, 1, 1]", NULL, NULL,
     FLX_OK},
    {"T[1, 2, 1, 1], T[1, 2, 1, 1], T[1, 2, 1, 1], T[1, 2, 1]{-1..0}, T[1, 2, 1]{0.1..1}", "carry_state=true", NULL,
     FLX_OK},
    {"T[1, 0, 1, 2], T[1, 0, 1, 2], T[1, 0, 1, 2], T[1, 0, 1], T[1, 0, 1], T[1, 1, 2, 2]", "carry_state=true", NULL,
     FLX_OK},
    {"T[1, 2, 0, 2], T[1, 2, 0, 2], T[1, 2, 0, 2], T[1, 2, 0], T[1, 2, 0]", NULL, NULL, FLX_OK},
    {"T[1, N, 1, 2]{-1..1}, T[1, N, 1, 2]{-1..1}, T[1, N, 1, 2], T[1, N, 1]{-1..0}, T[1, N, 1]{0.1..1}", NULL, NULL,
     FLX_OK},
    {"T[1, 2, 1, n], T[1, 2, 1, n], T[1, 2, 1, n], T[1, 2, 1]{-1..0}, T[1, 2, 1]{0.1..1}", NULL, NULL, FLX_OK},
    {"T[1, 3, 2, 4], T[1, 3, 2, 4], T[1, 3, 2, 5], T[1, 3, 2], T[1, 3, 2]", NULL, NULL, FLX_E_SHAPE},
    {"T[1, 3, 2, 4], T[1, 3, 2, 4], T[1, 3, 2, 4], T[1, 3], T[1, 3, 2]", NULL, NULL, FLX_E_SHAPE},
    {"T[1, 3, 2, 4], T[1, 3, 2, 4], T[1, 3, 2, 4], T[1, 3, 2], T[1, 3, 2], T[1, 2, 4, 3]", NULL, NULL, FLX_E_SHAPE},
    {"T[1, 3, 2, 4], T[1, 3, 2, 4], T[1, 3, 2, 4], T[1, 3, 2]", NULL, NULL, FLX_E_ARITY},
    {0},
};

const flxi_rules flxi_rules_gated_delta_net = {
    .infer = infer_delta,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_delta,
    .schema = delta_schema,
    .attrs_size = sizeof(delta_attrs),
    .samples = samples_delta,
    .work = flxi_work_decomposed,
};
