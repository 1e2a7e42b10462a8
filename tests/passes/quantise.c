/* SPDX-License-Identifier: Apache-2.0 */
/* quantise.c: products with weights in integers: what happens to a graph, how far results may be from those in f32, and
   what is refused. */
#include "fault.h"
#include "graph/graph_text.h"

#include <fluxion/exec.h>
#include <fluxion/quantise.h>
#include <fluxion/transform.h>
#include <math.h>

typedef struct {
    flx_context *ctx;
    flx_graph *g;
    flx_feed feeds[3]; /* x, then w and v */
    flx_quantise_options o;
    flx_error err;
} quantise_case;

/* Sevenths from -5 to 5, one of them `large` times as large. */
static flx_tensor *sevenths(flx_context *ctx, int64_t rows, int64_t columns, float large)
{
    flx_error err = {0};
    flx_type t = flx_type_make(FLX_F32, 2, (flx_dim[]){rows, columns});
    flx_tensor *x = flx_tensor_new(ctx, &t, NULL, &err);
    CHECK_MSG(x, "%s", err.message);
    for (int64_t i = 0; i < rows * columns; i++)
        ((float *)flx_tensor_data(x))[i] = (float)((i * 29 + 3) % 71 - 35) / 7 * (i == 1 ? large : 1);
    return x;
}

static void case_begin(quantise_case *c, fault *memory, const char *text)
{
    flx_context_options o = {.alloc = fault_alloc, .alloc_user = memory};
    *c = (quantise_case){.ctx = flx_context_new(memory ? &o : NULL)};
    c->g = graph_of(c->ctx, text);
    c->feeds[0] = (flx_feed){"x", sevenths(c->ctx, 9, 6, 3)};
    c->feeds[1] = (flx_feed){"w", sevenths(c->ctx, 6, 4, 0.01F)};
    c->feeds[2] = (flx_feed){"v", sevenths(c->ctx, 5, 4, 40)};
    c->o = (flx_quantise_options){.struct_size = sizeof c->o,
                                  .params = c->feeds + 1,
                                  .num_params = flx_graph_input_count(c->g) - 1,
                                  .batches = c->feeds,
                                  .num_inputs = 1,
                                  .num_batches = 1};
}

static void case_end(quantise_case *c)
{
    for (int i = 0; i < 3; i++)
        flx_tensor_release((flx_tensor *)(uintptr_t)c->feeds[i].value);
    flx_graph_release(c->g);
    flx_context_free(c->ctx);
}

static void check_text(const flx_graph *g, const char *const *parts, size_t n)
{
    flx_buffer printed = text_of(g);
    for (size_t i = 0; i < n; i++)
        CHECK_MSG(strstr(printed.data, parts[i]), "'%s' is not in\n%s", parts[i], printed.data);
    flx_buffer_free(&printed);
}

static const char two_products[] = "graph f(x: f32[N, 6], param w: f32[6, 4], param v: f32[5, 4]) {\n"
                                   "  return matmul(relu(matmul(x, w)), transpose(v, perm=[1, 0]))\n}\n";

/* The first product of the text, in double precision, and how far integers may be from it: half a step of each operand
   times the other, and of both. */
static void check_first_product(const quantise_case *c, const flx_tensor *y)
{
    const float *x = flx_tensor_const_data(c->feeds[0].value), *w = flx_tensor_const_data(c->feeds[1].value);
    double low = 0, high = 0;
    for (int i = 0; i < 9 * 6; i++) {
        low = fmin(low, (double)x[i]);
        high = fmax(high, (double)x[i]);
    }
    double step = (high - low) / 255;
    for (int i = 0; i < 9; i++)
        for (int j = 0; j < 4; j++) {
            double exact = 0, bound = 0, largest = 0;
            for (int k = 0; k < 6; k++)
                largest = fmax(largest, fabs((double)w[4 * k + j]));
            for (int k = 0; k < 6; k++) {
                double a = (double)x[6 * i + k], b = (double)w[4 * k + j], half = largest / 127 / 2;
                exact += a * b;
                bound += fabs(a) * half + fabs(b) * step + step * half; /* the zero point is rounded too */
            }
            double got = flx_tensor_get(y, 4 * i + j);
            CHECK_MSG(fabs(got - exact) <= bound, "(%d, %d): %g, not %g within %g", i, j, got, exact, bound);
        }
}

TEST(quantise_computes_products_in_integers_within_their_steps)
{
    quantise_case c;
    static const char one[] = "graph f(x: f32[N, 6], param w: f32[6, 4]) { return matmul(x, w) }\n";
    case_begin(&c, NULL, one);
    flx_graph *q = flx_quantise(c.g, &c.o, &c.err);
    CHECK_MADE(q, &c.err);
    check_text(q, (const char *const[]){"graph f(x: f32[N, 6]) {", "quantize(x", "widening_dot("}, 3);
    check_round_trip(q);
    for (int device = 0; device < 2; device++) {
        flx_tensor *y;
        flx_run_options o = {.struct_size = sizeof o, .device = device ? "cpu" : "ref"};
        CHECK_OK(flx_run(q, &o, c.feeds, 1, &y, &c.err), &c.err);
        check_first_product(&c, y);
        flx_tensor_release(y);
    }
    flx_graph_release(q);
    case_end(&c);
}

/* Weights that something else reads stay parameters; a transposed matrix is rounded by the columns of the result. */
TEST(quantise_keeps_parameters_that_others_read)
{
    quantise_case c;
    case_begin(&c, NULL, two_products);
    flx_graph *q = flx_quantise(c.g, &c.o, &c.err);
    CHECK_MADE(q, &c.err);
    check_text(q, (const char *const[]){"graph f(x: f32[N, 6]) {", "i8[6, 4]", "i8[5, 4]", "lc=[1], rc=[1]"}, 4);
    flx_tensor *y[2];
    CHECK_OK(flx_run(q, NULL, c.feeds, 1, &y[0], &c.err), &c.err);
    CHECK_OK(flx_run(c.g, NULL, c.feeds, 3, &y[1], &c.err), &c.err);
    double largest = 0, off = 0;
    for (int64_t i = 0; i < flx_tensor_count(y[0]); i++) {
        largest = fmax(largest, fabs(flx_tensor_get(y[1], i)));
        off = fmax(off, fabs(flx_tensor_get(y[1], i) - flx_tensor_get(y[0], i)));
    }
    CHECK_MSG(off < 0.05 * largest && off > 0, "%g of %g", off, largest);
    flx_tensor_release(y[0]);
    flx_tensor_release(y[1]);
    flx_graph_release(q);
    case_end(&c);
    case_begin(&c, NULL, "graph f(x: f32[N, 6], param w: f32[6, 4]) { return matmul(x, w), tanh(w) }\n");
    q = flx_quantise(c.g, &c.o, &c.err);
    CHECK_MADE(q, &c.err);
    check_text(q, (const char *const[]){"param w: f32[6, 4]", "i8[6, 4]", "tanh(w)"}, 3);
    flx_graph_release(q);
    case_end(&c);
}

/* Nothing but products with weights changes: not those of two values, of other dtypes, or with a batch of matrices. */
TEST(quantise_leaves_other_products)
{
    static const char *const texts[] = {
        "graph f(x: f32[9, 6], y: f32[6, 9]) { return matmul(x, y) }\n",
        "graph f(x: f32[9, 6], param w: f64[6, 4]) { return matmul(cast(x, to=f64), w) }\n",
        "graph f(x: f32[9, 6], param w: f32[2, 6, 4]) { return matmul(expand(x, shape=[2, 9, 6]), w) }\n",
        "graph f(x: f32[9, 6], param w: f32[4, 9]) { return matmul(w, x) }\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        quantise_case c;
        case_begin(&c, NULL, texts[i]);
        flx_graph *q = flx_quantise(c.g, &c.o, &c.err), *plain = flx_lower(c.g, FLX_POLICY_FOR_AUTODIFF, &c.err);
        CHECK_MADE(q, &c.err);
        flx_buffer text[2] = {text_of(q), text_of(plain)};
        CHECK_EQ_STR(text[0].data, text[1].data);
        flx_buffer_free(&text[0]);
        flx_buffer_free(&text[1]);
        flx_graph_release(plain);
        flx_graph_release(q);
        case_end(&c);
    }
}

TEST(quantise_for_training_rounds_with_straight_through_gradients)
{
    quantise_case c;
    case_begin(&c, NULL, two_products);
    c.o = (flx_quantise_options){.struct_size = sizeof c.o, .flags = FLX_QUANTISE_TRAIN, .weight_bits = 3};
    flx_graph *q = flx_quantise(c.g, &c.o, &c.err);
    CHECK_MADE(q, &c.err);
    check_text(q,
               (const char *const[]){"param quantise0.scale: f32[] ~ zeros", "fake_quantize(w, bits=3, axis=1)",
                                     "fake_quantize(v4, bits=3, axis=1)", "new_quantise1.scale"},
               4);
    check_round_trip(q);
    flx_graph *again = flx_quantise(q, &c.o, &c.err); /* what is rounded already is not a parameter */
    CHECK_MADE(again, &c.err);
    flx_buffer text[2] = {text_of(q), text_of(again)};
    CHECK_EQ_STR(text[0].data, text[1].data);
    flx_buffer_free(&text[0]);
    flx_buffer_free(&text[1]);
    flx_graph_release(again);
    flx_graph_release(q);
    case_end(&c);
}

TEST(quantise_refuses_wrong_options_and_values)
{
    quantise_case c;
    case_begin(&c, NULL, two_products);
    const flx_quantise_options good = c.o;
    static const struct {
        int bits, flags, code;
    } wrong[] = {{1, 0, FLX_E_USAGE}, {9, 0, FLX_E_USAGE}, {-4, 0, FLX_E_USAGE}, {0, 2, FLX_E_USAGE}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        c.o.weight_bits = wrong[i].bits;
        c.o.flags = (uint32_t)wrong[i].flags;
        CHECK(!flx_quantise(c.g, &c.o, &c.err));
        CHECK(c.err.code == wrong[i].code);
    }
    c.o = good;
    c.o.num_batches = 0;
    CHECK(!flx_quantise(c.g, &c.o, &c.err));
    CHECK(c.err.code == FLX_E_USAGE);
    c.o = good;
    c.o.num_params = 1;
    CHECK(!flx_quantise(c.g, &c.o, &c.err));
    CHECK(c.err.code == FLX_E_MISSING_INPUT);
    ((float *)flx_tensor_data((flx_tensor *)(uintptr_t)c.feeds[0].value))[3] = INFINITY;
    CHECK(!flx_quantise(c.g, &good, &c.err));
    CHECK(c.err.code == FLX_E_NUMERIC);
    case_end(&c);
}

/* Whether the request was made. */
static bool fail_request(size_t at, uint32_t flags)
{
    fault memory = {0};
    quantise_case c;
    case_begin(&c, &memory, two_products);
    c.o.flags = flags;
    memory.fail_at = memory.calls + at;
    flx_graph *q = flx_quantise(c.g, &c.o, &c.err);
    bool is_reached = memory.failed > 0;
    CHECK_MSG(q || c.err.code == FLX_E_OOM, "%s", c.err.message);
    memory.fail_at = 0;
    flx_graph_release(q);
    case_end(&c);
    CHECK_MSG(fault_is_clean(&memory), "request %zu", at);
    return is_reached;
}

/* A calibration starts a compiler, so few of its requests fail. */
TEST(quantise_survives_failed_allocations)
{
    for (size_t at = 1; fail_request(at, FLX_QUANTISE_TRAIN);)
        at++;
    for (size_t at = 5; fail_request(at, 0);)
        at += at;
}
