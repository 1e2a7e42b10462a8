/* SPDX-License-Identifier: Apache-2.0 */
/* Models of other formats, and graphs as C files. The interpreter lock is released while the library works. */
#include "py_core.h"

#include <fluxion/build.h>
#include <fluxion/onnx.h>

static const flx_graph *graph_in(PyObject *o)
{
    return ((graph_object *)o)->graph;
}

/* {name: array} of the parameters. */
static PyObject *params_of(const flx_onnx *m)
{
    PyObject *dict = PyDict_New();
    for (size_t i = 0; dict && i < flx_onnx_param_count(m); i++) {
        PyObject *x = array_of_tensor(flx_tensor_retain(flx_onnx_param_value(m, i)));
        if (!x || PyDict_SetItemString(dict, flx_onnx_param_name(m, i), x) < 0)
            Py_CLEAR(dict);
        Py_XDECREF(x);
    }
    return dict;
}

/* read_onnx(path): (graph, {parameter: array}). */
static PyObject *read_onnx(PyObject *self, PyObject *args)
{
    (void)self;
    const char *path;
    flx_error err = {0};
    flx_onnx *m;
    if (!PyArg_ParseTuple(args, "s", &path))
        return NULL;
    WORK(err, m = flx_onnx_read(core_context, path, NULL, &err));
    if (!m)
        return raise_error(&err);
    PyObject *params = params_of(m), *graph = params ? graph_of(flx_graph_retain(flx_onnx_graph(m))) : NULL;
    flx_onnx_free(m);
    return graph ? Py_BuildValue("(NN)", graph, params) : (Py_XDECREF(params), NULL);
}

/* Values of inputs and parameters from {name: array with a value}; -1 with an exception. Free with PyMem_Free. */
static int feeds_from(PyObject *dict, flx_feed **out, size_t *count)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;
    *count = 0;
    *out = PyMem_Calloc((size_t)PyDict_Size(dict) + 1, sizeof **out);
    if (!*out) {
        PyErr_NoMemory();
        return -1;
    }
    while (PyDict_Next(dict, &at, &key, &value)) {
        const char *name = PyUnicode_Check(key) ? PyUnicode_AsUTF8AndSize(key, NULL) : NULL;
        if (!name || !is_concrete(value)) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_TypeError, "names of parameters are strings, their values arrays with values");
            PyMem_Free(*out);
            return -1;
        }
        (*out)[(*count)++] = (flx_feed){name, ((array_object *)value)->tensor};
    }
    return 0;
}

/* write_onnx(graph, {parameter: array}): the bytes of a model. */
static PyObject *write_onnx(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *graph, *params;
    flx_feed *feeds;
    size_t count;
    flx_buffer out = {0};
    flx_error err = {0};
    flx_code code;
    if (!PyArg_ParseTuple(args, "O!O!", graph_base, &graph, &PyDict_Type, &params) ||
        feeds_from(params, &feeds, &count) < 0)
        return NULL;
    WORK(err, code = flx_onnx_encode(graph_in(graph), feeds, count, &out, &err));
    PyMem_Free(feeds);
    return code == FLX_OK ? buffer_to_bytes(&out, 0) : raise_error(&err);
}

/* build_c(graph, name or None, header or None, vector_bytes, with_gradient): (source, header text). */
static PyObject *build_c(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *graph;
    flx_build_options o = {.struct_size = sizeof o};
    flx_buffer source = {0}, header = {0};
    flx_error err = {0};
    int has_gradient;
    flx_code code;
    if (!PyArg_ParseTuple(args, "O!zzip", graph_base, &graph, &o.name, &o.header, &o.vector_bytes, &has_gradient))
        return NULL;
    o.flags = has_gradient ? FLX_BUILD_GRAD : 0;
    WORK(err, code = flx_build_c(graph_in(graph), &o, &source, &header, NULL, &err));
    if (code != FLX_OK)
        return raise_error(&err);
    PyObject *text = buffer_to_bytes(&source, 1), *declarations = buffer_to_bytes(&header, 1);
    if (text && declarations)
        return Py_BuildValue("(NN)", text, declarations);
    Py_XDECREF(text);
    Py_XDECREF(declarations);
    return NULL;
}

PyMethodDef format_methods[] = {
    {"read_onnx", read_onnx, METH_VARARGS, "The graph of an ONNX model, and its parameters."},
    {"write_onnx", write_onnx, METH_VARARGS, "A graph as an ONNX model."},
    {"build_c", build_c, METH_VARARGS, "A graph as a C file."},
    {NULL, NULL, 0, NULL},
};
