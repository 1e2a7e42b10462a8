/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel written by hand as an op of a graph, and its gradient. */
#include <fluxion/fluxion.h>
#include <stdio.h>

/* y[i] = x[i] / (1 + x[i]²). The rest of the graph knows only its inputs, outputs and grid. */
static const char kernel[] = "kernel bell(workgroup = [1, 1, 1]) {\n"
                             "  buffer x: f32[] read;\n"
                             "  buffer y: f32[] output;\n"
                             "  let i = invocation_id(0);\n"
                             "  y[i] = x[i] / fma(x[i], x[i], 1.0);\n"
                             "}\n";

static int fail(const flx_error *err)
{
    fprintf(stderr, "%s: %s %s\n", flx_code_name(err->code), err->message, err->where);
    return 1;
}

/* loss = sum(bell(x)) for x: f32[N], with one workgroup for each element. */
static flx_graph *build(flx_context *ctx)
{
    flx_dim n = flx_dim_symbol(ctx, "N");
    flx_type type = flx_type_make(FLX_F32, 1, &n);
    flx_graph *g = flx_graph_new(ctx, "loss");
    flx_val x = flx_input(g, "x", &type), y = FLX_NONE;
    flx_kernel_call(g, &x, 1, &y, 1, .kernel = kernel, .outputs = {&type, 1}, .grid = {&n, 1});
    flx_output(g, flx_reduce_sum(g, y, FLX_ALL, 0), "loss");
    return g;
}

int main(void)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = build(ctx);
    if (flx_graph_error(g, &err) != FLX_OK)
        return fail(&err);
    const char *wrt[] = {"x"};
    flx_graph *grad = flx_grad(g, wrt, 1, NULL, &err);
    if (!grad)
        return fail(&err);

    float values[] = {-2, -1, 0, 0.5f, 1, 2};
    flx_dim count = 6;
    flx_type type = flx_type_make(FLX_F32, 1, &count);
    flx_tensor *x = flx_tensor_new(ctx, &type, values, &err), *d = NULL;
    flx_feed feed = {"x", x};
    if (!x || flx_run(grad, NULL, &feed, 1, &d, &err) != FLX_OK)
        return fail(&err);
    for (int i = 0; i < 6; i++)
        printf("x = %4g   dy/dx = %g\n", (double)values[i], flx_tensor_get(d, i));

    flx_tensor_release(d);
    flx_tensor_release(x);
    flx_graph_release(grad);
    flx_graph_release(g);
    flx_context_free(ctx);
    return 0;
}
