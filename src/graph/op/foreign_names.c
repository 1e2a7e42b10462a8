/* SPDX-License-Identifier: Apache-2.0 */
/* foreign_names.c: what PyTorch, NumPy, JAX and ONNX call the ops. A name is compared without case, underscores and the
   module before its last dot, so that torch.nn.functional.max_pool2d, MaxPool2d and max_pool2d are one name. */
#include "graph/op/foreign_names.h"

#include "graph/graph.h"

#include <fluxion/catalogue.h>
#include <stdio.h>

static const flx_foreign_view rows[] = {
#define FOREIGN(name, frameworks, ours, note) {name, frameworks, ours, note},
#include "graph/op/foreign_names.def"
#undef FOREIGN
};

enum { NUM_ROWS = sizeof rows / sizeof *rows, PLAIN_SIZE = 64 };

/* The name in the form in which names are compared; "" when it is too long to be one. */
static void make_plain(const char *name, size_t n, char plain[PLAIN_SIZE])
{
    size_t k = 0; /* letters since the last dot, of which there may be more than fit */
    for (size_t i = 0; i < n; i++) {
        char c = name[i];
        if (c == '.') {
            k = 0;
        } else if (c != '_') {
            if (k < PLAIN_SIZE)
                plain[k] = (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
            k++;
        }
    }
    plain[k < PLAIN_SIZE ? k : 0] = 0;
}

static bool is_same(const char *plain, const char *name)
{
    char other[PLAIN_SIZE];
    make_plain(name, strlen(name), other);
    return plain[0] && strcmp(plain, other) == 0;
}

static const flx_foreign_view *find_row(const char *plain)
{
    for (size_t i = 0; i < NUM_ROWS; i++)
        if (is_same(plain, rows[i].name))
            return &rows[i];
    return NULL;
}

static const char *find_own(const char *plain)
{
    for (uint32_t op = 1; op < flxi_op_rows; op++)
        if (!(flxi_ops[op].traits & TRAIT_DECLARED) && is_same(plain, flxi_ops[op].name))
            return flxi_ops[op].name;
    return NULL;
}

bool flxi_foreign_hint(const char *name, size_t n, char *hint, size_t size)
{
    char plain[PLAIN_SIZE];
    make_plain(name, n, plain);
    const flx_foreign_view *row = find_row(plain);
    const char *own = row ? NULL : find_own(plain);
    if (row && row->note[0])
        snprintf(hint, size, "%s", row->note);
    else if (row || own)
        snprintf(hint, size, "write %s", row ? row->ours : own);
    return row || own;
}

const char *flxi_foreign_meaning(const char *op)
{
    char plain[PLAIN_SIZE];
    make_plain(op, strlen(op), plain);
    const flx_foreign_view *row = find_row(plain);
    return row && strcmp(row->name, op) == 0 ? row->note : NULL;
}

/* ---- Dtypes ---- */

const char *flxi_foreign_dtype(const char *name, size_t n)
{
    static const struct {
        const char *name;
        flx_dtype dtype;
    } dtypes[] = {
        {"float", FLX_F32},  {"float32", FLX_F32},     {"single", FLX_F32},    {"float64", FLX_F64},
        {"double", FLX_F64}, {"float16", FLX_F16},     {"half", FLX_F16},      {"bfloat16", FLX_BF16},
        {"int", FLX_I32},    {"int32", FLX_I32},       {"int64", FLX_I64},     {"long", FLX_I64},
        {"int16", FLX_I16},  {"short", FLX_I16},       {"int8", FLX_I8},       {"char", FLX_I8},
        {"uint8", FLX_U8},   {"byte", FLX_U8},         {"uint16", FLX_U16},    {"uint32", FLX_U32},
        {"uint", FLX_U32},   {"uint64", FLX_U64},      {"complex64", FLX_C64}, {"complex", FLX_C64},
        {"cfloat", FLX_C64}, {"complex128", FLX_C128}, {"cdouble", FLX_C128},  {"boolean", FLX_BOOL},
        {"i1", FLX_BOOL},
    };
    char plain[PLAIN_SIZE];
    make_plain(name, n, plain);
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (strcmp(plain, dtypes[i].name) == 0)
            return flx_dtype_name(dtypes[i].dtype);
    flx_dtype own = flx_dtype_parse(plain); /* F32, torch.bool */
    return own == FLX_DTYPE_NONE ? NULL : flx_dtype_name(own);
}

/* ---- Attributes ---- */

/* Under which names an op may have what is called `name` elsewhere, the likeliest first. */
static const struct {
    const char *name, *ours;
} attr_rows[] = {
    {"ascending", "descending"},
    {"axes", "axis perm"},
    {"axis", "axes"},
    {"depth", "n"},
    {"dilation_rate", "dilation"},
    {"dilations", "dilation"},
    {"dim", "axis axes"},
    {"dimension", "axis axes"},
    {"dimensions", "axes perm"},
    {"dims", "axes perm shape"},
    {"dtype", "to"},
    {"epsilon", "eps"},
    {"feature_group_count", "groups"},
    {"fill_value", "value"},
    {"group", "groups"},
    {"indices_or_sections", "sizes"},
    {"keepdim", "keep_dims"},
    {"keepdims", "keep_dims"},
    {"kernel", "kernel_size"},
    {"kernel_shape", "kernel_size"},
    {"lhs_dilation", "input_dilation"},
    {"negative_slope", "alpha"},
    {"newshape", "shape"},
    {"num_classes", "n"},
    {"num_groups", "groups"},
    {"ord", "p"},
    {"p", "rate ord"},
    {"output_size", "shape"},
    {"pad", "padding low"},
    {"pads", "padding low"},
    {"permutation", "perm"},
    {"rate", "p"},
    {"rhs_dilation", "dilation"},
    {"shifts", "shift"},
    {"size", "shape sizes"},
    {"slope", "alpha"},
    {"split_size_or_sections", "sizes"},
    {"strides", "stride"},
    {"stride", "strides"},
    {"to", "dtype"},
    {"window_dilation", "dilation"},
    {"window_dimensions", "window"},
    {"window_strides", "stride strides"},
};

static const char *attr_called(const flxi_op *op, const char *name, size_t n)
{
    for (const flxi_attr *a = op->rules->schema; a && a->name; a++)
        if (strlen(a->name) == n && memcmp(a->name, name, n) == 0)
            return a->name;
    return NULL;
}

/* The op's attribute whose name differs in case and underscores only. */
static const char *attr_spelt(const flxi_op *op, const char *plain)
{
    for (const flxi_attr *a = op->rules->schema; a && a->name; a++)
        if (is_same(plain, a->name))
            return a->name;
    return NULL;
}

const char *flxi_foreign_attr(const flxi_op *op, const char *key)
{
    char plain[PLAIN_SIZE];
    size_t n = 0;
    make_plain(key, strlen(key), plain);
    const char *found = attr_spelt(op, plain);
    for (size_t i = 0; !found && i < sizeof attr_rows / sizeof *attr_rows; i++) {
        const char *word;
        for (int64_t k = 0; is_same(plain, attr_rows[i].name) && !found; k++) {
            if (!(word = flxi_word_at(attr_rows[i].ours, k, &n)))
                break;
            found = attr_called(op, word, n);
        }
    }
    return found;
}

/* ---- For the outside ---- */

flx_code flx_foreign_name(size_t i, flx_foreign_view *out)
{
    if (!out)
        return FLX_E_USAGE;
    if (i >= NUM_ROWS)
        return FLX_E_NAME;
    *out = rows[i];
    return FLX_OK;
}

flx_code flx_foreign_find(const char *name, flx_foreign_view *out)
{
    char plain[PLAIN_SIZE];
    if (!name || !out)
        return FLX_E_USAGE;
    make_plain(name, strlen(name), plain);
    const flx_foreign_view *row = find_row(plain);
    const char *own = row ? NULL : find_own(plain);
    if (!row && !own)
        return FLX_E_NAME;
    *out = row ? *row : (flx_foreign_view){own, "", own, ""};
    return FLX_OK;
}
