/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes of ops from Python values. A call gives (key, kind, value) with the kind of the op table, so each kind has
   one row here that says how its values are read. */
#include "py_core.h"

#include <string.h>

/* Memory that lives as long as the list. */
static void *keep(attr_list *list, size_t size)
{
    if (list->num_blocks == sizeof list->blocks / sizeof *list->blocks) {
        PyErr_SetString(PyExc_ValueError, "too many attributes");
        return NULL;
    }
    void *block = PyMem_Calloc(1, size ? size : 1);
    if (!block)
        PyErr_NoMemory();
    else
        list->blocks[list->num_blocks++] = block;
    return block;
}

static int read_int(attr_list *list, PyObject *value, flx_attr *a)
{
    (void)list;
    a->kind = FLX_ATTR_INT;
    return dim_from(value, &a->as.i);
}

static int read_bool(attr_list *list, PyObject *value, flx_attr *a)
{
    (void)list;
    int truth = PyObject_IsTrue(value);
    a->kind = FLX_ATTR_WORD;
    a->as.s = truth ? "true" : "false";
    return truth < 0 ? -1 : 0;
}

static int read_real(attr_list *list, PyObject *value, flx_attr *a)
{
    (void)list;
    a->kind = FLX_ATTR_REAL;
    a->as.r = PyFloat_AsDouble(value);
    return a->as.r == -1 && PyErr_Occurred() ? -1 : 0;
}

static int read_text(PyObject *value, flx_attr *a, int32_t kind)
{
    a->kind = kind;
    a->as.s = PyUnicode_AsUTF8AndSize(value, NULL);
    return a->as.s ? 0 : -1;
}

static int read_word(attr_list *list, PyObject *value, flx_attr *a)
{
    if (PyBool_Check(value))
        return read_bool(list, value, a);
    if (PyLong_Check(value))
        return read_int(list, value, a);
    return read_text(value, a, FLX_ATTR_WORD);
}

static int read_string(attr_list *list, PyObject *value, flx_attr *a)
{
    (void)list;
    return read_text(value, a, FLX_ATTR_STRING);
}

static int read_dtype(attr_list *list, PyObject *value, flx_attr *a)
{
    (void)list;
    a->kind = FLX_ATTR_INT;
    a->as.i = dtype_from(value);
    return a->as.i < 0 ? -1 : 0;
}

static int read_ints(attr_list *list, PyObject *value, flx_attr *a)
{
    Py_ssize_t n = PySequence_Size(value);
    int64_t *v = n < 0 ? NULL : keep(list, sizeof *v * (size_t)n);
    if (!v)
        return -1;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PySequence_GetItem(value, i);
        int status = item ? dim_from(item, &v[i]) : -1;
        Py_XDECREF(item);
        if (status < 0)
            return -1;
    }
    a->kind = FLX_ATTR_INTS;
    a->as.ints = (flx_ints){v, (size_t)n};
    return 0;
}

/* [[low, high], ...], or a list of integers. */
static int read_pairs(attr_list *list, PyObject *value, flx_attr *a)
{
    Py_ssize_t n = PySequence_Size(value);
    PyObject *first = n > 0 ? PySequence_GetItem(value, 0) : NULL;
    int nested = first && PySequence_Check(first);
    Py_XDECREF(first);
    PyErr_Clear();
    if (!nested)
        return read_ints(list, value, a);
    int64_t *v = keep(list, sizeof *v * 2 * (size_t)n);
    if (!v)
        return -1;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PySequence_GetItem(value, i);
        long long low = 0, high = 0;
        PyObject *pair = item ? PySequence_Tuple(item) : NULL;
        int ok = pair && PyArg_ParseTuple(pair, "LL", &low, &high);
        Py_XDECREF(pair);
        Py_XDECREF(item);
        if (!ok)
            return -1;
        v[2 * i] = low;
        v[2 * i + 1] = high;
    }
    a->kind = FLX_ATTR_PAIRS;
    a->as.ints = (flx_ints){v, 2 * (size_t)n};
    return 0;
}

static int read_reals(attr_list *list, PyObject *value, flx_attr *a)
{
    Py_ssize_t n = PySequence_Size(value);
    double *v = n < 0 ? NULL : keep(list, sizeof *v * (size_t)n);
    if (!v)
        return -1;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PySequence_GetItem(value, i);
        v[i] = item ? PyFloat_AsDouble(item) : -1;
        Py_XDECREF(item);
        if (v[i] == -1 && PyErr_Occurred())
            return -1;
    }
    a->kind = FLX_ATTR_REALS;
    a->as.reals = (flx_reals){v, (size_t)n};
    return 0;
}

/* (dtype, shape) */
static int type_of_pair(PyObject *value, flx_type *out)
{
    PyObject *dtype, *shape;
    if (need_tuple(value, "a type") < 0 || !PyArg_ParseTuple(value, "OO", &dtype, &shape))
        return -1;
    return type_from(dtype, shape, out);
}

static int read_type(attr_list *list, PyObject *value, flx_attr *a)
{
    flx_type *type = keep(list, sizeof *type);
    a->kind = FLX_ATTR_TYPE;
    a->as.type = type;
    return type ? type_of_pair(value, type) : -1;
}

static int read_types(attr_list *list, PyObject *value, flx_attr *a)
{
    Py_ssize_t n = PySequence_Size(value);
    flx_type *v = n < 0 ? NULL : keep(list, sizeof *v * (size_t)n);
    if (!v)
        return -1;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PySequence_GetItem(value, i);
        int status = item ? type_of_pair(item, &v[i]) : -1;
        Py_XDECREF(item);
        if (status < 0)
            return -1;
    }
    a->kind = FLX_ATTR_TYPES;
    a->as.types = (flx_types){v, (size_t)n};
    return 0;
}

static flx_graph *graph_from(PyObject *value)
{
    if (PyObject_TypeCheck(value, graph_base))
        return ((graph_object *)value)->graph;
    PyErr_Format(PyExc_TypeError, "%R is not a graph; hint: %s", value,
                 PyCallable_Check(value) ? "fx.trace(f, x, ...) makes one of a function" : "fx.trace() makes one");
    return NULL;
}

static int read_graph(attr_list *list, PyObject *value, flx_attr *a)
{
    (void)list;
    a->kind = FLX_ATTR_GRAPH;
    a->as.graph = graph_from(value);
    return a->as.graph ? 0 : -1;
}

static int read_graphs(attr_list *list, PyObject *value, flx_attr *a)
{
    Py_ssize_t n = PySequence_Size(value);
    const flx_graph **v = n < 0 ? NULL : keep(list, sizeof *v * (size_t)n);
    if (!v)
        return -1;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PySequence_GetItem(value, i);
        v[i] = item ? graph_from(item) : NULL;
        Py_XDECREF(item); /* the sequence holds it */
        if (!v[i])
            return -1;
    }
    a->kind = FLX_ATTR_GRAPHS;
    a->as.graphs = (flx_graphs){v, (size_t)n};
    return 0;
}

static int read_combine(attr_list *list, PyObject *value, flx_attr *a)
{
    return PyUnicode_Check(value) ? read_word(list, value, a) : read_graph(list, value, a);
}

static int read_tensor(attr_list *list, PyObject *value, flx_attr *a)
{
    (void)list;
    if (!is_concrete(value)) {
        PyErr_SetString(PyExc_TypeError, "a literal must be an array with a value");
        return -1;
    }
    a->kind = FLX_ATTR_TENSOR;
    a->as.tensor = ((array_object *)value)->tensor;
    return 0;
}

static int read_value(attr_list *list, PyObject *value, flx_attr *a)
{
    return is_array(value) ? read_tensor(list, value, a) : read_real(list, value, a);
}

static const struct {
    const char *kind;
    int (*read)(attr_list *list, PyObject *value, flx_attr *a);
} kinds[] = {
    {"int", read_int},     {"bool", read_bool},   {"real", read_real},       {"word", read_word},
    {"dtype", read_dtype}, {"dim", read_int},     {"ints", read_ints},       {"bools", read_ints},
    {"dims", read_ints},   {"pairs", read_pairs}, {"reals", read_reals},     {"string", read_string},
    {"type", read_type},   {"types", read_types}, {"graph", read_graph},     {"graphs", read_graphs},
    {"data", read_tensor}, {"value", read_value}, {"combine", read_combine},
};

static int read_item(attr_list *list, PyObject *item, flx_attr *a)
{
    const char *key, *kind;
    PyObject *value;
    if (need_tuple(item, "an attribute") < 0 || !PyArg_ParseTuple(item, "ssO", &key, &kind, &value))
        return -1;
    memset(a, 0, sizeof *a);
    a->key = key;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i].kind, kind) == 0)
            return kinds[i].read(list, value, a);
    }
    PyErr_Format(PyExc_TypeError, "attribute '%s' has the unknown kind '%s'", key, kind);
    return -1;
}

int attrs_from(PyObject *sequence, attr_list *out)
{
    memset(out, 0, sizeof *out);
    Py_ssize_t n = sequence == Py_None ? 0 : PyTuple_Check(sequence) ? PyTuple_Size(sequence) : -1;
    if (n < 0) {
        PyErr_SetString(PyExc_TypeError, "attributes must be a tuple of (key, kind, value)");
        return -1;
    }
    out->items = keep(out, sizeof *out->items * (size_t)n);
    for (Py_ssize_t i = 0; out->items && i < n; i++) {
        if (read_item(out, PyTuple_GetItem(sequence, i), &out->items[i]) < 0) {
            attrs_free(out);
            return -1;
        }
    }
    out->count = (size_t)n;
    return out->items ? 0 : -1;
}

void attrs_free(attr_list *list)
{
    for (size_t i = 0; i < list->num_blocks; i++)
        PyMem_Free(list->blocks[i]);
    list->num_blocks = 0;
}

const char **names_from(PyObject *sequence, size_t *count)
{
    Py_ssize_t n = PySequence_Size(sequence);
    const char **names = n < 0 ? NULL : PyMem_Calloc((size_t)n + 1, sizeof *names);
    if (!names)
        return n < 0 ? NULL : (PyErr_NoMemory(), NULL);
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PySequence_GetItem(sequence, i);
        names[i] = item ? PyUnicode_AsUTF8AndSize(item, NULL) : NULL;
        Py_XDECREF(item); /* the sequence holds it */
        if (!names[i]) {
            PyMem_Free(names);
            return NULL;
        }
    }
    *count = (size_t)n;
    return names;
}
