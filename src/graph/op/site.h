/* SPDX-License-Identifier: Apache-2.0 */
/* site.h: a node being differentiated, batched or decomposed, as the rule of an op sees it; and the helpers that rules
   use.

   A rule appends nodes to `g`. It reads like its formula: builders (fluxion/ops.h) return values, the graph keeps the
   first error, so there is no error plumbing. FLX_NONE stands for a symbolic zero: a cotangent or tangent that is zero
   and is never materialised. The caller sums a cotangent over the axes its operand was stretched along, and checks that
   its type is the operand's. */
#ifndef FLXI_SITE_H
#define FLXI_SITE_H

#include "graph/graph.h"
#include "graph/op/origin.h"

#include <fluxion/ops.h>

/* The vjp of a body in two parts, borrowed from the transform; forward is NULL where the parts would exchange too many
   values. */
typedef struct {
    flx_graph *forward; /* inputs of the body → its outputs, then the values that are kept */
    flx_graph *backward; /* inputs of the body, kept values, a cotangent for each output that can have one → a cotangent
                            for each wanted input */
    uint32_t kept;
} flxi_split_body;

/* What a transform has made of bodies so far (autodiff/body/body_memo.h). */
typedef struct flxi_body_memo flxi_body_memo;

/* Transforms of sub-graphs, for the rules of control flow; src/autodiff fills this in. Each returns a new graph that
   the caller frees, or NULL with the error in the graph being built. */
typedef struct {
    /* Inputs: those of body, then a cotangent for each output k with seeded[k]. Outputs: a cotangent for each input i
       with wanted[i], zeros where none arrives. */
    flx_graph *(*vjp)(flxi_site *s, const flx_graph *body, const bool *seeded, const bool *wanted);
    /* Inputs: those of body, then a tangent for each input i with active[i]. Outputs: those of body, then a tangent for
       each output, zeros where none arrives. Outputs of integer dtype have none. */
    flx_graph *(*jvp)(flxi_site *s, const flx_graph *body, const bool *active);
    /* Inputs i with batched[i] have a leading axis of extent s->size, and so does every output k with out[k] (set by
       the call where `fixed` is false; otherwise forced: an unbatched output is expanded). */
    flx_graph *(*vmap)(flxi_site *s, const flx_graph *body, const bool *batched, bool *out, bool fixed);
    /* False with the error in the graph being built. */
    bool (*split)(flxi_site *s, const flx_graph *body, const bool *wanted, flxi_split_body *out);
    /* Simplifies a body that a rule has built; consumes the given graph. */
    flx_graph *(*simplify)(flxi_site *s, flx_graph *body);
    /* Whether the body is linear in its inputs i with linear_in[i], by its structure; false: the graph being built has
       the error, which calls the body `what`. */
    bool (*check_linear)(flxi_site *s, const flx_graph *body, const bool *linear_in, const char *what);
    /* vjp: v, which has the shape of the only result, with zeros where its cotangent is known to be zero although
       something there may be infinite (autodiff/masks.h). For rules that multiply v and sum over elements that share an
       operand; v itself where nothing is lost by that. */
    flx_val (*restore_zeros)(flxi_site *s, flx_val v);
    /* The rule of one mode by transposing that of the other, for ops that find out at the node which of them they
       have. */
    void (*jvp_from_vjp)(flxi_site *s, const flx_val *tx, flx_val *ty);
    void (*vjp_from_jvp)(flxi_site *s, const flx_val *dy, flx_val *dx);
} flxi_body_transforms;

extern const flxi_body_transforms flxi_bodies; /* of autodiff/body/body_transforms.c */

struct flxi_site {
    flx_graph *g;
    flx_context *ctx;
    const flxi_op *op;
    const void *attrs; /* of the node; do not change: copy with flxi_site_attrs */
    uint32_t nin, nout;
    const flx_val *x;     /* operands, in g */
    const flx_val *y;     /* results, in g; not set for decompose and batch */
    const bool *wanted;   /* vjp: the operands that need a cotangent */
    const flx_val *saved; /* vjp: what the op's primal rule kept */
    bool bounded;         /* vjp: a loop without a bound is an error, in bodies too */
    bool backward_ops;    /* vjp: dedicated backward ops are wanted, in bodies too */
    const void *zeros;    /* vjp: for bodies->restore_zeros() */
    flx_val *new_y;       /* jvp: a rule that recomputes the results along with their tangents stores them here */
    const bool *batched;  /* batch: operands with a leading batch axis */
    bool *by_batched;     /* batch: results with a leading batch axis; all true unless the rule changes it */
    flx_dim size;         /* batch: its extent */
    const flxi_body_transforms *bodies;
    flxi_body_memo *memo; /* NULL: nothing is remembered */
};

static inline bool flxi_is_none(flx_val v)
{
    return v.id == 0;
}

static inline const flx_type *flxi_typeof(const flxi_site *s, flx_val v)
{
    static const flx_type none = {.dtype = FLX_F32}; /* after an error: harmless, since the graph builds nothing more */
    const flx_type *t = flx_val_type(s->g, v);
    return t ? t : &none;
}

/* A site without a node, for transforms that build with the functions below. */
flxi_site flxi_plain_site(flx_graph *g);

/* ---- Emitting ---- */

/* The node's attributes, copied for change; NULL with the error in g. */
void *flxi_site_attrs(flxi_site *s);
/* The same op with these attributes (from flxi_site_attrs, or NULL: the node's own) on other operands. */
void flxi_append(flxi_site *s, void *attrs, const flx_val *x, uint32_t nin, flx_val *y);
/* One result. */
flx_val flxi_emit1(flxi_site *s, void *attrs, const flx_val *x, uint32_t nin);

/* Copies node i of src to g: operands and results are translated by `map` (ids of src to ids of g), labels and pins
   included. The operands have the same types in both graphs. */
flx_code flxi_graft(flx_graph *g, const flx_graph *src, uint32_t i, uint32_t *map, flx_error *err);

/* Inlines a graph: its inputs become `in`, its outputs are returned in `out`. */
void flxi_inline(flx_graph *g, const flx_graph *body, const flx_val *in, flx_val *out);

/* The same, but a body of more than `most` nodes, with those of bodies inside of it, is called: bodies that use
   bodies twice would otherwise double at every level. */
void flxi_inline_or_call(flx_graph *g, const flx_graph *body, size_t most, const flx_val *in, flx_val *out);

/* Room for n entries, zeroed, that lives as long as the graph being built; NULL with the error in it. */
#define flxi_rule_new(s, T, n) ((T *)flxi_rule_alloc((s), (size_t)(n), sizeof(T)))
void *flxi_rule_alloc(flxi_site *s, size_t n, size_t size);

/* Fails in the graph being built with "op 'label': …". */
void flxi_site_fail(flxi_site *s, flx_code code, const char *hint, const char *fmt, ...) FLX_PRINTF(4, 5);

/* ---- Values ---- */

/* A scalar constant of the dtype that `like` has. */
flx_val flxi_number(flxi_site *s, flx_val like, double x);
flx_val flxi_index_number(flxi_site *s, flx_dtype dtype, flx_dim d); /* a dimension as a scalar, symbolic or not */
flx_val flxi_full(flxi_site *s, const flx_type *type, double x);
flx_val flxi_zeros(flxi_site *s, const flx_type *type);
flx_val flxi_zeros_like(flxi_site *s, flx_val v);
flx_val flxi_or_zeros(flxi_site *s, flx_val v, flx_val like); /* v, or zeros like `like` where v is FLX_NONE */
/* The same with zeros of the type that derivatives of `like` have: f32 where it is an integer. */
flx_val flxi_or_zero_tangent(flxi_site *s, flx_val v, flx_val like);
/* a + b where either may be FLX_NONE. */
flx_val flxi_sum(flxi_site *s, flx_val a, flx_val b);
flx_val flxi_conj(flxi_site *s, flx_val v); /* v itself where it is real */
/* where(mask, v, 0) */
flx_val flxi_masked(flxi_site *s, flx_val mask, flx_val v);

/* The vjp of a pointwise op with partials or masks. */
void flxi_pointwise_vjp(flxi_site *s, const flx_val *dy, flx_val *dx);

/* ---- Shapes ---- */

flx_val flxi_reshape_to(flxi_site *s, flx_val v, int rank, const flx_dim *dims);
flx_val flxi_expand_to(flxi_site *s, flx_val v, int rank, const flx_dim *dims);
flx_val flxi_expand_like(flxi_site *s, flx_val v, const flx_type *type); /* v itself where it has the shape */
/* Sums v over the axes along which a tensor of type `to` was stretched to v's shape. */
flx_val flxi_unbroadcast(flxi_site *s, flx_val v, const flx_type *to);
flx_val flxi_sum_axes(flxi_site *s, flx_val v, flx_ints axes, bool keep_dims);
/* Moves axis `from` to position `to`; the others keep their order. */
flx_val flxi_move_axis(flxi_site *s, flx_val v, int from, int to);
/* Reinserts axes of extent 1 and stretches v to the type, undoing a reduction over `axes` of a tensor of that type. */
flx_val flxi_unreduce(flxi_site *s, flx_val v, flx_ints axes, bool keep_dims, const flx_type *type);

/* ---- Batching ---- */

/* The operand with a batch axis: expanded to one when it has none ("lift"). */
flx_val flxi_lift(flxi_site *s, uint32_t i);
/* Adds 1 to each entry of a list of axes in attributes from flxi_site_attrs. */
void flxi_shift_axes(flxi_site *s, flx_ints *axes);
/* The per-example rank of operand i. */
int flxi_example_rank(const flxi_site *s, uint32_t i);
/* A batched value whose examples get leading axes of extent 1 up to `rank` ("align"). */
flx_val flxi_align(flxi_site *s, flx_val v, bool batched, int rank);

#endif
