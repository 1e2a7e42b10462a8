# SPDX-License-Identifier: Apache-2.0
"""Arrays in and out: buffers, NumPy, DLPack, in all dtypes, without copies, and with the right lifetimes."""

import gc
import pickle
import sys
import weakref

import pytest

np = pytest.importorskip("numpy")
import fluxion as fx  # noqa: E402

NAMES = [d.name for d in fx.dtypes.TABLE[1:] if d is not fx.bfloat16]


def sample(name):
    return (np.arange(12).reshape(3, 4) % 2 if name == "bool" else np.arange(12).reshape(3, 4)).astype(name)


@pytest.mark.parametrize("name", NAMES)
def test_numpy_in_and_out_without_copies(name):
    x = sample(name)
    a = fx.asarray(x)
    assert a.dtype == name and a.dtype == x.dtype and a.shape == (3, 4)
    assert a._address == x.ctypes.data
    back = np.asarray(a)
    assert back.ctypes.data == x.ctypes.data and not back.flags.writeable and back.dtype == x.dtype
    np.testing.assert_array_equal(back, x)


@pytest.mark.parametrize("name", NAMES)
def test_dlpack_in_and_out_without_copies(name):
    x = sample(name)
    a = fx.from_dlpack(x)
    assert a._address == x.ctypes.data and a.dtype == name
    back = np.from_dlpack(a)
    assert back.ctypes.data == x.ctypes.data
    np.testing.assert_array_equal(back, x)


def test_copies_where_asked_or_needed():
    x = np.arange(12.0).reshape(3, 4)
    assert fx.array(x)._address != x.ctypes.data
    np.testing.assert_array_equal(fx.asarray(x.T), x.T)
    np.testing.assert_array_equal(fx.from_dlpack(x[:, ::2]), x[:, ::2])
    np.testing.assert_array_equal(fx.asarray(x[::-1, 1:]), x[::-1, 1:])
    np.testing.assert_array_equal(fx.asarray(x.astype(">f8")), x)
    assert fx.asarray(np.zeros((0, 3))).shape == (0, 3)


def test_bfloat16_through_ml_dtypes():
    ml = pytest.importorskip("ml_dtypes")
    x = np.arange(6).astype(ml.bfloat16)
    a = fx.asarray(x)
    assert a.dtype is fx.bfloat16 and a._address == x.ctypes.data
    back = np.asarray(a)
    assert back.dtype == ml.bfloat16
    np.testing.assert_array_equal(back.astype("f4"), x.astype("f4"))
    with pytest.raises(BufferError):
        memoryview(a)


def test_memory_lives_as_long_as_its_users():
    class Owner(np.ndarray):
        pass
    x = np.zeros(1000).view(Owner)
    gone = weakref.ref(x)
    a = fx.asarray(x)
    del x
    gc.collect()
    assert gone() is not None
    view = np.asarray(a)
    del a
    gc.collect()
    assert gone() is not None
    del view
    gc.collect()
    assert gone() is None


def test_capsule_that_nobody_takes_is_freed():
    a = fx.array(np.zeros(1000))
    before = sys.getrefcount(a)
    for _ in range(100):
        a.__dlpack__()
        a.__dlpack__(max_version=(1, 0))
    assert sys.getrefcount(a) == before
    capsule = a.__dlpack__()
    assert fx.from_dlpack(capsule)._address == a._address
    with pytest.raises(TypeError):
        fx.from_dlpack(capsule)


def test_jax_arrays():
    jax = pytest.importorskip("jax")
    x = jax.numpy.arange(6.0)
    a = fx.from_dlpack(x)
    assert a._address == x.unsafe_buffer_pointer()
    assert jax.numpy.from_dlpack(fx.array([1.0, 2.0])).tolist() == [1.0, 2.0]


def test_numbers_and_lists():
    assert fx.array(1).dtype is fx.int32 and fx.array(1.0).dtype is fx.float32
    assert fx.array([True, False]).dtype is fx.bool_ and fx.array([1, 2.5]).tolist() == [1.0, 2.5]
    assert fx.array(1j).item() == 1j and fx.array([], fx.int8).shape == (0,)
    assert fx.array([[1, 2], [3, 4]], "uint8").tolist() == [[1, 2], [3, 4]]
    assert fx.array(2**40, fx.int64).item() == 2**40
    assert fx.array(1e300).item() == float("inf")
    for wrong in ([[1], [2, 3]], [None], "text", object()):
        with pytest.raises((TypeError, ValueError)):
            fx.array(wrong)
    with pytest.raises(OverflowError):
        fx.array(300, fx.int8)


def test_wrong_calls_of_the_core_are_errors():
    core = fx._core
    a, g = fx.array([1.0, 2.0]), core.Graph("g")
    h = core.Graph("h")
    other = h.input("x", fx.float32, (2,))
    compiled_graph = core.Graph("k")
    compiled_graph.output(compiled_graph.input("x", fx.float32, (2,)), None)
    compiled = core.compile(compiled_graph)
    calls = [fx.Array, lambda: object.__new__(fx.Array), core.Exec, core.Graph, lambda: core.Graph(1), core.Trainer,
             lambda: g.op("add", (other, other), ()), lambda: g.op("add", (a, a), ()),
             lambda: g.op("add", (1,), ()),
             lambda: g.op("none", (), ()), lambda: g.op("add", (), (1,)),
             lambda: h.op("neg", (other,), (("a", "b", 1),)),
             lambda: g.input("x", 3, ()), lambda: g.input("x", fx.float32, (1,) * 17), lambda: g.output(1, None),
             lambda: core.grad(h, ["none"], 0), lambda: core.grad(1, [], 0),
             lambda: core.vmap(h, ["x"], [5], [], 2), lambda: core.show(h, "none"),
             lambda: core.read(b"x", "flx", "f"),
             lambda: core.read(b"", "flxb", "f"), lambda: compiled.run([]), lambda: compiled.run([1]),
             lambda: compiled.run([fx.array([1.0])]), lambda: compiled.run([other]), lambda: core.compile(1),
             lambda: core.from_bytes(fx.float32, (2,), b"123"), lambda: core.from_dlpack(a, False),
             lambda: core.from_buffer(1, False), lambda: core.unflatten((tuple, None, "*"), []),
             lambda: core.unflatten("*", [1, 2]), lambda: a._retag(fx.float64), lambda: a._element(5),
             lambda: a.__dlpack__(dl_device=(2, 0)), lambda: a.__dlpack__(max_version=1), lambda: a.to_device("gpu"),
             lambda: core.dim_op("/", core.dim_symbol("N"), 0), lambda: core.specialise(h, {"N": "x"})]
    for i, call in enumerate(calls):
        with pytest.raises(Exception) as caught:
            call()
        assert not isinstance(caught.value, SystemError), i


def test_arrays_do_not_change():
    a = fx.array([1.0, 2.0])
    with pytest.raises(TypeError, match="at"):
        a[0] = 3.0
    with pytest.raises((ValueError, BufferError)):
        np.asarray(a)[0] = 3.0
    with pytest.raises(TypeError):
        hash(a)


def test_pickle_text_and_numbers():
    for a in (fx.array([[1.0, -2.5]]), fx.array([1, 2], fx.bfloat16), fx.array(True)):
        b = pickle.loads(pickle.dumps(a))
        assert b.dtype is a.dtype and b.tolist() == a.tolist()
    assert repr(fx.array([1.0, 2.5])) == "Array([1, 2.5], dtype=float32)"
    assert len(repr(fx.xp.zeros((1000, 1000)))) < 1000
    assert float(fx.array(2.5)) == 2.5 and int(fx.array(3)) == 3 and bool(fx.array(1)) and [0, 1, 2][fx.array(1)] == 1
    assert f"{fx.array(2.5):.2f}" == "2.50" and pickle.loads(pickle.dumps(fx.float32)) is fx.float32
    with pytest.raises(TypeError):
        float(fx.array([1.0, 2.0]))


def test_mixed_operands():
    a = fx.array([1.0, 2.0])
    assert (np.float32(2) * a).dtype is fx.float32
    assert isinstance(np.ones(2, "f4") + a, fx.Array)
    assert (a + np.ones(2)).dtype is fx.float64
    assert (fx.array([1], fx.int8) + 1).dtype is fx.int8 and (fx.array([1], fx.int8) + 1.0).dtype is fx.float32
    assert (fx.array([1], fx.uint8) + fx.array([1], fx.int8)).dtype is fx.int16
    assert (fx.array([1.0], fx.bfloat16) * fx.array([1.0], fx.float16)).dtype is fx.float32


INDICES = [np.s_[0], np.s_[-1], np.s_[:, 1:, ::2], np.s_[..., -1], np.s_[:, None, 1], np.s_[[0, 1], [1, 2]],
           np.s_[:, [0, 2]], np.s_[[0, 1], :, [1, 2]], np.s_[1, [0, -1]], np.s_[:, ::-1], np.s_[None, [0, 1], None],
           np.s_[:, 2:0:-1, ::-3], np.s_[()], np.s_[0:0], np.s_[np.array([[0, 1], [1, 0]])], np.s_[..., None],
           np.s_[:, np.array([True, False, True])], np.s_[1:, :, [[0], [3]]], np.s_[:, :, 5:2]]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_indexing_is_numpys(index):
    n = np.arange(24.0, dtype="f4").reshape(2, 3, 4)
    x = fx.array(n)
    np.testing.assert_array_equal(x[index], n[index])
    if not any(isinstance(i, np.ndarray) and i.dtype == bool for i in (index if isinstance(index, tuple) else ())):
        np.testing.assert_array_equal(fx.jit(lambda v: v[index])(x), n[index])
    updated = n.copy()
    updated[index] = 7
    np.testing.assert_array_equal(x.at[index].set(7.0), updated)
    added = n.copy()
    np.add.at(added, index, 2)
    np.testing.assert_array_equal(x.at[index].add(2.0), added)


def test_masks_and_wrong_indices():
    n = np.arange(6.0)
    x = fx.array(n)
    np.testing.assert_array_equal(x[x > 2], n[n > 2])
    with pytest.raises(fx.TracerError):
        fx.jit(lambda v: v[v > 2])(x)
    for wrong in (6, -7, (0, 0), "a", 1.5):
        with pytest.raises((IndexError, TypeError)):
            x[wrong]
    with pytest.raises(IndexError):
        x[fx.array([0, 6])]
    with pytest.raises(IndexError):
        fx.jit(lambda v, i: v[i])(x, fx.array([-7]))
    with pytest.raises(IndexError):
        fx.array(np.ones((2, 3)))[fx.array([0]), fx.array([3])]
