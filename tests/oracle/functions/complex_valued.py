# SPDX-License-Identifier: Apache-2.0
"""Complex functions of real losses. The gradient is dL/dx + i dL/dy, the conjugate of JAX's."""
import jax
import jax.numpy as jnp
from jax import lax

from gradients import at, normal

Z = normal(2, dtype="c128")
W = normal(2, dtype="c128")
Z3 = normal(3, dtype="c128")
W3 = normal(3, dtype="c128")

# Re(w f(z)) with f holomorphic: the gradient with respect to z is conj(w f'(z))
HOLOMORPHIC = [
    ("exp", jnp.exp, "hvp taylor4"), ("log", jnp.log, "jvp"), ("sqrt", jnp.sqrt, "hvp"), ("sin", jnp.sin, "jvp"),
    ("cos", jnp.cos, "hvp"),
    ("tanh", jnp.tanh, "hvp"), ("sinh", jnp.sinh, ""), ("cosh", jnp.cosh, ""), ("tan", jnp.tan, ""),
    ("reciprocal", lambda z: 1 / z, "hvp"),
    ("square", lambda z: z * z, "hvp vmapgrad"), ("rsqrt", lambda z: 1 / jnp.sqrt(z), ""), ("log1p", jnp.log1p, ""),
    ("expm1", jnp.expm1, ""), ("sigmoid", lambda z: 1 / (1 + jnp.exp(-z)), "hvp"), ("asinh", jnp.arcsinh, ""),
    ("atan", jnp.arctan, ""),
]


def halved(z):
    """z^2 with half its derivative. JAX hands a rule the conjugate of our cotangent and takes the conjugate of our
    gradient."""
    @jax.custom_vjp
    def f(z):
        return z * z
    f.defvjp(lambda z: (z * z, z), lambda z, g: (g * z,))
    return jnp.sum(jnp.real(f(z)))


def add(t):
    for name, f, kinds in HOLOMORPHIC:
        t.fn(f"complex_{name}", f"reduce_sum(real(mul(w, {name}(z))))", lambda z, w, f=f: jnp.sum(jnp.real(w * f(z))),
             "grad " + kinds, z=Z, w=W)
    t.fn("norm_square", "reduce_sum(complex_norm_sq(z))", lambda z: jnp.sum(jnp.real(z)**2 + jnp.imag(z)**2),
         "hvp taylor4", z=Z)
    t.fn("complex_abs", "reduce_sum(abs(z))", lambda z: jnp.sum(jnp.abs(z)), "hvp vmapgrad", z=Z)
    t.fn("complex_abs_at_zero", "reduce_sum(abs(z))", lambda z: jnp.sum(jnp.abs(z)), "grad",
         z=at([0, 3 - 4j], dtype="c128"))
    t.fn("complex_angle", "reduce_sum(square(angle(z)))", lambda z: jnp.sum(jnp.angle(z)**2), "hvp", z=Z)
    t.fn("complex_sign", "reduce_sum(real(mul(w, sign(z))))", lambda z, w: jnp.sum(jnp.real(w * z / jnp.abs(z))), "hvp",
         z=Z, w=W)
    t.fn("conjugates", "reduce_sum(imag(mul(mul(z, conjugate(w)), z)))",
         lambda z, w: jnp.sum(jnp.imag(z * jnp.conj(w) * z)), "hvp", z=Z, w=W)
    t.fn("complex_product", "reduce_sum(complex_norm_sq(mul(z, add(z, w))))",
         lambda z, w: jnp.sum(jnp.abs(z * (z + w))**2), "hvp", z=Z, w=W)
    t.fn("complex_quotient", "reduce_sum(complex_norm_sq(div(z, w)))",
         lambda z, w: jnp.sum(jnp.abs(z)**2 / jnp.abs(w)**2), "hvp", z=Z, w=W)
    t.fn("complex_power", "reduce_sum(real(pow(z, w)))", lambda z, w: jnp.sum(jnp.real(jnp.exp(w * jnp.log(z)))),
         "grad jvp", z=at([1 + 0.5j, -0.5 + 1j], dtype="c128"), w=W)
    t.fn("complex_cubic", "reduce_sum(real(mul(z, square(z))))", lambda z: jnp.sum(jnp.real(z**3)), "hvp taylor4", z=Z)
    t.fn("complex_from_parts", "z = exp(complex(x, y)); return reduce_sum(mul(real(z), imag(z)))",
         lambda x, y: (lambda z: jnp.sum(jnp.real(z) * jnp.imag(z)))(jnp.exp(lax.complex(x, y))), "hess nth3 vmapgrad",
         x=normal(2), y=normal(2))
    t.fn("complex_from_cast", "reduce_sum(complex_norm_sq(add(mul(cast(x, to=c128), w), 1)))",
         lambda x, w: jnp.sum(jnp.abs(x * w + 1)**2), "hvp", x=normal(2), w=W)
    t.fn("complex_matmul", "reduce_sum(complex_norm_sq(matmul(a, b)))", lambda a, b: jnp.sum(jnp.abs(a @ b)**2),
         "hvp", a=normal(2, 2, dtype="c128"), b=normal(2, 2, dtype="c128"))
    t.fn("complex_einsum", 'real(einsum(x, m, conjugate(x), eq="i,ij,j->"))',
         lambda x, m: jnp.real(jnp.einsum("i,ij,j->", x, m, jnp.conj(x))),
         "hvp", x=normal(2, dtype="c128"), m=normal(2, 2, dtype="c128"))
    t.fn("complex_prod", "real(reduce_prod(z))", lambda z: jnp.real(z[0] * z[1] * z[2]), "hvp", z=Z3)
    t.fn("complex_running", "reduce_sum(imag(mul(cumsum(z), cumprod(z))))",
         lambda z: jnp.sum(jnp.imag(jnp.cumsum(z) * jnp.stack([z[0], z[0] * z[1], z[0] * z[1] * z[2]]))), "hvp", z=Z3)
    t.fn("complex_select", "reduce_sum(complex_norm_sq(where(const(bool[3], [true, false, true]), z, mul(w, w))))",
         lambda z, w: jnp.sum(jnp.abs(jnp.where(jnp.array([True, False, True]), z, w * w))**2), "hvp", z=Z3, w=W3)
    t.fn("complex_conv", "reduce_sum(complex_norm_sq(conv(x, w, padding=[1])))",
         lambda x, w: jnp.sum(jnp.abs(x[0, 0, :-1] * w[0, 0, 0] + x[0, 0, 1:] * w[0, 0, 1])**2)
         + jnp.abs(x[0, 0, 0] * w[0, 0, 1])**2 + jnp.abs(x[0, 0, -1] * w[0, 0, 0])**2, "hvp",
         x=normal(1, 1, 3, dtype="c128"), w=normal(1, 1, 2, dtype="c128"))
    t.fn("complex_gather", "reduce_sum(real(exp(gather(z, const(i32[4], [0, 2, 2, 1])))))",
         lambda z: jnp.sum(jnp.real(jnp.exp(z[jnp.array([0, 2, 2, 1])]))), "hvp vmapgrad", z=Z3)
    t.fn("fourier_sum", "k = iota(f64[3, 3]); n = iota(f64[3, 3], axis=1); a = mul(mul(k, n), -2.0943951023931953); "
         "f = matmul(complex(cos(a), sin(a)), unsqueeze(cast(x, to=c128), axes=[1])); "
         "return reduce_sum(log1p(complex_norm_sq(f)))",
         lambda x: jnp.sum(jnp.log1p(jnp.abs(jnp.fft.fft(x))**2)), "hess vmapgrad", x=normal(3))
    t.fn("complex_curve", "r = exp(x); return complex(mul(r, cos(y)), mul(r, sin(y)))",
         lambda x, y: lax.complex(jnp.exp(x) * jnp.cos(y), jnp.exp(x) * jnp.sin(y)), "jvp vmap taylor4", x=normal(2),
         y=normal())
    t.fn("complex_mean", "m = reduce_mean(z, axes=[0], keep_dims=true); return reduce_mean(complex_norm_sq(sub(z, m)))",
         lambda z: jnp.mean(jnp.abs(z - jnp.mean(z, 0, keepdims=True))**2), "hvp vmapgrad",
         z=normal(3, 2, dtype="c128"))
    t.fn("complex_dot", "reduce_sum(complex_norm_sq(dot_general(a, b, lc=[1], rc=[1], lb=[0], rb=[0])))",
         lambda a, b: jnp.sum(jnp.abs(jnp.einsum("bi,bij->bj", a, b))**2), "hvp gradone", a=normal(2, 2, dtype="c128"),
         b=normal(2, 2, 1, dtype="c128"))
    t.fn("complex_scatter", "reduce_sum(complex_norm_sq(scatter_add(mul(z, z), const(i32[3], [1, 0, 1]), R=2)))",
         lambda z: jnp.sum(jnp.abs(jnp.zeros(2, complex).at[jnp.array([1, 0, 1])].add(z * z))**2), "hvp", z=Z3)
    t.fn("complex_prod_zeros", "real(mul(reduce_prod(z), const(c128[], [1, 2])))",
         lambda z: jnp.real(z[0] * z[1] * z[2] * (1 + 2j)), "hvp", z=at([1 + 1j, 0, 2 - 1j], dtype="c128"))
    t.fn("complex_cumprod_zeros", "reduce_sum(real(mul(cumprod(z), conjugate(z))))",
         lambda z: jnp.sum(jnp.real(jnp.stack([z[0], z[0] * z[1], z[0] * z[1] * z[2]]) * jnp.conj(z))), "hvp",
         z=at([1 + 1j, 0, 2 - 1j], dtype="c128"))
    t.fn("mandelbrot", "z = scan(mul(c, 0), c, length=3, num_bcast=1, body=@square_plus); "
                       "return reduce_sum(complex_norm_sq(z))",
         lambda c: jnp.sum(jnp.abs((c * c + c)**2 + c)**2), "hvp taylor4 vmapgrad",
         bodies="graph square_plus(z: c128[2], c: c128[2]) { return add(mul(z, z), c) }",
         c=at([0.3 + 0.5j, -0.7 + 0.2j], [-1 + 0.25j, 0.1 - 0.6j], dtype="c128"))
    t.fn("complex_while", "z, i = while(z0, full(i32[], 0), cond=@turning, body=@turn); "
                          "return reduce_sum(imag(mul(z, z0)))",
         lambda z0: (lambda f: jnp.sum(jnp.imag(f(f(f(z0))) * z0)))(lambda z: jnp.exp(1j * z) + 0.5 * z),
         "hvp vmapgrad", bodies="graph turning(z: c128[2], i: i32[]) { return lt(i, 3) }\n"
         "graph turn(z: c128[2], i: i32[]) { return add(exp(mul(const(c128[], [0, 1]), z)), mul(z, 0.5)), add(i, 1) }",
         z0=at([0.3 + 0.5j, -0.7 + 0.2j], [-1 + 0.25j, 0.1 - 0.6j], dtype="c128"))
    t.fn("complex_shapes", "y = roll(reverse(transpose(z), axes=[0]), shift=1, axis=1); "
                           "return reduce_sum(real(mul(mul(y, y), expand(w, shape=[3, 2]))))",
         lambda z, w: jnp.sum(jnp.real(jnp.roll(jnp.flip(z.T, 0), 1, 1)**2 * w)), "hvp vmapgrad",
         z=normal(2, 3, dtype="c128"), w=W)
    t.fn("complex_custom", "reduce_sum(real(custom_fn(z, fwd_body=@half_f, vjp_body=@half_b)))", halved, "vmapgrad",
         bodies="graph half_f(z: c128[2]) { return mul(z, z) }\n"
         "graph half_b(z: c128[2], y: c128[2], g: c128[2]) { return mul(g, conjugate(z)) }", z=Z)
    t.fn("c64_matmul", "reduce_sum(complex_norm_sq(matmul(a, exp(b))))",
         lambda a, b: jnp.sum(jnp.abs(a @ jnp.exp(b))**2), "hvp vmapgrad",
         a=normal(2, 2, dtype="c64"), b=normal(2, 1, dtype="c64"))
    t.fn("c64_norm", "reduce_sum(abs(mul(z, z)))", lambda z: jnp.sum(jnp.abs(z)**2), "hvp", z=normal(2, dtype="c64"))
    t.fn("complex_outputs", "y = mul(z, exp(w)); return y, conjugate(y)",
         lambda z, w: (z * jnp.exp(w), jnp.conj(z * jnp.exp(w))), "jvp vmap vmapone", z=Z, w=normal(dtype="c128"))
