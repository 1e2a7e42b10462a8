# SPDX-License-Identifier: Apache-2.0
"""Samples of all ops, written as ONNX models by flx_onnx_samples, are run by other readers: ONNX Runtime and the
reference evaluator of the package onnx. What both refuse is listed by op; what differs from `ref` in the readers that
run it is an error.

    build/flx_onnx_samples FOLDER > LIST
    python3 onnx_samples.py FOLDER LIST

Needs onnx, onnxruntime and ml_dtypes."""
import collections
import os
import sys
import warnings

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
from onnx.reference import ReferenceEvaluator

# Attributes of operations are f32 there, so that f64 has no more digits than it.
UNITS = {"float16": 2**-10, "bfloat16": 2**-7}
TYPES = {onnx.TensorProto.BFLOAT16: ml_dtypes.bfloat16}


def read(folder, kind, infos):
    """bf16 is f32 in these files."""
    values = [np.load(os.path.join(folder, f"{kind}_{k}.npy")) for k in range(len(infos))]
    kinds = [i.type.tensor_type.elem_type for i in infos]
    return [v.astype(TYPES.get(k, v.dtype)) for v, k in zip(values, kinds)]


def by_runtime(path, feeds, names):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(path, options)
    return session.run(None, dict(zip(names, feeds)))


def by_evaluator(path, feeds, names):
    return ReferenceEvaluator(path).run(None, dict(zip(names, feeds)))


# Not judged: numbers beyond the range of a dtype have no defined cast there; the package onnx multiplies extents of 2^32
# while it checks shapes, and takes the logarithm of a softmax that is 0.
def is_left_out(sample):
    if sample.startswith("cast "):
        return "to=u" in sample
    if sample.startswith("log_softmax bf16"):
        return "{-80..80}" in sample
    return sample.startswith("reshape ") and "4294967296" in sample


def difference(got, wanted):
    """'' if the values agree to some units of the largest element."""
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return f"{got.dtype}{list(got.shape)}, expected {wanted.dtype}{list(wanted.shape)}"
    if wanted.dtype.kind in "biu":
        wrong = got != wanted
    else:
        a, b = got.astype(np.complex128 if wanted.dtype.kind == "c" else float), wanted.astype(
            np.complex128 if wanted.dtype.kind == "c" else float)
        finite = np.isfinite(b)
        largest = np.abs(b[finite]).max(initial=0.0)
        bound = 8 * UNITS.get(wanted.dtype.name, 2**-20) * max(largest, 1e-30)
        with np.errstate(invalid="ignore"):
            near = np.abs(a - b) <= bound
        wrong = ~np.where(finite, near, (a == b) | (np.isnan(a) & np.isnan(b)))
    if not wrong.any():
        return ""
    i = np.unravel_index(np.argmax(wrong), wrong.shape)
    return f"at {[int(k) for k in i]}: {got[i]}, expected {wanted[i]}"


def judge(folder, run):
    path = os.path.join(folder, "model.onnx")
    graph = onnx.load(path).graph
    try:
        results = run(path, read(folder, "in", graph.input), [i.name for i in graph.input])
    except Exception as e:  # readers refuse what they do not know in many ways
        return "refused", f"{type(e).__name__}: {str(e)[:150]}"
    for got, wanted in zip(results, read(folder, "out", graph.output)):
        text = difference(np.asarray(got), wanted)
        if text:
            return "differs", text
    return "agrees", ""


def main():
    warnings.simplefilter("ignore")
    counts, wrong = collections.Counter(), 0
    unjudged, unwritten = collections.Counter(), collections.Counter()
    for line in open(sys.argv[2], encoding="utf-8"):
        number, op, sample, state = line.rstrip("\n").split("\t")
        if state != "written" or is_left_out(sample):
            unwritten[op] += 1
            continue
        folder = os.path.join(sys.argv[1], number)
        try:
            onnx.checker.check_model(onnx.load(os.path.join(folder, "model.onnx")), full_check=True)
        except Exception as e:
            print(f"INVALID {number} {sample}: {str(e)[:200]}")
            wrong += 1
            continue
        verdicts = [judge(folder, run) for run in (by_runtime, by_evaluator)]
        states = [v[0] for v in verdicts]
        counts["/".join(states)] += 1
        if "agrees" not in states and "differs" in states:
            print(f"DIFFERS {number} {sample}: {verdicts}")
            wrong += 1
        elif "differs" in states:
            print(f"one differs {number} {sample}: {verdicts}")
        elif "agrees" not in states:
            unjudged[op] += 1
    print("runtime/evaluator:", dict(counts))
    print("refused by both:", dict(unjudged))
    print("samples not written:", dict(unwritten))
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
