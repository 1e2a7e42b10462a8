/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_decoder.c: logits of small random models against those of llama.cpp, which tests/oracle/gguf_logits.py has
   stored in logits.def; runs of different lengths against each other; sampling.

   llama.cpp rounds the operands of products with packed weights to 8 bits in blocks, with scales of f16; this library
   with scales of f32, or not at all. So logits differ by some parts in a hundred. Where weights are f32 neither rounds,
   and they agree to about f32 accuracy (its table of gelu is f16); of gemma models the last product is with the table
   of tokens, which is packed (q8_0). */
#include "gguf/random_model.h"
#include "test.h"

#include <fluxion/decoder.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUM_TOKENS = 12, SHOWN = 6 };

/* The first logits after the tokens, the mean square of all of them. */
typedef struct {
    const char *architecture, *type;
    float logits[SHOWN];
    float mean_square;
} answer;

static const answer answers[] = {
#define LOGITS(architecture, type, mean_square, ...) {#architecture, #type, {__VA_ARGS__}, mean_square},
#include "gguf/logits.def"
#undef LOGITS
};

static int32_t token_at(int i)
{
    return i == 0 ? 1 : (int32_t)((unsigned)i * 7919u % MODEL_VOCABULARY);
}

static flx_decoder *open_decoder(flx_context *ctx, const char *path, int32_t activation_bits)
{
    flx_error err = {0};
    const flx_decoder_options o = {.struct_size = sizeof o, .activation_bits = activation_bits};
    flx_gguf *f = flx_gguf_read(ctx, path, &err);
    CHECK_MADE(f, &err);
    flx_decoder *d = flx_decoder_new(f, &o, &err);
    CHECK_MADE(d, &err);
    flx_gguf_free(f); /* its tensors keep the memory */
    return d;
}

static const char *model_path(const char *architecture, const char *type)
{
    static char path[600];
    const char *dir = test_keep_dir() ? test_keep_dir() : test_temp_dir();
    snprintf(path, sizeof path, "%s/%s-%s.gguf", dir, architecture, type);
    return path;
}

static void compute_logits(const char *architecture, const char *type, int32_t activation_bits, float *logits)
{
    flx_error err = {0};
    int32_t tokens[NUM_TOKENS];
    flx_context *ctx = flx_context_new(NULL);
    const char *path = model_path(architecture, type);
    CHECK_OK(random_model_write(ctx, path, architecture, type, &err), &err);
    flx_decoder *d = open_decoder(ctx, path, activation_bits);
    for (int i = 0; i < NUM_TOKENS; i++)
        tokens[i] = token_at(i);
    CHECK_OK(flx_decoder_feed(d, tokens, NUM_TOKENS, logits, &err), &err);
    flx_decoder_free(d);
    flx_context_free(ctx);
}

static double mean_square(const float *x)
{
    double sum = 0;
    for (int i = 0; i < MODEL_VOCABULARY; i++)
        sum += (double)x[i] * (double)x[i];
    return sum / MODEL_VOCABULARY;
}

static void check_logits(const answer *a, int32_t activation_bits)
{
    static float logits[MODEL_VOCABULARY];
    test_fail_context("%s %s, %d bits", a->architecture, a->type, (int)activation_bits);
    compute_logits(a->architecture, a->type, activation_bits, logits);
    bool is_f32 = strcmp(a->type, "f32") == 0, is_tied = strncmp(a->architecture, "gemma", 5) == 0;
    double size = sqrt(mean_square(logits)), limit = !is_f32 ? 0.12 : is_tied ? 0.01 : 5e-4;
    EXPECT_MSG(fabs(size / sqrt((double)a->mean_square) - 1) < limit, "size %g, not %g", size,
               sqrt((double)a->mean_square));
    for (int k = 0; k < SHOWN; k++)
        EXPECT_MSG(fabs((double)logits[k] - (double)a->logits[k]) < limit * size, "logit %d is %g, not %g", k,
                   (double)logits[k], (double)a->logits[k]);
}

TEST(gguf_decoder_logits_agree_with_llama_cpp)
{
    size_t count = sizeof answers / sizeof *answers;
    size_t wanted = (size_t)effort(EFFORT_gguf_models), step = wanted < count ? count / wanted : 1;
    for (size_t i = step > 1 ? test_seed() % step : 0; i < count; i += step) {
        test_count_case();
        check_logits(&answers[i], 8);
        check_logits(&answers[i], 32);
    }
}

/* Writes all models where the answers are made: FLX_TEST_KEEP=FOLDER. */
TEST(gguf_random_models_are_kept_for_the_oracle)
{
    static const char *const architectures[] = {"llama", "qwen2",      "qwen3",    "gemma",   "gemma2", "gemma3",
                                                "phi3",  "starcoder2", "stablelm", "granite", "olmo2"};
    static const char *const types[] = {"f32",  "f16",  "q4_0", "q5_1", "q8_0",   "q2_k",
                                        "q3_k", "q4_k", "q5_k", "q6_k", "iq4_xs", "iq2_s"};
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    for (size_t a = 0; test_keep_dir() && a < sizeof architectures / sizeof *architectures; a++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++)
            CHECK_OK(random_model_write(ctx, model_path(architectures[a], types[t]), architectures[a], types[t], &err),
                     &err);
    flx_context_free(ctx);
}

/* ---- Runs of different lengths ---- */

/* Attention rounds differently in runs of different lengths, and a number that is then rounded to another integer of 8
   bits makes more of it. */
static void check_divisions(int32_t activation_bits, double tolerance)
{
    enum { COUNT = 50 };
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    const char *path = model_path("qwen3", "q4_k");
    static float at_once[MODEL_VOCABULARY], one_by_one[MODEL_VOCABULARY];
    int32_t tokens[COUNT];
    CHECK_OK(random_model_write(ctx, path, "qwen3", "q4_k", &err), &err);
    flx_decoder *d = open_decoder(ctx, path, activation_bits);
    for (int i = 0; i < COUNT; i++)
        tokens[i] = token_at(i);
    CHECK_OK(flx_decoder_feed(d, tokens, COUNT, at_once, &err), &err);
    CHECK_EQ_I64(flx_decoder_seen(d), COUNT);
    flx_decoder_rewind(d, 3);
    for (int i = 3; i < COUNT; i++)
        CHECK_OK(flx_decoder_feed(d, tokens + i, 1, one_by_one, &err), &err);
    for (int i = 0; i < MODEL_VOCABULARY; i++)
        CHECK_NEAR((double)one_by_one[i], (double)at_once[i], tolerance * sqrt(mean_square(at_once)));
    CHECK_CODE(flx_decoder_feed(d, (int32_t[]){MODEL_VOCABULARY}, 1, NULL, &err), FLX_E_INDEX, &err);
    CHECK_EQ_I64(flx_decoder_seen(d), COUNT);
    flx_decoder_free(d);
    flx_context_free(ctx);
}

TEST(gguf_decoder_logits_do_not_depend_on_the_division_into_runs)
{
    check_divisions(32, 1e-4);
    check_divisions(8, 1e-2);
}

/* ---- Sampling ---- */

static int32_t sample(flx_context *ctx, const float *logits, flx_sampling o, uint64_t *state)
{
    flx_error err = {0};
    o.struct_size = sizeof o;
    int32_t token = flx_sample_token(ctx, logits, 4, &o, state, &err);
    CHECK_MSG(token >= 0, "%s", err.message);
    return token;
}

TEST(gguf_sampling_follows_its_limits)
{
    const float logits[] = {logf(0.1f), logf(0.4f), logf(0.3f), logf(0.2f)}, none[] = {NAN, INFINITY, NAN, -INFINITY};
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    uint64_t state = 3, again = 3;
    int counts[4] = {0};
    CHECK_EQ_I64(sample(ctx, logits, (flx_sampling){0}, &state), 1);
    CHECK_EQ_I64(state, 3); /* the most likely token needs no random number */
    for (int i = 0; i < 4000; i++)
        counts[sample(ctx, logits, (flx_sampling){.temperature = 1}, &state)]++;
    for (int i = 0; i < 4; i++)
        CHECK_NEAR(counts[i] / 4000.0, exp((double)logits[i]), 0.03);
    for (int i = 0; i < 200; i++) {
        int32_t k = sample(ctx, logits, (flx_sampling){.temperature = 2, .top_k = 2}, &state);
        int32_t p = sample(ctx, logits, (flx_sampling){.temperature = 2, .top_p = 0.6}, &state);
        int32_t m = sample(ctx, logits, (flx_sampling){.temperature = 2, .min_p = 0.6}, &state);
        CHECK((k == 1 || k == 2) && (p == 1 || p == 2) && (m == 1 || m == 2));
    }
    for (int i = 0, first; i < 20; i++) {
        state = again = (uint64_t)i;
        first = sample(ctx, logits, (flx_sampling){.temperature = 1}, &state);
        CHECK_EQ_I64(sample(ctx, logits, (flx_sampling){.temperature = 1}, &again), first);
    }
    const flx_sampling o = {.struct_size = sizeof o, .temperature = 1};
    CHECK(flx_sample_token(ctx, none, 4, &o, &state, &err) == -1 && err.code == FLX_E_NUMERIC);
    flx_context_free(ctx);
}
