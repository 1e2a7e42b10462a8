/* SPDX-License-Identifier: Apache-2.0 */
/* trainee.h: shared by tests of training: small losses with parameters, and values for them. */
#ifndef FLX_TRAINEE_H
#define FLX_TRAINEE_H

#include "test.h"

#include <fluxion/fluxion.h>

enum { TRAINEE_LEAVES = 24 };

/* A network with one hidden layer; the batch N is symbolic in the text and bound by trainee_options(). %s is the dtype.
   The target is a distribution over classes. */
extern const char trainee_network[];

/* The graph of the text, with its %s replaced by the dtype. */
flx_graph *trainee_graph(flx_context *ctx, const char *text, flx_dtype dtype);

/* N = 16. */
flx_compile_options trainee_options(int32_t threads);

/* Random elements of the type, between -1 and 1. */
flx_tensor *trainee_random(flx_context *ctx, const flx_type *type, uint64_t *seed);

/* A value for every leaf of a training graph of static types: state is zero, others are random. The caller releases
   them. */
typedef struct {
    size_t n;
    flx_feed at[TRAINEE_LEAVES];
} trainee_values;

trainee_values trainee_values_for(const flx_graph *step, uint64_t seed);
void trainee_release(trainee_values *v);

/* The value of a leaf, NULL when there is no such leaf. */
const flx_tensor *trainee_find(const trainee_values *v, const char *name);

/* Gives a trainer its parameters; afterwards `inputs` holds those of the values that are fed in each step. */
size_t trainee_begin(flx_trainer *t, const flx_graph *step, const trainee_values *v, flx_feed *inputs);

/* A trainer, which must be made; element i of a parameter or state; both elements of an f32[2]. */
flx_trainer *trainee_trainer(const flx_graph *g, const flx_train_options *o, const flx_compile_options *c);
double trainee_element(const flx_trainer *t, const char *name, int64_t i);
void trainee_set(flx_trainer *t, flx_context *ctx, const char *name, double a, double b);

/* n numbers of that dtype; n = 0: a scalar. */
flx_tensor *trainee_numbers(flx_context *ctx, flx_dtype dtype, int64_t n, const double *x);

#endif
