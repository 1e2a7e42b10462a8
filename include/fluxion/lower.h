/* SPDX-License-Identifier: Apache-2.0 */
/* fluxion/lower.h: the stages of a graph, and the way from the first to the second.

   HIR is what the user writes: all ops, among them composites such as `linear` and `gated_ffn` that only HIR has. MIR
   has the other ops; compiling and all transforms work on it. A composite means its decomposition (docs/ops.md), so it
   can be run, differentiated and batched without lowering: lowering chooses what it becomes, and shows it. */
#ifndef FLUXION_LOWER_H
#define FLUXION_LOWER_H

#include <fluxion/graph.h>

FLX_BEGIN_DECLS

typedef enum flx_stage {
    FLX_STAGE_HIR = 1, /* all ops */
    FLX_STAGE_MIR = 2, /* without the composites of HIR */
    FLX_STAGE_LIR = 3, /* steps with planned memory */
    FLX_STAGE_C = 4    /* text of kernels */
} flx_stage;

/** FLX_STAGE_HIR for a graph as it is built or read; FLX_STAGE_MIR for one that was lowered and for the results of
    passes and transforms. Adding a composite of HIR to the latter, or an op whose body has one, is an
    error (STAGE). */
FLX_API flx_stage flx_graph_stage(const flx_graph *g);

/* What composites of HIR become. */
typedef enum flx_policy {
    FLX_POLICY_DIRECT = 0,      /* composites of MIR where there are some, else primitive ops */
    FLX_POLICY_FUSABLE = 1,     /* primitive ops, in the form that pattern rewrites recognise; fused_linear stays */
    FLX_POLICY_FOR_AUTODIFF = 2 /* no composite: whatever has a derivative has a rule for it, not a decomposition */
} flx_policy;

/** The graph without the composites of HIR, bodies included. No value changes by a bit, whatever the policy; inputs,
    outputs, names of values and pins stay. The result is of stage MIR; the caller releases it. NULL on failure. */
FLX_API flx_graph *flx_lower(const flx_graph *g, flx_policy policy, flx_error *err);

/* ---- Pattern rewrites (experimental: patterns and the report may change) ---- */

#define FLX_PATTERN_MAP(X)                                                \
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
    X(REGION, 10, "elementwise_region")                                   \
    X(BATCH_REGION, 11, "batch_elementwise_region") /* equal regions on slices */

typedef enum flx_pattern {
#define FLX_PATTERN_ENUM(name, value, text) FLX_PATTERN_##name = value,
    FLX_PATTERN_MAP(FLX_PATTERN_ENUM)
#undef FLX_PATTERN_ENUM
} flx_pattern;

enum { FLX_PATTERN_ROOM = 32, FLX_NEAR_MISS_ROOM = 32 };

/* Flags of flx_rewrite_options. */
enum {
    FLX_REWRITE_EXACT = 1,   /* only what gives the same bits */
    FLX_REWRITE_REGIONS = 2, /* runs of pointwise ops too, as elementwise_region, and equal ones on slices that are
                                joined again, as batch_elementwise_region; in the graph itself, not in bodies */
    FLX_REWRITE_CLEAN = 4    /* a near miss is an error (CHECK) */
};

typedef struct flx_rewrite_options {
    uint32_t struct_size; /* sizeof(flx_rewrite_options); 0: the layout of version 0.2 */
    uint32_t flags;       /* FLX_REWRITE_… */
} flx_rewrite_options;

typedef struct flx_near_miss {
    uint32_t pattern; /* a flx_pattern */
    char where[64];   /* the value that would have been replaced */
    char reason[176];
} flx_near_miss;

/* The caller's; filled on success, and with FLX_REWRITE_CLEAN when there are near misses. */
typedef struct flx_rewrite_report {
    uint32_t miss_count;                  /* near misses, of which `misses` has the first */
    uint32_t rewritten[FLX_PATTERN_ROOM]; /* how often, by flx_pattern */
    flx_near_miss misses[FLX_NEAR_MISS_ROOM];
} flx_rewrite_report;

/** "softmax"; NULL when there is no such pattern. */
FLX_API const char *flx_pattern_name(uint32_t pattern);

/** The graph, simplified, with patterns of primitive ops replaced by the ops that mean them, in bodies too, until none
    is left. A pattern is replaced only if the op's decomposition is in the graph and nothing else reads what is
    inside: outputs and pinned values stay. Values change by rounding where a pattern is spelled in another way (x /
    sqrt(v) for x rsqrt(v)), and attention gives 0 instead of NaN to a query whose mask or bias allows no key;
    FLX_REWRITE_EXACT does neither. flx_lower with FLX_POLICY_FOR_AUTODIFF undoes it. `options` and `report` may be
    NULL. The caller releases the graph; NULL on failure. */
FLX_API flx_graph *flx_rewrite_patterns(const flx_graph *g, const flx_rewrite_options *options,
                                        flx_rewrite_report *report, flx_error *err);

FLX_END_DECLS
#endif
