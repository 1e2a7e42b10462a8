/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_extension.c: the extensions of a context, a list that only grows, and queries about them. */
#include "kernel/program/kernel_extension.h"

#include "base/options.h"
#include "base/registry.h"

#include <stdio.h>

static void *make_registry(flx_context *ctx)
{
    return flxi_registry_new(ctx);
}

static const flxi_kextension *find_in(const flxi_registry *r, const char *name, uint32_t id)
{
    const flxi_kextension *x = r->first;
    while (x && (name ? strcmp(x->is.name, name) != 0 : x->is.id != id))
        x = x->next;
    return x;
}

const flxi_kextension *flxi_kextension_find(flx_context *ctx, const char *name, uint32_t id)
{
    flxi_registry *r = flxi_context_find_attached(ctx, make_registry);
    if (!r)
        return NULL;
    pthread_mutex_lock(&r->lock);
    const flxi_kextension *found = find_in(r, name, id);
    pthread_mutex_unlock(&r->lock);
    return found;
}

/* ---- Registering ---- */

/* Operands that a spelling refers to must exist. */
static bool is_spelling(const flx_kernel_spelling *s, uint32_t num_args)
{
    for (const char *at = s->text ? strchr(s->text, '$') : NULL; at; at = strchr(at, '$')) {
        uint32_t number = 0;
        const char *digit = ++at;
        while (*digit >= '0' && *digit <= '9' && number < 1000)
            number = number * 10 + (uint32_t)(*digit++ - '0');
        if (digit == at ? !*at || !strchr("TP$", *at) : number >= num_args)
            return false;
        at = digit == at ? at + 1 : digit;
    }
    return true;
}

static flx_code check_spellings(const flx_kernel_extension *x, flx_error *err)
{
    const flx_kernel_spelling *const all[] = {&x->c, &x->cuda, &x->opencl};
    static const char *const names[] = {"c", "cuda", "opencl"};
    for (size_t i = 0; i < 3; i++)
        if (!is_spelling(all[i], x->num_args))
            return flxi_fail_hint(
                err, FLX_E_USAGE, "write $0 $1 … for operands, $T for the type, $P for the payload, $$ for a dollar",
                "extension '%.60s': its text for %s refers to an operand that it does not have", x->name, names[i]);
    return FLX_OK;
}

static flx_code check_extension(const flx_kernel_extension *x, flx_error *err)
{
    bool is_statement = (x->flags & FLX_KERNEL_EXTENSION_STATEMENT) != 0;
    if (!x->name || !x->name[0] || x->id == 0 || x->fingerprint == 0)
        return flxi_fail_hint(err, FLX_E_USAGE, "give it all three",
                              "an extension needs a name, an id and a fingerprint");
    if (x->flags & ~(uint32_t)(FLX_KERNEL_EXTENSION_IMPURE | FLX_KERNEL_EXTENSION_STATEMENT))
        return flxi_fail(err, FLX_E_USAGE, "extension '%.60s' has unknown flags", x->name);
    if (is_statement && (x->type || x->derivative || x->num_args))
        return flxi_fail_hint(err, FLX_E_USAGE, "leave them out",
                              "extension '%.60s' is a statement: it has no operands, type or derivative", x->name);
    if (!is_statement && (!x->type || !x->evaluate))
        return flxi_fail_hint(err, FLX_E_USAGE, "give it both", "extension '%.60s' lacks a type rule or an evaluator",
                              x->name);
    if (x->num_args > FLXI_KEXTENSION_MAX_ARGS)
        return flxi_fail(err, FLX_E_USAGE, "extension '%.60s' has %u operands, at most %d are allowed", x->name,
                         (unsigned)x->num_args, FLXI_KEXTENSION_MAX_ARGS);
    if (x->derivative && (x->flags & FLX_KERNEL_EXTENSION_IMPURE))
        return flxi_fail_hint(err, FLX_E_USAGE, "leave the derivative out, or make it pure",
                              "extension '%.60s' is impure: it cannot have a derivative", x->name);
    return check_spellings(x, err);
}

/* *text becomes a copy; NULL stays. */
static bool keep(flxi_arena *arena, const char **text)
{
    if (*text)
        *text = flxi_arena_text(arena, *text, strlen(*text));
    return *text != NULL;
}

static flx_code add(flxi_registry *r, const flx_kernel_extension *x, flx_error *err)
{
    if (find_in(r, x->name, 0))
        return flxi_fail(err, FLX_E_DUP_NAME, "an extension '%.60s' is already registered", x->name);
    const flxi_kextension *same = find_in(r, NULL, x->id);
    if (same)
        return flxi_fail(err, FLX_E_DUP_NAME, "extension '%.60s' already has the number 0x%x", same->is.name,
                         (unsigned)x->id);
    flxi_kextension *kept = flxi_new(&r->arena, flxi_kextension, 1);
    if (!kept)
        return flxi_oom(err, "an extension");
    *kept = (flxi_kextension){*x, r->first};
    const char **const texts[] = {&kept->is.name,        &kept->is.derivative,    &kept->is.c.text,
                                  &kept->is.c.prelude,   &kept->is.cuda.text,     &kept->is.cuda.prelude,
                                  &kept->is.opencl.text, &kept->is.opencl.prelude};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (*texts[i] && !keep(&r->arena, texts[i]))
            return flxi_oom(err, "an extension");
    r->first = kept;
    return FLX_OK;
}

flx_code flx_kernel_register_extension(flx_context *ctx, const flx_kernel_extension *extension, flx_error *err)
{
    if (!ctx || !extension)
        return flxi_fail(err, FLX_E_USAGE, "flx_kernel_register_extension: the %s is NULL",
                         ctx ? "extension" : "context");
    flx_kernel_extension read;
    FLXI_TRY(FLXI_READ_OPTIONS(flx_kernel_extension, &read, extension, err));
    FLXI_TRY(check_extension(&read, err));
    flxi_registry *r = flxi_context_attached(ctx, make_registry, flxi_registry_free);
    if (!r)
        return flxi_oom(err, "an extension");
    pthread_mutex_lock(&r->lock);
    flx_code code = add(r, &read, err);
    pthread_mutex_unlock(&r->lock);
    return code;
}

/* ---- Evaluating ---- */

/* A computed NaN is the positive quiet one without payload, wherever it was computed. */
static uint64_t canonical(uint32_t type, uint64_t bits)
{
    static const struct {
        uint32_t type;
        uint64_t infinity, quiet;
    } floats[] = {
        {FLX_F64, UINT64_C(0x7ff0000000000000), UINT64_C(0x7ff8000000000000)},
        {FLX_F32, 0x7f800000, 0x7fc00000},
        {FLX_F16, 0x7c00, 0x7e00},
        {FLX_BF16, 0x7f80, 0x7fc0},
    };
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++) {
        uint64_t magnitude = bits & (floats[i].infinity | (floats[i].infinity - 1));
        if (type == floats[i].type && magnitude > floats[i].infinity)
            return floats[i].quiet;
    }
    return bits;
}

uint64_t flxi_kextension_eval(const flxi_kopaque *o, const uint32_t *types, const uint64_t *args, size_t n)
{
    const flx_kernel_extension *x = &o->known->is;
    uint64_t bits = x->evaluate ? x->evaluate(x->user, o->payload, o->payload_size, types, args, n) : 0;
    uint8_t width = flxi_ktype_of(o->type)->bits;
    if (o->type == FLX_BOOL)
        return bits != 0;
    if (width < 64)
        bits &= (UINT64_C(1) << width) - 1;
    return canonical(o->type, bits);
}
