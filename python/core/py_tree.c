/* SPDX-License-Identifier: Apache-2.0 */
/* Trees of arrays: nested tuples, lists, dicts, named tuples, dataclasses and registered classes. Flattening gives the
   leaves and a structure, which can be hashed and compared: "*" for a leaf, None for None, otherwise
   (class, facts, structure of each child...), where the facts are the keys of a dict or what a class keeps. */
#include "py_core.h"

PyObject *tree_leaf;

/* (flatten, unflatten) of a class that is registered, or a dataclass; NULL: a leaf. A new reference. */
static PyObject *node_rules(PyObject *type)
{
    PyObject *rules = find_item(classes.tree_nodes, type);
    if (rules || PyErr_Occurred() || !PyObject_HasAttrString(type, "__dataclass_fields__"))
        return rules;
    PyObject *key = PyUnicode_FromString("dataclass");
    rules = key ? find_item(classes.tree_nodes, key) : NULL;
    Py_XDECREF(key);
    return rules;
}

/* A structure with room for `count` children. */
static PyObject *new_structure(PyObject *type, PyObject *facts, Py_ssize_t count)
{
    PyObject *s = PyTuple_New(count + 2);
    if (s) {
        PyTuple_SetItem(s, 0, Py_NewRef(type));
        PyTuple_SetItem(s, 1, Py_NewRef(facts));
    }
    return s;
}

/* Takes over the reference to the child, which is NULL where there is an exception. */
static int add_child(PyObject *structure, Py_ssize_t i, PyObject *child, PyObject *leaves)
{
    PyObject *s = child ? tree_flatten(child, leaves) : NULL;
    Py_XDECREF(child);
    return s ? PyTuple_SetItem(structure, i + 2, s) : -1;
}

static PyObject *flatten_tuple(PyObject *tree, PyObject *leaves)
{
    Py_ssize_t n = PyTuple_Size(tree);
    PyObject *s = new_structure((PyObject *)Py_TYPE(tree), Py_None, n);
    for (Py_ssize_t i = 0; s && i < n; i++) {
        if (add_child(s, i, Py_NewRef(PyTuple_GetItem(tree, i)), leaves) < 0)
            Py_CLEAR(s);
    }
    return s;
}

/* Another thread may shorten the list: IndexError. */
static PyObject *flatten_list(PyObject *tree, PyObject *leaves)
{
    Py_ssize_t n = PyList_Size(tree);
    PyObject *s = new_structure((PyObject *)&PyList_Type, Py_None, n);
    for (Py_ssize_t i = 0; s && i < n; i++) {
        if (add_child(s, i, PySequence_GetItem(tree, i), leaves) < 0)
            Py_CLEAR(s);
    }
    return s;
}

/* Keys in sorted order; in that of the dict where they cannot be sorted. */
static PyObject *sorted_keys(PyObject *dict)
{
    PyObject *keys = PyDict_Keys(dict);
    if (keys && PyList_Sort(keys) < 0) {
        PyErr_Clear();
        Py_DECREF(keys);
        keys = PyDict_Keys(dict);
    }
    PyObject *tuple = keys ? PyList_AsTuple(keys) : NULL;
    Py_XDECREF(keys);
    return tuple;
}

static PyObject *flatten_dict(PyObject *tree, PyObject *leaves)
{
    PyObject *keys = sorted_keys(tree);
    Py_ssize_t n = keys ? PyTuple_Size(keys) : 0;
    PyObject *s = keys ? new_structure((PyObject *)&PyDict_Type, keys, n) : NULL;
    for (Py_ssize_t i = 0; s && i < n; i++) {
        if (add_child(s, i, PyObject_GetItem(tree, PyTuple_GetItem(keys, i)), leaves) < 0)
            Py_CLEAR(s);
    }
    Py_XDECREF(keys);
    return s;
}

/* flatten(object) gives (children, facts). */
static PyObject *flatten_registered(PyObject *tree, PyObject *rules, PyObject *leaves)
{
    PyObject *parts = PyObject_CallFunctionObjArgs(PyTuple_GetItem(rules, 0), tree, NULL);
    PyObject *children, *facts, *s = NULL;
    if (parts && need_tuple(parts, "what a class is flattened to") == 0 &&
        PyArg_ParseTuple(parts, "OO", &children, &facts)) {
        PyObject *list = PySequence_Tuple(children);
        Py_ssize_t n = list ? PyTuple_Size(list) : 0;
        s = list ? new_structure((PyObject *)Py_TYPE(tree), facts, n) : NULL;
        for (Py_ssize_t i = 0; s && i < n; i++) {
            if (add_child(s, i, Py_NewRef(PyTuple_GetItem(list, i)), leaves) < 0)
                Py_CLEAR(s);
        }
        Py_XDECREF(list);
    }
    Py_XDECREF(parts);
    return s;
}

static PyObject *flatten_leaf(PyObject *leaf, PyObject *leaves)
{
    return PyList_Append(leaves, leaf) < 0 ? NULL : Py_NewRef(tree_leaf);
}

static PyObject *flatten_container(PyObject *tree, PyObject *leaves)
{
    if (tree == Py_None)
        return Py_NewRef(Py_None);
    if (PyTuple_CheckExact(tree))
        return flatten_tuple(tree, leaves);
    if (PyList_CheckExact(tree))
        return flatten_list(tree, leaves);
    if (PyDict_CheckExact(tree))
        return flatten_dict(tree, leaves);
    PyObject *rules = node_rules((PyObject *)Py_TYPE(tree));
    if (rules) {
        PyObject *s = flatten_registered(tree, rules, leaves);
        Py_DECREF(rules);
        return s;
    }
    if (PyErr_Occurred())
        return NULL;
    if (PyTuple_Check(tree) && PyObject_HasAttrString(tree, "_fields"))
        return flatten_tuple(tree, leaves);
    return flatten_leaf(tree, leaves);
}

PyObject *tree_flatten(PyObject *tree, PyObject *leaves)
{
    if (is_array(tree) || PyFloat_CheckExact(tree) || PyLong_CheckExact(tree))
        return flatten_leaf(tree, leaves);
    if (Py_EnterRecursiveCall(" while flattening a tree"))
        return NULL;
    PyObject *s = flatten_container(tree, leaves);
    Py_LeaveRecursiveCall();
    return s;
}

/* ---- Back ---- */

static PyObject *build_dict(PyObject *keys, PyObject *children)
{
    PyObject *dict = PyDict_New();
    for (Py_ssize_t i = 0; dict && i < PyTuple_Size(keys); i++) {
        if (PyDict_SetItem(dict, PyTuple_GetItem(keys, i), PyTuple_GetItem(children, i)) < 0)
            Py_CLEAR(dict);
    }
    return dict;
}

static PyObject *build_node(PyObject *type, PyObject *facts, PyObject *children)
{
    if (type == (PyObject *)&PyTuple_Type)
        return Py_NewRef(children);
    if (type == (PyObject *)&PyList_Type)
        return PySequence_List(children);
    if (type == (PyObject *)&PyDict_Type)
        return build_dict(facts, children);
    PyObject *rules = node_rules(type);
    if (!rules)
        return PyErr_Occurred() ? NULL : PyObject_CallObject(type, children); /* a named tuple */
    PyObject *node = PyObject_CallFunctionObjArgs(PyTuple_GetItem(rules, 1), type, facts, children, NULL);
    Py_DECREF(rules);
    return node;
}

PyObject *tree_unflatten(PyObject *structure, PyObject *const *leaves, Py_ssize_t count, Py_ssize_t *used)
{
    if (structure == Py_None)
        return Py_NewRef(Py_None);
    if (!PyTuple_Check(structure)) {
        if (*used == count) {
            PyErr_SetString(PyExc_ValueError, "the tree has more leaves than were given");
            return NULL;
        }
        return Py_NewRef(leaves[(*used)++]);
    }
    Py_ssize_t n = PyTuple_Size(structure) - 2;
    PyObject *children = PyTuple_New(n);
    for (Py_ssize_t i = 0; children && i < n; i++) {
        PyObject *child = tree_unflatten(PyTuple_GetItem(structure, i + 2), leaves, count, used);
        if (!child)
            Py_CLEAR(children);
        else
            PyTuple_SetItem(children, i, child);
    }
    PyObject *type = PyTuple_GetItem(structure, 0), *facts = PyTuple_GetItem(structure, 1);
    PyObject *node = children ? build_node(type, facts, children) : NULL;
    Py_XDECREF(children);
    return node;
}

/* ---- For Python ---- */

PyObject *core_flatten(PyObject *self, PyObject *tree)
{
    (void)self;
    PyObject *leaves = PyList_New(0);
    PyObject *structure = leaves ? tree_flatten(tree, leaves) : NULL;
    if (!structure) {
        Py_XDECREF(leaves);
        return NULL;
    }
    return Py_BuildValue("(NN)", leaves, structure);
}

/* unflatten(structure, leaves) */
PyObject *core_unflatten(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *structure, *sequence;
    if (!PyArg_ParseTuple(args, "OO", &structure, &sequence))
        return NULL;
    PyObject *list = PySequence_List(sequence);
    Py_ssize_t n = list ? PyList_Size(list) : 0, used = 0;
    PyObject **leaves = PyMem_Calloc((size_t)n + 1, sizeof *leaves), *tree = NULL;
    if (list && leaves) {
        for (Py_ssize_t i = 0; i < n; i++)
            leaves[i] = PyList_GetItem(list, i);
        tree = tree_unflatten(structure, leaves, n, &used);
    }
    if (tree && used != n) {
        PyErr_Format(PyExc_ValueError, "the tree has %zd leaves, got %zd", used, n);
        Py_CLEAR(tree);
    }
    PyMem_Free(leaves);
    Py_XDECREF(list);
    return tree;
}
