# SPDX-License-Identifier: Apache-2.0
"""Answers of JAX for the model of examples/forces.c, in f64: energies, forces, the loss of both, and the gradient of
that loss with respect to the parameters and the positions, which goes through the forces.

fixtures/nn/forces.npz holds them by the names they have in the graph.
"""
import pathlib

import jax
import numpy as np
from jax import numpy as jnp

jax.config.update("jax_enable_x64", True)

HERE = pathlib.Path(__file__).parent / "fixtures" / "nn"
EXAMPLES, ATOMS, FEATURES, HIDDEN = 2, 4, 6, 16
WEIGHTS = 0.5, 3.0  # of energies and forces; tests/nn/nn_forces.c has the same


def energy(params, x):
    d = x[:, :, None, :] - x[:, None, :, :]
    r2 = (d * d).sum(-1)
    bells = jnp.exp(-r2[..., None] * 2.0 ** (1.0 - jnp.arange(FEATURES)))
    hidden = jnp.tanh(bells @ params["pair.0.w"] + params["pair.0.b"])
    pairs = (hidden @ params["pair.1.w"] + params["pair.1.b"])[..., 0]
    return 0.5 * (pairs * (1 - jnp.eye(ATOMS))).sum((1, 2))


def forces(params, x):
    return -jax.grad(lambda x: energy(params, x).sum())(x)


def loss(params, x, target_energy, target_forces):
    e = ((energy(params, x) - target_energy) ** 2).mean()
    f = ((forces(params, x) - target_forces) ** 2).mean()
    return WEIGHTS[0] * e + WEIGHTS[1] * f


def main():
    rng = np.random.default_rng(21)
    params = {"pair.0.w": rng.normal(size=(FEATURES, HIDDEN)), "pair.0.b": rng.normal(size=HIDDEN),
              "pair.1.w": rng.normal(size=(HIDDEN, 1)), "pair.1.b": rng.normal(size=1)}
    x = rng.normal(size=(EXAMPLES, ATOMS, 3))
    targets = rng.normal(size=EXAMPLES), rng.normal(size=(EXAMPLES, ATOMS, 3))
    by_params, by_x = jax.grad(loss, (0, 1))(params, x, *targets)
    arrays = dict(params, x=x, target_energy=targets[0], target_forces=targets[1], energy=energy(params, x),
                  forces=forces(params, x), loss=loss(params, x, *targets), d_x=by_x)
    arrays |= {"d_" + name: d for name, d in by_params.items()}
    HERE.mkdir(parents=True, exist_ok=True)
    np.savez(HERE / "forces.npz", **{name: np.asarray(value) for name, value in arrays.items()})


main()
