# SPDX-License-Identifier: Apache-2.0
"""jax.ffi with functions that a C++ compiler makes with the headers of jaxlib, as the documentation of JAX does. Needs
jax, pytest and c++:

    FLX_PJRT_LIBRARY=$PWD/build/libfluxion_pjrt.so python -m pytest python/jax_plugin/tests
"""

import ctypes
import os
import pathlib
import shutil
import subprocess
import sys

os.environ.setdefault("JAX_PLATFORMS", "fluxion,cpu")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import numpy as np  # noqa: E402
import pytest  # noqa: E402

jax = pytest.importorskip("jax")
from jax import numpy as jnp  # noqa: E402

CODE = r"""
#include <cmath>
#include <cstdint>
#include <string_view>
#include "xla/ffi/api/ffi.h"
namespace ffi = xla::ffi;

static ffi::Error Norm(float eps, ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y) {
  auto dims = x.dimensions();
  int64_t n = dims.back(), rows = x.element_count() / n;
  for (int64_t r = 0; r < rows; r++) {
    const float *in = x.typed_data() + r * n;
    float sum = 0;
    for (int64_t i = 0; i < n; i++) sum += in[i] * in[i];
    for (int64_t i = 0; i < n; i++) y->typed_data()[r * n + i] = in[i] / std::sqrt(sum / n + eps);
  }
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(NormHandler, Norm, ffi::Ffi::Bind().Attr<float>("eps").Arg<ffi::Buffer<ffi::F32>>()
                              .Ret<ffi::Buffer<ffi::F32>>());

static ffi::Error Weighted(ffi::Span<const int64_t> weights, std::string_view mode, int64_t times,
                           ffi::AnyBuffer x, ffi::Result<ffi::AnyBuffer> sum, ffi::Result<ffi::Buffer<ffi::S32>> n) {
  if (mode != "sum") return ffi::Error::InvalidArgument("no such mode: " + std::string(mode));
  double total = 0;
  for (size_t i = 0; i < weights.size(); i++)
    total += weights[i] * (x.element_type() == ffi::F64 ? x.typed_data<double>()[i] : x.typed_data<float>()[i]);
  if (x.element_type() == ffi::F64) sum->typed_data<double>()[0] = total * times;
  else sum->typed_data<float>()[0] = static_cast<float>(total * times);
  n->typed_data()[0] = static_cast<int32_t>(x.dimensions().size());
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(WeightedHandler, Weighted, ffi::Ffi::Bind().Attr<ffi::Span<const int64_t>>("weights")
                              .Attr<std::string_view>("mode").Attr<int64_t>("times").Arg<ffi::AnyBuffer>()
                              .Ret<ffi::AnyBuffer>().Ret<ffi::Buffer<ffi::S32>>());

static ffi::Error First(ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y) {  // as the memory has them
  for (size_t i = 0; i < x.element_count(); i++) y->typed_data()[i] = x.typed_data()[i] + (i == 1 ? 100 : 0);
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(FirstHandler, First, ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::F32>>()
                              .Ret<ffi::Buffer<ffi::F32>>());

static ffi::Error Bump(ffi::Buffer<ffi::F32>, ffi::ResultBuffer<ffi::F32> y) {  // the result is where the operand was
  y->typed_data()[0] += 1;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(BumpHandler, Bump, ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::F32>>()
                              .Ret<ffi::Buffer<ffi::F32>>());

static ffi::Error Scratch(ffi::ScratchAllocator room, ffi::ThreadPool pool, ffi::Buffer<ffi::F32> x,
                          ffi::ResultBuffer<ffi::F32> y) {
  auto memory = room.Allocate(x.size_bytes());
  if (!memory) return ffi::Error::Internal("no memory");
  float *copy = static_cast<float *>(*memory);
  for (size_t i = 0; i < x.element_count(); i++) copy[i] = x.typed_data()[i] * static_cast<float>(pool.num_threads());
  for (size_t i = 0; i < x.element_count(); i++) y->typed_data()[i] = copy[i];
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(ScratchHandler, Scratch, ffi::Ffi::Bind().Ctx<ffi::ScratchAllocator>()
                              .Ctx<ffi::ThreadPool>().Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>());
"""
NAMES = ["Norm", "Weighted", "First", "Bump", "Scratch"]


@pytest.fixture(scope="module", autouse=True)
def functions(tmp_path_factory):
    compiler = shutil.which("c++") or shutil.which("g++")
    if not compiler:
        pytest.skip("no C++ compiler")
    folder = tmp_path_factory.mktemp("foreign")
    (folder / "functions.cc").write_text(CODE)
    subprocess.run([compiler, "-std=c++17", "-O1", "-shared", "-fPIC", "-I", jax.ffi.include_dir(), "functions.cc",
                    "-o", "functions.so"], cwd=folder, check=True)
    library = ctypes.CDLL(str(folder / "functions.so"))
    for i, name in enumerate(NAMES):  # programs that know nothing of fluxion register for a CPU
        jax.ffi.register_ffi_target(f"test_{name}", jax.ffi.pycapsule(getattr(library, name + "Handler")),
                                    platform="fluxion" if i == 1 else "cpu")


def here(x):
    return jax.device_put(x, jax.devices("fluxion")[0])


def like(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def test_attribute_and_batches():
    x = np.linspace(-1, 2, 12, dtype=np.float32).reshape(3, 4)

    def norm(x):
        return jax.ffi.ffi_call("test_Norm", like(x), vmap_method="broadcast_all")(x, eps=np.float32(1e-5))

    want = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(jax.jit(norm)(here(x)), want, rtol=1e-6)
    np.testing.assert_allclose(jax.vmap(norm)(here(x)), want, rtol=1e-6)
    np.testing.assert_allclose(jax.jit(lambda x: norm(norm(x)).sum())(here(x)), (want / np.sqrt(
        (want * want).mean(-1, keepdims=True) + 1e-5)).sum(), rtol=1e-5)


def test_lists_texts_and_two_results():
    call = jax.ffi.ffi_call("test_Weighted", (jax.ShapeDtypeStruct((), np.float32), jax.ShapeDtypeStruct((), np.int32)))
    x = here(np.array([[1, 2], [3, 4]], np.float32))
    total, rank = call(x, weights=np.array([1, 0, 2, 5]), mode="sum", times=3)
    assert float(total) == 81 and int(rank) == 2


def test_error_is_raised():
    call = jax.ffi.ffi_call("test_Weighted", (jax.ShapeDtypeStruct((), np.float32), jax.ShapeDtypeStruct((), np.int32)))
    with pytest.raises(jax.errors.JaxRuntimeError, match="no such mode: product"):
        jax.block_until_ready(call(here(jnp.ones(2)), weights=np.array([1, 2]), mode="product", times=1))


def test_wrong_element_type_is_found_by_the_function():
    call = jax.ffi.ffi_call("test_First", jax.ShapeDtypeStruct((2,), np.int32))
    with pytest.raises(jax.errors.JaxRuntimeError, match="[Ww]rong buffer dtype"):
        jax.block_until_ready(call(here(np.ones(2, np.int32))))


def test_columns_first():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    call = jax.ffi.ffi_call("test_First", like(x), input_layouts=[(1, 0)], output_layouts=(1, 0))
    want = x.copy()
    want[1, 0] += 100
    np.testing.assert_array_equal(jax.jit(call)(here(x)), want)
    call = jax.ffi.ffi_call("test_First", like(x), input_layouts=[(1, 0)])  # written by rows
    got = np.asarray(jax.jit(call)(here(x)))
    np.testing.assert_array_equal(got.ravel(), x.T.ravel() + np.array([0, 100, 0, 0, 0, 0]))


def test_operand_that_gives_its_memory():
    x = np.array([1, 2, 3], np.float32)
    given = here(x)
    out = jax.jit(jax.ffi.ffi_call("test_Bump", like(x), input_output_aliases={0: 0}))(given)
    np.testing.assert_array_equal(out, [2, 2, 3])
    np.testing.assert_array_equal(given, x)


def test_memory_and_threads_of_the_caller():
    x = np.arange(5, dtype=np.float32)
    np.testing.assert_array_equal(jax.jit(jax.ffi.ffi_call("test_Scratch", like(x)))(here(x)), x)


def test_function_that_is_not_registered():
    with pytest.raises(jax.errors.JaxRuntimeError, match="test_Nothing"):
        jax.jit(jax.ffi.ffi_call("test_Nothing", jax.ShapeDtypeStruct((2,), np.float32)))(here(jnp.ones(2)))
