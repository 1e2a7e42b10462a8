/* random_ops.c: the statements that random graphs are made of: a table of rows for what is regular, a function for each family
   that must look at shapes. A function gives up (false) when the values at hand do not suit it. */
#include "random_graph.h"

#include "../test.h"

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
static int pick(random_maker *m, int32_t dtype, int rank)
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
static int pick_with(random_maker *m, int x)
{
    for (int tries = 0; tries < 10; tries++) {
        int y = pick(m, FLX_F64, 0);
        if (y >= 0 && y != x && broadcasts(&m->v[x].type, &m->v[y].type))
            return y;
    }
    return x;
}

/* One of exactly x's shape. */
static int pick_like(random_maker *m, int x)
{
    for (int tries = 0; tries < 10; tries++) {
        int y = pick(m, FLX_F64, m->v[x].type.rank);
        if (y >= 0 && m->v[y].type.rank == m->v[x].type.rank &&
            memcmp(m->v[y].type.dims, m->v[x].type.dims, (size_t)m->v[x].type.rank * sizeof(flx_dim)) == 0)
            return y;
    }
    return x;
}

static int any_axis(random_maker *m, int x)
{
    int rank = m->v[x].type.rank;
    return random_below(m, rank) - (random_below(m, 3) == 0 ? rank : 0);
}

static int64_t extent(const random_maker *m, int x, int axis)
{
    const flx_type *t = &m->v[x].type;
    return t->dims[axis < 0 ? axis + t->rank : axis];
}

static const char *yes_no(random_maker *m)
{
    return random_below(m, 2) ? "true" : "false";
}

/* ---- Rows ---- */

typedef struct {
    const char *before, *after; /* the operands stand between */
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
    {"stop_gradient(floor(", "))", ANY},
    {"cast(round(cast(", ", to=f32)), to=f64)", ANY},
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
    {"cast(", ", to=f32)", ANY},
    {"cast(", ", to=i32)", ANY},
};

static const row binary[] = {
    {"add(", ")", ANY},
    {"sub(", ")", ANY},
    {"mul(", ")", ANY},
    {"mul(", ")", ANY},
    {"div(", ")", 0.4, 1e3},
    {"div(", ")", -1e3, -0.4},
    {"max(", ")", ANY},
    {"min(", ")", ANY},
    {"rem(", ")", 0.5, 1e3},
    {"mod(", ")", 0.5, 1e3},
    {"atan2(", ")", 0.2, 1e3},
    {"pow(1.7, add(", "))", -3, 3},
    {"prelu(", ")", ANY},
    {"fma(0.3, ", ")", ANY},
    {"clamp(-1, ", ")", 0.1, 1e3},
    {"add_n(", ", 0.1)", ANY},
    {"lt(", ")", ANY},
    {"ge(", ")", ANY},
};

static bool make_unary(random_maker *m)
{
    int x = pick(m, FLX_F64, 0);
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
    int x = pick(m, FLX_F64, 0);
    random_line l = {0};
    for (int tries = 0; x >= 0 && tries < 8; tries++) {
        const row *r = &binary[random_below(m, (int)(sizeof binary / sizeof *binary))];
        int y = pick_with(m, x);
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
    int x = pick(m, FLX_F64, 0);
    random_line l = {0};
    if (x < 0)
        return false;
    int y = pick_with(m, x);
    random_say(&l, "pow(add(0.5, softplus(v%d)), v%d)", x, y);
    return random_keep(m, l.s, 1);
}

static bool make_where(random_maker *m)
{
    int c = pick(m, FLX_BOOL, 0);
    int x = pick(m, FLX_F64, 0);
    random_line l = {0};
    if (x < 0)
        return false;
    int y = pick_with(m, x);
    if (c >= 0 && broadcasts(&m->v[c].type, &m->v[x].type) && broadcasts(&m->v[c].type, &m->v[y].type))
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
    int x = pick(m, FLX_F64, 1);
    random_line l = {0};
    if (x < 0)
        return false;
    int axis = any_axis(m, x);
    if (random_below(m, 2)) {
        random_say(&l, random_below(m, 2) ? plain[0] : plain[1], x, axis);
        return random_keep(m, l.s, 1);
    }
    int k = random_below(m, 5);
    random_say(&l, "%s(v%d, axis=%d, exclusive=%s, reverse=%s)", running[k], x, axis, k < 2 ? yes_no(m) : "false", yes_no(m));
    return random_keep(m, l.s, 1);
}

static bool make_reduction(random_maker *m)
{
    static const char *const names[] = {"sum", "mean", "max", "min", "prod"};
    int64_t axes[16];
    size_t n = 0;
    int x = pick(m, FLX_F64, 1);
    random_line l = {0};
    if (x < 0)
        return false;
    for (int i = 0; i < m->v[x].type.rank; i++)
        if (random_below(m, 2))
            axes[n++] = i;
    if (n == 0)
        axes[n++] = any_axis(m, x);
    random_say(&l, "reduce_%s(v%d, axes=", names[random_below(m, 5)], x);
    random_say_ints(&l, axes, n);
    random_say(&l, ", keep_dims=%s)", yes_no(m));
    return random_keep(m, l.s, 1);
}

static bool make_order(random_maker *m)
{
    int x = pick(m, FLX_F64, 1);
    random_line l = {0};
    if (x < 0)
        return false;
    int axis = any_axis(m, x);
    switch (random_below(m, 5)) {
    case 0:
        random_say(&l, "top_k(v%d, k=%d, axis=%d)", x, 1 + random_below(m, (int)extent(m, x, axis)), axis);
        return random_keep(m, l.s, 2);
    case 1:
        random_say(&l, "sort(v%d, axis=%d, descending=%s)", x, axis, yes_no(m));
        return random_keep(m, l.s, 1);
    case 2:
        random_say(&l, "sort(v%d, v%d, axis=%d)", x, pick_like(m, x), axis);
        return random_keep(m, l.s, 2);
    case 3:
        random_say(&l, "argsort(v%d, axis=%d)", x, axis);
        return random_keep(m, l.s, 1);
    default:
        random_say(&l, "arg%s(v%d, axis=%d)", random_below(m, 2) ? "max" : "min", x, axis);
        return random_keep(m, l.s, 1);
    }
}

/* ---- Shapes ---- */

static void say_reshape(random_maker *m, random_line *l, int x)
{
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
    int64_t dims[17];
    const flx_type *t = &m->v[x].type;
    dims[0] = m->extents[random_below(m, 3)];
    for (int i = 0; i < t->rank; i++)
        dims[i + 1] = t->dims[i] == 1 && random_below(m, 2) ? m->extents[random_below(m, 3)] : t->dims[i];
    random_say(l, "expand(v%d, shape=", x);
    random_say_ints(l, dims, (size_t)t->rank + 1);
    random_say(l, ")");
}

static void say_broadcast_in_dim(random_maker *m, random_line *l, int x)
{
    int64_t dims[17];
    int64_t axes[16];
    const flx_type *t = &m->v[x].type;
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
    random_say_ints(l, dims, (size_t)t->rank + 1);
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
    int value = random_below(m, 3) ? -1 : pick(m, FLX_F64, 0);
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
        say_reshape, say_reshape, say_transpose, say_transpose, say_expand, say_broadcast_in_dim, say_slice, say_pad, say_tile,
    };
    int x = pick(m, FLX_F64, random_below(m, 4) != 0);
    random_line l = {0};
    if (x < 0)
        return false;
    say[random_below(m, (int)(sizeof say / sizeof *say))](m, &l, x);
    return random_keep(m, l.s, 1);
}

static bool make_along_axis(random_maker *m)
{
    int x = pick(m, FLX_F64, 1);
    random_line l = {0};
    if (x < 0)
        return false;
    int axis = any_axis(m, x);
    int n = (int)extent(m, x, axis);
    int start = random_below(m, n);
    switch (random_below(m, 9)) {
    case 0: random_say(&l, "narrow(v%d, axis=%d, start=%d, len=%d)", x, axis, start, 1 + random_below(m, n - start)); break;
    case 1: random_say(&l, "reverse(v%d, axes=[%d])", x, axis); break;
    case 2: random_say(&l, "roll(v%d, shift=%d, axis=%d)", x, random_below(m, 5) - 2, axis); break;
    case 3: random_say(&l, "repeat(v%d, repeats=2, axis=%d)", x, axis); break;
    case 4: random_say(&l, "concat(v%d, v%d, axis=%d)", x, pick_like(m, x), axis); break;
    case 5: random_say(&l, "stack(v%d, v%d, axis=%d)", x, pick_like(m, x), axis); break;
    case 6:
        random_say(&l, "unstack(v%d, axis=%d)", x, axis);
        return random_keep(m, l.s, n);
    case 7:
        if (start == 0)
            return false;
        random_say(&l, "split(v%d, sizes=[%d, %d], axis=%d)", x, start, n - start, axis);
        return random_keep(m, l.s, 2);
    default:
        if (m->v[x].type.rank < 2)
            random_say(&l, "diag(v%d, k=%d)", x, random_below(m, 3) - 1);
        else
            random_say(&l, "%s(v%d, k=%d)", random_below(m, 2) ? "tril" : "triu", x, random_below(m, 3) - 1);
    }
    return random_keep(m, l.s, 1);
}

/* ---- Indices ---- */

/* An i32 operand: a value of the graph, or a literal of `n` entries (0: a scalar) below `below`. */
static void say_index(random_maker *m, random_line *l, int n, int below)
{
    int i = pick(m, FLX_I32, 0);
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

static bool make_index(random_maker *m)
{
    int x = pick(m, FLX_F64, 1);
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
        random_say(&l, "take_along(v%d, argsort(v%d, axis=%d), axis=%d)", x, pick_like(m, x), axis, axis);
        break;
    case 3:
        random_say(&l, "dynamic_slice(v%d", x);
        for (int i = 0; i < t->rank; i++) {
            random_say(&l, ", ");
            say_index(m, &l, 0, 3);
        }
        random_say(&l, ", sizes=[");
        for (int i = 0; i < t->rank; i++)
            random_say(&l, "%s%d", i ? ", " : "", 1 + random_below(m, (int)t->dims[i]));
        random_say(&l, "])");
        break;
    case 4:
        random_say(&l, "dynamic_update_slice(v%d, narrow(v%d, axis=%d, start=0, len=1)", x, pick_like(m, x), axis);
        for (int i = 0; i < t->rank; i++) {
            random_say(&l, ", ");
            say_index(m, &l, 0, 3);
        }
        random_say(&l, ")");
        break;
    case 5:
        random_say(&l, "gather_nd(v%d, const(i32[3, 1], [[%d], [%d], [%d]]), start_index_map=[0], offset_axes=[", x,
                   random_below(m, n), random_below(m, 3), random_below(m, 3));
        for (int i = 1; i < t->rank; i++)
            random_say(&l, "%s%d", i > 1 ? ", " : "", i);
        random_say(&l, "], collapsed_axes=[0], slice_sizes=[1");
        for (int i = 1; i < t->rank; i++)
            random_say(&l, ", %d", (int)t->dims[i]);
        random_say(&l, "], oob=%s)", out_of_range(m));
        break;
    default: {
        static const char *const combine[] = {"add", "set", "mul", "max", "min"};
        random_say(&l, "scatter_nd(v%d, const(i32[%d, 1], [", x, (int)t->dims[0]);
        for (int i = 0; i < (int)t->dims[0]; i++)
            random_say(&l, "%s[%d]", i ? ", " : "", random_below(m, (int)t->dims[0]));
        random_say(&l, "]), v%d, start_index_map=[0], offset_axes=[", pick_like(m, x));
        for (int i = 1; i < t->rank; i++)
            random_say(&l, "%s%d", i > 1 ? ", " : "", i);
        random_say(&l, "], collapsed_axes=[0], combine=%s)", combine[random_below(m, 5)]);
    }
    }
    return random_keep(m, l.s, 1);
}

/* ---- Products and windows ---- */

static bool make_matmul(random_maker *m)
{
    int x = pick(m, FLX_F64, 2);
    random_line l = {0};
    if (x < 0)
        return false;
    for (int tries = 0; tries < 10; tries++) {
        int y = pick(m, FLX_F64, 1);
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
    random_say(&l, random_below(m, 2) ? "matmul(v%d, transpose(v%d))" : "einsum(v%d, v%d, eq=\"...ij,...kj->...ik\")", x, x);
    return random_keep(m, l.s, 1);
}

static bool make_einsum(random_maker *m)
{
    int x = pick(m, FLX_F64, 1);
    random_line l = {0};
    if (x < 0)
        return false;
    int y = pick_like(m, x);
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
    int x = pick(m, FLX_F64, 1);
    int w = pick(m, FLX_F64, 0);
    random_line l = {0};
    if (x < 0 || w < 0)
        return false;
    int n = (int)elements(&m->v[x].type);
    int k = (int)elements(&m->v[w].type);
    if (m->v[x].type.rank == 2 && m->v[w].type.rank == 2)
        random_say(&l, "conv(reshape(v%d, shape=[1, 1, %d, %d]), reshape(v%d, shape=[1, 1, %d, %d]), padding=[1, %d], stride=[1, %d])",
                   x, (int)extent(m, x, 0), (int)extent(m, x, 1), w, (int)extent(m, w, 0), (int)extent(m, w, 1),
                   random_below(m, 3), 1 + random_below(m, 2));
    else if (k <= n && k % 2 == 0 && n % 2 == 0 && random_below(m, 2))
        random_say(&l, "conv(reshape(v%d, shape=[1, 2, %d]), reshape(v%d, shape=[2, 1, %d]), padding=[[%d, 1]], groups=2, dilation=[%d])",
                   x, n / 2, w, k / 2, random_below(m, 2), 1 + random_below(m, 2));
    else
        random_say(&l, "%s(reshape(v%d, shape=[1, 1, %d]), reshape(v%d, shape=[1, 1, %d]), stride=[%d])",
                   random_below(m, 3) ? "conv" : "conv_transpose", x, n, w, k, 1 + random_below(m, 2));
    return random_keep(m, l.s, 1);
}

static bool make_window(random_maker *m)
{
    static const char *const kinds[] = {"mean", "sum", "max", "min", "prod"};
    static const char *const folds[] = {"add", "max", "min", "mul"};
    int x = pick(m, FLX_F64, 1);
    random_line l = {0};
    if (x < 0)
        return false;
    int n = (int)elements(&m->v[x].type);
    switch (random_below(m, 4)) {
    case 0:
        random_say(&l, "pool(reshape(v%d, shape=[1, 1, %d]), kind=%s, kernel_size=[2], stride=[%d], padding=[%d])", x, n,
                   kinds[random_below(m, 5)], 1 + random_below(m, 2), random_below(m, 2));
        break;
    case 1: {
        int f = random_below(m, 4);
        random_say(&l, "reduce_window(reshape(v%d, shape=[%d]), %s, window=[2], combine=%s, strides=[%d], window_dilation=[%d])",
                   x, n, f == 0 ? "0" : f == 1 ? "-1000" : f == 2 ? "1000" : "1", folds[f], 1 + random_below(m, 2),
                   1 + random_below(m, 2));
        break;
    }
    case 2:
        random_say(&l, "resize(v%d, shape=[", x);
        for (int i = 0; i < m->v[x].type.rank; i++)
            random_say(&l, "%s%d", i ? ", " : "", 1 + random_below(m, 4));
        random_say(&l, "], mode=%s)", random_below(m, 2) ? "linear" : "cubic");
        break;
    default:
        random_say(&l, "%s(reshape(v%d, shape=[%d]), reshape(v%d, shape=[%d]))", "meshgrid", x, n, x, n);
        return n <= 6 && random_keep(m, l.s, 2);
    }
    return random_keep(m, l.s, 1);
}

/* ---- Bodies ---- */

/* An expression over a and b, of one shape, that gives that shape and stays small when it is iterated. */
static void say_body(random_maker *m, random_line *l, int rank, int depth)
{
    static const char *const calls[] = {"tanh(", "sin(", "mul(0.7, ", "sigmoid(", "cos(", "relu(", "atan(", "softplus("};
    static const char *const along[] = {"softmax(", "cumsum(", "sort("};
    if (depth == 0) {
        random_say(l, random_below(m, 2) ? "a" : "b");
        return;
    }
    switch (random_below(m, rank ? 6 : 5)) {
    case 0:
    case 1:
        random_say(l, "%s", calls[random_below(m, 8)]);
        say_body(m, l, rank, depth - 1);
        random_say(l, ")");
        break;
    case 2:
    case 3:
        random_say(l, random_below(m, 2) ? "add(" : "mul(");
        say_body(m, l, rank, depth - 1);
        random_say(l, ", ");
        say_body(m, l, rank, depth - 1);
        random_say(l, ")");
        break;
    case 4:
        random_say(l, "where(gt(a, b), ");
        say_body(m, l, rank, depth - 1);
        random_say(l, ", mul(reduce_mean(a), ");
        say_body(m, l, rank, depth - 1);
        random_say(l, "))");
        break;
    default:
        random_say(l, "%s", along[random_below(m, 3)]);
        say_body(m, l, rank, depth - 1);
        random_say(l, ", axis=%d)", random_below(m, rank));
    }
}

static void say_body_graph(random_maker *m, const char *name, const char *extra_in, const char *extra_out, const flx_type *t,
                           int outputs)
{
    random_line *d = &m->draft;
    random_say(d, "graph %s%d(%sa: ", name, m->bodies, extra_in);
    random_say_type(d, m, t);
    random_say(d, ", b: ");
    random_say_type(d, m, t);
    random_say(d, ") {\n  return %s", extra_out);
    for (int i = 0; i < outputs; i++) {
        random_say(d, "%stanh(", i ? ", " : "");
        say_body(m, d, t->rank, 1 + random_below(m, 3));
        random_say(d, ")");
    }
    random_say(d, "\n}\n");
}

static bool make_if(random_maker *m)
{
    int x = pick(m, FLX_F64, 0);
    random_line l = {0};
    if (x < 0)
        return false;
    int y = pick_like(m, x);
    int c = pick(m, FLX_BOOL, 0);
    int outputs = 1 + random_below(m, 2);
    say_body_graph(m, "yes", "", "", &m->v[x].type, outputs);
    say_body_graph(m, "no", "", "", &m->v[x].type, outputs);
    if (random_below(m, 4) == 0)
        random_say(&l, "case(cast(reduce_sum(v%d), to=i32), v%d, v%d, branches=[@yes%d, @no%d])", y, x, y, m->bodies, m->bodies);
    else if (c >= 0)
        random_say(&l, "if(reduce_any(v%d), v%d, v%d, then=@yes%d, else=@no%d)", c, x, y, m->bodies, m->bodies);
    else
        random_say(&l, "if(gt(reduce_sum(v%d), 0.2), v%d, v%d, then=@yes%d, else=@no%d)", y, x, y, m->bodies, m->bodies);
    m->bodies++;
    return random_keep(m, l.s, outputs);
}

/* The carry is what a row of the sequence is; b is that row. */
static bool make_scan(random_maker *m)
{
    int xs = pick(m, FLX_F64, 1);
    random_line l = {0};
    random_line carry = {0};
    if (xs < 0)
        return false;
    flx_type t = m->v[xs].type;
    t.rank--;
    memmove(t.dims, t.dims + 1, (size_t)t.rank * sizeof(flx_dim));
    say_body_graph(m, "step", "", "", &t, 2);
    random_say(&carry, "gather(v%d, 0)", pick_like(m, xs));
    random_say(&l, "scan(%s, v%d, body=@step%d, reverse=%s", carry.s, xs, m->bodies, yes_no(m));
    if (random_below(m, 3) == 0)
        random_say(&l, ", num_checkpoints=%d", 1 + random_below(m, (int)m->v[xs].type.dims[0]));
    random_say(&l, ")");
    m->bodies++;
    return random_keep(m, l.s, 2);
}

static bool make_while(random_maker *m)
{
    int x = pick(m, FLX_F64, 0);
    random_line l = {0};
    if (x < 0)
        return false;
    const flx_type *t = &m->v[x].type;
    random_say(&m->draft, "graph more%d(i: i32[], a: ", m->bodies);
    random_say_type(&m->draft, m, t);
    random_say(&m->draft, ", b: ");
    random_say_type(&m->draft, m, t);
    random_say(&m->draft, ") {\n  return %s\n}\n",
               random_below(m, 2) ? "lt(i, 3)" : "and(lt(i, 4), lt(reduce_sum(a), 1.5))");
    say_body_graph(m, "turn", "i: i32[], ", "add(i, 1), ", t, 2);
    random_say(&l, "while(const(i32[], %d), v%d, v%d, cond=@more%d, body=@turn%d", random_below(m, 3), x, pick_like(m, x),
               m->bodies, m->bodies);
    if (random_below(m, 2))
        random_say(&l, ", max_iterations=%d", 2 + random_below(m, 4));
    random_say(&l, ")");
    m->bodies++;
    return random_keep(m, l.s, 3);
}

/* A function with rules that are right: a sin(b), by hand in both modes; or one without rules. */
static bool make_custom(random_maker *m)
{
    int x = pick(m, FLX_F64, 0);
    random_line l = {0};
    random_line t = {0};
    if (x < 0)
        return false;
    random_line *d = &m->draft;
    int n = m->bodies++;
    int y = pick_like(m, x);
    random_say_type(&t, m, &m->v[x].type);
    if (random_below(m, 2)) {
        m->bodies--;
        say_body_graph(m, "fn", "", "", &m->v[x].type, 2);
        m->bodies++;
        random_say(&l, "custom_fn(v%d, v%d, fwd_body=@fn%d)", x, y, n);
        return random_keep(m, l.s, 2);
    }
    bool vjp = random_below(m, 2);
    bool jvp = !vjp || random_below(m, 2);
    random_say(d, "graph fn%d(a: %s, b: %s) {\n  return mul(a, sin(b)), cos(b)\n}\n", n, t.s, t.s);
    if (vjp)
        random_say(d, "graph back%d(a: %s, b: %s, y: %s, r: %s, dy: %s) {\n  return mul(dy, sin(b)), mul(dy, mul(a, r))\n}\n", n,
                   t.s, t.s, t.s, t.s, t.s);
    if (jvp)
        random_say(d, "graph push%d(a: %s, b: %s, ta: %s, tb: %s, y: %s) {\n  return add(mul(ta, sin(b)), mul(mul(a, cos(b)), tb))\n}\n",
                   n, t.s, t.s, t.s, t.s, t.s);
    random_say(&l, "custom_fn(v%d, v%d, fwd_body=@fn%d, num_residuals=1", x, y, n);
    if (vjp)
        random_say(&l, ", vjp_body=@back%d", n);
    if (jvp)
        random_say(&l, ", jvp_body=@push%d", n);
    random_say(&l, ")");
    return random_keep(m, l.s, 1);
}

/* Scalar bodies over elements. */
static bool make_map(random_maker *m)
{
    static const flx_type scalar = {.dtype = FLX_F64};
    int x = pick(m, FLX_F64, 1);
    random_line l = {0};
    if (x < 0)
        return false;
    int outputs = 1 + random_below(m, 2);
    if (random_below(m, 2)) {
        say_body_graph(m, "each", "", "", &scalar, outputs);
        random_say(&l, "map(v%d, v%d, body=@each%d)", x, pick_like(m, x), m->bodies++);
        return random_keep(m, l.s, outputs);
    }
    say_body_graph(m, "fold", "", "", &scalar, 1);
    random_say(&l, "reduce(v%d, 0.4, body=@fold%d, axes=[%d])", x, m->bodies++, any_axis(m, x));
    return random_keep(m, l.s, 1);
}

static bool make_bool(random_maker *m)
{
    int a = pick(m, FLX_BOOL, 0);
    int b = pick(m, FLX_BOOL, 0);
    int i = pick(m, FLX_I32, 0);
    random_line l = {0};
    if (a >= 0 && b >= 0 && broadcasts(&m->v[a].type, &m->v[b].type) && random_below(m, 2))
        random_say(&l, "%s(v%d, v%d)", random_below(m, 2) ? "and" : "xor", a, b);
    else if (a >= 0 && random_below(m, 2))
        random_say(&l, "cast(not(v%d), to=f64)", a);
    else if (i >= 0)
        random_say(&l, random_below(m, 2) ? "cast(v%d, to=f64)" : "add(v%d, 1)", i);
    else
        return false;
    return random_keep(m, l.s, 1);
}

/* ---- All of it ---- */

bool random_statement(random_maker *m)
{
    static const struct {
        int weight;
        bool (*make)(random_maker *);
    } kinds[] = {
        {16, make_unary}, {12, make_binary}, {2, make_pow},    {4, make_where},  {5, make_axis},   {6, make_reduction},
        {4, make_order},  {7, make_shape},   {6, make_along_axis}, {5, make_index}, {5, make_matmul}, {3, make_einsum},
        {2, make_conv},   {3, make_window},  {2, make_if},     {2, make_scan},   {2, make_while},  {2, make_custom},
        {2, make_map},    {2, make_bool},
    };
    int total = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        total += kinds[i].weight;
    int at = random_below(m, total);
    size_t k = 0;
    while (at >= kinds[k].weight)
        at -= kinds[k++].weight;
    return kinds[k].make(m);
}
