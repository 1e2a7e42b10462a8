# SPDX-License-Identifier: Apache-2.0
"""Factorisations by Householder reflections that Fluxion has no function for, as JAX functions: Hessenberg form,
tridiagonal form, and QR with column pivoting. Results are packed as LAPACK's gehrd, sytrd and geqp3 do.

A reflection is H = 1 - tau v v^H with v = 1 at its first element. Its vector is kept with zeros before that, so that all
steps of a loop have one shape.
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax


def _reflection(x, k):
    """tau, v and beta such that H^H maps x to beta at position k and to 0 after it; what is before k is ignored."""
    at = jnp.arange(x.shape[0])
    alpha = x[k]
    rest = jnp.where(at > k, x, 0)
    size = jnp.sqrt(jnp.sum(jnp.abs(rest) ** 2))
    length = jnp.hypot(jnp.abs(alpha), size)
    is_done = (size == 0) & (jnp.imag(alpha) == 0)
    beta = jnp.where(jnp.real(alpha) > 0, -length, length)
    beta = jnp.where(is_done, jnp.real(alpha), beta)
    tau = jnp.where(is_done, 0, (beta - alpha) / jnp.where(beta == 0, 1, beta)).astype(x.dtype)
    divisor = jnp.where(is_done, 1, alpha - beta)
    v = jnp.where(at == k, 1, jnp.where(is_done, 0, rest / divisor)).astype(x.dtype)
    return tau, v, beta.astype(x.dtype)


def _store(a, column, k, v, beta):
    """Column `column` from row k on: beta, then the rest of v."""
    at = jnp.arange(a.shape[0])
    new = jnp.where(at == k, beta, jnp.where(at > k, v, a[:, column]))
    return a.at[:, column].set(new)


def _from_left(a, tau, v, first):
    """H^H a for the columns from `first` on: those before it hold earlier vectors."""
    change = jnp.conj(tau) * jnp.outer(v, jnp.conj(v) @ a)
    return a - jnp.where(jnp.arange(a.shape[1]) >= first, change, 0)


def _hessenberg(a):
    n = a.shape[0]
    if n < 2:
        return a, jnp.zeros((0,), a.dtype)

    def step(k, state):
        a, taus = state
        tau, v, beta = _reflection(a[:, k], k + 1)
        a = _from_left(a, tau, v, k + 1)
        a = a - tau * jnp.outer(a @ v, jnp.conj(v))
        return _store(a, k, k + 1, v, beta), taus.at[k].set(tau)

    return lax.fori_loop(0, n - 1, step, (a, jnp.zeros((n - 1,), a.dtype)))


def _tridiagonal(a, *, lower):
    turned = a if lower else a[::-1, ::-1]
    below = jnp.tril(turned, -1)
    diagonal = jnp.diag(jnp.real(jnp.diagonal(turned))).astype(a.dtype)
    packed, taus = _hessenberg(below + jnp.conj(below.T) + diagonal)
    packed = jnp.where(jnp.tril(jnp.ones(a.shape, bool)), packed, turned)
    d, e = jnp.real(jnp.diagonal(packed)), jnp.real(jnp.diagonal(packed, -1))
    if not lower:
        packed, d, e, taus = packed[::-1, ::-1], d[::-1], e[::-1], taus[::-1]
    return packed, d, e, taus


def _pivoted_qr(a, jpvt):
    m, n = a.shape
    count = min(m, n)
    order = jnp.arange(1, n + 1, dtype=jpvt.dtype)
    if count == 0:
        return a, order, jnp.zeros((0,), a.dtype)
    order = jnp.where(jpvt != 0, -order, order)  # columns that jpvt fixes come first, in their order

    def step(k, state):
        a, order, taus = state
        rows, columns = jnp.arange(m), jnp.arange(n)
        norms = jnp.sum(jnp.where((rows >= k)[:, None], jnp.abs(a) ** 2, 0), axis=0)
        norms = jnp.where(order < 0, jnp.inf, norms)
        pivot = jnp.argmax(jnp.where(columns >= k, norms, -1))
        swap = jnp.where(columns == k, pivot, jnp.where(columns == pivot, k, columns))
        a, order = a[:, swap], order[swap]
        tau, v, beta = _reflection(a[:, k], k)
        a = _from_left(a, tau, v, k + 1)
        return _store(a, k, k, v, beta), order, taus.at[k].set(tau)

    a, order, taus = lax.fori_loop(0, count, step, (a, order, jnp.zeros((count,), a.dtype)))
    return a, jnp.abs(order), taus


def _batched(function, rank):
    """The function of arrays whose leading axes, all but the last `rank`, are batches. It mixes dtypes, whatever the
    user has set for programs of their own."""

    @functools.wraps(function)
    def wrapped(first, *rest, **params):
        inner = functools.partial(function, **params)
        for _ in range(first.ndim - rank):
            inner = jax.vmap(inner)
        with jax.numpy_dtype_promotion("standard"):
            return inner(first, *rest)

    return wrapped


hessenberg = _batched(_hessenberg, 2)
tridiagonal = _batched(_tridiagonal, 2)
pivoted_qr = _batched(lambda a, jpvt, use_magma=None: _pivoted_qr(a, jpvt), 2)
