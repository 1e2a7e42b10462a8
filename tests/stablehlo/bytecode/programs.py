# SPDX-License-Identifier: Apache-2.0
"""The JAX programs of programs.zip: name -> (function, arguments). Small shapes: what counts is the variety of operations,
attributes and types."""
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

jax.config.update("jax_enable_x64", True)

rng = np.random.default_rng(0)


def array(*shape, dtype=np.float32):
    values = rng.uniform(0.25, 0.75, shape)
    if np.dtype(dtype).kind in "iu":
        values = rng.integers(0, 7, shape)
    if np.dtype(dtype).kind == "b":
        values = rng.integers(0, 2, shape)
    return jnp.asarray(values, dtype)


x = array(3, 4)
v = array(5)
k = array(3, 4, dtype=np.int32)
d = array(3, 4, dtype=np.float64)
z = (array(3, 4) + 1j * array(3, 4)).astype(jnp.complex64)
b = array(3, 4, dtype=bool)
square = array(4, 4, dtype=np.float64) + 4 * jnp.eye(4)
programs = {}


def add(name, f, *args):
    programs[name] = (f, args)


for name in ("abs acos acosh asin asinh atan atanh cbrt ceil cos cosh digamma erf erf_inv erfc exp exp2 expm1 floor "
             "is_finite lgamma log log1p logistic neg reciprocal round rsqrt sign sin sinh sqrt square tan tanh "
             "bessel_i0e bessel_i1e").split():
    f = getattr(lax, name)
    add("unary_" + name, f, x + 1 if name == "acosh" else x)
    if name in ("exp", "tanh", "erf", "floor"):
        for dtype in ("bfloat16", "float16", "float64"):
            add(f"unary_{name}_{dtype}", f, x.astype(dtype))
    if name in ("cos", "exp", "log", "sqrt", "tanh", "neg", "abs", "sign", "tan"):
        add(f"unary_{name}_complex", f, z)
for name in "add atan2 div max min mul nextafter pow rem sub eq ne ge gt le lt".split():
    f = getattr(lax, name)
    add("binary_" + name, f, x, x + 1)
    if name not in ("atan2", "nextafter", "pow"):
        add(f"binary_{name}_i32", f, k, k + 1)
for name in "bitwise_and bitwise_or bitwise_xor shift_left shift_right_arithmetic shift_right_logical".split():
    add(name, getattr(lax, name), k, k)
for name in "bitwise_not population_count clz".split():
    add(name, getattr(lax, name), k)
for name in "bitwise_and bitwise_or bitwise_xor".split():
    add(name + "_bool", getattr(lax, name), b, ~b)
add("not_bool", lax.bitwise_not, b)
for dtype in ("bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float64 complex64 complex128 "
              "int4 uint4 int2 uint2 float8_e4m3fn float8_e5m2 float8_e4m3b11fnuz float8_e4m3fnuz float8_e5m2fnuz "
              "float8_e4m3 float8_e3m4 float8_e8m0fnu float4_e2m1fn").split():
    t = jnp.dtype(dtype)
    add("convert_" + dtype, lambda x, t=t: x.astype(t), x)
    if t.kind != "c":
        add("convert_from_" + dtype, lambda x: x.astype(jnp.float32), x.astype(t))
    add("literal_" + dtype, lambda t=t: jnp.asarray(np.array([0, 1, 1, 0, 1, 0, 0, 1, 1], t)))
    add("splat_" + dtype, lambda t=t: jnp.asarray(np.full((3, 3), 1, t)))
add("literal_large", lambda x: x + np.arange(12000, dtype=np.float32).reshape(3000, 4)[:3000], array(3000, 4))
add("literal_empty", lambda x: jnp.concatenate([x, np.zeros((0, 4), np.float32)]), x)
add("literal_nan", lambda x: x + np.array([np.nan, np.inf, -np.inf, -0.0], np.float32), x)
add("bitcast", lambda x: lax.bitcast_convert_type(x, jnp.int32), x)
add("bitcast_narrow", lambda x: lax.bitcast_convert_type(x, jnp.int8), x)
add("reduce_precision", lambda x: lax.reduce_precision(x, 5, 10), x)
add("clamp", lambda x: lax.clamp(jnp.float32(0.3), x, jnp.float32(0.6)), x)
add("select", lambda b, x: jnp.where(b, x, 2.0), b, x)
add("select_n", lambda i, x: lax.select_n(i, x, x + 1, x + 2), k % 3, x)
add("complex_parts", lambda z: (z.real, z.imag, z.conj(), lax.complex(z.imag, z.real)), z)
add("identity", lambda x: x, x)
add("no_arguments", lambda: jnp.arange(5))
add("no_results", lambda x: (), x)
add("many_results", lambda x: tuple(x * i for i in range(12)), x)

# Shapes
add("reshape", lambda x: x.reshape(2, 6), x)
add("transpose", lambda x: jnp.transpose(x[None], (2, 0, 1)), x)
add("broadcast", lambda v: jnp.broadcast_to(v[:, None], (5, 3)), v)
add("concatenate", lambda x: jnp.concatenate([x, x, x[:, :1]], axis=1), x)
add("slice", lambda x: x[1:, ::2], x)
add("pad", lambda x: lax.pad(x, jnp.float32(1), ((1, 2, 0), (0, -1, 1))), x)
add("reverse", lambda x: x[::-1], x)
add("iota", lambda: (lax.broadcasted_iota(jnp.int32, (3, 4), 1), lax.iota(jnp.float32, 6), lax.iota(jnp.uint8, 3)))
add("dynamic_slice", lambda x, i: lax.dynamic_slice(x, (i, i), (2, 2)), x, jnp.int32(1))
add("dynamic_update_slice", lambda x, i: lax.dynamic_update_slice(x, x[:1, :2], (i, i)), x, jnp.int32(1))
add("squeeze_expand", lambda x: jnp.squeeze(x[:, None, :1], 2), x)
add("tile_repeat", lambda x: (jnp.tile(x, (2, 1)), jnp.repeat(x, 2, axis=1)), x)
add("roll_flip", lambda x: (jnp.roll(x, 1, 0), jnp.flip(x), jnp.rot90(x)), x)
add("split_stack", lambda x: jnp.stack(jnp.split(x, 2, axis=1)), x)
add("triangles", lambda s: (jnp.tril(s), jnp.triu(s, 1), jnp.diag(s), jnp.trace(s)), square)
add("meshgrid", lambda v: jnp.meshgrid(v, v), v)

# Indices
add("gather_rows", lambda x, i: x[i], x, jnp.array([0, 2, 1]))
add("gather_points", lambda x, i: x[i, i], x, jnp.array([0, 2, 1]))
add("take_along_axis", lambda x, i: jnp.take_along_axis(x, i, 1), x, k % 4)
add("take_modes", lambda x, i: (jnp.take(x, i, 0, mode="clip"), jnp.take(x, i, 0, mode="fill")), x, jnp.array([5, -1]))
add("gather_batched", jax.vmap(lambda r, i: r[i]), x, jnp.array([1, 0, 3]))
add("gather_vmap_slices", jax.vmap(lambda r, i: lax.dynamic_slice(r, (i,), (2,))), x, jnp.array([1, 0, 2]))
for name in "set add multiply min max power apply".split():
    if name == "apply":
        add("scatter_apply", lambda x: x.at[jnp.array([0, 2])].apply(jnp.sin), x)
    else:
        add("scatter_" + name, lambda x, name=name: getattr(x.at[jnp.array([0, 2])], name)(2.0), x)
add("scatter_points", lambda x, i: x.at[i, i].add(1.0), x, jnp.array([0, 2]))
add("scatter_batched", jax.vmap(lambda r, i: r.at[i].set(0.0)), x, jnp.array([1, 0, 3]))
add("segment_sum", lambda v: jax.ops.segment_sum(v, jnp.array([0, 1, 0, 2, 1]), 3), v)
add("unique", lambda k: jnp.unique(k, size=4), k)
add("nonzero", lambda k: jnp.nonzero(k, size=5), k)
add("searchsorted", lambda v: jnp.searchsorted(jnp.sort(v), 0.5), v)
add("one_hot", lambda k: jax.nn.one_hot(k[0], 7), k)

# Reductions and sorting
for name in "sum prod max min mean var std any all argmax argmin median ptp".split():
    add("reduce_" + name, lambda x, f=getattr(jnp, name): f(x, axis=1), b if name in ("any", "all") else x)
add("reduce_all_axes", lambda x: (x.sum(), x.max(), x.argmin()), x)
add("reduce_custom", lambda x: lax.reduce(x, jnp.float32(0), lambda a, c: a + c * c, (0,)), x)
add("reduce_pair", lambda x, k: lax.reduce((x, k), (jnp.float32(0), jnp.int32(0)),
                                           lambda a, c: (a[0] + c[0], a[1] | c[1]), (1,)), x, k)
add("reduce_xor", lambda k: lax.reduce(k, jnp.int32(0), lax.bitwise_xor, (0,)), k)
for name in "cumsum cumprod cummax cummin cumlogsumexp".split():
    add(name, lambda x, f=getattr(lax, name): f(x, axis=1), x)
add("cumsum_reverse", lambda x: lax.cumsum(x, axis=0, reverse=True), x)
add("associative_scan", lambda x: lax.associative_scan(jnp.multiply, x), x)
add("sort", lambda x: jnp.sort(x, axis=0), x)
add("sort_descending", lambda x: jnp.sort(x, descending=True), x)
add("argsort", lambda x: jnp.argsort(x, axis=1), x)
add("sort_key_value", lambda x, k: lax.sort((x, k), dimension=1, num_keys=1), x, k)
add("sort_two_keys", lambda x, k: lax.sort((k, x), num_keys=2, is_stable=False), x, k)
add("lexsort", lambda k: jnp.lexsort((k[0], k[1])), k)
add("top_k", lambda x: lax.top_k(x, 2), x)
add("top_k_i32", lambda k: lax.top_k(k, 3), k)
add("approx_max_k", lambda x: lax.approx_max_k(x, 2), x)
add("quantile", lambda v: jnp.quantile(v, 0.3), v)
add("histogram", lambda v: jnp.histogram(v, bins=4)[0], v)

# Products
add("matmul", lambda x: x @ x.T, x)
add("matmul_batched", lambda x: jnp.einsum("bij,bjk->bik", x, x), array(2, 3, 3))
add("matmul_precision", lambda x: jnp.dot(x, x.T, precision="highest"), x)
add("matmul_algorithm", lambda x: lax.dot(x, x.T, precision=lax.DotAlgorithmPreset.F32_F32_F32), x)
add("matmul_i8_i32", lambda k: lax.dot(k.astype(jnp.int8), k.T.astype(jnp.int8), preferred_element_type=jnp.int32), k)
add("matmul_bf16", lambda x: lax.dot(x.astype(jnp.bfloat16), x.T.astype(jnp.bfloat16),
                                     preferred_element_type=jnp.float32), x)
add("outer_inner", lambda v: (jnp.outer(v, v), jnp.inner(v, v), jnp.kron(v, v)), v)
add("tensordot", lambda x: jnp.tensordot(x, x, ((0, 1), (0, 1))), x)
add("ragged_dot", lambda x: lax.ragged_dot(x, jnp.ones((2, 4, 5), jnp.float32), jnp.array([1, 2], jnp.int32)), x)
image = array(2, 6, 6, 3)
filters = array(3, 3, 3, 4)
NHWC = ("NHWC", "HWIO", "NHWC")
add("conv", lambda a, w: lax.conv_general_dilated(a, w, (1, 1), "SAME", dimension_numbers=NHWC), image, filters)
add("conv_strided", lambda a, w: lax.conv_general_dilated(a, w, (2, 1), [(0, 1), (2, 0)], dimension_numbers=NHWC),
    image, filters)
add("conv_dilated", lambda a, w: lax.conv_general_dilated(a, w, (1, 1), [(1, 0), (0, 2)], (2, 1), (1, 2), NHWC), image, filters)
add("conv_groups", lambda a, w: lax.conv_general_dilated(a, w, (1, 1), "SAME", dimension_numbers=NHWC,
                                                         feature_group_count=3), image, array(3, 3, 1, 6))
add("conv_batch_groups", lambda a, w: lax.conv_general_dilated(a, w, (1, 1), "SAME", dimension_numbers=NHWC,
                                                               batch_group_count=2), image, array(3, 3, 3, 4))
add("conv_transpose", lambda a, w: lax.conv_transpose(a, w, (2, 2), "SAME", dimension_numbers=NHWC), image, filters)
add("conv_1d", lambda v: jnp.convolve(v, v), v)
add("conv_grad", jax.grad(lambda a, w: lax.conv_general_dilated(a, w, (2, 2), "SAME", dimension_numbers=NHWC).sum(),
                          (0, 1)), image, filters)
add("max_pool", lambda a: lax.reduce_window(a, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"), image)
add("max_pool_grad", jax.grad(lambda a: lax.reduce_window(a, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1),
                                                          "VALID").sum()), image)
add("mean_pool", lambda a: lax.reduce_window(a, 0.0, lax.add, (1, 3, 3, 1), (1, 2, 2, 1), "SAME", None, (1, 2, 1, 1)),
    image)
add("batch_norm", lambda a: (a - a.mean((0, 1, 2))) * lax.rsqrt(a.var((0, 1, 2)) + 1e-5), image)

# Control flow
add("cond", lambda x: lax.cond(x[0, 0] > 0.5, lambda y: y * 2, lambda y: y - 1, x), x)
add("switch", lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, lambda y: y * y], x), jnp.int32(1), x)
add("while", lambda x: lax.while_loop(lambda s: s[0] < 5, lambda s: (s[0] + 1, s[1] * 0.5), (0, x)), x)
add("while_captures", lambda x, y: lax.while_loop(lambda s: s.sum() < 20, lambda s: s + y, x), x, x + 1)
add("fori", lambda x: lax.fori_loop(0, 4, lambda i, y: y + i, x), x)
add("scan", lambda x: lax.scan(lambda c, r: (c + r, c * r), jnp.zeros(4, jnp.float32), x), x)
add("scan_reverse", lambda x: lax.scan(lambda c, r: (c + r, c * r), jnp.zeros(4, jnp.float32), x, reverse=True), x)
add("scan_grad", jax.grad(lambda x: lax.scan(lambda c, r: (jnp.tanh(c + r), c), jnp.zeros(4, jnp.float32), x)[1].sum()),
    x)
add("nested_loops", lambda x: lax.fori_loop(0, 3, lambda i, y: lax.fori_loop(0, 2, lambda j, w: w * 2 + j, y), x), x)
add("cond_in_scan", lambda v: lax.scan(lambda c, r: (lax.cond(r > 0.5, jnp.sin, jnp.cos, c), c), v[0], v), v)
add("map", lambda x: lax.map(jnp.sum, x), x)
add("calls", lambda x: jax.jit(jnp.sin)(x) + jax.jit(jnp.sin)(x + 1), x)
add("remat", jax.grad(lambda x: jax.checkpoint(lambda y: jnp.sin(jnp.sin(y)))(x).sum()), x)
add("custom_vjp", jax.grad(lambda x: jax.nn.relu(x).sum()), x)
add("linear_solve", lambda s: lax.custom_linear_solve(lambda y: s @ y, jnp.ones(4), lambda _, r: jnp.linalg.inv(s) @ r),
    square)
add("barrier", lambda x: lax.optimization_barrier((x, x + 1)), x)
add("stop_gradient", jax.grad(lambda x: (lax.stop_gradient(x) * x).sum()), x)

# Random numbers
key = jax.random.key(0)
for name, f in {
    "bits": lambda key: jax.random.bits(key, (4,)), "uniform": lambda key: jax.random.uniform(key, (4,)),
    "normal": lambda key: jax.random.normal(key, (4,)), "split": lambda key: jax.random.key_data(jax.random.split(key)),
    "randint": lambda key: jax.random.randint(key, (4,), 0, 10), "permutation": lambda key: jax.random.permutation(key, 6),
    "categorical": lambda key: jax.random.categorical(key, jnp.zeros(5), shape=(3,)),
    "gamma": lambda key: jax.random.gamma(key, 2.0, (3,)), "bernoulli": lambda key: jax.random.bernoulli(key, 0.3, (4,)),
    "truncated": lambda key: jax.random.truncated_normal(key, -1, 1, (3,)),
    "choice": lambda key: jax.random.choice(key, 10, (3,), replace=False),
}.items():
    add("random_" + name, f, key)
add("rng_bit_generator", lambda s: lax.rng_bit_generator(s, (4,)), jnp.array([1, 2], jnp.uint64))
add("rng_uniform", lambda: lax.rng_uniform(jnp.float32(0), jnp.float32(1), (3,)))

# Linear algebra, transforms, special functions
for name, f in {
    "cholesky": lambda s: jnp.linalg.cholesky(s @ s.T), "inv": jnp.linalg.inv, "det": jnp.linalg.det,
    "solve": lambda s: jnp.linalg.solve(s, s[0]), "qr": jnp.linalg.qr, "svd": jnp.linalg.svd,
    "eigh": lambda s: jnp.linalg.eigh(s @ s.T), "eig": jnp.linalg.eig, "expm": jax.scipy.linalg.expm,
    "lu": jax.scipy.linalg.lu, "slogdet": jnp.linalg.slogdet, "pinv": jnp.linalg.pinv, "norm": jnp.linalg.norm,
    "triangular": lambda s: jax.scipy.linalg.solve_triangular(s, s, trans=1, lower=True),
    "matrix_power": lambda s: jnp.linalg.matrix_power(s, 3), "lstsq": lambda s: jnp.linalg.lstsq(s, s[0])[0],
}.items():
    add("linalg_" + name, f, square)
add("linalg_solve_f32", lambda s: jnp.linalg.solve(s, s[0]), square.astype(jnp.float32))
add("linalg_cholesky_batched", jax.vmap(lambda s: jnp.linalg.cholesky(s @ s.T)), jnp.stack([square, square + 1]))
for name, f in {
    "fft": jnp.fft.fft, "ifft": jnp.fft.ifft, "rfft": jnp.fft.rfft, "irfft": jnp.fft.irfft, "fft2": jnp.fft.fft2,
    "fftshift": jnp.fft.fftshift,
}.items():
    add("transform_" + name, f, x)
special = jax.scipy.special
for name in ("gammaln gamma i0 i0e i1 i1e ndtr ndtri log_ndtr entr logit expit xlogy gammainc gammaincc betainc betaln "
             "zeta polygamma logsumexp exp1 expi").split():
    f = getattr(special, name)
    count = {"xlogy": 2, "gammainc": 2, "gammaincc": 2, "betaln": 2, "zeta": 2, "betainc": 3}.get(name, 1)
    if name == "polygamma":
        add("special_polygamma", lambda v, f=f: f(1, v), v)
    else:
        add("special_" + name, f, *[v + i for i in range(count)])

# Networks
w1, w2 = array(4, 8), array(8, 3)


def mlp(params, a):
    for w in params[:-1]:
        a = jnp.tanh(a @ w)
    return a @ params[-1]


add("mlp", lambda w, a: mlp(w, a), (w1, w2), x)
add("mlp_grad", jax.grad(lambda w, a: (mlp(w, a) ** 2).mean()), (w1, w2), x)
add("mlp_hessian", jax.hessian(lambda a: (mlp((w1, w2), a) ** 2).mean()), x[:1])
add("mlp_vmap_grad", jax.vmap(jax.grad(lambda a: mlp((w1, w2), a).sum())), x)
add("jvp", lambda a: jax.jvp(jnp.sin, (a,), (a,)), x)
add("jacobian", jax.jacrev(lambda v: v**3), v)
for name in "relu gelu silu softmax log_softmax elu selu swish softplus sigmoid leaky_relu hard_tanh celu glu mish".split():
    add("nn_" + name, getattr(jax.nn, name), x)
add("attention", lambda q: jax.nn.dot_product_attention(q, q, q, is_causal=True), array(1, 4, 2, 8))
add("layer_norm", lambda x: jax.nn.standardize(x), x)
add("adam_step", lambda w, g, m: (w - 1e-3 * (0.9 * m + 0.1 * g) / (jnp.sqrt(g * g) + 1e-8), 0.9 * m + 0.1 * g),
    w1, w1 * 2, w1)
add("donated", jax.jit(lambda a: a + 1, donate_argnums=0), x)
add("resize", lambda a: jax.image.resize(a, (2, 3, 3, 3), "linear"), image)
add("interp", lambda v: jnp.interp(v, jnp.arange(3.0), jnp.arange(3.0) ** 2), v)
add("ode", lambda v: jax.experimental.ode.odeint(lambda y, t: -y, v, jnp.array([0.0, 1.0])), v.astype(jnp.float64))
add("named_scope", jax.jit(jax.named_scope("outer")(lambda x: jnp.sin(x) + 1)), x)
