/* SPDX-License-Identifier: Apache-2.0 */
/* A small decoder in the style of Llama: rotary positions, rms norms, pairs of heads that share keys and values, a
   gated feed-forward network, no biases. It learns to continue simple sequences. examples/llama.flx is the same model
   as text, with one composite op for each layer. */
#include "decoder_training.h"

enum { WIDTH = 16, HEADS = 4, KV_HEADS = 2, HIDDEN = 24, LAYERS = 2 };

/* The mean of -log p(next word) for words [N, TOKENS], next [N, TOKENS]; output 1 is the logits. */
static flx_graph *build_llama(flx_context *ctx, flx_dtype dtype)
{
    flx_graph *g = flx_graph_new(ctx, "llama");
    const flx_dim dims[] = {flx_dim_symbol(ctx, "N"), TOKENS};
    flx_type type = flx_type_make(FLX_I32, 2, dims);
    flx_val words = flx_input(g, "words", &type), next = flx_input(g, "next", &type);
    flx_val x = flx_nn_embedding(g, "words", words, WORDS, WIDTH, dtype);
    const flx_nn_attention_options attention = {
        .struct_size = sizeof attention,
        .heads = HEADS,
        .kv_heads = KV_HEADS,
        .mask_kind = "causal",
        .rope_theta = 10000,
        .no_bias = 1,
    };
    const flx_nn_block_options layer = {
        .struct_size = sizeof layer,
        .attention = &attention,
        .hidden = HIDDEN,
        .activation = "silu",
        .is_rms = 1,
        .is_gated = 1,
    };
    for (int i = 0; i < LAYERS; i++) {
        char name[16];
        snprintf(name, sizeof name, "layer%d", i);
        x = flx_nn_transformer_block(g, name, x, &layer);
    }
    x = flx_nn_rms_norm(g, "norm", x, 1e-5);
    flx_val logits = flx_nn_project(g, "head", flx_reshape(g, x, FLX_INTS(-1, WIDTH)), WORDS);
    flx_output(g, flx_nn_cross_entropy(g, logits, flx_reshape(g, next, FLX_INTS(-1)), 0), "loss");
    flx_output(g, logits, "logits");
    return g;
}

int main(void)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = build_llama(ctx, FLX_F32);
    int status = train_decoder(ctx, g);
    flx_graph_release(g);
    flx_context_free(ctx);
    return status;
}
