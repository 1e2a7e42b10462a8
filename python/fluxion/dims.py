# SPDX-License-Identifier: Apache-2.0
"""Symbolic dimensions: extents that a graph leaves open. Arithmetic on them is exact."""

from . import _core


class Dim:
    """A symbolic dimension, or arithmetic on some."""

    __slots__ = ("code",)

    def __init__(self, code):
        self.code = code

    def __repr__(self):
        return _core.dim_text(self.code)

    def __eq__(self, other):
        return isinstance(other, Dim) and other.code == self.code

    def __hash__(self):
        return hash(self.code)

    def __index__(self):
        raise TypeError(f"the dimension {self} has no extent while the function is traced")


def _make(code):
    return code if _core.dim_is_static(code) else Dim(code)


def _operator(op, flip):
    def method(self, other):
        if not isinstance(other, (int, Dim)):
            return NotImplemented
        other = other.code if isinstance(other, Dim) else other
        return _make(_core.dim_op(op, other, self.code) if flip else _core.dim_op(op, self.code, other))
    return method


for _name, _op in {"add": "+", "sub": "-", "mul": "*", "floordiv": "/"}.items():
    setattr(Dim, f"__{_name}__", _operator(_op, False))
    setattr(Dim, f"__r{_name}__", _operator(_op, True))


def symbol(name):
    """The symbolic dimension of this name."""
    return Dim(_core.dim_symbol(name))
