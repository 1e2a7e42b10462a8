# SPDX-License-Identifier: Apache-2.0
"""Every op of the library as a function, made from its row of the op table when it is first used: operands first, then
attributes by position or name. fluxion.ops.softmax(x, axis=-1); help(fluxion.ops.softmax) shows the row."""

import keyword

from . import _core, dtypes
from .arrays import Array, to_array
from .tracing import apply_all, cast as _cast  # `cast` is an op
from .xp._operands import _join

_made = {}


class Operand:
    """An operand of a row: its name, its role (index, pred, key ...), whether it may be absent or repeated."""

    __slots__ = ("name", "role", "is_optional", "is_repeated")

    def __init__(self, text):
        self.is_optional = text.startswith("[")
        text = text.strip("[]")
        self.is_repeated = "..." in text
        self.name, _, self.role = text.replace("...", "").partition(":")


def operands_of(row):
    """The operands of a row of the table."""
    return [Operand(part.strip()) for part in row[1].split(",") if part.strip()]


def _python_name(name):
    return name + "_" if keyword.iskeyword(name) else name


def _prepare(operands, given):
    """The given operands as arrays; those without a role meet in one dtype."""
    roles = [operands[min(i, len(operands) - 1)].role if operands else "" for i in range(len(given))]
    values = [v if isinstance(v, Array) or dtypes.number_kind(v) else to_array(v) for v in given]
    plain = [v for v, role in zip(values, roles) if not role]
    if not plain:
        return tuple(to_array(v) for v in values)
    joined, _ = _join(plain)
    return tuple(to_array(v) if role else to_array(v, joined) if not isinstance(v, Array) else _cast(v, joined)
                 for v, role in zip(values, roles))


def _make(name):
    row = _core.op(name)
    if row is None:
        return None
    operands, attributes = operands_of(row), _attributes(row)
    kinds = {a[0]: a[1] for a in attributes}
    repeated = any(o.is_repeated for o in operands)

    def function(*args, **named):
        room = len(args) if repeated else len(operands)
        given, rest = list(args[:room]), args[room:]
        for o in operands[len(given):]:
            if _python_name(o.name) in named:
                given.append(named.pop(_python_name(o.name)))
        given = [g for g in given if g is not None]
        attrs = {a[0]: v for a, v in zip(attributes, rest)}
        if len(rest) > len(attributes):
            raise TypeError(f"{name} takes {len(operands)} operands and {len(attributes)} attributes, got {len(args)}")
        for key, value in named.items():
            attrs[key[:-1] if key.endswith("_") else key] = value
        for key, value in attrs.items():
            if kinds.get(key) == "dtype" and value is not None:
                attrs[key] = dtypes.as_dtype(value)
            elif kinds.get(key) == "graph" and hasattr(value, "graph"):
                attrs[key] = value.graph
        results = apply_all(row[0], _prepare(operands, given), **attrs)
        return results[0] if len(results) == 1 else results

    function.__name__ = function.__qualname__ = _python_name(name)
    function.__module__ = __name__
    function.__doc__ = row[3]
    function.__signature__ = signature(row)
    return function


def signature(row):
    """The signature of the function of a row."""
    import inspect
    parameters, kind = [], inspect.Parameter.POSITIONAL_OR_KEYWORD
    for o in operands_of(row):
        if o.is_repeated:
            parameters.append(inspect.Parameter(_python_name(o.name), inspect.Parameter.VAR_POSITIONAL))
            kind = inspect.Parameter.KEYWORD_ONLY
        elif kind is not inspect.Parameter.KEYWORD_ONLY:
            default = None if o.is_optional else inspect.Parameter.empty
            parameters.append(inspect.Parameter(_python_name(o.name), kind, default=default))
    for name, _, _, required, _, fallback in _attributes(row):
        default = inspect.Parameter.empty if required else _Default(fallback)
        parameters.append(inspect.Parameter(_python_name(name), kind, default=default))
    return inspect.Signature(_ordered(parameters))


def _attributes(row):
    """The attributes of a row, those that must be given first."""
    return sorted(row[7], key=lambda a: not a[3])


def _ordered(parameters):
    """Required attributes after optional ones are given by name."""
    import inspect
    seen, out = False, []
    for p in parameters:
        if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD:
            if seen and p.default is inspect.Parameter.empty:
                p = p.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            seen = seen or p.default is not inspect.Parameter.empty
        out.append(p)
    order = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.VAR_POSITIONAL,
             inspect.Parameter.KEYWORD_ONLY)
    return sorted(out, key=lambda p: order.index(p.kind))


class _Default:
    """How a signature shows the default of an attribute."""

    def __init__(self, text):
        self.text = text

    def __repr__(self):
        return self.text or "None"


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    if name not in _made:
        function = _make(name[:-1] if name.endswith("_") else name)
        if function is None:
            hint = _core.foreign(name)
            note = f": it is written {hint[2]} here. {hint[3]}" if hint and hint[2] else ""
            raise AttributeError(f"there is no op '{name}'{note}")
        _made[name] = function
    return _made[name]


def __dir__():
    return sorted(_python_name(n) for n in _core.op_names())
