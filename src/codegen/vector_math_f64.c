/* vector_math_f64.c: mathematical functions on vectors of f64. */
#include "codegen/vector_spelling.h"

const flxi_vhelper flxi_vector_math_f64[] = {
    {{NULL, 0, NULL}, 0},
};
