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

static bool has_any(const flxi_cuts *c, flxi_along axes)
{
    for (int k = 0; k < FLX_MAX_RANK; k++)
        if (c->at[k] & axes)
            return true;
    return false;
}

bool flxi_add_cuts(flxi_cuts *cuts, const flxi_cuts *more, int rank)
{
    bool is_any = false;
    for (int k = 0; k < rank; k++)
        if (cuts->at[k] == WHOLE && more->at[k] != WHOLE && !has_any(cuts, more->at[k])) {
            cuts->at[k] = more->at[k];
            is_any = true;
        }
    return is_any;
}

int64_t flxi_along_size(const flxi_partition *p, flxi_along axes)
{
    int64_t size = 1;
    for (int i = 0; i < p->num_axes; i++)
        size *= axes >> i & 1 ? p->axes[i].size : 1;
    return size;
}

int64_t flxi_along_index(const flxi_partition *p, flxi_along axes, int64_t rank)
{
    int64_t index = 0;
    for (int i = 0; i < p->num_axes; i++)
        if (axes >> i & 1)
            index = index * p->axes[i].size + rank / p->axes[i].stride % p->axes[i].size;
    return index;
}

const char *flxi_along_names(const flxi_partition *p, flxi_along axes, char text[FLXI_ALONG_TEXT])
{
    text[0] = 0;
    for (int i = 0; i < p->num_axes; i++)
        if (axes >> i & 1)
            strcat(strcat(text, text[0] ? "," : ""), p->axes[i].name);
    return text;
}

bool flxi_can_cut(const flxi_partition *p, flx_dim extent, flxi_along axes)
{
    return extent % flxi_along_size(p, axes) == 0;
}

flx_type flxi_part_type(const flxi_partition *p, const flx_type *whole, const flxi_cuts *cuts)
{
    flx_type t = *whole;
    for (int k = 0; k < t.rank; k++)
        if (cuts->at[k] != WHOLE)
            t.dims[k] /= flxi_along_size(p, cuts->at[k]);
    return t;
}

/* ---- Reading ---- */

static flxi_along find_axis(const flxi_partition *p, const char *name, size_t n)
{
    for (int i = 0; i < p->num_axes; i++)
        if (strlen(p->axes[i].name) == n && memcmp(p->axes[i].name, name, n) == 0)
            return (flxi_along)(1 << i);
    return WHOLE;
}

/* One axis of the mesh, `n` letters of a word, for axis k of the value. */
static flx_code read_axis(const flxi_partition *p, const char *word, size_t n, int k, flxi_cuts *out, const char *name,
                          flx_error *err)
{
    flxi_along axis = find_axis(p, word, n);
    if (axis == WHOLE)
        return flxi_fail_hint(err, FLX_E_NAME, "an axis of the mesh, or -", "'%.60s': the mesh has no axis '%.*s'",
                              name, (int)(n < 40 ? n : 40), word);
    if (axis <= out->at[k])
        return flxi_fail_hint(err, FLX_E_USAGE, "for example data+model for the mesh data=2,model=2",
                              "'%.60s': axis %d is cut along axes that are not in the order of the mesh", name, k);
    if (has_any(out, axis))
        return flxi_fail(err, FLX_E_USAGE, "'%.60s': two axes are cut along '%.*s'", name, (int)n, word);
    out->at[k] |= axis;
    return FLX_OK;
}

/* "-", "data" or "data+model". */
static flx_code read_word(const flxi_partition *p, const char *word, size_t n, int k, flxi_cuts *out, const char *name,
                          flx_error *err)
{
    if (n == 1 && *word == '-')
        return FLX_OK;
    for (const char *end = word + n;; word++) {
        size_t length = strcspn(word, "+,");
        FLXI_TRY(read_axis(p, word, length, k, out, name, err));
        word += length;
        if (word >= end)
            return FLX_OK;
    }
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
                             name, k, (long long)type->dims[k], (long long)flxi_along_size(p, out->at[k]));
    return FLX_OK;
}

flx_code flxi_read_part_cuts(const flxi_partition *p, const char *spec, const flx_type *part, flxi_cuts *out,
                             flx_error *err)
{
    flx_type type = *part;
    for (int k = 0; k < type.rank; k++)
        type.dims[k] = 0; /* any number of processes divides it */
    return flxi_read_cuts(p, spec, &type, "the tensor", out, err);
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

static flx_val exchange(flxi_partition *p, const char *op, flx_val v, flxi_along along, const char *const keys[2],
                        const int64_t axes[2])
{
    char text[FLXI_ALONG_TEXT];
    flx_attr attrs[4] = {flx_attr_string("axis_name", flxi_along_names(p, along, text)),
                         flx_attr_int("size", flxi_along_size(p, along))};
    size_t n = 2;
    for (int i = 0; i < 2; i++)
        if (keys[i])
            attrs[n++] = flx_attr_int(keys[i], axes[i]);
    return flx_op1(p->to, op, &v, 1, attrs, n);
}

flx_val flxi_combine_parts(flxi_partition *p, flx_val v, flxi_along axes, const char *reduction)
{
    char text[FLXI_ALONG_TEXT];
    int64_t n = flxi_along_size(p, axes);
    const flx_attr attrs[] = {flx_attr_string("axis_name", flxi_along_names(p, axes, text)),
                              flx_attr_word("op", reduction), flx_attr_int("size", n)};
    count_exchange(p, v, 2 * (n - 1), n);
    return flx_op1(p->to, "all_reduce", &v, 1, attrs, 3);
}

flx_val flxi_scatter_sum(flxi_partition *p, flx_val v, int axis, flxi_along axes)
{
    int64_t n = flxi_along_size(p, axes);
    count_exchange(p, v, n - 1, n);
    return exchange(p, "reduce_scatter", v, axes, (const char *const[]){"axis", NULL}, (const int64_t[]){axis, 0});
}

static flx_val gather(flxi_partition *p, flx_val v, int axis, flxi_along axes)
{
    count_exchange(p, v, flxi_along_size(p, axes) - 1, 1);
    return exchange(p, "all_gather", v, axes, (const char *const[]){"axis", NULL}, (const int64_t[]){axis, 0});
}

static flx_val move_cut(flxi_partition *p, flx_val v, int from, int to, flxi_along axes)
{
    int64_t n = flxi_along_size(p, axes);
    count_exchange(p, v, n - 1, n);
    return exchange(p, "all_to_all", v, axes, (const char *const[]){"split_axis", "concat_axis"},
                    (const int64_t[]){to, from});
}

/* Which of the processes along the axes this one is. */
static flx_val own_index(flxi_partition *p, flxi_along axes)
{
    char text[FLXI_ALONG_TEXT];
    const flx_attr name = flx_attr_string("axis_name", flxi_along_names(p, axes, text));
    return flx_op1(p->to, "axis_index", NULL, 0, &name, 1);
}

flx_val flxi_first_term(flxi_partition *p, flx_val v, flxi_along axes)
{
    const flx_type *t = flx_val_type(p->to, v);
    if (!t)
        return FLX_NONE;
    flx_val is_first = flx_eq(p->to, own_index(p, axes), flx_scalar(p->to, FLX_I32, 0));
    return flx_where(p->to, is_first, v, flx_scalar(p->to, (flx_dtype)t->dtype, 0));
}

/* The own part of a value that all processes along the axes of the mesh have. */
static flx_val take_part(flxi_partition *p, flx_val v, int axis, flxi_along axes)
{
    const flx_type *t = flx_val_type(p->to, v);
    if (!t)
        return FLX_NONE;
    flx_val operands[1 + FLX_MAX_RANK] = {v};
    int64_t sizes[FLX_MAX_RANK];
    flx_val index = own_index(p, axes), zero = flx_scalar(p->to, FLX_I32, 0);
    for (int k = 0; k < t->rank; k++) {
        sizes[k] = t->dims[k];
        operands[1 + k] = zero;
    }
    int rank = t->rank;
    sizes[axis] /= flxi_along_size(p, axes);
    operands[1 + axis] = flx_mul(p->to, index, flx_scalar(p->to, FLX_I32, (double)sizes[axis]));
    const flx_attr attr = flx_attr_ints("sizes", (flx_ints){sizes, (size_t)rank});
    return flx_op1(p->to, "dynamic_slice", operands, 1 + (size_t)rank, &attr, 1);
}

/* What the neighbour sends; at the end of the row of processes it is `outside`. */
static flx_val from_neighbour(flxi_partition *p, flx_val sent, flx_val outside, flxi_along axes, bool goes_up)
{
    char text[FLXI_ALONG_TEXT];
    size_t n = (size_t)flxi_along_size(p, axes) - 1;
    int64_t *low = flxi_new(p->arena, int64_t, n + 1), *high = flxi_new(p->arena, int64_t, n + 1);
    if (!low || !high)
        return FLX_NONE;
    for (size_t i = 0; i < n; i++) {
        low[i] = (int64_t)i;
        high[i] = (int64_t)i + 1;
    }
    const flx_attr attrs[] = {flx_attr_string("axis_name", flxi_along_names(p, axes, text)),
                              flx_attr_ints("sources", (flx_ints){goes_up ? low : high, n}),
                              flx_attr_ints("targets", (flx_ints){goes_up ? high : low, n})};
    count_exchange(p, sent, 1, 1);
    flx_val received = flx_op1(p->to, "collective_permute", &sent, 1, attrs, 3);
    flx_val index = own_index(p, axes);
    flx_val last = flx_scalar(p->to, FLX_I32, goes_up ? 0 : (double)n);
    return flx_where(p->to, flx_eq(p->to, index, last), outside, received);
}

flx_val flxi_shift(flxi_partition *p, flx_val part, flx_val outside, int axis, flxi_along axes, int64_t by)
{
    const flx_type *t = flx_val_type(p->to, part);
    if (!t)
        return FLX_NONE;
    int64_t n = t->dims[axis], count = by > 0 ? by : -by;
    flx_val sent = flx_narrow(p->to, part, axis, by > 0 ? n - count : 0, count);
    flx_val kept = flx_narrow(p->to, part, axis, by > 0 ? 0 : count, n - count);
    flx_val received = from_neighbour(p, sent, outside, axes, by > 0), joined = FLX_NONE;
    const flx_val both[2] = {by > 0 ? received : kept, by > 0 ? kept : received};
    const flx_attr attr = flx_attr_int("axis", axis);
    if (n == count)
        return received;
    flx_op(p->to, "concat", both, 2, &attr, 1, &joined, 1);
    return joined;
}

/* ---- Cutting again ---- */

static int axis_cut_along(const flxi_cuts *c, flxi_along axes)
{
    for (int k = 0; k < FLX_MAX_RANK; k++)
        if (c->at[k] == axes)
            return k;
    return -1;
}

/* Whether `fewer` are the first of the axes `more`: parts along `more` are then parts of those along `fewer`. */
static bool are_first(flxi_along fewer, flxi_along more)
{
    int rest = more & ~fewer;
    return (fewer & ~more) == 0 && (!rest || (rest & -rest) > fewer);
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
        flxi_along m = want->at[k];
        int from = m == WHOLE ? -1 : axis_cut_along(&now, m);
        if (now.at[k] == WHOLE && from >= 0 && want->at[from] != m) {
            v = move_cut(p, v, from, k, m);
            now.at[k] = m;
            now.at[from] = WHOLE;
        }
    }
    for (int k = 0; k < rank; k++)
        if (!are_first(now.at[k], want->at[k])) { /* the last axes of the mesh alone, where the first ones stay */
            flxi_along kept = are_first(want->at[k], now.at[k]) ? want->at[k] : WHOLE;
            v = gather(p, v, k, now.at[k] & (flxi_along)~kept);
            now.at[k] = kept;
        }
    for (int k = 0; k < rank; k++)
        if (now.at[k] != want->at[k])
            v = take_part(p, v, k, want->at[k] & (flxi_along)~now.at[k]);
    if (is_whole && !x->terms)
        x->whole = v;
    return v;
}
