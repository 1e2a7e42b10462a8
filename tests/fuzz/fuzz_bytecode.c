/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_bytecode.c: StableHLO bytecode, bare or within a file of jax.export. It is held to the same laws as text
   (fuzz_stablehlo.c), and a small file takes little memory. */
#include "stablehlo/bytecode/bytecode.h"
#include "stablehlo_checks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_bytes(const char *bytes, size_t size)
{
    const flxi_allocator mem = {flxi_default_alloc, NULL};
    hlo_module m;
    flx_error err = {0};
    if (flxi_hlo_read_bytecode(&mem, bytes, size, "fuzz", &m, &err) != FLX_OK) {
        check_error(&err);
        return;
    }
    check_module(&m, size);
    flxi_hlo_module_free(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *bytes = (const char *)data;
    flxi_hlo_artifact exported = flxi_hlo_exported_by_jax(bytes, size);
    read_bytes(exported.at ? exported.at : bytes, exported.at ? exported.length : size);
    check_import(bytes, size);
    return 0;
}
