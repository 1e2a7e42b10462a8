/* Builds y = x * exp(-x) and runs it. */
#include <fluxion/fluxion.h>
#include <stdio.h>
int main(void)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = flx_graph_new(ctx, "first");
    flx_type row = flx_type_make(FLX_F32, 1, (flx_dim[]){3});
    flx_val x = flx_input(g, "x", &row);
    flx_output(g, flx_mul(g, x, flx_exp(g, flx_neg(g, x))), "y"); /* a mistake would stay in g ... */
    flx_tensor *in = flx_tensor_new(ctx, &row, (float[]){0, 1, 2}, &err), *y = NULL;
    if (flx_run(g, NULL, &(flx_feed){"x", in}, 1, &y, &err) == FLX_OK) /* ... and be reported here */
        printf("%g %g %g\n", flx_tensor_get(y, 0), flx_tensor_get(y, 1), flx_tensor_get(y, 2));
    flx_tensor_release(in);
    flx_tensor_release(y);
    flx_graph_free(g);
    flx_context_free(ctx);
    return err.code ? fprintf(stderr, "%s\n", err.message), 1 : 0;
}
