# SPDX-License-Identifier: Apache-2.0
"""Random numbers from keys, as in jax.random: equal keys give equal numbers on every machine. The generator is
Philox 4x32, so the numbers are not those of JAX."""

from . import dtypes
from .arrays import to_array
from .tracing import apply, cast


def _shape(shape):
    return (shape,) if isinstance(shape, int) else tuple(shape)


def key(seed):
    """A key from an integer."""
    if isinstance(seed, int):
        return to_array([(seed >> 32) & 0xFFFFFFFF, seed & 0xFFFFFFFF], dtypes.uint32)
    from . import xp
    low = cast(to_array(seed), dtypes.uint32)
    return xp.stack([xp.zeros_like(low), low])


PRNGKey = key


def split(key, num=2):
    """That many new keys, one in each row."""
    return apply("rng_split", to_array(key), num=num)


def fold_in(key, data):
    """A new key from a key and an integer."""
    return apply("rng_fold_in", to_array(key), to_array(data))


def uniform(key, shape=(), dtype=dtypes.float32, minval=0.0, maxval=1.0):
    """Uniform between minval and maxval."""
    u = apply("rng_uniform", to_array(key), shape=_shape(shape), dtype=dtypes.as_dtype(dtype))
    return u if minval == 0.0 and maxval == 1.0 else u * (maxval - minval) + minval


def normal(key, shape=(), dtype=dtypes.float32):
    """Standard normal."""
    return apply("rng_normal", to_array(key), shape=_shape(shape), dtype=dtypes.as_dtype(dtype))


def truncated_normal(key, shape=(), dtype=dtypes.float32):
    """Standard normal restricted to [-2, 2]."""
    return apply("truncated_normal", to_array(key), shape=_shape(shape), dtype=dtypes.as_dtype(dtype))


def exponential(key, shape=(), dtype=dtypes.float32):
    """Exponential with rate 1."""
    return apply("exponential", to_array(key), shape=_shape(shape), dtype=dtypes.as_dtype(dtype))


def gamma(key, a, shape=None, dtype=dtypes.float32):
    """Gamma with shape a and scale 1."""
    a = to_array(a, dtypes.as_dtype(dtype))
    return apply("gamma", to_array(key), a, shape=a.shape if shape is None else _shape(shape))


def bernoulli(key, p=0.5, shape=None):
    """True with probability p."""
    p = to_array(p, dtypes.float32) if not hasattr(p, "dtype") else to_array(p)
    return apply("bernoulli", to_array(key), p, shape=p.shape if shape is None else _shape(shape))


def categorical(key, logits):
    """Positions along the last axis with the probabilities softmax(logits)."""
    return apply("categorical", to_array(key), to_array(logits))


def bits(key, shape=(), dtype=dtypes.uint32):
    """Random bits."""
    return apply("rng_bits", to_array(key), shape=_shape(shape), dtype=dtypes.as_dtype(dtype))


def randint(key, shape, minval, maxval, dtype=dtypes.int32):
    """Integers from minval up to but not including maxval."""
    span = maxval - minval
    words = bits(key, shape, dtypes.uint64)
    return cast(words % span, dtypes.as_dtype(dtype)) + minval


def permutation(key, x):
    """The numbers 0 ... x - 1, or the rows of an array, in random order."""
    if isinstance(x, int):
        return apply("permutation", to_array(key), n=x)
    x = to_array(x)
    return x[apply("permutation", to_array(key), n=x.shape[0])]


def choice(key, a, shape=(), replace=True):
    """Elements of an array, or of range(a), drawn with equal probability."""
    from . import xp
    a = xp.arange(a) if isinstance(a, int) else to_array(a)
    n = a.shape[0]
    if replace:
        return a[randint(key, shape, 0, n)]
    count = 1
    for extent in _shape(shape):
        count *= extent
    return xp.reshape(a[permutation(key, n)[:count]], _shape(shape))
