/* SPDX-License-Identifier: Apache-2.0 */
/* pjrt_devices.c: programs for several devices: values cut and put together, computations of each device that meet in
   exchanges, what is reported about them, and what fails. */
#include "pjrt/pjrt_callback.h"
#include "pjrt/pjrt_host.h"

#include "test.h"

#include <stdio.h>
#include <string.h>

enum { DEVICES = 4 };

static pjrt_client *four_devices(void)
{
    const pjrt_named_value options[] = {
        {.name = "devices", .name_size = 7, .type = PJRT_VALUE_INT, .integer = DEVICES, .size = 1},
        {.name = "mode", .name_size = 4, .type = PJRT_VALUE_STRING, .string = "interpret", .size = 9},
    };
    return host_client(options, 2);
}

static pjrt_buffer *put_on(pjrt_client *c, int device, const int64_t *dims, size_t rank, const float *data)
{
    pjrt_list_args list = {.handle = c};
    HOST_CALL(Client_Devices, list);
    pjrt_from_host_args a = {.client = c,
                             .data = data,
                             .type = PJRT_F32,
                             .dims = dims,
                             .num_dims = rank,
                             .semantics = PJRT_HOST_DURING_CALL,
                             .device = ((pjrt_device **)list.list)[device]};
    HOST_CALL(Client_BufferFromHostBuffer, a);
    pjrt_handle_args event = {.handle = a.done_with_host_buffer};
    HOST_CALL(Event_Destroy, event);
    return a.buffer;
}

/* Runs a program with one argument, a part of which each device has, and one result. */
static void run_one(pjrt_executable *x, pjrt_buffer *const args[DEVICES], pjrt_buffer *results[DEVICES])
{
    pjrt_buffer *const *lists[DEVICES];
    pjrt_buffer **outputs[DEVICES];
    for (int d = 0; d < DEVICES; d++) {
        lists[d] = &args[d];
        outputs[d] = &results[d];
    }
    host_run_on(x, DEVICES, lists, 1, outputs);
}

static void drop_all(pjrt_buffer *const *list)
{
    for (int d = 0; d < DEVICES; d++)
        host_drop(list[d]);
}

/* ---- One computation with whole values ---- */

static const char row_sums[] =
    "module {\n"
    "  sdy.mesh @mesh = <[\"x\"=2, \"y\"=2]>\n"
    "  func.func public @main(%arg0: tensor<4x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"y\", \"x\"}, {}]>})"
    " -> (tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"x\"}]>},"
    " tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}) {\n"
    "    %c = stablehlo.constant dense<0.0> : tensor<f32>\n"
    "    %0 = stablehlo.reduce(%arg0 init: %c) applies stablehlo.add across dimensions = [1]"
    " : (tensor<4x2xf32>, tensor<f32>) -> tensor<4xf32>\n"
    "    return %0, %0 : tensor<4xf32>, tensor<4xf32>\n"
    "  }\n"
    "}\n";

/* Row r of the whole is on the device whose coordinates are y = r / 2 and x = r % 2: devices 0, 2, 1, 3. */
TEST(pjrt_values_are_cut_along_the_axes_of_the_mesh)
{
    const float rows[DEVICES][2] = {{1, 2}, {5, 6}, {3, 4}, {7, 8}}; /* by device */
    const float sums[DEVICES] = {3, 7, 11, 15};
    const int64_t part[2] = {1, 2};
    pjrt_client *c = four_devices();
    pjrt_executable *x = host_compile_for(c, row_sums, DEVICES);
    pjrt_buffer *args[DEVICES], *results[DEVICES][2];
    pjrt_buffer *const *lists[DEVICES];
    pjrt_buffer **outputs[DEVICES];
    for (int d = 0; d < DEVICES; d++) {
        args[d] = put_on(c, d, part, 2, rows[d]);
        lists[d] = &args[d];
        outputs[d] = results[d];
    }
    host_run_on(x, DEVICES, lists, 1, outputs);
    for (int d = 0; d < DEVICES; d++) {
        float half[2], whole[4];
        host_get(results[d][0], half, sizeof half);
        host_get(results[d][1], whole, sizeof whole);
        CHECK(memcmp(half, sums + 2 * (d / 2), sizeof half) == 0);
        CHECK(memcmp(whole, sums, sizeof whole) == 0);
        pjrt_object_args device = {.handle = results[d][0]};
        HOST_CALL(Buffer_Device, device);
        pjrt_int_args id = {.handle = device.result};
        HOST_CALL(DeviceDescription_Id, id);
        CHECK_EQ_I64(id.value, d);
        host_drop(results[d][0]);
        host_drop(results[d][1]);
    }
    drop_all(args);
    host_free(x);
    host_close(c);
}

static const pjrt_shardings_extension *shardings(void)
{
    const pjrt_callback_extension *e = host_api()->extension_start;
    while (e && e->type != PJRT_EXTENSION_SHARDINGS)
        e = e->next;
    CHECK(e != NULL);
    return (const pjrt_shardings_extension *)(const void *)e;
}

/* OpSharding: kind 3, tiles [4, 1], devices 0 2 1 3; and tiles [2, 2] of which the last are copies. */
TEST(pjrt_shardings_are_reported)
{
    static const char argument[] = {8, 3, 26, 2, 4, 1, 34, 4, 0, 2, 1, 3};
    static const char result[] = {8, 3, 26, 2, 2, 2, 34, 4, 0, 1, 2, 3, 48, 1};
    pjrt_client *c = four_devices();
    pjrt_executable *x = host_compile_for(c, row_sums, DEVICES);
    pjrt_sharding_args a = {.struct_size = sizeof a, .executable = x};
    CHECK(shardings()->parameter_shardings(&a) == NULL);
    CHECK_EQ_U64(a.count, 1);
    CHECK(a.sizes[0] == sizeof argument && memcmp(a.protos[0], argument, sizeof argument) == 0);
    CHECK(shardings()->output_shardings(&a) == NULL);
    CHECK_EQ_U64(a.count, 2);
    CHECK(a.sizes[0] == sizeof result && memcmp(a.protos[0], result, sizeof result) == 0);
    CHECK_EQ_U64(a.sizes[1], 0);
    pjrt_list_args devices = {.handle = x};
    HOST_CALL(LoadedExecutable_AddressableDevices, devices);
    CHECK_EQ_U64(devices.count, DEVICES);
    pjrt_size_args count = {.handle = x};
    HOST_CALL(Executable_NumPartitions, count);
    CHECK_EQ_U64(count.value, DEVICES);
    pjrt_output_dims_args dims = {.executable = x};
    HOST_CALL(Executable_OutputDimensions, dims);
    CHECK_EQ_I64(dims.dims[0], 2); /* of the part that a device has */
    host_free(x);
    x = host_compile(c, row_sums);
    a.executable = x;
    CHECK(shardings()->output_shardings(&a) == NULL);
    CHECK(a.protos == NULL);
    host_free(x);
    host_close(c);
}

/* ---- Computations of each device ---- */

#define MANUAL(type, in, out, part, whole, body)                                                           \
    "module {\n"                                                                                           \
    "  sdy.mesh @mesh = <[\"x\"=2, \"y\"=2]>\n"                                                            \
    "  func.func public @main(%arg0: " type " {sdy.sharding = #sdy.sharding<@mesh, [" in "]>}) -> (" whole \
    " {sdy.sharding = #sdy.sharding<@mesh, [" out "]>}) {\n"                                               \
    "    %0 = sdy.manual_computation(%arg0) in_shardings=[<@mesh, [" in "]>] out_shardings=[<@mesh, [" out \
    "]>] manual_axes={\"x\", \"y\"} (%a: " part ") {\n" body "    } : (" type ") -> " whole "\n"           \
    "    return %0 : " whole "\n  }\n}\n"
#define SUM_OVER(groups, type)                                                                         \
    "      %1 = \"stablehlo.all_reduce\"(%a) <{replica_groups = dense<" groups ">}> ({\n"              \
    "      ^bb0(%c: tensor<f32>, %d: tensor<f32>):\n        %2 = stablehlo.add %c, %d : tensor<f32>\n" \
    "        stablehlo.return %2 : tensor<f32>\n      }) : (" type ") -> " type "\n"

/* Each device has one number, 1, 2, 3 or 4, and adds those of its group. */
static void check_sums(const char *program, const float want[DEVICES])
{
    const int64_t part[1] = {1};
    pjrt_client *c = four_devices();
    pjrt_executable *x = host_compile_for(c, program, DEVICES);
    pjrt_buffer *args[DEVICES], *results[DEVICES];
    for (int d = 0; d < DEVICES; d++)
        args[d] = put_on(c, d, part, 1, &(float){(float)d + 1});
    for (int repeat = 0; repeat < 2; repeat++) {
        run_one(x, args, results);
        for (int d = 0; d < DEVICES; d++) {
            float got;
            host_get(results[d], &got, sizeof got);
            CHECK_NEAR(got, want[d], 0);
        }
        drop_all(results);
    }
    drop_all(args);
    host_free(x);
    host_close(c);
}

TEST(pjrt_devices_exchange_along_axes_and_in_other_groups)
{
#define SUMS(groups, type)                                                                        \
    MANUAL("tensor<4xf32>", "{\"x\", \"y\"}", "{\"x\", \"y\"}", "tensor<1xf32>", "tensor<4xf32>", \
           SUM_OVER(groups "> : " type, "tensor<1xf32>") "      sdy.return %1 : tensor<1xf32>\n")
    check_sums(SUMS("[[0, 1], [2, 3]]", "tensor<2x2xi64"), (const float[]){3, 3, 7, 7});
    check_sums(SUMS("[[0, 2], [1, 3]]", "tensor<2x2xi64"), (const float[]){4, 6, 4, 6});
    check_sums(SUMS("[[0, 1, 2, 3]]", "tensor<1x4xi64"), (const float[]){10, 10, 10, 10});
    check_sums(SUMS("[[3, 0], [1, 2]]", "tensor<2x2xi64"), (const float[]){5, 5, 5, 5});
    check_sums(MANUAL("tensor<4xf32>", "{\"x\", \"y\"}", "{\"x\", \"y\"}", "tensor<1xf32>", "tensor<4xf32>",
                      "      %1 = \"stablehlo.all_reduce\"(%a) <{replica_groups = dense<[[0, 2], [1, 3]]> :"
                      " tensor<2x2xi64>}> ({\n"
                      "      ^bb0(%c: tensor<f32>, %d: tensor<f32>):\n"
                      "        %2 = stablehlo.maximum %c, %d : tensor<f32>\n"
                      "        %3 = sdy.sharding_constraint %2 <@mesh, []> : tensor<f32>\n"
                      "        stablehlo.return %3 : tensor<f32>\n      }) : (tensor<1xf32>) -> tensor<1xf32>\n"
                      "      sdy.return %1 : tensor<1xf32>\n"),
               (const float[]){3, 4, 3, 4});
#undef SUMS
}

/* all_gather and all_to_all among groups that no axes give; the device's number. */
TEST(pjrt_devices_gather_and_trade_in_other_groups)
{
    check_sums(MANUAL("tensor<4xf32>", "{\"x\", \"y\"}", "{\"x\", \"y\"}", "tensor<1xf32>", "tensor<4xf32>",
                      "      %1 = \"stablehlo.all_gather\"(%a) <{all_gather_dim = 0 : i64, replica_groups ="
                      " dense<[[3, 0], [1, 2]]> : tensor<2x2xi64>}> : (tensor<1xf32>) -> tensor<2xf32>\n"
                      "      %2 = stablehlo.slice %1 [0:1] : (tensor<2xf32>) -> tensor<1xf32>\n"
                      "      sdy.return %2 : tensor<1xf32>\n"),
               (const float[]){4, 2, 2, 4});
    check_sums(MANUAL("tensor<4xf32>", "{\"x\", \"y\"}", "{\"x\", \"y\"}", "tensor<1xf32>", "tensor<4xf32>",
                      "      %1 = stablehlo.concatenate %a, %a, dim = 0 :"
                      " (tensor<1xf32>, tensor<1xf32>) -> tensor<2xf32>\n"
                      "      %2 = \"stablehlo.all_to_all\"(%1) <{split_dimension = 0 : i64, concat_dimension = 0 : i64,"
                      " split_count = 2 : i64, replica_groups = dense<[[3, 0], [1, 2]]> : tensor<2x2xi64>}>"
                      " : (tensor<2xf32>) -> tensor<2xf32>\n"
                      "      %3 = stablehlo.slice %2 [1:2] : (tensor<2xf32>) -> tensor<1xf32>\n"
                      "      sdy.return %3 : tensor<1xf32>\n"),
               (const float[]){1, 3, 3, 1});
    check_sums(MANUAL("tensor<4xf32>", "{\"x\", \"y\"}", "{\"x\", \"y\"}", "tensor<1xf32>", "tensor<4xf32>",
                      "      %1 = stablehlo.partition_id : tensor<ui32>\n"
                      "      %2 = stablehlo.convert %1 : (tensor<ui32>) -> tensor<f32>\n"
                      "      %3 = stablehlo.reshape %2 : (tensor<f32>) -> tensor<1xf32>\n"
                      "      %4 = stablehlo.add %a, %3 : tensor<1xf32>\n"
                      "      sdy.return %4 : tensor<1xf32>\n"),
               (const float[]){1, 3, 5, 7});
}

/* ---- What fails ---- */

static int raises_on_third(uint64_t id, size_t num_inputs, const pjrt_view *inputs, size_t num_results,
                           const pjrt_view *results, char *error, size_t size)
{
    (void)id;
    CHECK(num_inputs == 1 && num_results == 1);
    float value = *(const float *)inputs[0].data;
    *(float *)results[0].data = value;
    if (value == 3)
        snprintf(error, size, "three is too many");
    return value == 3;
}

/* One device fails, while the others wait for it in an exchange: all of them end, with its error. */
TEST(pjrt_failure_of_one_device_ends_the_others)
{
    static const char program[] = MANUAL(
        "tensor<4xf32>", "{\"x\", \"y\"}", "{\"x\", \"y\"}", "tensor<1xf32>", "tensor<4xf32>",
        "      %r = stablehlo.custom_call @fluxion_callback(%a) {api_version = 4 : i32, has_side_effect = true,"
        " backend_config = {id = 7 : i64}} : (tensor<1xf32>) -> tensor<1xf32>\n"
        "      %1 = \"stablehlo.all_reduce\"(%r) <{replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}> ({\n"
        "      ^bb0(%c: tensor<f32>, %d: tensor<f32>):\n        %2 = stablehlo.add %c, %d : tensor<f32>\n"
        "        stablehlo.return %2 : tensor<f32>\n      }) : (tensor<1xf32>) -> tensor<1xf32>\n"
        "      sdy.return %1 : tensor<1xf32>\n");
    const int64_t part[1] = {1};
    pjrt_client *c = four_devices();
    const pjrt_callback_extension *e = host_api()->extension_start;
    CHECK_EQ_I64(e->type, PJRT_EXTENSION_CALLBACK);
    e->set_callback(raises_on_third);
    pjrt_executable *x = host_compile_for(c, program, DEVICES);
    pjrt_buffer *args[DEVICES], *results[DEVICES] = {NULL};
    pjrt_buffer *const *lists[DEVICES];
    pjrt_buffer **outputs[DEVICES];
    for (int d = 0; d < DEVICES; d++) {
        args[d] = put_on(c, d, part, 1, &(float){(float)d + 1});
        lists[d] = &args[d];
        outputs[d] = &results[d];
    }
    pjrt_execute_args a = {
        .executable = x, .arguments = lists, .num_devices = DEVICES, .num_args = 1, .outputs = outputs};
    CHECK(strstr(HOST_REFUSED(LoadedExecutable_Execute, a, PJRT_INTERNAL), "three is too many") != NULL);
    CHECK(results[0] == NULL);
    a.num_devices = 1;
    HOST_REFUSED(LoadedExecutable_Execute, a, PJRT_INVALID_ARGUMENT);
    drop_all(args);
    host_free(x);
    host_close(c);
}

TEST(pjrt_program_for_more_devices_than_there_are_is_refused)
{
    const char options[] = {3 << 3 | 2, 2, 5 << 3, DEVICES};
    pjrt_client *c = host_client(NULL, 0);
    pjrt_program p = {.struct_size = sizeof p, .format = "mlir", .format_size = 4};
    p.code = (char *)(uintptr_t)row_sums;
    p.code_size = strlen(row_sums);
    pjrt_compile_args a = {.client = c, .program = &p, .options = options, .options_size = sizeof options};
    CHECK(strstr(HOST_REFUSED(Client_Compile, a, PJRT_INVALID_ARGUMENT), "4 devices: there are 1") != NULL);
    host_close(c);
}

/* ---- Results that the program leaves open ---- */

/* Tiles of the first result; "": replicated. */
static void check_open(const char *type, const char *body, const char *want, size_t size)
{
    char program[2000];
    snprintf(program, sizeof program,
             "module {\n  sdy.mesh @mesh = <[\"x\"=2, \"y\"=2]>\n"
             "  func.func public @main(%%a: tensor<4x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"x\"}, {\"y\"}]>},"
             " %%b: tensor<2x6xf32>) -> %s {\n%s    return %%r : %s\n  }\n"
             "  func.func private @twice(%%c: tensor<4x2xf32>) -> tensor<4x2xf32> {\n"
             "    %%0 = stablehlo.add %%c, %%c : tensor<4x2xf32>\n    return %%0 : tensor<4x2xf32>\n  }\n}\n",
             type, body, type);
    pjrt_client *c = four_devices();
    pjrt_executable *x = host_compile_for(c, program, DEVICES);
    pjrt_sharding_args a = {.struct_size = sizeof a, .executable = x};
    CHECK(shardings()->output_shardings(&a) == NULL);
    CHECK_MSG(a.sizes[0] == (size ? size + 4 : 0), "%zu bytes for %s", a.sizes[0], body);
    CHECK_MSG(size == 0 || memcmp(a.protos[0] + 4, want, size) == 0, "%s", body);
    host_free(x);
    host_close(c);
}

TEST(pjrt_open_results_are_cut_as_follows_from_arguments)
{
    static const char both[] = {2, 2, 34, 4, 0, 1, 2, 3};           /* x, y */
    static const char turned[] = {2, 2, 34, 4, 0, 2, 1, 3};         /* y, x */
    static const char rows[] = {2, 1, 2, 34, 4, 0, 1, 2, 3, 48, 1}; /* x, - */
    static const char first[] = {2, 2, 34, 4, 0, 1, 2, 3, 48, 1};   /* x */
    static const char wide[] = {2, 1, 2, 34, 4, 0, 1, 2, 3};        /* x, -, y */
    check_open("tensor<4x2xf32>", "    %r = func.call @twice(%a) : (tensor<4x2xf32>) -> tensor<4x2xf32>\n", both,
               sizeof both);
    check_open("tensor<2x4xf32>",
               "    %r = stablehlo.transpose %a, dims = [1, 0] : (tensor<4x2xf32>) -> tensor<2x4xf32>\n", turned,
               sizeof turned);
    check_open("tensor<4x6xf32>",
               "    %r = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] :"
               " (tensor<4x2xf32>, tensor<2x6xf32>) -> tensor<4x6xf32>\n",
               rows, sizeof rows);
    check_open("tensor<4xf32>",
               "    %z = stablehlo.constant dense<0.0> : tensor<f32>\n"
               "    %r = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [1]"
               " : (tensor<4x2xf32>, tensor<f32>) -> tensor<4xf32>\n",
               first, sizeof first);
    check_open("tensor<4x1x2xf32>", "    %r = stablehlo.reshape %a : (tensor<4x2xf32>) -> tensor<4x1x2xf32>\n", wide,
               sizeof wide);
    check_open("tensor<2x6xf32>", "    %r = stablehlo.negate %b : tensor<2x6xf32>\n", "", 0);
    check_open("tensor<4xf32>",
               "    %i = stablehlo.constant dense<1> : tensor<1xi32>\n"
               "    %r = \"stablehlo.gather\"(%a, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [0],"
               " collapsed_slice_dims = [1], start_index_map = [1]>, slice_sizes = array<i64: 4, 1>}>"
               " : (tensor<4x2xf32>, tensor<1xi32>) -> tensor<4xf32>\n",
               first, sizeof first);
    check_open("tensor<4xf32>",
               "    %p = stablehlo.constant dense<true> : tensor<i1>\n"
               "    %z = stablehlo.constant dense<0.0> : tensor<4xf32>\n"
               "    %r = stablehlo.while(%v = %z) : tensor<4xf32>\n"
               "     cond {\n      stablehlo.return %p : tensor<i1>\n    } do {\n"
               "      %1 = sdy.sharding_constraint %v <@mesh, [{\"x\"}]> : tensor<4xf32>\n"
               "      stablehlo.return %1 : tensor<4xf32>\n    }\n",
               first, sizeof first);
}

/* ---- Sums over devices ---- */

/* The argument is 1 + 2 on x = 0 and 3 + 4 on x = 1; of the result y = 0 has all. */
TEST(pjrt_values_may_be_sums_of_what_devices_have)
{
    static const char program[] =
        "module {\n"
        "  sdy.mesh @mesh = <[\"x\"=2, \"y\"=2]>\n"
        "  func.func public @main(%arg0: tensor<2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"x\"}],"
        " unreduced={\"y\"}>}) -> (tensor<2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"x\"}], unreduced={\"y\"}>}) "
        "{\n"
        "    %0 = stablehlo.multiply %arg0, %arg0 : tensor<2xf32>\n"
        "    return %0 : tensor<2xf32>\n"
        "  }\n"
        "}\n";
    static const char sharding[] = {8, 3, 26, 2, 2, 2, 34, 4, 0, 1, 2, 3, 66, 1, 6};
    const float want[DEVICES] = {9, 0, 49, 0};
    check_sums(program, want);
    pjrt_client *c = four_devices();
    pjrt_executable *x = host_compile_for(c, program, DEVICES);
    pjrt_sharding_args a = {.struct_size = sizeof a, .executable = x};
    CHECK(shardings()->output_shardings(&a) == NULL);
    CHECK(a.sizes[0] == sizeof sharding && memcmp(a.protos[0], sharding, sizeof sharding) == 0);
    host_free(x);
    host_close(c);
}

/* In a manual computation each device has its summand; with 1 more each, summed when the result is whole again. */
TEST(pjrt_manual_computations_take_and_return_summands)
{
    static const char program[] =
        "module {\n"
        "  sdy.mesh @mesh = <[\"x\"=2, \"y\"=2]>\n"
        "  func.func public @main(%arg0: tensor<2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"x\"}],"
        " unreduced={\"y\"}>}) -> (tensor<2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"x\"}]>}) {\n"
        "    %0 = sdy.manual_computation(%arg0) in_shardings=[<@mesh, [{\"x\"}], unreduced={\"y\"}>]"
        " out_shardings=[<@mesh, [{\"x\"}], unreduced={\"y\"}>] manual_axes={\"x\", \"y\"} (%a: tensor<1xf32>) {\n"
        "      %c = stablehlo.constant dense<1.0> : tensor<1xf32>\n"
        "      %1 = stablehlo.add %a, %c : tensor<1xf32>\n"
        "      sdy.return %1 : tensor<1xf32>\n"
        "    } : (tensor<2xf32>) -> tensor<2xf32>\n"
        "    return %0 : tensor<2xf32>\n"
        "  }\n"
        "}\n";
    const float want[DEVICES] = {5, 5, 9, 9};
    check_sums(program, want);
}

/* The first device of the mesh is the last of the program. */
TEST(pjrt_mesh_may_list_devices_in_another_order)
{
    static const char program[] =
        "module {\n"
        "  sdy.mesh @mesh = <[\"x\"=4], device_ids=[3, 2, 1, 0]>\n"
        "  func.func public @main(%arg0: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"x\"}]>})"
        " -> (tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"x\"}]>}) {\n"
        "    %c = stablehlo.constant dense<[10.0, 20.0, 30.0, 40.0]> : tensor<4xf32>\n"
        "    %0 = stablehlo.add %arg0, %c : tensor<4xf32>\n"
        "    return %0 : tensor<4xf32>\n"
        "  }\n"
        "}\n";
    const float want[DEVICES] = {41, 32, 23, 14};
    check_sums(program, want);
}
