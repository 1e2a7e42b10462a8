# SPDX-License-Identifier: Apache-2.0
"""op_peers.py: the expressions of op_cases.py as functions of NumPy, JAX or PyTorch, and the helpers that they name."""

from __future__ import annotations

import importlib
from typing import Any, Callable

import numpy as np

import operands as ops
from op_cases import SIZES, Case


class NoPeer(Exception):
    """The peer has no such function."""


def optional(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


class NumpyPeer:
    """NumPy and, if it is there, SciPy."""

    name = "np"

    def __init__(self, threads: int):
        del threads  # taken from OMP_NUM_THREADS
        self.names = {"np": np, "m": np, "generator": np.random.default_rng(1)}
        for letter, module in (("s", "scipy.special"), ("l", "scipy.linalg")):
            if found := optional(module):
                self.names[letter] = found
        if sparse := optional("scipy.sparse"):
            linalg = importlib.import_module("scipy.sparse.linalg")
            self.names.update(
                sparse=lambda v, n: sparse.csr_matrix((v, ops.band(n)), shape=(n, n)),
                spsolve=linalg.spsolve,
                sparse_cg=lambda a, b: linalg.cg(a, b, rtol=1e-6)[0],
                sparse_gmres=lambda a, b: linalg.gmres(a, b, rtol=1e-6)[0],
                scipy_fftconvolve=importlib.import_module("scipy.signal").fftconvolve,
            )

    def array(self, x: np.ndarray, dtype: str) -> Any:
        if dtype == "bf16":
            raise NoPeer("NumPy has no bf16")
        return x

    def compiled(self, f: Callable, arguments: list) -> Callable:
        return f

    def gradient(self, f: Callable, arguments: list, wrt: list[int]) -> Callable:
        raise NoPeer("NumPy has no derivatives")

    def wait(self, results: Any) -> None:
        pass

    def numpy(self, results: Any) -> list[np.ndarray]:
        return [np.asarray(r) for r in (results if isinstance(results, (tuple, list)) else (results,))]


class JaxPeer:
    """JAX, compiled for the CPU."""

    name = "jax"

    def __init__(self, threads: int):
        del threads  # XLA uses the cores of the process
        import jax
        import jax.numpy as jnp

        jax.config.update("jax_enable_x64", True)
        jax.config.update("jax_default_matmul_precision", "highest")
        self.jax, self.jnp = jax, jnp
        importlib.import_module("jax.scipy.linalg")
        importlib.import_module("jax.scipy.signal")
        importlib.import_module("jax.scipy.sparse.linalg")
        self.names = {
            "jax": jax,
            "jnp": jnp,
            "m": jnp,
            "np": np,
            "lax": jax.lax,
            "nn": jax.nn,
            "s": importlib.import_module("jax.scipy.special"),
            "l": jax.scipy.linalg,
            "norm": self.norm,
            "selective_scan": self.selective_scan,
            "gated_delta_net": self.gated_delta_net,
            "attention_block": self.attention_block,
            "decoder_block": self.decoder_block,
            "transformer_layer": self.transformer_layer,
            "q4_0": self.q4_0,
            "ode": importlib.import_module("jax.experimental.ode").odeint,
        }

    def norm(self, x: Any, axes: Any) -> Any:
        centred = x - x.mean(axes, keepdims=True)
        return centred * self.jax.lax.rsqrt((centred * centred).mean(axes, keepdims=True) + 1e-5)

    def selective_scan(self, x, delta, a, b, c):
        jnp = self.jnp

        def step(h, at):
            x, delta, b, c = at
            h = jnp.exp(delta[..., None] * a) * h + (delta * x)[..., None] * b[:, None, :]
            return h, (h * c[:, None, :]).sum(-1)

        first = jnp.zeros((x.shape[0],) + a.shape, x.dtype)
        return self.jax.lax.scan(step, first, tuple(v.swapaxes(0, 1) for v in (x, delta, b, c)))[1].swapaxes(0, 1)

    def gated_delta_net(self, q, k, v, gamma, beta):
        jnp, n = self.jnp, q.shape[-1]

        def step(t, at):
            q, k, v, gamma, beta = at
            t = jnp.exp(gamma)[..., None, None] * t
            t = t + k[..., :, None] * ((v - jnp.einsum("bhi,bhij->bhj", k, t)) * beta[..., None])[..., None, :]
            return t, jnp.einsum("bhi,bhij->bhj", q, t) / n**0.5

        first = jnp.zeros(q.shape[:1] + q.shape[2:] + (n,), q.dtype)
        return self.jax.lax.scan(step, first, tuple(z.swapaxes(0, 1) for z in (q, k, v, gamma, beta)))[1].swapaxes(0, 1)

    def q4_0(self, w, matrices, inner, rows):
        """Blocks of a 16-bit scale and 32 numbers of four bits, the low halves of 16 bytes first."""
        jnp = self.jnp
        blocks = w.reshape(matrices, rows, inner // 32, 18)
        scale = self.jax.lax.bitcast_convert_type(blocks[..., :2], jnp.float16).astype(jnp.float32)[..., None]
        packed = blocks[..., 2:].astype(jnp.int32)
        numbers = jnp.concatenate((packed & 15, packed >> 4), -1).astype(jnp.float32) - 8
        return (numbers * scale).reshape(matrices, rows, inner).swapaxes(1, 2)

    def heads(self, q, k, v, count, causal=True):
        split = [z.reshape(z.shape[:2] + (count, -1)) for z in (q, k, v)]
        return self.jax.nn.dot_product_attention(*split, is_causal=causal).reshape(q.shape)

    def transformer_layer(self, x, w, o, g, u, d, h, count):
        y = self.heads(*self.jnp.split(x @ w, 3, -1), count, False) @ o
        x = self.norm(x + y, -1) * g
        return self.norm(self.jax.nn.gelu(x @ u, approximate=False) @ d + x, -1) * h

    def attention_block(self, x, w, o, count):
        return self.heads(*self.jnp.split(x @ w, 3, -1), count) @ o

    def decoder_block(self, x, g, wq, wk, wv, wo, h, wg, wu, wd, count):
        def rms(z, gamma):
            return z * self.jax.lax.rsqrt((z * z).mean(-1, keepdims=True) + 1e-5) * gamma

        y = rms(x, g)
        x = x + self.heads(y @ wq, y @ wk, y @ wv, count) @ wo
        y = rms(x, h)
        return x + (self.jax.nn.silu(y @ wg) * (y @ wu)) @ wd

    def array(self, x: np.ndarray, dtype: str) -> Any:
        return self.jnp.asarray(x, self.jnp.bfloat16 if dtype == "bf16" else x.dtype)

    def compiled(self, f: Callable, arguments: list) -> Callable:
        return self.jax.jit(f).lower(*arguments).compile()

    def gradient(self, f: Callable, arguments: list, wrt: list[int]) -> Callable:
        jax = self.jax

        def first(*a):
            y = f(*a)
            return y[0] if isinstance(y, (tuple, list)) else y

        def pulled(cotangent, *a):
            def of(*chosen):
                full = list(a)
                for i, v in zip(wrt, chosen):
                    full[i] = v
                return first(*full)

            return jax.vjp(of, *(a[i] for i in wrt))[1](cotangent)

        shape = jax.eval_shape(first, *arguments)
        cotangent = self.jnp.ones(shape.shape, shape.dtype)
        run = jax.jit(pulled).lower(cotangent, *arguments).compile()
        return lambda *a: run(cotangent, *a)

    def wait(self, results: Any) -> None:
        self.jax.block_until_ready(results)

    def numpy(self, results: Any) -> list[np.ndarray]:
        return [
            np.asarray(r.astype(self.jnp.float32) if r.dtype == self.jnp.bfloat16 else r)
            for r in self.jax.tree_util.tree_leaves(results)
        ]


class TorchPeer:
    """PyTorch, eager."""

    name = "torch"

    def __init__(self, threads: int):
        import torch

        torch.set_num_threads(threads)
        self.torch = torch
        self.names = {"torch": torch, "m": torch, "nn": torch.nn.functional, "s": torch.special, "np": np}

    def array(self, x: np.ndarray, dtype: str) -> Any:
        if x.dtype in (np.uint32, np.uint64):
            x = x.astype(np.int64)
        t = self.torch.from_numpy(np.ascontiguousarray(x).reshape(x.shape))
        return t.to(self.torch.bfloat16) if dtype == "bf16" else t

    def compiled(self, f: Callable, arguments: list) -> Callable:
        def run(*a):
            with self.torch.no_grad():
                return f(*a)

        return run

    def gradient(self, f: Callable, arguments: list, wrt: list[int]) -> Callable:
        torch = self.torch
        leaves = [a.clone().requires_grad_() if i in wrt else a for i, a in enumerate(arguments)]
        y = f(*leaves)
        cotangent = torch.ones_like(y[0] if isinstance(y, (tuple, list)) else y)

        def run(*_):
            y = f(*leaves)
            return torch.autograd.grad(
                y[0] if isinstance(y, (tuple, list)) else y, [leaves[i] for i in wrt], cotangent, allow_unused=True
            )

        return run

    def wait(self, results: Any) -> None:
        pass

    def numpy(self, results: Any) -> list[np.ndarray]:
        flat = results if isinstance(results, (tuple, list)) else (results,)
        return [(t.float() if t.dtype == self.torch.bfloat16 else t).resolve_conj().numpy() for t in flat]


PEERS = {"numpy": NumpyPeer, "jax": JaxPeer, "torch": TorchPeer}


def all_names(code: Any) -> list[str]:
    """Names that an expression reads, also inside of its functions."""
    inner = [n for c in code.co_consts if hasattr(c, "co_names") for n in all_names(c)]
    return list(code.co_names) + inner


def function(peer: Any, c: Case, size: str, listed: list[ops.Operand]) -> Callable:
    expression = c.expression(peer.name)
    if not expression:
        raise NoPeer("no expression")
    extents = SIZES[size]
    rows, columns = ops.band(extents["Q"])
    names = dict(peer.names, **extents, band_rows=rows, band_cols=columns)
    try:
        code = compile(expression, c.name, "eval")
    except SyntaxError as e:
        raise NoPeer(f"{c.name}: {e}") from e
    own = {"m", "s", "l", "nn", "lax", "jax", "jnp", "torch", "generator", "norm"} | set(names)
    missing = [n for n in all_names(code) if n in own and n not in names]
    if missing:
        raise NoPeer(f"no {missing[0]}")
    return eval(f"lambda {', '.join(o.name for o in listed)}: {expression}", names)
