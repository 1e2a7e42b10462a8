/* SPDX-License-Identifier: Apache-2.0 */
/* local_ranks.h: a function on every process of a mesh whose processes are threads, each with a context of its own. */
#ifndef FLX_TEST_LOCAL_RANKS_H
#define FLX_TEST_LOCAL_RANKS_H

#include <fluxion/mesh.h>
#include <fluxion/run.h>
#include <fluxion/text.h>

enum { MAX_RANKS = 8 };

typedef struct {
    flx_context *ctx; /* a process of the mesh */
    int64_t rank, size;
    void *user;
    flx_error err; /* for the function */
} local_rank;

/* `axes` as in flx_mesh_options; returns when all have ended and left. */
void local_ranks_run(int64_t ranks, const char *axes, double timeout, void (*fn)(local_rank *r), void *user);
/* With these options but the mesh and the rank. */
void local_ranks_run_with(const flx_mesh_options *options, int64_t ranks, void (*fn)(local_rank *r), void *user);

/* The main graph of the text on this process: inputs x, w … are filled from `values`, one after another, outputs are
   written to `out` likewise, all f64. `device` NULL: the default. Returns the code, and the error in r->err. */
typedef flx_graph *(*local_change)(const flx_graph *g, flx_error *err);
flx_code local_rank_text(local_rank *r, const char *text, local_change change, const char *device, const double *values,
                         double *out);

#endif
