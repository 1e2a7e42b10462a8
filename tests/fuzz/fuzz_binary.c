/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_binary.c: the binary form. The first byte of the input selects: the rest is a complete file, or a payload that
   gets a correct header, so that the code after the checksum is explored. What decodes must verify, encode to bytes
   that decode to the same graph, and print as text that does too. */
#include "fuzz_checks.h"
#include "transform_checks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HEADER = 24 };

static void put(uint8_t *at, uint64_t v, int nbytes)
{
    for (int i = 0; i < nbytes; i++)
        at[i] = (uint8_t)(v >> (8 * i));
}

static uint8_t *with_header(const uint8_t *payload, size_t size)
{
    uint8_t *file = malloc(HEADER + size);
    need(file != NULL);
    memcpy(file, "FLXB", 4);
    put(file + 4, 1, 4);
    put(file + 8, size, 8);
    put(file + 16, flxi_hash_bytes(FLXI_HASH_SEED, payload, size), 8);
    if (size)
        memcpy(file + HEADER, payload, size);
    return file;
}

static void decode(const uint8_t *data, size_t size)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(&(flx_context_options){.alloc = FUZZ_ALLOC, .memory_limit = 64 << 20});
    flx_module *m = flx_decode(ctx, data, size, "fuzz", &err);
    if (!m)
        need(err.code != FLX_OK && err.code != FLX_E_INTERNAL && err.message[0] && strcmp(err.where, "fuzz") == 0);
    for (size_t i = 0; i < flx_module_count(m); i++)
        check_graph(flx_module_graph(m, i));
    if (m)
        check_uses(flx_module_main(m));
    flx_module_free(m);
    flx_context_free(ctx);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    if (data[0] % 4 == 0) {
        decode(data + 1, size - 1);
    } else {
        uint8_t *file = with_header(data + 1, size - 1);
        decode(file, HEADER + size - 1);
        free(file);
    }
    return 0;
}
