/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_stablehlo.c: StableHLO text. What the parser accepts is a tree in which every value is defined before it is used
   and every region ends with its terminator; what it rejects has an error with a location. Then the same text is
   imported: that gives graphs that verify, or an error. */
#include "stablehlo_checks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void parse(const char *text, size_t size)
{
    const flxi_allocator mem = {flxi_default_alloc, NULL};
    hlo_module m;
    flx_error err = {0};
    if (flxi_hlo_parse(&mem, text, size, "fuzz", &m, &err) != FLX_OK) {
        check_error(&err);
        return;
    }
    check_module(&m, size);
    flxi_hlo_module_free(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    parse((const char *)data, size);
    check_import((const char *)data, size);
    return 0;
}
