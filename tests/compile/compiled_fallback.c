/* SPDX-License-Identifier: Apache-2.0 */
/* compiled_fallback.c: what a device refuses although it should compile it is computed in another way, alone, and the
   log, the report and the status of the run say so. */
#include "backend/devices.h"
#include "test.h"

#include <fluxion/fluxion.h>
#include <stdio.h>
#include <string.h>

/* ---- A device like cpu that does not like kernels called exp… ---- */

static const flxi_device *cpu;
static bool refuses_all;

static flx_code check_kernel(const flx_kernel *k, flx_error *err)
{
    bool is_bad = refuses_all || strncmp(k->name, "exp", 3) == 0;
    return is_bad ? flxi_fail(err, FLX_E_KERNEL, "bad value: no exponentials") : FLX_OK;
}

static flx_code compile(const flxi_compile_request *q, flxi_kernel_code *kernels, flxi_device_code **code,
                        flx_error *err)
{
    *code = NULL;
    for (size_t i = 0; i < q->num_kernels; i++)
        FLXI_TRY(check_kernel(q->kernels[i], err));
    return cpu->compile(q, kernels, code, err);
}

/* ---- The log ---- */

typedef struct {
    int refused, others;
    char text[400]; /* of the last one that was refused */
} events;

static void keep_event(void *user, flx_log_event event, const char *subject, const char *text)
{
    events *e = user;
    e->refused += event == FLX_LOG_REFUSED;
    e->others += event == FLX_LOG_FALLBACK;
    if (event == FLX_LOG_REFUSED)
        snprintf(e->text, sizeof e->text, "%s: %s", subject, text);
}

static const char text[] = "graph f(x: f32[6], y: f32[8]) {\n"
                           "  s = reduce_sum(mul(y, y))\n  e = exp(neg(x))\n  return e, s\n}\n";

/* The report of running it; the results must be those of the definition. */
static void run_refused(events *log, char report[4000])
{
    flx_error err = {0};
    flx_buffer said = {0};
    uint32_t status = 0;
    flx_context *ctx = flx_context_new(
        &(flx_context_options){.struct_size = sizeof(flx_context_options), .log = keep_event, .log_user = log});
    CHECK_OK(flxi_device_find("cpu", &cpu, &err), &err);
    flxi_device stubborn = *cpu;
    stubborn.name = "stubborn";
    stubborn.compile = compile;
    stubborn.check_kernel = check_kernel;
    CHECK(flxi_device_add(&stubborn));
    flx_module *m = flx_parse(ctx, text, strlen(text), "refused", &err);
    CHECK_MADE(m, &err);
    float x[6] = {0, -1, -2, 1, 2, 0}, y[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    const flx_type types[2] = {flx_type_make(FLX_F32, 1, (flx_dim[]){6}), flx_type_make(FLX_F32, 1, (flx_dim[]){8})};
    flx_tensor *in[2] = {flx_tensor_new(ctx, &types[0], x, &err), flx_tensor_new(ctx, &types[1], y, &err)};
    flx_tensor *right[2], *got[2];
    const flx_feed feeds[2] = {{"x", in[0]}, {"y", in[1]}};
    CHECK_OK(flx_run(flx_module_main(m), &(flx_run_options){.device = "ref"}, feeds, 2, right, &err), &err);
    flx_exec *e = flx_compile(flx_module_main(m), &(flx_compile_options){.device = "stubborn"}, &err);
    CHECK_MADE(e, &err);
    CHECK_OK(flx_exec_run(e, &(flx_run_options){.status = &status}, feeds, 2, got, &err), &err);
    CHECK_EQ_U64(status, FLX_RUN_SLOW);
    for (int k = 0; k < 2; k++)
        for (int64_t i = 0; i < flx_tensor_count(right[k]); i++)
            CHECK_NEAR(flx_tensor_get(got[k], i), flx_tensor_get(right[k], i), 0);
    CHECK_OK(flx_exec_report(e, &said, &err), &err);
    snprintf(report, 4000, "%s", (const char *)said.data);
    flx_buffer_free(&said);
    flx_exec_free(e);
    flxi_device_remove(&stubborn);
    for (int k = 0; k < 2; k++) {
        flx_tensor_release(in[k]);
        flx_tensor_release(right[k]);
        flx_tensor_release(got[k]);
    }
    flx_module_free(m);
    flx_context_free(ctx);
}

TEST(compiled_fallback_is_for_the_refused_group_alone)
{
    events log = {0};
    char report[4000];
    refuses_all = false;
    run_refused(&log, report);
    CHECK_MSG(strstr(report, "1 kernel steps"), "%s", report);
    CHECK_MSG(strstr(report, "2 evaluate steps"), "%s", report); /* exp and neg */
    CHECK_MSG(strstr(report, "the compiler cannot compile its group: bad value: no exponentials"), "%s", report);
    CHECK_EQ_I64(log.refused, 2);
    CHECK_EQ_I64(log.others, 0);
    CHECK_MSG(strncmp(log.text, "exp: computed by the reference evaluator", 40) == 0, "%s", log.text);
}

TEST(compiled_fallback_is_for_all_if_all_are_refused)
{
    events log = {0};
    char report[4000];
    refuses_all = true;
    run_refused(&log, report);
    CHECK_MSG(!strstr(report, "kernel steps"), "%s", report);
    CHECK_EQ_I64(log.refused, 4);
    CHECK_MSG(strstr(log.text, "cannot compile its group: bad value"), "%s", log.text);
}
