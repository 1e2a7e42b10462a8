/* SPDX-License-Identifier: Apache-2.0 */
/* pjrt_plugin.c: the plugin's table, driven as JAX drives it: start, transfers, compilation, execution, donation,
   serialisation, callbacks, and what is refused. */
#include "pjrt/pjrt_callback.h"
#include "pjrt/pjrt_host.h"

#include "test.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static const char add_one[] = "func.func public @main(%arg0: tensor<2x3xf32>) -> tensor<2x3xf32> {\n"
                              "  %c = stablehlo.constant dense<1.0> : tensor<2x3xf32>\n"
                              "  %0 = stablehlo.add %arg0, %c : tensor<2x3xf32>\n"
                              "  return %0 : tensor<2x3xf32>\n"
                              "}\n";
static const int64_t two_by_three[2] = {2, 3};

static pjrt_client *client_in(const char *mode)
{
    pjrt_named_value option = {.name = "mode", .name_size = 4, .type = PJRT_VALUE_STRING, .string = mode};
    option.size = strlen(mode);
    return host_client(&option, 1);
}

static pjrt_client *interpreting(void)
{
    return client_in("interpret");
}

/* ---- Start ---- */

TEST(pjrt_table_has_every_slot_and_its_version)
{
    const pjrt_api *api = host_api();
    CHECK_EQ_U64(api->struct_size, 40 + 8 * 138);
    CHECK_EQ_I64(api->version.minor, 112);
    for (int i = 0; i < PJRT_NUM_SLOTS; i++)
        CHECK_MSG(api->slots[i] != NULL, "slot %d", i);
    CHECK(api->slots[PJRT_NUM_SLOTS] == NULL);
}

TEST(pjrt_call_that_is_not_implemented_says_its_name)
{
    pjrt_handle_args a = {0};
    CHECK_EQ_STR(HOST_REFUSED(Client_CreateAliasBuffer, a, PJRT_UNIMPLEMENTED),
                 "PJRT_Client_CreateAliasBuffer is not implemented");
}

TEST(pjrt_client_lists_devices_and_memories)
{
    pjrt_named_value devices = {.name = "devices", .name_size = 7, .type = PJRT_VALUE_INT, .integer = 3, .size = 1};
    pjrt_client *c = host_client(&devices, 1);
    pjrt_list_args list = {.handle = c};
    HOST_CALL(Client_Devices, list);
    CHECK_EQ_U64(list.count, 3);
    pjrt_device *d = ((pjrt_device **)list.list)[2];
    pjrt_int_args id = {.handle = d};
    HOST_CALL(DeviceDescription_Id, id);
    CHECK_EQ_I64(id.value, 2);
    pjrt_text_args text = {.handle = d};
    HOST_CALL(DeviceDescription_ToString, text);
    CHECK(text.size == strlen("FluxionDevice(id=2)") && memcmp(text.text, "FluxionDevice(id=2)", text.size) == 0);
    pjrt_object_args memory = {.handle = d};
    HOST_CALL(Device_DefaultMemory, memory);
    pjrt_text_args kind = {.handle = memory.result};
    HOST_CALL(Memory_Kind, kind);
    CHECK(kind.size == 6 && memcmp(kind.text, "device", 6) == 0);
    pjrt_list_args memories = {.handle = c};
    HOST_CALL(Client_AddressableMemories, memories);
    CHECK_EQ_U64(memories.count, 9);
    kind.handle = ((pjrt_memory **)memories.list)[7];
    HOST_CALL(Memory_Kind, kind);
    CHECK(kind.size == 11 && memcmp(kind.text, "pinned_host", 11) == 0);
    pjrt_lookup_args lookup = {.client = c, .id = 3};
    HOST_REFUSED(Client_LookupDevice, lookup, PJRT_INVALID_ARGUMENT);
    host_close(c);
}

TEST(pjrt_unknown_client_option_is_refused)
{
    pjrt_named_value option = {.name = "speed", .name_size = 5, .type = PJRT_VALUE_INT, .integer = 3, .size = 1};
    pjrt_client_create_args a = {.options = &option, .num_options = 1};
    CHECK(strstr(HOST_REFUSED(Client_Create, a, PJRT_INVALID_ARGUMENT), "unknown option 'speed'") != NULL);
}

static int discarded;

static void discard(void *data)
{
    discarded += *(int *)data;
}

TEST(pjrt_memory_keeps_user_data_by_key)
{
    int one = 1;
    int ten = 10;
    pjrt_client *c = host_client(NULL, 0);
    pjrt_list_args list = {.handle = c};
    HOST_CALL(Client_AddressableMemories, list);
    pjrt_memory *m = ((pjrt_memory **)list.list)[0];
    const pjrt_memory_table *table = *(const pjrt_memory_table **)(void *)m;
    discarded = 0;
    CHECK(table->get_user_data(m, &one) == NULL);
    table->set_user_data(m, &one, &one, discard);
    CHECK(table->get_user_data(m, &one) == &one);
    table->set_user_data(m, &one, &ten, discard);
    CHECK_EQ_I64(discarded, 1);
    CHECK(table->get_user_data(m, &one) == &ten);
    host_close(c);
    CHECK_EQ_I64(discarded, 11);
}

/* ---- Transfers ---- */

TEST(pjrt_strided_host_arrays_become_dense)
{
    const float data[6] = {1, 2, 3, 4, 5, 6};
    const int64_t strides[2] = {4, -8}; /* the transpose of 3 x 2, read backwards along the last axis */
    float out[6];
    pjrt_client *c = host_client(NULL, 0);
    pjrt_from_host_args a = {.client = c,
                             .data = data + 4,
                             .type = PJRT_F32,
                             .dims = two_by_three,
                             .num_dims = 2,
                             .byte_strides = strides,
                             .num_byte_strides = 2,
                             .semantics = PJRT_HOST_ZERO_COPY};
    HOST_CALL(Client_BufferFromHostBuffer, a);
    host_get(a.buffer, out, sizeof out);
    const float expected[6] = {5, 3, 1, 6, 4, 2};
    CHECK(memcmp(out, expected, sizeof out) == 0);
    const int64_t column_major[2] = {0, 1};
    pjrt_layout layout = {.struct_size = sizeof layout, .type = PJRT_LAYOUT_TILED};
    layout.tiled.minor_to_major = column_major;
    layout.tiled.num_axes = 2;
    pjrt_to_host_args to = {.buffer = a.buffer, .host_layout = &layout, .data = out, .size = sizeof out};
    HOST_CALL(Buffer_ToHostBuffer, to);
    const float turned[6] = {5, 6, 3, 4, 1, 2};
    CHECK(memcmp(out, turned, sizeof out) == 0);
    host_drop(a.buffer);
    host_close(c);
}

static void note(pjrt_error *error, void *user)
{
    CHECK(error == NULL);
    ++*(int *)user;
}

/* The event says when the memory of the host is no longer used, and its callback may destroy it. */
TEST(pjrt_large_host_array_is_shared_until_its_buffer_is_gone)
{
    static float data[1 << 14];
    const int64_t dims[1] = {1 << 14};
    int calls = 0;
    pjrt_client *c = host_client(NULL, 0);
    pjrt_from_host_args a = {
        .client = c, .data = data, .type = PJRT_F32, .dims = dims, .num_dims = 1, .semantics = PJRT_HOST_ZERO_COPY};
    HOST_CALL(Client_BufferFromHostBuffer, a);
    pjrt_object_args address = {.handle = a.buffer};
    HOST_CALL(Buffer_OpaqueDeviceMemoryDataPointer, address);
    CHECK(address.result == data);
    pjrt_on_ready_args on = {.event = a.done_with_host_buffer, .callback = note, .user = &calls};
    HOST_CALL(Event_OnReady, on);
    pjrt_handle_args event = {.handle = a.done_with_host_buffer};
    HOST_CALL(Event_Destroy, event);
    CHECK_EQ_I64(calls, 0);
    pjrt_handle_args handle = {.handle = a.buffer};
    HOST_CALL(Buffer_IncreaseExternalReferenceCount, handle);
    HOST_CALL(Buffer_Delete, handle);
    CHECK_EQ_I64(calls, 0);
    HOST_CALL(Buffer_DecreaseExternalReferenceCount, handle);
    CHECK_EQ_I64(calls, 1);
    HOST_REFUSED(Buffer_IncreaseExternalReferenceCount, handle, PJRT_INVALID_ARGUMENT);
    host_drop(a.buffer);
    host_close(c);
}

TEST(pjrt_device_counts_the_bytes_of_buffers)
{
    float data[6] = {0};
    pjrt_client *c = host_client(NULL, 0);
    pjrt_list_args list = {.handle = c};
    HOST_CALL(Client_Devices, list);
    pjrt_memory_stats_args stats = {.device = ((pjrt_device **)list.list)[0]};
    pjrt_buffer *b = host_put(c, PJRT_F32, two_by_three, 2, data);
    HOST_CALL(Device_MemoryStats, stats);
    CHECK_EQ_I64(stats.bytes_in_use, 24);
    host_drop(b);
    HOST_CALL(Device_MemoryStats, stats);
    CHECK_EQ_I64(stats.bytes_in_use, 0);
    CHECK_EQ_I64(stats.peak_bytes_in_use.value, 24);
    CHECK(stats.peak_bytes_in_use.is_set && stats.bytes_limit.is_set && !stats.bytes_reserved.is_set);
    host_close(c);
}

/* ---- Execution ---- */

TEST(pjrt_program_runs_and_may_be_serialised)
{
    const float data[6] = {1, 2, 3, 4, 5, 6};
    float out[6];
    pjrt_client *c = interpreting();
    pjrt_executable *x = host_compile(c, add_one);
    pjrt_buffer *arg = host_put(c, PJRT_F32, two_by_three, 2, data);
    pjrt_bytes_args bytes = {.handle = x};
    HOST_CALL(Executable_Serialize, bytes);
    pjrt_deserialize_args again = {.client = c, .bytes = bytes.bytes, .size = bytes.size};
    HOST_CALL(Executable_DeserializeAndLoad, again);
    bytes.free_owner(bytes.owner);
    pjrt_executable *both[2] = {x, again.executable};
    for (int i = 0; i < 2; i++) {
        pjrt_buffer *result = NULL;
        host_run(both[i], &arg, 1, &result);
        host_get(result, out, sizeof out);
        for (int k = 0; k < 6; k++)
            CHECK_NEAR(out[k], data[k] + 1, 0);
        host_drop(result);
        host_free(both[i]);
    }
    pjrt_deserialize_args garbage = {.client = c, .bytes = "something else, not ours", .size = 24};
    HOST_REFUSED(Executable_DeserializeAndLoad, garbage, PJRT_INVALID_ARGUMENT);
    host_drop(arg);
    host_close(c);
}

TEST(pjrt_executable_reports_types_costs_and_memory)
{
    pjrt_client *c = interpreting();
    pjrt_executable *x = host_compile(c, add_one);
    pjrt_size_args count = {.handle = x};
    HOST_CALL(Executable_NumOutputs, count);
    CHECK_EQ_U64(count.value, 1);
    pjrt_list_args types = {.handle = x};
    HOST_CALL(Executable_OutputElementTypes, types);
    CHECK_EQ_I64(((int32_t *)types.list)[0], PJRT_F32);
    pjrt_attributes_args costs = {.handle = x};
    HOST_CALL(Executable_GetCostAnalysis, costs);
    CHECK_EQ_U64(costs.count, 2);
    CHECK_NEAR(costs.list[0].real, 6, 0);
    pjrt_compiled_memory_args memory = {.executable = x};
    HOST_CALL(Executable_GetCompiledMemoryStats, memory);
    CHECK_EQ_I64(memory.argument_bytes, 24);
    CHECK_EQ_I64(memory.output_bytes, 24);
    host_free(x);
    host_close(c);
}

static const char donating[] =
    "func.func public @main(%arg0: tensor<2x3xf32> {tf.aliasing_output = 0 : i32}, %arg1: tensor<2x3xf32>)"
    " -> tensor<2x3xf32> {\n"
    "  %0 = stablehlo.add %arg0, %arg1 : tensor<2x3xf32>\n"
    "  return %0 : tensor<2x3xf32>\n"
    "}\n";

static void *address_of(pjrt_buffer *b)
{
    pjrt_object_args a = {.handle = b};
    HOST_CALL(Buffer_UnsafePointer, a);
    return a.result;
}

TEST(pjrt_donated_argument_gives_its_memory_to_the_result)
{
    const float data[6] = {1, 2, 3, 4, 5, 6};
    float out[6];
    pjrt_client *c = client_in("compile"); /* the evaluator writes results to memory of its own */
    pjrt_executable *x = host_compile(c, donating);
    pjrt_buffer *args[2] = {host_put(c, PJRT_F32, two_by_three, 2, data), host_put(c, PJRT_F32, two_by_three, 2, data)};
    void *address = address_of(args[0]);
    pjrt_buffer *result = NULL;
    host_run(x, args, 2, &result);
    CHECK(host_is_deleted(args[0]) && !host_is_deleted(args[1]));
    CHECK(address_of(result) == address);
    host_get(result, out, sizeof out);
    CHECK_NEAR(out[5], 12, 0);

    /* With an external reference the memory stays as it is. */
    pjrt_handle_args handle = {.handle = result};
    HOST_CALL(Buffer_IncreaseExternalReferenceCount, handle);
    pjrt_buffer *more[2] = {result, args[1]};
    pjrt_buffer *last = NULL;
    host_run(x, more, 2, &last);
    CHECK(host_is_deleted(result) && address_of(last) != address);
    CHECK_NEAR(((const float *)address)[5], 12, 0);
    HOST_CALL(Buffer_DecreaseExternalReferenceCount, handle);
    pjrt_buffer *all[4] = {args[0], args[1], result, last};
    for (int i = 0; i < 4; i++)
        host_drop(all[i]);
    host_free(x);
    host_close(c);
}

TEST(pjrt_buffer_that_is_donated_and_used_is_refused)
{
    const float data[6] = {0};
    pjrt_client *c = interpreting();
    pjrt_executable *x = host_compile(c, donating);
    pjrt_buffer *b = host_put(c, PJRT_F32, two_by_three, 2, data);
    pjrt_buffer *args[2] = {b, b};
    pjrt_buffer *const *lists[1] = {args};
    pjrt_buffer *result = NULL;
    pjrt_buffer **outputs[1] = {&result};
    pjrt_execute_args a = {.executable = x, .arguments = lists, .num_devices = 1, .num_args = 2, .outputs = outputs};
    CHECK(strstr(HOST_REFUSED(LoadedExecutable_Execute, a, PJRT_INVALID_ARGUMENT), "donate") != NULL);
    CHECK(!host_is_deleted(b));
    a.num_args = 1;
    HOST_REFUSED(LoadedExecutable_Execute, a, PJRT_INVALID_ARGUMENT);
    pjrt_handle_args handle = {.handle = b};
    HOST_CALL(Buffer_Delete, handle);
    a.num_args = 2;
    CHECK(strstr(HOST_REFUSED(LoadedExecutable_Execute, a, PJRT_INVALID_ARGUMENT), "deleted") != NULL);
    host_drop(b);
    host_free(x);
    host_close(c);
}

/* Formats without a dtype are bytes outside: f8E4M3FN 0x38 is 1, 0xb8 is −1; i4 has the bits above it cut off. */
TEST(pjrt_narrow_elements_are_bytes)
{
    static const char program[] =
        "func.func public @main(%arg0: tensor<2xf8E4M3FN>, %arg1: tensor<2xi4>, %arg2: tensor<2xf4E2M1FN>)"
        " -> (tensor<2xf8E4M3FN>, tensor<2xi4>, tensor<2xf4E2M1FN>) {\n"
        "  %0 = stablehlo.negate %arg0 : tensor<2xf8E4M3FN>\n"
        "  %1 = stablehlo.add %arg1, %arg1 : tensor<2xi4>\n"
        "  %2 = stablehlo.negate %arg2 : tensor<2xf4E2M1FN>\n"
        "  return %0, %1, %2 : tensor<2xf8E4M3FN>, tensor<2xi4>, tensor<2xf4E2M1FN>\n"
        "}\n";
    const unsigned char floats[2] = {0x38, 0x7f};
    const signed char ints[2] = {5, 0x1d};      /* 0x1d: −3 with a bit above it */
    const unsigned char slim[2] = {0x02, 0x15}; /* 1 and 3, the latter with a bit above it */
    const int64_t two[1] = {2};
    unsigned char out[2];
    signed char sums[2];
    pjrt_client *c = interpreting();
    pjrt_executable *x = host_compile(c, program);
    pjrt_buffer *args[3] = {host_put(c, PJRT_F8E4M3FN, two, 1, floats), host_put(c, PJRT_S4, two, 1, ints),
                            host_put(c, PJRT_F4E2M1FN, two, 1, slim)};
    pjrt_buffer *results[3];
    host_run(x, args, 3, results);
    host_get(results[0], out, 2);
    host_get(results[1], sums, 2);
    CHECK_EQ_I64(out[0], 0xb8);
    CHECK_EQ_I64(out[1] & 0x7f, 0x7f); /* NaN */
    CHECK_EQ_I64(sums[0], -6);
    CHECK_EQ_I64(sums[1], -6);
    host_get(results[2], out, 2);
    CHECK_EQ_I64(out[0], 0x0a);
    CHECK_EQ_I64(out[1], 0x0d);
    for (int i = 0; i < 3; i++) {
        host_drop(args[i]);
        host_drop(results[i]);
    }
    host_free(x);
    host_close(c);
}

TEST(pjrt_program_that_is_not_valid_is_refused_with_its_line)
{
    static char wrong[] = "func.func public @main(%arg0: tensor<2xf32>) -> tensor<2xf32> {\n"
                          "  %0 = stablehlo.nonsense %arg0 : tensor<2xf32>\n"
                          "}\n";
    pjrt_client *c = interpreting();
    pjrt_program p = {.struct_size = sizeof p, .code = wrong, .code_size = strlen(wrong), .format = "mlir"};
    p.format_size = 4;
    pjrt_compile_args a = {.client = c, .program = &p};
    CHECK(strstr(HOST_REFUSED(Client_Compile, a, PJRT_UNIMPLEMENTED), "program:2:") != NULL ||
          strstr(HOST_REFUSED(Client_Compile, a, PJRT_INVALID_ARGUMENT), "program:2:") != NULL);
    p.format = "hlo";
    p.format_size = 3;
    HOST_REFUSED(Client_Compile, a, PJRT_UNIMPLEMENTED);
    host_close(c);
}

/* Options are a protocol buffer: field 7 is a pair of name and value, field 3 says for how many devices. */
TEST(pjrt_compile_options_are_read_and_checked)
{
    static const char unknown[] = "\x3a\x07\x0a\x05speed";
    static const char replicas[] = "\x1a\x02\x20\x02";
    static const char threads[] = "\x3a\x15\x0a\x0f"
                                  "fluxion_threads\x12\x02\x18\x02";
    static const char wrong_flag[] = "\x3a\x27\x0a\x1a"
                                     "xla_embed_ir_in_executable\x12\x09\x0a\x07"
                                     "invalid";
    static const char right_flag[] = "\x3a\x20\x0a\x1a"
                                     "xla_embed_ir_in_executable\x12\x02\x10\x01";
    static const char cut_off[] = "\x1a\x7f";
    pjrt_client *c = interpreting();
    pjrt_program p = {.struct_size = sizeof p, .code = (char *)(uintptr_t)add_one, .code_size = strlen(add_one)};
    p.format = "mlir";
    p.format_size = 4;
    pjrt_compile_args a = {.client = c, .program = &p, .options = unknown, .options_size = sizeof unknown - 1};
    CHECK_EQ_STR(HOST_REFUSED(Client_Compile, a, PJRT_INVALID_ARGUMENT), "No such compile option: 'speed'");
    a.options = replicas;
    a.options_size = sizeof replicas - 1;
    HOST_REFUSED(Client_Compile, a, PJRT_UNIMPLEMENTED);
    a.options = cut_off;
    a.options_size = sizeof cut_off - 1;
    HOST_REFUSED(Client_Compile, a, PJRT_INVALID_ARGUMENT);
    a.options = wrong_flag;
    a.options_size = sizeof wrong_flag - 1;
    CHECK_EQ_STR(HOST_REFUSED(Client_Compile, a, PJRT_INVALID_ARGUMENT),
                 "While setting option xla_embed_ir_in_executable, 'invalid' is not a valid bool value.");
    a.options = right_flag;
    a.options_size = sizeof right_flag - 1;
    HOST_CALL(Client_Compile, a);
    host_free(a.executable);
    a.options = threads;
    a.options_size = sizeof threads - 1;
    HOST_CALL(Client_Compile, a);
    host_free(a.executable);
    host_close(c);
}

/* ---- Callbacks ---- */

static int twice(uint64_t id, size_t num_inputs, const pjrt_view *inputs, size_t num_results, const pjrt_view *results,
                 char *error, size_t size)
{
    if (id != 7) {
        snprintf(error, size, "there is no function %d", (int)id);
        return 1;
    }
    for (int i = 0; i < 6 && num_inputs == 1 && num_results == 1; i++)
        ((float *)results[0].data)[i] = 2 * ((const float *)inputs[0].data)[i];
    return 0;
}

static void run_callback(pjrt_client *c, int id, bool works)
{
    char program[600];
    const float data[6] = {1, 2, 3, 4, 5, 6};
    float out[6];
    snprintf(program, sizeof program,
             "func.func public @main(%%arg0: tensor<2x3xf32>) -> tensor<2x3xf32> {\n"
             "  %%0 = stablehlo.custom_call @fluxion_callback(%%arg0) {has_side_effect = true, api_version = 4 : i32,"
             " backend_config = {id = %d : i64}} : (tensor<2x3xf32>) -> tensor<2x3xf32>\n"
             "  return %%0 : tensor<2x3xf32>\n"
             "}\n",
             id);
    pjrt_executable *x = host_compile(c, program);
    pjrt_buffer *arg = host_put(c, PJRT_F32, two_by_three, 2, data);
    pjrt_buffer *result = NULL;
    if (works) {
        host_run(x, &arg, 1, &result);
        host_get(result, out, sizeof out);
        CHECK_NEAR(out[5], 12, 0);
        host_drop(result);
    } else {
        pjrt_buffer *const *lists[1] = {&arg};
        pjrt_buffer **outputs[1] = {&result};
        pjrt_execute_args a = {
            .executable = x, .arguments = lists, .num_devices = 1, .num_args = 1, .outputs = outputs};
        CHECK_EQ_STR(HOST_REFUSED(LoadedExecutable_Execute, a, PJRT_INTERNAL), "there is no function 8");
        CHECK(result == NULL);
    }
    host_drop(arg);
    host_free(x);
}

TEST(pjrt_program_calls_back_into_the_host)
{
    pjrt_callback_extension *e = host_api()->extension_start;
    CHECK_EQ_I64(e->type, PJRT_EXTENSION_CALLBACK);
    e->set_callback(twice);
    pjrt_client *c = interpreting();
    run_callback(c, 7, true);
    run_callback(c, 8, false);
    host_close(c);
}

static int num_calls;

static int count(uint64_t id, size_t num_inputs, const pjrt_view *inputs, size_t num_results, const pjrt_view *results,
                 char *error, size_t size)
{
    (void)num_inputs, (void)inputs, (void)num_results, (void)results, (void)error, (void)size;
    num_calls += (int)id;
    return 0;
}

/* The branch that is taken runs its effect, once; neither has a result. */
TEST(pjrt_branch_without_results_calls_back)
{
    static const char program[] =
        "func.func public @main(%arg0: tensor<i32>) -> tensor<i32> {\n"
        "  \"stablehlo.case\"(%arg0) ({\n"
        "    stablehlo.custom_call @fluxion_callback() {has_side_effect = true, backend_config = {id = 1 : i64}}"
        " : () -> ()\n"
        "    stablehlo.return\n"
        "  }, {\n"
        "    stablehlo.custom_call @fluxion_callback() {has_side_effect = true, backend_config = {id = 10 : i64}}"
        " : () -> ()\n"
        "    stablehlo.return\n"
        "  }) : (tensor<i32>) -> ()\n"
        "  return %arg0 : tensor<i32>\n"
        "}\n";
    const int32_t one = 1;
    int32_t out = 0;
    pjrt_callback_extension *e = host_api()->extension_start;
    e->set_callback(count);
    pjrt_client *c = interpreting();
    pjrt_executable *x = host_compile(c, program);
    pjrt_buffer *arg = host_put(c, PJRT_S32, NULL, 0, &one);
    pjrt_buffer *result = NULL;
    num_calls = 0;
    host_run(x, &arg, 1, &result);
    host_get(result, &out, sizeof out);
    CHECK_EQ_I64(out, 1);
    CHECK_EQ_I64(num_calls, 10);
    host_drop(arg);
    host_drop(result);
    host_free(x);
    host_close(c);
}

/* ---- Threads ---- */

typedef struct {
    pjrt_executable *x;
    pjrt_buffer *arg;
} shared_run;

static void *run_often(void *user)
{
    const shared_run *s = user;
    float out[6];
    for (int i = 0; i < 50; i++) {
        pjrt_buffer *result = NULL;
        host_run(s->x, &s->arg, 1, &result);
        host_get(result, out, sizeof out);
        CHECK_NEAR(out[0], 2, 0);
        host_drop(result);
    }
    return NULL;
}

TEST(pjrt_executable_runs_on_several_threads)
{
    const float data[6] = {1};
    pthread_t threads[4];
    pjrt_client *c = interpreting();
    shared_run s = {host_compile(c, add_one), host_put(c, PJRT_F32, two_by_three, 2, data)};
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, run_often, &s) == 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    host_drop(s.arg);
    host_free(s.x);
    host_close(c);
}
