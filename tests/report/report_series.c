/* SPDX-License-Identifier: Apache-2.0 */
/* report_series.c: curves as CSV and as event files of TensorBoard, and traces. The event file is compared with one
   that TensorBoard's own writer made of the same values (tests/oracle/report_events.py). */
#include "report/report_case.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static flx_report *report_with_values(flx_context *ctx, report_clock *clock)
{
    flx_error err = {0};
    flx_report *r = report_new(ctx, "values", clock);
    CHECK_OK(flx_report_add_value(r, "loss", 0, 2.5, &err), &err);
    CHECK_OK(flx_report_add_value(r, "loss", 1, 1.25, &err), &err);
    CHECK_OK(flx_report_add_value(r, "a \"b\", c", 300, -0.1, &err), &err);
    CHECK_OK(flx_report_add_value(r, "loss", -2, INFINITY, &err), &err);
    CHECK_OK(flx_report_add_value(r, "loss", INT64_MAX, NAN, &err), &err);
    return r;
}

TEST(report_csv_quotes_names)
{
    flx_context *ctx = flx_context_new(NULL);
    report_clock clock = {1000, 0.5};
    flx_report *r = report_with_values(ctx, &clock);
    char *csv = report_text(r, FLX_REPORT_CSV, NULL);
    CHECK_EQ_STR(csv, "series,step,time,value\r\n"
                      "loss,0,1000.5,2.5\r\n"
                      "loss,1,1001,1.25\r\n"
                      "loss,-2,1002,inf\r\n"
                      "loss,9223372036854775807,1002.5,nan\r\n"
                      "\"a \"\"b\"\", c\",300,1001.5,-0.1\r\n");
    free(csv);
    flx_report_free(r);
    flx_context_free(ctx);
}

/* ---- Event files ---- */

TEST(report_events_are_those_of_tensorboard)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    report_clock clock = {1.7e9, 0.25};
    flx_report *r = report_new(ctx, "values", &clock);
    static const struct {
        const char *name;
        int64_t step;
        double value;
    } values[] = {
        {"loss/train", 0, 2.5}, {"loss/train", 1, 0.1}, {"loss/train", 300, -1e-3}, {"\xce\xb7", 70000, 1e30}};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        CHECK_OK(flx_report_add_value(r, values[i].name, values[i].step, values[i].value, &err), &err);
    size_t size;
    char *events = report_text(r, FLX_REPORT_EVENTS, &size);

    char path[512];
    static char expected[4096];
    snprintf(path, sizeof path, "%s/tests/oracle/fixtures/report/events.tfevents", test_source_dir());
    FILE *in = fopen(path, "rb");
    CHECK_MSG(in != NULL, "%s", path);
    size_t n = fread(expected, 1, sizeof expected, in);
    fclose(in);
    CHECK_EQ_U64(size, n);
    CHECK(memcmp(events, expected, n) == 0);
    free(events);
    flx_report_free(r);
    flx_context_free(ctx);
}

/* CRC-32C bit by bit. */
static uint32_t slow_crc(const unsigned char *p, size_t n)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        for (int k = 0; k < 8; k++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    return ~crc;
}

static uint32_t unmasked(const unsigned char *p)
{
    uint32_t v = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
    v -= 0xa282ead8u;
    return v << 15 | v >> 17;
}

TEST(report_events_have_checksums)
{
    flx_context *ctx = flx_context_new(NULL);
    report_clock clock = {5, 1};
    flx_report *r = report_with_values(ctx, &clock);
    size_t size, records = 0;
    unsigned char *events = (unsigned char *)report_text(r, FLX_REPORT_EVENTS, &size);
    for (size_t at = 0; at < size; records++) {
        CHECK(size - at >= 16);
        size_t length = (size_t)events[at] | (size_t)events[at + 1] << 8;
        CHECK(size - at >= 16 + length);
        CHECK_EQ_U64(unmasked(events + at + 8), slow_crc(events + at, 8));
        CHECK_EQ_U64(unmasked(events + at + 12 + length), slow_crc(events + at + 12, length));
        at += 16 + length;
    }
    CHECK_EQ_U64(records, 6); /* the version, and five values */
    free(events);
    flx_report_free(r);
    flx_context_free(ctx);
}

/* ---- Traces ---- */

static const char loops[] = "graph twice(c: f32[4]) { return mul(c, 0.5) }\n"
                            "graph loops(x: f32[8, 8], c: f32[4]) {\n"
                            "  y = matmul(x, exp(x))\n"
                            "  s = scan(c, body=@twice, num_carry=1, length=3)\n"
                            "  return y, s\n}\n";

TEST(report_trace_lists_every_step)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = report_parse(ctx, loops);
    report_run run = report_run_graph(flx_module_main(m), FLX_COMPILE_INTERPRET);
    flx_buffer text = {0};
    CHECK_OK(flx_report_trace(run.exec, &run.trace, &text, &err), &err);
    report_check_json(text.data, text.size);
    int64_t runs = 0, first = INT64_MAX, last = 0;
    for (size_t i = 0; i < run.trace.num_steps; i++)
        runs += run.trace.steps[i].runs;
    CHECK_EQ_U64(run.trace.num_events, runs);
    CHECK_EQ_U64(report_count(text.data, "\"ph\":\"X\""), run.trace.num_events);
    for (size_t i = 0; i < run.trace.num_events; i++) {
        const flx_step_event *e = &run.trace.events[i];
        CHECK(e->step < run.trace.num_steps && e->start_ns >= 0 && e->time_ns >= 0);
        first = e->start_ns < first ? e->start_ns : first;
        last = e->start_ns + e->time_ns > last ? e->start_ns + e->time_ns : last;
    }
    CHECK_EQ_I64(first, 0);
    int64_t outer = 0;
    for (size_t i = 0; i < run.trace.num_steps; i++)
        outer += run.trace.steps[i].depth == 0 ? run.trace.steps[i].time_ns : 0;
    CHECK(outer <= last);
    flx_buffer_free(&text);
    report_run_free(&run);
    flx_module_free(m);
    flx_context_free(ctx);
}

TEST(report_trace_counts_events_that_do_not_fit)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = report_parse(ctx, "graph f(x: f32[8]) { return exp(x), sin(x) }");
    const flx_compile_options options = {
        .struct_size = sizeof options, .device = "cpu", .flags = FLX_COMPILE_INTERPRET, .threads = 1};
    flx_exec *e = flx_compile(flx_module_main(m), &options, &err);
    CHECK_MADE(e, &err);
    const flx_type type = flx_type_make(FLX_F32, 1, (flx_dim[]){8});
    flx_tensor *x = flx_tensor_new(ctx, &type, NULL, &err), *out[2];
    flx_step_event events[3] = {[1] = {.step = 77}};
    flx_step_time steps[3] = {[1] = {.runs = 77}};
    flx_run_trace trace = {.steps = steps, .step_capacity = 1, .events = events, .event_capacity = 1};
    CHECK_OK(flx_exec_trace(e, NULL, &(flx_feed){"x", x}, 1, out, &trace, &err), &err);
    CHECK(trace.num_steps == 2 && trace.num_events == 2);
    CHECK(events[1].step == 77 && steps[1].runs == 77);
    flx_buffer text = {0};
    CHECK_OK(flx_report_trace(e, &trace, &text, &err), &err);
    CHECK_EQ_U64(report_count(text.data, "\"ph\":\"X\""), 1);
    flx_buffer_free(&text);
    flx_tensor_release(out[0]);
    flx_tensor_release(out[1]);
    flx_tensor_release(x);
    flx_exec_free(e);
    flx_module_free(m);
    flx_context_free(ctx);
}

/* The steps of a loop that are independent are run and reported by several threads. */
TEST(report_trace_takes_steps_of_several_threads)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = report_parse(ctx, "graph f(q: f32[1, 1024, 64], k: f32[1, 1024, 64], v: f32[1, 1024, 64]) {\n"
                                      "  return attention(q, k, v, layout=bsd, num_heads=2, mask_kind=causal)\n}\n");
    report_run run = report_run_graph(flx_module_main(m), 0);
    flx_buffer text = {0};
    CHECK_OK(flx_exec_report(run.exec, &text, &err), &err);
    CHECK_MSG(strstr(text.data, "2 steps at a time") != NULL, "%s", text.data);
    flx_buffer_free(&text);
    int64_t runs = 0;
    for (size_t i = 0; i < run.trace.num_steps; i++)
        runs += run.trace.steps[i].runs;
    CHECK_EQ_U64(run.trace.num_events, runs);
    CHECK(run.trace.num_events > run.trace.num_steps);
    report_run_free(&run);
    flx_module_free(m);
    flx_context_free(ctx);
}
