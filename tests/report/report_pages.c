/* SPDX-License-Identifier: Apache-2.0 */
/* report_pages.c: reports as pages: they are well-formed whatever names hold, their data says what the graph says, and
   the same report is the same bytes. With FLX_TEST_KEEP the pages are kept, for the test in a browser
   (tests/report/browser.mjs). */
#include "report/report_case.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- A report with everything in it ---- */

static void add_curves(flx_report *r, flx_error *err)
{
    uint64_t state = 7;
    for (int step = 0; step <= 600; step++) {
        double t = step / 600.0, noise = test_uniform(&state) - 0.5;
        double loss = 0.9 + 3.4 * exp(-5 * t) + 0.22 * noise;
        CHECK_OK(flx_report_add_value(r, "loss/train", step, step == 200 ? NAN : loss, err), err);
        if (step % 50 == 0)
            CHECK_OK(flx_report_add_value(r, "loss/validation", step, 1.0 + 3.3 * exp(-4.8 * t), err), err);
        double warm = step < 40 ? step / 40.0 : 0.5 + 0.5 * cos(3.14159 * (step - 40) / 560.0);
        CHECK_OK(flx_report_add_value(r, "learning rate", step, 3e-3 * warm, err), err);
        CHECK_OK(flx_report_add_value(r, "gradient norm", step, 0.2 + 2.5 * exp(-6 * t) * (1 + noise), err), err);
        CHECK_OK(flx_report_add_value(r, "tokens per second", step, 41000 + 2500 * noise, err), err);
    }
}

static void add_samples(flx_report *r, flx_error *err)
{
    CHECK_OK(flx_report_add_text(r, "What it writes", 0, "q zvx eehtn  wls;aoh etd", err), err);
    CHECK_OK(flx_report_add_text(r, "What it writes", 300, "the and wher the sould of the king\nto the", err), err);
    CHECK_OK(
        flx_report_add_text(r, "What it writes", 600, "the king is come to the house of his father,\nand all", err),
        err);
    flx_context *ctx = flx_context_new(NULL);
    const flx_type type = flx_type_make(FLX_F32, 2, (flx_dim[]){16, 16});
    for (int k = 0; k < 6; k++) {
        float pixels[256];
        for (int i = 0; i < 256; i++)
            pixels[i] = (float)exp(-0.06 * (pow(i / 16 - 8, 2) + pow(i % 16 - 4 - k, 2)));
        flx_tensor *image = flx_tensor_new(ctx, &type, pixels, err);
        CHECK_OK(flx_report_add_image(r, "Filters of the first layer", 100 * k, image, err), err);
        flx_tensor_release(image);
    }
    flx_context_free(ctx);
    int64_t counts[100];
    for (int i = 0; i < 100; i++)
        counts[i] = i / 10 == i % 10 ? 91 + i % 7 : (i * 37) % 11 > 8;
    CHECK_OK(flx_report_add_confusion(r, "Digits", NULL, 10, counts, err), err);
    static const char *const columns[] = {"layer", "parameters", "share"};
    static const char *const cells[] = {"embedding", "176",    "2.6 %", "layer0", "3216",
                                        "48.1 %",    "layer1", "3216",  "48.1 %"};
    CHECK_OK(flx_report_add_table(r, "Parameters", columns, 3, cells, 3, err), err);
    CHECK_OK(flx_report_add_fact(r, "parameters", "6.7 k", err), err);
    CHECK_OK(flx_report_add_fact(r, "final loss", "0.92", err), err);
    CHECK_OK(flx_report_add_fact(r, "time", "1 min 12 s", err), err);
    CHECK_OK(flx_report_add_fact(r, "final loss", "0.91", err), err);
}

/* The training step of examples/gpt2.flx, compiled and run once. */
static void add_training_step(flx_report *r, flx_context *ctx, flx_error *err)
{
    flx_module *module = report_read_example(ctx, "gpt2.flx");
    const flx_train_options train = {.struct_size = sizeof train, .optimiser = FLX_ADAMW};
    flx_graph *step = flx_training_graph(flx_module_main(module), &train, err);
    CHECK_MADE(step, err);
    const flx_dim_binding four = {"N", 4};
    flx_graph *fixed = flx_specialise(step, &four, 1, err);
    CHECK_MADE(fixed, err);
    report_run run = report_run_graph(fixed, test_keep_dir() ? 0 : FLX_COMPILE_INTERPRET);
    const flx_report_graph what = {.struct_size = sizeof what,
                                   .title = "GPT-2 training step",
                                   .graph = step,
                                   .exec = run.exec,
                                   .trace = &run.trace};
    CHECK_OK(flx_report_add_graph(r, &what, err), err);
    report_run_free(&run);
    flx_graph_release(fixed);
    flx_graph_release(step);
    flx_module_free(module);
}

TEST(report_page_with_everything_is_well_formed)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    report_clock clock = {1.7e9, 0.12};
    flx_report *r = report_new(ctx, "A small GPT-2 learns to write", &clock);
    add_curves(r, &err);
    add_samples(r, &err);
    add_training_step(r, ctx, &err);
    char *page = report_page(r, "training");
    report_check_page(page);
    CHECK(strstr(page, "\"final loss\",\"0.91\"") && !strstr(page, "0.92\"]"));
    CHECK(strstr(page, "\"n\":\"backward\"") && strstr(page, "\"n\":\"update\""));
    CHECK(strstr(page, "\"kind\":\"compiled\"") && strstr(page, "\"events\":["));
    CHECK(strstr(page, "src=") == NULL && strstr(page, "@import") == NULL && strstr(page, "url(h") == NULL);
    free(page);
    flx_report_free(r);
    flx_context_free(ctx);
}

/* ---- Texts from outside ---- */

static const char *const hostile[] = {
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "\"'><b>&amp;",
    "--><!--",
    "]]>",
    "${x}`",
    "\xe2\x80\xa8line\xe2\x80\xa9",
    "\xff\xfe\xc0\xaf",
    "a\x01\x1f\x7f",
    "javascript:alert(1)",
    "\\u003cscript\\u003e",
    "__proto__",
};

TEST(report_page_holds_hostile_texts)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    report_clock clock = {1.7e9, 1};
    flx_report *r = report_new(ctx, hostile[0], &clock);
    flx_graph *g = flx_graph_new(ctx, "hostile");
    const flx_type type = flx_type_make(FLX_F32, 1, (flx_dim[]){3});
    flx_val x = flx_input(g, "x", &type);
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
        const char *text = hostile[i], *cells[] = {text, text};
        const flx_attr message = {.key = "message", .kind = FLX_ATTR_STRING, .as.s = i == 7 ? "plain" : text};
        CHECK_OK(flx_report_add_value(r, text, 1, 2, &err), &err);
        CHECK_OK(flx_report_add_fact(r, text, text, &err), &err);
        CHECK_OK(flx_report_add_text(r, text, 1, text, &err), &err);
        CHECK_OK(flx_report_add_table(r, text, cells, 2, cells, 1, &err), &err);
        CHECK_OK(flx_report_add_confusion(r, text, cells, 2, (int64_t[]){1, 2, 3, 4}, &err), &err);
        flx_op(g, "print", &x, 1, &message, 1, &x, 1);
    }
    flx_output(g, x, NULL);
    CHECK_OK(flx_graph_error(g, &err), &err);
    const flx_report_graph what = {.struct_size = sizeof what, .title = hostile[1], .graph = g};
    CHECK_OK(flx_report_add_graph(r, &what, &err), &err);
    char *page = report_page(r, "hostile");
    report_check_page(page);
    CHECK(strstr(page, "<img") == NULL && strstr(page, "<b>") == NULL);
    free(page);
    char *svg = report_drawing(&what, FLX_DRAWING_SVG);
    report_check_xml(svg);
    CHECK(strstr(svg, "<img") == NULL && strstr(svg, "script>") == NULL);
    free(svg);
    free(report_drawing(&what, FLX_DRAWING_DOT));
    flx_graph_release(g);
    flx_report_free(r);
    flx_context_free(ctx);
}

/* ---- What the data says ---- */

static const char small[] = "graph body(c: f32[4]) { return mul(c, 0.5) }\n"
                            "graph f(x: f32[4, 4], c: f32[4], param layer.w: f32[4, 4], param layer.b: f32[4]) {\n"
                            "  y = relu(add(matmul(x, layer.w), layer.b))\n"
                            "  s = scan(c, body=@body, num_carry=1, length=3)\n"
                            "  return reduce_sum(y, axes=[1]), s\n}\n";

TEST(report_page_says_what_the_graph_says)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    report_clock clock = {1.7e9, 1};
    flx_module *m = report_parse(ctx, small);
    report_run run = report_run_graph(flx_module_main(m), 0);
    flx_report *r = report_new(ctx, "small", &clock);
    const flx_report_graph what = {
        .struct_size = sizeof what, .graph = flx_module_main(m), .exec = run.exec, .trace = &run.trace};
    CHECK_OK(flx_report_add_graph(r, &what, &err), &err);
    char *page = report_page(r, "small");
    report_check_page(page);
    size_t size, steps = 0;
    const char *data = report_data(page, &size);
    CHECK(strstr(data, "\"f32[4, 4]\"") && strstr(data, "\"axes=[1]\"") && strstr(data, "\"b\":[\"body\"]"));
    CHECK(strstr(data, "\"m\":\"w\"") && strstr(data, "\"n\":\"layer.w\"") && strstr(data, "\"n\":\"layer\""));
    CHECK(report_count(data, "\"kind\":\"written\"") == 2 && report_count(data, "\"kind\":\"compiled\"") == 2);
    flx_step step;
    for (; flx_exec_step(run.exec, steps, &step) == FLX_OK; steps++) {
        char text[200];
        snprintf(text, sizeof text, "{\"k\":\"%s\",\"n\":\"%s\",\"d\":%d", step.kind, step.name, step.depth);
        CHECK_MSG(strstr(data, text) != NULL, "%s", text);
    }
    CHECK_EQ_U64(run.trace.num_steps, steps);
    CHECK(run.trace.num_events >= steps);
    char live[60];
    snprintf(live, sizeof live, "\"memory\":{\"bytes\":%zu", flx_exec_memory(run.exec));
    CHECK_MSG(strstr(data, live) != NULL, "%s", live);
    free(page);
    flx_report_free(r);
    report_run_free(&run);
    flx_module_free(m);
    flx_context_free(ctx);
}

TEST(report_page_is_the_same_every_time)
{
    char *pages[2];
    for (int i = 0; i < 2; i++) {
        flx_error err = {0};
        flx_context *ctx = flx_context_new(NULL);
        report_clock clock = {1.7e9, 0.25};
        flx_module *m = report_parse(ctx, small);
        flx_report *r = report_new(ctx, "same", &clock);
        const flx_report_graph what = {.struct_size = sizeof what, .graph = flx_module_main(m)};
        CHECK_OK(flx_report_add_graph(r, &what, &err), &err);
        for (int k = 0; k < 20000; k++)
            CHECK_OK(flx_report_add_value(r, "many", k, k == 12345 ? 9.5 : sin(k), &err), &err);
        pages[i] = report_page(r, "same");
        report_check_page(pages[i]);
        flx_report_free(r);
        flx_module_free(m);
        flx_context_free(ctx);
    }
    CHECK_EQ_STR(pages[0], pages[1]);
    CHECK(strlen(pages[0]) < 500000);         /* most points are left out … */
    CHECK(strstr(pages[0], ",9.5,") != NULL); /* … but no peak */
    free(pages[0]);
    free(pages[1]);
}
