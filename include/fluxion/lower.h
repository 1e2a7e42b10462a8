/* fluxion/lower.h: the stages of a graph, and the way from the first to the second.

   HIR is what a person writes: ops, and blocks such as `linear` and `gated_ffn`. MIR has ops only; compiling and all transforms
   work on it. A block means its decomposition (docs/ops.md), so it needs no lowering before it is run, differentiated or
   batched: lowering chooses what it becomes, and shows it. */
#ifndef FLUXION_LOWER_H
#define FLUXION_LOWER_H

#include <fluxion/graph.h>

FLX_BEGIN_DECLS

typedef enum flx_stage {
    FLX_STAGE_HIR = 1, /* ops and blocks */
    FLX_STAGE_MIR = 2, /* ops */
    FLX_STAGE_LIR = 3, /* steps with planned memory */
    FLX_STAGE_C = 4    /* text of kernels */
} flx_stage;

/** FLX_STAGE_HIR for a graph as it is built or read; FLX_STAGE_MIR for one that was lowered and for what passes and transforms
    make of it. Adding a block to the latter, or an op whose body has one, is an error (STAGE). */
FLX_API flx_stage flx_graph_stage(const flx_graph *g);

typedef enum flx_policy {
    FLX_POLICY_DIRECT = 0,  /* a block becomes fused ops where there are some, else primitive ops */
    FLX_POLICY_FUSABLE = 1, /* primitive ops, in the form that fusion recognises; fused_linear stays one op */
    FLX_POLICY_FOR_AUTODIFF =
        2 /* no fused op at all: whatever has a derivative has a rule for it, not a decomposition */
} flx_policy;

/** The graph without blocks, bodies included; values do not change by a bit, whatever the policy. Inputs, outputs, names of values
    and pins stay. The result is of stage MIR; the caller frees it. NULL on failure. */
FLX_API flx_graph *flx_lower(const flx_graph *g, flx_policy policy, flx_error *err);

FLX_END_DECLS
#endif
