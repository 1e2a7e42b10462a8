# SPDX-License-Identifier: Apache-2.0
"""Graphs of examples/ written as ONNX models: checked by the package onnx, run by ONNX Runtime, compared with flx run.

    python3 onnx_export.py FLX FOLDER [DIM=EXTENT...]

A graph with an op that ONNX does not have is listed as such. Needs onnx and onnxruntime."""
import glob
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime

DTYPES = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(int32)": np.int32,
          "tensor(int64)": np.int64, "tensor(bool)": np.bool_}


def some(shape, dtype, rng):
    if np.issubdtype(dtype, np.floating):
        return np.asarray(0.3 * rng.standard_normal(shape), dtype)
    return np.asarray(rng.integers(0, 2, shape), dtype)


def check(flx, path, dims, folder):
    out = os.path.join(folder, "m.onnx")
    for sets in ([f"--set={d}" for d in dims], []):
        done = subprocess.run([flx, "export", path, out, *sets], capture_output=True, text=True)
        if done.returncode == 0:
            break
    if done.returncode:
        return "not written: " + done.stderr.splitlines()[0].split("error: ")[-1]
    onnx.checker.check_model(onnx.load(out), full_check=True)
    session = onnxruntime.InferenceSession(out)
    rng = np.random.default_rng(0)
    feeds = {i.name: some(i.shape, DTYPES[i.type], rng) for i in session.get_inputs()}
    wanted = dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds)))
    for name, value in feeds.items():
        np.save(os.path.join(folder, name + ".npy"), value)
    given = [f"--in={n}={os.path.join(folder, n)}.npy" for n in feeds]
    subprocess.run([flx, "run", path, "--device", "ref", "--out", folder, *given], check=True, stdout=subprocess.DEVNULL)
    worst = 0.0
    for name, value in wanted.items():
        got = np.load(os.path.join(folder, name + ".npy"))
        worst = max(worst, float(np.abs(got.astype(float) - value).max() / max(np.abs(value).max(), 1e-6)))
    return f"{'agrees' if worst < 1e-5 else 'DIFFERS'}: {worst:.1e}"


def main():
    failed = 0
    for path in sorted(glob.glob(os.path.join(sys.argv[2], "*.flx"))):
        with tempfile.TemporaryDirectory() as folder:
            try:
                text = check(sys.argv[1], path, sys.argv[3:], folder)
            except Exception as e:  # the others still run
                text = f"DIFFERS: {type(e).__name__}: {str(e)[:200]}"
        failed += text.startswith("DIFFERS")
        print(f"{os.path.basename(path):20} {text}")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
