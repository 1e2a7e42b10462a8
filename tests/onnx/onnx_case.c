/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_case.c: see onnx_case.h. */
#include "onnx/onnx_case.h"

#include "base/context.h"
#include "format/file.h"
#include "graph/type/type.h"
#include "onnx/syntax/onnx_elements.h"

#include <fluxion/onnx.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_VALUES = 256 };

typedef struct {
    char names[MAX_VALUES][120];
    flx_tensor *values[MAX_VALUES];
    bool is_item[MAX_VALUES]; /* of a sequence: it exists only as a constant */
    size_t n;
} tensor_list;

typedef struct {
    flx_context *ctx;
    const char *folder, *device;
    flxi_file_bytes bytes;
    onnx_model model; /* for the types of inputs and outputs */
    tensor_list inputs, outputs;
    double rtol, atol;
    bool is_unsupported; /* a value has an element type that is not known here */
    char *reason;
    size_t reason_size;
} test_case;

const char *onnx_case_name(onnx_case_result r)
{
    static const char *const names[] = {"pass", "fixed", "unsupported", "refused", "wrong"};
    return names[r];
}

static void say(test_case *c, const char *text)
{
    snprintf(c->reason, c->reason_size, "%s", text);
}

/* ---- Reading ---- */

static bool add_tensor(test_case *c, tensor_list *l, const char *name, const onnx_tensor *t)
{
    flx_error err = {0};
    if (l->n == MAX_VALUES)
        return false;
    snprintf(l->names[l->n], sizeof l->names[0], "%s", name);
    l->values[l->n] = flxi_onnx_tensor(c->ctx, t, &(onnx_origin){NULL, name}, &err);
    if (!l->values[l->n]) {
        say(c, err.message);
        c->is_unsupported = err.code == FLX_E_UNSUPPORTED;
        return false;
    }
    l->n++;
    return true;
}

/* A tensor; the items of a sequence are NAME_0, NAME_1 …; an optional has one or none. */
static bool add_datum(test_case *c, tensor_list *l, const char *name, const onnx_datum *d)
{
    if (d->kind == ONNX_T_TENSOR)
        return add_tensor(c, l, name, &d->tensor);
    for (size_t i = 0; i < d->n; i++) {
        char item[120];
        snprintf(item, sizeof item, d->kind == ONNX_T_OPTIONAL ? "%.90s" : "%.90s_%zu", name, i);
        size_t first = l->n;
        if (!add_datum(c, l, item, &d->items[i]))
            return false;
        for (; first < l->n; first++)
            l->is_item[first] |= d->kind == ONNX_T_SEQUENCE;
    }
    return true;
}

static bool read_values(test_case *c, const char *what, const onnx_value_info *infos, size_t n, tensor_list *out)
{
    for (size_t i = 0; i < n; i++) {
        char path[600];
        flxi_file_bytes bytes;
        onnx_datum datum;
        flx_error err = {0};
        snprintf(path, sizeof path, "%s/test_data_set_0/%s_%zu.pb", c->folder, what, i);
        if (flxi_file_read(&bytes, &c->ctx->mem, path, 0, NULL) != FLX_OK)
            continue; /* initialisers that are listed as inputs have none */
        bool ok = flxi_onnx_parse_datum(&c->model.arena, bytes.bytes, bytes.size, path, &infos[i].type, &datum, &err) ==
                      FLX_OK &&
                  add_datum(c, out, infos[i].name, &datum);
        if (err.code)
            say(c, err.message);
        flxi_file_free(&bytes);
        if (!ok)
            return false;
    }
    return true;
}

static bool read_case(test_case *c)
{
    char path[600];
    flx_error err = {0};
    snprintf(path, sizeof path, "%s/tolerance", c->folder);
    FILE *f = fopen(path, "r");
    if (f && fscanf(f, "%lf %lf", &c->rtol, &c->atol) != 2)
        c->rtol = 1e-3;
    if (f)
        fclose(f);
    snprintf(path, sizeof path, "%s/model.onnx", c->folder);
    if (flxi_file_read(&c->bytes, &c->ctx->mem, path, 0, &err) != FLX_OK ||
        flxi_onnx_parse(&c->ctx->mem, c->bytes.bytes, c->bytes.size, "model.onnx", &c->model, &err) != FLX_OK) {
        say(c, err.message);
        return false;
    }
    const onnx_graph *g = c->model.graph;
    return read_values(c, "input", g->inputs, g->num_inputs, &c->inputs) &&
           read_values(c, "output", g->outputs, g->num_outputs, &c->outputs);
}

/* ---- Comparing ---- */

/* The relative bound of the project's own runner: that of the test, for bf16 at least two units in the last place. */
static double relative_bound(const test_case *c, int32_t dtype)
{
    return dtype == FLX_BF16 ? fmax(c->rtol, 0x1p-6) : c->rtol;
}

static bool is_close(double got, double wanted, double rtol, double atol)
{
    if (isnan(got) || isnan(wanted))
        return isnan(got) && isnan(wanted);
    if (got == wanted)
        return true;
    return isfinite(wanted) && fabs(got - wanted) <= atol + rtol * fabs(wanted);
}

static bool same_tensor(test_case *c, const flx_tensor *got, const flx_tensor *wanted, const char *name)
{
    const flx_type *a = flx_tensor_type(got), *b = flx_tensor_type(wanted);
    char text[2][100];
    if (!flxi_type_equal(a, b)) {
        flx_type_print(c->ctx, a, text[0], sizeof text[0]);
        flx_type_print(c->ctx, b, text[1], sizeof text[1]);
        snprintf(c->reason, c->reason_size, "%s is %s, expected %s", name, text[0], text[1]);
        return false;
    }
    bool exact = flxi_is_int(a->dtype) || a->dtype == FLX_BOOL;
    if (exact && memcmp(flx_tensor_const_data(got), flx_tensor_const_data(wanted), flx_tensor_nbytes(got)) == 0)
        return true;
    for (int64_t i = 0; i < flx_tensor_count(got); i++) {
        double x = flx_tensor_get(got, i), y = flx_tensor_get(wanted, i);
        bool near = flxi_is_int(a->dtype) ? x == y : is_close(x, y, relative_bound(c, a->dtype), c->atol);
        if (!near) {
            snprintf(c->reason, c->reason_size, "%s[%lld] is %.9g, expected %.9g", name, (long long)i, x, y);
            return false;
        }
    }
    return true;
}

static onnx_case_result compare(test_case *c, flx_tensor *const *outputs, size_t n)
{
    if (n != c->outputs.n) {
        snprintf(c->reason, c->reason_size, "%zu outputs, expected %zu", n, c->outputs.n);
        return ONNX_CASE_WRONG;
    }
    for (size_t i = 0; i < n; i++)
        if (!same_tensor(c, outputs[i], c->outputs.values[i], c->outputs.names[i]))
            return ONNX_CASE_WRONG;
    return ONNX_CASE_PASS;
}

/* ---- Running ---- */

static onnx_case_result refusal(test_case *c, const flx_error *err)
{
    say(c, err->message);
    return err->code == FLX_E_UNSUPPORTED ? ONNX_CASE_UNSUPPORTED : ONNX_CASE_REFUSED;
}

/* The feeds of inputs that were not fixed, by the names of the graph, which keeps their order. */
static size_t make_feeds(test_case *c, const flx_onnx *m, const bool *fixed, flx_feed *feeds)
{
    const flx_graph *g = flx_onnx_graph(m);
    size_t n = 0, p = 0, k = 0;
    for (size_t i = 0; i < flx_graph_input_count(g) && n < 2 * MAX_VALUES; i++) {
        const char *name = flx_val_name(g, flx_graph_input(g, i));
        if (flx_graph_input_is_param(g, i)) {
            feeds[n++] = (flx_feed){name, flx_onnx_param_value(m, p++)};
            continue;
        }
        while (k < c->inputs.n && fixed[k])
            k++;
        if (k < c->inputs.n)
            feeds[n++] = (flx_feed){name, c->inputs.values[k++]};
    }
    return n;
}

static onnx_case_result run_model(test_case *c, const flx_onnx *m, const bool *fixed)
{
    static _Thread_local flx_feed feeds[2 * MAX_VALUES];
    flx_tensor *outputs[MAX_VALUES] = {0};
    flx_error err = {0};
    const flx_graph *g = flx_onnx_graph(m);
    size_t n = flx_graph_output_count(g);
    if (n > MAX_VALUES)
        return ONNX_CASE_REFUSED;
    size_t num_feeds = make_feeds(c, m, fixed, feeds);
    if (flx_run(g, &(flx_run_options){.device = c->device}, feeds, num_feeds, outputs, &err) != FLX_OK)
        return refusal(c, &err);
    onnx_case_result r = compare(c, outputs, n);
    for (size_t i = 0; i < n; i++)
        flx_tensor_release(outputs[i]);
    return r;
}

/* Level 0: no input is fixed; 1: those that are not floating; 2: all. */
static onnx_case_result attempt(test_case *c, int level)
{
    flx_feed given[MAX_VALUES];
    bool fixed[MAX_VALUES] = {false};
    size_t n = 0;
    flx_error err = {0};
    for (size_t i = 0; i < c->inputs.n; i++) {
        fixed[i] =
            level == 2 ||
            (level == 1 && (c->inputs.is_item[i] || !flxi_is_float(flx_tensor_type(c->inputs.values[i])->dtype)));
        if (fixed[i])
            given[n++] = (flx_feed){c->inputs.names[i], c->inputs.values[i]};
    }
    flx_onnx_options options = {.struct_size = sizeof options, .inputs = given, .num_inputs = n, .folder = c->folder};
    flx_onnx *m = flx_onnx_decode(c->ctx, c->bytes.bytes, c->bytes.size, "model.onnx", &options, &err);
    onnx_case_result r = m ? run_model(c, m, fixed) : refusal(c, &err);
    flx_onnx_free(m);
    return r;
}

onnx_case_result run_onnx_case(const char *folder, const char *device, char *reason, size_t size)
{
    test_case c = {.folder = folder, .device = device, .reason = reason, .reason_size = size};
    onnx_case_result r = ONNX_CASE_REFUSED;
    reason[0] = 0;
    c.rtol = 1e-3;
    c.atol = 1e-7;
    c.ctx = flx_context_new(NULL);
    if (c.ctx && read_case(&c)) {
        r = ONNX_CASE_UNSUPPORTED;
        for (int level = 0; level < 3 && (r == ONNX_CASE_UNSUPPORTED || r == ONNX_CASE_REFUSED); level++) {
            r = attempt(&c, level);
            if (r == ONNX_CASE_PASS && level > 0)
                r = ONNX_CASE_FIXED;
        }
    }
    if (c.is_unsupported)
        r = ONNX_CASE_UNSUPPORTED;
    for (size_t i = 0; i < c.inputs.n; i++)
        flx_tensor_release(c.inputs.values[i]);
    for (size_t i = 0; i < c.outputs.n; i++)
        flx_tensor_release(c.outputs.values[i]);
    if (c.bytes.bytes)
        flxi_file_free(&c.bytes);
    flxi_onnx_model_free(&c.model);
    flx_context_free(c.ctx);
    return r;
}
