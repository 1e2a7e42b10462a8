/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_region_rule.c: regions with their own derivative, which the builder expresses with functions.

   For variables v from outside, the rule gives the value added to the adjoint that v has before the region, computed
   from values and adjoints that variables have after it:

       region r { …A… } adjoint { adjoint(v) += e(adjoint(y), y, w); }

   For each float variable y that A assigns, a function is declared that returns its last argument unchanged, and whose
   derivative with respect to v is the part of e that belongs to adjoint(y). A works on a copy of y, and the region ends
   with y = r_y(v, …, stop_gradient(copy)): the value is that computed by A, the derivative is the function's, nothing
   in A carries one, and both modes, repeated differentiation, text, bytes and passes only need to support functions.
   The part of e is found exactly, by leaving out terms that have the other adjoints as factors: a zero in their place
   could meet an infinity.

   Where the rule of one variable uses the value of another variable that the region assigns, that value comes from the
   other's function too, so that second derivatives see how it depends on v. */
#include "kernel/derive/kernel_rules.h"

#include <stdio.h>

/* Denotes nothing: the value of a term with a missing adjoint as a factor. */
#define NOTHING UINT32_MAX

typedef struct {
    uint32_t var;   /* of the kernel */
    bool is_entry;  /* its value before the region, else after it */
    uint32_t param; /* of the function being declared */
} input;

typedef struct {
    flxi_kb *b;
    const flxi_kframe *region; /* valid until a function is declared */
    const char *name;
    flxi_arena arena;
    uint8_t *is_outer;    /* by variable: visible before the region … */
    uint8_t *is_result;   /* … and a float that the region assigns */
    uint8_t *is_target;   /* of the current function: the rule adds to its adjoint … */
    uint8_t *is_read;     /* … or uses its value */
    uint8_t *is_crossing; /* the function of another result uses its value */
    uint32_t *bar;        /* by variable: the variable that denotes its adjoint in the rule, or 0 */
    uint32_t *work, *raw,
        *early;        /* by variable: its copy in the region, and others that hold its value after it, without
                          derivative and with the rule's; or 0 */
    uint32_t *renamed; /* by expression: the same expression of copies, or 0 */
    uint32_t *fn;      /* by variable: its function, or 0 */
    uint32_t num_vars;
    input *inputs; /* of the current function */
    size_t num_inputs;
    uint32_t *parts;   /* by term: the part that belongs to the current function, or NOTHING */
    uint32_t *meaning; /* by variable: the expression that replaces it in the function, or 0 */
} rule;

/* ---- Calls of the builder ---- */

static bool refuse(flxi_kb *b, const char *hint, const char *what, const char *name)
{
    if (flxi_kb_ok(b))
        flxi_kernel_fail(&b->err, "K64", hint, "region '%.60s': %s%s%.60s%s", b->frames.at[b->frames.n - 1].head.text,
                         what, *name ? " '" : "", name, *name ? "'" : "");
    return false;
}

void flxi_kb_rule(flxi_kb *b)
{
    if (!flxi_kb_ok(b))
        return;
    flxi_kframe *f = &b->frames.at[b->frames.n - 1];
    bool in_function = false;
    for (size_t i = 0; i < b->frames.n; i++)
        in_function |= b->frames.at[i].function != 0;
    if (f->head.kind != KS_REGION || b->rule.is_open) {
        flxi_fail(&b->err, FLX_E_USAGE, "an adjoint must be inside an open region");
        return;
    }
    if (in_function)
        refuse(b, "give the function an adjoint", "a region of a function has no adjoint", "");
    if (f->head.flags & FLX_KERNEL_REGION_STOP_GRADIENT)
        refuse(b, "remove one of them", "it is stop_gradient and has an adjoint", "");
    b->visible.n = f->scope;
    b->rule.is_open = true;
    b->rule.terms.n = b->rule.bars.n = 0;
}

static bool is_float_var(const flxi_kb *b, uint32_t var)
{
    return var < b->vars.n && flxi_ktype_is_float(b->vars.at[var].type);
}

uint32_t flxi_kb_rule_bar(flxi_kb *b, uint32_t var)
{
    if (!flxi_kb_ok(b))
        return 0;
    if (!b->rule.is_open) {
        flxi_fail(&b->err, FLX_E_USAGE, "adjoints of variables are allowed only in the adjoint of a region");
        return 0;
    }
    if (!is_float_var(b, var))
        return refuse(b, "only floats have adjoints", "there is no adjoint of",
                      b->vars.at[var < b->vars.n ? var : 0].name);
    for (size_t i = 0; i < b->rule.bars.n; i++)
        if (b->rule.bars.at[i].var == var)
            return b->rule.bars.at[i].value;
    flxi_kvar v = {b->vars.at[var].name, (uint8_t)flxi_kernel_adjoint_type(b->vars.at[var].type), KVAR_LET};
    uint32_t bar = (uint32_t)b->vars.n;
    if (!flxi_push(b->mem, &b->vars, v) || !flxi_push(b->mem, &b->rule.bars, ((flxi_kterm){var, bar}))) {
        flxi_oom(&b->err, "a kernel");
        return 0;
    }
    return bar;
}

void flxi_kb_rule_term(flxi_kb *b, uint32_t var, uint32_t value)
{
    if (!flxi_kb_ok(b))
        return;
    if (!b->rule.is_open)
        flxi_fail(&b->err, FLX_E_USAGE, "only the adjoint of a region may add to adjoints of variables");
    else if (!is_float_var(b, var) || b->vars.at[var].kind == KVAR_LOOP)
        refuse(b, "only floats have adjoints", "there is no adjoint of", b->vars.at[var < b->vars.n ? var : 0].name);
    else if (flxi_kb_type(b, value) != flxi_kernel_adjoint_type(b->vars.at[var].type))
        refuse(b, "adjoints are f64 for f64, else f32: cast the value",
               "a value of another type is added to the adjoint of", b->vars.at[var].name);
    else if ((b->nodes += flxi_kb_expr(b, value)->size) > FLXI_KERNEL_MAX_NODES)
        flxi_kernel_fail(&b->err, "K72", "use functions", "the number of nodes exceeds the limit of %d",
                         FLXI_KERNEL_MAX_NODES);
    else if (!flxi_push(b->mem, &b->rule.terms, ((flxi_kterm){var, value})))
        flxi_oom(&b->err, "a kernel");
}

/* ---- Analysis ---- */

static void fail_memory(rule *r)
{
    if (flxi_kb_ok(r->b))
        flxi_oom(&r->b->err, "a kernel");
}

static bool make_room(rule *r)
{
    size_t n = r->num_vars = (uint32_t)r->b->vars.n;
    flxi_arena *a = &r->arena;
    r->is_outer = flxi_new(a, uint8_t, n);
    r->is_result = flxi_new(a, uint8_t, n);
    r->is_target = flxi_new(a, uint8_t, n);
    r->is_read = flxi_new(a, uint8_t, n);
    r->is_crossing = flxi_new(a, uint8_t, n);
    r->parts = flxi_new(a, uint32_t, r->b->rule.terms.n);
    r->bar = flxi_new(a, uint32_t, n);
    r->work = flxi_new(a, uint32_t, n);
    r->renamed = flxi_new(a, uint32_t, r->b->exprs.n);
    r->raw = flxi_new(a, uint32_t, n);
    r->early = flxi_new(a, uint32_t, n);
    r->fn = flxi_new(a, uint32_t, n);
    r->meaning = flxi_new(a, uint32_t, n);
    r->inputs = flxi_new(a, input, 2 * n);
    if (r->is_outer && r->is_result && r->is_target && r->is_read && r->is_crossing && r->parts && r->bar && r->work &&
        r->renamed && r->raw && r->early && r->fn && r->meaning && r->inputs)
        return true;
    fail_memory(r);
    return false;
}

static void find_results(rule *r, const flxi_ks *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (list[i].kind == KS_ASSIGN && r->is_outer[list[i].var] && is_float_var(r->b, list[i].var))
            r->is_result[list[i].var] = 1;
        find_results(r, list[i].body.at, list[i].body.n);
        find_results(r, list[i].other.at, list[i].other.n);
    }
}

/* Whether an adjoint is among the variables of an expression, which may contain nothing but variables. */
static bool has_adjoint(rule *r, uint32_t expr)
{
    static const char *const uses[KX_KIND_COUNT] = {
        [KX_LOAD] = "its adjoint loads from a buffer",
        [KX_LENGTH] = "its adjoint uses the length of a buffer",
        [KX_ID] = "its adjoint uses an id",
        [KX_LANE] = "its adjoint uses the lane",
        [KX_LANES] = "its adjoint uses the subgroup size",
        [KX_ATOMIC] = "its adjoint has an atomic",
        [KX_SUBGROUP_ADD] = "its adjoint has a subgroup op",
        [KX_SUBGROUP_SHUFFLE] = "its adjoint has a subgroup op",
        [KX_SUBGROUP_BALLOT] = "its adjoint has a subgroup op",
    };
    const flxi_kx *e = flxi_kb_expr(r->b, expr);
    bool has = false;
    if (uses[e->kind])
        return refuse(r->b, "bind it with let before the region", uses[e->kind], "");
    for (size_t i = 0; e->kind == KX_VAR && i < r->b->rule.bars.n; i++)
        has |= r->b->rule.bars.at[i].value == e->ref;
    for (int i = flxi_kx_operands(e); i-- > 0;)
        has |= has_adjoint(r, e->x[i]);
    for (size_t i = 0; i < e->num_args; i++)
        has |= has_adjoint(r, e->args[i]);
    return has;
}

static bool find_facts(rule *r)
{
    flxi_kb *b = r->b;
    for (size_t i = 0; i < r->region->scope; i++)
        r->is_outer[b->visible.at[i]] = 1;
    find_results(r, r->region->list.at, r->region->list.n);
    for (size_t i = 0; i < b->rule.bars.n && flxi_kb_ok(b); i++) {
        uint32_t var = b->rule.bars.at[i].var;
        r->bar[var] = b->rule.bars.at[i].value;
        if (!r->is_result[var])
            refuse(b, "only variables that the region assigns have an adjoint after it", "it does not assign",
                   b->vars.at[var].name);
    }
    for (size_t i = 0; i < b->rule.terms.n && flxi_kb_ok(b); i++) {
        uint32_t var = b->rule.terms.at[i].var;
        if (!r->is_outer[var])
            refuse(b, "declare it before the region", "its adjoint adds to that of the inner variable",
                   b->vars.at[var].name);
        else if (!has_adjoint(r, b->rule.terms.at[i].value) && flxi_kb_ok(b))
            refuse(b, "multiply by adjoint(y), where the region assigns y",
                   "no adjoint is a factor of the value added to the adjoint of", b->vars.at[var].name);
    }
    return flxi_kb_ok(b);
}

/* ---- The part of a value that belongs to one adjoint ---- */

static uint32_t part_of(rule *r, uint32_t expr);

/* Zero in place of nothing, where a value is required. */
static uint32_t or_zero(rule *r, uint32_t part, uint32_t expr)
{
    return part == NOTHING ? flxi_kb_literal(r->b, flxi_kb_type(r->b, expr), 0) : part;
}

static uint32_t part_of_binary(rule *r, const flxi_kx *e, const uint32_t x[3])
{
    bool is_first = x[0] != NOTHING, is_second = x[1] != NOTHING;
    if (e->op == KBIN_mul || e->op == KBIN_div)
        return is_first && is_second ? flxi_kb_binary(r->b, (flxi_kbinary)e->op, x[0], x[1]) : NOTHING;
    if (e->op == KBIN_add || e->op == KBIN_sub) {
        if (is_first && is_second)
            return flxi_kb_binary(r->b, (flxi_kbinary)e->op, x[0], x[1]);
        if (is_first || !is_second)
            return x[0];
        return e->op == KBIN_add ? x[1] : flxi_kb_unary(r->b, KUN_neg, x[1]);
    }
    return flxi_kb_binary(r->b, (flxi_kbinary)e->op, or_zero(r, x[0], e->x[0]), or_zero(r, x[1], e->x[1]));
}

static uint32_t part_of_fma(rule *r, const flxi_kx *e, const uint32_t x[3])
{
    (void)e;
    if (x[0] == NOTHING || x[1] == NOTHING)
        return x[2];
    return x[2] == NOTHING ? flxi_kb_binary(r->b, KBIN_mul, x[0], x[1]) : flxi_kb_fma(r->b, x[0], x[1], x[2]);
}

static uint32_t part_of_call(rule *r, const flxi_kx *e)
{
    uint32_t *args = flxi_new(&r->arena, uint32_t, e->num_args);
    if (!args) {
        fail_memory(r);
        return 0;
    }
    for (size_t i = 0; i < e->num_args; i++)
        args[i] = or_zero(r, part_of(r, e->args[i]), e->args[i]);
    return flxi_kb_rebuild(r->b, e, NULL, args);
}

static uint32_t part_of(rule *r, uint32_t expr)
{
    flxi_kx e = *flxi_kb_expr(r->b, expr); /* they move when the builder grows */
    uint32_t x[3] = {0};
    if (!flxi_kb_ok(r->b))
        return 0;
    if (e.kind == KX_VAR)
        return r->meaning[e.ref];
    if (e.kind == KX_CALL || e.kind == KX_OPAQUE)
        return part_of_call(r, &e);
    int n = flxi_kx_operands(&e);
    for (int i = 0; i < n; i++)
        x[i] = part_of(r, e.x[i]);
    if (e.kind == KX_BINARY)
        return part_of_binary(r, &e, x);
    if (e.kind == KX_FMA)
        return part_of_fma(r, &e, x);
    bool is_linear = e.kind == KX_CAST || (e.kind == KX_UNARY && e.op == KUN_neg);
    if ((is_linear && x[0] == NOTHING) || (e.kind == KX_SELECT && x[1] == NOTHING && x[2] == NOTHING))
        return NOTHING;
    for (int i = 0; i < n; i++)
        x[i] = or_zero(r, x[i], e.x[i]);
    return flxi_kb_rebuild(r->b, &e, x, NULL);
}

/* ---- Functions ---- */

static void mark_read(rule *r, uint32_t expr)
{
    const flxi_kx *e = flxi_kb_expr(r->b, expr);
    if (e->kind == KX_VAR)
        r->is_read[e->ref] = 1;
    for (int i = flxi_kx_operands(e); i-- > 0;)
        mark_read(r, e->x[i]);
    for (size_t i = 0; i < e->num_args; i++)
        mark_read(r, e->args[i]);
}

/* The part of the rule that belongs to y, still in variables of the kernel. */
static void find_parts(rule *r, uint32_t y)
{
    flxi_kb *b = r->b;
    for (uint32_t v = 1; v < r->num_vars; v++) {
        r->is_read[v] = r->is_target[v] = 0;
        r->meaning[v] = flxi_kb_var(b, v);
    }
    for (size_t i = 0; i < b->rule.bars.n; i++)
        if (b->rule.bars.at[i].var != y)
            r->meaning[b->rule.bars.at[i].value] = NOTHING;
    for (size_t i = 0; i < b->rule.terms.n && flxi_kb_ok(b); i++) {
        r->parts[i] = part_of(r, b->rule.terms.at[i].value);
        if (r->parts[i] == NOTHING)
            continue;
        r->is_target[b->rule.terms.at[i].var] = 1;
        mark_read(r, r->parts[i]);
    }
    r->is_read[r->bar[y]] = 0;
}

/* The inputs of the function of y other than y: values, and variables whose adjoints its rule adds to. */
static void find_inputs(rule *r, uint32_t y)
{
    find_parts(r, y);
    r->num_inputs = 0;
    for (uint32_t v = 1; v < r->num_vars; v++) {
        bool is_value = r->is_result[v] ? r->is_read[v] && v != y : r->is_read[v] || r->is_target[v];
        if (is_value)
            r->inputs[r->num_inputs++] = (input){.var = v};
        if (r->is_result[v] && r->is_target[v])
            r->inputs[r->num_inputs++] = (input){.var = v, .is_entry = true};
    }
}

/* Parameters of the open function, then the value that it returns. */
static uint32_t declare_params(rule *r, uint32_t y)
{
    flxi_kb *b = r->b;
    for (size_t i = 0; i < r->num_inputs; i++) {
        input *in = &r->inputs[i];
        in->param = flxi_kb_param(b, flxi_kb_fresh_name(b, b->vars.at[in->var].name), b->vars.at[in->var].type);
    }
    return flxi_kb_param(b, flxi_kb_fresh_name(b, b->vars.at[y].name), b->vars.at[y].type);
}

static bool carries(const rule *r, const input *in)
{
    bool is_target = r->is_target[in->var] && (in->is_entry || !r->is_result[in->var]);
    return is_target || (r->is_result[in->var] && !in->is_entry);
}

/* The sum of the terms added to the adjoint of input `in`. */
static uint32_t sum_of_terms(rule *r, const input *in, uint32_t type)
{
    flxi_kb *b = r->b;
    uint32_t sum = NOTHING;
    bool is_added = r->is_target[in->var] && (in->is_entry || !r->is_result[in->var]);
    for (size_t i = 0; is_added && i < b->rule.terms.n && flxi_kb_ok(b); i++) {
        if (b->rule.terms.at[i].var != in->var || r->parts[i] == NOTHING)
            continue;
        uint32_t part = part_of(r, r->parts[i]);
        sum = sum == NOTHING ? part : flxi_kb_binary(b, KBIN_add, sum, part);
    }
    return sum == NOTHING ? flxi_kb_literal(b, type, 0) : sum;
}

static void declare_derivative(rule *r, uint32_t y, size_t number)
{
    flxi_kb *b = r->b;
    const input *by = &r->inputs[number];
    uint32_t type = flxi_kernel_adjoint_type(b->vars.at[by->var].type);
    uint32_t of = r->fn[y];
    flxi_kb_inner_function(b, "", type);
    flxi_kb_adjoint_of(b, of, (uint32_t)number);
    declare_params(r, y);
    uint32_t z = flxi_kb_param(b, flxi_kb_fresh_name(b, "z"), b->vars.at[y].type);
    uint32_t g = flxi_kb_param(b, flxi_kb_fresh_name(b, "g"), flxi_kernel_adjoint_type(b->vars.at[y].type));
    for (size_t i = 0; i < r->num_inputs; i++)
        if (!r->inputs[i].is_entry)
            r->meaning[r->inputs[i].var] = flxi_kb_var(b, r->inputs[i].param);
    r->meaning[y] = flxi_kb_var(b, z);
    r->meaning[r->bar[y]] = flxi_kb_var(b, g);
    flxi_kb_result(b, sum_of_terms(r, by, type));
}

static void declare_function(rule *r, uint32_t y)
{
    flxi_kb *b = r->b;
    char name[200];
    snprintf(name, sizeof name, "%.90s_%.90s", r->name, b->vars.at[y].name);
    find_inputs(r, y);
    for (size_t i = 0; i < r->num_inputs; i++)
        if (!r->inputs[i].is_entry)
            r->is_crossing[r->inputs[i].var] = r->is_result[r->inputs[i].var];
    r->fn[y] = flxi_kb_inner_function(b, flxi_kb_fresh_name(b, name), b->vars.at[y].type);
    flxi_kb_result(b, flxi_kb_var(b, declare_params(r, y)));
    for (size_t i = 0; i < r->num_inputs && flxi_kb_ok(b); i++)
        if (carries(r, &r->inputs[i]))
            declare_derivative(r, y, i);
}

/* ---- Copies of what the region assigns ---- */

static uint32_t rename_expr(rule *r, uint32_t expr)
{
    flxi_kb *b = r->b;
    flxi_kx e = *flxi_kb_expr(b, expr);
    uint32_t x[3] = {0};
    if (!(e.does & KX_VARIES) || !flxi_kb_ok(b))
        return expr;
    if (e.kind == KX_VAR)
        return r->work[e.ref] ? flxi_kb_var(b, r->work[e.ref]) : expr;
    if (r->renamed[expr])
        return r->renamed[expr];
    uint32_t *args = flxi_new(&r->arena, uint32_t, e.num_args);
    if (!args) {
        fail_memory(r);
        return expr;
    }
    for (int i = 0; i < flxi_kx_operands(&e); i++)
        x[i] = rename_expr(r, e.x[i]);
    for (size_t i = 0; i < e.num_args; i++)
        args[i] = rename_expr(r, e.args[i]);
    return r->renamed[expr] = flxi_kb_rebuild(b, &e, x, args);
}

static void rename_statements(rule *r, flxi_ks *list, size_t n);

static flxi_klist rename_list(rule *r, flxi_klist list)
{
    flxi_ks *copy = flxi_dup(&r->b->k->arena, flxi_ks, list.at, list.n);
    if (!copy)
        fail_memory(r);
    else
        rename_statements(r, copy, list.n);
    return copy ? (flxi_klist){copy, list.n} : list;
}

static void rename_statements(rule *r, flxi_ks *list, size_t n)
{
    for (size_t i = 0; i < n && flxi_kb_ok(r->b); i++) {
        flxi_ks *s = &list[i];
        if (s->kind == KS_ASSIGN && s->var < r->num_vars && r->work[s->var])
            s->var = r->work[s->var];
        s->a = rename_expr(r, s->a);
        s->b = rename_expr(r, s->b);
        s->body = s->body.n ? rename_list(r, s->body) : s->body;
        s->other = s->other.n ? rename_list(r, s->other) : s->other;
    }
}

static uint32_t keep_value(rule *r, uint32_t var, const char *suffix, uint32_t value)
{
    char name[200];
    snprintf(name, sizeof name, "%.100s_%s", r->b->vars.at[var].name, suffix);
    return flxi_kb_let(r->b, flxi_kb_fresh_name(r->b, name), value);
}

/* The region begins with its copies, and its statements use them. */
static void make_copies(rule *r)
{
    flxi_kb *b = r->b;
    size_t n = b->frames.at[b->frames.n - 1].list.n, num_copies = 0;
    for (uint32_t v = 1; v < r->num_vars && flxi_kb_ok(b); v++)
        if (r->is_result[v]) {
            r->work[v] = keep_value(r, v, "work", flxi_kb_var(b, v));
            num_copies++;
        }
    flxi_kframe *f = &b->frames.at[b->frames.n - 1];
    if (f->list.n == 0) /* an empty region: there may be no list */
        return;
    flxi_ks *copies = flxi_kb_ok(b) ? flxi_dup(&r->arena, flxi_ks, f->list.at + n, num_copies) : NULL;
    if (!copies) {
        fail_memory(r);
        return;
    }
    rename_statements(r, f->list.at, n);
    memmove(f->list.at + num_copies, f->list.at, n * sizeof *f->list.at);
    memcpy(f->list.at, copies, num_copies * sizeof *f->list.at);
}

/* ---- The end of the region ---- */

static uint32_t stopped(rule *r, uint32_t var)
{
    uint32_t value = flxi_kb_var(r->b, var);
    return is_float_var(r->b, var) ? flxi_kb_unary(r->b, KUN_stop_gradient, value) : value;
}

/* y with the rule's derivative. */
static uint32_t call_function(rule *r, uint32_t y, bool is_early)
{
    flxi_kb *b = r->b;
    find_inputs(r, y);
    uint32_t *args = flxi_new(&r->arena, uint32_t, r->num_inputs + 1);
    if (!args) {
        fail_memory(r);
        return 0;
    }
    for (size_t i = 0; i < r->num_inputs; i++) {
        uint32_t v = r->inputs[i].var;
        if (r->inputs[i].is_entry)
            args[i] = flxi_kb_var(b, v); /* it is assigned after all calls */
        else if (r->is_result[v])
            args[i] = flxi_kb_var(b, is_early || !r->early[v] ? r->raw[v] : r->early[v]);
        else
            args[i] = r->is_target[v] ? flxi_kb_var(b, v) : stopped(r, v);
    }
    args[r->num_inputs] = flxi_kb_var(b, r->raw[y]);
    return flxi_kb_call(b, r->fn[y], args, r->num_inputs + 1);
}

static void end_region(rule *r)
{
    flxi_kb *b = r->b;
    for (uint32_t v = 1; v < r->num_vars && flxi_kb_ok(b); v++)
        if (r->is_result[v])
            r->raw[v] = keep_value(r, v, "raw", stopped(r, r->work[v]));
    for (uint32_t v = 1; v < r->num_vars && flxi_kb_ok(b); v++)
        if (r->is_crossing[v] && r->fn[v])
            r->early[v] = keep_value(r, v, "early", call_function(r, v, true));
    for (uint32_t v = 1; v < r->num_vars && flxi_kb_ok(b); v++)
        if (r->fn[v])
            r->raw[v] = keep_value(r, v, "ruled", call_function(r, v, false));
    for (uint32_t v = 1; v < r->num_vars && flxi_kb_ok(b); v++)
        if (r->is_result[v])
            flxi_kb_assign(b, v, flxi_kb_var(b, r->raw[v]));
}

void flxi_kb_end_rule(flxi_kb *b)
{
    if (!flxi_kb_ok(b) || !b->rule.is_open)
        return;
    rule r = {.b = b, .region = &b->frames.at[b->frames.n - 1]};
    r.name = r.region->head.text;
    flxi_arena_init(&r.arena, b->mem);
    if (make_room(&r) && find_facts(&r)) {
        b->rule.is_open = false;
        for (uint32_t v = 1; v < r.num_vars && flxi_kb_ok(b); v++)
            if (r.is_result[v] && r.bar[v])
                declare_function(&r, v);
        if (flxi_kb_ok(b))
            make_copies(&r);
        if (flxi_kb_ok(b))
            end_region(&r);
    }
    b->rule.is_open = false;
    flxi_arena_free(&r.arena);
}
