/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_extension_rule.c: see kernel_extension_rule.h. The derivative of an extension is registered as text with
   placeholders; here it becomes the text of a kernel, which is parsed like any other. */
#include "kernel/derive/kernel_extension_rule.h"

#include "base/context.h"
#include "base/strbuf.h"
#include "kernel/derive/kernel_normalise.h"
#include "kernel/program/kernel_extension.h"

#include <stdio.h>

static void add_payload(flxi_strbuf *out, const flxi_kopaque *o)
{
    const unsigned char *bytes = o->payload;
    flxi_add_char(out, '"');
    for (size_t i = 0; i < o->payload_size; i++)
        flxi_addf(out, "%02x", bytes[i]);
    flxi_add_char(out, '"');
}

static void add_expanded(flxi_strbuf *out, const char *text, const flxi_kopaque *o)
{
    uint32_t derivative_type = o->type == FLX_F64 ? FLX_F64 : FLX_F32;
    for (const char *at; (at = strchr(text, '$')); text = at + 2) {
        flxi_add_bytes(out, text, (size_t)(at - text));
        if (at[1] == 'T')
            flxi_add_text(out, flxi_ktype_of(o->type)->name);
        else if (at[1] == 'G')
            flxi_add_text(out, flxi_ktype_of(derivative_type)->name);
        else if (at[1] == 'P')
            add_payload(out, o);
        else
            flxi_add_bytes(out, at, at[1] ? 2 : 1); /* the reader will report it */
        if (!at[1])
            return;
    }
    flxi_add_text(out, text);
}

/* A kernel without statements: `self`, which computes the operation, and its derivatives. */
static flx_kernel *read_derivative(flx_context *ctx, const flx_kernel *k, const flxi_kx *e, flx_error *err)
{
    const flxi_kopaque *o = &k->opaques[e->ref];
    const char *type = flxi_ktype_of(o->type)->name;
    char file[100];
    flxi_strbuf text;
    flx_kernel *d = NULL;
    flxi_strbuf_init(&text, flxi_context_mem(ctx));
    flxi_add_text(&text, "kernel derivative() { fn self(");
    for (size_t i = 0; i < e->num_args; i++)
        flxi_addf(&text, "%sx%zu: %s", i ? ", " : "", i, flxi_ktype_of(k->exprs[e->args[i]].type)->name);
    flxi_addf(&text, ") -> %s { return opaque<%s>(0x%x, ", type, type, (unsigned)o->known->is.id);
    add_payload(&text, o);
    for (size_t i = 0; i < e->num_args; i++)
        flxi_addf(&text, ", x%zu", i);
    flxi_add_text(&text, "); }\n");
    add_expanded(&text, o->known->is.derivative, o);
    flxi_add_text(&text, "\n}\n");
    snprintf(file, sizeof file, "the derivative of '%.60s'", o->extension);
    if (text.failed)
        flxi_oom(err, "the derivative of an extension");
    else
        d = flx_kernel_parse(ctx, text.at, text.n, file, err);
    flxi_strbuf_free(&text);
    return d;
}

uint32_t flxi_kextension_function(flxi_kb *b, const flx_kernel *k, const flxi_kx *e)
{
    if (!flxi_kb_ok(b))
        return 0;
    flx_kernel *d = read_derivative(k->ctx, k, e, &b->err);
    uint32_t fn = d ? flxi_kernel_copy_rule(b, d, k->opaques[e->ref].extension) : 0;
    flx_kernel_release(d);
    return fn;
}
