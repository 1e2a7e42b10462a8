/* SPDX-License-Identifier: Apache-2.0 */
/* part_random.c: random numbers that no kernel makes, with the words of numeric/counter_rng.c: rng_bit_generator,
   gamma, categorical and sample. */
#include "graph/op/eval.h"
#include "ops/opcode.h"
#include "ops/random/random.h"
#include "standalone/parts/parts.h"

static const char *counter_rng(flxi_sa_writer *w, const char *name)
{
    return flxi_sa_borrow(w->f, "counter_rng.c", name);
}

/* ---- rng_bit_generator ---- */

/* Number i of the state, which may be two words. */
static const char *state_number(flxi_sa_writer *w, int i)
{
    if (w->n->in_types[0]->dtype == FLX_U64)
        return flxi_sa_print(w, "x0[%d]", i);
    return flxi_sa_print(w, "(x0[%d] | (uint64_t)x0[%d] << 32)", 2 * i, 2 * i + 1);
}

static void write_state_number(flxi_sa_writer *w, int i, const char *value)
{
    if (w->n->in_types[0]->dtype == FLX_U64) {
        flxi_sa_line(w, "y0[%d] = %s;", i, value);
        return;
    }
    flxi_sa_line(w, "y0[%d] = (uint32_t)(%s);", 2 * i, value);
    flxi_sa_line(w, "y0[%d] = (uint32_t)((%s) >> 32);", 2 * i + 1, value);
}

/* The word of element i: in order, except for the pairs of Threefry. */
static const char *word_of(flxi_sa_writer *w, const flx_type *y, bool is_paired)
{
    int axis = is_paired ? flxi_pair_axis(y) : -1;
    if (axis < 0)
        return "(uint64_t)i";
    flxi_split s = flxi_split_at(y, axis);
    long long n = (long long)s.n, inner = (long long)s.inner;
    flxi_sa_line(w, "const int64_t at = i / %lld %% %lld;", inner, n);
    flxi_sa_line(w, "const int64_t pair = (i / %lld * %lld + at / 2) * %lld + i %% %lld;", n * inner, (n + 1) / 2,
                 inner, inner);
    return "(uint64_t)(2 * pair + at % 2)";
}

void flxi_sa_bit_generator(flxi_sa_writer *w)
{
    const flx_type *state = w->n->in_types[0], *y = w->n->out_types[1];
    bool is_wide = flxi_int_bits(y->dtype) == 64, is_philox = flxi_sa_int(w->n, "algorithm") == FLXI_PHILOX;
    int numbers = (int)(state->dims[0] / (state->dtype == FLX_U64 ? 1 : 2));
    const char *type = flxi_sa_borrow(w->f, "counter_rng.h", "flxi_rng");
    flxi_sa_line(w, "%s g;", type);
    flxi_sa_line(w, "uint64_t blocks = 0;");
    flxi_sa_line(w, "g.algorithm = %s;",
                 flxi_sa_borrow(w->f, "counter_rng.h", is_philox ? "FLXI_PHILOX" : "FLXI_THREEFRY"));
    flxi_sa_line(w, "g.key[0] = (uint32_t)%s;", state_number(w, 0));
    flxi_sa_line(w, "g.key[1] = (uint32_t)(%s >> 32);", state_number(w, 0));
    flxi_sa_line(w, "g.low = %s;", state_number(w, 1));
    flxi_sa_line(w, "g.high = %s;", state_number(w, numbers == 3 ? 2 : 0));
    if (flxi_sa_count(y)) {
        const char *draw = counter_rng(w, is_wide ? "flxi_rng_wide" : "flxi_rng_word");
        flxi_sa_open(w, "for (int64_t i = 0; i < %lld; i++)", (long long)flxi_sa_count(y));
        flxi_sa_line(w, "const uint64_t word = %s;", word_of(w, y, !is_philox && !is_wide));
        flxi_sa_line(w, "const uint64_t block = (%s) / %d + 1;", is_wide ? "2 * word + 1" : "word", is_philox ? 4 : 2);
        flxi_sa_line(w, "y1[i] = (%s)%s(&g, word);", flxi_sa_type(y->dtype), draw);
        flxi_sa_line(w, "blocks = block > blocks ? block : blocks;");
        flxi_sa_close(w);
    }
    write_state_number(w, 0, state_number(w, 0));
    write_state_number(w, 1, "(g.low + blocks)");
    if (numbers == 3)
        write_state_number(w, 2, "(g.high + (g.low + blocks < g.low))");
}

/* ---- gamma ---- */

static void declare_key(flxi_sa_writer *w)
{
    const char *type = flxi_sa_borrow(w->f, "counter_rng.h", "flxi_rng");
    flxi_sa_line(w, "const %s key = %s(x0, 0);", type, counter_rng(w, "flxi_rng_keyed"));
}

void flxi_sa_gamma(flxi_sa_writer *w)
{
    const flx_type *a = w->n->in_types[1], *y = w->n->out_types[0];
    int64_t strides[FLX_MAX_RANK], of_y[FLX_MAX_RANK];
    const char *at = "0";
    if (flxi_sa_count(y) == 0)
        return;
    flxi_broadcast_strides(a, y, strides);
    flxi_strides(y, of_y);
    for (int k = 0; k < y->rank; k++)
        if (strides[k])
            at = flxi_sa_print(w, "%s + i / %lld %% %lld * %lld", at, (long long)of_y[k], (long long)y->dims[k],
                               (long long)strides[k]);
    declare_key(w);
    flxi_sa_open(w, "for (int64_t i = 0; i < %lld; i++)", (long long)flxi_sa_count(y));
    flxi_sa_line(w, "const double a = %s;", flxi_sa_load(w, a->dtype, flxi_sa_print(w, "x1[%s]", at)));
    const char *draw = flxi_sa_print(w, "%s(&key, (uint64_t)i, a)", counter_rng(w, "flxi_rng_gamma"));
    flxi_sa_line(w, "y0[i] = %s;", flxi_sa_rounded(w, y->dtype, draw));
    flxi_sa_close(w);
}

/* ---- Rows of logits ---- */

static const flx_type *logits_of(const flxi_device_node *n)
{
    return n->in_types[n->op == OP_categorical ? 1 : 0];
}

static int64_t tokens_of(const flxi_device_node *n)
{
    const flx_type *t = logits_of(n);
    return t->dims[t->rank - 1];
}

/* A row in double, and for `sample` twice as many positions. */
size_t flxi_sa_tokens_scratch(const flxi_device_node *n)
{
    return (n->op == OP_sample ? 24 : 8) * (size_t)tokens_of(n);
}

static void open_rows(flxi_sa_writer *w)
{
    const flx_type *x = logits_of(w->n);
    flxi_sa_line(w, "double *const row = (double *)scratch;");
    flxi_sa_open(w, "for (int64_t r = 0; r < %lld; r++)", (long long)flxi_sa_count(w->n->out_types[0]));
    flxi_sa_open(w, "for (int64_t i = 0; i < %lld; i++)", (long long)tokens_of(w->n));
    flxi_sa_line(
        w, "row[i] = %s;",
        flxi_sa_load(w, x->dtype,
                     flxi_sa_print(w, "x%d[r * %lld + i]", w->n->op == OP_categorical, (long long)tokens_of(w->n))));
    flxi_sa_line(w, "if (row[i] != row[i])");
    flxi_sa_line(w, "    return %s; /* NaN */", flxi_sa_code_of(w->f, SA_BAD_LOGITS));
    flxi_sa_close(w);
}

static const char *bits_of(flxi_sa_writer *w)
{
    return flxi_sa_borrow(w->f, "counter_rng.h", logits_of(w->n)->dtype == FLX_F64 ? "FLXI_RNG_53" : "FLXI_RNG_24");
}

void flxi_sa_categorical(flxi_sa_writer *w)
{
    long long n = (long long)tokens_of(w->n);
    if (flxi_sa_count(w->n->out_types[0]) == 0)
        return;
    declare_key(w);
    open_rows(w);
    flxi_sa_line(w, "for (int64_t i = 0; i < %lld; i++)", n);
    flxi_sa_line(w, "    row[i] -= log(-log(%s(&key, %s, (uint64_t)(r * %lld + i))));", counter_rng(w, "flxi_rng_open"),
                 bits_of(w), n);
    flxi_sa_line(w, "y0[r] = (int32_t)%s(row, %lld);", flxi_sa_borrow(w->f, "token_draw.c", "flxi_argmax"), n);
    flxi_sa_close(w);
}

void flxi_sa_sample(flxi_sa_writer *w)
{
    const flxi_op *op = &flxi_ops[w->n->op];
    long long n = (long long)tokens_of(w->n);
    double temperature = flxi_attr_real(op, w->n->attrs, "temperature");
    if (flxi_sa_count(w->n->out_types[0]) == 0)
        return;
    const char *largest = flxi_sa_print(w, "%s(row, %lld)", flxi_sa_borrow(w->f, "token_draw.c", "flxi_argmax"), n);
    open_rows(w);
    if (temperature <= 0) {
        flxi_sa_line(w, "y0[r] = (int32_t)%s;", largest);
        flxi_sa_close(w);
        return;
    }
    flxi_sa_line(w, "if (row[%s] == -INFINITY)", largest);
    flxi_sa_line(w, "    return %s; /* no token is possible */", flxi_sa_code_of(w->f, SA_BAD_LOGITS));
    const char *rng = flxi_sa_borrow(w->f, "counter_rng.h", "flxi_rng");
    const char *type = flxi_sa_borrow(w->f, "token_draw.h", "flxi_token_row");
    flxi_sa_line(w, "const %s g = %s(UINT64_C(%llu), (uint64_t)r);", rng, counter_rng(w, "flxi_rng_seeded"),
                 (unsigned long long)flxi_sa_int(w->n, "seed"));
    flxi_sa_line(w, "%s tokens = {row, (int64_t *)(row + %lld), %lld, %lld, %s, %s, 0};", type, n, n,
                 (long long)flxi_sa_int(w->n, "top_k"), flxi_sa_real(w, flxi_attr_real(op, w->n->attrs, "top_p")),
                 flxi_sa_real(w, temperature));
    flxi_sa_line(w, "y0[r] = (int32_t)%s(&tokens, %s(&g, %s, 0));",
                 flxi_sa_borrow(w->f, "token_draw.c", "flxi_draw_token"), counter_rng(w, "flxi_rng_uniform"),
                 bits_of(w));
    flxi_sa_close(w);
}
