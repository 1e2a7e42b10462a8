/* SPDX-License-Identifier: Apache-2.0 */
/* nn_misuse.c: every function of nn.h with arguments that it does not accept. The graph keeps the error, and no call
   with a wrong argument builds anything. A test reads the header and fails for a function without a row. */
#include "test.h"

#include <fluxion/fluxion.h>
#include <fluxion/nn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    flx_graph *g;
    flx_val x;      /* f32[2, 3, 4] */
    flx_val y;      /* f32[3, 4] */
    flx_val image;  /* f32[1, 4, 5, 5] */
    flx_val labels; /* i32[2, 2] */
    flx_val length; /* i32[2] */
    flx_val key;    /* u32[2] */
} inputs;

static flx_val input(flx_graph *g, const char *name, flx_dtype dtype, int rank, const flx_dim *dims)
{
    const flx_type type = flx_type_make(dtype, rank, dims);
    return flx_input(g, name, &type);
}

static inputs begin(flx_context *ctx)
{
    inputs i = {.g = flx_graph_new(ctx, "layer")};
    i.x = input(i.g, "x", FLX_F32, 3, (flx_dim[]){2, 3, 4});
    i.y = input(i.g, "y", FLX_F32, 2, (flx_dim[]){3, 4});
    i.image = input(i.g, "image", FLX_F32, 4, (flx_dim[]){1, 4, 5, 5});
    i.labels = input(i.g, "labels", FLX_I32, 2, (flx_dim[]){2, 2});
    i.length = input(i.g, "length", FLX_I32, 1, (flx_dim[]){2});
    i.key = input(i.g, "key", FLX_U32, 1, (flx_dim[]){2});
    return i;
}

typedef void (*build_fn)(const inputs *i);

typedef struct {
    const char *what; /* begins with the function */
    flx_code code;
    build_fn build;
} row;

/* ROW(name of the row's function, code, call) */
#define BUILD(name, call)             \
    static void name(const inputs *i) \
    {                                 \
        flx_val v = call;             \
        CHECK(v.id == 0);             \
    }

static const int64_t two_units[] = {3, 2}, bad_units[] = {3, 0};
static flx_val last;

BUILD(linear_name, flx_nn_linear(i->g, NULL, i->x, 3, NULL))
BUILD(linear_units, flx_nn_linear(i->g, "l", i->x, -2, NULL))
BUILD(linear_none, flx_nn_linear(i->g, "l", i->x, 0, NULL))
BUILD(linear_unknown, flx_nn_linear(i->g, "l", i->x, 3, "frobnicate"))
BUILD(linear_binary, flx_nn_linear(i->g, "l", i->x, 3, "add"))
BUILD(linear_empty, flx_nn_linear(i->g, "l", i->x, 3, ""))
BUILD(project_name, flx_nn_project(i->g, NULL, i->x, 3))
BUILD(project_units, flx_nn_project(i->g, "l", i->x, -1))
BUILD(mlp_name, flx_nn_mlp(i->g, NULL, i->x, two_units, 2, "relu"))
BUILD(mlp_list, flx_nn_mlp(i->g, "m", i->x, NULL, 2, "relu"))
BUILD(mlp_count, flx_nn_mlp(i->g, "m", i->x, two_units, 0, "relu"))
BUILD(mlp_units, flx_nn_mlp(i->g, "m", i->x, bad_units, 2, "relu"))
BUILD(mlp_unused, flx_nn_mlp(i->g, "m", i->x, two_units, 1, "frobnicate"))
BUILD(layer_norm_name, flx_nn_layer_norm(i->g, NULL, i->x, 1e-5))
BUILD(layer_norm_eps, flx_nn_layer_norm(i->g, "n", i->x, -1))
BUILD(layer_norm_nan, flx_nn_layer_norm(i->g, "n", i->x, NAN))
BUILD(rms_norm_name, flx_nn_rms_norm(i->g, NULL, i->x, 1e-5))
BUILD(rms_norm_inf, flx_nn_rms_norm(i->g, "n", i->x, INFINITY))
BUILD(rms_norm_nan, flx_nn_rms_norm(i->g, "n", i->x, NAN))
BUILD(embedding_name, flx_nn_embedding(i->g, NULL, i->labels, 10, 4, FLX_F32))
BUILD(embedding_count, flx_nn_embedding(i->g, "e", i->labels, 0, 4, FLX_F32))
BUILD(embedding_width, flx_nn_embedding(i->g, "e", i->labels, 10, -4, FLX_F32))
BUILD(embedding_dtype, flx_nn_embedding(i->g, "e", i->labels, 10, 4, FLX_DTYPE_NONE))
BUILD(embedding_float, flx_nn_embedding(i->g, "e", i->x, 10, 4, FLX_F32))
BUILD(dropout_rate, flx_nn_dropout(i->g, i->x, i->key, 1.5))
BUILD(dropout_negative, flx_nn_dropout(i->g, i->x, i->key, -0.5))
BUILD(dropout_nan, flx_nn_dropout(i->g, i->x, i->key, NAN))

#define CONV(...) flx_nn_conv_block(i->g, "c", i->image, 4, &(flx_nn_conv_options){__VA_ARGS__})
BUILD(conv_name, flx_nn_conv_block(i->g, NULL, i->image, 4, NULL))
BUILD(conv_channels, flx_nn_conv_block(i->g, "c", i->image, 0, NULL))
BUILD(conv_flags, CONV(.flags = 1))
BUILD(conv_kernel, CONV(.kernel = -3))
BUILD(conv_stride, CONV(.stride = -1))
BUILD(conv_groups, CONV(.groups = -1))
BUILD(conv_uneven, CONV(.groups = 3))
BUILD(conv_norm, CONV(.norm_groups = 3))
BUILD(conv_activation, CONV(.activation = "frobnicate"))

#define ATTEND(...) flx_nn_attention(i->g, "a", i->x, FLX_NONE, &(flx_nn_attention_options){__VA_ARGS__})
BUILD(attention_name, flx_nn_attention(i->g, NULL, i->x, FLX_NONE, NULL))
BUILD(attention_heads, ATTEND(.heads = -2))
BUILD(attention_uneven, ATTEND(.heads = 3))
BUILD(attention_kv_heads, ATTEND(.heads = 4, .kv_heads = 3))
BUILD(attention_kv_negative, ATTEND(.heads = 4, .kv_heads = -1))
BUILD(attention_head_dim, ATTEND(.head_dim = -4))
BUILD(attention_window, ATTEND(.mask_kind = "sliding_window", .window = -1))
BUILD(attention_mask_kind, ATTEND(.mask_kind = "frobnicate"))
BUILD(attention_theta, ATTEND(.rope_theta = -1))
BUILD(attention_theta_nan, ATTEND(.rope_theta = NAN))
BUILD(attention_odd, ATTEND(.head_dim = 3, .rope_theta = 100))

#define BLOCK(...) flx_nn_transformer_block(i->g, "b", i->x, &(flx_nn_block_options){__VA_ARGS__})
static const flx_nn_attention_options no_heads = {.heads = -1};
BUILD(block_name, flx_nn_transformer_block(i->g, NULL, i->x, NULL))
BUILD(block_hidden, BLOCK(.hidden = -8))
BUILD(block_eps, BLOCK(.eps = -1))
BUILD(block_eps_nan, BLOCK(.eps = NAN))
BUILD(block_activation, BLOCK(.activation = "frobnicate"))
BUILD(block_attention, BLOCK(.attention = &no_heads))

BUILD(sinusoids_odd, flx_nn_sinusoids(i->g, 4, 3, 0, FLX_F32))
BUILD(sinusoids_width, flx_nn_sinusoids(i->g, 4, -2, 0, FLX_F32))
BUILD(sinusoids_theta, flx_nn_sinusoids(i->g, 4, 2, -1, FLX_F32))
BUILD(sinusoids_dtype, flx_nn_sinusoids(i->g, 4, 2, 0, FLX_DTYPE_NONE))

static flx_val rope(flx_graph *g, int64_t width, double theta, bool has_cosines, bool has_sines)
{
    flx_val cosines = {7, 7}, sines = {7, 7};
    flx_nn_rope_tables(g, 4, width, theta, FLX_F32, has_cosines ? &cosines : NULL, has_sines ? &sines : NULL);
    return has_cosines ? cosines : sines;
}

BUILD(rope_cosines, rope(i->g, 4, 0, false, true))
BUILD(rope_sines, rope(i->g, 4, 0, true, false))
BUILD(rope_odd, rope(i->g, 3, 0, true, true))
BUILD(rope_theta, rope(i->g, 4, NAN, true, true))

BUILD(rnn_name, flx_nn_rnn(i->g, NULL, i->x, 3, &last))
BUILD(rnn_units, flx_nn_rnn(i->g, "r", i->x, -3, &last))
BUILD(rnn_rank, flx_nn_rnn(i->g, "r", i->y, 3, &last))
BUILD(gru_units, flx_nn_gru(i->g, "r", i->x, 0, NULL))
BUILD(lstm_units, flx_nn_lstm(i->g, "r", i->x, INT64_MAX, NULL))

BUILD(mse_shapes, flx_nn_mse(i->g, i->x, i->y))
BUILD(mae_shapes, flx_nn_mae(i->g, i->x, i->y))
BUILD(huber_shapes, flx_nn_huber(i->g, i->x, i->y, 1))
BUILD(huber_delta, flx_nn_huber(i->g, i->x, i->x, 0))
BUILD(huber_nan, flx_nn_huber(i->g, i->x, i->x, NAN))
BUILD(bce_shapes, flx_nn_bce_with_logits(i->g, i->x, i->y))
BUILD(kl_shapes, flx_nn_kl(i->g, i->x, i->y))
BUILD(cross_smoothing, flx_nn_cross_entropy(i->g, i->y, i->length, 1.5))
BUILD(cross_negative, flx_nn_cross_entropy(i->g, i->y, i->length, -0.1))
BUILD(cross_nan, flx_nn_cross_entropy(i->g, i->y, i->length, NAN))
BUILD(ctc_blank, flx_nn_ctc(i->g, i->x, i->labels, i->length, i->length, 4))
BUILD(ctc_negative, flx_nn_ctc(i->g, i->x, i->labels, i->length, i->length, -1))
BUILD(ctc_none, flx_nn_ctc(i->g, i->x, FLX_NONE, i->length, i->length, 0))

static const row rows[] = {
    {"flx_nn_linear, name NULL", FLX_E_USAGE, linear_name},
    {"flx_nn_linear, -2 units", FLX_E_USAGE, linear_units},
    {"flx_nn_linear, 0 units", FLX_E_USAGE, linear_none},
    {"flx_nn_linear, unknown activation", FLX_E_NAME, linear_unknown},
    {"flx_nn_linear, activation of two operands", FLX_E_USAGE, linear_binary},
    {"flx_nn_linear, empty activation", FLX_E_NAME, linear_empty},
    {"flx_nn_project, name NULL", FLX_E_USAGE, project_name},
    {"flx_nn_project, -1 units", FLX_E_USAGE, project_units},
    {"flx_nn_mlp, name NULL", FLX_E_USAGE, mlp_name},
    {"flx_nn_mlp, units NULL", FLX_E_USAGE, mlp_list},
    {"flx_nn_mlp, no layer", FLX_E_USAGE, mlp_count},
    {"flx_nn_mlp, 0 units", FLX_E_USAGE, mlp_units},
    {"flx_nn_mlp, unknown activation that is not used", FLX_E_NAME, mlp_unused},
    {"flx_nn_layer_norm, name NULL", FLX_E_USAGE, layer_norm_name},
    {"flx_nn_layer_norm, eps -1", FLX_E_USAGE, layer_norm_eps},
    {"flx_nn_layer_norm, eps NaN", FLX_E_USAGE, layer_norm_nan},
    {"flx_nn_rms_norm, name NULL", FLX_E_USAGE, rms_norm_name},
    {"flx_nn_rms_norm, eps inf", FLX_E_USAGE, rms_norm_inf},
    {"flx_nn_rms_norm, eps NaN", FLX_E_USAGE, rms_norm_nan},
    {"flx_nn_embedding, name NULL", FLX_E_USAGE, embedding_name},
    {"flx_nn_embedding, count 0", FLX_E_USAGE, embedding_count},
    {"flx_nn_embedding, width -4", FLX_E_USAGE, embedding_width},
    {"flx_nn_embedding, no dtype", FLX_E_DTYPE, embedding_dtype},
    {"flx_nn_embedding, indices f32", FLX_E_USAGE, embedding_float},
    {"flx_nn_dropout, rate 1.5", FLX_E_USAGE, dropout_rate},
    {"flx_nn_dropout, rate -0.5", FLX_E_USAGE, dropout_negative},
    {"flx_nn_dropout, rate NaN", FLX_E_USAGE, dropout_nan},
    {"flx_nn_conv_block, name NULL", FLX_E_USAGE, conv_name},
    {"flx_nn_conv_block, 0 channels", FLX_E_USAGE, conv_channels},
    {"flx_nn_conv_block, unknown flags", FLX_E_USAGE, conv_flags},
    {"flx_nn_conv_block, kernel -3", FLX_E_USAGE, conv_kernel},
    {"flx_nn_conv_block, stride -1", FLX_E_USAGE, conv_stride},
    {"flx_nn_conv_block, groups -1", FLX_E_USAGE, conv_groups},
    {"flx_nn_conv_block, 3 groups of 4 channels", FLX_E_USAGE, conv_uneven},
    {"flx_nn_conv_block, 3 groups of the norm", FLX_E_USAGE, conv_norm},
    {"flx_nn_conv_block, unknown activation", FLX_E_NAME, conv_activation},
    {"flx_nn_attention, name NULL", FLX_E_USAGE, attention_name},
    {"flx_nn_attention, -2 heads", FLX_E_USAGE, attention_heads},
    {"flx_nn_attention, 3 heads of width 4", FLX_E_USAGE, attention_uneven},
    {"flx_nn_attention, 3 kv_heads of 4 heads", FLX_E_USAGE, attention_kv_heads},
    {"flx_nn_attention, -1 kv_heads", FLX_E_USAGE, attention_kv_negative},
    {"flx_nn_attention, head_dim -4", FLX_E_USAGE, attention_head_dim},
    {"flx_nn_attention, window -1", FLX_E_USAGE, attention_window},
    {"flx_nn_attention, unknown mask_kind", FLX_E_ATTRIBUTE, attention_mask_kind},
    {"flx_nn_attention, rope_theta -1", FLX_E_USAGE, attention_theta},
    {"flx_nn_attention, rope_theta NaN", FLX_E_USAGE, attention_theta_nan},
    {"flx_nn_attention, odd head_dim with rope", FLX_E_USAGE, attention_odd},
    {"flx_nn_transformer_block, name NULL", FLX_E_USAGE, block_name},
    {"flx_nn_transformer_block, hidden -8", FLX_E_USAGE, block_hidden},
    {"flx_nn_transformer_block, eps -1", FLX_E_USAGE, block_eps},
    {"flx_nn_transformer_block, eps NaN", FLX_E_USAGE, block_eps_nan},
    {"flx_nn_transformer_block, unknown activation", FLX_E_NAME, block_activation},
    {"flx_nn_transformer_block, -1 heads", FLX_E_USAGE, block_attention},
    {"flx_nn_sinusoids, odd width", FLX_E_USAGE, sinusoids_odd},
    {"flx_nn_sinusoids, width -2", FLX_E_USAGE, sinusoids_width},
    {"flx_nn_sinusoids, theta -1", FLX_E_USAGE, sinusoids_theta},
    {"flx_nn_sinusoids, no dtype", FLX_E_DTYPE, sinusoids_dtype},
    {"flx_nn_rope_tables, cosines NULL", FLX_E_USAGE, rope_cosines},
    {"flx_nn_rope_tables, sines NULL", FLX_E_USAGE, rope_sines},
    {"flx_nn_rope_tables, odd width", FLX_E_USAGE, rope_odd},
    {"flx_nn_rope_tables, theta NaN", FLX_E_USAGE, rope_theta},
    {"flx_nn_rnn, name NULL", FLX_E_USAGE, rnn_name},
    {"flx_nn_rnn, -3 units", FLX_E_USAGE, rnn_units},
    {"flx_nn_rnn, x of rank 2", FLX_E_USAGE, rnn_rank},
    {"flx_nn_gru, 0 units", FLX_E_USAGE, gru_units},
    {"flx_nn_lstm, too many units", FLX_E_USAGE, lstm_units},
    {"flx_nn_mse, different shapes", FLX_E_SHAPE, mse_shapes},
    {"flx_nn_mae, different shapes", FLX_E_SHAPE, mae_shapes},
    {"flx_nn_huber, different shapes", FLX_E_SHAPE, huber_shapes},
    {"flx_nn_huber, delta 0", FLX_E_USAGE, huber_delta},
    {"flx_nn_huber, delta NaN", FLX_E_USAGE, huber_nan},
    {"flx_nn_bce_with_logits, different shapes", FLX_E_SHAPE, bce_shapes},
    {"flx_nn_kl, different shapes", FLX_E_SHAPE, kl_shapes},
    {"flx_nn_cross_entropy, smoothing 1.5", FLX_E_USAGE, cross_smoothing},
    {"flx_nn_cross_entropy, smoothing -0.1", FLX_E_USAGE, cross_negative},
    {"flx_nn_cross_entropy, smoothing NaN", FLX_E_USAGE, cross_nan},
    {"flx_nn_ctc, blank 4 of 4 classes", FLX_E_USAGE, ctc_blank},
    {"flx_nn_ctc, blank -1", FLX_E_USAGE, ctc_negative},
    {"flx_nn_ctc, no labels", FLX_E_USAGE, ctc_none},
};

enum { NUM_ROWS = sizeof rows / sizeof *rows };

TEST(nn_misuse_is_refused)
{
    flx_context *ctx = flx_context_new(NULL);
    for (size_t k = 0; k < NUM_ROWS; k++) {
        flx_error err = {0};
        inputs i = begin(ctx);
        test_fail_context("%s", rows[k].what);
        rows[k].build(&i);
        flx_code code = flx_graph_error(i.g, &err);
        EXPECT_MSG(code == rows[k].code, "%s: %s instead of %s: %s", rows[k].what, flx_code_name(code),
                   flx_code_name(rows[k].code), err.message);
        flx_graph_release(i.g);
        i.g = NULL;
        rows[k].build(&i); /* without a graph nothing happens */
        test_count_case();
    }
    flx_context_free(ctx);
}

TEST(nn_misuse_table_is_complete)
{
    char path[512];
    snprintf(path, sizeof path, "%s/include/fluxion/nn.h", FLX_SOURCE_DIR);
    FILE *in = fopen(path, "rb");
    CHECK_MSG(in != NULL, "%s", path);
    char line[256];
    size_t found = 0;
    while (fgets(line, sizeof line, in)) {
        char *name = strstr(line, "flx_nn_");
        char *end = name ? strchr(name, '(') : NULL;
        if (strncmp(line, "FLX_API ", 8) != 0 || !end)
            continue;
        *end = 0;
        bool has_row = false;
        for (size_t k = 0; k < NUM_ROWS; k++)
            has_row |= strncmp(rows[k].what, name, strlen(name)) == 0 && rows[k].what[strlen(name)] == ',';
        EXPECT_MSG(has_row, "tests/nn/nn_misuse.c has no row for %s()", name);
        found++;
        test_count_case();
    }
    fclose(in);
    CHECK(found >= 20);
}
