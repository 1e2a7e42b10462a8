# SPDX-License-Identifier: Apache-2.0
"""Lowering rules for what JAX lowers only for platforms that it knows.

Linear algebra takes the rules of the CPU: their calls of LAPACK are functions that Fluxion has. JAX has no public way to
ask for another platform's rule, so its table is read. Three factorisations are JAX functions (reflections.py).
Everything else has a rule for all platforms.
"""

from jax._src import compilation_cache
from jax._src.interpreters import mlir

from . import PLATFORM

# Primitives whose rule for the CPU is used, by name.
FROM_CPU = frozenset("""
    cholesky lu geqrf householder_product triangular_solve tridiagonal_solve svd eigh eig schur
    debug_callback debug_print
""".split())


def install():
    _copy_rules()
    _add_rules()
    if PLATFORM not in mlir._platforms_with_donation:
        mlir._platforms_with_donation.append(PLATFORM)
    _use_compilation_cache()


def _copy_rules():
    import jax._src.debugging  # noqa: F401  registers its rules
    import jax._src.lax.linalg  # noqa: F401

    own = mlir._platform_specific_lowerings[PLATFORM]
    for primitive, rule in list(mlir._platform_specific_lowerings["cpu"].items()):
        if primitive.name in FROM_CPU:
            own.setdefault(primitive, rule)


def _add_rules():
    """JAX functions as rules, for factorisations that Fluxion has no function for."""
    from jax._src.lax import linalg

    from . import reflections

    rules = {"hessenberg_p": reflections.hessenberg, "tridiagonal_p": reflections.tridiagonal,
             "geqp3_p": reflections.pivoted_qr}
    for name, function in rules.items():
        if hasattr(linalg, name):
            rule = mlir.lower_fun(function, multiple_results=True)
            mlir.register_lowering(getattr(linalg, name), rule, platform=PLATFORM)


def _use_compilation_cache():
    """JAX keeps executables on disk for the platforms on a list; Fluxion's can be serialised too."""
    original = compilation_cache.is_cache_used

    def is_cache_used(backend):
        if backend.platform != PLATFORM:
            return original(backend)
        return compilation_cache._is_cache_enabled()

    compilation_cache.is_cache_used = is_cache_used
