/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_opaque.c: emits extensions with their registered texts. */
#include "emit/kernel_writer.h"

#include "kernel/program/kernel_extension.h"

#include <stdio.h>

static const flx_kernel_spelling *spelling_of(const flxi_kwriter *w, const flxi_kopaque *o)
{
    return (const flx_kernel_spelling *)(const void *)((const char *)&o->known->is + w->target->spelling);
}

static const flx_kernel_spelling *find_spelling(flxi_kwriter *w, const flxi_kopaque *o)
{
    if (!o->known) {
        flxi_kw_fail(w, "K64", "register it before the kernel is built, or remove it",
                     "extension '%.60s' is not registered", o->extension);
        return NULL;
    }
    if (!spelling_of(w, o)->text) {
        flxi_kw_fail(w, "K64", "register it with a text for this target, or use another device",
                     "extension '%.60s' has no text for %s", o->extension, w->target->name);
        return NULL;
    }
    return spelling_of(w, o);
}

/* Its prelude appears once in the file, before all functions that could use it. */
static void add_prelude(flxi_kwriter *w, const flxi_kopaque *o, const char *prelude)
{
    char name[40];
    flxi_kfile *f = w->file;
    snprintf(name, sizeof name, "extension %u", (unsigned)o->known->is.id);
    if (!prelude || flxi_is_interned(&f->written, name))
        return;
    if (!flxi_intern(&f->written, name, strlen(name)))
        f->failed = true;
    flxi_add_text(&f->functions, prelude);
    flxi_add_char(&f->functions, '\n');
}

static void add_code(flxi_strbuf *out, char code, const flxi_kopaque *o)
{
    const unsigned char *bytes = o->payload;
    if (code == 'T')
        flxi_add_text(out, flxi_ktext_type(o->type));
    else if (code == '$')
        flxi_add_char(out, '$');
    else
        for (size_t i = 0; i < o->payload_size; i++)
            flxi_addf(out, "%s%u", i ? ", " : "", bytes[i]);
}

/* The existence of the operands was checked at registration. */
static void add_text(flxi_strbuf *out, const char *text, const flxi_kopaque *o, const char *const *args)
{
    for (const char *at; (at = strchr(text, '$')); text = at) {
        flxi_add_bytes(out, text, (size_t)(at++ - text));
        size_t number = 0;
        if (*at < '0' || *at > '9') {
            add_code(out, *at++, o);
            continue;
        }
        while (*at >= '0' && *at <= '9')
            number = number * 10 + (size_t)(*at++ - '0');
        flxi_add_char(out, '(');
        flxi_add_text(out, args[number]);
        flxi_add_char(out, ')');
    }
    flxi_add_text(out, text);
}

/* A value of the type, whatever the text returns: 16-bit floats are rounded, a truth value is 0 or 1. */
static void add_value(flxi_kwriter *w, flxi_strbuf *out, uint32_t type, const char *text)
{
    bool is_canonical = w->observes_bits && flxi_ktype_is_float(type);
    if (is_canonical) {
        flxi_kfile_name(w->file, out, "canonical", &(flxi_ksubject){.type = type == FLX_F64 ? FLX_F64 : FLX_F32});
        flxi_add_char(out, '(');
    }
    if (type == FLX_F16 || type == FLX_BF16)
        flxi_ktext_cast(w->file, out, type, FLX_F32, text);
    else if (type == FLX_BOOL)
        flxi_kfile_expand(w->file, out, "((k_bool)($a != 0))", &(flxi_ksubject){.x = {text}});
    else
        flxi_kfile_expand(w->file, out, "(($T)$a)", &(flxi_ksubject){.x = {text}, .type = type});
    if (is_canonical)
        flxi_add_char(out, ')');
}

void flxi_kw_opaque(flxi_kwriter *w, flxi_strbuf *out, uint32_t opaque, uint32_t type, const char *const *args)
{
    const flxi_kopaque *o = &w->k->opaques[opaque];
    const flx_kernel_spelling *s = find_spelling(w, o);
    flxi_strbuf text;
    if (!s)
        return;
    add_prelude(w, o, s->prelude);
    flxi_strbuf_init(&text, w->file->mem);
    flxi_add_char(&text, '(');
    add_text(&text, s->text, o, args);
    flxi_add_char(&text, ')');
    if (text.failed)
        w->file->failed = true;
    else if (type)
        add_value(w, out, type, text.at);
    else
        flxi_add_bytes(out, text.at + 1, text.n - 2);
    flxi_strbuf_free(&text);
}
