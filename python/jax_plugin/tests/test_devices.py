# SPDX-License-Identifier: Apache-2.0
"""JAX programs on eight virtual devices, and forms of matrices, beside NumPy and SciPy. Needs jax, scipy and pytest:

    FLX_PJRT_LIBRARY=$PWD/build/libfluxion_pjrt.so python -m pytest python/jax_plugin/tests
"""

import os
import pathlib
import sys

os.environ.update(JAX_PLATFORMS="fluxion,cpu", FLX_PJRT_DEVICES="8")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import numpy as np  # noqa: E402
import pytest  # noqa: E402

jax = pytest.importorskip("jax")
from jax import lax, numpy as jnp, shard_map  # noqa: E402
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P  # noqa: E402

rng = np.random.default_rng(0)


@pytest.fixture
def mesh():
    return Mesh(np.array(jax.devices("fluxion")).reshape(4, 2), ("x", "y"))


def array(*shape):
    return rng.normal(size=shape).astype(np.float32)


def test_jit_cuts_arguments_and_results(mesh):
    a = array(8, 6)
    f = jax.jit(lambda a: jnp.tanh(a) @ a.T, in_shardings=NamedSharding(mesh, P(("y", "x"))),
                out_shardings=NamedSharding(mesh, P("x", "y")))
    out = f(a)
    np.testing.assert_allclose(out, np.tanh(a) @ a.T, rtol=1e-5, atol=1e-6)
    assert out.addressable_shards[3].data.shape == (2, 4)


def test_result_is_cut_like_the_argument(mesh):
    sharding = NamedSharding(mesh, P("x", "y"))
    out = jax.jit(lambda a: jnp.sin(a) * 2 + 1)(jax.device_put(array(8, 6), sharding))
    assert out.sharding == sharding


@pytest.mark.parametrize("mode", ["interpret", "compile"])
def test_shard_map_exchanges(mesh, mode):
    a, b = array(8, 4), array(4, 6)

    def part(a, b):
        c = lax.psum(a @ b, "y")
        return c, lax.all_gather(c, "x", tiled=True), lax.ppermute(c, "x", [(i, (i + 1) % 4) for i in range(4)])

    f = jax.jit(shard_map(part, mesh=mesh, in_specs=(P("x", "y"), P("y")), out_specs=(P("x"), P(), P("x")),
                          check_vma=False), compiler_options={"fluxion_mode": mode})
    c, whole, moved = f(a, b)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(whole, a @ b, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(moved, np.roll(a @ b, 2, axis=0), rtol=1e-5, atol=1e-6)


def test_gradient_through_shard_map(mesh):
    a = array(8, 4)
    f = shard_map(lambda a: lax.psum(jnp.sum(a ** 3), ("x", "y")), mesh=mesh, in_specs=P("x", "y"), out_specs=P())
    np.testing.assert_allclose(jax.jit(jax.grad(f))(a), 3 * a ** 2, rtol=1e-5, atol=1e-6)


def test_loop_with_exchanges(mesh):
    a = array(8, 2)

    def part(a):
        return lax.fori_loop(0, 3, lambda i, v: lax.pmean(v, "x") + i, a)

    out = jax.jit(shard_map(part, mesh=mesh, in_specs=P("x", "y"), out_specs=P(None, "y"), check_vma=False))(a)
    np.testing.assert_allclose(out, a.reshape(4, 2, 2).mean(0) + 3, rtol=1e-5, atol=1e-6)


def test_pmap_in_groups():
    x = array(8, 3)
    groups = [[0, 7], [2, 3], [4, 5], [6, 1]]
    out = jax.pmap(lambda x: lax.psum(x, "i", axis_index_groups=groups), axis_name="i")(x)
    want = np.empty_like(x)
    for g in groups:
        want[g] = x[g].sum(0)
    np.testing.assert_allclose(out, want, rtol=1e-6)


def test_exception_of_one_device_is_that_of_the_program(mesh):
    def check(v):
        if v[0, 0] == 5:
            raise ValueError("five")
        return v

    def part(a):
        return lax.psum(jax.pure_callback(check, jax.ShapeDtypeStruct(a.shape, a.dtype), a), "x")

    f = jax.jit(shard_map(part, mesh=mesh, in_specs=P("x", "y"), out_specs=P(None, "y"), check_vma=False))
    with pytest.raises(jax.errors.JaxRuntimeError, match="five"):
        f(np.arange(8, dtype=np.float32).reshape(4, 2)).block_until_ready()


def test_ordered_callback_in_shard_map(mesh):
    seen = []

    def part(a):
        jax.experimental.io_callback(lambda v: seen.append(float(v[0, 0])), None, a, ordered=True)
        return a + 1

    a = np.arange(8, dtype=np.float32).reshape(4, 2)
    f = jax.jit(shard_map(part, mesh=mesh, in_specs=P("x", "y"), out_specs=P("x", "y")))
    np.testing.assert_array_equal(f(a), a + 1)
    jax.effects_barrier()
    assert sorted(seen) == list(range(8))


def test_long_call_returns_before_its_result_is_there():
    a = jax.device_put(array(700, 700), jax.devices("fluxion")[0])
    f = jax.jit(lambda a: lax.fori_loop(0, 4, lambda i, v: jnp.tanh(v @ a), a),
                compiler_options={"fluxion_mode": "compile"})
    first = f(a).block_until_ready()  # compiled, and known to be long
    pending = f(a)
    later = pending + 1  # of what is not there yet
    np.testing.assert_array_equal(np.asarray(later), np.asarray(first) + 1)


@pytest.mark.parametrize("kind", [np.float32, np.complex64])
def test_schur_form(kind):
    a = (array(5, 5) + (1j * array(5, 5) if kind == np.complex64 else 0)).astype(kind)
    t, z = jax.jit(jax.scipy.linalg.schur)(jax.device_put(a, jax.devices("fluxion")[0]))
    np.testing.assert_allclose(np.asarray(z) @ np.asarray(t) @ np.asarray(z).conj().T, a, atol=2e-5)
    assert np.all(np.tril(np.asarray(t), -2) == 0)


def test_columns_that_are_fixed_come_first():
    from jax._src.lax.linalg import geqp3

    a = jax.device_put(np.array([[1, 9, 2], [0, 9, 2]], np.float32), jax.devices("fluxion")[0])
    for fixed, order in (([0, 0, 0], [2, 1, 3]), ([0, 0, 1], [3, 1, 2]), ([1, 0, 1], [1, 3, 2])):
        packed, found, _ = geqp3(a, np.array(fixed, np.int32))
        assert np.asarray(found).tolist()[:2] == order[:2]
        r = np.triu(np.asarray(packed))
        columns = np.asarray(a)[:, np.asarray(found) - 1]
        np.testing.assert_allclose(r.T @ r, columns.T @ columns, rtol=1e-5, atol=1e-5)


def test_hessenberg_form_with_strict_dtypes():
    a = (array(5, 5) + 1j * array(5, 5)).astype(np.complex64)
    with jax.numpy_dtype_promotion("strict"):
        h, q = jax.scipy.linalg.hessenberg(jax.device_put(a, jax.devices("fluxion")[0]), calc_q=True)
    np.testing.assert_allclose(np.asarray(q) @ np.asarray(h) @ np.asarray(q).conj().T, a, atol=2e-5)
