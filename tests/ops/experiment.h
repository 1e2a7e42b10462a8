/* SPDX-License-Identifier: Apache-2.0 */
/* experiment.h: one sample of the op table, set up so that the laws of derivatives can be tested on it. For an op with
   results y_k the experiment builds the loss L = Σ_k Σ Re(conj(w_k) y_k) with random weights w_k, so that one number
   stands for all of the op, and its gradient is the op's vjp with the cotangents w_k. Every operand that has a
   derivative gets two random directions. Symbolic samples are transformed unchanged and run with their symbols
   bound. */
#ifndef FLX_EXPERIMENT_H
#define FLX_EXPERIMENT_H

#include "sample.h"

enum { MAX_LEAVES = 64, MAX_NAMES = 16, MAX_OUT = 64, MAX_OPERANDS = 14 };

/* ---- Named values ---- */

typedef struct {
    char name[MAX_LEAVES][64];
    flx_tensor *value[MAX_LEAVES];
    size_t n;
} bag;

void bag_put(bag *b, const char *name, flx_tensor *t); /* takes ownership of t */
flx_tensor *bag_get(const bag *b, const char *name);   /* NULL when there is none */
void bag_free(bag *b);

/* ---- The experiment ---- */

typedef struct {
    const sample_case *c;
    flx_context *ctx;
    flx_module *m;
    const flx_graph *g;   /* the op alone: operands a0, a1 … */
    flx_graph *loss;      /* operands and weights w0, w1 … */
    bool weighs[MAX_OUT]; /* the results that the loss takes in */
    bag in;               /* values of those inputs, and the directions tangent_<a> and tangent_<a>_2 */
    char wrt[MAX_NAMES][64];
    const char *names[MAX_NAMES]; /* the operands that are differentiated */
    size_t count;
    flx_dim_binding dims[8];
    size_t num_dims;
    double size; /* of the quantities compared: for relative errors */
} experiment;

/* Only the op's graph and the extents of its symbols; false when it does not parse or is too large. */
bool experiment_parse(experiment *x, const sample_case *c);

/* For f64 and c128. False when there is nothing to differentiate. In either case experiment_end() frees it. */
bool experiment_begin(experiment *x, const sample_case *c);

/* The same in a narrower dtype, at the same values, which that dtype must hold; false when the op does not take it. */
bool experiment_begin_narrow(experiment *x, const sample_case *c, const experiment *wide);

void experiment_end(experiment *x);

/* The case as derivatives are compared: in f64 or c128, which `c` is changed to where the sample names its dtypes.
   False for another dtype and for a sample that must fail. */
bool experiment_is_wide(sample_case *c);

/* Runs g on the values by the names of its inputs; a failure is reported and false. */
bool experiment_run(const experiment *x, const flx_graph *g, const bag *values, flx_tensor **out);

/* The gradient of a one-output graph with respect to all names, zeros where there is none. */
flx_graph *experiment_gradient(const experiment *x, const flx_graph *l, flx_error *err);

/* Reports and returns false where a transform failed or made a graph that does not verify. */
bool experiment_made(const flx_graph *g, const char *what, const flx_error *err);

/* ---- Numbers ---- */

int experiment_parts(int32_t dtype); /* 2 for complex dtypes, else 1 */

/* Re <a, b> of two f64 or c128 tensors: the pairing under which cotangents are gradients. */
double experiment_pair(const flx_tensor *a, const flx_tensor *b);

/* f64 or c128, in [-1, 1). */
flx_tensor *experiment_random(flx_context *ctx, const flx_type *type, uint64_t *state);

bool experiment_close(double a, double b, double tolerance, double size);

/* Elementwise, relative to the largest element; reports what differs. */
bool experiment_same(const flx_tensor *a, const flx_tensor *b, double tolerance, const char *what);

void release_all(flx_tensor **t, size_t n);

/* ---- Laws ---- */

/* Tests a law on one sample and returns the number of cases; `dry` only counts them. */
typedef size_t (*op_law)(const sample_case *c, bool dry);

size_t law_of_modes(const sample_case *c, bool dry);         /* derivatives.c */
size_t law_of_jacobians(const sample_case *c, bool dry);     /* derivatives.c */
size_t law_of_symmetry(const sample_case *c, bool dry);      /* derivatives.c */
size_t law_of_batching(const sample_case *c, bool dry);      /* batching.c */
size_t law_of_commuting(const sample_case *c, bool dry);     /* batching.c */
size_t law_of_precision(const sample_case *c, bool dry);     /* precision.c */
size_t precision_cases(const sample_case *c, int32_t dtype); /* those in one dtype */

/* Whether the op has a derivative that is not zero by definition: the laws about its values need one. */
bool law_needs_derivative(flxi_opcode op);

/* Whether its second derivatives are those of a function. */
bool law_has_hessian(flxi_opcode op);

/* Whether integers are on one side of it, so that the laws find nothing to differentiate: tests/ops/quant/quant.c tries
   them on chains. */
bool law_has_only_shadows(flxi_opcode op);

/* Ops whose derivatives lose digits that the problem does not lose, and why. */
typedef struct {
    flxi_opcode op;
    const char *reason;
} precision_exception;

const precision_exception *precision_exceptions(size_t *n);

/* Why batching an op changes bits, or NULL. */
const char *batching_exception(flxi_opcode op);

/* Examples of a batch draw from streams of their own (tests/ops/random/random.c), which a loop over single examples
   cannot reproduce. */
bool batching_has_streams(flxi_opcode op);

/* One case in laws_share, others with each seed. */
bool law_is_its_turn(void);
/* sample_each() with a law, for those whose turn it is; checks that it tries as many cases as it counts. */
void try_law(op_law law);

#endif
