/* SPDX-License-Identifier: Apache-2.0 */
/* write_interface.c: what the user of a standalone file sees: the struct of the model, its constants and codes, init,
   the loader of parameters, and the functions. */
#include "standalone/standalone.h"

#include "graph/op/eval.h"

#include <ctype.h>

typedef struct {
    flxi_sa_model *s;
    flxi_strbuf *out;
    const char *upper; /* the prefix in capitals */
} interface;

/* ---- Declarations ---- */

const char *flxi_sa_capitals(flxi_sa_file *f)
{
    char *text = flxi_arena_text(&f->arena, f->prefix, strlen(f->prefix));
    f->failed |= !text;
    for (char *p = text; p && *p; p++)
        *p = (char)toupper((unsigned char)*p);
    return text ? text : "";
}

static void add_type_comment(interface *x, const flx_type *t)
{
    flxi_type_text shown;
    flxi_addf(x->out, " /* %s */", flxi_type_str(x->s->f.ctx, t, &shown));
}

static void declare_struct(interface *x)
{
    const char *name = x->s->f.prefix;
    flxi_sa_threads_declare(&x->s->f, x->out);
    flxi_addf(x->out, "typedef struct %s {\n    unsigned char *arena; /* memory of %s_init(): runs work here */\n",
              name, name);
    for (size_t i = 0; i < x->s->fields.n; i++) {
        const flxi_sa_field *p = &x->s->fields.at[i];
        flxi_addf(x->out, "    %s%s *%s;", x->s->trains ? "" : "const ", flxi_sa_type(p->type->dtype), p->field);
        add_type_comment(x, p->type);
        flxi_add_char(x->out, '\n');
    }
    if (x->s->f.threads == FLX_BUILD_PTHREADS)
        flxi_addf(x->out, "    %s_team *team; /* NULL: one thread computes runs */\n", name);
    flxi_addf(x->out, "} %s;\n\n", name);
}

static bool is_field(const flx_graph *g, size_t leaf)
{
    return flxi_is_param(flxi_node_of(g, g->leaves.at[leaf]));
}

static const char *leaf_name(const flx_graph *g, size_t leaf)
{
    return flxi_value_at(g, g->leaves.at[leaf])->name;
}

/* An output that the function gives to its caller: not a next value, and not what only guards a step. */
static bool is_result(const flxi_sa_function *fn, size_t k)
{
    return k < fn->num_results && k + 1 != fn->guard;
}

/* Names of the function's parameters: of leaves, then of outputs. */
typedef struct {
    const char **leaves, **outputs;
} arguments;

static arguments name_arguments(flxi_sa_model *s, const flxi_sa_function *fn, flxi_sa_routine *r)
{
    const flx_graph *g = fn->program.main->g;
    arguments a = {flxi_new(&s->f.arena, const char *, g->leaves.n), flxi_new(&s->f.arena, const char *, g->outputs.n)};
    if (!a.leaves || !a.outputs) {
        s->f.failed = true;
        return (arguments){0};
    }
    for (size_t i = 0; i < g->leaves.n; i++)
        if (!is_field(g, i))
            a.leaves[i] = flxi_sa_local(r, leaf_name(g, i));
    for (size_t k = 0; k < g->outputs.n; k++)
        if (is_result(fn, k))
            a.outputs[k] = flxi_sa_local(r, g->outputs.at[k].name);
    return a;
}

static void add_signature(interface *x, const flxi_sa_function *fn, const arguments *a)
{
    const flx_graph *g = fn->program.main->g;
    const char *changes = fn->kind == SA_STEP ? "" : "const ";
    flxi_addf(x->out, "int %s(%s%s *m", fn->name, changes, x->s->f.prefix);
    for (size_t i = 0; i < x->s->f.num_symbols; i++)
        flxi_addf(x->out, ", int64_t %s", x->s->f.symbols[i]);
    if (x->s->o->flags & FLX_BUILD_TABLES) {
        flxi_add_text(x->out, ", const void *const *in, void *const *out)");
        return;
    }
    for (size_t i = 0; i < g->leaves.n; i++)
        if (a->leaves[i])
            flxi_addf(x->out, ", const %s *%s", flxi_sa_type(flxi_type_at(g, g->leaves.at[i])->dtype), a->leaves[i]);
    for (size_t k = 0; k < g->outputs.n; k++)
        if (a->outputs[k])
            flxi_addf(x->out, ", %s *%s", flxi_sa_type(flxi_type_at(g, g->outputs.at[k].val)->dtype), a->outputs[k]);
    flxi_add_char(x->out, ')');
}

static void add_argument_lines(interface *x, const flxi_sa_function *fn, const arguments *a)
{
    const flx_graph *g = fn->program.main->g;
    flxi_type_text shown;
    for (size_t i = 0; i < g->leaves.n; i++)
        if (a->leaves[i])
            flxi_addf(x->out, "     %s: %s\n", a->leaves[i],
                      flxi_type_str(x->s->f.ctx, flxi_type_at(g, g->leaves.at[i]), &shown));
    for (size_t k = 0; k < g->outputs.n; k++)
        if (a->outputs[k])
            flxi_addf(x->out, "     %s: %s, written\n", a->outputs[k],
                      flxi_type_str(x->s->f.ctx, flxi_type_at(g, g->outputs.at[k].val), &shown));
}

static void declare_function(interface *x, const flxi_sa_function *fn, const arguments *a)
{
    static const char *const about[] = {
        [SA_RUN] = "Runs the model.",
        [SA_GRAD] = "The loss, and its gradients with respect to the parameters.",
        [SA_STEP] = "One training step: parameters and states change, unless it fails.",
    };
    flxi_addf(x->out, "/* %s\n", about[fn->kind]);
    add_argument_lines(x, fn, a);
    flxi_add_text(x->out, "   */\n");
    add_signature(x, fn, a);
    flxi_add_text(x->out, ";\n");
}

/* ---- Init ---- */

static void add_field_init(interface *x, const flxi_sa_field *p)
{
    flxi_sa_model *s = x->s;
    const char *type = flxi_sa_type(p->type->dtype);
    const char *values = NULL;
    if (p->value && s->o->params == FLX_BUILD_EMBED)
        values = flxi_sa_constant_of(&s->f, p->value->data, p->type, p->name);
    if (!s->trains) {
        flxi_addf(x->out, "    m->%s = %s;\n", p->field, values ? values : "NULL");
        return;
    }
    flxi_addf(x->out, "    m->%s = (%s *)((unsigned char *)memory + %zu);\n", p->field, type, p->offset);
    if (values && p->nbytes)
        flxi_addf(x->out, "    memcpy(m->%s, %s, %zu);\n", p->field, values, p->nbytes);
    else if (p->nbytes)
        flxi_addf(x->out, "    memset(m->%s, 0, %zu);\n", p->field, p->nbytes);
}

static void write_table(interface *x, const flxi_sa_table *t)
{
    flxi_sa_writer w = {.f = &x->s->f, .n = t->n, .out = x->out, .depth = 1};
    w.table = flxi_sa_text(w.f, "m->arena - %zu", w.f->table_bytes - t->at);
    t->part->fill(&w);
}

static void write_init(interface *x)
{
    const char *name = x->s->f.prefix;
    flxi_addf(x->out, "\nint %s_init(%s *m, void *memory)\n{\n", name, name);
    if (x->s->needs_memory)
        flxi_addf(x->out, "    if (!memory || (uintptr_t)memory %% 16 != 0)\n        return %s_BAD_MEMORY;\n",
                  x->upper);
    if (x->s->fields_bytes)
        flxi_addf(x->out, "    m->arena = (unsigned char *)memory + %zu;\n", x->s->fields_bytes);
    else
        flxi_add_text(x->out, "    m->arena = (unsigned char *)memory;\n");
    for (size_t i = 0; i < x->s->fields.n; i++)
        add_field_init(x, &x->s->fields.at[i]);
    if (x->s->f.threads == FLX_BUILD_PTHREADS)
        flxi_add_text(x->out, "    m->team = NULL;\n");
    for (size_t i = 0; i < x->s->f.tables.n; i++)
        write_table(x, &x->s->f.tables.at[i]);
    flxi_add_text(x->out, "    return 0;\n}\n");
}

/* The bytes of memory for extents, which are arguments. */
static void write_memory_bytes(interface *x)
{
    flxi_sa_file *f = &x->s->f;
    flxi_addf(x->out, "\nint64_t %s_memory_bytes(", f->prefix);
    for (size_t i = 0; i < f->num_symbols; i++)
        flxi_addf(x->out, "%sint64_t %s", i ? ", " : "", f->symbols[i]);
    flxi_add_text(x->out, ")\n{\n");
    for (size_t i = 0; i < f->num_symbols; i++)
        flxi_addf(x->out, "    if (%s < least_ || %s > limit_)\n        return -1;\n", f->symbols[i], f->symbols[i]);
    flxi_addf(x->out, "    return %zu;\n}\n", x->s->memory_bytes);
}

/* ---- Functions ---- */

static const flxi_sa_field *field_of(const flxi_sa_model *s, const char *name)
{
    for (size_t i = 0; i < s->fields.n; i++)
        if (strcmp(s->fields.at[i].name, name) == 0)
            return &s->fields.at[i];
    return NULL;
}

/* Whether an output goes to the arena: next values that are not written in number, and what comes after them, such as
   the guard. */
static bool is_hidden(const flxi_sa_function *fn, size_t k)
{
    if (is_result(fn, k))
        return false;
    size_t j = k - fn->num_results;
    return k < fn->num_results || j >= fn->num_updated || !fn->is_in_place[j];
}

static size_t hidden_offset(const flxi_sa_function *fn, size_t output)
{
    const flx_graph *g = fn->program.main->g;
    size_t at = fn->updates_at;
    for (size_t k = 0; k < output; k++) {
        size_t bytes = 0;
        if (is_hidden(fn, k) && flxi_static_bytes(flxi_type_at(g, g->outputs.at[k].val), &bytes))
            at += (bytes + 63) / 64 * 64;
    }
    return at;
}

size_t flxi_sa_hidden_bytes(const flxi_sa_function *fn)
{
    return hidden_offset(fn, fn->program.main->g->outputs.n) - fn->updates_at;
}

static const char *input_text(interface *x, const flxi_sa_function *fn, const arguments *a, size_t leaf, size_t number)
{
    const flx_graph *g = fn->program.main->g;
    flxi_sa_file *f = &x->s->f;
    const flxi_sa_field *p = a->leaves[leaf] ? NULL : field_of(x->s, leaf_name(g, leaf));
    if (p)
        return flxi_sa_text(f, "m->%s", p->field);
    if (x->s->o->flags & FLX_BUILD_TABLES)
        return flxi_sa_text(f, "((const %s *)in[%zu])", flxi_sa_type(flxi_type_at(g, g->leaves.at[leaf])->dtype),
                            number);
    return a->leaves[leaf];
}

static const char *output_text(interface *x, const flxi_sa_function *fn, const arguments *a, size_t output,
                               size_t number)
{
    const flx_graph *g = fn->program.main->g;
    flxi_sa_file *f = &x->s->f;
    const char *type = flxi_sa_type(flxi_type_at(g, g->outputs.at[output].val)->dtype);
    if (is_hidden(fn, output))
        return flxi_sa_text(f, "((%s *)(arena + %zu))", type, hidden_offset(fn, output));
    if (!a->outputs[output])
        return flxi_sa_text(f, "m->%s", field_of(x->s, leaf_name(g, fn->updated[output - fn->num_results]))->field);
    if (x->s->o->flags & FLX_BUILD_TABLES)
        return flxi_sa_text(f, "((%s *)out[%zu])", type, number);
    return a->outputs[output];
}

static void bind_slots(interface *x, const flxi_sa_function *fn, const arguments *a, flxi_sa_routine *r)
{
    const flx_graph *g = r->l->g;
    for (uint32_t i = 0; i < r->l->num_slots; i++) {
        const flxi_slot *slot = &r->l->slots[i];
        size_t number = 0;
        if (slot->segment == SEGMENT_INPUT) {
            for (size_t k = 0; k < slot->index; k++)
                number += !is_field(g, k);
            r->slots[i] = input_text(x, fn, a, slot->index, number);
        } else if (slot->segment == SEGMENT_OUTPUT) {
            for (size_t k = 0; k < slot->index; k++)
                number += is_result(fn, k);
            r->slots[i] = output_text(x, fn, a, slot->index, number);
        }
        r->is_declared[i] = r->slots[i] != NULL;
    }
}

/* Pointers of parameters that the caller must have set. */
static void write_checks(interface *x, const flxi_sa_function *fn)
{
    const flx_graph *g = fn->program.main->g;
    if (x->s->trains || x->s->o->params == FLX_BUILD_EMBED)
        return;
    const char *joint = "    if (";
    for (size_t i = 0; i < g->leaves.n; i++) {
        const flxi_sa_field *p = is_field(g, i) ? field_of(x->s, leaf_name(g, i)) : NULL;
        if (!p)
            continue;
        flxi_addf(x->out, "%s!m->%s", joint, p->field);
        joint = " || ";
    }
    if (*joint == ' ' && joint[1] == '|')
        flxi_addf(x->out, ")\n        return %s_NO_PARAMETER;\n", x->upper);
}

/* Before parameters change: whether the step may be taken. */
static void write_guard(interface *x, const flxi_sa_function *fn, flxi_sa_writer *w)
{
    const flx_graph *g = fn->program.main->g;
    if (!fn->guard)
        return;
    flxi_sa_line(w, "if (!isfinite(*(const %s *)(arena + %zu)))",
                 flxi_sa_type(flxi_type_at(g, g->outputs.at[fn->guard - 1].val)->dtype),
                 hidden_offset(fn, fn->guard - 1));
    flxi_sa_line(w, "    return %s_NOT_FINITE;", x->upper);
}

/* Next values that are not written in number take effect at the end. */
static void write_updates(interface *x, const flxi_sa_function *fn)
{
    const flx_graph *g = fn->program.main->g;
    for (size_t j = 0; j < fn->num_updated; j++) {
        const flxi_sa_field *p = field_of(x->s, leaf_name(g, fn->updated[j]));
        if (p && p->nbytes && !fn->is_in_place[j])
            flxi_addf(x->out, "    memcpy(m->%s, arena + %zu, %zu);\n", p->field,
                      hidden_offset(fn, fn->num_results + j), p->nbytes);
    }
}

/* Compilers warn of arguments that a function does not use. */
static void write_unused(interface *x, const flxi_sa_routine *r, const arguments *a, const flxi_strbuf *body)
{
    if (x->s->o->flags & FLX_BUILD_TABLES) {
        flxi_add_text(x->out, flxi_sa_mentions(body, "in") ? "" : "    (void)in;\n");
        flxi_add_text(x->out, flxi_sa_mentions(body, "out") ? "" : "    (void)out;\n");
        return;
    }
    for (size_t i = 0; i < r->l->g->leaves.n; i++)
        if (a->leaves[i] && !flxi_sa_mentions(body, a->leaves[i]))
            flxi_addf(x->out, "    (void)%s;\n", a->leaves[i]);
    for (size_t k = 0; k < r->l->g->outputs.n; k++)
        if (a->outputs[k] && !flxi_sa_mentions(body, a->outputs[k]))
            flxi_addf(x->out, "    (void)%s;\n", a->outputs[k]);
}

static flx_code write_function(interface *x, flxi_sa_function *fn, flxi_sa_routine *r, const arguments *a)
{
    flxi_sa_file *f = &x->s->f;
    flxi_strbuf body;
    flxi_strbuf_init(&body, f->mem);
    r->w.out = &body;
    r->w.depth = 1;
    bind_slots(x, fn, a, r);
    uint32_t commit = fn->kind == SA_STEP ? r->l->commit : r->l->num_steps;
    flx_code code = flxi_sa_steps(r, 0, commit);
    write_guard(x, fn, &r->w);
    if (code == FLX_OK)
        code = flxi_sa_steps(r, commit, r->l->num_steps);
    flxi_add_char(x->out, '\n');
    add_signature(x, fn, a);
    flxi_add_text(x->out, "\n{\n");
    if (flxi_sa_mentions(&body, "code"))
        flxi_add_text(x->out, "    int code;\n");
    bool uses_arena = flxi_sa_mentions(&body, "arena") || fn->num_updated;
    if (uses_arena)
        flxi_add_text(x->out, "    unsigned char *const arena = m->arena;\n");
    else if (x->s->fields.n == 0 && !flxi_sa_mentions(&body, "m"))
        flxi_add_text(x->out, "    (void)m;\n");
    write_unused(x, r, a, &body);
    for (size_t i = 0; i < x->s->f.num_symbols; i++)
        flxi_addf(x->out, "    if (%s < least_ || %s > limit_)\n        return %s_BAD_EXTENT;\n", x->s->f.symbols[i],
                  x->s->f.symbols[i], x->upper);
    write_checks(x, fn);
    if (body.at)
        flxi_add_bytes(x->out, body.at, body.n);
    f->failed |= body.failed;
    write_updates(x, fn);
    flxi_add_text(x->out, "    return 0;\n}\n");
    flxi_strbuf_free(&body);
    return code;
}

static flx_code add_function(interface *x, flxi_sa_function *fn, flxi_strbuf *declarations)
{
    flxi_sa_file *f = &x->s->f;
    const flxi_routine *l = fn->program.main;
    flxi_sa_routine r = {.w = {.f = f},
                         .m = &fn->program,
                         .l = l,
                         .slots = flxi_new(&f->arena, const char *, l->num_slots),
                         .is_declared = flxi_new(&f->arena, bool, l->num_slots),
                         .names = {.arena = &f->arena},
                         .bodies = flxi_new(&f->arena, const char *, fn->program.num_routines),
                         .body_fails = flxi_new(&f->arena, bool, fn->program.num_routines),
                         .err = x->s->err};
    if (!r.slots || !r.is_declared || !r.bodies || !r.body_fails)
        return flxi_oom(x->s->err, "C text");
    arguments a = name_arguments(x->s, fn, &r);
    flx_code code = a.leaves ? write_function(x, fn, &r, &a) : flxi_oom(x->s->err, "C text");
    flxi_strings_free(&r.names);
    flxi_strbuf *out = x->out;
    x->out = declarations;
    if (a.leaves)
        declare_function(x, fn, &a);
    x->out = out;
    return code;
}

/* ---- The whole ---- */

static const struct {
    const char *name;
    int value;
    const char *about;
} codes[] = {
    {"BAD_MEMORY", 1, "the memory of init is NULL or not aligned"},
    {"NO_PARAMETER", 2, "the pointer of a parameter was not set"},
    {"NOT_FINITE", 3, "a step was not taken: the loss or a gradient is not finite"},
    {"BAD_FILE", 4, "the file of parameters is not what the model needs"},
    {"BAD_INDEX", SA_BAD_INDEX, "an index is out of range"},
    {"SINGULAR", SA_SINGULAR, "a matrix cannot be inverted or factored"},
    {"CHECK_FAILED", SA_CHECK_FAILED, "a check of the graph failed"},
    {"BAD_LOGITS", SA_BAD_LOGITS, "a logit to draw by is NaN, or all of a row are -inf"},
    {"TRAPPED", SA_TRAPPED, "a kernel of the user stopped itself"},
    {"BAD_EXTENT", SA_BAD_EXTENT, "an extent is too small for the graph, or too large"},
    {"NO_THREADS", SA_NO_THREADS, "threads cannot be started"},
};

const char *flxi_sa_code_of(flxi_sa_file *f, flxi_sa_code code)
{
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (codes[i].value == (int)code)
            return flxi_sa_text(f, "%s_%s", flxi_sa_capitals(f), codes[i].name);
    return "";
}

const char *flxi_sa_code_name(size_t i)
{
    return i < sizeof codes / sizeof *codes ? codes[i].name : NULL;
}

static void declare_codes(interface *x)
{
    const char *parameters = "";
    for (size_t i = 0; i < x->s->f.num_symbols; i++)
        parameters = flxi_sa_text(&x->s->f, "%s%s%s", i ? parameters : "(", i ? ", " : "", x->s->f.symbols[i]);
    parameters = *parameters ? flxi_sa_text(&x->s->f, "%s)", parameters) : "";
    flxi_addf(x->out, "#define %s_ARENA_BYTES%s %zu\n#define %s_MEMORY_BYTES%s %zu\n\n", x->upper, parameters,
              x->s->arena_bytes, x->upper, parameters, x->s->memory_bytes);
    flxi_add_text(x->out, "/* What functions return: 0, or one of these. */\nenum {\n");
    size_t n = sizeof codes / sizeof *codes - (x->s->f.threads != FLX_BUILD_PTHREADS); /* the last is of these */
    for (size_t i = 0; i < n; i++)
        flxi_addf(x->out, "    %s_%s = %d%s /* %s */\n", x->upper, codes[i].name, codes[i].value, i + 1 < n ? "," : "",
                  codes[i].about);
    flxi_add_text(x->out, "};\n\n");
}

flx_code flxi_sa_interface(flxi_sa_model *s, flxi_strbuf *declarations)
{
    interface x = {s, declarations, flxi_sa_capitals(&s->f)};
    const char *name = s->f.prefix;
    declare_codes(&x);
    declare_struct(&x);
    flxi_addf(
        declarations,
        "/* Prepares a model. `memory` has %s_MEMORY_BYTES bytes%s, aligned to 16,\n"
        "   and is the model's from now on.%s */\n"
        "int %s_init(%s *m, void *memory);\n",
        x.upper, s->f.num_symbols ? " for the largest extents" : "",
        !s->fields.n || s->o->params != FLX_BUILD_CALLER ? ""
        : s->trains
            ? "\n   Parameters and states are in it, and zero: copy the values of parameters to where the pointers of "
              "`m` point."
            : "\n   Then set the pointers of the parameters.",
        name, name);
    flxi_sa_threads_declare_start(&s->f, declarations);
    if (s->f.num_symbols) {
        flxi_addf(declarations,
                  "/* The bytes of memory for runs with extents up to these; -1: one is too large. */\n"
                  "int64_t %s_memory_bytes(",
                  name);
        for (size_t i = 0; i < s->f.num_symbols; i++)
            flxi_addf(declarations, "%sint64_t %s", i ? ", " : "", s->f.symbols[i]);
        flxi_add_text(declarations, ");\n");
    }
    x.out = &s->f.entries;
    if (s->f.num_symbols)
        write_memory_bytes(&x);
    write_init(&x);
    if (s->o->params == FLX_BUILD_FILE && s->fields.n)
        FLXI_TRY(flxi_sa_loader(s, declarations, &s->f.entries));
    for (size_t i = 0; i < s->num_functions; i++)
        FLXI_TRY(add_function(&x, &s->functions[i], declarations));
    return FLX_OK;
}
