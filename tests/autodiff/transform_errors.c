/* SPDX-License-Identifier: Apache-2.0 */
/* transform_errors.c: what every transform reports for input that it cannot take: message, location and hint, verbatim,
   and the transforms that the graph has been through. */
#include "autodiff/transform_text.h"

static const char *const by_x[] = {"x"};
static const char *const by_i[] = {"i"};
static const char *const by_u[] = {"u"};
static const char *const by_z[] = {"z"};

/* ---- Names, dtypes, paths, shapes ---- */

static const char mixed_text[] = "graph f(x: f64[3], i: i32[2], u: f64[]) { y = mul(x, 2) return y, reduce_sum(x) }";

TEST(transform_errors_of_unknown_names)
{
    static const char message[] = "the graph 'f' has no input called 'z'";
    static const char names[] = "its inputs: x, i, u";
    text_bench b = bench_open(mixed_text, NULL);
    flx_vmap_axis axis = {"z", 0};
    flx_grad_options seed = {.flags = FLX_GRAD_SEED_INPUT};
    bench_refused(&b, flx_grad(b.g, by_z, 1, &seed, &b.err), FLX_E_NAME, message, "grad of 'f'", names);
    bench_refused(&b, flx_jvp(b.g, by_z, 1, &b.err), FLX_E_NAME, message, "jvp of 'f'", names);
    bench_refused(&b, flx_hvp(b.g, by_z, 1, &seed, &b.err), FLX_E_NAME, message, "hvp of 'f'", names);
    bench_refused(&b, flx_jacobian(b.g, by_z, 1, NULL, &b.err), FLX_E_NAME, message, "jacobian of 'f'", names);
    bench_refused(&b, flx_taylor(b.g, by_z, 1, 2, &b.err), FLX_E_NAME, message, "taylor of 'f'", names);
    bench_refused(&b, flx_vmap(b.g, &axis, 1, NULL, 0, 2, &b.err), FLX_E_NAME, message, "vmap of 'f'", names);
    bench_close(&b);
    b = bench_open("graph f(x: f64[]) { return exp(x) }", NULL);
    bench_refused(&b, flx_hessian(b.g, by_z, 1, NULL, &b.err), FLX_E_NAME, message, "hessian of 'f'", "its inputs: x");
    bench_refused(&b, flx_nth_grad(b.g, "z", 2, &b.err), FLX_E_NAME, message, "nth_grad of 'f'", "its inputs: x");
    bench_close(&b);
    b = bench_open("graph f() { return full(f64[], 1) }", NULL);
    bench_refused(&b, flx_grad(b.g, by_z, 1, NULL, &b.err), FLX_E_NAME, message, "grad of 'f'", "its inputs: none");
    bench_close(&b);
}

TEST(transform_errors_of_many_inputs_are_cut)
{
    char text[2000] = "graph f(";
    for (int i = 0; i < 40; i++)
        sprintf(text + strlen(text), "%sinput%d: f64[]", i ? ", " : "", i);
    strcat(text, ") { return input0 }");
    text_bench b = bench_open(text, NULL);
    bench_refused(
        &b, flx_grad(b.g, by_z, 1, NULL, &b.err), FLX_E_NAME, "the graph 'f' has no input called 'z'", "grad of 'f'",
        "its inputs: input0, input1, input2, input3, input4, input5, input6, input7, input8, input9, input10, i...");
    bench_close(&b);
}

TEST(transform_errors_of_integers)
{
    static const char message[] = "cannot differentiate with respect to input 'i' (i32[2])";
    static const char hint[] = "only floating and complex values have derivatives";
    text_bench b = bench_open(mixed_text, NULL);
    flx_grad_options seed = {.flags = FLX_GRAD_SEED_INPUT};
    bench_refused(&b, flx_grad(b.g, by_i, 1, &seed, &b.err), FLX_E_NOT_DIFFERENTIABLE, message, "grad of 'f'", hint);
    bench_refused(&b, flx_jvp(b.g, by_i, 1, &b.err), FLX_E_NOT_DIFFERENTIABLE, message, "jvp of 'f'", hint);
    bench_refused(&b, flx_hvp(b.g, by_i, 1, &seed, &b.err), FLX_E_NOT_DIFFERENTIABLE, message, "hvp of 'f'", hint);
    bench_refused(&b, flx_jacobian(b.g, by_i, 1, NULL, &b.err), FLX_E_NOT_DIFFERENTIABLE, message, "jacobian of 'f'",
                  hint);
    bench_refused(&b, flx_taylor(b.g, by_i, 1, 2, &b.err), FLX_E_NOT_DIFFERENTIABLE, message, "taylor of 'f'", hint);
    bench_close(&b);
    b = bench_open("graph f(x: f32[3]) { k = argmax(x, axis=0) return k }", NULL);
    bench_refused(&b, flx_grad(b.g, by_x, 1, NULL, &b.err), FLX_E_NOT_DIFFERENTIABLE,
                  "the loss argmax 'k' (i32[]) has no derivative", "grad of 'f'", hint);
    bench_refused(&b, flx_jacobian(b.g, by_x, 1, NULL, &b.err), FLX_E_NOT_DIFFERENTIABLE,
                  "the output argmax 'k' (i32[]) has no Jacobian", "jacobian of 'f'", hint);
    bench_close(&b);
}

TEST(transform_errors_of_flags)
{
    text_bench b = bench_open("graph f(x: f64[]) { return exp(x) }", NULL);
    flx_grad_options o = {.flags = FLX_GRAD_VALUE | 96};
    bench_refused(&b, flx_grad(b.g, by_x, 1, &o, &b.err), FLX_E_USAGE, "flx_grad: unknown flags 0x60", "grad of 'f'",
                  "");
    bench_refused(&b, flx_hvp(b.g, by_x, 1, &o, &b.err), FLX_E_USAGE, "flx_hvp: unknown flags 0x60", "hvp of 'f'", "");
    bench_close(&b);
}

TEST(transform_errors_of_losses_and_paths)
{
    static const char shape[] = "the loss mul 'y' (f64[3]) must have one element";
    static const char path[] = "the loss reduce_sum 'out0' (f64[]) does not depend on input 'u' (f64[2])";
    text_bench b = bench_open(mixed_text, NULL);
    bench_refused(&b, flx_grad(b.g, by_x, 1, NULL, &b.err), FLX_E_NON_SCALAR, shape, "grad of 'f'",
                  "reduce it to one element, or give its cotangent: --seed input (FLX_GRAD_SEED_INPUT)");
    bench_refused(&b, flx_hvp(b.g, by_x, 1, NULL, &b.err), FLX_E_NON_SCALAR, shape, "hvp of 'f'",
                  "reduce it to one element");
    bench_refused(&b, flx_hessian(b.g, by_x, 1, NULL, &b.err), FLX_E_NON_SCALAR, shape, "hessian of 'f'",
                  "reduce it to one element");
    bench_refused(&b, flx_nth_grad(b.g, "x", 1, &b.err), FLX_E_NON_SCALAR, shape, "nth_grad of 'f'",
                  "reduce it to one element");
    bench_close(&b);
    b = bench_open("graph f(x: f64[3], u: f64[2]) { return reduce_sum(x) }", NULL);
    bench_refused(&b, flx_grad(b.g, by_u, 1, NULL, &b.err), FLX_E_NO_GRAD_PATH, path, "grad of 'f'",
                  "--missing zero (FLX_GRAD_MISSING_ZERO) gives zeros instead");
    bench_refused(&b, flx_hvp(b.g, by_u, 1, NULL, &b.err), FLX_E_NO_GRAD_PATH, path, "hvp of 'f'",
                  "choose only inputs that the loss depends on");
    bench_refused(&b, flx_hessian(b.g, by_u, 1, NULL, &b.err), FLX_E_NO_GRAD_PATH, path, "hessian of 'f'",
                  "choose only inputs that the loss depends on");
    bench_refused(&b, flx_nth_grad(b.g, "u", 2, &b.err), FLX_E_NO_GRAD_PATH, path, "nth_grad of 'f'",
                  "choose only inputs that the loss depends on");
    bench_close(&b);
}

/* ---- Ops without a derivative ---- */

TEST(transform_errors_of_ops_without_a_derivative)
{
    static const char hint[] =
        "bits are not numbers; cast converts values, real and imag give the parts of a complex number";
    text_bench b = bench_open("graph f(x: f32[]) {\n"
                              "  bits = bitcast(exp(x), to=f16)\n  return cast(reduce_sum(bits), to=f32)\n}\n",
                              NULL);
    bench_refused(&b, flx_grad(b.g, by_x, 1, NULL, &b.err), FLX_E_NO_RULE,
                  "bitcast 'bits' (f32[] to f16[2]) has no derivative in reverse mode", "grad of 'f', at f/bits", hint);
    bench_refused(&b, flx_jvp(b.g, by_x, 1, &b.err), FLX_E_NO_RULE,
                  "bitcast 'bits' (f32[] to f16[2]) has no derivative in forward mode", "jvp of 'f', at f/bits", hint);
    bench_refused(&b, flx_hvp(b.g, by_x, 1, NULL, &b.err), FLX_E_NO_RULE,
                  "bitcast 'bits' (f32[] to f16[2]) has no derivative in reverse mode", "hvp of 'f', at f/bits", hint);
    bench_refused(&b, flx_hessian(b.g, by_x, 1, NULL, &b.err), FLX_E_NO_RULE,
                  "bitcast 'bits' (f32[] to f16[2]) has no derivative in reverse mode", "hessian of 'f', at f/bits",
                  hint);
    bench_refused(&b, flx_jacobian(b.g, by_x, 1, NULL, &b.err), FLX_E_NO_RULE,
                  "bitcast 'bits' (f32[] to f16[2]) has no derivative in forward mode", "jacobian of 'f', at f/bits",
                  hint);
    bench_refused(&b, flx_taylor(b.g, by_x, 1, 2, &b.err), FLX_E_NO_RULE,
                  "bitcast 'bits' (f32[] to f16[2]) has no derivative in Taylor mode", "taylor of 'f', at f/bits",
                  hint);
    bench_refused(&b, flx_nth_grad(b.g, "x", 1, &b.err), FLX_E_NO_RULE,
                  "bitcast 'bits' (f32[] to f16[2]) has no derivative in reverse mode", "nth_grad of 'f', at f/bits",
                  hint);
    bench_close(&b);
    /* in the body of a scan the location is there */
    b = bench_open(
        "graph step(c: f32[2], x: f32[]) { h = bitcast(c, to=i32) d = bitcast(h, to=f32) return mul(d, x) }\n"
        "graph f(x: f32[3]) { c = scan(full(f32[2], 1), x, body=@step) return reduce_sum(c) }\n",
        NULL);
    flx_graph *fine = flx_grad(b.g, by_x, 1, NULL, &b.err); /* integers end the path through bitcast */
    CHECK_MSG(fine != NULL, "%s (%s)", b.err.message, b.err.where);
    flx_graph_release(fine);
    bench_close(&b);
    b = bench_open("graph step(c: f32[2], x: f32[]) { h = bitcast(c, to=f16) return mul(reduce_sum(cast(h, to=f32), "
                   "axes=[1]), x) }\n"
                   "graph f(x: f32[3]) { c = scan(full(f32[2], 1), x, body=@step) return reduce_sum(c) }\n",
                   NULL);
    bench_refused(&b, flx_grad(b.g, by_x, 1, NULL, &b.err), FLX_E_NO_RULE,
                  "bitcast 'h' (f32[2] to f16[2, 2]) has no derivative in reverse mode", "grad of 'f', at step/h",
                  hint);
    bench_close(&b);
    b = bench_open("graph f(x: f64[3]) { y = gamma(const(u32[2], [1, 2]), x, shape=[3]) return reduce_sum(y) }", NULL);
    bench_refused(
        &b, flx_grad(b.g, by_x, 1, NULL, &b.err), FLX_E_NO_RULE,
        "gamma 'y' (u32[2], f64[3] to f64[3]) has no derivative in reverse mode", "grad of 'f', at f/y",
        "a draw by rejection has no derivative with respect to its shape a; use stop_gradient(a) if none is needed");
    bench_close(&b);
}

/* ---- vmap ---- */

TEST(transform_errors_of_vmap)
{
    text_bench b =
        bench_open("graph f(x: f32[2, 3], y: f32[2]) { z = reduce_sum(x, axes=[1]) return z, mul(z, y) }", NULL);
    flx_vmap_axis far = {"x", 3};
    flx_vmap_axis before = {"x", -4};
    flx_vmap_axis fine = {"x", 0};
    flx_vmap_axis nameless = {NULL, 0};
    int64_t none[2] = {0, FLX_NO_AXIS};
    int64_t outside[2] = {0, 2};
    bench_refused(&b, flx_vmap(b.g, &far, 1, NULL, 0, 2, &b.err), FLX_E_SHAPE,
                  "the batch axis 3 of input 'x' (f32[2, 3]) is outside -3 .. 2, its axes including the batch axis",
                  "vmap of 'f'", "");
    bench_refused(&b, flx_vmap(b.g, &before, 1, NULL, 0, 2, &b.err), FLX_E_SHAPE,
                  "the batch axis -4 of input 'x' (f32[2, 3]) is outside -3 .. 2, its axes including the batch axis",
                  "vmap of 'f'", "");
    bench_refused(
        &b, flx_vmap(b.g, &fine, 1, outside, 2, 2, &b.err), FLX_E_SHAPE,
        "the batch axis 2 of the output mul 'out1' (f32[2]) is outside -2 .. 1, its axes including the batch axis",
        "vmap of 'f'", "");
    bench_refused(&b, flx_vmap(b.g, &fine, 1, none, 2, 2, &b.err), FLX_E_SHAPE,
                  "the output mul 'out1' (f32[2]) depends on the batch and needs a batch axis", "vmap of 'f'",
                  "specify its axis: --out-axes 0");
    bench_refused(&b, flx_vmap(b.g, &fine, 1, none, 1, 2, &b.err), FLX_E_ARITY, "1 output axis is given for 2 outputs",
                  "vmap of 'f'", "outputs: z, out1");
    bench_refused(&b, flx_vmap(b.g, &fine, 1, NULL, 0, -1, &b.err), FLX_E_SHAPE, "the batch size -1 is negative",
                  "vmap of 'f'", "");
    bench_refused(&b, flx_vmap(b.g, &fine, 1, NULL, 0, FLX_DIM_INVALID, &b.err), FLX_E_SHAPE,
                  "the batch size is not a dimension", "vmap of 'f'", "");
    bench_refused(&b, flx_vmap(b.g, &nameless, 1, NULL, 0, 2, &b.err), FLX_E_USAGE, "flx_vmap: in_axes[0] has no name",
                  "vmap of 'f'", "");
    bench_close(&b);
    b = bench_open("graph f(x: f32[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]) { return exp(x) }", NULL);
    bench_refused(&b, flx_vmap(b.g, &fine, 1, NULL, 0, 2, &b.err), FLX_E_SIZE,
                  "input 'x' (f32[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]) has the largest allowed rank: it "
                  "cannot get a batch axis",
                  "vmap of 'f'", "");
    bench_close(&b);
}

/* The size is that of every batched input: values that disagree with it or with each other are rejected. */
TEST(transform_errors_of_batch_sizes_that_disagree)
{
    text_bench b = bench_open("graph f(x: f64[2], y: f64[]) { return mul(x, y) }", NULL);
    flx_vmap_axis both[] = {{"x", 0}, {"y", 0}};
    double x[8] = {0};
    flx_tensor *out[1];
    flx_graph *v = flx_vmap(b.g, both, 2, NULL, 0, flx_dim_symbol(b.ctx, "B"), &b.err);
    CHECK(v != NULL);
    bench_feed(&b, "x", 2, (const flx_dim[]){3, 2}, x);
    bench_feed(&b, "y", 1, (const flx_dim[]){4}, x);
    CHECK_CODE(flx_run(v, ON_REF, b.feeds, 2, out, &b.err), FLX_E_SHAPE, &b.err);
    CHECK_EQ_STR(b.err.message, "input 'y' is declared f64[B], but the value is f64[4]");
    CHECK_EQ_STR(b.err.hint, "the other inputs and the options make it f64[3]");
    flx_graph_release(v);
    v = flx_vmap(b.g, both, 2, NULL, 0, 5, &b.err);
    CHECK(v != NULL);
    CHECK_CODE(flx_run(v, ON_REF, b.feeds, 2, out, &b.err), FLX_E_SHAPE, &b.err);
    CHECK_EQ_STR(b.err.message, "input 'x' is declared f64[5, 2], but the value is f64[3, 2]");
    CHECK_EQ_STR(b.err.hint, "");
    flx_graph_release(v);
    bench_close(&b);
}

/* ---- History ---- */

TEST(transform_errors_tell_the_transforms_before)
{
    text_bench b = bench_open("graph mlp(x: f64[3], w: f64[3]) { return log1p(exp(reduce_sum(mul(w, x)))) }", NULL);
    flx_vmap_axis x0 = {"x", 0};
    flx_vmap_axis far = {"x", 9};
    flx_graph *d = flx_grad(b.g, by_x, 1, NULL, &b.err);
    flx_graph *v = flx_vmap(d, &x0, 1, NULL, 0, 2, &b.err);
    CHECK_EQ_STR(flx_graph_name(v), "mlp.grad.vmap");
    bench_refused(&b, flx_vmap(d, &far, 1, NULL, 0, 2, &b.err), FLX_E_SHAPE,
                  "the batch axis 9 of input 'x' (f64[3]) is outside -2 .. 1, its axes including the batch axis",
                  "vmap of grad of 'mlp'", "");
    bench_refused(&b, flx_grad(v, by_x, 1, NULL, &b.err), FLX_E_NON_SCALAR,
                  "the loss mul 'd_x' (f64[2, 3]) must have one element", "grad of vmap of grad of 'mlp'",
                  "reduce it to one element, or give its cotangent: --seed input (FLX_GRAD_SEED_INPUT)");
    /* text keeps names, so a pipe keeps the history */
    flx_buffer text = {0};
    CHECK_OK(flx_graph_print(v, &text, &b.err), &b.err);
    flx_module *m = flx_parse(b.ctx, text.data, text.size, "text", &b.err);
    CHECK_MSG(m != NULL, "%s", b.err.message);
    bench_refused(&b, flx_hvp(flx_module_main(m), by_z, 1, NULL, &b.err), FLX_E_NON_SCALAR,
                  "the loss mul 'd_x' (f64[2, 3]) must have one element", "hvp of vmap of grad of 'mlp'",
                  "reduce it to one element");
    flx_module_free(m);
    flx_buffer_free(&text);
    flx_graph_release(d);
    flx_graph_release(v);
    bench_close(&b);
}

TEST(transform_errors_cut_a_long_history_in_the_middle)
{
    text_bench b = bench_open("graph power(x: f64[]) { return pow(x, 30) }", NULL);
    flx_graph *now = flx_graph_retain(b.g);
    for (int i = 0; i < 12; i++) {
        flx_graph *next = flx_grad(now, by_x, 1, NULL, &b.err);
        CHECK_MSG(next != NULL, "%s", b.err.message);
        flx_graph_release(now);
        now = next;
    }
    bench_refused(
        &b, flx_jvp(now, by_z, 1, &b.err), FLX_E_NAME,
        "the graph 'power.grad.grad.grad.grad.grad.grad.grad.grad.grad.grad.grad.grad' has no input called 'z'",
        "jvp of grad of grad of grad of grad of grad of ... of 'power'", "its inputs: x");
    flx_graph_release(now);
    bench_close(&b);
    /* a dot in a user's own name is not part of the history */
    b = bench_open("graph model.v2(x: f64[]) { return exp(x) }", NULL);
    bench_refused(&b, flx_jvp(b.g, by_z, 1, &b.err), FLX_E_NAME, "the graph 'model.v2' has no input called 'z'",
                  "jvp of 'model.v2'", "its inputs: x");
    bench_close(&b);
}

TEST(transforms_name_what_they_make)
{
    text_bench b = bench_open("graph f(x: f64[]) { return exp(x) }", NULL);
    flx_vmap_axis axis = {"x", 0};
    const struct {
        flx_graph *made;
        const char *name;
    } rows[] = {
        {flx_grad(b.g, by_x, 1, NULL, &b.err), "f.grad"},    {flx_jvp(b.g, by_x, 1, &b.err), "f.jvp"},
        {flx_hvp(b.g, by_x, 1, NULL, &b.err), "f.hvp"},      {flx_vmap(b.g, &axis, 1, NULL, 0, 2, &b.err), "f.vmap"},
        {flx_jacobian(b.g, by_x, 1, NULL, &b.err), "f.jac"}, {flx_hessian(b.g, by_x, 1, NULL, &b.err), "f.hessian"},
        {flx_taylor(b.g, by_x, 1, 2, &b.err), "f.taylor"},   {flx_nth_grad(b.g, "x", 2, &b.err), "f.grad.grad"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CHECK_EQ_STR(flx_graph_name(rows[i].made), rows[i].name);
        flx_graph_release(rows[i].made);
    }
    bench_close(&b);
}

/* ---- Bodies of custom_fn ---- */

static void check_body(const char *graphs, const char *attrs, flx_code code, const char *message)
{
    char text[600];
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    snprintf(text, sizeof text, "%s\ngraph g(x: f32[3], s: f32[]) { y = custom_fn(x, s, %s) return y }", graphs, attrs);
    test_fail_context("%s", text);
    flx_module *m = flx_parse(ctx, text, strlen(text), "t", &err);
    CHECK(m == NULL);
    CHECK_CODE(err.code, code, &err);
    CHECK_EQ_STR(err.message, message);
    flx_context_free(ctx);
}

TEST(transform_errors_of_custom_bodies)
{
#define FWD "graph f(x: f32[3], s: f32[]) { return mul(x, s) }\n"
    check_body("graph f(x: f32[3]) { return x }", "fwd_body=@f", FLX_E_ARITY,
               "custom_fn 'y': fwd_body=@f takes 1 input, not 2");
    check_body("graph f(x: f32[3], s: f64[]) { return x }", "fwd_body=@f", FLX_E_DTYPE,
               "custom_fn 'y': fwd_body=@f: input 's' is f64[], but the given value is f32[]");
    check_body("graph f(x: f32[4], s: f32[]) { return x }", "fwd_body=@f", FLX_E_SHAPE,
               "custom_fn 'y': fwd_body=@f: input 'x' is f32[4], but the given value is f32[3]");
    check_body(FWD "graph b(x: f32[3], s: f32[], g: f32[3]) { return g, s }", "fwd_body=@f, vjp_body=@b", FLX_E_ARITY,
               "custom_fn 'y': vjp_body=@b takes 3 inputs, not 4");
    check_body(FWD "graph b(x: f32[3], s: f32[], y: f32[3], g: f32[3]) { return g }", "fwd_body=@f, vjp_body=@b",
               FLX_E_ARITY, "custom_fn 'y': vjp_body returns 1 cotangent, expected 2");
    check_body(FWD "graph b(x: f32[3], s: f32[], y: f32[3], g: f32[3]) { return g, g }", "fwd_body=@f, vjp_body=@b",
               FLX_E_SHAPE, "custom_fn 'y': vjp_body returns f32[3] for operand 1, which is f32[]");
    check_body(FWD "graph b(x: f32[3], s: f32[], y: f32[3], g: f32[3]) { return cast(g, to=f64), s }",
               "fwd_body=@f, vjp_body=@b", FLX_E_DTYPE,
               "custom_fn 'y': vjp_body returns f64[3] for operand 0, which is f32[3]");
    check_body(FWD "graph j(x: f32[3], s: f32[], tx: f32[3], ts: f32[]) { return tx }", "fwd_body=@f, jvp_body=@j",
               FLX_E_ARITY, "custom_fn 'y': jvp_body=@j takes 4 inputs, not 5");
    check_body(FWD "graph j(x: f32[3], s: f32[], tx: f32[3], ts: f32[], y: f32[3]) { return tx, ts }",
               "fwd_body=@f, jvp_body=@j", FLX_E_ARITY, "custom_fn 'y': jvp_body returns 2 tangents, expected 1");
    check_body(FWD "graph j(x: f32[3], s: f32[], tx: f32[3], ts: f32[], y: f32[3]) { return ts }",
               "fwd_body=@f, jvp_body=@j", FLX_E_SHAPE,
               "custom_fn 'y': jvp_body returns f32[] for result 0, which is f32[3]");
    check_body(FWD "graph j(x: f32[3], s: f32[], tx: f32[3], ts: f32[], y: f32[3]) { return cast(tx, to=f16) }",
               "fwd_body=@f, jvp_body=@j", FLX_E_DTYPE,
               "custom_fn 'y': jvp_body returns f16[3] for result 0, which is f32[3]");
    check_body(FWD, "fwd_body=@f, num_residuals=2", FLX_E_ATTRIBUTE,
               "custom_fn 'y': num_residuals=2, but fwd_body returns 1 output");
    check_body(FWD, "fwd_body=@f, zero_grads=[2]", FLX_E_ATTRIBUTE,
               "custom_fn 'y': zero_grads lists operand 2, but there are 2 operands");
#undef FWD
}
