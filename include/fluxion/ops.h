/* fluxion/ops.h: one function per op. Generated from src/ops/ by script/generate; do not edit.

   Each appends a node to the graph and returns its result (several: in `results`). Operands come first, then the
   attributes in the manual's order (docs/ops.md); more than four attributes are fields of a struct, which starts as
   FLX_<OP>_ATTRS and may be NULL. To take an attribute's default pass FLX_DEFAULT (integers), -1 (flags), NAN (reals),
   NULL (words, graphs), FLX_DTYPE_NONE or {NULL, 0} (lists). Errors stay in the graph: flx_graph_error(). All of this is
   inline over flx_op(), so no symbol of the library depends on the set of ops. */
#ifndef FLUXION_OPS_H
#define FLUXION_OPS_H

#include <fluxion/graph.h>
#include <math.h>

FLX_BEGIN_DECLS

/* A way to combine two values: a word such as "add", or a graph of two scalars. */
typedef struct flx_combine {
    const char *word;
    const flx_graph *graph;
} flx_combine;

/* ---- Making attributes ---- */

static inline flx_attr flx_attr_of(const char *key, int32_t kind)
{
    flx_attr a;
    a.key = key;
    a.kind = kind;
    a.as.ints.v = NULL;
    a.as.ints.n = 0;
    return a;
}

static inline flx_attr flx_attr_int(const char *key, int64_t v)
{
    flx_attr a = flx_attr_of(key, FLX_ATTR_INT);
    a.as.i = v;
    return a;
}

static inline flx_attr flx_attr_real(const char *key, double v)
{
    flx_attr a = flx_attr_of(key, FLX_ATTR_REAL);
    a.as.r = v;
    return a;
}

static inline flx_attr flx_attr_word(const char *key, const char *v)
{
    flx_attr a = flx_attr_of(key, FLX_ATTR_WORD);
    a.as.s = v;
    return a;
}

static inline flx_attr flx_attr_string(const char *key, const char *v)
{
    flx_attr a = flx_attr_of(key, FLX_ATTR_STRING);
    a.as.s = v;
    return a;
}

static inline flx_attr flx_attr_ints(const char *key, flx_ints v)
{
    flx_attr a = flx_attr_of(key, FLX_ATTR_INTS);
    a.as.ints = v;
    return a;
}

static inline flx_attr flx_attr_pairs(const char *key, flx_ints v)
{
    flx_attr a = flx_attr_of(key, FLX_ATTR_PAIRS);
    a.as.ints = v;
    return a;
}

static inline flx_attr flx_attr_reals(const char *key, flx_reals v)
{
    flx_attr a = flx_attr_of(key, FLX_ATTR_REALS);
    a.as.reals = v;
    return a;
}

static inline flx_attr flx_attr_type(const char *key, const flx_type *v)
{
    flx_attr a = flx_attr_of(key, FLX_ATTR_TYPE);
    a.as.type = v;
    return a;
}

static inline flx_attr flx_attr_types(const char *key, flx_types v)
{
    flx_attr a = flx_attr_of(key, FLX_ATTR_TYPES);
    a.as.types = v;
    return a;
}

static inline flx_attr flx_attr_graph(const char *key, const flx_graph *v)
{
    flx_attr a = flx_attr_of(key, FLX_ATTR_GRAPH);
    a.as.graph = v;
    return a;
}

static inline flx_attr flx_attr_graphs(const char *key, flx_graphs v)
{
    flx_attr a = flx_attr_of(key, FLX_ATTR_GRAPHS);
    a.as.graphs = v;
    return a;
}

static inline flx_attr flx_attr_tensor(const char *key, const flx_tensor *v)
{
    flx_attr a = flx_attr_of(key, FLX_ATTR_TENSOR);
    a.as.tensor = v;
    return a;
}

static inline flx_attr flx_attr_dtype(const char *key, flx_dtype v)
{
    return flx_attr_int(key, (int64_t)v);
}

static inline flx_attr flx_attr_combine(const char *key, flx_combine v)
{
    return v.graph ? flx_attr_graph(key, v.graph) : flx_attr_word(key, v.word);
}

static inline flx_val flx_op1(flx_graph *g, const char *op, const flx_val *in, size_t n, const flx_attr *attrs,
                              size_t num_attrs)
{
    flx_val y;
    y.id = 0;
    y.graph = 0;
    flx_op(g, op, in, n, attrs, num_attrs, &y, 1);
    return y;
}

/* ---- leaf ---- */

/** a literal tensor */
static inline flx_val flx_const(flx_graph *g, const flx_type *type, const flx_tensor *data)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    if (!(!type))
        flx_a[flx_n++] = flx_attr_type("type", type);
    if (!(!data))
        flx_a[flx_n++] = flx_attr_tensor("data", data);
    return flx_op1(g, "const", NULL, 0, flx_n ? flx_a : NULL, flx_n);
}

/** one value everywhere */
static inline flx_val flx_full(flx_graph *g, const flx_type *type, const flx_tensor *value)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    if (!(!type))
        flx_a[flx_n++] = flx_attr_type("type", type);
    if (!(!value))
        flx_a[flx_n++] = flx_attr_tensor("value", value);
    return flx_op1(g, "full", NULL, 0, flx_n ? flx_a : NULL, flx_n);
}

/** 0, 1, 2 … along axis, the same along the others; integers wrap */
static inline flx_val flx_iota(flx_graph *g, const flx_type *type, int64_t axis)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    if (!(!type))
        flx_a[flx_n++] = flx_attr_type("type", type);
    if (!(axis == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("axis", axis);
    return flx_op1(g, "iota", NULL, 0, flx_n ? flx_a : NULL, flx_n);
}

/** [n, m] matrix with ones where column - row = k, zeros elsewhere */
static inline flx_val flx_eye(flx_graph *g, flx_dim n, flx_dim m, int64_t k, flx_dtype dtype)
{
    flx_attr flx_a[4];
    size_t flx_n = 0;
    if (!(n == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("n", n);
    if (!(m == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("m", m);
    if (!(k == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("k", k);
    if (!(dtype == FLX_DTYPE_NONE))
        flx_a[flx_n++] = flx_attr_dtype("dtype", dtype);
    return flx_op1(g, "eye", NULL, 0, flx_n ? flx_a : NULL, flx_n);
}

/** the extent of one axis of x, an i64 scalar */
static inline flx_val flx_dim_size(flx_graph *g, flx_val x, int64_t axis)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(axis == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("axis", axis);
    return flx_op1(g, "dim_size", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}


/* ---- identity ---- */

/** x, with derivative zero */
static inline flx_val flx_stop_gradient(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "stop_gradient", flx_x, 1, NULL, 0);
}

/** x in another dtype: floats round to even, float to integer truncates and saturates (NaN: 0), integers wrap */
static inline flx_val flx_cast(flx_graph *g, flx_val x, flx_dtype to)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(to == FLX_DTYPE_NONE))
        flx_a[flx_n++] = flx_attr_dtype("to", to);
    return flx_op1(g, "cast", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** the bytes of x as another dtype; a narrower one appends an axis, low bytes first, a wider one consumes the last */
static inline flx_val flx_bitcast(flx_graph *g, flx_val x, flx_dtype to)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(to == FLX_DTYPE_NONE))
        flx_a[flx_n++] = flx_attr_dtype("to", to);
    return flx_op1(g, "bitcast", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** x rounded to a format of so many exponent and mantissa bits, ties to even; too large becomes inf */
static inline flx_val flx_reduce_precision(flx_graph *g, flx_val x, int64_t exponent, int64_t mantissa)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(exponent == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("exponent", exponent);
    if (!(mantissa == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("mantissa", mantissa);
    return flx_op1(g, "reduce_precision", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** its operands; no pass moves anything across, merges or folds it */
static inline uint32_t flx_optimization_barrier(flx_graph *g, const flx_val *operands, size_t num_operands, flx_val *results, size_t capacity)
{
    return flx_op(g, "optimization_barrier", operands, num_operands, NULL, 0, results, capacity);
}

/** x; hands message and value to the host when it runs */
static inline flx_val flx_print(flx_graph *g, flx_val x, const char *message)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(!message))
        flx_a[flx_n++] = flx_attr_string("message", message);
    return flx_op1(g, "print", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** x; the run fails with the message unless every element of ok is true */
static inline flx_val flx_check(flx_graph *g, flx_val x, flx_val ok, const char *message)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = x;
    flx_x[1] = ok;
    if (!(!message))
        flx_a[flx_n++] = flx_attr_string("message", message);
    return flx_op1(g, "check", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}


/* ---- arith ---- */

/** a + b; integers wrap, bool: or */
static inline flx_val flx_add(flx_graph *g, flx_val a, flx_val b)
{
    flx_val flx_x[2];
    flx_x[0] = a;
    flx_x[1] = b;
    return flx_op1(g, "add", flx_x, 2, NULL, 0);
}

/** a - b; integers wrap */
static inline flx_val flx_sub(flx_graph *g, flx_val a, flx_val b)
{
    flx_val flx_x[2];
    flx_x[0] = a;
    flx_x[1] = b;
    return flx_op1(g, "sub", flx_x, 2, NULL, 0);
}

/** a * b; integers wrap, bool: and */
static inline flx_val flx_mul(flx_graph *g, flx_val a, flx_val b)
{
    flx_val flx_x[2];
    flx_x[0] = a;
    flx_x[1] = b;
    return flx_op1(g, "mul", flx_x, 2, NULL, 0);
}

/** a / b; integers truncate, a/0 has all bits set and MIN/-1 = MIN */
static inline flx_val flx_div(flx_graph *g, flx_val a, flx_val b)
{
    flx_val flx_x[2];
    flx_x[0] = a;
    flx_x[1] = b;
    return flx_op1(g, "div", flx_x, 2, NULL, 0);
}

/** the larger; NaN if either is, bool: or */
static inline flx_val flx_max(flx_graph *g, flx_val a, flx_val b)
{
    flx_val flx_x[2];
    flx_x[0] = a;
    flx_x[1] = b;
    return flx_op1(g, "max", flx_x, 2, NULL, 0);
}

/** the smaller; NaN if either is, bool: and */
static inline flx_val flx_min(flx_graph *g, flx_val a, flx_val b)
{
    flx_val flx_x[2];
    flx_x[0] = a;
    flx_x[1] = b;
    return flx_op1(g, "min", flx_x, 2, NULL, 0);
}

/** a^b, 0^0 = 1; integers wrap, with b < 0 they give 0 unless a is 1 or -1 */
static inline flx_val flx_pow(flx_graph *g, flx_val a, flx_val b)
{
    flx_val flx_x[2];
    flx_x[0] = a;
    flx_x[1] = b;
    return flx_op1(g, "pow", flx_x, 2, NULL, 0);
}

/** a - b*trunc(a/b), sign of a; b = 0: NaN, for integers a */
static inline flx_val flx_rem(flx_graph *g, flx_val a, flx_val b)
{
    flx_val flx_x[2];
    flx_x[0] = a;
    flx_x[1] = b;
    return flx_op1(g, "rem", flx_x, 2, NULL, 0);
}

/** a - b*floor(a/b), sign of b; b = 0: NaN, for integers a */
static inline flx_val flx_mod(flx_graph *g, flx_val a, flx_val b)
{
    flx_val flx_x[2];
    flx_x[0] = a;
    flx_x[1] = b;
    return flx_op1(g, "mod", flx_x, 2, NULL, 0);
}

/** the angle of the point (x, y), in [-pi, pi] */
static inline flx_val flx_atan2(flx_graph *g, flx_val y, flx_val x)
{
    flx_val flx_x[2];
    flx_x[0] = y;
    flx_x[1] = x;
    return flx_op1(g, "atan2", flx_x, 2, NULL, 0);
}

/** the value of the dtype that follows a on the way to b; b if they are equal */
static inline flx_val flx_nextafter(flx_graph *g, flx_val a, flx_val b)
{
    flx_val flx_x[2];
    flx_x[0] = a;
    flx_x[1] = b;
    return flx_op1(g, "nextafter", flx_x, 2, NULL, 0);
}

/** min(max(x, lo), hi); NaN if any operand is */
static inline flx_val flx_clamp(flx_graph *g, flx_val lo, flx_val x, flx_val hi)
{
    flx_val flx_x[3];
    flx_x[0] = lo;
    flx_x[1] = x;
    flx_x[2] = hi;
    return flx_op1(g, "clamp", flx_x, 3, NULL, 0);
}

/** a*b + c, rounded once; integers wrap */
static inline flx_val flx_fma(flx_graph *g, flx_val a, flx_val b, flx_val c)
{
    flx_val flx_x[3];
    flx_x[0] = a;
    flx_x[1] = b;
    flx_x[2] = c;
    return flx_op1(g, "fma", flx_x, 3, NULL, 0);
}

/** the sum of all operands from left to right; f16 and bf16 sum in f32, bool: or */
static inline flx_val flx_add_n(flx_graph *g, const flx_val *operands, size_t num_operands)
{
    return flx_op1(g, "add_n", operands, num_operands, NULL, 0);
}


/* ---- compare ---- */

/** a = b, as bool; false with NaN */
static inline flx_val flx_eq(flx_graph *g, flx_val a, flx_val b)
{
    flx_val flx_x[2];
    flx_x[0] = a;
    flx_x[1] = b;
    return flx_op1(g, "eq", flx_x, 2, NULL, 0);
}

/** a != b, as bool; true with NaN */
static inline flx_val flx_ne(flx_graph *g, flx_val a, flx_val b)
{
    flx_val flx_x[2];
    flx_x[0] = a;
    flx_x[1] = b;
    return flx_op1(g, "ne", flx_x, 2, NULL, 0);
}

/** a < b, as bool; false with NaN */
static inline flx_val flx_lt(flx_graph *g, flx_val a, flx_val b)
{
    flx_val flx_x[2];
    flx_x[0] = a;
    flx_x[1] = b;
    return flx_op1(g, "lt", flx_x, 2, NULL, 0);
}

/** a <= b, as bool; false with NaN */
static inline flx_val flx_le(flx_graph *g, flx_val a, flx_val b)
{
    flx_val flx_x[2];
    flx_x[0] = a;
    flx_x[1] = b;
    return flx_op1(g, "le", flx_x, 2, NULL, 0);
}

/** a > b, as bool; false with NaN */
static inline flx_val flx_gt(flx_graph *g, flx_val a, flx_val b)
{
    flx_val flx_x[2];
    flx_x[0] = a;
    flx_x[1] = b;
    return flx_op1(g, "gt", flx_x, 2, NULL, 0);
}

/** a >= b, as bool; false with NaN */
static inline flx_val flx_ge(flx_graph *g, flx_val a, flx_val b)
{
    flx_val flx_x[2];
    flx_x[0] = a;
    flx_x[1] = b;
    return flx_op1(g, "ge", flx_x, 2, NULL, 0);
}

/** neither infinite nor NaN, as bool; complex: both parts */
static inline flx_val flx_is_finite(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "is_finite", flx_x, 1, NULL, 0);
}

/** NaN, as bool; complex: either part */
static inline flx_val flx_is_nan(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "is_nan", flx_x, 1, NULL, 0);
}

/** infinite of either sign, as bool; complex: either part */
static inline flx_val flx_is_inf(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "is_inf", flx_x, 1, NULL, 0);
}

/** both */
static inline flx_val flx_and(flx_graph *g, flx_val a, flx_val b)
{
    flx_val flx_x[2];
    flx_x[0] = a;
    flx_x[1] = b;
    return flx_op1(g, "and", flx_x, 2, NULL, 0);
}

/** either or both */
static inline flx_val flx_or(flx_graph *g, flx_val a, flx_val b)
{
    flx_val flx_x[2];
    flx_x[0] = a;
    flx_x[1] = b;
    return flx_op1(g, "or", flx_x, 2, NULL, 0);
}

/** exactly one */
static inline flx_val flx_xor(flx_graph *g, flx_val a, flx_val b)
{
    flx_val flx_x[2];
    flx_x[0] = a;
    flx_x[1] = b;
    return flx_op1(g, "xor", flx_x, 2, NULL, 0);
}

/** the opposite */
static inline flx_val flx_not(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "not", flx_x, 1, NULL, 0);
}

/** bits set in both */
static inline flx_val flx_bit_and(flx_graph *g, flx_val a, flx_val b)
{
    flx_val flx_x[2];
    flx_x[0] = a;
    flx_x[1] = b;
    return flx_op1(g, "bit_and", flx_x, 2, NULL, 0);
}

/** bits set in either or both */
static inline flx_val flx_bit_or(flx_graph *g, flx_val a, flx_val b)
{
    flx_val flx_x[2];
    flx_x[0] = a;
    flx_x[1] = b;
    return flx_op1(g, "bit_or", flx_x, 2, NULL, 0);
}

/** bits set in exactly one */
static inline flx_val flx_bit_xor(flx_graph *g, flx_val a, flx_val b)
{
    flx_val flx_x[2];
    flx_x[0] = a;
    flx_x[1] = b;
    return flx_op1(g, "bit_xor", flx_x, 2, NULL, 0);
}

/** all bits inverted */
static inline flx_val flx_bit_not(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "bit_not", flx_x, 1, NULL, 0);
}

/** bits of a moved up by b; 0 unless 0 <= b < width */
static inline flx_val flx_shl(flx_graph *g, flx_val a, flx_val b)
{
    flx_val flx_x[2];
    flx_x[0] = a;
    flx_x[1] = b;
    return flx_op1(g, "shl", flx_x, 2, NULL, 0);
}

/** bits of a moved down by b, filled with its top bit; only that unless 0 <= b < width */
static inline flx_val flx_shr_arith(flx_graph *g, flx_val a, flx_val b)
{
    flx_val flx_x[2];
    flx_x[0] = a;
    flx_x[1] = b;
    return flx_op1(g, "shr_arith", flx_x, 2, NULL, 0);
}

/** bits of a moved down by b, filled with zeros; 0 unless 0 <= b < width */
static inline flx_val flx_shr_logical(flx_graph *g, flx_val a, flx_val b)
{
    flx_val flx_x[2];
    flx_x[0] = a;
    flx_x[1] = b;
    return flx_op1(g, "shr_logical", flx_x, 2, NULL, 0);
}

/** number of bits that are set */
static inline flx_val flx_popcount(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "popcount", flx_x, 1, NULL, 0);
}

/** number of zero bits above the highest set one; width for 0 */
static inline flx_val flx_clz(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "clz", flx_x, 1, NULL, 0);
}

/** a where c is not 0 (NaN is not), b elsewhere */
static inline flx_val flx_where(flx_graph *g, flx_val c, flx_val a, flx_val b)
{
    flx_val flx_x[3];
    flx_x[0] = c;
    flx_x[1] = a;
    flx_x[2] = b;
    return flx_op1(g, "where", flx_x, 3, NULL, 0);
}


/* ---- unary ---- */

/** e^x */
static inline flx_val flx_exp(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "exp", flx_x, 1, NULL, 0);
}

/** 2^x */
static inline flx_val flx_exp2(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "exp2", flx_x, 1, NULL, 0);
}

/** e^x - 1, accurate near 0 */
static inline flx_val flx_expm1(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "expm1", flx_x, 1, NULL, 0);
}

/** natural logarithm; x < 0 is NaN; complex: principal branch, cut along the negative real axis */
static inline flx_val flx_log(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "log", flx_x, 1, NULL, 0);
}

/** logarithm to base 2 */
static inline flx_val flx_log2(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "log2", flx_x, 1, NULL, 0);
}

/** logarithm to base 10 */
static inline flx_val flx_log10(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "log10", flx_x, 1, NULL, 0);
}

/** log(1 + x), accurate near 0; complex: principal branch, cut along the real axis below -1 */
static inline flx_val flx_log1p(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "log1p", flx_x, 1, NULL, 0);
}

/** square root; x < 0 is NaN; complex: principal branch, real part >= 0 */
static inline flx_val flx_sqrt(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "sqrt", flx_x, 1, NULL, 0);
}

/** 1 / sqrt(x) */
static inline flx_val flx_rsqrt(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "rsqrt", flx_x, 1, NULL, 0);
}

/** cube root, negative for x < 0 */
static inline flx_val flx_cbrt(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "cbrt", flx_x, 1, NULL, 0);
}

/** 1 / x */
static inline flx_val flx_reciprocal(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "reciprocal", flx_x, 1, NULL, 0);
}

/** x * x; integers wrap */
static inline flx_val flx_square(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "square", flx_x, 1, NULL, 0);
}

/** -x; integers wrap */
static inline flx_val flx_neg(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "neg", flx_x, 1, NULL, 0);
}

/** |x|; the result of a complex operand is real; the lowest integer stays itself */
static inline flx_val flx_abs(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "abs", flx_x, 1, NULL, 0);
}

/** -1, 0 or 1; zeros and NaN stay themselves; complex: x / |x|, 0 at 0 */
static inline flx_val flx_sign(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "sign", flx_x, 1, NULL, 0);
}

/** sine */
static inline flx_val flx_sin(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "sin", flx_x, 1, NULL, 0);
}

/** cosine */
static inline flx_val flx_cos(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "cos", flx_x, 1, NULL, 0);
}

/** tangent */
static inline flx_val flx_tan(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "tan", flx_x, 1, NULL, 0);
}

/** inverse sine; |x| > 1 is NaN; complex: principal branch, cuts along the real axis outside [-1, 1] */
static inline flx_val flx_asin(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "asin", flx_x, 1, NULL, 0);
}

/** inverse cosine; |x| > 1 is NaN; complex: principal branch, cuts along the real axis outside [-1, 1] */
static inline flx_val flx_acos(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "acos", flx_x, 1, NULL, 0);
}

/** inverse tangent; complex: principal branch, cuts along the imaginary axis outside [-i, i] */
static inline flx_val flx_atan(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "atan", flx_x, 1, NULL, 0);
}

/** hyperbolic sine */
static inline flx_val flx_sinh(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "sinh", flx_x, 1, NULL, 0);
}

/** hyperbolic cosine */
static inline flx_val flx_cosh(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "cosh", flx_x, 1, NULL, 0);
}

/** hyperbolic tangent */
static inline flx_val flx_tanh(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "tanh", flx_x, 1, NULL, 0);
}

/** inverse hyperbolic sine; complex: principal branch, cuts along the imaginary axis outside [-i, i] */
static inline flx_val flx_asinh(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "asinh", flx_x, 1, NULL, 0);
}

/** inverse hyperbolic cosine; x < 1 is NaN; complex: principal branch, cut along the real axis below 1 */
static inline flx_val flx_acosh(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "acosh", flx_x, 1, NULL, 0);
}

/** inverse hyperbolic tangent; |x| > 1 is NaN; complex: principal branch, cuts along the real axis outside [-1, 1] */
static inline flx_val flx_atanh(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "atanh", flx_x, 1, NULL, 0);
}

/** largest integer <= x */
static inline flx_val flx_floor(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "floor", flx_x, 1, NULL, 0);
}

/** smallest integer >= x */
static inline flx_val flx_ceil(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "ceil", flx_x, 1, NULL, 0);
}

/** x without its fraction */
static inline flx_val flx_trunc(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "trunc", flx_x, 1, NULL, 0);
}

/** nearest integer, ties to even; the derivative is 0, or with ste=identity 1 (straight-through) */
static inline flx_val flx_round(flx_graph *g, flx_val x, const char *ste)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(!ste))
        flx_a[flx_n++] = flx_attr_word("ste", ste);
    return flx_op1(g, "round", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** nearest integer, ties away from zero */
static inline flx_val flx_round_away(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "round_away", flx_x, 1, NULL, 0);
}


/* ---- activation ---- */

/** x > 0 ? x : 0; NaN stays NaN */
static inline flx_val flx_relu(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "relu", flx_x, 1, NULL, 0);
}

/** 1 / (1 + exp(-x)) */
static inline flx_val flx_sigmoid(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "sigmoid", flx_x, 1, NULL, 0);
}

/** x * sigmoid(x) */
static inline flx_val flx_silu(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "silu", flx_x, 1, NULL, 0);
}

/** x/2 * (1 + erf(x / sqrt(2))) */
static inline flx_val flx_gelu(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "gelu", flx_x, 1, NULL, 0);
}

/** x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))) */
static inline flx_val flx_gelu_approx(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "gelu_approx", flx_x, 1, NULL, 0);
}

/** log(1 + exp(x)), cannot overflow */
static inline flx_val flx_softplus(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "softplus", flx_x, 1, NULL, 0);
}

/** 1.0507009873554805 * elu(x, alpha=1.6732632423543772) */
static inline flx_val flx_selu(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "selu", flx_x, 1, NULL, 0);
}

/** x * clamp(x/6 + 1/2, 0, 1) */
static inline flx_val flx_hard_swish(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "hard_swish", flx_x, 1, NULL, 0);
}

/** x * tanh(softplus(x)) */
static inline flx_val flx_mish(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "mish", flx_x, 1, NULL, 0);
}

/** x > 0 ? x : alpha * (exp(x) - 1) */
static inline flx_val flx_elu(flx_graph *g, flx_val x, double alpha)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(alpha != alpha))
        flx_a[flx_n++] = flx_attr_real("alpha", alpha);
    return flx_op1(g, "elu", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** x > 0 ? x : alpha * (exp(x / alpha) - 1) */
static inline flx_val flx_celu(flx_graph *g, flx_val x, double alpha)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(alpha != alpha))
        flx_a[flx_n++] = flx_attr_real("alpha", alpha);
    return flx_op1(g, "celu", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** x > 0 ? x : alpha * x */
static inline flx_val flx_leaky_relu(flx_graph *g, flx_val x, double alpha)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(alpha != alpha))
        flx_a[flx_n++] = flx_attr_real("alpha", alpha);
    return flx_op1(g, "leaky_relu", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** clamp(alpha * x + beta, 0, 1) */
static inline flx_val flx_hard_sigmoid(flx_graph *g, flx_val x, double alpha, double beta)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(alpha != alpha))
        flx_a[flx_n++] = flx_attr_real("alpha", alpha);
    if (!(beta != beta))
        flx_a[flx_n++] = flx_attr_real("beta", beta);
    return flx_op1(g, "hard_sigmoid", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** x > theta ? x : value */
static inline flx_val flx_threshold(flx_graph *g, flx_val x, double theta, double value)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(theta != theta))
        flx_a[flx_n++] = flx_attr_real("theta", theta);
    if (!(value != value))
        flx_a[flx_n++] = flx_attr_real("value", value);
    return flx_op1(g, "threshold", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** x > 0 ? x : slope * x */
static inline flx_val flx_prelu(flx_graph *g, flx_val x, flx_val slope)
{
    flx_val flx_x[2];
    flx_x[0] = x;
    flx_x[1] = slope;
    return flx_op1(g, "prelu", flx_x, 2, NULL, 0);
}


/* ---- special ---- */

/** error function: 2/sqrt(pi) * integral of exp(-t^2) from 0 to x */
static inline flx_val flx_erf(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "erf", flx_x, 1, NULL, 0);
}

/** 1 - erf(x), accurate where erf(x) is close to 1 */
static inline flx_val flx_erfc(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "erfc", flx_x, 1, NULL, 0);
}

/** the y with erf(y) = x; infinite at -1 and 1, NaN outside */
static inline flx_val flx_erf_inv(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "erf_inv", flx_x, 1, NULL, 0);
}

/** log |gamma(x)|; infinite at 0, -1, -2 ... */
static inline flx_val flx_lgamma(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "lgamma", flx_x, 1, NULL, 0);
}

/** derivative of log gamma(x); NaN at -1, -2 ..., infinite at 0 with the sign opposite to that of the zero */
static inline flx_val flx_digamma(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "digamma", flx_x, 1, NULL, 0);
}

/** n-th derivative of digamma(x); NaN unless n is one of 0, 1, 2 ...; for n > 0 infinite at x = 0, -1, -2 ... */
static inline flx_val flx_polygamma(flx_graph *g, flx_val n, flx_val x)
{
    flx_val flx_x[2];
    flx_x[0] = n;
    flx_x[1] = x;
    return flx_op1(g, "polygamma", flx_x, 2, NULL, 0);
}

/** Hurwitz zeta: sum of (q + k)^-x over k >= 0; infinite at x = 1 and at q = 0, -1, -2 ..., NaN for x < 1 */
static inline flx_val flx_zeta(flx_graph *g, flx_val x, flx_val q)
{
    flx_val flx_x[2];
    flx_x[0] = x;
    flx_x[1] = q;
    return flx_op1(g, "zeta", flx_x, 2, NULL, 0);
}

/** exp(-|x|) I0(x), modified Bessel function of order 0 */
static inline flx_val flx_bessel_i0e(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "bessel_i0e", flx_x, 1, NULL, 0);
}

/** exp(-|x|) I1(x), modified Bessel function of order 1 */
static inline flx_val flx_bessel_i1e(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "bessel_i1e", flx_x, 1, NULL, 0);
}


/* ---- complex ---- */

/** re + i*im; f32 gives c64, f64 gives c128 */
static inline flx_val flx_complex(flx_graph *g, flx_val re, flx_val im)
{
    flx_val flx_x[2];
    flx_x[0] = re;
    flx_x[1] = im;
    return flx_op1(g, "complex", flx_x, 2, NULL, 0);
}

/** the real part; a real number is its own */
static inline flx_val flx_real(flx_graph *g, flx_val z)
{
    flx_val flx_x[1];
    flx_x[0] = z;
    return flx_op1(g, "real", flx_x, 1, NULL, 0);
}

/** the imaginary part; 0 for a real number */
static inline flx_val flx_imag(flx_graph *g, flx_val z)
{
    flx_val flx_x[1];
    flx_x[0] = z;
    return flx_op1(g, "imag", flx_x, 1, NULL, 0);
}

/** atan2(im, re), in [-pi, pi] */
static inline flx_val flx_angle(flx_graph *g, flx_val z)
{
    flx_val flx_x[1];
    flx_x[0] = z;
    return flx_op1(g, "angle", flx_x, 1, NULL, 0);
}

/** re - i*im; a real number is its own */
static inline flx_val flx_conjugate(flx_graph *g, flx_val z)
{
    flx_val flx_x[1];
    flx_x[0] = z;
    return flx_op1(g, "conjugate", flx_x, 1, NULL, 0);
}

/** re^2 + im^2, real */
static inline flx_val flx_complex_norm_sq(flx_graph *g, flx_val z)
{
    flx_val flx_x[1];
    flx_x[0] = z;
    return flx_op1(g, "complex_norm_sq", flx_x, 1, NULL, 0);
}


/* ---- reduce ---- */

/** sum over axes, 0 of nothing; bool: or */
static inline flx_val flx_reduce_sum(flx_graph *g, flx_val x, flx_ints axes, int keep_dims)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(!axes.v))
        flx_a[flx_n++] = flx_attr_ints("axes", axes);
    if (!(keep_dims < 0))
        flx_a[flx_n++] = flx_attr_int("keep_dims", keep_dims);
    return flx_op1(g, "reduce_sum", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** sum over axes / count, NaN of nothing */
static inline flx_val flx_reduce_mean(flx_graph *g, flx_val x, flx_ints axes, int keep_dims)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(!axes.v))
        flx_a[flx_n++] = flx_attr_ints("axes", axes);
    if (!(keep_dims < 0))
        flx_a[flx_n++] = flx_attr_int("keep_dims", keep_dims);
    return flx_op1(g, "reduce_mean", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** largest over axes, NaN if any is; -inf or the type's minimum of nothing; bool: or */
static inline flx_val flx_reduce_max(flx_graph *g, flx_val x, flx_ints axes, int keep_dims)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(!axes.v))
        flx_a[flx_n++] = flx_attr_ints("axes", axes);
    if (!(keep_dims < 0))
        flx_a[flx_n++] = flx_attr_int("keep_dims", keep_dims);
    return flx_op1(g, "reduce_max", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** smallest over axes, NaN if any is; +inf or the type's maximum of nothing; bool: and */
static inline flx_val flx_reduce_min(flx_graph *g, flx_val x, flx_ints axes, int keep_dims)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(!axes.v))
        flx_a[flx_n++] = flx_attr_ints("axes", axes);
    if (!(keep_dims < 0))
        flx_a[flx_n++] = flx_attr_int("keep_dims", keep_dims);
    return flx_op1(g, "reduce_min", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** product over axes, 1 of nothing; bool: and */
static inline flx_val flx_reduce_prod(flx_graph *g, flx_val x, flx_ints axes, int keep_dims)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(!axes.v))
        flx_a[flx_n++] = flx_attr_ints("axes", axes);
    if (!(keep_dims < 0))
        flx_a[flx_n++] = flx_attr_int("keep_dims", keep_dims);
    return flx_op1(g, "reduce_prod", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** true if any element over axes is */
static inline flx_val flx_reduce_any(flx_graph *g, flx_val x, flx_ints axes, int keep_dims)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(!axes.v))
        flx_a[flx_n++] = flx_attr_ints("axes", axes);
    if (!(keep_dims < 0))
        flx_a[flx_n++] = flx_attr_int("keep_dims", keep_dims);
    return flx_op1(g, "reduce_any", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** true if all elements over axes are */
static inline flx_val flx_reduce_all(flx_graph *g, flx_val x, flx_ints axes, int keep_dims)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(!axes.v))
        flx_a[flx_n++] = flx_attr_ints("axes", axes);
    if (!(keep_dims < 0))
        flx_a[flx_n++] = flx_attr_int("keep_dims", keep_dims);
    return flx_op1(g, "reduce_all", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** position of the largest along axis; ties: the lowest; the first NaN wins */
static inline flx_val flx_argmax(flx_graph *g, flx_val x, int64_t axis, int keep_dims, flx_dtype dtype)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(axis == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("axis", axis);
    if (!(keep_dims < 0))
        flx_a[flx_n++] = flx_attr_int("keep_dims", keep_dims);
    if (!(dtype == FLX_DTYPE_NONE))
        flx_a[flx_n++] = flx_attr_dtype("dtype", dtype);
    return flx_op1(g, "argmax", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** position of the smallest along axis; ties: the lowest; the first NaN wins */
static inline flx_val flx_argmin(flx_graph *g, flx_val x, int64_t axis, int keep_dims, flx_dtype dtype)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(axis == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("axis", axis);
    if (!(keep_dims < 0))
        flx_a[flx_n++] = flx_attr_int("keep_dims", keep_dims);
    if (!(dtype == FLX_DTYPE_NONE))
        flx_a[flx_n++] = flx_attr_dtype("dtype", dtype);
    return flx_op1(g, "argmin", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** x1, ..., init1, ...: accumulators = body(accumulators, elements), folded in row-major order over axes from init */
static inline uint32_t flx_reduce(flx_graph *g, const flx_val *operands, size_t num_operands, const flx_graph *body, flx_ints axes, flx_val *results, size_t capacity)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    if (!(!body))
        flx_a[flx_n++] = flx_attr_graph("body", body);
    if (!(!axes.v))
        flx_a[flx_n++] = flx_attr_ints("axes", axes);
    return flx_op(g, "reduce", operands, num_operands, flx_n ? flx_a : NULL, flx_n, results, capacity);
}

/** body applied to the elements of equally shaped operands */
static inline uint32_t flx_map(flx_graph *g, const flx_val *operands, size_t num_operands, const flx_graph *body, flx_val *results, size_t capacity)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    if (!(!body))
        flx_a[flx_n++] = flx_attr_graph("body", body);
    return flx_op(g, "map", operands, num_operands, flx_n ? flx_a : NULL, flx_n, results, capacity);
}


/* ---- axis ---- */

/** exp(x - max) / sum exp(x - max) along axis */
static inline flx_val flx_softmax(flx_graph *g, flx_val x, int64_t axis)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(axis == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("axis", axis);
    return flx_op1(g, "softmax", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** x - max - log(sum exp(x - max)) along axis */
static inline flx_val flx_log_softmax(flx_graph *g, flx_val x, int64_t axis)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(axis == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("axis", axis);
    return flx_op1(g, "log_softmax", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** running sum along axis; exclusive starts from 0; bool: or */
static inline flx_val flx_cumsum(flx_graph *g, flx_val x, int64_t axis, int exclusive, int reverse)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(axis == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("axis", axis);
    if (!(exclusive < 0))
        flx_a[flx_n++] = flx_attr_int("exclusive", exclusive);
    if (!(reverse < 0))
        flx_a[flx_n++] = flx_attr_int("reverse", reverse);
    return flx_op1(g, "cumsum", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** running product along axis; exclusive starts from 1; bool: and */
static inline flx_val flx_cumprod(flx_graph *g, flx_val x, int64_t axis, int exclusive, int reverse)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(axis == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("axis", axis);
    if (!(exclusive < 0))
        flx_a[flx_n++] = flx_attr_int("exclusive", exclusive);
    if (!(reverse < 0))
        flx_a[flx_n++] = flx_attr_int("reverse", reverse);
    return flx_op1(g, "cumprod", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** largest so far along axis, NaN from the first NaN on; exclusive starts from -inf or the type's minimum */
static inline flx_val flx_cummax(flx_graph *g, flx_val x, int64_t axis, int exclusive, int reverse)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(axis == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("axis", axis);
    if (!(exclusive < 0))
        flx_a[flx_n++] = flx_attr_int("exclusive", exclusive);
    if (!(reverse < 0))
        flx_a[flx_n++] = flx_attr_int("reverse", reverse);
    return flx_op1(g, "cummax", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** smallest so far along axis, NaN from the first NaN on; exclusive starts from +inf or the type's maximum */
static inline flx_val flx_cummin(flx_graph *g, flx_val x, int64_t axis, int exclusive, int reverse)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(axis == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("axis", axis);
    if (!(exclusive < 0))
        flx_a[flx_n++] = flx_attr_int("exclusive", exclusive);
    if (!(reverse < 0))
        flx_a[flx_n++] = flx_attr_int("reverse", reverse);
    return flx_op1(g, "cummin", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** log of the running sum of exp(x) along axis; exclusive starts from -inf */
static inline flx_val flx_cumlogsumexp(flx_graph *g, flx_val x, int64_t axis, int exclusive, int reverse)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(axis == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("axis", axis);
    if (!(exclusive < 0))
        flx_a[flx_n++] = flx_attr_int("exclusive", exclusive);
    if (!(reverse < 0))
        flx_a[flx_n++] = flx_attr_int("reverse", reverse);
    return flx_op1(g, "cumlogsumexp", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}


/* ---- sort ---- */

/** positions of the k largest along the last axis, largest first */
static inline flx_val flx_topk(flx_graph *g, flx_val x, flx_dim k, flx_dtype dtype)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(k == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("k", k);
    if (!(dtype == FLX_DTYPE_NONE))
        flx_a[flx_n++] = flx_attr_dtype("dtype", dtype);
    return flx_op1(g, "topk", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** the k largest along axis and their positions, largest first */
static inline void flx_top_k(flx_graph *g, flx_val x, flx_dim k, int64_t axis, flx_dtype dtype, flx_val results[2])
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(k == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("k", k);
    if (!(axis == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("axis", axis);
    if (!(dtype == FLX_DTYPE_NONE))
        flx_a[flx_n++] = flx_attr_dtype("dtype", dtype);
    flx_op(g, "top_k", flx_x, 1, flx_n ? flx_a : NULL, flx_n, results, 2);
}

typedef struct flx_sort_attrs {
    int64_t axis; /* -1 */
    int64_t num_keys; /* 1 */
    int stable; /* true */
    int descending; /* false */
    const flx_graph *compare; /* none */
} flx_sort_attrs;
#define FLX_SORT_ATTRS {FLX_DEFAULT, FLX_DEFAULT, -1, -1, NULL}

/** operands reordered alike along axis, by the first num_keys of them; compare(a1, b1, ...) says whether a goes first */
static inline uint32_t flx_sort(flx_graph *g, const flx_val *operands, size_t num_operands, const flx_sort_attrs *attrs, flx_val *results, size_t capacity)
{
    flx_attr flx_a[5];
    size_t flx_n = 0;
    if (attrs) {
        if (!(attrs->axis == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("axis", attrs->axis);
        if (!(attrs->num_keys == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("num_keys", attrs->num_keys);
        if (!(attrs->stable < 0))
            flx_a[flx_n++] = flx_attr_int("stable", attrs->stable);
        if (!(attrs->descending < 0))
            flx_a[flx_n++] = flx_attr_int("descending", attrs->descending);
        if (!(!attrs->compare))
            flx_a[flx_n++] = flx_attr_graph("compare", attrs->compare);
    }
    return flx_op(g, "sort", operands, num_operands, flx_n ? flx_a : NULL, flx_n, results, capacity);
}

/** the permutation that sorts along axis */
static inline flx_val flx_argsort(flx_graph *g, flx_val x, int64_t axis, int stable, int descending, flx_dtype dtype)
{
    flx_attr flx_a[4];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(axis == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("axis", axis);
    if (!(stable < 0))
        flx_a[flx_n++] = flx_attr_int("stable", stable);
    if (!(descending < 0))
        flx_a[flx_n++] = flx_attr_int("descending", descending);
    if (!(dtype == FLX_DTYPE_NONE))
        flx_a[flx_n++] = flx_attr_dtype("dtype", dtype);
    return flx_op1(g, "argsort", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}


/* ---- shape ---- */

/** x's elements in row-major order with another shape; one entry may be -1, which is inferred */
static inline flx_val flx_reshape(flx_graph *g, flx_val x, flx_ints shape)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(!shape.v))
        flx_a[flx_n++] = flx_attr_ints("shape", shape);
    return flx_op1(g, "reshape", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** axis i of y is axis perm[i] of x */
static inline flx_val flx_transpose(flx_graph *g, flx_val x, flx_ints perm)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(!perm.v))
        flx_a[flx_n++] = flx_attr_ints("perm", perm);
    return flx_op1(g, "transpose", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** x broadcast to shape: right-aligned, axes of extent 1 stretch; -1 keeps an extent */
static inline flx_val flx_expand(flx_graph *g, flx_val x, flx_ints shape)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(!shape.v))
        flx_a[flx_n++] = flx_attr_ints("shape", shape);
    return flx_op1(g, "expand", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** axis i of x becomes axis axes[i] of shape, stretched from extent 1; the others repeat x */
static inline flx_val flx_broadcast_in_dim(flx_graph *g, flx_val x, flx_ints shape, flx_ints axes)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(!shape.v))
        flx_a[flx_n++] = flx_attr_ints("shape", shape);
    if (!(!axes.v))
        flx_a[flx_n++] = flx_attr_ints("axes", axes);
    return flx_op1(g, "broadcast_in_dim", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** x without the given axes, which must have extent 1 */
static inline flx_val flx_squeeze(flx_graph *g, flx_val x, flx_ints axes)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(!axes.v))
        flx_a[flx_n++] = flx_attr_ints("axes", axes);
    return flx_op1(g, "squeeze", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** x with axes of extent 1 inserted, which count on the result */
static inline flx_val flx_unsqueeze(flx_graph *g, flx_val x, flx_ints axes)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(!axes.v))
        flx_a[flx_n++] = flx_attr_ints("axes", axes);
    return flx_op1(g, "unsqueeze", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** repeats[k] copies of x side by side along axis k */
static inline flx_val flx_tile(flx_graph *g, flx_val x, flx_ints repeats)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(!repeats.v))
        flx_a[flx_n++] = flx_attr_ints("repeats", repeats);
    return flx_op1(g, "tile", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** each element repeats times in a row along axis */
static inline flx_val flx_repeat(flx_graph *g, flx_val x, flx_dim repeats, int64_t axis)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(repeats == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("repeats", repeats);
    if (!(axis == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("axis", axis);
    return flx_op1(g, "repeat", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** y[(i + shift) mod n] = x[i] along axis */
static inline flx_val flx_roll(flx_graph *g, flx_val x, int64_t shift, int64_t axis)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(shift == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("shift", shift);
    if (!(axis == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("axis", axis);
    return flx_op1(g, "roll", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** result k is vector k spread over the grid of all; xy swaps the first two axes */
static inline uint32_t flx_meshgrid(flx_graph *g, const flx_val *operands, size_t num_operands, const char *indexing, flx_val *results, size_t capacity)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    if (!(!indexing))
        flx_a[flx_n++] = flx_attr_word("indexing", indexing);
    return flx_op(g, "meshgrid", operands, num_operands, flx_n ? flx_a : NULL, flx_n, results, capacity);
}


/* ---- movement ---- */

/** positions start … start + len - 1 along axis */
static inline flx_val flx_narrow(flx_graph *g, flx_val x, int64_t axis, flx_dim start, flx_dim len)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(axis == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("axis", axis);
    if (!(start == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("start", start);
    if (!(len == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("len", len);
    return flx_op1(g, "narrow", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** y[i] = x[start + i*stride] per axis, up to but not including limit */
static inline flx_val flx_slice(flx_graph *g, flx_val x, flx_ints start, flx_ints limit, flx_ints stride)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(!start.v))
        flx_a[flx_n++] = flx_attr_ints("start", start);
    if (!(!limit.v))
        flx_a[flx_n++] = flx_attr_ints("limit", limit);
    if (!(!stride.v))
        flx_a[flx_n++] = flx_attr_ints("stride", stride);
    return flx_op1(g, "slice", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** value between neighbours (interior) and at the ends (low, high); negative low and high crop */
static inline flx_val flx_pad(flx_graph *g, flx_val x, flx_val value, flx_ints low, flx_ints high, flx_ints interior)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = x;
    flx_x[1] = value;
    if (!(!low.v))
        flx_a[flx_n++] = flx_attr_ints("low", low);
    if (!(!high.v))
        flx_a[flx_n++] = flx_attr_ints("high", high);
    if (!(!interior.v))
        flx_a[flx_n++] = flx_attr_ints("interior", interior);
    return flx_op1(g, "pad", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}

/** the given axes backwards */
static inline flx_val flx_reverse(flx_graph *g, flx_val x, flx_ints axes)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(!axes.v))
        flx_a[flx_n++] = flx_attr_ints("axes", axes);
    return flx_op1(g, "reverse", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** the operands one after the other along axis */
static inline flx_val flx_concat(flx_graph *g, const flx_val *operands, size_t num_operands, int64_t axis)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    if (!(axis == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("axis", axis);
    return flx_op1(g, "concat", operands, num_operands, flx_n ? flx_a : NULL, flx_n);
}

/** the operands, of one shape, along a new axis */
static inline flx_val flx_stack(flx_graph *g, const flx_val *operands, size_t num_operands, int64_t axis)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    if (!(axis == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("axis", axis);
    return flx_op1(g, "stack", operands, num_operands, flx_n ? flx_a : NULL, flx_n);
}

/** consecutive parts of the given sizes along axis */
static inline uint32_t flx_split(flx_graph *g, flx_val x, flx_ints sizes, int64_t axis, flx_val *results, size_t capacity)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(!sizes.v))
        flx_a[flx_n++] = flx_attr_ints("sizes", sizes);
    if (!(axis == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("axis", axis);
    return flx_op(g, "split", flx_x, 1, flx_n ? flx_a : NULL, flx_n, results, capacity);
}

/** the rows along axis, which is dropped */
static inline uint32_t flx_unstack(flx_graph *g, flx_val x, int64_t axis, flx_val *results, size_t capacity)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(axis == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("axis", axis);
    return flx_op(g, "unstack", flx_x, 1, flx_n ? flx_a : NULL, flx_n, results, capacity);
}

/** x where column - row <= k, 0 elsewhere; the matrices are the last two axes */
static inline flx_val flx_tril(flx_graph *g, flx_val x, int64_t k)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(k == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("k", k);
    return flx_op1(g, "tril", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** x where column - row >= k, 0 elsewhere; the matrices are the last two axes */
static inline flx_val flx_triu(flx_graph *g, flx_val x, int64_t k)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(k == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("k", k);
    return flx_op1(g, "triu", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** a vector as diagonal k of a matrix of zeros; of more axes: diagonal k of the last two */
static inline flx_val flx_diag(flx_graph *g, flx_val x, int64_t k)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(k == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("k", k);
    return flx_op1(g, "diag", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}


/* ---- index ---- */

/** y[p, i, q] = table[p, idx[i], q], i replacing the axis of table */
static inline flx_val flx_gather(flx_graph *g, flx_val table, flx_val idx, int64_t axis, const char *oob)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = table;
    flx_x[1] = idx;
    if (!(axis == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("axis", axis);
    if (!(!oob))
        flx_a[flx_n++] = flx_attr_word("oob", oob);
    return flx_op1(g, "gather", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}

/** y = 0 of R rows, then y[idx[i]] += upd[i]; duplicates accumulate */
static inline flx_val flx_scatter_add(flx_graph *g, flx_val upd, flx_val idx, flx_dim R, const char *oob)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = upd;
    flx_x[1] = idx;
    if (!(R == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("R", R);
    if (!(!oob))
        flx_a[flx_n++] = flx_attr_word("oob", oob);
    return flx_op1(g, "scatter_add", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}

/** y[p, i, q] = x[p, idx[p, i, q], q], i running along the axis */
static inline flx_val flx_take_along(flx_graph *g, flx_val x, flx_val idx, int64_t axis, const char *oob)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = x;
    flx_x[1] = idx;
    if (!(axis == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("axis", axis);
    if (!(!oob))
        flx_a[flx_n++] = flx_attr_word("oob", oob);
    return flx_op1(g, "take_along", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}

/** y[p, k, q] = 1 where k = i[p, q], else 0; k has n values */
static inline flx_val flx_one_hot(flx_graph *g, flx_val i, flx_dim n, int64_t axis, flx_dtype dtype, const char *oob)
{
    flx_attr flx_a[4];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = i;
    if (!(n == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("n", n);
    if (!(axis == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("axis", axis);
    if (!(dtype == FLX_DTYPE_NONE))
        flx_a[flx_n++] = flx_attr_dtype("dtype", dtype);
    if (!(!oob))
        flx_a[flx_n++] = flx_attr_word("oob", oob);
    return flx_op1(g, "one_hot", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** y[i] = x[idx + i], the window of extent sizes; idx is clamped so that it fits */
static inline flx_val flx_dynamic_slice(flx_graph *g, const flx_val *operands, size_t num_operands, flx_ints sizes)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    if (!(!sizes.v))
        flx_a[flx_n++] = flx_attr_ints("sizes", sizes);
    return flx_op1(g, "dynamic_slice", operands, num_operands, flx_n ? flx_a : NULL, flx_n);
}

/** x with y[idx + i] = u[i]; idx is clamped so that u fits */
static inline flx_val flx_dynamic_update_slice(flx_graph *g, const flx_val *operands, size_t num_operands)
{
    return flx_op1(g, "dynamic_update_slice", operands, num_operands, NULL, 0);
}


/* ---- gather_nd ---- */

typedef struct flx_gather_nd_attrs {
    flx_ints slice_sizes; /* must be given */
    flx_ints start_index_map; /* must be given */
    flx_ints offset_axes; /* [] */
    flx_ints collapsed_axes; /* [] */
    flx_ints operand_batching_axes; /* [] */
    flx_ints indices_batching_axes; /* [] */
    int64_t index_vector_axis; /* last */
    const char *oob; /* error */
} flx_gather_nd_attrs;
#define FLX_GATHER_ND_ATTRS {{NULL, 0}, {NULL, 0}, {NULL, 0}, {NULL, 0}, {NULL, 0}, {NULL, 0}, FLX_DEFAULT, NULL}

/** y[o] = x[s + t + u]: s a start read from indices, t the batch position, u the place in the window */
static inline flx_val flx_gather_nd(flx_graph *g, flx_val x, flx_val indices, const flx_gather_nd_attrs *attrs)
{
    flx_attr flx_a[8];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = x;
    flx_x[1] = indices;
    if (attrs) {
        if (!(!attrs->slice_sizes.v))
            flx_a[flx_n++] = flx_attr_ints("slice_sizes", attrs->slice_sizes);
        if (!(!attrs->start_index_map.v))
            flx_a[flx_n++] = flx_attr_ints("start_index_map", attrs->start_index_map);
        if (!(!attrs->offset_axes.v))
            flx_a[flx_n++] = flx_attr_ints("offset_axes", attrs->offset_axes);
        if (!(!attrs->collapsed_axes.v))
            flx_a[flx_n++] = flx_attr_ints("collapsed_axes", attrs->collapsed_axes);
        if (!(!attrs->operand_batching_axes.v))
            flx_a[flx_n++] = flx_attr_ints("operand_batching_axes", attrs->operand_batching_axes);
        if (!(!attrs->indices_batching_axes.v))
            flx_a[flx_n++] = flx_attr_ints("indices_batching_axes", attrs->indices_batching_axes);
        if (!(attrs->index_vector_axis == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("index_vector_axis", attrs->index_vector_axis);
        if (!(!attrs->oob))
            flx_a[flx_n++] = flx_attr_word("oob", attrs->oob);
    }
    return flx_op1(g, "gather_nd", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}

typedef struct flx_scatter_nd_attrs {
    flx_ints start_index_map; /* must be given */
    flx_ints offset_axes; /* [] */
    flx_ints collapsed_axes; /* [] */
    flx_ints operand_batching_axes; /* [] */
    flx_ints indices_batching_axes; /* [] */
    int64_t index_vector_axis; /* last */
    flx_combine combine; /* add */
    int unique; /* false */
    const char *oob; /* error */
} flx_scatter_nd_attrs;
#define FLX_SCATTER_ND_ATTRS {{NULL, 0}, {NULL, 0}, {NULL, 0}, {NULL, 0}, {NULL, 0}, FLX_DEFAULT, {NULL, NULL}, -1, NULL}

/** x with y[s + t + u] = combine(y[s + t + u], updates[o]), in row-major order of updates */
static inline flx_val flx_scatter_nd(flx_graph *g, flx_val x, flx_val indices, flx_val updates, const flx_scatter_nd_attrs *attrs)
{
    flx_attr flx_a[9];
    size_t flx_n = 0;
    flx_val flx_x[3];
    flx_x[0] = x;
    flx_x[1] = indices;
    flx_x[2] = updates;
    if (attrs) {
        if (!(!attrs->start_index_map.v))
            flx_a[flx_n++] = flx_attr_ints("start_index_map", attrs->start_index_map);
        if (!(!attrs->offset_axes.v))
            flx_a[flx_n++] = flx_attr_ints("offset_axes", attrs->offset_axes);
        if (!(!attrs->collapsed_axes.v))
            flx_a[flx_n++] = flx_attr_ints("collapsed_axes", attrs->collapsed_axes);
        if (!(!attrs->operand_batching_axes.v))
            flx_a[flx_n++] = flx_attr_ints("operand_batching_axes", attrs->operand_batching_axes);
        if (!(!attrs->indices_batching_axes.v))
            flx_a[flx_n++] = flx_attr_ints("indices_batching_axes", attrs->indices_batching_axes);
        if (!(attrs->index_vector_axis == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("index_vector_axis", attrs->index_vector_axis);
        if (!(!attrs->combine.word && !attrs->combine.graph))
            flx_a[flx_n++] = flx_attr_combine("combine", attrs->combine);
        if (!(attrs->unique < 0))
            flx_a[flx_n++] = flx_attr_int("unique", attrs->unique);
        if (!(!attrs->oob))
            flx_a[flx_n++] = flx_attr_word("oob", attrs->oob);
    }
    return flx_op1(g, "scatter_nd", flx_x, 3, flx_n ? flx_a : NULL, flx_n);
}


/* ---- product ---- */

/** y[.., m, n] = sum over k of a[.., m, k] * b[.., k, n] */
static inline flx_val flx_matmul(flx_graph *g, flx_val a, flx_val b)
{
    flx_val flx_x[2];
    flx_x[0] = a;
    flx_x[1] = b;
    return flx_op1(g, "matmul", flx_x, 2, NULL, 0);
}

/** products of l and r summed over the paired axes lc and rc, for each position of the paired axes lb and rb */
static inline flx_val flx_dot_general(flx_graph *g, flx_val l, flx_val r, flx_ints lc, flx_ints rc, flx_ints lb, flx_ints rb)
{
    flx_attr flx_a[4];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = l;
    flx_x[1] = r;
    if (!(!lc.v))
        flx_a[flx_n++] = flx_attr_ints("lc", lc);
    if (!(!rc.v))
        flx_a[flx_n++] = flx_attr_ints("rc", rc);
    if (!(!lb.v))
        flx_a[flx_n++] = flx_attr_ints("lb", lb);
    if (!(!rb.v))
        flx_a[flx_n++] = flx_attr_ints("rb", rb);
    return flx_op1(g, "dot_general", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}

/** products of all operands summed over the letters of eq that its result does not have */
static inline flx_val flx_einsum(flx_graph *g, const flx_val *operands, size_t num_operands, const char *eq)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    if (!(!eq))
        flx_a[flx_n++] = flx_attr_string("eq", eq);
    return flx_op1(g, "einsum", operands, num_operands, flx_n ? flx_a : NULL, flx_n);
}

/** matmul(x, w) + scale * matmul(matmul(x, a), b) */
static inline flx_val flx_lora_matmul(flx_graph *g, flx_val x, flx_val w, flx_val a, flx_val b, double scale)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[4];
    flx_x[0] = x;
    flx_x[1] = w;
    flx_x[2] = a;
    flx_x[3] = b;
    if (!(scale != scale))
        flx_a[flx_n++] = flx_attr_real("scale", scale);
    return flx_op1(g, "lora_matmul", flx_x, 4, flx_n ? flx_a : NULL, flx_n);
}


/* ---- conv ---- */

typedef struct flx_conv_attrs {
    flx_ints stride; /* all 1 */
    flx_ints padding; /* all 0 */
    flx_ints dilation; /* all 1 */
    flx_dim groups; /* 1 */
    flx_ints input_dilation; /* all 1 */
    flx_dim batch_groups; /* 1 */
    flx_ints reverse; /* all false */
    flx_ints input_axes; /* [0, 1, 2, ...] */
    flx_ints kernel_axes; /* [0, 1, 2, ...] */
    flx_ints output_axes; /* [0, 1, 2, ...] */
} flx_conv_attrs;
#define FLX_CONV_ATTRS {{NULL, 0}, {NULL, 0}, {NULL, 0}, FLX_DEFAULT, {NULL, 0}, FLX_DEFAULT, {NULL, 0}, {NULL, 0}, {NULL, 0}, {NULL, 0}}

/** z[n, c, o] = sum of w[c, i, k] x[n, i, o stride + k dilation - padding], x spread by input_dilation, 0 outside */
static inline flx_val flx_conv(flx_graph *g, flx_val x, flx_val w, const flx_conv_attrs *attrs)
{
    flx_attr flx_a[10];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = x;
    flx_x[1] = w;
    if (attrs) {
        if (!(!attrs->stride.v))
            flx_a[flx_n++] = flx_attr_ints("stride", attrs->stride);
        if (!(!attrs->padding.v))
            flx_a[flx_n++] = flx_attr_pairs("padding", attrs->padding);
        if (!(!attrs->dilation.v))
            flx_a[flx_n++] = flx_attr_ints("dilation", attrs->dilation);
        if (!(attrs->groups == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("groups", attrs->groups);
        if (!(!attrs->input_dilation.v))
            flx_a[flx_n++] = flx_attr_ints("input_dilation", attrs->input_dilation);
        if (!(attrs->batch_groups == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("batch_groups", attrs->batch_groups);
        if (!(!attrs->reverse.v))
            flx_a[flx_n++] = flx_attr_ints("reverse", attrs->reverse);
        if (!(!attrs->input_axes.v))
            flx_a[flx_n++] = flx_attr_ints("input_axes", attrs->input_axes);
        if (!(!attrs->kernel_axes.v))
            flx_a[flx_n++] = flx_attr_ints("kernel_axes", attrs->kernel_axes);
        if (!(!attrs->output_axes.v))
            flx_a[flx_n++] = flx_attr_ints("output_axes", attrs->output_axes);
    }
    return flx_op1(g, "conv", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}

typedef struct flx_conv_backward_input_attrs {
    flx_ints input_size; /* must be given */
    flx_ints stride; /* all 1 */
    flx_ints padding; /* all 0 */
    flx_ints dilation; /* all 1 */
    flx_dim groups; /* 1 */
} flx_conv_backward_input_attrs;
#define FLX_CONV_BACKWARD_INPUT_ATTRS {{NULL, 0}, {NULL, 0}, {NULL, 0}, {NULL, 0}, FLX_DEFAULT}

/** the transpose of conv in x: scatters z through w onto an input of spatial extents input_size */
static inline flx_val flx_conv_backward_input(flx_graph *g, flx_val z, flx_val w, const flx_conv_backward_input_attrs *attrs)
{
    flx_attr flx_a[5];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = z;
    flx_x[1] = w;
    if (attrs) {
        if (!(!attrs->input_size.v))
            flx_a[flx_n++] = flx_attr_ints("input_size", attrs->input_size);
        if (!(!attrs->stride.v))
            flx_a[flx_n++] = flx_attr_ints("stride", attrs->stride);
        if (!(!attrs->padding.v))
            flx_a[flx_n++] = flx_attr_pairs("padding", attrs->padding);
        if (!(!attrs->dilation.v))
            flx_a[flx_n++] = flx_attr_ints("dilation", attrs->dilation);
        if (!(attrs->groups == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("groups", attrs->groups);
    }
    return flx_op1(g, "conv_backward_input", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}

typedef struct flx_conv_backward_weight_attrs {
    flx_ints kernel_size; /* must be given */
    flx_ints stride; /* all 1 */
    flx_ints padding; /* all 0 */
    flx_ints dilation; /* all 1 */
    flx_dim groups; /* 1 */
} flx_conv_backward_weight_attrs;
#define FLX_CONV_BACKWARD_WEIGHT_ATTRS {{NULL, 0}, {NULL, 0}, {NULL, 0}, {NULL, 0}, FLX_DEFAULT}

/** the transpose of conv in w: correlates x with z for a kernel of extents kernel_size */
static inline flx_val flx_conv_backward_weight(flx_graph *g, flx_val x, flx_val z, const flx_conv_backward_weight_attrs *attrs)
{
    flx_attr flx_a[5];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = x;
    flx_x[1] = z;
    if (attrs) {
        if (!(!attrs->kernel_size.v))
            flx_a[flx_n++] = flx_attr_ints("kernel_size", attrs->kernel_size);
        if (!(!attrs->stride.v))
            flx_a[flx_n++] = flx_attr_ints("stride", attrs->stride);
        if (!(!attrs->padding.v))
            flx_a[flx_n++] = flx_attr_pairs("padding", attrs->padding);
        if (!(!attrs->dilation.v))
            flx_a[flx_n++] = flx_attr_ints("dilation", attrs->dilation);
        if (!(attrs->groups == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("groups", attrs->groups);
    }
    return flx_op1(g, "conv_backward_weight", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}

typedef struct flx_conv_transpose_attrs {
    flx_ints stride; /* all 1 */
    flx_ints padding; /* all 0 */
    flx_ints dilation; /* all 1 */
    flx_dim groups; /* 1 */
    flx_ints output_padding; /* all 0 */
} flx_conv_transpose_attrs;
#define FLX_CONV_TRANSPOSE_ATTRS {{NULL, 0}, {NULL, 0}, {NULL, 0}, FLX_DEFAULT, {NULL, 0}}

/** conv_backward_input of x with w [Cin, Cout/groups, K...]: extents (S-1) stride - low - high + (K-1) dilation + output_padding + 1 */
static inline flx_val flx_conv_transpose(flx_graph *g, flx_val x, flx_val w, const flx_conv_transpose_attrs *attrs)
{
    flx_attr flx_a[5];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = x;
    flx_x[1] = w;
    if (attrs) {
        if (!(!attrs->stride.v))
            flx_a[flx_n++] = flx_attr_ints("stride", attrs->stride);
        if (!(!attrs->padding.v))
            flx_a[flx_n++] = flx_attr_pairs("padding", attrs->padding);
        if (!(!attrs->dilation.v))
            flx_a[flx_n++] = flx_attr_ints("dilation", attrs->dilation);
        if (!(attrs->groups == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("groups", attrs->groups);
        if (!(!attrs->output_padding.v))
            flx_a[flx_n++] = flx_attr_ints("output_padding", attrs->output_padding);
    }
    return flx_op1(g, "conv_transpose", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}


/* ---- window ---- */

typedef struct flx_pool_attrs {
    const char *kind; /* must be given */
    flx_ints kernel_size; /* must be given */
    flx_ints stride; /* kernel_size */
    flx_ints padding; /* all 0 */
    int count_include_pad; /* true */
} flx_pool_attrs;
#define FLX_POOL_ATTRS {NULL, {NULL, 0}, {NULL, 0}, {NULL, 0}, -1}

/** mean, sum, max, min or prod over windows of x [N, C, spatial...]; padding counts only in the divisor of mean */
static inline flx_val flx_pool(flx_graph *g, flx_val x, const flx_pool_attrs *attrs)
{
    flx_attr flx_a[5];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (attrs) {
        if (!(!attrs->kind))
            flx_a[flx_n++] = flx_attr_word("kind", attrs->kind);
        if (!(!attrs->kernel_size.v))
            flx_a[flx_n++] = flx_attr_ints("kernel_size", attrs->kernel_size);
        if (!(!attrs->stride.v))
            flx_a[flx_n++] = flx_attr_ints("stride", attrs->stride);
        if (!(!attrs->padding.v))
            flx_a[flx_n++] = flx_attr_pairs("padding", attrs->padding);
        if (!(attrs->count_include_pad < 0))
            flx_a[flx_n++] = flx_attr_int("count_include_pad", attrs->count_include_pad);
    }
    return flx_op1(g, "pool", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** i32 position, in the flattened spatial axes, of the largest element of each window: the first one, or the first NaN */
static inline flx_val flx_pool_argmax(flx_graph *g, flx_val x, flx_ints kernel_size, flx_ints stride, flx_ints padding)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(!kernel_size.v))
        flx_a[flx_n++] = flx_attr_ints("kernel_size", kernel_size);
    if (!(!stride.v))
        flx_a[flx_n++] = flx_attr_ints("stride", stride);
    if (!(!padding.v))
        flx_a[flx_n++] = flx_attr_pairs("padding", padding);
    return flx_op1(g, "pool_argmax", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** dy added up at the positions of pool_argmax(x), zero elsewhere; linear in dy, no derivative in x */
static inline flx_val flx_max_pool_backward(flx_graph *g, flx_val x, flx_val dy, flx_ints kernel_size, flx_ints stride, flx_ints padding)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = x;
    flx_x[1] = dy;
    if (!(!kernel_size.v))
        flx_a[flx_n++] = flx_attr_ints("kernel_size", kernel_size);
    if (!(!stride.v))
        flx_a[flx_n++] = flx_attr_ints("stride", stride);
    if (!(!padding.v))
        flx_a[flx_n++] = flx_attr_pairs("padding", padding);
    return flx_op1(g, "max_pool_backward", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}

typedef struct flx_reduce_window_attrs {
    flx_ints window; /* must be given */
    flx_combine combine; /* must be given */
    flx_ints strides; /* all 1 */
    flx_ints base_dilation; /* all 1 */
    flx_ints window_dilation; /* all 1 */
    flx_ints pad_low; /* all 0 */
    flx_ints pad_high; /* all 0 */
} flx_reduce_window_attrs;
#define FLX_REDUCE_WINDOW_ATTRS {{NULL, 0}, {NULL, NULL}, {NULL, 0}, {NULL, 0}, {NULL, 0}, {NULL, 0}, {NULL, 0}}

/** x1, ..., init1, ...: combine folded over each window, from init, in row-major order; padding holds init */
static inline uint32_t flx_reduce_window(flx_graph *g, const flx_val *operands, size_t num_operands, const flx_reduce_window_attrs *attrs, flx_val *results, size_t capacity)
{
    flx_attr flx_a[7];
    size_t flx_n = 0;
    if (attrs) {
        if (!(!attrs->window.v))
            flx_a[flx_n++] = flx_attr_ints("window", attrs->window);
        if (!(!attrs->combine.word && !attrs->combine.graph))
            flx_a[flx_n++] = flx_attr_combine("combine", attrs->combine);
        if (!(!attrs->strides.v))
            flx_a[flx_n++] = flx_attr_ints("strides", attrs->strides);
        if (!(!attrs->base_dilation.v))
            flx_a[flx_n++] = flx_attr_ints("base_dilation", attrs->base_dilation);
        if (!(!attrs->window_dilation.v))
            flx_a[flx_n++] = flx_attr_ints("window_dilation", attrs->window_dilation);
        if (!(!attrs->pad_low.v))
            flx_a[flx_n++] = flx_attr_ints("pad_low", attrs->pad_low);
        if (!(!attrs->pad_high.v))
            flx_a[flx_n++] = flx_attr_ints("pad_high", attrs->pad_high);
    }
    return flx_op(g, "reduce_window", operands, num_operands, flx_n ? flx_a : NULL, flx_n, results, capacity);
}

typedef struct flx_select_and_scatter_attrs {
    flx_ints window; /* must be given */
    flx_combine select; /* ge */
    flx_combine combine; /* add */
    flx_ints strides; /* all 1 */
    flx_ints pad_low; /* all 0 */
    flx_ints pad_high; /* all 0 */
} flx_select_and_scatter_attrs;
#define FLX_SELECT_AND_SCATTER_ATTRS {{NULL, 0}, {NULL, NULL}, {NULL, NULL}, {NULL, 0}, {NULL, 0}, {NULL, 0}}

/** each window of x keeps the position select prefers; source is combined into a tensor of init at those positions */
static inline flx_val flx_select_and_scatter(flx_graph *g, flx_val x, flx_val source, flx_val init, const flx_select_and_scatter_attrs *attrs)
{
    flx_attr flx_a[6];
    size_t flx_n = 0;
    flx_val flx_x[3];
    flx_x[0] = x;
    flx_x[1] = source;
    flx_x[2] = init;
    if (attrs) {
        if (!(!attrs->window.v))
            flx_a[flx_n++] = flx_attr_ints("window", attrs->window);
        if (!(!attrs->select.word && !attrs->select.graph))
            flx_a[flx_n++] = flx_attr_combine("select", attrs->select);
        if (!(!attrs->combine.word && !attrs->combine.graph))
            flx_a[flx_n++] = flx_attr_combine("combine", attrs->combine);
        if (!(!attrs->strides.v))
            flx_a[flx_n++] = flx_attr_ints("strides", attrs->strides);
        if (!(!attrs->pad_low.v))
            flx_a[flx_n++] = flx_attr_ints("pad_low", attrs->pad_low);
        if (!(!attrs->pad_high.v))
            flx_a[flx_n++] = flx_attr_ints("pad_high", attrs->pad_high);
    }
    return flx_op1(g, "select_and_scatter", flx_x, 3, flx_n ? flx_a : NULL, flx_n);
}


/* ---- resize ---- */

/** [N, C, H, W] to [N, C, 2H, 2W], each element repeated 2 by 2 */
static inline flx_val flx_resize_nearest_2x(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "resize_nearest_2x", flx_x, 1, NULL, 0);
}

/** x interpolated to shape, axis by axis; nearest rounds halves down (asymmetric: floor), cubic has a = -0.75, edges repeat */
static inline flx_val flx_resize(flx_graph *g, flx_val x, flx_ints shape, const char *mode, const char *coordinates)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(!shape.v))
        flx_a[flx_n++] = flx_attr_ints("shape", shape);
    if (!(!mode))
        flx_a[flx_n++] = flx_attr_word("mode", mode);
    if (!(!coordinates))
        flx_a[flx_n++] = flx_attr_word("coordinates", coordinates);
    return flx_op1(g, "resize", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}


/* ---- fused ---- */

/** act(matmul(x, w) + b) */
static inline flx_val flx_fused_matmul_bias_act(flx_graph *g, flx_val x, flx_val w, flx_val b, const char *act)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[3];
    flx_x[0] = x;
    flx_x[1] = w;
    flx_x[2] = b;
    if (!(!act))
        flx_a[flx_n++] = flx_attr_word("act", act);
    return flx_op1(g, "fused_matmul_bias_act", flx_x, 3, flx_n ? flx_a : NULL, flx_n);
}

/** up * silu(gate), where up and gate are the first and second half of p along its last axis */
static inline flx_val flx_fused_swiglu(flx_graph *g, flx_val p, int gate_first, flx_dtype cast_to)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = p;
    if (!(gate_first < 0))
        flx_a[flx_n++] = flx_attr_int("gate_first", gate_first);
    if (!(cast_to == FLX_DTYPE_NONE))
        flx_a[flx_n++] = flx_attr_dtype("cast_to", cast_to);
    return flx_op1(g, "fused_swiglu", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}


/* ---- block ---- */

/** act(matmul(x, w) + b) */
static inline flx_val flx_linear(flx_graph *g, flx_val x, flx_val w, flx_val b, const char *act)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[3];
    flx_x[0] = x;
    flx_x[1] = w;
    flx_x[2] = b;
    size_t num_operands = 3;
    while (num_operands > 2 && !flx_x[num_operands - 1].id)
        num_operands--;
    if (!(!act))
        flx_a[flx_n++] = flx_attr_word("act", act);
    return flx_op1(g, "linear", flx_x, num_operands, flx_n ? flx_a : NULL, flx_n);
}

/** act(matmul(x, w) + b), lowered to one op unless it is to be differentiated */
static inline flx_val flx_fused_linear(flx_graph *g, flx_val x, flx_val w, flx_val b, const char *act)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[3];
    flx_x[0] = x;
    flx_x[1] = w;
    flx_x[2] = b;
    size_t num_operands = 3;
    while (num_operands > 2 && !flx_x[num_operands - 1].id)
        num_operands--;
    if (!(!act))
        flx_a[flx_n++] = flx_attr_word("act", act);
    return flx_op1(g, "fused_linear", flx_x, num_operands, flx_n ? flx_a : NULL, flx_n);
}

/** act1(matmul(x, w1) + b1) and act2(matmul(x, w2) + b2) */
static inline void flx_linear_pair(flx_graph *g, flx_val x, flx_val w1, flx_val w2, flx_val b1, flx_val b2, const char *act1, const char *act2, flx_val results[2])
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[5];
    flx_x[0] = x;
    flx_x[1] = w1;
    flx_x[2] = w2;
    flx_x[3] = b1;
    flx_x[4] = b2;
    size_t num_operands = 5;
    while (num_operands > 3 && !flx_x[num_operands - 1].id)
        num_operands--;
    if (!(!act1))
        flx_a[flx_n++] = flx_attr_word("act1", act1);
    if (!(!act2))
        flx_a[flx_n++] = flx_attr_word("act2", act2);
    flx_op(g, "linear_pair", flx_x, num_operands, flx_n ? flx_a : NULL, flx_n, results, 2);
}

/** matmul(act(matmul(x, w_gate)) * matmul(x, w_up), w_down) */
static inline flx_val flx_gated_ffn(flx_graph *g, flx_val x, flx_val w_gate, flx_val w_up, flx_val w_down, const char *act)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[4];
    flx_x[0] = x;
    flx_x[1] = w_gate;
    flx_x[2] = w_up;
    flx_x[3] = w_down;
    if (!(!act))
        flx_a[flx_n++] = flx_attr_word("act", act);
    return flx_op1(g, "gated_ffn", flx_x, 4, flx_n ? flx_a : NULL, flx_n);
}

/** matmul(up * silu(gate), w_out), where up and gate are the halves of matmul(x, w_in) */
static inline flx_val flx_swiglu_ffn(flx_graph *g, flx_val x, flx_val w_in, flx_val w_out, int gate_first)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[3];
    flx_x[0] = x;
    flx_x[1] = w_in;
    flx_x[2] = w_out;
    if (!(gate_first < 0))
        flx_a[flx_n++] = flx_attr_int("gate_first", gate_first);
    return flx_op1(g, "swiglu_ffn", flx_x, 3, flx_n ? flx_a : NULL, flx_n);
}

/** linear layers with weights w1, b1, w2, b2, ... (bias=false: w1, w2, ...), act behind each but the last, then out_act */
static inline flx_val flx_mlp(flx_graph *g, const flx_val *operands, size_t num_operands, const char *act, const char *out_act, int bias)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    if (!(!act))
        flx_a[flx_n++] = flx_attr_word("act", act);
    if (!(!out_act))
        flx_a[flx_n++] = flx_attr_word("out_act", out_act);
    if (!(bias < 0))
        flx_a[flx_n++] = flx_attr_int("bias", bias);
    return flx_op1(g, "mlp", operands, num_operands, flx_n ? flx_a : NULL, flx_n);
}


/* ---- random ---- */

typedef struct flx_rng_uniform_attrs {
    flx_ints shape; /* must be given */
    flx_dtype dtype; /* f32 */
    double lo; /* 0 */
    double hi; /* 1 */
    int64_t seed; /* 0 */
    int64_t stream; /* 0 */
} flx_rng_uniform_attrs;
#define FLX_RNG_UNIFORM_ATTRS {{NULL, 0}, FLX_DTYPE_NONE, NAN, NAN, FLX_DEFAULT, FLX_DEFAULT}

/** lo + (hi - lo) u; u = (word i >> 8) 2^-24, f64: (words 2i, 2i + 1 >> 11) 2^-53; Philox, counter (block, stream) */
static inline flx_val flx_rng_uniform(flx_graph *g, flx_val key, const flx_rng_uniform_attrs *attrs)
{
    flx_attr flx_a[6];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = key;
    size_t num_operands = 1;
    while (num_operands > 0 && !flx_x[num_operands - 1].id)
        num_operands--;
    if (attrs) {
        if (!(!attrs->shape.v))
            flx_a[flx_n++] = flx_attr_ints("shape", attrs->shape);
        if (!(attrs->dtype == FLX_DTYPE_NONE))
            flx_a[flx_n++] = flx_attr_dtype("dtype", attrs->dtype);
        if (!(attrs->lo != attrs->lo))
            flx_a[flx_n++] = flx_attr_real("lo", attrs->lo);
        if (!(attrs->hi != attrs->hi))
            flx_a[flx_n++] = flx_attr_real("hi", attrs->hi);
        if (!(attrs->seed == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("seed", attrs->seed);
        if (!(attrs->stream == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("stream", attrs->stream);
    }
    return flx_op1(g, "rng_uniform", flx_x, num_operands, flx_n ? flx_a : NULL, flx_n);
}

typedef struct flx_rng_normal_attrs {
    flx_ints shape; /* must be given */
    flx_dtype dtype; /* f32 */
    double mean; /* 0 */
    double std; /* 1 */
    int64_t seed; /* 0 */
    int64_t stream; /* 0 */
} flx_rng_normal_attrs;
#define FLX_RNG_NORMAL_ATTRS {{NULL, 0}, FLX_DTYPE_NONE, NAN, NAN, FLX_DEFAULT, FLX_DEFAULT}

/** mean + std z; Box-Muller: elements 2j, 2j + 1 are sqrt(-2 ln u1) (cos, sin)(2 pi u2) of the same two draws, u1 > 0 */
static inline flx_val flx_rng_normal(flx_graph *g, flx_val key, const flx_rng_normal_attrs *attrs)
{
    flx_attr flx_a[6];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = key;
    size_t num_operands = 1;
    while (num_operands > 0 && !flx_x[num_operands - 1].id)
        num_operands--;
    if (attrs) {
        if (!(!attrs->shape.v))
            flx_a[flx_n++] = flx_attr_ints("shape", attrs->shape);
        if (!(attrs->dtype == FLX_DTYPE_NONE))
            flx_a[flx_n++] = flx_attr_dtype("dtype", attrs->dtype);
        if (!(attrs->mean != attrs->mean))
            flx_a[flx_n++] = flx_attr_real("mean", attrs->mean);
        if (!(attrs->std != attrs->std))
            flx_a[flx_n++] = flx_attr_real("std", attrs->std);
        if (!(attrs->seed == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("seed", attrs->seed);
        if (!(attrs->stream == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("stream", attrs->stream);
    }
    return flx_op1(g, "rng_normal", flx_x, num_operands, flx_n ? flx_a : NULL, flx_n);
}

/** element i is word i of key's stream 0, 64-bit dtypes words 2i, 2i + 1, low first, narrow ones its low bits; a block is 4 words (threefry2x32: 2) */
static inline flx_val flx_rng_bits(flx_graph *g, flx_val key, flx_ints shape, flx_dtype dtype, const char *algorithm)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = key;
    if (!(!shape.v))
        flx_a[flx_n++] = flx_attr_ints("shape", shape);
    if (!(dtype == FLX_DTYPE_NONE))
        flx_a[flx_n++] = flx_attr_dtype("dtype", dtype);
    if (!(!algorithm))
        flx_a[flx_n++] = flx_attr_word("algorithm", algorithm);
    return flx_op1(g, "rng_bits", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** state u64[2] (key, block) or philox u64[3] (key, 128-bit block), or the same as u32[4], u32[6]; bits of the blocks from there on, and the state behind them. A short Philox state has key as the high half of its counter; Threefry's two words, where each is an element, are neighbours along the first even (else longest) axis */
static inline void flx_rng_bit_generator(flx_graph *g, flx_val state, flx_ints shape, flx_dtype dtype, const char *algorithm, flx_val results[2])
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = state;
    if (!(!shape.v))
        flx_a[flx_n++] = flx_attr_ints("shape", shape);
    if (!(dtype == FLX_DTYPE_NONE))
        flx_a[flx_n++] = flx_attr_dtype("dtype", dtype);
    if (!(!algorithm))
        flx_a[flx_n++] = flx_attr_word("algorithm", algorithm);
    flx_op(g, "rng_bit_generator", flx_x, 1, flx_n ? flx_a : NULL, flx_n, results, 2);
}

/** u32[num, 2]: key s is the first two Philox words of key at block s of stream 2^64 - 1 */
static inline flx_val flx_rng_split(flx_graph *g, flx_val key, flx_dim num)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = key;
    if (!(num == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("num", num);
    return flx_op1(g, "rng_split", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** the first two Philox words of key at block data (64 bits, sign extended) of stream 2^64 - 2 */
static inline flx_val flx_rng_fold_in(flx_graph *g, flx_val key, flx_val data)
{
    flx_val flx_x[2];
    flx_x[0] = key;
    flx_x[1] = data;
    return flx_op1(g, "rng_fold_in", flx_x, 2, NULL, 0);
}

/** i32 index drawn from softmax(logits / temperature) along the last axis, cut to top_k entries and top_p of probability; row r uses stream r */
static inline flx_val flx_sample(flx_graph *g, flx_val logits, int64_t top_k, double top_p, double temperature, int64_t seed)
{
    flx_attr flx_a[4];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = logits;
    if (!(top_k == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("top_k", top_k);
    if (!(top_p != top_p))
        flx_a[flx_n++] = flx_attr_real("top_p", top_p);
    if (!(temperature != temperature))
        flx_a[flx_n++] = flx_attr_real("temperature", temperature);
    if (!(seed == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("seed", seed);
    return flx_op1(g, "sample", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** u < p, p broadcast to shape; u as rng_uniform draws it in p's dtype */
static inline flx_val flx_bernoulli(flx_graph *g, flx_val key, flx_val p, flx_ints shape)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = key;
    flx_x[1] = p;
    if (!(!shape.v))
        flx_a[flx_n++] = flx_attr_ints("shape", shape);
    return flx_op1(g, "bernoulli", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}

/** i32 argmax of logits - ln(-ln u) along the last axis: index k with probability softmax(logits)[k] */
static inline flx_val flx_categorical(flx_graph *g, flx_val key, flx_val logits)
{
    flx_val flx_x[2];
    flx_x[0] = key;
    flx_x[1] = logits;
    return flx_op1(g, "categorical", flx_x, 2, NULL, 0);
}

/** i32[n]: argsort(rng_bits(key, shape=[n], dtype=u64)) */
static inline flx_val flx_permutation(flx_graph *g, flx_val key, flx_dim n)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = key;
    if (!(n == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("n", n);
    return flx_op1(g, "permutation", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** x / (1 - rate) where u >= rate, else 0; u = (word i >> 8) 2^-24 of key, recomputed wherever it is needed */
static inline flx_val flx_dropout(flx_graph *g, flx_val x, flx_val key, double rate)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = x;
    flx_x[1] = key;
    if (!(rate != rate))
        flx_a[flx_n++] = flx_attr_real("rate", rate);
    return flx_op1(g, "dropout", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}

/** standard normal restricted to [-2, 2]: sqrt(2) erf_inv((2 u - 1) erf(sqrt(2))) */
static inline flx_val flx_truncated_normal(flx_graph *g, flx_val key, flx_ints shape, flx_dtype dtype)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = key;
    if (!(!shape.v))
        flx_a[flx_n++] = flx_attr_ints("shape", shape);
    if (!(dtype == FLX_DTYPE_NONE))
        flx_a[flx_n++] = flx_attr_dtype("dtype", dtype);
    return flx_op1(g, "truncated_normal", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** -log1p(-u), rate 1; u as rng_uniform draws it */
static inline flx_val flx_exponential(flx_graph *g, flx_val key, flx_ints shape, flx_dtype dtype)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = key;
    if (!(!shape.v))
        flx_a[flx_n++] = flx_attr_ints("shape", shape);
    if (!(dtype == FLX_DTYPE_NONE))
        flx_a[flx_n++] = flx_attr_dtype("dtype", dtype);
    return flx_op1(g, "exponential", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** Gamma(a, 1), a broadcast to shape: Marsaglia and Tsang's rejection, each element by itself; NaN for a <= 0 */
static inline flx_val flx_gamma(flx_graph *g, flx_val key, flx_val a, flx_ints shape)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = key;
    flx_x[1] = a;
    if (!(!shape.v))
        flx_a[flx_n++] = flx_attr_ints("shape", shape);
    return flx_op1(g, "gamma", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}


/* ---- custom_kernel ---- */

typedef struct flx_kernel_call_attrs {
    const char *kernel; /* must be given */
    const char *inputs; /* "" */
    const char *results; /* "" */
    flx_types outputs; /* by the counts of the results */
    flx_ints grid; /* [1, 1, 1] */
    const char *backward; /* "" */
    int64_t max_trips; /* 0 */
    const char *scratch; /* "" */
    const char *lengths; /* "" */
} flx_kernel_call_attrs;
#define FLX_KERNEL_CALL_ATTRS {NULL, NULL, NULL, {NULL, 0}, {NULL, 0}, NULL, FLX_DEFAULT, NULL, NULL}

/** runs a kernel (docs/kernels.md): operands are its inputs, results its outputs, which start at zero; a buffer that is both is copied first */
static inline uint32_t flx_kernel_call(flx_graph *g, const flx_val *operands, size_t num_operands, const flx_kernel_call_attrs *attrs, flx_val *results, size_t capacity)
{
    flx_attr flx_a[9];
    size_t flx_n = 0;
    if (attrs) {
        if (!(!attrs->kernel))
            flx_a[flx_n++] = flx_attr_string("kernel", attrs->kernel);
        if (!(!attrs->inputs))
            flx_a[flx_n++] = flx_attr_string("inputs", attrs->inputs);
        if (!(!attrs->results))
            flx_a[flx_n++] = flx_attr_string("results", attrs->results);
        if (!(!attrs->outputs.v))
            flx_a[flx_n++] = flx_attr_types("outputs", attrs->outputs);
        if (!(!attrs->grid.v))
            flx_a[flx_n++] = flx_attr_ints("grid", attrs->grid);
        if (!(!attrs->backward))
            flx_a[flx_n++] = flx_attr_string("backward", attrs->backward);
        if (!(attrs->max_trips == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("max_trips", attrs->max_trips);
        if (!(!attrs->scratch))
            flx_a[flx_n++] = flx_attr_string("scratch", attrs->scratch);
        if (!(!attrs->lengths))
            flx_a[flx_n++] = flx_attr_string("lengths", attrs->lengths);
    }
    return flx_op(g, "kernel_call", operands, num_operands, flx_n ? flx_a : NULL, flx_n, results, capacity);
}


/* ---- control ---- */

/** then(x...) where the one-element pred is nonzero and not NaN, else(x...) */
static inline uint32_t flx_if(flx_graph *g, const flx_val *operands, size_t num_operands, const flx_graph *then, const flx_graph *else_, flx_val *results, size_t capacity)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    if (!(!then))
        flx_a[flx_n++] = flx_attr_graph("then", then);
    if (!(!else_))
        flx_a[flx_n++] = flx_attr_graph("else", else_);
    return flx_op(g, "if", operands, num_operands, flx_n ? flx_a : NULL, flx_n, results, capacity);
}

/** branches[index](x...); an index outside the list takes the last branch */
static inline uint32_t flx_case(flx_graph *g, const flx_val *operands, size_t num_operands, flx_graphs branches, flx_val *results, size_t capacity)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    if (!(!branches.v))
        flx_a[flx_n++] = flx_attr_graphs("branches", branches);
    return flx_op(g, "case", operands, num_operands, flx_n ? flx_a : NULL, flx_n, results, capacity);
}

/** c = body(c) as long as cond(c) holds, at most max_iterations times */
static inline uint32_t flx_while(flx_graph *g, const flx_val *operands, size_t num_operands, const flx_graph *cond, const flx_graph *body, int64_t max_iterations, flx_val *results, size_t capacity)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    if (!(!cond))
        flx_a[flx_n++] = flx_attr_graph("cond", cond);
    if (!(!body))
        flx_a[flx_n++] = flx_attr_graph("body", body);
    if (!(max_iterations == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("max_iterations", max_iterations);
    return flx_op(g, "while", operands, num_operands, flx_n ? flx_a : NULL, flx_n, results, capacity);
}

typedef struct flx_scan_attrs {
    const flx_graph *body; /* must be given */
    int64_t num_carry; /* 1 */
    int64_t num_bcast; /* 0 */
    int64_t num_xs; /* the rest */
    flx_dim length; /* extent of the xs */
    int reverse; /* false */
    int save_trajectory; /* false */
    int64_t num_checkpoints; /* 0 */
} flx_scan_attrs;
#define FLX_SCAN_ATTRS {NULL, FLX_DEFAULT, FLX_DEFAULT, FLX_DEFAULT, FLX_DEFAULT, -1, -1, FLX_DEFAULT}

/** operands are carries, broadcast inputs, sequences; step t: carries, ys[t] = body(carries, broadcasts, xs[t]); gives the final carries (or their trajectories), then the stacked ys */
static inline uint32_t flx_scan(flx_graph *g, const flx_val *operands, size_t num_operands, const flx_scan_attrs *attrs, flx_val *results, size_t capacity)
{
    flx_attr flx_a[8];
    size_t flx_n = 0;
    if (attrs) {
        if (!(!attrs->body))
            flx_a[flx_n++] = flx_attr_graph("body", attrs->body);
        if (!(attrs->num_carry == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("num_carry", attrs->num_carry);
        if (!(attrs->num_bcast == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("num_bcast", attrs->num_bcast);
        if (!(attrs->num_xs == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("num_xs", attrs->num_xs);
        if (!(attrs->length == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("length", attrs->length);
        if (!(attrs->reverse < 0))
            flx_a[flx_n++] = flx_attr_int("reverse", attrs->reverse);
        if (!(attrs->save_trajectory < 0))
            flx_a[flx_n++] = flx_attr_int("save_trajectory", attrs->save_trajectory);
        if (!(attrs->num_checkpoints == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("num_checkpoints", attrs->num_checkpoints);
    }
    return flx_op(g, "scan", operands, num_operands, flx_n ? flx_a : NULL, flx_n, results, capacity);
}

typedef struct flx_custom_fn_attrs {
    const flx_graph *fwd_body; /* must be given */
    const flx_graph *vjp_body; /* none */
    const flx_graph *jvp_body; /* none */
    int64_t num_residuals; /* 0 */
    flx_ints zero_grads; /* [] */
    int recompute; /* false */
} flx_custom_fn_attrs;
#define FLX_CUSTOM_FN_ATTRS {NULL, NULL, NULL, FLX_DEFAULT, {NULL, 0}, -1}

/** fwd_body(x...) with derivatives given by the user; with recompute reverse mode computes its inside once more instead of keeping it */
static inline uint32_t flx_custom_fn(flx_graph *g, const flx_val *operands, size_t num_operands, const flx_custom_fn_attrs *attrs, flx_val *results, size_t capacity)
{
    flx_attr flx_a[6];
    size_t flx_n = 0;
    if (attrs) {
        if (!(!attrs->fwd_body))
            flx_a[flx_n++] = flx_attr_graph("fwd_body", attrs->fwd_body);
        if (!(!attrs->vjp_body))
            flx_a[flx_n++] = flx_attr_graph("vjp_body", attrs->vjp_body);
        if (!(!attrs->jvp_body))
            flx_a[flx_n++] = flx_attr_graph("jvp_body", attrs->jvp_body);
        if (!(attrs->num_residuals == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("num_residuals", attrs->num_residuals);
        if (!(!attrs->zero_grads.v))
            flx_a[flx_n++] = flx_attr_ints("zero_grads", attrs->zero_grads);
        if (!(attrs->recompute < 0))
            flx_a[flx_n++] = flx_attr_int("recompute", attrs->recompute);
    }
    return flx_op(g, "custom_fn", operands, num_operands, flx_n ? flx_a : NULL, flx_n, results, capacity);
}

/** the vjp of while: operands are its carries, then a cotangent for each floating one; gives the cotangents of those at the start */
static inline uint32_t flx_while_backward(flx_graph *g, const flx_val *operands, size_t num_operands, const flx_graph *cond, const flx_graph *body, const flx_graph *body_vjp, int64_t max_iterations, flx_val *results, size_t capacity)
{
    flx_attr flx_a[4];
    size_t flx_n = 0;
    if (!(!cond))
        flx_a[flx_n++] = flx_attr_graph("cond", cond);
    if (!(!body))
        flx_a[flx_n++] = flx_attr_graph("body", body);
    if (!(!body_vjp))
        flx_a[flx_n++] = flx_attr_graph("body_vjp", body_vjp);
    if (!(max_iterations == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("max_iterations", max_iterations);
    return flx_op(g, "while_backward", operands, num_operands, flx_n ? flx_a : NULL, flx_n, results, capacity);
}

typedef struct flx_scan_replay_backward_attrs {
    const flx_graph *body; /* must be given */
    const flx_graph *body_vjp; /* must be given */
    int64_t num_carry; /* must be given */
    int64_t num_bcast; /* must be given */
    flx_dim length; /* must be given */
    int reverse; /* false */
    int64_t num_checkpoints; /* must be given */
    flx_ints wanted; /* must be given */
    flx_ints seeded; /* must be given */
} flx_scan_replay_backward_attrs;
#define FLX_SCAN_REPLAY_BACKWARD_ATTRS {NULL, NULL, FLX_DEFAULT, FLX_DEFAULT, FLX_DEFAULT, -1, FLX_DEFAULT, {NULL, 0}, {NULL, 0}}

/** the vjp of a scan that keeps num_checkpoints carries and recomputes the others: operands are the scan's, then cotangents of the seeded outputs; gives cotangents of the wanted inputs */
static inline uint32_t flx_scan_replay_backward(flx_graph *g, const flx_val *operands, size_t num_operands, const flx_scan_replay_backward_attrs *attrs, flx_val *results, size_t capacity)
{
    flx_attr flx_a[9];
    size_t flx_n = 0;
    if (attrs) {
        if (!(!attrs->body))
            flx_a[flx_n++] = flx_attr_graph("body", attrs->body);
        if (!(!attrs->body_vjp))
            flx_a[flx_n++] = flx_attr_graph("body_vjp", attrs->body_vjp);
        if (!(attrs->num_carry == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("num_carry", attrs->num_carry);
        if (!(attrs->num_bcast == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("num_bcast", attrs->num_bcast);
        if (!(attrs->length == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("length", attrs->length);
        if (!(attrs->reverse < 0))
            flx_a[flx_n++] = flx_attr_int("reverse", attrs->reverse);
        if (!(attrs->num_checkpoints == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("num_checkpoints", attrs->num_checkpoints);
        if (!(!attrs->wanted.v))
            flx_a[flx_n++] = flx_attr_ints("wanted", attrs->wanted);
        if (!(!attrs->seeded.v))
            flx_a[flx_n++] = flx_attr_ints("seeded", attrs->seeded);
    }
    return flx_op(g, "scan_replay_backward", operands, num_operands, flx_n ? flx_a : NULL, flx_n, results, capacity);
}

FLX_END_DECLS
#endif
