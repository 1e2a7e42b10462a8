/* SPDX-License-Identifier: Apache-2.0 */
/* pjrt.h: the objects of the plugin, as its files share them.

   A client has one context of the library and n virtual devices, which all compute with the processor. A program for
   several of them is run once with whole values, or by a thread for each where they compute different things
   (pjrt_partitioned.c). A buffer is a type, a shape and a counted storage; deleting or donating it drops the storage
   and leaves the object. A program is compiled to a counted executable, which is both of the interface's handles,
   PJRT_Executable and PJRT_LoadedExecutable. What takes long is computed by the client's queue after the call has
   returned (pjrt_queue.c): the storages of its results are pending until then. */
#ifndef FLXI_PJRT_H
#define FLXI_PJRT_H

#include "base/memory.h"
#include "pjrt/pjrt_abi.h"

#include <fluxion/exec.h>
#include <pthread.h>
#include <stdatomic.h>

/* Errors and events exist without a client, so all objects come from this allocator. */
extern const flxi_allocator flxi_pjrt_mem;

/* ---- Every call of the table ---- */

#define SLOT(name, function) pjrt_error *flxi_pjrt_##function(void *args);
#define LACK(name)
#include "pjrt/pjrt_slots.def"
#undef SLOT
#undef LACK

/* ---- Errors (pjrt_error.c): NULL is success ---- */

pjrt_error *flxi_pjrt_fail(pjrt_code code, const char *fmt, ...) FLX_PRINTF(2, 3);
pjrt_error *flxi_pjrt_fail_text(pjrt_code code, const char *text, size_t size);
pjrt_error *flxi_pjrt_oom(void);
/* An error of the library, with its location and hint. */
pjrt_error *flxi_pjrt_from(const flx_error *err);
void flxi_pjrt_error_free(pjrt_error *e);

/* ---- Events (pjrt_event.c) ---- */

pjrt_event *flxi_pjrt_ready_event(void); /* needs no memory */
/* One that is not ready, held by two: the caller of the interface, and the one that sets it. NULL: no memory. */
pjrt_event *flxi_pjrt_event_pending(void);
pjrt_event *flxi_pjrt_event_retain(pjrt_event *e);
void flxi_pjrt_event_release(pjrt_event *e); /* NULL is fine */
/* Waits until it is ready; the error is a copy. */
pjrt_error *flxi_pjrt_event_wait(pjrt_event *e);
/* Makes it ready, calls what waits for it and releases the second hold. */
void flxi_pjrt_event_fire(pjrt_event *e, pjrt_error *error);

/* ---- Client (pjrt_client.c, pjrt_device.c) ---- */

enum { PJRT_MAX_DEVICES = 64, PJRT_MAX_USER_DATA = 8 };

typedef enum { PJRT_MODE_AUTO, PJRT_MODE_INTERPRET, PJRT_MODE_COMPILE } pjrt_mode;

/* All kinds are the memory of the processor: what a program keeps in one or the other is the same place. */
typedef enum { PJRT_KIND_DEVICE, PJRT_KIND_PINNED_HOST, PJRT_KIND_UNPINNED_HOST, PJRT_NUM_KINDS } pjrt_memory_kind;

struct pjrt_memory {
    const pjrt_memory_table *table; /* first, as the interface wants it */
    pjrt_device *device;
    pjrt_memory_kind kind;
    char text[48];
    size_t text_size;
    struct {
        const void *key;
        void *data;
        void (*discard)(void *data);
    } user[PJRT_MAX_USER_DATA];
};

struct pjrt_device { /* also its own description */
    pjrt_client *client;
    int32_t id;
    char text[32];
    size_t text_size;
    pjrt_memory memory[PJRT_NUM_KINDS]; /* by kind; the first is the default */
    pjrt_memory *memories[PJRT_NUM_KINDS];
};

typedef struct {
    atomic_llong in_use, peak, count, largest; /* bytes, but count */
} pjrt_statistics;

/* What is computed later, in the order in which it was added. It must not wait for the host's language: another thread
   may wait for it and keep that from running. */
typedef struct pjrt_job {
    void (*run)(struct pjrt_job *job); /* and frees it */
    struct pjrt_job *next;
} pjrt_job;

typedef struct {
    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t changed;
    pjrt_job *first, *last;
    size_t waiting;
    bool has_thread, is_closing;
    pthread_t thread;
} pjrt_queue;

typedef enum { PJRT_NEVER_LATER, PJRT_LONG_LATER, PJRT_ALL_LATER } pjrt_lateness;

struct pjrt_client { /* also the topology */
    flx_context *ctx;
    pthread_mutex_t lock; /* guards the storages of buffers and user data of memories */
    char platform[32];
    char computes_on[16]; /* the device of the library that programs are compiled for: cpu, cuda, opencl */
    pjrt_mode mode;
    pjrt_lateness lateness;
    pjrt_queue queue;
    int32_t threads;
    size_t num_devices;
    pjrt_device devices[PJRT_MAX_DEVICES];
    pjrt_device *device_list[PJRT_MAX_DEVICES];
    pjrt_memory *memory_list[PJRT_MAX_DEVICES * PJRT_NUM_KINDS];
    pjrt_statistics statistics;
};

/* The value of an option: that of the client, or of the environment variable; NULL when neither is given. */
typedef struct {
    pjrt_mode mode;
    int32_t threads;
} pjrt_compile_choice;
bool flxi_pjrt_parse_mode(const char *text, size_t size, pjrt_mode *out);

void flxi_pjrt_init_device(pjrt_client *c, int32_t id);

/* A kind by its name, and its name; false: there is none. */
bool flxi_pjrt_find_kind(const char *name, size_t size, pjrt_memory_kind *out);
const char *flxi_pjrt_kind_name(pjrt_memory_kind kind);

/* ---- Queue (pjrt_queue.c) ---- */

void flxi_pjrt_queue_open(pjrt_queue *q);
/* Ends when all jobs have run. */
void flxi_pjrt_queue_close(pjrt_queue *q);
/* Waits while many jobs wait. False: there is no thread, and nothing was added. */
bool flxi_pjrt_queue_add(pjrt_queue *q, pjrt_job *job);

/* ---- Types (pjrt_type.c) ---- */

size_t flxi_pjrt_type_size(int32_t type); /* bytes of an element in memory; 0: not known */
/* Elements and bytes of an array; an error for a type or a size that is not possible. */
pjrt_error *flxi_pjrt_array_size(int32_t type, const int64_t *dims, size_t rank, size_t *nbytes);

/* ---- Buffers (pjrt_buffer.c) ---- */

typedef enum { STORAGE_READY, STORAGE_PENDING, STORAGE_FAILED } pjrt_state;

typedef struct {
    atomic_int holders;
    atomic_int state;    /* pjrt_state */
    pjrt_event *ready;   /* of one that was not ready when it was made: when it is, or why it never will be */
    atomic_int external; /* references of NumPy and DLPack: the memory must not be given to anything else */
    size_t nbytes;
    void *data;
    void *block; /* what was allocated; NULL: memory of the host */
    size_t block_size;
    pjrt_client *client;
    pjrt_event *done; /* fires when the storage is freed; NULL: none */
    void (*on_delete)(void *data, void *user);
    void *user;
} pjrt_storage;

struct pjrt_buffer {
    pjrt_device *device; /* of the memory */
    pjrt_memory *memory;
    pjrt_storage *storage;  /* NULL: deleted or donated */
    pjrt_storage *exported; /* what external references hold */
    int32_t type;
    int32_t rank;
    int64_t dims[];
};

pjrt_storage *flxi_pjrt_storage_new(pjrt_client *c, size_t nbytes);
/* Over memory of the host, counted as none of the client's. */
pjrt_storage *flxi_pjrt_storage_wrap(pjrt_client *c, void *data, size_t nbytes);
void flxi_pjrt_storage_release(pjrt_storage *s); /* NULL is fine */
/* Waits until its elements are there. */
pjrt_error *flxi_pjrt_storage_wait(const pjrt_storage *s);

/* A buffer that takes ownership of the storage; NULL: no memory, and the storage is released. */
pjrt_buffer *flxi_pjrt_buffer_new(pjrt_memory *memory, int32_t type, const int64_t *dims, size_t rank,
                                  pjrt_storage *storage);
/* The memory that a caller names, or the default one of the device that it names, or of the first device. */
pjrt_memory *flxi_pjrt_memory_of(pjrt_client *c, pjrt_device *device, pjrt_memory *memory);
void flxi_pjrt_buffer_free(pjrt_buffer *b); /* NULL is fine */
/* One more hold on the storage; NULL when the buffer was deleted. */
pjrt_storage *flxi_pjrt_buffer_hold(pjrt_buffer *b);
/* Drops the storage: the buffer is deleted. */
void flxi_pjrt_buffer_drop(pjrt_buffer *b);

/* ---- Executables (pjrt_compile.c, pjrt_executable.c, pjrt_execute.c) ---- */

/* A type of @main's signature. */
typedef struct {
    int32_t type; /* PJRT_TOKEN: no value */
    size_t rank;
    const int64_t *dims;
    size_t nbytes;
    size_t position; /* among the inputs or outputs of the graph */
    /* On several devices `dims` and `nbytes` are those of the part that each of them has: */
    const int64_t *whole_dims;
    size_t whole_nbytes;
    const int64_t *parts;   /* into how many each axis is cut */
    const int64_t *at;      /* for each device in turn, which of them it has; by axis */
    int64_t summands;       /* 1, or the whole is the sum of what that many devices have */
    const int64_t *summand; /* for each device, which of them it has */
    int32_t dtype;          /* of the library */
    pjrt_memory_kind kind;
    bool is_cut;
    size_t shared; /* of a donated argument: 1 + the result that takes its memory; 0: none */
    bool is_donated;
} pjrt_slot;

/* What the plugin reads of the compile options (pjrt_options.c). */
typedef struct {
    int64_t num_replicas, num_partitions;
    int64_t devices[PJRT_MAX_DEVICES]; /* ids, by partition */
    size_t num_devices;                /* that were given */
    bool is_portable;
    const char *assignment; /* inside the options; NULL: none */
    size_t assignment_size;
    pjrt_mode mode;
    int32_t threads;
} pjrt_options;

struct pjrt_executable {
    atomic_int holders;
    atomic_bool is_deleted;
    bool calls_host;      /* the process that runs it, such as Python: never later */
    atomic_llong last_ns; /* how long the last run took, or the first may take */
    pjrt_client *client;
    flxi_arena arena; /* owns what follows */
    flx_exec *exec;
    const char *name;
    char fingerprint[24];
    pjrt_slot *args, *results;
    size_t num_args, num_results, num_inputs, num_outputs;
    pjrt_options options;
    const char *program; /* as it was given, with the options: for serialisation */
    size_t program_size;
    const char *option_bytes;
    size_t option_bytes_size;
    pjrt_device *devices[PJRT_MAX_DEVICES]; /* by partition */
    pjrt_logical_id logical[PJRT_MAX_DEVICES];
    size_t num_devices;
    const char *mesh; /* of processes that compute different things: "x=4,y=2"; NULL: one computes for all devices */
    const char *const *shardings[2]; /* of arguments and of results, as JAX wants them; NULL: one device */
    const size_t *sharding_sizes[2];
    const char **memory_kinds[2]; /* of arguments and of results */
    size_t *memory_kind_sizes[2];
    pjrt_layout_text **layouts[2];
    int32_t *result_types;
    int64_t *result_dims;
    size_t *result_ranks;
    pjrt_named_value costs[2];
};

/* Reads compile options; unknown options of the compiler are an error. */
pjrt_error *flxi_pjrt_read_options(const pjrt_client *c, const char *bytes, size_t size, pjrt_options *out);
pjrt_error *flxi_pjrt_compile(pjrt_client *c, const char *program, size_t size, const char *options,
                              size_t options_size, pjrt_executable **out);
void flxi_pjrt_executable_release(pjrt_executable *x);

/* The program in a serialised executable, and the options before it; an error for other bytes. */
pjrt_error *flxi_pjrt_open_serialised(const char *bytes, size_t size, const char **program, size_t *program_size,
                                      size_t *options_size);

/* What JAX learns about arguments and results, whose parts are known (pjrt_sharding.c). */
pjrt_error *flxi_pjrt_describe_shardings(pjrt_executable *x);
extern pjrt_shardings_extension flxi_pjrt_shardings_extension;

/* The layouts of arguments (0) or results (1) (pjrt_layout.c). */
pjrt_error *flxi_pjrt_list_layouts(pjrt_executable *x, const pjrt_slot *slots, size_t n, int which);
extern pjrt_layouts_extension flxi_pjrt_layouts_extension;

/* Runs on the devices of the executable, more than one (pjrt_partitioned.c). */
pjrt_error *flxi_pjrt_execute_parts(const pjrt_execute_args *a);

/* Runs it, and notes how long that took. */
flx_code flxi_pjrt_run(pjrt_executable *x, const void *const *inputs, void *const *outputs, flx_error *err);

/* What an execution does with an argument (pjrt_execute.c): holds its storage in *out, if it is what the slot says;
   and whether its memory is lost afterwards. */
pjrt_error *flxi_pjrt_hold_argument(const pjrt_executable *x, pjrt_buffer *b, size_t arg, pjrt_storage **out);
bool flxi_pjrt_is_donated(const pjrt_executable *x, const pjrt_execute_options *o, size_t arg);

/* Dense or strided elements to others (pjrt_transfer.c). */
typedef struct {
    const char *from;
    char *to;
    size_t rank;
    const int64_t *dims;
    int64_t from_strides[FLX_MAX_RANK], to_strides[FLX_MAX_RANK];
    size_t element;
} pjrt_strided_copy;
void flxi_pjrt_copy_strided(const pjrt_strided_copy *c);
void flxi_pjrt_dense_strides(const int64_t *dims, size_t rank, size_t element, int64_t *out);

/* ---- Calls back into the host (pjrt_callback.c) ---- */

/* Registers the operation of host callbacks in a context. */
flx_code flxi_pjrt_register_callback(flx_context *ctx, flx_error *err);

#endif
