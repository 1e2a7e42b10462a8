# SPDX-License-Identifier: Apache-2.0
"""Writes the node tests of the ONNX project as folders: model.onnx, test_data_set_0/input_N.pb and output_N.pb, and the
bounds of the comparison in `tolerance`. script/conformance onnx runs them.

    python3 onnx_node_tests.py OUT [NAME...]      all of them, or those with these names (the fixtures of tests/onnx)

Needs the package onnx."""
import os
import sys

from onnx import TensorProto, numpy_helper
from onnx.backend.test.loader import load_model_tests


def as_message(value, info):
    kind = info.type.WhichOneof("value")
    if kind == "map_type":
        return numpy_helper.from_dict(value, info.name)
    if kind == "sequence_type":
        return numpy_helper.from_list(value, info.name)
    if kind == "optional_type":
        return numpy_helper.from_optional(value, info.name)
    return value if isinstance(value, TensorProto) else numpy_helper.from_array(value, info.name)


def write(path, data):
    with open(path, "wb") as f:
        f.write(data)


def write_case(case, folder):
    data = os.path.join(folder, "test_data_set_0")
    os.makedirs(data, exist_ok=True)
    write(os.path.join(folder, "model.onnx"), case.model.SerializeToString())
    write(os.path.join(folder, "tolerance"), f"{case.rtol} {case.atol}\n".encode())
    inputs, outputs = case.data_sets[0]
    graph = case.model.graph
    for name, values, infos in (("input", inputs, graph.input), ("output", outputs, graph.output)):
        for i, value in enumerate(values):
            write(os.path.join(data, f"{name}_{i}.pb"), as_message(value, infos[i]).SerializeToString())


def main():
    out, names = sys.argv[1], set(sys.argv[2:])
    for case in load_model_tests(kind="node"):
        if not names or case.name in names:
            write_case(case, os.path.join(out, case.name))


if __name__ == "__main__":
    main()
