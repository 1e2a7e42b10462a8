/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_text.c: the text form. What parses must verify, print, read back as the same graphs and print the same again,
   and pass through the binary form; small graphs also go through the passes and transforms and are run. */
#include "fuzz_checks.h"
#include "token_mutator.h"
#include "transform_checks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

/* Two thirds of the changes are to tokens, the rest to bytes. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    static token_text t;
    static char before[1 << 16];
    t.random = seed * UINT64_C(0x9e3779b97f4a7c15) + size;
    if (size == 0 || size > sizeof before || below(&t, 3) == 0)
        return LLVMFuzzerMutate(data, size, max_size);
    memcpy(before, data, size);
    read_tokens(&t, before, size);
    for (size_t n = 1 + below(&t, 3); n > 0 && t.n > 0; n--)
        change_tokens(&t);
    return write_tokens(&t, (char *)data, max_size);
}

static void check_same_graphs(const flx_module *a, const flx_module *b)
{
    need(flx_module_count(a) == flx_module_count(b));
    for (size_t i = 0; i < flx_module_count(a); i++) {
        const flx_graph *g = flx_module_graph(a, i);
        const flx_graph *h = flx_module_find(b, flx_graph_name(g));
        need(h && flx_graph_hash(g) == flx_graph_hash(h));
    }
    need(strcmp(flx_graph_name(flx_module_main(a)), flx_graph_name(flx_module_main(b))) == 0);
}

static void check_module(flx_context *ctx, const flx_module *m)
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(&(flx_context_options){.alloc = FUZZ_ALLOC, .memory_limit = 64 << 20});
    flx_module *m = flx_parse(ctx, (const char *)data, size, "fuzz", &err);
    if (!m)
        need(err.code != FLX_OK && err.code != FLX_E_INTERNAL && err.message[0] && strncmp(err.where, "fuzz:", 5) == 0);
    for (size_t i = 0; i < flx_module_count(m); i++)
        need(flx_graph_verify(flx_module_graph(m, i), &err) == FLX_OK);
    if (m) {
        check_module(ctx, m);
        check_bytes(flx_module_main(m));
        if (is_cheap(flx_module_main(m))) {
            check_passes(flx_module_main(m));
            run_on_awkward_values(flx_module_main(m));
        }
        check_uses(flx_module_main(m));
    }
    flx_module_free(m);
    flx_context_free(ctx);
    return 0;
}
