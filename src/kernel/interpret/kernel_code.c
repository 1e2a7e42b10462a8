/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_code.c: see kernel_code.h. One walk over the program; expressions become instructions in order of evaluation:
   operands are evaluated left to right, all of them.

   Registers form a stack: a variable takes the next one until its scope ends, temporaries are above and end with their
   statement. An operand that is a variable, literal or id costs no instruction: its register is used directly, which is
   correct because nothing inside an expression assigns variables. */
#include "kernel/interpret/kernel_code.h"

/* Inlined calls can make a small program large. */
static const size_t max_instrs = 4000000;

typedef struct {
    flxi_kcode *code;
    const flx_kernel *k;
    const flxi_kdispatch *d;
    const flxi_allocator *mem;
    unsigned flags;
    uint32_t *fixed;   /* by expression: 1 + register of a literal or another constant; 0: none */
    uint32_t *var_reg; /* by variable */
    flxi_index tags;   /* from a tag's hash to copies */
    uint32_t next_copy;
    uint32_t next_number; /* of statements, in the order of the text */
    uint32_t statement;   /* the statement being translated */
    uint32_t in_function; /* depth of inlined calls */
    uint32_t loop;        /* the innermost one */
    uint32_t top;         /* first free register */
    uint32_t cost;
    flx_error *err;
    flx_code failed;
} coder;

static void fail_memory(coder *c)
{
    if (c->failed == FLX_OK)
        c->failed = flxi_oom(c->err, "the code of a kernel");
}

/* The number of the instruction. */
static uint32_t append(coder *c, flxi_kinstr i)
{
    flxi_kcode *code = c->code;
    if (c->failed != FLX_OK)
        return 0;
    if (code->instrs.n >= max_instrs) {
        c->failed = flxi_kernel_fail(c->err, "K72", "call fewer functions from functions, or bind values with let",
                                     "kernel '%.60s': inlining its calls makes more than %zu instructions", c->k->name,
                                     max_instrs);
        return 0;
    }
    i.cost = (uint16_t)(c->cost < UINT16_MAX ? c->cost : UINT16_MAX);
    c->cost -= i.cost;
    i.statement = c->statement;
    if (!flxi_push(c->mem, &code->instrs, i))
        fail_memory(c);
    return (uint32_t)code->instrs.n - 1;
}

static uint32_t here(const coder *c)
{
    return (uint32_t)c->code->instrs.n;
}

/* Makes the jump at instruction `at` lead here. */
static void land(coder *c, uint32_t at)
{
    if (c->failed == FLX_OK)
        c->code->instrs.at[at].d = here(c);
}

static uint32_t take(coder *c, uint32_t count)
{
    uint32_t reg = c->top;
    c->top += count;
    if (c->top > c->code->num_registers)
        c->code->num_registers = c->top;
    return reg;
}

bool flxi_kcode_is_watched(const flxi_kbuffer *b)
{
    if (b->access == FLX_KERNEL_PRIVATE)
        return false;
    return (b->access != FLX_KERNEL_READ && b->access != FLX_KERNEL_UNIFORM) || (b->flags & FLX_KERNEL_EXCLUSIVE);
}

static bool is_watched(const coder *c, uint32_t buffer)
{
    return (c->flags & KCODE_WATCHED) && flxi_kcode_is_watched(&c->k->buffers[buffer]);
}

/* ---- Expressions ---- */

static void translate(coder *c, uint32_t e, uint32_t to);
static void translate_statement(coder *c, const flxi_ks *s);
static void translate_list(coder *c, flxi_klist list);

static uint32_t id_register(const flxi_kx *e)
{
    switch (e->op) {
    case FLX_KERNEL_INVOCATION_ID: return KREG_INVOCATION + e->ref;
    case FLX_KERNEL_WORKGROUP_ID: return KREG_WORKGROUP + e->ref;
    default: return KREG_LOCAL + e->ref;
    }
}

/* The register that holds e without an instruction, if there is one. */
static bool is_held(const coder *c, uint32_t e, uint32_t *reg)
{
    const flxi_kx *x = &c->k->exprs[e];
    if (c->fixed[e])
        *reg = c->fixed[e] - 1;
    else if (x->kind == KX_VAR)
        *reg = c->var_reg[x->ref];
    else if (x->kind == KX_ID)
        *reg = id_register(x);
    else if (x->kind == KX_LANE)
        *reg = KREG_LANE;
    else
        return false;
    return true;
}

/* A register that holds e from now on. */
static uint32_t operand(coder *c, uint32_t e)
{
    uint32_t reg;
    if (is_held(c, e, &reg)) {
        c->cost++;
        return reg;
    }
    reg = take(c, 1);
    translate(c, e, reg);
    return reg;
}

static uint8_t type_of(const coder *c, uint32_t e)
{
    return c->k->exprs[e].type;
}

/* The arguments are evaluated before any parameter gets its register: one of them may call the same function. */
static void translate_call(coder *c, const flxi_kx *e, uint32_t to)
{
    const flxi_kfn *fn = &c->k->fns[e->ref];
    uint32_t first = take(c, e->num_args);
    for (uint32_t i = 0; i < e->num_args; i++) {
        uint32_t mark = c->top;
        translate(c, e->args[i], first + i);
        c->top = mark;
    }
    for (uint32_t i = 0; i < e->num_args && i < fn->num_params; i++)
        c->var_reg[fn->params[i]] = first + i;
    c->in_function++;
    for (size_t i = 0; i < fn->body.n && c->failed == FLX_OK; i++)
        translate_statement(c, &fn->body.at[i]);
    translate(c, fn->result, to);
    c->in_function--;
}

static void translate_atomic(coder *c, const flxi_kx *e, uint32_t to)
{
    flxi_kinstr i = {.code = is_watched(c, e->ref) ? KI_WATCHED_ATOMIC : KI_ATOMIC,
                     .op = e->op,
                     .type = e->type,
                     .element = c->k->buffers[e->ref].element,
                     .to = to,
                     .d = e->ref};
    i.a = operand(c, e->x[0]);
    if (e->x[2])
        i.c = operand(c, e->x[2]);
    i.b = operand(c, e->x[1]);
    append(c, i);
}

static void translate_subgroup(coder *c, const flxi_kx *e, uint32_t to)
{
    flxi_kinstr i = {.code = KI_SUBGROUP_ADD, .type = e->type, .to = to, .c = c->loop};
    if (e->kind == KX_SUBGROUP_SHUFFLE)
        i.code = KI_SUBGROUP_SHUFFLE;
    else if (e->kind == KX_SUBGROUP_BALLOT)
        i.code = KI_SUBGROUP_BALLOT;
    i.a = operand(c, e->x[0]);
    if (e->kind == KX_SUBGROUP_SHUFFLE)
        i.b = operand(c, e->x[1]);
    c->code->has_subgroup = true;
    append(c, i);
}

static void translate_opaque(coder *c, uint32_t opaque, uint32_t expr, uint32_t to)
{
    const flxi_kopaque *o = &c->k->opaques[opaque];
    const flxi_kx *e = &c->k->exprs[expr];
    if (!o->known) {
        if (c->failed == FLX_OK)
            c->failed =
                flxi_kernel_fail(c->err, "K64", "register it before the kernel is built, or remove it",
                                 "kernel '%.60s': extension '%.60s' is not registered", c->k->name, o->extension);
        return;
    }
    flxi_kinstr i = {.code = KI_OPAQUE, .to = to, .c = opaque, .d = expr};
    i.a = take(c, e->num_args);
    for (uint32_t n = 0; n < e->num_args; n++) {
        uint32_t mark = c->top;
        translate(c, e->args[n], i.a + n);
        c->top = mark;
    }
    append(c, i);
}

/* Ops of one to three operands. */
static void translate_op(coder *c, const flxi_kx *e, uint32_t to)
{
    bool is_checked = c->flags & KCODE_CHECKED;
    flxi_kinstr i = {.op = e->op, .to = to, .type = type_of(c, e->x[0])};
    i.a = operand(c, e->x[0]);
    int n = flxi_kx_operands(e);
    if (n > 1)
        i.b = operand(c, e->x[1]);
    if (n > 2)
        i.c = operand(c, e->x[2]);
    switch ((flxi_kx_kind)e->kind) {
    case KX_UNARY: i.code = is_checked ? KI_CHECKED_UNARY : KI_UNARY; break;
    case KX_BINARY: i.code = is_checked ? KI_CHECKED_BINARY : KI_BINARY; break;
    case KX_SELECT: i.code = KI_SELECT; break;
    case KX_FMA: i.code = KI_FMA; break;
    case KX_CAST:
        i.code = KI_CAST;
        i.op = i.type;
        i.type = e->type;
        break;
    default: i.code = KI_MOVE; break; /* a bitcast */
    }
    append(c, i);
}

/* e into register `to`. */
static void translate(coder *c, uint32_t e, uint32_t to)
{
    const flxi_kx *x = &c->k->exprs[e];
    uint32_t mark = c->top, held;
    if (c->failed != FLX_OK)
        return;
    c->cost++;
    if (is_held(c, e, &held)) {
        append(c, (flxi_kinstr){.code = KI_MOVE, .to = to, .a = held});
        return;
    }
    switch ((flxi_kx_kind)x->kind) {
    case KX_LOAD: {
        uint32_t index = operand(c, x->x[0]);
        append(c, (flxi_kinstr){.code = is_watched(c, x->ref) ? KI_WATCHED_LOAD : KI_LOAD,
                                .element = c->k->buffers[x->ref].element,
                                .to = to,
                                .a = index,
                                .d = x->ref});
        break;
    }
    case KX_CALL: translate_call(c, x, to); break;
    case KX_ATOMIC: translate_atomic(c, x, to); break;
    case KX_SUBGROUP_ADD:
    case KX_SUBGROUP_SHUFFLE:
    case KX_SUBGROUP_BALLOT: translate_subgroup(c, x, to); break;
    case KX_OPAQUE: translate_opaque(c, x->ref, e, to); break;
    default: translate_op(c, x, to); break;
    }
    c->top = mark;
}

/* ---- Statements ---- */

static void translate_if(coder *c, const flxi_ks *s)
{
    uint32_t mark = c->top;
    uint32_t condition = operand(c, s->a);
    c->top = mark;
    uint32_t skip = append(c, (flxi_kinstr){.code = KI_UNLESS, .a = condition});
    translate_list(c, s->body);
    if (s->other.n) {
        uint32_t over = append(c, (flxi_kinstr){.code = KI_JUMP});
        land(c, skip);
        translate_list(c, s->other);
        land(c, over);
    } else {
        land(c, skip);
    }
}

/* The bounds have registers of their own, because the body may assign variables that they use. */
static void translate_loop(coder *c, const flxi_ks *s)
{
    uint32_t var = take(c, 3), begin = var + 1, end = var + 2;
    uint32_t statement = c->statement, outer = c->loop;
    translate(c, s->a, begin);
    translate(c, s->b, end);
    flxi_kcode_loop loop = {outer, c->code->loops.at[outer].depth + 1, var, begin};
    if (!flxi_push(c->mem, &c->code->loops, loop)) {
        fail_memory(c);
        return;
    }
    c->loop = (uint32_t)c->code->loops.n - 1;
    c->var_reg[s->var] = var;
    uint32_t enter = append(c, (flxi_kinstr){.code = KI_ENTER, .to = var, .a = begin, .b = end});
    uint32_t body = here(c);
    translate_list(c, s->body);
    c->statement = statement;
    c->cost++; /* so that an empty loop uses up the step budget too */
    append(c, (flxi_kinstr){.code = KI_NEXT, .to = var, .b = end, .d = body});
    land(c, enter);
    c->loop = outer;
}

static uint64_t hash_tag(const flxi_ks *s)
{
    return flxi_hash_text(FLXI_HASH_SEED, s->text);
}

static void translate_wait(coder *c, const flxi_ks *s)
{
    uint32_t i;
    for (flxi_probe p = flxi_index_first(&c->tags, hash_tag(s)); flxi_index_next(&c->tags, &p, &i);)
        if (strcmp(c->code->copies.at[i].start->text, s->text) == 0)
            append(c, (flxi_kinstr){.code = KI_COPY_WAIT, .to = c->code->copies.at[i].registers, .d = i});
}

static void translate_start(coder *c, const flxi_ks *s)
{
    flxi_kinstr i = {.code = KI_COPY_START, .d = c->next_copy++};
    i.to = c->code->copies.at[i.d].registers;
    i.a = operand(c, s->a);
    i.b = operand(c, s->b);
    append(c, i);
}

static void translate_store(coder *c, const flxi_ks *s)
{
    flxi_kinstr i = {.code = is_watched(c, s->buffer) ? KI_WATCHED_STORE : KI_STORE,
                     .element = c->k->buffers[s->buffer].element,
                     .d = s->buffer};
    i.a = operand(c, s->a);
    i.b = operand(c, s->b);
    append(c, i);
}

static void translate_simple(coder *c, const flxi_ks *s)
{
    switch ((flxi_ks_kind)s->kind) {
    case KS_ASSIGN: translate(c, s->a, c->var_reg[s->var]); break;
    case KS_STORE: translate_store(c, s); break;
    case KS_EFFECT: translate(c, s->a, take(c, 1)); break;
    case KS_BARRIER:
        c->code->has_barrier = true;
        c->code->has_grid_barrier |= s->order == FLX_KERNEL_GRID;
        append(c, (flxi_kinstr){.code = s->order == FLX_KERNEL_GRID ? KI_GRID_BARRIER : KI_BARRIER});
        break;
    case KS_RETURN: append(c, (flxi_kinstr){.code = KI_END}); break;
    case KS_INDIRECT: append(c, (flxi_kinstr){.code = KI_INDIRECT}); break;
    case KS_ASYNC_LOAD:
    case KS_ASYNC_STORE: translate_start(c, s); break;
    case KS_ASYNC_WAIT: translate_wait(c, s); break;
    case KS_TRAP: append(c, (flxi_kinstr){.code = KI_TRAP, .a = operand(c, s->a)}); break;
    case KS_RESUME: append(c, (flxi_kinstr){.code = KI_RESUME}); break;
    case KS_COLLECTIVE: append(c, (flxi_kinstr){.code = KI_COLLECTIVE}); break;
    case KS_OPAQUE: translate_opaque(c, s->opaque, 0, 0); break;
    default: break;
    }
}

static void translate_statement(coder *c, const flxi_ks *s)
{
    uint32_t mark = c->top;
    if (!c->in_function)
        c->statement = c->next_number++;
    c->cost++;
    if (c->flags & KCODE_TURNS)
        append(c, (flxi_kinstr){.code = KI_TURN});
    switch ((flxi_ks_kind)s->kind) {
    case KS_LET: /* the variable stays */
        mark = c->top + 1;
        c->var_reg[s->var] = take(c, 1);
        translate(c, s->a, c->var_reg[s->var]);
        break;
    case KS_IF: translate_if(c, s); break;
    case KS_LOOP: translate_loop(c, s); break;
    case KS_BLOCK:
    case KS_REGION: translate_list(c, s->body); break;
    default: translate_simple(c, s); break;
    }
    c->top = mark;
}

static void translate_list(coder *c, flxi_klist list)
{
    uint32_t mark = c->top;
    for (size_t i = 0; i < list.n && c->failed == FLX_OK; i++)
        translate_statement(c, &list.at[i]);
    c->top = mark;
}

/* ---- The whole ---- */

static void add_constant(coder *c, uint32_t e, uint64_t bits)
{
    flxi_kcode_constant k = {take(c, 1), bits};
    c->fixed[e] = k.reg + 1;
    if (!flxi_push(c->mem, &c->code->constants, k))
        fail_memory(c);
}

/* Values that are constant throughout a dispatch. The table may hold expressions that nothing uses and that were not
   checked. */
static void fix_constants(coder *c)
{
    for (uint32_t e = 1; e <= c->k->num_exprs && c->failed == FLX_OK; e++) {
        const flxi_kx *x = &c->k->exprs[e];
        if (x->kind == KX_LITERAL)
            add_constant(c, e, x->bits);
        else if (x->kind == KX_LENGTH && x->ref <= c->k->num_buffers)
            add_constant(c, e, flxi_kbound_length(&c->d->bound[x->ref]));
        else if (x->kind == KX_LANES)
            add_constant(c, e, c->d->options.subgroup_size);
        else if (x->kind == KX_ID && x->op == FLX_KERNEL_NUM_WORKGROUPS && x->ref < 3)
            add_constant(c, e, c->d->grid[x->ref]);
    }
}

/* Statements in text order, and copies, which a wait may refer to before their start. */
static void number_statements(coder *c, flxi_klist list)
{
    for (size_t i = 0; i < list.n && c->failed == FLX_OK; i++) {
        const flxi_ks *s = &list.at[i];
        uint32_t number = (uint32_t)c->code->statements.n;
        if (!flxi_push(c->mem, &c->code->statements, s))
            fail_memory(c);
        if (s->kind == KS_ASYNC_LOAD || s->kind == KS_ASYNC_STORE) {
            flxi_kcode_copy copy = {s, take(c, 3), number};
            if (!flxi_index_add(c->mem, &c->tags, hash_tag(s), (uint32_t)c->code->copies.n) ||
                !flxi_push(c->mem, &c->code->copies, copy))
                fail_memory(c);
        }
        number_statements(c, s->body);
        number_statements(c, s->other);
    }
}

static void translate_kernel(coder *c)
{
    if (!flxi_push(c->mem, &c->code->loops, (flxi_kcode_loop){0})) {
        fail_memory(c);
        return;
    }
    take(c, KREG_IDS);
    fix_constants(c);
    number_statements(c, c->k->body);
    translate_list(c, c->k->body);
    c->cost++; /* an invocation that does nothing counts too */
    append(c, (flxi_kinstr){.code = KI_END});
}

flx_code flxi_kcode_make(flxi_kcode *code, const flxi_kdispatch *d, unsigned flags, flx_error *err)
{
    const flx_kernel *k = d->kernel;
    *code = (flxi_kcode){.kernel = k};
    coder c = {.code = code, .k = k, .d = d, .mem = flxi_kernel_mem(k), .flags = flags, .err = err};
    c.fixed = flxi_alloc(c.mem, k->num_exprs + 1, sizeof *c.fixed);
    c.var_reg = flxi_alloc(c.mem, k->num_vars + 1, sizeof *c.var_reg);
    if (c.fixed && c.var_reg)
        translate_kernel(&c);
    else
        fail_memory(&c);
    flxi_index_free(c.mem, &c.tags);
    flxi_free(c.mem, c.fixed, k->num_exprs + 1, sizeof *c.fixed);
    flxi_free(c.mem, c.var_reg, k->num_vars + 1, sizeof *c.var_reg);
    return c.failed;
}

void flxi_kcode_free(flxi_kcode *code)
{
    const flxi_allocator *mem = flxi_kernel_mem(code->kernel);
    flxi_vec_free(mem, &code->instrs);
    flxi_vec_free(mem, &code->statements);
    flxi_vec_free(mem, &code->loops);
    flxi_vec_free(mem, &code->copies);
    flxi_vec_free(mem, &code->constants);
}

/* ---- Paths ---- */

static bool find_path(flxi_klist list, const flxi_ks *wanted, bool in_else, flxi_kpath *p)
{
    flxi_kpath_open(p, in_else);
    for (size_t i = 0; i < list.n; i++) {
        const flxi_ks *s = &list.at[i];
        p->at[p->n - 1].index = (uint32_t)i;
        if (s == wanted || find_path(s->body, wanted, false, p) || find_path(s->other, wanted, true, p))
            return true;
    }
    flxi_kpath_close(p);
    return false;
}

const char *flxi_kcode_path(const flx_kernel *k, const flxi_ks *s, char *buffer, size_t size)
{
    flxi_kpath p = {.root = "body"};
    find_path(k->body, s, false, &p);
    return flxi_kpath_write(&p, buffer, size);
}
