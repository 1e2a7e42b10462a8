# SPDX-License-Identifier: Apache-2.0
"""Training: the loss, its gradients and the optimiser are one compiled step, and the parameters stay in its memory."""

import functools
import os
import threading

from . import _core, tracing
from .errors import UsageError
from .files import ShapeDtype
from .tree import count_leaves, flatten, paths, unflatten

_FLAGS = {"nesterov": 1, "missing_zero": 4, "unguarded": 8, "use_loss_scale": 16}  # FLX_TRAIN_…
_SCHEDULES = ("constant", "linear", "cosine", "step", "exponential", "one_cycle", "inverse_sqrt")


def schedule(kind, steps=0, warmup=0, final=0.0, factor=0.0):
    """A schedule of the rate for Trainer: constant, linear, cosine, step, exponential, one_cycle or inverse_sqrt."""
    if kind not in _SCHEDULES:
        raise ValueError(f"there is no schedule {kind!r}: {', '.join(_SCHEDULES)}")
    return _core.schedule(_SCHEDULES.index(kind), warmup, steps, final, factor)


def _count(arrays):
    return "1 array" if len(arrays) == 1 else f"{len(arrays)} arrays"


def _kind_text(dtype, shape):
    return f"{dtype}[{', '.join(map(str, shape))}]"


def _alone(method):
    """One thread at a time: a step changes the parameters while it runs without the interpreter's lock."""
    @functools.wraps(method)
    def call(self, *args):
        with self._lock:
            return method(self, *args)
    return call


class Trainer:
    """Trains the parameters of loss(params, *batch), which returns a scalar, or (scalar, tree of other results).

    Options are the names of fluxion/train.h: rate, momentum, beta1, beta2, epsilon, weight_decay, clip_norm,
    clip_value, ema, accumulate, recompute ..., and the flags nesterov, missing_zero, unguarded and use_loss_scale. With
    batch_dim the leading axis of every array of a batch is symbolic: batches of any size share the compiled step.

    >>> import fluxion as fx
    >>> t = fx.Trainer(lambda p, x: ((p["w"] * x - 6) ** 2).mean(), {"w": fx.array(1.0)}, "sgd", rate=0.1)
    >>> losses = [t.step(fx.array([2.0])) for _ in range(20)]
    >>> losses[0], round(t.params["w"].item(), 3)
    (16.0, 3.0)
    """

    def __init__(self, loss, params, optimiser="adam", rate=0.0, schedule=None, batch_dim=None, **options):
        leaves, self._structure = flatten(params)
        self._values = [tracing.to_array(x, None) for x in leaves]
        self._loss, self._optimiser, self._schedule, self._batch_dim = loss, optimiser, schedule, batch_dim
        self._flags = sum(bit for name, bit in _FLAGS.items() if options.pop(name, False))
        self._options = {"rate": float(rate)} | options
        _core.check_training(optimiser, self._options)
        self._lock = threading.RLock()
        self._trainer = None
        self._names = None
        self._pending = self._loaded = None  # a checkpoint to begin with, and its parameters

    def _compile(self, leaves, structure):
        kinds = [(v.dtype, v.shape, False) for v in self._values]
        kinds += [self._batch_kind(x) for x in leaves]
        count = len(self._values)
        names = [p or "param" for p in paths(self._structure)] + [f"batch{i}" for i in range(len(leaves))]
        whole = (tuple, None, self._structure, structure)
        staged = tracing.stage(lambda p, batch: self._loss(p, *batch), kinds, whole, names,
                               tracing.function_name(self._loss), params=range(count))
        self._trainer = _core.Trainer(staged.graph, self._optimiser, self._options, self._flags, self._schedule)
        self._names, self._inputs = staged.names[:count], staged.names[count:]
        self._fixed = {i[0]: a for i, a in zip(staged.graph.inputs[count + len(leaves):], staged.captures)}
        self._out, self._batch_structure = staged.out_structure, structure
        self._kinds = [self._batch_kind(x) for x in leaves]
        self._begin(self._trainer, self._names)
        self._pending = self._loaded = None

    def _begin(self, trainer, names):
        """Gives a trainer the checkpoint to begin with, and parameters that are not those of it."""
        if self._pending is not None:
            trainer.load(self._pending)
        if self._values is not self._loaded:
            for name, value in zip(names, self._values):
                trainer.set(name, value)

    def _stand_in(self):
        """(trainer, names): the same parameters and optimiser with a loss that takes no batch. It reads and writes
        checkpoints before the first step shows what the loss takes. It takes no step, and is not compiled."""
        from . import xp
        kinds = [(v.dtype, v.shape, False) for v in self._values]
        names = [p or "param" for p in paths(self._structure)]
        staged = tracing.stage(lambda p: sum(xp.astype(xp.sum(x), xp.float32) for x in flatten(p)[0]), kinds,
                               (tuple, None, self._structure), names, "stand_in", params=range(len(kinds)))
        options = {k: v for k, v in self._options.items() if k not in ("clip_example", "noise")}  # they need a batch
        trainer = _core.Trainer(staged.graph, self._optimiser, options, self._flags, self._schedule, True)
        self._begin(trainer, staged.names)
        return trainer, staged.names

    def _batch_kind(self, x):
        if self._batch_dim is None or not x.ndim:
            return x.dtype, x.shape, False
        return x.dtype, ShapeDtype((self._batch_dim, *x.shape[1:])).shape, False

    @_alone
    def step(self, *batch):
        """One step on a batch; the loss before the update, a float."""
        leaves, structure = flatten(batch)
        leaves = [tracing.to_array(x) for x in leaves]
        if self._trainer is None:
            self._compile(leaves, structure)
        if structure != self._batch_structure or [self._batch_kind(x) for x in leaves] != self._kinds:
            self._refuse_batch(leaves, structure)
        return self._trainer.step(dict(zip(self._inputs, leaves)) | self._fixed)

    def _refuse_batch(self, leaves, structure):
        """The error about a batch that is not like the first one, on which the step was compiled."""
        if len(leaves) != len(self._kinds):
            raise UsageError("USAGE", f"the batch has {_count(leaves)}, but the first one had {_count(self._kinds)}")
        if structure != self._batch_structure:
            raise UsageError("USAGE", "the arrays of the batch are in another tree than those of the first one")
        kinds = [self._batch_kind(x) for x in leaves]
        i = next(i for i, kind in enumerate(kinds) if kind != self._kinds[i])
        (dtype, shape, _), (old_dtype, old_shape, _) = kinds[i], self._kinds[i]
        is_free = self._batch_dim is None and dtype == old_dtype and shape[1:] == old_shape[1:] and shape and old_shape
        raise UsageError("USAGE", f"array {i} of the batch is {_kind_text(dtype, shape)}, but in the first batch it was "
                         f"{_kind_text(old_dtype, old_shape)}", "",
                         "batch_dim=\"B\" makes the number of examples free" if is_free else "")

    @property
    @_alone
    def params(self):
        """The parameters as they are now, as a tree like the one that was given."""
        values = self._values if self._trainer is None else [self._trainer.get(n) for n in self._names]
        return unflatten(self._structure, values)

    @params.setter
    @_alone
    def params(self, tree):
        leaves, structure = flatten(tree)
        if structure != self._structure:
            raise ValueError("the tree of parameters is not the one that was given")
        self._values = [tracing.to_array(x, v.dtype) for x, v in zip(leaves, self._values)]
        if self._trainer is not None:
            for name, value in zip(self._names, self._values):
                self._trainer.set(name, value)

    @property
    @_alone
    def state(self):
        """{name: array} of the optimiser's state; empty before the first step."""
        return {} if self._trainer is None else {n: self._trainer.get(n) for n in self._trainer.state_names}

    @state.setter
    @_alone
    def state(self, values):
        if self._trainer is None:
            raise UsageError("USAGE", "the state exists after the first step")
        for name, value in values.items():
            self._trainer.set(name, tracing.to_array(value))

    @_alone
    def save(self, path):
        """Writes a checkpoint: the parameters and the state of the optimiser, in a .safetensors file with a checksum
        that appears whole or not at all."""
        trainer = self._trainer or self._stand_in()[0]
        trainer.save(os.fspath(path))

    @_alone
    def load(self, path):
        """Continues from a checkpoint of save(), with the same bits as without the interruption. The loss, the
        parameters and the options must be those that it was written with: other shapes or another optimiser are refused
        at once. The file is read again with the first step, which compiles."""
        path = os.fspath(path)
        if self._trainer is not None:
            self._trainer.load(path)
            return
        before = self._pending, self._loaded
        with open(path, "rb"):
            self._pending, self._loaded = path, self._values
        try:
            trainer, names = self._stand_in()
        except BaseException:
            self._pending, self._loaded = before
            raise
        self._values = self._loaded = [trainer.get(n) for n in names]

    @property
    @_alone
    def aux(self):
        """The other results of the loss in the last step."""
        if self._trainer is None or not isinstance(self._out, tuple):
            return None
        structure = self._out[3]
        return unflatten(structure, [self._trainer.output(f"out{i + 1}") for i in range(count_leaves(structure))])

    @property
    def rate(self):
        """The rate of the last step."""
        return self._trainer.rate if self._trainer else float("nan")

    @property
    def gradient_norm(self):
        """The norm of all gradients of the last step."""
        return self._trainer.norm if self._trainer else float("nan")
