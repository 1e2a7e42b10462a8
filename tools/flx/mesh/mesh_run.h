/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_run.h: the processes of `flx run --mesh`. Without --mpi or --nccl they are threads of this process: the calling
   thread is rank 0, others have contexts of their own. Else this process is one of those that mpirun has started.
   Either way the caller runs the graph of its own rank on its own parts, and the outputs are whole in all ranks. */
#ifndef FLX_MESH_RUN_H
#define FLX_MESH_RUN_H

#include "args.h"
#include "io/inputs.h"

#include <fluxion/exec.h>

typedef struct mesh_run mesh_run;

/* What all ranks do alike. */
typedef struct {
    const char *axes, *device;
    const char *transport;       /* of ranks that are processes; NULL: they are threads */
    flx_compile_options compile; /* of a device that compiles */
    flx_run_options run;
} mesh_request;

/* Cuts the graph of the model, whose values are `in`, and starts the other ranks. The model gets the graph of a rank,
   which must be released, and `in` the parts of this rank. The request must outlive it. End it with mesh_run_end(),
   also after a failure. */
int mesh_run_begin(mesh_run **out, model *m, inputs *in, const args *a, mesh_request *q);
/* After the run of this rank: makes those of its outputs whole that are not yet. Fails if another rank has failed. NULL
   is fine. */
int mesh_run_join(const mesh_run *r, flx_tensor **outputs);
/* Whether this rank is the one that reports: rank 0. */
bool mesh_run_tells(const mesh_run *r);
/* Waits for the others. Returns `status`, that of this rank; if it is 0 or another had left, that of the rank which
   failed by itself, and reports its error. NULL is fine. */
int mesh_run_end(mesh_run *r, int status);

/* How many ranks the axes have; whether one process can have that many, and how many threads each should use. */
int64_t mesh_run_ranks(const char *axes);
int mesh_run_check_threads(int64_t ranks);
int32_t mesh_run_threads(int64_t ranks);

/* The transport that --mpi or --nccl names; NULL: ranks are threads. */
const char *mesh_run_transport(const args *a);

#define OPTION_NCCL                                                                                                    \
    {                                                                                                                  \
        "--nccl", NULL, "as --mpi, and values travel between the cards of the processes by NCCL; docs/distributed.md", \
            MAY_BE_GIVEN                                                                                               \
    }

#endif
