/* SPDX-License-Identifier: Apache-2.0 */
/* pjrt_type.c: element types of the interface: their sizes in memory, and what they are called in a program. An element
   narrower than a byte takes a byte. */
#include "pjrt/pjrt.h"

#include "pjrt/pjrt_type.h"

static const struct {
    hlo_element element;
    size_t size;
} types[PJRT_NUM_TYPES] = {
    [PJRT_PRED] = {HLO_I1, 1},
    [PJRT_S8] = {HLO_I8, 1},
    [PJRT_S16] = {HLO_I16, 2},
    [PJRT_S32] = {HLO_I32, 4},
    [PJRT_S64] = {HLO_I64, 8},
    [PJRT_U8] = {HLO_UI8, 1},
    [PJRT_U16] = {HLO_UI16, 2},
    [PJRT_U32] = {HLO_UI32, 4},
    [PJRT_U64] = {HLO_UI64, 8},
    [PJRT_F16] = {HLO_F16, 2},
    [PJRT_F32] = {HLO_F32, 4},
    [PJRT_F64] = {HLO_F64, 8},
    [PJRT_BF16] = {HLO_BF16, 2},
    [PJRT_C64] = {HLO_C64, 8},
    [PJRT_C128] = {HLO_C128, 16},
    [PJRT_F8E5M2] = {HLO_F8E5M2, 1},
    [PJRT_F8E4M3FN] = {HLO_F8E4M3FN, 1},
    [PJRT_F8E4M3B11FNUZ] = {HLO_F8E4M3B11FNUZ, 1},
    [PJRT_F8E5M2FNUZ] = {HLO_F8E5M2FNUZ, 1},
    [PJRT_F8E4M3FNUZ] = {HLO_F8E4M3FNUZ, 1},
    [PJRT_S4] = {HLO_I4, 1},
    [PJRT_U4] = {HLO_UI4, 1},
    [PJRT_S2] = {HLO_I2, 1},
    [PJRT_U2] = {HLO_UI2, 1},
    [PJRT_F8E4M3] = {HLO_F8E4M3, 1},
    [PJRT_F8E3M4] = {HLO_F8E3M4, 1},
    [PJRT_F8E8M0FNU] = {HLO_F8E8M0FNU, 1},
    [PJRT_F4E2M1FN] = {HLO_F4E2M1FN, 1},
};

size_t flxi_pjrt_type_size(int32_t type)
{
    return type > 0 && type < PJRT_NUM_TYPES ? types[type].size : 0;
}

int32_t flxi_pjrt_type_of(hlo_element element)
{
    for (int32_t i = 1; i < PJRT_NUM_TYPES; i++)
        if (types[i].size && types[i].element == element)
            return i;
    return PJRT_INVALID;
}

pjrt_error *flxi_pjrt_array_size(int32_t type, const int64_t *dims, size_t rank, size_t *nbytes)
{
    size_t n = flxi_pjrt_type_size(type);
    if (type == PJRT_TOKEN) {
        *nbytes = 0;
        return NULL;
    }
    if (!n)
        return flxi_pjrt_fail(PJRT_UNIMPLEMENTED, "element type %d is not known", (int)type);
    if (rank > FLX_MAX_RANK)
        return flxi_pjrt_fail(PJRT_UNIMPLEMENTED, "an array of rank %zu: at most %d is supported", rank, FLX_MAX_RANK);
    for (size_t i = 0; i < rank; i++)
        if (dims[i] < 0)
            return flxi_pjrt_fail(PJRT_INVALID_ARGUMENT, "dimension %zu of an array is negative", i);
        else if (!flxi_mul_size(n, (size_t)dims[i], &n) && dims[i])
            return flxi_pjrt_fail(PJRT_RESOURCE_EXHAUSTED, "the size of an array overflows");
    *nbytes = n;
    return NULL;
}
