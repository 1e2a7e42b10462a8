/* SPDX-License-Identifier: Apache-2.0 */
/* inputs.c: which input gets which value.

   1. --set and --in are matched with the names of the graph.
   2. Parameters without a value are looked up in the file of --values, or else in m.safetensors beside m.flx, then
      in an ONNX model itself.
   3. Files are read. They show the extents of symbolic dimensions.
   4. The rest is filled, in shapes that these extents and --set make static, and files are checked against those
      shapes: nothing is compiled for inputs that do not fit. */
#include "io/inputs.h"

#include "io/elements.h"
#include "io/spec.h"
#include "io/summary.h"
#include "report.h"
#include "suggest.h"

#include <fluxion/train.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const int64_t max_extent = INT64_C(1) << 60; /* beyond any memory, and safe for the library to compute with */

typedef struct {
    const char *name;
    const flx_type *type;
    const char *spec;     /* NULL while there is none */
    char filled_spec[32]; /* storage for one that is made here */
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

/* What is known so far, allocated; NULL when memory is exhausted. */
static flx_dim_binding *known_extents(const reading *r, size_t *n)
{
    flx_dim_binding *known = calloc(r->num_extents + 1, sizeof *known);
    *n = 0;
    for (size_t i = 0; known && i < r->num_extents; i++)
        if (r->extents[i].extent >= 0)
            known[(*n)++] = (flx_dim_binding){r->extents[i].symbol, r->extents[i].extent};
    return known;
}

static bool has_symbol(const flx_graph *g, const char *name)
{
    const char *symbol;
    for (size_t i = 0; (symbol = flx_graph_symbol(g, i)) != NULL; i++)
        if (strcmp(symbol, name) == 0)
            return true;
    return false;
}

size_t dims_of_graph(const flx_graph *g, flx_dim_binding *dims, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        if (has_symbol(g, dims[i].name)) {
            flx_dim_binding first = dims[count];
            dims[count++] = dims[i];
            dims[i] = first;
        }
    return count;
}

/* The graph with every symbol that is known so far a number. */
static flx_graph *specialise(const reading *r, const flx_graph *g, flx_error *err)
{
    size_t n;
    flx_dim_binding *known = known_extents(r, &n);
    flx_graph *bound = known ? flx_specialise(g, known, dims_of_graph(g, known, n), err) : NULL;
    if (!known && err)
        *err = (flx_error){.code = FLX_E_OOM, .message = "out of memory"};
    free(known);
    return bound;
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
        list_item(r->extents[i].symbol);
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
    if (!read_i64(text, &value) || value < 0 || value > max_extent)
        return fail(FLX_E_USAGE, "--set %s: the extent must be an integer between 0 and %lld, got '%s'", name,
                    (long long)max_extent, text);
    return set_extent(e, value, "--set");
}

static int apply_sets(reading *r, const args *a)
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
    suggestion s = suggest_begin(name);
    for (size_t i = 0; i < r->num_slots; i++)
        suggest_consider(&s, r->slots[i].name);
    if (s.best)
        hint_list_begin("did you mean '%s'? its inputs", s.best);
    else
        hint_list_begin("its inputs");
    for (size_t i = 0; i < r->num_slots; i++)
        list_item(r->slots[i].name);
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

/* The file of --values, or else that beside the model. No name when the graph comes from a pipe, or when there is no
   such file. */
static int find_beside(reading *r, const args *a)
{
    const char *given = args_value(a, "--values");
    if (given) {
        r->beside = strdup(given);
        return r->beside ? STATUS_OK : fail_memory();
    }
    if (strcmp(r->model->path, "-") == 0)
        return STATUS_OK;
    r->beside = weights_find(r->model->path);
    if (!r->beside)
        return fail_memory();
    if (access(r->beside, F_OK) != 0) {
        free(r->beside);
        r->beside = NULL;
    }
    return STATUS_OK;
}

/* A key that the file lacks is not an error here: the parameter is then missing like any other input. */
static int read_beside(reading *r, slot *s)
{
    flx_error err = {0};
    s->value = flx_weights_read(r->model->ctx, r->beside, s->name, &err);
    if (!s->value && err.code != FLX_E_NAME) {
        int status = report(&err, r->beside);
        if (err.code == FLX_E_SYNTAX && !err.hint[0])
            hint("values are read from .npz, .safetensors or the index of one in parts, and .pt");
        return status;
    }
    if (!s->value)
        return STATUS_OK;
    return spec_convert(s->name, r->beside, s->type->dtype, &s->value);
}

static int shape_differs(const reading *r, const slot *s, const char *source)
{
    char *wanted = type_text(r->model->ctx, s->type);
    char *found = type_text(r->model->ctx, flx_tensor_type(s->value));
    int status = fail(FLX_E_SHAPE, "input '%s' is %s, but %s holds %s", s->name, wanted ? wanted : "?", source,
                      found ? found : "?");
    if (s->spec && strchr(s->spec, ','))
        hint("a list has one number for each element, row by row; at most one extent may follow from it");
    free(wanted);
    free(found);
    return status;
}

/* Whether `text`, dimensions as printed, has `symbol` as a whole word. */
static bool has_word(const char *text, const char *symbol)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.";
    for (const char *s = text; *s;) {
        size_t n = strspn(s, letters);
        if (n == strlen(symbol) && strncmp(s, symbol, n) == 0)
            return true;
        s += n ? n : 1;
    }
    return false;
}

/* The extent of `symbol`, given that `dim`, in which it is the only unknown, is `found`; -1 when that does not decide
   it. The library solves it when it runs a graph with an input of that shape; a vector of that extent gives the
   solution. */
static int64_t solve_symbol(const reading *r, const extent *symbol, flx_dim dim, int64_t found)
{
    flx_type shown = flx_type_make(FLX_BOOL, 1, &dim);
    flx_type given = flx_type_make(FLX_BOOL, 1, &found);
    flx_type asked = flx_type_make(FLX_U8, 1, &symbol->dim);
    flx_graph *g = flx_graph_new(r->model->ctx, "solve");
    if (!g)
        return -1;
    flx_val y = FLX_NONE;
    flx_input(g, "x", &shown);
    flx_op(g, "iota", NULL, 0, &(flx_attr){.key = "type", .kind = FLX_ATTR_TYPE, .as.type = &asked}, 1, &y, 1);
    flx_output(g, y, "y");
    flx_graph *bound = specialise(r, g, NULL);
    flx_tensor *value = flx_tensor_new(r->model->ctx, &given, NULL, NULL);
    flx_tensor *vector = NULL;
    int64_t answer = -1;
    if (bound && value &&
        flx_run(bound, &(flx_run_options){.device = "ref"}, &(flx_feed){"x", value}, 1, &vector, NULL) == FLX_OK)
        answer = flx_tensor_type(vector)->dims[0];
    flx_tensor_release(vector);
    flx_tensor_release(value);
    flx_graph_release(bound);
    flx_graph_release(g);
    return answer;
}

/* Learns from a dimension such as 2*N. Which symbols a dimension has, its text tells. */
static int learn_from_expression(reading *r, flx_dim dim, int64_t found, const char *who)
{
    extent *unknown = NULL;
    size_t num_unknown = 0;
    char text[200];
    if (flx_dim_print(r->model->ctx, dim, text, sizeof text) >= sizeof text)
        return STATUS_OK;
    for (size_t i = 0; i < r->num_extents; i++) {
        if (r->extents[i].extent < 0 && has_word(text, r->extents[i].symbol)) {
            unknown = &r->extents[i];
            num_unknown++;
        }
    }
    int64_t answer = num_unknown == 1 ? solve_symbol(r, unknown, dim, found) : -1;
    return answer >= 0 ? set_extent(unknown, answer, who) : STATUS_OK;
}

static extent *extent_of_dim(const reading *r, flx_dim dim)
{
    for (size_t i = 0; i < r->num_extents; i++)
        if (r->extents[i].dim == dim)
            return &r->extents[i];
    return NULL;
}

/* Checks a value that was read against the input's type, and learns what it shows of symbols. */
static int learn_extents(reading *r, const slot *s, const char *source)
{
    const flx_type *found = flx_tensor_type(s->value);
    char who[80];
    snprintf(who, sizeof who, "input '%s'", s->name);
    if (found->rank != s->type->rank)
        return shape_differs(r, s, source);
    for (int32_t k = 0; k < found->rank; k++) {
        flx_dim dim = s->type->dims[k];
        extent *e = extent_of_dim(r, dim);
        int status = STATUS_OK;
        if (e)
            status = set_extent(e, found->dims[k], who);
        else if (!flx_dim_is_static(dim))
            status = learn_from_expression(r, dim, found->dims[k], who);
        else if (dim != found->dims[k])
            status = shape_differs(r, s, source);
        if (status)
            return status;
    }
    return STATUS_OK;
}

/* What holds the value of a slot, for messages. */
static const char *source_of(const reading *r, const slot *s)
{
    return s->spec ? s->spec : r->beside ? r->beside : r->model->name;
}

/* The type of an input, in which the extents that are known are numbers. */
static flx_type known_type(const reading *r, const flx_type *declared)
{
    flx_type type = *declared;
    for (int32_t k = 0; k < type.rank; k++) {
        const extent *e = extent_of_dim(r, type.dims[k]);
        if (e && e->extent >= 0)
            type.dims[k] = e->extent;
    }
    return type;
}

static int read_files(reading *r)
{
    const flx_graph *g = r->model->graph;
    for (size_t i = 0; i < r->num_slots; i++) {
        slot *s = &r->slots[i];
        const flx_type type = known_type(r, s->type);
        int status = STATUS_OK;
        if (s->spec && spec_has_shape(s->spec))
            status = spec_read_as(r->model->ctx, s->name, s->spec, &type, &s->value);
        else if (!s->spec && r->beside && flx_graph_input_is_param(g, i))
            status = read_beside(r, s);
        if (!status && !s->spec && !s->value)
            s->value = flx_tensor_retain(model_param(r->model, s->name));
        if (!status && s->value)
            status = learn_extents(r, s, source_of(r, s));
        if (status)
            return status;
    }
    return STATUS_OK;
}

/* ---- Parameters that the file lacks ---- */

static bool is_parameter(const reading *r, const char *name)
{
    for (size_t i = 0; i < r->num_slots; i++)
        if (flx_graph_input_is_param(r->model->graph, i) && strcmp(r->slots[i].name, name) == 0)
            return true;
    return false;
}

static bool lacks_value(const reading *r, size_t i)
{
    return !r->slots[i].spec && !r->slots[i].value && flx_graph_input_is_param(r->model->graph, i);
}

/* What is in the file for nothing may be what is missing, with another name. */
static void tell_unused(const reading *r, void (*begin)(const char *fmt, ...), void (*end)(void))
{
    flx_keys *keys = r->beside ? flx_keys_read(r->model->ctx, r->beside, NULL) : NULL;
    const char *key;
    bool has_any = false;
    for (size_t i = 0; (key = flx_keys_at(keys, i)) != NULL; i++) {
        if (is_parameter(r, key))
            continue;
        if (!has_any)
            begin("in %s, but not a parameter", r->beside);
        list_item(key);
        has_any = true;
    }
    if (has_any)
        end();
    flx_keys_free(keys);
}

/* Before they are initialised. */
static void tell_lacking(const reading *r)
{
    bool has_any = false;
    size_t num_params = 0;
    for (size_t i = 0; i < r->num_slots; i++)
        num_params += flx_graph_input_is_param(r->model->graph, i) ? 1 : 0;
    if (!num_params)
        note("--init: graph '%s' has no parameters", flx_graph_name(r->model->graph));
    for (size_t i = 0; r->beside && i < r->num_slots; i++) {
        if (!lacks_value(r, i))
            continue;
        if (!has_any)
            note_list_begin("%s lacks these parameters, which are initialised", r->beside);
        list_item(r->slots[i].name);
        has_any = true;
    }
    if (!has_any)
        return;
    note_list_end();
    tell_unused(r, note_list_begin, note_list_end);
}

/* ---- Initialisation ---- */

/* The parameters of the graph, in shapes that the known extents make static, initialised as they are declared. */
static flx_params *make_params(const reading *r, uint64_t seed, flx_error *err)
{
    flx_graph *g = specialise(r, r->model->graph, err);
    flx_params *params = g ? flx_params_of(g, seed, err) : NULL;
    flx_graph_release(g);
    return params;
}

/* With --init, for parameters that have no value yet. */
static int initialise(reading *r, const args *a)
{
    const char *text = args_value(a, "--init");
    int64_t seed = 0;
    flx_error err = {0};
    if (!text)
        return STATUS_OK;
    if (!read_i64(text, &seed))
        return fail(FLX_E_USAGE, "--init %s: an integer is needed", text);
    flx_params *params = make_params(r, (uint64_t)seed, &err);
    if (!params)
        return report(&err, r->model->name);
    tell_lacking(r);
    for (size_t i = 0; i < r->num_slots; i++) {
        slot *s = &r->slots[i];
        if (!lacks_value(r, i))
            continue;
        s->value = flx_tensor_retain(flx_params_find(params, s->name));
        if (!s->value) /* a set leaves to its user what is not floating and has no declared beginning */
            s->spec = "zeros";
    }
    flx_params_release(params);
    return STATUS_OK;
}

/* ---- What is left ---- */

static int settle_missing(reading *r, missing_policy policy)
{
    bool any = false;
    for (size_t i = 0; i < r->num_slots; i++) {
        slot *s = &r->slots[i];
        if (s->spec || s->value)
            continue;
        any = true;
        if (policy == MISSING_IS_ERROR)
            continue;
        snprintf(s->filled_spec, sizeof s->filled_spec, "normal:%zu", policy == MISSING_IS_VARIED ? i : 0);
        s->spec = kind_of(s->type->dtype) == KIND_FLOAT ? s->filled_spec : "zeros";
    }
    if (!any || policy != MISSING_IS_ERROR)
        return STATUS_OK;
    fail_list_begin("graph '%s' needs a value for", flx_graph_name(r->model->graph));
    for (size_t i = 0; i < r->num_slots; i++)
        if (!r->slots[i].spec && !r->slots[i].value)
            list_item(r->slots[i].name);
    int status = fail_list_end(FLX_E_MISSING_INPUT);
    hint("give each one as --in NAME=SPEC; flx help run lists what SPEC may be");
    tell_unused(r, hint_list_begin, hint_list_end);
    return status;
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
        if (r->extents[i].extent < 0 && has_word(strchr(type, '['), r->extents[i].symbol))
            list_item(r->extents[i].symbol);
    hint_list_end();
    free(type);
    return status;
}

/* A graph of the inputs alone, in which every symbol that is known is a number. */
static int specialise_types(const reading *r, flx_graph **out)
{
    flx_graph *g = flx_graph_new(r->model->ctx, "inputs");
    if (!g)
        return fail_memory();
    for (size_t i = 0; i < r->num_slots; i++)
        flx_output(g, flx_input(g, r->slots[i].name, r->slots[i].type), NULL);
    flx_error err = {0};
    *out = specialise(r, g, &err);
    flx_graph_release(g);
    return *out ? STATUS_OK : report(&err, NULL);
}

/* Whether a value that was read fits the declared type, in which the extents that are known are numbers. */
static int check_value(const reading *r, const slot *s, const flx_type *type)
{
    const flx_type *found = flx_tensor_type(s->value);
    bool fits = true;
    for (int32_t k = 0; k < type->rank; k++)
        fits &= !flx_dim_is_static(type->dims[k]) || type->dims[k] == found->dims[k];
    if (fits)
        return STATUS_OK;
    int status = shape_differs(r, s, source_of(r, s));
    char *text = type_text(r->model->ctx, type);
    hint("the other inputs and --set make it %s", text ? text : "another type");
    free(text);
    return status;
}

static int fill_rest(reading *r)
{
    flx_graph *g = NULL;
    int status = specialise_types(r, &g);
    for (size_t i = 0; !status && i < r->num_slots; i++) {
        slot *s = &r->slots[i];
        const flx_type *type = flx_val_type(g, flx_graph_input(g, i));
        if (s->value) {
            status = check_value(r, s, type);
            continue;
        }
        status = spec_check_filling(s->name, s->spec, type->dtype);
        for (int32_t k = 0; !status && k < type->rank; k++)
            if (!flx_dim_is_static(type->dims[k]))
                status = unbound(r, s);
        if (!status)
            status = spec_fill(r->model->ctx, s->name, s->spec, type, &s->value);
    }
    flx_graph_release(g);
    return status;
}

/* ---- All of it ---- */

static int read_all(reading *r, const args *a, missing_policy policy)
{
    int status = list_symbols(r);
    if (!status)
        status = list_slots(r);
    if (!status)
        status = apply_ins(r, a);
    if (!status)
        status = apply_sets(r, a);
    if (!status)
        status = find_beside(r, a);
    if (!status)
        status = read_files(r);
    if (!status)
        status = initialise(r, a);
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
    in->dims = known_extents(r, &in->num_dims);
    if (!in->feeds || !in->values || !in->dims)
        return fail_memory();
    for (size_t i = 0; i < r->num_slots; i++) {
        in->feeds[i] = (flx_feed){r->slots[i].name, r->slots[i].value};
        in->values[i] = r->slots[i].value;
        r->slots[i].value = NULL;
    }
    in->num_feeds = r->num_slots;
    return STATUS_OK;
}

static void end_reading(reading *r)
{
    for (size_t i = 0; r->slots && i < r->num_slots; i++)
        flx_tensor_release(r->slots[i].value);
    for (size_t i = 0; r->extents && i < r->num_extents; i++)
        free(r->extents[i].source);
    free(r->slots);
    free(r->extents);
    free(r->beside);
}

int inputs_read(inputs *in, const model *m, const args *a, missing_policy policy)
{
    *in = (inputs){0};
    reading r = {.model = m};
    int status = read_all(&r, a, policy);
    if (!status)
        status = hand_over(&r, in);
    end_reading(&r);
    return status;
}

int inputs_read_dims(inputs *in, const model *m, const args *a)
{
    *in = (inputs){0};
    reading r = {.model = m};
    int status = list_symbols(&r);
    if (!status)
        status = apply_sets(&r, a);
    if (!status) {
        in->dims = known_extents(&r, &in->num_dims);
        status = in->dims ? STATUS_OK : fail_memory();
    }
    end_reading(&r);
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
