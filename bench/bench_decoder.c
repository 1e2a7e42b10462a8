/* SPDX-License-Identifier: Apache-2.0 */
/* bench_decoder.c: tokens for each second of a language model in a GGUF file:

       bench_decoder FILE [ROUNDS [THREADS [PROMPT [ANSWER [BITS]]]]]

   By default 3 rounds, all cores, 256 and 32 tokens, activations of 8 bits.

   A round shows the model the prompt at once, then the answer token by token. The best round counts, and the first one,
   which also compiles, does not. Of one thread the processor time is measured, which other programs change little.
   bench/peers_decoder.py measures llama.cpp beside it. */
#include "bench.h"

#include <fluxion/decoder.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_TOKENS = 4096 };

static clockid_t measured = CLOCK_MONOTONIC;

static double measured_now(void)
{
    return seconds_by(measured);
}

static int number(char **argv, int argc, int i, int absent)
{
    return argc > i ? atoi(argv[i]) : absent;
}

typedef struct {
    double prompt, answer; /* tokens for each second */
} speed;

static speed round_of(flx_decoder *d, int prompt, int answer)
{
    static int32_t tokens[MAX_TOKENS];
    flx_error err = {0};
    int64_t size = flx_decoder_vocabulary(d);
    float *logits = malloc((size_t)size * sizeof *logits);
    for (int i = 0; i < prompt; i++)
        tokens[i] = (int32_t)(i ? (300 + (int64_t)i * 37 % 20000) % size : 1);
    flx_decoder_rewind(d, 0);
    double start = measured_now();
    check(logits && flx_decoder_feed(d, tokens, (size_t)prompt, logits, &err) == FLX_OK, &err);
    double middle = measured_now();
    for (int i = 0; i < answer; i++) {
        int32_t token = (int32_t)((500 + i) % size);
        check(flx_decoder_feed(d, &token, 1, logits, &err) == FLX_OK, &err);
    }
    double end = measured_now();
    free(logits);
    return (speed){prompt / (middle - start), answer / (end - middle)};
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: bench_decoder FILE [ROUNDS [THREADS [PROMPT [ANSWER [BITS]]]]]\n");
        return 2;
    }
    int rounds = number(argv, argc, 2, 3), prompt = number(argv, argc, 4, 256), answer = number(argv, argc, 5, 32);
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_gguf *f = flx_gguf_read(ctx, argv[1], &err);
    check(f != NULL, &err);
    flx_decoder_options options = {.struct_size = sizeof options,
                                   .threads = number(argv, argc, 3, 0),
                                   .context = 1024,
                                   .activation_bits = number(argv, argc, 6, 0)};
    flx_decoder *d = flx_decoder_new(f, &options, &err);
    if (options.threads == 1)
        measured = CLOCK_PROCESS_CPUTIME_ID;
    check(d && prompt > 0 && prompt <= MAX_TOKENS, &err);
    round_of(d, prompt, answer);
    speed best = {0};
    for (int i = 0; i < rounds; i++) {
        speed s = round_of(d, prompt, answer);
        best.prompt = s.prompt > best.prompt ? s.prompt : best.prompt;
        best.answer = s.answer > best.answer ? s.answer : best.answer;
    }
    printf("prompt %.1f answer %.1f tokens/s\n", best.prompt, best.answer);
    flx_decoder_free(d);
    flx_gguf_free(f);
    flx_context_free(ctx);
    return 0;
}
