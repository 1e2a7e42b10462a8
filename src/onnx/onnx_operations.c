/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_operations.c: the table of onnx_operations.def, and finding its rows. */
#include "onnx/onnx_operations.h"

#include <string.h>

/* Every rule that a row names. */
#define DECLARE(rule, ...) void flxi_onnx_import_##rule(onnx_site *s);
#define ONNX_OP(name, since, until, low, high, ...) DECLARE(__VA_ARGS__, ~)
#define ONNX_OP_OF(domain, name, since, until, low, high, ...) DECLARE(__VA_ARGS__, ~)
#include "onnx/onnx_operations.def"
#undef DECLARE

#define DECLARE_EXTENTS(rule) void flxi_onnx_extents_##rule(onnx_site *s);
DECLARE_EXTENTS(arithmetic)
DECLARE_EXTENTS(concat)
DECLARE_EXTENTS(gather)
DECLARE_EXTENTS(prod)
DECLARE_EXTENTS(same)
DECLARE_EXTENTS(shape)
DECLARE_EXTENTS(slice)
DECLARE_EXTENTS(split)
DECLARE_EXTENTS(where)

#define FIRST(rule, ...) .import = flxi_onnx_import_##rule, __VA_ARGS__
#define ONNX_OP(op, first, last, low, high, ...) ONNX_OP_OF("", op, first, last, low, high, __VA_ARGS__)
#define ONNX_OP_OF(its_domain, op, first, last, low, high, ...)                                             \
    {its_domain,          op, .since = (first), .until = (last), .min_inputs = (low), .max_inputs = (high), \
     FIRST(__VA_ARGS__, )},

static const onnx_operation operations[] = {
#include "onnx/onnx_operations.def"
};

const onnx_operation *flxi_onnx_operation_at(size_t i)
{
    return i < sizeof operations / sizeof *operations ? &operations[i] : NULL;
}

static bool is_named(const onnx_operation *row, const char *domain, const char *name)
{
    return strcmp(row->name, name) == 0 && strcmp(row->domain, domain) == 0;
}

const onnx_operation *flxi_onnx_operation(const char *domain, const char *name, int64_t version)
{
    const onnx_operation *row;
    for (size_t i = 0; (row = flxi_onnx_operation_at(i)) != NULL; i++)
        if (is_named(row, domain, name) && row->since <= version && version <= row->until)
            return row;
    return NULL;
}

bool flxi_onnx_is_operation(const char *domain, const char *name)
{
    const onnx_operation *row;
    for (size_t i = 0; (row = flxi_onnx_operation_at(i)) != NULL; i++)
        if (is_named(row, domain, name))
            return true;
    return false;
}
