# SPDX-License-Identifier: Apache-2.0
"""A minute of use without any other package, for script/test: python3 smoke.py FOLDER_OF_THE_PACKAGE. The last line is
`N passed, N failed`."""

import gc
import sys
import threading

sys.path.insert(0, sys.argv[1])

import fluxion as fx  # noqa: E402
from fluxion import xp  # noqa: E402


def near(x, expected):
    assert x.shape == fx.array(expected).shape, (x, expected)
    flat = fx.array(expected, fx.float64).flatten().tolist()
    assert all(abs(a - b) < 1e-5 for a, b in zip(x.flatten().tolist(), flat)), (x, expected)


def test_buffers_share_memory():
    a = fx.array([[1.0, 2.0], [3.0, 4.0]])
    view = memoryview(a)
    assert view.shape == (2, 2) and view.readonly and view.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    raw = bytearray(16)
    b = xp.asarray(memoryview(raw).cast("f"))
    raw[0:4] = bytes(view)[4:8]
    assert b.tolist() == [2.0, 0.0, 0.0, 0.0]
    assert fx.from_dlpack(a)._address == a._address
    assert fx.from_dlpack(a.__dlpack__())._address == a._address
    assert fx.from_dlpack(a.__dlpack__(max_version=(1, 0)))._address == a._address


def test_gradient_of_a_tree():
    def loss(params, x):
        return xp.mean(xp.tanh(x @ params["w"] + params["b"]) ** 2)
    params = {"w": xp.ones((3, 2)), "b": xp.zeros((2,))}
    value, gradient = fx.jit(fx.value_and_grad(loss))(params, xp.ones((4, 3)))
    near(value, 0.990134)
    near(gradient["b"], [0.009818, 0.009818])
    assert gradient["w"].shape == (3, 2)


def test_transforms_combine():
    near(fx.vmap(fx.grad(lambda x: x ** 3))(fx.array([1.0, 2.0])), [3.0, 12.0])
    near(fx.hessian(lambda x: x[0] * x[1])(fx.array([2.0, 3.0])), [[0.0, 1.0], [1.0, 0.0]])
    near(fx.jvp(xp.sin, (0.0,), (2.0,))[1], 2.0)


def test_control_flow():
    near(fx.scan(lambda c, x: (c + x, c), 0.0, fx.array([1.0, 2.0, 3.0]))[1], [0.0, 1.0, 3.0])
    assert fx.while_loop(lambda x: x < 100, lambda x: x * 2, 1).item() == 128
    near(fx.jit(lambda x: fx.cond(x > 0, lambda v: v * 2, lambda v: -v, x))(-3.0), 3.0)


def test_models_and_c_files():
    import os
    import tempfile
    with tempfile.TemporaryDirectory() as folder:
        g = fx.from_text("graph f(x: f32[2, 3], param w: f32[3, 2]) { return tanh(matmul(x, w)) }")
        x, w = xp.ones((2, 3)), xp.ones((3, 2)) * 0.1
        g.params = {"w": w}
        g.save(os.path.join(folder, "f.onnx"))
        h = fx.load(os.path.join(folder, "f.onnx"))
        near(h(x), g(x, w).tolist())
        near(fx.grad(lambda p: h(x, **p).sum())(h.params)["w"], [[1.8302739, 1.8302739]] * 3)
        g.build_c(os.path.join(folder, "f.c"), os.path.join(folder, "f.h"))
        with open(os.path.join(folder, "f.h")) as file:
            assert "int f_run(const f *m, const float *x, float *out0);" in file.read()


def test_errors_show_the_line():
    import traceback
    try:
        fx.jit(lambda x: x @ xp.ones((4, 4)))(xp.ones((2, 3)))  # this line
    except fx.ShapeError as error:
        assert "inner dimensions differ" in str(error)
        assert any("this line" in (f.line or "") for f in traceback.extract_tb(error.__traceback__))
    else:
        raise AssertionError("no error")


def test_threads_share_a_function():
    f = fx.jit(lambda x: xp.sum(x * x))
    wrong = []

    def work(n):
        for _ in range(200):
            if f(xp.full((8,), float(n))).item() != 8.0 * n * n:
                wrong.append(n)
    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_calls_keep_nothing():
    f = fx.jit(lambda p, x: {"y": p["w"] * x})
    p, x = {"w": fx.array([1.0, 2.0])}, fx.array([3.0, 4.0])
    for _ in range(10000):  # what is compiled beside the first calls is there then
        f(p, x)
    before = resident()
    for _ in range(100000):
        f(p, x)
    gc.collect()
    assert resident() - before < 4 << 20, resident() - before


def test_interrupt_ends_a_long_run():
    import os
    import signal
    import time
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts jobs in the background without it
    f = fx.jit(lambda x: fx.fori_loop(0, 10 ** 9, lambda i, c: xp.sin(c) + 1, x))
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    start = time.perf_counter()
    try:
        f(xp.ones(100))
        raise AssertionError("not interrupted")
    except KeyboardInterrupt:
        assert time.perf_counter() - start < 20
    near(fx.jit(lambda x: x + 1)(xp.ones(2)), [2.0, 2.0])


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


passed = failed = 0
for name, test in list(globals().items()):
    if name.startswith("test_"):
        try:
            test()
            passed += 1
        except Exception:
            import traceback
            traceback.print_exc()
            print("FAILED:", name)
            failed += 1
print(f"{passed} passed, {failed} failed")
sys.exit(failed != 0)
