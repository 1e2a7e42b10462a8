/* SPDX-License-Identifier: Apache-2.0 */
/* An operation of the program as an op of a graph: a table with linear interpolation, and its derivative. */
#include <fluxion/custom.h>
#include <fluxion/fluxion.h>
#include <math.h>
#include <stdio.h>

/* y = table[x], linear between its entries, constant outside. A program can compute anything in this way. */
static const float table[] = {0, 1, 4, 9, 16};
enum { LAST = 4 };

static flx_code infer(void *user, const flx_custom_call *c, flx_type *results, size_t *n, flx_error *err)
{
    (void)user;
    (void)err;
    if (flx_custom_num_inputs(c) != 1 || flx_custom_input(c, 0)->dtype != FLX_F32)
        return FLX_E_DTYPE;
    results[0] = *flx_custom_input(c, 0);
    *n = 1;
    return FLX_OK;
}

/* With slope=true the derivative, else the value. */
static flx_code eval(void *user, const flx_custom_call *c, const void *const *in, void *const *out, flx_error *err)
{
    (void)user;
    (void)err;
    const float *x = in[0];
    float *y = out[0];
    int64_t n = 1;
    for (int k = 0; k < flx_custom_input(c, 0)->rank; k++)
        n *= flx_custom_input(c, 0)->dims[k];
    for (int64_t i = 0; i < n; i++) {
        float at = fminf(fmaxf(x[i], 0), LAST);
        int k = at < LAST ? (int)at : LAST - 1;
        float slope = table[k + 1] - table[k];
        if (flx_custom_attr(c, "slope"))
            y[i] = x[i] >= 0 && x[i] <= LAST ? slope : 0;
        else
            y[i] = table[k] + (at - (float)k) * slope;
    }
    return FLX_OK;
}

/* dx = dy * slope(x), where the slope is a call of the same operation. */
static flx_code vjp(void *user, const flx_custom_call *c, flx_graph *g, const flx_val *x, const flx_val *y,
                    const flx_val *dy, flx_val *dx, flx_error *err)
{
    (void)user;
    (void)y;
    (void)err;
    if (flx_custom_attr(c, "slope"))
        return FLX_OK; /* constant between the entries: its derivative is zero */
    const flx_attr attrs[] = {flx_attr_string("name", "table"), flx_attr_word("slope", "true")};
    dx[0] = flx_mul(g, dy[0], flx_op1(g, "custom", x, 1, attrs, 2));
    return FLX_OK;
}

static int fail(const flx_error *err)
{
    fprintf(stderr, "%s: %s\n", flx_code_name(err->code), err->message);
    return 1;
}

int main(void)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    const flx_custom_op op = {.struct_size = sizeof op, .name = "table", .infer = infer, .eval = eval, .vjp = vjp};
    if (flx_register_custom(ctx, &op, &err) != FLX_OK)
        return fail(&err);

    static const char text[] = "graph loss(x: f32[5]) { return reduce_sum(custom(x, name=\"table\")) }";
    flx_module *m = flx_parse(ctx, text, sizeof text - 1, "loss", &err);
    const char *wrt[] = {"x"};
    flx_graph *grad = m ? flx_grad(flx_module_main(m), wrt, 1, NULL, &err) : NULL;
    if (!grad)
        return fail(&err);

    const float values[] = {-1, 0.5f, 1.5f, 2.5f, 3.5f};
    flx_dim count = 5;
    flx_type type = flx_type_make(FLX_F32, 1, &count);
    flx_tensor *x = flx_tensor_new(ctx, &type, values, &err), *d = NULL;
    flx_feed feed = {"x", x};
    if (!x || flx_run(grad, NULL, &feed, 1, &d, &err) != FLX_OK)
        return fail(&err);
    for (int i = 0; i < 5; i++)
        printf("x = %4g   dy/dx = %g\n", (double)values[i], flx_tensor_get(d, i));

    flx_tensor_release(d);
    flx_tensor_release(x);
    flx_graph_release(grad);
    flx_module_free(m);
    flx_context_free(ctx);
    return 0;
}
