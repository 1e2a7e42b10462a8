/* SPDX-License-Identifier: Apache-2.0 */
/* A small decoder in the style of GPT-2: learned positions, layer norms before the layers, gelu, one table for
   embedding and output. It learns to continue simple sequences. examples/gpt2.flx is the same model as text. */
#include "decoder_training.h"

enum { WIDTH = 16, HEADS = 2, HIDDEN = 32, LAYERS = 2 };

/* The mean of -log p(next word) for words [N, TOKENS], next [N, TOKENS]; output 1 is the logits. */
static flx_graph *build_gpt2(flx_context *ctx, flx_dtype dtype)
{
    flx_graph *g = flx_graph_new(ctx, "gpt2");
    const flx_dim dims[] = {flx_dim_symbol(ctx, "N"), TOKENS};
    const flx_dim table_dims[] = {TOKENS, WIDTH};
    flx_type words_type = flx_type_make(FLX_I32, 2, dims), table_type = flx_type_make(dtype, 2, table_dims);
    flx_val words = flx_input(g, "words", &words_type), next = flx_input(g, "next", &words_type);
    flx_val x = flx_nn_embedding(g, "words", words, WORDS, WIDTH, dtype);
    x = flx_add(g, x, flx_param(g, "places.table", &table_type));
    const flx_nn_attention_options attention = {.struct_size = sizeof attention, .heads = HEADS, .mask_kind = "causal"};
    const flx_nn_block_options layer = {
        .struct_size = sizeof layer, .attention = &attention, .hidden = HIDDEN, .activation = "gelu_approx"};
    for (int i = 0; i < LAYERS; i++) {
        char name[16];
        snprintf(name, sizeof name, "layer%d", i);
        x = flx_nn_transformer_block(g, name, x, &layer);
    }
    x = flx_nn_layer_norm(g, "norm", x, 1e-5);
    flx_val table = flx_graph_find(g, "words.table");
    flx_val logits = flx_matmul(g, flx_reshape(g, x, FLX_INTS(-1, WIDTH)), flx_transpose(g, table, FLX_INTS(1, 0)));
    flx_output(g, flx_nn_cross_entropy(g, logits, flx_reshape(g, next, FLX_INTS(-1)), 0), "loss");
    flx_output(g, logits, "logits");
    return g;
}

int main(void)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = build_gpt2(ctx, FLX_F32);
    int status = train_decoder(ctx, g);
    flx_graph_release(g);
    flx_context_free(ctx);
    return status;
}
