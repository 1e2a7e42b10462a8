# SPDX-License-Identifier: Apache-2.0
"""op_cases.py: a case to time for every op of the op table, with the same function in NumPy, SciPy, JAX and PyTorch.

A case has operands (`x:f32[R,C]{-1..1}`, see operands.py), the call as text of a graph, and an expression of a peer.
One expression serves all peers that know its names:

    name    NumPy            JAX                  PyTorch
    m       numpy            jax.numpy            torch
    s       scipy.special    jax.scipy.special    torch.special
    l       scipy.linalg     jax.scipy.linalg
    nn                       jax.nn               torch.nn.functional
    lax, jax                 jax.lax, jax

`np=`, `jax=` and `torch=` replace it for one peer; an empty string leaves that peer out. Extents are capital letters,
in the call with a dollar sign. An op without an expression is timed alone. NOT_TIMED says why an op has no case.
"""
from __future__ import annotations

from dataclasses import dataclass

# What the letters mean. N is the number of elements, R x C a matrix of as many.
SIZES: dict[str, dict[str, int]] = {
    "small": dict(N=256, R=16, C=16, M=16, E=8, B=2, T=8, H=2, D=8, S=8, K=16, P=4, Q=64, V=32, Z=2, W=32),
    "1MB": dict(N=1 << 18, R=512, C=512, M=256, E=96, B=4, T=128, H=8, D=64, S=32, K=64, P=64, Q=16384, V=1000, Z=4,
                W=512),
    "64MB": dict(N=1 << 24, R=4096, C=4096, M=1024, E=256, B=16, T=1024, H=16, D=64, S=128, K=512, P=64, Q=65536,
                 V=50000, Z=16, W=4096),
}


@dataclass
class Case:
    op: str
    operands: str
    call: str = ""  # default: the op of all operands
    peer: str = ""
    np: str | None = None
    jax: str | None = None
    torch: str | None = None
    bodies: str = ""  # graphs that the call refers to
    results: int = 1
    wrt: str | None = None  # operands to differentiate with respect to; default: all floating ones
    compare: bool = True  # whether results of peers must be equal: not for random numbers and signs of vectors
    most: str = "64MB"  # the largest size that is tried
    variant: str = ""

    @property
    def name(self) -> str:
        return self.op + (f"/{self.variant}" if self.variant else "")

    def expression(self, peer: str) -> str:
        own = getattr(self, peer)
        return self.peer if own is None else own


CASES: list[Case] = []
NOT_TIMED: dict[str, str] = {
    "input": "a leaf",
    "param": "a leaf",
    "const": "a leaf",
    "dim_size": "a number that is known before the run",
    "print": "writes to standard error",
    "custom": "runs a function of the caller",
    "recv": "one process receives nothing",
    "collective_permute": "one process exchanges nothing",
    "shard": "says where a value is cut, and computes nothing",
    "attention_backward_all": "the cotangents of attention_backward, for devices that compute them together",
    "gaussian_splat_prepare": "part of gaussian_splat_render",
    "gaussian_splat_rasterize": "part of gaussian_splat_render",
}


def case(op: str, operands: str, call: str = "", peer: str = "", **more) -> None:
    CASES.append(Case(op, operands, call, peer, **more))


# ---- Elementwise ----

def elementwise() -> None:
    x = "x:f32[N]{-2..2}"
    case("stop_gradient", x, peer="m.copy(x)", torch="torch.clone(x)")
    case("cast", x, "cast(x, to=bf16)", jax="x.astype(jnp.bfloat16)", torch="x.to(torch.bfloat16)")
    case("cast", "x:i32[N]{-9..9}", "cast(x, to=f32)", jax="x.astype(jnp.float32)", np="x.astype(np.float32)",
         torch="x.to(torch.float32)", variant="from_i32")
    case("bitcast", x, "bitcast(x, to=i32)", jax="lax.bitcast_convert_type(x, jnp.int32)",
         torch="x.view(torch.int32) + 0")
    case("reduce_precision", x, "reduce_precision(x, exponent=5, mantissa=10)", jax="lax.reduce_precision(x, 5, 10)")
    case("optimization_barrier", x, jax="lax.optimization_barrier(x)")
    case("check", x + " ok:bool[]{1..1}", 'check(x, ok, message="holds")')
    two = "a:f32[N]{-2..2} b:f32[N]{0.5..2}"
    for op, e in (("add", "a + b"), ("sub", "a - b"), ("mul", "a * b"), ("div", "a / b"), ("max", "m.maximum(a, b)"),
                  ("min", "m.minimum(a, b)"), ("rem", "m.fmod(a, b)"), ("mod", "m.remainder(a, b)"),
                  ("atan2", "m.arctan2(a, b)"), ("nextafter", "m.nextafter(a, b)")):
        case(op, two, peer=e)
    case("pow", "a:f32[N]{0.5..2} b:f32[N]{-2..2}", peer="m.power(a, b)", torch="torch.pow(a, b)")
    case("pow", x, "pow(x, 3)", peer="x ** 3", variant="cube")
    case("add", "a:f32[R,C] b:f32[C]", peer="a + b", variant="row")
    case("add", "a:f32[R,C] b:f32[R,1]", peer="a + b", variant="column")
    case("mul", "a:c64[N] b:c64[N]", peer="a * b", variant="c64", compare=False)
    case("add", "a:f64[N] b:f64[N]", peer="a + b", variant="f64")
    case("add", "a:bf16[N] b:bf16[N]", peer="a + b", variant="bf16", np="")
    case("add", "a:i32[N]{-99..99} b:i32[N]{-99..99}", peer="a + b", variant="i32")
    case("div", "a:i32[N]{-999..999} b:i32[N]{1..99}", jax="lax.div(a, b)",
         torch="torch.div(a, b, rounding_mode='trunc')", variant="i32")
    case("clamp", "x:f32[N]{-2..2}", "clamp(-1, x, 1)", peer="m.clip(x, -1, 1)")
    case("fma", "a:f32[N] b:f32[N] c:f32[N]", peer="a * b + c")
    case("add_n", "a:f32[N] b:f32[N] c:f32[N]", peer="a + b + c")
    for op, e in (("eq", "a == b"), ("ne", "a != b"), ("lt", "a < b"), ("le", "a <= b"), ("gt", "a > b"),
                  ("ge", "a >= b")):
        case(op, two, peer=e)
    case("is_finite", x, peer="m.isfinite(x)")
    case("is_nan", x, peer="m.isnan(x)")
    case("is_inf", x, peer="m.isinf(x)")
    bools = "a:bool[N]{0..1} b:bool[N]{0..1}"
    ints = "a:i32[N]{-9999..9999} b:i32[N]{0..31}"
    for op, e in (("and", "&"), ("or", "|"), ("xor", "^")):
        case(op, bools, peer=f"a {e} b")
        case("bit_" + op, ints, peer=f"a {e} b")
    case("not", "a:bool[N]{0..1}", peer="~a")
    case("bit_not", "a:i32[N]{-9999..9999}", peer="~a")
    case("shl", ints, peer="a << b")
    case("shr_arith", ints, peer="a >> b")
    case("shr_logical", ints, jax="lax.shift_right_logical(a, b)")
    case("popcount", "a:i32[N]{-9999..9999}", jax="lax.population_count(a)", compare=False, np="np.bitwise_count(a)")
    case("clz", "a:i32[N]{-9999..9999}", jax="lax.clz(a)")
    case("where", "c:bool[N]{0..1} a:f32[N] b:f32[N]", peer="m.where(c, a, b)")
    unary(x)
    activations(x)
    special()
    z = "z:c64[N]"
    case("complex", "re:f32[N] im:f32[N]", jax="lax.complex(re, im)", torch="torch.complex(re, im)", np="re + 1j * im",
         compare=False)
    case("real", z, peer="m.real(z) + 0")
    case("imag", z, peer="m.imag(z) + 0")
    case("angle", z, peer="m.angle(z)")
    case("conjugate", z, peer="m.conj(z)", torch="torch.conj_physical(z)", compare=False)
    case("complex_norm_sq", z, jax="jnp.real(z * jnp.conj(z))", np="(z * np.conj(z)).real",
         torch="torch.real(z * torch.conj(z))")
    case("abs", z, "abs(z)", peer="m.abs(z)", variant="c64")
    case("exp", z, "exp(z)", peer="m.exp(z)", variant="c64", compare=False)


def unary(x: str) -> None:
    away, positive, one = "x:f32[N]{0.3..3}", "x:f32[N]{0.1..4}", "x:f32[N]{-0.9..0.9}"
    rows = (
        ("exp", x, "m.exp(x)"), ("exp2", x, "m.exp2(x)"), ("expm1", x, "m.expm1(x)"), ("log", positive, "m.log(x)"),
        ("log2", positive, "m.log2(x)"), ("log10", positive, "m.log10(x)"), ("log1p", positive, "m.log1p(x)"),
        ("sqrt", positive, "m.sqrt(x)"), ("neg", x, "-x"), ("abs", x, "m.abs(x)"), ("sign", x, "m.sign(x)"),
        ("square", x, "m.square(x)"), ("reciprocal", away, "1 / x"), ("sin", x, "m.sin(x)"), ("cos", x, "m.cos(x)"),
        ("tan", one, "m.tan(x)"), ("asin", one, "m.arcsin(x)"), ("acos", one, "m.arccos(x)"),
        ("atan", x, "m.arctan(x)"),
        ("sinh", x, "m.sinh(x)"), ("cosh", x, "m.cosh(x)"), ("tanh", x, "m.tanh(x)"), ("asinh", x, "m.arcsinh(x)"),
        ("acosh", "x:f32[N]{1.1..4}", "m.arccosh(x)"), ("atanh", one, "m.arctanh(x)"), ("floor", x, "m.floor(x)"),
        ("ceil", x, "m.ceil(x)"), ("trunc", x, "m.trunc(x)"), ("round", x, "m.round(x)"),
    )
    for op, operands, expression in rows:
        case(op, operands, peer=expression)
    case("rsqrt", positive, jax="lax.rsqrt(x)", torch="torch.rsqrt(x)", np="1 / np.sqrt(x)")
    case("cbrt", positive, peer="m.cbrt(x)")
    case("round_away", x, jax="lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO)")
    for op in ("exp", "log", "sin", "tanh"):
        case(op, "x:f64[N]{0.1..2}", peer=f"m.{op}(x)", variant="f64")
    for op in ("exp", "tanh"):
        case(op, "x:bf16[N]{-2..2}", peer=f"m.{op}(x)", variant="bf16", np="")


def activations(x: str) -> None:
    for op in ("relu", "sigmoid", "silu", "softplus", "selu", "mish", "elu", "celu", "leaky_relu"):
        case(op, x, peer=f"nn.{op}(x)")
    case("gelu", x, jax="nn.gelu(x, approximate=False)", torch="nn.gelu(x)")
    case("gelu_approx", x, jax="nn.gelu(x, approximate=True)", torch="nn.gelu(x, approximate='tanh')")
    case("hard_swish", x, jax="nn.hard_swish(x)", torch="nn.hardswish(x)")
    case("hard_sigmoid", x, jax="nn.hard_sigmoid(x)", torch="nn.hardsigmoid(x)")
    case("threshold", x, "threshold(x, theta=0.5, value=-1)", peer="m.where(x > 0.5, x, -1.0)")
    case("prelu", x + " slope:f32[N]{0..1}", peer="m.where(x > 0, x, slope * x)")


def special() -> None:
    x, positive = "x:f32[N]{-0.9..0.9}", "x:f32[N]{0.5..4}"
    for op in ("erf", "erfc"):
        case(op, x, peer=f"s.{op}(x)")
    case("erf_inv", x, peer="s.erfinv(x)")
    case("lgamma", positive, peer="s.gammaln(x)")
    case("digamma", positive, peer="s.digamma(x)")
    case("polygamma", positive, "polygamma(1, x)", jax="s.polygamma(1, x)", np="s.polygamma(1, x)",
         torch="s.polygamma(1, x)")
    case("zeta", "x:f32[N]{1.5..4} q:f32[N]{0.5..4}", peer="s.zeta(x, q)", wrt="q")
    case("zeta_derivative", "x:f32[N]{1.5..4} q:f32[N]{0.5..4}")
    case("bessel_i0e", x, peer="s.i0e(x)")
    case("bessel_i1e", x, peer="s.i1e(x)")


# ---- Shape ----

def shape() -> None:
    x = "x:f32[R,C]"
    case("full", "", "full(f32[$N], 0.5)", peer="m.full((N,), 0.5, dtype=m.float32)")
    case("iota", "", "iota(f32[$N])", peer="m.arange(N, dtype=m.float32)")
    case("eye", "", "eye(n=$R)", peer="m.eye(R, dtype=m.float32)")
    case("reshape", x, "reshape(x, shape=[$N])", peer="m.reshape(x, (N,)) + 0")
    case("transpose", x, "transpose(x)", jax="x.T", np="np.ascontiguousarray(x.T)", torch="x.T.contiguous()")
    case("transpose", "x:f32[B,T,H,D]", "transpose(x, perm=[0, 2, 1, 3])", jax="x.transpose(0, 2, 1, 3)",
         np="np.ascontiguousarray(x.transpose(0, 2, 1, 3))", torch="x.permute(0, 2, 1, 3).contiguous()",
         variant="heads")
    case("expand", "x:f32[R,1]", "expand(x, shape=[$R, $C])", peer="m.broadcast_to(x, (R, C)) + 0")
    case("broadcast_in_dim", "x:f32[R]", "broadcast_in_dim(x, shape=[$R, $C], axes=[0])",
         peer="m.broadcast_to(x[:, None], (R, C)) + 0")
    case("squeeze", "x:f32[R,1,C]", peer="m.squeeze(x, 1) + 0")
    case("unsqueeze", x, "unsqueeze(x, axes=[1])", peer="x[:, None] + 0")
    case("narrow", x, "narrow(x, axis=1, start=1, len=$C/2)", peer="x[:, 1:1 + C // 2] + 0")
    case("slice", x, "slice(x, start=[0, 0], limit=[$R, $C], stride=[2, 2])", peer="x[::2, ::2] + 0")
    case("pad", x, "pad(x, 0, low=[1, 1], high=[1, 1])", jax="jnp.pad(x, 1)", np="np.pad(x, 1)",
         torch="nn.pad(x, (1, 1, 1, 1))")
    case("reverse", x, "reverse(x, axes=[1])", jax="x[:, ::-1]", np="np.ascontiguousarray(x[:, ::-1])",
         torch="torch.flip(x, (1,))")
    case("concat", "a:f32[R,C] b:f32[R,C]", "concat(a, b, axis=1)", peer="m.concatenate((a, b), 1)")
    case("concat", "a:f32[R,C] b:f32[R,C]", "concat(a, b, axis=0)", peer="m.concatenate((a, b), 0)", variant="rows")
    case("stack", "a:f32[R,C] b:f32[R,C]", "stack(a, b, axis=-1)", peer="m.stack((a, b), -1)")
    case("split", x, "split(x, sizes=[$C/2, $C/2], axis=1)", jax="tuple(jnp.split(x, 2, 1))", results=2,
         np="tuple(np.ascontiguousarray(y) for y in np.split(x, 2, 1))",
         torch="tuple(y.contiguous() for y in torch.split(x, C // 2, 1))")
    case("unstack", "x:f32[R,C/4,4]", "unstack(x, axis=2)", jax="tuple(x[:, :, i] for i in range(4))", results=4,
         np="tuple(np.ascontiguousarray(x[:, :, i]) for i in range(4))",
         torch="tuple(y.contiguous() for y in torch.unbind(x, 2))")
    case("tril", x, peer="m.tril(x)")
    case("triu", x, peer="m.triu(x)")
    case("diag", "x:f32[R]", peer="m.diag(x)")
    case("tile", "x:f32[R,C/2]", "tile(x, repeats=[1, 2])", peer="m.tile(x, (1, 2))")
    case("repeat", "x:f32[R,C/2]", "repeat(x, repeats=2, axis=1)", peer="m.repeat(x, 2, axis=1)",
         torch="torch.repeat_interleave(x, 2, 1)")
    case("roll", x, "roll(x, shift=3, axis=1)", peer="m.roll(x, 3, 1)")
    case("meshgrid", "a:f32[R] b:f32[C]", "meshgrid(a, b)",
         peer="tuple(y + 0 for y in m.meshgrid(a, b, indexing='ij'))",
         results=2)


# ---- Reductions, scans, sorting, indexing ----

def reductions() -> None:
    x = "x:f32[R,C]"
    for op, name in (("reduce_sum", "sum"), ("reduce_mean", "mean"), ("reduce_max", "max"), ("reduce_min", "min"),
                     ("reduce_prod", "prod")):
        operands = "x:f32[R,C]{0.9..1.1}" if name == "prod" else x
        torch = {"max": "torch.amax(x, {0})", "min": "torch.amin(x, {0})"}.get(name, "torch." + name + "(x, {0})")
        case(op, operands, f"{op}(x, axes=[1])", peer=f"m.{name}(x, axis=1)", torch=torch.format("1"))
        case(op, operands, f"{op}(x, axes=[0])", peer=f"m.{name}(x, axis=0)", torch=torch.format("0"),
             variant="columns")
        if name != "prod":
            case(op, operands, f"{op}(x)", peer=f"m.{name}(x)", variant="all", compare=name != "sum")
    case("reduce_sum", "x:f32[B*T,H,D]", "reduce_sum(x, axes=[1])", peer="m.sum(x, 1)", variant="middle")
    case("reduce_sum", "x:bf16[R,C]", "reduce_sum(x, axes=[1])", peer="m.sum(x, 1)", variant="bf16", np="",
         compare=False)
    case("reduce_any", "x:bool[R,C]{0..1}", "reduce_any(x, axes=[1])", peer="m.any(x, 1)")
    case("reduce_all", "x:bool[R,C]{0..1}", "reduce_all(x, axes=[1])", peer="m.all(x, 1)")
    case("argmax", x, peer="m.argmax(x, -1)", jax="lax.argmax(x, 1, jnp.int32)")
    case("argmin", x, peer="m.argmin(x, -1)", jax="lax.argmin(x, 1, jnp.int32)")
    case("argmax", x, "argmax(x, axis=0)", peer="m.argmax(x, 0)", jax="lax.argmax(x, 0, jnp.int32)", variant="columns")
    case("softmax", x, peer="nn.softmax(x, -1)", np="s.softmax(x, -1)")
    case("softmax", x, "softmax(x, axis=0)", peer="nn.softmax(x, 0)", np="s.softmax(x, 0)", variant="columns")
    case("log_softmax", x, peer="nn.log_softmax(x, -1)", np="s.log_softmax(x, -1)")
    for op, name, lo in (("cumsum", "cumsum", "{-1..1}"), ("cumprod", "cumprod", "{0.9..1.1}")):
        case(op, x + lo, peer=f"m.{name}(x, -1)")
        case(op, x + lo, f"{op}(x, axis=0)", peer=f"m.{name}(x, 0)", variant="columns")
    case("cummax", x, jax="lax.cummax(x, 1)", np="np.maximum.accumulate(x, 1)", torch="torch.cummax(x, 1)[0]")
    case("cummin", x, jax="lax.cummin(x, 1)", np="np.minimum.accumulate(x, 1)", torch="torch.cummin(x, 1)[0]")
    case("cumlogsumexp", x, jax="lax.cumlogsumexp(x, 1)", np="np.logaddexp.accumulate(x, 1)",
         torch="torch.logcumsumexp(x, 1)")
    case("reduce", x, "reduce(x, 0, body=@f, axes=[1])", peer="m.sum(x, 1)",
         bodies="graph f(a: f32[], b: f32[]) { return add(a, b) }")
    case("map", x, "map(x, body=@f)", peer="m.sin(x) * x", bodies="graph f(a: f32[]) { return mul(sin(a), a) }")
    case("topk", x, "topk(x, k=$Z)", jax="lax.top_k(x, Z)[1]", torch="torch.topk(x, Z)[1]")
    case("top_k", x, "top_k(x, k=$Z)", jax="lax.top_k(x, Z)", torch="tuple(torch.topk(x, Z))", results=2)
    case("sort", x, peer="m.sort(x, -1)", torch="torch.sort(x, -1)[0]")
    case("sort", "x:f32[N]", peer="m.sort(x, -1)", torch="torch.sort(x, -1)[0]", variant="one")
    case("sort", x, "sort(x, axis=0)", peer="m.sort(x, 0)", torch="torch.sort(x, 0)[0]", variant="columns")
    case("sort", "x:i32[N]{-99999..99999}", peer="m.sort(x, -1)", torch="torch.sort(x, -1)[0]", variant="i32")
    case("argsort", x, jax="jnp.argsort(x, -1)", np="np.argsort(x, -1, kind='stable')",
         torch="torch.argsort(x, dim=-1, stable=True)")


def indexing() -> None:
    i = "i:i32[R]{0..R-1}"
    case("gather", "x:f32[R,C] " + i, peer="x[i]")
    case("gather", "x:f32[R,C] i:i32[C]{0..C-1}", "gather(x, i, axis=1)", peer="x[:, i]", variant="columns")
    case("gather", "x:f32[N] i:i32[N]{0..N-1}", peer="x[i]", variant="elements")
    case("scatter_add", "u:f32[R,C] " + i, "scatter_add(u, i, R=$R)", jax="jnp.zeros((R, C), jnp.float32).at[i].add(u)",
         torch="torch.zeros(R, C).index_add(0, i, u)")
    case("scatter_add", "u:f32[N] i:i32[N]{0..N-1}", "scatter_add(u, i, R=$N)", np="np.bincount(i, u, N).astype('f4')",
         jax="jnp.zeros((N,), jnp.float32).at[i].add(u)", torch="torch.zeros(N).index_add(0, i, u)", variant="elements")
    case("take_along", "x:f32[R,C] i:i32[R,C]{0..C-1}", jax="jnp.take_along_axis(x, i, 1)",
         np="np.take_along_axis(x, i, 1)", torch="torch.gather(x, 1, i.long())")
    case("take_along", "x:f32[R,C] i:i32[R,1]{0..C-1}", jax="jnp.take_along_axis(x, i, 1)",
         np="np.take_along_axis(x, i, 1)", torch="torch.gather(x, 1, i.long())", variant="one")
    case("one_hot", i, "one_hot(i, n=$C)", jax="nn.one_hot(i, C, dtype=jnp.float32)", np="np.eye(C, dtype='f4')[i]",
         torch="nn.one_hot(i.long(), C).float()")
    at = " p:i32[]{1..1} q:i32[]{1..1}"
    case("dynamic_slice", "x:f32[R,C]" + at, "dynamic_slice(x, p, q, sizes=[$R/2, $C/2])",
         jax="lax.dynamic_slice(x, (p, q), (R // 2, C // 2))")
    case("dynamic_update_slice", "x:f32[R,C] u:f32[R/2,C/2]" + at, "dynamic_update_slice(x, u, p, q)",
         jax="lax.dynamic_update_slice(x, u, (p, q))")
    case("gather_nd", "x:f32[R,C] i:i32[R,C/2,2]{0..R-1}",
         "gather_nd(x, i, slice_sizes=[1, 1], start_index_map=[0, 1], collapsed_axes=[0, 1])",
         peer="x[i[..., 0], i[..., 1]]")
    rows = "start_index_map=[0], collapsed_axes=[0], offset_axes=[1]"
    case("gather_nd", "x:f32[R,C] i:i32[R,1]{0..R-1}", f"gather_nd(x, i, slice_sizes=[1, $C], {rows})",
         peer="x[i[:, 0]]", variant="rows")
    case("scatter_nd", "x:f32[R,C] i:i32[R,1]{0..R-1} u:f32[R,C]", f"scatter_nd(x, i, u, {rows})",
         jax="x.at[i[:, 0]].add(u)", torch="x.index_add(0, i[:, 0], u)")
    case("scatter_nd", "x:f32[R,C] i:i32[R,C/2,2]{0..R-1} u:f32[R,C/2]",
         "scatter_nd(x, i, u, start_index_map=[0, 1], collapsed_axes=[0, 1])",
         jax="x.at[i[..., 0], i[..., 1]].add(u)", torch="x.index_put((i[..., 0], i[..., 1]), u, True)",
         variant="elements")


# ---- Products and linear algebra ----

def products() -> None:
    ab = "a:f32[R,C] b:f32[C,R]"
    case("matmul", ab, peer="a @ b")
    case("matmul", "a:f32[R,C] b:f32[C,1]", peer="a @ b", variant="vector")
    case("matmul", "a:f32[1,C] b:f32[C,R]", peer="a @ b", variant="row")
    case("matmul", "a:f32[R,C] b:f32[C,8]", peer="a @ b", variant="thin")
    case("matmul", "a:f32[N/64,8,8] b:f32[N/64,8,8]", peer="a @ b", variant="batch8")
    case("matmul", "a:f32[B*H,T,D] b:f32[B*H,D,T]", peer="a @ b", variant="heads", most="1MB")
    case("matmul", "a:f64[R,C] b:f64[C,R]", peer="a @ b", variant="f64")
    case("matmul", "a:bf16[R,C] b:bf16[C,R]", peer="a @ b", variant="bf16", np="", compare=False)
    case("matmul", "a:c64[R,C] b:c64[C,R]", peer="a @ b", variant="c64", compare=False)
    case("matmul", "a:i32[M,M]{-9..9} b:i32[M,M]{-9..9}", peer="a @ b", variant="i32")
    case("matmul", "a:f32[1021,1021] b:f32[1021,1021]", peer="a @ b", variant="prime", most="1MB")
    case("dot_general", "l:f32[R,C] r:f32[R,C]", "dot_general(l, r, lc=[1], rc=[1])", jax="l @ r.T", np="l @ r.T",
         torch="l @ r.T")
    case("dot_general", "l:f32[R,C] r:f32[R,C]", "dot_general(l, r, lc=[0], rc=[0])", jax="l.T @ r", np="l.T @ r",
         torch="l.T @ r", variant="left")
    case("widening_dot", "l:i8[M,M]{-127..127} r:i8[M,M]{-127..127}", "widening_dot(l, r, lc=[1], rc=[0], to=i32)",
         wrt="", jax="jnp.matmul(l, r, preferred_element_type=jnp.int32)", np="l.astype(np.int32) @ r.astype(np.int32)",
         torch="torch._int_mm(l, r)")
    case("lora_matmul", "x:f32[R,C] w:f32[C,R] a:f32[C,8] b:f32[8,R]", peer="x @ w + (x @ a) @ b")
    case("einsum", "a:f32[B,T,H,D] b:f32[B,T,H,D]", 'einsum(a, b, eq="bthd,bshd->bhts")', most="1MB",
         jax="jnp.einsum('bthd,bshd->bhts', a, b)", torch="torch.einsum('bthd,bshd->bhts', a, b)",
         np="np.einsum('bthd,bshd->bhts', a, b, optimize=True)")
    experts = "x:f32[R,C] w:f32[4,C,C] e:i32[R]{sorted 0..3}"
    ragged = "lax.ragged_dot(x, {0}, jnp.bincount(e, length=4))"
    case("grouped_matmul", experts, "grouped_matmul(x, w, e)", jax=ragged.format("w"))
    case("grouped_matmul_input_backward", experts, "grouped_matmul_input_backward(x, w, e)",
         jax=ragged.format("w.swapaxes(1, 2)"))
    case("grouped_matmul_weight_backward", "x:f32[R,C] d:f32[R,C] e:i32[R]{sorted 0..3}",
         "grouped_matmul_weight_backward(x, d, e, E=4)",
         jax="jax.vjp(lambda w: " + ragged.format("w") + ", jnp.zeros((4, C, C), jnp.float32))[1](d)[0]")


def linear_algebra() -> None:
    a, b = "a:f32[M,M]{dominant}", " b:f32[M,K]"
    case("solve", a + b, peer="m.linalg.solve(a, b)")
    case("solve", a + " b:f32[M]", peer="m.linalg.solve(a, b)", variant="one")
    case("solve", "a:f32[N/64,8,8]{dominant} b:f32[N/64,8,1]", peer="m.linalg.solve(a, b)", variant="batch8")
    case("solve", "a:f64[M,M]{dominant} b:f64[M,K]", peer="m.linalg.solve(a, b)", variant="f64")
    case("dense_solve", a + b, peer="m.linalg.solve(a, b)")
    case("batched_dense_solve", "a:f32[8,M/2,M/2]{dominant} b:f32[8,M/2,K]", peer="m.linalg.solve(a, b)")
    case("lu_solve", a + " p:i32[M]{iota}" + b, "lu_solve(a, p, b)", jax="l.lu_solve((a, p), b)", wrt="b",
         np="l.lu_solve((a, p), b)")
    case("inv", a, peer="m.linalg.inv(a)")
    case("lu", a, jax="lax.linalg.lu(a)", np="l.lu_factor(a)", torch="torch.linalg.lu_factor(a)", results=3,
         compare=False)
    case("cholesky", "a:f32[M,M]{definite}", peer="m.linalg.cholesky(a)", compare=False)
    case("cholesky", "a:f32[N/64,8,8]{definite}", peer="m.linalg.cholesky(a)", compare=False, variant="batch8")
    case("det", "a:f32[K,K]{dominant}", peer="m.linalg.det(a)", compare=False)
    case("slogdet", a, peer="tuple(m.linalg.slogdet(a))", results=2, wrt="")
    case("logdet", a, jax="jnp.linalg.slogdet(a)[1]", np="np.linalg.slogdet(a)[1]", torch="torch.logdet(a)")
    case("adjugate", "a:f32[K,K]{dominant}", peer="m.linalg.inv(a) * m.linalg.det(a)", compare=False)
    case("adjugate_along", "a:f32[K,K]{dominant} v:f32[K,K]", wrt="",
         jax="jax.jvp(lambda a: jnp.linalg.inv(a) * jnp.linalg.det(a), (a,), (v,))[1]", compare=False)
    case("trace", "a:f32[R,C]", peer="m.trace(a)", compare=False)
    case("kron", "a:f32[K/2,K/2] b:f32[Z,Z]", peer="m.kron(a, b)")
    case("matrix_power", a, "matrix_power(a, n=5)", peer="m.linalg.matrix_power(a, 5)", compare=False)
    case("diag_extract", "x:f32[R,C]", peer="m.diagonal(x) + 0")
    case("diag_set", "x:f32[R]", peer="m.diag(x)")
    case("expm", "a:f32[M,M]{small}", jax="l.expm(a)", np="l.expm(a)", torch="torch.linalg.matrix_exp(a)")
    case("qr", a, peer="tuple(m.linalg.qr(a))", results=2, compare=False)
    band = "rows=$band_rows, cols=$band_cols, n=$Q"
    case("spmv", "v:f32[3*Q]{1..2} x:f32[Q]", f"spmv(v, x, {band})", np="sparse(v, Q) @ x",
         jax="jnp.zeros((Q,), jnp.float32).at[band_rows].add(v * x[band_cols])")
    case("sparse_solve", "v:f64[3*Q]{band} x:f64[Q]", f"sparse_solve(v, x, {band})", np="spsolve(sparse(v, Q), x)")
    case("solve_triangular", "t:f32[M,M]{dominant}" + b, "solve_triangular(t, b)",
         jax="l.solve_triangular(t, b, lower=True)",
         np="l.solve_triangular(t, b, lower=True)",
         torch="torch.linalg.solve_triangular(torch.tril(t), b, upper=False)")
    case("norm", "x:f32[R,C]", "norm(x, axes=[1])", peer="m.linalg.norm(x, axis=1)")
    case("eigh", "a:f32[E,E]{symmetric}", peer="tuple(m.linalg.eigh(a))", results=2, compare=False)
    case("eigh", "a:f32[N/64,8,8]{symmetric}", peer="tuple(m.linalg.eigh(a))", results=2, compare=False,
         variant="batch8",
         most="1MB")
    case("eig", "a:f32[E,E]{dominant}", jax="jnp.linalg.eigvals(a)", np="np.linalg.eigvals(a)",
         torch="torch.linalg.eigvals(a)", compare=False, wrt="")
    case("eig_pairs", "a:f32[E,E]{dominant}", peer="tuple(m.linalg.eig(a))", results=2, compare=False, wrt="")
    case("polar", "a:f32[E,E]{dominant}", np="l.polar(a)", jax="jax.scipy.linalg.polar(a)", results=2, compare=False,
         wrt="")
    case("cond", "a:f32[E,E]{dominant}", peer="m.linalg.cond(a)", compare=False)
    case("svd", "a:f32[E,E]{dominant}", peer="tuple(m.linalg.svd(a, full_matrices=False))", results=3, compare=False,
         wrt="")
    case("pinv", "a:f32[E,E]{dominant}", peer="m.linalg.pinv(a)", compare=False)
    case("lstsq", "a:f32[M,E]{tall} b:f32[M]", jax="jnp.linalg.lstsq(a, b)[0]", np="np.linalg.lstsq(a, b)[0]",
         torch="torch.linalg.lstsq(a, b[:, None])[0]", compare=False)


def implicit() -> None:
    spd = "graph times(x: f32[$M], a: f32[$M, $M]) { return dot_general(a, x, lc=[1], rc=[0]) }"
    operands = "b:f32[M] a:f32[M,M]{definite}"
    case("cg", operands, "cg(b, a, body=@times)", bodies=spd, np="sparse_cg(a, b)",
         jax="jax.scipy.sparse.linalg.cg(lambda x: a @ x, b, tol=1e-6)[0]", compare=False)
    case("gmres", operands, "gmres(b, a, body=@times)", bodies=spd, np="sparse_gmres(a, b)",
         jax="jax.scipy.sparse.linalg.gmres(lambda x: a @ x, b, tol=1e-6)[0]", compare=False)
    case("fixed_point", "x:f32[N] c:f32[N]{0..1}", "fixed_point(x, c, body=@f)", wrt="c",
         bodies="graph f(x: f32[$N], c: f32[$N]) { return mul(0.3, add(sin(x), c)) }",
         jax="lax.fori_loop(0, 12, lambda i, v: 0.3 * (jnp.sin(v) + c), x)", compare=False)
    case("root", "x:f32[M]{1..1.5} c:f32[M]{1..2}", "root(x, c, body=@f)", wrt="c",
         bodies="graph f(x: f32[$M], c: f32[$M]) { return sub(mul(x, x), c) }")
    case("odeint", "y:f32[M]{0.5..1} t:f32[3]{sorted 0..1} k:f32[M]{0.5..1}", "odeint(y, t, k, body=@f)", wrt="y,k",
         bodies="graph f(y: f32[$M], t: f32[], k: f32[$M]) { return mul(neg(k), y) }",
         jax="ode(lambda y, t, k: -k * y, y, t, k, rtol=1e-6, atol=1e-9)", compare=False)


# ---- Signals ----

def signals() -> None:
    z = "z:c64[R,C]"
    case("fft", z, peer="m.fft.fft(z)", compare=False)
    case("fft", "z:c64[N]", peer="m.fft.fft(z)", compare=False, variant="one")
    case("fft", "z:c64[R,509]", peer="m.fft.fft(z)", compare=False, variant="prime")
    case("fft_axis", z, "fft_axis(z, axis=0)", peer="m.fft.fft(z, None, 0)", compare=False)
    case("fftn", z, peer="m.fft.fftn(z)", compare=False)
    case("ifftn", z, peer="m.fft.ifftn(z)", compare=False)
    case("rfft", "x:f32[R,C]", peer="m.fft.rfft(x)", results=2, compare=False)
    case("irfft", "re:f32[R,C/2+1] im:f32[R,C/2+1]", jax="jnp.fft.irfft(lax.complex(re, im))",
         np="np.fft.irfft(re + 1j * im)", torch="torch.fft.irfft(torch.complex(re, im))", compare=False)
    case("rfft_complex", "x:f32[R,C]", peer="m.fft.rfft(x)", compare=False)
    case("irfft_complex", "z:c64[R,C/2+1]", peer="m.fft.irfft(z)", compare=False)
    x, w, same = "x:f32[B,P,S,S]", " w:f32[P,P,3,3]", "padding=[1, 1]"
    conv = "lax.conv_general_dilated(x, w, ({0}, {0}), ((1, 1), (1, 1)), feature_group_count={1})"
    case("conv", x + w, f"conv(x, w, {same})", jax=conv.format(1, 1), torch="nn.conv2d(x, w, padding=1)")
    case("conv", x + w, f"conv(x, w, {same}, stride=[2, 2])", jax=conv.format(2, 1),
         torch="nn.conv2d(x, w, padding=1, stride=2)", variant="stride")
    case("conv", x + " w:f32[P,1,3,3]", f"conv(x, w, {same}, groups=$P)", jax=conv.format(1, "P"),
         torch="nn.conv2d(x, w, padding=1, groups=P)", variant="depthwise")
    case("conv", x + " w:f32[P,P,1,1]", "conv(x, w)", torch="nn.conv2d(x, w)", variant="pointwise",
         jax="lax.conv_general_dilated(x, w, (1, 1), ((0, 0), (0, 0)))")
    case("conv", "x:f32[B,P,S*S] w:f32[P,P,5]", "conv(x, w, padding=[2])", torch="nn.conv1d(x, w, padding=2)",
         jax="lax.conv_general_dilated(x, w, (1,), ((2, 2),))", variant="1d")
    case("conv_backward_input", "z:f32[B,P,S,S]" + w, f"conv_backward_input(z, w, input_size=[$S, $S], {same})",
         torch="nn.conv_transpose2d(z, w, padding=1)", jax="jax.vjp(lambda x: " + conv.format(1, 1) + ", z)[1](z)[0]")
    case("conv_backward_weight", x + " z:f32[B,P,S,S]", f"conv_backward_weight(x, z, kernel_size=[3, 3], {same})",
         jax="jax.vjp(lambda w: " + conv.format(1, 1) + ", jnp.zeros((P, P, 3, 3), jnp.float32))[1](z)[0]",
         torch="torch.nn.grad.conv2d_weight(x, (P, P, 3, 3), z, padding=1)")
    case("conv_transpose", x + w, f"conv_transpose(x, w, {same}, stride=[2, 2], output_padding=[1, 1])",
         torch="nn.conv_transpose2d(x, w, padding=1, stride=2, output_padding=1)",
         jax="lax.conv_general_dilated(x, w.transpose(1, 0, 2, 3)[:, :, ::-1, ::-1], (1, 1), ((1, 2), (1, 2)), (2, 2))")
    window = "lax.reduce_window(x, {0}, (1, 1, 2, 2), (1, 1, 2, 2), 'VALID')"
    case("pool", x, "pool(x, kind=max, kernel_size=[2, 2])", jax=window.format("-jnp.inf, lax.max"),
         torch="nn.max_pool2d(x, 2)")
    case("pool", x, "pool(x, kind=mean, kernel_size=[2, 2])", jax=window.format("0.0, lax.add") + " / 4",
         torch="nn.avg_pool2d(x, 2)", variant="mean")
    case("pool", x, f"pool(x, kind=max, kernel_size=[3, 3], stride=[2, 2], {same})",
         jax="lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 3, 3), (1, 1, 2, 2), ((0, 0), (0, 0), (1, 1), (1, 1)))",
         torch="nn.max_pool2d(x, 3, 2, 1)", variant="overlap")
    case("pool_argmax", x, "pool_argmax(x, kernel_size=[2, 2])", torch="nn.max_pool2d(x, 2, return_indices=True)[1]",
         compare=False)
    case("max_pool_backward", x + " d:f32[B,P,S/2,S/2]", "max_pool_backward(x, d, kernel_size=[2, 2])",
         jax="jax.vjp(lambda x: " + window.format("-jnp.inf, lax.max") + ", x)[1](d)[0]")
    case("resize_nearest_2x", x, jax="jnp.repeat(jnp.repeat(x, 2, 2), 2, 3)", np="x.repeat(2, 2).repeat(2, 3)",
         torch="nn.interpolate(x, scale_factor=2)")
    case("resize", x, "resize(x, shape=[$B, $P, 2*$S, 2*$S], mode=linear)", torch="nn.interpolate(x, scale_factor=2, "
         "mode='bilinear')", jax="jax.image.resize(x, (B, P, 2 * S, 2 * S), 'linear')", compare=False)
    case("stft", "x:f32[N] w:f32[C]", "stft(x, w, frame_len=$C, hop=$C/2)", compare=False,
         jax="jnp.fft.rfft(x[jnp.arange(0, N - C + 1, C // 2)[:, None] + jnp.arange(C)] * w)",
         np="np.fft.rfft(np.lib.stride_tricks.sliding_window_view(x, C)[::C // 2] * w).astype('c8')",
         torch="torch.stft(x, C, C // 2, window=w, center=False, return_complex=True)")
    case("psd", "re:f32[R,C/2+1] im:f32[R,C/2+1]", peer="(re * re + im * im) / C")
    case("fft_conv1d", "a:f32[B,N/B] b:f32[C]", compare=False, np="scipy_fftconvolve(a, b[None], axes=1)",
         jax="jax.vmap(lambda r: jax.scipy.signal.fftconvolve(r, b))(a)")
    case("fftfreq", "", "fftfreq(n=$N)", jax="jnp.fft.fftfreq(N).astype(jnp.float32)",
         np="np.fft.fftfreq(N).astype('f4')")
    case("rfftfreq", "", "rfftfreq(n=$N)", jax="jnp.fft.rfftfreq(N).astype(jnp.float32)",
         np="np.fft.rfftfreq(N).astype('f4')")
    spec = "spec:f32[R,C] filt:f32[K,C/4+1]{0..1}"
    power = "p[:, :C // 4 + 1]"
    mel = f"(lambda p: m.log10(m.maximum({power} @ filt.T, 1e-10)))(spec[:, :C // 2] ** 2 + spec[:, C // 2:] ** 2)"
    case("log_mel", spec, jax=mel, np=mel)
    case("log_mel_backward", spec + " d:f32[R,K]", jax=f"jax.vjp(lambda spec: {mel}, spec)[1](d)[0]")
    case("log_mel_normalize", "y:f32[R,C]{-9..9}", peer="(m.maximum(y, m.max(y) - 8.0) + 4.0) / 4.0")
    case("welch_peaks", "spec:f32[R,C]", "welch_peaks(spec, k=$Z)", results=2, wrt="",
         jax="lax.top_k(jnp.mean(spec[:, :C // 2] ** 2 + spec[:, C // 2:] ** 2, 0), Z)")
    case("reduce_window", "x:f32[R,C]", "reduce_window(x, 0, window=[1, 8], combine=add)",
         jax="lax.reduce_window(x, 0.0, lax.add, (1, 8), (1, 1), 'VALID')", compare=False)
    case("select_and_scatter", "x:f32[R,C] u:f32[R/2,C/2]",
         "select_and_scatter(x, u, 0, window=[2, 2], strides=[2, 2])",
         jax="jax.vjp(lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (2, 2), 'VALID'), x)[1](u)[0]")


# ---- Neural networks ----

def networks() -> None:
    qkv = "q:f32[B,T,H,D] k:f32[B,T,H,D] v:f32[B,T,H,D]"
    jax = "jax.nn.dot_product_attention(q, k, v{0})"
    torch = "nn.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v)){0}).transpose(1, 2).contiguous()"
    case("attention", qkv, "attention(q, k, v, layout=bshd)", jax=jax.format(""), torch=torch.format(""))
    case("attention", qkv, "attention(q, k, v, layout=bshd, mask_kind=causal)", variant="causal",
         jax=jax.format(", is_causal=True"), torch=torch.format(", is_causal=True"))
    case("attention", "q:f32[B,1,H,D] k:f32[B,T,H,D] v:f32[B,T,H,D]", "attention(q, k, v, layout=bshd)",
         variant="decode",
         jax=jax.format(""), torch=torch.format(""))
    case("attention_backward", qkv + " d:f32[B,T,H,D]", "attention_backward(q, k, v, d, wrt=key, layout=bshd)", wrt="",
         jax="jax.vjp(lambda k: " + jax.format("") + ", k)[1](d)[0]")
    case("axial_rope2d", "x:f32[B,S*S,D]", "axial_rope2d(x, end_x=$S, end_y=$S, num_heads=1)")
    turn = ("(lambda a, b: m.concatenate((a * c[:, None] - b * z[:, None], b * c[:, None] + a * z[:, None]), -1))"
            "(x[..., :D // 2], x[..., D // 2:])")
    tables = " c:f32[T,D/2] z:f32[T,D/2]"
    case("rope", "x:f32[B,T,H,D]" + tables, "rope(x, c, z, layout=bshd)", peer=turn)
    case("rope_backward", "x:f32[B,T,H,D]" + tables, "rope_backward(x, c, z, layout=bshd)",
         jax=f"jax.vjp(lambda x: {turn}, x)[1](x)[0]")
    labels = "x:f32[R,C] y:i32[R]{0..C-1}"
    nll = "(nn.logsumexp(x, -1) - jnp.take_along_axis(x, y[:, None], 1)[:, 0])"
    case("softmax_cross_entropy_with_logits", labels, jax=nll, torch="nn.cross_entropy(x, y.long(), reduction='none')")
    case("softmax_cross_entropy_backward", labels + " d:f32[R]",
         jax="(nn.softmax(x, -1) - nn.one_hot(y, C)) * d[:, None]")
    norms()
    scan = "x:f32[B,T,H*D] delta:f32[B,T,H*D]{0.1..1} a:f32[H*D,4]{-1..0} b:f32[B,T,4] c:f32[B,T,4]"
    case("selective_scan", scan, jax="selective_scan(x, delta, a, b, c)")
    delta = "q:f32[B,T,H,D]{-0.1..0.1} k:f32[B,T,H,D]{-0.1..0.1} v:f32[B,T,H,D] gamma:f32[B,T,H]{-1..0} " \
            "beta:f32[B,T,H]{0.1..1}"
    case("gated_delta_net", delta, jax="gated_delta_net(q, k, v, gamma, beta)", most="1MB")


def norms() -> None:
    x, params = "x:f32[R,C]", " g:f32[C]{0.5..1.5} b:f32[C]"
    case("layer_norm", x + params, jax="norm(x, -1) * g + b", torch="nn.layer_norm(x, (C,), g, b)")
    case("rms_norm", x + " g:f32[C]{0.5..1.5}", jax="x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * g",
         torch="nn.rms_norm(x, (C,), g, 1e-5)")
    image, channels = "x:f32[B,P,S,S]", " g:f32[P]{0.5..1.5} b:f32[P]"
    affine = " * g[:, None, None] + b[:, None, None]"
    case("group_norm", image + channels, "group_norm(x, g, b, num_groups=4)", torch="nn.group_norm(x, 4, g, b)",
         jax="norm(x.reshape(B, 4, -1), -1).reshape(x.shape)" + affine)
    case("layer_norm2d", image + channels, jax="norm(x, 1)" + affine)
    stats = " mean:f32[P] var:f32[P]{0.5..2}"
    inference = "((x - mean[:, None, None]) * lax.rsqrt(var[:, None, None] + 1e-5))" + affine
    case("batch_norm_inference", image + channels + stats, jax=inference, wrt="x,g,b",
         torch="nn.batch_norm(x, mean, var, g, b)")
    case("batch_norm_training", image + channels, results=3, jax="norm(x, (0, 2, 3))" + affine,
         torch="nn.batch_norm(x, None, None, g, b, True)")
    d, one = " d:f32[R,C]", "jax.vjp(lambda {0}: {1}, {0})[1](d)[0]"
    layer, rms = "norm(x, -1) * g", "x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * g + b"
    case("layer_norm_backward_input", x + " g:f32[C]{0.5..1.5}" + d, jax=one.format("x", layer))
    case("layer_norm_backward_gamma", x + d, jax="(norm(x, -1) * d).sum(0)")
    case("rms_norm_backward_input", x + params + d, jax=one.format("x", rms))
    case("rms_norm_backward_gamma", x + params + d, jax=one.format("g", rms))
    case("rms_norm_backward_beta", x + params + d, jax=one.format("b", rms))
    d = " d:f32[B,P,S,S]"
    group = "norm(x.reshape(B, 4, -1), -1).reshape(x.shape)"
    case("group_norm_backward_input", image + channels + d, "group_norm_backward_input(x, g, b, d, num_groups=4)",
         jax=one.format("x", group + affine))
    case("group_norm_backward_gamma", image + d, "group_norm_backward_gamma(x, d, num_groups=4)",
         jax=f"({group} * d).sum((0, 2, 3))")
    case("group_norm_backward_beta", image + d, "group_norm_backward_beta(x, d, num_groups=4)", jax="d.sum((0, 2, 3))",
         compare=False)
    case("batch_norm_inference_backward_input", image + " g:f32[P]{0.5..1.5}" + stats + d,
         jax="d * (g * lax.rsqrt(var + 1e-5))[:, None, None]")
    case("batch_norm_inference_backward_gamma", image + stats + d,
         jax="(d * (x - mean[:, None, None]) * lax.rsqrt(var + 1e-5)[:, None, None]).sum((0, 2, 3))", compare=False)
    case("batch_norm_inference_backward_beta", "d:f32[B,P,S,S]", jax="d.sum((0, 2, 3))", compare=False)


def quantised() -> None:
    x = "x:f32[R,C]{-1..1}"
    rounded = "m.clip(m.round(x / 0.01), -128, 127)"
    case("quantize", x, "quantize(x, scales=[0.01])", wrt="", jax=rounded + ".astype(jnp.int8)",
         np=rounded + ".astype('i1')",
         torch="torch.clip(torch.round(x / 0.01), -128, 127).to(torch.int8)")
    case("dequantize", "q:i8[R,C]{-128..127}", "dequantize(q, scales=[0.01])", jax="q.astype(jnp.float32) * 0.01",
         np="q.astype('f4') * np.float32(0.01)", torch="q.float() * 0.01")
    blocks = "(w.reshape(W // 32, 32, W).astype(jnp.float32) * f[:, None]).reshape(W, W)"
    case("dequant_matmul", "x:f32[8,W] w:i8[W,W]{-128..127} f:f32[W/32,W]{0.01..0.02}",
         "dequant_matmul(x, w, f, scheme=int8_block)", jax="x @ " + blocks, most="64MB", compare=False)
    case("dequant_matmul", "x:f32[1,W] w:i8[W,W]{-128..127} f:f32[W/32,W]{0.01..0.02}",
         "dequant_matmul(x, w, f, scheme=int8_block)", jax="x @ " + blocks, variant="one", compare=False)
    packed = "w:u8[4,W*W/32*18]{10..40}"
    case("dequant_grouped_matmul", f"x:f32[8,W] {packed} e:i32[8]{{sorted 0..3}}",
         "dequant_grouped_matmul(x, w, e, scheme=gguf_q4_0, N=$W)",
         jax="lax.ragged_dot(x, q4_0(w, 4, W, W), jnp.bincount(e, length=4))")
    case("dequant_moe_weights", packed, "dequant_moe_weights(w, scheme=gguf_q4_0, E=4, K=$W, N=$W)",
         jax="q4_0(w, 4, W, W)")
    fake = "(lambda s: m.clip(m.round(x / s), -127, 127) * s)(m.max(m.abs(x)) / 127)"
    case("fake_quantize", x, peer=fake, wrt="")
    case("fake_quantize", x, variant="gradient")
    case("fake_quantize_backward", x + " d:f32[R,C]", wrt="")
    case("fake_quantize_lsq", x + " s:f32[1]{0.01..0.01}", peer="m.clip(m.round(x / s), -128, 127) * s", wrt="")
    case("fake_quantize_lsq", x + " s:f32[1]{0.01..0.01}", variant="gradient")
    case("fake_quantize_lsq_backward_x", x + " s:f32[1]{0.01..0.01} d:f32[R,C]", wrt="")
    case("fake_quantize_lsq_backward_scale", x + " s:f32[1]{0.01..0.01} d:f32[R,C]", wrt="")
    case("q_matmul", "x:i8[R,C]{-128..127} w:i8[C,R]{-128..127} bias:i32[R]{-999..999}",
         "q_matmul(x, w, bias, mult=0.004)",
         jax="jnp.clip(jnp.round((jnp.matmul(x, w, preferred_element_type=jnp.int32) + bias) * 0.004), -128, 127)"
         ".astype(jnp.int8)", wrt="")
    conv = "lax.conv_general_dilated(x, w, (1, 1), ((1, 1), (1, 1)), preferred_element_type=jnp.int32)"
    case("q_conv", "x:i8[B,P,S,S]{-128..127} w:i8[P,P,3,3]{-128..127} bias:i32[P]{-999..999}",
         "q_conv(x, w, bias, mult=0.004, padding=[1, 1])", wrt="",
         jax=f"jnp.clip(jnp.round(({conv} + bias[:, None, None]) * 0.004), -128, 127).astype(jnp.int8)")


def randoms() -> None:
    key, jkey = "k:u32[2]{0..9}", "jax.random.wrap_key_data(k)"
    more = dict(compare=False, wrt="")
    shape = "shape=[$N]"
    case("rng_uniform", key, f"rng_uniform(k, {shape})", jax=f"jax.random.uniform({jkey}, (N,))",
         np="generator.random(N, dtype='f4')", torch="torch.rand(N)", **more)
    case("rng_normal", key, f"rng_normal(k, {shape})", jax=f"jax.random.normal({jkey}, (N,))",
         np="generator.standard_normal(N, dtype='f4')", torch="torch.randn(N)", **more)
    case("rng_bits", key, f"rng_bits(k, {shape})", jax=f"jax.random.bits({jkey}, (N,))",
         np="generator.integers(0, 1 << 32, N, dtype='u4')", **more)
    case("rng_bits", key, f"rng_bits(k, {shape}, algorithm=threefry2x32)", jax=f"jax.random.bits({jkey}, (N,))",
         variant="threefry", **more)
    case("rng_bit_generator", "k:u64[2]{0..9}", f"rng_bit_generator(k, {shape}, dtype=u32, algorithm=threefry2x32)",
         results=2, jax="lax.rng_bit_generator(k, (N,), algorithm=lax.RandomAlgorithm.RNG_THREE_FRY)", **more)
    case("rng_split", key, "rng_split(k, num=$N/2)", jax=f"jax.random.key_data(jax.random.split({jkey}, N // 2))",
         **more)
    case("rng_fold_in", key + " d:i32[]{0..9}", "rng_fold_in(k, d)",
         jax=f"jax.random.key_data(jax.random.fold_in({jkey}, d))", **more)
    case("sample", "x:f32[Z,V]{-4..4}", "sample(x, top_k=8, top_p=0.9)", **more, most="64MB")
    case("bernoulli", key + " p:f32[]{0.5..0.5}", f"bernoulli(k, p, {shape})",
         jax=f"jax.random.bernoulli({jkey}, p, (N,))",
         np="generator.random(N, dtype='f4') < p", torch="torch.rand(N) < p", **more)
    case("categorical", key + " x:f32[R,C]", "categorical(k, x)", jax=f"jax.random.categorical({jkey}, x)",
         torch="torch.multinomial(torch.softmax(x, 1), 1)", **more)
    case("permutation", key, "permutation(k, n=$N)", jax=f"jax.random.permutation({jkey}, N)",
         np="generator.permutation(N)", torch="torch.randperm(N)", **more)
    case("dropout", "x:f32[N] " + key, "dropout(x, k, rate=0.1)", compare=False, wrt="x", torch="nn.dropout(x, 0.1)",
         jax=f"jnp.where(jax.random.uniform({jkey}, (N,)) >= 0.1, x / 0.9, 0.0)")
    case("truncated_normal", key, f"truncated_normal(k, {shape})",
         jax=f"jax.random.truncated_normal({jkey}, -2, 2, (N,))",
         **more)
    case("exponential", key, f"exponential(k, {shape})", jax=f"jax.random.exponential({jkey}, (N,))",
         np="generator.standard_exponential(N, dtype='f4')", torch="torch.empty(N).exponential_()", **more)
    case("gamma", key + " a:f32[]{2..2}", f"gamma(k, a, {shape})", jax=f"jax.random.gamma({jkey}, a, (N,))",
         np="generator.standard_gamma(a, N, dtype='f4')", torch="torch._standard_gamma(torch.full((N,), float(a)))",
         **more)


# ---- Control flow, kernels, processes ----

def control() -> None:
    two = "graph f(x: f32[$N]) { return sin(x) }\ngraph g(x: f32[$N]) { return cos(x) }\n"
    case("if", "p:bool[]{1..1} x:f32[N]", "if(p, x, then=@f, else=@g)", bodies=two,
         jax="lax.cond(p, jnp.sin, jnp.cos, x)")
    case("case", "i:i32[]{1..1} x:f32[N]", "case(i, x, branches=[@f, @g])", bodies=two,
         jax="lax.switch(i, (jnp.sin, jnp.cos), x)")
    case("call", "x:f32[N]", "call(x, body=@f)", bodies=two, peer="m.sin(x)")
    case("custom_fn", "x:f32[N]", "custom_fn(x, fwd_body=@f)", bodies=two, peer="m.sin(x)")
    count = ("graph more(i: i32[], x: f32[$N]) { return lt(i, 10) }\n"
             "graph next(i: i32[], x: f32[$N]) { return add(i, 1), sin(x) }\n")
    case("while", "x:f32[N]", "while(full(i32[], 0), x, cond=@more, body=@next)", bodies=count, results=2, wrt="",
         jax="lax.while_loop(lambda c: c[0] < 10, lambda c: (c[0] + 1, jnp.sin(c[1])), (0, x))")
    step = ("graph step(c: f32[$C], x: f32[$C]) { return sin(add(c, x)) }\n"
            "graph back(c: f32[$C], x: f32[$C], d: f32[$C]) { g = mul(d, cos(add(c, x))) return g, g }\n")
    scan = "lax.scan(lambda c, x: (jnp.sin(c + x), None), c, x)[0]"
    case("scan", "c:f32[C] x:f32[R,C]", "scan(c, x, body=@step)", bodies=step, jax=scan)
    tiny = "graph step(c: f32[4], x: f32[4]) { return sin(add(c, x)) }\n"
    case("scan", "c:f32[4] x:f32[Q,4]", "scan(c, x, body=@step)", bodies=tiny, jax=scan, variant="tiny")
    product = "graph step(c: f32[8, $K], w: f32[$K, $K], x: f32[8, $K]) { return tanh(add(matmul(c, w), x)) }\n"
    case("scan", "c:f32[8,K] w:f32[K,K]{small} x:f32[R,8,K]", "scan(c, w, x, body=@step, num_bcast=1)", bodies=product,
         jax="lax.scan(lambda c, x: (jnp.tanh(c @ w + x), None), c, x)[0]", variant="product")
    both = "body=@step, body_vjp=@back"
    case("scan_backward", "t:f32[R,C] x:f32[R,C] d:f32[C]", f"scan_backward(d, t, d, x, {both})", bodies=step,
         wrt="")
    case("scan_backward_xs", "t:f32[R,C] x:f32[R,C] d:f32[C]", f"scan_backward_xs(d, t, d, x, {both})", bodies=step,
         wrt="")
    replay = ("graph step(c: f32[$C], b: f32[$C], x: f32[$C]) { n = sin(add(mul(c, b), x)) return n, mul(n, x) }\n"
              "graph back(c: f32[$C], b: f32[$C], x: f32[$C], d: f32[$C], dy: f32[$C]) {\n"
              "  z = add(mul(c, b), x)\n  g = mul(add(d, mul(dy, x)), cos(z))\n"
              "  return mul(g, b), mul(g, c), add(g, mul(dy, sin(z)))\n}\n")
    case("scan_replay_backward", "c:f32[C] b:f32[C] x:f32[R,C] d:f32[C] y:f32[R,C]",
         f"scan_replay_backward(c, b, x, d, y, {both}, num_carry=1, num_bcast=1, wanted=[1, 1, 1], seeded=[1, 1], "
         "length=$R, num_checkpoints=4)", bodies=replay, results=3, wrt="")
    grow = ("graph more(x: f32[$N]) { return lt(reduce_max(x), 50) }\ngraph grow(x: f32[$N]) { return mul(x, 2) }\n"
            "graph back(x: f32[$N], d: f32[$N]) { return mul(d, 2) }\n")
    case("while_backward", "x:f32[N]{0.5..1} d:f32[N]", "while_backward(x, d, cond=@more, body=@grow, body_vjp=@back)",
         bodies=grow, wrt="")
    kernel = ("kernel saxpy(workgroup = [64, 1, 1]) {\n  buffer x: f32[$N] read;\n  buffer y: f32[$N] read;\n"
              "  buffer out: f32[$N] output;\n  let i = invocation_id(0);\n"
              "  if (i < $N) {\n    out[i] = fma(2.0, x[i], y[i]);\n  }\n}\n")
    case("kernel_call", "x:f32[N] y:f32[N]", "kernel_call(x, y, kernel=@saxpy, grid=[$N/64], outputs=[f32[$N]])",
         bodies=kernel, peer="2 * x + y")


def collective() -> None:
    x, axis = "x:f32[R,C]", 'axis_name="data"'
    for op in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast"):
        case(op, x, f"{op}(x, {axis})")
    case("send", x, f"send(x, {axis}, to=0)")
    case("barrier", x)
    case("axis_index", "", f"axis_index({axis})")


def splats() -> None:
    limits = ("width=$C/2, height=$C/2, tile_size=16, radius_scale=3, alpha_cutoff=0.004, max_splat_steps=1000, "
              "transmittance_threshold=0.001, max_list_entries=$N")
    scene = ("p:f32[3*R]{-1..1} l:f32[3*R]{-4..-3} r:f32[4*R]{0.25..1} o:f32[R] c:f32[3*R]{0.25..1} s:f32[0] "
             "meta:f32[23]{camera}")
    case("gaussian_splat_render", scene, f"gaussian_splat_render(p, l, r, o, c, s, meta, {limits})", wrt="p,l,r,o,c")
    case("gaussian_splat_render_backward", scene + " d:f32[4*(C/2)*(C/2)]",
         f"gaussian_splat_render_backward(p, l, r, o, c, s, meta, d, {limits})", wrt="")


# ---- Composites ----

def composites() -> None:
    x, w, b = "x:f32[R,C]", " w:f32[C,R]{small}", " b:f32[R]"
    case("fused_matmul_bias_act", x + w + b, "fused_matmul_bias_act(x, w, b, act=gelu_approx)",
         torch="nn.gelu(x @ w + b, "
         "approximate='tanh')", jax="nn.gelu(x @ w + b)")
    case("fused_swiglu", x, jax="x[:, :C // 2] * nn.silu(x[:, C // 2:])",
         torch="x[:, :C // 2] * nn.silu(x[:, C // 2:])")
    case("fused_matmul_residual", x + w + " res:f32[R,R]", peer="x @ w + res")
    case("fused_gated_residual", x + " gate:f32[R,C] res:f32[R,C]", peer="x * gate + res", compare=False)
    case("relu_backward", x + " d:f32[R,C]", peer="m.where(x > 0, d, 0.0)")
    case("activation_backward", x + " d:f32[R,C]", "activation_backward(x, d, kind=gelu)",
         jax="jax.vjp(lambda x: nn.gelu(x, approximate=False), x)[1](d)[0]")
    case("cumsum_backward", "d:f32[R,C]", jax="lax.cumsum(d, 1, reverse=True)")
    case("gather_backward", "d:f32[R,C] i:i32[R]{0..R-1}", "gather_backward(d, i, shape=[$R, $C])",
         jax="jnp.zeros((R, C), jnp.float32).at[i].add(d)")
    case("complex_norm_sq_backward", "z:c64[N] d:f32[N]", peer="2 * z * d", compare=False, wrt="")
    case("linear", x + w + b, "linear(x, w, b, act=relu)", peer="nn.relu(x @ w + b)")
    case("fused_linear", x + w + b, "fused_linear(x, w, b, act=relu)", peer="nn.relu(x @ w + b)")
    case("linear_pair", x + w + " u:f32[C,R]{small}", "linear_pair(x, w, u)", peer="(x @ w, x @ u)", results=2)
    ffn = " g:f32[C,C]{small} u:f32[C,C]{small} w:f32[C,C]{small}"
    case("gated_ffn", x + ffn, "gated_ffn(x, g, u, w)", peer="(nn.silu(x @ g) * (x @ u)) @ w")
    case("swiglu_ffn", x + " u:f32[C,2*C]{small} w:f32[C,C]{small}", "swiglu_ffn(x, u, w)",
         peer="(lambda p: (p[:, :C] * nn.silu(p[:, C:])) @ w)(x @ u)")
    case("mlp", x + " w:f32[C,C]{small} b:f32[C] u:f32[C,C]{small} c:f32[C]", "mlp(x, w, b, u, c)",
         peer="nn.relu(x @ w + b) @ u + c")
    case("residual_rms_norm", x + " res:f32[R,C] g:f32[C]", "residual_rms_norm(x, res, g)", results=2,
         jax="(lambda t: (t * lax.rsqrt((t * t).mean(-1, keepdims=True) + 1e-5) * g, t))(x + res)")
    case("causal_conv1d", "x:f32[B,T,H*D] w:f32[H*D,4] b:f32[H*D]", "causal_conv1d(x, w, b)", torch="nn.conv1d(nn.pad("
         "x.transpose(1, 2), (3, 0)), w[:, None], b, groups=H * D).transpose(1, 2).contiguous()",
         jax="sum(jnp.pad(x, ((0, 0), (3, 0), (0, 0)))[:, i:i + T] * w[:, i] for i in range(4)) + b")
    hidden, wide = "x:f32[B,T,H*D]", "f32[H*D,{0}*H*D]{{small}}"
    block = "".join(f" {n}:{t}" for n, t in (
        ("g", "f32[H*D]"), ("wq", wide.format(1)), ("wk", wide.format(1)), ("wv", wide.format(1)),
        ("wo", wide.format(1)),
        ("h", "f32[H*D]"), ("wg", wide.format(2)), ("wu", wide.format(2)), ("wd", "f32[2*H*D,H*D]{small}")))
    case("decoder_block", hidden + block, "decoder_block(x, g, wq, wk, wv, wo, h, wg, wu, wd, num_heads=$H)",
         jax="decoder_block(x, g, wq, wk, wv, wo, h, wg, wu, wd, H)", compare=False)
    case("draft_head", x + " w:f32[C,C]{small} u:f32[C,R]{small}", "draft_head(x, w, u)",
         peer="(x + nn.silu(x @ w)) @ u")
    case("fused_attention_block", hidden + " w:" + wide.format(3) + " o:" + wide.format(1),
         "fused_attention_block(x, w, o, num_heads=$H, mask_kind=causal)", jax="attention_block(x, w, o, H)",
         compare=False)
    more = (" w:" + wide.format(3) + " o:" + wide.format(1) + " g:f32[H*D] u:" + wide.format(2) +
            " d:f32[2*H*D,H*D]{small} h:f32[H*D] mask:bool[B,T]{1..1}")
    case("fused_transformer_layer", hidden + more, "fused_transformer_layer(x, w, o, g, u, d, h, mask, num_heads=$H, "
         "has_bias=false)", jax="transformer_layer(x, w, o, g, u, d, h, H)", compare=False)
    conv, image = "lax.conv_general_dilated(x, w, (1, 1), ((1, 1), (1, 1)))", "x:f32[B,P,S,S] w:f32[P,P,3,3]"
    case("fused_conv_bias_act", image + " b:f32[P]", "fused_conv_bias_act(x, w, b, act=relu, padding=[1, 1])",
         jax=f"nn.relu({conv} + b[:, None, None])", torch="nn.relu(nn.conv2d(x, w, b, padding=1))")
    case("fused_conv_affine_act", image + " f:f32[P] b:f32[P]", "fused_conv_affine_act(x, w, f, b, act=relu, "
         "padding=[1, 1])", jax=f"nn.relu({conv} * f[:, None, None] + b[:, None, None])", compare=False)
    params = " g:f32[C] b:f32[C]"
    case("fused_residual_ln", x + " res:f32[R,C]" + params, "fused_residual_ln(x, res, g, b)",
         jax="norm(x + res, -1) * g + b", torch="nn.layer_norm(x + res, (C,), g, b)")
    case("fused_residual_rms_norm", x + " res:f32[R,C]" + params, "fused_residual_rms_norm(x, res, g, b)",
         jax="(lambda t: t * lax.rsqrt((t * t).mean(-1, keepdims=True) + 1e-5) * g + b)(x + res)")
    case("fused_ada_layer_norm", x + " f:f32[C] b:f32[C]", "fused_ada_layer_norm(x, f, b)",
         jax="norm(x, -1) * (1 + f) + b", compare=False)
    body = "graph f(x: f32[$R, $C], y: f32[$C]) { return tanh(add(mul(x, y), 0.5)) }"
    case("elementwise_region", x + " y:f32[C]", "elementwise_region(x, y, body=@f)", bodies=body,
         peer="m.tanh(x * y + 0.5)")
    half = "graph f(x: f32[$R, $C]) { return mul(x, x) }"
    slices = "axis=1, starts=[0, $C/2], lens=[$C/2, $C/2]"
    case("batch_elementwise_region", x, f"batch_elementwise_region(x, body=@f, {slices})", bodies=half, peer="x * x")
    turned = "graph f(x: f32[$R, $C]) { return transpose(x, perm=[1, 0]) }"
    case("transform_region", x, "transform_region(x, body=@f)", bodies=turned, jax="x.T",
         np="np.ascontiguousarray(x.T)",
         torch="x.T.contiguous()")


for family in (elementwise, shape, reductions, indexing, products, linear_algebra, implicit, signals, networks,
               quantised,
               randoms, control, collective, splats, composites):
    family()
