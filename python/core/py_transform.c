/* SPDX-License-Identifier: Apache-2.0 */
/* Transforms of graphs, and their forms as text, bytes and pictures. Each takes graphs that are finished, so the
   interpreter lock is released while the library works. */
#include "py_core.h"

#include <fluxion/report.h>
#include <fluxion/stablehlo.h>

#include <string.h>

/* What all transforms take: a graph and the names of inputs. */
typedef struct request {
    PyObject *graph, *names;
    const char **wrt;
    size_t count;
} request;

static int read_names(request *r)
{
    r->wrt = names_from(r->names, &r->count);
    return r->wrt ? 0 : -1;
}

static const flx_graph *graph_in(PyObject *o)
{
    return ((graph_object *)o)->graph;
}

static PyObject *finish(flx_graph *g, const char **names, const flx_error *err)
{
    PyMem_Free(names);
    return g ? graph_of(g) : raise_error(err);
}

/* ---- Derivatives ---- */

static PyObject *transform_grad(PyObject *self, PyObject *args)
{
    (void)self;
    request r;
    flx_grad_options options = {.struct_size = sizeof options};
    flx_error err = {0};
    unsigned int flags;
    if (!PyArg_ParseTuple(args, "O!OI", graph_base, &r.graph, &r.names, &flags) || read_names(&r) < 0)
        return NULL;
    options.flags = flags;
    flx_graph *g;
    WORK(err, g = flx_grad(graph_in(r.graph), r.wrt, r.count, &options, &err));
    return finish(g, r.wrt, &err);
}

static PyObject *transform_jvp(PyObject *self, PyObject *args)
{
    (void)self;
    request r;
    flx_error err = {0};
    if (!PyArg_ParseTuple(args, "O!O", graph_base, &r.graph, &r.names) || read_names(&r) < 0)
        return NULL;
    flx_graph *g;
    WORK(err, g = flx_jvp(graph_in(r.graph), r.wrt, r.count, &err));
    return finish(g, r.wrt, &err);
}

static PyObject *transform_hvp(PyObject *self, PyObject *args)
{
    (void)self;
    request r;
    flx_grad_options options = {.struct_size = sizeof options, .flags = FLX_GRAD_MISSING_ZERO};
    flx_error err = {0};
    if (!PyArg_ParseTuple(args, "O!O", graph_base, &r.graph, &r.names) || read_names(&r) < 0)
        return NULL;
    flx_graph *g;
    WORK(err, g = flx_hvp(graph_in(r.graph), r.wrt, r.count, &options, &err));
    return finish(g, r.wrt, &err);
}

static PyObject *transform_taylor(PyObject *self, PyObject *args)
{
    (void)self;
    request r;
    flx_error err = {0};
    int order;
    if (!PyArg_ParseTuple(args, "O!Oi", graph_base, &r.graph, &r.names, &order) || read_names(&r) < 0)
        return NULL;
    flx_graph *g;
    WORK(err, g = flx_taylor(graph_in(r.graph), r.wrt, r.count, order, &err));
    return finish(g, r.wrt, &err);
}

/* jacobian(graph, names, mode, hessian) */
static PyObject *transform_jacobian(PyObject *self, PyObject *args)
{
    (void)self;
    request r;
    flx_jacobian_options options = {.struct_size = sizeof options};
    flx_error err = {0};
    unsigned int mode;
    int hessian;
    if (!PyArg_ParseTuple(args, "O!OIp", graph_base, &r.graph, &r.names, &mode, &hessian) || read_names(&r) < 0)
        return NULL;
    options.mode = mode;
    flx_graph *g;
    WORK(err, g = hessian ? flx_hessian(graph_in(r.graph), r.wrt, r.count, &options, &err)
                          : flx_jacobian(graph_in(r.graph), r.wrt, r.count, &options, &err));
    return finish(g, r.wrt, &err);
}

/* ---- Batching ---- */

static int read_axes(PyObject *axes, size_t count, int64_t *out)
{
    for (size_t i = 0; i < count; i++) {
        PyObject *item = PySequence_GetItem(axes, (Py_ssize_t)i);
        out[i] = !item ? -1 : item == Py_None ? FLX_NO_AXIS : PyLong_AsLongLong(item);
        Py_XDECREF(item);
        if (out[i] == -1 && PyErr_Occurred())
            return -1;
    }
    return 0;
}

/* vmap(graph, names, axes, out_axes, size) */
static PyObject *transform_vmap(PyObject *self, PyObject *args)
{
    (void)self;
    request r;
    PyObject *axes, *out_axes, *size;
    flx_dim extent;
    flx_error err = {0};
    if (!PyArg_ParseTuple(args, "O!OOOO", graph_base, &r.graph, &r.names, &axes, &out_axes, &size) ||
        dim_from(size, &extent) < 0 || read_names(&r) < 0)
        return NULL;
    Py_ssize_t outputs = PySequence_Size(out_axes);
    size_t n = r.count + (outputs > 0 ? (size_t)outputs : 0);
    int64_t *numbers = PyMem_Calloc(n + 1, sizeof *numbers);
    flx_vmap_axis *in = PyMem_Calloc(r.count + 1, sizeof *in);
    flx_graph *g = NULL;
    int ok = numbers && in && outputs >= 0 && read_axes(axes, r.count, numbers) == 0 &&
             read_axes(out_axes, (size_t)outputs, numbers + r.count) == 0;
    if (ok) {
        for (size_t i = 0; i < r.count; i++)
            in[i] = (flx_vmap_axis){r.wrt[i], numbers[i]};
        WORK(err, g = flx_vmap(graph_in(r.graph), in, r.count, numbers + r.count, (size_t)outputs, extent, &err));
    }
    PyMem_Free(numbers);
    PyMem_Free(in);
    if (!ok) {
        PyMem_Free(r.wrt);
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    }
    return finish(g, r.wrt, &err);
}

/* ---- Other graphs from a graph ---- */

/* simplify(graph) */
static PyObject *transform_simplify(PyObject *self, PyObject *graph)
{
    (void)self;
    flx_error err = {0};
    if (!PyObject_TypeCheck(graph, graph_base))
        return PyErr_Format(PyExc_TypeError, "not a graph");
    flx_graph *g;
    WORK(err, g = flx_simplify(graph_in(graph), &err));
    return finish(g, NULL, &err);
}

/* specialise(graph, {name: extent}) */
static PyObject *transform_specialise(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *graph, *extents, *key, *value;
    if (!PyArg_ParseTuple(args, "O!O!", graph_base, &graph, &PyDict_Type, &extents))
        return NULL;
    flx_error err = {0};
    flx_dim_binding *bindings = PyMem_Calloc((size_t)PyDict_Size(extents) + 1, sizeof *bindings);
    size_t count = 0;
    Py_ssize_t position = 0;
    if (!bindings)
        return PyErr_NoMemory();
    while (PyDict_Next(extents, &position, &key, &value)) {
        bindings[count].name = PyUnicode_AsUTF8AndSize(key, NULL);
        bindings[count].extent = PyLong_AsLongLong(value);
        count++;
    }
    flx_graph *g = PyErr_Occurred() ? NULL : flx_specialise(graph_in(graph), bindings, count, &err);
    PyMem_Free(bindings);
    return PyErr_Occurred() ? NULL : finish(g, NULL, &err);
}

/* ---- Text, bytes, pictures ---- */

PyObject *buffer_to_bytes(flx_buffer *b, int as_text)
{
    PyObject *o = as_text ? PyUnicode_DecodeUTF8(b->data, (Py_ssize_t)b->size, "replace")
                          : PyBytes_FromStringAndSize(b->data, (Py_ssize_t)b->size);
    flx_buffer_free(b);
    return o;
}

static flx_code write_form(const flx_graph *g, const char *form, flx_buffer *out, flx_error *err)
{
    flx_report_graph drawn = {.struct_size = sizeof drawn, .graph = g};
    if (strcmp(form, "flx") == 0)
        return flx_graph_print(g, out, err);
    if (strcmp(form, "flxb") == 0)
        return flx_graph_encode(g, out, err);
    if (strcmp(form, "mlir") == 0)
        return flx_export_stablehlo(g, out, err);
    if (strcmp(form, "svg") == 0)
        return flx_report_draw(&drawn, FLX_DRAWING_SVG, out, err);
    if (strcmp(form, "dot") == 0)
        return flx_report_draw(&drawn, FLX_DRAWING_DOT, out, err);
    if (strcmp(form, "mir") == 0)
        return flx_show_stage(g, FLX_STAGE_MIR, NULL, out, err);
    if (strcmp(form, "lir") == 0)
        return flx_show_stage(g, FLX_STAGE_LIR, NULL, out, err);
    if (strcmp(form, "c") == 0)
        return flx_show_stage(g, FLX_STAGE_C, NULL, out, err);
    err->code = FLX_E_USAGE;
    strcpy(err->message, "the form must be flx, flxb, mlir, svg, dot, mir, lir or c");
    return FLX_E_USAGE;
}

/* show(graph, form) */
static PyObject *transform_show(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *graph;
    const char *form;
    flx_buffer out = {0};
    flx_error err = {0};
    if (!PyArg_ParseTuple(args, "O!s", graph_base, &graph, &form))
        return NULL;
    flx_code code;
    WORK(err, code = write_form(graph_in(graph), form, &out, &err));
    return code == FLX_OK ? buffer_to_bytes(&out, strcmp(form, "flxb") != 0) : raise_error(&err);
}

static PyObject *graphs_of_module(flx_module *m)
{
    PyObject *dict = PyDict_New();
    for (size_t i = 0; dict && i < flx_module_count(m); i++) {
        flx_graph *g = flx_module_graph(m, i);
        PyObject *o = graph_of(flx_graph_retain(g));
        if (!o || PyDict_SetItemString(dict, flx_graph_name(g), o) < 0)
            Py_CLEAR(dict);
        Py_XDECREF(o);
    }
    flx_graph *main = flx_module_main(m);
    PyObject *first = dict && main ? graph_of(flx_graph_retain(main)) : NULL;
    if (dict && !main)
        PyErr_SetString(PyExc_ValueError, "the file has no graph");
    return first ? Py_BuildValue("(NN)", first, dict) : (Py_XDECREF(dict), NULL);
}

static flx_module *read_module(const char *form, const char *data, size_t size, const char *file, flx_error *err)
{
    if (strcmp(form, "flxb") == 0)
        return flx_decode(core_context, data, size, file, err);
    if (strcmp(form, "mlir") == 0)
        return flx_import_stablehlo(core_context, data, size, file, err);
    return flx_parse(core_context, data, size, file, err);
}

/* read(bytes, form, file): (main graph, {name: graph}). */
static PyObject *transform_read(PyObject *self, PyObject *args)
{
    (void)self;
    const char *data, *form, *file;
    Py_ssize_t size;
    flx_error err = {0};
    if (!PyArg_ParseTuple(args, "y#ss", &data, &size, &form, &file))
        return NULL;
    flx_module *m;
    WORK(err, m = read_module(form, data, (size_t)size, file, &err));
    if (!m)
        return raise_error(&err);
    PyObject *graphs = graphs_of_module(m);
    flx_module_free(m);
    return graphs;
}

PyMethodDef transform_methods[] = {
    {"grad", transform_grad, METH_VARARGS, "Reverse mode."},
    {"jvp", transform_jvp, METH_VARARGS, "Forward mode."},
    {"hvp", transform_hvp, METH_VARARGS, "Hessian times vector."},
    {"taylor", transform_taylor, METH_VARARGS, "Directional derivatives up to an order."},
    {"jacobian", transform_jacobian, METH_VARARGS, "Jacobians and Hessians."},
    {"vmap", transform_vmap, METH_VARARGS, "Batching."},
    {"simplify", transform_simplify, METH_O, "Exact simplification."},
    {"specialise", transform_specialise, METH_VARARGS, "Numbers for symbolic dimensions."},
    {"show", transform_show, METH_VARARGS, "The graph in one of its forms."},
    {"read", transform_read, METH_VARARGS, "The graphs of a file."},
    {NULL, NULL, 0, NULL},
};
