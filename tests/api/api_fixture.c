/* SPDX-License-Identifier: Apache-2.0 */
/* api_fixture.c: see api_fixture.h. */
#include "api/api_fixture.h"

#include "test.h"

#include <fluxion/recording.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char graph_text[] = "graph f(x: f32[3], param p: f32[3]) { return reduce_sum(mul(square(x), p)) }";
static const char kernel_text[] = "kernel k {\n  buffer x: f32[4] read @0;\n  buffer y: f32[4] output @1;\n"
                                  "  let i = invocation_id(0);\n  y[i] = x[i] * x[i];\n}\n";

const flx_compile_options interpreted = {
    .struct_size = sizeof interpreted, .device = "cpu", .flags = FLX_COMPILE_INTERPRET, .threads = 1};

fixture fixture_new(void)
{
    flx_error err = {0};
    fixture f = {.ctx = flx_context_new(NULL)};
    const flx_type type = flx_type_make(FLX_F32, 1, (flx_dim[]){3});
    f.module = flx_parse(f.ctx, graph_text, strlen(graph_text), "fixture", &err);
    CHECK_MADE(f.module, &err);
    f.g = flx_module_main(f.module);
    f.kernel = flx_kernel_parse(f.ctx, kernel_text, strlen(kernel_text), "fixture", &err);
    CHECK_MADE(f.kernel, &err);
    f.derived = flx_kernel_grad(f.kernel, (const char *[]){"y"}, 1, (const char *[]){"x"}, 1, NULL, &err);
    CHECK_MADE(f.derived, &err);
    f.exec = flx_compile(f.g, &interpreted, &err);
    CHECK_MADE(f.exec, &err);
    f.trainer = flx_compile_training(f.g, NULL, &interpreted, &err);
    CHECK_MADE(f.trainer, &err);
    f.x = flx_tensor_new(f.ctx, &type, (float[]){1, 2, 3}, &err);
    f.feeds[0] = (flx_feed){"x", f.x};
    f.feeds[1] = (flx_feed){"p", f.x};
    snprintf(f.recording, sizeof f.recording, "%.250s/fixture.flxr", test_temp_dir());
    CHECK_OK(flx_exec_record(f.exec, NULL, f.feeds, 2, f.recording, &err), &err);
    return f;
}

void fixture_free(fixture *f)
{
    unlink(f->recording);
    flx_tensor_release(f->x);
    flx_trainer_free(f->trainer);
    flx_exec_free(f->exec);
    flx_kernel_derived_free(f->derived);
    flx_kernel_release(f->kernel);
    flx_module_free(f->module);
    flx_context_free(f->ctx);
}
