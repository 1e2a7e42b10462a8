/* SPDX-License-Identifier: Apache-2.0 */
/* Models of other formats, and graphs as C files. The interpreter lock is released while the library works. */
#include "py_core.h"

#include <fluxion/build.h>
#include <fluxion/decoder.h>
#include <fluxion/onnx.h>
#include <string.h>

static const flx_graph *graph_in(PyObject *o)
{
    return ((graph_object *)o)->graph;
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

/* Adds a tensor, which it takes over; false with an exception, also for NULL, of which `err` says why. */
static int add_tensor(PyObject *dict, const char *name, flx_tensor *t, const flx_error *err)
{
    if (!t) {
        raise_error(err);
        return 0;
    }
    PyObject *x = array_of_tensor(t);
    int is_added = x && PyDict_SetItemString(dict, name, x) == 0;
    Py_XDECREF(x);
    return is_added;
}

/* {name: array} of the parameters. */
static PyObject *params_of(const flx_onnx *m)
{
    PyObject *dict = PyDict_New();
    for (size_t i = 0; dict && i < flx_onnx_param_count(m); i++)
        if (!add_tensor(dict, flx_onnx_param_name(m, i), flx_tensor_retain(flx_onnx_param_value(m, i)), NULL))
            Py_CLEAR(dict);
    return dict;
}

/* read_onnx(path, {input: array}): (graph, {parameter: array}); the inputs become constants. */
static PyObject *read_onnx(PyObject *self, PyObject *args)
{
    (void)self;
    const char *path;
    PyObject *fixed;
    flx_feed *feeds;
    flx_onnx_options o = {.struct_size = sizeof o};
    flx_error err = {0};
    flx_onnx *m;
    if (!PyArg_ParseTuple(args, "sO!", &path, &PyDict_Type, &fixed) || feeds_from(fixed, &feeds, &o.num_inputs) < 0)
        return NULL;
    o.inputs = feeds;
    WORK(err, m = flx_onnx_read(core_context, path, &o, &err));
    PyMem_Free(feeds);
    if (!m)
        return raise_error(&err);
    PyObject *params = params_of(m), *graph = params ? graph_of(flx_graph_retain(flx_onnx_graph(m))) : NULL;
    flx_onnx_free(m);
    return graph ? Py_BuildValue("(NN)", graph, params) : (Py_XDECREF(params), NULL);
}

/* {name: array} of the parameters of a model, over the memory of the file, which has none of adapters. */
static PyObject *text_params_of(const flx_gguf *f, const flx_graph *g)
{
    PyObject *dict = PyDict_New();
    for (size_t i = 0; dict && i < flx_graph_input_count(g); i++) {
        flx_error err = {0};
        const char *name = flx_val_name(g, flx_graph_input(g, i));
        flx_tensor *t = flx_graph_input_is_param(g, i) ? flx_text_param(f, g, name, &err) : NULL;
        if ((t || (err.code && err.code != FLX_E_NAME)) && !add_tensor(dict, name, t, &err))
            Py_CLEAR(dict);
    }
    return dict;
}

/* read_gguf(path, adapter_rank): (graph of a whole text, {parameter: array}). */
static PyObject *read_gguf(PyObject *self, PyObject *args)
{
    (void)self;
    const char *path;
    flx_error err = {0};
    flx_gguf *f;
    flx_graph *g = NULL;
    flx_text_graph_options o = {.struct_size = sizeof o};
    if (!PyArg_ParseTuple(args, "si", &path, &o.adapter_rank))
        return NULL;
    WORK(err, f = flx_gguf_read(core_context, path, &err));
    if (!f)
        return raise_error(&err);
    WORK(err, g = flx_text_graph(f, &o, &err));
    PyObject *params = g ? text_params_of(f, g) : raise_error(&err);
    PyObject *graph = params ? graph_of(flx_graph_retain(g)) : NULL;
    flx_graph_release(g);
    flx_gguf_free(f);
    return graph ? Py_BuildValue("(NN)", graph, params) : (Py_XDECREF(params), NULL);
}

/* read_arrays(path): {name: array} of a file of named tensors. */
static PyObject *read_arrays(PyObject *self, PyObject *args)
{
    (void)self;
    const char *path;
    flx_error err = {0};
    flx_keys *keys;
    if (!PyArg_ParseTuple(args, "s", &path))
        return NULL;
    WORK(err, keys = flx_keys_read(core_context, path, &err));
    if (!keys)
        return raise_error(&err);
    PyObject *dict = PyDict_New();
    for (size_t i = 0; dict && i < flx_keys_count(keys); i++) {
        flx_tensor *t;
        WORK(err, t = flx_weights_read(core_context, path, flx_keys_at(keys, i), &err));
        if (!add_tensor(dict, flx_keys_at(keys, i), t, &err))
            Py_CLEAR(dict);
    }
    flx_keys_free(keys);
    return dict;
}

/* write_arrays(path, {name: array}): as .npz where the name of the file ends so, else as .safetensors. */
static PyObject *write_arrays(PyObject *self, PyObject *args)
{
    (void)self;
    const char *path;
    PyObject *dict;
    flx_feed *feeds;
    size_t count;
    flx_error err = {0};
    flx_code code = FLX_E_OOM;
    if (!PyArg_ParseTuple(args, "sO!", &path, &PyDict_Type, &dict) || feeds_from(dict, &feeds, &count) < 0)
        return NULL;
    const char **names = PyMem_Calloc(count + 1, sizeof *names);
    const flx_tensor **tensors = PyMem_Calloc(count + 1, sizeof(const flx_tensor *));
    for (size_t i = 0; names && tensors && i < count; i++) {
        names[i] = feeds[i].name;
        tensors[i] = feeds[i].value;
    }
    const char *dot = strrchr(path, '.');
    int is_npz = dot && strcmp(dot, ".npz") == 0;
    if (names && tensors)
        WORK(err, code = (is_npz ? flx_npz_write : flx_safetensors_write)(path, names, tensors, count, &err));
    PyMem_Free(tensors);
    PyMem_Free(names);
    PyMem_Free(feeds);
    if (code == FLX_OK)
        Py_RETURN_NONE;
    return err.code ? raise_error(&err) : PyErr_NoMemory();
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
    {"read_gguf", read_gguf, METH_VARARGS, "The graph of a language model in a GGUF file, and its parameters."},
    {"read_arrays", read_arrays, METH_VARARGS, "The tensors of a file, by their names."},
    {"write_arrays", write_arrays, METH_VARARGS, "Arrays as a .safetensors or .npz file."},
    {"write_onnx", write_onnx, METH_VARARGS, "A graph as an ONNX model."},
    {"build_c", build_c, METH_VARARGS, "A graph as a C file."},
    {NULL, NULL, 0, NULL},
};
