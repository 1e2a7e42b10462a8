/* SPDX-License-Identifier: Apache-2.0 */
/* export_table.c: the rows of export_table.def, and the conditions that they name. See export.h. */
#include "ops/opcode.h"
#include "stablehlo/export/export_rules.h"
#include "stablehlo/export/export_writers.h"

/* ---- Which nodes are written as they are ---- */

static bool not_bool(const export_query *q)
{
    return q->in[0]->dtype != FLX_BOOL;
}

static bool not_unsigned(const export_query *q)
{
    return !flxi_in(FLXI_UNSIGNED, q->in[0]->dtype);
}

static bool not_complex(const export_query *q)
{
    return !flxi_is_complex(q->in[0]->dtype);
}

static bool has_predicate(const export_query *q)
{
    return q->in[0]->dtype == FLX_BOOL;
}

static bool has_scalar_predicate(const export_query *q)
{
    return q->in[0]->dtype == FLX_BOOL && q->in[0]->rank == 0;
}

static bool has_scalar_i32(const export_query *q)
{
    return q->in[0]->dtype == FLX_I32 && q->in[0]->rank == 0;
}

static bool checks_bools(const export_query *q)
{
    return q->in[1]->dtype == FLX_BOOL;
}

static bool converts(const export_query *q)
{
    int32_t to = (int32_t)export_int(q->op, q->attrs, "to");
    return q->in[0]->dtype == to || (to != FLX_BOOL && (!flxi_is_complex(q->in[0]->dtype) || flxi_is_complex(to)));
}

static bool shows_bits(const export_query *q)
{
    int32_t to = (int32_t)export_int(q->op, q->attrs, "to");
    return !flxi_in(FLXI_COMPLEX | FLXI_BOOL, to) && !flxi_in(FLXI_COMPLEX | FLXI_BOOL, q->in[0]->dtype);
}

static bool drops_axes(const export_query *q)
{
    return !export_int(q->op, q->attrs, "keep_dims");
}

static bool drops_axes_exactly(const export_query *q)
{
    return drops_axes(q) && !export_is_half(q->in[0]->dtype);
}

static bool has_axes(const export_query *q)
{
    return flxi_attr_ints(q->op, q->attrs, "axes")->n > 0;
}

static bool has_named_add(const export_query *q)
{
    return flxi_attr_is_word(q->op, q->attrs, "combine", "add") || flxi_attr_is_word(q->op, q->attrs, "combine", "mul");
}

static bool folds_exactly(const export_query *q)
{
    return !export_is_half(q->in[0]->dtype) || !has_named_add(q);
}

static bool has_compare(const export_query *q)
{
    return flxi_attr_graph(q->op, q->attrs, "compare") != NULL;
}

static bool is_plain_transform(const export_query *q)
{
    return flxi_is_complex(q->in[0]->dtype) && flxi_attr_is_word(q->op, q->attrs, "norm", "backward");
}

/* RFFT and IRFFT neither pad nor cut: the signal has n numbers, its spectrum n/2 + 1. */
static bool is_whole_transform(const export_query *q)
{
    const flx_type *t = q->in[0];
    int64_t n = export_int(q->op, q->attrs, "n");
    flx_dim whole = flxi_is_complex(t->dtype) ? n / 2 + 1 : n;
    return t->dims[t->rank - 1] == whole && flxi_attr_is_word(q->op, q->attrs, "norm", "backward");
}

/* Operands from `first` on are scalars of one integer dtype. */
static bool has_index_scalars(const export_query *q, uint32_t first)
{
    for (uint32_t i = first; i < q->nin; i++)
        if (q->in[i]->rank != 0 || !flxi_is_int(q->in[i]->dtype) || q->in[i]->dtype != q->in[first]->dtype)
            return false;
    return true;
}

static bool slices_plainly(const export_query *q)
{
    return has_index_scalars(q, 1);
}

static bool updates_plainly(const export_query *q)
{
    return has_index_scalars(q, 2);
}

static bool is_oob(const export_query *q, const char *word)
{
    return flxi_attr_is_word(q->op, q->attrs, "oob", word);
}

static bool gathers_plainly(const export_query *q)
{
    flx_ints sizes = *flxi_attr_ints(q->op, q->attrs, "slice_sizes");
    for (int i = 0; i < q->in[0]->rank; i++)
        if (q->in[0]->dims[i] < sizes.v[i])
            return false;
    return flxi_is_int(q->in[1]->dtype) && !is_oob(q, "zero");
}

/* The window has one element along each axis that an index moves it on. */
static bool scatters_elements(const export_query *q)
{
    flx_ints starts = *flxi_attr_ints(q->op, q->attrs, "start_index_map");
    flx_ints collapsed = *flxi_attr_ints(q->op, q->attrs, "collapsed_axes");
    for (size_t j = 0; j < starts.n; j++) {
        size_t i = 0;
        while (i < collapsed.n && collapsed.v[i] != starts.v[j])
            i++;
        if (i == collapsed.n)
            return false;
    }
    return true;
}

static bool scatters_plainly(const export_query *q)
{
    bool exact = !export_is_half(q->in[0]->dtype) || !flxi_attr_is_word(q->op, q->attrs, "combine", "add");
    bool in_range = is_oob(q, "error") || (is_oob(q, "zero") && scatters_elements(q));
    return exact && in_range && flxi_is_int(q->in[1]->dtype) && flxi_static_extent(q->in[0], 0, q->in[0]->rank) > 0 &&
           flxi_static_extent(q->in[2], 0, q->in[2]->rank) > 0;
}

static bool has_wide_state(const export_query *q)
{
    return q->in[0]->dtype == FLX_U64;
}

static bool loops_plainly(const export_query *q)
{
    const flx_graph *cond = flxi_attr_graph(q->op, q->attrs, "cond");
    const flx_type *t = flxi_type_at(cond, cond->outputs.at[0].val);
    return export_int(q->op, q->attrs, "max_iterations") == FLXI_ABSENT && t->dtype == FLX_BOOL && t->rank == 0;
}

/* ---- Rows ---- */

static bool never(const export_query *q)
{
    (void)q;
    return false;
}

#define EXPORT_LINE(op, called, writer) [OP_##op] = {.name = (called), .write = flxi_export_write_##writer},
#define EXPORT_LINE_IF(op, called, writer, when) \
    [OP_##op] = {.name = (called), .write = flxi_export_write_##writer, .plain = (when)},
#define EXPORT_LINE_ELSE(op, called, writer, when, rule) \
    [OP_##op] = {                                        \
        .name = (called), .write = flxi_export_write_##writer, .plain = (when), .rewrite = flxi_export_as_##rule},
#define EXPORT_RULE(op) [OP_##op] = {.rewrite = flxi_export_as_##op},
#define EXPORT_WRAPPED(op, called, writer)            \
    [OP_##op] = {.name = (called),                    \
                 .write = flxi_export_write_##writer, \
                 .plain = never,                      \
                 .rewrite = flxi_export_as_##op,      \
                 .wraps = true},
static const export_row rows[OP_COUNT] = {
#include "stablehlo/export/export_table.def"
};

const export_row *flxi_export_row(flxi_opcode op)
{
    return &rows[op];
}
