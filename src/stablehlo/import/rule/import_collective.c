/* SPDX-License-Identifier: Apache-2.0 */
/* import_collective.c: operations that communicate with other processes. A program for several replicas has one process
   here: what it gets from the others are its own values. In a manual computation on a mesh they are exchanges. */
#include "stablehlo/import/import_exchange.h"

/* ---- One process ---- */

/* Groups of one: [[0]], or none. */
static bool is_alone(hlo_site *s, const char *name)
{
    const hlo_attr *a = flxi_hlo_attr(s->op, name);
    flx_ints groups = flxi_hlo_ints(s, name);
    bool alone = true;
    for (size_t i = 0; i < groups.n; i++)
        alone = alone && groups.v[i] <= 0; /* −1 fills up shorter groups */
    if (a && (!alone || groups.n > 1))
        flxi_hlo_unsupported(s, "more than one process");
    return !flxi_hlo_failed(s);
}

/* What a single process gets from a collective operation: its own values, in the element types of the results. */
void flxi_hlo_import_async_done(hlo_site *s)
{
    flxi_hlo_import_pass_on(s);
    for (size_t i = 0; i < s->op->num_results && i < s->ny && !flxi_hlo_failed(s); i++) {
        const hlo_type *t = flxi_hlo_result_type(s, i);
        if (t->kind == HLO_TENSOR && flxi_hlo_carrier(t) != flxi_hlo_dtype(s, s->y[i]))
            s->y[i] = flx_cast(s->g, s->y[i], flxi_hlo_carrier(t));
    }
}

/* ---- Exchanges ---- */

/* The reduction that a region of one operation is, besides shardings of its value; NULL: none. */
static const char *reduction_of(const hlo_site *s)
{
    static const char *const words[][2] = {{"stablehlo.add", "sum"},     {"stablehlo.maximum", "max"},
                                           {"stablehlo.minimum", "min"}, {"stablehlo.multiply", "prod"},
                                           {"stablehlo.and", "and"},     {"stablehlo.or", "or"}};
    const hlo_op *op = s->op->num_regions == 1 ? s->op->regions[0].first : NULL;
    const hlo_op *last = op ? op->next : NULL;
    while (last && last->next && strcmp(last->name, "sdy.sharding_constraint") == 0)
        last = last->next;
    for (size_t i = 0; last && !last->next && i < sizeof words / sizeof *words; i++)
        if (strcmp(op->name, words[i][0]) == 0)
            return words[i][1];
    return NULL;
}

/* Groups of replica_groups; without them all devices are one. */
static bool read_groups(hlo_site *s, hlo_groups *out)
{
    const hlo_attr *a = flxi_hlo_attr(s->op, "replica_groups");
    flx_ints table = flxi_hlo_ints(s, "replica_groups");
    if (flxi_hlo_failed(s))
        return false;
    if (table.n == 0)
        return flxi_hlo_groups_along(s, flxi_hlo_mesh(s), "", out);
    return flxi_hlo_groups_of(s, table, a && a->type && a->type->rank == 2 ? a->type->dims[1] : 0, out);
}

static flx_val exchanged(hlo_site *s, const hlo_groups *g, flx_val x)
{
    const char *name = s->op->name + strlen("stablehlo.");
    const char *reduction = reduction_of(s);
    if (strcmp(name, "all_gather") == 0)
        return flxi_hlo_all_gather(s, g, x, (int)flxi_hlo_int(s, "all_gather_dim", 0));
    if (strcmp(name, "all_to_all") == 0)
        return flxi_hlo_all_to_all(s, g, x, (int)flxi_hlo_int(s, "split_dimension", 0),
                                   (int)flxi_hlo_int(s, "concat_dimension", 0));
    if (strcmp(name, "collective_broadcast") == 0)
        return flxi_hlo_from_first(s, g, x);
    if (strcmp(name, "all_reduce") == 0 && reduction)
        return flxi_hlo_all_reduce(s, g, x, reduction);
    if (strcmp(name, "reduce_scatter") == 0 && reduction)
        return flxi_hlo_reduce_scatter(s, g, x, (int)flxi_hlo_int(s, "scatter_dimension", 0), reduction);
    flxi_hlo_unsupported(s, "with this reduction on several devices");
    return x;
}

static void exchange(hlo_site *s)
{
    hlo_groups groups;
    if (!read_groups(s, &groups))
        return;
    if (s->nx != s->ny)
        flxi_hlo_unsupported(s, "with other numbers of operands and results on several devices");
    for (size_t i = 0; i < s->nx && !flxi_hlo_failed(s); i++)
        s->y[i] = exchanged(s, &groups, s->x[i]);
}

/* Pairs of devices are pairs of processes along all axes. */
static void permute(hlo_site *s)
{
    flx_ints pairs = flxi_hlo_ints(s, "source_target_pairs");
    int64_t *ends = flxi_hlo_new(s, int64_t, pairs.n + 1);
    size_t n = pairs.n / 2;
    for (size_t i = 0; ends && i < n; i++) {
        ends[i] = pairs.v[2 * i];
        ends[n + i] = pairs.v[2 * i + 1];
    }
    if (!ends || flxi_hlo_failed(s))
        return;
    const flx_attr attrs[] = {flx_attr_string("axis_name", flxi_hlo_all_axes(s)),
                              flx_attr_ints("sources", (flx_ints){ends, n}),
                              flx_attr_ints("targets", (flx_ints){ends + n, n})};
    for (size_t i = 0; i < s->nx && i < s->ny; i++)
        s->y[i] = flx_op1(s->g, "collective_permute", &s->x[i], 1, attrs, 3);
}

/* ---- Manual computations ---- */

/* Of the axes that a value is cut along those that are manual, and how many devices they have. */
static const char *manual_axes(hlo_site *s, const hlo_mesh *m, const char *axes, int64_t *size)
{
    char *text = flxi_hlo_new(s, char, HLO_AXES_TEXT);
    *size = 1;
    for (const char *a = axes; text && *a;) {
        size_t n = strcspn(a, ",");
        for (int i = 0; i < m->num_axes; i++)
            if (m->manual & 1u << i && strlen(m->axes[i].name) == n && memcmp(m->axes[i].name, a, n) == 0) {
                strcat(strcat(text, text[0] ? "," : ""), m->axes[i].name);
                *size *= m->axes[i].size;
            }
        a += n + (a[n] == ',');
    }
    return text ? text : "";
}

/* Of a value that is a sum over processes the first has all, others zero. */
static flx_val take_summand(hlo_site *s, const hlo_mesh *m, flx_val v, const hlo_cuts *cuts)
{
    int64_t summands;
    hlo_groups groups;
    const char *axes = manual_axes(s, m, cuts->summed, &summands);
    if (summands == 1 || !flxi_hlo_groups_along(s, m, axes, &groups))
        return v;
    flx_val is_first = flx_eq(s->g, flxi_hlo_position_in(s, &groups), flx_scalar(s->g, FLX_I32, 0));
    return flx_where(s->g, is_first, v, flxi_hlo_number(s, v, 0));
}

/* The part of a value that this process has. */
static flx_val take_part(hlo_site *s, const hlo_mesh *m, flx_val v, const hlo_cuts *cuts)
{
    for (int k = 0; k < cuts->rank; k++) {
        int64_t parts, extent = flxi_hlo_typeof(s, v)->dims[k];
        hlo_groups groups;
        const char *axes = manual_axes(s, m, cuts->at[k], &parts);
        if (!flx_dim_is_static(extent) || extent % parts) {
            flxi_hlo_fail(s, FLX_E_SHAPE, NULL, "axis %d of an operand cannot be cut in %lld equal parts", k,
                          (long long)parts);
            return v;
        }
        if (parts > 1 && flxi_hlo_groups_along(s, m, axes, &groups))
            v = flxi_hlo_part_at(s, v, k, parts, flxi_hlo_position_in(s, &groups));
    }
    return take_summand(s, m, v, cuts);
}

/* The whole value from the parts of all processes. */
static flx_val join_parts(hlo_site *s, const hlo_mesh *m, flx_val v, const hlo_cuts *cuts)
{
    for (int k = 0; k < cuts->rank; k++) {
        int64_t parts;
        hlo_groups groups;
        const char *axes = manual_axes(s, m, cuts->at[k], &parts);
        if (parts > 1 && flxi_hlo_groups_along(s, m, axes, &groups))
            v = flxi_hlo_all_gather(s, &groups, v, k);
    }
    int64_t summands;
    hlo_groups groups;
    const char *axes = manual_axes(s, m, cuts->summed, &summands);
    if (summands > 1 && flxi_hlo_groups_along(s, m, axes, &groups))
        v = flxi_hlo_all_reduce(s, &groups, v, "sum");
    return v;
}

static bool read_value_cuts(hlo_site *s, const hlo_mesh *m, const char *name, size_t i, flx_val v, hlo_cuts *out)
{
    const hlo_attr *a = flxi_hlo_attr(s->op, name);
    if (a && a->kind == HLO_A_OPAQUE && flxi_hlo_read_cuts(m, a->text, i, out) &&
        out->rank == flxi_hlo_typeof(s, v)->rank)
        return true;
    flxi_hlo_unsupported(s, "%s has no sharding of value %zu along axes of the mesh", name, i);
    return false;
}

/* The mesh that the computation names, with its manual axes. */
static bool read_manual_mesh(hlo_site *s, hlo_mesh *out)
{
    const hlo_mesh *ours = flxi_hlo_mesh(s);
    const hlo_attr *in = flxi_hlo_attr(s->op, "in_shardings"), *to = flxi_hlo_attr(s->op, "out_shardings");
    const hlo_attr *axes = flxi_hlo_attr(s->op, "manual_axes");
    if (!(in && in->kind == HLO_A_OPAQUE && flxi_hlo_program_mesh(s, in->text, out)) &&
        !(to && to->kind == HLO_A_OPAQUE && flxi_hlo_program_mesh(s, to->text, out)))
        *out = *ours;
    if (out->ids) {
        flxi_hlo_unsupported(s, "a mesh whose devices are in another order");
        return false;
    }
    if (out->ranks != ours->ranks) {
        flxi_hlo_unsupported(s, "a mesh of %lld devices in a program for %lld", (long long)out->ranks,
                             (long long)ours->ranks);
        return false;
    }
    out->manual = 0;
    for (int i = 0; axes && axes->kind == HLO_A_OPAQUE && i < out->num_axes; i++) {
        const char *name = out->names[i] ? out->names[i] : out->axes[i].name;
        size_t n = strcspn(name, "\"");
        for (const char *at = strchr(axes->text, '"'); at; at = strchr(at + 1, '"'))
            if (strncmp(at + 1, name, n) == 0 && at[n + 1] == '"')
                out->manual |= 1u << i;
    }
    return true;
}

static void run_on_mesh(hlo_site *s)
{
    hlo_mesh *ours = flxi_hlo_mesh(s), *m = flxi_hlo_new(s, hlo_mesh, 1);
    hlo_cuts *cuts = flxi_hlo_new(s, hlo_cuts, 1);
    flx_val *x = flxi_hlo_new(s, flx_val, s->nx + 1);
    if (!m || !cuts || !x || !read_manual_mesh(s, m))
        return;
    for (size_t i = 0, k = 0; i < s->op->num_operands; i++) {
        if (flxi_hlo_parts(flxi_hlo_operand_type(s, i)) != 1 || k == s->nx)
            continue; /* a token */
        if (!read_value_cuts(s, m, "in_shardings", i, s->x[k], cuts))
            return;
        x[k] = take_part(s, m, s->x[k], cuts);
        k++;
    }
    if (flxi_hlo_failed(s))
        return;
    bool was_manual = ours->is_manual;
    ours->is_manual = true;
    size_t n = flxi_hlo_inline_region(s, &s->op->regions[0], x, s->nx, s->y, s->ny);
    ours->is_manual = was_manual;
    if (n != s->ny && !flxi_hlo_failed(s))
        flxi_hlo_fail(s, FLX_E_ARITY, NULL, "its region returns %zu values for %zu results", n, s->ny);
    for (size_t i = 0, k = 0; i < s->op->num_results && !flxi_hlo_failed(s); i++) {
        if (flxi_hlo_parts(flxi_hlo_result_type(s, i)) != 1 || k == s->ny)
            continue;
        if (read_value_cuts(s, m, "out_shardings", i, s->y[k], cuts))
            s->y[k] = join_parts(s, m, s->y[k], cuts);
        k++;
    }
}

/* ---- Rules ---- */

void flxi_hlo_import_collective(hlo_site *s)
{
    if (flxi_hlo_mesh(s)->is_manual)
        exchange(s);
    else if (is_alone(s, "replica_groups"))
        flxi_hlo_import_async_done(s);
}

/* Without a pair that ends here the result is zero. */
void flxi_hlo_import_collective_permute(hlo_site *s)
{
    if (flxi_hlo_mesh(s)->is_manual) {
        permute(s);
        return;
    }
    flx_ints pairs = flxi_hlo_ints(s, "source_target_pairs");
    for (size_t i = 0; i < pairs.n; i++)
        if (pairs.v[i] != 0)
            flxi_hlo_unsupported(s, "more than one process");
    if (flxi_hlo_failed(s))
        return;
    flxi_hlo_import_async_done(s);
    for (size_t i = 0; i < s->ny && pairs.n == 0; i++)
        s->y[i] = flxi_hlo_fill(s, flxi_hlo_number(s, s->x[i], 0), flxi_hlo_typeof(s, s->x[i]));
}

void flxi_hlo_import_process_index(hlo_site *s)
{
    bool is_partition = strcmp(s->op->name, "stablehlo.partition_id") == 0;
    if (flxi_hlo_mesh(s)->is_manual && is_partition)
        s->y[0] = flx_cast(s->g, flxi_hlo_rank(s), FLX_U32);
    else
        s->y[0] = flx_scalar(s->g, FLX_U32, 0);
}

/* The body in place: on one device its arguments are the operands, and its results are what it returns. */
void flxi_hlo_import_manual_computation(hlo_site *s)
{
    if (s->op->num_regions != 1) {
        flxi_hlo_fail(s, FLX_E_ARITY, NULL, "it has %zu regions, but takes 1", s->op->num_regions);
        return;
    }
    if (flxi_hlo_mesh(s)->ranks > 1) {
        run_on_mesh(s);
        return;
    }
    size_t n = flxi_hlo_inline_region(s, &s->op->regions[0], s->x, s->nx, s->y, s->ny);
    if (n != s->ny && !flxi_hlo_failed(s))
        flxi_hlo_fail(s, FLX_E_ARITY, NULL, "its region returns %zu values for %zu results", n, s->ny);
}

void flxi_hlo_import_sharding_constraint(hlo_site *s)
{
    s->y[0] = flxi_hlo_sharded(s->g, flxi_hlo_mesh(s), s->x[0], flxi_hlo_attr(s->op, "sharding"));
}
