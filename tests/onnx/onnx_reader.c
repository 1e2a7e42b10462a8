/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_reader.c: models that are damaged, hostile or starved of memory: an error with a location, never a crash, a
   leak or a wrong file. */
#include "base/context.h"
#include "fault.h"
#include "format/file.h"
#include "onnx/onnx_bytes.h"
#include "onnx/onnx_operations.h"
#include "test.h"

#include <fluxion/onnx.h>
#include <fluxion/text.h>
#include <fluxion/transform.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const samples[] = {
    "onnx/cases/test_basic_conv_with_padding/model.onnx",
    "onnx/cases/test_loop11/model.onnx",
    "onnx/cases/test_scan9_sum/model.onnx",
    "onnx/cases/test_dynamicquantizelinear_expanded/model.onnx",
    "onnx/cases/test_if/model.onnx",
    "onnx/cases/test_gru_seq_length/model.onnx",
    "fuzz/corpus/onnx/texts",
};

static bool read_sample(size_t i, flxi_file_bytes *out)
{
    static const flxi_allocator mem = {flxi_default_alloc, NULL};
    char path[600];
    snprintf(path, sizeof path, "%s/tests/%s", FLX_SOURCE_DIR, samples[i]);
    return flxi_file_read(out, &mem, path, 0, NULL) == FLX_OK;
}

/* Decodes, and checks what an error says. */
static flx_code decode(flx_context *ctx, const void *bytes, size_t size)
{
    flx_error err = {0};
    flx_onnx *m = flx_onnx_decode(ctx, bytes, size, "f", NULL, &err);
    if (!m) {
        CHECK(err.code != FLX_OK && err.code != FLX_E_INTERNAL && err.message[0]);
        CHECK(err.code == FLX_E_OOM || strncmp(err.where, "f:", 2) == 0);
    }
    flx_code code = m ? FLX_OK : (flx_code)err.code;
    flx_onnx_free(m);
    return code;
}

TEST(onnx_reader_withstands_truncated_and_changed_files)
{
    flx_context *ctx = flx_context_new(&(flx_context_options){.memory_limit = 1 << 26});
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        flxi_file_bytes f;
        CHECK(read_sample(i, &f));
        for (size_t n = 0; n < f.size; n++)
            decode(ctx, f.bytes, n);
        for (size_t n = 0; n < f.size; n++) {
            static const unsigned char changes[] = {0xff, 0x80, 0x01, 0x08};
            unsigned char *byte = (unsigned char *)f.bytes + n;
            for (size_t k = 0; k < sizeof changes; k++) {
                *byte ^= changes[k];
                decode(ctx, f.bytes, f.size);
                *byte ^= changes[k];
            }
        }
        flxi_file_free(&f);
    }
    flx_context_free(ctx);
}

TEST(onnx_reader_survives_want_of_memory)
{
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        flxi_file_bytes bytes;
        CHECK(read_sample(i, &bytes));
        flx_code code = FLX_E_OOM;
        for (size_t at = 1; code != FLX_OK && at < 100000; at += at < 200 ? 1 : 17) {
            fault f = {.fail_at = at};
            flx_context *ctx = flx_context_new(&(flx_context_options){.alloc = fault_alloc, .alloc_user = &f});
            bool was_hit = !ctx;
            code = ctx ? decode(ctx, bytes.bytes, bytes.size) : FLX_E_OOM;
            flx_context_free(ctx);
            was_hit |= f.failed > 0;
            CHECK(fault_is_clean(&f));
            CHECK(code == FLX_OK || code == FLX_E_OOM || code == FLX_E_UNSUPPORTED);
            if (!was_hit)
                break;
        }
        flxi_file_free(&bytes);
    }
}

/* ---- Hostile files ---- */

/* x + w, with the tensor w as given. */
static onnx_bytes sum_model(const onnx_bytes *w)
{
    onnx_bytes g = {.n = 0};
    onnx_bytes node = onnx_node_bytes("Add", "x", "w", "y");
    onnx_bytes x = onnx_info_bytes("x", 1, (int64_t[]){2}, 1), y = onnx_info_bytes("y", 1, (int64_t[]){2}, 1);
    put_part(&g, 1, &node);
    put_part(&g, 5, w);
    put_part(&g, 11, &x);
    put_part(&g, 12, &y);
    return onnx_model_bytes(&g, 17);
}

static flx_code read_sum(const onnx_bytes *w, const char *folder, flx_error *err)
{
    flx_context *ctx = flx_context_new(NULL);
    onnx_bytes m = sum_model(w);
    *err = (flx_error){0};
    flx_onnx_options o = {.struct_size = sizeof o, .folder = folder};
    flx_onnx *model = flx_onnx_decode(ctx, m.at, m.n, "m", &o, err);
    flx_code code = model ? FLX_OK : (flx_code)err->code;
    flx_onnx_free(model);
    flx_context_free(ctx);
    return code;
}

TEST(onnx_tensor_extents_that_the_file_does_not_hold_are_refused)
{
    flx_error err;
    static const int64_t dims[][2] = {{INT64_MAX, INT64_MAX}, {1ll << 40, 1}, {-1, 2},
                                      {1ll << 32, 1ll << 32}, {3, 1},         {INT64_MIN, 1}};
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
        onnx_bytes w = onnx_tensor_bytes("w", 1, dims[i], 2);
        put_bytes(&w, 9, "12345678", 8);
        CHECK(read_sum(&w, NULL, &err) != FLX_OK);
        CHECK(err.code == FLX_E_SYNTAX || err.code == FLX_E_SIZE);
        CHECK(strncmp(err.where, "m:", 2) == 0);
    }
}

/* Their errors have a place too. */
TEST(onnx_sparse_tensors_that_do_not_fit_are_refused)
{
    static const struct {
        int element;
        int64_t extent, index;
        flx_code code;
    } rows[] = {{1, 2, 1, FLX_OK}, {1, 2, 2, FLX_E_SYNTAX}, {1, -2, 1, FLX_E_SYNTAX}, {99, 2, 1, FLX_E_UNSUPPORTED}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        onnx_bytes sparse = {.n = 0}, g = {.n = 0}, node = onnx_node_bytes("Add", "x", "w", "y");
        onnx_bytes values = onnx_tensor_bytes("w", rows[i].element, (int64_t[]){1}, 1);
        onnx_bytes at = onnx_tensor_bytes("i", 7, (int64_t[]){1}, 1);
        onnx_bytes x = onnx_info_bytes("x", 1, (int64_t[]){2}, 1);
        put_bytes(&values, 9, "1234", 4);
        put_int(&at, 7, (uint64_t)rows[i].index);
        put_part(&sparse, 1, &values);
        put_part(&sparse, 2, &at);
        put_int(&sparse, 3, (uint64_t)rows[i].extent);
        onnx_bytes y = onnx_info_bytes("y", 1, (int64_t[]){2}, 1);
        put_part(&g, 1, &node);
        put_part(&g, 15, &sparse);
        put_part(&g, 11, &x);
        put_part(&g, 12, &y);
        onnx_bytes m = onnx_model_bytes(&g, 17);
        flx_context *ctx = flx_context_new(NULL);
        CHECK_EQ_I64(decode(ctx, m.at, m.n), rows[i].code);
        flx_context_free(ctx);
    }
}

static onnx_bytes external_tensor(const char *location, const char *offset, const char *length)
{
    onnx_bytes w = onnx_tensor_bytes("w", 1, (int64_t[]){2}, 1);
    const char *pairs[][2] = {{"location", location}, {"offset", offset}, {"length", length}};
    for (size_t i = 0; i < 3; i++) {
        onnx_bytes entry = {.n = 0};
        put_text(&entry, 1, pairs[i][0]);
        put_text(&entry, 2, pairs[i][1]);
        if (pairs[i][1])
            put_part(&w, 13, &entry);
    }
    put_int(&w, 14, 1);
    return w;
}

TEST(onnx_external_data_stays_in_the_folder)
{
    const char *folder = test_temp_path("onnx");
    char path[400], outside[400];
    flx_error err;
    CHECK(mkdir(folder, 0700) == 0);
    snprintf(path, sizeof path, "%s/inner", folder);
    CHECK(mkdir(path, 0700) == 0);
    snprintf(path, sizeof path, "%s/inner/w.bin", folder);
    snprintf(outside, sizeof outside, "%s/secret.bin", folder);
    for (int i = 0; i < 2; i++) {
        FILE *f = fopen(i ? outside : path, "wb");
        CHECK(f != NULL);
        if (f) {
            fwrite("0123456789abcdef", 1, 16, f);
            fclose(f);
        }
    }
    char inner[400], link[400];
    snprintf(inner, sizeof inner, "%s/inner", folder);
    snprintf(link, sizeof link, "%s/inner/link.bin", folder);
    CHECK(symlink("../secret.bin", link) == 0);
    char pipe[400];
    snprintf(pipe, sizeof pipe, "%s/inner/pipe.bin", folder);
    CHECK(mkfifo(pipe, 0600) == 0);
    onnx_bytes good = external_tensor("w.bin", "4", "8"), long_one = external_tensor("w.bin", "12", "8");
    CHECK(read_sum(&good, inner, &err) == FLX_OK);
    CHECK(read_sum(&good, NULL, &err) == FLX_E_UNSUPPORTED);
    CHECK(read_sum(&long_one, inner, &err) == FLX_E_SYNTAX);
    static const char *const bad[] = {
        "../secret.bin", "/etc/hostname", "a/../../secret.bin", "link.bin", "pipe.bin", "", "none"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        onnx_bytes w = external_tensor(bad[i], "0", "8");
        flx_code code = read_sum(&w, inner, &err);
        CHECK_MSG(code == FLX_E_SYNTAX || code == FLX_E_IO, "'%s' gives %s", bad[i], flx_code_name(code));
    }
}

TEST(onnx_graphs_nested_without_end_are_refused)
{
    onnx_bytes inner = {.n = 0};
    for (int depth = 0; depth < 200 && inner.n < 3500; depth++) {
        onnx_bytes attr = {.n = 0}, node = {.n = 0}, graph = {.n = 0};
        put_text(&attr, 1, "g");
        put_part(&attr, 6, &inner);
        put_text(&node, 4, "If");
        put_part(&node, 5, &attr);
        put_part(&graph, 1, &node);
        inner = graph;
    }
    onnx_bytes m = onnx_model_bytes(&inner, 17);
    flx_context *ctx = flx_context_new(NULL);
    CHECK(decode(ctx, m.at, m.n) == FLX_E_SYNTAX);
    flx_context_free(ctx);
}

/* Function k of the domain `own` calls the one before it twice; function 0 is Neg. */
static onnx_bytes function_bytes(int k)
{
    char name[16], before[16];
    onnx_bytes f = {.n = 0}, opset = {.n = 0}, own = {.n = 0};
    snprintf(name, sizeof name, "f%d", k);
    snprintf(before, sizeof before, "f%d", k - 1);
    put_text(&f, 1, name);
    put_text(&f, 4, "x");
    put_text(&f, 5, "y");
    for (int i = 0; i < (k ? 2 : 1); i++) {
        onnx_bytes n = onnx_node_bytes(k ? before : "Neg", i ? "t" : "x", NULL, k && !i ? "t" : "y");
        if (k)
            put_text(&n, 7, "own");
        put_part(&f, 7, &n);
    }
    put_text(&opset, 1, "");
    put_int(&opset, 2, 17);
    put_text(&own, 1, "own");
    put_int(&own, 2, 1);
    put_part(&f, 9, &opset);
    put_part(&f, 9, &own);
    put_text(&f, 10, "own");
    return f;
}

static flx_code read_functions(int levels, flx_error *err)
{
    char name[16];
    snprintf(name, sizeof name, "f%d", levels);
    onnx_bytes g = {.n = 0}, own = {.n = 0}, call = onnx_node_bytes(name, "x", NULL, "y");
    onnx_bytes x = onnx_info_bytes("x", 1, (int64_t[]){2}, 1), y = onnx_info_bytes("y", 1, (int64_t[]){2}, 1);
    put_text(&call, 7, "own");
    put_part(&g, 1, &call);
    put_part(&g, 11, &x);
    put_part(&g, 12, &y);
    onnx_bytes m = onnx_model_bytes(&g, 17);
    put_text(&own, 1, "own");
    put_int(&own, 2, 1);
    put_part(&m, 8, &own);
    for (int k = 0; k <= levels; k++) {
        onnx_bytes f = function_bytes(k);
        put_part(&m, 25, &f);
    }
    CHECK(m.n < sizeof m.at);
    flx_context *ctx = flx_context_new(NULL);
    flx_onnx *read = flx_onnx_decode(ctx, m.at, m.n, "f", NULL, err);
    flx_code code = read ? FLX_OK : (flx_code)err->code;
    flx_onnx_free(read);
    flx_context_free(ctx);
    return code;
}

TEST(onnx_functions_that_multiply_are_refused_by_their_nodes)
{
    flx_error err = {0};
    CHECK_CODE(read_functions(4, &err), FLX_OK, &err);
    CHECK_CODE(read_functions(20, &err), FLX_E_SIZE, &err);
    CHECK_MSG(strstr(err.message, "too many nodes"), "%s", err.message);
}

/* Branches of branches are written again at each use: 2^25 times here. */
TEST(onnx_bodies_that_multiply_are_not_written)
{
    char text[8000];
    flx_error err = {0};
    flx_buffer out = {0};
    flx_context *ctx = flx_context_new(NULL);
    int n = snprintf(text, sizeof text, "graph f0(x: f32[3]) { return neg(x) }\n");
    for (int k = 1; k <= 25; k++)
        n += snprintf(text + n, sizeof text - (size_t)n,
                      "graph f%d(x: f32[3]) { a = if(gt(reduce_sum(x), 0), x, then=@f%d, else=@f0) "
                      "return if(lt(reduce_sum(a), 1), a, then=@f%d, else=@f0) }\n",
                      k, k - 1, k - 1);
    flx_module *m = flx_parse(ctx, text, (size_t)n, "t", &err);
    CHECK_MADE(m, &err);
    CHECK_CODE(flx_onnx_encode(flx_module_main(m), NULL, 0, &out, &err), FLX_E_SIZE, &err);
    CHECK_MSG(strstr(err.message, "more than 300000 nodes") && !out.data, "%s", err.message);
    flx_module_free(m);
    flx_context_free(ctx);
}

/* An attribute that has lists of two kinds: each has its own length. */
TEST(onnx_attributes_with_two_lists_have_the_one_of_their_kind)
{
    static const int64_t perm[] = {1, 0}, shape[] = {2, 3};
    for (int kind = 7; kind <= 8; kind++) {
        onnx_bytes g = {.n = 0}, node = onnx_node_bytes("Transpose", "x", NULL, "y"), a = {.n = 0};
        onnx_bytes x = onnx_info_bytes("x", 1, shape, 2), y = onnx_info_bytes("y", 1, (int64_t[]){3, 2}, 2);
        put_text(&a, 1, "perm");
        for (int i = 0; i < 2; i++)
            put_int(&a, 8, (uint64_t)perm[i]);
        for (int i = 0; i < 100; i++)
            put_text(&a, 9, "more");
        put_int(&a, 20, (uint64_t)kind);
        put_part(&node, 5, &a);
        put_part(&g, 1, &node);
        put_part(&g, 11, &x);
        put_part(&g, 12, &y);
        onnx_bytes m = onnx_model_bytes(&g, 17);
        flx_context *ctx = flx_context_new(NULL);
        CHECK_EQ_I64(decode(ctx, m.at, m.n), kind == 7 ? FLX_OK : FLX_E_ATTRIBUTE);
        flx_context_free(ctx);
    }
}

/* ---- Meaning ---- */

TEST(onnx_unknown_operations_are_unsupported_and_named)
{
    onnx_bytes g = {.n = 0}, node = onnx_node_bytes("Fancy", "x", NULL, "y");
    onnx_bytes x = onnx_info_bytes("x", 1, (int64_t[]){2}, 1), y = onnx_info_bytes("y", 1, (int64_t[]){2}, 1);
    put_part(&g, 1, &node);
    put_part(&g, 11, &x);
    put_part(&g, 12, &y);
    onnx_bytes m = onnx_model_bytes(&g, 17);
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    CHECK(flx_onnx_decode(ctx, m.at, m.n, "m.onnx", NULL, &err) == NULL);
    CHECK(err.code == FLX_E_UNSUPPORTED);
    CHECK_EQ_STR(err.message, "unsupported: Fancy: there is no operation Fancy here");
    CHECK_EQ_STR(err.where, "m.onnx:6");
    flx_context_free(ctx);
}

/* x [N, 2] W + b: initialisers are parameters, the batch is symbolic, and gradients reach both. */
TEST(onnx_initialisers_are_parameters_with_gradients)
{
    static const float w[] = {1, 2, 3, 4}, b[] = {5, 6}, x[] = {1, 2, 3, 4, 5, 6};
    onnx_bytes g = {.n = 0};
    onnx_bytes nodes[] = {onnx_node_bytes("MatMul", "x", "fc/w", "t"), onnx_node_bytes("Add", "t", "b", "y")};
    onnx_bytes wt = onnx_tensor_bytes("fc/w", 1, (int64_t[]){2, 2}, 2),
               bt = onnx_tensor_bytes("b", 1, (int64_t[]){2}, 1);
    onnx_bytes xi = onnx_info_bytes("x", 1, (int64_t[]){-1, 2}, 2), yi = onnx_info_bytes("y", 1, (int64_t[]){-1, 2}, 2);
    put_bytes(&wt, 9, w, sizeof w);
    put_bytes(&bt, 9, b, sizeof b);
    put_part(&g, 1, &nodes[0]);
    put_part(&g, 1, &nodes[1]);
    put_part(&g, 5, &wt);
    put_part(&g, 5, &bt);
    put_part(&g, 11, &xi);
    put_part(&g, 12, &yi);
    onnx_bytes bytes = onnx_model_bytes(&g, 17);
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_onnx *m = flx_onnx_decode(ctx, bytes.at, bytes.n, NULL, NULL, &err);
    CHECK_MSG(m != NULL, "%s", err.message);
    CHECK(flx_onnx_param_count(m) == 2);
    CHECK_EQ_STR(flx_onnx_param_name(m, 0), "fc_w");
    CHECK(flx_tensor_get(flx_onnx_param_value(m, 0), 3) == 4);
    flx_type type = flx_type_make(FLX_F32, 2, (flx_dim[]){3, 2});
    flx_tensor *xt = flx_tensor_new(ctx, &type, x, NULL), *y[4] = {0};
    flx_feed feeds[] = {{"x", xt}, {"fc_w", flx_onnx_param_value(m, 0)}, {"b", flx_onnx_param_value(m, 1)}};
    CHECK(flx_run(flx_onnx_graph(m), &(flx_run_options){.device = "ref"}, feeds, 3, y, &err) == FLX_OK);
    CHECK(flx_tensor_get(y[0], 0) == 12 && flx_tensor_get(y[0], 5) == 40);
    flx_tensor_release(y[0]);
    y[0] = NULL;
    flx_graph *grad =
        flx_grad(flx_onnx_graph(m), (const char *const[]){"fc_w", "b"}, 2,
                 &(flx_grad_options){.struct_size = sizeof(flx_grad_options), .flags = FLX_GRAD_SEED_INPUT}, &err);
    CHECK_MSG(grad != NULL, "%s", err.message);
    static const float ones[] = {1, 1, 1, 1, 1, 1};
    flx_tensor *seed = flx_tensor_new(ctx, &type, ones, NULL);
    flx_feed with_seed[] = {feeds[0], feeds[1], feeds[2], {"d_output", seed}};
    CHECK(flx_run(grad, &(flx_run_options){.device = "ref"}, with_seed, 4, y, &err) == FLX_OK);
    CHECK(flx_tensor_get(y[0], 0) == 9 && flx_tensor_get(y[0], 2) == 12 && flx_tensor_get(y[1], 1) == 3);
    for (size_t i = 0; i < 2; i++)
        flx_tensor_release(y[i]);
    flx_tensor_release(seed);
    flx_graph_release(grad);
    flx_tensor_release(xt);
    flx_onnx_free(m);
    flx_context_free(ctx);
}

/* sum + x in each step, with the number of steps an input: a loop of the graph, which captures x. */
TEST(onnx_loop_runs_as_often_as_an_input_says)
{
    onnx_bytes body = {.n = 0}, g = {.n = 0}, attr = {.n = 0}, node = {.n = 0};
    onnx_bytes add = onnx_node_bytes("Add", "sum", "x", "next"),
               keep = onnx_node_bytes("Identity", "go", NULL, "go_on");
    onnx_bytes step = onnx_info_bytes("step", 7, NULL, 0), go = onnx_info_bytes("go", 9, NULL, 0);
    onnx_bytes go_on = onnx_info_bytes("go_on", 9, NULL, 0), sum = onnx_info_bytes("sum", 1, (int64_t[]){2}, 1);
    onnx_bytes next = onnx_info_bytes("next", 1, (int64_t[]){2}, 1), y = onnx_info_bytes("y", 1, (int64_t[]){2}, 1);
    onnx_bytes x = onnx_info_bytes("x", 1, (int64_t[]){2}, 1), count = onnx_info_bytes("count", 7, NULL, 0);
    put_part(&body, 1, &add);
    put_part(&body, 1, &keep);
    put_part(&body, 11, &step);
    put_part(&body, 11, &go);
    put_part(&body, 11, &sum);
    put_part(&body, 12, &go_on);
    put_part(&body, 12, &next);
    put_text(&attr, 1, "body");
    put_part(&attr, 6, &body);
    put_int(&attr, 20, 5);
    put_text(&node, 1, "count");
    put_text(&node, 1, "");
    put_text(&node, 1, "x");
    put_text(&node, 2, "y");
    put_text(&node, 4, "Loop");
    put_part(&node, 5, &attr);
    put_part(&g, 1, &node);
    put_part(&g, 11, &count);
    put_part(&g, 11, &x);
    put_part(&g, 12, &y);
    onnx_bytes bytes = onnx_model_bytes(&g, 17);
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_onnx *m = flx_onnx_decode(ctx, bytes.at, bytes.n, NULL, NULL, &err);
    CHECK_MSG(m != NULL, "%s", err.message);
    flx_type scalar = flx_type_make(FLX_I64, 0, NULL), vector = flx_type_make(FLX_F32, 1, &(flx_dim){2});
    flx_tensor *n = flx_tensor_new(ctx, &scalar, &(int64_t){4}, NULL), *out = NULL;
    flx_tensor *v = flx_tensor_new(ctx, &vector, (const float[]){1, -2}, NULL);
    flx_feed feeds[] = {{"count", n}, {"x", v}};
    flx_run_options o = {.device = "ref"};
    CHECK_MSG(flx_run(flx_onnx_graph(m), &o, feeds, 2, &out, &err) == FLX_OK, "%s", err.message);
    CHECK(flx_tensor_get(out, 0) == 5 && flx_tensor_get(out, 1) == -10);
    flx_tensor_release(out);
    flx_tensor_release(v);
    flx_tensor_release(n);
    flx_onnx_free(m);
    flx_context_free(ctx);
}

/* Positions count from the end, and may be far before the beginning; the extent is a number, or symbolic. */
static void check_slice(int64_t from, int64_t to, int64_t extent, int64_t count, double first)
{
    onnx_bytes g = {.n = 0}, node = {.n = 0};
    onnx_bytes a = onnx_tensor_bytes("a", 7, (int64_t[]){1}, 1), b = onnx_tensor_bytes("b", 7, (int64_t[]){1}, 1);
    onnx_bytes x = onnx_info_bytes("x", 1, &extent, 1), y = onnx_info_bytes("y", 1, (int64_t[]){1}, 1);
    put_bytes(&a, 9, &from, 8);
    put_bytes(&b, 9, &to, 8);
    put_text(&node, 1, "x");
    put_text(&node, 1, "a");
    put_text(&node, 1, "b");
    put_text(&node, 2, "y");
    put_text(&node, 4, "Slice");
    put_part(&g, 1, &node);
    put_part(&g, 5, &a);
    put_part(&g, 5, &b);
    put_part(&g, 11, &x);
    put_part(&g, 12, &y);
    onnx_bytes bytes = onnx_model_bytes(&g, 17);
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_onnx *m = flx_onnx_decode(ctx, bytes.at, bytes.n, NULL, NULL, &err);
    CHECK_MSG(m != NULL, "%s", err.message);
    flx_type type = flx_type_make(FLX_F32, 1, &(flx_dim){4});
    flx_tensor *v = flx_tensor_new(ctx, &type, (const float[]){1, 2, 3, 4}, NULL), *out = NULL;
    flx_run_options o = {.device = "ref"};
    CHECK_MSG(flx_run(flx_onnx_graph(m), &o, &(flx_feed){"x", v}, 1, &out, &err) == FLX_OK, "%s", err.message);
    CHECK(flx_tensor_count(out) == count && flx_tensor_get(out, 0) == first);
    flx_tensor_release(out);
    flx_tensor_release(v);
    flx_onnx_free(m);
    flx_context_free(ctx);
}

TEST(onnx_slices_count_from_the_end)
{
    check_slice(-2, -1, 4, 1, 3);
    check_slice(-2, -1, -1, 1, 3);
    check_slice(INT64_MIN, -2, 4, 2, 1);
    check_slice(-1, INT64_MAX, 4, 1, 4);
}

static flx_code read_range(int64_t start, int64_t limit, int64_t step)
{
    static const char *const names[] = {"start", "limit", "step"};
    const int64_t values[] = {start, limit, step};
    onnx_bytes node = {.n = 0}, g = {.n = 0}, y = onnx_info_bytes("y", 7, (int64_t[]){-1}, 1);
    for (int i = 0; i < 3; i++)
        put_text(&node, 1, names[i]);
    put_text(&node, 2, "y");
    put_text(&node, 4, "Range");
    put_part(&g, 1, &node);
    for (int i = 0; i < 3; i++) {
        onnx_bytes t = onnx_tensor_bytes(names[i], 7, NULL, 0);
        put_bytes(&t, 9, &values[i], sizeof values[i]);
        put_part(&g, 5, &t);
    }
    put_part(&g, 12, &y);
    onnx_bytes bytes = onnx_model_bytes(&g, 17);
    flx_context *ctx = flx_context_new(NULL);
    flx_code code = decode(ctx, bytes.at, bytes.n);
    flx_context_free(ctx);
    return code;
}

TEST(onnx_ranges_without_end_are_refused)
{
    CHECK(read_range(0, 10, 3) == FLX_OK && read_range(5, 0, 1) == FLX_OK);
    CHECK(read_range(0, 10, 0) == FLX_E_ATTRIBUTE);
    CHECK(read_range(0, INT64_C(1) << 60, 1) == FLX_E_SIZE);
    CHECK(read_range(INT64_MIN, INT64_MAX, 1) == FLX_E_SIZE);
}

/* Rows of one operation are in order, and their versions do not overlap. */
TEST(onnx_table_has_one_row_for_each_version)
{
    const onnx_operation *row, *last = NULL;
    for (size_t i = 0; (row = flxi_onnx_operation_at(i)) != NULL; i++) {
        bool same_domain = last && strcmp(last->domain, row->domain) == 0;
        CHECK_MSG(!same_domain || strcmp(last->name, row->name) <= 0, "%s is not in order", row->name);
        CHECK(row->since <= row->until && row->min_inputs >= 0 && row->import);
        for (size_t k = 0; k < i; k++) {
            const onnx_operation *other = flxi_onnx_operation_at(k);
            bool same = strcmp(other->name, row->name) == 0 && strcmp(other->domain, row->domain) == 0;
            CHECK_MSG(!same || other->until < row->since, "%s has two rows for a version", row->name);
        }
        last = row;
    }
}

/* ---- Mistakes of models and of the caller ---- */

/* The code of reading a model with these nodes, an input x: f32[4], the constants a: i64[2] and b: i64[2], and the
   output y. */
static flx_code read_nodes_in(flx_context *ctx, const onnx_bytes *nodes, size_t n, const int64_t b[2],
                              const flx_onnx_options *o, flx_error *err)
{
    onnx_bytes g = {.n = 0}, x = onnx_info_bytes("x", 1, (int64_t[]){4}, 1), y = onnx_info_bytes("y", 1, NULL, 0);
    const int64_t values[2][2] = {{2, 8}, {b[0], b[1]}};
    for (size_t i = 0; i < n; i++)
        put_part(&g, 1, &nodes[i]);
    for (int i = 0; i < 2; i++) {
        onnx_bytes t = onnx_tensor_bytes(i ? "b" : "a", 7, (int64_t[]){2}, 1);
        put_bytes(&t, 9, values[i], sizeof values[i]);
        put_part(&g, 5, &t);
    }
    put_part(&g, 11, &x);
    put_part(&g, 12, &y);
    onnx_bytes bytes = onnx_model_bytes(&g, 17);
    flx_onnx *m = flx_onnx_decode(ctx, bytes.at, bytes.n, "f", o, err);
    flx_code code = m ? FLX_OK : (flx_code)err->code;
    flx_onnx_free(m);
    return code;
}

static flx_code read_nodes(const onnx_bytes *nodes, size_t n, const int64_t b[2], flx_error *err)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_code code = read_nodes_in(ctx, nodes, n, b, NULL, err);
    flx_context_free(ctx);
    return code;
}

TEST(onnx_names_that_are_defined_twice_are_refused)
{
    flx_error err = {0};
    static const char *const names[][2] = {{"t", "t"}, {"x", "u"}, {"a", "u"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const onnx_bytes nodes[] = {onnx_node_bytes("Abs", "x", NULL, names[i][0]),
                                    onnx_node_bytes("Neg", "x", NULL, names[i][1]),
                                    onnx_node_bytes("Exp", "x", NULL, "y")};
        CHECK(read_nodes(nodes, 3, (int64_t[]){1, 1}, &err) == FLX_E_DUP_NAME);
        CHECK_MSG(strstr(err.message, "is defined twice") && strncmp(err.where, "f:", 2) == 0, "%s", err.message);
    }
}

TEST(onnx_shape_arithmetic_that_divides_by_zero_is_refused)
{
    flx_error err = {0};
    const onnx_bytes nodes[] = {onnx_node_bytes("Div", "a", "b", "t"), onnx_node_bytes("Reshape", "x", "t", "y")};
    CHECK(read_nodes(nodes, 2, (int64_t[]){1, 4}, &err) == FLX_OK);
    CHECK(read_nodes(nodes, 2, (int64_t[]){2, 0}, &err) == FLX_E_NUMERIC);
    CHECK_MSG(strstr(err.message, "divided by zero"), "%s", err.message);
    const onnx_bytes shapes[] = {onnx_node_bytes("Shape", "x", NULL, "s"), onnx_node_bytes("Div", "s", "b", "t"),
                                 onnx_node_bytes("Reshape", "x", "t", "y")};
    CHECK(read_nodes(shapes, 3, (int64_t[]){1, 0}, &err) == FLX_E_NUMERIC);
}

TEST(onnx_positions_without_end_are_refused)
{
    flx_error err = {0};
    const onnx_bytes nodes[] = {onnx_node_bytes("ConstantOfShape", "b", NULL, "t"),
                                onnx_node_bytes("Cos", "t", NULL, "u"), onnx_node_bytes("NonZero", "u", NULL, "y")};
    CHECK(read_nodes(nodes, 3, (int64_t[]){3, 2}, &err) == FLX_OK);
    CHECK(read_nodes(nodes, 3, (int64_t[]){1, (1 << 23) + 1}, &err) == FLX_E_SIZE);
    CHECK_MSG(strstr(err.message, "positions"), "%s", err.message);
}

TEST(onnx_fixed_inputs_are_checked)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    const onnx_bytes node = onnx_node_bytes("Abs", "x", NULL, "y");
    static const struct {
        const char *name;
        flx_dtype dtype;
        int64_t extent;
        flx_code code;
        const char *text;
    } rows[] = {{"x", FLX_F32, 4, FLX_OK, ""},
                {"z", FLX_F32, 4, FLX_E_NAME, "no input 'z'"},
                {"a", FLX_I64, 2, FLX_E_NAME, "no input 'a'"},
                {"x", FLX_I64, 4, FLX_E_DTYPE, "'x' is declared f32, but the fixed value is i64[4]"},
                {"x", FLX_F32, 3, FLX_E_SHAPE, "'x' has another shape than the fixed value, f32[3]"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        flx_type type = flx_type_make(rows[i].dtype, 1, &rows[i].extent);
        flx_tensor *value = flx_tensor_new(ctx, &type, NULL, NULL);
        const flx_feed fixed = {rows[i].name, value};
        const flx_onnx_options o = {.struct_size = sizeof o, .inputs = &fixed, .num_inputs = 1};
        err = (flx_error){0};
        CHECK_MSG(read_nodes_in(ctx, &node, 1, (int64_t[]){1, 1}, &o, &err) == rows[i].code, "%zu: %s", i, err.message);
        CHECK_MSG(strstr(err.message, rows[i].text), "%s", err.message);
        flx_tensor_release(value);
    }
    flx_context_free(ctx);
}
