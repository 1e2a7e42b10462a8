# SPDX-License-Identifier: Apache-2.0
"""Graphs, files, kernels, training, ops from the table, random numbers, doctests, the import's time."""

import doctest
import importlib
import inspect
import os
import subprocess
import sys

import pytest

np = pytest.importorskip("numpy")
import fluxion as fx  # noqa: E402
from fluxion import xp  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def test_symbolic_graphs_run_with_any_extents(tmp_path):
    g = fx.trace(lambda x, w: xp.tanh(x @ w).sum(axis=0), fx.ShapeDtype(("B", 3)), fx.ShapeDtype((3, 2)))
    assert g.symbols == ["B"] and "f32[B, 3]" in str(g) and g._repr_svg_().startswith("<svg")
    for n in (2, 5):
        x, w = np.ones((n, 3), "f4"), np.ones((3, 2), "f4")
        np.testing.assert_allclose(g(x, w), np.tanh(x @ w).sum(0), rtol=1e-5)
        np.testing.assert_allclose(g(w=w, x=x), np.tanh(x @ w).sum(0), rtol=1e-5)
    for extension in ("flx", "flxb"):
        g.save(tmp_path / f"m.{extension}")
        np.testing.assert_allclose(fx.load(tmp_path / f"m.{extension}")(x, w), g(x, w), rtol=1e-6)
    fixed = g.specialise(B=4)
    assert fixed.memory >= 0 and fixed.simplified()(np.ones((4, 3), "f4"), w).shape == (2,)
    assert fixed.symbols == [] and "stablehlo" in fixed.text("mlir") and "tanh" in fixed.report()
    grad = fx.grad(lambda w: g(x, w).sum())(w)
    assert grad.shape == (3, 2)
    with pytest.raises(fx.UnsupportedError):
        g.save(tmp_path / "m.txt")
    with pytest.raises(TypeError):
        g(x)
    with pytest.raises(TypeError):
        g(x, w, v=1)


def test_language_models_are_functions_of_tokens():
    g = fx.load(os.path.join(ROOT, "examples", "tiny.gguf"))
    logits = g(fx.array([1, 5, 9]))
    assert logits.shape == (3, 11) and logits.dtype == fx.float32
    assert g.params["blk.0.attn_q.weight"].dtype == fx.uint8
    assert np.array_equal(g(fx.array([1, 5]))[1], logits[1])  # what follows does not change it
    norm = g.params["output_norm.weight"]
    gradient = fx.grad(lambda w: xp.sum(g(fx.array([1, 5, 9]), **{"output_norm.weight": w}) ** 2))(norm)
    assert gradient.shape == norm.shape and bool(xp.any(gradient != 0))
    with pytest.raises(fx.UnsupportedError, match="read, not written"):
        g.save("model.gguf")


def test_arrays_of_files(tmp_path):
    arrays = fx.load_arrays(os.path.join(ROOT, "tests", "fuzz", "corpus", "weights", "state.pt"))
    assert arrays["fc1.bias"].tolist() == [10, 11]
    np.savez_compressed(tmp_path / "a.npz", x=np.arange(6.0).reshape(2, 3), y=np.int8(3))
    arrays = fx.load_arrays(tmp_path / "a.npz")
    assert arrays["x"].tolist() == [[0, 1, 2], [3, 4, 5]] and arrays["y"].item() == 3
    with pytest.raises(OSError):
        fx.load_arrays(tmp_path / "missing.npz")


def test_parameters_stay_with_their_file(tmp_path):
    g = fx.from_text("graph f(x: f32[2, 3], param w: f32[3, 2]) { return tanh(matmul(x, w)) }")
    x, w = np.ones((2, 3), "f4"), np.arange(6, dtype="f4").reshape(3, 2) / 9
    g.params = {"w": fx.array(w)}
    for extension in ("flx", "flxb", "onnx"):
        (tmp_path / extension).mkdir()
        g.save(tmp_path / extension / f"m.{extension}")
        h = fx.load(tmp_path / extension / f"m.{extension}")
        np.testing.assert_allclose(h(x), np.tanh(x @ w), rtol=1e-5)
    for name in ("a.safetensors", "a.npz"):
        fx.save_arrays(tmp_path / name, {"w": w, "half": fx.array([1.5], fx.float16)})
        arrays = fx.load_arrays(tmp_path / name)
        assert np.array_equal(arrays["w"], w) and arrays["half"].dtype == fx.float16
    assert np.array_equal(np.load(tmp_path / "a.npz")["w"], w)
    with pytest.raises(fx.UnsupportedError, match="extension"):
        fx.save_arrays(tmp_path / "a.txt", {})


def test_inputs_of_onnx_models_can_be_fixed():
    cases = os.path.join(ROOT, "tests", "onnx", "cases")
    path = os.path.join(cases, "test_reshape_zero_and_negative_dim", "model.onnx")
    with pytest.raises(fx.UnsupportedError, match="must be known"):
        fx.load(path)
    g = fx.load(path, fixed={"shape": np.array([2, 0, 1, -1])})
    assert g(np.zeros((2, 3, 4), "f4")).shape == (2, 3, 1, 4)
    path = os.path.join(cases, "test_strnormalizer_export_monday_casesensintive_upper", "model.onnx")
    for texts in (["monday", "tuesday", "May", "June"], np.array(["monday", "tuesday", "May", "June"])):
        y = np.asarray(fx.load(path, fixed={"x": texts})())
        assert [bytes(row).rstrip(b"\0") for row in y] == [b"TUESDAY", b"MAY", b"JUNE"]
    with pytest.raises(fx.Error, match="no input 'z'"):
        fx.load(path, fixed={"x": texts, "z": ["a"]})
    with pytest.raises(fx.UnsupportedError, match="only inputs of ONNX"):
        fx.load("m.flx", fixed={"z": 1})


def test_adapters_of_a_language_model_learn():
    path = os.path.join(ROOT, "examples", "tiny.gguf")
    g, tokens = fx.load(path, adapter_rank=2), fx.array([1, 5, 9, 4, 2, 7])
    assert np.array_equal(g(tokens), fx.load(path)(tokens))  # nothing yet
    adapters = {n: p for n, p in g.params.items() if ".lora_" in n}

    def loss(adapters, tokens):
        rows = fx.nn.log_softmax(g(tokens[:-1], **adapters))
        return -xp.mean(xp.take_along_axis(rows, tokens[1:, None], axis=1))
    trainer = fx.Trainer(loss, adapters, "adam", rate=0.01)
    losses = [trainer.step(tokens) for _ in range(30)]
    assert losses[-1] < 0.5 * losses[0]


def test_text_and_errors_of_files(tmp_path):
    g = fx.from_text("graph f(x: f32[3]) { return reduce_sum(mul(x, exp(neg(x)))) }")
    np.testing.assert_allclose(fx.grad(g)(fx.array([0.0, 1.0, 2.0])), [1, 0, -0.1353353], atol=1e-6)
    with pytest.raises(fx.Error, match="bad.flx:1"):
        (tmp_path / "bad.flx").write_text("graph f(x: f32[3]) { return nothing(x) }")
        fx.load(tmp_path / "bad.flx")
    with pytest.raises(OSError):
        fx.load(tmp_path / "absent.flx")


def test_training_reaches_the_minimum():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(64, 3)).astype("f4")
    y = x @ np.array([1.0, -2.0, 0.5], "f4") + 3

    def loss(p, x, y):
        error = x @ p["w"] + p["b"] - y
        return xp.mean(error ** 2), {"worst": xp.max(xp.abs(error))}
    t = fx.Trainer(loss, {"w": xp.zeros((3,)), "b": xp.zeros(())}, "adam", rate=0.1, batch_dim="B",
                   schedule=fx.schedule("cosine", steps=300))
    losses = [t.step(x[:32 + i % 8], y[:32 + i % 8]) for i in range(300)]
    assert losses[-1] < 1e-4 < losses[0]
    np.testing.assert_allclose(t.params["w"], [1.0, -2.0, 0.5], atol=0.02)
    assert t.aux["worst"].item() < 0.05 and t.gradient_norm >= 0 and t.rate < 0.1 and t.state
    t.params = {"w": xp.ones((3,)), "b": xp.zeros(())}
    assert t.params["w"].tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(ValueError):
        fx.Trainer(loss, {"w": 0.0}, "none").step(x, y)
    with pytest.raises(TypeError):
        fx.Trainer(loss, {"w": xp.zeros((3,)), "b": 0.0}, "sgd", steps=3).step(x, y)
    fixed = fx.Trainer(lambda p, x: (p * x).sum(), xp.ones((2,)), "sgd", rate=0.1)
    fixed.step(xp.ones((2,)))
    assert fixed.params.tolist() == pytest.approx([0.9, 0.9])
    with pytest.raises(fx.UsageError, match="in the first batch it was"):
        fixed.step(xp.ones((3, 2)))


BELL = """kernel bell(workgroup = [1, 1, 1]) {
  buffer x: f32[] read;
  buffer y: f32[] output;
  let i = invocation_id(0);
  y[i] = x[i] / fma(x[i], x[i], 1.0);
}"""


def test_kernels_are_functions_with_gradients():
    bell = fx.kernel(BELL, grid=lambda x: x.shape, outputs=lambda x: [x])
    x = fx.array([-1.0, 0.5, 2.0])
    np.testing.assert_allclose(bell(x), np.asarray(x) / (1 + np.asarray(x) ** 2), rtol=1e-6)
    expected = fx.grad(lambda v: (v / (1 + v * v)).sum())(x)
    np.testing.assert_allclose(fx.grad(lambda v: bell(v).sum())(x), expected, rtol=1e-5)
    np.testing.assert_allclose(fx.jit(fx.vmap(bell))(xp.stack([x, x]))[1], bell(x), rtol=1e-6)
    with pytest.raises(fx.Error, match="K"):
        fx.kernel(BELL.replace("x[i] /", "z[i] /"), grid=[3], outputs=[x])(x)


def test_every_op_is_a_function():
    names = dir(fx.ops)
    assert len(names) > 300 and "softmax" in names and "if_" in names
    for name in names:
        function = getattr(fx.ops, name)
        assert callable(function) and function.__doc__
        inspect.signature(function)
    np.testing.assert_allclose(fx.ops.softmax([1.0, 1.0]), [0.5, 0.5])
    values, positions = fx.ops.top_k(fx.array([1.0, 3.0, 2.0]), 2)
    assert values.tolist() == [3.0, 2.0] and positions.tolist() == [1, 2]
    assert fx.ops.concat([1.0], [2, 3], axis=0).tolist() == [1.0, 2.0, 3.0]
    with pytest.raises(TypeError, match="no attribute 'axes'"):
        fx.ops.softmax([1.0], axes=0)
    with pytest.raises(AttributeError):
        fx.ops.nothing
    with pytest.raises(AttributeError):
        fx.nothing


def test_random_numbers():
    key = fx.random.key(3)
    a, b = fx.random.split(key)
    assert fx.random.normal(a, (4,)).tolist() == fx.jit(lambda k: fx.random.normal(k, (4,)))(a).tolist()
    assert fx.random.normal(a, (4,)).tolist() != fx.random.normal(b, (4,)).tolist()
    n = np.asarray(fx.random.normal(key, (20000,)))
    assert abs(n.mean()) < 0.03 and abs(n.std() - 1) < 0.03
    u = np.asarray(fx.random.uniform(key, (20000,), minval=2.0, maxval=4.0))
    assert 2 <= u.min() < u.max() < 4 and abs(u.mean() - 3) < 0.02
    r = np.asarray(fx.random.randint(key, (1000,), -2, 3))
    assert set(r.tolist()) == {-2, -1, 0, 1, 2}
    assert sorted(fx.random.permutation(key, 10).tolist()) == list(range(10))
    assert abs(np.asarray(fx.random.bernoulli(key, 0.2, (10000,))).mean() - 0.2) < 0.02
    assert len(set(fx.random.choice(key, 10, (10,), replace=False).tolist())) == 10


@pytest.mark.parametrize("module", ["fluxion", "fluxion.jit", "fluxion.transforms", "fluxion.train", "fluxion.kernels"])
def test_examples_in_docstrings(module):
    name = module.partition(".")[2]
    loaded = sys.modules[module] if module in sys.modules else importlib.import_module(module)
    failed, tried = doctest.testmod(loaded)
    assert not failed and (tried or name == "")


def test_import_is_quick_and_needs_nothing():
    code = "import time; t = time.process_time(); import fluxion, sys; t = time.process_time() - t; " \
           "assert 'numpy' not in sys.modules; print(t)"
    path = os.path.dirname(os.path.dirname(fx.__file__))
    environment = dict(os.environ, PYTHONPATH=path)
    times = [float(subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True,
                                  check=True).stdout) for _ in range(5)]
    assert min(times) < 0.05, times


def test_stubs_name_what_exists():
    import ast
    folder = os.path.dirname(os.path.realpath(fx.files.__file__))
    for stub, module in (("__init__.pyi", fx), ("ops.pyi", fx.ops)):
        with open(os.path.join(folder, stub)) as file:
            tree = ast.parse(file.read())
        for node in tree.body:
            if isinstance(node, ast.FunctionDef):
                given = getattr(module, node.name)
                named = {a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)}
                missing = named - set(inspect.signature(given).parameters)
                assert not missing, (node.name, missing)
            elif isinstance(node, ast.ClassDef):
                for member in node.body:
                    if isinstance(member, ast.FunctionDef):
                        assert hasattr(getattr(module, node.name), member.name), (node.name, member.name)


def test_names_of_the_package_do_not_hide_ops():
    names = set(fx._core.op_names())
    hidden = [n for n in vars(fx.ops) if n in names and getattr(fx.ops, n).__module__ != "fluxion.ops"]
    assert not hidden


def _trainer(**options):
    def loss(p, x):
        return xp.mean((x @ p["w"] + p["b"] - 1) ** 2)
    return fx.Trainer(loss, {"w": xp.ones((3,)), "b": xp.zeros(())}, "adam", rate=0.1, **options)


def test_training_continues_from_a_checkpoint_with_the_same_bits(tmp_path):
    x = np.random.default_rng(3).normal(size=(8, 3)).astype("f4")
    whole, first = _trainer(), _trainer()
    losses = [whole.step(x) for _ in range(6)]
    assert [first.step(x) for _ in range(3)] == losses[:3]
    first.save(tmp_path / "c.safetensors")
    second = _trainer()
    second.load(tmp_path / "c.safetensors")
    assert [second.step(x) for _ in range(3)] == losses[3:]
    assert second.params["w"].tolist() == whole.params["w"].tolist()
    first.load(tmp_path / "c.safetensors")
    assert [first.step(x) for _ in range(3)] == losses[3:]
    with pytest.raises(OSError):
        _trainer().load(tmp_path / "absent")
    (tmp_path / "bad").write_bytes(b"no checkpoint")
    with pytest.raises(fx.Error):
        _trainer().load(tmp_path / "bad")


def test_narrow_floats_of_ml_dtypes_become_float32():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    for kind in (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3b11fnuz):
        narrow = np.array([0.5, -1.75, 16.0], kind)
        a = fx.array(narrow)
        assert a.dtype == fx.float32 and a.tolist() == narrow.astype("f4").tolist()


@pytest.mark.filterwarnings("ignore")
def test_a_module_of_pytorch_agrees_in_values_and_gradients():
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 3, 3, padding=1), torch.nn.ReLU(), torch.nn.Flatten(),
                              torch.nn.Linear(48, 5), torch.nn.LayerNorm(5))
    x = torch.randn(2, 1, 4, 4)
    g = fx.from_torch(net, x)
    assert net.training and set(g.params) == {"_" + n for n, _ in net.named_parameters()}
    np.testing.assert_allclose(g(x.numpy()), net(x).detach().numpy(), rtol=1e-4, atol=1e-5)
    (net(x) ** 3).sum().backward()
    gradients = fx.grad(lambda p: (g(fx.array(x.numpy()), **p) ** 3).sum())(g.params)
    for name, p in net.named_parameters():
        np.testing.assert_allclose(gradients["_" + name], p.grad.numpy(), rtol=2e-3, atol=2e-4, err_msg=name)


def test_an_equation_without_a_solution_warns():
    x = fx.array(1.3)
    with pytest.warns(RuntimeWarning, match="did not reach its tol"):
        fx.ops.root(x, body=fx.trace(lambda x: x * x + 1, x), max_iterations=5)
    body = fx.trace(lambda x, a: x * x - a, fx.ShapeDtype(("N",)), fx.ShapeDtype(("N",)))
    symbolic = fx.trace(lambda x, a: fx.ops.root(x, a, body=body, max_iterations=3), fx.ShapeDtype(("N",)),
                        fx.ShapeDtype(("N",)))
    with pytest.warns(RuntimeWarning, match="did not reach its tol"):
        symbolic(xp.ones(2), -xp.ones(2))
    with pytest.raises(TypeError, match=r"is not a graph; hint: fx.trace\(f, x, ...\)"):
        fx.ops.root(x, body=lambda x: x * x - 4)


def test_an_equation_that_is_solved_does_not_warn(recwarn):
    x, a = fx.array(1.3), fx.array(4.0)
    assert abs(fx.ops.root(x, a, body=fx.trace(lambda x, a: x * x - a, x, a)).item() - 2) < 1e-5
    assert not recwarn.list


def test_errors_of_trainers_are_for_python():
    with pytest.raises(ValueError, match="no optimiser 'adamm'"):
        fx.Trainer(lambda p, x: (p * x).sum(), fx.array(1.0), "adamm")
    with pytest.raises(TypeError, match="no option 'learning_rate'"):
        fx.Trainer(lambda p, x: (p * x).sum(), fx.array(1.0), "sgd", learning_rate=0.1)
    t = fx.Trainer(lambda p, x: (p["w"] * x).sum(), {"w": fx.array(1.0)}, "sgd")
    with pytest.raises(fx.NumericError) as caught:
        t.step(xp.asarray([float("inf")]))
    assert "unguarded=True" in caught.value.hint and "FLX_" not in caught.value.hint
    assert caught.value.message == "the loss or a gradient of the step is not finite"
    t = fx.Trainer(lambda p, x: (p["w"] * x).sum(), {"w": fx.array(1.0), "unused": fx.array(1.0)}, "sgd")
    with pytest.raises(fx.Error) as caught:
        t.step(xp.ones(2))
    assert "missing_zero=True" in caught.value.hint and "flx_" not in caught.value.hint


def test_a_batch_of_another_kind_is_described():
    def loss(p, x, y):
        return ((p["w"] * x).sum(axis=1) - y).sum()

    t = fx.Trainer(loss, {"w": fx.array(1.0)}, "sgd", batch_dim="B")
    t.step(xp.ones((4, 3)), xp.ones(4))
    with pytest.raises(fx.UsageError, match="the batch has 1 array, but the first one had 2 arrays"):
        t.step(xp.ones((4, 3)))
    with pytest.raises(fx.UsageError, match=r"array 0 of the batch is float32\[B, 2\], .* float32\[B, 3\]") as caught:
        t.step(xp.ones((4, 2)), xp.ones(4))
    assert not caught.value.hint
    with pytest.raises(fx.UsageError, match="array 1 of the batch is int32"):
        t.step(xp.ones((4, 3)), xp.ones(4, dtype=fx.int32))
    with pytest.raises(fx.UsageError, match="another tree"):
        t.step((xp.ones((4, 3)), xp.ones(4)))
    assert t.step(xp.ones((7, 3)), xp.ones(7)) is not None
    t = fx.Trainer(loss, {"w": fx.array(1.0)}, "sgd")
    t.step(xp.ones((4, 3)), xp.ones(4))
    with pytest.raises(fx.UsageError) as caught:
        t.step(xp.ones((5, 3)), xp.ones(5))
    assert "batch_dim" in caught.value.hint


def test_a_checkpoint_of_another_optimiser_is_refused(tmp_path):
    def trainer(optimiser):
        return fx.Trainer(lambda p, x: (p * x).sum(), fx.array(1.0), optimiser)

    first, second = trainer("adamw"), trainer("momentum")
    first.step(xp.ones(2))
    second.step(xp.ones(2))
    first.save(tmp_path / "c.safetensors")
    with pytest.raises(fx.UsageError, match="a training with adamw, but the trainer has momentum"):
        second.load(tmp_path / "c.safetensors")


def test_checkpoints_are_checked_before_the_first_step(tmp_path):
    def trainer(optimiser="adamw", n=2):
        return fx.Trainer(lambda p, x: ((p["w"] * x) ** 2).sum(), {"w": xp.ones(n)}, optimiser, rate=0.1)
    first, path, again = trainer(), tmp_path / "c.safetensors", tmp_path / "d.safetensors"
    first.save(path)
    assert trainer().load(path) is None
    first.step(xp.ones(2))
    first.save(path)
    for wrong, message in ((trainer("momentum"), "a training with adamw"), (trainer(n=3), "f32\\[3\\]")):
        with pytest.raises(fx.Error, match=message):
            wrong.load(path)
        assert wrong.params["w"].tolist() == [1] * len(wrong.params["w"])
    second = trainer()
    second.load(path)
    assert second.params["w"].tolist() == first.params["w"].tolist()
    second.save(again)
    assert again.read_bytes() == path.read_bytes()
    assert second.step(xp.ones(2)) == first.step(xp.ones(2))
    assert second.params["w"].tolist() == first.params["w"].tolist()
    third = trainer()
    third.load(path)
    third.params = {"w": xp.zeros(2)}
    assert third.step(xp.ones(2)) == 0
    with pytest.raises(OSError):
        trainer().load(tmp_path / "none.safetensors")


def test_names_of_numpy_agree_with_it():
    import fluxion.numpy as fnp
    x = np.random.default_rng(5).normal(size=(4, 5)).astype("f4")
    holes = np.where(x > 0.8, np.nan, x).astype("f4")
    calls = {
        "quantile": [(x, 0.3), (x, [0.0, 0.25, 1.0], 1), (x, 0.5, 0), (holes, 0.5, 1)],
        "percentile": [(x, 30), (x, [10, 90], 0)], "median": [(x,), (x, 0), (x, 1), (x[0, :1],)],
        "cov": [(x,)], "ptp": [(x,), (x, 1)], "nansum": [(holes,), (holes, 0)], "nanmean": [(holes,), (holes, 1)],
        "nanmax": [(holes, 1)], "nanmin": [(holes, 0)], "nan_to_num": [(np.array([1, np.nan, np.inf, -np.inf], "f4"),)],
        "vdot": [(x, x[::-1]), (x[0] * 1j, x[1] + 1j)], "kron": [(x, x[:2, :3]), (x[0], x[1])],
        "logspace": [(0, 3, 7)], "trapezoid": [(x,), (x, np.sort(x[0])), (x, None, 0.5, 0)],
        "interp": [(np.array([-9, -0.5, 0.1, 2, 9], "f4"), np.arange(4, dtype="f4"), x[0, :4])],
        "array_equal": [(x, x), (x, -x), (x, x[0])], "cross": [(x[:, :3], x[:, 1:4])], "diagonal": [(x,)],
        "rint": [(x * 3,)], "degrees": [(x,)], "radians": [(x,)],
        "sinc": [(x,), (np.array([0, 1e-4, 0.15, 0.16, 7.5], "f4"),)], "fmod": [(x, x[::-1]), (np.arange(-5, 5), 3)],
        "float_power": [(abs(x), x), (np.arange(4), 2)], "logaddexp2": [(x * 30, x[::-1])],
        "average": [(x[0], None, [1, 2, 3, 4, 5])],
        "pad": [(x, w, mode) for mode in ("constant", "edge", "reflect", "symmetric", "wrap")
                for w in (1, (2, 0), ((9, 1), (0, 13)))] + [(x[:1], 2, "reflect")],
    }
    for name, rows in calls.items():
        for row in rows:
            want = getattr(np, name, getattr(np, "trapz", None))(*row)  # trapezoid was trapz before NumPy 2
            found = getattr(fnp, name)(*(fx.array(a) if isinstance(a, np.ndarray) else a for a in row))
            np.testing.assert_allclose(np.asarray(found), want, rtol=2e-5, atol=1e-6, err_msg=f"{name}{row}")
    gradient = fx.grad(lambda x: fnp.median(x))(fx.array([3.0, 1.0, 2.0, 7.0]))
    assert gradient.tolist() == [0.5, 0, 0.5, 0]
