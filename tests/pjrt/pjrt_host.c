/* SPDX-License-Identifier: Apache-2.0 */
/* pjrt_host.c: see pjrt_host.h. */
#include "pjrt/pjrt_host.h"

#include "test.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

const pjrt_api *host_api(void)
{
    static const pjrt_api *api;
    if (!api) {
        void *library = dlopen(FLX_PJRT_PATH, RTLD_LAZY | RTLD_LOCAL);
        CHECK_MSG(library != NULL, "%s", dlerror());
        const pjrt_api *(*get)(void);
        *(void **)(void *)&get = dlsym(library, "GetPjrtApi");
        CHECK(get != NULL);
        api = get();
    }
    return api;
}

static char message[1024];

/* Frees the error and returns its code. */
static int32_t code_of(pjrt_error *e)
{
    pjrt_text_args text = {.struct_size = sizeof text, .handle = e};
    pjrt_int_args code = {.struct_size = sizeof code, .handle = e};
    pjrt_handle_args handle = {.struct_size = sizeof handle, .handle = e};
    host_api()->slots[PJRT_Error_Message](&text);
    host_api()->slots[PJRT_Error_GetCode](&code);
    snprintf(message, sizeof message, "%.*s", (int)text.size, text.text);
    host_api()->slots[PJRT_Error_Destroy](&handle);
    return code.value;
}

void host_call(int slot, void *args, size_t size)
{
    *(size_t *)args = size;
    pjrt_error *e = host_api()->slots[slot](args);
    if (e) {
        code_of(e);
        CHECK_MSG(false, "slot %d: %s", slot, message);
    }
}

const char *host_refused(int slot, void *args, size_t size, int32_t code)
{
    *(size_t *)args = size;
    pjrt_error *e = host_api()->slots[slot](args);
    CHECK(e != NULL);
    CHECK_EQ_I64(code_of(e), code);
    return message;
}

pjrt_client *host_client(const pjrt_named_value *options, size_t n)
{
    pjrt_client_create_args a = {.options = options, .num_options = n};
    HOST_CALL(Client_Create, a);
    return a.client;
}

void host_close(pjrt_client *c)
{
    pjrt_handle_args a = {.handle = c};
    HOST_CALL(Client_Destroy, a);
}

static void destroy_event(pjrt_event *e)
{
    pjrt_handle_args a = {.handle = e};
    HOST_CALL(Event_Destroy, a);
}

pjrt_buffer *host_put(pjrt_client *c, pjrt_type type, const int64_t *dims, size_t rank, const void *data)
{
    pjrt_from_host_args a = {.client = c,
                             .data = data,
                             .type = (int32_t)type,
                             .dims = dims,
                             .num_dims = rank,
                             .semantics = PJRT_HOST_UNTIL_COPIED};
    HOST_CALL(Client_BufferFromHostBuffer, a);
    destroy_event(a.done_with_host_buffer);
    return a.buffer;
}

void host_get(pjrt_buffer *b, void *data, size_t size)
{
    pjrt_to_host_args a = {.buffer = b};
    HOST_CALL(Buffer_ToHostBuffer, a);
    CHECK_EQ_U64(a.size, size);
    a.data = data;
    HOST_CALL(Buffer_ToHostBuffer, a);
    destroy_event(a.event);
}

void host_drop(pjrt_buffer *b)
{
    pjrt_handle_args a = {.handle = b};
    HOST_CALL(Buffer_Destroy, a);
}

int host_is_deleted(pjrt_buffer *b)
{
    pjrt_bool_args a = {.handle = b};
    HOST_CALL(Buffer_IsDeleted, a);
    return a.value;
}

pjrt_executable *host_compile(pjrt_client *c, const char *program)
{
    return host_compile_for(c, program, 1);
}

pjrt_executable *host_compile_for(pjrt_client *c, const char *program, size_t num_devices)
{
    /* executable_build_options { num_partitions } */
    const char options[] = {3 << 3 | 2, 2, 5 << 3, (char)num_devices};
    char *code = (char *)(uintptr_t)program;
    pjrt_program p = {
        .struct_size = sizeof p, .code = code, .code_size = strlen(program), .format = "mlir", .format_size = 4};
    pjrt_compile_args a = {.client = c, .program = &p, .options = options, .options_size = sizeof options};
    HOST_CALL(Client_Compile, a);
    return a.executable;
}

void host_run_on(pjrt_executable *x, size_t num_devices, pjrt_buffer *const *const *args, size_t num_args,
                 pjrt_buffer **const *outputs)
{
    pjrt_event *done[8] = {NULL};
    CHECK(num_devices <= 8);
    pjrt_execute_args a = {.executable = x,
                           .arguments = args,
                           .num_devices = num_devices,
                           .num_args = num_args,
                           .outputs = outputs,
                           .complete_events = done};
    HOST_CALL(LoadedExecutable_Execute, a);
    for (size_t d = 0; d < num_devices; d++)
        destroy_event(done[d]);
}

void host_run(pjrt_executable *x, pjrt_buffer *const *args, size_t num_args, pjrt_buffer **outputs)
{
    host_run_on(x, 1, &args, num_args, &outputs);
}

void host_free(pjrt_executable *x)
{
    pjrt_handle_args a = {.handle = x};
    HOST_CALL(LoadedExecutable_Destroy, a);
}
