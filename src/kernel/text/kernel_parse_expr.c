/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_parse_expr.c: expressions of kernel text. Operators and brackets wait on an explicit stack (no recursion, so
   hostile nesting is rejected at a fixed depth), and each operand is written after those it uses. Literals without a
   suffix have no type of their own: they are soft, and so is any expression of soft values only. Types of hard values
   flow up from the leaves, then demands flow down to the soft ones. */
#include "kernel/text/kernel_parse.h"
#include "kernel/text/kernel_reader.h"

/* Brackets and operators that may wait at the same time: twice what the deepest printed expression needs. */
#define MAX_WAITING (4 * FLXI_KERNEL_MAX_DEPTH)

typedef enum { FORM_UNARY, FORM_BINARY, FORM_PAREN, FORM_INDEX, FORM_ELEMENT, FORM_CALL } frame_form;

/* What must come next: an operand; an operator or the end of an operand; the end of an argument that is not an
   expression. */
typedef enum { WANT_OPERAND, HAVE_OPERAND, HAVE_ARGUMENT, HAVE_ALL } step;

/* ---- Operators and callees ---- */

uint8_t flxi_kbinary_strength(uint8_t op)
{
    switch ((flxi_kbinary)op) {
    case KBIN_mul:
    case KBIN_div:
    case KBIN_mod: return 10;
    case KBIN_add:
    case KBIN_sub: return 9;
    case KBIN_shl:
    case KBIN_shr: return 8;
    case KBIN_lt:
    case KBIN_gt:
    case KBIN_le:
    case KBIN_ge: return 7;
    case KBIN_eq:
    case KBIN_ne: return 6;
    case KBIN_bit_and: return 5;
    case KBIN_bit_xor: return 4;
    case KBIN_bit_or: return 3;
    case KBIN_logical_and: return 2;
    default: return 1;
    }
}

static uint8_t find_sign(const flxi_kop *ops, uint8_t count, const flxi_ktoken *t)
{
    for (uint8_t i = 1; t->kind == KT_MARK && i < count; i++)
        if (strlen(ops[i].sign) == t->n && memcmp(ops[i].sign, t->s, t->n) == 0)
            return i;
    return 0;
}

/* The expression that a call of a builtin name creates. Its arguments: e an expression, b a buffer, a an axis, p an
   element buf[e], o an ordering that may be left out. */
typedef struct {
    const char *name;
    const char *args;
    uint8_t kind, op;
} callee;

static const callee callees[] = {
    {"select", "eee", KX_SELECT, 0},
    {"fma", "eee", KX_FMA, 0},
    {"cast", "e", KX_CAST, 0},
    {"bitcast", "e", KX_BITCAST, 0},
    {"opaque", "*", KX_OPAQUE, 0},
    {"buf_len", "b", KX_LENGTH, 0},
    {"invocation_id", "a", KX_ID, FLX_KERNEL_INVOCATION_ID},
    {"workgroup_id", "a", KX_ID, FLX_KERNEL_WORKGROUP_ID},
    {"local_id", "a", KX_ID, FLX_KERNEL_LOCAL_ID},
    {"num_workgroups", "a", KX_ID, FLX_KERNEL_NUM_WORKGROUPS},
    {"subgroup_lane", "", KX_LANE, 0},
    {"subgroup_size", "", KX_LANES, 0},
    {"subgroup_add", "e", KX_SUBGROUP_ADD, 0},
    {"subgroup_shuffle", "ee", KX_SUBGROUP_SHUFFLE, 0},
    {"subgroup_ballot", "e", KX_SUBGROUP_BALLOT, 0},
};

static bool find_atomic(const char *s, size_t n, callee *out)
{
    static const size_t head = sizeof "atomic_" - 1;
    if (n <= head || memcmp(s, "atomic_", head) != 0)
        return false;
    for (uint8_t i = 0; i < FLX_KERNEL_ATOMIC_COUNT; i++)
        if (strlen(flxi_katomic_names[i]) == n - head && memcmp(flxi_katomic_names[i], s + head, n - head) == 0) {
            *out = (callee){"", i == FLX_KERNEL_ATOMIC_COMPARE_EXCHANGE ? "peeo" : "peo", KX_ATOMIC, i};
            return true;
        }
    return false;
}

/* An op by its name; ops that have an operator only if `all`. */
static bool find_op(const char *s, size_t n, bool all, callee *out)
{
    uint8_t unary = flxi_kunary_find(s, n);
    uint8_t binary = flxi_kbinary_find(s, n);
    if (unary && (all || !*flxi_kunaries[unary].sign))
        *out = (callee){"", "e", KX_UNARY, unary};
    else if (binary && (all || !*flxi_kbinaries[binary].sign))
        *out = (callee){"", "ee", KX_BINARY, binary};
    else
        return false;
    return true;
}

static bool find_callee(const char *s, size_t n, callee *out)
{
    for (size_t i = 0; i < sizeof callees / sizeof callees[0]; i++)
        if (strlen(callees[i].name) == n && memcmp(callees[i].name, s, n) == 0) {
            *out = callees[i];
            return true;
        }
    return find_op(s, n, false, out) || find_atomic(s, n, out);
}

const char *flxi_kcallee_name(uint8_t kind)
{
    for (size_t i = 0; i < sizeof callees / sizeof callees[0]; i++)
        if (callees[i].kind == kind)
            return callees[i].name;
    return "?";
}

bool flxi_kname_is_callee(const char *s, size_t n)
{
    callee c;
    return find_callee(s, n, &c) || flxi_kname_is_statement(s, n);
}

/* ---- Nodes ---- */

/* Makes a node from the values that wait above `base`. */
static flx_code add_node(flxi_kparser *p, flxi_knode node, size_t base)
{
    node.kids = (uint32_t)p->kids.n;
    node.num_kids = (uint32_t)(p->values.n - base);
    node.depth = 1;
    for (size_t i = base; i < p->values.n; i++) {
        uint32_t kid = p->values.at[i];
        if (p->nodes.at[kid].depth >= node.depth)
            node.depth = (uint8_t)(p->nodes.at[kid].depth + 1);
        if (!flxi_push(p->mem, &p->kids, kid))
            return flxi_kfail_memory(p);
    }
    if (node.depth > FLXI_KERNEL_MAX_DEPTH)
        return flxi_kfail_rule(p, node.at, "K71", "bind parts of it with let",
                               "expression depth exceeds the limit of %d", FLXI_KERNEL_MAX_DEPTH);
    p->values.n = base;
    uint32_t number = (uint32_t)p->nodes.n;
    if (!flxi_push(p->mem, &p->nodes, node) || !flxi_push(p->mem, &p->values, number))
        return flxi_kfail_memory(p);
    return FLX_OK;
}

static flx_code push_waiting(flxi_kparser *p, flxi_kwaiting w)
{
    w.base = (uint32_t)p->values.n;
    if (p->waiting.n >= MAX_WAITING)
        return flxi_kfail_rule(p, w.at, "K71", "bind parts of it with let", "expression depth exceeds the limit of %d",
                               FLXI_KERNEL_MAX_DEPTH);
    return flxi_push(p->mem, &p->waiting, w) ? FLX_OK : flxi_kfail_memory(p);
}

static flxi_kwaiting *last_waiting(flxi_kparser *p)
{
    return p->waiting.n ? &p->waiting.at[p->waiting.n - 1] : NULL;
}

/* Applies the operators that bind at least as strongly as what comes next. */
static flx_code apply_operators(flxi_kparser *p, uint8_t strength)
{
    for (flxi_kwaiting *w; (w = last_waiting(p)) && w->form <= FORM_BINARY && w->strength >= strength;) {
        flxi_knode node = {.kind = w->kind, .op = w->op, .at = w->at, .n = w->n};
        size_t base = w->base - (w->form == FORM_BINARY);
        p->waiting.n--;
        FLXI_TRY(add_node(p, node, base));
    }
    return FLX_OK;
}

/* ---- Leaves ---- */

static flx_code read_literal(flxi_kparser *p, const char *at, bool is_negative)
{
    flxi_ktoken t = p->x.token;
    flxi_knode node = {.kind = KX_LITERAL, .at = at, .n = (size_t)(t.s + t.n - at)};
    const char *wrong = flxi_knumber_read(&t, &node.number);
    if (wrong)
        return flxi_kfail_at(p, t.s, NULL, "%s", wrong);
    flxi_knext(p);
    if (t.n == 3 && *t.s == 'n' && flxi_kis_mark(p, '(')) { /* nan(0x7fc00001)f32 */
        uint32_t type;
        flxi_knext(p);
        flxi_ktoken bits = p->x.token;
        uint64_t value;
        if (bits.kind != KT_NUMBER || flxi_knumber_read(&bits, &node.number) || node.number.type ||
            !flxi_knumber_u64(&node.number, &value))
            return flxi_kexpected(p, "the bits of a NaN, as in nan(0x7fc00001)f32");
        flxi_knext(p);
        FLXI_TRY(flxi_kneed_mark(p, ')'));
        node.n = (size_t)(p->x.token.s + p->x.token.n - at);
        FLXI_TRY(flxi_kread_type(p, &type));
        node.number.type = (uint8_t)type;
        node.number.exact = true;
        if (!flxi_ktype_is_float(type))
            return flxi_kfail_at(p, at, NULL, "only floats have a NaN");
    }
    node.number.negative = is_negative;
    return add_node(p, node, p->values.n);
}

static bool at_literal(const flxi_ktoken *t)
{
    return t->kind == KT_NUMBER || flxi_knumber_is_word(t);
}

static flx_code read_bool(flxi_kparser *p)
{
    flxi_ktoken t = p->x.token;
    flxi_knode node = {.kind = KX_LITERAL, .type = FLX_BOOL, .ref = *t.s == 't', .at = t.s, .n = t.n};
    flxi_knext(p);
    return add_node(p, node, p->values.n);
}

static flx_code read_variable(flxi_kparser *p)
{
    size_t symbol;
    flxi_ktoken t = p->x.token;
    FLXI_TRY(flxi_kread_name(p, "an expression", &symbol));
    const flxi_ksymbol *s = flxi_ksymbol_at(p, symbol);
    if (!s)
        return flxi_kfail_memory(p);
    uint32_t var = s->var;
    if (!var) {
        flxi_kunknown_name(p, t.s, symbol, UNKNOWN_VAR);
        const char *text = flxi_ksymbol_text(p, symbol);
        var = flxi_kb_unknown(p->b, text, strlen(text));
        FLXI_TRY(flxi_kcheck_builder(p, t.s));
    }
    return add_node(p, (flxi_knode){.kind = KX_VAR, .ref = var, .at = t.s, .n = t.n}, p->values.n);
}

/* adjoint(v), in the adjoint of a region. */
static flx_code read_adjoint(flxi_kparser *p)
{
    flxi_ktoken t = p->x.token;
    uint32_t var;
    FLXI_TRY(flxi_kread_bar(p, &var));
    uint32_t bar = flxi_kb_rule_bar(p->b, var);
    FLXI_TRY(flxi_kcheck_builder(p, t.s));
    return add_node(p, (flxi_knode){.kind = KX_VAR, .ref = bar, .at = t.s, .n = t.n}, p->values.n);
}

static flx_code open_index(flxi_kparser *p, frame_form form)
{
    flxi_ktoken t = p->x.token;
    uint32_t buffer;
    FLXI_TRY(flxi_kread_buffer(p, &buffer));
    FLXI_TRY(flxi_kneed_mark(p, '['));
    return push_waiting(p, (flxi_kwaiting){.form = (uint8_t)form, .kind = KX_LOAD, .ref = buffer, .at = t.s, .n = t.n});
}

/* ---- Calls ---- */

flx_code flxi_kread_opaque(flxi_kparser *p, uint32_t type, uint32_t *opaque)
{
    static const char *const purities[] = {"impure", "pure"};
    flxi_kopaque o = {.type = (uint8_t)type};
    const char *at = p->x.token.s;
    const char *bytes;
    uint64_t id = 0;
    FLXI_TRY(flxi_kneed_mark(p, '('));
    if (p->x.token.kind == KT_NUMBER)
        FLXI_TRY(flxi_kread_u64(p, "the number of an extension", UINT32_MAX, &id));
    else
        FLXI_TRY(flxi_kread_string(p, "the name of an extension, as a string, or its number", &o.extension));
    o.id = (uint32_t)id;
    FLXI_TRY(flxi_kneed_mark(p, ','));
    FLXI_TRY(flxi_kread_bytes(p, &bytes, &o.payload_size));
    o.payload = bytes;
    if (o.id) {
        *opaque = flxi_kb_add_opaque(p->b, &o);
        return flxi_kcheck_builder(p, at);
    }
    if (flxi_ktake_mark(p, ',')) {
        FLXI_TRY(flxi_kread_u64(p, "a fingerprint", UINT64_MAX, &o.fingerprint));
        FLXI_TRY(flxi_kneed_mark(p, ','));
        o.pure = (uint8_t)flxi_kread_word(p, purities, 2);
        if (o.pure > 1)
            return flxi_kexpected(p, "pure or impure");
    } else if (type) {
        return flxi_kexpected(p, "',' and a fingerprint");
    }
    *opaque = flxi_kb_add_opaque(p->b, &o);
    return flxi_kcheck_builder(p, at);
}

/* The type in angle brackets of cast<T>(e). */
static flx_code read_typed(flxi_kparser *p, uint8_t *type)
{
    uint32_t number;
    FLXI_TRY(flxi_kneed_mark(p, '<'));
    FLXI_TRY(flxi_kread_type(p, &number));
    *type = (uint8_t)number;
    return flxi_kneed_mark(p, '>');
}

static const char *argument_hint(const flxi_kwaiting *w)
{
    switch (*w->args) {
    case 'p': return w->args[2] == 'e' ? "as in (buf[i], expected, value)" : "as in (buf[i], value)";
    case 'a': return "the axis: 0, 1 or 2";
    case 'b': return "the name of a buffer";
    case 0: return "write it with empty parentheses";
    default: return "separate arguments by commas";
    }
}

static flx_code fail_arguments(flxi_kparser *p, const flxi_kwaiting *w)
{
    char name[60];
    size_t most = strlen(w->args);
    size_t least = most - (most && w->args[most - 1] == 'o');
    flxi_printable(name, sizeof name, w->at, w->n);
    return flxi_kfail_rule(p, w->at, "K61", argument_hint(w), "%s takes %zu arguments%s", name, least,
                           least < most ? " and an ordering, if any" : "");
}

/* Reads the beginning of an argument, or all of an argument that is not an expression. */
static flx_code begin_argument(flxi_kparser *p, step *next)
{
    flxi_kwaiting *w = last_waiting(p);
    uint64_t axis;
    char what = *w->args == '*' ? 'e' : w->num_args < strlen(w->args) ? w->args[w->num_args] : 0;
    *next = HAVE_ARGUMENT;
    w->num_args++;
    switch (what) {
    case 'e': *next = WANT_OPERAND; return FLX_OK;
    case 'b': return flxi_kread_buffer(p, &w->ref);
    case 'a':
        FLXI_TRY(flxi_kread_u64(p, "an axis: 0, 1 or 2", UINT32_MAX, &axis));
        w->ref = (uint32_t)axis;
        return FLX_OK;
    case 'p': *next = WANT_OPERAND; return open_index(p, FORM_ELEMENT);
    case 'o': {
        uint32_t order = flxi_kread_word(p, flxi_korder_names, FLX_KERNEL_ORDER_COUNT);
        if (order == FLX_KERNEL_ORDER_COUNT)
            return flxi_kexpected(p, "an ordering: relaxed acquire release acq_rel seq_cst");
        w->order = (uint8_t)order;
        return FLX_OK;
    }
    default: return fail_arguments(p, w);
    }
}

/* After the name: opens the call and begins its first argument. */
static flx_code open_call(flxi_kparser *p, flxi_kwaiting w, step *next)
{
    if (w.kind == KX_CAST || w.kind == KX_BITCAST)
        FLXI_TRY(read_typed(p, &w.type));
    FLXI_TRY(flxi_kneed_mark(p, '('));
    FLXI_TRY(push_waiting(p, w));
    *next = HAVE_ARGUMENT;
    return flxi_kis_mark(p, ')') ? FLX_OK : begin_argument(p, next);
}

/* opaque<T>("extension", "hex", fingerprint, pure, arguments…) */
static flx_code open_opaque(flxi_kparser *p, flxi_kwaiting w, step *next)
{
    FLXI_TRY(read_typed(p, &w.type));
    FLXI_TRY(flxi_kread_opaque(p, w.type, &w.ref));
    FLXI_TRY(push_waiting(p, w));
    *next = HAVE_ARGUMENT;
    return flxi_ktake_mark(p, ',') ? begin_argument(p, next) : FLX_OK;
}

static flx_code open_builtin(flxi_kparser *p, const callee *c, const flxi_ktoken *t, step *next)
{
    flxi_kwaiting w = {.form = FORM_CALL, .kind = c->kind, .op = c->op, .args = c->args, .at = t->s, .n = t->n};
    return c->kind == KX_OPAQUE ? open_opaque(p, w, next) : open_call(p, w, next);
}

/* A function of the kernel; an unknown name may be that of an op that is usually written as an operator. */
static flx_code open_function_call(flxi_kparser *p, step *next)
{
    size_t symbol;
    callee c;
    flxi_ktoken t = p->x.token;
    FLXI_TRY(flxi_kread_name(p, "a function", &symbol));
    const flxi_ksymbol *s = flxi_ksymbol_at(p, symbol);
    if (!s)
        return flxi_kfail_memory(p);
    if (!s->fn && t.kind == KT_NAME && find_op(t.s, t.n, true, &c))
        return open_builtin(p, &c, &t, next);
    if (!s->fn)
        flxi_kunknown_name(p, t.s, symbol, UNKNOWN_FUNCTION);
    flxi_kwaiting w = {.form = FORM_CALL, .kind = KX_CALL, .ref = s->fn, .args = "*", .at = t.s, .n = t.n};
    return open_call(p, w, next);
}

static flx_code close_call(flxi_kparser *p)
{
    flxi_kwaiting w = *last_waiting(p);
    size_t most = strlen(w.args);
    if (*w.args != '*' && w.num_args != most && !(w.num_args + 1 == most && w.args[most - 1] == 'o'))
        return fail_arguments(p, &w);
    flxi_knode node = {
        .kind = w.kind, .op = w.op, .order = w.order, .type = w.type, .ref = w.ref, .at = w.at, .n = w.n};
    flxi_knext(p);
    p->waiting.n--;
    return add_node(p, node, w.base);
}

/* ---- The two states: an operand must come; an operator may come ---- */

static bool is_typed_call(const flxi_kparser *p)
{
    return p->x.ahead.mark == FLXI_MARK('<', 0) &&
           (flxi_ktoken_is(&p->x.token, "cast") || flxi_ktoken_is(&p->x.token, "bitcast") ||
            flxi_ktoken_is(&p->x.token, "opaque"));
}

static flx_code read_operand(flxi_kparser *p, step *next)
{
    flxi_ktoken t = p->x.token;
    callee c;
    *next = HAVE_OPERAND;
    if (at_literal(&t))
        return read_literal(p, t.s, false);
    if (t.mark == FLXI_MARK('-', 0) && at_literal(&p->x.ahead)) {
        flxi_knext(p);
        return read_literal(p, t.s, true);
    }
    if (flxi_ktoken_is(&t, "true") || flxi_ktoken_is(&t, "false"))
        return read_bool(p);
    if (t.kind == KT_MARK) {
        uint8_t op = find_sign(flxi_kunaries, KUN_COUNT, &t);
        flxi_kwaiting w = {.form = op ? FORM_UNARY : FORM_PAREN, .kind = KX_UNARY, .op = op, .at = t.s, .n = t.n};
        w.strength = 11;
        if (!op && t.mark != FLXI_MARK('(', 0))
            return flxi_kexpected(p, "an expression");
        flxi_knext(p);
        *next = WANT_OPERAND;
        return push_waiting(p, w);
    }
    if (!flxi_kat_name(p))
        return flxi_kexpected(p, "an expression");
    if (p->b->rule.is_open && flxi_ktoken_is(&t, "adjoint") && p->x.ahead.mark == FLXI_MARK('(', 0))
        return read_adjoint(p);
    if (p->x.ahead.mark == FLXI_MARK('(', 0) || is_typed_call(p)) {
        if (t.kind != KT_NAME || !find_callee(t.s, t.n, &c))
            return open_function_call(p, next);
        flxi_knext(p);
        return open_builtin(p, &c, &t, next);
    }
    if (p->x.ahead.mark == FLXI_MARK('[', 0)) {
        *next = WANT_OPERAND;
        return open_index(p, FORM_INDEX);
    }
    return read_variable(p);
}

static flx_code close_paren(flxi_kparser *p)
{
    if (last_waiting(p)->form == FORM_CALL)
        return close_call(p);
    p->waiting.n--;
    flxi_knext(p);
    return FLX_OK;
}

static flx_code close_index(flxi_kparser *p)
{
    flxi_kwaiting w = *last_waiting(p);
    flxi_knext(p);
    p->waiting.n--;
    if (w.form == FORM_ELEMENT) { /* the index remains a separate value, for the atomic */
        last_waiting(p)->ref = w.ref;
        return FLX_OK;
    }
    return add_node(p, (flxi_knode){.kind = KX_LOAD, .ref = w.ref, .at = w.at, .n = w.n}, w.base);
}

/* What follows an operand or an argument. */
static flx_code read_operator(flxi_kparser *p, step *next)
{
    flxi_ktoken t = p->x.token;
    uint8_t op = *next == HAVE_OPERAND ? find_sign(flxi_kbinaries, KBIN_COUNT, &t) : 0;
    if (op) {
        flxi_kwaiting w = {.form = FORM_BINARY, .kind = KX_BINARY, .op = op, .at = t.s, .n = t.n};
        w.strength = flxi_kbinary_strength(op);
        FLXI_TRY(apply_operators(p, w.strength));
        flxi_knext(p);
        *next = WANT_OPERAND;
        return push_waiting(p, w);
    }
    FLXI_TRY(apply_operators(p, 0));
    const flxi_kwaiting *w = last_waiting(p);
    if (!w) {
        *next = HAVE_ALL;
        return FLX_OK;
    }
    bool index = w->form == FORM_INDEX || w->form == FORM_ELEMENT;
    if (!index && flxi_kis_mark(p, ')')) {
        *next = HAVE_OPERAND;
        return close_paren(p);
    }
    if (index && flxi_kis_mark(p, ']')) {
        *next = w->form == FORM_ELEMENT ? HAVE_ARGUMENT : HAVE_OPERAND;
        return close_index(p);
    }
    if (w->form == FORM_CALL && flxi_ktake_mark(p, ','))
        return begin_argument(p, next);
    return flxi_kexpected(p, index ? "']'" : w->form == FORM_CALL ? "',' or ')'" : "')'");
}

flx_code flxi_kparse_nodes(flxi_kparser *p)
{
    step next = WANT_OPERAND;
    p->nodes.n = p->kids.n = p->values.n = p->waiting.n = 0;
    while (next != HAVE_ALL)
        FLXI_TRY(next == WANT_OPERAND ? read_operand(p, &next) : read_operator(p, &next));
    return FLX_OK;
}

/* ---- Types: up from the leaves, then down to the soft ones ---- */

static const flxi_kop *op_of(const flxi_knode *node)
{
    return node->kind == KX_UNARY ? &flxi_kunaries[node->op] : &flxi_kbinaries[node->op];
}

uint32_t flxi_kx_peers(uint8_t kind, uint8_t op, uint32_t *first)
{
    *first = 0;
    switch ((flxi_kx_kind)kind) {
    case KX_UNARY:
    case KX_SUBGROUP_ADD:
    case KX_SUBGROUP_SHUFFLE: return 1;
    case KX_BINARY: return op == KBIN_logical_and || op == KBIN_logical_or ? 0 : 2;
    case KX_SELECT: *first = 1; return 2;
    case KX_FMA: return 3;
    default: return 0;
    }
}

/* The type of soft values where `demand` is wanted: reals never become integers, and nothing becomes a bool, so that
   validation can report what is wrong there. */
static uint8_t settle(uint8_t flags, uint8_t demand)
{
    uint8_t kind = flxi_ktype_of(demand)->kind;
    if (kind == TAKES_FLOAT || ((kind & TAKES_INT) && !(flags & NODE_REAL)))
        return demand;
    return flags & NODE_REAL ? FLX_F32 : FLX_U32;
}

static void join_peers(const flxi_kparser *p, flxi_knode *node)
{
    uint32_t first, n = flxi_kx_peers(node->kind, node->op, &first);
    bool soft = n > 0;
    for (uint32_t k = first; k < first + n; k++) {
        const flxi_knode *kid = &p->nodes.at[p->kids.at[node->kids + k]];
        if (!(kid->flags & NODE_SOFT) && soft) {
            soft = false;
            node->join = kid->type;
        }
        node->flags |= kid->flags & NODE_REAL;
    }
    if (soft)
        node->flags |= NODE_SOFT_PEERS;
}

static uint8_t element_type(const flxi_kparser *p, uint32_t buffer)
{
    return flxi_ktype_of(p->b->buffers.at[buffer].element)->value;
}

/* The type of a node whose peers are hard, or that has none. */
static uint8_t hard_type(const flxi_kparser *p, const flxi_knode *node)
{
    switch ((flxi_kx_kind)node->kind) {
    case KX_VAR: return p->b->vars.at[node->ref].type;
    case KX_LOAD:
    case KX_ATOMIC: return element_type(p, node->ref);
    case KX_LENGTH:
    case KX_ID:
    case KX_LANE:
    case KX_LANES:
    case KX_SUBGROUP_BALLOT: return FLX_U32;
    case KX_CALL: return p->b->fns.at[node->ref].type;
    case KX_UNARY: return (uint8_t)flxi_kop_type(op_of(node), node->join);
    case KX_BINARY:
        return op_of(node)->result == KRESULT_BOOL ? FLX_BOOL : (uint8_t)flxi_kop_type(op_of(node), node->join);
    case KX_SELECT:
    case KX_FMA:
    case KX_SUBGROUP_ADD:
    case KX_SUBGROUP_SHUFFLE: return node->join;
    default: return node->type; /* literals, casts and opaques carry their own */
    }
}

static void type_up(const flxi_kparser *p, flxi_knode *node)
{
    bool is_op = node->kind == KX_UNARY || node->kind == KX_BINARY;
    join_peers(p, node);
    if (node->kind == KX_LITERAL && node->type != FLX_BOOL) {
        node->type = node->number.type;
        node->flags = (uint8_t)((node->type ? 0 : NODE_SOFT) | (node->number.real ? NODE_REAL : 0));
        return;
    }
    if ((is_op && op_of(node)->kinds == TAKES_FLOAT) || node->kind == KX_FMA)
        node->flags |= NODE_REAL;
    if (!(node->flags & NODE_SOFT_PEERS)) {
        node->type = hard_type(p, node);
        node->flags = 0;
    } else if (is_op && op_of(node)->result == KRESULT_BOOL) {
        node->join = settle(node->flags, 0);
        node->type = FLX_BOOL;
        node->flags = NODE_SOFT_PEERS;
    } else if (is_op && op_of(node)->kinds == TAKES_WORD) {
        node->type = node->join = FLX_U32;
        node->flags = NODE_SOFT_PEERS;
    } else {
        node->flags |= NODE_SOFT;
    }
}

/* The type that the position of operand k demands, apart from its peers. */
static uint8_t demand_of(const flxi_kparser *p, const flxi_knode *node, uint32_t k)
{
    switch ((flxi_kx_kind)node->kind) {
    case KX_LOAD: return FLX_U32;
    case KX_ATOMIC: return k == 0 ? FLX_U32 : element_type(p, node->ref);
    case KX_SUBGROUP_SHUFFLE: return FLX_U32;
    case KX_CALL: {
        const flxi_kfn *fn = &p->b->fns.at[node->ref];
        return k < fn->num_params ? p->b->vars.at[fn->params[k]].type : 0;
    }
    default: return 0;
    }
}

static void type_down(const flxi_kparser *p, flxi_knode *node)
{
    uint32_t first, n = flxi_kx_peers(node->kind, node->op, &first);
    if (node->flags & NODE_SOFT)
        node->type = node->join = settle(node->flags, node->demand);
    for (uint32_t k = 0; k < node->num_kids; k++) {
        bool peer = k >= first && k < first + n;
        p->nodes.at[p->kids.at[node->kids + k]].demand = peer ? node->join : demand_of(p, node, k);
    }
}

/* ---- Building ---- */

static const char *range_hint(const flxi_knode *node)
{
    const flxi_ktype *t = flxi_ktype_of(node->type);
    if (node->number.exact)
        return "the bits of a NaN: exponent all ones, fraction not 0";
    if (t->kind == TAKES_FLOAT)
        return "inf is written inf; f64 reaches 1.8e308";
    if (node->number.negative && t->kind == TAKES_UNSIGNED)
        return "give it a signed type, as in -1i32; -(1) wraps";
    return "give it a wider type, as in 300u32";
}

static flx_code build_literal(flxi_kparser *p, flxi_knode *node)
{
    uint64_t bits = node->ref;
    char text[60];
    if (node->type == FLX_BOOL) {
        node->expr = flxi_kb_literal(p->b, FLX_BOOL, bits);
        return FLX_OK;
    }
    if (!flxi_knumber_bits(&node->number, node->type, &bits))
        return flxi_kfail_at(p, node->at, range_hint(node), "%s does not fit %s",
                             flxi_printable(text, sizeof text, node->at, node->n), flxi_ktype_of(node->type)->name);
    node->expr = flxi_kb_literal(p->b, node->type, bits);
    return FLX_OK;
}

/* `args` are the operands' expressions, in the order of the text. */
static uint32_t build_node(flxi_kparser *p, const flxi_knode *node, const uint32_t *args)
{
    flxi_kb *b = p->b;
    switch ((flxi_kx_kind)node->kind) {
    case KX_VAR: return flxi_kb_var(b, node->ref);
    case KX_LOAD: return flxi_kb_load(b, node->ref, args[0]);
    case KX_LENGTH: return flxi_kb_length(b, node->ref);
    case KX_ID: return flxi_kb_id(b, (flx_kernel_id)node->op, node->ref);
    case KX_LANE: return flxi_kb_lane(b);
    case KX_LANES: return flxi_kb_lanes(b);
    case KX_UNARY: return flxi_kb_unary(b, (flxi_kunary)node->op, args[0]);
    case KX_BINARY: return flxi_kb_binary(b, (flxi_kbinary)node->op, args[0], args[1]);
    case KX_SELECT: return flxi_kb_select(b, args[0], args[1], args[2]);
    case KX_FMA: return flxi_kb_fma(b, args[0], args[1], args[2]);
    case KX_CAST: return flxi_kb_cast(b, node->type, args[0]);
    case KX_BITCAST: return flxi_kb_bitcast(b, node->type, args[0]);
    case KX_CALL: return flxi_kb_call(b, node->ref, args, node->num_kids);
    case KX_ATOMIC: {
        bool swaps = node->op == FLX_KERNEL_ATOMIC_COMPARE_EXCHANGE;
        return flxi_kb_atomic(b, (flx_kernel_atomic)node->op, node->ref, args[0], args[swaps ? 2 : 1],
                              swaps ? args[1] : 0, (flx_kernel_order)node->order);
    }
    case KX_SUBGROUP_ADD: return flxi_kb_subgroup_add(b, args[0]);
    case KX_SUBGROUP_SHUFFLE: return flxi_kb_subgroup_shuffle(b, args[0], args[1]);
    case KX_SUBGROUP_BALLOT: return flxi_kb_subgroup_ballot(b, args[0]);
    case KX_OPAQUE: return flxi_kb_opaque(b, node->ref, args, node->num_kids);
    default: return 0;
    }
}

/* Types and builds the first n nodes. */
static flx_code build(flxi_kparser *p, size_t n, uint32_t demand)
{
    for (size_t i = 0; i < p->nodes.n; i++)
        type_up(p, &p->nodes.at[i]);
    p->nodes.at[p->nodes.n - 1].demand = (uint8_t)demand;
    for (size_t i = p->nodes.n; i-- > 0;)
        type_down(p, &p->nodes.at[i]);
    for (size_t i = 0; i < n; i++) {
        flxi_knode *node = &p->nodes.at[i];
        uint32_t *args = node->num_kids ? &p->kids.at[node->kids] : NULL;
        for (uint32_t k = 0; k < node->num_kids; k++)
            args[k] = p->nodes.at[args[k]].expr;
        if (node->kind == KX_LITERAL)
            FLXI_TRY(build_literal(p, node));
        else
            node->expr = build_node(p, node, args);
        FLXI_TRY(flxi_kcheck_builder(p, node->at));
    }
    return FLX_OK;
}

bool flxi_knodes_are_load(const flxi_kparser *p)
{
    return p->nodes.at[p->nodes.n - 1].kind == KX_LOAD;
}

flx_code flxi_kbuild_target(flxi_kparser *p, uint32_t *buffer, uint32_t *index)
{
    size_t root = p->nodes.n - 1;
    uint32_t kid = p->kids.at[p->nodes.at[root].kids];
    FLXI_TRY(build(p, root, 0));
    *buffer = p->nodes.at[root].ref;
    *index = p->nodes.at[kid].expr;
    return FLX_OK;
}

flx_code flxi_kbuild_nodes(flxi_kparser *p, uint32_t demand, uint32_t *out)
{
    FLXI_TRY(build(p, p->nodes.n, demand));
    *out = p->nodes.at[p->nodes.n - 1].expr;
    return FLX_OK;
}

flx_code flxi_kparse_expr(flxi_kparser *p, uint32_t demand, uint32_t *out)
{
    FLXI_TRY(flxi_kparse_nodes(p));
    return flxi_kbuild_nodes(p, demand, out);
}
