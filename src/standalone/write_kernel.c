/* SPDX-License-Identifier: Apache-2.0 */
/* write_kernel.c: kernels as static functions in plain C: the text of src/emit, with the type names of C and with the
   names of the graph for buffers. */
#include "emit/kernel_emit.h"
#include "emit/vector/vector_emit.h"
#include "graph/op/origin.h"
#include "ops/custom/custom_kernel.h"
#include "standalone/standalone.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- Names ---- */

typedef struct {
    const char *from, *to;
} word;

static const word words[] = {
    {"k_u8", "uint8_t"},  {"k_u16", "uint16_t"}, {"k_u32", "uint32_t"}, {"k_u64", "uint64_t"}, {"k_i8", "int8_t"},
    {"k_i16", "int16_t"}, {"k_i32", "int32_t"},  {"k_i64", "int64_t"},  {"k_f32", "float"},    {"k_f64", "double"},
    {"k_f16", "float"},   {"k_bf16", "float"},   {"k_bool", "_Bool"},
};

/* Functions of the C library that gcc knows under another name as well. */
static const char *const plain[] = {"fabs",  "floor", "ceil",     "trunc",     "round",  "rint",   "sqrt",
                                    "fma",   "fabsf", "floorf",   "ceilf",     "truncf", "roundf", "rintf",
                                    "sqrtf", "fmaf",  "copysign", "copysignf", "memset", "memcpy"};

const char *flxi_sa_word(const char *name, size_t n)
{
    static const char builtin[] = "__builtin_";
    size_t skip = sizeof builtin - 1;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i].from) == n && memcmp(words[i].from, name, n) == 0)
            return words[i].to;
    for (size_t i = 0; n > skip && memcmp(name, builtin, skip) == 0 && i < sizeof plain / sizeof *plain; i++)
        if (strlen(plain[i]) == n - skip && memcmp(plain[i], name + skip, n - skip) == 0)
            return plain[i];
    return NULL;
}

static const char *rename_types(const void *user, const char *name, size_t n)
{
    (void)user;
    return flxi_sa_word(name, n);
}

/* Names of buffers by their number; NULL: as they are. */
typedef struct {
    const char *const *buffers;
    uint32_t n;
} buffer_names;

static const char *rename_buffers(const void *user, const char *name, size_t n)
{
    const buffer_names *b = user;
    uint32_t number = 0;
    for (size_t i = 1; i < n && name[0] == 'b' && number < UINT32_MAX / 10 - 1; i++)
        number = name[i] >= '0' && name[i] <= '9' ? number * 10 + (uint32_t)(name[i] - '0') : UINT32_MAX / 10;
    return number >= 1 && number <= b->n ? b->buffers[number - 1] : NULL;
}

/* Whether the name is that of a buffer as the writer of kernels calls it: all of these get others. */
static bool is_buffer(const char *name, uint32_t n)
{
    char *end = NULL;
    unsigned long number = name[0] == 'b' && name[1] >= '1' && name[1] <= '9' ? strtoul(name + 1, &end, 10) : 0;
    return number > 0 && !*end && number <= n;
}

/* Whether a function of kernels or of the file may have that name, which a parameter would hide. */
static bool is_of_functions(const flxi_sa_file *f, const char *name)
{
    size_t n = strlen(f->prefix);
    return strncmp(name, "k_", 2) == 0 || (strncmp(name, f->prefix, n) == 0 && name[n] == '_');
}

static bool is_free_name(const flxi_strings *taken, const flxi_strbuf *text, const char *name, uint32_t buffers)
{
    return !flxi_is_interned(taken, name) && (is_buffer(name, buffers) || !flxi_sa_mentions(text, name));
}

/* The values' names for the buffers of the step's kernel: their own, or the op's with a number, as in the calls. */
static const char **name_buffers(flxi_sa_file *f, const flxi_routine *l, const flxi_step *s, const flxi_strbuf *text)
{
    enum { LONGEST = 32 };
    flxi_strings taken = {.arena = &f->arena};
    const char **names = flxi_new(&f->arena, const char *, s->num_slots);
    for (uint32_t i = 0; names && i < s->num_slots; i++) {
        uint32_t value = l->slots[s->slots[i]].value;
        const flxi_value *v = flxi_value_at(l->g, value);
        const char *op = flxi_ops[flxi_node_at(l->g, v->node)->op].name;
        const char *id = flxi_sa_identifier(f, v->name ? v->name : flxi_sa_text(f, "%s_%u", op, value));
        if (strlen(id) > LONGEST || is_of_functions(f, id))
            id = flxi_sa_text(f, "x%u", i);
        const char *base = id;
        for (unsigned k = 2; !is_free_name(&taken, text, id, s->num_slots); k++)
            id = flxi_sa_text(f, "%s_%u", base, k);
        names[i] = flxi_intern(&taken, id, strlen(id));
        f->failed |= !names[i];
    }
    flxi_strings_free(&taken);
    f->failed |= !names;
    return names;
}

/* ---- Texts ---- */

/* Writes the kernel for a dispatch, after which f->kernels has nothing but its text. */
static flx_code write_text(flxi_kfile *f, const flx_kernel *k, const flxi_kplain *dispatch, unsigned vector_bytes,
                           flxi_kentry *entry, flx_error *err)
{
    f->plain = dispatch;
    f->may_alias = true; /* a result may take the place of an operand that is read for the last time */
    f->kernels.n = 0;
    uint32_t streams[FLXI_MAX_STREAMS];
    const flxi_vector_options vectors = {
        .bytes = vector_bytes, .stream = streams, .num_streams = flxi_vector_streams(k, streams)};
    flx_code code =
        vector_bytes ? flxi_vector_write(f, k, &vectors, entry, NULL, err) : flxi_kernel_write(f, k, entry, err);
    return code;
}

flx_code flxi_sa_kernel_scratch(const flx_kernel *k, bool is_call, const flxi_allocator *mem, size_t *bytes,
                                flx_error *err)
{
    const flxi_kplain dispatch = {.name = "NAME_", .grid = {1, 1, 1}, .lanes = is_call ? FLXI_SA_SUBGROUP : 1};
    flxi_kfile file;
    flxi_kentry entry;
    flxi_kfile_init(&file, &flxi_target_c, mem);
    flx_code code = write_text(&file, k, &dispatch, 0, &entry, err);
    flxi_kfile_free(&file);
    *bytes = code == FLX_OK ? entry.scratch : 0;
    return code;
}

/* The text, with statements for parameters that it does not use. */
static void mark_unused(const flxi_strbuf *text, const flx_kernel *k, flxi_strbuf *out)
{
    const char *brace = text->at ? strstr(text->at, "\n{\n") : NULL;
    if (!brace) {
        out->failed = true;
        return;
    }
    size_t head = (size_t)(brace + 3 - text->at);
    const flxi_strbuf inside = {.mem = text->mem, .at = text->at + head, .n = text->n - head};
    flxi_add_bytes(out, text->at, head);
    for (uint32_t i = 1; i <= k->num_buffers; i++) {
        char name[16];
        snprintf(name, sizeof name, "b%u", i);
        if (flxi_kbuffer_is_bound(&k->buffers[i]) && !flxi_sa_mentions(&inside, name))
            flxi_addf(out, "    (void)%s;\n", name);
    }
    flxi_add_bytes(out, inside.at, inside.n);
}

/* A kernel of a step of the routine; NULL: the buffers of the kernel have no other names. */
typedef struct {
    const flxi_routine *l;
    const flxi_step *s;
} named_step;

/* The function of the text that f->kernels has now. */
static const char *keep_text(flxi_sa_file *f, const flx_kernel *k, const named_step *of, const char *wanted,
                             const char *comment)
{
    flxi_strbuf plain_text, marked, named;
    flxi_strbuf_init(&plain_text, f->mem);
    flxi_strbuf_init(&named, f->mem);
    flxi_strbuf_init(&marked, f->mem);
    flxi_sa_rewrite(&plain_text, f->kernels.kernels.at, f->kernels.kernels.n, rename_types, NULL);
    flxi_sa_drop_unused(f, &plain_text);
    if (!f->vector_bytes)
        flxi_sa_tidy(f, &plain_text);
    mark_unused(&plain_text, k, &marked);
    f->failed |= marked.failed || plain_text.failed;
    if (of && marked.at) {
        const buffer_names names = {name_buffers(f, of->l, of->s, &marked), of->s->num_slots};
        if (names.buffers)
            flxi_sa_rewrite(&named, marked.at, marked.n, rename_buffers, &names);
    }
    const char *name = flxi_sa_static_of(f, &marked, of ? &named : &marked, wanted, comment);
    flxi_strbuf_free(&plain_text);
    flxi_strbuf_free(&marked);
    flxi_strbuf_free(&named);
    return name;
}

/* Of files for all extents, each factor alone has a formula, their product has none. */
static const char *units_text(flxi_sa_file *f, const flxi_kplain *d, uint64_t units)
{
    if (!f->num_symbols || units != (uint64_t)d->grid[0] * d->grid[1] * d->grid[2])
        return flxi_sa_text(f, "%llu", (unsigned long long)units);
    const char *text = flxi_sa_text(f, "%u", d->grid[0]);
    for (int k = 1; k < 3; k++)
        if (d->grid[k] != 1)
            text = flxi_sa_text(f, "%s * %u", text, d->grid[k]);
    return text;
}

flx_code flxi_sa_kernel(flxi_sa_file *f, const flxi_program *m, const flxi_routine *l, const flxi_step *s,
                        flxi_sa_kernel_function *out, flx_error *err)
{
    const flxi_kplain dispatch = {.name = "NAME_",
                                  .grid = {s->grid[0], s->grid[1], s->grid[2]},
                                  .lanes = s->lanes,
                                  .is_cut = f->threads != 0,
                                  .is_for_any = f->num_symbols != 0};
    const flx_kernel *k = m->kernels.at[s->kernel].kernel;
    flxi_kentry entry;
    FLXI_TRY(write_text(&f->kernels, k, &dispatch, f->vector_bytes, &entry, err));
    out->has_scratch = entry.scratch > 0;
    out->units = units_text(f, &dispatch, entry.units);
    out->can_be_shared = !entry.is_ordered && !entry.scratch && entry.units > 1;
    const char *op = flxi_ops[flxi_node_at(l->g, s->node)->op].name;
    out->name = keep_text(f, k, &(named_step){l, s}, op, flxi_sa_equations(f, l, s));
    return FLX_OK;
}

flx_code flxi_sa_user_kernel(flxi_sa_file *f, const flxi_step *s, flxi_sa_user_function *out, flx_error *err)
{
    const flxi_kplain dispatch = {
        .name = "NAME_", .grid = {s->grid[0], s->grid[1], s->grid[2]}, .lanes = FLXI_SA_SUBGROUP};
    const flx_kernel *k = s->call->kernel;
    flxi_kentry entry;
    FLXI_TRY(write_text(&f->kernels, k, &dispatch, 0, &entry, err));
    out->has_scratch = entry.scratch > 0;
    out->has_status = flxi_sa_mentions(&f->kernels.kernels, "status");
    out->name = keep_text(f, k, NULL, k->name && *k->name ? k->name : "kernel", s->computes ? s->computes : "");
    return FLX_OK;
}
