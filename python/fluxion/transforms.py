# SPDX-License-Identifier: Apache-2.0
"""Derivatives and batching of functions, with the calling conventions of JAX. Each traces its function for the types of
the arguments, transforms the graph, and runs it; inside of a traced function the new graph becomes part of the outer
one. So they combine in any order. Under jit all of this happens once for each set of types."""

import functools
import threading

from . import _core, dtypes, tracing
from .errors import DTypeError
from .tracing import apply, current, leaf_array, run_graph, stage_call, transformed
from .tree import broadcast_prefix, count_leaves, flatten, tree_map, unflatten

_VALUE, _MISSING_ZERO, _SEED_INPUT = 1, 2, 4  # FLX_GRAD_…
_FORWARD, _REVERSE = 1, 2  # FLX_JACOBIAN_…


# ---- Arguments ----

def _numbers(argnums, count):
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    for n in numbers:
        if not -count <= n < count:
            raise ValueError(f"argnums has {n}, but the function is called with {count} positional arguments")
    return [n % count for n in numbers]


def _ranges(structure):
    """The positions of the leaves of each argument."""
    ranges, at = [], 0
    for child in structure[2:]:
        n = count_leaves(child)
        ranges.append(range(at, at + n))
        at += n
    return ranges


class _Call:
    """A function traced for some arguments, and which leaves a transform is about."""

    def __init__(self, function, args, kwargs, argnums=None):
        bound = functools.partial(function, **kwargs) if kwargs else function
        self.staged, self.leaves, self.structure = stage_call(bound, args, tracing.function_name(function))
        self.ranges = _ranges(self.structure)
        self.numbers = list(range(len(args))) if argnums is None else _numbers(argnums, len(args))
        self.single = isinstance(argnums, int)
        self.positions = [i for n in self.numbers for i in self.ranges[n]]

    @property
    def inputs(self):
        return [*self.leaves, *self.staged.captures]

    def names(self, positions=None):
        return tuple(self.staged.names[i] for i in (self.positions if positions is None else positions))

    def floating(self):
        """The positions of leaves that have derivatives."""
        return [i for i in self.positions if dtypes.is_inexact(self.leaves[i].dtype)]

    def need_floats(self, what):
        for i in self.positions:
            if not dtypes.is_inexact(self.leaves[i].dtype):
                raise DTypeError("DTYPE", f"{what} with respect to '{self.staged.names[i]}', which is "
                                 f"{tracing.describe(self.leaves[i])}: only floating arguments have derivatives", "",
                                 "choose other argnums, or convert it: x.astype(fluxion.float32)")

    def as_given(self, i, derivative):
        """The derivative with respect to leaf i, in the dtype that the leaf has for the caller."""
        leaf = self.leaves[i]
        return tracing.cast(derivative, dtypes.DEFAULT[dtypes.weak_kind(leaf.dtype)]) if leaf._weak else derivative

    def rebuild(self, values):
        """The values, one for each leaf of the chosen arguments, as trees like the arguments."""
        values, trees = list(values), []
        for n in self.numbers:
            count = len(self.ranges[n])
            trees.append(unflatten(self.structure[2 + n], values[:count]))
            values = values[count:]
        return trees[0] if self.single else tuple(trees)


def _run_named(graph, values):
    return run_graph(graph, [values[i[0]] for i in graph.inputs])


def _wrap(function, what):
    def decorate(wrapper):
        functools.update_wrapper(wrapper, function, updated=())
        wrapper.__name__ = f"{what}_{tracing.function_name(function)}"
        return wrapper
    return decorate


# ---- Reverse mode ----

def _loss_parts(call, has_aux, what):
    """Checks that the result is a scalar, or (scalar, aux); gives the structure of aux."""
    structure, aux = call.staged.out_structure, None
    if has_aux:
        if not (isinstance(structure, tuple) and structure[0] is tuple and len(structure) == 4):
            raise TypeError(f"{what} with has_aux=True needs a function that returns (value, aux)")
        structure, aux = structure[2], structure[3]
    if isinstance(structure, tuple) or structure is None:
        raise TypeError(f"{what} needs a function that returns one scalar, got a tree: {structure}")
    dtype, shape = call.staged.types[0]
    if shape != ():
        raise TypeError(f"{what} needs a function that returns a scalar, but '{call.staged.graph.name}' returns "
                        f"{dtype.text}[{', '.join(map(str, shape))}]: use .sum() or jacrev")
    if dtype.kind != "float":
        raise DTypeError("DTYPE", f"{what} needs a real floating result, got {dtype.text}[]")
    return aux


def value_and_grad(fun, argnums=0, has_aux=False, allow_int=False):
    """A function that gives fun's value and its gradient with respect to the arguments `argnums`.

    >>> import fluxion as fx
    >>> fx.value_and_grad(lambda x: x * x)(3.0)
    (Array(9, dtype=float32), Array(6, dtype=float32))
    """
    @_wrap(fun, "value_and_grad")
    def wrapper(*args, **kwargs):
        call = _Call(fun, args, kwargs, argnums)
        if not allow_int:
            call.need_floats("grad")
        aux = _loss_parts(call, has_aux, "grad")
        wanted = call.floating()
        graph = transformed(_core.grad, call.staged.graph, call.names(wanted), _VALUE | _MISSING_ZERO)
        outputs = list(run_graph(graph, call.inputs))
        rest = len(outputs) - len(wanted)
        derivatives = dict(zip(wanted, outputs[rest:]))
        gradient = call.rebuild(call.as_given(i, derivatives[i]) if i in derivatives else None
                                for i in call.positions)
        value = outputs[0]
        return ((value, unflatten(aux, outputs[1:rest])) if has_aux else value), gradient
    return wrapper


def grad(fun, argnums=0, has_aux=False, allow_int=False):
    """A function that gives the gradient of fun, which returns a scalar.

    >>> import fluxion as fx
    >>> fx.grad(fx.xp.tanh)(0.0)
    Array(1, dtype=float32)
    """
    both = value_and_grad(fun, argnums, has_aux, allow_int)

    @_wrap(fun, "grad")
    def wrapper(*args, **kwargs):
        value, gradient = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient
    return wrapper


def vjp(fun, *primals, has_aux=False):
    """fun(*primals), and a function from cotangents of the result to those of the arguments. That function computes
    what it needs of fun again, so that nothing is kept between the calls; inside of jit both share it."""
    call = _Call(fun, primals, {})
    outputs = run_graph(call.staged.graph, call.inputs)
    structure, aux = call.staged.out_structure, None
    count = len(outputs)
    if has_aux:
        structure, aux = structure[2], structure[3]
        count = count_leaves(structure)
    wanted = call.floating()

    def pull_back(cotangents):
        leaves, found = flatten(cotangents)
        if found != structure:
            raise ValueError(f"the cotangent has the structure {found}, the result {structure}")
        seeds = [tracing.cast(tracing.to_array(c), o.dtype) for c, o in zip(leaves, outputs)]
        graph = _seeded(call, seeds, count)
        values = run_graph(graph, [*call.inputs, *seeds])
        derivatives = dict(zip(wanted, values[-len(wanted):] if wanted else ()))
        return call.rebuild(call.as_given(i, derivatives[i]) if i in derivatives else None for i in call.positions)

    value = unflatten(structure, outputs[:count])
    return (value, pull_back, unflatten(aux, outputs[count:])) if has_aux else (value, pull_back)


def _seeded(call, seeds, count):
    """The gradient of the sum of the products of results and seeds, whose inputs are last."""
    outer = tracing.Trace(call.staged.graph.name)
    body = call.staged.graph
    inputs = [outer.input(*i) for i in body.inputs]
    extra = [outer.input(f"seed{i}", s.dtype, s.shape) for i, s in enumerate(seeds)]
    results = outer.inline(body, inputs)[:count]
    total = None
    for r, s in zip(results, extra):
        if not dtypes.is_inexact(r.dtype):
            continue
        product = outer.op("mul", (r, s if r.dtype.kind == "float" else outer.op("conjugate", (s,), ())[0]), ())[0]
        if r.dtype.kind == "complex":
            product = outer.op("real", (product,), ())[0]
        term = outer.op("reduce_sum", (product,), ())[0]
        if total is not None and term.dtype is not total.dtype:
            wide = dtypes.promote(term.dtype, total.dtype)
            term, total = (outer.op("cast", (t,), (("to", "dtype", wide),))[0] for t in (term, total))
        total = term if total is None else outer.op("add", (total, term), ())[0]
    if total is None:
        raise DTypeError("DTYPE", "vjp needs a floating result")
    outer.output(total, "loss")
    return transformed(_core.grad, outer, call.names(call.floating()), _MISSING_ZERO)


# ---- Forward mode ----

def _tangents(call, tangents):
    """{name of the tangent's input: array} for all floating leaves."""
    leaves, structure = flatten(tuple(tangents))
    if structure != call.structure:
        raise ValueError(f"tangents have the structure {structure}, primals {call.structure}")
    values = {}
    for i in call.floating():
        t = leaf_array(leaves[i])
        leaf = call.leaves[i]
        if t.shape != leaf.shape:
            raise ValueError(f"the tangent of '{call.staged.names[i]}' has the shape {t.shape}, the argument "
                             f"{leaf.shape}")
        values["tangent_" + call.staged.names[i]] = tracing.cast(t, leaf.dtype)
    return values


def _inputs_by_name(call):
    return dict(zip((i[0] for i in call.staged.graph.inputs), call.inputs))


def _zeros_like(output):
    from . import xp
    return xp.zeros(output[2], dtype=output[1])


def jvp(fun, primals, tangents, has_aux=False):
    """fun(*primals) and its derivative in the direction of the tangents."""
    call = _Call(fun, primals, {})
    values = _inputs_by_name(call) | _tangents(call, tangents)
    graph = transformed(_core.jvp, call.staged.graph, call.names(call.floating()))
    outputs = dict(zip((o[0] for o in graph.outputs), _run_named(graph, values)))
    names = [o for o in call.staged.graph.outputs]
    value = [outputs[o[0]] for o in names]
    tangent = [outputs.get("tangent_" + o[0]) for o in names]
    tangent = [_zeros_like(o) if t is None else t for t, o in zip(tangent, names)]
    structure = call.staged.out_structure
    if has_aux:
        count = count_leaves(structure[2])
        return (unflatten(structure[2], value[:count]), unflatten(structure[2], tangent[:count]),
                unflatten(structure[3], value[count:]))
    return unflatten(structure, value), unflatten(structure, tangent)


def hvp(fun, primals, tangents):
    """The Hessian of fun, which returns a scalar, times the tangents: forward mode over reverse mode. A tree like the
    argument, or a tuple of trees where there are several.

    >>> import fluxion as fx
    >>> fx.hvp(lambda x: (x ** 3).sum(), (fx.array([1.0, 2.0]),), (fx.array([1.0, 1.0]),))
    Array([6, 12], dtype=float32)
    """
    call = _Call(fun, primals, {})
    _loss_parts(call, False, "hvp")
    wanted = call.floating()
    values = _inputs_by_name(call) | _tangents(call, tangents)
    graph = transformed(_core.hvp, call.staged.graph, call.names(wanted))
    found = dict(zip((o[0] for o in graph.outputs), _run_named(graph, values)))
    products = {i: found["hvp_" + call.staged.names[i]] for i in wanted}
    call.single = len(primals) == 1
    return call.rebuild(call.as_given(i, products[i]) if i in products else None for i in call.positions)


def taylor(fun, primals, tangents, order):
    """fun(*primals), and the list of its derivatives of order 1 ... `order` along the tangents: d^k/dt^k of
    fun(x + t v) at t = 0."""
    call = _Call(fun, primals, {})
    values = _inputs_by_name(call) | _tangents(call, tangents)
    graph = transformed(_core.taylor, call.staged.graph, call.names(call.floating()), order)
    found = dict(zip((o[0] for o in graph.outputs), _run_named(graph, values)))
    outputs = call.staged.graph.outputs
    structure = call.staged.out_structure
    value = unflatten(structure, [found[o[0]] for o in outputs])
    series = []
    for k in range(1, order + 1):
        terms = [found.get(f"taylor_{o[0]}_{k}") for o in outputs]
        series.append(unflatten(structure, [_zeros_like(o) if t is None else t for t, o in zip(terms, outputs)]))
    return value, series


# ---- Jacobians ----

def _jacobian(fun, argnums, has_aux, mode, what):
    @_wrap(fun, what)
    def wrapper(*args, **kwargs):
        call = _Call(fun, args, kwargs, argnums)
        call.need_floats(what)
        structure, aux = call.staged.out_structure, None
        body = call.staged.graph
        outputs = body.outputs
        count = len(outputs)
        if has_aux:
            structure, aux = structure[2], structure[3]
            count = count_leaves(structure)
        graph = transformed(_core.jacobian, body, call.names(), mode, False)
        found = dict(zip((o[0] for o in graph.outputs), run_graph(graph, call.inputs)))
        blocks = []
        for o in outputs[:count]:
            row = [call.as_given(i, found[f"jac_{o[0]}_{call.staged.names[i]}"]) for i in call.positions]
            blocks.append(call.rebuild(row))
        jacobian = unflatten(structure, blocks)
        if not has_aux:
            return jacobian
        return jacobian, unflatten(aux, run_graph(body, call.inputs)[count:])
    return wrapper


def jacfwd(fun, argnums=0, has_aux=False):
    """A function that gives the Jacobian of fun, by forward mode: each block has the axes of the result, then those of
    the argument."""
    return _jacobian(fun, argnums, has_aux, _FORWARD, "jacfwd")


def jacrev(fun, argnums=0, has_aux=False):
    """A function that gives the Jacobian of fun, by reverse mode."""
    return _jacobian(fun, argnums, has_aux, _REVERSE, "jacrev")


def hessian(fun, argnums=0, has_aux=False):
    """A function that gives the second derivatives of fun.

    >>> import fluxion as fx
    >>> fx.hessian(lambda x: x[0] * x[1])(fx.array([2.0, 3.0]))
    Array([[0, 1],
           [1, 0]], dtype=float32)
    """
    general = jacfwd(jacrev(fun, argnums, has_aux), argnums, has_aux)

    @_wrap(fun, "hessian")
    def wrapper(*args, **kwargs):
        call = _Call(fun, args, kwargs, argnums)
        if has_aux or len(call.staged.types) != 1 or call.staged.types[0][1] != ():
            return general(*args, **kwargs)
        call.need_floats("hessian")
        graph = transformed(_core.jacobian, call.staged.graph, call.names(), 0, True)
        found = dict(zip((o[0] for o in graph.outputs), run_graph(graph, call.inputs)))
        names = call.staged.names
        rows = [call.rebuild(call.as_given(j, found[f"hessian_{names[i]}_{names[j]}"]) for j in call.positions)
                for i in call.positions]
        return unflatten(call.staged.out_structure, [call.rebuild(rows)])
    return wrapper


# ---- Batching ----

def vmap(fun, in_axes=0, out_axes=0, axis_size=None):
    """The function for one more axis: of each argument at in_axes (None: shared), of the results at out_axes. Both may
    be trees that the arguments or results begin with.

    >>> import fluxion as fx
    >>> fx.vmap(lambda x, w: x @ w, in_axes=(0, None))(fx.xp.ones((4, 3)), fx.xp.ones((3, 2))).shape
    (4, 2)
    """
    @_wrap(fun, "vmap")
    def wrapper(*args, **kwargs):
        leaves, structure = flatten(args)
        if isinstance(in_axes, (tuple, list)) and len(in_axes) != len(args):
            raise ValueError(f"vmap: in_axes has {len(in_axes)} entries for {len(args)} arguments")
        axes = broadcast_prefix(tuple(in_axes) if isinstance(in_axes, list) else in_axes, structure, "in_axes")
        leaves = [leaf_array(x) for x in leaves]
        size = _batch_size(leaves, axes, axis_size)
        axes = [a if a is None else a % x.ndim for x, a in zip(leaves, axes)]
        kinds = [_one_example(x, a) for x, a in zip(leaves, axes)]
        bound = functools.partial(fun, **kwargs) if kwargs else fun
        names = tracing.argument_names(fun, structure, len(leaves))
        staged = tracing.stage(bound, kinds, structure, names, tracing.function_name(fun))
        out = broadcast_prefix(out_axes, staged.out_structure, "out_axes")
        batched = [(n, a) for n, a in zip(staged.names, axes) if a is not None]
        graph = transformed(_core.vmap, staged.graph, tuple(n for n, _ in batched), tuple(a for _, a in batched),
                            tuple(out), size)
        return unflatten(staged.out_structure, run_graph(graph, [*leaves, *staged.captures]))
    return wrapper


def _one_example(x, axis):
    if axis is None:
        return x.dtype, x.shape, x._weak
    return x.dtype, x.shape[:axis] + x.shape[axis + 1:], x._weak


def _batch_size(leaves, axes, axis_size):
    sizes = {}
    for x, a in zip(leaves, axes):
        if a is None:
            continue
        if not -x.ndim <= a < x.ndim:
            raise ValueError(f"vmap: axis {a} is out of range for {tracing.describe(x)}")
        sizes.setdefault(x.shape[a], tracing.describe(x))
    if axis_size is not None:
        sizes.setdefault(axis_size, "axis_size")
    if len(sizes) > 1:
        listed = ", ".join(f"{n} ({what})" for n, what in sizes.items())
        raise ValueError(f"vmap: the batch axes have different extents: {listed}")
    if not sizes:
        raise ValueError("vmap: no argument has a batch axis; in_axes must not be None for all")
    return next(iter(sizes))


# ---- Functions with rules of their own ----

def stop_gradient(x):
    """The tree, with derivative zero."""
    return tree_map(lambda a: apply("stop_gradient", tracing.to_array(a)), x)


def checkpoint(fun):
    """The function, whose gradient computes its intermediate values again instead of keeping them."""
    @_wrap(fun, "checkpoint")
    def wrapper(*args, **kwargs):
        if current() is None:
            return fun(*args, **kwargs)
        call = _Call(fun, args, kwargs)
        if not call.staged.graph.outputs:
            return unflatten(call.staged.out_structure, [])
        trace = current()
        results = trace.op("custom_fn", tuple(trace.lift(a) for a in call.inputs),
                           (("fwd_body", "graph", call.staged.graph), ("recompute", "bool", True)))
        return unflatten(call.staged.out_structure, results)
    return wrapper


class custom_vjp:
    """A function with a reverse mode of its own: defvjp(fwd, bwd), where fwd(*args) gives (result, residuals) and
    bwd(residuals, cotangent) a tuple of cotangents, one for each argument (None: zero)."""

    def __init__(self, fun, nondiff_argnums=()):
        self.fun, self.fwd, self.bwd = fun, None, None
        self._in_rule = threading.local()
        self.nondiff = (nondiff_argnums,) if isinstance(nondiff_argnums, int) else tuple(nondiff_argnums)
        functools.update_wrapper(self, fun, updated=())

    def defvjp(self, fwd, bwd):
        """Sets the functions of the reverse mode."""
        self.fwd, self.bwd = fwd, bwd
        return fwd

    def __get__(self, instance, owner=None):
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args):
        if self.fwd is None:
            raise AttributeError(f"{tracing.function_name(self.fun)}: defvjp(fwd, bwd) was not called")
        if current() is None or getattr(self._in_rule, "active", False):
            return self.fun(*args)
        fixed = {i: args[i] for i in self.nondiff}
        moving = [a for i, a in enumerate(args) if i not in fixed]

        def forward(*xs):
            xs = iter(xs)
            self._in_rule.active = True  # fwd may call the function itself, which is then computed as it is
            try:
                return self.fwd(*(fixed[i] if i in fixed else next(xs) for i in range(len(args))))
            finally:
                self._in_rule.active = False

        return self._append(forward, moving, [fixed[i] for i in self.nondiff])

    def _append(self, forward, moving, leading):
        call = _Call(forward, moving, {})
        structure = call.staged.out_structure
        if not (isinstance(structure, tuple) and structure[0] is tuple and len(structure) == 4):
            raise TypeError("custom_vjp: fwd must return (result, residuals)")
        results = count_leaves(structure[2])
        kinds = [(d, s, False) for d, s in call.staged.types]

        def backward(residuals, cotangent):
            out = self.bwd(*leading, residuals, cotangent)
            return _fill_cotangents(call, out)

        back = tracing.stage(backward, [*kinds[results:], *kinds[:results]],
                             (tuple, None, structure[3], structure[2]), name="backward")
        return self._node(call, back, results)

    def _node(self, call, back, results):
        """Joins the captures of both bodies: each becomes an operand, with cotangent zero."""
        trace = current()
        captures = [*call.staged.captures, *back.captures]
        operands = [trace.lift(a) for a in (*call.leaves, *captures)]
        first = len(call.leaves) + len(call.staged.captures)
        fwd, outputs = _forward_body(call, operands)
        rev = tracing.Trace("backward")
        inputs = [rev.input(f"x{i}", a.dtype, a.shape) for i, a in enumerate(operands)]
        values = [rev.input(f"y{i}", o.dtype, o.shape) for i, o in enumerate(outputs)]
        seeds = [rev.input(f"d{i}", o.dtype, o.shape) for i, o in enumerate(outputs[:results])]
        found = rev.inline(back.graph, [*values[results:], *seeds, *inputs[first:]])
        derivatives = dict(zip(call.floating(), found))
        for i, a in enumerate(operands):
            if dtypes.is_inexact(a.dtype):
                rev.output(derivatives[i] if i in derivatives else _zero_in(rev, a), None)
        made = trace.op("custom_fn", tuple(operands),
                        (("fwd_body", "graph", fwd), ("vjp_body", "graph", rev),
                         ("num_residuals", "int", len(outputs) - results)))
        return unflatten(call.staged.out_structure[2], made[:results])


class custom_jvp:
    """A function with a forward mode of its own: defjvp(rule), where rule(primals, tangents) gives (result, tangent of
    the result). Reverse mode transposes the rule, which must be linear in the tangents.

    >>> import fluxion as fx
    >>> f = fx.custom_jvp(lambda x: x * x)
    >>> _ = f.defjvp(lambda primals, tangents: (primals[0] ** 2, 10 * primals[0] * tangents[0]))
    >>> fx.grad(f)(3.0)
    Array(30, dtype=float32)
    """

    def __init__(self, fun):
        self.fun, self.rule, self._in_rule = fun, None, threading.local()
        functools.update_wrapper(self, fun, updated=())

    def defjvp(self, rule):
        """Sets the function of the forward mode."""
        self.rule = rule
        return rule

    def __get__(self, instance, owner=None):
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args):
        if self.rule is None:
            raise AttributeError(f"{tracing.function_name(self.fun)}: defjvp(rule) was not called")
        if current() is None or getattr(self._in_rule, "active", False):
            return self.fun(*args)
        call = _Call(self.fun, args, {})
        kinds = [(x.dtype, x.shape, False) for x in call.leaves]
        rule = tracing.stage(lambda primals, tangents: self._tangent(call, primals, tangents), [*kinds, *kinds],
                             (tuple, None, call.structure, call.structure), name="forward")
        return self._node(call, rule)

    def _tangent(self, call, primals, tangents):
        self._in_rule.active = True  # as in custom_vjp
        try:
            _, tangent = self.rule(primals, tangents)
        finally:
            self._in_rule.active = False
        leaves, structure = flatten(tangent)
        if structure != call.staged.out_structure:
            raise TypeError(f"custom_jvp: the tangent has the structure {structure}, the result "
                            f"{call.staged.out_structure}")
        return [tracing.cast(tracing.to_array(t), d) for t, (d, _) in zip(leaves, call.staged.types)]

    def _node(self, call, rule):
        trace = current()
        operands = [trace.lift(a) for a in (*call.leaves, *call.staged.captures, *rule.captures)]
        count, first = len(call.leaves), len(call.leaves) + len(call.staged.captures)
        fwd, outputs = _forward_body(call, operands)
        body = tracing.Trace("forward")
        inputs = [body.input(f"x{i}", a.dtype, a.shape) for i, a in enumerate(operands)]
        tangents = [body.input(f"t{i}", a.dtype, a.shape) for i, a in enumerate(operands)]
        for i, o in enumerate(outputs):
            body.input(f"y{i}", o.dtype, o.shape)
        for t in body.inline(rule.graph, [*inputs[:count], *tangents[:count], *inputs[first:]]):
            body.output(t, None)
        made = trace.op("custom_fn", tuple(operands), (("fwd_body", "graph", fwd), ("jvp_body", "graph", body)))
        return unflatten(call.staged.out_structure, made)


def _forward_body(call, operands):
    """The graph of a traced function with these operands as its inputs: its own, then those of other bodies."""
    graph = tracing.Trace(call.staged.graph.name)
    inputs = [graph.input(f"x{i}", a.dtype, a.shape) for i, a in enumerate(operands)]
    outputs = graph.inline(call.staged.graph, inputs[:len(call.leaves) + len(call.staged.captures)])
    for o in outputs:
        graph.output(o, None)
    return graph, outputs


def _zero_in(graph, like):
    zero = graph.scalar(like.dtype, 0.0)
    return graph.op("expand", (zero,), (("shape", "dims", like.shape),))[0] if like.shape else zero


def _fill_cotangents(call, out):
    """What bwd returned, as a list of arrays for the floating leaves; None means zero."""
    from . import xp
    if not isinstance(out, (tuple, list)) or len(out) != len(call.ranges):
        raise TypeError(f"custom_vjp: bwd must return a tuple of {len(call.ranges)} cotangents, got {out!r}")
    filled = []
    for part, positions, structure in zip(out, call.ranges, call.structure[2:]):
        if part is None:
            leaves = [None] * len(positions)
        else:
            leaves, found = flatten(part)
            if found != structure:
                raise TypeError(f"custom_vjp: a cotangent has the structure {found}, its argument {structure}")
        for i, leaf in zip(positions, leaves):
            like = call.leaves[i]
            if not dtypes.is_inexact(like.dtype):
                continue
            leaf = 0 if leaf is None else leaf
            value = tracing.cast(tracing.to_array(leaf), like.dtype)
            filled.append(xp.broadcast_to(value, like.shape))
    return filled
