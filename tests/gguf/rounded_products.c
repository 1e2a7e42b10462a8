/* SPDX-License-Identifier: Apache-2.0 */
/* rounded_products.c: products of packed rows with rows rounded to 8 bits: the integers of blocks against the decoded
   numbers, the definition against sums in f64, and every instruction set against the definition, bit for bit. */
#include "backend/cpu/quant/rounded_rows.h"
#include "gguf/random_model.h"
#include "test.h"

#include <fluxion/fluxion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { K = 768, MOST_ROWS = 9, MOST_COLUMNS = 37 };

static const char *const names[] = {
#define NAME(name, count, nbytes) #name,
    FLXI_GGUF_MAP(NAME)
#undef NAME
};

static bool same(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

/* Random bytes are blocks with scales of every kind, infinities and NaNs among them. */
TEST(packed_integers_are_the_decoded_numbers)
{
    uint64_t state = test_seed();
    int formats = 0;
    for (int format = 0; format < FLXI_GGUF_COUNT; format++) {
        const flxi_gguf_grid *g = &flxi_gguf_grids[format];
        formats += g->count > 0;
        for (int n = 0; n < 100 && g->count; n++) {
            uint8_t block[512];
            double expected[FLXI_GGUF_MOST];
            flxi_gguf_codes codes;
            for (int i = 0; i < g->nbytes; i++)
                block[i] = (uint8_t)(test_random(&state) >> 30);
            flxi_gguf_formats[format].decode(block, expected);
            flxi_gguf_unpack((flxi_gguf)format, block, &codes);
            for (int e = 0; e < g->count; e++) {
                int t = e / g->sub;
                double y = (double)codes.d * codes.scales[t] * (codes.codes[e] - g->zero);
                if (g->least_at >= 0)
                    y += (double)codes.least * codes.minima[t];
                EXPECT_MSG(y == expected[e] || (isnan(y) && isnan(expected[e])), "%s, %d: %a, not %a", names[format], e,
                           y, expected[e]);
            }
        }
    }
    CHECK_EQ_I64(formats, 13);
}

typedef struct {
    flxi_gguf format;
    flxi_rounded_layout layout;
    const uint8_t *w;
    float x[MOST_ROWS * K];
    char *rounded; /* aligned to 64 */
    float expected[MOST_ROWS * MOST_COLUMNS];
} products;

/* Ordinary rows, then one of zeros, of tiny numbers, one with an infinity and one with a NaN in its last block. */
static void fill(products *p, uint64_t *state)
{
    for (int i = 0; i < MOST_ROWS * K; i++)
        p->x[i] = (float)(test_uniform(state) * 2 - 1);
    memset(p->x + 4 * K, 0, K * sizeof *p->x);
    for (int i = 0; i < K; i++)
        p->x[5 * K + i] *= 0x1p-140f;
    p->x[6 * K + 3] = INFINITY;
    p->x[8 * K - 1] = NAN;
}

/* The product of a row and a packed one: of the rounded numbers, in f64. */
static double exact(const products *p, int row, int column, double *size)
{
    const flxi_gguf_format *f = &flxi_gguf_formats[p->format];
    const flxi_rounded x = flxi_rounded_at(&p->layout, p->rounded, row);
    const uint8_t *w = p->w + column * (K / f->count * f->nbytes);
    double numbers[FLXI_GGUF_MOST], sum = 0;
    *size = 0;
    for (int at = 0; at < K; at += f->count, w += f->nbytes) {
        f->decode(w, numbers);
        for (int e = 0; e < f->count; e++) {
            sum += numbers[e] * x.codes[at + e] * (double)x.d[at / f->count];
            *size += fabs(numbers[e] * x.codes[at + e] * (double)x.d[at / f->count]);
        }
    }
    return sum;
}

/* The definition, and what it is of. */
static void check_definition(products *p)
{
    const flxi_gguf_grid *g = &flxi_gguf_grids[p->format];
    for (int i = 0; i < MOST_ROWS; i++) {
        flxi_round_row(p->format, p->x + i * K, K, p->rounded + i * p->layout.size);
        const flxi_rounded x = flxi_rounded_at(&p->layout, p->rounded, i);
        for (int e = 0; e < K && i != 6 && i != 7; e++)
            EXPECT_MSG(fabsf((float)x.codes[e] * x.d[e / g->count] - p->x[i * K + e]) <= 0.501f * x.d[e / g->count],
                       "number %d of row %d", e, i);
    }
    for (int j = 0; j < MOST_COLUMNS; j++) {
        flxi_rounded_products(p->format, p->w + j * (K / g->count * g->nbytes), p->rounded, MOST_ROWS, K,
                              p->expected + j, MOST_COLUMNS);
        for (int i = 0; i < MOST_ROWS; i++) {
            double size, sum = exact(p, i, j, &size);
            float y = p->expected[i * MOST_COLUMNS + j];
            if (i == 6 || i == 7)
                CHECK(isnan(y));
            else
                CHECK_NEAR((double)y, sum, 64 * 0x1p-24 * size);
        }
    }
}

static void check_engine(const products *p, flxi_isa isa, int rows, int columns, bool is_many)
{
    const flxi_gguf_grid *g = &flxi_gguf_grids[p->format];
    const flxi_rounded_engine engine = flxi_rounded_engine_for(p->format, isa);
    float y[MOST_ROWS * MOST_COLUMNS + 1] = {0};
    flxi_rounded_call c = {.format = p->format, .x = p->rounded, .layout = p->layout, .k = K, .rows = rows};
    c.row_bytes = K / g->count * g->nbytes;
    c.y_step = columns;
    for (int j = 0, most = is_many ? FLXI_ROUNDED_MANY : FLXI_ROUNDED_FEW; j < columns; j += most) {
        c.w = p->w + j * c.row_bytes;
        c.y = y + j;
        c.columns = columns - j < most ? columns - j : most;
        (is_many ? engine.many : engine.few)(&c);
    }
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++)
            EXPECT_MSG(same(y[i * columns + j], p->expected[i * MOST_COLUMNS + j]),
                       "%d of %d rows, %d of %d: %a, not %a", i, rows, j, columns, (double)y[i * columns + j],
                       (double)p->expected[i * MOST_COLUMNS + j]);
    CHECK_EQ_I64((int64_t)y[rows * columns], 0);
}

TEST(rounded_products_are_the_same_bits_on_every_machine)
{
    static const flxi_isa sets[] = {FLXI_ISA_GENERIC, FLXI_ISA_AVX2, FLXI_ISA_AVX512};
    flx_context *ctx = flx_context_new(NULL);
    uint64_t state = test_seed();
    products *p = calloc(1, sizeof *p);
    fill(p, &state);
    for (int format = 0; format < FLXI_GGUF_COUNT; format++) {
        if (flxi_gguf_grids[format].count == 0)
            continue;
        flx_tensor *w = random_blocks(ctx, names[format], MOST_COLUMNS, K, &state);
        p->format = (flxi_gguf)format;
        p->layout = flxi_rounded_layout_of(p->format, K);
        p->w = flx_tensor_const_data(w);
        p->rounded = aligned_alloc(64, (size_t)(MOST_ROWS * p->layout.size));
        char *again = aligned_alloc(64, (size_t)p->layout.size);
        test_fail_context("%s", names[format]);
        memset(p->rounded, 0, (size_t)(MOST_ROWS * p->layout.size));
        memset(again, 0, (size_t)p->layout.size);
        check_definition(p);
        for (size_t s = 0; s < sizeof sets / sizeof *sets; s++) {
            if (!flxi_rounded_isa_available(sets[s]))
                continue;
            test_fail_context("%s, instruction set %d", names[format], (int)sets[s]);
            for (int i = 0; i < MOST_ROWS; i++) {
                flxi_rounded_engine_for(p->format, sets[s]).round(p->format, p->x + i * K, K, again);
                const flxi_rounded a = flxi_rounded_at(&p->layout, p->rounded, i),
                                   b = flxi_rounded_at(&p->layout, again, 0);
                CHECK(memcmp(a.codes, b.codes, K) == 0 &&
                      memcmp(a.sums, b.sums, (size_t)(p->layout.size - p->layout.sums_at)) == 0);
                for (int k = 0; k < K / flxi_gguf_grids[format].count; k++)
                    CHECK(same(a.d[k], b.d[k]));
            }
            for (int is_many = 0; is_many < 2; is_many++) {
                check_engine(p, sets[s], MOST_ROWS, MOST_COLUMNS, is_many != 0);
                check_engine(p, sets[s], 1, 5, is_many != 0);
            }
        }
        free(again);
        free(p->rounded);
        flx_tensor_release(w);
    }
    free(p);
    flx_context_free(ctx);
}

/* ---- The op ---- */

static flx_tensor *run_on(const flx_graph *g, const char *device, const flx_feed feeds[2])
{
    flx_error err = {0};
    flx_tensor *y = NULL;
    const flx_run_options o = {.struct_size = sizeof o, .device = device};
    CHECK_OK(flx_run(g, &o, feeds, 2, &y, &err), &err);
    return y;
}

TEST(rounded_products_of_the_evaluator_and_the_cpu_have_the_same_bits)
{
    static const int64_t rows[] = {1, 3, 30};
    flx_context *ctx = flx_context_new(NULL);
    uint64_t state = test_seed();
    flx_tensor *w = random_blocks(ctx, "q5_k", MOST_COLUMNS, K, &state);
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        flx_error err = {0};
        const flx_type type = flx_type_make(FLX_F32, 2, (flx_dim[]){rows[r], K});
        flx_tensor *x = flx_tensor_new(ctx, &type, NULL, &err);
        for (int64_t i = 0; i < rows[r] * K; i++)
            ((float *)flx_tensor_data(x))[i] = (float)(test_uniform(&state) * 2 - 1);
        flx_graph *g = flx_graph_new(ctx, "product");
        const flx_val in[] = {flx_input(g, "x", &type), flx_input(g, "w", flx_tensor_type(w))};
        const flx_attr attrs[] = {flx_attr_word("scheme", "gguf_q5_k"), flx_attr_int("x_bits", 8)};
        flx_output(g, flx_op1(g, "dequant_matmul", in, 2, attrs, 2), "y");
        const flx_feed feeds[] = {{"x", x}, {"w", w}};
        flx_tensor *y = run_on(g, "cpu", feeds), *z = run_on(g, "ref", feeds);
        CHECK(memcmp(flx_tensor_const_data(y), flx_tensor_const_data(z), flx_tensor_nbytes(y)) == 0);
        flx_tensor_release(y);
        flx_tensor_release(z);
        flx_graph_release(g);
        flx_tensor_release(x);
    }
    flx_tensor_release(w);
    flx_context_free(ctx);
}
