/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_statement.c: emits statements, one invocation at a time. */
#include "emit/kernel_spelling.h"
#include "emit/kernel_writer.h"

#include <stdio.h>

/* ---- Lines ---- */

void flxi_kw_fail(flxi_kwriter *w, const char *code, const char *hint, const char *fmt, ...)
{
    char text[240];
    va_list args;
    if (w->code != FLX_OK)
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    w->code = flxi_kernel_fail(w->err, code, hint, "%s", text);
}

void flxi_kw_begin(flxi_kwriter *w)
{
    for (unsigned i = 0; i < w->depth; i++)
        flxi_add_text(&w->out, "    ");
}

void flxi_kw_add(flxi_kwriter *w, const char *text)
{
    flxi_add_text(&w->out, text);
}

static void add_formatted(flxi_kwriter *w, const char *fmt, va_list args)
{
    char text[512];
    int n = vsnprintf(text, sizeof text, fmt, args);
    if (n < 0 || (size_t)n >= sizeof text)
        w->out.failed = true;
    else
        flxi_add_bytes(&w->out, text, (size_t)n);
}

void flxi_kw_addf(flxi_kwriter *w, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    add_formatted(w, fmt, args);
    va_end(args);
}

void flxi_kw_end(flxi_kwriter *w)
{
    flxi_add_char(&w->out, '\n');
}

void flxi_kw_line(flxi_kwriter *w, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    flxi_kw_begin(w);
    add_formatted(w, fmt, args);
    flxi_kw_end(w);
    va_end(args);
}

void flxi_kw_open(flxi_kwriter *w)
{
    flxi_kw_add(w, " {\n");
    w->depth++;
}

void flxi_kw_close(flxi_kwriter *w)
{
    w->depth--;
    flxi_kw_line(w, "}");
}

/* ---- Simple statements ---- */

static void write_let(flxi_kwriter *w, const flxi_ks *s)
{
    bool was_steering = w->steering;
    char name[24];
    w->steering = w->steers[s->var];
    const char *text = flxi_kw_root(w, s->a);
    w->steering = was_steering;
    w->is_splitting = false; /* the rest is one line, in one interval */
    bool declares = s->kind == KS_LET && !w->outlives[s->var];
    if (s->kind == KS_LET && !w->in_function)
        w->home[s->var] = w->interval;
    flxi_kw_name_var(w, s->var, name);
    flxi_kw_begin(w);
    if (declares)
        flxi_kw_addf(w, "%s%s ", flxi_kfacts_is_assigned(&w->known, s->var) ? "" : "const ",
                     flxi_ktext_type(w->k->vars[s->var].type));
    flxi_kw_addf(w, "%s = ", name);
    flxi_kw_add(w, text);
    flxi_kw_add(w, ";");
    flxi_kw_end(w);
}

static void write_store(flxi_kwriter *w, const flxi_ks *s)
{
    const flxi_kbuffer *b = &w->k->buffers[s->buffer];
    bool is_proven = flxi_kranges_is_inside(&w->ranges, s->buffer, s->a),
         is_half = flxi_ktype_of(b->element)->bits == 4;
    const char *index = is_proven && !is_half ? flxi_kw_element(w, s->buffer, s->a) : flxi_kw_index(w, s->a);
    const char *text = flxi_kw_value(w, s->b);
    const char *pointer = flxi_kw_pointer(w, s->buffer), *length = flxi_kw_length(w, s->buffer);
    static const char *const names[2][3] = {{"store", "store_half", "store_own_half"},
                                            {"put", "put_half", "put_own_half"}};
    bool is_own = b->access == FLX_KERNEL_PRIVATE || (b->access == FLX_KERNEL_WORKGROUP && w->target->is_serial);
    flxi_ksubject subject = {.x = {text}, .type = b->element, .space = flxi_kw_address(w, s->buffer)};
    flxi_kw_begin(w);
    if (is_proven && !is_half) {
        flxi_kw_add(w, index);
        flxi_kw_add(w, " = ");
        flxi_kfile_expand(w->file, &w->out, flxi_kspell_encode(b->element), &subject);
        flxi_kw_add(w, ";");
    } else {
        flxi_kfile_name(w->file, &w->out, names[is_proven][is_half + (is_half && is_own)], &subject);
        flxi_kw_addf(w, "(%s, %s%s", pointer, is_proven ? "" : length, is_proven ? "" : ", ");
        flxi_kw_add(w, index);
        flxi_kw_add(w, ", ");
        flxi_kw_add(w, text);
        flxi_kw_add(w, ");");
    }
    flxi_kw_end(w);
}

static void write_return(flxi_kwriter *w)
{
    if (!w->target->is_serial) {
        flxi_kw_line(w, "return;");
        return;
    }
    if (w->has_sync) {
        w->needs_live = true;
        flxi_kw_line(w, "live[l] = 0;");
    }
    w->label_used = true;
    flxi_kw_line(w, "goto done%u;", w->next_label);
}

/* ---- Copies ---- */

/* The copy of a tag, in order of the starts; they are few. */
static size_t find_copy(const flxi_kwriter *w, const flxi_ks *s)
{
    for (size_t i = 0; i < w->copies.n; i++)
        if (w->copies.at[i] == s || (s->kind == KS_ASYNC_WAIT && strcmp(w->copies.at[i]->text, s->text) == 0))
            return i;
    return 0;
}

static const char *copy_part(flxi_kwriter *w, size_t copy, int part)
{
    bool is_array = w->target->is_serial && w->has_sync;
    return is_array ? flxi_kw_text(w, "c%zu[%s]", copy * 3 + (size_t)part, w->lane)
                    : flxi_kw_text(w, "c%zu", copy * 3 + (size_t)part);
}

/* Copies bytes [from_offset …) of one buffer to [to_offset …) of another, within the bounds of both. */
static void write_copy(flxi_kwriter *w, const flxi_ks *s, const char *from_offset, const char *to_offset,
                       const char *size)
{
    const char *const *space = w->target->space;
    const char *from_bytes = flxi_kw_bytes(w, s->buffer), *to_bytes = flxi_kw_bytes(w, s->target);
    flxi_kw_line(w, "const k_u64 have = %s > %s ? %s - %s : 0;", from_bytes, from_offset, from_bytes, from_offset);
    flxi_kw_line(w, "const k_u64 room = %s > %s ? %s - %s : 0;", to_bytes, to_offset, to_bytes, to_offset);
    flxi_kw_line(w, "const k_u64 fits = have < room ? have : room, count = %s < fits ? %s : fits;", size, size);
    flxi_kw_line(w, "const %sk_u8 *from = (const %sk_u8 *)%s + %s;", space[flxi_kw_address(w, s->buffer)],
                 space[flxi_kw_address(w, s->buffer)], flxi_kw_pointer(w, s->buffer), from_offset);
    flxi_kw_line(w, "%sk_u8 *to = (%sk_u8 *)%s + %s;", space[flxi_kw_address(w, s->target)],
                 space[flxi_kw_address(w, s->target)], flxi_kw_pointer(w, s->target), to_offset);
    flxi_kw_line(w, "for (k_u64 j = 0; j < count; j++)");
    flxi_kw_line(w, "    to[j] = from[j];");
}

static void write_async_start(flxi_kwriter *w, const flxi_ks *s)
{
    size_t copy = find_copy(w, s);
    const char *offset = flxi_kw_index(w, s->a), *size = flxi_kw_index(w, s->b);
    const char *const values[3] = {"1", offset, size};
    for (int part = 0; part < 3; part++) {
        flxi_kw_begin(w);
        flxi_kw_addf(w, "%s = ", copy_part(w, copy, part));
        flxi_kw_add(w, values[part]);
        flxi_kw_add(w, ";");
        flxi_kw_end(w);
    }
}

/* The offset is in storage: in the source of a load, in the target of a store. */
static void write_async_wait(flxi_kwriter *w, const flxi_ks *s)
{
    size_t copy = find_copy(w, s);
    const flxi_ks *start = w->copies.at[copy];
    const char *on = copy_part(w, copy, 0), *offset = copy_part(w, copy, 1), *size = copy_part(w, copy, 2);
    bool is_load = start->kind == KS_ASYNC_LOAD;
    flxi_kw_begin(w);
    flxi_kw_addf(w, "if (%s)", on);
    flxi_kw_open(w);
    flxi_kw_line(w, "%s = 0;", on);
    write_copy(w, start, is_load ? offset : "0", is_load ? "0" : offset, size);
    flxi_kw_close(w);
}

/* With one participant, device 0. */
static void write_collective(flxi_kwriter *w, const flxi_ks *s)
{
    if (s->order == FLX_KERNEL_BROADCAST && s->offset != 0) {
        flxi_kw_fail(w, "collective", "there is one device, number 0",
                     "broadcast from device %llu, which does not take part", (unsigned long long)s->offset);
        return;
    }
    flxi_kw_begin(w);
    flxi_kw_open(w);
    write_copy(w, s, "0", "0", flxi_kw_bytes(w, s->buffer));
    flxi_kw_close(w);
}

/* ---- Traps ---- */

static void write_trap(flxi_kwriter *w, const flxi_ks *s)
{
    const char *address = flxi_kw_value(w, s->a);
    flxi_kw_begin(w);
    flxi_kfile_name(w->file, &w->out, "trap", &(flxi_ksubject){0});
    flxi_kw_addf(w, "(status, %uu, ", w->next_trap++);
    flxi_kw_add(w, address);
    flxi_kw_add(w, ", i0, i1, i2);");
    flxi_kw_end(w);
    w->seen[FLX_KERNEL_INVOCATION_ID] = 7;
    /* Threads that remain would wait for those that left: so all continue, which does no harm. */
    if (w->target->is_serial || !w->has_sync)
        flxi_kw_line(w, "return;");
}

/* ---- Bodies ---- */

flxi_kranges_mark flxi_kw_enter(flxi_kwriter *w, const flxi_ks *s, bool in_else)
{
    flxi_kranges_mark mark = flxi_kranges_at(&w->ranges);
    if (s->kind == KS_IF)
        flxi_kranges_learn(&w->ranges, s->a, !in_else);
    if (s->kind == KS_LOOP)
        flxi_kranges_declare(&w->ranges, s);
    return mark;
}

static void write_body(flxi_kwriter *w, const flxi_ks *s, bool in_else)
{
    flxi_kranges_mark mark = flxi_kw_enter(w, s, in_else);
    flxi_kw_list(w, in_else ? s->other : s->body);
    flxi_kranges_back(&w->ranges, mark);
}

static void write_decided(flxi_kwriter *w, const flxi_ks *s)
{
    if (s->body.n == 1 && s->body.at[0].kind == KS_RETURN) {
        w->statement++; /* it keeps its number */
        return;
    }
    flxi_kw_begin(w);
    flxi_kw_open(w);
    write_body(w, s, false);
    flxi_kw_close(w);
}

void flxi_kw_branches(flxi_kwriter *w, const flxi_ks *s, const char *condition, flxi_kw_body_fn write)
{
    flxi_kw_begin(w);
    flxi_kw_add(w, "if (");
    flxi_kw_add(w, condition);
    flxi_kw_add(w, ")");
    flxi_kw_open(w);
    write(w, s, false);
    if (s->other.n > 0) {
        w->depth--;
        flxi_kw_line(w, "} else {");
        w->depth++;
        write(w, s, true);
    }
    flxi_kw_close(w);
}

static void write_if(flxi_kwriter *w, const flxi_ks *s)
{
    if (s == w->decided) {
        write_decided(w, s);
        return;
    }
    flxi_kw_branches(w, s, flxi_kw_root(w, s->a), write_body);
}

void flxi_kw_open_block(flxi_kwriter *w, const flxi_ks *s)
{
    flxi_kw_begin(w);
    flxi_kw_add(w, s->kind == KS_REGION ? "/* region */" : "");
    flxi_kw_open(w);
}

static void write_loop(flxi_kwriter *w, const flxi_ks *s)
{
    w->steering = w->steers[s->var];
    const char *from = flxi_kw_root(w, s->a), *to = flxi_kw_root(w, s->b);
    w->steering = false;
    if (!w->in_function)
        w->home[s->var] = w->interval;
    flxi_kw_open_loop(w, s, from, to);
    write_body(w, s, false);
    flxi_kw_close_loop(w, s);
}

static void write_block(flxi_kwriter *w, const flxi_ks *s)
{
    flxi_kw_open_block(w, s);
    flxi_kw_list(w, s->body);
    flxi_kw_close(w);
}

static void write_barrier(flxi_kwriter *w, const flxi_ks *s)
{
    flxi_kw_begin(w);
    if (s->order == FLX_KERNEL_GRID) {
        flxi_kfile_name(w->file, &w->out, "grid_barrier", &(flxi_ksubject){0});
        flxi_kw_add(w, "(arrivals);");
    } else {
        flxi_kw_add(w, w->target->barrier);
    }
    flxi_kw_end(w);
}

static void write_effect(flxi_kwriter *w, const flxi_ks *s)
{
    const char *text = flxi_kw_effect(w, s->a);
    flxi_kw_begin(w);
    flxi_kw_add(w, text);
    flxi_kw_add(w, ";");
    flxi_kw_end(w);
}

void flxi_kw_plain(flxi_kwriter *w, const flxi_ks *s)
{
    uint8_t does = w->k->exprs[s->a].does | w->k->exprs[s->b].does;
    w->binds = (does & KX_ATOMICS) || w->talks[s->a] || w->talks[s->b];
    switch ((flxi_ks_kind)s->kind) {
    case KS_LET:
    case KS_ASSIGN: write_let(w, s); break;
    case KS_STORE: write_store(w, s); break;
    case KS_EFFECT: write_effect(w, s); break;
    case KS_IF: write_if(w, s); break;
    case KS_LOOP: write_loop(w, s); break;
    case KS_BARRIER: write_barrier(w, s); break;
    case KS_BLOCK:
    case KS_REGION: write_block(w, s); break;
    case KS_RETURN: write_return(w); break;
    case KS_INDIRECT: flxi_kw_line(w, "status[%d] = %uu;", KSTATUS_INDIRECT, ++w->next_indirect); break;
    case KS_ASYNC_LOAD:
    case KS_ASYNC_STORE: write_async_start(w, s); break;
    case KS_ASYNC_WAIT: write_async_wait(w, s); break;
    case KS_TRAP: write_trap(w, s); break;
    case KS_COLLECTIVE: write_collective(w, s); break;
    case KS_OPAQUE:
        flxi_kw_begin(w);
        flxi_kw_opaque(w, &w->out, s->opaque, 0, NULL);
        flxi_kw_add(w, ";");
        flxi_kw_end(w);
        break;
    default: flxi_kw_fail(w, "resume", "run it on the interpreter", "resume is not supported by emitted code");
    }
}

/* ---- Lists ---- */

void flxi_kw_list(flxi_kwriter *w, flxi_klist list)
{
    flxi_kranges_mark mark = flxi_kranges_at(&w->ranges);
    for (size_t i = 0; i < list.n && w->code == FLX_OK; i++) {
        const flxi_ks *s = &list.at[i];
        flxi_mark words = flxi_arena_mark(&w->words);
        size_t number = w->in_function ? 0 : w->statement++;
        bool has_intervals = w->target->is_serial && w->has_sync && !w->in_function;
        if (has_intervals && w->splits[number]) {
            flxi_kw_split(w, s);
        } else {
            if (has_intervals && !w->is_open)
                flxi_kw_open_interval(w);
            flxi_kw_plain(w, s);
        }
        if (s->kind == KS_IF)
            flxi_kranges_pass_if(&w->ranges, s);
        if (s->kind == KS_LET)
            flxi_kranges_declare(&w->ranges, s);
        flxi_arena_rewind(&w->words, words);
    }
    flxi_kranges_back(&w->ranges, mark);
}
