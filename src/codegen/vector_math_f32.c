/* vector_math_f32.c: mathematical functions on vectors of f32. */
#include "codegen/vector_spelling.h"

const flxi_vhelper flxi_vector_math_f32[] = {
    {{NULL, 0, NULL}, 0},
};
