/* SPDX-License-Identifier: Apache-2.0 */
/* standalone_starved.c: memory that runs out while a C file is written does no harm, and the text does not depend on
   what was written before. */
#include "effort.h"
#include "fault.h"
#include "test.h"

#include <fluxion/build.h>
#include <fluxion/fluxion.h>
#include <stdio.h>
#include <string.h>

static const char text[] =
    "graph body(c: f32[3], x: f32[3]) { d = add(mul(c, 0.5), x)\n return d, tanh(d) }\n"
    "graph model(x: f32[4, 3], i: i32[2], param w: f32[3, 5] ~ normal(1), param b: f32[5] ~ ones) {\n"
    "  c, s = scan(full(f32[3], 0), x, body=@body, num_carry=1)\n"
    "  h = sort(add(matmul(s, w), b), axis=1)\n"
    "  loss = reduce_mean(square(gather(h, i)))\n"
    "  return loss, cumsum(c, axis=0)\n"
    "}\n";

/* Extents as arguments, and functions of the library. */
static const char open_text[] = "graph model(x: f32[N, 3], param w: f32[3, 3] ~ normal(1), param b: f32[3] ~ ones) {\n"
                                "  w1, v = eigh(w)\n"
                                "  return reduce_mean(square(add(matmul(x, v), b))), w1\n"
                                "}\n";

/* Builds everything a file can have. */
static flx_code build(fault *f, const char *graph, flx_buffer *source, char *message, size_t size)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(&(flx_context_options){.alloc = fault_alloc, .alloc_user = f});
    flx_module *m = ctx ? flx_parse(ctx, graph, strlen(graph), "model", &err) : NULL;
    flx_code code = m ? FLX_OK : FLX_E_OOM;
    flx_params *values = m ? flx_params_of(flx_module_main(m), 1, &err) : NULL;
    const flx_train_options train = {.struct_size = sizeof train, .optimiser = FLX_ADAMW};
    const flx_build_options o = {.struct_size = sizeof o,
                                 .flags = FLX_BUILD_GRAD,
                                 .header = "model.h",
                                 .params = FLX_BUILD_EMBED,
                                 .values = values,
                                 .train = &train};
    flx_buffer header = {0}, made = {0};
    flx_build_sizes sizes = {.struct_size = sizeof sizes};
    if (m)
        code = values ? flx_build_c(flx_module_main(m), &o, &made, &header, &sizes, &err) : FLX_E_OOM;
    if (code == FLX_OK && source)
        CHECK(snprintf(source->data, source->size, "%s", made.data) < (int)source->size);
    snprintf(message, size, "%s", err.message);
    flx_buffer_free(&made);
    flx_buffer_free(&header);
    flx_params_release(values);
    flx_module_free(m);
    if (ctx)
        flx_context_free(ctx);
    return code;
}

static void starve(const char *graph, size_t tries)
{
    fault whole = {0};
    char message[300];
    CHECK_MSG(build(&whole, graph, NULL, message, sizeof message) == FLX_OK, "%s", message);
    CHECK(fault_is_clean(&whole));
    size_t step = whole.calls / tries + 1;
    for (size_t n = 1 + test_seed() % step; n <= whole.calls; n += step) {
        fault f = {.fail_at = n};
        flx_code code = build(&f, graph, NULL, message, sizeof message);
        CHECK_MSG(code == FLX_E_OOM || code == FLX_OK, "allocation %zu: code %d: %s", n, code, message);
        CHECK_MSG(fault_is_clean(&f), "allocation %zu: memory is lost", n);
    }
}

TEST(standalone_starved_build_fails_cleanly)
{
    starve(text, (size_t)effort(EFFORT_starved_runs));
}

TEST(standalone_starved_symbolic_build_fails_cleanly)
{
    starve(open_text, (size_t)effort(EFFORT_starved_runs) / 4 + 1);
}

TEST(standalone_text_is_the_same_each_time)
{
    static char one[400000], two[400000];
    flx_buffer a = {.data = one, .size = sizeof one}, b = {.data = two, .size = sizeof two};
    fault f = {0};
    char message[300];
    CHECK_MSG(build(&f, text, &a, message, sizeof message) == FLX_OK, "%s", message);
    CHECK_MSG(build(&f, text, &b, message, sizeof message) == FLX_OK, "%s", message);
    CHECK(strcmp(one, two) == 0);
    CHECK(strlen(one) > 10000);
}
