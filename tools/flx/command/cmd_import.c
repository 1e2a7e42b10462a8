/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_import.c: `flx import`: a program of another language as a graph file, its weights beside it. */
#include "command/derive.h"
#include "commands.h"
#include "io/json_writer.h"
#include "io/output.h"
#include "report.h"

#include <fluxion/tensor.h>
#include <fluxion/train.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t default_inline_bytes = 1024;

/* The constants that have left the graph. */
typedef struct {
    int64_t inline_bytes; /* smaller ones and those of this size stay */
    char **names;
    flx_tensor **values;
    size_t count, room;
    size_t bytes;
    bool failed;
} weights;

static bool make_room(weights *w)
{
    if (w->count < w->room)
        return true;
    size_t room = w->room ? 2 * w->room : 16;
    char **names = realloc(w->names, room * sizeof *names);
    w->names = names ? names : w->names;
    flx_tensor **values = realloc(w->values, room * sizeof(flx_tensor *));
    w->values = values ? values : w->values;
    if (!names || !values)
        return false;
    w->room = room;
    return true;
}

static bool add(weights *w, const char *name, flx_tensor *value)
{
    char *copy = strdup(name);
    if (!copy || !make_room(w)) {
        free(copy);
        w->failed = true;
        return false;
    }
    w->names[w->count] = copy;
    w->values[w->count++] = flx_tensor_retain(value);
    w->bytes += flx_tensor_nbytes(value);
    return true;
}

/* A flx_constant_fn. What a .safetensors file cannot hold stays in the graph. */
static int take_large(void *user, const char *name, flx_tensor *value)
{
    weights *w = user;
    if (w->failed || flx_tensor_nbytes(value) <= (size_t)w->inline_bytes || flx_tensor_type(value)->dtype == FLX_C128)
        return 0;
    return add(w, name, value);
}

/* The parameters of an ONNX model. */
static int take_params(const model *m, weights *w)
{
    for (size_t i = 0; i < flx_onnx_param_count(m->onnx); i++)
        if (!add(w, flx_onnx_param_name(m->onnx, i), flx_onnx_param_value(m->onnx, i)))
            return fail_memory();
    return STATUS_OK;
}

static void release(weights *w)
{
    for (size_t i = 0; i < w->count; i++) {
        free(w->names[i]);
        flx_tensor_release(w->values[i]);
    }
    free(w->names);
    free(w->values);
}

static int write_weights(const weights *w, const char *path, bool as_json)
{
    flx_error err = {0};
    if (flx_safetensors_write(path, (const char *const *)w->names, (const flx_tensor *const *)w->values, w->count,
                              &err))
        return output_failed(path, &err);
    if (as_json) {
        json j = {0};
        json_object_begin(&j, NULL);
        json_text(&j, "file", path);
        json_integer(&j, "tensors", (int64_t)w->count);
        json_integer(&j, "bytes", (int64_t)w->bytes);
        json_object_end(&j);
    }
    return STATUS_OK;
}

/* The weights first: a graph is never written without them. */
static int write_apart(const model *m, const args *a, const char *out, weights *w)
{
    flx_error err = {0};
    flx_graph *g = flx_constants_to_params(m->graph, take_large, w, &err);
    if (w->failed || !g) {
        flx_graph_release(g);
        return w->failed ? fail_memory() : report(&err, m->name);
    }
    char *beside = weights_path(out);
    int status = beside ? STATUS_OK : fail_memory();
    if (!status && w->count)
        status = write_weights(w, beside, args_has(a, "--json"));
    if (!status)
        status = derive_write(g, a);
    free(beside);
    flx_graph_release(g);
    return status;
}

static int read_inline(const args *a, int64_t *out)
{
    const char *text = args_value(a, "--inline");
    *out = default_inline_bytes;
    if (text && (!read_i64(text, out) || *out < 0))
        return fail(FLX_E_USAGE, "--inline must be a number of bytes, got '%s'", text);
    return STATUS_OK;
}

/* ---- Inputs that become parameters ---- */

/* The first --param that is about the input; NULL: it stays one. */
static const char *find_param(const args *a, const char *input)
{
    const char *given;
    size_t at = 0;
    while ((given = args_next(a, "--param", &at))) {
        const char *equals = strchr(given, '=');
        if (flx_name_matches(equals ? equals + 1 : given, input))
            break;
    }
    return given;
}

/* Input i of `from` in g. */
static flx_val declare(flx_graph *g, const flx_graph *from, size_t i, const args *a)
{
    char name[256];
    flx_val v = flx_graph_input(from, i);
    const flx_type *type = flx_val_type(from, v);
    if (flx_graph_input_is_param(from, i))
        return flx_set_init(g, flx_param(g, flx_val_name(from, v), type), flx_graph_input_init(from, i));
    const char *given = find_param(a, flx_val_name(from, v)), *equals = given ? strchr(given, '=') : NULL;
    if (equals)
        snprintf(name, sizeof name, "%.*s", (int)(equals - given), given);
    return given ? flx_param(g, equals ? name : flx_val_name(from, v), type)
                 : flx_input(g, flx_val_name(from, v), type);
}

/* An option that gives a name must be the one that is used; patterns may say the same again. */
static int check_matches(const args *a, const flx_graph *g)
{
    const char *given;
    size_t at = 0;
    while ((given = args_next(a, "--param", &at))) {
        const char *equals = strchr(given, '='), *pattern = equals ? equals + 1 : given, *used = NULL;
        for (size_t i = 0; i < flx_graph_input_count(g) && used != given; i++) {
            const char *input = flx_val_name(g, flx_graph_input(g, i));
            if (!flx_graph_input_is_param(g, i) && flx_name_matches(pattern, input))
                used = find_param(a, input);
        }
        if (!used)
            return fail(FLX_E_NAME, "--param %s: the graph has no such input", given);
        if (equals && used != given)
            return fail(FLX_E_USAGE, "--param %s has no effect: --param %s is about that input", given, used);
    }
    return STATUS_OK;
}

/* The graph with these inputs as parameters, in m->graph and *made. */
static int make_params(model *m, const args *a, flx_graph **made)
{
    const flx_graph *from = m->graph;
    flx_error err = {0};
    size_t n = flx_graph_input_count(from), outputs = flx_graph_output_count(from), at = 0;
    int status = check_matches(a, from);
    if (status || !args_next(a, "--param", &at))
        return status;
    flx_val *values = calloc(n + outputs + 1, sizeof *values);
    flx_graph *g = *made = flx_graph_new(m->ctx, flx_graph_name(from));
    if (!values || !g) {
        free(values);
        return fail_memory();
    }
    for (size_t i = 0; i < n; i++)
        values[i] = declare(g, from, i, a);
    flx_inline(g, from, values, n, values + n, outputs);
    for (size_t i = 0; i < outputs; i++)
        flx_output(g, values[n + i], flx_graph_output_name(from, i));
    free(values);
    m->graph = g;
    return flx_graph_error(g, &err) == FLX_OK ? STATUS_OK : report(&err, m->name);
}

static int run_import(const args *a)
{
    weights w = {0};
    flx_graph *made = NULL;
    const char *out = args_value(a, "-o");
    int status = derive_check_output(a);
    if (!status)
        status = read_inline(a, &w.inline_bytes);
    if (status)
        return status;
    model m;
    status = model_open_fixed(&m, a);
    if (!status)
        status = take_params(&m, &w);
    if (!status)
        status = make_params(&m, a, &made);
    if (!status)
        status = out && strcmp(out, "-") != 0 ? write_apart(&m, a, out, &w) : derive_write(m.graph, a);
    release(&w);
    flx_graph_release(made);
    model_close(&m);
    return status;
}

static const option options[] = {
    {"--inline", "BYTES", "with -o, constants of more bytes go to the file of weights; 1024 unless\ngiven",
     MAY_BE_GIVEN},
    {"--param", "[NAME=]INPUT", "an input that becomes a parameter, called NAME; a pattern without NAME:\n'arg*'",
     MAY_REPEAT},
    {"--names", NULL,
     "inputs of StableHLO are called as in the program that it was made from, where\nlocations say so: params.w for "
     "loc(\"params['w']\")",
     MAY_BE_GIVEN},
    OPTION_FIX,
    OPTION_OUTPUT,
    OPTION_JSON,
    {0},
};

static const char *const examples[] = {
    "flx import examples/logistic.mlir",
    "flx import examples/logistic.mlir -o logistic.flx --inline 8 --json",
    "flx run logistic.flx --in arg0=iota --in arg1=-1 --device ref",
    "flx import examples/logistic.mlir --param w=arg0 | head -n 1",
    "flx run examples/logistic.mlir --in arg0=iota --in arg1=-1 --device ref",
    NULL,
};

const command command_import = {
    .name = "import",
    .operand = "FILE",
    .summary = "a StableHLO program or an ONNX model as a graph file",
    .about =
        "Writes the program of FILE, StableHLO text (.mlir) or an ONNX model (.onnx), as a graph. Of StableHLO\n"
        "the entry is @main; arguments are the inputs arg0, arg1 ..., results the outputs out0, out1 ... Of ONNX\n"
        "names stay what they are, and floating initialisers with an axis become parameters. Other commands\n"
        "read these files as well, so nothing needs to be imported to be run or differentiated.\n"
        "\n"
        "With -o OUT.flx large constants become parameters weight0, weight1 ..., whose values go to\n"
        "OUT.safetensors beside it, with those of the parameters of an ONNX model; flx run finds them there. On\n"
        "standard output constants stay in the text. Functions of StableHLO have no parameters: --param says which\n"
        "inputs are trained, and --names calls them as the locations in the file do.",
    .options = options,
    .examples = examples,
    .run = run_import,
};
