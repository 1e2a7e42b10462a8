/* SPDX-License-Identifier: Apache-2.0 */
/* random_ops.c: the statements of random graphs: a table of rows for regular ops, a function for each family that
   depends on shapes. A function fails (false) when the current values do not suit it. */
#include "random_graph.h"

#include "test.h"

#include <math.h>
#include <string.h>

/* ---- Choosing values ---- */

static int64_t elements(const flx_type *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++)
        n *= t->dims[i];
    return n;
}

/* A value of the dtype with at least `rank` axes, as a rule a late one; -1 when there is none. */
int random_pick(random_maker *m, int32_t dtype, int rank)
{
    for (int tries = 0; tries < 12; tries++) {
        int back = random_below(m, 2) ? random_below(m, m->count) : random_below(m, m->count < 6 ? m->count : 6);
        const random_value *v = &m->v[m->count - 1 - back];
        if (v->type.dtype == dtype && v->type.rank >= rank)
            return m->count - 1 - back;
    }
    return -1;
}

static bool broadcasts(const flx_type *a, const flx_type *b)
{
    for (int i = 1; i <= a->rank && i <= b->rank; i++) {
        flx_dim p = a->dims[a->rank - i];
        flx_dim q = b->dims[b->rank - i];
        if (p != q && p != 1 && q != 1)
            return false;
    }
    return true;
}

/* One that broadcasts with x; x itself where no other is found. */
int random_pick_with(random_maker *m, int x)
{
    for (int tries = 0; tries < 10; tries++) {
        int y = random_pick(m, m->real, 0);
        if (y >= 0 && y != x && broadcasts(&m->v[x].text, &m->v[y].text))
            return y;
    }
    return x;
}

/* One of exactly x's shape. */
int random_pick_like(random_maker *m, int x)
{
    for (int tries = 0; tries < 10; tries++) {
        int y = random_pick(m, m->real, m->v[x].type.rank);
        if (y >= 0 && m->v[y].type.rank == m->v[x].type.rank &&
            memcmp(m->v[y].text.dims, m->v[x].text.dims, (size_t)m->v[x].text.rank * sizeof(flx_dim)) == 0)
            return y;
    }
    return x;
}

int random_any_axis(random_maker *m, int x)
{
    int rank = m->v[x].type.rank;
    return random_below(m, rank) - (random_below(m, 3) == 0 ? rank : 0);
}

static int64_t extent(const random_maker *m, int x, int axis)
{
    const flx_type *t = &m->v[x].type;
    return t->dims[axis < 0 ? axis + t->rank : axis];
}

const char *random_yes_no(random_maker *m)
{
    return random_below(m, 2) ? "true" : "false";
}

/* ---- Rows ---- */

typedef struct {
    const char *before, *after; /* the operands come between */
    double lo, hi;              /* of the first operand (unary) or the second (binary) */
} row;

#define ANY -1e9, 1e9

static const row unary[] = {
    {"exp(", ")", -5, 3},
    {"exp2(", ")", -6, 4},
    {"expm1(", ")", -5, 3},
    {"log(", ")", 0.3, 1e3},
    {"log2(", ")", 0.3, 1e3},
    {"log10(", ")", 0.3, 1e3},
    {"log1p(", ")", -0.6, 1e3},
    {"log(add(square(", "), 0.5))", ANY},
    {"sqrt(", ")", 0.2, 1e3},
    {"sqrt(add(square(", "), 0.3))", ANY},
    {"rsqrt(", ")", 0.3, 1e3},
    {"rsqrt(add(square(", "), 0.7))", ANY},
    {"cbrt(", ")", 0.3, 1e3},
    {"reciprocal(", ")", 0.4, 1e3},
    {"reciprocal(", ")", -1e3, -0.4},
    {"reciprocal(add(softplus(", "), 0.5))", ANY},
    {"square(", ")", ANY},
    {"neg(", ")", ANY},
    {"abs(", ")", ANY},
    {"sign(", ")", ANY},
    {"sin(", ")", ANY},
    {"cos(", ")", ANY},
    {"tan(", ")", -1.1, 1.1},
    {"asin(", ")", -0.8, 0.8},
    {"acos(tanh(", "))", -2, 2},
    {"atan(", ")", ANY},
    {"sinh(", ")", -3, 3},
    {"cosh(", ")", -3, 3},
    {"tanh(", ")", ANY},
    {"asinh(", ")", ANY},
    {"acosh(", ")", 1.3, 1e3},
    {"atanh(", ")", -0.8, 0.8},
    {"sigmoid(", ")", ANY},
    {"silu(", ")", ANY},
    {"gelu(", ")", ANY},
    {"gelu_approx(", ")", ANY},
    {"softplus(", ")", ANY},
    {"selu(", ")", ANY},
    {"hard_swish(", ")", ANY},
    {"mish(", ")", ANY},
    {"elu(", ", alpha=0.7)", ANY},
    {"celu(", ", alpha=1.3)", ANY},
    {"leaky_relu(", ", alpha=0.2)", ANY},
    {"relu(", ")", ANY},
    {"hard_sigmoid(", ")", ANY},
    {"threshold(", ", theta=0.1, value=0.25)", ANY},
    {"erf(", ")", ANY},
    {"erfc(", ")", ANY},
    {"erf_inv(", ")", -0.8, 0.8},
    {"lgamma(", ")", 0.5, 20},
    {"digamma(", ")", 0.6, 20},
    {"polygamma(1.0, ", ")", 0.8, 20},
    {"zeta(2.5, ", ")", 0.8, 20},
    {"bessel_i0e(", ")", ANY},
    {"bessel_i1e(", ")", ANY},
    {"floor(", ")", ANY},
    {"ceil(", ")", ANY},
    {"trunc(", ")", ANY},
    {"round(", ")", ANY},
    {"round_away(", ")", ANY},
    {"cast(round(", "), to=f64)", ANY},
    {"cast(cast(", ", to=i32), to=f64)", ANY},
    {"optimization_barrier(", ")", ANY},
    {"mul(0.5, ", ")", ANY},
    {"add(1, ", ")", ANY},
    {"clamp(-0.5, ", ", 0.8)", ANY},
    {"pow(", ", 3)", ANY},
    {"pow(", ", 2)", ANY},
    {"real(complex(cos(", "), 0.25))", ANY},
    {"reduce_sum(", ")", ANY},
    {"reduce_max(", ")", ANY},
    {"squeeze(unsqueeze(", ", axes=[0]), axes=[0])", ANY},
    {"unsqueeze(", ", axes=[-1])", ANY},
    {"unsqueeze(", ", axes=[0, 2])", ANY},
    {"where(true, ", ", 2)", ANY},
    {"gt(", ", 0)", ANY},
    {"le(", ", 0.3)", ANY},
    {"is_finite(", ")", ANY},
    {"cast(", ", to=i32)", ANY},
};

static const row binary[] = {
    {"add(", ")", ANY},        {"sub(", ")", ANY},        {"mul(", ")", ANY},
    {"mul(", ")", ANY},        {"div(", ")", 0.4, 1e3},   {"div(", ")", -1e3, -0.4},
    {"max(", ")", ANY},        {"min(", ")", ANY},        {"rem(", ")", 0.5, 1e3},
    {"mod(", ")", 0.5, 1e3},   {"atan2(", ")", 0.2, 1e3}, {"pow(1.7, add(", "))", -3, 3},
    {"prelu(", ")", ANY},      {"fma(0.3, ", ")", ANY},   {"clamp(-1, ", ")", 0.1, 1e3},
    {"add_n(", ", 0.1)", ANY}, {"lt(", ")", ANY},         {"ge(", ")", ANY},
};

static bool make_unary(random_maker *m)
{
    int x = random_pick(m, m->real, 0);
    random_line l = {0};
    for (int tries = 0; x >= 0 && tries < 8; tries++) {
        const row *r = &unary[random_below(m, (int)(sizeof unary / sizeof *unary))];
        if (m->v[x].lo < r->lo || m->v[x].hi > r->hi)
            continue;
        random_say(&l, "%sv%d%s", r->before, x, r->after);
        return random_keep(m, l.s, 1);
    }
    return false;
}

static bool make_binary(random_maker *m)
{
    int x = random_pick(m, m->real, 0);
    random_line l = {0};
    for (int tries = 0; x >= 0 && tries < 8; tries++) {
        const row *r = &binary[random_below(m, (int)(sizeof binary / sizeof *binary))];
        int y = random_pick_with(m, x);
        if (m->v[y].lo < r->lo || m->v[y].hi > r->hi)
            continue;
        random_say(&l, "%sv%d, v%d%s", r->before, x, y, r->after);
        return random_keep(m, l.s, 1);
    }
    return false;
}

/* A power with both a base and an exponent that vary. */
static bool make_pow(random_maker *m)
{
    int x = random_pick(m, m->real, 0);
    random_line l = {0};
    if (x < 0)
        return false;
    int y = random_pick_with(m, x);
    random_say(&l, "pow(add(0.5, softplus(v%d)), v%d)", x, y);
    return random_keep(m, l.s, 1);
}

static bool make_where(random_maker *m)
{
    int c = random_pick(m, FLX_BOOL, 0);
    int x = random_pick(m, m->real, 0);
    random_line l = {0};
    if (x < 0)
        return false;
    int y = random_pick_with(m, x);
    if (c >= 0 && broadcasts(&m->v[c].text, &m->v[x].text) && broadcasts(&m->v[c].text, &m->v[y].text))
        random_say(&l, "where(v%d, v%d, v%d)", c, x, y);
    else
        random_say(&l, "where(gt(v%d, v%d), v%d, %s(v%d))", x, y, y, random_below(m, 2) ? "sin" : "neg", x);
    return random_keep(m, l.s, 1);
}

/* ---- Along axes ---- */

static bool make_axis(random_maker *m)
{
    static const char *const plain[] = {"softmax(v%d, axis=%d)", "log_softmax(v%d, axis=%d)"};
    static const char *const running[] = {"cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"};
    int x = random_pick(m, m->real, 1);
    random_line l = {0};
    if (x < 0)
        return false;
    int axis = random_any_axis(m, x);
    if (random_below(m, 2)) {
        random_say(&l, random_below(m, 2) ? plain[0] : plain[1], x, axis);
        return random_keep(m, l.s, 1);
    }
    int k = random_below(m, 5);
    const char *reverse = random_yes_no(m), *exclusive = k < 2 ? random_yes_no(m) : "false";
    random_say(&l, "%s(v%d, axis=%d, exclusive=%s, reverse=%s)", running[k], x, axis, exclusive, reverse);
    return random_keep(m, l.s, 1);
}

static bool make_reduction(random_maker *m)
{
    static const char *const names[] = {"sum", "mean", "max", "min", "prod"};
    int64_t axes[16];
    size_t n = 0;
    int x = random_pick(m, m->real, 1);
    random_line l = {0};
    if (x < 0)
        return false;
    for (int i = 0; i < m->v[x].type.rank; i++)
        if (random_below(m, 2))
            axes[n++] = i;
    if (n == 0)
        axes[n++] = random_any_axis(m, x);
    random_say(&l, "reduce_%s(v%d, axes=", names[random_below(m, 5)], x);
    random_say_ints(&l, axes, n);
    random_say(&l, ", keep_dims=%s)", random_yes_no(m));
    return random_keep(m, l.s, 1);
}

static bool make_order(random_maker *m)
{
    int x = random_pick(m, m->real, 1);
    random_line l = {0};
    if (x < 0)
        return false;
    int axis = random_any_axis(m, x);
    switch (random_below(m, 5)) {
    case 0:
        random_say(&l, "top_k(v%d, k=%d, axis=%d)", x, 1 + random_below(m, (int)extent(m, x, axis)), axis);
        return random_keep(m, l.s, 2);
    case 1:
        random_say(&l, "sort(v%d, axis=%d, descending=%s)", x, axis, random_yes_no(m));
        return random_keep(m, l.s, 1);
    case 2: random_say(&l, "sort(v%d, v%d, axis=%d)", x, random_pick_like(m, x), axis); return random_keep(m, l.s, 2);
    case 3: random_say(&l, "argsort(v%d, axis=%d)", x, axis); return random_keep(m, l.s, 1);
    default:
        random_say(&l, "arg%s(v%d, axis=%d)", random_below(m, 2) ? "max" : "min", x, axis);
        return random_keep(m, l.s, 1);
    }
}

/* ---- Shapes ---- */

static bool is_static(const flx_type *t)
{
    for (int i = 0; i < t->rank; i++)
        if (!flx_dim_is_static(t->dims[i]))
            return false;
    return true;
}

/* Of symbolic shapes only neighbours are known to fit together. */
static void say_symbolic_reshape(random_maker *m, random_line *l, int x)
{
    flx_dim dims[8];
    const flx_type *t = &m->v[x].text;
    int n = 0;
    int at = random_below(m, t->rank);
    bool merge = random_below(m, 3) > 0;
    for (int i = 0; i < t->rank; i++) {
        if (i == at && !merge)
            dims[n++] = 1;
        if (i == at + 1 && merge)
            dims[n - 1] = flx_dim_mul(m->ctx, dims[n - 1], t->dims[i]);
        else
            dims[n++] = t->dims[i];
    }
    random_say(l, "reshape(v%d, shape=", x);
    random_say_dims(l, m, dims, n);
    random_say(l, ")");
}

static void say_reshape(random_maker *m, random_line *l, int x)
{
    if (!is_static(&m->v[x].text)) {
        say_symbolic_reshape(m, l, x);
        return;
    }
    int64_t left = elements(&m->v[x].type);
    int64_t dims[8];
    size_t n = 0;
    for (int64_t d = 2; d <= left && n < 4;) {
        if (left % d == 0 && random_below(m, 3)) {
            dims[n++] = d;
            left /= d;
        } else {
            d++;
        }
    }
    dims[n++] = left;
    if (random_below(m, 4) == 0)
        dims[n++] = 1;
    random_say(l, "reshape(v%d, shape=", x);
    random_say_ints(l, dims, n);
    random_say(l, ")");
}

static void say_transpose(random_maker *m, random_line *l, int x)
{
    int64_t perm[16];
    int rank = m->v[x].type.rank;
    for (int i = 0; i < rank; i++)
        perm[i] = i;
    for (int i = rank; i-- > 1;) {
        int j = random_below(m, i + 1);
        int64_t keep = perm[i];
        perm[i] = perm[j];
        perm[j] = keep;
    }
    random_say(l, "transpose(v%d, perm=", x);
    random_say_ints(l, perm, (size_t)rank);
    random_say(l, ")");
}

static void say_expand(random_maker *m, random_line *l, int x)
{
    flx_dim dims[17];
    const flx_type *t = &m->v[x].text;
    dims[0] = m->extents[random_below(m, 3)];
    for (int i = 0; i < t->rank; i++)
        dims[i + 1] = t->dims[i] == 1 && random_below(m, 2) ? m->extents[random_below(m, 3)] : t->dims[i];
    random_say(l, "expand(v%d, shape=", x);
    random_say_dims(l, m, dims, t->rank + 1);
    random_say(l, ")");
}

static void say_broadcast_in_dim(random_maker *m, random_line *l, int x)
{
    flx_dim dims[17];
    int64_t axes[16];
    const flx_type *t = &m->v[x].text;
    int gap = random_below(m, t->rank + 1);
    for (int i = 0, k = 0; i <= t->rank; i++) {
        if (i == gap) {
            dims[i] = m->extents[random_below(m, 3)];
        } else {
            axes[k] = i;
            dims[i] = t->dims[k++];
        }
    }
    random_say(l, "broadcast_in_dim(v%d, shape=", x);
    random_say_dims(l, m, dims, t->rank + 1);
    random_say(l, ", axes=");
    random_say_ints(l, axes, (size_t)t->rank);
    random_say(l, ")");
}

static void say_slice(random_maker *m, random_line *l, int x)
{
    int64_t start[16];
    int64_t limit[16];
    int64_t stride[16];
    const flx_type *t = &m->v[x].type;
    for (int i = 0; i < t->rank; i++) {
        start[i] = random_below(m, (int)t->dims[i]);
        limit[i] = start[i] + 1 + random_below(m, (int)(t->dims[i] - start[i]));
        stride[i] = 1 + random_below(m, 2);
    }
    random_say(l, "slice(v%d, start=", x);
    random_say_ints(l, start, (size_t)t->rank);
    random_say(l, ", limit=");
    random_say_ints(l, limit, (size_t)t->rank);
    random_say(l, ", stride=");
    random_say_ints(l, stride, (size_t)t->rank);
    random_say(l, ")");
}

static void say_pad(random_maker *m, random_line *l, int x)
{
    int64_t low[16];
    int64_t high[16];
    int64_t interior[16];
    const flx_type *t = &m->v[x].type;
    for (int i = 0; i < t->rank; i++) {
        low[i] = random_below(m, 3) - (t->dims[i] > 2);
        high[i] = random_below(m, 3) - (t->dims[i] > 2);
        interior[i] = random_below(m, 3) == 0;
    }
    random_say(l, "pad(v%d, ", x);
    int value = random_below(m, 3) ? -1 : random_pick(m, m->real, 0);
    if (value >= 0 && m->v[value].type.rank == 0)
        random_say(l, "v%d", value);
    else
        random_say(l, "0.3");
    random_say(l, ", low=");
    random_say_ints(l, low, (size_t)t->rank);
    random_say(l, ", high=");
    random_say_ints(l, high, (size_t)t->rank);
    random_say(l, ", interior=");
    random_say_ints(l, interior, (size_t)t->rank);
    random_say(l, ")");
}

static void say_tile(random_maker *m, random_line *l, int x)
{
    int64_t repeats[16];
    for (int i = 0; i < m->v[x].type.rank; i++)
        repeats[i] = 1 + random_below(m, 2);
    random_say(l, "tile(v%d, repeats=", x);
    random_say_ints(l, repeats, (size_t)m->v[x].type.rank);
    random_say(l, ")");
}

static bool make_shape(random_maker *m)
{
    static void (*const say[])(random_maker *, random_line *, int) = {
        say_reshape,          say_reshape, say_transpose, say_transpose, say_expand,
        say_broadcast_in_dim, say_slice,   say_pad,       say_tile,
    };
    int x = random_pick(m, m->real, random_below(m, 4) != 0);
    random_line l = {0};
    if (x < 0)
        return false;
    say[random_below(m, (int)(sizeof say / sizeof *say))](m, &l, x);
    return random_keep(m, l.s, 1);
}

static bool make_along_axis(random_maker *m)
{
    int x = random_pick(m, m->real, 1);
    random_line l = {0};
    if (x < 0)
        return false;
    int axis = random_any_axis(m, x);
    int n = (int)extent(m, x, axis);
    int start = random_below(m, n);
    switch (random_below(m, 9)) {
    case 0:
        random_say(&l, "narrow(v%d, axis=%d, start=%d, len=%d)", x, axis, start, 1 + random_below(m, n - start));
        break;
    case 1: random_say(&l, "reverse(v%d, axes=[%d])", x, axis); break;
    case 2: random_say(&l, "roll(v%d, shift=%d, axis=%d)", x, random_below(m, 5) - 2, axis); break;
    case 3: random_say(&l, "repeat(v%d, repeats=2, axis=%d)", x, axis); break;
    case 4: random_say(&l, "concat(v%d, v%d, axis=%d)", x, random_pick_like(m, x), axis); break;
    case 5: random_say(&l, "stack(v%d, v%d, axis=%d)", x, random_pick_like(m, x), axis); break;
    case 6: random_say(&l, "unstack(v%d, axis=%d)", x, axis); return random_keep(m, l.s, n);
    case 7:
        if (start == 0)
            return false;
        random_say(&l, "split(v%d, sizes=[%d, %d], axis=%d)", x, start, n - start, axis);
        return random_keep(m, l.s, 2);
    default:
        start = random_below(m, 3) - 1;
        if (m->v[x].type.rank < 2)
            random_say(&l, "diag(v%d, k=%d)", x, start);
        else
            random_say(&l, "%s(v%d, k=%d)", random_below(m, 2) ? "tril" : "triu", x, start);
    }
    return random_keep(m, l.s, 1);
}

/* ---- Indices ---- */

/* An i32 operand: a value of the graph, or a literal of `n` entries (0: a scalar) below `below`. */
static void say_index(random_maker *m, random_line *l, int n, int below)
{
    int i = random_pick(m, FLX_I32, 0);
    if (i >= 0 && m->v[i].type.rank == (n > 0) && random_below(m, 4)) {
        random_say(l, "v%d", i);
        return;
    }
    if (n == 0) {
        random_say(l, "const(i32[], %d)", random_below(m, below));
        return;
    }
    random_say(l, "const(i32[%d], [", n);
    for (int k = 0; k < n; k++)
        random_say(l, "%s%d", k ? ", " : "", random_below(m, below));
    random_say(l, "])");
}

static const char *out_of_range(random_maker *m)
{
    return random_below(m, 2) ? "clamp" : "zero";
}

/* A start for each axis. */
static void say_starts(random_maker *m, random_line *l, int rank)
{
    for (int i = 0; i < rank; i++) {
        random_say(l, ", ");
        say_index(m, l, 0, 3);
    }
}

/* The axes after the first, with a comma between them. */
static void say_axes(random_line *l, int rank)
{
    for (int i = 1; i < rank; i++)
        random_say(l, "%s%d", i > 1 ? ", " : "", i);
}

static void say_gather(random_maker *m, random_line *l, int x, const flx_type *t, int n)
{
    int third = random_below(m, 3), second = random_below(m, 3);
    random_say(l, "gather_nd(v%d, const(i32[3, 1], [[%d], [%d], [%d]]), start_index_map=[0], offset_axes=[", x,
               random_below(m, n), second, third);
    say_axes(l, t->rank);
    random_say(l, "], collapsed_axes=[0], slice_sizes=[1");
    for (int i = 1; i < t->rank; i++)
        random_say(l, ", %d", (int)t->dims[i]);
    random_say(l, "], oob=%s)", out_of_range(m));
}

static void say_scatter(random_maker *m, random_line *l, int x, const flx_type *t)
{
    static const char *const combine[] = {"add", "set", "mul", "max", "min"};
    random_say(l, "scatter_nd(v%d, const(i32[%d, 1], [", x, (int)t->dims[0]);
    for (int i = 0; i < (int)t->dims[0]; i++)
        random_say(l, "%s[%d]", i ? ", " : "", random_below(m, (int)t->dims[0]));
    random_say(l, "]), v%d, start_index_map=[0], offset_axes=[", random_pick_like(m, x));
    say_axes(l, t->rank);
    random_say(l, "], collapsed_axes=[0], combine=%s)", combine[random_below(m, 5)]);
}

static bool make_index(random_maker *m)
{
    int x = random_pick(m, m->real, 1);
    random_line l = {0};
    if (x < 0)
        return false;
    const flx_type *t = &m->v[x].type;
    int axis = random_below(m, t->rank);
    int n = (int)t->dims[axis];
    switch (random_below(m, 7)) {
    case 0:
        random_say(&l, "gather(v%d, ", x);
        say_index(m, &l, random_below(m, 4), n);
        random_say(&l, ", axis=%d, oob=%s)", axis, out_of_range(m));
        break;
    case 1:
        random_say(&l, "scatter_add(v%d, ", x);
        say_index(m, &l, (int)t->dims[0], 3);
        random_say(&l, ", R=3, oob=%s)", out_of_range(m));
        break;
    case 2:
        random_say(&l, "take_along(v%d, argsort(v%d, axis=%d), axis=%d)", x, random_pick_like(m, x), axis, axis);
        break;
    case 3:
        random_say(&l, "dynamic_slice(v%d", x);
        say_starts(m, &l, t->rank);
        random_say(&l, ", sizes=[");
        for (int i = 0; i < t->rank; i++)
            random_say(&l, "%s%d", i ? ", " : "", 1 + random_below(m, (int)t->dims[i]));
        random_say(&l, "])");
        break;
    case 4:
        random_say(&l, "dynamic_update_slice(v%d, narrow(v%d, axis=%d, start=0, len=1)", x, random_pick_like(m, x),
                   axis);
        say_starts(m, &l, t->rank);
        random_say(&l, ")");
        break;
    case 5: say_gather(m, &l, x, t, n); break;
    default: say_scatter(m, &l, x, t);
    }
    return random_keep(m, l.s, 1);
}

/* ---- Products and windows ---- */

static bool make_matmul(random_maker *m)
{
    int x = random_pick(m, m->real, 2);
    random_line l = {0};
    if (x < 0)
        return false;
    for (int tries = 0; tries < 10; tries++) {
        int y = random_pick(m, m->real, 1);
        if (y < 0)
            return false;
        if (m->v[y].type.rank == 2 && extent(m, y, 0) == extent(m, x, -1))
            random_say(&l, "matmul(v%d, v%d)", x, y);
        else if (m->v[y].type.rank == m->v[x].type.rank && extent(m, y, -1) == extent(m, x, -1))
            random_say(&l, "dot_general(v%d, v%d, lc=[-1], rc=[-1])", x, y);
        else
            continue;
        return random_keep(m, l.s, 1);
    }
    random_say(&l, random_below(m, 2) ? "matmul(v%d, transpose(v%d))" : "einsum(v%d, v%d, eq=\"...ij,...kj->...ik\")",
               x, x);
    return random_keep(m, l.s, 1);
}

static bool make_einsum(random_maker *m)
{
    int x = random_pick(m, m->real, 1);
    random_line l = {0};
    if (x < 0)
        return false;
    int y = random_pick_like(m, x);
    int rank = m->v[x].type.rank;
    int choice = random_below(m, 4);
    if (choice == 0)
        random_say(&l, "einsum(v%d, v%d, eq=\"...i,...i->...\")", x, y);
    else if (choice == 1 || rank == 1)
        random_say(&l, "dot_general(v%d, v%d, lc=[0], rc=[0])", x, y);
    else if (rank == 2)
        random_say(&l, "einsum(v%d, v%d, v%d, eq=\"ij,ij,ik->%s\")", x, y, x, random_below(m, 2) ? "kj" : "ki");
    else
        random_say(&l, "dot_general(v%d, v%d, lb=[0], rb=[0], lc=[%d], rc=[%d])", x, y, rank - 1, rank - 1);
    return random_keep(m, l.s, 1);
}

/* Any tensor makes an image of one channel, and any small one a kernel. */
static bool make_conv(random_maker *m)
{
    int x = random_pick(m, m->real, 1);
    int w = random_pick(m, m->real, 0);
    random_line l = {0};
    if (x < 0 || w < 0)
        return false;
    int n = (int)elements(&m->v[x].type);
    int k = (int)elements(&m->v[w].type);
    bool is_plane = m->v[x].type.rank == 2 && m->v[w].type.rank == 2;
    bool is_grouped = !is_plane && k <= n && k % 2 == 0 && n % 2 == 0 && random_below(m, 2);
    int step = 1 + random_below(m, 2);
    if (is_plane)
        random_say(&l,
                   "conv(reshape(v%d, shape=[1, 1, %d, %d]), reshape(v%d, shape=[1, 1, %d, %d]), padding=[1, %d], "
                   "stride=[1, %d])",
                   x, (int)extent(m, x, 0), (int)extent(m, x, 1), w, (int)extent(m, w, 0), (int)extent(m, w, 1),
                   random_below(m, 3), step);
    else if (is_grouped)
        random_say(&l,
                   "conv(reshape(v%d, shape=[1, 2, %d]), reshape(v%d, shape=[2, 1, %d]), padding=[[%d, 1]], groups=2, "
                   "dilation=[%d])",
                   x, n / 2, w, k / 2, random_below(m, 2), step);
    else
        random_say(&l, "%s(reshape(v%d, shape=[1, 1, -1]), reshape(v%d, shape=[1, 1, -1]), stride=[%d])",
                   random_below(m, 3) ? "conv" : "conv_transpose", x, w, step);
    return random_keep(m, l.s, 1);
}

static bool make_window(random_maker *m)
{
    static const char *const kinds[] = {"mean", "sum", "max", "min", "prod"};
    static const char *const folds[] = {"add", "max", "min", "mul"};
    int x = random_pick(m, m->real, 1);
    random_line l = {0};
    if (x < 0)
        return false;
    int n = (int)elements(&m->v[x].type);
    switch (random_below(m, 4)) {
    case 0: {
        int padding = random_below(m, 2), stride = 1 + random_below(m, 2);
        random_say(&l, "pool(reshape(v%d, shape=[1, 1, -1]), kind=%s, kernel_size=[2], stride=[%d], padding=[%d])", x,
                   kinds[random_below(m, 5)], stride, padding);
        break;
    }
    case 1: {
        int f = random_below(m, 4), dilation = 1 + random_below(m, 2);
        random_say(
            &l,
            "reduce_window(reshape(v%d, shape=[-1]), %s, window=[2], combine=%s, strides=[%d], window_dilation=[%d])",
            x,
            f == 0   ? "0"
            : f == 1 ? "-1000"
            : f == 2 ? "1000"
                     : "1",
            folds[f], 1 + random_below(m, 2), dilation);
        break;
    }
    case 2:
        random_say(&l, "resize(v%d, shape=[", x);
        for (int i = 0; i < m->v[x].type.rank; i++)
            random_say(&l, "%s%d", i ? ", " : "", 1 + random_below(m, 4));
        random_say(&l, "], mode=%s)", random_below(m, 2) ? "linear" : "cubic");
        break;
    default:
        random_say(&l, "meshgrid(reshape(v%d, shape=[-1]), reshape(v%d, shape=[-1]))", x, x);
        return n <= 6 && random_keep(m, l.s, 2);
    }
    return random_keep(m, l.s, 1);
}

static bool make_bool(random_maker *m)
{
    int a = random_pick(m, FLX_BOOL, 0);
    int b = random_pick(m, FLX_BOOL, 0);
    int i = random_pick(m, FLX_I32, 0);
    random_line l = {0};
    if (a >= 0 && b >= 0 && broadcasts(&m->v[a].text, &m->v[b].text) && random_below(m, 2))
        random_say(&l, "%s(v%d, v%d)", random_below(m, 2) ? "and" : "xor", a, b);
    else if (a >= 0 && random_below(m, 2))
        random_say(&l, "cast(not(v%d), to=f64)", a);
    else if (i >= 0)
        random_say(&l, random_below(m, 2) ? "cast(v%d, to=f64)" : "add(v%d, 1)", i);
    else
        return false;
    return random_keep(m, l.s, 1);
}

/* ---- All statements ---- */

/* The dtype of a statement: usually f64, else that of some value. */
static int32_t choose_real(random_maker *m)
{
    const random_value *v = &m->v[random_below(m, m->count)];
    int32_t dtype = v->type.dtype;
    bool usable = dtype == FLX_F32 || dtype == FLX_C64 || dtype == FLX_C128;
    return usable && random_below(m, 3) ? dtype : FLX_F64;
}

bool random_statement(random_maker *m)
{
    static const struct {
        int weight, complex_weight; /* for real and for complex operands */
        bool (*make)(random_maker *);
    } kinds[] = {
        {32, 0, make_unary},       {24, 0, make_binary},         {4, 0, make_pow},          {8, 0, make_where},
        {10, 4, make_axis},        {12, 8, make_reduction},      {8, 0, make_order},        {14, 12, make_shape},
        {12, 10, make_along_axis}, {10, 8, make_index},          {10, 8, make_matmul},      {6, 6, make_einsum},
        {4, 4, make_conv},         {6, 2, make_window},          {4, 3, random_if},         {4, 4, random_scan},
        {4, 3, random_while},      {4, 4, random_custom},        {4, 0, random_map},        {4, 0, make_bool},
        {0, 40, random_complex},   {0, 14, random_from_complex}, {7, 0, random_to_complex}, {10, 4, random_precision},
        {4, 3, random_stop},       {12, 6, random_moves},        {4, 0, random_control},
    };
    int total = 0;
    m->real = choose_real(m);
    if (m->prefers_control && random_below(m, 2))
        return random_control(m);
    bool is_complex = m->real == FLX_C64 || m->real == FLX_C128;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        total += is_complex ? kinds[i].complex_weight : kinds[i].weight;
    int at = random_below(m, total);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        at -= is_complex ? kinds[k].complex_weight : kinds[k].weight;
        if (at < 0)
            return kinds[k].make(m);
    }
    return false;
}
