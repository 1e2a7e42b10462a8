/* SPDX-License-Identifier: Apache-2.0 */
/* random.h: shared by the files of the random family. */
#ifndef FLXI_RANDOM_H
#define FLXI_RANDOM_H

#include "graph/op/attr_access.h"
#include "graph/op/eval.h"
#include "graph/op/infer.h"
#include "numeric/counter_rng.h"

/* A result of the attribute `shape`, of a dtype that must be in `accepted`. */
flx_code flxi_random_type(flxi_infer *f, const flx_ints *shape, int64_t dtype, flxi_dtypes accepted, flx_type *out);

typedef struct { /* of rng_uniform and rng_normal */
    flx_ints shape;
    int64_t dtype;
    double offset, scale; /* lo and hi, or mean and std */
    int64_t seed, stream;
} flxi_draw_attrs;
FLXI_ATTRS_VIEW_OF(flxi_draw_attrs_of, flxi_draw_attrs, rng_uniform)

/* Batching of the ops that have a stream (random_rules.c). */
void flxi_batch_draw(flxi_site *s, flx_val *by);
void flxi_batch_sample(flxi_site *s, flx_val *by);

/* The words of stream 0 of a key operand. */
flxi_rng flxi_key_rng(const flx_tensor *key);

/* rng_bit_generator: the generator of a state, and the state after `blocks` of its blocks. The state is of `type`. */
flxi_rng flxi_state_rng(const flx_type *type, const void *state, flxi_rng_algorithm algorithm);
void flxi_state_advance(const flx_type *type, const void *state, const flxi_rng *g, uint64_t blocks, void *next);

/* Where the two words of a Threefry block go: to neighbours along this axis of a type whose elements take one word
   each; -1 for a scalar. */
int flxi_pair_axis(const flx_type *t);

/* f64 is drawn with 53 bits, everything else with 24. */
static inline flxi_rng_bits flxi_draw_bits(int32_t dtype)
{
    return dtype == FLX_F64 ? FLXI_RNG_53 : FLXI_RNG_24;
}

/* Element i becomes the draw x, which is rounded to f32 first for f16 and bf16. */
void flxi_store_draw(int32_t dtype, void *data, int64_t i, double x);

/* The error of a logit that is NaN. */
flx_code flxi_random_nan(flxi_eval *e, int64_t i, int64_t row);

#endif
