/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_rewrite.c: copying a program through a builder, with hooks. */
#include "kernel/program/kernel_rewrite.h"

#include <ctype.h>

#define FOREVER UINT32_MAX /* a round that never ends */

static bool fail_memory(flxi_krewrite *r)
{
    if (flxi_kb_ok(r->to))
        flxi_oom(&r->to->err, "a kernel");
    return false;
}

void *flxi_krewrite_alloc(flxi_krewrite *r, size_t count, size_t size)
{
    void *p = flxi_arena_alloc(&r->arena, count, size, _Alignof(max_align_t));
    if (!p)
        fail_memory(r);
    return p;
}

/* ---- Expressions ---- */

static uint32_t map_opaque(flxi_krewrite *r, uint32_t opaque)
{
    if (!r->opaques[opaque])
        r->opaques[opaque] = flxi_kb_add_opaque(r->to, &r->from->opaques[opaque]);
    return r->opaques[opaque];
}

/* The old expression with the numbers of the new program. */
static flxi_kx renumbered(flxi_krewrite *r, const flxi_kx *e)
{
    flxi_kx n = *e;
    switch ((flxi_kx_kind)e->kind) {
    case KX_LOAD:
    case KX_LENGTH:
    case KX_ATOMIC: n.ref = r->buffers[e->ref]; break;
    case KX_CALL: n.ref = r->fns[e->ref]; break;
    case KX_OPAQUE: n.ref = map_opaque(r, e->ref); break;
    default: break;
    }
    return n;
}

uint32_t flxi_krewrite_rebuild(flxi_krewrite *r, const flxi_kx *e, const uint32_t *x, const uint32_t *args)
{
    flxi_kx n = renumbered(r, e);
    uint32_t made = flxi_kb_rebuild(r->to, &n, x, args);
    return made && r->hooks->node ? r->hooks->node(r, made) : made;
}

static uint32_t map_expr(flxi_krewrite *r, uint32_t number);

static uint32_t read_var(flxi_krewrite *r, uint32_t var)
{
    if (r->values[var])
        return r->values[var];
    if (!r->reads[var])
        r->reads[var] = flxi_kb_var(r->to, r->vars[var]);
    return r->reads[var] && r->hooks->node ? r->hooks->node(r, r->reads[var]) : r->reads[var];
}

static uint32_t rebuild(flxi_krewrite *r, const flxi_kx *e)
{
    uint32_t x[3] = {0};
    uint32_t *args = NULL;
    if (e->kind == KX_VAR)
        return read_var(r, e->ref);
    for (int i = 0; i < flxi_kx_operands(e); i++)
        x[i] = map_expr(r, e->x[i]);
    if (e->num_args && !(args = flxi_krewrite_alloc(r, e->num_args, sizeof *args)))
        return 0;
    for (size_t i = 0; i < e->num_args; i++)
        args[i] = map_expr(r, e->args[i]);
    return flxi_krewrite_rebuild(r, e, x, args);
}

static uint32_t map_expr(flxi_krewrite *r, uint32_t number)
{
    if (!number || !flxi_kb_ok(r->to))
        return 0;
    if (r->made_in[number] == r->round || r->made_in[number] == FOREVER)
        return r->made[number];
    const flxi_kx *e = &r->from->exprs[number];
    uint32_t made = r->hooks->expr ? r->hooks->expr(r, number) : 0;
    if (!made)
        made = rebuild(r, e);
    r->made[number] = made;
    r->made_in[number] = r->hooks->is_blind && !(e->does & KX_VARIES) ? FOREVER : r->round;
    return made;
}

uint32_t flxi_krewrite_expr(flxi_krewrite *r, uint32_t e)
{
    r->round++;
    return map_expr(r, e);
}

/* ---- Names ---- */

/* Also registers all names of the old program with the builder, so that fresh names differ from names still to come. */
static bool count_names(flxi_krewrite *r)
{
    const flx_kernel *k = r->from;
    flxi_strings *names = &r->to->texts;
    uint32_t *uses = flxi_krewrite_alloc(r, (size_t)k->num_vars + 1, sizeof *uses);
    size_t *number = flxi_krewrite_alloc(r, (size_t)k->num_vars + 1, sizeof *number);
    if (!uses || !number)
        return false;
    for (uint32_t v = 1; v <= k->num_vars; v++)
        if ((number[v] = flxi_intern_number(names, k->vars[v].name, strlen(k->vars[v].name))) == SIZE_MAX)
            return fail_memory(r);
    uint32_t *count = flxi_krewrite_alloc(r, names->texts.n, sizeof *count);
    if (!count)
        return false;
    for (uint32_t v = 1; v <= k->num_vars; v++)
        count[number[v]]++;
    for (uint32_t v = 1; v <= k->num_vars; v++)
        uses[v] = count[number[v]];
    r->name_uses = uses;
    return true;
}

const char *flxi_krewrite_fresh_name(flxi_krewrite *r, const char *stem)
{
    if (!r->name_uses && !count_names(r))
        return stem;
    /* a_2 gives a_3, not a_2_3 */
    size_t n = strlen(stem);
    while (n > 1 && isdigit((unsigned char)stem[n - 1]))
        n--;
    char base[1100];
    if (stem[n] && n > 1 && stem[n - 1] == '_' && n <= sizeof base) {
        memcpy(base, stem, n - 1);
        base[n - 1] = 0;
        stem = base;
    }
    const char *name = flxi_kb_fresh_name(r->to, stem);
    return name ? name : "";
}

/* ---- Statements ---- */

void flxi_krewrite_bind(flxi_krewrite *r, uint32_t var, uint32_t made)
{
    const flxi_allocator *mem = flxi_kernel_mem(r->from);
    r->vars[var] = made;
    r->values[var] = 0;
    r->reads[var] = 0;
    while (r->sources.n <= made)
        if (!flxi_push(mem, &r->sources, 0)) {
            fail_memory(r);
            return;
        }
    r->sources.at[made] = var;
}

uint32_t flxi_krewrite_source(const flxi_krewrite *r, uint32_t made)
{
    return made < r->sources.n ? r->sources.at[made] : 0;
}

static const char *name_of(flxi_krewrite *r, uint32_t var, flxi_knames naming)
{
    const char *name = r->from->vars[var].name;
    if (naming == KNAMES_KEPT || (!r->name_uses && !count_names(r)))
        return name;
    bool is_kept = (naming == KNAMES_APART || naming == KNAMES_ALL_APART) && r->name_uses[var] == 1;
    return is_kept ? name : flxi_krewrite_fresh_name(r, name);
}

void flxi_krewrite_let_named(flxi_krewrite *r, uint32_t var, uint32_t value, flxi_knames naming)
{
    flxi_krewrite_bind(r, var, flxi_kb_let(r->to, name_of(r, var, naming), value));
}

void flxi_krewrite_let(flxi_krewrite *r, uint32_t var, uint32_t value)
{
    flxi_krewrite_let_named(r, var, value, r->naming);
}

static void copy_simple(flxi_krewrite *r, const flxi_ks *s)
{
    flxi_ks n = *s;
    n.a = flxi_krewrite_expr(r, s->a);
    n.b = flxi_krewrite_expr(r, s->b);
    n.buffer = s->buffer ? r->buffers[s->buffer] : 0;
    n.target = s->target ? r->buffers[s->target] : 0;
    n.opaque = s->opaque ? map_opaque(r, s->opaque) : 0;
    flxi_kb_simple(r->to, &n);
}

static void copy_loop(flxi_krewrite *r, const flxi_ks *s)
{
    uint32_t from = flxi_krewrite_expr(r, s->a);
    uint32_t to = flxi_krewrite_expr(r, s->b);
    const char *name = name_of(r, s->var, r->naming >= KNAMES_ALL_APART ? r->naming : KNAMES_KEPT);
    flxi_krewrite_bind(r, s->var, flxi_kb_loop(r->to, name, from, to));
    flxi_krewrite_list(r, s->body);
    flxi_kb_end(r->to);
}

static void copy_if(flxi_krewrite *r, const flxi_ks *s)
{
    flxi_kb_if(r->to, flxi_krewrite_expr(r, s->a));
    flxi_krewrite_list(r, s->body);
    if (s->other.n) {
        flxi_kb_else(r->to);
        flxi_krewrite_list(r, s->other);
    }
    flxi_kb_end(r->to);
}

void flxi_krewrite_stmt(flxi_krewrite *r, const flxi_ks *s)
{
    switch ((flxi_ks_kind)s->kind) {
    case KS_NONE:
    case KS_KIND_COUNT: break;
    case KS_LET: flxi_krewrite_let(r, s->var, flxi_krewrite_expr(r, s->a)); break;
    case KS_ASSIGN: {
        uint32_t value = flxi_krewrite_expr(r, s->a);
        flxi_kb_assign(r->to, r->vars[s->var], value);
        break;
    }
    case KS_IF: copy_if(r, s); break;
    case KS_LOOP: copy_loop(r, s); break;
    case KS_BLOCK:
        flxi_kb_block(r->to);
        flxi_krewrite_list(r, s->body);
        flxi_kb_end(r->to);
        break;
    case KS_REGION:
        flxi_kb_region(r->to, s->text, s->source, s->flags);
        flxi_krewrite_list(r, s->body);
        flxi_kb_end(r->to);
        break;
    case KS_RETURN:
        r->ended = true;
        flxi_kb_return(r->to);
        break;
    default: copy_simple(r, s); break;
    }
}

static uint32_t count_positions(const flxi_ks *s)
{
    uint32_t n = 1;
    for (size_t i = 0; i < s->body.n; i++)
        n += count_positions(&s->body.at[i]);
    for (size_t i = 0; i < s->other.n; i++)
        n += count_positions(&s->other.at[i]);
    return n;
}

static void copy_list(flxi_krewrite *r, flxi_klist list)
{
    for (size_t i = 0; i < list.n && flxi_kb_ok(r->to); i++) {
        const flxi_ks *s = &list.at[i];
        uint32_t at = ++r->at;
        r->to->position = s->position;
        r->to->marks = s->kind == KS_REGION ? 0 : s->flags;
        if (r->ended)
            r->at = at + count_positions(s) - 1;
        else if (r->hooks->stmt && r->hooks->stmt(r, s))
            r->at = at + count_positions(s) - 1; /* the hook may have skipped bodies, or copied them twice */
        else
            flxi_krewrite_stmt(r, s);
    }
}

static void open_list(flxi_krewrite *r, flxi_klist list)
{
    if (r->hooks->open)
        r->hooks->open(r, list);
}

static void close_list(flxi_krewrite *r, flxi_klist list)
{
    if (r->hooks->close)
        r->hooks->close(r, list);
}

void flxi_krewrite_list(flxi_krewrite *r, flxi_klist list)
{
    flxi_knames naming = r->naming;
    bool is_ended = r->ended;
    r->naming = naming >= KNAMES_ALL_APART ? naming : KNAMES_KEPT;
    r->ended = false;
    open_list(r, list);
    copy_list(r, list);
    close_list(r, list);
    r->naming = naming;
    r->ended = is_ended;
}

void flxi_krewrite_splice(flxi_krewrite *r, flxi_klist list, flxi_knames naming)
{
    flxi_knames outer = r->naming;
    if (outer < naming)
        r->naming = naming;
    copy_list(r, list);
    r->naming = outer;
}

void flxi_krewrite_skip(flxi_krewrite *r, flxi_klist list)
{
    for (size_t i = 0; i < list.n; i++)
        r->at += count_positions(&list.at[i]);
}

/* ---- Programs ---- */

/* Two programs merged into one may have functions of the same name; adjoints have no name. */
static const char *function_name(flxi_krewrite *r, const flxi_kfn *f)
{
    bool is_taken = !f->adjoint_of && flxi_kb_find_function(r->to, f->name, strlen(f->name));
    return is_taken ? flxi_krewrite_fresh_name(r, f->name) : f->name;
}

static void copy_functions(flxi_krewrite *r)
{
    const flx_kernel *k = r->from;
    uint32_t kept = (uint32_t)r->to->fns.n - 1;
    for (uint32_t i = 1; i <= k->num_fns; i++)
        r->fns[i] = r->drop_fn && r->drop_fn[i] ? 0 : ++kept;
    for (uint32_t i = 1; i <= k->num_fns && flxi_kb_ok(r->to); i++) {
        const flxi_kfn *f = &k->fns[i];
        if (!r->fns[i]) {
            flxi_krewrite_skip(r, f->body);
            r->at++;
            continue;
        }
        flxi_kb_function(r->to, function_name(r, f), f->type);
        if (f->adjoint_of)
            flxi_kb_adjoint_of(r->to, r->fns[f->adjoint_of - 1], f->adjoint_param);
        for (uint32_t p = 0; p < f->num_params; p++) {
            uint32_t var = f->params[p];
            flxi_krewrite_bind(r, var, flxi_kb_param(r->to, k->vars[var].name, k->vars[var].type));
        }
        open_list(r, f->body);
        copy_list(r, f->body);
        r->at++;
        flxi_kb_result(r->to, flxi_krewrite_expr(r, f->result));
        close_list(r, f->body);
        r->ended = false;
    }
}

static void copy_buffers(flxi_krewrite *r)
{
    const flx_kernel *k = r->from;
    for (uint32_t i = 1; i <= k->num_buffers; i++)
        if (!r->drop_buffer || !r->drop_buffer[i])
            r->buffers[i] = flxi_kb_buffer(r->to, &k->buffers[i]);
}

static bool make_tables(flxi_krewrite *r)
{
    const flx_kernel *k = r->from;
    r->vars = flxi_krewrite_alloc(r, (size_t)k->num_vars + 1, sizeof *r->vars);
    r->values = flxi_krewrite_alloc(r, (size_t)k->num_vars + 1, sizeof *r->values);
    r->reads = flxi_krewrite_alloc(r, (size_t)k->num_vars + 1, sizeof *r->reads);
    r->fns = flxi_krewrite_alloc(r, (size_t)k->num_fns + 1, sizeof *r->fns);
    r->opaques = flxi_krewrite_alloc(r, (size_t)k->num_opaques + 1, sizeof *r->opaques);
    r->made = flxi_krewrite_alloc(r, (size_t)k->num_exprs + 1, sizeof *r->made);
    r->made_in = flxi_krewrite_alloc(r, (size_t)k->num_exprs + 1, sizeof *r->made_in);
    if (!r->buffers)
        r->buffers = flxi_krewrite_alloc(r, (size_t)k->num_buffers + 1, sizeof *r->buffers);
    return flxi_kb_ok(r->to);
}

static void begin(flxi_krewrite *r)
{
    static const flxi_krewrite_hooks no_hooks = {.is_blind = true};
    if (!r->hooks)
        r->hooks = &no_hooks;
    flxi_arena_init(&r->arena, flxi_kernel_mem(r->from));
}

static void end(flxi_krewrite *r)
{
    flxi_vec_free(flxi_kernel_mem(r->from), &r->sources);
    flxi_arena_free(&r->arena);
}

flx_kernel *flxi_krewrite_run(flxi_krewrite *r, flx_error *err)
{
    if (!(r->to = flxi_kb_like(r->from, err)))
        return NULL;
    begin(r);
    if (make_tables(r)) {
        copy_buffers(r);
        if (r->hooks->begin)
            r->hooks->begin(r);
        copy_functions(r);
        flxi_krewrite_list(r, r->from->body);
    }
    end(r);
    return flxi_kb_finish(r->to, err);
}

void flxi_krewrite_append(flxi_krewrite *r, uint32_t *buffers)
{
    r->buffers = buffers;
    begin(r);
    if (make_tables(r)) {
        copy_functions(r);
        flxi_kb_block(r->to);
        flxi_krewrite_list(r, r->from->body);
        flxi_kb_end(r->to);
    }
    end(r);
}

flx_kernel *flxi_krewrite_nothing(const flx_kernel *k)
{
    return flx_kernel_retain((flx_kernel *)k); /* changes only the reference count, which is thread-safe */
}

/* ---- Fingerprints ---- */

static uint64_t hash_list(const flx_kernel *k, flxi_klist list, uint64_t h)
{
    for (size_t i = 0; i < list.n; i++) {
        const flxi_ks *s = &list.at[i];
        h = flxi_hash_u64(h, s->kind | (uint64_t)s->order << 8 | (uint64_t)s->flags << 16 | (uint64_t)s->var << 32);
        h = flxi_hash_u64(h, s->buffer | (uint64_t)s->target << 32);
        h = flxi_hash_u64(h, s->a | (uint64_t)s->b << 32);
        h = flxi_hash_u64(h, s->offset ^ (uint64_t)s->opaque << 40);
        if (s->kind == KS_LET || s->kind == KS_LOOP)
            h = flxi_hash_text(h, k->vars[s->var].name);
        h = hash_list(k, s->body, flxi_hash_u64(h, s->body.n));
        h = hash_list(k, s->other, flxi_hash_u64(h, s->other.n));
    }
    return h;
}

static uint64_t hash_expr(uint64_t h, const flxi_kx *e)
{
    h = flxi_hash_u64(h, e->kind | (uint64_t)e->op << 8 | (uint64_t)e->type << 16 | (uint64_t)e->order << 24 |
                             (uint64_t)e->ref << 32);
    h = flxi_hash_bytes(h, e->x, sizeof e->x);
    return e->num_args ? flxi_hash_bytes(h, e->args, e->num_args * sizeof *e->args) : flxi_hash_u64(h, e->bits);
}

uint64_t flxi_kernel_fingerprint(const flx_kernel *k)
{
    uint64_t h = flxi_hash_u64(FLXI_HASH_SEED, k->num_exprs);
    for (uint32_t i = 1; i <= k->num_exprs; i++)
        h = hash_expr(h, &k->exprs[i]);
    for (uint32_t i = 1; i <= k->num_buffers; i++)
        h = flxi_hash_text(h, k->buffers[i].name);
    for (uint32_t i = 1; i <= k->num_fns; i++) {
        h = flxi_hash_u64(flxi_hash_text(h, k->fns[i].name), k->fns[i].result);
        h = hash_list(k, k->fns[i].body, h);
    }
    return hash_list(k, k->body, h);
}
