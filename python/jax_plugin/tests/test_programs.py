# SPDX-License-Identifier: Apache-2.0
"""What JAX says about compiled programs, kinds of memory, and derivatives of exported programs. Needs jax and pytest;
the last also the command line, build/flx or $FLX.

    FLX_PJRT_LIBRARY=$PWD/build/libfluxion_pjrt.so python -m pytest python/jax_plugin/tests
"""

import os
import pathlib
import subprocess
import sys

os.environ.setdefault("JAX_PLATFORMS", "fluxion,cpu")
os.environ.setdefault("FLX_PJRT_DEVICES", "8")
ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "python" / "jax_plugin"))

import numpy as np  # noqa: E402
import pytest  # noqa: E402

jax = pytest.importorskip("jax")
from jax import lax, numpy as jnp, shard_map  # noqa: E402
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P, SingleDeviceSharding  # noqa: E402

FLX = pathlib.Path(os.environ.get("FLX", ROOT / "build" / "flx"))


@pytest.fixture
def mesh():
    return Mesh(np.array(jax.devices("fluxion")).reshape(4, 2), ("x", "y"))


def test_text_of_a_program_is_hlo():
    text = jax.jit(lambda x: jnp.sin(x) + 1).lower(jnp.ones(4)).compile().as_text()
    assert "sine(" in text and "f32[4]" in text


def test_text_on_several_devices_has_exchanges(mesh):
    a = jax.device_put(np.ones((8, 8), np.float32), NamedSharding(mesh, P("x", "y")))
    text = jax.jit(lambda a: a.sum(0)).lower(a).compile().as_text()
    assert "all-reduce(" in text and "run the whole program" in text
    part = jax.jit(shard_map(lambda a: lax.psum(a, "x"), mesh=mesh, in_specs=P("x", "y"), out_specs=P(None, "y")))
    text = part.lower(a).compile().as_text()
    assert text.count("all-reduce(") == 1 and "What each device runs" in text


def test_out_info_has_layout_and_sharding(mesh):
    sharding = NamedSharding(mesh, P("x", "y"))
    a = jax.device_put(np.ones((8, 6), np.float32), sharding)
    info = jax.jit(lambda a: a * 2).lower(a).compile().out_info
    assert info.sharding == sharding and info.format.layout.major_to_minor == (0, 1)


@pytest.mark.parametrize("kind", ["pinned_host", "unpinned_host"])
def test_kinds_of_memory(kind):
    there = SingleDeviceSharding(jax.devices("fluxion")[0], memory_kind=kind)
    x = jax.device_put(np.arange(4, dtype=np.float32), there)
    assert x.sharding.memory_kind == kind
    assert jax.jit(lambda x: jax.device_put(x, jax.memory.Space.Device) * 2)(x).sharding.memory_kind == "device"
    y = jax.jit(lambda x: x + 1, out_shardings=there)(np.ones(3, np.float32))
    assert y.sharding.memory_kind == kind
    np.testing.assert_array_equal(y, 2)


@jax.custom_vjp
def clipped(x):
    return x * x


clipped.defvjp(lambda x: (clipped(x), x), lambda x, g: (jnp.clip(g * x, -0.5, 0.5),))


@jax.custom_jvp
def tripled(x, n):
    return jnp.sin(x) * n


tripled.defjvp(lambda p, t: (tripled(*p), 3 * t[0]))


@pytest.mark.parametrize("f", [lambda x: (lax.stop_gradient(x) * x).sum(), lambda x: clipped(x).sum(),
                               lambda x: tripled(x, 2).sum(), lambda x: (jax.nn.relu(x) * clipped(jnp.cos(x))).sum()],
                         ids=["stop_gradient", "custom_vjp", "custom_jvp", "nested"])
def test_gradient_of_an_exported_program_is_that_of_jax(f, tmp_path):
    if not FLX.exists():
        pytest.skip(f"no {FLX}")
    x = np.linspace(-1, 2, 5, dtype=np.float32)
    exported = jax.export.export(jax.jit(f), platforms=["fluxion"])(jax.ShapeDtypeStruct(x.shape, x.dtype))
    (tmp_path / "f.mlirbc").write_bytes(exported.mlir_module_serialized)
    np.save(tmp_path / "x.npy", x)

    def run(command):
        subprocess.run(command, cwd=tmp_path, shell=True, check=True, capture_output=True)

    run(f"{FLX} grad f.mlirbc --wrt arg0 -o g.flx && {FLX} run g.flx --in arg0=x.npy --out found")
    np.testing.assert_allclose(np.load(tmp_path / "found" / "d_arg0.npy"), jax.grad(f)(x), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(exported.call(x), f(x), rtol=1e-5)
