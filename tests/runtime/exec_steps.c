/* SPDX-License-Identifier: Apache-2.0 */
/* exec_steps.c: what an executable says about its steps: what they compute, why, how much work it is, and the text that
   is written for them. */
#include "fault.h"
#include "test.h"

#include <fluxion/fluxion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static flx_exec *compile_text(flx_context *ctx, const char *text, const flx_compile_options *o, flx_error *err)
{
    flx_module *m = flx_parse(ctx, text, strlen(text), NULL, err);
    flx_exec *e = m ? flx_compile(flx_module_main(m), o, err) : NULL;
    flx_module_free(m);
    return e;
}

static const flx_compile_options interpreted = {.flags = FLX_COMPILE_INTERPRET};

/* Flops of the only step of a graph. */
static int64_t flops_of(const char *text)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_exec *e = compile_text(ctx, text, &interpreted, &err);
    flx_step s = {.flops = -1}, more;
    CHECK_MSG(e, "%s: %s", text, err.message);
    CHECK_MSG(flx_exec_step(e, 0, &s) == FLX_OK && flx_exec_step(e, 1, &more) == FLX_E_NAME, "%s: not one step", text);
    flx_exec_free(e);
    flx_context_free(ctx);
    return s.flops;
}

TEST(exec_step_flops_follow_from_the_types)
{
    CHECK_EQ_I64(flops_of("graph f(x: f32[3, 5]) { return exp(x) }"), 15);
    CHECK_EQ_I64(flops_of("graph f(a: f64[6, 6], b: f64[6]) { return solve(a, b) }"), 2 * (72 + 36));
    CHECK_EQ_I64(flops_of("graph f(a: f64[6, 6], b: f64[6, 2]) { return solve_triangular(a, b) }"), 2 * 36);
    CHECK_EQ_I64(flops_of("graph f(a: c128[2, 6, 6]) { return cholesky(a) }"), 8 * 72);
    CHECK_EQ_I64(flops_of("graph f(x: f32[3, 1], y: f32[5]) { return add(x, y) }"), 15);
    CHECK_EQ_I64(flops_of("graph f(x: i32[3], y: i32[3]) { return add(x, y) }"), 0);
    CHECK_EQ_I64(flops_of("graph f(x: f32[3], y: f32[3]) { return lt(x, y) }"), 3);
    CHECK_EQ_I64(flops_of("graph f(x: f32[3, 5]) { return reduce_sum(x, axes=[0]) }"), 15);
    CHECK_EQ_I64(flops_of("graph f(x: f32[3, 5]) { return transpose(x, perm=[1, 0]) }"), 0);
    CHECK_EQ_I64(flops_of("graph f(x: f32[2, 3, 5], y: f32[2, 5, 7]) { return matmul(x, y) }"), 2 * 2 * 3 * 5 * 7);
    CHECK_EQ_I64(flops_of("graph f(x: c64[3, 5], y: c64[5, 7]) { return matmul(x, y) }"), 8 * 3 * 5 * 7);
    CHECK_EQ_I64(flops_of("graph f(x: f32[0, 5], y: f32[5, 7]) { return matmul(x, y) }"), 0);
    CHECK_EQ_I64(
        flops_of("graph f(x: f32[4, 2, 3], y: f32[5, 3, 2]) { return dot_general(x, y, lc=[1, 2], rc=[2, 1]) }"),
        2 * 4 * 5 * 6);
}

TEST(exec_step_flops_of_convolutions_count_each_weight_once_per_place)
{
    /* 6 = 8 - 3 + 1 positions, 4 features of 2 channels and 3 taps. */
    CHECK_EQ_I64(flops_of("graph f(x: f32[1, 2, 8], w: f32[4, 2, 3]) { return conv(x, w) }"), 2 * 6 * 4 * 2 * 3);
    CHECK_EQ_I64(flops_of("graph f(x: f32[1, 4, 8], w: f32[4, 2, 3]) { return conv(x, w, groups=2) }"),
                 2 * 6 * 4 * 2 * 3);
    CHECK_EQ_I64(flops_of("graph f(x: f32[1, 2, 8], w: f32[3, 2, 4]) { return conv(x, w, kernel_axes=[2, 1, 0]) }"),
                 2 * 6 * 4 * 2 * 3);
    CHECK_EQ_I64(
        flops_of("graph f(z: f32[1, 4, 6], w: f32[4, 2, 3]) { return conv_backward_input(z, w, input_size=[8]) }"),
        2 * 6 * 4 * 2 * 3);
    CHECK_EQ_I64(
        flops_of("graph f(x: f32[1, 2, 8], z: f32[1, 4, 6]) { return conv_backward_weight(x, z, kernel_size=[3]) }"),
        2 * 6 * 4 * 2 * 3);
    CHECK_EQ_I64(flops_of("graph f(x: f32[1, 4, 6], w: f32[4, 2, 3]) { return conv_transpose(x, w) }"),
                 2 * 6 * 4 * 2 * 3);
}

static const char with_loop[] = "graph step(c: f32[4]) { return mul(c, 0.5) }\n"
                                "graph f(x: f32[4]) {\n"
                                "  y = exp(x)\n"
                                "  z = scan(y, body=@step, num_carry=1, length=3)\n"
                                "  return z, x\n"
                                "}\n";

TEST(exec_steps_stand_before_those_of_their_bodies)
{
    static const char *const kinds[] = {"evaluate", "scan", "evaluate", "copy"};
    static const char *const computes[] = {"exp y", "scan z", "mul", "input x"};
    static const int32_t depths[] = {0, 0, 1, 0};
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_exec *e = compile_text(ctx, with_loop, &interpreted, &err);
    CHECK_MSG(e, "%s", err.message);
    flx_step s;
    for (size_t i = 0; i < 4; i++) {
        CHECK_OK(flx_exec_step(e, i, &s), NULL);
        CHECK_EQ_STR(s.kind, kinds[i]);
        CHECK_EQ_STR(s.computes, computes[i]);
        CHECK_EQ_STR(s.routine, depths[i] ? "step" : "f");
        CHECK_EQ_I64(s.depth, depths[i]);
    }
    CHECK_OK(flx_exec_step(e, 0, &s), NULL);
    CHECK_EQ_STR(s.why, "no kernel: the compiler is not used");
    CHECK_EQ_I64(s.bytes, 32);
    CHECK_EQ_I64(flx_exec_step(e, 4, &s), FLX_E_NAME);
    CHECK_EQ_I64(flx_exec_step(NULL, 0, &s), FLX_E_USAGE);
    CHECK_EQ_I64(flx_exec_step(e, 0, NULL), FLX_E_USAGE);
    flx_exec_free(e);
    flx_context_free(ctx);
}

TEST(exec_profile_counts_the_runs_of_each_step)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_exec *e = compile_text(ctx, with_loop, &interpreted, &err);
    CHECK_MSG(e, "%s", err.message);
    flx_type row = flx_type_make(FLX_F32, 1, (flx_dim[]){4});
    flx_tensor *x = flx_tensor_new(ctx, &row, NULL, &err), *out[2];
    flx_step_time t[4], few[2] = {0};
    size_t n = 0;
    CHECK_OK(flx_exec_profile(e, NULL, &(flx_feed){"x", x}, 1, out, t, 4, &n, &err), &err);
    CHECK_EQ_I64(n, 4);
    CHECK_EQ_STR(t[1].name, "scan");
    CHECK_EQ_I64(t[1].runs, 1);
    CHECK_EQ_STR(t[2].name, "mul");
    CHECK_EQ_I64(t[2].runs, 3);
    CHECK_EQ_I64(t[2].depth, 1);
    CHECK_EQ_I64(t[2].flops, 4);
    CHECK_MSG(t[1].time_ns >= t[2].time_ns, "a loop takes as long as what is in it");
    flx_tensor_release(out[0]);
    flx_tensor_release(out[1]);
    CHECK_OK(flx_exec_profile(e, NULL, &(flx_feed){"x", x}, 1, out, few, 1, &n, &err), &err);
    CHECK_EQ_I64(n, 4);
    CHECK_EQ_I64(few[0].runs, 1);
    CHECK_MSG(!few[1].name, "only as many are written as there is room for");
    flx_tensor_release(out[0]);
    flx_tensor_release(out[1]);
    flx_tensor_release(x);
    flx_exec_free(e);
    flx_context_free(ctx);
}

TEST(exec_report_says_why_no_library_computes_a_product)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_exec *e =
        compile_text(ctx, "graph f(x: i32[2, 3], y: i32[3, 2]) { p = matmul(x, y) return p }", &interpreted, &err);
    CHECK_MSG(e, "%s", err.message);
    flx_step s;
    CHECK_OK(flx_exec_step(e, 0, &s), NULL);
    CHECK_MSG(strstr(s.why, "no route blas: "), "%s", s.why);
    flx_buffer text = {0};
    CHECK_OK(flx_exec_report(e, &text, &err), &err);
    CHECK_MSG(strstr(text.data, "computes matmul p\n") && strstr(text.data, "because no route blas: "), "%s",
              text.data);
    flx_buffer_free(&text);
    flx_exec_free(e);
    flx_context_free(ctx);
}

TEST(exec_step_says_why_a_kernel_has_no_vectors)
{
    static const char *const why[] = {"", "one invocation at a time: vectors are switched off"};
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    for (int is_scalar = 0; is_scalar < 2; is_scalar++) {
        flx_compile_options o = {.flags = is_scalar ? FLX_COMPILE_SCALAR : 0};
        flx_exec *e = compile_text(ctx, "graph f(x: f32[64]) { return exp(x) }", &o, &err);
        CHECK_MSG(e, "%s", err.message);
        flx_step s;
        CHECK_OK(flx_exec_step(e, 0, &s), NULL);
        CHECK_EQ_STR(s.kind, "kernel");
        CHECK_EQ_STR(s.why, why[is_scalar]);
        flx_exec_free(e);
    }
    flx_context_free(ctx);
}

TEST(compile_writes_the_text_of_kernels_to_a_folder)
{
    char dir[600], path[700], line[40] = "";
    flx_error err = {0};
    snprintf(dir, sizeof dir, "%s/dump-XXXXXX", test_temp_dir());
    CHECK_MSG(mkdtemp(dir), "no folder");
    flx_context *ctx = flx_context_new(NULL);
    flx_compile_options o = {.dump_dir = dir};
    flx_exec *e = compile_text(ctx, "graph f(x: f32[4]) { return exp(x) }", &o, &err);
    CHECK_MSG(e, "%s", err.message);
    flx_exec_free(e);
    snprintf(path, sizeof path, "%s/kernels_0.c", dir);
    FILE *f = fopen(path, "r");
    CHECK_MSG(f && fgets(line, sizeof line, f) && line[0], "no text in %s", path);
    fclose(f);
    unlink(path);
    rmdir(dir);
    CHECK_MSG(!compile_text(ctx, "graph f(x: f32[4]) { return exp(x) }", &o, &err), "the folder is gone");
    CHECK_EQ_I64(err.code, FLX_E_IO);
    flx_context_free(ctx);
}

TEST(show_stage_mir_needs_no_extents)
{
    static const char text[] = "graph f(x: f32[N, 3], w: f32[3, 2], b: f32[2]) { return linear(x, w, b) }";
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_parse(ctx, text, strlen(text), NULL, &err);
    CHECK_MSG(m, "%s", err.message);
    flx_buffer shown = {0};
    CHECK_OK(flx_show_stage(flx_module_main(m), FLX_STAGE_MIR, NULL, &shown, &err), &err);
    CHECK_MSG(strstr(shown.data, "f32[N, 3]") && !strstr(shown.data, " linear("), "%s", shown.data);
    flx_buffer_free(&shown);
    CHECK_EQ_I64(flx_show_stage(flx_module_main(m), FLX_STAGE_LIR, NULL, &shown, &err), FLX_E_UNBOUND_DIM);
    flx_module_free(m);
    flx_context_free(ctx);
}

TEST(device_facts_and_routes_end)
{
    const char *name, *op, *route;
    char text[300];
    size_t cpu = 0, n = 0;
    while (flx_device(cpu, &name, NULL, 0) != FLX_E_NAME && strcmp(name, "cpu") != 0)
        cpu++;
    while (flx_device_fact(cpu, n, &name, text, sizeof text) == FLX_OK) {
        CHECK_MSG(name[0] && text[0], "fact %zu is empty", n);
        n++;
    }
    CHECK_EQ_I64(n, 5);
    for (n = 0; flx_device_route(cpu, n, &op, &route) == FLX_OK; n++)
        CHECK_MSG(op[0] && route[0], "route %zu has no name", n);
    CHECK_MSG(n > 5, "%zu routes", n);
    CHECK_EQ_I64(flx_device_fact(1000, 0, &name, text, sizeof text), FLX_E_NAME);
    CHECK_EQ_I64(flx_device_route(1000, 0, &op, &route), FLX_E_NAME);
    CHECK_OK(flx_device_fact(cpu, 0, NULL, NULL, 0), NULL);
    CHECK_OK(flx_device_route(cpu, 0, NULL, NULL), NULL);
}

TEST(exec_steps_survive_lack_of_memory)
{
    size_t calls = 1;
    for (size_t n = 1; n <= calls; n++) {
        fault f = {.fail_at = n};
        flx_error err = {0};
        flx_context *ctx = flx_context_new(&(flx_context_options){.alloc = fault_alloc, .alloc_user = &f});
        flx_exec *e = ctx ? compile_text(ctx, with_loop, &interpreted, &err) : NULL;
        flx_buffer text = {0};
        flx_code code = e ? flx_exec_report(e, &text, &err) : FLX_E_OOM;
        test_fail_context("allocation %zu", n);
        CHECK_MSG(e || !ctx || err.code == FLX_E_OOM, "%s", err.message);
        CHECK_MSG(code == FLX_OK || code == FLX_E_OOM, "%s", err.message);
        flx_buffer_free(&text);
        flx_exec_free(e);
        flx_context_free(ctx);
        CHECK(fault_is_clean(&f));
        calls = f.failed ? n + 1 : n;
    }
}
