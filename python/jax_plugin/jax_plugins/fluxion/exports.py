# SPDX-License-Identifier: Apache-2.0
"""What a program that is exported for Fluxion says about its derivatives.

The values of a program do not show where JAX stops a gradient, or that a function has a rule of its own. An exported
program is differentiated by Fluxion itself (`flx grad`), so that it has calls there: fluxion_stop_gradient, and
fluxion_custom_vjp and fluxion_custom_jvp, which name a function and its derivative as JAX has it. Programs that JAX
runs are not concerned: JAX has differentiated them.
"""

import threading
import warnings

import jax
import numpy as np
from jax._src import core, custom_derivatives
from jax._src.ad_util import stop_gradient_p
from jax._src.interpreters import mlir, partial_eval

from . import PLATFORM

_inside = threading.local()


def _is_export(ctx):
    """Not inside of a rule: it may call its own function, and only first derivatives are described."""
    module = ctx.module_context
    return (not getattr(_inside, "rule", False) and module.lowering_parameters.for_export
            and tuple(module.platforms) == (PLATFORM,) and not module.shape_poly_state.dim_vars)


def _call(target, ctx, args, functions=()):
    types = [mlir.aval_to_ir_type(ctx.module_context, a) for a in ctx.avals_out]
    return mlir.custom_call(target, result_types=types, operands=args, called_computations=functions).results


def _stop_gradient(ctx, x):
    return _call("fluxion_stop_gradient", ctx, [x]) if _is_export(ctx) else [x]


def _varies(aval):
    return np.issubdtype(aval.dtype, np.inexact) or jax.dtypes.issubdtype(aval.dtype, np.inexact)


def _float0(avals, values):
    """What JAX has in place of derivatives of integers."""
    return [v if _varies(a) else np.zeros(a.shape, jax.dtypes.float0) for a, v in zip(avals, values)]


def _pulled_back(call, avals_in, avals_out):
    """(x, y, dy) -> dx of those that vary: the form of a vjp_body."""

    def rule(*values):
        x, dy = values[:len(avals_in)], values[len(avals_in) + len(avals_out):]
        dx = jax.vjp(call, *x)[1](_float0(avals_out, dy))
        return [d for a, d in zip(avals_in, dx) if _varies(a)]

    return rule, [*avals_in, *avals_out, *avals_out]


def _pushed_forward(call, avals_in, avals_out):
    """(x, dx, y) -> dy: the form of a jvp_body."""

    def rule(*values):
        n = len(avals_in)
        x, dx, y = values[:n], values[n:2 * n], values[2 * n:]
        dy = jax.jvp(call, x, tuple(_float0(avals_in, dx)))[1]
        return [d if _varies(a) else v for a, d, v in zip(avals_out, dy, y)]

    return rule, [*avals_in, *avals_in, *avals_out]


def _lowered(ctx, name, function, avals):
    """The name of a function of the module; None where it needs more than its arguments."""
    jaxpr = jax.make_jaxpr(function)(*[jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals])
    if jaxpr.effects or core.jaxpr_const_args(jaxpr.jaxpr):
        return None
    used, _ = partial_eval.dce_jaxpr(jaxpr.jaxpr, [True] * len(jaxpr.out_avals), instantiate=True)
    jaxpr = core.ClosedJaxpr(used, jaxpr.consts)
    made = mlir.lower_jaxpr_to_fun(ctx.module_context, name, jaxpr, [], num_const_args=0, in_avals=jaxpr.in_avals)
    return made.name.value


def _lowered_rule(ctx, function, avals):
    _inside.rule = True
    try:
        return _lowered(ctx, "rule_of_function", function, avals)
    finally:
        _inside.rule = False


def _with_rule(primitive, target, derivative, original):
    def rule(ctx, *args, call_jaxpr, **params):
        avals_in, avals_out = list(ctx.avals_in), list(ctx.avals_out)
        if not _is_export(ctx) or call_jaxpr.effects or not any(_varies(a) for a in avals_in):
            return original(ctx, *args, call_jaxpr=call_jaxpr, **params)
        given = primitive.get_bind_params(dict(params, call_jaxpr=call_jaxpr))

        def call(*x):
            return primitive.bind(*x, **given)

        try:
            derived = _lowered_rule(ctx, *derivative(call, avals_in, avals_out))
        except Exception:  # pylint: disable=broad-except
            derived = None  # the rule itself refuses: a function imported without its derivative, for one
        function = derived and _lowered(ctx, "function_with_rule", core.jaxpr_as_fun(call_jaxpr), avals_in)
        if not function:
            warnings.warn(f"the rule of a function ({primitive.name}) cannot be exported for fluxion: gradients of the "
                          "exported program are those of its values", stacklevel=2)
            return original(ctx, *args, call_jaxpr=call_jaxpr, **params)
        return _call(target, ctx, args, [function, derived])

    mlir.register_lowering(primitive, rule, platform=PLATFORM, cacheable=False)


_TARGETS = {"fluxion_stop_gradient", "fluxion_custom_vjp", "fluxion_custom_jvp"}


def _allow_targets():
    """JAX exports calls of targets on its list only."""
    from jax._src.export import _export

    _export._CUSTOM_CALL_TARGETS_GUARANTEED_STABLE = _export._CUSTOM_CALL_TARGETS_GUARANTEED_STABLE | _TARGETS


def install():
    _allow_targets()
    original = custom_derivatives._custom_jvp_vjp_call_lowering
    mlir.register_lowering(stop_gradient_p, _stop_gradient, platform=PLATFORM)
    _with_rule(custom_derivatives.custom_vjp_call_p, "fluxion_custom_vjp", _pulled_back, original)
    _with_rule(custom_derivatives.custom_jvp_call_p, "fluxion_custom_jvp", _pushed_forward, original)
