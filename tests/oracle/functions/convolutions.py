# SPDX-License-Identifier: Apache-2.0
"""Convolutions, windows and resizing, to second order: the Hessian of a convolution has blocks between input and
weight."""
import jax
import jax.numpy as jnp
from jax import lax

from gradients import distinct, normal

INF = float("inf")


def conv(x, w, stride=1, padding=0, dilation=1, input_dilation=1, groups=1, batch_groups=1, numbers=None):
    d = x.ndim - 2
    def each(v):
        return (v,) * d if isinstance(v, int) else tuple(v)
    pads = [p if isinstance(p, (tuple, list)) else (p, p) for p in each(padding)]
    return lax.conv_general_dilated(x, w, each(stride), pads, each(input_dilation), each(dilation), numbers, groups,
                                    batch_groups, precision="highest")


def convs(t):
    def case(name, attrs, kinds, x, w, **same):
        t.fn(name, f"reduce_sum(sin(conv(x, w{attrs})))", lambda x, w: jnp.sum(jnp.sin(conv(x, w, **same))), kinds, x=x,
             w=w)
    case("conv1d", "", "hess vmapgrad", normal(1, 1, 4), normal(2, 1, 2))
    case("conv1d_strided", ", stride=[2], padding=[1]", "hvp", normal(1, 2, 5), normal(1, 2, 3), stride=2, padding=1)
    case("conv1d_dilated", ", dilation=[2], padding=[[2, 1]]", "hvp", normal(2, 1, 5), normal(2, 1, 2), dilation=2,
         padding=((2, 1),))
    case("conv1d_grouped", ", groups=2, padding=[1]", "hvp vmapgrad gradone", normal(1, 4, 2), normal(2, 2, 2),
         groups=2, padding=1)
    case("conv1d_input_dilated", ", input_dilation=[2], padding=[[1, 2]], stride=[2]", "hvp vmapgrad", normal(1, 1, 4),
         normal(2, 1, 3), input_dilation=2, padding=((1, 2),), stride=2)
    case("conv1d_batch_groups", ", batch_groups=2", "hvp", normal(2, 1, 4), normal(2, 1, 2), batch_groups=2)
    case("conv1d_cropped", ", padding=[[-1, 2]]", "hvp", normal(1, 1, 5), normal(1, 1, 2), padding=((-1, 2),))
    case("conv2d", ", padding=[1, 1]", "hvp", normal(1, 2, 2, 2), normal(2, 2, 2, 2), padding=1)
    case("conv2d_strided", ", stride=[2, 1], padding=[[1, 0], [0, 2]]", "hvp vmapgrad", normal(1, 1, 4, 3),
         normal(2, 1, 2, 2), stride=(2, 1), padding=((1, 0), (0, 2)))
    case("conv2d_depthwise", ", groups=2", "hvp gradone", normal(1, 2, 3, 2), normal(2, 1, 2, 2), groups=2)
    case("conv2d_pointwise", "", "hvp", normal(1, 2, 2, 2), normal(2, 2, 1, 1))
    case("conv2d_all_at_once", ", stride=[1, 2], padding=[[2, 1], [0, 1]], dilation=[2, 1], groups=2", "hvp",
         normal(1, 2, 2, 4), normal(2, 1, 2, 3), stride=(1, 2), padding=((2, 1), (0, 1)), dilation=(2, 1), groups=2)
    case("conv2d_channels_last", ", input_axes=[0, 3, 1, 2], kernel_axes=[3, 2, 0, 1], output_axes=[0, 3, 1, 2]", "hvp",
         normal(1, 3, 3, 2), normal(2, 2, 2, 1), numbers=("NHWC", "HWIO", "NHWC"))
    case("conv3d", ", stride=[1, 2, 1]", "hvp", normal(1, 1, 2, 4, 2), normal(1, 1, 2, 2, 1), stride=(1, 2, 1))
    t.fn("conv1d_flipped", "reduce_sum(sin(conv(x, w, reverse=[true], padding=[1])))",
         lambda x, w: jnp.sum(jnp.sin(conv(x, w[:, :, ::-1], padding=1))), "hvp vmapgrad", x=normal(1, 1, 4),
         w=normal(2, 1, 3))
    t.fn("conv_of_conv", "h = tanh(conv(x, w, padding=[1])); return reduce_sum(square(conv(h, v)))",
         lambda x, w, v: jnp.sum(conv(jnp.tanh(conv(x, w, padding=1)), v)**2), "hess",
         x=normal(1, 1, 3), w=normal(1, 1, 2), v=normal(1, 1, 2))
    t.fn("conv_unreduced", "conv(x, w, stride=[2])", lambda x, w: conv(x, w, stride=2), "jac jvp vmap vmapone",
         x=normal(1, 2, 4), w=normal(1, 2, 2))
    t.fn("conv_autocorrelation",
         "reduce_sum(square(conv(reshape(x, shape=[1, 1, 5]), reshape(x, shape=[1, 1, 5]), padding=[4])))",
         lambda x: jnp.sum(jnp.correlate(x, x, "full")**2), "grad hess nth3", x=normal(5))
    # lhs dilation by the stride and a padding of W - 1 - p is the transposed convolution; the weight is [in, out, k],
    # flipped
    t.fn("conv_transposed", "reduce_sum(sin(conv_transpose(x, w, stride=[2], padding=[1], output_padding=[1])))",
         lambda x, w: jnp.sum(jnp.sin(conv(x, jnp.flip(w.transpose(1, 0, 2), 2), input_dilation=2, padding=((1, 2),)))),
         "hvp vmapgrad", x=normal(1, 2, 3), w=normal(2, 1, 3))
    # the transposes of the convolution, by JAX's own reverse mode
    t.fn("conv_input_transpose", "reduce_sum(sin(conv_backward_input(z, w, input_size=[5], stride=[2], padding=[1])))",
         lambda z, w: jnp.sum(jnp.sin(jax.vjp(lambda x: conv(x, w, stride=2, padding=1),
                                              jnp.zeros((1, 1, 5)))[1](z)[0])),
         "hvp vmapgrad", z=normal(1, 2, 3), w=normal(2, 1, 3))
    t.fn("conv_weight_transpose",
         "reduce_sum(sin(conv_backward_weight(x, z, kernel_size=[2], dilation=[2], groups=2)))",
         lambda x, z: jnp.sum(jnp.sin(jax.vjp(lambda w: conv(x, w, dilation=2, groups=2),
                                              jnp.zeros((2, 1, 2)))[1](z)[0])),
         "hvp vmapgrad", x=normal(1, 2, 4), z=normal(1, 2, 2))
    t.fn("conv_gradient_penalty",
         "h = conv(x, w, padding=[1]); g = conv_backward_input(sigmoid(h), w, input_size=[3], padding=[1]); "
         "return reduce_sum(square(g))", gradient_penalty, "hvp", x=normal(1, 1, 3), w=normal(2, 1, 2))
    t.fn("conv_high_order", "reduce_sum(exp(conv(x, w)))", lambda x, w: jnp.sum(jnp.exp(conv(x, w))), "nth3 taylor4",
         x=normal(1, 1, 3), w=normal(1, 1, 2))
    t.fn("conv_f32", "reduce_sum(square(conv(x, w)))", lambda x, w: jnp.sum(conv(x, w)**2), "hvp",
         x=normal(1, 1, 4, dtype="f32"), w=normal(2, 1, 2, dtype="f32"))


def gradient_penalty(x, w):
    """The square of the gradient with respect to x of sum softplus(x * w)."""
    return jnp.sum(jax.grad(lambda x: jnp.sum(jnp.logaddexp(conv(x, w, padding=1), 0)))(x)**2)


def windows(t):
    def window(x, init, op, size, stride, pads=((0, 0), (0, 0))):
        one = (1, 1)
        return lax.reduce_window(x, init, op, one + size, one + stride, ((0, 0), (0, 0)) + tuple(pads))
    x = distinct(1, 1, 4, 3)
    t.fn("max_pool", "reduce_sum(square(pool(x, kind=max, kernel_size=[2, 2], stride=[2, 1])))",
         lambda x: jnp.sum(window(x, -INF, lax.max, (2, 2), (2, 1))**2), "hvp vmapgrad", x=x)
    t.fn("max_pool_overlapping",
         "reduce_sum(exp(pool(x, kind=max, kernel_size=[3, 2], stride=[1, 1], padding=[1, 1])))",
         lambda x: jnp.sum(jnp.exp(window(x, -INF, lax.max, (3, 2), (1, 1), ((1, 1), (1, 1))))), "hvp vmap", x=x)
    t.fn("mean_pool", "reduce_sum(square(pool(x, kind=mean, kernel_size=[2, 2], stride=[1, 1], padding=[1, 0])))",
         lambda x: jnp.sum((window(x, 0.0, lax.add, (2, 2), (1, 1), ((1, 1), (0, 0))) / 4)**2), "hvp vmapgrad", x=x)
    t.fn("mean_pool_inside",
         "reduce_sum(square(pool(x, kind=mean, kernel_size=[2, 2], padding=[1, 1], count_include_pad=false)))",
         lambda x: jnp.sum((window(x, 0.0, lax.add, (2, 2), (2, 2), ((1, 1), (1, 1)))
                            / window(jnp.ones_like(x), 0.0, lax.add, (2, 2), (2, 2), ((1, 1), (1, 1))))**2),
         "hvp vmapgrad", x=x)
    t.fn("sum_pool", "reduce_sum(sin(pool(x, kind=sum, kernel_size=[2, 3], stride=[2, 1])))",
         lambda x: jnp.sum(jnp.sin(window(x, 0.0, lax.add, (2, 3), (2, 1)))), "hvp", x=x)
    t.fn("min_pool", "reduce_sum(square(pool(x, kind=min, kernel_size=[2, 2])))",
         lambda x: jnp.sum(window(x, INF, lax.min, (2, 2), (2, 2))**2), "grad jvp vmap", x=distinct(1, 2, 2, 4))
    t.fn("prod_pool", "reduce_sum(pool(x, kind=prod, kernel_size=[2, 2], stride=[1, 1]))",
         lambda x: jnp.sum(x[..., :-1, :-1] * x[..., 1:, :-1] * x[..., :-1, 1:] * x[..., 1:, 1:]), "hvp vmapgrad",
         x=normal(1, 1, 3, 3))
    t.fn("window_sum",
         "reduce_sum(sin(reduce_window(x, 0, combine=add, window=[2, 2], strides=[1, 2], base_dilation=[2, 1], "
         "window_dilation=[1, 2], pad_low=[1, 0], pad_high=[0, 1])))",
         lambda x: jnp.sum(jnp.sin(lax.reduce_window(x, 0.0, lax.add, (2, 2), (1, 2), ((1, 0), (0, 1)), (2, 1),
                                                     (1, 2)))),
         "hvp vmapgrad", x=normal(3, 4))
    t.fn("window_max",
         "reduce_sum(square(reduce_window(x, -inf, combine=max, window=[2, 3], strides=[1, 1], pad_low=[1, 0], "
         "pad_high=[0, 0])))",
         lambda x: jnp.sum(lax.reduce_window(x, -INF, lax.max, (2, 3), (1, 1), ((1, 0), (0, 0)))**2), "hess vmapgrad",
         x=distinct(3, 4))
    t.fn("window_product", "reduce_sum(sin(reduce_window(x, 1, combine=mul, window=[3], strides=[1])))",
         lambda x: jnp.sum(jnp.sin(x[:-2] * x[1:-1] * x[2:])), "hess vmapgrad", x=normal(6))
    t.fn("select_and_scatter", "reduce_sum(sin(select_and_scatter(x, source, 0, window=[2, 2], strides=[2, 1])))",
         lambda x, source: jnp.sum(jnp.sin(jax.vjp(lambda y: lax.reduce_window(y, -INF, lax.max, (2, 2), (2, 1),
                                                                               "VALID"), x)[1](source)[0])),
         "jvp vmapgrad", x=distinct(4, 3), source=normal(2, 2))
    t.fn("max_pool_transpose", "reduce_sum(sin(max_pool_backward(x, dy, kernel_size=[2, 2], stride=[1, 1])))",
         lambda x, dy: jnp.sum(jnp.sin(jax.vjp(lambda y: window(y, -INF, lax.max, (2, 2), (1, 1)), x)[1](dy)[0])),
         "jvp vmapgrad", x=distinct(1, 1, 3, 3), dy=normal(1, 1, 2, 2))
    t.fn("resize_nearest_shrunk", "reduce_sum(sin(resize(x, shape=[1, 1, 2, 5])))",
         lambda x: jnp.sum(jnp.sin(jax.image.resize(x, (1, 1, 2, 5), "nearest"))), "hvp", x=normal(1, 1, 3, 3))
    t.fn("resize_nearest", "reduce_sum(sin(resize_nearest_2x(x)))", lambda x: 4 * jnp.sum(jnp.sin(x)), "hvp vmapgrad",
         x=normal(1, 1, 2, 3))
    t.fn("resize_linear", "reduce_sum(sin(resize(x, shape=[1, 1, 5, 3], mode=linear)))",
         lambda x: jnp.sum(jnp.sin(jax.image.resize(x, (1, 1, 5, 3), "linear", antialias=False))), "hvp vmapgrad",
         x=normal(1, 1, 3, 2))
    t.fn("conv_net", "h = relu(add(conv(x, w, padding=[1, 1]), reshape(b, shape=[2, 1, 1]))); "
         "p = reshape(pool(h, kind=max, kernel_size=[2, 2]), shape=[1, 4]); "
         "return reduce_sum(log_softmax(matmul(p, v)))",
         lambda x, w, b, v: jnp.sum(jax.nn.log_softmax(window(jax.nn.relu(conv(x, w, padding=1) + b[:, None, None]),
                                                              -INF, lax.max,
                                                               (2, 2), (2, 2)).reshape(1, 4) @ v)), "hvp",
         x=normal(1, 1, 4, 2), w=normal(2, 1, 3, 3), b=normal(2), v=normal(4, 2))


def add(t):
    convs(t)
    windows(t)
