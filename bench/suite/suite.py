# SPDX-License-Identifier: Apache-2.0
"""suite.py: runs the workloads, each in both forms and on the peers, alternately: every round measures all of them once
more, so that a disturbance of the machine does not hit one of them alone."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import numpy as np

import graphs
import report
from fluxion import Failed, Flx, Timing, load_outputs, worst_error
from limits import Limits
from peers import Missing, Peer
from workloads import WORKLOADS, Workload

LOAD_TIMEOUT = 600


class Run:
    """One workload: what was loaded, and the measurements so far."""

    def __init__(self, w: Workload, a: argparse.Namespace, flx: Flx, peers: list[Peer], most: Limits, folder: Path):
        self.w, self.a, self.flx, self.peers, self.folder = w, a, flx, peers, folder
        self.seconds = min(a.seconds, 0.1) if a.quick else a.seconds
        self.shape = w.at(a.quick)
        limit = most.seconds(w.flops(self.shape), w.bytes(self.shape), w.wide)
        self.result = report.Result(w.name, w.table, limit)
        self.files: dict[str, Path] = {}  # graph files by form
        self.inputs: dict[str, dict[str, Path]] = {}
        self.loaded: list[Peer] = []

    def problem(self, text: object) -> None:
        self.result.problems.append(str(text))

    def load(self) -> None:
        for peer in self.peers:
            try:
                found = peer.ask(
                    do="load", workload=self.w.name, quick=self.a.quick, folder=str(self.folder), timeout=LOAD_TIMEOUT
                )
            except Missing:
                continue
            except Failed as e:
                self.problem(e)
                continue
            if peer.is_timed:
                self.result.peers[peer.kind] = Timing(
                    float("inf"), float("inf"), found["compile_s"], found["memory"] or 0, check=found["check"]
                )
                self.loaded.append(peer)
            if peer.kind == "jax" and not self.a.no_stablehlo:
                self.files[report.STABLEHLO] = self.folder / "jax.mlir"
                self.inputs[report.STABLEHLO] = {f"arg{i}": self.folder / f"arg{i}.npy" for i in range(found["inputs"])}
        if not self.a.no_own and graphs.exists(self.w.name):
            self.load_own()

    def load_own(self) -> None:
        given = self.w.inputs(self.shape)
        for name, value in given.items():
            np.save(self.folder / f"in_{name}.npy", value)
        try:
            self.files[report.OWN] = graphs.make(self.flx, self.w.name, self.shape, given, self.folder)
        except Failed as e:
            self.problem(e)
        self.inputs[report.OWN] = {name: self.folder / f"in_{name}.npy" for name in given}

    def time_ours(self, form: str, first: bool) -> None:
        out = self.folder / f"out_{form}" if first else None
        found = self.flx.bench(self.files[form], self.inputs[form], self.seconds, out, flush=self.w.flush)
        if out:
            names = self.flx.outputs_of(self.files[form])
            results = load_outputs(out, names)
            self.check(form, found, results)
            shutil.rmtree(out)
        self.keep(self.result.ours, form, found)

    def keep(self, where: dict[str, Timing], key: str, found: Timing) -> None:
        """The best median, the best run and the shortest time to compile of all rounds."""
        old = where.get(key)
        if self.a.best:
            found.median = found.best
        if old:
            found.median, found.best = min(found.median, old.median), min(found.best, old.best)
            found.compile_s = min(found.compile_s, old.compile_s)
            found.memory, found.check = found.memory or old.memory, old.check if found.check is None else found.check
        where[key] = found

    def check(self, form: str, found: Timing, results: list[np.ndarray]) -> None:
        if form == report.STABLEHLO:
            first = self.w.compared_from(len(results))
            expected = [np.load(self.folder / f"jax_{i}.npy") for i in range(first, len(results))]
            error = worst_error(expected, results[first:])
            if error > self.w.tolerance:
                self.problem(f"{form}: results differ from those of JAX by {error:.1e}")
            if self.w.name not in ("resblock", "resnet18"):  # whose channels come last
                found.check = self.w.check.of(results)
            return
        found.check = self.w.check.of(results)

    def time_peer(self, peer: Peer) -> None:
        found = peer.ask(do="time", seconds=self.seconds, timeout=LOAD_TIMEOUT)
        old = self.result.peers[peer.kind]
        self.keep(self.result.peers, peer.kind, Timing(found["median"], found["best"], old.compile_s, old.memory))

    def round(self, first: bool) -> None:
        for form in list(self.files):
            try:
                self.time_ours(form, first)
            except Failed as e:
                self.problem(f"{form}: {e}")
                del self.files[form]
        for peer in list(self.loaded):
            try:
                self.time_peer(peer)
            except Failed as e:
                self.problem(e)
                self.loaded.remove(peer)
                del self.result.peers[peer.kind]

    def finish(self) -> None:
        """Check values must agree with the known one, and with each other."""
        c = self.w.check
        values = {
            k: t.check
            for k, t in list(self.result.ours.items()) + list(self.result.peers.items())
            if t.check is not None
        }
        known = c.value if c.value is not None and not self.a.quick else next(iter(values.values()), None)
        for k, v in values.items():
            if known is not None and not c.agrees(v, known):
                self.problem(f"{k}: check value {v:.9g}, expected {known:.9g}")
        for peer in self.loaded:
            try:
                peer.ask(do="drop")
            except Failed:
                pass


def run_suite(a: argparse.Namespace, flx: Flx, peers: list[Peer], most: Limits, work: Path) -> int:
    print(report.HEAD, flush=True)
    results = []
    with open(a.json, "w") if a.json else open("/dev/null", "w") as log:
        for w in WORKLOADS:
            if a.only and w.name not in a.only:
                continue
            folder = work / w.name
            folder.mkdir()
            run = Run(w, a, flx, peers, most, folder)
            run.load()
            for i in range(1 if a.quick else a.rounds):
                run.round(i == 0)
            run.finish()
            shutil.rmtree(folder)
            results.append(run.result)
            for text in report.lines(run.result):
                print(text, flush=True)
            log.write("".join(text + "\n" for text in report.json_lines(run.result)))
            log.flush()
    print("\n".join([""] + report.summary(results)), flush=True)
    if a.svg:
        Path(a.svg).write_text(report.svg(results, "Time of Fluxion divided by that of the fastest peer"))
    return 1 if any(r.problems for r in results) else 0
