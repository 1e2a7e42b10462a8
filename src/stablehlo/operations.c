/* SPDX-License-Identifier: Apache-2.0 */
/* operations.c: the table of operations.def, and finding a row by name. */
#include "stablehlo/operations.h"

#include "stablehlo/import/check/hlo_checks.h"

#include <stdlib.h>
#include <string.h>

const hlo_operation flxi_hlo_operations[] = {
#define HLO_OP(op, text, types, ...) \
    {.name = (op), .form = (text), .signature = (types), .import = flxi_hlo_import_##__VA_ARGS__},
#define HLO_FORM(op, text) {.name = (op), .form = (text)},
#include "stablehlo/operations.def"
};
const size_t flxi_hlo_num_operations = sizeof flxi_hlo_operations / sizeof *flxi_hlo_operations;

static int compare_name(const void *name, const void *row)
{
    return strcmp(name, ((const hlo_operation *)row)->name);
}

const hlo_operation *flxi_hlo_operation(const char *name)
{
    return bsearch(name, flxi_hlo_operations, flxi_hlo_num_operations, sizeof *flxi_hlo_operations, compare_name);
}
