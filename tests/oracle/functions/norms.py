# SPDX-License-Identifier: Apache-2.0
"""Normalisation, the loss of classifiers, and their backward ops: derivatives of first and second order. JAX has no
such functions of its own, so they are written out with jnp.mean and jax.nn."""
import jax
import jax.numpy as jnp

from gradients import integers, normal, uniform


def layer(x, gamma, beta, axis, eps):
    shape = [1] * x.ndim
    shape[axis] = -1
    c = x - jnp.mean(x, axis, keepdims=True)
    return c / jnp.sqrt(jnp.mean(c**2, axis, keepdims=True) + eps) * gamma.reshape(shape) + beta.reshape(shape)


def rms(x, gamma, beta, axis, eps):
    shape = [1] * x.ndim
    shape[axis] = -1
    return x / jnp.sqrt(jnp.mean(x**2, axis, keepdims=True) + eps) * gamma.reshape(shape) + beta.reshape(shape)


def group(x, gamma, beta, groups, eps):
    rows = x.reshape(x.shape[0], groups, -1)
    c = rows - jnp.mean(rows, 2, keepdims=True)
    hat = (c / jnp.sqrt(jnp.mean(c**2, 2, keepdims=True) + eps)).reshape(x.shape)
    shape = (1, -1) + (1,) * (x.ndim - 2)
    return hat * gamma.reshape(shape) + beta.reshape(shape)


def batch(x, gamma, beta, mean, var, eps):
    shape = (1, -1) + (1,) * (x.ndim - 2)
    return gamma.reshape(shape) * (x - mean.reshape(shape)) / jnp.sqrt(var.reshape(shape) + eps) + beta.reshape(shape)


def cross_entropy(x, label):
    return -jnp.take_along_axis(jax.nn.log_softmax(x), label[:, None], 1)[:, 0]


def forward(t):
    p = {"gamma": normal(4), "beta": normal(4)}
    t.fn("layer_norm_rows", "reduce_sum(sin(layer_norm(x, gamma, beta, eps=0.1)))",
         lambda x, gamma, beta: jnp.sum(jnp.sin(layer(x, gamma, beta, 1, 0.1))), "hvp vmapgrad gradone", x=normal(3, 4),
         **p)
    t.fn("layer_norm_middle", "layer_norm(x, gamma, beta, axis=1, eps=0.1)",
         lambda x, gamma, beta: layer(x, gamma, beta, 1, 0.1), "jac jvp vmap", x=normal(2, 4, 2), **p)
    t.fn("layer_norm_hessian", "reduce_sum(mul(layer_norm(x, gamma, beta), w))",
         lambda x, gamma, beta, w: jnp.sum(layer(x, gamma, beta, 1, 1e-5) * w), "hess", x=normal(1, 4), **p,
         w=normal(1, 4))
    t.fn("rms_norm_rows", "reduce_sum(sin(rms_norm(x, gamma, beta, eps=0.1)))",
         lambda x, gamma, beta: jnp.sum(jnp.sin(rms(x, gamma, beta, 1, 0.1))), "hvp vmapgrad gradone", x=normal(3, 4),
         **p)
    t.fn("rms_norm_without_beta", "reduce_sum(square(rms_norm(x, gamma, axis=0)))",
         lambda x, gamma: jnp.sum(rms(x, gamma, jnp.zeros(4), 0, 1e-5)**2), "hvp hess", x=normal(4), gamma=normal(4))
    t.fn("group_norm_images", "reduce_sum(sin(group_norm(x, gamma, beta, num_groups=2, eps=0.1)))",
         lambda x, gamma, beta: jnp.sum(jnp.sin(group(x, gamma, beta, 2, 0.1))), "hvp vmapgrad gradone",
         x=normal(2, 4, 2), **p)
    t.fn("layer_norm2d_images", "reduce_sum(sin(layer_norm2d(x, gamma, beta, eps=0.1)))",
         lambda x, gamma, beta: jnp.sum(jnp.sin(layer(x, gamma, beta, 1, 0.1))), "hvp vmapgrad", x=normal(2, 4, 2), **p)
    t.fn("batch_norm_by_all", "reduce_sum(sin(batch_norm_inference(x, gamma, beta, mean, var)))",
         lambda x, gamma, beta, mean, var: jnp.sum(jnp.sin(batch(x, gamma, beta, mean, var, 1e-5))),
         "hvp vmapgrad gradone", x=normal(2, 4, 2), **p, mean=normal(4), var=uniform(0.5, 2, 4))
    t.fn("batch_norm_of_the_batch", "y, m, v = batch_norm_training(x, gamma, beta, eps=0.1); "
         "return reduce_sum(add(sin(y), unsqueeze(mul(m, v), axes=[1])))",
         lambda x, gamma, beta: jnp.sum(jnp.sin(batch(x, gamma, beta, jnp.mean(x, (0, 2)), jnp.var(x, (0, 2)), 0.1))
                                        + (jnp.mean(x, (0, 2)) * jnp.var(x, (0, 2)))[:, None]), "hvp vmapgrad",
         x=normal(2, 4, 2), **p)
    t.fn("cross_entropy_op", "reduce_mean(square(softmax_cross_entropy(x, label)))",
         lambda x, label: jnp.mean(cross_entropy(x, label)**2), "hvp hess vmapgrad", x=normal(3, 4),
         label=integers(0, 4, 3))


def backward(t):
    """The backward ops are functions too: their gradients are second derivatives."""
    def d_layer(x, gamma, dy):
        return jax.vjp(lambda x, gamma: layer(x, gamma, jnp.zeros(4), 1, 0.1), x, gamma)[1](dy)
    def d_rms(x, gamma, dy):
        return jax.vjp(lambda x, gamma: rms(x, gamma, jnp.zeros(4), 1, 0.1), x, gamma)[1](dy)
    def d_group(x, gamma, dy):
        return jax.vjp(lambda x, gamma: group(x, gamma, jnp.zeros(4), 2, 0.1), x, gamma)[1](dy)
    x, gamma = normal(2, 4), normal(4)
    t.fn("layer_norm_backward_ops", "reduce_sum(add(sin(layer_norm_backward_input(x, gamma, dy, eps=0.1)), "
         "layer_norm_backward_gamma(x, dy, eps=0.1)))",
         lambda x, gamma, dy: jnp.sum(jnp.sin(d_layer(x, gamma, dy)[0]) + d_layer(x, gamma, dy)[1]), "hvp vmapgrad",
         x=x, gamma=gamma, dy=normal(2, 4))
    t.fn("rms_norm_backward_ops",
         "b = mul(gamma, 0); return reduce_sum(add(sin(rms_norm_backward_input(x, gamma, b, dy, eps=0.1)), "
         "rms_norm_backward_gamma(x, gamma, b, dy, eps=0.1)))",
         lambda x, gamma, dy: jnp.sum(jnp.sin(d_rms(x, gamma, dy)[0]) + d_rms(x, gamma, dy)[1]), "hvp vmapgrad",
         x=x, gamma=gamma, dy=normal(2, 4))
    t.fn("group_norm_backward_ops", "a = group_norm_backward_input(x, gamma, gamma, dy, num_groups=2, eps=0.1); "
         "b = group_norm_backward_gamma(x, dy, num_groups=2, eps=0.1); return add(reduce_sum(sin(a)), reduce_sum(b))",
         lambda x, gamma, dy: jnp.sum(jnp.sin(d_group(x, gamma, dy)[0])) + jnp.sum(d_group(x, gamma, dy)[1]),
         "hvp vmapgrad", x=normal(2, 4, 2), gamma=gamma, dy=normal(2, 4, 2))
    t.fn("cross_entropy_backward_op", "reduce_sum(sin(softmax_cross_entropy_backward(x, label, dl)))",
         lambda x, label, dl: jnp.sum(jnp.sin(jax.vjp(lambda x: cross_entropy(x, label), x)[1](dl)[0])), "hvp vmapgrad",
         x=normal(3, 4), label=integers(0, 4, 3), dl=normal(3))


def add(t):
    forward(t)
    backward(t)
    for dtype in ("f16", "bf16"):
        t.fn(f"{dtype}_layer_norm", "reduce_mean(square(layer_norm(x, gamma, beta, eps=0.125)))",
             lambda x, gamma, beta: jnp.mean(layer(x, gamma, beta, 1, 0.125)**2), "grad", x=normal(2, 4, dtype=dtype),
             gamma=uniform(0.5, 1, 4, dtype=dtype), beta=uniform(0, 0.5, 4, dtype=dtype))
        t.fn(f"{dtype}_cross_entropy_op", "reduce_mean(softmax_cross_entropy(x, label))",
             lambda x, label: jnp.mean(cross_entropy(x, label)), "hvp vmapgrad", x=normal(2, 4, dtype=dtype),
             label=integers(0, 4, 2))
