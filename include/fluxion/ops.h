/* SPDX-License-Identifier: Apache-2.0
   Generated from src/ops/ by script/generate; do not edit.

   fluxion/ops.h: one function per op. Each appends a node to the graph and returns its result. Operands come first. An
   op with several results writes them to an array after the operands and returns how many there are, 0 on error. Errors
   stay in the graph: flx_graph_error(). docs/ops.md describes the ops.

   Attributes come last. In C they are written by name, or by position in the order of ops.md:
       y = flx_argmax(g, x, .axis = 0);
       y = flx_softmax(g, x);                 defaults for all
   In C++, and for attributes that are computed, fill the struct and call the function that takes it (NULL: defaults):
       flx_argmax_attrs attrs = FLX_ARGMAX_ATTRS;
       attrs.axis = 0;
       y = flx_argmax_with(g, x, &attrs);
   FLX_<OP>_ATTRS sets every attribute to absent, which is FLX_DEFAULT for integers, -1 for flags, NAN for reals and
   zero for everything else; an absent attribute takes the default given in its comment. A struct that is all zero is
   accepted too: while struct_size is 0, a number that is 0 is absent as well, so 0 itself needs FLX_<OP>_ATTRS.

   All of this is inline over flx_op(), so no symbol of the library depends on the set of ops. */
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

/* ---- Reading structs of attributes ---- */

/* Whether the struct is long enough to have the field; a number is absent too where it is 0 and the size is. */
#define FLX_LISTED_(list) ((list).v || (list).n)
#define FLX_HAS_(type, field) \
    (attrs && (attrs->struct_size == 0 || attrs->struct_size >= offsetof(type, field) + sizeof attrs->field))
#define FLX_HAS_NUMBER_(type, field) (FLX_HAS_(type, field) && (attrs->struct_size != 0 || attrs->field != 0))

/* Structs of this version need no check; whether another size is accepted is decided by the library. */
#ifdef __cplusplus
#define FLX_ALIGNMENT_(type) alignof(type)
#else
#define FLX_ALIGNMENT_(type) _Alignof(type)
#endif
#define FLX_CHECK_SIZE_(type) \
    ((void)(attrs && attrs->struct_size != 0 && attrs->struct_size != sizeof(type) && \
            flx_attrs_check(g, attrs, #type, sizeof(type), FLX_ALIGNMENT_(type))))

/* The macros list every attribute as absent and then the caller's, which override them: exactly what is meant, but what
   compilers warn about. */
#if defined(__clang__)
#define FLX_QUIET_ \
    _Pragma("clang diagnostic push") _Pragma("clang diagnostic ignored \"-Winitializer-overrides\"") \
        _Pragma("clang diagnostic ignored \"-Wshadow\"")
#define FLX_LOUD_ _Pragma("clang diagnostic pop")
#elif defined(__GNUC__)
#define FLX_QUIET_ \
    _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Woverride-init\"") \
        _Pragma("GCC diagnostic ignored \"-Wshadow\"") \
        _Pragma("GCC diagnostic ignored \"-Wmissing-field-initializers\"")
#define FLX_LOUD_ _Pragma("GCC diagnostic pop")
#endif
#if defined(__GNUC__)
#define FLX_BUILT_(type, call) __extension__({ FLX_QUIET_ type flx_result_ = call; FLX_LOUD_ flx_result_; })
#else
#define FLX_BUILT_(type, call) call
#endif

/* ---- elementwise ---- */

/** x, with derivative zero */
static inline flx_val flx_stop_gradient(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "stop_gradient", flx_x, 1, NULL, 0);
}

typedef struct flx_cast_attrs {
    uint32_t struct_size; /* sizeof(flx_cast_attrs) */
    flx_dtype to; /* must be given */
} flx_cast_attrs;
#define FLX_CAST_ATTRS {sizeof(flx_cast_attrs), FLX_DTYPE_NONE}

/** x in another dtype: floats round to even, float to integer truncates and saturates (NaN: 0), integers wrap */
static inline flx_val flx_cast_with(flx_graph *g, flx_val x, const flx_cast_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_cast_attrs);
    if (FLX_HAS_(flx_cast_attrs, to) && attrs->to != FLX_DTYPE_NONE)
        flx_a[flx_n++] = flx_attr_dtype("to", attrs->to);
    return flx_op1(g, "cast", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_cast(...) FLX_CAST_(__VA_ARGS__, .struct_size = sizeof(flx_cast_attrs))
#define FLX_CAST_(g_, x_, ...) FLX_BUILT_(flx_val, flx_cast_with((g_), (x_), &(flx_cast_attrs){.struct_size = 0, \
    __VA_ARGS__}))
#else
static inline flx_val flx_cast(flx_graph *g, flx_val x, const flx_cast_attrs *attrs)
{
    return flx_cast_with(g, x, attrs);
}
#endif

typedef struct flx_bitcast_attrs {
    uint32_t struct_size; /* sizeof(flx_bitcast_attrs) */
    flx_dtype to; /* must be given */
} flx_bitcast_attrs;
#define FLX_BITCAST_ATTRS {sizeof(flx_bitcast_attrs), FLX_DTYPE_NONE}

/** the bytes of x as another dtype; a narrower one appends an axis, low bytes first, a wider one consumes the last */
static inline flx_val flx_bitcast_with(flx_graph *g, flx_val x, const flx_bitcast_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_bitcast_attrs);
    if (FLX_HAS_(flx_bitcast_attrs, to) && attrs->to != FLX_DTYPE_NONE)
        flx_a[flx_n++] = flx_attr_dtype("to", attrs->to);
    return flx_op1(g, "bitcast", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_bitcast(...) FLX_BITCAST_(__VA_ARGS__, .struct_size = sizeof(flx_bitcast_attrs))
#define FLX_BITCAST_(g_, x_, ...) FLX_BUILT_(flx_val, flx_bitcast_with((g_), (x_), &(flx_bitcast_attrs){.struct_size = \
    0, __VA_ARGS__}))
#else
static inline flx_val flx_bitcast(flx_graph *g, flx_val x, const flx_bitcast_attrs *attrs)
{
    return flx_bitcast_with(g, x, attrs);
}
#endif

typedef struct flx_reduce_precision_attrs {
    uint32_t struct_size; /* sizeof(flx_reduce_precision_attrs) */
    int64_t exponent; /* must be given */
    int64_t mantissa; /* must be given */
} flx_reduce_precision_attrs;
#define FLX_REDUCE_PRECISION_ATTRS {sizeof(flx_reduce_precision_attrs), FLX_DEFAULT, FLX_DEFAULT}

/** x rounded to a format with the given exponent and mantissa bits, ties to even; overflow becomes inf */
static inline flx_val flx_reduce_precision_with(flx_graph *g, flx_val x, const flx_reduce_precision_attrs *attrs)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_reduce_precision_attrs);
    if (FLX_HAS_NUMBER_(flx_reduce_precision_attrs, exponent) && attrs->exponent != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("exponent", attrs->exponent);
    if (FLX_HAS_NUMBER_(flx_reduce_precision_attrs, mantissa) && attrs->mantissa != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("mantissa", attrs->mantissa);
    return flx_op1(g, "reduce_precision", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_reduce_precision(...) FLX_REDUCE_PRECISION_(__VA_ARGS__, .struct_size = \
    sizeof(flx_reduce_precision_attrs))
#define FLX_REDUCE_PRECISION_(g_, x_, ...) FLX_BUILT_(flx_val, flx_reduce_precision_with((g_), (x_), \
    &(flx_reduce_precision_attrs){.exponent = FLX_DEFAULT, .mantissa = FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_reduce_precision(flx_graph *g, flx_val x, const flx_reduce_precision_attrs *attrs)
{
    return flx_reduce_precision_with(g, x, attrs);
}
#endif

/** its operands; no pass moves anything across it, merges it or folds it */
static inline uint32_t flx_optimization_barrier(flx_graph *g, const flx_val *operands, size_t num_operands, flx_val
                                                *results, size_t capacity)
{
    return flx_op(g, "optimization_barrier", operands, num_operands, NULL, 0, results, capacity);
}

typedef struct flx_print_attrs {
    uint32_t struct_size; /* sizeof(flx_print_attrs) */
    const char *message; /* "" */
} flx_print_attrs;
#define FLX_PRINT_ATTRS {sizeof(flx_print_attrs), NULL}

/** x; passes message and value to the host when it runs */
static inline flx_val flx_print_with(flx_graph *g, flx_val x, const flx_print_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_print_attrs);
    if (FLX_HAS_(flx_print_attrs, message) && attrs->message)
        flx_a[flx_n++] = flx_attr_string("message", attrs->message);
    return flx_op1(g, "print", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_print(...) FLX_PRINT_(__VA_ARGS__, .struct_size = sizeof(flx_print_attrs))
#define FLX_PRINT_(g_, x_, ...) FLX_BUILT_(flx_val, flx_print_with((g_), (x_), &(flx_print_attrs){.struct_size = 0, \
    __VA_ARGS__}))
#else
static inline flx_val flx_print(flx_graph *g, flx_val x, const flx_print_attrs *attrs = NULL)
{
    return flx_print_with(g, x, attrs);
}
#endif

typedef struct flx_check_attrs {
    uint32_t struct_size; /* sizeof(flx_check_attrs) */
    const char *message; /* must be given */
} flx_check_attrs;
#define FLX_CHECK_ATTRS {sizeof(flx_check_attrs), NULL}

/** x; the run fails with the message unless every element of ok is true */
static inline flx_val flx_check_with(flx_graph *g, flx_val x, flx_val ok, const flx_check_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = x;
    flx_x[1] = ok;
    FLX_CHECK_SIZE_(flx_check_attrs);
    if (FLX_HAS_(flx_check_attrs, message) && attrs->message)
        flx_a[flx_n++] = flx_attr_string("message", attrs->message);
    return flx_op1(g, "check", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_check(...) FLX_CHECK_(__VA_ARGS__, .struct_size = sizeof(flx_check_attrs))
#define FLX_CHECK_(g_, x_, ok_, ...) FLX_BUILT_(flx_val, flx_check_with((g_), (x_), (ok_), \
    &(flx_check_attrs){.struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_check(flx_graph *g, flx_val x, flx_val ok, const flx_check_attrs *attrs)
{
    return flx_check_with(g, x, ok, attrs);
}
#endif

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

typedef struct flx_round_attrs {
    uint32_t struct_size; /* sizeof(flx_round_attrs) */
    const char *ste; /* zero; of: zero identity */
} flx_round_attrs;
#define FLX_ROUND_ATTRS {sizeof(flx_round_attrs), NULL}

/** nearest integer, ties to even; the derivative is 0, or with ste=identity 1 (straight-through) */
static inline flx_val flx_round_with(flx_graph *g, flx_val x, const flx_round_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_round_attrs);
    if (FLX_HAS_(flx_round_attrs, ste) && attrs->ste)
        flx_a[flx_n++] = flx_attr_word("ste", attrs->ste);
    return flx_op1(g, "round", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_round(...) FLX_ROUND_(__VA_ARGS__, .struct_size = sizeof(flx_round_attrs))
#define FLX_ROUND_(g_, x_, ...) FLX_BUILT_(flx_val, flx_round_with((g_), (x_), &(flx_round_attrs){.struct_size = 0, \
    __VA_ARGS__}))
#else
static inline flx_val flx_round(flx_graph *g, flx_val x, const flx_round_attrs *attrs = NULL)
{
    return flx_round_with(g, x, attrs);
}
#endif

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

typedef struct flx_elu_attrs {
    uint32_t struct_size; /* sizeof(flx_elu_attrs) */
    double alpha; /* 1 */
} flx_elu_attrs;
#define FLX_ELU_ATTRS {sizeof(flx_elu_attrs), NAN}

/** x > 0 ? x : alpha * (exp(x) - 1) */
static inline flx_val flx_elu_with(flx_graph *g, flx_val x, const flx_elu_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_elu_attrs);
    if (FLX_HAS_NUMBER_(flx_elu_attrs, alpha) && attrs->alpha == attrs->alpha)
        flx_a[flx_n++] = flx_attr_real("alpha", attrs->alpha);
    return flx_op1(g, "elu", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_elu(...) FLX_ELU_(__VA_ARGS__, .struct_size = sizeof(flx_elu_attrs))
#define FLX_ELU_(g_, x_, ...) FLX_BUILT_(flx_val, flx_elu_with((g_), (x_), &(flx_elu_attrs){.alpha = NAN, .struct_size \
    = 0, __VA_ARGS__}))
#else
static inline flx_val flx_elu(flx_graph *g, flx_val x, const flx_elu_attrs *attrs = NULL)
{
    return flx_elu_with(g, x, attrs);
}
#endif

typedef struct flx_celu_attrs {
    uint32_t struct_size; /* sizeof(flx_celu_attrs) */
    double alpha; /* 1 */
} flx_celu_attrs;
#define FLX_CELU_ATTRS {sizeof(flx_celu_attrs), NAN}

/** x > 0 ? x : alpha * (exp(x / alpha) - 1) */
static inline flx_val flx_celu_with(flx_graph *g, flx_val x, const flx_celu_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_celu_attrs);
    if (FLX_HAS_NUMBER_(flx_celu_attrs, alpha) && attrs->alpha == attrs->alpha)
        flx_a[flx_n++] = flx_attr_real("alpha", attrs->alpha);
    return flx_op1(g, "celu", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_celu(...) FLX_CELU_(__VA_ARGS__, .struct_size = sizeof(flx_celu_attrs))
#define FLX_CELU_(g_, x_, ...) FLX_BUILT_(flx_val, flx_celu_with((g_), (x_), &(flx_celu_attrs){.alpha = NAN, \
    .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_celu(flx_graph *g, flx_val x, const flx_celu_attrs *attrs = NULL)
{
    return flx_celu_with(g, x, attrs);
}
#endif

typedef struct flx_leaky_relu_attrs {
    uint32_t struct_size; /* sizeof(flx_leaky_relu_attrs) */
    double alpha; /* 0.01 */
} flx_leaky_relu_attrs;
#define FLX_LEAKY_RELU_ATTRS {sizeof(flx_leaky_relu_attrs), NAN}

/** x > 0 ? x : alpha * x */
static inline flx_val flx_leaky_relu_with(flx_graph *g, flx_val x, const flx_leaky_relu_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_leaky_relu_attrs);
    if (FLX_HAS_NUMBER_(flx_leaky_relu_attrs, alpha) && attrs->alpha == attrs->alpha)
        flx_a[flx_n++] = flx_attr_real("alpha", attrs->alpha);
    return flx_op1(g, "leaky_relu", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_leaky_relu(...) FLX_LEAKY_RELU_(__VA_ARGS__, .struct_size = sizeof(flx_leaky_relu_attrs))
#define FLX_LEAKY_RELU_(g_, x_, ...) FLX_BUILT_(flx_val, flx_leaky_relu_with((g_), (x_), \
    &(flx_leaky_relu_attrs){.alpha = NAN, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_leaky_relu(flx_graph *g, flx_val x, const flx_leaky_relu_attrs *attrs = NULL)
{
    return flx_leaky_relu_with(g, x, attrs);
}
#endif

typedef struct flx_hard_sigmoid_attrs {
    uint32_t struct_size; /* sizeof(flx_hard_sigmoid_attrs) */
    double alpha; /* 0.16666666666666666 */
    double beta; /* 0.5 */
} flx_hard_sigmoid_attrs;
#define FLX_HARD_SIGMOID_ATTRS {sizeof(flx_hard_sigmoid_attrs), NAN, NAN}

/** clamp(alpha * x + beta, 0, 1) */
static inline flx_val flx_hard_sigmoid_with(flx_graph *g, flx_val x, const flx_hard_sigmoid_attrs *attrs)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_hard_sigmoid_attrs);
    if (FLX_HAS_NUMBER_(flx_hard_sigmoid_attrs, alpha) && attrs->alpha == attrs->alpha)
        flx_a[flx_n++] = flx_attr_real("alpha", attrs->alpha);
    if (FLX_HAS_NUMBER_(flx_hard_sigmoid_attrs, beta) && attrs->beta == attrs->beta)
        flx_a[flx_n++] = flx_attr_real("beta", attrs->beta);
    return flx_op1(g, "hard_sigmoid", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_hard_sigmoid(...) FLX_HARD_SIGMOID_(__VA_ARGS__, .struct_size = sizeof(flx_hard_sigmoid_attrs))
#define FLX_HARD_SIGMOID_(g_, x_, ...) FLX_BUILT_(flx_val, flx_hard_sigmoid_with((g_), (x_), \
    &(flx_hard_sigmoid_attrs){.alpha = NAN, .beta = NAN, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_hard_sigmoid(flx_graph *g, flx_val x, const flx_hard_sigmoid_attrs *attrs = NULL)
{
    return flx_hard_sigmoid_with(g, x, attrs);
}
#endif

typedef struct flx_threshold_attrs {
    uint32_t struct_size; /* sizeof(flx_threshold_attrs) */
    double theta; /* must be given */
    double value; /* must be given */
} flx_threshold_attrs;
#define FLX_THRESHOLD_ATTRS {sizeof(flx_threshold_attrs), NAN, NAN}

/** x > theta ? x : value */
static inline flx_val flx_threshold_with(flx_graph *g, flx_val x, const flx_threshold_attrs *attrs)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_threshold_attrs);
    if (FLX_HAS_NUMBER_(flx_threshold_attrs, theta) && attrs->theta == attrs->theta)
        flx_a[flx_n++] = flx_attr_real("theta", attrs->theta);
    if (FLX_HAS_NUMBER_(flx_threshold_attrs, value) && attrs->value == attrs->value)
        flx_a[flx_n++] = flx_attr_real("value", attrs->value);
    return flx_op1(g, "threshold", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_threshold(...) FLX_THRESHOLD_(__VA_ARGS__, .struct_size = sizeof(flx_threshold_attrs))
#define FLX_THRESHOLD_(g_, x_, ...) FLX_BUILT_(flx_val, flx_threshold_with((g_), (x_), &(flx_threshold_attrs){.theta = \
    NAN, .value = NAN, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_threshold(flx_graph *g, flx_val x, const flx_threshold_attrs *attrs)
{
    return flx_threshold_with(g, x, attrs);
}
#endif

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

typedef struct flx_zeta_derivative_attrs {
    uint32_t struct_size; /* sizeof(flx_zeta_derivative_attrs) */
    int64_t order; /* 1 */
} flx_zeta_derivative_attrs;
#define FLX_ZETA_DERIVATIVE_ATTRS {sizeof(flx_zeta_derivative_attrs), FLX_DEFAULT}

/** derivative of zeta(x, q) in x, as often as order says: sum of (-log(q + k))^order (q + k)^-x; NaN for q < 0 */
static inline flx_val flx_zeta_derivative_with(flx_graph *g, flx_val x, flx_val q, const flx_zeta_derivative_attrs
                                               *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = x;
    flx_x[1] = q;
    FLX_CHECK_SIZE_(flx_zeta_derivative_attrs);
    if (FLX_HAS_NUMBER_(flx_zeta_derivative_attrs, order) && attrs->order != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("order", attrs->order);
    return flx_op1(g, "zeta_derivative", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_zeta_derivative(...) FLX_ZETA_DERIVATIVE_(__VA_ARGS__, .struct_size = sizeof(flx_zeta_derivative_attrs))
#define FLX_ZETA_DERIVATIVE_(g_, x_, q_, ...) FLX_BUILT_(flx_val, flx_zeta_derivative_with((g_), (x_), (q_), \
    &(flx_zeta_derivative_attrs){.order = FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_zeta_derivative(flx_graph *g, flx_val x, flx_val q, const flx_zeta_derivative_attrs *attrs =
                                          NULL)
{
    return flx_zeta_derivative_with(g, x, q, attrs);
}
#endif

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

typedef struct flx_const_attrs {
    uint32_t struct_size; /* sizeof(flx_const_attrs) */
    const flx_type *type; /* must be given */
    const flx_tensor *data; /* must be given */
} flx_const_attrs;
#define FLX_CONST_ATTRS {sizeof(flx_const_attrs), NULL, NULL}

/** a literal tensor */
static inline flx_val flx_const_with(flx_graph *g, const flx_const_attrs *attrs)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    FLX_CHECK_SIZE_(flx_const_attrs);
    if (FLX_HAS_(flx_const_attrs, type) && attrs->type)
        flx_a[flx_n++] = flx_attr_type("type", attrs->type);
    if (FLX_HAS_(flx_const_attrs, data) && attrs->data)
        flx_a[flx_n++] = flx_attr_tensor("data", attrs->data);
    return flx_op1(g, "const", NULL, 0, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_const(...) FLX_CONST_(__VA_ARGS__, .struct_size = sizeof(flx_const_attrs))
#define FLX_CONST_(g_, ...) FLX_BUILT_(flx_val, flx_const_with((g_), &(flx_const_attrs){.struct_size = 0, \
    __VA_ARGS__}))
#else
static inline flx_val flx_const(flx_graph *g, const flx_const_attrs *attrs)
{
    return flx_const_with(g, attrs);
}
#endif

typedef struct flx_full_attrs {
    uint32_t struct_size; /* sizeof(flx_full_attrs) */
    const flx_type *type; /* must be given */
    const flx_tensor *value; /* must be given */
} flx_full_attrs;
#define FLX_FULL_ATTRS {sizeof(flx_full_attrs), NULL, NULL}

/** one value everywhere */
static inline flx_val flx_full_with(flx_graph *g, const flx_full_attrs *attrs)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    FLX_CHECK_SIZE_(flx_full_attrs);
    if (FLX_HAS_(flx_full_attrs, type) && attrs->type)
        flx_a[flx_n++] = flx_attr_type("type", attrs->type);
    if (FLX_HAS_(flx_full_attrs, value) && attrs->value)
        flx_a[flx_n++] = flx_attr_tensor("value", attrs->value);
    return flx_op1(g, "full", NULL, 0, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_full(...) FLX_FULL_(__VA_ARGS__, .struct_size = sizeof(flx_full_attrs))
#define FLX_FULL_(g_, ...) FLX_BUILT_(flx_val, flx_full_with((g_), &(flx_full_attrs){.struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_full(flx_graph *g, const flx_full_attrs *attrs)
{
    return flx_full_with(g, attrs);
}
#endif

typedef struct flx_iota_attrs {
    uint32_t struct_size; /* sizeof(flx_iota_attrs) */
    const flx_type *type; /* must be given */
    int64_t axis; /* 0 */
} flx_iota_attrs;
#define FLX_IOTA_ATTRS {sizeof(flx_iota_attrs), NULL, FLX_DEFAULT}

/** 0, 1, 2 … along axis, constant along the others; integers wrap */
static inline flx_val flx_iota_with(flx_graph *g, const flx_iota_attrs *attrs)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    FLX_CHECK_SIZE_(flx_iota_attrs);
    if (FLX_HAS_(flx_iota_attrs, type) && attrs->type)
        flx_a[flx_n++] = flx_attr_type("type", attrs->type);
    if (FLX_HAS_NUMBER_(flx_iota_attrs, axis) && attrs->axis != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("axis", attrs->axis);
    return flx_op1(g, "iota", NULL, 0, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_iota(...) FLX_IOTA_(__VA_ARGS__, .struct_size = sizeof(flx_iota_attrs))
#define FLX_IOTA_(g_, ...) FLX_BUILT_(flx_val, flx_iota_with((g_), &(flx_iota_attrs){.axis = FLX_DEFAULT, .struct_size \
    = 0, __VA_ARGS__}))
#else
static inline flx_val flx_iota(flx_graph *g, const flx_iota_attrs *attrs)
{
    return flx_iota_with(g, attrs);
}
#endif

typedef struct flx_eye_attrs {
    uint32_t struct_size; /* sizeof(flx_eye_attrs) */
    flx_dim n; /* must be given */
    flx_dim m; /* n */
    int64_t k; /* 0 */
    flx_dtype dtype; /* f32 */
} flx_eye_attrs;
#define FLX_EYE_ATTRS {sizeof(flx_eye_attrs), FLX_DEFAULT, FLX_DEFAULT, FLX_DEFAULT, FLX_DTYPE_NONE}

/** [n, m] matrix with ones where column - row = k, zeros elsewhere */
static inline flx_val flx_eye_with(flx_graph *g, const flx_eye_attrs *attrs)
{
    flx_attr flx_a[4];
    size_t flx_n = 0;
    FLX_CHECK_SIZE_(flx_eye_attrs);
    if (FLX_HAS_NUMBER_(flx_eye_attrs, n) && attrs->n != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("n", attrs->n);
    if (FLX_HAS_NUMBER_(flx_eye_attrs, m) && attrs->m != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("m", attrs->m);
    if (FLX_HAS_NUMBER_(flx_eye_attrs, k) && attrs->k != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("k", attrs->k);
    if (FLX_HAS_(flx_eye_attrs, dtype) && attrs->dtype != FLX_DTYPE_NONE)
        flx_a[flx_n++] = flx_attr_dtype("dtype", attrs->dtype);
    return flx_op1(g, "eye", NULL, 0, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_eye(...) FLX_EYE_(__VA_ARGS__, .struct_size = sizeof(flx_eye_attrs))
#define FLX_EYE_(g_, ...) FLX_BUILT_(flx_val, flx_eye_with((g_), &(flx_eye_attrs){.n = FLX_DEFAULT, .m = FLX_DEFAULT, \
    .k = FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_eye(flx_graph *g, const flx_eye_attrs *attrs)
{
    return flx_eye_with(g, attrs);
}
#endif

typedef struct flx_dim_size_attrs {
    uint32_t struct_size; /* sizeof(flx_dim_size_attrs) */
    int64_t axis; /* must be given */
} flx_dim_size_attrs;
#define FLX_DIM_SIZE_ATTRS {sizeof(flx_dim_size_attrs), FLX_DEFAULT}

/** the extent of one axis of x, an i64 scalar */
static inline flx_val flx_dim_size_with(flx_graph *g, flx_val x, const flx_dim_size_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_dim_size_attrs);
    if (FLX_HAS_NUMBER_(flx_dim_size_attrs, axis) && attrs->axis != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("axis", attrs->axis);
    return flx_op1(g, "dim_size", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_dim_size(...) FLX_DIM_SIZE_(__VA_ARGS__, .struct_size = sizeof(flx_dim_size_attrs))
#define FLX_DIM_SIZE_(g_, x_, ...) FLX_BUILT_(flx_val, flx_dim_size_with((g_), (x_), &(flx_dim_size_attrs){.axis = \
    FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_dim_size(flx_graph *g, flx_val x, const flx_dim_size_attrs *attrs)
{
    return flx_dim_size_with(g, x, attrs);
}
#endif

typedef struct flx_reshape_attrs {
    uint32_t struct_size; /* sizeof(flx_reshape_attrs) */
    flx_ints shape; /* must be given */
} flx_reshape_attrs;
#define FLX_RESHAPE_ATTRS {sizeof(flx_reshape_attrs), {NULL, 0}}

/** x's elements in row-major order in another shape; one entry may be -1, which is inferred */
static inline flx_val flx_reshape_with(flx_graph *g, flx_val x, const flx_reshape_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_reshape_attrs);
    if (FLX_HAS_(flx_reshape_attrs, shape) && FLX_LISTED_(attrs->shape))
        flx_a[flx_n++] = flx_attr_ints("shape", attrs->shape);
    return flx_op1(g, "reshape", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_reshape(...) FLX_RESHAPE_(__VA_ARGS__, .struct_size = sizeof(flx_reshape_attrs))
#define FLX_RESHAPE_(g_, x_, ...) FLX_BUILT_(flx_val, flx_reshape_with((g_), (x_), &(flx_reshape_attrs){.struct_size = \
    0, __VA_ARGS__}))
#else
static inline flx_val flx_reshape(flx_graph *g, flx_val x, const flx_reshape_attrs *attrs)
{
    return flx_reshape_with(g, x, attrs);
}
#endif

typedef struct flx_transpose_attrs {
    uint32_t struct_size; /* sizeof(flx_transpose_attrs) */
    flx_ints perm; /* reversed */
} flx_transpose_attrs;
#define FLX_TRANSPOSE_ATTRS {sizeof(flx_transpose_attrs), {NULL, 0}}

/** axis i of y is axis perm[i] of x */
static inline flx_val flx_transpose_with(flx_graph *g, flx_val x, const flx_transpose_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_transpose_attrs);
    if (FLX_HAS_(flx_transpose_attrs, perm) && FLX_LISTED_(attrs->perm))
        flx_a[flx_n++] = flx_attr_ints("perm", attrs->perm);
    return flx_op1(g, "transpose", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_transpose(...) FLX_TRANSPOSE_(__VA_ARGS__, .struct_size = sizeof(flx_transpose_attrs))
#define FLX_TRANSPOSE_(g_, x_, ...) FLX_BUILT_(flx_val, flx_transpose_with((g_), (x_), \
    &(flx_transpose_attrs){.struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_transpose(flx_graph *g, flx_val x, const flx_transpose_attrs *attrs = NULL)
{
    return flx_transpose_with(g, x, attrs);
}
#endif

typedef struct flx_expand_attrs {
    uint32_t struct_size; /* sizeof(flx_expand_attrs) */
    flx_ints shape; /* must be given */
} flx_expand_attrs;
#define FLX_EXPAND_ATTRS {sizeof(flx_expand_attrs), {NULL, 0}}

/** x broadcast to shape: right-aligned, axes of extent 1 stretch; -1 keeps an extent */
static inline flx_val flx_expand_with(flx_graph *g, flx_val x, const flx_expand_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_expand_attrs);
    if (FLX_HAS_(flx_expand_attrs, shape) && FLX_LISTED_(attrs->shape))
        flx_a[flx_n++] = flx_attr_ints("shape", attrs->shape);
    return flx_op1(g, "expand", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_expand(...) FLX_EXPAND_(__VA_ARGS__, .struct_size = sizeof(flx_expand_attrs))
#define FLX_EXPAND_(g_, x_, ...) FLX_BUILT_(flx_val, flx_expand_with((g_), (x_), &(flx_expand_attrs){.struct_size = 0, \
    __VA_ARGS__}))
#else
static inline flx_val flx_expand(flx_graph *g, flx_val x, const flx_expand_attrs *attrs)
{
    return flx_expand_with(g, x, attrs);
}
#endif

typedef struct flx_broadcast_in_dim_attrs {
    uint32_t struct_size; /* sizeof(flx_broadcast_in_dim_attrs) */
    flx_ints shape; /* must be given */
    flx_ints axes; /* must be given */
} flx_broadcast_in_dim_attrs;
#define FLX_BROADCAST_IN_DIM_ATTRS {sizeof(flx_broadcast_in_dim_attrs), {NULL, 0}, {NULL, 0}}

/** axis i of x becomes axis axes[i] of shape, stretched from extent 1; the others repeat x */
static inline flx_val flx_broadcast_in_dim_with(flx_graph *g, flx_val x, const flx_broadcast_in_dim_attrs *attrs)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_broadcast_in_dim_attrs);
    if (FLX_HAS_(flx_broadcast_in_dim_attrs, shape) && FLX_LISTED_(attrs->shape))
        flx_a[flx_n++] = flx_attr_ints("shape", attrs->shape);
    if (FLX_HAS_(flx_broadcast_in_dim_attrs, axes) && FLX_LISTED_(attrs->axes))
        flx_a[flx_n++] = flx_attr_ints("axes", attrs->axes);
    return flx_op1(g, "broadcast_in_dim", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_broadcast_in_dim(...) FLX_BROADCAST_IN_DIM_(__VA_ARGS__, .struct_size = \
    sizeof(flx_broadcast_in_dim_attrs))
#define FLX_BROADCAST_IN_DIM_(g_, x_, ...) FLX_BUILT_(flx_val, flx_broadcast_in_dim_with((g_), (x_), \
    &(flx_broadcast_in_dim_attrs){.struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_broadcast_in_dim(flx_graph *g, flx_val x, const flx_broadcast_in_dim_attrs *attrs)
{
    return flx_broadcast_in_dim_with(g, x, attrs);
}
#endif

typedef struct flx_squeeze_attrs {
    uint32_t struct_size; /* sizeof(flx_squeeze_attrs) */
    flx_ints axes; /* all of extent 1 */
} flx_squeeze_attrs;
#define FLX_SQUEEZE_ATTRS {sizeof(flx_squeeze_attrs), {NULL, 0}}

/** x without the given axes, which must have extent 1 */
static inline flx_val flx_squeeze_with(flx_graph *g, flx_val x, const flx_squeeze_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_squeeze_attrs);
    if (FLX_HAS_(flx_squeeze_attrs, axes) && FLX_LISTED_(attrs->axes))
        flx_a[flx_n++] = flx_attr_ints("axes", attrs->axes);
    return flx_op1(g, "squeeze", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_squeeze(...) FLX_SQUEEZE_(__VA_ARGS__, .struct_size = sizeof(flx_squeeze_attrs))
#define FLX_SQUEEZE_(g_, x_, ...) FLX_BUILT_(flx_val, flx_squeeze_with((g_), (x_), &(flx_squeeze_attrs){.struct_size = \
    0, __VA_ARGS__}))
#else
static inline flx_val flx_squeeze(flx_graph *g, flx_val x, const flx_squeeze_attrs *attrs = NULL)
{
    return flx_squeeze_with(g, x, attrs);
}
#endif

typedef struct flx_unsqueeze_attrs {
    uint32_t struct_size; /* sizeof(flx_unsqueeze_attrs) */
    flx_ints axes; /* must be given */
} flx_unsqueeze_attrs;
#define FLX_UNSQUEEZE_ATTRS {sizeof(flx_unsqueeze_attrs), {NULL, 0}}

/** x with axes of extent 1 inserted at the given positions of the result */
static inline flx_val flx_unsqueeze_with(flx_graph *g, flx_val x, const flx_unsqueeze_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_unsqueeze_attrs);
    if (FLX_HAS_(flx_unsqueeze_attrs, axes) && FLX_LISTED_(attrs->axes))
        flx_a[flx_n++] = flx_attr_ints("axes", attrs->axes);
    return flx_op1(g, "unsqueeze", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_unsqueeze(...) FLX_UNSQUEEZE_(__VA_ARGS__, .struct_size = sizeof(flx_unsqueeze_attrs))
#define FLX_UNSQUEEZE_(g_, x_, ...) FLX_BUILT_(flx_val, flx_unsqueeze_with((g_), (x_), \
    &(flx_unsqueeze_attrs){.struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_unsqueeze(flx_graph *g, flx_val x, const flx_unsqueeze_attrs *attrs)
{
    return flx_unsqueeze_with(g, x, attrs);
}
#endif

typedef struct flx_narrow_attrs {
    uint32_t struct_size; /* sizeof(flx_narrow_attrs) */
    int64_t axis; /* must be given */
    flx_dim start; /* must be given */
    flx_dim len; /* must be given */
} flx_narrow_attrs;
#define FLX_NARROW_ATTRS {sizeof(flx_narrow_attrs), FLX_DEFAULT, FLX_DEFAULT, FLX_DEFAULT}

/** elements start … start + len - 1 along axis */
static inline flx_val flx_narrow_with(flx_graph *g, flx_val x, const flx_narrow_attrs *attrs)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_narrow_attrs);
    if (FLX_HAS_NUMBER_(flx_narrow_attrs, axis) && attrs->axis != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("axis", attrs->axis);
    if (FLX_HAS_NUMBER_(flx_narrow_attrs, start) && attrs->start != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("start", attrs->start);
    if (FLX_HAS_NUMBER_(flx_narrow_attrs, len) && attrs->len != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("len", attrs->len);
    return flx_op1(g, "narrow", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_narrow(...) FLX_NARROW_(__VA_ARGS__, .struct_size = sizeof(flx_narrow_attrs))
#define FLX_NARROW_(g_, x_, ...) FLX_BUILT_(flx_val, flx_narrow_with((g_), (x_), &(flx_narrow_attrs){.axis = \
    FLX_DEFAULT, .start = FLX_DEFAULT, .len = FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_narrow(flx_graph *g, flx_val x, const flx_narrow_attrs *attrs)
{
    return flx_narrow_with(g, x, attrs);
}
#endif

typedef struct flx_slice_attrs {
    uint32_t struct_size; /* sizeof(flx_slice_attrs) */
    flx_ints start; /* must be given */
    flx_ints limit; /* must be given */
    flx_ints stride; /* all 1 */
} flx_slice_attrs;
#define FLX_SLICE_ATTRS {sizeof(flx_slice_attrs), {NULL, 0}, {NULL, 0}, {NULL, 0}}

/** y[i] = x[start + i*stride] per axis, up to but not including limit */
static inline flx_val flx_slice_with(flx_graph *g, flx_val x, const flx_slice_attrs *attrs)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_slice_attrs);
    if (FLX_HAS_(flx_slice_attrs, start) && FLX_LISTED_(attrs->start))
        flx_a[flx_n++] = flx_attr_ints("start", attrs->start);
    if (FLX_HAS_(flx_slice_attrs, limit) && FLX_LISTED_(attrs->limit))
        flx_a[flx_n++] = flx_attr_ints("limit", attrs->limit);
    if (FLX_HAS_(flx_slice_attrs, stride) && FLX_LISTED_(attrs->stride))
        flx_a[flx_n++] = flx_attr_ints("stride", attrs->stride);
    return flx_op1(g, "slice", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_slice(...) FLX_SLICE_(__VA_ARGS__, .struct_size = sizeof(flx_slice_attrs))
#define FLX_SLICE_(g_, x_, ...) FLX_BUILT_(flx_val, flx_slice_with((g_), (x_), &(flx_slice_attrs){.struct_size = 0, \
    __VA_ARGS__}))
#else
static inline flx_val flx_slice(flx_graph *g, flx_val x, const flx_slice_attrs *attrs)
{
    return flx_slice_with(g, x, attrs);
}
#endif

typedef struct flx_pad_attrs {
    uint32_t struct_size; /* sizeof(flx_pad_attrs) */
    flx_ints low; /* all 0 */
    flx_ints high; /* all 0 */
    flx_ints interior; /* all 0 */
} flx_pad_attrs;
#define FLX_PAD_ATTRS {sizeof(flx_pad_attrs), {NULL, 0}, {NULL, 0}, {NULL, 0}}

/** x with value between neighbours (interior) and at the ends (low, high); negative low and high crop */
static inline flx_val flx_pad_with(flx_graph *g, flx_val x, flx_val value, const flx_pad_attrs *attrs)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = x;
    flx_x[1] = value;
    FLX_CHECK_SIZE_(flx_pad_attrs);
    if (FLX_HAS_(flx_pad_attrs, low) && FLX_LISTED_(attrs->low))
        flx_a[flx_n++] = flx_attr_ints("low", attrs->low);
    if (FLX_HAS_(flx_pad_attrs, high) && FLX_LISTED_(attrs->high))
        flx_a[flx_n++] = flx_attr_ints("high", attrs->high);
    if (FLX_HAS_(flx_pad_attrs, interior) && FLX_LISTED_(attrs->interior))
        flx_a[flx_n++] = flx_attr_ints("interior", attrs->interior);
    return flx_op1(g, "pad", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_pad(...) FLX_PAD_(__VA_ARGS__, .struct_size = sizeof(flx_pad_attrs))
#define FLX_PAD_(g_, x_, value_, ...) FLX_BUILT_(flx_val, flx_pad_with((g_), (x_), (value_), \
    &(flx_pad_attrs){.struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_pad(flx_graph *g, flx_val x, flx_val value, const flx_pad_attrs *attrs = NULL)
{
    return flx_pad_with(g, x, value, attrs);
}
#endif

typedef struct flx_reverse_attrs {
    uint32_t struct_size; /* sizeof(flx_reverse_attrs) */
    flx_ints axes; /* must be given */
} flx_reverse_attrs;
#define FLX_REVERSE_ATTRS {sizeof(flx_reverse_attrs), {NULL, 0}}

/** x with the order of elements reversed along the given axes */
static inline flx_val flx_reverse_with(flx_graph *g, flx_val x, const flx_reverse_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_reverse_attrs);
    if (FLX_HAS_(flx_reverse_attrs, axes) && FLX_LISTED_(attrs->axes))
        flx_a[flx_n++] = flx_attr_ints("axes", attrs->axes);
    return flx_op1(g, "reverse", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_reverse(...) FLX_REVERSE_(__VA_ARGS__, .struct_size = sizeof(flx_reverse_attrs))
#define FLX_REVERSE_(g_, x_, ...) FLX_BUILT_(flx_val, flx_reverse_with((g_), (x_), &(flx_reverse_attrs){.struct_size = \
    0, __VA_ARGS__}))
#else
static inline flx_val flx_reverse(flx_graph *g, flx_val x, const flx_reverse_attrs *attrs)
{
    return flx_reverse_with(g, x, attrs);
}
#endif

typedef struct flx_concat_attrs {
    uint32_t struct_size; /* sizeof(flx_concat_attrs) */
    int64_t axis; /* must be given */
} flx_concat_attrs;
#define FLX_CONCAT_ATTRS {sizeof(flx_concat_attrs), FLX_DEFAULT}

/** the operands one after the other along axis */
static inline flx_val flx_concat_with(flx_graph *g, const flx_val *operands, size_t num_operands, const flx_concat_attrs
                                      *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    FLX_CHECK_SIZE_(flx_concat_attrs);
    if (FLX_HAS_NUMBER_(flx_concat_attrs, axis) && attrs->axis != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("axis", attrs->axis);
    return flx_op1(g, "concat", operands, num_operands, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_concat(...) FLX_CONCAT_(__VA_ARGS__, .struct_size = sizeof(flx_concat_attrs))
#define FLX_CONCAT_(g_, operands_, num_operands_, ...) FLX_BUILT_(flx_val, flx_concat_with((g_), (operands_), \
    (num_operands_), &(flx_concat_attrs){.axis = FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_concat(flx_graph *g, const flx_val *operands, size_t num_operands, const flx_concat_attrs
                                 *attrs)
{
    return flx_concat_with(g, operands, num_operands, attrs);
}
#endif

typedef struct flx_stack_attrs {
    uint32_t struct_size; /* sizeof(flx_stack_attrs) */
    int64_t axis; /* 0 */
} flx_stack_attrs;
#define FLX_STACK_ATTRS {sizeof(flx_stack_attrs), FLX_DEFAULT}

/** the operands, of equal shape, along a new axis */
static inline flx_val flx_stack_with(flx_graph *g, const flx_val *operands, size_t num_operands, const flx_stack_attrs
                                     *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    FLX_CHECK_SIZE_(flx_stack_attrs);
    if (FLX_HAS_NUMBER_(flx_stack_attrs, axis) && attrs->axis != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("axis", attrs->axis);
    return flx_op1(g, "stack", operands, num_operands, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_stack(...) FLX_STACK_(__VA_ARGS__, .struct_size = sizeof(flx_stack_attrs))
#define FLX_STACK_(g_, operands_, num_operands_, ...) FLX_BUILT_(flx_val, flx_stack_with((g_), (operands_), \
    (num_operands_), &(flx_stack_attrs){.axis = FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_stack(flx_graph *g, const flx_val *operands, size_t num_operands, const flx_stack_attrs *attrs
                                = NULL)
{
    return flx_stack_with(g, operands, num_operands, attrs);
}
#endif

typedef struct flx_split_attrs {
    uint32_t struct_size; /* sizeof(flx_split_attrs) */
    flx_ints sizes; /* must be given */
    int64_t axis; /* 0 */
} flx_split_attrs;
#define FLX_SPLIT_ATTRS {sizeof(flx_split_attrs), {NULL, 0}, FLX_DEFAULT}

/** consecutive parts of the given sizes along axis */
static inline uint32_t flx_split_with(flx_graph *g, flx_val x, flx_val *results, size_t capacity, const flx_split_attrs
                                      *attrs)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_split_attrs);
    if (FLX_HAS_(flx_split_attrs, sizes) && FLX_LISTED_(attrs->sizes))
        flx_a[flx_n++] = flx_attr_ints("sizes", attrs->sizes);
    if (FLX_HAS_NUMBER_(flx_split_attrs, axis) && attrs->axis != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("axis", attrs->axis);
    return flx_op(g, "split", flx_x, 1, flx_n ? flx_a : NULL, flx_n, results, capacity);
}

#ifndef __cplusplus
#define flx_split(...) FLX_SPLIT_(__VA_ARGS__, .struct_size = sizeof(flx_split_attrs))
#define FLX_SPLIT_(g_, x_, results_, capacity_, ...) FLX_BUILT_(uint32_t, flx_split_with((g_), (x_), (results_), \
    (capacity_), &(flx_split_attrs){.axis = FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline uint32_t flx_split(flx_graph *g, flx_val x, flx_val *results, size_t capacity, const flx_split_attrs
                                 *attrs)
{
    return flx_split_with(g, x, results, capacity, attrs);
}
#endif

typedef struct flx_unstack_attrs {
    uint32_t struct_size; /* sizeof(flx_unstack_attrs) */
    int64_t axis; /* 0 */
} flx_unstack_attrs;
#define FLX_UNSTACK_ATTRS {sizeof(flx_unstack_attrs), FLX_DEFAULT}

/** the slices along axis, without that axis */
static inline uint32_t flx_unstack_with(flx_graph *g, flx_val x, flx_val *results, size_t capacity, const
                                        flx_unstack_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_unstack_attrs);
    if (FLX_HAS_NUMBER_(flx_unstack_attrs, axis) && attrs->axis != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("axis", attrs->axis);
    return flx_op(g, "unstack", flx_x, 1, flx_n ? flx_a : NULL, flx_n, results, capacity);
}

#ifndef __cplusplus
#define flx_unstack(...) FLX_UNSTACK_(__VA_ARGS__, .struct_size = sizeof(flx_unstack_attrs))
#define FLX_UNSTACK_(g_, x_, results_, capacity_, ...) FLX_BUILT_(uint32_t, flx_unstack_with((g_), (x_), (results_), \
    (capacity_), &(flx_unstack_attrs){.axis = FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline uint32_t flx_unstack(flx_graph *g, flx_val x, flx_val *results, size_t capacity, const flx_unstack_attrs
                                   *attrs = NULL)
{
    return flx_unstack_with(g, x, results, capacity, attrs);
}
#endif

typedef struct flx_tril_attrs {
    uint32_t struct_size; /* sizeof(flx_tril_attrs) */
    int64_t k; /* 0 */
} flx_tril_attrs;
#define FLX_TRIL_ATTRS {sizeof(flx_tril_attrs), FLX_DEFAULT}

/** x where column - row <= k, 0 elsewhere; the matrices are the last two axes */
static inline flx_val flx_tril_with(flx_graph *g, flx_val x, const flx_tril_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_tril_attrs);
    if (FLX_HAS_NUMBER_(flx_tril_attrs, k) && attrs->k != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("k", attrs->k);
    return flx_op1(g, "tril", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_tril(...) FLX_TRIL_(__VA_ARGS__, .struct_size = sizeof(flx_tril_attrs))
#define FLX_TRIL_(g_, x_, ...) FLX_BUILT_(flx_val, flx_tril_with((g_), (x_), &(flx_tril_attrs){.k = FLX_DEFAULT, \
    .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_tril(flx_graph *g, flx_val x, const flx_tril_attrs *attrs = NULL)
{
    return flx_tril_with(g, x, attrs);
}
#endif

typedef struct flx_triu_attrs {
    uint32_t struct_size; /* sizeof(flx_triu_attrs) */
    int64_t k; /* 0 */
} flx_triu_attrs;
#define FLX_TRIU_ATTRS {sizeof(flx_triu_attrs), FLX_DEFAULT}

/** x where column - row >= k, 0 elsewhere; the matrices are the last two axes */
static inline flx_val flx_triu_with(flx_graph *g, flx_val x, const flx_triu_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_triu_attrs);
    if (FLX_HAS_NUMBER_(flx_triu_attrs, k) && attrs->k != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("k", attrs->k);
    return flx_op1(g, "triu", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_triu(...) FLX_TRIU_(__VA_ARGS__, .struct_size = sizeof(flx_triu_attrs))
#define FLX_TRIU_(g_, x_, ...) FLX_BUILT_(flx_val, flx_triu_with((g_), (x_), &(flx_triu_attrs){.k = FLX_DEFAULT, \
    .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_triu(flx_graph *g, flx_val x, const flx_triu_attrs *attrs = NULL)
{
    return flx_triu_with(g, x, attrs);
}
#endif

typedef struct flx_diag_attrs {
    uint32_t struct_size; /* sizeof(flx_diag_attrs) */
    int64_t k; /* 0 */
} flx_diag_attrs;
#define FLX_DIAG_ATTRS {sizeof(flx_diag_attrs), FLX_DEFAULT}

/** a vector as diagonal k of a matrix of zeros; for more axes, diagonal k of the last two; diag_set always builds,
    diag_extract always reads a main diagonal */
static inline flx_val flx_diag_with(flx_graph *g, flx_val x, const flx_diag_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_diag_attrs);
    if (FLX_HAS_NUMBER_(flx_diag_attrs, k) && attrs->k != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("k", attrs->k);
    return flx_op1(g, "diag", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_diag(...) FLX_DIAG_(__VA_ARGS__, .struct_size = sizeof(flx_diag_attrs))
#define FLX_DIAG_(g_, x_, ...) FLX_BUILT_(flx_val, flx_diag_with((g_), (x_), &(flx_diag_attrs){.k = FLX_DEFAULT, \
    .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_diag(flx_graph *g, flx_val x, const flx_diag_attrs *attrs = NULL)
{
    return flx_diag_with(g, x, attrs);
}
#endif

typedef struct flx_tile_attrs {
    uint32_t struct_size; /* sizeof(flx_tile_attrs) */
    flx_ints repeats; /* must be given */
} flx_tile_attrs;
#define FLX_TILE_ATTRS {sizeof(flx_tile_attrs), {NULL, 0}}

/** repeats[k] copies of x, one after the other, along axis k */
static inline flx_val flx_tile_with(flx_graph *g, flx_val x, const flx_tile_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_tile_attrs);
    if (FLX_HAS_(flx_tile_attrs, repeats) && FLX_LISTED_(attrs->repeats))
        flx_a[flx_n++] = flx_attr_ints("repeats", attrs->repeats);
    return flx_op1(g, "tile", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_tile(...) FLX_TILE_(__VA_ARGS__, .struct_size = sizeof(flx_tile_attrs))
#define FLX_TILE_(g_, x_, ...) FLX_BUILT_(flx_val, flx_tile_with((g_), (x_), &(flx_tile_attrs){.struct_size = 0, \
    __VA_ARGS__}))
#else
static inline flx_val flx_tile(flx_graph *g, flx_val x, const flx_tile_attrs *attrs)
{
    return flx_tile_with(g, x, attrs);
}
#endif

typedef struct flx_repeat_attrs {
    uint32_t struct_size; /* sizeof(flx_repeat_attrs) */
    flx_dim repeats; /* must be given */
    int64_t axis; /* must be given */
} flx_repeat_attrs;
#define FLX_REPEAT_ATTRS {sizeof(flx_repeat_attrs), FLX_DEFAULT, FLX_DEFAULT}

/** each element `repeats` times in a row along axis */
static inline flx_val flx_repeat_with(flx_graph *g, flx_val x, const flx_repeat_attrs *attrs)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_repeat_attrs);
    if (FLX_HAS_NUMBER_(flx_repeat_attrs, repeats) && attrs->repeats != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("repeats", attrs->repeats);
    if (FLX_HAS_NUMBER_(flx_repeat_attrs, axis) && attrs->axis != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("axis", attrs->axis);
    return flx_op1(g, "repeat", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_repeat(...) FLX_REPEAT_(__VA_ARGS__, .struct_size = sizeof(flx_repeat_attrs))
#define FLX_REPEAT_(g_, x_, ...) FLX_BUILT_(flx_val, flx_repeat_with((g_), (x_), &(flx_repeat_attrs){.repeats = \
    FLX_DEFAULT, .axis = FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_repeat(flx_graph *g, flx_val x, const flx_repeat_attrs *attrs)
{
    return flx_repeat_with(g, x, attrs);
}
#endif

typedef struct flx_roll_attrs {
    uint32_t struct_size; /* sizeof(flx_roll_attrs) */
    int64_t shift; /* must be given */
    int64_t axis; /* must be given */
} flx_roll_attrs;
#define FLX_ROLL_ATTRS {sizeof(flx_roll_attrs), FLX_DEFAULT, FLX_DEFAULT}

/** y[(i + shift) mod n] = x[i] along axis */
static inline flx_val flx_roll_with(flx_graph *g, flx_val x, const flx_roll_attrs *attrs)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_roll_attrs);
    if (FLX_HAS_NUMBER_(flx_roll_attrs, shift) && attrs->shift != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("shift", attrs->shift);
    if (FLX_HAS_NUMBER_(flx_roll_attrs, axis) && attrs->axis != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("axis", attrs->axis);
    return flx_op1(g, "roll", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_roll(...) FLX_ROLL_(__VA_ARGS__, .struct_size = sizeof(flx_roll_attrs))
#define FLX_ROLL_(g_, x_, ...) FLX_BUILT_(flx_val, flx_roll_with((g_), (x_), &(flx_roll_attrs){.shift = FLX_DEFAULT, \
    .axis = FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_roll(flx_graph *g, flx_val x, const flx_roll_attrs *attrs)
{
    return flx_roll_with(g, x, attrs);
}
#endif

typedef struct flx_meshgrid_attrs {
    uint32_t struct_size; /* sizeof(flx_meshgrid_attrs) */
    const char *indexing; /* ij; of: ij xy */
} flx_meshgrid_attrs;
#define FLX_MESHGRID_ATTRS {sizeof(flx_meshgrid_attrs), NULL}

/** result k is vector k broadcast over the grid of all; xy swaps the first two axes */
static inline uint32_t flx_meshgrid_with(flx_graph *g, const flx_val *operands, size_t num_operands, flx_val *results,
                                         size_t capacity, const flx_meshgrid_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    FLX_CHECK_SIZE_(flx_meshgrid_attrs);
    if (FLX_HAS_(flx_meshgrid_attrs, indexing) && attrs->indexing)
        flx_a[flx_n++] = flx_attr_word("indexing", attrs->indexing);
    return flx_op(g, "meshgrid", operands, num_operands, flx_n ? flx_a : NULL, flx_n, results, capacity);
}

#ifndef __cplusplus
#define flx_meshgrid(...) FLX_MESHGRID_(__VA_ARGS__, .struct_size = sizeof(flx_meshgrid_attrs))
#define FLX_MESHGRID_(g_, operands_, num_operands_, results_, capacity_, ...) FLX_BUILT_(uint32_t, \
    flx_meshgrid_with((g_), (operands_), (num_operands_), (results_), (capacity_), &(flx_meshgrid_attrs){.struct_size \
    = 0, __VA_ARGS__}))
#else
static inline uint32_t flx_meshgrid(flx_graph *g, const flx_val *operands, size_t num_operands, flx_val *results, size_t
                                    capacity, const flx_meshgrid_attrs *attrs = NULL)
{
    return flx_meshgrid_with(g, operands, num_operands, results, capacity, attrs);
}
#endif


/* ---- reduce ---- */

typedef struct flx_reduce_sum_attrs {
    uint32_t struct_size; /* sizeof(flx_reduce_sum_attrs) */
    flx_ints axes; /* all */
    int keep_dims; /* false */
} flx_reduce_sum_attrs;
#define FLX_REDUCE_SUM_ATTRS {sizeof(flx_reduce_sum_attrs), {NULL, 0}, -1}

/** sum over axes; 0 if empty; bool: or */
static inline flx_val flx_reduce_sum_with(flx_graph *g, flx_val x, const flx_reduce_sum_attrs *attrs)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_reduce_sum_attrs);
    if (FLX_HAS_(flx_reduce_sum_attrs, axes) && FLX_LISTED_(attrs->axes))
        flx_a[flx_n++] = flx_attr_ints("axes", attrs->axes);
    if (FLX_HAS_NUMBER_(flx_reduce_sum_attrs, keep_dims) && attrs->keep_dims >= 0)
        flx_a[flx_n++] = flx_attr_int("keep_dims", attrs->keep_dims);
    return flx_op1(g, "reduce_sum", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_reduce_sum(...) FLX_REDUCE_SUM_(__VA_ARGS__, .struct_size = sizeof(flx_reduce_sum_attrs))
#define FLX_REDUCE_SUM_(g_, x_, ...) FLX_BUILT_(flx_val, flx_reduce_sum_with((g_), (x_), \
    &(flx_reduce_sum_attrs){.keep_dims = -1, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_reduce_sum(flx_graph *g, flx_val x, const flx_reduce_sum_attrs *attrs = NULL)
{
    return flx_reduce_sum_with(g, x, attrs);
}
#endif

typedef struct flx_reduce_mean_attrs {
    uint32_t struct_size; /* sizeof(flx_reduce_mean_attrs) */
    flx_ints axes; /* all */
    int keep_dims; /* false */
} flx_reduce_mean_attrs;
#define FLX_REDUCE_MEAN_ATTRS {sizeof(flx_reduce_mean_attrs), {NULL, 0}, -1}

/** sum over axes / count; NaN if empty */
static inline flx_val flx_reduce_mean_with(flx_graph *g, flx_val x, const flx_reduce_mean_attrs *attrs)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_reduce_mean_attrs);
    if (FLX_HAS_(flx_reduce_mean_attrs, axes) && FLX_LISTED_(attrs->axes))
        flx_a[flx_n++] = flx_attr_ints("axes", attrs->axes);
    if (FLX_HAS_NUMBER_(flx_reduce_mean_attrs, keep_dims) && attrs->keep_dims >= 0)
        flx_a[flx_n++] = flx_attr_int("keep_dims", attrs->keep_dims);
    return flx_op1(g, "reduce_mean", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_reduce_mean(...) FLX_REDUCE_MEAN_(__VA_ARGS__, .struct_size = sizeof(flx_reduce_mean_attrs))
#define FLX_REDUCE_MEAN_(g_, x_, ...) FLX_BUILT_(flx_val, flx_reduce_mean_with((g_), (x_), \
    &(flx_reduce_mean_attrs){.keep_dims = -1, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_reduce_mean(flx_graph *g, flx_val x, const flx_reduce_mean_attrs *attrs = NULL)
{
    return flx_reduce_mean_with(g, x, attrs);
}
#endif

typedef struct flx_reduce_max_attrs {
    uint32_t struct_size; /* sizeof(flx_reduce_max_attrs) */
    flx_ints axes; /* all */
    int keep_dims; /* false */
} flx_reduce_max_attrs;
#define FLX_REDUCE_MAX_ATTRS {sizeof(flx_reduce_max_attrs), {NULL, 0}, -1}

/** maximum over axes; NaN if any element is NaN; -inf or the type's minimum if empty; bool: or */
static inline flx_val flx_reduce_max_with(flx_graph *g, flx_val x, const flx_reduce_max_attrs *attrs)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_reduce_max_attrs);
    if (FLX_HAS_(flx_reduce_max_attrs, axes) && FLX_LISTED_(attrs->axes))
        flx_a[flx_n++] = flx_attr_ints("axes", attrs->axes);
    if (FLX_HAS_NUMBER_(flx_reduce_max_attrs, keep_dims) && attrs->keep_dims >= 0)
        flx_a[flx_n++] = flx_attr_int("keep_dims", attrs->keep_dims);
    return flx_op1(g, "reduce_max", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_reduce_max(...) FLX_REDUCE_MAX_(__VA_ARGS__, .struct_size = sizeof(flx_reduce_max_attrs))
#define FLX_REDUCE_MAX_(g_, x_, ...) FLX_BUILT_(flx_val, flx_reduce_max_with((g_), (x_), \
    &(flx_reduce_max_attrs){.keep_dims = -1, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_reduce_max(flx_graph *g, flx_val x, const flx_reduce_max_attrs *attrs = NULL)
{
    return flx_reduce_max_with(g, x, attrs);
}
#endif

typedef struct flx_reduce_min_attrs {
    uint32_t struct_size; /* sizeof(flx_reduce_min_attrs) */
    flx_ints axes; /* all */
    int keep_dims; /* false */
} flx_reduce_min_attrs;
#define FLX_REDUCE_MIN_ATTRS {sizeof(flx_reduce_min_attrs), {NULL, 0}, -1}

/** minimum over axes; NaN if any element is NaN; +inf or the type's maximum if empty; bool: and */
static inline flx_val flx_reduce_min_with(flx_graph *g, flx_val x, const flx_reduce_min_attrs *attrs)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_reduce_min_attrs);
    if (FLX_HAS_(flx_reduce_min_attrs, axes) && FLX_LISTED_(attrs->axes))
        flx_a[flx_n++] = flx_attr_ints("axes", attrs->axes);
    if (FLX_HAS_NUMBER_(flx_reduce_min_attrs, keep_dims) && attrs->keep_dims >= 0)
        flx_a[flx_n++] = flx_attr_int("keep_dims", attrs->keep_dims);
    return flx_op1(g, "reduce_min", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_reduce_min(...) FLX_REDUCE_MIN_(__VA_ARGS__, .struct_size = sizeof(flx_reduce_min_attrs))
#define FLX_REDUCE_MIN_(g_, x_, ...) FLX_BUILT_(flx_val, flx_reduce_min_with((g_), (x_), \
    &(flx_reduce_min_attrs){.keep_dims = -1, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_reduce_min(flx_graph *g, flx_val x, const flx_reduce_min_attrs *attrs = NULL)
{
    return flx_reduce_min_with(g, x, attrs);
}
#endif

typedef struct flx_reduce_prod_attrs {
    uint32_t struct_size; /* sizeof(flx_reduce_prod_attrs) */
    flx_ints axes; /* all */
    int keep_dims; /* false */
} flx_reduce_prod_attrs;
#define FLX_REDUCE_PROD_ATTRS {sizeof(flx_reduce_prod_attrs), {NULL, 0}, -1}

/** product over axes; 1 if empty; bool: and */
static inline flx_val flx_reduce_prod_with(flx_graph *g, flx_val x, const flx_reduce_prod_attrs *attrs)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_reduce_prod_attrs);
    if (FLX_HAS_(flx_reduce_prod_attrs, axes) && FLX_LISTED_(attrs->axes))
        flx_a[flx_n++] = flx_attr_ints("axes", attrs->axes);
    if (FLX_HAS_NUMBER_(flx_reduce_prod_attrs, keep_dims) && attrs->keep_dims >= 0)
        flx_a[flx_n++] = flx_attr_int("keep_dims", attrs->keep_dims);
    return flx_op1(g, "reduce_prod", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_reduce_prod(...) FLX_REDUCE_PROD_(__VA_ARGS__, .struct_size = sizeof(flx_reduce_prod_attrs))
#define FLX_REDUCE_PROD_(g_, x_, ...) FLX_BUILT_(flx_val, flx_reduce_prod_with((g_), (x_), \
    &(flx_reduce_prod_attrs){.keep_dims = -1, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_reduce_prod(flx_graph *g, flx_val x, const flx_reduce_prod_attrs *attrs = NULL)
{
    return flx_reduce_prod_with(g, x, attrs);
}
#endif

typedef struct flx_reduce_any_attrs {
    uint32_t struct_size; /* sizeof(flx_reduce_any_attrs) */
    flx_ints axes; /* all */
    int keep_dims; /* false */
} flx_reduce_any_attrs;
#define FLX_REDUCE_ANY_ATTRS {sizeof(flx_reduce_any_attrs), {NULL, 0}, -1}

/** true if any element over axes is true */
static inline flx_val flx_reduce_any_with(flx_graph *g, flx_val x, const flx_reduce_any_attrs *attrs)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_reduce_any_attrs);
    if (FLX_HAS_(flx_reduce_any_attrs, axes) && FLX_LISTED_(attrs->axes))
        flx_a[flx_n++] = flx_attr_ints("axes", attrs->axes);
    if (FLX_HAS_NUMBER_(flx_reduce_any_attrs, keep_dims) && attrs->keep_dims >= 0)
        flx_a[flx_n++] = flx_attr_int("keep_dims", attrs->keep_dims);
    return flx_op1(g, "reduce_any", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_reduce_any(...) FLX_REDUCE_ANY_(__VA_ARGS__, .struct_size = sizeof(flx_reduce_any_attrs))
#define FLX_REDUCE_ANY_(g_, x_, ...) FLX_BUILT_(flx_val, flx_reduce_any_with((g_), (x_), \
    &(flx_reduce_any_attrs){.keep_dims = -1, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_reduce_any(flx_graph *g, flx_val x, const flx_reduce_any_attrs *attrs = NULL)
{
    return flx_reduce_any_with(g, x, attrs);
}
#endif

typedef struct flx_reduce_all_attrs {
    uint32_t struct_size; /* sizeof(flx_reduce_all_attrs) */
    flx_ints axes; /* all */
    int keep_dims; /* false */
} flx_reduce_all_attrs;
#define FLX_REDUCE_ALL_ATTRS {sizeof(flx_reduce_all_attrs), {NULL, 0}, -1}

/** true if all elements over axes are true */
static inline flx_val flx_reduce_all_with(flx_graph *g, flx_val x, const flx_reduce_all_attrs *attrs)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_reduce_all_attrs);
    if (FLX_HAS_(flx_reduce_all_attrs, axes) && FLX_LISTED_(attrs->axes))
        flx_a[flx_n++] = flx_attr_ints("axes", attrs->axes);
    if (FLX_HAS_NUMBER_(flx_reduce_all_attrs, keep_dims) && attrs->keep_dims >= 0)
        flx_a[flx_n++] = flx_attr_int("keep_dims", attrs->keep_dims);
    return flx_op1(g, "reduce_all", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_reduce_all(...) FLX_REDUCE_ALL_(__VA_ARGS__, .struct_size = sizeof(flx_reduce_all_attrs))
#define FLX_REDUCE_ALL_(g_, x_, ...) FLX_BUILT_(flx_val, flx_reduce_all_with((g_), (x_), \
    &(flx_reduce_all_attrs){.keep_dims = -1, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_reduce_all(flx_graph *g, flx_val x, const flx_reduce_all_attrs *attrs = NULL)
{
    return flx_reduce_all_with(g, x, attrs);
}
#endif

typedef struct flx_argmax_attrs {
    uint32_t struct_size; /* sizeof(flx_argmax_attrs) */
    int64_t axis; /* -1 */
    int keep_dims; /* false */
    flx_dtype dtype; /* i32 */
} flx_argmax_attrs;
#define FLX_ARGMAX_ATTRS {sizeof(flx_argmax_attrs), FLX_DEFAULT, -1, FLX_DTYPE_NONE}

/** position of the largest along axis; the lowest among ties; the first NaN if there is one */
static inline flx_val flx_argmax_with(flx_graph *g, flx_val x, const flx_argmax_attrs *attrs)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_argmax_attrs);
    if (FLX_HAS_NUMBER_(flx_argmax_attrs, axis) && attrs->axis != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("axis", attrs->axis);
    if (FLX_HAS_NUMBER_(flx_argmax_attrs, keep_dims) && attrs->keep_dims >= 0)
        flx_a[flx_n++] = flx_attr_int("keep_dims", attrs->keep_dims);
    if (FLX_HAS_(flx_argmax_attrs, dtype) && attrs->dtype != FLX_DTYPE_NONE)
        flx_a[flx_n++] = flx_attr_dtype("dtype", attrs->dtype);
    return flx_op1(g, "argmax", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_argmax(...) FLX_ARGMAX_(__VA_ARGS__, .struct_size = sizeof(flx_argmax_attrs))
#define FLX_ARGMAX_(g_, x_, ...) FLX_BUILT_(flx_val, flx_argmax_with((g_), (x_), &(flx_argmax_attrs){.axis = \
    FLX_DEFAULT, .keep_dims = -1, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_argmax(flx_graph *g, flx_val x, const flx_argmax_attrs *attrs = NULL)
{
    return flx_argmax_with(g, x, attrs);
}
#endif

typedef struct flx_argmin_attrs {
    uint32_t struct_size; /* sizeof(flx_argmin_attrs) */
    int64_t axis; /* -1 */
    int keep_dims; /* false */
    flx_dtype dtype; /* i32 */
} flx_argmin_attrs;
#define FLX_ARGMIN_ATTRS {sizeof(flx_argmin_attrs), FLX_DEFAULT, -1, FLX_DTYPE_NONE}

/** position of the smallest along axis; the lowest among ties; the first NaN if there is one */
static inline flx_val flx_argmin_with(flx_graph *g, flx_val x, const flx_argmin_attrs *attrs)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_argmin_attrs);
    if (FLX_HAS_NUMBER_(flx_argmin_attrs, axis) && attrs->axis != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("axis", attrs->axis);
    if (FLX_HAS_NUMBER_(flx_argmin_attrs, keep_dims) && attrs->keep_dims >= 0)
        flx_a[flx_n++] = flx_attr_int("keep_dims", attrs->keep_dims);
    if (FLX_HAS_(flx_argmin_attrs, dtype) && attrs->dtype != FLX_DTYPE_NONE)
        flx_a[flx_n++] = flx_attr_dtype("dtype", attrs->dtype);
    return flx_op1(g, "argmin", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_argmin(...) FLX_ARGMIN_(__VA_ARGS__, .struct_size = sizeof(flx_argmin_attrs))
#define FLX_ARGMIN_(g_, x_, ...) FLX_BUILT_(flx_val, flx_argmin_with((g_), (x_), &(flx_argmin_attrs){.axis = \
    FLX_DEFAULT, .keep_dims = -1, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_argmin(flx_graph *g, flx_val x, const flx_argmin_attrs *attrs = NULL)
{
    return flx_argmin_with(g, x, attrs);
}
#endif

typedef struct flx_softmax_attrs {
    uint32_t struct_size; /* sizeof(flx_softmax_attrs) */
    int64_t axis; /* -1 */
} flx_softmax_attrs;
#define FLX_SOFTMAX_ATTRS {sizeof(flx_softmax_attrs), FLX_DEFAULT}

/** exp(x - max) / sum exp(x - max) along axis */
static inline flx_val flx_softmax_with(flx_graph *g, flx_val x, const flx_softmax_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_softmax_attrs);
    if (FLX_HAS_NUMBER_(flx_softmax_attrs, axis) && attrs->axis != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("axis", attrs->axis);
    return flx_op1(g, "softmax", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_softmax(...) FLX_SOFTMAX_(__VA_ARGS__, .struct_size = sizeof(flx_softmax_attrs))
#define FLX_SOFTMAX_(g_, x_, ...) FLX_BUILT_(flx_val, flx_softmax_with((g_), (x_), &(flx_softmax_attrs){.axis = \
    FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_softmax(flx_graph *g, flx_val x, const flx_softmax_attrs *attrs = NULL)
{
    return flx_softmax_with(g, x, attrs);
}
#endif

typedef struct flx_log_softmax_attrs {
    uint32_t struct_size; /* sizeof(flx_log_softmax_attrs) */
    int64_t axis; /* -1 */
} flx_log_softmax_attrs;
#define FLX_LOG_SOFTMAX_ATTRS {sizeof(flx_log_softmax_attrs), FLX_DEFAULT}

/** x - max - log(sum exp(x - max)) along axis */
static inline flx_val flx_log_softmax_with(flx_graph *g, flx_val x, const flx_log_softmax_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_log_softmax_attrs);
    if (FLX_HAS_NUMBER_(flx_log_softmax_attrs, axis) && attrs->axis != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("axis", attrs->axis);
    return flx_op1(g, "log_softmax", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_log_softmax(...) FLX_LOG_SOFTMAX_(__VA_ARGS__, .struct_size = sizeof(flx_log_softmax_attrs))
#define FLX_LOG_SOFTMAX_(g_, x_, ...) FLX_BUILT_(flx_val, flx_log_softmax_with((g_), (x_), \
    &(flx_log_softmax_attrs){.axis = FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_log_softmax(flx_graph *g, flx_val x, const flx_log_softmax_attrs *attrs = NULL)
{
    return flx_log_softmax_with(g, x, attrs);
}
#endif

typedef struct flx_cumsum_attrs {
    uint32_t struct_size; /* sizeof(flx_cumsum_attrs) */
    int64_t axis; /* -1 */
    int exclusive; /* false */
    int reverse; /* false */
} flx_cumsum_attrs;
#define FLX_CUMSUM_ATTRS {sizeof(flx_cumsum_attrs), FLX_DEFAULT, -1, -1}

/** running sum along axis; exclusive starts from 0; bool: or */
static inline flx_val flx_cumsum_with(flx_graph *g, flx_val x, const flx_cumsum_attrs *attrs)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_cumsum_attrs);
    if (FLX_HAS_NUMBER_(flx_cumsum_attrs, axis) && attrs->axis != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("axis", attrs->axis);
    if (FLX_HAS_NUMBER_(flx_cumsum_attrs, exclusive) && attrs->exclusive >= 0)
        flx_a[flx_n++] = flx_attr_int("exclusive", attrs->exclusive);
    if (FLX_HAS_NUMBER_(flx_cumsum_attrs, reverse) && attrs->reverse >= 0)
        flx_a[flx_n++] = flx_attr_int("reverse", attrs->reverse);
    return flx_op1(g, "cumsum", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_cumsum(...) FLX_CUMSUM_(__VA_ARGS__, .struct_size = sizeof(flx_cumsum_attrs))
#define FLX_CUMSUM_(g_, x_, ...) FLX_BUILT_(flx_val, flx_cumsum_with((g_), (x_), &(flx_cumsum_attrs){.axis = \
    FLX_DEFAULT, .exclusive = -1, .reverse = -1, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_cumsum(flx_graph *g, flx_val x, const flx_cumsum_attrs *attrs = NULL)
{
    return flx_cumsum_with(g, x, attrs);
}
#endif

typedef struct flx_cumprod_attrs {
    uint32_t struct_size; /* sizeof(flx_cumprod_attrs) */
    int64_t axis; /* -1 */
    int exclusive; /* false */
    int reverse; /* false */
} flx_cumprod_attrs;
#define FLX_CUMPROD_ATTRS {sizeof(flx_cumprod_attrs), FLX_DEFAULT, -1, -1}

/** running product along axis; exclusive starts from 1; bool: and */
static inline flx_val flx_cumprod_with(flx_graph *g, flx_val x, const flx_cumprod_attrs *attrs)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_cumprod_attrs);
    if (FLX_HAS_NUMBER_(flx_cumprod_attrs, axis) && attrs->axis != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("axis", attrs->axis);
    if (FLX_HAS_NUMBER_(flx_cumprod_attrs, exclusive) && attrs->exclusive >= 0)
        flx_a[flx_n++] = flx_attr_int("exclusive", attrs->exclusive);
    if (FLX_HAS_NUMBER_(flx_cumprod_attrs, reverse) && attrs->reverse >= 0)
        flx_a[flx_n++] = flx_attr_int("reverse", attrs->reverse);
    return flx_op1(g, "cumprod", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_cumprod(...) FLX_CUMPROD_(__VA_ARGS__, .struct_size = sizeof(flx_cumprod_attrs))
#define FLX_CUMPROD_(g_, x_, ...) FLX_BUILT_(flx_val, flx_cumprod_with((g_), (x_), &(flx_cumprod_attrs){.axis = \
    FLX_DEFAULT, .exclusive = -1, .reverse = -1, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_cumprod(flx_graph *g, flx_val x, const flx_cumprod_attrs *attrs = NULL)
{
    return flx_cumprod_with(g, x, attrs);
}
#endif

typedef struct flx_cummax_attrs {
    uint32_t struct_size; /* sizeof(flx_cummax_attrs) */
    int64_t axis; /* -1 */
    int exclusive; /* false */
    int reverse; /* false */
} flx_cummax_attrs;
#define FLX_CUMMAX_ATTRS {sizeof(flx_cummax_attrs), FLX_DEFAULT, -1, -1}

/** running maximum along axis, NaN from the first NaN on; exclusive starts from -inf or the type's minimum */
static inline flx_val flx_cummax_with(flx_graph *g, flx_val x, const flx_cummax_attrs *attrs)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_cummax_attrs);
    if (FLX_HAS_NUMBER_(flx_cummax_attrs, axis) && attrs->axis != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("axis", attrs->axis);
    if (FLX_HAS_NUMBER_(flx_cummax_attrs, exclusive) && attrs->exclusive >= 0)
        flx_a[flx_n++] = flx_attr_int("exclusive", attrs->exclusive);
    if (FLX_HAS_NUMBER_(flx_cummax_attrs, reverse) && attrs->reverse >= 0)
        flx_a[flx_n++] = flx_attr_int("reverse", attrs->reverse);
    return flx_op1(g, "cummax", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_cummax(...) FLX_CUMMAX_(__VA_ARGS__, .struct_size = sizeof(flx_cummax_attrs))
#define FLX_CUMMAX_(g_, x_, ...) FLX_BUILT_(flx_val, flx_cummax_with((g_), (x_), &(flx_cummax_attrs){.axis = \
    FLX_DEFAULT, .exclusive = -1, .reverse = -1, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_cummax(flx_graph *g, flx_val x, const flx_cummax_attrs *attrs = NULL)
{
    return flx_cummax_with(g, x, attrs);
}
#endif

typedef struct flx_cummin_attrs {
    uint32_t struct_size; /* sizeof(flx_cummin_attrs) */
    int64_t axis; /* -1 */
    int exclusive; /* false */
    int reverse; /* false */
} flx_cummin_attrs;
#define FLX_CUMMIN_ATTRS {sizeof(flx_cummin_attrs), FLX_DEFAULT, -1, -1}

/** running minimum along axis, NaN from the first NaN on; exclusive starts from +inf or the type's maximum */
static inline flx_val flx_cummin_with(flx_graph *g, flx_val x, const flx_cummin_attrs *attrs)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_cummin_attrs);
    if (FLX_HAS_NUMBER_(flx_cummin_attrs, axis) && attrs->axis != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("axis", attrs->axis);
    if (FLX_HAS_NUMBER_(flx_cummin_attrs, exclusive) && attrs->exclusive >= 0)
        flx_a[flx_n++] = flx_attr_int("exclusive", attrs->exclusive);
    if (FLX_HAS_NUMBER_(flx_cummin_attrs, reverse) && attrs->reverse >= 0)
        flx_a[flx_n++] = flx_attr_int("reverse", attrs->reverse);
    return flx_op1(g, "cummin", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_cummin(...) FLX_CUMMIN_(__VA_ARGS__, .struct_size = sizeof(flx_cummin_attrs))
#define FLX_CUMMIN_(g_, x_, ...) FLX_BUILT_(flx_val, flx_cummin_with((g_), (x_), &(flx_cummin_attrs){.axis = \
    FLX_DEFAULT, .exclusive = -1, .reverse = -1, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_cummin(flx_graph *g, flx_val x, const flx_cummin_attrs *attrs = NULL)
{
    return flx_cummin_with(g, x, attrs);
}
#endif

typedef struct flx_cumlogsumexp_attrs {
    uint32_t struct_size; /* sizeof(flx_cumlogsumexp_attrs) */
    int64_t axis; /* -1 */
    int exclusive; /* false */
    int reverse; /* false */
} flx_cumlogsumexp_attrs;
#define FLX_CUMLOGSUMEXP_ATTRS {sizeof(flx_cumlogsumexp_attrs), FLX_DEFAULT, -1, -1}

/** log of the running sum of exp(x) along axis; exclusive starts from -inf */
static inline flx_val flx_cumlogsumexp_with(flx_graph *g, flx_val x, const flx_cumlogsumexp_attrs *attrs)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_cumlogsumexp_attrs);
    if (FLX_HAS_NUMBER_(flx_cumlogsumexp_attrs, axis) && attrs->axis != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("axis", attrs->axis);
    if (FLX_HAS_NUMBER_(flx_cumlogsumexp_attrs, exclusive) && attrs->exclusive >= 0)
        flx_a[flx_n++] = flx_attr_int("exclusive", attrs->exclusive);
    if (FLX_HAS_NUMBER_(flx_cumlogsumexp_attrs, reverse) && attrs->reverse >= 0)
        flx_a[flx_n++] = flx_attr_int("reverse", attrs->reverse);
    return flx_op1(g, "cumlogsumexp", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_cumlogsumexp(...) FLX_CUMLOGSUMEXP_(__VA_ARGS__, .struct_size = sizeof(flx_cumlogsumexp_attrs))
#define FLX_CUMLOGSUMEXP_(g_, x_, ...) FLX_BUILT_(flx_val, flx_cumlogsumexp_with((g_), (x_), \
    &(flx_cumlogsumexp_attrs){.axis = FLX_DEFAULT, .exclusive = -1, .reverse = -1, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_cumlogsumexp(flx_graph *g, flx_val x, const flx_cumlogsumexp_attrs *attrs = NULL)
{
    return flx_cumlogsumexp_with(g, x, attrs);
}
#endif

typedef struct flx_reduce_attrs {
    uint32_t struct_size; /* sizeof(flx_reduce_attrs) */
    const flx_graph *body; /* must be given */
    flx_ints axes; /* all */
} flx_reduce_attrs;
#define FLX_REDUCE_ATTRS {sizeof(flx_reduce_attrs), NULL, {NULL, 0}}

/** x1, ..., init1, ...: accumulators = body(accumulators, elements), folded in row-major order over axes from init */
static inline uint32_t flx_reduce_with(flx_graph *g, const flx_val *operands, size_t num_operands, flx_val *results,
                                       size_t capacity, const flx_reduce_attrs *attrs)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    FLX_CHECK_SIZE_(flx_reduce_attrs);
    if (FLX_HAS_(flx_reduce_attrs, body) && attrs->body)
        flx_a[flx_n++] = flx_attr_graph("body", attrs->body);
    if (FLX_HAS_(flx_reduce_attrs, axes) && FLX_LISTED_(attrs->axes))
        flx_a[flx_n++] = flx_attr_ints("axes", attrs->axes);
    return flx_op(g, "reduce", operands, num_operands, flx_n ? flx_a : NULL, flx_n, results, capacity);
}

#ifndef __cplusplus
#define flx_reduce(...) FLX_REDUCE_(__VA_ARGS__, .struct_size = sizeof(flx_reduce_attrs))
#define FLX_REDUCE_(g_, operands_, num_operands_, results_, capacity_, ...) FLX_BUILT_(uint32_t, flx_reduce_with((g_), \
    (operands_), (num_operands_), (results_), (capacity_), &(flx_reduce_attrs){.struct_size = 0, __VA_ARGS__}))
#else
static inline uint32_t flx_reduce(flx_graph *g, const flx_val *operands, size_t num_operands, flx_val *results, size_t
                                  capacity, const flx_reduce_attrs *attrs)
{
    return flx_reduce_with(g, operands, num_operands, results, capacity, attrs);
}
#endif

typedef struct flx_map_attrs {
    uint32_t struct_size; /* sizeof(flx_map_attrs) */
    const flx_graph *body; /* must be given */
} flx_map_attrs;
#define FLX_MAP_ATTRS {sizeof(flx_map_attrs), NULL}

/** body applied to the elements of operands of equal shape */
static inline uint32_t flx_map_with(flx_graph *g, const flx_val *operands, size_t num_operands, flx_val *results, size_t
                                    capacity, const flx_map_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    FLX_CHECK_SIZE_(flx_map_attrs);
    if (FLX_HAS_(flx_map_attrs, body) && attrs->body)
        flx_a[flx_n++] = flx_attr_graph("body", attrs->body);
    return flx_op(g, "map", operands, num_operands, flx_n ? flx_a : NULL, flx_n, results, capacity);
}

#ifndef __cplusplus
#define flx_map(...) FLX_MAP_(__VA_ARGS__, .struct_size = sizeof(flx_map_attrs))
#define FLX_MAP_(g_, operands_, num_operands_, results_, capacity_, ...) FLX_BUILT_(uint32_t, flx_map_with((g_), \
    (operands_), (num_operands_), (results_), (capacity_), &(flx_map_attrs){.struct_size = 0, __VA_ARGS__}))
#else
static inline uint32_t flx_map(flx_graph *g, const flx_val *operands, size_t num_operands, flx_val *results, size_t
                               capacity, const flx_map_attrs *attrs)
{
    return flx_map_with(g, operands, num_operands, results, capacity, attrs);
}
#endif

typedef struct flx_topk_attrs {
    uint32_t struct_size; /* sizeof(flx_topk_attrs) */
    flx_dim k; /* must be given */
    flx_dtype dtype; /* i32 */
} flx_topk_attrs;
#define FLX_TOPK_ATTRS {sizeof(flx_topk_attrs), FLX_DEFAULT, FLX_DTYPE_NONE}

/** positions of the k largest along the last axis, largest first; top_k takes any axis and gives their values too */
static inline flx_val flx_topk_with(flx_graph *g, flx_val x, const flx_topk_attrs *attrs)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_topk_attrs);
    if (FLX_HAS_NUMBER_(flx_topk_attrs, k) && attrs->k != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("k", attrs->k);
    if (FLX_HAS_(flx_topk_attrs, dtype) && attrs->dtype != FLX_DTYPE_NONE)
        flx_a[flx_n++] = flx_attr_dtype("dtype", attrs->dtype);
    return flx_op1(g, "topk", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_topk(...) FLX_TOPK_(__VA_ARGS__, .struct_size = sizeof(flx_topk_attrs))
#define FLX_TOPK_(g_, x_, ...) FLX_BUILT_(flx_val, flx_topk_with((g_), (x_), &(flx_topk_attrs){.k = FLX_DEFAULT, \
    .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_topk(flx_graph *g, flx_val x, const flx_topk_attrs *attrs)
{
    return flx_topk_with(g, x, attrs);
}
#endif

typedef struct flx_top_k_attrs {
    uint32_t struct_size; /* sizeof(flx_top_k_attrs) */
    flx_dim k; /* must be given */
    int64_t axis; /* -1 */
    flx_dtype dtype; /* i32 */
} flx_top_k_attrs;
#define FLX_TOP_K_ATTRS {sizeof(flx_top_k_attrs), FLX_DEFAULT, FLX_DEFAULT, FLX_DTYPE_NONE}

/** the k largest along axis and their positions, largest first; topk gives the positions alone */
static inline uint32_t flx_top_k_with(flx_graph *g, flx_val x, flx_val results[2], const flx_top_k_attrs *attrs)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_top_k_attrs);
    if (FLX_HAS_NUMBER_(flx_top_k_attrs, k) && attrs->k != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("k", attrs->k);
    if (FLX_HAS_NUMBER_(flx_top_k_attrs, axis) && attrs->axis != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("axis", attrs->axis);
    if (FLX_HAS_(flx_top_k_attrs, dtype) && attrs->dtype != FLX_DTYPE_NONE)
        flx_a[flx_n++] = flx_attr_dtype("dtype", attrs->dtype);
    return flx_op(g, "top_k", flx_x, 1, flx_n ? flx_a : NULL, flx_n, results, 2);
}

#ifndef __cplusplus
#define flx_top_k(...) FLX_TOP_K_(__VA_ARGS__, .struct_size = sizeof(flx_top_k_attrs))
#define FLX_TOP_K_(g_, x_, results_, ...) FLX_BUILT_(uint32_t, flx_top_k_with((g_), (x_), (results_), \
    &(flx_top_k_attrs){.k = FLX_DEFAULT, .axis = FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline uint32_t flx_top_k(flx_graph *g, flx_val x, flx_val results[2], const flx_top_k_attrs *attrs)
{
    return flx_top_k_with(g, x, results, attrs);
}
#endif

typedef struct flx_sort_attrs {
    uint32_t struct_size; /* sizeof(flx_sort_attrs) */
    int64_t axis; /* -1 */
    int64_t num_keys; /* 1 */
    int stable; /* true */
    int descending; /* false */
    const flx_graph *compare; /* none */
} flx_sort_attrs;
#define FLX_SORT_ATTRS {sizeof(flx_sort_attrs), FLX_DEFAULT, FLX_DEFAULT, -1, -1, NULL}

/** operands reordered together along axis, by the first num_keys of them; compare(a1, b1, ...) says whether a comes
    first */
static inline uint32_t flx_sort_with(flx_graph *g, const flx_val *operands, size_t num_operands, flx_val *results,
                                     size_t capacity, const flx_sort_attrs *attrs)
{
    flx_attr flx_a[5];
    size_t flx_n = 0;
    FLX_CHECK_SIZE_(flx_sort_attrs);
    if (FLX_HAS_NUMBER_(flx_sort_attrs, axis) && attrs->axis != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("axis", attrs->axis);
    if (FLX_HAS_NUMBER_(flx_sort_attrs, num_keys) && attrs->num_keys != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("num_keys", attrs->num_keys);
    if (FLX_HAS_NUMBER_(flx_sort_attrs, stable) && attrs->stable >= 0)
        flx_a[flx_n++] = flx_attr_int("stable", attrs->stable);
    if (FLX_HAS_NUMBER_(flx_sort_attrs, descending) && attrs->descending >= 0)
        flx_a[flx_n++] = flx_attr_int("descending", attrs->descending);
    if (FLX_HAS_(flx_sort_attrs, compare) && attrs->compare)
        flx_a[flx_n++] = flx_attr_graph("compare", attrs->compare);
    return flx_op(g, "sort", operands, num_operands, flx_n ? flx_a : NULL, flx_n, results, capacity);
}

#ifndef __cplusplus
#define flx_sort(...) FLX_SORT_(__VA_ARGS__, .struct_size = sizeof(flx_sort_attrs))
#define FLX_SORT_(g_, operands_, num_operands_, results_, capacity_, ...) FLX_BUILT_(uint32_t, flx_sort_with((g_), \
    (operands_), (num_operands_), (results_), (capacity_), &(flx_sort_attrs){.axis = FLX_DEFAULT, .num_keys = \
    FLX_DEFAULT, .stable = -1, .descending = -1, .struct_size = 0, __VA_ARGS__}))
#else
static inline uint32_t flx_sort(flx_graph *g, const flx_val *operands, size_t num_operands, flx_val *results, size_t
                                capacity, const flx_sort_attrs *attrs = NULL)
{
    return flx_sort_with(g, operands, num_operands, results, capacity, attrs);
}
#endif

typedef struct flx_argsort_attrs {
    uint32_t struct_size; /* sizeof(flx_argsort_attrs) */
    int64_t axis; /* -1 */
    int stable; /* true */
    int descending; /* false */
    flx_dtype dtype; /* i32 */
} flx_argsort_attrs;
#define FLX_ARGSORT_ATTRS {sizeof(flx_argsort_attrs), FLX_DEFAULT, -1, -1, FLX_DTYPE_NONE}

/** the permutation that sorts along axis */
static inline flx_val flx_argsort_with(flx_graph *g, flx_val x, const flx_argsort_attrs *attrs)
{
    flx_attr flx_a[4];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_argsort_attrs);
    if (FLX_HAS_NUMBER_(flx_argsort_attrs, axis) && attrs->axis != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("axis", attrs->axis);
    if (FLX_HAS_NUMBER_(flx_argsort_attrs, stable) && attrs->stable >= 0)
        flx_a[flx_n++] = flx_attr_int("stable", attrs->stable);
    if (FLX_HAS_NUMBER_(flx_argsort_attrs, descending) && attrs->descending >= 0)
        flx_a[flx_n++] = flx_attr_int("descending", attrs->descending);
    if (FLX_HAS_(flx_argsort_attrs, dtype) && attrs->dtype != FLX_DTYPE_NONE)
        flx_a[flx_n++] = flx_attr_dtype("dtype", attrs->dtype);
    return flx_op1(g, "argsort", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_argsort(...) FLX_ARGSORT_(__VA_ARGS__, .struct_size = sizeof(flx_argsort_attrs))
#define FLX_ARGSORT_(g_, x_, ...) FLX_BUILT_(flx_val, flx_argsort_with((g_), (x_), &(flx_argsort_attrs){.axis = \
    FLX_DEFAULT, .stable = -1, .descending = -1, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_argsort(flx_graph *g, flx_val x, const flx_argsort_attrs *attrs = NULL)
{
    return flx_argsort_with(g, x, attrs);
}
#endif


/* ---- index ---- */

typedef struct flx_gather_attrs {
    uint32_t struct_size; /* sizeof(flx_gather_attrs) */
    int64_t axis; /* 0 */
    const char *oob; /* error; of: error zero clamp */
} flx_gather_attrs;
#define FLX_GATHER_ATTRS {sizeof(flx_gather_attrs), FLX_DEFAULT, NULL}

/** y[p, i, q] = table[p, idx[i], q]; the axes of idx replace the axis of table */
static inline flx_val flx_gather_with(flx_graph *g, flx_val table, flx_val idx, const flx_gather_attrs *attrs)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = table;
    flx_x[1] = idx;
    FLX_CHECK_SIZE_(flx_gather_attrs);
    if (FLX_HAS_NUMBER_(flx_gather_attrs, axis) && attrs->axis != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("axis", attrs->axis);
    if (FLX_HAS_(flx_gather_attrs, oob) && attrs->oob)
        flx_a[flx_n++] = flx_attr_word("oob", attrs->oob);
    return flx_op1(g, "gather", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_gather(...) FLX_GATHER_(__VA_ARGS__, .struct_size = sizeof(flx_gather_attrs))
#define FLX_GATHER_(g_, table_, idx_, ...) FLX_BUILT_(flx_val, flx_gather_with((g_), (table_), (idx_), \
    &(flx_gather_attrs){.axis = FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_gather(flx_graph *g, flx_val table, flx_val idx, const flx_gather_attrs *attrs = NULL)
{
    return flx_gather_with(g, table, idx, attrs);
}
#endif

typedef struct flx_scatter_add_attrs {
    uint32_t struct_size; /* sizeof(flx_scatter_add_attrs) */
    flx_dim R; /* must be given */
    const char *oob; /* error; of: error zero clamp */
} flx_scatter_add_attrs;
#define FLX_SCATTER_ADD_ATTRS {sizeof(flx_scatter_add_attrs), FLX_DEFAULT, NULL}

/** y has R rows of zeros, then y[idx[i]] += upd[i]; duplicates accumulate */
static inline flx_val flx_scatter_add_with(flx_graph *g, flx_val upd, flx_val idx, const flx_scatter_add_attrs *attrs)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = upd;
    flx_x[1] = idx;
    FLX_CHECK_SIZE_(flx_scatter_add_attrs);
    if (FLX_HAS_NUMBER_(flx_scatter_add_attrs, R) && attrs->R != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("R", attrs->R);
    if (FLX_HAS_(flx_scatter_add_attrs, oob) && attrs->oob)
        flx_a[flx_n++] = flx_attr_word("oob", attrs->oob);
    return flx_op1(g, "scatter_add", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_scatter_add(...) FLX_SCATTER_ADD_(__VA_ARGS__, .struct_size = sizeof(flx_scatter_add_attrs))
#define FLX_SCATTER_ADD_(g_, upd_, idx_, ...) FLX_BUILT_(flx_val, flx_scatter_add_with((g_), (upd_), (idx_), \
    &(flx_scatter_add_attrs){.R = FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_scatter_add(flx_graph *g, flx_val upd, flx_val idx, const flx_scatter_add_attrs *attrs)
{
    return flx_scatter_add_with(g, upd, idx, attrs);
}
#endif

typedef struct flx_take_along_attrs {
    uint32_t struct_size; /* sizeof(flx_take_along_attrs) */
    int64_t axis; /* -1 */
    const char *oob; /* error; of: error zero clamp */
} flx_take_along_attrs;
#define FLX_TAKE_ALONG_ATTRS {sizeof(flx_take_along_attrs), FLX_DEFAULT, NULL}

/** y[p, i, q] = x[p, idx[p, i, q], q], with i along the axis */
static inline flx_val flx_take_along_with(flx_graph *g, flx_val x, flx_val idx, const flx_take_along_attrs *attrs)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = x;
    flx_x[1] = idx;
    FLX_CHECK_SIZE_(flx_take_along_attrs);
    if (FLX_HAS_NUMBER_(flx_take_along_attrs, axis) && attrs->axis != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("axis", attrs->axis);
    if (FLX_HAS_(flx_take_along_attrs, oob) && attrs->oob)
        flx_a[flx_n++] = flx_attr_word("oob", attrs->oob);
    return flx_op1(g, "take_along", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_take_along(...) FLX_TAKE_ALONG_(__VA_ARGS__, .struct_size = sizeof(flx_take_along_attrs))
#define FLX_TAKE_ALONG_(g_, x_, idx_, ...) FLX_BUILT_(flx_val, flx_take_along_with((g_), (x_), (idx_), \
    &(flx_take_along_attrs){.axis = FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_take_along(flx_graph *g, flx_val x, flx_val idx, const flx_take_along_attrs *attrs = NULL)
{
    return flx_take_along_with(g, x, idx, attrs);
}
#endif

typedef struct flx_one_hot_attrs {
    uint32_t struct_size; /* sizeof(flx_one_hot_attrs) */
    flx_dim n; /* must be given */
    int64_t axis; /* -1 */
    flx_dtype dtype; /* f32 */
    const char *oob; /* error; of: error zero clamp */
} flx_one_hot_attrs;
#define FLX_ONE_HOT_ATTRS {sizeof(flx_one_hot_attrs), FLX_DEFAULT, FLX_DEFAULT, FLX_DTYPE_NONE, NULL}

/** y[p, k, q] = 1 where k = i[p, q], else 0, for k = 0 to n - 1 */
static inline flx_val flx_one_hot_with(flx_graph *g, flx_val i, const flx_one_hot_attrs *attrs)
{
    flx_attr flx_a[4];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = i;
    FLX_CHECK_SIZE_(flx_one_hot_attrs);
    if (FLX_HAS_NUMBER_(flx_one_hot_attrs, n) && attrs->n != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("n", attrs->n);
    if (FLX_HAS_NUMBER_(flx_one_hot_attrs, axis) && attrs->axis != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("axis", attrs->axis);
    if (FLX_HAS_(flx_one_hot_attrs, dtype) && attrs->dtype != FLX_DTYPE_NONE)
        flx_a[flx_n++] = flx_attr_dtype("dtype", attrs->dtype);
    if (FLX_HAS_(flx_one_hot_attrs, oob) && attrs->oob)
        flx_a[flx_n++] = flx_attr_word("oob", attrs->oob);
    return flx_op1(g, "one_hot", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_one_hot(...) FLX_ONE_HOT_(__VA_ARGS__, .struct_size = sizeof(flx_one_hot_attrs))
#define FLX_ONE_HOT_(g_, i_, ...) FLX_BUILT_(flx_val, flx_one_hot_with((g_), (i_), &(flx_one_hot_attrs){.n = \
    FLX_DEFAULT, .axis = FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_one_hot(flx_graph *g, flx_val i, const flx_one_hot_attrs *attrs)
{
    return flx_one_hot_with(g, i, attrs);
}
#endif

typedef struct flx_dynamic_slice_attrs {
    uint32_t struct_size; /* sizeof(flx_dynamic_slice_attrs) */
    flx_ints sizes; /* must be given */
} flx_dynamic_slice_attrs;
#define FLX_DYNAMIC_SLICE_ATTRS {sizeof(flx_dynamic_slice_attrs), {NULL, 0}}

/** y[i] = x[idx + i], the window of extent sizes; idx is clamped so that it fits */
static inline flx_val flx_dynamic_slice_with(flx_graph *g, const flx_val *operands, size_t num_operands, const
                                             flx_dynamic_slice_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    FLX_CHECK_SIZE_(flx_dynamic_slice_attrs);
    if (FLX_HAS_(flx_dynamic_slice_attrs, sizes) && FLX_LISTED_(attrs->sizes))
        flx_a[flx_n++] = flx_attr_ints("sizes", attrs->sizes);
    return flx_op1(g, "dynamic_slice", operands, num_operands, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_dynamic_slice(...) FLX_DYNAMIC_SLICE_(__VA_ARGS__, .struct_size = sizeof(flx_dynamic_slice_attrs))
#define FLX_DYNAMIC_SLICE_(g_, operands_, num_operands_, ...) FLX_BUILT_(flx_val, flx_dynamic_slice_with((g_), \
    (operands_), (num_operands_), &(flx_dynamic_slice_attrs){.struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_dynamic_slice(flx_graph *g, const flx_val *operands, size_t num_operands, const
                                        flx_dynamic_slice_attrs *attrs)
{
    return flx_dynamic_slice_with(g, operands, num_operands, attrs);
}
#endif

/** x with y[idx + i] = u[i]; idx is clamped so that u fits */
static inline flx_val flx_dynamic_update_slice(flx_graph *g, const flx_val *operands, size_t num_operands)
{
    return flx_op1(g, "dynamic_update_slice", operands, num_operands, NULL, 0);
}

typedef struct flx_gather_nd_attrs {
    uint32_t struct_size; /* sizeof(flx_gather_nd_attrs) */
    flx_ints slice_sizes; /* must be given */
    flx_ints start_index_map; /* must be given */
    flx_ints offset_axes; /* [] */
    flx_ints collapsed_axes; /* [] */
    flx_ints operand_batching_axes; /* [] */
    flx_ints indices_batching_axes; /* [] */
    int64_t index_vector_axis; /* last */
    const char *oob; /* error; of: error zero clamp */
} flx_gather_nd_attrs;
#define FLX_GATHER_ND_ATTRS {sizeof(flx_gather_nd_attrs), {NULL, 0}, {NULL, 0}, {NULL, 0}, {NULL, 0}, {NULL, 0}, \
    {NULL, 0}, FLX_DEFAULT, NULL}

/** y[o] = x[s + t + u]: s a start read from indices, t the batch position, u the position in the window */
static inline flx_val flx_gather_nd_with(flx_graph *g, flx_val x, flx_val indices, const flx_gather_nd_attrs *attrs)
{
    flx_attr flx_a[8];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = x;
    flx_x[1] = indices;
    FLX_CHECK_SIZE_(flx_gather_nd_attrs);
    if (FLX_HAS_(flx_gather_nd_attrs, slice_sizes) && FLX_LISTED_(attrs->slice_sizes))
        flx_a[flx_n++] = flx_attr_ints("slice_sizes", attrs->slice_sizes);
    if (FLX_HAS_(flx_gather_nd_attrs, start_index_map) && FLX_LISTED_(attrs->start_index_map))
        flx_a[flx_n++] = flx_attr_ints("start_index_map", attrs->start_index_map);
    if (FLX_HAS_(flx_gather_nd_attrs, offset_axes) && FLX_LISTED_(attrs->offset_axes))
        flx_a[flx_n++] = flx_attr_ints("offset_axes", attrs->offset_axes);
    if (FLX_HAS_(flx_gather_nd_attrs, collapsed_axes) && FLX_LISTED_(attrs->collapsed_axes))
        flx_a[flx_n++] = flx_attr_ints("collapsed_axes", attrs->collapsed_axes);
    if (FLX_HAS_(flx_gather_nd_attrs, operand_batching_axes) && FLX_LISTED_(attrs->operand_batching_axes))
        flx_a[flx_n++] = flx_attr_ints("operand_batching_axes", attrs->operand_batching_axes);
    if (FLX_HAS_(flx_gather_nd_attrs, indices_batching_axes) && FLX_LISTED_(attrs->indices_batching_axes))
        flx_a[flx_n++] = flx_attr_ints("indices_batching_axes", attrs->indices_batching_axes);
    if (FLX_HAS_NUMBER_(flx_gather_nd_attrs, index_vector_axis) && attrs->index_vector_axis != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("index_vector_axis", attrs->index_vector_axis);
    if (FLX_HAS_(flx_gather_nd_attrs, oob) && attrs->oob)
        flx_a[flx_n++] = flx_attr_word("oob", attrs->oob);
    return flx_op1(g, "gather_nd", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_gather_nd(...) FLX_GATHER_ND_(__VA_ARGS__, .struct_size = sizeof(flx_gather_nd_attrs))
#define FLX_GATHER_ND_(g_, x_, indices_, ...) FLX_BUILT_(flx_val, flx_gather_nd_with((g_), (x_), (indices_), \
    &(flx_gather_nd_attrs){.index_vector_axis = FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_gather_nd(flx_graph *g, flx_val x, flx_val indices, const flx_gather_nd_attrs *attrs)
{
    return flx_gather_nd_with(g, x, indices, attrs);
}
#endif

typedef struct flx_scatter_nd_attrs {
    uint32_t struct_size; /* sizeof(flx_scatter_nd_attrs) */
    flx_ints start_index_map; /* must be given */
    flx_ints offset_axes; /* [] */
    flx_ints collapsed_axes; /* [] */
    flx_ints operand_batching_axes; /* [] */
    flx_ints indices_batching_axes; /* [] */
    int64_t index_vector_axis; /* last */
    flx_combine combine; /* add; of: add mul min max set */
    int unique; /* false */
    const char *oob; /* error; of: error zero clamp */
} flx_scatter_nd_attrs;
#define FLX_SCATTER_ND_ATTRS {sizeof(flx_scatter_nd_attrs), {NULL, 0}, {NULL, 0}, {NULL, 0}, {NULL, 0}, {NULL, 0}, \
    FLX_DEFAULT, {NULL, NULL}, -1, NULL}

/** x with y[s + t + u] = combine(y[s + t + u], updates[o]), in row-major order of updates */
static inline flx_val flx_scatter_nd_with(flx_graph *g, flx_val x, flx_val indices, flx_val updates, const
                                          flx_scatter_nd_attrs *attrs)
{
    flx_attr flx_a[9];
    size_t flx_n = 0;
    flx_val flx_x[3];
    flx_x[0] = x;
    flx_x[1] = indices;
    flx_x[2] = updates;
    FLX_CHECK_SIZE_(flx_scatter_nd_attrs);
    if (FLX_HAS_(flx_scatter_nd_attrs, start_index_map) && FLX_LISTED_(attrs->start_index_map))
        flx_a[flx_n++] = flx_attr_ints("start_index_map", attrs->start_index_map);
    if (FLX_HAS_(flx_scatter_nd_attrs, offset_axes) && FLX_LISTED_(attrs->offset_axes))
        flx_a[flx_n++] = flx_attr_ints("offset_axes", attrs->offset_axes);
    if (FLX_HAS_(flx_scatter_nd_attrs, collapsed_axes) && FLX_LISTED_(attrs->collapsed_axes))
        flx_a[flx_n++] = flx_attr_ints("collapsed_axes", attrs->collapsed_axes);
    if (FLX_HAS_(flx_scatter_nd_attrs, operand_batching_axes) && FLX_LISTED_(attrs->operand_batching_axes))
        flx_a[flx_n++] = flx_attr_ints("operand_batching_axes", attrs->operand_batching_axes);
    if (FLX_HAS_(flx_scatter_nd_attrs, indices_batching_axes) && FLX_LISTED_(attrs->indices_batching_axes))
        flx_a[flx_n++] = flx_attr_ints("indices_batching_axes", attrs->indices_batching_axes);
    if (FLX_HAS_NUMBER_(flx_scatter_nd_attrs, index_vector_axis) && attrs->index_vector_axis != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("index_vector_axis", attrs->index_vector_axis);
    if (FLX_HAS_(flx_scatter_nd_attrs, combine) && (attrs->combine.word || attrs->combine.graph))
        flx_a[flx_n++] = flx_attr_combine("combine", attrs->combine);
    if (FLX_HAS_NUMBER_(flx_scatter_nd_attrs, unique) && attrs->unique >= 0)
        flx_a[flx_n++] = flx_attr_int("unique", attrs->unique);
    if (FLX_HAS_(flx_scatter_nd_attrs, oob) && attrs->oob)
        flx_a[flx_n++] = flx_attr_word("oob", attrs->oob);
    return flx_op1(g, "scatter_nd", flx_x, 3, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_scatter_nd(...) FLX_SCATTER_ND_(__VA_ARGS__, .struct_size = sizeof(flx_scatter_nd_attrs))
#define FLX_SCATTER_ND_(g_, x_, indices_, updates_, ...) FLX_BUILT_(flx_val, flx_scatter_nd_with((g_), (x_), \
    (indices_), (updates_), &(flx_scatter_nd_attrs){.index_vector_axis = FLX_DEFAULT, .unique = -1, .struct_size = 0, \
    __VA_ARGS__}))
#else
static inline flx_val flx_scatter_nd(flx_graph *g, flx_val x, flx_val indices, flx_val updates, const
                                     flx_scatter_nd_attrs *attrs)
{
    return flx_scatter_nd_with(g, x, indices, updates, attrs);
}
#endif


/* ---- product ---- */

/** y[.., m, n] = sum over k of a[.., m, k] * b[.., k, n] */
static inline flx_val flx_matmul(flx_graph *g, flx_val a, flx_val b)
{
    flx_val flx_x[2];
    flx_x[0] = a;
    flx_x[1] = b;
    return flx_op1(g, "matmul", flx_x, 2, NULL, 0);
}

typedef struct flx_dot_general_attrs {
    uint32_t struct_size; /* sizeof(flx_dot_general_attrs) */
    flx_ints lc; /* [] */
    flx_ints rc; /* [] */
    flx_ints lb; /* [] */
    flx_ints rb; /* [] */
} flx_dot_general_attrs;
#define FLX_DOT_GENERAL_ATTRS {sizeof(flx_dot_general_attrs), {NULL, 0}, {NULL, 0}, {NULL, 0}, {NULL, 0}}

/** products of l and r summed over the paired axes lc and rc, for each position of the paired axes lb and rb */
static inline flx_val flx_dot_general_with(flx_graph *g, flx_val l, flx_val r, const flx_dot_general_attrs *attrs)
{
    flx_attr flx_a[4];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = l;
    flx_x[1] = r;
    FLX_CHECK_SIZE_(flx_dot_general_attrs);
    if (FLX_HAS_(flx_dot_general_attrs, lc) && FLX_LISTED_(attrs->lc))
        flx_a[flx_n++] = flx_attr_ints("lc", attrs->lc);
    if (FLX_HAS_(flx_dot_general_attrs, rc) && FLX_LISTED_(attrs->rc))
        flx_a[flx_n++] = flx_attr_ints("rc", attrs->rc);
    if (FLX_HAS_(flx_dot_general_attrs, lb) && FLX_LISTED_(attrs->lb))
        flx_a[flx_n++] = flx_attr_ints("lb", attrs->lb);
    if (FLX_HAS_(flx_dot_general_attrs, rb) && FLX_LISTED_(attrs->rb))
        flx_a[flx_n++] = flx_attr_ints("rb", attrs->rb);
    return flx_op1(g, "dot_general", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_dot_general(...) FLX_DOT_GENERAL_(__VA_ARGS__, .struct_size = sizeof(flx_dot_general_attrs))
#define FLX_DOT_GENERAL_(g_, l_, r_, ...) FLX_BUILT_(flx_val, flx_dot_general_with((g_), (l_), (r_), \
    &(flx_dot_general_attrs){.struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_dot_general(flx_graph *g, flx_val l, flx_val r, const flx_dot_general_attrs *attrs = NULL)
{
    return flx_dot_general_with(g, l, r, attrs);
}
#endif

typedef struct flx_widening_dot_attrs {
    uint32_t struct_size; /* sizeof(flx_widening_dot_attrs) */
    flx_ints lc; /* [] */
    flx_ints rc; /* [] */
    flx_ints lb; /* [] */
    flx_ints rb; /* [] */
    flx_dtype to; /* must be given */
} flx_widening_dot_attrs;
#define FLX_WIDENING_DOT_ATTRS {sizeof(flx_widening_dot_attrs), {NULL, 0}, {NULL, 0}, {NULL, 0}, {NULL, 0}, \
    FLX_DTYPE_NONE}

/** dot_general of l and r, both cast to the dtype `to` */
static inline flx_val flx_widening_dot_with(flx_graph *g, flx_val l, flx_val r, const flx_widening_dot_attrs *attrs)
{
    flx_attr flx_a[5];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = l;
    flx_x[1] = r;
    FLX_CHECK_SIZE_(flx_widening_dot_attrs);
    if (FLX_HAS_(flx_widening_dot_attrs, lc) && FLX_LISTED_(attrs->lc))
        flx_a[flx_n++] = flx_attr_ints("lc", attrs->lc);
    if (FLX_HAS_(flx_widening_dot_attrs, rc) && FLX_LISTED_(attrs->rc))
        flx_a[flx_n++] = flx_attr_ints("rc", attrs->rc);
    if (FLX_HAS_(flx_widening_dot_attrs, lb) && FLX_LISTED_(attrs->lb))
        flx_a[flx_n++] = flx_attr_ints("lb", attrs->lb);
    if (FLX_HAS_(flx_widening_dot_attrs, rb) && FLX_LISTED_(attrs->rb))
        flx_a[flx_n++] = flx_attr_ints("rb", attrs->rb);
    if (FLX_HAS_(flx_widening_dot_attrs, to) && attrs->to != FLX_DTYPE_NONE)
        flx_a[flx_n++] = flx_attr_dtype("to", attrs->to);
    return flx_op1(g, "widening_dot", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_widening_dot(...) FLX_WIDENING_DOT_(__VA_ARGS__, .struct_size = sizeof(flx_widening_dot_attrs))
#define FLX_WIDENING_DOT_(g_, l_, r_, ...) FLX_BUILT_(flx_val, flx_widening_dot_with((g_), (l_), (r_), \
    &(flx_widening_dot_attrs){.struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_widening_dot(flx_graph *g, flx_val l, flx_val r, const flx_widening_dot_attrs *attrs)
{
    return flx_widening_dot_with(g, l, r, attrs);
}
#endif

typedef struct flx_lora_matmul_attrs {
    uint32_t struct_size; /* sizeof(flx_lora_matmul_attrs) */
    double scale; /* 1 */
} flx_lora_matmul_attrs;
#define FLX_LORA_MATMUL_ATTRS {sizeof(flx_lora_matmul_attrs), NAN}

/** matmul(x, w) + scale * matmul(matmul(x, a), b) */
static inline flx_val flx_lora_matmul_with(flx_graph *g, flx_val x, flx_val w, flx_val a, flx_val b, const
                                           flx_lora_matmul_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[4];
    flx_x[0] = x;
    flx_x[1] = w;
    flx_x[2] = a;
    flx_x[3] = b;
    FLX_CHECK_SIZE_(flx_lora_matmul_attrs);
    if (FLX_HAS_NUMBER_(flx_lora_matmul_attrs, scale) && attrs->scale == attrs->scale)
        flx_a[flx_n++] = flx_attr_real("scale", attrs->scale);
    return flx_op1(g, "lora_matmul", flx_x, 4, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_lora_matmul(...) FLX_LORA_MATMUL_(__VA_ARGS__, .struct_size = sizeof(flx_lora_matmul_attrs))
#define FLX_LORA_MATMUL_(g_, x_, w_, a_, b_, ...) FLX_BUILT_(flx_val, flx_lora_matmul_with((g_), (x_), (w_), (a_), \
    (b_), &(flx_lora_matmul_attrs){.scale = NAN, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_lora_matmul(flx_graph *g, flx_val x, flx_val w, flx_val a, flx_val b, const
                                      flx_lora_matmul_attrs *attrs = NULL)
{
    return flx_lora_matmul_with(g, x, w, a, b, attrs);
}
#endif

typedef struct flx_einsum_attrs {
    uint32_t struct_size; /* sizeof(flx_einsum_attrs) */
    const char *eq; /* must be given */
} flx_einsum_attrs;
#define FLX_EINSUM_ATTRS {sizeof(flx_einsum_attrs), NULL}

/** the product of all operands, summed over the letters of eq that the result does not have */
static inline flx_val flx_einsum_with(flx_graph *g, const flx_val *operands, size_t num_operands, const flx_einsum_attrs
                                      *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    FLX_CHECK_SIZE_(flx_einsum_attrs);
    if (FLX_HAS_(flx_einsum_attrs, eq) && attrs->eq)
        flx_a[flx_n++] = flx_attr_string("eq", attrs->eq);
    return flx_op1(g, "einsum", operands, num_operands, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_einsum(...) FLX_EINSUM_(__VA_ARGS__, .struct_size = sizeof(flx_einsum_attrs))
#define FLX_EINSUM_(g_, operands_, num_operands_, ...) FLX_BUILT_(flx_val, flx_einsum_with((g_), (operands_), \
    (num_operands_), &(flx_einsum_attrs){.struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_einsum(flx_graph *g, const flx_val *operands, size_t num_operands, const flx_einsum_attrs
                                 *attrs)
{
    return flx_einsum_with(g, operands, num_operands, attrs);
}
#endif

typedef struct flx_grouped_matmul_attrs {
    uint32_t struct_size; /* sizeof(flx_grouped_matmul_attrs) */
    const char *oob; /* error; of: error zero clamp */
} flx_grouped_matmul_attrs;
#define FLX_GROUPED_MATMUL_ATTRS {sizeof(flx_grouped_matmul_attrs), NULL}

/** y[i] = x[i] w[e[i]]; w is a list of matrices */
static inline flx_val flx_grouped_matmul_with(flx_graph *g, flx_val x, flx_val w, flx_val e, const
                                              flx_grouped_matmul_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[3];
    flx_x[0] = x;
    flx_x[1] = w;
    flx_x[2] = e;
    FLX_CHECK_SIZE_(flx_grouped_matmul_attrs);
    if (FLX_HAS_(flx_grouped_matmul_attrs, oob) && attrs->oob)
        flx_a[flx_n++] = flx_attr_word("oob", attrs->oob);
    return flx_op1(g, "grouped_matmul", flx_x, 3, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_grouped_matmul(...) FLX_GROUPED_MATMUL_(__VA_ARGS__, .struct_size = sizeof(flx_grouped_matmul_attrs))
#define FLX_GROUPED_MATMUL_(g_, x_, w_, e_, ...) FLX_BUILT_(flx_val, flx_grouped_matmul_with((g_), (x_), (w_), (e_), \
    &(flx_grouped_matmul_attrs){.struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_grouped_matmul(flx_graph *g, flx_val x, flx_val w, flx_val e, const flx_grouped_matmul_attrs
                                         *attrs = NULL)
{
    return flx_grouped_matmul_with(g, x, w, e, attrs);
}
#endif

typedef struct flx_grouped_matmul_input_backward_attrs {
    uint32_t struct_size; /* sizeof(flx_grouped_matmul_input_backward_attrs) */
    const char *oob; /* error; of: error zero clamp */
} flx_grouped_matmul_input_backward_attrs;
#define FLX_GROUPED_MATMUL_INPUT_BACKWARD_ATTRS {sizeof(flx_grouped_matmul_input_backward_attrs), NULL}

/** the transpose of grouped_matmul in x: x[i] = dy[i] w[e[i]]^T */
static inline flx_val flx_grouped_matmul_input_backward_with(flx_graph *g, flx_val dy, flx_val w, flx_val e, const
                                                             flx_grouped_matmul_input_backward_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[3];
    flx_x[0] = dy;
    flx_x[1] = w;
    flx_x[2] = e;
    FLX_CHECK_SIZE_(flx_grouped_matmul_input_backward_attrs);
    if (FLX_HAS_(flx_grouped_matmul_input_backward_attrs, oob) && attrs->oob)
        flx_a[flx_n++] = flx_attr_word("oob", attrs->oob);
    return flx_op1(g, "grouped_matmul_input_backward", flx_x, 3, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_grouped_matmul_input_backward(...) FLX_GROUPED_MATMUL_INPUT_BACKWARD_(__VA_ARGS__, .struct_size = \
    sizeof(flx_grouped_matmul_input_backward_attrs))
#define FLX_GROUPED_MATMUL_INPUT_BACKWARD_(g_, dy_, w_, e_, ...) FLX_BUILT_(flx_val, \
    flx_grouped_matmul_input_backward_with((g_), (dy_), (w_), (e_), \
    &(flx_grouped_matmul_input_backward_attrs){.struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_grouped_matmul_input_backward(flx_graph *g, flx_val dy, flx_val w, flx_val e, const
                                                        flx_grouped_matmul_input_backward_attrs *attrs = NULL)
{
    return flx_grouped_matmul_input_backward_with(g, dy, w, e, attrs);
}
#endif

typedef struct flx_grouped_matmul_weight_backward_attrs {
    uint32_t struct_size; /* sizeof(flx_grouped_matmul_weight_backward_attrs) */
    flx_dim E; /* must be given */
    const char *oob; /* error; of: error zero clamp */
} flx_grouped_matmul_weight_backward_attrs;
#define FLX_GROUPED_MATMUL_WEIGHT_BACKWARD_ATTRS {sizeof(flx_grouped_matmul_weight_backward_attrs), FLX_DEFAULT, NULL}

/** the transpose of grouped_matmul in w: w[k] = sum of x[i]^T dy[i] over the rows with e[i] = k, for E matrices */
static inline flx_val flx_grouped_matmul_weight_backward_with(flx_graph *g, flx_val x, flx_val dy, flx_val e, const
                                                              flx_grouped_matmul_weight_backward_attrs *attrs)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[3];
    flx_x[0] = x;
    flx_x[1] = dy;
    flx_x[2] = e;
    FLX_CHECK_SIZE_(flx_grouped_matmul_weight_backward_attrs);
    if (FLX_HAS_NUMBER_(flx_grouped_matmul_weight_backward_attrs, E) && attrs->E != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("E", attrs->E);
    if (FLX_HAS_(flx_grouped_matmul_weight_backward_attrs, oob) && attrs->oob)
        flx_a[flx_n++] = flx_attr_word("oob", attrs->oob);
    return flx_op1(g, "grouped_matmul_weight_backward", flx_x, 3, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_grouped_matmul_weight_backward(...) FLX_GROUPED_MATMUL_WEIGHT_BACKWARD_(__VA_ARGS__, .struct_size = \
    sizeof(flx_grouped_matmul_weight_backward_attrs))
#define FLX_GROUPED_MATMUL_WEIGHT_BACKWARD_(g_, x_, dy_, e_, ...) FLX_BUILT_(flx_val, \
    flx_grouped_matmul_weight_backward_with((g_), (x_), (dy_), (e_), &(flx_grouped_matmul_weight_backward_attrs){.E = \
    FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_grouped_matmul_weight_backward(flx_graph *g, flx_val x, flx_val dy, flx_val e, const
                                                         flx_grouped_matmul_weight_backward_attrs *attrs)
{
    return flx_grouped_matmul_weight_backward_with(g, x, dy, e, attrs);
}
#endif


/* ---- linalg ---- */

/** x with a x = b, for each matrix of a: b has the axes of a, or one less for vectors; dense_solve and
    batched_dense_solve are the same with the ranks fixed */
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

typedef struct flx_lu_solve_attrs {
    uint32_t struct_size; /* sizeof(flx_lu_solve_attrs) */
    const char *trans; /* none; of: none transpose adjoint */
} flx_lu_solve_attrs;
#define FLX_LU_SOLVE_ATTRS {sizeof(flx_lu_solve_attrs), NULL}

/** x with a x = b, or with a^T or a^H as trans says, from the factors of a returned by lu */
static inline flx_val flx_lu_solve_with(flx_graph *g, flx_val lu, flx_val perm, flx_val b, const flx_lu_solve_attrs
                                        *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[3];
    flx_x[0] = lu;
    flx_x[1] = perm;
    flx_x[2] = b;
    FLX_CHECK_SIZE_(flx_lu_solve_attrs);
    if (FLX_HAS_(flx_lu_solve_attrs, trans) && attrs->trans)
        flx_a[flx_n++] = flx_attr_word("trans", attrs->trans);
    return flx_op1(g, "lu_solve", flx_x, 3, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_lu_solve(...) FLX_LU_SOLVE_(__VA_ARGS__, .struct_size = sizeof(flx_lu_solve_attrs))
#define FLX_LU_SOLVE_(g_, lu_, perm_, b_, ...) FLX_BUILT_(flx_val, flx_lu_solve_with((g_), (lu_), (perm_), (b_), \
    &(flx_lu_solve_attrs){.struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_lu_solve(flx_graph *g, flx_val lu, flx_val perm, flx_val b, const flx_lu_solve_attrs *attrs =
                                   NULL)
{
    return flx_lu_solve_with(g, lu, perm, b, attrs);
}
#endif

/** the inverse of each matrix */
static inline flx_val flx_inv(flx_graph *g, flx_val a)
{
    flx_val flx_x[1];
    flx_x[0] = a;
    return flx_op1(g, "inv", flx_x, 1, NULL, 0);
}

/** a[perm] = L U: L is below the diagonal of lu, with an implicit unit diagonal, U is the rest; row k was exchanged
    with pivots[k] */
static inline uint32_t flx_lu(flx_graph *g, flx_val a, flx_val results[3])
{
    flx_val flx_x[1];
    flx_x[0] = a;
    return flx_op(g, "lu", flx_x, 1, NULL, 0, results, 3);
}

typedef struct flx_cholesky_attrs {
    uint32_t struct_size; /* sizeof(flx_cholesky_attrs) */
    int lower; /* true */
} flx_cholesky_attrs;
#define FLX_CHOLESKY_ATTRS {sizeof(flx_cholesky_attrs), -1}

/** the triangle l with l l^H = a, or l^H l = a if lower is false; only (a + a^H) / 2 is used */
static inline flx_val flx_cholesky_with(flx_graph *g, flx_val a, const flx_cholesky_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = a;
    FLX_CHECK_SIZE_(flx_cholesky_attrs);
    if (FLX_HAS_NUMBER_(flx_cholesky_attrs, lower) && attrs->lower >= 0)
        flx_a[flx_n++] = flx_attr_int("lower", attrs->lower);
    return flx_op1(g, "cholesky", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_cholesky(...) FLX_CHOLESKY_(__VA_ARGS__, .struct_size = sizeof(flx_cholesky_attrs))
#define FLX_CHOLESKY_(g_, a_, ...) FLX_BUILT_(flx_val, flx_cholesky_with((g_), (a_), &(flx_cholesky_attrs){.lower = \
    -1, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_cholesky(flx_graph *g, flx_val a, const flx_cholesky_attrs *attrs = NULL)
{
    return flx_cholesky_with(g, a, attrs);
}
#endif

/** the determinant of each matrix */
static inline flx_val flx_det(flx_graph *g, flx_val a)
{
    flx_val flx_x[1];
    flx_x[0] = a;
    return flx_op1(g, "det", flx_x, 1, NULL, 0);
}

/** the determinant as sign * exp(logabsdet), which cannot overflow; logabsdet is real */
static inline uint32_t flx_slogdet(flx_graph *g, flx_val a, flx_val results[2])
{
    flx_val flx_x[1];
    flx_x[0] = a;
    return flx_op(g, "slogdet", flx_x, 1, NULL, 0, results, 2);
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

/** the derivative of adjugate(a) along v, d/dz adjugate(a + z v) at z = 0, defined for singular matrices too */
static inline flx_val flx_adjugate_along(flx_graph *g, flx_val a, flx_val v)
{
    flx_val flx_x[2];
    flx_x[0] = a;
    flx_x[1] = v;
    return flx_op1(g, "adjugate_along", flx_x, 2, NULL, 0);
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

typedef struct flx_matrix_power_attrs {
    uint32_t struct_size; /* sizeof(flx_matrix_power_attrs) */
    int64_t n; /* must be given */
} flx_matrix_power_attrs;
#define FLX_MATRIX_POWER_ATTRS {sizeof(flx_matrix_power_attrs), FLX_DEFAULT}

/** the product of n factors a; negative n: of the inverse; 0: the identity */
static inline flx_val flx_matrix_power_with(flx_graph *g, flx_val a, const flx_matrix_power_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = a;
    FLX_CHECK_SIZE_(flx_matrix_power_attrs);
    if (FLX_HAS_NUMBER_(flx_matrix_power_attrs, n) && attrs->n != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("n", attrs->n);
    return flx_op1(g, "matrix_power", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_matrix_power(...) FLX_MATRIX_POWER_(__VA_ARGS__, .struct_size = sizeof(flx_matrix_power_attrs))
#define FLX_MATRIX_POWER_(g_, a_, ...) FLX_BUILT_(flx_val, flx_matrix_power_with((g_), (a_), \
    &(flx_matrix_power_attrs){.n = FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_matrix_power(flx_graph *g, flx_val a, const flx_matrix_power_attrs *attrs)
{
    return flx_matrix_power_with(g, a, attrs);
}
#endif

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
static inline uint32_t flx_qr(flx_graph *g, flx_val a, flx_val results[2])
{
    flx_val flx_x[1];
    flx_x[0] = a;
    return flx_op(g, "qr", flx_x, 1, NULL, 0, results, 2);
}

typedef struct flx_spmv_attrs {
    uint32_t struct_size; /* sizeof(flx_spmv_attrs) */
    flx_ints rows; /* must be given */
    flx_ints cols; /* must be given */
    int64_t n; /* must be given */
} flx_spmv_attrs;
#define FLX_SPMV_ATTRS {sizeof(flx_spmv_attrs), {NULL, 0}, {NULL, 0}, FLX_DEFAULT}

/** the product of the matrix with n rows and x, a vector or a matrix */
static inline flx_val flx_spmv_with(flx_graph *g, flx_val v, flx_val x, const flx_spmv_attrs *attrs)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = v;
    flx_x[1] = x;
    FLX_CHECK_SIZE_(flx_spmv_attrs);
    if (FLX_HAS_(flx_spmv_attrs, rows) && FLX_LISTED_(attrs->rows))
        flx_a[flx_n++] = flx_attr_ints("rows", attrs->rows);
    if (FLX_HAS_(flx_spmv_attrs, cols) && FLX_LISTED_(attrs->cols))
        flx_a[flx_n++] = flx_attr_ints("cols", attrs->cols);
    if (FLX_HAS_NUMBER_(flx_spmv_attrs, n) && attrs->n != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("n", attrs->n);
    return flx_op1(g, "spmv", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_spmv(...) FLX_SPMV_(__VA_ARGS__, .struct_size = sizeof(flx_spmv_attrs))
#define FLX_SPMV_(g_, v_, x_, ...) FLX_BUILT_(flx_val, flx_spmv_with((g_), (v_), (x_), &(flx_spmv_attrs){.n = \
    FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_spmv(flx_graph *g, flx_val v, flx_val x, const flx_spmv_attrs *attrs)
{
    return flx_spmv_with(g, v, x, attrs);
}
#endif

typedef struct flx_sparse_solve_attrs {
    uint32_t struct_size; /* sizeof(flx_sparse_solve_attrs) */
    flx_ints rows; /* must be given */
    flx_ints cols; /* must be given */
    int64_t n; /* must be given */
} flx_sparse_solve_attrs;
#define FLX_SPARSE_SOLVE_ATTRS {sizeof(flx_sparse_solve_attrs), {NULL, 0}, {NULL, 0}, FLX_DEFAULT}

/** y with a y = x, for the n x n matrix a; x is a vector or a matrix */
static inline flx_val flx_sparse_solve_with(flx_graph *g, flx_val v, flx_val x, const flx_sparse_solve_attrs *attrs)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = v;
    flx_x[1] = x;
    FLX_CHECK_SIZE_(flx_sparse_solve_attrs);
    if (FLX_HAS_(flx_sparse_solve_attrs, rows) && FLX_LISTED_(attrs->rows))
        flx_a[flx_n++] = flx_attr_ints("rows", attrs->rows);
    if (FLX_HAS_(flx_sparse_solve_attrs, cols) && FLX_LISTED_(attrs->cols))
        flx_a[flx_n++] = flx_attr_ints("cols", attrs->cols);
    if (FLX_HAS_NUMBER_(flx_sparse_solve_attrs, n) && attrs->n != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("n", attrs->n);
    return flx_op1(g, "sparse_solve", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_sparse_solve(...) FLX_SPARSE_SOLVE_(__VA_ARGS__, .struct_size = sizeof(flx_sparse_solve_attrs))
#define FLX_SPARSE_SOLVE_(g_, v_, x_, ...) FLX_BUILT_(flx_val, flx_sparse_solve_with((g_), (v_), (x_), \
    &(flx_sparse_solve_attrs){.n = FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_sparse_solve(flx_graph *g, flx_val v, flx_val x, const flx_sparse_solve_attrs *attrs)
{
    return flx_sparse_solve_with(g, v, x, attrs);
}
#endif

typedef struct flx_solve_triangular_attrs {
    uint32_t struct_size; /* sizeof(flx_solve_triangular_attrs) */
    int lower; /* true */
    const char *trans; /* none; of: none transpose adjoint */
    int unit_diagonal; /* false */
    int left_side; /* true */
} flx_solve_triangular_attrs;
#define FLX_SOLVE_TRIANGULAR_ATTRS {sizeof(flx_solve_triangular_attrs), -1, NULL, -1, -1}

/** x with op(t) x = b, or x op(t) = b, reading one triangle of t; trans selects op */
static inline flx_val flx_solve_triangular_with(flx_graph *g, flx_val t, flx_val b, const flx_solve_triangular_attrs
                                                *attrs)
{
    flx_attr flx_a[4];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = t;
    flx_x[1] = b;
    FLX_CHECK_SIZE_(flx_solve_triangular_attrs);
    if (FLX_HAS_NUMBER_(flx_solve_triangular_attrs, lower) && attrs->lower >= 0)
        flx_a[flx_n++] = flx_attr_int("lower", attrs->lower);
    if (FLX_HAS_(flx_solve_triangular_attrs, trans) && attrs->trans)
        flx_a[flx_n++] = flx_attr_word("trans", attrs->trans);
    if (FLX_HAS_NUMBER_(flx_solve_triangular_attrs, unit_diagonal) && attrs->unit_diagonal >= 0)
        flx_a[flx_n++] = flx_attr_int("unit_diagonal", attrs->unit_diagonal);
    if (FLX_HAS_NUMBER_(flx_solve_triangular_attrs, left_side) && attrs->left_side >= 0)
        flx_a[flx_n++] = flx_attr_int("left_side", attrs->left_side);
    return flx_op1(g, "solve_triangular", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_solve_triangular(...) FLX_SOLVE_TRIANGULAR_(__VA_ARGS__, .struct_size = \
    sizeof(flx_solve_triangular_attrs))
#define FLX_SOLVE_TRIANGULAR_(g_, t_, b_, ...) FLX_BUILT_(flx_val, flx_solve_triangular_with((g_), (t_), (b_), \
    &(flx_solve_triangular_attrs){.lower = -1, .unit_diagonal = -1, .left_side = -1, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_solve_triangular(flx_graph *g, flx_val t, flx_val b, const flx_solve_triangular_attrs *attrs =
                                           NULL)
{
    return flx_solve_triangular_with(g, t, b, attrs);
}
#endif

typedef struct flx_norm_attrs {
    uint32_t struct_size; /* sizeof(flx_norm_attrs) */
    double ord; /* 2 */
    flx_ints axes; /* all */
    int keep_dims; /* false */
} flx_norm_attrs;
#define FLX_NORM_ATTRS {sizeof(flx_norm_attrs), NAN, {NULL, 0}, -1}

/** the length of vectors, not a normalisation: (sum of |x|^ord)^(1/ord) over the axes; inf: the largest |x|, -inf: the
    smallest, 0: the number of nonzeros; real */
static inline flx_val flx_norm_with(flx_graph *g, flx_val x, const flx_norm_attrs *attrs)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_norm_attrs);
    if (FLX_HAS_NUMBER_(flx_norm_attrs, ord) && attrs->ord == attrs->ord)
        flx_a[flx_n++] = flx_attr_real("ord", attrs->ord);
    if (FLX_HAS_(flx_norm_attrs, axes) && FLX_LISTED_(attrs->axes))
        flx_a[flx_n++] = flx_attr_ints("axes", attrs->axes);
    if (FLX_HAS_NUMBER_(flx_norm_attrs, keep_dims) && attrs->keep_dims >= 0)
        flx_a[flx_n++] = flx_attr_int("keep_dims", attrs->keep_dims);
    return flx_op1(g, "norm", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_norm(...) FLX_NORM_(__VA_ARGS__, .struct_size = sizeof(flx_norm_attrs))
#define FLX_NORM_(g_, x_, ...) FLX_BUILT_(flx_val, flx_norm_with((g_), (x_), &(flx_norm_attrs){.ord = NAN, .keep_dims \
    = -1, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_norm(flx_graph *g, flx_val x, const flx_norm_attrs *attrs = NULL)
{
    return flx_norm_with(g, x, attrs);
}
#endif

/** the Hermitian part of a is v diag(w) v^H: w ascending and real, v unitary; in derivatives of v, equal eigenvalues
    contribute zero */
static inline uint32_t flx_eigh(flx_graph *g, flx_val a, flx_val results[2])
{
    flx_val flx_x[1];
    flx_x[0] = a;
    return flx_op(g, "eigh", flx_x, 1, NULL, 0, results, 2);
}

/** eigenvalues of a, complex, ordered by real part, then imaginary part */
static inline flx_val flx_eig(flx_graph *g, flx_val a)
{
    flx_val flx_x[1];
    flx_x[0] = a;
    return flx_op1(g, "eig", flx_x, 1, NULL, 0);
}

/** eig with eigenvectors, the columns of v, each scaled so that its first component of at least half the largest
    modulus is 1 */
static inline uint32_t flx_eig_pairs(flx_graph *g, flx_val a, flx_val results[2])
{
    flx_val flx_x[1];
    flx_x[0] = a;
    return flx_op(g, "eig_pairs", flx_x, 1, NULL, 0, results, 2);
}

/** a = u p with p = sqrt(a^H a) and u's columns or rows orthonormal */
static inline uint32_t flx_polar(flx_graph *g, flx_val a, flx_val results[2])
{
    flx_val flx_x[1];
    flx_x[0] = a;
    return flx_op(g, "polar", flx_x, 1, NULL, 0, results, 2);
}

/** the largest singular value divided by the smallest; inf for a singular matrix, nan for an empty one */
static inline flx_val flx_cond(flx_graph *g, flx_val a)
{
    flx_val flx_x[1];
    flx_x[0] = a;
    return flx_op1(g, "cond", flx_x, 1, NULL, 0);
}

/** a = u diag(s) vt: s descending and real, as many as the smaller extent; the columns of u and the rows of vt are
    orthonormal */
static inline uint32_t flx_svd(flx_graph *g, flx_val a, flx_val results[3])
{
    flx_val flx_x[1];
    flx_x[0] = a;
    return flx_op(g, "svd", flx_x, 1, NULL, 0, results, 3);
}

typedef struct flx_pinv_attrs {
    uint32_t struct_size; /* sizeof(flx_pinv_attrs) */
    double rcond; /* none */
} flx_pinv_attrs;
#define FLX_PINV_ATTRS {sizeof(flx_pinv_attrs), NAN}

/** the pseudoinverse; singular values up to rcond times the largest count as 0 (default rcond: max(m, n) eps) */
static inline flx_val flx_pinv_with(flx_graph *g, flx_val a, const flx_pinv_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = a;
    FLX_CHECK_SIZE_(flx_pinv_attrs);
    if (FLX_HAS_NUMBER_(flx_pinv_attrs, rcond) && attrs->rcond == attrs->rcond)
        flx_a[flx_n++] = flx_attr_real("rcond", attrs->rcond);
    return flx_op1(g, "pinv", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_pinv(...) FLX_PINV_(__VA_ARGS__, .struct_size = sizeof(flx_pinv_attrs))
#define FLX_PINV_(g_, a_, ...) FLX_BUILT_(flx_val, flx_pinv_with((g_), (a_), &(flx_pinv_attrs){.rcond = NAN, \
    .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_pinv(flx_graph *g, flx_val a, const flx_pinv_attrs *attrs = NULL)
{
    return flx_pinv_with(g, a, attrs);
}
#endif

/** pinv(a) b: the shortest of all x that minimise |a x - b| */
static inline flx_val flx_lstsq(flx_graph *g, flx_val a, flx_val b)
{
    flx_val flx_x[2];
    flx_x[0] = a;
    flx_x[1] = b;
    return flx_op1(g, "lstsq", flx_x, 2, NULL, 0);
}


/* ---- implicit ---- */

typedef struct flx_cg_attrs {
    uint32_t struct_size; /* sizeof(flx_cg_attrs) */
    const flx_graph *body; /* must be given */
    double tol; /* 1e-06 */
    int64_t max_iterations; /* none */
} flx_cg_attrs;
#define FLX_CG_ATTRS {sizeof(flx_cg_attrs), NULL, NAN, FLX_DEFAULT}

/** solves body(x, params...) = b by conjugate gradients until |b - body(x)| <= tol |b|; body must be linear in x,
    Hermitian and positive definite */
static inline flx_val flx_cg_with(flx_graph *g, const flx_val *operands, size_t num_operands, const flx_cg_attrs *attrs)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    FLX_CHECK_SIZE_(flx_cg_attrs);
    if (FLX_HAS_(flx_cg_attrs, body) && attrs->body)
        flx_a[flx_n++] = flx_attr_graph("body", attrs->body);
    if (FLX_HAS_NUMBER_(flx_cg_attrs, tol) && attrs->tol == attrs->tol)
        flx_a[flx_n++] = flx_attr_real("tol", attrs->tol);
    if (FLX_HAS_NUMBER_(flx_cg_attrs, max_iterations) && attrs->max_iterations != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("max_iterations", attrs->max_iterations);
    return flx_op1(g, "cg", operands, num_operands, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_cg(...) FLX_CG_(__VA_ARGS__, .struct_size = sizeof(flx_cg_attrs))
#define FLX_CG_(g_, operands_, num_operands_, ...) FLX_BUILT_(flx_val, flx_cg_with((g_), (operands_), (num_operands_), \
    &(flx_cg_attrs){.tol = NAN, .max_iterations = FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_cg(flx_graph *g, const flx_val *operands, size_t num_operands, const flx_cg_attrs *attrs)
{
    return flx_cg_with(g, operands, num_operands, attrs);
}
#endif

typedef struct flx_gmres_attrs {
    uint32_t struct_size; /* sizeof(flx_gmres_attrs) */
    const flx_graph *body; /* must be given */
    double tol; /* 1e-06 */
    int64_t max_iterations; /* none */
} flx_gmres_attrs;
#define FLX_GMRES_ATTRS {sizeof(flx_gmres_attrs), NULL, NAN, FLX_DEFAULT}

/** solves body(x, params...) = b by GMRES until |b - body(x)| <= tol |b|; body must be linear in x */
static inline flx_val flx_gmres_with(flx_graph *g, const flx_val *operands, size_t num_operands, const flx_gmres_attrs
                                     *attrs)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    FLX_CHECK_SIZE_(flx_gmres_attrs);
    if (FLX_HAS_(flx_gmres_attrs, body) && attrs->body)
        flx_a[flx_n++] = flx_attr_graph("body", attrs->body);
    if (FLX_HAS_NUMBER_(flx_gmres_attrs, tol) && attrs->tol == attrs->tol)
        flx_a[flx_n++] = flx_attr_real("tol", attrs->tol);
    if (FLX_HAS_NUMBER_(flx_gmres_attrs, max_iterations) && attrs->max_iterations != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("max_iterations", attrs->max_iterations);
    return flx_op1(g, "gmres", operands, num_operands, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_gmres(...) FLX_GMRES_(__VA_ARGS__, .struct_size = sizeof(flx_gmres_attrs))
#define FLX_GMRES_(g_, operands_, num_operands_, ...) FLX_BUILT_(flx_val, flx_gmres_with((g_), (operands_), \
    (num_operands_), &(flx_gmres_attrs){.tol = NAN, .max_iterations = FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_gmres(flx_graph *g, const flx_val *operands, size_t num_operands, const flx_gmres_attrs
                                *attrs)
{
    return flx_gmres_with(g, operands, num_operands, attrs);
}
#endif

typedef struct flx_fixed_point_attrs {
    uint32_t struct_size; /* sizeof(flx_fixed_point_attrs) */
    const flx_graph *body; /* must be given */
    double tol; /* 1e-06 */
    int64_t max_iterations; /* none */
} flx_fixed_point_attrs;
#define FLX_FIXED_POINT_ATTRS {sizeof(flx_fixed_point_attrs), NULL, NAN, FLX_DEFAULT}

/** solves x = body(x, params...) by iteration from x0 until a step is at most tol (1 + |x|) */
static inline flx_val flx_fixed_point_with(flx_graph *g, const flx_val *operands, size_t num_operands, const
                                           flx_fixed_point_attrs *attrs)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    FLX_CHECK_SIZE_(flx_fixed_point_attrs);
    if (FLX_HAS_(flx_fixed_point_attrs, body) && attrs->body)
        flx_a[flx_n++] = flx_attr_graph("body", attrs->body);
    if (FLX_HAS_NUMBER_(flx_fixed_point_attrs, tol) && attrs->tol == attrs->tol)
        flx_a[flx_n++] = flx_attr_real("tol", attrs->tol);
    if (FLX_HAS_NUMBER_(flx_fixed_point_attrs, max_iterations) && attrs->max_iterations != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("max_iterations", attrs->max_iterations);
    return flx_op1(g, "fixed_point", operands, num_operands, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_fixed_point(...) FLX_FIXED_POINT_(__VA_ARGS__, .struct_size = sizeof(flx_fixed_point_attrs))
#define FLX_FIXED_POINT_(g_, operands_, num_operands_, ...) FLX_BUILT_(flx_val, flx_fixed_point_with((g_), \
    (operands_), (num_operands_), &(flx_fixed_point_attrs){.tol = NAN, .max_iterations = FLX_DEFAULT, .struct_size = \
    0, __VA_ARGS__}))
#else
static inline flx_val flx_fixed_point(flx_graph *g, const flx_val *operands, size_t num_operands, const
                                      flx_fixed_point_attrs *attrs)
{
    return flx_fixed_point_with(g, operands, num_operands, attrs);
}
#endif

typedef struct flx_root_attrs {
    uint32_t struct_size; /* sizeof(flx_root_attrs) */
    const flx_graph *body; /* must be given */
    double tol; /* 1e-06 */
    int64_t max_iterations; /* none */
} flx_root_attrs;
#define FLX_ROOT_ATTRS {sizeof(flx_root_attrs), NULL, NAN, FLX_DEFAULT}

/** solves body(x, params...) = 0 by Newton's method from x0 until a step is at most tol (1 + |x|) */
static inline flx_val flx_root_with(flx_graph *g, const flx_val *operands, size_t num_operands, const flx_root_attrs
                                    *attrs)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    FLX_CHECK_SIZE_(flx_root_attrs);
    if (FLX_HAS_(flx_root_attrs, body) && attrs->body)
        flx_a[flx_n++] = flx_attr_graph("body", attrs->body);
    if (FLX_HAS_NUMBER_(flx_root_attrs, tol) && attrs->tol == attrs->tol)
        flx_a[flx_n++] = flx_attr_real("tol", attrs->tol);
    if (FLX_HAS_NUMBER_(flx_root_attrs, max_iterations) && attrs->max_iterations != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("max_iterations", attrs->max_iterations);
    return flx_op1(g, "root", operands, num_operands, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_root(...) FLX_ROOT_(__VA_ARGS__, .struct_size = sizeof(flx_root_attrs))
#define FLX_ROOT_(g_, operands_, num_operands_, ...) FLX_BUILT_(flx_val, flx_root_with((g_), (operands_), \
    (num_operands_), &(flx_root_attrs){.tol = NAN, .max_iterations = FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_root(flx_graph *g, const flx_val *operands, size_t num_operands, const flx_root_attrs *attrs)
{
    return flx_root_with(g, operands, num_operands, attrs);
}
#endif

typedef struct flx_odeint_attrs {
    uint32_t struct_size; /* sizeof(flx_odeint_attrs) */
    const flx_graph *body; /* must be given */
    double rtol; /* 1e-06 */
    double atol; /* 1e-09 */
} flx_odeint_attrs;
#define FLX_ODEINT_ATTRS {sizeof(flx_odeint_attrs), NULL, NAN, NAN}

/** ys[k] is the solution of y' = body(y, t, params...) at ts[k], starting with y0 at ts[0]; Runge-Kutta 5(4) with local
    errors below atol + rtol |y| */
static inline flx_val flx_odeint_with(flx_graph *g, const flx_val *operands, size_t num_operands, const flx_odeint_attrs
                                      *attrs)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    FLX_CHECK_SIZE_(flx_odeint_attrs);
    if (FLX_HAS_(flx_odeint_attrs, body) && attrs->body)
        flx_a[flx_n++] = flx_attr_graph("body", attrs->body);
    if (FLX_HAS_NUMBER_(flx_odeint_attrs, rtol) && attrs->rtol == attrs->rtol)
        flx_a[flx_n++] = flx_attr_real("rtol", attrs->rtol);
    if (FLX_HAS_NUMBER_(flx_odeint_attrs, atol) && attrs->atol == attrs->atol)
        flx_a[flx_n++] = flx_attr_real("atol", attrs->atol);
    return flx_op1(g, "odeint", operands, num_operands, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_odeint(...) FLX_ODEINT_(__VA_ARGS__, .struct_size = sizeof(flx_odeint_attrs))
#define FLX_ODEINT_(g_, operands_, num_operands_, ...) FLX_BUILT_(flx_val, flx_odeint_with((g_), (operands_), \
    (num_operands_), &(flx_odeint_attrs){.rtol = NAN, .atol = NAN, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_odeint(flx_graph *g, const flx_val *operands, size_t num_operands, const flx_odeint_attrs
                                 *attrs)
{
    return flx_odeint_with(g, operands, num_operands, attrs);
}
#endif


/* ---- signal ---- */

typedef struct flx_fft_attrs {
    uint32_t struct_size; /* sizeof(flx_fft_attrs) */
    int inverse; /* false */
    const char *norm; /* backward; of: backward forward ortho none */
} flx_fft_attrs;
#define FLX_FFT_ATTRS {sizeof(flx_fft_attrs), -1, NULL}

/** the discrete Fourier transform of the last axis, which is [re..., im...] for real dtypes */
static inline flx_val flx_fft_with(flx_graph *g, flx_val x, const flx_fft_attrs *attrs)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_fft_attrs);
    if (FLX_HAS_NUMBER_(flx_fft_attrs, inverse) && attrs->inverse >= 0)
        flx_a[flx_n++] = flx_attr_int("inverse", attrs->inverse);
    if (FLX_HAS_(flx_fft_attrs, norm) && attrs->norm)
        flx_a[flx_n++] = flx_attr_word("norm", attrs->norm);
    return flx_op1(g, "fft", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_fft(...) FLX_FFT_(__VA_ARGS__, .struct_size = sizeof(flx_fft_attrs))
#define FLX_FFT_(g_, x_, ...) FLX_BUILT_(flx_val, flx_fft_with((g_), (x_), &(flx_fft_attrs){.inverse = -1, \
    .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_fft(flx_graph *g, flx_val x, const flx_fft_attrs *attrs = NULL)
{
    return flx_fft_with(g, x, attrs);
}
#endif

typedef struct flx_fft_axis_attrs {
    uint32_t struct_size; /* sizeof(flx_fft_axis_attrs) */
    int64_t axis; /* must be given */
    int inverse; /* false */
    const char *norm; /* backward; of: backward forward ortho none */
} flx_fft_axis_attrs;
#define FLX_FFT_AXIS_ATTRS {sizeof(flx_fft_axis_attrs), FLX_DEFAULT, -1, NULL}

/** fft along axis */
static inline flx_val flx_fft_axis_with(flx_graph *g, flx_val x, const flx_fft_axis_attrs *attrs)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_fft_axis_attrs);
    if (FLX_HAS_NUMBER_(flx_fft_axis_attrs, axis) && attrs->axis != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("axis", attrs->axis);
    if (FLX_HAS_NUMBER_(flx_fft_axis_attrs, inverse) && attrs->inverse >= 0)
        flx_a[flx_n++] = flx_attr_int("inverse", attrs->inverse);
    if (FLX_HAS_(flx_fft_axis_attrs, norm) && attrs->norm)
        flx_a[flx_n++] = flx_attr_word("norm", attrs->norm);
    return flx_op1(g, "fft_axis", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_fft_axis(...) FLX_FFT_AXIS_(__VA_ARGS__, .struct_size = sizeof(flx_fft_axis_attrs))
#define FLX_FFT_AXIS_(g_, x_, ...) FLX_BUILT_(flx_val, flx_fft_axis_with((g_), (x_), &(flx_fft_axis_attrs){.axis = \
    FLX_DEFAULT, .inverse = -1, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_fft_axis(flx_graph *g, flx_val x, const flx_fft_axis_attrs *attrs)
{
    return flx_fft_axis_with(g, x, attrs);
}
#endif

typedef struct flx_fftn_attrs {
    uint32_t struct_size; /* sizeof(flx_fftn_attrs) */
    flx_ints axes; /* all */
    const char *norm; /* backward; of: backward forward ortho none */
} flx_fftn_attrs;
#define FLX_FFTN_ATTRS {sizeof(flx_fftn_attrs), {NULL, 0}, NULL}

/** fft along each of axes; several axes need complex numbers */
static inline flx_val flx_fftn_with(flx_graph *g, flx_val x, const flx_fftn_attrs *attrs)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_fftn_attrs);
    if (FLX_HAS_(flx_fftn_attrs, axes) && FLX_LISTED_(attrs->axes))
        flx_a[flx_n++] = flx_attr_ints("axes", attrs->axes);
    if (FLX_HAS_(flx_fftn_attrs, norm) && attrs->norm)
        flx_a[flx_n++] = flx_attr_word("norm", attrs->norm);
    return flx_op1(g, "fftn", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_fftn(...) FLX_FFTN_(__VA_ARGS__, .struct_size = sizeof(flx_fftn_attrs))
#define FLX_FFTN_(g_, x_, ...) FLX_BUILT_(flx_val, flx_fftn_with((g_), (x_), &(flx_fftn_attrs){.struct_size = 0, \
    __VA_ARGS__}))
#else
static inline flx_val flx_fftn(flx_graph *g, flx_val x, const flx_fftn_attrs *attrs = NULL)
{
    return flx_fftn_with(g, x, attrs);
}
#endif

typedef struct flx_ifftn_attrs {
    uint32_t struct_size; /* sizeof(flx_ifftn_attrs) */
    flx_ints axes; /* all */
    const char *norm; /* backward; of: backward forward ortho none */
} flx_ifftn_attrs;
#define FLX_IFFTN_ATTRS {sizeof(flx_ifftn_attrs), {NULL, 0}, NULL}

/** the inverse of fftn */
static inline flx_val flx_ifftn_with(flx_graph *g, flx_val x, const flx_ifftn_attrs *attrs)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_ifftn_attrs);
    if (FLX_HAS_(flx_ifftn_attrs, axes) && FLX_LISTED_(attrs->axes))
        flx_a[flx_n++] = flx_attr_ints("axes", attrs->axes);
    if (FLX_HAS_(flx_ifftn_attrs, norm) && attrs->norm)
        flx_a[flx_n++] = flx_attr_word("norm", attrs->norm);
    return flx_op1(g, "ifftn", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_ifftn(...) FLX_IFFTN_(__VA_ARGS__, .struct_size = sizeof(flx_ifftn_attrs))
#define FLX_IFFTN_(g_, x_, ...) FLX_BUILT_(flx_val, flx_ifftn_with((g_), (x_), &(flx_ifftn_attrs){.struct_size = 0, \
    __VA_ARGS__}))
#else
static inline flx_val flx_ifftn(flx_graph *g, flx_val x, const flx_ifftn_attrs *attrs = NULL)
{
    return flx_ifftn_with(g, x, attrs);
}
#endif

typedef struct flx_rfft_attrs {
    uint32_t struct_size; /* sizeof(flx_rfft_attrs) */
    flx_dim n; /* length */
    const char *norm; /* backward; of: backward forward ortho none */
} flx_rfft_attrs;
#define FLX_RFFT_ATTRS {sizeof(flx_rfft_attrs), FLX_DEFAULT, NULL}

/** bins 0 to n//2 of the transform of a real signal, zero-padded or truncated to n */
static inline uint32_t flx_rfft_with(flx_graph *g, flx_val x, flx_val results[2], const flx_rfft_attrs *attrs)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_rfft_attrs);
    if (FLX_HAS_NUMBER_(flx_rfft_attrs, n) && attrs->n != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("n", attrs->n);
    if (FLX_HAS_(flx_rfft_attrs, norm) && attrs->norm)
        flx_a[flx_n++] = flx_attr_word("norm", attrs->norm);
    return flx_op(g, "rfft", flx_x, 1, flx_n ? flx_a : NULL, flx_n, results, 2);
}

#ifndef __cplusplus
#define flx_rfft(...) FLX_RFFT_(__VA_ARGS__, .struct_size = sizeof(flx_rfft_attrs))
#define FLX_RFFT_(g_, x_, results_, ...) FLX_BUILT_(uint32_t, flx_rfft_with((g_), (x_), (results_), \
    &(flx_rfft_attrs){.n = FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline uint32_t flx_rfft(flx_graph *g, flx_val x, flx_val results[2], const flx_rfft_attrs *attrs = NULL)
{
    return flx_rfft_with(g, x, results, attrs);
}
#endif

typedef struct flx_irfft_attrs {
    uint32_t struct_size; /* sizeof(flx_irfft_attrs) */
    flx_dim n; /* 2*bins - 2 */
    const char *norm; /* backward; of: backward forward ortho none */
} flx_irfft_attrs;
#define FLX_IRFFT_ATTRS {sizeof(flx_irfft_attrs), FLX_DEFAULT, NULL}

/** the real signal of length n with these bins; the imaginary parts of bins 0 and n/2 are ignored */
static inline flx_val flx_irfft_with(flx_graph *g, flx_val re, flx_val im, const flx_irfft_attrs *attrs)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = re;
    flx_x[1] = im;
    FLX_CHECK_SIZE_(flx_irfft_attrs);
    if (FLX_HAS_NUMBER_(flx_irfft_attrs, n) && attrs->n != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("n", attrs->n);
    if (FLX_HAS_(flx_irfft_attrs, norm) && attrs->norm)
        flx_a[flx_n++] = flx_attr_word("norm", attrs->norm);
    return flx_op1(g, "irfft", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_irfft(...) FLX_IRFFT_(__VA_ARGS__, .struct_size = sizeof(flx_irfft_attrs))
#define FLX_IRFFT_(g_, re_, im_, ...) FLX_BUILT_(flx_val, flx_irfft_with((g_), (re_), (im_), &(flx_irfft_attrs){.n = \
    FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_irfft(flx_graph *g, flx_val re, flx_val im, const flx_irfft_attrs *attrs = NULL)
{
    return flx_irfft_with(g, re, im, attrs);
}
#endif

typedef struct flx_rfft_complex_attrs {
    uint32_t struct_size; /* sizeof(flx_rfft_complex_attrs) */
    flx_dim n; /* length */
    const char *norm; /* backward; of: backward forward ortho none */
} flx_rfft_complex_attrs;
#define FLX_RFFT_COMPLEX_ATTRS {sizeof(flx_rfft_complex_attrs), FLX_DEFAULT, NULL}

/** rfft with complex bins */
static inline flx_val flx_rfft_complex_with(flx_graph *g, flx_val x, const flx_rfft_complex_attrs *attrs)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_rfft_complex_attrs);
    if (FLX_HAS_NUMBER_(flx_rfft_complex_attrs, n) && attrs->n != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("n", attrs->n);
    if (FLX_HAS_(flx_rfft_complex_attrs, norm) && attrs->norm)
        flx_a[flx_n++] = flx_attr_word("norm", attrs->norm);
    return flx_op1(g, "rfft_complex", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_rfft_complex(...) FLX_RFFT_COMPLEX_(__VA_ARGS__, .struct_size = sizeof(flx_rfft_complex_attrs))
#define FLX_RFFT_COMPLEX_(g_, x_, ...) FLX_BUILT_(flx_val, flx_rfft_complex_with((g_), (x_), \
    &(flx_rfft_complex_attrs){.n = FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_rfft_complex(flx_graph *g, flx_val x, const flx_rfft_complex_attrs *attrs = NULL)
{
    return flx_rfft_complex_with(g, x, attrs);
}
#endif

typedef struct flx_irfft_complex_attrs {
    uint32_t struct_size; /* sizeof(flx_irfft_complex_attrs) */
    flx_dim n; /* 2*bins - 2 */
    const char *norm; /* backward; of: backward forward ortho none */
} flx_irfft_complex_attrs;
#define FLX_IRFFT_COMPLEX_ATTRS {sizeof(flx_irfft_complex_attrs), FLX_DEFAULT, NULL}

/** irfft of complex bins */
static inline flx_val flx_irfft_complex_with(flx_graph *g, flx_val z, const flx_irfft_complex_attrs *attrs)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = z;
    FLX_CHECK_SIZE_(flx_irfft_complex_attrs);
    if (FLX_HAS_NUMBER_(flx_irfft_complex_attrs, n) && attrs->n != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("n", attrs->n);
    if (FLX_HAS_(flx_irfft_complex_attrs, norm) && attrs->norm)
        flx_a[flx_n++] = flx_attr_word("norm", attrs->norm);
    return flx_op1(g, "irfft_complex", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_irfft_complex(...) FLX_IRFFT_COMPLEX_(__VA_ARGS__, .struct_size = sizeof(flx_irfft_complex_attrs))
#define FLX_IRFFT_COMPLEX_(g_, z_, ...) FLX_BUILT_(flx_val, flx_irfft_complex_with((g_), (z_), \
    &(flx_irfft_complex_attrs){.n = FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_irfft_complex(flx_graph *g, flx_val z, const flx_irfft_complex_attrs *attrs = NULL)
{
    return flx_irfft_complex_with(g, z, attrs);
}
#endif

typedef struct flx_conv_attrs {
    uint32_t struct_size; /* sizeof(flx_conv_attrs) */
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
#define FLX_CONV_ATTRS {sizeof(flx_conv_attrs), {NULL, 0}, {NULL, 0}, {NULL, 0}, FLX_DEFAULT, {NULL, 0}, FLX_DEFAULT, \
    {NULL, 0}, {NULL, 0}, {NULL, 0}, {NULL, 0}}

/** z[n, c, o] = sum of w[c, i, k] x[n, i, o stride + k dilation - padding], x spread by input_dilation, 0 outside */
static inline flx_val flx_conv_with(flx_graph *g, flx_val x, flx_val w, const flx_conv_attrs *attrs)
{
    flx_attr flx_a[10];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = x;
    flx_x[1] = w;
    FLX_CHECK_SIZE_(flx_conv_attrs);
    if (FLX_HAS_(flx_conv_attrs, stride) && FLX_LISTED_(attrs->stride))
        flx_a[flx_n++] = flx_attr_ints("stride", attrs->stride);
    if (FLX_HAS_(flx_conv_attrs, padding) && FLX_LISTED_(attrs->padding))
        flx_a[flx_n++] = flx_attr_pairs("padding", attrs->padding);
    if (FLX_HAS_(flx_conv_attrs, dilation) && FLX_LISTED_(attrs->dilation))
        flx_a[flx_n++] = flx_attr_ints("dilation", attrs->dilation);
    if (FLX_HAS_NUMBER_(flx_conv_attrs, groups) && attrs->groups != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("groups", attrs->groups);
    if (FLX_HAS_(flx_conv_attrs, input_dilation) && FLX_LISTED_(attrs->input_dilation))
        flx_a[flx_n++] = flx_attr_ints("input_dilation", attrs->input_dilation);
    if (FLX_HAS_NUMBER_(flx_conv_attrs, batch_groups) && attrs->batch_groups != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("batch_groups", attrs->batch_groups);
    if (FLX_HAS_(flx_conv_attrs, reverse) && FLX_LISTED_(attrs->reverse))
        flx_a[flx_n++] = flx_attr_ints("reverse", attrs->reverse);
    if (FLX_HAS_(flx_conv_attrs, input_axes) && FLX_LISTED_(attrs->input_axes))
        flx_a[flx_n++] = flx_attr_ints("input_axes", attrs->input_axes);
    if (FLX_HAS_(flx_conv_attrs, kernel_axes) && FLX_LISTED_(attrs->kernel_axes))
        flx_a[flx_n++] = flx_attr_ints("kernel_axes", attrs->kernel_axes);
    if (FLX_HAS_(flx_conv_attrs, output_axes) && FLX_LISTED_(attrs->output_axes))
        flx_a[flx_n++] = flx_attr_ints("output_axes", attrs->output_axes);
    return flx_op1(g, "conv", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_conv(...) FLX_CONV_(__VA_ARGS__, .struct_size = sizeof(flx_conv_attrs))
#define FLX_CONV_(g_, x_, w_, ...) FLX_BUILT_(flx_val, flx_conv_with((g_), (x_), (w_), &(flx_conv_attrs){.groups = \
    FLX_DEFAULT, .batch_groups = FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_conv(flx_graph *g, flx_val x, flx_val w, const flx_conv_attrs *attrs = NULL)
{
    return flx_conv_with(g, x, w, attrs);
}
#endif

typedef struct flx_conv_backward_input_attrs {
    uint32_t struct_size; /* sizeof(flx_conv_backward_input_attrs) */
    flx_ints input_size; /* must be given */
    flx_ints stride; /* all 1 */
    flx_ints padding; /* all 0 */
    flx_ints dilation; /* all 1 */
    flx_dim groups; /* 1 */
} flx_conv_backward_input_attrs;
#define FLX_CONV_BACKWARD_INPUT_ATTRS {sizeof(flx_conv_backward_input_attrs), {NULL, 0}, {NULL, 0}, {NULL, 0}, {NULL, \
    0}, FLX_DEFAULT}

/** the transpose of conv in x: scatters z through w to an input of spatial extents input_size */
static inline flx_val flx_conv_backward_input_with(flx_graph *g, flx_val z, flx_val w, const
                                                   flx_conv_backward_input_attrs *attrs)
{
    flx_attr flx_a[5];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = z;
    flx_x[1] = w;
    FLX_CHECK_SIZE_(flx_conv_backward_input_attrs);
    if (FLX_HAS_(flx_conv_backward_input_attrs, input_size) && FLX_LISTED_(attrs->input_size))
        flx_a[flx_n++] = flx_attr_ints("input_size", attrs->input_size);
    if (FLX_HAS_(flx_conv_backward_input_attrs, stride) && FLX_LISTED_(attrs->stride))
        flx_a[flx_n++] = flx_attr_ints("stride", attrs->stride);
    if (FLX_HAS_(flx_conv_backward_input_attrs, padding) && FLX_LISTED_(attrs->padding))
        flx_a[flx_n++] = flx_attr_pairs("padding", attrs->padding);
    if (FLX_HAS_(flx_conv_backward_input_attrs, dilation) && FLX_LISTED_(attrs->dilation))
        flx_a[flx_n++] = flx_attr_ints("dilation", attrs->dilation);
    if (FLX_HAS_NUMBER_(flx_conv_backward_input_attrs, groups) && attrs->groups != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("groups", attrs->groups);
    return flx_op1(g, "conv_backward_input", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_conv_backward_input(...) FLX_CONV_BACKWARD_INPUT_(__VA_ARGS__, .struct_size = \
    sizeof(flx_conv_backward_input_attrs))
#define FLX_CONV_BACKWARD_INPUT_(g_, z_, w_, ...) FLX_BUILT_(flx_val, flx_conv_backward_input_with((g_), (z_), (w_), \
    &(flx_conv_backward_input_attrs){.groups = FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_conv_backward_input(flx_graph *g, flx_val z, flx_val w, const flx_conv_backward_input_attrs
                                              *attrs)
{
    return flx_conv_backward_input_with(g, z, w, attrs);
}
#endif

typedef struct flx_conv_backward_weight_attrs {
    uint32_t struct_size; /* sizeof(flx_conv_backward_weight_attrs) */
    flx_ints kernel_size; /* must be given */
    flx_ints stride; /* all 1 */
    flx_ints padding; /* all 0 */
    flx_ints dilation; /* all 1 */
    flx_dim groups; /* 1 */
} flx_conv_backward_weight_attrs;
#define FLX_CONV_BACKWARD_WEIGHT_ATTRS {sizeof(flx_conv_backward_weight_attrs), {NULL, 0}, {NULL, 0}, {NULL, 0}, \
    {NULL, 0}, FLX_DEFAULT}

/** the transpose of conv in w: correlates x with z for a kernel of extents kernel_size */
static inline flx_val flx_conv_backward_weight_with(flx_graph *g, flx_val x, flx_val z, const
                                                    flx_conv_backward_weight_attrs *attrs)
{
    flx_attr flx_a[5];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = x;
    flx_x[1] = z;
    FLX_CHECK_SIZE_(flx_conv_backward_weight_attrs);
    if (FLX_HAS_(flx_conv_backward_weight_attrs, kernel_size) && FLX_LISTED_(attrs->kernel_size))
        flx_a[flx_n++] = flx_attr_ints("kernel_size", attrs->kernel_size);
    if (FLX_HAS_(flx_conv_backward_weight_attrs, stride) && FLX_LISTED_(attrs->stride))
        flx_a[flx_n++] = flx_attr_ints("stride", attrs->stride);
    if (FLX_HAS_(flx_conv_backward_weight_attrs, padding) && FLX_LISTED_(attrs->padding))
        flx_a[flx_n++] = flx_attr_pairs("padding", attrs->padding);
    if (FLX_HAS_(flx_conv_backward_weight_attrs, dilation) && FLX_LISTED_(attrs->dilation))
        flx_a[flx_n++] = flx_attr_ints("dilation", attrs->dilation);
    if (FLX_HAS_NUMBER_(flx_conv_backward_weight_attrs, groups) && attrs->groups != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("groups", attrs->groups);
    return flx_op1(g, "conv_backward_weight", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_conv_backward_weight(...) FLX_CONV_BACKWARD_WEIGHT_(__VA_ARGS__, .struct_size = \
    sizeof(flx_conv_backward_weight_attrs))
#define FLX_CONV_BACKWARD_WEIGHT_(g_, x_, z_, ...) FLX_BUILT_(flx_val, flx_conv_backward_weight_with((g_), (x_), (z_), \
    &(flx_conv_backward_weight_attrs){.groups = FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_conv_backward_weight(flx_graph *g, flx_val x, flx_val z, const flx_conv_backward_weight_attrs
                                               *attrs)
{
    return flx_conv_backward_weight_with(g, x, z, attrs);
}
#endif

typedef struct flx_conv_transpose_attrs {
    uint32_t struct_size; /* sizeof(flx_conv_transpose_attrs) */
    flx_ints stride; /* all 1 */
    flx_ints padding; /* all 0 */
    flx_ints dilation; /* all 1 */
    flx_dim groups; /* 1 */
    flx_ints output_padding; /* all 0 */
} flx_conv_transpose_attrs;
#define FLX_CONV_TRANSPOSE_ATTRS {sizeof(flx_conv_transpose_attrs), {NULL, 0}, {NULL, 0}, {NULL, 0}, FLX_DEFAULT, \
    {NULL, 0}}

/** conv_backward_input of x with w [Cin, Cout/groups, K...]: extents (S-1) stride - low - high + (K-1) dilation +
    output_padding + 1 */
static inline flx_val flx_conv_transpose_with(flx_graph *g, flx_val x, flx_val w, const flx_conv_transpose_attrs *attrs)
{
    flx_attr flx_a[5];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = x;
    flx_x[1] = w;
    FLX_CHECK_SIZE_(flx_conv_transpose_attrs);
    if (FLX_HAS_(flx_conv_transpose_attrs, stride) && FLX_LISTED_(attrs->stride))
        flx_a[flx_n++] = flx_attr_ints("stride", attrs->stride);
    if (FLX_HAS_(flx_conv_transpose_attrs, padding) && FLX_LISTED_(attrs->padding))
        flx_a[flx_n++] = flx_attr_pairs("padding", attrs->padding);
    if (FLX_HAS_(flx_conv_transpose_attrs, dilation) && FLX_LISTED_(attrs->dilation))
        flx_a[flx_n++] = flx_attr_ints("dilation", attrs->dilation);
    if (FLX_HAS_NUMBER_(flx_conv_transpose_attrs, groups) && attrs->groups != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("groups", attrs->groups);
    if (FLX_HAS_(flx_conv_transpose_attrs, output_padding) && FLX_LISTED_(attrs->output_padding))
        flx_a[flx_n++] = flx_attr_ints("output_padding", attrs->output_padding);
    return flx_op1(g, "conv_transpose", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_conv_transpose(...) FLX_CONV_TRANSPOSE_(__VA_ARGS__, .struct_size = sizeof(flx_conv_transpose_attrs))
#define FLX_CONV_TRANSPOSE_(g_, x_, w_, ...) FLX_BUILT_(flx_val, flx_conv_transpose_with((g_), (x_), (w_), \
    &(flx_conv_transpose_attrs){.groups = FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_conv_transpose(flx_graph *g, flx_val x, flx_val w, const flx_conv_transpose_attrs *attrs =
                                         NULL)
{
    return flx_conv_transpose_with(g, x, w, attrs);
}
#endif

typedef struct flx_pool_attrs {
    uint32_t struct_size; /* sizeof(flx_pool_attrs) */
    const char *kind; /* must be given; of: mean sum max min prod */
    flx_ints kernel_size; /* must be given */
    flx_ints stride; /* kernel_size */
    flx_ints padding; /* all 0 */
    int count_include_pad; /* true */
} flx_pool_attrs;
#define FLX_POOL_ATTRS {sizeof(flx_pool_attrs), NULL, {NULL, 0}, {NULL, 0}, {NULL, 0}, -1}

/** mean, sum, max, min or prod over windows of x [N, C, spatial...]; padding counts only in the divisor of mean */
static inline flx_val flx_pool_with(flx_graph *g, flx_val x, const flx_pool_attrs *attrs)
{
    flx_attr flx_a[5];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_pool_attrs);
    if (FLX_HAS_(flx_pool_attrs, kind) && attrs->kind)
        flx_a[flx_n++] = flx_attr_word("kind", attrs->kind);
    if (FLX_HAS_(flx_pool_attrs, kernel_size) && FLX_LISTED_(attrs->kernel_size))
        flx_a[flx_n++] = flx_attr_ints("kernel_size", attrs->kernel_size);
    if (FLX_HAS_(flx_pool_attrs, stride) && FLX_LISTED_(attrs->stride))
        flx_a[flx_n++] = flx_attr_ints("stride", attrs->stride);
    if (FLX_HAS_(flx_pool_attrs, padding) && FLX_LISTED_(attrs->padding))
        flx_a[flx_n++] = flx_attr_pairs("padding", attrs->padding);
    if (FLX_HAS_NUMBER_(flx_pool_attrs, count_include_pad) && attrs->count_include_pad >= 0)
        flx_a[flx_n++] = flx_attr_int("count_include_pad", attrs->count_include_pad);
    return flx_op1(g, "pool", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_pool(...) FLX_POOL_(__VA_ARGS__, .struct_size = sizeof(flx_pool_attrs))
#define FLX_POOL_(g_, x_, ...) FLX_BUILT_(flx_val, flx_pool_with((g_), (x_), &(flx_pool_attrs){.count_include_pad = \
    -1, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_pool(flx_graph *g, flx_val x, const flx_pool_attrs *attrs)
{
    return flx_pool_with(g, x, attrs);
}
#endif

typedef struct flx_pool_argmax_attrs {
    uint32_t struct_size; /* sizeof(flx_pool_argmax_attrs) */
    flx_ints kernel_size; /* must be given */
    flx_ints stride; /* kernel_size */
    flx_ints padding; /* all 0 */
} flx_pool_argmax_attrs;
#define FLX_POOL_ARGMAX_ATTRS {sizeof(flx_pool_argmax_attrs), {NULL, 0}, {NULL, 0}, {NULL, 0}}

/** i32 position, in the flattened spatial axes, of the largest element of each window: the first one, or the first NaN
    */
static inline flx_val flx_pool_argmax_with(flx_graph *g, flx_val x, const flx_pool_argmax_attrs *attrs)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_pool_argmax_attrs);
    if (FLX_HAS_(flx_pool_argmax_attrs, kernel_size) && FLX_LISTED_(attrs->kernel_size))
        flx_a[flx_n++] = flx_attr_ints("kernel_size", attrs->kernel_size);
    if (FLX_HAS_(flx_pool_argmax_attrs, stride) && FLX_LISTED_(attrs->stride))
        flx_a[flx_n++] = flx_attr_ints("stride", attrs->stride);
    if (FLX_HAS_(flx_pool_argmax_attrs, padding) && FLX_LISTED_(attrs->padding))
        flx_a[flx_n++] = flx_attr_pairs("padding", attrs->padding);
    return flx_op1(g, "pool_argmax", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_pool_argmax(...) FLX_POOL_ARGMAX_(__VA_ARGS__, .struct_size = sizeof(flx_pool_argmax_attrs))
#define FLX_POOL_ARGMAX_(g_, x_, ...) FLX_BUILT_(flx_val, flx_pool_argmax_with((g_), (x_), \
    &(flx_pool_argmax_attrs){.struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_pool_argmax(flx_graph *g, flx_val x, const flx_pool_argmax_attrs *attrs)
{
    return flx_pool_argmax_with(g, x, attrs);
}
#endif

typedef struct flx_max_pool_backward_attrs {
    uint32_t struct_size; /* sizeof(flx_max_pool_backward_attrs) */
    flx_ints kernel_size; /* must be given */
    flx_ints stride; /* kernel_size */
    flx_ints padding; /* all 0 */
} flx_max_pool_backward_attrs;
#define FLX_MAX_POOL_BACKWARD_ATTRS {sizeof(flx_max_pool_backward_attrs), {NULL, 0}, {NULL, 0}, {NULL, 0}}

/** dy summed at the positions of pool_argmax(x), zero elsewhere; linear in dy, no derivative in x */
static inline flx_val flx_max_pool_backward_with(flx_graph *g, flx_val x, flx_val dy, const flx_max_pool_backward_attrs
                                                 *attrs)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = x;
    flx_x[1] = dy;
    FLX_CHECK_SIZE_(flx_max_pool_backward_attrs);
    if (FLX_HAS_(flx_max_pool_backward_attrs, kernel_size) && FLX_LISTED_(attrs->kernel_size))
        flx_a[flx_n++] = flx_attr_ints("kernel_size", attrs->kernel_size);
    if (FLX_HAS_(flx_max_pool_backward_attrs, stride) && FLX_LISTED_(attrs->stride))
        flx_a[flx_n++] = flx_attr_ints("stride", attrs->stride);
    if (FLX_HAS_(flx_max_pool_backward_attrs, padding) && FLX_LISTED_(attrs->padding))
        flx_a[flx_n++] = flx_attr_pairs("padding", attrs->padding);
    return flx_op1(g, "max_pool_backward", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_max_pool_backward(...) FLX_MAX_POOL_BACKWARD_(__VA_ARGS__, .struct_size = \
    sizeof(flx_max_pool_backward_attrs))
#define FLX_MAX_POOL_BACKWARD_(g_, x_, dy_, ...) FLX_BUILT_(flx_val, flx_max_pool_backward_with((g_), (x_), (dy_), \
    &(flx_max_pool_backward_attrs){.struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_max_pool_backward(flx_graph *g, flx_val x, flx_val dy, const flx_max_pool_backward_attrs
                                            *attrs)
{
    return flx_max_pool_backward_with(g, x, dy, attrs);
}
#endif

/** [N, C, H, W] to [N, C, 2H, 2W], each element repeated 2 by 2 */
static inline flx_val flx_resize_nearest_2x(flx_graph *g, flx_val x)
{
    flx_val flx_x[1];
    flx_x[0] = x;
    return flx_op1(g, "resize_nearest_2x", flx_x, 1, NULL, 0);
}

typedef struct flx_resize_attrs {
    uint32_t struct_size; /* sizeof(flx_resize_attrs) */
    flx_ints shape; /* must be given */
    const char *mode; /* nearest; of: nearest linear cubic */
    const char *coordinates; /* half_pixel; of: half_pixel align_corners asymmetric */
} flx_resize_attrs;
#define FLX_RESIZE_ATTRS {sizeof(flx_resize_attrs), {NULL, 0}, NULL, NULL}

/** x interpolated to shape, axis by axis; nearest rounds halves down (asymmetric: floor), cubic has a = -0.75, edges
    repeat */
static inline flx_val flx_resize_with(flx_graph *g, flx_val x, const flx_resize_attrs *attrs)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_resize_attrs);
    if (FLX_HAS_(flx_resize_attrs, shape) && FLX_LISTED_(attrs->shape))
        flx_a[flx_n++] = flx_attr_ints("shape", attrs->shape);
    if (FLX_HAS_(flx_resize_attrs, mode) && attrs->mode)
        flx_a[flx_n++] = flx_attr_word("mode", attrs->mode);
    if (FLX_HAS_(flx_resize_attrs, coordinates) && attrs->coordinates)
        flx_a[flx_n++] = flx_attr_word("coordinates", attrs->coordinates);
    return flx_op1(g, "resize", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_resize(...) FLX_RESIZE_(__VA_ARGS__, .struct_size = sizeof(flx_resize_attrs))
#define FLX_RESIZE_(g_, x_, ...) FLX_BUILT_(flx_val, flx_resize_with((g_), (x_), &(flx_resize_attrs){.struct_size = 0, \
    __VA_ARGS__}))
#else
static inline flx_val flx_resize(flx_graph *g, flx_val x, const flx_resize_attrs *attrs)
{
    return flx_resize_with(g, x, attrs);
}
#endif

typedef struct flx_stft_attrs {
    uint32_t struct_size; /* sizeof(flx_stft_attrs) */
    int64_t frame_len; /* must be given */
    int64_t hop; /* must be given */
} flx_stft_attrs;
#define FLX_STFT_ATTRS {sizeof(flx_stft_attrs), FLX_DEFAULT, FLX_DEFAULT}

/** rfft of the frames of x that start every hop elements: [frames, .., 2*bins], re then im */
static inline flx_val flx_stft_with(flx_graph *g, flx_val x, flx_val window, const flx_stft_attrs *attrs)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = x;
    flx_x[1] = window;
    size_t num_operands = 2;
    while (num_operands > 1 && !flx_x[num_operands - 1].id)
        num_operands--;
    FLX_CHECK_SIZE_(flx_stft_attrs);
    if (FLX_HAS_NUMBER_(flx_stft_attrs, frame_len) && attrs->frame_len != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("frame_len", attrs->frame_len);
    if (FLX_HAS_NUMBER_(flx_stft_attrs, hop) && attrs->hop != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("hop", attrs->hop);
    return flx_op1(g, "stft", flx_x, num_operands, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_stft(...) FLX_STFT_(__VA_ARGS__, .struct_size = sizeof(flx_stft_attrs))
#define FLX_STFT_(g_, x_, window_, ...) FLX_BUILT_(flx_val, flx_stft_with((g_), (x_), (window_), \
    &(flx_stft_attrs){.frame_len = FLX_DEFAULT, .hop = FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_stft(flx_graph *g, flx_val x, flx_val window, const flx_stft_attrs *attrs)
{
    return flx_stft_with(g, x, window, attrs);
}
#endif

typedef struct flx_psd_attrs {
    uint32_t struct_size; /* sizeof(flx_psd_attrs) */
    flx_dim n; /* 2*bins - 2 */
} flx_psd_attrs;
#define FLX_PSD_ATTRS {sizeof(flx_psd_attrs), FLX_DEFAULT}

/** (re^2 + im^2) / n */
static inline flx_val flx_psd_with(flx_graph *g, flx_val re, flx_val im, const flx_psd_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = re;
    flx_x[1] = im;
    FLX_CHECK_SIZE_(flx_psd_attrs);
    if (FLX_HAS_NUMBER_(flx_psd_attrs, n) && attrs->n != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("n", attrs->n);
    return flx_op1(g, "psd", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_psd(...) FLX_PSD_(__VA_ARGS__, .struct_size = sizeof(flx_psd_attrs))
#define FLX_PSD_(g_, re_, im_, ...) FLX_BUILT_(flx_val, flx_psd_with((g_), (re_), (im_), &(flx_psd_attrs){.n = \
    FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_psd(flx_graph *g, flx_val re, flx_val im, const flx_psd_attrs *attrs = NULL)
{
    return flx_psd_with(g, re, im, attrs);
}
#endif

/** the linear convolution along the last axes, of length len(a) + len(b) - 1, computed by Fourier transforms */
static inline flx_val flx_fft_conv1d(flx_graph *g, flx_val a, flx_val b)
{
    flx_val flx_x[2];
    flx_x[0] = a;
    flx_x[1] = b;
    return flx_op1(g, "fft_conv1d", flx_x, 2, NULL, 0);
}

typedef struct flx_fftfreq_attrs {
    uint32_t struct_size; /* sizeof(flx_fftfreq_attrs) */
    flx_dim n; /* must be given */
    flx_dtype dtype; /* f32 */
} flx_fftfreq_attrs;
#define FLX_FFTFREQ_ATTRS {sizeof(flx_fftfreq_attrs), FLX_DEFAULT, FLX_DTYPE_NONE}

/** the frequencies of the bins of fft: k/n for k < n/2, else (k - n)/n */
static inline flx_val flx_fftfreq_with(flx_graph *g, const flx_fftfreq_attrs *attrs)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    FLX_CHECK_SIZE_(flx_fftfreq_attrs);
    if (FLX_HAS_NUMBER_(flx_fftfreq_attrs, n) && attrs->n != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("n", attrs->n);
    if (FLX_HAS_(flx_fftfreq_attrs, dtype) && attrs->dtype != FLX_DTYPE_NONE)
        flx_a[flx_n++] = flx_attr_dtype("dtype", attrs->dtype);
    return flx_op1(g, "fftfreq", NULL, 0, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_fftfreq(...) FLX_FFTFREQ_(__VA_ARGS__, .struct_size = sizeof(flx_fftfreq_attrs))
#define FLX_FFTFREQ_(g_, ...) FLX_BUILT_(flx_val, flx_fftfreq_with((g_), &(flx_fftfreq_attrs){.n = FLX_DEFAULT, \
    .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_fftfreq(flx_graph *g, const flx_fftfreq_attrs *attrs)
{
    return flx_fftfreq_with(g, attrs);
}
#endif

typedef struct flx_rfftfreq_attrs {
    uint32_t struct_size; /* sizeof(flx_rfftfreq_attrs) */
    flx_dim n; /* must be given */
    flx_dtype dtype; /* f32 */
} flx_rfftfreq_attrs;
#define FLX_RFFTFREQ_ATTRS {sizeof(flx_rfftfreq_attrs), FLX_DEFAULT, FLX_DTYPE_NONE}

/** the frequencies of the bins of rfft: k/n */
static inline flx_val flx_rfftfreq_with(flx_graph *g, const flx_rfftfreq_attrs *attrs)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    FLX_CHECK_SIZE_(flx_rfftfreq_attrs);
    if (FLX_HAS_NUMBER_(flx_rfftfreq_attrs, n) && attrs->n != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("n", attrs->n);
    if (FLX_HAS_(flx_rfftfreq_attrs, dtype) && attrs->dtype != FLX_DTYPE_NONE)
        flx_a[flx_n++] = flx_attr_dtype("dtype", attrs->dtype);
    return flx_op1(g, "rfftfreq", NULL, 0, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_rfftfreq(...) FLX_RFFTFREQ_(__VA_ARGS__, .struct_size = sizeof(flx_rfftfreq_attrs))
#define FLX_RFFTFREQ_(g_, ...) FLX_BUILT_(flx_val, flx_rfftfreq_with((g_), &(flx_rfftfreq_attrs){.n = FLX_DEFAULT, \
    .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_rfftfreq(flx_graph *g, const flx_rfftfreq_attrs *attrs)
{
    return flx_rfftfreq_with(g, attrs);
}
#endif

typedef struct flx_log_mel_attrs {
    uint32_t struct_size; /* sizeof(flx_log_mel_attrs) */
    double floor; /* 1e-10 */
} flx_log_mel_attrs;
#define FLX_LOG_MEL_ATTRS {sizeof(flx_log_mel_attrs), NAN}

/** log10(max(P filt^T, floor)), P the power in the bins 0 to N//2 of spec [.., 2N], filt [M, N//2 + 1] */
static inline flx_val flx_log_mel_with(flx_graph *g, flx_val spec, flx_val filt, const flx_log_mel_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = spec;
    flx_x[1] = filt;
    FLX_CHECK_SIZE_(flx_log_mel_attrs);
    if (FLX_HAS_NUMBER_(flx_log_mel_attrs, floor) && attrs->floor == attrs->floor)
        flx_a[flx_n++] = flx_attr_real("floor", attrs->floor);
    return flx_op1(g, "log_mel", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_log_mel(...) FLX_LOG_MEL_(__VA_ARGS__, .struct_size = sizeof(flx_log_mel_attrs))
#define FLX_LOG_MEL_(g_, spec_, filt_, ...) FLX_BUILT_(flx_val, flx_log_mel_with((g_), (spec_), (filt_), \
    &(flx_log_mel_attrs){.floor = NAN, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_log_mel(flx_graph *g, flx_val spec, flx_val filt, const flx_log_mel_attrs *attrs = NULL)
{
    return flx_log_mel_with(g, spec, filt, attrs);
}
#endif

typedef struct flx_log_mel_backward_attrs {
    uint32_t struct_size; /* sizeof(flx_log_mel_backward_attrs) */
    double floor; /* 1e-10 */
} flx_log_mel_backward_attrs;
#define FLX_LOG_MEL_BACKWARD_ATTRS {sizeof(flx_log_mel_backward_attrs), NAN}

/** the cotangent of log_mel's spec */
static inline flx_val flx_log_mel_backward_with(flx_graph *g, flx_val spec, flx_val filt, flx_val dy, const
                                                flx_log_mel_backward_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[3];
    flx_x[0] = spec;
    flx_x[1] = filt;
    flx_x[2] = dy;
    FLX_CHECK_SIZE_(flx_log_mel_backward_attrs);
    if (FLX_HAS_NUMBER_(flx_log_mel_backward_attrs, floor) && attrs->floor == attrs->floor)
        flx_a[flx_n++] = flx_attr_real("floor", attrs->floor);
    return flx_op1(g, "log_mel_backward", flx_x, 3, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_log_mel_backward(...) FLX_LOG_MEL_BACKWARD_(__VA_ARGS__, .struct_size = \
    sizeof(flx_log_mel_backward_attrs))
#define FLX_LOG_MEL_BACKWARD_(g_, spec_, filt_, dy_, ...) FLX_BUILT_(flx_val, flx_log_mel_backward_with((g_), (spec_), \
    (filt_), (dy_), &(flx_log_mel_backward_attrs){.floor = NAN, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_log_mel_backward(flx_graph *g, flx_val spec, flx_val filt, flx_val dy, const
                                           flx_log_mel_backward_attrs *attrs = NULL)
{
    return flx_log_mel_backward_with(g, spec, filt, dy, attrs);
}
#endif

typedef struct flx_log_mel_normalize_attrs {
    uint32_t struct_size; /* sizeof(flx_log_mel_normalize_attrs) */
    double range; /* 8 */
    double shift; /* 4 */
    double scale; /* 4 */
} flx_log_mel_normalize_attrs;
#define FLX_LOG_MEL_NORMALIZE_ATTRS {sizeof(flx_log_mel_normalize_attrs), NAN, NAN, NAN}

/** (max(y, max(y) - range) + shift) / scale; the maximum is over all of y */
static inline flx_val flx_log_mel_normalize_with(flx_graph *g, flx_val y, const flx_log_mel_normalize_attrs *attrs)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = y;
    FLX_CHECK_SIZE_(flx_log_mel_normalize_attrs);
    if (FLX_HAS_NUMBER_(flx_log_mel_normalize_attrs, range) && attrs->range == attrs->range)
        flx_a[flx_n++] = flx_attr_real("range", attrs->range);
    if (FLX_HAS_NUMBER_(flx_log_mel_normalize_attrs, shift) && attrs->shift == attrs->shift)
        flx_a[flx_n++] = flx_attr_real("shift", attrs->shift);
    if (FLX_HAS_NUMBER_(flx_log_mel_normalize_attrs, scale) && attrs->scale == attrs->scale)
        flx_a[flx_n++] = flx_attr_real("scale", attrs->scale);
    return flx_op1(g, "log_mel_normalize", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_log_mel_normalize(...) FLX_LOG_MEL_NORMALIZE_(__VA_ARGS__, .struct_size = \
    sizeof(flx_log_mel_normalize_attrs))
#define FLX_LOG_MEL_NORMALIZE_(g_, y_, ...) FLX_BUILT_(flx_val, flx_log_mel_normalize_with((g_), (y_), \
    &(flx_log_mel_normalize_attrs){.range = NAN, .shift = NAN, .scale = NAN, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_log_mel_normalize(flx_graph *g, flx_val y, const flx_log_mel_normalize_attrs *attrs = NULL)
{
    return flx_log_mel_normalize_with(g, y, attrs);
}
#endif

typedef struct flx_welch_peaks_attrs {
    uint32_t struct_size; /* sizeof(flx_welch_peaks_attrs) */
    flx_dim k; /* must be given */
} flx_welch_peaks_attrs;
#define FLX_WELCH_PEAKS_ATTRS {sizeof(flx_welch_peaks_attrs), FLX_DEFAULT}

/** the k bins with the largest mean power, largest first; spec is [segments, .., 2*bins], re then im */
static inline uint32_t flx_welch_peaks_with(flx_graph *g, flx_val spec, flx_val results[2], const flx_welch_peaks_attrs
                                            *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = spec;
    FLX_CHECK_SIZE_(flx_welch_peaks_attrs);
    if (FLX_HAS_NUMBER_(flx_welch_peaks_attrs, k) && attrs->k != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("k", attrs->k);
    return flx_op(g, "welch_peaks", flx_x, 1, flx_n ? flx_a : NULL, flx_n, results, 2);
}

#ifndef __cplusplus
#define flx_welch_peaks(...) FLX_WELCH_PEAKS_(__VA_ARGS__, .struct_size = sizeof(flx_welch_peaks_attrs))
#define FLX_WELCH_PEAKS_(g_, spec_, results_, ...) FLX_BUILT_(uint32_t, flx_welch_peaks_with((g_), (spec_), \
    (results_), &(flx_welch_peaks_attrs){.k = FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline uint32_t flx_welch_peaks(flx_graph *g, flx_val spec, flx_val results[2], const flx_welch_peaks_attrs
                                       *attrs)
{
    return flx_welch_peaks_with(g, spec, results, attrs);
}
#endif

typedef struct flx_reduce_window_attrs {
    uint32_t struct_size; /* sizeof(flx_reduce_window_attrs) */
    flx_ints window; /* must be given */
    flx_combine combine; /* must be given; of: add max min mul */
    flx_ints strides; /* all 1 */
    flx_ints base_dilation; /* all 1 */
    flx_ints window_dilation; /* all 1 */
    flx_ints pad_low; /* all 0 */
    flx_ints pad_high; /* all 0 */
} flx_reduce_window_attrs;
#define FLX_REDUCE_WINDOW_ATTRS {sizeof(flx_reduce_window_attrs), {NULL, 0}, {NULL, NULL}, {NULL, 0}, {NULL, 0}, \
    {NULL, 0}, {NULL, 0}, {NULL, 0}}

/** x1, ..., init1, ...: combine folded over each window, from init, in row-major order; padding is init */
static inline uint32_t flx_reduce_window_with(flx_graph *g, const flx_val *operands, size_t num_operands, flx_val
                                              *results, size_t capacity, const flx_reduce_window_attrs *attrs)
{
    flx_attr flx_a[7];
    size_t flx_n = 0;
    FLX_CHECK_SIZE_(flx_reduce_window_attrs);
    if (FLX_HAS_(flx_reduce_window_attrs, window) && FLX_LISTED_(attrs->window))
        flx_a[flx_n++] = flx_attr_ints("window", attrs->window);
    if (FLX_HAS_(flx_reduce_window_attrs, combine) && (attrs->combine.word || attrs->combine.graph))
        flx_a[flx_n++] = flx_attr_combine("combine", attrs->combine);
    if (FLX_HAS_(flx_reduce_window_attrs, strides) && FLX_LISTED_(attrs->strides))
        flx_a[flx_n++] = flx_attr_ints("strides", attrs->strides);
    if (FLX_HAS_(flx_reduce_window_attrs, base_dilation) && FLX_LISTED_(attrs->base_dilation))
        flx_a[flx_n++] = flx_attr_ints("base_dilation", attrs->base_dilation);
    if (FLX_HAS_(flx_reduce_window_attrs, window_dilation) && FLX_LISTED_(attrs->window_dilation))
        flx_a[flx_n++] = flx_attr_ints("window_dilation", attrs->window_dilation);
    if (FLX_HAS_(flx_reduce_window_attrs, pad_low) && FLX_LISTED_(attrs->pad_low))
        flx_a[flx_n++] = flx_attr_ints("pad_low", attrs->pad_low);
    if (FLX_HAS_(flx_reduce_window_attrs, pad_high) && FLX_LISTED_(attrs->pad_high))
        flx_a[flx_n++] = flx_attr_ints("pad_high", attrs->pad_high);
    return flx_op(g, "reduce_window", operands, num_operands, flx_n ? flx_a : NULL, flx_n, results, capacity);
}

#ifndef __cplusplus
#define flx_reduce_window(...) FLX_REDUCE_WINDOW_(__VA_ARGS__, .struct_size = sizeof(flx_reduce_window_attrs))
#define FLX_REDUCE_WINDOW_(g_, operands_, num_operands_, results_, capacity_, ...) FLX_BUILT_(uint32_t, \
    flx_reduce_window_with((g_), (operands_), (num_operands_), (results_), (capacity_), \
    &(flx_reduce_window_attrs){.struct_size = 0, __VA_ARGS__}))
#else
static inline uint32_t flx_reduce_window(flx_graph *g, const flx_val *operands, size_t num_operands, flx_val *results,
                                         size_t capacity, const flx_reduce_window_attrs *attrs)
{
    return flx_reduce_window_with(g, operands, num_operands, results, capacity, attrs);
}
#endif

typedef struct flx_select_and_scatter_attrs {
    uint32_t struct_size; /* sizeof(flx_select_and_scatter_attrs) */
    flx_ints window; /* must be given */
    flx_combine select; /* ge; of: ge le gt lt */
    flx_combine combine; /* add; of: add max min mul */
    flx_ints strides; /* all 1 */
    flx_ints pad_low; /* all 0 */
    flx_ints pad_high; /* all 0 */
} flx_select_and_scatter_attrs;
#define FLX_SELECT_AND_SCATTER_ATTRS {sizeof(flx_select_and_scatter_attrs), {NULL, 0}, {NULL, NULL}, {NULL, NULL}, \
    {NULL, 0}, {NULL, 0}, {NULL, 0}}

/** each window of x keeps the position that select prefers; source is combined into a tensor of init at those positions
    */
static inline flx_val flx_select_and_scatter_with(flx_graph *g, flx_val x, flx_val source, flx_val init, const
                                                  flx_select_and_scatter_attrs *attrs)
{
    flx_attr flx_a[6];
    size_t flx_n = 0;
    flx_val flx_x[3];
    flx_x[0] = x;
    flx_x[1] = source;
    flx_x[2] = init;
    FLX_CHECK_SIZE_(flx_select_and_scatter_attrs);
    if (FLX_HAS_(flx_select_and_scatter_attrs, window) && FLX_LISTED_(attrs->window))
        flx_a[flx_n++] = flx_attr_ints("window", attrs->window);
    if (FLX_HAS_(flx_select_and_scatter_attrs, select) && (attrs->select.word || attrs->select.graph))
        flx_a[flx_n++] = flx_attr_combine("select", attrs->select);
    if (FLX_HAS_(flx_select_and_scatter_attrs, combine) && (attrs->combine.word || attrs->combine.graph))
        flx_a[flx_n++] = flx_attr_combine("combine", attrs->combine);
    if (FLX_HAS_(flx_select_and_scatter_attrs, strides) && FLX_LISTED_(attrs->strides))
        flx_a[flx_n++] = flx_attr_ints("strides", attrs->strides);
    if (FLX_HAS_(flx_select_and_scatter_attrs, pad_low) && FLX_LISTED_(attrs->pad_low))
        flx_a[flx_n++] = flx_attr_ints("pad_low", attrs->pad_low);
    if (FLX_HAS_(flx_select_and_scatter_attrs, pad_high) && FLX_LISTED_(attrs->pad_high))
        flx_a[flx_n++] = flx_attr_ints("pad_high", attrs->pad_high);
    return flx_op1(g, "select_and_scatter", flx_x, 3, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_select_and_scatter(...) FLX_SELECT_AND_SCATTER_(__VA_ARGS__, .struct_size = \
    sizeof(flx_select_and_scatter_attrs))
#define FLX_SELECT_AND_SCATTER_(g_, x_, source_, init_, ...) FLX_BUILT_(flx_val, flx_select_and_scatter_with((g_), \
    (x_), (source_), (init_), &(flx_select_and_scatter_attrs){.struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_select_and_scatter(flx_graph *g, flx_val x, flx_val source, flx_val init, const
                                             flx_select_and_scatter_attrs *attrs)
{
    return flx_select_and_scatter_with(g, x, source, init, attrs);
}
#endif


/* ---- nn ---- */

typedef struct flx_attention_attrs {
    uint32_t struct_size; /* sizeof(flx_attention_attrs) */
    const char *layout; /* must be given; of: bhsd bshd bsd */
    int64_t num_heads; /* from q */
    int64_t head_dim; /* from q */
    int64_t num_kv_heads; /* num_heads */
    const char *mask_kind; /* none; of: none causal sliding_window custom bias */
    int64_t window; /* none */
    double score_scale; /* 1/√head_dim */
    double softcap; /* none */
} flx_attention_attrs;
#define FLX_ATTENTION_ATTRS {sizeof(flx_attention_attrs), NULL, FLX_DEFAULT, FLX_DEFAULT, FLX_DEFAULT, NULL, \
    FLX_DEFAULT, NAN, NAN}

/** softmax over the allowed keys of softcap*tanh(score_scale*q k^T / softcap) + bias, times v; 0 for a query without an
    allowed key. mask_kind=custom allows keys where mask >= 0.5, bias adds the mask */
static inline flx_val flx_attention_with(flx_graph *g, flx_val q, flx_val k, flx_val v, flx_val mask, const
                                         flx_attention_attrs *attrs)
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
    FLX_CHECK_SIZE_(flx_attention_attrs);
    if (FLX_HAS_(flx_attention_attrs, layout) && attrs->layout)
        flx_a[flx_n++] = flx_attr_word("layout", attrs->layout);
    if (FLX_HAS_NUMBER_(flx_attention_attrs, num_heads) && attrs->num_heads != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("num_heads", attrs->num_heads);
    if (FLX_HAS_NUMBER_(flx_attention_attrs, head_dim) && attrs->head_dim != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("head_dim", attrs->head_dim);
    if (FLX_HAS_NUMBER_(flx_attention_attrs, num_kv_heads) && attrs->num_kv_heads != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("num_kv_heads", attrs->num_kv_heads);
    if (FLX_HAS_(flx_attention_attrs, mask_kind) && attrs->mask_kind)
        flx_a[flx_n++] = flx_attr_word("mask_kind", attrs->mask_kind);
    if (FLX_HAS_NUMBER_(flx_attention_attrs, window) && attrs->window != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("window", attrs->window);
    if (FLX_HAS_NUMBER_(flx_attention_attrs, score_scale) && attrs->score_scale == attrs->score_scale)
        flx_a[flx_n++] = flx_attr_real("score_scale", attrs->score_scale);
    if (FLX_HAS_NUMBER_(flx_attention_attrs, softcap) && attrs->softcap == attrs->softcap)
        flx_a[flx_n++] = flx_attr_real("softcap", attrs->softcap);
    return flx_op1(g, "attention", flx_x, num_operands, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_attention(...) FLX_ATTENTION_(__VA_ARGS__, .struct_size = sizeof(flx_attention_attrs))
#define FLX_ATTENTION_(g_, q_, k_, v_, mask_, ...) FLX_BUILT_(flx_val, flx_attention_with((g_), (q_), (k_), (v_), \
    (mask_), &(flx_attention_attrs){.num_heads = FLX_DEFAULT, .head_dim = FLX_DEFAULT, .num_kv_heads = FLX_DEFAULT, \
    .window = FLX_DEFAULT, .score_scale = NAN, .softcap = NAN, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_attention(flx_graph *g, flx_val q, flx_val k, flx_val v, flx_val mask, const
                                    flx_attention_attrs *attrs)
{
    return flx_attention_with(g, q, k, v, mask, attrs);
}
#endif

typedef struct flx_attention_backward_attrs {
    uint32_t struct_size; /* sizeof(flx_attention_backward_attrs) */
    const char *wrt; /* must be given; of: query key value bias */
    const char *layout; /* must be given; of: bhsd bshd bsd */
    int64_t num_heads; /* from q */
    int64_t head_dim; /* from q */
    int64_t num_kv_heads; /* num_heads */
    const char *mask_kind; /* none; of: none causal sliding_window custom bias */
    int64_t window; /* none */
    double score_scale; /* 1/√head_dim */
    double softcap; /* none */
} flx_attention_backward_attrs;
#define FLX_ATTENTION_BACKWARD_ATTRS {sizeof(flx_attention_backward_attrs), NULL, NULL, FLX_DEFAULT, FLX_DEFAULT, \
    FLX_DEFAULT, NULL, FLX_DEFAULT, NAN, NAN}

/** the cotangent of one operand of attention, from the result's cotangent dy */
static inline flx_val flx_attention_backward_with(flx_graph *g, flx_val q, flx_val k, flx_val v, flx_val dy, flx_val
                                                  mask, const flx_attention_backward_attrs *attrs)
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
    FLX_CHECK_SIZE_(flx_attention_backward_attrs);
    if (FLX_HAS_(flx_attention_backward_attrs, wrt) && attrs->wrt)
        flx_a[flx_n++] = flx_attr_word("wrt", attrs->wrt);
    if (FLX_HAS_(flx_attention_backward_attrs, layout) && attrs->layout)
        flx_a[flx_n++] = flx_attr_word("layout", attrs->layout);
    if (FLX_HAS_NUMBER_(flx_attention_backward_attrs, num_heads) && attrs->num_heads != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("num_heads", attrs->num_heads);
    if (FLX_HAS_NUMBER_(flx_attention_backward_attrs, head_dim) && attrs->head_dim != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("head_dim", attrs->head_dim);
    if (FLX_HAS_NUMBER_(flx_attention_backward_attrs, num_kv_heads) && attrs->num_kv_heads != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("num_kv_heads", attrs->num_kv_heads);
    if (FLX_HAS_(flx_attention_backward_attrs, mask_kind) && attrs->mask_kind)
        flx_a[flx_n++] = flx_attr_word("mask_kind", attrs->mask_kind);
    if (FLX_HAS_NUMBER_(flx_attention_backward_attrs, window) && attrs->window != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("window", attrs->window);
    if (FLX_HAS_NUMBER_(flx_attention_backward_attrs, score_scale) && attrs->score_scale == attrs->score_scale)
        flx_a[flx_n++] = flx_attr_real("score_scale", attrs->score_scale);
    if (FLX_HAS_NUMBER_(flx_attention_backward_attrs, softcap) && attrs->softcap == attrs->softcap)
        flx_a[flx_n++] = flx_attr_real("softcap", attrs->softcap);
    return flx_op1(g, "attention_backward", flx_x, num_operands, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_attention_backward(...) FLX_ATTENTION_BACKWARD_(__VA_ARGS__, .struct_size = \
    sizeof(flx_attention_backward_attrs))
#define FLX_ATTENTION_BACKWARD_(g_, q_, k_, v_, dy_, mask_, ...) FLX_BUILT_(flx_val, flx_attention_backward_with((g_), \
    (q_), (k_), (v_), (dy_), (mask_), &(flx_attention_backward_attrs){.num_heads = FLX_DEFAULT, .head_dim = \
    FLX_DEFAULT, .num_kv_heads = FLX_DEFAULT, .window = FLX_DEFAULT, .score_scale = NAN, .softcap = NAN, .struct_size \
    = 0, __VA_ARGS__}))
#else
static inline flx_val flx_attention_backward(flx_graph *g, flx_val q, flx_val k, flx_val v, flx_val dy, flx_val mask,
                                             const flx_attention_backward_attrs *attrs)
{
    return flx_attention_backward_with(g, q, k, v, dy, mask, attrs);
}
#endif

typedef struct flx_attention_backward_all_attrs {
    uint32_t struct_size; /* sizeof(flx_attention_backward_all_attrs) */
    const char *layout; /* must be given; of: bhsd bshd bsd */
    int64_t num_heads; /* from q */
    int64_t head_dim; /* from q */
    int64_t num_kv_heads; /* num_heads */
    const char *mask_kind; /* none; of: none causal sliding_window custom bias */
    int64_t window; /* none */
    double score_scale; /* 1/√head_dim */
    double softcap; /* none */
} flx_attention_backward_all_attrs;
#define FLX_ATTENTION_BACKWARD_ALL_ATTRS {sizeof(flx_attention_backward_all_attrs), NULL, FLX_DEFAULT, FLX_DEFAULT, \
    FLX_DEFAULT, NULL, FLX_DEFAULT, NAN, NAN}

/** the cotangents of q, k and v of attention without a mask operand, from the result's cotangent dy */
static inline uint32_t flx_attention_backward_all_with(flx_graph *g, flx_val q, flx_val k, flx_val v, flx_val dy,
                                                       flx_val results[3], const flx_attention_backward_all_attrs
                                                       *attrs)
{
    flx_attr flx_a[8];
    size_t flx_n = 0;
    flx_val flx_x[4];
    flx_x[0] = q;
    flx_x[1] = k;
    flx_x[2] = v;
    flx_x[3] = dy;
    FLX_CHECK_SIZE_(flx_attention_backward_all_attrs);
    if (FLX_HAS_(flx_attention_backward_all_attrs, layout) && attrs->layout)
        flx_a[flx_n++] = flx_attr_word("layout", attrs->layout);
    if (FLX_HAS_NUMBER_(flx_attention_backward_all_attrs, num_heads) && attrs->num_heads != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("num_heads", attrs->num_heads);
    if (FLX_HAS_NUMBER_(flx_attention_backward_all_attrs, head_dim) && attrs->head_dim != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("head_dim", attrs->head_dim);
    if (FLX_HAS_NUMBER_(flx_attention_backward_all_attrs, num_kv_heads) && attrs->num_kv_heads != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("num_kv_heads", attrs->num_kv_heads);
    if (FLX_HAS_(flx_attention_backward_all_attrs, mask_kind) && attrs->mask_kind)
        flx_a[flx_n++] = flx_attr_word("mask_kind", attrs->mask_kind);
    if (FLX_HAS_NUMBER_(flx_attention_backward_all_attrs, window) && attrs->window != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("window", attrs->window);
    if (FLX_HAS_NUMBER_(flx_attention_backward_all_attrs, score_scale) && attrs->score_scale == attrs->score_scale)
        flx_a[flx_n++] = flx_attr_real("score_scale", attrs->score_scale);
    if (FLX_HAS_NUMBER_(flx_attention_backward_all_attrs, softcap) && attrs->softcap == attrs->softcap)
        flx_a[flx_n++] = flx_attr_real("softcap", attrs->softcap);
    return flx_op(g, "attention_backward_all", flx_x, 4, flx_n ? flx_a : NULL, flx_n, results, 3);
}

#ifndef __cplusplus
#define flx_attention_backward_all(...) FLX_ATTENTION_BACKWARD_ALL_(__VA_ARGS__, .struct_size = \
    sizeof(flx_attention_backward_all_attrs))
#define FLX_ATTENTION_BACKWARD_ALL_(g_, q_, k_, v_, dy_, results_, ...) FLX_BUILT_(uint32_t, \
    flx_attention_backward_all_with((g_), (q_), (k_), (v_), (dy_), (results_), \
    &(flx_attention_backward_all_attrs){.num_heads = FLX_DEFAULT, .head_dim = FLX_DEFAULT, .num_kv_heads = \
    FLX_DEFAULT, .window = FLX_DEFAULT, .score_scale = NAN, .softcap = NAN, .struct_size = 0, __VA_ARGS__}))
#else
static inline uint32_t flx_attention_backward_all(flx_graph *g, flx_val q, flx_val k, flx_val v, flx_val dy, flx_val
                                                  results[3], const flx_attention_backward_all_attrs *attrs)
{
    return flx_attention_backward_all_with(g, q, k, v, dy, results, attrs);
}
#endif

typedef struct flx_axial_rope2d_attrs {
    uint32_t struct_size; /* sizeof(flx_axial_rope2d_attrs) */
    int64_t end_x; /* must be given */
    int64_t end_y; /* must be given */
    int64_t num_heads; /* must be given */
    double theta; /* 10000 */
    int64_t repeat_factor; /* 1 */
    const char *repeat_mode; /* tile; of: tile interleave */
} flx_axial_rope2d_attrs;
#define FLX_AXIAL_ROPE2D_ATTRS {sizeof(flx_axial_rope2d_attrs), FLX_DEFAULT, FLX_DEFAULT, FLX_DEFAULT, NAN, \
    FLX_DEFAULT, NULL}

/** neighbours in each head of [N, S, H*D] rotated by px*f in its first half and by py*f in its second; (px, py) is the
    token's grid position, f = theta^(-4c/D) for pair c */
static inline flx_val flx_axial_rope2d_with(flx_graph *g, flx_val x, const flx_axial_rope2d_attrs *attrs)
{
    flx_attr flx_a[6];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_axial_rope2d_attrs);
    if (FLX_HAS_NUMBER_(flx_axial_rope2d_attrs, end_x) && attrs->end_x != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("end_x", attrs->end_x);
    if (FLX_HAS_NUMBER_(flx_axial_rope2d_attrs, end_y) && attrs->end_y != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("end_y", attrs->end_y);
    if (FLX_HAS_NUMBER_(flx_axial_rope2d_attrs, num_heads) && attrs->num_heads != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("num_heads", attrs->num_heads);
    if (FLX_HAS_NUMBER_(flx_axial_rope2d_attrs, theta) && attrs->theta == attrs->theta)
        flx_a[flx_n++] = flx_attr_real("theta", attrs->theta);
    if (FLX_HAS_NUMBER_(flx_axial_rope2d_attrs, repeat_factor) && attrs->repeat_factor != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("repeat_factor", attrs->repeat_factor);
    if (FLX_HAS_(flx_axial_rope2d_attrs, repeat_mode) && attrs->repeat_mode)
        flx_a[flx_n++] = flx_attr_word("repeat_mode", attrs->repeat_mode);
    return flx_op1(g, "axial_rope2d", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_axial_rope2d(...) FLX_AXIAL_ROPE2D_(__VA_ARGS__, .struct_size = sizeof(flx_axial_rope2d_attrs))
#define FLX_AXIAL_ROPE2D_(g_, x_, ...) FLX_BUILT_(flx_val, flx_axial_rope2d_with((g_), (x_), \
    &(flx_axial_rope2d_attrs){.end_x = FLX_DEFAULT, .end_y = FLX_DEFAULT, .num_heads = FLX_DEFAULT, .theta = NAN, \
    .repeat_factor = FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_axial_rope2d(flx_graph *g, flx_val x, const flx_axial_rope2d_attrs *attrs)
{
    return flx_axial_rope2d_with(g, x, attrs);
}
#endif

typedef struct flx_softmax_cross_entropy_with_logits_attrs {
    uint32_t struct_size; /* sizeof(flx_softmax_cross_entropy_with_logits_attrs) */
    const char *oob; /* error; of: error zero clamp */
} flx_softmax_cross_entropy_with_logits_attrs;
#define FLX_SOFTMAX_CROSS_ENTROPY_WITH_LOGITS_ATTRS {sizeof(flx_softmax_cross_entropy_with_logits_attrs), NULL}

/** logsumexp(logits[n]) - logits[n, labels[n]] for logits [N, C]; oob=zero gives 0 for labels out of range */
static inline flx_val flx_softmax_cross_entropy_with_logits_with(flx_graph *g, flx_val logits, flx_val labels, const
                                                                 flx_softmax_cross_entropy_with_logits_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = logits;
    flx_x[1] = labels;
    FLX_CHECK_SIZE_(flx_softmax_cross_entropy_with_logits_attrs);
    if (FLX_HAS_(flx_softmax_cross_entropy_with_logits_attrs, oob) && attrs->oob)
        flx_a[flx_n++] = flx_attr_word("oob", attrs->oob);
    return flx_op1(g, "softmax_cross_entropy_with_logits", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_softmax_cross_entropy_with_logits(...) FLX_SOFTMAX_CROSS_ENTROPY_WITH_LOGITS_(__VA_ARGS__, .struct_size = \
    sizeof(flx_softmax_cross_entropy_with_logits_attrs))
#define FLX_SOFTMAX_CROSS_ENTROPY_WITH_LOGITS_(g_, logits_, labels_, ...) FLX_BUILT_(flx_val, \
    flx_softmax_cross_entropy_with_logits_with((g_), (logits_), (labels_), \
    &(flx_softmax_cross_entropy_with_logits_attrs){.struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_softmax_cross_entropy_with_logits(flx_graph *g, flx_val logits, flx_val labels, const
                                                            flx_softmax_cross_entropy_with_logits_attrs *attrs = NULL)
{
    return flx_softmax_cross_entropy_with_logits_with(g, logits, labels, attrs);
}
#endif

typedef struct flx_softmax_cross_entropy_backward_attrs {
    uint32_t struct_size; /* sizeof(flx_softmax_cross_entropy_backward_attrs) */
    const char *oob; /* error; of: error zero clamp */
} flx_softmax_cross_entropy_backward_attrs;
#define FLX_SOFTMAX_CROSS_ENTROPY_BACKWARD_ATTRS {sizeof(flx_softmax_cross_entropy_backward_attrs), NULL}

/** the cotangent of the logits, (softmax(logits) - onehot) dl */
static inline flx_val flx_softmax_cross_entropy_backward_with(flx_graph *g, flx_val logits, flx_val labels, flx_val dl,
                                                              const flx_softmax_cross_entropy_backward_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[3];
    flx_x[0] = logits;
    flx_x[1] = labels;
    flx_x[2] = dl;
    FLX_CHECK_SIZE_(flx_softmax_cross_entropy_backward_attrs);
    if (FLX_HAS_(flx_softmax_cross_entropy_backward_attrs, oob) && attrs->oob)
        flx_a[flx_n++] = flx_attr_word("oob", attrs->oob);
    return flx_op1(g, "softmax_cross_entropy_backward", flx_x, 3, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_softmax_cross_entropy_backward(...) FLX_SOFTMAX_CROSS_ENTROPY_BACKWARD_(__VA_ARGS__, .struct_size = \
    sizeof(flx_softmax_cross_entropy_backward_attrs))
#define FLX_SOFTMAX_CROSS_ENTROPY_BACKWARD_(g_, logits_, labels_, dl_, ...) FLX_BUILT_(flx_val, \
    flx_softmax_cross_entropy_backward_with((g_), (logits_), (labels_), (dl_), \
    &(flx_softmax_cross_entropy_backward_attrs){.struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_softmax_cross_entropy_backward(flx_graph *g, flx_val logits, flx_val labels, flx_val dl, const
                                                         flx_softmax_cross_entropy_backward_attrs *attrs = NULL)
{
    return flx_softmax_cross_entropy_backward_with(g, logits, labels, dl, attrs);
}
#endif

typedef struct flx_layer_norm_attrs {
    uint32_t struct_size; /* sizeof(flx_layer_norm_attrs) */
    int64_t axis; /* -1 */
    double eps; /* 1e-05 */
} flx_layer_norm_attrs;
#define FLX_LAYER_NORM_ATTRS {sizeof(flx_layer_norm_attrs), FLX_DEFAULT, NAN}

/** gamma (x - mean) / sqrt(variance + eps) + beta, with mean and variance of x along axis */
static inline flx_val flx_layer_norm_with(flx_graph *g, flx_val x, flx_val gamma, flx_val beta, const
                                          flx_layer_norm_attrs *attrs)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[3];
    flx_x[0] = x;
    flx_x[1] = gamma;
    flx_x[2] = beta;
    FLX_CHECK_SIZE_(flx_layer_norm_attrs);
    if (FLX_HAS_NUMBER_(flx_layer_norm_attrs, axis) && attrs->axis != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("axis", attrs->axis);
    if (FLX_HAS_NUMBER_(flx_layer_norm_attrs, eps) && attrs->eps == attrs->eps)
        flx_a[flx_n++] = flx_attr_real("eps", attrs->eps);
    return flx_op1(g, "layer_norm", flx_x, 3, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_layer_norm(...) FLX_LAYER_NORM_(__VA_ARGS__, .struct_size = sizeof(flx_layer_norm_attrs))
#define FLX_LAYER_NORM_(g_, x_, gamma_, beta_, ...) FLX_BUILT_(flx_val, flx_layer_norm_with((g_), (x_), (gamma_), \
    (beta_), &(flx_layer_norm_attrs){.axis = FLX_DEFAULT, .eps = NAN, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_layer_norm(flx_graph *g, flx_val x, flx_val gamma, flx_val beta, const flx_layer_norm_attrs
                                     *attrs = NULL)
{
    return flx_layer_norm_with(g, x, gamma, beta, attrs);
}
#endif

typedef struct flx_rms_norm_attrs {
    uint32_t struct_size; /* sizeof(flx_rms_norm_attrs) */
    int64_t axis; /* -1 */
    double eps; /* 1e-05 */
} flx_rms_norm_attrs;
#define FLX_RMS_NORM_ATTRS {sizeof(flx_rms_norm_attrs), FLX_DEFAULT, NAN}

/** gamma x / sqrt(mean of x^2 along axis + eps) + beta */
static inline flx_val flx_rms_norm_with(flx_graph *g, flx_val x, flx_val gamma, flx_val beta, const flx_rms_norm_attrs
                                        *attrs)
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
    FLX_CHECK_SIZE_(flx_rms_norm_attrs);
    if (FLX_HAS_NUMBER_(flx_rms_norm_attrs, axis) && attrs->axis != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("axis", attrs->axis);
    if (FLX_HAS_NUMBER_(flx_rms_norm_attrs, eps) && attrs->eps == attrs->eps)
        flx_a[flx_n++] = flx_attr_real("eps", attrs->eps);
    return flx_op1(g, "rms_norm", flx_x, num_operands, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_rms_norm(...) FLX_RMS_NORM_(__VA_ARGS__, .struct_size = sizeof(flx_rms_norm_attrs))
#define FLX_RMS_NORM_(g_, x_, gamma_, beta_, ...) FLX_BUILT_(flx_val, flx_rms_norm_with((g_), (x_), (gamma_), (beta_), \
    &(flx_rms_norm_attrs){.axis = FLX_DEFAULT, .eps = NAN, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_rms_norm(flx_graph *g, flx_val x, flx_val gamma, flx_val beta, const flx_rms_norm_attrs *attrs
                                   = NULL)
{
    return flx_rms_norm_with(g, x, gamma, beta, attrs);
}
#endif

typedef struct flx_group_norm_attrs {
    uint32_t struct_size; /* sizeof(flx_group_norm_attrs) */
    int64_t num_groups; /* must be given */
    double eps; /* 1e-05 */
} flx_group_norm_attrs;
#define FLX_GROUP_NORM_ATTRS {sizeof(flx_group_norm_attrs), FLX_DEFAULT, NAN}

/** layer_norm of x [N, C, ...] over each of num_groups runs of channels with all positions; gamma and beta per channel
    */
static inline flx_val flx_group_norm_with(flx_graph *g, flx_val x, flx_val gamma, flx_val beta, const
                                          flx_group_norm_attrs *attrs)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[3];
    flx_x[0] = x;
    flx_x[1] = gamma;
    flx_x[2] = beta;
    FLX_CHECK_SIZE_(flx_group_norm_attrs);
    if (FLX_HAS_NUMBER_(flx_group_norm_attrs, num_groups) && attrs->num_groups != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("num_groups", attrs->num_groups);
    if (FLX_HAS_NUMBER_(flx_group_norm_attrs, eps) && attrs->eps == attrs->eps)
        flx_a[flx_n++] = flx_attr_real("eps", attrs->eps);
    return flx_op1(g, "group_norm", flx_x, 3, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_group_norm(...) FLX_GROUP_NORM_(__VA_ARGS__, .struct_size = sizeof(flx_group_norm_attrs))
#define FLX_GROUP_NORM_(g_, x_, gamma_, beta_, ...) FLX_BUILT_(flx_val, flx_group_norm_with((g_), (x_), (gamma_), \
    (beta_), &(flx_group_norm_attrs){.num_groups = FLX_DEFAULT, .eps = NAN, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_group_norm(flx_graph *g, flx_val x, flx_val gamma, flx_val beta, const flx_group_norm_attrs
                                     *attrs)
{
    return flx_group_norm_with(g, x, gamma, beta, attrs);
}
#endif

typedef struct flx_layer_norm2d_attrs {
    uint32_t struct_size; /* sizeof(flx_layer_norm2d_attrs) */
    double eps; /* 1e-05 */
} flx_layer_norm2d_attrs;
#define FLX_LAYER_NORM2D_ATTRS {sizeof(flx_layer_norm2d_attrs), NAN}

/** layer_norm of x [N, C, ...] along the channels, at each position */
static inline flx_val flx_layer_norm2d_with(flx_graph *g, flx_val x, flx_val gamma, flx_val beta, const
                                            flx_layer_norm2d_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[3];
    flx_x[0] = x;
    flx_x[1] = gamma;
    flx_x[2] = beta;
    FLX_CHECK_SIZE_(flx_layer_norm2d_attrs);
    if (FLX_HAS_NUMBER_(flx_layer_norm2d_attrs, eps) && attrs->eps == attrs->eps)
        flx_a[flx_n++] = flx_attr_real("eps", attrs->eps);
    return flx_op1(g, "layer_norm2d", flx_x, 3, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_layer_norm2d(...) FLX_LAYER_NORM2D_(__VA_ARGS__, .struct_size = sizeof(flx_layer_norm2d_attrs))
#define FLX_LAYER_NORM2D_(g_, x_, gamma_, beta_, ...) FLX_BUILT_(flx_val, flx_layer_norm2d_with((g_), (x_), (gamma_), \
    (beta_), &(flx_layer_norm2d_attrs){.eps = NAN, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_layer_norm2d(flx_graph *g, flx_val x, flx_val gamma, flx_val beta, const
                                       flx_layer_norm2d_attrs *attrs = NULL)
{
    return flx_layer_norm2d_with(g, x, gamma, beta, attrs);
}
#endif

typedef struct flx_batch_norm_inference_attrs {
    uint32_t struct_size; /* sizeof(flx_batch_norm_inference_attrs) */
    double eps; /* 1e-05 */
} flx_batch_norm_inference_attrs;
#define FLX_BATCH_NORM_INFERENCE_ATTRS {sizeof(flx_batch_norm_inference_attrs), NAN}

/** gamma (x - mean) / sqrt(var + eps) + beta for x [N, C, ...], all four per channel */
static inline flx_val flx_batch_norm_inference_with(flx_graph *g, flx_val x, flx_val gamma, flx_val beta, flx_val mean,
                                                    flx_val var, const flx_batch_norm_inference_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[5];
    flx_x[0] = x;
    flx_x[1] = gamma;
    flx_x[2] = beta;
    flx_x[3] = mean;
    flx_x[4] = var;
    FLX_CHECK_SIZE_(flx_batch_norm_inference_attrs);
    if (FLX_HAS_NUMBER_(flx_batch_norm_inference_attrs, eps) && attrs->eps == attrs->eps)
        flx_a[flx_n++] = flx_attr_real("eps", attrs->eps);
    return flx_op1(g, "batch_norm_inference", flx_x, 5, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_batch_norm_inference(...) FLX_BATCH_NORM_INFERENCE_(__VA_ARGS__, .struct_size = \
    sizeof(flx_batch_norm_inference_attrs))
#define FLX_BATCH_NORM_INFERENCE_(g_, x_, gamma_, beta_, mean_, var_, ...) FLX_BUILT_(flx_val, \
    flx_batch_norm_inference_with((g_), (x_), (gamma_), (beta_), (mean_), (var_), \
    &(flx_batch_norm_inference_attrs){.eps = NAN, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_batch_norm_inference(flx_graph *g, flx_val x, flx_val gamma, flx_val beta, flx_val mean,
                                               flx_val var, const flx_batch_norm_inference_attrs *attrs = NULL)
{
    return flx_batch_norm_inference_with(g, x, gamma, beta, mean, var, attrs);
}
#endif

typedef struct flx_batch_norm_training_attrs {
    uint32_t struct_size; /* sizeof(flx_batch_norm_training_attrs) */
    double eps; /* 1e-05 */
} flx_batch_norm_training_attrs;
#define FLX_BATCH_NORM_TRAINING_ATTRS {sizeof(flx_batch_norm_training_attrs), NAN}

/** batch_norm_inference of x [N, C, ...] with its own mean and biased variance per channel, over all axes except 1;
    both have gamma's dtype */
static inline uint32_t flx_batch_norm_training_with(flx_graph *g, flx_val x, flx_val gamma, flx_val beta, flx_val
                                                    results[3], const flx_batch_norm_training_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[3];
    flx_x[0] = x;
    flx_x[1] = gamma;
    flx_x[2] = beta;
    FLX_CHECK_SIZE_(flx_batch_norm_training_attrs);
    if (FLX_HAS_NUMBER_(flx_batch_norm_training_attrs, eps) && attrs->eps == attrs->eps)
        flx_a[flx_n++] = flx_attr_real("eps", attrs->eps);
    return flx_op(g, "batch_norm_training", flx_x, 3, flx_n ? flx_a : NULL, flx_n, results, 3);
}

#ifndef __cplusplus
#define flx_batch_norm_training(...) FLX_BATCH_NORM_TRAINING_(__VA_ARGS__, .struct_size = \
    sizeof(flx_batch_norm_training_attrs))
#define FLX_BATCH_NORM_TRAINING_(g_, x_, gamma_, beta_, results_, ...) FLX_BUILT_(uint32_t, \
    flx_batch_norm_training_with((g_), (x_), (gamma_), (beta_), (results_), &(flx_batch_norm_training_attrs){.eps = \
    NAN, .struct_size = 0, __VA_ARGS__}))
#else
static inline uint32_t flx_batch_norm_training(flx_graph *g, flx_val x, flx_val gamma, flx_val beta, flx_val results[3],
                                               const flx_batch_norm_training_attrs *attrs = NULL)
{
    return flx_batch_norm_training_with(g, x, gamma, beta, results, attrs);
}
#endif

typedef struct flx_layer_norm_backward_input_attrs {
    uint32_t struct_size; /* sizeof(flx_layer_norm_backward_input_attrs) */
    int64_t axis; /* -1 */
    double eps; /* 1e-05 */
} flx_layer_norm_backward_input_attrs;
#define FLX_LAYER_NORM_BACKWARD_INPUT_ATTRS {sizeof(flx_layer_norm_backward_input_attrs), FLX_DEFAULT, NAN}

/** the cotangent of layer_norm's x */
static inline flx_val flx_layer_norm_backward_input_with(flx_graph *g, flx_val x, flx_val gamma, flx_val dy, const
                                                         flx_layer_norm_backward_input_attrs *attrs)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[3];
    flx_x[0] = x;
    flx_x[1] = gamma;
    flx_x[2] = dy;
    FLX_CHECK_SIZE_(flx_layer_norm_backward_input_attrs);
    if (FLX_HAS_NUMBER_(flx_layer_norm_backward_input_attrs, axis) && attrs->axis != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("axis", attrs->axis);
    if (FLX_HAS_NUMBER_(flx_layer_norm_backward_input_attrs, eps) && attrs->eps == attrs->eps)
        flx_a[flx_n++] = flx_attr_real("eps", attrs->eps);
    return flx_op1(g, "layer_norm_backward_input", flx_x, 3, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_layer_norm_backward_input(...) FLX_LAYER_NORM_BACKWARD_INPUT_(__VA_ARGS__, .struct_size = \
    sizeof(flx_layer_norm_backward_input_attrs))
#define FLX_LAYER_NORM_BACKWARD_INPUT_(g_, x_, gamma_, dy_, ...) FLX_BUILT_(flx_val, \
    flx_layer_norm_backward_input_with((g_), (x_), (gamma_), (dy_), &(flx_layer_norm_backward_input_attrs){.axis = \
    FLX_DEFAULT, .eps = NAN, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_layer_norm_backward_input(flx_graph *g, flx_val x, flx_val gamma, flx_val dy, const
                                                    flx_layer_norm_backward_input_attrs *attrs = NULL)
{
    return flx_layer_norm_backward_input_with(g, x, gamma, dy, attrs);
}
#endif

typedef struct flx_layer_norm_backward_gamma_attrs {
    uint32_t struct_size; /* sizeof(flx_layer_norm_backward_gamma_attrs) */
    int64_t axis; /* -1 */
    double eps; /* 1e-05 */
} flx_layer_norm_backward_gamma_attrs;
#define FLX_LAYER_NORM_BACKWARD_GAMMA_ATTRS {sizeof(flx_layer_norm_backward_gamma_attrs), FLX_DEFAULT, NAN}

/** the cotangent of layer_norm's gamma, in x's dtype */
static inline flx_val flx_layer_norm_backward_gamma_with(flx_graph *g, flx_val x, flx_val dy, const
                                                         flx_layer_norm_backward_gamma_attrs *attrs)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = x;
    flx_x[1] = dy;
    FLX_CHECK_SIZE_(flx_layer_norm_backward_gamma_attrs);
    if (FLX_HAS_NUMBER_(flx_layer_norm_backward_gamma_attrs, axis) && attrs->axis != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("axis", attrs->axis);
    if (FLX_HAS_NUMBER_(flx_layer_norm_backward_gamma_attrs, eps) && attrs->eps == attrs->eps)
        flx_a[flx_n++] = flx_attr_real("eps", attrs->eps);
    return flx_op1(g, "layer_norm_backward_gamma", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_layer_norm_backward_gamma(...) FLX_LAYER_NORM_BACKWARD_GAMMA_(__VA_ARGS__, .struct_size = \
    sizeof(flx_layer_norm_backward_gamma_attrs))
#define FLX_LAYER_NORM_BACKWARD_GAMMA_(g_, x_, dy_, ...) FLX_BUILT_(flx_val, flx_layer_norm_backward_gamma_with((g_), \
    (x_), (dy_), &(flx_layer_norm_backward_gamma_attrs){.axis = FLX_DEFAULT, .eps = NAN, .struct_size = 0, \
    __VA_ARGS__}))
#else
static inline flx_val flx_layer_norm_backward_gamma(flx_graph *g, flx_val x, flx_val dy, const
                                                    flx_layer_norm_backward_gamma_attrs *attrs = NULL)
{
    return flx_layer_norm_backward_gamma_with(g, x, dy, attrs);
}
#endif

typedef struct flx_rms_norm_backward_input_attrs {
    uint32_t struct_size; /* sizeof(flx_rms_norm_backward_input_attrs) */
    int64_t axis; /* -1 */
    double eps; /* 1e-05 */
} flx_rms_norm_backward_input_attrs;
#define FLX_RMS_NORM_BACKWARD_INPUT_ATTRS {sizeof(flx_rms_norm_backward_input_attrs), FLX_DEFAULT, NAN}

/** the cotangent of rms_norm's x */
static inline flx_val flx_rms_norm_backward_input_with(flx_graph *g, flx_val x, flx_val gamma, flx_val beta, flx_val dy,
                                                       const flx_rms_norm_backward_input_attrs *attrs)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[4];
    flx_x[0] = x;
    flx_x[1] = gamma;
    flx_x[2] = beta;
    flx_x[3] = dy;
    FLX_CHECK_SIZE_(flx_rms_norm_backward_input_attrs);
    if (FLX_HAS_NUMBER_(flx_rms_norm_backward_input_attrs, axis) && attrs->axis != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("axis", attrs->axis);
    if (FLX_HAS_NUMBER_(flx_rms_norm_backward_input_attrs, eps) && attrs->eps == attrs->eps)
        flx_a[flx_n++] = flx_attr_real("eps", attrs->eps);
    return flx_op1(g, "rms_norm_backward_input", flx_x, 4, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_rms_norm_backward_input(...) FLX_RMS_NORM_BACKWARD_INPUT_(__VA_ARGS__, .struct_size = \
    sizeof(flx_rms_norm_backward_input_attrs))
#define FLX_RMS_NORM_BACKWARD_INPUT_(g_, x_, gamma_, beta_, dy_, ...) FLX_BUILT_(flx_val, \
    flx_rms_norm_backward_input_with((g_), (x_), (gamma_), (beta_), (dy_), &(flx_rms_norm_backward_input_attrs){.axis \
    = FLX_DEFAULT, .eps = NAN, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_rms_norm_backward_input(flx_graph *g, flx_val x, flx_val gamma, flx_val beta, flx_val dy,
                                                  const flx_rms_norm_backward_input_attrs *attrs = NULL)
{
    return flx_rms_norm_backward_input_with(g, x, gamma, beta, dy, attrs);
}
#endif

typedef struct flx_rms_norm_backward_gamma_attrs {
    uint32_t struct_size; /* sizeof(flx_rms_norm_backward_gamma_attrs) */
    int64_t axis; /* -1 */
    double eps; /* 1e-05 */
} flx_rms_norm_backward_gamma_attrs;
#define FLX_RMS_NORM_BACKWARD_GAMMA_ATTRS {sizeof(flx_rms_norm_backward_gamma_attrs), FLX_DEFAULT, NAN}

/** the cotangent of rms_norm's gamma, in its dtype */
static inline flx_val flx_rms_norm_backward_gamma_with(flx_graph *g, flx_val x, flx_val gamma, flx_val beta, flx_val dy,
                                                       const flx_rms_norm_backward_gamma_attrs *attrs)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[4];
    flx_x[0] = x;
    flx_x[1] = gamma;
    flx_x[2] = beta;
    flx_x[3] = dy;
    FLX_CHECK_SIZE_(flx_rms_norm_backward_gamma_attrs);
    if (FLX_HAS_NUMBER_(flx_rms_norm_backward_gamma_attrs, axis) && attrs->axis != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("axis", attrs->axis);
    if (FLX_HAS_NUMBER_(flx_rms_norm_backward_gamma_attrs, eps) && attrs->eps == attrs->eps)
        flx_a[flx_n++] = flx_attr_real("eps", attrs->eps);
    return flx_op1(g, "rms_norm_backward_gamma", flx_x, 4, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_rms_norm_backward_gamma(...) FLX_RMS_NORM_BACKWARD_GAMMA_(__VA_ARGS__, .struct_size = \
    sizeof(flx_rms_norm_backward_gamma_attrs))
#define FLX_RMS_NORM_BACKWARD_GAMMA_(g_, x_, gamma_, beta_, dy_, ...) FLX_BUILT_(flx_val, \
    flx_rms_norm_backward_gamma_with((g_), (x_), (gamma_), (beta_), (dy_), &(flx_rms_norm_backward_gamma_attrs){.axis \
    = FLX_DEFAULT, .eps = NAN, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_rms_norm_backward_gamma(flx_graph *g, flx_val x, flx_val gamma, flx_val beta, flx_val dy,
                                                  const flx_rms_norm_backward_gamma_attrs *attrs = NULL)
{
    return flx_rms_norm_backward_gamma_with(g, x, gamma, beta, dy, attrs);
}
#endif

typedef struct flx_rms_norm_backward_beta_attrs {
    uint32_t struct_size; /* sizeof(flx_rms_norm_backward_beta_attrs) */
    int64_t axis; /* -1 */
    double eps; /* 1e-05 */
} flx_rms_norm_backward_beta_attrs;
#define FLX_RMS_NORM_BACKWARD_BETA_ATTRS {sizeof(flx_rms_norm_backward_beta_attrs), FLX_DEFAULT, NAN}

/** the cotangent of rms_norm's beta, in its dtype */
static inline flx_val flx_rms_norm_backward_beta_with(flx_graph *g, flx_val x, flx_val gamma, flx_val beta, flx_val dy,
                                                      const flx_rms_norm_backward_beta_attrs *attrs)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[4];
    flx_x[0] = x;
    flx_x[1] = gamma;
    flx_x[2] = beta;
    flx_x[3] = dy;
    FLX_CHECK_SIZE_(flx_rms_norm_backward_beta_attrs);
    if (FLX_HAS_NUMBER_(flx_rms_norm_backward_beta_attrs, axis) && attrs->axis != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("axis", attrs->axis);
    if (FLX_HAS_NUMBER_(flx_rms_norm_backward_beta_attrs, eps) && attrs->eps == attrs->eps)
        flx_a[flx_n++] = flx_attr_real("eps", attrs->eps);
    return flx_op1(g, "rms_norm_backward_beta", flx_x, 4, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_rms_norm_backward_beta(...) FLX_RMS_NORM_BACKWARD_BETA_(__VA_ARGS__, .struct_size = \
    sizeof(flx_rms_norm_backward_beta_attrs))
#define FLX_RMS_NORM_BACKWARD_BETA_(g_, x_, gamma_, beta_, dy_, ...) FLX_BUILT_(flx_val, \
    flx_rms_norm_backward_beta_with((g_), (x_), (gamma_), (beta_), (dy_), &(flx_rms_norm_backward_beta_attrs){.axis = \
    FLX_DEFAULT, .eps = NAN, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_rms_norm_backward_beta(flx_graph *g, flx_val x, flx_val gamma, flx_val beta, flx_val dy, const
                                                 flx_rms_norm_backward_beta_attrs *attrs = NULL)
{
    return flx_rms_norm_backward_beta_with(g, x, gamma, beta, dy, attrs);
}
#endif

typedef struct flx_group_norm_backward_input_attrs {
    uint32_t struct_size; /* sizeof(flx_group_norm_backward_input_attrs) */
    int64_t num_groups; /* must be given */
    double eps; /* 1e-05 */
} flx_group_norm_backward_input_attrs;
#define FLX_GROUP_NORM_BACKWARD_INPUT_ATTRS {sizeof(flx_group_norm_backward_input_attrs), FLX_DEFAULT, NAN}

/** the cotangent of group_norm's x */
static inline flx_val flx_group_norm_backward_input_with(flx_graph *g, flx_val x, flx_val gamma, flx_val beta, flx_val
                                                         dy, const flx_group_norm_backward_input_attrs *attrs)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[4];
    flx_x[0] = x;
    flx_x[1] = gamma;
    flx_x[2] = beta;
    flx_x[3] = dy;
    FLX_CHECK_SIZE_(flx_group_norm_backward_input_attrs);
    if (FLX_HAS_NUMBER_(flx_group_norm_backward_input_attrs, num_groups) && attrs->num_groups != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("num_groups", attrs->num_groups);
    if (FLX_HAS_NUMBER_(flx_group_norm_backward_input_attrs, eps) && attrs->eps == attrs->eps)
        flx_a[flx_n++] = flx_attr_real("eps", attrs->eps);
    return flx_op1(g, "group_norm_backward_input", flx_x, 4, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_group_norm_backward_input(...) FLX_GROUP_NORM_BACKWARD_INPUT_(__VA_ARGS__, .struct_size = \
    sizeof(flx_group_norm_backward_input_attrs))
#define FLX_GROUP_NORM_BACKWARD_INPUT_(g_, x_, gamma_, beta_, dy_, ...) FLX_BUILT_(flx_val, \
    flx_group_norm_backward_input_with((g_), (x_), (gamma_), (beta_), (dy_), \
    &(flx_group_norm_backward_input_attrs){.num_groups = FLX_DEFAULT, .eps = NAN, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_group_norm_backward_input(flx_graph *g, flx_val x, flx_val gamma, flx_val beta, flx_val dy,
                                                    const flx_group_norm_backward_input_attrs *attrs)
{
    return flx_group_norm_backward_input_with(g, x, gamma, beta, dy, attrs);
}
#endif

typedef struct flx_group_norm_backward_gamma_attrs {
    uint32_t struct_size; /* sizeof(flx_group_norm_backward_gamma_attrs) */
    int64_t num_groups; /* must be given */
    double eps; /* 1e-05 */
} flx_group_norm_backward_gamma_attrs;
#define FLX_GROUP_NORM_BACKWARD_GAMMA_ATTRS {sizeof(flx_group_norm_backward_gamma_attrs), FLX_DEFAULT, NAN}

/** the cotangent of group_norm's gamma, in x's dtype */
static inline flx_val flx_group_norm_backward_gamma_with(flx_graph *g, flx_val x, flx_val dy, const
                                                         flx_group_norm_backward_gamma_attrs *attrs)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = x;
    flx_x[1] = dy;
    FLX_CHECK_SIZE_(flx_group_norm_backward_gamma_attrs);
    if (FLX_HAS_NUMBER_(flx_group_norm_backward_gamma_attrs, num_groups) && attrs->num_groups != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("num_groups", attrs->num_groups);
    if (FLX_HAS_NUMBER_(flx_group_norm_backward_gamma_attrs, eps) && attrs->eps == attrs->eps)
        flx_a[flx_n++] = flx_attr_real("eps", attrs->eps);
    return flx_op1(g, "group_norm_backward_gamma", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_group_norm_backward_gamma(...) FLX_GROUP_NORM_BACKWARD_GAMMA_(__VA_ARGS__, .struct_size = \
    sizeof(flx_group_norm_backward_gamma_attrs))
#define FLX_GROUP_NORM_BACKWARD_GAMMA_(g_, x_, dy_, ...) FLX_BUILT_(flx_val, flx_group_norm_backward_gamma_with((g_), \
    (x_), (dy_), &(flx_group_norm_backward_gamma_attrs){.num_groups = FLX_DEFAULT, .eps = NAN, .struct_size = 0, \
    __VA_ARGS__}))
#else
static inline flx_val flx_group_norm_backward_gamma(flx_graph *g, flx_val x, flx_val dy, const
                                                    flx_group_norm_backward_gamma_attrs *attrs)
{
    return flx_group_norm_backward_gamma_with(g, x, dy, attrs);
}
#endif

typedef struct flx_group_norm_backward_beta_attrs {
    uint32_t struct_size; /* sizeof(flx_group_norm_backward_beta_attrs) */
    int64_t num_groups; /* must be given */
    double eps; /* 1e-05 */
} flx_group_norm_backward_beta_attrs;
#define FLX_GROUP_NORM_BACKWARD_BETA_ATTRS {sizeof(flx_group_norm_backward_beta_attrs), FLX_DEFAULT, NAN}

/** the cotangent of group_norm's beta, in x's dtype */
static inline flx_val flx_group_norm_backward_beta_with(flx_graph *g, flx_val x, flx_val dy, const
                                                        flx_group_norm_backward_beta_attrs *attrs)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = x;
    flx_x[1] = dy;
    FLX_CHECK_SIZE_(flx_group_norm_backward_beta_attrs);
    if (FLX_HAS_NUMBER_(flx_group_norm_backward_beta_attrs, num_groups) && attrs->num_groups != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("num_groups", attrs->num_groups);
    if (FLX_HAS_NUMBER_(flx_group_norm_backward_beta_attrs, eps) && attrs->eps == attrs->eps)
        flx_a[flx_n++] = flx_attr_real("eps", attrs->eps);
    return flx_op1(g, "group_norm_backward_beta", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_group_norm_backward_beta(...) FLX_GROUP_NORM_BACKWARD_BETA_(__VA_ARGS__, .struct_size = \
    sizeof(flx_group_norm_backward_beta_attrs))
#define FLX_GROUP_NORM_BACKWARD_BETA_(g_, x_, dy_, ...) FLX_BUILT_(flx_val, flx_group_norm_backward_beta_with((g_), \
    (x_), (dy_), &(flx_group_norm_backward_beta_attrs){.num_groups = FLX_DEFAULT, .eps = NAN, .struct_size = 0, \
    __VA_ARGS__}))
#else
static inline flx_val flx_group_norm_backward_beta(flx_graph *g, flx_val x, flx_val dy, const
                                                   flx_group_norm_backward_beta_attrs *attrs)
{
    return flx_group_norm_backward_beta_with(g, x, dy, attrs);
}
#endif

typedef struct flx_batch_norm_inference_backward_input_attrs {
    uint32_t struct_size; /* sizeof(flx_batch_norm_inference_backward_input_attrs) */
    double eps; /* 1e-05 */
} flx_batch_norm_inference_backward_input_attrs;
#define FLX_BATCH_NORM_INFERENCE_BACKWARD_INPUT_ATTRS {sizeof(flx_batch_norm_inference_backward_input_attrs), NAN}

/** the cotangent of batch_norm_inference's x */
static inline flx_val flx_batch_norm_inference_backward_input_with(flx_graph *g, flx_val x, flx_val gamma, flx_val mean,
                                                                   flx_val var, flx_val dy, const
                                                                   flx_batch_norm_inference_backward_input_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[5];
    flx_x[0] = x;
    flx_x[1] = gamma;
    flx_x[2] = mean;
    flx_x[3] = var;
    flx_x[4] = dy;
    FLX_CHECK_SIZE_(flx_batch_norm_inference_backward_input_attrs);
    if (FLX_HAS_NUMBER_(flx_batch_norm_inference_backward_input_attrs, eps) && attrs->eps == attrs->eps)
        flx_a[flx_n++] = flx_attr_real("eps", attrs->eps);
    return flx_op1(g, "batch_norm_inference_backward_input", flx_x, 5, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_batch_norm_inference_backward_input(...) FLX_BATCH_NORM_INFERENCE_BACKWARD_INPUT_(__VA_ARGS__, \
    .struct_size = sizeof(flx_batch_norm_inference_backward_input_attrs))
#define FLX_BATCH_NORM_INFERENCE_BACKWARD_INPUT_(g_, x_, gamma_, mean_, var_, dy_, ...) FLX_BUILT_(flx_val, \
    flx_batch_norm_inference_backward_input_with((g_), (x_), (gamma_), (mean_), (var_), (dy_), \
    &(flx_batch_norm_inference_backward_input_attrs){.eps = NAN, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_batch_norm_inference_backward_input(flx_graph *g, flx_val x, flx_val gamma, flx_val mean,
                                                              flx_val var, flx_val dy, const
                                                              flx_batch_norm_inference_backward_input_attrs *attrs =
                                                              NULL)
{
    return flx_batch_norm_inference_backward_input_with(g, x, gamma, mean, var, dy, attrs);
}
#endif

typedef struct flx_batch_norm_inference_backward_gamma_attrs {
    uint32_t struct_size; /* sizeof(flx_batch_norm_inference_backward_gamma_attrs) */
    double eps; /* 1e-05 */
} flx_batch_norm_inference_backward_gamma_attrs;
#define FLX_BATCH_NORM_INFERENCE_BACKWARD_GAMMA_ATTRS {sizeof(flx_batch_norm_inference_backward_gamma_attrs), NAN}

/** the cotangent of batch_norm_inference's gamma, in x's dtype */
static inline flx_val flx_batch_norm_inference_backward_gamma_with(flx_graph *g, flx_val x, flx_val mean, flx_val var,
                                                                   flx_val dy, const
                                                                   flx_batch_norm_inference_backward_gamma_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[4];
    flx_x[0] = x;
    flx_x[1] = mean;
    flx_x[2] = var;
    flx_x[3] = dy;
    FLX_CHECK_SIZE_(flx_batch_norm_inference_backward_gamma_attrs);
    if (FLX_HAS_NUMBER_(flx_batch_norm_inference_backward_gamma_attrs, eps) && attrs->eps == attrs->eps)
        flx_a[flx_n++] = flx_attr_real("eps", attrs->eps);
    return flx_op1(g, "batch_norm_inference_backward_gamma", flx_x, 4, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_batch_norm_inference_backward_gamma(...) FLX_BATCH_NORM_INFERENCE_BACKWARD_GAMMA_(__VA_ARGS__, \
    .struct_size = sizeof(flx_batch_norm_inference_backward_gamma_attrs))
#define FLX_BATCH_NORM_INFERENCE_BACKWARD_GAMMA_(g_, x_, mean_, var_, dy_, ...) FLX_BUILT_(flx_val, \
    flx_batch_norm_inference_backward_gamma_with((g_), (x_), (mean_), (var_), (dy_), \
    &(flx_batch_norm_inference_backward_gamma_attrs){.eps = NAN, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_batch_norm_inference_backward_gamma(flx_graph *g, flx_val x, flx_val mean, flx_val var,
                                                              flx_val dy, const
                                                              flx_batch_norm_inference_backward_gamma_attrs *attrs =
                                                              NULL)
{
    return flx_batch_norm_inference_backward_gamma_with(g, x, mean, var, dy, attrs);
}
#endif

typedef struct flx_batch_norm_inference_backward_beta_attrs {
    uint32_t struct_size; /* sizeof(flx_batch_norm_inference_backward_beta_attrs) */
    double eps; /* 1e-05 */
} flx_batch_norm_inference_backward_beta_attrs;
#define FLX_BATCH_NORM_INFERENCE_BACKWARD_BETA_ATTRS {sizeof(flx_batch_norm_inference_backward_beta_attrs), NAN}

/** the cotangent of batch_norm_inference's beta, in dy's dtype */
static inline flx_val flx_batch_norm_inference_backward_beta_with(flx_graph *g, flx_val dy, const
                                                                  flx_batch_norm_inference_backward_beta_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = dy;
    FLX_CHECK_SIZE_(flx_batch_norm_inference_backward_beta_attrs);
    if (FLX_HAS_NUMBER_(flx_batch_norm_inference_backward_beta_attrs, eps) && attrs->eps == attrs->eps)
        flx_a[flx_n++] = flx_attr_real("eps", attrs->eps);
    return flx_op1(g, "batch_norm_inference_backward_beta", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_batch_norm_inference_backward_beta(...) FLX_BATCH_NORM_INFERENCE_BACKWARD_BETA_(__VA_ARGS__, .struct_size \
    = sizeof(flx_batch_norm_inference_backward_beta_attrs))
#define FLX_BATCH_NORM_INFERENCE_BACKWARD_BETA_(g_, dy_, ...) FLX_BUILT_(flx_val, \
    flx_batch_norm_inference_backward_beta_with((g_), (dy_), &(flx_batch_norm_inference_backward_beta_attrs){.eps = \
    NAN, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_batch_norm_inference_backward_beta(flx_graph *g, flx_val dy, const
                                                             flx_batch_norm_inference_backward_beta_attrs *attrs = NULL)
{
    return flx_batch_norm_inference_backward_beta_with(g, dy, attrs);
}
#endif

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

typedef struct flx_gated_delta_net_attrs {
    uint32_t struct_size; /* sizeof(flx_gated_delta_net_attrs) */
    int carry_state; /* false */
} flx_gated_delta_net_attrs;
#define FLX_GATED_DELTA_NET_ATTRS {sizeof(flx_gated_delta_net_attrs), -1}

/** for each token T = exp(gamma) T, T = T + k (v - k T) beta, y = q T / sqrt(n), with T[N, H, n, n] starting at state
    or 0; with carry_state the last T is a second result */
static inline uint32_t flx_gated_delta_net_with(flx_graph *g, flx_val q, flx_val k, flx_val v, flx_val gamma, flx_val
                                                beta, flx_val state, flx_val *results, size_t capacity, const
                                                flx_gated_delta_net_attrs *attrs)
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
    FLX_CHECK_SIZE_(flx_gated_delta_net_attrs);
    if (FLX_HAS_NUMBER_(flx_gated_delta_net_attrs, carry_state) && attrs->carry_state >= 0)
        flx_a[flx_n++] = flx_attr_int("carry_state", attrs->carry_state);
    return flx_op(g, "gated_delta_net", flx_x, num_operands, flx_n ? flx_a : NULL, flx_n, results, capacity);
}

#ifndef __cplusplus
#define flx_gated_delta_net(...) FLX_GATED_DELTA_NET_(__VA_ARGS__, .struct_size = sizeof(flx_gated_delta_net_attrs))
#define FLX_GATED_DELTA_NET_(g_, q_, k_, v_, gamma_, beta_, state_, results_, capacity_, ...) FLX_BUILT_(uint32_t, \
    flx_gated_delta_net_with((g_), (q_), (k_), (v_), (gamma_), (beta_), (state_), (results_), (capacity_), \
    &(flx_gated_delta_net_attrs){.carry_state = -1, .struct_size = 0, __VA_ARGS__}))
#else
static inline uint32_t flx_gated_delta_net(flx_graph *g, flx_val q, flx_val k, flx_val v, flx_val gamma, flx_val beta,
                                           flx_val state, flx_val *results, size_t capacity, const
                                           flx_gated_delta_net_attrs *attrs = NULL)
{
    return flx_gated_delta_net_with(g, q, k, v, gamma, beta, state, results, capacity, attrs);
}
#endif

typedef struct flx_rope_attrs {
    uint32_t struct_size; /* sizeof(flx_rope_attrs) */
    const char *layout; /* must be given; of: bhsd bshd bsd */
    int64_t head_dim; /* from x */
    int64_t n_rot; /* head_dim */
    int64_t num_heads; /* from x */
} flx_rope_attrs;
#define FLX_ROPE_ATTRS {sizeof(flx_rope_attrs), NULL, FLX_DEFAULT, FLX_DEFAULT, FLX_DEFAULT}

/** elements i and i + n_rot/2 of each head rotated by the angle whose cosine and sine are in the tables for its token;
    elements from n_rot on are unchanged */
static inline flx_val flx_rope_with(flx_graph *g, flx_val x, flx_val cos, flx_val sin, const flx_rope_attrs *attrs)
{
    flx_attr flx_a[4];
    size_t flx_n = 0;
    flx_val flx_x[3];
    flx_x[0] = x;
    flx_x[1] = cos;
    flx_x[2] = sin;
    FLX_CHECK_SIZE_(flx_rope_attrs);
    if (FLX_HAS_(flx_rope_attrs, layout) && attrs->layout)
        flx_a[flx_n++] = flx_attr_word("layout", attrs->layout);
    if (FLX_HAS_NUMBER_(flx_rope_attrs, head_dim) && attrs->head_dim != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("head_dim", attrs->head_dim);
    if (FLX_HAS_NUMBER_(flx_rope_attrs, n_rot) && attrs->n_rot != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("n_rot", attrs->n_rot);
    if (FLX_HAS_NUMBER_(flx_rope_attrs, num_heads) && attrs->num_heads != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("num_heads", attrs->num_heads);
    return flx_op1(g, "rope", flx_x, 3, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_rope(...) FLX_ROPE_(__VA_ARGS__, .struct_size = sizeof(flx_rope_attrs))
#define FLX_ROPE_(g_, x_, cos_, sin_, ...) FLX_BUILT_(flx_val, flx_rope_with((g_), (x_), (cos_), (sin_), \
    &(flx_rope_attrs){.head_dim = FLX_DEFAULT, .n_rot = FLX_DEFAULT, .num_heads = FLX_DEFAULT, .struct_size = 0, \
    __VA_ARGS__}))
#else
static inline flx_val flx_rope(flx_graph *g, flx_val x, flx_val cos, flx_val sin, const flx_rope_attrs *attrs)
{
    return flx_rope_with(g, x, cos, sin, attrs);
}
#endif

typedef struct flx_rope_backward_attrs {
    uint32_t struct_size; /* sizeof(flx_rope_backward_attrs) */
    const char *layout; /* must be given; of: bhsd bshd bsd */
    int64_t head_dim; /* from x */
    int64_t n_rot; /* head_dim */
    int64_t num_heads; /* from x */
} flx_rope_backward_attrs;
#define FLX_ROPE_BACKWARD_ATTRS {sizeof(flx_rope_backward_attrs), NULL, FLX_DEFAULT, FLX_DEFAULT, FLX_DEFAULT}

/** rope(dy, cos, -sin): the cotangent of rope's x */
static inline flx_val flx_rope_backward_with(flx_graph *g, flx_val dy, flx_val cos, flx_val sin, const
                                             flx_rope_backward_attrs *attrs)
{
    flx_attr flx_a[4];
    size_t flx_n = 0;
    flx_val flx_x[3];
    flx_x[0] = dy;
    flx_x[1] = cos;
    flx_x[2] = sin;
    FLX_CHECK_SIZE_(flx_rope_backward_attrs);
    if (FLX_HAS_(flx_rope_backward_attrs, layout) && attrs->layout)
        flx_a[flx_n++] = flx_attr_word("layout", attrs->layout);
    if (FLX_HAS_NUMBER_(flx_rope_backward_attrs, head_dim) && attrs->head_dim != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("head_dim", attrs->head_dim);
    if (FLX_HAS_NUMBER_(flx_rope_backward_attrs, n_rot) && attrs->n_rot != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("n_rot", attrs->n_rot);
    if (FLX_HAS_NUMBER_(flx_rope_backward_attrs, num_heads) && attrs->num_heads != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("num_heads", attrs->num_heads);
    return flx_op1(g, "rope_backward", flx_x, 3, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_rope_backward(...) FLX_ROPE_BACKWARD_(__VA_ARGS__, .struct_size = sizeof(flx_rope_backward_attrs))
#define FLX_ROPE_BACKWARD_(g_, dy_, cos_, sin_, ...) FLX_BUILT_(flx_val, flx_rope_backward_with((g_), (dy_), (cos_), \
    (sin_), &(flx_rope_backward_attrs){.head_dim = FLX_DEFAULT, .n_rot = FLX_DEFAULT, .num_heads = FLX_DEFAULT, \
    .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_rope_backward(flx_graph *g, flx_val dy, flx_val cos, flx_val sin, const
                                        flx_rope_backward_attrs *attrs)
{
    return flx_rope_backward_with(g, dy, cos, sin, attrs);
}
#endif


/* ---- quant ---- */

typedef struct flx_quantize_attrs {
    uint32_t struct_size; /* sizeof(flx_quantize_attrs) */
    flx_reals scales; /* must be given */
    flx_ints zero_points; /* all 0 */
    int64_t axis; /* none */
    flx_dtype dtype; /* i8 */
} flx_quantize_attrs;
#define FLX_QUANTIZE_ATTRS {sizeof(flx_quantize_attrs), {NULL, 0}, {NULL, 0}, FLX_DEFAULT, FLX_DTYPE_NONE}

/** round(x / scale) + zero_point as i8, or as i32 for biases, saturated; the derivative is 1 / scale in range, else 0
    */
static inline flx_val flx_quantize_with(flx_graph *g, flx_val x, const flx_quantize_attrs *attrs)
{
    flx_attr flx_a[4];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_quantize_attrs);
    if (FLX_HAS_(flx_quantize_attrs, scales) && FLX_LISTED_(attrs->scales))
        flx_a[flx_n++] = flx_attr_reals("scales", attrs->scales);
    if (FLX_HAS_(flx_quantize_attrs, zero_points) && FLX_LISTED_(attrs->zero_points))
        flx_a[flx_n++] = flx_attr_ints("zero_points", attrs->zero_points);
    if (FLX_HAS_NUMBER_(flx_quantize_attrs, axis) && attrs->axis != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("axis", attrs->axis);
    if (FLX_HAS_(flx_quantize_attrs, dtype) && attrs->dtype != FLX_DTYPE_NONE)
        flx_a[flx_n++] = flx_attr_dtype("dtype", attrs->dtype);
    return flx_op1(g, "quantize", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_quantize(...) FLX_QUANTIZE_(__VA_ARGS__, .struct_size = sizeof(flx_quantize_attrs))
#define FLX_QUANTIZE_(g_, x_, ...) FLX_BUILT_(flx_val, flx_quantize_with((g_), (x_), &(flx_quantize_attrs){.axis = \
    FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_quantize(flx_graph *g, flx_val x, const flx_quantize_attrs *attrs)
{
    return flx_quantize_with(g, x, attrs);
}
#endif

typedef struct flx_dequantize_attrs {
    uint32_t struct_size; /* sizeof(flx_dequantize_attrs) */
    flx_reals scales; /* must be given */
    flx_ints zero_points; /* all 0 */
    int64_t axis; /* none */
    flx_dtype dtype; /* f32 */
} flx_dequantize_attrs;
#define FLX_DEQUANTIZE_ATTRS {sizeof(flx_dequantize_attrs), {NULL, 0}, {NULL, 0}, FLX_DEFAULT, FLX_DTYPE_NONE}

/** (q - zero_point) * scale */
static inline flx_val flx_dequantize_with(flx_graph *g, flx_val q, const flx_dequantize_attrs *attrs)
{
    flx_attr flx_a[4];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = q;
    FLX_CHECK_SIZE_(flx_dequantize_attrs);
    if (FLX_HAS_(flx_dequantize_attrs, scales) && FLX_LISTED_(attrs->scales))
        flx_a[flx_n++] = flx_attr_reals("scales", attrs->scales);
    if (FLX_HAS_(flx_dequantize_attrs, zero_points) && FLX_LISTED_(attrs->zero_points))
        flx_a[flx_n++] = flx_attr_ints("zero_points", attrs->zero_points);
    if (FLX_HAS_NUMBER_(flx_dequantize_attrs, axis) && attrs->axis != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("axis", attrs->axis);
    if (FLX_HAS_(flx_dequantize_attrs, dtype) && attrs->dtype != FLX_DTYPE_NONE)
        flx_a[flx_n++] = flx_attr_dtype("dtype", attrs->dtype);
    return flx_op1(g, "dequantize", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_dequantize(...) FLX_DEQUANTIZE_(__VA_ARGS__, .struct_size = sizeof(flx_dequantize_attrs))
#define FLX_DEQUANTIZE_(g_, q_, ...) FLX_BUILT_(flx_val, flx_dequantize_with((g_), (q_), &(flx_dequantize_attrs){.axis \
    = FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_dequantize(flx_graph *g, flx_val q, const flx_dequantize_attrs *attrs)
{
    return flx_dequantize_with(g, q, attrs);
}
#endif

typedef struct flx_dequant_matmul_attrs {
    uint32_t struct_size; /* sizeof(flx_dequant_matmul_attrs) */
    const char *scheme; /* must be given; of: int8_block int8_block_asym int4_block fp8_e4m3 fp8_e5m2 nvfp4_block
        gguf_q4_0 gguf_q4_1 gguf_q5_0 gguf_q5_1 gguf_q8_0 gguf_q2_k gguf_q3_k gguf_q4_k gguf_q5_k gguf_q6_k gguf_q8_k
        gguf_iq4_nl gguf_iq4_xs gguf_iq3_xxs gguf_iq3_s gguf_iq2_xxs gguf_iq2_xs gguf_iq2_s gguf_iq1_s gguf_iq1_m
        gguf_tq1_0 gguf_tq2_0 gguf_mxfp4 gguf_f32 gguf_f16 gguf_bf16 */
    int64_t bs; /* 32 */
    int64_t x_bits; /* 0 */
} flx_dequant_matmul_attrs;
#define FLX_DEQUANT_MATMUL_ATTRS {sizeof(flx_dequant_matmul_attrs), NULL, FLX_DEFAULT, FLX_DEFAULT}

/** matmul of x with the matrix packed in w as scheme says; side has its scales, and zero points or a global scale */
static inline flx_val flx_dequant_matmul_with(flx_graph *g, const flx_val *operands, size_t num_operands, const
                                              flx_dequant_matmul_attrs *attrs)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    FLX_CHECK_SIZE_(flx_dequant_matmul_attrs);
    if (FLX_HAS_(flx_dequant_matmul_attrs, scheme) && attrs->scheme)
        flx_a[flx_n++] = flx_attr_word("scheme", attrs->scheme);
    if (FLX_HAS_NUMBER_(flx_dequant_matmul_attrs, bs) && attrs->bs != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("bs", attrs->bs);
    if (FLX_HAS_NUMBER_(flx_dequant_matmul_attrs, x_bits) && attrs->x_bits != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("x_bits", attrs->x_bits);
    return flx_op1(g, "dequant_matmul", operands, num_operands, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_dequant_matmul(...) FLX_DEQUANT_MATMUL_(__VA_ARGS__, .struct_size = sizeof(flx_dequant_matmul_attrs))
#define FLX_DEQUANT_MATMUL_(g_, operands_, num_operands_, ...) FLX_BUILT_(flx_val, flx_dequant_matmul_with((g_), \
    (operands_), (num_operands_), &(flx_dequant_matmul_attrs){.bs = FLX_DEFAULT, .x_bits = FLX_DEFAULT, .struct_size = \
    0, __VA_ARGS__}))
#else
static inline flx_val flx_dequant_matmul(flx_graph *g, const flx_val *operands, size_t num_operands, const
                                         flx_dequant_matmul_attrs *attrs)
{
    return flx_dequant_matmul_with(g, operands, num_operands, attrs);
}
#endif

typedef struct flx_dequant_grouped_matmul_attrs {
    uint32_t struct_size; /* sizeof(flx_dequant_grouped_matmul_attrs) */
    const char *scheme; /* must be given; of: gguf_q4_0 gguf_q4_1 gguf_q5_0 gguf_q5_1 gguf_q8_0 gguf_q2_k gguf_q3_k
        gguf_q4_k gguf_q5_k gguf_q6_k gguf_q8_k gguf_iq4_nl gguf_iq4_xs gguf_iq3_xxs gguf_iq3_s gguf_iq2_xxs gguf_iq2_xs
        gguf_iq2_s gguf_iq1_s gguf_iq1_m gguf_tq1_0 gguf_tq2_0 gguf_mxfp4 gguf_f32 gguf_f16 gguf_bf16 */
    flx_dim N; /* must be given */
} flx_dequant_grouped_matmul_attrs;
#define FLX_DEQUANT_GROUPED_MATMUL_ATTRS {sizeof(flx_dequant_grouped_matmul_attrs), NULL, FLX_DEFAULT}

/** y[i] = x[i] times matrix e[i] of those packed in w */
static inline flx_val flx_dequant_grouped_matmul_with(flx_graph *g, flx_val x, flx_val w, flx_val e, const
                                                      flx_dequant_grouped_matmul_attrs *attrs)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[3];
    flx_x[0] = x;
    flx_x[1] = w;
    flx_x[2] = e;
    FLX_CHECK_SIZE_(flx_dequant_grouped_matmul_attrs);
    if (FLX_HAS_(flx_dequant_grouped_matmul_attrs, scheme) && attrs->scheme)
        flx_a[flx_n++] = flx_attr_word("scheme", attrs->scheme);
    if (FLX_HAS_NUMBER_(flx_dequant_grouped_matmul_attrs, N) && attrs->N != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("N", attrs->N);
    return flx_op1(g, "dequant_grouped_matmul", flx_x, 3, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_dequant_grouped_matmul(...) FLX_DEQUANT_GROUPED_MATMUL_(__VA_ARGS__, .struct_size = \
    sizeof(flx_dequant_grouped_matmul_attrs))
#define FLX_DEQUANT_GROUPED_MATMUL_(g_, x_, w_, e_, ...) FLX_BUILT_(flx_val, flx_dequant_grouped_matmul_with((g_), \
    (x_), (w_), (e_), &(flx_dequant_grouped_matmul_attrs){.N = FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_dequant_grouped_matmul(flx_graph *g, flx_val x, flx_val w, flx_val e, const
                                                 flx_dequant_grouped_matmul_attrs *attrs)
{
    return flx_dequant_grouped_matmul_with(g, x, w, e, attrs);
}
#endif

typedef struct flx_dequant_moe_weights_attrs {
    uint32_t struct_size; /* sizeof(flx_dequant_moe_weights_attrs) */
    const char *scheme; /* must be given; of: gguf_q4_0 gguf_q4_1 gguf_q5_0 gguf_q5_1 gguf_q8_0 gguf_q2_k gguf_q3_k
        gguf_q4_k gguf_q5_k gguf_q6_k gguf_q8_k gguf_iq4_nl gguf_iq4_xs gguf_iq3_xxs gguf_iq3_s gguf_iq2_xxs gguf_iq2_xs
        gguf_iq2_s gguf_iq1_s gguf_iq1_m gguf_tq1_0 gguf_tq2_0 gguf_mxfp4 gguf_f32 gguf_f16 gguf_bf16 */
    flx_dim E; /* must be given */
    flx_dim K; /* must be given */
    flx_dim N; /* must be given */
} flx_dequant_moe_weights_attrs;
#define FLX_DEQUANT_MOE_WEIGHTS_ATTRS {sizeof(flx_dequant_moe_weights_attrs), NULL, FLX_DEFAULT, FLX_DEFAULT, \
    FLX_DEFAULT}

/** E packed matrices of N rows of K numbers as f32 [E, K, N]: y[e, p, j] is number p of row j of matrix e */
static inline flx_val flx_dequant_moe_weights_with(flx_graph *g, flx_val w, const flx_dequant_moe_weights_attrs *attrs)
{
    flx_attr flx_a[4];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = w;
    FLX_CHECK_SIZE_(flx_dequant_moe_weights_attrs);
    if (FLX_HAS_(flx_dequant_moe_weights_attrs, scheme) && attrs->scheme)
        flx_a[flx_n++] = flx_attr_word("scheme", attrs->scheme);
    if (FLX_HAS_NUMBER_(flx_dequant_moe_weights_attrs, E) && attrs->E != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("E", attrs->E);
    if (FLX_HAS_NUMBER_(flx_dequant_moe_weights_attrs, K) && attrs->K != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("K", attrs->K);
    if (FLX_HAS_NUMBER_(flx_dequant_moe_weights_attrs, N) && attrs->N != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("N", attrs->N);
    return flx_op1(g, "dequant_moe_weights", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_dequant_moe_weights(...) FLX_DEQUANT_MOE_WEIGHTS_(__VA_ARGS__, .struct_size = \
    sizeof(flx_dequant_moe_weights_attrs))
#define FLX_DEQUANT_MOE_WEIGHTS_(g_, w_, ...) FLX_BUILT_(flx_val, flx_dequant_moe_weights_with((g_), (w_), \
    &(flx_dequant_moe_weights_attrs){.E = FLX_DEFAULT, .K = FLX_DEFAULT, .N = FLX_DEFAULT, .struct_size = 0, \
    __VA_ARGS__}))
#else
static inline flx_val flx_dequant_moe_weights(flx_graph *g, flx_val w, const flx_dequant_moe_weights_attrs *attrs)
{
    return flx_dequant_moe_weights_with(g, w, attrs);
}
#endif

typedef struct flx_fake_quantize_attrs {
    uint32_t struct_size; /* sizeof(flx_fake_quantize_attrs) */
    int64_t bits; /* 8 */
    int64_t axis; /* none */
    const char *ste; /* clipped_identity; of: clipped_identity identity tanh hard_tanh */
    const char *scale_mode; /* per_batch; of: per_batch ema fixed */
    double decay; /* 0.9 */
} flx_fake_quantize_attrs;
#define FLX_FAKE_QUANTIZE_ATTRS {sizeof(flx_fake_quantize_attrs), FLX_DEFAULT, FLX_DEFAULT, NULL, NULL, NAN}

/** x rounded to a grid of 2^bits - 1 multiples of a scale: y, and for scale_mode=ema the new state; ste selects the
    derivative */
static inline uint32_t flx_fake_quantize_with(flx_graph *g, flx_val x, flx_val state, flx_val *results, size_t capacity,
                                              const flx_fake_quantize_attrs *attrs)
{
    flx_attr flx_a[5];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = x;
    flx_x[1] = state;
    size_t num_operands = 2;
    while (num_operands > 1 && !flx_x[num_operands - 1].id)
        num_operands--;
    FLX_CHECK_SIZE_(flx_fake_quantize_attrs);
    if (FLX_HAS_NUMBER_(flx_fake_quantize_attrs, bits) && attrs->bits != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("bits", attrs->bits);
    if (FLX_HAS_NUMBER_(flx_fake_quantize_attrs, axis) && attrs->axis != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("axis", attrs->axis);
    if (FLX_HAS_(flx_fake_quantize_attrs, ste) && attrs->ste)
        flx_a[flx_n++] = flx_attr_word("ste", attrs->ste);
    if (FLX_HAS_(flx_fake_quantize_attrs, scale_mode) && attrs->scale_mode)
        flx_a[flx_n++] = flx_attr_word("scale_mode", attrs->scale_mode);
    if (FLX_HAS_NUMBER_(flx_fake_quantize_attrs, decay) && attrs->decay == attrs->decay)
        flx_a[flx_n++] = flx_attr_real("decay", attrs->decay);
    return flx_op(g, "fake_quantize", flx_x, num_operands, flx_n ? flx_a : NULL, flx_n, results, capacity);
}

#ifndef __cplusplus
#define flx_fake_quantize(...) FLX_FAKE_QUANTIZE_(__VA_ARGS__, .struct_size = sizeof(flx_fake_quantize_attrs))
#define FLX_FAKE_QUANTIZE_(g_, x_, state_, results_, capacity_, ...) FLX_BUILT_(uint32_t, flx_fake_quantize_with((g_), \
    (x_), (state_), (results_), (capacity_), &(flx_fake_quantize_attrs){.bits = FLX_DEFAULT, .axis = FLX_DEFAULT, \
    .decay = NAN, .struct_size = 0, __VA_ARGS__}))
#else
static inline uint32_t flx_fake_quantize(flx_graph *g, flx_val x, flx_val state, flx_val *results, size_t capacity,
                                         const flx_fake_quantize_attrs *attrs = NULL)
{
    return flx_fake_quantize_with(g, x, state, results, capacity, attrs);
}
#endif

typedef struct flx_fake_quantize_backward_attrs {
    uint32_t struct_size; /* sizeof(flx_fake_quantize_backward_attrs) */
    int64_t bits; /* 8 */
    int64_t axis; /* none */
    const char *ste; /* clipped_identity; of: clipped_identity identity tanh hard_tanh */
    const char *scale_mode; /* per_batch; of: per_batch ema fixed */
    double decay; /* 0.9 */
} flx_fake_quantize_backward_attrs;
#define FLX_FAKE_QUANTIZE_BACKWARD_ATTRS {sizeof(flx_fake_quantize_backward_attrs), FLX_DEFAULT, FLX_DEFAULT, NULL, \
    NULL, NAN}

/** dy times the derivative of fake_quantize; s is the scale that it used, or the fixed state */
static inline flx_val flx_fake_quantize_backward_with(flx_graph *g, flx_val x, flx_val dy, flx_val s, const
                                                      flx_fake_quantize_backward_attrs *attrs)
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
    FLX_CHECK_SIZE_(flx_fake_quantize_backward_attrs);
    if (FLX_HAS_NUMBER_(flx_fake_quantize_backward_attrs, bits) && attrs->bits != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("bits", attrs->bits);
    if (FLX_HAS_NUMBER_(flx_fake_quantize_backward_attrs, axis) && attrs->axis != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("axis", attrs->axis);
    if (FLX_HAS_(flx_fake_quantize_backward_attrs, ste) && attrs->ste)
        flx_a[flx_n++] = flx_attr_word("ste", attrs->ste);
    if (FLX_HAS_(flx_fake_quantize_backward_attrs, scale_mode) && attrs->scale_mode)
        flx_a[flx_n++] = flx_attr_word("scale_mode", attrs->scale_mode);
    if (FLX_HAS_NUMBER_(flx_fake_quantize_backward_attrs, decay) && attrs->decay == attrs->decay)
        flx_a[flx_n++] = flx_attr_real("decay", attrs->decay);
    return flx_op1(g, "fake_quantize_backward", flx_x, num_operands, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_fake_quantize_backward(...) FLX_FAKE_QUANTIZE_BACKWARD_(__VA_ARGS__, .struct_size = \
    sizeof(flx_fake_quantize_backward_attrs))
#define FLX_FAKE_QUANTIZE_BACKWARD_(g_, x_, dy_, s_, ...) FLX_BUILT_(flx_val, flx_fake_quantize_backward_with((g_), \
    (x_), (dy_), (s_), &(flx_fake_quantize_backward_attrs){.bits = FLX_DEFAULT, .axis = FLX_DEFAULT, .decay = NAN, \
    .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_fake_quantize_backward(flx_graph *g, flx_val x, flx_val dy, flx_val s, const
                                                 flx_fake_quantize_backward_attrs *attrs = NULL)
{
    return flx_fake_quantize_backward_with(g, x, dy, s, attrs);
}
#endif

typedef struct flx_fake_quantize_lsq_attrs {
    uint32_t struct_size; /* sizeof(flx_fake_quantize_lsq_attrs) */
    int64_t bits; /* 8 */
    int64_t axis; /* none */
    double grad_scale; /* 1 */
} flx_fake_quantize_lsq_attrs;
#define FLX_FAKE_QUANTIZE_LSQ_ATTRS {sizeof(flx_fake_quantize_lsq_attrs), FLX_DEFAULT, FLX_DEFAULT, NAN}

/** x rounded to multiples of s, which is learned: its derivative is grad_scale (round(z) - z), z = x / s */
static inline flx_val flx_fake_quantize_lsq_with(flx_graph *g, flx_val x, flx_val s, const flx_fake_quantize_lsq_attrs
                                                 *attrs)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = x;
    flx_x[1] = s;
    FLX_CHECK_SIZE_(flx_fake_quantize_lsq_attrs);
    if (FLX_HAS_NUMBER_(flx_fake_quantize_lsq_attrs, bits) && attrs->bits != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("bits", attrs->bits);
    if (FLX_HAS_NUMBER_(flx_fake_quantize_lsq_attrs, axis) && attrs->axis != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("axis", attrs->axis);
    if (FLX_HAS_NUMBER_(flx_fake_quantize_lsq_attrs, grad_scale) && attrs->grad_scale == attrs->grad_scale)
        flx_a[flx_n++] = flx_attr_real("grad_scale", attrs->grad_scale);
    return flx_op1(g, "fake_quantize_lsq", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_fake_quantize_lsq(...) FLX_FAKE_QUANTIZE_LSQ_(__VA_ARGS__, .struct_size = \
    sizeof(flx_fake_quantize_lsq_attrs))
#define FLX_FAKE_QUANTIZE_LSQ_(g_, x_, s_, ...) FLX_BUILT_(flx_val, flx_fake_quantize_lsq_with((g_), (x_), (s_), \
    &(flx_fake_quantize_lsq_attrs){.bits = FLX_DEFAULT, .axis = FLX_DEFAULT, .grad_scale = NAN, .struct_size = 0, \
    __VA_ARGS__}))
#else
static inline flx_val flx_fake_quantize_lsq(flx_graph *g, flx_val x, flx_val s, const flx_fake_quantize_lsq_attrs *attrs
                                            = NULL)
{
    return flx_fake_quantize_lsq_with(g, x, s, attrs);
}
#endif

typedef struct flx_fake_quantize_lsq_backward_x_attrs {
    uint32_t struct_size; /* sizeof(flx_fake_quantize_lsq_backward_x_attrs) */
    int64_t bits; /* 8 */
    int64_t axis; /* none */
    double grad_scale; /* 1 */
} flx_fake_quantize_lsq_backward_x_attrs;
#define FLX_FAKE_QUANTIZE_LSQ_BACKWARD_X_ATTRS {sizeof(flx_fake_quantize_lsq_backward_x_attrs), FLX_DEFAULT, \
    FLX_DEFAULT, NAN}

/** dy where fake_quantize_lsq does not clamp */
static inline flx_val flx_fake_quantize_lsq_backward_x_with(flx_graph *g, flx_val x, flx_val s, flx_val dy, const
                                                            flx_fake_quantize_lsq_backward_x_attrs *attrs)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    flx_val flx_x[3];
    flx_x[0] = x;
    flx_x[1] = s;
    flx_x[2] = dy;
    FLX_CHECK_SIZE_(flx_fake_quantize_lsq_backward_x_attrs);
    if (FLX_HAS_NUMBER_(flx_fake_quantize_lsq_backward_x_attrs, bits) && attrs->bits != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("bits", attrs->bits);
    if (FLX_HAS_NUMBER_(flx_fake_quantize_lsq_backward_x_attrs, axis) && attrs->axis != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("axis", attrs->axis);
    if (FLX_HAS_NUMBER_(flx_fake_quantize_lsq_backward_x_attrs, grad_scale) && attrs->grad_scale == attrs->grad_scale)
        flx_a[flx_n++] = flx_attr_real("grad_scale", attrs->grad_scale);
    return flx_op1(g, "fake_quantize_lsq_backward_x", flx_x, 3, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_fake_quantize_lsq_backward_x(...) FLX_FAKE_QUANTIZE_LSQ_BACKWARD_X_(__VA_ARGS__, .struct_size = \
    sizeof(flx_fake_quantize_lsq_backward_x_attrs))
#define FLX_FAKE_QUANTIZE_LSQ_BACKWARD_X_(g_, x_, s_, dy_, ...) FLX_BUILT_(flx_val, \
    flx_fake_quantize_lsq_backward_x_with((g_), (x_), (s_), (dy_), &(flx_fake_quantize_lsq_backward_x_attrs){.bits = \
    FLX_DEFAULT, .axis = FLX_DEFAULT, .grad_scale = NAN, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_fake_quantize_lsq_backward_x(flx_graph *g, flx_val x, flx_val s, flx_val dy, const
                                                       flx_fake_quantize_lsq_backward_x_attrs *attrs = NULL)
{
    return flx_fake_quantize_lsq_backward_x_with(g, x, s, dy, attrs);
}
#endif

typedef struct flx_fake_quantize_lsq_backward_scale_attrs {
    uint32_t struct_size; /* sizeof(flx_fake_quantize_lsq_backward_scale_attrs) */
    int64_t bits; /* 8 */
    int64_t axis; /* none */
    double grad_scale; /* 1 */
} flx_fake_quantize_lsq_backward_scale_attrs;
#define FLX_FAKE_QUANTIZE_LSQ_BACKWARD_SCALE_ATTRS {sizeof(flx_fake_quantize_lsq_backward_scale_attrs), FLX_DEFAULT, \
    FLX_DEFAULT, NAN}

/** the cotangent of fake_quantize_lsq's s, summed over each channel */
static inline flx_val flx_fake_quantize_lsq_backward_scale_with(flx_graph *g, flx_val x, flx_val s, flx_val dy, const
                                                                flx_fake_quantize_lsq_backward_scale_attrs *attrs)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    flx_val flx_x[3];
    flx_x[0] = x;
    flx_x[1] = s;
    flx_x[2] = dy;
    FLX_CHECK_SIZE_(flx_fake_quantize_lsq_backward_scale_attrs);
    if (FLX_HAS_NUMBER_(flx_fake_quantize_lsq_backward_scale_attrs, bits) && attrs->bits != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("bits", attrs->bits);
    if (FLX_HAS_NUMBER_(flx_fake_quantize_lsq_backward_scale_attrs, axis) && attrs->axis != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("axis", attrs->axis);
    if (FLX_HAS_NUMBER_(flx_fake_quantize_lsq_backward_scale_attrs, grad_scale) && attrs->grad_scale ==
        attrs->grad_scale)
        flx_a[flx_n++] = flx_attr_real("grad_scale", attrs->grad_scale);
    return flx_op1(g, "fake_quantize_lsq_backward_scale", flx_x, 3, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_fake_quantize_lsq_backward_scale(...) FLX_FAKE_QUANTIZE_LSQ_BACKWARD_SCALE_(__VA_ARGS__, .struct_size = \
    sizeof(flx_fake_quantize_lsq_backward_scale_attrs))
#define FLX_FAKE_QUANTIZE_LSQ_BACKWARD_SCALE_(g_, x_, s_, dy_, ...) FLX_BUILT_(flx_val, \
    flx_fake_quantize_lsq_backward_scale_with((g_), (x_), (s_), (dy_), \
    &(flx_fake_quantize_lsq_backward_scale_attrs){.bits = FLX_DEFAULT, .axis = FLX_DEFAULT, .grad_scale = NAN, \
    .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_fake_quantize_lsq_backward_scale(flx_graph *g, flx_val x, flx_val s, flx_val dy, const
                                                           flx_fake_quantize_lsq_backward_scale_attrs *attrs = NULL)
{
    return flx_fake_quantize_lsq_backward_scale_with(g, x, s, dy, attrs);
}
#endif

typedef struct flx_q_matmul_attrs {
    uint32_t struct_size; /* sizeof(flx_q_matmul_attrs) */
    double mult; /* must be given */
    int64_t x_zp; /* 0 */
    int64_t w_zp; /* 0 */
    int64_t out_zp; /* 0 */
} flx_q_matmul_attrs;
#define FLX_Q_MATMUL_ATTRS {sizeof(flx_q_matmul_attrs), NAN, FLX_DEFAULT, FLX_DEFAULT, FLX_DEFAULT}

/** round((bias + matmul(x - x_zp, w - w_zp)) * mult) + out_zp as i8, saturated */
static inline flx_val flx_q_matmul_with(flx_graph *g, flx_val x, flx_val w, flx_val bias, const flx_q_matmul_attrs
                                        *attrs)
{
    flx_attr flx_a[4];
    size_t flx_n = 0;
    flx_val flx_x[3];
    flx_x[0] = x;
    flx_x[1] = w;
    flx_x[2] = bias;
    FLX_CHECK_SIZE_(flx_q_matmul_attrs);
    if (FLX_HAS_NUMBER_(flx_q_matmul_attrs, mult) && attrs->mult == attrs->mult)
        flx_a[flx_n++] = flx_attr_real("mult", attrs->mult);
    if (FLX_HAS_NUMBER_(flx_q_matmul_attrs, x_zp) && attrs->x_zp != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("x_zp", attrs->x_zp);
    if (FLX_HAS_NUMBER_(flx_q_matmul_attrs, w_zp) && attrs->w_zp != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("w_zp", attrs->w_zp);
    if (FLX_HAS_NUMBER_(flx_q_matmul_attrs, out_zp) && attrs->out_zp != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("out_zp", attrs->out_zp);
    return flx_op1(g, "q_matmul", flx_x, 3, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_q_matmul(...) FLX_Q_MATMUL_(__VA_ARGS__, .struct_size = sizeof(flx_q_matmul_attrs))
#define FLX_Q_MATMUL_(g_, x_, w_, bias_, ...) FLX_BUILT_(flx_val, flx_q_matmul_with((g_), (x_), (w_), (bias_), \
    &(flx_q_matmul_attrs){.mult = NAN, .x_zp = FLX_DEFAULT, .w_zp = FLX_DEFAULT, .out_zp = FLX_DEFAULT, .struct_size = \
    0, __VA_ARGS__}))
#else
static inline flx_val flx_q_matmul(flx_graph *g, flx_val x, flx_val w, flx_val bias, const flx_q_matmul_attrs *attrs)
{
    return flx_q_matmul_with(g, x, w, bias, attrs);
}
#endif

typedef struct flx_q_conv_attrs {
    uint32_t struct_size; /* sizeof(flx_q_conv_attrs) */
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
#define FLX_Q_CONV_ATTRS {sizeof(flx_q_conv_attrs), NAN, FLX_DEFAULT, FLX_DEFAULT, FLX_DEFAULT, {NULL, 0}, {NULL, 0}, \
    {NULL, 0}, FLX_DEFAULT, {NULL, 0}, FLX_DEFAULT, {NULL, 0}, {NULL, 0}, {NULL, 0}, {NULL, 0}}

/** round((bias + conv(x - x_zp, w - w_zp)) * mult) + out_zp as i8, saturated; padding is x_zp */
static inline flx_val flx_q_conv_with(flx_graph *g, flx_val x, flx_val w, flx_val bias, const flx_q_conv_attrs *attrs)
{
    flx_attr flx_a[14];
    size_t flx_n = 0;
    flx_val flx_x[3];
    flx_x[0] = x;
    flx_x[1] = w;
    flx_x[2] = bias;
    FLX_CHECK_SIZE_(flx_q_conv_attrs);
    if (FLX_HAS_NUMBER_(flx_q_conv_attrs, mult) && attrs->mult == attrs->mult)
        flx_a[flx_n++] = flx_attr_real("mult", attrs->mult);
    if (FLX_HAS_NUMBER_(flx_q_conv_attrs, x_zp) && attrs->x_zp != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("x_zp", attrs->x_zp);
    if (FLX_HAS_NUMBER_(flx_q_conv_attrs, w_zp) && attrs->w_zp != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("w_zp", attrs->w_zp);
    if (FLX_HAS_NUMBER_(flx_q_conv_attrs, out_zp) && attrs->out_zp != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("out_zp", attrs->out_zp);
    if (FLX_HAS_(flx_q_conv_attrs, stride) && FLX_LISTED_(attrs->stride))
        flx_a[flx_n++] = flx_attr_ints("stride", attrs->stride);
    if (FLX_HAS_(flx_q_conv_attrs, padding) && FLX_LISTED_(attrs->padding))
        flx_a[flx_n++] = flx_attr_pairs("padding", attrs->padding);
    if (FLX_HAS_(flx_q_conv_attrs, dilation) && FLX_LISTED_(attrs->dilation))
        flx_a[flx_n++] = flx_attr_ints("dilation", attrs->dilation);
    if (FLX_HAS_NUMBER_(flx_q_conv_attrs, groups) && attrs->groups != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("groups", attrs->groups);
    if (FLX_HAS_(flx_q_conv_attrs, input_dilation) && FLX_LISTED_(attrs->input_dilation))
        flx_a[flx_n++] = flx_attr_ints("input_dilation", attrs->input_dilation);
    if (FLX_HAS_NUMBER_(flx_q_conv_attrs, batch_groups) && attrs->batch_groups != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("batch_groups", attrs->batch_groups);
    if (FLX_HAS_(flx_q_conv_attrs, reverse) && FLX_LISTED_(attrs->reverse))
        flx_a[flx_n++] = flx_attr_ints("reverse", attrs->reverse);
    if (FLX_HAS_(flx_q_conv_attrs, input_axes) && FLX_LISTED_(attrs->input_axes))
        flx_a[flx_n++] = flx_attr_ints("input_axes", attrs->input_axes);
    if (FLX_HAS_(flx_q_conv_attrs, kernel_axes) && FLX_LISTED_(attrs->kernel_axes))
        flx_a[flx_n++] = flx_attr_ints("kernel_axes", attrs->kernel_axes);
    if (FLX_HAS_(flx_q_conv_attrs, output_axes) && FLX_LISTED_(attrs->output_axes))
        flx_a[flx_n++] = flx_attr_ints("output_axes", attrs->output_axes);
    return flx_op1(g, "q_conv", flx_x, 3, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_q_conv(...) FLX_Q_CONV_(__VA_ARGS__, .struct_size = sizeof(flx_q_conv_attrs))
#define FLX_Q_CONV_(g_, x_, w_, bias_, ...) FLX_BUILT_(flx_val, flx_q_conv_with((g_), (x_), (w_), (bias_), \
    &(flx_q_conv_attrs){.mult = NAN, .x_zp = FLX_DEFAULT, .w_zp = FLX_DEFAULT, .out_zp = FLX_DEFAULT, .groups = \
    FLX_DEFAULT, .batch_groups = FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_q_conv(flx_graph *g, flx_val x, flx_val w, flx_val bias, const flx_q_conv_attrs *attrs)
{
    return flx_q_conv_with(g, x, w, bias, attrs);
}
#endif


/* ---- random ---- */

typedef struct flx_rng_uniform_attrs {
    uint32_t struct_size; /* sizeof(flx_rng_uniform_attrs) */
    flx_ints shape; /* must be given */
    flx_dtype dtype; /* f32 */
    double lo; /* 0 */
    double hi; /* 1 */
    int64_t seed; /* 0 */
    int64_t stream; /* 0 */
} flx_rng_uniform_attrs;
#define FLX_RNG_UNIFORM_ATTRS {sizeof(flx_rng_uniform_attrs), {NULL, 0}, FLX_DTYPE_NONE, NAN, NAN, FLX_DEFAULT, \
    FLX_DEFAULT}

/** lo + (hi - lo) u; u = (word i >> 8) 2^-24, f64: (words 2i, 2i + 1 >> 11) 2^-53; Philox, counter (block, stream) */
static inline flx_val flx_rng_uniform_with(flx_graph *g, flx_val key, const flx_rng_uniform_attrs *attrs)
{
    flx_attr flx_a[6];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = key;
    size_t num_operands = 1;
    while (num_operands > 0 && !flx_x[num_operands - 1].id)
        num_operands--;
    FLX_CHECK_SIZE_(flx_rng_uniform_attrs);
    if (FLX_HAS_(flx_rng_uniform_attrs, shape) && FLX_LISTED_(attrs->shape))
        flx_a[flx_n++] = flx_attr_ints("shape", attrs->shape);
    if (FLX_HAS_(flx_rng_uniform_attrs, dtype) && attrs->dtype != FLX_DTYPE_NONE)
        flx_a[flx_n++] = flx_attr_dtype("dtype", attrs->dtype);
    if (FLX_HAS_NUMBER_(flx_rng_uniform_attrs, lo) && attrs->lo == attrs->lo)
        flx_a[flx_n++] = flx_attr_real("lo", attrs->lo);
    if (FLX_HAS_NUMBER_(flx_rng_uniform_attrs, hi) && attrs->hi == attrs->hi)
        flx_a[flx_n++] = flx_attr_real("hi", attrs->hi);
    if (FLX_HAS_NUMBER_(flx_rng_uniform_attrs, seed) && attrs->seed != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("seed", attrs->seed);
    if (FLX_HAS_NUMBER_(flx_rng_uniform_attrs, stream) && attrs->stream != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("stream", attrs->stream);
    return flx_op1(g, "rng_uniform", flx_x, num_operands, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_rng_uniform(...) FLX_RNG_UNIFORM_(__VA_ARGS__, .struct_size = sizeof(flx_rng_uniform_attrs))
#define FLX_RNG_UNIFORM_(g_, key_, ...) FLX_BUILT_(flx_val, flx_rng_uniform_with((g_), (key_), \
    &(flx_rng_uniform_attrs){.lo = NAN, .hi = NAN, .seed = FLX_DEFAULT, .stream = FLX_DEFAULT, .struct_size = 0, \
    __VA_ARGS__}))
#else
static inline flx_val flx_rng_uniform(flx_graph *g, flx_val key, const flx_rng_uniform_attrs *attrs)
{
    return flx_rng_uniform_with(g, key, attrs);
}
#endif

typedef struct flx_rng_normal_attrs {
    uint32_t struct_size; /* sizeof(flx_rng_normal_attrs) */
    flx_ints shape; /* must be given */
    flx_dtype dtype; /* f32 */
    double mean; /* 0 */
    double std; /* 1 */
    int64_t seed; /* 0 */
    int64_t stream; /* 0 */
} flx_rng_normal_attrs;
#define FLX_RNG_NORMAL_ATTRS {sizeof(flx_rng_normal_attrs), {NULL, 0}, FLX_DTYPE_NONE, NAN, NAN, FLX_DEFAULT, \
    FLX_DEFAULT}

/** mean + std z; Box-Muller: elements 2j, 2j + 1 are sqrt(-2 ln u1) (cos, sin)(2 pi u2) of the same two draws, u1 > 0
    */
static inline flx_val flx_rng_normal_with(flx_graph *g, flx_val key, const flx_rng_normal_attrs *attrs)
{
    flx_attr flx_a[6];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = key;
    size_t num_operands = 1;
    while (num_operands > 0 && !flx_x[num_operands - 1].id)
        num_operands--;
    FLX_CHECK_SIZE_(flx_rng_normal_attrs);
    if (FLX_HAS_(flx_rng_normal_attrs, shape) && FLX_LISTED_(attrs->shape))
        flx_a[flx_n++] = flx_attr_ints("shape", attrs->shape);
    if (FLX_HAS_(flx_rng_normal_attrs, dtype) && attrs->dtype != FLX_DTYPE_NONE)
        flx_a[flx_n++] = flx_attr_dtype("dtype", attrs->dtype);
    if (FLX_HAS_NUMBER_(flx_rng_normal_attrs, mean) && attrs->mean == attrs->mean)
        flx_a[flx_n++] = flx_attr_real("mean", attrs->mean);
    if (FLX_HAS_NUMBER_(flx_rng_normal_attrs, std) && attrs->std == attrs->std)
        flx_a[flx_n++] = flx_attr_real("std", attrs->std);
    if (FLX_HAS_NUMBER_(flx_rng_normal_attrs, seed) && attrs->seed != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("seed", attrs->seed);
    if (FLX_HAS_NUMBER_(flx_rng_normal_attrs, stream) && attrs->stream != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("stream", attrs->stream);
    return flx_op1(g, "rng_normal", flx_x, num_operands, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_rng_normal(...) FLX_RNG_NORMAL_(__VA_ARGS__, .struct_size = sizeof(flx_rng_normal_attrs))
#define FLX_RNG_NORMAL_(g_, key_, ...) FLX_BUILT_(flx_val, flx_rng_normal_with((g_), (key_), \
    &(flx_rng_normal_attrs){.mean = NAN, .std = NAN, .seed = FLX_DEFAULT, .stream = FLX_DEFAULT, .struct_size = 0, \
    __VA_ARGS__}))
#else
static inline flx_val flx_rng_normal(flx_graph *g, flx_val key, const flx_rng_normal_attrs *attrs)
{
    return flx_rng_normal_with(g, key, attrs);
}
#endif

typedef struct flx_rng_bits_attrs {
    uint32_t struct_size; /* sizeof(flx_rng_bits_attrs) */
    flx_ints shape; /* must be given */
    flx_dtype dtype; /* u32 */
    const char *algorithm; /* philox4x32; of: philox4x32 threefry2x32 */
} flx_rng_bits_attrs;
#define FLX_RNG_BITS_ATTRS {sizeof(flx_rng_bits_attrs), {NULL, 0}, FLX_DTYPE_NONE, NULL}

/** element i is word i of key's stream 0, for 64-bit dtypes words 2i, 2i + 1, low first, for narrow dtypes its low
    bits; a block is 4 words (threefry2x32: 2) */
static inline flx_val flx_rng_bits_with(flx_graph *g, flx_val key, const flx_rng_bits_attrs *attrs)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = key;
    FLX_CHECK_SIZE_(flx_rng_bits_attrs);
    if (FLX_HAS_(flx_rng_bits_attrs, shape) && FLX_LISTED_(attrs->shape))
        flx_a[flx_n++] = flx_attr_ints("shape", attrs->shape);
    if (FLX_HAS_(flx_rng_bits_attrs, dtype) && attrs->dtype != FLX_DTYPE_NONE)
        flx_a[flx_n++] = flx_attr_dtype("dtype", attrs->dtype);
    if (FLX_HAS_(flx_rng_bits_attrs, algorithm) && attrs->algorithm)
        flx_a[flx_n++] = flx_attr_word("algorithm", attrs->algorithm);
    return flx_op1(g, "rng_bits", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_rng_bits(...) FLX_RNG_BITS_(__VA_ARGS__, .struct_size = sizeof(flx_rng_bits_attrs))
#define FLX_RNG_BITS_(g_, key_, ...) FLX_BUILT_(flx_val, flx_rng_bits_with((g_), (key_), \
    &(flx_rng_bits_attrs){.struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_rng_bits(flx_graph *g, flx_val key, const flx_rng_bits_attrs *attrs)
{
    return flx_rng_bits_with(g, key, attrs);
}
#endif

typedef struct flx_rng_bit_generator_attrs {
    uint32_t struct_size; /* sizeof(flx_rng_bit_generator_attrs) */
    flx_ints shape; /* must be given */
    flx_dtype dtype; /* must be given */
    const char *algorithm; /* must be given; of: philox4x32 threefry2x32 */
} flx_rng_bit_generator_attrs;
#define FLX_RNG_BIT_GENERATOR_ATTRS {sizeof(flx_rng_bit_generator_attrs), {NULL, 0}, FLX_DTYPE_NONE, NULL}

/** state u64[2] (key, block) or philox u64[3] (key, 128-bit block), or the same as u32[4], u32[6]; returns the next
    state and the bits of the blocks from the given one on. A short Philox state has key as the high half of its
    counter; Threefry's two words, where each is an element, are neighbours along the first even (else longest) axis */
static inline uint32_t flx_rng_bit_generator_with(flx_graph *g, flx_val state, flx_val results[2], const
                                                  flx_rng_bit_generator_attrs *attrs)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = state;
    FLX_CHECK_SIZE_(flx_rng_bit_generator_attrs);
    if (FLX_HAS_(flx_rng_bit_generator_attrs, shape) && FLX_LISTED_(attrs->shape))
        flx_a[flx_n++] = flx_attr_ints("shape", attrs->shape);
    if (FLX_HAS_(flx_rng_bit_generator_attrs, dtype) && attrs->dtype != FLX_DTYPE_NONE)
        flx_a[flx_n++] = flx_attr_dtype("dtype", attrs->dtype);
    if (FLX_HAS_(flx_rng_bit_generator_attrs, algorithm) && attrs->algorithm)
        flx_a[flx_n++] = flx_attr_word("algorithm", attrs->algorithm);
    return flx_op(g, "rng_bit_generator", flx_x, 1, flx_n ? flx_a : NULL, flx_n, results, 2);
}

#ifndef __cplusplus
#define flx_rng_bit_generator(...) FLX_RNG_BIT_GENERATOR_(__VA_ARGS__, .struct_size = \
    sizeof(flx_rng_bit_generator_attrs))
#define FLX_RNG_BIT_GENERATOR_(g_, state_, results_, ...) FLX_BUILT_(uint32_t, flx_rng_bit_generator_with((g_), \
    (state_), (results_), &(flx_rng_bit_generator_attrs){.struct_size = 0, __VA_ARGS__}))
#else
static inline uint32_t flx_rng_bit_generator(flx_graph *g, flx_val state, flx_val results[2], const
                                             flx_rng_bit_generator_attrs *attrs)
{
    return flx_rng_bit_generator_with(g, state, results, attrs);
}
#endif

typedef struct flx_rng_split_attrs {
    uint32_t struct_size; /* sizeof(flx_rng_split_attrs) */
    flx_dim num; /* 2 */
} flx_rng_split_attrs;
#define FLX_RNG_SPLIT_ATTRS {sizeof(flx_rng_split_attrs), FLX_DEFAULT}

/** u32[num, 2]: key s is the first two Philox words of key at block s of stream 2^64 - 1 */
static inline flx_val flx_rng_split_with(flx_graph *g, flx_val key, const flx_rng_split_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = key;
    FLX_CHECK_SIZE_(flx_rng_split_attrs);
    if (FLX_HAS_NUMBER_(flx_rng_split_attrs, num) && attrs->num != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("num", attrs->num);
    return flx_op1(g, "rng_split", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_rng_split(...) FLX_RNG_SPLIT_(__VA_ARGS__, .struct_size = sizeof(flx_rng_split_attrs))
#define FLX_RNG_SPLIT_(g_, key_, ...) FLX_BUILT_(flx_val, flx_rng_split_with((g_), (key_), &(flx_rng_split_attrs){.num \
    = FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_rng_split(flx_graph *g, flx_val key, const flx_rng_split_attrs *attrs = NULL)
{
    return flx_rng_split_with(g, key, attrs);
}
#endif

/** the first two Philox words of key at block data (64 bits, sign extended) of stream 2^64 - 2 */
static inline flx_val flx_rng_fold_in(flx_graph *g, flx_val key, flx_val data)
{
    flx_val flx_x[2];
    flx_x[0] = key;
    flx_x[1] = data;
    return flx_op1(g, "rng_fold_in", flx_x, 2, NULL, 0);
}

typedef struct flx_sample_attrs {
    uint32_t struct_size; /* sizeof(flx_sample_attrs) */
    int64_t top_k; /* 0 */
    double top_p; /* 1 */
    double temperature; /* 1 */
    int64_t seed; /* 0 */
} flx_sample_attrs;
#define FLX_SAMPLE_ATTRS {sizeof(flx_sample_attrs), FLX_DEFAULT, NAN, NAN, FLX_DEFAULT}

/** an i32 index drawn from softmax(logits / temperature) along the last axis, restricted to top_k entries and top_p of
    probability; row r uses stream r */
static inline flx_val flx_sample_with(flx_graph *g, flx_val logits, const flx_sample_attrs *attrs)
{
    flx_attr flx_a[4];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = logits;
    FLX_CHECK_SIZE_(flx_sample_attrs);
    if (FLX_HAS_NUMBER_(flx_sample_attrs, top_k) && attrs->top_k != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("top_k", attrs->top_k);
    if (FLX_HAS_NUMBER_(flx_sample_attrs, top_p) && attrs->top_p == attrs->top_p)
        flx_a[flx_n++] = flx_attr_real("top_p", attrs->top_p);
    if (FLX_HAS_NUMBER_(flx_sample_attrs, temperature) && attrs->temperature == attrs->temperature)
        flx_a[flx_n++] = flx_attr_real("temperature", attrs->temperature);
    if (FLX_HAS_NUMBER_(flx_sample_attrs, seed) && attrs->seed != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("seed", attrs->seed);
    return flx_op1(g, "sample", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_sample(...) FLX_SAMPLE_(__VA_ARGS__, .struct_size = sizeof(flx_sample_attrs))
#define FLX_SAMPLE_(g_, logits_, ...) FLX_BUILT_(flx_val, flx_sample_with((g_), (logits_), &(flx_sample_attrs){.top_k \
    = FLX_DEFAULT, .top_p = NAN, .temperature = NAN, .seed = FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_sample(flx_graph *g, flx_val logits, const flx_sample_attrs *attrs = NULL)
{
    return flx_sample_with(g, logits, attrs);
}
#endif

typedef struct flx_bernoulli_attrs {
    uint32_t struct_size; /* sizeof(flx_bernoulli_attrs) */
    flx_ints shape; /* must be given */
} flx_bernoulli_attrs;
#define FLX_BERNOULLI_ATTRS {sizeof(flx_bernoulli_attrs), {NULL, 0}}

/** u < p, with p broadcast to shape and u drawn like rng_uniform in p's dtype */
static inline flx_val flx_bernoulli_with(flx_graph *g, flx_val key, flx_val p, const flx_bernoulli_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = key;
    flx_x[1] = p;
    FLX_CHECK_SIZE_(flx_bernoulli_attrs);
    if (FLX_HAS_(flx_bernoulli_attrs, shape) && FLX_LISTED_(attrs->shape))
        flx_a[flx_n++] = flx_attr_ints("shape", attrs->shape);
    return flx_op1(g, "bernoulli", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_bernoulli(...) FLX_BERNOULLI_(__VA_ARGS__, .struct_size = sizeof(flx_bernoulli_attrs))
#define FLX_BERNOULLI_(g_, key_, p_, ...) FLX_BUILT_(flx_val, flx_bernoulli_with((g_), (key_), (p_), \
    &(flx_bernoulli_attrs){.struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_bernoulli(flx_graph *g, flx_val key, flx_val p, const flx_bernoulli_attrs *attrs)
{
    return flx_bernoulli_with(g, key, p, attrs);
}
#endif

/** i32 argmax of logits - ln(-ln u) along the last axis: index k with probability softmax(logits)[k] */
static inline flx_val flx_categorical(flx_graph *g, flx_val key, flx_val logits)
{
    flx_val flx_x[2];
    flx_x[0] = key;
    flx_x[1] = logits;
    return flx_op1(g, "categorical", flx_x, 2, NULL, 0);
}

typedef struct flx_permutation_attrs {
    uint32_t struct_size; /* sizeof(flx_permutation_attrs) */
    flx_dim n; /* must be given */
} flx_permutation_attrs;
#define FLX_PERMUTATION_ATTRS {sizeof(flx_permutation_attrs), FLX_DEFAULT}

/** i32[n]: argsort(rng_bits(key, shape=[n], dtype=u64)) */
static inline flx_val flx_permutation_with(flx_graph *g, flx_val key, const flx_permutation_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = key;
    FLX_CHECK_SIZE_(flx_permutation_attrs);
    if (FLX_HAS_NUMBER_(flx_permutation_attrs, n) && attrs->n != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("n", attrs->n);
    return flx_op1(g, "permutation", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_permutation(...) FLX_PERMUTATION_(__VA_ARGS__, .struct_size = sizeof(flx_permutation_attrs))
#define FLX_PERMUTATION_(g_, key_, ...) FLX_BUILT_(flx_val, flx_permutation_with((g_), (key_), \
    &(flx_permutation_attrs){.n = FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_permutation(flx_graph *g, flx_val key, const flx_permutation_attrs *attrs)
{
    return flx_permutation_with(g, key, attrs);
}
#endif

typedef struct flx_dropout_attrs {
    uint32_t struct_size; /* sizeof(flx_dropout_attrs) */
    double rate; /* must be given */
} flx_dropout_attrs;
#define FLX_DROPOUT_ATTRS {sizeof(flx_dropout_attrs), NAN}

/** x / (1 - rate) where u >= rate, else 0; u = (word i >> 8) 2^-24 of key, recomputed wherever it is needed */
static inline flx_val flx_dropout_with(flx_graph *g, flx_val x, flx_val key, const flx_dropout_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = x;
    flx_x[1] = key;
    FLX_CHECK_SIZE_(flx_dropout_attrs);
    if (FLX_HAS_NUMBER_(flx_dropout_attrs, rate) && attrs->rate == attrs->rate)
        flx_a[flx_n++] = flx_attr_real("rate", attrs->rate);
    return flx_op1(g, "dropout", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_dropout(...) FLX_DROPOUT_(__VA_ARGS__, .struct_size = sizeof(flx_dropout_attrs))
#define FLX_DROPOUT_(g_, x_, key_, ...) FLX_BUILT_(flx_val, flx_dropout_with((g_), (x_), (key_), \
    &(flx_dropout_attrs){.rate = NAN, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_dropout(flx_graph *g, flx_val x, flx_val key, const flx_dropout_attrs *attrs)
{
    return flx_dropout_with(g, x, key, attrs);
}
#endif

typedef struct flx_truncated_normal_attrs {
    uint32_t struct_size; /* sizeof(flx_truncated_normal_attrs) */
    flx_ints shape; /* must be given */
    flx_dtype dtype; /* f32 */
} flx_truncated_normal_attrs;
#define FLX_TRUNCATED_NORMAL_ATTRS {sizeof(flx_truncated_normal_attrs), {NULL, 0}, FLX_DTYPE_NONE}

/** standard normal restricted to [-2, 2]: sqrt(2) erf_inv((2 u - 1) erf(sqrt(2))) */
static inline flx_val flx_truncated_normal_with(flx_graph *g, flx_val key, const flx_truncated_normal_attrs *attrs)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = key;
    FLX_CHECK_SIZE_(flx_truncated_normal_attrs);
    if (FLX_HAS_(flx_truncated_normal_attrs, shape) && FLX_LISTED_(attrs->shape))
        flx_a[flx_n++] = flx_attr_ints("shape", attrs->shape);
    if (FLX_HAS_(flx_truncated_normal_attrs, dtype) && attrs->dtype != FLX_DTYPE_NONE)
        flx_a[flx_n++] = flx_attr_dtype("dtype", attrs->dtype);
    return flx_op1(g, "truncated_normal", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_truncated_normal(...) FLX_TRUNCATED_NORMAL_(__VA_ARGS__, .struct_size = \
    sizeof(flx_truncated_normal_attrs))
#define FLX_TRUNCATED_NORMAL_(g_, key_, ...) FLX_BUILT_(flx_val, flx_truncated_normal_with((g_), (key_), \
    &(flx_truncated_normal_attrs){.struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_truncated_normal(flx_graph *g, flx_val key, const flx_truncated_normal_attrs *attrs)
{
    return flx_truncated_normal_with(g, key, attrs);
}
#endif

typedef struct flx_exponential_attrs {
    uint32_t struct_size; /* sizeof(flx_exponential_attrs) */
    flx_ints shape; /* must be given */
    flx_dtype dtype; /* f32 */
} flx_exponential_attrs;
#define FLX_EXPONENTIAL_ATTRS {sizeof(flx_exponential_attrs), {NULL, 0}, FLX_DTYPE_NONE}

/** -log1p(-u), rate 1; u drawn like rng_uniform */
static inline flx_val flx_exponential_with(flx_graph *g, flx_val key, const flx_exponential_attrs *attrs)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = key;
    FLX_CHECK_SIZE_(flx_exponential_attrs);
    if (FLX_HAS_(flx_exponential_attrs, shape) && FLX_LISTED_(attrs->shape))
        flx_a[flx_n++] = flx_attr_ints("shape", attrs->shape);
    if (FLX_HAS_(flx_exponential_attrs, dtype) && attrs->dtype != FLX_DTYPE_NONE)
        flx_a[flx_n++] = flx_attr_dtype("dtype", attrs->dtype);
    return flx_op1(g, "exponential", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_exponential(...) FLX_EXPONENTIAL_(__VA_ARGS__, .struct_size = sizeof(flx_exponential_attrs))
#define FLX_EXPONENTIAL_(g_, key_, ...) FLX_BUILT_(flx_val, flx_exponential_with((g_), (key_), \
    &(flx_exponential_attrs){.struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_exponential(flx_graph *g, flx_val key, const flx_exponential_attrs *attrs)
{
    return flx_exponential_with(g, key, attrs);
}
#endif

typedef struct flx_gamma_attrs {
    uint32_t struct_size; /* sizeof(flx_gamma_attrs) */
    flx_ints shape; /* must be given */
} flx_gamma_attrs;
#define FLX_GAMMA_ATTRS {sizeof(flx_gamma_attrs), {NULL, 0}}

/** Gamma(a, 1), a broadcast to shape: Marsaglia and Tsang's rejection method, independent for each element; NaN for a
    <= 0 */
static inline flx_val flx_gamma_with(flx_graph *g, flx_val key, flx_val a, const flx_gamma_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = key;
    flx_x[1] = a;
    FLX_CHECK_SIZE_(flx_gamma_attrs);
    if (FLX_HAS_(flx_gamma_attrs, shape) && FLX_LISTED_(attrs->shape))
        flx_a[flx_n++] = flx_attr_ints("shape", attrs->shape);
    return flx_op1(g, "gamma", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_gamma(...) FLX_GAMMA_(__VA_ARGS__, .struct_size = sizeof(flx_gamma_attrs))
#define FLX_GAMMA_(g_, key_, a_, ...) FLX_BUILT_(flx_val, flx_gamma_with((g_), (key_), (a_), \
    &(flx_gamma_attrs){.struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_gamma(flx_graph *g, flx_val key, flx_val a, const flx_gamma_attrs *attrs)
{
    return flx_gamma_with(g, key, a, attrs);
}
#endif


/* ---- control ---- */

typedef struct flx_if_attrs {
    uint32_t struct_size; /* sizeof(flx_if_attrs) */
    const flx_graph *then; /* must be given */
    const flx_graph *else_; /* must be given */
} flx_if_attrs;
#define FLX_IF_ATTRS {sizeof(flx_if_attrs), NULL, NULL}

/** then(x...) where the one-element pred is nonzero and not NaN, else(x...) */
static inline uint32_t flx_if_with(flx_graph *g, const flx_val *operands, size_t num_operands, flx_val *results, size_t
                                   capacity, const flx_if_attrs *attrs)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    FLX_CHECK_SIZE_(flx_if_attrs);
    if (FLX_HAS_(flx_if_attrs, then) && attrs->then)
        flx_a[flx_n++] = flx_attr_graph("then", attrs->then);
    if (FLX_HAS_(flx_if_attrs, else_) && attrs->else_)
        flx_a[flx_n++] = flx_attr_graph("else", attrs->else_);
    return flx_op(g, "if", operands, num_operands, flx_n ? flx_a : NULL, flx_n, results, capacity);
}

#ifndef __cplusplus
#define flx_if(...) FLX_IF_(__VA_ARGS__, .struct_size = sizeof(flx_if_attrs))
#define FLX_IF_(g_, operands_, num_operands_, results_, capacity_, ...) FLX_BUILT_(uint32_t, flx_if_with((g_), \
    (operands_), (num_operands_), (results_), (capacity_), &(flx_if_attrs){.struct_size = 0, __VA_ARGS__}))
#else
static inline uint32_t flx_if(flx_graph *g, const flx_val *operands, size_t num_operands, flx_val *results, size_t
                              capacity, const flx_if_attrs *attrs)
{
    return flx_if_with(g, operands, num_operands, results, capacity, attrs);
}
#endif

typedef struct flx_case_attrs {
    uint32_t struct_size; /* sizeof(flx_case_attrs) */
    flx_graphs branches; /* must be given */
} flx_case_attrs;
#define FLX_CASE_ATTRS {sizeof(flx_case_attrs), {NULL, 0}}

/** branches[index](x...); an index outside the list takes the last branch */
static inline uint32_t flx_case_with(flx_graph *g, const flx_val *operands, size_t num_operands, flx_val *results,
                                     size_t capacity, const flx_case_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    FLX_CHECK_SIZE_(flx_case_attrs);
    if (FLX_HAS_(flx_case_attrs, branches) && FLX_LISTED_(attrs->branches))
        flx_a[flx_n++] = flx_attr_graphs("branches", attrs->branches);
    return flx_op(g, "case", operands, num_operands, flx_n ? flx_a : NULL, flx_n, results, capacity);
}

#ifndef __cplusplus
#define flx_case(...) FLX_CASE_(__VA_ARGS__, .struct_size = sizeof(flx_case_attrs))
#define FLX_CASE_(g_, operands_, num_operands_, results_, capacity_, ...) FLX_BUILT_(uint32_t, flx_case_with((g_), \
    (operands_), (num_operands_), (results_), (capacity_), &(flx_case_attrs){.struct_size = 0, __VA_ARGS__}))
#else
static inline uint32_t flx_case(flx_graph *g, const flx_val *operands, size_t num_operands, flx_val *results, size_t
                                capacity, const flx_case_attrs *attrs)
{
    return flx_case_with(g, operands, num_operands, results, capacity, attrs);
}
#endif

typedef struct flx_while_attrs {
    uint32_t struct_size; /* sizeof(flx_while_attrs) */
    const flx_graph *cond; /* must be given */
    const flx_graph *body; /* must be given */
    int64_t max_iterations; /* none */
} flx_while_attrs;
#define FLX_WHILE_ATTRS {sizeof(flx_while_attrs), NULL, NULL, FLX_DEFAULT}

/** c = body(c) as long as cond(c) is true, at most max_iterations times */
static inline uint32_t flx_while_with(flx_graph *g, const flx_val *operands, size_t num_operands, flx_val *results,
                                      size_t capacity, const flx_while_attrs *attrs)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    FLX_CHECK_SIZE_(flx_while_attrs);
    if (FLX_HAS_(flx_while_attrs, cond) && attrs->cond)
        flx_a[flx_n++] = flx_attr_graph("cond", attrs->cond);
    if (FLX_HAS_(flx_while_attrs, body) && attrs->body)
        flx_a[flx_n++] = flx_attr_graph("body", attrs->body);
    if (FLX_HAS_NUMBER_(flx_while_attrs, max_iterations) && attrs->max_iterations != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("max_iterations", attrs->max_iterations);
    return flx_op(g, "while", operands, num_operands, flx_n ? flx_a : NULL, flx_n, results, capacity);
}

#ifndef __cplusplus
#define flx_while(...) FLX_WHILE_(__VA_ARGS__, .struct_size = sizeof(flx_while_attrs))
#define FLX_WHILE_(g_, operands_, num_operands_, results_, capacity_, ...) FLX_BUILT_(uint32_t, flx_while_with((g_), \
    (operands_), (num_operands_), (results_), (capacity_), &(flx_while_attrs){.max_iterations = FLX_DEFAULT, \
    .struct_size = 0, __VA_ARGS__}))
#else
static inline uint32_t flx_while(flx_graph *g, const flx_val *operands, size_t num_operands, flx_val *results, size_t
                                 capacity, const flx_while_attrs *attrs)
{
    return flx_while_with(g, operands, num_operands, results, capacity, attrs);
}
#endif

typedef struct flx_custom_fn_attrs {
    uint32_t struct_size; /* sizeof(flx_custom_fn_attrs) */
    const flx_graph *fwd_body; /* must be given */
    const flx_graph *vjp_body; /* none */
    const flx_graph *jvp_body; /* none */
    int64_t num_residuals; /* 0 */
    flx_ints zero_grads; /* [] */
    int recompute; /* false */
} flx_custom_fn_attrs;
#define FLX_CUSTOM_FN_ATTRS {sizeof(flx_custom_fn_attrs), NULL, NULL, NULL, FLX_DEFAULT, {NULL, 0}, -1}

/** fwd_body(x...) with user-defined derivatives: dx... = vjp_body(x..., y..., residuals..., dy...), without those in
    zero_grads and integers; dy... = jvp_body(x..., dx..., y...); residuals are the last num_residuals values of
    fwd_body; with recompute, reverse mode recomputes intermediate values instead of keeping them */
static inline uint32_t flx_custom_fn_with(flx_graph *g, const flx_val *operands, size_t num_operands, flx_val *results,
                                          size_t capacity, const flx_custom_fn_attrs *attrs)
{
    flx_attr flx_a[6];
    size_t flx_n = 0;
    FLX_CHECK_SIZE_(flx_custom_fn_attrs);
    if (FLX_HAS_(flx_custom_fn_attrs, fwd_body) && attrs->fwd_body)
        flx_a[flx_n++] = flx_attr_graph("fwd_body", attrs->fwd_body);
    if (FLX_HAS_(flx_custom_fn_attrs, vjp_body) && attrs->vjp_body)
        flx_a[flx_n++] = flx_attr_graph("vjp_body", attrs->vjp_body);
    if (FLX_HAS_(flx_custom_fn_attrs, jvp_body) && attrs->jvp_body)
        flx_a[flx_n++] = flx_attr_graph("jvp_body", attrs->jvp_body);
    if (FLX_HAS_NUMBER_(flx_custom_fn_attrs, num_residuals) && attrs->num_residuals != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("num_residuals", attrs->num_residuals);
    if (FLX_HAS_(flx_custom_fn_attrs, zero_grads) && FLX_LISTED_(attrs->zero_grads))
        flx_a[flx_n++] = flx_attr_ints("zero_grads", attrs->zero_grads);
    if (FLX_HAS_NUMBER_(flx_custom_fn_attrs, recompute) && attrs->recompute >= 0)
        flx_a[flx_n++] = flx_attr_int("recompute", attrs->recompute);
    return flx_op(g, "custom_fn", operands, num_operands, flx_n ? flx_a : NULL, flx_n, results, capacity);
}

#ifndef __cplusplus
#define flx_custom_fn(...) FLX_CUSTOM_FN_(__VA_ARGS__, .struct_size = sizeof(flx_custom_fn_attrs))
#define FLX_CUSTOM_FN_(g_, operands_, num_operands_, results_, capacity_, ...) FLX_BUILT_(uint32_t, \
    flx_custom_fn_with((g_), (operands_), (num_operands_), (results_), (capacity_), \
    &(flx_custom_fn_attrs){.num_residuals = FLX_DEFAULT, .recompute = -1, .struct_size = 0, __VA_ARGS__}))
#else
static inline uint32_t flx_custom_fn(flx_graph *g, const flx_val *operands, size_t num_operands, flx_val *results,
                                     size_t capacity, const flx_custom_fn_attrs *attrs)
{
    return flx_custom_fn_with(g, operands, num_operands, results, capacity, attrs);
}
#endif

typedef struct flx_call_attrs {
    uint32_t struct_size; /* sizeof(flx_call_attrs) */
    const flx_graph *body; /* must be given */
} flx_call_attrs;
#define FLX_CALL_ATTRS {sizeof(flx_call_attrs), NULL}

/** body(x...); a body is differentiated, batched and compiled once however often it is called, and inlined where it is
    small */
static inline uint32_t flx_call_with(flx_graph *g, const flx_val *operands, size_t num_operands, flx_val *results,
                                     size_t capacity, const flx_call_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    FLX_CHECK_SIZE_(flx_call_attrs);
    if (FLX_HAS_(flx_call_attrs, body) && attrs->body)
        flx_a[flx_n++] = flx_attr_graph("body", attrs->body);
    return flx_op(g, "call", operands, num_operands, flx_n ? flx_a : NULL, flx_n, results, capacity);
}

#ifndef __cplusplus
#define flx_call(...) FLX_CALL_(__VA_ARGS__, .struct_size = sizeof(flx_call_attrs))
#define FLX_CALL_(g_, operands_, num_operands_, results_, capacity_, ...) FLX_BUILT_(uint32_t, flx_call_with((g_), \
    (operands_), (num_operands_), (results_), (capacity_), &(flx_call_attrs){.struct_size = 0, __VA_ARGS__}))
#else
static inline uint32_t flx_call(flx_graph *g, const flx_val *operands, size_t num_operands, flx_val *results, size_t
                                capacity, const flx_call_attrs *attrs)
{
    return flx_call_with(g, operands, num_operands, results, capacity, attrs);
}
#endif

typedef struct flx_scan_attrs {
    uint32_t struct_size; /* sizeof(flx_scan_attrs) */
    const flx_graph *body; /* must be given */
    int64_t num_carry; /* 1 */
    int64_t num_bcast; /* 0 */
    int64_t num_xs; /* the rest */
    flx_dim length; /* extent of the xs */
    int reverse; /* false */
    int save_trajectory; /* false */
    int64_t num_checkpoints; /* 0 */
} flx_scan_attrs;
#define FLX_SCAN_ATTRS {sizeof(flx_scan_attrs), NULL, FLX_DEFAULT, FLX_DEFAULT, FLX_DEFAULT, FLX_DEFAULT, -1, -1, \
    FLX_DEFAULT}

/** operands are carries, broadcast inputs, sequences; step t: carries, ys[t] = body(carries, broadcasts, xs[t]);
    returns the final carries (or their trajectories), then the stacked ys */
static inline uint32_t flx_scan_with(flx_graph *g, const flx_val *operands, size_t num_operands, flx_val *results,
                                     size_t capacity, const flx_scan_attrs *attrs)
{
    flx_attr flx_a[8];
    size_t flx_n = 0;
    FLX_CHECK_SIZE_(flx_scan_attrs);
    if (FLX_HAS_(flx_scan_attrs, body) && attrs->body)
        flx_a[flx_n++] = flx_attr_graph("body", attrs->body);
    if (FLX_HAS_NUMBER_(flx_scan_attrs, num_carry) && attrs->num_carry != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("num_carry", attrs->num_carry);
    if (FLX_HAS_NUMBER_(flx_scan_attrs, num_bcast) && attrs->num_bcast != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("num_bcast", attrs->num_bcast);
    if (FLX_HAS_NUMBER_(flx_scan_attrs, num_xs) && attrs->num_xs != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("num_xs", attrs->num_xs);
    if (FLX_HAS_NUMBER_(flx_scan_attrs, length) && attrs->length != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("length", attrs->length);
    if (FLX_HAS_NUMBER_(flx_scan_attrs, reverse) && attrs->reverse >= 0)
        flx_a[flx_n++] = flx_attr_int("reverse", attrs->reverse);
    if (FLX_HAS_NUMBER_(flx_scan_attrs, save_trajectory) && attrs->save_trajectory >= 0)
        flx_a[flx_n++] = flx_attr_int("save_trajectory", attrs->save_trajectory);
    if (FLX_HAS_NUMBER_(flx_scan_attrs, num_checkpoints) && attrs->num_checkpoints != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("num_checkpoints", attrs->num_checkpoints);
    return flx_op(g, "scan", operands, num_operands, flx_n ? flx_a : NULL, flx_n, results, capacity);
}

#ifndef __cplusplus
#define flx_scan(...) FLX_SCAN_(__VA_ARGS__, .struct_size = sizeof(flx_scan_attrs))
#define FLX_SCAN_(g_, operands_, num_operands_, results_, capacity_, ...) FLX_BUILT_(uint32_t, flx_scan_with((g_), \
    (operands_), (num_operands_), (results_), (capacity_), &(flx_scan_attrs){.num_carry = FLX_DEFAULT, .num_bcast = \
    FLX_DEFAULT, .num_xs = FLX_DEFAULT, .length = FLX_DEFAULT, .reverse = -1, .save_trajectory = -1, .num_checkpoints \
    = FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline uint32_t flx_scan(flx_graph *g, const flx_val *operands, size_t num_operands, flx_val *results, size_t
                                capacity, const flx_scan_attrs *attrs)
{
    return flx_scan_with(g, operands, num_operands, results, capacity, attrs);
}
#endif

typedef struct flx_while_backward_attrs {
    uint32_t struct_size; /* sizeof(flx_while_backward_attrs) */
    const flx_graph *cond; /* must be given */
    const flx_graph *body; /* must be given */
    const flx_graph *body_vjp; /* must be given */
    int64_t max_iterations; /* none */
} flx_while_backward_attrs;
#define FLX_WHILE_BACKWARD_ATTRS {sizeof(flx_while_backward_attrs), NULL, NULL, NULL, FLX_DEFAULT}

/** the vjp of while: operands are its carries, then a cotangent for each floating carry; returns the cotangents of the
    initial carries */
static inline uint32_t flx_while_backward_with(flx_graph *g, const flx_val *operands, size_t num_operands, flx_val
                                               *results, size_t capacity, const flx_while_backward_attrs *attrs)
{
    flx_attr flx_a[4];
    size_t flx_n = 0;
    FLX_CHECK_SIZE_(flx_while_backward_attrs);
    if (FLX_HAS_(flx_while_backward_attrs, cond) && attrs->cond)
        flx_a[flx_n++] = flx_attr_graph("cond", attrs->cond);
    if (FLX_HAS_(flx_while_backward_attrs, body) && attrs->body)
        flx_a[flx_n++] = flx_attr_graph("body", attrs->body);
    if (FLX_HAS_(flx_while_backward_attrs, body_vjp) && attrs->body_vjp)
        flx_a[flx_n++] = flx_attr_graph("body_vjp", attrs->body_vjp);
    if (FLX_HAS_NUMBER_(flx_while_backward_attrs, max_iterations) && attrs->max_iterations != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("max_iterations", attrs->max_iterations);
    return flx_op(g, "while_backward", operands, num_operands, flx_n ? flx_a : NULL, flx_n, results, capacity);
}

#ifndef __cplusplus
#define flx_while_backward(...) FLX_WHILE_BACKWARD_(__VA_ARGS__, .struct_size = sizeof(flx_while_backward_attrs))
#define FLX_WHILE_BACKWARD_(g_, operands_, num_operands_, results_, capacity_, ...) FLX_BUILT_(uint32_t, \
    flx_while_backward_with((g_), (operands_), (num_operands_), (results_), (capacity_), \
    &(flx_while_backward_attrs){.max_iterations = FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline uint32_t flx_while_backward(flx_graph *g, const flx_val *operands, size_t num_operands, flx_val *results,
                                          size_t capacity, const flx_while_backward_attrs *attrs)
{
    return flx_while_backward_with(g, operands, num_operands, results, capacity, attrs);
}
#endif

typedef struct flx_scan_backward_attrs {
    uint32_t struct_size; /* sizeof(flx_scan_backward_attrs) */
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
#define FLX_SCAN_BACKWARD_ATTRS {sizeof(flx_scan_backward_attrs), NULL, NULL, FLX_DEFAULT, FLX_DEFAULT, FLX_DEFAULT, \
    -1, -1, {NULL, 0}, {NULL, 0}}

/** the cotangents of a scan's initial carries, then of its wanted broadcast inputs: operands are init..., trajectory...
    (row t: the carry after step t), upstream... (a cotangent for each seeded output of the body), bcast..., xs... */
static inline uint32_t flx_scan_backward_with(flx_graph *g, const flx_val *operands, size_t num_operands, flx_val
                                              *results, size_t capacity, const flx_scan_backward_attrs *attrs)
{
    flx_attr flx_a[9];
    size_t flx_n = 0;
    FLX_CHECK_SIZE_(flx_scan_backward_attrs);
    if (FLX_HAS_(flx_scan_backward_attrs, body) && attrs->body)
        flx_a[flx_n++] = flx_attr_graph("body", attrs->body);
    if (FLX_HAS_(flx_scan_backward_attrs, body_vjp) && attrs->body_vjp)
        flx_a[flx_n++] = flx_attr_graph("body_vjp", attrs->body_vjp);
    if (FLX_HAS_NUMBER_(flx_scan_backward_attrs, num_carry) && attrs->num_carry != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("num_carry", attrs->num_carry);
    if (FLX_HAS_NUMBER_(flx_scan_backward_attrs, num_bcast) && attrs->num_bcast != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("num_bcast", attrs->num_bcast);
    if (FLX_HAS_NUMBER_(flx_scan_backward_attrs, length) && attrs->length != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("length", attrs->length);
    if (FLX_HAS_NUMBER_(flx_scan_backward_attrs, reverse) && attrs->reverse >= 0)
        flx_a[flx_n++] = flx_attr_int("reverse", attrs->reverse);
    if (FLX_HAS_NUMBER_(flx_scan_backward_attrs, save_trajectory) && attrs->save_trajectory >= 0)
        flx_a[flx_n++] = flx_attr_int("save_trajectory", attrs->save_trajectory);
    if (FLX_HAS_(flx_scan_backward_attrs, wanted) && FLX_LISTED_(attrs->wanted))
        flx_a[flx_n++] = flx_attr_ints("wanted", attrs->wanted);
    if (FLX_HAS_(flx_scan_backward_attrs, seeded) && FLX_LISTED_(attrs->seeded))
        flx_a[flx_n++] = flx_attr_ints("seeded", attrs->seeded);
    return flx_op(g, "scan_backward", operands, num_operands, flx_n ? flx_a : NULL, flx_n, results, capacity);
}

#ifndef __cplusplus
#define flx_scan_backward(...) FLX_SCAN_BACKWARD_(__VA_ARGS__, .struct_size = sizeof(flx_scan_backward_attrs))
#define FLX_SCAN_BACKWARD_(g_, operands_, num_operands_, results_, capacity_, ...) FLX_BUILT_(uint32_t, \
    flx_scan_backward_with((g_), (operands_), (num_operands_), (results_), (capacity_), \
    &(flx_scan_backward_attrs){.num_carry = FLX_DEFAULT, .num_bcast = FLX_DEFAULT, .length = FLX_DEFAULT, .reverse = \
    -1, .save_trajectory = -1, .struct_size = 0, __VA_ARGS__}))
#else
static inline uint32_t flx_scan_backward(flx_graph *g, const flx_val *operands, size_t num_operands, flx_val *results,
                                         size_t capacity, const flx_scan_backward_attrs *attrs)
{
    return flx_scan_backward_with(g, operands, num_operands, results, capacity, attrs);
}
#endif

typedef struct flx_scan_backward_xs_attrs {
    uint32_t struct_size; /* sizeof(flx_scan_backward_xs_attrs) */
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
#define FLX_SCAN_BACKWARD_XS_ATTRS {sizeof(flx_scan_backward_xs_attrs), NULL, NULL, FLX_DEFAULT, FLX_DEFAULT, \
    FLX_DEFAULT, -1, -1, {NULL, 0}, {NULL, 0}, FLX_DEFAULT}

/** the cotangent of a scan's sequence i; operands as for scan_backward */
static inline flx_val flx_scan_backward_xs_with(flx_graph *g, const flx_val *operands, size_t num_operands, const
                                                flx_scan_backward_xs_attrs *attrs)
{
    flx_attr flx_a[10];
    size_t flx_n = 0;
    FLX_CHECK_SIZE_(flx_scan_backward_xs_attrs);
    if (FLX_HAS_(flx_scan_backward_xs_attrs, body) && attrs->body)
        flx_a[flx_n++] = flx_attr_graph("body", attrs->body);
    if (FLX_HAS_(flx_scan_backward_xs_attrs, body_vjp) && attrs->body_vjp)
        flx_a[flx_n++] = flx_attr_graph("body_vjp", attrs->body_vjp);
    if (FLX_HAS_NUMBER_(flx_scan_backward_xs_attrs, num_carry) && attrs->num_carry != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("num_carry", attrs->num_carry);
    if (FLX_HAS_NUMBER_(flx_scan_backward_xs_attrs, num_bcast) && attrs->num_bcast != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("num_bcast", attrs->num_bcast);
    if (FLX_HAS_NUMBER_(flx_scan_backward_xs_attrs, length) && attrs->length != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("length", attrs->length);
    if (FLX_HAS_NUMBER_(flx_scan_backward_xs_attrs, reverse) && attrs->reverse >= 0)
        flx_a[flx_n++] = flx_attr_int("reverse", attrs->reverse);
    if (FLX_HAS_NUMBER_(flx_scan_backward_xs_attrs, save_trajectory) && attrs->save_trajectory >= 0)
        flx_a[flx_n++] = flx_attr_int("save_trajectory", attrs->save_trajectory);
    if (FLX_HAS_(flx_scan_backward_xs_attrs, wanted) && FLX_LISTED_(attrs->wanted))
        flx_a[flx_n++] = flx_attr_ints("wanted", attrs->wanted);
    if (FLX_HAS_(flx_scan_backward_xs_attrs, seeded) && FLX_LISTED_(attrs->seeded))
        flx_a[flx_n++] = flx_attr_ints("seeded", attrs->seeded);
    if (FLX_HAS_NUMBER_(flx_scan_backward_xs_attrs, i) && attrs->i != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("i", attrs->i);
    return flx_op1(g, "scan_backward_xs", operands, num_operands, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_scan_backward_xs(...) FLX_SCAN_BACKWARD_XS_(__VA_ARGS__, .struct_size = \
    sizeof(flx_scan_backward_xs_attrs))
#define FLX_SCAN_BACKWARD_XS_(g_, operands_, num_operands_, ...) FLX_BUILT_(flx_val, flx_scan_backward_xs_with((g_), \
    (operands_), (num_operands_), &(flx_scan_backward_xs_attrs){.num_carry = FLX_DEFAULT, .num_bcast = FLX_DEFAULT, \
    .length = FLX_DEFAULT, .reverse = -1, .save_trajectory = -1, .i = FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_scan_backward_xs(flx_graph *g, const flx_val *operands, size_t num_operands, const
                                           flx_scan_backward_xs_attrs *attrs)
{
    return flx_scan_backward_xs_with(g, operands, num_operands, attrs);
}
#endif

typedef struct flx_scan_replay_backward_attrs {
    uint32_t struct_size; /* sizeof(flx_scan_replay_backward_attrs) */
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
#define FLX_SCAN_REPLAY_BACKWARD_ATTRS {sizeof(flx_scan_replay_backward_attrs), NULL, NULL, FLX_DEFAULT, FLX_DEFAULT, \
    FLX_DEFAULT, -1, FLX_DEFAULT, {NULL, 0}, {NULL, 0}}

/** the vjp of a scan that keeps num_checkpoints carries and recomputes the others: operands are those of the scan, then
    cotangents of the seeded outputs; returns cotangents of the wanted inputs */
static inline uint32_t flx_scan_replay_backward_with(flx_graph *g, const flx_val *operands, size_t num_operands, flx_val
                                                     *results, size_t capacity, const flx_scan_replay_backward_attrs
                                                     *attrs)
{
    flx_attr flx_a[9];
    size_t flx_n = 0;
    FLX_CHECK_SIZE_(flx_scan_replay_backward_attrs);
    if (FLX_HAS_(flx_scan_replay_backward_attrs, body) && attrs->body)
        flx_a[flx_n++] = flx_attr_graph("body", attrs->body);
    if (FLX_HAS_(flx_scan_replay_backward_attrs, body_vjp) && attrs->body_vjp)
        flx_a[flx_n++] = flx_attr_graph("body_vjp", attrs->body_vjp);
    if (FLX_HAS_NUMBER_(flx_scan_replay_backward_attrs, num_carry) && attrs->num_carry != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("num_carry", attrs->num_carry);
    if (FLX_HAS_NUMBER_(flx_scan_replay_backward_attrs, num_bcast) && attrs->num_bcast != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("num_bcast", attrs->num_bcast);
    if (FLX_HAS_NUMBER_(flx_scan_replay_backward_attrs, length) && attrs->length != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("length", attrs->length);
    if (FLX_HAS_NUMBER_(flx_scan_replay_backward_attrs, reverse) && attrs->reverse >= 0)
        flx_a[flx_n++] = flx_attr_int("reverse", attrs->reverse);
    if (FLX_HAS_NUMBER_(flx_scan_replay_backward_attrs, num_checkpoints) && attrs->num_checkpoints != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("num_checkpoints", attrs->num_checkpoints);
    if (FLX_HAS_(flx_scan_replay_backward_attrs, wanted) && FLX_LISTED_(attrs->wanted))
        flx_a[flx_n++] = flx_attr_ints("wanted", attrs->wanted);
    if (FLX_HAS_(flx_scan_replay_backward_attrs, seeded) && FLX_LISTED_(attrs->seeded))
        flx_a[flx_n++] = flx_attr_ints("seeded", attrs->seeded);
    return flx_op(g, "scan_replay_backward", operands, num_operands, flx_n ? flx_a : NULL, flx_n, results, capacity);
}

#ifndef __cplusplus
#define flx_scan_replay_backward(...) FLX_SCAN_REPLAY_BACKWARD_(__VA_ARGS__, .struct_size = \
    sizeof(flx_scan_replay_backward_attrs))
#define FLX_SCAN_REPLAY_BACKWARD_(g_, operands_, num_operands_, results_, capacity_, ...) FLX_BUILT_(uint32_t, \
    flx_scan_replay_backward_with((g_), (operands_), (num_operands_), (results_), (capacity_), \
    &(flx_scan_replay_backward_attrs){.num_carry = FLX_DEFAULT, .num_bcast = FLX_DEFAULT, .length = FLX_DEFAULT, \
    .reverse = -1, .num_checkpoints = FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline uint32_t flx_scan_replay_backward(flx_graph *g, const flx_val *operands, size_t num_operands, flx_val
                                                *results, size_t capacity, const flx_scan_replay_backward_attrs *attrs)
{
    return flx_scan_replay_backward_with(g, operands, num_operands, results, capacity, attrs);
}
#endif


/* ---- custom ---- */

typedef struct flx_kernel_call_attrs {
    uint32_t struct_size; /* sizeof(flx_kernel_call_attrs) */
    const char *kernel; /* must be given */
    const char *inputs; /* "" */
    const char *results; /* "" */
    flx_types outputs; /* from the counts of the results */
    flx_ints grid; /* must be given */
    const char *backward; /* "" */
    int64_t max_trips; /* 0 */
    const char *scratch; /* "" */
    const char *lengths; /* "" */
} flx_kernel_call_attrs;
#define FLX_KERNEL_CALL_ATTRS {sizeof(flx_kernel_call_attrs), NULL, NULL, NULL, {NULL, 0}, {NULL, 0}, NULL, \
    FLX_DEFAULT, NULL, NULL}

/** runs a kernel (docs/kernels.md): operands are its inputs, results its outputs, which start at zero; a buffer that is
    both is copied first */
static inline uint32_t flx_kernel_call_with(flx_graph *g, const flx_val *operands, size_t num_operands, flx_val
                                            *results, size_t capacity, const flx_kernel_call_attrs *attrs)
{
    flx_attr flx_a[9];
    size_t flx_n = 0;
    FLX_CHECK_SIZE_(flx_kernel_call_attrs);
    if (FLX_HAS_(flx_kernel_call_attrs, kernel) && attrs->kernel)
        flx_a[flx_n++] = flx_attr_string("kernel", attrs->kernel);
    if (FLX_HAS_(flx_kernel_call_attrs, inputs) && attrs->inputs)
        flx_a[flx_n++] = flx_attr_string("inputs", attrs->inputs);
    if (FLX_HAS_(flx_kernel_call_attrs, results) && attrs->results)
        flx_a[flx_n++] = flx_attr_string("results", attrs->results);
    if (FLX_HAS_(flx_kernel_call_attrs, outputs) && FLX_LISTED_(attrs->outputs))
        flx_a[flx_n++] = flx_attr_types("outputs", attrs->outputs);
    if (FLX_HAS_(flx_kernel_call_attrs, grid) && FLX_LISTED_(attrs->grid))
        flx_a[flx_n++] = flx_attr_ints("grid", attrs->grid);
    if (FLX_HAS_(flx_kernel_call_attrs, backward) && attrs->backward)
        flx_a[flx_n++] = flx_attr_string("backward", attrs->backward);
    if (FLX_HAS_NUMBER_(flx_kernel_call_attrs, max_trips) && attrs->max_trips != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("max_trips", attrs->max_trips);
    if (FLX_HAS_(flx_kernel_call_attrs, scratch) && attrs->scratch)
        flx_a[flx_n++] = flx_attr_string("scratch", attrs->scratch);
    if (FLX_HAS_(flx_kernel_call_attrs, lengths) && attrs->lengths)
        flx_a[flx_n++] = flx_attr_string("lengths", attrs->lengths);
    return flx_op(g, "kernel_call", operands, num_operands, flx_n ? flx_a : NULL, flx_n, results, capacity);
}

#ifndef __cplusplus
#define flx_kernel_call(...) FLX_KERNEL_CALL_(__VA_ARGS__, .struct_size = sizeof(flx_kernel_call_attrs))
#define FLX_KERNEL_CALL_(g_, operands_, num_operands_, results_, capacity_, ...) FLX_BUILT_(uint32_t, \
    flx_kernel_call_with((g_), (operands_), (num_operands_), (results_), (capacity_), \
    &(flx_kernel_call_attrs){.max_trips = FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline uint32_t flx_kernel_call(flx_graph *g, const flx_val *operands, size_t num_operands, flx_val *results,
                                       size_t capacity, const flx_kernel_call_attrs *attrs)
{
    return flx_kernel_call_with(g, operands, num_operands, results, capacity, attrs);
}
#endif

typedef struct flx_custom_attrs {
    uint32_t struct_size; /* sizeof(flx_custom_attrs) */
    const char *name; /* must be given */
    int effect; /* false */
    const char *attrs; /* "" */
} flx_custom_attrs;
#define FLX_CUSTOM_ATTRS {sizeof(flx_custom_attrs), NULL, -1, NULL}

/** the operation that the program registered under this name, with attributes of its own */
static inline uint32_t flx_custom_with(flx_graph *g, const flx_val *operands, size_t num_operands, flx_val *results,
                                       size_t capacity, const flx_custom_attrs *attrs)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    FLX_CHECK_SIZE_(flx_custom_attrs);
    if (FLX_HAS_(flx_custom_attrs, name) && attrs->name)
        flx_a[flx_n++] = flx_attr_string("name", attrs->name);
    if (FLX_HAS_NUMBER_(flx_custom_attrs, effect) && attrs->effect >= 0)
        flx_a[flx_n++] = flx_attr_int("effect", attrs->effect);
    if (FLX_HAS_(flx_custom_attrs, attrs) && attrs->attrs)
        flx_a[flx_n++] = flx_attr_string("attrs", attrs->attrs);
    return flx_op(g, "custom", operands, num_operands, flx_n ? flx_a : NULL, flx_n, results, capacity);
}

#ifndef __cplusplus
#define flx_custom(...) FLX_CUSTOM_(__VA_ARGS__, .struct_size = sizeof(flx_custom_attrs))
#define FLX_CUSTOM_(g_, operands_, num_operands_, results_, capacity_, ...) FLX_BUILT_(uint32_t, flx_custom_with((g_), \
    (operands_), (num_operands_), (results_), (capacity_), &(flx_custom_attrs){.effect = -1, .struct_size = 0, \
    __VA_ARGS__}))
#else
static inline uint32_t flx_custom(flx_graph *g, const flx_val *operands, size_t num_operands, flx_val *results, size_t
                                  capacity, const flx_custom_attrs *attrs)
{
    return flx_custom_with(g, operands, num_operands, results, capacity, attrs);
}
#endif


/* ---- collective ---- */

typedef struct flx_all_reduce_attrs {
    uint32_t struct_size; /* sizeof(flx_all_reduce_attrs) */
    const char *axis_name; /* must be given */
    const char *op; /* sum; of: sum max min mean prod and or */
    int64_t size; /* 0 */
} flx_all_reduce_attrs;
#define FLX_ALL_REDUCE_ATTRS {sizeof(flx_all_reduce_attrs), NULL, NULL, FLX_DEFAULT}

/** sum, max, min, mean, product, and, or of x over all processes along the axis of the mesh */
static inline flx_val flx_all_reduce_with(flx_graph *g, flx_val x, const flx_all_reduce_attrs *attrs)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_all_reduce_attrs);
    if (FLX_HAS_(flx_all_reduce_attrs, axis_name) && attrs->axis_name)
        flx_a[flx_n++] = flx_attr_string("axis_name", attrs->axis_name);
    if (FLX_HAS_(flx_all_reduce_attrs, op) && attrs->op)
        flx_a[flx_n++] = flx_attr_word("op", attrs->op);
    if (FLX_HAS_NUMBER_(flx_all_reduce_attrs, size) && attrs->size != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("size", attrs->size);
    return flx_op1(g, "all_reduce", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_all_reduce(...) FLX_ALL_REDUCE_(__VA_ARGS__, .struct_size = sizeof(flx_all_reduce_attrs))
#define FLX_ALL_REDUCE_(g_, x_, ...) FLX_BUILT_(flx_val, flx_all_reduce_with((g_), (x_), &(flx_all_reduce_attrs){.size \
    = FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_all_reduce(flx_graph *g, flx_val x, const flx_all_reduce_attrs *attrs)
{
    return flx_all_reduce_with(g, x, attrs);
}
#endif

typedef struct flx_all_gather_attrs {
    uint32_t struct_size; /* sizeof(flx_all_gather_attrs) */
    const char *axis_name; /* must be given */
    int64_t axis; /* 0 */
    int64_t size; /* 1 */
} flx_all_gather_attrs;
#define FLX_ALL_GATHER_ATTRS {sizeof(flx_all_gather_attrs), NULL, FLX_DEFAULT, FLX_DEFAULT}

/** x of all `size` processes joined along axis */
static inline flx_val flx_all_gather_with(flx_graph *g, flx_val x, const flx_all_gather_attrs *attrs)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_all_gather_attrs);
    if (FLX_HAS_(flx_all_gather_attrs, axis_name) && attrs->axis_name)
        flx_a[flx_n++] = flx_attr_string("axis_name", attrs->axis_name);
    if (FLX_HAS_NUMBER_(flx_all_gather_attrs, axis) && attrs->axis != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("axis", attrs->axis);
    if (FLX_HAS_NUMBER_(flx_all_gather_attrs, size) && attrs->size != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("size", attrs->size);
    return flx_op1(g, "all_gather", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_all_gather(...) FLX_ALL_GATHER_(__VA_ARGS__, .struct_size = sizeof(flx_all_gather_attrs))
#define FLX_ALL_GATHER_(g_, x_, ...) FLX_BUILT_(flx_val, flx_all_gather_with((g_), (x_), &(flx_all_gather_attrs){.axis \
    = FLX_DEFAULT, .size = FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_all_gather(flx_graph *g, flx_val x, const flx_all_gather_attrs *attrs)
{
    return flx_all_gather_with(g, x, attrs);
}
#endif

typedef struct flx_reduce_scatter_attrs {
    uint32_t struct_size; /* sizeof(flx_reduce_scatter_attrs) */
    const char *axis_name; /* must be given */
    int64_t axis; /* 0 */
    int64_t size; /* 1 */
} flx_reduce_scatter_attrs;
#define FLX_REDUCE_SCATTER_ATTRS {sizeof(flx_reduce_scatter_attrs), NULL, FLX_DEFAULT, FLX_DEFAULT}

/** the sum of x over all `size` processes, cut along axis: each process gets its part */
static inline flx_val flx_reduce_scatter_with(flx_graph *g, flx_val x, const flx_reduce_scatter_attrs *attrs)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_reduce_scatter_attrs);
    if (FLX_HAS_(flx_reduce_scatter_attrs, axis_name) && attrs->axis_name)
        flx_a[flx_n++] = flx_attr_string("axis_name", attrs->axis_name);
    if (FLX_HAS_NUMBER_(flx_reduce_scatter_attrs, axis) && attrs->axis != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("axis", attrs->axis);
    if (FLX_HAS_NUMBER_(flx_reduce_scatter_attrs, size) && attrs->size != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("size", attrs->size);
    return flx_op1(g, "reduce_scatter", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_reduce_scatter(...) FLX_REDUCE_SCATTER_(__VA_ARGS__, .struct_size = sizeof(flx_reduce_scatter_attrs))
#define FLX_REDUCE_SCATTER_(g_, x_, ...) FLX_BUILT_(flx_val, flx_reduce_scatter_with((g_), (x_), \
    &(flx_reduce_scatter_attrs){.axis = FLX_DEFAULT, .size = FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_reduce_scatter(flx_graph *g, flx_val x, const flx_reduce_scatter_attrs *attrs)
{
    return flx_reduce_scatter_with(g, x, attrs);
}
#endif

typedef struct flx_all_to_all_attrs {
    uint32_t struct_size; /* sizeof(flx_all_to_all_attrs) */
    const char *axis_name; /* must be given */
    int64_t split_axis; /* 0 */
    int64_t concat_axis; /* 0 */
    int64_t size; /* 1 */
} flx_all_to_all_attrs;
#define FLX_ALL_TO_ALL_ATTRS {sizeof(flx_all_to_all_attrs), NULL, FLX_DEFAULT, FLX_DEFAULT, FLX_DEFAULT}

/** x cut along split_axis, one part for each of `size` processes; the received parts are joined along concat_axis */
static inline flx_val flx_all_to_all_with(flx_graph *g, flx_val x, const flx_all_to_all_attrs *attrs)
{
    flx_attr flx_a[4];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_all_to_all_attrs);
    if (FLX_HAS_(flx_all_to_all_attrs, axis_name) && attrs->axis_name)
        flx_a[flx_n++] = flx_attr_string("axis_name", attrs->axis_name);
    if (FLX_HAS_NUMBER_(flx_all_to_all_attrs, split_axis) && attrs->split_axis != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("split_axis", attrs->split_axis);
    if (FLX_HAS_NUMBER_(flx_all_to_all_attrs, concat_axis) && attrs->concat_axis != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("concat_axis", attrs->concat_axis);
    if (FLX_HAS_NUMBER_(flx_all_to_all_attrs, size) && attrs->size != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("size", attrs->size);
    return flx_op1(g, "all_to_all", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_all_to_all(...) FLX_ALL_TO_ALL_(__VA_ARGS__, .struct_size = sizeof(flx_all_to_all_attrs))
#define FLX_ALL_TO_ALL_(g_, x_, ...) FLX_BUILT_(flx_val, flx_all_to_all_with((g_), (x_), \
    &(flx_all_to_all_attrs){.split_axis = FLX_DEFAULT, .concat_axis = FLX_DEFAULT, .size = FLX_DEFAULT, .struct_size = \
    0, __VA_ARGS__}))
#else
static inline flx_val flx_all_to_all(flx_graph *g, flx_val x, const flx_all_to_all_attrs *attrs)
{
    return flx_all_to_all_with(g, x, attrs);
}
#endif

typedef struct flx_broadcast_attrs {
    uint32_t struct_size; /* sizeof(flx_broadcast_attrs) */
    const char *axis_name; /* must be given */
    int64_t root; /* 0 */
} flx_broadcast_attrs;
#define FLX_BROADCAST_ATTRS {sizeof(flx_broadcast_attrs), NULL, FLX_DEFAULT}

/** x of process root, on every process */
static inline flx_val flx_broadcast_with(flx_graph *g, flx_val x, const flx_broadcast_attrs *attrs)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_broadcast_attrs);
    if (FLX_HAS_(flx_broadcast_attrs, axis_name) && attrs->axis_name)
        flx_a[flx_n++] = flx_attr_string("axis_name", attrs->axis_name);
    if (FLX_HAS_NUMBER_(flx_broadcast_attrs, root) && attrs->root != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("root", attrs->root);
    return flx_op1(g, "broadcast", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_broadcast(...) FLX_BROADCAST_(__VA_ARGS__, .struct_size = sizeof(flx_broadcast_attrs))
#define FLX_BROADCAST_(g_, x_, ...) FLX_BUILT_(flx_val, flx_broadcast_with((g_), (x_), &(flx_broadcast_attrs){.root = \
    FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_broadcast(flx_graph *g, flx_val x, const flx_broadcast_attrs *attrs)
{
    return flx_broadcast_with(g, x, attrs);
}
#endif

typedef struct flx_collective_permute_attrs {
    uint32_t struct_size; /* sizeof(flx_collective_permute_attrs) */
    const char *axis_name; /* must be given */
    flx_ints sources; /* must be given */
    flx_ints targets; /* must be given */
} flx_collective_permute_attrs;
#define FLX_COLLECTIVE_PERMUTE_ATTRS {sizeof(flx_collective_permute_attrs), NULL, {NULL, 0}, {NULL, 0}}

/** x of process sources[i] on process targets[i]; zeros on processes that are no target */
static inline flx_val flx_collective_permute_with(flx_graph *g, flx_val x, const flx_collective_permute_attrs *attrs)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_collective_permute_attrs);
    if (FLX_HAS_(flx_collective_permute_attrs, axis_name) && attrs->axis_name)
        flx_a[flx_n++] = flx_attr_string("axis_name", attrs->axis_name);
    if (FLX_HAS_(flx_collective_permute_attrs, sources) && FLX_LISTED_(attrs->sources))
        flx_a[flx_n++] = flx_attr_ints("sources", attrs->sources);
    if (FLX_HAS_(flx_collective_permute_attrs, targets) && FLX_LISTED_(attrs->targets))
        flx_a[flx_n++] = flx_attr_ints("targets", attrs->targets);
    return flx_op1(g, "collective_permute", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_collective_permute(...) FLX_COLLECTIVE_PERMUTE_(__VA_ARGS__, .struct_size = \
    sizeof(flx_collective_permute_attrs))
#define FLX_COLLECTIVE_PERMUTE_(g_, x_, ...) FLX_BUILT_(flx_val, flx_collective_permute_with((g_), (x_), \
    &(flx_collective_permute_attrs){.struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_collective_permute(flx_graph *g, flx_val x, const flx_collective_permute_attrs *attrs)
{
    return flx_collective_permute_with(g, x, attrs);
}
#endif

typedef struct flx_send_attrs {
    uint32_t struct_size; /* sizeof(flx_send_attrs) */
    const char *axis_name; /* must be given */
    int64_t to; /* must be given */
} flx_send_attrs;
#define FLX_SEND_ATTRS {sizeof(flx_send_attrs), NULL, FLX_DEFAULT}

/** x; process `to` receives it */
static inline flx_val flx_send_with(flx_graph *g, flx_val x, const flx_send_attrs *attrs)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_send_attrs);
    if (FLX_HAS_(flx_send_attrs, axis_name) && attrs->axis_name)
        flx_a[flx_n++] = flx_attr_string("axis_name", attrs->axis_name);
    if (FLX_HAS_NUMBER_(flx_send_attrs, to) && attrs->to != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("to", attrs->to);
    return flx_op1(g, "send", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_send(...) FLX_SEND_(__VA_ARGS__, .struct_size = sizeof(flx_send_attrs))
#define FLX_SEND_(g_, x_, ...) FLX_BUILT_(flx_val, flx_send_with((g_), (x_), &(flx_send_attrs){.to = FLX_DEFAULT, \
    .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_send(flx_graph *g, flx_val x, const flx_send_attrs *attrs)
{
    return flx_send_with(g, x, attrs);
}
#endif

typedef struct flx_recv_attrs {
    uint32_t struct_size; /* sizeof(flx_recv_attrs) */
    const char *axis_name; /* must be given */
    int64_t from; /* must be given */
    const flx_type *type; /* must be given */
} flx_recv_attrs;
#define FLX_RECV_ATTRS {sizeof(flx_recv_attrs), NULL, FLX_DEFAULT, NULL}

/** the value that process `from` sends to this one; zeros from itself */
static inline flx_val flx_recv_with(flx_graph *g, const flx_recv_attrs *attrs)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    FLX_CHECK_SIZE_(flx_recv_attrs);
    if (FLX_HAS_(flx_recv_attrs, axis_name) && attrs->axis_name)
        flx_a[flx_n++] = flx_attr_string("axis_name", attrs->axis_name);
    if (FLX_HAS_NUMBER_(flx_recv_attrs, from) && attrs->from != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("from", attrs->from);
    if (FLX_HAS_(flx_recv_attrs, type) && attrs->type)
        flx_a[flx_n++] = flx_attr_type("type", attrs->type);
    return flx_op1(g, "recv", NULL, 0, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_recv(...) FLX_RECV_(__VA_ARGS__, .struct_size = sizeof(flx_recv_attrs))
#define FLX_RECV_(g_, ...) FLX_BUILT_(flx_val, flx_recv_with((g_), &(flx_recv_attrs){.from = FLX_DEFAULT, .struct_size \
    = 0, __VA_ARGS__}))
#else
static inline flx_val flx_recv(flx_graph *g, const flx_recv_attrs *attrs)
{
    return flx_recv_with(g, attrs);
}
#endif

/** its operands, once all processes have reached this op */
static inline uint32_t flx_barrier(flx_graph *g, const flx_val *operands, size_t num_operands, flx_val *results, size_t
                                   capacity)
{
    return flx_op(g, "barrier", operands, num_operands, NULL, 0, results, capacity);
}

typedef struct flx_shard_attrs {
    uint32_t struct_size; /* sizeof(flx_shard_attrs) */
    const char *spec; /* must be given */
} flx_shard_attrs;
#define FLX_SHARD_ATTRS {sizeof(flx_shard_attrs), NULL}

/** x; where a graph is cut for a mesh, axis i of it is cut along the i-th axis of the mesh in spec, or whole (-) */
static inline flx_val flx_shard_with(flx_graph *g, flx_val x, const flx_shard_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_shard_attrs);
    if (FLX_HAS_(flx_shard_attrs, spec) && attrs->spec)
        flx_a[flx_n++] = flx_attr_string("spec", attrs->spec);
    return flx_op1(g, "shard", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_shard(...) FLX_SHARD_(__VA_ARGS__, .struct_size = sizeof(flx_shard_attrs))
#define FLX_SHARD_(g_, x_, ...) FLX_BUILT_(flx_val, flx_shard_with((g_), (x_), &(flx_shard_attrs){.struct_size = 0, \
    __VA_ARGS__}))
#else
static inline flx_val flx_shard(flx_graph *g, flx_val x, const flx_shard_attrs *attrs)
{
    return flx_shard_with(g, x, attrs);
}
#endif

typedef struct flx_axis_index_attrs {
    uint32_t struct_size; /* sizeof(flx_axis_index_attrs) */
    const char *axis_name; /* must be given */
} flx_axis_index_attrs;
#define FLX_AXIS_INDEX_ATTRS {sizeof(flx_axis_index_attrs), NULL}

/** the i32 index of this process along the axis of the mesh */
static inline flx_val flx_axis_index_with(flx_graph *g, const flx_axis_index_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    FLX_CHECK_SIZE_(flx_axis_index_attrs);
    if (FLX_HAS_(flx_axis_index_attrs, axis_name) && attrs->axis_name)
        flx_a[flx_n++] = flx_attr_string("axis_name", attrs->axis_name);
    return flx_op1(g, "axis_index", NULL, 0, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_axis_index(...) FLX_AXIS_INDEX_(__VA_ARGS__, .struct_size = sizeof(flx_axis_index_attrs))
#define FLX_AXIS_INDEX_(g_, ...) FLX_BUILT_(flx_val, flx_axis_index_with((g_), &(flx_axis_index_attrs){.struct_size = \
    0, __VA_ARGS__}))
#else
static inline flx_val flx_axis_index(flx_graph *g, const flx_axis_index_attrs *attrs)
{
    return flx_axis_index_with(g, attrs);
}
#endif


/* ---- splat ---- */

typedef struct flx_gaussian_splat_render_attrs {
    uint32_t struct_size; /* sizeof(flx_gaussian_splat_render_attrs) */
    int64_t width; /* must be given */
    int64_t height; /* must be given */
    int64_t tile_size; /* must be given */
    double radius_scale; /* must be given */
    double alpha_cutoff; /* must be given */
    int64_t max_splat_steps; /* must be given */
    double transmittance_threshold; /* must be given */
    int64_t max_list_entries; /* must be given */
} flx_gaussian_splat_render_attrs;
#define FLX_GAUSSIAN_SPLAT_RENDER_ATTRS {sizeof(flx_gaussian_splat_render_attrs), FLX_DEFAULT, FLX_DEFAULT, \
    FLX_DEFAULT, NAN, NAN, FLX_DEFAULT, NAN, FLX_DEFAULT}

/** an image [height*width*4] of n splats: colour accumulated along each ray, then coverage */
static inline flx_val flx_gaussian_splat_render_with(flx_graph *g, flx_val positions, flx_val log_scales, flx_val
                                                     rotations, flx_val opacity, flx_val colours, flx_val sh, flx_val
                                                     meta, const flx_gaussian_splat_render_attrs *attrs)
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
    FLX_CHECK_SIZE_(flx_gaussian_splat_render_attrs);
    if (FLX_HAS_NUMBER_(flx_gaussian_splat_render_attrs, width) && attrs->width != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("width", attrs->width);
    if (FLX_HAS_NUMBER_(flx_gaussian_splat_render_attrs, height) && attrs->height != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("height", attrs->height);
    if (FLX_HAS_NUMBER_(flx_gaussian_splat_render_attrs, tile_size) && attrs->tile_size != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("tile_size", attrs->tile_size);
    if (FLX_HAS_NUMBER_(flx_gaussian_splat_render_attrs, radius_scale) && attrs->radius_scale == attrs->radius_scale)
        flx_a[flx_n++] = flx_attr_real("radius_scale", attrs->radius_scale);
    if (FLX_HAS_NUMBER_(flx_gaussian_splat_render_attrs, alpha_cutoff) && attrs->alpha_cutoff == attrs->alpha_cutoff)
        flx_a[flx_n++] = flx_attr_real("alpha_cutoff", attrs->alpha_cutoff);
    if (FLX_HAS_NUMBER_(flx_gaussian_splat_render_attrs, max_splat_steps) && attrs->max_splat_steps != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("max_splat_steps", attrs->max_splat_steps);
    if (FLX_HAS_NUMBER_(flx_gaussian_splat_render_attrs, transmittance_threshold) && attrs->transmittance_threshold ==
        attrs->transmittance_threshold)
        flx_a[flx_n++] = flx_attr_real("transmittance_threshold", attrs->transmittance_threshold);
    if (FLX_HAS_NUMBER_(flx_gaussian_splat_render_attrs, max_list_entries) && attrs->max_list_entries != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("max_list_entries", attrs->max_list_entries);
    return flx_op1(g, "gaussian_splat_render", flx_x, 7, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_gaussian_splat_render(...) FLX_GAUSSIAN_SPLAT_RENDER_(__VA_ARGS__, .struct_size = \
    sizeof(flx_gaussian_splat_render_attrs))
#define FLX_GAUSSIAN_SPLAT_RENDER_(g_, positions_, log_scales_, rotations_, opacity_, colours_, sh_, meta_, ...) \
    FLX_BUILT_(flx_val, flx_gaussian_splat_render_with((g_), (positions_), (log_scales_), (rotations_), (opacity_), \
    (colours_), (sh_), (meta_), &(flx_gaussian_splat_render_attrs){.width = FLX_DEFAULT, .height = FLX_DEFAULT, \
    .tile_size = FLX_DEFAULT, .radius_scale = NAN, .alpha_cutoff = NAN, .max_splat_steps = FLX_DEFAULT, \
    .transmittance_threshold = NAN, .max_list_entries = FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_gaussian_splat_render(flx_graph *g, flx_val positions, flx_val log_scales, flx_val rotations,
                                                flx_val opacity, flx_val colours, flx_val sh, flx_val meta, const
                                                flx_gaussian_splat_render_attrs *attrs)
{
    return flx_gaussian_splat_render_with(g, positions, log_scales, rotations, opacity, colours, sh, meta, attrs);
}
#endif

typedef struct flx_gaussian_splat_render_backward_attrs {
    uint32_t struct_size; /* sizeof(flx_gaussian_splat_render_backward_attrs) */
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
#define FLX_GAUSSIAN_SPLAT_RENDER_BACKWARD_ATTRS {sizeof(flx_gaussian_splat_render_backward_attrs), FLX_DEFAULT, \
    FLX_DEFAULT, FLX_DEFAULT, NAN, NAN, FLX_DEFAULT, NAN, FLX_DEFAULT, NAN, FLX_DEFAULT, NAN}

/** the cotangents of the first six operands of gaussian_splat_render, concatenated */
static inline flx_val flx_gaussian_splat_render_backward_with(flx_graph *g, flx_val positions, flx_val log_scales,
                                                              flx_val rotations, flx_val opacity, flx_val colours,
                                                              flx_val sh, flx_val meta, flx_val d_rgba, const
                                                              flx_gaussian_splat_render_backward_attrs *attrs)
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
    FLX_CHECK_SIZE_(flx_gaussian_splat_render_backward_attrs);
    if (FLX_HAS_NUMBER_(flx_gaussian_splat_render_backward_attrs, width) && attrs->width != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("width", attrs->width);
    if (FLX_HAS_NUMBER_(flx_gaussian_splat_render_backward_attrs, height) && attrs->height != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("height", attrs->height);
    if (FLX_HAS_NUMBER_(flx_gaussian_splat_render_backward_attrs, tile_size) && attrs->tile_size != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("tile_size", attrs->tile_size);
    if (FLX_HAS_NUMBER_(flx_gaussian_splat_render_backward_attrs, radius_scale) && attrs->radius_scale ==
        attrs->radius_scale)
        flx_a[flx_n++] = flx_attr_real("radius_scale", attrs->radius_scale);
    if (FLX_HAS_NUMBER_(flx_gaussian_splat_render_backward_attrs, alpha_cutoff) && attrs->alpha_cutoff ==
        attrs->alpha_cutoff)
        flx_a[flx_n++] = flx_attr_real("alpha_cutoff", attrs->alpha_cutoff);
    if (FLX_HAS_NUMBER_(flx_gaussian_splat_render_backward_attrs, max_splat_steps) && attrs->max_splat_steps !=
        FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("max_splat_steps", attrs->max_splat_steps);
    if (FLX_HAS_NUMBER_(flx_gaussian_splat_render_backward_attrs, transmittance_threshold) &&
        attrs->transmittance_threshold == attrs->transmittance_threshold)
        flx_a[flx_n++] = flx_attr_real("transmittance_threshold", attrs->transmittance_threshold);
    if (FLX_HAS_NUMBER_(flx_gaussian_splat_render_backward_attrs, max_list_entries) && attrs->max_list_entries !=
        FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("max_list_entries", attrs->max_list_entries);
    if (FLX_HAS_NUMBER_(flx_gaussian_splat_render_backward_attrs, clip) && attrs->clip == attrs->clip)
        flx_a[flx_n++] = flx_attr_real("clip", attrs->clip);
    if (FLX_HAS_NUMBER_(flx_gaussian_splat_render_backward_attrs, sh_bands) && attrs->sh_bands != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("sh_bands", attrs->sh_bands);
    if (FLX_HAS_NUMBER_(flx_gaussian_splat_render_backward_attrs, max_anisotropy) && attrs->max_anisotropy ==
        attrs->max_anisotropy)
        flx_a[flx_n++] = flx_attr_real("max_anisotropy", attrs->max_anisotropy);
    return flx_op1(g, "gaussian_splat_render_backward", flx_x, 8, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_gaussian_splat_render_backward(...) FLX_GAUSSIAN_SPLAT_RENDER_BACKWARD_(__VA_ARGS__, .struct_size = \
    sizeof(flx_gaussian_splat_render_backward_attrs))
#define FLX_GAUSSIAN_SPLAT_RENDER_BACKWARD_(g_, positions_, log_scales_, rotations_, opacity_, colours_, sh_, meta_, \
    d_rgba_, ...) FLX_BUILT_(flx_val, flx_gaussian_splat_render_backward_with((g_), (positions_), (log_scales_), \
    (rotations_), (opacity_), (colours_), (sh_), (meta_), (d_rgba_), \
    &(flx_gaussian_splat_render_backward_attrs){.width = FLX_DEFAULT, .height = FLX_DEFAULT, .tile_size = FLX_DEFAULT, \
    .radius_scale = NAN, .alpha_cutoff = NAN, .max_splat_steps = FLX_DEFAULT, .transmittance_threshold = NAN, \
    .max_list_entries = FLX_DEFAULT, .clip = NAN, .sh_bands = FLX_DEFAULT, .max_anisotropy = NAN, .struct_size = 0, \
    __VA_ARGS__}))
#else
static inline flx_val flx_gaussian_splat_render_backward(flx_graph *g, flx_val positions, flx_val log_scales, flx_val
                                                         rotations, flx_val opacity, flx_val colours, flx_val sh,
                                                         flx_val meta, flx_val d_rgba, const
                                                         flx_gaussian_splat_render_backward_attrs *attrs)
{
    return flx_gaussian_splat_render_backward_with(g, positions, log_scales, rotations, opacity, colours, sh, meta,
        d_rgba, attrs);
}
#endif

typedef struct flx_gaussian_splat_prepare_attrs {
    uint32_t struct_size; /* sizeof(flx_gaussian_splat_prepare_attrs) */
    int64_t width; /* must be given */
    int64_t height; /* must be given */
    int64_t tile_size; /* must be given */
    double radius_scale; /* must be given */
    double alpha_cutoff; /* must be given */
    int64_t max_splat_steps; /* must be given */
    double transmittance_threshold; /* must be given */
    int64_t max_list_entries; /* must be given */
} flx_gaussian_splat_prepare_attrs;
#define FLX_GAUSSIAN_SPLAT_PREPARE_ATTRS {sizeof(flx_gaussian_splat_prepare_attrs), FLX_DEFAULT, FLX_DEFAULT, \
    FLX_DEFAULT, NAN, NAN, FLX_DEFAULT, NAN, FLX_DEFAULT}

/** each splat as rays see it (19 numbers), lists of splats front to back, their range for each tile, rays, parameters
    */
static inline flx_val flx_gaussian_splat_prepare_with(flx_graph *g, flx_val positions, flx_val log_scales, flx_val
                                                      rotations, flx_val opacity, flx_val colours, flx_val sh, flx_val
                                                      meta, const flx_gaussian_splat_prepare_attrs *attrs)
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
    FLX_CHECK_SIZE_(flx_gaussian_splat_prepare_attrs);
    if (FLX_HAS_NUMBER_(flx_gaussian_splat_prepare_attrs, width) && attrs->width != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("width", attrs->width);
    if (FLX_HAS_NUMBER_(flx_gaussian_splat_prepare_attrs, height) && attrs->height != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("height", attrs->height);
    if (FLX_HAS_NUMBER_(flx_gaussian_splat_prepare_attrs, tile_size) && attrs->tile_size != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("tile_size", attrs->tile_size);
    if (FLX_HAS_NUMBER_(flx_gaussian_splat_prepare_attrs, radius_scale) && attrs->radius_scale == attrs->radius_scale)
        flx_a[flx_n++] = flx_attr_real("radius_scale", attrs->radius_scale);
    if (FLX_HAS_NUMBER_(flx_gaussian_splat_prepare_attrs, alpha_cutoff) && attrs->alpha_cutoff == attrs->alpha_cutoff)
        flx_a[flx_n++] = flx_attr_real("alpha_cutoff", attrs->alpha_cutoff);
    if (FLX_HAS_NUMBER_(flx_gaussian_splat_prepare_attrs, max_splat_steps) && attrs->max_splat_steps != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("max_splat_steps", attrs->max_splat_steps);
    if (FLX_HAS_NUMBER_(flx_gaussian_splat_prepare_attrs, transmittance_threshold) && attrs->transmittance_threshold ==
        attrs->transmittance_threshold)
        flx_a[flx_n++] = flx_attr_real("transmittance_threshold", attrs->transmittance_threshold);
    if (FLX_HAS_NUMBER_(flx_gaussian_splat_prepare_attrs, max_list_entries) && attrs->max_list_entries != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("max_list_entries", attrs->max_list_entries);
    return flx_op1(g, "gaussian_splat_prepare", flx_x, 7, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_gaussian_splat_prepare(...) FLX_GAUSSIAN_SPLAT_PREPARE_(__VA_ARGS__, .struct_size = \
    sizeof(flx_gaussian_splat_prepare_attrs))
#define FLX_GAUSSIAN_SPLAT_PREPARE_(g_, positions_, log_scales_, rotations_, opacity_, colours_, sh_, meta_, ...) \
    FLX_BUILT_(flx_val, flx_gaussian_splat_prepare_with((g_), (positions_), (log_scales_), (rotations_), (opacity_), \
    (colours_), (sh_), (meta_), &(flx_gaussian_splat_prepare_attrs){.width = FLX_DEFAULT, .height = FLX_DEFAULT, \
    .tile_size = FLX_DEFAULT, .radius_scale = NAN, .alpha_cutoff = NAN, .max_splat_steps = FLX_DEFAULT, \
    .transmittance_threshold = NAN, .max_list_entries = FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_gaussian_splat_prepare(flx_graph *g, flx_val positions, flx_val log_scales, flx_val rotations,
                                                 flx_val opacity, flx_val colours, flx_val sh, flx_val meta, const
                                                 flx_gaussian_splat_prepare_attrs *attrs)
{
    return flx_gaussian_splat_prepare_with(g, positions, log_scales, rotations, opacity, colours, sh, meta, attrs);
}
#endif

typedef struct flx_gaussian_splat_rasterize_attrs {
    uint32_t struct_size; /* sizeof(flx_gaussian_splat_rasterize_attrs) */
    int64_t width; /* must be given */
    int64_t height; /* must be given */
    int64_t tile_size; /* must be given */
    double radius_scale; /* must be given */
    double alpha_cutoff; /* must be given */
    int64_t max_splat_steps; /* must be given */
    double transmittance_threshold; /* must be given */
    int64_t max_list_entries; /* must be given */
} flx_gaussian_splat_rasterize_attrs;
#define FLX_GAUSSIAN_SPLAT_RASTERIZE_ATTRS {sizeof(flx_gaussian_splat_rasterize_attrs), FLX_DEFAULT, FLX_DEFAULT, \
    FLX_DEFAULT, NAN, NAN, FLX_DEFAULT, NAN, FLX_DEFAULT}

/** the image of a prepared scene */
static inline flx_val flx_gaussian_splat_rasterize_with(flx_graph *g, flx_val prep, flx_val meta, const
                                                        flx_gaussian_splat_rasterize_attrs *attrs)
{
    flx_attr flx_a[8];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = prep;
    flx_x[1] = meta;
    FLX_CHECK_SIZE_(flx_gaussian_splat_rasterize_attrs);
    if (FLX_HAS_NUMBER_(flx_gaussian_splat_rasterize_attrs, width) && attrs->width != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("width", attrs->width);
    if (FLX_HAS_NUMBER_(flx_gaussian_splat_rasterize_attrs, height) && attrs->height != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("height", attrs->height);
    if (FLX_HAS_NUMBER_(flx_gaussian_splat_rasterize_attrs, tile_size) && attrs->tile_size != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("tile_size", attrs->tile_size);
    if (FLX_HAS_NUMBER_(flx_gaussian_splat_rasterize_attrs, radius_scale) && attrs->radius_scale == attrs->radius_scale)
        flx_a[flx_n++] = flx_attr_real("radius_scale", attrs->radius_scale);
    if (FLX_HAS_NUMBER_(flx_gaussian_splat_rasterize_attrs, alpha_cutoff) && attrs->alpha_cutoff == attrs->alpha_cutoff)
        flx_a[flx_n++] = flx_attr_real("alpha_cutoff", attrs->alpha_cutoff);
    if (FLX_HAS_NUMBER_(flx_gaussian_splat_rasterize_attrs, max_splat_steps) && attrs->max_splat_steps != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("max_splat_steps", attrs->max_splat_steps);
    if (FLX_HAS_NUMBER_(flx_gaussian_splat_rasterize_attrs, transmittance_threshold) && attrs->transmittance_threshold
        == attrs->transmittance_threshold)
        flx_a[flx_n++] = flx_attr_real("transmittance_threshold", attrs->transmittance_threshold);
    if (FLX_HAS_NUMBER_(flx_gaussian_splat_rasterize_attrs, max_list_entries) && attrs->max_list_entries != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("max_list_entries", attrs->max_list_entries);
    return flx_op1(g, "gaussian_splat_rasterize", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_gaussian_splat_rasterize(...) FLX_GAUSSIAN_SPLAT_RASTERIZE_(__VA_ARGS__, .struct_size = \
    sizeof(flx_gaussian_splat_rasterize_attrs))
#define FLX_GAUSSIAN_SPLAT_RASTERIZE_(g_, prep_, meta_, ...) FLX_BUILT_(flx_val, \
    flx_gaussian_splat_rasterize_with((g_), (prep_), (meta_), &(flx_gaussian_splat_rasterize_attrs){.width = \
    FLX_DEFAULT, .height = FLX_DEFAULT, .tile_size = FLX_DEFAULT, .radius_scale = NAN, .alpha_cutoff = NAN, \
    .max_splat_steps = FLX_DEFAULT, .transmittance_threshold = NAN, .max_list_entries = FLX_DEFAULT, .struct_size = 0, \
    __VA_ARGS__}))
#else
static inline flx_val flx_gaussian_splat_rasterize(flx_graph *g, flx_val prep, flx_val meta, const
                                                   flx_gaussian_splat_rasterize_attrs *attrs)
{
    return flx_gaussian_splat_rasterize_with(g, prep, meta, attrs);
}
#endif


/* ---- composite ---- */

typedef struct flx_fused_matmul_bias_act_attrs {
    uint32_t struct_size; /* sizeof(flx_fused_matmul_bias_act_attrs) */
    const char *act; /* none; of: none relu sigmoid tanh silu gelu gelu_approx softplus selu hard_swish mish */
} flx_fused_matmul_bias_act_attrs;
#define FLX_FUSED_MATMUL_BIAS_ACT_ATTRS {sizeof(flx_fused_matmul_bias_act_attrs), NULL}

/** act(matmul(x, w) + b) */
static inline flx_val flx_fused_matmul_bias_act_with(flx_graph *g, flx_val x, flx_val w, flx_val b, const
                                                     flx_fused_matmul_bias_act_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[3];
    flx_x[0] = x;
    flx_x[1] = w;
    flx_x[2] = b;
    FLX_CHECK_SIZE_(flx_fused_matmul_bias_act_attrs);
    if (FLX_HAS_(flx_fused_matmul_bias_act_attrs, act) && attrs->act)
        flx_a[flx_n++] = flx_attr_word("act", attrs->act);
    return flx_op1(g, "fused_matmul_bias_act", flx_x, 3, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_fused_matmul_bias_act(...) FLX_FUSED_MATMUL_BIAS_ACT_(__VA_ARGS__, .struct_size = \
    sizeof(flx_fused_matmul_bias_act_attrs))
#define FLX_FUSED_MATMUL_BIAS_ACT_(g_, x_, w_, b_, ...) FLX_BUILT_(flx_val, flx_fused_matmul_bias_act_with((g_), (x_), \
    (w_), (b_), &(flx_fused_matmul_bias_act_attrs){.struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_fused_matmul_bias_act(flx_graph *g, flx_val x, flx_val w, flx_val b, const
                                                flx_fused_matmul_bias_act_attrs *attrs = NULL)
{
    return flx_fused_matmul_bias_act_with(g, x, w, b, attrs);
}
#endif

typedef struct flx_fused_swiglu_attrs {
    uint32_t struct_size; /* sizeof(flx_fused_swiglu_attrs) */
    int gate_first; /* false */
    flx_dtype cast_to; /* none */
} flx_fused_swiglu_attrs;
#define FLX_FUSED_SWIGLU_ATTRS {sizeof(flx_fused_swiglu_attrs), -1, FLX_DTYPE_NONE}

/** up * silu(gate), where up and gate are the first and second half of p along its last axis */
static inline flx_val flx_fused_swiglu_with(flx_graph *g, flx_val p, const flx_fused_swiglu_attrs *attrs)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = p;
    FLX_CHECK_SIZE_(flx_fused_swiglu_attrs);
    if (FLX_HAS_NUMBER_(flx_fused_swiglu_attrs, gate_first) && attrs->gate_first >= 0)
        flx_a[flx_n++] = flx_attr_int("gate_first", attrs->gate_first);
    if (FLX_HAS_(flx_fused_swiglu_attrs, cast_to) && attrs->cast_to != FLX_DTYPE_NONE)
        flx_a[flx_n++] = flx_attr_dtype("cast_to", attrs->cast_to);
    return flx_op1(g, "fused_swiglu", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_fused_swiglu(...) FLX_FUSED_SWIGLU_(__VA_ARGS__, .struct_size = sizeof(flx_fused_swiglu_attrs))
#define FLX_FUSED_SWIGLU_(g_, p_, ...) FLX_BUILT_(flx_val, flx_fused_swiglu_with((g_), (p_), \
    &(flx_fused_swiglu_attrs){.gate_first = -1, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_fused_swiglu(flx_graph *g, flx_val p, const flx_fused_swiglu_attrs *attrs = NULL)
{
    return flx_fused_swiglu_with(g, p, attrs);
}
#endif

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

typedef struct flx_activation_backward_attrs {
    uint32_t struct_size; /* sizeof(flx_activation_backward_attrs) */
    const char *kind; /* must be given; of: relu sigmoid tanh silu gelu gelu_approx softplus selu hard_swish mish exp
        exp2 expm1 log log2 log10 log1p sqrt rsqrt cbrt reciprocal square neg abs sign sin cos tan asin acos atan sinh
        cosh asinh acosh atanh erf erfc erf_inv lgamma digamma bessel_i0e bessel_i1e floor ceil trunc round round_away
        */
} flx_activation_backward_attrs;
#define FLX_ACTIVATION_BACKWARD_ATTRS {sizeof(flx_activation_backward_attrs), NULL}

/** dy f'(x) for the function `kind` */
static inline flx_val flx_activation_backward_with(flx_graph *g, flx_val x, flx_val dy, const
                                                   flx_activation_backward_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = x;
    flx_x[1] = dy;
    FLX_CHECK_SIZE_(flx_activation_backward_attrs);
    if (FLX_HAS_(flx_activation_backward_attrs, kind) && attrs->kind)
        flx_a[flx_n++] = flx_attr_word("kind", attrs->kind);
    return flx_op1(g, "activation_backward", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_activation_backward(...) FLX_ACTIVATION_BACKWARD_(__VA_ARGS__, .struct_size = \
    sizeof(flx_activation_backward_attrs))
#define FLX_ACTIVATION_BACKWARD_(g_, x_, dy_, ...) FLX_BUILT_(flx_val, flx_activation_backward_with((g_), (x_), (dy_), \
    &(flx_activation_backward_attrs){.struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_activation_backward(flx_graph *g, flx_val x, flx_val dy, const flx_activation_backward_attrs
                                              *attrs)
{
    return flx_activation_backward_with(g, x, dy, attrs);
}
#endif

typedef struct flx_cumsum_backward_attrs {
    uint32_t struct_size; /* sizeof(flx_cumsum_backward_attrs) */
    int64_t axis; /* -1 */
    int exclusive; /* false */
} flx_cumsum_backward_attrs;
#define FLX_CUMSUM_BACKWARD_ATTRS {sizeof(flx_cumsum_backward_attrs), FLX_DEFAULT, -1}

/** the cotangent of cumsum's x: the sum of dy from each position to the end */
static inline flx_val flx_cumsum_backward_with(flx_graph *g, flx_val dy, const flx_cumsum_backward_attrs *attrs)
{
    flx_attr flx_a[2];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = dy;
    FLX_CHECK_SIZE_(flx_cumsum_backward_attrs);
    if (FLX_HAS_NUMBER_(flx_cumsum_backward_attrs, axis) && attrs->axis != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("axis", attrs->axis);
    if (FLX_HAS_NUMBER_(flx_cumsum_backward_attrs, exclusive) && attrs->exclusive >= 0)
        flx_a[flx_n++] = flx_attr_int("exclusive", attrs->exclusive);
    return flx_op1(g, "cumsum_backward", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_cumsum_backward(...) FLX_CUMSUM_BACKWARD_(__VA_ARGS__, .struct_size = sizeof(flx_cumsum_backward_attrs))
#define FLX_CUMSUM_BACKWARD_(g_, dy_, ...) FLX_BUILT_(flx_val, flx_cumsum_backward_with((g_), (dy_), \
    &(flx_cumsum_backward_attrs){.axis = FLX_DEFAULT, .exclusive = -1, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_cumsum_backward(flx_graph *g, flx_val dy, const flx_cumsum_backward_attrs *attrs = NULL)
{
    return flx_cumsum_backward_with(g, dy, attrs);
}
#endif

typedef struct flx_gather_backward_attrs {
    uint32_t struct_size; /* sizeof(flx_gather_backward_attrs) */
    flx_ints shape; /* must be given */
    int64_t axis; /* 0 */
    const char *oob; /* error; of: error zero clamp */
} flx_gather_backward_attrs;
#define FLX_GATHER_BACKWARD_ATTRS {sizeof(flx_gather_backward_attrs), {NULL, 0}, FLX_DEFAULT, NULL}

/** the cotangent of gather's table, of the given shape: dy summed at the positions that idx read */
static inline flx_val flx_gather_backward_with(flx_graph *g, flx_val dy, flx_val idx, const flx_gather_backward_attrs
                                               *attrs)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    flx_val flx_x[2];
    flx_x[0] = dy;
    flx_x[1] = idx;
    FLX_CHECK_SIZE_(flx_gather_backward_attrs);
    if (FLX_HAS_(flx_gather_backward_attrs, shape) && FLX_LISTED_(attrs->shape))
        flx_a[flx_n++] = flx_attr_ints("shape", attrs->shape);
    if (FLX_HAS_NUMBER_(flx_gather_backward_attrs, axis) && attrs->axis != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("axis", attrs->axis);
    if (FLX_HAS_(flx_gather_backward_attrs, oob) && attrs->oob)
        flx_a[flx_n++] = flx_attr_word("oob", attrs->oob);
    return flx_op1(g, "gather_backward", flx_x, 2, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_gather_backward(...) FLX_GATHER_BACKWARD_(__VA_ARGS__, .struct_size = sizeof(flx_gather_backward_attrs))
#define FLX_GATHER_BACKWARD_(g_, dy_, idx_, ...) FLX_BUILT_(flx_val, flx_gather_backward_with((g_), (dy_), (idx_), \
    &(flx_gather_backward_attrs){.axis = FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_gather_backward(flx_graph *g, flx_val dy, flx_val idx, const flx_gather_backward_attrs *attrs)
{
    return flx_gather_backward_with(g, dy, idx, attrs);
}
#endif

/** 2 dy z, the cotangent of complex_norm_sq's z */
static inline flx_val flx_complex_norm_sq_backward(flx_graph *g, flx_val z, flx_val dy)
{
    flx_val flx_x[2];
    flx_x[0] = z;
    flx_x[1] = dy;
    return flx_op1(g, "complex_norm_sq_backward", flx_x, 2, NULL, 0);
}

typedef struct flx_linear_attrs {
    uint32_t struct_size; /* sizeof(flx_linear_attrs) */
    const char *act; /* none; of: none relu sigmoid tanh silu gelu gelu_approx softplus selu hard_swish mish */
} flx_linear_attrs;
#define FLX_LINEAR_ATTRS {sizeof(flx_linear_attrs), NULL}

/** act(matmul(x, w) + b) */
static inline flx_val flx_linear_with(flx_graph *g, flx_val x, flx_val w, flx_val b, const flx_linear_attrs *attrs)
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
    FLX_CHECK_SIZE_(flx_linear_attrs);
    if (FLX_HAS_(flx_linear_attrs, act) && attrs->act)
        flx_a[flx_n++] = flx_attr_word("act", attrs->act);
    return flx_op1(g, "linear", flx_x, num_operands, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_linear(...) FLX_LINEAR_(__VA_ARGS__, .struct_size = sizeof(flx_linear_attrs))
#define FLX_LINEAR_(g_, x_, w_, b_, ...) FLX_BUILT_(flx_val, flx_linear_with((g_), (x_), (w_), (b_), \
    &(flx_linear_attrs){.struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_linear(flx_graph *g, flx_val x, flx_val w, flx_val b, const flx_linear_attrs *attrs = NULL)
{
    return flx_linear_with(g, x, w, b, attrs);
}
#endif

typedef struct flx_fused_linear_attrs {
    uint32_t struct_size; /* sizeof(flx_fused_linear_attrs) */
    const char *act; /* none; of: none relu sigmoid tanh silu gelu gelu_approx softplus selu hard_swish mish */
} flx_fused_linear_attrs;
#define FLX_FUSED_LINEAR_ATTRS {sizeof(flx_fused_linear_attrs), NULL}

/** act(matmul(x, w) + b), lowered to one op unless it is differentiated */
static inline flx_val flx_fused_linear_with(flx_graph *g, flx_val x, flx_val w, flx_val b, const flx_fused_linear_attrs
                                            *attrs)
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
    FLX_CHECK_SIZE_(flx_fused_linear_attrs);
    if (FLX_HAS_(flx_fused_linear_attrs, act) && attrs->act)
        flx_a[flx_n++] = flx_attr_word("act", attrs->act);
    return flx_op1(g, "fused_linear", flx_x, num_operands, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_fused_linear(...) FLX_FUSED_LINEAR_(__VA_ARGS__, .struct_size = sizeof(flx_fused_linear_attrs))
#define FLX_FUSED_LINEAR_(g_, x_, w_, b_, ...) FLX_BUILT_(flx_val, flx_fused_linear_with((g_), (x_), (w_), (b_), \
    &(flx_fused_linear_attrs){.struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_fused_linear(flx_graph *g, flx_val x, flx_val w, flx_val b, const flx_fused_linear_attrs
                                       *attrs = NULL)
{
    return flx_fused_linear_with(g, x, w, b, attrs);
}
#endif

typedef struct flx_linear_pair_attrs {
    uint32_t struct_size; /* sizeof(flx_linear_pair_attrs) */
    const char *act1; /* none; of: none relu sigmoid tanh silu gelu gelu_approx softplus selu hard_swish mish */
    const char *act2; /* none; of: none relu sigmoid tanh silu gelu gelu_approx softplus selu hard_swish mish */
} flx_linear_pair_attrs;
#define FLX_LINEAR_PAIR_ATTRS {sizeof(flx_linear_pair_attrs), NULL, NULL}

/** act1(matmul(x, w1) + b1) and act2(matmul(x, w2) + b2) */
static inline uint32_t flx_linear_pair_with(flx_graph *g, flx_val x, flx_val w1, flx_val w2, flx_val b1, flx_val b2,
                                            flx_val results[2], const flx_linear_pair_attrs *attrs)
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
    FLX_CHECK_SIZE_(flx_linear_pair_attrs);
    if (FLX_HAS_(flx_linear_pair_attrs, act1) && attrs->act1)
        flx_a[flx_n++] = flx_attr_word("act1", attrs->act1);
    if (FLX_HAS_(flx_linear_pair_attrs, act2) && attrs->act2)
        flx_a[flx_n++] = flx_attr_word("act2", attrs->act2);
    return flx_op(g, "linear_pair", flx_x, num_operands, flx_n ? flx_a : NULL, flx_n, results, 2);
}

#ifndef __cplusplus
#define flx_linear_pair(...) FLX_LINEAR_PAIR_(__VA_ARGS__, .struct_size = sizeof(flx_linear_pair_attrs))
#define FLX_LINEAR_PAIR_(g_, x_, w1_, w2_, b1_, b2_, results_, ...) FLX_BUILT_(uint32_t, flx_linear_pair_with((g_), \
    (x_), (w1_), (w2_), (b1_), (b2_), (results_), &(flx_linear_pair_attrs){.struct_size = 0, __VA_ARGS__}))
#else
static inline uint32_t flx_linear_pair(flx_graph *g, flx_val x, flx_val w1, flx_val w2, flx_val b1, flx_val b2, flx_val
                                       results[2], const flx_linear_pair_attrs *attrs = NULL)
{
    return flx_linear_pair_with(g, x, w1, w2, b1, b2, results, attrs);
}
#endif

typedef struct flx_gated_ffn_attrs {
    uint32_t struct_size; /* sizeof(flx_gated_ffn_attrs) */
    const char *act; /* silu; of: none relu sigmoid tanh silu gelu gelu_approx softplus selu hard_swish mish */
} flx_gated_ffn_attrs;
#define FLX_GATED_FFN_ATTRS {sizeof(flx_gated_ffn_attrs), NULL}

/** matmul(act(matmul(x, w_gate)) * matmul(x, w_up), w_down) */
static inline flx_val flx_gated_ffn_with(flx_graph *g, flx_val x, flx_val w_gate, flx_val w_up, flx_val w_down, const
                                         flx_gated_ffn_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[4];
    flx_x[0] = x;
    flx_x[1] = w_gate;
    flx_x[2] = w_up;
    flx_x[3] = w_down;
    FLX_CHECK_SIZE_(flx_gated_ffn_attrs);
    if (FLX_HAS_(flx_gated_ffn_attrs, act) && attrs->act)
        flx_a[flx_n++] = flx_attr_word("act", attrs->act);
    return flx_op1(g, "gated_ffn", flx_x, 4, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_gated_ffn(...) FLX_GATED_FFN_(__VA_ARGS__, .struct_size = sizeof(flx_gated_ffn_attrs))
#define FLX_GATED_FFN_(g_, x_, w_gate_, w_up_, w_down_, ...) FLX_BUILT_(flx_val, flx_gated_ffn_with((g_), (x_), \
    (w_gate_), (w_up_), (w_down_), &(flx_gated_ffn_attrs){.struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_gated_ffn(flx_graph *g, flx_val x, flx_val w_gate, flx_val w_up, flx_val w_down, const
                                    flx_gated_ffn_attrs *attrs = NULL)
{
    return flx_gated_ffn_with(g, x, w_gate, w_up, w_down, attrs);
}
#endif

typedef struct flx_swiglu_ffn_attrs {
    uint32_t struct_size; /* sizeof(flx_swiglu_ffn_attrs) */
    int gate_first; /* false */
} flx_swiglu_ffn_attrs;
#define FLX_SWIGLU_FFN_ATTRS {sizeof(flx_swiglu_ffn_attrs), -1}

/** matmul(up * silu(gate), w_out), where up and gate are the halves of matmul(x, w_in) */
static inline flx_val flx_swiglu_ffn_with(flx_graph *g, flx_val x, flx_val w_in, flx_val w_out, const
                                          flx_swiglu_ffn_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[3];
    flx_x[0] = x;
    flx_x[1] = w_in;
    flx_x[2] = w_out;
    FLX_CHECK_SIZE_(flx_swiglu_ffn_attrs);
    if (FLX_HAS_NUMBER_(flx_swiglu_ffn_attrs, gate_first) && attrs->gate_first >= 0)
        flx_a[flx_n++] = flx_attr_int("gate_first", attrs->gate_first);
    return flx_op1(g, "swiglu_ffn", flx_x, 3, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_swiglu_ffn(...) FLX_SWIGLU_FFN_(__VA_ARGS__, .struct_size = sizeof(flx_swiglu_ffn_attrs))
#define FLX_SWIGLU_FFN_(g_, x_, w_in_, w_out_, ...) FLX_BUILT_(flx_val, flx_swiglu_ffn_with((g_), (x_), (w_in_), \
    (w_out_), &(flx_swiglu_ffn_attrs){.gate_first = -1, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_swiglu_ffn(flx_graph *g, flx_val x, flx_val w_in, flx_val w_out, const flx_swiglu_ffn_attrs
                                     *attrs = NULL)
{
    return flx_swiglu_ffn_with(g, x, w_in, w_out, attrs);
}
#endif

typedef struct flx_mlp_attrs {
    uint32_t struct_size; /* sizeof(flx_mlp_attrs) */
    const char *act; /* relu; of: none relu sigmoid tanh silu gelu gelu_approx softplus selu hard_swish mish */
    const char *out_act; /* none; of: none relu sigmoid tanh silu gelu gelu_approx softplus selu hard_swish mish */
    int bias; /* true */
} flx_mlp_attrs;
#define FLX_MLP_ATTRS {sizeof(flx_mlp_attrs), NULL, NULL, -1}

/** linear layers with weights w1, b1, w2, b2, ... (bias=false: w1, w2, ...), with act after each except the last, then
    out_act */
static inline flx_val flx_mlp_with(flx_graph *g, const flx_val *operands, size_t num_operands, const flx_mlp_attrs
                                   *attrs)
{
    flx_attr flx_a[3];
    size_t flx_n = 0;
    FLX_CHECK_SIZE_(flx_mlp_attrs);
    if (FLX_HAS_(flx_mlp_attrs, act) && attrs->act)
        flx_a[flx_n++] = flx_attr_word("act", attrs->act);
    if (FLX_HAS_(flx_mlp_attrs, out_act) && attrs->out_act)
        flx_a[flx_n++] = flx_attr_word("out_act", attrs->out_act);
    if (FLX_HAS_NUMBER_(flx_mlp_attrs, bias) && attrs->bias >= 0)
        flx_a[flx_n++] = flx_attr_int("bias", attrs->bias);
    return flx_op1(g, "mlp", operands, num_operands, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_mlp(...) FLX_MLP_(__VA_ARGS__, .struct_size = sizeof(flx_mlp_attrs))
#define FLX_MLP_(g_, operands_, num_operands_, ...) FLX_BUILT_(flx_val, flx_mlp_with((g_), (operands_), \
    (num_operands_), &(flx_mlp_attrs){.bias = -1, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_mlp(flx_graph *g, const flx_val *operands, size_t num_operands, const flx_mlp_attrs *attrs =
                              NULL)
{
    return flx_mlp_with(g, operands, num_operands, attrs);
}
#endif

typedef struct flx_residual_rms_norm_attrs {
    uint32_t struct_size; /* sizeof(flx_residual_rms_norm_attrs) */
    double eps; /* 1e-05 */
} flx_residual_rms_norm_attrs;
#define FLX_RESIDUAL_RMS_NORM_ATTRS {sizeof(flx_residual_rms_norm_attrs), NAN}

/** sum = x + res and y = rms_norm(sum, gamma) over the last axis */
static inline uint32_t flx_residual_rms_norm_with(flx_graph *g, flx_val x, flx_val res, flx_val gamma, flx_val
                                                  results[2], const flx_residual_rms_norm_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[3];
    flx_x[0] = x;
    flx_x[1] = res;
    flx_x[2] = gamma;
    FLX_CHECK_SIZE_(flx_residual_rms_norm_attrs);
    if (FLX_HAS_NUMBER_(flx_residual_rms_norm_attrs, eps) && attrs->eps == attrs->eps)
        flx_a[flx_n++] = flx_attr_real("eps", attrs->eps);
    return flx_op(g, "residual_rms_norm", flx_x, 3, flx_n ? flx_a : NULL, flx_n, results, 2);
}

#ifndef __cplusplus
#define flx_residual_rms_norm(...) FLX_RESIDUAL_RMS_NORM_(__VA_ARGS__, .struct_size = \
    sizeof(flx_residual_rms_norm_attrs))
#define FLX_RESIDUAL_RMS_NORM_(g_, x_, res_, gamma_, results_, ...) FLX_BUILT_(uint32_t, \
    flx_residual_rms_norm_with((g_), (x_), (res_), (gamma_), (results_), &(flx_residual_rms_norm_attrs){.eps = NAN, \
    .struct_size = 0, __VA_ARGS__}))
#else
static inline uint32_t flx_residual_rms_norm(flx_graph *g, flx_val x, flx_val res, flx_val gamma, flx_val results[2],
                                             const flx_residual_rms_norm_attrs *attrs = NULL)
{
    return flx_residual_rms_norm_with(g, x, res, gamma, results, attrs);
}
#endif

typedef struct flx_causal_conv1d_attrs {
    uint32_t struct_size; /* sizeof(flx_causal_conv1d_attrs) */
    const char *act; /* none; of: none relu sigmoid tanh silu gelu gelu_approx softplus selu hard_swish mish */
} flx_causal_conv1d_attrs;
#define FLX_CAUSAL_CONV1D_ATTRS {sizeof(flx_causal_conv1d_attrs), NULL}

/** act(y + b), y[n, s, c] = sum over k of w[c, k] x[n, s - (K - 1) + k, c], with 0 before the start of the sequence */
static inline flx_val flx_causal_conv1d_with(flx_graph *g, flx_val x, flx_val w, flx_val b, const
                                             flx_causal_conv1d_attrs *attrs)
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
    FLX_CHECK_SIZE_(flx_causal_conv1d_attrs);
    if (FLX_HAS_(flx_causal_conv1d_attrs, act) && attrs->act)
        flx_a[flx_n++] = flx_attr_word("act", attrs->act);
    return flx_op1(g, "causal_conv1d", flx_x, num_operands, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_causal_conv1d(...) FLX_CAUSAL_CONV1D_(__VA_ARGS__, .struct_size = sizeof(flx_causal_conv1d_attrs))
#define FLX_CAUSAL_CONV1D_(g_, x_, w_, b_, ...) FLX_BUILT_(flx_val, flx_causal_conv1d_with((g_), (x_), (w_), (b_), \
    &(flx_causal_conv1d_attrs){.struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_causal_conv1d(flx_graph *g, flx_val x, flx_val w, flx_val b, const flx_causal_conv1d_attrs
                                        *attrs = NULL)
{
    return flx_causal_conv1d_with(g, x, w, b, attrs);
}
#endif

typedef struct flx_decoder_block_attrs {
    uint32_t struct_size; /* sizeof(flx_decoder_block_attrs) */
    int64_t num_heads; /* must be given */
    int64_t num_kv_heads; /* num_heads */
    const char *act; /* silu; of: none relu sigmoid tanh silu gelu gelu_approx softplus selu hard_swish mish */
    const char *mask_kind; /* causal; of: causal none sliding_window */
    int64_t window; /* none */
    double eps; /* 1e-05 */
    double score_scale; /* 1/√head_dim */
    double softcap; /* none */
} flx_decoder_block_attrs;
#define FLX_DECODER_BLOCK_ATTRS {sizeof(flx_decoder_block_attrs), FLX_DEFAULT, FLX_DEFAULT, NULL, NULL, FLX_DEFAULT, \
    NAN, NAN, NAN}

/** x + attention of its rms_norm, plus the gated_ffn of that sum's rms_norm; w: gamma1, wq, wk, wv, wo, gamma2, w_gate,
    w_up, w_down, and for rotary embedding cos, sin */
static inline flx_val flx_decoder_block_with(flx_graph *g, const flx_val *operands, size_t num_operands, const
                                             flx_decoder_block_attrs *attrs)
{
    flx_attr flx_a[8];
    size_t flx_n = 0;
    FLX_CHECK_SIZE_(flx_decoder_block_attrs);
    if (FLX_HAS_NUMBER_(flx_decoder_block_attrs, num_heads) && attrs->num_heads != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("num_heads", attrs->num_heads);
    if (FLX_HAS_NUMBER_(flx_decoder_block_attrs, num_kv_heads) && attrs->num_kv_heads != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("num_kv_heads", attrs->num_kv_heads);
    if (FLX_HAS_(flx_decoder_block_attrs, act) && attrs->act)
        flx_a[flx_n++] = flx_attr_word("act", attrs->act);
    if (FLX_HAS_(flx_decoder_block_attrs, mask_kind) && attrs->mask_kind)
        flx_a[flx_n++] = flx_attr_word("mask_kind", attrs->mask_kind);
    if (FLX_HAS_NUMBER_(flx_decoder_block_attrs, window) && attrs->window != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("window", attrs->window);
    if (FLX_HAS_NUMBER_(flx_decoder_block_attrs, eps) && attrs->eps == attrs->eps)
        flx_a[flx_n++] = flx_attr_real("eps", attrs->eps);
    if (FLX_HAS_NUMBER_(flx_decoder_block_attrs, score_scale) && attrs->score_scale == attrs->score_scale)
        flx_a[flx_n++] = flx_attr_real("score_scale", attrs->score_scale);
    if (FLX_HAS_NUMBER_(flx_decoder_block_attrs, softcap) && attrs->softcap == attrs->softcap)
        flx_a[flx_n++] = flx_attr_real("softcap", attrs->softcap);
    return flx_op1(g, "decoder_block", operands, num_operands, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_decoder_block(...) FLX_DECODER_BLOCK_(__VA_ARGS__, .struct_size = sizeof(flx_decoder_block_attrs))
#define FLX_DECODER_BLOCK_(g_, operands_, num_operands_, ...) FLX_BUILT_(flx_val, flx_decoder_block_with((g_), \
    (operands_), (num_operands_), &(flx_decoder_block_attrs){.num_heads = FLX_DEFAULT, .num_kv_heads = FLX_DEFAULT, \
    .window = FLX_DEFAULT, .eps = NAN, .score_scale = NAN, .softcap = NAN, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_decoder_block(flx_graph *g, const flx_val *operands, size_t num_operands, const
                                        flx_decoder_block_attrs *attrs)
{
    return flx_decoder_block_with(g, operands, num_operands, attrs);
}
#endif

typedef struct flx_draft_head_attrs {
    uint32_t struct_size; /* sizeof(flx_draft_head_attrs) */
    const char *act; /* silu; of: none relu sigmoid tanh silu gelu gelu_approx softplus selu hard_swish mish */
} flx_draft_head_attrs;
#define FLX_DRAFT_HEAD_ATTRS {sizeof(flx_draft_head_attrs), NULL}

/** matmul(x + act(matmul(x, w)), w_out): the logits of a later token */
static inline flx_val flx_draft_head_with(flx_graph *g, flx_val x, flx_val w, flx_val w_out, const flx_draft_head_attrs
                                          *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[3];
    flx_x[0] = x;
    flx_x[1] = w;
    flx_x[2] = w_out;
    FLX_CHECK_SIZE_(flx_draft_head_attrs);
    if (FLX_HAS_(flx_draft_head_attrs, act) && attrs->act)
        flx_a[flx_n++] = flx_attr_word("act", attrs->act);
    return flx_op1(g, "draft_head", flx_x, 3, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_draft_head(...) FLX_DRAFT_HEAD_(__VA_ARGS__, .struct_size = sizeof(flx_draft_head_attrs))
#define FLX_DRAFT_HEAD_(g_, x_, w_, w_out_, ...) FLX_BUILT_(flx_val, flx_draft_head_with((g_), (x_), (w_), (w_out_), \
    &(flx_draft_head_attrs){.struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_draft_head(flx_graph *g, flx_val x, flx_val w, flx_val w_out, const flx_draft_head_attrs
                                     *attrs = NULL)
{
    return flx_draft_head_with(g, x, w, w_out, attrs);
}
#endif

typedef struct flx_fused_attention_block_attrs {
    uint32_t struct_size; /* sizeof(flx_fused_attention_block_attrs) */
    int64_t num_heads; /* must be given */
    int64_t head_dim; /* from wqkv */
    int has_bias; /* false */
    int has_rope; /* false */
    const char *mask_kind; /* custom; of: none causal sliding_window custom bias */
    int64_t window; /* none */
    double score_scale; /* 1/√head_dim */
    double softcap; /* none */
} flx_fused_attention_block_attrs;
#define FLX_FUSED_ATTENTION_BLOCK_ATTRS {sizeof(flx_fused_attention_block_attrs), FLX_DEFAULT, FLX_DEFAULT, -1, -1, \
    NULL, FLX_DEFAULT, NAN, NAN}

/** attention of the thirds q, k, v of hidden wqkv + bqkv, layout bsd, times wo, + bo. After wo: mask, which only the
    mask kinds custom and bias need and read; with has_bias bqkv, bo; with has_rope cos, sin, which rotate q and k */
static inline flx_val flx_fused_attention_block_with(flx_graph *g, const flx_val *operands, size_t num_operands, const
                                                     flx_fused_attention_block_attrs *attrs)
{
    flx_attr flx_a[8];
    size_t flx_n = 0;
    FLX_CHECK_SIZE_(flx_fused_attention_block_attrs);
    if (FLX_HAS_NUMBER_(flx_fused_attention_block_attrs, num_heads) && attrs->num_heads != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("num_heads", attrs->num_heads);
    if (FLX_HAS_NUMBER_(flx_fused_attention_block_attrs, head_dim) && attrs->head_dim != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("head_dim", attrs->head_dim);
    if (FLX_HAS_NUMBER_(flx_fused_attention_block_attrs, has_bias) && attrs->has_bias >= 0)
        flx_a[flx_n++] = flx_attr_int("has_bias", attrs->has_bias);
    if (FLX_HAS_NUMBER_(flx_fused_attention_block_attrs, has_rope) && attrs->has_rope >= 0)
        flx_a[flx_n++] = flx_attr_int("has_rope", attrs->has_rope);
    if (FLX_HAS_(flx_fused_attention_block_attrs, mask_kind) && attrs->mask_kind)
        flx_a[flx_n++] = flx_attr_word("mask_kind", attrs->mask_kind);
    if (FLX_HAS_NUMBER_(flx_fused_attention_block_attrs, window) && attrs->window != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("window", attrs->window);
    if (FLX_HAS_NUMBER_(flx_fused_attention_block_attrs, score_scale) && attrs->score_scale == attrs->score_scale)
        flx_a[flx_n++] = flx_attr_real("score_scale", attrs->score_scale);
    if (FLX_HAS_NUMBER_(flx_fused_attention_block_attrs, softcap) && attrs->softcap == attrs->softcap)
        flx_a[flx_n++] = flx_attr_real("softcap", attrs->softcap);
    return flx_op1(g, "fused_attention_block", operands, num_operands, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_fused_attention_block(...) FLX_FUSED_ATTENTION_BLOCK_(__VA_ARGS__, .struct_size = \
    sizeof(flx_fused_attention_block_attrs))
#define FLX_FUSED_ATTENTION_BLOCK_(g_, operands_, num_operands_, ...) FLX_BUILT_(flx_val, \
    flx_fused_attention_block_with((g_), (operands_), (num_operands_), &(flx_fused_attention_block_attrs){.num_heads = \
    FLX_DEFAULT, .head_dim = FLX_DEFAULT, .has_bias = -1, .has_rope = -1, .window = FLX_DEFAULT, .score_scale = NAN, \
    .softcap = NAN, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_fused_attention_block(flx_graph *g, const flx_val *operands, size_t num_operands, const
                                                flx_fused_attention_block_attrs *attrs)
{
    return flx_fused_attention_block_with(g, operands, num_operands, attrs);
}
#endif

typedef struct flx_fused_transformer_layer_attrs {
    uint32_t struct_size; /* sizeof(flx_fused_transformer_layer_attrs) */
    int64_t num_heads; /* must be given */
    int64_t head_dim; /* from wqkv */
    int64_t ffn_dim; /* from w1 */
    const char *act; /* gelu; of: none relu sigmoid tanh silu gelu gelu_approx softplus selu hard_swish mish */
    int has_bias; /* true */
    double eps1; /* 1e-05 */
    double eps2; /* 1e-05 */
} flx_fused_transformer_layer_attrs;
#define FLX_FUSED_TRANSFORMER_LAYER_ATTRS {sizeof(flx_fused_transformer_layer_attrs), FLX_DEFAULT, FLX_DEFAULT, \
    FLX_DEFAULT, NULL, -1, NAN, NAN}

/** h = layer_norm(fused_attention_block(hidden) + hidden), then layer_norm(act(h w1 + b1) w2 + b2 + h). Operands:
    hidden, wqkv, bqkv, wo, bo, gamma1, beta1, w1, b1, w2, b2, gamma2, beta2, mask; without biases hidden, wqkv, wo,
    gamma1, w1, w2, gamma2, mask */
static inline flx_val flx_fused_transformer_layer_with(flx_graph *g, const flx_val *operands, size_t num_operands, const
                                                       flx_fused_transformer_layer_attrs *attrs)
{
    flx_attr flx_a[7];
    size_t flx_n = 0;
    FLX_CHECK_SIZE_(flx_fused_transformer_layer_attrs);
    if (FLX_HAS_NUMBER_(flx_fused_transformer_layer_attrs, num_heads) && attrs->num_heads != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("num_heads", attrs->num_heads);
    if (FLX_HAS_NUMBER_(flx_fused_transformer_layer_attrs, head_dim) && attrs->head_dim != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("head_dim", attrs->head_dim);
    if (FLX_HAS_NUMBER_(flx_fused_transformer_layer_attrs, ffn_dim) && attrs->ffn_dim != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("ffn_dim", attrs->ffn_dim);
    if (FLX_HAS_(flx_fused_transformer_layer_attrs, act) && attrs->act)
        flx_a[flx_n++] = flx_attr_word("act", attrs->act);
    if (FLX_HAS_NUMBER_(flx_fused_transformer_layer_attrs, has_bias) && attrs->has_bias >= 0)
        flx_a[flx_n++] = flx_attr_int("has_bias", attrs->has_bias);
    if (FLX_HAS_NUMBER_(flx_fused_transformer_layer_attrs, eps1) && attrs->eps1 == attrs->eps1)
        flx_a[flx_n++] = flx_attr_real("eps1", attrs->eps1);
    if (FLX_HAS_NUMBER_(flx_fused_transformer_layer_attrs, eps2) && attrs->eps2 == attrs->eps2)
        flx_a[flx_n++] = flx_attr_real("eps2", attrs->eps2);
    return flx_op1(g, "fused_transformer_layer", operands, num_operands, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_fused_transformer_layer(...) FLX_FUSED_TRANSFORMER_LAYER_(__VA_ARGS__, .struct_size = \
    sizeof(flx_fused_transformer_layer_attrs))
#define FLX_FUSED_TRANSFORMER_LAYER_(g_, operands_, num_operands_, ...) FLX_BUILT_(flx_val, \
    flx_fused_transformer_layer_with((g_), (operands_), (num_operands_), \
    &(flx_fused_transformer_layer_attrs){.num_heads = FLX_DEFAULT, .head_dim = FLX_DEFAULT, .ffn_dim = FLX_DEFAULT, \
    .has_bias = -1, .eps1 = NAN, .eps2 = NAN, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_fused_transformer_layer(flx_graph *g, const flx_val *operands, size_t num_operands, const
                                                  flx_fused_transformer_layer_attrs *attrs)
{
    return flx_fused_transformer_layer_with(g, operands, num_operands, attrs);
}
#endif

typedef struct flx_fused_conv_bias_act_attrs {
    uint32_t struct_size; /* sizeof(flx_fused_conv_bias_act_attrs) */
    const char *act; /* none; of: none relu sigmoid tanh silu gelu gelu_approx softplus selu hard_swish mish */
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
#define FLX_FUSED_CONV_BIAS_ACT_ATTRS {sizeof(flx_fused_conv_bias_act_attrs), NULL, {NULL, 0}, {NULL, 0}, {NULL, 0}, \
    FLX_DEFAULT, {NULL, 0}, FLX_DEFAULT, {NULL, 0}, {NULL, 0}, {NULL, 0}, {NULL, 0}}

/** act(conv(x, w) + b), one element of b for each output feature */
static inline flx_val flx_fused_conv_bias_act_with(flx_graph *g, flx_val x, flx_val w, flx_val b, const
                                                   flx_fused_conv_bias_act_attrs *attrs)
{
    flx_attr flx_a[11];
    size_t flx_n = 0;
    flx_val flx_x[3];
    flx_x[0] = x;
    flx_x[1] = w;
    flx_x[2] = b;
    FLX_CHECK_SIZE_(flx_fused_conv_bias_act_attrs);
    if (FLX_HAS_(flx_fused_conv_bias_act_attrs, act) && attrs->act)
        flx_a[flx_n++] = flx_attr_word("act", attrs->act);
    if (FLX_HAS_(flx_fused_conv_bias_act_attrs, stride) && FLX_LISTED_(attrs->stride))
        flx_a[flx_n++] = flx_attr_ints("stride", attrs->stride);
    if (FLX_HAS_(flx_fused_conv_bias_act_attrs, padding) && FLX_LISTED_(attrs->padding))
        flx_a[flx_n++] = flx_attr_pairs("padding", attrs->padding);
    if (FLX_HAS_(flx_fused_conv_bias_act_attrs, dilation) && FLX_LISTED_(attrs->dilation))
        flx_a[flx_n++] = flx_attr_ints("dilation", attrs->dilation);
    if (FLX_HAS_NUMBER_(flx_fused_conv_bias_act_attrs, groups) && attrs->groups != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("groups", attrs->groups);
    if (FLX_HAS_(flx_fused_conv_bias_act_attrs, input_dilation) && FLX_LISTED_(attrs->input_dilation))
        flx_a[flx_n++] = flx_attr_ints("input_dilation", attrs->input_dilation);
    if (FLX_HAS_NUMBER_(flx_fused_conv_bias_act_attrs, batch_groups) && attrs->batch_groups != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("batch_groups", attrs->batch_groups);
    if (FLX_HAS_(flx_fused_conv_bias_act_attrs, reverse) && FLX_LISTED_(attrs->reverse))
        flx_a[flx_n++] = flx_attr_ints("reverse", attrs->reverse);
    if (FLX_HAS_(flx_fused_conv_bias_act_attrs, input_axes) && FLX_LISTED_(attrs->input_axes))
        flx_a[flx_n++] = flx_attr_ints("input_axes", attrs->input_axes);
    if (FLX_HAS_(flx_fused_conv_bias_act_attrs, kernel_axes) && FLX_LISTED_(attrs->kernel_axes))
        flx_a[flx_n++] = flx_attr_ints("kernel_axes", attrs->kernel_axes);
    if (FLX_HAS_(flx_fused_conv_bias_act_attrs, output_axes) && FLX_LISTED_(attrs->output_axes))
        flx_a[flx_n++] = flx_attr_ints("output_axes", attrs->output_axes);
    return flx_op1(g, "fused_conv_bias_act", flx_x, 3, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_fused_conv_bias_act(...) FLX_FUSED_CONV_BIAS_ACT_(__VA_ARGS__, .struct_size = \
    sizeof(flx_fused_conv_bias_act_attrs))
#define FLX_FUSED_CONV_BIAS_ACT_(g_, x_, w_, b_, ...) FLX_BUILT_(flx_val, flx_fused_conv_bias_act_with((g_), (x_), \
    (w_), (b_), &(flx_fused_conv_bias_act_attrs){.groups = FLX_DEFAULT, .batch_groups = FLX_DEFAULT, .struct_size = 0, \
    __VA_ARGS__}))
#else
static inline flx_val flx_fused_conv_bias_act(flx_graph *g, flx_val x, flx_val w, flx_val b, const
                                              flx_fused_conv_bias_act_attrs *attrs = NULL)
{
    return flx_fused_conv_bias_act_with(g, x, w, b, attrs);
}
#endif

typedef struct flx_fused_conv_affine_act_attrs {
    uint32_t struct_size; /* sizeof(flx_fused_conv_affine_act_attrs) */
    const char *act; /* none; of: none relu sigmoid tanh silu gelu gelu_approx softplus selu hard_swish mish */
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
#define FLX_FUSED_CONV_AFFINE_ACT_ATTRS {sizeof(flx_fused_conv_affine_act_attrs), NULL, {NULL, 0}, {NULL, 0}, {NULL, \
    0}, FLX_DEFAULT, {NULL, 0}, FLX_DEFAULT, {NULL, 0}, {NULL, 0}, {NULL, 0}, {NULL, 0}}

/** act(conv(x, w) * scale + shift), one element of scale and shift for each output feature */
static inline flx_val flx_fused_conv_affine_act_with(flx_graph *g, flx_val x, flx_val w, flx_val scale, flx_val shift,
                                                     const flx_fused_conv_affine_act_attrs *attrs)
{
    flx_attr flx_a[11];
    size_t flx_n = 0;
    flx_val flx_x[4];
    flx_x[0] = x;
    flx_x[1] = w;
    flx_x[2] = scale;
    flx_x[3] = shift;
    FLX_CHECK_SIZE_(flx_fused_conv_affine_act_attrs);
    if (FLX_HAS_(flx_fused_conv_affine_act_attrs, act) && attrs->act)
        flx_a[flx_n++] = flx_attr_word("act", attrs->act);
    if (FLX_HAS_(flx_fused_conv_affine_act_attrs, stride) && FLX_LISTED_(attrs->stride))
        flx_a[flx_n++] = flx_attr_ints("stride", attrs->stride);
    if (FLX_HAS_(flx_fused_conv_affine_act_attrs, padding) && FLX_LISTED_(attrs->padding))
        flx_a[flx_n++] = flx_attr_pairs("padding", attrs->padding);
    if (FLX_HAS_(flx_fused_conv_affine_act_attrs, dilation) && FLX_LISTED_(attrs->dilation))
        flx_a[flx_n++] = flx_attr_ints("dilation", attrs->dilation);
    if (FLX_HAS_NUMBER_(flx_fused_conv_affine_act_attrs, groups) && attrs->groups != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("groups", attrs->groups);
    if (FLX_HAS_(flx_fused_conv_affine_act_attrs, input_dilation) && FLX_LISTED_(attrs->input_dilation))
        flx_a[flx_n++] = flx_attr_ints("input_dilation", attrs->input_dilation);
    if (FLX_HAS_NUMBER_(flx_fused_conv_affine_act_attrs, batch_groups) && attrs->batch_groups != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("batch_groups", attrs->batch_groups);
    if (FLX_HAS_(flx_fused_conv_affine_act_attrs, reverse) && FLX_LISTED_(attrs->reverse))
        flx_a[flx_n++] = flx_attr_ints("reverse", attrs->reverse);
    if (FLX_HAS_(flx_fused_conv_affine_act_attrs, input_axes) && FLX_LISTED_(attrs->input_axes))
        flx_a[flx_n++] = flx_attr_ints("input_axes", attrs->input_axes);
    if (FLX_HAS_(flx_fused_conv_affine_act_attrs, kernel_axes) && FLX_LISTED_(attrs->kernel_axes))
        flx_a[flx_n++] = flx_attr_ints("kernel_axes", attrs->kernel_axes);
    if (FLX_HAS_(flx_fused_conv_affine_act_attrs, output_axes) && FLX_LISTED_(attrs->output_axes))
        flx_a[flx_n++] = flx_attr_ints("output_axes", attrs->output_axes);
    return flx_op1(g, "fused_conv_affine_act", flx_x, 4, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_fused_conv_affine_act(...) FLX_FUSED_CONV_AFFINE_ACT_(__VA_ARGS__, .struct_size = \
    sizeof(flx_fused_conv_affine_act_attrs))
#define FLX_FUSED_CONV_AFFINE_ACT_(g_, x_, w_, scale_, shift_, ...) FLX_BUILT_(flx_val, \
    flx_fused_conv_affine_act_with((g_), (x_), (w_), (scale_), (shift_), &(flx_fused_conv_affine_act_attrs){.groups = \
    FLX_DEFAULT, .batch_groups = FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_fused_conv_affine_act(flx_graph *g, flx_val x, flx_val w, flx_val scale, flx_val shift, const
                                                flx_fused_conv_affine_act_attrs *attrs = NULL)
{
    return flx_fused_conv_affine_act_with(g, x, w, scale, shift, attrs);
}
#endif

typedef struct flx_fused_residual_ln_attrs {
    uint32_t struct_size; /* sizeof(flx_fused_residual_ln_attrs) */
    int has_bias; /* false */
    double eps; /* 1e-05 */
} flx_fused_residual_ln_attrs;
#define FLX_FUSED_RESIDUAL_LN_ATTRS {sizeof(flx_fused_residual_ln_attrs), -1, NAN}

/** layer_norm(x + res + bias, gamma, beta) along the last axis; bias only with has_bias */
static inline flx_val flx_fused_residual_ln_with(flx_graph *g, flx_val x, flx_val res, flx_val bias, flx_val gamma,
                                                 flx_val beta, const flx_fused_residual_ln_attrs *attrs)
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
    FLX_CHECK_SIZE_(flx_fused_residual_ln_attrs);
    if (FLX_HAS_NUMBER_(flx_fused_residual_ln_attrs, has_bias) && attrs->has_bias >= 0)
        flx_a[flx_n++] = flx_attr_int("has_bias", attrs->has_bias);
    if (FLX_HAS_NUMBER_(flx_fused_residual_ln_attrs, eps) && attrs->eps == attrs->eps)
        flx_a[flx_n++] = flx_attr_real("eps", attrs->eps);
    return flx_op1(g, "fused_residual_ln", flx_x, num_operands, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_fused_residual_ln(...) FLX_FUSED_RESIDUAL_LN_(__VA_ARGS__, .struct_size = \
    sizeof(flx_fused_residual_ln_attrs))
#define FLX_FUSED_RESIDUAL_LN_(g_, x_, res_, bias_, gamma_, beta_, ...) FLX_BUILT_(flx_val, \
    flx_fused_residual_ln_with((g_), (x_), (res_), (bias_), (gamma_), (beta_), \
    &(flx_fused_residual_ln_attrs){.has_bias = -1, .eps = NAN, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_fused_residual_ln(flx_graph *g, flx_val x, flx_val res, flx_val bias, flx_val gamma, flx_val
                                            beta, const flx_fused_residual_ln_attrs *attrs = NULL)
{
    return flx_fused_residual_ln_with(g, x, res, bias, gamma, beta, attrs);
}
#endif

typedef struct flx_fused_residual_rms_norm_attrs {
    uint32_t struct_size; /* sizeof(flx_fused_residual_rms_norm_attrs) */
    int has_bias; /* false */
    double eps; /* 1e-05 */
} flx_fused_residual_rms_norm_attrs;
#define FLX_FUSED_RESIDUAL_RMS_NORM_ATTRS {sizeof(flx_fused_residual_rms_norm_attrs), -1, NAN}

/** rms_norm(x + res + bias, gamma, beta) along the last axis; bias only with has_bias */
static inline flx_val flx_fused_residual_rms_norm_with(flx_graph *g, flx_val x, flx_val res, flx_val bias, flx_val
                                                       gamma, flx_val beta, const flx_fused_residual_rms_norm_attrs
                                                       *attrs)
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
    FLX_CHECK_SIZE_(flx_fused_residual_rms_norm_attrs);
    if (FLX_HAS_NUMBER_(flx_fused_residual_rms_norm_attrs, has_bias) && attrs->has_bias >= 0)
        flx_a[flx_n++] = flx_attr_int("has_bias", attrs->has_bias);
    if (FLX_HAS_NUMBER_(flx_fused_residual_rms_norm_attrs, eps) && attrs->eps == attrs->eps)
        flx_a[flx_n++] = flx_attr_real("eps", attrs->eps);
    return flx_op1(g, "fused_residual_rms_norm", flx_x, num_operands, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_fused_residual_rms_norm(...) FLX_FUSED_RESIDUAL_RMS_NORM_(__VA_ARGS__, .struct_size = \
    sizeof(flx_fused_residual_rms_norm_attrs))
#define FLX_FUSED_RESIDUAL_RMS_NORM_(g_, x_, res_, bias_, gamma_, beta_, ...) FLX_BUILT_(flx_val, \
    flx_fused_residual_rms_norm_with((g_), (x_), (res_), (bias_), (gamma_), (beta_), \
    &(flx_fused_residual_rms_norm_attrs){.has_bias = -1, .eps = NAN, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_fused_residual_rms_norm(flx_graph *g, flx_val x, flx_val res, flx_val bias, flx_val gamma,
                                                  flx_val beta, const flx_fused_residual_rms_norm_attrs *attrs = NULL)
{
    return flx_fused_residual_rms_norm_with(g, x, res, bias, gamma, beta, attrs);
}
#endif

typedef struct flx_fused_ada_layer_norm_attrs {
    uint32_t struct_size; /* sizeof(flx_fused_ada_layer_norm_attrs) */
    double eps; /* 1e-05 */
} flx_fused_ada_layer_norm_attrs;
#define FLX_FUSED_ADA_LAYER_NORM_ATTRS {sizeof(flx_fused_ada_layer_norm_attrs), NAN}

/** layer_norm(x, 1, 0) * (1 + scale) + shift, along the last axis */
static inline flx_val flx_fused_ada_layer_norm_with(flx_graph *g, flx_val x, flx_val scale, flx_val shift, const
                                                    flx_fused_ada_layer_norm_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[3];
    flx_x[0] = x;
    flx_x[1] = scale;
    flx_x[2] = shift;
    FLX_CHECK_SIZE_(flx_fused_ada_layer_norm_attrs);
    if (FLX_HAS_NUMBER_(flx_fused_ada_layer_norm_attrs, eps) && attrs->eps == attrs->eps)
        flx_a[flx_n++] = flx_attr_real("eps", attrs->eps);
    return flx_op1(g, "fused_ada_layer_norm", flx_x, 3, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_fused_ada_layer_norm(...) FLX_FUSED_ADA_LAYER_NORM_(__VA_ARGS__, .struct_size = \
    sizeof(flx_fused_ada_layer_norm_attrs))
#define FLX_FUSED_ADA_LAYER_NORM_(g_, x_, scale_, shift_, ...) FLX_BUILT_(flx_val, flx_fused_ada_layer_norm_with((g_), \
    (x_), (scale_), (shift_), &(flx_fused_ada_layer_norm_attrs){.eps = NAN, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_fused_ada_layer_norm(flx_graph *g, flx_val x, flx_val scale, flx_val shift, const
                                               flx_fused_ada_layer_norm_attrs *attrs = NULL)
{
    return flx_fused_ada_layer_norm_with(g, x, scale, shift, attrs);
}
#endif

typedef struct flx_elementwise_region_attrs {
    uint32_t struct_size; /* sizeof(flx_elementwise_region_attrs) */
    const flx_graph *body; /* must be given */
} flx_elementwise_region_attrs;
#define FLX_ELEMENTWISE_REGION_ATTRS {sizeof(flx_elementwise_region_attrs), NULL}

/** body applied to all elements: unary, binary, compare, where and cast ops on at most 16 operands, which broadcast */
static inline flx_val flx_elementwise_region_with(flx_graph *g, const flx_val *operands, size_t num_operands, const
                                                  flx_elementwise_region_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    FLX_CHECK_SIZE_(flx_elementwise_region_attrs);
    if (FLX_HAS_(flx_elementwise_region_attrs, body) && attrs->body)
        flx_a[flx_n++] = flx_attr_graph("body", attrs->body);
    return flx_op1(g, "elementwise_region", operands, num_operands, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_elementwise_region(...) FLX_ELEMENTWISE_REGION_(__VA_ARGS__, .struct_size = \
    sizeof(flx_elementwise_region_attrs))
#define FLX_ELEMENTWISE_REGION_(g_, operands_, num_operands_, ...) FLX_BUILT_(flx_val, \
    flx_elementwise_region_with((g_), (operands_), (num_operands_), &(flx_elementwise_region_attrs){.struct_size = 0, \
    __VA_ARGS__}))
#else
static inline flx_val flx_elementwise_region(flx_graph *g, const flx_val *operands, size_t num_operands, const
                                             flx_elementwise_region_attrs *attrs)
{
    return flx_elementwise_region_with(g, operands, num_operands, attrs);
}
#endif

typedef struct flx_batch_elementwise_region_attrs {
    uint32_t struct_size; /* sizeof(flx_batch_elementwise_region_attrs) */
    const flx_graph *body; /* must be given */
    int64_t axis; /* must be given */
    flx_ints starts; /* must be given */
    flx_ints lens; /* must be given */
} flx_batch_elementwise_region_attrs;
#define FLX_BATCH_ELEMENTWISE_REGION_ATTRS {sizeof(flx_batch_elementwise_region_attrs), NULL, FLX_DEFAULT, {NULL, 0}, \
    {NULL, 0}}

/** body, as in elementwise_region, on the slices [starts, starts + lens) of the operands along the axis, concatenated
    */
static inline flx_val flx_batch_elementwise_region_with(flx_graph *g, const flx_val *operands, size_t num_operands,
                                                        const flx_batch_elementwise_region_attrs *attrs)
{
    flx_attr flx_a[4];
    size_t flx_n = 0;
    FLX_CHECK_SIZE_(flx_batch_elementwise_region_attrs);
    if (FLX_HAS_(flx_batch_elementwise_region_attrs, body) && attrs->body)
        flx_a[flx_n++] = flx_attr_graph("body", attrs->body);
    if (FLX_HAS_NUMBER_(flx_batch_elementwise_region_attrs, axis) && attrs->axis != FLX_DEFAULT)
        flx_a[flx_n++] = flx_attr_int("axis", attrs->axis);
    if (FLX_HAS_(flx_batch_elementwise_region_attrs, starts) && FLX_LISTED_(attrs->starts))
        flx_a[flx_n++] = flx_attr_ints("starts", attrs->starts);
    if (FLX_HAS_(flx_batch_elementwise_region_attrs, lens) && FLX_LISTED_(attrs->lens))
        flx_a[flx_n++] = flx_attr_ints("lens", attrs->lens);
    return flx_op1(g, "batch_elementwise_region", operands, num_operands, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_batch_elementwise_region(...) FLX_BATCH_ELEMENTWISE_REGION_(__VA_ARGS__, .struct_size = \
    sizeof(flx_batch_elementwise_region_attrs))
#define FLX_BATCH_ELEMENTWISE_REGION_(g_, operands_, num_operands_, ...) FLX_BUILT_(flx_val, \
    flx_batch_elementwise_region_with((g_), (operands_), (num_operands_), &(flx_batch_elementwise_region_attrs){.axis \
    = FLX_DEFAULT, .struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_batch_elementwise_region(flx_graph *g, const flx_val *operands, size_t num_operands, const
                                                   flx_batch_elementwise_region_attrs *attrs)
{
    return flx_batch_elementwise_region_with(g, operands, num_operands, attrs);
}
#endif

typedef struct flx_transform_region_attrs {
    uint32_t struct_size; /* sizeof(flx_transform_region_attrs) */
    const flx_graph *body; /* must be given */
} flx_transform_region_attrs;
#define FLX_TRANSFORM_REGION_ATTRS {sizeof(flx_transform_region_attrs), NULL}

/** body applied to x: a chain of narrow, transpose, resize_nearest_2x and of mul, add, sub, div, fma by per-channel
    constants */
static inline flx_val flx_transform_region_with(flx_graph *g, flx_val x, const flx_transform_region_attrs *attrs)
{
    flx_attr flx_a[1];
    size_t flx_n = 0;
    flx_val flx_x[1];
    flx_x[0] = x;
    FLX_CHECK_SIZE_(flx_transform_region_attrs);
    if (FLX_HAS_(flx_transform_region_attrs, body) && attrs->body)
        flx_a[flx_n++] = flx_attr_graph("body", attrs->body);
    return flx_op1(g, "transform_region", flx_x, 1, flx_n ? flx_a : NULL, flx_n);
}

#ifndef __cplusplus
#define flx_transform_region(...) FLX_TRANSFORM_REGION_(__VA_ARGS__, .struct_size = \
    sizeof(flx_transform_region_attrs))
#define FLX_TRANSFORM_REGION_(g_, x_, ...) FLX_BUILT_(flx_val, flx_transform_region_with((g_), (x_), \
    &(flx_transform_region_attrs){.struct_size = 0, __VA_ARGS__}))
#else
static inline flx_val flx_transform_region(flx_graph *g, flx_val x, const flx_transform_region_attrs *attrs)
{
    return flx_transform_region_with(g, x, attrs);
}
#endif

#undef FLX_LISTED_
#undef FLX_HAS_
#undef FLX_HAS_NUMBER_
#undef FLX_CHECK_SIZE_
#undef FLX_ALIGNMENT_

FLX_END_DECLS
#endif
