/* SPDX-License-Identifier: Apache-2.0 */
/* pjrt_executable.c: what an executable is: names, counts, types, costs, and its bytes. The serialised form is the
   program with its options, compiled again when it is loaded: the library's cache of kernels has the machine code. */
#include "pjrt/pjrt.h"

#include "format/endian.h"
#include "pjrt/pjrt_callback.h"

static pjrt_executable *of(void *args)
{
    return ((pjrt_handle_args *)args)->handle;
}

/* ---- Life: both handles are holds on one object ---- */

pjrt_error *flxi_pjrt_executable_destroy(void *args)
{
    flxi_pjrt_executable_release(of(args));
    return NULL;
}

pjrt_error *flxi_pjrt_loaded_executable_destroy(void *args)
{
    flxi_pjrt_executable_release(of(args));
    return NULL;
}

pjrt_error *flxi_pjrt_loaded_executable_get_executable(void *args)
{
    pjrt_object_args *a = args;
    atomic_fetch_add(&of(args)->holders, 1);
    a->result = a->handle;
    return NULL;
}

pjrt_error *flxi_pjrt_loaded_executable_delete(void *args)
{
    atomic_store(&of(args)->is_deleted, true);
    return NULL;
}

pjrt_error *flxi_pjrt_loaded_executable_is_deleted(void *args)
{
    ((pjrt_bool_args *)args)->value = atomic_load(&of(args)->is_deleted);
    return NULL;
}

/* ---- Names and counts ---- */

pjrt_error *flxi_pjrt_executable_name(void *args)
{
    pjrt_text_args *a = args;
    a->text = of(args)->name;
    a->size = strlen(a->text);
    return NULL;
}

pjrt_error *flxi_pjrt_executable_fingerprint(void *args)
{
    pjrt_text_args *a = args;
    a->text = of(args)->fingerprint;
    a->size = strlen(a->text);
    return NULL;
}

pjrt_error *flxi_pjrt_loaded_executable_fingerprint(void *args)
{
    return flxi_pjrt_executable_fingerprint(args);
}

pjrt_error *flxi_pjrt_executable_num_replicas(void *args)
{
    ((pjrt_size_args *)args)->value = (size_t)of(args)->options.num_replicas;
    return NULL;
}

pjrt_error *flxi_pjrt_executable_num_partitions(void *args)
{
    ((pjrt_size_args *)args)->value = (size_t)of(args)->options.num_partitions;
    return NULL;
}

pjrt_error *flxi_pjrt_executable_num_outputs(void *args)
{
    ((pjrt_size_args *)args)->value = of(args)->num_results;
    return NULL;
}

pjrt_error *flxi_pjrt_executable_size_of_generated_code_in_bytes(void *args)
{
    ((pjrt_size_args *)args)->value = 0; /* machine code is shared between executables */
    return NULL;
}

/* ---- Devices ---- */

pjrt_error *flxi_pjrt_loaded_executable_addressable_devices(void *args)
{
    pjrt_list_args *a = args;
    a->list = of(args)->devices;
    a->count = of(args)->options.is_portable ? 0 : of(args)->num_devices;
    return NULL;
}

pjrt_error *flxi_pjrt_loaded_executable_addressable_device_logical_ids(void *args)
{
    pjrt_list_args *a = args;
    a->list = of(args)->logical;
    a->count = of(args)->options.is_portable ? 0 : of(args)->num_devices;
    return NULL;
}

static void free_nothing(void *owner)
{
    (void)owner;
}

pjrt_error *flxi_pjrt_loaded_executable_get_device_assignment(void *args)
{
    pjrt_bytes_args *a = args;
    a->bytes = of(args)->options.assignment;
    a->size = of(args)->options.assignment_size;
    a->owner = NULL;
    a->free_owner = free_nothing;
    return NULL;
}

/* ---- Types and memory ---- */

pjrt_error *flxi_pjrt_executable_output_memory_kinds(void *args)
{
    pjrt_texts_args *a = args;
    a->count = of(args)->num_results;
    a->texts = of(args)->memory_kinds[1];
    a->sizes = of(args)->memory_kind_sizes[1];
    return NULL;
}

pjrt_error *flxi_pjrt_executable_parameter_memory_kinds(void *args)
{
    pjrt_texts_args *a = args;
    a->count = of(args)->num_args;
    a->texts = of(args)->memory_kinds[0];
    a->sizes = of(args)->memory_kind_sizes[0];
    return NULL;
}

pjrt_error *flxi_pjrt_executable_output_element_types(void *args)
{
    pjrt_list_args *a = args;
    a->list = of(args)->result_types;
    a->count = of(args)->num_results;
    return NULL;
}

pjrt_error *flxi_pjrt_executable_output_dimensions(void *args)
{
    pjrt_output_dims_args *a = args;
    a->num_outputs = a->executable->num_results;
    a->dims = a->executable->result_dims;
    a->ranks = a->executable->result_ranks;
    return NULL;
}

pjrt_error *flxi_pjrt_executable_get_cost_analysis(void *args)
{
    pjrt_attributes_args *a = args;
    a->list = of(args)->costs;
    a->count = 2;
    return NULL;
}

static int64_t bytes_of(const pjrt_slot *slots, size_t n)
{
    int64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (int64_t)slots[i].nbytes;
    return sum;
}

pjrt_error *flxi_pjrt_executable_get_compiled_memory_stats(void *args)
{
    pjrt_compiled_memory_args *a = args;
    const pjrt_executable *x = a->executable;
    a->code_bytes = 0;
    a->argument_bytes = bytes_of(x->args, x->num_args);
    a->output_bytes = bytes_of(x->results, x->num_results);
    a->alias_bytes = 0;
    for (size_t i = 0; i < x->num_args; i++)
        if (x->args[i].shared)
            a->alias_bytes += (int64_t)x->args[i].nbytes;
    a->temp_bytes = (int64_t)flx_exec_memory(x->exec);
    memset(a->host_bytes, 0, sizeof a->host_bytes);
    int64_t total = a->argument_bytes + a->output_bytes + a->temp_bytes - a->alias_bytes;
    if (PJRT_HAS(a, peak_bytes))
        a->peak_bytes = total;
    if (PJRT_HAS(a, peak_unpadded_bytes)) {
        a->total_bytes = a->total_allocation_bytes = a->peak_unpadded_bytes = total;
        a->indefinite_allocations = 0;
    }
    return NULL;
}

/* The program as it was given, which jaxlib converts to HLO. It asks three times with every compilation, which takes
   longer than compiling a small program: only as_text() of the Python package gets an answer. The first call asks for
   the size. */
pjrt_error *flxi_pjrt_executable_optimized_program(void *args)
{
    const pjrt_executable *x = of(args);
    pjrt_program *p = ((pjrt_object_args *)args)->result;
    if (!flxi_pjrt_shows_programs())
        return flxi_pjrt_fail(PJRT_UNIMPLEMENTED, "programs are shown by as_text() of jax_plugins.fluxion");
    if (p->code)
        memcpy(p->code, x->program, x->program_size);
    p->code_size = x->program_size;
    p->format = "mlir";
    p->format_size = strlen(p->format);
    return NULL;
}

/* ---- Bytes: a mark, the size of the options, the options, the program ---- */

static const char mark[8] = {'f', 'l', 'x', 'p', 'j', 'r', 't', '1'};
enum { HEAD_BYTES = 16 };

typedef struct {
    size_t size;
    char bytes[];
} serialised;

static void free_serialised(void *owner)
{
    serialised *s = owner;
    if (s)
        flxi_free(&flxi_pjrt_mem, s, sizeof *s + s->size, 1);
}

pjrt_error *flxi_pjrt_executable_serialize(void *args)
{
    pjrt_bytes_args *a = args;
    const pjrt_executable *x = of(args);
    size_t size = HEAD_BYTES + x->option_bytes_size + x->program_size;
    serialised *s = flxi_alloc(&flxi_pjrt_mem, sizeof *s + size, 1);
    if (!s)
        return flxi_pjrt_oom();
    s->size = size;
    memcpy(s->bytes, mark, sizeof mark);
    flxi_put64((unsigned char *)s->bytes + sizeof mark, x->option_bytes_size);
    memcpy(s->bytes + HEAD_BYTES, x->option_bytes, x->option_bytes_size);
    memcpy(s->bytes + HEAD_BYTES + x->option_bytes_size, x->program, x->program_size);
    a->bytes = s->bytes;
    a->size = size;
    a->owner = s;
    a->free_owner = free_serialised;
    return NULL;
}

pjrt_error *flxi_pjrt_open_serialised(const char *bytes, size_t size, const char **program, size_t *program_size,
                                      size_t *options_size)
{
    if (size < HEAD_BYTES || memcmp(bytes, mark, sizeof mark) != 0)
        return flxi_pjrt_fail(PJRT_INVALID_ARGUMENT, "the bytes are not an executable of fluxion");
    uint64_t n = flxi_get64((const unsigned char *)bytes + sizeof mark);
    if (n > size - HEAD_BYTES)
        return flxi_pjrt_fail(PJRT_INVALID_ARGUMENT, "the executable is cut off");
    *options_size = (size_t)n;
    *program = bytes + HEAD_BYTES + n;
    *program_size = size - HEAD_BYTES - (size_t)n;
    return NULL;
}

pjrt_error *flxi_pjrt_executable_deserialize_and_load(void *args)
{
    pjrt_deserialize_args *a = args;
    const char *program;
    size_t size, options_size;
    pjrt_error *e = flxi_pjrt_open_serialised(a->bytes, a->size, &program, &size, &options_size);
    if (e)
        return e;
    const char *options = a->bytes + HEAD_BYTES;
    if (PJRT_HAS(a, options_size) && a->options) {
        options = a->options;
        options_size = a->options_size;
    }
    return flxi_pjrt_compile(a->client, program, size, options, options_size, &a->executable);
}

pjrt_error *flxi_pjrt_executable_get_compile_options(void *args)
{
    pjrt_bytes_args *a = args;
    a->bytes = of(args)->option_bytes;
    a->size = of(args)->option_bytes_size;
    a->owner = NULL;
    a->free_owner = free_nothing;
    return NULL;
}
