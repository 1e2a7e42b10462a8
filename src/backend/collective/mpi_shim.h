/* SPDX-License-Identifier: Apache-2.0 */
/* mpi_shim.h: the few calls of MPI that the transport uses, through a library that the installed mpicc compiles on
   first use. The handles and constants of MPI differ between its implementations; the library knows them from the
   mpi.h it is compiled with, and shows numbers and addresses only. */
#ifndef FLXI_MPI_SHIM_H
#define FLXI_MPI_SHIM_H

#include "base/context.h"
#include "base/error.h"

/* As the text of mpi_shim.c has it. */
typedef struct {
    int peer, tag, is_sent, nbytes;
    void *data;
} flxi_mpi_message;

typedef struct {
    /* 0, or an error of MPI. serves_threads: whether threads may take turns with the calls below. */
    int (*open)(int *rank, int *size, int *serves_threads);
    /* NULL: no memory, or an error of MPI. */
    void *(*start)(int n, const flxi_mpi_message *m);
    /* Sets done[i] of what has arrived; 1: all has, 0: not yet, -1: an error of MPI. */
    int (*poll)(void *started, char *done);
    void (*end)(void *started, int is_complete);
    /* Waits for the others for some seconds. */
    void (*close)(double seconds);
    void (*end_all)(int status);
} flxi_mpi_calls;

/* The calls; loaded once for each process. DEVICE without an MPI that works. */
flx_code flxi_mpi_load(flx_context *ctx, const flxi_mpi_calls **out, flx_error *err);

#endif
