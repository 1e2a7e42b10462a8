/* fuzz_text.c: the text form. What parses must verify, print, read back as the same graphs and print the same again, and
   pass through the binary form; small graphs without loops are also run, on values that ops find awkward. */
#include "ir/ir.h"

#include <fluxion/fluxion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_NODES = 48, MAX_ELEMENTS = 300, MAX_OUTPUTS = 16, MAX_INPUTS = 16 };

static void need(int condition)
{
    if (!condition)
        abort();
}

/* ---- Reading back ---- */

static void check_same_graphs(const flx_module *a, const flx_module *b)
{
    need(flx_module_count(a) == flx_module_count(b));
    for (size_t i = 0; i < flx_module_count(a); i++) {
        flx_graph *g = flx_module_graph(a, i);
        const flx_graph *h = flx_module_find(b, flx_graph_name(g));
        need(h && flx_graph_hash(g) == flx_graph_hash(h));
    }
    need(strcmp(flx_graph_name(flx_module_main(a)), flx_graph_name(flx_module_main(b))) == 0);
}

static void check_text(flx_context *ctx, const flx_module *m)
{
    flx_error err = {0};
    flx_buffer once = {0};
    flx_buffer twice = {0};
    need(flx_module_print(m, &once, &err) == FLX_OK);
    flx_module *again = flx_parse(ctx, once.data, once.size, "printed", &err);
    need(again != NULL);
    check_same_graphs(m, again);
    need(flx_module_print(again, &twice, &err) == FLX_OK);
    need(once.size == twice.size && memcmp(once.data, twice.data, once.size) == 0);
    flx_buffer_free(&once);
    flx_buffer_free(&twice);
    flx_module_free(again);
}

static void check_bytes(flx_context *ctx, const flx_graph *g)
{
    flx_error err = {0};
    flx_buffer bytes = {0};
    need(flx_graph_encode(g, &bytes, &err) == FLX_OK);
    flx_module *m = flx_decode(ctx, bytes.data, bytes.size, "encoded", &err);
    need(m && flx_graph_hash(flx_module_main(m)) == flx_graph_hash(g));
    flx_module_free(m);
    flx_buffer_free(&bytes);
}

/* ---- Running ---- */

/* Classes whose work is bounded by the sizes of operands and results. */
static int is_cheap(const flx_graph *g)
{
    const unsigned cheap = 1u << CLASS_LEAF | 1u << CLASS_POINTWISE | 1u << CLASS_REDUCE | 1u << CLASS_AXIS |
                           1u << CLASS_SHAPE | 1u << CLASS_INDEX | 1u << CLASS_IDENTITY;
    if (flx_graph_node_count(g) > MAX_NODES || flx_graph_input_count(g) > MAX_INPUTS ||
        flx_graph_output_count(g) > MAX_OUTPUTS || g->bodies.n)
        return 0;
    for (uint32_t i = 0; i < g->node_count; i++)
        if (!(cheap >> flxi_ops[flxi_node_at(g, i)->op].op_class & 1) || flxi_node_at(g, i)->nin > 32)
            return 0;
    for (uint32_t id = 1; id <= g->value_count; id++) {
        int64_t count;
        if (!flxi_static_count(flxi_type_at(g, id), &count) || count > MAX_ELEMENTS)
            return 0;
    }
    return 1;
}

static flx_tensor *awkward(flx_context *ctx, const flx_type *type, unsigned salt)
{
    static const double values[] = {0.0, 1.0, -1.0, 2.5, 1e30, -3.0, (double)INFINITY, 7.0, 1e-40, -0.0};
    flx_type wide = *type;
    wide.dtype = FLX_F64;
    flx_tensor *w = flx_tensor_new(ctx, &wide, NULL, NULL);
    need(w != NULL);
    double *x = flx_tensor_data(w);
    for (int64_t i = 0; i < flx_tensor_count(w); i++)
        x[i] = (salt + (unsigned)i) % 11 == 10 ? (double)NAN : values[(salt * 7 + (unsigned)i * 3) % 10];
    flx_tensor *t = flx_tensor_cast(w, (flx_dtype)type->dtype, NULL);
    need(t != NULL);
    flx_tensor_release(w);
    return t;
}

static void run(const flx_graph *g)
{
    flx_error err = {0};
    flx_feed feeds[MAX_INPUTS];
    flx_tensor *in[MAX_INPUTS];
    flx_tensor *out[MAX_OUTPUTS];
    size_t n = flx_graph_input_count(g);
    for (size_t i = 0; i < n; i++) {
        flx_val v = flx_graph_input(g, i);
        in[i] = awkward(flx_graph_context(g), flx_val_type(g, v), (unsigned)i);
        feeds[i] = (flx_feed){flx_val_name(g, v), in[i]};
    }
    flx_code code = flx_run(g, NULL, feeds, n, out, &err);
    need(code != FLX_E_INTERNAL);
    for (size_t i = 0; code == FLX_OK && i < flx_graph_output_count(g); i++)
        flx_tensor_release(out[i]);
    for (size_t i = 0; i < n; i++)
        flx_tensor_release(in[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(&(flx_context_options){.memory_limit = 64 << 20});
    flx_module *m = flx_parse(ctx, (const char *)data, size, "fuzz", &err);
    if (!m)
        need(err.code != FLX_OK && err.code != FLX_E_INTERNAL && err.message[0] && strncmp(err.where, "fuzz:", 5) == 0);
    for (size_t i = 0; i < flx_module_count(m); i++)
        need(flx_graph_verify(flx_module_graph(m, i), &err) == FLX_OK);
    if (m) {
        check_text(ctx, m);
        check_bytes(ctx, flx_module_main(m));
        if (is_cheap(flx_module_main(m)))
            run(flx_module_main(m));
    }
    flx_module_free(m);
    flx_context_free(ctx);
    return 0;
}
