/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_grad_cost.c: the cost of differentiating, and of redundant work in the result. */
#include "kernel/derive/kernel_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Seconds for the gradient of a kernel with respect to all of its many buffers. */
static double seconds_for(size_t buffers)
{
    enum { NAME = 24 };
    size_t size = buffers * 80 + 300, n = 0;
    char *text = malloc(size), *names = malloc(buffers * NAME);
    const char **inputs = malloc(buffers * sizeof *inputs), *output = "out";
    CHECK(text && names && inputs);
    n = (size_t)snprintf(text, size, "kernel k(workgroup = [4, 1, 1]) {");
    for (size_t i = 0; i < buffers; i++) {
        n += (size_t)snprintf(text + n, size - n, "buffer x%zu: f32[16] read;\n", i);
        snprintf(names + i * NAME, NAME, "x%zu", i);
        inputs[i] = names + i * NAME;
    }
    n += (size_t)snprintf(text + n, size - n, "buffer out: f32[16] output; let i = invocation_id(0); let s = 0.0f32;");
    for (size_t i = 0; i < buffers; i++)
        n += (size_t)snprintf(text + n, size - n, "s = s + sin(x%zu[i]);\n", i);
    snprintf(text + n, size - n, "out[i] = s; }");
    flx_error err = {0};
    flx_kernel *k = flk(text);
    clock_t start = clock();
    flx_kernel_derived *d = flx_kernel_grad(k, &output, 1, inputs, buffers, NULL, &err);
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    CHECK_MSG(d != NULL, "%s", err.message);
    flx_kernel_derived_free(d);
    flx_kernel_release(k);
    free(text);
    free(names);
    free(inputs);
    return seconds;
}

TEST(kernel_grad_time_is_linear_in_buffers)
{
    double small = seconds_for(500), large = seconds_for(4000);
    CHECK_MSG(large < 0.1 + 8 * 3 * small, "500 buffers take %g s, 4,000 take %g s", small, large);
}

static size_t count(const char *text, const char *word)
{
    size_t n = 0;
    for (const char *s = text; (s = strstr(s, word)) != NULL; s++)
        n++;
    return n;
}

TEST(kernel_grad_adds_once_for_a_load_that_a_loop_repeats)
{
    static const char text[] = "kernel k(workgroup = [4, 1, 1]) { buffer x: f32[4] read; buffer out: f32[4] output;"
                               "let i = invocation_id(0); let s = 0.0f32;"
                               "for (j in 0..4) { s = s + x[i] * x[j]; } out[i] = s; }";
    const char *in = "x", *out = "out";
    flx_error err = {0};
    flx_kernel *k = flk(text);
    flx_kernel_derived *d = flx_kernel_grad(k, &out, 1, &in, 1, NULL, &err);
    CHECK_MSG(d != NULL, "%s", err.message);
    flx_buffer made = flk_text(flx_kernel_derived_kernel(d, 0));
    const char *loop = strstr(made.data, "for ("), *end = strstr(loop ? loop : "", "  }");
    CHECK_MSG(loop && end, "%s", made.data);
    CHECK_MSG(count(loop, "atomic_add(") == 2 && count(end, "atomic_add(") == 1, "%s", made.data);
    flx_buffer_free(&made);
    flx_kernel_derived_free(d);
    flx_kernel_release(k);
    /* x = [1, 2, 3, 4]: the derivative of the sum of x_i times the sum is the sum plus the sum of all */
    kernel_case_check(&(kernel_case){.text = text,
                                     .outputs = "out",
                                     .inputs = "x",
                                     .data = "x = 1, 2, 3, 4",
                                     .gradients = "grad_x = 20, 20, 20, 20"});
}

/* Moving the root before the loop would multiply its infinite derivative with zero. */
TEST(kernel_grad_of_a_loop_that_never_runs_is_zero)
{
    kernel_case_check(&(kernel_case){.text = "kernel k() { buffer x: f32[1] read; buffer n: u32[1] read;"
                                             "buffer out: f32[1] output; let s = x[0];"
                                             "for (j in 0..n[0]) { s = s + sqrt(x[0]); } out[0] = s; }",
                                     .outputs = "out",
                                     .inputs = "x",
                                     .data = "x = 0; n = 0",
                                     .gradients = "grad_x = 1",
                                     .flags = CASE_NO_SECOND});
}

/* What the loop itself writes is loaded again in each iteration. */
TEST(kernel_grad_keeps_loads_of_what_the_loop_writes)
{
    kernel_case_check(&(kernel_case){.text = "kernel k() { buffer x: f32[1] read; buffer t: f32[1] private;"
                                             "buffer out: f32[1] output; t[0] = x[0];"
                                             "for (j in 0..3) { t[0] = t[0] * t[0]; } out[0] = t[0]; }",
                                     .outputs = "out",
                                     .inputs = "x",
                                     .data = "x = 2",
                                     .values = "out = 256",
                                     .gradients = "grad_x = 1024"});
}
