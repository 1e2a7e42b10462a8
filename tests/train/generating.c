/* SPDX-License-Identifier: Apache-2.0 */
/* generating.c: text from a model: a decoder with states writes the same as one that sees the whole window each time,
   a known distribution gives known text, and misuse is reported. */
#include "fault.h"
#include "trainee.h"

#include <fluxion/generate.h>
#include <fluxion/nn.h>
#include <string.h>

enum { CONTEXT = 12, VOCABULARY = 256 };

static flx_graph *build(flx_context *ctx, flx_dim n, flx_dim s, int is_decoding)
{
    flx_graph *g = flx_graph_new(ctx, is_decoding ? "decode" : "predict");
    const flx_type type = flx_type_make(FLX_I32, 2, (flx_dim[]){n, s});
    const flx_nn_gpt_options o = {.struct_size = sizeof o,
                                  .is_decoding = is_decoding,
                                  .vocabulary = VOCABULARY,
                                  .width = 16,
                                  .layers = 2,
                                  .heads = 2,
                                  .context = CONTEXT};
    flx_error err = {0};
    flx_output(g, flx_nn_gpt(g, "", flx_input(g, "x", &type), &o), "logits");
    CHECK_OK(flx_graph_error(g, &err), &err);
    return g;
}

static void write_text(const flx_graph *g, const flx_params *weights, const char *prompt, uint64_t seed,
                       flx_buffer *out)
{
    flx_error err = {0};
    const flx_generate_options o = {.struct_size = sizeof o, .tokens = 40, .context = CONTEXT, .seed = seed};
    CHECK_OK(flx_generate(g, weights, prompt, &o, out, &err), &err);
}

/* Prompts that are shorter than the window, as long, and longer; windows that move on several times. */
TEST(generate_with_states_writes_the_same_text)
{
    static const char *const prompts[] = {"", "a", "twelve bytes", "a prompt that is longer than the window"};
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_graph *whole = build(ctx, flx_dim_symbol(ctx, "N"), CONTEXT, 0);
    flx_graph *one = build(ctx, 1, 1, 1), *some = build(ctx, 1, flx_dim_symbol(ctx, "S"), 1);
    flx_params *weights = flx_params_of(whole, 3, &err);
    for (size_t i = 0; i < sizeof prompts / sizeof *prompts; i++) {
        flx_buffer text[3] = {{0}};
        write_text(whole, weights, prompts[i], i, &text[0]);
        write_text(one, weights, prompts[i], i, &text[1]);
        write_text(some, weights, prompts[i], i, &text[2]);
        CHECK(text[0].size == strlen(prompts[i]) + 40);
        for (int k = 1; k < 3; k++)
            CHECK(text[k].size == text[0].size && memcmp(text[k].data, text[0].data, text[0].size) == 0);
        for (int k = 0; k < 3; k++)
            flx_buffer_free(&text[k]);
    }
    flx_params_release(weights);
    flx_graph_release(some);
    flx_graph_release(one);
    flx_graph_release(whole);
    flx_context_free(ctx);
}

/* The logits of the next byte are a row of a table: here that of the next letter is far above the others. */
static const char alphabet_text[] = "graph predict(x: i32[N, 8], param table: f32[256, 256]) {\n"
                                    "  return gather(table, x, axis=0)\n"
                                    "}\n";

static flx_params *alphabet(const flx_graph *g, double logit)
{
    flx_error err = {0};
    flx_params *set = flx_params_of(g, 0, &err);
    flx_tensor *table = flx_params_find(set, "table");
    memset(flx_tensor_data(table), 0, flx_tensor_nbytes(table));
    for (int i = 'a'; i < 'z'; i++)
        ((float *)flx_tensor_data(table))[256 * i + i + 1] = (float)logit;
    return set;
}

typedef struct {
    int calls, last;
} ender;

static int end_after(void *user, const char *bytes, size_t count)
{
    ender *e = user;
    (void)bytes;
    return count && ++e->calls == e->last;
}

TEST(generate_follows_the_model)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_graph *g = trainee_graph(ctx, alphabet_text, FLX_F32);
    flx_params *sure = alphabet(g, 60), *likely = alphabet(g, 4);
    flx_buffer text = {0};
    flx_generate_options o = {.struct_size = sizeof o, .tokens = 20, .temperature = 1};
    CHECK_OK(flx_generate(g, sure, "abc", &o, &text, &err), &err);
    CHECK_EQ_STR(text.data, "abcdefghijklmnopqrstuvw");
    flx_buffer_free(&text);
    o.flags = FLX_GENERATE_MOST_LIKELY;
    CHECK_OK(flx_generate(g, likely, "c", &o, &text, &err), &err);
    CHECK_EQ_STR(text.data, "cdefghijklmnopqrstuvw");
    flx_buffer_free(&text);
    o = (flx_generate_options){.struct_size = sizeof o, .tokens = 20, .temperature = 5, .top = 1};
    CHECK_OK(flx_generate(g, likely, "c", &o, &text, &err), &err);
    CHECK_EQ_STR(text.data, "cdefghijklmnopqrstuvw");
    flx_buffer_free(&text);
    ender e = {.last = 6}; /* the prompt is the first call */
    o.write = end_after;
    o.write_user = &e;
    CHECK_OK(flx_generate(g, likely, "c", &o, &text, &err), &err);
    CHECK_EQ_STR(text.data, "cdefgh");
    flx_buffer_free(&text);
    flx_params_release(likely);
    flx_params_release(sure);
    flx_graph_release(g);
    flx_context_free(ctx);
}

/* Probability e / (e + 255): the frequency of the likely byte, of 2000, is within four deviations. */
TEST(generate_draws_with_the_probabilities_of_the_logits)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_graph *g = trainee_graph(ctx, alphabet_text, FLX_F32);
    flx_params *set = alphabet(g, 0);
    flx_buffer text = {0};
    const flx_generate_options o = {.struct_size = sizeof o, .tokens = 2000, .temperature = 0.5};
    flx_tensor *table = flx_params_find(set, "table");
    int found = 0;
    for (int i = 0; i < 256; i++)
        ((float *)flx_tensor_data(table))[256 * i + 'q'] = 2.5f; /* e^5 / (e^5 + 255) = 0.368 at temperature 0.5 */
    CHECK_OK(flx_generate(g, set, "", &o, &text, &err), &err);
    for (size_t i = 0; i < text.size; i++)
        found += text.data[i] == 'q';
    CHECK(found > 736 - 87 && found < 736 + 87);
    flx_buffer_free(&text);
    flx_params_release(set);
    flx_graph_release(g);
    flx_context_free(ctx);
}

TEST(generate_reports_misuse)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_graph *g = trainee_graph(ctx, alphabet_text, FLX_F32), *decode = build(ctx, 1, 1, 1);
    flx_graph *other = trainee_graph(ctx, "graph f(x: f32[N, 4], param w: f32[4, 3]) { return matmul(x, w) }", FLX_F32);
    flx_params *set = alphabet(g, 1), *weights = flx_params_of(decode, 0, &err);
    flx_generate_options o = {.struct_size = sizeof o};
    CHECK(flx_generate(NULL, set, "", &o, NULL, &err) == FLX_E_USAGE);
    CHECK(flx_generate(g, NULL, "", &o, NULL, &err) == FLX_E_USAGE);
    CHECK(flx_generate(other, set, "", &o, NULL, &err) == FLX_E_SHAPE);
    CHECK(flx_generate(decode, weights, "", &o, NULL, &err) == FLX_E_USAGE);
    CHECK(strstr(err.hint, "context") != NULL);
    o.context = CONTEXT + 1;
    CHECK(flx_generate(decode, weights, "", &o, NULL, &err) == FLX_E_SHAPE);
    CHECK(strstr(err.message, "room for 12 tokens") != NULL);
    o.context = CONTEXT;
    CHECK(flx_generate(decode, set, "", &o, NULL, &err) == FLX_E_NAME);
    o.temperature = -1;
    CHECK(flx_generate(g, set, "", &o, NULL, &err) == FLX_E_USAGE);
    o = (flx_generate_options){.struct_size = sizeof o, .flags = 8};
    CHECK(flx_generate(g, set, "", &o, NULL, &err) == FLX_E_USAGE);
    o = (flx_generate_options){.struct_size = sizeof o, .tokens = -1};
    CHECK(flx_generate(g, set, "", &o, NULL, &err) == FLX_E_USAGE);
    for (int i = 0; i < 256 * 256; i++)
        ((float *)flx_tensor_data(flx_params_find(set, "table")))[i] = -1.0f / 0.0f;
    o = (flx_generate_options){.struct_size = sizeof o};
    CHECK(flx_generate(g, set, "", &o, NULL, &err) == FLX_E_NUMERIC);
    flx_params_release(weights);
    flx_params_release(set);
    flx_graph_release(other);
    flx_graph_release(decode);
    flx_graph_release(g);
    flx_context_free(ctx);
}

/* Without memory it fails, once and cleanly; the text is the same as soon as there is enough. */
TEST(generate_survives_failing_allocations)
{
    fault memory = {0};
    flx_context *ctx = flx_context_new(&(flx_context_options){.alloc = fault_alloc, .alloc_user = &memory});
    flx_error err = {0};
    flx_graph *g = trainee_graph(ctx, alphabet_text, FLX_F32);
    flx_params *set = alphabet(g, 60);
    const flx_generate_options o = {.struct_size = sizeof o, .tokens = 12};
    int failures = 0;
    flx_code code = FLX_E_OOM;
    for (size_t n = 1; code != FLX_OK; n += 1 + n / 20) {
        flx_buffer text = {0};
        memory.fail_at = memory.calls + n;
        code = flx_generate(g, set, "abc", &o, &text, &err);
        memory.fail_at = 0;
        CHECK(code == FLX_OK || (code == FLX_E_OOM && !text.data));
        failures += code != FLX_OK;
        if (code == FLX_OK)
            CHECK_EQ_STR(text.data, "abcdefghijklmno");
        flx_buffer_free(&text);
    }
    CHECK(failures > 10);
    flx_params_release(set);
    flx_graph_release(g);
    flx_context_free(ctx);
    CHECK(fault_is_clean(&memory));
}
