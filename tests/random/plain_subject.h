/* SPDX-License-Identifier: Apache-2.0 */
/* plain_subject.h: a subject for finite differences: in double precision, with the values of stop_gradient as
   inputs. */
#ifndef FLX_PLAIN_SUBJECT_H
#define FLX_PLAIN_SUBJECT_H

#include "random_graph.h"

/* Whether values of single precision, or of stop_gradient, are in the graph. */
bool graph_is_single(const flx_graph *g);
bool graph_has_stops(const flx_graph *g);

typedef struct {
    subject s;
    flx_graph *g; /* held; NULL when s is the given subject */
} plain_subject;

/* False with the error when the graph cannot be made or does not run; then nothing is held. */
bool plain_subject_begin(plain_subject *p, const subject *s, flx_error *err);
void plain_subject_end(plain_subject *p);

/* How many of the dims, of which there is at most one, the graph has: a transform may lose a symbol. */
size_t known_dims(const flx_graph *g, const flx_dim_binding *dims, size_t n);

/* Runs g, whose inputs are those of the subject, on its point. */
bool subject_run(const subject *s, const flx_graph *g, flx_tensor **out, flx_error *err);

/* The value of an input by its name (`user` is the subject), or NULL. */
const flx_tensor *subject_value(const void *user, const char *name);

/* The value and gradient of g with respect to the inputs that vary; NULL where it has none. */
flx_graph *subject_gradient(const flx_graph *g, const subject *s);

/* Makes a random graph of static types, two thirds without control flow, and its gradient if it has one, and hands them
   on with the subject and a text about them. */
typedef void subject_take(void *user, const flx_graph *g, const subject *s, const char *about);
void subject_with_gradient(uint64_t seed, subject_take *take, void *user);

#endif
