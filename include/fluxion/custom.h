/* SPDX-License-Identifier: Apache-2.0 */
/* fluxion/custom.h: operations that a program adds to graphs, computed by functions of the program. Experimental: how
   an operation describes its derivatives and batching may change.

   They belong to a context: registered once, they can be used by every graph of it, from C
   (flx_op(g, "custom", …) with the attribute `name`) and in text:

       y = custom(x, name="soft_clip", limit=2.5)

   Attributes other than `name` are the operation's own: numbers, strings, flags, lists of numbers. An operation has as
   many operands and results as its `infer` says. Derivatives and batching are functions that append nodes to a graph,
   so they can be differentiated again. With one of `vjp` and `jvp` both modes work: each is linear in what it is given,
   and the other is its transpose; a `jvp` that is not linear in the tangents is reported. With neither, a derivative is
   NO_RULE. Without `batch` examples are computed one after the other. For work inside the compiled code see
   fluxion/kernel.h. */
#ifndef FLUXION_CUSTOM_H
#define FLUXION_CUSTOM_H

#include <fluxion/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/** One use of an operation, as its functions see it: types of operands and results, attributes. */
typedef struct flx_custom_call flx_custom_call;

FLX_API const char *flx_custom_name(const flx_custom_call *c);
FLX_API size_t flx_custom_num_inputs(const flx_custom_call *c);
FLX_API size_t flx_custom_num_results(const flx_custom_call *c); /* 0 in `infer` */
/** NULL when there are not as many. */
FLX_API const flx_type *flx_custom_input(const flx_custom_call *c, size_t i);
FLX_API const flx_type *flx_custom_result(const flx_custom_call *c, size_t i);
/** The attribute of this name as it was given, in its own kind (FLX_ATTR_INT, REAL, WORD for flags, STRING, INTS,
    REALS), or NULL. It lives as long as the call. */
FLX_API const flx_attr *flx_custom_attr(const flx_custom_call *c, const char *key);
/** A number, whole or not; `otherwise` when the attribute is absent. */
FLX_API double flx_custom_real(const flx_custom_call *c, const char *key, double otherwise);

enum {
    FLX_CUSTOM_EFFECT = 1 /* evaluating it does something else too: it is never moved, merged, repeated or left out */
};

/** Functions return FLX_OK or a code, with a message in err. Threads may call them at the same time. Those that are
    given a graph append nodes to it and must not declare inputs or outputs of it or release it. What they return is
    checked; a function that breaks these rules makes the transform fail with USAGE. */
typedef struct flx_custom_op {
    uint32_t struct_size; /* sizeof(flx_custom_op); 0: the layout of version 0.2 */
    uint32_t flags;       /* FLX_CUSTOM_… */
    const char *name;     /* letters, digits, '_' and '.' */
    void *user;           /* handed to the functions */
    /** Types of the results, which may have the symbolic dimensions of operands. Room for 16; sets *num_results. */
    flx_code (*infer)(void *user, const flx_custom_call *c, flx_type *results, size_t *num_results, flx_error *err);
    /** Elements, dense and in row-major order; all types are static. Results come zeroed. */
    flx_code (*eval)(void *user, const flx_custom_call *c, const void *const *inputs, void *const *results,
                     flx_error *err);
    /** Cotangents of results (FLX_NONE: zero) to cotangents of operands, each of the operand's type, appended to g;
        those left alone are zero. Or NULL. */
    flx_code (*vjp)(void *user, const flx_custom_call *c, flx_graph *g, const flx_val *inputs, const flx_val *results,
                    const flx_val *cotangents, flx_val *out, flx_error *err);
    /** Tangents of operands (FLX_NONE: zero) to tangents of results, each of the result's type; those left alone are
        zero. Or NULL. */
    flx_code (*jvp)(void *user, const flx_custom_call *c, flx_graph *g, const flx_val *inputs, const flx_val *results,
                    const flx_val *tangents, flx_val *out, flx_error *err);
    /** Inputs i with batched[i] have a leading axis of extent `size`; all results must have it. Or NULL. */
    flx_code (*batch)(void *user, const flx_custom_call *c, flx_graph *g, const flx_val *inputs, const int32_t *batched,
                      flx_dim size, flx_val *out, flx_error *err);
} flx_custom_op;

/** Adds an operation; everything but `user` is copied. DUP_NAME if the context has one of this name. */
FLX_API flx_code flx_register_custom(flx_context *ctx, const flx_custom_op *op, flx_error *err);

#ifdef __cplusplus
}
#endif
#endif
