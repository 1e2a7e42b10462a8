/* SPDX-License-Identifier: Apache-2.0 */
/* Executables: compiled graphs that run on the memory of arrays, by position, without the interpreter lock. Graphs with
   symbolic dimensions run by name, and take their extents from the arrays. */
#include "py_core.h"

#include <string.h>

PyTypeObject *exec_type;

/* ---- Making ---- */

static int is_static_type(const flx_type *t)
{
    for (int32_t i = 0; i < t->rank; i++) {
        if (!flx_dim_is_static(t->dims[i]))
            return 0;
    }
    return 1;
}

/* Copies the types and names that runs need; returns 0 when memory is exhausted. */
static int describe_graph(exec_object *e, const flx_graph *g)
{
    size_t inputs = flx_graph_input_count(g), outputs = flx_graph_output_count(g), text = 0;
    for (size_t i = 0; i < inputs; i++)
        text += strlen(flx_val_name(g, flx_graph_input(g, i))) + 1;
    e->num_inputs = (Py_ssize_t)inputs;
    e->num_outputs = (Py_ssize_t)outputs;
    e->inputs = PyMem_Calloc(inputs + outputs + 1, sizeof *e->inputs);
    e->names = PyMem_Malloc(sizeof *e->names * inputs + text + 1);
    if (!e->inputs || !e->names)
        return 0;
    e->outputs = e->inputs + inputs;
    char *at = (char *)(e->names + inputs);
    for (size_t i = 0; i < inputs; i++) {
        flx_val v = flx_graph_input(g, i);
        e->inputs[i] = *flx_val_type(g, v);
        e->is_symbolic |= !is_static_type(&e->inputs[i]);
        e->names[i] = strcpy(at, flx_val_name(g, v));
        at += strlen(at) + 1;
    }
    for (size_t i = 0; i < outputs; i++) {
        e->outputs[i] = *flx_val_type(g, flx_graph_output(g, i));
        e->is_symbolic |= !is_static_type(&e->outputs[i]);
    }
    return 1;
}

/* compile(graph, flags=0, threads=0, device=None) */
PyObject *core_compile(PyObject *self, PyObject *args, PyObject *kwargs)
{
    (void)self;
    static char *names[] = {"graph", "flags", "threads", "device", NULL};
    PyObject *graph;
    unsigned int flags = 0;
    flx_compile_options options = {.struct_size = sizeof options};
    flx_error err = {0};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!|Iiz", names, graph_base, &graph, &flags, &options.threads,
                                     &options.device))
        return NULL;
    options.flags = flags;
    const flx_graph *g = ((graph_object *)graph)->graph;
    exec_object *e = (exec_object *)PyType_GenericAlloc(exec_type, 0);
    if (!e)
        return NULL;
    if (!describe_graph(e, g)) {
        Py_DECREF(e);
        return PyErr_NoMemory();
    }
    WORK(err, e->exec = flx_compile(g, &options, &err));
    if (!e->exec) {
        Py_DECREF(e);
        return raise_error(&err);
    }
    return (PyObject *)e;
}

static void exec_dealloc(exec_object *e)
{
    flx_exec *exec = e->exec;
    if (exec) {
        Py_BEGIN_ALLOW_THREADS flx_exec_free(exec);
        Py_END_ALLOW_THREADS
    }
    PyMem_Free(e->inputs);
    PyMem_Free((void *)e->names);
    free_object((PyObject *)e);
}

/* ---- Running ---- */

static void release_all(flx_tensor **tensors, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; i < count; i++)
        flx_tensor_release(tensors[i]);
}

/* Makes arrays of the tensors; on failure none of either is left. */
static int wrap_all(flx_tensor **tensors, PyObject **outputs, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        outputs[i] = array_of_tensor(tensors[i]);
        if (!outputs[i]) {
            release_all(tensors + i + 1, count - i - 1);
            while (i-- > 0)
                Py_CLEAR(outputs[i]);
            return -1;
        }
    }
    return 0;
}

/* Warns of an equation without a solution; -1 where warnings are errors. */
static int warn_of(uint32_t status)
{
    return status & FLX_RUN_UNSOLVED
               ? PyErr_WarnEx(
                     PyExc_RuntimeWarning,
                     "cg, gmres, fixed_point or root did not reach its tol: the result is that of the last step", 1)
               : 0;
}

enum { stack_room = 32 };

int exec_run_arrays(exec_object *e, const void *const *inputs, PyObject **outputs)
{
    flx_tensor *few[stack_room], **tensors = few;
    void *few_data[stack_room], **data = few_data;
    Py_ssize_t n = e->num_outputs, made = 0;
    uint32_t found = 0;
    const flx_run_options options = {.struct_size = sizeof options, .status = &found};
    flx_error err;
    err.code = FLX_OK;
    if (n > stack_room) {
        tensors = PyMem_Malloc(sizeof *tensors * (size_t)n);
        data = PyMem_Malloc(sizeof *data * (size_t)n);
    }
    int status = -1;
    if (tensors && data) {
        while (made < n && (tensors[made] = result_tensor(&e->outputs[made], &err))) {
            data[made] = flx_tensor_data(tensors[made]);
            made++;
        }
        if (made == n) {
            WORK(err, flx_exec_run_at_with(e->exec, &options, inputs, data, &err));
        }
        if (err.code == FLX_OK && warn_of(found) < 0) {
            release_all(tensors, made);
        } else if (err.code == FLX_OK) {
            status = wrap_all(tensors, outputs, n);
        } else {
            release_all(tensors, made);
            raise_error(&err);
        }
    } else {
        PyErr_NoMemory();
    }
    if (n > stack_room) {
        PyMem_Free(tensors);
        PyMem_Free(data);
    }
    return status;
}

static int same_type(const flx_type *a, const flx_type *b)
{
    return a->dtype == b->dtype && a->rank == b->rank &&
           memcmp(a->dims, b->dims, sizeof *a->dims * (size_t)a->rank) == 0;
}

static int check_input(const exec_object *e, Py_ssize_t i, PyObject *item)
{
    if (!item || !is_concrete(item)) {
        PyErr_Format(PyExc_TypeError, "input '%s' must be an array with a value", e->names[i]);
        return -1;
    }
    const flx_type *given = ((array_object *)item)->type;
    if (!e->is_symbolic && !same_type(&e->inputs[i], given)) {
        char want[256], have[256];
        flx_type_print(core_context, &e->inputs[i], want, sizeof want);
        flx_type_print(core_context, given, have, sizeof have);
        PyErr_Format(PyExc_ValueError, "input '%s' is %s, got %s", e->names[i], want, have);
        return -1;
    }
    return 0;
}

static PyObject *tuple_of(PyObject **items, Py_ssize_t count)
{
    PyObject *tuple = PyTuple_New(count);
    for (Py_ssize_t i = 0; i < count; i++) {
        if (tuple)
            PyTuple_SetItem(tuple, i, items[i]);
        else
            Py_DECREF(items[i]);
    }
    return tuple;
}

/* Runs by name; extents of symbolic dimensions come from the arrays. */
static int run_by_name(exec_object *e, PyObject *arrays, flx_tensor **tensors)
{
    flx_feed *feeds = PyMem_Calloc((size_t)e->num_inputs + 1, sizeof *feeds);
    uint32_t found = 0;
    const flx_run_options options = {.struct_size = sizeof options, .status = &found};
    flx_error err = {0};
    if (!feeds) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < e->num_inputs; i++)
        feeds[i] = (flx_feed){e->names[i], ((array_object *)PyTuple_GetItem(arrays, i))->tensor};
    flx_code code;
    WORK(err, code = flx_exec_run(e->exec, &options, feeds, (size_t)e->num_inputs, tensors, &err));
    PyMem_Free(feeds);
    if (code == FLX_OK && warn_of(found) < 0) {
        release_all(tensors, e->num_outputs);
        return -1;
    }
    if (code != FLX_OK)
        raise_error(&err);
    return code == FLX_OK ? 0 : -1;
}

static int run_checked(exec_object *e, PyObject *arrays, PyObject **outputs)
{
    if (e->is_symbolic) {
        flx_tensor **tensors = PyMem_Calloc((size_t)e->num_outputs + 1, sizeof *tensors);
        int status = tensors ? run_by_name(e, arrays, tensors) : (PyErr_NoMemory(), -1);
        if (status == 0)
            status = wrap_all(tensors, outputs, e->num_outputs);
        PyMem_Free(tensors);
        return status;
    }
    const void **data = PyMem_Calloc((size_t)e->num_inputs + 1, sizeof *data);
    if (!data) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < e->num_inputs; i++)
        data[i] = flx_tensor_const_data(((array_object *)PyTuple_GetItem(arrays, i))->tensor);
    int status = exec_run_arrays(e, data, outputs);
    PyMem_Free(data);
    return status;
}

/* run(arrays): a tuple of the outputs. */
static PyObject *exec_run(exec_object *e, PyObject *sequence)
{
    PyObject *arrays = PySequence_Tuple(sequence), *result = NULL;
    if (!arrays)
        return NULL;
    if (PyTuple_Size(arrays) != e->num_inputs) {
        PyErr_Format(PyExc_TypeError, "expected %zd inputs, got %zd", e->num_inputs, PyTuple_Size(arrays));
        Py_DECREF(arrays);
        return NULL;
    }
    int ok = 1;
    for (Py_ssize_t i = 0; ok && i < e->num_inputs; i++)
        ok = check_input(e, i, PyTuple_GetItem(arrays, i)) == 0;
    PyObject **outputs = ok ? PyMem_Calloc((size_t)e->num_outputs + 1, sizeof *outputs) : NULL;
    if (ok && !outputs)
        PyErr_NoMemory();
    if (outputs && run_checked(e, arrays, outputs) == 0)
        result = tuple_of(outputs, e->num_outputs);
    PyMem_Free(outputs);
    Py_DECREF(arrays);
    return result;
}

static PyObject *exec_report(exec_object *e, PyObject *unused)
{
    (void)unused;
    flx_buffer out = {0};
    flx_error err = {0};
    return flx_exec_report(e->exec, &out, &err) == FLX_OK ? buffer_to_bytes(&out, 1) : raise_error(&err);
}

static PyObject *exec_memory(exec_object *e, void *closure)
{
    (void)closure;
    return PyLong_FromSize_t(flx_exec_memory(e->exec));
}

/* ---- The type ---- */

static PyMethodDef exec_methods[] = {
    {"run", (PyCFunction)(void (*)(void))exec_run, METH_O, "Runs on arrays; a tuple of the outputs."},
    {"report", (PyCFunction)(void (*)(void))exec_report, METH_NOARGS, "What computes each op, as text."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef exec_getters[] = {
    {"memory", (getter)(void (*)(void))exec_memory, NULL, "Bytes that a run works in.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot exec_slots[] = {
    {Py_tp_dealloc, exec_dealloc},
    {Py_tp_methods, exec_methods},
    {Py_tp_getset, exec_getters},
    {0, NULL},
};

static PyType_Spec exec_spec = {
    .name = "fluxion._core.Exec",
    .basicsize = sizeof(exec_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = exec_slots,
};

int make_exec_type(PyObject *module)
{
    exec_type = make_type(module, &exec_spec, "Exec");
    return exec_type ? 0 : -1;
}
