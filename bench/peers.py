#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same functions in PyTorch (eager), in JAX (jit, CPU) and in Fluxion, one after the other in one process tree.

JAX lowers each function to StableHLO; `flx bench` compiles and times that text, so Fluxion computes the graph that XLA
computes. PyTorch has its own spelling. Results of JAX and Fluxion are compared. One line for each workload: medians in
milliseconds, and the ratio of Fluxion to the faster of the two.

  python3 bench/peers.py build/flx [--threads 2] [--only ew_grad,matmul]

Needs jax, torch and numpy. Pin the process to as many cores as there are threads (taskset -c 0,1): XLA takes all it sees.
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time

parser = argparse.ArgumentParser()
parser.add_argument("flx")
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--only", default="")
options = parser.parse_args()
os.environ.update(JAX_PLATFORMS="cpu", OMP_NUM_THREADS=str(options.threads))

import jax  # noqa: E402 (the environment is set first)
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402

jax.config.update("jax_default_matmul_precision", "highest")
torch.set_num_threads(options.threads)
rng = np.random.default_rng(1)


def normal(*shape, scale=1.0):
    return (scale * rng.standard_normal(shape)).astype(np.float32)


# ---- Workloads: a function for JAX, the same for PyTorch, and its arguments ----

def chain(m, x, y, z):
    t = x * y + z
    return (m.exp(-t * t) * m.sin(x) + y / (1 + m.exp(-z))).sum()


def torch_grad(f):
    def run(*args):
        leaves = [a.detach().requires_grad_() for a in args]
        return torch.autograd.grad(f(*leaves), leaves)
    return run


def norm_loss(mean, rsqrt, x, gamma, beta):
    c = x - mean(x)
    return ((c * rsqrt(mean(c * c) + 1e-5) * gamma + beta) ** 2).sum()


def jax_norm(x, gamma, beta):
    return norm_loss(lambda v: v.mean(-1, keepdims=True), jax.lax.rsqrt, x, gamma, beta)


def torch_norm(x, gamma, beta):
    return (torch.nn.functional.layer_norm(x, x.shape[-1:], gamma, beta) ** 2).sum()


def jax_mlp(x, w1, w2, w3):
    return (jnp.tanh(jnp.tanh(x @ w1) @ w2) @ w3).sum()


def torch_mlp(x, w1, w2, w3):
    return (torch.tanh(torch.tanh(x @ w1) @ w2) @ w3).sum()


def jax_entropy(x):
    return -jax.nn.log_softmax(x, -1)[:, 0].mean()


def torch_entropy(x):
    return -torch.log_softmax(x, -1)[:, 0].mean()


WORKLOADS = {
    "ew_fwd": (lambda *a: chain(jnp, *a), lambda *a: chain(torch, *a), [normal(1 << 22) for _ in range(3)]),
    "ew_grad": (jax.grad(lambda *a: chain(jnp, *a), (0, 1, 2)), torch_grad(lambda *a: chain(torch, *a)),
                [normal(1 << 22) for _ in range(3)]),
    "layer_norm_grad": (jax.grad(jax_norm, (0, 1, 2)), torch_grad(torch_norm),
                        [normal(1024, 768), normal(768), normal(768)]),
    "cross_entropy_grad": (jax.grad(jax_entropy), torch_grad(torch_entropy), [normal(256, 50304)]),
    "mlp_grad": (jax.grad(jax_mlp, (0, 1, 2, 3)), torch_grad(torch_mlp),
                 [normal(1024, 784), normal(784, 512, scale=0.04), normal(512, 512, scale=0.04), normal(512, 10)]),
    "matmul": (jnp.matmul, torch.matmul, [normal(1024, 1024), normal(1024, 1024)]),
}


# ---- Timing ----

def median_ms(call):
    call()
    begin = time.perf_counter()
    call()
    repeat = max(5, min(200, int(1.0 / max(time.perf_counter() - begin, 1e-6))))
    times = []
    for _ in range(repeat):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return 1e3 * statistics.median(times)


def fluxion(folder, text, args):
    path = os.path.join(folder, "f.mlir")
    with open(path, "w") as f:
        f.write(text)
    given = []
    for i, a in enumerate(args):
        np.save(os.path.join(folder, f"a{i}.npy"), a)
        given += ["--in", f"arg{i}={folder}/a{i}.npy"]
    bench = subprocess.run([options.flx, "bench", path, "--json", "--threads", str(options.threads), "--repeat", "40"] +
                           given, capture_output=True, text=True, check=True)
    subprocess.run([options.flx, "run", path, "--out", os.path.join(folder, "out")] + given, capture_output=True,
                   check=True)
    names = sorted(os.listdir(os.path.join(folder, "out")), key=lambda s: (len(s), s))
    results = [np.load(os.path.join(folder, "out", n)) for n in names]
    return json.loads(bench.stdout.strip().splitlines()[-1])["median_ms"], results


def worst_error(expected, found):
    return max(float(np.abs(np.asarray(a) - b).max() / (np.abs(np.asarray(a)).max() + 1e-30))
               for a, b in zip(expected, found))


print(f"{'workload':20} {'PyTorch':>9} {'JAX':>9} {'Fluxion':>9} {'ratio':>6}  ms, {options.threads} threads; "
      f"torch {torch.__version__}, jax {jax.__version__}")
for name, (in_jax, in_torch, args) in WORKLOADS.items():
    if options.only and name not in options.only.split(","):
        continue
    compiled = jax.jit(in_jax).lower(*args)
    run = compiled.compile()
    held = [jnp.asarray(a) for a in args]
    tensors = [torch.from_numpy(a) for a in args]
    of_jax = median_ms(lambda: jax.block_until_ready(run(*held)))
    of_torch = median_ms(lambda: in_torch(*tensors))
    with tempfile.TemporaryDirectory() as folder:
        of_flx, results = fluxion(folder, compiled.as_text(), args)
    error = worst_error(jax.tree_util.tree_leaves(run(*held)), results)
    note = "" if error < 1e-3 else f"  results differ by {error:.1e}"
    print(f"{name:20} {of_torch:9.2f} {of_jax:9.2f} {of_flx:9.2f} {of_flx / min(of_torch, of_jax):6.2f}{note}", flush=True)
