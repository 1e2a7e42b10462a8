/* SPDX-License-Identifier: Apache-2.0 */
/* feeds.c: what a run is given, matched with what the graph declares. */
#include "runtime/feeds.h"

#include "base/host/stop.h"
#include "base/options.h"
#include "passes/pass.h"

#include <stdio.h>

static flx_code missing_inputs(flxi_feeding *s)
{
    char list[160] = "";
    size_t at = 0;
    size_t missing = 0;
    for (size_t i = 0; i < s->g->leaves.n; i++) {
        if (s->in[i])
            continue;
        missing++;
        if (at < sizeof list)
            at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", at ? ", " : "",
                                   flxi_value_at(s->g, s->g->leaves.at[i])->name);
    }
    return missing ? flxi_fail(s->err, FLX_E_MISSING_INPUT, "%zu input%s no value: %s", missing,
                               missing == 1 ? " has" : "s have", list)
                   : FLX_OK;
}

static flx_code match_feeds(flxi_feeding *s, const flx_feed *feeds, size_t n)
{
    char text[60];
    for (size_t i = 0; i < n; i++) {
        if (!feeds[i].name || !feeds[i].value)
            return flxi_fail(s->err, FLX_E_USAGE, "feed %zu has no name or no value", i);
        size_t k;
        flxi_printable(text, sizeof text, feeds[i].name, strlen(feeds[i].name));
        if (!flxi_find_leaf(s->g, feeds[i].name, &k)) {
            flxi_fail(s->err, FLX_E_NAME, "the graph '%s' has no input called '%s'", s->g->name, text);
            flxi_hint_input(s->err, s->g, feeds[i].name);
            return FLX_E_NAME;
        }
        if (s->in[k])
            return flxi_fail(s->err, FLX_E_DUP_NAME, "the input '%s' is given twice", text);
        if (feeds[i].value->ctx != s->g->ctx)
            return flxi_fail(s->err, FLX_E_USAGE, "the value of '%s' belongs to another context", text);
        FLXI_TRY(flxi_tensor_fetch(feeds[i].value, s->err));
        s->in[k] = feeds[i].value;
    }
    return missing_inputs(s);
}

static flx_code bind_symbol(flxi_feeding *s, const char *name, int64_t extent)
{
    for (size_t i = 0; i < s->bound.n; i++)
        if (strcmp(s->bound.at[i].name, name) == 0)
            return FLX_OK; /* agreement is checked once everything is bound */
    return flxi_push(&s->g->ctx->mem, &s->bound, ((flx_dim_binding){name, extent})) ? FLX_OK
                                                                                    : flxi_oom(s->err, "dimensions");
}

/* `bound` is what the declared type becomes once its symbols have extents; NULL while they have none. */
static flx_code wrong_feed(flxi_feeding *s, size_t i, const flx_type *bound)
{
    flxi_type_text declared;
    flxi_type_text found;
    const flxi_value *leaf = flxi_value_at(s->g, s->g->leaves.at[i]);
    const flx_type *given = &s->in[i]->type;
    flx_code code = flxi_fail(s->err, leaf->type->dtype == given->dtype ? FLX_E_SHAPE : FLX_E_DTYPE,
                              "input '%s' is declared %s, but the value is %s", leaf->name,
                              flxi_type_str(s->g->ctx, leaf->type, &declared), flxi_type_str(s->g->ctx, given, &found));
    if (bound && !flxi_type_equal(bound, leaf->type))
        flxi_hint(s->err, "the other inputs and the options make it %s", flxi_type_str(s->g->ctx, bound, &declared));
    return code;
}

/* Dimensions that show one symbol give its extent. */
static flx_code bind_from_shapes(flxi_feeding *s)
{
    for (size_t i = 0; i < s->g->leaves.n; i++) {
        const flx_type *t = flxi_type_at(s->g, s->g->leaves.at[i]);
        const flx_type *given = &s->in[i]->type;
        if (t->rank != given->rank || t->dtype != given->dtype)
            return wrong_feed(s, i, NULL);
        for (int k = 0; k < t->rank; k++) {
            int64_t extent;
            const char *name = flxi_dim_solve(s->g->ctx, t->dims[k], given->dims[k], &extent);
            if (name && extent < 0)
                return wrong_feed(s, i, NULL);
            if (name)
                FLXI_TRY(bind_symbol(s, name, extent));
        }
    }
    return FLX_OK;
}

static flx_code check_bound(flxi_feeding *s)
{
    for (size_t i = 0; i < s->g->symbols.n; i++) {
        size_t k = 0;
        while (k < s->bound.n && strcmp(s->bound.at[k].name, s->g->symbols.at[i]) != 0)
            k++;
        if (k == s->bound.n)
            return flxi_fail_hint(s->err, FLX_E_UNBOUND_DIM, "give it with --set, or in flx_run_options.dims",
                                  "no input shows the extent of the dimension %s", s->g->symbols.at[i]);
    }
    return FLX_OK;
}

/* The type with its symbols replaced; false where an extent cannot be computed, which specialising reports. */
static bool bind_type(const flxi_feeding *s, const flx_type *type, flx_type *out)
{
    *out = *type;
    for (int32_t i = 0; i < type->rank; i++) {
        out->dims[i] = flxi_dim_bind(s->g->ctx, type->dims[i], s->bound.at, s->bound.n, NULL);
        if (out->dims[i] == FLX_DIM_INVALID)
            return false;
    }
    return true;
}

flx_code flxi_feeding_check(flxi_feeding *s)
{
    for (size_t i = 0; i < s->g->leaves.n; i++) {
        flx_type bound;
        if (bind_type(s, flxi_type_at(s->g, s->g->leaves.at[i]), &bound) && !flxi_type_equal(&bound, &s->in[i]->type))
            return wrong_feed(s, i, &bound);
    }
    return FLX_OK;
}

flx_code flxi_run_options_read(const flx_run_options *given, flx_run_options *out, flx_error *err)
{
    FLXI_TRY(FLXI_READ_GROWN_OPTIONS(flx_run_options, stop, out, given, err));
    FLXI_TRY(flxi_check_limits("flx_run_options", out->time_limit, out->memory_limit, err));
    if (out->flags & ~(uint32_t)FLX_RUN_CHECK_FINITE)
        return flxi_fail_hint(err, FLX_E_USAGE, "flags: 0 or FLX_RUN_CHECK_FINITE",
                              "flx_run_options: unknown flags 0x%x", (unsigned)out->flags);
    if (out->num_dims && !out->dims)
        return flxi_fail(err, FLX_E_USAGE, "flx_run_options: num_dims is %zu, but dims is NULL", out->num_dims);
    return FLX_OK;
}

flx_code flxi_feeding_begin(flxi_feeding *s, const flx_graph *g, const flx_run_options *options, const flx_feed *feeds,
                            size_t num_feeds, flx_error *err)
{
    *s = (flxi_feeding){.g = g, .err = err};
    s->in = flxi_alloc(&g->ctx->mem, g->leaves.n, sizeof *s->in);
    if (!s->in)
        return flxi_oom(err, "inputs");
    FLXI_TRY(match_feeds(s, feeds, num_feeds));
    if (options)
        FLXI_TRY(flxi_check_bindings(options->dims, options->num_dims, err));
    for (size_t i = 0; options && i < options->num_dims; i++)
        FLXI_TRY(bind_symbol(s, options->dims[i].name, options->dims[i].extent));
    if (!g->symbols.n)
        return FLX_OK;
    FLXI_TRY(bind_from_shapes(s));
    return check_bound(s);
}

void flxi_feeding_end(flxi_feeding *s)
{
    flxi_vec_free(&s->g->ctx->mem, &s->bound);
    if (s->in)
        flxi_free(&s->g->ctx->mem, s->in, s->g->leaves.n, sizeof *s->in);
    s->in = NULL;
}
