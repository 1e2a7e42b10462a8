/* SPDX-License-Identifier: Apache-2.0 */
/* hlo_module.c: the whole text: modules, functions, aliases and resources; the entry to the parser. */
#include "stablehlo/syntax/hlo_parser.h"

/* ---- Functions ---- */

flx_code flxi_hlop_add_function(hlo_parser *p, const hlo_function *f)
{
    uint64_t hash = flxi_hash_text(FLXI_HASH_SEED, f->name);
    uint32_t i;
    for (flxi_probe probe = flxi_index_first(&p->symbols, hash); flxi_index_next(&p->symbols, &probe, &i);)
        if (strcmp(p->functions.at[i].name, f->name) == 0)
            return flxi_hlop_fail_at(p, f->at, FLX_E_DUP_NAME, NULL, "the function @%.80s is defined twice", f->name);
    if (p->functions.n >= UINT32_MAX || !flxi_index_add(p->mem, &p->symbols, hash, (uint32_t)p->functions.n))
        return flxi_hlop_oom(p);
    HLO_PUSH(p, functions, *f);
    return FLX_OK;
}

flx_code flxi_hlop_check_return(hlo_parser *p, const hlo_function *f)
{
    const hlo_op *last = f->body.first;
    while (last && last->next)
        last = last->next;
    if (!last)
        return FLX_OK;
    if (last->num_operands != f->num_results)
        return flxi_hlop_fail_at(p, last->at, FLX_E_ARITY, NULL, "@%.60s returns %zu values, it declares %zu", f->name,
                                 last->num_operands, f->num_results);
    for (size_t i = 0; i < f->num_results; i++) {
        if (flxi_hlop_same_type(last->operands[i]->type, f->results[i]))
            continue;
        char actual[80];
        char declared[80];
        flxi_hlo_type_print(last->operands[i]->type, actual, sizeof actual);
        flxi_hlo_type_print(f->results[i], declared, sizeof declared);
        return flxi_hlop_fail_at(p, last->at, FLX_E_DTYPE, NULL, "@%.40s returns %s as result %zu, it declares %s",
                                 f->name, actual, i, declared);
    }
    return FLX_OK;
}

/* {…} after a type; NULL where there is none. */
static flx_code parse_optional_attrs(hlo_parser *p, const hlo_attr **out)
{
    *out = NULL;
    return flxi_hlop_peek(p) == '{' ? flxi_hlop_attr(p, out) : FLX_OK;
}

/* (%a: type {…}, …); a declaration may leave the names out. The arguments and, above them in the same order, their
   attributes go to the arena. */
static flx_code parse_arguments(hlo_parser *p, hlo_function *f, size_t args)
{
    FLXI_TRY(flxi_hlop_expect(p, "("));
    if (flxi_hlop_eat(p, ")"))
        return FLX_OK;
    do {
        hlo_value *arg;
        const hlo_attr *attrs;
        if (flxi_hlop_peek(p) == '%') {
            FLXI_TRY(flxi_hlop_argument(p, &arg));
        } else {
            const hlo_type *type;
            FLXI_TRY(flxi_hlop_type(p, &type));
            arg = flxi_hlop_new_value(p, "", type);
            if (!arg)
                return FLX_E_OOM;
        }
        FLXI_TRY(parse_optional_attrs(p, &attrs));
        FLXI_TRY(flxi_hlop_name_argument(p, arg));
        HLO_PUSH(p, items, arg);
        HLO_PUSH(p, items, attrs);
    } while (flxi_hlop_eat(p, ","));
    FLXI_TRY(flxi_hlop_expect(p, ")"));
    size_t n = (p->items.n - args) / 2;
    const hlo_attr **attrs = flxi_new(p->arena, const hlo_attr *, n);
    if (!attrs)
        return flxi_hlop_oom(p);
    for (size_t i = 0; i < n; i++) {
        attrs[i] = p->items.at[args + 2 * i + 1];
        p->items.at[args + i] = p->items.at[args + 2 * i];
    }
    p->items.n = args + n;
    f->arg_attrs = attrs;
    return FLX_OK;
}

/* type, or (type {…}, …) */
static flx_code parse_results(hlo_parser *p, hlo_function *f)
{
    size_t base = p->items.n;
    if (flxi_hlop_eat(p, "->")) {
        bool in_parentheses = flxi_hlop_eat(p, "(");
        if (!in_parentheses || !flxi_hlop_eat(p, ")")) {
            do {
                const hlo_type *type;
                const hlo_attr *attrs = NULL;
                FLXI_TRY(flxi_hlop_type(p, &type));
                if (in_parentheses) {
                    FLXI_TRY(parse_optional_attrs(p, &attrs));
                    FLXI_TRY(flxi_hlop_skip_location(p));
                }
                HLO_PUSH(p, items, type);
                HLO_PUSH(p, items, attrs);
            } while (in_parentheses && flxi_hlop_eat(p, ","));
            if (in_parentheses)
                FLXI_TRY(flxi_hlop_expect(p, ")"));
        }
    }
    f->num_results = (p->items.n - base) / 2;
    const hlo_type **types = flxi_new(p->arena, const hlo_type *, f->num_results);
    const hlo_attr **attrs = flxi_new(p->arena, const hlo_attr *, f->num_results);
    if (!types || !attrs)
        return flxi_hlop_oom(p);
    for (size_t i = 0; i < f->num_results; i++) {
        types[i] = p->items.at[base + 2 * i];
        attrs[i] = p->items.at[base + 2 * i + 1];
    }
    p->items.n = base;
    f->results = types;
    f->result_attrs = attrs;
    return FLX_OK;
}

/* @name or @"name" */
static flx_code parse_name(hlo_parser *p, const char **out)
{
    const hlo_attr *symbol;
    if (flxi_hlop_peek(p) != '@')
        return flxi_hlop_expected(p, "a name such as @main");
    FLXI_TRY(flxi_hlop_attr(p, &symbol));
    *out = symbol->text;
    return FLX_OK;
}

/* attributes {…}, which nothing here depends on */
static flx_code skip_attributes(hlo_parser *p)
{
    if (!flxi_hlop_eat_word(p, "attributes"))
        return FLX_OK;
    const hlo_attr *ignored;
    if (flxi_hlop_peek(p) != '{')
        return flxi_hlop_expected(p, "'{'");
    return flxi_hlop_attr(p, &ignored);
}

/* After func.func */
static flx_code parse_function(hlo_parser *p)
{
    hlo_function f = {.is_public = true};
    size_t scope = p->scope.n;
    size_t args = p->items.n;
    p->num_values = 0;
    if (flxi_hlop_eat_word(p, "private") || flxi_hlop_eat_word(p, "nested"))
        f.is_public = false;
    else
        flxi_hlop_eat_word(p, "public");
    f.at = flxi_hlop_position(p);
    FLXI_TRY(parse_name(p, &f.name));
    FLXI_TRY(parse_arguments(p, &f, args));
    FLXI_TRY(parse_results(p, &f));
    FLXI_TRY(skip_attributes(p));
    if (flxi_hlop_peek(p) == '{') {
        FLXI_TRY(flxi_hlop_region(p, scope, args, &f.body));
        FLXI_TRY(flxi_hlop_check_return(p, &f));
    } else {
        f.is_declared_only = true;
        f.body.args = (const hlo_value *const *)HLO_TAKE(p, void *, items, args, &f.body.num_args);
        if (!f.body.args)
            return FLX_E_OOM;
        flxi_hlop_close_scope(p, scope);
    }
    f.num_values = p->num_values;
    FLXI_TRY(flxi_hlop_skip_location(p));
    return flxi_hlop_add_function(p, &f);
}

/* ---- The generic forms ---- */

static const hlo_attr *find_entry(const hlo_parser *p, size_t base, const char *name)
{
    for (size_t i = base; i < p->entries.n; i++)
        if (strcmp(p->entries.at[i].name, name) == 0)
            return p->entries.at[i].value;
    return NULL;
}

/* The dictionaries of arguments or results, where there are as many. */
static flx_code spread_attrs(hlo_parser *p, const hlo_attr *list, size_t n, const hlo_attr *const **out)
{
    const hlo_attr **attrs = flxi_new(p->arena, const hlo_attr *, n);
    if (!attrs)
        return flxi_hlop_oom(p);
    if (list && list->kind == HLO_A_ARRAY && list->num_items == n)
        for (size_t i = 0; i < n; i++)
            attrs[i] = list->items[i]->kind == HLO_A_DICT && list->items[i]->num_entries ? list->items[i] : NULL;
    *out = attrs;
    return FLX_OK;
}

/* () <{…}> */
static flx_code open_generic(hlo_parser *p, const hlo_draft *d)
{
    FLXI_TRY(flxi_hlop_expect(p, "("));
    FLXI_TRY(flxi_hlop_expect(p, ")"));
    if (!flxi_hlop_eat(p, "<"))
        return FLX_OK;
    FLXI_TRY(flxi_hlop_optional_dict(p, d));
    return flxi_hlop_expect(p, ">");
}

/* {…} : () -> () */
static flx_code close_generic(hlo_parser *p, const hlo_draft *d)
{
    const hlo_type *ignored;
    FLXI_TRY(flxi_hlop_optional_dict(p, d));
    FLXI_TRY(flxi_hlop_expect(p, ":"));
    FLXI_TRY(flxi_hlop_function_type(p, &ignored));
    return flxi_hlop_skip_location(p);
}

/* A region that may be empty: {} is that of a declaration. */
static flx_code parse_generic_body(hlo_parser *p, hlo_function *f)
{
    hlo_cursor start = p->c;
    f->is_declared_only = flxi_hlop_eat(p, "{") && flxi_hlop_eat(p, "}");
    if (f->is_declared_only)
        return FLX_OK;
    p->c = start;
    return flxi_hlop_region(p, p->scope.n, p->items.n, &f->body);
}

flx_code flxi_hlop_describe_function(hlo_parser *p, size_t base, hlo_function *f)
{
    const hlo_attr *name = find_entry(p, base, "sym_name");
    const hlo_attr *type = find_entry(p, base, "function_type");
    const hlo_attr *visibility = find_entry(p, base, "sym_visibility");
    if (!name || name->kind != HLO_A_STRING || !type || type->kind != HLO_A_TYPE || type->type->kind != HLO_FUNCTION)
        return flxi_hlop_fail_at(p, f->at, FLX_E_ATTRIBUTE, NULL, "func.func needs sym_name and function_type");
    f->name = name->text;
    f->is_public = !visibility || visibility->kind != HLO_A_STRING || strcmp(visibility->text, "public") == 0;
    f->results = type->type->results;
    f->num_results = type->type->num_results;
    size_t n = type->type->num_parts;
    if (f->is_declared_only) {
        const hlo_value **args = flxi_new(p->arena, const hlo_value *, n);
        if (!args)
            return flxi_hlop_oom(p);
        for (size_t i = 0; i < n; i++)
            if (!(args[i] = flxi_hlop_new_value(p, "", type->type->parts[i])))
                return FLX_E_OOM;
        f->body = (hlo_region){.args = args, .num_args = n};
    }
    bool is_same = f->body.num_args == n;
    for (size_t i = 0; is_same && i < n; i++)
        is_same = flxi_hlop_same_type(f->body.args[i]->type, type->type->parts[i]);
    if (!is_same)
        return flxi_hlop_fail_at(p, f->at, FLX_E_DTYPE, NULL,
                                 "the arguments of @%.80s are not those of its function_type", f->name);
    FLXI_TRY(spread_attrs(p, find_entry(p, base, "arg_attrs"), n, &f->arg_attrs));
    return spread_attrs(p, find_entry(p, base, "res_attrs"), f->num_results, &f->result_attrs);
}

/* After "func.func" */
static flx_code parse_generic_function(hlo_parser *p, hlo_location at)
{
    hlo_function f = {.at = at};
    hlo_draft d = {.name = "func.func", .at = at, .entries = p->entries.n};
    p->num_values = 0;
    FLXI_TRY(open_generic(p, &d));
    FLXI_TRY(flxi_hlop_expect(p, "("));
    FLXI_TRY(parse_generic_body(p, &f));
    FLXI_TRY(flxi_hlop_expect(p, ")"));
    FLXI_TRY(close_generic(p, &d));
    FLXI_TRY(flxi_hlop_describe_function(p, d.entries, &f));
    FLXI_TRY(flxi_hlop_check_return(p, &f));
    p->entries.n = d.entries;
    f.num_values = p->num_values;
    return flxi_hlop_add_function(p, &f);
}

static flx_code parse_items(hlo_parser *p, const char **module_name, char close);

/* After "builtin.module" */
static flx_code parse_generic_module(hlo_parser *p, hlo_location at, const char **module_name)
{
    hlo_draft d = {.name = "builtin.module", .at = at, .entries = p->entries.n};
    FLXI_TRY(open_generic(p, &d));
    FLXI_TRY(flxi_hlop_expect(p, "("));
    FLXI_TRY(flxi_hlop_expect(p, "{"));
    if (flxi_hlop_eat(p, "^")) {
        flxi_hlop_suffix(p);
        FLXI_TRY(flxi_hlop_expect(p, ":"));
    }
    FLXI_TRY(parse_items(p, module_name, '}'));
    FLXI_TRY(flxi_hlop_expect(p, ")"));
    FLXI_TRY(close_generic(p, &d));
    const hlo_attr *name = find_entry(p, d.entries, "sym_name");
    *module_name = name && name->kind == HLO_A_STRING ? name->text : NULL;
    p->entries.n = d.entries;
    return FLX_OK;
}

/* ---- Modules ---- */

/* After `module`: @name attributes {…} {…} */
static flx_code parse_module(hlo_parser *p, const char **module_name)
{
    if (flxi_hlop_peek(p) == '@')
        FLXI_TRY(parse_name(p, module_name));
    FLXI_TRY(skip_attributes(p));
    FLXI_TRY(flxi_hlop_expect(p, "{"));
    FLXI_TRY(parse_items(p, module_name, '}'));
    return flxi_hlop_skip_location(p);
}

static flx_code keep_mesh(hlo_parser *p, hlo_location at, const char *name, hlo_span text)
{
    hlo_named_mesh mesh = {name, flxi_hlop_keep(p, text), at};
    if (!mesh.text)
        return FLX_E_OOM;
    HLO_PUSH(p, meshes, mesh);
    return FLX_OK;
}

flx_code flxi_hlop_add_mesh(hlo_parser *p, hlo_location at, const hlo_attr *name, const hlo_attr *mesh)
{
    static const char start[] = "#sdy.mesh<";
    size_t n = sizeof start - 1;
    if (!name || name->kind != HLO_A_STRING || !mesh || mesh->kind != HLO_A_OPAQUE || mesh->length <= n ||
        strncmp(mesh->text, start, n) != 0)
        return FLX_OK;
    return keep_mesh(p, at, name->text, (hlo_span){mesh->text + n, mesh->length - n - 1});
}

/* sdy.mesh @mesh = <["x"=2]>: the devices that parts of the program run on. */
static flx_code parse_mesh(hlo_parser *p, hlo_location at)
{
    const char *name = NULL;
    FLXI_TRY(parse_name(p, &name));
    FLXI_TRY(flxi_hlop_expect(p, "="));
    FLXI_TRY(flxi_hlop_expect(p, "<"));
    const char *start = p->c.at;
    FLXI_TRY(flxi_hlop_skip_balanced(p, '>'));
    FLXI_TRY(keep_mesh(p, at, name, (hlo_span){start, (size_t)(p->c.at - start) - 1}));
    if (flxi_hlop_eat(p, "{"))
        FLXI_TRY(flxi_hlop_skip_balanced(p, '}'));
    return flxi_hlop_skip_location(p);
}

/* "sdy.mesh"() <{mesh = #sdy.mesh<["x"=2]>, sym_name = "mesh"}> : () -> () */
static flx_code parse_generic_mesh(hlo_parser *p, hlo_location at)
{
    hlo_draft d = {.name = "sdy.mesh", .at = at, .entries = p->entries.n};
    FLXI_TRY(open_generic(p, &d));
    FLXI_TRY(close_generic(p, &d));
    FLXI_TRY(flxi_hlop_add_mesh(p, at, find_entry(p, d.entries, "sym_name"), find_entry(p, d.entries, "mesh")));
    p->entries.n = d.entries;
    return FLX_OK;
}

static flx_code outside_function(hlo_parser *p, hlo_location at, hlo_span name)
{
    char text[64];
    flxi_printable(text, sizeof text, name.at, name.length < sizeof text ? name.length : sizeof text - 1);
    return flxi_hlop_fail_at(p, at, FLX_E_UNSUPPORTED, NULL, "%s is not allowed outside of functions", text);
}

static flx_code parse_quoted(hlo_parser *p, const char **module_name, bool is_inside)
{
    hlo_location at = flxi_hlop_position(p);
    hlo_span name;
    FLXI_TRY(flxi_hlop_string(p, &name));
    if (flxi_hlop_is(name, "func.func"))
        return parse_generic_function(p, at);
    if (flxi_hlop_is(name, "builtin.module") && !is_inside)
        return parse_generic_module(p, at, module_name);
    if (flxi_hlop_is(name, "sdy.mesh"))
        return parse_generic_mesh(p, at);
    return outside_function(p, at, name);
}

static flx_code parse_item(hlo_parser *p, const char **module_name, bool is_inside)
{
    hlo_location at = flxi_hlop_position(p);
    if (flxi_hlop_peek(p) == '"')
        return parse_quoted(p, module_name, is_inside);
    if (flxi_hlop_eat_word(p, "func.func") || flxi_hlop_eat_word(p, "func"))
        return parse_function(p);
    if (flxi_hlop_eat_word(p, "sdy.mesh"))
        return parse_mesh(p, at);
    if (flxi_hlop_eat_word(p, "module") || flxi_hlop_eat_word(p, "builtin.module")) {
        if (is_inside)
            return flxi_hlop_fail_at(p, at, FLX_E_UNSUPPORTED, NULL, "modules within modules are not supported");
        return parse_module(p, module_name);
    }
    hlo_span word = flxi_hlop_peek_word(p);
    if (memchr(word.at, '.', word.length))
        return outside_function(p, at, word);
    return flxi_hlop_expected(p, is_inside ? "a function or '}'" : "a module or a function");
}

/* The contents of a module up to `close`, or in the file up to its end. */
static flx_code parse_items(hlo_parser *p, const char **module_name, char close)
{
    const char closing[] = {close, 0};
    for (;;) {
        if (close ? flxi_hlop_eat(p, closing) : flxi_hlop_peek(p) == 0 && p->c.at == p->end)
            return FLX_OK;
        if (!close && flxi_hlop_eat(p, "#"))
            FLXI_TRY(flxi_hlop_define_alias(p, '#'));
        else if (!close && flxi_hlop_eat(p, "!"))
            FLXI_TRY(flxi_hlop_define_alias(p, '!'));
        else if (!close && flxi_hlop_eat(p, "{-#"))
            FLXI_TRY(flxi_hlop_skip_balanced(p, '}'));
        else
            FLXI_TRY(parse_item(p, module_name, close != 0));
    }
}

/* ---- Entry ---- */

/* Names of arguments whose locations are aliases, once all of these are known. */
static flx_code resolve_references(hlo_parser *p)
{
    hlo_cursor end = p->c;
    for (size_t i = 0; i < p->references.n; i++) {
        const hlo_reference *r = &p->references.at[i];
        const hlo_alias *alias = flxi_hlop_find_alias(p, HLO_ALIAS_LOCATION, r->alias);
        hlo_span other; /* of an alias of an alias, which is not looked up */
        if (!alias)
            continue;
        p->c = alias->data;
        FLXI_TRY(flxi_hlop_location(p, &r->argument->source, &other));
    }
    p->c = end;
    return FLX_OK;
}

static flx_code parse_text(hlo_parser *p, hlo_module *m)
{
    FLXI_TRY(parse_items(p, &m->name, 0));
    FLXI_TRY(resolve_references(p));
    m->meshes = HLO_TAKE(p, hlo_named_mesh, meshes, 0, &m->num_meshes);
    m->functions = HLO_TAKE(p, hlo_function, functions, 0, &m->num_functions);
    return m->functions && m->meshes ? FLX_OK : FLX_E_OOM;
}

void flxi_hlop_init(hlo_parser *p, const flxi_allocator *mem, flxi_arena *arena, const char *file, flx_error *err)
{
    *p = (hlo_parser){.file = file ? file : "text", .mem = mem, .arena = arena, .err = err, .names = {.arena = arena}};
    flxi_hlop_set_text(p, "", 0);
}

void flxi_hlop_set_text(hlo_parser *p, const char *text, size_t length)
{
    p->text = text;
    p->end = text + length;
    p->c = (hlo_cursor){.at = text, .line_start = text, .line = 1};
}

void flxi_hlop_free(hlo_parser *p)
{
    flxi_strings_free(&p->names);
    flxi_index_free(p->mem, &p->alias_index);
    flxi_index_free(p->mem, &p->symbols);
    flxi_vec_free(p->mem, &p->visible);
    flxi_vec_free(p->mem, &p->scope);
    flxi_vec_free(p->mem, &p->aliases);
    flxi_vec_free(p->mem, &p->references);
    flxi_vec_free(p->mem, &p->items);
    flxi_vec_free(p->mem, &p->entries);
    flxi_vec_free(p->mem, &p->ints);
    flxi_vec_free(p->mem, &p->reals);
    flxi_vec_free(p->mem, &p->uses);
    flxi_vec_free(p->mem, &p->regions);
    flxi_vec_free(p->mem, &p->targets);
    flxi_vec_free(p->mem, &p->functions);
    flxi_vec_free(p->mem, &p->meshes);
}

flx_code flxi_hlo_parse(const flxi_allocator *mem, const char *text, size_t length, const char *file, hlo_module *out,
                        flx_error *err)
{
    *out = (hlo_module){0};
    flxi_arena_init(&out->arena, mem);
    hlo_parser p;
    flxi_hlop_init(&p, mem, &out->arena, file, err);
    flxi_hlop_set_text(&p, text, length);
    flx_code code = parse_text(&p, out);
    flxi_hlop_free(&p);
    if (code != FLX_OK)
        flxi_hlo_module_free(out);
    return code;
}

void flxi_hlo_module_free(hlo_module *m)
{
    flxi_arena_free(&m->arena);
    m->functions = NULL;
    m->num_functions = 0;
    m->name = NULL;
}

const hlo_function *flxi_hlo_find(const hlo_module *m, const char *name)
{
    for (size_t i = 0; i < m->num_functions; i++)
        if (strcmp(m->functions[i].name, name) == 0)
            return &m->functions[i];
    return NULL;
}
