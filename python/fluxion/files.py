# SPDX-License-Identifier: Apache-2.0
"""Graphs as objects: of traced functions, from files and from other frameworks. A graph is called like a function, also
inside of traced functions, so it can be differentiated and batched."""

import os

from . import _core, dtypes, tracing
from .errors import UnsupportedError
from .tree import count_leaves, flatten, unflatten

_FORMS = {".flx": "flx", ".mlir": "mlir", ".flxb": "flxb", ".onnx": "onnx", ".gguf": "gguf"}
_VECTOR_BYTES = {"generic": 0, "neon": 16, "sse2": 16, "avx2": 32, "avx512": 64}


class ShapeDtype:
    """A type without a value, for trace(): ShapeDtype(("B", 784), "float32"). Texts in a shape are symbolic extents."""

    __slots__ = ("shape", "dtype")

    def __init__(self, shape, dtype=dtypes.float32):
        from .dims import symbol
        self.shape = tuple(symbol(n) if isinstance(n, str) else n for n in shape)
        self.dtype = dtypes.as_dtype(dtype)

    def __repr__(self):
        return f"ShapeDtype({self.dtype.text}[{', '.join(map(str, self.shape))}])"

    @property
    def _weak(self):
        return False


class Graph:
    """A graph with the trees of its arguments and results."""

    def __init__(self, graph, structure=None, out_structure=None, captures=(), params=None):
        self.graph, self._captures = graph, tuple(captures)
        self.params = dict(params or {})  # values of parameters, for calls that do not give them
        count = len(graph.inputs) - len(self._captures)
        self._structure = structure or (tuple, None, *["*"] * count)
        outputs = len(graph.outputs)
        self._out = out_structure or ("*" if outputs == 1 else (tuple, None, *["*"] * outputs))
        self._exec = None

    # ---- Facts ----

    @property
    def name(self):
        """The name of the graph."""
        return self.graph.name

    @property
    def inputs(self):
        """(name, dtype, shape, whether a parameter) of each input."""
        return self.graph.inputs

    @property
    def outputs(self):
        """(name, dtype, shape) of each output."""
        return [o[:3] for o in self.graph.outputs]

    @property
    def symbols(self):
        """The names of symbolic dimensions."""
        return self.graph.symbols

    def text(self, form="flx"):
        """The graph as text: flx, mlir (StableHLO), dot, svg, or a stage of compiling: mir, lir, c."""
        return _core.show(self.graph, form)

    def __str__(self):
        return self.text()

    def __repr__(self):
        types = ", ".join(f"{n}: {d.text}[{', '.join(map(str, s))}]" for n, d, s, _ in self.inputs)
        return f"<graph {self.name}({types}), {self.graph.node_count} nodes>"

    def _repr_svg_(self):
        return self.text("svg")

    # ---- Use ----

    def __call__(self, *args, **named):
        """The outputs for these inputs, by position or by name."""
        arrays = self._arguments(args, named)
        if tracing.current() is None:
            if self._exec is None:
                self._exec = _core.compile(self.graph)
            outputs = self._exec.run(arrays)
        else:
            outputs = tracing.run_graph(self._fitting(arrays), arrays)
        return unflatten(self._out, outputs)

    def _arguments(self, args, named):
        leaves, structure = flatten(tuple(args))
        inputs = self.graph.inputs
        free = inputs[len(leaves):len(inputs) - len(self._captures)]
        for name, *_ in free:
            if name not in named and name not in self.params:
                raise TypeError(f"{self.name}: the input '{name}' is missing")
            leaves.append(named.pop(name) if name in named else self.params[name])
        if named:
            raise TypeError(f"{self.name} has no input '{next(iter(named))}'")
        if len(leaves) != len(inputs) - len(self._captures):
            raise TypeError(f"{self.name} has {len(inputs) - len(self._captures)} inputs, got {len(leaves)}")
        arrays = [tracing.cast(tracing.to_array(x), i[1]) for x, i in zip(leaves, inputs)]
        return [*arrays, *self._captures]

    def _fitting(self, arrays):
        """The graph with the extents of these arrays: inside of another graph types must be the same."""
        symbols, extents = set(self.graph.symbols), {}
        for a, (_, _, shape, _) in zip(arrays, self.graph.inputs):
            for dim, extent in zip(shape, a.shape):
                if not isinstance(dim, int) and str(dim) in symbols and isinstance(extent, int):
                    extents.setdefault(str(dim), extent)
        return _core.specialise(self.graph, extents) if extents else self.graph

    def specialise(self, **extents):
        """The graph with numbers for symbolic dimensions."""
        return self._with(_core.specialise(self.graph, extents))

    def report(self):
        """What computes each op, as text."""
        if self._exec is None:
            self._exec = _core.compile(self.graph)
        return self._exec.report()

    @property
    def memory(self):
        """Bytes that a run works in, in addition to inputs and outputs; 0 before symbolic dimensions have extents."""
        if self._exec is None:
            self._exec = _core.compile(self.graph)
        return self._exec.memory

    def simplified(self):
        """The graph without dead, constant and repeated parts; values do not change by a bit."""
        return self._with(_core.simplify(self.graph))

    def _with(self, graph):
        return Graph(graph, self._structure, self._out, self._captures, self.params)

    def _need_no_captures(self):
        if self._captures:
            raise UnsupportedError("UNSUPPORTED", f"'{self.name}' uses arrays from outside of the function, which the "
                                   "file would not have", "", "make them arguments")

    def save(self, path):
        """Writes .flx, .mlir, .flxb or .onnx. The values of parameters are part of .onnx files; beside other files they
        are in a .safetensors file of the same name, from which load() takes them where the file keeps their names:
        .flx and .flxb."""
        self._need_no_captures()
        form = _form(path)
        if form == "gguf":
            raise UnsupportedError("UNSUPPORTED", f"{os.fspath(path)}: .gguf files are read, not written")
        if form == "onnx":
            content = _core.write_onnx(self.graph, self.params)
        else:
            content = _core.show(self.graph, form)
        with open(path, "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        if form != "onnx" and self.params:
            save_arrays(_beside(path), self.params)

    def build_c(self, path, header=None, target="generic", gradient=False):
        """Writes the graph as a C file that needs nothing but a C compiler, and its header where that is a path; the
        names in it begin with the name of the graph. With `gradient` also its gradient."""
        self._need_no_captures()
        if target not in _VECTOR_BYTES:
            raise ValueError(f"target '{target}' is not one of {', '.join(_VECTOR_BYTES)}")
        include = os.path.basename(os.fspath(header)) if header is not None else None
        source, declarations = _core.build_c(self.graph, None, include, _VECTOR_BYTES[target], gradient)
        with open(path, "w") as file:
            file.write(source)
        if header is not None:
            with open(header, "w") as file:
                file.write(declarations)


def _form(path):
    extension = os.path.splitext(os.fspath(path))[1]
    if extension not in _FORMS:
        raise UnsupportedError("UNSUPPORTED", f"{os.fspath(path)}: the extension must be one of {', '.join(_FORMS)}")
    return _FORMS[extension]


def trace(function, *specs, name=None):
    """The graph of a function for arguments of these types: trees of ShapeDtype, arrays or numbers."""
    leaves, structure = flatten(tuple(specs))
    leaves = [x if isinstance(x, ShapeDtype) or dtypes.number_kind(x) else tracing.to_array(x) for x in leaves]
    kinds = [tracing.leaf_type(x) for x in leaves]
    names = tracing.argument_names(function, structure, len(leaves))
    staged = tracing.stage(function, kinds, structure, names, name or tracing.function_name(function))
    return Graph(staged.graph, structure, staged.out_structure, staged.captures)


def from_text(text, name="text", graph=None):
    """The main graph of .flx text, or that of a name."""
    main, graphs = _core.read(text.encode(), "flx", name)
    return Graph(graphs[graph] if graph else main)


def load(path, graph=None, *, fixed=None, adapter_rank=0):
    """The main graph of a .flx, .mlir, .flxb, .onnx or .gguf file, or that of a name. The initialisers of an ONNX
    model, the tensors of a GGUF file, and those of a .safetensors file beside the others that have the names of
    parameters, are in `params` of the graph, which calls use unless they give others by name.

    `fixed` gives inputs of an ONNX model values that are constants from now on: arrays, or texts, of which a shape or
    the whole result follows. The graph of a GGUF file takes tokens int32 (T,), and returns the logits of what follows
    each of them; its matrices stay packed in the memory of the file, which is mapped. With `adapter_rank` each matrix
    of the blocks has two narrow ones beside it, NAME.lora_a and NAME.lora_b, which do nothing at first; train those."""
    form = _form(path)
    if fixed and form != "onnx":
        raise UnsupportedError("UNSUPPORTED", f"{os.fspath(path)}: only inputs of ONNX models are fixed")
    if adapter_rank and form != "gguf":
        raise UnsupportedError("UNSUPPORTED", f"{os.fspath(path)}: only models in GGUF files have adapters")
    if form in ("onnx", "gguf"):
        if form == "onnx":
            main, params = _core.read_onnx(os.fspath(path), {n: _fixed_value(v) for n, v in (fixed or {}).items()})
        else:
            main, params = _core.read_gguf(os.fspath(path), adapter_rank)
            params.update(_adapters(main))
        if graph not in (None, main.name):
            raise KeyError(f"{os.fspath(path)} has no graph '{graph}'; it has {main.name}")
        return Graph(main, params=params)
    with open(path, "rb") as file:
        content = file.read()
    main, graphs = _core.read(content, form, os.fspath(path))
    if graph is not None and graph not in graphs:
        raise KeyError(f"{os.fspath(path)} has no graph '{graph}'; it has {', '.join(graphs)}")
    main = graphs[graph] if graph else main
    names = [name for name, *_, is_param in main.inputs if is_param]
    values = load_arrays(_beside(path)) if names and os.path.exists(_beside(path)) else {}
    return Graph(main, params={n: values[n] for n in names if n in values})


def _beside(path):
    """The file that has the values of parameters of the one at this path."""
    return os.path.splitext(os.fspath(path))[0] + ".safetensors"


def _fixed_value(value):
    """An array; texts as their bytes along a last axis, filled up with zeros."""
    if getattr(getattr(value, "dtype", None), "kind", "") in ("U", "S", "O"):
        value = value.tolist()
    texts, shape = [value], []
    while texts and isinstance(texts[0], (list, tuple)):
        shape.append(len(texts[0]))
        texts = [x for row in texts for x in row]
    if not texts or not isinstance(texts[0], (str, bytes)):
        return tracing.to_array(value)
    texts = [x.encode() if isinstance(x, str) else x for x in texts]
    width = max(1, *map(len, texts))
    content = memoryview(b"".join(x.ljust(width, b"\0") for x in texts))
    return tracing.to_array(content.cast("B", [*shape, width]))


def _adapters(main):
    """Values of the adapters of a language model: those that end in `b` are zeros, so that they change nothing yet."""
    from . import random, xp
    found = [(n, shape) for n, _, shape, is_param in main.inputs if is_param and n.endswith((".lora_a", ".lora_b"))]
    keys = random.split(random.key(0), len(found)) if found else ()
    return {n: random.normal(key, shape) / shape[1] ** 0.5 if n.endswith("a") else xp.zeros(shape)
            for key, (n, shape) in zip(keys, found)}


def load_arrays(path):
    """The arrays of a file by their names: .safetensors, the index of one in parts (model.safetensors.index.json),
    .npz, or an archive of PyTorch (.pt, .pth, .bin), of which nothing but tensors is read and nothing is run."""
    return _core.read_arrays(os.fspath(path))


def save_arrays(path, arrays):
    """Writes a dict of arrays to a .safetensors or .npz file."""
    if os.path.splitext(os.fspath(path))[1] not in (".safetensors", ".npz"):
        raise UnsupportedError("UNSUPPORTED", f"{os.fspath(path)}: the extension must be one of .safetensors, .npz")
    _core.write_arrays(os.fspath(path), {name: tracing.to_array(x) for name, x in arrays.items()})


def save(path, function, *specs):
    """Writes a Graph, or a function traced for arguments of these types, to .flx, .mlir, .flxb or .onnx."""
    (function if isinstance(function, Graph) else trace(function, *specs)).save(path)


def from_jax(function, *args):
    """A function of JAX, lowered for these arguments, as a graph that takes and returns the same trees. JAX must be
    installed; it is not needed to run the result."""
    import jax
    lowered = jax.jit(function, keep_unused=True).lower(*args)
    main, _ = _core.read(lowered.as_text().encode(), "mlir", tracing.function_name(function))
    example = jax.tree_util.tree_map(lambda _: 0, args)
    result = jax.tree_util.tree_map(lambda _: 0, lowered.out_info)
    structure, out = flatten(tuple(example))[1], flatten(result)[1]
    if count_leaves(structure) != len(main.inputs) or count_leaves(out) != len(main.outputs):
        structure = out = None
    return Graph(main, structure, out)


def from_torch(module, *example, dynamic_shapes=None):
    """A module of PyTorch, exported for these example tensors, as a graph of the same inputs. Its parameters and
    buffers are parameters of the graph, under their names, with a `_` before a digit: `params` has their values, which
    calls use unless they give others by name. `dynamic_shapes` is that of torch.export. PyTorch, onnx and onnxscript
    must be installed; they are not needed to run the result."""
    import tempfile
    import torch
    was_training = module.training
    module.eval()
    try:
        program = torch.onnx.export(module, tuple(example), dynamo=True, optimize=False, verbose=False,
                                    dynamic_shapes=dynamic_shapes)
    finally:
        module.train(was_training)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        program.save(path)
        return load(path)
