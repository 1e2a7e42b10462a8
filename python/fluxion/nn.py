# SPDX-License-Identifier: Apache-2.0
"""Functions of neural networks, as in jax.nn. Their meaning is that of the ops of the same names."""

from . import dtypes
from .arrays import to_array
from .tracing import apply
from .xp._info import public_names as _public_names
from .xp._operands import _axes, _operands, _weaken


def _named(op):
    def function(x):
        (x,), weak = _operands(x, minimum="float")
        return _weaken(apply(op, x), weak)
    function.__name__ = function.__qualname__ = op
    function.__doc__ = f"The op {op}, element by element."
    return function


for _op in ("relu", "sigmoid", "silu", "softplus", "selu", "hard_swish", "mish", "elu", "celu", "hard_sigmoid"):
    globals()[_op] = _named(_op)
swish = silu  # noqa: F821


def gelu(x, approximate=True):
    """x Phi(x), by tanh where it is approximate, as in JAX."""
    return _named("gelu_approx" if approximate else "gelu")(x)


def leaky_relu(x, negative_slope=0.01):
    """x, times the slope where it is negative."""
    return apply("leaky_relu", to_array(x), alpha=float(negative_slope))


def softmax(x, axis=-1):
    """exp(x) divided by its sum along an axis."""
    return apply("softmax", to_array(x), axis=axis)


def log_softmax(x, axis=-1):
    """The logarithm of softmax."""
    return apply("log_softmax", to_array(x), axis=axis)


def logsumexp(x, axis=None, keepdims=False):
    """log(sum(exp(x))) over axes, without overflow."""
    from . import xp
    x = to_array(x)
    high = xp.max(x, axis=axis, keepdims=True)
    high = apply("stop_gradient", xp.where(xp.isfinite(high), high, 0))
    total = xp.log(xp.sum(xp.exp(x - high), axis=axis, keepdims=True)) + high
    return total if keepdims else xp.squeeze(total, tuple(_axes(axis, x.ndim)))


def one_hot(x, num_classes, dtype=dtypes.float32, axis=-1):
    """1 at the positions x along a new axis, 0 elsewhere."""
    return apply("one_hot", to_array(x), n=num_classes, axis=axis, dtype=dtypes.as_dtype(dtype), oob="zero")


def layer_norm(x, gamma, beta, axis=-1, eps=1e-5):
    """x normalised along an axis, scaled and shifted."""
    return apply("layer_norm", to_array(x), to_array(gamma), to_array(beta), axis=axis, eps=float(eps))


def softmax_cross_entropy(logits, labels):
    """The loss of each row of logits [N, C] for labels of integers [N]."""
    return apply("softmax_cross_entropy_with_logits", to_array(logits), to_array(labels))


__all__ = _public_names(globals())


def __dir__():
    return __all__
