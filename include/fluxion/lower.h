/* SPDX-License-Identifier: Apache-2.0 */
/* fluxion/lower.h: the stages of a graph, and the way from the first to the second.

   HIR is what a person writes: ops, and blocks such as `linear` and `gated_ffn`. MIR has ops only; compiling and all
   transforms work on it. A block means its decomposition (docs/ops.md), so it needs no lowering before it is run,
   differentiated or batched: lowering chooses what it becomes, and shows it. */
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

/** FLX_STAGE_HIR for a graph as it is built or read; FLX_STAGE_MIR for one that was lowered and for what passes and
    transforms make of it. Adding a block to the latter, or an op whose body has one, is an error (STAGE). */
FLX_API flx_stage flx_graph_stage(const flx_graph *g);

typedef enum flx_policy {
    FLX_POLICY_DIRECT = 0,  /* a block becomes fused ops where there are some, else primitive ops */
    FLX_POLICY_FUSABLE = 1, /* primitive ops, in the form that fusion recognises; fused_linear stays one op */
    FLX_POLICY_FOR_AUTODIFF =
        2 /* no fused op at all: whatever has a derivative has a rule for it, not a decomposition */
} flx_policy;

/** The graph without blocks, bodies included; values do not change by a bit, whatever the policy. Inputs, outputs,
    names of values and pins stay. The result is of stage MIR; the caller frees it. NULL on failure. */
FLX_API flx_graph *flx_lower(const flx_graph *g, flx_policy policy, flx_error *err);

/* ---- Fusing ---- */

#define FLX_FUSE_PATTERN_MAP(X)                                           \
    X(SOFTMAX, 0, "softmax")                                              \
    X(LOG_SOFTMAX, 1, "log_softmax")                                      \
    X(NORM, 2, "norm")                   /* layer_norm, rms_norm */       \
    X(CROSS_ENTROPY, 3, "cross_entropy") /* of log_softmax, take_along */ \
    X(RESIDUAL_NORM, 4, "residual_norm") /* add, then a norm */           \
    X(ATTENTION, 5, "attention")                                          \
    X(SWIGLU, 6, "swiglu")                                                \
    X(CONV_BIAS, 7, "conv_bias")     /* and an activation */              \
    X(MATMUL_BIAS, 8, "matmul_bias") /* and an activation */              \
    X(MATMUL_RESIDUAL, 9, "matmul_residual")                              \
    X(REGION, 10, "elementwise_region")

typedef enum flx_fuse_pattern {
#define FLX_FUSE_PATTERN_ENUM(name, value, text) FLX_FUSE_##name = value,
    FLX_FUSE_PATTERN_MAP(FLX_FUSE_PATTERN_ENUM)
#undef FLX_FUSE_PATTERN_ENUM
} flx_fuse_pattern;

enum { FLX_FUSE_PATTERN_ROOM = 32, FLX_FUSE_MISS_ROOM = 32 };

/* Flags of flx_fuse. Runs of pointwise ops become elementwise_region in the graph itself, not in bodies. */
enum {
    FLX_FUSE_EXACT = 1,   /* only what gives the same bits */
    FLX_FUSE_REGIONS = 2, /* runs of pointwise ops as well */
    FLX_FUSE_CLEAN = 4    /* a near miss is an error (CHECK) */
};

typedef struct flx_fuse_options {
    uint32_t struct_size; /* sizeof(flx_fuse_options); 0 means the first published layout */
    uint32_t flags;       /* FLX_FUSE_… */
} flx_fuse_options;

typedef struct flx_near_miss {
    uint32_t pattern; /* a flx_fuse_pattern */
    char where[64];   /* the value that would have been fused */
    char reason[176];
} flx_near_miss;

typedef struct
    flx_fuse_report {    /* the caller's; filled on success, and with FLX_FUSE_CLEAN when there are near misses */
    uint32_t miss_count; /* near misses, of which as many are told as there is room for */
    uint32_t fused[FLX_FUSE_PATTERN_ROOM]; /* how often, by flx_fuse_pattern */
    flx_near_miss misses[FLX_FUSE_MISS_ROOM];
} flx_fuse_report;

/** "softmax"; NULL when there is no such pattern. */
FLX_API const char *flx_fuse_pattern_name(uint32_t pattern);

/** The graph, simplified, with patterns of primitive ops replaced by the ops that mean them, in bodies too, until none
    is left. A pattern is replaced only if the op's decomposition stands in the graph and nothing else reads what is
    inside: outputs and pinned values stay. Values change by rounding where a pattern is spelled in another way (x /
    sqrt(v) for x rsqrt(v)), and attention gives 0 instead of NaN to a query whose mask or bias allows no key;
    FLX_FUSE_EXACT takes neither. flx_lower with FLX_POLICY_FOR_AUTODIFF undoes it. `options` and `report` may be NULL.
    The caller frees the graph; NULL on failure. */
FLX_API flx_graph *flx_fuse(const flx_graph *g, const flx_fuse_options *options, flx_fuse_report *report,
                            flx_error *err);

FLX_END_DECLS
#endif
