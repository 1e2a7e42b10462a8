/* SPDX-License-Identifier: Apache-2.0 */
/* eval.h: reference evaluation, seen from the rule of an op.

   Operands and results are dense, row-major, of static shape; results come zeroed, except those of exchanges
   (TRAIT_EXCHANGES). The rule must be total: whatever the values are, it stays inside the buffers. Loops that may take
   long poll base/host/stop.h: what a rule computes after that is not used. Rules are plain and slow on purpose: they
   define the correct results. */
#ifndef FLXI_EVAL_H
#define FLXI_EVAL_H

#include "graph/op/op.h"
#include "graph/type/tensor.h"

typedef struct flxi_run flxi_run; /* backend/ref */

struct flxi_eval {
    const flxi_op *op;
    const char *label;                /* or NULL */
    const struct flxi_origin *origin; /* of the node, or NULL: messages name it instead (graph/op/origin.h) */
    const void *attrs;
    uint32_t nin, nout;
    const flx_tensor *const *in;
    flx_tensor *const *out;
    const flxi_allocator *mem; /* for scratch; free it on every path */
    flxi_run *run;
    flx_error *err;
    /* Runs a sub-graph on the given inputs and makes its outputs (the caller releases them). Set by the evaluator. */
    flx_code (*run_body)(flxi_eval *e, const flx_graph *body, const flx_tensor *const *in, flx_tensor **out);
    void (*print)(flxi_eval *e, const char *message, const flx_tensor *value);
    void (*report)(flxi_eval *e, uint32_t status); /* FLX_RUN_… of fluxion/run.h */
    uint64_t *started; /* not NULL: an exchange with other processes may still run when the evaluation returns; its
                          number goes here (flxi_mesh.start) */
};

/* Fails with "op 'label': …". */
flx_code flxi_eval_fail(flxi_eval *e, flx_code code, const char *hint, const char *fmt, ...) FLX_PRINTF(4, 5);

/* ---- Elements ---- */

/* One element in the arithmetic of its kind: floats as double, complex as double complex, integers and bool as int64_t
   (u64 by its bits). */
typedef union {
    double f;
    double _Complex c;
    int64_t i;
} flxi_num;

/* The arithmetic of a dtype. Loads widen; stores round once (floats) or wrap (integers). Integer results need no
   wrapping in between except where noted. On bool, add and max are or, mul and min are and. */
typedef struct {
    int32_t dtype;
    flxi_num (*load)(const void *base, int64_t i);
    void (*store)(void *base, int64_t i, flxi_num x);
    flxi_num (*add)(flxi_num a, flxi_num b);
    flxi_num (*sub)(flxi_num a, flxi_num b);
    flxi_num (*mul)(flxi_num a, flxi_num b);
    flxi_num (*max)(flxi_num a, flxi_num b); /* NaN wins; NULL for complex */
    flxi_num (*min)(flxi_num a, flxi_num b); /* NaN wins; NULL for complex */
    bool (*less)(flxi_num a, flxi_num b);    /* false with NaN; NULL for complex */
    bool (*equal)(flxi_num a, flxi_num b);
    flxi_num zero, one;
    flxi_num lowest, highest; /* identities of max and min: -inf, +inf; integer limits */
    /* Sums (docs/numerics.md, "Sums and products"): f16 and bf16 accumulate in f32 (rounded at each step), others in
       double, complex double or 64-bit integers. */
    flxi_num (*accumulate)(flxi_num sum, flxi_num x);
} flxi_arith;

const flxi_arith *flxi_arith_of(int32_t dtype);

/* One element as double (real part of complex), as integer (floats truncated, saturated, NaN 0), as complex. */
double flxi_load_double(int32_t dtype, const void *base, int64_t i);
int64_t flxi_load_int(int32_t dtype, const void *base, int64_t i);
double _Complex flxi_load_complex(int32_t dtype, const void *base, int64_t i);
void flxi_store_double(int32_t dtype, void *base, int64_t i, double x);
void flxi_store_int(int32_t dtype, void *base, int64_t i, int64_t x); /* wraps; floats: rounds */
void flxi_store_complex(int32_t dtype, void *base, int64_t i, double _Complex x);
/* Nonzero and, for control flow, not NaN. */
bool flxi_load_truth(int32_t dtype, const void *base, int64_t i);
/* `cast` of one element. */
void flxi_cast_element(int32_t from, const void *src, int64_t i, int32_t to, void *dst, int64_t j);
/* One element as a literal of the text form: `1.5`, `true`, `[1, -2]`. */
void flxi_write_element(flxi_strbuf *out, int32_t dtype, const void *base, int64_t i);
/* x wrapped to the width of an integer dtype (bool: nonzero). */
int64_t flxi_wrap_int(int32_t dtype, int64_t x);

/* ---- Positions ---- */

/* Row-major strides in elements; returns the element count. */
int64_t flxi_strides(const flx_type *t, int64_t strides[FLX_MAX_RANK]);
/* Strides that walk `t` broadcast to `to`: 0 where it stretches. */
void flxi_broadcast_strides(const flx_type *t, const flx_type *to, int64_t strides[FLX_MAX_RANK]);
/* Next multi-index in row-major order over dims; false after the last, or when the run is stopped (base/host/stop.h).
   Start from all zeros, and only if no dim is 0. */
bool flxi_next(int64_t *index, const flx_dim *dims, int rank);
/* Element offset of a multi-index. */
static inline int64_t flxi_offset(const int64_t *index, const int64_t *strides, int rank)
{
    int64_t at = 0;
    for (int k = 0; k < rank; k++)
        at += index[k] * strides[k];
    return at;
}

/* A tensor as [outer, n, inner] around one axis: element (o, k, i) is at (o*n + k)*inner + i. */
typedef struct {
    int64_t outer, n, inner;
} flxi_split;
flxi_split flxi_split_at(const flx_type *t, int64_t axis);

/* One index of an index operand under the policy `oob` for `extent` valid positions (docs/numerics.md, "Indices out of
   range"). */
typedef enum { OOB_ERROR, OOB_ZERO, OOB_CLAMP } flxi_oob; /* order of the words "error zero clamp" */
/* *at receives the position, or -1 when the element is dropped (OOB_ZERO). Fails with INDEX. */
flx_code flxi_resolve_index(flxi_eval *e, const flx_tensor *idx, int64_t i, int64_t extent, flxi_oob policy,
                            int64_t *at);

/* The error of flxi_resolve_index for element i of the index operand, also for those who resolve indices themselves. */
typedef struct {
    const flxi_op *op;
    const char *label;
    const struct flxi_origin *origin;
} flxi_index_reader; /* the node that reads it */
flx_code flxi_index_fail(flxi_index_reader by, int32_t dtype, const void *idx, int64_t i, int64_t extent,
                         flx_error *err);

/* Ready-made rules. */
flx_code flxi_eval_pointwise(flxi_eval *e); /* loops scalar, scalar_c or scalar_i over broadcast operands */
flx_code flxi_eval_copy(flxi_eval *e);      /* result 0 has the bytes of operand 0 */

#endif
