/* SPDX-License-Identifier: Apache-2.0 */
/* recut.c: how values are cut, and the exchanges that cut them in another way. */
#include "passes/partition/partition.h"

flxi_cuts flxi_no_cuts(void)
{
    flxi_cuts c;
    memset(c.at, WHOLE, sizeof c.at);
    return c;
}

bool flxi_is_cut(const flxi_cuts *c)
{
    for (int k = 0; k < FLX_MAX_RANK; k++)
        if (c->at[k] != WHOLE)
            return true;
    return false;
}

static bool has_axis(const flxi_cuts *c, int mesh_axis)
{
    for (int k = 0; k < FLX_MAX_RANK; k++)
        if (c->at[k] == mesh_axis)
            return true;
    return false;
}

bool flxi_add_cuts(flxi_cuts *cuts, const flxi_cuts *more, int rank)
{
    bool is_any = false;
    for (int k = 0; k < rank; k++)
        if (cuts->at[k] == WHOLE && more->at[k] != WHOLE && !has_axis(cuts, more->at[k])) {
            cuts->at[k] = more->at[k];
            is_any = true;
        }
    return is_any;
}

bool flxi_can_cut(const flxi_partition *p, flx_dim extent, int mesh_axis)
{
    return extent % p->axes[mesh_axis].size == 0;
}

flx_type flxi_part_type(const flxi_partition *p, const flx_type *whole, const flxi_cuts *cuts)
{
    flx_type t = *whole;
    for (int k = 0; k < t.rank; k++)
        if (cuts->at[k] != WHOLE)
            t.dims[k] /= p->axes[cuts->at[k]].size;
    return t;
}

/* ---- Reading ---- */

static int find_axis(const flxi_partition *p, const char *name, size_t n)
{
    for (int i = 0; i < p->num_axes; i++)
        if (strlen(p->axes[i].name) == n && memcmp(p->axes[i].name, name, n) == 0)
            return i;
    return WHOLE;
}

static flx_code read_word(const flxi_partition *p, const char *word, size_t n, int k, flxi_cuts *out, const char *name,
                          flx_error *err)
{
    if (n == 1 && *word == '-')
        return FLX_OK;
    int axis = find_axis(p, word, n);
    if (axis == WHOLE)
        return flxi_fail_hint(err, FLX_E_NAME, "an axis of the mesh, or -", "'%.60s': the mesh has no axis '%.*s'",
                              name, (int)(n < 40 ? n : 40), word);
    for (int i = 0; i < k; i++)
        if (out->at[i] == axis)
            return flxi_fail(err, FLX_E_USAGE, "'%.60s': two axes are cut along '%s'", name, p->axes[axis].name);
    out->at[k] = (int8_t)axis;
    return FLX_OK;
}

flx_code flxi_read_cuts(const flxi_partition *p, const char *spec, const flx_type *type, const char *name,
                        flxi_cuts *out, flx_error *err)
{
    int k = 0;
    *out = flxi_no_cuts();
    for (const char *s = spec; *s && k <= type->rank; k++) {
        size_t n = strcspn(s, ",");
        if (k < type->rank)
            FLXI_TRY(read_word(p, s, n, k, out, name, err));
        s += n + (s[n] == ',');
    }
    if (k != type->rank)
        return flxi_fail_hint(err, FLX_E_USAGE, "for example \"data,-\" for a matrix whose rows are cut",
                              "'%.60s' has %d axes, but '%.60s' has %s", name, type->rank, spec,
                              k < type->rank ? "fewer words" : "more words");
    for (k = 0; k < type->rank; k++)
        if (out->at[k] != WHOLE && !flxi_can_cut(p, type->dims[k], out->at[k]))
            return flxi_fail(err, FLX_E_SHAPE, "'%.60s': axis %d of extent %lld cannot be cut in %lld equal parts",
                             name, k, (long long)type->dims[k], (long long)p->axes[out->at[k]].size);
    return FLX_OK;
}

/* ---- Exchanges ---- */

static void count_exchange(flxi_partition *p, flx_val sent, int64_t times_n, int64_t size)
{
    const flx_type *t = flx_val_type(p->to, sent);
    int64_t bytes = t ? (int64_t)flx_dtype_size(t->dtype) : 0;
    for (int k = 0; t && k < t->rank; k++)
        bytes *= t->dims[k];
    p->report.exchanges++;
    p->report.bytes += bytes * times_n / size;
}

static flx_val exchange(flxi_partition *p, const char *op, flx_val v, int mesh_axis, const char *const keys[2],
                        const int64_t axes[2])
{
    flx_attr attrs[4] = {flx_attr_string("axis_name", p->axes[mesh_axis].name),
                         flx_attr_int("size", p->axes[mesh_axis].size)};
    size_t n = 2;
    for (int i = 0; i < 2; i++)
        if (keys[i])
            attrs[n++] = flx_attr_int(keys[i], axes[i]);
    return flx_op1(p->to, op, &v, 1, attrs, n);
}

flx_val flxi_combine_parts(flxi_partition *p, flx_val v, int mesh_axis, const char *reduction)
{
    int64_t n = p->axes[mesh_axis].size;
    const flx_attr attrs[] = {flx_attr_string("axis_name", p->axes[mesh_axis].name), flx_attr_word("op", reduction),
                              flx_attr_int("size", n)};
    count_exchange(p, v, 2 * (n - 1), n);
    return flx_op1(p->to, "all_reduce", &v, 1, attrs, 3);
}

flx_val flxi_scatter_sum(flxi_partition *p, flx_val v, int axis, int mesh_axis)
{
    int64_t n = p->axes[mesh_axis].size;
    count_exchange(p, v, n - 1, n);
    return exchange(p, "reduce_scatter", v, mesh_axis, (const char *const[]){"axis", NULL}, (const int64_t[]){axis, 0});
}

static flx_val gather(flxi_partition *p, flx_val v, int axis, int mesh_axis)
{
    int64_t n = p->axes[mesh_axis].size;
    count_exchange(p, v, n - 1, 1);
    return exchange(p, "all_gather", v, mesh_axis, (const char *const[]){"axis", NULL}, (const int64_t[]){axis, 0});
}

static flx_val move_cut(flxi_partition *p, flx_val v, int from, int to, int mesh_axis)
{
    int64_t n = p->axes[mesh_axis].size;
    count_exchange(p, v, n - 1, n);
    return exchange(p, "all_to_all", v, mesh_axis, (const char *const[]){"split_axis", "concat_axis"},
                    (const int64_t[]){to, from});
}

/* The own part of a value that all processes along the axis of the mesh have. */
static flx_val take_part(flxi_partition *p, flx_val v, int axis, int mesh_axis)
{
    const flx_type *t = flx_val_type(p->to, v);
    if (!t)
        return FLX_NONE;
    flx_val operands[1 + FLX_MAX_RANK] = {v};
    int64_t sizes[FLX_MAX_RANK];
    const flx_attr name = flx_attr_string("axis_name", p->axes[mesh_axis].name);
    flx_val index = flx_op1(p->to, "axis_index", NULL, 0, &name, 1), zero = flx_scalar(p->to, FLX_I32, 0);
    for (int k = 0; k < t->rank; k++) {
        sizes[k] = t->dims[k];
        operands[1 + k] = zero;
    }
    int rank = t->rank;
    sizes[axis] /= p->axes[mesh_axis].size;
    operands[1 + axis] = flx_mul(p->to, index, flx_scalar(p->to, FLX_I32, (double)sizes[axis]));
    const flx_attr attr = flx_attr_ints("sizes", (flx_ints){sizes, (size_t)rank});
    return flx_op1(p->to, "dynamic_slice", operands, 1 + (size_t)rank, &attr, 1);
}

/* What the neighbour sends; at the end of the row of processes it is `outside`. */
static flx_val from_neighbour(flxi_partition *p, flx_val sent, flx_val outside, int mesh_axis, bool goes_up)
{
    const flxi_mesh_axis *a = &p->axes[mesh_axis];
    size_t n = (size_t)a->size - 1;
    int64_t *low = flxi_new(p->arena, int64_t, n + 1), *high = flxi_new(p->arena, int64_t, n + 1);
    if (!low || !high)
        return FLX_NONE;
    for (size_t i = 0; i < n; i++) {
        low[i] = (int64_t)i;
        high[i] = (int64_t)i + 1;
    }
    const flx_attr attrs[] = {flx_attr_string("axis_name", a->name),
                              flx_attr_ints("sources", (flx_ints){goes_up ? low : high, n}),
                              flx_attr_ints("targets", (flx_ints){goes_up ? high : low, n})};
    count_exchange(p, sent, 1, 1);
    flx_val received = flx_op1(p->to, "collective_permute", &sent, 1, attrs, 3);
    flx_val index = flx_op1(p->to, "axis_index", NULL, 0, attrs, 1);
    flx_val last = flx_scalar(p->to, FLX_I32, goes_up ? 0 : (double)n);
    return flx_where(p->to, flx_eq(p->to, index, last), outside, received);
}

flx_val flxi_shift(flxi_partition *p, flx_val part, flx_val outside, int axis, int mesh_axis, int64_t by)
{
    const flx_type *t = flx_val_type(p->to, part);
    if (!t)
        return FLX_NONE;
    int64_t n = t->dims[axis], count = by > 0 ? by : -by;
    flx_val sent = flx_narrow(p->to, part, axis, by > 0 ? n - count : 0, count);
    flx_val kept = flx_narrow(p->to, part, axis, by > 0 ? 0 : count, n - count);
    flx_val received = from_neighbour(p, sent, outside, mesh_axis, by > 0), joined = FLX_NONE;
    const flx_val both[2] = {by > 0 ? received : kept, by > 0 ? kept : received};
    const flx_attr attr = flx_attr_int("axis", axis);
    if (n == count)
        return received;
    flx_op(p->to, "concat", both, 2, &attr, 1, &joined, 1);
    return joined;
}

/* ---- Cutting again ---- */

static int axis_cut_along(const flxi_cuts *c, int mesh_axis)
{
    for (int k = 0; k < FLX_MAX_RANK; k++)
        if (c->at[k] == mesh_axis)
            return k;
    return -1;
}

flx_val flxi_recut(flxi_partition *p, uint32_t value, const flxi_cuts *want)
{
    flxi_placed *x = &p->placed[value];
    int rank = flxi_type_at(p->from, value)->rank;
    flxi_cuts now = x->cuts;
    flx_val v = x->v;
    bool is_whole = !flxi_is_cut(want);
    if (is_whole && x->whole.id)
        return x->whole;
    for (int k = 0; k < rank; k++) { /* cuts that move to an axis that is whole */
        int m = want->at[k], from = m == WHOLE ? -1 : axis_cut_along(&now, m);
        if (now.at[k] == WHOLE && from >= 0 && want->at[from] != m) {
            v = move_cut(p, v, from, k, m);
            now.at[k] = (int8_t)m;
            now.at[from] = WHOLE;
        }
    }
    for (int k = 0; k < rank; k++)
        if (now.at[k] != WHOLE && now.at[k] != want->at[k]) {
            v = gather(p, v, k, now.at[k]);
            now.at[k] = WHOLE;
        }
    for (int k = 0; k < rank; k++)
        if (now.at[k] != want->at[k])
            v = take_part(p, v, k, want->at[k]);
    if (is_whole)
        x->whole = v;
    return v;
}
