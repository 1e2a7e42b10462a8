/* SPDX-License-Identifier: Apache-2.0 */
#include <fluxion/fluxion.h>
#include <stdio.h>
int main(void)
{
    static const char text[] = "graph f(x: f32[3]) { return reduce_sum(mul(x, exp(neg(x)))) }";
    float x[3] = {0, 1, 2}, dx[3];
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *f = flx_parse(ctx, text, sizeof text - 1, "f", &err);
    flx_graph *df = f ? flx_grad(flx_module_main(f), (const char *[]){"x"}, 1, NULL, &err) : NULL; /* a new graph */
    flx_exec *e = df ? flx_compile(df, NULL, &err) : NULL;
    if (e && flx_exec_run_at(e, (const void *[]){x}, (void *[]){dx}, &err) == FLX_OK)
        printf("%g %g %g\n", (double)dx[0], (double)dx[1], (double)dx[2]); /* (1 - x) exp(-x): 1 0 -0.135335 */
    flx_exec_free(e);
    flx_graph_release(df);
    flx_module_free(f);
    flx_context_free(ctx);
    return err.code ? fprintf(stderr, "%s: %s\n", err.where, err.message), 1 : 0;
}
