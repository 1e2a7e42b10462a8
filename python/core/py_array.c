/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays: what Python sees of a tensor or of a value of a graph under construction. Memory is shared with other
   libraries through the buffer protocol here and through DLPack in py_dlpack.c, in both directions and without copies
   where the elements are dense and aligned. Arrays never change, so exported memory is read-only. */
#include "py_core.h"

#include <stdlib.h>
#include <string.h>

PyTypeObject *array_base;
PyObject *array_class;

int is_array(PyObject *o)
{
    return (PyObject *)Py_TYPE(o) == array_class || PyObject_TypeCheck(o, array_base);
}

int is_concrete(PyObject *o)
{
    return is_array(o) && ((array_object *)o)->tensor;
}

/* ---- Making arrays ---- */

PyObject *array_of_tensor(flx_tensor *t)
{
    array_object *a = t ? (array_object *)PyType_GenericAlloc((PyTypeObject *)array_class, 0) : NULL;
    if (!a) {
        flx_tensor_release(t);
        return t ? NULL : PyErr_NoMemory();
    }
    a->tensor = t;
    a->type = flx_tensor_type(t);
    return (PyObject *)a;
}

PyObject *array_of_val(PyObject *graph, flx_val v, int weak)
{
    array_object *a = (array_object *)PyType_GenericAlloc((PyTypeObject *)array_class, 0);
    if (!a)
        return NULL;
    Py_INCREF(graph);
    a->graph = graph;
    a->val = v;
    a->type = flx_val_type(((graph_object *)graph)->graph, v);
    a->weak = weak;
    return (PyObject *)a;
}

static PyObject *array_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)type, (void)args, (void)kwargs;
    PyErr_SetString(PyExc_TypeError, "arrays are made by fluxion.array() and fluxion.asarray()");
    return NULL;
}

static void array_dealloc(array_object *a)
{
    flx_tensor_release(a->tensor);
    Py_XDECREF(a->graph);
    free_object((PyObject *)a);
}

static void free_block(void *user, void *data)
{
    (void)user;
    free(data);
}

/* Results of at most this many bytes are made by the library, which zeroes them; clearing larger ones would cost. */
enum { small_result = 4096 };

static size_t type_bytes(const flx_type *type)
{
    size_t size = flx_dtype_size(type->dtype);
    for (int32_t i = 0; i < type->rank; i++)
        size *= (size_t)type->dims[i];
    return size;
}

flx_tensor *result_tensor(const flx_type *type, flx_error *err)
{
    size_t size = type_bytes(type);
    if (size <= small_result)
        return flx_tensor_new(core_context, type, NULL, err);
    void *data = aligned_alloc(64, (size + 63) / 64 * 64);
    if (!data)
        return flx_tensor_new(core_context, type, NULL, err);
    flx_tensor *t = flx_tensor_wrap(core_context, type, data, free_block, NULL, err);
    if (!t)
        free(data);
    return t;
}

/* ---- Dtypes and shapes ---- */

PyObject *dtype_object(int32_t dtype)
{
    PyObject *d = PyList_GetItem(classes.dtypes, dtype);
    Py_XINCREF(d);
    return d;
}

int dtype_from(PyObject *o)
{
    PyObject *number = PyObject_GetAttrString(o, "number");
    long n = number ? PyLong_AsLong(number) : -1;
    Py_XDECREF(number);
    if (n <= 0 || n >= FLX_DTYPE_COUNT) {
        PyErr_Format(PyExc_TypeError, "%R is not a dtype", o);
        return -1;
    }
    return (int)n;
}

int dim_from(PyObject *o, flx_dim *out)
{
    PyObject *number = PyLong_Check(o) ? Py_NewRef(o) : PyObject_GetAttrString(o, "code");
    if (!number && PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyErr_Clear();
        number = PyNumber_Index(o);
    }
    if (!number)
        return -1;
    *out = PyLong_AsLongLong(number);
    Py_DECREF(number);
    return *out == -1 && PyErr_Occurred() ? -1 : 0;
}

int type_from(PyObject *dtype, PyObject *shape, flx_type *out)
{
    int code = dtype_from(dtype);
    Py_ssize_t rank = code < 0 ? -1 : PySequence_Size(shape);
    if (rank < 0)
        return -1;
    if (rank > FLX_MAX_RANK) {
        PyErr_Format(PyExc_ValueError, "arrays have at most %d axes, got %zd", FLX_MAX_RANK, rank);
        return -1;
    }
    *out = flx_type_make((flx_dtype)code, (int32_t)rank, NULL);
    for (Py_ssize_t i = 0; i < rank; i++) {
        PyObject *item = PySequence_GetItem(shape, i);
        int status = item ? dim_from(item, &out->dims[i]) : -1;
        Py_XDECREF(item);
        if (status < 0)
            return -1;
    }
    return 0;
}

PyObject *shape_tuple(const flx_type *type)
{
    PyObject *shape = PyTuple_New(type->rank);
    for (int32_t i = 0; shape && i < type->rank; i++) {
        long long extent = type->dims[i];
        PyObject *d =
            flx_dim_is_static(extent) ? PyLong_FromLongLong(extent) : PyObject_CallFunction(classes.dim, "L", extent);
        if (!d)
            Py_CLEAR(shape);
        else
            PyTuple_SetItem(shape, i, d);
    }
    return shape;
}

/* ---- Attributes of arrays ---- */

static PyObject *get_shape(array_object *a, void *closure)
{
    (void)closure;
    return shape_tuple(a->type);
}

static PyObject *get_dtype(array_object *a, void *closure)
{
    (void)closure;
    return dtype_object(a->type->dtype);
}

static PyObject *get_ndim(array_object *a, void *closure)
{
    (void)closure;
    return PyLong_FromLong(a->type->rank);
}

static PyObject *get_weak(array_object *a, void *closure)
{
    (void)closure;
    return PyBool_FromLong(a->weak);
}

static PyObject *get_graph(array_object *a, void *closure)
{
    (void)closure;
    PyObject *g = a->graph ? a->graph : Py_None;
    return Py_NewRef(g);
}

static PyObject *get_value_id(array_object *a, void *closure)
{
    (void)closure;
    return PyLong_FromUnsignedLong(a->val.id);
}

static PyObject *get_address(array_object *a, void *closure)
{
    (void)closure;
    if (!a->tensor)
        Py_RETURN_NONE;
    return PyLong_FromVoidPtr(flx_tensor_data(a->tensor));
}

static PyObject *real_item(const flx_type *type, const void *p, int64_t i)
{
    switch (type->dtype) {
    case FLX_I64: return PyLong_FromLongLong(((const int64_t *)p)[i]);
    case FLX_U64: return PyLong_FromUnsignedLongLong(((const uint64_t *)p)[i]);
    case FLX_F32: return PyFloat_FromDouble((double)((const float *)p)[i]);
    case FLX_F64: return PyFloat_FromDouble(((const double *)p)[i]);
    case FLX_C64:
        return PyComplex_FromDoubles((double)((const float *)p)[2 * i], (double)((const float *)p)[2 * i + 1]);
    case FLX_C128: return PyComplex_FromDoubles(((const double *)p)[2 * i], ((const double *)p)[2 * i + 1]);
    default: return NULL;
    }
}

/* Element i in row-major order as a Python number. */
static PyObject *element(array_object *a, int64_t i)
{
    PyObject *wide = real_item(a->type, flx_tensor_const_data(a->tensor), i);
    if (wide || PyErr_Occurred())
        return wide;
    double x = flx_tensor_get(a->tensor, i);
    if (a->type->dtype == FLX_BOOL)
        return PyBool_FromLong(x != 0);
    if (a->type->dtype == FLX_F16 || a->type->dtype == FLX_BF16)
        return PyFloat_FromDouble(x);
    return PyLong_FromDouble(x);
}

static PyObject *array_element(array_object *a, PyObject *index)
{
    int64_t i = PyLong_AsLongLong(index);
    if (i == -1 && PyErr_Occurred())
        return NULL;
    if (!a->tensor || i < 0 || i >= flx_tensor_count(a->tensor)) {
        PyErr_SetString(PyExc_IndexError, "no such element");
        return NULL;
    }
    return element(a, i);
}

static PyObject *nested_list(array_object *a, int32_t axis, int64_t *next)
{
    if (axis == a->type->rank)
        return element(a, (*next)++);
    Py_ssize_t extent = (Py_ssize_t)a->type->dims[axis];
    PyObject *list = PyList_New(extent);
    for (Py_ssize_t i = 0; list && i < extent; i++) {
        PyObject *item = nested_list(a, axis + 1, next);
        if (!item)
            Py_CLEAR(list);
        else
            PyList_SetItem(list, i, item);
    }
    return list;
}

static PyObject *array_tolist(array_object *a, PyObject *unused)
{
    (void)unused;
    int64_t next = 0;
    if (!a->tensor) {
        PyErr_SetString(PyExc_TypeError, "an array of a traced function has no elements yet");
        return NULL;
    }
    return nested_list(a, 0, &next);
}

/* The same value; weak or not. */
static PyObject *array_with_weak(array_object *a, PyObject *flag)
{
    PyObject *other = a->tensor ? array_of_tensor(flx_tensor_retain(a->tensor)) : array_of_val(a->graph, a->val, 0);
    if (other)
        ((array_object *)other)->weak = PyObject_IsTrue(flag);
    return other;
}

static void release_owner(void *user, void *data)
{
    (void)data;
    flx_tensor_release(user);
}

/* The same bytes as another dtype of the same size: for bf16, which buffers cannot describe. */
static PyObject *array_retag(array_object *a, PyObject *dtype)
{
    int code = dtype_from(dtype);
    if (code < 0)
        return NULL;
    if (!a->tensor || flx_dtype_size(code) != flx_dtype_size(a->type->dtype)) {
        PyErr_SetString(PyExc_TypeError, "retag needs a dtype of the same size");
        return NULL;
    }
    flx_error err = {0};
    flx_type type = *a->type;
    type.dtype = code;
    flx_tensor *t = flx_tensor_wrap(core_context, &type, flx_tensor_data(a->tensor), release_owner, a->tensor, &err);
    if (t)
        flx_tensor_retain(a->tensor);
    return t ? array_of_tensor(t) : raise_error(&err);
}

/* ---- Buffers out ---- */

static const char *buffer_format(int32_t dtype)
{
    static const char *const formats[FLX_DTYPE_COUNT] = {
        [FLX_F64] = "d", [FLX_F32] = "f", [FLX_F16] = "e", [FLX_C64] = "Zf", [FLX_C128] = "Zd",
        [FLX_I64] = "q", [FLX_I32] = "i", [FLX_I16] = "h", [FLX_I8] = "b",   [FLX_U64] = "Q",
        [FLX_U32] = "I", [FLX_U16] = "H", [FLX_U8] = "B",  [FLX_BOOL] = "?",
    };
    return dtype > 0 && dtype < FLX_DTYPE_COUNT ? formats[dtype] : NULL;
}

static int array_getbuffer(array_object *a, Py_buffer *view, int flags)
{
    const char *format = a->tensor ? buffer_format(a->type->dtype) : NULL;
    view->obj = NULL;
    if (!format || (flags & PyBUF_WRITABLE)) {
        PyErr_SetString(PyExc_BufferError, !a->tensor ? "an array of a traced function has no memory yet"
                                           : !format  ? "buffers cannot describe bfloat16: use DLPack"
                                                      : "arrays are read-only");
        return -1;
    }
    Py_ssize_t *extents = PyMem_Malloc(sizeof(Py_ssize_t) * 2 * FLX_MAX_RANK);
    if (!extents) {
        PyErr_NoMemory();
        return -1;
    }
    Py_ssize_t stride = (Py_ssize_t)flx_dtype_size(a->type->dtype);
    view->itemsize = stride;
    for (int32_t i = a->type->rank - 1; i >= 0; i--) {
        extents[i] = (Py_ssize_t)a->type->dims[i];
        extents[FLX_MAX_RANK + i] = stride;
        stride *= extents[i];
    }
    view->obj = Py_NewRef((PyObject *)a);
    view->buf = flx_tensor_data(a->tensor);
    view->len = (Py_ssize_t)flx_tensor_nbytes(a->tensor);
    view->readonly = 1;
    view->ndim = a->type->rank;
    view->format = (flags & PyBUF_FORMAT) ? (char *)(uintptr_t)format : NULL;
    view->shape = (flags & PyBUF_ND) ? extents : NULL;
    view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? extents + FLX_MAX_RANK : NULL;
    view->suboffsets = NULL;
    view->internal = extents;
    return 0;
}

static void array_releasebuffer(array_object *a, Py_buffer *view)
{
    (void)a;
    PyMem_Free(view->internal);
}

/* ---- Buffers in ---- */

static int dtype_of_format(const char *format, Py_ssize_t itemsize)
{
    if (!format)
        return FLX_U8;
    if (*format == '@' || *format == '=' || *format == '<')
        format++;
    for (int d = 1; d < FLX_DTYPE_COUNT; d++) {
        const char *f = buffer_format(d);
        if (f && strcmp(f, format) == 0 && flx_dtype_size(d) == (size_t)itemsize)
            return d;
    }
    if (format[0] && !format[1] && strchr("lLnN", format[0])) {
        int is_signed = format[0] == 'l' || format[0] == 'n';
        return itemsize == 8 ? (is_signed ? FLX_I64 : FLX_U64) : itemsize == 4 ? (is_signed ? FLX_I32 : FLX_U32) : 0;
    }
    return 0;
}

int is_dense(const flx_type *type, const int64_t *strides, size_t size)
{
    int64_t expected = (int64_t)size;
    for (int32_t i = 0; i < type->rank; i++)
        if (type->dims[i] == 0)
            return 1;
    for (int32_t i = type->rank - 1; i >= 0; i--) {
        if (type->dims[i] != 1 && strides[i] != expected)
            return 0;
        expected *= type->dims[i];
    }
    return 1;
}

static char *copy_axis(const flx_type *type, int32_t axis, char *to, const char *from, const int64_t *strides)
{
    size_t size = flx_dtype_size(type->dtype);
    if (axis == type->rank) {
        memcpy(to, from, size);
        return to + size;
    }
    for (int64_t i = 0; i < type->dims[axis]; i++)
        to = copy_axis(type, axis + 1, to, from + i * strides[axis], strides);
    return to;
}

flx_tensor *copy_strided(const flx_type *type, const char *data, const int64_t *strides, flx_error *err)
{
    flx_tensor *t = result_tensor(type, err);
    if (t)
        copy_axis(type, 0, flx_tensor_data(t), data, strides);
    return t;
}

/* The memory of another object may be released on any thread. */
static void release_buffer(void *user, void *data)
{
    (void)data;
    PyGILState_STATE state = PyGILState_Ensure();
    PyBuffer_Release(user);
    PyMem_Free(user);
    PyGILState_Release(state);
}

static int type_of_buffer(const Py_buffer *view, flx_type *type, int64_t *strides)
{
    int dtype = dtype_of_format(view->format, view->itemsize);
    if (!dtype || view->ndim > FLX_MAX_RANK) {
        PyErr_Format(PyExc_TypeError, "a buffer of format '%s' with %d axes is not supported",
                     view->format ? view->format : "B", view->ndim);
        return -1;
    }
    *type = flx_type_make((flx_dtype)dtype, view->ndim, NULL);
    int64_t dense = view->itemsize;
    for (int i = view->ndim - 1; i >= 0; i--) {
        type->dims[i] = view->shape ? view->shape[i] : view->len / view->itemsize;
        strides[i] = view->strides ? view->strides[i] : dense;
        dense *= type->dims[i];
    }
    return 0;
}

static size_t alignment_of(int32_t dtype)
{
    size_t size = flx_dtype_size(dtype);
    return dtype == FLX_C64 || dtype == FLX_C128 ? size / 2 : size;
}

/* An array over the memory of the object, or with a copy of it. */
static PyObject *array_of_buffer(PyObject *source, int copy)
{
    Py_buffer *view = PyMem_Calloc(1, sizeof *view);
    if (!view)
        return PyErr_NoMemory();
    if (PyObject_GetBuffer(source, view, PyBUF_FULL_RO) < 0) {
        PyMem_Free(view);
        return NULL;
    }
    flx_type type;
    int64_t strides[FLX_MAX_RANK];
    flx_error err = {0};
    flx_tensor *t = NULL;
    int typed = type_of_buffer(view, &type, strides) == 0;
    if (typed && !copy && is_dense(&type, strides, (size_t)view->itemsize) &&
        (uintptr_t)view->buf % alignment_of(type.dtype) == 0) {
        t = flx_tensor_wrap(core_context, &type, view->buf, release_buffer, view, &err);
        if (t)
            return array_of_tensor(t);
    } else if (typed) {
        t = copy_strided(&type, view->buf, strides, &err);
    }
    PyBuffer_Release(view);
    PyMem_Free(view);
    if (t)
        return array_of_tensor(t);
    return PyErr_Occurred() ? NULL : raise_error(&err);
}

/* from_buffer(object, copy) */
static PyObject *core_from_buffer(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *source;
    int copy;
    return PyArg_ParseTuple(args, "Op", &source, &copy) ? array_of_buffer(source, copy) : NULL;
}

PyObject *array_of_object(PyObject *source)
{
    if (PyObject_CheckBuffer(source)) {
        PyObject *a = array_of_buffer(source, 0);
        if (a)
            return a;
        PyErr_Clear(); /* such as of bfloat16, which buffers cannot describe */
    }
    return PyObject_CallFunctionObjArgs(classes.convert, source, NULL);
}

/* from_bytes(dtype, shape, bytes): a copy. */
static PyObject *core_from_bytes(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *dtype, *shape;
    const char *data;
    Py_ssize_t size;
    flx_type type;
    flx_error err = {0};
    if (!PyArg_ParseTuple(args, "OOy#", &dtype, &shape, &data, &size) || type_from(dtype, shape, &type) < 0)
        return NULL;
    if (type_bytes(&type) != (size_t)size) {
        PyErr_SetString(PyExc_ValueError, "the bytes do not fill the shape");
        return NULL;
    }
    flx_tensor *t = flx_tensor_new(core_context, &type, data, &err);
    return t ? array_of_tensor(t) : raise_error(&err);
}

static PyMethodDef buffer_functions[] = {
    {"from_buffer", core_from_buffer, METH_VARARGS, "An array over the memory of an object with the buffer protocol."},
    {"from_bytes", core_from_bytes, METH_VARARGS, "An array with a copy of bytes."},
    {NULL, NULL, 0, NULL},
};

/* ---- The type ---- */

static PyGetSetDef array_getters[] = {
    {"shape", (getter)(void (*)(void))get_shape, NULL, "The extents of the axes.", NULL},
    {"dtype", (getter)(void (*)(void))get_dtype, NULL, "The type of the elements.", NULL},
    {"ndim", (getter)(void (*)(void))get_ndim, NULL, "The number of axes.", NULL},
    {"_weak", (getter)(void (*)(void))get_weak, NULL, NULL, NULL},
    {"_graph", (getter)(void (*)(void))get_graph, NULL, NULL, NULL},
    {"_id", (getter)(void (*)(void))get_value_id, NULL, NULL, NULL},
    {"_address", (getter)(void (*)(void))get_address, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef array_methods[] = {
    {"tolist", (PyCFunction)(void (*)(void))array_tolist, METH_NOARGS, "The elements as nested lists."},
    {"_element", (PyCFunction)(void (*)(void))array_element, METH_O, NULL},
    {"_with_weak", (PyCFunction)(void (*)(void))array_with_weak, METH_O, NULL},
    {"_retag", (PyCFunction)(void (*)(void))array_retag, METH_O, NULL},
    {"__dlpack__", NULL, 0, NULL}, /* filled from dlpack_methods */
    {"__dlpack_device__", NULL, 0, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot array_slots[] = {
    {Py_tp_new, array_new},
    {Py_tp_dealloc, array_dealloc},
    {Py_tp_getset, array_getters},
    {Py_tp_methods, array_methods},
    {Py_bf_getbuffer, array_getbuffer},
    {Py_bf_releasebuffer, array_releasebuffer},
    {0, NULL},
};

static PyType_Spec array_spec = {
    .name = "fluxion._core.ArrayBase",
    .basicsize = sizeof(array_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = array_slots,
};

int make_array_type(PyObject *module)
{
    size_t first = sizeof array_methods / sizeof *array_methods - 3;
    array_methods[first] = dlpack_methods[0];
    array_methods[first + 1] = dlpack_methods[1];
    array_base = make_type(module, &array_spec, "ArrayBase");
    array_class = (PyObject *)array_base;
    return array_base && PyModule_AddFunctions(module, buffer_functions) == 0 ? 0 : -1;
}
