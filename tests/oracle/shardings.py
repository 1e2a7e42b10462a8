# SPDX-License-Identifier: Apache-2.0
"""Programs of JAX for a mesh of 2 x 2 devices, with their arguments and results: fixtures/stablehlo/mesh/NAME.mlir and
values.npz. Shardings as annotations (Shardy, and the older form without names of axes), and manual computations with
every collective operation, with a derivative through them."""
import os
import pathlib

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, shard_map
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

folder = pathlib.Path(__file__).parent / "fixtures/stablehlo/mesh"
mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("data", "model"))
values = {}


def sharded(*axes):
    return NamedSharding(mesh, P(*axes))


def keep(name, function, arguments):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.mlir").write_text(function.lower(*arguments).as_text())
    results = function(*arguments)
    for i, x in enumerate(arguments):
        values[f"{name}.arg{i}"] = np.asarray(x)
    for i, y in enumerate(results if isinstance(results, tuple) else (results,)):
        values[f"{name}.out{i}"] = np.asarray(y)


def layers(x, w1, w2):
    h = lax.with_sharding_constraint(jnp.tanh(x @ w1), sharded("data", "model"))
    return h @ w2, jnp.mean(h, axis=0)


def exchanges(x, w1, w2):
    y = lax.psum(jnp.tanh(x @ w1) @ w2, "model")
    z = lax.all_gather(y, "data", axis=0, tiled=True)
    t = lax.psum_scatter(z, "data", scatter_dimension=0, tiled=True)
    u = lax.all_to_all(t, "model", split_axis=1, concat_axis=0, tiled=True)
    v = lax.ppermute(u, "data", [(0, 1), (1, 0)])
    return (y + lax.axis_index("data").astype(jnp.float32), v, lax.pmax(v, ("data", "model")), lax.pmean(y, "data"),
            lax.all_gather(x, ("model", "data"), axis=0, tiled=True))


def loss(x, w1, w2):
    y = lax.psum(jnp.tanh(x @ w1) @ w2, "model")
    return lax.pmean(jnp.mean(jnp.square(y)), "data")


cuts = (P("data", None), P(None, "model"), P("model", None))
manual_exchanges = shard_map(exchanges, mesh=mesh, in_specs=cuts, check_vma=False,
                             out_specs=(P("data", None), P(("data", "model"), None), P(), P(), P()))
manual_loss = shard_map(loss, mesh=mesh, in_specs=cuts, out_specs=P())

random = np.random.default_rng(1)
arguments = [random.standard_normal(shape).astype(np.float32) for shape in ((8, 4), (4, 6), (6, 4))]
placed = dict(in_shardings=(sharded("data", None), sharded(None, "model"), sharded("model", None)),
              out_shardings=(sharded("data", None), sharded("model")))
jax.config.update("jax_use_shardy_partitioner", True)
keep("annotated", jax.jit(layers, **placed), arguments)
keep("manual", jax.jit(manual_exchanges), arguments)
keep("manual_gradient", jax.jit(jax.grad(manual_loss, argnums=(0, 1, 2))), arguments)
jax.config.update("jax_use_shardy_partitioner", False)
keep("tiled", jax.jit(layers, **placed), arguments)
np.savez(folder / "values.npz", **values)
