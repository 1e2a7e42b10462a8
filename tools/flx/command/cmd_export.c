/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_export.c: `flx export`: a graph as a program of another language. */
#include "commands.h"
#include "io/inputs.h"
#include "io/json_writer.h"
#include "io/output.h"
#include "io/param_values.h"
#include "report.h"

#include <fluxion/stablehlo.h>
#include <stdio.h>
#include <string.h>

/* To a file, or to standard output where none is named. */
static int write_text(const flx_graph *g, const flx_buffer *text, const char *path, bool as_json)
{
    bool to_file = path && strcmp(path, "-") != 0;
    int status = to_file ? output_write(path, text) : STATUS_OK;
    if (status)
        return status;
    if (as_json) {
        json j = {0};
        json_object_begin(&j, NULL);
        json_text(&j, "graph", flx_graph_name(g));
        json_text(&j, to_file ? "file" : "text", to_file ? path : text->data);
        json_object_end(&j);
    } else if (!to_file) {
        fwrite(text->data, 1, text->size, stdout);
    }
    return STATUS_OK;
}

static bool is_onnx(const char *path)
{
    size_t n = path ? strlen(path) : 0;
    return n >= 5 && strcmp(path + n - 5, ".onnx") == 0;
}

static bool is_bytecode(const char *path)
{
    const char *extension = path ? output_extension(path) : NULL;
    return extension && strcmp(extension, ".mlirbc") == 0;
}

/* The parameters for which there is a value become initialisers. */
static int encode_onnx(const model *m, const flx_graph *g, flx_buffer *out)
{
    param_values p;
    flx_error err = {0};
    int status = param_values_read(&p, m, g);
    if (!status && flx_onnx_encode(g, p.feeds, p.count, out, &err) != FLX_OK)
        status = report(&err, m->name);
    if (!status && p.missing)
        note("parameters without a value became inputs of the ONNX model: %zu of %zu; %s does not have them", p.missing,
             p.missing + p.count, m->onnx ? m->name : p.from);
    param_values_free(&p);
    return status;
}

/* The values of parameters go to a file of weights beside the text. */
static int write_weights(const model *m, const flx_graph *g, const char *path)
{
    param_values p;
    int status = param_values_read(&p, m, g);
    if (!status)
        status = param_values_write(&p, path);
    param_values_free(&p);
    return status;
}

/* StableHLO, as text or as the name of the file asks for. */
static flx_code encode_program(const flx_graph *g, const char *path, flx_buffer *out, flx_error *err)
{
    return is_bytecode(path) ? flx_export_stablehlo_bytecode(g, out, err) : flx_export_stablehlo(g, out, err);
}

/* The main graph with the extents of --set. */
static int export_model(const model *m, const args *a, const char *path)
{
    inputs in = {0};
    flx_error err = {0};
    flx_buffer text = {0};
    flx_graph *g = NULL;
    int status = inputs_read_dims(&in, m, a);
    if (!status) {
        g = flx_specialise(m->graph, in.dims, in.num_dims, &err);
        bool to_file = path && strcmp(path, "-") != 0;
        if (!g || (!is_onnx(path) && encode_program(g, path, &text, &err) != FLX_OK))
            status = report(&err, m->name);
        else if (is_onnx(path))
            status = encode_onnx(m, g, &text);
        else if (to_file)
            status = write_weights(m, g, path);
        if (!status)
            status = write_text(g, &text, path, args_has(a, "--json"));
    }
    flx_buffer_free(&text);
    flx_graph_release(g);
    inputs_free(&in);
    return status;
}

static int check_kind(const char *path)
{
    const char *extension = path ? output_extension(path) : NULL;
    if (!extension || strcmp(extension, ".onnx") == 0 || strcmp(extension, ".mlir") == 0 || is_bytecode(path))
        return STATUS_OK;
    int status = fail(FLX_E_USAGE, "%s: there is no such kind of file", path);
    hint("OUT.mlir is StableHLO text, OUT.mlirbc its portable bytecode, OUT.onnx an ONNX model");
    return status;
}

static int run_export(const args *a)
{
    const char *named = args_value(a, "-o");
    model m;
    if (named && a->second)
        return fail(FLX_E_USAGE, "both -o %s and %s say where the program goes", named, a->second);
    int status = check_kind(named ? named : a->second);
    if (status)
        return status;
    status = model_open_chosen(&m, a);
    if (!status)
        status = export_model(&m, a, named ? named : a->second);
    model_close(&m);
    return status;
}

static const option options[] = {
    OPTION_GRAPH, {"-o", "OUT", "the same as OUT after FILE; - (the default) is standard output", MAY_BE_GIVEN},
    OPTION_SET,   OPTION_JSON,
    {0},
};

static const char *const examples[] = {
    "flx export examples/logistic.flx --set N=2 logistic.mlir",
    "echo 'graph f(x: f32[2, 3]) { return relu(x) }' | flx export -",
    "flx grad examples/mlp.flx --wrt w1,b1 | flx export - -o gradient.mlir --set N=4",
    NULL,
};

const command command_export = {
    .name = "export",
    .operand = "FILE [OUT]",
    .summary = "a graph as a StableHLO program or an ONNX model",
    .about = "Writes the main graph as an ONNX model where OUT ends in .onnx, with the parameters that m.safetensors\n"
             "beside m.flx (or weights.safetensors beside the model.flx of a training folder) has as initialisers,\n"
             "as a portable artifact of StableHLO where it ends in .mlirbc, and else as StableHLO text (.mlir):\n"
             "@main takes the inputs and parameters in order of declaration and returns the outputs. In StableHLO\n"
             "extents must be numbers: --set gives those of symbolic dimensions. ONNX keeps symbolic dimensions.\n"
             "An op without a counterpart is written as what it means in terms of others; the few for which that\n"
             "is not known are named when one is met.",
    .options = options,
    .examples = examples,
    .run = run_export,
};
