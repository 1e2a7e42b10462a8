/* SPDX-License-Identifier: Apache-2.0 */
/* Trainers: a loss with its parameters, gradients and optimiser as one compiled step. The Python class Trainer gives it
   the traced loss, and options by the names of their fields. */
#include "py_core.h"

#include <fluxion/checkpoint.h>
#include <fluxion/train.h>

#include <stddef.h>
#include <string.h>

typedef struct trainer_object {
    PyObject_HEAD flx_trainer *trainer;
} trainer_object;

/* ---- Options ---- */

#define REAL(name)                                  \
    {                                               \
#name, offsetof(flx_train_options, name), 1 \
    }
#define INTEGER(name)                               \
    {                                               \
#name, offsetof(flx_train_options, name), 0 \
    }

static const struct {
    const char *name;
    size_t offset;
    int is_real;
} fields[] = {
    REAL(rate),          REAL(momentum),          REAL(beta1),        REAL(beta2),
    REAL(epsilon),       REAL(weight_decay),      REAL(clip_norm),    REAL(clip_value),
    REAL(ema),           REAL(loss_scale),        REAL(clip_example), REAL(noise),
    INTEGER(accumulate), INTEGER(scale_interval), INTEGER(recompute),
};

static int set_field(flx_train_options *options, PyObject *key, PyObject *value)
{
    const char *name = PyUnicode_AsUTF8AndSize(key, NULL);
    for (size_t i = 0; name && i < sizeof fields / sizeof *fields; i++) {
        if (strcmp(fields[i].name, name) != 0)
            continue;
        char *at = (char *)options + fields[i].offset;
        if (fields[i].is_real)
            *(double *)(void *)at = PyFloat_AsDouble(value);
        else
            *(int64_t *)(void *)at = PyLong_AsLongLong(value);
        return PyErr_Occurred() ? -1 : 0;
    }
    if (name)
        PyErr_Format(PyExc_TypeError, "training has no option '%s'", name);
    return -1;
}

static int read_options(PyObject *dict, const char *optimiser, flx_train_options *options)
{
    PyObject *key, *value;
    Py_ssize_t position = 0;
    options->optimiser = flx_optimiser_find(optimiser);
    if (options->optimiser < 0) {
        PyErr_Format(PyExc_ValueError, "there is no optimiser '%s': %s", optimiser,
                     "sgd, momentum, adam, adamw, nadam, adagrad, rmsprop, lion, adafactor, lamb, muon");
        return -1;
    }
    while (PyDict_Next(dict, &position, &key, &value)) {
        if (set_field(options, key, value) < 0)
            return -1;
    }
    return 0;
}

/* check_training(optimiser, options): what Trainer() would refuse of them. */
static PyObject *train_check(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *dict;
    const char *optimiser;
    flx_train_options options = {.struct_size = sizeof options};
    if (!PyArg_ParseTuple(args, "sO!", &optimiser, &PyDict_Type, &dict) || read_options(dict, optimiser, &options) < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* Trainer(graph, optimiser, options, flags, schedule or None, interpret=False): without the C compiler on request. */
static PyObject *trainer_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)kwargs;
    PyObject *graph, *dict, *schedule;
    const char *optimiser;
    unsigned int flags;
    int interpret = 0;
    flx_train_options options = {.struct_size = sizeof options};
    const flx_compile_options interpreted = {.struct_size = sizeof interpreted, .flags = FLX_COMPILE_INTERPRET};
    flx_error err = {0};
    if (!PyArg_ParseTuple(args, "O!sO!IO|p", graph_base, &graph, &optimiser, &PyDict_Type, &dict, &flags, &schedule,
                          &interpret) ||
        read_options(dict, optimiser, &options) < 0)
        return NULL;
    options.flags = flags;
    if (schedule != Py_None && PyObject_TypeCheck(schedule, graph_base))
        options.schedule = ((graph_object *)schedule)->graph;
    trainer_object *t = (trainer_object *)PyType_GenericAlloc(type, 0);
    if (!t)
        return NULL;
    WORK(err, t->trainer = flx_compile_training(((graph_object *)graph)->graph, &options,
                                                interpret ? &interpreted : NULL, &err));
    if (!t->trainer) {
        Py_DECREF(t);
        return raise_error(&err);
    }
    return (PyObject *)t;
}

static void trainer_dealloc(trainer_object *t)
{
    flx_trainer_free(t->trainer);
    free_object((PyObject *)t);
}

/* ---- Steps ---- */

/* Feeds from a dict of arrays; NULL with an exception. Free with PyMem_Free. */
static flx_feed *feeds_from(PyObject *dict, size_t *count)
{
    flx_feed *feeds = PyMem_Calloc((size_t)PyDict_Size(dict) + 1, sizeof *feeds);
    PyObject *key, *value;
    Py_ssize_t position = 0;
    *count = 0;
    if (!feeds)
        return (PyErr_NoMemory(), NULL);
    while (PyDict_Next(dict, &position, &key, &value)) {
        const char *name = PyUnicode_AsUTF8AndSize(key, NULL);
        if (!name || !is_concrete(value)) {
            if (name)
                PyErr_Format(PyExc_TypeError, "input '%s' must be an array with a value", name);
            PyMem_Free(feeds);
            return NULL;
        }
        feeds[(*count)++] = (flx_feed){name, ((array_object *)value)->tensor};
    }
    return feeds;
}

/* step({name: array}): the loss before the update. */
static PyObject *trainer_step(trainer_object *t, PyObject *dict)
{
    size_t count;
    double loss = 0;
    flx_error err = {0};
    if (!PyDict_Check(dict))
        return PyErr_Format(PyExc_TypeError, "the inputs must be a dict");
    flx_feed *feeds = feeds_from(dict, &count);
    if (!feeds)
        return NULL;
    flx_code code;
    WORK(err, code = flx_trainer_step(t->trainer, feeds, count, &loss, &err));
    PyMem_Free(feeds);
    return code == FLX_OK ? PyFloat_FromDouble(loss) : raise_error(&err);
}

static PyObject *trainer_set(trainer_object *t, PyObject *args)
{
    const char *name;
    PyObject *value;
    flx_error err = {0};
    if (!PyArg_ParseTuple(args, "sO!", &name, array_base, &value))
        return NULL;
    if (!is_concrete(value))
        return PyErr_Format(PyExc_TypeError, "the parameter '%s' must be an array with a value", name);
    if (flx_trainer_set_param(t->trainer, name, ((array_object *)value)->tensor, &err) != FLX_OK)
        return raise_error(&err);
    Py_RETURN_NONE;
}

static PyObject *trainer_get(trainer_object *t, PyObject *name)
{
    flx_error err = {0};
    const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
    flx_tensor *value = text ? flx_trainer_param(t->trainer, text, &err) : NULL;
    return value ? array_of_tensor(value) : text ? raise_error(&err) : NULL;
}

/* ---- Checkpoints ---- */

static flx_code write_checkpoint(const flx_trainer *t, const char *path, flx_error *err)
{
    flx_checkpoint *c = flx_checkpoint_new(core_context, err);
    flx_code code = c ? flx_trainer_store(t, NULL, c, err) : FLX_E_OOM;
    if (code == FLX_OK)
        code = flx_checkpoint_write(c, path, err);
    flx_checkpoint_free(c);
    return code;
}

static flx_code read_checkpoint(flx_trainer *t, const char *path, flx_error *err)
{
    flx_checkpoint *c = flx_checkpoint_read(core_context, path, err);
    flx_code code = c ? flx_trainer_restore(t, NULL, c, err) : (flx_code)err->code;
    flx_checkpoint_free(c);
    return code;
}

static PyObject *trainer_save(trainer_object *t, PyObject *name)
{
    flx_error err = {0};
    const char *path = PyUnicode_AsUTF8AndSize(name, NULL);
    if (!path)
        return NULL;
    flx_code code;
    WORK(err, code = write_checkpoint(t->trainer, path, &err));
    return code == FLX_OK ? Py_NewRef(Py_None) : raise_error(&err);
}

static PyObject *trainer_load(trainer_object *t, PyObject *name)
{
    flx_error err = {0};
    const char *path = PyUnicode_AsUTF8AndSize(name, NULL);
    if (!path)
        return NULL;
    flx_code code;
    WORK(err, code = read_checkpoint(t->trainer, path, &err));
    return code == FLX_OK ? Py_NewRef(Py_None) : raise_error(&err);
}

/* An output of the last step, copied: the next step overwrites it. */
static PyObject *trainer_output(trainer_object *t, PyObject *name)
{
    flx_error err = {0};
    const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
    const flx_tensor *value = text ? flx_trainer_output(t->trainer, text) : NULL;
    if (!value)
        return text ? PyErr_Format(PyExc_KeyError, "the step has no output '%s'", text) : NULL;
    flx_tensor *copy = flx_tensor_new(core_context, flx_tensor_type(value), flx_tensor_const_data(value), &err);
    return copy ? array_of_tensor(copy) : raise_error(&err);
}

static PyObject *set_names(const flx_params *set)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && set && i < flx_params_count(set); i++) {
        PyObject *name = PyUnicode_FromString(flx_params_name(set, i));
        if (!name || PyList_Append(list, name) < 0)
            Py_CLEAR(list);
        Py_XDECREF(name);
    }
    return list;
}

static PyObject *trainer_names(trainer_object *t, void *closure)
{
    return set_names(closure ? flx_trainer_state(t->trainer) : flx_trainer_params(t->trainer));
}

static PyObject *trainer_rate(trainer_object *t, void *closure)
{
    return PyFloat_FromDouble(closure ? flx_trainer_norm(t->trainer) : flx_trainer_rate(t->trainer));
}

/* ---- The type ---- */

static int is_second;

static PyMethodDef trainer_methods[] = {
    {"step", (PyCFunction)(void (*)(void))trainer_step, METH_O, "One step; the loss before the update."},
    {"set", (PyCFunction)(void (*)(void))trainer_set, METH_VARARGS, "Sets a parameter or a state."},
    {"get", (PyCFunction)(void (*)(void))trainer_get, METH_O, "A copy of a parameter or a state."},
    {"save", (PyCFunction)(void (*)(void))trainer_save, METH_O, "Writes a checkpoint."},
    {"load", (PyCFunction)(void (*)(void))trainer_load, METH_O, "Continues from a checkpoint."},
    {"output", (PyCFunction)(void (*)(void))trainer_output, METH_O, "A copy of an output of the last step."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef trainer_getters[] = {
    {"names", (getter)(void (*)(void))trainer_names, NULL, "The names of the parameters.", NULL},
    {"state_names", (getter)(void (*)(void))trainer_names, NULL, "The names of the states.", &is_second},
    {"rate", (getter)(void (*)(void))trainer_rate, NULL, "The rate of the last step.", NULL},
    {"norm", (getter)(void (*)(void))trainer_rate, NULL, "The norm of all gradients of the last step.", &is_second},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot trainer_slots[] = {
    {Py_tp_new, trainer_new},
    {Py_tp_dealloc, trainer_dealloc},
    {Py_tp_methods, trainer_methods},
    {Py_tp_getset, trainer_getters},
    {0, NULL},
};

static PyType_Spec trainer_spec = {
    .name = "fluxion._core.Trainer",
    .basicsize = sizeof(trainer_object),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = trainer_slots,
};

/* schedule(kind, {warmup, steps, final, factor}): a graph for Trainer(). */
static PyObject *train_schedule(PyObject *self, PyObject *args)
{
    (void)self;
    flx_schedule_options options = {.struct_size = sizeof options};
    long long warmup, steps;
    flx_error err = {0};
    if (!PyArg_ParseTuple(args, "iLLdd", &options.kind, &warmup, &steps, &options.final, &options.factor))
        return NULL;
    options.warmup = warmup;
    options.steps = steps;
    flx_graph *g = flx_schedule_graph(core_context, &options, &err);
    return g ? graph_of(g) : raise_error(&err);
}

static PyMethodDef functions[] = {
    {"schedule", train_schedule, METH_VARARGS, "A schedule of the rate."},
    {"check_training", train_check, METH_VARARGS, "Refuses optimisers and options that do not exist."},
    {NULL, NULL, 0, NULL},
};

int make_train_types(PyObject *module)
{
    return make_type(module, &trainer_spec, "Trainer") && PyModule_AddFunctions(module, functions) == 0 ? 0 : -1;
}
