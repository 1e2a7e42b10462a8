# SPDX-License-Identifier: Apache-2.0
"""suite_worker.py: the workloads inside of a peer's process: load, time, drop."""

from __future__ import annotations

import gc
import time
from pathlib import Path
from typing import Any, Callable

import numpy as np

from op_peers import NoPeer
from workloads import WORKLOADS

KNOWN = {w.name: w for w in WORKLOADS}


def peak_memory(reset: bool) -> int:
    """The largest resident size of this process since the last reset, in bytes; 0 if the system does not say."""
    try:
        if reset:
            Path("/proc/self/clear_refs").write_text("5")
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


class JaxLoader:
    def __init__(self, threads: int):
        del threads  # XLA uses the cores of the process
        import jax_functions

        self.functions = jax_functions
        self.jax = jax_functions.jax

    def load(self, name: str, shape: dict[str, int], inputs: dict[str, np.ndarray], folder: Path) -> dict[str, Any]:
        jax = self.jax
        given = self.functions.arguments(name, inputs)
        jax.block_until_ready(given)
        start = time.perf_counter()
        lowered = jax.jit(self.functions.function(name, shape), keep_unused=True).lower(*given)
        text = lowered.as_text()
        run = lowered.compile()
        self.call: Callable[[], Any] = lambda: run(*given)
        found: dict[str, Any] = {"compile_s": time.perf_counter() - start}
        memory = run.memory_analysis()
        found["memory"] = int(memory.temp_size_in_bytes + memory.argument_size_in_bytes + memory.output_size_in_bytes)
        (folder / "jax.mlir").write_text(text)
        for i, a in enumerate(given):
            np.save(folder / f"arg{i}.npy", np.asarray(a))
        found["inputs"] = len(given)
        results = [np.asarray(r) for r in jax.tree_util.tree_leaves(jax.block_until_ready(self.call()))]
        for i, r in enumerate(results):
            np.save(folder / f"jax_{i}.npy", r)
        found["check"] = KNOWN[name].check.of(self.functions.results(name, results))
        return found

    def wait(self, results: Any) -> None:
        self.jax.block_until_ready(results)


class TorchLoader:
    def __init__(self, threads: int, compiled: bool):
        import torch_functions

        self.functions, self.torch = torch_functions, torch_functions.torch
        self.compiled = compiled
        self.torch.set_num_threads(threads)

    def load(self, name: str, shape: dict[str, int], inputs: dict[str, np.ndarray], folder: Path) -> dict[str, Any]:
        if not self.functions.exists(name, self.compiled):
            raise NoPeer(f"no PyTorch form of {name}")
        if self.compiled:
            self.torch._dynamo.reset()
        before = peak_memory(True)
        self.call, result = self.functions.function(name, shape, inputs, self.compiled)
        start = time.perf_counter()
        self.call()
        first = time.perf_counter() - start
        start = time.perf_counter()
        found = self.call()
        again = time.perf_counter() - start
        answer = {"compile_s": max(0.0, first - again), "memory": max(0, peak_memory(False) - before) or None}
        answer["check"] = KNOWN[name].check.of([t.detach().numpy() for t in result(found)])
        return answer

    def wait(self, results: Any) -> None:
        pass


class SuiteTimer:
    def __init__(self, kind: str, threads: int):
        self.loader: Any = JaxLoader(threads) if kind == "jax" else TorchLoader(threads, kind == "torch-compile")

    def load(self, request: dict[str, Any]) -> dict[str, Any]:
        w = KNOWN[request["workload"]]
        shape = w.at(request["quick"])
        return self.loader.load(w.name, shape, w.inputs(shape), Path(request["folder"]))

    def time(self, request: dict[str, Any]) -> dict[str, Any]:
        from worker import measured

        return measured(self.loader.call, self.loader.wait, request["seconds"])

    def drop(self, request: dict[str, Any]) -> dict[str, Any]:
        self.loader.call = lambda: None
        gc.collect()
        return {}
