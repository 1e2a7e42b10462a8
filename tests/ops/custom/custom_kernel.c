/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_call: kernels as ops of a graph: values and derivatives in closed form, and what is rejected. The kernels' own
   semantics and transforms: tests/kernel. */
#include "graph/graph_text.h"
#include "ops/batch_text.h"
#include "ops/run_text.h"
#include "ops/symbolic_text.h"

#define SQUARE                                                         \
    "\"kernel square(workgroup = [2, 1, 1]) { buffer x: f64[4] read; " \
    "buffer out: f64[4] output; let i = invocation_id(0); out[i] = x[i] * x[i]; }\""
#define CUBE_IN_PLACE                                 \
    "\"kernel cube() { buffer x: f64[4] read_write; " \
    "let i = invocation_id(0); x[i] = x[i] * x[i] * x[i]; }\""
/* The product of all elements: a loop whose trips depend on the buffer's length. */
#define PRODUCT                                                                              \
    "\"kernel product() { buffer x: f64[] read; buffer out: f64[1] output; let p = 1.0f64; " \
    "for (j in 0..buf_len(x)) { p = p * x[j]; } out[0] = p; }\""
#define TWO_RESULTS                                                                              \
    "\"kernel two() { buffer x: f64[2] read; buffer sum: f64[2] output; buffer w: f64[2] read; " \
    "buffer product: f64[2] output; let i = invocation_id(0); sum[i] = x[i] + w[i]; product[i] = x[i] * w[i]; }\""

static void check_values(const flx_tensor *t, const char *type, const double *want, size_t n)
{
    char text[80];
    flx_context *ctx = flx_context_new(NULL);
    flx_type_print(ctx, flx_tensor_type(t), text, sizeof text);
    flx_context_free(ctx);
    CHECK_EQ_STR(text, type);
    CHECK_EQ_U64(flx_tensor_count(t), n);
    for (size_t i = 0; i < n; i++)
        CHECK_NEAR(flx_tensor_get(t, (int64_t)i), want[i], 0);
}

#define VALUES(t, type, ...) \
    check_values((t), (type), (const double[]){__VA_ARGS__}, sizeof((const double[]){__VA_ARGS__}) / sizeof(double))

/* ---- Values ---- */

TEST(kernel_call_runs_its_kernel)
{
    text_run r = text_begin(
        "graph main() { return kernel_call(const(f64[4], [1, -2, 3, 0.5]), kernel=" SQUARE ", grid=[2]),"
        "  kernel_call(const(f64[2, 2], [[1, -2], [3, 0.5]]), kernel=" SQUARE ", grid=[1], outputs=[f64[2, 2]]) }");
    CHECK_OK(r.code, &r.err);
    VALUES(r.out[0], "f64[4]", 1, 4, 9, 0.25);
    VALUES(r.out[1], "f64[2, 2]", 1, 4, 0, 0); /* one workgroup of two; outputs start at zero */
    text_end(&r);
}

TEST(kernel_call_gives_results_in_the_order_of_outputs)
{
    text_run r =
        text_begin("graph main() { a, b = kernel_call(const(f64[2], [1, 2]), const(f64[2], [3, 5]), kernel=" TWO_RESULTS
                   ", grid=[2])\n  c, d = kernel_call(const(f64[2], [1, 2]), const(f64[2], [3, 5]), kernel=" TWO_RESULTS
                   ", grid=[2], inputs=\"w, x\", results=\"product,sum\")\n  return a, b, c, d }");
    CHECK_OK(r.code, &r.err);
    VALUES(r.out[0], "f64[2]", 4, 7);
    VALUES(r.out[1], "f64[2]", 3, 10);
    VALUES(r.out[2], "f64[2]", 3, 10);
    VALUES(r.out[3], "f64[2]", 4, 7);
    text_end(&r);
}

TEST(kernel_call_copies_a_buffer_that_is_input_and_output)
{
    text_run r = text_begin("graph main() { x = const(f64[4], [1, -2, 3, 0.5])\n"
                            "  y = kernel_call(x, kernel=" CUBE_IN_PLACE
                            ", inputs=\"x\", results=\"x\", grid=[3])  return x, y }");
    CHECK_OK(r.code, &r.err);
    VALUES(r.out[0], "f64[4]", 1, -2, 3, 0.5);
    VALUES(r.out[1], "f64[4]", 1, -8, 27, 0.5); /* the last element is beyond the grid */
    text_end(&r);
}

TEST(kernel_call_takes_bools_and_halves)
{
    text_run r = text_begin(
        "graph main() { y, n = kernel_call(const(bool[3], [true, false, true]), const(f16[3], [0.5, 2, -3]),"
        "  kernel=\"kernel k() { buffer keep: bool[3] read; buffer x: f16[3] read; buffer y: f16[3] output; "
        "buffer is_negative: bool[3] output; let i = invocation_id(0); y[i] = select(keep[i], x[i] * x[i], -1.0f16); "
        "is_negative[i] = x[i] < 0.0f16; }\", grid=[3])  return y, n }");
    CHECK_OK(r.code, &r.err);
    VALUES(r.out[0], "f16[3]", 0.25, -1, 9);
    VALUES(r.out[1], "bool[3]", 0, 0, 1);
    text_end(&r);
}

TEST(kernel_call_has_no_effect_without_workgroups)
{
    text_run r =
        text_begin("graph main() { return kernel_call(const(f64[4], [1, 2, 3, 4]), kernel=" SQUARE ", grid=[0]) }");
    CHECK_OK(r.code, &r.err);
    VALUES(r.out[0], "f64[4]", 0, 0, 0, 0);
    text_end(&r);
}

TEST(kernel_call_works_in_bodies)
{
    text_run r = text_begin(
        "graph step(c: f64[1], x: f64[3]) { p = kernel_call(x, kernel=" PRODUCT ", grid=[1], outputs=[f64[1]])\n"
        "  s = add(c, p)  return s, p }\n"
        "graph same(x: f64[4]) { return stop_gradient(x) }\n"
        "graph squared(x: f64[4]) { return kernel_call(x, kernel=" SQUARE ", grid=[2]) }\n"
        "graph main() { c, ys = scan(full(f64[1], 0), const(f64[2, 3], [[1, 2, 3], [4, 5, 6]]), body=@step)\n"
        "  x = const(f64[4], [1, 2, 3, 4])\n"
        "  return c, ys, if(true, x, then=@squared, else=@same), if(false, x, then=@squared, else=@same) }");
    CHECK_OK(r.code, &r.err);
    VALUES(r.out[0], "f64[1]", 126);
    VALUES(r.out[1], "f64[2, 1]", 6, 120);
    VALUES(r.out[2], "f64[4]", 1, 4, 9, 16);
    VALUES(r.out[3], "f64[4]", 1, 2, 3, 4);
    text_end(&r);
}

/* ---- Symbolic shapes ---- */

#define HALVES                                                                                      \
    "graph main(x: f32[N]) { return kernel_call(x, kernel=\"kernel half(workgroup = [64, 1, 1]) { " \
    "buffer x: f32[] read; buffer y: f32[] output; let i = invocation_id(0); "                      \
    "y[i] = 0.5 * x[i] + cast<f32>(num_workgroups(0)); }\", outputs=[f32[N]], grid=[N // 64 + 1]) }"

static void check_halves(flx_dim n, double groups)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_parse(ctx, HALVES, strlen(HALVES), "test", &err);
    CHECK_OK(m ? FLX_OK : err.code, &err);
    flx_type type = flx_type_make(FLX_F32, 1, &n);
    flx_tensor *x = flx_tensor_new(ctx, &type, NULL, &err), *y = NULL;
    CHECK(x != NULL);
    for (flx_dim i = 0; i < n; i++)
        ((float *)flx_tensor_data(x))[i] = (float)i;
    CHECK_OK((int32_t)flx_run(flx_module_main(m), ON_REF, &(flx_feed){"x", x}, 1, &y, &err), &err);
    CHECK_EQ_I64(flx_tensor_count(y), n);
    for (flx_dim i = 0; i < n; i++)
        CHECK_NEAR(flx_tensor_get(y, i), 0.5 * (double)i + groups, 0);
    flx_tensor_release(x);
    flx_tensor_release(y);
    flx_module_free(m);
    flx_context_free(ctx);
}

TEST(kernel_call_has_symbolic_shapes_and_grids)
{
    check_text_type(HALVES, "f32[N]");
    check_halves(1, 1);
    check_halves(63, 1);
    check_halves(64, 2);
    check_halves(200, 4);
}

/* ---- Derivatives ---- */

#define OF(rows) rows, sizeof rows / sizeof rows[0]

TEST(kernel_call_differentiates)
{
    static const gradient_row square[] = {{"x", {1, -2, 3, 0.5}, {2, -4, 6, 1}}};
    check_gradient("graph main(x: f64[4]) { return kernel_call(x, kernel=" SQUARE ", grid=[2]) }", OF(square));
    static const gradient_row cube[] = {{"x", {1, -2, 3, 0.5}, {3, 12, 27, 0.75}}};
    check_gradient("graph main(x: f64[4]) { return kernel_call(x, kernel=" CUBE_IN_PLACE
                   ", inputs=\"x\", results=\"x\", grid=[4]) }",
                   OF(cube));
    static const gradient_row product[] = {{"x", {2, 3, 4}, {12, 8, 6}}};
    check_gradient("graph main(x: f64[3]) { return kernel_call(x, kernel=" PRODUCT
                   ", grid=[1], outputs=[f64[1]], max_trips=8) }",
                   OF(product));
    static const gradient_row zero[] = {{"x", {2, 0, 4}, {0, 8, 0}}};
    check_gradient("graph main(x: f64[3]) { return kernel_call(x, kernel=" PRODUCT
                   ", grid=[1], outputs=[f64[1]], max_trips=3) }",
                   OF(zero));
}

TEST(kernel_call_differentiates_one_of_several_results)
{
    static const gradient_row rows[] = {{"x", {1, 2}, {3, 5}}, {"w", {3, 5}, {1, 2}}};
    check_gradient("graph main(x: f64[2], w: f64[2]) { a, b = kernel_call(x, w, kernel=" TWO_RESULTS
                   ", grid=[2])  return b }",
                   OF(rows));
    static const gradient_row both[] = {{"x", {1, 2}, {4, 6}}, {"w", {3, 5}, {2, 3}}};
    check_gradient("graph main(x: f64[2], w: f64[2]) { a, b = kernel_call(x, w, kernel=" TWO_RESULTS
                   ", grid=[2])  return add(a, b) }",
                   OF(both));
}

/* The buffers determine which inputs have derivatives. */
TEST(kernel_call_holds_inputs_back)
{
    static const gradient_row rows[] = {{"x", {2, 3}, {5, 7}}, {"w", {5, 7}, {0, 0}}};
    check_gradient("graph main(x: f64[2], w: f64[2]) { return kernel_call(x, w, kernel=\"kernel k() { "
                   "buffer x: f64[2] read; buffer w: f64[2] read stop_gradient; buffer y: f64[2] output; "
                   "let i = invocation_id(0); y[i] = x[i] * w[i]; }\", grid=[2]) }",
                   OF(rows));
}

/* Adjoints of half floats are f32 inside the kernel; the gradient has the operand's type. */
TEST(kernel_call_differentiates_halves)
{
    static const gradient_row rows[] = {{"x", {0.5, 2, -3}, {1, 4, -6}}};
    check_gradient("graph main(x: f16[3]) { return kernel_call(x, kernel=\"kernel k() { buffer x: f16[3] read; "
                   "buffer y: f16[3] output; let i = invocation_id(0); y[i] = x[i] * x[i]; }\", grid=[3]) }",
                   OF(rows));
}

TEST(kernel_call_differentiates_in_bodies)
{
    static const gradient_row rows[] = {{"xs", {1, 2, 3, 4, 5, 6}, {6, 3, 2, 30, 24, 20}}};
    check_gradient("graph step(c: f64[1], x: f64[3]) { p = kernel_call(x, kernel=" PRODUCT
                   ", grid=[1], outputs=[f64[1]], max_trips=3)\n"
                   "  return add(c, p) }\n"
                   "graph main(xs: f64[2, 3]) { return scan(full(f64[1], 0), xs, body=@step) }",
                   OF(rows));
    static const gradient_row branch[] = {{"x", {1, 2, 3, 4}, {2, 4, 6, 8}}};
    check_gradient("graph same(x: f64[4]) { return stop_gradient(x) }\n"
                   "graph squared(x: f64[4]) { return kernel_call(x, kernel=" SQUARE ", grid=[2]) }\n"
                   "graph main(x: f64[4]) { return if(true, x, then=@squared, else=@same) }",
                   OF(branch));
}

TEST(kernel_call_has_second_derivatives)
{
    static const gradient_row cube[] = {{"x", {1, -2, 3, 0.5}, {6, -12, 18, 3}}};
    check_hessian_of_ones("graph main(x: f64[4]) { y = kernel_call(x, kernel=" CUBE_IN_PLACE
                          ", inputs=\"x\", results=\"x\", grid=[4])  return reduce_sum(y) }",
                          OF(cube));
    static const gradient_row product[] = {{"x", {2, 3, 4}, {7, 6, 5}}};
    check_hessian_of_ones("graph main(x: f64[3]) { return kernel_call(x, kernel=" PRODUCT
                          ", grid=[1], outputs=[f64[1]], max_trips=4) }",
                          OF(product));
}

static void check_jacobian(uint32_t mode)
{
    static const char text[] =
        "graph main(x: f64[3]) { return kernel_call(x, kernel=" PRODUCT ", grid=[1], outputs=[f64[1]], max_trips=4) }";
    static const gradient_row rows[] = {{"x", {2, 3, 4}, {12, 8, 6}}};
    flx_error err = {0};
    flx_tensor *out[1] = {0};
    flx_jacobian_options options = {.struct_size = sizeof options, .mode = mode};
    gradient_run r = gradient_begin(text, OF(rows));
    flx_graph *jac = flx_jacobian(flx_module_main(r.module), r.names, 1, &options, &err);
    CHECK_OK(jac ? FLX_OK : err.code, &err);
    gradient_eval(&r, jac, 0, out);
    VALUES(out[0], "f64[1, 3]", 12, 8, 6);
    flx_tensor_release(out[0]);
    gradient_end(&r);
}

TEST(kernel_call_has_a_jacobian)
{
    check_jacobian(FLX_JACOBIAN_FORWARD);
    check_jacobian(FLX_JACOBIAN_REVERSE);
}

TEST(kernel_call_batches)
{
    static const batch_row rows[] = {{"x", {1, 2, 3, 4, 5, 6}, true}};
    static const double want[] = {6, 120};
    check_batched("graph main(x: f64[3]) { return kernel_call(x, kernel=" PRODUCT ", grid=[1], outputs=[f64[1]]) }", 2,
                  OF(rows), want, 2);
    static const batch_row one_of_two[] = {{"x", {1, 2, 3, 4}, true}, {"w", {3, 5}, false}};
    static const double products[] = {3, 10, 9, 20};
    check_batched("graph main(x: f64[2], w: f64[2]) { a, b = kernel_call(x, w, kernel=" TWO_RESULTS
                  ", grid=[2])  return b }",
                  2, OF(one_of_two), products, 4);
}

/* ---- The user's own reverse ---- */

#define BACKWARD(factor)                                                                                    \
    "\"kernel back() { buffer x: f64[4] read; buffer grad_out: f64[4] read; buffer grad_x: f64[4] output; " \
    "let i = invocation_id(0); grad_x[i] = " factor " * x[i] * grad_out[i]; }\""

TEST(kernel_call_uses_the_reverse_it_is_given)
{
    /* As many invocations as the forward kernel, so that both cover the four elements. */
#define FORWARD                                                              \
    "\"kernel square() { buffer x: f64[4] read; buffer out: f64[4] output; " \
    "let i = invocation_id(0); out[i] = x[i] * x[i]; }\""
    static const gradient_row right[] = {{"x", {1, -2, 3, 0.5}, {2, -4, 6, 1}}};
    check_reverse("graph main(x: f64[4]) { return kernel_call(x, kernel=" FORWARD ", grid=[4]) }", OF(right));
    check_reverse("graph main(x: f64[4]) { return kernel_call(x, kernel=" FORWARD
                  ", backward=" BACKWARD("2.0") ", grid=[4]) }",
                  OF(right));
    static const gradient_row own[] = {{"x", {1, -2, 3, 0.5}, {7, -14, 21, 3.5}}};
    check_reverse("graph main(x: f64[4]) { return kernel_call(x, kernel=" FORWARD
                  ", backward=" BACKWARD("7.0") ", grid=[4]) }",
                  OF(own));
    static const gradient_row second[] = {{"x", {1, -2, 3, 0.5}, {7, 7, 7, 7}}};
    check_hessian_of_ones("graph main(x: f64[4]) { y = kernel_call(x, kernel=" FORWARD
                          ", backward=" BACKWARD("7.0") ", grid=[4])  return reduce_sum(y) }",
                          OF(second));
}

/* The buffer is both operand and result; so is its gradient, which starts as the cotangent. */
TEST(kernel_call_uses_the_reverse_of_a_buffer_in_place)
{
    static const gradient_row rows[] = {{"x", {1, -2, 3, 0.5}, {5, 5, 5, 5}}};
    check_reverse("graph main(x: f64[4]) { return kernel_call(x, kernel=" CUBE_IN_PLACE
                  ", inputs=\"x\", results=\"x\", "
                  "backward=\"kernel back() { buffer grad_x: f64[4] read_write; let i = invocation_id(0); "
                  "grad_x[i] = 5.0 * grad_x[i]; }\", grid=[4]) }",
                  OF(rows));
}

/* ---- What is rejected ---- */

#define FOUR "const(f64[4], [1, 2, 3, 4])"

TEST(kernel_call_reports_what_does_not_fit)
{
    static const struct {
        const char *operands, *rest;
        flx_code code;
        const char *message;
    } rows[] = {
        {FOUR, "kernel=" SQUARE ", inputs=\"y\"", FLX_E_NAME, "the kernel has no bound buffer 'y'"},
        {FOUR, "kernel=" SQUARE ", results=\"nothing\"", FLX_E_NAME, "the kernel has no bound buffer 'nothing'"},
        {FOUR, "kernel=" SQUARE ", inputs=\"x, x\"", FLX_E_NAME, "buffer 'x' is named twice"},
        {FOUR, "kernel=\"kernel k() { buffer t: f64[4] workgroup; }\", inputs=\"t\"", FLX_E_NAME,
         "the kernel has no bound buffer 't'"},
        {FOUR ", " FOUR, "kernel=" SQUARE, FLX_E_ARITY, "the kernel has 1 input, got 2 operands"},
        {FOUR, "kernel=" TWO_RESULTS, FLX_E_ARITY, "the kernel has 2 inputs, got 1 operand"},
        {"const(f32[4], [1, 2, 3, 4])", "kernel=" SQUARE, FLX_E_DTYPE, "buffer 'x' holds f64, not f32"},
        {FOUR, "kernel=" SQUARE ", outputs=[f32[4]]", FLX_E_DTYPE, "buffer 'out' holds f64, not f32"},
        {"const(f64[3], [1, 2, 3])", "kernel=" SQUARE, FLX_E_SHAPE, "buffer 'x' has 4 elements, but f64[3] has 3"},
        {FOUR, "kernel=" SQUARE ", outputs=[f64[3]]", FLX_E_SHAPE, "buffer 'out' has 4 elements, but f64[3] has 3"},
        {FOUR, "kernel=" SQUARE ", outputs=[f64[4], f64[4]]", FLX_E_ARITY,
         "the kernel has 1 output, but outputs lists 2"},
        {FOUR, "kernel=\"kernel k() { buffer out: f64[] output; buffer x: f64[4] read; }\"", FLX_E_ATTRIBUTE,
         "outputs must give the type of result 'out'"},
        {FOUR, "kernel=\"kernel k() { buffer x: f64[4] read; buffer s: f64[4] read_write; }\", inputs=\"x\"",
         FLX_E_ATTRIBUTE, "buffer 's' is neither an input nor an output"},
        {FOUR, "kernel=" SQUARE ", grid=[1, 1, 1, 1]", FLX_E_ATTRIBUTE, "grid has 4 extents, but must have 1, 2 or 3"},
        {FOUR, "kernel=" SQUARE ", grid=[-1]", FLX_E_SIZE, "a grid of -1 workgroups is out of range"},
        {FOUR, "kernel=" SQUARE ", max_trips=-1", FLX_E_ATTRIBUTE, "max_trips=-1 is out of range"},
        {FOUR, "kernel=\"kernel k() {\"", FLX_E_SYNTAX,
         "expected a statement or '}', found the end of the text at kernel:1:13"},
        {FOUR, "kernel=\"kernel k() { buffer x: f64[4] read; x[0] = 1.0; }\"", FLX_E_KERNEL,
         "K40 store to buffer 'x', which is read-only at kernel:1:37"},
        {FOUR, "kernel=" SQUARE ", backward=\"kernel back() {\"", FLX_E_SYNTAX,
         "expected a statement or '}', found the end of the text at backward:1:16"},
        {FOUR, "kernel=\"kernel k() { buffer x: f64[4] read; buffer out: f64[1] output; trap(7, here); }\"",
         FLX_E_KERNEL, "trap 'here' at address 7"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[1000], message[240];
        const char *grid = strstr(rows[i].rest, "grid=") ? "" : ", grid=[1]";
        snprintf(text, sizeof text, "graph main() { y = kernel_call(%s, %s%s)  return y }", rows[i].operands,
                 rows[i].rest, grid);
        snprintf(message, sizeof message, "kernel_call 'y': %s", rows[i].message);
        test_fail_context("%s", text);
        check_text_fails(text, rows[i].code, message);
    }
    check_text_fails("graph main() { y = kernel_call(" FOUR ", grid=[1])  return y }", FLX_E_ATTRIBUTE,
                     "kernel_call: attribute 'kernel' must be given: a string");
    check_text_fails("graph main() { y = kernel_call(" FOUR ", kernel=" SQUARE ")  return y }", FLX_E_ATTRIBUTE,
                     "kernel_call: attribute 'grid' must be given: a list of integers or dimensions");
}

/* Reverse mode of the text with respect to x. */
static void check_no_gradient(const char *text, flx_code code, const char *message, const char *hint)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_parse(ctx, text, strlen(text), "test", &err);
    CHECK_OK(m ? FLX_OK : err.code, &err);
    flx_grad_options options = {.flags = FLX_GRAD_SEED_INPUT};
    flx_graph *g = flx_grad(flx_module_main(m), (const char *const[]){"x"}, 1, &options, &err);
    CHECK(g == NULL);
    CHECK_CODE(err.code, code, &err);
    CHECK_EQ_STR(err.message, message);
    CHECK_EQ_STR(err.hint, hint);
    flx_module_free(m);
    flx_context_free(ctx);
}

/* The number of elements is known to the graph, so the tape's length is. */
TEST(kernel_call_knows_trips_from_shapes)
{
    static const gradient_row rows[] = {{"x", {2, 3, 4}, {12, 8, 6}}};
    check_gradient("graph main(x: f64[3]) { return kernel_call(x, kernel=" PRODUCT ", grid=[1], outputs=[f64[1]]) }",
                   OF(rows));
    static const gradient_row second[] = {{"x", {2, 3, 4}, {7, 6, 5}}};
    check_hessian_of_ones(
        "graph main(x: f64[3]) { return kernel_call(x, kernel=" PRODUCT ", grid=[1], outputs=[f64[1]]) }", OF(second));
}

/* x^n with n from data: the graph counts trips before it makes the tape. */
#define POWERS                                                                                             \
    "kernel=\"kernel powers() { buffer x: f64[3] read; buffer n: u32[3] read; buffer out: f64[3] output; " \
    "let i = invocation_id(0); let p = 1.0f64; for (j in 0..n[i]) { p = p * x[i]; } out[i] = p; }\", grid=[3]"
#define COUNTED(rest) \
    "graph main(x: f64[3]) { y = kernel_call(x, const(u32[3], [0, 1, 3]), " POWERS rest ")  return reduce_sum(y) }"

TEST(kernel_call_counts_trips_that_depend_on_data)
{
    static const gradient_row rows[] = {{"x", {2, 5, 2}, {0, 1, 12}}};
    check_gradient(COUNTED(""), OF(rows));
    check_gradient(COUNTED(", max_trips=3"), OF(rows));
    static const gradient_row second[] = {{"x", {2, 5, 2}, {0, 0, 12}}};
    check_hessian_of_ones(COUNTED(""), OF(second)); /* forward over reverse: the tape's tangents are as long as it */
    check_hessian_of_ones(COUNTED(", max_trips=3"), OF(second));
}

static void check_run_fails(const char *text, flx_code code, const char *message)
{
    static const gradient_row rows[] = {{"x", {2, 5, 2}, {0}}};
    flx_error err = {0};
    flx_tensor *out[2] = {0};
    gradient_run r = gradient_begin(text, OF(rows));
    flx_graph *g = flx_grad(flx_module_main(r.module), r.names, 1, NULL, &err);
    CHECK_OK(g ? FLX_OK : err.code, &err);
    CHECK_CODE((int32_t)flx_run(g, ON_REF, r.feeds, 1, out, &err), code, &err);
    CHECK_MSG(strstr(err.message, message) != NULL, "%s", err.message);
    flx_graph_release(g);
    gradient_end(&r);
}

TEST(kernel_call_notices_too_many_trips)
{
    check_run_fails(COUNTED(", max_trips=2"), FLX_E_KERNEL, "a loop made 3 trips, more than max_trips");
}

TEST(kernel_call_needs_a_bound_for_the_reverse_of_a_counted_reverse)
{
    flx_error err = {0};
    static const gradient_row rows[] = {{"x", {2, 5, 2}, {0}}};
    gradient_run r = gradient_begin(COUNTED(""), OF(rows));
    flx_grad_options options = {.flags = FLX_GRAD_SEED_INPUT};
    flx_graph *first = flx_grad(flx_module_main(r.module), r.names, 1, &options, &err);
    CHECK_OK(first ? FLX_OK : err.code, &err);
    CHECK(flx_grad(first, r.names, 1, &options, &err) == NULL);
    CHECK_EQ_STR(err.message, "kernel_call: kernel 'powers': not differentiable tapes whose length is counted have no "
                              "derivative of their own");
    CHECK_EQ_STR(err.hint, "set max_trips of the call, the largest number of trips of a loop");
    flx_graph_release(first);
    gradient_end(&r);
}

/* Along an axis whose index the kernel does not use, all invocations would add to the same gradient. */
TEST(kernel_call_refuses_the_reverse_along_unseen_axes)
{
    check_no_gradient("graph main(x: f64[4]) { return kernel_call(x, kernel=" FORWARD ", grid=[4, 2]) }", FLX_E_KERNEL,
                      "kernel_call: the derivative of kernel 'square' needs one invocation along axis 1",
                      "use invocation_id of that axis in the kernel, or a grid of 1 along it");
}

/* ---- Names and files ---- */

TEST(kernel_call_takes_names_with_commas)
{
    static const gradient_row rows[] = {{"x", {1, -2, 3, 0.5}, {2, -4, 6, 1}}};
    check_gradient(
        "graph main(x: f64[4]) { return kernel_call(x, kernel=\"kernel k() { buffer \\\"a, b\\\": f64[4] read; "
        "buffer \\\"c \\\\\\\" d\\\": f64[4] output; let i = invocation_id(0); "
        "\\\"c \\\\\\\" d\\\"[i] = \\\"a, b\\\"[i] * \\\"a, b\\\"[i]; }\", "
        "inputs=\"\\\"a, b\\\"\", results=\"\\\"c \\\\\\\" d\\\"\", grid=[4]) }",
        OF(rows));
}

#define IN_FILE                                                                                                       \
    "kernel square(workgroup = [2, 1, 1]) { // } of a comment\n  buffer x: f64[4] read; /* } { */ # }\n"              \
    "  buffer out: f64[4] output; meta \"}\" = \"{{\"; let i = invocation_id(0); if (i < 4) { out[i] = x[i] * x[i]; " \
    "} }\n"

TEST(kernel_call_takes_kernels_of_the_file)
{
    static const gradient_row rows[] = {{"x", {1, -2, 3, 0.5}, {2, -4, 6, 1}}};
    check_gradient("kernel first() { buffer y: f32[1] read; }\n" IN_FILE
                   "graph main(x: f64[4]) { return kernel_call(x, kernel=@square, grid=[2], outputs=[f64[4]]) }",
                   OF(rows));
    check_gradient(
        "graph main(x: f64[4]) { return kernel_call(x, kernel=@square, grid=[2], backward=@back) }\n"
        "kernel back(workgroup = [2, 1, 1]) { buffer x: f64[4] read; buffer grad_out: f64[4] read; "
        "buffer grad_x: f64[4] output; let i = invocation_id(0); grad_x[i] = 2.0 * x[i] * grad_out[i]; }\n" IN_FILE,
        OF(rows));
}

TEST(kernels_of_a_file_are_reported_where_they_are_wrong)
{
#define USE "graph main(x: f64[4]) { return kernel_call(x, kernel=@k, grid=[1]) }"
    check_text_fails(USE, FLX_E_NAME, "there is no kernel called 'k'");
    check_text_fails("graph k() { return 1.0 }\n" USE, FLX_E_NAME, "there is no kernel called 'k'");
    check_text_fails("kernel k() { }\nkernel k() { }\n" USE, FLX_E_DUP_NAME, "the kernel 'k' is defined twice");
    check_text_fails("kernel k() { }\ngraph k() { return 1.0 }\n" USE, FLX_E_DUP_NAME,
                     "the graph 'k' is defined twice");
    check_text_fails("kernel k() { if (true) { }\n" USE, FLX_E_SYNTAX, "this kernel has no closing brace");
    check_text_fails("kernel k() { /* }\n" USE, FLX_E_SYNTAX, "this kernel has no closing brace");
    check_text_fails("kernel k() { \" }\n" USE, FLX_E_SYNTAX, "this kernel has no closing brace");
    check_text_fails("kernel", FLX_E_SYNTAX, "expected the name of the kernel, found the end of the text");
    check_text_fails("kernel graph() { }", FLX_E_SYNTAX, "'graph' is a reserved word");
    check_text_fails("kernel k() { }", FLX_E_SYNTAX, "the text holds no graph");
    check_text_fails("kernel k() { }\ngraph main(x: f64[2]) { return if(true, x, then=@k, else=@k) }", FLX_E_NAME,
                     "there is no graph called 'k'");
}

TEST(kernel_call_tells_why_it_has_no_derivative)
{
    check_no_gradient("graph main(x: f32[1]) { return kernel_call(x, kernel=\"kernel bits() { buffer x: f32[1] read; "
                      "buffer out: f32[1] output; out[0] = bitcast<f32>(bitcast<u32>(x[0]) ^ 1); }\", grid=[1]) }",
                      FLX_E_KERNEL,
                      "kernel_call: kernel 'bits': not differentiable bitcast has no derivative at body/0",
                      "wrap it in stop_gradient, or give its function an adjoint");
    check_no_gradient("graph main(x: f64[4]) { return kernel_call(x, kernel=" FORWARD
                      ", backward=\"kernel back() { buffer y: f64[4] read; }\", grid=[4]) }",
                      FLX_E_NAME, "kernel_call: backward: buffer 'y' matches no buffer of the kernel",
                      "its buffers are the kernel's own, grad_<output> and output grad_<input>");
}

/* ---- Text and bytes ---- */

TEST(kernel_call_survives_text_and_bytes)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g =
        graph_of(ctx, "graph main(x: f64[4]) { return kernel_call(x, kernel=" FORWARD ", backward=" BACKWARD(
                          "7.0") ", grid=[4], inputs=\"x\", results=\"out\", outputs=[f64[2, 2]], max_trips=3) }");
    check_round_trip(g);
    flx_graph_release(g);
    flx_context_free(ctx);
}
