/* SPDX-License-Identifier: Apache-2.0 */
/* Batching of kernel_call, with derivatives before and after it: closed forms, and no loop over examples in the
   graph. */
#include "graph/graph_text.h"
#include "ops/gradient_text.h"

#include <stdlib.h>

enum { MAX_FEEDS = 6, MAX_STEPS = 4 };

/* y[i] = x[i]² w[i]. */
#define PAIR                                                                                \
    "\"kernel pair(workgroup = [2, 1, 1]) { buffer x: f64[2] read; buffer w: f64[2] read; " \
    "buffer y: f64[2] output; let i = invocation_id(0); y[i] = x[i] * x[i] * w[i]; }\", grid=[1]"
#define OPEN                                                                                 \
    "\"kernel open() { buffer x: f64[] read; buffer w: f64[] read; buffer y: f64[] output; " \
    "let i = invocation_id(0); if (i < buf_len(x)) { y[i] = x[i] * x[i] * w[i]; } }\""
#define MAIN(call) "graph main(x: f64[2], w: f64[2]) { y = kernel_call(x, w, " call ")  return y }"
#define LOSS(call) "graph main(x: f64[2], w: f64[2]) { y = kernel_call(x, w, " call ")  return reduce_sum(y) }"

typedef struct {
    const char *name;
    int rank;
    flx_dim dims[4];
    double at[GRADIENT_MAX_PARTS];
} feed_row;

typedef struct {
    const char *text;
    const char *steps[MAX_STEPS]; /* "vmap x", "vmap x w", "vmap d_output x", "grad x w", "jvp x" … */
    feed_row feeds[MAX_FEEDS];
    uint32_t output; /* the one that is compared */
    double want[GRADIENT_MAX_PARTS];
    size_t count;
    bool is_symbolic; /* batch sizes are symbols */
    bool has_loop;    /* the kernel cannot be batched */
} batch_row;

static size_t words_of(char *text, const char **words)
{
    size_t n = 0;
    for (char *s = strtok(text, " "); s; s = strtok(NULL, " "))
        words[n++] = s;
    return n;
}

static flx_graph *apply(flx_context *ctx, const flx_graph *g, const char *step, int number, bool is_symbolic)
{
    char text[100], name[8];
    const char *words[8];
    flx_error err = {0};
    flx_graph *made = NULL;
    snprintf(text, sizeof text, "%s", step);
    snprintf(name, sizeof name, "B%d", number);
    size_t n = words_of(text, words);
    if (strcmp(words[0], "vmap") == 0) {
        flx_vmap_axis axes[8];
        for (size_t i = 1; i < n; i++)
            axes[i - 1] = (flx_vmap_axis){words[i], 0};
        made = flx_vmap(g, axes, n - 1, NULL, 0, is_symbolic ? flx_dim_symbol(ctx, name) : 2, &err);
    } else if (strcmp(words[0], "grad") == 0) {
        flx_grad_options options = {.flags = FLX_GRAD_SEED_INPUT};
        made = flx_grad(g, words + 1, n - 1, &options, &err);
    } else {
        made = flx_jvp(g, words + 1, n - 1, &err);
    }
    CHECK_MSG(made != NULL, "%s: %s", step, err.message);
    return made;
}

static void run_row(flx_context *ctx, const flx_graph *g, const batch_row *c)
{
    flx_feed feeds[MAX_FEEDS];
    flx_tensor *out[8] = {0};
    flx_error err = {0};
    size_t n = 0;
    for (; n < MAX_FEEDS && c->feeds[n].name; n++) {
        flx_type type = flx_type_make(FLX_F64, c->feeds[n].rank, c->feeds[n].dims);
        feeds[n] = (flx_feed){c->feeds[n].name, gradient_tensor(ctx, &type, c->feeds[n].at)};
    }
    CHECK_OK((int32_t)flx_run(g, ON_REF, feeds, n, out, &err), &err);
    CHECK_EQ_I64(flx_tensor_count(out[c->output]), c->count);
    for (size_t i = 0; i < c->count; i++)
        CHECK_NEAR(flx_tensor_get(out[c->output], (int64_t)i), c->want[i], 1e-12);
    for (size_t i = 0; i < 8; i++)
        flx_tensor_release(out[i]);
    for (size_t i = 0; i < n; i++)
        flx_tensor_release((flx_tensor *)(uintptr_t)feeds[i].value);
}

static void check_row(const batch_row *c)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_parse(ctx, c->text, strlen(c->text), "test", &err);
    CHECK_OK(m ? FLX_OK : err.code, &err);
    flx_graph *made[MAX_STEPS] = {0};
    const flx_graph *g = flx_module_main(m);
    for (int i = 0; i < MAX_STEPS && c->steps[i]; i++)
        g = made[i] = apply(ctx, g, c->steps[i], i, c->is_symbolic);
    flx_buffer text = {0};
    CHECK_OK(flx_graph_print(g, &text, &err), &err);
    test_fail_context("%s", text.data);
    CHECK_OK(flx_graph_verify(g, &err), &err);
    CHECK((strstr(text.data, "scan(") != NULL) == c->has_loop);
    run_row(ctx, g, c);
    flx_buffer_free(&text);
    for (int i = 0; i < MAX_STEPS; i++)
        flx_graph_release(made[i]);
    flx_module_free(m);
    flx_context_free(ctx);
    test_count_case();
}

#define X22             \
    {                   \
        "x", 2, {2, 2}, \
        {               \
            1, 2, 3, 4  \
        }               \
    }
#define W2           \
    {                \
        "w", 1, {2}, \
        {            \
            5, 7     \
        }            \
    }

TEST(kernel_call_batches_without_a_loop)
{
    static const batch_row rows[] = {
        {.text = MAIN("kernel=" PAIR), .steps = {"vmap x"}, .feeds = {X22, W2}, .want = {5, 28, 45, 112}, .count = 4},
        {.text = MAIN("kernel=" OPEN ", outputs=[f64[2]], grid=[3]"),
         .steps = {"vmap x"},
         .feeds = {X22, W2},
         .want = {5, 28, 45, 112},
         .count = 4},
        {.text = MAIN("kernel=" OPEN ", outputs=[f64[2]], grid=[3]"),
         .is_symbolic = true,
         .steps = {"vmap x"},
         .feeds = {X22, W2},
         .want = {5, 28, 45, 112},
         .count = 4},
        /* every axis is in use: the last one is multiplied */
        {.text = MAIN("kernel=" OPEN ", outputs=[f64[2]], grid=[3, 2, 2]"),
         .is_symbolic = true,
         .steps = {"vmap x"},
         .feeds = {X22, W2},
         .want = {5, 28, 45, 112},
         .count = 4},
        {.text = MAIN("kernel=" PAIR),
         .steps = {"vmap x", "vmap x w"},
         .feeds = {{"x", 3, {2, 2, 2}, {1, 2, 3, 4, 1, 1, 2, 2}}, {"w", 2, {2, 2}, {5, 7, 1, 2}}},
         .want = {5, 28, 45, 112, 1, 2, 4, 8},
         .count = 8},
        {.text = MAIN("kernel=" PAIR),
         .is_symbolic = true,
         .steps = {"vmap x", "vmap x w"},
         .feeds = {{"x", 3, {2, 2, 2}, {1, 2, 3, 4, 1, 1, 2, 2}}, {"w", 2, {2, 2}, {5, 7, 1, 2}}},
         .want = {5, 28, 45, 112, 1, 2, 4, 8},
         .count = 8},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        check_row(&rows[i]);
}

#define SEED2               \
    {                       \
        "d_output", 1, {2}, \
        {                   \
            1, 1            \
        }                   \
    }

TEST(kernel_call_batches_before_and_behind_derivatives)
{
    static const batch_row rows[] = {
        /* vmap of grad: by example */
        {.text = LOSS("kernel=" PAIR),
         .steps = {"grad x w", "vmap x"},
         .feeds = {X22, W2, {"d_output", 0, {0}, {1}}},
         .output = 0,
         .want = {10, 28, 30, 56},
         .count = 4},
        {.text = LOSS("kernel=" PAIR),
         .steps = {"grad x w", "vmap x"},
         .feeds = {X22, W2, {"d_output", 0, {0}, {1}}},
         .output = 1,
         .want = {1, 4, 9, 16},
         .count = 4},
        /* grad of vmap: the gradient of a shared operand sums over the examples */
        {.text = MAIN("kernel=" PAIR),
         .steps = {"vmap x", "grad x w"},
         .feeds = {X22, W2, {"d_output", 2, {2, 2}, {1, 1, 1, 1}}},
         .output = 0,
         .want = {10, 28, 30, 56},
         .count = 4},
        {.text = MAIN("kernel=" PAIR),
         .steps = {"vmap x", "grad x w"},
         .feeds = {X22, W2, {"d_output", 2, {2, 2}, {1, 1, 1, 1}}},
         .output = 1,
         .want = {10, 20},
         .count = 2},
        {.text = MAIN("kernel=" PAIR),
         .steps = {"vmap x", "grad x w"},
         .is_symbolic = true,
         .feeds = {X22, W2, {"d_output", 2, {2, 2}, {1, 1, 1, 1}}},
         .output = 1,
         .want = {10, 20},
         .count = 2},
        {.text = MAIN("kernel=" PAIR),
         .steps = {"vmap x", "jvp x"},
         .feeds = {X22, W2, {"tangent_x", 2, {2, 2}, {1, 0, 0, 2}}},
         .output = 1,
         .want = {10, 0, 0, 112},
         .count = 4},
        {.text = MAIN("kernel=" PAIR),
         .steps = {"jvp w", "vmap w"},
         .feeds = {{"x", 1, {2}, {1, 2}}, {"w", 2, {2, 2}, {5, 7, 1, 2}}, {"tangent_w", 1, {2}, {1, 3}}},
         .output = 1,
         .want = {1, 12, 1, 12},
         .count = 4},
        /* the gradient of all examples, along the weights they share */
        {.text = LOSS("kernel=" PAIR),
         .steps = {"grad x", "vmap x", "jvp w"},
         .feeds = {X22, W2, {"d_output", 0, {0}, {1}}, {"tangent_w", 1, {2}, {1, 1}}},
         .output = 1,
         .want = {2, 4, 6, 8},
         .count = 4},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        check_row(&rows[i]);
}

/* A user's reverse kernel is batched with its kernel; its factor 7 shows that it is used. */
#define BACK                                                                                              \
    "backward=\"kernel back(workgroup = [2, 1, 1]) { buffer x: f64[2] read; buffer grad_y: f64[2] read; " \
    "buffer grad_w: f64[2] output; buffer grad_x: f64[2] output; let i = invocation_id(0); "              \
    "grad_w[i] = 7.0 * grad_y[i]; grad_x[i] = 7.0 * x[i]; }\""

TEST(kernel_call_batches_the_reverse_it_is_given)
{
    static const batch_row rows[] = {
        {.text = MAIN("kernel=" PAIR ", " BACK),
         .steps = {"vmap x", "grad x w"},
         .feeds = {X22, W2, {"d_output", 2, {2, 2}, {1, 1, 1, 1}}},
         .output = 0,
         .want = {7, 14, 21, 28},
         .count = 4},
        {.text = MAIN("kernel=" PAIR ", " BACK),
         .steps = {"vmap x", "grad x w"},
         .feeds = {X22, W2, {"d_output", 2, {2, 2}, {1, 2, 3, 4}}},
         .output = 1,
         .want = {28, 42},
         .count = 2},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        check_row(&rows[i]);
}

/* Tapes belong to an example: a loop that carries values, in both orders. */
#define POWER                                                                                                    \
    "\"kernel power() { buffer x: f64[2] read; buffer w: f64[2] read; buffer y: f64[2] output; "                 \
    "let i = invocation_id(0); let p = w[i]; for (j in 0..100) { if (j < 3) { p = p * x[i]; } } y[i] = p; }\", " \
    "grid=[2]"

TEST(kernel_call_batches_tapes)
{
    static const batch_row rows[] = {
        {.text = MAIN("kernel=" POWER),
         .steps = {"vmap x", "grad x w"},
         .feeds = {X22, W2, {"d_output", 2, {2, 2}, {1, 1, 1, 1}}},
         .output = 0,
         .want = {15, 84, 135, 336},
         .count = 4},
        {.text = MAIN("kernel=" POWER),
         .steps = {"grad x w", "vmap x"},
         .feeds = {X22, W2, SEED2},
         .output = 0,
         .want = {15, 84, 135, 336},
         .count = 4},
        {.text = MAIN("kernel=" POWER),
         .steps = {"grad x w", "vmap x"},
         .is_symbolic = true,
         .feeds = {X22, W2, SEED2},
         .output = 1,
         .want = {1, 8, 27, 64},
         .count = 4},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        check_row(&rows[i]);
}

/* What cannot be batched still runs, example by example. */
TEST(kernel_call_falls_back_to_a_loop)
{
    static const batch_row row = {
        .text = MAIN("kernel=\"kernel copy() { buffer x: f64[2] read; buffer w: f64[2] read; buffer y: f64[2] output; "
                     "buffer t: f64[2] workgroup; async_load(x, t, 0, 16, c); async_wait(c); "
                     "y[0] = t[1] * w[0]; y[1] = t[0] * w[1]; }\", grid=[1]"),
        .steps = {"vmap x"},
        .feeds = {X22, W2},
        .want = {10, 7, 20, 21},
        .count = 4,
        .has_loop = true};
    check_row(&row);
    static const batch_row symbolic = {.text = "graph main(x: f64[2], w: f64[N]) { y = kernel_call(x, w, kernel=" OPEN
                                               ", outputs=[f64[2]], grid=[N, N, N])  return y }",
                                       .steps = {"vmap x"},
                                       .feeds = {X22, W2},
                                       .want = {5, 28, 45, 112},
                                       .count = 4,
                                       .is_symbolic = true,
                                       .has_loop = true};
    check_row(&symbolic);
}
