/* SPDX-License-Identifier: Apache-2.0 */
/* control.h: attributes of the ops with sub-graphs, and their derivative and batching rules: branch_rules.c,
   while_loop.c, scan_rules.c, custom_rules.c. */
#ifndef FLXI_CONTROL_H
#define FLXI_CONTROL_H

#include "graph/op/attr_access.h"
#include "graph/op/infer.h"
#include "graph/op/site.h"

typedef struct {
    const flx_graph *then_body, *else_body;
} if_attrs;

typedef struct {
    flx_graphs branches;
} case_attrs;

typedef struct {
    const flx_graph *cond, *body;
    int64_t max_iterations; /* FLXI_ABSENT: no bound */
} while_attrs;

typedef struct {
    const flx_graph *fwd_body, *vjp_body, *jvp_body;
    int64_t num_residuals;
    flx_ints zero_grads;
    int64_t recompute; /* reverse mode recomputes the intermediate values instead of keeping them */
} custom_attrs;

typedef struct {
    const flx_graph *body;
} call_attrs;

typedef struct {
    const flx_graph *body;
    int64_t num_carry, num_bcast, num_xs; /* num_xs absent: all remaining operands, which is its only legal value */
    flx_dim length;                       /* absent: the leading extent of the sequences */
    int64_t reverse, save_trajectory, num_checkpoints;
} scan_attrs;

typedef struct {     /* of the backward ops of scan */
    scan_attrs scan; /* first, so that the rules of scan can read it */
    const flx_graph *body_vjp;
    flx_ints wanted, seeded; /* flags per input and output of the body */
    int64_t i;               /* scan_backward_xs: which sequence */
} scan_backward_attrs;

/* For code outside the family: NULL where the node is another op. */
FLXI_ATTRS_VIEW(flxi_if_attrs, if_attrs, if)
FLXI_ATTRS_VIEW(flxi_call_attrs, call_attrs, call)
FLXI_ATTRS_VIEW(flxi_while_attrs, while_attrs, while)
FLXI_ATTRS_VIEW(flxi_scan_attrs, scan_attrs, scan)

/* Which of the branches of a `case` an index chooses: the last one when the index is out of range. */
uint32_t flxi_case_branch(int32_t dtype, const void *index, uint32_t branches);

/* The row of a saved trajectory that holds the carry after step number `step` (in walking order) of `length`; -1: none
   does. */
int64_t flxi_trajectory_row(const scan_attrs *a, int64_t length, int64_t step);

void flxi_vjp_if(flxi_site *s, const flx_val *dy, flx_val *dx);
void flxi_jvp_if(flxi_site *s, const flx_val *tx, flx_val *ty);
void flxi_batch_if(flxi_site *s, flx_val *by);
void flxi_vjp_case(flxi_site *s, const flx_val *dy, flx_val *dx);
void flxi_jvp_case(flxi_site *s, const flx_val *tx, flx_val *ty);
void flxi_batch_case(flxi_site *s, flx_val *by);
void flxi_vjp_while(flxi_site *s, const flx_val *dy, flx_val *dx);
void flxi_jvp_while(flxi_site *s, const flx_val *tx, flx_val *ty);
void flxi_batch_while(flxi_site *s, flx_val *by);
uint32_t flxi_saved_scan(flxi_site *s);
void flxi_primal_scan(flxi_site *s, flx_val *y, flx_val *saved);
void flxi_vjp_scan(flxi_site *s, const flx_val *dy, flx_val *dx);
void flxi_backward_vjp_scan(flxi_site *s, const flx_val *dy, flx_val *dx);
void flxi_jvp_scan(flxi_site *s, const flx_val *tx, flx_val *ty);
void flxi_batch_scan(flxi_site *s, flx_val *by);
uint32_t flxi_saved_custom(flxi_site *s);
void flxi_primal_custom(flxi_site *s, flx_val *y, flx_val *saved);
void flxi_vjp_custom(flxi_site *s, const flx_val *dy, flx_val *dx);
void flxi_jvp_custom(flxi_site *s, const flx_val *tx, flx_val *ty);
void flxi_batch_custom(flxi_site *s, flx_val *by);

/* The values that take part in the backward scan. */
typedef struct {
    bool *varies;      /* per carry: floating */
    bool *seeded;      /* per body output: has a cotangent */
    bool *wanted;      /* per body input: a cotangent is computed */
    bool *has_rows;    /* per carry: a trajectory's cotangent arrives row by row */
    uint32_t dcarries; /* floating carries */
    uint32_t dbcasts;  /* wanted broadcast inputs */
} flxi_backward_plan;

/* From the flags of the attributes; false when memory is exhausted. */
bool flxi_plan_of(flxi_site *s, const scan_backward_attrs *a, flxi_backward_plan *p);

/* The scan at a site (its operands and attributes), for the carries before each step. */
void flxi_scan_record(flxi_site *s, flx_val *saved);
/* Its backward scan: `saved` are the carries before each step, dy the cotangents by output; the sums of the cotangents
   of wanted broadcast inputs begin with `sums` (NULL: zeros); y receives one for each wanted input of the body. */
void flxi_scan_back(flxi_site *s, const flxi_backward_plan *p, const flx_graph *vjp, const flx_val *saved,
                    const flx_val *dy, const flx_val *sums, flx_val *y);

/* scan_replay_backward as scans over segments (scan_segments.c). */
void flxi_decompose_replay(flxi_site *s, const flxi_backward_plan *p, flx_val *y);
/* A scan that such an op, *partner, reverses, as the first of its scans; NULL: it is not such a scan. */
flxi_expansion flxi_scan_beside_replay(const flx_graph *g, uint32_t node, uint32_t *partner);

/* Of operands in the order carries, broadcast inputs, sequences, cotangents: counts, types, both bodies. `step`
   receives the types that one step sees. */
flx_code flxi_check_backward(flxi_infer *f, const scan_backward_attrs *a, const flx_type **step);

/* ---- For reverse mode (autodiff/body/needs.c) ---- */

/* Of an `if` or `case`: whether it takes branch i, as a boolean scalar. */
flx_val flxi_branch_taken(flxi_site *s, size_t i);
/* Whether flxi_loop_again() knows the op. */
bool flxi_can_loop_again(const flxi_node *n);
/* The scan or while loop of the site once more, with other bodies (test: of a while loop) and operands. */
void flxi_loop_again(flxi_site *s, const flx_graph *round, const flx_graph *test, uint32_t carries, const flx_val *in,
                     uint32_t nin, flx_val *out, uint32_t nout);

/* ---- Shared by these rules (body_work.c) ---- */

bool flxi_can_vary(const flx_type *t); /* floating or complex: has derivatives */

/* A graph with these inputs (NULL names: x, x_2 …) to be filled by the caller; NULL with the error in s->g. */
flx_graph *flxi_new_body(flxi_site *s, const char *name);
/* One more input, named after the letter and its position. */
flx_val flxi_declare(flx_graph *g, char letter, const flx_type *t);
/* The error of a body under construction goes to the graph being built; then frees the body and returns NULL. */
flx_graph *flxi_finish_body(flxi_site *s, flx_graph *body);

#endif
