/* SPDX-License-Identifier: Apache-2.0 */
/* py_core.h: what the files of the extension module share: its objects, and the ways from Python to the library and
   back. The module uses the public headers of the library alone, and of Python the limited API, so that one build
   serves every later version. Everything belongs to one context, which lives as long as the process. */
#ifndef PY_CORE_H
#define PY_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <fluxion/catalogue.h>
#include <fluxion/fluxion.h>

/* Python's tables of slots hold functions as `void *`. */
#pragma GCC diagnostic ignored "-Wpedantic"

/* ---- Objects ---- */

/* A value: a tensor in memory, or a result in a graph that is being traced. Exactly one of tensor and graph is set. */
typedef struct array_object {
    PyObject_HEAD flx_tensor *tensor;
    PyObject *graph; /* a graph_object */
    flx_val val;
    const flx_type *type; /* of the tensor or of the value; lives as long as they do */
    int weak;             /* 1: from a Python number, adopts the dtype of other operands */
} array_object;

typedef struct graph_object {
    PyObject_HEAD flx_graph *graph;
} graph_object;

typedef struct exec_object {
    PyObject_HEAD flx_exec *exec;
    Py_ssize_t num_inputs, num_outputs;
    flx_type *inputs, *outputs; /* in one block */
    const char **names;         /* of the inputs, in one block with their texts */
    int is_symbolic;            /* a type has a symbolic dimension */
} exec_object;

extern flx_context *core_context;
extern PyTypeObject *array_base, *graph_base, *exec_type;
extern PyObject *array_class; /* the Python class of arrays, a subclass of array_base */

/* What Python registers with setup(): classes that C makes objects of or raises. */
typedef struct core_classes {
    PyObject *dtypes;     /* list by flx_dtype: DType objects */
    PyObject *errors;     /* dict: code -> class of exceptions */
    PyObject *dim;        /* class of symbolic dimensions, called with its number */
    PyObject *tree_nodes; /* dict: class -> (flatten, unflatten) */
    PyObject *convert;    /* function that makes an array of any other object */
} core_classes;

extern core_classes classes;

/* ---- Errors ---- */

/* Raises the library's error as a Python exception; returns NULL. */
PyObject *raise_error(const flx_error *err);
/* Raises the error of a graph that is being built; returns NULL. */
PyObject *raise_graph_error(const flx_graph *g);

/* ---- Long calls ---- */

/* Calls the library without the interpreter lock. Ctrl-C ends the call early: then `err` is CANCELLED, and Python's
   handler has raised an exception, which raise_error() leaves as it is. The statement must set `err` on failure. */
#define WORK(err, ...)                      \
    do {                                    \
        work_begin();                       \
        Py_BEGIN_ALLOW_THREADS __VA_ARGS__; \
        Py_END_ALLOW_THREADS                \
    } while (work_is_repeated(&(err)))

void work_begin(void);
/* Whether the call was interrupted, and Python's handler lets it continue: then it is made again, with a new error. */
int work_is_repeated(flx_error *err);
int prepare_interrupts(void);

/* ---- Arrays ---- */

int is_array(PyObject *o);
int is_concrete(PyObject *o);
/* New references; steal the hold on the tensor, also on failure. */
PyObject *array_of_tensor(flx_tensor *t);
PyObject *array_of_val(PyObject *graph, flx_val v, int weak);
/* An array over the memory of an object with a buffer, or of what else Python can convert. */
PyObject *array_of_object(PyObject *source);
PyObject *shape_tuple(const flx_type *type);
PyObject *dtype_object(int32_t dtype);
/* -1 with an exception when `o` is not a dtype. */
int dtype_from(PyObject *o);
int dim_from(PyObject *o, flx_dim *out);
/* A type from a dtype and a sequence of dimensions; -1 with an exception. */
int type_from(PyObject *dtype, PyObject *shape, flx_type *out);
/* A tensor for the results of a run: not zeroed where it is large. */
flx_tensor *result_tensor(const flx_type *type, flx_error *err);
/* A dense copy of strided elements; strides in bytes. */
flx_tensor *copy_strided(const flx_type *type, const char *data, const int64_t *strides, flx_error *err);
int is_dense(const flx_type *type, const int64_t *strides, size_t size);

int make_array_type(PyObject *module);
extern PyMethodDef dlpack_methods[];
PyObject *core_from_dlpack(PyObject *self, PyObject *args);

/* ---- Attributes ---- */

/* Attributes of a call, with the memory they point to. */
typedef struct attr_list {
    flx_attr *items;
    size_t count;
    void *blocks[64]; /* freed with the list */
    size_t num_blocks;
} attr_list;

/* From a sequence of (key, kind, value). -1 with an exception. */
int attrs_from(PyObject *sequence, attr_list *out);
void attrs_free(attr_list *list);
/* A list of strings; the texts live as long as the sequence. NULL with an exception; free with PyMem_Free. */
const char **names_from(PyObject *sequence, size_t *count);

/* ---- Graphs, executables, trees, jit ---- */

PyObject *graph_of(flx_graph *g);                      /* steals the hold; NULL with an exception for NULL */
PyObject *buffer_to_bytes(flx_buffer *b, int as_text); /* frees the buffer */
int make_graph_type(PyObject *module);
extern PyMethodDef transform_methods[], format_methods[];

PyObject *core_compile(PyObject *self, PyObject *args, PyObject *kwargs);
/* Runs on the memory of tensors; new references to the result arrays in `outputs`. -1 with an exception. */
int exec_run_arrays(exec_object *e, const void *const *inputs, PyObject **outputs);
int make_exec_type(PyObject *module);

/* Appends leaves to the list; returns the structure (new reference) or NULL with an exception. */
PyObject *tree_flatten(PyObject *tree, PyObject *leaves);
PyObject *tree_unflatten(PyObject *structure, PyObject *const *leaves, Py_ssize_t count, Py_ssize_t *used);
PyObject *core_flatten(PyObject *self, PyObject *tree);
PyObject *core_unflatten(PyObject *self, PyObject *args);
extern PyObject *tree_leaf; /* the structure of a leaf */

int make_jit_type(PyObject *module);
int make_train_types(PyObject *module);

/* The value of a key (new reference). NULL where there is none, and with an exception where the search failed. Without
   a global lock a borrowed value could be freed by another thread. */
PyObject *find_item(PyObject *dict, PyObject *key);
/* 0 if `o` is a tuple, which PyArg_ParseTuple() requires; -1 with an exception that names it. */
int need_tuple(PyObject *o, const char *what);
/* Frees the memory of an object whose members are gone, and gives up its type. */
void free_object(PyObject *o);
/* A type of the module, added to it under its short name. NULL with an exception. */
PyTypeObject *make_type(PyObject *module, PyType_Spec *spec, const char *name);

#endif
