# SPDX-License-Identifier: Apache-2.0
"""Writes programs.zip: the programs of programs.py as portable artifacts (NAME.mlirbc) and, as MLIR prints the same
artifacts, as text (NAME.mlir). Programs take turns in the StableHLO version they are written for. Also the texts of the
golden files that can be converted, under golden/.

    python make_programs.py OUT.zip GOLDEN_FOLDER        needs jax 0.10.2, flatbuffers
"""
import pathlib
import sys
import zipfile

import jax
import jax.experimental.ode  # noqa: F401
import jax.export
from jax._src.interpreters import mlir
from jax._src.lib import _jax
from jaxlib.mlir import ir, passmanager

import programs

VERSIONS = ["1.15.0", "1.17.0", "1.14.0", "1.13.0", "1.11.0", "1.9.0", "1.8.0", "1.5.0", "1.4.0", "1.1.0", "1.0.0"]


def without_shardings(op):
    """Shardings are notes, of which text and bytecode keep different forms."""
    for name in [n for n in op.attributes if n.startswith("sdy.")]:
        del op.attributes[name]
    for region in op.regions:
        for block in region:
            for inner in block:
                without_shardings(inner.operation)


def text_of(artifact):
    with mlir.make_ir_context():
        module = ir.Module.parse(mlir.module_to_bytecode(_jax.mlir.deserialize_portable_artifact(artifact)))
        without_shardings(module.operation)
        return module.operation.get_asm(enable_debug_info=False, large_elements_limit=1 << 30)


def without_locations(module):
    """They would name folders of the machine that runs this."""
    with module.context:
        passmanager.PassManager.parse("builtin.module(strip-debuginfo)").run(module.operation)
    return module


def serialize(module, start):
    """In the version whose turn it is, or the next one that can express the program."""
    without_locations(module)
    for i in range(len(VERSIONS)):
        version = VERSIONS[(start + i) % len(VERSIONS)]
        try:
            return _jax.mlir.serialize_portable_artifact(module, version, True)
        except Exception:  # an operation is younger than the version
            continue
    raise ValueError("no version can express it")


def lowered(f, args):
    jitted = f if hasattr(f, "lower") else jax.jit(f)
    return jitted.lower(*args).compiler_ir("stablehlo")


def golden(path):
    lines = [line for line in path.read_text().splitlines() if not line.lstrip().startswith("#") or "=" in line[:12]]
    with mlir.make_ir_context():
        return ir.Module.parse("\n".join(line for line in lines if not line.startswith(("#$", "#>", "#!", "#?"))))


def write(out, name, artifact):
    text = text_of(artifact)
    if len(text) > 12000 and name != "literal_large":  # much of the same
        return
    for suffix, data in (("mlirbc", artifact), ("mlir", text)):
        out.writestr(zipfile.ZipInfo(f"{name}.{suffix}"), data, zipfile.ZIP_DEFLATED, 9)


def main():
    count = 0
    with zipfile.ZipFile(sys.argv[1], "w") as out:
        for i, (name, (f, args)) in enumerate(programs.programs.items()):
            try:
                write(out, name, serialize(lowered(f, args), i))
                count += 1
            except Exception as e:
                print(f"{name}: {str(e)[:200]}", file=sys.stderr)
        for i, path in enumerate(sorted(pathlib.Path(sys.argv[2]).glob("*.mlir"))):
            try:
                with mlir.make_ir_context():
                    write(out, "golden/" + path.stem, serialize(golden(path), i))
                    count += 1
            except Exception as e:
                print(f"golden/{path.name}: {str(e)[:100]}", file=sys.stderr)
    print(count, "programs")


main()
