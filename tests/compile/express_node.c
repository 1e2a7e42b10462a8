/* SPDX-License-Identifier: Apache-2.0 */
/* lowering.c: the lowering rules of all ops against the reference evaluator, on the samples of the table: a kernel with
   one invocation for each element of a result is made from the rule, run by the interpreter and compared. Whatever
   moves elements or computes integers must agree to the bit.

   Floats: the evaluator computes in double and rounds once. A rule that is one op of kernels does the same, so that f32
   and f64 must agree to the bit; f16 and bf16 are computed in f32 and rounded again, which may differ by one unit in
   the last place. The bounds of rules with several roundings are in the table below. */
#include "compile/express_node.h"
#include "fault.h"
#include "graph/op/eval.h"
#include "ops/opcode.h"
#include "ops/sample.h"
#include "test.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 32, MAX_RESULTS = 64 };

/* ---- The kernel of one result ---- */

typedef struct {
    const flx_graph *g;
    uint32_t node;
    flxi_kb *k;
    uint32_t buffers[SAMPLE_MAX_OPERANDS];
} driver;

static flxi_kval load_operand(flxi_express *e, uint32_t operand, const flxi_kindex *at)
{
    const driver *d = ((const flxi_express_frame *)e->user)->user;
    flxi_kindex there = *at;
    uint32_t flat = flxi_at_flat(e, e->in[operand], &there);
    int32_t dtype = e->in[operand]->dtype;
    uint32_t b = d->buffers[operand];
    int64_t count = 0;
    flxi_static_count(e->in[operand], &count);
    flxi_kb_if(d->k, flxi_k2(e, KBIN_ge, flat, flxi_ku(e, count)));
    flxi_kb_simple(d->k, &(flxi_ks){.kind = KS_TRAP, .a = flat, .text = "a rule reads outside its operand"});
    flxi_kb_end(d->k);
    if (flxi_is_complex(dtype)) {
        uint32_t first = flxi_ku_mul(e, flat, 2);
        flxi_kval z = {flxi_kb_load(d->k, b, first), flxi_kb_load(d->k, b, flxi_ku_add(e, first, flxi_ku(e, 1)))};
        return flxi_khold_value(e, z);
    }
    uint32_t x = flxi_khold(e, flxi_kb_load(d->k, b, flat));
    return flxi_kreal(dtype == FLX_BOOL ? flxi_kb_cast(d->k, FLX_BOOL, x) : x);
}

static void store_result(driver *d, const flx_type *t, uint32_t buffer, uint32_t flat, flxi_kval x)
{
    flxi_express e = {.k = d->k};
    if (flxi_is_complex(t->dtype)) {
        uint32_t first = flxi_ku_mul(&e, flat, 2);
        flxi_kb_store(d->k, buffer, first, x.re);
        flxi_kb_store(d->k, buffer, flxi_ku_add(&e, first, flxi_ku(&e, 1)), x.im);
        return;
    }
    flxi_kb_store(d->k, buffer, flat, t->dtype == FLX_BOOL ? flxi_kb_cast(d->k, FLX_U8, x.re) : x.re);
}

static bool is_reduced(const flx_ints *axes, int axis)
{
    for (size_t i = 0; i < axes->n; i++)
        if (axes->v[i] == axis)
            return true;
    return false;
}

/* The fold of the elements of one result, in row-major order. */
static flxi_kval fold_all(driver *d, const flxi_node *n, flxi_kindex *at)
{
    flxi_express e = {.k = d->k};
    const flxi_kfold *fold = flxi_ops[n->op].rules->fold;
    const flx_ints axes = fold->axes(n->attrs);
    const flx_type *x = flxi_type_at(d->g, n->in[0]);
    const flx_type *y = flxi_type_at(d->g, n->first);
    flxi_kindex in = {0};
    flxi_kval acc = flxi_express_start(d->g, d->k, d->node);
    uint32_t re = flxi_kb_let(d->k, "re", acc.re);
    uint32_t im = acc.im ? flxi_kb_let(d->k, "im", acc.im) : 0;
    int64_t count = 1;
    int loops = 0, kept = 0;
    for (int k = 0; k < x->rank; k++) {
        bool along = is_reduced(&axes, k);
        bool keeps_dims = y->rank == x->rank;
        if (along) {
            in.dim[k] = flxi_kb_var(
                d->k, flxi_kb_loop(d->k, flxi_kb_fresh_name(d->k, "k"), flxi_ku(&e, 0), flxi_ku(&e, x->dims[k])));
            count *= x->dims[k];
            loops++;
        } else {
            in.dim[k] = flxi_at_axis(&e, y, at, keeps_dims ? k : kept);
        }
        kept += !along;
    }
    flxi_kval now = {flxi_kb_var(d->k, re), im ? flxi_kb_var(d->k, im) : 0};
    flxi_kval x_here = flxi_express_operand(d->g, d->k, d->node, 0, &in, load_operand, d);
    if (fold->value_op)
        x_here.im = in.dim[axes.v[0]];
    flxi_kval next = flxi_express_step(d->g, d->k, d->node, now, x_here);
    uint32_t first = flxi_kb_let(d->k, flxi_kb_fresh_name(d->k, "next"), next.re);
    if (im)
        flxi_kb_assign(d->k, im, next.im);
    flxi_kb_assign(d->k, re, flxi_kb_var(d->k, first));
    while (loops-- > 0)
        flxi_kb_end(d->k);
    return flxi_express_finish(d->g, d->k, d->node, now, count);
}

static flx_kernel *make_kernel(driver *d, const flxi_node *n, uint32_t result, flx_error *err)
{
    const flx_type *y = flxi_type_at(d->g, n->first + result);
    int64_t count = 0;
    flxi_static_count(y, &count);
    d->k = flxi_kb_new(d->g->ctx, "one_node", (const uint32_t[]){WIDTH, 1, 1}, err);
    if (!d->k)
        return NULL;
    flxi_express e = {.k = d->k};
    for (uint32_t j = 0; j < n->nin; j++) {
        char name[16];
        snprintf(name, sizeof name, "x%u", j);
        flxi_kbuffer b = {.name = name,
                          .binding = j,
                          .access = FLX_KERNEL_READ,
                          .element = (uint8_t)flxi_kernel_storage(flxi_type_at(d->g, n->in[j])->dtype)};
        d->buffers[j] = flxi_kb_buffer(d->k, &b);
    }
    flxi_kbuffer out = {
        .name = "y", .binding = n->nin, .access = FLX_KERNEL_WRITE, .element = (uint8_t)flxi_kernel_storage(y->dtype)};
    uint32_t to = flxi_kb_buffer(d->k, &out);
    uint32_t id = flxi_kb_id(d->k, FLX_KERNEL_INVOCATION_ID, 0);
    flxi_kindex at = {.flat = flxi_kb_var(d->k, flxi_kb_let(d->k, "i", id))};
    flxi_kb_if(d->k, flxi_kb_binary(d->k, KBIN_lt, at.flat, flxi_ku(&e, count)));
    flxi_kval x = flxi_ops[n->op].rules->fold ? fold_all(d, n, &at)
                                              : flxi_express_element(d->g, d->k, d->node, result, &at, load_operand, d);
    store_result(d, y, to, at.flat, x);
    flxi_kb_end(d->k);
    return flxi_kb_finish(d->k, err);
}

static flx_code run_kernel(const flx_kernel *kernel, flx_tensor *const *x, uint32_t nin, flx_tensor *y, flx_error *err)
{
    static unsigned char nothing[16];
    flx_kernel_memory memory[SAMPLE_MAX_OPERANDS + 1];
    char names[SAMPLE_MAX_OPERANDS][16];
    for (uint32_t j = 0; j < nin; j++) {
        snprintf(names[j], sizeof names[j], "x%u", j);
        memory[j] = (flx_kernel_memory){names[j], x[j]->nbytes ? x[j]->data : nothing, x[j]->nbytes};
    }
    memory[nin] = (flx_kernel_memory){"y", y->nbytes ? y->data : nothing, y->nbytes};
    uint32_t groups = (uint32_t)((y->count + WIDTH - 1) / WIDTH);
    return flx_kernel_run(kernel, (const uint32_t[]){groups, 1, 1}, memory, nin + 1, NULL, err);
}

/* ---- Comparison ---- */

typedef struct {
    const char *op;
    double ulps;  /* of f32 and f64; f16 and bf16 have one more */
    double scale; /* what the units are of where the result is smaller; SUM: what the operands' elements add up to */
} bound;

#define SUM (-1.0)

/* Roundings of the rule (half a unit each, with what the formula turns them into) and of the reference. */
static const bound bounds[] = {
    {"rsqrt", 2, 0},   /* the root and the quotient */
    {"cbrt", 1, 0},    /* the last step's rounding */
    {"mod", 1, 0},     /* r + b */
    {"add_n", 4, SUM}, /* each sum */
    {"silu", 6, 0},    /* the exponential twice, three products, a sum and a quotient */
    {"gelu", 8, 0},
    {"gelu_approx", 400, 0}, /* the sigmoid has the error of its argument, up to 90 here, with four roundings */
    {"mish", 10, 0},
    {"softplus", 3, 0},
    {"selu", 3, 0},
    {"elu", 2, 0},
    {"celu", 4, 0},
    {"leaky_relu", 2, 0}, /* alpha is rounded */
    {"hard_swish", 3, 0},
    {"hard_sigmoid", 4, 1}, /* alpha·x and beta may cancel: units of 1 */
    {"div", 1, 0},          /* complex: as the reference but for scaling */
    {"reciprocal", 1, 0},
    {"reduce_sum", 24, SUM},
    {"reduce_mean", 24, SUM},
    {"reduce_prod", 48, 0},
    {"pool", 8, SUM}, /* products are of few numbers below 2 */
    {"reduce_window", 8, SUM},
    {"dropout", 2, 0}, /* 1 - rate is rounded */
    {"erf_inv", 4, 0},
    {"truncated_normal", 5, 0}, /* that and a product */
    {"bessel_i0e", 8, 0},
    {"bessel_i1e", 8, 0},
    {"digamma", 8, 8}, /* at negative x terms of this size cancel */
    {"lgamma", 1, 0},  /* these are computed in f64 for f32 */
    {"polygamma", 1, 0},
    {"zeta", 1, 0},
    {"rope", 0.5, 0}, /* to the bit; but of two NaN that meet either may come out */
};

/* Of c128, in units of the modulus; c64 is computed in double and rounded once. */
static const bound complex_bounds[] = {
    {"exp", 4, 0},     /* two exponentials of half the exponent and three products */
    {"log", 4, 0},     /* the modulus, its square, the logarithm and a sum */
    {"sqrt", 4, 0},    /* the modulus, a sum, the root and a quotient */
    {"rsqrt", 8, 0},   /* that and a quotient */
    {"sigmoid", 8, 0}, /* exp, a sum and a quotient */
    {"expm1", 4, 0},   /* as the reference, but for exp */
    {"sinh", 4, 0},    /* two factors and their product, or as exp */
    {"cosh", 4, 0},    {"sin", 4, 0}, {"cos", 4, 0}, {"sign", 3, 0},
};

static bound bound_of(const char *op, bool is_complex)
{
    for (size_t i = 0; is_complex && i < sizeof complex_bounds / sizeof *complex_bounds; i++)
        if (strcmp(complex_bounds[i].op, op) == 0)
            return complex_bounds[i];
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++)
        if (strcmp(bounds[i].op, op) == 0)
            return bounds[i];
    return (bound){op, 0, 0};
}

/* The modulus of the number that part i belongs to, where it is finite. */
static double modulus_at(const flx_tensor *t, int64_t i)
{
    int32_t part = flxi_part_dtype(t->type.dtype);
    double re = flxi_load_double(part, t->data, i - i % 2);
    double im = flxi_load_double(part, t->data, i - i % 2 + 1);
    double modulus = fmax(fabs(re), fabs(im));
    return isfinite(modulus) ? modulus : 0;
}

/* The unit in the last place of numbers around x. */
static double ulp_at(int32_t dtype, double x)
{
    static const int least[] = {[FLX_F64] = -1074, [FLX_F32] = -149, [FLX_F16] = -24, [FLX_BF16] = -133};
    int exponent = x == 0 ? -2000 : ilogb(x);
    exponent = exponent - flxi_mantissa_bits(dtype) + 1;
    return ldexp(1, exponent < least[dtype] ? least[dtype] : exponent);
}

static bool close_enough(int32_t dtype, double found, double expected, double ulps, double scale)
{
    bool is_half = dtype == FLX_F16 || dtype == FLX_BF16;
    double units = ulps + is_half;
    double edge = dtype == FLX_F64 ? DBL_MAX : dtype == FLX_F32 ? FLT_MAX : dtype == FLX_F16 ? 65504 : 0x1.fep127;
    if (found == expected)
        return signbit(found) == signbit(expected);
    if (units > 0 && scale >= edge)
        return true; /* a sum may overflow on the way */
    if (found != found || expected != expected)
        return found != found && expected != expected;
    if (isinf(found) || isinf(expected)) { /* on the edge of the range */
        double finite = isinf(found) ? expected : found;
        return units > 0 && signbit(found) == signbit(expected) && fabs(finite) >= edge * (1 - units * 0x1p-8);
    }
    /* A value that has lost digits by underflow is multiplied by numbers up to 16 at most. */
    double below = units > 0 ? 16 * ulp_at(dtype, 0) : 0;
    return fabs(found - expected) <= units * ulp_at(dtype, fmax(fabs(expected), scale)) + below;
}

/* What the magnitudes of all operands' elements add up to. */
static double sum_of(flx_tensor *const *x, uint32_t nin)
{
    double sum = 0;
    for (uint32_t j = 0; j < nin; j++) {
        int32_t dtype = x[j]->type.dtype;
        int64_t parts = flxi_is_complex(dtype) ? 2 : 1;
        for (int64_t i = 0; i < x[j]->count * parts; i++) {
            double v = fabs(flxi_load_double(flxi_part_dtype(dtype), x[j]->data, i));
            sum += isfinite(v) ? v : 0;
        }
    }
    return sum;
}

static bool is_inexact(const flxi_op *op, int32_t dtype)
{
    return (!op->rules->pull || bound_of(op->name, flxi_is_complex(dtype)).ulps > 0) &&
           flxi_in(FLXI_FLOATS | FLXI_COMPLEX, dtype);
}

static void compare(const flxi_op *op, const flx_tensor *found, const flx_tensor *expected, flx_tensor *const *x,
                    uint32_t nin)
{
    int32_t dtype = flxi_part_dtype(found->type.dtype);
    int64_t parts = flxi_is_complex(found->type.dtype) ? 2 : 1;
    size_t size = flx_dtype_size(dtype);
    bound b = bound_of(op->name, parts == 2);
    double scale = b.scale < 0 ? sum_of(x, nin) : b.scale;
    for (int64_t i = 0; i < found->count * parts; i++) {
        const char *at = (const char *)found->data + (size_t)i * size;
        bool same = memcmp(at, (const char *)expected->data + (size_t)i * size, size) == 0;
        double f = flxi_load_double(dtype, found->data, i);
        double r = flxi_load_double(dtype, expected->data, i);
        double least = parts == 2 && scale == 0 ? modulus_at(expected, i) : scale;
        bool ok = same || (is_inexact(op, found->type.dtype) && close_enough(dtype, f, r, b.ulps, least));
        ok |= parts == 2 && b.ulps > 0 && f == r; /* the sign of a zero may be that of a NaN before it */
        char operands[200] = "";
        size_t n = 0;
        for (uint32_t j = 0; !ok && j < nin && n < sizeof operands; j++) {
            int64_t k = x[j]->count == found->count ? i / parts : 0;
            n += (size_t)snprintf(operands + n, sizeof operands - n, " %a",
                                  x[j]->count ? flxi_load_double(x[j]->type.dtype, x[j]->data, k) : 0.0);
        }
        if (!EXPECT_MSG(ok, "part %lld: %a (%.9g), the reference has %a (%.9g); operands%s", (long long)i, f, f, r, r,
                        operands))
            return;
    }
}

/* ---- One case ---- */

static uint32_t node_of(const flx_graph *g, flxi_opcode op)
{
    for (uint32_t i = 0; i < g->node_count; i++)
        if (flxi_node_at(g, i)->op == op)
            return i;
    return UINT32_MAX;
}

static bool lowers(const flx_graph *g, const flxi_node *n)
{
    const flx_type *in[SAMPLE_MAX_OPERANDS];
    for (uint32_t j = 0; j < n->nin; j++)
        in[j] = flxi_type_at(g, n->in[j]);
    return flxi_can_express(&flxi_ops[n->op], n->attrs, in, n->nin);
}

static void try_result(const flx_graph *g, uint32_t node, uint32_t result, flx_tensor *const *x,
                       const flx_tensor *expected)
{
    flx_error err = {0};
    const flxi_node *n = flxi_node_at(g, node);
    driver d = {.g = g, .node = node};
    flx_tensor *y = flx_tensor_new(g->ctx, &expected->type, NULL, &err);
    flx_kernel *kernel = y ? make_kernel(&d, n, result, &err) : NULL;
    if (EXPECT_MSG(kernel != NULL, "%s %s", err.where, err.message)) {
        flx_code code = run_kernel(kernel, x, n->nin, y, &err); /* valid also where nothing is to be computed */
        if (EXPECT_MSG(code == FLX_OK, "%s %s", err.where, err.message))
            compare(&flxi_ops[n->op], y, expected, x, n->nin);
    }
    flx_kernel_release(kernel);
    flx_tensor_release(y);
}

typedef flx_tensor *(*fill_fn)(flx_context *ctx, const sample_case *c, size_t i, const flx_type *type, uint64_t *state,
                               flx_error *err);

static void try_graph(const flx_graph *g, const sample_case *c, fill_fn fill)
{
    flx_error err = {0};
    flx_tensor *x[SAMPLE_MAX_OPERANDS] = {0};
    flx_tensor *y[MAX_RESULTS] = {0};
    flx_feed feeds[SAMPLE_MAX_OPERANDS];
    static uint64_t turn;
    uint64_t state = test_seed() + 977 * turn++;
    uint32_t node = node_of(g, c->op);
    const flxi_node *n = flxi_node_at(g, node);
    size_t inputs = flx_graph_input_count(g);
    if (!lowers(g, n) || inputs > SAMPLE_MAX_OPERANDS || flx_graph_output_count(g) > MAX_RESULTS)
        return;
    bool filled = true;
    for (size_t i = 0; i < inputs; i++) {
        flx_val v = flx_graph_input(g, i);
        x[i] = fill(g->ctx, c, i, flx_val_type(g, v), &state, &err);
        filled &= x[i] != NULL;
        feeds[i] = (flx_feed){flx_val_name(g, v), x[i]};
    }
    flx_run_options options = {.device = "ref"};
    if (EXPECT_MSG(filled && flx_run(g, &options, feeds, inputs, y, &err) == FLX_OK, "%s", err.message))
        for (uint32_t r = 0; r < n->nout; r++)
            try_result(g, node, r, x, y[r]);
    for (size_t i = 0; i < inputs; i++)
        flx_tensor_release(x[i]);
    for (size_t i = 0; i < MAX_RESULTS; i++)
        flx_tensor_release(y[i]);
    test_count_case();
}

static void try_case(const sample_case *c, fill_fn fill)
{
    flx_error err = {0};
    flx_dim_binding dims[8];
    size_t n = 0;
    const flxi_rules *rules = flxi_ops[c->op].rules;
    if (c->sample->error || !(rules->element || rules->pull || rules->fold))
        return;
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = sample_parse(ctx, c, &err);
    const flx_graph *g = m ? flx_module_main(m) : NULL;
    for (const char *s; g && n < 8 && (s = flx_graph_symbol(g, n)) != NULL; n++)
        dims[n] = (flx_dim_binding){s, SAMPLE_EXTENT};
    flx_graph *bound_graph = g ? flx_specialise(g, dims, n, &err) : NULL;
    if (EXPECT_MSG(bound_graph != NULL, "%s", err.message))
        try_graph(bound_graph, c, fill);
    flx_graph_release(bound_graph);
    flx_module_free(m);
    flx_context_free(ctx);
}

/* ---- Samples ---- */

static flx_tensor *fill_sample(flx_context *ctx, const sample_case *c, size_t i, const flx_type *type, uint64_t *state,
                               flx_error *err)
{
    return sample_value(ctx, c, i, type, FILL_RANDOM, state, err);
}

static void try_sample(const sample_case *c)
{
    try_case(c, fill_sample);
}

TEST(lowering_agrees_with_the_evaluator_on_samples)
{
    sample_each(try_sample);
}

/* ---- Special values of pointwise ops: all pairs of the first two operands ---- */

enum { SPECIALS = 26 };

static double special_float(int32_t dtype, size_t k)
{
    static const double most[] = {[FLX_F64] = DBL_MAX, [FLX_F32] = FLT_MAX, [FLX_F16] = 65504, [FLX_BF16] = 0x1.fep127};
    static const double normal[] = {
        [FLX_F64] = DBL_MIN, [FLX_F32] = FLT_MIN, [FLX_F16] = 0x1p-14, [FLX_BF16] = 0x1p-126};
    const double list[SPECIALS] = {NAN,
                                   INFINITY,
                                   -INFINITY,
                                   0.0,
                                   -0.0,
                                   1,
                                   -1,
                                   0.5,
                                   -0.5,
                                   1.5,
                                   -1.5,
                                   2.5,
                                   -2.5,
                                   3,
                                   -3,
                                   0.3,
                                   -0.7,
                                   20,
                                   -20,
                                   -95,
                                   1e-4,
                                   most[dtype],
                                   -most[dtype],
                                   normal[dtype],
                                   ulp_at(dtype, 0),
                                   -ulp_at(dtype, 0)};
    return list[k];
}

static int64_t special_int(int32_t dtype, size_t k)
{
    int bits = flxi_int_bits(dtype);
    uint64_t top = UINT64_C(1) << (bits - 1);
    const int64_t list[SPECIALS] = {0,
                                    1,
                                    -1,
                                    2,
                                    -2,
                                    3,
                                    -3,
                                    7,
                                    8,
                                    9,
                                    15,
                                    16,
                                    31,
                                    32,
                                    33,
                                    63,
                                    64,
                                    65,
                                    100,
                                    -100,
                                    (int64_t)top,
                                    (int64_t)(top + 1),
                                    (int64_t)(top - 1),
                                    (int64_t)(top - 2),
                                    bits,
                                    bits - 1};
    return list[k];
}

/* Operand i takes the digit i of the position in base SPECIALS; complex ones have another value for the other part. */
static flx_tensor *fill_special(flx_context *ctx, const sample_case *c, size_t i, const flx_type *type, uint64_t *state,
                                flx_error *err)
{
    (void)c;
    flx_tensor *t = flx_tensor_new(ctx, type, NULL, err);
    int32_t part = flxi_part_dtype(type->dtype);
    int64_t parts = flxi_is_complex(type->dtype) ? 2 : 1;
    for (int64_t j = 0; t && j < t->count * parts; j++) {
        size_t k = (size_t)(i == 0 ? j / parts % SPECIALS : i == 1 ? j / parts / SPECIALS % SPECIALS : 0);
        if (i > 1 || j % parts)
            k = (size_t)(test_random(state) % SPECIALS);
        if (flxi_is_float(part))
            flxi_store_double(part, t->data, j, special_float(part, k));
        else
            flxi_store_int(part, t->data, j, type->dtype == FLX_BOOL ? (int64_t)(k & 1) : special_int(part, k));
    }
    return t;
}

/* Pointwise: the sample with every shape replaced by one axis, long enough for all pairs. Others: the sample as it is.
   */
static void try_special(const sample_case *c)
{
    char operands[200] = "";
    size_t n = 0;
    flxi_class op_class = flxi_ops[c->op].op_class;
    if (c->sample->error || !c->sample->operands || op_class == CLASS_INDEX)
        return;
    if (op_class != CLASS_POINTWISE) {
        if (c->op != OP_reduce_prod) /* its products may leave the range of f32 on the way */
            try_case(c, fill_special);
        return;
    }
    for (const char *p = c->sample->operands; *p && n + 8 < sizeof operands; p++) {
        if (*p == '{') {
            p = strchr(p, '}');
        } else if (*p == '[') {
            n += (size_t)snprintf(operands + n, sizeof operands - n, "[%d]", SPECIALS * SPECIALS);
            p = strchr(p, ']');
        } else {
            operands[n++] = *p;
        }
    }
    flxi_sample wide = *c->sample;
    sample_case special = *c;
    wide.operands = operands;
    special.sample = &wide;
    try_case(&special, fill_special);
}

TEST(lowering_agrees_with_the_evaluator_on_special_values)
{
    sample_each(try_special);
}

/* ---- Special values of indices, in every kind of dtype ---- */

static flx_tensor *fill_indices(flx_context *ctx, const sample_case *c, size_t i, const flx_type *type, uint64_t *state,
                                flx_error *err)
{
    static const double fractions[] = {NAN, INFINITY, -INFINITY, -0.0, 0.5, -0.5, 1.5, 1e30, -1e30, 4e18, 9.3e18, 2.75};
    const size_t num_fractions = sizeof fractions / sizeof *fractions;
    if (flxi_operand_role(flxi_operands_of(&flxi_ops[c->op]), (uint32_t)i) != ROLE_INDEX)
        return sample_value(ctx, c, i, type, FILL_RANDOM, state, err);
    flx_tensor *t = flx_tensor_new(ctx, type, NULL, err);
    for (int64_t j = 0; t && j < t->count; j++) {
        size_t k = (size_t)(test_random(state) % (2 * num_fractions + SPECIALS));
        if (k < num_fractions && flxi_is_float(type->dtype))
            flxi_store_double(type->dtype, t->data, j, fractions[k]);
        else if (k < SPECIALS && flxi_is_int(type->dtype))
            flxi_store_int(type->dtype, t->data, j, special_int(type->dtype, k));
        else
            flxi_store_int(type->dtype, t->data, j, (int64_t)(k % 5));
    }
    return t;
}

/* The sample with another dtype for its indices. */
static void try_indices(const sample_case *c)
{
    static const char *const dtypes[] = {"i8", "u8", "i32", "u32", "i64", "u64", "f16", "f32", "f64"};
    bool reads = flxi_ops[c->op].op_class == CLASS_INDEX;
    if (c->sample->error || !reads || (c->dtype != FLX_F32 && c->dtype != FLX_DTYPE_NONE))
        return;
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        char operands[200];
        size_t n = 0;
        for (const char *p = c->sample->operands; *p && n + 8 < sizeof operands;) {
            bool starts = p == c->sample->operands || p[-1] == ' ';
            if (starts && (*p == 'i' || *p == 'u') && p[1] >= '0' && p[1] <= '9') {
                n += (size_t)snprintf(operands + n, sizeof operands - n, "%s", dtypes[d]);
                p = strchr(p, '[');
            } else {
                operands[n++] = *p++;
            }
        }
        operands[n] = 0;
        flxi_sample other = *c->sample;
        sample_case indices = *c;
        other.operands = operands;
        indices.sample = &other;
        for (int round = 0; round < 4; round++)
            try_case(&indices, fill_indices);
    }
}

TEST(lowering_follows_the_policy_of_indices)
{
    sample_each(try_indices);
}

/* ---- Memory failure while a rule runs: every request in turn fails, with all that follow ---- */

static void starve_graph(const flx_graph *g, const sample_case *c, fault *f)
{
    uint32_t node = node_of(g, c->op);
    if (!lowers(g, flxi_node_at(g, node)))
        return;
    bool done = false;
    for (size_t n = 1; !done && n < 1000; n++) {
        flx_error err = {0};
        driver d = {.g = g, .node = node};
        f->forever = true;
        f->fail_at = f->calls + n;
        size_t failed = f->failed;
        flx_kernel *kernel = make_kernel(&d, flxi_node_at(g, node), 0, &err);
        f->fail_at = 0;
        f->forever = false;
        done = f->failed == failed;
        EXPECT_MSG((kernel != NULL) == done && (done || err.code == FLX_E_OOM), "request %zu: %s", n, err.message);
        flx_kernel_release(kernel);
    }
    EXPECT_MSG(done, "the rule needs too much memory");
    test_count_case();
}

static void try_starved(const sample_case *c)
{
    flx_error err = {0};
    fault f = {0};
    const flxi_rules *rules = flxi_ops[c->op].rules;
    bool is_tried = c->dtype == FLX_F32 || c->dtype == FLX_C64 || c->dtype == FLX_I32 || c->dtype == FLX_DTYPE_NONE;
    if (c->sample->error || !is_tried || !(rules->element || rules->pull || rules->fold))
        return;
    flx_context *ctx = flx_context_new(&(flx_context_options){.alloc = fault_alloc, .alloc_user = &f});
    flx_module *m = sample_parse(ctx, c, &err);
    if (m && !flx_graph_symbol(flx_module_main(m), 0))
        starve_graph(flx_module_main(m), c, &f);
    flx_module_free(m);
    flx_context_free(ctx);
    EXPECT_MSG(fault_is_clean(&f), "%zu blocks leaked, %zu errors", f.live_blocks, f.errors);
}

TEST(lowering_without_memory_fails_and_leaks_nothing)
{
    sample_each(try_starved);
}

/* ---- What is left to routes, decompositions and the evaluator ---- */

static const char without[] =
    "input param const optimization_barrier print check " /* not computed, or with an effect */
    "cumsum cumprod cummax cummin cumlogsumexp topk top_k sort argsort "
    "scatter_add scatter_nd matmul grouped_matmul grouped_matmul_input_backward grouped_matmul_weight_backward "
    "solve solve_triangular inv lu cholesky qr det adjugate sparse_solve eigh eig_pairs svd pinv expm "
    "conv conv_backward_input conv_backward_weight fft gaussian_splat_prepare gaussian_splat_rasterize "
    "dequant_moe_weights "
    "rng_bit_generator sample categorical gamma kernel_call "
    "all_reduce all_gather reduce_scatter all_to_all collective_permute axis_index "
    "broadcast send recv barrier custom call if case while scan cg gmres fixed_point root ";

/* Whether the list holds the word. */
static bool lists(const char *list, const char *word)
{
    char padded[80];
    snprintf(padded, sizeof padded, " %s ", word);
    return strstr(list, padded) != NULL || strncmp(list, padded + 1, strlen(padded) - 1) == 0;
}

/* A new op that has neither a rule nor a decomposition must be added here, so that none is forgotten. */
TEST(lowering_and_decomposition_are_missing_for_these_ops)
{
    for (int i = 1; i < OP_COUNT; i++) {
        const flxi_op *op = &flxi_ops[i];
        const flxi_rules *r = op->rules;
        EXPECT_MSG(!!r->element + !!r->pull + !!r->fold <= 1, "%s has several lowering rules", op->name);
        EXPECT_MSG(!r->expresses || r->element || r->pull || r->fold, "%s asks whether it lowers but has no rule",
                   op->name);
        bool missing = !r->element && !r->pull && !r->fold && !r->decompose;
        EXPECT_MSG(missing == lists(without, op->name), "%s: missing is %d", op->name, missing);
    }
}
