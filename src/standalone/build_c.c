/* SPDX-License-Identifier: Apache-2.0 */
/* build_c.c: flx_build_c(): which functions a file has, their programs, and the text as a whole. */
#include "autodiff/autodiff.h"
#include "base/context.h"
#include "base/options.h"
#include "graph/op/work.h"
#include "passes/pass.h"
#include "standalone/standalone.h"
#include "standalone/step_graph.h"

#include <ctype.h>
#include <fluxion/transform.h>

/* ---- Fields ---- */

static const flx_tensor *value_of(const flxi_sa_model *s, const char *name)
{
    return s->o->values ? flx_params_find(s->o->values, name) : NULL;
}

static flx_code check_value(const flxi_sa_model *s, const flxi_sa_field *p)
{
    flxi_type_text has, wants;
    if (s->o->params != FLX_BUILD_EMBED || p->is_state)
        return FLX_OK;
    if (!p->value)
        return flxi_fail_hint(s->err, FLX_E_MISSING_INPUT, "give values, or choose another way to get parameters",
                              "parameter '%.60s' has no value to embed", p->name);
    if (!flxi_type_equal(&p->value->type, p->type))
        return flxi_fail(s->err, FLX_E_SHAPE, "parameter '%.60s' is %s, but its value is %s", p->name,
                         flxi_type_str(s->f.ctx, p->type, &wants), flxi_type_str(s->f.ctx, &p->value->type, &has));
    return FLX_OK;
}

static bool has_field(const flxi_sa_model *s, const char *name)
{
    for (size_t i = 0; i < s->fields.n; i++)
        if (strcmp(s->fields.at[i].name, name) == 0)
            return true;
    return false;
}

/* The parameters of a function's graph that the model does not have yet. */
static flx_code add_fields(flxi_sa_model *s, const flx_graph *g, size_t first_state)
{
    for (size_t i = 0; i < g->leaves.n; i++) {
        const flxi_value *v = flxi_value_at(g, g->leaves.at[i]);
        if (!flxi_is_param(flxi_node_at(g, v->node)) || has_field(s, v->name))
            continue;
        flxi_sa_field p = {.name = flxi_sa_text(&s->f, "%.200s", v->name), .is_state = i >= first_state};
        flx_type *type = flxi_new(&s->f.arena, flx_type, 1);
        if (!type)
            return flxi_oom(s->err, "C text");
        *type = *v->type;
        p.type = type;
        p.value = p.is_state ? NULL : value_of(s, p.name);
        p.field = flxi_sa_identifier(&s->f, p.name);
        for (size_t k = 0; k < s->fields.n; k++)
            if (strcmp(s->fields.at[k].field, p.field) == 0)
                p.field = flxi_sa_text(&s->f, "%.60s_%zu", p.field, s->fields.n);
        flxi_static_bytes(type, &p.nbytes);
        FLXI_TRY(check_value(s, &p));
        if (!flxi_push(s->f.mem, &s->fields, p))
            return flxi_oom(s->err, "C text");
    }
    return FLX_OK;
}

/* ---- Functions ---- */

/* Whether a node is computed alone only because its group could not be compiled: then each node is a kernel of its
   own. */
static bool has_defect(const flxi_program *m)
{
    for (size_t i = 0; i < m->all_steps.n; i++)
        if (m->all_steps.at[i].routine->steps[m->all_steps.at[i].step].is_defect)
            return true;
    return false;
}

/* What is left of the budget for the plan of a function: a step keeps its guard after that, and both are padded. */
static int64_t budget_of(const flxi_sa_model *s, flxi_sa_kind kind)
{
    enum { ROOM_OF_GUARD = 128 };
    int64_t budget = s->o->memory_budget;
    return kind == SA_STEP && budget > ROOM_OF_GUARD ? budget - ROOM_OF_GUARD : budget;
}

static const flxi_device *device_of(const flxi_sa_file *f)
{
    bool has_vectors = f->vector_bytes && !f->num_symbols;
    if (f->threads)
        return has_vectors ? &flxi_device_standalone_vectors_threads : &flxi_device_standalone_threads;
    return has_vectors ? &flxi_device_standalone_vectors : &flxi_device_standalone;
}

static flx_code add_function(flxi_sa_model *s, const flx_graph *g, flxi_sa_kind kind, const char *suffix,
                             size_t first_state, const flx_compile_options *given)
{
    flxi_sa_function *fn = &s->functions[s->num_functions++];
    flx_compile_options o = {.struct_size = sizeof o, .threads = 1};
    if (given) {
        o.flags = given->flags;
        o.shares = given->shares;
        o.num_shares = given->num_shares;
    }
    o.memory_budget = budget_of(s, kind);
    fn->kind = kind;
    fn->name = flxi_sa_text(&s->f, "%s_%s", s->f.prefix, suffix);
    fn->num_results = g->outputs.n;
    FLXI_TRY(add_fields(s, g, first_state));
    FLXI_TRY(flxi_program_compile(&fn->program, g, NULL, &s->device, &o, s->err));
    if (has_defect(&fn->program)) {
        flxi_program_free(&fn->program);
        o.flags |= FLX_COMPILE_UNGROUPED;
        flxi_log(g->ctx, FLX_LOG_REFUSED, fn->name, "each op is a loop of its own: a group could not be compiled");
        FLXI_TRY(flxi_program_compile(&fn->program, g, NULL, &s->device, &o, s->err));
    }
    if (fn->program.note[0])
        return flxi_fail(s->err, FLX_E_INTERNAL, "C text: %.200s", fn->program.note);
    return FLX_OK;
}

static flx_code add_gradient(flxi_sa_model *s)
{
    const flx_graph *g = s->g;
    const char **wrt = flxi_new(&s->f.arena, const char *, g->leaves.n);
    size_t n = 0;
    if (!wrt)
        return flxi_oom(s->err, "C text");
    for (size_t i = 0; i < g->leaves.n; i++) {
        const flxi_value *v = flxi_value_at(g, g->leaves.at[i]);
        if (flxi_is_param(flxi_node_at(g, v->node)) && flxi_in(FLXI_FLOATS | FLXI_COMPLEX, v->type->dtype))
            wrt[n++] = v->name;
    }
    if (n == 0)
        return flxi_fail_hint(s->err, FLX_E_USAGE, "declare with `param` what the gradient is taken of",
                              "graph '%.60s' has no parameters to differentiate", g->name);
    const flx_grad_options o = {sizeof o, FLX_GRAD_VALUE | FLX_GRAD_MISSING_ZERO};
    flx_graph *d = flx_grad(g, wrt, n, &o, s->err);
    if (!d && s->err->code == FLX_E_NON_SCALAR)
        flxi_hint(s->err, "the first output of a graph with a gradient must be a scalar: reduce it to one element");
    if (!d)
        return (flx_code)s->err->code;
    flx_code code = add_function(s, d, SA_GRAD, "grad", SIZE_MAX, NULL);
    flx_graph_release(d);
    return code;
}

/* Parameters and states are updated in place where the order of the steps permits it. */
static flx_code compile_step(flxi_sa_model *s, const flxi_sa_step *step)
{
    flx_share *shares = flxi_new(&s->f.arena, flx_share, step->num_updated);
    bool *is_in_place = flxi_new(&s->f.arena, bool, step->num_updated);
    if (!shares || !is_in_place)
        return flxi_oom(s->err, "C text");
    for (size_t j = 0; j < step->num_updated; j++)
        shares[j] = (flx_share){step->updated[j], step->num_results + j};
    const flx_compile_options o = {.flags = FLX_COMPILE_ATOMIC, .shares = shares, .num_shares = step->num_updated};
    FLXI_TRY(add_function(s, step->g, SA_STEP, "step", step->first_state, &o));
    flxi_sa_function *fn = &s->functions[s->num_functions - 1];
    for (size_t j = 0; j < step->num_updated; j++)
        is_in_place[j] =
            flxi_routine_may_share(&fn->program, fn->program.main, step->updated[j], step->num_results + j);
    fn->num_results = step->num_results;
    fn->num_updated = step->num_updated;
    fn->guard = step->guard;
    fn->updated = step->updated;
    fn->is_in_place = is_in_place;
    return FLX_OK;
}

static flx_code add_step(flxi_sa_model *s)
{
    flxi_sa_step step;
    flx_code code = flxi_sa_step_graph(s->g, s->o->train, &s->f.arena, &step, s->err);
    if (code == FLX_OK)
        code = compile_step(s, &step);
    flx_graph_release(step.g);
    return code;
}

static flx_code add_functions(flxi_sa_model *s)
{
    s->trains = s->o->train != NULL;
    FLXI_TRY(add_function(s, s->g, SA_RUN, "run", SIZE_MAX, NULL));
    if (s->o->flags & FLX_BUILD_GRAD)
        FLXI_TRY(add_gradient(s));
    if (s->trains)
        FLXI_TRY(add_step(s));
    return FLX_OK;
}

/* ---- The text ---- */

static void add_buffer(flxi_strbuf *out, const flxi_strbuf *b)
{
    out->failed |= b->failed;
    if (b->at)
        flxi_add_bytes(out, b->at, b->n);
}

static const char *plain_types(const void *user, const char *name, size_t n)
{
    (void)user;
    return flxi_sa_word(name, n);
}

/* Declarations with the guards of a header. */
static void write_header(flxi_sa_model *s, const flxi_strbuf *declarations, flxi_strbuf *out)
{
    const char *guard = flxi_sa_text(&s->f, "%s_STANDALONE_H", flxi_sa_capitals(&s->f));
    flxi_addf(out, "/* %s: the interface of a model that Fluxion wrote as C. */\n#ifndef %s\n#define %s\n\n",
              s->f.prefix, guard, guard);
    if (s->f.threads == FLX_BUILD_PTHREADS)
        flxi_sa_threads_include(&s->f, out);
    flxi_add_text(out, "#include <stddef.h>\n#include <stdint.h>\n\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n");
    add_buffer(out, declarations);
    flxi_add_text(out, "\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n");
}

/* The functions that kernels and parts call. */
static void write_functions(flxi_sa_model *s, flxi_strbuf *out)
{
    const flxi_strbuf *functions = &s->f.kernels.functions;
    flxi_strbuf used;
    if (!functions->n)
        return;
    flxi_strbuf_init(&used, s->f.mem);
    if (s->f.vector_bytes)
        add_buffer(&used, functions);
    else
        flxi_sa_keep_used(&s->f, functions, &s->f.code, &used);
    if (used.at) {
        flxi_strbuf plain;
        flxi_strbuf_init(&plain, s->f.mem);
        flxi_sa_rewrite(&plain, used.at, used.n, plain_types, NULL);
        if (s->f.vector_bytes) {
            flxi_add_char(out, '\n');
            add_buffer(out, &plain);
        } else {
            flxi_sa_spread(&plain, out);
        }
        flxi_strbuf_free(&plain);
    }
    out->failed |= used.failed;
    flxi_strbuf_free(&used);
}

/* Warnings about what only a person would write by mistake: in texts with vectors several; in others comparisons with 0
   of integers that were widened, which are always true where they were unsigned. */
static void write_pragmas(const flxi_sa_model *s, flxi_strbuf *out)
{
    static const char *const of_vectors[] = {"parentheses", "psabi", "unused-variable", "unused-function",
                                             "type-limits"};
    bool has_zeros = s->f.code.at && (strstr(s->f.code.at, "(int64_t)0u") || strstr(s->f.code.at, "(int32_t)0u"));
    size_t n = sizeof of_vectors / sizeof *of_vectors, first = s->f.vector_bytes ? 0 : n - 1;
    if (!s->f.vector_bytes && !has_zeros)
        return;
    flxi_add_text(out, "#if defined(__GNUC__)\n");
    for (size_t i = first; i < n; i++)
        flxi_addf(out, "#pragma GCC diagnostic ignored \"-W%s\"\n", of_vectors[i]);
    flxi_add_text(out, "#endif\n");
}

static void write_source(flxi_sa_model *s, const flxi_strbuf *declarations, flxi_strbuf *out)
{
    flxi_addf(out,
              "/* %s: a model that Fluxion wrote as C99. It needs memcpy, memset and <math.h>, allocates nothing, and "
              "has no\n"
              "   state but that of a `%s`: any number of them may be used, each by one thread at a time.\n"
              "   Compile with -O2 -ffp-contract=off (and -lm): products and sums must not be contracted. */\n",
              s->f.prefix, s->f.prefix);
    write_pragmas(s, out);
    if (s->o->header)
        flxi_addf(out, "#include \"%s\"\n\n", s->o->header);
    if (flxi_sa_mentions(&s->f.code, "_Complex"))
        flxi_add_text(out, "#include <complex.h>\n");
    if (flxi_sa_mentions(&s->f.code, "DBL_EPSILON"))
        flxi_add_text(out, "#include <float.h>\n");
    flxi_add_text(out, "#include <math.h>\n");
    flxi_sa_threads_include(&s->f, out);
    flxi_add_text(out, "#include <stddef.h>\n#include <stdint.h>\n#include <string.h>\n");
    if (!s->o->header) {
        flxi_add_char(out, '\n');
        add_buffer(out, declarations);
    }
    add_buffer(out, &s->f.data);
    write_functions(s, out);
    flxi_sa_threads_define(&s->f, out);
    add_buffer(out, &s->f.code);
    add_buffer(out, &s->f.entries);
}

/* ---- Sizes ---- */

/* By number of a routine: its sum + 1; 0 before it is known. Routines are shared: each is summed once. */
typedef struct {
    int64_t *known;
    uint32_t num_routines;
} counter;

static int64_t times(int64_t a, int64_t b)
{
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

static int64_t routine_flops(counter *c, const flxi_routine *l);

static int64_t bodies_flops(counter *c, const flxi_routine *l, const flxi_step *s)
{
    int64_t sum = 0, most = 0;
    for (uint32_t k = 0; k < s->num_bodies; k++) {
        int64_t one = routine_flops(c, s->bodies[k]);
        sum = flxi_plus(sum, one);
        most = one > most ? one : most;
    }
    switch (s->kind) {
    case STEP_SCAN: return times(sum, flxi_sa_scan_length(l->g, flxi_node_at(l->g, s->node)));
    case STEP_BRANCH: return most;
    default: return sum;
    }
}

/* Products of integers count too, although they are not floating-point operations. */
static int64_t step_flops(const flxi_routine *l, const flxi_step *s)
{
    flxi_work work = {0};
    const flxi_node *n = flxi_node_at(l->g, s->node);
    const flxi_rules *r = flxi_ops[n->op].rules;
    if (s->flops == 0 && s->kind == STEP_ROUTE && r->work)
        r->work(l->g, n, &work);
    return s->flops ? s->flops : work.flops;
}

static int64_t routine_flops(counter *c, const flxi_routine *l)
{
    int64_t *known = l->number < c->num_routines ? &c->known[l->number] : NULL;
    if (known && *known)
        return *known - 1;
    int64_t sum = 0;
    for (uint32_t i = 0; i < l->num_steps; i++) {
        sum = flxi_plus(sum, step_flops(l, &l->steps[i]));
        sum = flxi_plus(sum, bodies_flops(c, l, &l->steps[i]));
    }
    if (known)
        *known = sum < INT64_MAX ? sum + 1 : sum;
    return sum;
}

/* Of one call of each function. The body of a scan counts once for each of its steps, of branches the one with the
   most; a while loop, whose rounds are not known, counts one. */
static int64_t flops_of(flxi_sa_model *s)
{
    int64_t sum = 0;
    for (size_t i = 0; i < s->num_functions; i++) {
        const flxi_program *m = &s->functions[i].program;
        counter c = {flxi_new(&s->f.arena, int64_t, m->num_routines), m->num_routines};
        s->f.failed |= !c.known;
        sum = c.known ? flxi_plus(sum, routine_flops(&c, m->main)) : sum;
    }
    return sum;
}

void flxi_sa_model_measure(flxi_sa_model *s)
{
    for (size_t i = 0; i < s->num_functions; i++) {
        flxi_sa_function *fn = &s->functions[i];
        size_t own = fn->program.main->arena_bytes;
        fn->updates_at = s->f.num_symbols ? own : (own + 63) / 64 * 64; /* a multiple of 16 */
        fn->arena_bytes = fn->updates_at + flxi_sa_hidden_bytes(fn);
        flxi_sa_find_tables(&s->f, fn->program.main);
    }
}

/* What training changes comes first: its place does not depend on extents. */
void flxi_sa_model_sizes(flxi_sa_model *s, size_t arena_bytes, flx_build_sizes *sizes)
{
    s->arena_bytes = arena_bytes;
    for (size_t i = 0; s->trains && i < s->fields.n; i++) {
        s->fields.at[i].offset = s->fields_bytes;
        s->fields_bytes += (s->fields.at[i].nbytes + 63) / 64 * 64;
    }
    s->fields_bytes += s->f.table_bytes;
    s->memory_bytes = s->fields_bytes + s->arena_bytes;
    s->needs_memory = s->memory_bytes > 0;
    s->memory_bytes = s->needs_memory ? s->memory_bytes : 16; /* an array of it must have elements */
    *sizes = (flx_build_sizes){.struct_size = sizeof *sizes,
                               .arena_bytes = (int64_t)s->arena_bytes,
                               .memory_bytes = (int64_t)s->memory_bytes,
                               .flops = flops_of(s)};
}

flx_code flxi_sa_model_write(flxi_sa_model *s, flx_buffer *source, flx_buffer *header)
{
    flxi_strbuf declarations, text, head;
    flxi_strbuf_init(&declarations, s->f.mem);
    flxi_strbuf_init(&text, s->f.mem);
    flxi_strbuf_init(&head, s->f.mem);
    flx_code code = flxi_sa_interface(s, &declarations);
    if (code == FLX_OK) {
        write_source(s, &declarations, &text);
        if (s->o->header)
            write_header(s, &declarations, &head);
        if (!s->f.num_symbols) {
            flxi_sa_wrap(&text);
            flxi_sa_wrap(&head);
        }
        bool failed = s->f.failed || s->f.kernels.failed || s->f.kernels.functions.failed || declarations.failed;
        if (failed || text.failed || head.failed)
            code = flxi_oom(s->err, "C text");
    }
    flxi_strbuf_free(&declarations);
    if (code == FLX_OK)
        code = flxi_buffer_finish(&text, s->f.ctx, source, s->err);
    else
        flxi_strbuf_free(&text);
    if (code == FLX_OK && header)
        return flxi_buffer_finish(&head, s->f.ctx, header, s->err);
    flxi_strbuf_free(&head);
    return code;
}

/* ---- The public function ---- */

static bool is_c_name(const char *name)
{
    const char *p = name;
    while (isalpha((unsigned char)*p) || *p == '_' || (p > name && isdigit((unsigned char)*p)))
        p++;
    return p > name && !*p;
}

static flx_code check_options(const flx_build_options *o, flx_error *err)
{
    if (o->flags & ~(uint32_t)(FLX_BUILD_GRAD | FLX_BUILD_TABLES | FLX_BUILD_FUSED))
        return flxi_fail(err, FLX_E_USAGE, "flx_build_c: unknown flags 0x%x", (unsigned)o->flags);
    if (o->name && !is_c_name(o->name))
        return flxi_fail_hint(err, FLX_E_USAGE, "letters, digits and _ make a name, and no digit is first",
                              "'%.60s' cannot be the prefix of names in C", o->name);
    if (o->params < FLX_BUILD_CALLER || o->params > FLX_BUILD_FILE)
        return flxi_fail(err, FLX_E_USAGE, "flx_build_c: %d is no way to get parameters", o->params);
    if (o->vector_bytes != 0 && o->vector_bytes != 16 && o->vector_bytes != 32 && o->vector_bytes != 64)
        return flxi_fail(err, FLX_E_USAGE, "flx_build_c: vectors of %d bytes; there are 16, 32 and 64",
                         o->vector_bytes);
    if (o->threads < FLX_BUILD_ONE_THREAD || o->threads > FLX_BUILD_OPENMP)
        return flxi_fail(err, FLX_E_USAGE, "flx_build_c: %d is no kind of threads", o->threads);
    if (o->memory_budget < 0)
        return flxi_fail(err, FLX_E_USAGE, "flx_build_c: memory_budget is %lld", (long long)o->memory_budget);
    return FLX_OK;
}

void flxi_sa_model_free(flxi_sa_model *s)
{
    if (!s)
        return;
    const flxi_allocator *mem = s->f.mem;
    for (size_t i = 0; i < s->num_functions; i++)
        flxi_program_free(&s->functions[i].program);
    flxi_vec_free(mem, &s->fields);
    flxi_sa_file_free(&s->f);
    flxi_free(mem, s, 1, sizeof *s);
}

/* Those of the interface, which a parameter may be called like. */
static void keep_names(flxi_sa_file *f)
{
    static const char *const names[] = {
        "init",         "run",   "grad", "step",  "load", "arena_bytes", "ARENA_BYTES", "MEMORY_BYTES",
        "STANDALONE_H", "start", "stop", "share", "team", "help",        "do_part",     "MAX_THREADS"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        flxi_sa_name(f, names[i]);
    for (size_t i = 0; flxi_sa_code_name(i); i++)
        flxi_sa_name(f, flxi_sa_code_name(i));
}

/* A function `main` is the program's own, not that of a model. */
static const char *prefix_of(const flx_graph *g)
{
    return g->name && *g->name && strcmp(g->name, "main") != 0 ? g->name : "model";
}

flx_code flxi_sa_model_open(const flx_graph *g, const flx_build_options *o, const flxi_sa_symbols *symbols,
                            flxi_sa_model **out, flx_error *err)
{
    flxi_sa_model *s = flxi_alloc(flxi_context_mem(g->ctx), 1, sizeof *s);
    *out = s;
    if (!s)
        return flxi_oom(err, "C text");
    *s = (flxi_sa_model){.o = o, .g = g, .err = err};
    flxi_sa_file_init(&s->f, g->ctx);
    s->f.vector_bytes = (unsigned)o->vector_bytes;
    s->f.fuses = o->vector_bytes >= 32 || (o->flags & FLX_BUILD_FUSED);
    s->f.threads = o->threads;
    s->f.prefix = flxi_sa_identifier(&s->f, o->name ? o->name : prefix_of(g));
    s->f.symbols = symbols->names;
    s->f.num_symbols = symbols->n;
    s->device = *device_of(&s->f);
    for (size_t i = 0; i < symbols->n; i++)
        s->device.free_extents[i] = symbols->extents[i];
    keep_names(&s->f);
    return add_functions(s);
}

/* Plans fit the budget; next values that cannot be written in place come on top. */
static flx_code check_budget(const flxi_sa_model *s, size_t arena_bytes)
{
    int64_t budget = s->o->memory_budget;
    if (!budget || (int64_t)arena_bytes <= budget)
        return FLX_OK;
    return flxi_fail_hint(s->err, FLX_E_SIZE, "give a larger budget, or smaller inputs",
                          "'%.60s' works in %zu bytes: the budget of %lld is too small", s->g->name, arena_bytes,
                          (long long)budget);
}

static flx_code build(const flx_graph *g, const flx_build_options *o, flx_buffer *source, flx_buffer *header,
                      flx_build_sizes *sizes, flx_error *err)
{
    flxi_sa_model *s;
    flx_build_sizes full;
    flx_code code = flxi_sa_model_open(g, o, &(flxi_sa_symbols){0}, &s, err);
    if (code == FLX_OK) {
        size_t most = 0;
        flxi_sa_model_measure(s);
        for (size_t i = 0; i < s->num_functions; i++)
            most = s->functions[i].arena_bytes > most ? s->functions[i].arena_bytes : most;
        flxi_sa_model_sizes(s, most, &full);
        code = check_budget(s, most);
    }
    if (code == FLX_OK)
        code = flxi_sa_model_write(s, source, header);
    if (code == FLX_OK && sizes) {
        full.num_functions = (uint32_t)s->f.statics.n;
        full.constant_bytes = (int64_t)s->f.constant_bytes;
        full.text_bytes = (int64_t)source->size;
        code = FLXI_FILL_OPTIONS(flx_build_sizes, sizes, &full, err);
    }
    flxi_sa_model_free(s);
    return code;
}

flx_code flx_build_c(const flx_graph *g, const flx_build_options *options, flx_buffer *source, flx_buffer *header,
                     flx_build_sizes *sizes, flx_error *err)
{
    flx_build_options o;
    flx_error own = {0};
    err = err ? err : &own;
    if (source)
        *source = (flx_buffer){0};
    if (header)
        *header = (flx_buffer){0};
    if (!g || !source)
        return flxi_fail(err, FLX_E_USAGE, "flx_build_c: %s is NULL", g ? "the result" : "the graph");
    FLXI_TRY(flxi_graph_check(g, err));
    FLXI_TRY(FLXI_READ_OPTIONS(flx_build_options, &o, options, err));
    FLXI_TRY(check_options(&o, err));
    flx_graph *bound = flx_specialise(g, o.dims, o.num_dims, err);
    if (!bound)
        return (flx_code)err->code;
    if (o.memory_budget && flx_graph_symbol(bound, 0)) {
        flx_code refused = flxi_fail_hint(err, FLX_E_UNBOUND_DIM, "give all extents: --set (flx_build_options.dims)",
                                          "a budget of memory needs the extent of '%.60s'", flx_graph_symbol(bound, 0));
        flx_graph_release(bound);
        return refused;
    }
    flx_code code =
        (flx_graph_symbol(bound, 0) ? flxi_sa_build_symbolic : build)(bound, &o, source, header, sizes, err);
    if (code != FLX_OK) {
        flx_buffer_free(source);
        if (header)
            flx_buffer_free(header);
    }
    flx_graph_release(bound);
    return code;
}
