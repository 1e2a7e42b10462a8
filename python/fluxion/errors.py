# SPDX-License-Identifier: Apache-2.0
"""Errors of the library as exceptions. Each is also one of Python's own, so that `except ValueError` works."""


class Error(Exception):
    """What the library reports: `code` ("SHAPE"), `message`, `where` (a node or a line of a file) and `hint`."""

    def __init__(self, code="", message="", where="", hint=""):
        self.code, self.message, self.where, self.hint = code, message, where, hint
        text = f"{code}: {message}" if code else message
        if where and where not in message:
            text += f" (at {where})"
        if hint:
            text += f"\nhint: {hint}"
        super().__init__(text)

    def __reduce__(self):
        return (type(self), (self.code, self.message, self.where, self.hint))


class ShapeError(Error, ValueError):
    """Shapes do not fit."""


class DTypeError(Error, TypeError):
    """A dtype is not accepted."""


class UsageError(Error, ValueError):
    """An argument, attribute or name is not accepted."""


class SyntaxProblem(Error, ValueError):
    """A text or file could not be read."""


class NotDifferentiableError(Error, TypeError):
    """No derivative or batching rule exists, or the value has none."""


class IndexOutOfRangeError(Error, IndexError):
    """An index is out of range at run time."""


class UnsupportedError(Error, NotImplementedError):
    """Valid, but not supported."""


class FileProblem(Error, OSError):
    """A file could not be read or written."""


class MemoryProblem(Error, MemoryError):
    """Out of memory, or larger than a limit."""


class NumericError(Error, ArithmeticError):
    """A value is not usable, or a check failed at run time."""


class TracerError(Error, TypeError):
    """The value of an array of a traced function is needed where only its type is known."""


# The numbers of FLX_ERROR_MAP in fluxion/types.h.
BY_CODE = {
    1: SyntaxProblem, 2: UsageError, 3: UsageError, 4: UsageError, 5: UsageError, 6: UsageError, 7: ShapeError,
    8: DTypeError, 9: ShapeError, 10: NotDifferentiableError, 11: NotDifferentiableError, 12: ShapeError,
    13: NotDifferentiableError, 14: UnsupportedError, 15: UsageError, 16: UsageError, 17: UsageError,
    18: MemoryProblem, 19: IndexOutOfRangeError, 20: NumericError, 21: NumericError, 22: UsageError,
    23: MemoryProblem, 24: Error, 25: FileProblem, 26: UsageError, 27: UsageError, 28: Error, 29: Error, 99: Error,
}
