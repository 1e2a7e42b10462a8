/* SPDX-License-Identifier: Apache-2.0 */
/* vhlo_sharding.c: attributes of the dialect sdy as the text that MLIR writes for them. A program for several devices
   says with them which devices there are (a mesh) and how values are cut among them; readers of the tree take the text
   apart, so that bytecode and text go the same way. */
#include "base/strbuf.h"
#include "stablehlo/bytecode/vhlo_reader.h"

enum {
    SDY_MANUAL_AXES,
    SDY_MESH_AXIS,
    SDY_MESH,
    SDY_PART_OF_AXIS,
    SDY_AXIS_REFERENCE,
    SDY_DIMENSION,
    SDY_SHARDING,
    SDY_SHARDINGS,
    SDY_UNREDUCED_SHARDING = 15,
    SDY_UNREDUCED_SHARDINGS = 16
};

typedef struct {
    vhlo_reader *r;
    vhlo_bytes *b;
    flxi_strbuf out;
} writer;

/* ---- Parts ---- */

/* The text of another attribute, without what it begins with there. */
static flx_code add_nested(writer *w, const char *without)
{
    const hlo_attr *a;
    size_t n = strlen(without);
    FLXI_TRY(flxi_vhlo_read_attr(w->r, w->b, &a));
    if (a->kind == HLO_A_STRING) {
        flxi_add_quoted(&w->out, a->text);
    } else if (a->kind == HLO_A_SYMBOL) {
        flxi_addf(&w->out, "@%s", a->text);
    } else if (a->kind == HLO_A_OPAQUE) {
        FLXI_TRY(flxi_vhlo_charge(w->r, w->b->at, a->length));
        flxi_add_text(&w->out, strncmp(a->text, without, n) == 0 ? a->text + n : a->text);
    }
    return FLX_OK;
}

static flx_code add_list(writer *w, const char *open, const char *without, const char *close)
{
    size_t n = flxi_vhlo_count(w->b);
    flxi_add_text(&w->out, open);
    for (size_t i = 0; i < n; i++) {
        flxi_add_text(&w->out, i ? ", " : "");
        FLXI_TRY(add_nested(w, without));
    }
    flxi_add_text(&w->out, close);
    return flxi_vhlo_check(w->r, w->b, "a list of shardings");
}

static flx_code add_name(writer *w)
{
    hlo_span name;
    FLXI_TRY(flxi_vhlo_string(w->r, w->b, &name));
    flxi_add_quoted(&w->out, name.at);
    return FLX_OK;
}

/* ["x"=2, "y"=4], device_ids=[1, 0] */
static flx_code add_mesh(writer *w)
{
    size_t base = w->r->p.ints.n;
    FLXI_TRY(add_list(w, "#sdy.mesh<[", "", "]"));
    FLXI_TRY(flxi_vhlo_read_ints(w->r, w->b));
    for (size_t i = base; i < w->r->p.ints.n; i++)
        flxi_addf(&w->out, "%s%lld", i > base ? ", " : ", device_ids=[", (long long)w->r->p.ints.at[i]);
    flxi_add_text(&w->out, w->r->p.ints.n > base ? "]>" : ">");
    w->r->p.ints.n = base;
    return FLX_OK;
}

/* "x", or "x":(1)2 for a part of the axis. */
static flx_code add_reference(writer *w)
{
    FLXI_TRY(add_name(w));
    const unsigned char *at = w->b->at;
    uint64_t flagged = flxi_vhlo_varint(w->b);
    const hlo_attr *part;
    if (!(flagged & 1))
        return FLX_OK;
    FLXI_TRY(flxi_vhlo_attr(w->r, at, flagged >> 1, &part));
    if (part->kind == HLO_A_OPAQUE)
        flxi_addf(&w->out, ":%.60s", part->text);
    return FLX_OK;
}

/* {"x", ?}p1 */
static flx_code add_dimension(writer *w)
{
    size_t before = w->out.n;
    FLXI_TRY(add_list(w, "{", "", ""));
    bool is_closed = flxi_vhlo_byte(w->b), is_empty = w->out.n == before + 1;
    uint64_t priority = flxi_vhlo_varint(w->b);
    flxi_add_text(&w->out, is_closed ? "}" : is_empty ? "?}" : ", ?}");
    if (priority & 1)
        flxi_addf(&w->out, "p%llu", (unsigned long long)(priority >> 1));
    return FLX_OK;
}

/* , replicated={"x"}; nothing for an empty list. */
static flx_code add_named_axes(writer *w, const char *name)
{
    vhlo_bytes ahead = *w->b;
    if (flxi_vhlo_count(&ahead) == 0) {
        *w->b = ahead;
        return FLX_OK;
    }
    flxi_addf(&w->out, ", %s=", name);
    return add_list(w, "{", "", "}");
}

static flx_code add_sharding(writer *w, bool has_unreduced)
{
    flxi_add_text(&w->out, "#sdy.sharding<");
    FLXI_TRY(add_nested(w, "#sdy."));
    FLXI_TRY(add_list(w, ", [", "", "]"));
    FLXI_TRY(add_named_axes(w, "replicated"));
    if (has_unreduced)
        FLXI_TRY(add_named_axes(w, "unreduced"));
    flxi_add_char(&w->out, '>');
    return FLX_OK;
}

/* ---- By number ---- */

static flx_code add_attribute(writer *w, uint64_t code)
{
    switch (code) {
    case SDY_MANUAL_AXES: return add_list(w, "#sdy<manual_axes{", "", "}>");
    case SDY_MESH_AXIS:
        FLXI_TRY(add_name(w));
        flxi_addf(&w->out, "=%lld", (long long)flxi_vhlo_svarint(w->b));
        return FLX_OK;
    case SDY_MESH: return add_mesh(w);
    case SDY_PART_OF_AXIS:
        flxi_addf(&w->out, "(%lld)", (long long)flxi_vhlo_svarint(w->b));
        flxi_addf(&w->out, "%lld", (long long)flxi_vhlo_svarint(w->b));
        return FLX_OK;
    case SDY_AXIS_REFERENCE: return add_reference(w);
    case SDY_DIMENSION: return add_dimension(w);
    case SDY_SHARDING: return add_sharding(w, false);
    case SDY_UNREDUCED_SHARDING: return add_sharding(w, true);
    case SDY_SHARDINGS:
    case SDY_UNREDUCED_SHARDINGS: return add_list(w, "#sdy.sharding_per_value<[", "#sdy.sharding", "]>");
    default: return FLX_OK; /* rules, and results of a partitioner: notes */
    }
}

flx_code flxi_vhlo_sharding(vhlo_reader *r, uint64_t code, vhlo_bytes *b, hlo_attr *out)
{
    writer w = {.r = r, .b = b};
    flxi_strbuf_init(&w.out, r->p.mem);
    flx_code result = add_attribute(&w, code);
    bool is_complete = !w.out.failed;
    const char *text =
        is_complete && result == FLX_OK ? flxi_hlop_keep(&r->p, (hlo_span){w.out.n ? w.out.at : "", w.out.n}) : NULL;
    out->kind = HLO_A_OPAQUE;
    out->text = text;
    out->length = w.out.n;
    flxi_strbuf_free(&w.out);
    if (result == FLX_OK && !is_complete)
        return flxi_hlop_oom(&r->p);
    return result == FLX_OK && !text ? FLX_E_OOM : result;
}
