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

/* ---- elementwise ---- */

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

/** x rounded to a format with the given exponent and mantissa bits, ties to even; overflow becomes inf */
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

/** its operands; no pass moves anything across it, merges it or folds it */
static inline uint32_t flx_optimization_barrier(flx_graph *g, const flx_val *operands, size_t num_operands, flx_val *results, size_t capacity)
{
    return flx_op(g, "optimization_barrier", operands, num_operands, NULL, 0, results, capacity);
}

/** x; passes message and value to the host when it runs */
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

/** the larger; NaN if either operand is NaN; bool: or */
static inline flx_val flx_max(flx_graph *g, flx_val a, flx_val b)
{
    flx_val flx_x[2];
    flx_x[0] = a;
    flx_x[1] = b;
    return flx_op1(g, "max", flx_x, 2, NULL, 0);
}

/** the smaller; NaN if either operand is NaN; bool: and */
static inline flx_val flx_min(flx_graph *g, flx_val a, flx_val b)
{
    flx_val flx_x[2];
    flx_x[0] = a;
    flx_x[1] = b;
    return flx_op1(g, "min", flx_x, 2, NULL, 0);
}

/** a^b, 0^0 = 1; integers wrap, and b < 0 gives 0 unless a is 1 or -1 */
static inline flx_val flx_pow(flx_graph *g, flx_val a, flx_val b)
{
    flx_val flx_x[2];
    flx_x[0] = a;
    flx_x[1] = b;
    return flx_op1(g, "pow", flx_x, 2, NULL, 0);
}

/** a - b*trunc(a/b), sign of a; b = 0: NaN for floats, a for integers */
static inline flx_val flx_rem(flx_graph *g, flx_val a, flx_val b)
{
    flx_val flx_x[2];
    flx_x[0] = a;
    flx_x[1] = b;
    return flx_op1(g, "rem", flx_x, 2, NULL, 0);
}

/** a - b*floor(a/b), sign of b; b = 0: NaN for floats, a for integers */
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

/** the value of the dtype next to a in the direction of b; b if they are equal */
static inline flx_val flx_nextafter(flx_graph *g, flx_val a, flx_val b)
{
    flx_val flx_x[2];
    flx_x[0] = a;
    flx_x[1] = b;
    return flx_op1(g, "nextafter", flx_x, 2, NULL, 0);
}

/** min(max(x, lo), hi); NaN if any operand is NaN */
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

/** true if both are */
static inline flx_val flx_and(flx_graph *g, flx_val a, flx_val b)
{
    flx_val flx_x[2];
    flx_x[0] = a;
    flx_x[1] = b;
    return flx_op1(g, "and", flx_x, 2, NULL, 0);
}

/** true if at least one is */
static inline flx_val flx_or(flx_graph *g, flx_val a, flx_val b)
{
    flx_val flx_x[2];
    flx_x[0] = a;
    flx_x[1] = b;
    return flx_op1(g, "or", flx_x, 2, NULL, 0);
}

/** true if exactly one is */
static inline flx_val flx_xor(flx_graph *g, flx_val a, flx_val b)
{
    flx_val flx_x[2];
    flx_x[0] = a;
    flx_x[1] = b;
    return flx_op1(g, "xor", flx_x, 2, NULL, 0);
}

/** true if x is false */
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

/** bits of a shifted left by b; 0 unless 0 <= b < width */
static inline flx_val flx_shl(flx_graph *g, flx_val a, flx_val b)
{
    flx_val flx_x[2];
    flx_x[0] = a;
    flx_x[1] = b;
    return flx_op1(g, "shl", flx_x, 2, NULL, 0);
}

/** bits of a shifted right by b, filled with its top bit; all top bits unless 0 <= b < width */
static inline flx_val flx_shr_arith(flx_graph *g, flx_val a, flx_val b)
{
    flx_val flx_x[2];
    flx_x[0] = a;
    flx_x[1] = b;
    return flx_op1(g, "shr_arith", flx_x, 2, NULL, 0);
}

/** bits of a shifted right by b, filled with zeros; 0 unless 0 <= b < width */
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

/** a where c is nonzero (NaN is nonzero), b elsewhere */
static inline flx_val flx_where(flx_graph *g, flx_val c, flx_val a, flx_val b)
{
    flx_val flx_x[3];
    flx_x[0] = c;
    flx_x[1] = a;
    flx_x[2] = b;
    return flx_op1(g, "where", flx_x, 3, NULL, 0);
}

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

/** |x|; real for a complex operand; the lowest integer is unchanged */
static inline flx_val flx_abs(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "abs", flx_x, 1, NULL, 0);
}

/** -1, 0 or 1; zeros and NaN are unchanged; complex: x / |x|, 0 at 0 */
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

/** x without its fractional part */
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

/** re + i*im; c64 from f32, c128 from f64 */
static inline flx_val flx_complex(flx_graph *g, flx_val re, flx_val im)
{
    flx_val flx_x[2];
    flx_x[0] = re;
    flx_x[1] = im;
    return flx_op1(g, "complex", flx_x, 2, NULL, 0);
}

/** the real part; z itself for a real number */
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

/** re - i*im; z itself for a real number */
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


/* ---- shape ---- */

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

/** 0, 1, 2 … along axis, constant along the others; integers wrap */
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

/** x's elements in row-major order in another shape; one entry may be -1, which is inferred */
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

/** x with axes of extent 1 inserted at the given positions of the result */
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

/** elements start … start + len - 1 along axis */
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

/** x with value between neighbours (interior) and at the ends (low, high); negative low and high crop */
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

/** x with the order of elements reversed along the given axes */
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

/** the operands, of equal shape, along a new axis */
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

/** the slices along axis, without that axis */
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

/** a vector as diagonal k of a matrix of zeros; for more axes, diagonal k of the last two; diag_set always builds, diag_extract always reads a main diagonal */
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

/** repeats[k] copies of x, one after the other, along axis k */
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

/** each element `repeats` times in a row along axis */
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

/** result k is vector k broadcast over the grid of all; xy swaps the first two axes */
static inline uint32_t flx_meshgrid(flx_graph *g, const flx_val *operands, size_t num_operands, const char *indexing, flx_val *results, size_t capacity)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    if (!(!indexing))
        flx_a[flx_n++] = flx_attr_word("indexing", indexing);
    return flx_op(g, "meshgrid", operands, num_operands, flx_n ? flx_a : NULL, flx_n, results, capacity);
}


/* ---- reduce ---- */

/** sum over axes; 0 if empty; bool: or */
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

/** sum over axes / count; NaN if empty */
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

/** maximum over axes; NaN if any element is NaN; -inf or the type's minimum if empty; bool: or */
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

/** minimum over axes; NaN if any element is NaN; +inf or the type's maximum if empty; bool: and */
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

/** product over axes; 1 if empty; bool: and */
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

/** true if any element over axes is true */
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

/** true if all elements over axes are true */
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

/** position of the largest along axis; the lowest among ties; the first NaN if there is one */
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

/** position of the smallest along axis; the lowest among ties; the first NaN if there is one */
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

/** running maximum along axis, NaN from the first NaN on; exclusive starts from -inf or the type's minimum */
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

/** running minimum along axis, NaN from the first NaN on; exclusive starts from +inf or the type's maximum */
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

/** body applied to the elements of operands of equal shape */
static inline uint32_t flx_map(flx_graph *g, const flx_val *operands, size_t num_operands, const flx_graph *body, flx_val *results, size_t capacity)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    if (!(!body))
        flx_a[flx_n++] = flx_attr_graph("body", body);
    return flx_op(g, "map", operands, num_operands, flx_n ? flx_a : NULL, flx_n, results, capacity);
}

/** positions of the k largest along the last axis, largest first; top_k takes any axis and gives their values too */
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

/** the k largest along axis and their positions, largest first; topk gives the positions alone */
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

/** operands reordered together along axis, by the first num_keys of them; compare(a1, b1, ...) says whether a comes first */
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


/* ---- index ---- */

/** y[p, i, q] = table[p, idx[i], q]; the axes of idx replace the axis of table */
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

/** y has R rows of zeros, then y[idx[i]] += upd[i]; duplicates accumulate */
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

/** y[p, i, q] = x[p, idx[p, i, q], q], with i along the axis */
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

/** y[p, k, q] = 1 where k = i[p, q], else 0, for k = 0 to n - 1 */
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

/** y[o] = x[s + t + u]: s a start read from indices, t the batch position, u the position in the window */
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

/** the product of all operands, summed over the letters of eq that the result does not have */
static inline flx_val flx_einsum(flx_graph *g, const flx_val *operands, size_t num_operands, const char *eq)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    if (!(!eq))
        flx_a[flx_n++] = flx_attr_string("eq", eq);
    return flx_op1(g, "einsum", operands, num_operands, flx_n ? flx_a : NULL, flx_n);
}

/** y[i] = x[i] w[e[i]]; w is a list of matrices */
static inline flx_val flx_grouped_matmul(flx_graph *g, flx_val x, flx_val w, flx_val e, const char *oob)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[3];
    flx_x[0] = x;
    flx_x[1] = w;
    flx_x[2] = e;
    if (!(!oob))
        flx_a[flx_n++] = flx_attr_word("oob", oob);
    return flx_op1(g, "grouped_matmul", flx_x, 3, flx_n ? flx_a : NULL, flx_n);
}

/** the transpose of grouped_matmul in x: x[i] = dy[i] w[e[i]]^T */
static inline flx_val flx_grouped_matmul_input_backward(flx_graph *g, flx_val dy, flx_val w, flx_val e, const char *oob)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[3];
    flx_x[0] = dy;
    flx_x[1] = w;
    flx_x[2] = e;
    if (!(!oob))
        flx_a[flx_n++] = flx_attr_word("oob", oob);
    return flx_op1(g, "grouped_matmul_input_backward", flx_x, 3, flx_n ? flx_a : NULL, flx_n);
}

/** the transpose of grouped_matmul in w: w[k] = sum of x[i]^T dy[i] over the rows with e[i] = k, for E matrices */
static inline flx_val flx_grouped_matmul_weight_backward(flx_graph *g, flx_val x, flx_val dy, flx_val e, flx_dim E, const char *oob)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[3];
    flx_x[0] = x;
    flx_x[1] = dy;
    flx_x[2] = e;
    if (!(E == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("E", E);
    if (!(!oob))
        flx_a[flx_n++] = flx_attr_word("oob", oob);
    return flx_op1(g, "grouped_matmul_weight_backward", flx_x, 3, flx_n ? flx_a : NULL, flx_n);
}


/* ---- linalg ---- */

/** x with a x = b, for each matrix of a: b has the axes of a, or one less for vectors; dense_solve and batched_dense_solve are the same with the ranks fixed */
static inline flx_val flx_solve(flx_graph *g, flx_val a, flx_val b)
{
    flx_val flx_x[2];
    flx_x[0] = a;
    flx_x[1] = b;
    return flx_op1(g, "solve", flx_x, 2, NULL, 0);
}

/** solve(a, b) for one matrix a; b is a vector or a matrix */
static inline flx_val flx_dense_solve(flx_graph *g, flx_val a, flx_val b)
{
    flx_val flx_x[2];
    flx_x[0] = a;
    flx_x[1] = b;
    return flx_op1(g, "dense_solve", flx_x, 2, NULL, 0);
}

/** solve(a, b) for a of shape [B, N, N]; b is [B, N] or [B, N, K] */
static inline flx_val flx_batched_dense_solve(flx_graph *g, flx_val a, flx_val b)
{
    flx_val flx_x[2];
    flx_x[0] = a;
    flx_x[1] = b;
    return flx_op1(g, "batched_dense_solve", flx_x, 2, NULL, 0);
}

/** x with a x = b, or with a^T or a^H as trans says, from the factors of a returned by lu */
static inline flx_val flx_lu_solve(flx_graph *g, flx_val lu, flx_val perm, flx_val b, const char *trans)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[3];
    flx_x[0] = lu;
    flx_x[1] = perm;
    flx_x[2] = b;
    if (!(!trans))
        flx_a[flx_n++] = flx_attr_word("trans", trans);
    return flx_op1(g, "lu_solve", flx_x, 3, flx_n ? flx_a : NULL, flx_n);
}

/** the inverse of each matrix */
static inline flx_val flx_inv(flx_graph *g, flx_val a)
{
    flx_val flx_x[1];
    flx_x[0] = a;
    return flx_op1(g, "inv", flx_x, 1, NULL, 0);
}

/** a[perm] = L U: L is below the diagonal of lu, with an implicit unit diagonal, U is the rest; row k was exchanged with pivots[k] */
static inline void flx_lu(flx_graph *g, flx_val a, flx_val results[3])
{
    flx_val flx_x[1];
    flx_x[0] = a;
    flx_op(g, "lu", flx_x, 1, NULL, 0, results, 3);
}

/** the triangle l with l l^H = a, or l^H l = a if lower is false; only (a + a^H) / 2 is used */
static inline flx_val flx_cholesky(flx_graph *g, flx_val a, int lower)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = a;
    if (!(lower < 0))
        flx_a[flx_n++] = flx_attr_int("lower", lower);
    return flx_op1(g, "cholesky", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** the determinant of each matrix */
static inline flx_val flx_det(flx_graph *g, flx_val a)
{
    flx_val flx_x[1];
    flx_x[0] = a;
    return flx_op1(g, "det", flx_x, 1, NULL, 0);
}

/** the determinant as sign * exp(logabsdet), which cannot overflow; logabsdet is real */
static inline void flx_slogdet(flx_graph *g, flx_val a, flx_val results[2])
{
    flx_val flx_x[1];
    flx_x[0] = a;
    flx_op(g, "slogdet", flx_x, 1, NULL, 0, results, 2);
}

/** the logarithm of the absolute value of the determinant, a real number */
static inline flx_val flx_logdet(flx_graph *g, flx_val a)
{
    flx_val flx_x[1];
    flx_x[0] = a;
    return flx_op1(g, "logdet", flx_x, 1, NULL, 0);
}

/** det(a) a^-1 of each matrix, defined for singular matrices too */
static inline flx_val flx_adjugate(flx_graph *g, flx_val a)
{
    flx_val flx_x[1];
    flx_x[0] = a;
    return flx_op1(g, "adjugate", flx_x, 1, NULL, 0);
}

/** the sum of the diagonal of each matrix */
static inline flx_val flx_trace(flx_graph *g, flx_val a)
{
    flx_val flx_x[1];
    flx_x[0] = a;
    return flx_op1(g, "trace", flx_x, 1, NULL, 0);
}

/** the Kronecker product: each element of a times all of b, for matrices in the last two axes, or for two vectors */
static inline flx_val flx_kron(flx_graph *g, flx_val a, flx_val b)
{
    flx_val flx_x[2];
    flx_x[0] = a;
    flx_x[1] = b;
    return flx_op1(g, "kron", flx_x, 2, NULL, 0);
}

/** the product of n factors a; negative n: of the inverse; 0: the identity */
static inline flx_val flx_matrix_power(flx_graph *g, flx_val a, int64_t n)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = a;
    if (!(n == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("n", n);
    return flx_op1(g, "matrix_power", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** the main diagonal of each matrix; diag does the same for any diagonal k */
static inline flx_val flx_diag_extract(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "diag_extract", flx_x, 1, NULL, 0);
}

/** diagonal matrices with the last axis of x on their diagonals; diag builds one matrix from a vector */
static inline flx_val flx_diag_set(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "diag_set", flx_x, 1, NULL, 0);
}

/** the exponential of a matrix, 1 + a + a a / 2 + ..., computed in double */
static inline flx_val flx_expm(flx_graph *g, flx_val a)
{
    flx_val flx_x[1];
    flx_x[0] = a;
    return flx_op1(g, "expm", flx_x, 1, NULL, 0);
}

/** a = q r with q^H q = 1 and r upper triangular with a positive diagonal; reduced, not full */
static inline void flx_qr(flx_graph *g, flx_val a, flx_val results[2])
{
    flx_val flx_x[1];
    flx_x[0] = a;
    flx_op(g, "qr", flx_x, 1, NULL, 0, results, 2);
}

/** the product of the matrix with n rows and x, a vector or a matrix */
static inline flx_val flx_spmv(flx_graph *g, flx_val v, flx_val x, flx_ints rows, flx_ints cols, int64_t n)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = v;
    flx_x[1] = x;
    if (!(!rows.v))
        flx_a[flx_n++] = flx_attr_ints("rows", rows);
    if (!(!cols.v))
        flx_a[flx_n++] = flx_attr_ints("cols", cols);
    if (!(n == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("n", n);
    return flx_op1(g, "spmv", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}

/** y with a y = x, for the n x n matrix a; x is a vector or a matrix */
static inline flx_val flx_sparse_solve(flx_graph *g, flx_val v, flx_val x, flx_ints rows, flx_ints cols, int64_t n)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = v;
    flx_x[1] = x;
    if (!(!rows.v))
        flx_a[flx_n++] = flx_attr_ints("rows", rows);
    if (!(!cols.v))
        flx_a[flx_n++] = flx_attr_ints("cols", cols);
    if (!(n == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("n", n);
    return flx_op1(g, "sparse_solve", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}

/** x with op(t) x = b, or x op(t) = b, reading one triangle of t; trans selects op */
static inline flx_val flx_solve_triangular(flx_graph *g, flx_val t, flx_val b, int lower, const char *trans, int unit_diagonal, int left_side)
{
    flx_attr flx_a[4];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = t;
    flx_x[1] = b;
    if (!(lower < 0))
        flx_a[flx_n++] = flx_attr_int("lower", lower);
    if (!(!trans))
        flx_a[flx_n++] = flx_attr_word("trans", trans);
    if (!(unit_diagonal < 0))
        flx_a[flx_n++] = flx_attr_int("unit_diagonal", unit_diagonal);
    if (!(left_side < 0))
        flx_a[flx_n++] = flx_attr_int("left_side", left_side);
    return flx_op1(g, "solve_triangular", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}

/** the length of vectors, not a normalisation: (sum of |x|^ord)^(1/ord) over the axes; inf: the largest |x|, -inf: the smallest, 0: the number of nonzeros; real */
static inline flx_val flx_norm(flx_graph *g, flx_val x, double ord, flx_ints axes, int keep_dims)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(ord != ord))
        flx_a[flx_n++] = flx_attr_real("ord", ord);
    if (!(!axes.v))
        flx_a[flx_n++] = flx_attr_ints("axes", axes);
    if (!(keep_dims < 0))
        flx_a[flx_n++] = flx_attr_int("keep_dims", keep_dims);
    return flx_op1(g, "norm", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** the Hermitian part of a is v diag(w) v^H: w ascending and real, v unitary; in derivatives of v, equal eigenvalues contribute zero */
static inline void flx_eigh(flx_graph *g, flx_val a, flx_val results[2])
{
    flx_val flx_x[1];
    flx_x[0] = a;
    flx_op(g, "eigh", flx_x, 1, NULL, 0, results, 2);
}

/** eigenvalues of a, complex, ordered by real part, then imaginary part */
static inline flx_val flx_eig(flx_graph *g, flx_val a)
{
    flx_val flx_x[1];
    flx_x[0] = a;
    return flx_op1(g, "eig", flx_x, 1, NULL, 0);
}

/** eig with eigenvectors, the columns of v, each scaled so that its first component of at least half the largest modulus is 1 */
static inline void flx_eig_pairs(flx_graph *g, flx_val a, flx_val results[2])
{
    flx_val flx_x[1];
    flx_x[0] = a;
    flx_op(g, "eig_pairs", flx_x, 1, NULL, 0, results, 2);
}

/** a = u p with p = sqrt(a^H a) and u's columns or rows orthonormal */
static inline void flx_polar(flx_graph *g, flx_val a, flx_val results[2])
{
    flx_val flx_x[1];
    flx_x[0] = a;
    flx_op(g, "polar", flx_x, 1, NULL, 0, results, 2);
}

/** the largest singular value divided by the smallest; inf for a singular matrix, nan for an empty one */
static inline flx_val flx_cond(flx_graph *g, flx_val a)
{
    flx_val flx_x[1];
    flx_x[0] = a;
    return flx_op1(g, "cond", flx_x, 1, NULL, 0);
}

/** a = u diag(s) vt: s descending and real, as many as the smaller extent; the columns of u and the rows of vt are orthonormal */
static inline void flx_svd(flx_graph *g, flx_val a, flx_val results[3])
{
    flx_val flx_x[1];
    flx_x[0] = a;
    flx_op(g, "svd", flx_x, 1, NULL, 0, results, 3);
}

/** the pseudoinverse; singular values up to rcond times the largest count as 0 (default rcond: max(m, n) eps) */
static inline flx_val flx_pinv(flx_graph *g, flx_val a, double rcond)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = a;
    if (!(rcond != rcond))
        flx_a[flx_n++] = flx_attr_real("rcond", rcond);
    return flx_op1(g, "pinv", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** pinv(a) b: the shortest of all x that minimise |a x - b| */
static inline flx_val flx_lstsq(flx_graph *g, flx_val a, flx_val b)
{
    flx_val flx_x[2];
    flx_x[0] = a;
    flx_x[1] = b;
    return flx_op1(g, "lstsq", flx_x, 2, NULL, 0);
}


/* ---- implicit ---- */

/** solves body(x, params...) = b by conjugate gradients until |b - body(x)| <= tol |b|; body must be linear in x, Hermitian and positive definite */
static inline flx_val flx_cg(flx_graph *g, const flx_val *operands, size_t num_operands, const flx_graph *body, double tol, int64_t max_iterations)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    if (!(!body))
        flx_a[flx_n++] = flx_attr_graph("body", body);
    if (!(tol != tol))
        flx_a[flx_n++] = flx_attr_real("tol", tol);
    if (!(max_iterations == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("max_iterations", max_iterations);
    return flx_op1(g, "cg", operands, num_operands, flx_n ? flx_a : NULL, flx_n);
}

/** solves body(x, params...) = b by GMRES until |b - body(x)| <= tol |b|; body must be linear in x */
static inline flx_val flx_gmres(flx_graph *g, const flx_val *operands, size_t num_operands, const flx_graph *body, double tol, int64_t max_iterations)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    if (!(!body))
        flx_a[flx_n++] = flx_attr_graph("body", body);
    if (!(tol != tol))
        flx_a[flx_n++] = flx_attr_real("tol", tol);
    if (!(max_iterations == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("max_iterations", max_iterations);
    return flx_op1(g, "gmres", operands, num_operands, flx_n ? flx_a : NULL, flx_n);
}

/** solves x = body(x, params...) by iteration from x0 until a step is at most tol (1 + |x|) */
static inline flx_val flx_fixed_point(flx_graph *g, const flx_val *operands, size_t num_operands, const flx_graph *body, double tol, int64_t max_iterations)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    if (!(!body))
        flx_a[flx_n++] = flx_attr_graph("body", body);
    if (!(tol != tol))
        flx_a[flx_n++] = flx_attr_real("tol", tol);
    if (!(max_iterations == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("max_iterations", max_iterations);
    return flx_op1(g, "fixed_point", operands, num_operands, flx_n ? flx_a : NULL, flx_n);
}

/** solves body(x, params...) = 0 by Newton's method from x0 until a step is at most tol (1 + |x|) */
static inline flx_val flx_root(flx_graph *g, const flx_val *operands, size_t num_operands, const flx_graph *body, double tol, int64_t max_iterations)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    if (!(!body))
        flx_a[flx_n++] = flx_attr_graph("body", body);
    if (!(tol != tol))
        flx_a[flx_n++] = flx_attr_real("tol", tol);
    if (!(max_iterations == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("max_iterations", max_iterations);
    return flx_op1(g, "root", operands, num_operands, flx_n ? flx_a : NULL, flx_n);
}

/** ys[k] is the solution of y' = body(y, t, params...) at ts[k], starting with y0 at ts[0]; Runge-Kutta 5(4) with local errors below atol + rtol |y| */
static inline flx_val flx_odeint(flx_graph *g, const flx_val *operands, size_t num_operands, const flx_graph *body, double rtol, double atol)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    if (!(!body))
        flx_a[flx_n++] = flx_attr_graph("body", body);
    if (!(rtol != rtol))
        flx_a[flx_n++] = flx_attr_real("rtol", rtol);
    if (!(atol != atol))
        flx_a[flx_n++] = flx_attr_real("atol", atol);
    return flx_op1(g, "odeint", operands, num_operands, flx_n ? flx_a : NULL, flx_n);
}


/* ---- signal ---- */

/** the discrete Fourier transform of the last axis, which is [re..., im...] for real dtypes */
static inline flx_val flx_fft(flx_graph *g, flx_val x, int inverse, const char *norm)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(inverse < 0))
        flx_a[flx_n++] = flx_attr_int("inverse", inverse);
    if (!(!norm))
        flx_a[flx_n++] = flx_attr_word("norm", norm);
    return flx_op1(g, "fft", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** fft along axis */
static inline flx_val flx_fft_axis(flx_graph *g, flx_val x, int64_t axis, int inverse, const char *norm)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(axis == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("axis", axis);
    if (!(inverse < 0))
        flx_a[flx_n++] = flx_attr_int("inverse", inverse);
    if (!(!norm))
        flx_a[flx_n++] = flx_attr_word("norm", norm);
    return flx_op1(g, "fft_axis", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** fft along each of axes; several axes need complex numbers */
static inline flx_val flx_fftn(flx_graph *g, flx_val x, flx_ints axes, const char *norm)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(!axes.v))
        flx_a[flx_n++] = flx_attr_ints("axes", axes);
    if (!(!norm))
        flx_a[flx_n++] = flx_attr_word("norm", norm);
    return flx_op1(g, "fftn", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** the inverse of fftn */
static inline flx_val flx_ifftn(flx_graph *g, flx_val x, flx_ints axes, const char *norm)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(!axes.v))
        flx_a[flx_n++] = flx_attr_ints("axes", axes);
    if (!(!norm))
        flx_a[flx_n++] = flx_attr_word("norm", norm);
    return flx_op1(g, "ifftn", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** bins 0 to n//2 of the transform of a real signal, zero-padded or truncated to n */
static inline void flx_rfft(flx_graph *g, flx_val x, flx_dim n, const char *norm, flx_val results[2])
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(n == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("n", n);
    if (!(!norm))
        flx_a[flx_n++] = flx_attr_word("norm", norm);
    flx_op(g, "rfft", flx_x, 1, flx_n ? flx_a : NULL, flx_n, results, 2);
}

/** the real signal of length n with these bins; the imaginary parts of bins 0 and n/2 are ignored */
static inline flx_val flx_irfft(flx_graph *g, flx_val re, flx_val im, flx_dim n, const char *norm)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = re;
    flx_x[1] = im;
    if (!(n == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("n", n);
    if (!(!norm))
        flx_a[flx_n++] = flx_attr_word("norm", norm);
    return flx_op1(g, "irfft", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}

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

/** the transpose of conv in x: scatters z through w to an input of spatial extents input_size */
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

/** dy summed at the positions of pool_argmax(x), zero elsewhere; linear in dy, no derivative in x */
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

/** rfft of the frames of x that start every hop elements: [frames, .., 2*bins], re then im */
static inline flx_val flx_stft(flx_graph *g, flx_val x, flx_val window, int64_t frame_len, int64_t hop)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = x;
    flx_x[1] = window;
    size_t num_operands = 2;
    while (num_operands > 1 && !flx_x[num_operands - 1].id)
        num_operands--;
    if (!(frame_len == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("frame_len", frame_len);
    if (!(hop == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("hop", hop);
    return flx_op1(g, "stft", flx_x, num_operands, flx_n ? flx_a : NULL, flx_n);
}

/** (re^2 + im^2) / n */
static inline flx_val flx_psd(flx_graph *g, flx_val re, flx_val im, flx_dim n)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = re;
    flx_x[1] = im;
    if (!(n == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("n", n);
    return flx_op1(g, "psd", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}

/** the linear convolution along the last axes, of length len(a) + len(b) - 1, computed by Fourier transforms */
static inline flx_val flx_fft_conv1d(flx_graph *g, flx_val a, flx_val b)
{
    flx_val flx_x[2];
    flx_x[0] = a;
    flx_x[1] = b;
    return flx_op1(g, "fft_conv1d", flx_x, 2, NULL, 0);
}

/** the frequencies of the bins of fft: k/n for k < n/2, else (k - n)/n */
static inline flx_val flx_fftfreq(flx_graph *g, flx_dim n, flx_dtype dtype)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    if (!(n == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("n", n);
    if (!(dtype == FLX_DTYPE_NONE))
        flx_a[flx_n++] = flx_attr_dtype("dtype", dtype);
    return flx_op1(g, "fftfreq", NULL, 0, flx_n ? flx_a : NULL, flx_n);
}

/** the frequencies of the bins of rfft: k/n */
static inline flx_val flx_rfftfreq(flx_graph *g, flx_dim n, flx_dtype dtype)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    if (!(n == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("n", n);
    if (!(dtype == FLX_DTYPE_NONE))
        flx_a[flx_n++] = flx_attr_dtype("dtype", dtype);
    return flx_op1(g, "rfftfreq", NULL, 0, flx_n ? flx_a : NULL, flx_n);
}

/** log10(max(P filt^T, floor)), P the power in the bins 0 to N//2 of spec [.., 2N], filt [M, N//2 + 1] */
static inline flx_val flx_log_mel(flx_graph *g, flx_val spec, flx_val filt, double floor)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = spec;
    flx_x[1] = filt;
    if (!(floor != floor))
        flx_a[flx_n++] = flx_attr_real("floor", floor);
    return flx_op1(g, "log_mel", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}

/** the cotangent of log_mel's spec */
static inline flx_val flx_log_mel_backward(flx_graph *g, flx_val spec, flx_val filt, flx_val dy, double floor)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[3];
    flx_x[0] = spec;
    flx_x[1] = filt;
    flx_x[2] = dy;
    if (!(floor != floor))
        flx_a[flx_n++] = flx_attr_real("floor", floor);
    return flx_op1(g, "log_mel_backward", flx_x, 3, flx_n ? flx_a : NULL, flx_n);
}

/** (max(y, max(y) - range) + shift) / scale; the maximum is over all of y */
static inline flx_val flx_log_mel_normalize(flx_graph *g, flx_val y, double range, double shift, double scale)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = y;
    if (!(range != range))
        flx_a[flx_n++] = flx_attr_real("range", range);
    if (!(shift != shift))
        flx_a[flx_n++] = flx_attr_real("shift", shift);
    if (!(scale != scale))
        flx_a[flx_n++] = flx_attr_real("scale", scale);
    return flx_op1(g, "log_mel_normalize", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** the k bins with the largest mean power, largest first; spec is [segments, .., 2*bins], re then im */
static inline void flx_welch_peaks(flx_graph *g, flx_val spec, flx_dim k, flx_val results[2])
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = spec;
    if (!(k == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("k", k);
    flx_op(g, "welch_peaks", flx_x, 1, flx_n ? flx_a : NULL, flx_n, results, 2);
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

/** x1, ..., init1, ...: combine folded over each window, from init, in row-major order; padding is init */
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

/** each window of x keeps the position that select prefers; source is combined into a tensor of init at those positions */
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


/* ---- nn ---- */

typedef struct flx_attention_attrs {
    const char *layout; /* must be given */
    int64_t num_heads; /* from q */
    int64_t head_dim; /* from q */
    int64_t num_kv_heads; /* num_heads */
    const char *mask_kind; /* none */
    int64_t window; /* none */
    double score_scale; /* 1/√head_dim */
    double softcap; /* none */
} flx_attention_attrs;
#define FLX_ATTENTION_ATTRS {NULL, FLX_DEFAULT, FLX_DEFAULT, FLX_DEFAULT, NULL, FLX_DEFAULT, NAN, NAN}

/** softmax over the allowed keys of softcap*tanh(score_scale*q k^T / softcap) + bias, times v; 0 for a query without an allowed key. mask_kind=custom allows keys where mask >= 0.5, bias adds the mask */
static inline flx_val flx_attention(flx_graph *g, flx_val q, flx_val k, flx_val v, flx_val mask, const flx_attention_attrs *attrs)
{
    flx_attr flx_a[8];
    size_t flx_n = 0;
    flx_val flx_x[4];
    flx_x[0] = q;
    flx_x[1] = k;
    flx_x[2] = v;
    flx_x[3] = mask;
    size_t num_operands = 4;
    while (num_operands > 3 && !flx_x[num_operands - 1].id)
        num_operands--;
    if (attrs) {
        if (!(!attrs->layout))
            flx_a[flx_n++] = flx_attr_word("layout", attrs->layout);
        if (!(attrs->num_heads == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("num_heads", attrs->num_heads);
        if (!(attrs->head_dim == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("head_dim", attrs->head_dim);
        if (!(attrs->num_kv_heads == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("num_kv_heads", attrs->num_kv_heads);
        if (!(!attrs->mask_kind))
            flx_a[flx_n++] = flx_attr_word("mask_kind", attrs->mask_kind);
        if (!(attrs->window == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("window", attrs->window);
        if (!(attrs->score_scale != attrs->score_scale))
            flx_a[flx_n++] = flx_attr_real("score_scale", attrs->score_scale);
        if (!(attrs->softcap != attrs->softcap))
            flx_a[flx_n++] = flx_attr_real("softcap", attrs->softcap);
    }
    return flx_op1(g, "attention", flx_x, num_operands, flx_n ? flx_a : NULL, flx_n);
}

typedef struct flx_attention_backward_attrs {
    const char *wrt; /* must be given */
    const char *layout; /* must be given */
    int64_t num_heads; /* from q */
    int64_t head_dim; /* from q */
    int64_t num_kv_heads; /* num_heads */
    const char *mask_kind; /* none */
    int64_t window; /* none */
    double score_scale; /* 1/√head_dim */
    double softcap; /* none */
} flx_attention_backward_attrs;
#define FLX_ATTENTION_BACKWARD_ATTRS {NULL, NULL, FLX_DEFAULT, FLX_DEFAULT, FLX_DEFAULT, NULL, FLX_DEFAULT, NAN, NAN}

/** the cotangent of one operand of attention, from the result's cotangent dy */
static inline flx_val flx_attention_backward(flx_graph *g, flx_val q, flx_val k, flx_val v, flx_val dy, flx_val mask, const flx_attention_backward_attrs *attrs)
{
    flx_attr flx_a[9];
    size_t flx_n = 0;
    flx_val flx_x[5];
    flx_x[0] = q;
    flx_x[1] = k;
    flx_x[2] = v;
    flx_x[3] = dy;
    flx_x[4] = mask;
    size_t num_operands = 5;
    while (num_operands > 4 && !flx_x[num_operands - 1].id)
        num_operands--;
    if (attrs) {
        if (!(!attrs->wrt))
            flx_a[flx_n++] = flx_attr_word("wrt", attrs->wrt);
        if (!(!attrs->layout))
            flx_a[flx_n++] = flx_attr_word("layout", attrs->layout);
        if (!(attrs->num_heads == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("num_heads", attrs->num_heads);
        if (!(attrs->head_dim == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("head_dim", attrs->head_dim);
        if (!(attrs->num_kv_heads == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("num_kv_heads", attrs->num_kv_heads);
        if (!(!attrs->mask_kind))
            flx_a[flx_n++] = flx_attr_word("mask_kind", attrs->mask_kind);
        if (!(attrs->window == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("window", attrs->window);
        if (!(attrs->score_scale != attrs->score_scale))
            flx_a[flx_n++] = flx_attr_real("score_scale", attrs->score_scale);
        if (!(attrs->softcap != attrs->softcap))
            flx_a[flx_n++] = flx_attr_real("softcap", attrs->softcap);
    }
    return flx_op1(g, "attention_backward", flx_x, num_operands, flx_n ? flx_a : NULL, flx_n);
}

typedef struct flx_axial_rope2d_attrs {
    int64_t end_x; /* must be given */
    int64_t end_y; /* must be given */
    int64_t num_heads; /* must be given */
    double theta; /* 10000 */
    int64_t repeat_factor; /* 1 */
    const char *repeat_mode; /* tile */
} flx_axial_rope2d_attrs;
#define FLX_AXIAL_ROPE2D_ATTRS {FLX_DEFAULT, FLX_DEFAULT, FLX_DEFAULT, NAN, FLX_DEFAULT, NULL}

/** neighbours in each head of [N, S, H*D] rotated by px*f in its first half and by py*f in its second; (px, py) is the token's grid position, f = theta^(-4c/D) for pair c */
static inline flx_val flx_axial_rope2d(flx_graph *g, flx_val x, const flx_axial_rope2d_attrs *attrs)
{
    flx_attr flx_a[6];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (attrs) {
        if (!(attrs->end_x == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("end_x", attrs->end_x);
        if (!(attrs->end_y == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("end_y", attrs->end_y);
        if (!(attrs->num_heads == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("num_heads", attrs->num_heads);
        if (!(attrs->theta != attrs->theta))
            flx_a[flx_n++] = flx_attr_real("theta", attrs->theta);
        if (!(attrs->repeat_factor == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("repeat_factor", attrs->repeat_factor);
        if (!(!attrs->repeat_mode))
            flx_a[flx_n++] = flx_attr_word("repeat_mode", attrs->repeat_mode);
    }
    return flx_op1(g, "axial_rope2d", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** logsumexp(logits[n]) - logits[n, labels[n]] for logits [N, C]; oob=zero gives 0 for labels out of range */
static inline flx_val flx_softmax_cross_entropy_with_logits(flx_graph *g, flx_val logits, flx_val labels, const char *oob)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = logits;
    flx_x[1] = labels;
    if (!(!oob))
        flx_a[flx_n++] = flx_attr_word("oob", oob);
    return flx_op1(g, "softmax_cross_entropy_with_logits", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}

/** the cotangent of the logits, (softmax(logits) - onehot) dl */
static inline flx_val flx_softmax_cross_entropy_backward(flx_graph *g, flx_val logits, flx_val labels, flx_val dl, const char *oob)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[3];
    flx_x[0] = logits;
    flx_x[1] = labels;
    flx_x[2] = dl;
    if (!(!oob))
        flx_a[flx_n++] = flx_attr_word("oob", oob);
    return flx_op1(g, "softmax_cross_entropy_backward", flx_x, 3, flx_n ? flx_a : NULL, flx_n);
}

/** gamma (x - mean) / sqrt(variance + eps) + beta, with mean and variance of x along axis */
static inline flx_val flx_layer_norm(flx_graph *g, flx_val x, flx_val gamma, flx_val beta, int64_t axis, double eps)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[3];
    flx_x[0] = x;
    flx_x[1] = gamma;
    flx_x[2] = beta;
    if (!(axis == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("axis", axis);
    if (!(eps != eps))
        flx_a[flx_n++] = flx_attr_real("eps", eps);
    return flx_op1(g, "layer_norm", flx_x, 3, flx_n ? flx_a : NULL, flx_n);
}

/** gamma x / sqrt(mean of x^2 along axis + eps) + beta */
static inline flx_val flx_rms_norm(flx_graph *g, flx_val x, flx_val gamma, flx_val beta, int64_t axis, double eps)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[3];
    flx_x[0] = x;
    flx_x[1] = gamma;
    flx_x[2] = beta;
    size_t num_operands = 3;
    while (num_operands > 2 && !flx_x[num_operands - 1].id)
        num_operands--;
    if (!(axis == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("axis", axis);
    if (!(eps != eps))
        flx_a[flx_n++] = flx_attr_real("eps", eps);
    return flx_op1(g, "rms_norm", flx_x, num_operands, flx_n ? flx_a : NULL, flx_n);
}

/** layer_norm of x [N, C, ...] over each of num_groups runs of channels with all positions; gamma and beta per channel */
static inline flx_val flx_group_norm(flx_graph *g, flx_val x, flx_val gamma, flx_val beta, int64_t num_groups, double eps)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[3];
    flx_x[0] = x;
    flx_x[1] = gamma;
    flx_x[2] = beta;
    if (!(num_groups == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("num_groups", num_groups);
    if (!(eps != eps))
        flx_a[flx_n++] = flx_attr_real("eps", eps);
    return flx_op1(g, "group_norm", flx_x, 3, flx_n ? flx_a : NULL, flx_n);
}

/** layer_norm of x [N, C, ...] along the channels, at each position */
static inline flx_val flx_layer_norm2d(flx_graph *g, flx_val x, flx_val gamma, flx_val beta, double eps)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[3];
    flx_x[0] = x;
    flx_x[1] = gamma;
    flx_x[2] = beta;
    if (!(eps != eps))
        flx_a[flx_n++] = flx_attr_real("eps", eps);
    return flx_op1(g, "layer_norm2d", flx_x, 3, flx_n ? flx_a : NULL, flx_n);
}

/** gamma (x - mean) / sqrt(var + eps) + beta for x [N, C, ...], all four per channel */
static inline flx_val flx_batch_norm_inference(flx_graph *g, flx_val x, flx_val gamma, flx_val beta, flx_val mean, flx_val var, double eps)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[5];
    flx_x[0] = x;
    flx_x[1] = gamma;
    flx_x[2] = beta;
    flx_x[3] = mean;
    flx_x[4] = var;
    if (!(eps != eps))
        flx_a[flx_n++] = flx_attr_real("eps", eps);
    return flx_op1(g, "batch_norm_inference", flx_x, 5, flx_n ? flx_a : NULL, flx_n);
}

/** batch_norm_inference of x [N, C, ...] with its own mean and biased variance per channel, over all axes except 1; both have gamma's dtype */
static inline void flx_batch_norm_training(flx_graph *g, flx_val x, flx_val gamma, flx_val beta, double eps, flx_val results[3])
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[3];
    flx_x[0] = x;
    flx_x[1] = gamma;
    flx_x[2] = beta;
    if (!(eps != eps))
        flx_a[flx_n++] = flx_attr_real("eps", eps);
    flx_op(g, "batch_norm_training", flx_x, 3, flx_n ? flx_a : NULL, flx_n, results, 3);
}

/** the cotangent of layer_norm's x */
static inline flx_val flx_layer_norm_backward_input(flx_graph *g, flx_val x, flx_val gamma, flx_val dy, int64_t axis, double eps)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[3];
    flx_x[0] = x;
    flx_x[1] = gamma;
    flx_x[2] = dy;
    if (!(axis == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("axis", axis);
    if (!(eps != eps))
        flx_a[flx_n++] = flx_attr_real("eps", eps);
    return flx_op1(g, "layer_norm_backward_input", flx_x, 3, flx_n ? flx_a : NULL, flx_n);
}

/** the cotangent of layer_norm's gamma, in x's dtype */
static inline flx_val flx_layer_norm_backward_gamma(flx_graph *g, flx_val x, flx_val dy, int64_t axis, double eps)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = x;
    flx_x[1] = dy;
    if (!(axis == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("axis", axis);
    if (!(eps != eps))
        flx_a[flx_n++] = flx_attr_real("eps", eps);
    return flx_op1(g, "layer_norm_backward_gamma", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}

/** the cotangent of rms_norm's x */
static inline flx_val flx_rms_norm_backward_input(flx_graph *g, flx_val x, flx_val gamma, flx_val beta, flx_val dy, int64_t axis, double eps)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[4];
    flx_x[0] = x;
    flx_x[1] = gamma;
    flx_x[2] = beta;
    flx_x[3] = dy;
    if (!(axis == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("axis", axis);
    if (!(eps != eps))
        flx_a[flx_n++] = flx_attr_real("eps", eps);
    return flx_op1(g, "rms_norm_backward_input", flx_x, 4, flx_n ? flx_a : NULL, flx_n);
}

/** the cotangent of rms_norm's gamma, in its dtype */
static inline flx_val flx_rms_norm_backward_gamma(flx_graph *g, flx_val x, flx_val gamma, flx_val beta, flx_val dy, int64_t axis, double eps)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[4];
    flx_x[0] = x;
    flx_x[1] = gamma;
    flx_x[2] = beta;
    flx_x[3] = dy;
    if (!(axis == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("axis", axis);
    if (!(eps != eps))
        flx_a[flx_n++] = flx_attr_real("eps", eps);
    return flx_op1(g, "rms_norm_backward_gamma", flx_x, 4, flx_n ? flx_a : NULL, flx_n);
}

/** the cotangent of rms_norm's beta, in its dtype */
static inline flx_val flx_rms_norm_backward_beta(flx_graph *g, flx_val x, flx_val gamma, flx_val beta, flx_val dy, int64_t axis, double eps)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[4];
    flx_x[0] = x;
    flx_x[1] = gamma;
    flx_x[2] = beta;
    flx_x[3] = dy;
    if (!(axis == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("axis", axis);
    if (!(eps != eps))
        flx_a[flx_n++] = flx_attr_real("eps", eps);
    return flx_op1(g, "rms_norm_backward_beta", flx_x, 4, flx_n ? flx_a : NULL, flx_n);
}

/** the cotangent of group_norm's x */
static inline flx_val flx_group_norm_backward_input(flx_graph *g, flx_val x, flx_val gamma, flx_val beta, flx_val dy, int64_t num_groups, double eps)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[4];
    flx_x[0] = x;
    flx_x[1] = gamma;
    flx_x[2] = beta;
    flx_x[3] = dy;
    if (!(num_groups == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("num_groups", num_groups);
    if (!(eps != eps))
        flx_a[flx_n++] = flx_attr_real("eps", eps);
    return flx_op1(g, "group_norm_backward_input", flx_x, 4, flx_n ? flx_a : NULL, flx_n);
}

/** the cotangent of group_norm's gamma, in x's dtype */
static inline flx_val flx_group_norm_backward_gamma(flx_graph *g, flx_val x, flx_val dy, int64_t num_groups, double eps)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = x;
    flx_x[1] = dy;
    if (!(num_groups == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("num_groups", num_groups);
    if (!(eps != eps))
        flx_a[flx_n++] = flx_attr_real("eps", eps);
    return flx_op1(g, "group_norm_backward_gamma", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}

/** the cotangent of group_norm's beta, in x's dtype */
static inline flx_val flx_group_norm_backward_beta(flx_graph *g, flx_val x, flx_val dy, int64_t num_groups, double eps)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = x;
    flx_x[1] = dy;
    if (!(num_groups == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("num_groups", num_groups);
    if (!(eps != eps))
        flx_a[flx_n++] = flx_attr_real("eps", eps);
    return flx_op1(g, "group_norm_backward_beta", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}

/** the cotangent of batch_norm_inference's x */
static inline flx_val flx_batch_norm_inference_backward_input(flx_graph *g, flx_val x, flx_val gamma, flx_val mean, flx_val var, flx_val dy, double eps)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[5];
    flx_x[0] = x;
    flx_x[1] = gamma;
    flx_x[2] = mean;
    flx_x[3] = var;
    flx_x[4] = dy;
    if (!(eps != eps))
        flx_a[flx_n++] = flx_attr_real("eps", eps);
    return flx_op1(g, "batch_norm_inference_backward_input", flx_x, 5, flx_n ? flx_a : NULL, flx_n);
}

/** the cotangent of batch_norm_inference's gamma, in x's dtype */
static inline flx_val flx_batch_norm_inference_backward_gamma(flx_graph *g, flx_val x, flx_val mean, flx_val var, flx_val dy, double eps)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[4];
    flx_x[0] = x;
    flx_x[1] = mean;
    flx_x[2] = var;
    flx_x[3] = dy;
    if (!(eps != eps))
        flx_a[flx_n++] = flx_attr_real("eps", eps);
    return flx_op1(g, "batch_norm_inference_backward_gamma", flx_x, 4, flx_n ? flx_a : NULL, flx_n);
}

/** the cotangent of batch_norm_inference's beta, in dy's dtype */
static inline flx_val flx_batch_norm_inference_backward_beta(flx_graph *g, flx_val dy, double eps)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = dy;
    if (!(eps != eps))
        flx_a[flx_n++] = flx_attr_real("eps", eps);
    return flx_op1(g, "batch_norm_inference_backward_beta", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** y[N, S, H] = sum over n of c h, where h[N, H, n] = exp(delta a) h + delta b x for each token, starting at 0 */
static inline flx_val flx_selective_scan(flx_graph *g, flx_val x, flx_val delta, flx_val a, flx_val b, flx_val c)
{
    flx_val flx_x[5];
    flx_x[0] = x;
    flx_x[1] = delta;
    flx_x[2] = a;
    flx_x[3] = b;
    flx_x[4] = c;
    return flx_op1(g, "selective_scan", flx_x, 5, NULL, 0);
}

/** for each token T = exp(gamma) T, T = T + k (v - k T) beta, y = q T / sqrt(n), with T[N, H, n, n] starting at state or 0; with carry_state the last T is a second result */
static inline uint32_t flx_gated_delta_net(flx_graph *g, flx_val q, flx_val k, flx_val v, flx_val gamma, flx_val beta, flx_val state, int carry_state, flx_val *results, size_t capacity)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[6];
    flx_x[0] = q;
    flx_x[1] = k;
    flx_x[2] = v;
    flx_x[3] = gamma;
    flx_x[4] = beta;
    flx_x[5] = state;
    size_t num_operands = 6;
    while (num_operands > 5 && !flx_x[num_operands - 1].id)
        num_operands--;
    if (!(carry_state < 0))
        flx_a[flx_n++] = flx_attr_int("carry_state", carry_state);
    return flx_op(g, "gated_delta_net", flx_x, num_operands, flx_n ? flx_a : NULL, flx_n, results, capacity);
}

/** elements i and i + n_rot/2 of each head rotated by the angle whose cosine and sine are in the tables for its token; elements from n_rot on are unchanged */
static inline flx_val flx_rope(flx_graph *g, flx_val x, flx_val cos, flx_val sin, const char *layout, int64_t head_dim, int64_t n_rot, int64_t num_heads)
{
    flx_attr flx_a[4];
    size_t flx_n = 0;
    flx_val flx_x[3];
    flx_x[0] = x;
    flx_x[1] = cos;
    flx_x[2] = sin;
    if (!(!layout))
        flx_a[flx_n++] = flx_attr_word("layout", layout);
    if (!(head_dim == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("head_dim", head_dim);
    if (!(n_rot == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("n_rot", n_rot);
    if (!(num_heads == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("num_heads", num_heads);
    return flx_op1(g, "rope", flx_x, 3, flx_n ? flx_a : NULL, flx_n);
}

/** rope(dy, cos, -sin): the cotangent of rope's x */
static inline flx_val flx_rope_backward(flx_graph *g, flx_val dy, flx_val cos, flx_val sin, const char *layout, int64_t head_dim, int64_t n_rot, int64_t num_heads)
{
    flx_attr flx_a[4];
    size_t flx_n = 0;
    flx_val flx_x[3];
    flx_x[0] = dy;
    flx_x[1] = cos;
    flx_x[2] = sin;
    if (!(!layout))
        flx_a[flx_n++] = flx_attr_word("layout", layout);
    if (!(head_dim == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("head_dim", head_dim);
    if (!(n_rot == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("n_rot", n_rot);
    if (!(num_heads == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("num_heads", num_heads);
    return flx_op1(g, "rope_backward", flx_x, 3, flx_n ? flx_a : NULL, flx_n);
}


/* ---- quant ---- */

/** round(x / scale) + zero_point as i8, saturated; the derivative is 1 / scale in range, else 0 */
static inline flx_val flx_quantize(flx_graph *g, flx_val x, flx_reals scales, flx_ints zero_points, int64_t axis)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(!scales.v))
        flx_a[flx_n++] = flx_attr_reals("scales", scales);
    if (!(!zero_points.v))
        flx_a[flx_n++] = flx_attr_ints("zero_points", zero_points);
    if (!(axis == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("axis", axis);
    return flx_op1(g, "quantize", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** (q - zero_point) * scale */
static inline flx_val flx_dequantize(flx_graph *g, flx_val q, flx_reals scales, flx_ints zero_points, int64_t axis, flx_dtype dtype)
{
    flx_attr flx_a[4];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = q;
    if (!(!scales.v))
        flx_a[flx_n++] = flx_attr_reals("scales", scales);
    if (!(!zero_points.v))
        flx_a[flx_n++] = flx_attr_ints("zero_points", zero_points);
    if (!(axis == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("axis", axis);
    if (!(dtype == FLX_DTYPE_NONE))
        flx_a[flx_n++] = flx_attr_dtype("dtype", dtype);
    return flx_op1(g, "dequantize", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** matmul of x with the matrix packed in w as scheme says; side has its scales, and zero points or a global scale */
static inline flx_val flx_dequant_matmul(flx_graph *g, const flx_val *operands, size_t num_operands, const char *scheme, int64_t bs)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    if (!(!scheme))
        flx_a[flx_n++] = flx_attr_word("scheme", scheme);
    if (!(bs == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("bs", bs);
    return flx_op1(g, "dequant_matmul", operands, num_operands, flx_n ? flx_a : NULL, flx_n);
}

/** y[i] = x[i] times matrix e[i] of those packed in w */
static inline flx_val flx_dequant_grouped_matmul(flx_graph *g, flx_val x, flx_val w, flx_val e, const char *scheme, flx_dim N)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[3];
    flx_x[0] = x;
    flx_x[1] = w;
    flx_x[2] = e;
    if (!(!scheme))
        flx_a[flx_n++] = flx_attr_word("scheme", scheme);
    if (!(N == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("N", N);
    return flx_op1(g, "dequant_grouped_matmul", flx_x, 3, flx_n ? flx_a : NULL, flx_n);
}

/** E packed matrices of N rows of K numbers as f32 [E, K, N]: y[e, p, j] is number p of row j of matrix e */
static inline flx_val flx_dequant_moe_weights(flx_graph *g, flx_val w, const char *scheme, flx_dim E, flx_dim K, flx_dim N)
{
    flx_attr flx_a[4];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = w;
    if (!(!scheme))
        flx_a[flx_n++] = flx_attr_word("scheme", scheme);
    if (!(E == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("E", E);
    if (!(K == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("K", K);
    if (!(N == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("N", N);
    return flx_op1(g, "dequant_moe_weights", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

typedef struct flx_fake_quantize_attrs {
    int64_t bits; /* 8 */
    int64_t axis; /* none */
    const char *ste; /* clipped_identity */
    const char *scale_mode; /* per_batch */
    double decay; /* 0.9 */
} flx_fake_quantize_attrs;
#define FLX_FAKE_QUANTIZE_ATTRS {FLX_DEFAULT, FLX_DEFAULT, NULL, NULL, NAN}

/** x rounded to a grid of 2^bits - 1 multiples of a scale: y, and for scale_mode=ema the new state; ste selects the derivative */
static inline uint32_t flx_fake_quantize(flx_graph *g, flx_val x, flx_val state, const flx_fake_quantize_attrs *attrs, flx_val *results, size_t capacity)
{
    flx_attr flx_a[5];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = x;
    flx_x[1] = state;
    size_t num_operands = 2;
    while (num_operands > 1 && !flx_x[num_operands - 1].id)
        num_operands--;
    if (attrs) {
        if (!(attrs->bits == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("bits", attrs->bits);
        if (!(attrs->axis == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("axis", attrs->axis);
        if (!(!attrs->ste))
            flx_a[flx_n++] = flx_attr_word("ste", attrs->ste);
        if (!(!attrs->scale_mode))
            flx_a[flx_n++] = flx_attr_word("scale_mode", attrs->scale_mode);
        if (!(attrs->decay != attrs->decay))
            flx_a[flx_n++] = flx_attr_real("decay", attrs->decay);
    }
    return flx_op(g, "fake_quantize", flx_x, num_operands, flx_n ? flx_a : NULL, flx_n, results, capacity);
}

typedef struct flx_fake_quantize_backward_attrs {
    int64_t bits; /* 8 */
    int64_t axis; /* none */
    const char *ste; /* clipped_identity */
    const char *scale_mode; /* per_batch */
    double decay; /* 0.9 */
} flx_fake_quantize_backward_attrs;
#define FLX_FAKE_QUANTIZE_BACKWARD_ATTRS {FLX_DEFAULT, FLX_DEFAULT, NULL, NULL, NAN}

/** dy times the derivative of fake_quantize; s is the scale that it used, or the fixed state */
static inline flx_val flx_fake_quantize_backward(flx_graph *g, flx_val x, flx_val dy, flx_val s, const flx_fake_quantize_backward_attrs *attrs)
{
    flx_attr flx_a[5];
    size_t flx_n = 0;
    flx_val flx_x[3];
    flx_x[0] = x;
    flx_x[1] = dy;
    flx_x[2] = s;
    size_t num_operands = 3;
    while (num_operands > 2 && !flx_x[num_operands - 1].id)
        num_operands--;
    if (attrs) {
        if (!(attrs->bits == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("bits", attrs->bits);
        if (!(attrs->axis == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("axis", attrs->axis);
        if (!(!attrs->ste))
            flx_a[flx_n++] = flx_attr_word("ste", attrs->ste);
        if (!(!attrs->scale_mode))
            flx_a[flx_n++] = flx_attr_word("scale_mode", attrs->scale_mode);
        if (!(attrs->decay != attrs->decay))
            flx_a[flx_n++] = flx_attr_real("decay", attrs->decay);
    }
    return flx_op1(g, "fake_quantize_backward", flx_x, num_operands, flx_n ? flx_a : NULL, flx_n);
}

/** x rounded to multiples of s, which is learned: its derivative is grad_scale (round(z) - z), z = x / s */
static inline flx_val flx_fake_quantize_lsq(flx_graph *g, flx_val x, flx_val s, int64_t bits, int64_t axis, double grad_scale)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = x;
    flx_x[1] = s;
    if (!(bits == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("bits", bits);
    if (!(axis == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("axis", axis);
    if (!(grad_scale != grad_scale))
        flx_a[flx_n++] = flx_attr_real("grad_scale", grad_scale);
    return flx_op1(g, "fake_quantize_lsq", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}

/** dy where fake_quantize_lsq does not clamp */
static inline flx_val flx_fake_quantize_lsq_backward_x(flx_graph *g, flx_val x, flx_val s, flx_val dy, int64_t bits, int64_t axis, double grad_scale)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    flx_val flx_x[3];
    flx_x[0] = x;
    flx_x[1] = s;
    flx_x[2] = dy;
    if (!(bits == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("bits", bits);
    if (!(axis == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("axis", axis);
    if (!(grad_scale != grad_scale))
        flx_a[flx_n++] = flx_attr_real("grad_scale", grad_scale);
    return flx_op1(g, "fake_quantize_lsq_backward_x", flx_x, 3, flx_n ? flx_a : NULL, flx_n);
}

/** the cotangent of fake_quantize_lsq's s, summed over each channel */
static inline flx_val flx_fake_quantize_lsq_backward_scale(flx_graph *g, flx_val x, flx_val s, flx_val dy, int64_t bits, int64_t axis, double grad_scale)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    flx_val flx_x[3];
    flx_x[0] = x;
    flx_x[1] = s;
    flx_x[2] = dy;
    if (!(bits == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("bits", bits);
    if (!(axis == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("axis", axis);
    if (!(grad_scale != grad_scale))
        flx_a[flx_n++] = flx_attr_real("grad_scale", grad_scale);
    return flx_op1(g, "fake_quantize_lsq_backward_scale", flx_x, 3, flx_n ? flx_a : NULL, flx_n);
}

/** round((bias + matmul(x - x_zp, w - w_zp)) * mult) + out_zp as i8, saturated */
static inline flx_val flx_q_matmul(flx_graph *g, flx_val x, flx_val w, flx_val bias, double mult, int64_t x_zp, int64_t w_zp, int64_t out_zp)
{
    flx_attr flx_a[4];
    size_t flx_n = 0;
    flx_val flx_x[3];
    flx_x[0] = x;
    flx_x[1] = w;
    flx_x[2] = bias;
    if (!(mult != mult))
        flx_a[flx_n++] = flx_attr_real("mult", mult);
    if (!(x_zp == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("x_zp", x_zp);
    if (!(w_zp == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("w_zp", w_zp);
    if (!(out_zp == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("out_zp", out_zp);
    return flx_op1(g, "q_matmul", flx_x, 3, flx_n ? flx_a : NULL, flx_n);
}

typedef struct flx_q_conv_attrs {
    double mult; /* must be given */
    int64_t x_zp; /* 0 */
    int64_t w_zp; /* 0 */
    int64_t out_zp; /* 0 */
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
} flx_q_conv_attrs;
#define FLX_Q_CONV_ATTRS {NAN, FLX_DEFAULT, FLX_DEFAULT, FLX_DEFAULT, {NULL, 0}, {NULL, 0}, {NULL, 0}, FLX_DEFAULT, {NULL, 0}, FLX_DEFAULT, {NULL, 0}, {NULL, 0}, {NULL, 0}, {NULL, 0}}

/** round((bias + conv(x - x_zp, w - w_zp)) * mult) + out_zp as i8, saturated; padding is x_zp */
static inline flx_val flx_q_conv(flx_graph *g, flx_val x, flx_val w, flx_val bias, const flx_q_conv_attrs *attrs)
{
    flx_attr flx_a[14];
    size_t flx_n = 0;
    flx_val flx_x[3];
    flx_x[0] = x;
    flx_x[1] = w;
    flx_x[2] = bias;
    if (attrs) {
        if (!(attrs->mult != attrs->mult))
            flx_a[flx_n++] = flx_attr_real("mult", attrs->mult);
        if (!(attrs->x_zp == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("x_zp", attrs->x_zp);
        if (!(attrs->w_zp == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("w_zp", attrs->w_zp);
        if (!(attrs->out_zp == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("out_zp", attrs->out_zp);
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
    return flx_op1(g, "q_conv", flx_x, 3, flx_n ? flx_a : NULL, flx_n);
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

/** element i is word i of key's stream 0, for 64-bit dtypes words 2i, 2i + 1, low first, for narrow dtypes its low bits; a block is 4 words (threefry2x32: 2) */
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

/** state u64[2] (key, block) or philox u64[3] (key, 128-bit block), or the same as u32[4], u32[6]; returns the next state and the bits of the blocks from the given one on. A short Philox state has key as the high half of its counter; Threefry's two words, where each is an element, are neighbours along the first even (else longest) axis */
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

/** an i32 index drawn from softmax(logits / temperature) along the last axis, restricted to top_k entries and top_p of probability; row r uses stream r */
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

/** u < p, with p broadcast to shape and u drawn like rng_uniform in p's dtype */
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

/** -log1p(-u), rate 1; u drawn like rng_uniform */
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

/** Gamma(a, 1), a broadcast to shape: Marsaglia and Tsang's rejection method, independent for each element; NaN for a <= 0 */
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

/** c = body(c) as long as cond(c) is true, at most max_iterations times */
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

typedef struct flx_custom_fn_attrs {
    const flx_graph *fwd_body; /* must be given */
    const flx_graph *vjp_body; /* none */
    const flx_graph *jvp_body; /* none */
    int64_t num_residuals; /* 0 */
    flx_ints zero_grads; /* [] */
    int recompute; /* false */
} flx_custom_fn_attrs;
#define FLX_CUSTOM_FN_ATTRS {NULL, NULL, NULL, FLX_DEFAULT, {NULL, 0}, -1}

/** fwd_body(x...) with user-defined derivatives; with recompute, reverse mode recomputes intermediate values instead of keeping them */
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

/** operands are carries, broadcast inputs, sequences; step t: carries, ys[t] = body(carries, broadcasts, xs[t]); returns the final carries (or their trajectories), then the stacked ys */
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

/** the vjp of while: operands are its carries, then a cotangent for each floating carry; returns the cotangents of the initial carries */
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

typedef struct flx_scan_backward_attrs {
    const flx_graph *body; /* must be given */
    const flx_graph *body_vjp; /* must be given */
    int64_t num_carry; /* 1 */
    int64_t num_bcast; /* 0 */
    flx_dim length; /* extent of the trajectory */
    int reverse; /* false */
    int save_trajectory; /* false */
    flx_ints wanted; /* all floating inputs */
    flx_ints seeded; /* all floating outputs */
} flx_scan_backward_attrs;
#define FLX_SCAN_BACKWARD_ATTRS {NULL, NULL, FLX_DEFAULT, FLX_DEFAULT, FLX_DEFAULT, -1, -1, {NULL, 0}, {NULL, 0}}

/** the cotangents of a scan's initial carries, then of its wanted broadcast inputs: operands are init..., trajectory... (row t: the carry after step t), upstream... (a cotangent for each seeded output of the body), bcast..., xs... */
static inline uint32_t flx_scan_backward(flx_graph *g, const flx_val *operands, size_t num_operands, const flx_scan_backward_attrs *attrs, flx_val *results, size_t capacity)
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
        if (!(attrs->save_trajectory < 0))
            flx_a[flx_n++] = flx_attr_int("save_trajectory", attrs->save_trajectory);
        if (!(!attrs->wanted.v))
            flx_a[flx_n++] = flx_attr_ints("wanted", attrs->wanted);
        if (!(!attrs->seeded.v))
            flx_a[flx_n++] = flx_attr_ints("seeded", attrs->seeded);
    }
    return flx_op(g, "scan_backward", operands, num_operands, flx_n ? flx_a : NULL, flx_n, results, capacity);
}

typedef struct flx_scan_backward_xs_attrs {
    const flx_graph *body; /* must be given */
    const flx_graph *body_vjp; /* must be given */
    int64_t num_carry; /* 1 */
    int64_t num_bcast; /* 0 */
    flx_dim length; /* extent of the trajectory */
    int reverse; /* false */
    int save_trajectory; /* false */
    flx_ints wanted; /* all floating inputs */
    flx_ints seeded; /* all floating outputs */
    int64_t i; /* 0 */
} flx_scan_backward_xs_attrs;
#define FLX_SCAN_BACKWARD_XS_ATTRS {NULL, NULL, FLX_DEFAULT, FLX_DEFAULT, FLX_DEFAULT, -1, -1, {NULL, 0}, {NULL, 0}, FLX_DEFAULT}

/** the cotangent of a scan's sequence i; operands as for scan_backward */
static inline flx_val flx_scan_backward_xs(flx_graph *g, const flx_val *operands, size_t num_operands, const flx_scan_backward_xs_attrs *attrs)
{
    flx_attr flx_a[10];
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
        if (!(attrs->save_trajectory < 0))
            flx_a[flx_n++] = flx_attr_int("save_trajectory", attrs->save_trajectory);
        if (!(!attrs->wanted.v))
            flx_a[flx_n++] = flx_attr_ints("wanted", attrs->wanted);
        if (!(!attrs->seeded.v))
            flx_a[flx_n++] = flx_attr_ints("seeded", attrs->seeded);
        if (!(attrs->i == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("i", attrs->i);
    }
    return flx_op1(g, "scan_backward_xs", operands, num_operands, flx_n ? flx_a : NULL, flx_n);
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

/** the vjp of a scan that keeps num_checkpoints carries and recomputes the others: operands are those of the scan, then cotangents of the seeded outputs; returns cotangents of the wanted inputs */
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


/* ---- custom ---- */

typedef struct flx_kernel_call_attrs {
    const char *kernel; /* must be given */
    const char *inputs; /* "" */
    const char *results; /* "" */
    flx_types outputs; /* from the counts of the results */
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

/** the operation that the program registered under this name, with attributes of its own */
static inline uint32_t flx_custom(flx_graph *g, const flx_val *operands, size_t num_operands, const char *name, int effect, const char *attrs, flx_val *results, size_t capacity)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    if (!(!name))
        flx_a[flx_n++] = flx_attr_string("name", name);
    if (!(effect < 0))
        flx_a[flx_n++] = flx_attr_int("effect", effect);
    if (!(!attrs))
        flx_a[flx_n++] = flx_attr_string("attrs", attrs);
    return flx_op(g, "custom", operands, num_operands, flx_n ? flx_a : NULL, flx_n, results, capacity);
}


/* ---- collective ---- */

/** sum, max, min or mean of x over all processes along the axis of the mesh */
static inline flx_val flx_all_reduce(flx_graph *g, flx_val x, const char *axis_name, const char *op)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(!axis_name))
        flx_a[flx_n++] = flx_attr_string("axis_name", axis_name);
    if (!(!op))
        flx_a[flx_n++] = flx_attr_word("op", op);
    return flx_op1(g, "all_reduce", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** x of all processes joined along axis */
static inline flx_val flx_all_gather(flx_graph *g, flx_val x, const char *axis_name, int64_t axis)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(!axis_name))
        flx_a[flx_n++] = flx_attr_string("axis_name", axis_name);
    if (!(axis == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("axis", axis);
    return flx_op1(g, "all_gather", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** the sum of x over all processes, cut along axis: each process gets its part */
static inline flx_val flx_reduce_scatter(flx_graph *g, flx_val x, const char *axis_name, int64_t axis)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(!axis_name))
        flx_a[flx_n++] = flx_attr_string("axis_name", axis_name);
    if (!(axis == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("axis", axis);
    return flx_op1(g, "reduce_scatter", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** x cut along split_axis, one part for each process; the received parts are joined along concat_axis */
static inline flx_val flx_all_to_all(flx_graph *g, flx_val x, const char *axis_name, int64_t split_axis, int64_t concat_axis)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(!axis_name))
        flx_a[flx_n++] = flx_attr_string("axis_name", axis_name);
    if (!(split_axis == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("split_axis", split_axis);
    if (!(concat_axis == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("concat_axis", concat_axis);
    return flx_op1(g, "all_to_all", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** x of process root, on every process */
static inline flx_val flx_broadcast(flx_graph *g, flx_val x, const char *axis_name, int64_t root)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(!axis_name))
        flx_a[flx_n++] = flx_attr_string("axis_name", axis_name);
    if (!(root == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("root", root);
    return flx_op1(g, "broadcast", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** x; process `to` receives it */
static inline flx_val flx_send(flx_graph *g, flx_val x, const char *axis_name, int64_t to)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(!axis_name))
        flx_a[flx_n++] = flx_attr_string("axis_name", axis_name);
    if (!(to == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("to", to);
    return flx_op1(g, "send", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** the value that process `from` sent to this one; zeros if it sent nothing */
static inline flx_val flx_recv(flx_graph *g, const char *axis_name, int64_t from, const flx_type *type)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    if (!(!axis_name))
        flx_a[flx_n++] = flx_attr_string("axis_name", axis_name);
    if (!(from == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("from", from);
    if (!(!type))
        flx_a[flx_n++] = flx_attr_type("type", type);
    return flx_op1(g, "recv", NULL, 0, flx_n ? flx_a : NULL, flx_n);
}

/** its operands, once all processes have reached this op */
static inline uint32_t flx_barrier(flx_graph *g, const flx_val *operands, size_t num_operands, flx_val *results, size_t capacity)
{
    return flx_op(g, "barrier", operands, num_operands, NULL, 0, results, capacity);
}

/** the i32 index of this process along the axis of the mesh */
static inline flx_val flx_axis_index(flx_graph *g, const char *axis_name)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    if (!(!axis_name))
        flx_a[flx_n++] = flx_attr_string("axis_name", axis_name);
    return flx_op1(g, "axis_index", NULL, 0, flx_n ? flx_a : NULL, flx_n);
}


/* ---- splat ---- */

typedef struct flx_gaussian_splat_render_attrs {
    int64_t width; /* must be given */
    int64_t height; /* must be given */
    int64_t tile_size; /* must be given */
    double radius_scale; /* must be given */
    double alpha_cutoff; /* must be given */
    int64_t max_splat_steps; /* must be given */
    double transmittance_threshold; /* must be given */
    int64_t max_list_entries; /* must be given */
} flx_gaussian_splat_render_attrs;
#define FLX_GAUSSIAN_SPLAT_RENDER_ATTRS {FLX_DEFAULT, FLX_DEFAULT, FLX_DEFAULT, NAN, NAN, FLX_DEFAULT, NAN, FLX_DEFAULT}

/** an image [height*width*4] of n splats: colour accumulated along each ray, then coverage */
static inline flx_val flx_gaussian_splat_render(flx_graph *g, flx_val positions, flx_val log_scales, flx_val rotations, flx_val opacity, flx_val colours, flx_val sh, flx_val meta, const flx_gaussian_splat_render_attrs *attrs)
{
    flx_attr flx_a[8];
    size_t flx_n = 0;
    flx_val flx_x[7];
    flx_x[0] = positions;
    flx_x[1] = log_scales;
    flx_x[2] = rotations;
    flx_x[3] = opacity;
    flx_x[4] = colours;
    flx_x[5] = sh;
    flx_x[6] = meta;
    if (attrs) {
        if (!(attrs->width == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("width", attrs->width);
        if (!(attrs->height == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("height", attrs->height);
        if (!(attrs->tile_size == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("tile_size", attrs->tile_size);
        if (!(attrs->radius_scale != attrs->radius_scale))
            flx_a[flx_n++] = flx_attr_real("radius_scale", attrs->radius_scale);
        if (!(attrs->alpha_cutoff != attrs->alpha_cutoff))
            flx_a[flx_n++] = flx_attr_real("alpha_cutoff", attrs->alpha_cutoff);
        if (!(attrs->max_splat_steps == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("max_splat_steps", attrs->max_splat_steps);
        if (!(attrs->transmittance_threshold != attrs->transmittance_threshold))
            flx_a[flx_n++] = flx_attr_real("transmittance_threshold", attrs->transmittance_threshold);
        if (!(attrs->max_list_entries == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("max_list_entries", attrs->max_list_entries);
    }
    return flx_op1(g, "gaussian_splat_render", flx_x, 7, flx_n ? flx_a : NULL, flx_n);
}

typedef struct flx_gaussian_splat_render_backward_attrs {
    int64_t width; /* must be given */
    int64_t height; /* must be given */
    int64_t tile_size; /* must be given */
    double radius_scale; /* must be given */
    double alpha_cutoff; /* must be given */
    int64_t max_splat_steps; /* must be given */
    double transmittance_threshold; /* must be given */
    int64_t max_list_entries; /* must be given */
    double clip; /* none */
    int64_t sh_bands; /* none */
    double max_anisotropy; /* none */
} flx_gaussian_splat_render_backward_attrs;
#define FLX_GAUSSIAN_SPLAT_RENDER_BACKWARD_ATTRS {FLX_DEFAULT, FLX_DEFAULT, FLX_DEFAULT, NAN, NAN, FLX_DEFAULT, NAN, FLX_DEFAULT, NAN, FLX_DEFAULT, NAN}

/** the cotangents of the first six operands of gaussian_splat_render, concatenated */
static inline flx_val flx_gaussian_splat_render_backward(flx_graph *g, flx_val positions, flx_val log_scales, flx_val rotations, flx_val opacity, flx_val colours, flx_val sh, flx_val meta, flx_val d_rgba, const flx_gaussian_splat_render_backward_attrs *attrs)
{
    flx_attr flx_a[11];
    size_t flx_n = 0;
    flx_val flx_x[8];
    flx_x[0] = positions;
    flx_x[1] = log_scales;
    flx_x[2] = rotations;
    flx_x[3] = opacity;
    flx_x[4] = colours;
    flx_x[5] = sh;
    flx_x[6] = meta;
    flx_x[7] = d_rgba;
    if (attrs) {
        if (!(attrs->width == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("width", attrs->width);
        if (!(attrs->height == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("height", attrs->height);
        if (!(attrs->tile_size == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("tile_size", attrs->tile_size);
        if (!(attrs->radius_scale != attrs->radius_scale))
            flx_a[flx_n++] = flx_attr_real("radius_scale", attrs->radius_scale);
        if (!(attrs->alpha_cutoff != attrs->alpha_cutoff))
            flx_a[flx_n++] = flx_attr_real("alpha_cutoff", attrs->alpha_cutoff);
        if (!(attrs->max_splat_steps == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("max_splat_steps", attrs->max_splat_steps);
        if (!(attrs->transmittance_threshold != attrs->transmittance_threshold))
            flx_a[flx_n++] = flx_attr_real("transmittance_threshold", attrs->transmittance_threshold);
        if (!(attrs->max_list_entries == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("max_list_entries", attrs->max_list_entries);
        if (!(attrs->clip != attrs->clip))
            flx_a[flx_n++] = flx_attr_real("clip", attrs->clip);
        if (!(attrs->sh_bands == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("sh_bands", attrs->sh_bands);
        if (!(attrs->max_anisotropy != attrs->max_anisotropy))
            flx_a[flx_n++] = flx_attr_real("max_anisotropy", attrs->max_anisotropy);
    }
    return flx_op1(g, "gaussian_splat_render_backward", flx_x, 8, flx_n ? flx_a : NULL, flx_n);
}

typedef struct flx_gaussian_splat_prepare_attrs {
    int64_t width; /* must be given */
    int64_t height; /* must be given */
    int64_t tile_size; /* must be given */
    double radius_scale; /* must be given */
    double alpha_cutoff; /* must be given */
    int64_t max_splat_steps; /* must be given */
    double transmittance_threshold; /* must be given */
    int64_t max_list_entries; /* must be given */
} flx_gaussian_splat_prepare_attrs;
#define FLX_GAUSSIAN_SPLAT_PREPARE_ATTRS {FLX_DEFAULT, FLX_DEFAULT, FLX_DEFAULT, NAN, NAN, FLX_DEFAULT, NAN, FLX_DEFAULT}

/** each splat as rays see it (19 numbers), lists of splats front to back, their range for each tile, rays, parameters */
static inline flx_val flx_gaussian_splat_prepare(flx_graph *g, flx_val positions, flx_val log_scales, flx_val rotations, flx_val opacity, flx_val colours, flx_val sh, flx_val meta, const flx_gaussian_splat_prepare_attrs *attrs)
{
    flx_attr flx_a[8];
    size_t flx_n = 0;
    flx_val flx_x[7];
    flx_x[0] = positions;
    flx_x[1] = log_scales;
    flx_x[2] = rotations;
    flx_x[3] = opacity;
    flx_x[4] = colours;
    flx_x[5] = sh;
    flx_x[6] = meta;
    if (attrs) {
        if (!(attrs->width == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("width", attrs->width);
        if (!(attrs->height == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("height", attrs->height);
        if (!(attrs->tile_size == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("tile_size", attrs->tile_size);
        if (!(attrs->radius_scale != attrs->radius_scale))
            flx_a[flx_n++] = flx_attr_real("radius_scale", attrs->radius_scale);
        if (!(attrs->alpha_cutoff != attrs->alpha_cutoff))
            flx_a[flx_n++] = flx_attr_real("alpha_cutoff", attrs->alpha_cutoff);
        if (!(attrs->max_splat_steps == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("max_splat_steps", attrs->max_splat_steps);
        if (!(attrs->transmittance_threshold != attrs->transmittance_threshold))
            flx_a[flx_n++] = flx_attr_real("transmittance_threshold", attrs->transmittance_threshold);
        if (!(attrs->max_list_entries == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("max_list_entries", attrs->max_list_entries);
    }
    return flx_op1(g, "gaussian_splat_prepare", flx_x, 7, flx_n ? flx_a : NULL, flx_n);
}

typedef struct flx_gaussian_splat_rasterize_attrs {
    int64_t width; /* must be given */
    int64_t height; /* must be given */
    int64_t tile_size; /* must be given */
    double radius_scale; /* must be given */
    double alpha_cutoff; /* must be given */
    int64_t max_splat_steps; /* must be given */
    double transmittance_threshold; /* must be given */
    int64_t max_list_entries; /* must be given */
} flx_gaussian_splat_rasterize_attrs;
#define FLX_GAUSSIAN_SPLAT_RASTERIZE_ATTRS {FLX_DEFAULT, FLX_DEFAULT, FLX_DEFAULT, NAN, NAN, FLX_DEFAULT, NAN, FLX_DEFAULT}

/** the image of a prepared scene */
static inline flx_val flx_gaussian_splat_rasterize(flx_graph *g, flx_val prep, flx_val meta, const flx_gaussian_splat_rasterize_attrs *attrs)
{
    flx_attr flx_a[8];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = prep;
    flx_x[1] = meta;
    if (attrs) {
        if (!(attrs->width == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("width", attrs->width);
        if (!(attrs->height == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("height", attrs->height);
        if (!(attrs->tile_size == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("tile_size", attrs->tile_size);
        if (!(attrs->radius_scale != attrs->radius_scale))
            flx_a[flx_n++] = flx_attr_real("radius_scale", attrs->radius_scale);
        if (!(attrs->alpha_cutoff != attrs->alpha_cutoff))
            flx_a[flx_n++] = flx_attr_real("alpha_cutoff", attrs->alpha_cutoff);
        if (!(attrs->max_splat_steps == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("max_splat_steps", attrs->max_splat_steps);
        if (!(attrs->transmittance_threshold != attrs->transmittance_threshold))
            flx_a[flx_n++] = flx_attr_real("transmittance_threshold", attrs->transmittance_threshold);
        if (!(attrs->max_list_entries == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("max_list_entries", attrs->max_list_entries);
    }
    return flx_op1(g, "gaussian_splat_rasterize", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}


/* ---- composite ---- */

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

/** matmul(x, w) + res */
static inline flx_val flx_fused_matmul_residual(flx_graph *g, flx_val x, flx_val w, flx_val res)
{
    flx_val flx_x[3];
    flx_x[0] = x;
    flx_x[1] = w;
    flx_x[2] = res;
    return flx_op1(g, "fused_matmul_residual", flx_x, 3, NULL, 0);
}

/** res + gate * x */
static inline flx_val flx_fused_gated_residual(flx_graph *g, flx_val x, flx_val gate, flx_val res)
{
    flx_val flx_x[3];
    flx_x[0] = x;
    flx_x[1] = gate;
    flx_x[2] = res;
    return flx_op1(g, "fused_gated_residual", flx_x, 3, NULL, 0);
}

/** x > 0 ? dy : 0 */
static inline flx_val flx_relu_backward(flx_graph *g, flx_val x, flx_val dy)
{
    flx_val flx_x[2];
    flx_x[0] = x;
    flx_x[1] = dy;
    return flx_op1(g, "relu_backward", flx_x, 2, NULL, 0);
}

/** dy f'(x) for the function `kind` */
static inline flx_val flx_activation_backward(flx_graph *g, flx_val x, flx_val dy, const char *kind)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = x;
    flx_x[1] = dy;
    if (!(!kind))
        flx_a[flx_n++] = flx_attr_word("kind", kind);
    return flx_op1(g, "activation_backward", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}

/** the cotangent of cumsum's x: the sum of dy from each position to the end */
static inline flx_val flx_cumsum_backward(flx_graph *g, flx_val dy, int64_t axis, int exclusive)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = dy;
    if (!(axis == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("axis", axis);
    if (!(exclusive < 0))
        flx_a[flx_n++] = flx_attr_int("exclusive", exclusive);
    return flx_op1(g, "cumsum_backward", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

/** the cotangent of gather's table, of the given shape: dy summed at the positions that idx read */
static inline flx_val flx_gather_backward(flx_graph *g, flx_val dy, flx_val idx, flx_ints shape, int64_t axis, const char *oob)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = dy;
    flx_x[1] = idx;
    if (!(!shape.v))
        flx_a[flx_n++] = flx_attr_ints("shape", shape);
    if (!(axis == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("axis", axis);
    if (!(!oob))
        flx_a[flx_n++] = flx_attr_word("oob", oob);
    return flx_op1(g, "gather_backward", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}

/** 2 dy z, the cotangent of complex_norm_sq's z */
static inline flx_val flx_complex_norm_sq_backward(flx_graph *g, flx_val z, flx_val dy)
{
    flx_val flx_x[2];
    flx_x[0] = z;
    flx_x[1] = dy;
    return flx_op1(g, "complex_norm_sq_backward", flx_x, 2, NULL, 0);
}

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

/** act(matmul(x, w) + b), lowered to one op unless it is differentiated */
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

/** linear layers with weights w1, b1, w2, b2, ... (bias=false: w1, w2, ...), with act after each except the last, then out_act */
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

/** sum = x + res and y = rms_norm(sum, gamma) over the last axis */
static inline void flx_residual_rms_norm(flx_graph *g, flx_val x, flx_val res, flx_val gamma, double eps, flx_val results[2])
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[3];
    flx_x[0] = x;
    flx_x[1] = res;
    flx_x[2] = gamma;
    if (!(eps != eps))
        flx_a[flx_n++] = flx_attr_real("eps", eps);
    flx_op(g, "residual_rms_norm", flx_x, 3, flx_n ? flx_a : NULL, flx_n, results, 2);
}

/** act(y + b), y[n, s, c] = sum over k of w[c, k] x[n, s - (K - 1) + k, c], with 0 before the start of the sequence */
static inline flx_val flx_causal_conv1d(flx_graph *g, flx_val x, flx_val w, flx_val b, const char *act)
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
    return flx_op1(g, "causal_conv1d", flx_x, num_operands, flx_n ? flx_a : NULL, flx_n);
}

typedef struct flx_decoder_block_attrs {
    int64_t num_heads; /* must be given */
    int64_t num_kv_heads; /* num_heads */
    const char *act; /* silu */
    const char *mask_kind; /* causal */
    int64_t window; /* none */
    double eps; /* 1e-05 */
    double score_scale; /* 1/√head_dim */
    double softcap; /* none */
} flx_decoder_block_attrs;
#define FLX_DECODER_BLOCK_ATTRS {FLX_DEFAULT, FLX_DEFAULT, NULL, NULL, FLX_DEFAULT, NAN, NAN, NAN}

/** x + attention of its rms_norm, plus the gated_ffn of that sum's rms_norm; w: gamma1, wq, wk, wv, wo, gamma2, w_gate, w_up, w_down, and for rotary embedding cos, sin */
static inline flx_val flx_decoder_block(flx_graph *g, const flx_val *operands, size_t num_operands, const flx_decoder_block_attrs *attrs)
{
    flx_attr flx_a[8];
    size_t flx_n = 0;
    if (attrs) {
        if (!(attrs->num_heads == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("num_heads", attrs->num_heads);
        if (!(attrs->num_kv_heads == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("num_kv_heads", attrs->num_kv_heads);
        if (!(!attrs->act))
            flx_a[flx_n++] = flx_attr_word("act", attrs->act);
        if (!(!attrs->mask_kind))
            flx_a[flx_n++] = flx_attr_word("mask_kind", attrs->mask_kind);
        if (!(attrs->window == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("window", attrs->window);
        if (!(attrs->eps != attrs->eps))
            flx_a[flx_n++] = flx_attr_real("eps", attrs->eps);
        if (!(attrs->score_scale != attrs->score_scale))
            flx_a[flx_n++] = flx_attr_real("score_scale", attrs->score_scale);
        if (!(attrs->softcap != attrs->softcap))
            flx_a[flx_n++] = flx_attr_real("softcap", attrs->softcap);
    }
    return flx_op1(g, "decoder_block", operands, num_operands, flx_n ? flx_a : NULL, flx_n);
}

/** matmul(x + act(matmul(x, w)), w_out): the logits of a later token */
static inline flx_val flx_draft_head(flx_graph *g, flx_val x, flx_val w, flx_val w_out, const char *act)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[3];
    flx_x[0] = x;
    flx_x[1] = w;
    flx_x[2] = w_out;
    if (!(!act))
        flx_a[flx_n++] = flx_attr_word("act", act);
    return flx_op1(g, "draft_head", flx_x, 3, flx_n ? flx_a : NULL, flx_n);
}

typedef struct flx_fused_attention_block_attrs {
    int64_t num_heads; /* must be given */
    int64_t head_dim; /* from wqkv */
    int has_bias; /* false */
    int has_rope; /* false */
    const char *mask_kind; /* custom */
    int64_t window; /* none */
    double score_scale; /* 1/√head_dim */
    double softcap; /* none */
} flx_fused_attention_block_attrs;
#define FLX_FUSED_ATTENTION_BLOCK_ATTRS {FLX_DEFAULT, FLX_DEFAULT, -1, -1, NULL, FLX_DEFAULT, NAN, NAN}

/** attention of the thirds q, k, v of hidden wqkv + bqkv, layout bsd, times wo, + bo. After wo: mask, which only the mask kinds custom and bias need and read; with has_bias bqkv, bo; with has_rope cos, sin, which rotate q and k */
static inline flx_val flx_fused_attention_block(flx_graph *g, const flx_val *operands, size_t num_operands, const flx_fused_attention_block_attrs *attrs)
{
    flx_attr flx_a[8];
    size_t flx_n = 0;
    if (attrs) {
        if (!(attrs->num_heads == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("num_heads", attrs->num_heads);
        if (!(attrs->head_dim == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("head_dim", attrs->head_dim);
        if (!(attrs->has_bias < 0))
            flx_a[flx_n++] = flx_attr_int("has_bias", attrs->has_bias);
        if (!(attrs->has_rope < 0))
            flx_a[flx_n++] = flx_attr_int("has_rope", attrs->has_rope);
        if (!(!attrs->mask_kind))
            flx_a[flx_n++] = flx_attr_word("mask_kind", attrs->mask_kind);
        if (!(attrs->window == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("window", attrs->window);
        if (!(attrs->score_scale != attrs->score_scale))
            flx_a[flx_n++] = flx_attr_real("score_scale", attrs->score_scale);
        if (!(attrs->softcap != attrs->softcap))
            flx_a[flx_n++] = flx_attr_real("softcap", attrs->softcap);
    }
    return flx_op1(g, "fused_attention_block", operands, num_operands, flx_n ? flx_a : NULL, flx_n);
}

typedef struct flx_fused_transformer_layer_attrs {
    int64_t num_heads; /* must be given */
    int64_t head_dim; /* from wqkv */
    int64_t ffn_dim; /* from w1 */
    const char *act; /* gelu */
    int has_bias; /* true */
    double eps1; /* 1e-05 */
    double eps2; /* 1e-05 */
} flx_fused_transformer_layer_attrs;
#define FLX_FUSED_TRANSFORMER_LAYER_ATTRS {FLX_DEFAULT, FLX_DEFAULT, FLX_DEFAULT, NULL, -1, NAN, NAN}

/** h = layer_norm(fused_attention_block(hidden) + hidden), then layer_norm(act(h w1 + b1) w2 + b2 + h). Operands: hidden, wqkv, bqkv, wo, bo, gamma1, beta1, w1, b1, w2, b2, gamma2, beta2, mask; without biases hidden, wqkv, wo, gamma1, w1, w2, gamma2, mask */
static inline flx_val flx_fused_transformer_layer(flx_graph *g, const flx_val *operands, size_t num_operands, const flx_fused_transformer_layer_attrs *attrs)
{
    flx_attr flx_a[7];
    size_t flx_n = 0;
    if (attrs) {
        if (!(attrs->num_heads == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("num_heads", attrs->num_heads);
        if (!(attrs->head_dim == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("head_dim", attrs->head_dim);
        if (!(attrs->ffn_dim == FLX_DEFAULT))
            flx_a[flx_n++] = flx_attr_int("ffn_dim", attrs->ffn_dim);
        if (!(!attrs->act))
            flx_a[flx_n++] = flx_attr_word("act", attrs->act);
        if (!(attrs->has_bias < 0))
            flx_a[flx_n++] = flx_attr_int("has_bias", attrs->has_bias);
        if (!(attrs->eps1 != attrs->eps1))
            flx_a[flx_n++] = flx_attr_real("eps1", attrs->eps1);
        if (!(attrs->eps2 != attrs->eps2))
            flx_a[flx_n++] = flx_attr_real("eps2", attrs->eps2);
    }
    return flx_op1(g, "fused_transformer_layer", operands, num_operands, flx_n ? flx_a : NULL, flx_n);
}

typedef struct flx_fused_conv_bias_act_attrs {
    const char *act; /* none */
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
} flx_fused_conv_bias_act_attrs;
#define FLX_FUSED_CONV_BIAS_ACT_ATTRS {NULL, {NULL, 0}, {NULL, 0}, {NULL, 0}, FLX_DEFAULT, {NULL, 0}, FLX_DEFAULT, {NULL, 0}, {NULL, 0}, {NULL, 0}, {NULL, 0}}

/** act(conv(x, w) + b), one element of b for each output feature */
static inline flx_val flx_fused_conv_bias_act(flx_graph *g, flx_val x, flx_val w, flx_val b, const flx_fused_conv_bias_act_attrs *attrs)
{
    flx_attr flx_a[11];
    size_t flx_n = 0;
    flx_val flx_x[3];
    flx_x[0] = x;
    flx_x[1] = w;
    flx_x[2] = b;
    if (attrs) {
        if (!(!attrs->act))
            flx_a[flx_n++] = flx_attr_word("act", attrs->act);
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
    return flx_op1(g, "fused_conv_bias_act", flx_x, 3, flx_n ? flx_a : NULL, flx_n);
}

typedef struct flx_fused_conv_affine_act_attrs {
    const char *act; /* none */
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
} flx_fused_conv_affine_act_attrs;
#define FLX_FUSED_CONV_AFFINE_ACT_ATTRS {NULL, {NULL, 0}, {NULL, 0}, {NULL, 0}, FLX_DEFAULT, {NULL, 0}, FLX_DEFAULT, {NULL, 0}, {NULL, 0}, {NULL, 0}, {NULL, 0}}

/** act(conv(x, w) * scale + shift), one element of scale and shift for each output feature */
static inline flx_val flx_fused_conv_affine_act(flx_graph *g, flx_val x, flx_val w, flx_val scale, flx_val shift, const flx_fused_conv_affine_act_attrs *attrs)
{
    flx_attr flx_a[11];
    size_t flx_n = 0;
    flx_val flx_x[4];
    flx_x[0] = x;
    flx_x[1] = w;
    flx_x[2] = scale;
    flx_x[3] = shift;
    if (attrs) {
        if (!(!attrs->act))
            flx_a[flx_n++] = flx_attr_word("act", attrs->act);
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
    return flx_op1(g, "fused_conv_affine_act", flx_x, 4, flx_n ? flx_a : NULL, flx_n);
}

/** layer_norm(x + res + bias, gamma, beta) along the last axis; bias only with has_bias */
static inline flx_val flx_fused_residual_ln(flx_graph *g, flx_val x, flx_val res, flx_val bias, flx_val gamma, flx_val beta, int has_bias, double eps)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[5];
    flx_x[0] = x;
    flx_x[1] = res;
    size_t num_operands = 2;
    if (bias.id)
        flx_x[num_operands++] = bias;
    if (gamma.id)
        flx_x[num_operands++] = gamma;
    if (beta.id)
        flx_x[num_operands++] = beta;
    if (!(has_bias < 0))
        flx_a[flx_n++] = flx_attr_int("has_bias", has_bias);
    if (!(eps != eps))
        flx_a[flx_n++] = flx_attr_real("eps", eps);
    return flx_op1(g, "fused_residual_ln", flx_x, num_operands, flx_n ? flx_a : NULL, flx_n);
}

/** rms_norm(x + res + bias, gamma, beta) along the last axis; bias only with has_bias */
static inline flx_val flx_fused_residual_rms_norm(flx_graph *g, flx_val x, flx_val res, flx_val bias, flx_val gamma, flx_val beta, int has_bias, double eps)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[5];
    flx_x[0] = x;
    flx_x[1] = res;
    size_t num_operands = 2;
    if (bias.id)
        flx_x[num_operands++] = bias;
    if (gamma.id)
        flx_x[num_operands++] = gamma;
    if (beta.id)
        flx_x[num_operands++] = beta;
    if (!(has_bias < 0))
        flx_a[flx_n++] = flx_attr_int("has_bias", has_bias);
    if (!(eps != eps))
        flx_a[flx_n++] = flx_attr_real("eps", eps);
    return flx_op1(g, "fused_residual_rms_norm", flx_x, num_operands, flx_n ? flx_a : NULL, flx_n);
}

/** layer_norm(x, 1, 0) * (1 + scale) + shift, along the last axis */
static inline flx_val flx_fused_ada_layer_norm(flx_graph *g, flx_val x, flx_val scale, flx_val shift, double eps)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[3];
    flx_x[0] = x;
    flx_x[1] = scale;
    flx_x[2] = shift;
    if (!(eps != eps))
        flx_a[flx_n++] = flx_attr_real("eps", eps);
    return flx_op1(g, "fused_ada_layer_norm", flx_x, 3, flx_n ? flx_a : NULL, flx_n);
}

/** body applied to all elements: unary, binary, compare, where and cast ops on at most 16 operands, which broadcast */
static inline flx_val flx_elementwise_region(flx_graph *g, const flx_val *operands, size_t num_operands, const flx_graph *body)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    if (!(!body))
        flx_a[flx_n++] = flx_attr_graph("body", body);
    return flx_op1(g, "elementwise_region", operands, num_operands, flx_n ? flx_a : NULL, flx_n);
}

/** body, as in elementwise_region, on the slices [starts, starts + lens) of the operands along the axis, concatenated */
static inline flx_val flx_batch_elementwise_region(flx_graph *g, const flx_val *operands, size_t num_operands, const flx_graph *body, int64_t axis, flx_ints starts, flx_ints lens)
{
    flx_attr flx_a[4];
    size_t flx_n = 0;
    if (!(!body))
        flx_a[flx_n++] = flx_attr_graph("body", body);
    if (!(axis == FLX_DEFAULT))
        flx_a[flx_n++] = flx_attr_int("axis", axis);
    if (!(!starts.v))
        flx_a[flx_n++] = flx_attr_ints("starts", starts);
    if (!(!lens.v))
        flx_a[flx_n++] = flx_attr_ints("lens", lens);
    return flx_op1(g, "batch_elementwise_region", operands, num_operands, flx_n ? flx_a : NULL, flx_n);
}

/** body applied to x: a chain of narrow, transpose, resize_nearest_2x and of mul, add, sub, div, fma by per-channel constants */
static inline flx_val flx_transform_region(flx_graph *g, flx_val x, const flx_graph *body)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    if (!(!body))
        flx_a[flx_n++] = flx_attr_graph("body", body);
    return flx_op1(g, "transform_region", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

FLX_END_DECLS
#endif
