/* SPDX-License-Identifier: Apache-2.0 */
/* parts.c: the table of parts, and elements of every dtype as values in C. */
#include "standalone/parts/parts.h"

#include "base/number.h"
#include "emit/kernel_spelling.h"
#include "ops/opcode.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

static const flxi_sa_part parts[] = {
#undef PART
#undef PLAIN_PART
#undef FAILING_PART
#undef CALLING_PART
#undef SHARED_PART
#undef VECTOR_PART
#undef TABLE_PART
#undef BLOCK_PART
#define ROW(op, name, applies, scratch, write) OP_##op, #name, applies, scratch, write
#define PART(op, name, applies, scratch, write) \
    {ROW(op, name, applies, scratch, write), false, false, false, NULL, NULL, NULL},
#define PLAIN_PART(op, name, applies, write) \
    {ROW(op, name, applies, NULL, write), false, false, false, NULL, NULL, NULL},
#define FAILING_PART(op, name, applies, scratch, write) \
    {ROW(op, name, applies, scratch, write), true, false, false, NULL, NULL, NULL},
#define CALLING_PART(op, name, applies, scratch, write) \
    {ROW(op, name, applies, scratch, write), true, true, false, NULL, NULL, NULL},
#define SHARED_PART(op, name, applies, scratch, write) \
    {ROW(op, name, applies, scratch, write), false, false, false, write##_cuts, NULL, NULL},
#define VECTOR_PART(op, name, applies, scratch, write) \
    {ROW(op, name, applies, scratch, write), false, false, true, write##_cuts, NULL, NULL},
#define BLOCK_PART(op, write) \
    {ROW(op, blocks, flxi_sa_blocks_applies, flxi_sa_blocks_scratch, write), false, false, true, NULL, NULL, NULL},
#define TABLE_PART(op, name, applies, scratch, write) \
    {ROW(op, name, applies, scratch, write), false, false, false, NULL, write##_table, write##_fill},
#include "standalone/parts/parts.def"
};

const flxi_sa_part *flxi_sa_part_find(const flxi_device_node *n, bool has_vectors, const char **why)
{
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (parts[i].op != n->op || (parts[i].needs_vectors && !has_vectors))
            continue;
        *why = parts[i].applies(n);
        if (!*why)
            return &parts[i];
    }
    return NULL;
}

/* Updates go into the operand where nothing else reads it. */
bool flxi_sa_part_is_in_place(const flxi_sa_part *p)
{
    return p->op == OP_scatter_nd;
}

size_t flxi_sa_cuts_bytes(const flxi_sa_cuts *c)
{
    return c->common + FLXI_SA_MAX_THREADS * (c->bytes - c->common);
}

flxi_sa_cuts flxi_sa_cuts_of(const flxi_sa_part *p, const flxi_device_node *n)
{
    const flxi_sa_cuts none = {0}, c = p->cuts ? p->cuts(n) : none;
    return c.units > 1 && (!c.terms || c.terms >= FLXI_SA_MIN_TERMS) ? c : none;
}

flxi_sa_cuts flxi_sa_cuts_in(const flxi_sa_file *f, const flxi_sa_part *p, const flxi_device_node *n)
{
    if (!f->threads || !p->cuts)
        return (flxi_sa_cuts){0};
    if (!f->num_symbols)
        return flxi_sa_cuts_of(p, n);
    flxi_sa_cuts c = p->cuts(n);
    c.bytes = flxi_sa_padded(f, p->scratch ? p->scratch(n) : 0);
    return c;
}

size_t flxi_sa_no_scratch(const flxi_device_node *n)
{
    (void)n;
    return 0;
}

const char *flxi_sa_always(const flxi_device_node *n)
{
    (void)n;
    return NULL;
}

const char *flxi_sa_print(flxi_sa_writer *w, const char *fmt, ...)
{
    char text[600];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return flxi_sa_text(w->f, "%s", text);
}

int64_t flxi_sa_count(const flx_type *t)
{
    return flxi_known_count(t);
}

/* ---- Values ---- */

const char *flxi_sa_arithmetic(int32_t dtype)
{
    switch (dtype) {
    case FLX_F64:
    case FLX_C128: return "double";
    case FLX_F32:
    case FLX_C64:
    case FLX_F16:
    case FLX_BF16: return "float";
    case FLX_I64:
    case FLX_U64: return "uint64_t";
    default: return "uint32_t";
    }
}

const char *flxi_sa_function_of(flxi_sa_writer *w, const char *name, int32_t dtype)
{
    flxi_strbuf text;
    flxi_strbuf_init(&text, w->f->mem);
    flxi_kfile_name(&w->f->kernels, &text, name, &(flxi_ksubject){.type = (uint32_t)dtype});
    const char *kept = text.at ? flxi_sa_text(w->f, "%s", text.at) : "";
    w->f->failed |= text.failed;
    flxi_strbuf_free(&text);
    return kept;
}

const char *flxi_sa_load(flxi_sa_writer *w, int32_t dtype, const char *element)
{
    if (dtype == FLX_F16)
        return flxi_sa_print(w, "%s(%s)", flxi_sa_function_of(w, "f16_value", dtype), element);
    if (dtype == FLX_BF16)
        return flxi_sa_print(w, "%s(%s)", flxi_sa_function_of(w, "bf16_value", dtype), element);
    if (flxi_is_int(dtype))
        return flxi_sa_print(w, "(%s)%s", flxi_sa_arithmetic(dtype), element);
    return element;
}

const char *flxi_sa_store(flxi_sa_writer *w, int32_t dtype, const char *value)
{
    if (dtype == FLX_F16)
        return flxi_sa_print(w, "%s(%s(%s))", flxi_sa_function_of(w, "f16_bits", dtype),
                             flxi_sa_function_of(w, "round_f16", dtype), value);
    if (dtype == FLX_BF16)
        return flxi_sa_print(w, "%s(%s(%s))", flxi_sa_function_of(w, "bf16_bits", dtype),
                             flxi_sa_function_of(w, "round_bf16", dtype), value);
    if (flxi_is_int(dtype) || dtype == FLX_BOOL)
        return flxi_sa_print(w, "(%s)%s", flxi_sa_type(dtype), value);
    return value;
}

const char *flxi_sa_rounded(flxi_sa_writer *w, int32_t dtype, const char *value)
{
    if (dtype == FLX_F64)
        return value;
    return flxi_sa_store(w, dtype, flxi_sa_print(w, "(float)(%s)", value));
}

const char *flxi_sa_real(flxi_sa_writer *w, double x)
{
    char text[FLXI_NUMBER_MAX];
    if (isinf(x))
        return x > 0 ? "INFINITY" : "-INFINITY";
    flxi_write_double(text, x, 53);
    return flxi_sa_print(w, strpbrk(text, ".e") ? "%s" : "%s.0", text);
}

void flxi_sa_call_body(flxi_sa_writer *w, uint32_t k, const char *arguments)
{
    const flxi_routine *body = w->step->bodies[k];
    const char *name = "", *model = w->f->threads ? "NULL, " : ""; /* one thread computes it */
    w->code = flxi_sa_body(w->routine, body, &name);
    if (w->code != FLX_OK)
        return;
    if (!w->routine->body_fails[body->number]) {
        flxi_sa_line(w, "%s(%s%s);", name, model, arguments);
        return;
    }
    flxi_sa_open(w, "/* a graph that can fail */");
    flxi_sa_line(w, "const int failure = %s(%s%s);", name, model, arguments);
    flxi_sa_line(w, "if (failure != 0)");
    flxi_sa_line(w, "    return failure;");
    flxi_sa_close(w);
}

const char *flxi_sa_index(flxi_sa_writer *w, int32_t dtype, const char *element)
{
    (void)dtype;
    return flxi_sa_print(w, "(int64_t)%s", element);
}
