/* inputs.c: which input gets which value.

   1. --set and --in are matched with the names of the graph.
   2. Parameters without a value are looked up in m.safetensors beside m.flx.
   3. Files are read. They show the extents of symbolic dimensions.
   4. The rest is filled, in shapes that these extents and --set make static.

   Only dimensions that are one symbol are learnt from files here; that the shapes fit the graph in every other way,
   flx_run() checks. */
#include "inputs.h"

#include "elements.h"
#include "report.h"
#include "spec.h"
#include "summary.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    const char *name;
    const flx_type *type;
    const char *spec; /* NULL while there is none */
    flx_tensor *value;
} slot;

typedef struct {
    const char *symbol; /* the graph's */
    flx_dim dim;
    int64_t extent; /* -1 while unknown */
    char *source;   /* who says so */
} extent;

typedef struct {
    const model *model;
    slot *slots;
    size_t num_slots;
    extent *extents;
    size_t num_extents;
    char *beside; /* path of the parameter file, or NULL */
} reading;

/* ---- Symbolic dimensions ---- */

static int list_symbols(reading *r)
{
    const flx_graph *g = r->model->graph;
    while (flx_graph_symbol(g, r->num_extents))
        r->num_extents++;
    r->extents = calloc(r->num_extents + 1, sizeof *r->extents);
    if (!r->extents)
        return fail_memory();
    for (size_t i = 0; i < r->num_extents; i++) {
        const char *symbol = flx_graph_symbol(g, i);
        r->extents[i] = (extent){.symbol = symbol, .dim = flx_dim_symbol(r->model->ctx, symbol), .extent = -1};
    }
    return STATUS_OK;
}

static int set_extent(extent *e, int64_t value, const char *source)
{
    if (e->extent >= 0 && e->extent != value)
        return fail(FLX_E_SHAPE, "dimension %s is %lld by %s, but %lld by %s", e->symbol, (long long)e->extent,
                    e->source, (long long)value, source);
    if (e->extent >= 0)
        return STATUS_OK;
    e->source = strdup(source);
    if (!e->source)
        return fail_memory();
    e->extent = value;
    return STATUS_OK;
}

static int unknown_symbol(const reading *r, const char *name)
{
    int status = fail(FLX_E_NAME, "graph '%s' has no dimension '%s'", flx_graph_name(r->model->graph), name);
    if (!r->num_extents) {
        hint("all its dimensions are numbers");
        return status;
    }
    hint_list_begin("its symbolic dimensions");
    for (size_t i = 0; i < r->num_extents; i++)
        hint_list_item(r->extents[i].symbol);
    hint_list_end();
    return status;
}

static int apply_set(reading *r, const char *name, const char *text)
{
    extent *e = r->extents;
    while (e < r->extents + r->num_extents && strcmp(e->symbol, name) != 0)
        e++;
    if (e == r->extents + r->num_extents)
        return unknown_symbol(r, name);
    int64_t value;
    if (!read_i64(text, &value) || value < 0)
        return fail(FLX_E_USAGE, "--set %s: '%s' is not an integer that an extent could be", name, text);
    return set_extent(e, value, "--set");
}

static int apply_sets(reading *r, const args *a, inputs *in)
{
    const char *text;
    for (size_t at = 0; (text = args_next(a, "--set", &at)) != NULL;) {
        char *name = NULL;
        const char *number = NULL;
        int status = args_split("--set", text, "DIM=INT", &name, &number);
        if (!status)
            status = apply_set(r, name, number);
        free(name);
        if (status)
            return status;
    }
    in->dims = calloc(r->num_extents + 1, sizeof *in->dims);
    if (!in->dims)
        return fail_memory();
    for (size_t i = 0; i < r->num_extents; i++)
        if (r->extents[i].extent >= 0)
            in->dims[in->num_dims++] = (flx_dim_binding){r->extents[i].symbol, r->extents[i].extent};
    return STATUS_OK;
}

/* ---- Names ---- */

static int list_slots(reading *r)
{
    const flx_graph *g = r->model->graph;
    r->num_slots = flx_graph_input_count(g);
    r->slots = calloc(r->num_slots + 1, sizeof *r->slots);
    if (!r->slots)
        return fail_memory();
    for (size_t i = 0; i < r->num_slots; i++) {
        flx_val v = flx_graph_input(g, i);
        r->slots[i] = (slot){.name = flx_val_name(g, v), .type = flx_val_type(g, v)};
    }
    return STATUS_OK;
}

static int unknown_input(const reading *r, const char *name)
{
    int status = fail(FLX_E_NAME, "graph '%s' has no input '%s'", flx_graph_name(r->model->graph), name);
    if (!r->num_slots) {
        hint("it has no inputs at all");
        return status;
    }
    hint_list_begin("its inputs");
    for (size_t i = 0; i < r->num_slots; i++)
        hint_list_item(r->slots[i].name);
    hint_list_end();
    return status;
}

static int apply_in(reading *r, const char *name, const char *spec)
{
    slot *s = r->slots;
    while (s < r->slots + r->num_slots && strcmp(s->name, name) != 0)
        s++;
    if (s == r->slots + r->num_slots)
        return unknown_input(r, name);
    if (s->spec)
        return fail(FLX_E_USAGE, "input '%s' is given twice", name);
    s->spec = spec;
    return STATUS_OK;
}

static int apply_ins(reading *r, const args *a)
{
    const char *text;
    for (size_t at = 0; (text = args_next(a, "--in", &at)) != NULL;) {
        char *name = NULL;
        const char *spec = NULL;
        int status = args_split("--in", text, "NAME=SPEC", &name, &spec);
        if (!status)
            status = apply_in(r, name, spec);
        free(name);
        if (status)
            return status;
    }
    return STATUS_OK;
}

/* ---- Files ---- */

/* m.safetensors for m.flx; no name when the graph comes from a pipe. */
static int find_beside(reading *r)
{
    static const char extension[] = ".safetensors";
    const char *path = r->model->path;
    if (strcmp(path, "-") == 0)
        return STATUS_OK;
    const char *slash = strrchr(path, '/');
    const char *base = slash ? slash + 1 : path;
    const char *dot = strrchr(base, '.');
    size_t n = dot && dot != base ? (size_t)(dot - path) : strlen(path);
    r->beside = malloc(n + sizeof extension);
    if (!r->beside)
        return fail_memory();
    memcpy(r->beside, path, n);
    memcpy(r->beside + n, extension, sizeof extension);
    if (access(r->beside, F_OK) != 0) {
        free(r->beside);
        r->beside = NULL;
    }
    return STATUS_OK;
}

/* A key that the file lacks is no error here: the parameter is then missing like any other input. */
static int read_beside(reading *r, slot *s)
{
    flx_error err = {0};
    s->value = flx_safetensors_read(r->model->ctx, r->beside, s->name, &err);
    if (!s->value)
        return err.code == FLX_E_NAME ? STATUS_OK : report(&err, NULL);
    return spec_convert(s->name, r->beside, s->type->dtype, &s->value);
}

static int shape_differs(const reading *r, const slot *s, const char *source)
{
    char *wanted = type_text(r->model->ctx, s->type);
    char *found = type_text(r->model->ctx, flx_tensor_type(s->value));
    int status = fail(FLX_E_SHAPE, "input '%s' is %s, but %s holds %s", s->name, wanted ? wanted : "?", source,
                      found ? found : "?");
    free(wanted);
    free(found);
    return status;
}

/* Checks a value that was read against the input's type, and learns what it shows of symbols. */
static int learn_extents(reading *r, const slot *s, const char *source)
{
    const flx_type *found = flx_tensor_type(s->value);
    if (found->rank != s->type->rank)
        return shape_differs(r, s, source);
    for (int32_t k = 0; k < found->rank; k++) {
        flx_dim dim = s->type->dims[k];
        if (flx_dim_is_static(dim) && dim != found->dims[k])
            return shape_differs(r, s, source);
        for (size_t i = 0; i < r->num_extents; i++) {
            if (r->extents[i].dim != dim)
                continue;
            char who[80];
            snprintf(who, sizeof who, "input '%s'", s->name);
            int status = set_extent(&r->extents[i], found->dims[k], who);
            if (status)
                return status;
        }
    }
    return STATUS_OK;
}

static int read_files(reading *r)
{
    const flx_graph *g = r->model->graph;
    for (size_t i = 0; i < r->num_slots; i++) {
        slot *s = &r->slots[i];
        int status = STATUS_OK;
        if (s->spec && spec_is_file(s->spec))
            status = spec_read(r->model->ctx, s->name, s->spec, s->type->dtype, &s->value);
        else if (!s->spec && r->beside && flx_graph_input_is_param(g, i))
            status = read_beside(r, s);
        if (!status && s->value)
            status = learn_extents(r, s, s->spec ? s->spec : r->beside);
        if (status)
            return status;
    }
    return STATUS_OK;
}

/* ---- What is left ---- */

static int settle_missing(reading *r, missing_policy policy)
{
    size_t missing = 0;
    for (size_t i = 0; i < r->num_slots; i++) {
        slot *s = &r->slots[i];
        if (s->spec || s->value)
            continue;
        missing++;
        if (policy == MISSING_IS_FILLED)
            s->spec = kind_of(s->type->dtype) == KIND_FLOAT ? "normal" : "zeros";
    }
    if (!missing || policy == MISSING_IS_FILLED)
        return STATUS_OK;
    int status = fail(FLX_E_MISSING_INPUT, "%zu of the %zu inputs of graph '%s' have no value", missing, r->num_slots,
                      flx_graph_name(r->model->graph));
    hint_list_begin("give --in NAME=SPEC for");
    for (size_t i = 0; i < r->num_slots; i++)
        if (!r->slots[i].spec && !r->slots[i].value)
            hint_list_item(r->slots[i].name);
    hint_list_end();
    return status;
}

/* Whether `text`, a printed type, has `symbol` as a whole word. */
static bool has_word(const char *text, const char *symbol)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.";
    for (const char *s = strchr(text, '['); s && *s;) {
        size_t n = strspn(s, letters);
        if (n == strlen(symbol) && strncmp(s, symbol, n) == 0)
            return true;
        s += n ? n : 1;
    }
    return false;
}

static int unbound(const reading *r, const slot *s)
{
    char *type = type_text(r->model->ctx, s->type);
    if (!type)
        return fail_memory();
    int status =
        fail(FLX_E_UNBOUND_DIM, "input '%s' is %s: no file shows the extent of its symbolic dimensions", s->name, type);
    hint_list_begin("give --set DIM=INT for");
    for (size_t i = 0; i < r->num_extents; i++)
        if (r->extents[i].extent < 0 && has_word(type, r->extents[i].symbol))
            hint_list_item(r->extents[i].symbol);
    hint_list_end();
    free(type);
    return status;
}

/* A graph of the inputs alone, in which every symbol that is known is a number. */
static int specialise_types(const reading *r, flx_graph **out)
{
    flx_dim_binding *known = calloc(r->num_extents + 1, sizeof *known);
    flx_graph *g = flx_graph_new(r->model->ctx, "inputs");
    flx_error err = {0};
    size_t n = 0;
    for (size_t i = 0; g && i < r->num_slots; i++)
        flx_output(g, flx_input(g, r->slots[i].name, r->slots[i].type), NULL);
    for (size_t i = 0; known && i < r->num_extents; i++)
        if (r->extents[i].extent >= 0)
            known[n++] = (flx_dim_binding){r->extents[i].symbol, r->extents[i].extent};
    int status = STATUS_OK;
    if (!known || !g)
        status = fail_memory();
    else if (!(*out = flx_specialise(g, known, n, &err)))
        status = report(&err, NULL);
    flx_graph_free(g);
    free(known);
    return status;
}

static int fill_rest(reading *r)
{
    flx_graph *g = NULL;
    int status = specialise_types(r, &g);
    for (size_t i = 0; !status && i < r->num_slots; i++) {
        slot *s = &r->slots[i];
        const flx_type *type = flx_val_type(g, flx_graph_input(g, i));
        if (s->value)
            continue;
        for (int32_t k = 0; !status && k < type->rank; k++)
            if (!flx_dim_is_static(type->dims[k]))
                status = unbound(r, s);
        if (!status)
            status = spec_fill(r->model->ctx, s->name, s->spec, type, &s->value);
    }
    flx_graph_free(g);
    return status;
}

/* ---- All of it ---- */

static int read_all(reading *r, const args *a, missing_policy policy, inputs *in)
{
    int status = list_symbols(r);
    if (!status)
        status = list_slots(r);
    if (!status)
        status = apply_ins(r, a);
    if (!status)
        status = apply_sets(r, a, in);
    if (!status)
        status = find_beside(r);
    if (!status)
        status = read_files(r);
    if (!status)
        status = settle_missing(r, policy);
    if (!status)
        status = fill_rest(r);
    return status;
}

/* The values go to `in`, which releases them. */
static int hand_over(reading *r, inputs *in)
{
    in->feeds = calloc(r->num_slots + 1, sizeof *in->feeds);
    in->values = calloc(r->num_slots + 1, sizeof *in->values);
    if (!in->feeds || !in->values)
        return fail_memory();
    for (size_t i = 0; i < r->num_slots; i++) {
        in->feeds[i] = (flx_feed){r->slots[i].name, r->slots[i].value};
        in->values[i] = r->slots[i].value;
        r->slots[i].value = NULL;
    }
    in->num_feeds = r->num_slots;
    return STATUS_OK;
}

int inputs_read(inputs *in, const model *m, const args *a, missing_policy policy)
{
    *in = (inputs){0};
    reading r = {.model = m};
    int status = read_all(&r, a, policy, in);
    if (!status)
        status = hand_over(&r, in);
    for (size_t i = 0; r.slots && i < r.num_slots; i++)
        flx_tensor_release(r.slots[i].value);
    for (size_t i = 0; r.extents && i < r.num_extents; i++)
        free(r.extents[i].source);
    free(r.slots);
    free(r.extents);
    free(r.beside);
    return status;
}

void inputs_free(inputs *in)
{
    for (size_t i = 0; i < in->num_feeds; i++)
        flx_tensor_release(in->values[i]);
    free(in->feeds);
    free(in->values);
    free(in->dims);
    *in = (inputs){0};
}
