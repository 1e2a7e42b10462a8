/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_recurrent.c: RNN, GRU and LSTM. The products with the inputs are made for all steps at once; a scan does the
   rest, once for each direction. */
#include "graph/type/type.h"
#include "onnx/import/onnx_site.h"

typedef struct {
    const char *name;
    double alpha, beta;
} activation;

typedef struct {
    onnx_site *s;
    int gates;  /* rows of weights for each hidden unit: 1, 3, 4 */
    int states; /* 2 for LSTM: hidden and cell */
    flx_dim steps, batch, hidden;
    activation act[3];
    double clip; /* 0: none */
    bool linear_before_reset, input_forget, backward;
    flx_val x;       /* [T, B, I] */
    flx_val w, r, b; /* of this direction: [G H, I], [G H, H], [2 G H] or none */
    flx_val h0, c0;  /* [B, H] */
    flx_val p;       /* peepholes [3 H], or none */
    flx_val lengths; /* i64 [B], or none */
} direction;

/* ---- Activations ---- */

static flx_val number_of(flx_graph *g, flx_val like, double x)
{
    const flx_type *t = flx_val_type(g, like);
    return flx_scalar(g, t ? (flx_dtype)t->dtype : FLX_F32, x);
}

static flx_val clipped(flx_graph *g, const direction *d, flx_val x)
{
    return d->clip > 0 ? flx_clamp(g, number_of(g, x, -d->clip), x, number_of(g, x, d->clip)) : x;
}

static flx_val activate(flx_graph *g, const direction *d, int i, flx_val x)
{
    const activation *a = &d->act[i];
    flx_val alpha = number_of(g, x, a->alpha), beta = number_of(g, x, a->beta);
    x = clipped(g, d, x);
    if (strcmp(a->name, "Sigmoid") == 0)
        return flx_sigmoid(g, x);
    if (strcmp(a->name, "Tanh") == 0)
        return flx_tanh(g, x);
    if (strcmp(a->name, "Relu") == 0)
        return flx_relu(g, x);
    if (strcmp(a->name, "Affine") == 0)
        return flx_add(g, flx_mul(g, alpha, x), beta);
    if (strcmp(a->name, "ScaledTanh") == 0)
        return flx_mul(g, alpha, flx_tanh(g, flx_mul(g, beta, x)));
    if (strcmp(a->name, "HardSigmoid") == 0)
        return flx_hard_sigmoid(g, x, .alpha = a->alpha, .beta = a->beta);
    if (strcmp(a->name, "LeakyRelu") == 0)
        return flx_leaky_relu(g, x, .alpha = a->alpha);
    if (strcmp(a->name, "Elu") == 0)
        return flx_elu(g, x, .alpha = a->alpha);
    if (strcmp(a->name, "ThresholdedRelu") == 0)
        return flx_where(g, flx_ge(g, x, alpha), x, number_of(g, x, 0));
    if (strcmp(a->name, "Softsign") == 0)
        return flx_div(g, x, flx_add(g, number_of(g, x, 1), flx_abs(g, x)));
    if (strcmp(a->name, "Softplus") == 0)
        return flx_softplus(g, x);
    flxi_onnx_unsupported(d->s, "the activation '%.30s'", a->name);
    return x;
}

/* alpha and beta where the attributes do not give them. */
static void default_numbers(activation *a)
{
    static const activation defaults[] = {{"LeakyRelu", 0.01, 0}, {"ThresholdedRelu", 1, 0},
                                          {"ScaledTanh", 1, 1},   {"HardSigmoid", 0.2, 0.5},
                                          {"Elu", 1, 0},          {"Affine", 1, 0}};
    for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++)
        if (strcmp(defaults[i].name, a->name) == 0) {
            a->alpha = defaults[i].alpha;
            a->beta = defaults[i].beta;
        }
}

static void read_activations(onnx_site *s, direction *d, int which, const char *const *absent, int count)
{
    size_t n;
    const char *const *names = flxi_onnx_words(s, "activations", &n);
    flx_reals alpha = flxi_onnx_reals(s, "activation_alpha"), beta = flxi_onnx_reals(s, "activation_beta");
    for (int i = 0; i < count; i++) {
        size_t at = (size_t)(which * count + i);
        d->act[i] = (activation){.name = at < n ? names[at] : absent[i]};
        default_numbers(&d->act[i]);
        if (at < alpha.n)
            d->act[i].alpha = alpha.v[at];
        if (at < beta.n)
            d->act[i].beta = beta.v[at];
    }
}

/* ---- Steps: (hidden, cell, r, more…, x_t, active) to the new states ---- */

/* Columns of gate i of [B, G H]. */
static flx_val gate(flx_graph *g, const direction *d, flx_val x, int i)
{
    return flx_narrow(g, x, .axis = 1, .start = i * d->hidden, .len = d->hidden);
}

static flx_val vector_part(flx_graph *g, const direction *d, flx_val v, int i)
{
    return flx_narrow(g, v, .axis = 0, .start = i * d->hidden, .len = d->hidden);
}

static flx_val rnn_step(flx_graph *g, const direction *d, flx_val x, flx_val h, flx_val r)
{
    return activate(g, d, 0, flx_add(g, x, flx_matmul(g, h, r)));
}

/* Gates: update, reset, hidden. rb is the recurrent bias of the hidden gate, which the reset gate may scale. */
static flx_val gru_step(flx_graph *g, const direction *d, flx_val x, flx_val h, flx_val r, flx_val rb)
{
    flx_val zr_r = flx_narrow(g, r, .axis = 1, .start = 0, .len = 2 * d->hidden);
    flx_val rh = flx_narrow(g, r, .axis = 1, .start = 2 * d->hidden, .len = d->hidden);
    flx_val zr = flx_matmul(g, h, zr_r);
    flx_val z = activate(g, d, 0, flx_add(g, gate(g, d, x, 0), gate(g, d, zr, 0)));
    flx_val reset = activate(g, d, 0, flx_add(g, gate(g, d, x, 1), gate(g, d, zr, 1)));
    flx_val inner = d->linear_before_reset ? flx_mul(g, reset, flx_add(g, flx_matmul(g, h, rh), rb))
                                           : flx_add(g, flx_matmul(g, flx_mul(g, reset, h), rh), rb);
    flx_val next = activate(g, d, 1, flx_add(g, gate(g, d, x, 2), inner));
    flx_val one = number_of(g, z, 1);
    return flx_add(g, flx_mul(g, flx_sub(g, one, z), next), flx_mul(g, z, h));
}

/* Gates: input, output, forget, cell. Peepholes: input, output, forget. */
static flx_val lstm_step(flx_graph *g, const direction *d, flx_val x, flx_val h, flx_val c, flx_val r, flx_val p,
                         flx_val *cell)
{
    flx_val all = flx_add(g, x, flx_matmul(g, h, r));
    flx_val in = gate(g, d, all, 0), out = gate(g, d, all, 1), forget = gate(g, d, all, 2);
    if (p.id) {
        in = flx_add(g, in, flx_mul(g, vector_part(g, d, p, 0), c));
        forget = flx_add(g, forget, flx_mul(g, vector_part(g, d, p, 2), c));
    }
    in = activate(g, d, 0, in);
    forget = d->input_forget ? flx_sub(g, number_of(g, in, 1), in) : activate(g, d, 0, forget);
    flx_val fresh = activate(g, d, 1, gate(g, d, all, 3));
    *cell = flx_add(g, flx_mul(g, forget, c), flx_mul(g, in, fresh));
    if (p.id)
        out = flx_add(g, out, flx_mul(g, vector_part(g, d, p, 1), *cell));
    return flx_mul(g, activate(g, d, 0, out), activate(g, d, 2, *cell));
}

/* ---- One direction ---- */

typedef struct {
    flx_graph *g;
    flx_val operands[8]; /* of the scan, in s->g */
    size_t n, num_carry, num_bcast;
} scan_build;

static flx_val take(onnx_site *s, scan_build *b, const char *name, flx_val v, bool is_sequence)
{
    flx_type t = *flxi_onnx_typeof(s, v);
    if (is_sequence) {
        t.rank--;
        memmove(t.dims, t.dims + 1, sizeof t.dims - sizeof *t.dims);
    }
    b->operands[b->n++] = v;
    return flx_input(b->g, name, &t);
}

/* Where an example has ended, its states stay and its output is zero. */
static flx_val hold(flx_graph *g, flx_val active, flx_val next, flx_val old)
{
    return active.id ? flx_where(g, active, next, old) : next;
}

/* x W^T + biases for all steps: [T, B, G H]. *hidden_bias receives the recurrent bias of the hidden gate for GRU. */
static flx_val input_products(onnx_site *s, const direction *d, flx_val *hidden_bias)
{
    flx_val y = flx_matmul(s->g, d->x, flx_transpose(s->g, d->w));
    flx_dim rows = d->gates * d->hidden;
    flx_dim kept = d->gates == 3 ? 2 * d->hidden : rows;
    *hidden_bias = flxi_onnx_fill(s, flxi_onnx_number(s, y, 0), FLX_INTS(d->hidden));
    if (!flxi_onnx_given(d->b))
        return y;
    flx_val rb = flxi_onnx_slice_axis(s, d->b, 0, rows, 2 * rows);
    y = flx_add(s->g, y, flxi_onnx_slice_axis(s, d->b, 0, 0, rows));
    if (d->gates != 3)
        return flx_add(s->g, y, rb);
    *hidden_bias = flxi_onnx_slice_axis(s, rb, 0, kept, rows);
    flx_val zero = flxi_onnx_fill(s, flxi_onnx_number(s, y, 0), FLX_INTS(d->hidden));
    flx_val parts[2] = {flxi_onnx_slice_axis(s, rb, 0, 0, kept), zero};
    return flx_add(s->g, y, flx_concat(s->g, parts, 2, .axis = 0));
}

/* [T, B, 1]: whether the step is before the end of the example. */
static flx_val active_steps(onnx_site *s, const direction *d)
{
    if (!flxi_onnx_given(d->lengths))
        return FLX_NONE;
    flx_type grid = {.dtype = FLX_I64, .rank = 3, .dims = {d->steps, d->batch, 1}};
    flx_val n = flx_reshape(s->g, flxi_onnx_cast(s, d->lengths, FLX_I64), .shape = FLX_INTS(d->batch, 1));
    return flx_lt(s->g, flx_iota(s->g, .type = &grid, .axis = 0), n);
}

static void build_step(const direction *d, scan_build *b, const flx_val *in)
{
    flx_graph *g = b->g;
    flx_val h = in[0], c = in[1], r = in[2], rb = in[3], p = in[4], x = in[5], active = in[6];
    flx_val cell = FLX_NONE;
    flx_val next = d->gates == 1   ? rnn_step(g, d, x, h, r)
                   : d->gates == 3 ? gru_step(g, d, x, h, r, rb)
                                   : lstm_step(g, d, x, h, c, r, p, &cell);
    flx_val zero = number_of(g, next, 0);
    flx_output(g, hold(g, active, next, h), "h");
    if (d->states == 2)
        flx_output(g, hold(g, active, cell, c), "c");
    flx_output(g, active.id ? flx_where(g, active, next, zero) : next, "y");
}

/* The outputs of all steps [T, B, H] and the final states. */
static void run_direction(onnx_site *s, direction *d, flx_val *y, flx_val *h, flx_val *c)
{
    scan_build b = {.g = flxi_onnx_keep(s, flx_graph_new(flx_graph_context(s->g), "step"))};
    flx_val in[7] = {FLX_NONE, FLX_NONE, FLX_NONE, FLX_NONE, FLX_NONE, FLX_NONE, FLX_NONE};
    flx_val results[3] = {FLX_NONE, FLX_NONE, FLX_NONE}, rb;
    flx_val active = active_steps(s, d);
    flx_val x = input_products(s, d, &rb);
    if (!b.g || flxi_onnx_failed(s))
        return;
    in[0] = take(s, &b, "h", d->h0, false);
    if (d->states == 2)
        in[1] = take(s, &b, "c", d->c0, false);
    in[2] = take(s, &b, "r", flx_transpose(s->g, d->r), false);
    in[3] = take(s, &b, "rb", rb, false);
    if (flxi_onnx_given(d->p))
        in[4] = take(s, &b, "p", d->p, false);
    b.num_bcast = b.n - (size_t)d->states;
    in[5] = take(s, &b, "x", x, true);
    if (flxi_onnx_given(active))
        in[6] = take(s, &b, "active", active, true);
    build_step(d, &b, in);
    flx_error err = {0};
    if (flx_graph_error(b.g, &err) != FLX_OK) {
        flxi_graph_fail(s->g, &err);
        return;
    }
    flx_scan(s->g, b.operands, b.n, results, 3, .body = b.g, .num_carry = d->states, .num_bcast = (int64_t)b.num_bcast,
             .num_xs = flxi_onnx_given(active) ? 2 : 1);
    *h = results[0];
    *c = d->states == 2 ? results[1] : FLX_NONE;
    *y = results[d->states];
}

/* The steps of each example in reverse order. */
static flx_val reversed(onnx_site *s, const direction *d, flx_val x)
{
    if (!flxi_onnx_given(d->lengths))
        return flx_reverse(s->g, x, .axes = FLX_INTS(0));
    flx_type grid = *flxi_onnx_typeof(s, x);
    grid.dtype = FLX_I64;
    flx_val n = flx_reshape(s->g, flxi_onnx_cast(s, d->lengths, FLX_I64), .shape = FLX_INTS(d->batch, 1));
    flx_val t = flx_iota(s->g, .type = &grid, .axis = 0);
    flx_val back = flx_sub(s->g, flx_sub(s->g, n, flx_scalar(s->g, FLX_I64, 1)), t);
    return flx_take_along(s->g, x, flx_where(s->g, flx_lt(s->g, t, n), back, t), .axis = 0);
}

/* ---- The operation ---- */

/* Part k of the first axis, without it; a state that is not given is zero. */
static flx_val part_of(onnx_site *s, flx_val v, int k)
{
    if (!flxi_onnx_given(v))
        return v;
    return flx_squeeze(s->g, flxi_onnx_slice_axis(s, v, 0, k, k + 1), .axes = FLX_INTS(0));
}

static flx_val state_of(onnx_site *s, const direction *d, flx_val v, int k)
{
    if (flxi_onnx_given(v))
        return part_of(s, v, k);
    return flxi_onnx_fill(s, flxi_onnx_number(s, d->x, 0), FLX_INTS(d->batch, d->hidden));
}

static flx_val swapped(onnx_site *s, flx_val v)
{
    return flxi_onnx_given(v) ? flx_transpose(s->g, v, .perm = FLX_INTS(1, 0, 2)) : v;
}

typedef struct {
    int gates, states, num_activations;
    const char *const *activations;
} kind;

/* Direction i of one or two, over x; h0 and c0 hold the first states of all. */
static direction read_direction(onnx_site *s, const kind *k, int i, flx_val x, flx_val h0, flx_val c0)
{
    direction d = {.s = s, .gates = k->gates, .states = k->states, .x = x, .lengths = s->x[4]};
    d.steps = flxi_onnx_dim(s, x, 0);
    d.batch = flxi_onnx_dim(s, x, 1);
    d.hidden = flxi_onnx_dim(s, s->x[2], 2);
    d.clip = flxi_onnx_real(s, "clip", 0);
    d.linear_before_reset = flxi_onnx_int(s, "linear_before_reset", 0) != 0;
    d.input_forget = flxi_onnx_int(s, "input_forget", 0) != 0;
    d.backward = i == 1 || strcmp(flxi_onnx_word(s, "direction", "forward"), "reverse") == 0;
    read_activations(s, &d, i, k->activations, k->num_activations);
    d.w = part_of(s, s->x[1], i);
    d.r = part_of(s, s->x[2], i);
    d.b = part_of(s, s->x[3], i);
    d.h0 = state_of(s, &d, h0, i);
    if (k->states == 2) {
        d.c0 = state_of(s, &d, c0, i);
        d.p = part_of(s, s->x[7], i);
    }
    if (d.backward)
        d.x = reversed(s, &d, x);
    return d;
}

static void import_recurrent(onnx_site *s, const kind *k)
{
    bool batch_first = flxi_onnx_int(s, "layout", 0) != 0;
    int count = strcmp(flxi_onnx_word(s, "direction", "forward"), "bidirectional") == 0 ? 2 : 1;
    flx_val x = batch_first ? swapped(s, s->x[0]) : s->x[0];
    flx_val h0 = batch_first ? swapped(s, s->x[5]) : s->x[5], c0 = batch_first ? swapped(s, s->x[6]) : s->x[6];
    flx_val y[2], h[2] = {FLX_NONE, FLX_NONE}, c[2] = {FLX_NONE, FLX_NONE};
    if (flxi_onnx_rank(s, x) != 3 || flxi_onnx_rank(s, s->x[2]) != 3) {
        flxi_onnx_fail(s, FLX_E_SHAPE, NULL, "its operands must have three axes");
        return;
    }
    for (int i = 0; i < count; i++) {
        direction d = read_direction(s, k, i, x, h0, c0);
        y[i] = FLX_NONE;
        run_direction(s, &d, &y[i], &h[i], &c[i]);
        if (d.backward && !flxi_onnx_failed(s))
            y[i] = reversed(s, &d, y[i]);
    }
    if (flxi_onnx_failed(s))
        return;
    s->y[0] = flx_stack(s->g, y, (size_t)count, .axis = batch_first ? 2 : 1);
    if (batch_first)
        s->y[0] = flx_transpose(s->g, s->y[0], .perm = FLX_INTS(1, 0, 2, 3));
    s->y[1] = flx_stack(s->g, h, (size_t)count, .axis = batch_first ? 1 : 0);
    if (k->states == 2)
        s->y[2] = flx_stack(s->g, c, (size_t)count, .axis = batch_first ? 1 : 0);
}

void flxi_onnx_import_rnn(onnx_site *s)
{
    static const char *const absent[] = {"Tanh"};
    import_recurrent(s, &(kind){1, 1, 1, absent});
}

void flxi_onnx_import_gru(onnx_site *s)
{
    static const char *const absent[] = {"Sigmoid", "Tanh"};
    import_recurrent(s, &(kind){3, 1, 2, absent});
}

void flxi_onnx_import_lstm(onnx_site *s)
{
    static const char *const absent[] = {"Sigmoid", "Tanh", "Tanh"};
    import_recurrent(s, &(kind){4, 2, 3, absent});
}
