/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles a graph once and runs it in several ways: with a parameter that stays, asynchronously, checked, and from a
   recording. */
#include <fluxion/fluxion.h>
#include <fluxion/recording.h>
#include <stdio.h>
#include <string.h>

static const char text[] = "graph scaled_log(x: f32[N], param w: f32[N]) {\n"
                           "  y = log(x)\n"
                           "  return mul(y, w)\n"
                           "}\n";

static flx_tensor *vector(flx_context *ctx, const float *values, int64_t n, flx_error *err)
{
    flx_type t = flx_type_make(FLX_F32, 1, &n);
    return flx_tensor_new(ctx, &t, values, err);
}

static void show(const char *what, flx_tensor *y)
{
    printf("%s: %g %g %g\n", what, flx_tensor_get(y, 0), flx_tensor_get(y, 1), flx_tensor_get(y, 2));
    flx_tensor_release(y);
}

/* The steps of one run and their times. */
static flx_code profile(flx_exec *e, const flx_feed *feed, flx_error *err)
{
    flx_step_time steps[8];
    size_t count;
    flx_tensor *y;
    flx_code code = flx_exec_profile(e, NULL, feed, 1, &y, steps, 8, &count, err);
    for (size_t i = 0; code == FLX_OK && i < count && i < 8; i++)
        printf("step %s: %lld bytes\n", steps[i].name, (long long)steps[i].bytes);
    if (code == FLX_OK)
        show("profiled", y);
    return code;
}

/* A run that fails, with its recording. */
static flx_code fail_and_replay(flx_context *ctx, flx_exec *e, const flx_feed *feed, flx_error *err)
{
    const flx_run_options checked = {.struct_size = sizeof checked, .flags = FLX_RUN_CHECK_FINITE};
    flx_error found = {0}, again = {0};
    flx_tensor *y;
    if (flx_exec_run(e, &checked, feed, 1, &y, &found) == FLX_OK)
        return flx_tensor_release(y), FLX_OK;
    printf("found: %s\n", found.message);
    flx_recording *r = flx_recording_read(ctx, "session.flxr", err);
    if (!r)
        return (flx_code)err->code;
    flx_recording_run(r, NULL, &y, &again);
    printf("replayed: %s\n", strcmp(found.message, again.message) == 0 ? "the same" : again.message);
    flx_recording_free(r);
    return FLX_OK;
}

static flx_code run_all(flx_context *ctx, flx_exec *e, flx_tensor *x, flx_tensor *w, flx_error *err)
{
    const flx_feed feed = {"x", x};
    flx_tensor *y;
    flx_code code = flx_exec_set_param(e, "w", w, err);
    if (code == FLX_OK)
        code = flx_exec_run(e, NULL, &feed, 1, &y, err); /* at once, without machine code */
    if (code == FLX_OK)
        show("interpreted or compiled", y);
    if (code == FLX_OK)
        code = flx_exec_wait_ready(e, err);
    flx_job *job = code == FLX_OK ? flx_exec_start(e, NULL, &feed, 1, err) : NULL;
    if (!job)
        return (flx_code)err->code;
    code = flx_job_wait(job, &y, err); /* or do something else in the meantime */
    if (code == FLX_OK)
        show("asynchronous", y);
    flx_job_free(job);
    printf("a run needs %zu bytes of working memory\n", flx_exec_memory(e));
    if (code == FLX_OK)
        code = profile(e, &feed, err);
    ((float *)flx_tensor_data(x))[1] = 0; /* whose logarithm is -inf */
    return code == FLX_OK ? fail_and_replay(ctx, e, &feed, err) : code;
}

int main(void)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_parse(ctx, text, strlen(text), "session", &err);
    flx_compile_options options = {
        .struct_size = sizeof options, .flags = FLX_COMPILE_BACKGROUND, .record_path = "session.flxr"};
    flx_exec *e = m ? flx_compile(flx_module_main(m), &options, &err) : NULL;
    flx_code code = e ? FLX_OK : (flx_code)err.code;
    flx_tensor *x = vector(ctx, (float[]){1, 2, 4}, 3, &err), *w = vector(ctx, (float[]){1, 10, 100}, 3, &err);
    if (code == FLX_OK)
        code = x && w ? run_all(ctx, e, x, w, &err) : (flx_code)err.code;
    flx_exec_free(e);
    flx_module_free(m);
    flx_tensor_release(x);
    flx_tensor_release(w);
    flx_context_free(ctx);
    return code ? fprintf(stderr, "%s: %s\n", err.where, err.message), 1 : 0;
}
