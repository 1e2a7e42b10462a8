/* run.c: running a graph once on a device: match the feeds with the inputs, bind symbolic dimensions, hand over. */
#include "backend/ref/ref.h"
#include "passes/pass.h"

#include <stdio.h>

/* ---- Devices ---- */

typedef struct {
    const char *name;
    bool present;
    const char *detail;
} device_row;

static const device_row devices[] = {
    {"ref", true, "reference evaluator: every op by its definition, one thread"},
    {"cpu", false, "compiled code for this machine: not part of this version"},
    {"opencl", false, "not part of this version"},
    {"cuda", false, "not part of this version"},
};

enum { DEVICE_COUNT = sizeof devices / sizeof devices[0] };

flx_code flx_device(size_t i, const char **name, char *detail, size_t size)
{
    if (i >= DEVICE_COUNT)
        return FLX_E_NAME;
    if (name)
        *name = devices[i].name;
    if (detail && size)
        snprintf(detail, size, "%s", devices[i].detail);
    return devices[i].present ? FLX_OK : FLX_E_DEVICE;
}

static flx_code check_device(const char *name, flx_error *err)
{
    char text[40];
    for (size_t i = 0; name && i < DEVICE_COUNT; i++)
        if (strcmp(devices[i].name, name) == 0)
            return devices[i].present
                       ? FLX_OK
                       : flxi_fail_hint(err, FLX_E_DEVICE, "'flx devices' lists what can be used",
                                        "the device '%s' cannot be used: %s", name, devices[i].detail);
    if (!name)
        return FLX_OK;
    return flxi_fail_hint(err, FLX_E_NAME, "devices: ref cpu opencl cuda", "there is no device called '%s'",
                          flxi_printable(text, sizeof text, name, strlen(name)));
}

/* ---- Feeds ---- */

typedef struct {
    const flx_graph *g;
    const flx_tensor **in; /* by position of the leaf */
    FLXI_VEC(flx_dim_binding) bound;
    flx_error *err;
} feeding;

static flx_code missing_inputs(feeding *s)
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
    return missing ? flxi_fail(s->err, FLX_E_MISSING_INPUT, "%zu inputs have no value: %s", missing, list) : FLX_OK;
}

static flx_code match_feeds(feeding *s, const flx_feed *feeds, size_t n)
{
    char text[60];
    for (size_t i = 0; i < n; i++) {
        if (!feeds[i].name || !feeds[i].value)
            return flxi_fail(s->err, FLX_E_USAGE, "feed %zu has no name or no value", i);
        size_t k;
        flxi_printable(text, sizeof text, feeds[i].name, strlen(feeds[i].name));
        if (!flxi_find_leaf(s->g, feeds[i].name, &k))
            return flxi_fail(s->err, FLX_E_NAME, "the graph '%s' has no input called '%s'", s->g->name, text);
        if (s->in[k])
            return flxi_fail(s->err, FLX_E_DUP_NAME, "the input '%s' is given twice", text);
        if (feeds[i].value->ctx != s->g->ctx)
            return flxi_fail(s->err, FLX_E_USAGE, "the value of '%s' belongs to another context", text);
        s->in[k] = feeds[i].value;
    }
    return missing_inputs(s);
}

static flx_code bind_symbol(feeding *s, const char *name, int64_t extent)
{
    for (size_t i = 0; i < s->bound.n; i++)
        if (strcmp(s->bound.at[i].name, name) == 0)
            return FLX_OK; /* agreement is checked once everything is bound */
    return flxi_push(&s->g->ctx->mem, &s->bound, ((flx_dim_binding){name, extent})) ? FLX_OK
                                                                                 : flxi_oom(s->err, "dimensions");
}

/* `bound` is what the declared type becomes once its symbols have extents; NULL while they have none. */
static flx_code wrong_feed(feeding *s, size_t i, const flx_type *bound)
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
static flx_code bind_from_shapes(feeding *s)
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

static flx_code check_bound(feeding *s)
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

static flx_code check_feed_types(feeding *s, const flx_graph *bound)
{
    for (size_t i = 0; i < bound->leaves.n; i++)
        if (!flxi_type_equal(flxi_type_at(bound, bound->leaves.at[i]), &s->in[i]->type))
            return wrong_feed(s, i, flxi_type_at(bound, bound->leaves.at[i]));
    return FLX_OK;
}

static flx_code run_bound(feeding *s, const flx_run_options *options, flx_tensor **outputs)
{
    flx_graph *special = NULL;
    const flx_graph *g = s->g;
    if (s->g->symbols.n) {
        FLXI_TRY(bind_from_shapes(s));
        FLXI_TRY(check_bound(s));
        FLXI_TRY(flxi_specialise(s->g, s->bound.at, s->bound.n, &special, NULL, s->err));
        g = special;
    }
    flx_code code = check_feed_types(s, g);
    if (code == FLX_OK)
        code = flxi_ref_run(g, options, s->in, outputs, s->err);
    flx_graph_free(special);
    return code;
}

static flx_code run_checked(const flx_graph *g, const flx_run_options *options, const flx_feed *feeds, size_t num_feeds,
                            flx_tensor **outputs, flx_error *err)
{
    const flxi_allocator *mem = &g->ctx->mem;
    feeding s = {.g = g, .err = err};
    s.in = flxi_alloc(mem, g->leaves.n, sizeof *s.in);
    flx_code code = s.in ? match_feeds(&s, feeds, num_feeds) : flxi_oom(err, "inputs");
    if (code == FLX_OK && options)
        code = flxi_check_bindings(options->dims, options->num_dims, err);
    for (size_t i = 0; code == FLX_OK && options && i < options->num_dims; i++)
        code = bind_symbol(&s, options->dims[i].name, options->dims[i].extent);
    if (code == FLX_OK)
        code = run_bound(&s, options, outputs);
    flxi_vec_free(mem, &s.bound);
    flxi_free(mem, s.in, g->leaves.n, sizeof *s.in);
    return code;
}

flx_code flx_run(const flx_graph *g, const flx_run_options *options, const flx_feed *feeds, size_t num_feeds,
                 flx_tensor **outputs, flx_error *err)
{
    flx_error local = {0};
    flx_code code = flx_graph_error(g, &local);
    for (size_t i = 0; outputs && i < flx_graph_output_count(g); i++)
        outputs[i] = NULL;
    if (code == FLX_OK && ((num_feeds && !feeds) || (g->outputs.n && !outputs) ||
                           (options && options->num_dims && !options->dims)))
        code = flxi_fail(&local, FLX_E_USAGE, "flx_run: feeds, dims and outputs must be given");
    if (code == FLX_OK && options && options->flags)
        code = flxi_fail(&local, FLX_E_USAGE, "flx_run: flags must be 0");
    if (code == FLX_OK && options && options->status)
        *options->status = 0;
    if (code == FLX_OK)
        code = check_device(options ? options->device : NULL, &local);
    if (code == FLX_OK)
        code = run_checked(g, options, feeds, num_feeds, outputs, &local);
    if (code != FLX_OK && err)
        *err = local;
    return code;
}
