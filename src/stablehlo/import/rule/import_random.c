/* SPDX-License-Identifier: Apache-2.0 */
/* import_random.c: random numbers. rng_bit_generator is a function of its state, to the bit; rng leaves the values to
   the implementation: every rng of a program draws from a stream of its own, the same in every run. */
#include "stablehlo/import/import_site.h"

#include "graph/type/type.h"

#include <string.h>

/* The unsigned integers of a dtype's width. */
static flx_dtype bits_of(flx_dtype d)
{
    static const flx_dtype by_size[] = {[1] = FLX_U8, [2] = FLX_U16, [4] = FLX_U32, [8] = FLX_U64};
    return by_size[flx_dtype_size((int32_t)d)];
}

/* ---- rng_bit_generator ---- */

static const char *algorithm_of(hlo_site *s)
{
    static const char *const words[][2] = {
        {"DEFAULT", "philox4x32"}, {"PHILOX", "philox4x32"}, {"THREE_FRY", "threefry2x32"}};
    const char *given = flxi_hlo_word(s, "rng_algorithm", "");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(given, words[i][0]) == 0)
            return words[i][1];
    flxi_hlo_fail(s, FLX_E_ATTRIBUTE, NULL, "rng_algorithm must be DEFAULT, THREE_FRY or PHILOX");
    return NULL;
}

void flxi_hlo_import_rng_bit_generator(hlo_site *s)
{
    flx_type to;
    const char *algorithm = algorithm_of(s);
    if (!algorithm || s->ny != 2 || !flxi_hlo_static_result(s, 1, &to))
        return;
    flx_dtype d = (flx_dtype)to.dtype;
    if (flxi_is_complex(to.dtype) || d == FLX_BOOL) {
        flxi_hlo_fail(s, FLX_E_DTYPE, NULL, "bits are integers or floats, not %s", flx_dtype_name(to.dtype));
        return;
    }
    flx_rng_bit_generator(s->g, s->x[0], s->y, flxi_hlo_dims(&to), bits_of(d), algorithm);
    if (d != bits_of(d))
        s->y[1] = flx_bitcast(s->g, s->y[1], d);
}

/* ---- rng ---- */

/* Integers from a to b, without b: bits modulo the width of the range, which may be all there are. */
static flx_val whole_numbers(hlo_site *s, const flx_type *to, int64_t stream)
{
    flx_dtype d = (flx_dtype)to->dtype;
    flx_val seed[2] = {flx_scalar(s->g, FLX_U32, (double)(stream & UINT32_MAX)), flx_scalar(s->g, FLX_U32, 0)};
    flx_val bits = flx_rng_bits(s->g, flx_stack(s->g, seed, 2, 0), flxi_hlo_dims(to), FLX_U64, NULL);
    flx_val width = flx_cast(s->g, flx_sub(s->g, s->x[1], s->x[0]), FLX_U64);
    return flx_add(s->g, s->x[0], flx_cast(s->g, flx_rem(s->g, bits, width), d));
}

void flxi_hlo_import_rng(hlo_site *s)
{
    flx_type to;
    flx_ints extents;
    const char *distribution = flxi_hlo_word(s, "rng_distribution", "");
    bool is_normal = strcmp(distribution, "NORMAL") == 0;
    int64_t stream = (int64_t)s->op->at.line << 20 | s->op->at.column;
    if (!flxi_hlo_extents(s, s->x[2], &extents))
        return;
    to = flx_type_make(flxi_hlo_dtype(s, s->x[0]), (int32_t)extents.n, extents.v);
    if (!is_normal && strcmp(distribution, "UNIFORM") != 0) {
        flxi_hlo_fail(s, FLX_E_ATTRIBUTE, NULL, "rng_distribution must be UNIFORM or NORMAL");
    } else if (flxi_is_float(to.dtype)) {
        flx_rng_uniform_attrs u = FLX_RNG_UNIFORM_ATTRS;
        flx_rng_normal_attrs n = FLX_RNG_NORMAL_ATTRS;
        u.shape = n.shape = extents;
        u.dtype = n.dtype = (flx_dtype)to.dtype;
        u.stream = n.stream = stream;
        flx_val draw = is_normal ? flx_rng_normal_with(s->g, FLX_NONE, &n) : flx_rng_uniform_with(s->g, FLX_NONE, &u);
        flx_val scale = is_normal ? s->x[1] : flx_sub(s->g, s->x[1], s->x[0]);
        s->y[0] = flx_add(s->g, s->x[0], flx_mul(s->g, scale, draw));
    } else if (flxi_is_int(to.dtype) && !is_normal) {
        s->y[0] = whole_numbers(s, &to, stream);
    } else {
        flxi_hlo_fail(s, FLX_E_DTYPE, NULL, "%s numbers of %s are not defined", distribution, flx_dtype_name(to.dtype));
    }
}
