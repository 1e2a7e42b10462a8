/* SPDX-License-Identifier: Apache-2.0 */
/* axis_letters.c: see axis_letters.h. */
#include "ops/rule/axis/axis_letters.h"

#include "ops/rule/axis/extent.h"

enum { UNKNOWN = -1 }; /* no extent is negative */

static flxi_letters no_letters(void)
{
    flxi_letters dims;
    for (int c = 0; c < FLXI_LETTERS; c++)
        dims.of[c] = UNKNOWN;
    return dims;
}

typedef struct {
    char text[48];
} axes_text;

/* "[N, S, H]" */
static const char *axes_str(const char *axes, axes_text *out)
{
    size_t n = 0;
    out->text[n++] = '[';
    for (const char *c = axes; *c && n + 4 < sizeof out->text; c++) {
        out->text[n++] = *c;
        if (c[1]) {
            out->text[n++] = ',';
            out->text[n++] = ' ';
        }
    }
    out->text[n++] = ']';
    out->text[n] = 0;
    return out->text;
}

static flx_code fail_rank(flxi_infer *f, uint32_t i, const char *axes)
{
    char name[32];
    axes_text wanted;
    flxi_type_text found;
    return flxi_infer_fail(f, FLX_E_SHAPE, NULL, "%s must have %zu axes %s, but it is %s",
                           flxi_operand_name(f, i, name, sizeof name), strlen(axes), axes_str(axes, &wanted),
                           flxi_type_str(f->ctx, f->in[i], &found));
}

/* Operand i contradicts one before it in the extent of a letter. */
static flx_code fail_extent(flxi_infer *f, const char *const *axes, uint32_t i, char letter)
{
    char names[2][32];
    axes_text texts[2];
    flxi_type_text types[2];
    uint32_t first = 0;
    while (first < i && !strchr(axes[first], letter))
        first++;
    return flxi_infer_fail(f, FLX_E_SHAPE, NULL, "%c differs: %s %s is %s, %s %s is %s", letter,
                           flxi_operand_name(f, first, names[0], sizeof names[0]), axes_str(axes[first], &texts[0]),
                           flxi_shape_str(f->ctx, f->in[first], &types[0]),
                           flxi_operand_name(f, i, names[1], sizeof names[1]), axes_str(axes[i], &texts[1]),
                           flxi_shape_str(f->ctx, f->in[i], &types[1]));
}

static void note(flxi_letters *dims, char letter, flx_dim d)
{
    flx_dim *known = &dims->of[(unsigned char)letter % FLXI_LETTERS];
    *known = *known == UNKNOWN ? d : flxi_agreed_dim(*known, d);
}

flx_code flxi_match_letters(flxi_infer *f, const char *const *axes, flxi_letters *dims)
{
    *dims = no_letters();
    for (uint32_t i = 0; i < f->nin; i++) {
        const flx_type *t = f->in[i];
        if ((size_t)t->rank != strlen(axes[i]))
            return fail_rank(f, i, axes[i]);
        for (int k = 0; k < t->rank; k++) {
            flx_dim known = dims->of[(unsigned char)axes[i][k] % FLXI_LETTERS];
            if (known != UNKNOWN && !flxi_dims_may_equal(f, known, t->dims[k]))
                return fail_extent(f, axes, i, axes[i][k]);
            note(dims, axes[i][k], t->dims[k]);
        }
    }
    return FLX_OK;
}

flxi_letters flxi_site_letters(const flxi_site *s, const char *const *axes)
{
    flxi_letters dims = no_letters();
    for (uint32_t i = 0; i < s->nin; i++) {
        const flx_type *t = flxi_typeof(s, s->x[i]);
        for (int k = 0; k < t->rank; k++)
            note(&dims, axes[i][k], t->dims[k]);
    }
    return dims;
}

flx_type flxi_lettered(int32_t dtype, const char *axes, const flxi_letters *dims)
{
    flx_type t = {.dtype = dtype};
    for (const char *c = axes; *c; c++)
        t.dims[t.rank++] = dims->of[(unsigned char)*c % FLXI_LETTERS];
    return t;
}

flx_val flxi_as_lettered(flxi_site *s, flx_val v, const char *axes, const flxi_letters *dims)
{
    flx_type t = flxi_lettered(flxi_typeof(s, v)->dtype, axes, dims);
    return flxi_reshape_to(s, v, t.rank, t.dims);
}
