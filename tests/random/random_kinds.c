/* SPDX-License-Identifier: Apache-2.0 */
/* random_kinds.c: statements on kinds of numbers other than doubles: complex ones, those of single
   precision, and those that count as constant. */
#include "random_graph.h"

#include "test.h"

enum { PLACES = 3 };

/* ---- Complex numbers ---- */

/* The operands replace %s. The rows avoid poles and branch cuts: operands are moved away from them. */
static const char *const complex_unary[] = {
    "neg(%s)",
    "conjugate(%s)",
    "square(%s)",
    "exp(mul(0.5, %s))",
    "expm1(mul(0.5, %s))",
    "sin(%s)",
    "cos(%s)",
    "sinh(%s)",
    "cosh(%s)",
    "tanh(mul(0.3, %s))",
    "tan(mul(0.3, %s))",
    "sigmoid(mul(0.5, %s))",
    "atan(mul(0.3, %s))",
    "asin(mul(0.2, %s))",
    "acos(mul(0.2, %s))",
    "asinh(mul(0.2, %s))",
    "atanh(mul(0.2, %s))",
    "log(add(5, %s))",
    "log1p(mul(0.2, %s))",
    "sqrt(add(5, %s))",
    "rsqrt(add(5, %s))",
    "reciprocal(add(4, %s))",
    "pow(%s, 3)",
    "pow(add(4, %s), 0.7)",
    "mul(0.5, %s)",
    "add(1, %s)",
    "sign(add(3, %s))",
    "unsqueeze(%s, axes=[-1])",
    "reduce_sum(%s)",
    "optimization_barrier(%s)",
};

static const char *const complex_binary[] = {
    "add(%s, %s)",
    "sub(%s, %s)",
    "mul(%s, %s)",
    "mul(%s, conjugate(%s))",
    "div(%s, add(5, %s))",
    "div(conjugate(%s), add(4, %s))",
    "fma(0.5, %s, %s)",
    "add_n(%s, %s, 0.1)",
    "pow(add(4, %s), mul(0.2, %s))",
    "where(gt(real(%s), 0.1), %s, 0.5)",
    "complex(imag(%s), real(%s))",
};

/* The row with its operands filled in. */
static void say_row(random_line *l, const char *row, const int v[PLACES])
{
    int at = 0;
    for (const char *p = row; *p; p++) {
        if (p[0] == '%' && p[1] == 's') {
            random_say(l, "v%d", v[at < PLACES ? at++ : at - 1]);
            p++;
        } else {
            random_say(l, "%c", *p);
        }
    }
}

bool random_complex(random_maker *m)
{
    int z = random_pick(m, m->real, 0);
    random_line l = {0};
    if (z < 0)
        return false;
    int v[PLACES] = {z, random_pick_with(m, z), z};
    if (random_below(m, 2))
        say_row(&l, complex_unary[random_below(m, (int)(sizeof complex_unary / sizeof *complex_unary))], v);
    else
        say_row(&l, complex_binary[random_below(m, (int)(sizeof complex_binary / sizeof *complex_binary))], v);
    return random_keep(m, l.s, 1);
}

bool random_to_complex(random_maker *m)
{
    static const char *const rows[] = {"complex(%s, %s)", "complex(cos(%s), sin(%s))", "complex(%s, 0.5)",
                                       "mul(cast(%s, to=c128), complex(0.6, -0.8))"};
    int x = random_pick(m, m->real, 0);
    random_line l = {0};
    if (x < 0)
        return false;
    int v[PLACES] = {x, random_pick_with(m, x), x};
    say_row(&l, rows[random_below(m, 4)], v);
    return random_keep(m, l.s, 1);
}

bool random_from_complex(random_maker *m)
{
    static const char *const rows[] = {"real(%s)",
                                       "imag(%s)",
                                       "abs(%s)",
                                       "complex_norm_sq(%s)",
                                       "angle(add(3, %s))",
                                       "abs(add(3, %s))",
                                       "real(square(%s))",
                                       "gt(real(%s), imag(%s))",
                                       "real(mul(%s, conjugate(%s)))"};
    int z = random_pick(m, m->real, 0);
    random_line l = {0};
    if (z < 0)
        return false;
    say_row(&l, rows[random_below(m, (int)(sizeof rows / sizeof *rows))], (int[PLACES]){z, z, z});
    return random_keep(m, l.s, 1);
}

/* ---- Precision ---- */

bool random_precision(random_maker *m)
{
    static const struct {
        int32_t from;
        const char *row;
    } rows[] = {
        {FLX_F64, "cast(%s, to=f32)"},      {FLX_F64, "cast(tanh(%s), to=f32)"}, {FLX_F32, "cast(%s, to=f64)"},
        {FLX_F32, "sin(cast(%s, to=f64))"}, {FLX_C128, "cast(%s, to=c64)"},      {FLX_C64, "cast(%s, to=c128)"},
    };
    int x = random_pick(m, m->real, 0);
    random_line l = {0};
    for (int tries = 0; x >= 0 && tries < 12; tries++) {
        int k = random_below(m, (int)(sizeof rows / sizeof *rows));
        if (rows[k].from != m->real)
            continue;
        say_row(&l, rows[k].row, (int[PLACES]){x, x, x});
        return random_keep(m, l.s, 1);
    }
    return false;
}

/* ---- Constants ---- */

/* The value varies, but not for derivatives: at the other points it has its value at the chosen one. It is a function
   that no other statement uses, since a value that equals or cancels it would cause ties and kinks. */
bool random_stop(random_maker *m)
{
    int x = random_pick(m, m->real, 0);
    random_line l = {0};
    if (x < 0)
        return false;
    random_say(&l, "stop_gradient(sin(mul(1.37, v%d)))", x);
    if (!random_keep(m, l.s, 1))
        return false;
    random_value *v = &m->v[m->count - 1];
    for (int k = 1; k < RANDOM_POINTS; k++) {
        flx_tensor_release(v->at[k]);
        v->at[k] = flx_tensor_retain(v->at[0]);
    }
    return true;
}
