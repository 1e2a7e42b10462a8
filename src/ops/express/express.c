/* SPDX-License-Identifier: Apache-2.0 */
/* express.c: helpers for the express rules of all ops: types, small expressions, indices. */
#include "ops/express/express.h"

#include "graph/op/eval.h"

bool flxi_can_express(const flxi_op *op, const void *attrs, const flx_type *const *in, uint32_t nin)
{
    const flxi_rules *r = op->rules;
    return (r->element || r->pull || r->fold) && (!r->expresses || r->expresses(attrs, in, nin));
}

/* ---- Types ---- */

uint32_t flxi_kernel_dtype(int32_t dtype)
{
    if (dtype == FLX_C64)
        return FLX_F32;
    return dtype == FLX_C128 ? FLX_F64 : (uint32_t)dtype;
}

uint32_t flxi_kernel_storage(int32_t dtype)
{
    return dtype == FLX_BOOL ? FLX_U8 : flxi_kernel_dtype(dtype);
}

/* ---- Arithmetic ---- */

uint32_t flxi_k1(flxi_express *e, flxi_kunary op, uint32_t x)
{
    return flxi_kb_unary(e->k, op, x);
}

/* Kernels reject the literal 0 as a divisor of integers, since it is usually a mistake. Ops may divide by it. */
static uint32_t as_divisor(flxi_express *e, uint32_t y)
{
    const flxi_kx *n = flxi_kb_expr(e->k, y);
    bool is_zero = n && n->kind == KX_LITERAL && n->bits == 0 && flxi_ktype_fits(n->type, TAKES_INT);
    return is_zero ? flxi_kb_var(e->k, flxi_kb_let(e->k, flxi_kname(e), y)) : y;
}

uint32_t flxi_k2(flxi_express *e, flxi_kbinary op, uint32_t x, uint32_t y)
{
    if (op == KBIN_div || op == KBIN_mod)
        y = as_divisor(e, y);
    return flxi_kb_binary(e->k, op, x, y);
}

uint32_t flxi_kc(flxi_express *e, uint32_t like, double value)
{
    return flxi_kb_number(e->k, flxi_kb_type(e->k, like), value);
}

const char *flxi_kname(flxi_express *e)
{
    return flxi_kb_fresh_name(e->k, "t");
}

uint32_t flxi_khold(flxi_express *e, uint32_t x)
{
    const flxi_kx *at = flxi_kb_expr(e->k, x);
    if (!at || at->kind == KX_LITERAL || at->kind == KX_VAR)
        return x;
    return flxi_kb_var(e->k, flxi_kb_let(e->k, flxi_kname(e), x));
}

flxi_kval flxi_khold_value(flxi_express *e, flxi_kval x)
{
    return (flxi_kval){flxi_khold(e, x.re), x.im ? flxi_khold(e, x.im) : 0};
}

uint32_t flxi_kunsigned(uint32_t type)
{
    return type >= FLX_I64 && type <= FLX_I8 ? type - FLX_I64 + FLX_U64 : type;
}

uint32_t flxi_ksigned(uint32_t type)
{
    return type >= FLX_U64 && type <= FLX_U8 ? type - FLX_U64 + FLX_I64 : type;
}

flxi_kval flxi_kparts(flxi_express *e, flxi_kbinary op, flxi_kval x, flxi_kval y)
{
    return (flxi_kval){flxi_k2(e, op, x.re, y.re), x.im ? flxi_k2(e, op, x.im, y.im) : 0};
}

uint32_t flxi_ktruth(flxi_express *e, flxi_kval x)
{
    uint32_t re = flxi_kb_cast(e->k, FLX_BOOL, x.re);
    return x.im ? flxi_k2(e, KBIN_logical_or, re, flxi_kb_cast(e->k, FLX_BOOL, x.im)) : re;
}

bool flxi_expresses_reals(const void *attrs, const flx_type *const *in, uint32_t nin)
{
    (void)attrs, (void)nin;
    return !flxi_is_complex(in[0]->dtype);
}

static flxi_kval number_of(flxi_express *e, int32_t dtype, double value)
{
    uint32_t type = flxi_kernel_dtype(dtype);
    flxi_kval x = {type == FLX_BOOL ? flxi_kb_bool(e->k, value != 0) : flxi_kb_number(e->k, type, value), 0};
    if (flxi_is_complex(dtype))
        x.im = flxi_kb_number(e->k, type, 0);
    return x;
}

flxi_kval flxi_kzero(flxi_express *e, int32_t dtype)
{
    return number_of(e, dtype, 0);
}

flxi_kval flxi_kone(flxi_express *e, int32_t dtype)
{
    return number_of(e, dtype, 1);
}

flxi_kval flxi_kchoose(flxi_express *e, uint32_t c, flxi_kval a, flxi_kval b)
{
    return (flxi_kval){flxi_kb_select(e->k, c, a.re, b.re), a.im ? flxi_kb_select(e->k, c, a.im, b.im) : 0};
}

/* ---- Indices ---- */

static bool is_number(flxi_express *e, uint32_t x, uint64_t *value)
{
    const flxi_kx *at = flxi_kb_expr(e->k, x);
    if (!at || at->kind != KX_LITERAL)
        return false;
    *value = at->bits;
    return true;
}

uint32_t flxi_ku(flxi_express *e, int64_t value)
{
    return flxi_kb_u32(e->k, (uint32_t)value);
}

/* What x is divided by, and in *of x itself; 1 where it is not a quotient. */
static uint64_t divisor_of(flxi_express *e, uint32_t x, uint32_t *of)
{
    uint64_t by;
    const flxi_kx *q = flxi_kb_expr(e->k, x);
    bool is_quotient = q && q->kind == KX_BINARY && q->op == KBIN_div && is_number(e, q->x[1], &by);
    *of = is_quotient ? q->x[0] : x;
    return is_quotient ? by : 1;
}

/* x / c * c + x % c is x: an index split and recombined. So is y / (d c) * c + y / d % c, where x is y / d. */
static uint32_t rejoined(flxi_express *e, uint32_t product, uint32_t rest)
{
    uint64_t b, c;
    uint32_t whole, part;
    const flxi_kx *p = flxi_kb_expr(e->k, product), *r = flxi_kb_expr(e->k, rest);
    if (!p || !r || p->kind != KX_BINARY || p->op != KBIN_mul || r->kind != KX_BINARY || r->op != KBIN_mod)
        return 0;
    if (!is_number(e, p->x[1], &b) || !is_number(e, r->x[1], &c) || b != c)
        return 0;
    uint64_t by = divisor_of(e, p->x[0], &whole), d = divisor_of(e, r->x[0], &part);
    if (by == c && whole == r->x[0])
        return r->x[0];
    return by == d * c && whole == part ? r->x[0] : 0;
}

uint32_t flxi_ku_add(flxi_express *e, uint32_t x, uint32_t y)
{
    uint64_t a, b;
    bool known_x = is_number(e, x, &a), known_y = is_number(e, y, &b);
    if (known_x && known_y)
        return flxi_kb_u32(e->k, (uint32_t)(a + b));
    if (known_x && a == 0)
        return y;
    if (known_y && b == 0)
        return x;
    uint32_t whole = rejoined(e, x, y);
    return whole ? whole : flxi_kb_binary(e->k, KBIN_add, x, y);
}

uint32_t flxi_ku_sub(flxi_express *e, uint32_t x, uint32_t y)
{
    uint64_t a, b;
    bool known_y = is_number(e, y, &b);
    if (known_y && is_number(e, x, &a))
        return flxi_kb_u32(e->k, (uint32_t)(a - b));
    return known_y && b == 0 ? x : flxi_kb_binary(e->k, KBIN_sub, x, y);
}

uint32_t flxi_ku_mul(flxi_express *e, uint32_t x, int64_t c)
{
    uint64_t a;
    if (is_number(e, x, &a))
        return flxi_kb_u32(e->k, (uint32_t)(a * (uint64_t)c));
    if (c == 0)
        return flxi_ku(e, 0);
    return c == 1 ? x : flxi_kb_binary(e->k, KBIN_mul, x, flxi_ku(e, c));
}

uint32_t flxi_ku_div(flxi_express *e, uint32_t x, int64_t c)
{
    uint64_t a;
    if (is_number(e, x, &a))
        return flxi_kb_u32(e->k, (uint32_t)(a / (uint64_t)c));
    return c == 1 ? x : flxi_kb_binary(e->k, KBIN_div, x, flxi_ku(e, c));
}

uint32_t flxi_ku_mod(flxi_express *e, uint32_t x, int64_t c)
{
    uint64_t a;
    if (is_number(e, x, &a))
        return flxi_kb_u32(e->k, (uint32_t)(a % (uint64_t)c));
    return c == 1 ? flxi_ku(e, 0) : flxi_kb_binary(e->k, KBIN_mod, x, flxi_ku(e, c));
}

uint32_t flxi_at_axis(flxi_express *e, const flx_type *t, flxi_kindex *at, int axis)
{
    int64_t strides[FLX_MAX_RANK];
    if (at->dim[axis])
        return at->dim[axis];
    flxi_strides(t, strides);
    bool is_outermost = true;
    for (int k = 0; k < axis; k++)
        is_outermost &= t->dims[k] == 1;
    uint32_t i = t->dims[axis] == 1 ? flxi_ku(e, 0) : flxi_ku_div(e, at->flat, strides[axis] ? strides[axis] : 1);
    if (!is_outermost && t->dims[axis] > 1)
        i = flxi_ku_mod(e, i, t->dims[axis]);
    return at->dim[axis] = i;
}

uint32_t flxi_at_flat(flxi_express *e, const flx_type *t, flxi_kindex *at)
{
    if (at->flat)
        return at->flat;
    uint32_t flat = flxi_ku(e, 0);
    for (int k = 0; k < t->rank; k++)
        if (t->dims[k] != 1)
            flat = flxi_ku_add(e, flxi_ku_mul(e, flat, t->dims[k]), at->dim[k]);
    return at->flat = flat;
}

flxi_kindex flxi_at_axes(flxi_express *e, const flxi_kindex *at)
{
    flxi_kindex to = *at;
    for (int k = 0; k < e->out[0]->rank; k++)
        flxi_at_axis(e, e->out[0], &to, k);
    to.flat = 0;
    return to;
}

uint32_t flxi_ku_guarded(flxi_express *e, uint32_t c, uint32_t x)
{
    return flxi_kb_select(e->k, c, x, flxi_ku(e, 0));
}

static bool same_dims(const flx_type *a, const flx_type *b)
{
    return a->rank == b->rank && memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0;
}

flxi_kindex flxi_at_broadcast(flxi_express *e, const flx_type *t, const flx_type *to, flxi_kindex *at)
{
    flxi_kindex in = {0};
    if (same_dims(t, to))
        return *at;
    int shift = to->rank - t->rank;
    for (int k = 0; k < t->rank; k++)
        in.dim[k] = t->dims[k] == 1 ? flxi_ku(e, 0) : flxi_at_axis(e, to, at, k + shift);
    flxi_at_flat(e, t, &in);
    return in;
}

/* Axes are taken from the right in the smallest groups whose extents have equal products. */
flxi_kindex flxi_at_reshape(flxi_express *e, const flx_type *from, const flx_type *to, flxi_kindex *at)
{
    flxi_kindex in = {.flat = at->flat};
    int i = from->rank, j = to->rank;
    while (i > 0 && j > 0) {
        int i_end = i, j_end = j;
        int64_t a = from->dims[--i], b = to->dims[--j];
        while (a != b && (a < b ? i : j) > 0) {
            if (a < b)
                a *= from->dims[--i];
            else
                b *= to->dims[--j];
        }
        if (a != b) /* only extents of 1 are left on one side */
            break;
        uint32_t within = flxi_ku(e, 0);
        for (int k = j; k < j_end; k++)
            within = flxi_ku_add(e, flxi_ku_mul(e, within, to->dims[k]), flxi_at_axis(e, to, at, k));
        for (int k = i_end; k-- > i;) {
            in.dim[k] = k == i ? within : flxi_ku_mod(e, within, from->dims[k] ? from->dims[k] : 1);
            within = k == i ? within : flxi_ku_div(e, within, from->dims[k] ? from->dims[k] : 1);
        }
    }
    for (int k = 0; k < from->rank; k++)
        if (!in.dim[k])
            in.dim[k] = flxi_ku(e, 0);
    flxi_at_flat(e, from, &in);
    return in;
}
