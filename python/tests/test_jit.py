# SPDX-License-Identifier: Apache-2.0
"""jit: trees, static arguments, versions, closures, nesting, errors, threads, memory."""

import collections
import dataclasses
import functools
import gc
import os
import sys
import sysconfig
import threading
import traceback

import pytest

np = pytest.importorskip("numpy")
import fluxion as fx  # noqa: E402
from fluxion import xp  # noqa: E402

Point = collections.namedtuple("Point", "x y")


@dataclasses.dataclass
class Layer:
    w: object
    b: object
    name: str = dataclasses.field(default="layer", metadata={"static": True})


class Box:
    def __init__(self, value):
        self.value = value


fx.register_pytree_node(Box, lambda b: ([b.value], None), lambda _, children: Box(children[0]))


def test_trees_go_in_and_out():
    tree = {"b": [fx.array(1.0), (fx.array(2.0), None)], "a": Point(fx.array(3.0), 4.0), "l": Layer(5.0, 6, "n"),
            "o": collections.OrderedDict(z=1.0, y=2.0), "box": Box(fx.array(7.0))}
    out = fx.jit(lambda t: fx.tree_map(lambda v: v * 2, t))(tree)
    assert type(out["a"]) is Point and out["a"].y.item() == 8.0
    assert type(out["l"]) is Layer and out["l"].name == "n" and out["l"].b.item() == 12
    assert out["b"][1][1] is None and out["b"][1][0].item() == 4.0
    assert list(out["o"]) == ["z", "y"] and out["box"].value.item() == 14.0
    leaves, structure = fx.tree_flatten(tree)
    assert fx.tree_structure(fx.tree_unflatten(structure, leaves)) == structure


def test_versions_by_type_and_static_value():
    log = []
    fx.log_compiles(log)
    f = fx.jit(lambda x, n, scale=1.0: x * scale + n, static_argnums=1)
    assert f(xp.ones((2,)), 3).tolist() == [4.0, 4.0]
    assert f(xp.ones((2,)), 3).tolist() == [4.0, 4.0]
    assert f.cache_size() == 1
    f(xp.ones((2,)), 4)
    f(xp.ones((3,)), 3)
    f(xp.ones((2,), dtype=fx.float64), 3)
    f(xp.ones((2,)), 3, scale=2.0)
    f(np.ones(2, "f4"), 3)
    assert f.cache_size() == 5 and len(log) == 5 and "f32[3]" in log[2]
    fx.log_compiles(False)
    f(xp.ones((4,)), 3)
    assert len(log) == 5
    g = fx.jit(lambda x, mode="a": x if mode == "a" else -x, static_argnames="mode")
    assert g(1.0, mode="b").item() == -1.0 and g(1.0).item() == 1.0 and g(1.0, "b").item() == -1.0
    with pytest.raises(TypeError):
        f(xp.ones((2,)), [3])
    f.clear_cache()
    assert f.cache_size() == 0


def test_numbers_are_weak():
    f = fx.jit(lambda x, s: x * s)
    assert f(xp.ones((2,), dtype=fx.float64), 0.1).tolist() == [0.1, 0.1]
    assert f(xp.ones((2,), dtype=fx.bfloat16), 2).dtype is fx.bfloat16
    assert f(2, 3).dtype is fx.int32 and f(2, 3.0).dtype is fx.float32 and f(True, True).dtype is fx.bool_
    assert fx.jit(lambda a: a)(2**40).item() == 2**40
    with pytest.raises(OverflowError):
        fx.jit(lambda a: a)(2**70)
    assert f(1j, 2.0).item() == 2j


def test_closures_become_inputs():
    large, small = fx.array(np.arange(1000.0)), fx.array(2.0)
    f = fx.jit(lambda x: (x + large).sum() * small)
    assert f(1.0).item() == pytest.approx((np.arange(1000.0) + 1).sum() * 2)
    assert len(f.trace(1.0).inputs) == 2


def test_nested_jit_and_methods():
    inner = fx.jit(lambda x, y: {"s": x + y, "p": x * y})

    class Model:
        w = fx.array([2.0, 3.0])

        @fx.jit
        def __call__(self, x):
            return inner(self.w, x)["p"].sum()
    fx.register_pytree_node(Model, lambda m: ([], None), lambda facts, children: Model())
    assert Model()(fx.array([1.0, 2.0])).item() == 8.0
    outer = fx.jit(lambda x: inner(x, x)["s"] + inner(x, 2.0)["p"])
    assert outer(fx.array([1.0])).tolist() == [4.0]
    assert fx.grad(lambda x: outer(x).sum())(fx.array([1.0])).tolist() == [4.0]
    assert fx.vmap(outer)(fx.array([[1.0], [2.0]])).tolist() == [[4.0], [8.0]]


def test_names_that_are_words_of_the_text_form():
    assert fx.jit(lambda graph, param, nan: graph + param * nan)(1.0, 2.0, 3.0).item() == 7.0


def test_results_that_are_arguments_constants_or_nothing():
    x = fx.array([1.0, 2.0])
    a, b, c, d = fx.jit(lambda v: (v, v, 3, None))(x)
    assert a.tolist() == b.tolist() == [1.0, 2.0] and c.item() == 3 and d is None
    assert fx.jit(lambda v: None)(x) is None and fx.jit(lambda: 1.5)().item() == 1.5
    many = fx.jit(lambda vs: [v + 1 for v in vs])([fx.array(float(i)) for i in range(100)])
    assert [m.item() for m in many] == [i + 1.0 for i in range(100)]


def line_of(function, *args):
    """The last line of this file in the traceback of the error that a call raises."""
    with pytest.raises(Exception) as caught:
        function(*args)
    frames = [f for f in traceback.extract_tb(caught.value.__traceback__) if f.filename == __file__]
    return caught.value, frames[-1].line


def test_errors_show_the_users_line():
    def f(x):
        y = x + 1
        return y @ xp.ones((5, 5))
    for function in (fx.jit(f), fx.grad(lambda x: f(x).sum()), fx.vmap(f)):
        error, line = line_of(function, xp.ones((2, 3, 4)))
        assert isinstance(error, fx.ShapeError) and line == "return y @ xp.ones((5, 5))"
    error, line = line_of(fx.jit(lambda x: f(x) if x.sum() > 0 else x), xp.ones((2, 3)))
    assert isinstance(error, fx.TracerError) and "fluxion.cond" in str(error)
    error, _ = line_of(fx.jit(lambda x: np.sin(x)), xp.ones((2,)))
    assert isinstance(error, TypeError)
    assert not isinstance(fx.jit(lambda x: x * 2)(xp.ones((2,))), type(None))


def test_leaked_values_are_reported():
    kept = []
    fx.jit(lambda x: kept.append(x) or x)(1.0)
    with pytest.raises(fx.TracerError, match="used"):
        kept[0] + 1
    with pytest.raises(fx.TracerError):
        fx.jit(lambda x: x + kept[0])(1.0)
    with pytest.raises(Exception):
        fx.jit(lambda x: 1 / 0)(1.0)
    assert fx.jit(lambda x: x + 1)(1.0).item() == 2.0


def test_errors_at_run_time_name_the_line():
    with pytest.raises(IndexError) as caught:
        fx.jit(lambda x, i: xp.take(x, i) * 2)(xp.ones((3,)), fx.array([5]))
    assert "L" in str(caught.value)


def run_together(*functions):
    """Each in a thread; their exceptions fail the test."""
    failed = []

    def guarded(function):
        try:
            function()
        except BaseException as e:
            failed.append(e)
    threads = [threading.Thread(target=guarded, args=(f,)) for f in functions]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed, failed


def test_threads_compile_and_run():
    f = fx.jit(lambda x, n: xp.sum(xp.sin(x) * n))
    expected = {n: f(xp.ones((64 + n,)), n).item() for n in range(6)}
    f.clear_cache()
    wrong = []

    def work(seed):
        for i in range(300):
            n = (seed + i) % 6
            if f(xp.ones((64 + n,)), n).item() != expected[n]:
                wrong.append(n)
    run_together(*[functools.partial(work, s) for s in range(8)])
    assert not wrong


def test_threads_change_trees_and_caches_while_others_call():
    f = fx.jit(lambda tree: sum(xp.sum(v) for v in tree["a"]) + xp.sum(tree["b"]))
    tree = {"a": [np.ones(4, "f4")] * 3, "b": np.ones(4, "f4")}
    f(tree)
    strange = []

    def call():
        for _ in range(500):
            try:
                strange.extend({f(tree).item()} - {8.0, 12.0, 16.0})
            except (IndexError, KeyError):  # the tree changed while it was read
                pass

    def change():
        for i in range(500):
            tree["a"].append(tree["a"].pop() if i % 2 else tree["b"])
            tree["a"][:] = tree["a"][:3 - i % 2]
            if i % 100 == 0:
                f.clear_cache()
    run_together(call, call, change)
    assert not strange


def test_threads_take_turns_with_a_trainer():
    t = fx.Trainer(lambda p, x: (p * x).sum(), fx.array(0.0), "sgd", rate=0.5)
    t.step(fx.array(1.0))

    def work():
        for _ in range(300):
            t.step(fx.array(1.0))
            assert (2 * t.params.item()).is_integer()
    run_together(work, work, work)
    assert t.params.item() == -0.5 * 901


def test_threads_change_the_log():
    heard = []

    def listen():
        for _ in range(200):
            fx.log_compiles(heard)
            fx.log_compiles(False)

    def compile_new():
        for n in range(1, 20):
            fx.jit(lambda x: x * n)(fx.array(1.0))
    run_together(listen, compile_new)


def test_an_interpreter_without_a_lock_stays_so():
    if not sysconfig.get_config_var("Py_GIL_DISABLED") or os.environ.get("PYTHON_GIL") == "1":
        pytest.skip("this interpreter has a lock")
    assert not sys._is_gil_enabled()


def test_lock_is_released_while_running():
    f = fx.jit(lambda x: fx.fori_loop(0, 300, lambda i, v: xp.tanh(v @ v), x))
    x = fx.array(np.eye(200, dtype="f4"))
    f(x)
    ticks = []
    done = threading.Event()

    def count():
        while not done.is_set():
            ticks.append(1)
            done.wait(0.0005)
    thread = threading.Thread(target=count)
    thread.start()
    f(x)
    done.set()
    thread.join()
    assert len(ticks) > 5


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def test_a_million_calls_keep_nothing():
    f = fx.jit(lambda p, x: {"y": p["w"] * x, "z": (x, 1.0)})
    p, x = {"w": fx.array([1.0, 2.0])}, np.ones(2, "f4")
    for _ in range(1000):
        f(p, x)
    gc.collect()
    before = resident()
    for _ in range(1000000):
        f(p, x)
    gc.collect()
    assert resident() - before < 4 << 20


def test_tracing_and_transforms_keep_nothing():
    x = fx.array([1.0, 2.0])

    def once():
        fx.grad(lambda v: (v * x).sum())(x)
        fx.from_dlpack(np.zeros(100000))
        np.asarray(fx.array([1.0]))
        with pytest.raises(fx.ShapeError):
            fx.jit(lambda v: v @ xp.ones((5, 5)))(x)
    for _ in range(50):
        once()
    gc.collect()
    before = resident()
    for _ in range(500):
        once()
    gc.collect()
    assert resident() - before < 8 << 20


def test_dataclasses_with_settings():
    @dataclasses.dataclass
    class Scaled:
        weight: object
        power: int

    fx.register_dataclass(Scaled, data_fields=["weight"], meta_fields=["power"])
    gradient = fx.jit(fx.grad(lambda m: m.weight ** m.power))(Scaled(fx.array(3.0), 2))
    assert gradient.weight.item() == 6 and gradient.power == 2
    for bad in ({"data_fields": ["weight"], "meta_fields": []}, {"data_fields": ["weight", "none"]},
                {"data_fields": ["weight"], "meta_fields": ["weight", "power"]}):
        with pytest.raises(ValueError):
            fx.register_dataclass(Scaled, **bad)

    @fx.register_dataclass
    @dataclasses.dataclass
    class Plain:
        weight: object

    assert fx.tree_leaves(Plain(1.0)) == [1.0]


def test_arguments_that_are_no_arrays_are_named():
    x = fx.xp.ones(3)
    with pytest.raises(TypeError, match="the argument 'mode': str is not an array.*static_argnums"):
        fx.jit(lambda x, mode: x)(x, "s")
    with pytest.raises(TypeError, match="the argument 'mode': .*static_argnums"):
        fx.jit(lambda y: fx.jit(lambda x, *, mode: x)(y, mode="s"))(x)
    with pytest.raises(fx.TracerError, match=r"tolist\(\) of f32\[3\]"):
        fx.jit(lambda x: x.tolist())(x)
    with pytest.raises(fx.DTypeError, match="grad with respect to 'x', which is i32"):
        fx.grad(lambda x: x * x)(fx.array(3))


def test_namespaces_list_what_is_for_users():
    import fluxion.numpy as fnp
    for module, internal in ((fx.xp, "builtins math apply to_array cast tracing dtypes as_dtype API_VERSIONS"),
                             (fnp, "builtins math apply to_array xp"), (fx.nn, "apply dtypes to_array"),
                             (fx.xp.linalg, "math apply dtypes NamedTuple to_array"), (fx.xp.fft, "apply cast")):
        assert not set(dir(module)) & set(internal.split()), module
        assert set(module.__all__) <= set(dir(module))
    assert {"add", "float32", "bool", "pi", "newaxis", "linalg", "fft", "from_dlpack", "astype"} <= set(dir(fx.xp))
    assert {"pad", "ndarray", "float32", "arctan2", "add", "linalg", "sinc"} <= set(dir(fnp))
    assert "softmax" in dir(fx.nn) and "QRResult" in dir(fx.xp.linalg) and "rfft" in dir(fx.xp.fft)
