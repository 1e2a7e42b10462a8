/* SPDX-License-Identifier: Apache-2.0 */
/* fused.h: pieces of networks that composites share. */
#ifndef FLXI_FUSED_H
#define FLXI_FUSED_H

#include "graph/op/infer.h"
#include "graph/op/site.h"

/* Attribute `act`: "none", or the name of one of these ops. */
#define FLXI_ACTIVATION_MAP(X) \
    X(relu) X(sigmoid) X(tanh) X(silu) X(gelu) X(gelu_approx) X(softplus) X(selu) X(hard_swish) X(mish)

#define FLXI_ACTIVATION_WORD(name) " " #name
#define FLXI_ACTIVATIONS "none" FLXI_ACTIVATION_MAP(FLXI_ACTIVATION_WORD)

typedef enum { /* positions in that list */
               FLXI_ACT_none,
#define FLXI_ACTIVATION_ENUM(name) FLXI_ACT_##name,
               FLXI_ACTIVATION_MAP(FLXI_ACTIVATION_ENUM)
#undef FLXI_ACTIVATION_ENUM
                   FLXI_ACT_COUNT
} flxi_activation;

const char *flxi_activation_name(int64_t act);

/* Row of a schema; `v` is the position of the default. */
#define A_ACTIVATION(T, f, v)                                                                               \
    {                                                                                                       \
        .name = #f, .kind = ATTR_WORD, .offset = offsetof(T, f), .words = FLXI_ACTIVATIONS, .fallback = (v) \
    }

/* act(x); x itself for "none". */
flx_val flxi_activate(flx_graph *g, int64_t act, flx_val x);

/* act(x w + b); `b` may be FLX_NONE. */
flx_val flxi_linear(flx_graph *g, flx_val x, flx_val w, flx_val b, int64_t act);

/* up * silu(gate) of the halves of p. */
flx_val flxi_swiglu(flxi_site *s, flx_val p, bool gate_first);

/* The type of x w + b, for x [.., k], w [k, n], b [n]; `b` may be NULL. `w_name` and `b_name` are their names in
   messages. */
flx_code flxi_infer_linear(flxi_infer *f, const flx_type *x, const flx_type *w, const flx_type *b, const char *w_name,
                           const char *b_name, flx_type *y);

/* p with the last axis halved. */
flx_code flxi_infer_halves(flxi_infer *f, const flx_type *p, flx_type *y);

#endif
