/* SPDX-License-Identifier: Apache-2.0 */
/* general_code.c: see general_code.h. Each kernel's text is looked for among what the context keeps. For those that are
   missing, the texts of the same kernels for other extents show which numbers must be arguments, and the compiler makes
   them all at once. */
#include "backend/cpu/jit/general_code.h"

#include "backend/cpu/jit/kept_code.h"

struct flxi_general_code {
    flxi_code_keeper *keeper;
    flxi_arena arena;      /* values of arguments, and the following */
    flxi_kept_code **held; /* used by this program */
    size_t num_held;
};

/* The text of a kernel, or of a chain. */
typedef struct {
    flxi_outline outline;
    flxi_kentry entry;
    const char *scalar;
    size_t ordinal;       /* among those with equal outlines */
    flxi_kept_code *code; /* NULL: none that fits is known */
    uint64_t *sizes;      /* its arguments */
} item;

typedef struct {
    item *at;
    size_t n;
} items;

typedef struct {
    const flxi_allocator *mem;
    flxi_compile_service *service;
    const flxi_native_program *p;
    const flxi_native_options *o;
    const flxi_native_samples *samples;
    flxi_general_code *code;
    items kernels;
    flxi_arena arena;
    flx_error *err;
} builder;

static flx_code out_of_memory(builder *b)
{
    return flxi_oom(b->err, "kernels");
}

/* ---- Texts ---- */

static void free_items(const flxi_allocator *mem, items *l)
{
    for (size_t i = 0; l->at && i < l->n; i++)
        flxi_outline_free(&l->at[i].outline);
    if (l->at)
        flxi_free(mem, l->at, l->n, sizeof *l->at);
    *l = (items){0};
}

/* Each text is alone in its file, so that equal kernels have equal names. */
static flx_code outline_kernel(builder *b, const flxi_native_program *p, size_t i, item *x)
{
    flxi_kfile file;
    flxi_kfile_init(&file, &flxi_target_c, b->mem);
    flx_code code = flxi_native_write(&file, p, i, b->o, &x->entry, &x->scalar, b->err);
    if (code == FLX_OK &&
        (file.kernels.failed || !flxi_outline_init(&x->outline, b->mem, file.kernels.at, file.kernels.n)))
        code = out_of_memory(b);
    flxi_kfile_free(&file);
    return code;
}

static flx_code outline_all(builder *b, const flxi_native_program *p, items *out)
{
    *out = (items){flxi_alloc(b->mem, p->n, sizeof *out->at), p->n};
    if (!out->at)
        return out_of_memory(b);
    for (size_t i = 0; i < p->n; i++) {
        FLXI_TRY(outline_kernel(b, p, i, &out->at[i]));
        for (size_t k = 0; k < i; k++)
            out->at[i].ordinal += flxi_outline_equal(&out->at[k].outline, &out->at[i].outline);
    }
    return FLX_OK;
}

static flx_code find_kept(builder *b, item *x)
{
    flxi_general_code *c = b->code;
    if (!flxi_code_keeper_find(c->keeper, &x->outline, b->o->level, b->o->flags, &c->arena, &x->code, &x->sizes))
        return out_of_memory(b);
    if (x->code)
        c->held[c->num_held++] = x->code;
    return FLX_OK;
}

/* ---- What is missing ---- */

typedef FLXI_VEC(items) sampled; /* by sample */

static flx_code take_samples(builder *b, sampled *s)
{
    for (size_t i = 0;; i++) {
        flxi_native_program p;
        items x = {0};
        FLXI_TRY(b->samples->sample(b->samples->user, i, &p, b->err));
        if (p.n == SIZE_MAX)
            return FLX_OK;
        flx_code code = outline_all(b, &p, &x);
        if (code == FLX_OK && flxi_push(b->mem, s, x))
            continue;
        free_items(b->mem, &x);
        return code == FLX_OK ? out_of_memory(b) : code;
    }
}

/* The same kernel among those of a sample, or NULL. */
static const flxi_outline *sample_of(const items *sample, const item *x)
{
    for (size_t i = 0; i < sample->n; i++)
        if (sample->at[i].ordinal == x->ordinal && flxi_outline_equal(&sample->at[i].outline, &x->outline))
            return &sample->at[i].outline;
    return NULL;
}

/* A kernel that is to be compiled. */
typedef struct {
    flxi_kept_code *kept; /* NULL: the keeper has it */
    size_t number;        /* of a kernel of the program that it is made for */
    flxi_kentry entry;
} fresh;

typedef FLXI_VEC(fresh) fresh_list;

static void free_fresh(builder *b, fresh_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        if (list->at[i].kept)
            flxi_kept_code_free(b->code->keeper, list->at[i].kept);
    flxi_vec_free(b->mem, list);
}

/* Takes ownership of the outline. */
static flx_code add_fresh(builder *b, fresh_list *list, flxi_outline *outline, size_t number)
{
    flxi_kept_code *k = flxi_alloc(b->mem, 1, sizeof *k);
    fresh f = {.kept = k, .number = number};
    if (!k)
        return out_of_memory(b);
    k->outline = *outline;
    *outline = (flxi_outline){0};
    k->level = b->o->level;
    k->flags = b->o->flags;
    flxi_arena_init(&k->arena, b->mem);
    if (flxi_push(b->mem, list, f))
        return FLX_OK;
    flxi_kept_code_free(b->code->keeper, k);
    return out_of_memory(b);
}

static flx_code add_kernel(builder *b, fresh_list *list, const sampled *s, size_t number)
{
    item *x = &b->kernels.at[number];
    size_t n = 0;
    flxi_outline copy;
    flxi_outline_sizes sizes;
    const flxi_outline **others = flxi_new(&b->arena, const flxi_outline *, s->n);
    for (size_t i = 0; others && i < s->n; i++)
        if ((others[n] = sample_of(&s->at[i], x)))
            n++;
    flx_code code = others && flxi_outline_init(&copy, b->mem, x->outline.text, x->outline.n)
                        ? add_fresh(b, list, &copy, number)
                        : out_of_memory(b);
    if (others)
        flxi_outline_free(&copy);
    FLXI_TRY(code);
    flxi_kept_code *k = list->at[list->n - 1].kept;
    if (!flxi_outline_compare(&k->outline, others, n, &k->arena, &sizes))
        return out_of_memory(b);
    k->sizes = sizes;
    return FLX_OK;
}

/* Each text once. */
static flx_code find_fresh(builder *b, const fresh_list *list, item *x)
{
    for (size_t i = 0; i < list->n; i++) {
        flxi_kept_code *k = list->at[i].kept;
        if (!flxi_outline_equal(&k->outline, &x->outline))
            continue;
        if (!flxi_kept_code_fits(k, &x->outline, &b->code->arena, &x->sizes))
            return out_of_memory(b);
        if (x->sizes) {
            x->code = k;
            return FLX_OK;
        }
    }
    return FLX_OK;
}

static flx_code plan_fresh(builder *b, fresh_list *out)
{
    sampled s = {0};
    flx_code code = take_samples(b, &s);
    for (size_t i = 0; code == FLX_OK && i < b->kernels.n; i++) {
        item *x = &b->kernels.at[i];
        if (!x->code)
            code = find_fresh(b, out, x);
        if (code != FLX_OK || x->code)
            continue;
        code = add_kernel(b, out, &s, i);
        if (code == FLX_OK)
            code = find_fresh(b, out, x);
    }
    for (size_t i = 0; i < s.n; i++)
        free_items(b->mem, &s.at[i]);
    flxi_vec_free(b->mem, &s);
    return code;
}

/* ---- Compiling ---- */

/* The kernel's text with arguments, after what is in the file already. */
static flx_code write_general(builder *b, flxi_kfile *file, fresh *f)
{
    flxi_outline here = {0};
    size_t before = file->kernels.n;
    const char *scalar;
    FLXI_TRY(flxi_native_write(file, b->p, f->number, b->o, &f->entry, &scalar, b->err));
    bool ok =
        !file->kernels.failed && flxi_outline_init(&here, b->mem, file->kernels.at + before, file->kernels.n - before);
    if (ok) {
        file->kernels.n = before;
        flxi_outline_write(&here, &f->kept->sizes, &file->kernels);
    }
    flxi_outline_free(&here);
    return ok ? FLX_OK : out_of_memory(b);
}

static flx_code write_file(builder *b, fresh *f, size_t n, flxi_strbuf *text)
{
    flxi_kfile file;
    flx_code code = FLX_OK;
    flxi_kfile_init(&file, &flxi_target_c, b->mem);
    for (size_t i = 0; code == FLX_OK && i < n; i++)
        code = write_general(b, &file, &f[i]);
    if (code == FLX_OK)
        code = flxi_kfile_text(&file, text, b->err);
    flxi_kfile_free(&file);
    return code;
}

/* All are in the object. */
static flx_code own_object(builder *b, fresh *f, size_t n, flxi_c_unit *compiled)
{
    flxi_kept_object *u = flxi_alloc(b->mem, 1, sizeof *u);
    if (!u)
        return out_of_memory(b);
    *u = (flxi_kept_object){compiled->object, (uint32_t)n};
    compiled->object = NULL;
    for (size_t i = 0; i < n; i++)
        f[i].kept->unit = u;
    return FLX_OK;
}

static flx_code load_kernels(builder *b, fresh *f, size_t n, flxi_c_unit *compiled)
{
    FLXI_TRY(own_object(b, f, n, compiled));
    for (size_t i = 0; i < n; i++)
        if (!(*(void **)&f[i].kept->run = flxi_object_symbol(f[i].kept->unit->object, f[i].entry.name)))
            return flxi_fail_hint(b->err, FLX_E_DEVICE, "FLX_CC names another compiler",
                                  "the compiler made an object without the function '%s'", f[i].entry.name);
    return FLX_OK;
}

static flx_code compile_fresh(builder *b, fresh_list *list)
{
    size_t files = flxi_native_files(list->n), first[FLXI_NATIVE_FILES + 1];
    flxi_strbuf texts[FLXI_NATIVE_FILES];
    flxi_c_unit units[FLXI_NATIVE_FILES] = {0};
    flx_code code = FLX_OK;
    for (size_t f = 0; f <= files; f++)
        first[f] = f * list->n / files;
    for (size_t f = 0; f < files; f++)
        flxi_strbuf_init(&texts[f], b->mem);
    for (size_t f = 0; code == FLX_OK && f < files; f++) {
        code = write_file(b, list->at + first[f], first[f + 1] - first[f], &texts[f]);
        units[f].text = texts[f].at;
        units[f].n = texts[f].n;
    }
    if (code == FLX_OK)
        code = flxi_compile_c(b->service, units, files, b->o->level, b->o->flags, b->err);
    for (size_t f = 0; code == FLX_OK && f < files; f++)
        code = load_kernels(b, list->at + first[f], first[f + 1] - first[f], &units[f]);
    for (size_t f = 0; f < files; f++) {
        flxi_object_free(units[f].object);
        flxi_strbuf_free(&texts[f]);
    }
    return code;
}

/* Others may have made the same meanwhile, which does no harm. */
static flx_code keep(builder *b, fresh_list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        if (!flxi_code_keeper_add(b->code->keeper, list->at[i].kept))
            return out_of_memory(b);
        b->code->held[b->code->num_held++] = list->at[i].kept;
        list->at[i].kept = NULL;
    }
    return FLX_OK;
}

static flx_code make_missing(builder *b)
{
    fresh_list list = {0};
    flx_code code = plan_fresh(b, &list);
    if (code == FLX_OK)
        code = compile_fresh(b, &list);
    if (code == FLX_OK)
        code = keep(b, &list);
    free_fresh(b, &list);
    return code;
}

/* ---- Chains ---- */

/* The chain in a file with its kernels; no text where it cannot be in one. */
static flx_code write_chain(builder *b, const flxi_native_program *p, size_t number, flxi_strbuf *text)
{
    flxi_kfile file;
    const flxi_chain_code *c = &p->chains[number];
    const char *scalar;
    flxi_kentry *entries = flxi_new(&b->arena, flxi_kentry, p->n);
    flx_code code = entries ? FLX_OK : out_of_memory(b);
    flxi_kfile_init(&file, &flxi_target_c, b->mem);
    for (uint32_t i = 0; code == FLX_OK && i < c->chain->n; i++) {
        const flxi_chain_step *s = &c->chain->steps[i];
        if (s->kind == CHAIN_KERNEL && !entries[s->kernel].name[0])
            code = flxi_native_write(&file, p, s->kernel, b->o, &entries[s->kernel], &scalar, b->err);
    }
    if (code == FLX_OK && flxi_chain_fits(c, entries, 0, p->n)) {
        flxi_chain_write(c, number, entries, &file);
        code = flxi_kfile_text(&file, text, b->err);
    }
    flxi_kfile_free(&file);
    return code;
}

/* Empty where the chain of the other program has another text. */
static flx_code outline_chain(builder *b, const flxi_native_program *sample, size_t number, flxi_outline *out)
{
    flxi_strbuf here, there;
    flxi_strbuf_init(&here, b->mem);
    flxi_strbuf_init(&there, b->mem);
    flx_code code = write_chain(b, b->p, number, &here);
    if (code == FLX_OK)
        code = write_chain(b, sample, number, &there);
    bool is_same = here.n && here.n == there.n && memcmp(here.at, there.at, here.n) == 0;
    if (code == FLX_OK && is_same && !flxi_outline_init_fixed(out, b->mem, here.at, here.n))
        code = out_of_memory(b);
    flxi_strbuf_free(&here);
    flxi_strbuf_free(&there);
    return code;
}

static flx_code compile_chain(builder *b, item *x)
{
    fresh_list list = {0};
    flx_code code = add_fresh(b, &list, &x->outline, 0);
    if (code == FLX_OK) {
        x->code = list.at[0].kept;
        flxi_c_unit source = {.text = x->code->outline.text, .n = x->code->outline.n};
        code = flxi_compile_c(b->service, &source, 1, b->o->level, b->o->flags, b->err);
        if (code == FLX_OK)
            code = own_object(b, list.at, 1, &source);
        flxi_object_free(source.object);
    }
    if (code == FLX_OK)
        code = keep(b, &list);
    free_fresh(b, &list);
    return code;
}

static flx_code build_chain(builder *b, const flxi_native_program *sample, size_t i)
{
    flxi_chain_name name;
    flxi_chain_code *c = &b->p->chains[i];
    item x = {0};
    flx_code code = outline_chain(b, sample, i, &x.outline);
    bool is_fixed = x.outline.n;
    if (code == FLX_OK && is_fixed)
        code = find_kept(b, &x);
    if (code == FLX_OK && is_fixed && !x.code)
        code = compile_chain(b, &x);
    if (code == FLX_OK && is_fixed) {
        const flxi_object *o = x.code->unit->object;
        *(void **)&c->run = flxi_object_symbol(o, flxi_chain_function(&name, i));
        if (c->chain->loop)
            *(void **)&c->run_loop = flxi_object_symbol(o, flxi_chain_loop_function(&name, i));
    }
    flxi_outline_free(&x.outline);
    return code;
}

static flx_code build_chains(builder *b)
{
    flxi_native_program sample;
    if (b->p->num_chains == 0)
        return FLX_OK;
    FLXI_TRY(b->samples->sample(b->samples->user, 0, &sample, b->err));
    if (sample.n == SIZE_MAX || sample.num_chains != b->p->num_chains)
        return FLX_OK;
    for (size_t i = 0; i < b->p->num_chains; i++)
        FLXI_TRY(build_chain(b, &sample, i));
    return FLX_OK;
}

/* ---- The whole ---- */

static flx_code build(builder *b, flxi_native *out)
{
    bool is_missing = false;
    FLXI_TRY(outline_all(b, b->p, &b->kernels));
    for (size_t i = 0; i < b->kernels.n; i++) {
        FLXI_TRY(find_kept(b, &b->kernels.at[i]));
        is_missing |= !b->kernels.at[i].code;
    }
    if (is_missing)
        FLXI_TRY(make_missing(b));
    for (size_t i = 0; i < b->kernels.n; i++) {
        const item *x = &b->kernels.at[i];
        out[i] = (flxi_native){.run = x->code->run,
                               .sizes = x->sizes,
                               .scratch = (x->entry.scratch + 63) / 64 * 64,
                               .scalar = x->scalar,
                               .is_ordered = x->entry.is_ordered};
    }
    return build_chains(b);
}

flx_code flxi_general_build(flxi_compile_service *s, const flxi_native_program *p, const flxi_native_options *o,
                            const flxi_native_samples *samples, flxi_native *out, flxi_general_code **code,
                            flx_error *err)
{
    *code = NULL;
    if (p->n == 0)
        return FLX_OK;
    flx_context *ctx = p->kernels[0]->ctx;
    const flxi_allocator *mem = flxi_context_mem(ctx);
    flxi_general_code *c = flxi_alloc(mem, 1, sizeof *c);
    if (!c)
        return flxi_oom(err, "kernels");
    builder b = {.mem = mem, .service = s, .p = p, .o = o, .samples = samples, .code = c, .err = err};
    flxi_arena_init(&b.arena, mem);
    flxi_arena_init(&c->arena, mem);
    c->keeper = flxi_code_keeper_hold(ctx);
    c->held = flxi_new(&c->arena, flxi_kept_code *, 2 * p->n + p->num_chains);
    flx_code result = c->keeper && c->held ? build(&b, out) : out_of_memory(&b);
    free_items(mem, &b.kernels);
    flxi_arena_free(&b.arena);
    if (result == FLX_OK)
        *code = c;
    else
        flxi_general_free(c);
    return result;
}

void flxi_general_free(flxi_general_code *code)
{
    if (!code)
        return;
    const flxi_allocator *mem = code->arena.mem;
    if (code->keeper) {
        flxi_code_keeper_leave(code->keeper, code->held, code->num_held);
        flxi_code_keeper_release(code->keeper);
    }
    flxi_arena_free(&code->arena);
    flxi_free(mem, code, 1, sizeof *code);
}
