/* SPDX-License-Identifier: Apache-2.0 */
/* vector_value.c: emits expressions as vectors. See vector_writer.h.

   Trees become nested text, as in kernel_value.c. Work that is done lane by lane (calls of functions, elements whose
   layout in memory is not that of vectors) is a loop before the statement. */
#include "emit/kernel_spelling.h"
#include "emit/vector/vector_spelling.h"
#include "emit/vector/vector_writer.h"

#include <stdio.h>

/* How deep text may nest before it is bound to a temporary. */
enum { MAX_INLINE_DEPTH = 8 };

typedef struct {
    const char *at;
    unsigned depth;
} words;

static words value(flxi_kwriter *w, uint32_t expr, unsigned part);

/* ---- Pieces ---- */

static const char *finish(flxi_kwriter *w)
{
    const char *kept = w->piece.failed || w->file->failed ? NULL : flxi_arena_text(&w->words, w->piece.at, w->piece.n);
    if (!kept && w->code == FLX_OK)
        w->code = flxi_oom(w->err, "the text of a kernel");
    return kept ? kept : "";
}

static flxi_strbuf *begin(flxi_kwriter *w)
{
    w->piece.n = 0;
    flxi_add_text(&w->piece, "");
    return &w->piece;
}

static flxi_ksubject subject(const flxi_kwriter *w, uint32_t type)
{
    return (flxi_ksubject){.type = type, .result = type, .lanes = w->vectors->lanes};
}

const char *flxi_vw_text(flxi_kwriter *w, const char *text, const flxi_ksubject *s)
{
    flxi_ksubject own = *s;
    own.lanes = w->vectors->lanes;
    flxi_kfile_expand(w->file, begin(w), text, &own);
    return finish(w);
}

const char *flxi_vw_bind(flxi_kwriter *w, uint32_t type, const char *text)
{
    uint32_t t = ++w->next_temp;
    flxi_kw_begin(w);
    flxi_kw_add(w, "const ");
    flxi_vtext_type(w->file, &w->out, type, w->vectors->lanes);
    flxi_kw_addf(w, " t%u = ", t);
    flxi_kw_add(w, text);
    flxi_kw_add(w, ";");
    flxi_kw_end(w);
    return flxi_kw_text(w, "t%u", t);
}

const char *flxi_vw_name(flxi_kwriter *w, uint32_t var, unsigned part)
{
    return w->vectors->parts > 1 ? flxi_kw_text(w, "v%u_%u", var, part) : flxi_kw_text(w, "v%u", var);
}

/* A vector that a loop over lanes fills: `before` precedes the value of lane j, which the caller adds with the end of
   the line. */
static uint32_t begin_lanes(flxi_kwriter *w, uint32_t type)
{
    uint32_t t = ++w->next_temp;
    flxi_kw_begin(w);
    flxi_vtext_type(w->file, &w->out, type, w->vectors->lanes);
    flxi_kw_addf(w, " t%u;\n", t);
    flxi_kw_begin(w);
    flxi_kw_addf(w, "for (k_u32 j = 0; j < %uu; j++) t%u[j] = %s", w->vectors->lanes, t, type == FLX_BOOL ? "-" : "");
    return t;
}

/* ---- Uniform values and ramps ---- */

/* Of the first lane of a part. */
const char *flxi_vw_first(flxi_kwriter *w, uint32_t expr, unsigned part)
{
    const flxi_kx *e = &w->k->exprs[expr];
    const char *text = flxi_kw_value(w, expr);
    int64_t offset = (int64_t)flxi_vw_step(w, expr) * w->vectors->lanes * part;
    if (offset == 0)
        return text;
    flxi_strbuf *p = begin(w);
    flxi_add_char(p, '(');
    if (e->type == FLX_I32) /* unsigned, where nothing overflows */
        flxi_add_text(p, "(k_i32)((k_u32)");
    flxi_add_text(p, text);
    flxi_addf(p, " + %uu)", (unsigned)(uint32_t)offset);
    if (e->type == FLX_I32)
        flxi_add_char(p, ')');
    return finish(w);
}

static words spread(flxi_kwriter *w, uint32_t expr, unsigned part)
{
    const flxi_kx *e = &w->k->exprs[expr];
    int32_t step = flxi_vw_step(w, expr);
    flxi_ksubject s = subject(w, e->type);
    s.x[0] = flxi_vw_first(w, expr, part);
    if (e->type == FLX_BOOL)
        return (words){flxi_vw_text(w, "@all_bool($a)", &s), 1};
    if (step == 0)
        return (words){flxi_vw_text(w, "@all($a)", &s), 1};
    s.x[1] = flxi_kw_text(w, e->type == FLX_U32 ? "%uu" : "(k_i32)%uu", (unsigned)(uint32_t)step);
    return (words){flxi_vw_text(w, "@ramp($a, $b)", &s), 1};
}

/* ---- Memory ---- */

static words load_lanes(flxi_kwriter *w, const flxi_kx *e, const char *index)
{
    const flxi_kbuffer *b = &w->k->buffers[e->ref];
    const char *at = flxi_vw_bind(w, FLX_U32, index);
    const char *pointer = flxi_kw_pointer(w, e->ref), *length = flxi_kw_length(w, e->ref);
    uint32_t t = begin_lanes(w, e->type);
    flxi_kfile_name(w->file, &w->out, "load",
                    &(flxi_ksubject){.type = b->element, .space = flxi_kw_address(w, e->ref)});
    flxi_kw_addf(w, "(%s, %s, %s[j]);\n", pointer, length, at);
    return (words){flxi_kw_text(w, "t%u", t), 0};
}

/* The part of a sum that differs between lanes; *rest receives the sum of all that is uniform, or "". */
static uint32_t varying_part(flxi_kwriter *w, uint32_t index, const char **rest)
{
    *rest = "";
    for (const flxi_kx *e = flxi_kw_meaning(w, index); e->type == FLX_U32; e = flxi_kw_meaning(w, index)) {
        int uniform = e->kind == KX_BINARY && e->op == KBIN_add ? flxi_vw_step(w, e->x[0]) != 0 : -1;
        if (uniform < 0 || flxi_vw_step(w, e->x[uniform]) != 0)
            break;
        *rest = flxi_kw_text(w, "%s + %s", *rest, flxi_kw_value(w, e->x[uniform]));
        index = e->x[!uniform];
    }
    return index;
}

/* An index `rest + select(condition, ramp, other)`: a ramp that is guarded where it might leave its operand, as of a
   concatenation, a window or padding, or one of two ramps, as of a rotation. Most vectors are wholly inside or wholly
   outside. */
typedef struct {
    uint32_t condition, ramp, other;
    const char *rest;
} guarded;

static bool is_guarded(flxi_kwriter *w, uint32_t index, guarded *g)
{
    *g = (guarded){0};
    const flxi_kx *e = flxi_kw_meaning(w, varying_part(w, index, &g->rest));
    if (e->type != FLX_U32 || e->kind != KX_SELECT)
        return false;
    g->condition = e->x[0], g->ramp = e->x[1], g->other = e->x[2];
    return flxi_vw_step(w, g->condition) == KSTEP_VARYING && flxi_vw_step(w, g->ramp) == 1 &&
           (flxi_vw_step(w, g->other) == 0 || flxi_vw_step(w, g->other) == 1);
}

/* An index `rest + ramp / times`: neighbouring lanes read the same element. */
typedef struct {
    uint32_t ramp;
    unsigned times; /* a power of two, at most the number of lanes */
    const char *rest;
} repeated;

static bool is_repeated(flxi_kwriter *w, uint32_t index, repeated *r)
{
    *r = (repeated){0};
    const flxi_kx *e = flxi_kw_meaning(w, varying_part(w, index, &r->rest));
    bool divides = e->kind == KX_BINARY && e->op == KBIN_div, shifts = e->kind == KX_BINARY && e->op == KBIN_shr;
    if (e->type != FLX_U32 || !(divides || shifts) || flxi_vw_step(w, e->x[0]) != 1)
        return false;
    const flxi_kx *by = flxi_kw_meaning(w, e->x[1]);
    if (by->kind != KX_LITERAL || by->bits > 16)
        return false;
    r->ramp = e->x[0];
    r->times = divides ? (unsigned)by->bits : 1u << by->bits;
    return r->times > 1 && r->times <= w->vectors->lanes && (r->times & (r->times - 1)) == 0;
}

static words load_repeated(flxi_kwriter *w, const flxi_kx *e, const repeated *r, unsigned part)
{
    flxi_ksubject s = {.type = w->k->buffers[e->ref].element, .result = FLX_U32};
    s.x[0] = flxi_kw_text(w, "%s, %s", flxi_kw_pointer(w, e->ref), flxi_kw_length(w, e->ref));
    s.x[1] = flxi_vw_first(w, r->ramp, part);
    s.x[2] = flxi_kw_text(w, "0u%s", r->rest);
    return (words){flxi_vw_text(w, flxi_kw_text(w, "@repeat_%u($a, $b, $c)", r->times), &s), 2};
}

/* An index `rest + ramp / divisor * factor` with a divisor of at least the number of lanes, as of an element that
   belongs to a row: the lanes read two elements at most. */
typedef struct {
    uint32_t ramp;
    uint32_t divisor, factor;
    const char *rest;
} stepped;

static bool is_literal(flxi_kwriter *w, uint32_t expr, uint32_t *value)
{
    const flxi_kx *e = flxi_kw_meaning(w, expr);
    *value = (uint32_t)e->bits;
    return e->kind == KX_LITERAL;
}

static bool is_stepped(flxi_kwriter *w, const flxi_kx *load, stepped *t)
{
    *t = (stepped){.factor = 1};
    const flxi_kx *e = flxi_kw_meaning(w, varying_part(w, load->x[0], &t->rest));
    if (e->type == FLX_U32 && e->kind == KX_BINARY && e->op == KBIN_mul) {
        bool is_first = is_literal(w, e->x[0], &t->factor);
        if (!is_first && !is_literal(w, e->x[1], &t->factor))
            return false;
        e = flxi_kw_meaning(w, e->x[is_first]);
    }
    t->ramp = e->x[0];
    return e->type == FLX_U32 && e->kind == KX_BINARY && e->op == KBIN_div && flxi_vw_step(w, t->ramp) == 1 &&
           is_literal(w, e->x[1], &t->divisor) && t->divisor >= w->vectors->lanes &&
           flxi_ktype_bytes(w->k->buffers[load->ref].element, 1) >= 4;
}

static words load_stepped(flxi_kwriter *w, const flxi_kx *e, const stepped *t, unsigned part)
{
    flxi_ksubject s = {.type = w->k->buffers[e->ref].element, .result = FLX_U32};
    s.x[0] = flxi_kw_text(w, "%s, %s", flxi_kw_pointer(w, e->ref), flxi_kw_length(w, e->ref));
    s.x[1] = flxi_vw_first(w, t->ramp, part);
    s.x[2] = flxi_kw_text(w, "%uu, %uu, 0u%s", (unsigned)t->divisor, (unsigned)t->factor, t->rest);
    return (words){flxi_vw_text(w, "@stepped($a, $b, $c)", &s), 2};
}

static words load_guarded(flxi_kwriter *w, const flxi_kx *e, const guarded *g, unsigned part)
{
    bool are_ramps = flxi_vw_step(w, g->other) == 1;
    bool is_proven = !are_ramps && flxi_kranges_is_inside(&w->ranges, e->ref, e->x[0]);
    const char *pointer = flxi_kw_pointer(w, e->ref), *length = flxi_kw_length(w, e->ref);
    const char *first = flxi_vw_first(w, g->ramp, part), *other = flxi_vw_first(w, g->other, part);
    flxi_ksubject s = {.type = w->k->buffers[e->ref].element, .result = FLX_U32};
    s.x[0] = is_proven ? pointer : flxi_kw_text(w, "%s, %s", pointer, length);
    s.x[1] = flxi_kw_text(w, "%s%s, %s%s", first, g->rest, other, g->rest);
    s.x[2] = flxi_vw_truth(w, g->condition, part);
    const char *text = are_ramps   ? "@either($a, $b, $c)"
                       : is_proven ? "@guarded_at($a, $b, $c)"
                                   : "@guarded($a, $b, $c)";
    return (words){flxi_vw_text(w, text, &s), 3};
}

static words load(flxi_kwriter *w, const flxi_kx *e, unsigned part)
{
    const flxi_kbuffer *b = &w->k->buffers[e->ref];
    bool is_proven = flxi_kranges_is_inside(&w->ranges, e->ref, e->x[0]), moves = flxi_vspell_moves(b->element);
    int32_t step = flxi_vw_step(w, e->x[0]);
    bool is_row = step == 1 && moves;
    bool is_paired = (step == 2 || step == 4) && moves && flxi_ktype_bytes(b->element, 1) >= 4;
    bool is_backward = step == -1 && moves && is_proven;
    guarded g;
    repeated r;
    stepped t;
    if (moves && step == KSTEP_VARYING && is_guarded(w, e->x[0], &g))
        return load_guarded(w, e, &g, part);
    if (moves && step == KSTEP_VARYING && is_repeated(w, e->x[0], &r))
        return load_repeated(w, e, &r, part);
    if (moves && step == KSTEP_VARYING && is_stepped(w, e, &t))
        return load_stepped(w, e, &t, part);
    const char *index =
        is_row || is_paired || is_backward ? flxi_vw_first(w, e->x[0], part) : flxi_vw_value(w, e->x[0], part);
    if (!moves)
        return load_lanes(w, e, index);
    is_proven &= !is_paired;
    flxi_ksubject s = {.type = b->element, .result = FLX_U32};
    s.x[0] = flxi_kw_pointer(w, e->ref);
    s.x[1] = is_proven ? index : flxi_kw_length(w, e->ref);
    s.x[2] = index;
    if (is_backward) { /* the last lane is the first in memory */
        unsigned last = w->vectors->lanes - 1;
        return (words){flxi_vw_text(w, flxi_kw_text(w, "@exchange_%u(@get($a + ($b - %uu)))", last, last), &s), 2};
    }
    const char *text = is_paired   ? step == 2 ? "@pairs($a, $b, $c)" : "@quads($a, $b, $c)"
                       : is_row    ? is_proven ? "@get($a + $b)" : "@load($a, $b, $c)"
                       : is_proven ? "@gather_at($a, $b)"
                                   : "@gather($a, $b, $c)";
    return (words){flxi_vw_text(w, text, &s), 2};
}

/* ---- Subgroups ---- */

static const char *sum(flxi_kwriter *w, const flxi_kx *e)
{
    uint32_t type = w->k->exprs[e->x[0]].type;
    flxi_ksubject s = subject(w, type);
    const char *text = flxi_vw_text(w, "$Z", &s);
    for (unsigned part = 0; part < w->vectors->parts; part++) {
        s.x[1] = flxi_vw_value(w, e->x[0], part);
        s.x[0] = text;
        text = flxi_vw_text(w, "@sum($a, $b)", &s);
    }
    return flxi_kw_bind(w, type, text);
}

static const char *ballot(flxi_kwriter *w, const flxi_kx *e)
{
    flxi_ksubject s = subject(w, FLX_BOOL);
    const char *text = "0u";
    for (unsigned part = 0; part < w->vectors->parts; part++) {
        s.x[1] = flxi_vw_truth(w, e->x[0], part);
        s.x[0] = text;
        s.x[2] = flxi_kw_text(w, "%u", part * w->vectors->lanes);
        text = flxi_vw_text(w, "($a | @ballot($b) << $c)", &s);
    }
    return flxi_kw_bind(w, FLX_U32, text);
}

/* All lanes of a value in an array. */
static uint32_t lay_out(flxi_kwriter *w, uint32_t expr)
{
    uint32_t type = w->k->exprs[expr].type, t = 0;
    unsigned lanes = w->vectors->lanes, parts = w->vectors->parts;
    const char *held = flxi_ktext_type(type == FLX_BOOL ? (flxi_vector_lanes(w->k) == 8 ? FLX_I64 : FLX_I32) : type);
    const char *part_text[16];
    for (unsigned part = 0; part < parts; part++)
        part_text[part] = flxi_vw_bind(w, type, flxi_vw_value(w, expr, part));
    t = ++w->next_temp;
    flxi_kw_line(w, "%s t%u[%u];", held, t, lanes * parts);
    for (unsigned part = 0; part < parts; part++)
        flxi_kw_line(w, "__builtin_memcpy(t%u + %u, &%s, sizeof %s);", t, part * lanes, part_text[part],
                     part_text[part]);
    return t;
}

static const char *uniform_shuffle(flxi_kwriter *w, const flxi_kx *e)
{
    unsigned all = w->vectors->lanes * w->vectors->parts;
    uint32_t t = lay_out(w, e->x[0]);
    const char *from = flxi_kw_bind(w, FLX_U32, flxi_kw_value(w, e->x[1]));
    return flxi_kw_bind(w, e->type,
                        flxi_kw_text(w, "%s < %uu ? t%u[%s] : (%s)0", from, all, t, from, flxi_ktext_type(e->type)));
}

const char *flxi_vw_subgroup(flxi_kwriter *w, const flxi_kx *e)
{
    return e->kind == KX_SUBGROUP_ADD      ? sum(w, e)
           : e->kind == KX_SUBGROUP_BALLOT ? ballot(w, e)
                                           : uniform_shuffle(w, e);
}

/* Whether the index is lane ^ c. */
static bool is_exchange(const flxi_kwriter *w, uint32_t expr, unsigned *c)
{
    const flxi_kx *e = flxi_kw_meaning(w, expr);
    if (e->kind != KX_BINARY || e->op != KBIN_bit_xor)
        return false;
    const flxi_kx *a = flxi_kw_meaning(w, e->x[0]), *b = flxi_kw_meaning(w, e->x[1]);
    const flxi_kx *lane = a->kind == KX_LITERAL ? b : a, *mask = a->kind == KX_LITERAL ? a : b;
    bool is_lane = lane->kind == KX_LANE || (lane->kind == KX_ID && lane->op == FLX_KERNEL_LOCAL_ID && lane->ref == 0);
    *c = (unsigned)mask->bits;
    return is_lane && mask->kind == KX_LITERAL && mask->bits < w->vectors->lanes * w->vectors->parts;
}

static words shuffle(flxi_kwriter *w, const flxi_kx *e, unsigned part)
{
    unsigned lanes = w->vectors->lanes, all = lanes * w->vectors->parts, c;
    if (is_exchange(w, e->x[1], &c)) {
        flxi_ksubject s = subject(w, e->type);
        s.x[0] = flxi_vw_value(w, e->x[0], part ^ (c / lanes));
        c %= lanes;
        return c == 0 ? (words){s.x[0], 1} : (words){flxi_vw_text(w, flxi_kw_text(w, "@exchange_%u($a)", c), &s), 2};
    }
    uint32_t t = lay_out(w, e->x[0]);
    const char *from = flxi_vw_bind(w, FLX_U32, flxi_vw_value(w, e->x[1], part));
    uint32_t r = begin_lanes(w, e->type);
    flxi_kw_addf(w, "%s(%s[j] < %uu ? t%u[%s[j]] : 0);\n", e->type == FLX_BOOL ? "-" : "", from, all, t, from);
    return (words){flxi_kw_text(w, "t%u", r), 0};
}

/* ---- Operations ---- */

/* A call, lane by lane. */
static words call(flxi_kwriter *w, const flxi_kx *e, unsigned part)
{
    const char **args = flxi_new(&w->words, const char *, e->num_args + 1u);
    if (!args) {
        w->code = flxi_oom(w->err, "the text of a kernel");
        return (words){"0", 0};
    }
    for (size_t i = 0; i < e->num_args; i++) {
        uint32_t x = e->args[i], type = w->k->exprs[x].type;
        args[i] = flxi_vw_step(w, x) == 0 ? flxi_kw_bind(w, type, flxi_kw_value(w, x))
                                          : flxi_kw_text(w, type == FLX_BOOL ? "%s[j] != 0" : "%s[j]",
                                                         flxi_vw_bind(w, type, flxi_vw_value(w, x, part)));
    }
    uint32_t t = begin_lanes(w, e->type);
    flxi_kw_addf(w, "f%u_%u(", w->file->num_kernels, e->ref);
    for (size_t i = 0; i < e->num_args; i++) {
        flxi_kw_add(w, i ? ", " : "");
        flxi_kw_add(w, args[i]);
    }
    flxi_kw_add(w, ");\n");
    return (words){flxi_kw_text(w, "t%u", t), 0};
}

const char *flxi_vw_truth(flxi_kwriter *w, uint32_t expr, unsigned part)
{
    flxi_ksubject s = subject(w, w->k->exprs[expr].type);
    s.x[0] = value(w, expr, part).at;
    return s.type == FLX_BOOL ? s.x[0] : flxi_vw_text(w, "@truth($a)", &s);
}

static bool is_logical(const flxi_kx *e)
{
    return (e->kind == KX_BINARY && (e->op == KBIN_logical_and || e->op == KBIN_logical_or)) ||
           (e->kind == KX_UNARY && e->op == KUN_logical_not);
}

/* Operands may be bools or u32. */
static words logical(flxi_kwriter *w, const flxi_kx *e, unsigned part)
{
    flxi_ksubject s = subject(w, FLX_BOOL);
    s.x[0] = flxi_vw_truth(w, e->x[0], part);
    if (e->kind == KX_UNARY)
        return (words){flxi_vw_text(w, "(~$a)", &s), 2};
    s.x[1] = flxi_vw_truth(w, e->x[1], part);
    return (words){flxi_vw_text(w, e->op == KBIN_logical_and ? "($a & $b)" : "($a | $b)", &s), MAX_INLINE_DEPTH};
}

/* Integers by a literal that is neither 0 nor -1: then C's division is correct. */
static bool divides_plainly(const flxi_kwriter *w, const flxi_kx *e)
{
    const flxi_kx *by = &w->k->exprs[e->x[1]];
    uint64_t ones = ~UINT64_C(0) >> (64 - flxi_ktype_of(e->type)->bits);
    return e->kind == KX_BINARY && (e->op == KBIN_div || e->op == KBIN_mod) && !flxi_ktype_is_float(e->type) &&
           by->kind == KX_LITERAL && by->bits != 0 && by->bits != ones;
}

static void write_operation(flxi_kwriter *w, flxi_strbuf *p, const flxi_kx *e, flxi_ksubject *s)
{
    bool is_negation = e->kind == KX_UNARY && e->op == KUN_neg && flxi_ktype_is_float(e->type);
    switch ((flxi_kx_kind)e->kind) {
    case KX_UNARY:
        if (is_negation && w->observes_bits)
            flxi_kfile_expand(w->file, p, "@flip_sign($a)", s);
        else
            flxi_vtext_unary(w->file, p, (flxi_kunary)e->op, s);
        break;
    case KX_BINARY:
        if (divides_plainly(w, e))
            flxi_kfile_expand(w->file, p, e->op == KBIN_div ? "($a / $b)" : "($a % $b)", s);
        else
            flxi_vtext_binary(w->file, p, (flxi_kbinary)e->op, s);
        break;
    case KX_FMA: flxi_vtext_fma(w->file, p, s); break;
    case KX_CAST: flxi_vtext_cast(w->file, p, s); break;
    case KX_BITCAST: flxi_vtext_bitcast(w->file, p, s); break;
    default: flxi_kw_fail(w, "K64", "register the extension", "an extension cannot be written"); break;
    }
}

static words operation(flxi_kwriter *w, const flxi_kx *e, unsigned part)
{
    flxi_ksubject s = subject(w, w->k->exprs[e->x[0]].type);
    unsigned depth = 0;
    for (int i = 0; i < flxi_kx_operands(e); i++) {
        words operand = value(w, e->x[i], part);
        s.x[i] = operand.at;
        depth = operand.depth > depth ? operand.depth : depth;
    }
    s.result = e->type;
    flxi_strbuf *p = begin(w);
    bool is_canonical = flxi_kw_is_canonical(w, e);
    if (is_canonical) {
        flxi_ksubject c = subject(w, e->type == FLX_F64 ? FLX_F64 : FLX_F32);
        flxi_kfile_expand(w->file, p, "@canonical(", &c);
    }
    write_operation(w, p, e, &s);
    if (is_canonical)
        flxi_add_char(p, ')');
    return (words){finish(w), depth + 1};
}

static words choice(flxi_kwriter *w, const flxi_kx *e, unsigned part)
{
    bool uniform = flxi_vw_step(w, e->x[0]) == 0;
    flxi_ksubject s = subject(w, e->type);
    s.x[0] = uniform ? flxi_kw_value(w, e->x[0]) : flxi_vw_truth(w, e->x[0], part);
    words a = value(w, e->x[1], part), b = value(w, e->x[2], part);
    s.x[1] = a.at;
    s.x[2] = b.at;
    unsigned depth = (a.depth > b.depth ? a.depth : b.depth) + 2;
    return (words){flxi_vw_text(w, uniform ? "($a ? $b : $c)" : "@select($a, $b, $c)", &s), depth};
}

/* ---- Trees ---- */

static words value(flxi_kwriter *w, uint32_t expr, unsigned part)
{
    const flxi_kx *e = &w->k->exprs[expr];
    words x;
    if (w->code != FLX_OK)
        return (words){"0", 0};
    if (flxi_vw_step(w, expr) != KSTEP_VARYING)
        return spread(w, expr, part);
    switch ((flxi_kx_kind)e->kind) {
    case KX_VAR: return (words){flxi_vw_name(w, e->ref, part), 0};
    case KX_LOAD: x = load(w, e, part); break;
    case KX_CALL: x = call(w, e, part); break;
    case KX_SUBGROUP_SHUFFLE: x = shuffle(w, e, part); break;
    case KX_SELECT: x = choice(w, e, part); break;
    default: x = is_logical(e) ? logical(w, e, part) : operation(w, e, part); break;
    }
    if (x.depth >= MAX_INLINE_DEPTH)
        x = (words){flxi_vw_bind(w, e->type, x.at), 0};
    return x;
}

const char *flxi_vw_value(flxi_kwriter *w, uint32_t expr, unsigned part)
{
    return value(w, expr, part).at;
}
