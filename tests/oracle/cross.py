# SPDX-License-Identifier: Apache-2.0
"""Geometries drawn at random, across the families: every attribute of gather_nd, scatter_nd, conv, reduce_window,
select_and_scatter, dot_general, pad, sort and einsum at once, and small programs of control flow. The answers are XLA's
(by way of jax.lax) and NumPy's. Where an integer dtype will do it is used, since then the answer is exact.

    python tests/oracle/cross.py [FACTOR [SEED]]    FACTOR times as many cases, from another seed, to search for
                                                    errors"""
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax._src.lax import windowed_reductions
from oracle import DTYPES, Fixtures

jax.config.update("jax_enable_x64", True)
FACTOR = int(sys.argv[1]) if len(sys.argv) > 1 else 1
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 0
MODE = lax.GatherScatterMode


def text(**attrs):
    """Attributes as the text form has them; None is left out."""
    def value(v):
        if isinstance(v, (bool, np.bool_)):
            return "true" if v else "false"
        return "[" + ", ".join(map(value, v)) + "]" if isinstance(v, (list, tuple)) else str(v)
    return "".join(f", {k}={value(v)}" for k, v in attrs.items() if v is not None)


def ints(rng, shape, dtype="i32", lo=-9, hi=10):
    return rng.integers(0 if dtype[0] == "u" else lo, hi, shape).astype(DTYPES[dtype])


def pick(rng, items, n):
    """n of the items in random order."""
    return [items[int(i)] for i in rng.permutation(len(items))[:n]]


# ---- gather_nd, scatter_nd ----

class Windows:
    """A random geometry: x, the axes that play each part, and the shape of the gathered windows."""

    def __init__(self, rng):
        rank = int(rng.integers(1, 5))
        self.shape = tuple(int(n) for n in rng.integers(1, 5, rank))
        kinds = rng.choice(["window", "window", "collapsed", "batching"], rank)
        self.collapsed = [k for k in range(rank) if kinds[k] == "collapsed"]
        self.of_x = pick(rng, [k for k in range(rank) if kinds[k] == "batching"], rank)
        free = [k for k in range(rank) if k not in self.of_x]
        self.map = pick(rng, free, int(rng.integers(0, len(free) + 1)))
        self.window = [1 if kinds[k] != "window" else int(rng.integers(1, self.shape[k] + 1)) for k in range(rank)]
        lead = [self.shape[k] for k in self.of_x] + [int(n) for n in rng.integers(1, 4, rng.integers(0, 3))]
        order = rng.permutation(len(lead))
        dims = [lead[k] for k in order]  # the index axes
        at = [int(np.flatnonzero(order == k)[0]) for k in range(len(self.of_x))]
        self.v = int(rng.integers(0, len(dims) + 1))
        self.of_indices = [k + (k >= self.v) for k in at]  # as axes of indices
        self.jax_of_indices = at
        one = len(self.map) == 1 and rng.random() < 0.5
        if one:
            self.v, self.of_indices = len(dims), at
        self.indices_shape = dims if one else dims[:self.v] + [len(self.map)] + dims[self.v:]
        self.explicit = one or self.v != len(dims)
        windows = rank - len(self.collapsed) - len(self.of_x)
        self.offset = sorted(pick(rng, list(range(len(dims) + windows)), windows))

    def indices(self, rng, reach):
        """Starts; reach says how far beyond the ends they can be."""
        last = [rng.integers(-reach, self.shape[k] - self.window[k] + 1 + reach, self.lead()) for k in self.map]
        stacked = np.stack(last, -1) if last else np.zeros(self.lead() + (0,))
        return np.moveaxis(stacked, -1, self.v).reshape(self.indices_shape).astype(rng.choice([np.int32, np.int64]))

    def lead(self):
        dims = list(self.indices_shape)
        if len(self.indices_shape) != self.v or not self.explicit:
            del dims[self.v]
        return tuple(dims)

    def vector_last(self, indices):
        return indices[..., None] if indices.ndim == self.v else np.moveaxis(indices, self.v, -1)

    def numbers(self, make):
        pairs = sorted(zip(self.of_x, self.jax_of_indices))
        return make(tuple(self.offset), tuple(self.collapsed), tuple(self.map), tuple(a for a, _ in pairs),
                    tuple(b for _, b in pairs))

    def attrs(self, **more):
        return text(start_index_map=self.map, offset_axes=self.offset or None, collapsed_axes=self.collapsed or None,
                    operand_batching_axes=self.of_x or None, indices_batching_axes=self.of_indices or None,
                    index_vector_axis=self.v if self.explicit else None, **more)

    def single(self):
        return all(n == 1 for n in self.window)


def gather_cases(f, rng, n):
    while n > 0:
        g = Windows(rng)
        # JAX drops whole windows, here single elements are dropped: the same for windows of one element
        oob = rng.choice(["error", "clamp", "zero"] if g.single() else ["error", "clamp"])
        mode = {"error": MODE.PROMISE_IN_BOUNDS, "clamp": MODE.CLIP, "zero": MODE.FILL_OR_DROP}[oob]
        x, i = ints(rng, g.shape, "i32"), g.indices(rng, 0 if oob == "error" else 3)
        y = lax.gather(x, g.vector_last(i), g.numbers(lax.GatherDimensionNumbers), tuple(g.window), mode=mode,
                       fill_value=0)
        f.case(f"gather_nd_{oob}", f"gather_nd(x, i{g.attrs(slice_sizes=g.window, oob=oob)})", {"x": x, "i": i}, [y])
        n -= 1


def scatter_cases(f, rng, n):
    folds = {"add": lax.scatter_add, "mul": lax.scatter_mul, "min": lax.scatter_min, "max": lax.scatter_max}
    while n > 0:
        g = Windows(rng)
        if not g.map:
            continue  # XLA applies only the last of several updates whose index has no component
        oob = rng.choice(["error", "clamp", "zero"] if g.single() else ["error", "clamp"])
        mode = {"error": MODE.PROMISE_IN_BOUNDS, "clamp": MODE.CLIP, "zero": MODE.FILL_OR_DROP}[oob]
        x, i = ints(rng, g.shape, "i32"), g.indices(rng, 0 if oob == "error" else 3)
        gathered = jax.eval_shape(lambda x, i: lax.gather(x, i, g.numbers(lax.GatherDimensionNumbers), tuple(g.window),
                                                          mode=MODE.CLIP), x, g.vector_last(i)).shape
        u = ints(rng, gathered, "i32")
        combine = rng.choice(list(folds))
        y = folds[combine](x, g.vector_last(i), u, g.numbers(lax.ScatterDimensionNumbers), mode=mode)
        f.case(f"scatter_nd_{combine}_{oob}", f"scatter_nd(x, i, u{g.attrs(combine=combine, oob=oob)})",
               {"x": x, "i": i, "u": u}, [y])
        n -= 1


# ---- conv ----

class Convolution:
    def __init__(self, rng):
        d = self.d = int(rng.integers(0, 4))
        self.groups = int(rng.choice([1, 1, 2, 3]))
        self.batch_groups = 1 if self.groups > 1 else int(rng.choice([1, 1, 2, 3]))
        self.batch = self.batch_groups * int(rng.integers(1, 3))
        self.cin = self.groups * int(rng.integers(1, 3))
        self.cout = self.groups * self.batch_groups * int(rng.integers(1, 3))
        while True:
            small = lambda lo, hi: [int(k) for k in rng.integers(lo, hi, d)]
            self.size, self.kernel = small(1, 6), small(1, 4)
            self.stride, self.dilation, self.input_dilation = small(1, 4), small(1, 4), small(1, 4)
            self.padding = [[lo, hi] for lo, hi in zip(small(-1, 4), small(-1, 4))]
            spans = [((s - 1) * b + 1 + lo + hi, (k - 1) * r + 1) for s, b, (lo, hi), k, r in
                     zip(self.size, self.input_dilation, self.padding, self.kernel, self.dilation)]
            if all(p >= w and p > 0 for p, w in spans):
                break
        self.reverse = [bool(b) for b in rng.integers(0, 2, d)]
        axes = lambda: [int(k) for k in rng.permutation(d + 2)]
        self.axes = [axes() if rng.random() < 0.6 else list(range(d + 2)) for _ in range(3)]

    def laid_out(self, dims, axes):
        shape = [0] * len(dims)
        for n, k in zip(dims, axes):
            shape[k] = n
        return tuple(shape)

    def x_shape(self):
        return self.laid_out([self.batch, self.cin] + self.size, self.axes[0])

    def w_shape(self):
        return self.laid_out([self.cout, self.cin // self.groups] + self.kernel, self.axes[1])

    def __call__(self, x, w):
        flipped = [self.axes[1][k + 2] for k in range(self.d) if self.reverse[k]]
        return lax.conv_general_dilated(
            x, jnp.flip(w, flipped), self.stride, self.padding, lhs_dilation=self.input_dilation,
            rhs_dilation=self.dilation, dimension_numbers=lax.ConvDimensionNumbers(*map(tuple, self.axes)),
            feature_group_count=self.groups, batch_group_count=self.batch_groups)

    def attrs(self, plain=False):
        shared = dict(stride=self.stride, padding=self.padding, dilation=self.dilation, groups=self.groups)
        if plain:
            return text(**shared)
        names = ("input_axes", "kernel_axes", "output_axes")
        return text(**shared, input_dilation=self.input_dilation, batch_groups=self.batch_groups, reverse=self.reverse,
                    **{name: a if a != list(range(self.d + 2)) else None for name, a in zip(names, self.axes)})

    def plain(self):
        """The same without what only the general form has."""
        self.input_dilation, self.reverse = [1] * self.d, [False] * self.d
        self.axes = [list(range(self.d + 2))] * 3
        self.batch_groups = 1
        return self


def whole(x, dtype="i32"):
    return np.rint(np.asarray(x)).astype(np.int64).astype(DTYPES[dtype])


def conv_cases(f, rng, n):
    for _ in range(n):
        c = Convolution(rng)
        x, w = ints(rng, c.x_shape()), ints(rng, c.w_shape())
        f.case("conv", f"conv(x, w{c.attrs()})", {"x": x, "w": w}, [whole(c(x.astype(float), w.astype(float)))])


def conv_transpose_cases(f, rng, n):
    while n > 0:
        c = Convolution(rng).plain()
        padded = [s + lo + hi - (k - 1) * r - 1 for s, (lo, hi), k, r in zip(c.size, c.padding, c.kernel, c.dilation)]
        if min(padded, default=0) < 0:
            continue
        x, w = ints(rng, c.x_shape()), ints(rng, c.w_shape())
        shape = jax.eval_shape(c, x.astype(float), w.astype(float)).shape
        z = ints(rng, shape)
        dx, dw = jax.vjp(c, x.astype(float), w.astype(float))[1](jnp.asarray(z, float))
        f.case("conv_backward_input", f"conv_backward_input(z, w, input_size={c.size}{c.attrs(True)})",
               {"z": z, "w": w}, [whole(dx)])
        f.case("conv_backward_weight", f"conv_backward_weight(x, z, kernel_size={c.kernel}{c.attrs(True)})",
               {"x": x, "z": z}, [whole(dw)])
        # the extents that conv_transpose leaves open: what the strides did not reach
        extra = [p % s for p, s in zip(padded, c.stride)]
        f.case("conv_transpose", f"conv_transpose(z, w, output_padding={extra}{c.attrs(True)})", {"z": z, "w": w},
               [whole(dx)])
        n -= 1


# ---- Windows ----

def sliding(rng, dilated):
    rank = int(rng.integers(1, 4))
    small = lambda lo, hi: [int(k) for k in rng.integers(lo, hi, rank)]
    ones = [1] * rank
    return dict(window=small(1, 4), strides=small(1, 4), base_dilation=small(1, 4) if dilated else ones,
                window_dilation=small(1, 3) if dilated else ones, pad_low=small(0, 3), pad_high=small(0, 3))


def reduce_window_cases(f, rng, n):
    folds = {"add": lax.add, "max": lax.max, "min": lax.min, "mul": lax.mul}
    for _ in range(n):
        g = sliding(rng, True)
        combine = str(rng.choice(list(folds)))
        x = ints(rng, tuple(int(k) for k in rng.integers(1, 6, len(g["window"]))), "i64", -3, 4)
        init = np.int64({"add": 0, "max": -2**63, "min": 2**63 - 1, "mul": 1}[combine])
        y = lax.reduce_window(x, init, folds[combine], g["window"], g["strides"],
                              list(zip(g["pad_low"], g["pad_high"])),
                              base_dilation=g["base_dilation"], window_dilation=g["window_dilation"])
        f.case(f"reduce_window_{combine}", f"reduce_window(x, a{text(combine=combine, **g)})", {"x": x, "a": init}, [y])


def select_and_scatter_cases(f, rng, n):
    for _ in range(n):
        g = {k: v for k, v in sliding(rng, False).items() if "dilation" not in k}
        pads = list(zip(g["pad_low"], g["pad_high"]))
        x = ints(rng, tuple(int(k) + 2 for k in rng.integers(1, 5, len(g["window"]))), "i32", -3, 4)  # ties abound
        shape = lax.reduce_window_shape_tuple(x.shape, g["window"], g["strides"], pads)
        source, init = ints(rng, shape), np.int32(rng.integers(-2, 3))
        word, select = ("ge", lax.ge) if rng.random() < 0.5 else ("le", lax.le)
        # XLA puts init into the padding, so that it could win there; a value that never does keeps the two alike
        never = np.int32(-99 if word == "ge" else 99)
        padded = np.pad(x, pads, constant_values=never)
        scattered = windowed_reductions._select_and_scatter(
            jnp.asarray(padded), select, tuple(g["window"]), tuple(g["strides"]), [(0, 0)] * x.ndim,
            jnp.asarray(source), jnp.asarray(init), lax.add)
        y = np.asarray(scattered)[tuple(slice(lo, lo + k) for (lo, _), k in zip(pads, x.shape))]
        f.case(f"select_and_scatter_{word}", f"select_and_scatter(x, s, a{text(select=word, **g)})",
               {"x": x, "s": source, "a": init}, [y])


# ---- Products ----

def dot_general_cases(f, rng, n):
    for _ in range(n):
        batch, contract = int(rng.integers(0, 3)), int(rng.integers(0, 3))
        shared = [int(k) for k in rng.integers(0 if rng.random() < 0.1 else 1, 4, batch + contract)]
        sides = []
        for _ in range(2):
            dims = shared + [int(k) for k in rng.integers(1, 4, rng.integers(0, 3))]
            place = [int(k) for k in rng.permutation(len(dims))]  # where each of dims goes
            shape = [0] * len(dims)
            for k, at in enumerate(place):
                shape[at] = dims[k]
            sides.append((ints(rng, shape), place[:batch], place[batch:batch + contract]))
        (l, lb, lc), (r, rb, rc) = sides
        y = lax.dot_general(l, r, ((lc, rc), (lb, rb)))
        f.case("dot_general", f"dot_general(l, r{text(lc=lc, rc=rc, lb=lb, rb=rb)})", {"l": l, "r": r}, [y])


def einsum_cases(f, rng, n):
    letters = "aAbBz"
    for _ in range(n):
        extent = {c: int(k) for c, k in zip(letters, rng.integers(1, 4, len(letters)))}
        dots = [int(k) for k in rng.integers(1, 4, rng.integers(0, 3))]
        terms, xs = [], {}
        for k in range(int(rng.integers(1, 4))):
            named = [str(c) for c in rng.choice(list(letters), rng.integers(0, 4))]
            at = int(rng.integers(0, len(named) + 1))
            unnamed = dots[int(rng.integers(0, len(dots) + 1)):]
            unnamed = [1 if rng.random() < 0.3 else d for d in unnamed]
            use_dots = bool(dots)
            shape = [extent[c] for c in named[:at]] + (unnamed if use_dots else []) + [extent[c] for c in named[at:]]
            terms.append("".join(named[:at]) + ("..." if use_dots else "") + "".join(named[at:]))
            xs["x" + str(k)] = ints(rng, shape)
        used = sorted(set("".join(terms)) - {"."})
        eq = ",".join(terms)
        if rng.random() < 0.7:
            kept = pick(rng, used, int(rng.integers(0, len(used) + 1)))
            at = int(rng.integers(0, len(kept) + 1))
            eq += "->" + "".join(kept[:at]) + ("..." if dots else "") + "".join(kept[at:])
        y = np.einsum(eq, *xs.values())
        f.case("einsum", f'einsum({", ".join(xs)}, eq="{eq}")', xs, [np.asarray(y, np.int32)])


# ---- Movement ----

def pad_cases(f, rng, n):
    while n > 0:
        rank = int(rng.integers(1, 4))
        x = ints(rng, tuple(int(k) for k in rng.integers(0, 5, rank)), "i16")
        low, high, interior = (([int(k) for k in rng.integers(a, b, rank)]) for a, b in ((-4, 4), (-4, 4), (0, 3)))
        sizes = [lo + hi + (d - 1) * i + d if d else lo + hi for d, lo, hi, i in zip(x.shape, low, high, interior)]
        if min(sizes) < 0:
            continue
        y = lax.pad(x, np.int16(7), list(zip(low, high, interior)))
        f.case("pad", f"pad(x, 7{text(low=low, high=high, interior=interior)})", {"x": x}, [y])
        n -= 1


def dynamic_cases(f, rng, n):
    for _ in range(n):
        rank = int(rng.integers(0, 4))
        x = ints(rng, tuple(int(k) for k in rng.integers(1, 5, rank)), "u8")
        sizes = [int(rng.integers(0, d + 1)) for d in x.shape]
        at = [np.asarray(k, rng.choice([np.int32, np.int64, np.int8])) for k in rng.integers(-3, 6, rank)]
        names = {f"i{k}": i for k, i in enumerate(at)}
        listed = "".join(f", {k}" for k in names)
        where = [int(i) for i in at]  # equal dtypes for JAX; negative ones do not wrap
        start = [min(max(i, 0), d - s) for i, d, s in zip(where, x.shape, sizes)]
        f.case("dynamic_slice", f"dynamic_slice(x{listed}, sizes={sizes})", {"x": x, **names},
               [lax.dynamic_slice(x, start, sizes)])
        u = ints(rng, sizes, "u8")
        f.case("dynamic_update_slice", f"dynamic_update_slice(x, u{listed})", {"x": x, "u": u, **names},
               [lax.dynamic_update_slice(x, u, start)])


# ---- Sorting ----

def sort_cases(f, rng, n):
    special = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, 1.0, -1.0])
    for _ in range(n):
        shape = tuple(int(k) for k in rng.integers(1, 6, rng.integers(1, 3)))
        axis = int(rng.integers(-len(shape), len(shape)))
        xs = [rng.choice(special, shape).astype(DTYPES[str(rng.choice(["f32", "f64", "f16"]))]),
              ints(rng, shape, "i8", -1, 2), ints(rng, shape, "u64", 0, 2) * np.uint64(2**63),
              rng.integers(0, 2, shape).astype(bool)]
        xs = pick(rng, xs, int(rng.integers(1, 5))) + [np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape)]
        keys = int(rng.integers(1, len(xs)))
        ys = lax.sort(tuple(xs), dimension=axis, is_stable=True, num_keys=keys)
        names = {f"x{k}": x for k, x in enumerate(xs)}
        f.case("sort", f"sort({', '.join(names)}{text(axis=axis, num_keys=keys)})", names, [np.asarray(y) for y in ys])


def extremum_cases(f, rng, n):
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, 1.0, -1.0])
    for _ in range(n):
        shape = tuple(int(k) for k in rng.integers(1, 6, rng.integers(1, 4)))
        axis = int(rng.integers(0, len(shape)))
        for dtype in ("f32", "bf16", "u64"):
            x = rng.choice(special, shape).astype(DTYPES[dtype]) if dtype[0] in "fb" else \
                ints(rng, shape, "u64", 0, 3) * np.uint64(2**63 - 1)
            for name, fn in (("argmax", lax.argmax), ("argmin", lax.argmin)):
                f.case(f"{name}_{dtype}", f"{name}(x, axis={axis - len(shape)}, dtype=i64)", {"x": x},
                       [fn(x, axis, np.int64)])
        k = int(rng.integers(1, shape[-1] + 1))
        x = ints(rng, shape, "i32", -2, 3)
        v, i = lax.top_k(x, k)
        f.case("top_k", f"top_k(x, k={k})", {"x": x}, [v, i])


def running_cases(f, rng, n):
    folds = {"cumsum": (lax.cumsum, 0), "cumprod": (lax.cumprod, 1), "cummax": (lax.cummax, -2**31),
             "cummin": (lax.cummin, 2**31 - 1)}
    for _ in range(n):
        shape = tuple(int(k) for k in rng.integers(1, 6, rng.integers(1, 4)))
        axis, exclusive, reverse = int(rng.integers(0, len(shape))), rng.random() < 0.5, rng.random() < 0.5
        name = str(rng.choice(list(folds)))
        fn, identity = folds[name]
        x = ints(rng, shape)
        y = np.asarray(fn(x, axis, reverse=reverse))
        if exclusive:
            edge = np.full(shape[:axis] + (1,) + shape[axis + 1:], identity, np.int32)
            part = np.take(y, range(1, shape[axis]) if reverse else range(shape[axis] - 1), axis)
            y = np.concatenate([part, edge] if reverse else [edge, part], axis)
        f.case(name, f"{name}(x{text(axis=axis, exclusive=exclusive, reverse=reverse)})", {"x": x}, [y])


# ---- Resizing ----

def resize_cases(f, rng, n):
    """jax.image without antialiasing: half-pixel centres. Its nearest neighbour takes the upper one of two equally
    close ones, so only sizes without such a tie are drawn."""
    ties = lambda a, b: any((2 * i + 1) * a % (2 * b) == 0 for i in range(b))
    while n > 0:
        rank = int(rng.integers(1, 3))
        old, new = ([int(k) for k in rng.integers(1, 8, rank)] for _ in range(2))
        x = rng.standard_normal(old)
        linear = jax.image.resize(x, new, "linear", antialias=False)
        f.case("resize_linear", f"resize(x{text(shape=new, mode='linear')})", {"x": x}, [linear], rel=8)
        if not any(ties(a, b) for a, b in zip(old, new)):
            f.case("resize_nearest", f"resize(x, shape={new})", {"x": x}, [jax.image.resize(x, new, "nearest")])
        n -= 1


# ---- Control flow ----

def control_cases(f, rng):
    """Programs of several ops, run by JAX with the same bodies."""
    f.graphs("graph collatz_more(n: i64[], steps: i32[]) { return ne(n, 1) }\n"
             "graph collatz_next(n: i64[], steps: i32[]) {\n"
             "  even = eq(rem(n, 2), 0)\n"
             "  return where(even, div(n, 2), add(mul(n, 3), 1)), add(steps, 1)\n}")
    for start in (1, 7, 27):
        step = lambda c: (jnp.where(c[0] % 2 == 0, c[0] // 2, 3 * c[0] + 1), c[1] + 1)
        n, steps = lax.while_loop(lambda c: c[0] != 1, step, (jnp.int64(start), jnp.int32(0)))
        call = "while(n, s, cond=@collatz_more, body=@collatz_next{})"
        inputs = {"n": np.int64(start), "s": np.int32(0)}
        f.case("while_collatz", call.format(""), inputs, [n, steps])
        bounded = lax.fori_loop(0, 5, lambda _, c: lax.cond(c[0] != 1, step, lambda c: c, c),
                                (jnp.int64(start), jnp.int32(0)))
        f.case("while_bounded", call.format(", max_iterations=5"), inputs, [np.asarray(b) for b in bounded])

    f.graphs("graph newton_more(x: f64[], a: f64[]) { return gt(abs(sub(mul(x, x), a)), 1e-9) }\n"
             "graph newton_next(x: f64[], a: f64[]) { return mul(0.5, add(x, div(a, x))), a }")
    for a in (2.0, 1e6, np.nan):  # a comparison with NaN is false, so the loop ends at once
        body = lambda c: (0.5 * (c[0] + c[1] / c[0]), c[1])
        x, _ = lax.while_loop(lambda c: jnp.abs(c[0] * c[0] - c[1]) > 1e-9, body, (jnp.float64(1), jnp.float64(a)))
        f.case("while_newton", "while(x, a, cond=@newton_more, body=@newton_next)", {"x": 1.0, "a": a}, [x, a], ulp=2)

    f.graphs("graph rnn(h: f64[2], k: i32[], w: f64[2, 2], x: f64[2], m: i32[]) {\n"
             "  z = reshape(matmul(reshape(h, shape=[1, 2]), w), shape=[2])\n"
             "  n = tanh(add(z, x))\n"
             "  return n, add(k, m), reduce_sum(n), mul(k, m)\n}")
    h, w, xs, ms = rng.standard_normal(2), rng.standard_normal((2, 2)), rng.standard_normal((5, 2)), ints(rng, (5,))

    def rnn(c, x):
        n = jnp.tanh(c[0] @ w + x[0])
        return (n, c[1] + x[1]), (n, c[1] + x[1], n.sum(), c[1] * x[1])

    for reverse in (False, True):
        (hn, kn), (path, keys, sums, products) = lax.scan(rnn, (h, jnp.int32(3)), (xs, ms), reverse=reverse)
        inputs = {"h": h, "k": np.int32(3), "w": w, "xs": xs, "ms": ms}
        call = f"scan(h, k, w, xs, ms, body=@rnn, num_carry=2, num_bcast=1{text(reverse=reverse)}"
        f.case("scan_rnn", call + ")", inputs, [hn, kn, sums, products], rel=4)
        f.case("scan_path", call + ", save_trajectory=true)", inputs, [path, keys, sums, products], rel=4)
        for rows in (1, 2, 3, 5):  # checkpoints: after steps ceil((k + 1) L / K) - 1, counted as they are walked
            at = [-(-(k + 1) * 5 // rows) - 1 for k in range(rows)]
            at = [4 - t for t in reversed(at)] if reverse else at
            f.case("scan_checkpoints", call + f", save_trajectory=true, num_checkpoints={rows})", inputs,
                   [np.asarray(path)[at], np.asarray(keys)[at], sums, products], rel=4)

    f.graphs("graph negated(x: f32[3]) { return neg(x), reduce_sum(x) }\n"
             "graph doubled(x: f32[3]) { return add(x, x), reduce_max(x) }\n"
             "graph zeroed(x: f32[3]) { return sub(x, x), reduce_min(x) }")
    x = np.array([1.5, -2.0, 0.25], np.float32)
    branches = [lambda x: (-x, x.sum()), lambda x: (x + x, x.max()), lambda x: (x - x, x.min())]
    for index in (-1, 0, 1, 2, 3):  # outside the list: the last branch
        y, s = branches[index if 0 <= index < 3 else 2](x)
        f.case("case_index", "case(i, x, branches=[@negated, @doubled, @zeroed])", {"i": np.int32(index), "x": x},
               [y, s])
    for p in (np.float32(0.5), np.float32(-0.0), np.float32(np.nan), np.int8(-1), np.array([True])):
        holds = bool(np.all(p != 0)) and not np.any(np.isnan(p))
        y, s = branches[0 if holds else 1](x)
        f.case("if_predicate", "if(p, x, then=@negated, else=@doubled)", {"p": p, "x": x}, [y, s])


# ---- Sums in narrow floats: accumulated in f32, rounded once ----

def narrow_cases(f, rng):
    for dtype in ("f16", "bf16"):
        d = DTYPES[dtype]
        big = (rng.standard_normal((2, 200)) * 8).astype(d)
        wide = big.astype(np.float64)
        f.case(f"sum_{dtype}", "reduce_sum(x, axes=[1])", {"x": big}, [wide.sum(1).astype(d)], ulp=1)
        f.case(f"mean_{dtype}", "reduce_mean(x)", {"x": big}, [wide.mean().astype(d)], ulp=1)
        f.case(f"matmul_{dtype}", "matmul(a, b)", {"a": big, "b": big.T.copy()}, [(wide @ wide.T).astype(d)], rel=1)
        f.case(f"softmax_{dtype}", "softmax(x)", {"x": big}, [np.asarray(jax.nn.softmax(wide)).astype(d)], ulp=1)
        x, k = big.reshape(1, 2, 200), np.ones((1, 2, 100), d)
        y = np.asarray(lax.conv_general_dilated(wide.reshape(1, 2, 200), np.ones((1, 2, 100)), (50,), "VALID"))
        f.case(f"conv_{dtype}", "conv(x, k, stride=[50])", {"x": x, "k": k}, [y.astype(d)], rel=1)
        y = wide.reshape(1, 2, 4, 50).sum(-1)
        f.case(f"pool_{dtype}", "pool(x, kind=sum, kernel_size=[50])", {"x": x}, [y.astype(d)], rel=1)


def all_cases(f):
    rng = np.random.default_rng(20170612 + SEED)
    gather_cases(f, rng, 25 * FACTOR)
    scatter_cases(f, rng, 25 * FACTOR)
    conv_cases(f, rng, 25 * FACTOR)
    conv_transpose_cases(f, rng, 5 * FACTOR)
    reduce_window_cases(f, rng, 16 * FACTOR)
    select_and_scatter_cases(f, rng, 12 * FACTOR)
    dot_general_cases(f, rng, 12 * FACTOR)
    einsum_cases(f, rng, 16 * FACTOR)
    pad_cases(f, rng, 10 * FACTOR)
    dynamic_cases(f, rng, 6 * FACTOR)
    sort_cases(f, rng, 10 * FACTOR)
    extremum_cases(f, rng, 3 * FACTOR)
    running_cases(f, rng, 10 * FACTOR)
    resize_cases(f, rng, 6 * FACTOR)
    control_cases(f, rng)
    narrow_cases(f, rng)


with Fixtures("cross") as fixtures:
    all_cases(fixtures)
