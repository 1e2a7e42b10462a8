/* SPDX-License-Identifier: Apache-2.0 */
/* fluxion/mesh.h: more than one process (experimental). A context may be one process of a mesh: a grid of processes
   with named axes, such as data=4,model=2. The ops all_reduce, all_gather and their relatives then exchange values
   along an axis. What travels is carried by MPI, or, for tests, by the memory of one process whose threads are the
   processes of the mesh.

   All processes must run the same exchanges in the same order. Before each exchange they compare what they are about
   to do; a process that differs, is missing for longer than the time limit or has left makes the run fail in all of
   them, with a message that names its rank and step. A mesh that has failed stays failed. A context with a mesh makes
   one run at a time. */
#ifndef FLUXION_MESH_H
#define FLUXION_MESH_H

#include <fluxion/tensor.h>

FLX_BEGIN_DECLS

/** The processes of a mesh in one process: each is a thread with a context of its own. */
typedef struct flx_local_mesh flx_local_mesh;

/** NULL on failure. Memory is taken from `ctx`, which must outlive it. */
FLX_API flx_local_mesh *flx_local_mesh_new(flx_context *ctx, int64_t ranks, flx_error *err);
FLX_API void flx_local_mesh_free(flx_local_mesh *m); /* when all have left; NULL is fine */

typedef struct flx_mesh_options {
    uint32_t struct_size;
    const char *transport; /* "mpi", "nccl" or "local"; NULL: local if `local` is given, else mpi */
    const char *axes;      /* "data=4,model=2": their product is the number of processes; NULL: "data", all of them */
    double timeout;        /* seconds that an exchange waits for others; 0: $FLX_MESH_TIMEOUT, else 120 */
    flx_local_mesh *local; /* of the transport local, or of nccl for threads with a card each … */
    int64_t rank;          /* … and which of its processes this context is */
    uint32_t flags;        /* FLX_MESH_… */
    uint32_t reserved;
} flx_mesh_options;

/** Each exchange ends before the next step of the program begins, as with $FLX_MESH_OVERLAP=0. Otherwise steps that do
    not need its result run meanwhile. Results have the same bits. */
enum { FLX_MESH_IN_ORDER = 1 };
/** For the transport local, and given by all processes of the mesh or by none: they meet before an exchange, the last
    one to arrive compares what all are about to do, and makes the exchange for all of them if their values are small.
    It takes one wait of each process instead of four. Results have the same bits; flx_mesh_sent() counts no messages
    for such an exchange. USAGE with another transport. */
enum { FLX_MESH_MEET = 2 };

/** Makes the context a process of a mesh, which it is until flx_mesh_leave() or its end. DEVICE if there is no MPI:
    the command mpicc ($FLX_MPICC) compiles a small library at the first use, which the object cache keeps. With nccl
    DEVICE if there is no card or no NCCL. */
FLX_API flx_code flx_mesh_join(flx_context *ctx, const flx_mesh_options *options, flx_error *err);
/** Others that wait for this process fail. */
FLX_API void flx_mesh_leave(flx_context *ctx);

/** The same for what this thread runs in the context, whatever other threads do: the threads of one context may be the
    processes of a mesh and run one executable at the same time. USAGE if the context or the thread has a mesh. */
FLX_API flx_code flx_mesh_join_thread(flx_context *ctx, const flx_mesh_options *options, flx_error *err);
FLX_API void flx_mesh_leave_thread(flx_context *ctx);
/** Ends all processes of the mesh where the transport can, with this exit status: for a program that gives up. Returns
    if there is none, or if its processes are threads. */
FLX_API void flx_mesh_abort(flx_context *ctx, int status);

/** Of a context without a mesh: 0 of 1. */
FLX_API int64_t flx_mesh_rank(flx_context *ctx);
FLX_API int64_t flx_mesh_size(flx_context *ctx);
/** Index of the process along an axis, and how many it has; either may be NULL. */
FLX_API flx_code flx_mesh_axis(flx_context *ctx, const char *axis_name, int64_t *index, int64_t *size, flx_error *err);

/** Fails in all processes with CHECK unless all call it with the same value. `what` is for the message: "the graph". */
FLX_API flx_code flx_mesh_agree(flx_context *ctx, const char *what, uint64_t value, flx_error *err);
/** The step that later messages name; 0: none. */
FLX_API void flx_mesh_set_step(flx_context *ctx, int64_t step);

/* What a process has sent since it joined. */
typedef struct flx_mesh_traffic {
    uint32_t struct_size; /* sizeof(flx_mesh_traffic) */
    uint32_t reserved;
    int64_t exchanges;       /* that it took part in: ops of a graph, each time that they ran */
    int64_t messages, bytes; /* that it sent in them, without those by which processes agree before each */
} flx_mesh_traffic;

/** Zeroes for a context without a mesh. */
FLX_API flx_code flx_mesh_sent(flx_context *ctx, flx_mesh_traffic *out, flx_error *err);

/* ---- One graph for all processes ---- */

/* How a value is cut: a word for each of its axes, with commas between them: the axis of the mesh along which it is cut
   in equal parts, or - where it is whole: "data,-" for a matrix whose rows are cut. Along several axes of the mesh, in
   their order: "data+model,-". The op `shard` says the same of a value inside of a graph. */
typedef struct flx_sharding {
    const char *name; /* of an input, parameter or output */
    const char *spec;
} flx_sharding;

typedef struct flx_partition_report {
    uint32_t struct_size;
    uint32_t reserved;
    int64_t cut, whole; /* nodes that compute on parts, and on whole values */
    int64_t gathered;   /* of the latter those whose op has no rule for parts, although an operand was cut */
    int64_t exchanges;  /* that were added … */
    int64_t bytes;      /* … and what a process sends for them in one run, loops counted once */
} flx_partition_report;

/** The graph of each process of the mesh ("data=4,model=2"): inputs, parameters and outputs that are named in the list
    have the shape of a part, others are whole. The cuts pass through the graph by the rules of the ops, and exchanges
    are added where they must. All dimensions must be numbers. `report` may be NULL. */
FLX_API flx_graph *flx_partition(const flx_graph *g, const char *axes, const flx_sharding *shardings, size_t count,
                                 flx_partition_report *report, flx_error *err);

/** The part of a whole value that process `rank` of the mesh has, cut as `spec` says: the value of an input of the
    graph of that process. */
FLX_API flx_tensor *flx_mesh_part(flx_context *ctx, const flx_tensor *whole, const char *axes, const char *spec,
                                  int64_t rank, flx_error *err);

/** The whole value from the parts of all processes; all of them call it, with values of one type. */
FLX_API flx_tensor *flx_mesh_whole(flx_context *ctx, const flx_tensor *part, const char *axes, const char *spec,
                                   flx_error *err);

/** Fails in all processes if one of them has failed, with its message, rank and step: each calls it with what happened
    to it, an error of code FLX_OK if nothing did. For what only some processes do, such as writing a file. */
FLX_API flx_code flx_mesh_agree_on(flx_context *ctx, const flx_error *own, flx_error *err);

/* ---- Planning a mesh that is not there ---- */

/* A link joins groups of ranks that follow each other: of links with 8 and 64 ranks the first joins ranks 0 to 7, 8 to
   15 …, the second eight of these groups. Each rank, or group of the link before, is connected to it once. */
typedef struct flx_link {
    int64_t ranks;    /* that it joins; a multiple of those of the link before */
    double bandwidth; /* bytes in a second, in each direction of one connection */
    double latency;   /* seconds until the first byte arrives */
} flx_link;

typedef struct flx_machine {
    uint32_t struct_size; /* sizeof(flx_machine) */
    uint32_t num_links;
    const flx_link *links; /* from the inside to the outside; the last joins all ranks */
    double flops;          /* floating-point operations that a rank does in a second */
    double bandwidth;      /* bytes that it reads or writes in a second; 0: that is not counted */
    double message;        /* seconds that it spends on each message that it sends or receives */
} flx_machine;

typedef struct flx_plan_exchange {
    char op[24], axis_name[72];
    int64_t count, messages, bytes; /* in one run; of the rank that sends most */
    double seconds;
} flx_plan_exchange;

typedef struct flx_mesh_plan {
    uint32_t struct_size; /* sizeof(flx_mesh_plan) */
    uint32_t reserved;
    int64_t ranks;
    int64_t flops, traffic;  /* of a rank in one run: operations on floats, and bytes that its steps read and write */
    int64_t exchanges;       /* in one run … */
    int64_t messages, bytes; /* … and what the rank that sends most sends in them, as flx_mesh_sent() counts */
    int64_t values;          /* bytes of a rank: inputs, parameters, constants and outputs; a parameter p and the output
                                 new_p that overwrites it count once */
    int64_t work;            /* bytes that a run works in, as flx_exec_memory(), without what kernels need for
                                 themselves */
    int64_t open_loops;      /* loops whose number of rounds depends on values: they count as one round */
    double compute_seconds;  /* 0 without a machine */
    double exchange_seconds; /* likewise */
    double *link_bytes;      /* by link of the machine: bytes that its busiest connection carries in one direction; room
                                 for all links, or NULL */
    flx_plan_exchange *list; /* exchanges by op and axis; room for `capacity`, or NULL */
    size_t capacity, count;  /* … and how many there are, which may be more */
    double run_seconds;      /* of a run, with exchanges beside steps that do not need their results */
    int64_t choices;         /* nodes that run one of several branches: the most that one of them takes counts, of each
                                 quantity, so all of these are upper bounds */
} flx_mesh_plan;

/** What a run of `g`, the graph of a process (flx_partition()), takes on each rank of the mesh, from types and
    attributes alone: nothing is run and no compiler is started. `machine` NULL: no times. Numbers that do not fit in 63
    bits are INT64_MAX. The caller sets struct_size, link_bytes, list and capacity. USAGE if the links do not join as
    many ranks as the mesh has. */
FLX_API flx_code flx_plan_mesh(const flx_graph *g, const char *axes, const flx_machine *machine, flx_mesh_plan *out,
                               flx_error *err);

/* ---- Pipelines ---- */

/** flx_pipeline() (fluxion/transform.h) with its loss, which goes backwards with each microbatch as soon as its loss is
    known (1F1B): a stage keeps the inputs of at most 2 stages - 1 microbatches, and computes the rest again. `loss`
    takes what the last stage returns of a microbatch first, and returns a scalar; its parameters are inputs of the
    result, and its other inputs, of examples, become those of a batch as the activation does. The result is the mean
    over the microbatches. Its gradient is made in the same loop of microbatches + 2 stages - 2 ticks. */
FLX_API flx_graph *flx_pipeline_loss(const flx_graph *stage, const flx_graph *loss, int64_t stages,
                                     int64_t microbatches, flx_error *err);

FLX_END_DECLS
#endif
