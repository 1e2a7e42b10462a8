/* SPDX-License-Identifier: Apache-2.0 */
/* The extension module fluxion._core: its context, errors, log and the op table, and the list of what it has. */
#include "py_core.h"

#include <stdatomic.h>

flx_context *core_context;
core_classes classes;

/* ---- Errors ---- */

PyObject *raise_error(const flx_error *err)
{
    if (err->code == FLX_E_CANCELLED && PyErr_Occurred()) /* KeyboardInterrupt: py_interrupt.c */
        return NULL;
    PyObject *code = PyLong_FromLong(err->code);
    PyObject *class = code && classes.errors ? find_item(classes.errors, code) : NULL;
    Py_XDECREF(code);
    if (!class)
        return PyErr_Format(PyExc_RuntimeError, "%s: %s", flx_code_name(err->code), err->message);
    PyObject *e = PyObject_CallFunction(class, "ssss", flx_code_name(err->code), err->message, err->where, err->hint);
    if (e) {
        PyErr_SetObject(class, e);
        Py_DECREF(e);
    }
    Py_DECREF(class);
    return NULL;
}

/* ---- The log ---- */

static atomic_int log_wanted;
static PyThread_type_lock log_lock; /* guards log_function where Python has no global lock */
static PyObject *log_function;

/* Both are new references; either may be NULL. */
static PyObject *current_log(void)
{
    PyThread_acquire_lock(log_lock, WAIT_LOCK);
    PyObject *function = Py_XNewRef(log_function);
    PyThread_release_lock(log_lock);
    return function;
}

static PyObject *exchange_log(PyObject *function)
{
    PyThread_acquire_lock(log_lock, WAIT_LOCK);
    PyObject *old = log_function;
    log_function = function;
    PyThread_release_lock(log_lock);
    return old;
}

static void on_log(void *user, flx_log_event event, const char *subject, const char *text)
{
    (void)user;
    if (!atomic_load(&log_wanted))
        return;
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *function = current_log();
    if (function) {
        PyObject *r = PyObject_CallFunction(function, "iss", (int)event, subject, text);
        int is_interrupt = !r && PyErr_ExceptionMatches(PyExc_KeyboardInterrupt);
        if (!r)
            PyErr_Clear(); /* what the program does with an event must not end the work that caused it */
        if (is_interrupt)
            PyErr_SetInterrupt(); /* … but Ctrl-C does, wherever it arrives */
        Py_XDECREF(r);
        Py_DECREF(function);
    }
    PyGILState_Release(state);
}

/* set_log(function or None): called with (event, subject, text), from any thread. */
static PyObject *core_set_log(PyObject *self, PyObject *function)
{
    (void)self;
    atomic_store(&log_wanted, function != Py_None);
    Py_XDECREF(exchange_log(function == Py_None ? NULL : Py_NewRef(function)));
    Py_RETURN_NONE;
}

/* ---- The op table ---- */

static PyObject *attr_row(const char *op, uint32_t i)
{
    flx_attr_view a;
    if (flx_op_attr(op, i, &a) != FLX_OK)
        return PyErr_Format(PyExc_RuntimeError, "attribute %u of %s", (unsigned)i, op);
    return Py_BuildValue("(sssOOs)", a.name, a.kind, a.words, a.required ? Py_True : Py_False,
                         a.positional ? Py_True : Py_False, a.fallback);
}

static PyObject *op_row(const flx_op_view *op)
{
    PyObject *attrs = PyTuple_New((Py_ssize_t)op->num_attrs);
    for (uint32_t i = 0; attrs && i < op->num_attrs; i++) {
        PyObject *a = attr_row(op->name, i);
        if (!a)
            Py_CLEAR(attrs);
        else
            PyTuple_SetItem(attrs, (Py_ssize_t)i, a);
    }
    return attrs ? Py_BuildValue("(ssssIiiN)", op->name, op->operands, op->results, op->doc, (unsigned)op->dtypes,
                                 op->min_operands, op->max_operands, attrs)
                 : NULL;
}

/* op(name): (name, operands, results, doc, dtypes, least and most operands, attributes), or None. */
static PyObject *core_op(PyObject *self, PyObject *name)
{
    (void)self;
    flx_op_view op;
    const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
    if (!text)
        return NULL;
    if (flx_op_find(text, &op) != FLX_OK)
        Py_RETURN_NONE;
    return op_row(&op);
}

static PyObject *core_op_names(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    PyObject *list = PyList_New(0);
    flx_op_view op;
    for (size_t i = 0; list && flx_op_at(i, &op) == FLX_OK; i++) {
        PyObject *name = PyUnicode_FromString(op.name);
        if (!name || PyList_Append(list, name) < 0)
            Py_CLEAR(list);
        Py_XDECREF(name);
    }
    return list;
}

/* foreign(name): (name, frameworks, ours, note) of another framework's function, or None. */
static PyObject *core_foreign(PyObject *self, PyObject *name)
{
    (void)self;
    flx_foreign_view f;
    const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
    if (!text)
        return NULL;
    if (flx_foreign_find(text, &f) != FLX_OK)
        Py_RETURN_NONE;
    return Py_BuildValue("(ssss)", f.name, f.frameworks, f.ours, f.note);
}

/* ---- Dimensions ---- */

static PyObject *core_dim_symbol(PyObject *self, PyObject *name)
{
    (void)self;
    const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
    return text ? PyLong_FromLongLong(flx_dim_symbol(core_context, text)) : NULL;
}

/* dim_op(code of an operator: + - * /, a, b) */
static PyObject *core_dim_op(PyObject *self, PyObject *args)
{
    (void)self;
    int op;
    long long a, b;
    if (!PyArg_ParseTuple(args, "CLL", &op, &a, &b))
        return NULL;
    flx_dim d = op == '+'   ? flx_dim_add(core_context, a, b)
                : op == '-' ? flx_dim_sub(core_context, a, b)
                : op == '*' ? flx_dim_mul(core_context, a, b)
                            : flx_dim_div(core_context, a, b);
    if (d == FLX_DIM_INVALID)
        return PyErr_Format(PyExc_ValueError, "the dimension overflows or is not exact");
    return PyLong_FromLongLong(d);
}

static PyObject *core_dim_text(PyObject *self, PyObject *number)
{
    (void)self;
    char text[256];
    long long dim = PyLong_AsLongLong(number);
    if (dim == -1 && PyErr_Occurred())
        return NULL;
    flx_dim_print(core_context, dim, text, sizeof text);
    return PyUnicode_FromString(text);
}

static PyObject *core_dim_is_static(PyObject *self, PyObject *number)
{
    (void)self;
    return PyBool_FromLong(flx_dim_is_static(PyLong_AsLongLong(number)));
}

/* ---- The module ---- */

/* setup(array class, dtypes, errors, dim class, tree nodes, convert) */
static PyObject *core_setup(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *array;
    core_classes c;
    if (!PyArg_ParseTuple(args, "OOOOOO", &array, &c.dtypes, &c.errors, &c.dim, &c.tree_nodes, &c.convert))
        return NULL;
    array_class = Py_NewRef(array);
    Py_INCREF(c.dtypes);
    Py_INCREF(c.errors);
    Py_INCREF(c.dim);
    Py_INCREF(c.tree_nodes);
    Py_INCREF(c.convert);
    classes = c;
    Py_RETURN_NONE;
}

int need_tuple(PyObject *o, const char *what)
{
    if (PyTuple_Check(o))
        return 0;
    PyErr_Format(PyExc_TypeError, "%s must be a tuple, got %R", what, o);
    return -1;
}

PyObject *find_item(PyObject *dict, PyObject *key)
{
#ifdef Py_GIL_DISABLED
    PyObject *value;
    PyDict_GetItemRef(dict, key, &value);
    return value;
#else
    return Py_XNewRef(PyDict_GetItemWithError(dict, key));
#endif
}

void free_object(PyObject *o)
{
    PyTypeObject *type = Py_TYPE(o);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(o);
    Py_DECREF(type);
}

PyTypeObject *make_type(PyObject *module, PyType_Spec *spec, const char *name)
{
    PyObject *type = PyType_FromSpec(spec);
    if (!type || PyModule_AddObjectRef(module, name, type) < 0)
        return NULL;
    return (PyTypeObject *)type;
}

static PyObject *core_version(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    return PyUnicode_FromString(flx_version());
}

static PyMethodDef functions[] = {
    {"setup", core_setup, METH_VARARGS, "Registers the classes of the package."},
    {"version", core_version, METH_NOARGS, "The version of the library."},
    {"set_log", core_set_log, METH_O, "Calls a function for each event of the library."},
    {"op", core_op, METH_O, "The row of an op."},
    {"op_names", core_op_names, METH_NOARGS, "The names of all ops."},
    {"foreign", core_foreign, METH_O, "What another framework's function is called here."},
    {"dim_symbol", core_dim_symbol, METH_O, "A symbolic dimension."},
    {"dim_op", core_dim_op, METH_VARARGS, "Arithmetic on dimensions."},
    {"dim_text", core_dim_text, METH_O, "A dimension as text."},
    {"dim_is_static", core_dim_is_static, METH_O, "Whether a dimension is a number."},
    {"from_dlpack", core_from_dlpack, METH_VARARGS, "An array over the memory of a DLPack capsule."},
    {"flatten", core_flatten, METH_O, "(leaves, structure) of a tree."},
    {"unflatten", core_unflatten, METH_VARARGS, "The tree of a structure and leaves."},
    {"compile", (PyCFunction)(void (*)(void))core_compile, METH_VARARGS | METH_KEYWORDS, "Compiles a graph."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "fluxion._core", .m_doc = "The library in C.",
    .m_size = -1,          .m_methods = functions,
};

PyMODINIT_FUNC PyInit__core(void);

PyMODINIT_FUNC PyInit__core(void)
{
    flx_context_options options = {.struct_size = sizeof options, .log = on_log};
    core_context = flx_context_new(&options);
    log_lock = PyThread_allocate_lock();
    tree_leaf = PyUnicode_InternFromString("*");
    PyObject *module = core_context && log_lock && tree_leaf ? PyModule_Create(&definition) : PyErr_NoMemory();
    if (module && (make_array_type(module) < 0 || make_graph_type(module) < 0 || make_exec_type(module) < 0 ||
                   make_jit_type(module) < 0 || make_train_types(module) < 0 || prepare_interrupts() < 0))
        Py_CLEAR(module);
#ifdef Py_GIL_DISABLED
    if (module) /* otherwise importing the module would switch the global lock on */
        PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED);
#endif
    return module;
}
