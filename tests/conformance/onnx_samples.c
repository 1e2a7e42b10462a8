/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_samples.c: flx_onnx_samples DIR: writes every sample of the op table as an ONNX model, if it can be written,
   with values of its inputs and the results of the evaluator: DIR/N/model.onnx, in_K.npy, out_K.npy. A line for
   each case goes to standard output: N, op, sample, and `written` or the reason, with tabs between them.
   tests/oracle/onnx_samples.py runs them with other readers. */
#include "ops/sample.h"
#include "test.h"

#include <fluxion/onnx.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static const char *out_folder;
static int count;

uint64_t test_seed(void)
{
    return 1;
}

const char *test_case_wanted(void)
{
    return NULL;
}

void test_fail_context(const char *fmt, ...)
{
    (void)fmt;
}

static void check(const flx_error *err)
{
    if (err->code == FLX_OK)
        return;
    fprintf(stderr, "onnx_samples: %s\n", err->message);
    exit(1);
}

static void write_bytes(const char *path, const flx_buffer *bytes)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(bytes->data, 1, bytes->size, f) != bytes->size || fclose(f) != 0) {
        perror(path);
        exit(1);
    }
}

static void write_tensor(const char *kind, size_t k, const flx_tensor *t)
{
    char path[600];
    flx_error err = {0};
    snprintf(path, sizeof path, "%s/%d/%s_%zu.npy", out_folder, count, kind, k);
    flx_npy_write(t, path, &err);
    check(&err);
}

/* Values of inputs, and results; false where the sample does not run with these values. */
static bool write_values(const sample_case *c, const flx_graph *g)
{
    flx_feed feeds[SAMPLE_MAX_OPERANDS];
    flx_tensor *out[SAMPLE_MAX_OPERANDS] = {0};
    flx_error err = {0};
    uint64_t state = sample_seed(c);
    size_t n = flx_graph_input_count(g);
    for (size_t i = 0; i < n; i++) {
        flx_val v = flx_graph_input(g, i);
        flx_tensor *t = sample_value(flx_graph_context(g), c, i, flx_val_type(g, v), FILL_RANDOM, &state, &err);
        check(&err);
        write_tensor("in", i, t);
        feeds[i] = (flx_feed){flx_val_name(g, v), t};
    }
    bool ok = flx_run(g, &(flx_run_options){.device = "ref"}, feeds, n, out, &err) == FLX_OK;
    for (size_t i = 0; ok && i < flx_graph_output_count(g); i++) {
        write_tensor("out", i, out[i]);
        flx_tensor_release(out[i]);
    }
    for (size_t i = 0; i < n; i++)
        flx_tensor_release((flx_tensor *)(uintptr_t)feeds[i].value);
    return ok;
}

static void write_case(const sample_case *c)
{
    if (c->sample->error)
        return;
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    char path[600];
    flx_module *m = sample_parse(ctx, c, &err);
    if (!m)
        check(&err);
    err = (flx_error){0}; /* the first of two attempts may have failed */
    const flx_graph *g = flx_module_main(m);
    flx_buffer bytes = {0};
    count++;
    if (flx_graph_symbol(g, 0) || flx_onnx_encode(g, NULL, 0, &bytes, &err) != FLX_OK) {
        printf("%d\t%s\t%s\t%s\n", count, flxi_ops[c->op].name, sample_describe(c),
               err.code ? err.message : "symbolic");
    } else {
        snprintf(path, sizeof path, "%s/%d", out_folder, count);
        mkdir(path, 0777);
        snprintf(path, sizeof path, "%s/%d/model.onnx", out_folder, count);
        write_bytes(path, &bytes);
        printf("%d\t%s\t%s\t%s\n", count, flxi_ops[c->op].name, sample_describe(c),
               write_values(c, g) ? "written" : "does not run");
    }
    flx_buffer_free(&bytes);
    flx_module_free(m);
    flx_context_free(ctx);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: flx_onnx_samples DIR\n");
        return 2;
    }
    out_folder = argv[1];
    mkdir(out_folder, 0777);
    sample_each(write_case);
    return 0;
}
