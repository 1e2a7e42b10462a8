/* SPDX-License-Identifier: Apache-2.0 */
/* recordings.c: runs in files: what comes back is what was run, failures repeat, damaged files are errors. */
#include "damage.h"
#include "format/zip.h"
#include "session_case.h"

#include <fluxion/recording.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static const char text[] =
    "graph f(x: f32[N], y: bf16[N], param w: i32[2]) {\n"
    "  z = add(x, cast(y, to=f32))\n return z, gather(z, w, axis=0), expand(reduce_sum(x, axes=[0]), shape=[M]) }";

static flx_tensor *other(session_case *c, flx_dtype dtype, int64_t n, const void *data)
{
    flx_type t = flx_type_make(dtype, 1, &n);
    flx_tensor *x = flx_tensor_new(c->ctx, &t, data, &c->err);
    CHECK_MSG(x, "%s", c->err.message);
    return c->made[c->count++] = x;
}

/* A case with its three inputs, the last set as a parameter. */
static void begin(session_case *c, const int32_t w[2])
{
    session_begin(c, text, 0);
    session_compile(c, FLX_COMPILE_INTERPRET, 1);
    session_f32(c, 3, 2.5f);
    other(c, FLX_BF16, 3, (const uint16_t[]){0x3f80, 0x4000, 0x7f80});
    CHECK_OK(flx_exec_set_param(c->exec, "w", other(c, FLX_I32, 2, w), &c->err), &c->err);
}

static const flx_dim_binding dims[] = {{"M", 2}};
static const flx_run_options options = {.dims = dims, .num_dims = 1};

static void same_outputs(flx_tensor *const *a, flx_tensor *const *b)
{
    for (int i = 0; i < 3; i++) {
        CHECK_EQ_U64(flx_tensor_nbytes(a[i]), flx_tensor_nbytes(b[i]));
        CHECK(memcmp(flx_tensor_const_data(a[i]), flx_tensor_const_data(b[i]), flx_tensor_nbytes(a[i])) == 0);
    }
}

static void release(flx_tensor **out)
{
    for (int i = 0; i < 3; i++)
        flx_tensor_release(out[i]);
}

TEST(recording_runs_again_with_the_same_results)
{
    session_case c;
    begin(&c, (const int32_t[]){2, 0});
    flx_feed feeds[] = {{"x", c.made[0]}, {"y", c.made[1]}};
    flx_tensor *expected[3], *out[3];
    const char *path = test_temp_path("run.flxr");
    CHECK_OK(flx_exec_record(c.exec, &options, feeds, 2, path, &c.err), &c.err);
    CHECK_OK(flx_exec_run(c.exec, &options, feeds, 2, expected, &c.err), &c.err);
    flx_recording *r = flx_recording_read(c.ctx, path, &c.err);
    CHECK_MSG(r, "%s", c.err.message);
    CHECK_EQ_STR(flx_graph_name(flx_recording_graph(r)), "f");
    CHECK_OK(flx_recording_failure(r, &c.err), &c.err);
    CHECK_OK(flx_recording_run(r, NULL, out, &c.err), &c.err);
    same_outputs(out, expected);
    release(out);
    CHECK_OK(flx_recording_run(r, &(flx_run_options){.device = "ref"}, out, &c.err), &c.err);
    same_outputs(out, expected);
    release(out);
    CHECK_CODE(flx_recording_run(r, &(flx_run_options){.device = "moon"}, out, &c.err), FLX_E_NAME, &c.err);
    CHECK_CODE(flx_recording_run(r, NULL, NULL, &c.err), FLX_E_USAGE, &c.err);
    flx_recording_free(r);
    flx_tensor *x = flx_npz_read(c.ctx, path, "input_0", &c.err);
    CHECK_MSG(x && flx_tensor_get(x, 1) == 2.5, "%s", c.err.message);
    flx_tensor_release(x);
    release(expected);
    session_end(&c);
}

TEST(recording_of_a_failure_fails_again)
{
    session_case c;
    session_begin(&c, "graph f(x: f32[3]) { y = log(x)\n return y }", 0);
    const char *path = test_temp_path("failure.flxr");
    flx_compile_options o = {
        .struct_size = sizeof o, .flags = FLX_COMPILE_INTERPRET, .threads = 1, .record_path = path};
    c.exec = flx_compile(c.g, &o, &c.err);
    CHECK_MADE(c.exec, &c.err);
    flx_feed feed = {"x", session_f32(&c, 3, 0)};
    flx_run_options run = {.flags = FLX_RUN_CHECK_FINITE};
    flx_tensor *out;
    struct stat s;
    CHECK_OK(flx_exec_run(c.exec, NULL, &feed, 1, &out, &c.err), &c.err);
    flx_tensor_release(out);
    CHECK(stat(path, &s) != 0); /* only failures are recorded */
    CHECK_CODE(flx_exec_run(c.exec, &run, &feed, 1, &out, &c.err), FLX_E_NUMERIC, &c.err);
    CHECK_MSG(strstr(c.err.hint, "flx replay"), "%s", c.err.hint);
    flx_recording *r = flx_recording_read(c.ctx, path, &c.err);
    CHECK_MSG(r, "%s", c.err.message);
    flx_error first = {0}, again = {0};
    CHECK_CODE(flx_recording_failure(r, &first), FLX_E_NUMERIC, &first);
    CHECK_CODE(flx_recording_run(r, NULL, &out, &again), FLX_E_NUMERIC, &again);
    CHECK_EQ_STR(first.message, again.message);
    flx_recording_free(r);
    session_end(&c);
}

TEST(recording_that_cannot_be_written_does_not_hide_the_failure)
{
    session_case c;
    session_begin(&c, "graph f(x: f32[3]) { return log(x) }", 0);
    flx_compile_options o = {.struct_size = sizeof o,
                             .flags = FLX_COMPILE_INTERPRET,
                             .threads = 1,
                             .record_path = test_missing_path("recording")};
    c.exec = flx_compile(c.g, &o, &c.err);
    CHECK_MADE(c.exec, &c.err);
    flx_feed feed = {"x", session_f32(&c, 3, 0)};
    flx_run_options run = {.flags = FLX_RUN_CHECK_FINITE};
    flx_tensor *out;
    CHECK_CODE(flx_exec_run(c.exec, &run, &feed, 1, &out, &c.err), FLX_E_NUMERIC, &c.err);
    CHECK_MSG(strstr(c.err.hint, "could not be recorded"), "%s", c.err.hint);
    CHECK_CODE(flx_exec_record(c.exec, NULL, &feed, 1, test_missing_path("recording"), &c.err), FLX_E_IO, &c.err);
    CHECK_CODE(flx_exec_record(c.exec, NULL, &feed, 1, NULL, &c.err), FLX_E_USAGE, &c.err);
    CHECK_CODE(flx_exec_record(c.exec, NULL, NULL, 0, test_temp_path("none"), &c.err), FLX_E_MISSING_INPUT, &c.err);
    session_end(&c);
}

TEST(recording_of_a_failure_at_compiling_an_extent_is_kept)
{
    session_case c;
    session_begin(&c, "graph f(x: f32[N], y: f32[2*N]) { return x, y }", 0);
    const char *path = test_temp_path("shape.flxr");
    flx_compile_options o = {
        .struct_size = sizeof o, .flags = FLX_COMPILE_INTERPRET, .threads = 1, .record_path = path};
    c.exec = flx_compile(c.g, &o, &c.err);
    CHECK_MADE(c.exec, &c.err);
    flx_feed feeds[] = {{"x", session_f32(&c, 3, 0)}, {"y", session_f32(&c, 8, 0)}};
    flx_tensor *out[2];
    CHECK_CODE(flx_exec_run(c.exec, NULL, feeds, 2, out, &c.err), FLX_E_SHAPE, &c.err);
    flx_recording *r = flx_recording_read(c.ctx, path, &c.err);
    CHECK_MSG(r, "%s", c.err.message);
    CHECK_CODE(flx_recording_run(r, NULL, out, &c.err), FLX_E_SHAPE, &c.err);
    flx_recording_free(r);
    session_end(&c);
}

/* ---- Damage ---- */

/* Decodes and runs; the first output stands for the recording. */
static flx_tensor *decode(flx_context *ctx, const void *bytes, size_t size, flx_error *err)
{
    flx_recording *r = flx_recording_decode(ctx, bytes, size, err);
    flx_tensor *out[8] = {0}, *first = NULL;
    if (!r)
        return NULL;
    if (flx_graph_output_count(flx_recording_graph(r)) == 3) {
        if (flx_recording_run(r, &(flx_run_options){.device = "ref"}, out, err) == FLX_OK) {
            first = flx_tensor_retain(out[0]);
            release(out);
        }
    } else {
        flx_type scalar = flx_type_make(FLX_F32, 0, NULL);
        first = flx_tensor_new(ctx, &scalar, NULL, err);
    }
    flx_recording_free(r);
    return first;
}

static unsigned char *read_whole(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    CHECK(f);
    unsigned char *bytes = malloc(1 << 16);
    CHECK(bytes);
    *size = fread(bytes, 1, 1 << 16, f);
    fclose(f);
    CHECK(*size > 100 && *size < 1 << 16);
    return bytes;
}

TEST(recording_damaged_anywhere_is_an_error_or_runs)
{
    session_case c;
    begin(&c, (const int32_t[]){2, 0});
    flx_feed feeds[] = {{"x", c.made[0]}, {"y", c.made[1]}};
    const char *path = test_temp_path("damage.flxr");
    CHECK_OK(flx_exec_record(c.exec, &options, feeds, 2, path, &c.err), &c.err);
    size_t size;
    unsigned char *bytes = read_whole(path, &size);
    damage_everywhere(decode, bytes, size, 1 << 17);
    damage_allocations(decode, bytes, size);
    free(bytes);
    CHECK(!flx_recording_decode(NULL, "", 0, &c.err) && c.err.code == FLX_E_USAGE);
    CHECK(!flx_recording_read(c.ctx, NULL, &c.err) && c.err.code == FLX_E_USAGE);
    CHECK(!flx_recording_read(c.ctx, test_temp_path("missing"), &c.err) && c.err.code == FLX_E_IO);
    flx_recording_free(NULL);
    session_end(&c);
}

static void write_recording(const char *path, const char *facts, const flx_buffer *graph)
{
    static const flxi_allocator mem = {flxi_default_alloc, NULL};
    flx_error err = {0};
    flxi_zip_writer w;
    CHECK_OK(flxi_zip_write_begin(&w, &mem, path, &err), &err);
    CHECK_OK(flxi_zip_write_entry(&w, "recording.txt", &(flxi_piece){facts, strlen(facts)}, 1, &err), &err);
    CHECK_OK(flxi_zip_write_entry(&w, "graph.flxb", &(flxi_piece){graph->data, graph->size}, 1, &err), &err);
    CHECK_OK(flxi_zip_write_end(&w, &err), &err);
}

/* Texts that a checksum would not catch: each in an archive that is whole. */
TEST(recording_text_is_not_believed)
{
    static const struct {
        const char *text;
        flx_code code;
    } rows[] = {
        {"fluxion recording 1\n", FLX_OK},
        {"fluxion recording 1\ncompile 2 1 0\nrun 0\nfailure 7 no\n", FLX_OK},
        {"fluxion recording 2\n", FLX_E_VERSION},
        {"fluxion recording 1", FLX_E_SYNTAX},
        {"", FLX_E_SYNTAX},
        {"fluxion recording 1\nwhat\n", FLX_E_SYNTAX},
        {"fluxion recording 1\n\n", FLX_E_SYNTAX},
        {"fluxion recording 1\ncompile\n", FLX_E_SYNTAX},
        {"fluxion recording 1\ncompile 2 65 0\n", FLX_E_SYNTAX},
        {"fluxion recording 1\ncompile 2 1 5\n", FLX_E_SYNTAX},
        {"fluxion recording 1\ncompile 1024 1 0\n", FLX_E_SYNTAX},
        {"fluxion recording 1\ncompile 2 1 0 7\n", FLX_E_SYNTAX},
        {"fluxion recording 1\nrun 2\n", FLX_E_SYNTAX},
        {"fluxion recording 1\nrun -1\n", FLX_E_SYNTAX},
        {"fluxion recording 1\ndim N\n", FLX_E_SYNTAX},
        {"fluxion recording 1\ndim N -1\n", FLX_E_SYNTAX},
        {"fluxion recording 1\ndim  3\n", FLX_E_SYNTAX},
        {"fluxion recording 1\ndim N 99999999999999999999\n", FLX_E_SYNTAX},
        {"fluxion recording 1\nfailure 0 x\n", FLX_E_SYNTAX},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        session_case c;
        flx_buffer graph = {0};
        session_begin(&c, "graph f() { return full(f32[2], 3) }", 0);
        CHECK_OK(flx_graph_encode(c.g, &graph, &c.err), &c.err);
        const char *path = test_temp_path("text.flxr");
        write_recording(path, rows[i].text, &graph);
        flx_buffer_free(&graph);
        test_fail_context("%s", rows[i].text);
        c.err = (flx_error){0};
        flx_recording *r = flx_recording_read(c.ctx, path, &c.err);
        CHECK_EQ_I64(r ? FLX_OK : c.err.code, rows[i].code);
        flx_recording_free(r);
        session_end(&c);
    }
}
