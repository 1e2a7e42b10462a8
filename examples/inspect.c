/* SPDX-License-Identifier: Apache-2.0 */
/* inspect.c: a tensor over the program's own memory, the attributes of a graph's nodes, and what the library reports
   while it works. */
#include <fluxion/fluxion.h>
#include <stdio.h>
#include <stdlib.h>

static void report(void *user, flx_log_event event, const char *subject, const char *text)
{
    static const char *const names[] = {"", "compiled", "cache hit", "cache miss", "fallback"};
    fprintf(user, "%s: %s: %s\n", names[event], subject, text);
}

/* Called when the last hold on the tensor is released. */
static void release(void *user, void *data)
{
    (void)user;
    free(data);
}

static void print_attributes(const flx_graph *g)
{
    flx_node_view node;
    for (size_t i = 0; i < flx_graph_node_count(g); i++) {
        flx_graph_node(g, i, &node);
        for (uint32_t k = 0; k < node.num_attrs; k++) {
            flx_node_attr_view a;
            flx_node_attr(g, i, k, &a);
            printf("%s: %s (%s)%s\n", node.op, a.value.key, a.kind, a.is_default ? ", the default" : "");
        }
    }
}

int main(void)
{
    flx_error err = {0};
    flx_context_options options = {.struct_size = sizeof options, .log = report, .log_user = stderr};
    flx_context *ctx = flx_context_new(&options);
    flx_type type = flx_type_make(FLX_F32, 2, (flx_dim[]){2, 3});
    float *data = malloc(6 * sizeof *data);
    if (!ctx || !data)
        return 1;
    for (int i = 0; i < 6; i++)
        data[i] = (float)i;
    flx_graph *g = flx_graph_new(ctx, "total");
    flx_output(g, flx_reduce_sum(g, flx_input(g, "x", &type)), "sum"); /* over all axes, which is the default */
    print_attributes(g);
    flx_tensor *x = flx_tensor_wrap(ctx, &type, data, release, NULL, &err), *sum = NULL;
    if (!x)
        free(data);
    else if (flx_run(g, NULL, &(flx_feed){"x", x}, 1, &sum, &err) == FLX_OK)
        printf("%g\n", flx_tensor_get(sum, 0));
    flx_tensor_release(sum);
    flx_tensor_release(x); /* calls release() */
    flx_graph_release(g);
    flx_context_free(ctx);
    return err.code ? fprintf(stderr, "%s: %s\n", err.where, err.message), 1 : 0;
}
