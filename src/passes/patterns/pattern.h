/* SPDX-License-Identifier: Apache-2.0 */
/* pattern.h: pattern rewrites, as a pattern sees them. A pattern looks at a node, the root, and proposes: "this op, on
   these operands, with these attributes, would give the root's value". A proposal may be wrong, since it is used only
   after a proof: the op's own decomposition is built on operands of those types, and the graph must contain exactly
   that (pattern_match.c). So a pattern is a few unchecked steps up the graph, and no mistake in it can change a
   value. */
#ifndef FLXI_PATTERN_H
#define FLXI_PATTERN_H

#include "graph/op/attr_access.h"
#include "ops/opcode.h"

#include <fluxion/lower.h>
#include <fluxion/ops.h>

enum { FLXI_MOST_OPERANDS = 6, FLXI_MOST_ATTRS = 12 };

typedef enum { VIEW_NONE, VIEW_RESHAPE, VIEW_TRANSPOSE } flxi_view;

typedef struct { /* an operand: a value of the graph, perhaps in another shape */
    uint32_t id;
    flxi_view view;
    int rank;
    int64_t dims[FLX_MAX_RANK]; /* the shape, or the permutation */
} flxi_pattern_operand;

typedef struct flxi_proposal flxi_proposal;

/* The meaning of the op for a pattern that accepts graphs which differ from the decomposition in corner cases. */
typedef flx_val (*flxi_plain)(flx_graph *g, const flx_val *x, const flxi_proposal *p);

struct flxi_proposal {
    flxi_opcode op;
    uint32_t nin;
    flxi_pattern_operand in[FLXI_MOST_OPERANDS];
    size_t nattrs;
    flx_attr attrs[FLXI_MOST_ATTRS]; /* what they point to must live as long as the graph */
    flxi_plain plain;                /* NULL: the decomposition */
    const char *differs;             /* with `plain`: how it differs, for the report */
    const void *user;                /* for `plain` */
    bool stops_cancel;               /* a stop_gradient of the decomposition may be missing: what it stops is zero */
};

typedef struct flxi_rewriting flxi_rewriting; /* rewrite_patterns.c: one graph, one round */

const flx_graph *flxi_fused_graph(const flxi_rewriting *f);

/* Proves the proposal for the current root. True: it will be rewritten, and nothing more should be proposed. Otherwise
   the reason is kept for the report. */
bool flxi_propose(flxi_rewriting *f, const flxi_proposal *p);

/* ---- Patterns: each proposes for one root ---- */

typedef void (*flxi_pattern)(flxi_rewriting *f, uint32_t root);

void flxi_pattern_softmax(flxi_rewriting *f, uint32_t root);
void flxi_pattern_log_softmax(flxi_rewriting *f, uint32_t root);
void flxi_pattern_norm(flxi_rewriting *f, uint32_t root); /* layer_norm and rms_norm */
void flxi_pattern_residual_norm(flxi_rewriting *f, uint32_t root);
void flxi_pattern_cross_entropy(flxi_rewriting *f, uint32_t root);
void flxi_pattern_matmul_bias(flxi_rewriting *f, uint32_t root);
void flxi_pattern_matmul_residual(flxi_rewriting *f, uint32_t root);
void flxi_pattern_conv_bias(flxi_rewriting *f, uint32_t root);
void flxi_pattern_swiglu(flxi_rewriting *f, uint32_t root);
void flxi_pattern_attention(flxi_rewriting *f, uint32_t root);

/* ---- Looking at a graph ---- */

static inline const flxi_node *flxi_maker(const flx_graph *g, uint32_t id)
{
    return flxi_node_of(g, id);
}

/* The node that makes a value, if it is this op; else NULL. */
static inline const flxi_node *flxi_made_by(const flx_graph *g, uint32_t id, flxi_opcode op)
{
    const flxi_node *n = flxi_maker(g, id);
    return n->op == op ? n : NULL;
}

/* The one real number that all elements have. */
bool flxi_known_number(const flx_graph *g, uint32_t id, double *x);

/* Whether the value is a reshape of another, with its elements in the same order; *base becomes the other one. */
bool flxi_is_reshaped(const flx_graph *g, uint32_t id, uint32_t *base);
/* The same through any number of reshapes. */
uint32_t flxi_reshaped_from(const flx_graph *g, uint32_t id);

/* An operand that is v as a vector of n elements, whatever broadcast shape v has. */
bool flxi_as_vector(const flx_graph *g, uint32_t v, flx_dim n, flxi_pattern_operand *out);

/* ---- Building proposals ---- */

static inline flxi_pattern_operand flxi_whole(uint32_t id)
{
    return (flxi_pattern_operand){.id = id};
}

void flxi_propose_attr(flxi_proposal *p, flx_attr a);
/* All attributes of n that the proposed op has under the same name. */
void flxi_propose_attrs_of(flxi_proposal *p, const flxi_node *n);
/* A real attribute, with the fewest digits that give the same number in the dtype. */
double flxi_short_number(int32_t dtype, double x);

/* The activation that the op is; FLXI_ACT_none when it is not an activation. */
int64_t flxi_activation_of(flxi_opcode op);

/* ---- Proving (pattern_match.c) ---- */

typedef struct {
    bool found;
    bool differs;    /* something is equal in real arithmetic only */
    uint32_t *nodes; /* of the graph, covered by the pattern; the caller frees them */
    size_t n, cap;
    uint32_t culprit; /* not found: the value that does not fit, and the op expected there */
    flxi_opcode wanted;
} flxi_agreement;

/* Whether value `root` of g is the value of output 0 of `pattern`, whose leaf i stands for value in[i] of g. */
flx_code flxi_agree(const flx_graph *pattern, const uint32_t *in, const flx_graph *g, uint32_t root, bool stops_cancel,
                    flxi_agreement *out, flx_error *err);

/* ---- Regions (elementwise_regions.c) ---- */

/* Runs of pointwise ops as elementwise_region; *count grows by their number. */
flx_code flxi_rewrite_regions(const flx_graph *in, flx_graph **out, uint32_t *count, flx_error *err);
/* Equal regions on slices that are joined again, as batch_elementwise_region (batch_regions.c). */
flx_code flxi_batch_regions(const flx_graph *in, flx_graph **out, uint32_t *count, flx_error *err);

#endif
