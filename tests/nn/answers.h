/* SPDX-License-Identifier: Apache-2.0 */
/* answers.h: what another framework computed (tests/oracle/fixtures/nn/<case>.npz), and comparing a graph with it. The
   arrays of a file are called as the inputs and outputs of the graphs are. */
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

/* One array, which the caller releases; NULL when there is none of that name. */
flx_tensor *answers_read(const answers *a, const char *key);

/* Runs a graph on the answers' inputs and compares its outputs. */
void answers_check(const answers *a, const flx_graph *g, const char *device);

/* The same for the gradient of its loss by every input that the answers have a gradient for, on both devices. The
   number of these inputs. */
size_t answers_check_gradient(const answers *a, const flx_graph *g, uint32_t grad_flags);

#endif
