# SPDX-License-Identifier: Apache-2.0
"""The namespace of the array API standard: names, signatures and values against array_api_strict, the reference of the
standard's authors, over NumPy. Without it these tests are left out."""

import inspect
import math

import pytest

np = pytest.importorskip("numpy")
strict = pytest.importorskip("array_api_strict")
import fluxion as fx  # noqa: E402
from fluxion import xp  # noqa: E402

CONSTANTS = ("e", "pi", "inf", "nan")
SPACES = [(strict, xp, ""), (strict.linalg, xp.linalg, "linalg."), (strict.fft, xp.fft, "fft.")]


def functions():
    for theirs, ours, prefix in SPACES:
        for name in theirs.__all__ if hasattr(theirs, "__all__") else dir(theirs):
            f = getattr(theirs, name)
            if inspect.isfunction(f) and not name.startswith("_") and "strict" not in name and \
                    (not prefix or f.__module__.endswith(prefix[:-1]) or f.__module__.endswith("_" + prefix[:-1])):
                yield prefix + name, f, ours


ALL = list(functions())


@pytest.mark.parametrize("name", [a[0] for a in ALL])
def test_name_and_signature(name):
    _, theirs, ours = next(a for a in ALL if a[0] == name)
    if name.split(".")[-1] in ("requires_api_version", "requires_extension", "device_supports_dtype",
                               "normalize_axis_tuple"):
        pytest.skip("not of the standard")
    mine = getattr(ours, name.split(".")[-1])
    expected = [(p.name, p.kind) for p in inspect.signature(theirs).parameters.values()]
    assert [(p.name, p.kind) for p in inspect.signature(mine).parameters.values()] == expected


def test_there_are_many_names():
    assert len(ALL) > 150


DTYPES = ("float32", "float64", "int32", "int64", "uint8", "bool", "complex64", "complex128")


def values(dtype, shape, seed=0):
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.startswith("complex"):
        return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)
    if dtype.startswith("float"):
        return (rng.normal(size=shape) * 2).astype(dtype)
    return rng.integers(1, 9, shape).astype(dtype)


def leaves(x):
    return [v for part in x for v in leaves(part)] if isinstance(x, (tuple, list)) else [x]


def agree(ours, theirs):
    ours, theirs = leaves(ours), leaves(theirs)
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs):
        b = np.asarray(b._array if hasattr(b, "_array") else b)
        a_dtype = a.dtype if isinstance(a, fx.Array) else None
        a = np.asarray(a)
        assert a.shape == b.shape, (a.shape, b.shape)
        if a_dtype is not None:
            assert a_dtype.kind == fx.dtypes.as_dtype(b.dtype).kind, (a_dtype, b.dtype)
        loose = 2e-4 if a.dtype in (np.float32, np.complex64) else 1e-9
        np.testing.assert_allclose(a, b, rtol=loose, atol=loose)


UNARY = """abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor imag isfinite isinf
isnan log log10 log1p log2 logical_not negative positive real reciprocal round sign signbit sin sinh sqrt square tan
tanh trunc""".split()
BINARY = """add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide equal
floor_divide greater greater_equal hypot less less_equal logaddexp logical_and logical_or logical_xor maximum minimum
multiply nextafter not_equal pow remainder subtract""".split()


def fail(problem):
    raise problem


def call_both(name, *args, **kwargs):
    """Both results; None where the standard does not define the function for these dtypes."""
    space, _, short = name.rpartition(".")
    theirs = getattr(getattr(strict, space) if space else strict, short)
    ours = getattr(getattr(xp, space) if space else xp, short)

    def convert(make, x):
        if isinstance(x, np.ndarray):
            return make(x)
        return [convert(make, v) for v in x] if isinstance(x, list) else x
    with np.errstate(all="ignore"):
        try:
            expected = theirs(*(convert(strict.asarray, a) for a in args), **kwargs)
        except (TypeError, ValueError) as problem:
            return None if any(w in str(problem) for w in ("allowed", "only defined")) else fail(problem)
    return ours(*(convert(xp.asarray, a) for a in args), **kwargs), expected


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", UNARY)
def test_unary(name, dtype):
    both = call_both(name, values(dtype, (3, 5)))
    if both is None:
        pytest.skip("the standard does not define it for this dtype")
    agree(*both)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", BINARY)
def test_binary(name, dtype):
    both = call_both(name, values(dtype, (3, 5), 1), values(dtype, (5,), 2))
    if both is None:
        pytest.skip("the standard does not define it for this dtype")
    agree(*both)


SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 0.5, np.inf, -np.inf, np.nan, 1e30, -1e-30], "f8")


@pytest.mark.parametrize("name", [n for n in UNARY if n not in ("bitwise_invert", "logical_not", "imag")])
def test_unary_special_values(name):
    agree(*call_both(name, SPECIAL))


@pytest.mark.parametrize("name", [n for n in BINARY if not n.startswith(("bitwise", "logical_"))])
def test_binary_special_values(name):
    a, b = (g.ravel() for g in np.meshgrid(SPECIAL, SPECIAL))
    agree(*call_both(name, a, b))


F, I, B, C = (values(d, (3, 4), 3) for d in ("float32", "int64", "bool", "complex64"))
SQ = np.eye(4) * 3 + values("float64", (2, 4, 4), 4) * 0.3
PD = SQ @ SQ.transpose(0, 2, 1)
SORTED = np.sort(values("float32", (9,), 5))

CALLS = [
    ("sum", (F,), {}), ("sum", (I,), {"axis": 0}), ("sum", (I,), {"axis": (0, 1), "keepdims": True}),
    ("sum", (F,), {"axis": -1, "keepdims": True}), ("prod", (F,), {"axis": 1}), ("prod", (I[:2],), {}),
    ("mean", (F,), {}), ("mean", (C,), {"axis": 0}), ("std", (F,), {"axis": 1, "correction": 1}), ("var", (F,), {}),
    ("max", (F,), {"axis": 0}), ("min", (I,), {}), ("any", (B,), {"axis": 0}), ("all", (F,), {}),
    ("argmax", (F,), {}), ("argmin", (F,), {"axis": 1}), ("argmax", (F,), {"axis": 0, "keepdims": True}),
    ("count_nonzero", (B,), {"axis": 1}), ("cumulative_sum", (F,), {"axis": 1}),
    ("cumulative_sum", (I[0],), {"include_initial": True}), ("cumulative_prod", (F,), {"axis": 0}),
    ("sort", (F,), {}), ("sort", (F,), {"axis": 0, "descending": True}), ("argsort", (F,), {}),
    ("argsort", (I,), {"descending": True, "stable": True}),
    ("searchsorted", (SORTED, F), {}), ("searchsorted", (SORTED, SORTED), {"side": "right"}),
    ("nonzero", (B,), {}), ("nonzero", (F,), {}), ("where", (B, F, F * 2), {}),
    ("unique_all", (I,), {}), ("unique_counts", (I,), {}), ("unique_inverse", (I,), {}), ("unique_values", (B,), {}),
    ("take", (F, np.array([2, 0])), {"axis": 1}), ("take_along_axis", (F, np.argsort(F)), {"axis": 1}),
    ("concat", ([F, F],), {"axis": 1}), ("concat", ([F, F],), {"axis": None}), ("stack", ([F, F],), {"axis": -1}),
    ("unstack", (F,), {"axis": 1}), ("flip", (F,), {}), ("flip", (F,), {"axis": 1}), ("roll", (F, 2), {}),
    ("roll", (F, (1, -1)), {"axis": (0, 1)}), ("repeat", (F, 2), {"axis": 0}), ("repeat", (I, 3), {}),
    ("tile", (F, (2, 1, 2)), {}), ("reshape", (F, (2, -1)), {}), ("permute_dims", (F, (1, 0)), {}),
    ("moveaxis", (SQ, 0, -1), {}), ("expand_dims", (F,), {"axis": -1}), ("squeeze", (F[:1], 0), {}),
    ("broadcast_to", (F, (2, 3, 4)), {}), ("broadcast_arrays", (F, F[0]), {}), ("diff", (F,), {"axis": 0}),
    ("diff", (F,), {"n": 2}), ("clip", (F, -1.0, 1.0), {}), ("clip", (I, 2), {}),
    ("tril", (F,), {"k": 1}), ("triu", (SQ,), {"k": -1}), ("meshgrid", (F[0], F[1]), {}),
    ("meshgrid", (F[0], F[1]), {"indexing": "ij"}), ("matrix_transpose", (SQ,), {}),
    ("matmul", (F, F.T.copy()), {}), ("matmul", (F, F[0]), {}), ("matmul", (F[:, 0], F), {}),
    ("matmul", (F[0], F[1]), {}),
    ("matmul", (SQ, SQ[0]), {}), ("tensordot", (F, F), {}), ("tensordot", (F, F), {"axes": ((0,), (0,))}),
    ("tensordot", (F, F[0]), {"axes": 0}), ("vecdot", (C, C), {}), ("vecdot", (F, F), {"axis": -2}),
    ("astype", (F, "int32"), {}), ("full_like", (F, 7), {}), ("zeros_like", (I,), {}), ("ones_like", (B,), {}),
    ("linalg.cholesky", (PD,), {}), ("linalg.cholesky", (PD,), {"upper": True}), ("linalg.det", (SQ,), {}),
    ("linalg.inv", (SQ,), {}), ("linalg.slogdet", (SQ,), {}), ("linalg.solve", (SQ, SQ), {}),
    ("linalg.solve", (SQ[0], SQ[0, 0]), {}), ("linalg.eigvalsh", (PD,), {}), ("linalg.svdvals", (F,), {}),
    ("linalg.pinv", (F.astype("f8"),), {}), ("linalg.matrix_rank", (SQ,), {}), ("linalg.matrix_power", (SQ, 3), {}),
    ("linalg.matrix_norm", (SQ,), {}), ("linalg.matrix_norm", (SQ,), {"ord": 1}),
    ("linalg.matrix_norm", (SQ,), {"ord": "nuc", "keepdims": True}), ("linalg.matrix_norm", (SQ,), {"ord": -2}),
    ("linalg.vector_norm", (F,), {}), ("linalg.vector_norm", (C,), {"axis": 1, "ord": 3}),
    ("linalg.vector_norm", (F,), {"axis": 0, "ord": math.inf}), ("linalg.diagonal", (SQ,), {"offset": 1}),
    ("linalg.trace", (SQ,), {}), ("linalg.trace", (SQ,), {"offset": -1}), ("linalg.outer", (F[0], F[1]), {}),
    ("linalg.cross", (F[:, :3].copy(), F[:, 1:].copy()), {}),
    ("fft.fft", (C,), {}), ("fft.fft", (C,), {"n": 6, "axis": 0, "norm": "ortho"}),
    ("fft.ifft", (C,), {"norm": "forward"}),
    ("fft.fftn", (C,), {}), ("fft.ifftn", (C,), {"axes": (0,)}), ("fft.rfft", (F,), {}),
    ("fft.rfft", (F,), {"n": 7, "axis": 0}),
    ("fft.irfft", (C,), {}), ("fft.irfft", (C,), {"n": 5}), ("fft.rfftn", (F,), {}), ("fft.irfftn", (C,), {}),
    ("fft.hfft", (C,), {}), ("fft.ihfft", (F,), {}), ("fft.fftshift", (F,), {}),
    ("fft.ifftshift", (F,), {"axes": (1,)}),
    ("fft.fftfreq", (7,), {"d": 0.5}), ("fft.rfftfreq", (8,), {}),
    ("arange", (5,), {}), ("arange", (1, 10, 3), {}), ("arange", (0.0, 1.0, 0.25), {}), ("arange", (5, 0, -2), {}),
    ("linspace", (0.0, 1.0, 5), {}), ("linspace", (0.0, 1.0, 5), {"endpoint": False}), ("eye", (3,), {"k": 1}),
    ("eye", (2, 4), {}), ("zeros", ((2, 3),), {}), ("ones", (3,), {}), ("full", ((2,), 2.5), {}),
    ("full", ((2,), True), {}),
]


@pytest.mark.parametrize("case", CALLS, ids=lambda c: f"{c[0]}-{c[2]}")
def test_call(case):
    name, args, kwargs = case
    if name == "astype":
        agree(xp.astype(xp.asarray(args[0]), args[1]), args[0].astype(args[1]))
        return
    both = call_both(name, *args, **kwargs)
    assert both is not None
    agree(*both)


def test_factorisations_multiply_back():
    a = xp.asarray(SQ)
    q, r = xp.linalg.qr(a)
    agree(q @ r, SQ)
    u, s, vh = xp.linalg.svd(a)
    agree(u * s[:, None, :] @ vh, SQ)
    w, v = xp.linalg.eigh(xp.asarray(PD))
    agree(v * w[:, None, :] @ v.mT, PD)


def test_factors_can_be_square():
    rng = np.random.default_rng(5)
    for rows, columns in ((5, 2), (2, 5), (3, 0)):
        x = rng.standard_normal((2, rows, columns)) + 1j * rng.standard_normal((2, rows, columns))
        for z in (x, x.real, np.zeros_like(x.real), np.eye(rows, columns) * np.ones((2, 1, 1))):
            q, r = xp.linalg.qr(xp.asarray(z), mode="complete")
            assert q.shape == (2, rows, rows) and r.shape == (2, rows, columns)
            agree(q @ r, z)
            agree(xp.conj(q).mT @ q, np.broadcast_to(np.eye(rows), (2, rows, rows)).astype(z.dtype))
            agree(xp.tril(r, k=-1), np.zeros_like(z))
            u, s, vh = xp.linalg.svd(xp.asarray(z))
            assert u.shape == (2, rows, rows) and vh.shape == (2, columns, columns)
            k = min(rows, columns)
            agree(u[..., :k] * s[:, None, :] @ vh[:, :k], z)
            agree(xp.conj(u).mT @ u, np.broadcast_to(np.eye(rows), (2, rows, rows)).astype(z.dtype))
            agree(vh @ xp.conj(vh).mT, np.broadcast_to(np.eye(columns), (2, columns, columns)).astype(z.dtype))


@pytest.mark.parametrize("name", [c[0] for c in CALLS if c[0] not in (
    "nonzero", "unique_all", "unique_counts", "unique_inverse", "unique_values", "astype")])
def test_inside_of_a_traced_function(name):
    _, args, kwargs = next(c for c in CALLS if c[0] == name)
    space, _, short = name.rpartition(".")
    function = getattr(getattr(xp, space) if space else xp, short)
    arrays = [a for a in args if isinstance(a, np.ndarray)]

    def call(*xs):
        xs = iter(xs)
        return function(*(next(xs) if isinstance(a, np.ndarray) else
                          [xp.asarray(v) for v in a] if isinstance(a, list) else a for a in args), **kwargs)
    both = call_both(name, *args, **kwargs)
    agree(fx.jit(call)(*arrays), both[1])


def test_dtypes():
    assert xp.isdtype(xp.float32, "real floating") and xp.isdtype(xp.int8, ("bool", "integral"))
    assert not xp.isdtype(xp.bool, "numeric") and xp.isdtype(xp.uint8, xp.uint8)
    assert xp.finfo(xp.float32).eps == np.finfo("f4").eps and xp.finfo(xp.float64).max == np.finfo("f8").max
    assert xp.finfo(xp.float16).smallest_normal == float(np.finfo("f2").smallest_normal)
    assert xp.iinfo(xp.int16).min == -32768 and xp.iinfo(xp.uint64).max == 2**64 - 1
    assert xp.result_type(xp.int8, xp.uint8) is xp.int16 and xp.result_type(xp.float32, 1) is xp.float32
    assert xp.can_cast(xp.int8, xp.int16) and not xp.can_cast(xp.float64, xp.float32)
    info = xp.__array_namespace_info__()
    assert set(info.dtypes(kind="bool")) == {"bool"} and info.default_device() in info.devices()
    assert fx.array(1.0).__array_namespace__(api_version="2023.12") is xp
    for c in CONSTANTS:
        assert getattr(xp, c) == getattr(strict, c) or c == "nan"


def test_promotion_is_the_standards():
    names = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64",
             "complex64", "complex128", "bool")
    for a in names:
        for b in names:
            try:
                expected = strict.result_type(getattr(strict, a), getattr(strict, b))
            except TypeError:
                continue
            assert xp.result_type(getattr(xp, a), getattr(xp, b)).name == str(expected._np_dtype), (a, b)
