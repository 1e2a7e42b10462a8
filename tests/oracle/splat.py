# SPDX-License-Identifier: Apache-2.0
"""Answers for Gaussian splats: a plain renderer, pixel by pixel and splat by splat as the specification has it, in
float64; the cotangents from JAX, which differentiates the same steps."""
import jax
import jax.numpy as jnp
import numpy as np
from oracle import DTYPES, Fixtures

jax.config.update("jax_enable_x64", True)


def unit(v):
    return v / jnp.sqrt(jnp.sum(v * v, -1, keepdims=True))


def rotation(q):
    x, y, z, w = unit(q)
    return jnp.array([[1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
                      [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
                      [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)]])


def basis(v):
    x, y, z = v
    return [0.28209479177387814, -0.4886025119029199 * y, 0.4886025119029199 * z, -0.4886025119029199 * x,
            1.0925484305920792 * x * y, -1.0925484305920792 * y * z, 0.31539156525252005 * (2 * z * z - x * x - y * y),
            -1.0925484305920792 * x * z, 0.5462742152960396 * (x * x - y * y),
            -0.5900435899266435 * y * (3 * x * x - y * y), 2.890611442640554 * x * y * z,
            -0.4570457994644658 * y * (4 * z * z - x * x - y * y),
            0.3731763325901154 * z * (2 * z * z - 3 * x * x - 3 * y * y),
            -0.4570457994644658 * x * (4 * z * z - x * x - y * y), 1.445305721320277 * z * (x * x - y * y),
            -0.5900435899266435 * x * (x * x - 3 * y * y)]


def colour(i, scene, eye):
    mu, _, _, o, c, sh, _ = scene
    m = len(sh) // (3 * len(o))
    if m == 0:
        return c[3 * i:3 * i + 3]
    coefficients = sh.reshape(len(o), m, 3)[i]
    y = basis(unit(mu[3 * i:3 * i + 3] - eye))
    return jnp.maximum(0, 0.5 + sum(coefficients[b] * y[b] for b in range(m)))


def render(*scene, width, height, radius_scale, alpha_cutoff, max_splat_steps, transmittance_threshold, **_):
    mu, scales, q, o, _, _, meta = scene
    eye, target, up = meta[:3], meta[3:6], meta[6:9]
    fov, near, far, background = meta[9], meta[10], meta[11], meta[12:15]
    f = unit(target - eye)
    r = unit(jnp.cross(up, f))
    u = unit(jnp.cross(f, r))
    focal = 0.5 * height / jnp.tan(jnp.radians(fov) / 2)
    depth = [float(jax.lax.stop_gradient(f @ (mu[3 * i:3 * i + 3] - eye))) for i in range(len(o))]
    order = sorted((i for i in range(len(o)) if near < depth[i] < far), key=lambda i: (depth[i], i))
    sigma = [jnp.exp(scales[3 * i:3 * i + 3]) * radius_scale for i in range(len(o))]
    turn = [rotation(q[4 * i:4 * i + 4]).T for i in range(len(o))]
    seen = [colour(i, scene, eye) for i in range(len(o))]
    image = []
    for row in range(height):
        for column in range(width):
            ray = unit((column + 0.5 - width / 2) / focal * r + (row + 0.5 - height / 2) / focal * u + f)
            total, left, steps = jnp.zeros(3), 1.0, 0
            for i in order:
                if steps == max_splat_steps or float(jax.lax.stop_gradient(left)) < transmittance_threshold:
                    break
                e = turn[i] @ (eye - mu[3 * i:3 * i + 3]) / sigma[i]
                w = turn[i] @ ray / sigma[i]
                ew, ww = e @ w, w @ w
                alpha = jax.nn.sigmoid(o[i]) * jnp.exp(-(e @ e - ew * ew / ww) / 2)
                if float(jax.lax.stop_gradient(-ew / ww)) <= 0 or float(jax.lax.stop_gradient(alpha)) < alpha_cutoff:
                    continue
                total, left, steps = total + left * alpha * seen[i], left * (1 - alpha), steps + 1
            x = total + left * background
            image.append(jnp.concatenate([jnp.where(x > 0, jnp.where(x > 0, x, 1.0)**2.2, 0.0),
                                          jnp.array([1.0]) - left]))
    return jnp.concatenate(image)


def scene_of(f, n, m):
    """Splats for a camera that sees all of them but two: one at its back, one too far away."""
    mu = f.rng.uniform(-1, 1, (n, 3))
    mu[0], mu[1] = (0, 0, -9), (0, 0, 30)
    parts = [mu, f.rng.uniform(-1.6, -0.4, (n, 3)), f.rng.standard_normal((n, 4)), f.rng.uniform(-1, 3, n),
             f.rng.uniform(0, 1, (n, 3)), f.rng.standard_normal((n, m, 3)) * 0.4]
    meta = [0.5, -0.3, -4, 0, 0.1, 0, 0.1, 1, 0, 40, 0.5, 20, 0.2, 0.1, -0.05] + [0] * 8
    return [np.round(np.ravel(p), 3) for p in parts] + [np.array(meta, float)]


NAMES = ("positions", "log_scales", "rotations", "opacity", "colours", "sh", "meta")


def cases(f, name, n, m, dtypes=("f64",), backward=True, **attrs):
    attrs = {"width": 5, "height": 4, "tile_size": 2, "radius_scale": 1.25, "alpha_cutoff": 0.01, "max_splat_steps": 64,
             "transmittance_threshold": 0.001, "max_list_entries": 200} | attrs
    scene = scene_of(f, n, m)
    text = ", ".join(f"{k}={v}" for k, v in attrs.items())
    for d in dtypes:
        inputs = dict(zip(NAMES, [x.astype(DTYPES[d]) for x in scene]))
        wide = [jnp.asarray(x.astype(np.float64)) for x in inputs.values()]
        image, pull = jax.vjp(lambda *p: render(*p, wide[6], **attrs), *wide[:6])
        call = ", ".join(NAMES)
        tolerance = {"rel": 512 if d == "f64" else 16}
        f.case(f"{name}_render_{d}", f"gaussian_splat_render({call}, {text})", inputs,
               [np.asarray(image).astype(DTYPES[d])], **tolerance)
        if d == "f64":
            f.case(f"{name}_halves", f"gaussian_splat_rasterize(gaussian_splat_prepare({call}, {text}), meta, {text})",
                   inputs, [np.asarray(image)], **tolerance)
        if backward:
            g = f.rng.standard_normal(image.shape).round(2).astype(DTYPES[d])
            answer = np.concatenate([np.ravel(x) for x in pull(jnp.asarray(g.astype(np.float64)))])
            f.case(f"{name}_backward_{d}", f"gaussian_splat_render_backward({call}, g, {text})", inputs | {"g": g},
                   [answer.astype(DTYPES[d])], **tolerance)


if __name__ == "__main__":
    with Fixtures("splat") as fixtures:
        cases(fixtures, "colours", 7, 0, ("f64", "f32"))
        cases(fixtures, "harmonics", 4, 16, ("f64", "f32"))
        cases(fixtures, "one_band", 4, 1)
        cases(fixtures, "few_steps", 8, 0, max_splat_steps=2, alpha_cutoff=0.0)
        cases(fixtures, "early_end", 8, 4, transmittance_threshold=0.6, tile_size=3)
        cases(fixtures, "nothing", 2, 0)
