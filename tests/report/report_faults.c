/* SPDX-License-Identifier: Apache-2.0 */
/* report_faults.c: memory that runs out at each allocation, files that cannot be written, and arguments that are
   refused. */
#include "fault.h"
#include "report/report_case.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char text[] = "graph b(c: f32[4]) { return mul(c, 0.5) }\n"
                           "graph f(x: f32[4, 4], c: f32[4], param l.w: f32[4, 4], param l.b: f32[4]) {\n"
                           "  y = relu(add(matmul(x, l.w), l.b))\n"
                           "  s = scan(c, body=@b, num_carry=1, length=3)\n"
                           "  return y, s\n}\n";

typedef struct {
    flx_context *ctx;
    flx_module *module;
    flx_exec *exec;
    flx_tensor *image;
} subject;

static double still(void *user)
{
    (void)user;
    return 1000;
}

static flx_code collect(const subject *s, flx_report *r, flx_error *err)
{
    static const char *const words[] = {"a", "b", "c", "d"};
    static const int64_t counts[] = {1, 2, 3, 4};
    const flx_report_graph what = {.struct_size = sizeof what, .graph = flx_module_main(s->module), .exec = s->exec};
    flx_code code = flx_report_add_value(r, "loss", 1, 2, err);
    if (code == FLX_OK)
        code = flx_report_add_fact(r, "a", "b", err);
    if (code == FLX_OK)
        code = flx_report_add_fact(r, "a", "c", err);
    if (code == FLX_OK)
        code = flx_report_add_text(r, "a", 1, "b", err);
    if (code == FLX_OK)
        code = flx_report_add_image(r, "a", 1, s->image, err);
    if (code == FLX_OK)
        code = flx_report_add_table(r, "a", words, 2, words, 2, err);
    if (code == FLX_OK)
        code = flx_report_add_confusion(r, "a", words, 2, counts, err);
    if (code == FLX_OK)
        code = flx_report_add_graph(r, &what, err);
    for (int form = FLX_REPORT_HTML; code == FLX_OK && form <= FLX_REPORT_EVENTS; form++) {
        flx_buffer out = {0};
        code = flx_report_print(r, (flx_report_form)form, &out, err);
        flx_buffer_free(&out);
    }
    for (int form = FLX_DRAWING_SVG; code == FLX_OK && form <= FLX_DRAWING_DOT; form++) {
        flx_buffer out = {0};
        code = flx_report_draw(&what, (flx_drawing)form, &out, err);
        flx_buffer_free(&out);
    }
    return code;
}

/* Everything of a report, with the k-th allocation failing. */
static flx_code make_report(const subject *s, fault *f, size_t k, flx_error *err)
{
    const flx_report_options options = {.struct_size = sizeof options, .clock = still};
    f->calls = 0;
    f->fail_at = k;
    flx_report *r = flx_report_new(s->ctx, &options, err);
    flx_code code = r ? collect(s, r, err) : (flx_code)err->code;
    f->fail_at = 0;
    if (r && code != FLX_OK) { /* what was there is still there, and the rest can be added */
        flx_error again = {0};
        char *page = report_text(r, FLX_REPORT_HTML, NULL);
        report_check_page(page);
        free(page);
        CHECK_OK(collect(s, r, &again), &again);
    }
    flx_report_free(r);
    return code;
}

TEST(report_survives_failing_allocations)
{
    fault f = {0};
    flx_error err = {0};
    subject s = {.ctx = flx_context_new(&(flx_context_options){.alloc = fault_alloc, .alloc_user = &f})};
    const flx_compile_options options = {
        .struct_size = sizeof options, .device = "cpu", .flags = FLX_COMPILE_INTERPRET, .threads = 1};
    const flx_type type = flx_type_make(FLX_F32, 2, (flx_dim[]){2, 3});
    s.module = report_parse(s.ctx, text);
    s.exec = flx_compile(flx_module_main(s.module), &options, &err);
    CHECK_MADE(s.exec, &err);
    s.image = flx_tensor_new(s.ctx, &type, (float[]){0, 0.5f, 1, 2, -1, 0.1f}, &err);
    size_t live = f.live_blocks;
    CHECK_OK(make_report(&s, &f, 0, &err), &err);
    size_t calls = f.calls;
    CHECK_EQ_U64(f.live_blocks, live);
    CHECK(calls > 50);
    for (size_t k = 1; k <= calls; k++) {
        err = (flx_error){0};
        test_fail_context("allocation %zu of %zu fails", k, calls);
        CHECK_CODE(make_report(&s, &f, k, &err), FLX_E_OOM, &err);
        CHECK_EQ_U64(f.live_blocks, live);
        test_count_case();
    }
    flx_tensor_release(s.image);
    flx_exec_free(s.exec);
    flx_module_free(s.module);
    flx_context_free(s.ctx);
    CHECK(fault_is_clean(&f));
}

/* ---- Files ---- */

TEST(report_file_appears_whole_or_not_at_all)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    report_clock clock = {1, 1};
    flx_report *r = report_new(ctx, "file", &clock);
    char path[512], line[64] = "";
    snprintf(path, sizeof path, "%s/report.html", test_temp_dir());
    CHECK_OK(flx_report_write(r, FLX_REPORT_HTML, path, &err), &err);
    FILE *in = fopen(path, "rb");
    CHECK(in && fgets(line, sizeof line, in));
    fclose(in);
    CHECK_EQ_STR(line, "<!DOCTYPE html>\n");
    CHECK_CODE(flx_report_write(r, FLX_REPORT_CSV, test_missing_path("x.csv"), &err), FLX_E_IO, &err);
    CHECK_CODE(flx_report_write(r, (flx_report_form)7, path, &err), FLX_E_USAGE, &err);
    unlink(path);
    flx_report_free(r);
    flx_context_free(ctx);
}

/* ---- Images ---- */

TEST(report_image_dtypes_and_shapes)
{
    static const struct {
        int32_t dtype;
        int rank;
        flx_dim dims[4];
        flx_code code;
    } rows[] = {
        {FLX_F32, 2, {2, 3}, FLX_OK},        {FLX_U8, 3, {2, 3, 3}, FLX_OK},          {FLX_BOOL, 3, {2, 3, 1}, FLX_OK},
        {FLX_BF16, 2, {1, 1}, FLX_OK},       {FLX_I32, 2, {2, 3}, FLX_E_DTYPE},       {FLX_C64, 2, {2, 3}, FLX_E_DTYPE},
        {FLX_F32, 1, {3}, FLX_E_SHAPE},      {FLX_F32, 3, {2, 3, 4}, FLX_E_SHAPE},    {FLX_F32, 2, {0, 3}, FLX_E_SIZE},
        {FLX_F32, 2, {1, 2049}, FLX_E_SIZE}, {FLX_F32, 4, {1, 1, 1, 1}, FLX_E_SHAPE},
    };
    flx_context *ctx = flx_context_new(NULL);
    report_clock clock = {1, 1};
    flx_report *r = report_new(ctx, "images", &clock);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        flx_error err = {0};
        const flx_type type = flx_type_make((flx_dtype)rows[i].dtype, rows[i].rank, rows[i].dims);
        flx_tensor *t = flx_tensor_new(ctx, &type, NULL, &err);
        CHECK_MADE(t, &err);
        test_fail_context("row %zu", i);
        CHECK_CODE(flx_report_add_image(r, "i", 1, t, &err), rows[i].code, &err);
        flx_tensor_release(t);
        test_count_case();
    }
    const flx_type type = flx_type_make(FLX_F32, 2, (flx_dim[]){1, 5});
    flx_error err = {0};
    flx_tensor *t = flx_tensor_new(ctx, &type, (float[]){-1, 0, 0.5f, 1, 7}, &err);
    CHECK_OK(flx_report_add_image(r, "shades", 1, t, &err), &err);
    char *page = report_text(r, FLX_REPORT_HTML, NULL);
    CHECK(strstr(page, "\"pixels\":\"AACA//8=\"") != NULL); /* 0 0 128 255 255 */
    free(page);
    flx_tensor_release(t);
    flx_report_free(r);
    flx_context_free(ctx);
}
