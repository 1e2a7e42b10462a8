/* SPDX-License-Identifier: Apache-2.0 */
/* answers.h: the results of another framework (tests/oracle/fixtures/nn/<case>.npz), and comparing a graph with them.
   The arrays of a file have the names of the inputs and outputs of the graphs. */
#ifndef TESTS_NN_ANSWERS_H
#define TESTS_NN_ANSWERS_H

#include <fluxion/fluxion.h>
#include <fluxion/nn.h>

typedef struct {
    flx_context *ctx;
    flx_graph *g; /* empty at first */
    char path[512];
} answers;

void answers_open(answers *a, const char *name);
void answers_close(answers *a);

/* One array, which the caller releases; NULL when there is no such array. */
flx_tensor *answers_read(const answers *a, const char *key);

/* An input of the type that the answers have for it. */
flx_val answers_input(const answers *a, const char *name);

/* Runs a graph on the answers' inputs and compares its outputs. */
void answers_check(const answers *a, const flx_graph *g, const char *device);

/* The same for the gradient of its loss with respect to every input for which the answers have a gradient, on both
   devices. Returns the number of these inputs. */
size_t answers_check_gradient(const answers *a, const flx_graph *g, uint32_t grad_flags);

/* Both for what `build` returns: its value is the output `out`, and the loss is the sum of it times the answers'
   `seed`, or the value itself where there is none. */
typedef flx_val (*answers_build)(const answers *a);
void answers_check_case(const char *name, answers_build build);

#endif
