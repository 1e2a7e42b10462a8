/* SPDX-License-Identifier: Apache-2.0 */
/* fluxion/transform.h: graph-to-graph transforms. Each takes a finished graph and makes a new, ordinary one (NULL on
   failure, with `err` filled), which the caller releases; the input is left as it was. So they compose in any order and
   to any depth. Inputs to differentiate or batch are named, never numbered. Results are simplified. Many threads may
   transform one graph. */
#ifndef FLUXION_TRANSFORM_H
#define FLUXION_TRANSFORM_H

#include <fluxion/graph.h>

FLX_BEGIN_DECLS

/* Flags of flx_grad_options. */
enum {
    FLX_GRAD_VALUE = 1,           /* keep the loss (and for hvp the gradient) among the outputs */
    FLX_GRAD_MISSING_ZERO = 2,    /* an input the loss does not depend on gets zeros instead of NO_GRAD_PATH */
    FLX_GRAD_SEED_INPUT = 4,      /* the cotangent of the loss is an input `d_output`; the loss may have any shape */
    FLX_GRAD_UNBOUNDED_ERROR = 8, /* a `while` without max_iterations is UNBOUNDED_LOOP, not a tape that grows */
    FLX_GRAD_BACKWARD_OPS = 16 /* dedicated backward ops (layer_norm_backward_input …) where an op has them, instead
                                     of the derivative of its decomposition; equal up to rounding */
};

typedef struct flx_grad_options {
    uint32_t struct_size; /* sizeof(flx_grad_options); 0: the layout of version 0.2 */
    uint32_t flags;       /* FLX_GRAD_… */
} flx_grad_options;

/** Reverse mode. Output 0 of `g` is the loss. Outputs: the loss (with FLX_GRAD_VALUE), the other outputs, then
    `d_<input>` for each name in `wrt` (inputs, parameters, or pinned values that have a name). */
FLX_API flx_graph *flx_grad(const flx_graph *g, const char *const *wrt, size_t count, const flx_grad_options *options,
                            flx_error *err);

/** Forward mode: extra inputs `tangent_<input>`; outputs, then `tangent_<output>` for each. */
FLX_API flx_graph *flx_jvp(const flx_graph *g, const char *const *wrt, size_t count, flx_error *err);

/** Hessian times vector, forward over reverse: extra inputs `tangent_<input>`; outputs `hvp_<input>`. */
FLX_API flx_graph *flx_hvp(const flx_graph *g, const char *const *wrt, size_t count, const flx_grad_options *options,
                           flx_error *err);

#define FLX_NO_AXIS INT64_MAX

typedef struct flx_vmap_axis {
    const char *name; /* of an input or parameter */
    int64_t axis;     /* where its batch axis is; negative counts on the batched rank; FLX_NO_AXIS: shared */
} flx_vmap_axis;

/** Batching over an axis of extent `size` (a number or a symbol). Inputs that are not listed are shared. `out_axes`
    says where each output has the axis (FLX_NO_AXIS: the output must not depend on the batch); NULL means 0 for
    all, and `num_outputs` is not read. */
FLX_API flx_graph *flx_vmap(const flx_graph *g, const flx_vmap_axis *in_axes, size_t count, const int64_t *out_axes,
                            size_t num_outputs, flx_dim size, flx_error *err);

/** A stage, a graph of an activation and then its parameters that returns the next activation of the same type, applied
    `stages` times, as a pipeline. Its first input, of a microbatch [n, ...], becomes that of a batch [microbatches n,
    ...]; every other input gets a leading axis of stages, for one set of values each. Where that axis is cut for a
    mesh (fluxion/mesh.h), each process runs its own stages, on different microbatches at the same time: of
    microbatches + stages - 1 ticks, stages - 1 are lost. All dimensions must be numbers. Differentiate the result, not
    the stage. Experimental. */
FLX_API flx_graph *flx_pipeline(const flx_graph *stage, int64_t stages, int64_t microbatches, flx_error *err);

/* Modes of flx_jacobian_options. */
enum {
    FLX_JACOBIAN_AUTO = 0, /* the cheaper one by shape */
    FLX_JACOBIAN_FORWARD = 1,
    FLX_JACOBIAN_REVERSE = 2
};

/* Flags of flx_jacobian_options. */
enum {
    FLX_JACOBIAN_DENSE = 1 /* do not search for zeros: a direction for each element */
};

typedef struct flx_jacobian_options {
    uint32_t struct_size;       /* sizeof(flx_jacobian_options); 0: the layout of version 0.2 */
    uint32_t mode;              /* FLX_JACOBIAN_… */
    int64_t chunk;              /* at most this many directions at a time; 0: all at once */
    int64_t budget;             /* bytes for the values of the directions of one chunk, by estimate; 0: no limit */
    uint32_t flags;             /* FLX_JACOBIAN_DENSE */
    uint32_t reserved;          /* 0 */
    const char *const *outputs; /* of flx_jacobian: which ones; NULL: all that have a derivative */
    size_t num_outputs;
} flx_jacobian_options;

/** Outputs `jac_<output>_<input>` of shape output ++ input, all inputs of the first output first. One vectorised run
    over the basis of the inputs or outputs, or chunks of it; where the graph shows that the Jacobian is zero off a
    diagonal or a band (elementwise functions, independent rows, stencils), elements that do not meet share a direction.
    The budget is for the values that exist once per direction and what they are computed from; inputs and the result
    come on top. Outputs of integers and bools have no derivative: without a list of outputs they are left out, and
    NOT_DIFFERENTIABLE when nothing else is there or one of them is listed. A complex output needs real inputs and
    forward mode, a complex input real outputs and reverse mode. */
FLX_API flx_graph *flx_jacobian(const flx_graph *g, const char *const *wrt, size_t count,
                                const flx_jacobian_options *options, flx_error *err);

/** Second derivatives of the one-element loss: outputs `hessian_<a>_<b>` of shape a ++ b for each ordered pair. */
FLX_API flx_graph *flx_hessian(const flx_graph *g, const char *const *wrt, size_t count,
                               const flx_jacobian_options *options, flx_error *err);

/** Directional derivatives along `tangent_<input>` up to `order`: outputs of `g`, then `taylor_<output>_k` for k = 1 …
    order: d^k/dt^k of f(x + t·tangent) at t = 0, without 1/k!. */
FLX_API flx_graph *flx_taylor(const flx_graph *g, const char *const *wrt, size_t count, int32_t order, flx_error *err);

/** The n-th gradient with respect to `wrt`, contracting with ones between the levels: G_1 = grad f, G_k = grad <1,
    G_(k-1)>. Output `d<n>_<input>`. */
FLX_API flx_graph *flx_nth_grad(const flx_graph *g, const char *wrt, int32_t n, flx_error *err);

typedef struct flx_force_options {
    uint32_t struct_size; /* sizeof(flx_force_options); 0: the layout of version 0.2 */
    uint32_t flags;       /* 0 */
    double energy_weight; /* not negative; a weight of 0 leaves its part out, but where both are 0, both are 1 */
    double force_weight;
} flx_force_options;

/** The loss of a model of energies. Output 0 of `energy` is an energy, or one for each example of a batch; forces are
    minus its gradient with respect to the input `positions`. Extra inputs `target_energy` and `target_forces`; outputs
    `loss`, `energy`, `forces`, where loss = energy_weight mean((energy - target_energy)²) + force_weight mean((forces -
    target_forces)²). Without the force term there are no forces and no target for them. NULL options: both weights are
    1. For other losses with a gradient in them (masks, units) use flx_grad() and flx_inline(). */
FLX_API flx_graph *flx_force_energy_loss(const flx_graph *energy, const char *positions,
                                         const flx_force_options *options, flx_error *err);

/** f'(x) for a pointwise op of one operand with its default attributes ("gelu", "tanh", "floor" …), appended to the
    graph under construction that `x` belongs to; the result can be differentiated again. On failure FLX_NONE, and the
    graph keeps the error: NAME for an unknown op, NO_RULE for one without such a derivative. */
FLX_API flx_val flx_activation_derivative(flx_graph *g, const char *op, flx_val x);

/** Constant folding, exact algebraic identities, common subexpressions, dead code. Values do not change by a bit. */
FLX_API flx_graph *flx_simplify(const flx_graph *g, flx_error *err);

/** The same computation in double precision: f32, f16 and bf16 become f64 and c64 becomes c128, in inputs, constants,
    casts and bodies. Constants keep their values, and `bitcast` its dtypes. Fails where an op takes no f64. */
FLX_API flx_graph *flx_widen(const flx_graph *g, flx_error *err);

/** The same computation with products in 16 bits: matrix products, einsum and convolutions of f32 read their operands
    rounded to `low`, which is FLX_BF16 or FLX_F16, sum in f32 and round once; all other ops compute in f32. Inputs,
    outputs and constants keep their types, so the gradient of the result has f32 for f32 parameters. Composites
    become primitive ops. Fails with DTYPE for another dtype. */
FLX_API flx_graph *flx_mixed_precision(const flx_graph *g, flx_dtype low, flx_error *err);

/** The part of `g` that computes the given values of it, which are its outputs, each under its own name. Inputs and
    parameters stay, needed or not. */
FLX_API flx_graph *flx_extract(const flx_graph *g, const flx_val *values, size_t count, flx_error *err);

/* Whether the constant, which would be the parameter `name`, becomes one: 1, or 0. The value may be kept:
   flx_tensor_retain(). */
typedef int (*flx_constant_fn)(void *user, const char *name, flx_tensor *value);

/** The same computation with the constants that `choose` picks as parameters, after the inputs and parameters of `g`
    and in the order in which it was asked. A parameter is called as its constant is, or weight0, weight1 … Constants in
    bodies stay. */
FLX_API flx_graph *flx_constants_to_params(const flx_graph *g, flx_constant_fn choose, void *user, flx_error *err);

FLX_END_DECLS
#endif
