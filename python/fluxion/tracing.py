# SPDX-License-Identifier: Apache-2.0
"""Tracing: a function runs once on arrays without values, and every operation on them appends a node to a graph.

Operations on arrays that have values run at once. One that meets an array of a traced function is appended to the graph
of the innermost function that is being traced. Arrays of outer functions, and large arrays with values, become inputs
of that graph: its captures. So a graph can be differentiated, batched and compiled without regard to what is around it.
"""

import math
import sys
import threading

from . import _core, dtypes
from .errors import TracerError
from .tree import flatten, paths, unflatten

_state = threading.local()


def current():
    """The graph of the innermost function that is being traced, or None."""
    stack = getattr(_state, "stack", None)
    return stack[-1] if stack else None


def describe(a):
    """f32[2, 3], as the library writes it."""
    return f"{a.dtype.text}[{', '.join(map(str, a.shape))}]"


_PACKAGE = __file__.rsplit("tracing.py", 1)[0]


def user_frame():
    """The innermost frame outside of the package."""
    frame = sys._getframe(1)
    while frame and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return frame


_RESERVED = {"graph", "kernel", "param", "return", "true", "false", "inf", "nan"}  # words of .flx


def identifier(text):
    """The text as a name of the library: letters, digits, '_' and '.'."""
    if not text.replace(".", "_").isidentifier() or not text.isascii():
        text = "".join(c if c.isascii() and (c.isalnum() or c in "_.") else "_" for c in text) or "x"
        text = text if text[0].isalpha() or text[0] == "_" else "x" + text
    return text + "_" if text in _RESERVED else text


class Trace(_core.Graph):
    """The graph of a function that is being traced."""

    def __init__(self, name):
        self.captures = []  # arrays of outer functions, or with values, in the order of their inputs
        self._captured = {}
        self._kept = []  # arrays whose identity is a key
        self._names = set()
        self.is_open = True

    def fresh(self, name):
        """A name that no other input has."""
        name = identifier(name)
        unique, count = name, 1
        while unique in self._names:
            count += 1
            unique = f"{name}_{count}"
        self._names.add(unique)
        return unique

    def declare(self, name, dtype, shape, weak=False, is_param=False):
        """The next input."""
        a = self.input(self.fresh(name), dtype, shape, is_param)
        return a._with_weak(True) if weak else a

    def lift(self, a):
        """The array as a value of this graph."""
        if a._graph is self:
            return a
        key = (id(a._graph), a._id) if a._graph is not None else id(a)
        inner = self._captured.get(key)
        if inner is None:
            inner = self._bring_in(a)
            self._captured[key] = inner
            self._kept.append(a)
        return inner

    def _bring_in(self, a):
        if a._graph is None:
            if a.size <= 16:
                return self.op("const", (), (("type", "type", (a.dtype, a.shape)), ("data", "data", a)))[0]
        elif not a._graph.is_open:
            raise TracerError("TRACE", f"an array of the traced function '{a._graph.name}' is used after it returned",
                              "", "return it from the function instead of storing it")
        self.captures.append(a)
        return self.declare(f"captured{len(self.captures)}", a.dtype, a.shape, a._weak)

    def label(self, array, op):
        """Names a value after the line of the user's program, for errors of transforms and runs."""
        frame = user_frame()
        if frame:
            self.named(array, self.fresh(f"{op}.L{frame.f_lineno}"))


class tracing:
    """While it is active, operations are appended to the graph."""

    def __init__(self, trace):
        self.trace = trace

    def __enter__(self):
        if not hasattr(_state, "stack"):
            _state.stack = []
        _state.stack.append(self.trace)
        return self.trace

    def __exit__(self, *exception):
        _state.stack.pop()
        self.trace.is_open = False


# ---- Operations ----

_kinds = {}


def attribute_kinds(op):
    """{name: kind} of the attributes of an op."""
    kinds = _kinds.get(op)
    if kinds is None:
        row = _core.op(op)
        if row is None:
            raise AttributeError(f"there is no op '{op}'")
        kinds = _kinds[op] = {a[0]: a[1] for a in row[7]}
    return kinds


def _attributes(op, attrs):
    kinds = attribute_kinds(op)
    items = []
    for key, value in attrs.items():
        if key not in kinds:
            raise TypeError(f"{op} has no attribute '{key}'; it has {', '.join(kinds) or 'none'}")
        if isinstance(value, list):
            value = tuple(tuple(v) if isinstance(v, list) else v for v in value)
        if value is not None:
            items.append((key, kinds[key], value))
    return tuple(items)


def apply_all(op, operands, **attrs):
    """Appends or runs an op on arrays; a tuple of its results."""
    items = _attributes(op, attrs)
    trace = current()
    if trace is not None and (not operands or any(a._graph is not None for a in operands)):
        results = trace.op(op, tuple(trace.lift(a) for a in operands), items)
        if results:
            trace.label(results[0], op)
        return results
    if trace is None:
        for a in operands:
            if a._graph is not None:
                raise TracerError("TRACE", f"an array of the traced function '{a._graph.name}' is used outside of it",
                                  "", "return it from the function instead of storing it")
    return _run_one(op, operands, items)


def apply(op, *operands, **attrs):
    """The only result of an op on arrays."""
    return apply_all(op, operands, **attrs)[0]


# ---- Ops at once ----

_execs = {}
_EXEC_ROOM = 4096
INTERPRET = 2  # FLX_COMPILE_INTERPRET
_SMALL = 1 << 14


def _remember(cache, key, value, room):
    """Adds to a cache; the oldest entry goes where there is no room. Other threads may do the same."""
    while len(cache) >= room:
        try:
            cache.pop(next(iter(cache)), None)
        except (RuntimeError, StopIteration):  # another thread has changed it
            pass
    cache[key] = value


def _run_one(op, operands, items):
    """Runs one op on arrays with values. Small ones need no C compiler: the library's routes and its reference
    evaluator compute them; larger ones are compiled, once for each set of types."""
    key = (op, items, tuple((a.dtype.number, a.shape) for a in operands))
    try:
        compiled = _execs.get(key)
    except TypeError:  # an attribute that has no hash, such as an array
        compiled, key = None, None
    if compiled is None:
        g = _core.Graph(op)
        inputs = tuple(g.input(f"x{i}", a.dtype, a.shape) for i, a in enumerate(operands))
        results = g.op(op, inputs, items)
        for r in results:
            g.output(r, None)
        work = max([math.prod(a.shape) for a in (*operands, *results)], default=0)
        compiled = _core.compile(g, INTERPRET if work <= _SMALL else 0)
        if key is not None:
            _remember(_execs, key, compiled, _EXEC_ROOM)
    return compiled.run(operands)


# ---- Functions to graphs ----

class Staged:
    """A traced function: its graph, the structure of its result, and its captures, which are the last inputs."""

    __slots__ = ("graph", "names", "out_structure", "captures")

    def __init__(self, graph, names, out_structure):
        self.graph, self.names, self.out_structure = graph, names, out_structure
        self.captures = tuple(graph.captures)

    @property
    def types(self):
        """(dtype, shape) of each output."""
        return [(o[1], o[2]) for o in self.graph.outputs]


def function_name(function):
    """A name for the graph of a function."""
    while hasattr(function, "func"):
        function = function.func
    name = identifier(getattr(function, "__name__", type(function).__name__)).strip("_.")
    return name.replace(".", "_") or "f"


def stage(function, types, structure, names=None, name=None, params=()):
    """Traces function(*args), where `structure` is that of the tuple of arguments and `types` has
    (dtype, shape, weak) for each leaf."""
    trace = Trace(name or function_name(function))
    names = names or [f"x{i}" for i in range(len(types))]
    inputs = [trace.declare(n, d, s, w, i in params) for i, (n, (d, s, w)) in enumerate(zip(names, types))]
    labels = [i[0] for i in trace.inputs]
    with tracing(trace):
        result = function(*unflatten(structure, inputs))
        leaves, out_structure = flatten(result)
        values = [settle(trace.lift(to_array(x))) for x in leaves]
    for i, v in enumerate(values):
        trace.output(v, f"out{i}")
    return Staged(trace, labels, out_structure)


def settle(a):
    """A weak array in the default dtype of its kind."""
    if not a._weak:
        return a
    return cast(a, dtypes.DEFAULT[dtypes.weak_kind(a.dtype)])


def cast(a, dtype):
    """The array in another dtype, not weak."""
    if a.dtype is dtype:
        return a._with_weak(False) if a._weak else a
    return apply("cast", a, to=dtype)


def to_array(x):
    """An array of anything: set by arrays.py, which is loaded later."""
    raise NotImplementedError


def leaf_type(x):
    """(dtype, shape, weak) of a leaf: an array, or a number of Python."""
    kind = dtypes.number_kind(x)
    if kind:
        return dtypes.WIDEST[kind], (), _is_weak(x, kind)
    return x.dtype, x.shape, x._weak


def leaf_array(x):
    """An array of a leaf, with the type of leaf_type()."""
    kind = dtypes.number_kind(x)
    return to_array(x, dtypes.WIDEST[kind])._with_weak(_is_weak(x, kind)) if kind else to_array(x)


def _is_weak(x, kind):
    return kind != "bool" and (kind != "int" or -2**31 <= x < 2**31)


def argument_names(function, structure, count):
    """Names for the leaves of the arguments, from the parameters of the function."""
    code = getattr(function, "__code__", None)
    known = list(code.co_varnames[:code.co_argcount]) if code else []
    names = []
    for i, child in enumerate(structure[2:]):
        names += paths(child, known[i] if i < len(known) else f"x{i}")
    return names if len(names) == count else [f"x{i}" for i in range(count)]


def stage_call(function, args, name=None):
    """Traces function(*args) for the types of these arguments; also gives the leaves as arrays."""
    leaves, structure = flatten(tuple(args))
    leaves = [x if dtypes.number_kind(x) else to_array(x) for x in leaves]
    types = [leaf_type(x) for x in leaves]
    staged = stage(function, types, structure, argument_names(function, structure, len(leaves)), name)
    return staged, [leaf_array(x) for x in leaves], structure


# ---- Transforms ----

_transformed = {}
_TRANSFORMED_ROOM = 512


def transformed(transform, graph, *arguments):
    """transform(graph, *arguments), a function of _core with arguments that have a hash. Equal graphs share the result:
    a function that is differentiated again and again is traced each time, since what it uses from outside may have
    changed, but transformed once."""
    key = (transform.__name__, graph.hash, tuple(i[0] for i in graph.inputs), tuple(o[0] for o in graph.outputs),
           *arguments)
    found = _transformed.get(key)
    if found is None:
        found = transform(graph, *arguments)
        _remember(_transformed, key, found, _TRANSFORMED_ROOM)
    return found


# ---- Running graphs ----

_compiled = {}
_COMPILED_ROOM = 512


def compiled_graph(graph):
    """The executable of a graph; equal graphs share one."""
    key = graph.hash
    found = _compiled.get(key)
    if found is None:
        found = _core.compile(graph)
        _remember(_compiled, key, found, _COMPILED_ROOM)
    return found


def run_graph(graph, arrays):
    """The outputs of a graph on these inputs: run at once, or inside of the function that is being traced."""
    trace = current()
    if trace is not None and any(a._graph is not None for a in arrays):
        return trace.inline(graph, tuple(trace.lift(a) for a in arrays))
    if not graph.outputs:
        return ()
    return compiled_graph(graph).run(arrays)
