/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_print.c: prints a kernel as text that reads back to the same kernel: fewest parentheses, two blanks of indent,
   one statement per line. A literal is written without its type where the reader would infer that type: there it is
   soft, in the terms of kernel_parse_expr.c, and so is any expression of soft values only. If the context does not give
   the type of a soft expression, its first literal gets a suffix, and the others follow it. */
#include "base/context.h"
#include "base/number.h"
#include "base/strbuf.h"
#include "kernel/program/kernel.h"
#include "kernel/program/kernel_scalar.h"
#include "kernel/text/kernel_lex.h"
#include "kernel/text/kernel_parse.h"

/* What the context of a value demands: a type, nothing, or that the value brings its own. */
enum { DEMANDS_NOTHING = 0, DEMANDS_SUFFIX = 255 };

typedef struct {
    const flx_kernel *k;
    flxi_strbuf out;
    const uint8_t *soft; /* by expression */
    int indent;
    bool too_large; /* a condition that the reader would reject */
} printer;

/* ---- Words ---- */

static void put(printer *p, const char *s)
{
    flxi_add_text(&p->out, s);
}

static void put_u64(printer *p, uint64_t v)
{
    flxi_addf(&p->out, "%llu", (unsigned long long)v);
}

static void start_line(printer *p)
{
    for (int i = 0; i < p->indent; i++)
        put(p, "  ");
}

static void put_string(printer *p, const char *s)
{
    flxi_add_char(&p->out, '"');
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            flxi_addf(&p->out, "\\%c", c);
        else if (c == '\n' || c == '\t' || c == '\r')
            put(p, c == '\n' ? "\\n" : c == '\t' ? "\\t" : "\\r");
        else if (c < 32 || c == 127)
            flxi_addf(&p->out, "\\x%02x", c);
        else
            flxi_add_char(&p->out, (char)c);
    }
    flxi_add_char(&p->out, '"');
}

static void put_name(printer *p, const char *s)
{
    if (flxi_kname_is_plain(s, strlen(s)))
        put(p, s);
    else
        put_string(p, s);
}

static void put_function(printer *p, const char *s)
{
    if (flxi_kname_is_plain(s, strlen(s)) && !flxi_kname_is_callee(s, strlen(s)))
        put(p, s);
    else
        put_string(p, s);
}

static void put_bytes(printer *p, const void *data, size_t n)
{
    const unsigned char *bytes = data;
    flxi_add_char(&p->out, '"');
    for (size_t i = 0; i < n; i++)
        flxi_addf(&p->out, "%02x", bytes[i]);
    flxi_add_char(&p->out, '"');
}

static void put_buffer(printer *p, uint32_t buffer)
{
    put_name(p, p->k->buffers[buffer <= p->k->num_buffers ? buffer : 0].name);
}

static void put_var(printer *p, uint32_t var)
{
    put_name(p, p->k->vars[var <= p->k->num_vars ? var : 0].name);
}

static const char *type_name(uint32_t type)
{
    const char *name = flxi_ktype_of(type)->name;
    return name ? name : "?";
}

/* ---- Literals ---- */

static bool is_plain_nan(uint32_t type, uint64_t bits)
{
    uint64_t sign = UINT64_C(1) << (flxi_ktype_of(type)->bits - 1);
    return (bits & ~sign) == flxi_kfloat_nan(type);
}

static bool is_nan(uint32_t type, uint64_t bits)
{
    double value = flxi_kscalar_to_double(type, bits);
    return value != value;
}

static int mantissa_bits(uint32_t type)
{
    return type == FLX_F64 ? 53 : type == FLX_F32 ? 24 : type == FLX_F16 ? 11 : 8;
}

/* Adds what marks it as a real number if its digits alone do not. */
static void put_real(printer *p, uint32_t type, uint64_t bits)
{
    char text[FLXI_NUMBER_MAX];
    if (is_nan(type, bits)) {
        put(p, bits >> (flxi_ktype_of(type)->bits - 1) ? "-nan" : "nan");
        return;
    }
    flxi_write_double(text, flxi_kscalar_to_double(type, bits), mantissa_bits(type));
    put(p, text);
    if (!strpbrk(text, ".ei")) /* neither fraction, exponent nor inf */
        put(p, ".0");
}

static void put_integer(printer *p, uint32_t type, uint64_t bits)
{
    const flxi_ktype *t = flxi_ktype_of(type);
    uint64_t sign = UINT64_C(1) << (t->bits - 1);
    if (t->kind == TAKES_SIGNED && (bits & sign)) {
        flxi_add_char(&p->out, '-');
        bits = (0 - bits) & (2 * (sign - 1) + 1);
    }
    put_u64(p, bits);
}

static bool needs_suffix(uint32_t type, uint32_t demand)
{
    if (demand == DEMANDS_NOTHING)
        return type != FLX_U32 && type != FLX_F32;
    return type != demand;
}

static void put_literal(printer *p, const flxi_kx *e, uint32_t demand)
{
    if (e->type == FLX_BOOL) {
        put(p, e->bits ? "true" : "false");
        return;
    }
    bool is_float = flxi_ktype_is_float(e->type);
    if (is_float && is_nan(e->type, e->bits) && !is_plain_nan(e->type, e->bits)) {
        flxi_addf(&p->out, "nan(0x%llx)%s", (unsigned long long)e->bits, type_name(e->type));
        return;
    }
    if (is_float)
        put_real(p, e->type, e->bits);
    else
        put_integer(p, e->type, e->bits);
    if (needs_suffix(e->type, demand))
        put(p, type_name(e->type));
}

/* ---- Expressions ---- */

enum { STRENGTH_UNARY = 11 };

static bool is_soft(const flx_kernel *k, const uint8_t *soft, const flxi_kx *e)
{
    uint32_t first, n = flxi_kx_peers(e->kind, e->op, &first);
    if (e->kind == KX_LITERAL)
        return e->type != FLX_BOOL &&
               !(flxi_ktype_is_float(e->type) && is_nan(e->type, e->bits) && !is_plain_nan(e->type, e->bits));
    bool is_op = e->kind == KX_UNARY || e->kind == KX_BINARY;
    const flxi_kop *op = e->kind == KX_UNARY ? &flxi_kunaries[e->op] : &flxi_kbinaries[e->op];
    if (!n || !e->type || (is_op && (op->result == KRESULT_BOOL || op->kinds == TAKES_WORD)))
        return false;
    for (uint32_t i = first; i < first + n; i++)
        if (!soft[e->x[i]] || k->exprs[e->x[i]].type != k->exprs[e->x[first]].type)
            return false;
    return true;
}

/* The type that the position of each peer demands. */
static void demand_peers(const printer *p, const flxi_kx *e, uint32_t demand, uint32_t first, uint32_t n,
                         uint32_t demands[3])
{
    const flxi_kx *exprs = p->k->exprs;
    uint32_t type = exprs[e->x[first]].type;
    bool all_soft = true;
    for (uint32_t i = n; i-- > 0;)
        if (!p->soft[e->x[first + i]]) {
            all_soft = false;
            type = exprs[e->x[first + i]].type;
        }
    bool self = p->soft[e - exprs]; /* its type comes from outside */
    bool given = all_soft && e->type && !needs_suffix(type, self ? demand : DEMANDS_NOTHING);
    for (uint32_t i = 0; i < n; i++) {
        bool follows = type && e->type && (!all_soft || given || i > 0);
        demands[first + i] = follows ? type : DEMANDS_SUFFIX;
    }
}

static uint32_t demand_of_argument(const printer *p, const flxi_kx *e, size_t i)
{
    const flxi_kfn *fn = &p->k->fns[e->kind == KX_CALL && e->ref <= p->k->num_fns ? e->ref : 0];
    return i < fn->num_params ? p->k->vars[fn->params[i]].type : DEMANDS_NOTHING;
}

static void demand_operands(const printer *p, const flxi_kx *e, uint32_t demand, uint32_t demands[3])
{
    uint32_t first, n = flxi_kx_peers(e->kind, e->op, &first);
    const flxi_kbuffer *b = &p->k->buffers[e->ref <= p->k->num_buffers ? e->ref : 0];
    demands[0] = demands[1] = demands[2] = DEMANDS_NOTHING;
    if (e->kind == KX_LOAD || e->kind == KX_ATOMIC)
        demands[0] = FLX_U32;
    if (e->kind == KX_ATOMIC)
        demands[1] = demands[2] = flxi_ktype_of(b->element)->value;
    if (e->kind == KX_SUBGROUP_SHUFFLE)
        demands[1] = FLX_U32;
    if (n)
        demand_peers(p, e, demand, first, n, demands);
}

static void put_expr(printer *p, uint32_t number, uint32_t demand, uint8_t strength);

static void put_operands(printer *p, const flxi_kx *e, const uint32_t demands[3])
{
    int n = flxi_kx_operands(e);
    flxi_add_char(&p->out, '(');
    for (int i = 0; i < n; i++) {
        if (i)
            put(p, ", ");
        put_expr(p, e->x[i], demands[i], 0);
    }
    flxi_add_char(&p->out, ')');
}

static void put_arguments(printer *p, const flxi_kx *e, bool continued)
{
    for (size_t i = 0; i < e->num_args; i++) {
        if (i || continued)
            put(p, ", ");
        put_expr(p, e->args[i], demand_of_argument(p, e, i), 0);
    }
    flxi_add_char(&p->out, ')');
}

/* `-` before a literal would be read as its sign. */
static void put_unary(printer *p, const flxi_kx *e, const uint32_t demands[3])
{
    const flxi_kop *op = &flxi_kunaries[e->op];
    bool folds = e->op == KUN_neg && p->k->exprs[e->x[0]].kind == KX_LITERAL;
    put(p, *op->sign ? op->sign : op->name);
    if (!*op->sign || folds)
        put_operands(p, e, demands);
    else
        put_expr(p, e->x[0], demands[0], STRENGTH_UNARY);
}

static void put_binary(printer *p, const flxi_kx *e, const uint32_t demands[3], uint8_t strength)
{
    const flxi_kop *op = &flxi_kbinaries[e->op];
    if (!*op->sign) {
        put(p, op->name);
        put_operands(p, e, demands);
        return;
    }
    uint8_t own = flxi_kbinary_strength(e->op);
    if (own < strength)
        flxi_add_char(&p->out, '(');
    put_expr(p, e->x[0], demands[0], own);
    flxi_addf(&p->out, " %s ", op->sign);
    put_expr(p, e->x[1], demands[1], (uint8_t)(own + 1));
    if (own < strength)
        flxi_add_char(&p->out, ')');
}

static void put_atomic(printer *p, const flxi_kx *e, const uint32_t demands[3])
{
    flxi_addf(&p->out, "atomic_%s(", e->op < FLX_KERNEL_ATOMIC_COUNT ? flxi_katomic_names[e->op] : "?");
    put_buffer(p, e->ref);
    flxi_add_char(&p->out, '[');
    put_expr(p, e->x[0], demands[0], 0);
    put(p, "], ");
    if (e->x[2]) {
        put_expr(p, e->x[2], demands[2], 0);
        put(p, ", ");
    }
    put_expr(p, e->x[1], demands[1], 0);
    if (e->order != FLX_KERNEL_RELAXED)
        flxi_addf(&p->out, ", %s", e->order < FLX_KERNEL_ORDER_COUNT ? flxi_korder_names[e->order] : "?");
    flxi_add_char(&p->out, ')');
}

static void put_opaque(printer *p, const flxi_kopaque *o, const char *open)
{
    put(p, open);
    if (o->id)
        flxi_addf(&p->out, "0x%x", o->id);
    else
        put_string(p, o->extension);
    put(p, ", ");
    put_bytes(p, o->payload, o->payload_size);
    if (o->id)
        return; /* the extension knows the rest */
    if (o->type || o->fingerprint || o->pure)
        flxi_addf(&p->out, ", 0x%llx, %s", (unsigned long long)o->fingerprint, o->pure ? "pure" : "impure");
}

static void put_call(printer *p, const flxi_kx *e)
{
    if (e->kind == KX_CALL) {
        put_function(p, p->k->fns[e->ref <= p->k->num_fns ? e->ref : 0].name);
        flxi_add_char(&p->out, '(');
        put_arguments(p, e, false);
        return;
    }
    char open[40] = "opaque<";
    strcat(strcat(open, type_name(e->type)), ">(");
    put_opaque(p, &p->k->opaques[e->ref <= p->k->num_opaques ? e->ref : 0], open);
    put_arguments(p, e, true);
}

static void put_load(printer *p, const flxi_kx *e, const uint32_t demands[3])
{
    put_buffer(p, e->ref);
    flxi_add_char(&p->out, '[');
    put_expr(p, e->x[0], demands[0], 0);
    flxi_add_char(&p->out, ']');
}

static void put_length(printer *p, const flxi_kx *e)
{
    put(p, "buf_len(");
    put_buffer(p, e->ref);
    flxi_add_char(&p->out, ')');
}

/* The recursion is as deep as the expression, which the builder bounds. `strength`: weaker operators need parentheses.
   */
static void put_expr(printer *p, uint32_t number, uint32_t demand, uint8_t strength)
{
    const flxi_kx *e = &p->k->exprs[number <= p->k->num_exprs ? number : 0];
    uint32_t demands[3];
    demand_operands(p, e, demand, demands);
    switch ((flxi_kx_kind)e->kind) {
    case KX_NONE:
    case KX_KIND_COUNT: put(p, "\"\""); break;
    case KX_LITERAL: put_literal(p, e, demand); break;
    case KX_VAR: put_var(p, e->ref); break;
    case KX_LOAD: put_load(p, e, demands); break;
    case KX_LENGTH: put_length(p, e); break;
    case KX_ID: flxi_addf(&p->out, "%s(%u)", flxi_kid_names[e->op < FLX_KERNEL_ID_COUNT ? e->op : 0], e->ref); break;
    case KX_LANE: put(p, "subgroup_lane()"); break;
    case KX_LANES: put(p, "subgroup_size()"); break;
    case KX_UNARY: put_unary(p, e, demands); break;
    case KX_BINARY: put_binary(p, e, demands, strength); break;
    case KX_SELECT:
    case KX_FMA:
    case KX_SUBGROUP_ADD:
    case KX_SUBGROUP_SHUFFLE:
    case KX_SUBGROUP_BALLOT:
        put(p, flxi_kcallee_name(e->kind));
        put_operands(p, e, demands);
        break;
    case KX_CAST:
    case KX_BITCAST:
        flxi_addf(&p->out, "%s<%s>", flxi_kcallee_name(e->kind), type_name(e->type));
        put_operands(p, e, demands);
        break;
    case KX_ATOMIC: put_atomic(p, e, demands); break;
    case KX_CALL:
    case KX_OPAQUE: put_call(p, e); break;
    }
}

static void put_value(printer *p, uint32_t number, uint32_t demand)
{
    put_expr(p, number, demand, 0);
}

/* ---- Declarations ---- */

/* The words for the flags that are set, `first` before the first and `between` before the others. */
static void put_flags(printer *p, uint32_t flags, const char *const *words, uint32_t count, const char *first,
                      const char *between)
{
    const char *before = first;
    for (uint32_t i = 0; i < count; i++)
        if (flags & 1u << i) {
            put(p, before);
            put(p, words[i]);
            before = between;
        }
}

static void put_header(printer *p)
{
    const flx_kernel *k = p->k;
    put(p, "kernel ");
    put_name(p, k->name);
    flxi_addf(&p->out, "(workgroup = [%u, %u, %u]", k->size[0], k->size[1], k->size[2]);
    put_flags(p, k->flags, flxi_kernel_flag_words, FLXI_KERNEL_FLAG_WORDS, ", flags = [", ", ");
    put(p, k->flags & FLXI_KERNEL_FLAGS ? "]) {\n" : ") {\n");
}

static void put_meta(printer *p)
{
    for (size_t i = 0; i < p->k->num_meta; i++) {
        start_line(p);
        put(p, "meta ");
        put_string(p, p->k->meta[i].key);
        put(p, " = ");
        put_string(p, p->k->meta[i].value);
        put(p, ";\n");
    }
}

static void put_test(printer *p, const flx_kernel_predicate *t)
{
    unsigned long long a = t->a, b = t->b, c = t->c;
    switch ((flx_kernel_test)t->test) {
    case FLX_KERNEL_COUNT_GE: flxi_addf(&p->out, "count >= %llu", a); break;
    case FLX_KERNEL_COUNT_LE: flxi_addf(&p->out, "count <= %llu", a); break;
    case FLX_KERNEL_COUNT_EQ: flxi_addf(&p->out, "count == %llu", a); break;
    case FLX_KERNEL_COUNT_MULTIPLE: flxi_addf(&p->out, "count %% %llu == 0", a); break;
    case FLX_KERNEL_COUNT_MOD: flxi_addf(&p->out, "count %s %llu == %llu", b ? "%" : "mod", a, b); break;
    case FLX_KERNEL_COUNT_AFFINE: flxi_addf(&p->out, "%llu <= %llu * count <= %llu", b, a, c); break;
    default: p->too_large = true; break;
    }
}

/* The context of a part of a condition, in the order in which fewer parts can be written without parentheses. */
enum { OF_ANY, OF_AND, OF_RIGHT, OF_NOT };

/* Writes the condition that begins at index `i` of a list in prefix order; returns the index where it ends. */
static size_t put_condition(printer *p, const flxi_kbuffer *b, size_t i, int strength)
{
    if (i >= b->num_predicates) {
        p->too_large = true;
        return i;
    }
    const flx_kernel_predicate *t = &b->predicates[i++];
    if (t->test == FLX_KERNEL_COUNT_NOT) {
        put(p, "!");
        return put_condition(p, b, i, OF_NOT);
    }
    bool both = t->test == FLX_KERNEL_COUNT_AND, either = t->test == FLX_KERNEL_COUNT_OR;
    int own = either ? OF_ANY : both ? OF_AND : OF_RIGHT;
    if (own < strength)
        flxi_add_char(&p->out, '(');
    if (!both && !either) {
        put_test(p, t);
    } else {
        i = put_condition(p, b, i, own);
        put(p, both ? " && " : " || ");
        i = put_condition(p, b, i, own + 1);
    }
    if (own < strength)
        flxi_add_char(&p->out, ')');
    return i;
}

static void put_hint(printer *p, const char *word, uint32_t value)
{
    if (value)
        flxi_addf(&p->out, " %s(%u)", word, value);
}

static void put_options(printer *p, const flxi_kbuffer *b)
{
    if (b->range_begin || b->range_end)
        flxi_addf(&p->out, " range(%llu, %llu)", (unsigned long long)b->range_begin, (unsigned long long)b->range_end);
    if (b->usage && b->usage < FLXI_KUSAGE_WORDS)
        flxi_addf(&p->out, " usage(%s)", flxi_kusage_words[b->usage]);
    put_hint(p, "align", b->alignment);
    put_hint(p, "locality", b->locality);
    put_hint(p, "coalescing", b->coalescing);
    if (!b->num_predicates)
        return;
    put(p, " where (");
    if (b->num_predicates > FLXI_KERNEL_MAX_PREDICATES || put_condition(p, b, 0, OF_ANY) != b->num_predicates)
        p->too_large = true;
    put(p, ")");
}

static void put_declaration(printer *p, const flxi_kbuffer *b)
{
    bool output = b->access == FLX_KERNEL_READ_WRITE && (b->flags & FLX_KERNEL_OUTPUT);
    uint32_t flags = output ? b->flags & ~(uint32_t)FLX_KERNEL_OUTPUT : b->flags;
    start_line(p);
    put(p, "buffer ");
    put_name(p, b->name);
    flxi_addf(&p->out, ": %s", type_name(b->element));
    if (b->descriptor_size) {
        put(p, "(");
        put_bytes(p, b->descriptor, b->descriptor_size);
        put(p, ")");
    }
    put(p, "[");
    if (b->count)
        put_u64(p, b->count);
    flxi_addf(&p->out, "] %s",
              output ? "output" : flxi_kaccess_names[b->access < FLX_KERNEL_ACCESS_COUNT ? b->access : 1]);
    put_flags(p, flags, flxi_kbuffer_flag_words, FLXI_KBUFFER_FLAG_WORDS, " ", " ");
    if (flxi_kbuffer_is_bound(b))
        flxi_addf(&p->out, " @%u", b->binding);
    put_options(p, b);
    put(p, ";\n");
}

/* ---- Statements ---- */

static void put_list(printer *p, flxi_klist list);

static void put_body(printer *p, flxi_klist list)
{
    put(p, "{\n");
    p->indent++;
    put_list(p, list);
    p->indent--;
    start_line(p);
    put(p, "}");
}

/* A branch that consists of another `if` continues the chain. */
static void put_if(printer *p, const flxi_ks *s)
{
    for (;; s = s->other.at) {
        put(p, "if (");
        put_value(p, s->a, DEMANDS_NOTHING);
        put(p, ") ");
        put_body(p, s->body);
        if (s->other.n == 0)
            break;
        put(p, " else ");
        if (s->other.n > 1 || s->other.at->kind != KS_IF) {
            put_body(p, s->other);
            break;
        }
    }
    put(p, "\n");
}

static void put_loop(printer *p, const flxi_ks *s)
{
    put(p, "for (");
    put_var(p, s->var);
    put(p, " in ");
    put_value(p, s->a, FLX_U32);
    put(p, "..");
    put_value(p, s->b, FLX_U32);
    put(p, ") ");
    put_body(p, s->body);
    put(p, "\n");
}

static void put_region(printer *p, const flxi_ks *s)
{
    put(p, "region ");
    put_name(p, s->text);
    if (*s->source) {
        put(p, " from ");
        put_string(p, s->source);
    }
    put_flags(p, s->flags, flxi_kregion_flag_words, FLXI_KREGION_FLAG_WORDS, " ", " ");
    put(p, " ");
    put_body(p, s->body);
    put(p, "\n");
}

static void put_store(printer *p, const flxi_ks *s)
{
    put_buffer(p, s->buffer);
    put(p, "[");
    put_value(p, s->a, FLX_U32);
    put(p, "] = ");
    put_value(p, s->b, flxi_ktype_of(p->k->buffers[s->buffer <= p->k->num_buffers ? s->buffer : 0].element)->value);
    put(p, ";\n");
}

static void put_assign(printer *p, const flxi_ks *s)
{
    bool let = s->kind == KS_LET;
    put(p, let ? "let " : "");
    put_var(p, s->var);
    put(p, " = ");
    put_value(p, s->a, let ? DEMANDS_NOTHING : p->k->vars[s->var <= p->k->num_vars ? s->var : 0].type);
    put(p, ";\n");
}

/* ---- Statements written as calls: their arguments as kernel_parse.c describes them ---- */

static void put_argument(printer *p, char what, const flxi_ks *s)
{
    switch (what) {
    case 'b': put_buffer(p, s->buffer); break;
    case 't': put_buffer(p, s->target); break;
    case 'x': put_value(p, s->a, FLX_U32); break;
    case 'y': put_value(p, s->b, FLX_U32); break;
    case 'n': put_u64(p, s->offset); break;
    case 'g': put_name(p, s->text); break;
    default: put(p, s->order < FLX_KERNEL_ORDER_COUNT ? flxi_korder_names[s->order] : "?"); break;
    }
}

static void put_call_statement(printer *p, const flxi_ks *s)
{
    const flxi_kform *form = flxi_kform_of(s);
    if (s->kind == KS_OPAQUE) {
        put_opaque(p, &p->k->opaques[s->opaque <= p->k->num_opaques ? s->opaque : 0], "opaque(");
    } else {
        const char *what = form->args;
        flxi_addf(&p->out, "%s(", form->name);
        if (s->kind == KS_BARRIER && s->order == FLX_KERNEL_ACQ_REL)
            what = "";
        for (int i = 0; what[i]; i++) {
            put(p, i ? ", " : "");
            put_argument(p, what[i], s);
        }
    }
    put(p, ");\n");
}

static void put_statement(printer *p, const flxi_ks *s)
{
    start_line(p);
    switch ((flxi_ks_kind)s->kind) {
    case KS_LET:
    case KS_ASSIGN: put_assign(p, s); break;
    case KS_STORE: put_store(p, s); break;
    case KS_EFFECT:
        put_value(p, s->a, DEMANDS_NOTHING);
        put(p, ";\n");
        break;
    case KS_IF: put_if(p, s); break;
    case KS_LOOP: put_loop(p, s); break;
    case KS_REGION: put_region(p, s); break;
    case KS_BLOCK:
        put_body(p, s->body);
        put(p, "\n");
        break;
    case KS_RETURN: put(p, "return;\n"); break;
    default: put_call_statement(p, s); break;
    }
}

static void put_list(printer *p, flxi_klist list)
{
    for (size_t i = 0; i < list.n; i++)
        put_statement(p, &list.at[i]);
}

/* ---- Functions and kernels ---- */

static void put_adjoint_head(printer *p, const flxi_kfn *fn)
{
    const flx_kernel *k = p->k;
    const flxi_kfn *of = &k->fns[fn->adjoint_of - 1 <= k->num_fns ? fn->adjoint_of - 1 : 0];
    put(p, "adjoint ");
    put_function(p, of->name);
    if (fn->adjoint_param < of->num_params) {
        put(p, ".");
        put_var(p, of->params[fn->adjoint_param]);
    } else {
        flxi_addf(&p->out, "[%u]", fn->adjoint_param);
    }
    if (*fn->name) {
        put(p, " as ");
        put_name(p, fn->name);
    }
}

static void put_fn(printer *p, const flxi_kfn *fn)
{
    start_line(p);
    if (fn->adjoint_of) {
        put_adjoint_head(p, fn);
    } else {
        put(p, "fn ");
        put_function(p, fn->name);
    }
    put(p, "(");
    for (uint32_t i = 0; i < fn->num_params; i++) {
        put(p, i ? ", " : "");
        put_var(p, fn->params[i]);
        flxi_addf(&p->out, ": %s", type_name(p->k->vars[fn->params[i]].type));
    }
    flxi_addf(&p->out, ") -> %s {\n", type_name(fn->type));
    p->indent++;
    put_list(p, fn->body);
    start_line(p);
    put(p, "return ");
    put_value(p, fn->result, fn->type);
    put(p, ";\n");
    p->indent--;
    start_line(p);
    put(p, "}\n");
}

static void put_kernel(printer *p)
{
    const flx_kernel *k = p->k;
    put_header(p);
    p->indent++;
    put_meta(p);
    for (uint32_t i = 1; i <= k->num_buffers; i++)
        put_declaration(p, &k->buffers[i]);
    for (uint32_t i = 1; i <= k->num_fns; i++)
        put_fn(p, &k->fns[i]);
    put_list(p, k->body);
    put(p, "}\n");
}

flx_code flx_kernel_print(const flx_kernel *k, flx_buffer *out, flx_error *err)
{
    printer p = {.k = k};
    if (!k || !out)
        return flxi_fail(err, FLX_E_USAGE, "flx_kernel_print: kernel and buffer must not be NULL");
    const flxi_allocator *mem = flxi_kernel_mem(k);
    size_t count = k->num_exprs + (size_t)1;
    *out = (flx_buffer){0};
    uint8_t *soft = flxi_alloc(mem, count, 1);
    if (!soft)
        return flxi_oom(err, "printing");
    for (size_t i = 1; i < count; i++)
        soft[i] = is_soft(k, soft, &k->exprs[i]);
    p.soft = soft;
    flxi_strbuf_init(&p.out, mem);
    put_kernel(&p);
    flxi_free(mem, soft, count, 1);
    if (p.too_large) {
        flxi_strbuf_free(&p.out);
        return flxi_kernel_fail(err, "K07", "a list of at most 256 entries in prefix order",
                                "the condition on a buffer's count is not well-formed");
    }
    return flxi_buffer_finish(&p.out, k->ctx, out, err);
}
