/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_value.c: emits expressions.

   A shallow tree becomes nested text; deeper parts are bound to temporaries, because compilers limit the nesting of
   brackets. If a statement changes memory, its loads and atomics are bound one by one in order of evaluation, which C
   leaves unspecified. */
#include "emit/kernel_spelling.h"
#include "emit/kernel_writer.h"

#include <stdio.h>

/* How deep text may nest before it is bound to a temporary. */
enum { MAX_INLINE_DEPTH = 8 };

typedef struct {
    const char *at;
    unsigned depth;
} words;

static words value(flxi_kwriter *w, uint32_t expr);

/* ---- Pieces ---- */

static const char *keep(flxi_kwriter *w, const char *s, size_t n)
{
    const char *kept = flxi_arena_text(&w->words, s, n);
    if (!kept && w->code == FLX_OK)
        w->code = flxi_oom(w->err, "the text of a kernel");
    return kept ? kept : "";
}

const char *flxi_kw_text(flxi_kwriter *w, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return keep(w, text, n < 0 || (size_t)n >= sizeof text ? 0 : (size_t)n);
}

/* The buffer into which a piece is written, and the finished piece. */
static flxi_strbuf *begin(flxi_kwriter *w)
{
    w->piece.n = 0;
    flxi_add_text(&w->piece, "");
    return &w->piece;
}

static const char *finish(flxi_kwriter *w)
{
    if (w->piece.failed || w->file->failed) {
        if (w->code == FLX_OK)
            w->code = flxi_oom(w->err, "the text of a kernel");
        return "";
    }
    return keep(w, w->piece.at, w->piece.n);
}

const char *flxi_kw_bind(flxi_kwriter *w, uint32_t type, const char *text)
{
    uint32_t t = ++w->next_temp;
    flxi_kw_begin(w);
    if (w->is_splitting) {
        flxi_kw_array(w, 't', t, (uint8_t)type);
        flxi_kw_addf(w, "t%u[l] = ", t);
    } else {
        flxi_kw_addf(w, "const %s t%u = ", flxi_ktext_type(type), t);
    }
    flxi_kw_add(w, text);
    flxi_kw_add(w, ";");
    flxi_kw_end(w);
    return w->is_splitting ? flxi_kw_text(w, "t%u[l]", t) : flxi_kw_text(w, "t%u", t);
}

/* ---- Variables and memory ---- */

void flxi_kw_name_var(flxi_kwriter *w, uint32_t var, char name[24])
{
    bool elsewhere = w->target->is_serial && !w->in_function && w->has_sync && w->home[var] != UINT32_MAX &&
                     (w->is_splitting || !w->is_open || w->home[var] != w->interval);
    if (elsewhere && !w->outlives[var]) {
        w->outlives[var] = 1;
        flxi_kw_array(w, 'v', var, w->k->vars[var].type);
    }
    if (w->outlives[var])
        snprintf(name, 24, "v%u[%s]", var, w->lane);
    else
        snprintf(name, 24, "v%u", var);
}

const char *flxi_kw_pointer(flxi_kwriter *w, uint32_t buffer)
{
    const flxi_kbuffer *b = &w->k->buffers[buffer];
    if (b->access == FLX_KERNEL_PRIVATE && w->target->is_serial && w->has_sync) {
        size_t bytes = flxi_ktype_bytes(b->element, b->count), each = flxi_ktype_bytes(b->element, 1);
        size_t stride = flxi_ktype_of(b->element)->bits == 4 ? bytes : bytes / each;
        return flxi_kw_text(w, "(b%u + (k_u64)%s * %zu)", buffer, w->lane, stride);
    }
    return flxi_kw_text(w, "b%u", buffer);
}

const char *flxi_kw_length(flxi_kwriter *w, uint32_t buffer)
{
    uint64_t count = w->k->buffers[buffer].count;
    if (count == 0)
        return flxi_kw_text(w, "n%u", buffer);
    return flxi_kw_text(w, "%luu", (unsigned long)(count < UINT32_MAX ? count : UINT32_MAX));
}

const char *flxi_kw_bytes(flxi_kwriter *w, uint32_t buffer)
{
    const flxi_kbuffer *b = &w->k->buffers[buffer];
    if (flxi_ktype_of(b->element)->bits == 4)
        return flxi_kw_text(w, "(((k_u64)%s + 1) / 2)", flxi_kw_length(w, buffer));
    return flxi_kw_text(w, "((k_u64)%s * %zu)", flxi_kw_length(w, buffer), flxi_ktype_bytes(b->element, 1));
}

/* ---- Kinds of expressions ---- */

static void add_call(flxi_kwriter *w, flxi_strbuf *p, const char *name, const flxi_kx *e)
{
    flxi_ksubject s = {.type = w->k->buffers[e->ref].element, .space = flxi_kw_address(w, e->ref)};
    flxi_kfile_name(w->file, p, name, &s);
    flxi_add_char(p, '(');
}

static words index_value(flxi_kwriter *w, uint32_t expr)
{
    bool was_steering = w->steering;
    w->steering = true;
    words index = value(w, expr);
    w->steering = was_steering;
    return index;
}

/* Whether the index is a sum with a literal that does not wrap around. The compiler, which does not know that, would
   compute the address of each such element on its own instead of one for all. */
static bool is_beside(const flxi_kwriter *w, uint32_t index)
{
    const flxi_kx *e = &w->k->exprs[index];
    if (!w->file->aligns || e->kind != KX_BINARY || e->op != KBIN_add || e->type != FLX_U32)
        return false;
    const flxi_kx *distance = &w->k->exprs[e->x[1]];
    return distance->kind == KX_LITERAL && flxi_kranges_of(&w->ranges, e->x[0]).high + distance->bits <= UINT32_MAX;
}

static words element_at(flxi_kwriter *w, uint32_t buffer, uint32_t index)
{
    const flxi_kx *e = &w->k->exprs[index];
    const char *pointer = flxi_kw_pointer(w, buffer);
    bool is_sum = is_beside(w, index);
    words from = index_value(w, is_sum ? e->x[0] : index);
    words distance = is_sum ? index_value(w, e->x[1]) : from;
    flxi_strbuf *p = begin(w);
    flxi_add_text(p, is_sum ? "(" : "");
    flxi_add_text(p, pointer);
    if (is_sum) {
        flxi_add_text(p, " + ");
        flxi_add_text(p, from.at);
        flxi_add_char(p, ')');
    }
    flxi_add_char(p, '[');
    flxi_add_text(p, distance.at);
    flxi_add_char(p, ']');
    return (words){finish(w), from.depth + is_sum};
}

/* b3[i], as a value. */
static const char *element_text(flxi_kwriter *w, uint32_t buffer, const char *element_text)
{
    uint32_t element = w->k->buffers[buffer].element;
    flxi_kfile_expand(w->file, begin(w), flxi_kspell_decode(element),
                      &(flxi_ksubject){.x = {element_text}, .type = element});
    return finish(w);
}

static words load(flxi_kwriter *w, const flxi_kx *e)
{
    const flxi_kbuffer *b = &w->k->buffers[e->ref];
    bool is_proven = flxi_kranges_is_inside(&w->ranges, e->ref, e->x[0]);
    bool is_racy = w->steering && w->is_written[e->ref] && b->access != FLX_KERNEL_PRIVATE;
    if (is_proven && !is_racy && flxi_ktype_of(b->element)->bits != 4) {
        words element = element_at(w, e->ref, e->x[0]);
        return (words){element_text(w, e->ref, element.at), element.depth + 1};
    }
    words index = index_value(w, e->x[0]);
    const char *pointer = flxi_kw_pointer(w, e->ref), *length = flxi_kw_length(w, e->ref);
    static const char *const names[2][2] = {{"load", "peek"}, {"at", "peek_at"}};
    flxi_strbuf *p = begin(w);
    add_call(w, p, names[is_proven][is_racy], e);
    flxi_add_text(p, pointer);
    if (!is_proven) {
        flxi_add_text(p, ", ");
        flxi_add_text(p, length);
    }
    flxi_add_text(p, ", ");
    flxi_add_text(p, index.at);
    flxi_add_char(p, ')');
    return (words){finish(w), index.depth + 1};
}

/* 0 is relaxed, 5 the strongest, as in C; orderings in between become the strongest. */
static words atomic(flxi_kwriter *w, const flxi_kx *e)
{
    const flxi_kbuffer *b = &w->k->buffers[e->ref];
    words index = index_value(w, e->x[0]);
    words operand = value(w, e->x[1]);
    words expected = e->x[2] ? value(w, e->x[2]) : (words){"0", 0};
    const char *pointer = flxi_kw_pointer(w, e->ref), *length = flxi_kw_length(w, e->ref);
    bool is_alone = b->access == FLX_KERNEL_WORKGROUP && w->target->is_serial;
    bool is_float = flxi_ktype_is_float(b->element);
    unsigned native = is_float ? w->target->native_float_atomics : w->target->native_atomics;
    const char *way = is_alone ? "change" : !(native >> e->op & 1) ? "atomic" : is_float ? "fetch_float" : "fetch";
    flxi_ksubject s = {.type = b->element, .space = flxi_kw_address(w, e->ref), .atomic = e->op};
    char name[48];
    snprintf(name, sizeof name, "%s_%s", way, flxi_katomic_names[e->op]);
    flxi_strbuf *p = begin(w);
    flxi_kfile_name(w->file, p, name, &s);
    flxi_add_char(p, '(');
    const char *const args[] = {pointer, length, index.at, operand.at, expected.at};
    for (size_t i = 0; i < sizeof args / sizeof args[0]; i++) {
        flxi_add_text(p, args[i]);
        flxi_add_text(p, ", ");
    }
    flxi_add_text(p, e->order == FLX_KERNEL_RELAXED ? "0)" : "5)");
    return (words){finish(w), 1};
}

/* A function of the kernel, or an extension. */
static words call(flxi_kwriter *w, const flxi_kx *e)
{
    const char **args = flxi_new(&w->words, const char *, e->num_args + 1u);
    unsigned depth = 0;
    if (!args) {
        w->code = flxi_oom(w->err, "the text of a kernel");
        return (words){"0", 0};
    }
    for (size_t i = 0; i < e->num_args; i++) {
        words x = value(w, e->args[i]);
        args[i] = x.at;
        depth = x.depth > depth ? x.depth : depth;
    }
    flxi_strbuf *p = begin(w);
    if (e->kind == KX_OPAQUE) {
        flxi_kw_opaque(w, p, e->ref, e->type, args);
        return (words){finish(w), depth + 2};
    }
    flxi_addf(p, "f%u_%u(", w->file->num_kernels, e->ref);
    for (size_t i = 0; i < e->num_args; i++) {
        flxi_add_text(p, i ? ", " : "");
        flxi_add_text(p, args[i]);
    }
    flxi_add_char(p, ')');
    return (words){finish(w), depth + 1};
}

static const char *leaf(flxi_kwriter *w, const flxi_kx *e)
{
    static const char ids[FLX_KERNEL_ID_COUNT] = {'i', 'w', 'l', 'q'};
    char name[24];
    switch ((flxi_kx_kind)e->kind) {
    case KX_LITERAL: flxi_ktext_literal(w->file, begin(w), e->type, e->bits); return finish(w);
    case KX_VAR: flxi_kw_name_var(w, e->ref, name); return flxi_kw_text(w, "%s", name);
    case KX_LENGTH: return flxi_kw_length(w, e->ref);
    case KX_ID: w->seen[e->op] |= (uint8_t)(1u << e->ref); return flxi_kw_text(w, "%c%u", ids[e->op], (unsigned)e->ref);
    case KX_LANE: w->seen_lane = 1; return "lane";
    case KX_LANES: return "lanes";
    default: return NULL;
    }
}

/* neg and abs as operations on bits, where bits are observed. */
static bool write_sign(flxi_kwriter *w, flxi_strbuf *p, const flxi_kx *e, const char *x)
{
    bool is_sign = e->kind == KX_UNARY && (e->op == KUN_neg || e->op == KUN_abs) && flxi_ktype_is_float(e->type);
    if (!w->observes_bits || !is_sign)
        return false;
    flxi_kfile_name(w->file, p, e->op == KUN_neg ? "flip_sign" : "clear_sign", &(flxi_ksubject){.type = e->type});
    flxi_add_char(p, '(');
    flxi_add_text(p, x);
    flxi_add_char(p, ')');
    return true;
}

static words operation(flxi_kwriter *w, const flxi_kx *e)
{
    const char *x[3] = {"", "", ""};
    unsigned depth = 0;
    uint32_t type = w->k->exprs[e->x[0]].type;
    for (int i = 0; i < flxi_kx_operands(e); i++) {
        words operand = value(w, e->x[i]);
        x[i] = operand.at;
        depth = operand.depth > depth ? operand.depth : depth;
    }
    flxi_strbuf *p = begin(w);
    if (write_sign(w, p, e, x[0]))
        return (words){finish(w), depth + 1};
    bool is_canonical = flxi_kw_is_canonical(w, e);
    if (is_canonical) {
        flxi_kfile_name(w->file, p, "canonical", &(flxi_ksubject){.type = e->type == FLX_F64 ? FLX_F64 : FLX_F32});
        flxi_add_char(p, '(');
    }
    switch ((flxi_kx_kind)e->kind) {
    case KX_UNARY: flxi_ktext_unary(w->file, p, (flxi_kunary)e->op, type, x[0]); break;
    case KX_BINARY: flxi_ktext_binary(w->file, p, (flxi_kbinary)e->op, type, x[0], x[1]); break;
    case KX_SELECT: flxi_kfile_expand(w->file, p, "($a ? $b : $c)", &(flxi_ksubject){.x = {x[0], x[1], x[2]}}); break;
    case KX_FMA: flxi_ktext_fma(w->file, p, e->type, x); break;
    case KX_CAST: flxi_ktext_cast(w->file, p, e->type, type, x[0]); break;
    case KX_BITCAST: flxi_ktext_bitcast(w->file, p, e->type, type, x[0]); break;
    default: w->file->failed = true; break;
    }
    if (is_canonical)
        flxi_add_char(p, ')');
    return (words){finish(w), depth + 1};
}

/* ---- Trees ---- */

/* Targets whose invocations are threads: a function of the target. */
static words threaded_subgroup(flxi_kwriter *w, const flxi_kx *e)
{
    static const char *const names[] = {"subgroup_add", "subgroup_shuffle", "subgroup_ballot"};
    words x = value(w, e->x[0]);
    words from = e->kind == KX_SUBGROUP_SHUFFLE ? value(w, e->x[1]) : (words){"0", 0};
    flxi_ksubject s = {.type = w->k->exprs[e->x[0]].type, .atomic = FLX_KERNEL_ATOMIC_ADD};
    flxi_strbuf *p = begin(w);
    flxi_kfile_name(w->file, p, names[e->kind - KX_SUBGROUP_ADD], &s);
    flxi_addf(p, "(%s", w->target->subgroup_arguments);
    flxi_add_text(p, x.at);
    flxi_add_text(p, ", ");
    flxi_add_text(p, from.at);
    flxi_add_char(p, ')');
    return (words){finish(w), 1};
}

static words subgroup(flxi_kwriter *w, const flxi_kx *e)
{
    if (w->vectors)
        return (words){flxi_vw_subgroup(w, e), 0};
    if (w->target->is_serial)
        return (words){flxi_kw_subgroup(w, e), 0};
    return threaded_subgroup(w, e);
}

static words value(flxi_kwriter *w, uint32_t expr)
{
    const flxi_kx *e = &w->k->exprs[expr];
    const char *text = leaf(w, e);
    if (text)
        return (words){text, 0};
    bool acts = e->kind == KX_ATOMIC;
    words x;
    switch ((flxi_kx_kind)e->kind) {
    case KX_LOAD:
        acts = w->binds;
        x = load(w, e);
        break;
    case KX_ATOMIC: x = atomic(w, e); break;
    case KX_OPAQUE:
        acts = !w->k->opaques[e->ref].pure;
        x = call(w, e);
        break;
    case KX_CALL: x = call(w, e); break;
    case KX_SUBGROUP_ADD:
    case KX_SUBGROUP_SHUFFLE:
    case KX_SUBGROUP_BALLOT:
        acts = !w->target->is_serial;
        x = subgroup(w, e);
        break;
    default: x = operation(w, e); break;
    }
    if (acts || x.depth >= MAX_INLINE_DEPTH)
        x = (words){flxi_kw_bind(w, e->type, x.at), 0};
    return x;
}

const char *flxi_kw_value(flxi_kwriter *w, uint32_t expr)
{
    return w->code == FLX_OK ? value(w, expr).at : "0";
}

/* Without the outer brackets. */
const char *flxi_kw_root(flxi_kwriter *w, uint32_t expr)
{
    const char *text = flxi_kw_value(w, expr);
    size_t n = strlen(text);
    int depth = 0;
    if (n < 2 || text[0] != '(')
        return text;
    for (size_t i = 0; i < n; i++) {
        depth += (text[i] == '(') - (text[i] == ')');
        if (depth == 0 && i + 1 < n)
            return text; /* the first bracket belongs to a cast or to a part */
    }
    return keep(w, text + 1, n - 2);
}

const char *flxi_kw_effect(flxi_kwriter *w, uint32_t expr)
{
    return w->code == FLX_OK ? atomic(w, &w->k->exprs[expr]).at : "0";
}

const char *flxi_kw_element(flxi_kwriter *w, uint32_t buffer, uint32_t index)
{
    return w->code == FLX_OK ? element_at(w, buffer, index).at : "b0[0]";
}

const char *flxi_kw_index(flxi_kwriter *w, uint32_t expr)
{
    return w->code == FLX_OK ? index_value(w, expr).at : "0";
}
