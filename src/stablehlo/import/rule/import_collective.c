/* SPDX-License-Identifier: Apache-2.0 */
/* import_collective.c: operations that communicate with other processes. A program for several replicas has one process
   here: what it gets from the others are its own values. In a manual computation on a mesh they are exchanges: groups
   of devices must be those along some axes of the mesh. */
#include "stablehlo/import/import_mesh.h"

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

/* ---- Groups as axes ---- */

static const char *all_axes(hlo_site *s)
{
    const hlo_mesh *m = flxi_hlo_mesh(s);
    char *text = flxi_hlo_new(s, char, HLO_AXES_TEXT);
    for (int i = 0; text && i < m->num_axes; i++)
        strcat(strcat(text, i ? "," : ""), m->axes[i].name);
    return text ? text : "";
}

static flx_val index_along(hlo_site *s, const char *axes, flx_dtype dtype)
{
    const flx_attr name = flx_attr_string("axis_name", axes);
    flx_val index = flx_op1(s->g, "axis_index", NULL, 0, &name, 1);
    return dtype == FLX_I32 ? index : flx_cast(s->g, index, dtype);
}

/* The smallest dtype of indices into a value. */
static flx_dtype index_dtype(const flx_type *t)
{
    flx_dtype least = FLX_I32;
    for (int k = 0; k < t->rank; k++)
        if (!flx_dim_is_static(t->dims[k]) || t->dims[k] > INT32_MAX)
            least = FLX_I64;
    return least;
}

/* Whether the rows of a table, `n` ranks in each, are the groups along these axes, in their order. */
static bool are_groups(const hlo_mesh *m, const flxi_mesh_axes *along, flx_ints table, int64_t n)
{
    if (flxi_mesh_count(along) != n || (int64_t)table.n != m->ranks)
        return false;
    for (int64_t i = 0; i < m->ranks; i++) {
        int64_t first = table.v[i / n * n];
        if (first < 0 || first >= m->ranks || flxi_mesh_index(along, first) != 0 ||
            table.v[i] != flxi_mesh_peer(along, first, i % n))
            return false;
    }
    return true;
}

/* Tries axes after those that `along` has; the number of tries is bounded by the orders of eight axes. */
static bool find_axes(const hlo_mesh *m, flxi_mesh_axes *along, flx_ints table, int64_t n, int *tries)
{
    if (are_groups(m, along, table, n))
        return true;
    for (int i = 0; i < m->num_axes && along->n < m->num_axes; i++) {
        bool is_new = m->axes[i].size > 1;
        for (int k = 0; k < along->n; k++)
            is_new &= along->at[k] != &m->axes[i];
        if (!is_new || n % (flxi_mesh_count(along) * m->axes[i].size) || --*tries < 0)
            continue;
        along->at[along->n++] = &m->axes[i];
        if (find_axes(m, along, table, n, tries))
            return true;
        along->n--;
    }
    return false;
}

/* The axes that replica_groups goes along, and how many devices are in a group; NULL with the error set. */
static const char *axes_of_groups(hlo_site *s, int64_t *size)
{
    const hlo_mesh *m = flxi_hlo_mesh(s);
    const hlo_attr *a = flxi_hlo_attr(s->op, "replica_groups");
    flx_ints table = flxi_hlo_ints(s, "replica_groups");
    flxi_mesh_axes along = {.n = 0};
    int tries = 20000;
    char *text = flxi_hlo_new(s, char, HLO_AXES_TEXT);
    *size = a && a->type && a->type->rank == 2 ? a->type->dims[1] : m->ranks;
    if (!text || flxi_hlo_failed(s))
        return NULL;
    if (*size < 1 || !find_axes(m, &along, table, *size, &tries)) {
        flxi_hlo_unsupported(s, "groups of devices that are not those along axes of the mesh");
        return NULL;
    }
    for (int i = 0; i < along.n; i++)
        strcat(strcat(text, i ? "," : ""), along.at[i]->name);
    return text;
}

/* ---- Exchanges ---- */

/* The reduction of all_reduce that a region of one operation is; NULL: none. */
static const char *reduction_of(const hlo_site *s)
{
    static const char *const words[][2] = {{"stablehlo.add", "sum"},     {"stablehlo.maximum", "max"},
                                           {"stablehlo.minimum", "min"}, {"stablehlo.multiply", "prod"},
                                           {"stablehlo.and", "and"},     {"stablehlo.or", "or"}};
    const hlo_op *op = s->op->num_regions == 1 ? s->op->regions[0].first : NULL;
    for (size_t i = 0; op && op->next && !op->next->next && i < sizeof words / sizeof *words; i++)
        if (strcmp(op->name, words[i][0]) == 0)
            return words[i][1];
    return NULL;
}

/* The attributes of our op for the operation; 0: there is no such op. */
static size_t describe(hlo_site *s, int64_t size, flx_attr attrs[3])
{
    const char *name = s->op->name + strlen("stablehlo.");
    const char *reduction = reduction_of(s);
    bool reduces = strcmp(name, "all_reduce") == 0, scatters = strcmp(name, "reduce_scatter") == 0;
    attrs[0] = flx_attr_int("size", size);
    if (reduces && reduction)
        attrs[1] = flx_attr_word("op", reduction);
    else if (scatters && reduction && strcmp(reduction, "sum") == 0)
        attrs[1] = flx_attr_int("axis", flxi_hlo_int(s, "scatter_dimension", 0));
    else if (strcmp(name, "all_gather") == 0)
        attrs[1] = flx_attr_int("axis", flxi_hlo_int(s, "all_gather_dim", 0));
    else if (strcmp(name, "all_to_all") == 0)
        attrs[1] = flx_attr_int("split_axis", flxi_hlo_int(s, "split_dimension", 0));
    else if (strcmp(name, "collective_broadcast") == 0)
        attrs[0] = flx_attr_int("root", 0);
    else
        return 0;
    attrs[2] = flx_attr_int("concat_axis", flxi_hlo_int(s, "concat_dimension", 0));
    return strcmp(name, "all_to_all") == 0 ? 3 : strcmp(name, "collective_broadcast") == 0 ? 1 : 2;
}

static void exchange(hlo_site *s)
{
    flx_attr attrs[4];
    int64_t size;
    const char *name = s->op->name + strlen("stablehlo."), *axes = axes_of_groups(s, &size);
    size_t n = axes ? describe(s, size, attrs + 1) : 0;
    if (flxi_hlo_failed(s))
        return;
    if (!n || s->nx != s->ny) {
        flxi_hlo_unsupported(s, "with this reduction on several devices");
        return;
    }
    attrs[0] = flx_attr_string("axis_name", axes);
    const char *op = strcmp(name, "collective_broadcast") == 0 ? "broadcast" : name;
    for (size_t i = 0; i < s->nx; i++)
        s->y[i] = flx_op1(s->g, op, &s->x[i], 1, attrs, n + 1);
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
    const flx_attr attrs[] = {flx_attr_string("axis_name", all_axes(s)), flx_attr_ints("sources", (flx_ints){ends, n}),
                              flx_attr_ints("targets", (flx_ints){ends + n, n})};
    for (size_t i = 0; i < s->nx && i < s->ny; i++)
        s->y[i] = flx_op1(s->g, "collective_permute", &s->x[i], 1, attrs, 3);
}

/* ---- Manual computations ---- */

/* Of the axes that a value is cut along those that are manual, and how many devices they have. */
static const char *manual_axes(hlo_site *s, const char *axes, int64_t *size)
{
    const hlo_mesh *m = flxi_hlo_mesh(s);
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

/* The part of a value that this process has. */
static flx_val take_part(hlo_site *s, flx_val v, const hlo_cuts *cuts)
{
    const flx_type *t = flxi_hlo_typeof(s, v);
    flx_dtype dtype = index_dtype(t);
    flx_val operands[1 + FLX_MAX_RANK] = {v};
    int64_t sizes[FLX_MAX_RANK];
    bool is_cut = false;
    for (int k = 0; k < t->rank && k < cuts->rank; k++) {
        int64_t parts;
        const char *axes = manual_axes(s, cuts->at[k], &parts);
        if (!flx_dim_is_static(t->dims[k]) || t->dims[k] % parts) {
            flxi_hlo_fail(s, FLX_E_SHAPE, NULL, "axis %d of an operand cannot be cut in %lld equal parts", k,
                          (long long)parts);
            return v;
        }
        sizes[k] = t->dims[k] / parts;
        operands[1 + k] = flx_scalar(s->g, dtype, 0);
        if (parts > 1)
            operands[1 + k] = flx_mul(s->g, index_along(s, axes, dtype), flx_scalar(s->g, dtype, (double)sizes[k]));
        is_cut |= parts > 1;
    }
    const flx_attr attr = flx_attr_ints("sizes", (flx_ints){sizes, (size_t)t->rank});
    return is_cut ? flx_op1(s->g, "dynamic_slice", operands, 1 + (size_t)t->rank, &attr, 1) : v;
}

/* The whole value from the parts of all processes. */
static flx_val join_parts(hlo_site *s, flx_val v, const hlo_cuts *cuts)
{
    for (int k = 0; k < cuts->rank; k++) {
        int64_t parts;
        const char *axes = manual_axes(s, cuts->at[k], &parts);
        const flx_attr attrs[] = {flx_attr_string("axis_name", axes), flx_attr_int("axis", k),
                                  flx_attr_int("size", parts)};
        if (parts > 1)
            v = flx_op1(s->g, "all_gather", &v, 1, attrs, 3);
    }
    return v;
}

static bool read_value_cuts(hlo_site *s, const char *name, size_t i, flx_val v, hlo_cuts *out)
{
    const hlo_attr *a = flxi_hlo_attr(s->op, name);
    if (a && a->kind == HLO_A_OPAQUE && flxi_hlo_read_cuts(flxi_hlo_mesh(s), a->text, i, out) &&
        out->rank == flxi_hlo_typeof(s, v)->rank)
        return true;
    flxi_hlo_unsupported(s, "%s has no sharding of value %zu along axes of the mesh", name, i);
    return false;
}

static uint32_t read_manual_axes(hlo_site *s)
{
    const hlo_mesh *m = flxi_hlo_mesh(s);
    const hlo_attr *a = flxi_hlo_attr(s->op, "manual_axes");
    uint32_t axes = 0;
    for (int i = 0; a && a->kind == HLO_A_OPAQUE && i < m->num_axes; i++) {
        char quoted[FLXI_MESH_NAME + 3] = "\"";
        strcat(strcat(quoted, m->axes[i].name), "\"");
        axes |= strstr(a->text, quoted) ? 1u << i : 0;
    }
    return axes;
}

static void run_on_mesh(hlo_site *s)
{
    hlo_mesh *m = flxi_hlo_mesh(s);
    hlo_cuts *cuts = flxi_hlo_new(s, hlo_cuts, 1);
    flx_val *x = flxi_hlo_new(s, flx_val, s->nx);
    if (m->is_manual) {
        flxi_hlo_unsupported(s, "a manual computation in another one");
        return;
    }
    m->manual = read_manual_axes(s);
    for (size_t i = 0; cuts && x && i < s->nx; i++) {
        if (!read_value_cuts(s, "in_shardings", i, s->x[i], cuts))
            return;
        x[i] = take_part(s, s->x[i], cuts);
    }
    if (!cuts || !x || flxi_hlo_failed(s))
        return;
    m->is_manual = true;
    size_t n = flxi_hlo_inline_region(s, &s->op->regions[0], x, s->nx, s->y, s->ny);
    m->is_manual = false;
    if (n != s->ny && !flxi_hlo_failed(s))
        flxi_hlo_fail(s, FLX_E_ARITY, NULL, "its region returns %zu values for %zu results", n, s->ny);
    for (size_t i = 0; i < s->ny && !flxi_hlo_failed(s); i++)
        if (read_value_cuts(s, "out_shardings", i, s->y[i], cuts))
            s->y[i] = join_parts(s, s->y[i], cuts);
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
        s->y[0] = index_along(s, all_axes(s), FLX_U32);
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
