# SPDX-License-Identifier: Apache-2.0
"""Gives exported StableHLO to JAX: its parser and verifier must accept every text, and the program that XLA's CPU
compiler makes from it must return Fluxion's numbers.

    python3 tests/oracle/stablehlo_export.py --tests build/flx_tests --flx build/flx [--every 7] [--only REGEX]

The texts are the samples of all ops (flx_tests writes them when FLX_TEST_KEEP names a folder, with values, results and
the bounds of tests/compile/error_bound.h), and the graphs of examples/ and tests/golden/ that have no symbolic
dimension or only some that can be 3. All are parsed; of the samples one in `every` is compiled and run.
"""
import argparse
import collections
import pathlib
import re
import subprocess
import sys
import tempfile

import jax
import ml_dtypes
import numpy as np
from jax._src import compiler, xla_bridge
from jax._src.interpreters import mlir as jax_mlir
from jax._src.lib import xla_client
from jaxlib.mlir import ir

jax.config.update("jax_enable_x64", True)
root = pathlib.Path(__file__).resolve().parents[2]

DTYPES = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "i1": np.bool_,
          "complex<f32>": np.complex64, "complex<f64>": np.complex128,
          **{f"i{b}": np.dtype(f"int{b}") for b in (8, 16, 32, 64)},
          **{f"ui{b}": np.dtype(f"uint{b}") for b in (8, 16, 32, 64)}}

# Where XLA does something else than the text says.
DIFFERS = {
    "reduce_precision": "exponents of 1 bit: XLA has no such format",
    "reduce_window": "padding: XLA takes the initial value for one that changes nothing, and leaves it out",
    "reduce": "bodies that depend on the order: StableHLO leaves the order open",
}
# Functions of XLA with errors of more than a few units: the error in units of 1, the size of the terms that they sum.
ROUGH = {"lgamma": 32, "log1p": 16, "polygamma": 8}
NO_SUCH_CALL = "custom_call"  # checks: XLA's runtime does not know the name


def parsed(text):
    module = ir.Module.parse(text)
    module.operation.verify()
    return module


def executed(text, args):
    device = xla_bridge.get_backend("cpu").devices()[0]
    program = compiler.backend_compile_and_load(device.client, parsed(text), xla_client.DeviceList((device,)),
                                                xla_client.CompileOptions(), [])
    out = program.execute_sharded([jax.device_put(a, device) for a in args])
    return [np.asarray(shards[0]) for shards in out.disassemble_into_single_device_arrays()]


def argument_types(text):
    head = text[text.index("@main(") : text.index(") -> (")]
    return [DTYPES[name] for name in re.findall(r": tensor<(?:\d+x)*((?:complex<)?[a-z0-9]+>?)>", head)]


def difference(got, want, bound):
    """The first element that is not the same, as text; None when there is none."""
    if got.dtype.kind in "iub":
        same = got == want
    else:
        with np.errstate(all="ignore"):
            apart = np.abs(got.astype(np.complex128) - want.astype(np.complex128))
            same = (apart <= bound) | (got == want) | (np.isnan(got) & np.isnan(want))
    if same.all():
        return None
    i = int(np.argmin(same.reshape(-1)))
    return f"[{i}] is {got.reshape(-1)[i]}, not {want.reshape(-1)[i]}"


def roughness(op, dtype):
    return ROUGH.get(op, 0) * float(ml_dtypes.finfo(dtype).eps) if dtype.kind not in "iub" else 0.0


def check_run(path, text):
    with np.load(path.with_suffix(".npz")) as values:
        args = [values[f"in{i}"].astype(t) for i, t in enumerate(argument_types(text))]
        for k, got in enumerate(executed(text, args)):
            bound = values[f"bound{k}"] + roughness(path.stem[6:], got.dtype)
            wrong = difference(got, values[f"out{k}"].astype(got.dtype), bound)
            if wrong:
                return f"result {k}{wrong}"
    return None


class Report:
    def __init__(self):
        self.count = collections.Counter()
        self.failures = []

    def attempt(self, what, path, fn):
        self.count[what] += 1
        try:
            wrong = fn()
        except Exception as error:  # whatever the parser or the compiler throws
            wrong = " ".join(str(error).split())[:300]
        if wrong:
            self.failures.append((what, path.name, wrong))


def check_samples(folder, report, every, only):
    paths = [p for p in sorted(folder.glob("*.mlir")) if re.search(only, p.stem[6:])]
    for i, path in enumerate(paths):
        text = path.read_text()
        report.attempt("parsed", path, lambda: parsed(text) and None)
        if i % every == 0 and path.stem[6:] not in DIFFERS and NO_SUCH_CALL not in text:
            report.attempt("run", path, lambda: check_run(path, text))


def check_graphs(flx, folder, report):
    for path in sorted([*root.glob("examples/*.flx"), *root.glob("tests/golden/**/*.flx")]):
        names = subprocess.run([flx, "check", str(path), "--json"], capture_output=True, text=True)
        symbols = sorted(set(re.findall(r"\b[A-Z][A-Za-z0-9_]*\b", " ".join(re.findall(r"\[[^\]]*\]", names.stdout)))))
        sets = [word for s in symbols for word in ("--set", f"{s}=3")]
        out = folder / (path.stem + ".mlir")
        made = subprocess.run([flx, "export", str(path), str(out), *sets], capture_output=True, text=True)
        if made.returncode == 0:
            report.attempt("graphs", path, lambda: parsed(out.read_text()) and None)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--tests", required=True)
    options.add_argument("--flx", required=True)
    options.add_argument("--every", type=int, default=7)
    options.add_argument("--only", default="")
    given = options.parse_args()
    report = Report()
    with tempfile.TemporaryDirectory() as name, jax_mlir.make_ir_context():
        folder = pathlib.Path(name)
        subprocess.run([given.tests, "stablehlo_export_keeps_samples"], check=True, stdout=subprocess.DEVNULL,
                       env={"FLX_TEST_KEEP": name, "PATH": "/usr/bin:/bin"})
        check_samples(folder, report, given.every, given.only)
        check_graphs(given.flx, folder, report)
    for what, path, wrong in report.failures:
        print(f"{what}: {path}: {wrong}")
    print(", ".join(f"{n} {what}" for what, n in report.count.items()) + f", {len(report.failures)} failed")
    sys.exit(1 if report.failures else 0)


if __name__ == "__main__":
    main()
