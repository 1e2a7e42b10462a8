/* SPDX-License-Identifier: Apache-2.0 */
/* card_numbers.c: see card_numbers.h. */
#include "backend/card/card_numbers.h"

#include <fluxion/types.h>
#include <stddef.h>

/* By dtype: the type of an element, that of a sum, and how they become each other. */
static const struct {
    int32_t dtype;
    const char *types;
} numbers[] = {
#define PLAIN(type) "typedef " type " T;\ntypedef " type " A;\n#define LOAD(x) (x)\n#define SAVE(x) (x)\n"
#define SUM "#define ADD(x, y) ((x) + (y))\n"
#define REAL SUM "#define ZERO 0\n#define STEP(c, x, y) ((c) + (x) * (y))\n"
#define FLOAT32 SUM "#define ZERO 0.0f\n#define STEP(c, x, y) FMA32(x, y, c)\n"
#define NARROW(name) \
    "typedef u16 T;\ntypedef float A;\n#define LOAD(x) " name "_value(x)\n#define SAVE(x) " name "_bits(x)\n" FLOAT32
    {FLX_F32, PLAIN("float") FLOAT32},
    {FLX_F64, PLAIN("double") SUM "#define ZERO 0.0\n#define STEP(c, x, y) FMA64(x, y, c)\n"},
    {FLX_I8, PLAIN("i8") REAL},
    {FLX_U8, PLAIN("u8") REAL},
    {FLX_I16, PLAIN("i16") REAL},
    {FLX_U16, PLAIN("u16") REAL},
    {FLX_I32, PLAIN("u32") REAL}, /* sums wrap */
    {FLX_U32, PLAIN("u32") REAL},
    {FLX_I64, PLAIN("u64") REAL},
    {FLX_U64, PLAIN("u64") REAL},
    {FLX_BF16, NARROW("bf16")},
    {FLX_F16, NARROW("f16")},
#define COMPLEX(real, fma)                                                                                            \
    "typedef struct {\n    " real " x, y;\n} T;\ntypedef T A;\n#define LOAD(x) (x)\n#define SAVE(x) (x)\n"            \
    "#define ZERO PAIR(T, 0, 0)\n"                                                                                    \
    "FUNCTION T step(T c, T x, T y)\n{\n"                                                                             \
    "    return PAIR(T, " fma "(-x.y, y.y, " fma "(x.x, y.x, c.x)), " fma "(x.y, y.x, " fma "(x.x, y.y, c.y)));\n}\n" \
    "FUNCTION T sum_of(T x, T y)\n{\n    return PAIR(T, x.x + y.x, x.y + y.y);\n}\n"                                  \
    "#define ADD(x, y) sum_of(x, y)\n#define STEP(c, x, y) step(c, x, y)\n"
    {FLX_C64, COMPLEX("float", "FMA32")},
    {FLX_C128, COMPLEX("double", "FMA64")},
};

_Static_assert(sizeof numbers / sizeof *numbers == FLXI_CARD_NUM_NUMBERS, "all of them");

int32_t flxi_card_number_of(int32_t dtype)
{
    for (int32_t i = 0; i < FLXI_CARD_NUM_NUMBERS; i++)
        if (numbers[i].dtype == dtype)
            return i;
    return -1;
}

int32_t flxi_card_number_at(int32_t number)
{
    return numbers[number].dtype;
}

const char *flxi_card_number_text(int32_t dtype)
{
    int32_t i = flxi_card_number_of(dtype);
    return i < 0 ? NULL : numbers[i].types;
}

void flxi_card_add_chosen(const char *type, bool is_larger, flxi_strbuf *out)
{
    char above = is_larger ? '>' : '<';
    flxi_addf(out, "FUNCTION %s chosen(%s a, %s b)\n", type, type, type);
    if (strcmp(type, "double") == 0)
        flxi_addf(out, "{ return a != a ? a : b != b ? b : a %c b ? a : b %c a ? b : signbit(a) ? %s; }\n", above,
                  above, is_larger ? "b : a" : "a : b");
    else
        flxi_addf(out, "{ return a %c b ? a : b; }\n", above);
}
