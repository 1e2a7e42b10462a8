/* SPDX-License-Identifier: Apache-2.0 */
/* import.c: flx_import_stablehlo: parse, then import the entry function as a graph. */
#include "base/context.h"
#include "graph/module.h"
#include "stablehlo/bytecode/bytecode.h"
#include "stablehlo/import/import_narrow.h"
#include "stablehlo/import/import_program.h"
#include "stablehlo/import/import_scope.h"

#include <fluxion/stablehlo.h>
#include <stdio.h>

static const int64_t max_operations = 4000000; /* once calls are expanded */

const hlo_function *flxi_hlo_entry_function(const hlo_module *m, flx_error *err)
{
    flx_error local = {0};
    err = err ? err : &local;
    const hlo_function *f = flxi_hlo_find(m, "main");
    size_t n = 0;
    for (size_t i = 0; !f && i < m->num_functions; i++)
        n += m->functions[i].is_public;
    for (size_t i = 0; !f && n == 1 && i < m->num_functions; i++)
        f = m->functions[i].is_public ? &m->functions[i] : NULL;
    if (!f)
        flxi_fail_hint(err, FLX_E_NAME, "rename the entry function to @main", "there is no function @main");
    else if (f->is_declared_only)
        flxi_fail(err, FLX_E_NAME, "@%.80s has no body", f->name);
    return f && !f->is_declared_only ? f : NULL;
}

/* Whether values of the type cross the border as bytes. */
static bool is_coded(const hlo_scope *sc, const hlo_type *t)
{
    return (sc->im->flags & HLO_IMPORT_CODES) && t->kind == HLO_TENSOR && !t->quant && t->element != HLO_TF32 &&
           (flxi_hlo_is_narrow_float(t->element) || flxi_hlo_is_narrow_int(t->element));
}

/* Writes params.layers.0.w for params['layers'][0]['w']: a name that can be written as it is. Nothing is written where
   there is no letter or digit. */
static void plain_source(const char *source, char *out, size_t size)
{
    static const char parts[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    size_t n = 0;
    bool is_apart = false;
    for (const char *c = source; *c && n + 2 < size; c++) {
        bool is_part = strchr(parts, *c) != NULL;
        if (is_part && is_apart && n)
            out[n++] = '.';
        if (is_part)
            out[n++] = *c;
        is_apart = !is_part;
    }
    out[n] = 0;
}

/* arg0, or the name of the source; `_` before it where it is a word of the text form or begins with a digit. */
static void name_argument(const hlo_scope *sc, const hlo_value *argument, size_t i, char *name, size_t size)
{
    char *own = name + 1;
    own[0] = 0;
    if ((sc->im->flags & HLO_IMPORT_NAMES) && argument->source)
        plain_source(argument->source, own, size - 1);
    size_t n = strlen(own);
    name[0] = '_';
    if (!n)
        snprintf(name, size, "arg%zu", i);
    else if (flxi_is_name(own, n))
        memmove(name, own, n + 1);
}

/* `_` after a name that is taken; if that is taken too `_2`, `_3` … These numbers are not used twice in a program, so
   that many equal names take linear time. A name without room for them loses its end. */
static void make_only_one(hlo_scope *sc, char *name, size_t size)
{
    char ending[24] = "_";
    size_t leaf, n = strlen(name);
    for (bool is_first = true; flxi_find_leaf(sc->g, name, &leaf); is_first = false) {
        if (!is_first)
            snprintf(ending, sizeof ending, "_%zu", ++sc->im->num_renamed + 1);
        size_t room = size - 1 - strlen(ending), at = n < room ? n : room;
        snprintf(name + at, size - at, "%s", ending);
    }
}

/* Declares the argument's tensors as inputs: arg0, and for the parts of a tuple arg0_0, arg0_1 … */
static bool declare(hlo_scope *sc, const hlo_type *t, const char *name, flx_val *v, size_t *n)
{
    hlo_site site = {.im = sc->im, .scope = sc, .g = sc->g};
    flx_type type;
    char own[160];
    if (t->kind == HLO_TENSOR || t->kind == HLO_SCALAR) {
        if (!flxi_hlo_our_type(sc->g, t, name, &type))
            return false;
        for (int i = 0; i < type.rank; i++)
            type.dims[i] = flxi_hlo_assumed_extent(sc->im, type.dims[i]);
        bool coded = is_coded(sc, t);
        if (coded && flxi_hlo_is_narrow_float(t->element))
            type.dtype = FLX_U8;
        snprintf(own, sizeof own, "%s", name);
        make_only_one(sc, own, sizeof own);
        v[*n] = flx_input(sc->g, own, &type);
        if (coded)
            v[*n] = flxi_hlo_of_byte(&site, v[*n], t->element);
        (*n)++;
    }
    for (size_t i = 0; i < t->num_parts && (t->kind == HLO_TUPLE || t->kind == HLO_FUTURE); i++) {
        char part[160];
        snprintf(part, sizeof part, "%.120s_%zu", name, i);
        if (!declare(sc, t->parts[i], part, v, n))
            return false;
    }
    return true;
}

static bool declare_arguments(hlo_scope *sc, const hlo_function *f)
{
    for (size_t i = 0; i < f->body.num_args; i++) {
        const hlo_type *t = f->body.args[i]->type;
        char name[120];
        name_argument(sc, f->body.args[i], i, name, sizeof name);
        size_t n = 0;
        flx_val *v = flxi_new(&sc->im->arena, flx_val, flxi_hlo_parts(t) + 1);
        if (!v || !declare(sc, t, name, v, &n))
            return false;
        if (n == 1 && f->arg_attrs)
            v[0] = flxi_hlo_sharded(sc->g, &sc->im->mesh, v[0], flxi_hlo_sharding_of(f->arg_attrs[i]));
        if (!flxi_hlo_bind(sc, f->body.args[i], v, n))
            return false;
    }
    return true;
}

static void encode_results(hlo_scope *sc, flx_val *v, size_t n)
{
    const hlo_function *f = sc->function;
    hlo_site site = {.im = sc->im, .scope = sc, .g = sc->g};
    size_t at = 0;
    for (size_t i = 0; i < f->num_results && at < n; i++) {
        if (is_coded(sc, f->results[i]))
            v[at] = flxi_hlo_to_byte(&site, v[at], f->results[i]->element);
        at += flxi_hlo_parts(f->results[i]);
    }
}

static bool import_entry(hlo_import *im, const hlo_function *f, flx_graph *g)
{
    hlo_scope sc = {.im = im, .function = f, .g = g, .count = f->num_values};
    flx_val *results = NULL;
    size_t n = 0;
    sc.bound = flxi_new(&im->arena, hlo_binding, f->num_values + 1);
    if (!sc.bound || !declare_arguments(&sc, f) || !flxi_hlo_import_ops(&sc, &f->body, &results, &n))
        return false;
    encode_results(&sc, results, n);
    for (size_t i = 0; f->result_attrs && n == f->num_results && i < n; i++)
        results[i] = flxi_hlo_sharded(g, &im->mesh, results[i], flxi_hlo_sharding_of(f->result_attrs[i]));
    for (size_t i = 0; i < n; i++) {
        char name[32];
        snprintf(name, sizeof name, "out%zu", i);
        flx_output(g, results[i], name);
    }
    return flx_graph_error(g, NULL) == FLX_OK;
}

/* The graph of the entry function; NULL with im->error. */
static flx_graph *import_once(hlo_import *im, const hlo_function *f)
{
    flx_graph *g = flx_graph_new(im->ctx, "main");
    if (g && import_entry(im, f, g))
        return g;
    if (im->error.code == FLX_OK) {
        if (!g || flx_graph_error(g, &im->error) == FLX_OK)
            flxi_oom(&im->error, "a program");
        im->error.where[0] = 0;
        flxi_hlo_locate(&im->error, im->file, f->at);
    }
    flx_graph_release(g);
    return NULL;
}

static flx_code import_program(hlo_import *im, flx_module *out)
{
    const hlo_function *f = flxi_hlo_entry_function(im->module, &im->error);
    flx_graph *g = NULL;
    if (f)
        g = import_once(im, f);
    while (im->restarts) { /* each time with one symbol less */
        im->restarts = false;
        im->called.n = im->num_renamed = 0;
        im->error = (flx_error){0};
        g = import_once(im, f);
    }
    if (g && flxi_module_add(out, g) != FLX_OK)
        flxi_oom(&im->error, "a module");
    flx_graph_release(g);
    return (flx_code)im->error.code;
}

static void import_free(hlo_import *im)
{
    for (size_t i = im->kept.n; i-- > 0;)
        flx_graph_release(im->kept.at[i]);
    flxi_vec_free(&im->ctx->mem, &im->kept);
    flxi_vec_free(&im->ctx->mem, &im->called);
    flxi_known_free(&im->known);
    flxi_vec_free(&im->ctx->mem, &im->assumed);
    flxi_vec_free(&im->ctx->mem, &im->at_least);
    flxi_arena_free(&im->arena);
}

flx_module *flxi_hlo_import(flx_context *ctx, const hlo_module *program, const char *file, uint32_t flags,
                            flx_error *err)
{
    flx_module *m = flxi_module_new(ctx);
    hlo_import im = {
        .ctx = ctx, .module = program, .file = file, .flags = flags, .budget = max_operations, .known.mem = &ctx->mem};
    flxi_arena_init(&im.arena, &ctx->mem);
    flxi_hlo_read_mesh(program, &im.mesh);
    im.mesh.has_ignored = flags & HLO_IMPORT_WHOLE;
    flx_code code = m ? flxi_hlo_check_meshes(&ctx->mem, program, file, &im.error) : flxi_oom(&im.error, "a module");
    if (code == FLX_OK)
        code = import_program(&im, m);
    if (code != FLX_OK) {
        flx_module_free(m);
        m = NULL;
        if (err)
            *err = im.error;
    }
    import_free(&im);
    return m;
}

flx_code flxi_hlo_read(flx_context *ctx, const char *bytes, size_t size, const char *file, hlo_module *out,
                       flx_error *err)
{
    if (flxi_hlo_is_bytecode(bytes, size))
        return flxi_hlo_read_bytecode(&ctx->mem, bytes, size, file, out, err);
    flxi_hlo_artifact exported = flxi_hlo_exported_by_jax(bytes, size);
    if (exported.at)
        return flxi_hlo_read_bytecode(&ctx->mem, exported.at, exported.length, file, out, err);
    return flxi_hlo_parse(&ctx->mem, bytes, size, file, out, err);
}

flx_code flx_stablehlo_mesh(flx_context *ctx, const char *text, size_t length, const char *file, flx_buffer *out,
                            flx_error *err)
{
    hlo_module program = {0};
    hlo_mesh mesh;
    char axes[HLO_AXES_TEXT + 32 * FLXI_MESH_AXES];
    flxi_strbuf b;
    if (!ctx || (!text && length) || !out)
        return flxi_fail(err, FLX_E_USAGE, "flx_stablehlo_mesh: context, text and where to write must be given");
    FLXI_TRY(flxi_hlo_read(ctx, text, length, file ? file : "text", &program, err));
    flxi_hlo_read_mesh(&program, &mesh);
    flxi_hlo_mesh_text(&mesh, axes);
    flxi_hlo_module_free(&program);
    flxi_strbuf_init(&b, &ctx->mem);
    flxi_add_text(&b, axes);
    return flxi_buffer_finish(&b, ctx, out, err);
}

flx_module *flx_import_stablehlo_with(flx_context *ctx, const char *text, size_t length, const char *file,
                                      uint32_t flags, flx_error *err)
{
    flx_error local = {0};
    hlo_module program = {0};
    if (!ctx || (!text && length)) {
        flxi_fail(err, FLX_E_USAGE, "flx_import_stablehlo: context and text must be given");
        return NULL;
    }
    if (flags & ~(uint32_t)FLX_STABLEHLO_NAMES) {
        flxi_fail(err, FLX_E_USAGE, "flx_import_stablehlo: unknown flags 0x%x", (unsigned)flags);
        return NULL;
    }
    file = file ? file : "text";
    flx_module *m = NULL;
    if (flxi_hlo_read(ctx, text, length, file, &program, &local) == FLX_OK) {
        m = flxi_hlo_import(ctx, &program, file, flags & FLX_STABLEHLO_NAMES ? HLO_IMPORT_NAMES : 0, &local);
        flxi_hlo_module_free(&program);
    }
    if (!m && err)
        *err = local;
    return m;
}

flx_module *flx_import_stablehlo(flx_context *ctx, const char *text, size_t length, const char *file, flx_error *err)
{
    return flx_import_stablehlo_with(ctx, text, length, file, 0, err);
}
