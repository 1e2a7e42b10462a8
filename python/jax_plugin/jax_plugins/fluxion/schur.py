# SPDX-License-Identifier: Apache-2.0
"""The Schur form, for which Fluxion has no function: SciPy computes it, which JAX itself depends on, in a call back
into Python. What fails to converge, or is not finite, is NaN."""

import jax
import numpy as np


def _of_matrix(a):
    import scipy.linalg

    if not np.isfinite(a).all():
        return np.full_like(a, np.nan), np.full_like(a, np.nan)
    try:
        form, vectors = scipy.linalg.schur(a, output="complex" if np.iscomplexobj(a) else "real")
    except np.linalg.LinAlgError:
        return np.full_like(a, np.nan), np.full_like(a, np.nan)
    return form.astype(a.dtype), vectors.astype(a.dtype)


def _of_matrices(a):
    a = np.asarray(a)
    forms, vectors = np.empty_like(a), np.empty_like(a)
    for index in np.ndindex(a.shape[:-2]):
        forms[index], vectors[index] = _of_matrix(a[index])
    return forms, vectors


def schur(a, *, compute_schur_vectors, sort_eig_vals, select_callable):
    """The rule of JAX's primitive as a JAX function."""
    del select_callable  # as on a CPU
    if sort_eig_vals:
        raise NotImplementedError("eigenvalues of a Schur form are not sorted")
    result = jax.ShapeDtypeStruct(a.shape, a.dtype)
    form, vectors = jax.pure_callback(_of_matrices, (result, result), a)
    return (form, vectors) if compute_schur_vectors else (form,)
