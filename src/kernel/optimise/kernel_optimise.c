/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_optimise.c: the pipeline. One function runs the named passes in order, repeatedly, until none of them changes
   anything; the tables below list them. */
#include "kernel/optimise/kernel_optimise.h"

#include "kernel/check/kernel_validate.h"
#include "kernel/program/kernel_rewrite.h"

typedef struct {
    const char *name;
    flxi_kpass_fn run;
    bool is_usual; /* runs when no passes are named */
    bool is_final; /* runs after the others: it replaces forms that they understand by faster ones */
} pass;

/* In the order in which they run. */
static const pass passes[] = {
    {"inline", flxi_kpass_inline, true, false},
    {"inline_always", flxi_kpass_inline_always, false, false},
    {"fold", flxi_kpass_fold, false, false}, /* propagation folds too */
    {"propagate", flxi_kpass_propagate, true, false},
    {"coalesce", flxi_kpass_coalesce, true, false},
    {"bounds", flxi_kpass_bounds, true, false},
    {"if", flxi_kpass_if, true, false},
    {"forward", flxi_kpass_forward, true, false},
    {"dead_store", flxi_kpass_dead_store, true, false},
    {"peel", flxi_kpass_peel, true, false},
    {"unroll", flxi_kpass_unroll, true, false},
    {"fuse", flxi_kpass_fuse, true, false},
    {"split", flxi_kpass_split, false, false},
    {"strip_mine", flxi_kpass_strip_mine, false, false},
    {"cse", flxi_kpass_cse, true, false},
    {"licm", flxi_kpass_licm, true, false},
    {"barriers", flxi_kpass_barriers, true, false},
    {"dce", flxi_kpass_dce, true, false},
    {"select", flxi_kpass_select, true, true},
    {"strength", flxi_kpass_strength, true, true},
};

/* What transforms need: every pass that shortens, none that trades one form for another. */
static const char simplifiers[] = "propagate,coalesce,if,cse,dce";

enum {
    NUM_PASSES = sizeof passes / sizeof *passes,
    /* A pass rarely changes anything in the fourth round; a kernel that never reaches a fixed point would be a bug. */
    MAX_ROUNDS = 8,
};

/* ---- Running passes ---- */

typedef struct {
    flx_kernel *k;        /* the current program */
    uint64_t fingerprint; /* of k */
    flxi_ksimplify_options o;
    uint8_t *scratch; /* what o.only_if_loaded points to */
    uint32_t scratch_size;
    const flxi_allocator *mem;
} run;

/* Buffers keep their order, so one walk finds those of the new program in the old one. */
static void renumber_scratch(run *r, const flx_kernel *next)
{
    uint32_t old = 1;
    for (uint32_t b = 1; r->scratch && b <= next->num_buffers; b++, old++) {
        while (old <= r->k->num_buffers && strcmp(r->k->buffers[old].name, next->buffers[b].name) != 0)
            old++;
        r->scratch[b] = old <= r->k->num_buffers ? r->scratch[old] : 0;
    }
}

/* Debug builds validate the input and the result of every pass. An input that a transform made may exceed limits, of
   which the caller hears; it has no name of a pass. */
static bool check_made(const flx_kernel *k, const char *pass_name, flx_error *err)
{
#ifdef FLX_DEBUG
    flx_error why = {0};
    flx_code code = flxi_kernel_check(k, &why);
    if (code == FLX_E_OOM)
        flxi_oom(err, "a kernel");
    else if (code != FLX_OK && !pass_name && err)
        *err = why;
    else if (code != FLX_OK)
        flxi_fail(err, FLX_E_INTERNAL, "%s produced an invalid kernel: %.180s", pass_name ? pass_name : "a transform",
                  why.message);
    if (code != FLX_OK)
        return false;
#else
    (void)k;
    (void)pass_name;
    (void)err;
#endif
    return true;
}

/* False, with the error, when the pass fails. */
static bool run_pass(run *r, const pass *p, bool *changed, flx_error *err)
{
    flx_kernel *next = p->run(r->k, &r->o, err);
    if (next == r->k) {
        flx_kernel_release(next);
        *changed = false;
        return true;
    }
    if (!next || !check_made(next, p->name, err)) {
        flx_kernel_release(next);
        return false;
    }
    uint64_t fingerprint = flxi_kernel_fingerprint(next);
    *changed = fingerprint != r->fingerprint;
    renumber_scratch(r, next);
    flx_kernel_release(r->k);
    r->k = next;
    r->fingerprint = fingerprint;
    return true;
}

/* Runs until a full cycle of passes has changed nothing. */
static bool run_until_rest(run *r, const pass *const *list, size_t n, flx_error *err)
{
    size_t idle = 0;
    for (size_t i = 0; idle < n && i < n * MAX_ROUNDS; i++) {
        bool changed;
        if (!run_pass(r, list[i % n], &changed, err))
            return false;
        idle = changed ? 0 : idle + 1;
    }
    return true;
}

/* First without the final passes, then with them. */
static bool run_passes(run *r, const pass *const *list, size_t n, flx_error *err)
{
    const pass *first[NUM_PASSES] = {NULL};
    size_t num_first = 0;
    for (size_t i = 0; i < n; i++)
        if (!list[i]->is_final)
            first[num_first++] = list[i];
    return run_until_rest(r, first, num_first, err) && (num_first == n || run_until_rest(r, list, n, err));
}

static flx_kernel *optimise(const flx_kernel *k, const pass *const *list, size_t n, const flxi_ksimplify_options *o,
                            flx_error *err)
{
    run r = {.o = *o, .mem = flxi_kernel_mem(k), .scratch_size = k->num_buffers + 1};
    if (o->only_if_loaded) {
        r.scratch = flxi_alloc(r.mem, r.scratch_size, 1);
        if (!r.scratch) {
            flxi_oom(err, "the optimiser");
            return NULL;
        }
        memcpy(r.scratch, o->only_if_loaded, r.scratch_size);
        r.o.only_if_loaded = r.scratch;
    }
    r.k = flxi_krewrite_nothing(k);
    if (!check_made(r.k, NULL, err)) {
        flx_kernel_release(r.k);
        r.k = NULL;
    }
    if (r.k)
        r.fingerprint = flxi_kernel_fingerprint(r.k);
    if (r.k && !run_passes(&r, list, n, err)) {
        flx_kernel_release(r.k);
        r.k = NULL;
    }
    if (r.scratch)
        flxi_free(r.mem, r.scratch, r.scratch_size, 1);
    return r.k;
}

/* ---- By name ---- */

static const pass *find_pass(const char *name, size_t n)
{
    for (size_t i = 0; i < NUM_PASSES; i++)
        if (strlen(passes[i].name) == n && memcmp(passes[i].name, name, n) == 0)
            return &passes[i];
    return NULL;
}

static flx_code fail_name(const char *name, size_t n, flx_error *err)
{
    char text[40];
    flxi_printable(text, sizeof text, name, n);
    return flxi_fail_hint(err, FLX_E_NAME, "flx help kernel optimise lists them", "unknown kernel pass '%s'", text);
}

static void choose_usual(const pass **list, size_t *n)
{
    *n = 0;
    for (size_t i = 0; i < NUM_PASSES; i++)
        if (passes[i].is_usual)
            list[(*n)++] = &passes[i];
}

static size_t position(const pass *const *list, size_t n, const pass *p)
{
    size_t i = 0;
    while (i < n && list[i] != p)
        i++;
    return i;
}

/* One name of a list: adds the pass, or removes it after a minus. */
static flx_code choose_one(const char *name, size_t length, const pass **list, size_t *n, flx_error *err)
{
    bool goes = length > 0 && name[0] == '-';
    const pass *p = find_pass(name + goes, length - goes);
    if (!p)
        return fail_name(name + goes, length - goes, err);
    size_t at = position(list, *n, p);
    if (goes && at == *n)
        return flxi_fail(err, FLX_E_USAGE, "pass '%s' cannot be removed: it is not in the list", p->name);
    if (!goes && at < *n)
        return flxi_fail(err, FLX_E_DUP_NAME, "pass '%s' is named twice", p->name);
    if (goes)
        memmove(list + at, list + at + 1, (--*n - at) * sizeof *list);
    else
        list[(*n)++] = p;
    return FLX_OK;
}

/* Names separated by commas, each at most once; a list that begins with a minus modifies the default list. */
static flx_code choose(const char *names, const pass **list, size_t *n, flx_error *err)
{
    *n = 0;
    if (*names == '-')
        choose_usual(list, n);
    while (*names) {
        size_t length = strcspn(names, ",");
        FLXI_TRY(choose_one(names, length, list, n, err));
        names += length + (names[length] == ',');
    }
    return FLX_OK;
}

const char *flxi_kernel_pass_name(size_t i)
{
    return i < NUM_PASSES ? passes[i].name : NULL;
}

flx_kernel *flxi_kernel_simplify(const flx_kernel *k, const flxi_ksimplify_options *o, flx_error *err)
{
    const pass *list[NUM_PASSES];
    size_t n;
    return choose(simplifiers, list, &n, err) == FLX_OK ? optimise(k, list, n, o, err) : NULL;
}

flx_kernel *flx_kernel_optimise(const flx_kernel *k, const char *names, flx_error *err)
{
    const pass *list[NUM_PASSES];
    size_t n = 0;
    if (!k) {
        flxi_fail(err, FLX_E_USAGE, "flx_kernel_optimise: the kernel is NULL");
        return NULL;
    }
    if (!names)
        choose_usual(list, &n);
    else if (choose(names, list, &n, err) != FLX_OK)
        return NULL;
    if (flxi_kernel_check(k, err) != FLX_OK)
        return NULL;
    return optimise(k, list, n, &(flxi_ksimplify_options){0}, err);
}
