# SPDX-License-Identifier: Apache-2.0
"""Control flow inside of traced functions, as in jax.lax: cond, switch, while_loop, fori_loop, scan. Bodies are traced
to graphs of their own; arrays of the outer function that they use become operands."""

from . import dtypes, tracing
from .errors import ShapeError
from .tracing import Trace, current, leaf_array, settle, stage
from .tree import flatten, unflatten


def _in_trace(function, operands):
    """function(operands) inside of a traced function, or in one that is made for it."""
    if current() is not None:
        return function(operands)
    leaves, structure = flatten(operands)
    arrays = [settle(leaf_array(x)) for x in leaves]
    kinds = [(a.dtype, a.shape, False) for a in arrays]
    staged = stage(lambda tree: function(tree), kinds, (tuple, None, structure), name="control")
    return unflatten(staged.out_structure, tracing.run_graph(staged.graph, [*arrays, *staged.captures]))


def _operands(tree):
    """(arrays of the current trace, structure)"""
    leaves, structure = flatten(tree)
    trace = current()
    return [trace.lift(settle(leaf_array(x))) for x in leaves], structure


def _kinds(arrays):
    return [(a.dtype, a.shape, False) for a in arrays]


class _Bodies:
    """Bodies of one op, with their captures joined: each capture of any of them is an operand of all."""

    def __init__(self, staged):
        self.staged = staged
        self.captures, self._positions = [], {}
        for s in staged:
            for a in s.captures:
                key = (id(a._graph), a._id) if a._graph is not None else id(a)
                if key not in self._positions:
                    self._positions[key] = len(self.captures)
                    self.captures.append(a)

    def lifted(self):
        trace = current()
        return [trace.lift(a) for a in self.captures]

    def own(self, s, captured):
        """Those of the joined captures that body s needs, in its order."""
        keys = [(id(a._graph), a._id) if a._graph is not None else id(a) for a in s.captures]
        return [captured[self._positions[k]] for k in keys]


def _body(name, kinds, build):
    """A graph of inputs of these kinds, whose outputs are what build(graph, inputs) gives."""
    graph = Trace(name)
    inputs = [graph.input(f"x{i}", k[0], k[1]) for i, k in enumerate(kinds)]
    for value in build(graph, inputs):
        graph.output(value, None)
    return graph


def _cast_in(graph, value, dtype):
    return value if value.dtype is dtype else graph.op("cast", (value,), (("to", "dtype", dtype),))[0]


# ---- Branches ----

def cond(pred, true_fun, false_fun, *operands):
    """true_fun(*operands) where pred is true, otherwise false_fun(*operands). A pred with a value decides at once."""
    pred = tracing.to_array(pred)
    if pred._graph is None:
        return (true_fun if bool(pred) else false_fun)(*operands)
    return _branch("if", pred, [true_fun, false_fun], operands)


def switch(index, branches, *operands):
    """branches[index](*operands); an index out of range is clamped."""
    from . import xp
    index = tracing.to_array(index)
    if index._graph is None:
        return branches[min(max(int(index), 0), len(branches) - 1)](*operands)
    index = tracing.cast(xp.clip(index, 0, len(branches) - 1), dtypes.int32)
    return _branch("case", index, list(branches), operands)


def _branch(op, selector, functions, operands):
    arrays, structure = _operands(tuple(operands))
    staged = [stage(f, _kinds(arrays), structure) for f in functions]
    first = staged[0]
    for s in staged[1:]:
        if s.out_structure != first.out_structure:
            raise TypeError(f"branches return different trees: {first.out_structure} and {s.out_structure}")
    wide = []
    for k, (dtype, shape) in enumerate(first.types):
        for s in staged[1:]:
            if s.types[k][1] != shape:
                raise ShapeError("SHAPE", f"branches return different shapes: {shape} and {s.types[k][1]}")
            dtype = dtypes.promote(dtype, s.types[k][0])
        wide.append(dtype)
    if not wide:
        return unflatten(first.out_structure, [])
    bodies = _Bodies(staged)
    captured = bodies.lifted()
    kinds = _kinds([*arrays, *captured])
    n = len(arrays)
    graphs = [_body(s.graph.name, kinds, lambda g, x, s=s: [
        _cast_in(g, y, d) for y, d in zip(g.inline(s.graph, [*x[:n], *bodies.own(s, x[n:])]), wide)]) for s in staged]
    attrs = (("then", "graph", graphs[0]), ("else", "graph", graphs[1])) if op == "if" else (
        ("branches", "graphs", tuple(graphs)),)
    trace = current()
    results = trace.op(op, (trace.lift(selector), *arrays, *captured), attrs)
    return unflatten(first.out_structure, results)


# ---- Loops ----

def _stable(function, arrays, structure, what, pick=lambda s: s):
    """Traces a body until the types of its carry are those of its input: initial values that are narrower than what
    the body returns are converted once."""
    for attempt in range(2):
        staged = function(arrays)
        found = pick(staged)
        if found[0] != structure:
            raise TypeError(f"{what}: the carry has the structure {structure}, the body returns {found[0]}")
        wrong = [(a, t) for a, t in zip(arrays, found[1]) if (a.dtype, a.shape) != t]
        if not wrong:
            return staged, arrays
        a, t = wrong[0]
        if attempt or a.shape != t[1] or dtypes.promote(a.dtype, t[0]) is not t[0]:
            break
        arrays = [tracing.cast(a, t[0]) for a, t in zip(arrays, found[1])]
    a, t = wrong[0]
    raise TypeError(f"{what}: a carry is {tracing.describe(a)}, but the body returns "
                    f"{t[0].text}[{', '.join(map(str, t[1]))}]; both must have the same type")


def while_loop(cond_fun, body_fun, init_val, max_iterations=None):
    """val = body_fun(val) as long as cond_fun(val) is true. `max_iterations` bounds the loop, and with it the memory
    of its gradient."""
    return _in_trace(lambda init: _while(cond_fun, body_fun, init, max_iterations), init_val)


def _while(cond_fun, body_fun, init_val, max_iterations):
    arrays, structure = _operands(init_val)
    whole = (tuple, None, structure)
    body, arrays = _stable(lambda xs: stage(body_fun, _kinds(xs), whole), arrays, structure, "while_loop",
                           lambda s: (s.out_structure, s.types))
    test = stage(cond_fun, _kinds(arrays), whole)
    if test.types != [(dtypes.bool_, ())]:
        raise TypeError("while_loop: cond_fun must return one bool")
    bodies = _Bodies([test, body])
    captured = bodies.lifted()
    kinds, n = _kinds([*arrays, *captured]), len(arrays)
    graph_test = _body("cond", kinds, lambda g, x: g.inline(test.graph, [*x[:n], *bodies.own(test, x[n:])]))
    graph_body = _body("body", kinds, lambda g, x: [
        *g.inline(body.graph, [*x[:n], *bodies.own(body, x[n:])]), *x[n:]])
    attrs = (("cond", "graph", graph_test), ("body", "graph", graph_body))
    if max_iterations is not None:
        attrs += (("max_iterations", "int", max_iterations),)
    results = current().op("while", (*arrays, *captured), attrs)
    return unflatten(structure, results[:n])


def scan(f, init, xs=None, length=None, reverse=False, unroll=1, num_checkpoints=0):
    """Folds f over the leading axis of xs: carry, y = f(carry, x) for each x; gives the last carry and all ys.
    With num_checkpoints the gradient keeps that many carries and computes the others again."""
    return _in_trace(lambda both: _scan(f, both[0], both[1], length, reverse, num_checkpoints), (init, xs))


def _scan(f, init, xs, length, reverse, num_checkpoints):
    carries, structure = _operands(init)
    sequences, xs_structure = _operands(xs)
    for x in sequences:
        if not x.ndim:
            raise TypeError("scan: xs need a leading axis")
        length = x.shape[0] if length is None else length
        if x.shape[0] != length:
            raise ValueError(f"scan: xs have the leading extents {length} and {x.shape[0]}")
    if length is None:
        raise ValueError("scan needs xs or a length")
    slices = [(x.dtype, x.shape[1:], False) for x in sequences]

    def trace_body(arrays):
        return stage(f, [*_kinds(arrays), *slices], (tuple, None, structure, xs_structure))

    def carry_part(s):
        if not (isinstance(s.out_structure, tuple) and s.out_structure[0] is tuple and len(s.out_structure) == 4):
            raise TypeError("scan: the function must return (carry, y)")
        return s.out_structure[2], s.types[:len(carries)]

    body, carries = _stable(trace_body, carries, structure, "scan", carry_part)
    return _append_scan(body, carries, sequences, structure, length, reverse, num_checkpoints)


def _append_scan(body, carries, sequences, structure, length, reverse, num_checkpoints):
    trace = current()
    captured = [trace.lift(a) for a in body.captures]
    n, c = len(carries), len(captured)
    kinds = [*_kinds(carries), *_kinds(captured), *((x.dtype, x.shape[1:], False) for x in sequences)]
    graph = _body("body", kinds, lambda g, x: g.inline(body.graph, [*x[:n], *x[n + c:], *x[n:n + c]]))
    attrs = (("body", "graph", graph), ("num_carry", "int", n), ("num_bcast", "int", c),
             ("num_xs", "int", len(sequences)), ("length", "dim", length), ("reverse", "bool", bool(reverse)))
    if num_checkpoints:
        attrs += (("num_checkpoints", "int", num_checkpoints),)
    results = trace.op("scan", (*carries, *captured, *sequences), attrs)
    return unflatten(structure, results[:n]), unflatten(body.out_structure[3], results[n:])


def fori_loop(lower, upper, body_fun, init_val):
    """val = body_fun(i, val) for i from lower up to but not including upper. Where both are numbers of Python the
    gradient knows the number of steps; otherwise it is a while_loop."""
    from . import xp
    if isinstance(lower, int) and isinstance(upper, int):
        steps = xp.arange(lower, max(lower, upper), dtype=dtypes.int32)
        if upper <= lower:
            return init_val
        return scan(lambda val, i: (body_fun(i, val), None), init_val, steps)[0]
    start = tracing.cast(tracing.to_array(lower), dtypes.int32)
    stop = tracing.cast(tracing.to_array(upper), dtypes.int32)
    return while_loop(lambda state: state[0] < stop, lambda state: (state[0] + 1, body_fun(state[0], state[1])),
                      (start, init_val))[1]
