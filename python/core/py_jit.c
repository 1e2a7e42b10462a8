/* SPDX-License-Identifier: Apache-2.0 */
/* The call of a jitted function. What was compiled is found by the structure of the arguments and the types of their
   leaves, here in C: a call that was compiled before runs no Python code. Everything else, tracing above all, is done
   by the methods of the Python class:
       _compile(key, leaves, arguments)   makes an entry: (executable, structure of the result, closed-over arrays)
       _inside(arguments, kwargs)         a call from a function that is being traced itself */
#include "py_core.h"

#include <string.h>

typedef struct jit_object {
    PyObject_HEAD PyObject *cache; /* dict: key -> entry */
    PyObject *statics;             /* tuple: positions of static arguments, in ascending order */
    PyObject *static_names;        /* tuple: names of static keyword arguments */
} jit_object;

/* ---- Leaves ---- */

typedef union scalar_room {
    double reals[2];
    int64_t integer;
    uint8_t flag;
} scalar_room;

enum { signature_room = 2 + 8 * FLX_MAX_RANK };

static int fits_i32(PyObject *number)
{
    int overflow;
    long long v = PyLong_AsLongLongAndOverflow(number, &overflow);
    return !overflow && v >= INT32_MIN && v <= INT32_MAX;
}

/* Writes the type of a leaf and returns the number of bytes; 0: a traced value. A number of Python is weak: it has the
   widest type of its kind, and the traced function narrows it where it meets another operand. An integer that needs 64
   bits is not: it would lose them. */
static size_t sign_leaf(PyObject *leaf, char *out)
{
    int32_t dtype = PyFloat_CheckExact(leaf)     ? FLX_F64
                    : PyBool_Check(leaf)         ? FLX_BOOL
                    : PyLong_CheckExact(leaf)    ? FLX_I64
                    : PyComplex_CheckExact(leaf) ? FLX_C128
                                                 : 0;
    if (dtype) {
        out[0] = (char)(dtype | (dtype == FLX_I64 && !fits_i32(leaf) ? 32 : 64));
        return 1;
    }
    const array_object *a = (const array_object *)leaf;
    if (!a->tensor)
        return 0;
    out[0] = (char)a->type->dtype;
    out[1] = (char)a->type->rank;
    memcpy(out + 2, a->type->dims, sizeof *a->type->dims * (size_t)a->type->rank);
    return 2 + sizeof *a->type->dims * (size_t)a->type->rank;
}

static const void *leaf_data(PyObject *leaf, scalar_room *room)
{
    if (is_array(leaf))
        return flx_tensor_const_data(((array_object *)leaf)->tensor);
    if (PyFloat_CheckExact(leaf)) {
        room->reals[0] = PyFloat_AsDouble(leaf);
    } else if (PyBool_Check(leaf)) {
        room->flag = leaf == Py_True;
    } else if (PyComplex_CheckExact(leaf)) {
        room->reals[0] = PyComplex_RealAsDouble(leaf);
        room->reals[1] = PyComplex_ImagAsDouble(leaf);
    } else {
        room->integer = PyLong_AsLongLong(leaf);
    }
    return room;
}

/* Makes arrays of leaves of other classes, in place, and writes the signature. NULL with an exception; *traced is set
   when a leaf has no value yet. */
static PyObject *sign_leaves(PyObject *leaves, int *traced)
{
    Py_ssize_t n = PyList_Size(leaves);
    char few[512], *text = few;
    size_t size = 0;
    if ((size_t)n * signature_room > sizeof few && !(text = PyMem_Malloc((size_t)n * signature_room)))
        return PyErr_NoMemory();
    PyObject *result = NULL;
    Py_ssize_t i;
    for (i = 0; i < n && !*traced; i++) {
        PyObject *leaf = PyList_GetItem(leaves, i);
        if (!is_array(leaf) && !PyFloat_CheckExact(leaf) && !PyLong_CheckExact(leaf) && !PyBool_Check(leaf) &&
            !PyComplex_CheckExact(leaf)) {
            leaf = array_of_object(leaf);
            if (!leaf || PyList_SetItem(leaves, i, leaf) < 0)
                break;
        }
        size_t more = sign_leaf(leaf, text + size);
        *traced = more == 0;
        size += more;
    }
    if (i == n || *traced)
        result = PyBytes_FromStringAndSize(text, (Py_ssize_t)size);
    if (text != few)
        PyMem_Free(text);
    return result;
}

/* ---- Arguments ---- */

static int is_static_position(const jit_object *j, Py_ssize_t i)
{
    for (Py_ssize_t k = 0; k < PyTuple_Size(j->statics); k++) {
        if (PyLong_AsSsize_t(PyTuple_GetItem(j->statics, k)) == i)
            return 1;
    }
    return 0;
}

/* The structure of all positional arguments; a static one is ("static", value), which the key compares by value. */
static PyObject *flatten_arguments(const jit_object *j, PyObject *args, PyObject *leaves)
{
    if (PyTuple_Size(j->statics) == 0)
        return tree_flatten(args, leaves);
    Py_ssize_t n = PyTuple_Size(args);
    PyObject *structure = PyTuple_New(n);
    for (Py_ssize_t i = 0; structure && i < n; i++) {
        PyObject *arg = PyTuple_GetItem(args, i);
        PyObject *s = is_static_position(j, i) ? Py_BuildValue("(sOO)", "static", (PyObject *)Py_TYPE(arg), arg)
                                               : tree_flatten(arg, leaves);
        if (!s)
            Py_CLEAR(structure);
        else
            PyTuple_SetItem(structure, i, s);
    }
    return structure;
}

static PyObject *flatten_keywords(const jit_object *j, PyObject *kwargs, PyObject *leaves)
{
    if (!kwargs || PyDict_Size(kwargs) == 0)
        return Py_NewRef(Py_None);
    if (PyTuple_Size(j->static_names) == 0)
        return tree_flatten(kwargs, leaves);
    PyObject *rest = PyDict_Copy(kwargs), *fixed = PyDict_New(), *result = NULL;
    for (Py_ssize_t i = 0; rest && fixed && i < PyTuple_Size(j->static_names); i++) {
        PyObject *name = PyTuple_GetItem(j->static_names, i), *value = PyDict_GetItemWithError(rest, name);
        if (value && (PyDict_SetItem(fixed, name, value) < 0 || PyDict_DelItem(rest, name) < 0))
            break;
    }
    PyObject *items = fixed && !PyErr_Occurred() ? PyDict_Items(fixed) : NULL;
    PyObject *pairs = items ? PyList_AsTuple(items) : NULL;
    PyObject *structure = pairs ? tree_flatten(rest, leaves) : NULL;
    if (structure)
        result = Py_BuildValue("(OO)", structure, pairs);
    Py_XDECREF(structure);
    Py_XDECREF(pairs);
    Py_XDECREF(items);
    Py_XDECREF(rest);
    Py_XDECREF(fixed);
    return result;
}

/* ---- The call ---- */

enum { stack_room = 32 };

/* Runs an entry: (executable, structure of the result, closed-over arrays). */
static PyObject *run_entry(PyObject *entry, PyObject *leaves)
{
    exec_object *e = (exec_object *)PyTuple_GetItem(entry, 0);
    PyObject *consts = PyTuple_GetItem(entry, 2);
    Py_ssize_t n = PyList_Size(leaves), closed = PyTuple_Size(consts), most = n + closed;
    const void *few[stack_room], **data = few;
    scalar_room few_rooms[stack_room], *rooms = few_rooms;
    PyObject *few_outputs[stack_room], **outputs = few_outputs, *result = NULL;
    if (most < e->num_outputs)
        most = e->num_outputs;
    if (most > stack_room) {
        data = PyMem_Malloc((size_t)most * sizeof *data);
        rooms = PyMem_Malloc((size_t)most * sizeof *rooms);
        outputs = PyMem_Malloc((size_t)most * sizeof *outputs);
    }
    if (!data || !rooms || !outputs) {
        PyErr_NoMemory();
    } else {
        for (Py_ssize_t i = 0; i < n; i++)
            data[i] = leaf_data(PyList_GetItem(leaves, i), &rooms[i]);
        for (Py_ssize_t i = 0; i < closed; i++)
            data[n + i] = flx_tensor_const_data(((array_object *)PyTuple_GetItem(consts, i))->tensor);
        if (!PyErr_Occurred() && exec_run_arrays(e, data, outputs) == 0) {
            Py_ssize_t used = 0;
            result = tree_unflatten(PyTuple_GetItem(entry, 1), outputs, e->num_outputs, &used);
            for (Py_ssize_t i = 0; i < e->num_outputs; i++)
                Py_DECREF(outputs[i]);
        }
    }
    if (most > stack_room) {
        PyMem_Free(data);
        PyMem_Free(rooms);
        PyMem_Free(outputs);
    }
    return result;
}

/* The entry of the key (new reference), made where there is none. */
static PyObject *find_entry(jit_object *j, PyObject *key, PyObject *leaves, PyObject *args, PyObject *kwargs)
{
    PyObject *entry = find_item(j->cache, key);
    if (entry || PyErr_Occurred())
        return entry;
    return PyObject_CallMethod((PyObject *)j, "_compile", "OOOO", key, leaves, args, kwargs ? kwargs : Py_None);
}

/* The error about a leaf that is not an array, with the name of its argument. */
static void name_argument(jit_object *j, PyObject *args, PyObject *kwargs)
{
    PyErr_Clear();
    PyObject *named = kwargs ? Py_NewRef(kwargs) : PyDict_New();
    Py_XDECREF(named ? PyObject_CallMethod((PyObject *)j, "_split", "OOO", args, named, Py_None) : NULL);
    Py_XDECREF(named);
    if (!PyErr_Occurred())
        PyErr_SetString(PyExc_TypeError, "an argument is not an array");
}

static PyObject *jit_call(jit_object *j, PyObject *args, PyObject *kwargs)
{
    PyObject *leaves = PyList_New(0), *result = NULL;
    PyObject *positional = leaves ? flatten_arguments(j, args, leaves) : NULL;
    PyObject *keywords = positional ? flatten_keywords(j, kwargs, leaves) : NULL;
    int traced = 0;
    PyObject *signature = keywords ? sign_leaves(leaves, &traced) : NULL;
    if (keywords && !signature && PyErr_ExceptionMatches(PyExc_TypeError))
        name_argument(j, args, kwargs);
    if (signature && traced) {
        result = PyObject_CallMethod((PyObject *)j, "_inside", "OO", args, kwargs ? kwargs : Py_None);
    } else if (signature) {
        PyObject *key = PyTuple_New(3);
        if (key) {
            PyTuple_SetItem(key, 0, Py_NewRef(positional));
            PyTuple_SetItem(key, 1, Py_NewRef(keywords));
            PyTuple_SetItem(key, 2, Py_NewRef(signature));
        }
        PyObject *entry = key ? find_entry(j, key, leaves, args, kwargs) : NULL;
        if (entry) /* one item: the result of a function that cannot be compiled apart from its surroundings */
            result = PyTuple_Size(entry) == 1 ? Py_NewRef(PyTuple_GetItem(entry, 0)) : run_entry(entry, leaves);
        Py_XDECREF(entry);
        Py_XDECREF(key);
    }
    Py_XDECREF(signature);
    Py_XDECREF(keywords);
    Py_XDECREF(positional);
    Py_XDECREF(leaves);
    return result;
}

/* ---- The type ---- */

static PyObject *jit_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)args, (void)kwargs;
    jit_object *j = (jit_object *)PyType_GenericAlloc(type, 0);
    if (!j)
        return NULL;
    j->cache = PyDict_New();
    j->statics = PyTuple_New(0);
    j->static_names = PyTuple_New(0);
    if (!j->cache || !j->statics || !j->static_names)
        Py_CLEAR(j);
    return (PyObject *)j;
}

static int jit_traverse(jit_object *j, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE((PyObject *)j));
    Py_VISIT(j->cache);
    Py_VISIT(j->statics);
    Py_VISIT(j->static_names);
    return 0;
}

static int jit_clear(jit_object *j)
{
    Py_CLEAR(j->cache);
    Py_CLEAR(j->statics);
    Py_CLEAR(j->static_names);
    return 0;
}

static void jit_dealloc(jit_object *j)
{
    PyObject_GC_UnTrack(j);
    jit_clear(j);
    free_object((PyObject *)j);
}

/* _setup(static positions, static names) */
static PyObject *jit_setup(jit_object *j, PyObject *args)
{
    PyObject *positions, *names;
    if (!PyArg_ParseTuple(args, "O!O!", &PyTuple_Type, &positions, &PyTuple_Type, &names))
        return NULL;
    PyObject *old_positions = j->statics, *old_names = j->static_names;
    j->statics = Py_NewRef(positions);
    j->static_names = Py_NewRef(names);
    Py_XDECREF(old_positions);
    Py_XDECREF(old_names);
    Py_RETURN_NONE;
}

static PyObject *jit_cache(jit_object *j, void *closure)
{
    (void)closure;
    return Py_NewRef(j->cache);
}

static PyMethodDef jit_methods[] = {
    {"_setup", (PyCFunction)(void (*)(void))jit_setup, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef jit_getters[] = {
    {"_cache", (getter)(void (*)(void))jit_cache, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot jit_slots[] = {
    {Py_tp_new, jit_new},     {Py_tp_dealloc, jit_dealloc}, {Py_tp_call, jit_call},      {Py_tp_traverse, jit_traverse},
    {Py_tp_clear, jit_clear}, {Py_tp_methods, jit_methods}, {Py_tp_getset, jit_getters}, {0, NULL},
};

static PyType_Spec jit_spec = {
    .name = "fluxion._core.Jit",
    .basicsize = sizeof(jit_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = jit_slots,
};

int make_jit_type(PyObject *module)
{
    return make_type(module, &jit_spec, "Jit") ? 0 : -1;
}
