/* SPDX-License-Identifier: Apache-2.0 */
/* vector_statement.c: emits statements for all lanes of a vector, and for those of a mask.

   Where all lanes agree, `if` and loops are those of C. Otherwise a mask holds the active lanes: all lanes compute, but
   variables change and stores happen for active lanes only. A condition learned from an `if` of this kind says nothing
   about the inactive lanes, so it proves no access. */
#include "emit/vector/vector_spelling.h"
#include "emit/vector/vector_writer.h"

#include <stdio.h>

static const char *mask_name(flxi_kwriter *w, uint32_t mask, unsigned part)
{
    return flxi_kw_text(w, "m%u_%u", mask, part);
}

static flxi_ksubject subject(const flxi_kwriter *w, uint32_t type)
{
    return (flxi_ksubject){.type = type, .result = FLX_U32, .lanes = w->vectors->lanes};
}

/* ---- Variables ---- */

static void add_vector_type(flxi_kwriter *w, uint32_t type)
{
    flxi_vtext_type(w->file, &w->out, type, w->vectors->lanes);
}

static void write_let(flxi_kwriter *w, const flxi_ks *s)
{
    uint32_t type = w->k->vars[s->var].type;
    bool changes = flxi_kfacts_is_assigned(&w->known, s->var);
    for (unsigned part = 0; part < w->vectors->parts; part++) {
        const char *text = flxi_vw_value(w, s->a, part);
        flxi_kw_begin(w);
        flxi_kw_add(w, changes ? "" : "const ");
        add_vector_type(w, type);
        flxi_kw_addf(w, " %s = ", flxi_vw_name(w, s->var, part));
        flxi_kw_add(w, text);
        flxi_kw_add(w, ";\n");
    }
}

/* All parts are computed before the first one changes: shuffles read other parts. */
static void write_assign(flxi_kwriter *w, const flxi_ks *s)
{
    uint32_t type = w->k->vars[s->var].type;
    unsigned parts = w->vectors->parts;
    const char *texts[16];
    for (unsigned part = 0; part < parts; part++) {
        texts[part] = flxi_vw_value(w, s->a, part);
        if (parts > 1 && w->talks[s->a])
            texts[part] = flxi_vw_bind(w, type, texts[part]);
    }
    for (unsigned part = 0; part < parts; part++) {
        const char *name = flxi_vw_name(w, s->var, part);
        flxi_ksubject x = subject(w, type);
        x.x[0] = w->vectors->selects ? mask_name(w, w->vectors->mask, part) : "";
        x.x[1] = texts[part];
        x.x[2] = name;
        const char *text = w->vectors->selects ? flxi_vw_text(w, "@select($a, $b, $c)", &x) : texts[part];
        flxi_kw_begin(w);
        flxi_kw_addf(w, "%s = ", name);
        flxi_kw_add(w, text);
        flxi_kw_add(w, ";\n");
    }
}

/* ---- Stores ---- */

/* Elements that are not moved as vectors. */
static void store_lanes(flxi_kwriter *w, const flxi_ks *s, unsigned part)
{
    const flxi_kbuffer *b = &w->k->buffers[s->buffer];
    const char *index = flxi_vw_bind(w, FLX_U32, flxi_vw_value(w, s->a, part));
    const char *text = flxi_vw_bind(w, w->k->exprs[s->b].type, flxi_vw_value(w, s->b, part));
    bool is_half = flxi_ktype_of(b->element)->bits == 4;
    flxi_ksubject x = {.type = b->element, .space = flxi_kw_address(w, s->buffer)};
    flxi_kw_begin(w);
    flxi_kw_addf(w, "for (k_u32 j = 0; j < %uu; j++) ", w->vectors->lanes);
    if (w->vectors->mask)
        flxi_kw_addf(w, "if (%s[j]) ", mask_name(w, w->vectors->mask, part));
    flxi_kfile_name(w->file, &w->out, is_half ? "store_half" : "store", &x);
    flxi_kw_addf(w, "(%s, %s, %s[j], %s[j]);\n", flxi_kw_pointer(w, s->buffer), flxi_kw_length(w, s->buffer), index,
                 text);
}

static const char *store_template(flxi_kwriter *w, const flxi_ks *s)
{
    bool is_row = flxi_vw_step(w, s->a) == 1, is_proven = flxi_kranges_is_inside(&w->ranges, s->buffer, s->a);
    if (w->vectors->mask)
        return is_row ? "@store_some($a, $b, $c" : "@scatter_some($a, $b, $c";
    if (is_row && is_proven) {
        w->vectors->uses_stream |= w->vectors->streams[s->buffer];
        return w->vectors->streams[s->buffer] ? "@stream($a + $c" : "@put($a + $c";
    }
    return is_row ? "@store($a, $b, $c" : is_proven ? "@scatter_at($a, $c" : "@scatter($a, $b, $c";
}

static void write_store(flxi_kwriter *w, const flxi_ks *s)
{
    const flxi_kbuffer *b = &w->k->buffers[s->buffer];
    bool is_row = flxi_vw_step(w, s->a) == 1;
    for (unsigned part = 0; part < w->vectors->parts; part++) {
        if (!flxi_vspell_moves(b->element)) {
            store_lanes(w, s, part);
            continue;
        }
        flxi_ksubject x = subject(w, b->element);
        x.x[2] = is_row ? flxi_vw_first(w, s->a, part) : flxi_vw_value(w, s->a, part);
        const char *text = flxi_vw_value(w, s->b, part);
        x.x[0] = flxi_kw_pointer(w, s->buffer);
        x.x[1] = flxi_kw_length(w, s->buffer);
        const char *head = flxi_vw_text(w, store_template(w, s), &x);
        flxi_kw_begin(w);
        flxi_kw_add(w, head);
        flxi_kw_add(w, ", ");
        flxi_kw_add(w, text);
        if (w->vectors->mask)
            flxi_kw_addf(w, ", %s", mask_name(w, w->vectors->mask, part));
        flxi_kw_add(w, ");\n");
    }
}

/* Stores to every other element of a buffer, as of the parts of complex numbers. */
static bool is_paired_store(const flxi_kwriter *w, const flxi_ks *s)
{
    const flxi_kbuffer *b = &w->k->buffers[s->buffer];
    unsigned bits = flxi_ktype_of(b->element)->bits;
    return s->kind == KS_STORE && !w->vectors->mask && flxi_vw_step(w, s->a) == 2 && b->element != FLX_BOOL &&
           flxi_vspell_moves(b->element) && bits >= 32 && w->k->exprs[s->b].type == b->element;
}

/* Whether two stores can be one: the second depends on no memory that the first changes. */
static bool are_pairs(const flxi_kwriter *w, const flxi_ks *s, const flxi_ks *next)
{
    unsigned changes = KX_READS | KX_ATOMICS | KX_SUBGROUP | KX_OPAQUES;
    return is_paired_store(w, s) && is_paired_store(w, next) && s->buffer == next->buffer &&
           !((w->k->exprs[next->a].does | w->k->exprs[next->b].does) & changes);
}

static void write_pairs(flxi_kwriter *w, const flxi_ks *s, const flxi_ks *next)
{
    for (unsigned part = 0; part < w->vectors->parts; part++) {
        flxi_ksubject x = subject(w, w->k->buffers[s->buffer].element);
        const char *first = flxi_vw_first(w, s->a, part), *second = flxi_vw_first(w, next->a, part);
        const char *a = flxi_vw_value(w, s->b, part), *b = flxi_vw_value(w, next->b, part);
        x.x[0] = flxi_kw_pointer(w, s->buffer);
        x.x[1] = flxi_kw_length(w, s->buffer);
        const char *texts[] = {flxi_vw_text(w, "@put_pairs($a, $b", &x), first, second, a, b};
        flxi_kw_begin(w);
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
            flxi_kw_add(w, i ? ", " : "");
            flxi_kw_add(w, texts[i]);
        }
        flxi_kw_add(w, ");\n");
    }
}

/* ---- Masks ---- */

/* A new mask: the lanes of the current one for which the condition holds, or does not. */
static uint32_t declare_mask(flxi_kwriter *w, const char *const *conditions, bool holds)
{
    uint32_t mask = ++w->next_mask;
    for (unsigned part = 0; part < w->vectors->parts; part++) {
        flxi_kw_begin(w);
        flxi_kw_add(w, "const ");
        add_vector_type(w, FLX_BOOL);
        flxi_kw_addf(w, " %s = ", mask_name(w, mask, part));
        if (w->vectors->mask)
            flxi_kw_addf(w, "%s & ", mask_name(w, w->vectors->mask, part));
        flxi_kw_add(w, holds ? "" : "~");
        flxi_kw_add(w, conditions[part]);
        flxi_kw_add(w, ";\n");
    }
    return mask;
}

static const char *any_lane(flxi_kwriter *w, uint32_t mask)
{
    flxi_ksubject x = subject(w, FLX_BOOL);
    const char *text = "";
    for (unsigned part = 0; part < w->vectors->parts; part++)
        text = flxi_kw_text(w, "%s%s%s", text, part ? " | " : "", mask_name(w, mask, part));
    x.x[0] = text;
    return flxi_vw_text(w, "@any($a)", &x);
}

/* Runs a list under a mask, if any lane is active. */
static void write_masked(flxi_kwriter *w, flxi_klist list, uint32_t mask)
{
    uint32_t outer = w->vectors->mask;
    bool was_selecting = w->vectors->selects;
    if (list.n == 0)
        return;
    const char *any = any_lane(w, mask);
    flxi_kw_begin(w);
    flxi_kw_addf(w, "if (%s)", any);
    flxi_kw_open(w);
    w->vectors->mask = mask;
    w->vectors->selects = true;
    flxi_vw_list(w, list);
    w->vectors->mask = outer;
    w->vectors->selects = was_selecting;
    flxi_kw_close(w);
}

static void write_divergent_if(flxi_kwriter *w, const flxi_ks *s)
{
    const char *conditions[16] = {0};
    flxi_kw_begin(w);
    flxi_kw_open(w);
    for (unsigned part = 0; part < w->vectors->parts; part++)
        conditions[part] = flxi_vw_bind(w, FLX_BOOL, flxi_vw_truth(w, s->a, part));
    uint32_t chosen = declare_mask(w, conditions, true);
    uint32_t others = s->other.n > 0 ? declare_mask(w, conditions, false) : 0;
    write_masked(w, s->body, chosen);
    if (others)
        write_masked(w, s->other, others);
    flxi_kw_close(w);
}

/* Lanes leave one by one; the loop ends with the last. */
static void write_divergent_loop(flxi_kwriter *w, const flxi_ks *s)
{
    uint32_t outer = w->vectors->mask;
    bool was_selecting = w->vectors->selects;
    unsigned parts = w->vectors->parts;
    const char *ends[16] = {0}, *conditions[16] = {0};
    flxi_kw_begin(w);
    flxi_kw_open(w);
    for (unsigned part = 0; part < parts; part++) {
        const char *from = flxi_vw_value(w, s->a, part);
        ends[part] = flxi_vw_bind(w, FLX_U32, flxi_vw_value(w, s->b, part));
        flxi_kw_begin(w);
        add_vector_type(w, FLX_U32);
        flxi_kw_addf(w, " %s = ", flxi_vw_name(w, s->var, part));
        flxi_kw_add(w, from);
        flxi_kw_add(w, ";\n");
    }
    flxi_kw_line(w, "for (;;) {");
    w->depth++;
    for (unsigned part = 0; part < parts; part++) {
        flxi_ksubject x = subject(w, FLX_U32);
        x.x[0] = flxi_vw_name(w, s->var, part);
        x.x[1] = ends[part];
        conditions[part] = flxi_vw_text(w, "@mask(($i)($a < $b))", &x);
    }
    uint32_t going = declare_mask(w, conditions, true);
    flxi_kw_line(w, "if (!%s) break;", any_lane(w, going));
    w->vectors->mask = going;
    w->vectors->selects = true;
    flxi_vw_list(w, s->body);
    w->vectors->mask = outer;
    w->vectors->selects = was_selecting;
    for (unsigned part = 0; part < parts; part++)
        flxi_kw_line(w, "%s += 1u;", flxi_vw_name(w, s->var, part));
    flxi_kw_poll(w, s);
    flxi_kw_close(w);
    flxi_kw_close(w);
}

/* ---- Uniform bodies ---- */

static void write_body(flxi_kwriter *w, const flxi_ks *s, bool in_else)
{
    flxi_kranges_mark mark = flxi_kw_enter(w, s, in_else);
    flxi_vw_list(w, in_else ? s->other : s->body);
    flxi_kranges_back(&w->ranges, mark);
}

/* The loop over invocations guarantees the condition, or the current mask does. */
static void write_frame(flxi_kwriter *w, const flxi_ks *s)
{
    if (s->body.n == 1 && s->body.at[0].kind == KS_RETURN)
        return;
    flxi_kw_begin(w);
    flxi_kw_open(w);
    if (w->vectors->mask)
        flxi_vw_list(w, s->body);
    else
        write_body(w, s, false);
    flxi_kw_close(w);
}

static void write_if(flxi_kwriter *w, const flxi_ks *s)
{
    if (s == w->decided) {
        write_frame(w, s);
        return;
    }
    if (flxi_vw_step(w, s->a) != 0) {
        write_divergent_if(w, s);
        return;
    }
    const char *condition = flxi_kw_root(w, s->a);
    flxi_kw_begin(w);
    flxi_kw_add(w, "if (");
    flxi_kw_add(w, condition);
    flxi_kw_add(w, ")");
    flxi_kw_open(w);
    write_body(w, s, false);
    if (s->other.n > 0) {
        w->depth--;
        flxi_kw_line(w, "} else {");
        w->depth++;
        write_body(w, s, true);
    }
    flxi_kw_close(w);
}

static void write_loop(flxi_kwriter *w, const flxi_ks *s)
{
    if (w->vectors->vars[s->var] == KSTEP_VARYING) {
        write_divergent_loop(w, s);
        return;
    }
    const char *from = flxi_kw_root(w, s->a), *to = flxi_kw_root(w, s->b);
    flxi_kw_open_loop(w, s, from, to);
    write_body(w, s, false);
    flxi_kw_close_loop(w, s);
}

static void write_block(flxi_kwriter *w, const flxi_ks *s)
{
    flxi_kw_open_block(w, s);
    flxi_vw_list(w, s->body);
    flxi_kw_close(w);
}

/* A store of one value to one element for all lanes. */
static bool is_scalar_store(const flxi_kwriter *w, const flxi_ks *s)
{
    return s->kind == KS_STORE && flxi_vw_step(w, s->a) == 0 && flxi_vw_step(w, s->b) == 0;
}

static void write_statement(flxi_kwriter *w, const flxi_ks *s)
{
    bool is_let = s->kind == KS_LET || s->kind == KS_ASSIGN;
    if ((is_let && w->vectors->vars[s->var] != KSTEP_VARYING) || is_scalar_store(w, s)) {
        flxi_kw_plain(w, s);
        return;
    }
    switch ((flxi_ks_kind)s->kind) {
    case KS_LET: write_let(w, s); break;
    case KS_ASSIGN: write_assign(w, s); break;
    case KS_STORE: write_store(w, s); break;
    case KS_IF: write_if(w, s); break;
    case KS_LOOP: write_loop(w, s); break;
    case KS_BLOCK:
    case KS_REGION: write_block(w, s); break;
    default: flxi_kw_plain(w, s); break;
    }
}

void flxi_vw_list(flxi_kwriter *w, flxi_klist list)
{
    flxi_kranges_mark mark = flxi_kranges_at(&w->ranges);
    for (size_t i = 0; i < list.n && w->code == FLX_OK; i++) {
        const flxi_ks *s = &list.at[i];
        flxi_mark words = flxi_arena_mark(&w->words);
        bool agrees = s->kind == KS_IF && (flxi_vw_step(w, s->a) == 0 || (s == w->decided && !w->vectors->mask));
        if (i + 1 < list.n && are_pairs(w, s, s + 1)) {
            write_pairs(w, s, s + 1);
            i++;
        } else {
            write_statement(w, s);
        }
        if (agrees)
            flxi_kranges_pass_if(&w->ranges, s);
        if (s->kind == KS_LET)
            flxi_kranges_declare(&w->ranges, s);
        flxi_arena_rewind(&w->words, words);
    }
    flxi_kranges_back(&w->ranges, mark);
}
