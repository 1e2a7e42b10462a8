/* SPDX-License-Identifier: Apache-2.0 */
/* nn_decoders.c: the decoders of examples/, built in C and read from text, against the answers of another framework
   (tests/oracle/nn_decoders.py): loss, logits and all gradients in f64, on both devices. */
#include "answers.h"
#include "example_models.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

/* ---- Where the graphs come from ---- */

enum { TEXT_SIZE = 8192 };

/* examples/<name>.flx in f64 instead of f32. */
static void read_text(const char *name, char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/examples/%s.flx", FLX_SOURCE_DIR, name);
    FILE *f = fopen(path, "rb");
    CHECK_MSG(f, "%s cannot be read", path);
    size_t n = fread(text, 1, TEXT_SIZE, f);
    fclose(f);
    CHECK_MSG(n > 0 && n < TEXT_SIZE, "%s has %zu bytes or more", path, n);
    text[n] = '\0';
    for (char *at = text; (at = strstr(at, "f32[")) != NULL;)
        memcpy(at, "f64", 3);
}

static flx_graph *parse_example(flx_context *ctx, const char *name)
{
    flx_error err = {0};
    char text[TEXT_SIZE];
    read_text(name, text);
    flx_module *m = flx_parse(ctx, text, strlen(text), name, &err);
    CHECK_MSG(m, "%s %s", err.where, err.message);
    flx_graph *g = flx_graph_retain(flx_module_main(m));
    flx_module_free(m);
    return g;
}

/* ---- Against the other framework ---- */

/* PARAMS is how many there are: none may be left out. */
static void check_model(const char *name, const flx_graph *g, const answers *a, size_t num_params)
{
    flx_error err = {0};
    CHECK_OK(flx_graph_error(g, &err), &err);
    answers_check(a, g, "ref");
    answers_check(a, g, "cpu");
    test_fail_context("%s, gradient", name);
    CHECK_EQ_U64(answers_check_gradient(a, g, FLX_GRAD_VALUE), num_params);
    test_fail_context("%s, gradient by backward ops", name);
    CHECK_EQ_U64(answers_check_gradient(a, g, FLX_GRAD_VALUE | FLX_GRAD_BACKWARD_OPS), num_params);
}

static void check_decoder(const char *name, flx_graph *(*build)(flx_context *, flx_dtype), size_t num_params)
{
    answers a;
    answers_open(&a, name);
    test_fail_context("%s from C", name);
    flx_graph *built = build(a.ctx, FLX_F64);
    check_model(name, built, &a, num_params);
    test_fail_context("%s from text", name);
    flx_graph *parsed = parse_example(a.ctx, name);
    check_model(name, parsed, &a, num_params);
    flx_graph_release(built);
    flx_graph_release(parsed);
    answers_close(&a);
}

TEST(decoder_gpt2_agrees_with_another_framework_by_value_and_gradient)
{
    check_decoder("gpt2", example_gpt2, 36);
}

TEST(decoder_llama_agrees_with_another_framework_by_value_and_gradient)
{
    check_decoder("llama", example_llama, 21);
}

/* ---- Lowering ---- */

enum { MOST_INPUTS = 40, NUM_OUTPUTS = 2 };

/* loss and logits on the answers' inputs. */
static void run_model(const answers *a, const flx_graph *g, flx_tensor **out)
{
    flx_error err = {0};
    flx_feed feeds[MOST_INPUTS];
    size_t n = flx_graph_input_count(g);
    CHECK(n <= MOST_INPUTS && flx_graph_output_count(g) == NUM_OUTPUTS);
    for (size_t i = 0; i < n; i++) {
        feeds[i].name = flx_val_name(g, flx_graph_input(g, i));
        feeds[i].value = answers_read(a, feeds[i].name);
    }
    CHECK_OK(flx_run(g, &(flx_run_options){.device = "ref"}, feeds, n, out, &err), &err);
    for (size_t i = 0; i < n; i++)
        flx_tensor_release((flx_tensor *)(uintptr_t)feeds[i].value);
}

static void check_policy(const answers *a, const flx_graph *g, flx_policy policy, flx_tensor *const *want)
{
    flx_error err = {0};
    flx_tensor *out[NUM_OUTPUTS];
    flx_graph *low = flx_lower(g, policy, &err);
    CHECK_MSG(low, "policy %d: %s", (int)policy, err.message);
    CHECK_EQ_I64(flx_graph_stage(g), FLX_STAGE_HIR);
    CHECK_EQ_I64(flx_graph_stage(low), FLX_STAGE_MIR);
    run_model(a, low, out);
    for (size_t k = 0; k < NUM_OUTPUTS; k++) {
        CHECK_EQ_U64(flx_tensor_nbytes(out[k]), flx_tensor_nbytes(want[k]));
        CHECK_MSG(memcmp(flx_tensor_const_data(out[k]), flx_tensor_const_data(want[k]), flx_tensor_nbytes(want[k])) ==
                      0,
                  "policy %d changes %s", (int)policy, flx_graph_output_name(g, k));
        flx_tensor_release(out[k]);
    }
    test_fail_context("policy %d", (int)policy);
    answers_check_gradient(a, low, FLX_GRAD_VALUE);
    flx_graph_release(low);
}

static void check_lowering(const char *name)
{
    answers a;
    flx_tensor *want[NUM_OUTPUTS];
    answers_open(&a, name);
    flx_graph *g = parse_example(a.ctx, name);
    run_model(&a, g, want);
    check_policy(&a, g, FLX_POLICY_DIRECT, want);
    check_policy(&a, g, FLX_POLICY_FUSABLE, want);
    check_policy(&a, g, FLX_POLICY_FOR_AUTODIFF, want);
    for (size_t k = 0; k < NUM_OUTPUTS; k++)
        flx_tensor_release(want[k]);
    flx_graph_release(g);
    answers_close(&a);
}

TEST(decoder_blocks_of_text_have_the_same_bits_under_every_policy)
{
    check_lowering("gpt2");
    check_lowering("llama");
}
