# SPDX-License-Identifier: Apache-2.0
"""Errors of the library as exceptions. Each is also one of Python's own, so that `except ValueError` works."""

import re


# The library's hints are for C: what they name, as Python has it.
_NAMES = (
    (re.compile(r"name the parameters to train in flx_train_options\.params, or use FLX_TRAIN_MISSING_ZERO"),
     "leave it out of the parameters, or give missing_zero=True"),
    (re.compile(r"declare what is trained with flx_param\(\), or `param` in text"),
     "the first argument of the loss is what is trained: a tree of floating arrays"),
    (re.compile(r"FLX_RUN_CHECK_FINITE names the first op that gives it, FLX_TRAIN_UNGUARDED takes such steps"),
     "unguarded=True takes such steps"),
    (re.compile(r"flx_trainer_set_param\(\)"), "trainer.params = ..."),
    (re.compile(r"flx_params_load\(\) takes the parameters alone"), "train with the optimiser of the checkpoint"),
    (re.compile(r"use FLX_MOMENTUM"), "use the optimiser 'momentum'"),
    (re.compile(r"FLX_TRAIN_LOSS_SCALE"), "use_loss_scale=True"),
    (re.compile(r"FLX_TRAIN_(\w+)"), lambda m: f"{m[1].lower()}=True"),
    (re.compile(r"flx_train_options\.(\w+)"), r"the option \1"),
)


def _in_python(text):
    for pattern, name in _NAMES:
        text = pattern.sub(name, text)
    return text


class Error(Exception):
    """What the library reports: `code` ("SHAPE"), `message`, `where` (a node or a line of a file) and `hint`."""

    def __init__(self, code="", message="", where="", hint=""):
        message, hint = _in_python(message), _in_python(hint)
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
