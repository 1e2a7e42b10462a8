/* SPDX-License-Identifier: Apache-2.0 */
/* nn_states.c: layers with states and with batches of any size: keys, running statistics, caches, directions, and what
   layers say about the initialisation of their parameters. */
#include "graph/graph_text.h"

#include <fluxion/nn.h>
#include <math.h>

static flx_val input(flx_graph *g, const char *name, flx_dtype dtype, int rank, const flx_dim *dims)
{
    flx_type t = flx_type_make(dtype, rank, dims);
    return flx_input(g, name, &t);
}

/* ---- Declarations ---- */

/* The declarations in the text of a graph, from the first parenthesis to the brace. */
static void check_declared(const flx_graph *g, const char *expected)
{
    flx_error err = {0};
    CHECK_OK(flx_graph_error(g, &err), &err);
    flx_buffer text = text_of(g);
    char *declared = strstr(text.data, "graph f(");
    CHECK(declared);
    *strstr(declared, " {") = 0;
    CHECK_EQ_STR(strchr(declared, '('), expected);
    flx_buffer_free(&text);
}

TEST(nn_layers_say_how_their_parameters_are_initialised)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = flx_graph_new(ctx, "f");
    flx_val x = input(g, "x", FLX_F32, 4, (flx_dim[]){2, 4, 8, 8});
    x = flx_nn_conv(g, "c", x, 16, &(flx_nn_conv_options){.kernel = FLX_INTS(1)});
    x = flx_nn_batch_norm(g, "n", x, NULL);
    flx_output(g, flx_nn_linear(g, "l", flx_nn_global_avg_pool(g, x), 3, NULL), "y");
    check_declared(g, "(x: f32[2, 4, 8, 8], param c.w: f32[16, 4, 1, 1] ~ uniform(0.5), param c.b: f32[16] ~ "
                      "uniform(0.5), param n.gamma: f32[16] ~ ones, param n.beta: f32[16] ~ zeros, param n.mean: "
                      "f32[16] ~ zeros, param n.var: f32[16] ~ ones, param l.w: f32[16, 3] ~ xavier_uniform, param "
                      "l.b: f32[3] ~ zeros)");
    flx_graph_release(g);
    g = flx_graph_new(ctx, "f");
    x = input(g, "i", FLX_I32, 2, (flx_dim[]){2, 5});
    x = flx_nn_embedding(g, "e", x, 10, 4, FLX_F64);
    x = flx_nn_dropout(g, x, flx_nn_key(g, "key"), 0.5);
    flx_output(g, flx_nn_lstm(g, "r", x, 4, NULL, NULL), "y");
    check_declared(g, "(i: i32[2, 5], param e.table: f64[10, 4] ~ normal(0.02), param key: u32[2] ~ key, param r.w: "
                      "f64[4, 16] ~ uniform(0.5), param r.b: f64[16] ~ uniform(0.5), param r.u: f64[4, 16] ~ "
                      "uniform(0.5))");
    flx_graph_release(g);
    flx_context_free(ctx);
}

TEST(nn_states_are_outputs_after_the_loss)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = flx_graph_new(ctx, "f");
    flx_error err = {0};
    flx_val x = input(g, "x", FLX_F16, 2, (flx_dim[]){4, 3});
    x = flx_nn_batch_norm(g, "n", x, &(flx_nn_batch_norm_options){.is_training = 1});
    x = flx_nn_dropout(g, x, flx_nn_key(g, "key"), 0.5);
    flx_output(g, flx_reduce_mean(g, x, FLX_ALL, 0), "loss");
    CHECK_OK(flx_graph_verify(g, &err), &err);
    CHECK_EQ_STR(flx_graph_output_name(g, 0), "loss");
    CHECK_EQ_U64(flx_graph_output_count(g), 4);
    static const char *const states[] = {"n.mean", "n.var", "key"};
    for (size_t i = 0; i < 3; i++) { /* each next value has the type of its state; narrow floats keep wide statistics */
        char name[20];
        snprintf(name, sizeof name, "new_%s", states[i]);
        const flx_type *is = flx_val_type(g, flx_graph_find(g, states[i]));
        const flx_type *next = flx_val_type(g, flx_graph_find(g, name));
        CHECK(is && next && is->dtype == next->dtype && is->rank == 1 && next->rank == 1 &&
              is->dims[0] == next->dims[0]);
        CHECK(is->dtype == (i < 2 ? FLX_F32 : FLX_U32));
    }
    flx_graph_release(g);
    flx_context_free(ctx);
}

/* ---- Keys ---- */

enum { ELEMENTS = 4000 };

TEST(nn_key_changes_with_every_step)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = flx_graph_new(ctx, "f");
    flx_error err = {0};
    flx_val ones = flx_expand(g, flx_scalar(g, FLX_F32, 1), FLX_INTS(ELEMENTS));
    flx_output(g, flx_nn_dropout(g, ones, flx_nn_key(g, "key"), 0.25), "y");
    CHECK_OK(flx_graph_error(g, &err), &err);
    const flx_type *type = flx_val_type(g, flx_graph_find(g, "key"));
    flx_tensor *key = flx_init_tensor(ctx, type, flx_graph_input_init(g, 0), 3, &err), *before = NULL;
    for (int step = 0; step < 3; step++) {
        flx_tensor *out[2] = {NULL, NULL};
        CHECK_OK(flx_run(g, ON_REF, &(flx_feed){"key", key}, 1, out, &err), &err);
        int64_t kept = 0, same = 0;
        for (int64_t i = 0; i < ELEMENTS; i++) {
            double y = flx_tensor_get(out[0], i);
            CHECK(y == 0 || fabs(y - 4.0 / 3) < 1e-6);
            kept += y != 0;
            same += before && (flx_tensor_get(before, i) != 0) == (y != 0);
        }
        /* 3/4 are kept; independent masks agree in 5/8. Deviations are below 0.8 %. */
        CHECK_NEAR((double)kept / ELEMENTS, 0.75, 0.03);
        if (before)
            CHECK_NEAR((double)same / ELEMENTS, 0.625, 0.03);
        flx_tensor_release(before);
        flx_tensor_release(key);
        before = out[0];
        key = out[1];
    }
    flx_tensor_release(before);
    flx_tensor_release(key);
    flx_graph_release(g);
    flx_context_free(ctx);
}

TEST(nn_dropout_without_a_key_is_the_identity)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = flx_graph_new(ctx, "f");
    flx_val x = input(g, "x", FLX_F32, 1, (flx_dim[]){3});
    CHECK(flx_nn_dropout(g, x, FLX_NONE, 0.5).id == x.id);
    CHECK(flx_nn_activate(g, x, NULL).id == x.id);
    flx_graph_release(g);
    flx_context_free(ctx);
}

/* ---- Batches of any size ---- */

typedef flx_val (*layer_fn)(flx_graph *g, flx_val x);

static flx_val conv_net(flx_graph *g, flx_val x)
{
    x = flx_nn_conv(g, "c", x, 3, NULL);
    x = flx_nn_batch_norm(g, "n", x, &(flx_nn_batch_norm_options){.is_training = 1});
    flx_val skip, y = flx_nn_unet_down(g, "d", x, 4, &(flx_nn_unet_options){.norm_groups = 2}, &skip);
    y = flx_nn_unet_up(g, "u", y, skip, 2, NULL);
    y = flx_nn_instance_norm(g, "i", flx_nn_avg_pool(g, y, NULL), 0);
    return flx_nn_adaptive_avg_pool(g, y, FLX_INTS(3));
}

static flx_val sequence_net(flx_graph *g, flx_val x)
{
    const flx_dim n = flx_val_type(g, x) ? flx_val_type(g, x)->dims[0] : 1;
    flx_type lengths = flx_type_make(FLX_I32, 1, &n);
    flx_val count = flx_add(g, flx_iota(g, &lengths, 0), flx_scalar(g, FLX_I32, 1));
    const flx_nn_recurrent_options o = {.is_bidirectional = 1, .layers = 2, .lengths = count};
    flx_nn_recurrent_state last;
    x = flx_nn_gru(g, "r", x, 3, &o, &last);
    x = flx_nn_mamba(g, "m", x, NULL);
    return flx_nn_moe(g, "e", x, 3, NULL, NULL);
}

/* Compiled with a symbol, run with batches of two sizes; the states of all parameters are their initialisations. */
static void check_batches(layer_fn build, int rank, const flx_dim *dims)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = flx_graph_new(ctx, "f");
    flx_error err = {0};
    flx_dim open[4];
    memcpy(open, dims, (size_t)rank * sizeof *dims);
    open[0] = flx_dim_symbol(ctx, "N");
    flx_output(g, flx_reduce_sum(g, flx_square(g, build(g, input(g, "x", FLX_F32, rank, open))), FLX_ALL, 0), "loss");
    CHECK_OK(flx_graph_verify(g, &err), &err);
    const char *wrt[] = {"x"};
    flx_graph *grad = flx_grad(g, wrt, 1, &(flx_grad_options){.flags = FLX_GRAD_VALUE}, &err);
    CHECK_MSG(grad, "%s", err.message);
    for (flx_dim n = 2; n <= 3; n++) {
        flx_feed feeds[64];
        flx_tensor *of_ref[8] = {0}, *of_cpu[8] = {0};
        size_t count = flx_graph_input_count(grad), results = flx_graph_output_count(grad);
        CHECK(count <= 64 && results <= 8);
        for (size_t i = 0; i < count; i++) {
            flx_val v = flx_graph_input(grad, i);
            flx_type type = *flx_val_type(grad, v);
            flx_init init = flx_graph_input_init(grad, i);
            if (!flx_graph_input_is_param(grad, i)) {
                type.dims[0] = n;
                init = (flx_init){FLX_INIT_NORMAL, 0, 1};
            }
            feeds[i] = (flx_feed){flx_val_name(grad, v), flx_init_tensor(ctx, &type, init, i, &err)};
            CHECK_MSG(feeds[i].value, "%s: %s", feeds[i].name, err.message);
        }
        CHECK_OK(flx_run(grad, ON_REF, feeds, count, of_ref, &err), &err);
        CHECK_OK(flx_run(grad, &(flx_run_options){.device = "cpu"}, feeds, count, of_cpu, &err), &err);
        for (size_t k = 0; k < results; k++) {
            double largest = 0;
            for (int64_t i = 0; i < flx_tensor_count(of_ref[k]); i++)
                largest = fmax(largest, fabs(flx_tensor_get(of_ref[k], i)));
            for (int64_t i = 0; i < flx_tensor_count(of_ref[k]); i++)
                CHECK_NEAR(flx_tensor_get(of_cpu[k], i), flx_tensor_get(of_ref[k], i), 1e-4 * (largest + 1e-3));
            flx_tensor_release(of_ref[k]);
            flx_tensor_release(of_cpu[k]);
        }
        for (size_t i = 0; i < count; i++)
            flx_tensor_release((flx_tensor *)(uintptr_t)feeds[i].value);
    }
    flx_graph_release(grad);
    flx_graph_release(g);
    flx_context_free(ctx);
}

TEST(nn_images_come_in_batches_of_any_size)
{
    check_batches(conv_net, 4, (flx_dim[]){0, 2, 4, 6});
}

TEST(nn_sequences_come_in_batches_of_any_size)
{
    check_batches(sequence_net, 3, (flx_dim[]){0, 4, 5});
}

/* ---- Directions ---- */

/* A pass from the end over x is one from the start over x turned round. */
TEST(nn_reverse_direction_begins_at_the_end)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = flx_graph_new(ctx, "f");
    flx_error err = {0};
    flx_type type = flx_type_make(FLX_F64, 3, (flx_dim[]){2, 5, 3});
    flx_val x = flx_input(g, "x", &type);
    flx_nn_recurrent_state last, turned_last;
    flx_val y = flx_nn_gru(g, "l", x, 4, &(flx_nn_recurrent_options){.is_reverse = 1}, &last);
    flx_val turned = flx_nn_gru(g, "m", flx_reverse(g, x, FLX_INTS(1)), 4, NULL, &turned_last);
    flx_output(g, flx_sub(g, y, flx_reverse(g, turned, FLX_INTS(1))), "difference");
    flx_output(g, flx_sub(g, last.hidden, turned_last.hidden), "of_states");
    CHECK_OK(flx_graph_error(g, &err), &err);
    CHECK(flx_graph_find(g, "l.reverse.w").id && flx_graph_find(g, "m.w").id);
    flx_feed feeds[9];
    size_t n = flx_graph_input_count(g);
    CHECK_EQ_U64(n, 9);
    for (size_t i = 0; i < n; i++) {
        flx_val v = flx_graph_input(g, i);
        uint64_t seed = i < 5 ? i : i - 4; /* both have the same parameters */
        flx_init init = {FLX_INIT_NORMAL, 0, 1};
        feeds[i] = (flx_feed){flx_val_name(g, v), flx_init_tensor(ctx, flx_val_type(g, v), init, seed, &err)};
    }
    flx_tensor *out[2] = {NULL, NULL};
    CHECK_OK(flx_run(g, ON_REF, feeds, n, out, &err), &err);
    for (int k = 0; k < 2; k++) {
        for (int64_t i = 0; i < flx_tensor_count(out[k]); i++)
            CHECK_NEAR(flx_tensor_get(out[k], i), 0, 1e-14);
        flx_tensor_release(out[k]);
    }
    for (size_t i = 0; i < n; i++)
        flx_tensor_release((flx_tensor *)(uintptr_t)feeds[i].value);
    flx_graph_release(g);
    flx_context_free(ctx);
}

/* ---- Generation with a cache ---- */

enum { TOKENS = 5, CAPACITY = 7, WIDTH = 8 };

static const flx_nn_attention_options causal = {
    .struct_size = sizeof causal, .heads = 2, .kv_heads = 1, .mask_kind = "causal", .rope_theta = 100};

/* All tokens at once; or one, with a cache. */
static flx_graph *decoder(flx_context *ctx, bool has_cache)
{
    flx_graph *g = flx_graph_new(ctx, "decoder");
    flx_type type = flx_type_make(FLX_F64, 3, (flx_dim[]){1, has_cache ? 1 : TOKENS, WIDTH});
    flx_type kept = flx_type_make(FLX_F64, 3, (flx_dim[]){1, CAPACITY, WIDTH / 2}), number = {.dtype = FLX_I32};
    flx_val x = flx_input(g, "x", &type);
    flx_nn_attention_options attention = causal;
    flx_nn_cache cache;
    if (has_cache) {
        cache = (flx_nn_cache){flx_input(g, "keys", &kept), flx_input(g, "values", &kept)};
        attention.cache = &cache;
        attention.position = flx_input(g, "position", &number);
    }
    const flx_nn_block_options o = {.struct_size = sizeof o, .attention = &attention, .is_rms = 1, .is_gated = 1};
    flx_output(g, flx_nn_transformer_block(g, "b", x, &o), "y");
    if (has_cache) {
        flx_output(g, cache.keys, "new_keys");
        flx_output(g, cache.values, "new_values");
    }
    return g;
}

static flx_tensor *of_token(flx_context *ctx, const flx_tensor *all, int64_t t)
{
    double row[WIDTH];
    flx_type type = flx_type_make(FLX_F64, 3, (flx_dim[]){1, 1, WIDTH});
    for (int64_t i = 0; i < WIDTH; i++)
        row[i] = flx_tensor_get(all, t * WIDTH + i);
    return flx_tensor_new(ctx, &type, row, NULL);
}

static size_t param_feeds(flx_context *ctx, const flx_graph *g, flx_feed *feeds)
{
    size_t n = 0;
    for (size_t i = 0; i < flx_graph_input_count(g); i++) {
        flx_val v = flx_graph_input(g, i);
        if (flx_graph_input_is_param(g, i)) {
            feeds[n] = (flx_feed){flx_val_name(g, v), flx_init_tensor(ctx, flx_val_type(g, v),
                                                                      (flx_init){FLX_INIT_NORMAL, 0, 0.5}, n, NULL)};
            n++;
        }
    }
    return n;
}

TEST(nn_token_by_token_gives_what_all_tokens_give)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_graph *whole = decoder(ctx, false), *single = decoder(ctx, true);
    CHECK_OK(flx_graph_error(whole, &err), &err);
    CHECK_OK(flx_graph_error(single, &err), &err);
    flx_feed feeds[32];
    size_t n = param_feeds(ctx, whole, feeds);
    const flx_type *tokens = flx_val_type(whole, flx_graph_find(whole, "x"));
    const flx_type *kept = flx_val_type(single, flx_graph_find(single, "keys"));
    flx_tensor *x = flx_init_tensor(ctx, tokens, (flx_init){FLX_INIT_NORMAL, 0, 1}, 99, &err), *y = NULL;
    flx_tensor *keys = flx_init_tensor(ctx, kept, (flx_init){FLX_INIT_NORMAL, 0, 1}, 7, &err); /* not filled yet */
    flx_tensor *values = flx_init_tensor(ctx, kept, (flx_init){FLX_INIT_NORMAL, 0, 1}, 8, &err);
    feeds[n] = (flx_feed){"x", x};
    CHECK_OK(flx_run(whole, ON_REF, feeds, n + 1, &y, &err), &err);
    for (int32_t t = 0; t < TOKENS; t++) {
        flx_tensor *out[3] = {NULL, NULL, NULL}, *row = of_token(ctx, x, t);
        flx_tensor *position = flx_tensor_new(ctx, &(flx_type){.dtype = FLX_I32}, &t, &err);
        feeds[n] = (flx_feed){"x", row};
        feeds[n + 1] = (flx_feed){"keys", keys};
        feeds[n + 2] = (flx_feed){"values", values};
        feeds[n + 3] = (flx_feed){"position", position};
        CHECK_OK(flx_run(single, ON_REF, feeds, n + 4, out, &err), &err);
        for (int64_t i = 0; i < WIDTH; i++)
            CHECK_NEAR(flx_tensor_get(out[0], i), flx_tensor_get(y, t * WIDTH + i), 1e-12);
        flx_tensor_release(keys);
        flx_tensor_release(values);
        flx_tensor_release(row);
        flx_tensor_release(position);
        flx_tensor_release(out[0]);
        keys = out[1];
        values = out[2];
    }
    flx_tensor *rest[] = {x, y, keys, values};
    for (size_t i = 0; i < 4; i++)
        flx_tensor_release(rest[i]);
    for (size_t i = 0; i < n; i++)
        flx_tensor_release((flx_tensor *)(uintptr_t)feeds[i].value);
    flx_graph_release(whole);
    flx_graph_release(single);
    flx_context_free(ctx);
}
