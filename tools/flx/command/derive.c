/* SPDX-License-Identifier: Apache-2.0 */
/* derive.c: from a file to the graph made of its main graph. */
#include "command/derive.h"

#include "io/json_writer.h"
#include "io/output.h"
#include "io/param_values.h"
#include "report.h"
#include "suggest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Options ---- */

int list_read(text_list *list, const char *option_name, const char *text, const char *form)
{
    size_t commas = 0;
    for (const char *s = text; *s; s++)
        commas += *s == ',';
    *list = (text_list){.text = strdup(text), .items = calloc(commas + 1, sizeof *list->items)};
    if (!list->text || !list->items)
        return fail_memory();
    char *item = list->text;
    for (size_t i = 0; i <= commas; i++) {
        char *end = item + strcspn(item, ",");
        *end = 0;
        if (!*item)
            return fail(FLX_E_USAGE, "%s must have the form %s, got '%s'", option_name, form, text);
        list->items[list->count++] = item;
        item = end + 1;
    }
    return STATUS_OK;
}

void list_free(text_list *list)
{
    free(list->text);
    free(list->items);
    *list = (text_list){0};
}

int list_check_unique(const text_list *list, const char *option_name)
{
    for (size_t i = 0; i < list->count; i++)
        for (size_t k = 0; k < i; k++)
            if (strcmp(list->items[i], list->items[k]) == 0)
                return fail(FLX_E_USAGE, "%s names '%s' twice", option_name, list->items[i]);
    return STATUS_OK;
}

int wrt_read(text_list *wrt, const args *a)
{
    const char *text = args_value(a, "--wrt");
    *wrt = (text_list){0};
    if (!text) {
        int status = fail(FLX_E_USAGE, "flx %s needs --wrt NAMES", a->command->name);
        hint("the inputs or parameters to differentiate with respect to, as in --wrt a,b; flx check FILE lists them");
        return status;
    }
    int status = list_read(wrt, "--wrt", text, "A,B,...");
    return status ? status : list_check_unique(wrt, "--wrt");
}

int choice_read(const args *a, const char *option_name, const char *const *words)
{
    const char *text = args_value(a, option_name);
    if (!text)
        return 0;
    for (int i = 0; words[i]; i++)
        if (strcmp(words[i], text) == 0)
            return i;
    fail(FLX_E_USAGE, "'%s' is not a valid value of %s", text, option_name);
    hint_list_begin("%s takes", option_name);
    for (int i = 0; words[i]; i++)
        list_item(words[i]);
    hint_list_end();
    return -1;
}

/* Whether the output is called like a derivative with respect to an input, or along one. */
static bool is_derivative(const flx_graph *g, size_t i)
{
    static const char tangent[] = "tangent_";
    const char *name = flx_graph_output_name(g, i);
    if (strncmp(name, tangent, sizeof tangent - 1) == 0)
        return true;
    for (size_t k = 0; strncmp(name, "d_", 2) == 0 && k < flx_graph_input_count(g); k++)
        if (strcmp(name + 2, flx_val_name(g, flx_graph_input(g, k))) == 0)
            return true;
    return false;
}

static flx_code unknown_output(const flx_graph *g, const char *name, flx_error *err)
{
    *err = (flx_error){.code = FLX_E_NAME};
    snprintf(err->message, sizeof err->message, "graph '%.60s' has no output '%.60s'", flx_graph_name(g), name);
    suggestion near = suggest_begin(name);
    for (size_t i = 0; i < flx_graph_output_count(g); i++)
        suggest_consider(&near, flx_graph_output_name(g, i));
    if (near.best)
        snprintf(err->hint, sizeof err->hint, "did you mean '%.60s'?", near.best);
    else
        snprintf(err->hint, sizeof err->hint, "flx check lists its outputs");
    return FLX_E_NAME;
}

flx_code loss_find(const flx_graph *g, const char *name, flx_val *out, flx_error *err)
{
    size_t n = flx_graph_output_count(g), i = 0;
    while (name && i < n && strcmp(flx_graph_output_name(g, i), name) != 0)
        i++;
    if (name && i == n)
        return unknown_output(g, name, err);
    *out = flx_graph_output(g, i);
    for (size_t k = 1; !name && n && !is_derivative(g, 0) && k < n; k++)
        if (is_derivative(g, k)) {
            const char *other = flx_graph_output_name(g, k);
            note("differentiates '%s', the first output; --output %s differentiates '%s'", flx_graph_output_name(g, 0),
                 other, other);
            break;
        }
    return FLX_OK;
}

int limits_read(const args *a, flx_jacobian_options *options)
{
    const char *chunk = args_value(a, "--chunk");
    const char *budget = args_value(a, "--budget");
    if (chunk && (!read_i64(chunk, &options->chunk) || options->chunk < 1))
        return fail(FLX_E_USAGE, "--chunk must be a positive integer, got '%s'", chunk);
    if (budget && !read_amount(budget, &options->budget)) {
        int status = fail(FLX_E_USAGE, "--budget must be a number of bytes, got '%s'", budget);
        hint("write a positive integer, as in 4096, 512K, 64M or 2G");
        return status;
    }
    return STATUS_OK;
}

/* ---- Writing ---- */

int derive_check_output(const args *a)
{
    static const struct {
        const char *extension, *command; /* NULL: none */
    } others[] = {{".onnx", "export"}, {".mlir", "export"}, {".mlirbc", "export"}, {".c", "build"},
                  {".so", "build"},    {".a", "build"},     {".o", "build"},       {".gguf", NULL},
                  {".npy", NULL},      {".npz", NULL},      {".safetensors", NULL}};
    const char *path = args_value(a, "-o");
    const char *extension = path ? output_extension(path) : NULL;
    for (size_t i = 0; extension && i < sizeof others / sizeof *others; i++) {
        if (strcmp(extension, others[i].extension) != 0)
            continue;
        int status = fail(FLX_E_USAGE, "%s: flx %s writes graph files, not %s", path, a->command->name, extension);
        if (others[i].command)
            hint("flx %s writes it: flx %s ... | flx %s - -o %s", others[i].command, a->command->name,
                 others[i].command, path);
        else
            hint("OUT.flx is text, OUT.flxb binary");
        return status;
    }
    return STATUS_OK;
}

static bool is_binary_name(const char *path)
{
    const char *extension = output_extension(path);
    return extension && strcmp(extension, ".flxb") == 0;
}

static int write_file(const flx_graph *g, const char *path)
{
    flx_buffer bytes = {0};
    flx_error err = {0};
    if (is_binary_name(path) ? flx_graph_encode(g, &bytes, &err) : flx_graph_print(g, &bytes, &err))
        return report(&err, NULL);
    int status = output_write(path, &bytes);
    flx_buffer_free(&bytes);
    return status;
}

/* With `file`, the text is there, otherwise in the object. */
static void print_json(const flx_graph *g, const char *file, const char *text)
{
    json j = {0};
    json_object_begin(&j, NULL);
    json_text(&j, "graph", flx_graph_name(g));
    if (file)
        json_text(&j, "file", file);
    else
        json_text(&j, "text", text);
    json_object_end(&j);
}

int derive_write(const flx_graph *g, const args *a)
{
    const char *path = args_value(a, "-o");
    bool as_json = args_has(a, "--json");
    if (path && strcmp(path, "-") != 0) {
        int status = write_file(g, path);
        if (!status && as_json)
            print_json(g, path, NULL);
        return status;
    }
    flx_buffer text = {0};
    flx_error err = {0};
    if (flx_graph_print(g, &text, &err))
        return report(&err, NULL);
    if (as_json)
        print_json(g, NULL, text.data);
    else
        fwrite(text.data, 1, text.size, stdout);
    flx_buffer_free(&text);
    return STATUS_OK;
}

/* ---- The frame ---- */

/* The graph, and beside it the values that the model has for its parameters: first these, since a graph is never
   written without them. */
static int write_with_values(const model *m, const flx_graph *g, const args *a)
{
    const char *path = args_value(a, "-o");
    param_values p = {0};
    int status = STATUS_OK;
    if (path && strcmp(path, "-") != 0 && !(status = param_values_read(&p, m, g)))
        status = param_values_write(&p, path);
    param_values_free(&p);
    return status ? status : derive_write(g, a);
}

int derive_run(const args *a, derive_fn make, const void *request)
{
    model m;
    int status = derive_check_output(a);
    if (status)
        return status;
    status = model_open_chosen(&m, a);
    if (!status) {
        flx_error err = {0};
        flx_graph *g = make(&m, request, &err);
        status = g ? write_with_values(&m, g, a) : report_transform(&err);
        flx_graph_release(g);
    }
    model_close(&m);
    return status;
}
