/* SPDX-License-Identifier: Apache-2.0 */
/* fluxion/generate.h: text from a trained model, token by token. Experimental. */
#ifndef FLUXION_GENERATE_H
#define FLUXION_GENERATE_H

#include <fluxion/data.h>
#include <fluxion/train.h>

FLX_BEGIN_DECLS

/* Called with the text of each token as soon as it is there; a result other than 0 ends the generation. */
typedef int (*flx_write_fn)(void *user, const char *bytes, size_t count);

/* Flags of flx_generate_options. */
enum {
    FLX_GENERATE_MOST_LIKELY = 1 /* always the most likely token */
};

typedef struct flx_generate_options {
    uint32_t struct_size; /* sizeof(flx_generate_options) */
    uint32_t flags;       /* FLX_GENERATE_… */
    int64_t tokens;       /* how many to add; 0: 200 */
    int64_t context;      /* how many tokens the model sees, at most; 0: the extent T of its tokens, or 64 where that is
                             symbolic. A graph with states needs it */
    int64_t top;          /* draws from that many of the most likely tokens only; 0: all */
    double temperature;   /* above 1 more varied, below 1 more likely text; 0: 0.8 */
    uint64_t seed;        /* of the random numbers */
    const flx_tokeniser *tokeniser; /* NULL: tokens are bytes */
    flx_write_fn write;             /* NULL: none */
    void *write_user;
    flx_stop *stop; /* NULL, or ends it, with CANCELLED */
} flx_generate_options;

/** Continues a prompt, which may be NULL or empty; *out, if it is not NULL, receives prompt and continuation. The first
    input of `model` that is not a parameter is tokens, integers [N, T]; output 0 is the logits of the token after each
    of them, [N, T, V] or [N T, V]. Parameters have their values from `weights`.

    - A graph without states sees all tokens in every run. One that predicts from earlier tokens alone does not look at
      what follows the last token, which is 0.
    - A graph with states (flx_update()), which begin as zero, sees each token once: flx_nn_gpt() with is_decoding, or a
      recurrent network. T is symbolic or 1. Up to rounding the tokens are the same.

    After `context` tokens the model begins again with the last half of them. NAME when `weights` lacks a parameter,
    SHAPE when the graph is not of this kind or a cache [N, room, width] has less room than the context, NUMERIC when no
    logit is finite. */
FLX_API flx_code flx_generate(const flx_graph *model, const flx_params *weights, const char *prompt,
                              const flx_generate_options *options, flx_buffer *out, flx_error *err);

FLX_END_DECLS
#endif
