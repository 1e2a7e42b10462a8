/* SPDX-License-Identifier: Apache-2.0 */
/* autodiff.h: the engines of the public transforms. Each works on a prepared graph and one target graph. */
#ifndef FLXI_AUTODIFF_H
#define FLXI_AUTODIFF_H

#include "autodiff/body/body_memo.h"

#include <fluxion/transform.h>

/* ---- Reverse ---- */

typedef struct {
    const flx_graph *src; /* prepared */
    flx_graph *g;         /* gets the forward computation and the cotangents */
    uint32_t *map;        /* ids of src to ids of g; the caller fills in the leaves */
    const bool *wrt;      /* by id of src: cotangents are wanted for these */
    flx_val *cotangent;   /* by id of src: seeds in, cotangents of the wrt values out (FLX_NONE: none arrives) */
    bool *active;         /* by id: depends on a wrt value through derivatives that are not zero */
    flx_val **saved;      /* by node: what its primal rule kept */
    bool bounded;         /* a loop without a bound is an error */
    bool backward_ops;    /* dedicated backward ops are wanted; src is prepared for MODE_BACKWARD_OPS */
    flxi_body_memo *memo; /* of the transform around this one; NULL: its own */
    flxi_body_memo own;
} flxi_reverse;

/* Copies the forward computation, which completes `map`; sweeps backwards; frees active and saved. */
flx_code flxi_reverse_forward(flxi_reverse *r, flx_error *err);
flx_code flxi_reverse_sweep(flxi_reverse *r, flx_error *err);
void flxi_reverse_free(flxi_reverse *r);

/* ---- Forward ---- */

typedef struct {
    const flx_graph *src;
    flx_graph *g;
    uint32_t *map;
    flx_val *tangent;     /* by id of src: leaves are input, all others output */
    flxi_body_memo *memo; /* as above */
} flxi_forward;

flx_code flxi_forward_sweep(flxi_forward *f, flx_error *err);

/* The tangents of one node's results from those of its operands, with whichever rule the op has; false when it has
   none. */
bool flxi_append_jvp(flxi_site *s, const flx_val *tx, flx_val *ty);

/* ---- One mode from the other (transposed.c) ---- */

/* The tangents of a node's results from the op's vjp, and the cotangents of its operands from the op's jvp. */
void flxi_jvp_from_vjp(flxi_site *s, const flx_val *tx, flx_val *ty);
void flxi_vjp_from_jvp(flxi_site *s, const flx_val *dy, flx_val *dx);

/* Whether the outputs of a body are linear in the inputs i with linear_in[i], by its structure; if not, the error is in
   s->g. `what` is the body's name in the message. */
bool flxi_check_linear(flxi_site *s, const flx_graph *body, const bool *linear_in, const char *what);

/* ---- Batching ---- */

typedef struct {
    const flx_graph *src;
    flx_graph *g;
    uint32_t *map;
    bool *batched; /* by id of src: has a leading batch axis; leaves are input, all others output */
    flx_dim size;
    flxi_body_memo *memo; /* as above */
} flxi_batching;

flx_code flxi_batch_sweep(flxi_batching *b, flx_error *err);

/* ---- Leaves ---- */

/* Declares in g the leaves of src, with the types `type` gives (NULL: their own), and fills map. */
flx_code flxi_copy_leaves(const flx_graph *src, flx_graph *g, uint32_t *map, flx_error *err);

/* A new leaf called prefix + name, with the suffix _2, _3 … where that is taken. */
flx_val flxi_new_leaf(flx_graph *g, const char *prefix, const char *name, const flx_type *type);

/* ---- Rearranging finished graphs ---- */

typedef struct {
    size_t output;  /* of the given graph */
    char name[300]; /* "" keeps its name */
} flxi_choice;

/* A copy with these outputs in this order, simplified; and such a copy called `name`. */
flx_graph *flxi_choose_outputs(const flx_graph *g, const flxi_choice *choices, size_t n, flx_error *err);
flx_graph *flxi_choose_outputs_as(const flx_graph *g, const char *name, const flxi_choice *choices, size_t n,
                                  flx_error *err);

/* The names that a user gave to `function`: there are some, none is NULL, none is repeated. */
flx_code flxi_check_wrt(const char *function, const char *const *wrt, size_t count, flx_error *err);
/* Reads the options that a user gave to `function`. */
flx_code flxi_check_grad_options(const char *function, const flx_grad_options *given, flx_grad_options *out,
                                 flx_error *err);
/* The graph has an output to differentiate. */
flx_code flxi_check_loss(const flx_graph *g, flx_error *err);

/* An input, parameter or pinned value with respect to which one can differentiate. */
flx_code flxi_find_wrt(const flx_graph *g, const char *name, uint32_t *id, flx_error *err);

/* Simplifies *g, which is replaced. */
flx_code flxi_finish(flx_graph **g, flx_error *err);

/* ---- History and errors (history.c) ---- */

typedef struct {
    char s[300];
} flxi_name;

/* `name.suffix`, where suffix is the transform's; and an empty graph of that name, NULL when memory is exhausted. */
const char *flxi_derived_name(const flx_graph *g, const char *suffix, flxi_name *name);
flx_graph *flxi_derived_graph(const flx_graph *g, const char *suffix);

/* What a transform of `g` returns: `out`, or with an error NULL, where `err` says in which transform of which graph it
   arose, earlier transforms included. */
flx_graph *flxi_transformed(flx_graph *out, const flx_graph *g, const char *suffix, flx_error *local, flx_error *err);

/* "exp 'y' (f32[3])"; the name is the value's own where none is given. */
typedef struct {
    char s[160];
} flxi_value_text;
const char *flxi_value_str(const flx_graph *g, uint32_t id, const char *name, flxi_value_text *text);

/* Fails with NO_RULE for a node without a derivative in "reverse", "forward" or "Taylor" mode. */
flx_code flxi_no_rule(flx_error *err, const flx_graph *g, const flxi_node *n, const char *mode);

/* Fails with NAME and a hint that lists the inputs. */
flx_code flxi_no_input(flx_error *err, const flx_graph *g, const char *name);

/* Replaces the hints of flx_grad, which name its own options, for a transform that lacks these options. */
void flxi_without_options(flx_error *err);

#endif
