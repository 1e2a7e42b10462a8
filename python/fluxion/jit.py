# SPDX-License-Identifier: Apache-2.0
"""jit: functions that are traced and compiled for each set of types they are called with. A later call with the same
types runs in C, without any Python code."""

import functools
import types

from . import _core, dtypes, tracing
from .tree import flatten, paths, unflatten

_log = []
_SLOW = (4, 5)  # FLX_LOG_FALLBACK, FLX_LOG_REFUSED: something is computed in a slower way than usual


def log_compiles(enable=True):
    """Logs each compilation of a jitted function, with its types and the time, and what is computed in a slower way
    than usual, to the logger "fluxion" (level WARNING, which Python prints by default), or to a list:
    log_compiles(texts)."""
    if not enable and enable != []:
        _log.clear()
        _core.set_log(None)
        return
    target = enable if isinstance(enable, list) else None

    def write(text):
        if target is not None:
            target.append(text)
        else:
            import logging
            logging.getLogger("fluxion").warning(text)
    _log[:] = [write]
    _core.set_log(lambda event, subject, text: write(f"{subject}: {text}") if event in _SLOW else None)


def _report(name, labels, kinds, count, seconds):
    described = ", ".join(f"{n}: {d.text}[{', '.join(map(str, s))}]" for n, (d, s, _) in zip(labels, kinds))
    for write in _log:
        write(f"compiled {name}({described}) in {seconds * 1e3:.0f} ms; it has {count} versions")


class JitFunction(_core.Jit):
    """A function that is compiled for each set of types it is called with."""

    def __new__(cls, function, static_argnums=(), static_argnames=(), **options):
        return super().__new__(cls)

    def __init__(self, function, static_argnums=(), static_argnames=(), threads=0):
        self.function = function
        self._threads = threads
        self._staged = {}
        static_argnums = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums or ())
        static_argnames = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames or ())
        if static_argnums or static_argnames:
            static_argnums, static_argnames = _both_ways(function, static_argnums, static_argnames)
        self.static_argnums, self.static_argnames = static_argnums, static_argnames
        self._setup(tuple(static_argnums), tuple(static_argnames))
        functools.update_wrapper(self, function, updated=())

    def __get__(self, instance, owner=None):
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self):
        return f"<jit of {tracing.function_name(self.function)}, {len(self._cache)} versions>"

    def cache_size(self):
        """How many sets of types were compiled."""
        return len(self._cache)

    def clear_cache(self):
        """Forgets what was compiled."""
        self._cache.clear()
        self._staged.clear()

    def trace(self, *args, **kwargs):
        """The graph of the function for the types of these arguments."""
        from .files import Graph
        staged, leaves, structure, _ = self._stage(args, kwargs, None)
        return Graph(staged.graph, structure, staged.out_structure, staged.captures)

    lower = trace

    # ---- From C ----

    def _compile(self, key, leaves, args, kwargs):
        import time
        start = time.perf_counter()
        staged, _, _, kinds = self._stage(args, kwargs or {}, leaves)
        if any(a._graph is not None for a in staged.captures) or not staged.graph.outputs:
            return (self._inside(args, kwargs),)
        compiled = _core.compile(staged.graph, 0, self._threads)
        entry = (compiled, staged.out_structure, staged.captures)
        self._cache[key] = entry
        if _log:
            _report(staged.graph.name, staged.names, kinds, len(self._cache), time.perf_counter() - start)
        return entry

    def _inside(self, args, kwargs):
        """A call from a traced function: the graph becomes the body of a `call`, traced once for each set of types."""
        kwargs = kwargs or {}
        fixed, leaves, structure = self._split(args, kwargs, None)
        key = (structure, fixed, tuple(tracing.leaf_type(x) for x in leaves))
        staged = self._staged.get(key)
        if staged is None:
            staged = self._stage(args, kwargs, leaves)[0]
            if all(a._graph is None for a in staged.captures):
                self._staged[key] = staged
        operands = [tracing.leaf_array(x) for x in leaves] + list(staged.captures)
        if not staged.graph.outputs:
            return unflatten(staged.out_structure, [])
        trace = tracing.current()
        results = trace.op("call", tuple(trace.lift(a) for a in operands), (("body", "graph", staged.graph),))
        return unflatten(staged.out_structure, results)

    # ---- Arguments ----

    def _split(self, args, kwargs, leaves):
        """(static arguments, leaves, structure)"""
        moving = tuple(a for i, a in enumerate(args) if i not in self.static_argnums)
        fixed = tuple((i, a) for i, a in enumerate(args) if i in self.static_argnums)
        named = {k: v for k, v in kwargs.items() if k not in self.static_argnames}
        fixed += tuple((k, v) for k, v in sorted(kwargs.items()) if k in self.static_argnames)
        found, structure = flatten((moving, named))
        if leaves is None:
            names = self._names(structure, len(found)) or [f"x{i}" for i in range(len(found))]
            leaves = [x if dtypes.number_kind(x) else _array(x, name) for x, name in zip(found, names)]
        return fixed, leaves, structure

    def _stage(self, args, kwargs, leaves):
        fixed, leaves, structure = self._split(args, kwargs, leaves)
        kinds = [tracing.leaf_type(x) for x in leaves]
        static = dict(fixed)

        def call(moving, named):
            moving = iter(moving)
            positional = [static[i] if i in static else next(moving) for i in range(len(args))]
            return self.function(*positional, **named,
                                 **{k: v for k, v in static.items() if isinstance(k, str)})

        names = self._names(structure, len(leaves))
        staged = tracing.stage(call, kinds, structure, names, tracing.function_name(self.function))
        return staged, leaves, structure, kinds

    def _names(self, structure, count):
        code = getattr(self.function, "__code__", None)
        known = list(code.co_varnames[:code.co_argcount]) if code else []
        known = [n for i, n in enumerate(known) if i not in self.static_argnums]
        names = []
        for i, child in enumerate(structure[2][2:]):
            names += paths(child, known[i] if i < len(known) else f"x{i}")
        names += paths(structure[3])
        return names if len(names) == count else None


def _array(x, name):
    try:
        return tracing.to_array(x)
    except TypeError as problem:
        raise TypeError(f"the argument '{name}': {problem}; static_argnums or static_argnames of jit make an argument "
                        "a constant of any type that has a hash") from None


def _both_ways(function, numbers, names):
    """Positions and names of static arguments, each completed by the other."""
    import inspect
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return numbers, names
    positional = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    numbers = tuple(n % len(positional) if n < 0 and positional else n for n in numbers)
    named = set(names) | {positional[n] for n in numbers if n < len(positional)}
    unknown = [n for n in names if n not in {p.name for p in parameters}]
    if unknown and not any(p.kind == p.VAR_KEYWORD for p in parameters):
        raise ValueError(f"static_argnames: the function has no parameter {unknown[0]!r}")
    return tuple(sorted(set(numbers) | {positional.index(n) for n in names if n in positional})), tuple(sorted(named))


def jit(function=None, *, static_argnums=(), static_argnames=(), threads=0):
    """The function compiled for each set of types it is called with.

    Arguments are trees of arrays and numbers. Static arguments may be any values that have a hash; each of them is
    compiled separately. `threads` limits the threads of a run; 0 is one for each core.

    >>> import fluxion as fx
    >>> @fx.jit
    ... def f(x, y):
    ...     return fx.xp.sin(x) + y
    >>> f(fx.array([0.0, 1.0]), 2)
    Array([2, 2.841471], dtype=float32)
    """
    if function is None:
        return lambda f: jit(f, static_argnums=static_argnums, static_argnames=static_argnames, threads=threads)
    return JitFunction(function, static_argnums, static_argnames, threads=threads)
