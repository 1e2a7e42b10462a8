"""Complex functions of real losses. The gradient is dL/dx + i dL/dy, the conjugate of JAX's."""
import jax
import jax.numpy as jnp
from jax import lax

from gradients import at, normal

Z = normal(2, dtype="c128")
W = normal(2, dtype="c128")
Z3 = normal(3, dtype="c128")
W3 = normal(3, dtype="c128")

# Re(w f(z)) with f holomorphic: the gradient by z is conj(w f'(z))
HOLOMORPHIC = [
    ("exp", jnp.exp, "hvp taylor4"), ("log", jnp.log, "jvp"), ("sqrt", jnp.sqrt, "hvp"), ("sin", jnp.sin, "jvp"), ("cos", jnp.cos, "hvp"),
    ("tanh", jnp.tanh, "hvp"), ("sinh", jnp.sinh, ""), ("cosh", jnp.cosh, ""), ("tan", jnp.tan, ""), ("reciprocal", lambda z: 1 / z, "hvp"),
    ("square", lambda z: z * z, "hvp vmapgrad"), ("rsqrt", lambda z: 1 / jnp.sqrt(z), ""), ("log1p", jnp.log1p, ""),
    ("expm1", jnp.expm1, ""), ("sigmoid", lambda z: 1 / (1 + jnp.exp(-z)), "hvp"), ("asinh", jnp.arcsinh, ""), ("atan", jnp.arctan, ""),
]


def add(t):
    for name, f, kinds in HOLOMORPHIC:
        t.fn(f"complex_{name}", f"reduce_sum(real(mul(w, {name}(z))))", lambda z, w, f=f: jnp.sum(jnp.real(w * f(z))), "grad " + kinds,
             rel=256, z=Z, w=W)
    t.fn("norm_square", "reduce_sum(complex_norm_sq(z))", lambda z: jnp.sum(jnp.real(z)**2 + jnp.imag(z)**2), "hvp taylor4", z=Z)
    t.fn("complex_abs", "reduce_sum(abs(z))", lambda z: jnp.sum(jnp.abs(z)), "hvp vmapgrad", rel=256, z=Z)
    t.fn("complex_abs_at_zero", "reduce_sum(abs(z))", lambda z: jnp.sum(jnp.abs(z)), "grad", z=at([0, 3 - 4j], dtype="c128"))
    t.fn("complex_angle", "reduce_sum(square(angle(z)))", lambda z: jnp.sum(jnp.angle(z)**2), "hvp", rel=256, z=Z)
    t.fn("complex_sign", "reduce_sum(real(mul(w, sign(z))))", lambda z, w: jnp.sum(jnp.real(w * z / jnp.abs(z))), "hvp", rel=256,
         z=Z, w=W)
    t.fn("conjugates", "reduce_sum(imag(mul(mul(z, conjugate(w)), z)))", lambda z, w: jnp.sum(jnp.imag(z * jnp.conj(w) * z)),
         "hvp", rel=256, z=Z, w=W)
    t.fn("complex_product", "reduce_sum(complex_norm_sq(mul(z, add(z, w))))", lambda z, w: jnp.sum(jnp.abs(z * (z + w))**2), "hvp",
         rel=256, z=Z, w=W)
    t.fn("complex_quotient", "reduce_sum(complex_norm_sq(div(z, w)))", lambda z, w: jnp.sum(jnp.abs(z)**2 / jnp.abs(w)**2),
         "hvp", rel=256, z=Z, w=W)
    t.fn("complex_power", "reduce_sum(real(pow(z, w)))", lambda z, w: jnp.sum(jnp.real(jnp.exp(w * jnp.log(z)))), "grad jvp", rel=256,
         z=at([1 + 0.5j, -0.5 + 1j], dtype="c128"), w=W)
    t.fn("complex_cubic", "reduce_sum(real(mul(z, square(z))))", lambda z: jnp.sum(jnp.real(z**3)), "hvp taylor4", rel=256, z=Z)
    t.fn("complex_from_parts", "z = exp(complex(x, y)); return reduce_sum(mul(real(z), imag(z)))",
         lambda x, y: (lambda z: jnp.sum(jnp.real(z) * jnp.imag(z)))(jnp.exp(lax.complex(x, y))), "hess nth3 vmapgrad", rel=256,
         x=normal(2), y=normal(2))
    t.fn("complex_from_cast", "reduce_sum(complex_norm_sq(add(mul(cast(x, to=c128), w), 1)))",
         lambda x, w: jnp.sum(jnp.abs(x * w + 1)**2), "hvp", rel=256, x=normal(2), w=W)
    t.fn("complex_matmul", "reduce_sum(complex_norm_sq(matmul(a, b)))", lambda a, b: jnp.sum(jnp.abs(a @ b)**2),
         "hvp", rel=256, a=normal(2, 2, dtype="c128"), b=normal(2, 2, dtype="c128"))
    t.fn("complex_einsum", 'real(einsum(x, m, conjugate(x), eq="i,ij,j->"))', lambda x, m: jnp.real(jnp.einsum("i,ij,j->", x, m, jnp.conj(x))),
         "hvp", rel=256, x=normal(2, dtype="c128"), m=normal(2, 2, dtype="c128"))
    t.fn("complex_prod", "real(reduce_prod(z))", lambda z: jnp.real(z[0] * z[1] * z[2]), "hvp", rel=256, z=Z3)
    t.fn("complex_running", "reduce_sum(imag(mul(cumsum(z), cumprod(z))))",
         lambda z: jnp.sum(jnp.imag(jnp.cumsum(z) * jnp.stack([z[0], z[0] * z[1], z[0] * z[1] * z[2]]))), "hvp", rel=256, z=Z3)
    t.fn("complex_select", "reduce_sum(complex_norm_sq(where(const(bool[3], [true, false, true]), z, mul(w, w))))",
         lambda z, w: jnp.sum(jnp.abs(jnp.where(jnp.array([True, False, True]), z, w * w))**2), "hvp", rel=256, z=Z3, w=W3)
    t.fn("complex_conv", "reduce_sum(complex_norm_sq(conv(x, w, padding=[1])))",
         lambda x, w: jnp.sum(jnp.abs(x[0, 0, :-1] * w[0, 0, 0] + x[0, 0, 1:] * w[0, 0, 1])**2)
         + jnp.abs(x[0, 0, 0] * w[0, 0, 1])**2 + jnp.abs(x[0, 0, -1] * w[0, 0, 0])**2, "hvp", rel=256,
         x=normal(1, 1, 3, dtype="c128"), w=normal(1, 1, 2, dtype="c128"))
    t.fn("complex_gather", "reduce_sum(real(exp(gather(z, const(i32[4], [0, 2, 2, 1])))))",
         lambda z: jnp.sum(jnp.real(jnp.exp(z[jnp.array([0, 2, 2, 1])]))), "hvp vmapgrad", rel=256, z=Z3)
    t.fn("fourier_sum", "k = iota(f64[3, 3]); n = iota(f64[3, 3], axis=1); a = mul(mul(k, n), -2.0943951023931953); "
         "f = matmul(complex(cos(a), sin(a)), unsqueeze(cast(x, to=c128), axes=[1])); return reduce_sum(log1p(complex_norm_sq(f)))",
         lambda x: jnp.sum(jnp.log1p(jnp.abs(jnp.fft.fft(x))**2)), "hess vmapgrad", rel=4096, x=normal(3))
    t.fn("c64_norm", "reduce_sum(abs(mul(z, z)))", lambda z: jnp.sum(jnp.abs(z)**2), "hvp", rel=256, z=normal(2, dtype="c64"))
    t.fn("complex_outputs", "y = mul(z, exp(w)); return y, conjugate(y)", lambda z, w: (z * jnp.exp(w), jnp.conj(z * jnp.exp(w))),
         "jvp vmap vmapone", rel=256, z=Z, w=normal(dtype="c128"))
