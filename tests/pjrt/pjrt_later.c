/* SPDX-License-Identifier: Apache-2.0 */
/* pjrt_later.c: executions that run after the call has returned: chains of them, donated arguments, readers that wait,
   and errors that travel to what is computed from a result. */
#include "pjrt/pjrt_host.h"

#include "test.h"

#include <stdio.h>
#include <string.h>

static const int64_t three[1] = {3};

static pjrt_client *client_with(int64_t asynchronous, const char *mode)
{
    const pjrt_named_value options[] = {
        {.name = "asynchronous", .name_size = 12, .type = PJRT_VALUE_INT, .integer = asynchronous, .size = 1},
        {.name = "mode", .name_size = 4, .type = PJRT_VALUE_STRING, .string = mode, .size = strlen(mode)},
    };
    return host_client(options, 2);
}

static const char doubling[] = "func.func public @main(%arg0: tensor<3xf32> {tf.aliasing_output = 0 : i32})"
                               " -> tensor<3xf32> {\n"
                               "  %0 = stablehlo.add %arg0, %arg0 : tensor<3xf32>\n"
                               "  return %0 : tensor<3xf32>\n"
                               "}\n";

static void check_chain(pjrt_client *c)
{
    const float data[3] = {1, 2, 3};
    float out[3];
    pjrt_executable *x = host_compile(c, doubling);
    pjrt_buffer *b = host_put(c, PJRT_F32, three, 1, data);
    for (int i = 0; i < 20; i++) {
        pjrt_buffer *next = NULL;
        host_run(x, &b, 1, &next);
        CHECK(host_is_deleted(b));
        host_drop(b);
        b = next;
    }
    host_free(x); /* while jobs wait */
    host_get(b, out, sizeof out);
    for (int i = 0; i < 3; i++)
        CHECK_NEAR(out[i], data[i] * 1048576, 0);
    pjrt_object_args ready = {.handle = b};
    HOST_CALL(Buffer_ReadyEvent, ready);
    pjrt_bool_args is_ready = {.handle = ready.result};
    HOST_CALL(Event_IsReady, is_ready);
    CHECK(is_ready.value);
    pjrt_handle_args event = {.handle = ready.result};
    HOST_CALL(Event_Destroy, event);
    host_drop(b);
}

TEST(pjrt_later_results_arrive_in_order)
{
    static const char *const modes[] = {"interpret", "compile", "auto"};
    for (int64_t asynchronous = 0; asynchronous <= 2; asynchronous += 2)
        for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
            pjrt_client *c = client_with(asynchronous, modes[i]);
            check_chain(c);
            host_close(c);
        }
}

/* A client that is closed first runs what waits. */
TEST(pjrt_later_jobs_run_before_the_client_ends)
{
    const float data[3] = {1, 2, 3};
    pjrt_client *c = client_with(2, "interpret");
    pjrt_executable *x = host_compile(c, doubling);
    pjrt_buffer *b = host_put(c, PJRT_F32, three, 1, data);
    pjrt_buffer *result = NULL;
    host_run(x, &b, 1, &result);
    host_drop(result);
    host_drop(b);
    host_free(x);
    host_close(c);
}

/* An exchange of four processes in a program that runs alone fails when it is run. */
static const char failing[] =
    "module {\n"
    "  sdy.mesh @mesh = <[\"x\"=4]>\n"
    "  func.func public @main(%arg0: tensor<3xf32>) -> tensor<3xf32> {\n"
    "    %0 = sdy.manual_computation(%arg0) in_shardings=[<@mesh, [{}]>] out_shardings=[<@mesh, [{}]>]"
    " manual_axes={\"x\"} (%a: tensor<3xf32>) {\n"
    "      %1 = \"stablehlo.all_reduce\"(%a) <{replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}> ({\n"
    "      ^bb0(%c: tensor<f32>, %d: tensor<f32>):\n        %2 = stablehlo.add %c, %d : tensor<f32>\n"
    "        stablehlo.return %2 : tensor<f32>\n      }) : (tensor<3xf32>) -> tensor<3xf32>\n"
    "      sdy.return %1 : tensor<3xf32>\n    } : (tensor<3xf32>) -> tensor<3xf32>\n"
    "    return %0 : tensor<3xf32>\n  }\n}\n";

static void expect_failure(pjrt_buffer *b)
{
    float out[3];
    pjrt_to_host_args to = {.struct_size = sizeof to, .buffer = b, .data = out, .size = sizeof out};
    pjrt_error *e = host_api()->slots[PJRT_Buffer_ToHostBuffer](&to);
    CHECK(e != NULL);
    pjrt_text_args text = {.struct_size = sizeof text, .handle = e};
    host_api()->slots[PJRT_Error_Message](&text);
    CHECK_MSG(strstr(text.text, "made for 4 processes") != NULL, "%.*s", (int)text.size, text.text);
    pjrt_handle_args handle = {.struct_size = sizeof handle, .handle = e};
    host_api()->slots[PJRT_Error_Destroy](&handle);
    host_drop(b);
}

TEST(pjrt_later_error_is_that_of_all_that_follows)
{
    const float data[3] = {1, 2, 3};
    pjrt_client *c = client_with(2, "interpret");
    pjrt_executable *x = host_compile(c, failing);
    pjrt_executable *y = host_compile(c, doubling);
    pjrt_buffer *b = host_put(c, PJRT_F32, three, 1, data);
    pjrt_buffer *first = NULL, *second = NULL;
    host_run(x, &b, 1, &first);
    host_run(y, &first, 1, &second);
    expect_failure(second);
    host_drop(first);
    host_drop(b);
    host_free(x);
    host_free(y);
    host_close(c);
}

/* ---- What is interpreted at first ---- */

static double bytes_accessed(const char *mode, const char *elements)
{
    char program[600];
    snprintf(program, sizeof program,
             "func.func public @main(%%a: tensor<%sxf32>) -> tensor<%sxf32> {\n"
             "  %%0 = stablehlo.add %%a, %%a : tensor<%sxf32>\n  %%1 = stablehlo.multiply %%0, %%a : tensor<%sxf32>\n"
             "  %%2 = stablehlo.add %%1, %%a : tensor<%sxf32>\n  return %%2 : tensor<%sxf32>\n}\n",
             elements, elements, elements, elements, elements, elements);
    pjrt_client *c = client_with(1, mode);
    pjrt_executable *x = host_compile(c, program);
    pjrt_attributes_args costs = {.handle = x};
    HOST_CALL(Executable_GetCostAnalysis, costs);
    double bytes = (double)costs.list[1].real;
    host_free(x);
    host_close(c);
    return bytes;
}

/* Machine code reads and writes values once. */
TEST(pjrt_auto_compiles_first_what_takes_long)
{
    CHECK_NEAR(bytes_accessed("auto", "1000"), bytes_accessed("interpret", "1000"), 0);
    CHECK(bytes_accessed("auto", "1000") > bytes_accessed("compile", "1000"));
    CHECK_NEAR(bytes_accessed("auto", "40000000"), bytes_accessed("compile", "40000000"), 0);
    CHECK(bytes_accessed("interpret", "40000000") > bytes_accessed("compile", "40000000"));
}
