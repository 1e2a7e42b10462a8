/* SPDX-License-Identifier: Apache-2.0 */
/* sampler.h: text from a trained model, token by token. The model is a graph `predict` whose first input is integer
   tokens [N, T] and whose output 0 has the logits of the token after each of them: [N, T, V] or [N T, V]. */
#ifndef FLX_SAMPLER_H
#define FLX_SAMPLER_H

#include <fluxion/data.h>
#include <fluxion/train.h>
#include <stdio.h>

typedef struct {
    double temperature; /* 0: always the most likely token */
    int64_t top;        /* that many of the most likely tokens only; 0: all */
    uint64_t seed;
} sampler_options;

typedef struct sampler sampler;

/* A sampler that looks at the last `length` tokens. NULL after a failure, which it has reported. */
sampler *sampler_new(flx_context *ctx, const flx_graph *predict, const flx_params *weights,
                     const flx_tokeniser *tokeniser, int64_t length, const sampler_options *options);
void sampler_free(sampler *s);

/* Continues the prompt, which may be empty, by that many tokens and writes each as soon as it is there: to a stream,
   and to a text (either may be NULL). */
int sampler_run(sampler *s, const char *prompt, int64_t tokens, FILE *stream, char **text);

#endif
