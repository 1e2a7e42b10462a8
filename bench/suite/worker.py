# SPDX-License-Identifier: Apache-2.0
"""worker.py: one peer (NumPy, JAX or PyTorch) in a process of its own; peers.py starts it and asks.

A request is a JSON object on a line of standard input, the answer one on standard output: {"error": TEXT} where the
peer cannot do it. A peer that crashes or hangs costs one row of a table.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
import traceback
from pathlib import Path
from typing import Any, Callable

import numpy as np

import operands as ops
from op_cases import CASES, SIZES
from op_peers import PEERS, NoPeer, function


def measured(call: Callable[[], Any], wait: Callable[[Any], None], seconds: float, least: int = 3) -> dict[str, float]:
    """Runs `call` for about that long, at least `least` times, after one run to warm up."""
    wait(call())
    times: list[float] = []
    begin = time.perf_counter()
    while len(times) < least or time.perf_counter() - begin < seconds:
        start = time.perf_counter()
        wait(call())
        times.append(time.perf_counter() - start)
    return {"median": statistics.median(times), "best": min(times), "repeat": len(times)}


class OpTimer:
    """Times the expressions of op cases."""

    def __init__(self, kind: str, threads: int):
        self.peer = PEERS[kind](threads)

    def run(self, request: dict[str, Any]) -> dict[str, Any]:
        c, size, folder = CASES[request["case"]], request["size"], Path(request["folder"])
        listed = ops.parse(c.operands, SIZES[size])
        f = function(self.peer, c, size, listed)
        arguments = [self.peer.array(np.load(folder / f"{o.name}.npy"), o.dtype) for o in listed]
        start = time.perf_counter()
        if request["wrt"]:
            run = self.peer.gradient(f, arguments, [i for i, o in enumerate(listed) if o.name in request["wrt"]])
        else:
            run = self.peer.compiled(f, arguments)
        found: dict[str, Any] = {"compile_s": time.perf_counter() - start}
        if request.get("save"):
            for i, a in enumerate(self.peer.numpy(run(*arguments))):
                np.save(folder / f"{self.peer.name}_{i}.npy", a)
        found.update(measured(lambda: run(*arguments), self.peer.wait, request["seconds"]))
        return found


def serve(handlers: dict[str, Callable[[dict[str, Any]], dict[str, Any]]]) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is not an answer
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = handlers[request["do"]](request)
        except NoPeer as e:
            answer = {"error": str(e), "missing": True}
        except AttributeError as e:  # a function that this version does not have
            answer = {"error": str(e), "missing": "has no attribute" in str(e)}
        except Exception as e:  # any failure of a peer is an answer
            if os.environ.get("FLX_BENCH_TRACE"):
                traceback.print_exc()
            answer = {"error": f"{type(e).__name__}: {' '.join(str(e).split())[:200]}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def main() -> None:
    kind, mode, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if mode == "ops":
        serve({"op": OpTimer(kind, threads).run})
    else:
        from suite_worker import SuiteTimer

        timer = SuiteTimer(kind, threads)
        serve({"load": timer.load, "time": timer.time, "drop": timer.drop})


if __name__ == "__main__":
    main()
