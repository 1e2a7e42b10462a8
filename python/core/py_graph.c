/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs: building them from traced operations, and reading what they have. An error of a node is raised at the call
   that appends it, so the traceback shows the line of the user's program. */
#include "py_core.h"

#include <string.h>

PyTypeObject *graph_base;

PyObject *graph_of(flx_graph *g)
{
    graph_object *o = g ? (graph_object *)PyType_GenericAlloc(graph_base, 0) : NULL;
    if (!o) {
        flx_graph_release(g);
        return g || PyErr_Occurred() ? NULL : PyErr_NoMemory();
    }
    o->graph = g;
    return (PyObject *)o;
}

static PyObject *graph_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)kwargs;
    const char *name;
    if (!PyArg_ParseTuple(args, "s", &name))
        return NULL;
    graph_object *o = (graph_object *)PyType_GenericAlloc(type, 0);
    if (o && !(o->graph = flx_graph_new(core_context, name))) {
        Py_DECREF(o);
        return PyErr_NoMemory();
    }
    return (PyObject *)o;
}

static void graph_dealloc(graph_object *o)
{
    flx_graph_release(o->graph);
    free_object((PyObject *)o);
}

PyObject *raise_graph_error(const flx_graph *g)
{
    flx_error err = {0};
    if (flx_graph_error(g, &err) == FLX_OK)
        return PyErr_Format(PyExc_RuntimeError, "a call of the graph failed without an error");
    return raise_error(&err);
}

/* ---- Building ---- */

static PyObject *graph_input(graph_object *o, PyObject *args)
{
    const char *name;
    PyObject *dtype, *shape;
    int is_param = 0;
    flx_type type;
    if (!PyArg_ParseTuple(args, "sOO|p", &name, &dtype, &shape, &is_param) || type_from(dtype, shape, &type) < 0)
        return NULL;
    flx_val v = is_param ? flx_param(o->graph, name, &type) : flx_input(o->graph, name, &type);
    return v.id ? array_of_val((PyObject *)o, v, 0) : raise_graph_error(o->graph);
}

/* The handles of a tuple of arrays, all of this graph. NULL with an exception; free with PyMem_Free. */
static flx_val *vals_from(graph_object *o, PyObject *arrays, size_t *count)
{
    Py_ssize_t n = PySequence_Size(arrays);
    flx_val *vals = n < 0 ? NULL : PyMem_Calloc((size_t)n + 1, sizeof *vals);
    if (!vals)
        return n < 0 ? NULL : (PyErr_NoMemory(), NULL);
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PySequence_GetItem(arrays, i);
        int ours = item && is_array(item) && ((array_object *)item)->graph == (PyObject *)o;
        if (ours)
            vals[i] = ((array_object *)item)->val;
        Py_XDECREF(item);
        if (!ours) {
            PyErr_SetString(PyExc_TypeError, "an operand is not a value of this graph");
            PyMem_Free(vals);
            return NULL;
        }
    }
    *count = (size_t)n;
    return vals;
}

enum { result_room = 256 };

static PyObject *results_tuple(graph_object *o, uint32_t count, flx_val *results)
{
    if (!count && flx_graph_error(o->graph, NULL) != FLX_OK)
        return raise_graph_error(o->graph);
    if (count > result_room)
        return PyErr_Format(PyExc_ValueError, "an op with %u results is not supported", (unsigned)count);
    PyObject *tuple = PyTuple_New((Py_ssize_t)count);
    for (uint32_t i = 0; tuple && i < count; i++) {
        PyObject *a = array_of_val((PyObject *)o, results[i], 0);
        if (!a)
            Py_CLEAR(tuple);
        else
            PyTuple_SetItem(tuple, (Py_ssize_t)i, a);
    }
    return tuple;
}

/* op(name, arrays, attributes): a tuple of the results. */
static PyObject *graph_op(graph_object *o, PyObject *args)
{
    const char *name;
    PyObject *arrays, *attributes;
    size_t count;
    if (!PyArg_ParseTuple(args, "sOO", &name, &arrays, &attributes))
        return NULL;
    flx_val *vals = vals_from(o, arrays, &count);
    attr_list attrs;
    if (!vals || attrs_from(attributes, &attrs) < 0) {
        PyMem_Free(vals);
        return NULL;
    }
    flx_val results[result_room];
    uint32_t n = flx_op(o->graph, name, vals, count, attrs.items, attrs.count, results, result_room);
    attrs_free(&attrs);
    PyMem_Free(vals);
    return results_tuple(o, n, results);
}

/* inline(body, arrays): a tuple of the outputs of the body. */
static PyObject *graph_inline(graph_object *o, PyObject *args)
{
    PyObject *body, *arrays;
    size_t count;
    if (!PyArg_ParseTuple(args, "O!O", graph_base, &body, &arrays))
        return NULL;
    flx_val *vals = vals_from(o, arrays, &count), results[result_room];
    if (!vals)
        return NULL;
    uint32_t n = flx_inline(o->graph, ((graph_object *)body)->graph, vals, count, results, result_room);
    PyMem_Free(vals);
    return results_tuple(o, n, results);
}

static PyObject *graph_scalar(graph_object *o, PyObject *args)
{
    PyObject *dtype;
    double value;
    int code;
    if (!PyArg_ParseTuple(args, "Od", &dtype, &value) || (code = dtype_from(dtype)) < 0)
        return NULL;
    flx_val v = flx_scalar(o->graph, (flx_dtype)code, value);
    return v.id ? array_of_val((PyObject *)o, v, 0) : raise_graph_error(o->graph);
}

static PyObject *graph_output(graph_object *o, PyObject *args)
{
    PyObject *array;
    const char *name;
    if (!PyArg_ParseTuple(args, "O!z", array_base, &array, &name))
        return NULL;
    if (flx_output(o->graph, ((array_object *)array)->val, name) != FLX_OK)
        return raise_graph_error(o->graph);
    Py_RETURN_NONE;
}

static PyObject *graph_named(graph_object *o, PyObject *args)
{
    PyObject *array;
    const char *name;
    if (!PyArg_ParseTuple(args, "O!s", array_base, &array, &name))
        return NULL;
    flx_named(o->graph, ((array_object *)array)->val, name);
    Py_RETURN_NONE;
}

/* ---- Reading ---- */

static PyObject *leaf_view(const flx_graph *g, flx_val v, const char *name, int is_param)
{
    const flx_type *type = flx_val_type(g, v);
    PyObject *dtype = dtype_object(type->dtype), *shape = shape_tuple(type);
    if (!dtype || !shape) {
        Py_XDECREF(dtype);
        Py_XDECREF(shape);
        return NULL;
    }
    return Py_BuildValue("(sNNN)", name ? name : "", dtype, shape, PyBool_FromLong(is_param));
}

static PyObject *graph_inputs(graph_object *o, void *closure)
{
    (void)closure;
    size_t n = flx_graph_input_count(o->graph);
    PyObject *list = PyList_New((Py_ssize_t)n);
    for (size_t i = 0; list && i < n; i++) {
        flx_val v = flx_graph_input(o->graph, i);
        PyObject *item = leaf_view(o->graph, v, flx_val_name(o->graph, v), flx_graph_input_is_param(o->graph, i));
        if (!item)
            Py_CLEAR(list);
        else
            PyList_SetItem(list, (Py_ssize_t)i, item);
    }
    return list;
}

static PyObject *graph_outputs(graph_object *o, void *closure)
{
    (void)closure;
    size_t n = flx_graph_output_count(o->graph);
    PyObject *list = PyList_New((Py_ssize_t)n);
    for (size_t i = 0; list && i < n; i++) {
        PyObject *item = leaf_view(o->graph, flx_graph_output(o->graph, i), flx_graph_output_name(o->graph, i), 0);
        if (!item)
            Py_CLEAR(list);
        else
            PyList_SetItem(list, (Py_ssize_t)i, item);
    }
    return list;
}

static PyObject *graph_name(graph_object *o, void *closure)
{
    (void)closure;
    return PyUnicode_FromString(flx_graph_name(o->graph));
}

static PyObject *graph_node_count(graph_object *o, void *closure)
{
    (void)closure;
    return PyLong_FromSize_t(flx_graph_node_count(o->graph));
}

static PyObject *graph_hash_number(graph_object *o, void *closure)
{
    (void)closure;
    return PyLong_FromUnsignedLongLong(flx_graph_hash(o->graph));
}

static PyObject *graph_symbols(graph_object *o, void *closure)
{
    (void)closure;
    PyObject *list = PyList_New(0);
    const char *name;
    for (size_t i = 0; list && (name = flx_graph_symbol(o->graph, i)); i++) {
        PyObject *text = PyUnicode_FromString(name);
        if (!text || PyList_Append(list, text) < 0)
            Py_CLEAR(list);
        Py_XDECREF(text);
    }
    return list;
}

/* ---- The type ---- */

static PyMethodDef graph_methods[] = {
    {"input", (PyCFunction)(void (*)(void))graph_input, METH_VARARGS, "Declares the next input."},
    {"op", (PyCFunction)(void (*)(void))graph_op, METH_VARARGS, "Appends a node; a tuple of its results."},
    {"inline", (PyCFunction)(void (*)(void))graph_inline, METH_VARARGS, "Appends the nodes of another graph."},
    {"scalar", (PyCFunction)(void (*)(void))graph_scalar, METH_VARARGS, "A constant of rank 0."},
    {"output", (PyCFunction)(void (*)(void))graph_output, METH_VARARGS, "Declares the next output."},
    {"named", (PyCFunction)(void (*)(void))graph_named, METH_VARARGS, "Names a value."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef graph_getters[] = {
    {"inputs", (getter)(void (*)(void))graph_inputs, NULL, "(name, dtype, shape, is parameter) of each.", NULL},
    {"outputs", (getter)(void (*)(void))graph_outputs, NULL, "(name, dtype, shape, False) of each.", NULL},
    {"name", (getter)(void (*)(void))graph_name, NULL, NULL, NULL},
    {"node_count", (getter)(void (*)(void))graph_node_count, NULL, NULL, NULL},
    {"hash", (getter)(void (*)(void))graph_hash_number, NULL, "Equal for equal graphs.", NULL},
    {"symbols", (getter)(void (*)(void))graph_symbols, NULL, "Names of symbolic dimensions.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot graph_slots[] = {
    {Py_tp_new, graph_new},
    {Py_tp_dealloc, graph_dealloc},
    {Py_tp_methods, graph_methods},
    {Py_tp_getset, graph_getters},
    {0, NULL},
};

static PyType_Spec graph_spec = {
    .name = "fluxion._core.Graph",
    .basicsize = sizeof(graph_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = graph_slots,
};

int make_graph_type(PyObject *module)
{
    graph_base = make_type(module, &graph_spec, "Graph");
    return graph_base && PyModule_AddFunctions(module, transform_methods) == 0 &&
                   PyModule_AddFunctions(module, format_methods) == 0
               ? 0
               : -1;
}
