/* SPDX-License-Identifier: Apache-2.0 */
/* DLPack: memory of arrays shared with NumPy, PyTorch, JAX and others, by the structs of its public description. A
   capsule holds a description with a function that frees it; who takes it renames the capsule. Both forms, with a
   version and without, are given and taken. */
#include "py_core.h"

#include <stdlib.h>

enum { device_cpu = 1, device_cuda_host = 3 };
enum { code_int = 0, code_uint = 1, code_float = 2, code_bfloat = 4, code_complex = 5, code_bool = 6 };
enum { flag_read_only = 1 };

typedef struct dl_device {
    int32_t type, id;
} dl_device;

typedef struct dl_dtype {
    uint8_t code, bits;
    uint16_t lanes;
} dl_dtype;

typedef struct dl_tensor {
    void *data;
    dl_device device;
    int32_t rank;
    dl_dtype dtype;
    int64_t *shape, *strides; /* strides in elements; NULL: dense */
    uint64_t byte_offset;
} dl_tensor;

typedef struct dl_managed {
    dl_tensor tensor;
    void *manager;
    void (*deleter)(struct dl_managed *);
} dl_managed;

typedef struct dl_versioned {
    uint32_t major, minor;
    void *manager;
    void (*deleter)(struct dl_versioned *);
    uint64_t flags;
    dl_tensor tensor;
} dl_versioned;

static const char plain_name[] = "dltensor", used_plain_name[] = "used_dltensor";
static const char versioned_name[] = "dltensor_versioned", used_versioned_name[] = "used_dltensor_versioned";

/* ---- Dtypes ---- */

#define KIND_FLOAT code_float
#define KIND_COMPLEX code_complex
#define KIND_SIGNED code_int
#define KIND_UNSIGNED code_uint
#define KIND_BOOL code_bool

static dl_dtype to_dl_dtype(int32_t dtype)
{
    static const dl_dtype rows[FLX_DTYPE_COUNT] = {
#define ROW(name, value, text, bytes, kind) [FLX_##name] = {KIND_##kind, 8 * bytes, 1},
        FLX_DTYPE_MAP(ROW)
#undef ROW
    };
    dl_dtype d = rows[dtype];
    if (dtype == FLX_BF16)
        d.code = code_bfloat;
    return d;
}

static int from_dl_dtype(dl_dtype d)
{
    for (int i = 1; i < FLX_DTYPE_COUNT; i++) {
        dl_dtype row = to_dl_dtype(i);
        if (row.code == d.code && row.bits == d.bits && row.lanes == d.lanes)
            return i;
    }
    return 0;
}

/* ---- Out ---- */

/* What a description needs as long as it lives: the tensor and its extents. */
typedef struct export_state {
    flx_tensor *tensor;
    int64_t shape[FLX_MAX_RANK], strides[FLX_MAX_RANK];
    union {
        dl_managed plain;
        dl_versioned versioned;
    } as;
} export_state;

static void free_state(export_state *s)
{
    flx_tensor_release(s->tensor);
    free(s);
}

static void delete_plain(dl_managed *m)
{
    free_state(m->manager);
}

static void delete_versioned(dl_versioned *m)
{
    free_state(m->manager);
}

/* A capsule that no one took still owns its description. */
static void drop_capsule(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, plain_name)) {
        dl_managed *m = PyCapsule_GetPointer(capsule, plain_name);
        m->deleter(m);
    } else if (PyCapsule_IsValid(capsule, versioned_name)) {
        dl_versioned *m = PyCapsule_GetPointer(capsule, versioned_name);
        m->deleter(m);
    }
}

static dl_tensor describe(export_state *s)
{
    const flx_type *type = flx_tensor_type(s->tensor);
    int64_t stride = 1;
    for (int32_t i = type->rank - 1; i >= 0; i--) {
        s->shape[i] = type->dims[i];
        s->strides[i] = stride;
        stride *= type->dims[i];
    }
    return (dl_tensor){.data = flx_tensor_data(s->tensor),
                       .device = {device_cpu, 0},
                       .rank = type->rank,
                       .dtype = to_dl_dtype(type->dtype),
                       .shape = s->shape,
                       .strides = s->strides};
}

static PyObject *export_capsule(flx_tensor *t, int versioned)
{
    export_state *s = calloc(1, sizeof *s);
    if (!s)
        return PyErr_NoMemory();
    s->tensor = flx_tensor_retain(t);
    if (versioned)
        s->as.versioned = (dl_versioned){1, 0, s, delete_versioned, flag_read_only, describe(s)};
    else
        s->as.plain = (dl_managed){describe(s), s, delete_plain};
    PyObject *capsule = versioned ? PyCapsule_New(&s->as.versioned, versioned_name, drop_capsule)
                                  : PyCapsule_New(&s->as.plain, plain_name, drop_capsule);
    if (!capsule)
        free_state(s);
    return capsule;
}

static int on_this_device(PyObject *device)
{
    int type = device_cpu, id = 0;
    if (device && device != Py_None &&
        (need_tuple(device, "dl_device") < 0 || !PyArg_ParseTuple(device, "ii", &type, &id)))
        return -1;
    if (type != device_cpu) {
        PyErr_SetString(PyExc_BufferError, "arrays are in the memory of the host");
        return -1;
    }
    return 0;
}

/* A tensor to export: of the array, or a copy of it. */
static flx_tensor *export_tensor(array_object *a, PyObject *copy, flx_error *err)
{
    if (copy && copy != Py_None && PyObject_IsTrue(copy))
        return flx_tensor_new(core_context, a->type, flx_tensor_const_data(a->tensor), err);
    return flx_tensor_retain(a->tensor);
}

static PyObject *array_dlpack(array_object *a, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    PyObject *stream = NULL, *version = NULL, *device = NULL, *copy = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOO", names, &stream, &version, &device, &copy) ||
        on_this_device(device) < 0)
        return NULL;
    int major = 0, minor = 0;
    if (version && version != Py_None &&
        (need_tuple(version, "max_version") < 0 || !PyArg_ParseTuple(version, "ii", &major, &minor)))
        return NULL;
    if (!a->tensor) {
        PyErr_SetString(PyExc_BufferError, "an array of a traced function has no memory yet");
        return NULL;
    }
    flx_error err = {0};
    flx_tensor *t = export_tensor(a, copy, &err);
    if (!t)
        return raise_error(&err);
    PyObject *capsule = export_capsule(t, major >= 1);
    flx_tensor_release(t);
    return capsule;
}

static PyObject *array_dlpack_device(array_object *a, PyObject *unused)
{
    (void)a, (void)unused;
    return Py_BuildValue("(ii)", device_cpu, 0);
}

PyMethodDef dlpack_methods[] = {
    {"__dlpack__", (PyCFunction)(void (*)(void))array_dlpack, METH_VARARGS | METH_KEYWORDS, "A DLPack capsule."},
    {"__dlpack_device__", (PyCFunction)(void (*)(void))array_dlpack_device, METH_NOARGS, "Type and number."},
    {NULL, NULL, 0, NULL},
};

/* ---- In ---- */

/* The description may be freed on any thread, and the function that frees it may need the interpreter. */
static void release_plain(void *user, void *data)
{
    (void)data;
    dl_managed *m = user;
    PyGILState_STATE state = PyGILState_Ensure();
    if (m->deleter)
        m->deleter(m);
    PyGILState_Release(state);
}

static void release_versioned(void *user, void *data)
{
    (void)data;
    dl_versioned *m = user;
    PyGILState_STATE state = PyGILState_Ensure();
    if (m->deleter)
        m->deleter(m);
    PyGILState_Release(state);
}

static int type_of_dl(const dl_tensor *d, flx_type *type, int64_t *strides)
{
    int dtype = from_dl_dtype(d->dtype);
    if (d->device.type != device_cpu && d->device.type != device_cuda_host) {
        PyErr_Format(PyExc_BufferError, "memory of device type %d is not memory of the host", (int)d->device.type);
        return -1;
    }
    if (!dtype || d->rank < 0 || d->rank > FLX_MAX_RANK) {
        PyErr_Format(PyExc_BufferError, "DLPack dtype (code %d, %d bits) with %d axes is not supported",
                     (int)d->dtype.code, (int)d->dtype.bits, (int)d->rank);
        return -1;
    }
    *type = flx_type_make((flx_dtype)dtype, d->rank, d->shape);
    int64_t size = (int64_t)flx_dtype_size(dtype), dense = 1;
    for (int32_t i = d->rank - 1; i >= 0; i--) {
        strides[i] = (d->strides ? d->strides[i] : dense) * size;
        dense *= d->shape[i];
    }
    return 0;
}

/* A tensor over the memory, which then calls `release`, or a copy of it; *wrapped says which. */
static flx_tensor *import_tensor(const dl_tensor *d, flx_release_fn release, void *user, int copy, int *wrapped)
{
    flx_type type;
    int64_t strides[FLX_MAX_RANK];
    flx_error err = {0};
    *wrapped = 0;
    if (type_of_dl(d, &type, strides) < 0)
        return NULL;
    char *data = (char *)d->data + d->byte_offset;
    size_t size = flx_dtype_size(type.dtype), part = d->dtype.code == code_complex ? size / 2 : size;
    flx_tensor *t;
    if (!copy && data && is_dense(&type, strides, size) && (uintptr_t)data % part == 0) {
        t = flx_tensor_wrap(core_context, &type, data, release, user, &err);
        *wrapped = t != NULL;
    } else {
        t = copy_strided(&type, data, strides, &err);
    }
    if (!t)
        raise_error(&err);
    return t;
}

static PyObject *import_plain(PyObject *capsule, int copy)
{
    dl_managed *m = PyCapsule_GetPointer(capsule, plain_name);
    int wrapped;
    flx_tensor *t = import_tensor(&m->tensor, release_plain, m, copy, &wrapped);
    if (wrapped)
        PyCapsule_SetName(capsule, used_plain_name);
    return t ? array_of_tensor(t) : NULL;
}

static PyObject *import_versioned(PyObject *capsule, int copy)
{
    dl_versioned *m = PyCapsule_GetPointer(capsule, versioned_name);
    int wrapped;
    if (m->major > 1) {
        PyErr_Format(PyExc_BufferError, "DLPack version %u is newer than 1", (unsigned)m->major);
        return NULL;
    }
    flx_tensor *t = import_tensor(&m->tensor, release_versioned, m, copy, &wrapped);
    if (wrapped)
        PyCapsule_SetName(capsule, used_versioned_name);
    return t ? array_of_tensor(t) : NULL;
}

PyObject *core_from_dlpack(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *capsule;
    int copy;
    if (!PyArg_ParseTuple(args, "Op", &capsule, &copy))
        return NULL;
    if (PyCapsule_IsValid(capsule, versioned_name))
        return import_versioned(capsule, copy);
    if (PyCapsule_IsValid(capsule, plain_name))
        return import_plain(capsule, copy);
    PyErr_SetString(PyExc_TypeError, "not a DLPack capsule, or one that was used already");
    return NULL;
}
